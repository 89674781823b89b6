package objstore

import (
	"context"
	"sync"

	"github.com/overlakedb/overlake/internal/errs"
)

// Quota wraps a store and bounds the bytes in it: a write that would exceed the limit is Exhausted and leaves no trace.
type Quota struct {
	Store
	limit int64

	mu   sync.Mutex
	used int64
	size map[string]int64
}

// NewQuota wraps a store, counting what it holds already.
func NewQuota(ctx context.Context, s Store, limit int64) (Store, error) {
	q := &Quota{Store: s, limit: limit, size: map[string]int64{}}
	for info, err := range s.List(ctx, "") {
		if err != nil {
			return nil, err
		}
		q.size[info.Name] = info.Size
		q.used += info.Size
	}
	if p, ok := s.(LocalPather); ok {
		return quotaLocal{q, p}, nil
	}
	return q, nil
}

type quotaLocal struct {
	*Quota
	p LocalPather
}

func (q quotaLocal) LocalPath(name string) (string, bool) { return q.p.LocalPath(name) }

func (q *Quota) reserve(name string, n int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.used+n > q.limit {
		return errs.New(errs.Exhausted, "objstore.quota", "the quota of the warehouse is used up", errs.On(name),
			errs.Hint("raise the quota above %d bytes or delete data", q.limit))
	}
	q.used += n
	return nil
}

// settle turns reserved bytes into the size of a stored object, or gives them back when err says it was not stored.
func (q *Quota) settle(name string, n int64, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil {
		q.used -= n
		return
	}
	q.used -= q.size[name]
	q.size[name] = n
}

// Put writes an object within the quota.
func (q *Quota) Put(ctx context.Context, name string, data []byte, cond Condition) (Info, error) {
	if err := q.reserve(name, int64(len(data))); err != nil {
		return Info{}, err
	}
	info, err := q.Store.Put(ctx, name, data, cond)
	q.settle(name, int64(len(data)), err)
	return info, err
}

// Create streams an object within the quota.
func (q *Quota) Create(ctx context.Context, name string, cond Condition) (Writer, error) {
	w, err := q.Store.Create(ctx, name, cond)
	if err != nil {
		return nil, err
	}
	return &quotaWriter{Writer: w, q: q, name: name}, nil
}

type quotaWriter struct {
	Writer
	q    *Quota
	name string
	n    int64
}

func (w *quotaWriter) Write(p []byte) (int, error) {
	if err := w.q.reserve(w.name, int64(len(p))); err != nil {
		return 0, err
	}
	w.n += int64(len(p))
	return w.Writer.Write(p)
}

func (w *quotaWriter) Commit(ctx context.Context) (Info, error) {
	info, err := w.Writer.Commit(ctx)
	w.q.settle(w.name, w.n, err)
	w.n = 0
	return info, err
}

func (w *quotaWriter) Abort() error {
	w.q.settle(w.name, w.n, errs.New(errs.Canceled, "objstore.abort", "aborted"))
	w.n = 0
	return w.Writer.Abort()
}

// Delete removes an object and gives its bytes back.
func (q *Quota) Delete(ctx context.Context, name string) error {
	err := q.Store.Delete(ctx, name)
	if err == nil {
		q.mu.Lock()
		q.used -= q.size[name]
		delete(q.size, name)
		q.mu.Unlock()
	}
	return err
}

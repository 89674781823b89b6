package objstore

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/overlakedb/overlake/internal/errs"
)

// Quota wraps a store and bounds the bytes of the objects in it: a write that would exceed the limit is Exhausted and
// leaves no trace. A write counts beside the version it replaces until it is done, as both exist then.
//
// The count is this value's own: what other processes write and delete is seen when the store is listed, at the start and
// again before a write is refused (at most once a second). Several processes with one quota can so exceed it together by
// what each writes between two listings.
type Quota struct {
	s     Store
	limit int64

	names keyed        // one change of a name at a time, so that the count follows the order of the changes
	sums  sync.RWMutex // held for reading from a change to its count; for writing while counting anew

	mu       sync.Mutex
	stored   int64 // bytes of objects
	reserved int64 // bytes of writes under way
	counted  time.Time
}

// recountEvery bounds how often a full store is listed again.
const recountEvery = time.Second

// NewQuota wraps a store with a limit in bytes, counting what it holds already. The result is a LocalPather and a Sweeper,
// or a Getter, when the store is.
func NewQuota(ctx context.Context, s Store, limit int64) (Store, error) {
	if limit < 0 {
		return nil, errs.Newf(errs.Invalid, "objstore.quota", "the quota is negative: %d", limit)
	}
	q := &Quota{s: s, limit: limit}
	if err := q.recount(ctx); err != nil {
		return nil, err
	}
	switch x := s.(type) {
	case localSweeper:
		return quotaLocal{q, x}, nil
	case Getter:
		return quotaGetter{q, x}, nil
	}
	return q, nil
}

type localSweeper interface {
	LocalPather
	Sweeper
}

type quotaLocal struct {
	*Quota
	l localSweeper
}

func (q quotaLocal) LocalPath(name string) (string, bool)     { return q.l.LocalPath(name) }
func (q quotaLocal) Sweep(ctx context.Context) (Swept, error) { return q.l.Sweep(ctx) }

type quotaGetter struct {
	*Quota
	g Getter
}

func (q quotaGetter) Get(ctx context.Context, name string, off, most int64) ([]byte, Info, error) {
	return q.g.Get(ctx, name, off, most)
}

// Used is the number of bytes counted now, writes under way included.
func (q *Quota) Used() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stored + q.reserved
}

// recount lists the store; no change can come between the listing and the count.
func (q *Quota) recount(ctx context.Context) error {
	q.sums.Lock()
	defer q.sums.Unlock()
	var sum int64
	for info, err := range q.s.List(ctx, "") {
		if err != nil {
			return err
		}
		sum += info.Size
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stored, q.counted = sum, time.Now()
	return nil
}

func (q *Quota) fits(n int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n > q.limit-q.stored-q.reserved {
		return false
	}
	q.reserved += n
	return true
}

func (q *Quota) reserve(ctx context.Context, name string, n int64) error {
	if q.fits(n) {
		return nil
	}
	q.mu.Lock()
	again := time.Since(q.counted) >= recountEvery
	q.mu.Unlock()
	if again {
		if err := q.recount(ctx); err != nil {
			return err
		}
		if q.fits(n) {
			return nil
		}
	}
	return errs.New(errs.Exhausted, "objstore.quota", "the quota of the warehouse is used up", errs.On(name),
		errs.Hint("raise the quota above %d bytes or delete data", q.limit))
}

func (q *Quota) release(n int64) {
	q.mu.Lock()
	q.reserved -= n
	q.mu.Unlock()
}

// change makes one change of a name and corrects the count by what it did, which is asked from the store before and
// after: so a lost answer counts rightly too. If the store cannot be asked after, the bytes stay counted until the next
// listing.
func (q *Quota) change(ctx context.Context, name string, n int64, do func() (Info, error)) (Info, error) {
	unlock, err := q.names.lock(ctx, name)
	if err != nil {
		return Info{}, err
	}
	defer unlock()
	q.sums.RLock()
	defer q.sums.RUnlock()
	before, err := q.sizeOf(ctx, name)
	if err != nil {
		return Info{}, err
	}
	info, err := do()
	after := info.Size
	switch {
	case err == nil:
	case errs.Is(err, errs.Unavailable) || errs.Is(err, errs.Canceled) || errs.Is(err, errs.Internal):
		var serr error
		if after, serr = q.sizeOf(context.WithoutCancel(ctx), name); serr != nil {
			after = before + n
		}
	default:
		after = before
	}
	q.mu.Lock()
	q.stored += after - before
	q.mu.Unlock()
	return info, err
}

func (q *Quota) sizeOf(ctx context.Context, name string) (int64, error) {
	info, err := q.s.Stat(ctx, name)
	if errs.Is(err, errs.NotFound) {
		return 0, nil
	}
	return info.Size, err
}

// Location is that of the wrapped store.
func (q *Quota) Location() string { return q.s.Location() }

// Open opens an object.
func (q *Quota) Open(ctx context.Context, name string) (Object, error) { return q.s.Open(ctx, name) }

// Stat describes an object.
func (q *Quota) Stat(ctx context.Context, name string) (Info, error) { return q.s.Stat(ctx, name) }

// List yields objects by prefix.
func (q *Quota) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return q.s.List(ctx, prefix)
}

// Put writes an object within the quota.
func (q *Quota) Put(ctx context.Context, name string, data []byte, cond Condition) (Info, error) {
	if err := check(ctx, "objstore.put", name); err != nil {
		return Info{}, err
	}
	n := int64(len(data))
	if err := q.reserve(ctx, name, n); err != nil {
		return Info{}, err
	}
	defer q.release(n)
	return q.change(ctx, name, n, func() (Info, error) { return q.s.Put(ctx, name, data, cond) })
}

// Create streams an object within the quota.
func (q *Quota) Create(ctx context.Context, name string, cond Condition) (Writer, error) {
	w, err := q.s.Create(ctx, name, cond)
	if err != nil {
		return nil, err
	}
	return &quotaWriter{w: w, q: q, ctx: ctx, name: name}, nil
}

type quotaWriter struct {
	w     Writer
	q     *Quota
	ctx   context.Context
	name  string
	n     int64
	ended bool
}

func (w *quotaWriter) Write(p []byte) (int, error) {
	if w.ended {
		return 0, spent("objstore.write", w.name)
	}
	n := int64(len(p))
	if err := w.q.reserve(w.ctx, w.name, n); err != nil {
		return 0, err
	}
	w.n += n
	return w.w.Write(p)
}

func (w *quotaWriter) Commit(ctx context.Context) (Info, error) {
	if w.ended {
		return Info{}, spent("objstore.commit", w.name)
	}
	w.ended = true
	defer w.q.release(w.n)
	called := false
	info, err := w.q.change(ctx, w.name, w.n, func() (Info, error) {
		called = true
		return w.w.Commit(ctx)
	})
	if !called {
		err = also(err, w.w.Abort())
	}
	return info, err
}

func (w *quotaWriter) Abort() error {
	if w.ended {
		return nil
	}
	w.ended = true
	defer w.q.release(w.n)
	return w.w.Abort()
}

// Delete removes an object and gives its bytes back.
func (q *Quota) Delete(ctx context.Context, name string) error {
	if err := check(ctx, "objstore.delete", name); err != nil {
		return err
	}
	_, err := q.change(ctx, name, 0, func() (Info, error) { return Info{}, q.s.Delete(ctx, name) })
	return err
}

// keyed is a set of locks, one for each key in use. The zero value is ready.
type keyed struct {
	mu   sync.Mutex
	held map[string]*turn
}

type turn struct {
	taken chan struct{} // full while somebody has the turn
	users int           // who has it or waits for it
}

func (k *keyed) lock(ctx context.Context, key string) (unlock func(), err error) {
	k.mu.Lock()
	if k.held == nil {
		k.held = map[string]*turn{}
	}
	t := k.held[key]
	if t == nil {
		t = &turn{taken: make(chan struct{}, 1)}
		k.held[key] = t
	}
	t.users++
	k.mu.Unlock()
	leave := func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(k.held, key)
		}
	}
	select {
	case t.taken <- struct{}{}:
		return func() { <-t.taken; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, errs.Wrap(errs.Canceled, "objstore.wait", ctx.Err(), errs.On(key))
	}
}

package storetest

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/overlakedb/overlake/internal/objstore"
)

// Far makes a store far away: every request takes a round trip, and is noted with the time at which it began. In a bubble of
// testing/synctest, where a clock goes on only when all goroutines wait, requests of one time were made at once, and those of
// the next time had to wait for an answer: so the different times are the dependent rounds.
type Far struct {
	objstore.Store
	Trip time.Duration

	mu   sync.Mutex
	list []request
}

type request struct {
	at   time.Time
	what string
}

func (f *Far) trip(ctx context.Context, format string, args ...any) {
	f.mu.Lock()
	f.list = append(f.list, request{time.Now(), fmt.Sprintf(format, args...)})
	f.mu.Unlock()
	select {
	case <-time.After(f.Trip):
	case <-ctx.Done():
	}
}

// Rounds gives the requests since it was called last, round by round.
func (f *Far) Rounds() [][]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	slices.SortStableFunc(f.list, func(a, b request) int { return cmp.Or(a.at.Compare(b.at), strings.Compare(a.what, b.what)) })
	var out [][]string
	for i, r := range f.list {
		if i == 0 || !r.at.Equal(f.list[i-1].at) {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], r.what)
	}
	f.list = nil
	return out
}

// Open opens an object.
func (f *Far) Open(ctx context.Context, name string) (objstore.Object, error) {
	f.trip(ctx, "open %s", name)
	o, err := f.Store.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return farObject{o, f, name}, nil
}

// Stat describes an object.
func (f *Far) Stat(ctx context.Context, name string) (objstore.Info, error) {
	f.trip(ctx, "stat %s", name)
	return f.Store.Stat(ctx, name)
}

// List yields objects by prefix.
func (f *Far) List(ctx context.Context, prefix string) iter.Seq2[objstore.Info, error] {
	f.trip(ctx, "list %s", prefix)
	return f.Store.List(ctx, prefix)
}

// Get reads a range.
func (f *Far) Get(ctx context.Context, name string, off, most int64) ([]byte, objstore.Info, error) {
	f.trip(ctx, "get %s", name)
	return f.Store.(objstore.Getter).Get(ctx, name, off, most)
}

// Put stores an object.
func (f *Far) Put(ctx context.Context, name string, data []byte, cond objstore.Condition) (objstore.Info, error) {
	f.trip(ctx, "put %s", name)
	return f.Store.Put(ctx, name, data, cond)
}

// Delete removes an object.
func (f *Far) Delete(ctx context.Context, name string) error {
	f.trip(ctx, "delete %s", name)
	return f.Store.Delete(ctx, name)
}

// farObject hides that the object is near.
type farObject struct {
	o    objstore.Object
	f    *Far
	name string
}

func (o farObject) ReadAt(p []byte, off int64) (int, error) {
	return o.ReadAtContext(context.Background(), p, off)
}

func (o farObject) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	o.f.trip(ctx, "read %s", o.name)
	return o.o.ReadAt(p, off)
}
func (o farObject) Size() int64  { return o.o.Size() }
func (o farObject) ETag() string { return o.o.ETag() }
func (o farObject) Close() error { return o.o.Close() }

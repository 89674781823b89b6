package vector_test

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/overlakedb/overlake/internal/index/vector"
	"github.com/overlakedb/overlake/internal/index/vector/section"
)

// far answers each read after one unit of time, however many there are at once: the time that passes is the rounds.
type far struct {
	section.Memory
	requests, bytes *atomic.Int64
}

func (f far) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	f.requests.Add(1)
	f.bytes.Add(int64(len(p)))
	time.Sleep(time.Second)
	return f.Memory.ReadAtContext(ctx, p, off)
}

// TestColdSearch: lists are opened in two rounds, and searched in three more at most that read a small part of them.
func TestColdSearch(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	const n, dim = 18_000, 512 // more than is read whole
	rows := make([][]float32, n)
	for i := range rows {
		rows[i] = make([]float32, dim)
		for k := range rows[i] {
			rows[i][k] = float32(i%100*(k%7)) + float32(rng.NormFloat64())
		}
	}
	b, _ := build(t, vector.Options{Kind: vector.IVF, Dim: dim, Rows: n, Params: map[string]string{"lists": "100"}}, rows)
	synctest.Test(t, func(t *testing.T) {
		src := far{Memory: b, requests: new(atomic.Int64), bytes: new(atomic.Int64)}
		ctx := t.Context()
		rounds := func(f func()) (int64, int64, int64) {
			start, r, by := time.Now(), src.requests.Load(), src.bytes.Load()
			f()
			return int64(time.Since(start) / time.Second), src.requests.Load() - r, src.bytes.Load() - by
		}
		var x *vector.Reader
		opening, requests, bytes := rounds(func() {
			var err error
			if x, err = vector.Open(ctx, src, int64(len(b))); err != nil {
				t.Fatal(err)
			}
		})
		t.Logf("open: %d rounds, %d requests, %d of %d bytes", opening, requests, bytes, len(b))
		if opening > 2 {
			t.Errorf("it is opened in %d rounds", opening)
		}
		searching, requests, bytes := rounds(func() {
			if _, err := x.Search(ctx, rows[77], vector.Params{K: 10}); err != nil {
				t.Fatal(err)
			}
		})
		t.Logf("search: %d rounds, %d requests, %d bytes", searching, requests, bytes)
		if searching > 3 || requests > 120 || bytes > int64(len(b))/4 {
			t.Errorf("it is searched in %d rounds with %d requests", searching, requests)
		}
	})
}

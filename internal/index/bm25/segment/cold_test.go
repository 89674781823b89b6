package segment_test

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/overlakedb/overlake/internal/index/bm25/posting"
	"github.com/overlakedb/overlake/internal/index/bm25/segment"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
)

// far answers each read after one unit of time, however many there are at once: the time that passes is the rounds.
type far struct {
	memory
	requests, bytes *atomic.Int64
}

func (f far) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	f.requests.Add(1)
	f.bytes.Add(int64(len(p)))
	time.Sleep(time.Second)
	return f.memory.ReadAtContext(ctx, p, off)
}

// TestColdSearch: a segment is opened in one round and searched in two, of which the second reads what the query needs.
func TestColdSearch(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 9))
	s := shape{rows: 30000, fields: 1, vocabulary: 40000, length: 14, skew: 0.05, dense: 0.9}
	of := draw(rng, s)
	b := build(t, of, 0, s.rows, segment.Options{Fields: fields(1, true)})
	m := modelOf(of, 0, s.rows, 1)
	norms := m.norms(similarity.DefaultParams)
	words := of[17][0][:3]
	synctest.Test(t, func(t *testing.T) {
		src := far{memory: b, requests: new(atomic.Int64), bytes: new(atomic.Int64)}
		rounds := func(what string, most int64, share float64, f func()) {
			start, r, by := time.Now(), src.requests.Load(), src.bytes.Load()
			f()
			took, requests, bytes := int64(time.Since(start)/time.Second), src.requests.Load()-r, src.bytes.Load()-by
			t.Logf("%s: %d rounds, %d requests, %d of %d bytes", what, took, requests, bytes, len(b))
			if took > most || float64(bytes) > share*float64(len(b)) {
				t.Errorf("%s takes %d rounds and %d bytes", what, took, bytes)
			}
		}
		var r *segment.Reader
		rounds("open", 1, 0.1, func() {
			var err error
			if r, err = segment.Open(t.Context(), src, int64(len(b)), segment.OpenOptions{}); err != nil {
				t.Fatal(err)
			}
		})
		for _, phrase := range []bool{false, true} {
			var terms []posting.Term
			var list [][]byte
			for _, w := range words {
				list = append(list, []byte(w.term))
			}
			rounds("lookup", 1, 0.2, func() {
				var err error
				if terms, err = r.Lookup(t.Context(), 0, list); err != nil {
					t.Fatal(err)
				}
			})
			q := segment.Query{Norms: norms}
			for i, term := range terms {
				if i == 0 && phrase {
					q.Phrase = &segment.Phrase{Terms: terms, Weight: 1}
				}
				if !phrase {
					q.Clauses = append(q.Clauses, segment.Clause{Term: term, Weight: 1})
				}
			}
			rounds("search", 1, 0.5, func() {
				c := collector(10, -1)
				if err := r.Best(t.Context(), &q, nil, 0, c); err != nil {
					t.Fatal(err)
				}
				if c.Hits == 0 {
					t.Error("nothing is found")
				}
			})
		}
	})
}

// TestConcurrentSearches asks one reader from several goroutines; the race detector looks on.
func TestConcurrentSearches(t *testing.T) {
	rng := rand.New(rand.NewPCG(32, 9))
	s := shapes[2]
	of := draw(rng, s)
	b := build(t, of, 0, s.rows, segment.Options{Fields: fields(s.fields, true)})
	m := modelOf(of, 0, s.rows, s.fields)
	norms := m.norms(similarity.DefaultParams)
	r := open(t, b, segment.OpenOptions{})
	done := make(chan error, 4)
	for g := range 4 {
		rng := rand.New(rand.NewPCG(uint64(g), 10))
		go func() {
			for range 40 {
				q := drawQuery(rng, of, s.fields, func(f int) bool { return f != 1 })
				c := collector(10, -1)
				ask(t, r, q, norms, nil, 0, c)
				want := m.hits(q, norms, nil)
				if got := c.Top.Hits(); len(got) != min(10, len(want)) || len(got) > 0 && got[0] != want[0] {
					t.Errorf("%v: %v", q, got)
				}
			}
			done <- nil
		}()
	}
	for range 4 {
		<-done
	}
}

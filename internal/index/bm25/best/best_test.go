package best_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/overlakedb/overlake/internal/index/bm25/best"
	"github.com/overlakedb/overlake/internal/row"
)

// TestBestRows: whatever the order and however split, the k best of all are kept, and Bound drops none of them.
func TestBestRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 500 {
		n, k := rng.IntN(300), rng.IntN(40)
		var all row.Hits
		for i := range n {
			all = append(all, row.Hit{Addr: row.Addr{File: uint32(rng.IntN(4)), Pos: int64(i)}, Score: float32(rng.IntN(12))})
		}
		want := slices.Clone(all)
		want.SortDescending()
		want = want[:min(k, n)]
		b, left, right := best.New(k), best.New(k), best.New(k)
		slices.SortFunc(all, func(a, b row.Hit) int { return a.Addr.Compare(b.Addr) })
		for i, h := range all {
			if h.Score > b.Bound(h.File) {
				b.Offer(h.File, uint32(h.Pos), h.Score)
			}
			[]*best.Rows{left, right}[i%2].Offer(h.File, uint32(h.Pos), h.Score)
		}
		left.Merge(right)
		backwards := best.New(k)
		for _, h := range slices.Backward(all) {
			backwards.Offer(h.File, uint32(h.Pos), h.Score)
		}
		for name, got := range map[string]*best.Rows{"bounded": b, "merged": left, "backwards": backwards} {
			if !slices.Equal(got.Hits(), want) || got.Len() != len(want) {
				t.Fatalf("%s, %d of %d: %v, want %v", name, k, n, got.Hits(), want)
			}
		}
	}
	if b := best.New(0); b.Bound(0) != float32(math.Inf(1)) || b.K() != 0 {
		t.Error("an empty list has no bound")
	}
	b := best.New(1)
	b.Offer(3, 0, 1)
	if b.Bound(3) != 1 || !(b.Bound(2) < 1) {
		t.Error("an equal score of an earlier part is better")
	}
}

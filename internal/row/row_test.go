package row_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/overlakedb/overlake/internal/row"
)

func TestBitmapAgreesWithAMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	b, model := row.NewBitmap(), map[int64]bool{}
	for range 2000 {
		p := rng.Int64N(5000)
		b.Add(p)
		model[p] = true
	}
	b.AddRange(100, 130)
	for p := int64(100); p < 130; p++ {
		model[p] = true
	}
	if b.Len() != int64(len(model)) {
		t.Fatalf("Len = %d, want %d", b.Len(), len(model))
	}
	words := b.Words(4000)
	for p := int64(0); p < 5000; p++ {
		if b.Contains(p) != model[p] {
			t.Fatalf("Contains(%d) = %v", p, b.Contains(p))
		}
		if p < 4000 && (words[p>>6]>>(p&63)&1 == 1) != model[p] {
			t.Fatalf("Words disagrees at %d", p)
		}
	}
	if got := slices.Collect(b.All()); !slices.IsSorted(got) || int64(len(got)) != b.Len() || got[len(got)-1] != b.Max() {
		t.Error("All is not the ascending set")
	}
	c := b.Clone()
	c.Add(9999)
	if b.Contains(9999) {
		t.Error("a clone shares its set")
	}
}

func TestNilBitmapIsEmpty(t *testing.T) {
	var b *row.Bitmap
	if b.Len() != 0 || b.Contains(3) || b.Max() != -1 || len(slices.Collect(b.All())) != 0 || b.Words(65)[1] != 0 {
		t.Error("nil is not empty")
	}
	if b.Clone().Len() != 0 {
		t.Error("the clone of nil is not empty")
	}
}

func TestHitsOrderIsTotal(t *testing.T) {
	h := row.Hits{{row.Addr{File: 1, Pos: 0}, 2}, {row.Addr{File: 0, Pos: 9}, 2}, {row.Addr{File: 0, Pos: 3}, 2}, {row.Addr{File: 5, Pos: 5}, 3}}
	h.SortDescending()
	want := []row.Addr{{File: 5, Pos: 5}, {File: 0, Pos: 3}, {File: 0, Pos: 9}, {File: 1, Pos: 0}}
	for i, w := range want {
		if h[i].Addr != w {
			t.Fatalf("rank %d is %v, want %v", i, h[i].Addr, w)
		}
		if i > 0 && !row.Better(h[i-1], h[i]) {
			t.Errorf("Better disagrees with the order at %d", i)
		}
	}
}

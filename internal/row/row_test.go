package row_test

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/overlakedb/overlake/internal/row"
)

// world builds a set and its model: sparse, dense and far positions, and ranges.
func world(rng *rand.Rand) (*row.Bitmap, map[int64]bool) {
	b, model := row.NewBitmap(), map[int64]bool{}
	var many []int64
	for range rng.IntN(3000) {
		p := rng.Int64N(5000)
		if rng.IntN(10) == 0 {
			p = rng.Int64N(1 << 40)
		}
		many = append(many, p)
		model[p] = true
	}
	b.AddMany(many)
	for range rng.IntN(4) {
		lo := rng.Int64N(5000)
		hi := lo + rng.Int64N(300)
		b.AddRange(lo, hi)
		for p := lo; p < hi; p++ {
			model[p] = true
		}
	}
	return b, model
}

func check(t *testing.T, what string, b *row.Bitmap, model map[int64]bool) {
	t.Helper()
	want := slices.Sorted(maps.Keys(model))
	if got := slices.Collect(b.All()); !slices.Equal(got, want) {
		t.Fatalf("%s: All yields %d positions, want %d", what, len(got), len(want))
	}
	if b.Len() != int64(len(want)) {
		t.Fatalf("%s: Len = %d, want %d", what, b.Len(), len(want))
	}
	if m := b.Max(); len(want) > 0 && m != want[len(want)-1] || len(want) == 0 && m != -1 {
		t.Fatalf("%s: Max = %d", what, m)
	}
	for p := int64(0); p < 5400; p++ {
		if b.Contains(p) != model[p] {
			t.Fatalf("%s: Contains(%d) = %v", what, p, b.Contains(p))
		}
	}
	for _, rows := range []int64{1, 63, 64, 65, 4000} {
		words := b.Words(rows)
		if int64(len(words)) != (rows+63)/64 {
			t.Fatalf("%s: %d words for %d rows", what, len(words), rows)
		}
		for p := range int64(len(words)) * 64 {
			if got := words[p>>6]>>(p&63)&1 == 1; got != (p < rows && model[p]) {
				t.Fatalf("%s: Words(%d) disagrees at %d", what, rows, p)
			}
		}
	}
}

func TestBitmapAgreesWithAMap(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 2))
		a, am := world(rng)
		b, bm := world(rng)
		check(t, "built", a, am)

		or, and, not := a.Clone(), a.Clone(), a.Clone()
		orm, andm, notm := maps.Clone(am), map[int64]bool{}, map[int64]bool{}
		or.Or(b)
		maps.Copy(orm, bm)
		and.And(b)
		not.AndNot(b)
		for _, size := range []int64{1, 64, 1000, 1 << 17} {
			want := map[int64]bool{}
			for p := range am {
				want[p/size*size] = true
			}
			last := int64(-1)
			for first := range a.Blocks(size) {
				if !want[first] || first <= last {
					t.Fatalf("seed %d: block %d of %d", seed, first, size)
				}
				delete(want, first)
				last = first
			}
			if len(want) > 0 {
				t.Fatalf("seed %d: blocks of %d missing: %v", seed, size, want)
			}
		}
		for p := range am {
			if bm[p] {
				andm[p] = true
			} else {
				notm[p] = true
			}
		}
		check(t, "or", or, orm)
		check(t, "and", and, andm)
		check(t, "and not", not, notm)
		check(t, "untouched by its clones", a, am)
		if !a.Equal(a.Clone()) || a.Equal(or) != (len(orm) == len(am)) {
			t.Error("Equal is wrong")
		}
		a.AndNot(a)
		check(t, "minus itself", a, nil)
	}
}

func TestFromWordsIsTheReverseOfWords(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 4))
		words := make([]uint64, rng.IntN(4000))
		model := map[int64]bool{}
		for i := range words {
			switch rng.IntN(4) {
			case 0:
				words[i] = ^uint64(0)
			case 1:
				words[i] = rng.Uint64()
			case 2:
				words[i] = 1 << rng.IntN(64)
			}
		}
		for p := range int64(len(words)) * 64 {
			if words[p>>6]>>(p&63)&1 == 1 {
				model[p] = true
			}
		}
		b := row.FromWords(slices.Clone(words))
		check(t, "from words", b, model)
		if !slices.Equal(b.Words(int64(len(words))*64), words) {
			t.Fatal("Words gives other words")
		}
		b.Add(5)
		b.AddRange(100, 90_000)
		if !b.Contains(5) || !b.Contains(80_000) {
			t.Fatal("the set cannot be added to")
		}
	}
	if b := row.FromWords(nil); b.Len() != 0 || b.Max() != -1 {
		t.Error("no words are not the empty set")
	}
	if b := row.FromWords(make([]uint64, 9)); b.Len() != 0 || b.Max() != -1 || !b.Equal(nil) {
		t.Error("zeros are not the empty set")
	}
}

func TestNilBitmapIsEmpty(t *testing.T) {
	var b *row.Bitmap
	if b.Len() != 0 || b.Contains(3) || b.Max() != -1 || len(slices.Collect(b.All())) != 0 || b.Words(65)[1] != 0 {
		t.Error("nil is not empty")
	}
	if b.Clone().Len() != 0 || !b.Equal(row.NewBitmap()) || !row.NewBitmap().Equal(nil) {
		t.Error("the clone of nil is not empty")
	}
	c := row.BitmapOf(1, 2)
	c.Or(nil)
	c.AndNot(nil)
	if c.Len() != 2 {
		t.Error("nil removed or added something")
	}
	if c.And(nil); c.Len() != 0 {
		t.Error("the intersection with nil is not empty")
	}
}

func TestNegativePositionsAreNoRows(t *testing.T) {
	b := row.BitmapOf(-1, 5, math.MinInt64)
	b.Add(-7)
	b.AddRange(-3, 2)
	b.AddRange(9, 9)
	b.AddRange(9, 3)
	if got := slices.Collect(b.All()); !slices.Equal(got, []int64{0, 1, 5}) || b.Contains(-1) {
		t.Errorf("the set is %v", got)
	}
	if b.Words(-1) != nil || b.Words(0) != nil {
		t.Error("no rows need no words")
	}
	b.Add(math.MaxInt64)
	if b.Max() != math.MaxInt64 {
		t.Errorf("Max = %d", b.Max())
	}
}

func TestSet(t *testing.T) {
	var s row.Set
	var none *row.Set
	if s.Len() != 0 || none.Len() != 0 || none.Get(1) != nil || none.Contains(row.Addr{}) {
		t.Error("an empty set is not empty")
	}
	for range none.Files() {
		t.Error("nil has files")
	}
	s.Add(row.Addr{File: 7, Pos: 3})
	s.Add(row.Addr{File: 7, Pos: 4})
	s.Put(2, row.BitmapOf(9))
	s.Put(5, row.NewBitmap())
	var files []uint32
	for f, b := range s.Files() {
		files = append(files, f)
		if b != s.Get(f) {
			t.Errorf("file %d has two bitmaps", f)
		}
	}
	if !slices.Equal(files, []uint32{2, 5, 7}) || s.Len() != 3 || !s.Contains(row.Addr{File: 7, Pos: 4}) || s.Contains(row.Addr{File: 2, Pos: 4}) {
		t.Errorf("files %v, %d rows", files, s.Len())
	}
	s.Put(7, nil)
	if s.Len() != 1 || s.Get(7) != nil {
		t.Error("a removed file is still there")
	}
}

func TestHitsOrderIsTotal(t *testing.T) {
	nan := float32(math.NaN())
	hit := func(file uint32, pos int64, score float32) row.Hit {
		return row.Hit{Addr: row.Addr{File: file, Pos: pos}, Score: score}
	}
	h := row.Hits{hit(1, 0, 2), hit(0, 9, 2), hit(8, 8, nan), hit(0, 3, 2), hit(5, 5, 3), hit(8, 1, nan), hit(9, 9, -1)}
	h.SortDescending()
	order := func(want ...row.Addr) {
		t.Helper()
		for i, w := range want {
			if h[i].Addr != w {
				t.Fatalf("rank %d is %v, want %v", i, h[i].Addr, w)
			}
		}
	}
	at := func(file uint32, pos int64) row.Addr { return row.Addr{File: file, Pos: pos} }
	order(at(5, 5), at(0, 3), at(0, 9), at(1, 0), at(9, 9), at(8, 1), at(8, 8))
	for i := 1; i < len(h); i++ {
		if !row.Better(h[i-1], h[i]) || row.Better(h[i], h[i-1]) {
			t.Errorf("Better disagrees with the order at %d", i)
		}
	}
	h.SortAscending()
	order(at(9, 9), at(0, 3), at(0, 9), at(1, 0), at(5, 5), at(8, 1), at(8, 8))
}

func BenchmarkWords(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	s := row.NewBitmap()
	for range 10_000 {
		s.Add(rng.Int64N(1_000_000))
	}
	for b.Loop() {
		s.Words(1_000_000)
	}
}

func TestPartOfABitmap(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	b, model := world(rng)
	for range 200 {
		first, rows := rng.Int64N(6000), rng.Int64N(900)
		want := map[int64]bool{}
		for p := range model {
			if p >= first && p < first+rows {
				want[p-first] = true
			}
		}
		check(t, "part", b.Part(first, rows), want)
		if n := b.CountRange(first, first+rows); n != int64(len(want)) {
			t.Fatalf("CountRange = %d, want %d", n, len(want))
		}
	}
	var none *row.Bitmap
	if none.Part(0, 5).Len() != 0 || b.Part(-1, 5).Len() != 0 || b.Part(0, 0).Len() != 0 || none.CountRange(0, 9) != 0 || b.CountRange(5, 5) != 0 {
		t.Error("an empty part is not empty")
	}
}

package lists

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestCursor: allowed rows by rank, of positions without gaps and with, beside a plain look at each.
func TestCursor(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		rows := 1 + rng.IntN(700)
		x := &Index{}
		x.p = &params{rows: int64(rows)}
		end := rows
		if seed%3 > 0 {
			pos := uint32(rng.IntN(70))
			for range rows {
				x.positions = append(x.positions, pos)
				pos += 1 + uint32(rng.IntN(int(seed%3)*40))*uint32(rng.IntN(2))
			}
			end = int(pos)
		}
		allowed := make([]uint64, rng.IntN(end/64+3))
		share := rng.Float64() * rng.Float64()
		for i := range allowed {
			for b := range 64 {
				if rng.Float64() < share {
					allowed[i] |= 1 << b
				}
			}
		}
		var want [][2]uint32 // rank and position
		for rank := range uint32(rows) {
			pos := rank
			if x.positions != nil {
				pos = x.positions[rank]
			}
			if w := int(pos >> 6); w < len(allowed) && allowed[w]>>(pos&63)&1 != 0 {
				want = append(want, [2]uint32{rank, pos})
			}
		}
		s := search{Index: x, p: Params{Allowed: allowed}}
		ranks, positions := make([]uint32, 1+rng.IntN(90)), make([]uint32, 90)
		var got [][2]uint32
		for at := (cursor{}); ; {
			n := s.next(&at, ranks, positions)
			if n == 0 {
				break
			}
			for i := range n {
				got = append(got, [2]uint32{ranks[i], positions[i]})
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: got %v, want %v", seed, got, want)
		}
	}
}

// TestMarks: the bits of some rows, by place and by position, and the places listed in parts.
func TestMarks(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 4))
		n := 1 + rng.IntN(600)
		q := &query{rows: make([]uint64, (n+63)/64)}
		s := search{q: q, p: Params{Allowed: make([]uint64, rng.IntN(12))}}
		for i := range s.p.Allowed {
			s.p.Allowed[i] = rng.Uint64() & rng.Uint64()
		}
		var marked []uint32
		for place := range uint32(n) {
			if rng.IntN(3) == 0 {
				q.rows[place>>6] |= 1 << (place & 63)
				marked = append(marked, place)
			}
		}
		from := rng.IntN(n)
		to := from + rng.IntN(n-from+1)
		within := slices.DeleteFunc(slices.Clone(marked), func(p uint32) bool { return int(p) < from || int(p) >= to })
		words := make([]uint64, n/64+1)
		if got := q.marks(from, to-from, words); got != len(within) {
			t.Fatalf("seed %d: %d marks in %d..%d, want %d", seed, got, from, to, len(within))
		}
		for _, p := range within {
			at := int(p) - from
			if words[at>>6]>>(at&63)&1 == 0 {
				t.Fatalf("seed %d: place %d has no mark", seed, p)
			}
		}
		var got []uint32
		most := 1 + rng.IntN(70)
		for at := from; at < to; {
			var some []uint32
			some, at = q.places(nil, at, to, most)
			got = append(got, some...)
		}
		if !slices.Equal(got, within) {
			t.Fatalf("seed %d: places %v, want %v", seed, got, within)
		}
		if q.some(from, to) != (len(within) > 0) {
			t.Fatalf("seed %d: some of %d..%d is wrong", seed, from, to)
		}
		// Positions of a damaged list may be any.
		positions := make([]uint32, n)
		for i := range positions {
			positions[i] = rng.Uint32() >> (8 + 3*rng.IntN(6))
		}
		count := s.mask(positions, words)
		for i, pos := range positions {
			w := int(pos >> 6)
			allowed := w < len(s.p.Allowed) && s.p.Allowed[w]>>(pos&63)&1 != 0
			if allowed != (words[i>>6]>>(i&63)&1 != 0) {
				t.Fatalf("seed %d: position %d of %v", seed, pos, s.p.Allowed)
			}
			if allowed {
				count--
			}
		}
		if last := bits.Len64(words[(n-1)>>6]); count != 0 || last > n-(n-1)&^63 {
			t.Fatalf("seed %d: %d too many, %d bits of the last word", seed, count, last)
		}
	}
}

// TestBound: whatever the keys, those below the bound are the n least, and others only where they are equal.
func TestBound(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 5))
		q := &query{keys: make([]float32, 1+rng.IntN(3000))}
		for i := range q.keys {
			switch seed % 3 {
			case 0:
				q.keys[i] = float32(rng.NormFloat64())
			case 1:
				q.keys[i] = float32(rng.IntN(5))
			default:
				q.keys[i] = float32(i)
			}
			if rng.IntN(10) == 0 {
				q.keys[i] = inf
			}
		}
		sorted := slices.Sorted(slices.Values(q.keys))
		finite, _ := slices.BinarySearch(sorted, inf)
		if finite == 0 {
			continue
		}
		n := 1 + rng.IntN(finite)
		q.ids = make([]uint32, len(q.keys))
		bound := q.bound(n)
		below := 0
		for _, k := range q.keys {
			if k < bound {
				below++
			}
		}
		if at, _ := slices.BinarySearch(sorted, bound); below != at || sorted[n-1] >= bound || at < len(sorted) && sorted[at-1] != sorted[n-1] {
			t.Fatalf("seed %d: %d of %d keys are below %v, the %dth is %v", seed, below, len(q.keys), bound, n, sorted[n-1])
		}
	}
}

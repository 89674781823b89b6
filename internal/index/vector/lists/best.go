package lists

import (
	"math"
	"slices"
)

// candidate is a row that was scanned.
type candidate struct {
	d     float32
	place uint32
	probe uint32 // the number of its probe in the search
}

// best keeps the k least of many candidates, the first of equal ones: up to twice as many, of which the worse half goes now
// and then. An item is one number, the order of whose bits is that of distances, with the place of the candidate among rows.
type best struct {
	k     int
	bound float32 // nothing from here on is among the k least
	items []uint64
	rows  []candidate
	spare []candidate
}

func (b *best) begin(k int) {
	b.k, b.bound, b.items, b.rows = k, inf, b.items[:0], b.rows[:0]
}

// add takes a candidate below the bound.
func (b *best) add(c candidate) {
	b.items = append(b.items, uint64(ascending(c.d))<<32|uint64(len(b.rows)))
	b.rows = append(b.rows, c)
	if len(b.items) >= 2*b.k+32 {
		b.shrink()
	}
}

// shrink leaves the k least.
func (b *best) shrink() {
	if len(b.items) <= b.k {
		return
	}
	least(b.items, b.k)
	b.items = b.items[:b.k]
	b.bound = estimate(slices.Max(b.items))
	b.compact()
}

// compact leaves those rows that are items.
func (b *best) compact() {
	b.spare = b.spare[:0]
	for i, item := range b.items {
		b.spare = append(b.spare, b.rows[uint32(item)])
		b.items[i] = item&^math.MaxUint32 | uint64(i)
	}
	b.rows, b.spare = b.spare, b.rows
}

// sorted are the k least candidates in order.
func (b *best) sorted() []candidate {
	b.shrink()
	slices.Sort(b.items)
	b.compact()
	return b.rows
}

// top is best for the rows of one search: a candidate is one number, the order of whose bits is that of estimates, then of
// places.
type top struct {
	k     int
	bound float32
	items []uint64
}

func (b *top) begin(k int) {
	b.k, b.bound, b.items = k, inf, b.items[:0]
}

func (b *top) add(d float32, place uint32) {
	b.items = append(b.items, uint64(ascending(d))<<32|uint64(place))
	if len(b.items) >= 2*b.k+32 {
		b.shrink()
	}
}

func (b *top) shrink() {
	if len(b.items) > b.k {
		least(b.items, b.k)
		b.items = b.items[:b.k]
		b.bound = estimate(slices.Max(b.items))
	}
}

// ascending are bits in the order of floats; estimate is the float again.
func ascending(d float32) uint32 {
	b := math.Float32bits(d)
	return b ^ uint32(int32(b)>>31)&(1<<31-1) ^ 1<<31
}

func estimate(item uint64) float32 {
	b := uint32(item>>32) ^ 1<<31
	return math.Float32frombits(b ^ uint32(int32(b)>>31)&(1<<31-1))
}

// least moves the k least elements to the front, in any order (Hoare's selection, with the median of three as pivot).
func least[T uint64 | float32](s []T, k int) {
	lo, hi := 0, len(s)-1
	for lo < hi {
		mid := lo + (hi-lo)/2
		if s[mid] < s[lo] {
			s[mid], s[lo] = s[lo], s[mid]
		}
		if s[hi] < s[lo] {
			s[hi], s[lo] = s[lo], s[hi]
		}
		if s[hi] < s[mid] {
			s[hi], s[mid] = s[mid], s[hi]
		}
		pivot := s[mid]
		i, j := lo, hi
		for i <= j {
			for s[i] < pivot {
				i++
			}
			for pivot < s[j] {
				j--
			}
			if i <= j {
				s[i], s[j] = s[j], s[i]
				i++
				j--
			}
		}
		switch {
		case k-1 <= j:
			hi = j
		case k-1 >= i:
			lo = i
		default:
			return
		}
	}
}

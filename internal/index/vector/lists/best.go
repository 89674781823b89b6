package lists

// candidate is a row that was scanned.
type candidate struct {
	d     float32
	place uint32
	probe uint32 // the number of its probe in the search
}

// best keeps the k least of many candidates: up to twice as many, of which the worse half goes now and then.
type best struct {
	k     int
	bound float32 // nothing from here on is among the k least
	items []candidate
}

func (b *best) begin(k int) {
	b.k, b.bound, b.items = k, inf, b.items[:0]
}

// add takes a candidate below the bound.
func (b *best) add(c candidate) {
	b.items = append(b.items, c)
	if len(b.items) >= 2*b.k+32 {
		b.shrink()
	}
}

// shrink leaves the k least.
func (b *best) shrink() {
	if len(b.items) <= b.k {
		return
	}
	nearest(b.items, b.k, func(x, y candidate) bool { return x.d < y.d || x.d == y.d && x.place < y.place })
	b.items = b.items[:b.k]
	b.bound = b.items[0].d
	for _, c := range b.items {
		b.bound = max(b.bound, c.d)
	}
}

// nearest moves the k least elements to the front, in any order (Hoare's selection, with the median of three as pivot).
func nearest[T any](s []T, k int, less func(a, b T) bool) {
	lo, hi := 0, len(s)-1
	for lo < hi {
		mid := lo + (hi-lo)/2
		if less(s[mid], s[lo]) {
			s[mid], s[lo] = s[lo], s[mid]
		}
		if less(s[hi], s[lo]) {
			s[hi], s[lo] = s[lo], s[hi]
		}
		if less(s[hi], s[mid]) {
			s[hi], s[mid] = s[mid], s[hi]
		}
		pivot := s[mid]
		i, j := lo, hi
		for i <= j {
			for less(s[i], pivot) {
				i++
			}
			for less(pivot, s[j]) {
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

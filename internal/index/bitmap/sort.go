package bitmap

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

// posting is a row and its key: the key itself where keys are eight bytes, else its number or its place in the order.
type posting struct{ key, row uint64 }

// sortPostings sorts by key and leaves postings with equal keys in their order. It uses spare, which is as long, and
// returns what is sorted and what is spare now.
func sortPostings(p, spare []posting) (sorted, free []posting) {
	if len(p) < 2 {
		return p, spare
	}
	varying, ordered := uint64(0), true
	for i := 1; i < len(p); i++ {
		varying |= p[i].key ^ p[i-1].key
		ordered = ordered && p[i].key >= p[i-1].key
	}
	if ordered {
		return p, spare
	}
	for shift := 0; shift < 64; shift += radixBits {
		if varying>>shift&(1<<radixBits-1) == 0 {
			continue
		}
		var at [1 << radixBits]uint32
		for i := range p {
			at[p[i].key>>shift&(1<<radixBits-1)]++
		}
		sum := uint32(0)
		for i, n := range at {
			at[i] = sum
			sum += n
		}
		for _, x := range p {
			d := x.key >> shift & (1<<radixBits - 1)
			spare[at[d]] = x
			at[d]++
		}
		p, spare = spare, p
	}
	return p, spare
}

// radixBits is a digit of the sort. Its counters stay in the fastest cache.
const radixBits = 8

// byteSorter sorts the numbers of keys by the keys and, where these are equal, by number.
type byteSorter struct {
	keys  *keyList
	spare []posting
}

// smallSort is the length from which comparing keys is cheaper than taking them apart.
const smallSort = 48

// sort sorts postings that hold the number of a key in row. All keys are the same up to depth.
func (s *byteSorter) sort(p []posting, depth int) {
	if len(p) <= smallSort {
		slices.SortFunc(p, func(a, b posting) int {
			if c := bytes.Compare(s.keys.at(int(a.row))[depth:], s.keys.at(int(b.row))[depth:]); c != 0 {
				return c
			}
			return cmp.Compare(a.row, b.row)
		})
		return
	}
	// What all keys have in common is passed over at once.
	first := s.keys.at(int(p[0].row))
	common := len(first)
	for _, x := range p[1:] {
		common = depth + commonPrefix(first[depth:common], s.keys.at(int(x.row))[depth:])
		if common == depth {
			break
		}
	}
	depth = common
	// Keys that end here come first: they are all equal.
	done := 0
	for i, x := range p {
		key := s.keys.at(int(x.row))
		if len(key) == depth {
			p[done], p[i] = p[i], p[done]
			done++
			continue
		}
		p[i].key = word(key[depth:])
	}
	slices.SortFunc(p[:done], func(a, b posting) int { return cmp.Compare(a.row, b.row) })
	p = p[done:]
	sorted, _ := sortPostings(p, s.spare[:len(p)])
	copy(p, sorted)
	// Among keys with the same eight bytes here are those that end in them, padded with zeros.
	for from := 0; from < len(p); {
		to := from + 1
		for to < len(p) && p[to].key == p[from].key {
			to++
		}
		if to-from > 1 {
			s.sameWord(p[from:to], depth+8)
		}
		from = to
	}
}

// sameWord sorts keys whose bytes before depth are the same, where those that end before are padded with zeros.
func (s *byteSorter) sameWord(p []posting, depth int) {
	longer := 0
	for i, x := range p {
		if len(s.keys.at(int(x.row))) > depth {
			p[longer], p[i] = p[i], p[longer]
			longer++
		}
	}
	slices.Reverse(p) // now those that end come first
	ended := p[:len(p)-longer]
	slices.SortFunc(ended, func(a, b posting) int {
		if c := cmp.Compare(len(s.keys.at(int(a.row))), len(s.keys.at(int(b.row)))); c != 0 {
			return c
		}
		return cmp.Compare(a.row, b.row)
	})
	if longer > 1 {
		s.sort(p[len(ended):], depth)
	}
}

// word is the first eight bytes of a key as a number, with zeros behind a shorter one.
func word(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var b [8]byte
	copy(b[:], key)
	return binary.BigEndian.Uint64(b[:])
}

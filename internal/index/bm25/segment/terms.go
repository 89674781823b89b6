package segment

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"slices"
)

// terms numbers the terms of a field in the order in which they come: an open addressing table over an arena of bytes.
type terms struct {
	seed   maphash.Seed
	table  []uint64 // upper half of the hash, number and one; 0: free
	arena  []byte
	starts []uint32 // of each term in the arena; the next one ends it
	counts []uint32 // occurrences
}

const firstTable = 1 << 10

func newTerms() *terms {
	return &terms{seed: maphash.MakeSeed(), table: make([]uint64, firstTable), starts: []uint32{0}}
}

func (t *terms) len() int { return len(t.counts) }

func (t *terms) term(i uint32) []byte { return t.arena[t.starts[i]:t.starts[i+1]] }

// bytes is the memory in use, with what it takes to sort the terms.
func (t *terms) bytes() int64 {
	return 8*int64(len(t.table)) + int64(cap(t.arena)) + 4*int64(cap(t.starts)+cap(t.counts)) + 16*int64(t.len())
}

// number gives the number of a term and counts it.
func (t *terms) number(term []byte) uint32 {
	h := maphash.Bytes(t.seed, term)
	mask := uint64(len(t.table) - 1)
	tag := h &^ (1<<32 - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		e := t.table[i]
		if e == 0 {
			return t.add(term, i, tag)
		}
		if e&^(1<<32-1) == tag {
			if n := uint32(e) - 1; string(t.term(n)) == string(term) {
				t.counts[n]++
				return n
			}
		}
	}
}

func (t *terms) add(term []byte, at, tag uint64) uint32 {
	n := uint32(len(t.counts))
	t.table[at] = tag | uint64(n+1)
	t.arena = append(t.arena, term...)
	t.starts = append(t.starts, uint32(len(t.arena)))
	t.counts = append(t.counts, 1)
	if 2*t.len() > len(t.table) {
		t.grow()
	}
	return n
}

func (t *terms) grow() {
	table := make([]uint64, 2*len(t.table))
	mask := uint64(len(table) - 1)
	for n := range t.counts {
		h := maphash.Bytes(t.seed, t.term(uint32(n)))
		i := h & mask
		for table[i] != 0 {
			i = (i + 1) & mask
		}
		table[i] = h&^(1<<32-1) | uint64(n+1)
	}
	t.table = table
}

// sorted is a term with its first bytes as a number.
type sorted struct {
	prefix uint64
	number uint32
}

// order gives the terms by their bytes.
func (t *terms) order() []sorted {
	out := make([]sorted, t.len())
	var first [8]byte
	for i := range out {
		clear(first[:])
		copy(first[:], t.term(uint32(i)))
		out[i] = sorted{binary.BigEndian.Uint64(first[:]), uint32(i)}
	}
	slices.SortFunc(out, func(a, b sorted) int {
		if a.prefix != b.prefix {
			return cmp.Compare(a.prefix, b.prefix)
		}
		return bytes.Compare(t.term(a.number), t.term(b.number))
	})
	return out
}

// reset forgets the terms and keeps the memory.
func (t *terms) reset() {
	clear(t.table)
	t.arena, t.starts, t.counts = t.arena[:0], t.starts[:1], t.counts[:0]
}

package row

import (
	"iter"
	"math/bits"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/RoaringBitmap/roaring/v2/roaring64"
)

// Bitmap is a set of row positions of one file. The nil *Bitmap is an empty set for every reading method. A Bitmap is
// safe for concurrent reading.
type Bitmap struct{ b roaring64.Bitmap }

// NewBitmap returns an empty set.
func NewBitmap() *Bitmap { return &Bitmap{} }

// BitmapOf returns the set of the positions.
func BitmapOf(positions ...int64) *Bitmap {
	b := NewBitmap()
	b.AddMany(positions)
	return b
}

// FromWords is the set of the bits of a dense array, the reverse of Words. The set takes the array: the caller leaves it.
func FromWords(words []uint64) *Bitmap {
	const chunk = 1 << 32 / 64 // what the lower half of a position covers
	out := NewBitmap()
	if low := roaring.FromDense(words[:min(len(words), chunk)], false); !low.IsEmpty() {
		out.b = *roaring64.Roaring32AsRoaring64(low)
	}
	for i := chunk; i < len(words); i++ {
		for w := words[i]; w != 0; w &= w - 1 {
			out.b.Add(uint64(i)*64 + uint64(bits.TrailingZeros64(w)))
		}
	}
	return out
}

// Add puts a position into the set.
func (b *Bitmap) Add(pos int64) {
	if pos >= 0 {
		b.b.Add(uint64(pos))
	}
}

// AddMany puts positions in any order into the set; ascending ones go fastest.
func (b *Bitmap) AddMany(positions []int64) {
	var chunk [512]uint64
	n := 0
	for _, p := range positions {
		if p < 0 {
			continue
		}
		if n == len(chunk) {
			b.b.AddMany(chunk[:n])
			n = 0
		}
		chunk[n] = uint64(p)
		n++
	}
	b.b.AddMany(chunk[:n])
}

// AddRange puts the positions lo ≤ p < hi into the set.
func (b *Bitmap) AddRange(lo, hi int64) {
	lo = max(lo, 0)
	if lo < hi {
		b.b.AddRange(uint64(lo), uint64(hi))
	}
}

// Contains reports whether a position is in the set.
func (b *Bitmap) Contains(pos int64) bool { return b != nil && pos >= 0 && b.b.Contains(uint64(pos)) }

// Len is the number of positions.
func (b *Bitmap) Len() int64 {
	if b == nil {
		return 0
	}
	return int64(b.b.GetCardinality())
}

// Or adds the positions of the other set.
func (b *Bitmap) Or(other *Bitmap) {
	if other != nil {
		b.b.Or(&other.b)
	}
}

// And keeps the positions that are in the other set too; none when it is nil.
func (b *Bitmap) And(other *Bitmap) {
	if other == nil {
		b.b.Clear()
		return
	}
	b.b.And(&other.b)
}

// AndNot removes the positions of the other set.
func (b *Bitmap) AndNot(other *Bitmap) {
	switch {
	case other == b:
		b.b.Clear()
	case other != nil:
		b.b.AndNot(&other.b)
	}
}

// Equal reports whether both sets hold the same positions.
func (b *Bitmap) Equal(other *Bitmap) bool {
	if b.Len() == 0 || other.Len() == 0 {
		return b.Len() == other.Len()
	}
	return b.b.Equals(&other.b)
}

// Clone returns an independent copy; the clone of nil is empty.
func (b *Bitmap) Clone() *Bitmap {
	c := NewBitmap()
	c.Or(b)
	return c
}

// Max is the largest position, or -1 for an empty set.
func (b *Bitmap) Max() int64 {
	if b == nil || b.b.IsEmpty() {
		return -1
	}
	return int64(b.b.Maximum())
}

// All yields the positions in ascending order.
func (b *Bitmap) All() iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for _, chunk := range b.chunks() {
			for _, p := range chunk {
				if !yield(int64(p)) {
					return
				}
			}
		}
	}
}

// Blocks yields the first position of every block of so many positions that holds one of the set, ascending. It looks at one
// position of each.
func (b *Bitmap) Blocks(size int64) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		if b == nil {
			return
		}
		for it := b.b.Iterator(); it.HasNext(); {
			first := int64(it.Next()) / size * size
			if !yield(first) {
				return
			}
			it.AdvanceIfNeeded(uint64(first + size))
		}
	}
}

// Part is the set of the positions first ≤ p < first+rows, counted from first: what a set over several files, one behind
// the other, says of one of them.
func (b *Bitmap) Part(first, rows int64) *Bitmap {
	out := NewBitmap()
	if b == nil || rows <= 0 || first < 0 {
		return out
	}
	it := b.b.Iterator()
	it.AdvanceIfNeeded(uint64(first))
	var chunk [512]int64
	n := 0
	for it.HasNext() {
		p := it.Next()
		if p >= uint64(first+rows) {
			break
		}
		if n == len(chunk) {
			out.AddMany(chunk[:n])
			n = 0
		}
		chunk[n] = int64(p) - first
		n++
	}
	out.AddMany(chunk[:n])
	return out
}

// CountRange is the number of positions lo ≤ p < hi.
func (b *Bitmap) CountRange(lo, hi int64) int64 {
	lo = max(lo, 0)
	if b == nil || lo >= hi {
		return 0
	}
	n := int64(b.b.Rank(uint64(hi - 1)))
	if lo > 0 {
		n -= int64(b.b.Rank(uint64(lo - 1)))
	}
	return n
}

// Words is the set as a dense bit array for a file of the given number of rows: bit p%64 of word p/64 stands for
// position p, and there are ⌈rows/64⌉ words, no fewer than 0. Positions at or beyond rows are left out.
func (b *Bitmap) Words(rows int64) []uint64 {
	if rows <= 0 {
		return nil
	}
	words := make([]uint64, (rows-1)/64+1)
	for _, chunk := range b.chunks() {
		for _, p := range chunk {
			if p >= uint64(rows) {
				return words
			}
			words[p>>6] |= 1 << (p & 63)
		}
	}
	return words
}

// chunks yields the positions ascending, many at a time, in a buffer that the next step overwrites.
func (b *Bitmap) chunks() iter.Seq2[int, []uint64] {
	return func(yield func(int, []uint64) bool) {
		if b == nil {
			return
		}
		buf := make([]uint64, min(1024, b.b.GetCardinality()))
		it := b.b.ManyIterator()
		for i := 0; ; i++ {
			n := it.NextMany(buf)
			if n == 0 || !yield(i, buf[:n]) {
				return
			}
		}
	}
}

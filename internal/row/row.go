// Package row answers: which rows?
//
// An Addr names one row by the ordinal of its data file in a scan's file list and its position in that file. A Bitmap is
// a set of positions of one file: deleted rows, or rows that an index allows. A Hit is a row with a score; Hits have one
// deterministic order, so that equal scores never make an answer depend on how work was split.
package row

import (
	"cmp"
	"iter"
	"slices"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
)

// Addr is the address of a row inside a scan.
type Addr struct {
	File uint32 // ordinal of the data file in the scan's file list
	Pos  int64  // position in the file, from 0
}

// Bitmap is a set of row positions of one file. The nil *Bitmap is an empty set for every reading method. A Bitmap is
// safe for concurrent reading.
type Bitmap struct{ b roaring64.Bitmap }

// NewBitmap returns an empty set.
func NewBitmap() *Bitmap { return &Bitmap{} }

// BitmapOf returns the set of the positions.
func BitmapOf(positions ...int64) *Bitmap {
	b := NewBitmap()
	for _, p := range positions {
		b.Add(p)
	}
	return b
}

// Add puts a position into the set.
func (b *Bitmap) Add(pos int64) { b.b.Add(uint64(pos)) }

// AddRange puts the positions lo ≤ p < hi into the set.
func (b *Bitmap) AddRange(lo, hi int64) { b.b.AddRange(uint64(lo), uint64(hi)) }

// Contains reports whether a position is in the set.
func (b *Bitmap) Contains(pos int64) bool { return b != nil && b.b.Contains(uint64(pos)) }

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

// Clone returns an independent copy; the clone of nil is empty.
func (b *Bitmap) Clone() *Bitmap {
	c := NewBitmap()
	c.Or(b)
	return c
}

// Max is the largest position, or -1 for an empty set.
func (b *Bitmap) Max() int64 {
	if b.Len() == 0 {
		return -1
	}
	return int64(b.b.Maximum())
}

// All yields the positions in ascending order.
func (b *Bitmap) All() iter.Seq[int64] {
	return func(yield func(int64) bool) {
		if b == nil {
			return
		}
		for it := b.b.Iterator(); it.HasNext(); {
			if !yield(int64(it.Next())) {
				return
			}
		}
	}
}

// Words is the set as a dense bit array for a file of the given number of rows: bit p%64 of word p/64 stands for
// position p. Positions at or beyond rows are left out.
func (b *Bitmap) Words(rows int64) []uint64 {
	words := make([]uint64, (rows+63)/64)
	for p := range b.All() {
		if p >= rows {
			break
		}
		words[p>>6] |= 1 << (p & 63)
	}
	return words
}

// Hit is a row with a score.
type Hit struct {
	Addr
	Score float32
}

// Hits is a ranked list.
type Hits []Hit

// SortDescending orders by score, best first; equal scores by file, then position.
func (h Hits) SortDescending() { slices.SortFunc(h, compareDescending) }

func compareDescending(a, b Hit) int {
	if c := cmp.Compare(b.Score, a.Score); c != 0 {
		return c
	}
	if c := cmp.Compare(a.File, b.File); c != 0 {
		return c
	}
	return cmp.Compare(a.Pos, b.Pos)
}

// Better reports whether a comes before b in the descending order.
func Better(a, b Hit) bool { return compareDescending(a, b) < 0 }

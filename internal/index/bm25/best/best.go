// Package best answers: which k rows have the highest scores so far?
//
// Searches of several parts of an index offer rows to one list after the other, and ask it how high a score must be to
// matter. The order is that of row.CompareDescending: score, then part, then row, so that the answer does not depend on the
// order in which rows are offered.
package best

import (
	"math"
	"slices"

	"github.com/overlakedb/overlake/internal/row"
)

// Rows are the k best of those offered. It belongs to one goroutine.
type Rows struct {
	k    int
	heap row.Hits // once it holds k: the worst on top
}

// New makes a list of at most k rows; with none it keeps nothing.
func New(k int) *Rows { return &Rows{k: max(k, 0), heap: make(row.Hits, 0, min(max(k, 0), 64))} }

// K is how many rows are kept.
func (b *Rows) K() int { return b.k }

// Len is how many rows are held.
func (b *Rows) Len() int { return len(b.heap) }

// Bound is the score that a row of a part must exceed to be kept, if rows of the part are offered ascending and none of
// them was offered before the call with a lower row than those to come: negative infinity while there is room.
func (b *Rows) Bound(part uint32) float32 {
	switch {
	case b.k == 0:
		return float32(math.Inf(1))
	case len(b.heap) < b.k:
		return float32(math.Inf(-1))
	}
	worst := b.heap[0]
	if worst.File > part { // an equal score of this part comes before it
		return math.Nextafter32(worst.Score, float32(math.Inf(-1)))
	}
	return worst.Score
}

// Offer gives a row to the list.
func (b *Rows) Offer(part, at uint32, score float32) {
	h := row.Hit{Addr: row.Addr{File: part, Pos: int64(at)}, Score: score}
	switch {
	case len(b.heap) < b.k:
		b.heap = append(b.heap, h)
		if len(b.heap) == b.k {
			for i := b.k/2 - 1; i >= 0; i-- {
				b.down(i)
			}
		}
	case b.k > 0 && row.Better(h, b.heap[0]):
		b.heap[0] = h
		b.down(0)
	}
}

// down restores the order below i.
func (b *Rows) down(i int) {
	h := b.heap
	for {
		c := 2*i + 1
		if c >= len(h) {
			return
		}
		if c+1 < len(h) && row.Better(h[c], h[c+1]) {
			c++
		}
		if !row.Better(h[i], h[c]) {
			return
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
}

// Merge offers the rows of another list.
func (b *Rows) Merge(o *Rows) {
	for _, h := range o.heap {
		b.Offer(h.File, uint32(h.Pos), h.Score)
	}
}

// Hits are the rows, best first.
func (b *Rows) Hits() row.Hits {
	out := slices.Clone(b.heap)
	out.SortDescending()
	return out
}

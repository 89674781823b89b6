package bitmap

import (
	"context"
	"slices"
	"sync"

	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/row"
)

// Find returns the rows whose key is in the ranges, and those that are NULL if they are asked for. It reads the blocks it
// needs in one round.
func (r *Reader) Find(ctx context.Context, keys predicate.Ranges, null bool) (*row.Bitmap, error) {
	d := r.dir
	var parts []part
	if null {
		for b := range d.nullBlocks {
			parts = append(parts, part{block: b, all: true})
		}
	}
	parts = append(parts, d.parts(keys)...)
	least, _ := r.Estimate(keys, null)
	var mu sync.Mutex
	out := newRowSet(d.rows, least)
	err := r.each(ctx, parts, func(p part, b []byte, bl *block) error {
		n, postings := int(d.keys[p.block]), int(d.before[p.block+1]-d.before[p.block])
		if n == 0 {
			mu.Lock()
			defer mu.Unlock()
			return bl.decodeOne(b, postings, uint64(d.rows), out.addRun)
		}
		if p.all {
			if _, err := bl.split(b, n, postings); err != nil {
				return err
			}
		} else if err := bl.decodeKeys(b, n, postings, keyKind(d.columns)); err != nil {
			return err
		}
		if err := bl.decodeCounts(b, n); err != nil {
			return err
		}
		if err := bl.decodeRows(b, n, uint64(d.rows)); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if p.all {
			out.add(bl, 0, n)
			return nil
		}
		for _, k := range keys[p.from:p.to] {
			from, to := bl.keys.within(k)
			out.add(bl, from, to)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out.bitmap(), nil
}

// rowSet gathers rows in any order: few as a list, many as a bit for each row of the column.
type rowSet struct {
	list  []int64
	most  int // how long the list may become
	words []uint64
	rows  int64 // of the column
}

// denseShare is how many rows of the column there may be for one that is found, for bits to be cheaper than sorting.
const denseShare = 1024

// newRowSet makes a set of at least so many rows.
func newRowSet(rows, least int64) *rowSet {
	s := &rowSet{rows: rows, most: int(rows/denseShare) + 64}
	if least > int64(s.most) {
		s.spread()
	}
	return s
}

// spread turns the list into bits.
func (s *rowSet) spread() {
	s.words = make([]uint64, (s.rows+63)/64)
	for _, r := range s.list {
		s.words[r>>6] |= 1 << (r & 63)
	}
	s.list = nil
}

func (s *rowSet) addRun(lo, hi uint64) {
	if s.words == nil {
		if len(s.list)+int(hi-lo) <= s.most {
			for ; lo < hi; lo++ {
				s.list = append(s.list, int64(lo))
			}
			return
		}
		s.spread()
	}
	if lo+1 == hi {
		s.words[lo>>6] |= 1 << (lo & 63)
		return
	}
	first, last := lo>>6, (hi-1)>>6
	head, foot := ^uint64(0)<<(lo&63), ^uint64(0)>>(63-(hi-1)&63)
	if first == last {
		s.words[first] |= head & foot
		return
	}
	s.words[first] |= head
	for i := first + 1; i < last; i++ {
		s.words[i] = ^uint64(0)
	}
	s.words[last] |= foot
}

// add adds the rows of the keys from ≤ i < to of a decoded block.
func (s *rowSet) add(bl *block, from, to int) {
	if from >= to {
		return
	}
	firsts, others := bl.firsts[from:to], bl.gaps[bl.starts[from]:bl.starts[to]]
	if s.words == nil && len(s.list)+len(firsts)+len(others) > s.most {
		s.spread()
	}
	if s.words != nil {
		for _, r := range firsts {
			s.words[r>>6] |= 1 << (r & 63)
		}
		for _, r := range others {
			s.words[r>>6] |= 1 << (r & 63)
		}
		return
	}
	for _, r := range firsts {
		s.list = append(s.list, int64(r))
	}
	for _, r := range others {
		s.list = append(s.list, int64(r))
	}
}

func (s *rowSet) bitmap() *row.Bitmap {
	if s.words != nil {
		return row.FromWords(s.words)
	}
	if !slices.IsSorted(s.list) {
		slices.Sort(s.list)
	}
	out := row.NewBitmap()
	out.AddMany(s.list)
	return out
}

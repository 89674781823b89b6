package bitmap

import (
	"context"
	"math/bits"
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
	_, most := r.Estimate(keys, null)
	var mu sync.Mutex
	out := newRowSet(d.rows, most)
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

// rowSet gathers rows in any order: as a bit for each row of the column when they are many, else as a list.
type rowSet struct {
	words []uint64
	list  []int64
}

// denseShare is how many rows of the column there may be for one that is found, for a bit for each to be cheaper.
const denseShare = 1024

func newRowSet(rows, most int64) *rowSet {
	if most > 64 && rows/most <= denseShare {
		return &rowSet{words: make([]uint64, (rows+63)/64)}
	}
	return &rowSet{list: make([]int64, 0, min(most, 1<<16))}
}

func (s *rowSet) addRun(lo, hi uint64) {
	if s.words == nil {
		for ; lo < hi; lo++ {
			s.list = append(s.list, int64(lo))
		}
		return
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
	out := row.NewBitmap()
	if s.words == nil {
		if !slices.IsSorted(s.list) {
			slices.Sort(s.list)
		}
		out.AddMany(s.list)
		return out
	}
	buf := make([]int64, 0, 1024)
	for i := 0; i < len(s.words); i++ {
		w := s.words[i]
		at := int64(i) * 64
		if w == ^uint64(0) {
			for i+1 < len(s.words) && s.words[i+1] == w {
				i++
			}
			out.AddMany(buf)
			buf = buf[:0]
			out.AddRange(at, int64(i)*64+64)
			continue
		}
		for ; w != 0; w &= w - 1 {
			buf = append(buf, at+int64(bits.TrailingZeros64(w)))
		}
		if len(buf) > cap(buf)-64 {
			out.AddMany(buf)
			buf = buf[:0]
		}
	}
	out.AddMany(buf)
	return out
}

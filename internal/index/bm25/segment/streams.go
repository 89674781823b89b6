package segment

import (
	"bytes"
	"context"
	"slices"

	"github.com/overlakedb/overlake/internal/index/bm25/posting"
)

// stream gives the terms of a field in order, and after each term its postings.
type stream interface {
	// next gives the next term, nil behind the last. The bytes are valid until the call after.
	next() ([]byte, error)

	// posting gives the next posting of the term, posting.End as the row behind the last. All are taken before next.
	posting() (row, freq uint32, positions []uint32, err error)
}

// mergeStreams gives the terms of streams to a writer. ordered says that the rows of a stream are all beyond those of the
// one before.
func mergeStreams(ctx context.Context, streams []stream, ordered bool, w *writer) error {
	h := &termHeap{}
	for i, s := range streams {
		term, err := s.next()
		if err != nil {
			return err
		}
		if term != nil {
			h.push(standing{term, i})
		}
	}
	var same []standing
	var term []byte
	for n := 0; len(h.of) > 0; n++ {
		if n%1024 == 0 {
			if err := canceled(ctx); err != nil {
				return err
			}
		}
		same = append(same[:0], h.pop())
		for len(h.of) > 0 && bytes.Equal(h.of[0].term, same[0].term) {
			same = append(same, h.pop())
		}
		term = append(term[:0], same[0].term...)
		w.beginTerm(term)
		var err error
		if ordered || len(same) == 1 {
			err = concatenate(streams, same, w)
		} else {
			err = interleave(streams, same, w)
		}
		if err == nil {
			err = w.endTerm()
		}
		if err != nil {
			return err
		}
		for _, s := range same {
			next, err := streams[s.stream].next()
			if err != nil {
				return err
			}
			if next != nil {
				h.push(standing{next, s.stream})
			}
		}
	}
	return nil
}

// concatenate adds the postings of one stream after another.
func concatenate(streams []stream, same []standing, w *writer) error {
	for _, s := range same {
		for {
			row, freq, positions, err := streams[s.stream].posting()
			if err != nil {
				return err
			}
			if row == posting.End {
				break
			}
			if err := w.add(row, freq, positions); err != nil {
				return err
			}
		}
	}
	return nil
}

// interleave adds postings in the order of rows.
func interleave(streams []stream, same []standing, w *writer) error {
	type at struct {
		row, freq uint32
		positions []uint32
		s         stream
	}
	var open []at
	for _, s := range same {
		a := at{s: streams[s.stream]}
		var err error
		if a.row, a.freq, a.positions, err = a.s.posting(); err != nil {
			return err
		}
		if a.row != posting.End {
			open = append(open, a)
		}
	}
	for len(open) > 0 {
		k := 0
		for i := range open {
			if open[i].row < open[k].row {
				k = i
			}
		}
		a := &open[k]
		if err := w.add(a.row, a.freq, a.positions); err != nil {
			return err
		}
		var err error
		if a.row, a.freq, a.positions, err = a.s.posting(); err != nil {
			return err
		}
		if a.row == posting.End {
			open = slices.Delete(open, k, k+1)
		}
	}
	return nil
}

// standing is the term at which a stream stands.
type standing struct {
	term   []byte
	stream int
}

func (a standing) less(b standing) bool {
	if c := bytes.Compare(a.term, b.term); c != 0 {
		return c < 0
	}
	return a.stream < b.stream
}

// termHeap has the least on top.
type termHeap struct{ of []standing }

func (h *termHeap) push(x standing) {
	h.of = append(h.of, x)
	for i := len(h.of) - 1; i > 0; {
		up := (i - 1) / 2
		if !h.of[i].less(h.of[up]) {
			return
		}
		h.of[i], h.of[up] = h.of[up], h.of[i]
		i = up
	}
}

func (h *termHeap) pop() standing {
	top := h.of[0]
	n := len(h.of) - 1
	h.of[0] = h.of[n]
	h.of = h.of[:n]
	for i := 0; ; {
		c := 2*i + 1
		if c >= n {
			return top
		}
		if c+1 < n && h.of[c+1].less(h.of[c]) {
			c++
		}
		if !h.of[c].less(h.of[i]) {
			return top
		}
		h.of[i], h.of[c] = h.of[c], h.of[i]
		i = c
	}
}

package rank

import (
	"slices"

	"github.com/overlakedb/overlake/internal/index/bm25/posting"
	"github.com/overlakedb/overlake/internal/index/bm25/primitive"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
)

// idfOf is what one term adds to the idf of a phrase.
type idfOf struct {
	term string
	docs int64
	idf  float32
}

// phraseWeight is a phrase. It is scored as one term, whose idf is the sum of those of its terms.
type phraseWeight struct {
	q      *Query
	node   primitive.Phrase
	boost  float32
	idfs   []idfOf
	idf    float32
	weight float32
}

func (w *phraseWeight) constant() bool { return false }

func (w *phraseWeight) flat(r *run) (Flat, bool) {
	p := &FlatPhrase{Field: w.node.Field, Slop: w.node.Slop, Weight: w.weight}
	for _, part := range w.node.Parts {
		if len(part.Terms) != 1 {
			return Flat{}, false
		}
		p.Terms = append(p.Terms, r.located[w.node.Field][part.Terms[0]])
		p.Positions = append(p.Positions, part.Position)
	}
	return Flat{Phrase: p}, true
}

func (w *phraseWeight) open(r *run) (iterator, error) {
	lengths, err := r.lengthsOf(w.node.Field)
	if err != nil {
		return nil, err
	}
	p := &phraseIterator{lengths: lengths, inv: w.q.norms[w.node.Field], weight: w.weight, slop: w.node.Slop, known: -1}
	var its []iterator
	for i, part := range w.node.Parts {
		place := &placeIterator{at: -1, rows: len(lengths)}
		for _, t := range part.Terms {
			c, n, err := r.cursor(w.node.Field, t, true)
			if err != nil {
				return nil, err
			}
			if c != nil {
				place.cursors = append(place.cursors, c)
				place.n += n
			}
		}
		if place.cursors == nil {
			return nil, nil
		}
		its = append(its, place)
		p.places = append(p.places, place)
		p.offsets = append(p.offsets, w.node.Parts[i].Position)
	}
	p.conjunction = *newConjunction(its, nil)
	if w.node.Slop > 0 {
		p.sloppy = newSloppy(w.node.Parts)
	}
	return p, nil
}

// placeIterator goes over the rows with one of the terms of a place.
type placeIterator struct {
	cursors []posting.Cursor
	at      int64
	n       int64
	rows    int
	buf     []uint32
	failed  error
}

func (p *placeIterator) row() int64     { return p.at }
func (p *placeIterator) confirm() bool  { return true }
func (p *placeIterator) score() float32 { return 0 }
func (p *placeIterator) cost() int64    { return p.n }

func (p *placeIterator) err() error {
	if p.failed != nil {
		return p.failed
	}
	for _, c := range p.cursors {
		if err := c.Err(); err != nil {
			return err
		}
	}
	return nil
}

func (p *placeIterator) advance(target int64) int64 {
	if p.at >= target {
		return p.at
	}
	least := end
	for _, c := range p.cursors {
		at := int64(c.Row())
		if at < target || p.at < 0 {
			at = int64(c.Advance(uint32(target)))
		}
		least = min(least, at)
	}
	if least >= int64(p.rows) && least != end {
		p.failed = beyond(least, p.rows)
		least = end
	}
	p.at = least
	return least
}

// positions are those of all terms of the place in the row, ascending.
func (p *placeIterator) positions() []uint32 {
	if len(p.cursors) == 1 {
		return p.cursors[0].Positions()
	}
	p.buf = p.buf[:0]
	n := 0
	for _, c := range p.cursors {
		if int64(c.Row()) == p.at {
			p.buf = append(p.buf, c.Positions()...)
			n++
		}
	}
	if n > 1 {
		slices.Sort(p.buf)
	}
	return p.buf
}

// phraseIterator goes over rows that hold all terms; confirm looks where they stand.
type phraseIterator struct {
	conjunction
	places  []*placeIterator
	offsets []int
	lists   [][]uint32
	next    []int
	lengths []byte
	inv     *[256]float32
	weight  float32
	slop    int
	sloppy  *sloppy
	known   int64
	freq    float32
}

func (p *phraseIterator) confirm() bool {
	if p.known != p.at {
		p.known = p.at
		p.freq = p.frequency()
	}
	return p.freq > 0
}

func (p *phraseIterator) score() float32 {
	return similarity.Score(p.weight, p.freq, p.inv[p.lengths[p.at]])
}

func (p *phraseIterator) frequency() float32 {
	p.lists = p.lists[:0]
	for _, place := range p.places {
		p.lists = append(p.lists, place.positions())
	}
	if p.sloppy != nil {
		return p.sloppy.frequency(p.lists, p.slop)
	}
	// Every place of the first term that all others follow at their distance.
	n := 0
	p.next = append(p.next[:0], make([]int, len(p.lists))...)
first:
	for _, at := range p.lists[0] {
		for i := 1; i < len(p.lists); i++ {
			want := int64(at) - int64(p.offsets[0]) + int64(p.offsets[i])
			list := p.lists[i]
			for p.next[i] < len(list) && int64(list[p.next[i]]) < want {
				p.next[i]++
			}
			if p.next[i] == len(list) {
				break first
			}
			if int64(list[p.next[i]]) != want {
				continue first
			}
		}
		n++
	}
	return float32(n)
}

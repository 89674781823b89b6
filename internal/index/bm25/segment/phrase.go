package segment

import (
	"cmp"
	"math"
	"slices"

	"github.com/overlakedb/overlake/internal/index/bm25/posting"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
)

// A phrase is looked for in two steps: rows that have all its terms, and among those that may be worth it, rows where the terms
// stand as the phrase says. A term that stands in a phrase twice is one list.

// slot is a place of a phrase.
type slot struct {
	list      int // of the distinct terms
	offset    int
	positions []uint32
	at        int
}

// phrases is the room for a phrase.
type phrases struct {
	slots  []slot
	places []int       // of the distinct lists in the blocks where they stand
	row    [][]uint32  // positions of each list in the row
	sloppy sloppyMatch // where terms may be moved
}

func (s *search) phrase(q *Query) error {
	p := q.Phrase
	if len(p.Terms) == 1 {
		c := *q
		c.Phrase = nil
		c.Clauses = []Clause{{Field: p.Field, Term: p.Terms[0], Weight: p.Weight, Repeat: 1}}
		if p.Terms[0].DocFreq == 0 {
			return nil
		}
		s.need, s.floor = 1, float32(math.Inf(-1))
		if err := s.open(&c, c.Clauses); err != nil {
			return err
		}
		if s.filter != nil && s.filter.list != nil && s.filter.count*2 < p.Terms[0].DocFreq {
			return s.byFilter(true)
		}
		return s.single()
	}
	s.slots, s.requests = s.slots[:0], s.requests[:0]
	least := math.MaxInt
	for i, t := range p.Terms {
		if t.DocFreq == 0 {
			return nil
		}
		o := i
		if p.Offsets != nil {
			o = p.Offsets[i]
		}
		least = min(least, o)
		k := slices.IndexFunc(s.requests, func(r openRequest) bool { return r.term.At == t.At })
		if k < 0 {
			k = len(s.requests)
			s.requests = append(s.requests, openRequest{p.Field, t, true})
		}
		s.slots = append(s.slots, slot{list: k, offset: o})
	}
	for i := range s.slots {
		s.slots[i].offset -= least
	}
	s.room(len(s.requests))
	if err := s.load(); err != nil {
		return err
	}
	for i := range s.requests {
		if err := s.addClause(i, p.Field, q.Norms[p.Field], p.Weight, 1); err != nil {
			return err
		}
	}
	return s.phraseRows(p)
}

// phraseRows goes over the rows that have all terms.
func (s *search) phraseRows(p *Phrase) error {
	k := &s.conjunction
	k.joined = append(k.joined[:0], s.clauses...)
	slices.SortStableFunc(k.joined, func(a, b *clause) int { return cmp.Compare(a.list.term.DocFreq, b.list.term.DocFreq) })
	for len(s.row) < len(s.clauses) {
		s.row = append(s.row, nil)
	}
	s.places = append(s.places[:0], make([]int, len(s.clauses))...)
	s.sloppy.prepare(s.slots)
	lead := k.joined[0]
	l := lead.list
	if f := s.filter; f != nil && f.list != nil && f.count*2 < l.term.DocFreq {
		for n, r := range f.list {
			if n%256 == 0 {
				if err := canceled(s.ctx); err != nil {
					return err
				}
			}
			if ok, err := l.seek(r); !ok {
				return err
			}
			j, ok, err := l.index(r)
			if ok {
				err = s.phraseRow(p, j, r)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	for i := 0; i < l.n; i++ {
		if i%64 == 0 {
			if err := canceled(s.ctx); err != nil {
				return err
			}
		}
		ended, most, err := s.phraseBound(p, i)
		if err != nil || ended {
			return err
		}
		if !s.c.counting() && float32(most) <= s.c.Top.Bound(s.part) {
			s.c.Lower = true
			continue
		}
		if !lead.small {
			if err := l.load(i); err != nil {
				return err
			}
			if err := l.decodeRows(); err != nil {
				return err
			}
		}
		cut := float32(math.Inf(-1))
		if p.Slop == 0 {
			// A phrase stands nowhere more often than any of its terms.
			lead.scoreBlock(0, l.count)
			if !s.c.counting() {
				cut = s.c.Top.Bound(s.part)
			}
		}
		for j := 0; j < l.count; j++ {
			r := l.row[j]
			if p.Slop == 0 && lead.scores[j] <= cut {
				s.c.Lower = true
				continue
			}
			if s.filter != nil && !s.filter.has(r) {
				continue
			}
			if err := s.phraseRow(p, j, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// phraseBound is the most that a row of block i of the rarest list can score.
func (s *search) phraseBound(p *Phrase, i int) (ended bool, most float64, err error) {
	lead := s.conjunction.joined[0]
	l := lead.list
	first, last := uint32(0), l.last
	if lead.next = 0; !lead.small {
		lead.next, last = i, l.lastOf(i)
		if i > 0 {
			first = l.lastOf(i-1) + 1
		}
	}
	least, sum := math.MaxFloat64, 0.0
	w := float64(p.Weight)
	for n, c := range s.conjunction.joined {
		if n > 0 && c.nextRow(first) == posting.End {
			return true, 0, nil
		}
		m := c.mostIn(first, last+1)
		least = min(least, m)
		// freq·inv of it, which may be added up
		if t := m / w; t < 1 {
			sum += t / (1 - t)
		} else {
			sum = math.MaxFloat64
		}
	}
	if p.Slop == 0 {
		return false, least, nil
	}
	sum *= float64(len(s.slots))
	if sum > math.MaxFloat32 {
		return false, w * (1 + boundSlack), nil
	}
	return false, w * (sum/(1+sum) + boundSlack), nil
}

// phraseRow looks at a row of the rarest list, which is row j of its block.
func (s *search) phraseRow(p *Phrase, j int, r uint32) error {
	k := &s.conjunction
	freqs, least := uint64(0), uint32(math.MaxUint32)
	for n, c := range k.joined {
		i := j
		if n > 0 {
			ok, err := c.list.seek(r)
			if !ok {
				return err
			}
			if r < c.list.first {
				return nil
			}
			if p.Slop == 0 && !s.c.counting() && float32(c.boundHere()) <= s.c.Top.Bound(s.part) {
				s.c.Lower = true
				return nil
			}
			if i, ok, err = c.list.index(r); !ok {
				return err
			}
		}
		f := c.list.freqAt(i)
		freqs += uint64(f)
		least = min(least, f)
		s.places[n] = i
	}
	lead := k.joined[0]
	inv := lead.inv[lead.lens[r]]
	counting := s.c.counting()
	if !counting {
		most := float32(least)
		if p.Slop > 0 {
			// A position begins at most one match.
			most = float32(freqs * uint64(len(s.slots)))
		}
		if float32(float64(similarity.Score(p.Weight, most, inv))+float64(p.Weight)*boundSlack) <= s.c.Top.Bound(s.part) {
			s.c.Lower = true
			return nil
		}
	}
	for n, c := range k.joined {
		pos, err := c.list.positionsAt(s.places[n])
		if err != nil {
			return err
		}
		s.row[c.ord] = pos
	}
	for i := range s.slots {
		s.slots[i].positions, s.slots[i].at = s.row[s.slots[i].list], 0
		if len(s.slots[i].positions) == 0 {
			return corrupt("a term stands in row %d, but nowhere", r)
		}
	}
	freq := float32(0)
	if p.Slop == 0 {
		freq = exactFreq(s.slots)
	} else {
		freq = s.sloppy.freq(s.slots, p.Slop)
	}
	if freq == 0 {
		return nil
	}
	s.c.Hits++
	if v := similarity.Score(p.Weight, freq, inv); v > s.c.Top.Bound(s.part) {
		s.c.Top.Offer(s.part, r, v)
	}
	return nil
}

// exactFreq is how often the phrase stands in a row as it is.
func exactFreq(slots []slot) float32 {
	lead := 0
	for i := range slots {
		if len(slots[i].positions) < len(slots[lead].positions) {
			lead = i
		}
	}
	n := 0
next:
	for _, at := range slots[lead].positions {
		base := int64(at) - int64(slots[lead].offset)
		for i := range slots {
			if i == lead {
				continue
			}
			s := &slots[i]
			want := base + int64(s.offset)
			for s.at < len(s.positions) && int64(s.positions[s.at]) < want {
				s.at++
			}
			if s.at == len(s.positions) {
				break next
			}
			if int64(s.positions[s.at]) != want {
				continue next
			}
		}
		n++
	}
	return float32(n)
}

package segment

import (
	"cmp"
	"math"
	"slices"

	"github.com/overlakedb/overlake/internal/index/bm25/block"
	"github.com/overlakedb/overlake/internal/index/bm25/posting"
)

// A search for all of several terms goes over the blocks of the rarest one. A block is left out when it and the best blocks of
// the others in its range of rows cannot make a hit that matters. What is left of its rows is looked up in one list after the
// other.

// conjunction is the room for a block.
type conjunction struct {
	joined  []*clause // the rarest first
	rowsOf  block.Values
	partial [block.Size]float64
	freqs   [][block.Size]uint32 // by clause, then candidate
}

// sumSlack is what adding in another order may change.
const sumSlack = 1 + 1.0/(1<<40)

// all searches for rows with all clauses.
func (s *search) all() error {
	return s.conjoin(func(n int) {
		k := &s.conjunction
		for j, r := range k.rowsOf[:n] {
			sum := 0.0
			for i, c := range s.clauses {
				sum = c.add(sum, c.score(k.freqs[i][j], r))
			}
			if v := float32(sum); v > s.c.Top.Bound(s.part) {
				s.c.Top.Offer(s.part, r, v)
			}
		}
	})
}

// conjoin finds the rows with all clauses, up to a block of them at once.
func (s *search) conjoin(hit func(n int)) error {
	k := &s.conjunction
	k.joined = append(k.joined[:0], s.clauses...)
	slices.SortStableFunc(k.joined, func(a, b *clause) int { return cmp.Compare(a.list.term.DocFreq, b.list.term.DocFreq) })
	place := make([]int, len(k.joined)) // of each in the order of the query
	for i, c := range k.joined {
		place[i] = slices.Index(s.clauses, c)
	}
	for len(k.freqs) < len(k.joined) {
		k.freqs = append(k.freqs, [block.Size]uint32{})
	}
	lead := k.joined[0]
	l := lead.list
	for i := 0; i < l.n; i++ {
		if i%64 == 0 {
			if err := canceled(s.ctx); err != nil {
				return err
			}
		}
		counting := s.c.counting()
		bound := s.c.Top.Bound(s.part)
		first, last := uint32(0), l.last
		if !lead.small {
			last = l.lastOf(i)
			if i > 0 {
				first = l.lastOf(i-1) + 1
			}
		}
		rest, ended := 0.0, false
		for _, c := range k.joined[1:] {
			if c.nextRow(first) == posting.End {
				ended = true
				break
			}
			c.most = c.mostIn(first, last+1)
			rest += c.most
		}
		if ended {
			return nil
		}
		lead.next = i
		if lead.small {
			lead.next = 0
		}
		lead.most = lead.mostIn(first, last+1)
		if !counting && float32(lead.most+rest) <= bound {
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
		n, err := s.leadRows(place[0], counting, rest, bound)
		if err != nil {
			return err
		}
		for j, c := range k.joined[1:] {
			if n == 0 {
				break
			}
			if n, err = s.keep(place, j+1, c, n, counting, bound); err != nil {
				return err
			}
		}
		s.c.Hits += int64(n)
		if n > 0 {
			hit(n)
		}
	}
	return nil
}

// leadRows takes the rows of the block of the rarest list.
func (s *search) leadRows(place int, counting bool, rest float64, bound float32) (int, error) {
	k := &s.conjunction
	c := k.joined[0]
	l := c.list
	n := 0
	cut := float32(math.Inf(-1))
	if !counting {
		cut = c.cut(bound, rest)
	}
	picked := c.above(0, l.count, cut)
	s.c.Lower = s.c.Lower || picked < l.count
	for _, j := range c.picked[:picked] {
		r := l.row[j]
		if s.filter != nil && !s.filter.has(r) {
			continue
		}
		k.rowsOf[n], k.partial[n], k.freqs[place][n] = r, float64(c.scores[j])*c.repeat, l.freqAt(int(j))
		n++
	}
	return n, nil
}

// keep keeps the rows that are in a further list.
func (s *search) keep(place []int, at int, c *clause, n int, counting bool, bound float32) (int, error) {
	k := &s.conjunction
	rest := 0.0
	for _, o := range k.joined[at+1:] {
		rest += o.most
	}
	l := c.list
	m := 0
	for j, r := range k.rowsOf[:n] {
		ok, err := l.seek(r)
		if err != nil {
			return 0, err
		}
		if !ok {
			break
		}
		if r < l.first {
			continue
		}
		if !counting && float32((k.partial[j]+c.boundHere()+rest)*sumSlack) <= bound {
			s.c.Lower = true
			continue
		}
		i, ok, err := l.index(r)
		if err != nil {
			return 0, err
		}
		if !ok {
			continue
		}
		freq := l.freqAt(i)
		v := k.partial[j] + float64(c.score(freq, r))*c.repeat
		if !counting && float32((v+rest)*sumSlack) <= bound {
			s.c.Lower = true
			continue
		}
		k.rowsOf[m], k.partial[m] = r, v
		for _, p := range place[:at] {
			k.freqs[p][m] = k.freqs[p][j]
		}
		k.freqs[place[at]][m] = freq
		m++
	}
	return m, nil
}

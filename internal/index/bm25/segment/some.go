package segment

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// A row with at least so many clauses has one of any that are left when fewer than so many are set aside. So the most
// frequent lists are set aside, or those that are not worth enough, whichever are more postings; rows are taken from the
// others and looked up in them.

// someWindow searches a window for rows with as many clauses as are needed.
func (s *search) someWindow(live []*clause, lo, hi uint32) error {
	aside := s.setAside(live)
	w := &s.window
	clear(w.rows[:])
	for _, c := range live[aside:] {
		err := c.each(lo, hi, 0, func(l *list, from, to int) {
			c.scoreBlock(from, to)
			for j := from; j < to; j++ {
				k := (l.row[j] - lo) & (windowRows - 1)
				w.sums[k] += float64(c.scores[j]) * c.repeat
				w.found[k] += int64(c.repeat)
				w.rows[k>>6] |= 1 << (k & 63)
			}
		})
		if err != nil {
			return err
		}
	}
	rest, left := 0.0, int64(0)
	for _, c := range live[:aside] {
		rest += c.most
		left += int64(c.repeat)
	}
	bound := s.bound()
	n := s.someRows(lo, rest, left, bound)
	for i := aside - 1; i >= 0 && n > 0; i-- {
		c := live[i]
		rest, left = 0, left-int64(c.repeat)
		for _, o := range live[:i] {
			rest += o.most
		}
		k := 0
		for j, r := range w.cand[:n] {
			v, found := w.values[j], w.matched[j]
			freq, err := c.at(r)
			if err != nil {
				return err
			}
			if freq > 0 {
				v += float64(c.score(freq, r)) * c.repeat
				found += int64(c.repeat)
			}
			if found+left < int64(s.need) || !s.counts && float32(v+rest) <= bound {
				s.c.Lower = s.c.Lower || !s.counts
				continue
			}
			w.cand[k], w.values[k], w.matched[k] = r, v, found
			k++
		}
		n = k
	}
	s.c.Hits += int64(n)
	s.offer(n, bound)
	return nil
}

// setAside brings the lists in which rows are only looked up to the front and gives their number.
func (s *search) setAside(live []*clause) int {
	bound := s.bound()
	docs := func(cs []*clause) (n int64) {
		for _, c := range cs {
			n += c.list.term.DocFreq
		}
		return n
	}
	// By what they are worth, unless every row must be seen.
	byWorth, worthDocs := 0, int64(0)
	if !s.counts {
		slices.SortFunc(live, func(a, b *clause) int { return cmp.Compare(a.most, b.most) })
		for rest := 0.0; byWorth < len(live) && float32(rest+live[byWorth].most) <= bound; byWorth++ {
			rest += live[byWorth].most
		}
		worthDocs = docs(live[:byWorth])
	}
	frequent := append(s.spare[:0], live...)
	s.spare = frequent
	slices.SortFunc(frequent, func(a, b *clause) int { return cmp.Compare(b.list.term.DocFreq, a.list.term.DocFreq) })
	byCount, left := 0, s.need-1
	for byCount < len(frequent) && int(frequent[byCount].repeat) <= left {
		left -= int(frequent[byCount].repeat)
		byCount++
	}
	if docs(frequent[:byCount]) <= worthDocs {
		return byWorth
	}
	copy(live, frequent)
	return byCount
}

// someRows takes the rows that were seen and may be hits, with their sums and numbers of clauses.
func (s *search) someRows(lo uint32, rest float64, left int64, bound float32) int {
	w := &s.window
	n := 0
	for i, b := range w.rows {
		allowed := uint64(math.MaxUint64)
		if s.filter != nil && b != 0 {
			allowed = s.filter.words[int(lo>>6)+i]
		}
		for ; b != 0; b &= b - 1 {
			t := bits.TrailingZeros64(b)
			k := (i*64 + t) & (windowRows - 1)
			v, found := w.sums[k], w.found[k]
			w.sums[k], w.found[k] = 0, 0
			if allowed>>t&1 == 0 || found+left < int64(s.need) {
				continue
			}
			if !s.counts && float32(v+rest) <= bound {
				s.c.Lower = true
				continue
			}
			w.cand[n], w.values[n], w.matched[n] = lo+uint32(k), v, found
			n++
		}
	}
	return n
}

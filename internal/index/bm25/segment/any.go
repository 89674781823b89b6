package segment

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/overlakedb/overlake/internal/index/bm25/block"
	"github.com/overlakedb/overlake/internal/index/bm25/posting"
)

// A search for any of several terms goes over windows of rows. In a window, a term adds at most what its best block there is
// worth. Those terms that together cannot reach what a row must exceed are not essential (MaxScore, Turtle and Flood 1995; in
// windows, Lucene's MaxScoreBulkScorer): rows are taken from the postings of the others, and only rows that may still reach it are looked up in them.
const windowRows = 4096

// window is the room for one.
type window struct {
	sums    [windowRows]float64
	found   [windowRows]int64       // clauses
	rows    [windowRows / 64]uint64 // that were seen
	hits    [windowRows / 64]uint64 // that match, while all are counted
	cand    [windowRows]uint32
	values  [windowRows]float64
	matched [windowRows]int64 // clauses of candidates

	spare []*clause
}

// any searches for rows with at least one clause, or with as many as are needed.
func (s *search) any() error {
	s.ordered = !s.exact()
	known := int64(0)
	if s.need == 1 && s.filter == nil {
		// No fewer rows match than have the most frequent term.
		for _, c := range s.clauses {
			known = max(known, c.list.term.DocFreq)
		}
	}
	if err := s.raise(); err != nil {
		return err
	}
	before := s.c.Hits
	s.known = before + known
	err := s.windows()
	s.c.Hits = max(s.c.Hits, s.known)
	return err
}

// exact tells whether scores of these clauses can be added in any order without rounding. A score is a multiple of the last
// digit of w / (1 + freq·inv), so sums are exact as long as they stay below 2^53 of the smallest such digit.
func (s *search) exact() bool {
	sum, digit := 0.0, math.MaxFloat64
	for _, c := range s.clauses {
		if c.weight == 0 {
			continue
		}
		part := float64(c.weight)
		if !math.IsInf(c.greatest, 1) { // else the score is the weight itself
			part /= 1 + c.greatest*float64(c.maxFreq)
		}
		sum += float64(c.weight) * c.repeat
		_, e := math.Frexp(part / 2) // half for what rounds
		digit = min(digit, math.Ldexp(1, max(e-24, -149)))
	}
	return sum < digit*(1<<53)
}

// windows goes over all windows in which something may be found.
func (s *search) windows() error {
	live := append(s.sorted[:0], s.clauses...)
	lo := uint32(0)
	for n := 0; ; n++ {
		if n%64 == 0 {
			if err := canceled(s.ctx); err != nil {
				return err
			}
		}
		from, k := posting.End, 0
		for _, c := range live {
			if r := c.nextRow(lo); r != posting.End {
				from = min(from, r)
				live[k] = c
				k++
			}
		}
		if live = live[:k]; k == 0 {
			return nil
		}
		lo = from &^ (windowRows - 1)
		hi := lo + windowRows
		s.counts = s.c.Track < 0 || max(s.c.Hits, s.known) <= s.c.Track
		total := 0.0
		for _, c := range live {
			c.most = c.mostIn(lo, hi)
			total += c.most
		}
		bound := s.bound()
		var err error
		switch {
		case float32(total) <= bound && !s.counts:
			s.c.Lower = true
		case s.ordered:
			err = s.wholeWindow(lo, hi)
		case s.need > 1:
			err = s.someWindow(live, lo, hi)
		default:
			slices.SortFunc(live, func(a, b *clause) int { return cmp.Compare(a.most, b.most) })
			essential, rest := 0, 0.0
			for essential < k && float32(rest+live[essential].most) <= bound {
				rest += live[essential].most
				essential++
			}
			err = s.anyWindow(live, essential, lo, hi)
		}
		if err != nil {
			return err
		}
		lo = hi
	}
}

// nextRow is a row, not below lo, before which the list has none from lo on; posting.End where it has no more.
func (c *clause) nextRow(lo uint32) uint32 {
	l := c.list
	if c.small {
		for c.next < l.count && l.row[c.next] < lo {
			c.next++
		}
		if c.next >= l.count {
			return posting.End
		}
		return l.row[c.next]
	}
	for c.next < l.n && l.lastOf(c.next) < lo {
		c.next++
	}
	if c.next >= l.n {
		return posting.End
	}
	if c.next == 0 {
		return lo
	}
	return max(lo, l.lastOf(c.next-1)+1)
}

// mostIn bounds what a posting of the window adds; nextRow was called with lo before.
func (c *clause) mostIn(lo, hi uint32) float64 {
	l := c.list
	if c.small {
		most := float32(0)
		for i := c.next; i < l.count && l.row[i] < hi; i++ {
			most = max(most, c.scores[i])
		}
		return float64(most) * (1 + boundSlack) * c.repeat
	}
	if c.next > 0 && l.lastOf(c.next-1)+1 >= hi {
		return 0
	}
	most := uint16(0)
	for i := c.next; ; i++ {
		most = max(most, l.worthOf(i))
		if i+1 >= l.n || l.lastOf(i) >= hi-1 {
			break
		}
	}
	return c.bound(most)
}

// each gives the postings of the window, rows decoded, in blocks of at least a worth: those from from to to of the block at
// work.
func (c *clause) each(lo, hi uint32, least uint16, f func(l *list, from, to int)) error {
	l := c.list
	if c.small {
		to := c.next
		for to < l.count && l.row[to] < hi {
			to++
		}
		if to > c.next {
			f(l, c.next, to)
		}
		return nil
	}
	for i := c.next; i < l.n; i++ {
		if i > 0 && l.lastOf(i-1)+1 >= hi {
			return nil
		}
		if l.worthOf(i) < least {
			continue
		}
		if err := c.open(i); err != nil {
			return err
		}
		from, to := 0, l.count
		if l.first < lo {
			from = block.LowerBound(&l.row, lo)
		}
		if l.last >= hi {
			to = block.LowerBound(&l.row, hi)
		}
		if from < to {
			f(l, from, to)
		}
		if l.last >= hi {
			return nil
		}
	}
	return nil
}

// anyWindow searches a window. The clauses before essential cannot make a hit by themselves; they ascend by the most that
// they add.
func (s *search) anyWindow(live []*clause, essential int, lo, hi uint32) (err error) {
	rest := 0.0
	for _, c := range live[:essential] {
		rest += c.most
	}
	n := 0
	if !s.counts && essential == len(live)-1 {
		n, err = s.oneEssential(live[essential], lo, hi, rest)
	} else {
		n, err = s.manyEssential(live, essential, lo, hi, rest)
	}
	bound := s.bound()
	for i := essential - 1; i >= 0 && n > 0 && err == nil; i-- {
		n, err = s.lookUp(live[:i+1], n, bound)
	}
	if err == nil {
		s.offer(n, bound)
	}
	return err
}

// oneEssential takes candidates from the only list that makes hits.
func (s *search) oneEssential(c *clause, lo, hi uint32, rest float64) (n int, err error) {
	w := &s.window
	bound := s.bound()
	s.c.Lower = true
	cut := c.cut(bound, rest)
	take := func(l *list, from, to int) {
		if s.filter == nil {
			s.c.Hits += int64(to - from)
		}
		picked := c.above(from, to, cut)
		for _, j := range c.picked[:picked] {
			r := l.row[j]
			if s.filter != nil {
				if !s.filter.has(r) {
					continue
				}
				s.c.Hits++
			}
			w.cand[n&(windowRows-1)], w.values[n&(windowRows-1)] = r, float64(c.scores[j])*c.repeat
			n++
		}
	}
	least := uint16(0)
	if !c.small {
		least = c.leastWorth(float32(float64(cut) * c.repeat)) // of a block that may hold a candidate
	}
	return n, c.each(lo, hi, least, take)
}

// manyEssential adds up the scores of the lists that make hits, and counts rows if that is still to be done.
func (s *search) manyEssential(live []*clause, essential int, lo, hi uint32, rest float64) (int, error) {
	w := &s.window
	clear(w.rows[:])
	for _, c := range live[essential:] {
		if err := s.accumulate(c, lo, hi); err != nil {
			return 0, err
		}
	}
	if s.counts {
		w.hits = w.rows
		for _, c := range live[:essential] {
			err := c.each(lo, hi, 0, func(l *list, from, to int) {
				for _, r := range l.row[from:to] {
					k := (r - lo) & (windowRows - 1)
					w.hits[k>>6] |= 1 << (k & 63)
				}
			})
			if err == nil && !c.small && c.list.at != c.next {
				err = c.list.load(c.next) // for what is looked up below
			}
			if err != nil {
				return 0, err
			}
		}
		s.countHits(lo)
	} else if essential > 0 {
		s.c.Lower = true
	}
	return s.candidates(lo, rest, !s.counts), nil
}

// lookUp looks for candidates in the last of some lists. Those that cannot exceed the bound are dropped.
func (s *search) lookUp(lists []*clause, n int, bound float32) (int, error) {
	w := &s.window
	c := lists[len(lists)-1]
	others := 0.0
	for _, o := range lists[:len(lists)-1] {
		others += o.most
	}
	// What stays below these limits cannot exceed the bound, whatever is rounded.
	limit := float64(bound) - others
	limit -= (math.Abs(float64(bound)) + math.Abs(limit)) * boundSlack
	first := limit - c.most
	l := c.list
	k := 0
	for j, r := range w.cand[:n] {
		v := w.values[j]
		if v <= first {
			continue
		}
		if r > l.last {
			if ok, err := l.seek(r); !ok {
				if err != nil {
					return 0, err
				}
				r0 := copy(w.cand[k:], w.cand[j:n])
				copy(w.values[k:], w.values[j:n])
				return k + r0, nil
			}
		}
		if r >= l.first {
			if v+c.boundHere() <= limit {
				continue
			}
			i, ok, err := l.index(r)
			if err != nil {
				return 0, err
			}
			if ok {
				v += float64(c.score(l.freqAt(i), r)) * c.repeat
			}
		}
		if v > limit {
			w.cand[k], w.values[k] = r, v
			k++
		}
	}
	return k, nil
}

// offer gives candidates to the list of the best.
func (s *search) offer(n int, bound float32) {
	w := &s.window
	for j, r := range w.cand[:n] {
		if v := float32(w.values[j]); v > bound {
			s.c.Top.Offer(s.part, r, v)
			bound = s.bound()
		}
	}
}

// accumulate adds the scores of a clause.
func (s *search) accumulate(c *clause, lo, hi uint32) error {
	w := &s.window
	return c.each(lo, hi, 0, func(l *list, from, to int) {
		c.scoreBlock(from, to)
		repeat := c.repeat
		for j := from; j < to; j++ {
			k := (l.row[j&127] - lo) & (windowRows - 1)
			w.sums[k] += float64(c.scores[j&127]) * repeat
			w.rows[k>>6] |= 1 << (k & 63)
		}
	})
}

// countHits counts the rows of hits that the filter allows.
func (s *search) countHits(lo uint32) {
	w := &s.window
	for i, b := range w.hits {
		if b == 0 {
			continue
		}
		if s.filter != nil {
			b &= s.filter.words[int(lo>>6)+i]
		}
		s.c.Hits += int64(bits.OnesCount64(b))
	}
}

// candidates takes the rows that were seen and may still be among the best, with their sums. count says that they are hits to be counted.
func (s *search) candidates(lo uint32, rest float64, count bool) int {
	w := &s.window
	// Sums up to cut cannot, whatever is rounded.
	bound := float64(s.bound())
	cut := bound - rest
	cut -= (math.Abs(bound) + math.Abs(cut)) * boundSlack
	n := 0
	for i, b := range w.rows {
		if b == 0 {
			continue
		}
		if s.filter != nil {
			allowed := s.filter.words[int(lo>>6)+i]
			for out := b &^ allowed; out != 0; out &= out - 1 {
				w.sums[(i*64+bits.TrailingZeros64(out))&(windowRows-1)] = 0
			}
			b &= allowed
		}
		if count {
			s.c.Hits += int64(bits.OnesCount64(b))
		}
		for ; b != 0; b &= b - 1 {
			k := (i*64 + bits.TrailingZeros64(b)) & (windowRows - 1)
			v := w.sums[k]
			w.sums[k] = 0
			if v > cut {
				w.cand[n], w.values[n] = lo+uint32(k), v
				n++
			}
		}
	}
	return n
}

// wholeWindow adds all clauses in their order.
func (s *search) wholeWindow(lo, hi uint32) error {
	w := &s.window
	clear(w.rows[:])
	for _, c := range s.clauses {
		err := c.each(lo, hi, 0, func(l *list, from, to int) {
			c.scoreBlock(from, to)
			for j := from; j < to; j++ {
				k := (l.row[j] - lo) & (windowRows - 1)
				w.sums[k] = c.add(w.sums[k], c.scores[j])
				w.found[k] += int64(c.repeat)
				w.rows[k>>6] |= 1 << (k & 63)
			}
		})
		if err != nil {
			return err
		}
	}
	for i, b := range w.rows {
		for ; b != 0; b &= b - 1 {
			k := i*64 + bits.TrailingZeros64(b)
			if w.found[k] < int64(s.need) {
				w.rows[i] &^= 1 << (k & 63)
				w.sums[k] = 0
			}
			w.found[k] = 0
		}
	}
	s.offer(s.candidates(lo, 0, true), s.bound())
	return nil
}

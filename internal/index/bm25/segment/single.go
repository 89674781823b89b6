package segment

import (
	"math"
)

// bound is the score that a row must exceed to matter.
func (s *search) bound() float32 { return max(s.c.Top.Bound(s.part), s.floor) }

// raise finds a score that as many rows as are wanted reach by one clause alone, so that no other row below it can be among the
// best. It may be used where every row with a clause is a hit.
func (s *search) raise() error {
	k := s.c.Top.K()
	if s.filter != nil || s.need > 1 || k < 1 || k > floorRows {
		return nil
	}
	blocks := floorBlocks
	if len(s.clauses) > 1 {
		blocks = 2
	}
	for _, c := range s.clauses {
		if float32(float64(c.weight)*c.repeat) <= s.floor {
			continue // it cannot reach more
		}
		v, err := c.reached(k, blocks)
		if err != nil {
			return err
		}
		if v >= 0 {
			// Rows that score the same are still wanted.
			s.floor = max(s.floor, math.Nextafter32(v, float32(math.Inf(-1))))
		}
	}
	return nil
}

// single searches one clause. Blocks that cannot hold a better row are not decoded.
func (s *search) single() error {
	c := s.clauses[0]
	l := c.list
	counted := s.filter == nil
	if counted {
		s.c.Hits += l.term.DocFreq
		if s.c.Top.K() == 0 {
			return nil
		}
		if l.n > floorBlocks {
			if err := s.raise(); err != nil {
				return err
			}
		}
	}
	bound := s.bound()
	least := c.leastWorth(bound)
	for i := range l.n {
		if i%1024 == 0 {
			if err := canceled(s.ctx); err != nil {
				return err
			}
		}
		if !c.small {
			if l.worthOf(i) < least && (counted || !s.c.counting()) {
				s.c.Lower = s.c.Lower || !counted
				continue
			}
			if err := c.open(i); err != nil {
				return err
			}
		}
		before := bound
		if s.filter == nil && c.repeat == 1 {
			n := c.above(0, l.count, bound)
			for _, j := range c.picked[:n] {
				if v := c.scores[j]; v > bound {
					s.c.Top.Offer(s.part, l.row[j], v)
					bound = s.bound()
				}
			}
		} else {
			c.scoreBlock(0, l.count)
			bound = s.singleRows(c, bound)
		}
		if bound > before {
			least = c.leastWorth(bound)
		}
	}
	return nil
}

// singleRows takes the rows of a block that the filter allows, and gives the new bound.
func (s *search) singleRows(c *clause, bound float32) float32 {
	l := c.list
	for j, v := range c.scores[:l.count] {
		r := l.row[j]
		if s.filter != nil {
			if !s.filter.has(r) {
				continue
			}
			s.c.Hits++
		}
		if v = float32(float64(v) * c.repeat); v > bound {
			s.c.Top.Offer(s.part, r, v)
			bound = s.bound()
		}
	}
	return bound
}

// leastWorth is the least worth of a block that may hold a row above a score.
func (c *clause) leastWorth(bound float32) uint16 {
	lo, hi := 0, math.MaxUint16
	for lo < hi {
		mid := (lo + hi) / 2
		if float32(c.bound(uint16(mid))) > bound {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return uint16(lo)
}

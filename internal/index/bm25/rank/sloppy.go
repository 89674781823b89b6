package rank

import (
	"github.com/overlakedb/overlake/internal/index/bm25/primitive"
)

// sloppy finds phrases whose terms may be moved: Lucene's SloppyPhraseMatcher. Every term has a phrase position, its position
// in the text less its position in the phrase. A match is a set of positions, one of each term, whose phrase positions lie
// within slop; the term with the least is moved on as long as it stays behind the next, so that each match is the closest
// of its kind. It counts 1 / (1 + distance). Terms that are the same may not stand on one word.
type sloppy struct {
	places []*slopPlace
	groups [][]*slopPlace // places that share terms, by their position in the phrase
	queue  []*slopPlace   // a heap: the least phrase position first
	stack  []*slopPlace
	end    int64 // the greatest phrase position
}

type slopPlace struct {
	offset int64
	order  int
	group  int // -1: shares no term
	index  int // in the group

	list []uint32
	next int
	at   int64 // phrase position
}

func newSloppy(parts []primitive.Part) *sloppy {
	s := &sloppy{}
	for i, p := range parts {
		s.places = append(s.places, &slopPlace{offset: int64(p.Position), order: i, group: -1})
	}
	// Places that share a term, also through others, are one group.
	owner := make([]int, len(parts))
	for i := range owner {
		owner[i] = i
	}
	var root func(i int) int
	root = func(i int) int {
		if owner[i] != i {
			owner[i] = root(owner[i])
		}
		return owner[i]
	}
	first := map[string]int{}
	for i, p := range parts {
		for _, t := range p.Terms {
			if j, ok := first[t]; ok {
				owner[root(i)] = root(j)
			} else {
				first[t] = i
			}
		}
	}
	members := map[int][]*slopPlace{}
	for i, p := range s.places {
		members[root(i)] = append(members[root(i)], p)
	}
	for i := range parts {
		if g := members[i]; len(g) > 1 {
			for j, p := range g {
				p.group, p.index = len(s.groups), j
			}
			s.groups = append(s.groups, g)
		}
	}
	return s
}

// forward moves a place to its next position.
func (p *slopPlace) forward() bool {
	if p.next >= len(p.list) {
		return false
	}
	p.at = int64(p.list[p.next]) - p.offset
	p.next++
	return true
}

// word is the position in the text.
func (p *slopPlace) word() int64 { return p.at + p.offset }

func (s *sloppy) less(a, b *slopPlace) bool {
	if a.at != b.at {
		return a.at < b.at
	}
	if a.offset != b.offset {
		return a.offset < b.offset
	}
	return a.order < b.order
}

func (s *sloppy) push(p *slopPlace) {
	s.queue = append(s.queue, p)
	for i := len(s.queue) - 1; i > 0; {
		up := (i - 1) / 2
		if !s.less(s.queue[i], s.queue[up]) {
			break
		}
		s.queue[i], s.queue[up] = s.queue[up], s.queue[i]
		i = up
	}
}

func (s *sloppy) pop() *slopPlace {
	top := s.queue[0]
	last := len(s.queue) - 1
	s.queue[0] = s.queue[last]
	s.queue = s.queue[:last]
	for i := 0; ; {
		least := i
		for _, c := range [2]int{2*i + 1, 2*i + 2} {
			if c < last && s.less(s.queue[c], s.queue[least]) {
				least = c
			}
		}
		if least == i {
			return top
		}
		s.queue[i], s.queue[least] = s.queue[least], s.queue[i]
		i = least
	}
}

// frequency is that of the phrase in a row with these positions of its terms.
func (s *sloppy) frequency(lists [][]uint32, slop int) float32 {
	for i, p := range s.places {
		p.list, p.next = lists[i], 0
		if !p.forward() {
			return 0
		}
	}
	if !s.spread() {
		return 0
	}
	s.queue = s.queue[:0]
	s.end = s.places[0].at
	for _, p := range s.places {
		s.end = max(s.end, p.at)
		s.push(p)
	}
	freq := float32(0)
	p := s.pop()
	length := s.end - p.at
	next := s.queue[0].at
	for s.forward(p) {
		if !s.resolve(p) {
			break
		}
		if p.at > next {
			s.push(p)
			if length <= int64(slop) {
				freq += 1 / float32(1+float32(length))
			}
			p = s.pop()
			next = s.queue[0].at
			length = s.end - p.at
			continue
		}
		length = min(length, s.end-p.at)
	}
	if length <= int64(slop) {
		freq += 1 / float32(1+float32(length))
	}
	return freq
}

// forward moves a place and keeps the end.
func (s *sloppy) forward(p *slopPlace) bool {
	if !p.forward() {
		return false
	}
	s.end = max(s.end, p.at)
	return true
}

// collision is the place of the same group that stands on the word of p.
func (s *sloppy) collision(p *slopPlace) *slopPlace {
	for _, o := range s.groups[p.group] {
		if o != p && o.word() == p.word() {
			return o
		}
	}
	return nil
}

// behind is the lesser of two places.
func behind(a, b *slopPlace) *slopPlace {
	if a.at < b.at || a.at == b.at && a.offset < b.offset {
		return a
	}
	return b
}

// spread moves places of a group until no two stand on one word.
func (s *sloppy) spread() bool {
	s.end = 0
	for _, g := range s.groups {
		for i := 0; i < len(g); i++ {
			for p := g[i]; ; {
				o := s.collision(p)
				if o == nil {
					break
				}
				least := behind(p, o)
				if !least.forward() {
					return false
				}
				if least.index < i {
					i = -1 // one that was free has moved
					break
				}
			}
		}
	}
	return true
}

// resolve moves places on until the one that was just moved shares its word with no other of its group, and puts those in
// the queue that moved in order again.
func (s *sloppy) resolve(p *slopPlace) bool {
	if p.group < 0 {
		return true
	}
	self, moved := p, false
	for {
		o := s.collision(p)
		if o == nil {
			break
		}
		p = behind(p, o)
		if !s.forward(p) {
			return false
		}
		moved = moved || p != self
	}
	if moved {
		s.stack = append(s.stack[:0], s.queue...)
		s.queue = s.queue[:0]
		for _, q := range s.stack {
			s.push(q)
		}
	}
	return true
}

package segment

import "slices"

// sloppyMatch counts a phrase whose terms may be moved, as Lucene 8's SloppyPhraseMatcher does: the terms' places, each less
// its offset in the phrase, are merged; whenever the least of them moves on, the distance to the greatest is that of a match,
// which counts 1/(1+distance) when it is within the slop. Slots of the same term never stand on one place.
type sloppyMatch struct {
	groups [][]int // slots of a term that stands in the phrase twice or more, by offset
	group  []int   // of each slot, -1 for none
	at     []int   // of each slot in its group
	queue  []int
	stack  []int
	moved  []bool
	end    int64
}

// prepare looks for terms that stand in the phrase more than once.
func (m *sloppyMatch) prepare(slots []slot) {
	m.groups = m.groups[:0]
	m.group, m.at = m.group[:0], m.at[:0]
	for range slots {
		m.group, m.at = append(m.group, -1), append(m.at, -1)
	}
	for i := range slots {
		if m.group[i] >= 0 {
			continue
		}
		g := []int{i}
		for k := i + 1; k < len(slots); k++ {
			if slots[k].list == slots[i].list {
				g = append(g, k)
			}
		}
		if len(g) < 2 {
			continue
		}
		slices.SortStableFunc(g, func(a, b int) int { return slots[a].offset - slots[b].offset })
		for n, k := range g {
			m.group[k], m.at[k] = len(m.groups), n
		}
		m.groups = append(m.groups, g)
	}
}

// position is where a slot stands, less its offset.
func (s *slot) position() int64 { return int64(s.positions[s.at]) - int64(s.offset) }

func (s *slot) next() bool {
	if s.at+1 >= len(s.positions) {
		return false
	}
	s.at++
	return true
}

func (m *sloppyMatch) less(slots []slot, a, b int) bool {
	x, y := &slots[a], &slots[b]
	switch p, q := x.position(), y.position(); {
	case p != q:
		return p < q
	case x.offset != y.offset:
		return x.offset < y.offset
	}
	return a < b
}

func (m *sloppyMatch) push(slots []slot, i int) {
	k, _ := slices.BinarySearchFunc(m.queue, i, func(a, b int) int {
		if m.less(slots, a, b) {
			return 1
		}
		return -1
	})
	m.queue = slices.Insert(m.queue, k, i) // the least is the last
}

func (m *sloppyMatch) pop() int {
	i := m.queue[len(m.queue)-1]
	m.queue = m.queue[:len(m.queue)-1]
	return i
}

// freq is how often the phrase stands in a row, near matches counted in part.
func (m *sloppyMatch) freq(slots []slot, slop int) float32 {
	m.queue = m.queue[:0]
	for _, g := range m.groups {
		for j := 1; j < len(g); j++ {
			for range j {
				if !slots[g[j]].next() {
					return 0
				}
			}
		}
	}
	for i := range slots {
		p := slots[i].position()
		if i == 0 || p > m.end {
			m.end = p
		}
		m.push(slots, i)
	}
	sum := float32(0)
	for positioned := true; positioned; {
		var length int64
		if length, positioned = m.match(slots, int64(slop)); length <= int64(slop) {
			sum += 1 / float32(1+float32(length))
		}
	}
	return sum
}

// match goes to the next match within the slop and gives its distance; where there is none more, the last distance seen and
// false.
func (m *sloppyMatch) match(slots []slot, slop int64) (length int64, positioned bool) {
	i := m.pop()
	length = m.end - slots[i].position()
	next := slots[m.queue[len(m.queue)-1]].position()
	for m.advance(slots, i) {
		if m.group[i] >= 0 {
			k, ok := m.apart(slots, i)
			if !ok {
				break
			}
			i = k
		}
		if slots[i].position() > next {
			m.push(slots, i)
			if length <= slop {
				return length, true
			}
			i = m.pop()
			next = slots[m.queue[len(m.queue)-1]].position()
			length = m.end - slots[i].position()
		} else {
			length = min(length, m.end-slots[i].position())
		}
	}
	return length, false
}

func (m *sloppyMatch) advance(slots []slot, i int) bool {
	if !slots[i].next() {
		return false
	}
	m.end = max(m.end, slots[i].position())
	return true
}

// apart moves slots of the same term on until none stands where another does; i is not in the queue.
func (m *sloppyMatch) apart(slots []slot, i int) (int, bool) {
	g := m.groups[m.group[i]]
	m.moved = append(m.moved[:0], make([]bool, len(g))...)
	first := i
	many := 0
	at := i
	for {
		other := m.collides(slots, g, at)
		if other < 0 {
			break
		}
		k := m.at[other]
		if !(slots[at].position() < slots[other].position() || slots[at].position() == slots[other].position() && slots[at].offset < slots[other].offset) {
			at = other
		}
		if !m.advance(slots, at) {
			return 0, false
		}
		if k != m.at[first] && !m.moved[k] {
			m.moved[k] = true
			many++
		}
	}
	// Those that were moved while in the queue go to their new place.
	m.stack = m.stack[:0]
	for many > 0 {
		k := m.pop()
		m.stack = append(m.stack, k)
		if m.group[k] == m.group[i] && m.moved[m.at[k]] {
			m.moved[m.at[k]] = false
			many--
		}
	}
	for n := len(m.stack) - 1; n >= 0; n-- {
		m.push(slots, m.stack[n])
	}
	return first, true
}

// collides gives a slot of the group that stands where slot i does, -1 for none.
func (m *sloppyMatch) collides(slots []slot, g []int, i int) int {
	at := slots[i].positions[slots[i].at]
	for _, k := range g {
		if k != i && slots[k].positions[slots[k].at] == at {
			return k
		}
	}
	return -1
}

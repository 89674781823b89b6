package graph

// candidate is a node and its distance from the query.
type candidate struct {
	dist float32
	node uint32 // with the bit expanded when its links were followed
}

const expanded = 1 << 31

// pool is the nearest nodes seen so far, at most size of them, ascending by distance; of equal ones, those seen first. It
// takes the place of the two heaps of the paper: the nearest node whose links were not followed is at next or behind it.
type pool struct {
	c    []candidate
	size int
	next int
}

func (p *pool) reset(size int) {
	if cap(p.c) < size {
		p.c = make([]candidate, 0, size)
	}
	p.c, p.size, p.next = p.c[:0], size, 0
}

func (p *pool) full() bool { return len(p.c) == p.size }

// worst is the distance that keeps a node out if its own is not below; while there is room NaN, which keeps out none, not
// even those infinitely far.
func (p *pool) worst() float32 {
	if len(p.c) < p.size {
		return nan
	}
	return p.c[len(p.c)-1].dist
}

// add puts in a node that is not in it. A distance that is no number counts as infinite.
func (p *pool) add(dist float32, node uint32) {
	c := p.c
	n := len(c)
	if n == p.size {
		if !(dist < c[n-1].dist) {
			return
		}
		n--
	} else {
		if dist != dist {
			dist = inf
		}
		c = c[:n+1]
		p.c = c
	}
	// The number of candidates of the first n at a distance of at most dist.
	at := 0
	for span := n; span > 0; {
		half := (span + 1) / 2
		probe := at + half
		if c[probe-1].dist <= dist {
			at = probe
			span -= half
		} else {
			span = half - 1
		}
	}
	copy(c[at+1:n+1], c[at:n])
	c[at] = candidate{dist, node}
	if at < p.next {
		p.next = at
	}
}

// expand gives the nearest node whose links were not followed and marks it; false when there is none.
func (p *pool) expand() (uint32, bool) {
	for p.next < len(p.c) {
		c := &p.c[p.next]
		p.next++
		if c.node&expanded == 0 {
			node := c.node
			c.node |= expanded
			return node, true
		}
	}
	return 0, false
}

// frontier is a heap with the nearest node first. It has no bound: a filtered walk follows many nodes that cannot be hits.
type frontier []candidate

func (f *frontier) push(dist float32, node uint32) {
	h := append(*f, candidate{dist, node})
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if h[up].dist <= dist {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = candidate{dist, node}
	*f = h
}

func (f *frontier) pop() candidate {
	h := *f
	first, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	i := 0
	for {
		down := 2*i + 1
		if down >= len(h) {
			break
		}
		if down+1 < len(h) && h[down+1].dist < h[down].dist {
			down++
		}
		if last.dist <= h[down].dist {
			break
		}
		h[i] = h[down]
		i = down
	}
	if len(h) > 0 {
		h[i] = last
	}
	*f = h
	return first
}

// seen are the nodes that a walk met: those whose mark is that of this walk.
type seen struct {
	marks []uint8
	now   uint8
}

func (s *seen) begin(nodes int) {
	if len(s.marks) != nodes {
		s.marks, s.now = make([]uint8, nodes), 0
	}
	s.now++
	if s.now == 0 {
		clear(s.marks)
		s.now = 1
	}
}

// mark tells whether the node was not met before.
func (s *seen) mark(node uint32) bool {
	if s.marks[node] == s.now {
		return false
	}
	s.marks[node] = s.now
	return true
}

// fresh gives the links of a row that lead to nodes not met before, and marks those; out has room for a row.
func (s *seen) fresh(row, out []uint32) []uint32 {
	n := 0
	now, marks := s.now, s.marks
	out = out[:len(row)]
	for _, node := range row {
		if node == none {
			break
		}
		out[n] = node
		if marks[node] != now {
			n++
		}
		marks[node] = now
	}
	return out[:n]
}

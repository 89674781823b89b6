package automaton

import (
	"slices"
	"unicode/utf8"
)

// dead is the state that accepts nothing.
const dead int32 = -1

// unknown is a transition that was not looked at yet.
const unknown int32 = -2

// maxCached is the number of deterministic states that are remembered, of about 1 KiB each.
const maxCached = 1024

// lazy makes deterministic states over bytes as they are needed. A state is a set of states of the graph and the bytes of a
// character that is not complete yet.
type lazy struct {
	g     *graph
	ids   map[string]int32
	nodes []node
	seen  []bool
	key   []byte
}

type node struct {
	set     []int32 // sorted, closed
	pending [utf8.UTFMax]byte
	wait    uint8 // bytes of pending
	accept  bool
	next    *[256]int32
}

func newLazy(g *graph) *lazy {
	l := &lazy{g: g, ids: map[string]int32{}, seen: make([]bool, len(g.states))}
	return l
}

// room forgets the states when there are too many. No state may be in use.
func (l *lazy) room() {
	if len(l.nodes) > maxCached {
		clear(l.ids)
		clear(l.nodes)
		l.nodes = l.nodes[:0]
	}
}

// restart forgets all states but one, and gives it its new number.
func (l *lazy) restart(s int32) int32 {
	n := l.nodes[s]
	clear(l.ids)
	clear(l.nodes)
	l.nodes = l.nodes[:0]
	l.start()
	return l.add(n.set, n.pending[:n.wait])
}

func (l *lazy) start() int32 {
	if len(l.nodes) == 0 {
		l.add([]int32{0}, nil)
	}
	return 0
}

// add gives the number of a state; set need not be closed.
func (l *lazy) add(set []int32, pending []byte) int32 {
	if len(set) == 0 {
		return dead
	}
	for _, s := range set {
		l.seen[s] = true
	}
	set = l.g.closure(set, l.seen)
	for _, s := range set {
		l.seen[s] = false
	}
	slices.Sort(set)
	l.key = l.key[:0]
	for _, s := range set {
		l.key = append(l.key, byte(s), byte(s>>8))
	}
	l.key = append(l.key, 0xff, 0xff)
	l.key = append(l.key, pending...)
	if id, ok := l.ids[string(l.key)]; ok {
		return id
	}
	n := node{set: slices.Clone(set), wait: uint8(len(pending))}
	copy(n.pending[:], pending)
	end := set
	for range pending { // an incomplete character at the end is as many invalid bytes
		end = l.move(end, utf8.RuneError)
	}
	n.accept = slices.Contains(end, l.g.accept)
	id := int32(len(l.nodes))
	l.nodes = append(l.nodes, n)
	l.ids[string(l.key)] = id
	return id
}

// move is the closed set behind a character.
func (l *lazy) move(set []int32, r rune) []int32 {
	var out []int32
	for _, s := range set {
		for _, e := range l.g.states[s].edges {
			if r >= e.lo && r <= e.hi && !l.seen[e.to] {
				l.seen[e.to] = true
				out = append(out, e.to)
			}
		}
	}
	out = l.g.closure(out, l.seen)
	for _, s := range out {
		l.seen[s] = false
	}
	return out
}

// step goes over one byte.
func (l *lazy) step(s int32, c byte) int32 {
	if t := l.nodes[s].next; t != nil && t[c] != unknown {
		return t[c]
	}
	n := &l.nodes[s]
	if n.next == nil {
		n.next = new([256]int32)
		for i := range n.next {
			n.next[i] = unknown
		}
	}
	set := n.set
	bytes := append(append(make([]byte, 0, utf8.UTFMax), n.pending[:n.wait]...), c)
	for len(bytes) > 0 && utf8.FullRune(bytes) {
		r, w := utf8.DecodeRune(bytes)
		set = l.move(set, r)
		bytes = bytes[w:]
	}
	to := l.add(slices.Clone(set), bytes)
	l.nodes[s].next[c] = to // add may have moved the nodes
	return to
}

func (l *lazy) accepts(s int32) bool { return l.nodes[s].accept }

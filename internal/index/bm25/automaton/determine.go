package automaton

import (
	"slices"
	"unicode"
)

// table is a deterministic automaton over classes of characters. Its start is state 0; -1 is a dead end.
type table struct {
	starts []rune // the first character of each class; the first is 0
	next   [][]int32
	accept []bool
}

// maxWork bounds the steps of one determinization: edges that are looked at.
const maxWork = 2_000_000

// determine makes the table of an expression over at least the classes given.
func (b *builder) determine(e expr, starts []rune) *table {
	inner := newBuilder()
	end := inner.add(e, 0)
	if inner.err != nil {
		b.err = inner.err
		return nil
	}
	inner.g.accept = end
	g := &inner.g
	t := &table{starts: g.classes(starts)}
	seen := make([]bool, len(g.states))
	ids := map[string]int32{}
	var sets [][]int32
	id := func(set []int32) int32 {
		set = g.closure(set, seen)
		for _, s := range set {
			seen[s] = false
		}
		if len(set) == 0 {
			return -1
		}
		slices.Sort(set)
		key := make([]byte, 0, 2*len(set))
		for _, s := range set {
			key = append(key, byte(s), byte(s>>8))
		}
		n, ok := ids[string(key)]
		if !ok {
			n = int32(len(sets))
			ids[string(key)] = n
			sets = append(sets, set)
			t.accept = append(t.accept, slices.Contains(set, end))
		}
		return n
	}
	seen[0] = true
	id([]int32{0})
	work := 0
	for i := 0; i < len(sets); i++ {
		for _, s := range sets[i] {
			work += len(t.starts) * (1 + len(g.states[s].edges) + len(g.states[s].free))
		}
		if len(sets) > MaxStates || work > maxWork {
			b.fail()
			return nil
		}
		row := make([]int32, len(t.starts))
		for c, r := range t.starts {
			var to []int32
			for _, s := range sets[i] {
				for _, e := range g.states[s].edges {
					if r >= e.lo && r <= e.hi && !seen[e.to] {
						seen[e.to] = true
						to = append(to, e.to)
					}
				}
			}
			row[c] = id(to)
		}
		t.next = append(t.next, row)
	}
	return t
}

// classes are the first characters of the runs that no edge tells apart, and of those given.
func (g *graph) classes(starts []rune) []rune {
	out := append([]rune{0}, starts...)
	for _, s := range g.states {
		for _, e := range s.edges {
			out = append(out, e.lo)
			if e.hi < unicode.MaxRune {
				out = append(out, e.hi+1)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// last is the last character of a class.
func (t *table) last(class int) rune {
	if class+1 < len(t.starts) {
		return t.starts[class+1] - 1
	}
	return unicode.MaxRune
}

// complement puts behind a state what the expression does not accept.
func (b *builder) complement(e expr, from int32) int32 {
	t := b.determine(e, nil)
	if t == nil {
		return 0
	}
	// The dead end becomes a state that accepts everything.
	end := b.state()
	all := b.state()
	b.edge(all, all, 0, unicode.MaxRune)
	b.free(all, end)
	places := b.places(len(t.next))
	for i, row := range t.next {
		if b.err != nil {
			return 0
		}
		if !t.accept[i] {
			b.free(places[i], end)
		}
		for c, to := range row {
			target := all
			if to >= 0 {
				target = places[to]
			}
			b.edge(places[i], target, t.starts[c], t.last(c))
		}
	}
	if b.err == nil {
		b.free(from, places[0])
	}
	return end
}

// product puts behind a state what both expressions accept.
func (b *builder) product(x, y expr, from int32) int32 {
	first := b.determine(x, nil)
	if first == nil {
		return 0
	}
	t := b.determine(y, first.starts)
	if t == nil {
		return 0
	}
	first = first.refine(t.starts)
	end := b.state()
	type pair struct{ a, b int32 }
	at := map[pair]int32{}
	var todo []pair
	place := func(p pair) int32 {
		s, ok := at[p]
		if !ok {
			s = b.state()
			at[p] = s
			todo = append(todo, p)
		}
		return s
	}
	b.free(from, place(pair{0, 0}))
	for len(todo) > 0 && b.err == nil {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		here := at[p]
		if first.accept[p.a] && t.accept[p.b] {
			b.free(here, end)
		}
		for c := range t.starts {
			if to := (pair{first.next[p.a][c], t.next[p.b][c]}); to.a >= 0 && to.b >= 0 {
				b.edge(here, place(to), t.starts[c], t.last(c))
			}
		}
	}
	return end
}

func (b *builder) places(n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = b.state()
	}
	return out
}

// refine is the same table over finer classes, which hold all of its own.
func (t *table) refine(starts []rune) *table {
	out := &table{starts: starts, accept: t.accept}
	for _, row := range t.next {
		fine := make([]int32, len(starts))
		at := 0
		for c, r := range starts {
			for at+1 < len(t.starts) && t.starts[at+1] <= r {
				at++
			}
			fine[c] = row[at]
		}
		out.next = append(out.next, fine)
	}
	return out
}

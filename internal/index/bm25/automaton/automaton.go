// Package automaton answers: which terms of a dictionary does a pattern accept?
//
// An Automaton is a set of terms given by a prefix, a wildcard, a regular expression, an edit distance or a range. It is
// walked over a sorted dictionary: where no term with some beginning can be accepted, the walk goes on behind that beginning.
//
// Patterns speak of characters, terms are bytes. A byte that is not UTF-8 counts as one character U+FFFD, so every sequence
// of bytes is a sequence of characters.
//
// A pattern is bounded when it is made: it has at most MaxStates states, and what would need more is errs.Exhausted.
// Deterministic states are made as a walk meets them and forgotten when they are many, so time is linear in the bytes that
// are looked at, and memory is bounded, whatever the pattern.
package automaton

import (
	"bytes"
	"context"
	"unicode/utf8"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/posting"
)

// MaxStates is the largest number of states of one pattern, Lucene's limit for regular expressions.
const MaxStates = 10_000

// Automaton is a set of terms. It is immutable and safe for concurrent use.
type Automaton struct {
	first []byte // no accepted term is less
	last  []byte // none is greater, where bounded is set
	open  bool   // last itself is not accepted
	after bool   // first itself is not accepted

	bounded bool
	prefix  bool   // first is a prefix of every accepted term
	graph   *graph // nil: what first, last and prefix say is all
}

// Prefix accepts the terms that begin with p.
func Prefix(p []byte) *Automaton { return &Automaton{first: bytes.Clone(p), prefix: true} }

// Bounds say where a range of terms begins and ends, in the order of their bytes. A nil From or To is no bound.
type Bounds struct {
	From, To               []byte
	ExcludeFrom, ExcludeTo bool
}

// Range accepts the terms between two bounds.
func Range(b Bounds) *Automaton {
	return &Automaton{first: bytes.Clone(b.From), after: b.From != nil && b.ExcludeFrom, last: bytes.Clone(b.To), open: b.ExcludeTo, bounded: b.To != nil}
}

// of makes the automaton of a graph.
func of(g *graph) *Automaton {
	g.trim()
	return &Automaton{graph: g, first: g.common(), prefix: true}
}

// maxSkip is how many bytes of a term are looked at to skip others: each may need a state.
const maxSkip = 2048

// Matcher runs an automaton. It belongs to one goroutine.
type Matcher struct {
	a     *Automaton
	dfa   *lazy
	stack []int32 // of Next: the state before each byte
}

// Matcher begins a run.
func (a *Automaton) Matcher() *Matcher {
	m := &Matcher{a: a}
	if a.graph != nil {
		m.dfa = newLazy(a.graph)
	}
	return m
}

// Match reports whether the automaton accepts a term.
func (m *Matcher) Match(term []byte) bool {
	a := m.a
	if a.prefix && !bytes.HasPrefix(term, a.first) {
		return false
	}
	if c := bytes.Compare(term, a.first); c < 0 || c == 0 && a.after {
		return false
	}
	if a.bounded {
		if c := bytes.Compare(term, a.last); c > 0 || c == 0 && a.open {
			return false
		}
	}
	if m.dfa == nil {
		return true
	}
	m.dfa.room()
	s := m.dfa.start()
	for _, c := range term {
		if s = m.dfa.step(s, c); s == dead {
			return false
		}
		if len(m.dfa.nodes) > 2*maxCached {
			s = m.dfa.restart(s)
		}
	}
	return m.dfa.accepts(s)
}

// Next says where a walk goes on behind a term: at the term that follows it (nil), at the first that is not less than seek,
// which is greater than term, or nowhere.
func (m *Matcher) Next(term []byte) (seek []byte, more bool) {
	a := m.a
	switch c := bytes.Compare(term, a.first); {
	case c < 0:
		return a.first, true
	case a.prefix && !bytes.HasPrefix(term, a.first):
		return nil, false
	}
	if a.bounded && bytes.Compare(term, a.last) >= 0 {
		return nil, false
	}
	if m.dfa == nil {
		return nil, true
	}
	m.dfa.room()
	m.stack = append(m.stack[:0], m.dfa.start())
	at := 0
	for ; at < len(term); at++ {
		if at == maxSkip {
			return nil, true
		}
		s := m.dfa.step(m.stack[at], term[at])
		if s == dead {
			break
		}
		m.stack = append(m.stack, s)
	}
	if at == len(term) {
		return nil, true
	}
	for ; at >= 0; at-- {
		for c := int(term[at]) + 1; c < 256; c++ {
			if m.dfa.step(m.stack[at], byte(c)) != dead {
				return append(bytes.Clone(term[:at]), byte(c)), true
			}
		}
	}
	return nil, false
}

// Each yields the terms of a field that an automaton accepts, in the order of their bytes, until yield says false. The
// bytes of a term are valid during the call.
func Each(ctx context.Context, s posting.Source, field int, a *Automaton, yield func(term []byte, t posting.Term) bool) error {
	m := a.Matcher()
	steps := 0
	return s.Walk(ctx, field, a.first, func(term []byte, t posting.Term) ([]byte, bool) {
		if steps++; steps&1023 == 0 && ctx.Err() != nil {
			return nil, false
		}
		if m.Match(term) && !yield(term, t) {
			return nil, false
		}
		return m.Next(term)
	})
}

// graph is a nondeterministic automaton over characters. State 0 is the start.
type graph struct {
	states []state
	accept int32
}

type state struct {
	free  []int32 // reached without a character
	edges []edge
}

type edge struct {
	lo, hi rune
	to     int32
}

// builder makes graphs; the first failure sticks.
type builder struct {
	g   graph
	err error
}

func newBuilder() *builder { return &builder{g: graph{states: make([]state, 1)}} }

func (b *builder) state() int32 {
	if len(b.g.states) >= MaxStates {
		b.fail()
		return 0
	}
	b.g.states = append(b.g.states, state{})
	return int32(len(b.g.states) - 1)
}

func (b *builder) fail() {
	if b.err == nil {
		b.err = errs.Newf(errs.Exhausted, "automaton.new", "the pattern needs more than %d states", MaxStates)
		b.err = errs.With(b.err, errs.Hint("repeat fewer characters, or cut the pattern into several"))
	}
}

func (b *builder) free(from, to int32) {
	if from != to && b.err == nil {
		b.g.states[from].free = append(b.g.states[from].free, to)
	}
}

func (b *builder) edge(from, to int32, lo, hi rune) {
	if b.err == nil {
		b.g.states[from].edges = append(b.g.states[from].edges, edge{lo, hi, to})
	}
}

// finish gives the automaton that accepts at a state.
func (b *builder) finish(end int32) (*Automaton, error) {
	if b.err != nil {
		return nil, b.err
	}
	b.g.accept = end
	return of(&b.g), nil
}

// trim removes edges to states from where no end is reached, so that a set of states which is not empty can be completed.
func (g *graph) trim() {
	back := make([][]int32, len(g.states))
	for from, s := range g.states {
		for _, to := range s.free {
			back[to] = append(back[to], int32(from))
		}
		for _, e := range s.edges {
			back[e.to] = append(back[e.to], int32(from))
		}
	}
	live := make([]bool, len(g.states))
	live[g.accept] = true
	for todo := []int32{g.accept}; len(todo) > 0; {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, from := range back[s] {
			if !live[from] {
				live[from] = true
				todo = append(todo, from)
			}
		}
	}
	for i := range g.states {
		s := &g.states[i]
		free := s.free[:0]
		for _, to := range s.free {
			if live[to] {
				free = append(free, to)
			}
		}
		edges := s.edges[:0]
		for _, e := range s.edges {
			if live[e.to] {
				edges = append(edges, e)
			}
		}
		s.free, s.edges = free, edges
	}
}

// closure adds the states that are reached without a character. set must be sorted by the caller afterwards.
func (g *graph) closure(set []int32, seen []bool) []int32 {
	for i := 0; i < len(set); i++ {
		for _, to := range g.states[set[i]].free {
			if !seen[to] {
				seen[to] = true
				set = append(set, to)
			}
		}
	}
	return set
}

// common is the longest beginning that all accepted terms share, as far as it is a chain of single characters.
func (g *graph) common() []byte {
	seen := make([]bool, len(g.states))
	set := []int32{0}
	seen[0] = true
	var out []byte
	for len(out) < 256 {
		set = g.closure(set, seen)
		r, n := rune(-1), 0
		for _, s := range set {
			if s == g.accept {
				return out
			}
			for _, e := range g.states[s].edges {
				if e.lo != e.hi || n > 0 && e.lo != r || e.lo == utf8.RuneError {
					return out
				}
				r = e.lo
				n++
			}
		}
		if n == 0 {
			return out
		}
		clear(seen)
		next := make([]int32, 0, n)
		for _, s := range set {
			for _, e := range g.states[s].edges {
				if !seen[e.to] {
					seen[e.to] = true
					next = append(next, e.to)
				}
			}
		}
		set = next
		out = utf8.AppendRune(out, r)
	}
	return out
}

package automaton

import (
	"unicode"
	"unicode/utf8"
)

// Wildcard accepts what a pattern describes: * is any number of characters, ? is one, and a backslash takes the next
// character as it is. With fold, letters match in either case.
func Wildcard(pattern string, fold bool) (*Automaton, error) {
	b := newBuilder()
	at := int32(0)
	for i := 0; i < len(pattern); {
		r, w := utf8.DecodeRuneInString(pattern[i:])
		i += w
		switch {
		case r == '*':
			b.edge(at, at, 0, unicode.MaxRune)
			continue
		case r == '?':
			next := b.state()
			b.edge(at, next, 0, unicode.MaxRune)
			at = next
			continue
		case r == '\\' && i < len(pattern):
			r, w = utf8.DecodeRuneInString(pattern[i:])
			i += w
		}
		next := b.state()
		b.char(at, next, r, fold)
		at = next
	}
	return b.finish(at)
}

// FoldedPrefix accepts the terms that begin with p, letters in either case.
func FoldedPrefix(p string) (*Automaton, error) {
	b := newBuilder()
	at := int32(0)
	for _, r := range p {
		next := b.state()
		b.char(at, next, r, true)
		at = next
	}
	b.edge(at, at, 0, unicode.MaxRune)
	return b.finish(at)
}

// char goes from one state to another over a character.
func (b *builder) char(from, to int32, r rune, fold bool) {
	b.edge(from, to, r, r)
	if fold {
		for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
			b.edge(from, to, o, o)
		}
	}
}

// Fuzzy accepts the terms that at most edits changes make of term, where a change adds, takes or replaces a character, or,
// with transpositions, swaps two neighbours. The first prefix characters must be the same.
func Fuzzy(term string, edits, prefix int, transpositions bool) (*Automaton, error) {
	return fuzzy(term, edits, prefix, transpositions, false)
}

// FuzzyPrefix accepts the terms that begin with what Fuzzy accepts, with transpositions.
func FuzzyPrefix(term string, edits, prefix int) (*Automaton, error) {
	return fuzzy(term, edits, prefix, true, true)
}

func fuzzy(term string, edits, prefix int, transpositions, open bool) (*Automaton, error) {
	chars := []rune(term)
	prefix = min(max(prefix, 0), len(chars))
	b := newBuilder()
	at := int32(0)
	for _, r := range chars[:prefix] {
		next := b.state()
		b.edge(at, next, r, r)
		at = next
	}
	chars = chars[prefix:]
	n := len(chars)
	end := b.state()
	if open {
		b.edge(end, end, 0, unicode.MaxRune)
	}
	// The state (i, e) has read chars[:i] with e changes.
	place := make([][]int32, edits+1)
	for e := range place {
		place[e] = make([]int32, n+1)
		for i := range place[e] {
			place[e][i] = b.state()
			if b.err != nil {
				return nil, b.err
			}
		}
	}
	b.free(at, place[0][0])
	for e := range place {
		for i := range n + 1 {
			here := place[e][i]
			if i == n {
				b.free(here, end)
			} else {
				b.edge(here, place[e][i+1], chars[i], chars[i])
			}
			if e == edits {
				continue
			}
			b.edge(here, place[e+1][i], 0, unicode.MaxRune)
			if i < n {
				b.edge(here, place[e+1][i+1], 0, unicode.MaxRune)
				b.free(here, place[e+1][i+1])
			}
			if transpositions && i+1 < n && chars[i] != chars[i+1] {
				between := b.state()
				b.edge(here, between, chars[i+1], chars[i+1])
				b.edge(between, place[e+1][i+2], chars[i], chars[i])
			}
		}
	}
	return b.finish(end)
}

// Distance is the number of changes that make b of a, as Fuzzy counts them, or limit+1 when there are more than limit.
func Distance(a, b []rune, limit int, transpositions bool) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i, x := range a {
		next[0] = i + 1
		best := next[0]
		for j, y := range b {
			d := row[j]
			if x != y {
				d++
			}
			d = min(d, row[j+1]+1, next[j]+1)
			if transpositions && i > 0 && j > 0 && x == b[j-1] && y == a[i-1] {
				d = min(d, before[j-1]+1)
			}
			next[j+1] = d
			best = min(best, d)
		}
		if best > limit+1 { // a swap may still save one
			return limit + 1
		}
		before, row, next = row, next, before
	}
	return min(row[len(b)], limit+1)
}

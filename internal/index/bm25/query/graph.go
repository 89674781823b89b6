package query

import (
	"fmt"
	"slices"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/primitive"
)

// A graph is the tokens of a text, in the order of their positions. Several may begin at one position, and one may cover
// several: "ny" beside "new york". A way through the graph is what somebody may have meant; what lies between two positions
// that every way passes is a stretch.
type graph []graphToken

type graphToken struct {
	term   string
	at     int // counted from the first token
	length int // positions that it covers
}

// maxPaths is the largest number of ways through one text.
const maxPaths = 1024

// analyze cuts a text into tokens.
func (l *lowering) analyze(a *analysis.Analyzer, text string) (graph, error) {
	var g graph
	if l.cut != nil {
		g = l.cut(text)
		return g, l.count(len(g))
	}
	for l.stream.Reset(a, text); l.stream.Next(); {
		if err := l.count(1); err != nil {
			return nil, err
		}
		g = append(g, graphToken{string(l.stream.Term), l.stream.Position, l.stream.PositionLength})
	}
	for i := len(g) - 1; i >= 0; i-- {
		g[i].at -= g[0].at
	}
	return g, nil
}

// branches reports whether a token covers more than one position.
func (g graph) branches() bool {
	return slices.ContainsFunc(g, func(t graphToken) bool { return t.length > 1 })
}

// terms are those of all tokens.
func (g graph) terms() []string {
	out := make([]string, len(g))
	for i, t := range g {
		out[i] = t.term
	}
	return out
}

// parts are the terms by position, whatever they cover.
func (g graph) parts() []primitive.Part {
	var parts []primitive.Part
	for _, t := range g {
		if n := len(parts); n > 0 && parts[n-1].Position == t.at {
			parts[n-1].Terms = append(parts[n-1].Terms, t.term)
			continue
		}
		parts = append(parts, primitive.Part{Position: t.at, Terms: []string{t.term}})
	}
	return parts
}

// stretches cuts the graph where every way passes.
func (g graph) stretches() []graph {
	var out []graph
	end := -1 // of the tokens so far
	for _, t := range g {
		if t.at >= end {
			out = append(out, nil)
		}
		last := len(out) - 1
		out[last] = append(out[last], t)
		end = max(end, t.at+t.length)
	}
	return out
}

// paths are the ways through a graph, each with its positions counted from its first token: what stands beside each other in
// one way has followed positions, and a gap stays one.
func (l *lowering) paths(g graph) ([][]primitive.Part, error) {
	starts := map[int][]graphToken{}
	end := 0
	for _, t := range g {
		starts[t.at] = append(starts[t.at], t)
		end = max(end, t.at+t.length)
	}
	var out [][]primitive.Part
	var walk func(at, position int, way []primitive.Part) error
	walk = func(at, position int, way []primitive.Part) error {
		for at < end && starts[at] == nil { // a gap
			at++
			position++
		}
		if at >= end {
			if len(out) >= maxPaths {
				return errs.New(errs.Exhausted, opLower, fmt.Sprintf("there are more than %d ways to read a text with its synonyms", maxPaths))
			}
			first := 0
			if len(way) > 0 {
				first = way[0].Position
			}
			one := slices.Clone(way)
			for i := range one {
				one[i].Position -= first
			}
			out = append(out, one)
			return l.count(len(one))
		}
		for _, t := range starts[at] {
			if err := walk(at+t.length, position+1, append(way[:len(way):len(way)], primitive.Part{Position: position, Terms: []string{t.term}})); err != nil {
				return err
			}
		}
		return nil
	}
	err := walk(g[0].at, 0, nil)
	return out, err
}

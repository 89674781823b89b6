// Package synonym answers: which words stand for which?
//
// A rule maps phrases to phrases, a phrase being one word or more. Rules are written in the form of Solr's files:
//
//	usa, united states, america        equivalent: each phrase also stands for the others
//	i-pod, i pod => ipod               the phrases on the left become those on the right
//	a\,b => c                          a backslash takes the meaning off the character behind it
//
// A Set holds the rules as a tree of words, so that the longest phrase that begins at a word is found by walking along. It is
// immutable once it is built, and safe for concurrent use.
package synonym

import (
	"slices"
	"strings"

	"github.com/overlakedb/overlake/internal/errs"
)

// The limits of a set. A rule of n equivalent phrases makes n·(n-1) replacements.
const (
	maxReplacements = 200_000
	maxWords        = 32 // in a phrase
)

// Rule is a rule as it is written: what stands left and right of the arrow. A rule of equivalent phrases has no right side.
type Rule struct {
	Left, Right []string
	Arrow       bool
}

// Parse reads rules, one a line; empty lines and those that begin with # are passed over. A line that is no rule is errs.Invalid.
func Parse(text string) ([]Rule, error) {
	var out []Rule
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		sides := [][]string{nil}
		var phrase strings.Builder
		end := func() {
			if p := strings.TrimSpace(phrase.String()); p != "" {
				last := len(sides) - 1
				sides[last] = append(sides[last], p)
			}
			phrase.Reset()
		}
		for i := 0; i < len(line); i++ {
			switch c := line[i]; {
			case c == '\\' && i+1 < len(line):
				i++
				phrase.WriteByte(line[i])
			case c == ',':
				end()
			case c == '=' && strings.HasPrefix(line[i:], "=>"):
				end()
				sides = append(sides, nil)
				i++
			default:
				phrase.WriteByte(c)
			}
		}
		end()
		switch {
		case len(sides) > 2:
			return nil, errs.New(errs.Invalid, "synonym.parse", "a rule has one arrow at most", errs.On(line))
		case len(sides[0]) == 0, len(sides) == 2 && len(sides[1]) == 0:
			return nil, errs.New(errs.Invalid, "synonym.parse", "a rule needs a phrase on each side", errs.On(line), errs.Hint("write a, b for equivalent phrases, or a, b => c"))
		}
		r := Rule{Left: sides[0]}
		if len(sides) == 2 {
			r.Right, r.Arrow = sides[1], true
		}
		out = append(out, r)
	}
	return out, nil
}

// Output is what stands for a phrase.
type Output struct {
	Phrases [][]string // each the words of one
	Keep    bool       // the phrase itself stays too
	Words   int        // of the phrase itself
}

// Set is a set of replacements. The zero value is empty and takes Add.
type Set struct {
	words        map[string]int32
	steps        map[step]int32
	outputs      []*Output // by state; nil where no phrase ends
	replacements int
	growth       int
}

type step struct{ state, word int32 }

// Add adds a replacement: the words of one phrase for those of another, which stays too if keep is set. A phrase for itself
// only keeps it.
func (s *Set) Add(from, to []string, keep bool) error {
	const op = "synonym.add"
	if len(from) == 0 || len(to) == 0 || len(from) > maxWords || len(to) > maxWords {
		return errs.With(errs.Newf(errs.Invalid, op, "a phrase of synonyms has 1 to %d words, not %d", maxWords, max(len(from), len(to))), errs.On(strings.Join(from, " ")))
	}
	if s.replacements++; s.replacements > maxReplacements {
		return errs.With(errs.Newf(errs.Invalid, op, "the rules make more than %d replacements", maxReplacements), errs.On(strings.Join(from, " ")), errs.Hint("write a, b, c => a in the place of a long list of equivalent phrases"))
	}
	if s.words == nil {
		s.words, s.steps, s.outputs = map[string]int32{}, map[step]int32{}, make([]*Output, 1)
	}
	state := int32(0)
	in := 0
	for _, w := range from {
		in += len(w)
		id, ok := s.words[w]
		if !ok {
			id = int32(len(s.words))
			s.words[w] = id
		}
		at := step{state, id}
		next, ok := s.steps[at]
		if !ok {
			next = int32(len(s.outputs))
			s.steps[at] = next
			s.outputs = append(s.outputs, nil)
		}
		state = next
	}
	o := s.outputs[state]
	if o == nil {
		o = &Output{Words: len(from)}
		s.outputs[state] = o
	}
	o.Keep = o.Keep || keep || slices.Equal(from, to)
	if !slices.Equal(from, to) && !slices.ContainsFunc(o.Phrases, func(p []string) bool { return slices.Equal(p, to) }) {
		o.Phrases = append(o.Phrases, slices.Clone(to))
	}
	out := 0
	for _, p := range o.Phrases {
		for _, w := range p {
			out += len(w)
		}
	}
	s.growth = max(s.growth, out/max(in, 1)+1)
	return nil
}

// Growth is about how many bytes stand for one byte of a phrase at most.
func (s *Set) Growth() int { return s.growth }

// Step goes on from a state, 0 at first, with the next word of the text. It reports whether some phrase goes on like that.
func (s *Set) Step(state int32, word []byte) (next int32, ok bool) {
	id, ok := s.words[string(word)]
	if !ok {
		return 0, false
	}
	next, ok = s.steps[step{state, id}]
	return next, ok
}

// Output is what stands for the phrase that ends at a state, or nil where none ends.
func (s *Set) Output(state int32) *Output {
	if int(state) >= len(s.outputs) {
		return nil
	}
	return s.outputs[state]
}

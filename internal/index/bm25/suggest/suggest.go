// Package suggest answers: what may somebody have meant to write?
//
// Suggestions come from the dictionaries of sources: a Terms suggester gives terms near to a word that is rare or not there,
// a Phrases suggester the likeliest way to write a whole text, by how often its words follow each other, and a Completer
// the weightiest terms with a beginning. The rules and numbers are Elasticsearch 7.10's.
//
// Frequencies are summed over all sources before anything is compared, so suggestions do not depend on how the rows are
// split.
package suggest

import (
	"cmp"
	"context"
	"iter"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/automaton"
	"github.com/overlakedb/overlake/internal/index/bm25/posting"
)

// Dictionary is a field of some sources.
type Dictionary struct {
	Sources []posting.Source
	Field   int
}

// counts are the rows a term stands in, and how often it stands there.
type counts struct{ docs, total int64 }

// entry is a term of a dictionary.
type entry struct {
	term string
	n    counts
}

// each yields the terms that an automaton accepts in the order of their bytes, with their numbers over all sources. After
// it, failed points at the error that ended it early.
func (d Dictionary) each(ctx context.Context, a *automaton.Automaton, failed *error) iter.Seq[entry] {
	return func(yield func(entry) bool) {
		type stream struct {
			next func() (entry, bool)
			head entry
		}
		var streams []*stream
		for _, s := range d.Sources {
			next, stop := iter.Pull(func(yield func(entry) bool) {
				if err := automaton.Each(ctx, s, d.Field, a, func(term []byte, t posting.Term) bool {
					return yield(entry{string(term), counts{t.DocFreq, t.TotalFreq}})
				}); err != nil && *failed == nil {
					*failed = err
				}
			})
			defer stop()
			st := &stream{next: next}
			var ok bool
			if st.head, ok = next(); ok {
				streams = append(streams, st)
			}
		}
		for len(streams) > 0 && *failed == nil {
			if err := ctx.Err(); err != nil {
				*failed = errs.Wrap(errs.Canceled, "suggest.walk", err)
				return
			}
			least := slices.MinFunc(streams, func(a, b *stream) int { return cmp.Compare(a.head.term, b.head.term) }).head.term
			out := entry{term: least}
			for i := 0; i < len(streams); {
				st := streams[i]
				if st.head.term != least {
					i++
					continue
				}
				out.n.docs += st.head.n.docs
				out.n.total += st.head.n.total
				var ok bool
				if st.head, ok = st.next(); !ok {
					streams = slices.Delete(streams, i, i+1)
					continue
				}
				i++
			}
			if !yield(out) {
				return
			}
		}
	}
}

// lookup sums the numbers of terms over the sources.
func (d Dictionary) lookup(ctx context.Context, terms []string) ([]counts, error) {
	list := make([][]byte, len(terms))
	for i, t := range terms {
		list[i] = []byte(t)
	}
	out := make([]counts, len(terms))
	for _, s := range d.Sources {
		found, err := s.Lookup(ctx, d.Field, list)
		if err != nil {
			return nil, err
		}
		for i, t := range found {
			out[i].docs += t.DocFreq
			out[i].total += t.TotalFreq
		}
	}
	return out, nil
}

// stats sums the numbers of the field.
func (d Dictionary) stats() posting.Stats {
	var out posting.Stats
	for _, s := range d.Sources {
		st := s.Stats(d.Field)
		out.Docs += st.Docs
		out.SumTotalTermFreq += st.SumTotalTermFreq
	}
	return out
}

// Mode says for which words there are suggestions.
type Mode string

// The modes. The zero value is Missing.
const (
	Missing Mode = "missing" // words that are not in the dictionary
	Popular Mode = "popular" // all words, and only terms that are in more rows
	Always  Mode = "always"  // all words
)

// TermOptions choose terms. The zero value is Elasticsearch's default, which each field names.
type TermOptions struct {
	Size           int     // suggestions of a word: 5
	Mode           Mode    // Missing
	MaxEdits       int     // 1 or 2: 2
	PrefixLength   *int    // characters that must be the same; nil: 1
	MinWordLength  int     // shorter words have no suggestions: 4
	MaxInspections int     // times Size terms are looked at: 5
	MinDocFreq     float64 // rows a suggestion must be in, below 1 a part of all: 0
	MaxTermFreq    float64 // a word in more rows has no suggestions, below 1 a part of all: 0.01
	ByFrequency    bool    // order by rows first, rather than by score
	Accuracy       float64 // the least score: 0.5
}

func or[T comparable](n, otherwise T) T {
	var zero T
	if n == zero {
		return otherwise
	}
	return n
}

func (o TermOptions) prepared() (TermOptions, int, error) {
	o.Size, o.Mode, o.MaxEdits, o.MinWordLength, o.MaxInspections = or(o.Size, 5), or(o.Mode, Missing), or(o.MaxEdits, 2), or(o.MinWordLength, 4), or(o.MaxInspections, 5)
	o.MaxTermFreq, o.Accuracy = or(o.MaxTermFreq, 0.01), or(o.Accuracy, 0.5)
	prefix := 1
	if o.PrefixLength != nil {
		prefix = *o.PrefixLength
	}
	const op = "suggest.options"
	switch {
	case o.Mode != Missing && o.Mode != Popular && o.Mode != Always:
		return o, 0, errs.New(errs.Invalid, op, "there is no such suggest_mode", errs.On(string(o.Mode)), errs.Hint("use missing, popular or always"))
	case o.MaxEdits < 1 || o.MaxEdits > 2:
		return o, 0, errs.New(errs.Invalid, op, "max_edits is 1 or 2")
	case o.Size < 0 || prefix < 0 || o.MinWordLength < 0 || o.MaxInspections < 0 || !(o.MinDocFreq >= 0) || !(o.MaxTermFreq >= 0) || !(o.Accuracy >= 0):
		return o, 0, errs.New(errs.Invalid, op, "the options of a suggester are not negative")
	}
	return o, prefix, nil
}

// Option is a suggestion for a word.
type Option struct {
	Text  string
	Score float64 // 1 - edits / length of the shorter word
	Freq  int64   // rows it is in
}

// Word is a word of the text and what may be meant.
type Word struct {
	Text       string // as analyzed
	Start, End int    // bytes of the text
	Options    []Option
}

// Terms suggests terms for every word of a text, as Lucene's DirectSpellChecker does: those one edit away, and where they are
// too few, those two edits away.
func (d Dictionary) Terms(ctx context.Context, a *analysis.Analyzer, text string, o TermOptions) ([]Word, error) {
	var words []Word
	var s analysis.Stream
	for s.Reset(a, text); s.Next(); {
		words = append(words, Word{Text: string(s.Term), Start: s.Start, End: s.End})
	}
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = w.Text
	}
	found, err := d.lookup(ctx, texts)
	if err != nil {
		return nil, err
	}
	for i := range words {
		if words[i].Options, err = d.near(ctx, words[i].Text, found[i].docs, o); err != nil {
			return nil, err
		}
	}
	return words, nil
}

// near gives the suggestions for one word, which stands in docs rows.
func (d Dictionary) near(ctx context.Context, word string, docs int64, options TermOptions) ([]Option, error) {
	o, prefix, err := options.prepared()
	if err != nil {
		return nil, err
	}
	chars := []rune(word)
	all := d.stats().Docs
	if len(chars) < o.MinWordLength || o.Mode == Missing && docs > 0 {
		return nil, nil
	}
	frequent := int64(o.MaxTermFreq)
	if o.MaxTermFreq < 1 {
		frequent = int64(math.Ceil(o.MaxTermFreq * float64(all)))
	}
	if docs > frequent {
		return nil, nil
	}
	least := int64(o.MinDocFreq)
	if o.MinDocFreq < 1 {
		least = int64(o.MinDocFreq * float64(all))
	}
	if o.Mode == Popular {
		least = max(least, docs+1)
	}
	var list []Option
	for edits := 1; edits <= o.MaxEdits && len(list) < o.Size; edits++ {
		a, err := automaton.Fuzzy(word, edits, prefix, true)
		if err != nil {
			return nil, err
		}
		list = list[:0]
		var failed error
		inspect := o.Size * o.MaxInspections
		for e := range d.each(ctx, a, &failed) {
			if e.term == word || e.n.docs < least {
				continue
			}
			x := []rune(e.term)
			score := 1 - float64(automaton.Distance(chars, x, edits, true))/float64(min(len(x), len(chars)))
			if score < o.Accuracy {
				continue
			}
			list = append(list, Option{e.term, score, e.n.docs})
			if len(list) > 2*inspect {
				list = bestOptions(list, inspect, false)
			}
		}
		if failed != nil {
			return nil, failed
		}
		list = bestOptions(list, inspect, false)
	}
	return bestOptions(list, o.Size, o.ByFrequency), nil
}

func bestOptions(list []Option, n int, byFrequency bool) []Option {
	slices.SortFunc(list, func(a, b Option) int {
		score, freq := cmp.Compare(b.Score, a.Score), cmp.Compare(b.Freq, a.Freq)
		if byFrequency {
			score, freq = freq, score
		}
		return cmp.Or(score, freq, cmp.Compare(a.Text, b.Text))
	})
	return list[:min(n, len(list))]
}

// CompletionOptions choose completions. The zero value is the default, which each field names.
type CompletionOptions struct {
	Size int // completions: 5

	// Fuzzy allows changes of the beginning: by AUTO, one from 3 characters on, two from 6.
	Fuzzy        bool
	PrefixLength *int // characters that must be the same; nil: 1

	// Weight is that of a term; nil: the number of rows it is in.
	Weight func(term string, docs int64) float64
}

// Completion is a term with the beginning that was asked for.
type Completion struct {
	Text   string
	Weight float64
	Edits  int // changes of the beginning
}

// Complete gives the weightiest terms that begin with a text; of those that need changes, fewer changes come first.
func (d Dictionary) Complete(ctx context.Context, beginning string, o CompletionOptions) ([]Completion, error) {
	size, prefix := or(o.Size, 5), 1
	if o.PrefixLength != nil {
		prefix = *o.PrefixLength
	}
	if size < 0 || prefix < 0 {
		return nil, errs.New(errs.Invalid, "suggest.complete", "size and prefix_length are not negative")
	}
	weight := o.Weight
	if weight == nil {
		weight = func(_ string, docs int64) float64 { return float64(docs) }
	}
	a := automaton.Prefix([]byte(beginning))
	edits := 0
	if o.Fuzzy {
		switch n := utf8.RuneCountInString(beginning); {
		case n >= 6:
			edits = 2
		case n >= 3:
			edits = 1
		}
		var err error
		if a, err = automaton.FuzzyPrefix(beginning, edits, prefix); err != nil {
			return nil, err
		}
	}
	var list []Completion
	var failed error
	target := []rune(beginning)
	trim := func() {
		slices.SortFunc(list, func(a, b Completion) int {
			return cmp.Or(cmp.Compare(a.Edits, b.Edits), cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.Text, b.Text))
		})
		list = list[:min(size, len(list))]
	}
	for e := range d.each(ctx, a, &failed) {
		c := Completion{Text: e.term, Weight: weight(e.term, e.n.docs)}
		if edits > 0 && !strings.HasPrefix(e.term, beginning) {
			c.Edits = beginningDistance(target, []rune(e.term), edits)
		}
		if list = append(list, c); len(list) >= 2*size+64 {
			trim()
		}
	}
	trim()
	return list, failed
}

// beginningDistance is the least number of changes that make some beginning of a term of a text.
func beginningDistance(text, term []rune, limit int) int {
	best := limit + 1
	for n := max(0, len(text)-limit); n <= min(len(term), len(text)+limit); n++ {
		best = min(best, automaton.Distance(text, term[:n], limit, true))
	}
	return best
}

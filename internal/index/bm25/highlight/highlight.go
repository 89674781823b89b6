// Package highlight answers: which words of a text made it match?
//
// A Highlighter is made of a query and analyzes a text again: so an index needs no offsets. It marks the words that stand
// for terms of the query, those of phrases only where the phrase stands, and cuts the text into fragments: sentences, with
// the next ones as long as they fit, as Elasticsearch's unified highlighter does by default. The best fragments are those
// with most, and rarest, of the terms.
package highlight

import (
	"cmp"
	"html"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/automaton"
	"github.com/overlakedb/overlake/internal/index/bm25/primitive"
)

// Options say how fragments look. The zero value is Elasticsearch's default, which each field names.
type Options struct {
	Fragments    int    // how many at most: 5
	FragmentSize int    // characters of a fragment, about: 100
	Whole        bool   // the whole text is one fragment
	Pre, Post    string // around a word, both "": <em> and </em>
	ByScore      bool   // the best fragment first, rather than that which stands first
	NoMatchSize  int    // characters from the beginning of a text without a mark; 0: such a text gives nothing
	HTML         bool   // the text between the tags is escaped
	Limit        int    // bytes of a text that are looked at: 1,000,000
	AnyField     bool   // words count that the query looks for in other fields
}

func or(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

// Highlighter marks texts of one field. It belongs to one goroutine.
type Highlighter struct {
	o        Options
	a        *analysis.Analyzer
	terms    map[string]bool
	patterns []*automaton.Matcher
	phrases  []primitive.Phrase
	stream   analysis.Stream
}

// New prepares a query for the texts of a field, which a cuts as it did for the index.
func New(n primitive.Node, field int, a *analysis.Analyzer, o Options) (*Highlighter, error) {
	if o.Fragments < 0 || o.FragmentSize < 0 || o.NoMatchSize < 0 || o.Limit < 0 {
		return nil, errs.New(errs.Invalid, "highlight.new", "the sizes of fragments are not negative")
	}
	o.Fragments, o.FragmentSize, o.Limit = or(o.Fragments, 5), or(o.FragmentSize, 100), or(o.Limit, 1_000_000)
	if o.Pre == "" && o.Post == "" {
		o.Pre, o.Post = "<em>", "</em>"
	}
	h := &Highlighter{o: o, a: a, terms: map[string]bool{}}
	h.collect(n, field)
	return h, nil
}

// collect finds what a query looks for in the field, apart from what it excludes.
func (h *Highlighter) collect(n primitive.Node, field int) {
	here := func(f int) bool { return h.o.AnyField || f == field }
	switch n := n.(type) {
	case primitive.Term:
		if here(n.Field) {
			h.terms[n.Term] = true
		}
	case primitive.Synonym:
		if here(n.Field) {
			for _, t := range n.Terms {
				h.terms[t] = true
			}
		}
	case primitive.TermSet:
		if here(n.Field) {
			for _, t := range n.Terms {
				h.terms[t] = true
			}
		}
	case primitive.Multi:
		if here(n.Field) {
			h.patterns = append(h.patterns, n.Automaton.Matcher())
		}
	case primitive.Fuzzy:
		if here(n.Field) {
			h.patterns = append(h.patterns, n.Automaton.Matcher())
		}
	case primitive.Phrase:
		if here(n.Field) {
			h.phrases = append(h.phrases, n)
		}
	case primitive.Blended:
		for _, t := range n.Terms {
			if here(t.Field) {
				h.terms[t.Term] = true
			}
		}
	case primitive.MoreLike:
		for _, t := range n.Counts {
			if here(t.Field) {
				h.terms[t.Term] = true
			}
		}
	case primitive.Bool:
		for _, c := range n.Clauses {
			if c.Occur != primitive.MustNot {
				h.collect(c.Node, field)
			}
		}
	case primitive.DisMax:
		for _, c := range n.Nodes {
			h.collect(c, field)
		}
	case primitive.Boost:
		h.collect(n.Node, field)
	case primitive.Constant:
		h.collect(n.Node, field)
	case primitive.Function:
		h.collect(n.Query, field)
	}
}

// token is a word of the text.
type token struct {
	term       string
	position   int
	start, end int
	marked     bool
}

// Mark is a marked word: bytes of the text.
type Mark struct{ Start, End int }

// Marks finds the words to mark, in their order; overlapping ones are one.
func (h *Highlighter) Marks(text string) []Mark {
	marks, _ := h.find(text)
	return marks
}

// find gives the marks and the term of each.
func (h *Highlighter) find(text string) ([]Mark, []string) {
	text = cut(text, h.o.Limit)
	var tokens []token
	for h.stream.Reset(h.a, text); h.stream.Next(); {
		k := token{position: h.stream.Position, start: h.stream.Start, end: h.stream.End, marked: h.terms[string(h.stream.Term)]}
		for i := 0; i < len(h.patterns) && !k.marked; i++ {
			k.marked = h.patterns[i].Match(h.stream.Term)
		}
		if k.marked || len(h.phrases) > 0 {
			k.term = string(h.stream.Term)
			tokens = append(tokens, k)
		}
	}
	for i := range h.phrases {
		markPhrase(&h.phrases[i], tokens)
	}
	var marks []Mark
	var terms []string
	tokens = slices.DeleteFunc(tokens, func(k token) bool { return !k.marked })
	slices.SortStableFunc(tokens, func(a, b token) int { return cmp.Compare(a.start, b.start) })
	for _, k := range tokens {
		if n := len(marks); n > 0 && k.start < marks[n-1].End {
			marks[n-1].End = max(marks[n-1].End, k.end)
			continue
		}
		marks, terms = append(marks, Mark{k.start, k.end}), append(terms, k.term)
	}
	return marks, terms
}

// cut shortens a text to at most n bytes, between characters.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// markPhrase marks the words of a phrase where it stands: where every part has a word whose phrase position, its position
// less that of the part, lies in one window as wide as the slop.
func markPhrase(p *primitive.Phrase, tokens []token) {
	type place struct {
		at, token int
	}
	lists := make([][]place, len(p.Parts))
	for i, part := range p.Parts {
		for t, k := range tokens {
			for _, term := range part.Terms {
				if k.term == term || p.Prefixes && i == len(p.Parts)-1 && strings.HasPrefix(k.term, term) {
					lists[i] = append(lists[i], place{k.position - part.Position, t})
					break
				}
			}
		}
		if lists[i] == nil {
			return
		}
		slices.SortFunc(lists[i], func(a, b place) int { return cmp.Compare(a.at, b.at) })
	}
	var starts []int
	for _, list := range lists {
		for _, x := range list {
			starts = append(starts, x.at)
		}
	}
	slices.Sort(starts)
	low := make([]int, len(lists))
	var inside []int
	words := map[int]bool{}
windows:
	for _, from := range slices.Compact(starts) {
		inside = inside[:0]
		clear(words)
		for i, list := range lists {
			for low[i] < len(list) && list[low[i]].at < from {
				low[i]++
			}
			found := false
			for j := low[i]; j < len(list) && list[j].at <= from+p.Slop; j++ {
				inside = append(inside, list[j].token)
				words[tokens[list[j].token].position] = true
				found = true
			}
			if !found {
				continue windows
			}
		}
		if len(words) < len(lists) {
			continue // terms that repeat stand on one word
		}
		for _, t := range inside {
			tokens[t].marked = true
		}
	}
}

// Fragments gives the best fragments of a text, marked. It is empty where nothing is marked and Options.NoMatchSize is 0.
func (h *Highlighter) Fragments(text string) []string {
	marks, terms := h.find(text)
	if len(marks) == 0 {
		if h.o.NoMatchSize == 0 || text == "" {
			return nil
		}
		if h.o.Whole {
			return []string{h.plain(text)}
		}
		end := wordEnd(text, advance(text, 0, h.o.NoMatchSize))
		return []string{h.plain(strings.TrimRightFunc(text[:end], unicode.IsSpace))}
	}
	if h.o.Whole {
		return []string{h.render(text, passage{end: len(text), marks: marks})}
	}
	passages := h.passages(text, marks)
	h.rate(passages, terms, len(text))
	order := make([]int, len(passages))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(passages[b].score, passages[a].score) })
	order = order[:min(len(order), h.o.Fragments)]
	if !h.o.ByScore {
		slices.Sort(order)
	}
	var out []string
	for _, i := range order {
		out = append(out, h.render(text, passages[i]))
	}
	return out
}

// Snippet is the best fragment of a text, marked; where nothing is marked, its beginning, as long as a fragment.
func (h *Highlighter) Snippet(text string) string {
	one := *h
	one.o.Fragments, one.o.NoMatchSize, one.o.ByScore = 1, h.o.FragmentSize, true
	if f := one.Fragments(text); len(f) > 0 {
		return f[0]
	}
	return ""
}

// passage is a part of the text with marks.
type passage struct {
	start, end int
	marks      []Mark
	first      int // number of its first mark
	score      float64
}

// passages cuts out the sentences that hold marks.
func (h *Highlighter) passages(text string, marks []Mark) []passage {
	var out []passage
	start, end := 0, 0 // the sentence at hand
	for i := 0; i < len(marks); {
		for end <= marks[i].Start {
			start, end = end, sentenceEnd(text, end)
		}
		from, to := start, end
		limit := advance(text, from, h.o.FragmentSize)
		switch {
		case to > limit: // too long: cut behind the first word that is beyond the size
			for {
				to = min(wordEnd(text, max(limit, from+1)), end)
				if to > marks[i].Start || to >= end {
					break
				}
				from, limit = to, advance(text, to, h.o.FragmentSize)
			}
			to = max(to, min(marks[i].End, len(text)))
			start, end = to, max(end, to)
			if start >= end {
				start = end
			}
		default:
			for to < len(text) {
				next := sentenceEnd(text, to)
				if next > limit {
					break
				}
				to = next
			}
			start, end = to, to
		}
		p := passage{start: from, end: to, first: i}
		for i < len(marks) && marks[i].Start < to {
			p.marks = append(p.marks, marks[i])
			p.end = max(p.end, marks[i].End)
			i++
		}
		if p.end > end {
			start, end = p.end, p.end
		}
		out = append(out, p)
	}
	return out
}

// The parameters of Lucene's PassageScorer: BM25 over passages, for a mean length of pivot characters.
const (
	passageK1    = 1.2
	passageB     = 0.75
	passagePivot = 87
)

// rate scores the passages.
func (h *Highlighter) rate(passages []passage, terms []string, length int) {
	total := map[string]int{}
	for _, t := range terms {
		total[t]++
	}
	for i := range passages {
		p := &passages[i]
		freq := map[string]int{}
		var order []string
		for j := range p.marks {
			t := terms[p.first+j]
			if freq[t] == 0 {
				order = append(order, t)
			}
			freq[t]++
		}
		norm := passageK1 * ((1 - passageB) + passageB*(float64(p.end-p.start)/passagePivot))
		for _, t := range order {
			docs := 1 + float64(length)/passagePivot
			weight := (passageK1 + 1) * math.Log(1+(docs+0.5)/(float64(total[t])+0.5))
			p.score += weight * float64(freq[t]) / (float64(freq[t]) + norm)
		}
		p.score *= 1 + 1/math.Log(passagePivot+float64(p.start))
	}
}

func (h *Highlighter) plain(s string) string {
	if h.o.HTML {
		return html.EscapeString(s)
	}
	return s
}

// render writes a passage with its marks, without blanks around it.
func (h *Highlighter) render(text string, p passage) string {
	if !h.o.Whole {
		for p.start < p.end {
			r, w := utf8.DecodeRuneInString(text[p.start:])
			if !unicode.IsSpace(r) {
				break
			}
			p.start += w
		}
		for p.end > p.start {
			r, w := utf8.DecodeLastRuneInString(text[:p.end])
			if !unicode.IsSpace(r) {
				break
			}
			p.end -= w
		}
	}
	var b strings.Builder
	at := p.start
	for _, m := range p.marks {
		from, to := max(m.Start, p.start), min(m.End, p.end)
		if from >= to {
			continue // a keyword of blanks
		}
		b.WriteString(h.plain(text[at:from]))
		b.WriteString(h.o.Pre)
		b.WriteString(h.plain(text[from:to]))
		b.WriteString(h.o.Post)
		at = to
	}
	b.WriteString(h.plain(text[at:p.end]))
	return b.String()
}

// advance is the byte n characters behind another.
func advance(text string, from, n int) int {
	for ; n > 0 && from < len(text); n-- {
		_, w := utf8.DecodeRuneInString(text[from:])
		from += w
	}
	return from
}

// wordEnd is the end of the word that a byte is in.
func wordEnd(text string, at int) int {
	for at < len(text) {
		r, w := utf8.DecodeRuneInString(text[at:])
		if unicode.IsSpace(r) {
			break
		}
		at += w
	}
	return at
}

// sentenceEnd is where the sentence ends that begins at a byte, with the blanks behind it. The rules are the main ones of
// UAX #29: a paragraph ends one; so do ! ? and their like, with closing quotes and blanks; so does a full stop that
// blanks and no lower-case letter follow.
func sentenceEnd(text string, from int) int {
	for i := from; i < len(text); {
		r, w := utf8.DecodeRuneInString(text[i:])
		i += w
		if r == '\n' || r == '\u2029' || r == '\u0085' {
			return i
		}
		stop := r == '.' || r == '․' || r == '﹒' || r == '．'
		if !stop && !(unicode.Is(unicode.STerm, r)) {
			continue
		}
		wide := r > 0x2e80  // no blanks follow
		for i < len(text) { // more stops, and what closes
			r, w := utf8.DecodeRuneInString(text[i:])
			if !unicode.Is(unicode.STerm, r) && !unicode.In(r, unicode.Pe, unicode.Pf, unicode.Pi) && r != '"' && r != '\'' {
				break
			}
			i += w
		}
		blanks := 0
		for i < len(text) {
			r, w := utf8.DecodeRuneInString(text[i:])
			if !unicode.IsSpace(r) {
				break
			}
			i += w
			blanks++
			if r == '\n' {
				return i
			}
		}
		if i == len(text) {
			return i
		}
		next, _ := utf8.DecodeRuneInString(text[i:])
		if (blanks > 0 || wide) && !(stop && unicode.IsLower(next)) {
			return i
		}
	}
	return len(text)
}

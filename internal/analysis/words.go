package analysis

import (
	"bytes"
	"regexp"
	"unicode"
	"unicode/utf8"

	"github.com/overlakedb/overlake/internal/analysis/fold"
	"github.com/overlakedb/overlake/internal/analysis/stem"
)

// stateless is what mappers are made of that remember nothing between tokens and look at nothing but the term.
type stateless struct{}

func (stateless) reset() {}
func (stateless) pure()  {}

// folding replaces the term by a fold of it.
type folding struct {
	stateless
	fold fold.Fold
	buf  []byte
}

func (m *folding) apply(t *token) bool {
	m.buf = m.fold(m.buf[:0], t.term)
	t.term, m.buf = m.buf, t.term
	return true
}

// lowering is folding by fold.Lowercase, which most chains begin with: it changes plain ASCII in place.
type lowering struct{ folding }

func (m *lowering) apply(t *token) bool {
	for i, c := range t.term {
		if c >= utf8.RuneSelf {
			return m.folding.apply(t)
		}
		t.term[i] = asciiLower[c]
	}
	return true
}

// foldingBoth puts out the fold of a term, and behind it the term itself where the two differ.
type foldingBoth struct {
	in      source
	fold    fold.Fold
	current token
	pending bool
}

func (f *foldingBoth) reset(text string) { f.in.reset(text); f.pending = false }

func (f *foldingBoth) next(t *token) bool {
	if f.pending {
		f.pending = false
		t.copyFrom(&f.current)
		t.inc = 0
		return true
	}
	if !f.in.next(&f.current) {
		return false
	}
	term := t.term[:0]
	*t = f.current
	t.term = f.fold(term, f.current.term)
	f.pending = !bytes.Equal(t.term, f.current.term)
	return true
}

// wordSet is a set of words, perhaps without regard to case.
type wordSet struct {
	words      map[string]bool
	ignoreCase bool
	buf        []byte
}

func newWordSet(words []string, ignoreCase bool) wordSet {
	s := wordSet{words: make(map[string]bool, len(words)), ignoreCase: ignoreCase}
	for _, w := range words {
		if ignoreCase {
			w = string(fold.Lowercase(nil, []byte(w)))
		}
		s.words[w] = true
	}
	return s
}

func (s *wordSet) has(term []byte) bool {
	if s.ignoreCase {
		s.buf = fold.Lowercase(s.buf[:0], term)
		term = s.buf
	}
	return s.words[string(term)]
}

// stopping drops the words of a set, or, inverted, all others.
type stopping struct {
	stateless
	set  wordSet
	keep bool
}

func (m *stopping) apply(t *token) bool { return m.set.has(t.term) == m.keep }

// marking protects words from stemmers.
type marking struct {
	stateless
	set     wordSet
	pattern *regexp.Regexp
}

func (m *marking) apply(t *token) bool {
	if m.pattern != nil {
		t.keyword = t.keyword || m.pattern.Match(t.term)
	} else {
		t.keyword = t.keyword || m.set.has(t.term)
	}
	return true
}

// stemming replaces a term that is not protected by its stem.
type stemming struct {
	stateless
	stem *stem.Stemmer
	buf  []byte
}

func (m *stemming) apply(t *token) bool {
	if !t.keyword {
		m.buf = m.stem.Append(m.buf[:0], t.term)
		t.term, m.buf = m.buf, t.term
	}
	return true
}

// possessive takes off 's, with any of three apostrophes.
type possessive struct{ stateless }

func (possessive) apply(t *token) bool {
	n := len(t.term)
	tail := string(t.term[max(n-4, 0):]) // the longest that can go
	t.term = t.term[:n-len(tail)+len(withoutPossessive(tail))]
	return true
}

// overriding replaces words and protects the results from stemmers.
type overriding struct {
	stateless
	to map[string]string
}

func (m *overriding) apply(t *token) bool {
	if to, ok := m.to[string(t.term)]; ok && !t.keyword {
		t.term = append(t.term[:0], to...)
		t.keyword = true
	}
	return true
}

// eliding takes off an article and the apostrophe behind it.
type eliding struct {
	stateless
	articles wordSet
}

func (m *eliding) apply(t *token) bool {
	if at, w := apostrophe(t.term); at >= 0 && m.articles.has(t.term[:at]) {
		t.term = append(t.term[:0], t.term[at+w:]...)
	}
	return true
}

// apostrophe finds the first ' or ’ in a term.
func apostrophe(term []byte) (at, width int) {
	for i, c := range term {
		if c == '\'' {
			return i, 1
		}
		if c == "’"[0] && bytes.HasPrefix(term[i:], []byte("’")) {
			return i, len("’")
		}
	}
	return -1, 0
}

// cutting takes off the first apostrophe and all that follows: Turkish suffixes of names.
type cutting struct{ stateless }

func (cutting) apply(t *token) bool {
	if at, _ := apostrophe(t.term); at >= 0 {
		t.term = t.term[:at]
	}
	return true
}

// truncating keeps the first characters of a term.
type truncating struct {
	stateless
	chars int
}

func (m *truncating) apply(t *token) bool {
	if len(t.term) > m.chars {
		t.term = t.term[:prefix(t.term, m.chars)]
	}
	return true
}

// prefix is the length in bytes of the first chars characters.
func prefix(term []byte, chars int) int {
	i := 0
	for ; chars > 0 && i < len(term); chars-- {
		_, w := utf8.DecodeRune(term[i:])
		i += w
	}
	return i
}

// measuring drops terms of fewer or more characters than wanted.
type measuring struct {
	stateless
	least, most int
}

func (m *measuring) apply(t *token) bool {
	n := utf8.RuneCount(t.term)
	return n >= m.least && n <= m.most
}

// reversing writes the characters from the last to the first.
type reversing struct {
	stateless
	buf []byte
}

func (m *reversing) apply(t *token) bool {
	b := m.buf[:0]
	for i := len(t.term); i > 0; {
		_, w := utf8.DecodeLastRune(t.term[:i])
		b = append(b, t.term[i-w:i]...)
		i -= w
	}
	t.term, m.buf = b, t.term
	return true
}

// trimming takes off white space at both ends.
type trimming struct{ stateless }

func (trimming) apply(t *token) bool {
	rest := bytes.TrimFunc(t.term, unicode.IsSpace)
	t.term = append(t.term[:0], rest...)
	return true
}

// distinct drops terms that were there before: in the whole text, or at the same position only.
type distinct struct {
	set          termSet
	samePosition bool
}

func (m *distinct) reset() { m.set.clear() }

func (m *distinct) apply(t *token) bool {
	if m.samePosition && t.inc > 0 {
		m.set.clear()
	}
	if len(t.term) == 0 || m.set.add(t.term) {
		return true
	}
	t.inc = 0 // the positions close up, as those of Lucene's filter do
	return false
}

// limiting drops all tokens but the first of a text.
type limiting struct{ most, seen int }

func (m *limiting) reset() { m.seen = 0 }

func (m *limiting) apply(*token) bool {
	m.seen++
	return m.seen <= m.most
}

// repeating puts out every token twice, first protected from stemmers.
type repeating struct {
	in      source
	current token
	pending bool
}

func (f *repeating) reset(text string) { f.in.reset(text); f.pending = false }

func (f *repeating) next(t *token) bool {
	if f.pending {
		f.pending = false
		t.copyFrom(&f.current)
		t.inc, t.keyword = 0, false
		return true
	}
	if !f.in.next(&f.current) {
		return false
	}
	f.pending = true
	t.copyFrom(&f.current)
	t.keyword = true
	return true
}

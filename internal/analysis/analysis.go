// Package analysis turns text into terms.
//
// An Analyzer cuts a text into tokens and gives each a term, a position and its byte offsets. Two texts match when they
// share terms, so documents and queries go through the same analyzer. Its fingerprint names exactly what it does: an index
// made under another fingerprint does not fit.
//
//	standard    words by Unicode's rules (UAX #29) with a letter or digit in them, lower case, at most 255 characters
//	english     standard, without possessive 's, without Lucene's 33 English stop words, stemmed by Porter's algorithm;
//	            a stop word leaves a gap in the positions
//	simple      runs of letters, lower case
//	whitespace  runs of anything but white space, as they are
//	keyword     the whole text as one term
package analysis

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/porter"
	"github.com/clipperhouse/uax29/v2/words"

	"github.com/overlakedb/overlake/internal/errs"
)

// Token is one occurrence of a term. Term is only valid during the call that yields it.
type Token struct {
	Term       []byte
	Position   int // from 0; stop words count
	Start, End int // byte offsets in the text
}

// Analyzer is a named way to cut text. It is safe for concurrent use.
type Analyzer struct {
	name, fingerprint string
	cut               func(text string, yield func(word string, start int))
	lower, english    bool
}

var analyzers = []*Analyzer{
	{name: "standard", fingerprint: "standard/1", cut: cutWords, lower: true},
	{name: "english", fingerprint: "english/1", cut: cutWords, lower: true, english: true},
	{name: "simple", fingerprint: "simple/1", cut: cutLetters, lower: true},
	{name: "whitespace", fingerprint: "whitespace/1", cut: cutSpaces},
	{name: "keyword", fingerprint: "keyword/1", cut: func(s string, yield func(string, int)) {
		if s != "" {
			yield(s, 0)
		}
	}},
}

// Names lists the analyzers.
func Names() []string {
	out := make([]string, len(analyzers))
	for i, a := range analyzers {
		out[i] = a.name
	}
	return out
}

// Find gives the analyzer of a name.
func Find(name string) (*Analyzer, error) {
	for _, a := range analyzers {
		if strings.EqualFold(a.name, name) {
			return a, nil
		}
	}
	return nil, errs.New(errs.NotFound, "analysis.find", "there is no such analyzer", errs.On(name), errs.Hint("use one of %s", strings.Join(Names(), ", ")))
}

// Name is the name the analyzer is found by.
func (a *Analyzer) Name() string { return a.name }

// Fingerprint changes whenever the terms of any text would.
func (a *Analyzer) Fingerprint() string { return a.fingerprint }

// maxToken is the longest word in characters; longer ones are cut into pieces, as Lucene's tokenizer does.
const maxToken = 255

// Scratch holds buffers for Each, to be reused by one goroutine.
type Scratch struct {
	buf []byte
	env *snowballstem.Env
}

// Each yields the tokens of a text in order.
func (a *Analyzer) Each(text string, s *Scratch, yield func(Token)) {
	pos := 0
	a.cut(text, func(word string, start int) {
		end := start + len(word)
		if a.english {
			word = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(word, "'s"), "'S"), "’s")
		}
		s.buf = append(s.buf[:0], word...)
		if a.lower {
			s.buf = lower(s.buf, word)
		}
		if a.english {
			if stopWord(s.buf) {
				pos++
				return
			}
			if s.env == nil {
				s.env = snowballstem.NewEnv("")
			}
			if len(s.buf) > 2 {
				s.env.SetCurrent(string(s.buf))
				porter.Stem(s.env)
				s.buf = append(s.buf[:0], s.env.Current()...)
			}
		}
		if len(s.buf) > 0 {
			yield(Token{Term: s.buf, Position: pos, Start: start, End: end})
		}
		pos++
	})
}

// lower writes word in lower case over buf, which holds it already.
func lower(buf []byte, word string) []byte {
	for i, c := range buf {
		if c >= utf8.RuneSelf {
			return append(buf[:0], strings.ToLower(word)...)
		}
		if c >= 'A' && c <= 'Z' {
			buf[i] = c + 'a' - 'A'
		}
	}
	return buf
}

// cutWords yields the words of UAX #29 that hold a letter or a digit. Text of ASCII letters, digits and spaces, the usual
// case, is cut by hand with the same result.
func cutWords(text string, yield func(string, int)) {
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf && !alnum(c) && c != '_' {
			i++
			continue
		}
		// The run up to the next plain separator: a character that never joins two words.
		end := i
		plain := true
		for end < len(text) && !separates(text[end]) {
			plain = plain && alnum(text[end])
			end++
		}
		if plain {
			piece(text[i:end], i, yield)
		} else {
			cutSegments(text[i:end], i, yield)
		}
		i = end
	}
}

func alnum(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' }

// separates reports whether an ASCII character ends every word: all but letters, digits and those that UAX #29 lets stand
// inside one (apostrophe, period, comma, semicolon, colon, underscore).
func separates(c byte) bool {
	return c < utf8.RuneSelf && !alnum(c) && strings.IndexByte("'.,;:_", c) < 0
}

func cutSegments(text string, base int, yield func(string, int)) {
	seg := words.FromString(text)
	for seg.Next() {
		w := seg.Value()
		if strings.ContainsFunc(w, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }) {
			piece(w, base+seg.Start(), yield)
		}
	}
}

// piece yields a word, cut every maxToken characters.
func piece(w string, start int, yield func(string, int)) {
	for len(w) > maxToken && utf8.RuneCountInString(w) > maxToken {
		cut, n := 0, 0
		for i := range w {
			if n == maxToken {
				cut = i
				break
			}
			n++
		}
		yield(w[:cut], start)
		w, start = w[cut:], start+cut
	}
	yield(w, start)
}

func cutLetters(text string, yield func(string, int)) {
	cutRuns(text, unicode.IsLetter, yield)
}

func cutSpaces(text string, yield func(string, int)) {
	cutRuns(text, func(r rune) bool { return !unicode.IsSpace(r) }, yield)
}

func cutRuns(text string, in func(rune) bool, yield func(string, int)) {
	start := -1
	for i, r := range text {
		if in(r) {
			if start < 0 {
				start = i
			}
		} else if start >= 0 {
			piece(text[start:i], start, yield)
			start = -1
		}
	}
	if start >= 0 {
		piece(text[start:], start, yield)
	}
}

// stopWords are those of Lucene's EnglishAnalyzer, in order.
var stopWords = []string{"a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of", "on", "or",
	"such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with"}

func stopWord(w []byte) bool {
	if len(w) > 5 {
		return false
	}
	_, ok := slices.BinarySearchFunc(stopWords, w, func(s string, w []byte) int { return strings.Compare(s, string(w)) })
	return ok
}

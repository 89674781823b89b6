// Package analysis answers: which terms stand in a text?
//
// An Analyzer cuts a text into tokens and gives each a term, a position and its byte offsets. Two texts match when they
// share terms, so rows and queries go through the same analyzer.
//
//	standard    the words of UAX #29 as Lucene's StandardTokenizer cuts them, in lower case
//	english     standard, less a possessive 's, less Lucene's 33 English stop words, stemmed by Porter's algorithm:
//	            Lucene's EnglishAnalyzer
//	simple      runs of letters, in lower case
//	whitespace  runs of anything but white space, as they are
//	keyword     the whole text as one term
//
// A token is one occurrence of a term. Its position counts words from 0; a removed stop word leaves a gap. Offsets are
// bytes of the text as it was given. No token is longer than 255 UTF-16 units except a keyword: longer words are cut into
// pieces, as Lucene does.
//
// Two rules hold for every analyzer and every sequence of bytes, valid UTF-8 or not:
//
//	A1  Tokens come in the order of their offsets, do not overlap, and no term is empty.
//	A2  The terms of a text never change while the fingerprint stays the same. An index made under another fingerprint
//	    does not fit. The unit tests hold a checksum over every Unicode character, so that a toolchain with newer tables
//	    cannot break A2 unnoticed.
package analysis

import (
	"strings"

	"github.com/overlakedb/overlake/internal/errs"
)

// Token is one occurrence of a term.
type Token struct {
	Term       []byte // valid until the next token
	Position   int    // from 0; stop words count
	Increment  int    // how far the position lies behind that of the token before; 1 unless stop words were removed
	Start, End int    // byte offsets in the text
}

// Analyzer is a named way to cut text. It is immutable and safe for concurrent use; the buffers are in Stream.
type Analyzer struct {
	name, fingerprint string
	kind              kind
}

type kind uint8

const (
	standard kind = iota
	english
	simple
	whitespace
	keyword
)

// The revision at the end of a fingerprint rises whenever the terms of any text change.
var analyzers = []*Analyzer{
	{name: "standard", fingerprint: "standard/2", kind: standard},
	{name: "english", fingerprint: "english/2", kind: english},
	{name: "simple", fingerprint: "simple/2", kind: simple},
	{name: "whitespace", fingerprint: "whitespace/2", kind: whitespace},
	{name: "keyword", fingerprint: "keyword/1", kind: keyword},
}

// Default is the analyzer used where none is named.
const Default = "standard"

// Names lists the analyzers.
func Names() []string {
	out := make([]string, len(analyzers))
	for i, a := range analyzers {
		out[i] = a.name
	}
	return out
}

// Find gives the analyzer of a name, in any case of letters. An unknown name is errs.NotFound.
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

// Fingerprint names exactly what the analyzer does (A2).
func (a *Analyzer) Fingerprint() string { return a.fingerprint }

// Scratch holds buffers for Each, to be reused by one goroutine. The zero value is ready.
type Scratch struct{ stream Stream }

// Each yields the tokens of a text in order.
func (a *Analyzer) Each(text string, s *Scratch, yield func(Token)) {
	for s.stream.Reset(a, text); s.stream.Next(); {
		yield(s.stream.Token)
	}
}

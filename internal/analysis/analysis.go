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
// These five are written out for speed. Every other analyzer is a chain: a tokenizer, which cuts the text, and filters, which
// change, drop, add or stack tokens. Languages, cjk, code, url_email, pattern and stop have names; any other chain is
// defined in a line of text (see Parse):
//
//	tokenizer=standard, filters=lowercase|asciifolding|stop(english)|synonym_graph("usa, united states")
//
// Tokenizers, filters and their parameters have the names that Elasticsearch 7.10 gives them, where it has them.
//
// A token is one occurrence of a term. Its position counts words from 0; a removed stop word leaves a gap. Where a part of a
// text has several readings, as with synonyms, the tokens are the edges of a graph: each leads from its position to the one
// PositionLength further on. Offsets are bytes of the text as it was given. No token is longer than 255 UTF-16 units except a
// keyword, an n-gram, a path and what a chain is told to leave whole: longer words are cut into pieces, as Lucene does.
//
// Two rules hold for every analyzer and every sequence of bytes, valid UTF-8 or not:
//
//	A1  Tokens come in the order of their positions, the beginnings of their offsets never fall, each covers at least one byte, and
//	    no term is empty. Tokens of different positions may overlap, and several may stand at one, only where the chain has
//	    n-grams, shingles, synonyms, pairs of characters, paths, or parts of names beside the whole; elsewhere every
//	    token begins where the one before ended or later.
//	A2  The terms of a text never change while the fingerprint stays the same. An index made under another fingerprint
//	    does not fit. The unit tests hold a checksum over every Unicode character, so that a toolchain with newer tables
//	    cannot break A2 unnoticed.
//
// What a definition can make of a text is bounded when it is made: chains that could make it more than 10,000 times as long
// are refused, and so are large patterns, lists and sets of synonyms.
package analysis

import (
	"strings"

	"github.com/overlakedb/overlake/internal/errs"
)

// Token is one occurrence of a term.
type Token struct {
	Term       []byte // valid until the next token
	Position   int    // from 0; stop words count
	Increment  int    // how far the position lies behind that of the token before: 1, more behind removed words, 0 at the same place
	Start, End int    // byte offsets in the text

	// PositionLength is how many positions the term spans: 1, or more where other terms of the same graph split the same text.
	PositionLength int
}

// Analyzer is a named way to cut text. It is immutable and safe for concurrent use; the buffers are in Stream.
type Analyzer struct {
	name, fingerprint string
	definition        string // the canonical inline form
	kind              kind
	stages            []stage // of a composed analyzer
}

type kind uint8

const (
	standard kind = iota
	english
	simple
	whitespace
	keyword
	composed // a chain of a tokenizer and filters
)

// The revision at the end of a fingerprint rises whenever the terms of any text change.
var analyzers = []*Analyzer{
	{name: "standard", definition: "tokenizer=standard, filters=lowercase", fingerprint: "standard/2", kind: standard},
	{name: "english", definition: "tokenizer=standard, filters=stemmer(language=possessive_english)|lowercase|stop(stopwords=english)|stemmer", fingerprint: "english/2", kind: english},
	{name: "simple", definition: "tokenizer=letter, filters=lowercase", fingerprint: "simple/2", kind: simple},
	{name: "whitespace", definition: "tokenizer=whitespace", fingerprint: "whitespace/2", kind: whitespace},
	{name: "keyword", definition: "tokenizer=keyword", fingerprint: "keyword/1", kind: keyword},
}

// Default is the analyzer used where none is named.
const Default = "standard"

// Names lists the analyzers that have names: the five of the package comment, then the others by name.
func Names() []string {
	out := make([]string, 0, len(analyzers)+len(named))
	for _, a := range analyzers {
		out = append(out, a.name)
	}
	for _, n := range named {
		out = append(out, n.name)
	}
	return out
}

// Find gives the analyzer of a name, in any case of letters, or the one that an inline definition makes (see Define). An
// unknown name is errs.NotFound.
func Find(name string) (*Analyzer, error) {
	if strings.Contains(name, "=") {
		return Define(name)
	}
	for _, a := range analyzers {
		if strings.EqualFold(a.name, name) {
			return a, nil
		}
	}
	byName, err := composedByName()
	if err != nil {
		return nil, err
	}
	if a := byName[strings.ToLower(name)]; a != nil {
		return a, nil
	}
	return nil, errs.New(errs.NotFound, "analysis.find", "there is no such analyzer", errs.On(name),
		errs.Hint("use one of %s, or a definition such as tokenizer=standard, filters=lowercase|stop(english)", strings.Join(Names(), ", ")))
}

// Name is the name the analyzer is found by: for a defined one, its canonical definition.
func (a *Analyzer) Name() string { return a.name }

// Definition is the canonical inline form: parameters by name and in order, without those that have their defaults. Define
// makes an analyzer of the same terms of it.
func (a *Analyzer) Definition() string { return a.definition }

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

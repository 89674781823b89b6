// Package query answers: what does a text query mean?
//
// A query is a tree of the nodes below, made by a program or by one of two parsers: QueryString, which knows Lucene's syntax
// and says where a text breaks it, and Simple, which takes any text. A Schema names the fields and their analyzers; Lower
// analyzes the texts and leaves primitives (terms, phrases, sets of terms), which package rank runs and package highlight
// marks. The meaning of every node is that of Elasticsearch 7.10.
//
// Trees are plain values and are not changed by anything here.
package query

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/primitive"
)

// Node is a query.
type Node interface{ node() }

// MatchAll matches every row, with the score 1.
type MatchAll struct{}

// MatchNone matches nothing.
type MatchNone struct{}

// Term matches rows with a term, as it is.
type Term struct{ Field, Text string }

// Terms matches rows with one of some terms, as they are, with the score 1.
type Terms struct {
	Field string
	Texts []string
}

// Match analyzes a text and matches rows with its terms: any of them, all, or some number.
type Match struct {
	Field, Text string
	Options     MatchOptions
}

// MatchOptions are what a Match, and the forms that are made of it, may say beside their texts. The zero value is the
// default.
type MatchOptions struct {
	Analyzer           string     // "": the field's own for queries
	All                bool       // every term must match, else any
	MinimumShouldMatch string     // how many, where All is not set; the language of bm25.Options
	Fuzziness          *Fuzziness // terms match what is near to them too; nil: not
	ZeroTerms          ZeroTerms  // what a text without terms means
}

// ZeroTerms says what a text without terms means.
type ZeroTerms uint8

// The meanings of a text without terms.
const (
	ZeroNone ZeroTerms = iota // it matches nothing
	ZeroAll                   // it matches everything
	ZeroSkip                  // the clause is as if it were not there
)

// Phrase analyzes a text and matches rows where its terms stand one behind the other, with gaps where the text has gaps.
type Phrase struct {
	Field, Text string
	Slop        int // how far terms may be moved, all together
	Analyzer    string
	ZeroTerms   ZeroTerms
}

// PhrasePrefix is Phrase where the last term is a beginning.
type PhrasePrefix struct {
	Field, Text   string
	Slop          int
	MaxExpansions int // how many terms of the dictionary stand for the beginning; 0: 50
	Analyzer      string
	ZeroTerms     ZeroTerms
}

// BoolPrefix is Match where the last term is a beginning, which has the score 1.
type BoolPrefix struct {
	Field, Text string
	Options     MatchOptions
}

// Prefix matches rows with a term that begins with Text, with the score 1.
type Prefix struct {
	Field, Text     string
	CaseInsensitive bool
	Fold            bool // Text is folded as the analyzer of the field folds words
}

// Wildcard matches rows with a term of a form, with the score 1: * is any text, ? is a character, \ takes the next
// character as it is. Where the analyzer of the field folds case, so is the pattern.
type Wildcard struct {
	Field, Pattern  string
	CaseInsensitive bool
}

// Regexp matches rows with a term that a regular expression describes as a whole, with the score 1; see automaton.Regexp.
type Regexp struct {
	Field, Pattern  string
	CaseInsensitive bool
}

// Fuzzy matches rows with a term near to Text, which is not analyzed.
type Fuzzy struct {
	Field, Text string
	Fuzziness   Fuzziness
	Fold        bool // Text is folded as the analyzer of the field folds words
}

// Fuzziness says how near terms must be. The zero value is AUTO.
type Fuzziness struct {
	Fixed            bool // Edits is meant; else it follows from the length
	Edits            int  // 0, 1 or 2 changes
	Low, High        int  // AUTO:Low,High: from Low characters on one change, from High on two; both 0: 3 and 6
	PrefixLength     int  // this many characters must be the same
	MaxExpansions    int  // how many terms of the dictionary are taken; 0: 50
	NoTranspositions bool // swapped neighbours are two changes rather than one
}

// Range matches rows with a term between two, by the order of their bytes, with the score 1. A nil bound is none.
type Range struct {
	Field                  string
	From, To               *string
	ExcludeFrom, ExcludeTo bool
	Fold                   bool // the bounds are folded as the analyzer of the field folds words
}

// Exists matches rows with any term in a field, with the score 1.
type Exists struct{ Field string }

// Bool combines clauses: Must and Should score, Filter and MustNot do not. Without Must and Filter at least one of Should
// must match. A Bool without clauses matches everything.
type Bool struct {
	Must, Filter, Should, MustNot []Node
	MinimumShouldMatch            string // how many of Should must match; the language of bm25.Options
}

// Not matches what a node does not match, with the score 1.
type Not struct{ Node Node }

// Boost multiplies the score of a node.
type Boost struct {
	Node   Node
	Factor float32
}

// ConstantScore gives what a node matches the score 1.
type ConstantScore struct{ Node Node }

// DisMax scores by the best of its nodes, plus TieBreaker times the scores of the others.
type DisMax struct {
	Nodes      []Node
	TieBreaker float32
}

// FieldBoost is a field and how much it counts; a Boost of 0 is 1. In Name, * stands for any text.
type FieldBoost struct {
	Name  string
	Boost float32
}

// InFields is a node in each of several fields, whose own Field is not looked at: a Term, Terms, Prefix, Wildcard, Regexp,
// Fuzzy, Range or Exists. They combine as in a DisMax.
type InFields struct {
	Fields     []FieldBoost
	Node       Node
	TieBreaker float32
}

// MultiMatch is a text in several fields.
type MultiMatch struct {
	Fields        []FieldBoost
	Text          string
	Type          MultiType
	TieBreaker    *float32 // nil: the default of the type
	Options       MatchOptions
	Slop          int // of phrases
	MaxExpansions int // of phrase prefixes; 0: 50
}

// MultiType says how the fields of a MultiMatch combine.
type MultiType string

// The types. The zero value is BestFields.
const (
	BestFields        MultiType = "best_fields"   // the best field scores (tie breaker 0)
	MostFields        MultiType = "most_fields"   // the sum of the fields scores (tie breaker 1)
	CrossFields       MultiType = "cross_fields"  // every term is looked for in all fields as if they were one
	PhraseFields      MultiType = "phrase"        // best_fields of phrases
	PhrasePrefixField MultiType = "phrase_prefix" // best_fields of phrase prefixes
	BoolPrefixFields  MultiType = "bool_prefix"   // most_fields of bool prefixes
)

// MultiTypes lists the types.
var MultiTypes = []MultiType{BestFields, MostFields, CrossFields, PhraseFields, PhrasePrefixField, BoolPrefixFields}

// FunctionScore changes scores by functions of the row.
type FunctionScore struct {
	Query     Node // nil: MatchAll
	Functions []RowFunction
	ScoreMode primitive.ScoreMode
	BoostMode primitive.BoostMode
	MaxBoost  *float32 // nil: none
	MinScore  *float32 // what scores less does not match
}

// RowFunction is a function for the rows that a filter matches.
type RowFunction struct {
	Filter Node                    // nil: all rows
	Score  primitive.ScoreFunction // nil: 1
	Weight *float32                // what it is multiplied by; nil: 1
}

// MoreLikeThis matches rows that are like texts.
type MoreLikeThis struct {
	Fields  []string
	Like    []string // texts, analyzed for every field
	Unlike  []string // terms of these are not used
	Options LikeOptions
}

// LikeOptions choose the terms. The zero value is Elasticsearch's default, which each field names.
type LikeOptions struct {
	MaxQueryTerms      int // 25
	MinTermFreq        int // in the texts: 2
	MinDocFreq         int // among the rows: 5
	MaxDocFreq         int // no limit
	MinWordLength      int // 0
	MaxWordLength      int // no limit
	StopWords          []string
	MinimumShouldMatch string  // 30%
	BoostTerms         float32 // 0: terms are not boosted by what they tell
	Analyzer           string  // the field's own
}

// Lenient matches nothing where its node cannot be asked: an unknown field, a phrase in a field without positions, a wrong
// pattern.
type Lenient struct{ Node Node }

// Sequence is a list of clauses as Lucene's classic parser joins them by AND, OR, NOT, + and -. It is what QueryString
// makes.
type Sequence struct {
	Clauses            []SequenceClause
	All                bool   // clauses without a sign must match
	MinimumShouldMatch string // of the clauses that may match
	Top                bool   // one that only prohibits matches everything else
}

// SequenceClause is a clause and what stands before it.
type SequenceClause struct {
	Join  Join
	Sign  Sign
	Words bool // several words as one text, whose terms become clauses of the sequence
	Node  Node
}

// Join is the word before a clause.
type Join uint8

// The joins.
const (
	JoinNone Join = iota
	JoinAnd
	JoinOr
)

// Sign is the sign of a clause.
type Sign uint8

// The signs.
const (
	SignNone Sign = iota
	SignPlus
	SignNot
)

func (MatchAll) node()      {}
func (MatchNone) node()     {}
func (Term) node()          {}
func (Terms) node()         {}
func (Match) node()         {}
func (Phrase) node()        {}
func (PhrasePrefix) node()  {}
func (BoolPrefix) node()    {}
func (Prefix) node()        {}
func (Wildcard) node()      {}
func (Regexp) node()        {}
func (Fuzzy) node()         {}
func (Range) node()         {}
func (Exists) node()        {}
func (Bool) node()          {}
func (Not) node()           {}
func (Boost) node()         {}
func (ConstantScore) node() {}
func (DisMax) node()        {}
func (InFields) node()      {}
func (MultiMatch) node()    {}
func (FunctionScore) node() {}
func (MoreLikeThis) node()  {}
func (Lenient) node()       {}
func (Sequence) node()      {}

// ParseFuzziness reads AUTO, AUTO:low,high, 0, 1 or 2.
func ParseFuzziness(text string) (Fuzziness, error) {
	var f Fuzziness
	rest, auto := strings.CutPrefix(strings.ToUpper(strings.TrimSpace(text)), "AUTO")
	if !auto {
		x, err := strconv.ParseFloat(rest, 32)
		if err != nil || x != float64(int(x)) || x < 0 || x > 2 {
			return f, badFuzziness(text)
		}
		return Fuzziness{Fixed: true, Edits: int(x)}, nil
	}
	if rest == "" {
		return f, nil
	}
	low, high, ok := strings.Cut(strings.TrimPrefix(rest, ":"), ",")
	a, err1 := strconv.Atoi(strings.TrimSpace(low))
	b, err2 := strconv.Atoi(strings.TrimSpace(high))
	if !ok || rest[0] != ':' || err1 != nil || err2 != nil || a < 0 || b < a {
		return f, badFuzziness(text)
	}
	f.Low, f.High = a, b
	if b == 0 {
		f = Fuzziness{Fixed: true, Edits: 2}
	}
	return f, nil
}

func badFuzziness(text string) error {
	return errs.New(errs.Invalid, "query.fuzziness", fmt.Sprintf("fuzziness is not %q", text), errs.Hint("use AUTO, AUTO:3,6, 0, 1 or 2"))
}

// edits is the number of changes allowed for a term.
func (f Fuzziness) edits(term string) int {
	if f.Fixed {
		return f.Edits
	}
	low, high := f.Low, f.High
	if low == 0 && high == 0 {
		low, high = 3, 6
	}
	switch n := utf8.RuneCountInString(term); {
	case n < low:
		return 0
	case n < high:
		return 1
	}
	return 2
}

func (f Fuzziness) check() error {
	if f.Fixed && (f.Edits < 0 || f.Edits > 2) || f.Low < 0 || f.High < f.Low || f.PrefixLength < 0 || f.MaxExpansions < 0 {
		return badFuzziness(fmt.Sprintf("%+v", f))
	}
	return nil
}

// defaultExpansions is Lucene's number of terms that an expansion may take.
const defaultExpansions = 50

func expansions(n int) int {
	if n == 0 {
		return defaultExpansions
	}
	return n
}

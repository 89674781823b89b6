// Package primitive answers: of which postings is a query made?
//
// A query that a person writes is made of texts, options and field names. Analysis and lowering leave the nodes of this
// room: terms, phrases, sets of terms, and how they combine. They are what is run, explained and highlighted. The words are
// Lucene's, and so are the rules of Rewrite, because they decide in which order 32-bit floats are added.
//
// Fields are numbers: the places of the fields in a source. Trees are immutable.
package primitive

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/overlakedb/overlake/internal/index/bm25/automaton"
)

// Node is a query.
type Node interface {
	// write appends the node as text. With names of fields it is what a person reads, without it is exact: two nodes with
	// the same text are the same query.
	write(b *strings.Builder, names []string)
}

// None matches nothing.
type None struct{ Reason string }

// All matches every row, with the score 1.
type All struct{}

// Term matches rows with a term; BM25 scores it.
type Term struct {
	Field int
	Term  string

	// DocFreq is the number of rows that the term is taken to be in, where it stands for others too; 0: those it is in.
	DocFreq int64
}

// Synonym matches rows with one of some terms that mean the same: they are scored as one term that stands where any of them
// stands, in as many rows as the one of them that is in most.
type Synonym struct {
	Field int
	Terms []string
}

// Phrase matches rows where terms stand at positions relative to each other, as one term whose frequency is that of the
// phrase and whose idf is the sum of those of its terms.
type Phrase struct {
	Field int
	Parts []Part
	Slop  int // how far the terms may be moved, all together

	// Prefixes says that the terms of the last part are beginnings: the first MaxExpansions terms of the dictionary with
	// such a beginning, in the order of their bytes, stand for them.
	Prefixes      bool
	MaxExpansions int
}

// Part is one place of a phrase, and the terms that may stand there.
type Part struct {
	Position int
	Terms    []string
}

// Multi matches rows with a term that an automaton accepts, with the score 1.
type Multi struct {
	Field     int
	Automaton *automaton.Automaton
	Label     string // what it was made of, such as fo*; equal labels are equal automata
}

// TermSet matches rows with one of some terms, with the score 1.
type TermSet struct {
	Field int
	Terms []string
}

// Exists matches rows with any term in a field, with the score 1.
type Exists struct{ Field int }

// Fuzzy matches rows with a term that is near to another. The MaxExpansions nearest terms, at equal similarity the first in
// the order of their bytes, each count as much as they are similar: 1 - edits / length of the shorter. Their frequencies
// are blended: each is taken to be in as many rows as the one of them that is in most.
type Fuzzy struct {
	Field          int
	Term           string
	Edits          int
	PrefixLength   int
	MaxExpansions  int
	Transpositions bool
	Automaton      *automaton.Automaton
}

// Blended matches rows with a term in one of several fields, as if they were one: the document frequencies are blended, so
// that a term is as rare in one field as in the other. The scores of the fields are combined as DisMax does.
type Blended struct {
	Terms      []BlendedTerm
	TieBreaker float32
}

// BlendedTerm is a term in one of the fields.
type BlendedTerm struct {
	Field int
	Term  string
	Boost float32
}

// Occur says what a clause of a Bool asks for.
type Occur uint8

// The four kinds of clauses.
const (
	Must    Occur = iota // it must match, and scores
	Filter               // it must match
	Should               // it may match, and scores
	MustNot              // it must not match
)

var occurSigns = [...]string{"+", "#", "", "-"}

// Clause is a part of a Bool.
type Clause struct {
	Occur Occur
	Node  Node
}

// Bool combines clauses. At least Min of those that are Should must match; where there is neither a Must nor a Filter, at
// least one.
type Bool struct {
	Clauses []Clause
	Min     int
}

// Boost multiplies the score of a node.
type Boost struct {
	Node   Node
	Factor float32 // finite, not negative
}

// Constant gives what matches a node the score 1.
type Constant struct{ Node Node }

// DisMax scores by the best of several nodes, plus TieBreaker times the scores of the others.
type DisMax struct {
	Nodes      []Node
	TieBreaker float32
}

// MoreLike matches rows that are like texts: the terms of those that tell most, by frequency there and rarity here.
type MoreLike struct {
	Counts          []LikeTerm // in the order of the first occurrence
	MaxTerms        int
	MinTermFreq     int
	MinDocFreq      int64
	MaxDocFreq      int64
	BoostTerms      float32                  // 0: terms are not boosted by what they tell
	MinimumOptional func(n int) (int, error) // how many of n terms must match
	Minimum         string                   // as written, for the text of the node
}

// LikeTerm is a term of the texts, and how often it stands there.
type LikeTerm struct {
	Field int
	Term  string
	Freq  int
}

// Function changes the scores of a query by functions of the row.
type Function struct {
	Query     Node
	Functions []RowFunction
	ScoreMode ScoreMode
	BoostMode BoostMode
	MaxBoost  float32  // the largest value that the functions may have together
	MinScore  *float32 // what scores less does not match
}

// RowFunction is one function, for the rows that a filter matches.
type RowFunction struct {
	Filter Node          // nil: all rows
	Score  ScoreFunction // nil: 1
	Weight *float32      // what it is multiplied by; nil: 1
}

// Key is the exact text of a node.
func Key(n Node) string {
	var b strings.Builder
	n.write(&b, nil)
	return b.String()
}

// Describe writes a node as Lucene does, with the names of the fields.
func Describe(n Node, names []string) string {
	var b strings.Builder
	if names == nil {
		names = []string{}
	}
	n.write(&b, names)
	return b.String()
}

func field(b *strings.Builder, f int, names []string) {
	if names == nil || f >= len(names) {
		b.WriteString(strconv.Itoa(f))
	} else {
		b.WriteString(names[f])
	}
	b.WriteByte(':')
}

func term(b *strings.Builder, t string, names []string) {
	if names == nil {
		b.WriteString(strconv.Quote(t))
	} else {
		b.WriteString(t)
	}
}

// number writes a float as Java does: always with a point.
func number(x float32) string {
	s := strconv.FormatFloat(float64(x), 'f', -1, 32)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

func (n None) write(b *strings.Builder, _ []string) { fmt.Fprintf(b, "MatchNoDocsQuery(%q)", n.Reason) }
func (All) write(b *strings.Builder, _ []string)    { b.WriteString("*:*") }

func (n Term) write(b *strings.Builder, names []string) {
	field(b, n.Field, names)
	term(b, n.Term, names)
	if names == nil && n.DocFreq > 0 {
		fmt.Fprintf(b, "/%d", n.DocFreq)
	}
}

func (n Synonym) write(b *strings.Builder, names []string) {
	b.WriteString("Synonym(")
	for i, t := range n.Terms {
		if i > 0 {
			b.WriteByte(' ')
		}
		Term{Field: n.Field, Term: t}.write(b, names)
	}
	b.WriteByte(')')
}

func (n Phrase) write(b *strings.Builder, names []string) {
	field(b, n.Field, names)
	b.WriteByte('"')
	at := 0
	for i, p := range n.Parts {
		if i > 0 {
			b.WriteByte(' ')
		}
		for ; at < p.Position; at++ {
			b.WriteString("? ")
		}
		at++
		if len(p.Terms) > 1 {
			b.WriteByte('(')
		}
		for j, t := range p.Terms {
			if j > 0 {
				b.WriteByte(' ')
			}
			term(b, t, names)
			if n.Prefixes && i == len(n.Parts)-1 {
				b.WriteByte('*')
			}
		}
		if len(p.Terms) > 1 {
			b.WriteByte(')')
		}
	}
	b.WriteByte('"')
	if n.Slop > 0 {
		fmt.Fprintf(b, "~%d", n.Slop)
	}
	if names == nil && n.Prefixes {
		fmt.Fprintf(b, "/%d", n.MaxExpansions)
	}
}

func (n Multi) write(b *strings.Builder, names []string) {
	field(b, n.Field, names)
	b.WriteString(n.Label)
}

func (n TermSet) write(b *strings.Builder, names []string) {
	field(b, n.Field, names)
	b.WriteByte('(')
	for i, t := range n.Terms {
		if i > 0 {
			b.WriteByte(' ')
		}
		term(b, t, names)
	}
	b.WriteByte(')')
}

func (n Exists) write(b *strings.Builder, names []string) {
	field(b, n.Field, names)
	b.WriteByte('*')
}

func (n Fuzzy) write(b *strings.Builder, names []string) {
	field(b, n.Field, names)
	term(b, n.Term, names)
	fmt.Fprintf(b, "~%d", n.Edits)
	if names == nil {
		fmt.Fprintf(b, "/%d/%d/%t", n.PrefixLength, n.MaxExpansions, n.Transpositions)
	}
}

func (n Blended) write(b *strings.Builder, names []string) {
	b.WriteString("blended(terms:[")
	for i, t := range n.Terms {
		if i > 0 {
			b.WriteString(", ")
		}
		Term{Field: t.Field, Term: t.Term}.write(b, names)
		if t.Boost != 1 {
			b.WriteString("^" + number(t.Boost))
		}
	}
	b.WriteByte(']')
	if n.TieBreaker != 0 {
		b.WriteString(", tieBreaker=" + number(n.TieBreaker))
	}
	b.WriteByte(')')
}

// group writes a node in parentheses where it is made of several.
func group(b *strings.Builder, n Node, names []string) {
	switch n.(type) {
	case Bool:
		b.WriteByte('(')
		n.write(b, names)
		b.WriteByte(')')
	default:
		n.write(b, names)
	}
}

func (n Bool) write(b *strings.Builder, names []string) {
	if n.Min > 0 {
		b.WriteByte('(')
	}
	for i, c := range n.Clauses {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(occurSigns[c.Occur])
		group(b, c.Node, names)
	}
	if n.Min > 0 {
		fmt.Fprintf(b, ")~%d", n.Min)
	}
}

func (n Boost) write(b *strings.Builder, names []string) {
	b.WriteByte('(')
	n.Node.write(b, names)
	b.WriteString(")^" + number(n.Factor))
}

func (n Constant) write(b *strings.Builder, names []string) {
	b.WriteString("ConstantScore(")
	n.Node.write(b, names)
	b.WriteByte(')')
}

func (n DisMax) write(b *strings.Builder, names []string) {
	b.WriteByte('(')
	for i, c := range n.Nodes {
		if i > 0 {
			b.WriteString(" | ")
		}
		group(b, c, names)
	}
	b.WriteByte(')')
	if n.TieBreaker != 0 {
		b.WriteString("~" + number(n.TieBreaker))
	}
}

func (n MoreLike) write(b *strings.Builder, names []string) {
	b.WriteString("like:(")
	for i, t := range n.Counts {
		if i > 0 {
			b.WriteByte(' ')
		}
		Term{Field: t.Field, Term: t.Term}.write(b, names)
		fmt.Fprintf(b, "=%d", t.Freq)
	}
	fmt.Fprintf(b, ")/%d/%d/%d/%d/%v/%s", n.MaxTerms, n.MinTermFreq, n.MinDocFreq, n.MaxDocFreq, n.BoostTerms, n.Minimum)
}

func (n Function) write(b *strings.Builder, names []string) {
	b.WriteString("function score (")
	n.Query.write(b, names)
	b.WriteString(", functions: [")
	for _, f := range n.Functions {
		b.WriteByte('{')
		if f.Filter != nil {
			b.WriteString("filter(")
			f.Filter.write(b, names)
			b.WriteString(") ")
		}
		if f.Score != nil {
			b.WriteString(f.Score.Describe())
		}
		if f.Weight != nil {
			b.WriteString(" weight=" + number(*f.Weight))
		}
		b.WriteByte('}')
	}
	fmt.Fprintf(b, "], %s, %s, max %v", n.ScoreMode, n.BoostMode, n.MaxBoost)
	if n.MinScore != nil {
		fmt.Fprintf(b, ", min %v", *n.MinScore)
	}
	b.WriteByte(')')
}

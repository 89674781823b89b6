package query

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/overlakedb/overlake/internal/errs"
)

// Flags say which signs Simple knows.
type Flags uint16

// The flags, with Elasticsearch's names in ParseFlags.
const (
	FlagAnd        Flags = 1 << iota // +
	FlagNot                          // -
	FlagOr                           // |
	FlagPrefix                       // a * at the end
	FlagPhrase                       // "
	FlagPrecedence                   // ( )
	FlagEscape                       // \
	FlagWhitespace                   // blanks separate
	FlagFuzzy                        // ~n behind a word
	FlagNear                         // ~n behind a phrase

	FlagsAll = FlagNear<<1 - 1

	// FlagsNone knows no sign at all: the text is one term.
	FlagsNone Flags = 1 << 15
)

var flagNames = map[string]Flags{"ALL": FlagsAll, "NONE": FlagsNone, "AND": FlagAnd, "NOT": FlagNot, "OR": FlagOr, "PREFIX": FlagPrefix, "PHRASE": FlagPhrase,
	"PRECEDENCE": FlagPrecedence, "ESCAPE": FlagEscape, "WHITESPACE": FlagWhitespace, "FUZZY": FlagFuzzy, "NEAR": FlagNear, "SLOP": FlagNear}

// FlagNames lists the names that ParseFlags knows.
var FlagNames = []string{"ALL", "NONE", "AND", "ESCAPE", "FUZZY", "NEAR", "NOT", "OR", "PHRASE", "PRECEDENCE", "PREFIX", "SLOP", "WHITESPACE"}

// ParseFlags reads names separated by |.
func ParseFlags(text string) (Flags, error) {
	var f Flags
	for word := range strings.SplitSeq(text, "|") {
		flag, ok := flagNames[strings.ToUpper(strings.TrimSpace(word))]
		if !ok {
			return 0, errs.New(errs.Invalid, "query.flags", "there is no such flag", errs.On(strings.TrimSpace(word)), errs.Hint("use some of %s, separated by |", strings.Join(FlagNames, ", ")))
		}
		f |= flag
	}
	if f&FlagsAll != 0 {
		f &= FlagsAll
	}
	return f, nil
}

// Simple parses a text of words and signs, as Elasticsearch's simple_query_string: + and, | or, - not, "phrase"~slop, word*,
// word~edits, ( ), and \ before a sign that is meant as it is. Every text has a meaning; signs that have none where they
// stand are passed over. The only errors are options that mean nothing and limits.
func Simple(text string, o StringOptions) (Node, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Flags == 0 {
		o.Flags = FlagsAll
	}
	p := &simpleParser{o: o, text: text}
	p.pair()
	s := simpleState{end: len(text)}
	p.parse(&s)
	if p.err != nil {
		return nil, p.err
	}
	n := s.tree()
	if n == nil {
		return MatchNone{}, nil
	}
	return atLeast(n, o.MinimumShouldMatch), nil
}

// atLeast applies a minimum to the topmost clauses.
func atLeast(n Node, spec string) Node {
	switch n := n.(type) {
	case Bool:
		n.MinimumShouldMatch = spec
		return n
	case MultiMatch:
		n.Options.MinimumShouldMatch = spec
		return n
	case Lenient:
		return Lenient{atLeast(n.Node, spec)}
	}
	return n
}

type simpleParser struct {
	o       StringOptions
	text    string
	partner map[int]int // the closing parenthesis of an opening one
	clauses int
	depth   int
	err     error
}

// simpleState is one group: what was read of it, as a chain of nodes under one operation.
type simpleState struct {
	at, end  int
	not      int
	now      operation // of the next clause; opNone: the default
	previous operation
	top      []Node // clauses of the topmost node
	single   bool   // top is one node without an operation
}

type operation uint8

const (
	opNone operation = iota
	opMust
	opShould
)

// pair finds the partners of the parentheses.
func (p *simpleParser) pair() {
	p.partner = map[int]int{}
	if !p.on(FlagPrecedence) {
		return
	}
	var open []int
	for i := 0; i < len(p.text); i++ {
		switch c := p.text[i]; {
		case c == '\\' && p.on(FlagEscape):
			i++
		case c == '(':
			open = append(open, i)
		case c == ')' && len(open) > 0:
			p.partner[open[len(open)-1]] = i
			open = open[:len(open)-1]
		}
	}
}

func (p *simpleParser) on(f Flags) bool { return p.o.Flags&f != 0 }

func (p *simpleParser) limit(what string, n int) {
	if p.err == nil {
		p.err = errs.New(errs.Exhausted, "query.parse", fmt.Sprintf("the query has more than %d %s", n, what), errs.On(short(p.text)))
	}
}

func (p *simpleParser) rune(i int) (rune, int) { return utf8.DecodeRuneInString(p.text[i:]) }

func (p *simpleParser) parse(s *simpleState) {
	if p.depth++; p.depth > p.o.Limits.depth() {
		p.limit("groups in each other", p.o.Limits.depth())
	}
	defer func() { p.depth-- }()
	for s.at < s.end && p.err == nil {
		r, w := p.rune(s.at)
		switch {
		case r == '(' && p.on(FlagPrecedence):
			p.group(s)
		case r == ')' && p.on(FlagPrecedence):
			s.at++
		case r == '"' && p.on(FlagPhrase):
			p.phrase(s)
		case r == '+' && p.on(FlagAnd):
			if s.now == opNone && s.top != nil {
				s.now = opMust
			}
			s.at++
		case r == '|' && p.on(FlagOr):
			if s.now == opNone && s.top != nil {
				s.now = opShould
			}
			s.at++
		case r == '-' && p.on(FlagNot):
			s.not++
			s.at++
			continue
		case unicode.IsSpace(r) && p.on(FlagWhitespace):
			s.at += w
		default:
			p.token(s)
		}
		s.not = 0 // not even a blank may stand between - and what it is for
	}
}

func (p *simpleParser) group(s *simpleState) {
	end, ok := p.partner[s.at]
	switch {
	case !ok || end >= s.end:
		s.at++
		return
	case end == s.at+1:
		s.now = opNone
	default:
		inner := simpleState{at: s.at + 1, end: end}
		p.parse(&inner)
		p.add(s, inner.tree())
	}
	s.at = end + 1
}

func (p *simpleParser) phrase(s *simpleState) {
	start := s.at + 1
	var b strings.Builder
	i := start
	for ; i < s.end; i++ {
		c := p.text[i]
		if c == '\\' && p.on(FlagEscape) && i+1 < s.end {
			i++
			b.WriteByte(p.text[i])
			continue
		}
		if c == '"' {
			break
		}
		b.WriteByte(c)
	}
	switch {
	case i >= s.end: // nothing closes it
		s.at = start
		return
	case i == start:
		s.now = opNone
		s.at = i + 1
		return
	}
	s.at = i + 1
	slop := 0
	if s.at+1 < s.end && p.text[s.at] == '~' && p.on(FlagNear) {
		slop = p.number(s)
	}
	p.add(s, p.node(MultiMatch{Fields: p.o.Fields, Text: b.String(), Type: PhraseFields, TieBreaker: p.tie(), Slop: slop,
		Options: MatchOptions{Analyzer: p.o.Analyzer, ZeroTerms: ZeroSkip}}))
}

// number reads what follows a ~: without digits it is 2, and a number that is none is 0.
func (p *simpleParser) number(s *simpleState) int {
	s.at++
	start := s.at
	for s.at < s.end && p.text[s.at] >= '0' && p.text[s.at] <= '9' {
		s.at++
	}
	if s.at == start {
		return 2
	}
	n, err := strconv.ParseInt(p.text[start:s.at], 10, 32)
	if err != nil {
		return 0
	}
	return int(n)
}

// ends reports whether a character ends a word.
func (p *simpleParser) ends(r rune) bool {
	switch r {
	case '"':
		return p.on(FlagPhrase)
	case '|':
		return p.on(FlagOr)
	case '+':
		return p.on(FlagAnd)
	case '(', ')':
		return p.on(FlagPrecedence)
	}
	return unicode.IsSpace(r) && p.on(FlagWhitespace)
}

func (p *simpleParser) token(s *simpleState) {
	var b strings.Builder
	prefix, fuzzy := false, false
	for s.at < s.end {
		r, w := p.rune(s.at)
		if r == '\\' && p.on(FlagEscape) && s.at+1 < s.end {
			_, next := p.rune(s.at + 1)
			next = min(next, s.end-s.at-1)
			b.WriteString(p.text[s.at+1 : s.at+1+next])
			s.at += 1 + next
			prefix = false
			continue
		}
		if p.ends(r) {
			break
		}
		if r == '~' && b.Len() > 0 && p.on(FlagFuzzy) {
			fuzzy = true
			break
		}
		prefix = r == '*' && b.Len() > 0 && p.on(FlagPrefix)
		b.WriteString(p.text[s.at : s.at+w])
		s.at += w
	}
	text := b.String()
	if text == "" {
		return
	}
	switch {
	case fuzzy:
		if edits := min(p.number(s), 2); edits > 0 {
			f := p.o.Fuzziness
			f.Fixed, f.Edits = true, edits
			p.add(s, p.node(InFields{Fields: p.o.Fields, Node: Fuzzy{Text: text, Fuzziness: f, Fold: true}, TieBreaker: *p.tie()}))
			return
		}
	case prefix:
		p.add(s, p.node(InFields{Fields: p.o.Fields, Node: Prefix{Text: text[:len(text)-1], Fold: true}, TieBreaker: *p.tie()}))
		return
	}
	p.add(s, p.node(MultiMatch{Fields: p.o.Fields, Text: text, TieBreaker: p.tie(), Options: MatchOptions{Analyzer: p.o.Analyzer, All: p.o.All, ZeroTerms: ZeroSkip}}))
}

// tie is 1: the fields of a clause add up.
func (p *simpleParser) tie() *float32 {
	if p.o.TieBreaker != nil {
		return p.o.TieBreaker
	}
	one := float32(1)
	return &one
}

func (p *simpleParser) node(n Node) Node {
	if p.clauses++; p.clauses > p.o.Limits.clauses() {
		p.limit("clauses", p.o.Limits.clauses())
	}
	if p.o.Lenient {
		return Lenient{n}
	}
	return n
}

// add puts a clause into the tree of a group. Where the operation changes, all that was read so far becomes one clause.
func (p *simpleParser) add(s *simpleState, n Node) {
	if n == nil {
		return
	}
	if s.not%2 == 1 {
		n = Not{n}
	}
	if s.top == nil {
		s.top, s.single = []Node{n}, true
	} else {
		op := s.now
		if op == opNone {
			if op = opShould; p.o.All {
				op = opMust
			}
		}
		if s.previous != op {
			if !s.single {
				s.top = []Node{s.tree()}
			}
			s.single = false
		}
		s.top = append(s.top, n)
		s.previous = op
	}
	s.now = opNone
}

// tree is what was read of a group; nil where there was nothing.
func (s *simpleState) tree() Node {
	switch {
	case s.top == nil:
		return nil
	case s.single:
		return s.top[0]
	case s.previous == opMust:
		return Bool{Must: s.top}
	}
	return Bool{Should: s.top}
}

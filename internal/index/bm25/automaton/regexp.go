package automaton

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/overlakedb/overlake/internal/errs"
)

// MaxRegexp is the longest regular expression in bytes, Elasticsearch's index.max_regex_length.
const MaxRegexp = 1000

// maxNesting bounds how deep groups lie in each other.
const maxNesting = 100

// Regexp accepts the terms that a regular expression describes as a whole, in Lucene's syntax with all its flags:
//
//	.  [abc]  [^a-z]  \c  "text"  (x)  \d \D \w \W \s \S
//	x?  x*  x+  x{2}  x{2,}  x{2,5}
//	xy  x|y  x&y (both)  ~x (anything that is not x)
//	@ (any text)  # (nothing at all)  () (the empty text)  <1-100> (a number)
//
// With fold, letters match in either case. A wrong expression is errs.Invalid and says where.
func Regexp(pattern string, fold bool) (*Automaton, error) {
	if len(pattern) > MaxRegexp {
		return nil, errs.New(errs.Exhausted, "automaton.regexp", fmt.Sprintf("the regular expression has %d bytes, more than %d", len(pattern), MaxRegexp))
	}
	p := &parser{text: pattern, fold: fold}
	e := p.union()
	if p.err == nil && p.at < len(p.text) {
		p.fail("an operator or the end")
	}
	if p.err != nil {
		return nil, p.err
	}
	b := newBuilder()
	end := b.add(e, 0)
	return b.finish(end)
}

// expr is a parsed expression.
type expr interface{}

type (
	exprChars  []rune // pairs of first and last
	exprConcat []expr
	exprUnion  []expr
	exprRepeat struct {
		of       expr
		min, max int // max < 0: no limit
	}
	exprBoth    struct{ a, b expr }
	exprNot     struct{ of expr }
	exprNothing struct{}
)

var exprAny = exprChars{0, unicode.MaxRune}

type parser struct {
	text  string
	at    int
	depth int
	fold  bool
	err   error
}

func (p *parser) fail(expected string) {
	if p.err != nil {
		return
	}
	found := "the end"
	if p.at < len(p.text) {
		r, _ := utf8.DecodeRuneInString(p.text[p.at:])
		found = strconv.QuoteRune(r)
	}
	p.err = errs.New(errs.Invalid, "automaton.regexp", fmt.Sprintf("at character %d: expected %s, found %s", utf8.RuneCountInString(p.text[:p.at])+1, expected, found), errs.On(p.text))
	p.at = len(p.text)
}

func (p *parser) more() bool { return p.err == nil && p.at < len(p.text) }

func (p *parser) peek(set string) bool {
	return p.more() && strings.IndexByte(set, p.text[p.at]) >= 0
}

func (p *parser) take(c byte) bool {
	if p.more() && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}

func (p *parser) rune() rune {
	r, w := utf8.DecodeRuneInString(p.text[p.at:])
	p.at += w
	return r
}

func (p *parser) union() expr {
	if p.depth++; p.depth > maxNesting {
		p.fail(fmt.Sprintf("at most %d groups in each other", maxNesting))
	}
	defer func() { p.depth-- }()
	out := exprUnion{p.both()}
	for p.take('|') {
		out = append(out, p.both())
	}
	if len(out) == 1 {
		return out[0]
	}
	return out
}

func (p *parser) both() expr {
	e := p.concat()
	for p.take('&') {
		e = exprBoth{e, p.concat()}
	}
	return e
}

func (p *parser) concat() expr {
	out := exprConcat{p.repeat()}
	for p.more() && !p.peek(")|&") {
		out = append(out, p.repeat())
	}
	if len(out) == 1 {
		return out[0]
	}
	return out
}

func (p *parser) repeat() expr {
	e := p.not()
	for p.peek("?*+{") {
		switch p.rune() {
		case '?':
			e = exprRepeat{e, 0, 1}
		case '*':
			e = exprRepeat{e, 0, -1}
		case '+':
			e = exprRepeat{e, 1, -1}
		default:
			low := p.number()
			high := low
			if p.take(',') {
				if high = -1; !p.peek("}") {
					high = p.number()
				}
			}
			if !p.take('}') {
				p.fail("}")
			}
			if high >= 0 && high < low {
				p.fail("a greater number first to last in {}")
			}
			e = exprRepeat{e, low, high}
		}
	}
	return e
}

func (p *parser) number() int {
	start := p.at
	for p.more() && p.text[p.at] >= '0' && p.text[p.at] <= '9' {
		p.at++
	}
	n, err := strconv.Atoi(p.text[start:p.at])
	if err != nil || n > MaxStates {
		p.at = start
		p.fail(fmt.Sprintf("a number up to %d", MaxStates))
	}
	return n
}

func (p *parser) not() expr {
	negative := false
	for p.take('~') {
		negative = !negative
	}
	e := p.single()
	if negative {
		return exprNot{e}
	}
	return e
}

func (p *parser) single() expr {
	switch {
	case !p.more() || p.peek(")|&?*+{}]"):
		p.fail("a character, a class or a group")
		return exprNothing{}
	case p.take('.'):
		return exprAny
	case p.take('#'):
		return exprNothing{}
	case p.take('@'):
		return exprRepeat{exprAny, 0, -1}
	case p.take('['):
		return p.class()
	case p.take('"'):
		end := strings.IndexByte(p.text[p.at:], '"')
		if end < 0 {
			p.at = len(p.text)
			p.fail(`a closing "`)
			return exprNothing{}
		}
		var out exprConcat
		for _, r := range p.text[p.at : p.at+end] {
			out = append(out, p.char(r))
		}
		p.at += end + 1
		return out
	case p.take('('):
		if p.take(')') {
			return exprConcat{}
		}
		e := p.union()
		if !p.take(')') {
			p.fail("a closing )")
		}
		return e
	case p.take('<'):
		return p.interval()
	case p.take('\\'):
		return p.escape()
	}
	return p.char(p.rune())
}

// char is a character, in either case where case does not matter.
func (p *parser) char(r rune) exprChars {
	out := exprChars{r, r}
	if p.fold {
		for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
			out = append(out, o, o)
		}
	}
	return out
}

func (p *parser) escape() exprChars {
	if !p.more() {
		p.fail("a character behind \\")
		return nil
	}
	switch r := p.rune(); r {
	case 'd':
		return exprChars{'0', '9'}
	case 'D':
		return exprChars{'0', '9'}.inverse()
	case 'w':
		return exprChars{'0', '9', 'A', 'Z', '_', '_', 'a', 'z'}
	case 'W':
		return exprChars{'0', '9', 'A', 'Z', '_', '_', 'a', 'z'}.inverse()
	case 's':
		return exprChars{'\t', '\n', '\r', '\r', ' ', ' '}
	case 'S':
		return exprChars{'\t', '\n', '\r', '\r', ' ', ' '}.inverse()
	default:
		return p.char(r)
	}
}

// class reads what follows a [.
func (p *parser) class() exprChars {
	negative := p.take('^')
	var out exprChars
	for first := true; p.err == nil && (first || !p.peek("]")); first = false {
		if !p.more() {
			p.fail("a closing ]")
			return nil
		}
		escaped := p.peek(`\`)
		var one exprChars
		if escaped {
			p.at++
			one = p.escape()
		} else {
			r := p.rune()
			one = exprChars{r, r}
		}
		if p.peek("-") && p.at+1 < len(p.text) && p.text[p.at+1] != ']' && len(one) > 0 && one[0] == one[1] {
			p.at++
			p.take('\\')
			if !p.more() {
				p.fail("the end of a range")
				return nil
			}
			hi := p.rune()
			if hi < one[0] {
				p.fail("a range that ascends")
				return nil
			}
			one = exprChars{one[0], hi}
		}
		if p.fold && len(one) == 2 && one[1]-one[0] < 1024 {
			for r := one[0]; r <= one[1]; r++ {
				out = append(out, p.char(r)...)
			}
		} else {
			out = append(out, one...)
		}
	}
	p.at++ // ]
	if negative {
		return out.inverse()
	}
	return out
}

// inverse is every other character.
func (c exprChars) inverse() exprChars {
	type span struct{ lo, hi rune }
	var spans []span
	for i := 0; i < len(c); i += 2 {
		spans = append(spans, span{c[i], c[i+1]})
	}
	slices.SortFunc(spans, func(a, b span) int { return int(a.lo - b.lo) })
	var out exprChars
	next := rune(0)
	for _, s := range spans {
		if s.lo > next {
			out = append(out, next, s.lo-1)
		}
		next = max(next, s.hi+1)
	}
	if next <= unicode.MaxRune {
		out = append(out, next, unicode.MaxRune)
	}
	return out
}

// interval reads what follows a <: two numbers. When both are written with as many digits, so must be what matches; else
// zeros may stand before it.
func (p *parser) interval() expr {
	digits := func() string {
		start := p.at
		for p.more() && p.text[p.at] >= '0' && p.text[p.at] <= '9' {
			p.at++
		}
		if p.at == start || p.at-start > 18 {
			p.fail("a number of at most 18 digits")
		}
		return p.text[start:p.at]
	}
	lo := digits()
	if !p.take('-') {
		p.fail("-")
	}
	hi := digits()
	if !p.take('>') {
		p.fail(">")
	}
	if p.err != nil {
		return exprNothing{}
	}
	a, _ := strconv.ParseInt(lo, 10, 64)
	b, _ := strconv.ParseInt(hi, 10, 64)
	fixed := len(lo) == len(hi)
	if a > b {
		a, b = b, a
		lo, hi = hi, lo
	}
	if fixed {
		return between(lo, hi)
	}
	var out exprUnion
	for n, first := len(strconv.FormatInt(a, 10)), a; n <= len(strconv.FormatInt(b, 10)); n++ {
		last, _ := strconv.ParseInt(strings.Repeat("9", n), 10, 64)
		out = append(out, between(strconv.FormatInt(first, 10), strconv.FormatInt(min(last, b), 10)))
		first = last + 1
	}
	return exprConcat{exprRepeat{exprChars{'0', '0'}, 0, -1}, out}
}

// between accepts the numbers of as many digits from lo to hi.
func between(lo, hi string) expr {
	if lo == "" {
		return exprConcat{}
	}
	if lo[0] == hi[0] {
		return exprConcat{exprChars{rune(lo[0]), rune(lo[0])}, between(lo[1:], hi[1:])}
	}
	n := len(lo) - 1
	out := exprUnion{
		exprConcat{exprChars{rune(lo[0]), rune(lo[0])}, between(lo[1:], strings.Repeat("9", n))},
		exprConcat{exprChars{rune(hi[0]), rune(hi[0])}, between(strings.Repeat("0", n), hi[1:])},
	}
	if lo[0]+1 < hi[0] {
		out = append(out, exprConcat{exprChars{rune(lo[0] + 1), rune(hi[0] - 1)}, exprRepeat{exprChars{'0', '9'}, n, n}})
	}
	return out
}

// add puts an expression behind a state and gives the state behind it.
func (b *builder) add(e expr, from int32) int32 {
	if b.err != nil {
		return 0
	}
	switch e := e.(type) {
	case exprChars:
		to := b.state()
		for i := 0; i < len(e); i += 2 {
			b.edge(from, to, e[i], e[i+1])
		}
		return to
	case exprConcat:
		for _, part := range e {
			from = b.add(part, from)
		}
		return from
	case exprUnion:
		to := b.state()
		for _, part := range e {
			start := b.state()
			b.free(from, start)
			b.free(b.add(part, start), to)
		}
		return to
	case exprRepeat:
		for range e.min {
			from = b.add(e.of, from)
			if b.err != nil {
				return 0
			}
		}
		to := b.state()
		if e.max < 0 {
			start := b.state()
			b.free(from, start)
			b.free(b.add(e.of, start), start)
			b.free(start, to)
			return to
		}
		b.free(from, to)
		for range e.max - e.min {
			start := b.state()
			b.free(from, start)
			from = b.add(e.of, start)
			b.free(from, to)
			if b.err != nil {
				return 0
			}
		}
		return to
	case exprBoth:
		return b.product(e.a, e.b, from)
	case exprNot:
		return b.complement(e.of, from)
	default: // exprNothing
		return b.state()
	}
}

package query

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/overlakedb/overlake/internal/errs"
)

// StringOptions are what a query text, of QueryString or Simple, may say beside itself. The zero value is Elasticsearch's
// default but for Fields, which must be given.
type StringOptions struct {
	Fields             []FieldBoost // where a clause without a field is looked for
	All                bool         // clauses without a sign must match (default_operator: and)
	Analyzer           string       // "": the fields' own
	MinimumShouldMatch string
	Lenient            bool // what cannot be asked of a field matches nothing

	Type       MultiType // of QueryString: how Fields combine; "": BestFields
	TieBreaker *float32

	PhraseSlop        int       // of QueryString: of phrases that do not say
	Fuzziness         Fuzziness // of a ~ without a number, and the other options of fuzzy terms
	NoLeadingWildcard bool      // of QueryString: a pattern must not begin with * or ?
	MaxExpansions     int       // of QueryString with the Type PhrasePrefixField; 0: 50

	Flags  Flags // of Simple; 0: all
	Limits Limits
}

// defaultFields are checked once for both parsers.
func (o *StringOptions) check() error {
	if len(o.Fields) == 0 {
		return errs.New(errs.Invalid, "query.parse", "a query text needs a field to look in")
	}
	return o.Fuzziness.check()
}

// QueryString parses Lucene's query syntax, as Elasticsearch's query_string has it:
//
//	fox              terms of the default fields          fox AND dog, fox && dog
//	title:fox        of a field; title:(a b)              fox OR dog,  fox || dog
//	"quick fox"~2    a phrase, with slop                  NOT fox, !fox, -fox, +fox
//	fo* f?x          prefix, wildcard                     (fox dog)^2  grouping, boost
//	/fo[xk]/         regular expression                   [a TO b] {a TO b}  [a TO *]
//	fox~ fox~1       fuzzy                                title:>a title:>=a title:<a title:<=a
//	_exists_:title, title:*                               *:* everything
//
// A backslash takes the next character as it is; \u0041 is a character by its number. Wrong syntax is errs.Invalid and says
// where, and what was expected there.
func QueryString(text string, o StringOptions) (Node, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	p := &stringParser{text: text, o: o}
	p.next()
	if p.err == nil && p.tok.kind == tEnd {
		return MatchNone{}, nil
	}
	seq := p.query(nil)
	if p.err == nil && p.tok.kind != tEnd {
		p.expected("a clause or the end")
	}
	if p.err != nil {
		return nil, p.err
	}
	seq.Top = true
	seq.MinimumShouldMatch = o.MinimumShouldMatch
	return seq, nil
}

type tokenKind uint8

const (
	tEnd tokenKind = iota
	tTerm
	tWild // a term with * or ? in it
	tStar // * alone
	tQuoted
	tRegexp
	tAnd
	tOr
	tNot
	tPlus
	tMinus
	tOpen
	tClose
	tColon
	tBoost // ^
	tTilde // ~, with a number
	tRange // [ or {
)

type stringToken struct {
	kind tokenKind
	text string // as written, without quotes and slashes
	at   int    // byte
	end  int
}

type stringParser struct {
	text    string
	o       StringOptions
	tok     stringToken
	depth   int
	clauses int
	err     error
}

// place counts characters from 1.
func (p *stringParser) place(at int) int { return utf8.RuneCountInString(p.text[:at]) + 1 }

func (p *stringParser) fail(at int, format string, args ...any) {
	if p.err == nil {
		p.err = errs.New(errs.Invalid, "query.parse", fmt.Sprintf("at character %d: ", p.place(at))+fmt.Sprintf(format, args...), errs.On(short(p.text)),
			errs.Hint(`write \ before a character that is meant as it is: + - ! ( ) { } [ ] ^ " ~ * ? : \ / && ||`))
		p.tok = stringToken{kind: tEnd, at: len(p.text), end: len(p.text)}
	}
}

func (p *stringParser) expected(what string) {
	found := "the end"
	if p.tok.kind != tEnd {
		found = strconv.Quote(short(p.text[p.tok.at:p.tok.end]))
	}
	p.fail(p.tok.at, "expected %s, found %s", what, found)
}

// short cuts a text for a message.
func short(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	i := most
	for i > 0 && !utf8.RuneStart(s[i]) {
		i--
	}
	return s[:i] + "…"
}

func (p *stringParser) count() {
	if p.clauses++; p.clauses > p.o.Limits.clauses() && p.err == nil {
		p.err = errs.New(errs.Exhausted, "query.parse", fmt.Sprintf("the query has more than %d clauses", p.o.Limits.clauses()), errs.On(short(p.text)))
		p.tok = stringToken{kind: tEnd, at: len(p.text), end: len(p.text)}
	}
}

func isBlank(r rune) bool { return r == ' ' || r == '\t' || r == '\n' || r == '\r' || r == 0x3000 }

// special reports whether a character ends a term or is no part of one.
func special(r rune) bool { return isBlank(r) || strings.ContainsRune(`!():^[]"{}~\/*?`, r) }

// next reads a token.
func (p *stringParser) next() {
	if p.err != nil {
		return
	}
	p.tok = p.scan(p.tok.end)
}

// scan reads the token at or behind a byte.
func (p *stringParser) scan(i int) stringToken {
	for i < len(p.text) {
		r, w := utf8.DecodeRuneInString(p.text[i:])
		if !isBlank(r) {
			break
		}
		i += w
	}
	if i >= len(p.text) {
		return stringToken{kind: tEnd, at: len(p.text), end: len(p.text)}
	}
	one := func(k tokenKind) stringToken { return stringToken{k, p.text[i : i+1], i, i + 1} }
	switch p.text[i] {
	case '(':
		return one(tOpen)
	case ')':
		return one(tClose)
	case ':':
		return one(tColon)
	case '^':
		return one(tBoost)
	case '+':
		return one(tPlus)
	case '-':
		return one(tMinus)
	case '!':
		return one(tNot)
	case '[', '{':
		return one(tRange)
	case ']', '}':
		p.fail(i, "expected a clause, found %q that no range opens", p.text[i:i+1])
		return p.tok
	case '~':
		end := i + 1
		for end < len(p.text) && (p.text[end] >= '0' && p.text[end] <= '9' || p.text[end] == '.') {
			end++
		}
		return stringToken{tTilde, p.text[i+1 : end], i, end}
	case '"', '/':
		quote, kind, name := p.text[i], tQuoted, `a closing "`
		if quote == '/' {
			kind, name = tRegexp, "a closing /"
		}
		for end := i + 1; end < len(p.text); end++ {
			switch p.text[end] {
			case '\\':
				end++
			case quote:
				return stringToken{kind, p.text[i+1 : end], i, end + 1}
			}
		}
		p.fail(len(p.text), "expected %s, found the end", name)
		return p.tok
	}
	for _, word := range []struct {
		text string
		kind tokenKind
	}{{"&&", tAnd}, {"||", tOr}, {"AND", tAnd}, {"OR", tOr}, {"NOT", tNot}} {
		if rest, ok := strings.CutPrefix(p.text[i:], word.text); ok && p.termEnds(rest) {
			return stringToken{word.kind, word.text, i, i + len(word.text)}
		}
	}
	return p.scanTerm(i)
}

// termEnds reports whether a term cannot go on with what follows.
func (p *stringParser) termEnds(rest string) bool {
	if rest == "" {
		return true
	}
	r, _ := utf8.DecodeRuneInString(rest)
	return special(r) && !strings.ContainsRune(`\*?`, r)
}

func (p *stringParser) scanTerm(i int) stringToken {
	kind, end := tTerm, i
	for end < len(p.text) {
		r, w := utf8.DecodeRuneInString(p.text[end:])
		switch {
		case r == '\\':
			if end+w >= len(p.text) {
				p.fail(end, `expected a character behind \, found the end`)
				return p.tok
			}
			_, next := utf8.DecodeRuneInString(p.text[end+w:])
			w += next
		case r == '*' || r == '?':
			kind = tWild
		case special(r):
			if end == i {
				p.fail(end, "expected a clause, found %q", r)
				return p.tok
			}
			goto done
		}
		end += w
	}
done:
	if text := p.text[i:end]; text == "*" {
		kind = tStar
	}
	return stringToken{kind, p.text[i:end], i, end}
}

// query reads clauses up to a closing parenthesis or the end.
func (p *stringParser) query(field *string) Sequence {
	seq := Sequence{All: p.o.All}
	if p.depth++; p.depth > p.o.Limits.depth() && p.err == nil {
		p.err = errs.New(errs.Exhausted, "query.parse", fmt.Sprintf("groups are nested deeper than %d", p.o.Limits.depth()), errs.On(short(p.text)))
		p.tok = stringToken{kind: tEnd, at: len(p.text), end: len(p.text)}
	}
	defer func() { p.depth-- }()
	for first := true; p.err == nil; first = false {
		if p.tok.kind == tEnd || p.tok.kind == tClose {
			if first {
				p.expected("a clause")
			}
			break
		}
		if text, ok := p.words(); ok {
			seq.Clauses = append(seq.Clauses, SequenceClause{Words: true, Node: p.leaf(field, p.match(field, text))})
			continue
		}
		var c SequenceClause
		if !first {
			switch p.tok.kind {
			case tAnd:
				c.Join = JoinAnd
				p.next()
			case tOr:
				c.Join = JoinOr
				p.next()
			}
		}
		switch p.tok.kind {
		case tPlus:
			c.Sign = SignPlus
			p.next()
		case tMinus, tNot:
			c.Sign = SignNot
			p.next()
		}
		c.Node = p.clause(field)
		seq.Clauses = append(seq.Clauses, c)
	}
	return seq
}

// words takes a run of terms that nothing stands between or behind: they are one text, so that an analyzer sees them
// together.
func (p *stringParser) words() (string, bool) {
	follows := func(t stringToken) bool {
		switch t.kind {
		case tColon, tStar, tTilde, tBoost, tAnd, tOr:
			return false
		}
		return true
	}
	if p.tok.kind != tTerm {
		return "", false
	}
	saved := p.tok
	second := p.scan(p.tok.end)
	if p.err != nil || second.kind != tTerm {
		return "", false
	}
	third := p.scan(second.end)
	if p.err != nil || !follows(third) {
		return "", false
	}
	p.tok = saved
	var text strings.Builder
	text.WriteString(p.plain(saved))
	p.count()
	for second.kind == tTerm && follows(third) && p.err == nil {
		text.WriteString(" " + p.plain(second))
		p.count()
		second = third
		if third.kind != tEnd {
			third = p.scan(third.end)
		}
	}
	if p.err == nil {
		p.tok = second
	}
	return text.String(), p.err == nil
}

// clause reads a term, a phrase, a pattern, a range or a group.
func (p *stringParser) clause(field *string) Node {
	p.count()
	if p.tok.kind == tTerm || p.tok.kind == tStar || p.tok.kind == tWild {
		if after := p.scan(p.tok.end); p.err == nil && after.kind == tColon {
			name := p.plain(p.tok)
			star := p.tok.kind == tStar
			p.next()
			p.next()
			if star && p.tok.kind == tStar {
				p.next()
				return p.boosted(MatchAll{})
			}
			if name == "_exists_" && (p.tok.kind == tTerm || p.tok.kind == tQuoted) {
				n := Exists{p.plain(p.tok)}
				p.next()
				return p.boosted(p.lenient(n))
			}
			field = &name
		}
	}
	if p.tok.kind == tOpen {
		p.next()
		group := p.query(field)
		if p.tok.kind != tClose {
			p.expected("a closing )")
		}
		p.next()
		return p.boosted(group)
	}
	tok := p.tok
	switch tok.kind {
	case tTerm, tWild, tStar, tRegexp:
		p.next()
		if tok.kind != tRegexp && p.tok.kind == tTilde && p.tok.at == tok.end {
			return p.fuzzy(field, tok)
		}
		n := p.single(field, tok)
		if p.tok.kind != tBoost || tok.kind == tRegexp {
			return p.boosted(n)
		}
		b := p.boosted(n)
		if p.tok.kind != tTilde || p.err != nil {
			return b
		}
		f := p.fuzzy(field, tok)
		return Boost{f, b.(Boost).Factor}
	case tQuoted:
		p.next()
		slop := p.o.PhraseSlop
		if p.tok.kind == tTilde && p.tok.at == tok.end {
			if p.tok.text != "" {
				x, err := strconv.ParseFloat(p.tok.text, 64)
				if err != nil || x > math.MaxInt32 {
					p.expected("a number behind ~")
				}
				slop = int(x)
			}
			p.next()
		}
		return p.boosted(p.leaf(field, p.phrase(field, p.plain(tok), slop)))
	case tRange:
		return p.rangeClause(field)
	}
	p.expected("a clause")
	return MatchNone{}
}

// boosted reads ^ and a number behind a node.
func (p *stringParser) boosted(n Node) Node {
	if p.tok.kind != tBoost || p.err != nil {
		return n
	}
	at, end := p.tok.end, p.tok.end
	for end < len(p.text) && (p.text[end] >= '0' && p.text[end] <= '9' || p.text[end] == '.') {
		end++
	}
	x, err := strconv.ParseFloat(p.text[at:end], 32)
	if err != nil {
		found := "the end"
		if at < len(p.text) {
			found = strconv.Quote(short(p.text[at:]))
		}
		p.fail(at, "expected a number behind ^, found %s", found)
		return n
	}
	p.tok.end = end
	p.next()
	return Boost{n, float32(x)}
}

// fuzzy reads ~ and a number behind a term; the boost may stand before or behind.
func (p *stringParser) fuzzy(field *string, tok stringToken) Node {
	f := p.o.Fuzziness
	term := p.plain(tok)
	if p.tok.text != "" {
		x, err := strconv.ParseFloat(p.tok.text, 64)
		if err != nil {
			p.expected("a number behind ~")
			return MatchNone{}
		}
		// A number below 1 is Lucene's old similarity.
		edits := int(min(x, 2))
		if x < 1 && x > 0 {
			edits = min(int((1-x)*float64(utf8.RuneCountInString(term))), 2)
		} else if x >= 1 && x < 2 && x != 1 {
			p.fail(p.tok.at, "expected a whole number of edits, found %s", p.tok.text)
		}
		f.Fixed, f.Edits = true, edits
	}
	p.next()
	return p.boosted(p.leaf(field, p.in(field, Fuzzy{Text: term, Fuzziness: f, Fold: true})))
}

// single is a term, a prefix, a wildcard or a regular expression.
func (p *stringParser) single(field *string, tok stringToken) Node {
	switch tok.kind {
	case tStar:
		if field == nil {
			return MatchAll{}
		}
		return p.leaf(field, p.in(field, Exists{}))
	case tWild:
		if p.o.NoLeadingWildcard && (tok.text[0] == '*' || tok.text[0] == '?') {
			p.fail(tok.at, "expected a character before the first %q", tok.text[:1])
		}
		body, star := strings.CutSuffix(tok.text, "*")
		if star && !wild(body) && !strings.HasSuffix(strings.ReplaceAll(body, `\\`, ""), `\`) {
			return p.leaf(field, p.in(field, Prefix{Text: p.unescape(body, tok.at), Fold: true}))
		}
		return p.leaf(field, p.in(field, Wildcard{Pattern: tok.text}))
	case tRegexp:
		return p.leaf(field, p.in(field, Regexp{Pattern: strings.ReplaceAll(tok.text, `\/`, "/")}))
	}
	text := p.plain(tok)
	if field != nil && len(text) > 1 && (text[0] == '<' || text[0] == '>') {
		bound, equal := text[1:], false
		if rest, ok := strings.CutPrefix(bound, "="); ok && rest != "" {
			bound, equal = rest, true
		}
		r := Range{Fold: true}
		if text[0] == '<' {
			r.To, r.ExcludeTo = &bound, !equal
		} else {
			r.From, r.ExcludeFrom = &bound, !equal
		}
		return p.leaf(field, p.in(field, r))
	}
	return p.leaf(field, p.match(field, text))
}

// wild reports whether a * or ? that is not escaped stands in a text.
func wild(s string) bool {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '*', '?':
			return true
		}
	}
	return false
}

// rangeClause reads [a TO b], with { and } for bounds that are left out.
func (p *stringParser) rangeClause(field *string) Node {
	r := Range{ExcludeFrom: p.tok.text == "{", Fold: true}
	i := p.tok.end
	blank := func() {
		for i < len(p.text) && isBlank(rune(p.text[i])) {
			i++
		}
	}
	bound := func() *string {
		blank()
		start := i
		if i < len(p.text) && p.text[i] == '"' {
			for i++; i < len(p.text) && p.text[i] != '"'; i++ {
				if p.text[i] == '\\' {
					i++
				}
			}
			if i >= len(p.text) {
				p.fail(len(p.text), `expected a closing ", found the end`)
				return nil
			}
			i++
			s := p.unescape(p.text[start+1:i-1], start)
			return &s
		}
		for i < len(p.text) && !isBlank(rune(p.text[i])) && p.text[i] != ']' && p.text[i] != '}' {
			if p.text[i] == '\\' && i+1 < len(p.text) {
				i++
			}
			i++
		}
		raw := p.text[start:min(i, len(p.text))]
		if raw == "" {
			found := "the end"
			if start < len(p.text) {
				found = strconv.Quote(p.text[start : start+1])
			}
			p.fail(start, "expected a bound of the range, found %s", found)
			return nil
		}
		if raw == "*" {
			return nil
		}
		s := p.unescape(raw, start)
		return &s
	}
	r.From = bound()
	blank()
	if rest := p.text[min(i, len(p.text)):]; p.err == nil && (!strings.HasPrefix(rest, "TO") || len(rest) > 2 && !isBlank(rune(rest[2]))) {
		found := "the end"
		if rest != "" {
			found = strconv.Quote(short(strings.Fields(rest + " ")[0]))
		}
		p.fail(min(i, len(p.text)), "expected TO, found %s", found)
	}
	i += 2
	if p.err == nil {
		r.To = bound()
	}
	blank()
	if p.err == nil && (i >= len(p.text) || p.text[i] != ']' && p.text[i] != '}') {
		p.fail(min(i, len(p.text)), "expected ] or } at the end of the range")
	}
	if p.err != nil {
		return MatchNone{}
	}
	r.ExcludeTo = p.text[i] == '}'
	p.tok.end = i + 1
	p.next()
	return p.boosted(p.leaf(field, p.in(field, r)))
}

// plain is the text of a token without escapes.
func (p *stringParser) plain(t stringToken) string { return p.unescape(t.text, t.at) }

func (p *stringParser) unescape(s string, at int) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++
		if i == len(s) {
			p.fail(at, `expected a character behind \, found the end`)
			break
		}
		if s[i] != 'u' {
			b.WriteByte(s[i])
			continue
		}
		n, err := strconv.ParseUint(s[min(i+1, len(s)):min(i+5, len(s))], 16, 16)
		if err != nil || i+5 > len(s) {
			p.fail(at, `expected four hexadecimal digits behind \u`)
			break
		}
		b.WriteRune(rune(n))
		i += 4
	}
	return b.String()
}

func (p *stringParser) fieldsOf(field *string) []FieldBoost {
	if field == nil {
		return p.o.Fields
	}
	return []FieldBoost{{Name: *field}}
}

func (p *stringParser) tie() float32 {
	switch {
	case p.o.TieBreaker != nil:
		return *p.o.TieBreaker
	case p.o.Type == MostFields || p.o.Type == BoolPrefixFields:
		return 1
	}
	return 0
}

// in is a node without a field, in each of the fields.
func (p *stringParser) in(field *string, n Node) Node {
	return InFields{Fields: p.fieldsOf(field), Node: n, TieBreaker: p.tie()}
}

// match is a text in the fields.
func (p *stringParser) match(field *string, text string) Node {
	return MultiMatch{Fields: p.fieldsOf(field), Text: text, Type: p.o.Type, TieBreaker: p.o.TieBreaker, MaxExpansions: p.o.MaxExpansions,
		Options: MatchOptions{Analyzer: p.o.Analyzer, All: p.o.All, ZeroTerms: ZeroSkip}, Slop: p.o.PhraseSlop}
}

// phrase is a quoted text in the fields.
func (p *stringParser) phrase(field *string, text string, slop int) Node {
	kind := PhraseFields
	if p.o.Type == PhrasePrefixField {
		kind = PhrasePrefixField
	}
	return MultiMatch{Fields: p.fieldsOf(field), Text: text, Type: kind, TieBreaker: p.o.TieBreaker, MaxExpansions: p.o.MaxExpansions, Slop: slop,
		Options: MatchOptions{Analyzer: p.o.Analyzer, ZeroTerms: ZeroSkip}}
}

func (p *stringParser) leaf(_ *string, n Node) Node { return p.lenient(n) }

func (p *stringParser) lenient(n Node) Node {
	if p.o.Lenient {
		return Lenient{n}
	}
	return n
}

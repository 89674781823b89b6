package analysis

import (
	"strconv"
	"strings"

	"github.com/overlakedb/overlake/internal/errs"
)

// Spec says how an analyzer is composed, before its parts are looked up: what Parse makes of a text, and what a gateway makes of
// its own form.
type Spec struct {
	Tokenizer Component
	Filters   []Component // in the order of their application
}

// Component names a tokenizer or a filter with its arguments.
type Component struct {
	Name string
	Args []Arg
}

// Arg is the value of a parameter.
type Arg struct {
	Name   string // "" for the next parameter in the order of the list
	Values []string
	List   bool // written as a list: [a, b]
}

// maxSpec is the longest definition, in bytes.
const maxSpec = 1 << 20

// Parse reads the inline form of an analyzer:
//
//	tokenizer=standard, filters=lowercase|stop(english)|synonym("a, b => c")|ngram(min_gram=2, max_gram=3)
//
// A component is a name, perhaps with arguments in parentheses; an argument is a value, perhaps behind the name of a
// parameter and an equals sign; a value is a word of letters, digits and _.-+, a text in double quotes with Go's escapes, or a
// list of these in brackets. What cannot be read is errs.Invalid.
func Parse(text string) (Spec, error) {
	if len(text) > maxSpec {
		return Spec{}, errs.Newf(errs.Invalid, "analysis.parse", "a definition has %d bytes at most, this one has %d", maxSpec, len(text))
	}
	p := parser{text: text}
	spec := p.spec()
	if p.problem != "" {
		at := text[min(p.at, len(text)):]
		if len(at) > 40 {
			at = at[:40] + "…"
		}
		return Spec{}, errs.With(errs.Newf(errs.Invalid, "analysis.parse", "%s at byte %d, before %q", p.problem, p.at, at), errs.Hint(`write tokenizer=NAME, filters=NAME|NAME(argument, parameter=value)|…`))
	}
	return spec, nil
}

type parser struct {
	text    string
	at      int
	problem string // the first; then all is passed over
}

func (p *parser) fail(problem string) {
	if p.problem == "" {
		p.problem = problem
	}
}

// peek is the next byte that is no white space, 0 at the end.
func (p *parser) peek() byte {
	for p.at < len(p.text) {
		if c := p.text[p.at]; c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c
		}
		p.at++
	}
	return 0
}

// take takes the next byte if it is c.
func (p *parser) take(c byte) bool {
	if p.problem == "" && p.peek() == c {
		p.at++
		return true
	}
	return false
}

func inWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '.' || c == '-' || c == '+'
}

func (p *parser) word() string {
	p.peek()
	start := p.at
	for p.at < len(p.text) && inWord(p.text[p.at]) {
		p.at++
	}
	if start == p.at {
		p.fail("a name is expected")
	}
	return p.text[start:p.at]
}

func (p *parser) spec() (s Spec) {
	seen := map[string]bool{}
	for {
		key := strings.ToLower(p.word())
		if seen[key] {
			p.fail(key + " stands twice")
		}
		seen[key] = true
		if !p.take('=') {
			p.fail("an equals sign is expected")
		}
		switch key {
		case "tokenizer":
			s.Tokenizer = p.component()
		case "filters":
			for p.problem == "" {
				s.Filters = append(s.Filters, p.component())
				if !p.take('|') {
					break
				}
			}
		default:
			p.fail("an analyzer has a tokenizer and filters, no " + key)
		}
		if p.problem != "" || !p.take(',') {
			break
		}
	}
	if p.problem == "" && p.peek() != 0 {
		p.fail("the definition should end")
	}
	if s.Tokenizer.Name == "" {
		p.fail("there is no tokenizer")
	}
	return s
}

func (p *parser) component() Component {
	c := Component{Name: strings.ToLower(p.word())}
	if !p.take('(') || p.take(')') {
		return c
	}
	for p.problem == "" {
		c.Args = append(c.Args, p.argument())
		if !p.take(',') {
			break
		}
	}
	if !p.take(')') {
		p.fail("a comma or a closing parenthesis is expected")
	}
	return c
}

func (p *parser) argument() Arg {
	if c := p.peek(); c == '[' || c == '"' {
		return p.value("")
	}
	word := p.word()
	if p.take('=') {
		return p.value(strings.ToLower(word))
	}
	return Arg{Values: []string{word}}
}

func (p *parser) value(name string) Arg {
	a := Arg{Name: name}
	if !p.take('[') {
		a.Values = []string{p.scalar()}
		return a
	}
	a.List = true
	if p.take(']') {
		return a
	}
	for p.problem == "" {
		a.Values = append(a.Values, p.scalar())
		if !p.take(',') {
			break
		}
	}
	if !p.take(']') {
		p.fail("a comma or a closing bracket is expected")
	}
	return a
}

func (p *parser) scalar() string {
	if p.peek() != '"' {
		return p.word()
	}
	quoted, err := strconv.QuotedPrefix(p.text[p.at:])
	if err != nil {
		p.fail("a text is not closed, or has a backslash that means nothing")
		return ""
	}
	p.at += len(quoted)
	text, err := strconv.Unquote(quoted)
	if err != nil {
		p.fail("a text has a backslash that means nothing")
	}
	return text
}

// String writes the inline form, as it was given. The canonical form is that of Analyzer.Definition.
func (s Spec) String() string {
	var b strings.Builder
	b.WriteString("tokenizer=")
	s.Tokenizer.write(&b)
	for i, f := range s.Filters {
		if i == 0 {
			b.WriteString(", filters=")
		} else {
			b.WriteByte('|')
		}
		f.write(&b)
	}
	return b.String()
}

func (c Component) write(b *strings.Builder) {
	b.WriteString(c.Name)
	if len(c.Args) == 0 {
		return
	}
	b.WriteByte('(')
	for i, a := range c.Args {
		if i > 0 {
			b.WriteString(", ")
		}
		if a.Name != "" {
			b.WriteString(a.Name + "=")
		}
		if a.List {
			b.WriteByte('[')
		}
		for j, v := range a.Values {
			if j > 0 {
				b.WriteString(", ")
			}
			writeScalar(b, v)
		}
		if a.List {
			b.WriteByte(']')
		}
	}
	b.WriteByte(')')
}

func writeScalar(b *strings.Builder, v string) {
	for i := range len(v) {
		if !inWord(v[i]) {
			b.WriteString(strconv.Quote(v))
			return
		}
	}
	if v == "" {
		b.WriteString(`""`)
		return
	}
	b.WriteString(v)
}

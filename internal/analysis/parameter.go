package analysis

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/overlakedb/overlake/internal/errs"
)

// component is a kind of tokenizer or filter. Names and parameters are those of Elasticsearch 7.10 where it has them.
type component struct {
	name     string
	revision int // rises whenever the terms of any text change
	params   []param
	bind     func(a *arguments) stage
	doc      string // one line for the guide
}

// param is a parameter of a component.
type param struct {
	name        string
	kind        paramKind
	fallback    string // as it is written; "" where the parameter is a list, or must be given
	least, most int    // of numbers
	words       []string
}

type paramKind uint8

const (
	numberParam paramKind = iota
	flagParam             // true or false
	wordParam             // one of the words
	textParam
	listParam
)

func number(name string, fallback, least, most int) param {
	return param{name: name, kind: numberParam, fallback: strconv.Itoa(fallback), least: least, most: most}
}

func flag(name string, fallback bool) param {
	return param{name: name, kind: flagParam, fallback: strconv.FormatBool(fallback)}
}

func word(name, fallback string, words []string) param {
	return param{name: name, kind: wordParam, fallback: fallback, words: words}
}

func text(name, fallback string) param { return param{name: name, kind: textParam, fallback: fallback} }

func list(name string) param { return param{name: name, kind: listParam} }

// arguments are the values of a component's parameters. The first failure of a getter is kept.
type arguments struct {
	component *component
	what      string // tokenizer or filter
	values    map[string]Arg
	err       error

	// before makes the chain in front of a filter; synonyms are analyzed by it.
	before func() source
}

const opDefine = "analysis.define"

func (a *arguments) failf(format string, args ...any) {
	if a.err == nil {
		a.err = errs.With(errs.Newf(errs.Invalid, opDefine, format, args...), errs.On(a.what+" "+a.component.name))
	}
}

// bindArguments checks the arguments of a component against its parameters.
func bindArguments(c *component, what string, args []Arg) (*arguments, error) {
	a := &arguments{component: c, what: what, values: map[string]Arg{}}
	names := func() string {
		if len(c.params) == 0 {
			return "it has no parameters"
		}
		var out []string
		for _, p := range c.params {
			out = append(out, p.name)
		}
		return "its parameters are " + strings.Join(out, ", ")
	}
	next := 0
	for _, arg := range args {
		name := arg.Name
		if name == "" {
			// Several values in a row are one list where the first parameter is one.
			if next > 0 && c.params[0].kind == listParam {
				first := a.values[c.params[0].name]
				first.Values = append(slices.Clone(first.Values), arg.Values...)
				first.List = true
				a.values[c.params[0].name] = first
				continue
			}
			if next >= len(c.params) {
				return nil, errs.New(errs.Invalid, opDefine, "there are more arguments than parameters", errs.On(what+" "+c.name), errs.Hint("%s", names()))
			}
			name = c.params[next].name
			next++
		}
		i := slices.IndexFunc(c.params, func(p param) bool { return p.name == name })
		if i < 0 {
			return nil, errs.New(errs.Unsupported, opDefine, "there is no parameter "+name, errs.On(what+" "+c.name), errs.Hint("%s", names()))
		}
		if _, twice := a.values[name]; twice {
			return nil, errs.New(errs.Invalid, opDefine, "the parameter "+name+" stands twice", errs.On(what+" "+c.name))
		}
		if c.params[i].kind != listParam && (arg.List || len(arg.Values) != 1) {
			return nil, errs.New(errs.Invalid, opDefine, "the parameter "+name+" has one value, not a list", errs.On(what+" "+c.name))
		}
		a.values[name] = arg
	}
	return a, nil
}

// given reports whether a parameter has a value.
func (a *arguments) given(name string) bool { _, ok := a.values[name]; return ok }

// param finds the parameter of a name with its text.
func (a *arguments) param(name string) (p param, value string) {
	for _, p = range a.component.params {
		if p.name == name {
			break
		}
	}
	if v, ok := a.values[name]; ok {
		return p, v.Values[0]
	}
	return p, p.fallback
}

func (a *arguments) number(name string) int {
	p, value := a.param(name)
	n, err := strconv.Atoi(value)
	if err != nil || n < p.least || n > p.most {
		a.failf("%s is a number from %d to %d, not %s", name, p.least, p.most, strconv.Quote(value))
		return p.least
	}
	a.set(name, strconv.Itoa(n))
	return n
}

// set puts the plain form of a given value in the place of the given form.
func (a *arguments) set(name, value string) {
	if a.given(name) {
		a.values[name] = Arg{Name: name, Values: []string{value}}
	}
}

func (a *arguments) flag(name string) bool {
	_, value := a.param(name)
	switch strings.ToLower(value) {
	case "true":
		a.set(name, "true")
		return true
	case "false":
		a.set(name, "false")
	default:
		a.failf("%s is true or false, not %s", name, strconv.Quote(value))
	}
	return false
}

func (a *arguments) word(name string) string {
	p, value := a.param(name)
	value = strings.ToLower(value)
	if !slices.Contains(p.words, value) {
		if a.err == nil {
			message := name + " " + strconv.Quote(value) + " is not supported"
			if value == "" {
				message = name + " must be given"
			}
			a.err = errs.New(errs.Unsupported, opDefine, message, errs.On(a.what+" "+a.component.name), errs.Hint("%s is one of %s", name, strings.Join(p.words, ", ")))
		}
		return ""
	}
	a.set(name, value)
	return value
}

func (a *arguments) text(name string) string {
	_, value := a.param(name)
	return value
}

// char is a text of one character.
func (a *arguments) char(name string) rune {
	value := a.text(name)
	r, w := utf8.DecodeRuneInString(value)
	if w != len(value) || r == utf8.RuneError {
		a.failf("%s is one character, not %s", name, strconv.Quote(value))
	}
	return r
}

// list gives the values, and whether they were written as a list or as several values rather than as one word.
func (a *arguments) list(name string) (values []string, isList bool) {
	v := a.values[name]
	return v.Values, v.List
}

// words gives the values of a list in which every word is one of some.
func (a *arguments) words(name string, known []string) (bits int) {
	values, _ := a.list(name)
	for _, v := range values {
		i := slices.Index(known, strings.ToLower(v))
		if i < 0 {
			if a.err == nil {
				a.err = errs.New(errs.Unsupported, opDefine, name+" "+strconv.Quote(v)+" is not supported", errs.On(a.what+" "+a.component.name), errs.Hint("%s are some of %s", name, strings.Join(known, ", ")))
			}
			return 0
		}
		bits |= 1 << i
	}
	return bits
}

// The limits of patterns. The size is about the number of instructions that the expression becomes.
const (
	maxPattern     = 1000
	maxPatternSize = 20000
)

// pattern compiles a regular expression in RE2's language, with Java's flags as a text of names joined by |.
func (a *arguments) pattern(name, flags string) *regexp.Regexp {
	expr := a.text(name)
	if len(expr) > maxPattern {
		a.failf("%s has %d bytes at most, not %d", name, maxPattern, len(expr))
		return nil
	}
	prefix := ""
	for _, f := range strings.FieldsFunc(flags, func(r rune) bool { return r == '|' }) {
		switch strings.ToUpper(strings.TrimSpace(f)) {
		case "CASE_INSENSITIVE", "UNICODE_CASE":
			prefix += "i"
		case "MULTILINE":
			prefix += "m"
		case "DOTALL":
			prefix += "s"
		default:
			if a.err == nil {
				a.err = errs.New(errs.Unsupported, opDefine, "the flag "+f+" of a pattern is not supported", errs.On(a.what+" "+a.component.name), errs.Hint("the flags are CASE_INSENSITIVE, UNICODE_CASE, MULTILINE and DOTALL"))
			}
			return nil
		}
	}
	if prefix != "" {
		expr = "(?" + prefix + ")" + expr
	}
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err == nil && patternSize(tree) > maxPatternSize {
		a.failf("%s is too large: its repetitions make more than %d steps", name, maxPatternSize)
		return nil
	}
	var re *regexp.Regexp
	if err == nil {
		re, err = regexp.Compile(expr)
	}
	if err != nil {
		if a.err == nil {
			a.err = errs.Wrap(errs.Invalid, opDefine, err, errs.On(a.what+" "+a.component.name), errs.Hint("patterns are those of RE2: without look-around and back-references"))
		}
		return nil
	}
	return re
}

// patternSize is about how many instructions an expression becomes, with its repetitions written out.
func patternSize(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)/2
	for _, sub := range re.Sub {
		n = min(n+patternSize(sub), 2*maxPatternSize)
	}
	if re.Op == syntax.OpRepeat {
		n = min(n*max(re.Max, re.Min+1, 1), 2*maxPatternSize)
	}
	return n
}

// canonical writes the component with the values that differ from the defaults, in the order of the parameters.
func (a *arguments) canonical() Component {
	out := Component{Name: a.component.name}
	for _, p := range a.component.params {
		v, ok := a.values[p.name]
		if !ok || p.kind != listParam && v.Values[0] == p.fallback {
			continue
		}
		out.Args = append(out.Args, Arg{Name: p.name, Values: v.Values, List: v.List})
	}
	return out
}

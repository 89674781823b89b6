// Package lex answers: what are the words of a SQL text, and where does each begin and end?
//
// The tokens follow DuckDB's lexical grammar, with one word more: <#>, which DuckDB cannot read. Every token keeps its
// byte offsets, so that text can be replaced without printing a syntax tree, and every error tells line and column.
package lex

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/overlakedb/overlake/internal/errs"
)

// Kind is what a token is.
type Kind uint8

// The kinds of token.
const (
	Word   Kind = iota // an unquoted identifier or keyword
	Quoted             // "an identifier"
	String             // '…', E'…', X'…', B'…', $$…$$
	Number
	Param // ?, $1, $name
	Op    // an operator
	Punct // one of ( ) [ ] { } , ; . :
)

// Token is one word of a text.
type Token struct {
	Kind       Kind
	Start, End int    // byte offsets
	Text       string // as written
}

// Name is the identifier a Word or Quoted token stands for.
func (t Token) Name() string {
	if t.Kind == Quoted {
		return strings.ReplaceAll(t.Text[1:len(t.Text)-1], `""`, `"`)
	}
	return t.Text
}

// Is reports whether the token is the given keyword or punctuation; case does not matter, quoted names are no keywords.
func (t Token) Is(word string) bool {
	return t.Kind != Quoted && t.Kind != String && len(t.Text) == len(word) && strings.EqualFold(t.Text, word)
}

// IsIdent reports whether the token can be a name.
func (t Token) IsIdent() bool { return t.Kind == Word || t.Kind == Quoted }

// Value is the text that a String token in quotes stands for.
func (t Token) Value() string {
	s := t.Text
	switch {
	case strings.HasPrefix(s, "$"):
		i := strings.IndexByte(s[1:], '$') + 2
		return s[i : len(s)-i]
	case s[0] != '\'':
		escaped := s[0] == 'e' || s[0] == 'E'
		s = strings.ReplaceAll(s[2:len(s)-1], "''", "'")
		if escaped {
			s = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\r`, "\r", `\'`, "'", `\\`, `\`).Replace(s)
		}
		return s
	}
	return strings.ReplaceAll(s[1:len(s)-1], "''", "'")
}

// MaxDepth bounds how deep parentheses may nest: far more than people write and far less than what exhausts a stack.
const MaxDepth = 500

// Tokens splits a text.
func Tokens(text string) ([]Token, error) {
	var out []Token
	var open []int
	for i := 0; i < len(text); {
		c := text[i]
		start := i
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v':
			i++
			continue
		case strings.HasPrefix(text[i:], "--"):
			n := strings.IndexByte(text[i:], '\n')
			if n < 0 {
				n = len(text) - i
			}
			i += n
			continue
		case strings.HasPrefix(text[i:], "/*"):
			depth := 0
			for {
				switch {
				case strings.HasPrefix(text[i:], "/*"):
					depth++
					i += 2
				case strings.HasPrefix(text[i:], "*/"):
					depth--
					i += 2
				case i >= len(text):
					return nil, Errorf(text, start, "this comment is never closed with */")
				default:
					i++
				}
				if depth == 0 {
					break
				}
			}
			continue
		case c == 0:
			return nil, Errorf(text, i, "a NUL character")
		case c == '\'':
			n := quoted(text[i:], '\'', false)
			if n < 0 {
				return nil, Errorf(text, start, "this string is never closed with '")
			}
			i += n
			out = append(out, Token{String, start, i, text[start:i]})
			continue
		case strings.ContainsRune("eExXbB", rune(c)) && i+1 < len(text) && text[i+1] == '\'':
			n := quoted(text[i+1:], '\'', c == 'e' || c == 'E')
			if n < 0 {
				return nil, Errorf(text, start, "this string is never closed with '")
			}
			i += 1 + n
			out = append(out, Token{String, start, i, text[start:i]})
			continue
		case c == '"':
			n := quoted(text[i:], '"', false)
			if n < 0 {
				return nil, Errorf(text, start, `this name is never closed with "`)
			}
			if n == 2 {
				return nil, Errorf(text, start, "a quoted name must not be empty")
			}
			i += n
			out = append(out, Token{Quoted, start, i, text[start:i]})
			continue
		case c == '$':
			if tag := dollarTag(text[i:]); tag != "" {
				n := strings.Index(text[i+len(tag):], tag)
				if n < 0 {
					return nil, Errorf(text, start, "this string is never closed with %s", tag)
				}
				i += 2*len(tag) + n
				out = append(out, Token{String, start, i, text[start:i]})
				continue
			}
			for i++; i < len(text) && isWord(text[i]); i++ {
			}
			if i == start+1 {
				return nil, Errorf(text, start, "$ must be followed by the number or the name of a parameter")
			}
			out = append(out, Token{Param, start, i, text[start:i]})
			continue
		case c == '?':
			i++
			out = append(out, Token{Param, start, i, "?"})
			continue
		case c >= '0' && c <= '9' || c == '.' && i+1 < len(text) && text[i+1] >= '0' && text[i+1] <= '9':
			i += number(text[i:])
			out = append(out, Token{Number, start, i, text[start:i]})
			continue
		case isWord(c) || c >= utf8.RuneSelf:
			for i < len(text) && (isWord(text[i]) || text[i] >= utf8.RuneSelf || text[i] == '$') {
				i++
			}
			out = append(out, Token{Word, start, i, text[start:i]})
			continue
		case strings.IndexByte("()[]{},;.", c) >= 0:
			switch c {
			case '(', '[', '{':
				if open = append(open, i); len(open) > MaxDepth {
					return nil, errs.With(Errorf(text, i, "parentheses nested deeper than %d", MaxDepth), errs.Hint("split the statement with WITH"))
				}
			case ')', ']', '}':
				if len(open) > 0 {
					open = open[:len(open)-1]
				}
			}
			i++
			out = append(out, Token{Punct, start, i, text[start:i]})
			continue
		case c == ':':
			i++
			if i < len(text) && (text[i] == ':' || text[i] == '=') {
				i++
				out = append(out, Token{Op, start, i, text[start:i]})
			} else {
				out = append(out, Token{Punct, start, i, ":"})
			}
			continue
		case strings.HasPrefix(text[i:], "<#>"):
			i += 3
			out = append(out, Token{Op, start, i, "<#>"})
			continue
		}
		n := operator(text[i:])
		if n == 0 {
			r, _ := utf8.DecodeRuneInString(text[i:])
			return nil, Errorf(text, i, "unexpected character %q", r)
		}
		i += n
		out = append(out, Token{Op, start, i, text[start:i]})
	}
	return out, nil
}

const operators = "~!@^&|`+-*/%<>="

// operator is the length of the operator at the start, as PostgreSQL cuts them: it stops before a comment, and gives back
// trailing + and - unless a character outside + - * / < > = is in it.
func operator(s string) int {
	n := 0
	for n < len(s) && strings.IndexByte(operators, s[n]) >= 0 && !strings.HasPrefix(s[n:], "--") && !strings.HasPrefix(s[n:], "/*") {
		n++
	}
	for n > 1 && (s[n-1] == '+' || s[n-1] == '-') && !strings.ContainsAny(s[:n-1], "~!@^&|`%") {
		n--
	}
	return n
}

func quoted(s string, q byte, backslash bool) int {
	for i := 1; i < len(s); i++ {
		switch {
		case backslash && s[i] == '\\':
			i++
		case s[i] == q && i+1 < len(s) && s[i+1] == q:
			i++
		case s[i] == q:
			return i + 1
		}
	}
	return -1
}

// dollarTag is $$ or $tag$ at the start, or nothing.
func dollarTag(s string) string {
	for i := 1; i < len(s); i++ {
		if s[i] == '$' {
			return s[:i+1]
		}
		if !isWord(s[i]) || i == 1 && s[i] >= '0' && s[i] <= '9' {
			return ""
		}
	}
	return ""
}

func number(s string) int {
	i := 0
	if len(s) > 2 && s[0] == '0' && (s[1]|32 == 'x' || s[1]|32 == 'b') {
		for i = 2; i < len(s) && isWord(s[i]); i++ {
		}
		return i
	}
	for i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == '_') {
		i++
	}
	if i < len(s) && s[i] == '.' {
		for i++; i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == '_'); i++ {
		}
	}
	if i < len(s) && s[i]|32 == 'e' {
		j := i + 1
		if j < len(s) && (s[j] == '+' || s[j] == '-') {
			j++
		}
		if j < len(s) && s[j] >= '0' && s[j] <= '9' {
			for i = j; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
			}
		}
	}
	return i
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c|32 >= 'a' && c|32 <= 'z'
}

// Position is an error's place in a text.
type Position struct {
	Line, Column int // from 1; columns count characters
	Message      string
}

func (p *Position) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", p.Line, p.Column, p.Message)
}

// Errorf is an Invalid error at a byte offset of a text.
func Errorf(text string, offset int, format string, args ...any) error {
	return errs.Wrap(errs.Invalid, "sql.parse", At(text, offset, fmt.Sprintf(format, args...)))
}

// At names the place of a byte offset.
func At(text string, offset int, message string) *Position {
	offset = max(0, min(offset, len(text)))
	line := strings.Count(text[:offset], "\n") + 1
	col := utf8.RuneCountInString(text[strings.LastIndexByte(text[:offset], '\n')+1:offset]) + 1
	return &Position{Line: line, Column: col, Message: message}
}

// Statement is one statement of a script.
type Statement struct {
	Text   string
	Offset int // of Text in the script
	Tokens []Token
}

// Split cuts a script at its semicolons. Statements without words are left out.
func Split(script string) ([]Statement, error) {
	tokens, err := Tokens(script)
	if err != nil {
		return nil, err
	}
	var out []Statement
	first := 0
	flush := func(last int) {
		if last > first {
			lo, hi := tokens[first].Start, tokens[last-1].End
			part := make([]Token, last-first)
			for i, t := range tokens[first:last] {
				t.Start -= lo
				t.End -= lo
				part[i] = t
			}
			out = append(out, Statement{Text: script[lo:hi], Offset: lo, Tokens: part})
		}
	}
	for i, t := range tokens {
		if t.Is(";") {
			flush(i)
			first = i + 1
		}
	}
	flush(len(tokens))
	return out, nil
}

// Close is the index of the token that closes the bracket at index i, or -1.
func Close(tokens []Token, i int) int {
	depth := 0
	for k := i; k < len(tokens); k++ {
		if tokens[k].Kind != Punct {
			continue
		}
		switch tokens[k].Text {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			if depth--; depth == 0 {
				return k
			}
		}
	}
	return -1
}

// Open is the index of the token that opens the bracket closed at index i, or -1.
func Open(tokens []Token, i int) int {
	depth := 0
	for k := i; k >= 0; k-- {
		if tokens[k].Kind != Punct {
			continue
		}
		switch tokens[k].Text {
		case ")", "]", "}":
			depth++
		case "(", "[", "{":
			if depth--; depth == 0 {
				return k
			}
		}
	}
	return -1
}

// Args are the token ranges between the commas of the brackets that open at index i: empty for f().
func Args(tokens []Token, i int) (args [][]Token, end int) {
	end = Close(tokens, i)
	if end < 0 {
		return nil, -1
	}
	from, depth := i+1, 0
	for k := i + 1; k < end; k++ {
		if tokens[k].Kind != Punct {
			continue
		}
		switch tokens[k].Text {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			depth--
		case ",":
			if depth == 0 {
				args = append(args, tokens[from:k])
				from = k + 1
			}
		}
	}
	if end > from || len(args) > 0 {
		args = append(args, tokens[from:end])
	}
	return args, end
}

// Edit replaces the bytes Start to End of a text.
type Edit struct {
	Start, End int
	New        string
}

// Splice applies edits, which may be given in any order and must not overlap; edits that only insert at one place keep
// their order.
func Splice(text string, edits []Edit) string {
	sorted := append([]Edit(nil), edits...)
	for i := 1; i < len(sorted); i++ { // insertion sort: stable, and the lists are short
		for k := i; k > 0 && sorted[k].Start < sorted[k-1].Start; k-- {
			sorted[k], sorted[k-1] = sorted[k-1], sorted[k]
		}
	}
	var b strings.Builder
	at := 0
	for _, e := range sorted {
		if e.Start < at {
			continue // inside an edit already made
		}
		b.WriteString(text[at:e.Start])
		b.WriteString(e.New)
		at = e.End
	}
	b.WriteString(text[at:])
	return b.String()
}

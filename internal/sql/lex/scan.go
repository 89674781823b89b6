package lex

import (
	"strings"
	"unicode/utf8"

	"github.com/overlakedb/overlake/internal/errs"
)

// Tokens splits a text.
func Tokens(text string) ([]Token, error) {
	s := &scanner{text: text}
	for s.at < len(text) {
		if err := s.next(); err != nil {
			return nil, err
		}
	}
	return s.out, nil
}

type scanner struct {
	text string
	at   int
	open int // brackets
	out  []Token
}

// take makes the next n bytes a token.
func (s *scanner) take(kind Kind, n int) {
	s.out = append(s.out, Token{kind, s.at, s.at + n, s.text[s.at : s.at+n]})
	s.at += n
}

// next reads one token, or passes white space or a comment.
func (s *scanner) next() error {
	rest := s.text[s.at:]
	c := rest[0]
	switch {
	case strings.HasPrefix(rest, "--"):
		s.at += line(rest)
		return nil
	case strings.HasPrefix(rest, "/*"):
		n := comment(rest)
		if n < 0 {
			return Errorf(s.text, s.at, "this comment is never closed with */")
		}
		s.at += n
		return nil
	case c == 0:
		return Errorf(s.text, s.at, "a NUL character")
	case c == '\'':
		return s.string(0, false)
	case strings.IndexByte("eExXbB", c) >= 0 && len(rest) > 1 && rest[1] == '\'':
		return s.string(1, c|32 == 'e')
	case c == '"':
		n := quoted(rest, '"', false)
		if n < 0 {
			return Errorf(s.text, s.at, `this name is never closed with "`)
		}
		if n == 2 {
			return Errorf(s.text, s.at, "a quoted name must not be empty")
		}
		s.take(Quoted, n)
		return nil
	case c == '$':
		return s.dollar(rest)
	case c == '?':
		n := 1
		for n < len(rest) && isDigit(rest[n]) {
			n++
		}
		s.take(Param, n)
		return nil
	case isDigit(c) || c == '.' && len(rest) > 1 && isDigit(rest[1]):
		s.take(Number, number(rest))
		return nil
	}
	r, size := utf8.DecodeRuneInString(rest)
	switch {
	case isSpace(r):
		s.at += size
		return nil
	case isWord(c):
		n := 0
		for n < len(rest) && (isWord(rest[n]) || rest[n] == '$') {
			if rest[n] >= utf8.RuneSelf {
				r, size := utf8.DecodeRuneInString(rest[n:])
				if isSpace(r) {
					break
				}
				n += size
				continue
			}
			n++
		}
		s.take(Word, n)
		return nil
	case strings.IndexByte("([{", c) >= 0:
		if s.open++; s.open > MaxDepth {
			return errs.With(Errorf(s.text, s.at, "brackets nested deeper than %d", MaxDepth), errs.Hint("split the statement with WITH"))
		}
	case strings.IndexByte(")]}", c) >= 0:
		s.open = max(0, s.open-1)
	case c == ';':
		s.open = 0
	case c == ',' || c == '.' || c == '#':
	case c == ':':
		if len(rest) > 1 && (rest[1] == ':' || rest[1] == '=') {
			s.take(Op, 2)
			return nil
		}
	case strings.HasPrefix(rest, "<#>"):
		s.take(Op, 3)
		return nil
	default:
		n := operator(rest)
		if n == 0 {
			return Errorf(s.text, s.at, "unexpected character %q", r)
		}
		s.take(Op, n)
		return nil
	}
	s.take(Punct, 1)
	return nil
}

// string reads a string whose quote is some bytes ahead, with the pieces that follow behind line breaks.
func (s *scanner) string(ahead int, backslash bool) error {
	rest := s.text[s.at:]
	n := ahead
	for {
		k := quoted(rest[n:], '\'', backslash)
		if k < 0 {
			return Errorf(s.text, s.at, "this string is never closed with '")
		}
		n += k
		g := gap(rest[n:])
		if g == 0 {
			break
		}
		n += g
	}
	s.take(String, n)
	return nil
}

// gap is the length of white space with a line break before a further piece of a string, or 0.
func gap(s string) int {
	broken := false
	for i := 0; i < len(s); {
		switch {
		case s[i] == '\n' || s[i] == '\r':
			broken = true
			i++
		case s[i] == ' ' || s[i] == '\t' || s[i] == '\f' || s[i] == '\v':
			i++
		case strings.HasPrefix(s[i:], "--"):
			i += line(s[i:])
		case s[i] == '\'' && broken:
			return i
		default:
			return 0
		}
	}
	return 0
}

// dollar reads a string in dollar quotes or a parameter.
func (s *scanner) dollar(rest string) error {
	if tag := dollarTag(rest); tag != "" {
		n := strings.Index(rest[len(tag):], tag)
		if n < 0 {
			return Errorf(s.text, s.at, "this string is never closed with %s", tag)
		}
		s.take(String, 2*len(tag)+n)
		return nil
	}
	n := 1
	switch {
	case len(rest) > 1 && rest[1] == '"':
		if n = quoted(rest[1:], '"', false); n < 0 {
			return Errorf(s.text, s.at, `this name is never closed with "`)
		}
		n++
	case len(rest) > 1 && isDigit(rest[1]):
		for n < len(rest) && isDigit(rest[n]) {
			n++
		}
	default:
		for n < len(rest) && isWord(rest[n]) {
			n++
		}
	}
	if n == 1 {
		return Errorf(s.text, s.at, "$ must be followed by the number or the name of a parameter")
	}
	s.take(Param, n)
	return nil
}

// line is the length of a comment that ends with its line.
func line(s string) int {
	if n := strings.IndexAny(s, "\n\r"); n >= 0 {
		return n
	}
	return len(s)
}

// comment is the length of a comment in /* */, which nest; -1 when it does not end.
func comment(s string) int {
	depth := 0
	for i := 0; i+1 < len(s); {
		switch s[i : i+2] {
		case "/*":
			depth++
			i += 2
		case "*/":
			depth--
			i += 2
		default:
			i++
		}
		if depth == 0 {
			return i
		}
	}
	return -1
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

// quoted is the length of a quoted text, -1 when it does not end.
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
		if !isWord(s[i]) || i == 1 && isDigit(s[i]) {
			return ""
		}
	}
	return ""
}

// number is the length of a number: digits with single underscores between them, a fraction, an exponent.
func number(s string) int {
	i := digits(s, 0)
	if i < len(s) && s[i] == '.' && !strings.HasPrefix(s[i:], "..") {
		i = digits(s, i+1)
	}
	if i < len(s) && s[i]|32 == 'e' {
		j := i + 1
		if j < len(s) && (s[j] == '+' || s[j] == '-') {
			j++
		}
		if j < len(s) && isDigit(s[j]) {
			i = digits(s, j)
		}
	}
	return i
}

func digits(s string, i int) int {
	for i < len(s) && (isDigit(s[i]) || s[i] == '_' && i > 0 && isDigit(s[i-1]) && i+1 < len(s) && isDigit(s[i+1])) {
		i++
	}
	return i
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isWord(c byte) bool {
	return c == '_' || isDigit(c) || c|32 >= 'a' && c|32 <= 'z' || c >= utf8.RuneSelf
}

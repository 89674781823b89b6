// Package lex answers: what are the words of a SQL text, and where does each begin and end?
//
// A token is a word of the text with its byte offsets. Tokens follow the lexical grammar of DuckDB 1.5.6, with one word
// more: <#>, which DuckDB cannot read. White space and comments are no tokens. A statement is what stands between two
// semicolons of a script. An edit replaces bytes of a text; a text is changed by edits rather than by printing a syntax
// tree, so that what the user wrote stays what the user wrote, and an offset in the new text can be told as one in the old.
//
// Rules of the room:
//
//	L1  Tokens ascend and do not overlap, and text[Start:End] is Text.
//	L2  Where DuckDB ends a string, a comment or a name, so do we: what is quoted for one is quoted for the other.
//	L3  Any bytes give tokens or an Invalid error with line and column, never a panic; the work is linear in the text.
//	L4  Brackets nest at most MaxDepth deep, so that nothing behind this room recurses without bound.
//
// Places where DuckDB differs from PostgreSQL, kept on purpose: 0x1F is the number 0 and the word x1F; # is no operator
// character, but a word of its own; an underscore may stand between digits; spaces of Unicode are spaces.
package lex

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Kind is what a token is.
type Kind uint8

// The kinds of token.
const (
	Word   Kind = iota // an unquoted identifier or keyword
	Quoted             // "an identifier"
	String             // '…', E'…', X'…', B'…', $$…$$; pieces in quotes with a line break between them are one string
	Number
	Param // ?, ?1, $1, $name, $"a name"
	Op    // an operator
	Punct // one of ( ) [ ] { } , ; . : #
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

// Value is the text that a String token stands for. For X'…' and B'…' it is the digits.
func (t Token) Value() string {
	s := t.Text
	if strings.HasPrefix(s, "$") {
		i := strings.IndexByte(s[1:], '$') + 2
		return s[i : len(s)-i]
	}
	escaped := s[0] == 'e' || s[0] == 'E'
	if s[0] != '\'' {
		s = s[1:]
	}
	var b strings.Builder
	for i := 0; i < len(s); { // one piece in quotes a turn
		n := quoted(s[i:], '\'', escaped)
		piece := s[i+1 : i+n-1]
		if escaped {
			unescape(&b, piece)
		} else {
			b.WriteString(strings.ReplaceAll(piece, "''", "'"))
		}
		i += n
		i += gap(s[i:])
	}
	return b.String()
}

// unescape writes what a piece of E'…' stands for.
func unescape(b *strings.Builder, s string) {
	for i := 0; i < len(s); i++ {
		if s[i] == '\'' {
			i++ // of two
		}
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		digits := func(base, most int) int { // value of up to most digits at i
			n := 0
			for n < most && i+n < len(s) && digit(s[i+n], base) {
				n++
			}
			v, err := strconv.ParseUint(s[i:i+n], base, 32)
			if err != nil {
				return -1
			}
			i += n - 1
			return int(v)
		}
		switch c := s[i]; {
		case c == 'n':
			b.WriteByte('\n')
		case c == 't':
			b.WriteByte('\t')
		case c == 'r':
			b.WriteByte('\r')
		case c == 'b':
			b.WriteByte('\b')
		case c == 'f':
			b.WriteByte('\f')
		case c >= '0' && c <= '7':
			b.WriteByte(byte(digits(8, 3)))
		case (c == 'x' || c == 'u' || c == 'U') && i+1 < len(s) && digit(s[i+1], 16):
			i++
			most := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
			if v := digits(16, most); c == 'x' {
				b.WriteByte(byte(v))
			} else {
				b.WriteRune(rune(v))
			}
		default:
			b.WriteByte(c)
		}
	}
}

func digit(c byte, base int) bool {
	if base == 8 {
		return c >= '0' && c <= '7'
	}
	return c >= '0' && c <= '9' || c|32 >= 'a' && c|32 <= 'f'
}

// MaxDepth bounds how deep brackets may nest: far more than people write and less than what DuckDB refuses (its parser
// takes expressions 1,000 deep; deeper ones, up to 100,000 brackets, were measured to be refused without a crash).
const MaxDepth = 500

// spaces of Unicode that DuckDB takes for spaces.
func isSpace(r rune) bool {
	switch r {
	case ' ', '\t', '\n', '\r', '\f', '\v', 0xA0, 0x202F, 0x205F, 0x3000, 0xFEFF:
		return true
	}
	return r >= 0x2000 && r <= 0x200F
}

// SpaceEdits puts plain spaces where a text has Unicode's between its tokens. DuckDB does the same before it counts
// offsets, so a text must go through this for DuckDB's offsets to be right.
func SpaceEdits(text string, tokens []Token) []Edit {
	var out []Edit
	at := 0
	clean := func(from, to int) {
		for i := from; i < to; {
			r, n := utf8.DecodeRuneInString(text[i:to])
			if r >= utf8.RuneSelf && isSpace(r) {
				out = append(out, Edit{Start: i, End: i + n, New: " "})
			}
			i += n
		}
	}
	for _, t := range tokens {
		clean(at, t.Start)
		at = t.End
	}
	clean(at, len(text))
	return out
}

package lex

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/overlakedb/overlake/internal/errs"
)

// Position is an error's place in a text.
type Position struct {
	Line, Column int // from 1; columns count characters
	Offset       int // of the byte, from 0
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
	return &Position{Line: line, Column: col, Offset: offset, Message: message}
}

// Statement is one statement of a script.
type Statement struct {
	Text   string
	Offset int // of Text in the script
	Tokens []Token
}

// HasParams reports whether the statement has parameters.
func (s Statement) HasParams() bool {
	for _, t := range s.Tokens {
		if t.Kind == Param {
			return true
		}
	}
	return false
}

// Split cuts a script at its semicolons. Statements without words are left out. The text of a statement goes from its first
// word to its last; hints before and behind belong to it too.
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
			before, behind := 0, len(script)
			if first > 0 {
				before = tokens[first-1].End
			}
			if last < len(tokens) {
				behind = tokens[last].Start
			}
			if h := hints(script[before:lo]); h != nil {
				lo = before + h[0][0]
			}
			if h := hints(script[hi:behind]); h != nil {
				hi += h[len(h)-1][1]
			}
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
		if depth += nesting(tokens[k]); depth == 0 {
			return k
		}
	}
	return -1
}

// Open is the index of the token that opens the bracket closed at index i, or -1.
func Open(tokens []Token, i int) int {
	depth := 0
	for k := i; k >= 0; k-- {
		if depth -= nesting(tokens[k]); depth == 0 {
			return k
		}
	}
	return -1
}

// nesting is 1 for an opening bracket, -1 for a closing one, and 0.
func nesting(t Token) int {
	if t.Kind == Punct {
		switch t.Text {
		case "(", "[", "{":
			return 1
		case ")", "]", "}":
			return -1
		}
	}
	return 0
}

// Args are the token ranges between the commas of the brackets that open at index i: empty for f().
func Args(tokens []Token, i int) (args [][]Token, end int) {
	end = Close(tokens, i)
	if end < 0 {
		return nil, -1
	}
	from, depth := i+1, 0
	for k := i + 1; k < end; k++ {
		if depth += nesting(tokens[k]); depth == 0 && tokens[k].Is(",") {
			args = append(args, tokens[from:k])
			from = k + 1
		}
	}
	if end > from || len(args) > 0 {
		args = append(args, tokens[from:end])
	}
	return args, end
}

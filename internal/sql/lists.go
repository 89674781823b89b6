package sql

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/sql/lex"
)

// Long IN lists of plain constants are taken out of the text while it is rewritten, and put back for the engine: tens of
// thousands of keys would else be read by every step, and once more as a syntax tree. In their place stands the first
// constant and a stand-in, a constant of the same kind that occurs nowhere in the statement.

// longList is the length from which on a list is taken out.
const longList = 256

type standIn struct {
	text   string // as it stands for the list's tail, or for a text
	tail   string
	values []predicate.Value // all of the list, the first too; nil for a text
}

// longText is the length in bytes from which on a constant text is taken out of the statement before it is parsed. Vectors are
// written so, and statements that differ in theirs alone have one syntax tree, which is kept.
const longText = 64

// mostTexts bounds them: a statement with more, such as one that inserts rows, is not asked again.
const mostTexts = 16

// cutTexts takes the long constant texts out of a text.
func (q *statement) cutTexts(w *rewriting) error {
	if len(w.text) < longText {
		return nil
	}
	tokens, err := lex.Tokens(w.text)
	if err != nil {
		return err
	}
	var long []lex.Token
	for i, t := range tokens {
		// Where a value is meant, and no name.
		if t.Kind != lex.String || t.Text[0] != '\'' || len(t.Text) < longText || i == 0 || tokens[i-1].Kind != lex.Op && !tokens[i-1].Is("(") && !tokens[i-1].Is(",") && !tokens[i-1].Is("[") ||
			i+1 < len(tokens) && tokens[i+1].Kind == lex.String {
			continue
		}
		long = append(long, t)
	}
	const stem = "71000000000000000"
	if len(long) > mostTexts || strings.Contains(w.text, stem) {
		return nil
	}
	var edits []lex.Edit
	for i, t := range long {
		in := fmt.Sprintf("'%s%02d'", stem, i)
		edits = append(edits, lex.Edit{Start: t.Start, End: t.End, New: in})
		q.lists = append(q.lists, standIn{text: in, tail: t.Text})
	}
	w.splice(edits)
	return nil
}

// whole is the text that a constant stands for: itself, or one that was taken out.
func (q *statement) whole(s string) string {
	for i := range q.lists {
		if l := &q.lists[i]; l.values == nil && len(s) == len(l.text)-2 && l.text[1:len(l.text)-1] == s {
			return lex.Token{Kind: lex.String, Text: l.tail}.Value()
		}
	}
	return s
}

// cutLists takes the long lists out of a text.
func (q *statement) cutLists(w *rewriting) error {
	if len(w.text) < 4*longList {
		return nil
	}
	tokens, err := lex.Tokens(w.text)
	if err != nil {
		return err
	}
	var edits []lex.Edit
	number := int64(7_000_000_000_000_000_000)
	for i := 1; i < len(tokens); i++ {
		if !tokens[i].Is("(") || !tokens[i-1].Is("IN") {
			continue
		}
		values, end := constants(tokens, i+1)
		if len(values) < longList {
			continue
		}
		for {
			number++
			if !strings.Contains(w.text, strconv.FormatInt(number, 10)) {
				break
			}
		}
		s := standIn{text: strconv.FormatInt(number, 10), values: values}
		if tokens[i+1].Kind == lex.String {
			s.text = "'" + s.text + "'"
		}
		from, to := tokens[i+3].Start, tokens[end-1].End // behind the first constant and its comma
		s.tail = w.text[from:to]
		edits = append(edits, lex.Edit{Start: from, End: to, New: s.text})
		q.lists = append(q.lists, s)
		i = end
	}
	w.splice(edits)
	return nil
}

// constants reads constants of one kind, whole numbers or strings, from a token on; end is the index of the closing
// bracket. Anything else gives none.
func constants(tokens []lex.Token, i int) (values []predicate.Value, end int) {
	kind := lex.Kind(255)
	for i+1 < len(tokens) {
		t := tokens[i]
		if kind == 255 {
			kind = t.Kind
		}
		switch {
		case t.Kind != kind:
			return nil, 0
		case kind == lex.Number:
			n, err := strconv.ParseInt(t.Text, 10, 64)
			if err != nil {
				return nil, 0
			}
			values = append(values, n)
		case kind == lex.String && t.Text[0] == '\'':
			values = append(values, t.Value())
		default:
			return nil, 0
		}
		switch {
		case tokens[i+1].Is(")"):
			return values, i + 1
		case !tokens[i+1].Is(","):
			return nil, 0
		}
		i += 2
	}
	return nil, 0
}

// list is the list that a constant stands for.
func (q *statement) list(v predicate.Value) ([]predicate.Value, bool) {
	for i := range q.lists {
		if q.lists[i].values == nil {
			continue
		}
		switch v := v.(type) {
		case int64:
			if q.lists[i].text == strconv.FormatInt(v, 10) {
				return q.lists[i].values, true
			}
		case string:
			if q.lists[i].text == "'"+v+"'" {
				return q.lists[i].values, true
			}
		}
	}
	return nil, false
}

// restoreLists puts the lists back.
func (q *statement) restoreLists(w *rewriting) {
	var edits []lex.Edit
	for _, s := range q.lists {
		for at := 0; ; {
			k := strings.Index(w.text[at:], s.text)
			if k < 0 {
				break
			}
			edits = append(edits, lex.Edit{Start: at + k, End: at + k + len(s.text), New: s.tail})
			at += k + len(s.text)
		}
	}
	w.splice(edits)
}

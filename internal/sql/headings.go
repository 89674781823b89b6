package sql

import (
	"encoding/json"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/engine"
	"github.com/overlakedb/overlake/internal/sql/cast"
	"github.com/overlakedb/overlake/internal/sql/coltype"
	"github.com/overlakedb/overlake/internal/sql/heading"
	"github.com/overlakedb/overlake/internal/sql/lex"
	"github.com/overlakedb/overlake/internal/sql/tree"
)

// A column without a name of its own is headed by its expression. What rewriting does to the expression is not the
// user's business, and some of it (paths of files) must not be seen, so expressions that may be rewritten are named
// before they are: by what the engine would have headed them with.

// name gives the expressions that may be rewritten the names they would have had.
func (q *statement) name(w *rewriting) error {
	tokens, err := lex.Tokens(w.text)
	if err != nil {
		return err
	}
	var items [][2]int
	for _, r := range heading.Items(tokens) {
		if heading.Rewritten(tokens[r[0]:r[1]]) {
			items = append(items, r)
		}
	}
	if len(items) > 0 {
		w.splice(q.nameEdits(w.text, tokens, items))
	}
	return nil
}

// nameAround names the innermost expression of a SELECT list that holds a byte of the text.
func (q *statement) nameAround(text string, at int) []lex.Edit {
	tokens, err := lex.Tokens(text)
	if err != nil {
		return nil
	}
	var best [][2]int
	size := len(text) + 1
	for _, r := range heading.Items(tokens) {
		if lo, hi := tokens[r[0]].Start, tokens[r[1]-1].End; lo <= at && at < hi && hi-lo < size {
			best, size = [][2]int{r}, hi-lo
		}
	}
	if best == nil {
		return nil
	}
	return q.nameEdits(text, tokens, best)
}

// nameEdits puts names behind those of the expressions that have none and become one column.
func (q *statement) nameEdits(text string, tokens []lex.Token, items [][2]int) []lex.Edit {
	var list []string
	for _, r := range items {
		list = append(list, text[tokens[r[0]].Start:tokens[r[1]-1].End])
	}
	parsed, err := q.s.env.engine.Parse(q.ctx, "SELECT "+strings.Join(list, ", ")+"\n")
	if err != nil {
		return nil // the whole statement will not parse either, and tells where
	}
	var root struct {
		Statements []struct {
			Node struct {
				SelectList []node `json:"select_list"`
			} `json:"node"`
		} `json:"statements"`
	}
	if json.Unmarshal([]byte(parsed), &root) != nil || len(root.Statements) != 1 || len(root.Statements[0].Node.SelectList) != len(items) {
		return nil
	}
	headings := q.headings(parsed)
	if len(headings) != len(items) {
		return nil
	}
	var edits []lex.Edit
	for i, n := range root.Statements[0].Node.SelectList {
		if tree.Str(n, "alias") == "" && !heading.Spreads(n) {
			end := tokens[items[i][1]-1].End
			edits = append(edits, lex.Edit{Start: end, End: end, New: " AS " + lex.QuoteIdent(headings[i])})
		}
	}
	return edits
}

// headings prints the expressions of a SELECT without FROM as the engine does.
func (q *statement) headings(tree string) []string {
	rows, err := q.s.env.engine.Query(q.ctx, "SELECT json_deserialize_sql($1::JSON)", engine.Arg{Value: tree})
	if err != nil {
		return nil
	}
	defer rows.Close()
	if !rows.Next() {
		return nil
	}
	a, ok := rows.Record().Column(0).(*array.String)
	if !ok || a.Len() == 0 {
		return nil
	}
	text := strings.Clone(a.Value(0))
	tokens, err := lex.Tokens(text)
	if err != nil {
		return nil
	}
	var out []string
	depth, from := 0, 1
	for i, t := range tokens {
		switch {
		case t.Is("(") || t.Is("[") || t.Is("{"):
			depth++
		case t.Is(")") || t.Is("]") || t.Is("}"):
			depth--
		}
		if depth == 0 && i > 0 && (t.Is(",") || i == len(tokens)-1) {
			end := i
			if !t.Is(",") {
				end++
			}
			var edits []lex.Edit
			base := tokens[from].Start
			for _, t := range tokens[from:end] {
				switch {
				case t.Kind == lex.Op && t.Text == coltype.NegativeDot:
					edits = append(edits, lex.Edit{Start: t.Start - base, End: t.End - base, New: "<#>"})
				case t.Kind == lex.Quoted && cast.Types[t.Name()]:
					edits = append(edits, lex.Edit{Start: t.Start - base, End: t.End - base, New: t.Name()})
				}
			}
			out = append(out, lex.Splice(text[base:tokens[end-1].End], edits))
			from = i + 1
		}
	}
	return out
}

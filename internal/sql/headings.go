package sql

import (
	"encoding/json"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/engine"
	"github.com/overlakedb/overlake/internal/sql/cast"
	"github.com/overlakedb/overlake/internal/sql/coltype"
	"github.com/overlakedb/overlake/internal/sql/lex"
	"github.com/overlakedb/overlake/internal/sql/tree"
)

// A column without a name of its own is headed by its expression. What rewriting does to the expression is not the
// user's business, and some of it (paths of files) must not be seen, so expressions that may be rewritten are named
// before they are: by what the engine would have headed them with.

// selectItems finds the expressions of all SELECT lists of a text, as ranges of tokens.
func selectItems(tokens []lex.Token) [][2]int {
	var out [][2]int
	for i, t := range tokens {
		if !t.Is("SELECT") || i > 0 && tokens[i-1].Is(".") {
			continue
		}
		k := i + 1
		if k < len(tokens) && (tokens[k].Is("DISTINCT") || tokens[k].Is("ALL")) {
			if k++; k+1 < len(tokens) && tokens[k].Is("ON") && tokens[k+1].Is("(") {
				end := lex.Close(tokens, k+1)
				if end < 0 {
					continue
				}
				k = end + 1
			}
		}
		from, depth := k, 0
		for ; k < len(tokens); k++ {
			t := tokens[k]
			switch {
			case t.Is("(") || t.Is("[") || t.Is("{"):
				depth++
				continue
			case t.Is(")") || t.Is("]") || t.Is("}"):
				depth--
			}
			if depth < 0 || depth == 0 && endsList(tokens, k) {
				break
			}
			if depth == 0 && t.Is(",") {
				out = append(out, [2]int{from, k})
				from = k + 1
			}
		}
		out = append(out, [2]int{from, k})
	}
	kept := out[:0]
	for _, r := range out {
		if r[1] > r[0] {
			kept = append(kept, r)
		}
	}
	return kept
}

// endsList reports whether a word outside brackets is behind a SELECT list.
func endsList(tokens []lex.Token, i int) bool {
	t := tokens[i]
	if t.Is(";") {
		return true
	}
	if t.Kind != lex.Word || i > 0 && (tokens[i-1].Is(".") || tokens[i-1].Is("AS")) {
		return false
	}
	switch strings.ToUpper(t.Text) {
	case "FROM":
		return !(i > 1 && tokens[i-1].Is("DISTINCT") && (tokens[i-2].Is("IS") || tokens[i-2].Is("NOT")))
	case "GROUP":
		return !(i > 0 && tokens[i-1].Is("WITHIN"))
	case "WHERE", "HAVING", "WINDOW", "QUALIFY", "ORDER", "LIMIT", "OFFSET", "FETCH", "UNION", "INTERSECT", "EXCEPT", "USING", "INTO":
		return true
	}
	return false
}

// rewritten reports whether rewriting may change an expression that is not a single bm25(…) or match(…), which are headed
// by their own name.
func rewritten(tokens []lex.Token) bool {
	call := func(i int) bool { return i+1 < len(tokens) && tokens[i+1].Is("(") }
	if n := strings.ToLower(tokens[0].Text); (n == "bm25" || n == "match") && call(0) && lex.Close(tokens, 1) == len(tokens)-1 {
		return false
	}
	for i, t := range tokens {
		_, is := cast.Type(t)
		switch {
		case t.Kind == lex.Op && t.Text == coltype.NegativeDot, cast.FloatList(tokens, i), is && (call(i) || i > 0):
			return true
		case t.IsIdent():
			switch strings.ToLower(t.Name()) {
			case "select", "from", "table":
				return true
			case "bm25", "match", "rrf":
				if call(i) {
					return true
				}
			}
		}
	}
	return false
}

// name gives the expressions that may be rewritten the names they would have had.
func (q *statement) name(w *rewriting) error {
	tokens, err := lex.Tokens(w.text)
	if err != nil {
		return err
	}
	var items [][2]int
	for _, r := range selectItems(tokens) {
		if rewritten(tokens[r[0]:r[1]]) {
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
	for _, r := range selectItems(tokens) {
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
		if tree.Str(n, "alias") == "" && !spreads(n) {
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

// spreads reports whether an expression can become several columns, which one name would not fit.
func spreads(v any) bool {
	switch v := v.(type) {
	case []any:
		for _, c := range v {
			if spreads(c) {
				return true
			}
		}
	case node:
		if tree.IsQuery(v) {
			return false
		}
		switch tree.Str(v, "class") {
		case "STAR":
			return true
		case "FUNCTION":
			if strings.EqualFold(tree.Str(v, "function_name"), "unnest") {
				return true
			}
		}
		for _, c := range v {
			if spreads(c) {
				return true
			}
		}
	}
	return false
}

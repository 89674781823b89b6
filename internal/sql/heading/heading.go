// Package heading answers: which expressions of a SELECT list does rewriting change, so that they need a name before?
package heading

import (
	"strings"

	"github.com/overlakedb/overlake/internal/sql/cast"
	"github.com/overlakedb/overlake/internal/sql/coltype"
	"github.com/overlakedb/overlake/internal/sql/lex"
	"github.com/overlakedb/overlake/internal/sql/tree"
)

// Items finds the expressions of all SELECT lists of a text, as ranges of tokens.
func Items(tokens []lex.Token) [][2]int {
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

// Rewritten reports whether rewriting may change an expression that is not a single bm25(…), match(…) or highlight(…), which are headed
// by their own name.
func Rewritten(tokens []lex.Token) bool {
	call := func(i int) bool { return i+1 < len(tokens) && tokens[i+1].Is("(") }
	if n := strings.ToLower(tokens[0].Text); (n == "bm25" || n == "match" || n == "highlight") && call(0) && lex.Close(tokens, 1) == len(tokens)-1 {
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
			case "bm25", "match", "highlight", "rrf":
				if call(i) {
					return true
				}
			}
		}
	}
	return false
}

// Spreads reports whether an expression can become several columns, which one name would not fit.
func Spreads(v any) bool {
	switch v := v.(type) {
	case []any:
		for _, c := range v {
			if Spreads(c) {
				return true
			}
		}
	case tree.Node:
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
			if Spreads(c) {
				return true
			}
		}
	}
	return false
}

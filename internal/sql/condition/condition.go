// Package condition answers: how is a predicate written for the engine?
package condition

import (
	"strconv"
	"strings"

	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/sql/lex"
)

// Text writes a predicate for the engine, over the columns of a table by its name unless that is ""; "" for one that
// cannot be written, which keeps every row.
func Text(e predicate.Expr, table string) string {
	column := func(name string) string {
		if table != "" {
			return lex.QuoteIdent(table) + "." + lex.QuoteIdent(name)
		}
		return lex.QuoteIdent(name)
	}
	join := func(parts []predicate.Expr, word string, all bool) string {
		var out []string
		for _, p := range parts {
			s := Text(p, table)
			if s == "" {
				if all {
					continue
				}
				return ""
			}
			out = append(out, s)
		}
		if len(out) == 0 {
			return ""
		}
		return "(" + strings.Join(out, word) + ")"
	}
	switch e := e.(type) {
	case predicate.And:
		return join(e, " AND ", true)
	case predicate.Or:
		return join(e, " OR ", false)
	case predicate.IsNull:
		return column(e.Column) + " IS NULL"
	case predicate.Not:
		if x, ok := e.X.(predicate.IsNull); ok {
			return column(x.Column) + " IS NOT NULL"
		}
	case predicate.StartsWith:
		return "starts_with(" + column(e.Column) + ", " + lex.QuoteText(e.Prefix) + ")"
	case predicate.Compare:
		if v := value(e.Value); v != "" {
			return column(e.Column) + " " + e.Op.String() + " " + v
		}
	case predicate.In:
		var list []string
		for _, x := range e.Values {
			v := value(x)
			if v == "" {
				return ""
			}
			list = append(list, v)
		}
		return column(e.Column) + " IN (" + strings.Join(list, ", ") + ")"
	}
	return ""
}

func value(v predicate.Value) string {
	switch v := v.(type) {
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case string:
		return lex.QuoteText(v)
	case predicate.Typed:
		switch v.Type {
		case "decimal":
			return v.Text
		case "date", "timestamp", "timestamptz", "time", "uuid":
			return "CAST(" + lex.QuoteText(v.Text) + " AS " + strings.ToUpper(v.Type) + ")"
		}
	}
	return ""
}

package nearest

import (
	"strings"

	"github.com/overlakedb/overlake/internal/sql/tree"
)

// A fusion is what rrf becomes: a sum of terms, one for each ranking, that are 0 for the rows that a ranking has not among its
// first ones.
//
//	CASE WHEN (distance) IS NOT NULL AND rank() OVER (ORDER BY distance) <= depth THEN 1.0::DOUBLE / (k + rank() OVER …) ELSE 0 END
//	CASE WHEN (score) > 0 AND rank() OVER (ORDER BY score DESC) <= depth THEN … ELSE 0 END

// Leg is one ranking of a fusion.
type Leg struct {
	By         tree.Node // what rows are ranked by
	Depth      int64     // rows that are ranked later count nothing
	Descending bool
}

// Fused reads a fusion; nil when the expression is none.
func (r *Reader) Fused(e tree.Node) (legs []Leg) {
	if tree.Str(e, "class") == "FUNCTION" && tree.Str(e, "function_name") == "+" {
		for _, c := range tree.List(e, "children") {
			x, _ := c.(tree.Node)
			l := r.Fused(x)
			if l == nil {
				return nil
			}
			legs = append(legs, l...)
		}
		return legs
	}
	checks := tree.List(e, "case_checks")
	if tree.Str(e, "class") != "CASE" || len(checks) != 1 || r.Constant(tree.Child(e, "else_expr")) != int64(0) {
		return nil
	}
	check, _ := checks[0].(tree.Node)
	when := tree.Conjuncts(tree.Child(check, "when_expr"))
	if len(when) != 2 || tree.Str(when[1], "type") != "COMPARE_LESSTHANOREQUALTO" {
		return nil
	}
	by, descending, ok := ranked(tree.Child(when[1], "left"))
	depth, isNumber := r.Constant(tree.Child(when[1], "right")).(int64)
	if !ok || !isNumber || depth < 1 || !r.counts(tree.Child(check, "then_expr"), by) {
		return nil
	}
	var of tree.Node
	switch tree.Str(when[0], "type") {
	case "OPERATOR_IS_NOT_NULL":
		if c := tree.List(when[0], "children"); len(c) == 1 && !descending {
			of, _ = c[0].(tree.Node)
		}
	case "COMPARE_GREATERTHAN":
		if r.Constant(tree.Child(when[0], "right")) == int64(0) && descending {
			of = tree.Child(when[0], "left")
		}
	}
	if of == nil || !tree.Equal(of, by) {
		return nil
	}
	return []Leg{{By: by, Depth: depth, Descending: descending}}
}

// counts tells whether an expression is 1.0::DOUBLE / (k + rank() OVER (ORDER BY …)).
func (r *Reader) counts(e, by tree.Node) bool {
	parts := tree.List(e, "children")
	if tree.Str(e, "class") != "FUNCTION" || tree.Str(e, "function_name") != "/" || len(parts) != 2 {
		return false
	}
	one, _ := parts[0].(tree.Node)
	below, _ := parts[1].(tree.Node)
	sum := tree.List(below, "children")
	if tree.Str(one, "class") != "CAST" || tree.Str(tree.Child(one, "child"), "class") != "CONSTANT" || tree.Str(below, "function_name") != "+" || len(sum) != 2 {
		return false
	}
	k, _ := sum[0].(tree.Node)
	window, _ := sum[1].(tree.Node)
	same, _, ok := ranked(window)
	n, isNumber := r.Constant(k).(int64)
	return ok && isNumber && n >= 0 && tree.Equal(same, by)
}

// ranked reads rank() OVER (ORDER BY one expression).
func ranked(e tree.Node) (by tree.Node, descending, ok bool) {
	orders := tree.List(e, "orders")
	if tree.Str(e, "class") != "WINDOW" || strings.ToLower(tree.Str(e, "function_name")) != "rank" || len(orders) != 1 || len(tree.List(e, "partitions")) > 0 || e["filter_expr"] != nil ||
		len(tree.List(e, "arg_orders")) > 0 || tree.Str(e, "start") != "UNBOUNDED_PRECEDING" || tree.Str(e, "end") != "CURRENT_ROW_RANGE" || tree.Str(e, "exclude_clause") != "NO_OTHER" {
		return nil, false, false
	}
	o, _ := orders[0].(tree.Node)
	if tree.Str(o, "null_order") != "ORDER_DEFAULT" {
		return nil, false, false
	}
	return tree.Child(o, "expression"), tree.Str(o, "type") == "DESCENDING", tree.Child(o, "expression") != nil
}

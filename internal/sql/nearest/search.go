// Package nearest answers: which SELECT asks for the nearest rows, and to which vector?
//
// It reads ORDER BY distance LIMIT n, and distances that a condition bounds, off the syntax tree. What columns, constants and
// functions are the statement tells, by the functions of a Reader.
package nearest

import (
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/overlakedb/overlake/internal/declared"
	"github.com/overlakedb/overlake/internal/index/vector"
	"github.com/overlakedb/overlake/internal/overlay"
	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/sql/coltype"
	"github.com/overlakedb/overlake/internal/sql/tree"
	"github.com/overlakedb/overlake/internal/vec"
)

// Search is ORDER BY distance LIMIT n as a SELECT says it. Of a distance alone only the first three are told.
type Search struct {
	Column  string
	Metric  vec.Metric
	Queries []vector.Query // one, or those that the rows of an outer query have
	Rows    int64          // LIMIT and OFFSET
	Offset  int64
	Ties    bool // more follows in ORDER BY
	Nulls   bool // some row of an outer query has no vector
}

// Reader reads the SELECTs of a statement. All of its functions are needed.
type Reader struct {
	// Constant is the value of a literal or a parameter, nil for what is none.
	Constant func(n tree.Node) predicate.Value
	// Scalar tells whether a function makes one value of each row.
	Scalar func(function string) bool
	// Column is the column of the table that an expression is.
	Column func(n tree.Node) (arrow.Field, bool)
	// Aside evaluates argument i of a distance that is no constant, for a column of the form; nil when it cannot.
	Aside func(distance tree.Node, i int, arg tree.Node, form vector.Form) (*Values, error)
}

// Values are what an expression is: one vector, or those that it is in the rows of an outer query.
type Values struct {
	Queries []vector.Query
	Type    string // as the engine names it
	Nulls   bool   // it is NULL in some row
}

// distances are the functions by which rows can be ranked, as the engine knows them.
var distances = map[string]vec.Metric{
	"<->": vec.MetricL2, "l2_distance": vec.MetricL2, "vector_l2_distance": vec.MetricL2, "halfvec_l2_distance": vec.MetricL2, "vector_l2_squared_distance": vec.MetricL2, "halfvec_l2_squared_distance": vec.MetricL2,
	"sparsevec_l2_distance": vec.MetricL2, "sparsevec_l2_squared_distance": vec.MetricL2,
	coltype.NegativeDot: vec.MetricDot, "vector_negative_inner_product": vec.MetricDot, "halfvec_negative_inner_product": vec.MetricDot, "sparsevec_negative_inner_product": vec.MetricDot,
	"<=>": vec.MetricCosine, "cosine_distance": vec.MetricCosine, "vector_cosine_distance": vec.MetricCosine, "halfvec_cosine_distance": vec.MetricCosine, "sparsevec_cosine_distance": vec.MetricCosine,
	"<+>": vec.MetricL1, "l1_distance": vec.MetricL1, "vector_l1_distance": vec.MetricL1, "halfvec_l1_distance": vec.MetricL1, "sparsevec_l1_distance": vec.MetricL1,
	"<~>": vec.MetricHamming, "hamming_distance": vec.MetricHamming, "<%>": vec.MetricJaccard, "jaccard_distance": vec.MetricJaccard,
}

// Of reads ORDER BY distance LIMIT n of a SELECT that makes one row of each row; nil when it is not of these.
func (r *Reader) Of(n tree.Node) (*Search, error) {
	e, s, ok := r.First(n, false)
	if !ok {
		return nil, nil
	}
	d, err := r.Distance(e)
	if d == nil || err != nil {
		return nil, err
	}
	s.Column, s.Metric, s.Queries, s.Nulls = d.Column, d.Metric, d.Queries, d.Nulls
	return s, nil
}

// First reads ORDER BY expression LIMIT n of a SELECT that makes one row of each row: the first expression, ascending or
// descending, with NULL last, and of a Search how many rows are wanted.
func (r *Reader) First(n tree.Node, descending bool) (e tree.Node, s *Search, ok bool) {
	if len(tree.List(n, "group_expressions")) > 0 || len(tree.List(n, "group_sets")) > 0 || tree.Str(n, "aggregate_handling") != "STANDARD_HANDLING" || n["having"] != nil || n["qualify"] != nil {
		return nil, nil, false
	}
	var order, limit tree.Node
	for _, m := range tree.List(n, "modifiers") {
		m, _ := m.(tree.Node)
		switch tree.Str(m, "type") {
		case "ORDER_MODIFIER":
			order = m
		case "LIMIT_MODIFIER":
			limit = m
		default:
			return nil, nil, false
		}
	}
	orders := tree.List(order, "orders")
	if len(orders) == 0 || tree.Child(limit, "limit") == nil {
		return nil, nil, false
	}
	first, _ := orders[0].(tree.Node)
	if (tree.Str(first, "type") == "DESCENDING") != descending || tree.Str(first, "null_order") == "NULLS FIRST" {
		return nil, nil, false
	}
	items := tree.List(n, "select_list")
	e = tree.Child(first, "expression")
	switch tree.Str(e, "class") {
	case "COLUMN_REF": // by its heading
		names := tree.List(e, "column_names")
		name, _ := names[len(names)-1].(string)
		at := slices.IndexFunc(items, func(x any) bool {
			item, _ := x.(tree.Node)
			return strings.EqualFold(tree.Str(item, "alias"), name)
		})
		if at < 0 || len(names) != 1 {
			return nil, nil, false
		}
		e, _ = items[at].(tree.Node)
	case "CONSTANT": // by its place
		k, ok := r.Constant(e).(int64)
		if !ok || k < 1 || k > int64(len(items)) {
			return nil, nil, false
		}
		for _, item := range items[:k] {
			if x, _ := item.(tree.Node); tree.Str(x, "class") == "STAR" {
				return nil, nil, false
			}
		}
		e, _ = items[k-1].(tree.Node)
	}
	s = &Search{Ties: len(orders) > 1}
	for _, key := range []string{"limit", "offset"} {
		if e := tree.Child(limit, key); e != nil {
			k, ok := r.Constant(e).(int64)
			if !ok || k < 0 || k > 1<<31 {
				return nil, nil, false
			}
			s.Rows += k
			if key == "offset" {
				s.Offset = k
			}
		}
	}
	if s.Rows == 0 {
		return nil, nil, false
	}
	for _, o := range orders[1:] {
		x, _ := o.(tree.Node)
		items = append(slices.Clip(items), tree.Child(x, "expression"))
	}
	for _, item := range items {
		if x, _ := item.(tree.Node); !r.RowByRow(x) {
			return nil, nil, false
		}
	}
	return e, s, true
}

// Distance reads a distance of a column of the table and a vector that is the same for every row, or of several that an outer query
// has; nil when the expression is none.
func (r *Reader) Distance(e tree.Node) (*Search, error) {
	metric, ok := distances[strings.ToLower(tree.Str(e, "function_name"))]
	args := tree.List(e, "children")
	if tree.Str(e, "class") != "FUNCTION" || !ok || len(args) != 2 || tree.Str(e, "schema") != "" || e["filter"] != nil || e["distinct"] == true {
		return nil, nil
	}
	s := &Search{Metric: metric}
	at := 0
	var field arrow.Field
	for ; at < 2; at++ {
		col, _ := args[at].(tree.Node)
		if field, ok = r.Column(col); ok {
			break
		}
	}
	form, holds := overlay.FormOf(field)
	if !ok || !holds || metric.OfBits() != (form == vector.Bits) {
		return nil, nil
	}
	s.Column = field.Name
	other, _ := args[1-at].(tree.Node)
	typ := tree.Str(other, "function_name")
	if q, ok := r.vector(form, other); ok {
		s.Queries = []vector.Query{q}
	} else {
		v, err := r.Aside(e, 1-at, other, form)
		if v == nil || len(v.Queries) == 0 || err != nil {
			return nil, err
		}
		s.Queries, s.Nulls, typ = v.Queries, v.Nulls, v.Type
	}
	half := typ == "halfvec" || typ == coltype.CastFunction("halfvec") || strings.HasPrefix(strings.ToLower(tree.Str(e, "function_name")), "halfvec_")
	d, _ := declared.Of(field)
	for i := range s.Queries {
		if d.N > 0 && d.N != s.Queries[i].Dim() || half && d.Name != "halfvec" {
			return nil, nil // the engine tells; or floats become halves, which no index has
		}
		halve(field, &s.Queries[i])
	}
	return s, nil
}

// Same tells whether an expression is the distance by which rows are ranked, and not its square.
func (r *Reader) Same(e tree.Node, s *Search) bool {
	args := tree.List(e, "children")
	name := strings.ToLower(tree.Str(e, "function_name"))
	if metric, ok := distances[name]; !ok || metric != s.Metric || len(args) != 2 || tree.Str(e, "class") != "FUNCTION" || strings.Contains(name, "squared") || len(s.Queries) != 1 {
		return false
	}
	for i := range 2 {
		col, _ := args[i].(tree.Node)
		other, _ := args[1-i].(tree.Node)
		if f, ok := r.Column(col); ok && f.Name == s.Column {
			v, ok := r.vector(s.Queries[0].Form, other)
			halve(f, &v)
			return ok && v.Equal(&s.Queries[0])
		}
	}
	return false
}

// Bound reads a condition that something is below a constant: what, and the constant, as an element of a vector. ok is false for
// other conditions.
func (r *Reader) Bound(c tree.Node) (e tree.Node, most float32, ok bool) {
	e, bound := tree.Child(c, "left"), tree.Child(c, "right")
	switch tree.Str(c, "type") {
	case "COMPARE_LESSTHAN", "COMPARE_LESSTHANOREQUALTO":
	case "COMPARE_GREATERTHAN", "COMPARE_GREATERTHANOREQUALTO":
		e, bound = bound, e
	default:
		return nil, 0, false
	}
	most, ok = r.float(bound)
	return e, most, ok
}

// Squared tells whether a distance is given as its square.
func Squared(e tree.Node) bool { return strings.Contains(tree.Str(e, "function_name"), "squared") }

// RowByRow tells whether an expression of a select list makes one value of each row, whatever other rows are.
func (r *Reader) RowByRow(n tree.Node) bool {
	switch tree.Str(n, "class") {
	case "SUBQUERY", "CONSTANT", "PARAMETER", "COLUMN_REF":
		return true
	case "STAR":
		return tree.RowByRow(n)
	case "FUNCTION":
		if op, _ := n["is_operator"].(bool); !op && !r.Scalar(tree.Str(n, "function_name")) {
			return false
		}
	case "CAST", "OPERATOR", "COMPARISON", "CONJUNCTION", "BETWEEN", "CASE":
	default:
		return false
	}
	every := true
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				walk(x)
			}
		case tree.Node:
			if _, is := v["class"]; is {
				every = every && r.RowByRow(v)
				return
			}
			for _, x := range v {
				walk(x)
			}
		}
	}
	for key, v := range n {
		if key != "cast_type" {
			walk(v)
		}
	}
	return every
}

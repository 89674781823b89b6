package sql

import (
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/datafile"
	"github.com/overlakedb/overlake/internal/engine"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/row"
	"github.com/overlakedb/overlake/internal/search"
	"github.com/overlakedb/overlake/internal/sql/coltype"
	"github.com/overlakedb/overlake/internal/sql/tree"
)

// Queries of one table that an index answers without looking at all the rows. The statement stays as it is; in the table's
// place come fewer rows that make the same answer:
//
//   - SELECT with count(*), count(c), min(c) and max(c) alone, where WHERE is understood to the end: a row with the least
//     value, one with the greatest, and one of these as often as the count needs.
//   - ORDER BY c LIMIT n: the rows that come first, with all ties of the last.
//   - SELECT DISTINCT c, GROUP BY c without aggregates, count(DISTINCT c): one row for each different value.

// indexOnly gives an expression for FROM, or "" when the query is not of these or the indexes cannot tell. The table's
// filter is all that WHERE says.
func (q *statement) indexOnly(n node, s *source) (string, error) {
	filter := s.filter
	if len(tree.List(s.node, "column_name_alias")) > 0 || tree.Str(n, "aggregate_handling") != "STANDARD_HANDLING" || n["qualify"] != nil {
		return "", nil
	}
	grouped := len(tree.List(n, "group_expressions")) > 0 || len(tree.List(n, "group_sets")) > 0 || n["having"] != nil
	opts, err := q.hint()
	if err != nil || opts.Hint == search.NoIndex || opts.Only != "" {
		return "", err
	}
	var column, field string
	var counts, summary bool
	var top *search.TopRequest
	if !grouped {
		column, counts, summary = summarized(n, s)
	}
	different := ""
	if !summary {
		if different = distinctOf(n, s); different == "" && !grouped {
			top, field = topOf(n, s)
		}
		if different == "" && top == nil {
			return "", nil
		}
	} else if column == "" && filter == nil {
		return "", nil // the engine takes it from the footers
	}
	v, err := q.view(s.base, s.ref)
	if v == nil || err != nil {
		return "", err
	}
	plan, err := q.plan(s)
	if err != nil || len(plan.Files) == 0 {
		return "", err
	}
	bound, err := s.base.Bind(s.ref, filter)
	if err != nil {
		return "", err
	}
	if filter != nil && bound.Op == predicate.BoundAll {
		return "", nil // no key for a constant
	}
	idOf := func(name string) int {
		at := slices.IndexFunc(plan.Schema.Fields(), func(f arrow.Field) bool { return f.Name == name })
		if at < 0 {
			return -1
		}
		return datafile.FieldID(plan.Schema.Field(at))
	}
	info := scanInfo{id: s.base.Ident(), plan: plan, via: "answered by the index"}
	if filter != nil {
		info.filter = filter.String()
	}
	if !summary {
		var a *search.Access
		var ok bool
		if different != "" {
			info.via = "a row for each value in the index"
			a, ok, err = search.Distinct(q.ctx, plan, bound, v, idOf(different), opts.Hint)
		} else {
			info.via = "the first rows in the order of the index"
			top.Field = idOf(field)
			a, ok, err = search.Top(q.ctx, plan, bound, v, *top)
		}
		if err != nil || !ok {
			return "", err
		}
		info.access = a
		q.scans = append(q.scans, info)
		if len(a.Fetch) == 0 {
			return coltype.Empty(plan.Schema)
		}
		sql, err := q.fetch(s.base, s.ref, plan, a)
		return "(" + sql + ")", err
	}
	id := 0
	if column != "" {
		id = idOf(column)
	}
	sum, ok, err := search.Summarize(q.ctx, plan, bound, v, id)
	if err != nil || !ok {
		return "", err
	}
	if !counts && column != "" { // the ends alone are enough
		sum.Rows, sum.Nulls = min(sum.Rows-sum.Nulls, 2), 0
	}
	info.access = &search.Access{Used: sum.Used, Covered: len(plan.Files), Rows: sum.Rows}
	q.scans = append(q.scans, info)
	if sum.Rows == 0 {
		return coltype.Empty(plan.Schema)
	}
	from, release, err := q.s.env.engine.NewColumnFeed(plan.Schema, sum.Rows, func(columns []int) (array.RecordReader, error) {
		return q.summaryRows(s.base, s.ref, plan, sum, columns)
	})
	if err != nil {
		return "", err
	}
	q.release = append(q.release, release)
	return "(" + coltype.Fed(plan.Schema, from) + ")", nil
}

// summarized tells whether all that a SELECT asks of the table are count(*), and count, min and max of one column, which it
// names; "" when it is count(*) alone. counts tells that it is not min and max alone.
func summarized(n node, s *source) (column string, counts, ok bool) {
	seen := false
	var safe func(v any) bool
	safe = func(v any) bool {
		switch v := v.(type) {
		case []any:
			return !slices.ContainsFunc(v, func(x any) bool { return !safe(x) })
		case node:
			switch tree.Str(v, "class") {
			case "COLUMN_REF", "STAR", "SUBQUERY", "WINDOW", "PARAMETER", "POSITIONAL_REFERENCE", "LAMBDA":
				return false
			case "FUNCTION":
				name := strings.ToLower(tree.Str(v, "function_name"))
				if name != "count" && name != "count_star" && name != "min" && name != "max" {
					// A function of aggregates; one of rows would name a column. Others may count or order rows.
					if op, _ := v["is_operator"].(bool); !op {
						return false
					}
					return safe(v["children"])
				}
				args := tree.List(v, "children")
				if v["filter"] != nil || v["distinct"] == true && name == "count" || len(tree.List(tree.Child(v, "order_bys"), "orders")) > 0 || tree.Str(v, "schema") != "" {
					return false
				}
				seen = true
				counts = counts || name == "count" || name == "count_star"
				if name == "count_star" || name == "count" && len(args) == 0 {
					return len(args) == 0
				}
				if len(args) != 1 {
					return false
				}
				arg, _ := args[0].(node)
				c, ok := onlyColumn(arg, s)
				if !ok || column != "" && column != c {
					return false
				}
				column = c
				return true
			}
			for _, x := range v {
				switch x.(type) {
				case node, []any:
					if !safe(x) {
						return false
					}
				}
			}
		}
		return true
	}
	if !safe(n["select_list"]) || !safe(n["modifiers"]) || !seen {
		return "", false, false
	}
	return column, counts, true
}

// distinctOf gives the column of the table that is all that a SELECT asks for, when the answer depends on which values there are
// in it and not on how often: DISTINCT, GROUP BY, and aggregates for which that holds. Else "".
func distinctOf(n node, s *source) string {
	column, aggregates, distinct := "", false, len(tree.List(n, "group_expressions")) > 0
	inside := 0     // of expressions
	within := false // some names the column
	headings := map[string]bool{}
	for _, item := range tree.List(n, "select_list") {
		x, _ := item.(node)
		headings[strings.ToLower(tree.Str(x, "alias"))] = true
	}
	ofColumn := func(x node) bool {
		c, ok := onlyColumn(x, s)
		if !ok || column != "" && column != c {
			return false
		}
		column = c
		within = within || inside > 0
		return true
	}
	var safe func(v any) bool
	all := func(list []any) bool {
		return !slices.ContainsFunc(list, func(x any) bool { return !safe(x) })
	}
	safe = func(v any) bool {
		x, _ := v.(node)
		if tree.Str(x, "class") != "COLUMN_REF" {
			inside++
			defer func() { inside-- }()
		}
		switch tree.Str(x, "class") {
		case "CONSTANT":
			return true
		case "COLUMN_REF":
			// What the select list makes may be named too; where a column has the same name, either may be meant.
			if names := tree.List(x, "column_names"); len(names) == 1 {
				name, _ := names[0].(string)
				if src, _ := s.column(name, 0); src == nil && headings[strings.ToLower(name)] {
					return true
				}
			}
			return ofColumn(x)
		case "CAST":
			return safe(x["child"])
		case "BETWEEN":
			return safe(x["input"]) && safe(x["lower"]) && safe(x["upper"])
		case "COMPARISON":
			return safe(x["left"]) && safe(x["right"])
		case "CONJUNCTION":
			return all(tree.List(x, "children"))
		case "OPERATOR":
			if t := tree.Str(x, "type"); t != "OPERATOR_IS_NULL" && t != "OPERATOR_IS_NOT_NULL" && t != "OPERATOR_NOT" && t != "OPERATOR_COALESCE" {
				return false
			}
			return all(tree.List(x, "children"))
		case "FUNCTION":
			args := tree.List(x, "children")
			if op, _ := x["is_operator"].(bool); op {
				return all(args)
			}
			name := strings.ToLower(tree.Str(x, "function_name"))
			if name != "min" && name != "max" && (name != "count" || x["distinct"] != true) || len(args) != 1 || x["filter"] != nil ||
				len(tree.List(tree.Child(x, "order_bys"), "orders")) > 0 || tree.Str(x, "schema") != "" {
				return false
			}
			arg, _ := args[0].(node)
			aggregates = true
			was := inside
			inside = 0 // it is the value itself that counts
			defer func() { inside = was }()
			return ofColumn(arg)
		}
		return false
	}
	for _, m := range tree.List(n, "modifiers") {
		m, _ := m.(node)
		if tree.Str(m, "type") == "DISTINCT_MODIFIER" {
			if len(tree.List(m, "distinct_on_targets")) > 0 {
				return ""
			}
			distinct = true
		}
	}
	if sets := tree.List(n, "group_sets"); len(sets) > 1 {
		return ""
	}
	if !all(tree.List(n, "group_expressions")) || !all(tree.List(n, "select_list")) ||
		n["having"] != nil && !safe(n["having"]) || !distinct && !aggregates {
		return ""
	}
	for _, m := range tree.List(n, "modifiers") {
		m, _ := m.(node)
		switch tree.Str(m, "type") {
		case "DISTINCT_MODIFIER":
		case "ORDER_MODIFIER":
			for _, o := range tree.List(m, "orders") {
				o, _ := o.(node)
				if !safe(o["expression"]) {
					return ""
				}
			}
		case "LIMIT_MODIFIER":
			for _, key := range []string{"limit", "offset"} {
				if e := tree.Child(m, key); e != nil && tree.Str(e, "class") != "CONSTANT" {
					return ""
				}
			}
		default:
			return ""
		}
	}
	// 0 and -0 are one value, but not as texts.
	if within && s.floats(column) {
		return ""
	}
	return column
}

// floats tells whether a column of the table is of floating-point numbers.
func (s *source) floats(column string) bool {
	sc, err := s.base.SchemaAt(s.ref)
	if err != nil {
		return true
	}
	return slices.ContainsFunc(sc.Fields(), func(f arrow.Field) bool {
		return f.Name == column && (f.Type.ID() == arrow.FLOAT32 || f.Type.ID() == arrow.FLOAT64)
	})
}

// onlyColumn is the column of the table that an expression is.
func onlyColumn(n node, s *source) (string, bool) {
	if tree.Str(n, "class") != "COLUMN_REF" {
		return "", false
	}
	names := tree.List(n, "column_names")
	if len(names) == 0 || len(names) > 2 {
		return "", false
	}
	if len(names) == 2 {
		if t, _ := names[0].(string); !strings.EqualFold(t, s.name) {
			return "", false
		}
	}
	name, _ := names[len(names)-1].(string)
	return s.heldColumn(name)
}

// topOf reads ORDER BY column LIMIT n of a SELECT that makes one row of each row.
func topOf(n node, s *source) (r *search.TopRequest, column string) {
	var order, limit node
	for _, m := range tree.List(n, "modifiers") {
		m, _ := m.(node)
		switch tree.Str(m, "type") {
		case "ORDER_MODIFIER":
			order = m
		case "LIMIT_MODIFIER":
			limit = m
		default:
			return nil, ""
		}
	}
	orders := tree.List(order, "orders")
	if len(orders) == 0 || limit == nil {
		return nil, ""
	}
	first, _ := orders[0].(node)
	column, ok := onlyColumn(tree.Child(first, "expression"), s)
	if !ok {
		return nil, ""
	}
	r = &search.TopRequest{Descending: tree.Str(first, "type") == "DESCENDING", NullsFirst: tree.Str(first, "null_order") == "NULLS FIRST"}
	for _, key := range []string{"limit", "offset"} {
		e := tree.Child(limit, key)
		if e == nil {
			continue
		}
		k, ok := wholeNumber(e)
		if !ok {
			return nil, ""
		}
		r.Rows += k
	}
	if tree.Child(limit, "limit") == nil || r.Rows <= 0 {
		return nil, ""
	}
	for _, item := range tree.List(n, "select_list") {
		x, _ := item.(node)
		if !tree.RowByRow(x) {
			return nil, ""
		}
		// A heading goes before a column in ORDER BY.
		if strings.EqualFold(tree.Str(x, "alias"), column) {
			if c, same := onlyColumn(x, s); !same || c != column {
				return nil, ""
			}
		}
	}
	return r, column
}

func wholeNumber(n node) (int64, bool) {
	if tree.Str(n, "class") != "CONSTANT" {
		return 0, false
	}
	q := &statement{}
	k, ok := q.constant(n).(int64)
	return k, ok && k >= 0 && k < 1<<31
}

// summaryRows fetches the rows that a summary names and repeats them.
func (q *statement) summaryRows(t *lake.Table, ref lake.Ref, plan *lake.Plan, sum search.Summary, columns []int) (array.RecordReader, error) {
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		fields[i] = plan.Schema.Field(c)
	}
	r := engine.NewRepeated(arrow.NewSchema(fields, nil))
	add := func(p search.Place, times int64) error {
		if times <= 0 {
			return nil
		}
		if len(columns) == 0 { // rows alone count
			return r.Add(q.ctx, array.NewRecordBatch(r.Schema(), nil, 1), times)
		}
		rows := t.FetchRows(q.ctx, plan, ref, []lake.FileRows{{File: p.File, Rows: row.BitmapOf(p.Pos)}}, columns)
		defer rows.Release()
		if !rows.Next() {
			return errs.Wrap(errs.Internal, "sql.summary", rows.Err())
		}
		return r.Add(q.ctx, rows.RecordBatch(), times)
	}
	var err error
	values := sum.Rows - sum.Nulls
	switch {
	case !sum.Ends:
		err = add(sum.Any, sum.Rows)
	case values == 1:
		err = add(sum.Least, 1)
	case values > 1:
		if err = add(sum.Least, values-1); err == nil {
			err = add(sum.Greatest, 1)
		}
	}
	if sum.Ends && err == nil {
		err = add(sum.Null, sum.Nulls)
	}
	if err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

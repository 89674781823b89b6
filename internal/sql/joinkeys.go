package sql

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/datafile"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/search"
	"github.com/overlakedb/overlake/internal/sql/coltype"
	"github.com/overlakedb/overlake/internal/sql/condition"
	"github.com/overlakedb/overlake/internal/sql/lex"
	"github.com/overlakedb/overlake/internal/sql/tree"
)

// Joins of a large indexed table to few keys. What an inner join or IN (SELECT …) compares an indexed column with is looked
// at first; when the values are few, they are a filter of the large table, and the index fetches its rows. The join itself
// stays in the statement: the values may be more than those that take part.

const (
	joinKeys    = 10_000  // more values than these are no filter
	joinSmall   = 500_000 // rows of the table that the values come from
	joinLarge   = 50_000  // rows of the table that they are a filter of
	joinPortion = 20      // the first is at most such a part of the second
)

// joinFilter gives a filter of a table by the values that its indexed columns are compared with; nil without any.
func (r *resolver) joinFilter(n node, s *source, sc *scope) (predicate.Expr, error) {
	opts, err := r.q.hint()
	if err != nil || opts.Hint == search.NoIndex {
		return nil, err
	}
	pairs := equalities(n, sc)
	if len(pairs) == 0 {
		return nil, nil
	}
	v, err := r.q.view(s.base, s.ref)
	if v == nil || err != nil {
		return nil, err
	}
	indexed := func(column string) (arrow.DataType, bool) {
		sch, err := s.base.SchemaAt(s.ref)
		if err != nil {
			return nil, false
		}
		at := slices.IndexFunc(sch.Fields(), func(f arrow.Field) bool { return f.Name == column })
		if at < 0 {
			return nil, false
		}
		for _, x := range v.Indexes() {
			if x.Columns[0] == datafile.FieldID(sch.Field(at)) {
				return sch.Field(at).Type, true
			}
		}
		return nil, false
	}
	var out predicate.Expr
	var rows int64 = -1
	for _, p := range pairs {
		mine, ok := p.column(s, sc)
		if !ok {
			continue
		}
		typ, ok := indexed(mine)
		if !ok {
			continue
		}
		if rows < 0 {
			plan, err := r.q.plan(s)
			if err != nil {
				return nil, err
			}
			if rows = plan.Rows; rows < joinLarge {
				return nil, nil
			}
		}
		values, ok, err := p.values(r.q, s, sc, rows, typ)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		r.q.notes = append(r.q.notes, fmt.Sprintf("join: %d values filter %s.%s", len(values), s.id, mine))
		out = predicate.Conjoin(out, predicate.In{Column: mine, Values: values})
	}
	if _, nothing := out.(predicate.True); nothing {
		return nil, nil
	}
	return out, nil
}

// equality says that two expressions are equal in every row of the answer: two columns, or a column and the result of a
// subquery.
type equality struct {
	a, b     node
	subquery node
}

// equalities are those of the inner joins and the WHERE clause of a SELECT.
func equalities(n node, sc *scope) []equality {
	var out []equality
	condition := func(c node) {
		for _, e := range tree.Conjuncts(c) {
			switch {
			case tree.Str(e, "type") == "COMPARE_EQUAL" && tree.Str(tree.Child(e, "left"), "class") == "COLUMN_REF" && tree.Str(tree.Child(e, "right"), "class") == "COLUMN_REF":
				out = append(out, equality{a: tree.Child(e, "left"), b: tree.Child(e, "right")})
			case tree.Str(e, "class") == "SUBQUERY" && tree.Str(e, "subquery_type") == "ANY" && tree.Str(e, "comparison_type") == "COMPARE_EQUAL" && tree.Str(tree.Child(e, "child"), "class") == "COLUMN_REF":
				out = append(out, equality{a: tree.Child(e, "child"), subquery: tree.Child(tree.Child(e, "subquery"), "node")})
			}
		}
	}
	inner := true
	var from func(n node)
	from = func(n node) {
		if tree.Str(n, "type") != "JOIN" {
			return
		}
		if t := tree.Str(n, "join_type"); t != "INNER" || tree.Str(n, "ref_type") != "REGULAR" && tree.Str(n, "ref_type") != "CROSS" {
			inner = false
		}
		if c := tree.Child(n, "condition"); c != nil {
			condition(c)
		}
		for _, u := range tree.List(n, "using_columns") {
			// The same name on both sides.
			if name, _ := u.(string); name != "" && len(sc.sources) == 2 {
				out = append(out, equality{a: columnRef(sc.sources[0].name, name), b: columnRef(sc.sources[1].name, name)})
			}
		}
		from(tree.Child(n, "left"))
		from(tree.Child(n, "right"))
	}
	from(tree.Child(n, "from_table"))
	if !inner {
		out = nil // rows that match nothing come back as NULLs
	}
	if w := tree.Child(n, "where_clause"); w != nil && inner {
		condition(w)
	}
	return out
}

func columnRef(table, column string) node {
	return node{"class": "COLUMN_REF", "column_names": []any{table, column}}
}

// column is the column of the table on one side of the equality, which is then side a.
func (p *equality) column(s *source, sc *scope) (string, bool) {
	u := &pusher{s: s, sc: sc}
	if c, ok := u.column(p.a); ok {
		return c, true
	}
	if p.b != nil {
		if c, ok := u.column(p.b); ok {
			p.a, p.b = p.b, p.a
			return c, true
		}
	}
	return "", false
}

// values are those of the other side, perhaps more, for a column of a type; ok is false when they are not known to be few.
func (p *equality) values(q *statement, s *source, sc *scope, rows int64, typ arrow.DataType) (out []predicate.Value, ok bool, err error) {
	var src *source
	var column string
	if p.subquery != nil {
		inner, _ := p.subquery[scopeKey].(*scope)
		items := tree.List(p.subquery, "select_list")
		if inner == nil || len(items) != 1 || tree.Str(p.subquery, "type") != "SELECT_NODE" {
			return nil, false, nil
		}
		item, _ := items[0].(node)
		if tree.Str(item, "class") != "COLUMN_REF" {
			return nil, false, nil
		}
		src, column = find(item, &scope{sources: inner.sources})
	} else {
		if out, ok := q.listed(p.b, sc); ok {
			return out, true, nil
		}
		src, column = find(p.b, &scope{sources: sc.sources})
	}
	if src == nil || src == s || src.base == nil {
		return nil, false, nil
	}
	plan, err := q.plan(src)
	if err != nil || plan.Rows > joinSmall || plan.Rows > rows/joinPortion {
		return nil, false, err
	}
	return q.distinct(src, column, typ)
}

// listed are the values of a column of a VALUES list.
func (q *statement) listed(col node, sc *scope) ([]predicate.Value, bool) {
	names := tree.List(col, "column_names")
	if len(names) == 0 || len(names) > 2 {
		return nil, false
	}
	name, _ := names[len(names)-1].(string)
	for _, o := range sc.sources {
		if len(names) == 2 {
			if t, _ := names[0].(string); !strings.EqualFold(t, o.name) {
				continue
			}
		}
		values := tree.Child(o.query, "from_table")
		if tree.Str(values, "type") != "EXPRESSION_LIST" {
			continue
		}
		at := slices.IndexFunc(tree.List(o.node, "column_name_alias"), func(a any) bool {
			s, _ := a.(string)
			return strings.EqualFold(s, name)
		})
		if items := tree.List(o.query, "select_list"); at < 0 || len(items) != 1 || o.query["where_clause"] != nil {
			continue
		} else if star, _ := items[0].(node); tree.Str(star, "class") != "STAR" || star["expr"] != nil || star["columns"] == true {
			continue
		}
		var out []predicate.Value
		for _, row := range tree.List(values, "values") {
			cells, _ := row.([]any)
			if at >= len(cells) || len(out) > joinKeys {
				return nil, false
			}
			cell, _ := cells[at].(node)
			if v := tree.Child(cell, "value"); tree.Str(cell, "class") == "CONSTANT" && v["is_null"] == true {
				continue // equal to nothing
			}
			v := q.constant(cell)
			if v == nil {
				return nil, false
			}
			out = append(out, v)
		}
		return out, true
	}
	return nil, false
}

// wholeDigits is how many digits the engine keeps before the point, and behind it, for the values of a type that it compares
// with decimals; false for other types.
func wholeDigits(t arrow.DataType) (whole, scale int32, ok bool) {
	switch t := t.(type) {
	case *arrow.Int32Type:
		return 10, 0, true
	case *arrow.Int64Type:
		return 19, 0, true
	case *arrow.Decimal128Type:
		return t.Precision - t.Scale, t.Scale, true
	}
	return 0, 0, false
}

// unrounded tells whether two columns are compared as they are. Decimals get a type that holds both, of at most 38 digits:
// beyond, the engine rounds.
func unrounded(a, b arrow.DataType) bool {
	if a.ID() != arrow.DECIMAL128 && b.ID() != arrow.DECIMAL128 {
		return true
	}
	aWhole, aScale, aOK := wholeDigits(a)
	bWhole, bScale, bOK := wholeDigits(b)
	return aOK && bOK && max(aWhole, bWhole)+max(aScale, bScale) <= 38
}

// distinct asks the engine for the values of a column under the filter of its table, to compare with a column of another
// type perhaps.
func (q *statement) distinct(s *source, column string, other arrow.DataType) (out []predicate.Value, ok bool, err error) {
	sch, err := s.base.SchemaAt(s.ref)
	if err != nil {
		return nil, false, err
	}
	at := slices.IndexFunc(sch.Fields(), func(f arrow.Field) bool { return f.Name == column })
	typ := ""
	if !unrounded(sch.Field(at).Type, other) {
		return nil, false, nil
	}
	switch t := sch.Field(at).Type.(type) {
	case *arrow.Int32Type, *arrow.Int64Type, *arrow.StringType:
	case *arrow.Date32Type:
		typ = "date"
	case *arrow.Time64Type:
		typ = "time"
	case *arrow.Decimal128Type:
		typ = "decimal"
	case *arrow.TimestampType:
		if typ = "timestamp"; t.TimeZone != "" {
			typ = "timestamptz"
		}
	default:
		if v, _ := sch.Field(at).Metadata.GetValue(coltype.IcebergType); v != "uuid" {
			return nil, false, nil
		}
		typ = "uuid"
	}
	// A statement of its own, over the same versions of the tables.
	aside := &statement{s: q.s, ctx: q.ctx, tables: q.tables, views: q.views, hinted: q.hinted}
	defer aside.close()
	plan, err := q.plan(s)
	if err != nil {
		return nil, false, err
	}
	one := *s
	one.used = 1
	scan, err := aside.scan(&one, plan, s.filter)
	if err != nil {
		return nil, false, err
	}
	c := lex.QuoteIdent(column)
	value := c
	if typ != "" {
		value += "::VARCHAR"
	}
	where := c + " IS NOT NULL"
	if s.filter != nil {
		if text := condition.Text(s.filter, ""); text != "" {
			where += " AND " + text
		}
	}
	rows, err := q.s.env.engine.Query(q.ctx, fmt.Sprintf("SELECT DISTINCT %s FROM %s WHERE %s LIMIT %d", value, scan, where, joinKeys+1), aside.args...)
	if err != nil {
		if errs.Is(err, errs.Canceled) {
			return nil, false, err
		}
		return nil, false, nil // the statement itself will tell, if it fails too
	}
	defer rows.Close()
	for rows.Next() {
		switch a := rows.Record().Column(0).(type) {
		case *array.Int32:
			for _, v := range a.Int32Values() {
				out = append(out, int64(v))
			}
		case *array.Int64:
			for _, v := range a.Int64Values() {
				out = append(out, v)
			}
		case *array.String:
			for i := range a.Len() {
				if v := strings.Clone(a.Value(i)); typ == "" {
					out = append(out, v)
				} else {
					out = append(out, predicate.Typed{Type: typ, Text: v})
				}
			}
		default:
			return nil, false, nil
		}
	}
	if err := rows.Err(); err != nil {
		return nil, false, err
	}
	return out, len(out) <= joinKeys, nil
}

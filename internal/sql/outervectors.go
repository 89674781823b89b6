package sql

import (
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/index/vector"
	"github.com/overlakedb/overlake/internal/sql/condition"
	"github.com/overlakedb/overlake/internal/sql/lex"
	"github.com/overlakedb/overlake/internal/sql/nearest"
	"github.com/overlakedb/overlake/internal/sql/tree"
)

// The vector to search for may be a column of an outer query: FROM q, LATERAL (SELECT … FROM t ORDER BY t.v <-> q.v LIMIT 3).
// The engine is asked for the vectors that the column has, before the statement runs, and the index for the rows that are near
// to one of them. These take the table's place: for each row of the outer query its own nearest rows are among them, and the
// engine finds out which.

// mostOuter bounds the vectors of an outer query; with more of them the table is scanned.
const mostOuter = 1000

// outerVectors are those of a column of the outer query, for a column of the form; nil when the expression is no such column, or
// when its vectors are not known to be few.
func (r *resolver) outerVectors(col node, s *source, sc *scope, form vector.Form) (*nearest.Values, error) {
	names := tree.List(col, "column_names")
	out := sc.outer
	if out == nil || len(names) == 0 || len(names) > 2 {
		return nil, nil
	}
	name, _ := names[len(names)-1].(string)
	table, _ := names[0].(string)
	has := func(o *source) bool {
		if len(names) == 2 {
			return strings.EqualFold(o.name, table)
		}
		return o.mayHave(name)
	}
	if slices.ContainsFunc(sc.sources, has) || !slices.ContainsFunc(out.sources, has) || r.q.restless(out.node["from_table"]) {
		return nil, nil
	}
	lo, hi, ok := lex.OuterFrom(r.tokens, r.token(tree.Location(s.node)))
	if !ok {
		return nil, nil
	}
	from := r.text[lo:hi]
	with, ok := r.asideWith(lo, out, from)
	if !ok {
		return nil, nil
	}
	// What WHERE says of the tables of the outer query leaves fewer vectors.
	where := ""
	for _, o := range out.sources {
		if o.base == nil || !prunable(out.node, o, out) || len(tree.List(o.node, "column_name_alias")) > 0 {
			continue
		}
		if e, _ := pushdown(r.q, tree.Child(out.node, "where_clause"), o, out, true); e != nil {
			if text := condition.Text(e, o.name); text != "" {
				where += " AND " + text
			}
		}
	}
	c := lex.QuoteIdent(name)
	if len(names) == 2 {
		c = lex.QuoteIdent(table) + "." + c
	}
	value := "x"
	if form != vector.Dense {
		value = "CAST(x AS VARCHAR)"
	}
	rows, done, err := r.q.ask(with+"SELECT "+value+", typeof(x) FROM (SELECT DISTINCT "+c+" AS x "+from+" WHERE true"+where+") LIMIT "+strconv.Itoa(mostOuter+1), nil)
	if rows == nil || err != nil {
		return nil, err
	}
	defer done()
	v := &nearest.Values{}
	for rows.Next() {
		rec := rows.Record()
		kind, _ := rec.Column(1).(*array.String)
		if kind == nil {
			return nil, nil
		}
		for i := range int(rec.NumRows()) {
			if rec.Column(0).IsNull(i) {
				v.Nulls = true
				continue
			}
			v.Type = strings.Clone(kind.Value(i))
			q, _ := valueAside(rec.Column(0), i, v.Type, form)
			if q == nil || len(v.Queries) == mostOuter {
				return nil, nil
			}
			v.Queries = append(v.Queries, *q)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, canceled(err)
	}
	return v, nil
}

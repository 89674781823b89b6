package sql

import (
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/index/vector"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/search"
	"github.com/overlakedb/overlake/internal/sql/coltype"
	"github.com/overlakedb/overlake/internal/sql/nearest"
	"github.com/overlakedb/overlake/internal/sql/tree"
)

// The plainest search needs no engine: SELECT of columns of one table and their distance, ORDER BY the distance, LIMIT,
// where indexes of vectors cover all files and it is known which rows WHERE leaves. The rows are sorted as they are fetched;
// what comes out is what the engine would give.

// everyColumn tells whether an item of a select list is the columns of a table as they are.
func everyColumn(star node, s *source) bool {
	for _, key := range []string{"exclude_list", "qualified_exclude_list", "replace_list", "rename_list"} {
		if len(tree.List(star, key)) > 0 {
			return false
		}
	}
	relation := tree.Str(star, "relation_name")
	return star["columns"] != true && star["expr"] == nil && tree.Str(star, "alias") == "" && (relation == "" || strings.EqualFold(relation, s.name)) && len(tree.List(s.node, "column_name_alias")) == 0
}

// directly answers the statement, if it is as plain as that; otherwise it leaves it to the engine.
func (r *resolver) directly(n node, s *source, sc *scope, plan *lake.Plan, nq *nearest.Search, a *search.Access) error {
	q := r.q
	if !q.plain || q.asked > 0 || n[rootKey] == nil || len(sc.sources) != 1 || sc.outer != nil || len(tree.List(tree.Child(n, "cte_map"), "map")) > 0 || nq.Ties || len(nq.Queries) > 1 || nq.Queries[0].Form != vector.Dense || len(a.Scan) > 0 {
		return nil
	}
	p, rd := &pusher{q: q, s: s, sc: sc}, r.reader(s, sc)
	var columns []int // of the plan's schema; -1: the distance
	var fields []arrow.Field
	for _, item := range tree.List(n, "select_list") {
		x, _ := item.(node)
		heading := tree.Str(x, "alias")
		if tree.Str(x, "class") == "STAR" {
			if !everyColumn(x, s) {
				return nil
			}
			for at, f := range plan.Schema.Fields() {
				if !coltype.Plain(f) {
					return nil
				}
				columns = append(columns, at)
				fields = append(fields, coltype.PlainField(f.Name, f))
			}
			continue
		}
		if name, ok := p.column(x); ok {
			at := slices.IndexFunc(plan.Schema.Fields(), func(f arrow.Field) bool { return f.Name == name })
			names := tree.List(x, "column_names")
			if last, _ := names[len(names)-1].(string); heading == "" && last == name {
				heading = name
			}
			if at < 0 || heading == "" || !coltype.Plain(plan.Schema.Field(at)) {
				return nil
			}
			columns = append(columns, at)
			fields = append(fields, coltype.PlainField(heading, plan.Schema.Field(at)))
			continue
		}
		if heading == "" || !rd.Same(x, nq) {
			return nil
		}
		columns = append(columns, -1)
		fields = append(fields, arrow.Field{Name: heading, Type: arrow.PrimitiveTypes.Float64, Nullable: true})
	}
	var fetched []int
	for _, c := range columns {
		if c >= 0 {
			fetched = append(fetched, c)
		}
	}
	at := slices.IndexFunc(plan.Schema.Fields(), func(f arrow.Field) bool { return f.Name == nq.Column })
	cols, distances, err := search.Ranked(q.ctx, s.base, s.ref, plan, a, search.Order{Column: at, Metric: nq.Metric, Query: nq.Queries[0].Floats, Offset: nq.Offset, Limit: nq.Rows - nq.Offset}, fetched)
	if err != nil {
		return canceled(err) // the engine tells better
	}
	out := make([]arrow.Array, len(columns))
	for i, c := range columns {
		if c >= 0 {
			out[i], cols = coltype.PlainArray(cols[0], fields[i]), cols[1:]
			continue
		}
		b := array.NewFloat64Builder(memory.DefaultAllocator)
		b.AppendValues(distances, nil)
		out[i] = b.NewArray()
		b.Release()
	}
	schema := arrow.NewSchema(fields, nil)
	rec := array.NewRecordBatch(schema, out, int64(len(distances)))
	for _, c := range out {
		c.Release()
	}
	if rec.NumRows() == 0 {
		rec.Release()
		q.answer = newBatches(schema)
		return nil
	}
	q.answer = newBatches(schema, rec)
	return nil
}

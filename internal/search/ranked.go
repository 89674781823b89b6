package search

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/vec"
)

// Order says how fetched rows are ranked.
type Order struct {
	Column int // place in the plan's schema of the column of vectors
	Metric vec.Metric
	Query  []float32
	Offset int64
	Limit  int64
}

// Ranked fetches the rows of an access that scans nothing, and gives those from Offset on, Limit of them, by their distance
// to the query as the engine computes it: the columns at the places given of the plan's schema, and the distances. Rows
// without a vector have no distance and are left out. The arrays are to be released.
func Ranked(ctx context.Context, t *lake.Table, ref lake.Ref, plan *lake.Plan, a *Access, o Order, columns []int) (cols []arrow.Array, distances []float64, err error) {
	if len(a.Scan) > 0 {
		return nil, nil, errs.New(errs.Internal, "search.ranked", "some files are scanned")
	}
	// Each column once, however often it is named.
	var fetched []int
	place := func(column int) int {
		at := slices.Index(fetched, column)
		if at < 0 {
			at, fetched = len(fetched), append(fetched, column)
		}
		return at
	}
	from := make([]int, len(columns))
	for i, c := range columns {
		from[i] = place(c)
	}
	vectors := place(o.Column)
	r := t.FetchRows(ctx, plan, ref, a.Fetch, fetched)
	defer r.Release()
	parts := make([][]arrow.Array, len(columns))
	defer func() {
		for _, p := range parts {
			for _, x := range p {
				x.Release()
			}
		}
	}()
	type rank struct {
		row      int
		distance float64
	}
	var order []rank
	rows := 0
	for r.Next() {
		rec := r.RecordBatch()
		for i := range columns {
			c := rec.Column(from[i])
			c.Retain()
			parts[i] = append(parts[i], c)
		}
		list, ok := rec.Column(vectors).(array.ListLike)
		if !ok {
			return nil, nil, errs.Newf(errs.Internal, "search.ranked", "a column of %s holds no vectors", rec.Column(vectors).DataType())
		}
		values, ok := list.ListValues().(*array.Float32)
		if !ok {
			return nil, nil, errs.Newf(errs.Internal, "search.ranked", "a column of %s holds no vectors", rec.Column(vectors).DataType())
		}
		for i := range int(rec.NumRows()) {
			if list.IsNull(i) {
				continue
			}
			from, to := list.ValueOffsets(i)
			if int(to-from) != len(o.Query) {
				return nil, nil, errs.Newf(errs.Invalid, "search.ranked", "a vector of %d dimensions and a query of %d", to-from, len(o.Query))
			}
			order = append(order, rank{rows + i, o.Metric.Distance(values.Float32Values()[from:to], o.Query)})
		}
		rows += int(rec.NumRows())
	}
	if err := r.Err(); err != nil {
		return nil, nil, err
	}
	slices.SortStableFunc(order, func(a, b rank) int { // what is no number is farther than all
		x, y := a.distance, b.distance
		if math.IsNaN(x) || math.IsNaN(y) {
			return -cmp.Compare(x, y)
		}
		return cmp.Compare(x, y)
	})
	order = order[min(o.Offset, int64(len(order))):]
	order = order[:min(o.Limit, int64(len(order)))]
	b := array.NewInt32Builder(memory.DefaultAllocator)
	defer b.Release()
	for _, p := range order {
		b.Append(int32(p.row))
		distances = append(distances, p.distance)
	}
	take := b.NewArray()
	defer take.Release()
	for i, c := range columns {
		x, err := taken(ctx, plan.Schema.Field(c).Type, parts[i], take)
		if err != nil {
			for _, x := range cols {
				x.Release()
			}
			return nil, nil, err
		}
		cols = append(cols, x)
	}
	return cols, distances, nil
}

// taken are some rows of several arrays behind each other.
func taken(ctx context.Context, typ arrow.DataType, parts []arrow.Array, rows arrow.Array) (arrow.Array, error) {
	if len(parts) == 0 {
		b := array.NewBuilder(memory.DefaultAllocator, typ)
		defer b.Release()
		return b.NewArray(), nil
	}
	all := parts[0]
	if len(parts) > 1 {
		var err error
		if all, err = array.Concatenate(parts, memory.DefaultAllocator); err != nil {
			return nil, errs.Wrap(errs.Internal, "search.ranked", err)
		}
		defer all.Release()
	}
	out, err := compute.TakeArray(ctx, all, rows)
	return out, errs.Wrap(errs.Internal, "search.ranked", err)
}

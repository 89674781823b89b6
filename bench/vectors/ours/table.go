package ours

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake"
	"github.com/overlakedb/overlake/bench/vectors/worker"
	"github.com/overlakedb/overlake/internal/vec"
)

// table is a table in a warehouse of its own, asked by the interface for programs. Its rows are there before the build that
// counts; those of few are marked in a column that has an index too.
type table struct {
	db     *overlake.DB
	t      *overlake.Table
	few    *worker.Allowed
	metric overlake.Metric
}

var metrics = map[vec.Metric]struct {
	operator overlake.Metric
	name     string
}{vec.MetricL2: {overlake.L2, "l2"}, vec.MetricDot: {overlake.InnerProduct, "ip"}, vec.MetricCosine: {overlake.Cosine, "cosine"}}

func (t *table) Prepare(d worker.Data, _ worker.Words) error {
	ctx := context.Background()
	m, ok := metrics[d.Metric]
	if !ok {
		return fmt.Errorf("a table of bench is not asked by %v", d.Metric)
	}
	t.metric, t.few = m.operator, d.Few
	dir, err := os.MkdirTemp(d.Dir, "warehouse-")
	if err != nil {
		return err
	}
	if t.db, err = overlake.Open(ctx, dir, overlake.Options{IndexByHand: true, IndexCache: 4 << 30}); err != nil {
		return err
	}
	vectors := arrow.ListOfField(arrow.Field{Name: "element", Type: arrow.PrimitiveTypes.Float32})
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int32}, {Name: "few", Type: arrow.PrimitiveTypes.Int32}, {Name: "v", Type: vectors},
	}, nil)
	if t.t, err = t.db.CreateTable(ctx, "points", overlake.TableSpec{Schema: schema, Vectors: map[string]int{"v": d.Dim}}); err != nil {
		return err
	}
	rows := batches(schema, d)
	defer rows.Release()
	if _, err := t.t.Append(ctx, rows); err != nil {
		return err
	}
	_, err = t.t.AddIndex(ctx, overlake.IndexSpec{Name: "points_few", Columns: []string{"few"}})
	return err
}

// batches are the rows as a table takes them.
func batches(schema *arrow.Schema, d worker.Data) array.RecordReader {
	const batch = 8192
	n, at := len(d.Rows)/d.Dim, 0
	return array.ReaderFromIter(schema, func(yield func(arrow.RecordBatch, error) bool) {
		for at < n {
			to := min(at+batch, n)
			b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
			ids, few := b.Field(0).(*array.Int32Builder), b.Field(1).(*array.Int32Builder)
			lists := b.Field(2).(*array.ListBuilder)
			elements := lists.ValueBuilder().(*array.Float32Builder)
			for ; at < to; at++ {
				ids.Append(int32(at))
				mark := int32(0)
				if d.Few != nil && d.Few.Bits[at/64]>>(at%64)&1 != 0 {
					mark = 1
				}
				few.Append(mark)
				lists.Append(true)
				elements.AppendValues(d.Rows[at*d.Dim:(at+1)*d.Dim], nil)
			}
			rec := b.NewRecordBatch()
			b.Release()
			more := yield(rec, nil)
			rec.Release()
			if !more {
				return
			}
		}
	})
}

func (t *table) Build(d worker.Data, w worker.Words) (worker.Size, error) {
	params := map[string]string{"metric": metrics[d.Metric].name}
	for _, key := range []string{"lists", "m", "ef_construction"} {
		if v, ok := w[key]; ok {
			params[key] = v
		}
	}
	x, err := t.t.AddIndex(context.Background(), overlake.IndexSpec{Name: "points_v", Kind: w["index"], Columns: []string{"v"}, Params: params})
	if err == nil && (x.Covered != x.Files || x.Damaged > 0) {
		err = fmt.Errorf("the index covers %d of %d files", x.Covered, x.Files)
	}
	return worker.Size{Artifact: x.Bytes}, err
}

func (t *table) Effort(w worker.Words) (worker.Effort, error) {
	var e overlake.Effort
	var err error
	for key, to := range map[string]*int{"ef": &e.Ef, "probes": &e.Probes, "rerank": &e.Rerank} {
		n, bad := w.Int(key, 0)
		*to, err = n, errors.Join(err, bad)
	}
	return e, err
}

func (t *table) Search(q []float32, k int, effort worker.Effort, allowed *worker.Allowed, out []int32) error {
	query := t.t.Query().Near("v", q, t.metric).Select("id").Limit(int64(k)).Effort(effort.(overlake.Effort))
	if allowed != nil {
		if allowed != t.few {
			return errors.New("a table is asked for the rows that it marks, or for all")
		}
		query = query.Where("few = 1")
	}
	rows, err := query.Rows(context.Background())
	if err != nil {
		return err
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		ids, ok := rows.RecordBatch().Column(0).(*array.Int32)
		if !ok || n+ids.Len() > k {
			return fmt.Errorf("%d rows more for k=%d, of %s", rows.RecordBatch().NumRows(), k, rows.Schema())
		}
		n += copy(out[n:], ids.Int32Values())
	}
	return rows.Err()
}

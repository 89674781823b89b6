package lake

import (
	"context"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"golang.org/x/sync/errgroup"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/row"
)

// FileRows are rows of one file of a plan.
type FileRows struct {
	File int // place in the plan
	Rows *row.Bitmap
}

// Rows are fetched in steps of one file; some steps at once, so that a store with slow answers is asked for several.
const (
	fetchRows  = 4096
	fetchSteps = 8
)

// rowReader reads rows by position. Like planReader it is a plain state machine, pulled from any thread.
type rowReader struct {
	ctx    context.Context
	t      *Table
	p      *Plan
	ref    Ref
	names  []string
	schema *arrow.Schema
	steps  []fetchStep
	ready  []arrow.RecordBatch
	cur    arrow.RecordBatch
	err    error
	refs   atomic.Int64
}

type fetchStep struct {
	file int
	rows []int64
}

// FetchRows reads rows of the files of a plan, in the order given, with the columns at the places given of the plan's
// schema. Deleted rows come too if they are named.
func (t *Table) FetchRows(ctx context.Context, p *Plan, ref Ref, list []FileRows, columns []int) *rowReader {
	r := &rowReader{ctx: ctx, t: t, p: p, ref: ref, names: make([]string, len(columns))}
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		fields[i] = p.Schema.Field(c)
		r.names[i] = fields[i].Name
	}
	r.schema = arrow.NewSchema(fields, nil)
	for _, f := range list {
		var rows []int64
		for pos := range f.Rows.All() {
			if rows = append(rows, pos); len(rows) == fetchRows {
				r.steps = append(r.steps, fetchStep{f.File, rows})
				rows = nil
			}
		}
		if rows != nil {
			r.steps = append(r.steps, fetchStep{f.File, rows})
		}
	}
	r.refs.Store(1)
	return r
}

func (r *rowReader) Schema() *arrow.Schema { return r.schema }

func (r *rowReader) Next() bool {
	r.drop()
	if r.err != nil {
		return false
	}
	if len(r.ready) == 0 && len(r.steps) > 0 {
		n := min(fetchSteps, len(r.steps))
		r.ready = make([]arrow.RecordBatch, n)
		r.err = r.fetch(r.steps[:n], r.ready)
		r.steps = r.steps[n:]
		if r.err != nil {
			r.release()
			return false
		}
	}
	if len(r.ready) == 0 {
		return false
	}
	r.cur, r.ready = r.ready[0], r.ready[1:]
	return true
}

func (r *rowReader) fetch(steps []fetchStep, into []arrow.RecordBatch) error {
	one := func(ctx context.Context, i int) (err error) {
		f := &r.p.Files[steps[i].file]
		into[i], err = r.t.Fetch(ctx, f, r.names, r.ref, steps[i].rows)
		return err
	}
	if len(steps) == 1 {
		return one(r.ctx, 0)
	}
	g, ctx := errgroup.WithContext(r.ctx)
	for i := range steps {
		g.Go(func() (err error) {
			defer func() {
				if x := recover(); x != nil {
					err = errs.Newf(errs.Internal, "lake.fetch", "%v", x)
				}
			}()
			return one(ctx, i)
		})
	}
	return g.Wait()
}

func (r *rowReader) drop() {
	if r.cur != nil {
		r.cur.Release()
		r.cur = nil
	}
}

func (r *rowReader) release() {
	for _, b := range r.ready {
		if b != nil {
			b.Release()
		}
	}
	r.ready, r.steps = nil, nil
}

func (r *rowReader) RecordBatch() arrow.RecordBatch { return r.cur }
func (r *rowReader) Record() arrow.RecordBatch      { return r.cur }
func (r *rowReader) Err() error                     { return r.err }
func (r *rowReader) Retain()                        { r.refs.Add(1) }

func (r *rowReader) Release() {
	if r.refs.Add(-1) == 0 {
		r.drop()
		r.release()
	}
}

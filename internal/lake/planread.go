package lake

import (
	"context"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/errs"
)

// planReader reads the live rows of a plan, file by file. It is a plain state machine and no iterator: the engine pulls it
// from threads of its own, which Go's coroutines do not allow.
type planReader struct {
	ctx  context.Context
	t    *Table
	p    *Plan
	ref  Ref
	next int
	cur  array.RecordReader
	err  error
	refs atomic.Int64
}

// LiveRows reads the live rows of the files of a plan, in the plan's schema.
func (t *Table) LiveRows(ctx context.Context, p *Plan, ref Ref) array.RecordReader {
	r := &planReader{ctx: ctx, t: t, p: p, ref: ref}
	r.refs.Store(1)
	return r
}

func (r *planReader) Schema() *arrow.Schema { return r.p.Schema }

func (r *planReader) Next() bool {
	for r.err == nil {
		if r.cur != nil {
			if r.cur.Next() {
				return true
			}
			if err := r.cur.Err(); err != nil {
				r.err = errs.With(err, errs.On(r.p.Files[r.next-1].Path))
			}
			r.cur.Release()
			r.cur = nil
			continue
		}
		if r.next == len(r.p.Files) {
			return false
		}
		r.cur, r.err = r.t.ReadFile(r.ctx, &r.p.Files[r.next], nil, r.ref, true)
		if r.err != nil {
			r.cur = nil
		}
		r.next++
	}
	return false
}

func (r *planReader) RecordBatch() arrow.RecordBatch { return r.cur.RecordBatch() }
func (r *planReader) Record() arrow.RecordBatch      { return r.cur.RecordBatch() }
func (r *planReader) Err() error                     { return r.err }
func (r *planReader) Retain()                        { r.refs.Add(1) }

func (r *planReader) Release() {
	if r.refs.Add(-1) == 0 && r.cur != nil {
		r.cur.Release()
		r.cur = nil
	}
}

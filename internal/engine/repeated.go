package engine

import (
	"context"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/errs"
)

// Repeated reads some rows, each as often as was said. It is a plain state machine, as a feed wants.
type Repeated struct {
	schema *arrow.Schema
	parts  []repetition
	cur    arrow.RecordBatch
	refs   atomic.Int64
}

type repetition struct {
	batch arrow.RecordBatch
	left  int64
}

// repeatRows is the length of a batch of equal rows.
const repeatRows = 32 << 10

// NewRepeated makes a reader without rows.
func NewRepeated(schema *arrow.Schema) *Repeated {
	r := &Repeated{schema: schema}
	r.refs.Store(1)
	return r
}

// Add puts a batch of one row behind what is there, times over. The batch stays the caller's.
func (r *Repeated) Add(ctx context.Context, one arrow.RecordBatch, times int64) error {
	n := min(times, repeatRows)
	buf := memory.NewResizableBuffer(memory.DefaultAllocator)
	buf.Resize(int(n) * arrow.Int32SizeBytes)
	clear(buf.Bytes())
	data := array.NewData(arrow.PrimitiveTypes.Int32, int(n), []*memory.Buffer{nil, buf}, nil, 0, 0)
	buf.Release()
	first := array.NewInt32Data(data)
	data.Release()
	defer first.Release()
	cols := make([]arrow.Array, one.NumCols())
	defer func() {
		for _, c := range cols {
			if c != nil {
				c.Release()
			}
		}
	}()
	for i := range cols {
		var err error
		if cols[i], err = compute.TakeArray(ctx, one.Column(i), first); err != nil {
			return errs.Wrap(errs.Internal, "engine.repeat", err)
		}
	}
	r.parts = append(r.parts, repetition{array.NewRecordBatch(one.Schema(), cols, n), times})
	return nil
}

// Schema describes the rows.
func (r *Repeated) Schema() *arrow.Schema { return r.schema }

// Next moves to the next batch.
func (r *Repeated) Next() bool {
	if r.cur != nil {
		r.cur.Release()
		r.cur = nil
	}
	for len(r.parts) > 0 {
		p := &r.parts[0]
		if p.left > 0 {
			n := min(p.left, p.batch.NumRows())
			p.left -= n
			r.cur = p.batch.NewSlice(0, n)
			return true
		}
		p.batch.Release()
		r.parts = r.parts[1:]
	}
	return false
}

// RecordBatch is the current batch.
func (r *Repeated) RecordBatch() arrow.RecordBatch { return r.cur }

// Record is the current batch.
func (r *Repeated) Record() arrow.RecordBatch { return r.cur }

// Err is nil: reading does not fail.
func (r *Repeated) Err() error { return nil }

// Retain adds a holder.
func (r *Repeated) Retain() { r.refs.Add(1) }

// Release takes a holder away; the last one ends the reader.
func (r *Repeated) Release() {
	if r.refs.Add(-1) != 0 {
		return
	}
	if r.cur != nil {
		r.cur.Release()
		r.cur = nil
	}
	for _, p := range r.parts {
		p.batch.Release()
	}
	r.parts = nil
}

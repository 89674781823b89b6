package datafile

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/overlakedb/overlake/internal/errs"
)

const (
	// defaultBatch is the number of rows of a batch when the caller does not care.
	defaultBatch = 8192
	// windowBytes is what a batch aims at, as far as the footer tells how wide the rows are.
	windowBytes = 64 << 20
	// readBuffers is what all columns of a sequential reader buffer together.
	readBuffers = 32 << 20
)

// Read gives all rows of the named top-level columns, in file order, with the columns in the order asked for; nil means all
// columns. batchRows is the most rows of a batch, 0 meaning 8192; wide rows come in smaller ones. A name that the file lacks
// is NotFound. The caller releases the reader; every batch is valid until the next call of Next.
func (f *File) Read(ctx context.Context, names []string, batchRows int64) (_ array.RecordReader, err error) {
	defer guard(errs.Corrupt, "datafile.read", &err)
	cols, err := f.columns(names)
	if err != nil {
		return nil, err
	}
	if batchRows <= 0 {
		batchRows = defaultBatch
	}
	r := &reader{ctx: ctx, f: f, schema: f.project(cols), cols: cols, batch: min(batchRows, f.window(cols, windowBytes))}
	r.refs.Store(1)
	if len(cols) == 0 || f.Rows() == 0 {
		return r, nil
	}
	leaves := int64(0)
	for _, c := range cols {
		leaves += int64(f.leafAt[c+1] - f.leafAt[c])
	}
	r.s = f.session(ctx)
	if err := r.s.open(min(max(readBuffers/leaves, 16<<10), 1<<20)); err != nil {
		return nil, err
	}
	r.s.mem.begin()
	var groups []int
	for g, rg := range f.groups {
		if rg.Rows > 0 {
			groups = append(groups, g)
		}
	}
	for _, c := range cols {
		cr, err := r.s.column(ctx, f, c, groups)
		if err != nil {
			r.Release()
			return nil, r.s.src.failure("datafile.read", err)
		}
		r.columns = append(r.columns, cr)
	}
	return r, nil
}

// project is the schema of some columns.
func (f *File) project(cols []int) *arrow.Schema {
	if slices.Equal(cols, f.all) {
		return f.schema
	}
	fields := make([]arrow.Field, len(cols))
	for i, c := range cols {
		fields[i] = f.schema.Field(c)
	}
	return arrow.NewSchema(fields, nil)
}

// window is how many rows of some columns fit into a number of bytes, going by the footer; at least 1.
func (f *File) window(cols []int, size int64) int64 {
	var total int64
	for _, chunks := range f.chunks {
		for _, c := range cols {
			for i := f.leafAt[c]; i < f.leafAt[c+1]; i++ {
				if total += chunks[i].uncompressed; total < 0 {
					return 1
				}
			}
		}
	}
	return max(size/max(total/max(f.Rows(), 1), 1), 1)
}

// reader reads columns side by side.
type reader struct {
	ctx     context.Context
	f       *File
	s       *session
	schema  *arrow.Schema
	cols    []int
	columns []*pqarrow.ColumnReader
	batch   int64
	at      int64 // rows given so far
	cur     arrow.RecordBatch
	err     error
	refs    atomic.Int64
}

func (r *reader) Schema() *arrow.Schema          { return r.schema }
func (r *reader) RecordBatch() arrow.RecordBatch { return r.cur }

// Record is the older name of RecordBatch, which array.RecordReader still has.
func (r *reader) Record() arrow.RecordBatch { return r.cur }
func (r *reader) Err() error                { return r.err }
func (r *reader) Retain()                   { r.refs.Add(1) }

func (r *reader) Release() {
	if r.refs.Add(-1) != 0 {
		return
	}
	r.drop()
	for _, c := range r.columns {
		c.Release()
	}
	r.columns = nil
}

func (r *reader) drop() {
	if r.cur != nil {
		r.cur.Release()
		r.cur = nil
	}
}

func (r *reader) Next() (ok bool) {
	r.drop()
	if r.err != nil || r.at == r.f.Rows() {
		return false
	}
	defer func() { ok = r.err == nil }()
	defer guard(errs.Corrupt, "datafile.read", &r.err)
	if err := r.ctx.Err(); err != nil {
		r.err = errs.Wrap(errs.Canceled, "datafile.read", err)
		return false
	}
	n := min(r.batch, r.f.Rows()-r.at)
	arrays := make([]arrow.Array, len(r.columns))
	defer releaseAll(arrays)
	if r.s != nil {
		r.s.mem.begin()
	}
	for i, c := range r.columns {
		var err error
		if arrays[i], err = r.s.next(c, n); err != nil {
			r.err = r.s.src.failure("datafile.read", err)
			return false
		}
	}
	r.cur = array.NewRecordBatch(r.schema, arrays, n)
	r.at += n
	return true
}

func releaseAll(arrays []arrow.Array) {
	for _, a := range arrays {
		if a != nil {
			a.Release()
		}
	}
}

// next reads exactly n rows of a column into one array; fewer are a corrupt file.
func (s *session) next(c *pqarrow.ColumnReader, n int64) (arrow.Array, error) {
	chunks, err := c.NextBatch(n)
	if err != nil {
		return nil, err
	}
	if chunks == nil {
		return nil, corruptf("datafile.read", "a column has no values")
	}
	defer chunks.Release()
	if int64(chunks.Len()) != n {
		return nil, corruptf("datafile.read", "the column %s has fewer rows than its row groups say", c.Field().Name)
	}
	if len(chunks.Chunks()) == 1 {
		a := chunks.Chunk(0)
		a.Retain()
		return a, nil
	}
	return array.Concatenate(slices.Clone(chunks.Chunks()), s.mem)
}

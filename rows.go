package overlake

import (
	"iter"
	"strings"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/sql"
)

// Rows is the answer of a statement: a stream of Arrow record batches, read once, front to back.
//
// Ownership: Rows belongs to the caller and must be closed. The batch of RecordBatch belongs to Rows and is valid until
// the next call of Next; Retain it to keep it longer, and Release it then. Rows is not safe for concurrent use.
type Rows struct {
	res    *sql.Result
	refs   atomic.Int64
	closed bool
}

func newRows(res *sql.Result) *Rows {
	r := &Rows{res: res}
	r.refs.Store(1)
	return r
}

// Schema describes the columns. A vector, a halfvec or a sparsevec, which comes as text, has the field metadata overlake.type.
func (r *Rows) Schema() *arrow.Schema { return r.res.Schema() }

// Next moves to the next batch; false means the end or an error, which Err tells apart.
func (r *Rows) Next() bool { return !r.closed && r.res.Next() }

// RecordBatch is the current batch.
func (r *Rows) RecordBatch() arrow.RecordBatch { return r.res.Record() }

// Record is RecordBatch under the name that array.RecordReader kept for older callers.
func (r *Rows) Record() arrow.RecordBatch { return r.res.Record() }

// Err is the error that ended the stream, if one did.
func (r *Rows) Err() error { return r.res.Err() }

// Close ends the statement and frees what it holds; a statement with rows left is cancelled. Close may be called twice.
func (r *Rows) Close() error {
	if r.closed {
		return nil
	}
	r.closed = true
	return r.res.Close()
}

// Retain and Release make Rows an array.RecordReader: the last Release closes it.
func (r *Rows) Retain() { r.refs.Add(1) }

// Release drops a reference; the last one closes Rows.
func (r *Rows) Release() {
	if r.refs.Add(-1) == 0 {
		_ = r.Close()
	}
}

var _ array.RecordReader = (*Rows)(nil)

// Tag names what the statement did, such as "SELECT", "INSERT" or "CREATE TABLE".
func (r *Rows) Tag() string { return r.res.Tag }

// RowsAffected is the number of rows the statement wrote, or -1 when it writes none.
func (r *Rows) RowsAffected() int64 { return r.res.Affected }

// HasRows tells a statement that answers with rows, perhaps none, from one that only acts.
func (r *Rows) HasRows() bool { return r.res.HasRows }

// Values yields each row as Go values, which is convenient for small answers: nil, bool, integers, floats, string,
// []byte, []float32 for lists of float, time.Time for dates and timestamps, and the text form of anything else. The
// slice is reused from row to row. An error ends the sequence. Values closes Rows.
func (r *Rows) Values() iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		defer r.Close()
		row := make([]any, r.Schema().NumFields())
		for r.Next() {
			rec := r.RecordBatch()
			for i := 0; i < int(rec.NumRows()); i++ {
				for c := range row {
					row[c] = goValue(rec.Column(c), i)
				}
				if !yield(row, nil) {
					return
				}
			}
		}
		if err := r.Err(); err != nil {
			yield(nil, err)
		}
	}
}

func goValue(a arrow.Array, i int) any {
	if a.IsNull(i) {
		return nil
	}
	switch a := a.(type) {
	case *array.Boolean:
		return a.Value(i)
	case *array.Int8:
		return a.Value(i)
	case *array.Int16:
		return a.Value(i)
	case *array.Int32:
		return a.Value(i)
	case *array.Int64:
		return a.Value(i)
	case *array.Uint8:
		return a.Value(i)
	case *array.Uint16:
		return a.Value(i)
	case *array.Uint32:
		return a.Value(i)
	case *array.Uint64:
		return a.Value(i)
	case *array.Float32:
		return a.Value(i)
	case *array.Float64:
		return a.Value(i)
	case *array.String:
		return strings.Clone(a.Value(i)) // the array's memory goes with the batch
	case *array.Binary:
		return append([]byte(nil), a.Value(i)...)
	case *array.Date32:
		return a.Value(i).ToTime()
	case *array.Timestamp:
		return a.Value(i).ToTime(a.DataType().(*arrow.TimestampType).Unit)
	case *array.List:
		if v, ok := a.ListValues().(*array.Float32); ok && v.NullN() == 0 {
			lo, hi := a.ValueOffsets(i)
			return append([]float32(nil), v.Float32Values()[lo:hi]...)
		}
	}
	return strings.Clone(a.ValueStr(i))
}

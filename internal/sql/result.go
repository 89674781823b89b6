package sql

import (
	"github.com/apache/arrow-go/v18/arrow"
)

// Result is what one statement gives back: a stream of rows, a count of changed rows, or only a tag.
//
// A Result holds resources (an engine connection, file registrations, pinned table versions) until Close. The batch of
// Record is valid until the next call of Next; Retain it to keep it longer.
type Result struct {
	// Tag names what was done, as PostgreSQL's command tags do: "SELECT", "INSERT", "CREATE TABLE".
	Tag string
	// Affected is the number of rows written; -1 for statements that write none.
	Affected int64
	// HasRows tells a statement that answers with rows (perhaps none) from one that only acts.
	HasRows bool

	rows    stream
	release []func()
	err     error
}

// stream is the reading half of a result: engine results and rows made in Go alike.
type stream interface {
	Schema() *arrow.Schema
	Next() bool
	Record() arrow.RecordBatch
	Err() error
	Close() error
}

var emptySchema = arrow.NewSchema(nil, nil)

// done is the result of a statement that only acts.
func done(tag string, affected int64) *Result { return &Result{Tag: tag, Affected: affected} }

// Schema describes the rows; it has no fields for statements that only act.
func (r *Result) Schema() *arrow.Schema {
	if r.rows == nil {
		return emptySchema
	}
	return r.rows.Schema()
}

// Next moves to the next batch. It returns false at the end and on error.
func (r *Result) Next() bool {
	if r.rows == nil || r.err != nil {
		return false
	}
	return r.rows.Next()
}

// Record is the current batch, owned by the result.
func (r *Result) Record() arrow.RecordBatch { return r.rows.Record() }

// Err is the error that ended the stream, if one did.
func (r *Result) Err() error {
	if r.err != nil || r.rows == nil {
		return r.err
	}
	return r.rows.Err()
}

// Close ends the statement, cancelling it when rows are left. It may be called more than once.
func (r *Result) Close() error {
	var err error
	if r.rows != nil {
		err = r.rows.Close()
	}
	for i := len(r.release) - 1; i >= 0; i-- {
		r.release[i]()
	}
	r.release = nil
	return err
}

// batches is a stream of rows made in Go.
type batches struct {
	schema *arrow.Schema
	recs   []arrow.RecordBatch
	at     int
}

func newBatches(schema *arrow.Schema, recs ...arrow.RecordBatch) *batches {
	return &batches{schema: schema, recs: recs, at: -1}
}

func (b *batches) Schema() *arrow.Schema { return b.schema }

func (b *batches) Next() bool {
	if b.at+1 >= len(b.recs) {
		return false
	}
	b.at++
	return true
}

func (b *batches) Record() arrow.RecordBatch { return b.recs[b.at] }
func (b *batches) Err() error                { return nil }

func (b *batches) Close() error {
	for _, r := range b.recs {
		r.Release()
	}
	b.recs = nil
	return nil
}

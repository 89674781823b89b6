package engine

/*
#include <stdlib.h>
#include "engine.h"
*/
import "C"

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/declared"
	"github.com/overlakedb/overlake/internal/errs"
)

// TypeKey is the field metadata that names the type of a result column which is an alias: vector, halfvec or sparsevec.
const TypeKey = declared.Key

// Result streams the rows of one query. It is for one goroutine, but Close may come from another one. The batch of Record
// is valid until the next call of Next or Close; Retain keeps it longer.
type Result struct {
	db     *DB
	ctx    context.Context
	schema *arrow.Schema
	rec    arrow.RecordBatch
	err    error

	mu      sync.Mutex // held by whoever is inside DuckDB with this result
	q       C.ov_query
	sinks   []sink
	ended   bool
	fast    bool                    // the last chunk came without a wait
	gate    sync.Mutex              // guards closed, and interrupts against the end of the connection
	closed  bool                    // everything is freed
	givenUp atomic.Bool             // nobody waits for the rest: functions in Go stop at their next row
	stop    chan struct{}           // closed to end the watch
	at      *atomic.Pointer[Result] // where the DB says that the connection runs this
	wait    sync.WaitGroup
	unwatch [2]func() bool // end what watch began; true when it never ran
	pooled  bool           // the place goes back to the pool
	place   place
}

// A batch is handed out as soon as one of these is reached, or as soon as the engine makes us wait for more.
const (
	batchRows  = 8 * chunkRows
	batchBytes = 4 << 20
	batchWait  = 500 * time.Microsecond
)

// Query runs one SELECT or EXPLAIN. It waits for a place among the running queries first. The first rows come when the
// engine has made 64 KB of them.
func (db *DB) Query(ctx context.Context, sql string, args ...Arg) (*Result, error) {
	return db.query(ctx, false, sql, args)
}

// QueryAhead is Query for rows that are cheap to make: the first ones come when the engine has made 1 MB of them, and many
// cost less.
func (db *DB) QueryAhead(ctx context.Context, sql string, args ...Arg) (*Result, error) {
	return db.query(ctx, true, sql, args)
}

func (db *DB) query(ctx context.Context, far bool, sql string, args []Arg) (*Result, error) {
	if err := db.guard(ctx, sql); err != nil {
		return nil, err
	}
	p, err := db.acquire(ctx)
	if err != nil {
		return nil, err
	}
	con := p.little
	if far {
		con = p.far
	}
	r, err := db.run(ctx, con, sql, args, false)
	if err != nil {
		db.pool <- p
		return nil, err
	}
	r.pooled, r.place = true, p
	if err := db.enter(r); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// RunCopy runs one COPY ... TO whose file came from AddOutput and returns the number of rows written.
func (db *DB) RunCopy(ctx context.Context, sql string, args ...Arg) (int64, error) {
	if err := db.guard(ctx, sql); err != nil {
		return 0, err
	}
	p, err := db.acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { db.pool <- p }()
	r, err := db.run(ctx, p.far, sql, args, true)
	if err != nil {
		return 0, err
	}
	defer r.finish()
	var n int64
	for r.Next() {
		if c, ok := r.Record().Column(0).(*array.Int64); ok && c.Len() > 0 {
			n = c.Value(0)
		}
	}
	return n, r.Err()
}

// run prepares, binds and starts a statement on a connection. On error the connection is free again.
func (db *DB) run(ctx context.Context, con C.duckdb_connection, sql string, args []Arg, copying bool) (_ *Result, err error) {
	if strings.ContainsRune(sql, 0) {
		return nil, errs.New(errs.Invalid, "engine.query", "the statement holds a NUL character")
	}
	r := db.begin(ctx, con)
	defer func() {
		if err != nil {
			r.finish()
			err = r.why(err)
		}
	}()
	text := C.CString(sql)
	defer C.free(unsafe.Pointer(text))
	if err := engineError("engine.prepare", C.ov_prepare(&r.q, text)); err != nil {
		return nil, err
	}
	switch kind := C.duckdb_prepared_statement_type(r.q.stmt); {
	case kind == C.OV_STATEMENT_SELECT:
	case kind == C.OV_STATEMENT_EXPLAIN:
		if err := db.guardExplained(ctx, sql); err != nil {
			return nil, err
		}
	case kind == C.OV_STATEMENT_COPY && copying:
	default:
		return nil, errs.New(errs.Denied, "engine.query", "only SELECT may run here")
	}
	if err := r.bind(args); err != nil {
		return nil, err
	}
	if err := engineError("engine.query", C.ov_start(&r.q)); err != nil {
		return nil, err
	}
	return r, r.readSchema()
}

// begin makes the result of a statement that is about to run on a connection.
func (db *DB) begin(ctx context.Context, con C.duckdb_connection) *Result {
	r := &Result{db: db, ctx: ctx, stop: make(chan struct{})}
	r.q.con = con
	r.at = db.runs[connectionID(con)]
	r.at.Store(r)
	r.watch()
	return r
}

// runAgain starts a statement that was prepared before and is kept.
func (db *DB) runAgain(ctx context.Context, con C.duckdb_connection, stmt C.duckdb_prepared_statement, args ...Arg) (_ *Result, err error) {
	r := db.begin(ctx, con)
	defer func() {
		if err != nil {
			r.finish()
			err = r.why(err)
		}
	}()
	r.q.stmt, r.q.kept = stmt, true
	if err := r.bind(args); err != nil {
		return nil, err
	}
	if err := engineError("engine.query", C.ov_start(&r.q)); err != nil {
		return nil, err
	}
	return r, r.readSchema()
}

// watch interrupts the connection from the moment the context ends or the DB closes until the result is finished. One
// interrupt is not enough: it is forgotten when the next step of the statement begins.
func (r *Result) watch() {
	cut := func() {
		defer r.wait.Done()
		r.givenUp.Store(true)
		for {
			C.duckdb_interrupt(r.q.con)
			select {
			case <-r.stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}
	r.wait.Add(2)
	r.unwatch[0] = context.AfterFunc(r.ctx, cut)
	r.unwatch[1] = context.AfterFunc(r.db.life, cut)
}

// why is the error of a query that failed: the end of its context or of the DB explains a failure better than the
// interrupt that it led to.
func (r *Result) why(err error) error {
	if e := r.ctx.Err(); e != nil {
		return errs.Wrap(errs.Canceled, "engine.query", e)
	}
	if r.db.isClosing() {
		return errClosed("engine.query")
	}
	return err
}

func (r *Result) readSchema() error {
	n := C.duckdb_column_count(&r.q.res)
	fields := make([]arrow.Field, n)
	r.sinks = make([]sink, n)
	for i := range fields {
		f := &fields[i]
		f.Name = C.GoString(C.duckdb_column_name(&r.q.res, C.idx_t(i)))
		t := C.duckdb_column_logical_type(&r.q.res, C.idx_t(i))
		s, err := newSink(t)
		if _, name := aliasOf(t); name != "" {
			f.Metadata = arrow.NewMetadata([]string{TypeKey}, []string{name})
		}
		C.duckdb_destroy_logical_type(&t)
		if err != nil {
			return errs.With(err, errs.On(f.Name))
		}
		f.Type, f.Nullable = s.dataType(), true
		r.sinks[i] = s
	}
	r.schema = arrow.NewSchema(fields, nil)
	return nil
}

// Schema describes the rows.
func (r *Result) Schema() *arrow.Schema { return r.schema }

// Next moves to the next batch. The first one comes as soon as there are rows; later ones hold up to 16,384 rows or 4 MiB
// when rows come faster than they are taken.
func (r *Result) Next() bool {
	r.drop()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || r.err != nil {
		return false
	}
	if err := r.ctx.Err(); err != nil {
		r.err = errs.Wrap(errs.Canceled, "engine.fetch", err)
		return false
	}
	if r.isClosed() {
		if r.db.isClosing() {
			r.err = errClosed("engine.fetch")
		}
		return false
	}
	rows, size := 0, 0
	for {
		start := time.Now()
		n, err := r.fetch(&size)
		if err != nil {
			r.err = r.why(err)
			return false
		}
		if n == 0 {
			r.ended = true
			break
		}
		rows += n
		first := r.rec == nil && rows == n
		// Waiting for more would keep rows back: only when the engine is ahead of us do chunks go together.
		ahead := r.fast
		r.fast = time.Since(start) < batchWait
		if !r.fast || first && !ahead || rows+chunkRows > batchRows || size >= batchBytes {
			break
		}
	}
	if rows == 0 {
		return false
	}
	cols := make([]arrow.Array, len(r.sinks))
	for i, s := range r.sinks {
		d := s.take()
		cols[i] = array.MakeFromData(d)
		d.Release()
		defer cols[i].Release()
	}
	r.rec = array.NewRecordBatch(r.schema, cols, int64(rows))
	return true
}

// fetch adds the next chunk to the sinks and its bytes, about, to size.
func (r *Result) fetch(size *int) (int, error) {
	var chunk C.duckdb_data_chunk
	var message *C.char
	switch C.ov_next(&r.q, &chunk, &message) {
	case 0:
		return 0, nil
	case -1:
		return 0, engineError("engine.fetch", message)
	}
	defer C.duckdb_destroy_data_chunk(&chunk)
	n := int(C.duckdb_data_chunk_get_size(chunk))
	for i, s := range r.sinks {
		v := C.duckdb_data_chunk_get_vector(chunk, C.idx_t(i))
		if err := s.add(v, 0, n); err != nil {
			return 0, errs.With(err, errs.On(r.schema.Field(i).Name))
		}
		*size += s.size()
	}
	return n, nil
}

// Record is the current batch.
func (r *Result) Record() arrow.RecordBatch { return r.rec }

// Err is the error that ended the stream, if one did.
func (r *Result) Err() error { return r.err }

// Close ends the query and gives its place to the next one. It may be called twice.
func (r *Result) Close() error {
	if r.finish() && r.pooled {
		r.db.leave(r)
		r.db.pool <- r.place
	}
	return nil
}

// finish frees everything but the connection and the current batch; false when that was done before.
func (r *Result) finish() bool {
	if !r.interrupt() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isClosed() {
		return false
	}
	C.ov_finish(&r.q)
	r.at.Store(nil)
	close(r.stop)
	for _, unwatch := range r.unwatch {
		if unwatch() {
			r.wait.Done()
		}
	}
	r.wait.Wait()
	r.gate.Lock()
	r.closed = true
	r.gate.Unlock()
	return true
}

// interrupt makes whatever runs for this result short; false when nothing can run any more.
func (r *Result) interrupt() bool {
	r.gate.Lock()
	defer r.gate.Unlock()
	if !r.closed {
		r.givenUp.Store(true)
		C.duckdb_interrupt(r.q.con)
	}
	return !r.closed
}

func (r *Result) isClosed() bool {
	r.gate.Lock()
	defer r.gate.Unlock()
	return r.closed
}

func (r *Result) drop() {
	if r.rec != nil {
		r.rec.Release()
		r.rec = nil
	}
}

func firstText(rec arrow.RecordBatch) string {
	// The array's memory goes with the batch, so the text is copied.
	if a, ok := rec.Column(0).(array.ExtensionArray); ok {
		return strings.Clone(a.Storage().ValueStr(0))
	}
	return strings.Clone(rec.Column(0).ValueStr(0))
}

package engine

/*
#include <stdlib.h>
#include "engine.h"
*/
import "C"

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/cdata"

	"github.com/overlakedb/overlake/internal/errs"
)

// TypeKey is the field metadata that names the type of a result column which is an alias, such as "vector".
const TypeKey = "overlake.type"

// Arg is a value for a parameter of a statement: $1, $2 … in order when Name is empty, else $Name. Values: nil, bool,
// all integer types, float32, float64, string, []byte, []float32, []float64, time.Time.
type Arg struct {
	Name  string
	Value any
}

// Result streams the rows of one query. It is not safe for concurrent use. The batch of Record is valid until the next
// call of Next or Close.
type Result struct {
	db     *DB
	ctx    context.Context
	q      C.ov_query
	schema *arrow.Schema
	rec    arrow.RecordBatch
	err    error
	ended  bool
	stop   chan struct{}
	wait   sync.WaitGroup
	pooled bool
}

// Query runs one SELECT or EXPLAIN. It waits for a place among the running queries first.
func (db *DB) Query(ctx context.Context, sql string, args ...Arg) (*Result, error) {
	con, err := db.acquire(ctx)
	if err != nil {
		return nil, err
	}
	r, err := db.run(ctx, con, sql, args, false)
	if err != nil {
		db.pool <- con
		return nil, err
	}
	r.pooled = true
	return r, nil
}

// RunCopy runs one COPY ... TO whose file came from AddOutput and returns the number of rows written.
func (db *DB) RunCopy(ctx context.Context, sql string, args ...Arg) (int64, error) {
	con, err := db.acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { db.pool <- con }()
	r, err := db.run(ctx, con, sql, args, true)
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
	r := &Result{db: db, ctx: ctx, stop: make(chan struct{})}
	r.q.con = con
	r.watch()
	defer func() {
		if err != nil {
			r.finish()
			if ctx.Err() != nil {
				err = errs.Wrap(errs.Canceled, "engine.query", ctx.Err())
			}
		}
	}()
	text := C.CString(sql)
	defer C.free(unsafe.Pointer(text))
	if err := engineError("engine.prepare", C.ov_prepare(&r.q, text)); err != nil {
		return nil, err
	}
	switch kind := C.duckdb_prepared_statement_type(r.q.stmt); {
	case kind == C.OV_STATEMENT_SELECT, kind == C.OV_STATEMENT_EXPLAIN:
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

// watch interrupts the connection from the moment the context ends until the result is finished. One interrupt is not
// enough: it is forgotten when the next step of the statement begins.
func (r *Result) watch() {
	if r.ctx.Done() == nil {
		return
	}
	r.wait.Go(func() {
		select {
		case <-r.stop:
			return
		case <-r.ctx.Done():
		}
		for {
			C.duckdb_interrupt(r.q.con)
			select {
			case <-r.stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	})
}

func (r *Result) readSchema() error {
	cs := (*cdata.CArrowSchema)(C.calloc(1, C.size_t(unsafe.Sizeof(cdata.CArrowSchema{}))))
	defer C.free(unsafe.Pointer(cs))
	if err := engineError("engine.schema", C.ov_schema(&r.q, (*C.struct_ArrowSchema)(unsafe.Pointer(cs)))); err != nil {
		return err
	}
	schema, err := cdata.ImportCArrowSchema(cs)
	if err != nil {
		return errs.Wrap(errs.Unsupported, "engine.schema", err)
	}
	fields := schema.Fields()
	for i := range fields {
		fields[i].Nullable = true
		if a := C.ov_alias(&r.q, C.idx_t(i)); a != nil {
			if alias := C.GoString(a); alias == "vector" {
				fields[i].Metadata = arrow.NewMetadata([]string{TypeKey}, []string{alias})
			}
			C.duckdb_free(unsafe.Pointer(a))
		}
	}
	r.schema = arrow.NewSchema(fields, nil)
	return nil
}

// Schema describes the rows.
func (r *Result) Schema() *arrow.Schema { return r.schema }

// Next moves to the next batch, of up to 2,048 rows.
func (r *Result) Next() bool {
	r.drop()
	if r.ended || r.err != nil {
		return false
	}
	if err := r.ctx.Err(); err != nil {
		r.err = errs.Wrap(errs.Canceled, "engine.fetch", err)
		return false
	}
	ca := (*cdata.CArrowArray)(C.calloc(1, C.size_t(unsafe.Sizeof(cdata.CArrowArray{}))))
	defer C.free(unsafe.Pointer(ca))
	var message *C.char
	switch C.ov_next(&r.q, (*C.struct_ArrowArray)(unsafe.Pointer(ca)), &message) {
	case 0:
		r.ended = true
		return false
	case -1:
		r.err = engineError("engine.fetch", message)
		if err := r.ctx.Err(); err != nil {
			r.err = errs.Wrap(errs.Canceled, "engine.fetch", err)
		}
		return false
	}
	rec, err := cdata.ImportCRecordBatchWithSchema(ca, r.schema)
	if err != nil {
		r.err = errs.Wrap(errs.Internal, "engine.fetch", err)
		return false
	}
	r.rec = rec
	return true
}

// Record is the current batch.
func (r *Result) Record() arrow.RecordBatch { return r.rec }

// Err is the error that ended the stream, if one did.
func (r *Result) Err() error { return r.err }

// Close ends the query and gives its place to the next one. It may be called twice.
func (r *Result) Close() error {
	if r.finish() && r.pooled {
		r.db.pool <- r.q.con
	}
	return nil
}

// finish frees everything but the connection; false when that was done before.
func (r *Result) finish() bool {
	if r.stop == nil {
		return false
	}
	r.drop()
	r.ended = true
	C.ov_finish(&r.q)
	close(r.stop)
	r.wait.Wait()
	r.stop = nil
	return true
}

func (r *Result) drop() {
	if r.rec != nil {
		r.rec.Release()
		r.rec = nil
	}
}

func (r *Result) bind(args []Arg) error {
	want := int(C.duckdb_nparams(r.q.stmt))
	bound := make([]bool, want+1)
	for i, a := range args {
		at := C.idx_t(i + 1)
		name := C.CString(strings.TrimPrefix(a.Name, "$"))
		if a.Name == "" {
			C.free(unsafe.Pointer(name))
			// Positional parameters are named by their number, whatever order they appear in.
			name = C.CString(fmt.Sprint(i + 1))
		}
		st := C.duckdb_bind_parameter_index(r.q.stmt, &at, name)
		C.free(unsafe.Pointer(name))
		if st != 0 {
			continue // the statement does not use this argument; the sql room checks counts
		}
		if err := r.bindOne(at, a.Value); err != nil {
			return err
		}
		bound[at] = true
	}
	for i := 1; i <= want; i++ {
		if !bound[i] {
			n := C.duckdb_parameter_name(r.q.stmt, C.idx_t(i))
			name := C.GoString(n)
			C.duckdb_free(unsafe.Pointer(n))
			return errs.New(errs.Invalid, "engine.bind", "no value for parameter $"+name,
				errs.Hint("pass one argument for every parameter of the statement"))
		}
	}
	return nil
}

func (r *Result) bindOne(at C.idx_t, value any) error {
	var st C.duckdb_state
	s := r.q.stmt
	switch v := value.(type) {
	case nil:
		st = C.duckdb_bind_null(s, at)
	case bool:
		st = C.duckdb_bind_boolean(s, at, C.bool(v))
	case int:
		st = C.duckdb_bind_int64(s, at, C.int64_t(v))
	case int8:
		st = C.duckdb_bind_int32(s, at, C.int32_t(v))
	case int16:
		st = C.duckdb_bind_int32(s, at, C.int32_t(v))
	case int32:
		st = C.duckdb_bind_int32(s, at, C.int32_t(v))
	case int64:
		st = C.duckdb_bind_int64(s, at, C.int64_t(v))
	case uint8:
		st = C.duckdb_bind_int32(s, at, C.int32_t(v))
	case uint16:
		st = C.duckdb_bind_int32(s, at, C.int32_t(v))
	case uint32:
		st = C.duckdb_bind_int64(s, at, C.int64_t(v))
	case uint:
		st = C.duckdb_bind_uint64(s, at, C.uint64_t(v))
	case uint64:
		st = C.duckdb_bind_uint64(s, at, C.uint64_t(v))
	case float32:
		st = C.duckdb_bind_float(s, at, C.float(v))
	case float64:
		st = C.duckdb_bind_double(s, at, C.double(v))
	case string:
		st = C.duckdb_bind_varchar_length(s, at, (*C.char)(unsafe.Pointer(unsafe.StringData(v+"\x00"))), C.idx_t(len(v)))
	case []byte:
		b := append(v[:len(v):len(v)], 0) // never an empty slice, whose data pointer is nil
		st = C.duckdb_bind_blob(s, at, unsafe.Pointer(unsafe.SliceData(b)), C.idx_t(len(v)))
	case []float32:
		v = append(v[:len(v):len(v)], 0)
		st = C.ov_bind_floats(&r.q, at, (*C.float)(unsafe.Pointer(unsafe.SliceData(v))), C.idx_t(len(v)-1))
	case []float64:
		v = append(v[:len(v):len(v)], 0)
		st = C.ov_bind_doubles(&r.q, at, (*C.double)(unsafe.Pointer(unsafe.SliceData(v))), C.idx_t(len(v)-1))
	case time.Time:
		st = C.duckdb_bind_timestamp_tz(s, at, C.duckdb_timestamp{micros: C.int64_t(v.UnixMicro())})
	default:
		return errs.Newf(errs.Unsupported, "engine.bind", "values of Go type %T cannot be parameters", value)
	}
	if st != 0 {
		return errs.Newf(errs.Invalid, "engine.bind", "parameter %d does not take a %T", int(at), value)
	}
	return nil
}

func firstText(rec arrow.RecordBatch) string {
	// The array's memory goes with the batch, so the text is copied.
	if a, ok := rec.Column(0).(array.ExtensionArray); ok {
		return strings.Clone(a.Storage().ValueStr(0))
	}
	return strings.Clone(rec.Column(0).ValueStr(0))
}

package engine

/*
#include <stdlib.h>
#include "engine.h"
*/
import "C"

import (
	"runtime/cgo"
	"sync/atomic"
	"unsafe"

	"github.com/overlakedb/overlake/internal/errs"
)

// Row computes row i of a batch. It is not called for rows with a NULL argument, which give NULL, unless the function asks
// for them. An error without a kind counts as Invalid. A panic becomes an error of the query.
type Row = func(i int, args []Column, out *Output) error

// Scalar is a function written in Go. Several may share a name and differ in their arguments; a name of DuckDB's own
// gains an overload. Exactly one of Row, Start, Batch and Bind is set.
type Scalar struct {
	Name    string
	Args    []Type
	Varargs bool // the last of Args may come any number of times, also not at all
	Returns Type
	// Row is called by several threads at once.
	Row Row
	// Start gives the Row function for one batch of rows, so that a batch can keep state of its own.
	Start func() Row
	// Batch computes the given rows of a batch at once. They ascend, and have no NULL argument unless Nulls is set. ended gives
	// the error to end with once nobody waits for the answer any more; it is cheap. Results are no lists.
	Batch func(rows []int, args []Column, out *Output, ended func() error) error
	// Bind looks at a call when its statement is prepared and gives the Start function for it.
	Bind func(b *Binding) (func() Row, error)
	// Nulls makes Row see rows with NULL arguments.
	Nulls bool
	// Volatile tells that equal arguments may give different results.
	Volatile bool
}

// Cast is a conversion written in Go, under the rules of Scalar.
type Cast struct {
	From, To Type
	// Cost ranks the cast among those that are made without being asked for; negative means only on request.
	Cost int64
	Row  func(i int, in *Column, out *Output) error
}

// Aggregate is an aggregate function written in Go. Rows with a NULL argument are skipped; a group without rows is NULL.
// A state is used by one thread at a time.
type Aggregate struct {
	Name    string
	Args    []Type
	Returns Type
	// New makes the state of a group.
	New func() any
	// Add takes row i into a state.
	Add func(state any, i int, args []Column) error
	// Merge takes another state into a state. The other one must stay as it is: windows merge it again.
	Merge func(state, other any) error
	// Done gives the result of a state as row i.
	Done func(state any, i int, out *Output) error
}

// Binding is a call of a function in a statement.
type Binding struct {
	info C.duckdb_bind_info
}

// Args is the number of arguments.
func (b *Binding) Args() int { return int(C.duckdb_scalar_function_bind_get_argument_count(b.info)) }

// Constant is the value of argument k when it is one that the engine can compute before the statement runs: nil for NULL,
// bool, int64, float64, string, or []float32 for lists of numbers. It is what the statement says, converted to the type of
// the function's parameter where the types differ. Parameters of the statement are constants only when FROM holds one, which
// puts planning off until they have values; otherwise the engine binds first.
func (b *Binding) Constant(k int) (value any, ok bool) {
	e := C.duckdb_scalar_function_bind_get_argument(b.info, C.idx_t(k))
	if e == nil {
		return nil, false
	}
	defer C.duckdb_destroy_expression(&e)
	if !C.duckdb_expression_is_foldable(e) {
		return nil, false
	}
	var ctx C.duckdb_client_context
	C.duckdb_scalar_function_get_client_context(b.info, &ctx)
	defer C.duckdb_destroy_client_context(&ctx)
	var v C.duckdb_value
	err := C.duckdb_expression_fold(ctx, e, &v)
	if err != nil {
		defer C.duckdb_destroy_error_data(&err)
		if C.duckdb_error_data_has_error(err) {
			return nil, false
		}
	}
	if v == nil {
		return nil, false
	}
	defer C.duckdb_destroy_value(&v)
	return goValue(v)
}

func goValue(v C.duckdb_value) (any, bool) {
	if C.duckdb_is_null_value(v) {
		return nil, true
	}
	switch C.duckdb_get_type_id(C.duckdb_get_value_type(v)) {
	case C.OV_TYPE_BOOLEAN:
		return bool(C.duckdb_get_bool(v)), true
	case C.OV_TYPE_TINYINT, C.OV_TYPE_SMALLINT, C.OV_TYPE_INTEGER, C.OV_TYPE_BIGINT, C.OV_TYPE_UTINYINT, C.OV_TYPE_USMALLINT, C.OV_TYPE_UINTEGER:
		return int64(C.duckdb_get_int64(v)), true
	case C.OV_TYPE_FLOAT, C.OV_TYPE_DOUBLE, C.OV_TYPE_DECIMAL:
		return float64(C.duckdb_get_double(v)), true
	case C.OV_TYPE_VARCHAR:
		s := C.duckdb_get_varchar(v)
		defer C.duckdb_free(unsafe.Pointer(s))
		return C.GoString(s), true
	case C.OV_TYPE_LIST:
		out := make([]float32, C.duckdb_get_list_size(v))
		for i := range out {
			e := C.duckdb_get_list_child(v, C.idx_t(i))
			x, ok := goValue(e)
			C.duckdb_destroy_value(&e)
			switch x := x.(type) {
			case int64:
				out[i] = float32(x)
			case float64:
				out[i] = float32(x)
			default:
				ok = false
			}
			if !ok {
				return nil, false
			}
		}
		return out, true
	}
	return nil, false
}

// functionHandles counts the Go values that the engine holds for functions, calls and aggregate states.
var functionHandles atomic.Int64

// FunctionHandles is the number of Go values that the engine holds for functions, for tests of what is left behind.
func FunctionHandles() int64 { return functionHandles.Load() }

func functionHandle(v any) C.uintptr_t {
	functionHandles.Add(1)
	return C.uintptr_t(cgo.NewHandle(v))
}

//export ovFunctionDrop
func ovFunctionDrop(h C.uintptr_t) {
	if h != 0 {
		cgo.Handle(h).Delete()
		functionHandles.Add(-1)
	}
}

// definition is an ov_function in C memory, with everything that belongs to it.
func definition(name string, args []Type, varargs bool, result Type, handle C.uintptr_t) (*C.ov_function, func()) {
	d := (*C.ov_function)(C.calloc(1, C.size_t(unsafe.Sizeof(C.ov_function{}))))
	fixed := args
	if varargs {
		fixed = args[:len(args)-1]
		d.varargs = args[len(args)-1].create()
	}
	d.name, d.result, d.nargs, d.handle = C.CString(name), result.create(), C.int(len(fixed)), handle
	d.args = (*C.duckdb_logical_type)(C.calloc(C.size_t(len(fixed)+1), C.size_t(unsafe.Sizeof(d.result))))
	types := unsafe.Slice(d.args, len(fixed))
	for i, t := range fixed {
		types[i] = t.create()
	}
	return d, func() {
		for i := range types {
			C.duckdb_destroy_logical_type(&types[i])
		}
		C.duckdb_destroy_logical_type(&d.result)
		if d.varargs != nil {
			C.duckdb_destroy_logical_type(&d.varargs)
		}
		C.free(unsafe.Pointer(d.args))
		C.free(unsafe.Pointer(d.name))
		C.free(unsafe.Pointer(d))
	}
}

func refused(what string) error {
	return errs.New(errs.Internal, "engine.register", "the engine refused a function", errs.On(what))
}

// RegisterScalar makes a function known to all queries of the DB.
func (db *DB) RegisterScalar(f Scalar) error {
	ways := 0
	for _, set := range []bool{f.Row != nil, f.Start != nil, f.Batch != nil, f.Bind != nil} {
		if set {
			ways++
		}
	}
	if ways != 1 || f.Varargs && len(f.Args) == 0 {
		return errs.New(errs.Internal, "engine.register", "a function has one of Row, Start, Batch and Bind, and something to repeat", errs.On(f.Name))
	}
	d, free := definition(f.Name, f.Args, f.Varargs, f.Returns, functionHandle(&scalar{Scalar: f, db: db}))
	defer free()
	d.nulls, d.is_volatile = C.bool(f.Nulls), C.bool(f.Volatile)
	db.control.Lock()
	defer db.control.Unlock()
	if C.ov_scalar(db.conns[0], d) != 0 {
		return refused(f.Name)
	}
	return nil
}

// RegisterAggregate makes an aggregate known to all queries of the DB.
func (db *DB) RegisterAggregate(f Aggregate) error {
	d, free := definition(f.Name, f.Args, false, f.Returns, functionHandle(&f))
	defer free()
	db.control.Lock()
	defer db.control.Unlock()
	if C.ov_aggregate(db.conns[0], d) != 0 {
		return refused(f.Name)
	}
	return nil
}

// RegisterCast makes a conversion known to all queries of the DB.
func (db *DB) RegisterCast(c Cast) error {
	from, to := c.From.create(), c.To.create()
	defer C.duckdb_destroy_logical_type(&from)
	defer C.duckdb_destroy_logical_type(&to)
	db.control.Lock()
	defer db.control.Unlock()
	if C.ov_cast(db.conns[0], from, to, C.int64_t(c.Cost), functionHandle(&c)) != 0 {
		return errs.Newf(errs.Internal, "engine.register", "the engine refused a cast from %d to %d", c.From, c.To)
	}
	return nil
}

// registerAliases makes the types known by their names, and the aggregates of vector, which are in C.
func (db *DB) registerAliases() error {
	for t, name := range aliases {
		v := t.create()
		defer C.duckdb_destroy_logical_type(&v)
		if C.duckdb_register_logical_type(db.conns[0], v, nil) != 0 || t == Vector && C.ov_vector_aggregates(db.conns[0], v) != 0 {
			return errs.New(errs.Internal, "engine.open", "cannot register a type", errs.On(name))
		}
	}
	return nil
}

// scalar is a registered function.
type scalar struct {
	Scalar
	db *DB
}

// bound is a call of a function in a statement that was prepared.
type bound struct {
	start func() Row // nil: of a function with Batch
	run   *Result    // nil in a statement that is not a query
}

// patience is how many rows a function computes before it asks whether anybody still waits.
const patience = 16

//export ovScalarBind
func ovScalarBind(h C.uintptr_t, info C.duckdb_bind_info, out *C.uintptr_t) (failed *C.char) {
	defer recovered(&failed)
	f := cgo.Handle(h).Value().(*scalar)
	b := &bound{start: f.Start}
	switch {
	case f.Row != nil:
		b.start = func() Row { return f.Row }
	case f.Bind != nil:
		var err error
		if b.start, err = f.Bind(&Binding{info: info}); err != nil {
			return failure(err)
		}
	}
	var ctx C.duckdb_client_context
	C.duckdb_scalar_function_get_client_context(info, &ctx)
	defer C.duckdb_destroy_client_context(&ctx)
	if at := f.db.runs[C.duckdb_client_context_get_connection_id(ctx)]; at != nil {
		b.run = at.Load()
	}
	*out = functionHandle(b)
	return nil
}

// arguments are the columns of a chunk; the last type holds for those beyond it.
func arguments(in C.duckdb_data_chunk, types []Type) []Column {
	args := make([]Column, C.duckdb_data_chunk_get_column_count(in))
	for k := range args {
		args[k] = columnOf(C.duckdb_data_chunk_get_vector(in, C.idx_t(k)), types[min(k, len(types)-1)])
	}
	return args
}

func anyNull(args []Column, i int) bool {
	for k := range args {
		if args[k].Null(i) {
			return true
		}
	}
	return false
}

//export ovScalarCall
func ovScalarCall(h, call C.uintptr_t, in C.duckdb_data_chunk, out C.duckdb_vector) (failed *C.char) {
	defer recovered(&failed)
	f, b := cgo.Handle(h).Value().(*scalar), cgo.Handle(call).Value().(*bound)
	var row Row
	if b.start != nil {
		row = b.start()
	}
	args, o := arguments(in, f.Args), outputOf(out, f.Returns)
	var rows []int // of Batch
	for i := range int(C.duckdb_data_chunk_get_size(in)) {
		if !f.Nulls && anyNull(args, i) {
			o.Null(i)
			continue
		}
		if i%patience == patience-1 {
			if err := b.ended(); err != nil {
				return failure(err)
			}
		}
		if err := whole(args, i); err != nil {
			return failure(err)
		}
		if row == nil {
			rows = append(rows, i)
			continue
		}
		if err := row(i, args, &o); err != nil {
			return failure(err)
		}
	}
	if len(rows) > 0 {
		if err := f.Batch(rows, args, &o, b.ended); err != nil {
			return failure(err)
		}
	}
	return nil
}

// ended is an error once nobody waits for the query.
func (b *bound) ended() error {
	if b.run != nil && b.run.givenUp.Load() {
		return errs.New(errs.Canceled, "engine.callback", "the query was given up")
	}
	return nil
}

//export ovCastCall
func ovCastCall(h C.uintptr_t, at, n C.idx_t, in, out C.duckdb_vector, row *C.idx_t) (failed *C.char) {
	i := int(at)
	defer func() {
		if failed != nil {
			*row = C.idx_t(i)
		}
	}()
	defer recovered(&failed)
	c := cgo.Handle(h).Value().(*Cast)
	cols, o := []Column{columnOf(in, c.From)}, outputOf(out, c.To)
	col := &cols[0]
	for ; i < int(n); i++ {
		if col.Null(i) {
			o.Null(i)
			continue
		}
		err := whole(cols, i)
		if err == nil {
			err = c.Row(i, col, &o)
		}
		if err != nil {
			o.Null(i)
			return failure(err)
		}
	}
	return nil
}

//export ovAggregateAdd
func ovAggregateAdd(h C.uintptr_t, in C.duckdb_data_chunk, states **C.uintptr_t) (failed *C.char) {
	defer recovered(&failed)
	f := cgo.Handle(h).Value().(*Aggregate)
	args := arguments(in, f.Args)
	// Rows of one group often follow each other: the handle is looked up when the group changes.
	var of *C.uintptr_t
	var state any
	for i, s := range unsafe.Slice(states, int(C.duckdb_data_chunk_get_size(in))) {
		if anyNull(args, i) {
			continue
		}
		if err := whole(args, i); err != nil {
			return failure(err)
		}
		if s != of {
			if *s == 0 {
				*s = functionHandle(f.New())
			}
			of, state = s, cgo.Handle(*s).Value()
		}
		if err := f.Add(state, i, args); err != nil {
			return failure(err)
		}
	}
	return nil
}

//export ovAggregateMerge
func ovAggregateMerge(h C.uintptr_t, from, to **C.uintptr_t, n C.idx_t) (failed *C.char) {
	defer recovered(&failed)
	f := cgo.Handle(h).Value().(*Aggregate)
	targets := unsafe.Slice(to, int(n))
	for i, s := range unsafe.Slice(from, int(n)) {
		if *s == 0 {
			continue
		}
		// The source may be combined again (a window does so), hence it is merged, never moved.
		t := targets[i]
		if *t == 0 {
			*t = functionHandle(f.New())
		}
		if err := f.Merge(cgo.Handle(*t).Value(), cgo.Handle(*s).Value()); err != nil {
			return failure(err)
		}
	}
	return nil
}

//export ovAggregateDone
func ovAggregateDone(h C.uintptr_t, states **C.uintptr_t, out C.duckdb_vector, n, offset C.idx_t) (failed *C.char) {
	defer recovered(&failed)
	f := cgo.Handle(h).Value().(*Aggregate)
	o := outputOf(out, f.Returns)
	for i, s := range unsafe.Slice(states, int(n)) {
		if *s == 0 {
			o.Null(int(offset) + i)
			continue
		}
		if err := f.Done(cgo.Handle(*s).Value(), int(offset)+i, &o); err != nil {
			return failure(err)
		}
	}
	return nil
}

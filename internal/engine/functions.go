package engine

/*
#include <stdlib.h>
#include "engine.h"
*/
import "C"

import (
	"sync"
	"unsafe"

	"github.com/overlakedb/overlake/internal/errs"
)

// Type is an argument or result type of a function written in Go.
type Type uint8

// The types.
const (
	Bool       Type = iota
	SmallInts       // SMALLINT[]
	Int32           // INTEGER
	Int64           // BIGINT
	Ints            // INTEGER[]
	BigInts         // BIGINT[]
	Float32         // FLOAT
	Float64         // DOUBLE
	Text            // VARCHAR
	FloatList       // FLOAT[]
	DoubleList      // DOUBLE[]
	Vector          // the alias vector of FLOAT[]
)

func (t Type) create() C.duckdb_logical_type {
	list := func(id C.int) C.duckdb_logical_type {
		e := C.duckdb_create_logical_type(id)
		defer C.duckdb_destroy_logical_type(&e)
		return C.duckdb_create_list_type(e)
	}
	switch t {
	case Bool:
		return C.duckdb_create_logical_type(C.OV_TYPE_BOOLEAN)
	case Int32:
		return C.duckdb_create_logical_type(C.OV_TYPE_INTEGER)
	case Int64:
		return C.duckdb_create_logical_type(C.OV_TYPE_BIGINT)
	case Float32:
		return C.duckdb_create_logical_type(C.OV_TYPE_FLOAT)
	case Float64:
		return C.duckdb_create_logical_type(C.OV_TYPE_DOUBLE)
	case Text:
		return C.duckdb_create_logical_type(C.OV_TYPE_VARCHAR)
	case SmallInts:
		return list(C.OV_TYPE_SMALLINT)
	case Ints:
		return list(C.OV_TYPE_INTEGER)
	case BigInts:
		return list(C.OV_TYPE_BIGINT)
	case FloatList:
		return list(C.OV_TYPE_FLOAT)
	case DoubleList:
		return list(C.OV_TYPE_DOUBLE)
	}
	v := list(C.OV_TYPE_FLOAT)
	name := C.CString("vector")
	defer C.free(unsafe.Pointer(name))
	C.duckdb_logical_type_set_alias(v, name)
	return v
}

// Column is one argument of a call: a typed view over the engine's memory, valid during the call.
type Column struct {
	data, child, valid, childValid unsafe.Pointer
}

func columnOf(v C.duckdb_vector, t Type) Column {
	c := Column{data: C.duckdb_vector_get_data(v), valid: unsafe.Pointer(C.duckdb_vector_get_validity(v))}
	switch t {
	case SmallInts, Ints, BigInts, FloatList, DoubleList, Vector:
		ch := C.duckdb_list_vector_get_child(v)
		c.child = C.duckdb_vector_get_data(ch)
		c.childValid = unsafe.Pointer(C.duckdb_vector_get_validity(ch))
	}
	return c
}

func bit(words unsafe.Pointer, i uint64) bool {
	return words == nil || *(*uint64)(unsafe.Add(words, i>>6<<3))>>(i&63)&1 == 1
}

// Null reports whether row i is NULL.
func (c *Column) Null(i int) bool { return !bit(c.valid, uint64(i)) }

// Bool is the BOOLEAN at row i.
func (c *Column) Bool(i int) bool { return *(*bool)(unsafe.Add(c.data, i)) }

// Int32 is the INTEGER at row i.
func (c *Column) Int32(i int) int32 { return *(*int32)(unsafe.Add(c.data, i*4)) }

// Int64 is the BIGINT at row i.
func (c *Column) Int64(i int) int64 { return *(*int64)(unsafe.Add(c.data, i*8)) }

// Float64 is the DOUBLE at row i.
func (c *Column) Float64(i int) float64 { return *(*float64)(unsafe.Add(c.data, i*8)) }

// Text is the VARCHAR at row i, without a copy: it must not be kept.
func (c *Column) Text(i int) string {
	s := unsafe.Add(c.data, i*16)
	n := *(*uint32)(s)
	if n <= 12 {
		return unsafe.String((*byte)(unsafe.Add(s, 4)), n)
	}
	return unsafe.String(*(**byte)(unsafe.Add(s, 8)), n)
}

func (c *Column) entry(i int) (off, n uint64) {
	e := (*[2]uint64)(unsafe.Add(c.data, i*16))
	return e[0], e[1]
}

// Floats is the list of FLOAT at row i, without a copy: it must not be kept.
func (c *Column) Floats(i int) []float32 {
	off, n := c.entry(i)
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Add(c.child, off*4)), n)
}

// Doubles is the list of DOUBLE at row i, without a copy.
func (c *Column) Doubles(i int) []float64 {
	off, n := c.entry(i)
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*float64)(unsafe.Add(c.child, off*8)), n)
}

// Ints is the list of INTEGER at row i, without a copy.
func (c *Column) Ints(i int) []int32 {
	off, n := c.entry(i)
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*int32)(unsafe.Add(c.child, off*4)), n)
}

// BigInts is the list of BIGINT at row i, without a copy.
func (c *Column) BigInts(i int) []int64 {
	off, n := c.entry(i)
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*int64)(unsafe.Add(c.child, off*8)), n)
}

// HasNullElement reports whether the list at row i holds a NULL.
func (c *Column) HasNullElement(i int) bool {
	if c.childValid == nil {
		return false
	}
	off, n := c.entry(i)
	for k := off; k < off+n; k++ {
		if !bit(c.childValid, k) {
			return true
		}
	}
	return false
}

// Output takes the results of a call, row by row in ascending order.
type Output struct {
	v    C.duckdb_vector
	t    Type
	data unsafe.Pointer
	used uint64 // elements of the list child so far
}

func outputOf(v C.duckdb_vector, t Type) Output {
	o := Output{v: v, t: t, data: C.duckdb_vector_get_data(v)}
	if t == Vector || t == FloatList {
		o.used = uint64(C.duckdb_list_vector_get_size(v))
	}
	return o
}

// Null makes row i NULL.
func (o *Output) Null(i int) {
	C.duckdb_vector_ensure_validity_writable(o.v)
	w := (*uint64)(unsafe.Add(unsafe.Pointer(C.duckdb_vector_get_validity(o.v)), i>>6<<3))
	*w &^= 1 << (i & 63)
	if o.t == Vector || o.t == FloatList {
		*(*[2]uint64)(unsafe.Add(o.data, i*16)) = [2]uint64{o.used, 0}
	}
}

// Bool sets row i.
func (o *Output) Bool(i int, v bool) { *(*bool)(unsafe.Add(o.data, i)) = v }

// Int32 sets row i.
func (o *Output) Int32(i int, v int32) { *(*int32)(unsafe.Add(o.data, i*4)) = v }

// Float32 sets row i.
func (o *Output) Float32(i int, v float32) { *(*float32)(unsafe.Add(o.data, i*4)) = v }

// Float64 sets row i.
func (o *Output) Float64(i int, v float64) { *(*float64)(unsafe.Add(o.data, i*8)) = v }

// Text sets row i.
func (o *Output) Text(i int, s string) {
	p := (*C.char)(unsafe.Pointer(unsafe.StringData(s)))
	C.duckdb_vector_assign_string_element_len(o.v, C.idx_t(i), p, C.idx_t(len(s)))
}

// Floats sets row i to a list.
func (o *Output) Floats(i int, v []float32) {
	n := uint64(len(v))
	C.duckdb_list_vector_reserve(o.v, C.idx_t(o.used+n))
	C.duckdb_list_vector_set_size(o.v, C.idx_t(o.used+n))
	child := C.duckdb_vector_get_data(C.duckdb_list_vector_get_child(o.v))
	copy(unsafe.Slice((*float32)(unsafe.Add(child, o.used*4)), n), v)
	*(*[2]uint64)(unsafe.Add(o.data, i*16)) = [2]uint64{o.used, n}
	o.used += n
}

// Scalar is a function written in Go. Several may share a name and differ in their arguments; a name of DuckDB's own
// gains an overload.
type Scalar struct {
	Name    string
	Args    []Type
	Returns Type
	// Row computes row i. It is not called for rows with a NULL argument, which give NULL. It may be called by several
	// threads at once.
	Row func(i int, args []Column, out *Output) error
	// Start, when set, gives the Row function for one batch of rows, so that a batch can keep state of its own.
	Start func() func(i int, args []Column, out *Output) error
}

// Cast is a conversion written in Go, under the rules of Scalar.
type Cast struct {
	From, To Type
	// Cost ranks the cast among those that are made without being asked for; negative means only on request.
	Cost int64
	Row  func(i int, in *Column, out *Output) error
}

// Functions live as long as the process: DuckDB offers no way to take one back. The slices only grow.
var (
	functionsMu sync.RWMutex
	scalars     []*Scalar
	casts       []*Cast
)

// RegisterScalar makes a function known to all queries of the DB.
func (db *DB) RegisterScalar(f Scalar) error {
	functionsMu.Lock()
	scalars = append(scalars, &f)
	id := len(scalars) - 1
	functionsMu.Unlock()
	name := C.CString(f.Name)
	defer C.free(unsafe.Pointer(name))
	args := make([]C.duckdb_logical_type, len(f.Args)+1)
	for i, t := range f.Args {
		args[i] = t.create()
		defer C.duckdb_destroy_logical_type(&args[i])
	}
	result := f.Returns.create()
	defer C.duckdb_destroy_logical_type(&result)
	db.control.Lock()
	defer db.control.Unlock()
	// The array of arguments holds C pointers only, but lives in Go memory: the call does not keep it.
	if C.ov_scalar(db.conns[0], name, (*C.duckdb_logical_type)(pinned(args)), C.int(len(f.Args)), result, false, C.uintptr_t(id)) != 0 {
		return errs.New(errs.Internal, "engine.register", "the engine refused a function", errs.On(f.Name))
	}
	return nil
}

// pinned copies the handles to C memory for the duration of a registration. Registrations happen once a process, so the
// few bytes stay.
func pinned(args []C.duckdb_logical_type) unsafe.Pointer {
	p := C.malloc(C.size_t(len(args)) * C.size_t(unsafe.Sizeof(args[0])))
	copy(unsafe.Slice((*C.duckdb_logical_type)(p), len(args)), args)
	return p
}

// RegisterCast makes a conversion known to all queries of the DB.
func (db *DB) RegisterCast(c Cast) error {
	functionsMu.Lock()
	casts = append(casts, &c)
	id := len(casts) - 1
	functionsMu.Unlock()
	from, to := c.From.create(), c.To.create()
	defer C.duckdb_destroy_logical_type(&from)
	defer C.duckdb_destroy_logical_type(&to)
	db.control.Lock()
	defer db.control.Unlock()
	if C.ov_cast(db.conns[0], from, to, C.int64_t(c.Cost), C.uintptr_t(id)) != 0 {
		return errs.Newf(errs.Internal, "engine.register", "the engine refused a cast from %d to %d", c.From, c.To)
	}
	return nil
}

func (db *DB) registerVector() error {
	v := Vector.create()
	defer C.duckdb_destroy_logical_type(&v)
	if C.duckdb_register_logical_type(db.conns[0], v, nil) != 0 || C.ov_vector_aggregates(db.conns[0], v) != 0 {
		return errs.New(errs.Internal, "engine.open", "cannot register the vector type")
	}
	return nil
}

//export ovScalarCall
func ovScalarCall(id C.uintptr_t, in C.duckdb_data_chunk, out C.duckdb_vector) (failed *C.char) {
	defer recovered(&failed)
	functionsMu.RLock()
	f := scalars[id]
	functionsMu.RUnlock()
	args := make([]Column, len(f.Args))
	for k, t := range f.Args {
		args[k] = columnOf(C.duckdb_data_chunk_get_vector(in, C.idx_t(k)), t)
	}
	o := outputOf(out, f.Returns)
	row := f.Row
	if f.Start != nil {
		row = f.Start()
	}
	n := int(C.duckdb_data_chunk_get_size(in))
rows:
	for i := range n {
		for k := range args {
			if args[k].Null(i) {
				o.Null(i)
				continue rows
			}
		}
		if err := row(i, args, &o); err != nil {
			return failure(err)
		}
	}
	return nil
}

//export ovCastCall
func ovCastCall(id C.uintptr_t, at, n C.idx_t, in, out C.duckdb_vector, row *C.idx_t) (failed *C.char) {
	defer recovered(&failed)
	functionsMu.RLock()
	c := casts[id]
	functionsMu.RUnlock()
	col, o := columnOf(in, c.From), outputOf(out, c.To)
	for i := int(at); i < int(n); i++ {
		if col.Null(i) {
			o.Null(i)
			continue
		}
		if err := c.Row(i, &col, &o); err != nil {
			*row = C.idx_t(i)
			o.Null(i)
			return failure(err)
		}
	}
	return nil
}

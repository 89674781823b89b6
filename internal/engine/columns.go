package engine

/*
#include <stdlib.h>
#include "engine.h"
*/
import "C"

import (
	"unicode/utf8"
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
	Halfvec         // the alias halfvec of FLOAT[]
	Sparsevec       // the alias sparsevec of BLOB: the key of a sparse vector (see package pgvector)
	Blob            // BLOB
	Bit             // BIT
)

// aliases are the names of the types that are the engine's own in all but name.
var aliases = map[Type]string{Vector: "vector", Halfvec: "halfvec", Sparsevec: "sparsevec"}

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
	case Blob:
		return C.duckdb_create_logical_type(C.OV_TYPE_BLOB)
	case Bit:
		return C.duckdb_create_logical_type(C.OV_TYPE_BIT)
	}
	v := Blob.create
	if t != Sparsevec {
		v = FloatList.create
	}
	alias := v()
	name := C.CString(aliases[t])
	defer C.free(unsafe.Pointer(name))
	C.duckdb_logical_type_set_alias(alias, name)
	return alias
}

// aliasOf is the type of which a logical type is the alias, with its name; "" when it is none.
func aliasOf(t C.duckdb_logical_type) (Type, string) {
	a := C.duckdb_logical_type_get_alias(t)
	if a == nil {
		return 0, ""
	}
	defer C.duckdb_free(unsafe.Pointer(a))
	name := C.GoString(a)
	for of, n := range aliases {
		if n == name {
			return of, name
		}
	}
	return 0, ""
}

// listOfFloats tells whether values of the type are lists of FLOAT.
func (t Type) listOfFloats() bool { return t == Vector || t == Halfvec || t == FloatList }

// Column is one argument of a call: a typed view over the engine's memory, valid during the call.
type Column struct {
	data, child, valid, childValid unsafe.Pointer
	vector                         bool
}

func columnOf(v C.duckdb_vector, t Type) Column {
	c := Column{data: C.duckdb_vector_get_data(v), valid: unsafe.Pointer(C.duckdb_vector_get_validity(v)), vector: t == Vector || t == Halfvec}
	switch t {
	case SmallInts, Ints, BigInts, FloatList, DoubleList, Vector, Halfvec:
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
	b := c.Bytes(i)
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// Bytes is the BLOB at row i, without a copy: it must not be kept.
func (c *Column) Bytes(i int) []byte { return textAt(unsafe.Add(c.data, i*16)) }

// Bits appends the BIT at row i to into, packed as PostgreSQL and NumPy pack bits, and gives the number of bits: bit k is
// bit 7-k%8 of byte k/8, and unused bits are 0.
func (c *Column) Bits(i int, into []byte) ([]byte, int) {
	raw := c.Bytes(i)
	n := bitCount(raw)
	if n == 0 {
		return into, 0
	}
	pad, raw := uint(raw[0]), raw[1:]
	for k, b := range raw {
		b <<= pad
		if k+1 < len(raw) {
			b |= raw[k+1] >> (8 - pad)
		}
		into = append(into, b)
	}
	return into, n
}

// bitCount is the number of bits of the engine's form of a BIT: the first byte counts the unused bits, which are the
// highest ones of the second byte and are set.
func bitCount(raw []byte) int {
	if len(raw) < 2 || raw[0] > 8 {
		return 0
	}
	return 8*(len(raw)-1) - int(raw[0])
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

// whole refuses vectors with a NULL element. DuckDB drops casts between the alias and its base type, so lists that no cast
// of ours has checked come to functions of vectors; what stands in the place of the NULL is any number.
func whole(args []Column, i int) error {
	for k := range args {
		if args[k].vector && args[k].HasNullElement(i) {
			return errs.New(errs.Invalid, "engine.callback", "array must not contain nulls")
		}
	}
	return nil
}

// Output takes the results of a call, row by row in ascending order.
type Output struct {
	v    C.duckdb_vector
	t    Type
	data unsafe.Pointer
	used uint64 // elements of the list child so far
	bits []byte // the BIT being made
}

func outputOf(v C.duckdb_vector, t Type) Output {
	o := Output{v: v, t: t, data: C.duckdb_vector_get_data(v)}
	if t.listOfFloats() {
		o.used = uint64(C.duckdb_list_vector_get_size(v))
	}
	return o
}

// Null makes row i NULL.
func (o *Output) Null(i int) {
	C.duckdb_vector_ensure_validity_writable(o.v)
	w := (*uint64)(unsafe.Add(unsafe.Pointer(C.duckdb_vector_get_validity(o.v)), i>>6<<3))
	*w &^= 1 << (i & 63)
	if o.t.listOfFloats() {
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

// Text sets row i. It panics, which fails the query, when s is not UTF-8: the engine would make it NULL.
func (o *Output) Text(i int, s string) {
	if !utf8.ValidString(s) {
		panic("a function gave text that is not UTF-8")
	}
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

// List sets row i to the list of FLOAT at row i of a column, NULL elements too.
func (o *Output) List(i int, c *Column) {
	at := o.used
	o.Floats(i, c.Floats(i))
	if !c.HasNullElement(i) {
		return
	}
	child := C.duckdb_list_vector_get_child(o.v)
	C.duckdb_vector_ensure_validity_writable(child)
	words := unsafe.Pointer(C.duckdb_vector_get_validity(child))
	off, n := c.entry(i)
	for k := range n {
		if !bit(c.childValid, off+k) {
			*(*uint64)(unsafe.Add(words, (at+k)>>6<<3)) &^= 1 << ((at + k) & 63)
		}
	}
}

// Bytes sets row i to a BLOB.
func (o *Output) Bytes(i int, b []byte) {
	p := (*C.char)(unsafe.Pointer(unsafe.SliceData(b)))
	C.duckdb_unsafe_vector_assign_string_element_len(o.v, C.idx_t(i), p, C.idx_t(len(b)))
}

// Bits sets row i to the first n bits of packed, which are packed as Column.Bits gives them.
func (o *Output) Bits(i int, packed []byte, n int) {
	// Eight unused bits are more than the engine itself makes. It is how none at all can be written.
	pad := uint(8)
	if n > 0 {
		pad = uint(-n & 7)
	}
	o.bits = append(o.bits[:0], byte(pad), 0xff)
	for k := range (n + 7) / 8 {
		b := packed[k] >> pad
		if k > 0 {
			b |= packed[k-1] << (8 - pad)
			o.bits = append(o.bits, b)
		} else {
			o.bits[1] = b | ^byte(0xff>>pad)
		}
	}
	o.Bytes(i, o.bits)
}

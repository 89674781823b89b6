package engine

/*
#include <stdlib.h>
#include "engine.h"
*/
import "C"

import (
	"fmt"
	"strings"
	"time"
	"unsafe"

	"github.com/overlakedb/overlake/internal/errs"
)

// Arg is a value for a parameter of a statement: $1, $2 … in order when Name is empty, else $Name. Values: nil, bool,
// all integer types, float32, float64, string, []byte, []float32, []float64, []string, []FileColumn, time.Time.
type Arg struct {
	Name  string
	Value any
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
	case []string:
		st = r.bindTexts(at, v)
	case []FileColumn:
		st = r.bindSchema(at, v)
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

// FileColumn is a column of Parquet files, for read_parquet's schema: found by its field id, with a name, a type and what
// stands for it in files that lack it. As an argument, a []FileColumn is the value that schema takes.
type FileColumn struct {
	ID         int32
	Name, Type string
	Default    *string // as text that casts to the type; nil is NULL
}

func (r *Result) bindSchema(at C.idx_t, columns []FileColumn) C.duckdb_state {
	ids := make([]C.int32_t, len(columns)+1)
	defaults := make([]C.bool, len(columns)+1)
	var p packed
	for i, c := range columns {
		ids[i] = C.int32_t(c.ID)
		p.add(c.Name)
		p.add(c.Type)
		def := ""
		if c.Default != nil {
			def, defaults[i] = *c.Default, true
		}
		p.add(def)
	}
	all, ends := p.pointers()
	return C.ov_bind_schema(&r.q, at, unsafe.SliceData(ids), all, ends, unsafe.SliceData(defaults), C.idx_t(len(columns)))
}

func (r *Result) bindTexts(at C.idx_t, v []string) C.duckdb_state {
	var p packed
	for _, s := range v {
		p.add(s)
	}
	all, ends := p.pointers()
	return C.ov_bind_texts(&r.q, at, all, ends, C.idx_t(len(v)))
}

// packed is many texts in one piece of memory with the places where they end: so they cross into C in one call.
type packed struct {
	all  []byte
	ends []C.idx_t
}

func (p *packed) add(s string) {
	p.all = append(p.all, s...)
	p.ends = append(p.ends, C.idx_t(len(p.all)))
}

// pointers gives the texts, and the ends with a 0 before the first.
func (p *packed) pointers() (*C.char, *C.idx_t) {
	return (*C.char)(unsafe.Pointer(unsafe.SliceData(append(p.all, 0)))), unsafe.SliceData(append([]C.idx_t{0}, p.ends...))
}

package engine

/*
#include <stdlib.h>
#include "engine.h"
*/
import "C"

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/pgvector"
)

// A sink collects the rows of one column, chunk by chunk, into the buffers of an Arrow array. The engine's chunks are
// flat: row i of a vector lies at index i of its data, and a validity mask says which rows are NULL.
//
// What becomes what: HUGEINT and UHUGEINT decimal128(38,0) (a UHUGEINT above the range is an error); ENUM, UUID, BIT,
// TIMETZ and sparsevec text; TIMESTAMPTZ a timestamp in UTC; everything else its namesake. BIGNUM, UNION, VARIANT and GEOMETRY are
// Unsupported.
type sink interface {
	dataType() arrow.DataType
	// add takes n rows of a vector, from row off on.
	add(v C.duckdb_vector, off, n int) error
	// size is about how many bytes were added since the last take.
	size() int
	// take gives what was added since the last take.
	take() arrow.ArrayData
}

// maxText bounds the bytes of one text or binary column in a batch: Arrow counts them with 32 bits.
const maxText = math.MaxInt32

// validity collects which rows are valid. Its bits are made only when the first NULL comes.
type validity struct {
	rows, nulls int
	bits        []byte
}

func (d *validity) add(v C.duckdb_vector, off, n int) {
	words := unsafe.Pointer(C.duckdb_vector_get_validity(v))
	if words != nil && d.bits == nil {
		for i := range n {
			if !bit(words, uint64(off+i)) {
				d.bits = make([]byte, 0, (d.rows+n+7)/8)
				for r := 0; r < d.rows; r += 8 {
					d.bits = append(d.bits, 0xff)
				}
				break
			}
		}
	}
	if d.bits != nil {
		d.bits = grow(d.bits, (d.rows+n+7)/8)
		for i := range n {
			r := d.rows + i
			if bit(words, uint64(off+i)) {
				d.bits[r>>3] |= 1 << (r & 7)
			} else {
				d.bits[r>>3] &^= 1 << (r & 7)
				d.nulls++
			}
		}
	}
	d.rows += n
}

// take gives the row count, the null count and the bitmap buffer.
func (d *validity) take() (rows, nulls int, buf *memory.Buffer) {
	rows, nulls = d.rows, d.nulls
	if d.bits != nil {
		buf = memory.NewBufferBytes(d.bits)
	}
	*d = validity{}
	return rows, nulls, buf
}

func grow(b []byte, n int) []byte {
	if n <= len(b) {
		return b
	}
	return append(b, make([]byte, n-len(b))...)
}

func data(v C.duckdb_vector) unsafe.Pointer { return unsafe.Pointer(C.duckdb_vector_get_data(v)) }

// fixed copies values whose memory is the same on both sides.
type fixed struct {
	validity
	typ   arrow.DataType
	width int
	buf   []byte
	last  int // bytes of the last batch, which the next one will have as well
}

func (s *fixed) dataType() arrow.DataType { return s.typ }

func (s *fixed) add(v C.duckdb_vector, off, n int) error {
	s.validity.add(v, off, n)
	if s.buf == nil {
		s.buf = make([]byte, 0, max(s.last, n*s.width))
	}
	s.buf = append(s.buf, unsafe.Slice((*byte)(unsafe.Add(data(v), off*s.width)), n*s.width)...)
	return nil
}

func (s *fixed) size() int { return len(s.buf) }

func (s *fixed) take() arrow.ArrayData {
	rows, nulls, valid := s.validity.take()
	d := array.NewData(s.typ, rows, []*memory.Buffer{valid, memory.NewBufferBytes(s.buf)}, nil, nulls, 0)
	s.last, s.buf = len(s.buf), nil
	return d
}

// bools packs bytes into bits.
type bools struct {
	validity
	buf []byte
}

func (s *bools) dataType() arrow.DataType { return arrow.FixedWidthTypes.Boolean }

func (s *bools) add(v C.duckdb_vector, off, n int) error {
	at := s.rows
	s.validity.add(v, off, n)
	s.buf = grow(s.buf, (s.rows+7)/8)
	for i, b := range unsafe.Slice((*byte)(unsafe.Add(data(v), off)), n) {
		if b != 0 {
			s.buf[(at+i)>>3] |= 1 << ((at + i) & 7)
		}
	}
	return nil
}

func (s *bools) size() int { return len(s.buf) }

func (s *bools) take() arrow.ArrayData {
	rows, nulls, valid := s.validity.take()
	d := array.NewData(arrow.FixedWidthTypes.Boolean, rows, []*memory.Buffer{valid, memory.NewBufferBytes(s.buf)}, nil, nulls, 0)
	s.buf = nil
	return d
}

// each makes the bytes of a fixed-width Arrow value of every row.
type each struct {
	fixed
	from int // bytes of a value in the engine
	one  func(p unsafe.Pointer, out []byte) error
}

func (s *each) add(v C.duckdb_vector, off, n int) error {
	s.validity.add(v, off, n)
	words := unsafe.Pointer(C.duckdb_vector_get_validity(v))
	at := len(s.buf)
	s.buf = grow(s.buf, at+n*s.width)
	p := data(v)
	for i := range n {
		if bit(words, uint64(off+i)) {
			if err := s.one(unsafe.Add(p, (off+i)*s.from), s.buf[at+i*s.width:at+(i+1)*s.width]); err != nil {
				return err
			}
		}
	}
	return nil
}

// texts collects text or bytes; one appends the value at p.
type texts struct {
	validity
	typ     arrow.DataType
	from    int
	one     func(b []byte, p unsafe.Pointer) []byte
	offsets []int32
	buf     []byte
	last    int // bytes of the last batch
}

func (s *texts) dataType() arrow.DataType { return s.typ }

func (s *texts) add(v C.duckdb_vector, off, n int) error {
	s.validity.add(v, off, n)
	words := unsafe.Pointer(C.duckdb_vector_get_validity(v))
	if s.offsets == nil {
		s.offsets = append(make([]int32, 0, n+1), 0)
		s.buf = make([]byte, 0, s.last)
	}
	p := data(v)
	for i := range n {
		if bit(words, uint64(off+i)) {
			s.buf = s.one(s.buf, unsafe.Add(p, (off+i)*s.from))
			if len(s.buf) > maxText {
				return errs.New(errs.Exhausted, "engine.fetch", "one batch of a column holds more than 2 GiB of text",
					errs.Hint("select fewer or shorter values"))
			}
		}
		s.offsets = append(s.offsets, int32(len(s.buf)))
	}
	return nil
}

func (s *texts) size() int { return len(s.buf) + 4*len(s.offsets) }

func (s *texts) take() arrow.ArrayData {
	rows, nulls, valid := s.validity.take()
	if s.offsets == nil {
		s.offsets = []int32{0}
	}
	d := array.NewData(s.typ, rows, []*memory.Buffer{valid, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(s.offsets)), memory.NewBufferBytes(s.buf)}, nil, nulls, 0)
	s.last, s.offsets, s.buf = len(s.buf), nil, nil
	return d
}

// textAt is the engine's string at p: twelve bytes or less lie inline, longer ones elsewhere.
func textAt(p unsafe.Pointer) []byte {
	n := *(*uint32)(p)
	if n <= 12 {
		return unsafe.Slice((*byte)(unsafe.Add(p, 4)), n)
	}
	return unsafe.Slice(*(**byte)(unsafe.Add(p, 8)), n)
}

func appendText(b []byte, p unsafe.Pointer) []byte { return append(b, textAt(p)...) }

// appendBits writes a BIT as zeros and ones. Its first byte counts the padding bits at the front of the second one.
func appendBits(b []byte, p unsafe.Pointer) []byte {
	raw := textAt(p)
	if len(raw) == 0 {
		return b
	}
	for i := int(raw[0]); i < 8*(len(raw)-1); i++ {
		b = append(b, '0'+raw[1+i>>3]>>(7-i&7)&1)
	}
	return b
}

// sparses collects a column of sparsevec as pgvector's text.
type sparses struct {
	texts
	value  vec.Sparse
	failed error
}

func newSparses() sink {
	s := &sparses{}
	s.texts = texts{typ: arrow.BinaryTypes.String, from: 16, one: func(b []byte, p unsafe.Pointer) []byte {
		if s.failed == nil {
			s.failed = pgvector.ParseSparseKey(textAt(p), &s.value)
		}
		if s.failed != nil {
			return b
		}
		return pgvector.AppendSparse(b, &s.value)
	}}
	return s
}

func (s *sparses) add(v C.duckdb_vector, off, n int) error {
	if err := s.texts.add(v, off, n); err != nil {
		return err
	}
	return s.failed
}

// appendUUID writes a UUID, which is a 128-bit integer with its top bit flipped so that it sorts.
func appendUUID(b []byte, p unsafe.Pointer) []byte {
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:8], *(*uint64)(unsafe.Add(p, 8))^1<<63)
	binary.BigEndian.PutUint64(raw[8:], *(*uint64)(p))
	return fmt.Appendf(b, "%x-%x-%x-%x-%x", raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:])
}

// appendTimeTZ writes a time with its offset: microseconds above 24 bits of 57,599 minus the offset in seconds.
func appendTimeTZ(b []byte, p unsafe.Pointer) []byte {
	raw := *(*uint64)(p)
	micros, offset := raw>>24, 16*60*60-1-int(raw&0xffffff)
	b = fmt.Appendf(b, "%02d:%02d:%02d", micros/3600e6, micros/60e6%60, micros/1e6%60)
	if f := micros % 1e6; f > 0 {
		b = fmt.Appendf(b, ".%06d", f)
	}
	sign := byte('+')
	if offset < 0 {
		sign, offset = '-', -offset
	}
	b = fmt.Appendf(append(b, sign), "%02d", offset/3600)
	if m := offset / 60 % 60; m > 0 || offset%60 > 0 {
		b = fmt.Appendf(b, ":%02d", m)
	}
	if s := offset % 60; s > 0 {
		b = fmt.Appendf(b, ":%02d", s)
	}
	return b
}

// lists collects LIST and MAP; maps are lists of entries on both sides.
type lists struct {
	validity
	typ     arrow.DataType
	child   sink
	count   int
	offsets []int32
}

func (s *lists) dataType() arrow.DataType { return s.typ }

func (s *lists) add(v C.duckdb_vector, off, n int) error {
	s.validity.add(v, off, n)
	words := unsafe.Pointer(C.duckdb_vector_get_validity(v))
	child := C.duckdb_list_vector_get_child(v)
	if s.offsets == nil {
		s.offsets = append(make([]int32, 0, n+1), 0)
	}
	// Lists mostly follow each other, so their elements are taken in long runs.
	var from, to uint64
	flush := func() error {
		if from == to {
			return nil
		}
		return s.child.add(child, int(from), int(to-from))
	}
	for i, e := range unsafe.Slice((*[2]uint64)(unsafe.Add(data(v), off*16)), n) {
		if bit(words, uint64(off+i)) && e[1] > 0 {
			if e[0] != to {
				if err := flush(); err != nil {
					return err
				}
				from, to = e[0], e[0]
			}
			to += e[1]
			s.count += int(e[1])
			if s.count > math.MaxInt32 {
				return errs.New(errs.Exhausted, "engine.fetch", "one batch of a column holds more than 2,147,483,647 list elements")
			}
		}
		s.offsets = append(s.offsets, int32(s.count))
	}
	return flush()
}

func (s *lists) size() int { return s.child.size() + 4*len(s.offsets) }

func (s *lists) take() arrow.ArrayData {
	rows, nulls, valid := s.validity.take()
	if s.offsets == nil {
		s.offsets = []int32{0}
	}
	child := s.child.take()
	defer child.Release()
	d := array.NewData(s.typ, rows, []*memory.Buffer{valid, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(s.offsets))}, []arrow.ArrayData{child}, nulls, 0)
	s.offsets, s.count = nil, 0
	return d
}

// arrays collects lists of one fixed length.
type arrays struct {
	validity
	typ   arrow.DataType
	child sink
	len   int
}

func (s *arrays) dataType() arrow.DataType { return s.typ }

func (s *arrays) add(v C.duckdb_vector, off, n int) error {
	s.validity.add(v, off, n)
	return s.child.add(C.duckdb_array_vector_get_child(v), off*s.len, n*s.len)
}

func (s *arrays) size() int { return s.child.size() }

func (s *arrays) take() arrow.ArrayData {
	rows, nulls, valid := s.validity.take()
	child := s.child.take()
	defer child.Release()
	return array.NewData(s.typ, rows, []*memory.Buffer{valid}, []arrow.ArrayData{child}, nulls, 0)
}

// structs collects the fields of a STRUCT.
type structs struct {
	validity
	typ    arrow.DataType
	fields []sink
}

func (s *structs) dataType() arrow.DataType { return s.typ }

func (s *structs) add(v C.duckdb_vector, off, n int) error {
	s.validity.add(v, off, n)
	for i, f := range s.fields {
		if err := f.add(C.duckdb_struct_vector_get_child(v, C.idx_t(i)), off, n); err != nil {
			return err
		}
	}
	return nil
}

func (s *structs) size() int {
	n := 0
	for _, f := range s.fields {
		n += f.size()
	}
	return n
}

func (s *structs) take() arrow.ArrayData {
	rows, nulls, valid := s.validity.take()
	children := make([]arrow.ArrayData, len(s.fields))
	for i, f := range s.fields {
		children[i] = f.take()
		defer children[i].Release()
	}
	return array.NewData(s.typ, rows, []*memory.Buffer{valid}, children, nulls, 0)
}

// nothing is a column of the type of NULL.
type nothing struct{ rows int }

func (s *nothing) dataType() arrow.DataType { return arrow.Null }

func (s *nothing) add(_ C.duckdb_vector, _, n int) error {
	s.rows += n
	return nil
}

func (s *nothing) size() int { return 0 }

func (s *nothing) take() arrow.ArrayData {
	d := array.NewData(arrow.Null, s.rows, []*memory.Buffer{nil}, nil, s.rows, 0)
	s.rows = 0
	return d
}

var fixedTypes = map[C.int]arrow.FixedWidthDataType{
	C.OV_TYPE_TINYINT: arrow.PrimitiveTypes.Int8.(arrow.FixedWidthDataType), C.OV_TYPE_UTINYINT: arrow.PrimitiveTypes.Uint8.(arrow.FixedWidthDataType),
	C.OV_TYPE_SMALLINT: arrow.PrimitiveTypes.Int16.(arrow.FixedWidthDataType), C.OV_TYPE_USMALLINT: arrow.PrimitiveTypes.Uint16.(arrow.FixedWidthDataType),
	C.OV_TYPE_INTEGER: arrow.PrimitiveTypes.Int32.(arrow.FixedWidthDataType), C.OV_TYPE_UINTEGER: arrow.PrimitiveTypes.Uint32.(arrow.FixedWidthDataType),
	C.OV_TYPE_BIGINT: arrow.PrimitiveTypes.Int64.(arrow.FixedWidthDataType), C.OV_TYPE_UBIGINT: arrow.PrimitiveTypes.Uint64.(arrow.FixedWidthDataType),
	C.OV_TYPE_FLOAT: arrow.PrimitiveTypes.Float32.(arrow.FixedWidthDataType), C.OV_TYPE_DOUBLE: arrow.PrimitiveTypes.Float64.(arrow.FixedWidthDataType),
	C.OV_TYPE_DATE: arrow.FixedWidthTypes.Date32,
	C.OV_TYPE_TIME: arrow.FixedWidthTypes.Time64us, C.OV_TYPE_TIME_NS: arrow.FixedWidthTypes.Time64ns,
	C.OV_TYPE_TIMESTAMP: &arrow.TimestampType{Unit: arrow.Microsecond}, C.OV_TYPE_TIMESTAMP_TZ: &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"},
	C.OV_TYPE_TIMESTAMP_S: &arrow.TimestampType{Unit: arrow.Second}, C.OV_TYPE_TIMESTAMP_MS: &arrow.TimestampType{Unit: arrow.Millisecond},
	C.OV_TYPE_TIMESTAMP_NS: &arrow.TimestampType{Unit: arrow.Nanosecond},
	C.OV_TYPE_HUGEINT:      &arrow.Decimal128Type{Precision: 38},
}

var unsupportedTypes = map[C.int]string{
	C.OV_TYPE_BIGNUM: "BIGNUM", C.OV_TYPE_UNION: "UNION", C.OV_TYPE_VARIANT: "VARIANT", C.OV_TYPE_GEOMETRY: "GEOMETRY",
}

// newSink makes the sink of a type.
func newSink(t C.duckdb_logical_type) (sink, error) {
	id := C.duckdb_get_type_id(t)
	if f, ok := fixedTypes[id]; ok {
		return &fixed{typ: f, width: f.BitWidth() / 8}, nil
	}
	inner := func(t C.duckdb_logical_type) (sink, error) {
		defer C.duckdb_destroy_logical_type(&t)
		return newSink(t)
	}
	switch id {
	case C.OV_TYPE_BOOLEAN:
		return &bools{}, nil
	case C.OV_TYPE_SQLNULL:
		return &nothing{}, nil
	case C.OV_TYPE_VARCHAR:
		return &texts{typ: arrow.BinaryTypes.String, from: 16, one: appendText}, nil
	case C.OV_TYPE_BLOB:
		if of, _ := aliasOf(t); of == Sparsevec {
			return newSparses(), nil
		}
		return &texts{typ: arrow.BinaryTypes.Binary, from: 16, one: appendText}, nil
	case C.OV_TYPE_BIT:
		return &texts{typ: arrow.BinaryTypes.String, from: 16, one: appendBits}, nil
	case C.OV_TYPE_UUID:
		return &texts{typ: arrow.BinaryTypes.String, from: 16, one: appendUUID}, nil
	case C.OV_TYPE_TIME_TZ:
		return &texts{typ: arrow.BinaryTypes.String, from: 8, one: appendTimeTZ}, nil
	case C.OV_TYPE_ENUM:
		return newEnum(t), nil
	case C.OV_TYPE_DECIMAL:
		return newDecimal(t), nil
	case C.OV_TYPE_UHUGEINT:
		return &each{fixed: fixed{typ: &arrow.Decimal128Type{Precision: 38}, width: 16}, from: 16, one: func(p unsafe.Pointer, out []byte) error {
			if *(*int64)(unsafe.Add(p, 8)) < 0 {
				return errs.New(errs.Unsupported, "engine.fetch", "a UHUGEINT above 2^127 cannot be given back", errs.Hint("cast it to VARCHAR"))
			}
			copy(out, unsafe.Slice((*byte)(p), 16))
			return nil
		}}, nil
	case C.OV_TYPE_INTERVAL:
		return &each{fixed: fixed{typ: arrow.FixedWidthTypes.MonthDayNanoInterval, width: 16}, from: 16, one: func(p unsafe.Pointer, out []byte) error {
			micros := *(*int64)(unsafe.Add(p, 8))
			if micros > math.MaxInt64/1000 || micros < math.MinInt64/1000 {
				return errs.New(errs.Unsupported, "engine.fetch", "an INTERVAL of more than 292 years of time cannot be given back", errs.Hint("cast it to VARCHAR"))
			}
			copy(out, unsafe.Slice((*byte)(p), 8))
			binary.NativeEndian.PutUint64(out[8:], uint64(micros*1000))
			return nil
		}}, nil
	case C.OV_TYPE_LIST:
		c, err := inner(C.duckdb_list_type_child_type(t))
		if err != nil {
			return nil, err
		}
		return &lists{typ: arrow.ListOf(c.dataType()), child: c}, nil
	case C.OV_TYPE_ARRAY:
		n := int(C.duckdb_array_type_array_size(t))
		c, err := inner(C.duckdb_array_type_child_type(t))
		if err != nil {
			return nil, err
		}
		return &arrays{typ: arrow.FixedSizeListOf(int32(n), c.dataType()), child: c, len: n}, nil
	case C.OV_TYPE_MAP:
		k, err := inner(C.duckdb_map_type_key_type(t))
		if err != nil {
			return nil, err
		}
		v, err := inner(C.duckdb_map_type_value_type(t))
		if err != nil {
			return nil, err
		}
		typ := arrow.MapOf(k.dataType(), v.dataType())
		return &lists{typ: typ, child: &structs{typ: typ.Elem(), fields: []sink{k, v}}}, nil
	case C.OV_TYPE_STRUCT:
		s := &structs{}
		var fields []arrow.Field
		for i := range C.duckdb_struct_type_child_count(t) {
			c, err := inner(C.duckdb_struct_type_child_type(t, i))
			if err != nil {
				return nil, err
			}
			name := C.duckdb_struct_type_child_name(t, i)
			fields = append(fields, arrow.Field{Name: C.GoString(name), Type: c.dataType(), Nullable: true})
			C.duckdb_free(unsafe.Pointer(name))
			s.fields = append(s.fields, c)
		}
		s.typ = arrow.StructOf(fields...)
		return s, nil
	}
	name, ok := unsupportedTypes[id]
	if !ok {
		name = fmt.Sprintf("number %d", id)
	}
	return nil, errs.New(errs.Unsupported, "engine.schema", "values of type "+name+" cannot be given back", errs.Hint("cast them to VARCHAR"))
}

func newEnum(t C.duckdb_logical_type) sink {
	n := int(C.duckdb_enum_dictionary_size(t))
	values := make([]string, n)
	for i := range values {
		v := C.duckdb_enum_dictionary_value(t, C.idx_t(i))
		values[i] = C.GoString(v)
		C.duckdb_free(unsafe.Pointer(v))
	}
	s := &texts{typ: arrow.BinaryTypes.String}
	switch { // the engine takes the smallest integer that counts the values
	case n <= math.MaxUint8:
		s.from, s.one = 1, func(b []byte, p unsafe.Pointer) []byte { return append(b, values[*(*uint8)(p)]...) }
	case n <= math.MaxUint16:
		s.from, s.one = 2, func(b []byte, p unsafe.Pointer) []byte { return append(b, values[*(*uint16)(p)]...) }
	default:
		s.from, s.one = 4, func(b []byte, p unsafe.Pointer) []byte { return append(b, values[*(*uint32)(p)]...) }
	}
	return s
}

func newDecimal(t C.duckdb_logical_type) sink {
	w := int32(C.duckdb_decimal_width(t))
	s := &each{fixed: fixed{typ: &arrow.Decimal128Type{Precision: w, Scale: int32(C.duckdb_decimal_scale(t))}, width: 16}}
	put := func(out []byte, v int64) error {
		binary.NativeEndian.PutUint64(out, uint64(v))
		binary.NativeEndian.PutUint64(out[8:], uint64(v>>63))
		return nil
	}
	switch { // the engine's own widths of storage
	case w <= 4:
		s.from, s.one = 2, func(p unsafe.Pointer, out []byte) error { return put(out, int64(*(*int16)(p))) }
	case w <= 9:
		s.from, s.one = 4, func(p unsafe.Pointer, out []byte) error { return put(out, int64(*(*int32)(p))) }
	case w <= 18:
		s.from, s.one = 8, func(p unsafe.Pointer, out []byte) error { return put(out, *(*int64)(p)) }
	default:
		return &s.fixed
	}
	return s
}

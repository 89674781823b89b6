package engine

/*
#include <stdlib.h>
#include "engine.h"
*/
import "C"

import (
	"encoding/binary"
	"math"
	"unicode/utf8"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/extensions"

	"github.com/overlakedb/overlake/internal/errs"
)

// A fill writes the rows of Arrow arrays of one type into the engine's vectors. Where both sides have the same layout it
// is a copy of memory. Strings are copied too: who still looks at a vector after the next one was asked for is the
// engine's affair.
type fill struct {
	typ   arrow.DataType
	duck  C.int // the engine's type
	width int   // bytes of a value there
	same  bool  // the Arrow values have the same layout
	kids  []fill
	// one converts the value at p, for fixed widths that are not the same.
	one  func(p, out unsafe.Pointer) error
	from int // bytes of an Arrow value
}

// accepts reports whether an array's type is the one the fill was made for. Names and nullability do not matter.
func (f *fill) accepts(t arrow.DataType) bool {
	if t.ID() != f.typ.ID() {
		return false
	}
	if e, ok := t.(arrow.ExtensionType); ok {
		return arrow.TypeEqual(e.StorageType(), f.typ.(arrow.ExtensionType).StorageType())
	}
	if len(f.kids) == 0 {
		return arrow.TypeEqual(t, f.typ)
	}
	switch t := t.(type) {
	case *arrow.DictionaryType:
		return t.IndexType.ID() == f.typ.(*arrow.DictionaryType).IndexType.ID() && f.kids[0].accepts(t.ValueType)
	case *arrow.StructType:
		if t.NumFields() != len(f.kids) {
			return false
		}
		for i, k := range f.kids {
			if !k.accepts(t.Field(i).Type) {
				return false
			}
		}
		return true
	case *arrow.FixedSizeListType:
		return t.Len() == f.typ.(*arrow.FixedSizeListType).Len() && f.kids[0].accepts(t.Elem())
	case arrow.ListLikeType:
		return f.kids[0].accepts(t.Elem())
	}
	return false
}

var sameTypes = map[arrow.Type]C.int{
	arrow.INT8: C.OV_TYPE_TINYINT, arrow.INT16: C.OV_TYPE_SMALLINT, arrow.INT32: C.OV_TYPE_INTEGER, arrow.INT64: C.OV_TYPE_BIGINT,
	arrow.UINT8: C.OV_TYPE_UTINYINT, arrow.UINT16: C.OV_TYPE_USMALLINT, arrow.UINT32: C.OV_TYPE_UINTEGER, arrow.UINT64: C.OV_TYPE_UBIGINT,
	arrow.FLOAT32: C.OV_TYPE_FLOAT, arrow.FLOAT64: C.OV_TYPE_DOUBLE, arrow.DATE32: C.OV_TYPE_DATE,
}

// newFill makes the fill of a type, or says which part of it is unsupported.
func newFill(t arrow.DataType) (fill, error) {
	if id, ok := sameTypes[t.ID()]; ok {
		w := t.(arrow.FixedWidthDataType).BitWidth() / 8
		return fill{typ: t, duck: id, width: w, same: true}, nil
	}
	switch t := t.(type) {
	case *arrow.NullType:
		return fill{typ: t, duck: C.OV_TYPE_INTEGER, width: 4}, nil
	case *arrow.BooleanType:
		return fill{typ: t, duck: C.OV_TYPE_BOOLEAN, width: 1}, nil
	case *arrow.StringType, *arrow.LargeStringType, *arrow.StringViewType:
		return fill{typ: t, duck: C.OV_TYPE_VARCHAR, width: 16}, nil
	case *arrow.BinaryType, *arrow.LargeBinaryType, *arrow.BinaryViewType, *arrow.FixedSizeBinaryType:
		return fill{typ: t, duck: C.OV_TYPE_BLOB, width: 16}, nil
	case *arrow.Float16Type, *arrow.Date64Type, *arrow.Time32Type, *arrow.Time64Type, *arrow.TimestampType, *arrow.MonthDayNanoIntervalType,
		*arrow.Decimal32Type, *arrow.Decimal64Type, *arrow.Decimal128Type:
		return fixedFill(t)
	case *arrow.StructType:
		f := fill{typ: t, duck: C.OV_TYPE_STRUCT}
		if t.NumFields() == 0 {
			return f, errs.New(errs.Unsupported, "engine.feed", "structs without fields cannot be queried with SQL")
		}
		for _, field := range t.Fields() {
			k, err := newFill(field.Type)
			if err != nil {
				return f, errs.With(err, errs.On(field.Name))
			}
			f.kids = append(f.kids, k)
		}
		return f, nil
	case *arrow.MapType:
		k, err := newFill(t.Elem())
		return fill{typ: t, duck: C.OV_TYPE_MAP, width: 16, kids: []fill{k}}, err
	case *arrow.ListType, *arrow.LargeListType, *arrow.FixedSizeListType:
		k, err := newFill(t.(arrow.ListLikeType).Elem())
		return fill{typ: t, duck: C.OV_TYPE_LIST, width: 16, kids: []fill{k}}, err
	case *arrow.DictionaryType:
		k, err := newFill(t.ValueType)
		return fill{typ: t, duck: k.duck, width: k.width, kids: []fill{k}}, err
	case *extensions.UUIDType:
		return fill{typ: t, duck: C.OV_TYPE_UUID, width: 16}, nil
	case arrow.ExtensionType:
		k, err := newFill(t.StorageType())
		k.typ = t
		return k, err
	}
	return fill{}, errs.Newf(errs.Unsupported, "engine.feed", "columns of type %s cannot be queried with SQL", t)
}

// fixedFill makes the fills of fixed-width types that differ between the sides, at least for some units.
func fixedFill(t arrow.DataType) (fill, error) {
	from := t.(arrow.FixedWidthDataType).BitWidth() / 8
	f := fill{typ: t, from: from, width: 8}
	scaled := func(duck C.int, mul int64) (fill, error) {
		f.duck, f.same = duck, mul == 1 && from == 8
		f.one = func(p, out unsafe.Pointer) error {
			v := int64(0)
			if from == 4 {
				v = int64(*(*int32)(p))
			} else {
				v = *(*int64)(p)
			}
			if r := v * mul; r/mul == v {
				*(*int64)(out) = r
				return nil
			}
			return errs.Newf(errs.Unsupported, "engine.feed", "the value %d of type %s is out of the range of SQL", v, t)
		}
		return f, nil
	}
	switch t := t.(type) {
	case *arrow.Time32Type:
		if t.Unit == arrow.Second {
			return scaled(C.OV_TYPE_TIME, 1e6)
		}
		return scaled(C.OV_TYPE_TIME, 1e3)
	case *arrow.Time64Type:
		if t.Unit == arrow.Nanosecond {
			return scaled(C.OV_TYPE_TIME_NS, 1)
		}
		return scaled(C.OV_TYPE_TIME, 1)
	case *arrow.TimestampType:
		if t.TimeZone == "" {
			return scaled([...]C.int{C.OV_TYPE_TIMESTAMP_S, C.OV_TYPE_TIMESTAMP_MS, C.OV_TYPE_TIMESTAMP, C.OV_TYPE_TIMESTAMP_NS}[t.Unit], 1)
		}
		switch t.Unit {
		case arrow.Second:
			return scaled(C.OV_TYPE_TIMESTAMP_TZ, 1e6)
		case arrow.Millisecond:
			return scaled(C.OV_TYPE_TIMESTAMP_TZ, 1e3)
		case arrow.Microsecond:
			return scaled(C.OV_TYPE_TIMESTAMP_TZ, 1)
		}
		f.duck, f.one = C.OV_TYPE_TIMESTAMP_TZ, func(p, out unsafe.Pointer) error {
			*(*int64)(out) = floorDiv(*(*int64)(p), 1000)
			return nil
		}
		return f, nil
	case *arrow.Date64Type:
		f.duck, f.width = C.OV_TYPE_DATE, 4
		f.one = func(p, out unsafe.Pointer) error {
			*(*int32)(out) = int32(floorDiv(*(*int64)(p), 86_400_000))
			return nil
		}
		return f, nil
	case *arrow.Float16Type:
		f.duck, f.width = C.OV_TYPE_FLOAT, 4
		f.one = func(p, out unsafe.Pointer) error {
			*(*float32)(out) = halfFloat(*(*uint16)(p))
			return nil
		}
		return f, nil
	case *arrow.MonthDayNanoIntervalType:
		f.duck, f.width = C.OV_TYPE_INTERVAL, 16
		f.one = func(p, out unsafe.Pointer) error {
			*(*int64)(out) = *(*int64)(p) // months and days
			*(*int64)(unsafe.Add(out, 8)) = floorDiv(*(*int64)(unsafe.Add(p, 8)), 1000)
			return nil
		}
		return f, nil
	}
	return decimalFill(f, t.(arrow.DecimalType))
}

// decimalFill narrows decimals to the integer that the engine keeps for their precision.
func decimalFill(f fill, t arrow.DecimalType) (fill, error) {
	p := t.GetPrecision()
	if p > 38 || t.GetScale() < 0 || t.GetScale() > p {
		return f, errs.Newf(errs.Unsupported, "engine.feed", "columns of type %s cannot be queried with SQL", t)
	}
	f.duck = C.OV_TYPE_DECIMAL
	switch {
	case p <= 4:
		f.width = 2
	case p <= 9:
		f.width = 4
	case p <= 18:
		f.width = 8
	default:
		f.width = 16
	}
	f.same = f.width == f.from
	f.one = func(p, out unsafe.Pointer) error {
		lo, hi := int64(0), int64(0)
		switch f.from {
		case 4:
			lo = int64(*(*int32)(p))
			hi = lo >> 63
		case 8:
			lo = *(*int64)(p)
			hi = lo >> 63
		default:
			lo, hi = *(*int64)(p), *(*int64)(unsafe.Add(p, 8))
		}
		fits := true
		switch f.width {
		case 2:
			*(*int16)(out) = int16(lo)
			fits = int64(int16(lo)) == lo && hi == lo>>63
		case 4:
			*(*int32)(out) = int32(lo)
			fits = int64(int32(lo)) == lo && hi == lo>>63
		case 8:
			*(*int64)(out) = lo
			fits = hi == lo>>63
		default:
			*(*int64)(out), *(*int64)(unsafe.Add(out, 8)) = lo, hi
		}
		if !fits {
			return errs.Newf(errs.Corrupt, "engine.feed", "a value is out of the range of its type %s", t)
		}
		return nil
	}
	return f, nil
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// halfFloat widens an IEEE 754 half.
func halfFloat(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, uint32(h>>10)&31, uint32(h)&1023
	switch exp {
	case 0:
		f := float32(frac) / (1 << 24)
		return math.Float32frombits(math.Float32bits(f) | sign)
	case 31:
		return math.Float32frombits(sign | 255<<23 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// logicalType makes the engine's type, for the caller to destroy.
func (f *fill) logicalType() C.duckdb_logical_type {
	switch f.duck {
	case C.OV_TYPE_DECIMAL:
		if t, ok := f.typ.(arrow.DecimalType); ok {
			return C.duckdb_create_decimal_type(C.uint8_t(t.GetPrecision()), C.uint8_t(t.GetScale()))
		}
	case C.OV_TYPE_LIST:
		if len(f.kids) == 1 && f.kids[0].duck != C.OV_TYPE_LIST || f.listLike() {
			e := f.kids[0].logicalType()
			defer C.duckdb_destroy_logical_type(&e)
			return C.duckdb_create_list_type(e)
		}
	case C.OV_TYPE_MAP:
		if e := f.kids[0]; len(e.kids) == 2 {
			k, v := e.kids[0].logicalType(), e.kids[1].logicalType()
			defer C.duckdb_destroy_logical_type(&k)
			defer C.duckdb_destroy_logical_type(&v)
			return C.duckdb_create_map_type(k, v)
		}
	case C.OV_TYPE_STRUCT:
		if t, ok := f.storage().(*arrow.StructType); ok {
			return f.structType(t)
		}
	default:
		return C.duckdb_create_logical_type(f.duck)
	}
	return f.kids[0].logicalType() // a dictionary of nested values
}

func (f *fill) storage() arrow.DataType {
	if e, ok := f.typ.(arrow.ExtensionType); ok {
		return e.StorageType()
	}
	return f.typ
}

func (f *fill) listLike() bool {
	_, ok := f.storage().(arrow.ListLikeType)
	return ok
}

func (f *fill) structType(t *arrow.StructType) C.duckdb_logical_type {
	n := len(f.kids)
	types := unsafe.Slice((*C.duckdb_logical_type)(C.calloc(C.size_t(n), C.size_t(unsafe.Sizeof(C.duckdb_logical_type(nil))))), n)
	names := unsafe.Slice((**C.char)(C.calloc(C.size_t(n), C.size_t(unsafe.Sizeof(uintptr(0))))), n)
	defer C.free(unsafe.Pointer(unsafe.SliceData(types)))
	defer C.free(unsafe.Pointer(unsafe.SliceData(names)))
	for i := range n {
		types[i], names[i] = f.kids[i].logicalType(), C.CString(t.Field(i).Name)
		defer C.duckdb_destroy_logical_type(&types[i])
		defer C.free(unsafe.Pointer(names[i]))
	}
	return C.duckdb_create_struct_type(unsafe.SliceData(types), unsafe.SliceData(names), C.idx_t(n))
}

// fill writes rows [off, off+n) of an array to the rows from at on of a vector.
func (f *fill) fill(v C.duckdb_vector, at int, arr arrow.Array, off, n int) error {
	if n == 0 {
		return nil
	}
	if e, ok := arr.(array.ExtensionArray); ok {
		arr = e.Storage()
	}
	if d, ok := arr.(*array.Dictionary); ok {
		return f.fillDictionary(v, at, d, off, n)
	}
	fillValidity(v, at, arr, off, n)
	out := unsafe.Add(data(v), at*f.width)
	d := arr.Data()
	from := d.Offset() + off
	switch {
	case f.same:
		copy(unsafe.Slice((*byte)(out), n*f.width), d.Buffers()[1].Bytes()[from*f.width:(from+n)*f.width])
		return nil
	case f.one != nil:
		src := d.Buffers()[1].Bytes()
		for i := range n {
			if arr.IsNull(off + i) {
				continue
			}
			p := unsafe.Pointer(unsafe.SliceData(src[(from+i)*f.from : (from+i+1)*f.from]))
			if err := f.one(p, unsafe.Add(out, i*f.width)); err != nil {
				return err
			}
		}
		return nil
	}
	switch a := arr.(type) {
	case *array.Null:
	case *array.Boolean:
		bits := d.Buffers()[1].Bytes()
		for i, o := 0, unsafe.Slice((*bool)(out), n); i < n; i++ {
			o[i] = bitutil.BitIsSet(bits, from+i)
		}
	case *array.FixedSizeBinary:
		if f.duck == C.OV_TYPE_UUID {
			for i := range n {
				if b := a.Value(off + i); len(b) == 16 {
					o := unsafe.Add(out, i*16)
					*(*uint64)(o) = binary.BigEndian.Uint64(b[8:])
					*(*uint64)(unsafe.Add(o, 8)) = binary.BigEndian.Uint64(b) ^ 1<<63
				}
			}
			return nil
		}
		for i := range n {
			if a.IsValid(off + i) {
				setText(v, at+i, a.Value(off+i))
			}
		}
	case *array.String, *array.Binary:
		offsets := arrow.Int32Traits.CastFromBytes(d.Buffers()[1].Bytes())[from : from+n+1]
		if f.duck == C.OV_TYPE_VARCHAR && !textsValid(offsets, d.Buffers()[2].Bytes()) {
			return f.fillChecked(v, at, a.(stringLike), off, n)
		}
		f.fillTexts(v, at, (*C.int32_t)(unsafe.Pointer(unsafe.SliceData(offsets))), nil, d.Buffers()[2].Bytes(), n)
	case *array.LargeString, *array.LargeBinary:
		offsets := arrow.Int64Traits.CastFromBytes(d.Buffers()[1].Bytes())[from : from+n+1]
		if f.duck == C.OV_TYPE_VARCHAR && !textsValid(offsets, d.Buffers()[2].Bytes()) {
			return f.fillChecked(v, at, a.(stringLike), off, n)
		}
		f.fillTexts(v, at, nil, (*C.int64_t)(unsafe.Pointer(unsafe.SliceData(offsets))), d.Buffers()[2].Bytes(), n)
	case *array.StringView:
		return f.fillChecked(v, at, a, off, n)
	case *array.BinaryView:
		for i := range n {
			if a.IsValid(off + i) {
				setText(v, at+i, a.Value(off+i))
			}
		}
	case *array.Struct:
		for k := range f.kids {
			if err := f.kids[k].fill(C.duckdb_struct_vector_get_child(v, C.idx_t(k)), at, a.Field(k), off, n); err != nil {
				return err
			}
		}
	case array.ListLike:
		return f.fillLists(v, at, a, off, n)
	default:
		return errs.Newf(errs.Internal, "engine.feed", "no way to fill from %s", arr.DataType())
	}
	return nil
}

func (f *fill) fillTexts(v C.duckdb_vector, at int, off32 *C.int32_t, off64 *C.int64_t, bytes []byte, n int) {
	C.ov_fill_text(v, C.idx_t(at), off32, off64, (*C.char)(unsafe.Pointer(unsafe.SliceData(bytes))), C.idx_t(n))
}

// textsValid reports whether all values are UTF-8: their bytes together are, and each begins where a character does.
func textsValid[O int32 | int64](offsets []O, bytes []byte) bool {
	from, to := offsets[0], offsets[len(offsets)-1]
	if !utf8.Valid(bytes[from:to]) {
		return false
	}
	for _, o := range offsets {
		if o < to && !utf8.RuneStart(bytes[o]) {
			return false
		}
	}
	return true
}

type stringLike interface {
	IsNull(i int) bool
	Value(i int) string
}

// fillChecked writes texts one by one, because some of their bytes are not UTF-8: perhaps only those under NULLs.
func (f *fill) fillChecked(v C.duckdb_vector, at int, a stringLike, off, n int) error {
	for i := range n {
		if a.IsNull(off + i) {
			continue
		}
		s := a.Value(off + i)
		if !utf8.ValidString(s) {
			return errs.New(errs.Corrupt, "engine.feed", "a text is not UTF-8")
		}
		setText(v, at+i, unsafe.Slice(unsafe.StringData(s), len(s)))
	}
	return nil
}

func setText(v C.duckdb_vector, row int, b []byte) {
	C.duckdb_vector_assign_string_element_len(v, C.idx_t(row), (*C.char)(unsafe.Pointer(unsafe.SliceData(b))), C.idx_t(len(b)))
}

// fillLists appends the elements of the rows to the child vector and writes where each row's lie. The elements of
// consecutive rows are consecutive in Arrow, so they are one run.
func (f *fill) fillLists(v C.duckdb_vector, at int, a array.ListLike, off, n int) error {
	from, _ := a.ValueOffsets(off)
	_, to := a.ValueOffsets(off + n - 1)
	base := int64(C.duckdb_list_vector_get_size(v))
	if total := base + to - from; total < base || total > math.MaxInt32 {
		return errs.Newf(errs.Exhausted, "engine.feed", "%d list elements in %d rows", to-from, n)
	}
	if C.duckdb_list_vector_reserve(v, C.idx_t(base+to-from)) != 0 || C.duckdb_list_vector_set_size(v, C.idx_t(base+to-from)) != 0 {
		return errs.New(errs.Exhausted, "engine.feed", "no memory for list elements")
	}
	entries := unsafe.Slice((*[2]uint64)(unsafe.Add(data(v), at*16)), n)
	for i := range entries {
		s, e := a.ValueOffsets(off + i)
		entries[i] = [2]uint64{uint64(base + s - from), uint64(e - s)}
	}
	return f.kids[0].fill(C.duckdb_list_vector_get_child(v), int(base), a.ListValues(), int(from), int(to-from))
}

// fillDictionary looks every row up; runs of one value are not worth finding.
func (f *fill) fillDictionary(v C.duckdb_vector, at int, d *array.Dictionary, off, n int) error {
	values := d.Dictionary()
	for i := range n {
		if d.IsNull(off + i) {
			setNull(v, at+i)
			continue
		}
		if err := f.kids[0].fill(v, at+i, values, d.GetValueIndex(off+i), 1); err != nil {
			return err
		}
	}
	return nil
}

func setNull(v C.duckdb_vector, row int) {
	C.duckdb_vector_ensure_validity_writable(v)
	w := (*uint64)(unsafe.Add(unsafe.Pointer(C.duckdb_vector_get_validity(v)), row>>6<<3))
	*w &^= 1 << (row & 63)
}

func fillValidity(v C.duckdb_vector, at int, arr arrow.Array, off, n int) {
	_, allNull := arr.(*array.Null)
	if arr.NullN() == 0 && !allNull {
		return
	}
	C.duckdb_vector_ensure_validity_writable(v)
	words := unsafe.Pointer(C.duckdb_vector_get_validity(v))
	for i := range n {
		w := (*uint64)(unsafe.Add(words, (at+i)>>6<<3))
		if m := uint64(1) << ((at + i) & 63); allNull || arr.IsNull(off+i) {
			*w &^= m
		} else {
			*w |= m
		}
	}
}

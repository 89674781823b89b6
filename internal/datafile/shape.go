package datafile

import (
	"context"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/errs"
)

// shape makes an array of exactly the planned type of a field, so that the Parquet library cannot go wrong on it:
//
//   - fixed-size lists become lists, because the library writes a slice of them from the beginning of the whole;
//   - values behind a NULL list, or behind a list under a NULL struct, are dropped, because the library refuses them;
//   - dictionaries become their values;
//   - a NULL where the schema requires a value is Invalid.
//
// Most arrays pass through as they are. The caller releases the result.
func shape(mem memory.Allocator, a arrow.Array, to arrow.Field, name string) (arrow.Array, error) {
	if !to.Nullable && a.NullN() > 0 {
		return nil, invalid("datafile.write", name, "NULL in a required field")
	}
	if ext, ok := a.(array.ExtensionArray); ok {
		if arrow.TypeEqual(a.DataType(), to.Type) {
			a.Retain()
			return a, nil
		}
		a = ext.Storage()
	}
	if d, ok := a.(*array.Dictionary); ok {
		plain, err := compute.TakeArray(compute.WithAllocator(context.Background(), mem), d.Dictionary(), d.Indices())
		if err != nil {
			return nil, wrap(errs.Invalid, "datafile.write", err)
		}
		defer plain.Release()
		return shape(mem, plain, to, name)
	}
	switch t := to.Type.(type) {
	case arrow.ExtensionType:
		if !arrow.TypeEqual(a.DataType(), t.StorageType()) {
			break
		}
		return array.NewExtensionArrayWithStorage(t, a), nil
	case *arrow.StructType:
		if s, ok := a.(*array.Struct); ok && s.NumField() == t.NumFields() {
			return shapeStruct(mem, s, t, name, true)
		}
	case *arrow.ListType, *arrow.LargeListType:
		if l, ok := a.(array.ListLike); ok && a.DataType().ID() != arrow.MAP {
			return shapeList(mem, l, to, t.(arrow.ListLikeType).ElemField(), name+".element")
		}
	case *arrow.MapType:
		if l, ok := a.(*array.Map); ok {
			return shapeList(mem, l, to, t.ElemField(), name)
		}
	default:
		if storedAs(a.DataType(), t) {
			if arrow.TypeEqual(a.DataType(), t) {
				a.Retain()
				return a, nil
			}
			return retyped(a.Data(), t), nil
		}
	}
	return nil, invalid("datafile.write", name, "the batch has %s where the file has %s", a.DataType(), to.Type)
}

// storedAs reports whether an array of one leaf type has the bytes of another: the same type, or another time zone.
func storedAs(have, want arrow.DataType) bool {
	h, ok1 := have.(*arrow.TimestampType)
	w, ok2 := want.(*arrow.TimestampType)
	if ok1 && ok2 {
		return h.Unit == w.Unit && (h.TimeZone == "") == (w.TimeZone == "")
	}
	return arrow.TypeEqual(have, want)
}

func retyped(d arrow.ArrayData, t arrow.DataType) arrow.Array {
	n := array.NewData(t, d.Len(), d.Buffers(), d.Children(), d.NullN(), d.Offset())
	defer n.Release()
	return array.MakeFromData(n)
}

// shapeStruct shapes a struct. Members are told apart by name, except in the entries of maps, where every writer has names
// of its own.
func shapeStruct(mem memory.Allocator, s *array.Struct, t *arrow.StructType, name string, named bool) (arrow.Array, error) {
	have := s.DataType().(*arrow.StructType)
	children := make([]arrow.ArrayData, 0, t.NumFields())
	defer func() {
		for _, c := range children {
			c.Release()
		}
	}()
	for i, f := range t.Fields() {
		if named && have.Field(i).Name != f.Name {
			return nil, invalid("datafile.write", name, "the batch has a member %s where the file has %s", have.Field(i).Name, f.Name)
		}
		// Field hands out children already cut to the struct's window.
		child := s.Field(i)
		child.Retain()
		if s.NullN() > 0 {
			if !f.Nullable && nullsUnder(child, s) > 0 {
				child.Release()
				return nil, invalid("datafile.write", name+"."+f.Name, "NULL in a required field")
			}
			f.Nullable = true
			if hasList(f.Type) {
				masked := maskRows(mem, child, s)
				child.Release()
				child = masked
			}
		}
		c, err := shape(mem, child, f, name+"."+f.Name)
		child.Release()
		if err != nil {
			return nil, err
		}
		c.Data().Retain()
		children = append(children, c.Data())
		c.Release()
	}
	valid := validityOf(mem, s)
	d := array.NewData(t, s.Len(), []*memory.Buffer{valid}, children, s.NullN(), 0)
	defer d.Release()
	if valid != nil {
		valid.Release()
	}
	return array.MakeFromData(d), nil
}

// hasList reports whether lists or maps lie in a type without another list in between.
func hasList(t arrow.DataType) bool {
	switch t := t.(type) {
	case *arrow.StructType:
		for _, f := range t.Fields() {
			if hasList(f.Type) {
				return true
			}
		}
	case arrow.ListLikeType:
		return true
	}
	return false
}

// validityOf is an array's validity as a bitmap that begins at its first row; nil when nothing is NULL.
func validityOf(mem memory.Allocator, a arrow.Array) *memory.Buffer {
	if a.NullN() == 0 {
		return nil
	}
	b := newBitmap(mem, a.Len())
	bitutil.CopyBitmap(a.NullBitmapBytes(), a.Data().Offset(), a.Len(), b.Bytes(), 0)
	return b
}

func newBitmap(mem memory.Allocator, bits int) *memory.Buffer {
	b := memory.NewResizableBuffer(mem)
	b.Resize(int(bitutil.BytesForBits(int64(bits))))
	clear(b.Bytes())
	return b
}

// nullsUnder counts the NULLs of a struct's member in the rows where the struct itself is there.
func nullsUnder(child arrow.Array, s arrow.Array) int {
	n := 0
	if child.NullN() > 0 {
		for i := range child.Len() {
			if child.IsNull(i) && s.IsValid(i) {
				n++
			}
		}
	}
	return n
}

// maskRows is an array that is NULL wherever it or another of the same length is. The caller releases it.
func maskRows(mem memory.Allocator, a, by arrow.Array) arrow.Array {
	d := a.Data()
	if by.NullN() == 0 {
		a.Retain()
		return a
	}
	off, n := d.Offset(), d.Len()
	b := newBitmap(mem, off+n)
	defer b.Release()
	if a.NullN() > 0 {
		bitutil.BitmapAnd(a.NullBitmapBytes(), by.NullBitmapBytes(), int64(off), int64(by.Data().Offset()), b.Bytes(), int64(off), int64(n))
	} else {
		bitutil.CopyBitmap(by.NullBitmapBytes(), by.Data().Offset(), n, b.Bytes(), off)
	}
	nulls := n - bitutil.CountSetBits(b.Bytes(), off, n)
	buffers := append([]*memory.Buffer{b}, d.Buffers()[1:]...)
	m := array.NewData(d.DataType(), n, buffers, d.Children(), nulls, off)
	defer m.Release()
	return array.MakeFromData(m)
}

// shapeList shapes anything like a list into a list, large list or map.
func shapeList(mem memory.Allocator, l array.ListLike, to, elem arrow.Field, elemName string) (arrow.Array, error) {
	n := l.Len()
	first, last := int64(0), int64(0)
	if n > 0 {
		first, _ = l.ValueOffsets(0)
		_, last = l.ValueOffsets(n - 1)
	}
	if last-first > math.MaxInt32 && to.Type.ID() != arrow.LARGE_LIST {
		return nil, invalid("datafile.write", elemName, "one batch holds more than 2^31 list elements; use smaller batches")
	}
	hidden := false
	if l.NullN() > 0 {
		for i := 0; i < n && !hidden; i++ {
			lo, hi := l.ValueOffsets(i)
			hidden = lo != hi && l.IsNull(i)
		}
	}
	_, nested := nestedType(elem.Type)
	if !hidden && !nested && l.DataType().ID() == to.Type.ID() {
		window := array.NewSlice(l.ListValues(), first, last)
		nulls := window.NullN()
		window.Release()
		if !elem.Nullable && nulls > 0 {
			return nil, invalid("datafile.write", elemName, "NULL in a required field")
		}
		elem.Nullable = true // outside of the window NULLs do no harm
		values, err := shape(mem, l.ListValues(), elem, elemName)
		if err != nil {
			return nil, err
		}
		defer values.Release()
		d := l.Data()
		r := array.NewData(to.Type, n, d.Buffers(), []arrow.ArrayData{values.Data()}, l.NullN(), d.Offset())
		defer r.Release()
		return array.MakeFromData(r), nil
	}
	seen, err := visible(mem, l, first, last, hidden)
	if err != nil {
		return nil, err
	}
	defer seen.Release()
	var values arrow.Array
	if entries, ok := seen.(*array.Struct); ok && to.Type.ID() == arrow.MAP {
		values, err = shapeStruct(mem, entries, elem.Type.(*arrow.StructType), elemName, false)
	} else {
		values, err = shape(mem, seen, elem, elemName)
	}
	if err != nil {
		return nil, err
	}
	defer values.Release()
	return relist(mem, l, to.Type, values), nil
}

// relist is a list, large list or map of the same rows over values that are exactly those of the rows that are not NULL.
func relist(mem memory.Allocator, l array.ListLike, t arrow.DataType, values arrow.Array) arrow.Array {
	n := l.Len()
	offsets := memory.NewResizableBuffer(mem)
	defer offsets.Release()
	at := int64(0)
	large := t.ID() == arrow.LARGE_LIST
	if large {
		offsets.Resize((n + 1) * 8)
	} else {
		offsets.Resize((n + 1) * 4)
	}
	o32, o64 := arrow.Int32Traits.CastFromBytes(offsets.Bytes()), arrow.Int64Traits.CastFromBytes(offsets.Bytes())
	for i := range n + 1 {
		if large {
			o64[i] = at
		} else {
			o32[i] = int32(at)
		}
		if i < n && l.IsValid(i) {
			lo, hi := l.ValueOffsets(i)
			at += hi - lo
		}
	}
	valid := validityOf(mem, l)
	d := array.NewData(t, n, []*memory.Buffer{valid, offsets}, []arrow.ArrayData{values.Data()}, l.NullN(), 0)
	defer d.Release()
	if valid != nil {
		valid.Release()
	}
	return array.MakeFromData(d)
}

// visible is the values of the rows that are not NULL, one after the other.
func visible(mem memory.Allocator, l array.ListLike, first, last int64, hidden bool) (arrow.Array, error) {
	if !hidden {
		return array.NewSlice(l.ListValues(), first, last), nil
	}
	var runs []arrow.Array
	defer func() {
		for _, r := range runs {
			r.Release()
		}
	}()
	lo, hi := int64(0), int64(0)
	flush := func() {
		if hi > lo {
			runs = append(runs, array.NewSlice(l.ListValues(), lo, hi))
		}
	}
	for i := range l.Len() {
		if l.IsNull(i) {
			continue
		}
		from, to := l.ValueOffsets(i)
		if from != hi {
			flush()
			lo = from
		}
		hi = to
	}
	flush()
	if len(runs) == 0 {
		return array.NewSlice(l.ListValues(), 0, 0), nil
	}
	out, err := array.Concatenate(runs, mem)
	return out, wrap(errs.Internal, "datafile.write", err)
}

package datafile

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/errs"
)

// Conform gives a batch the columns of a schema, matched by name: columns of other but losslessly convertible types are
// cast, fixed-size lists become lists, missing nullable columns become NULL. What cannot be done is Invalid and names the
// column. The caller releases the result.
func Conform(ctx context.Context, rec arrow.RecordBatch, sc *arrow.Schema) (arrow.RecordBatch, error) {
	for _, f := range rec.Schema().Fields() {
		if !sc.HasField(f.Name) {
			return nil, errs.New(errs.Invalid, "datafile.conform", "the table has no such column", errs.On(f.Name))
		}
	}
	cols := make([]arrow.Array, sc.NumFields())
	defer func() {
		for _, c := range cols {
			if c != nil {
				c.Release()
			}
		}
	}()
	for i, f := range sc.Fields() {
		at := rec.Schema().FieldIndices(f.Name)
		switch {
		case len(at) > 1:
			return nil, errs.New(errs.Invalid, "datafile.conform", "the column is there twice", errs.On(f.Name))
		case len(at) == 0:
			cols[i] = array.MakeArrayOfNull(memory.DefaultAllocator, f.Type, int(rec.NumRows()))
		default:
			c, err := convert(ctx, rec.Column(at[0]), f.Type)
			if err != nil {
				return nil, errs.Wrap(errs.Invalid, "datafile.conform", err, errs.On(f.Name))
			}
			cols[i] = c
		}
		if !f.Nullable && cols[i].NullN() > 0 {
			return nil, errs.New(errs.Invalid, "datafile.conform", "NULL in a required column", errs.On(f.Name),
				errs.Hint("give every row a value, or make the column optional with ALTER TABLE … ALTER COLUMN … DROP NOT NULL"))
		}
	}
	return array.NewRecordBatch(sc, cols, rec.NumRows()), nil
}

// convert makes an array of exactly the type; the caller releases it.
func convert(ctx context.Context, a arrow.Array, to arrow.DataType) (arrow.Array, error) {
	if ext, ok := a.(array.ExtensionArray); ok {
		a = ext.Storage()
	}
	if fsl, ok := a.(*array.FixedSizeList); ok {
		l, err := listOf(fsl)
		if err != nil {
			return nil, err
		}
		defer l.Release()
		a = l
	}
	if _, list := a.(*array.List); !list && arrow.TypeEqual(a.DataType(), to) {
		a.Retain()
		return a, nil
	}
	switch t := to.(type) {
	case *arrow.ListType:
		l, ok := a.(*array.List)
		if !ok {
			break
		}
		l, err := withoutHidden(ctx, l)
		if err != nil {
			return nil, err
		}
		defer l.Release()
		values, err := convert(ctx, l.ListValues(), t.Elem())
		if err != nil {
			return nil, err
		}
		defer values.Release()
		if !t.ElemField().Nullable && values.NullN() > 0 {
			return nil, fmt.Errorf("NULL inside a list of required elements")
		}
		return rebuild(l.Data(), t, values.Data()), nil
	case *arrow.StructType:
		s, ok := a.(*array.Struct)
		if !ok {
			break
		}
		children := make([]arrow.ArrayData, t.NumFields())
		for i, f := range t.Fields() {
			k, found := s.DataType().(*arrow.StructType).FieldIdx(f.Name)
			var child arrow.Array
			if !found {
				child = array.MakeArrayOfNull(memory.DefaultAllocator, f.Type, s.Len())
			} else {
				var err error
				if child, err = convert(ctx, s.Field(k), f.Type); err != nil {
					return nil, fmt.Errorf("%s: %w", f.Name, err)
				}
			}
			defer child.Release()
			children[i] = child.Data()
		}
		// Field hands out children already cut to the struct's window, so the new one begins at offset 0.
		d := array.NewData(t, s.Len(), []*memory.Buffer{validity(s)}, children, s.NullN(), 0)
		defer d.Release()
		return array.MakeFromData(d), nil
	case *arrow.MapType:
		m, ok := a.(*array.Map)
		if !ok {
			break
		}
		entries, err := convert(ctx, m.ListValues(), t.Elem())
		if err != nil {
			return nil, err
		}
		defer entries.Release()
		return rebuild(a.Data(), t, entries.Data()), nil
	case *arrow.FixedSizeBinaryType:
		if s, ok := a.(*array.String); ok && t.ByteWidth == 16 {
			return parseUUIDs(s)
		}
	case arrow.ExtensionType:
		storage, err := convert(ctx, a, t.StorageType())
		if err != nil {
			return nil, err
		}
		defer storage.Release()
		return array.NewExtensionArrayWithStorage(t, storage), nil
	}
	if d, ok := a.(*array.Dictionary); ok {
		plain, err := compute.TakeArray(ctx, d.Dictionary(), d.Indices())
		if err != nil {
			return nil, err
		}
		defer plain.Release()
		return convert(ctx, plain, to)
	}
	out, err := compute.CastArray(ctx, a, compute.SafeCastOptions(to))
	if err != nil {
		return nil, fmt.Errorf("%s does not fit into %s: %w", a.DataType(), to, err)
	}
	return out, nil
}

func rebuild(d arrow.ArrayData, t arrow.DataType, values arrow.ArrayData) arrow.Array {
	n := array.NewData(t, d.Len(), d.Buffers(), []arrow.ArrayData{values}, d.NullN(), d.Offset())
	defer n.Release()
	return array.MakeFromData(n)
}

// validity is the validity of a struct as a buffer that begins at its first row.
func validity(s *array.Struct) *memory.Buffer {
	if s.NullN() == 0 {
		return nil
	}
	b := memory.NewResizableBuffer(memory.DefaultAllocator)
	b.Resize((s.Len() + 7) / 8)
	bits := b.Bytes()
	clear(bits)
	for i := range s.Len() {
		if s.IsValid(i) {
			bits[i/8] |= 1 << (i % 8)
		}
	}
	return b
}

// withoutHidden gives a list array whose values are exactly those of its non-NULL rows: values hidden behind a NULL row,
// or before and after a slice, would be checked and written as if they counted. The caller releases the result.
func withoutHidden(ctx context.Context, l *array.List) (*array.List, error) {
	hidden := false
	for i := 0; i < l.Len() && !hidden; i++ {
		lo, hi := l.ValueOffsets(i)
		hidden = l.IsNull(i) && lo != hi
	}
	if n := l.Len(); n > 0 && !hidden {
		first, _ := l.ValueOffsets(0)
		_, last := l.ValueOffsets(n - 1)
		hidden = first != 0 || int(last) != l.ListValues().Len()
	}
	if !hidden {
		l.Retain()
		return l, nil
	}
	offsets, index := array.NewInt32Builder(memory.DefaultAllocator), array.NewInt32Builder(memory.DefaultAllocator)
	defer offsets.Release()
	defer index.Release()
	bits := make([]byte, (l.Len()+7)/8)
	offsets.Append(0)
	for i := range l.Len() {
		if l.IsValid(i) {
			bits[i/8] |= 1 << (i % 8)
			lo, hi := l.ValueOffsets(i)
			for k := lo; k < hi; k++ {
				index.Append(int32(k))
			}
		}
		offsets.Append(int32(index.Len()))
	}
	indices, offs := index.NewArray(), offsets.NewArray()
	defer indices.Release()
	defer offs.Release()
	values, err := compute.TakeArray(ctx, l.ListValues(), indices)
	if err != nil {
		return nil, err
	}
	defer values.Release()
	d := array.NewData(l.DataType(), l.Len(), []*memory.Buffer{memory.NewBufferBytes(bits), offs.Data().Buffers()[1]}, []arrow.ArrayData{values.Data()}, l.NullN(), 0)
	defer d.Release()
	return array.NewListData(d), nil
}

// listOf turns a fixed-size list, slices and NULLs included, into a list over the same values.
func listOf(f *array.FixedSizeList) (arrow.Array, error) {
	b := array.NewInt32Builder(memory.DefaultAllocator)
	defer b.Release()
	width := int64(f.DataType().(*arrow.FixedSizeListType).Len())
	first := int64(f.Data().Offset()) * width
	last := first + int64(f.Len())*width
	if last-first > 1<<31-1 {
		return nil, fmt.Errorf("a batch of fixed-size lists holds more than 2^31 elements; use smaller batches")
	}
	for i := range int64(f.Len()) + 1 {
		b.Append(int32(i * width))
	}
	offsets := b.NewArray()
	defer offsets.Release()
	values := array.NewSlice(f.ListValues(), first, last)
	defer values.Release()
	bits := make([]byte, (f.Len()+7)/8)
	for i := range f.Len() {
		if f.IsValid(i) {
			bits[i/8] |= 1 << (i % 8)
		}
	}
	d := array.NewData(arrow.ListOfField(f.DataType().(*arrow.FixedSizeListType).ElemField()), f.Len(),
		[]*memory.Buffer{memory.NewBufferBytes(bits), offsets.Data().Buffers()[1]}, []arrow.ArrayData{values.Data()}, f.NullN(), 0)
	defer d.Release()
	return array.MakeFromData(d), nil
}

package datafile

import (
	"context"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/errs"
)

// Conform gives a batch the columns of a schema, matched by name: columns of other types are cast where every value fits
// (from double to float it is rounded), large and fixed-size lists become lists, missing nullable columns become NULL. What
// cannot be done, and a column or member that the schema lacks, is Invalid and names the column. The caller releases the
// result.
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
	if _, list := a.(*array.List); !list && arrow.TypeEqual(a.DataType(), to) {
		a.Retain()
		return a, nil
	}
	switch t := to.(type) {
	case *arrow.ListType:
		like, ok := a.(array.ListLike)
		if !ok || a.DataType().ID() == arrow.MAP {
			break
		}
		l, err := exactList(like)
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
		have := s.DataType().(*arrow.StructType)
		for _, f := range have.Fields() {
			if _, found := t.FieldIdx(f.Name); !found {
				return nil, fmt.Errorf("the table's column has no member %s", f.Name)
			}
		}
		children := make([]arrow.ArrayData, t.NumFields())
		for i, f := range t.Fields() {
			k, found := have.FieldIdx(f.Name)
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
		valid := validityOf(memory.DefaultAllocator, s)
		d := array.NewData(t, s.Len(), []*memory.Buffer{valid}, children, s.NullN(), 0)
		if valid != nil {
			valid.Release()
		}
		defer d.Release()
		return array.MakeFromData(d), nil
	case *arrow.MapType:
		m, ok := a.(*array.Map)
		if !ok {
			break
		}
		// By place, because every writer has names of its own for keys and values.
		keys, err := convert(ctx, m.Keys(), t.KeyType())
		if err != nil {
			return nil, fmt.Errorf("key: %w", err)
		}
		defer keys.Release()
		items, err := convert(ctx, m.Items(), t.ItemType())
		if err != nil {
			return nil, fmt.Errorf("value: %w", err)
		}
		defer items.Release()
		entries := array.NewData(t.Elem(), keys.Len(), []*memory.Buffer{nil}, []arrow.ArrayData{keys.Data(), items.Data()}, 0, 0)
		defer entries.Release()
		return rebuild(a.Data(), t, entries), nil
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

// exactList gives a list of anything like a list, over values that are exactly those of its rows: values before and after a
// slice, or hidden behind a NULL row, would be checked as if they counted. The caller releases the result.
func exactList(l array.ListLike) (*array.List, error) {
	n, hidden := l.Len(), false
	first, last := int64(0), int64(0)
	for i := range n {
		lo, hi := l.ValueOffsets(i)
		hidden = hidden || lo != hi && l.IsNull(i)
		if i == 0 {
			first = lo
		}
		last = hi
	}
	if same, ok := l.(*array.List); ok && !hidden && first == 0 && last == int64(l.ListValues().Len()) {
		same.Retain()
		return same, nil
	}
	if last-first > math.MaxInt32 {
		return nil, fmt.Errorf("a batch holds more than 2^31 list elements; use smaller batches")
	}
	values, err := visible(memory.DefaultAllocator, l, first, last, hidden)
	if err != nil {
		return nil, err
	}
	defer values.Release()
	return relist(memory.DefaultAllocator, l, arrow.ListOf(l.ListValues().DataType()), values).(*array.List), nil
}

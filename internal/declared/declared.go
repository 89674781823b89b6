// Package declared answers: which types can a column have that Iceberg has none for, and how does a table hold their values?
//
// The types are pgvector's: vector, halfvec, sparsevec and bit. A column declares its type in a table property (package lake
// keeps it, in the words of Type.String) and in the metadata of its Arrow field. Its values are of a type that Iceberg has,
// the storage type, so that other engines read them; docs/format/table-properties.md has the forms.
//
//	D1  Whatever way values come, those that a table takes are checked as the type demands, and those of a halfvec are
//	    rounded to the 16 bits that pgvector keeps.
package declared

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/pgvector"
)

// Key is the metadata key of an Arrow field that holds the declared type of a column.
const Key = "overlake.type"

// Type is vector, halfvec, sparsevec or bit.
type Type struct {
	Name string
	N    int // dimensions, or bits; 0 when any number will do
}

// String is the type as it is declared.
func (d Type) String() string {
	if d.N == 0 {
		return d.Name
	}
	return d.Name + "(" + strconv.Itoa(d.N) + ")"
}

var form = regexp.MustCompile(`^(vector|halfvec|sparsevec|bit)(\(([1-9][0-9]{0,9})\))?$`)

// Parse reads a declared type, such as halfvec(384). A bit needs its number.
func Parse(s string) (Type, bool) {
	m := form.FindStringSubmatch(s)
	if m == nil || m[1] == "bit" && m[2] == "" {
		return Type{}, false
	}
	n, err := strconv.ParseInt(m[3], 10, 64)
	if m[3] != "" && (err != nil || pgvector.CheckModifier(m[1], n) != nil) {
		return Type{}, false
	}
	return Type{Name: m[1], N: int(n)}, true
}

// Of is the declared type of a column of a table.
func Of(f arrow.Field) (Type, bool) {
	s, _ := f.Metadata.GetValue(Key)
	return Parse(s)
}

// The members of the struct that holds a sparsevec: as many elements as the vector has, the places of those that are not
// 0, from 0 and ascending, and their values.
const (
	SparseSize    = "size"
	SparseIndices = "indices"
	SparseValues  = "values"
)

// Storage is the type in which a table holds the values.
func (d Type) Storage() arrow.DataType {
	element := func(t arrow.DataType, nullable bool) arrow.DataType {
		return arrow.ListOfField(arrow.Field{Name: "element", Type: t, Nullable: nullable})
	}
	switch d.Name {
	case "sparsevec":
		return arrow.StructOf(
			arrow.Field{Name: SparseSize, Type: arrow.PrimitiveTypes.Int32, Nullable: true},
			arrow.Field{Name: SparseIndices, Type: element(arrow.PrimitiveTypes.Int32, true), Nullable: true},
			arrow.Field{Name: SparseValues, Type: element(arrow.PrimitiveTypes.Float32, true), Nullable: true})
	case "bit":
		return arrow.BinaryTypes.Binary
	}
	return element(arrow.PrimitiveTypes.Float32, false)
}

// Holds tells whether a column of an Arrow type can hold the values.
func (d Type) Holds(t arrow.DataType) bool {
	switch d.Name {
	case "sparsevec":
		s, ok := t.(*arrow.StructType)
		if !ok || s.NumFields() != 3 {
			return false
		}
		f := s.Fields()
		return f[0].Name == SparseSize && f[1].Name == SparseIndices && f[2].Name == SparseValues && f[0].Type.ID() == arrow.INT32 &&
			isList(f[1].Type, arrow.INT32) && isList(f[2].Type, arrow.FLOAT32)
	case "bit":
		return t.ID() == arrow.BINARY || t.ID() == arrow.LARGE_BINARY
	}
	return isList(t, arrow.FLOAT32)
}

func isList(t arrow.DataType, element arrow.Type) bool {
	l, ok := t.(arrow.ListLikeType)
	return ok && t.ID() != arrow.MAP && l.Elem().ID() == element
}

// Stored is a new column as a table will hold it, and its declared type; false when it declares none. Text becomes the
// storage type where values may be written as text.
func Stored(f arrow.Field) (arrow.Field, Type, bool, error) {
	s, ok := f.Metadata.GetValue(Key)
	if !ok {
		return f, Type{}, false, nil
	}
	d, ok := Parse(s)
	if !ok {
		return f, d, false, errs.New(errs.Invalid, "declared.type", "a column cannot be declared as "+strconv.Quote(s), errs.On(f.Name), errs.Hint("the types are %s", Forms))
	}
	if id := f.Type.ID(); (id == arrow.STRING || id == arrow.LARGE_STRING) && d.fromText() {
		f.Type = d.Storage()
	}
	if !d.Holds(f.Type) {
		return f, d, false, errs.New(errs.Invalid, "declared.type", fmt.Sprintf("a %s is held as %s, not %s", d.Name, d.held(), f.Type), errs.On(f.Name))
	}
	return f, d, true, nil
}

// Forms lists the declarations for people.
const Forms = "vector, vector(n), halfvec, halfvec(n), sparsevec, sparsevec(n) and bit(n)"

// held names the storage type for people.
func (d Type) held() string {
	switch d.Name {
	case "sparsevec":
		return "a struct of size, indices and values"
	case "bit":
		return "BLOB"
	}
	return "a list of FLOAT"
}

// fromText tells whether values may come as text. Those of vector and halfvec come as lists.
func (d Type) fromText() bool { return d.Name == "sparsevec" || d.Name == "bit" }

// ParseTexts gives columns that come as text the form that the table holds. declared has the types by the place of the
// column in the table's schema. The result is to be released.
func ParseTexts(rec arrow.RecordBatch, sc *arrow.Schema, declared map[int]Type) (arrow.RecordBatch, error) {
	rec.Retain()
	for i, d := range declared {
		at := rec.Schema().FieldIndices(sc.Field(i).Name)
		if len(at) != 1 || !d.fromText() {
			continue
		}
		text, ok := rec.Column(at[0]).(array.StringLike)
		if !ok {
			continue
		}
		col, err := d.parse(text)
		if err != nil {
			rec.Release()
			return nil, errs.With(err, errs.On(sc.Field(i).Name))
		}
		rec = replaceColumn(rec, at[0], col)
	}
	return rec, nil
}

// replaceColumn gives a batch with another column in one place; it takes the column and the batch over.
func replaceColumn(rec arrow.RecordBatch, at int, col arrow.Array) arrow.RecordBatch {
	defer rec.Release()
	defer col.Release()
	fields, cols := append([]arrow.Field(nil), rec.Schema().Fields()...), append([]arrow.Array(nil), rec.Columns()...)
	fields[at].Type, cols[at] = col.DataType(), col
	md := rec.Schema().Metadata()
	return array.NewRecordBatch(arrow.NewSchema(fields, &md), cols, rec.NumRows())
}

// parse reads texts.
func (d Type) parse(text array.StringLike) (arrow.Array, error) {
	b := array.NewBuilder(memory.DefaultAllocator, d.Storage())
	defer b.Release()
	b.Reserve(text.Len())
	var v vec.Sparse
	var packed []byte
	for i := range text.Len() {
		if text.IsNull(i) {
			b.AppendNull()
			continue
		}
		s := text.Value(i)
		switch b := b.(type) {
		case *array.BinaryBuilder:
			var err error
			if packed, err = pgvector.PackBits(s, packed[:0]); err == nil {
				err = pgvector.CheckBits(len(s), d.N)
			}
			if err != nil {
				return nil, err
			}
			b.Append(packed)
		case *array.StructBuilder:
			if err := pgvector.ParseSparse(s, &v); err != nil {
				return nil, err
			}
			appendSparse(b, &v)
		}
	}
	return b.NewArray(), nil
}

func appendSparse(b *array.StructBuilder, v *vec.Sparse) {
	b.Append(true)
	b.FieldBuilder(0).(*array.Int32Builder).Append(int32(v.Dim))
	indices, values := b.FieldBuilder(1).(*array.ListBuilder), b.FieldBuilder(2).(*array.ListBuilder)
	indices.Append(true)
	indices.ValueBuilder().(*array.Int32Builder).AppendValues(v.Index, nil)
	values.Append(true)
	values.ValueBuilder().(*array.Float32Builder).AppendValues(v.Value, nil)
}

// Check refuses values that a declared type does not have, whatever way they came, and rounds those of halfvec.
// The batch has the table's columns; the result is to be released.
func Check(rec arrow.RecordBatch, declared map[int]Type) (arrow.RecordBatch, error) {
	rec.Retain()
	for c, d := range declared {
		var err error
		switch a := rec.Column(c).(type) {
		case *array.List:
			var rounded arrow.Array
			if rounded, err = d.checkDense(a); rounded != nil {
				rec = replaceColumn(rec, c, rounded)
			}
		case *array.Struct:
			err = d.checkSparse(a)
		case *array.Binary:
			for i := range a.Len() {
				if err == nil && a.IsValid(i) {
					err = pgvector.CheckPacked(a.Value(i), d.N)
				}
			}
		}
		if err != nil {
			defer rec.Release()
			return nil, errs.Wrap(errs.Invalid, "declared.check", err, errs.On(rec.ColumnName(c)))
		}
	}
	return rec, nil
}

// checkDense checks lists; when the values of a halfvec are not rounded, it gives a new array.
func (d Type) checkDense(l *array.List) (arrow.Array, error) {
	values, ok := l.ListValues().(*array.Float32)
	if !ok {
		return nil, errs.Newf(errs.Internal, "declared.check", "a %s comes as %s", d.Name, l.DataType())
	}
	typ := pgvector.Vector
	if d.Name == "halfvec" {
		typ = pgvector.Halfvec
	}
	var rounded []float32
	for i := range l.Len() {
		if l.IsNull(i) {
			continue
		}
		lo, hi := l.ValueOffsets(i)
		v := values.Float32Values()[lo:hi]
		if d.N > 0 {
			if err := pgvector.CheckDim(v, d.N); err != nil {
				return nil, err
			}
		}
		if err := typ.Check(v); err != nil {
			return nil, err
		}
		if typ == pgvector.Vector {
			continue
		}
		for k, x := range v {
			if vec.Half(x) == x {
				continue
			}
			if rounded == nil {
				rounded = append(rounded, values.Float32Values()...)
			}
			if _, err := pgvector.FromNumbers(typ, v[k:k+1], rounded[int(lo)+k:int(lo)+k]); err != nil {
				return nil, err
			}
		}
	}
	if rounded == nil {
		return nil, nil
	}
	child := array.NewData(values.DataType(), len(rounded), []*memory.Buffer{nil, memory.NewBufferBytes(arrow.Float32Traits.CastToBytes(rounded))}, nil, 0, 0)
	defer child.Release()
	data := array.NewData(l.DataType(), l.Len(), l.Data().Buffers(), []arrow.ArrayData{child}, l.NullN(), l.Data().Offset())
	defer data.Release()
	return array.NewListData(data), nil
}

func (d Type) checkSparse(s *array.Struct) error {
	size, ok1 := s.Field(0).(*array.Int32)
	indices, ok2 := s.Field(1).(*array.List)
	values, ok3 := s.Field(2).(*array.List)
	if !ok1 || !ok2 || !ok3 {
		return errs.Newf(errs.Internal, "declared.check", "a sparsevec comes as %s", s.DataType())
	}
	places, numbers := indices.ListValues().(*array.Int32), values.ListValues().(*array.Float32)
	for i := range s.Len() {
		if s.IsNull(i) {
			continue
		}
		if size.IsNull(i) || indices.IsNull(i) || values.IsNull(i) {
			return pgvector.NullElement()
		}
		lo, hi := indices.ValueOffsets(i)
		from, to := values.ValueOffsets(i)
		for k := lo; k < hi; k++ {
			if places.IsNull(int(k)) {
				return pgvector.NullElement()
			}
		}
		for k := from; k < to; k++ {
			if numbers.IsNull(int(k)) {
				return pgvector.NullElement()
			}
		}
		v := vec.Sparse{Dim: int(size.Value(i)), Index: places.Int32Values()[lo:hi], Value: numbers.Float32Values()[from:to]}
		err := pgvector.CheckSparse(&v)
		if err == nil && d.N > 0 {
			err = pgvector.CheckSparseDim(&v, d.N)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

package lake

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/pgvector"
)

// Declared is a type that Iceberg has none for: vector, halfvec, sparsevec or bit. A column of such a type declares it in
// a table property, and holds its values in one of Iceberg's own types. docs/format/table-properties.md has the forms.
type Declared struct {
	Name string
	N    int // dimensions, or bits; 0 when any number will do
}

var declaredType = regexp.MustCompile(`^(vector|halfvec|sparsevec|bit)(\(([1-9][0-9]{0,9})\))?$`)

// ParseDeclared reads a declared type, such as halfvec(384). A bit needs its number.
func ParseDeclared(s string) (Declared, bool) {
	m := declaredType.FindStringSubmatch(s)
	if m == nil || m[1] == "bit" && m[2] == "" {
		return Declared{}, false
	}
	n, err := strconv.ParseInt(m[3], 10, 64)
	if m[3] != "" && (err != nil || pgvector.CheckModifier(m[1], n) != nil) {
		return Declared{}, false
	}
	return Declared{Name: m[1], N: int(n)}, true
}

// DeclaredOf is the declared type of a column of a table.
func DeclaredOf(f arrow.Field) (Declared, bool) {
	s, _ := f.Metadata.GetValue(TypeKey)
	return ParseDeclared(s)
}

// VectorDim is the number of dimensions of a declared vector type: 0 for one without, false for other types.
func VectorDim(declared string) (int, bool) {
	d, ok := ParseDeclared(declared)
	return d.N, ok && d.Name == "vector"
}

// The members of the struct that holds a sparsevec: as many elements as the vector has, the places of those that are not
// 0, from 0 and ascending, and their values.
const (
	SparseSize    = "size"
	SparseIndices = "indices"
	SparseValues  = "values"
)

// Storage is the type in which a table holds the values.
func (d Declared) Storage() arrow.DataType {
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

// holds tells whether a column of an Iceberg type can be declared so.
func (d Declared) holds(t iceberg.Type) bool {
	list := func(t, element iceberg.Type) bool {
		l, ok := t.(*iceberg.ListType)
		return ok && l.Element.Equals(element)
	}
	switch d.Name {
	case "sparsevec":
		s, ok := t.(*iceberg.StructType)
		if !ok || len(s.FieldList) != 3 {
			return false
		}
		f := s.FieldList
		return f[0].Name == SparseSize && f[1].Name == SparseIndices && f[2].Name == SparseValues && f[0].Type.Equals(iceberg.PrimitiveTypes.Int32) &&
			list(f[1].Type, iceberg.PrimitiveTypes.Int32) && list(f[2].Type, iceberg.PrimitiveTypes.Float32)
	case "bit":
		return t.Equals(iceberg.PrimitiveTypes.Binary)
	}
	return list(t, iceberg.PrimitiveTypes.Float32)
}

// stored is a new column as the table will hold it, and its declared type, "" for none. Text becomes what holds the
// values that are written as text.
func stored(f arrow.Field) (arrow.Field, string, error) {
	s, ok := f.Metadata.GetValue(TypeKey)
	if !ok {
		return f, "", nil
	}
	d, ok := ParseDeclared(s)
	if !ok {
		return f, "", errs.New(errs.Invalid, "lake.schema", "a column cannot be declared as "+strconv.Quote(s), errs.On(f.Name), errs.Hint("the types are %s", declarations))
	}
	if id := f.Type.ID(); (id == arrow.STRING || id == arrow.LARGE_STRING) && d.fromText() {
		f.Type = d.Storage()
	}
	id := 0
	t, err := icebergType(f, func() int { id++; return id })
	if err == nil && !d.holds(t) {
		err = errs.New(errs.Invalid, "lake.schema", fmt.Sprintf("a %s cannot be held as %s", d.Name, t), errs.On(f.Name))
	}
	return f, s, err
}

const declarations = "vector, vector(n), halfvec, halfvec(n), sparsevec, sparsevec(n) and bit(n)"

// fromText tells whether values may come as text. Those of vector and halfvec come as lists.
func (d Declared) fromText() bool { return d.Name == "sparsevec" || d.Name == "bit" }

// parseTexts gives the declared columns that come as text the form that the table holds.
func parseTexts(rec arrow.RecordBatch, sc *arrow.Schema, declared map[int]Declared) (arrow.RecordBatch, error) {
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
func (d Declared) parse(text array.StringLike) (arrow.Array, error) {
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

// checkDeclared refuses values that a declared type does not have, whatever way they came, and rounds those of halfvec.
// The batch has the table's columns; the result is to be released.
func checkDeclared(rec arrow.RecordBatch, declared map[int]Declared) (arrow.RecordBatch, error) {
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
			return nil, errs.Wrap(errs.Invalid, "lake.write", err, errs.On(rec.ColumnName(c)))
		}
	}
	return rec, nil
}

// checkDense checks lists; when the values of a halfvec are not rounded, it gives a new array.
func (d Declared) checkDense(l *array.List) (arrow.Array, error) {
	values, ok := l.ListValues().(*array.Float32)
	if !ok {
		return nil, errs.Newf(errs.Internal, "lake.write", "a %s comes as %s", d.Name, l.DataType())
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

func (d Declared) checkSparse(s *array.Struct) error {
	size, ok1 := s.Field(0).(*array.Int32)
	indices, ok2 := s.Field(1).(*array.List)
	values, ok3 := s.Field(2).(*array.List)
	if !ok1 || !ok2 || !ok3 {
		return errs.Newf(errs.Internal, "lake.write", "a sparsevec comes as %s", s.DataType())
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

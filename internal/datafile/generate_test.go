package datafile_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/datafile"
)

// ids numbers fields, nested ones too, from 1 in depth-first order.
type ids struct{ next int }

func (c *ids) field(name string, t arrow.DataType, nullable bool) arrow.Field {
	c.next++
	f := arrow.Field{Name: name, Nullable: nullable, Metadata: id(c.next)}
	switch t := t.(type) {
	case *arrow.StructType:
		members := make([]arrow.Field, t.NumFields())
		for i, m := range t.Fields() {
			members[i] = c.field(m.Name, m.Type, m.Nullable)
		}
		f.Type = arrow.StructOf(members...)
	case *arrow.MapType:
		f.Type = arrow.MapOfFields(c.field("key", t.KeyType(), false), c.field("value", t.ItemType(), t.ItemField().Nullable))
	case *arrow.ListType:
		f.Type = arrow.ListOfField(c.field("element", t.Elem(), t.ElemField().Nullable))
	case *arrow.LargeListType:
		f.Type = arrow.LargeListOfField(c.field("element", t.Elem(), t.ElemField().Nullable))
	default:
		f.Type = t
	}
	return f
}

// everyType is one column of every Iceberg type that a leaf can have.
func everyType() []arrow.DataType {
	return []arrow.DataType{
		arrow.FixedWidthTypes.Boolean, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float32,
		arrow.PrimitiveTypes.Float64, &arrow.Decimal128Type{Precision: 7, Scale: 2}, &arrow.Decimal128Type{Precision: 18, Scale: 0},
		&arrow.Decimal128Type{Precision: 38, Scale: 10}, arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Time64us,
		&arrow.TimestampType{Unit: arrow.Microsecond}, &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"},
		&arrow.TimestampType{Unit: arrow.Nanosecond}, &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"},
		arrow.BinaryTypes.String, arrow.BinaryTypes.Binary, extensions.NewUUIDType(), &arrow.FixedSizeBinaryType{ByteWidth: 5},
	}
}

// everySchema has a required and an optional column of every type and nested columns of a random choice.
func everySchema(rng *rand.Rand) *arrow.Schema {
	c := &ids{}
	var fields []arrow.Field
	leaves := everyType()
	for i, t := range leaves {
		fields = append(fields, c.field(fmt.Sprint("r.", i), t, false), c.field(fmt.Sprint("o", i), t, true))
	}
	for i := range 8 {
		fields = append(fields, c.field(fmt.Sprint("nested ", i), someNestedType(rng, leaves, 3), rng.IntN(2) == 0))
	}
	vector := arrow.ListOfField(arrow.Field{Name: "element", Type: arrow.PrimitiveTypes.Float32})
	return arrow.NewSchema(append(fields, c.field("vector", vector, true)), nil)
}

func someNestedType(rng *rand.Rand, leaves []arrow.DataType, depth int) arrow.DataType {
	inner := func() arrow.DataType {
		if depth > 1 && rng.IntN(2) == 0 {
			return someNestedType(rng, leaves, depth-1)
		}
		return leaves[rng.IntN(len(leaves))]
	}
	switch rng.IntN(4) {
	case 0:
		return arrow.ListOfField(arrow.Field{Name: "element", Type: inner(), Nullable: rng.IntN(2) == 0})
	case 1:
		return arrow.MapOfFields(arrow.Field{Name: "key", Type: leaves[rng.IntN(len(leaves))]}, arrow.Field{Name: "value", Type: inner(), Nullable: rng.IntN(2) == 0})
	}
	members := make([]arrow.Field, 1+rng.IntN(3))
	for i := range members {
		members[i] = arrow.Field{Name: fmt.Sprint("m", i), Type: inner(), Nullable: rng.IntN(2) == 0}
	}
	return arrow.StructOf(members...)
}

// some appends a random value, sometimes NULL where that is allowed.
func some(b array.Builder, nullable bool, rng *rand.Rand) {
	if nullable && rng.IntN(4) == 0 {
		b.AppendNull()
		return
	}
	switch b := b.(type) {
	case *array.BooleanBuilder:
		b.Append(rng.IntN(2) == 0)
	case *array.Int32Builder:
		b.Append(int32(rng.Uint32()) >> rng.IntN(32))
	case *array.Int64Builder:
		b.Append(int64(rng.Uint64()) >> rng.IntN(64))
	case *array.Float32Builder:
		b.Append(float32(someFloat(rng)))
	case *array.Float64Builder:
		b.Append(someFloat(rng))
	case *array.Decimal128Builder:
		t := b.Type().(*arrow.Decimal128Type)
		v := decimal128.New(int64(rng.Uint64())>>rng.IntN(64), rng.Uint64())
		for !v.FitsInPrecision(t.Precision) {
			v = decimal128.New(v.HighBits()>>1, v.LowBits()>>1)
			if v.HighBits() == 0 || v.HighBits() == -1 {
				v = decimal128.FromI64(rng.Int64N(int64(math.Pow10(int(min(t.Precision, 18))))) * int64(1-2*rng.IntN(2)))
			}
		}
		b.Append(v)
	case *array.Date32Builder:
		b.Append(arrow.Date32(rng.IntN(40000) - 20000))
	case *array.Time64Builder:
		b.Append(arrow.Time64(rng.Int64N(86_400_000_000)))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(rng.Int64N(1<<60) - 1<<59))
	case *array.StringBuilder:
		b.Append(someText(rng))
	case *array.BinaryBuilder:
		b.Append(someBytes(rng, rng.IntN(40)))
	case *array.FixedSizeBinaryBuilder:
		b.Append(someBytes(rng, b.Type().(*arrow.FixedSizeBinaryType).ByteWidth))
	case *extensions.UUIDBuilder:
		b.AppendBytes([16]byte(someBytes(rng, 16)))
	case *array.StructBuilder:
		b.Append(true)
		for i, f := range b.Type().(*arrow.StructType).Fields() {
			some(b.FieldBuilder(i), f.Nullable, rng)
		}
	case *array.MapBuilder:
		b.Append(true)
		for range rng.IntN(4) {
			some(b.KeyBuilder(), false, rng)
			some(b.ItemBuilder(), b.Type().(*arrow.MapType).ItemField().Nullable, rng)
		}
	case *array.ListBuilder:
		b.Append(true)
		for range rng.IntN(6) {
			some(b.ValueBuilder(), b.Type().(*arrow.ListType).ElemField().Nullable, rng)
		}
	default:
		panic(fmt.Sprintf("no values for %T", b))
	}
}

func someFloat(rng *rand.Rand) float64 {
	switch rng.IntN(12) {
	case 0:
		return math.NaN()
	case 1:
		return math.Copysign(0, -1)
	case 2:
		return 0
	case 3:
		return math.Inf(1 - 2*rng.IntN(2))
	}
	return rng.NormFloat64() * 1e3
}

var odd = []rune{'a', 'b', ' ', 'é', '語', '𝄞', '\ud7ff', '\ue000', '\U0010ffff', 0}

func someText(rng *rand.Rand) string {
	if rng.IntN(3) == 0 {
		return strings.Repeat("category ", rng.IntN(3))
	}
	var s strings.Builder
	for range rng.IntN(25) {
		s.WriteRune(odd[rng.IntN(len(odd))])
	}
	return s.String()
}

func someBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		if b[i] = byte(rng.Uint32()); rng.IntN(2) == 0 {
			b[i] = 0xFF
		}
	}
	return b
}

// randomBatch is rows of random values of a schema.
func randomBatch(mem memory.Allocator, sc *arrow.Schema, rows int, rng *rand.Rand) arrow.RecordBatch {
	b := array.NewRecordBuilder(mem, sc)
	defer b.Release()
	for range rows {
		for i, f := range sc.Fields() {
			some(b.Field(i), f.Nullable, rng)
		}
	}
	return b.NewRecordBatch()
}

// writeBatch writes a batch in slices of random size.
func writeBatch(t testing.TB, whole arrow.RecordBatch, opts datafile.WriterOptions, rng *rand.Rand) ([]byte, datafile.Meta) {
	t.Helper()
	var buf bytes.Buffer
	w, err := datafile.NewWriter(&buf, whole.Schema(), opts)
	if err != nil {
		t.Fatal(err)
	}
	for at := int64(0); at < whole.NumRows(); {
		n := min(whole.NumRows()-at, 1+rng.Int64N(700))
		part := whole.NewSlice(at, at+n)
		err := w.Write(part)
		part.Release()
		if err != nil {
			t.Fatal(err)
		}
		at += n
	}
	m, err := w.Close()
	if err != nil || m.Rows != whole.NumRows() || m.Size != int64(buf.Len()) {
		t.Fatalf("%+v, %v for %d bytes", m, err, buf.Len())
	}
	return buf.Bytes(), m
}

// sameRows compares row i of one batch with row k of another in every column. NaN equals NaN.
func sameRows(got arrow.RecordBatch, i int64, want arrow.RecordBatch, k int64) string {
	for c := range int(want.NumCols()) {
		if g, w := got.Column(c), want.Column(c); !sliceSame(g, i, i+1, w, k, k+1) {
			return fmt.Sprintf("column %q: %s instead of %s", want.ColumnName(c), array.NewSlice(g, i, i+1), array.NewSlice(w, k, k+1))
		}
	}
	return ""
}

func sliceSame(a arrow.Array, i, j int64, b arrow.Array, k, l int64) bool {
	x, y := array.NewSlice(a, i, j), array.NewSlice(b, k, l)
	defer x.Release()
	defer y.Release()
	return array.ApproxEqual(x, y, array.WithNaNsEqual(true), array.WithAbsTolerance(0))
}

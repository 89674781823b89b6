package datafile_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/datafile"
	"github.com/overlakedb/overlake/internal/errs"
)

func id(n int) arrow.Metadata {
	return arrow.NewMetadata([]string{datafile.FieldIDKey}, []string{fmt.Sprint(n)})
}

var schema = arrow.NewSchema([]arrow.Field{
	{Name: "id", Type: arrow.PrimitiveTypes.Int64, Metadata: id(1)},
	{Name: "odd.name [x]", Type: arrow.BinaryTypes.String, Nullable: true, Metadata: id(2)},
	{Name: "emb", Type: arrow.ListOfField(arrow.Field{Name: "element", Type: arrow.PrimitiveTypes.Float32, Metadata: id(4)}), Nullable: true, Metadata: id(3)},
	{Name: "tags", Type: arrow.ListOfField(arrow.Field{Name: "element", Type: arrow.BinaryTypes.String, Nullable: true, Metadata: id(6)}), Nullable: true, Metadata: id(5)},
	{Name: "price", Type: &arrow.Decimal128Type{Precision: 12, Scale: 2}, Nullable: true, Metadata: id(7)},
	{Name: "at", Type: &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, Nullable: true, Metadata: id(8)},
	{Name: "s", Type: arrow.StructOf(arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Float64, Nullable: true, Metadata: id(10)}), Nullable: true, Metadata: id(9)},
}, nil)

func batch(rng *rand.Rand, n int, first int64) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for i := range n {
		b.Field(0).(*array.Int64Builder).Append(first + int64(i))
		if rng.IntN(5) == 0 {
			for c := 1; c < schema.NumFields(); c++ {
				b.Field(c).AppendNull()
			}
			continue
		}
		b.Field(1).(*array.StringBuilder).Append(strings.Repeat("text ", rng.IntN(20)))
		lb := b.Field(2).(*array.ListBuilder)
		lb.Append(true)
		for range 16 {
			lb.ValueBuilder().(*array.Float32Builder).Append(rng.Float32())
		}
		tb := b.Field(3).(*array.ListBuilder)
		tb.Append(true)
		for range rng.IntN(4) {
			if rng.IntN(3) == 0 {
				tb.ValueBuilder().AppendNull()
			} else {
				tb.ValueBuilder().(*array.StringBuilder).Append(fmt.Sprint(rng.IntN(100)))
			}
		}
		b.Field(4).(*array.Decimal128Builder).Append(decimal128.FromI64(rng.Int64N(1e9)))
		b.Field(5).(*array.TimestampBuilder).Append(arrow.Timestamp(rng.Int64N(1e15)))
		sb := b.Field(6).(*array.StructBuilder)
		sb.Append(true)
		sb.FieldBuilder(0).(*array.Float64Builder).Append(rng.NormFloat64())
	}
	return b.NewRecordBatch()
}

// write makes a file of rows 0 to n-1 in batches of random size, and gives the rows back as one batch.
func write(t testing.TB, seed uint64, n int, opts datafile.WriterOptions) ([]byte, arrow.RecordBatch) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 7))
	whole := batch(rng, n, 0)
	var buf bytes.Buffer
	w, err := datafile.NewWriter(&buf, schema, opts)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < n; {
		k := min(n-at, 1+rng.IntN(700))
		part := whole.NewSlice(int64(at), int64(at+k))
		if err := w.Write(part); err != nil {
			t.Fatal(err)
		}
		part.Release()
		at += k
	}
	m, err := w.Close()
	if err != nil || m.Rows != int64(n) || m.Size != int64(buf.Len()) {
		t.Fatalf("%+v %v, %d bytes", m, err, buf.Len())
	}
	return buf.Bytes(), whole
}

func openFile(t testing.TB, data []byte) *datafile.File {
	t.Helper()
	f, err := datafile.Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestRoundTrip(t *testing.T) {
	data, whole := write(t, 1, 5000, datafile.WriterOptions{RowGroupRows: 1777, Bloom: []string{"id"}})
	f := openFile(t, data)
	if !f.HasFieldIDs() || f.Rows() != 5000 || datafile.FieldID(f.Schema().Field(2)) != 3 {
		t.Errorf("rows %d, ids %v, schema %v", f.Rows(), f.HasFieldIDs(), f.Schema())
	}
	if groups := f.RowGroups(); len(groups) != 3 || groups[1].First != 1777 || groups[2].Rows != 5000-2*1777 {
		t.Errorf("row groups %v", groups)
	}
	r, err := f.Read(t.Context(), nil, 1000)
	if err != nil {
		t.Fatal(err)
	}
	at := int64(0)
	for r.Next() {
		rec := r.RecordBatch()
		want := whole.NewSlice(at, at+rec.NumRows())
		for c := range int(rec.NumCols()) {
			if !array.Equal(rec.Column(c), want.Column(c)) {
				t.Fatalf("column %s differs at rows %d…", schema.Field(c).Name, at)
			}
		}
		want.Release()
		at += rec.NumRows()
	}
	if r.Err() != nil || at != 5000 {
		t.Error(at, r.Err())
	}
	if _, err := f.Read(t.Context(), []string{"none"}, 0); !errs.Is(err, errs.NotFound) {
		t.Errorf("a missing column gave %v", err)
	}
}

// TestFetchAgreesWithTheWholeFile fetches random positions, in random order and repeated, with lists, NULLs and small
// pages: seeking in lists is where the Parquet library goes wrong.
func TestFetchAgreesWithTheWholeFile(t *testing.T) {
	for seed := range uint64(4) {
		data, whole := write(t, seed, 3000, datafile.WriterOptions{RowGroupRows: 1000, PageBytes: 2000})
		f := openFile(t, data)
		rng := rand.New(rand.NewPCG(seed, 9))
		for round := range 12 {
			pos := make([]int64, rng.IntN(40))
			for i := range pos {
				pos[i] = rng.Int64N(3000)
			}
			rec, err := f.Fetch(t.Context(), pos, nil)
			if err != nil {
				t.Fatal(err)
			}
			if rec.NumRows() != int64(len(pos)) {
				t.Fatalf("seed %d round %d: %d rows for %d positions", seed, round, rec.NumRows(), len(pos))
			}
			for i, p := range pos {
				for c := range int(rec.NumCols()) {
					if !array.SliceEqual(rec.Column(c), int64(i), int64(i+1), whole.Column(c), p, p+1) {
						t.Fatalf("seed %d: row %d column %d differs", seed, p, c)
					}
				}
			}
			rec.Release()
		}
	}
	data, _ := write(t, 1, 100, datafile.WriterOptions{})
	f := openFile(t, data)
	for _, bad := range []int64{-1, 100, 1 << 40} {
		if _, err := f.Fetch(t.Context(), []int64{bad}, nil); !errs.Is(err, errs.Invalid) {
			t.Errorf("position %d gave %v", bad, err)
		}
	}
	rec, err := f.Fetch(t.Context(), []int64{5}, []string{"emb", "id"})
	if err != nil || rec.NumCols() != 2 {
		t.Errorf("%v, %v", rec, err)
	}
}

// TestFixedSizeLists: the Parquet library writes wrong rows for sliced fixed-size lists and refuses NULL ones, so they
// become lists first.
func TestFixedSizeLists(t *testing.T) {
	b := array.NewFixedSizeListBuilder(memory.DefaultAllocator, 2, arrow.PrimitiveTypes.Float32)
	for i := range 10 {
		if i == 4 {
			b.AppendNull()
			continue
		}
		b.Append(true)
		b.ValueBuilder().(*array.Float32Builder).AppendValues([]float32{float32(i), float32(-i)}, nil)
	}
	whole := b.NewArray()
	part := array.NewSlice(whole, 3, 8)
	in := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "v", Type: part.DataType(), Nullable: true}}, nil), []arrow.Array{part}, 5)
	out := arrow.NewSchema([]arrow.Field{{Name: "v", Type: arrow.ListOfField(arrow.Field{Name: "element", Type: arrow.PrimitiveTypes.Float32, Metadata: id(2)}), Nullable: true, Metadata: id(1)}}, nil)
	rec, err := datafile.Conform(t.Context(), in, out)
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	w, err := datafile.NewWriter(&buf, out, datafile.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(rec); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := openFile(t, buf.Bytes()).Fetch(t.Context(), []int64{0, 1, 4}, nil)
	if err != nil || got.Column(0).String() != "[[3 -3] (null) [7 -7]]" {
		t.Errorf("%v, %v", got, err)
	}
	// The writer itself takes them too.
	buf.Reset()
	if w, err = datafile.NewWriter(&buf, in.Schema(), datafile.WriterOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(in); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, err = openFile(t, buf.Bytes()).Fetch(t.Context(), []int64{0, 1, 4}, nil)
	if err != nil || got.Column(0).String() != "[[3 -3] (null) [7 -7]]" {
		t.Errorf("%v, %v", got, err)
	}
}

func TestConform(t *testing.T) {
	to := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int64}, {Name: "b", Type: arrow.PrimitiveTypes.Float64, Nullable: true}}, nil)
	build := func(fields []arrow.Field, fill func(b *array.RecordBuilder)) arrow.RecordBatch {
		b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
		fill(b)
		return b.NewRecordBatch()
	}
	rec := build([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int16, Nullable: true}}, func(b *array.RecordBuilder) { b.Field(0).(*array.Int16Builder).Append(7) })
	out, err := datafile.Conform(t.Context(), rec, to)
	if err != nil || out.Column(0).String() != "[7]" || out.Column(1).String() != "[(null)]" {
		t.Errorf("%v, %v", out, err)
	}
	nested := arrow.NewSchema([]arrow.Field{
		{Name: "l", Type: arrow.ListOfField(arrow.Field{Name: "element", Type: arrow.PrimitiveTypes.Float32}), Nullable: true},
		{Name: "m", Type: arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64), Nullable: true},
		{Name: "s", Type: arrow.StructOf(arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, arrow.Field{Name: "y", Type: arrow.PrimitiveTypes.Int64, Nullable: true}), Nullable: true},
	}, nil)
	for _, list := range []arrow.DataType{arrow.ListOf(arrow.PrimitiveTypes.Float64), arrow.LargeListOf(arrow.PrimitiveTypes.Float64), arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32)} {
		in, _, err := array.RecordFromJSON(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{
			{Name: "m", Type: arrow.MapOfFields(arrow.Field{Name: "k", Type: arrow.BinaryTypes.String}, arrow.Field{Name: "v", Type: arrow.PrimitiveTypes.Int32, Nullable: true}), Nullable: true},
			{Name: "l", Type: list, Nullable: true},
			{Name: "s", Type: arrow.StructOf(arrow.Field{Name: "y", Type: arrow.PrimitiveTypes.Int32, Nullable: true}), Nullable: true},
		}, nil), strings.NewReader(`[{"m":null,"l":[8,9],"s":null},{"m":[{"key":"a","value":1}],"l":[1,2],"s":{"y":3}},{"m":[],"l":null,"s":{"y":null}}]`))
		if err != nil {
			t.Fatal(err)
		}
		out, err := datafile.Conform(t.Context(), in.NewSlice(1, 3), nested)
		if err != nil || fmt.Sprint(out.Column(0), out.Column(1), out.Column(2)) != `[[1 2] (null)] [{["a"] [1]} {[] []}] {[(null) (null)] [3 (null)]}` {
			t.Errorf("%s: %v, %v", list, out, err)
		}
	}
	stranger := build([]arrow.Field{{Name: "s", Type: arrow.StructOf(arrow.Field{Name: "z", Type: arrow.PrimitiveTypes.Int64})}}, func(b *array.RecordBuilder) {})
	if _, err := datafile.Conform(t.Context(), stranger, nested); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "z") {
		t.Errorf("a member that the table lacks gave %v", err)
	}
	for name, bad := range map[string]arrow.RecordBatch{
		"unknown column": build([]arrow.Field{{Name: "z", Type: arrow.PrimitiveTypes.Int64}}, func(b *array.RecordBuilder) {}),
		"required NULL":  build([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, func(b *array.RecordBuilder) { b.Field(0).AppendNull() }),
		"lossy":          build([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Float64}}, func(b *array.RecordBuilder) { b.Field(0).(*array.Float64Builder).Append(1.5) }),
		"text":           build([]arrow.Field{{Name: "a", Type: arrow.BinaryTypes.String}}, func(b *array.RecordBuilder) { b.Field(0).(*array.StringBuilder).Append("x") }),
	} {
		if _, err := datafile.Conform(t.Context(), bad, to); !errs.Is(err, errs.Invalid) {
			t.Errorf("%s gave %v", name, err)
		}
	}
}

package datafile_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/overlakedb/overlake/internal/datafile"
	"github.com/overlakedb/overlake/internal/errs"
)

// What the Parquet library does wrong, or lets go wrong, one test each.

func floatList(nullable bool) arrow.DataType {
	return arrow.ListOfField(arrow.Field{Name: "element", Type: arrow.PrimitiveTypes.Float32, Nullable: nullable})
}

// asJSON makes an array of a type from JSON.
func asJSON(t testing.TB, typ arrow.DataType, text string) arrow.Array {
	t.Helper()
	a, _, err := array.FromJSON(memory.DefaultAllocator, typ, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// readBack writes batches of one column under a field and gives the whole column as text.
func readBack(t testing.TB, f arrow.Field, opts datafile.WriterOptions, parts ...arrow.Array) string {
	t.Helper()
	var buf bytes.Buffer
	w, err := datafile.NewWriter(&buf, arrow.NewSchema([]arrow.Field{f}, nil), opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range parts {
		in := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: f.Name, Type: a.DataType(), Nullable: true}}, nil), []arrow.Array{a}, int64(a.Len()))
		if err := w.Write(in); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	out := openFile(t, buf.Bytes())
	pos := make([]int64, out.Rows())
	for i := range pos {
		pos[i] = int64(i)
	}
	rec, err := out.Fetch(t.Context(), pos, nil)
	if err != nil {
		t.Fatal(err)
	}
	return rec.Column(0).String()
}

// A slice of a fixed-size list is written from the beginning of the whole, so is the second part of one that is cut at a row
// group, and NULL entries are refused.
func TestTrapFixedSizeListSlices(t *testing.T) {
	typ := arrow.FixedSizeListOfField(2, arrow.Field{Name: "item", Type: arrow.PrimitiveTypes.Float32, Nullable: false})
	a := asJSON(t, typ, `[[0,0],[1,1],[2,2],null,[4,4],[5,5],[6,6]]`)
	f := (&ids{}).field("v", floatList(false), true)
	for _, c := range []struct {
		parts []arrow.Array
		want  string
	}{
		{[]arrow.Array{a}, "[[0 0] [1 1] [2 2] (null) [4 4] [5 5] [6 6]]"},
		{[]arrow.Array{array.NewSlice(a, 2, 6)}, "[[2 2] (null) [4 4] [5 5]]"},
		{[]arrow.Array{array.NewSlice(a, 4, 7), array.NewSlice(a, 0, 1), array.NewSlice(a, 3, 4)}, "[[4 4] [5 5] [6 6] [0 0] (null)]"},
	} {
		for _, opts := range []datafile.WriterOptions{{}, {RowGroupRows: 2}} {
			if got := readBack(t, f, opts, c.parts...); got != c.want {
				t.Errorf("%s became %s", c.want, got)
			}
		}
	}
}

// hidden is a list array [[1 2] NULL [5]] whose NULL row has the values 3 and 4 behind it.
func hidden(typ arrow.DataType, values arrow.Array) arrow.Array {
	offsets := arrow.Int32Traits.CastToBytes([]int32{0, 2, 4, 5})
	d := array.NewData(typ, 3, []*memory.Buffer{memory.NewBufferBytes([]byte{0b101}), memory.NewBufferBytes(offsets)}, []arrow.ArrayData{values.Data()}, 1, 0)
	return array.MakeFromData(d)
}

// Values behind a NULL list, or behind a list of a NULL struct, are refused by the library.
func TestTrapValuesBehindNull(t *testing.T) {
	floats := asJSON(t, arrow.PrimitiveTypes.Float32, `[1,2,3,4,5]`)
	list := hidden(floatList(false), floats)
	if got := readBack(t, (&ids{}).field("v", list.DataType(), true), datafile.WriterOptions{}, list); got != "[[1 2] (null) [5]]" {
		t.Errorf("a list: %s", got)
	}
	if got := readBack(t, (&ids{}).field("v", list.DataType(), true), datafile.WriterOptions{}, array.NewSlice(list, 1, 3)); got != "[(null) [5]]" {
		t.Errorf("a slice: %s", got)
	}
	texts := asJSON(t, arrow.BinaryTypes.String, `["a","b","c","d","e"]`)
	keys := asJSON(t, arrow.PrimitiveTypes.Int32, `[1,2,3,4,5]`)
	entries := array.NewData(arrow.StructOf(arrow.Field{Name: "key", Type: keys.DataType()}, arrow.Field{Name: "value", Type: texts.DataType(), Nullable: true}),
		5, []*memory.Buffer{nil}, []arrow.ArrayData{keys.Data(), texts.Data()}, 0, 0)
	m := hidden(arrow.MapOf(keys.DataType(), texts.DataType()), array.MakeFromData(entries))
	if got := readBack(t, (&ids{}).field("v", m.DataType(), true), datafile.WriterOptions{}, m); got != `[{[1 2] ["a" "b"]} (null) {[5] ["e"]}]` {
		t.Errorf("a map: %s", got)
	}
	// A struct that is NULL where its list is not.
	full := asJSON(t, floatList(false), `[[1],[2,3],[4]]`)
	styp := arrow.StructOf(arrow.Field{Name: "l", Type: full.DataType(), Nullable: false})
	s := array.MakeFromData(array.NewData(styp, 3, []*memory.Buffer{memory.NewBufferBytes([]byte{0b101})}, []arrow.ArrayData{full.Data()}, 1, 0))
	if got := readBack(t, (&ids{}).field("v", styp, true), datafile.WriterOptions{}, s); got != "{[[1] (null) [4]]}" {
		t.Errorf("a struct: %s", got)
	}
	// A NULL behind a NULL does not break a promise of the schema; one in front does.
	holes := asJSON(t, arrow.PrimitiveTypes.Float32, `[1,2,null,4,5]`)
	if got := readBack(t, (&ids{}).field("v", floatList(false), true), datafile.WriterOptions{}, hidden(floatList(true), holes)); got != "[[1 2] (null) [5]]" {
		t.Errorf("a NULL behind a NULL: %s", got)
	}
}

// TestTrapRequired: the library writes a NULL into a required field without a word, and it becomes some value.
func TestTrapRequired(t *testing.T) {
	structs := func(nullable bool) arrow.DataType {
		return arrow.StructOf(arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int32, Nullable: nullable})
	}
	for name, c := range map[string]struct {
		have, want arrow.DataType
		nullable   bool
		json       string
	}{
		"v":         {arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int32, false, `[1,null]`},
		"v.element": {floatList(true), floatList(false), true, `[[1],[null]]`},
		"v.x":       {structs(true), structs(false), true, `[{"x":1},null,{"x":null}]`},
	} {
		f := (&ids{}).field("v", c.want, c.nullable)
		w, err := datafile.NewWriter(&bytes.Buffer{}, arrow.NewSchema([]arrow.Field{f}, nil), datafile.WriterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		a := asJSON(t, c.have, c.json)
		in := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "v", Type: a.DataType(), Nullable: true}}, nil), []arrow.Array{a}, int64(a.Len()))
		err = w.Write(in)
		var e *errs.Error
		if !errors.As(err, &e) || e.Kind != errs.Invalid || e.Object != name {
			t.Errorf("a NULL in %s gave %v", name, err)
		}
		// The first error is the one that stays.
		if again := w.Write(in); again != err {
			t.Errorf("then %v", again)
		}
		if _, closed := w.Close(); closed != err {
			t.Errorf("and at the end %v", closed)
		}
	}
}

// footerOf is the library's footer of a file.
func footerOf(t testing.TB, data []byte) (*file.Reader, *metadata.FileMetaData) {
	t.Helper()
	r, err := file.NewParquetReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return r, r.MetaData()
}

// TestEveryChunkHasAnIndexAndItsPagesBeginAtRows: iceberg-go never writes an index, and without one, or with pages that begin
// within a row, no row of a list can be fetched.
func TestEveryChunkHasAnIndexAndItsPagesBeginAtRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	whole := randomBatch(memory.DefaultAllocator, everySchema(rng), 900, rng)
	data, _ := writeBatch(t, whole, datafile.WriterOptions{RowGroupRows: 333, PageBytes: 200}, rng)
	r, md := footerOf(t, data)
	pages := 0
	for g := range md.NumRowGroups() {
		index, err := r.GetPageIndexReader().RowGroup(g)
		if err != nil || index == nil {
			t.Fatalf("row group %d has no index: %v", g, err)
		}
		for c := range md.Schema.NumColumns() {
			oi, err := index.GetOffsetIndex(c)
			if err != nil || oi == nil {
				t.Fatalf("%s has no offset index: %v", md.Schema.Column(c).Path(), err)
			}
			pr, err := r.RowGroup(g).GetColumnPageReader(c)
			if err != nil {
				t.Fatal(err)
			}
			rows, k := int64(0), 0
			for pr.Next() {
				p, ok := pr.Page().(*file.DataPageV2)
				if !ok {
					if _, dict := pr.Page().(*file.DictionaryPage); dict {
						continue
					}
					t.Fatalf("%s has a %T", md.Schema.Column(c).Path(), pr.Page())
				}
				if at := oi.GetPageLocations()[k].FirstRowIndex; at != rows {
					t.Errorf("%s page %d begins at row %d and the index says %d", md.Schema.Column(c).Path(), k, rows, at)
				}
				rows += int64(p.NumRows())
				k++
				pages++
			}
			if pr.Err() != nil || rows != r.RowGroup(g).NumRows() || k != len(oi.GetPageLocations()) {
				t.Errorf("%s: %d rows in %d pages, %v", md.Schema.Column(c).Path(), rows, k, pr.Err())
			}
			if err := pr.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if pages < 500 {
		t.Errorf("only %d pages: the test is not worth much", pages)
	}
}

// TestTypesWithoutIceberg are refused by name. Float16 is the trap: the library stores it and Iceberg readers see bytes.
func TestTypesWithoutIceberg(t *testing.T) {
	for _, typ := range []arrow.DataType{
		arrow.FixedWidthTypes.Float16, arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Uint8,
		arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Uint64, arrow.Null, arrow.FixedWidthTypes.Date64,
		arrow.FixedWidthTypes.Time32s, arrow.FixedWidthTypes.Time64ns, arrow.FixedWidthTypes.Timestamp_s, arrow.FixedWidthTypes.Timestamp_ms,
		arrow.FixedWidthTypes.Duration_us, arrow.FixedWidthTypes.MonthDayNanoInterval, &arrow.Decimal256Type{Precision: 50, Scale: 1},
		&arrow.Decimal128Type{Precision: 5, Scale: -1}, arrow.BinaryTypes.StringView, arrow.StructOf(),
		arrow.ListViewOf(arrow.PrimitiveTypes.Int32), arrow.SparseUnionOf(nil, nil),
	} {
		for _, in := range []arrow.DataType{typ, arrow.ListOf(typ), arrow.MapOf(arrow.PrimitiveTypes.Int32, typ)} {
			_, err := datafile.NewWriter(&bytes.Buffer{}, arrow.NewSchema([]arrow.Field{{Name: "the column", Type: in, Nullable: true}}, nil), datafile.WriterOptions{})
			if !errs.Is(err, errs.Unsupported) || !strings.HasPrefix(err.Error(), "the column") {
				t.Errorf("%s gave %v", in, err)
			}
		}
	}
	for name, opts := range map[string]datafile.WriterOptions{
		"codec": {Codec: "lzo"}, "vectors": {Vectors: 7}, "bloom of a boolean": {Bloom: []string{"b"}},
	} {
		sc := arrow.NewSchema([]arrow.Field{{Name: "b", Type: arrow.FixedWidthTypes.Boolean}}, nil)
		if _, err := datafile.NewWriter(&bytes.Buffer{}, sc, opts); !errs.Is(err, errs.Unsupported) {
			t.Errorf("%s gave %v", name, err)
		}
	}
}

func TestFieldIDs(t *testing.T) {
	list := func(elem arrow.Metadata) arrow.DataType {
		return arrow.ListOfField(arrow.Field{Name: "element", Type: arrow.PrimitiveTypes.Int32, Metadata: elem})
	}
	for name, c := range map[string]struct {
		fields []arrow.Field
		ok     bool
	}{
		"none":       {[]arrow.Field{{Name: "a", Type: list(arrow.Metadata{})}}, true},
		"all":        {[]arrow.Field{{Name: "a", Type: list(id(2)), Metadata: id(1)}}, true},
		"no element": {[]arrow.Field{{Name: "a", Type: list(arrow.Metadata{}), Metadata: id(1)}}, false},
		"twice":      {[]arrow.Field{{Name: "a", Type: list(id(1)), Metadata: id(1)}}, false},
		"no number":  {[]arrow.Field{{Name: "a", Type: list(id(2)), Metadata: arrow.NewMetadata([]string{datafile.FieldIDKey}, []string{"one"})}}, false},
	} {
		var buf bytes.Buffer
		w, err := datafile.NewWriter(&buf, arrow.NewSchema(c.fields, nil), datafile.WriterOptions{})
		if !c.ok {
			if !errs.Is(err, errs.Invalid) {
				t.Errorf("%s gave %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		m, err := w.Close()
		if err != nil {
			t.Fatal(err)
		}
		f := openFile(t, buf.Bytes())
		ids := name == "all"
		elem := f.Schema().Field(0).Type.(*arrow.ListType).ElemField()
		if f.HasFieldIDs() != ids || len(m.Columns) != map[bool]int{true: 1, false: 0}[ids] || elem.HasMetadata() != ids {
			t.Errorf("%s: %v, %d columns, %v", name, f.HasFieldIDs(), len(m.Columns), f.Schema())
		}
	}
}

// TestForeignListsAreFetchedRight: seeking in lists goes wrong silently on V1 pages and fails on the second seek on V2 pages.
// Files of other writers, with and without an index, have to give the same rows by position as in order.
func TestForeignListsAreFetchedRight(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	c := &ids{}
	sc := arrow.NewSchema([]arrow.Field{
		c.field("id", arrow.PrimitiveTypes.Int64, false),
		c.field("name", arrow.BinaryTypes.String, true),
		c.field("list", floatList(true), true),
		c.field("texts", arrow.ListOfField(arrow.Field{Name: "element", Type: arrow.BinaryTypes.String, Nullable: true}), true),
		c.field("struct", arrow.StructOf(arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
			arrow.Field{Name: "l", Type: floatList(false), Nullable: true}), true),
	}, nil)
	whole := randomBatch(memory.DefaultAllocator, sc, 3000, rng)
	for _, version := range []parquet.DataPageVersion{parquet.DataPageV1, parquet.DataPageV2} {
		for _, index := range []bool{true, false} {
			for _, dict := range []bool{true, false} {
				name := fmt.Sprintf("V%d index %v dictionary %v", version+1, index, dict)
				var buf bytes.Buffer
				props := parquet.NewWriterProperties(parquet.WithDataPageVersion(version), parquet.WithPageIndexEnabled(index), parquet.WithDictionaryDefault(dict),
					parquet.WithDataPageSize(700), parquet.WithBatchSize(37), parquet.WithMaxRowGroupLength(1100), parquet.WithCompression(compress.Codecs.Snappy))
				w, err := pqarrow.NewFileWriter(sc, &buf, props, pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
				if err != nil {
					t.Fatal(err)
				}
				if err := w.WriteBuffered(whole); err != nil {
					t.Fatal(err)
				}
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
				f := openFile(t, buf.Bytes())
				for round := range 8 {
					pos := make([]int64, 1+rng.IntN(60))
					for i := range pos {
						pos[i] = rng.Int64N(3000)
					}
					rec, err := f.Fetch(t.Context(), pos, nil)
					if err != nil {
						t.Fatalf("%s round %d: %v", name, round, err)
					}
					for i, p := range pos {
						if diff := sameRows(rec, int64(i), whole, p); diff != "" {
							t.Fatalf("%s position %d: %s", name, p, diff)
						}
					}
					rec.Release()
				}
			}
		}
	}
}

// TestArrowSchemasInFilesDoNotCount: a file may say that its list is a fixed-size list or its text a dictionary, for readers
// that share the writer's memory model. Ours has the types of the table.
func TestArrowSchemasInFilesDoNotCount(t *testing.T) {
	sc := arrow.NewSchema([]arrow.Field{
		{Name: "v", Type: arrow.FixedSizeListOfField(2, arrow.Field{Name: "item", Type: arrow.PrimitiveTypes.Float32})},
		{Name: "s", Type: arrow.BinaryTypes.LargeString, Nullable: true},
		{Name: "d", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}, Nullable: true},
	}, nil)
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, sc, strings.NewReader(`[{"v":[1,2],"s":"a","d":"x"},{"v":[3,4],"s":null,"d":"y"}]`))
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	w, err := pqarrow.NewFileWriter(sc, &buf, parquet.NewWriterProperties(), pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Write(rec), w.Close()); err != nil {
		t.Fatal(err)
	}
	f := openFile(t, buf.Bytes())
	got, err := f.Fetch(t.Context(), []int64{1, 0}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprint(got.Column(0), got.Column(1), got.Column(2))
	if text != `[[3 4] [1 2]] [(null) "a"] ["y" "x"]` || f.HasFieldIDs() {
		t.Errorf("%s, ids %v", text, f.HasFieldIDs())
	}
	for i, want := range []arrow.Type{arrow.LIST, arrow.STRING, arrow.STRING} {
		if got.Column(i).DataType().ID() != want || f.Schema().Field(i).Type.ID() != want {
			t.Errorf("column %d is %s", i, got.Column(i).DataType())
		}
	}
}

// TestNamesWithDots: the library knows columns by paths joined with dots, so "a.b" and the field b of a are one to it.
func TestNamesWithDots(t *testing.T) {
	c := &ids{}
	sc := arrow.NewSchema([]arrow.Field{
		c.field("a.b", arrow.BinaryTypes.String, true),
		c.field("a", arrow.StructOf(arrow.Field{Name: "b", Type: arrow.PrimitiveTypes.Int32, Nullable: true}), true),
		c.field("v.list.element", arrow.BinaryTypes.String, true),
		c.field("v", floatList(false), true),
		c.field(`odd "name" [x] 語`, floatList(false), true),
		c.field("", arrow.PrimitiveTypes.Int32, true),
	}, nil)
	rng := rand.New(rand.NewPCG(2, 3))
	whole := randomBatch(memory.DefaultAllocator, sc, 200, rng)
	for _, opts := range []datafile.WriterOptions{{}, {Vectors: datafile.VectorsSplit, PageBytes: 300}} {
		data, _ := writeBatch(t, whole, opts, rng)
		rec, err := openFile(t, data).Fetch(t.Context(), []int64{0, 7, 199}, []string{"v", "a.b", "a", "", "v.list.element", `odd "name" [x] 語`})
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range []int64{0, 7, 199} {
			for col, from := range []int{3, 0, 1, 5, 2, 4} {
				if !sliceSame(rec.Column(col), int64(i), int64(i+1), whole.Column(from), p, p+1) {
					t.Errorf("row %d of %q differs", p, rec.ColumnName(col))
				}
			}
		}
	}
	if _, err := datafile.NewWriter(&bytes.Buffer{}, sc, datafile.WriterOptions{Bloom: []string{"a.b"}}); !errs.Is(err, errs.Unsupported) {
		t.Errorf("a bloom filter on one of two columns of one path gave %v", err)
	}
}

// TestRowGroupsKeepTheirLimits: rows exactly, bytes nearly. The library looks at a page once in 1,024 values, however wide
// they are, so wide values come in small portions.
func TestRowGroupsKeepTheirLimits(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{(&ids{}).field("text", arrow.BinaryTypes.String, true)}, nil))
	raw := make([]byte, 4000)
	for range 3000 {
		for i := range raw {
			raw[i] = byte(32 + rng.IntN(90))
		}
		b.Field(0).(*array.StringBuilder).Append(string(raw))
	}
	whole := b.NewRecordBatch() // 12 MB
	var buf bytes.Buffer
	w, err := datafile.NewWriter(&buf, whole.Schema(), datafile.WriterOptions{RowGroupBytes: 2 << 20, Codec: datafile.Uncompressed})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(whole); err != nil {
		t.Fatal(err)
	}
	if n := w.Bytes(); n < 10<<20 || n > 14<<20 || w.Rows() != 3000 {
		t.Errorf("%d bytes and %d rows so far", n, w.Rows())
	}
	m, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range openFile(t, buf.Bytes()).RowGroups()[:len(m.SplitOffsets)-1] {
		if g.Bytes < 2<<20 || g.Bytes > 5<<19 {
			t.Errorf("a row group of %d bytes", g.Bytes)
		}
	}
	r, _ := footerOf(t, buf.Bytes())
	index, err := r.GetPageIndexReader().RowGroup(0)
	if err != nil {
		t.Fatal(err)
	}
	oi, err := index.GetOffsetIndex(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range oi.GetPageLocations() {
		if p.CompressedPageSize > 160<<10 {
			t.Errorf("a page of %d bytes where 64 KiB are the aim", p.CompressedPageSize)
		}
	}
	data, _ := writeBatch(t, whole, datafile.WriterOptions{RowGroupRows: 700}, rng)
	for i, g := range openFile(t, data).RowGroups() {
		if want := min(700, 3000-int64(i)*700); g.Rows != want || g.First != int64(i)*700 {
			t.Errorf("row group %d: %+v", i, g)
		}
	}
}

// TestHowVectorsAreStored reads it from the footer.
func TestHowVectorsAreStored(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	c := &ids{}
	sc := arrow.NewSchema([]arrow.Field{
		c.field("s", arrow.StructOf(arrow.Field{Name: "v", Type: floatList(true), Nullable: true}), true),
		c.field("v", floatList(true), true),
		c.field("text", arrow.BinaryTypes.String, true),
	}, nil)
	whole := randomBatch(memory.DefaultAllocator, sc, 500, rng)
	for vectors, want := range map[datafile.VectorEncoding]string{
		datafile.VectorsPlain: "UNCOMPRESSED false ZSTD", datafile.VectorsSplit: "ZSTD true ZSTD",
	} {
		data, _ := writeBatch(t, whole, datafile.WriterOptions{Vectors: vectors}, rng)
		_, md := footerOf(t, data)
		chunk := func(i int) *metadata.ColumnChunkMetaData {
			k, err := md.RowGroup(0).ColumnChunk(i)
			if err != nil {
				t.Fatal(err)
			}
			return k
		}
		for _, i := range []int{0, 1} {
			split := false
			for _, e := range chunk(i).Encodings() {
				split = split || e == parquet.Encodings.ByteStreamSplit
			}
			if got := fmt.Sprint(chunk(i).Compression(), " ", split, " ", chunk(2).Compression()); got != want || chunk(i).HasDictionaryPage() {
				t.Errorf("%d: %s, want %s", vectors, got, want)
			}
		}
	}
}

// TestBloomFilters never say no to a value that is there, and say it to most that are not.
func TestBloomFilters(t *testing.T) {
	c := &ids{}
	sc := arrow.NewSchema([]arrow.Field{c.field("u", arrow.FixedWidthTypes.Boolean, true), c.field("k", arrow.PrimitiveTypes.Int64, true),
		c.field("tags", arrow.ListOf(arrow.BinaryTypes.String), true)}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
	for i := range 5000 {
		b.Field(0).AppendNull()
		b.Field(1).(*array.Int64Builder).Append(int64(i) * 7)
		l := b.Field(2).(*array.ListBuilder)
		l.Append(true)
		l.ValueBuilder().(*array.StringBuilder).Append(fmt.Sprint("tag ", i))
	}
	data, _ := writeBatch(t, b.NewRecordBatch(), datafile.WriterOptions{Bloom: []string{"k", "tags"}}, rand.New(rand.NewPCG(1, 1)))
	r, _ := footerOf(t, data)
	rg, err := r.GetBloomFilterReader().RowGroup(0)
	if err != nil {
		t.Fatal(err)
	}
	filter, err := rg.GetColumnBloomFilter(1)
	if err != nil || filter == nil {
		t.Fatalf("no bloom filter: %v", err)
	}
	wrong := 0
	for i := range int64(35_000) {
		found := filter.CheckHash(metadata.GetHash(filter.Hasher(), i))
		if i%7 == 0 && !found {
			t.Fatalf("the value %d is denied", i)
		}
		if i%7 != 0 && found {
			wrong++
		}
	}
	if wrong > 1500 {
		t.Errorf("%d of 30000 absent values are not denied", wrong)
	}
	texts, err := rg.GetColumnBloomFilter(2)
	if err != nil || texts == nil || !texts.CheckHash(metadata.GetHash(texts.Hasher(), parquet.ByteArray("tag 17"))) {
		t.Errorf("tags: %v, %v", texts, err)
	}
	if size := int64(len(data)); size > 400<<10 {
		t.Errorf("the file has %d bytes: the filters are larger than they need to be", size)
	}
	if _, err := datafile.NewWriter(&bytes.Buffer{}, sc, datafile.WriterOptions{Bloom: []string{"none"}}); !errs.Is(err, errs.Invalid) {
		t.Errorf("a bloom filter on no column gave %v", err)
	}
}

// full fails after some bytes.
type full struct{ left int }

func (f *full) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errs.New(errs.Exhausted, "store.write", "the disk is full", errs.Hint("free some space"))
	}
	return len(p), nil
}

func TestTheErrorOfTheStoreIsTheWritersError(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 10))
	whole := randomBatch(memory.DefaultAllocator, everySchema(rng), 600, rng)
	for left := 0; left < 200_000; left += 9_000 {
		w, err := datafile.NewWriter(&full{left}, whole.Schema(), datafile.WriterOptions{RowGroupRows: 100})
		for at := int64(0); at < 600 && err == nil; at += 150 {
			err = w.Write(whole.NewSlice(at, at+150))
		}
		if err == nil {
			_, err = w.Close()
		}
		if err != nil && (!errs.Is(err, errs.Exhausted) || errs.HintOf(err) != "free some space") {
			t.Errorf("after %d bytes: %v is %s", left, err, errs.KindOf(err))
		}
		if err == nil && left == 0 {
			t.Error("nothing was written, and nothing failed")
		}
		if w != nil {
			w.Abort()
		}
	}
}

func TestBatchesOfAnotherShape(t *testing.T) {
	sc := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
	for name, in := range map[string]arrow.RecordBatch{
		"type":       array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int32}}, nil), []arrow.Array{asJSON(t, arrow.PrimitiveTypes.Int32, "[1]")}, 1),
		"name":       array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "b", Type: arrow.PrimitiveTypes.Int64}}, nil), []arrow.Array{asJSON(t, arrow.PrimitiveTypes.Int64, "[1]")}, 1),
		"no columns": array.NewRecordBatch(arrow.NewSchema(nil, nil), nil, 1),
	} {
		w, err := datafile.NewWriter(&bytes.Buffer{}, sc, datafile.WriterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(in); !errs.Is(err, errs.Invalid) {
			t.Errorf("%s gave %v", name, err)
		}
	}
	texts := array.NewStringBuilder(memory.DefaultAllocator)
	texts.AppendValues([]string{"fine", "broken \xff"}, nil)
	w, err := datafile.NewWriter(&bytes.Buffer{}, arrow.NewSchema([]arrow.Field{{Name: "t", Type: arrow.BinaryTypes.String}}, nil), datafile.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a := texts.NewArray()
	if err := w.Write(array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "t", Type: a.DataType()}}, nil), []arrow.Array{a}, 2)); !errs.Is(err, errs.Invalid) {
		t.Errorf("a text that is none gave %v", err)
	}
	// What stands for the type of the file is taken: dictionaries, other time zones, UUIDs as bytes.
	dict := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	f := (&ids{}).field("v", arrow.BinaryTypes.String, true)
	if got := readBack(t, f, datafile.WriterOptions{}, asJSON(t, dict, `["x",null,"y","x"]`)); got != `["x" (null) "y" "x"]` {
		t.Errorf("a dictionary: %s", got)
	}
	zone := (&ids{}).field("v", &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, true)
	berlin := array.NewTimestampBuilder(memory.DefaultAllocator, &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "Europe/Berlin"})
	berlin.Append(1_700_000_000_000_000)
	if got := readBack(t, zone, datafile.WriterOptions{}, berlin.NewArray()); got != "[1700000000000000]" {
		t.Errorf("a time zone: %s", got)
	}
	bytes16 := &arrow.FixedSizeBinaryType{ByteWidth: 16}
	u := arrow.Field{Name: "v", Type: bytes16, Metadata: arrow.NewMetadata([]string{datafile.IcebergTypeKey}, []string{"uuid"})}
	if got := readBack(t, u, datafile.WriterOptions{}, asJSON(t, bytes16, `["VQ6EAOKbQdSnFkRmVUQAAA=="]`)); got != `["550e8400-e29b-41d4-a716-446655440000"]` {
		t.Errorf("a UUID: %s", got)
	}
}

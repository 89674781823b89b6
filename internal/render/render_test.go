package render_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/render"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

// sample has a NULL, the non-finite floats, text that needs quoting, a vector, a struct, a map and a repeated name.
func sample(t *testing.T) arrow.RecordBatch {
	t.Helper()
	point := arrow.StructOf(arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		arrow.Field{Name: "tags", Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true})
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "name", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "score", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
		{Name: "price", Type: &arrow.Decimal128Type{Precision: 10, Scale: 2}, Nullable: true},
		{Name: "at", Type: &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, Nullable: true},
		{Name: "day", Type: arrow.FixedWidthTypes.Date32, Nullable: true},
		{Name: "raw", Type: arrow.BinaryTypes.Binary, Nullable: true},
		{Name: "emb", Type: arrow.ListOf(arrow.PrimitiveTypes.Float32), Nullable: true},
		{Name: "point", Type: point, Nullable: true},
		{Name: "attrs", Type: arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64), Nullable: true},
		{Name: "id", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	scores := []float64{1.5, math.NaN(), math.Inf(1), 1e-7}
	names := []string{"plain", `quote " comma , bar |`, "two\nlines 世界", ""}
	for i := range scores {
		b.Field(0).(*array.Int64Builder).Append(int64(i) - 1)
		b.Field(1).(*array.StringBuilder).Append(names[i])
		b.Field(2).(*array.Float64Builder).Append(scores[i])
		b.Field(3).(*array.Decimal128Builder).Append(decimal128.FromI64(int64(1230 * (i + 1))))
		b.Field(4).(*array.TimestampBuilder).Append(arrow.Timestamp(int64(i) * 1_500_000))
		b.Field(5).(*array.Date32Builder).Append(arrow.Date32(20_000 + i))
		b.Field(6).(*array.BinaryBuilder).Append([]byte{byte(i), 0xff})
		lb := b.Field(7).(*array.ListBuilder)
		lb.Append(true)
		for k := 0; k < 3+4*i; k++ {
			lb.ValueBuilder().(*array.Float32Builder).Append(float32(k) / 2)
		}
		sb := b.Field(8).(*array.StructBuilder)
		sb.Append(true)
		sb.FieldBuilder(0).(*array.Int32Builder).Append(int32(i))
		sb.FieldBuilder(1).(*array.ListBuilder).Append(true)
		sb.FieldBuilder(1).(*array.ListBuilder).ValueBuilder().(*array.StringBuilder).Append("t")
		mb := b.Field(9).(*array.MapBuilder)
		mb.Append(true)
		mb.KeyBuilder().(*array.StringBuilder).Append("k")
		mb.ItemBuilder().(*array.Int64Builder).Append(int64(i))
		b.Field(10).(*array.BooleanBuilder).Append(i%2 == 0)
	}
	for _, f := range b.Fields() {
		f.AppendNull()
	}
	return b.NewRecordBatch()
}

func TestFormats(t *testing.T) {
	rec := sample(t)
	defer rec.Release()
	for _, f := range []render.Format{render.Table, render.JSON, render.CSV, render.Markdown} {
		var out bytes.Buffer
		w, err := render.NewWriter(&out, f, rec.Schema(), render.Options{MaxCell: 24})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(rec); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", string(f)+".txt")
		if *rewrite {
			if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(out.Bytes(), want) {
			t.Errorf("%s:\n%s\nwant:\n%s", f, out.Bytes(), want)
		}
		if f == render.JSON {
			var rows []map[string]any
			if err := json.Unmarshal(out.Bytes(), &rows); err != nil || len(rows) != 5 || len(rows[0]) != 11 {
				t.Errorf("json does not read back: %v, %d rows", err, len(rows))
			}
		}
	}
}

func TestEmptyResults(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int64}}, nil)
	for f, want := range map[render.Format]string{
		render.JSON: "[]\n", render.CSV: "a\n", render.Markdown: "| a |\n| ---: |\n",
		render.Table: "┌───┐\n│ a │\n├───┤\n└───┘\n0 rows\n",
	} {
		var out bytes.Buffer
		w, err := render.NewWriter(&out, f, schema, render.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("%s: %q, want %q", f, out.String(), want)
		}
	}
}

func TestArrowReadsBack(t *testing.T) {
	rec := sample(t)
	defer rec.Release()
	var out bytes.Buffer
	w, err := render.NewWriter(&out, render.Arrow, rec.Schema(), render.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(rec); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := ipc.NewReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	if !r.Next() || !array.RecordApproxEqual(r.RecordBatch(), rec, array.WithNaNsEqual(true)) {
		t.Error("the stream does not hold the batch")
	}
}

func TestTableFitsItsWidthAndCountsHiddenRows(t *testing.T) {
	rec := sample(t)
	defer rec.Release()
	var out bytes.Buffer
	w, err := render.NewWriter(&out, render.Table, rec.Schema(), render.Options{Width: 140, MaxRows: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(rec); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(out.Bytes(), []byte("\n"))
	if n := utf8.RuneCount(lines[0]); n > 140 {
		t.Errorf("the table is %d cells wide", n)
	}
	if !bytes.Contains(out.Bytes(), []byte("5 rows, the first 2 shown")) {
		t.Errorf("no count of hidden rows:\n%s", out.Bytes())
	}
}

func TestParseFormatNamesTheChoices(t *testing.T) {
	if _, err := render.ParseFormat("yaml"); err == nil {
		t.Error("yaml is no format")
	}
	if f, err := render.ParseFormat("JSON"); err != nil || f != render.JSON {
		t.Error(f, err)
	}
}

package overlake_test

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake"
)

// TestEmbedding: what Append and Import bring is held to what the table says of its vectors.
func TestEmbedding(t *testing.T) {
	db, err := overlake.Open(t.Context(), t.TempDir(), overlake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	sc := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "v", Type: arrow.ListOf(arrow.PrimitiveTypes.Float32), Nullable: true}}, nil)
	make := func(name string, props map[string]string) *overlake.Table {
		t.Helper()
		table, err := db.CreateTable(t.Context(), name, overlake.TableSpec{Schema: sc, Vectors: map[string]int{"v": 0}, Properties: props})
		if err != nil {
			t.Fatal(err)
		}
		return table
	}
	e5 := make("e5", map[string]string{"overlake.embedding.model": "e5-small-v2"})
	if got, err := e5.Embedding(t.Context(), "V"); err != nil ||
		got != (overlake.Embedding{Model: "intfloat/e5-small-v2", Dim: 384, QueryPrefix: "query: ", DocumentPrefix: "passage: ", Metric: "cosine"}) {
		t.Errorf("%+v, %v", got, err)
	}
	two := make("two", map[string]string{"overlake.embedding.v.dim": "2", "overlake.embedding.v.provider": "us"})
	if got, err := two.Embedding(t.Context(), "v"); err != nil || got != (overlake.Embedding{Dim: 2, Provider: "us"}) {
		t.Errorf("%+v, %v", got, err)
	}
	for column, kind := range map[string]overlake.Kind{"id": overlake.KindInvalid, "x": overlake.KindNotFound} {
		if _, err := two.Embedding(t.Context(), column); overlake.KindOf(err) != kind {
			t.Errorf("%s: %v", column, err)
		}
	}

	rows := func() array.RecordReader {
		b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
		defer b.Release()
		b.Field(0).AppendNull()
		l := b.Field(1).(*array.ListBuilder)
		l.Append(true)
		l.ValueBuilder().(*array.Float32Builder).AppendValues([]float32{1, 2}, nil)
		rec := b.NewRecordBatch()
		defer rec.Release()
		r, err := array.NewRecordReader(sc, []arrow.RecordBatch{rec})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for format, file := range importFiles(t, 10) {
		opts := overlake.ImportOptions{}
		if format == "csv" {
			opts.Vectors = map[string]int{"v": 0}
		}
		if _, _, err := db.Import(t.Context(), "e5", file, opts); overlake.KindOf(err) != overlake.KindInvalid || !strings.Contains(err.Error(), "expected 384 dimensions, not 2") {
			t.Errorf("import of %s with 2 dimensions: %v", format, err)
		}
		if _, _, err := db.Import(t.Context(), "two", file, opts); err != nil {
			t.Error(err)
		}
	}
	if _, err := e5.Append(t.Context(), rows()); overlake.KindOf(err) != overlake.KindInvalid {
		t.Errorf("append of 2 dimensions: %v", err)
	}
	if _, err := two.Append(t.Context(), rows()); err != nil {
		t.Error(err)
	}
	if got := answer(t.Context(), db, "SELECT (SELECT count(*) FROM e5) AS a, (SELECT count(*) FROM two) AS b"); got != "a,b\n0,21\n" {
		t.Errorf("rows: %s", got)
	}
}

package datafile

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// TestDictionariesWhereTheyAreSmall writes columns that repeat differently, whatever the size of pages: 8 KiB are filled by the
// first 1,024 numbers, which once kept the library from looking at how they repeat.
func TestDictionariesWhereTheyAreSmall(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	columns := []struct {
		name  string
		typ   arrow.DataType
		value func(i int) any
		want  bool
	}{
		{"key", arrow.PrimitiveTypes.Int64, func(i int) any { return int64(i) }, false},
		{"scattered", arrow.PrimitiveTypes.Int64, func(int) any { return rng.Int64N(10_000_000) }, false},
		{"thousand", arrow.PrimitiveTypes.Int32, func(int) any { return rng.Int32N(1000) }, true},
		{"50,000", arrow.PrimitiveTypes.Int64, func(int) any { return rng.Int64N(50_000) }, false},
		{"one", arrow.PrimitiveTypes.Float64, func(int) any { return 7.5 }, true},
		{"tag", arrow.BinaryTypes.String, func(int) any { return fmt.Sprint("tag", rng.IntN(20)) }, true},
		{"name", arrow.BinaryTypes.String, func(int) any { return fmt.Sprint("name of ", rng.IntN(100_000)) }, false},
		{"address", arrow.BinaryTypes.String, func(int) any {
			return fmt.Sprintf("https://example.com/a/rather/long/path/to/some/page/%08d.html", rng.IntN(3000))
		}, true},
		{"uuid", extensions.NewUUIDType(), func(int) any { return [16]byte{byte(rng.Uint32()), byte(rng.Uint32()), byte(rng.Uint32())} }, false},
		{"flag", arrow.FixedWidthTypes.Boolean, func(int) any { return rng.IntN(2) == 0 }, false},
	}
	var fields []arrow.Field
	for _, c := range columns {
		fields = append(fields, arrow.Field{Name: c.name, Type: c.typ})
	}
	sc := arrow.NewSchema(fields, nil)
	r := array.NewRecordBuilder(memory.DefaultAllocator, sc)
	const rows = 50_000
	for i := range rows {
		for k, c := range columns {
			switch b := r.Field(k).(type) {
			case *array.Int64Builder:
				b.Append(c.value(i).(int64))
			case *array.Int32Builder:
				b.Append(c.value(i).(int32))
			case *array.Float64Builder:
				b.Append(c.value(i).(float64))
			case *array.StringBuilder:
				b.Append(c.value(i).(string))
			case *array.BooleanBuilder:
				b.Append(c.value(i).(bool))
			case *extensions.UUIDBuilder:
				b.AppendBytes(c.value(i).([16]byte))
			}
		}
	}
	whole := r.NewRecordBatch()
	for _, page := range []int64{0, 8 << 10, 64 << 10} {
		for _, first := range []int64{rows, 2048} {
			var buf bytes.Buffer
			w, err := NewWriter(&buf, sc, WriterOptions{PageBytes: page})
			if err != nil {
				t.Fatal(err)
			}
			for at := int64(0); at < rows; at += first {
				if err := w.Write(whole.NewSlice(at, min(at+first, rows))); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := w.Close(); err != nil {
				t.Fatal(err)
			}
			f, err := Open(bytes.NewReader(buf.Bytes()), int64(buf.Len()))
			if err != nil {
				t.Fatal(err)
			}
			for i, c := range columns {
				k := f.chunks[0][i]
				if got := k.start < k.data; got != c.want {
					t.Errorf("pages of %d, batches of %d: dictionary of %s: %v", page, first, c.name, got)
				}
			}
		}
	}
}

// TestPagesOfOurFiles holds the sizes of pages that docs/format/data-files.md tells.
func TestPagesOfOurFiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	text := func(n int) func() any {
		return func() any {
			b := make([]byte, n)
			for i := range b {
				b[i] = 'a' + byte(rng.IntN(26))
			}
			return string(b)
		}
	}
	for name, c := range map[string]struct {
		value       func() any
		least, most int64 // rows of a page, but for the last
	}{
		"numbers":     {func() any { return rng.Int64() }, 3072, 3072},
		"words":       {text(10), 1024, 2048},
		"sentences":   {text(60), 1024, 1024},
		"paragraphs":  {text(1000), 60, 80},
		"short lists": {func() any { return make([]float32, 3) }, 2048, 2400},
		"vectors":     {func() any { return make([]float32, 384) }, 15, 20},
	} {
		var b array.Builder
		const rows = 10_000
		for range rows {
			switch v := c.value().(type) {
			case int64:
				if b == nil {
					b = array.NewInt64Builder(memory.DefaultAllocator)
				}
				b.(*array.Int64Builder).Append(v)
			case string:
				if b == nil {
					b = array.NewStringBuilder(memory.DefaultAllocator)
				}
				b.(*array.StringBuilder).Append(v)
			case []float32:
				if b == nil {
					b = array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Float32)
				}
				b.(*array.ListBuilder).Append(true)
				b.(*array.ListBuilder).ValueBuilder().(*array.Float32Builder).AppendValues(v, nil)
			}
		}
		a := b.NewArray()
		sc := arrow.NewSchema([]arrow.Field{{Name: "c", Type: a.DataType(), Nullable: true}}, nil)
		var buf bytes.Buffer
		w, err := NewWriter(&buf, sc, WriterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(array.NewRecordBatch(sc, []arrow.Array{a}, rows)); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Close(); err != nil {
			t.Fatal(err)
		}
		f, err := Open(bytes.NewReader(buf.Bytes()), int64(buf.Len()))
		if err != nil {
			t.Fatal(err)
		}
		places, err := f.session(t.Context()).src.places(f.chunks[0][0], rows)
		if err != nil || len(places) < 2 {
			t.Fatalf("%s: %d pages, %v", name, len(places), err)
		}
		least, most := int64(math.MaxInt64), int64(0)
		for i := 1; i < len(places); i++ {
			n := places[i].row - places[i-1].row
			least, most = min(least, n), max(most, n)
		}
		if least < c.least || most > c.most {
			t.Errorf("%s: pages of %d to %d rows, expected were %d to %d", name, least, most, c.least, c.most)
		}
	}
}

// TestPopulation guesses the number of different values from samples of populations that are known.
func TestPopulation(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 2))
	for _, real := range []int{1, 2, 100, 1000, 10_000} {
		seen := map[int]bool{}
		for range sampleRows {
			seen[rng.IntN(real)] = true
		}
		if got := population(sampleRows, len(seen)); got < 0.6*float64(real) || got > 1.6*float64(real)+1 {
			t.Errorf("%d of %d are different: %.0f, not %d", len(seen), sampleRows, got, real)
		}
	}
	if got := population(2048, 2048); !math.IsInf(got, 1) {
		t.Errorf("a sample without repetition gave %f", got)
	}
}

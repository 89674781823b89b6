package datafile_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/datafile"
	"github.com/overlakedb/overlake/internal/index/bitmap"
	"github.com/overlakedb/overlake/internal/predicate"
)

// An index of a column is measured by the data file of that column alone.
func TestSizeOfAnIndexBesideItsColumn(t *testing.T) {
	const rows = 625_000
	rng := rand.New(rand.NewPCG(1, 1))
	shuffled := rng.Perm(rows)
	at, cluster := int64(1.7e15), int64(0)
	for _, c := range []struct {
		name  string
		most  float64 // times the file that the index may be
		bytes float64 // a row that it may take
		value func(row int) any
	}{
		{"unique, sorted", 1.5, 0.05, func(row int) any { return int64(row) }},
		{"unique, shuffled", 1.5, 2.6, func(row int) any { return int64(shuffled[row]) }},
		{"unique, random", 1.5, 8.3, func(int) any { return rng.Int64() }},
		{"100 values, random", 1.5, 1.03, func(int) any { return rng.Int64N(100) }},
		{"100 values, clustered", 3, 0.3, func(int) any {
			if rng.IntN(50) == 0 {
				cluster = rng.Int64N(100)
			}
			return cluster
		}},
		{"10 values, 95 % of one", 1.5, 0.3, func(int) any {
			if rng.IntN(20) != 0 {
				return int64(0)
			}
			return rng.Int64N(10)
		}},
		{"rising times", 1.5, 3.5, func(int) any {
			at += rng.Int64N(2_000_000)
			return at + rng.Int64N(10_000_000)
		}},
		{"texts, unique, shuffled", 1.5, 4, func(row int) any { return fmt.Sprintf("customer-%010d", shuffled[row]) }},
		{"texts, 100 values, random", 1.5, 1.03, func(int) any { return fmt.Sprint("category ", rng.IntN(100)) }},
	} {
		var typ arrow.DataType = arrow.PrimitiveTypes.Int64
		if _, text := c.value(0).(string); text {
			typ = arrow.BinaryTypes.String
		}
		schema := arrow.NewSchema([]arrow.Field{{Name: "v", Type: typ, Metadata: id(1)}}, nil)
		var file, artifact discard
		w, err := datafile.NewWriter(&file, schema, datafile.WriterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		b, err := bitmap.NewBuilder(bitmap.BuildOptions{Columns: []predicate.KeyKind{predicate.KindOf(typ)}})
		if err != nil {
			t.Fatal(err)
		}
		for from := 0; from < rows; from += benchBatch {
			values := array.NewRecordBuilder(memory.DefaultAllocator, schema)
			for row := from; row < min(from+benchBatch, rows); row++ {
				switch v := c.value(row).(type) {
				case int64:
					values.Field(0).(*array.Int64Builder).Append(v)
				case string:
					values.Field(0).(*array.StringBuilder).Append(v)
				}
			}
			rec := values.NewRecordBatch()
			if err := w.Write(rec); err != nil {
				t.Fatal(err)
			}
			if err := b.Add(t.Context(), int64(from), rec.Column(0)); err != nil {
				t.Fatal(err)
			}
			rec.Release()
		}
		if _, err := w.Close(); err != nil {
			t.Fatal(err)
		}
		stats, err := b.Finish(t.Context(), &artifact, rows)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		times, perRow := float64(stats.Size)/float64(file.n), float64(stats.Size)/rows
		t.Logf("%-28s file %7.3f, index %6.3f bytes a row: %5.2f times", c.name, float64(file.n)/rows, perRow, times)
		if times > c.most || perRow > c.bytes || stats.Size != artifact.n {
			t.Errorf("%s: the index is %.2f times its column, %.3f bytes a row", c.name, times, perRow)
		}
	}
}

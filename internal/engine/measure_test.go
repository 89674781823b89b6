//go:build unix

package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/engine"
)

// The benchmarks report CPU time of the best run, which says something on a shared machine.

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func perRow(b *testing.B, db *engine.DB, count int, sql string) {
	b.Helper()
	best := time.Duration(1 << 62)
	for b.Loop() {
		start := cpu()
		drain(b, db, sql)
		best = min(best, cpu()-start)
	}
	b.ReportMetric(float64(best)/float64(count), "cpu-ns/row")
}

func drain(b testing.TB, db *engine.DB, sql string) {
	b.Helper()
	r, err := db.Query(b.Context(), sql)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	for r.Next() {
	}
	if r.Err() != nil {
		b.Fatal(r.Err())
	}
}

func BenchmarkLive(b *testing.B) {
	const n = 10_000_000
	db := open(b, engine.Config{Threads: 2})
	words := make([]uint64, n/64+1)
	for i := 0; i < n; i += 100 {
		words[i/64] |= 1 << (i % 64)
	}
	id, release, err := db.NewLive([]engine.LiveFile{{Rows: n, Deleted: words}})
	if err != nil {
		b.Fatal(err)
	}
	defer release()
	b.Run("none", func(b *testing.B) { perRow(b, db, n, "SELECT sum(i) FROM range(10000000) t(i)") })
	b.Run("live", func(b *testing.B) {
		perRow(b, db, n, fmt.Sprintf("SELECT sum(i) FROM range(10000000) t(i) WHERE overlake_live(%d, 0::UBIGINT, i)", id))
	})
}

// BenchmarkFetch: what it costs to have rows, over making them.
func BenchmarkFetch(b *testing.B) {
	db := open(b, engine.Config{Threads: 2})
	const n = 2_000_000
	b.Run("numbers", func(b *testing.B) {
		perRow(b, db, n, "SELECT i, i * 2, i::DOUBLE, i::INTEGER FROM range(2000000) t(i)")
	})
	b.Run("numbers-made", func(b *testing.B) {
		perRow(b, db, n, "SELECT max(i), max(i * 2), max(i::DOUBLE), max(i::INTEGER) FROM range(2000000) t(i)")
	})
	b.Run("text", func(b *testing.B) { perRow(b, db, n, "SELECT 'some text number ' || i FROM range(2000000) t(i)") })
	b.Run("text-made", func(b *testing.B) {
		perRow(b, db, n, "SELECT max('some text number ' || i) FROM range(2000000) t(i)")
	})
}

func BenchmarkFeed(b *testing.B) {
	db := open(b, engine.Config{Threads: 2})
	const n = 2_000_000
	schema := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int64}, {Name: "b", Type: arrow.PrimitiveTypes.Float64},
		{Name: "s", Type: arrow.BinaryTypes.String}, {Name: "t", Type: arrow.BinaryTypes.String}}, nil)
	rb := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	for i := range n / 10 {
		rb.Field(0).(*array.Int64Builder).Append(int64(i))
		rb.Field(1).(*array.Float64Builder).Append(float64(i))
		rb.Field(2).(*array.StringBuilder).Append(fmt.Sprint("t", i%1000))
		rb.Field(3).(*array.StringBuilder).Append(fmt.Sprint("a longer text number ", i))
	}
	rec := rb.NewRecordBatch()
	batches := make([]arrow.RecordBatch, 10)
	for i := range batches {
		batches[i] = rec
	}
	from, release, err := db.NewBatchFeed(schema, batches)
	if err != nil {
		b.Fatal(err)
	}
	defer release()
	for _, c := range []string{"count(*)", "max(a)", "max(a), max(b)", "max(len(s))", "max(len(t))", "max(a), max(b), max(len(s)), max(len(t))"} {
		b.Run(strings.ReplaceAll(c, " ", ""), func(b *testing.B) { perRow(b, db, n, "SELECT "+c+" FROM "+from) })
	}
}

func BenchmarkBindManyFiles(b *testing.B) {
	db := open(b, engine.Config{Threads: 2})
	path := fieldIDs(b, db, "SELECT i AS id FROM range(3000) t(i)", "{id: 1}")
	for _, n := range []int{1, 16, 500, 5000} {
		paths := make([]string, n)
		for i := range paths {
			paths[i] = path
		}
		const schema = ", schema = MAP {1: {name: 'id', type: 'BIGINT', default_value: NULL}})"
		for name, from := range map[string]string{"literal": "read_parquet(['" + strings.Join(paths, "', '") + "']" + schema, "parameter": "read_parquet($1" + schema} {
			var args []engine.Arg
			if name == "parameter" {
				args = []engine.Arg{{Value: paths}}
			}
			b.Run(fmt.Sprint(name, n), func(b *testing.B) {
				best := time.Duration(1 << 62)
				for b.Loop() {
					start := cpu()
					rows(b, db, "EXPLAIN SELECT sum(id) FROM "+from, args...)
					best = min(best, cpu()-start)
				}
				b.ReportMetric(float64(best.Microseconds())/1000, "cpu-ms/bind")
			})
		}
	}
}

// BenchmarkReader: a Parquet file through ReadAt against the same file on disk.
func BenchmarkReader(b *testing.B) {
	db := open(b, engine.Config{Threads: 2})
	path := fieldIDs(b, db, "SELECT i AS id, hash(i) AS h, 'text ' || hash(i) AS s FROM range(2000000) t(i)", "{id: 1, h: 2, s: 3}")
	data := copyOut(b, db, path)
	for name, ctx := range map[string]context.Context{"reader": context.Background(), "cancelable": b.Context()} {
		p := addReader(b, db, ctx, "k.parquet", bytes.NewReader(data), len(data))
		b.Run(name, func(b *testing.B) {
			perRow(b, db, 2_000_000, "SELECT max(id), max(h), max(s) FROM read_parquet('"+p+"')")
		})
	}
	b.Run("disk", func(b *testing.B) {
		perRow(b, db, 2_000_000, "SELECT max(id), max(h), max(s) FROM read_parquet('"+path+"')")
	})
}

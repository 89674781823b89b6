package main

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/overlakedb/overlake"
)

// The ten aggregates, in the manner of ClickBench; %s is the table.
var aggregates = []string{
	"SELECT count(*) FROM %s WHERE cat <> 0",
	"SELECT sum(qty), count(*), avg(price) FROM %s",
	"SELECT count(DISTINCT cat) FROM %s",
	"SELECT count(DISTINCT name) FROM %s",
	"SELECT min(ts), max(ts) FROM %s",
	"SELECT cat, count(*) AS c FROM %s WHERE flag GROUP BY cat ORDER BY c DESC LIMIT 10",
	"SELECT tag, sum(price), avg(qty) FROM %s GROUP BY tag ORDER BY tag",
	"SELECT name, count(*) AS c FROM %s GROUP BY name ORDER BY c DESC, name LIMIT 10",
	"SELECT date_trunc('month', ts) AS m, count(*), sum(price) FROM %s WHERE qty > 10 GROUP BY m ORDER BY m",
	"SELECT tag, cat, max(price) FROM %s WHERE name LIKE 'name of 1%%' GROUP BY tag, cat ORDER BY 3 DESC LIMIT 10",
}

func (b *bench) aggregates() error {
	if err := b.fill("hits", b.rows, 16); err != nil {
		return err
	}
	scan := "read_parquet(['" + strings.Join(b.files, "', '") + "'])"
	product := 1.0
	for i, q := range aggregates {
		o, t, err := b.versus(func() error { return b.drain(fmt.Sprintf(q, "hits")) }, func() error { return b.peer.drain(fmt.Sprintf(q, scan)) })
		if err != nil {
			return err
		}
		b.add(fmt.Sprintf("aggregate %d", i+1), ms(o), ms(t), "DuckDB", "ms", ">= 0.85")
		product *= ms(t) / ms(o)
	}
	b.add("aggregates, geometric mean of ratios", 1, math.Pow(product, 1/float64(len(aggregates))), "DuckDB", "", ">= 0.95")
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// overhead is the processor time of planning: EXPLAIN runs everything but the query.
func (b *bench) overhead() error {
	measure := func(table string) (float64, error) {
		if err := b.drain("SELECT count(*) FROM " + table + " WHERE id < 0"); err != nil {
			return 0, err
		}
		best := time.Duration(math.MaxInt64)
		for range 20 {
			d, err := timed(func() error {
				return b.drain("EXPLAIN SELECT cat, sum(price) FROM " + table + " WHERE id > 10 GROUP BY cat")
			})
			if err != nil {
				return 0, err
			}
			best = min(best, d)
		}
		return ms(best), nil
	}
	if err := b.fill("hits", b.rows, 16); err != nil {
		return err
	}
	small, err := measure("hits")
	if err != nil {
		return err
	}
	b.add("statement overhead, 16 files", small, 1.5, "limit", "ms", ">= 1")
	if !b.has("many") {
		if err := b.fillMany(); err != nil {
			return err
		}
	}
	large, err := measure("many")
	if err != nil {
		return err
	}
	b.add("statement overhead, 5,000 files", large, 60, "limit", "ms", ">= 1")
	return nil
}

// fillMany makes a table of 5,000 files of one row.
func (b *bench) fillMany() error {
	if err := b.drain("CREATE TABLE many (id BIGINT, cat INTEGER, price DOUBLE) PARTITIONED BY (id)"); err != nil {
		return err
	}
	for lo := 0; lo < 5000; lo += 1000 {
		if err := b.drain(fmt.Sprintf("INSERT INTO many SELECT i, i %% 7, i / 3.0 FROM range(%d, %d) t(i)", lo, lo+1000)); err != nil {
			return err
		}
	}
	return nil
}

// deletes compares a full scan with one percent of deleted positions to the scan without.
func (b *bench) deletes() error {
	if err := b.fill("worn", b.rows/4, 4); err != nil {
		return err
	}
	t, err := b.db.Table(b.ctx, "worn")
	if err != nil {
		return err
	}
	if err := b.fill("fresh", b.rows/4, 4); err != nil {
		return err
	}
	files, err := t.Files(b.ctx)
	if err != nil {
		return err
	}
	gone := map[string][]int64{}
	for _, f := range files {
		for p := int64(0); p < f.Rows; p += 100 {
			gone[f.Path] = append(gone[f.Path], p)
		}
	}
	if err := t.Delete(b.ctx, gone); err != nil {
		return err
	}
	q := "SELECT sum(price), sum(qty), count(name) FROM "
	o, p, err := b.versus(func() error { return b.drain(q + "worn") }, func() error { return b.drain(q + "fresh") })
	if err != nil {
		return err
	}
	b.add("scan with 1 % deleted", ms(o), ms(p)*1.15, "1.15 x without deletes", "ms", ">= 1")
	return nil
}

// firstRow is the wall time to the first batch of a result of all rows, and the memory that streaming it takes.
func (b *bench) firstRow() error {
	if err := b.fill("hits", b.rows, 16); err != nil {
		return err
	}
	best, peak := time.Duration(math.MaxInt64), int64(0)
	for range b.rounds {
		before := rss()
		start := time.Now()
		rows, err := b.db.SQL(b.ctx, "SELECT * FROM hits")
		if err != nil {
			return err
		}
		if !rows.Next() {
			return rows.Err()
		}
		best = min(best, time.Since(start))
		for n := 0; rows.Next(); n++ {
			if n%500 == 0 {
				peak = max(peak, rss()-before)
			}
		}
		if err := rows.Err(); err != nil {
			return err
		}
		rows.Close()
	}
	b.add("first row of all rows", ms(best), 50, "limit", "ms", ">= 1")
	b.add("memory while streaming all rows", float64(max(peak, 1))/(1<<20), 1024+200, "limit", "MiB", ">= 1")
	return nil
}

// rss is the resident memory of this process.
func rss() int64 {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, resident int64
	fmt.Sscan(string(data), &size, &resident)
	return resident * int64(os.Getpagesize())
}

// append compares Table.Append with plain arrow-go writing the same rows as Parquet.
func (b *bench) append() error {
	const rows, dim = 1_000_000, 64
	sc := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "ts", Type: &arrow.TimestampType{Unit: arrow.Microsecond}},
		{Name: "category", Type: arrow.BinaryTypes.String}, {Name: "text", Type: arrow.BinaryTypes.String},
		{Name: "vec", Type: arrow.ListOf(arrow.PrimitiveTypes.Float32), Nullable: true},
	}, nil)
	rng := rand.New(rand.NewPCG(1, 2))
	var recs []arrow.RecordBatch
	for at := 0; at < rows; at += 50_000 {
		rb := array.NewRecordBuilder(memory.DefaultAllocator, sc)
		for i := at; i < at+50_000; i++ {
			rb.Field(0).(*array.Int64Builder).Append(int64(i))
			rb.Field(1).(*array.TimestampBuilder).Append(arrow.Timestamp(int64(i) * 1_000_000))
			rb.Field(2).(*array.StringBuilder).Append(fmt.Sprintf("category %d", rng.IntN(50)))
			rb.Field(3).(*array.StringBuilder).Append(fmt.Sprintf("a text about %d and %d", rng.IntN(1e6), rng.IntN(1e6)))
			l := rb.Field(4).(*array.ListBuilder)
			l.Append(true)
			for range dim {
				l.ValueBuilder().(*array.Float32Builder).Append(rng.Float32())
			}
		}
		recs = append(recs, rb.NewRecordBatch())
		rb.Release()
	}
	n := 0
	ours := func() error {
		for n++; b.has(fmt.Sprintf("appended%d", n)); n++ { // of an earlier run
		}
		t, err := b.db.CreateTable(b.ctx, fmt.Sprintf("appended%d", n), overlake.TableSpec{Schema: sc, Vectors: map[string]int{"vec": dim}})
		if err != nil {
			return err
		}
		r, err := array.NewRecordReader(sc, recs)
		if err != nil {
			return err
		}
		defer r.Release()
		_, err = t.Append(b.ctx, r)
		return err
	}
	theirs := func() error {
		var buf bytes.Buffer
		w, err := pqarrow.NewFileWriter(sc, &buf, parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd),
			parquet.WithPageIndexEnabled(true), parquet.WithDataPageVersion(parquet.DataPageV2)), pqarrow.NewArrowWriterProperties())
		if err != nil {
			return err
		}
		for _, r := range recs {
			if err := w.WriteBuffered(r); err != nil {
				return err
			}
		}
		return w.Close()
	}
	o, t, err := b.versus(ours, theirs)
	if err != nil {
		return err
	}
	b.add("append of 1 M rows with 64-d vectors", ms(o), ms(t), "arrow-go", "ms", ">= 0.9")
	return nil
}

package datafile_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/overlakedb/overlake/internal/datafile"
)

// The table of the measurements: id, ts, category, text and a vector of 64 dimensions, 340 bytes a row.
var benchSchema = arrow.NewSchema([]arrow.Field{
	{Name: "id", Type: arrow.PrimitiveTypes.Int64, Metadata: id(1)},
	{Name: "ts", Type: &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, Nullable: true, Metadata: id(2)},
	{Name: "cat", Type: arrow.BinaryTypes.String, Nullable: true, Metadata: id(3)},
	{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true, Metadata: id(4)},
	{Name: "vec", Type: arrow.ListOfField(arrow.Field{Name: "element", Type: arrow.PrimitiveTypes.Float32, Metadata: id(6)}), Nullable: true, Metadata: id(5)},
}, nil)

const benchBatch = 8192

func benchRows(rows int) []arrow.RecordBatch {
	words := strings.Fields("the lake holds every row once and the index only points at it while readers pass by without a word about order or time")
	rng := rand.New(rand.NewPCG(1, 2))
	var out []arrow.RecordBatch
	for at := 0; at < rows; at += benchBatch {
		b := array.NewRecordBuilder(memory.DefaultAllocator, benchSchema)
		for i := range min(benchBatch, rows-at) {
			b.Field(0).(*array.Int64Builder).Append(int64(at + i))
			b.Field(1).(*array.TimestampBuilder).Append(arrow.Timestamp(1.7e15 + int64(at+i)*1e6 + rng.Int64N(1e6)))
			b.Field(2).(*array.StringBuilder).Append(fmt.Sprint("category ", rng.IntN(50)))
			var text strings.Builder
			for range 10 {
				text.WriteString(words[rng.IntN(len(words))])
				text.WriteByte(' ')
			}
			b.Field(3).(*array.StringBuilder).Append(text.String())
			l := b.Field(4).(*array.ListBuilder)
			l.Append(true)
			for range 64 {
				l.ValueBuilder().(*array.Float32Builder).Append(float32(rng.NormFloat64()))
			}
		}
		out = append(out, b.NewRecordBatch())
		b.Release()
	}
	return out
}

const benchRowCount = 20 * benchBatch

type discard struct{ n int64 }

func (d *discard) Write(p []byte) (int, error) { d.n += int64(len(p)); return len(p), nil }

// BenchmarkWrite compares the writer with the library alone: once with the library's defaults and a codec, once with all
// that the writer sets, so that the difference is statistics and checks.
func BenchmarkWrite(b *testing.B) {
	batches := benchRows(benchRowCount)
	for name, opts := range map[string]datafile.WriterOptions{
		"ours": {}, "ours-split": {Vectors: datafile.VectorsSplit}, "ours-snappy": {Codec: datafile.Snappy},
	} {
		b.Run(name, func(b *testing.B) {
			timed(b, benchRowCount, "row", func() {
				var d discard
				w, err := datafile.NewWriter(&d, benchSchema, opts)
				if err != nil {
					b.Fatal(err)
				}
				for _, r := range batches {
					if err := w.Write(r); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := w.Close(); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(d.n)/(1<<20), "MB")
			})
		})
	}
	vector := "vec.list.element"
	for name, more := range map[string][]parquet.WriterProperty{
		"library": nil,
		"library-same": {parquet.WithDataPageSize(64 << 10), parquet.WithCompressionFor(vector, compress.Codecs.Uncompressed),
			parquet.WithDictionaryFor(vector, false), parquet.WithStatsFor(vector, false)},
	} {
		b.Run(name, func(b *testing.B) {
			timed(b, benchRowCount, "row", func() {
				var d discard
				props := append([]parquet.WriterProperty{parquet.WithCompression(compress.Codecs.Zstd), parquet.WithDataPageVersion(parquet.DataPageV2),
					parquet.WithPageIndexEnabled(true), parquet.WithMaxRowGroupLength(122_880)}, more...)
				w, err := pqarrow.NewFileWriter(benchSchema, &d, parquet.NewWriterProperties(props...), pqarrow.DefaultWriterProps())
				if err != nil {
					b.Fatal(err)
				}
				for _, r := range batches {
					if err := w.WriteBuffered(r); err != nil {
						b.Fatal(err)
					}
				}
				if err := w.Close(); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(d.n)/(1<<20), "MB")
			})
		})
	}
}

func benchFile(b *testing.B, opts datafile.WriterOptions) *datafile.File {
	var buf bytes.Buffer
	w, err := datafile.NewWriter(&buf, benchSchema, opts)
	if err != nil {
		b.Fatal(err)
	}
	for _, r := range benchRows(benchRowCount) {
		if err := w.Write(r); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := w.Close(); err != nil {
		b.Fatal(err)
	}
	return openFile(b, buf.Bytes())
}

func BenchmarkRead(b *testing.B) {
	for name, opts := range map[string]datafile.WriterOptions{"plain": {}, "split": {Vectors: datafile.VectorsSplit}} {
		f := benchFile(b, opts)
		for _, cols := range [][]string{nil, {"vec"}, {"id", "cat"}} {
			b.Run(fmt.Sprint(name, cols), func(b *testing.B) {
				timed(b, benchRowCount, "row", func() {
					r, err := f.Read(b.Context(), cols, 0)
					if err != nil {
						b.Fatal(err)
					}
					for r.Next() {
					}
					if r.Err() != nil {
						b.Fatal(r.Err())
					}
					r.Release()
				})
			})
		}
	}
}

func BenchmarkFetch(b *testing.B) {
	f := benchFile(b, datafile.WriterOptions{})
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1, 10, 100, 1000} {
		for _, cols := range [][]string{{"vec"}, nil} {
			b.Run(fmt.Sprint(n, cols), func(b *testing.B) {
				pos := make([]int64, n)
				timed(b, n, "row", func() {
					for i := range pos {
						pos[i] = rng.Int64N(benchRowCount)
					}
					rec, err := f.Fetch(b.Context(), pos, cols)
					if err != nil {
						b.Fatal(err)
					}
					rec.Release()
				})
			})
		}
	}
}

// hitsFile has rows like those of the program bench in a file on disk.
func hitsFile(b *testing.B, rows int) *datafile.File {
	sc := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Metadata: id(1)},
		{Name: "cat", Type: arrow.PrimitiveTypes.Int32, Nullable: true, Metadata: id(2)},
		{Name: "price", Type: arrow.PrimitiveTypes.Float64, Nullable: true, Metadata: id(3)},
		{Name: "qty", Type: arrow.PrimitiveTypes.Int32, Nullable: true, Metadata: id(4)},
		{Name: "ts", Type: &arrow.TimestampType{Unit: arrow.Microsecond}, Nullable: true, Metadata: id(5)},
		{Name: "name", Type: arrow.BinaryTypes.String, Nullable: true, Metadata: id(6)},
		{Name: "flag", Type: arrow.FixedWidthTypes.Boolean, Nullable: true, Metadata: id(7)},
		{Name: "tag", Type: arrow.BinaryTypes.String, Nullable: true, Metadata: id(8)},
	}, nil)
	out, err := os.Create(filepath.Join(b.TempDir(), "hits.parquet"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { out.Close() })
	w, err := datafile.NewWriter(out, sc, datafile.WriterOptions{})
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for at := 0; at < rows; at += benchBatch {
		r := array.NewRecordBuilder(memory.DefaultAllocator, sc)
		for i := at; i < min(at+benchBatch, rows); i++ {
			r.Field(0).(*array.Int64Builder).Append(int64(i))
			r.Field(1).(*array.Int32Builder).Append(rng.Int32N(1000))
			r.Field(2).(*array.Float64Builder).Append(float64(rng.IntN(1000000)) / 100)
			r.Field(3).(*array.Int32Builder).Append(rng.Int32N(50))
			r.Field(4).(*array.TimestampBuilder).Append(arrow.Timestamp(1735689600000000 + rng.Int64N(31536000)*1000000))
			r.Field(5).(*array.StringBuilder).Append(fmt.Sprint("name of ", rng.IntN(100000)))
			r.Field(6).(*array.BooleanBuilder).Append(rng.IntN(2) == 0)
			r.Field(7).(*array.StringBuilder).Append(fmt.Sprint("tag", rng.IntN(20)))
		}
		if err := w.Write(r.NewRecordBatch()); err != nil {
			b.Fatal(err)
		}
		r.Release()
	}
	m, err := w.Close()
	if err != nil {
		b.Fatal(err)
	}
	f, err := datafile.Open(nearFile{out}, m.Size)
	if err != nil {
		b.Fatal(err)
	}
	return f
}

type nearFile struct{ *os.File }

func (nearFile) Near() bool { return true }

// BenchmarkFetchHits fetches scattered rows of eight columns, beside reading all of them.
func BenchmarkFetchHits(b *testing.B) {
	const rows = 625_000
	f := hitsFile(b, rows)
	rng := rand.New(rand.NewPCG(7, 2))
	for _, n := range []int{1, 60, 600, 6000} {
		for _, cols := range [][]string{nil, {"price"}, {"name"}, {"tag"}} {
			b.Run(fmt.Sprint(n, cols), func(b *testing.B) {
				pos := make([]int64, n)
				timed(b, 1, "fetch", func() {
					for i := range pos {
						pos[i] = rng.Int64N(rows)
					}
					rec, err := f.Fetch(b.Context(), pos, cols)
					if err != nil {
						b.Fatal(err)
					}
					rec.Release()
				})
			})
		}
	}
	b.Run("all", func(b *testing.B) {
		timed(b, 1, "fetch", func() {
			r, err := f.Read(b.Context(), nil, 0)
			if err != nil {
				b.Fatal(err)
			}
			for r.Next() {
			}
			if r.Err() != nil {
				b.Fatal(r.Err())
			}
			r.Release()
		})
	})
}

// cpu is the processor time of the process in seconds: on a shared machine it says more than the clock.
func cpu() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// timed runs a benchmark and reports processor time for each of n units of an iteration.
func timed(b *testing.B, n int, unit string, each func()) {
	from := cpu()
	for b.Loop() {
		each()
	}
	b.ReportMetric((cpu()-from)*1e6/float64(b.N)/float64(n), "cpu-µs/"+unit)
}

package datafile_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
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

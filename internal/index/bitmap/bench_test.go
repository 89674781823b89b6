package bitmap_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/index/bitmap"
	"github.com/overlakedb/overlake/internal/predicate"
)

const benchRows = 625_000

// benchColumns are the columns of the measurements, each with the number of a row's value.
var benchColumns = []struct {
	name string
	typ  arrow.DataType
	make func(rows int) func(row int) any
}{
	{"int64/unique/sorted", arrow.PrimitiveTypes.Int64, func(int) func(int) any { return func(row int) any { return int64(row) } }},
	{"int64/unique/shuffled", arrow.PrimitiveTypes.Int64, func(rows int) func(int) any {
		p := rand.New(rand.NewPCG(1, 1)).Perm(rows)
		return func(row int) any { return int64(p[row]) }
	}},
	{"int64/random", arrow.PrimitiveTypes.Int64, func(int) func(int) any {
		rng := rand.New(rand.NewPCG(1, 1))
		return func(int) any { return rng.Int64() }
	}},
	{"int64/100 values/random", arrow.PrimitiveTypes.Int64, func(int) func(int) any {
		rng := rand.New(rand.NewPCG(1, 1))
		return func(int) any { return rng.Int64N(100) }
	}},
	{"int64/100 values/clustered", arrow.PrimitiveTypes.Int64, func(int) func(int) any {
		rng := rand.New(rand.NewPCG(1, 1))
		v := int64(0)
		return func(int) any {
			if rng.IntN(50) == 0 {
				v = rng.Int64N(100)
			}
			return v
		}
	}},
	{"int64/10 values/skewed", arrow.PrimitiveTypes.Int64, func(int) func(int) any {
		rng := rand.New(rand.NewPCG(1, 1))
		return func(int) any {
			if rng.IntN(20) != 0 {
				return int64(0)
			}
			return rng.Int64N(10)
		}
	}},
	{"int64/100 values/sorted", arrow.PrimitiveTypes.Int64, func(rows int) func(int) any {
		return func(row int) any { return int64(row * 100 / rows) }
	}},
	{"int64/100k values/random", arrow.PrimitiveTypes.Int64, func(int) func(int) any {
		rng := rand.New(rand.NewPCG(1, 1))
		return func(int) any { return rng.Int64N(100_000) * 37 }
	}},
	{"timestamp/rising", &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, func(int) func(int) any {
		rng := rand.New(rand.NewPCG(1, 1))
		at := int64(1.7e15)
		return func(int) any {
			at += rng.Int64N(2_000_000)
			return at + rng.Int64N(10_000_000)
		}
	}},
	{"float64/prices", arrow.PrimitiveTypes.Float64, func(int) func(int) any {
		rng := rand.New(rand.NewPCG(1, 1))
		return func(int) any { return float64(rng.IntN(1_000_000)) / 100 }
	}},
	{"string/unique/shuffled", arrow.BinaryTypes.String, func(rows int) func(int) any {
		p := rand.New(rand.NewPCG(1, 1)).Perm(rows)
		return func(row int) any { return fmt.Sprintf("customer-%010d", p[row]) }
	}},
	{"string/uuid", arrow.BinaryTypes.String, func(int) func(int) any {
		rng := rand.New(rand.NewPCG(1, 1))
		return func(int) any {
			return fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", rng.Uint32(), rng.IntN(1<<16), rng.IntN(1<<12), 0x8000|rng.IntN(1<<14), rng.Int64N(1<<48))
		}
	}},
	{"string/100 values/random", arrow.BinaryTypes.String, func(int) func(int) any {
		rng := rand.New(rand.NewPCG(1, 1))
		return func(int) any { return fmt.Sprint("category ", rng.IntN(100)) }
	}},
}

const benchBatch = 8192

func benchArrays(typ arrow.DataType, rows int, value func(row int) any) []arrow.Array {
	var out []arrow.Array
	for at := 0; at < rows; at += benchBatch {
		b := array.NewBuilder(memory.DefaultAllocator, typ)
		for row := at; row < min(at+benchBatch, rows); row++ {
			switch b := b.(type) {
			case *array.Int64Builder:
				b.Append(value(row).(int64))
			case *array.TimestampBuilder:
				b.Append(arrow.Timestamp(value(row).(int64)))
			case *array.Float64Builder:
				b.Append(value(row).(float64))
			case *array.StringBuilder:
				b.Append(value(row).(string))
			}
		}
		out = append(out, b.NewArray())
	}
	return out
}

func benchBuild(b *testing.B, arrays []arrow.Array) ([]byte, bitmap.Stats) {
	builder, err := bitmap.NewBuilder(bitmap.BuildOptions{Columns: []predicate.KeyKind{predicate.KindOf(arrays[0].DataType())}})
	if err != nil {
		b.Fatal(err)
	}
	defer builder.Close()
	rows := int64(0)
	for _, a := range arrays {
		if err := builder.Add(b.Context(), rows, a); err != nil {
			b.Fatal(err)
		}
		rows += int64(a.Len())
	}
	var out bytes.Buffer
	stats, err := builder.Finish(b.Context(), &out, rows)
	if err != nil {
		b.Fatal(err)
	}
	return out.Bytes(), stats
}

// cpuTime is the time that the process has computed. Unlike that of the clock it says something on a machine with other work.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkBuild(b *testing.B) {
	for _, c := range benchColumns {
		b.Run(c.name, func(b *testing.B) {
			arrays := benchArrays(c.typ, benchRows, c.make(benchRows))
			var stats bitmap.Stats
			runtime.GC()
			start := cpuTime(b)
			for b.Loop() {
				_, stats = benchBuild(b, arrays)
			}
			b.ReportMetric(float64(benchRows)*float64(b.N)/(cpuTime(b)-start).Seconds()/1e6, "Mrows/cpu-s")
			b.ReportMetric(float64(stats.Size)/benchRows, "B/row")
		})
	}
}

// file is an artifact on the disk.
type file struct{ *os.File }

func (f file) ReadAtContext(_ context.Context, p []byte, off int64) (int, error) {
	return f.ReadAt(p, off)
}

// BenchmarkAnswer opens artifacts on a local disk and asks for one key, for a hundredth of the keys, and for all.
func BenchmarkAnswer(b *testing.B) {
	for _, c := range benchColumns {
		arrays := benchArrays(c.typ, benchRows, c.make(benchRows))
		artifact, _ := benchBuild(b, arrays)
		path := filepath.Join(b.TempDir(), "artifact")
		if err := os.WriteFile(path, artifact, 0o600); err != nil {
			b.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		var keys [][]byte
		r, err := bitmap.Open(b.Context(), file{f}, int64(len(artifact)))
		if err != nil {
			b.Fatal(err)
		}
		err = r.Walk(b.Context(), predicate.Ranges{{NoHi: true}}, false, func(key []byte, _ []int64) bool {
			keys = append(keys, bytes.Clone(key))
			return true
		})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(c.name+"/open", func(b *testing.B) {
			start := cpuTime(b)
			for b.Loop() {
				if _, err := bitmap.Open(b.Context(), file{f}, int64(len(artifact))); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((cpuTime(b)-start).Nanoseconds())/float64(b.N), "cpu-ns/op")
			b.ReportMetric(float64(r.Memory()), "B-held")
		})
		find := func(name string, next func(rng *rand.Rand) predicate.Ranges) {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				rng := rand.New(rand.NewPCG(2, 2))
				rows := int64(0)
				start := cpuTime(b)
				for b.Loop() {
					found, err := r.Find(b.Context(), next(rng), false)
					if err != nil {
						b.Fatal(err)
					}
					rows += found.Len()
				}
				b.ReportMetric(float64((cpuTime(b)-start).Nanoseconds())/float64(b.N), "cpu-ns/op")
				b.ReportMetric(float64(rows)/float64(b.N), "rows")
			})
		}
		find("point", func(rng *rand.Rand) predicate.Ranges {
			return predicate.Ranges{predicate.Point(keys[rng.IntN(len(keys))])}
		})
		part := max(len(keys)/100, 1)
		find("hundredth", func(rng *rand.Rand) predicate.Ranges {
			at := rng.IntN(len(keys) - part + 1)
			return predicate.Ranges{{Lo: keys[at], Hi: keys[at+part-1]}}
		})
		find("all", func(*rand.Rand) predicate.Ranges { return predicate.Ranges{{NoHi: true}} })
	}
}

package kernel_test

import (
	"fmt"
	"sync"
	"testing"
	"unsafe"

	"github.com/overlakedb/overlake/internal/vec/kernel"
)

// Benchmarks measure by the clock on the wall, so they need a machine that does nothing else. bench/cloops compares by
// processor time, and with C.

// hot is the number of bytes that are read again and again, cold of those of which hardly any are in a cache.
const (
	hot  = 256 << 10
	cold = 256 << 20
)

// much is what cold rows are taken from: numbers whose bytes make halves and codes too.
var much = sync.OnceValue(func() []float32 {
	x := make([]float32, cold/4)
	for i := range x {
		x[i] = float32(i*2654435761%1021) / 64
	}
	return x
})

// muchOf gives n bytes of it as elements of another type.
func muchOf[T any](n int) []T {
	x := much()
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(x))), n/int(unsafe.Sizeof(zero)))
}

// benchmark runs each level of this machine at each dimension.
func benchmark(b *testing.B, dims []int, run func(b *testing.B, d int)) {
	for _, d := range dims {
		for l := kernel.Plain; l <= kernel.Best(); l++ {
			b.Run(fmt.Sprintf("%d/%s", d, l), func(b *testing.B) {
				defer kernel.Use(kernel.Use(l))
				run(b, d)
			})
		}
	}
}

// perVector tells nanoseconds for one row.
func perVector(b *testing.B, rows int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows), "ns/vector")
}

var sizes = []int{128, 384, 768, 1536}

// inOrder measures a kernel over all of its rows.
func inOrder[Q, R, O any](b *testing.B, q []Q, size int, all func(q []Q, rows []R, out []O)) {
	x := muchOf[R](hot)
	rows := len(x) / size
	out := make([]O, rows)
	for b.Loop() {
		all(q, x[:rows*size], out)
	}
	perVector(b, rows)
}

// batches measures a kernel over 32 rows by number.
func batches[Q, R, O any](b *testing.B, q []Q, size, bytes int, at func(q []Q, rows []R, ids []uint32, out []O)) {
	x := muchOf[R](bytes)
	ids, out := make([]uint32, 1<<18), make([]O, 32)
	places(random(3), ids, len(x)/size)
	next := 0
	for b.Loop() {
		at(q, x, ids[next:next+32], out)
		next = (next + 32) % len(ids)
	}
	perVector(b, 32)
}

func BenchmarkFloats(b *testing.B) {
	for _, k := range floatKernels {
		query := func(d int) []float32 {
			q := make([]float32, d)
			numbers(random(1), q, false)
			return q
		}
		b.Run("hot/"+k.name, func(b *testing.B) {
			benchmark(b, sizes, func(b *testing.B, d int) { inOrder(b, query(d), d, k.all) })
		})
		b.Run("hot/"+k.name+"At", func(b *testing.B) {
			benchmark(b, sizes, func(b *testing.B, d int) { batches(b, query(d), d, hot, k.at) })
		})
		b.Run("cold/"+k.name+"At", func(b *testing.B) {
			benchmark(b, sizes, func(b *testing.B, d int) { batches(b, query(d), d, cold, k.at) })
		})
	}
}

func BenchmarkHalves(b *testing.B) {
	for _, k := range halfKernels {
		b.Run("hot/"+k.name, func(b *testing.B) {
			benchmark(b, sizes, func(b *testing.B, d int) { inOrder(b, make([]float32, d), d, k.all) })
		})
		b.Run("cold/"+k.name+"At", func(b *testing.B) {
			benchmark(b, sizes, func(b *testing.B, d int) { batches(b, make([]float32, d), d, cold, k.at) })
		})
	}
}

// BenchmarkCodes: of the kernels that count bits, the dimension is the number of bits.
func BenchmarkCodes(b *testing.B) {
	for _, k := range codeKernels {
		query := func(d int) []byte {
			if k.step == 8 {
				d /= 8
			}
			return make([]byte, d)
		}
		b.Run("hot/"+k.name, func(b *testing.B) {
			benchmark(b, sizes, func(b *testing.B, d int) { inOrder(b, query(d), len(query(d))*k.size/2, k.all) })
		})
		b.Run("cold/"+k.name+"At", func(b *testing.B) {
			benchmark(b, sizes, func(b *testing.B, d int) { batches(b, query(d), len(query(d))*k.size/2, cold, k.at) })
		})
	}
}

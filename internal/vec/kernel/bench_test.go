package kernel_test

import (
	"fmt"
	"testing"

	"github.com/overlakedb/overlake/internal/vec/kernel"
)

// hot is the size of what is read again and again, cold of what hardly ever is in a cache.
const (
	hot  = 256 << 10
	cold = 256 << 20
)

// each level of this machine, each dimension, each kernel.
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

func BenchmarkFloatHot(b *testing.B) {
	for _, k := range floatKernels {
		b.Run(k.name, func(b *testing.B) {
			benchmark(b, sizes, func(b *testing.B, d int) {
				rows := hot / 4 / d
				q, x, out := make([]float32, d), make([]float32, rows*d), make([]float32, rows)
				numbers(random(1), q, false)
				numbers(random(2), x, false)
				for b.Loop() {
					k.all(q, x, out)
				}
				perVector(b, rows)
			})
		})
	}
}

// BenchmarkFloatAt takes batches of 32 by id.
func BenchmarkFloatAt(b *testing.B) {
	for _, c := range []struct {
		name  string
		bytes int
	}{{"hot", hot}, {"cold", cold}} {
		for _, k := range floatKernels {
			b.Run(c.name+"/"+k.name, func(b *testing.B) {
				benchmark(b, sizes, func(b *testing.B, d int) {
					rows := c.bytes / 4 / d
					q, x, out := make([]float32, d), make([]float32, rows*d), make([]float32, 32)
					numbers(random(1), q, false)
					for i := range x {
						x[i] = float32(i & 1023)
					}
					ids := make([]uint32, 1<<16)
					places(random(3), ids, rows)
					at := 0
					for b.Loop() {
						k.at(q, x, ids[at:at+32], out)
						at = (at + 32) % len(ids)
					}
					perVector(b, 32)
				})
			})
		}
	}
}

package kernel_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/overlakedb/overlake/internal/vec/kernel"
)

// TestScanBlock: many half bytes, so that sums of words would be too small, and extreme tables.
func TestScanBlock(t *testing.T) {
	levels(t, func(t *testing.T) {
		for _, n := range []int{0, 1, 2, 3, 4, 5, 7, 8, 31, 32, 96, 192, 255, 256, 257, 258, 384, 513, 1025} {
			for _, largest := range []bool{false, true} {
				r := random(uint64(n))
				tables, block := guarded[byte](t, 16*n), guarded[byte](t, 32*n)
				for i := range tables {
					tables[i] = byte(r.Uint32())
					if largest {
						tables[i] = 255
					}
				}
				for i := range block {
					block[i] = byte(r.Uint32())
				}
				out := guarded[uint32](t, kernel.BlockRows)
				for i := range out {
					out[i] = 99
				}
				var want [kernel.BlockRows]uint32
				kernel.ScanBlock(tables, block, (*[kernel.BlockRows]uint32)(out))
				plain(func() { kernel.ScanBlock(tables, block, &want) })
				if !slices.Equal(out, want[:]) {
					t.Fatalf("%d half bytes: got %v, want %v", n, out, want)
				}
				for row, got := range out { // by the definition
					var sum uint32
					for j := range n {
						c := block[32*j+row%32]
						sum += uint32(tables[16*j+int(c>>(row/32*4)&15)])
					}
					if got != sum {
						t.Fatalf("%d half bytes, row %d: got %d, by the definition %d", n, row, got, sum)
					}
				}
			}
		}
	})
}

// TestHadamard: the same bits on every machine, and twice gives the vector back, longer by its length.
func TestHadamard(t *testing.T) {
	levels(t, func(t *testing.T) {
		for n := 1; n <= 1<<14; n *= 2 {
			r := random(uint64(n))
			x := guarded[float32](t, n)
			numbers(r, x, false)
			was, want := slices.Clone(x), slices.Clone(x)
			kernel.Hadamard(x)
			plain(func() { kernel.Hadamard(want) })
			for i := range x {
				if math.Float32bits(x[i]) != math.Float32bits(want[i]) {
					t.Fatalf("%d numbers: element %d is %v, the plain kernel gives %v", n, i, x[i], want[i])
				}
			}
			if n <= 512 {
				for i := range x { // by the definition
					var sum float64
					for j, v := range was {
						sum += float64(v) * float64(1-2*(ones(i&j)&1))
					}
					if math.Abs(sum-float64(x[i])) > 1e-3 {
						t.Fatalf("%d numbers: element %d is %v, by the definition %v", n, i, x[i], sum)
					}
				}
			}
			kernel.Hadamard(x)
			for i := range x {
				if math.Abs(float64(x[i])/float64(n)-float64(was[i])) > 1e-4 {
					t.Fatalf("%d numbers: twice gives %v for %v", n, x[i]/float32(n), was[i])
				}
			}
		}
		x := make([]float32, 512)
		x[0], x[1] = float32(math.Copysign(0, -1)), float32(math.Inf(1))
		want := slices.Clone(x)
		kernel.Hadamard(x)
		plain(func() { kernel.Hadamard(want) })
		for i := range x {
			if x[i] != want[i] && !(x[i] != x[i] && want[i] != want[i]) {
				t.Fatalf("with an infinite number: element %d is %v, want %v", i, x[i], want[i])
			}
		}
	})
	kernel.Hadamard(nil)
}

func ones(x int) int {
	n := 0
	for ; x > 0; x &= x - 1 {
		n++
	}
	return n
}

func TestSelect(t *testing.T) {
	levels(t, func(t *testing.T) {
		for n := range 200 {
			r := random(uint64(n))
			values := guarded[float32](t, n)
			numbers(r, values, n%2 == 1)
			if n > 20 {
				values[n/2], values[n-1], values[3] = 0.25, 0.25, float32(math.NaN())
			}
			for _, bound := range []float32{0.25, 0, -3, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())} {
				var want []uint32
				for i, v := range values {
					if v < bound {
						want = append(want, uint32(i))
					}
				}
				out := guarded[uint32](t, n)
				got := kernel.Select(values, bound, out)
				if !slices.Equal(out[:got], want) {
					t.Fatalf("%d values below %v: got %v, want %v", n, bound, out[:got], want)
				}
			}
		}
	})
}

// TestEstimate compares with the plain twin, to the last digit, and that with a formula of float64.
func TestEstimate(t *testing.T) {
	levels(t, func(t *testing.T) {
		inf, nan := float32(math.Inf(1)), float32(math.NaN())
		for n := range kernel.BlockRows + 1 {
			r := random(uint64(n))
			sums, scales, adds := guarded[int32](t, n), guarded[float32](t, n), guarded[float32](t, n)
			out, want := guarded[float32](t, n), make([]float32, n)
			numbers(r, scales, false)
			numbers(r, adds, false)
			for i := range sums {
				sums[i] = int32(r.Uint32()) >> (8 + i%20)
			}
			if n > 9 {
				adds[n-1], adds[n/2], scales[3], sums[5] = inf, nan, inf, math.MinInt32
			}
			f := kernel.Affine{Shift: int32(r.IntN(1000)) - 500, A: r.Float32(), B: r.Float32() - 0.5, Base: 3 * r.Float32()}
			for _, bound := range []float32{0.25, 1, -3, inf, -inf, nan} {
				found := kernel.Estimate(sums, scales, adds, f, bound, out)
				var twin uint64
				plain(func() { twin = kernel.Estimate(sums, scales, adds, f, bound, want) })
				if found != twin {
					t.Fatalf("%d values below %v: got %064b, want %064b", n, bound, found, twin)
				}
				for i, d := range out {
					if math.Float32bits(d) != math.Float32bits(want[i]) && (d == d || want[i] == want[i]) {
						t.Fatalf("value %d of %d: got %v, want %v", i, n, d, want[i])
					}
					if below := d < bound; below != (found>>i&1 != 0) {
						t.Fatalf("value %d of %d, %v: below %v is not %v", i, n, d, bound, below)
					}
					product := float64(scales[i]) * (float64(f.A)*float64(sums[i]-f.Shift) + float64(f.B))
					exact := float64(f.Base) + float64(adds[i]) - product
					size := math.Abs(product) + math.Abs(float64(f.Base)) + math.Abs(float64(adds[i])) + math.Abs(float64(scales[i]*f.B))
					if size < math.MaxFloat32/2 && !(math.Abs(float64(d)-exact) <= 1e-6*size) {
						t.Fatalf("value %d of %d: got %v, the formula says %v", i, n, d, exact)
					}
				}
			}
		}
	})
}

// TestNearest: whoever is chosen is as near as any, and the first of equal ones is taken.
func TestNearest(t *testing.T) {
	levels(t, func(t *testing.T) {
		for _, c := range []struct{ dim, points, centroids int }{
			{1, 1, 1}, {1, 9, 3}, {2, 5, 40}, {3, 8, 32}, {4, 6, 33}, {5, 7, 16}, {7, 13, 31}, {16, 17, 64}, {64, 100, 65},
			{100, 3, 50}, {127, 19, 47}, {128, 64, 100}, {384, 20, 70}, {768, 11, 35}, {3, 1024, 5}, {3, 1025, 9}, {2, 2050, 17},
		} {
			r := random(uint64(c.points))
			points, centroids, half := guarded[float32](t, c.dim*c.points), guarded[float32](t, c.dim*c.centroids), guarded[float32](t, c.centroids)
			numbers(r, points, false)
			numbers(r, centroids, false)
			halfLengths(c.dim, centroids, half)
			ids, nearest := guarded[uint32](t, c.points), guarded[float32](t, c.points)
			kernel.Nearest(c.dim, points, centroids, half, ids, nearest)
			for i, id := range ids {
				if int(id) >= c.centroids {
					t.Fatalf("%+v: point %d has the centroid %d", c, i, id)
				}
				p := points[i*c.dim:][:c.dim]
				least, chosen := math.Inf(1), 0.0
				for j := range c.centroids {
					d := float64(half[j])
					for k, v := range centroids[j*c.dim:][:c.dim] {
						d -= float64(v) * float64(p[k])
					}
					least = min(least, d)
					if j == int(id) {
						chosen = d
					}
				}
				if limit := 1e-5 * float64(c.dim); chosen > least+limit || math.Abs(float64(nearest[i])-chosen) > limit {
					t.Fatalf("%+v: point %d: got %d at %v, which is %v away; the nearest is %v", c, i, id, nearest[i], chosen, least)
				}
			}
		}
	})
}

// TestNearestOfEqual: distances that are equal, infinite or no numbers.
func TestNearestOfEqual(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	levels(t, func(t *testing.T) {
		for _, n := range []int{1, 5, 8, 20} {
			const dim, centroids = 3, 70
			points, rows, half := make([]float32, dim*n), make([]float32, dim*centroids), make([]float32, centroids)
			for i := range points {
				points[i] = float32(i % 5)
			}
			for i := range rows {
				rows[i] = 2
			}
			check := func(name string, want uint32, least float32) {
				t.Helper()
				ids, nearest := make([]uint32, n), make([]float32, n)
				kernel.Nearest(dim, points, rows, half, ids, nearest)
				for i, id := range ids {
					d := least
					if d == 0 {
						p := points[i*dim:]
						d = half[want] - 2*(p[0]+p[1]+p[2])
					}
					if id != want || nearest[i] != d {
						t.Errorf("%s, %d points: point %d has %d at %v, want %d at %v", name, n, i, id, nearest[i], want, d)
					}
				}
			}
			halfLengths(dim, rows, half)
			check("all equal", 0, 0)
			half[0], half[1], half[2] = nan, inf, 7
			check("equal but for the first three", 3, 0)
			half[69], half[37] = 1, 1
			check("two better ones", 37, 0)
			for i := range half {
				half[i] = inf
			}
			check("all infinite", 0, inf)
		}
	})
}

func halfLengths(dim int, centroids, half []float32) {
	for i := range half {
		var s float64
		for _, v := range centroids[i*dim:][:dim] {
			s += float64(v) * float64(v)
		}
		half[i] = float32(s / 2)
	}
}

func BenchmarkScanBlock(b *testing.B) {
	benchmark(b, sizes, func(b *testing.B, bits int) {
		const blocks = 64
		n := bits / 4
		tables, block := make([]byte, 16*n), make([]byte, 32*n*blocks)
		var out [kernel.BlockRows]uint32
		for b.Loop() {
			for i := range blocks {
				kernel.ScanBlock(tables, block[i*32*n:][:32*n], &out)
			}
		}
		perVector(b, kernel.BlockRows*blocks)
	})
}

func BenchmarkHadamard(b *testing.B) {
	benchmark(b, []int{128, 512, 1024, 2048, 4096}, func(b *testing.B, n int) {
		x := make([]float32, n)
		for b.Loop() {
			kernel.Hadamard(x)
		}
	})
}

// BenchmarkEstimate: one row in a hundred is below the bound.
func BenchmarkEstimate(b *testing.B) {
	benchmark(b, []int{kernel.BlockRows}, func(b *testing.B, n int) {
		r := random(3)
		sums, scales, adds, out := make([]uint32, n), make([]float32, n), make([]float32, n), make([]float32, n)
		numbers(r, scales, false)
		for i := range sums {
			sums[i], adds[i] = r.Uint32N(1000), r.Float32()
		}
		for b.Loop() {
			kernel.Estimate(sums, scales, adds, kernel.Affine{A: 1e-6}, 0.01, out)
		}
		perVector(b, n)
	})
}

// BenchmarkSelect: of 4,096 values one in a hundred, or in two, is found.
func BenchmarkSelect(b *testing.B) {
	for _, bound := range []float32{0.01, 0.5} {
		b.Run(fmt.Sprint(bound), func(b *testing.B) {
			benchmark(b, []int{4096}, func(b *testing.B, n int) {
				r := rand.New(rand.NewPCG(1, 1))
				values, out := make([]float32, n), make([]uint32, n)
				for i := range values {
					values[i] = r.Float32()
				}
				for b.Loop() {
					kernel.Select(values, bound, out)
				}
			})
		})
	}
}

// BenchmarkNearest finds the nearest of 4,096 centroids for 512 points, beside one inner product of a batch a point.
func BenchmarkNearest(b *testing.B) {
	const n, k = 512, 4096
	benchmark(b, []int{128, 768}, func(b *testing.B, dim int) {
		points, centroids, half := make([]float32, n*dim), make([]float32, k*dim), make([]float32, k)
		numbers(random(1), points, false)
		numbers(random(2), centroids, false)
		halfLengths(dim, centroids, half)
		ids, nearest := make([]uint32, n), make([]float32, n)
		for b.Loop() {
			kernel.Nearest(dim, points, centroids, half, ids, nearest)
		}
		b.ReportMetric(2*float64(n)*k*float64(dim)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
	})
	b.Run("one-by-one", func(b *testing.B) {
		benchmark(b, []int{128, 768}, func(b *testing.B, dim int) {
			points, centroids, products := make([]float32, 32*dim), make([]float32, k*dim), make([]float32, k)
			numbers(random(1), points, false)
			for b.Loop() {
				for i := range 32 {
					kernel.Dot(points[i*dim:][:dim], centroids, products)
				}
			}
			b.ReportMetric(2*32*k*float64(dim)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
		})
	})
}

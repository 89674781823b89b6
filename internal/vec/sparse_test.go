package vec_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/overlakedb/overlake/internal/vec"
)

// TestHalf compares with all numbers that 16 bits hold, and with what lies between them.
func TestHalf(t *testing.T) {
	var all []float32 // those from 0 on, ascending
	for h := range 0x7c00 {
		exp, frac := h>>10, float64(h&0x3ff)
		if exp == 0 {
			all = append(all, float32(math.Ldexp(frac, -24)))
		} else {
			all = append(all, float32(math.Ldexp(1024+frac, exp-25)))
		}
	}
	inf := float32(math.Inf(1))
	all = append(all, inf)
	check := func(x, want float32) {
		t.Helper()
		for _, s := range []float32{1, -1} {
			if got := vec.Half(x * s); math.Float32bits(got) != math.Float32bits(want*s) {
				t.Errorf("half of %v is %v, want %v", x*s, got, want*s)
			}
		}
	}
	for i, h := range all[:len(all)-1] {
		next := all[i+1]
		check(h, h)
		up := next
		if next == inf {
			up = 65536
		}
		middle := h + (up-h)/2 // exact: float32 has 13 bits more
		even := h
		if i%2 == 1 {
			even = next
		}
		check(middle, even)
		check(math.Nextafter32(middle, 0), h)
		check(math.Nextafter32(middle, inf), next)
	}
	check(inf, inf)
	check(math.MaxFloat32, inf)
	check(math.SmallestNonzeroFloat32, 0)
	if x := vec.Half(float32(math.NaN())); x == x {
		t.Errorf("half of NaN is %v", x)
	}
}

// TestSparseIsDense compares the kernels for sparse vectors with those for dense ones.
func TestSparseIsDense(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	draw := func(dim int, share float64) (vec.Sparse, []float32) {
		s, d := vec.Sparse{Dim: dim}, make([]float32, dim)
		for i := range d {
			if rng.Float64() < share {
				d[i] = float32(rng.IntN(19) - 9) // whole numbers, so that the order of a sum does not matter
				if d[i] != 0 {
					s.Index, s.Value = append(s.Index, int32(i)), append(s.Value, d[i])
				}
			}
		}
		return s, d
	}
	for range 500 {
		dim := 1 + rng.IntN(60)
		a, x := draw(dim, rng.Float64())
		b, y := draw(dim, rng.Float64())
		for name, c := range map[string][2]float64{
			"L2": {vec.SparseL2(&a, &b), vec.L2(x, y)}, "SquaredL2": {float64(vec.SparseSquaredL2(&a, &b)), float64(vec.SquaredL2(x, y))},
			"L1": {vec.SparseL1(&a, &b), vec.L1(x, y)}, "Dot": {float64(vec.SparseDot(&a, &b)), float64(vec.Dot(x, y))},
			"Cosine": {vec.SparseCosine(&a, &b), vec.Cosine(x, y)},
		} {
			if c[0] != c[1] && !(math.IsNaN(c[0]) && math.IsNaN(c[1])) {
				t.Fatalf("%s of %v and %v is %v, want %v", name, x, y, c[0], c[1])
			}
		}
	}
}

func BenchmarkSparseDistance(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func() vec.Sparse {
		s := vec.Sparse{Dim: 30000}
		for i := 0; i < 30000; i += 1 + rng.IntN(400) {
			s.Index, s.Value = append(s.Index, int32(i)), append(s.Value, rng.Float32())
		}
		return s
	}
	x, y := draw(), draw()
	for name, f := range map[string]func(a, b *vec.Sparse) float64{"l2": vec.SparseL2, "l1": vec.SparseL1, "cosine": vec.SparseCosine} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f(&x, &y)
			}
		})
	}
}

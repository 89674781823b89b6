package vec_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/overlakedb/overlake/internal/vec"
)

func TestKernelsAgreeWithFloat64(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for n := 1; n < 70; n++ {
		a, b := make([]float32, n), make([]float32, n)
		var l2, dot, l1, na, nb float64
		for i := range a {
			a[i], b[i] = float32(rng.NormFloat64()), float32(rng.NormFloat64())
			x, y := float64(a[i]), float64(b[i])
			l2 += (x - y) * (x - y)
			dot += x * y
			l1 += math.Abs(x - y)
			na += x * x
			nb += y * y
		}
		for name, c := range map[string][2]float64{
			"l2": {vec.L2(a, b), math.Sqrt(l2)}, "dot": {float64(vec.Dot(a, b)), dot}, "l1": {vec.L1(a, b), l1},
			"cosine": {vec.Cosine(a, b), 1 - dot/math.Sqrt(na*nb)}, "norm": {vec.Norm(a), math.Sqrt(na)},
		} {
			if math.Abs(c[0]-c[1]) > 1e-4*(1+math.Abs(c[1])) {
				t.Errorf("%s of %d: %v, want %v", name, n, c[0], c[1])
			}
		}
	}
	if !math.IsNaN(vec.Cosine([]float32{0, 0}, []float32{1, 1})) {
		t.Error("the cosine distance of a zero vector must be NaN")
	}
	if !math.IsInf(vec.L2([]float32{3e38}, []float32{-3e38}), 1) {
		t.Error("an overflowing distance must be infinite")
	}
}

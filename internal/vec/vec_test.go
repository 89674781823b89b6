package vec_test

import (
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/overlakedb/overlake/internal/vec"
)

var inf = math.Inf(1)

// TestPgvectorValues are values that pgvector gives.
func TestPgvectorValues(t *testing.T) {
	type v = []float32
	for _, c := range []struct {
		name string
		f    func(a, b []float32) float64
		a, b v
		want float64
	}{
		{"l2", vec.L2, v{1, 0}, v{0, 1}, math.Sqrt2},
		{"l2", vec.L2, v{.1, .2, .3}, v{.3, .2, .1}, 0.28284273565538476},
		{"l2", vec.L2, v{1, 2, 3, 4, 5, 6, 7, 8, 9}, v{9, 8, 7, 6, 5, 4, 3, 2, 1}, 15.491933384829668},
		{"l2", vec.L2, v{3e38, 1}, v{-3e38, 1}, inf},
		{"l2", vec.L2, v{1e-25}, v{-1e-25}, 0},
		{"ip", vec.NegativeDot, v{0, 0}, v{3, 3}, math.Copysign(0, -1)},
		{"ip", vec.NegativeDot, v{1.5, -2.25}, v{.5, .75}, 0.9375},
		{"ip", vec.NegativeDot, v{3e38, 1}, v{-3e38, 1}, inf},
		{"ip", vec.NegativeDot, v{1e-20, 1e-20}, v{1e-20, 1e-20}, -1.999989220222952e-40},
		{"cosine", vec.Cosine, v{1, 2, 3}, v{4, 6, 3}, 0.14451761146355635},
		{"cosine", vec.Cosine, v{0, 0, 0}, v{0, 0, 0}, math.NaN()},
		{"cosine", vec.Cosine, v{1, 1}, v{0, 0}, math.NaN()},
		{"cosine", vec.Cosine, v{1e-25}, v{1e-25}, math.NaN()},
		{"cosine", vec.Cosine, v{3e38, 1}, v{-3e38, 1}, math.NaN()},
		{"cosine", vec.Cosine, v{2, 4, 6}, v{1, 2, 3}, 0},
		{"cosine", vec.Cosine, v{7}, v{-7}, 2},
		{"cosine", vec.Cosine, v{1, 2, 3, 4, 5, 6, 7, 8, 9}, v{9, 8, 7, 6, 5, 4, 3, 2, 1}, 0.42105263157894735},
		{"l1", vec.L1, v{-1, 2, -3, 4}, v{4, -3, 2, -1}, 20},
		{"l1", vec.L1, v{.1, .2, .3}, v{.3, .2, .1}, 0.40000003576278687},
		{"l1", vec.L1, v{3e38, 1}, v{-3e38, 1}, inf},
		{"spherical", vec.Spherical, v{1, 2, 2}, v{3, 1, 0}, 0},
		{"spherical", vec.Spherical, v{1, 0}, v{0, 1}, 0.5},
		{"spherical", vec.Spherical, v{1, 0}, v{-1, 0}, 1},
	} {
		got := c.f(c.a, c.b)
		same := math.Abs(got-c.want) <= 1e-6*math.Max(1, math.Abs(c.want)) || got == c.want || got != got && c.want != c.want
		if !same || got == 0 && math.Signbit(got) != math.Signbit(c.want) {
			t.Errorf("%s(%v, %v) = %v, want %v", c.name, c.a, c.b, got, c.want)
		}
	}
	for _, c := range []struct {
		a    v
		want float64
	}{{v{0, 0}, 0}, {v{3, 4}, 5}, {v{3e38, 3e38}, 4.2426406948942856e+38}, {v{1e-30, 1e-30}, 1.4142135668576749e-30}} {
		if got := vec.Norm(c.a); math.Abs(got-c.want) > 1e-6*c.want {
			t.Errorf("norm of %v is %v, want %v", c.a, got, c.want)
		}
	}
}

func random(rng *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	return v
}

// TestKernelsAgainstFloat64 compares with sums in float64, for every length up to 70 and some long ones.
func TestKernelsAgainstFloat64(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, n := range append(upTo(70), 127, 128, 384, 768, 1536, 16000) {
		a, b := random(rng, n), random(rng, n)
		var l2, dot, l1, aa, bb, size float64
		for i := range a {
			x, y := float64(a[i]), float64(b[i])
			l2 += (x - y) * (x - y)
			dot += x * y
			l1 += math.Abs(x - y)
			aa += x * x
			bb += y * y
			size += math.Abs(x * y)
		}
		cosine := 1 - dot/math.Sqrt(aa*bb)
		spherical := math.Acos(max(-1, min(1, dot))) / math.Pi
		// Rounding errors grow with the sum of the absolute terms.
		for name, c := range map[string]struct{ got, want, size float64 }{
			"L2": {vec.L2(a, b), math.Sqrt(l2), math.Sqrt(l2)}, "SquaredL2": {float64(vec.SquaredL2(a, b)), l2, l2}, "Dot": {float64(vec.Dot(a, b)), dot, size},
			"NegativeDot": {vec.NegativeDot(a, b), -dot, size}, "Cosine": {vec.Cosine(a, b), cosine, 1}, "L1": {vec.L1(a, b), l1, l1},
			"Norm": {vec.Norm(a), math.Sqrt(aa), 1e-6 * math.Sqrt(aa)},
		} {
			if n == 0 && name == "Cosine" {
				continue
			}
			if math.Abs(c.got-c.want) > 1e-4*c.size+1e-30 {
				t.Errorf("%d dimensions: %s is %v, want %v", n, name, c.got, c.want)
			}
		}
		if n > 0 && math.Abs(dot) < 0.9 && math.Abs(vec.Spherical(a, b)-spherical) > 1e-4 {
			t.Errorf("%d dimensions: Spherical is %v, want %v", n, vec.Spherical(a, b), spherical)
		}
	}
}

func upTo(n int) []int {
	out := make([]int, n+1)
	for i := range out {
		out[i] = i
	}
	return out
}

// TestManyRowsAreSinglePairs is K2.
func TestManyRowsAreSinglePairs(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for _, dim := range []int{1, 3, 4, 7, 100, 384} {
		const n = 33
		query, rows := random(rng, dim), random(rng, n*dim)
		clear(rows[:dim])
		out, sums := make([]float64, n), make([]float32, n)
		for _, m := range []vec.Metric{vec.MetricL2, vec.MetricDot, vec.MetricCosine, vec.MetricL1} {
			m.Distances(query, rows, out)
			for i, got := range out {
				if want := m.Distance(query, rows[i*dim:(i+1)*dim]); math.Float64bits(got) != math.Float64bits(want) {
					t.Errorf("%s, %d dimensions, row %d: %v and %v", m, dim, i, got, want)
				}
			}
		}
		vec.SquaredL2Many(query, rows, sums)
		for i, got := range sums {
			if got != vec.SquaredL2(query, rows[i*dim:(i+1)*dim]) {
				t.Errorf("SquaredL2Many of row %d is %v", i, got)
			}
		}
		vec.DotMany(query, rows, sums)
		for i, got := range sums {
			if got != vec.Dot(query, rows[i*dim:(i+1)*dim]) {
				t.Errorf("DotMany of row %d is %v", i, got)
			}
		}
		vec.L1Many(query, rows, sums)
		for i, got := range sums {
			if float64(got) != vec.L1(query, rows[i*dim:(i+1)*dim]) {
				t.Errorf("L1Many of row %d is %v", i, got)
			}
		}
	}
}

func TestBits(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for n := range 41 {
		a, b := make([]byte, n), make([]byte, n)
		for i := range a {
			a[i], b[i] = byte(rng.Uint32()), byte(rng.Uint32())
		}
		x, y := new(big.Int).SetBytes(a), new(big.Int).SetBytes(b)
		count := func(z *big.Int) (n int) {
			for _, w := range z.Bits() {
				n += bits.OnesCount(uint(w))
			}
			return n
		}
		differ, both, either := count(new(big.Int).Xor(x, y)), count(new(big.Int).And(x, y)), count(new(big.Int).Or(x, y))
		if got := vec.Hamming(a, b); got != differ {
			t.Errorf("%d bytes: %d bits differ, want %d", n, got, differ)
		}
		want := 1.0
		if both > 0 {
			want = 1 - float64(both)/float64(either)
		}
		if got := vec.Jaccard(a, b); got != want {
			t.Errorf("%d bytes: Jaccard is %v, want %v", n, got, want)
		}
	}
}

func BenchmarkDistance(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	const dim, n = 384, 64
	query, rows, out := random(rng, dim), random(rng, n*dim), make([]float64, n)
	for _, m := range []vec.Metric{vec.MetricL2, vec.MetricDot, vec.MetricCosine, vec.MetricL1} {
		b.Run(m.String(), func(b *testing.B) {
			for b.Loop() {
				m.Distances(query, rows, out)
			}
			b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N*n), "ns/row")
		})
	}
}

package code_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/code"
	"github.com/overlakedb/overlake/internal/vec/kernel"
)

var packed = []code.Kind{code.TQ8, code.TQ4, code.Bit1}

func coder(t testing.TB, kind code.Kind, metric vec.Metric, dim int, seed uint64) *code.Coder {
	t.Helper()
	c, err := code.New(kind, metric, dim, seed)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func normal(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// pack rotates and packs rows.
func pack(c *code.Coder, rows []float32) ([]byte, []code.Factor) {
	n := len(rows) / c.Dim()
	bytes, factors := make([]byte, n*c.RowBytes()), make([]code.Factor, n)
	turned := make([]float32, c.Dim())
	for i := range n {
		c.Rotate(turned, rows[i*c.Dim():][:c.Dim()])
		factors[i] = c.Pack(turned, bytes[i*c.RowBytes():][:c.RowBytes()])
	}
	return bytes, factors
}

func TestRotationKeepsLengthsAndProducts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, dim := range []int{1, 2, 3, 64, 100, 127, 300, 768, 1000, 16000} {
		c := coder(t, code.TQ8, vec.MetricL2, dim, 7)
		x, y := normal(rng, dim), normal(rng, dim)
		a, b := make([]float32, dim), slices.Clone(y)
		c.Rotate(a, x)
		c.Rotate(b, b)
		size := float64(vec.Dot(x, x))
		if d := math.Abs(float64(vec.Dot(a, a))-size) / size; d > 1e-5 {
			t.Errorf("dim %d: a length changes by %v", dim, d)
		}
		if d := math.Abs(float64(vec.Dot(a, b)-vec.Dot(x, y))) / size; d > 1e-5 {
			t.Errorf("dim %d: a product changes by %v", dim, d)
		}
		// One element becomes many of about the same size.
		if dim >= 64 {
			for _, at := range []int{0, dim / 2, dim - 1} {
				x := make([]float32, dim)
				x[at] = 1
				c.Rotate(x, x)
				for i, v := range x {
					if abs := math.Abs(float64(v)) * math.Sqrt(float64(dim)); abs > 7 {
						t.Fatalf("dim %d: element %d goes into element %d by %v times a fair share", dim, at, i, abs)
					}
				}
			}
		}
	}
	c := coder(t, code.Float32, vec.MetricL2, 5, 7)
	x, y := normal(rng, 5), make([]float32, 5)
	if c.Rotate(y, x); !slices.Equal(x, y) {
		t.Error("floats are turned")
	}
}

// TestRotationIsThatOfTheFormat pins the bytes: the seed is stored, not the rotation.
func TestRotationIsThatOfTheFormat(t *testing.T) {
	x := make([]float32, 6)
	for i := range x {
		x[i] = float32(i + 1)
	}
	coder(t, code.Bit1, vec.MetricL2, 6, 42).Rotate(x, x)
	got := fmt.Sprintf("%.4f", x)
	const want = "[-2.1213 3.4471 -0.7955 -5.4801 6.6291 -0.0884]"
	if got != want {
		t.Errorf("rotated %s, want %s", got, want)
	}
}

func TestSeeds(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	rows := normal(rng, 100*20)
	for _, kind := range packed {
		a, fa := pack(coder(t, kind, vec.MetricL2, 100, 9), rows)
		b, fb := pack(coder(t, kind, vec.MetricL2, 100, 9), rows)
		other, _ := pack(coder(t, kind, vec.MetricL2, 100, 10), rows)
		if !bytes.Equal(a, b) || !slices.Equal(fa, fb) {
			t.Errorf("%s: one seed gives two packings", kind)
		}
		if bytes.Equal(a, other) {
			t.Errorf("%s: two seeds give one packing", kind)
		}
	}
}

// TestEstimatesAreUnbiased takes many rotations of one pair. The mean error must be near zero, measured by its own spread,
// and the spread of one estimate what the bits allow.
func TestEstimatesAreUnbiased(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	spreads := map[code.Kind]float64{code.TQ8: 0.012, code.TQ4: 0.13, code.Bit1: 0.9} // times |x||y| / sqrt(dim)
	for _, kind := range packed {
		for _, dim := range []int{3, 64, 100, 300, 1000} {
			x, y := normal(rng, dim), normal(rng, dim)
			for i := range y {
				y[i] += x[i] / 2
			}
			want := float64(vec.Dot(x, y))
			unit := math.Sqrt(float64(vec.Dot(x, x)) * float64(vec.Dot(y, y)) / float64(dim))
			const n = 300
			for _, by := range []string{"floats", "a row"} {
				var sum, squares float64
				for seed := range uint64(n) {
					c := coder(t, kind, vec.MetricDot, dim, seed)
					rows, factors := pack(c, x)
					q := c.Query(y)
					if by == "a row" {
						other, of := pack(c, y)
						q = c.QueryOf(other, of[0])
					}
					var out [1]float32
					q.Distances(rows, factors, out[:])
					e := (float64(-out[0]) - want) / unit
					sum += e
					squares += e * e
				}
				mean, spread := sum/n, math.Sqrt(squares/n)
				bound := spreads[kind]
				if by == "a row" {
					bound *= 1.6
				}
				if dim >= 64 && spread > bound {
					t.Errorf("%s, dim %d, by %s: estimates spread by %.4f", kind, dim, by, spread)
				}
				// Few elements have few rotations. The signs of two rows err alike: their inner product is that of an arcsine.
				if dim >= 64 && !(kind == code.Bit1 && by == "a row") && math.Abs(mean) > 4*spread/math.Sqrt(n)+1e-4 {
					t.Errorf("%s, dim %d, by %s: estimates are off by %.4f, spread %.4f", kind, dim, by, mean, spread)
				}
			}
		}
	}
}

// TestDistances compares all forms with each other and with the truth, for every metric, kind and odd dimensions.
func TestDistances(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	bounds := map[code.Kind]float64{code.Float32: 1e-4, code.TQ8: 0.06, code.TQ4: 0.8, code.Bit1: 5} // times |x||y| / sqrt(dim)
	for _, dim := range []int{1, 3, 64, 100, 300, 1000, 16000} {
		n := min(600, 1+100000/dim)
		rows := normal(rng, n*dim)
		query := normal(rng, dim)
		for _, metric := range []vec.Metric{vec.MetricL2, vec.MetricDot, vec.MetricCosine, vec.MetricL1} {
			if metric == vec.MetricCosine {
				normalise(query)
				for i := range n {
					normalise(rows[i*dim:][:dim])
				}
			}
			for _, kind := range append(packed, code.Float32) {
				if metric == vec.MetricL1 && kind != code.Float32 {
					if _, err := code.New(kind, metric, dim, 1); !errs.Is(err, errs.Unsupported) {
						t.Fatalf("l1 by %s: %v", kind, err)
					}
					continue
				}
				c := coder(t, kind, metric, dim, 3)
				packed, factors := pack(c, rows)
				q := c.Query(query)
				out := make([]float32, n)
				q.Distances(packed, factors, out)
				for i := range n {
					row := rows[i*dim:][:dim]
					want := metric.Distance(query, row)
					switch metric {
					case vec.MetricL2:
						want *= want
					}
					unit := math.Sqrt(float64(vec.Dot(query, query)) * float64(vec.Dot(row, row)) / float64(dim))
					if kind == code.Float32 {
						unit = math.Abs(want) + 1
					}
					bound := bounds[kind] * unit
					if metric == vec.MetricL2 {
						bound *= 2
					}
					if dim < 64 && kind != code.Float32 {
						bound *= 4
					}
					if d := math.Abs(float64(out[i]) - want); !(d <= bound) {
						t.Fatalf("%s, %s, dim %d: %v, want %v within %v", kind, metric, dim, out[i], want, bound)
					}
				}
				ids := make([]uint32, n)
				for i := range ids {
					ids[i] = rng.Uint32N(uint32(n))
				}
				listed := make([]float32, n)
				q.DistancesAt(packed, factors, ids, listed)
				for i, id := range ids {
					if d := listed[i] - out[id]; d != 0 && (kind != code.Float32 || math.Abs(float64(d)) > 1e-5*(1+math.Abs(float64(out[id])))) {
						t.Fatalf("%s, %s, dim %d: row %d is at %v or %v", kind, metric, dim, id, listed[i], out[id])
					}
				}
				// Products are what distances are made of.
				if metric == vec.MetricDot {
					q.Products(packed, listed)
					at := make([]float32, n)
					q.ProductsAt(packed, ids, at)
					bits := make([]float32, dim)
					for i, p := range listed {
						if !alike([]float32{p * factors[i].Scale}, []float32{-out[i]}) {
							t.Fatalf("%s, dim %d: a product of %v with scale %v is %v", kind, dim, p, factors[i].Scale, out[i])
						}
						c.Unpack(bits, packed[i*c.RowBytes():][:c.RowBytes()])
						turned := make([]float32, dim)
						c.Rotate(turned, query)
						want := float64(vec.Dot(turned, bits))
						unit := math.Sqrt(float64(vec.Dot(query, query)) * float64(vec.Dot(bits, bits)) / float64(dim))
						if math.Abs(float64(p)-want) > 0.4*unit {
							t.Fatalf("%s, dim %d: a product of %v, want %v within %v", kind, dim, p, want, 0.4*unit)
						}
						if want := listed[ids[i]]; !alike(at[i:i+1], []float32{want}) {
							t.Fatalf("%s, dim %d: products %v and %v", kind, dim, at[i], listed[ids[i]])
						}
					}
				}
				// A row as a query, and queries used again, for other vectors and other coders.
				again := new(code.Query)
				c.QueryOfInto(again, packed[:c.RowBytes()], factors[0])
				again.Distances(packed, factors, listed)
				fresh := make([]float32, n)
				c.QueryOf(packed[:c.RowBytes()], factors[0]).Distances(packed, factors, fresh)
				if !alike(listed, fresh) {
					t.Fatalf("%s, %s, dim %d: a query used again differs", kind, metric, dim)
				}
				c.QueryInto(again, query)
				again.Distances(packed, factors, listed)
				if !alike(listed, out) {
					t.Fatalf("%s, %s, dim %d: a query used again differs", kind, metric, dim)
				}
				turned := make([]float32, dim)
				c.Rotate(turned, query)
				c.QueryRotatedInto(again, turned)
				again.Distances(packed, factors, listed)
				if !alike(listed, out) {
					t.Fatalf("%s, %s, dim %d: a query rotated before differs", kind, metric, dim)
				}
			}
		}
	}
}

// alike: kernels for floats may add up in another order from call to call, those for whole numbers may not.
func alike(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Abs(float64(x-y)) <= 1e-5*(1+math.Abs(float64(x))) })
}

func normalise(x []float32) {
	s := float32(1 / math.Sqrt(float64(vec.Dot(x, x))))
	for i := range x {
		x[i] *= s
	}
}

// TestRefine: a refined query errs by what the rows lost only.
// TestEstimate: base + add - scale * product, and who is below a bound, beside Products; of refined queries too.
func TestEstimate(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 18))
	for _, kind := range []code.Kind{code.TQ8, code.TQ4} {
		for _, dim := range []int{3, 128, 200} {
			c := coder(t, kind, vec.MetricL2, dim, 3)
			for _, n := range []int{0, 1, 63, 64, 65, 255, 256, 257, 700} {
				rows, _ := pack(c, normal(rng, n*dim))
				scales, adds := normal(rng, n), normal(rng, n)
				q := c.Query(normal(rng, dim))
				for _, refined := range []bool{false, true} {
					if refined {
						q.Refine()
					}
					products, out := make([]float32, n), make([]float32, n)
					below := make([]uint64, (n+63)/64)
					for i := range below {
						below[i] = rng.Uint64() // what was there before is of no use
					}
					q.Products(rows, products)
					q.Estimate(rows, scales, adds, 0.5, 1, out, below)
					for i, d := range out {
						want := 0.5 + adds[i] - scales[i]*products[i]
						size := 1 + math.Abs(float64(adds[i])) + math.Abs(float64(scales[i]*products[i]))
						if math.Abs(float64(d-want)) > 1e-6*size {
							t.Fatalf("%s, dim %d, row %d of %d, refined %v: got %v, want %v", kind, dim, i, n, refined, d, want)
						}
						if (d < 1) != (below[i>>6]>>(i&63)&1 != 0) {
							t.Fatalf("%s, dim %d, row %d of %d: %v below 1 is %x", kind, dim, i, n, d, below[i>>6])
						}
					}
					if n%64 > 0 && below[n/64]>>(n%64) != 0 {
						t.Fatalf("%s: bits behind row %d: %x", kind, n, below[n/64])
					}
				}
			}
		}
	}
}

func TestRefine(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	for _, kind := range []code.Kind{code.TQ8, code.TQ4} {
		for _, dim := range []int{3, 100, 768} {
			c := coder(t, kind, vec.MetricDot, dim, 1)
			const n = 300 // more than one batch
			rows, _ := pack(c, normal(rng, n*dim))
			query := normal(rng, dim)
			q := c.Query(query)
			plain, fine, at, bits := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, dim)
			q.Products(rows, plain)
			q.Refine()
			q.Products(rows, fine)
			ids := make([]uint32, n)
			for i := range ids {
				ids[i] = uint32(n - 1 - i)
			}
			q.ProductsAt(rows, ids, at)
			c.Rotate(query, query)
			var before, after float64
			for i := range n {
				c.Unpack(bits, rows[i*c.RowBytes():][:c.RowBytes()])
				want := vec.Dot(query, bits)
				before += math.Abs(float64(plain[i] - want))
				after += math.Abs(float64(fine[i] - want))
				if at[n-1-i] != fine[i] {
					t.Fatalf("%s, dim %d: products %v and %v", kind, dim, at[n-1-i], fine[i])
				}
			}
			if after*50 > before {
				t.Errorf("%s, dim %d: errors of %v, refined %v", kind, dim, before/n, after/n)
			}
			// Used again, it is as it was.
			c.QueryRotatedInto(q, query)
			if q.Products(rows, fine); !slices.Equal(fine, plain) {
				t.Errorf("%s, dim %d: a query stays refined", kind, dim)
			}
		}
	}
	c := coder(t, code.TQ8, vec.MetricDot, 3, 1)
	q := c.Query(make([]float32, 3))
	if q.Refine(); q.Norm() != 0 {
		t.Error("a zero query is refined")
	}
}

// TestExtremes: no NaN and no panic for zeros, tiny and huge numbers and what is not finite.
func TestExtremes(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	values := []float32{0, 1, -1, 1e-45, 1e-30, 1e-20, 1e18, -1e25, math.MaxFloat32, inf, -inf, nan}
	for _, dim := range []int{1, 3, 70} {
		var rows []float32
		for _, v := range values {
			x := make([]float32, dim)
			x[0] = v
			rows = append(rows, x...)
			for i := range x {
				x[i] = v
			}
			rows = append(rows, x...)
		}
		for _, metric := range []vec.Metric{vec.MetricL2, vec.MetricDot, vec.MetricCosine} {
			for _, kind := range packed {
				c := coder(t, kind, metric, dim, 1)
				packed, factors := pack(c, rows)
				out := make([]float32, len(factors))
				for i := range factors {
					for _, q := range []*code.Query{c.Query(rows[i*dim:][:dim]), c.QueryOf(packed[i*c.RowBytes():][:c.RowBytes()], factors[i])} {
						q.Distances(packed, factors, out)
						for k, d := range out {
							if d != d || metric == vec.MetricL2 && d < 0 {
								t.Fatalf("%s, %s: from %v to %v it is %v", kind, metric, rows[i*dim], rows[k*dim], d)
							}
						}
					}
				}
				if kind == code.Bit1 {
					for i := range factors {
						if scale, bias := c.Tables(rows[i*dim:][:dim], make([]byte, c.TableBytes())); scale != scale || bias != bias {
							t.Fatalf("tables with scale %v and bias %v", scale, bias)
						}
					}
				}
			}
		}
	}
}

func TestInvalid(t *testing.T) {
	for _, dim := range []int{-1, 0, code.MaxDim + 1} {
		if _, err := code.New(code.TQ8, vec.MetricL2, dim, 0); !errs.Is(err, errs.Invalid) {
			t.Errorf("dim %d: %v", dim, err)
		}
	}
	for kind, metric := range map[code.Kind]vec.Metric{9: vec.MetricL2, code.TQ8: 9} {
		if _, err := code.New(kind, metric, 3, 0); !errs.Is(err, errs.Unsupported) {
			t.Errorf("%s by %s: %v", kind, metric, err)
		}
	}
	// The largest dimension with the largest numbers stays within 32 bits.
	c := coder(t, code.TQ8, vec.MetricDot, code.MaxDim, 1)
	row := bytes.Repeat([]byte{255}, c.RowBytes())
	var out [1]float32
	c.QueryOf(row, code.Factor{Scale: 1}).Distances(row, []code.Factor{{Scale: 1}}, out[:])
	if want := float32(-127 * 127 * code.MaxDim); out[0] != want {
		t.Errorf("%v, want %v", out[0], want)
	}
	clear(row)
	c.QueryOf(row, code.Factor{Scale: 1}).Distances(row, []code.Factor{{Scale: 1}}, out[:])
	if want := float32(-128 * 128 * code.MaxDim); out[0] != want {
		t.Errorf("%v, want %v", out[0], want)
	}
}

// TestBlocks compares the fast scan with row by row.
func TestBlocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for _, dim := range []int{1, 3, 63, 64, 100, 768} {
		c := coder(t, code.Bit1, vec.MetricDot, dim, 5)
		for _, n := range []int{1, 31, 33, 64} {
			rows, _ := pack(c, normal(rng, n*dim))
			block := bytes.Repeat([]byte{1}, c.BlockBytes())
			c.Block(block, rows)
			row := make([]byte, c.RowBytes())
			for i := range n {
				if c.FromBlock(row, block, i); !bytes.Equal(row, rows[i*len(row):][:len(row)]) {
					t.Fatalf("dim %d: row %d of a block differs", dim, i)
				}
			}
			query := normal(rng, dim)
			tables := make([]byte, c.TableBytes())
			turned, bits := make([]float32, dim), make([]float32, dim)
			c.Rotate(turned, query)
			scale, bias := c.Tables(turned, tables)
			var sums [kernel.BlockRows]uint32
			kernel.ScanBlock(tables, block, &sums)
			for i := range n {
				c.Unpack(bits, rows[i*len(row):][:len(row)])
				want := vec.Dot(turned, bits)
				got := scale*float32(sums[i]) + bias
				if d := math.Abs(float64(got - want)); d > 0.1*math.Sqrt(float64(vec.Dot(turned, turned))) {
					t.Fatalf("dim %d: a block gives %v, want %v", dim, got, want)
				}
			}
		}
	}
}

// clusters draws from a mixture: skewed sizes, few dimensions that matter, noise in all.
type clusters struct {
	rng     *rand.Rand
	dim     int
	centres [][]float32
	spread  []float32
	basis   []float32
}

const latent = 40

func newClusters(rng *rand.Rand, dim int) *clusters {
	g := &clusters{rng: rng, dim: dim, basis: normal(rng, latent*dim)}
	for range 300 {
		g.centres = append(g.centres, normal(rng, latent))
		g.spread = append(g.spread, 0.3+0.6*rng.Float32())
	}
	return g
}

func (g *clusters) draw(n int) []float32 {
	out := make([]float32, 0, n*g.dim)
	root := float32(1 / math.Sqrt(latent))
	for range n {
		k := int(float64(len(g.centres)) * math.Pow(g.rng.Float64(), 2))
		x := make([]float32, g.dim)
		for l, c := range g.centres[k] {
			w := (c + g.spread[k]*float32(g.rng.NormFloat64())) * root
			for i, b := range g.basis[l*g.dim:][:g.dim] {
				x[i] += w * b
			}
		}
		for i := range x {
			x[i] += 0.1 * float32(g.rng.NormFloat64())
		}
		out = append(out, x...)
	}
	return out
}

// TestRecall searches the codes alone, exhaustively, and counts how many of the true 10 nearest are among the 10 found.
func TestRecall(t *testing.T) {
	for _, c := range []struct {
		dim   int
		rows  int
		least map[code.Kind]float64
	}{
		{128, 10000, map[code.Kind]float64{code.Float32: 1, code.TQ8: 0.98, code.TQ4: 0.92, code.Bit1: 0.5}},
		{768, 5000, map[code.Kind]float64{code.Float32: 1, code.TQ8: 0.99, code.TQ4: 0.96, code.Bit1: 0.75}},
	} {
		g := newClusters(rand.New(rand.NewPCG(11, uint64(c.dim))), c.dim)
		rows, queries := g.draw(c.rows), g.draw(100)
		found := map[code.Kind]int{}
		exact, out := make([]float32, c.rows), make([]float32, c.rows)
		coders, packings, factors := map[code.Kind]*code.Coder{}, map[code.Kind][]byte{}, map[code.Kind][]code.Factor{}
		for kind := range c.least {
			coders[kind] = coder(t, kind, vec.MetricL2, c.dim, 1)
			packings[kind], factors[kind] = pack(coders[kind], rows)
		}
		for i := 0; i < len(queries); i += c.dim {
			q := queries[i:][:c.dim]
			kernel.L2(q, rows, exact)
			want := nearest(exact, 10)
			for kind := range c.least {
				coders[kind].Query(q).Distances(packings[kind], factors[kind], out)
				for _, r := range nearest(out, 10) {
					if slices.Contains(want, r) {
						found[kind]++
					}
				}
			}
		}
		for kind, least := range c.least {
			recall := float64(found[kind]) / float64(len(queries)/c.dim*10)
			t.Logf("dim %d, %s: recall@10 %.3f", c.dim, kind, recall)
			if recall < least {
				t.Errorf("dim %d, %s: recall@10 %.3f, want %.3f", c.dim, kind, recall, least)
			}
		}
	}
}

func nearest(distances []float32, k int) []int {
	ids := make([]int, len(distances))
	for i := range ids {
		ids[i] = i
	}
	slices.SortFunc(ids, func(a, b int) int {
		switch {
		case distances[a] < distances[b]:
			return -1
		case distances[a] > distances[b]:
			return 1
		}
		return a - b
	})
	return ids[:k]
}

func BenchmarkPack(b *testing.B) {
	rng := rand.New(rand.NewPCG(13, 14))
	for _, dim := range []int{128, 768} {
		x, turned := normal(rng, dim), make([]float32, dim)
		for _, kind := range packed {
			c := coder(b, kind, vec.MetricL2, dim, 1)
			row := make([]byte, c.RowBytes())
			b.Run(fmt.Sprintf("%s/%d", kind, dim), func(b *testing.B) {
				for b.Loop() {
					c.Rotate(turned, x)
					c.Pack(turned, row)
				}
			})
			b.Run(fmt.Sprintf("%s/%d/query", kind, dim), func(b *testing.B) {
				q := new(code.Query)
				for b.Loop() {
					c.QueryInto(q, x)
				}
			})
			if kind == code.Bit1 {
				tables := make([]byte, c.TableBytes())
				b.Run(fmt.Sprintf("%s/%d/tables", kind, dim), func(b *testing.B) {
					for b.Loop() {
						c.Tables(turned, tables)
					}
				})
			}
			f := c.Pack(turned, row)
			b.Run(fmt.Sprintf("%s/%d/queryof", kind, dim), func(b *testing.B) {
				q := new(code.Query)
				for b.Loop() {
					c.QueryOfInto(q, row, f)
				}
			})
		}
	}
}

// FuzzRows takes any bytes for rows and their factors.
func FuzzRows(f *testing.F) {
	f.Add(uint8(1), uint16(3), bytes.Repeat([]byte{0x5a}, 200))
	f.Add(uint8(3), uint16(100), bytes.Repeat([]byte{0xff, 0x7f}, 300))
	f.Fuzz(func(t *testing.T, kind uint8, dim uint16, b []byte) {
		c, err := code.New(code.Kind(kind%4), vec.MetricL2, int(dim%200)+1, 1)
		if err != nil {
			t.Fatal(err)
		}
		n := len(b) / (c.RowBytes() + 1)
		rows, rest := b[:n*c.RowBytes()], b[n*c.RowBytes():]
		factors := make([]code.Factor, n)
		for i := range factors {
			factors[i] = code.Factor{Scale: float32(rest[i]), Norm: float32(rest[n-1-i])}
		}
		out := make([]float32, n)
		for i := range n {
			c.QueryOf(rows[i*c.RowBytes():][:c.RowBytes()], factors[i]).Distances(rows, factors, out)
			c.Unpack(make([]float32, c.Dim()), rows[i*c.RowBytes():][:c.RowBytes()])
			for _, d := range out {
				if d < 0 || d != d && c.Kind() != code.Float32 {
					t.Fatalf("a distance of %v", d)
				}
			}
		}
	})
}

package graph_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector/graph"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/code"
)

// data are vectors with their positions, and queries of the same distribution.
type data struct {
	metric    vec.Metric
	dim       int
	positions []uint32
	rows      []float32
	queries   [][]float32
	sorted    map[*float32][]graph.Hit // all rows by their distance from a query
}

// mixture draws vectors around some centres, in a space of few dimensions that is turned into one of dim, with noise.
func mixture(seed uint64, metric vec.Metric, n, dim, queries int) *data {
	return clusters(seed, metric, n, dim, queries, 1+n/200, min(dim, 24))
}

func clusters(seed uint64, metric vec.Metric, n, dim, queries, of, latent int) *data {
	rng := rand.New(rand.NewPCG(seed, 99))
	centres := make([][]float32, of)
	for i := range centres {
		centres[i] = normal(rng, latent, 1)
	}
	turn := normal(rng, latent*dim, 1/math.Sqrt(float64(latent)))
	draw := func() []float32 {
		c := centres[int(float64(len(centres))*rng.Float64()*rng.Float64())]
		at := normal(rng, latent, 0.5)
		for i := range at {
			at[i] += c[i]
		}
		v := normal(rng, dim, 0.1)
		for l, a := range at {
			for i := range v {
				v[i] += a * turn[l*dim+i]
			}
		}
		return v
	}
	d := &data{metric: metric, dim: dim}
	for i := range n {
		d.positions = append(d.positions, uint32(i))
		d.rows = append(d.rows, draw()...)
	}
	for range queries {
		d.queries = append(d.queries, draw())
	}
	return d
}

func normal(rng *rand.Rand, n int, scale float64) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64() * scale)
	}
	return v
}

func (d *data) row(i int) []float32 { return d.rows[i*d.dim:][:d.dim] }

// distance is what a hit's distance should be.
func (d *data) distance(query []float32, i int) float64 {
	if d.metric == vec.MetricL2 {
		x := d.metric.Distance(query, d.row(i))
		return x * x
	}
	return d.metric.Distance(query, d.row(i))
}

// truth is the k nearest of the allowed rows, by comparing with all.
func (d *data) truth(query []float32, k int, allowed []uint64) []graph.Hit {
	if d.sorted == nil {
		d.sorted = map[*float32][]graph.Hit{}
	}
	all, ok := d.sorted[&query[0]]
	if !ok {
		for i, pos := range d.positions {
			all = append(all, graph.Hit{Pos: pos, Distance: float32(d.distance(query, i))})
		}
		slices.SortFunc(all, func(a, b graph.Hit) int {
			return cmp.Or(compare(a.Distance, b.Distance), cmp.Compare(a.Pos, b.Pos))
		})
		d.sorted[&query[0]] = all
	}
	var out []graph.Hit
	for _, h := range all {
		if len(out) == k {
			break
		}
		if allowed == nil || has(allowed, h.Pos) {
			out = append(out, h)
		}
	}
	return out
}

// compare puts NaN last.
func compare(a, b float32) int {
	switch {
	case a != a && b != b:
		return 0
	case a != a:
		return 1
	case b != b:
		return -1
	}
	return cmp.Compare(a, b)
}

func has(set []uint64, pos uint32) bool {
	return int(pos/64) < len(set) && set[pos/64]>>(pos%64)&1 != 0
}

func (d *data) options(o graph.Options) graph.Options {
	o.Metric, o.Dim = d.metric, d.dim
	return o
}

func (d *data) write(t testing.TB, o graph.Options) ([]byte, graph.Stats) {
	t.Helper()
	ctx := context.Background()
	b, err := graph.NewBuilder(d.options(o))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for at := 0; at < len(d.positions); at += 700 {
		n := min(700, len(d.positions)-at)
		if err := b.Add(ctx, d.positions[at:at+n], d.rows[at*d.dim:(at+n)*d.dim]); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	w := section.NewWriter(&out)
	stats, err := b.Finish(ctx, w)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), stats
}

func open(b []byte) (*graph.Index, error) {
	ctx := context.Background()
	f, err := section.Open(ctx, section.Memory(b), int64(len(b)))
	if err != nil {
		return nil, err
	}
	return graph.Open(ctx, f)
}

func (d *data) build(t testing.TB, o graph.Options) *graph.Index {
	t.Helper()
	b, _ := d.write(t, o)
	x, err := open(b)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// recall searches for every query and checks what must hold of hits; the result is the share of the true k nearest that
// were found, those as near as the k-th counted as right.
func (d *data) recall(t testing.TB, x *graph.Index, p graph.Params) (float64, graph.Work) {
	t.Helper()
	var sum graph.Work
	found, all := 0, 0
	at := map[uint32]int{}
	for i, pos := range d.positions {
		at[pos] = i
	}
	for _, q := range d.queries {
		hits, work, err := x.Search(context.Background(), q, p)
		if err != nil {
			t.Fatal(err)
		}
		sum.Distances += work.Distances
		sum.Hops += work.Hops
		sum.Reranked += work.Reranked
		sum.Strategy = work.Strategy
		want := d.truth(q, p.K, p.Allowed)
		if len(hits) != len(want) {
			t.Fatalf("%d hits, want %d", len(hits), len(want))
		}
		seen := map[uint32]bool{}
		right := 0
		for i, h := range hits {
			row, ok := at[h.Pos]
			if !ok || seen[h.Pos] || p.Allowed != nil && !has(p.Allowed, h.Pos) {
				t.Fatalf("hit %d is row %d, which it may not be", i, h.Pos)
			}
			seen[h.Pos] = true
			if i > 0 && (compare(h.Distance, hits[i-1].Distance) < 0 || h.Distance == hits[i-1].Distance && h.Pos < hits[i-1].Pos) {
				t.Fatalf("hits do not ascend: %v", hits)
			}
			exact := d.distance(q, row)
			if x.Floats() && math.Abs(float64(h.Distance)-exact) > 1e-4*math.Max(1, math.Abs(exact)) {
				t.Fatalf("row %d is at %v, want %v", h.Pos, h.Distance, exact)
			}
			last := float64(want[len(want)-1].Distance)
			if exact <= last+1e-5*math.Max(1, math.Abs(last)) || last != last {
				right++
			}
		}
		found += right
		all += len(want)
	}
	if all == 0 {
		return 1, sum
	}
	return float64(found) / float64(all), sum
}

// TestRecall searches with default parameters, over each metric, code and some dimensions.
func TestRecall(t *testing.T) {
	for _, c := range []struct {
		metric vec.Metric
		kind   code.Kind
		dim, n int
		floor  float64
	}{
		{vec.MetricL2, code.Float32, 1, 4000, 0.99},
		{vec.MetricL2, code.Float32, 3, 4000, 0.98},
		{vec.MetricL2, code.Float32, 100, 4000, 0.97},
		{vec.MetricL2, code.TQ8, 3, 4000, 0.97},
		{vec.MetricL2, code.TQ8, 128, 4000, 0.97},
		{vec.MetricL2, code.TQ4, 100, 4000, 0.97},
		{vec.MetricDot, code.Float32, 3, 4000, 0.95},
		{vec.MetricDot, code.Float32, 100, 4000, 0.95},
		{vec.MetricDot, code.TQ8, 128, 4000, 0.95},
		{vec.MetricDot, code.TQ4, 128, 4000, 0.95},
		{vec.MetricDot, code.TQ8, 300, 3000, 0.95},
		{vec.MetricCosine, code.Float32, 128, 4000, 0.97},
		{vec.MetricCosine, code.TQ8, 100, 4000, 0.97},
		{vec.MetricCosine, code.TQ4, 128, 4000, 0.97},
		{vec.MetricCosine, code.TQ8, 768, 3000, 0.97},
		{vec.MetricCosine, code.TQ4, 768, 3000, 0.97},
		{vec.MetricL1, code.Float32, 3, 4000, 0.97},
		{vec.MetricL1, code.Float32, 100, 4000, 0.97},
	} {
		t.Run(fmt.Sprintf("%s/%s/%d", c.metric, c.kind, c.dim), func(t *testing.T) {
			t.Parallel()
			d := mixture(1, c.metric, c.n, c.dim, 50)
			x := d.build(t, graph.Options{Code: c.kind, Floats: true, Seed: 1, Workers: 1, EfConstruction: 80})
			got, work := d.recall(t, x, graph.Params{K: 10})
			t.Logf("recall %.3f, %d distances a query, %+v", got, work.Distances/50, x.Calibration())
			if got < c.floor || work.Strategy != graph.StrategyGraph {
				t.Errorf("recall %v by %q, want %v by a walk", got, work.Strategy, c.floor)
			}
			if got, work := d.recall(t, x, graph.Params{K: 10, Exact: true}); got != 1 || work.Distances < int64(49*c.n) { // of one dimension, some are equal
				t.Errorf("comparing with all %d rows has a recall of %v, after %d distances", c.n, got, work.Distances/50)
			}
		})
	}
}

// TestProducts has rows whose lengths are alike or differ much, in few dimensions or in more: neither way to choose links for
// inner products would do for all of them.
func TestProducts(t *testing.T) {
	for _, c := range []struct {
		dim, latent, of int
		kind            code.Kind
		spread          float64 // of the logarithm of lengths
		ef              int     // a pool that must be enough for 0.99; 0: walks are not judged
	}{
		{3, 3, 30, code.Float32, 0, 64}, {24, 24, 30, code.TQ4, 0, 128}, {64, 40, 30, code.Float32, 0, 96}, {256, 40, 30, code.TQ8, 0, 80},
		{64, 40, 5000, code.Float32, 0, 80}, {64, 40, 30, code.Float32, 0.8, 0},
	} {
		d := clusters(14, vec.MetricDot, 5000, c.dim, 20, c.of, c.latent)
		rng := rand.New(rand.NewPCG(1, 1))
		half := make([]uint64, 5000/64+1)
		for i := range d.positions {
			scale := float32(math.Exp(c.spread * rng.NormFloat64()))
			for k := range d.row(i) {
				d.row(i)[k] *= scale
			}
			half[i/64] |= rng.Uint64() & 1 << (i % 64)
		}
		x := d.build(t, graph.Options{Code: c.kind, Floats: true, Seed: 1, Workers: 1, EfConstruction: 80})
		if cal := x.Calibration(); c.ef > 0 && (cal.Ef99 > c.ef || cal.Recall99 < 0.99) {
			t.Errorf("%+v: %+v", c, cal)
		}
		for _, k := range []int{10, 100} {
			for _, allowed := range [][]uint64{nil, half} {
				got, work := d.recall(t, x, graph.Params{K: k, Allowed: allowed})
				t.Logf("%+v: recall of %d is %.3f by %s, %+v", c, k, got, work.Strategy, x.Calibration())
				if got < 0.95 {
					t.Errorf("%+v: recall of %d is %v by %s", c, k, got, work.Strategy)
				}
				if c.ef == 0 {
					continue
				}
				got, work = d.recall(t, x.Force(graph.StrategyGraph), graph.Params{K: k, Ef: 200, Allowed: allowed})
				t.Logf("%+v: walks have a recall of %d of %.3f with %d distances", c, k, got, work.Distances/20)
				if got < 0.97 {
					t.Errorf("%+v: walks have a recall of %d of %v", c, k, got)
				}
			}
		}
	}
}

// TestCodesAlone has no floats to measure again by: callers ask for more hits and do it themselves.
func TestCodesAlone(t *testing.T) {
	for _, c := range []struct {
		kind code.Kind
		dim  int
	}{{code.TQ8, 64}, {code.TQ4, 64}, {code.TQ8, 256}, {code.TQ4, 256}} {
		d := mixture(2, vec.MetricCosine, 3000, c.dim, 40)
		x := d.build(t, graph.Options{Code: c.kind, Seed: 1, Workers: 1, EfConstruction: 64})
		if x.Floats() {
			t.Fatal("floats were kept")
		}
		found := 0
		for _, q := range d.queries {
			hits, work, err := x.Search(context.Background(), q, graph.Params{K: 30})
			if err != nil || work.Reranked != 0 || len(hits) != 30 {
				t.Fatal(len(hits), work, err)
			}
			for _, want := range d.truth(q, 10, nil) {
				if slices.ContainsFunc(hits, func(h graph.Hit) bool { return h.Pos == want.Pos }) {
					found++
				}
			}
		}
		if got := float64(found) / float64(10*len(d.queries)); got < 0.97 {
			t.Errorf("%s, %d: of the nearest ten %v are among thirty hits", c.kind, c.dim, got)
		}
		if _, _, err := x.Search(context.Background(), d.queries[0], graph.Params{K: 1, Rerank: 5}); !errs.Is(err, errs.Invalid) {
			t.Errorf("reranking without floats: %v", err)
		}
	}
}

// TestSizes builds graphs of few rows, with k beyond them.
func TestSizes(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 5, 10, 17, 33, 100, 500, 2000} {
		for _, m := range []int{2, 16} {
			for _, kind := range []code.Kind{code.Float32, code.TQ4} {
				d := mixture(uint64(n), vec.MetricL2, n, 6, 5)
				x := d.build(t, graph.Options{M: m, EfConstruction: 40, Code: kind, Floats: true, Seed: 5, Workers: 1})
				for _, k := range []int{1, 10, n + 7} {
					for _, ef := range []int{0, 1, 5000} {
						if got, _ := d.recall(t, x, graph.Params{K: k, Ef: ef}); n > 0 && got < 1 {
							t.Errorf("%d rows, m %d, %s: recall of %d is %v", n, m, kind, k, got)
						}
					}
				}
				if n > 0 && x.Rows() != int64(n) {
					t.Errorf("%d rows, want %d", x.Rows(), n)
				}
			}
		}
	}
}

// TestEqualVectors holds vectors in many copies, up to nothing else, and zeros: hits are as many as asked for, and the right
// ones.
func TestEqualVectors(t *testing.T) {
	for _, metric := range []vec.Metric{vec.MetricL2, vec.MetricDot, vec.MetricCosine} {
		for _, kind := range []code.Kind{code.Float32, code.TQ8} {
			for _, distinct := range []int{1, 2, 30, 3000} {
				d := mixture(3, metric, 5000, 8, 10)
				for i := range d.positions {
					copy(d.row(i), d.row(i%distinct))
					d.positions[i] = uint32(3*i + 1)
				}
				for i := 0; i < 100; i++ {
					clear(d.row(7 * i))
				}
				d.queries = append(d.queries, make([]float32, 8), slices.Clone(d.row(1)))
				x := d.build(t, graph.Options{Code: kind, Floats: true, Seed: 5, Workers: 1, EfConstruction: 40})
				some := make([]uint64, 3*5000/64+1)
				for i := range some {
					some[i] = 0x5555555555555555
				}
				for _, k := range []int{1, 10, 400} {
					for _, allowed := range [][]uint64{nil, some} {
						if got, work := d.recall(t, x, graph.Params{K: k, Allowed: allowed}); got < 0.97 {
							t.Errorf("%s, %s, %d different vectors: recall of %d is %v by %s", metric, kind, distinct, k, got, work.Strategy)
						}
					}
				}
				if got, _ := d.recall(t, x, graph.Params{K: 6000}); got != 1 {
					t.Errorf("%s, %s, %d different vectors: not all rows were found", metric, kind, distinct)
				}
			}
		}
	}
}

// filters are sets of rows of a share, drawn at random or those farthest from some query.
func (d *data) filters(rng *rand.Rand, share float64) map[string][]uint64 {
	n := len(d.positions)
	last := slices.Max(d.positions)
	random, far := make([]uint64, last/64+1), make([]uint64, last/64+1)
	for _, pos := range d.positions {
		if rng.Float64() < share {
			random[pos/64] |= 1 << (pos % 64)
		}
	}
	byDistance := d.truth(d.queries[0], n, nil)
	for _, h := range byDistance[n-int(share*float64(n)):] {
		far[h.Pos/64] |= 1 << (h.Pos % 64)
	}
	return map[string][]uint64{"random": random, "far": far}
}

func TestFilters(t *testing.T) {
	for _, c := range []struct {
		metric vec.Metric
		kind   code.Kind
	}{{vec.MetricL2, code.Float32}, {vec.MetricCosine, code.TQ8}, {vec.MetricDot, code.TQ4}} {
		rng := rand.New(rand.NewPCG(7, 8))
		d := mixture(4, c.metric, 12000, 24, 25)
		for i := range d.positions {
			d.positions[i] = uint32(2*i + i%2) // with gaps
		}
		x := d.build(t, graph.Options{Code: c.kind, Floats: true, Seed: 1, Workers: 1, EfConstruction: 80})
		for _, share := range []float64{0.9, 0.5, 0.1, 0.03, 0.01, 0.001, 0.0001} {
			for name, allowed := range d.filters(rng, share) {
				for _, k := range []int{10, 100} {
					got, work := d.recall(t, x, graph.Params{K: k, Allowed: allowed})
					t.Logf("%s, %s, %v %s: recall of %d is %.3f by %s, %d distances", c.metric, c.kind, share, name, k, got, work.Strategy, work.Distances/25)
					if got < 0.99 {
						t.Errorf("%s, %s, %v %s: recall of %d is %v by %s", c.metric, c.kind, share, name, k, got, work.Strategy)
					}
					// The ways that would not be chosen for so few rows find what they find, and never too few.
					for _, way := range []string{graph.StrategyGraph, graph.StrategyTwoHop} {
						x := x.Force(way)
						if got, work := d.recall(t, x, graph.Params{K: k, Allowed: allowed}); got < 0.9 {
							t.Errorf("%s, %s, %v %s: recall of %d is %v by %s", c.metric, c.kind, share, name, k, got, work.Strategy)
						}
					}
				}
			}
		}
	}
}

// TestRange compares what is found within a distance with all that is.
func TestRange(t *testing.T) {
	for _, c := range []struct {
		metric vec.Metric
		kind   code.Kind
	}{{vec.MetricL2, code.Float32}, {vec.MetricCosine, code.TQ8}, {vec.MetricDot, code.Float32}} {
		d := mixture(5, c.metric, 5000, 16, 20)
		x := d.build(t, graph.Options{Code: c.kind, Floats: true, Seed: 1, Workers: 1, EfConstruction: 80})
		even := make([]uint64, 5000/64+1)
		for i := range even {
			even[i] = 0x5555555555555555
		}
		for _, allowed := range [][]uint64{nil, even} {
			for _, n := range []int{1, 50, 600} {
				found, all := 0, 0
				for _, q := range d.queries {
					truth := d.truth(q, n+1, allowed)
					p := graph.Params{Within: (truth[n-1].Distance + truth[n].Distance) / 2, Allowed: allowed}
					hits, work, err := x.Search(context.Background(), q, p)
					if err != nil || work.Distances == 0 {
						t.Fatal(work, err)
					}
					for i, h := range hits {
						if h.Distance >= p.Within || i > 0 && h.Distance < hits[i-1].Distance || allowed != nil && !has(allowed, h.Pos) {
							t.Fatalf("hit %d is %v within %v", i, h, p.Within)
						}
					}
					found += len(hits)
					all += n
					p.K = 7
					few, _, err := x.Search(context.Background(), q, p)
					if err != nil || len(few) != min(7, len(hits)) || n == 1 && len(few) > 0 && few[0] != hits[0] {
						t.Fatalf("of %d hits, seven are %d: %v", len(hits), len(few), err)
					}
				}
				if got := float64(found) / float64(all); got < 0.97 || got > 1.01 {
					t.Errorf("%s, %s: of %d rows within a distance %v were found", c.metric, c.kind, n, got)
				}
			}
		}
		if hits, _, err := x.Search(context.Background(), d.queries[0], graph.Params{Within: -1e9}); err != nil || len(hits) > 0 {
			t.Errorf("within nothing: %v, %v", hits, err)
		}
	}
}

// TestHugeVectors has distances that are infinite, or no number: hits are still as many as there are rows.
func TestHugeVectors(t *testing.T) {
	for _, metric := range []vec.Metric{vec.MetricL2, vec.MetricDot, vec.MetricCosine, vec.MetricL1} {
		for _, kind := range []code.Kind{code.Float32, code.TQ8} {
			if metric == vec.MetricL1 && kind != code.Float32 {
				continue
			}
			for _, dim := range []int{4, 256} {
				d := mixture(12, metric, 400, dim, 2)
				for i := range d.rows {
					if i%3 > 0 {
						d.rows[i] *= 1e38 / 2
					} else {
						d.rows[i] *= 1e-38
					}
				}
				x := d.build(t, graph.Options{Code: kind, Floats: true, EfConstruction: 40})
				for _, way := range []string{"", graph.StrategyGraph, graph.StrategyTwoHop} {
					for _, q := range d.queries {
						hits, _, err := x.Force(way).Search(context.Background(), q, graph.Params{K: 400})
						if err != nil || len(hits) != 400 {
							t.Errorf("%s, %s, %d, %q: %d hits, %v", metric, kind, dim, way, len(hits), err)
						}
					}
				}
			}
		}
	}
}

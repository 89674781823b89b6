package graph_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/overlakedb/overlake/internal/index/vector/graph"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/code"
)

type memory []byte

func (m memory) ReadAtContext(_ context.Context, p []byte, off int64) (int, error) {
	if off < 0 || off > int64(len(m)) {
		return 0, io.EOF
	}
	n := copy(p, m[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// data are vectors with their positions, and queries of the same distribution.
type data struct {
	metric    vec.Metric
	dim       int
	positions []uint32
	rows      []float32
	queries   [][]float32
}

// mixture draws vectors around some centres, in a space of few dimensions that is turned into one of dim, with noise.
func mixture(seed uint64, metric vec.Metric, n, dim, queries int) *data {
	rng := rand.New(rand.NewPCG(seed, 99))
	latent := min(dim, 24)
	centres := make([][]float32, 1+n/200)
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
	var all []graph.Hit
	for i, pos := range d.positions {
		if allowed == nil || has(allowed, pos) {
			all = append(all, graph.Hit{Pos: pos, Distance: float32(d.distance(query, i))})
		}
	}
	slices.SortFunc(all, func(a, b graph.Hit) int {
		return cmp.Or(compare(a.Distance, b.Distance), cmp.Compare(a.Pos, b.Pos))
	})
	return all[:min(k, len(all))]
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
	f, err := section.Open(ctx, memory(b), int64(len(b)))
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
			if exact <= last+1e-5*math.Max(1, math.Abs(last)) || exact != exact {
				right++
			}
		}
		found += right
		all += len(want)
	}
	return float64(found) / float64(max(all, 1)), sum
}

func TestSmoke(t *testing.T) {
	for _, m := range []vec.Metric{vec.MetricL2, vec.MetricDot, vec.MetricCosine, vec.MetricL1} {
		d := mixture(1, m, 6000, 32, 50)
		x := d.build(t, graph.Options{Seed: 1})
		r, w := d.recall(t, x, graph.Params{K: 10})
		fmt.Println(m, r, w, x.Calibration(), x.Memory())
	}
}

var _ = code.Float32

package lists

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/code"
)

// TestLean: where lengths differ, lists of a large radius are looked into earlier, and more of the largest inner products are
// found at the same cost. Distances have no lean.
func TestLean(t *testing.T) {
	const dim, n, queries, probes = 24, 8000, 1200, 8
	for _, metric := range []vec.Metric{vec.MetricDot, vec.MetricL2} {
		rng := rand.New(rand.NewPCG(21, 22))
		var centres [80][dim]float64
		for c := range centres {
			for i := range centres[c] {
				centres[c][i] = rng.NormFloat64()
			}
		}
		row := func() []float32 {
			r, c := make([]float32, dim), rng.IntN(len(centres))
			for i := range r {
				r[i] = float32(centres[c][i] + float64(1+c%4)*0.4*rng.NormFloat64())
			}
			return r
		}
		rows, positions := make([]float32, 0, n*dim), make([]uint32, n)
		for i := range positions {
			rows, positions[i] = append(rows, row()...), uint32(i)
		}
		b, err := NewBuilder(Options{Metric: metric, Dim: dim, Code: code.TQ4, Rerank: code.Float32, Lists: 64, Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		w := section.NewWriter(&out)
		if err := b.Add(t.Context(), positions, rows); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Finish(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		size, err := w.Close()
		if err != nil {
			t.Fatal(err)
		}
		f, err := section.Open(t.Context(), section.Memory(out.Bytes()), size)
		if err != nil {
			t.Fatal(err)
		}
		x, err := Open(t.Context(), f, OpenOptions{Resident: true})
		if err != nil {
			t.Fatal(err)
		}
		if metric == vec.MetricL2 {
			if x.p.lean != 0 || x.lean != nil {
				t.Errorf("lists lean by %v for distances", x.p.lean)
			}
			continue
		}
		lean := x.lean
		found := [2]int{}
		for range queries {
			q := row()
			exact, _, err := x.Search(t.Context(), q, Params{K: 10, Exact: true})
			if err != nil {
				t.Fatal(err)
			}
			for i, with := range [2][]float32{nil, lean} {
				x.lean = with
				hits, _, err := x.Search(t.Context(), q, Params{K: 10, Probes: probes, Rerank: 40})
				if err != nil {
					t.Fatal(err)
				}
				for _, h := range hits {
					if slices.ContainsFunc(exact, func(e Hit) bool { return e.Pos == h.Pos }) {
						found[i]++
					}
				}
			}
		}
		t.Logf("lean %v: %d of %d found, %d without", x.p.lean, found[1], 10*queries, found[0])
		if missed := 10*queries - found[1]; !(x.p.lean > 0) || float64(missed) > 0.95*float64(10*queries-found[0]) {
			t.Errorf("lean %v: %d of %d found, %d without", x.p.lean, found[1], 10*queries, found[0])
		}
	}
	p := &params{metric: vec.MetricDot, code: code.TQ4, dim: 1, mean: []float32{0}}
	for _, bad := range []float32{-0.1, 1.1, float32(math.NaN()), inf} {
		p.lean = bad
		if _, err := decodeParams(p.encode()); !errs.Is(err, errs.Corrupt) {
			t.Errorf("a lean of %v: %v", bad, err)
		}
	}
}

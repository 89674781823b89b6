package lists_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/overlakedb/overlake/internal/index/vector/lists"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/code"
	"github.com/overlakedb/overlake/internal/vec/kernel"
)

// TestFilters: filters of every share of the rows, drawn by chance and by where rows lie.
func TestFilters(t *testing.T) {
	const dim, n = 64, 20000
	g := newClusters(4, dim, 80)
	of := dense(dim, g.draw(n))
	queries := g.draw(25)
	rng := rand.New(rand.NewPCG(5, 6))
	const cells = 50 // of the rows nearest to some row each
	half, cell := make([]float32, cells), make([]uint32, n)
	for i := range half {
		half[i] = vec.Dot(of.row(i), of.row(i)) / 2
	}
	kernel.Nearest(dim, of.rows, of.rows[:cells*dim], half, cell, make([]float32, n))
	for _, rerank := range []code.Kind{code.TQ8, code.Float32} {
		o := lists.Default(vec.MetricL2, dim)
		o.Rerank = rerank
		o.Lists = 128
		artifact, _ := build(t, o, of)
		x, cold := open(t, artifact, true), open(t, artifact, false)
		strategies := map[string]int{}
		for _, share := range []float64{0.0005, 0.001, 0.01, 0.1, 0.2, 0.5, 0.9} {
			for _, kind := range []string{"chance", "cells", "near", "far"} {
				found, all, farther := 0, 0, 0.0
				for i := 0; i < len(queries); i += dim {
					q := queries[i:][:dim]
					allowed := make([]uint64, (n+63)/64)
					switch kind {
					case "chance":
						for pos := range n {
							if rng.Float64() < share {
								allowed[pos>>6] |= 1 << (pos & 63)
							}
						}
					case "cells":
						var in [cells]bool
						in[rng.IntN(cells)] = true
						for c := range in {
							in[c] = in[c] || rng.Float64() < share
						}
						for pos, c := range cell {
							if in[c] {
								allowed[pos>>6] |= 1 << (pos & 63)
							}
						}
					default: // the rows nearest to some row, or farthest from the query
						from := of.row(rng.IntN(n))
						if kind == "far" {
							from = q
						}
						hits := flat(of, vec.MetricL2, from, 0, nil)
						if kind == "far" {
							slices.Reverse(hits)
						}
						for _, h := range hits[:int(share*n)] {
							allowed[h.Pos>>6] |= 1 << (h.Pos & 63)
						}
					}
					want := flat(of, vec.MetricL2, q, 10, allowed)
					hits, work := search(t, x, q, lists.Params{K: 10, Allowed: allowed})
					sound(t, kind, hits, of, 10, allowed)
					found += overlap(hits, want, of, vec.MetricL2, q)
					all += len(want)
					for i, h := range hits {
						farther += math.Sqrt(float64(distance(vec.MetricL2, q, of.row(int(h.Pos)))/want[i].Distance)) - 1
					}
					strategies[work.Strategy]++
					again, _ := search(t, cold, q, lists.Params{K: 10, Allowed: allowed})
					if !same(again, hits, 1e-3) {
						t.Fatalf("%s, %v: read by range %v, not %v", kind, share, again, hits)
					}
				}
				recall := float64(found) / float64(all)
				t.Logf("%s, %s, %v: recall %.3f, farther by %.5f", rerank, kind, share, recall, farther/float64(all))
				// Far away rows are about equally far, so that rounded distances tell little: hits must be as near as the true ones.
				least := 0.99
				switch {
				case rerank == code.TQ8 && kind == "far":
					least = 0
				case rerank == code.TQ8: // all rows compared find no more than 0.992 to 0.998
					least = 0.98
				}
				if recall < least || farther/float64(all) > 0.002 {
					t.Errorf("%s, %s, %v: recall %.3f, farther by %.5f", rerank, kind, share, recall, farther/float64(all))
				}
			}
		}
		if strategies["exact"] == 0 || strategies["masked"] == 0 {
			t.Errorf("strategies %v", strategies)
		}
	}
}

// TestGaps: filters of an index whose positions are few among many, and counts of allowed rows that are wrong.
func TestGaps(t *testing.T) {
	const dim, n = 16, 4000
	g := newClusters(16, dim, 30)
	of := dense(dim, g.draw(n))
	for i := range of.positions {
		of.positions[i] = uint32(i*5 + 3)
	}
	o := lists.Default(vec.MetricL2, dim)
	o.Rerank = code.Float32
	artifact, _ := build(t, o, of)
	for _, resident := range []bool{true, false} {
		x := open(t, artifact, resident)
		for _, share := range []float64{0.001, 0.05, 0.5, 1} {
			allowed := make([]uint64, n*5/64+9)
			for i := range allowed {
				for b := range 64 {
					if g.rng.Float64() < share {
						allowed[i] |= 1 << b
					}
				}
			}
			q := g.draw(1)
			want := flat(of, vec.MetricL2, q, 20, allowed)
			for _, count := range []int64{0, 1, n, 1 << 40} {
				hits, _ := search(t, x, q, lists.Params{K: 20, Allowed: allowed, AllowedCount: count})
				sound(t, "gaps", hits, of, 20, allowed)
				if n := overlap(hits, want, of, vec.MetricL2, q); n < len(want)-1 {
					t.Errorf("%v of the rows, said to be %d: %d of %d neighbours", share, count, n, len(want))
				}
			}
		}
		hits, _ := search(t, x, g.draw(1), lists.Params{K: 3, Allowed: []uint64{1 << 4, 1 << 9}})
		if len(hits) != 1 || hits[0].Pos != 73 {
			t.Errorf("positions 4 and 73 are allowed: %v", hits)
		}
	}
}

// TestWithin: all rows at less than a distance.
func TestWithin(t *testing.T) {
	const dim, n = 48, 4000
	for _, metric := range []vec.Metric{vec.MetricL2, vec.MetricDot, vec.MetricCosine, vec.MetricL1} {
		g := newClusters(7, dim, 40)
		of := dense(dim, g.draw(n))
		queries := g.draw(10)
		for name, o := range forms(metric, dim) {
			if name == "bit" || name == "bit+4" || metric != vec.MetricL2 && name != "bit+byte" && name != "4+float" && name != "float" {
				continue // borders are too blurred, or nothing else happens than for L2
			}
			artifact, _ := build(t, o, of)
			x := open(t, artifact, true)
			for _, share := range []int{5, 300} {
				found, wrong, all := 0, 0, 0
				for i := 0; i < len(queries); i += dim {
					q := queries[i:][:dim]
					truth := flat(of, metric, q, 0, nil)
					bound := (truth[share-1].Distance + truth[share].Distance) / 2
					hits, work := search(t, x, q, lists.Params{Within: bound})
					if work.Strategy != "range" {
						t.Fatalf("%+v", work)
					}
					in := map[uint32]bool{}
					for _, h := range truth[:share] {
						in[h.Pos] = true
					}
					for _, h := range hits {
						if h.Distance >= bound {
							t.Fatalf("%s, %s: %v within %v", metric, name, h, bound)
						}
						if in[h.Pos] {
							found++
						} else {
							wrong++
						}
					}
					all += share
					some, _ := search(t, x, q, lists.Params{K: 3, Within: bound})
					if len(hits) >= 3 && !same(some, hits[:3], 1e-4) {
						t.Fatalf("%s, %s: the first 3 within are %v, want %v", metric, name, some, hits[:3])
					}
					exact, _ := search(t, x, q, lists.Params{Within: bound, Exact: true})
					if x.Exact() && !same(exact, truth[:share], 1e-4) {
						t.Fatalf("%s, %s: %d exactly within, want %d", metric, name, len(exact), share)
					}
				}
				if x.Exact() && wrong > all/100 {
					t.Errorf("%s, %s: %d of %d rows are not within", metric, name, wrong, all)
				}
				if recall := float64(found) / float64(all); recall < 0.93 {
					t.Errorf("%s, %s, %d: recall %.3f", metric, name, share, recall)
				}
			}
		}
	}
}

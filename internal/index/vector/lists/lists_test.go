package lists_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector/lists"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/code"
)

// counted is an artifact in memory, which counts how it is read.
type counted struct {
	section.Memory
	reads *atomic.Int64
}

func (c counted) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	c.reads.Add(1)
	return c.Memory.ReadAtContext(ctx, p, off)
}

// table is rows at positions.
type table struct {
	dim       int
	rows      []float32
	positions []uint32
	places    map[uint32]int
}

// at is the row at a position, or -1.
func (t *table) at(pos uint32) int {
	if t.places == nil {
		t.places = map[uint32]int{}
		for i, p := range t.positions {
			t.places[p] = i
		}
	}
	if i, ok := t.places[pos]; ok {
		return i
	}
	return -1
}

func (t *table) row(i int) []float32 { return t.rows[i*t.dim:][:t.dim] }

// dense gives rows the positions from 0 on.
func dense(dim int, rows []float32) *table {
	t := &table{dim: dim, rows: rows}
	for i := range len(rows) / dim {
		t.positions = append(t.positions, uint32(i))
	}
	return t
}

// clusters draws from a mixture of normal distributions of few dimensions that matter, with noise in all.
type clusters struct {
	rng     *rand.Rand
	dim     int
	latent  int
	centres []float32
	basis   []float32
	shift   float32 // the mean of all elements
}

func newClusters(seed uint64, dim, n int) *clusters {
	g := &clusters{rng: rand.New(rand.NewPCG(seed, 1)), dim: dim, latent: min(dim, 40)}
	g.centres, g.basis = g.normal(n*g.latent), g.normal(g.latent*dim)
	return g
}

func (g *clusters) normal(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(g.rng.NormFloat64())
	}
	return x
}

func (g *clusters) draw(n int) []float32 {
	out := make([]float32, 0, n*g.dim)
	root := float32(1 / math.Sqrt(float64(g.latent)))
	many := len(g.centres) / g.latent
	for range n {
		k := int(float64(many) * math.Pow(g.rng.Float64(), 2))
		spread := 0.3 + 0.6*float32(k%7)/6
		x := make([]float32, g.dim)
		for l, c := range g.centres[k*g.latent:][:g.latent] {
			w := (c + spread*float32(g.rng.NormFloat64())) * root
			for i, b := range g.basis[l*g.dim:][:g.dim] {
				x[i] += w * b
			}
		}
		for i := range x {
			x[i] += 0.1*float32(g.rng.NormFloat64()) + g.shift
		}
		out = append(out, x...)
	}
	return out
}

func build(t testing.TB, o lists.Options, of *table) ([]byte, lists.Stats) {
	t.Helper()
	b, stats, err := tryBuild(t.Context(), o, of)
	if err != nil {
		t.Fatal(err)
	}
	return b, stats
}

func tryBuild(ctx context.Context, o lists.Options, of *table) ([]byte, lists.Stats, error) {
	b, err := lists.NewBuilder(o)
	if err != nil {
		return nil, lists.Stats{}, err
	}
	defer b.Close()
	for at := 0; at < len(of.positions); {
		n := min(1+at%700, len(of.positions)-at)
		if err := b.Add(ctx, of.positions[at:at+n], of.rows[at*of.dim:(at+n)*of.dim]); err != nil {
			return nil, lists.Stats{}, err
		}
		at += n
	}
	var out bytes.Buffer
	w := section.NewWriter(&out)
	stats, err := b.Finish(ctx, w)
	if err != nil {
		return nil, stats, err
	}
	if _, err := w.Close(); err != nil {
		return nil, stats, err
	}
	return out.Bytes(), stats, nil
}

func open(t testing.TB, artifact []byte, resident bool) *lists.Index {
	t.Helper()
	x, err := tryOpen(t.Context(), section.Memory(artifact), len(artifact), resident)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func tryOpen(ctx context.Context, src section.Source, size int, resident bool) (*lists.Index, error) {
	f, err := section.Open(ctx, src, int64(size))
	if err != nil {
		return nil, err
	}
	return lists.Open(ctx, f, lists.OpenOptions{Resident: resident})
}

// distance is that of a hit, from the vectors.
func distance(m vec.Metric, a, b []float32) float32 {
	switch m {
	case vec.MetricL2:
		return vec.SquaredL2(a, b)
	case vec.MetricCosine:
		if vec.Norm(a) == 0 || vec.Norm(b) == 0 {
			return 1
		}
	}
	return float32(m.Distance(a, b))
}

// flat is the twin: it compares the query with all allowed rows.
func flat(of *table, m vec.Metric, query []float32, k int, allowed []uint64) []lists.Hit {
	var hits []lists.Hit
	for i, pos := range of.positions {
		if allowed == nil || bit(allowed, pos) {
			hits = append(hits, lists.Hit{Pos: pos, Distance: distance(m, query, of.row(i))})
		}
	}
	slices.SortFunc(hits, func(a, b lists.Hit) int {
		if a.Distance != b.Distance {
			return cmp.Compare(a.Distance, b.Distance)
		}
		return cmp.Compare(a.Pos, b.Pos)
	})
	if k > 0 {
		hits = hits[:min(k, len(hits))]
	}
	return hits
}

func bit(set []uint64, pos uint32) bool {
	return int(pos>>6) < len(set) && set[pos>>6]>>(pos&63)&1 != 0
}

// same: the hits agree with the twin's in distance. Of rows that are equally far any will do.
func same(got, want []lists.Hit, tolerance float64) bool {
	return slices.EqualFunc(got, want, func(a, b lists.Hit) bool {
		return math.Abs(float64(a.Distance-b.Distance)) <= tolerance*(1+math.Abs(float64(b.Distance)))
	})
}

// overlap counts the wanted hits that were found, by position or as near as one of them.
func overlap(got, want []lists.Hit, of *table, m vec.Metric, query []float32) int {
	if len(want) == 0 {
		return 0
	}
	worst, n := want[len(want)-1].Distance, 0
	for _, h := range got {
		if distance(m, query, of.row(of.at(h.Pos))) <= worst {
			n++
		}
	}
	return min(n, len(want))
}

// sound checks what holds for every answer: positions of the table, each once, allowed ones only, in order, k of them.
func sound(t testing.TB, what string, hits []lists.Hit, of *table, k int, allowed []uint64) {
	t.Helper()
	possible := len(of.positions)
	if allowed != nil {
		possible = 0
		for _, pos := range of.positions {
			if bit(allowed, pos) {
				possible++
			}
		}
	}
	seen := map[uint32]bool{}
	if len(hits) != min(k, possible) {
		t.Fatalf("%s: %d hits of %d, %d rows are allowed", what, len(hits), k, possible)
	}
	for i, h := range hits {
		if seen[h.Pos] || of.at(h.Pos) < 0 || allowed != nil && !bit(allowed, h.Pos) {
			t.Fatalf("%s: position %d is a hit", what, h.Pos)
		}
		seen[h.Pos] = true
		if h.Distance != h.Distance {
			t.Fatalf("%s: a distance of NaN", what)
		}
		if i > 0 && (h.Distance < hits[i-1].Distance || h.Distance == hits[i-1].Distance && h.Pos < hits[i-1].Pos) {
			t.Fatalf("%s: hit %d is out of order: %v after %v", what, i, h, hits[i-1])
		}
	}
}

func search(t testing.TB, x *lists.Index, query []float32, p lists.Params) ([]lists.Hit, lists.Work) {
	t.Helper()
	hits, work, err := x.Search(t.Context(), query, p)
	if err != nil {
		t.Fatal(err)
	}
	return hits, work
}

// forms are the ways to keep rows.
func forms(metric vec.Metric, dim int) map[string]lists.Options {
	o := lists.Options{Metric: metric, Dim: dim, Seed: 1}
	with := func(scan, rerank code.Kind, none bool) lists.Options {
		o := o
		o.Code, o.Rerank, o.NoRerank = scan, rerank, none
		return o
	}
	if metric == vec.MetricL1 {
		return map[string]lists.Options{"float": o}
	}
	return map[string]lists.Options{
		"float":      o,
		"bit+byte":   with(code.Bit1, code.TQ8, false),
		"bit+float":  with(code.Bit1, code.Float32, false),
		"bit+4":      with(code.Bit1, code.TQ4, false),
		"bit":        with(code.Bit1, 0, true),
		"4+float":    with(code.TQ4, code.Float32, false),
		"4+byte":     with(code.TQ4, code.TQ8, false),
		"byte":       with(code.TQ8, 0, true),
		"byte+float": with(code.TQ8, code.Float32, false),
	}
}

// TestRecall compares with the twin: all metrics, all forms, resident and by range.
func TestRecall(t *testing.T) {
	const dim, n = 96, 5000
	least := map[string]float64{"bit": 0.55, "bit+4": 0.85, "byte": 0.93}
	for _, metric := range []vec.Metric{vec.MetricL2, vec.MetricDot, vec.MetricCosine, vec.MetricL1} {
		g := newClusters(uint64(metric), dim, 60)
		g.shift = 0.5
		of := dense(dim, g.draw(n))
		queries := g.draw(24)
		for name, o := range forms(metric, dim) {
			if metric != vec.MetricL2 && (name == "4+float" || name == "byte" || name == "bit+4") {
				continue // nothing else happens than for L2
			}
			artifact, stats := build(t, o, of)
			x, cold := open(t, artifact, true), open(t, artifact, false)
			if x.Rows() != n || x.Lists() != stats.Lists || x.Dim() != dim || x.Metric() != metric {
				t.Fatalf("%s, %s: %d rows in %d lists", metric, name, x.Rows(), x.Lists())
			}
			found, defaults, all, lists10 := 0, 0, 0, int64(0)
			for i := 0; i < len(queries); i += dim {
				q := queries[i:][:dim]
				want := flat(of, metric, q, 10, nil)
				hits, work := search(t, x, q, lists.Params{K: 10})
				sound(t, name, hits, of, 10, nil)
				defaults += overlap(hits, want, of, metric, q)
				lists10 += work.Lists
				again, _ := search(t, cold, q, lists.Params{K: 10})
				if !same(again, hits, 1e-4) {
					t.Fatalf("%s, %s: read by range it finds %v, not %v", metric, name, again, hits)
				}
				exact, work := search(t, x, q, lists.Params{K: 10, Exact: true})
				sound(t, name, exact, of, 10, nil)
				if work.Strategy != "exact" || work.Scanned+work.Reranked < n {
					t.Fatalf("%s, %s: %+v", metric, name, work)
				}
				if x.Exact() && !same(exact, want, 1e-4) {
					t.Fatalf("%s, %s: exactly %v, want %v", metric, name, exact, want)
				}
				found += overlap(exact, want, of, metric, q)
				all += 10
				again, _ = search(t, cold, q, lists.Params{K: 10, Exact: true})
				if !same(again, exact, 1e-4) {
					t.Fatalf("%s, %s: exactly, read by range, it finds %v, not %v", metric, name, again, exact)
				}
			}
			exact, recall := float64(found)/float64(all), float64(defaults)/float64(all)
			t.Logf("%s, %s: recall %.3f of %.3f possible, %.1f of %d lists, %d candidates", metric, name, recall, exact, float64(lists10)/24, x.Lists(), stats.Rerank)
			want := 0.97
			if l, ok := least[name]; ok {
				want = l
			}
			if exact < want || recall < min(want, 0.92) {
				t.Errorf("%s, %s: recall %.3f and exactly %.3f, want %.2f", metric, name, recall, exact, want)
			}
		}
	}
}

// TestShapes: few rows, equal rows, odd dimensions, more neighbours than rows, gaps between positions.
func TestShapes(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 3))
	for _, dim := range []int{1, 3, 768} {
		g := newClusters(9, dim, 5)
		for _, n := range []int{0, 1, 2, 65, 400} {
			if dim == 768 && n > 65 {
				continue
			}
			for _, shape := range []string{"drawn", "equal", "few", "zero", "gaps"} {
				of := dense(dim, g.draw(n))
				switch shape {
				case "equal":
					for i := range n {
						copy(of.row(i), of.row(0))
					}
				case "few":
					for i := range n {
						copy(of.row(i), of.row(i%3))
					}
				case "zero":
					clear(of.rows)
				case "gaps":
					pos := uint32(0)
					for i := range of.positions {
						pos += 1 + rng.Uint32N(9)
						of.positions[i] = pos
					}
					if n > 1 {
						of.positions[n-1] = math.MaxUint32
					}
				}
				query := g.draw(1)
				for _, metric := range []vec.Metric{vec.MetricL2, vec.MetricDot, vec.MetricCosine} {
					for name, o := range forms(metric, dim) {
						if (dim == 768 || metric != vec.MetricL2) && name != "bit+byte" && name != "4+float" {
							continue
						}
						what := fmt.Sprintf("dim %d, %d rows, %s, %s, %s", dim, n, shape, metric, name)
						o.Lists = n / 20
						artifact, stats := build(t, o, of)
						if stats.Rows != int64(n) {
							t.Fatalf("%s: %d rows", what, stats.Rows)
						}
						x := open(t, artifact, true)
						for _, k := range []int{1, 10, 2000} {
							hits, _ := search(t, x, query, lists.Params{K: k})
							sound(t, what, hits, of, k, nil)
							exact, _ := search(t, x, query, lists.Params{K: k, Exact: true})
							sound(t, what, exact, of, k, nil)
							if x.Exact() && !same(exact, flat(of, metric, query, k, nil), 1e-4) {
								t.Fatalf("%s: %v, want %v", what, exact, flat(of, metric, query, k, nil))
							}
							if k >= n && x.Exact() && !same(hits, exact, 1e-4) {
								t.Fatalf("%s: all rows are %v, want %v", what, hits, exact)
							}
						}
						some := make([]uint64, 1+n/70)
						for i := range some {
							some[i] = rng.Uint64()
						}
						hits, _ := search(t, open(t, artifact, false), query, lists.Params{K: 5, Allowed: some})
						sound(t, what, hits, of, 5, some)
					}
				}
			}
		}
	}
}

func TestInvalid(t *testing.T) {
	ctx := t.Context()
	for _, o := range []lists.Options{
		{}, {Dim: -1}, {Dim: 1 << 20}, {Dim: 3, Lists: -1}, {Dim: 3, Workers: -1}, {Dim: 3, Memory: 1},
	} {
		if _, err := lists.NewBuilder(o); !errs.Is(err, errs.Invalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, o := range []lists.Options{{Dim: 3, Metric: vec.MetricL1, Code: code.Bit1}, {Dim: 3, Code: 9}, {Dim: 3, Metric: 9}} {
		if _, err := lists.NewBuilder(o); !errs.Is(err, errs.Unsupported) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	b, err := lists.NewBuilder(lists.Default(vec.MetricL2, 2))
	if err != nil {
		t.Fatal(err)
	}
	nan := float32(math.NaN())
	for _, rows := range [][]float32{{1}, {1, nan}, {1, float32(math.Inf(1))}, {3e19, 0}} {
		if err := b.Add(ctx, []uint32{0}, rows); !errs.Is(err, errs.Invalid) {
			t.Errorf("rows %v: %v", rows, err)
		}
	}
	for _, positions := range [][]uint32{{5, 5}, {0, 1, 0}} {
		if _, _, err := tryBuild(ctx, lists.Default(vec.MetricL2, 1), &table{dim: 1, rows: make([]float32, len(positions)), positions: positions}); !errs.Is(err, errs.Invalid) {
			t.Errorf("positions %v: %v", positions, err)
		}
	}
	artifact, _ := build(t, lists.Default(vec.MetricL2, 2), dense(2, []float32{1, 2, 3, 4}))
	x := open(t, artifact, true)
	q := []float32{1, 1}
	for _, c := range []struct {
		q []float32
		p lists.Params
	}{
		{q, lists.Params{}}, {q, lists.Params{K: -1}}, {q, lists.Params{K: 1, Probes: -1}}, {q, lists.Params{K: 1, Rerank: -1}},
		{q, lists.Params{Within: nan}}, {q[:1], lists.Params{K: 1}}, {[]float32{nan, 0}, lists.Params{K: 1}},
		{[]float32{3e38, 0}, lists.Params{K: 1}}, {q, lists.Params{K: 1, AllowedCount: -1}},
	} {
		if _, _, err := x.Search(ctx, c.q, c.p); !errs.Is(err, errs.Invalid) {
			t.Errorf("%v, %+v: %v", c.q, c.p, err)
		}
	}
	if hits, _, err := x.Search(ctx, q, lists.Params{K: 1, Allowed: []uint64{}}); err != nil || len(hits) != 0 {
		t.Errorf("nothing is allowed: %v, %v", hits, err)
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if _, _, err := x.Search(canceled, q, lists.Params{K: 1}); !errs.Is(err, errs.Canceled) {
		t.Errorf("a search that was canceled: %v", err)
	}
}

// TestFar: rows so long that distances leave the range of floats are hits all the same.
func TestFar(t *testing.T) {
	rng := rand.New(rand.NewPCG(14, 15))
	of := dense(2, nil)
	for i := range 200 {
		of.rows = append(of.rows, float32(rng.NormFloat64())*3e18, float32(rng.NormFloat64())*3e18)
		of.positions = append(of.positions, uint32(i))
	}
	for _, metric := range []vec.Metric{vec.MetricL2, vec.MetricDot, vec.MetricCosine} {
		for name, o := range forms(metric, 2) {
			o.Lists = 5
			artifact, _ := build(t, o, of)
			for _, resident := range []bool{true, false} {
				x := open(t, artifact, resident)
				for _, q := range [][]float32{{1.7e19, -3e18}, {1e-20, 1e-20}, {0, 0}} {
					for _, p := range []lists.Params{{K: 7}, {K: 300}, {K: 7, Exact: true}, {K: 7, Allowed: []uint64{math.MaxUint64}}} {
						hits, _ := search(t, x, q, p)
						sound(t, name, hits, of, p.K, p.Allowed)
					}
				}
			}
		}
	}
}

// TestConcurrent: an index may be searched by many at once.
func TestConcurrent(t *testing.T) {
	g := newClusters(12, 24, 30)
	of := dense(24, g.draw(3000))
	queries := g.draw(20)
	for _, resident := range []bool{true, false} {
		artifact, _ := build(t, lists.Default(vec.MetricL2, 24), of)
		x := open(t, artifact, resident)
		allowed := make([]uint64, 47)
		for i := range allowed {
			allowed[i] = g.rng.Uint64()
		}
		params := []lists.Params{{K: 10}, {K: 5, Allowed: allowed}, {K: 2000, Exact: true}, {Within: 10}}
		answer := func(i int) []lists.Hit {
			hits, _, err := x.Search(t.Context(), queries[i%20*24:][:24], params[i%len(params)])
			if err != nil {
				t.Error(err)
			}
			return hits
		}
		want := make([][]lists.Hit, 20)
		for i := range want {
			want[i] = answer(i)
		}
		x = open(t, artifact, resident) // again, so that nothing is loaded yet
		var g errgroup.Group
		for range 4 {
			g.Go(func() error {
				for i := range 60 {
					if got := answer(i % 20); !slices.Equal(got, want[i%20]) {
						return fmt.Errorf("search %d gives %v, want %v", i%20, got, want[i%20])
					}
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// TestTuning: numbers rise with what is asked for, and stay in bounds.
func TestTuning(t *testing.T) {
	g := newClusters(13, 32, 60)
	of := dense(32, g.draw(8000))
	artifact, _ := build(t, lists.Default(vec.MetricL2, 32), of)
	x := open(t, artifact, true)
	for _, recall := range []float64{0.9, 0.95, 0.99} {
		before, least := 0, 0
		for _, k := range []int{1, 10, 30, 100, 1000, 8000, 1 << 30} {
			probes, rerank := x.Tuning(k, recall)
			if probes < max(before, 1) || probes > x.Lists() || rerank < max(least, min(k, 8000)) || rerank > 8000 {
				t.Errorf("%d neighbours at %v: %d probes, %d candidates", k, recall, probes, rerank)
			}
			before, least = probes, rerank
		}
	}
	a, b := x.Tuning(10, 0.95)
	c, d := x.Tuning(10, 0.99)
	if c < a || d < b {
		t.Errorf("0.95 takes %d and %d, 0.99 %d and %d", a, b, c, d)
	}
	queries := g.draw(40)
	for _, k := range []int{1, 10, 100} {
		found, all := 0, 0
		for i := 0; i < len(queries); i += 32 {
			q := queries[i:][:32]
			hits, _ := search(t, x, q, lists.Params{K: k})
			found += overlap(hits, flat(of, vec.MetricL2, q, k, nil), of, vec.MetricL2, q)
			all += k
		}
		if recall := float64(found) / float64(all); recall < 0.92 {
			t.Errorf("%d neighbours: recall %.3f", k, recall)
		}
	}
}

// TestRounds: a search of an index that is not in memory reads what it needs in two rounds, few ranges each.
func TestRounds(t *testing.T) {
	const dim = 64
	g := newClusters(8, dim, 60)
	of := dense(dim, g.draw(10000))
	artifact, _ := build(t, lists.Default(vec.MetricL2, dim), of)
	var reads atomic.Int64
	x, err := tryOpen(t.Context(), counted{artifact, &reads}, len(artifact), false)
	if err != nil {
		t.Fatal(err)
	}
	if n := reads.Load(); n > 5 {
		t.Errorf("%d reads to open", n)
	}
	for range 20 {
		reads.Store(0)
		_, work := search(t, x, g.draw(1), lists.Params{K: 10})
		if n := reads.Load(); n != work.Requests || n > work.Lists+work.Reranked || n == 0 {
			t.Errorf("%d reads, %+v", n, work)
		}
		if work.Bytes > int64(len(artifact))/2 {
			t.Errorf("%d of %d bytes are read", work.Bytes, len(artifact))
		}
	}
}

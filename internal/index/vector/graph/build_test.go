package graph_test

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector/graph"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/code"
)

func TestOptionsOutOfRange(t *testing.T) {
	ok := graph.Options{Dim: 4}
	for name, change := range map[string]func(o *graph.Options){
		"dim 0":       func(o *graph.Options) { o.Dim = 0 },
		"dim":         func(o *graph.Options) { o.Dim = graph.MaxDim + 1 },
		"m 1":         func(o *graph.Options) { o.M = 1 },
		"m 101":       func(o *graph.Options) { o.M = 101 },
		"ef 3":        func(o *graph.Options) { o.M, o.EfConstruction = 2, 3 },
		"ef 1001":     func(o *graph.Options) { o.EfConstruction = 1001 },
		"ef below 2m": func(o *graph.Options) { o.M, o.EfConstruction = 40, 79 },
		"workers":     func(o *graph.Options) { o.Workers = -1 },
		"rows":        func(o *graph.Options) { o.Rows = -1 },
		"memory":      func(o *graph.Options) { o.Memory = -1 },
		"metric":      func(o *graph.Options) { o.Metric = 9 },
		"1 bit":       func(o *graph.Options) { o.Code = code.Bit1 },
		"l1 by codes": func(o *graph.Options) { o.Metric, o.Code = vec.MetricL1, code.TQ8 },
	} {
		o := ok
		change(&o)
		if _, err := graph.NewBuilder(o); !errs.Is(err, errs.Invalid) && !errs.Is(err, errs.Unsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, o := range []graph.Options{ok, {Dim: 1, M: 2, EfConstruction: 4}, {Dim: 1, M: 100}, {Dim: 1, M: 100, EfConstruction: 1000}} {
		if _, err := graph.NewBuilder(o); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestBadRows(t *testing.T) {
	ctx := context.Background()
	b, err := graph.NewBuilder(graph.Options{Dim: 2})
	if err != nil {
		t.Fatal(err)
	}
	nan := float32(math.NaN())
	for _, c := range []struct {
		positions []uint32
		rows      []float32
	}{{[]uint32{1}, []float32{1}}, {[]uint32{1}, []float32{1, nan}}, {[]uint32{1, 2}, []float32{1, 2, float32(math.Inf(-1)), 1}}} {
		if err := b.Add(ctx, c.positions, c.rows); !errs.Is(err, errs.Invalid) {
			t.Errorf("%v: %v", c.rows, err)
		}
	}
	if err := b.Add(ctx, []uint32{7, 3, 7}, make([]float32, 6)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Finish(ctx, section.NewWriter(new(bytes.Buffer))); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "7") {
		t.Errorf("a position twice: %v", err)
	}
	if _, err := b.Finish(ctx, section.NewWriter(new(bytes.Buffer))); !errs.Is(err, errs.Invalid) {
		t.Errorf("finished twice: %v", err)
	}
	if err := b.Add(ctx, nil, nil); !errs.Is(err, errs.Invalid) {
		t.Errorf("added when finished: %v", err)
	}
}

func TestBadQueries(t *testing.T) {
	d := mixture(1, vec.MetricL2, 50, 4, 1)
	x := d.build(t, graph.Options{EfConstruction: 32})
	for _, c := range []struct {
		query []float32
		p     graph.Params
	}{
		{[]float32{1, 2, 3}, graph.Params{K: 1}}, {[]float32{1, 2, 3, float32(math.NaN())}, graph.Params{K: 1}}, {d.queries[0], graph.Params{}},
		{d.queries[0], graph.Params{K: -1}}, {d.queries[0], graph.Params{K: 1, Ef: -1}}, {d.queries[0], graph.Params{K: 1, Rerank: -1}},
		{d.queries[0], graph.Params{K: 1, AllowedCount: -1}}, {d.queries[0], graph.Params{Within: float32(math.NaN())}},
	} {
		if _, _, err := x.Search(context.Background(), c.query, c.p); !errs.Is(err, errs.Invalid) {
			t.Errorf("%v, %+v: %v", c.query, c.p, err)
		}
	}
}

// TestParametersChangeTheWork has no option that does nothing.
func TestParametersChangeTheWork(t *testing.T) {
	d := mixture(6, vec.MetricL2, 5000, 12, 20)
	half := make([]uint64, 5000/64+1)
	for i := range half {
		half[i] = 0x5555555555555555
	}
	base := graph.Options{M: 8, EfConstruction: 40, Seed: 1, Workers: 1}
	work := func(o graph.Options, p graph.Params) graph.Work {
		_, w := d.recall(t, d.build(t, o), p)
		return w
	}
	change := func(f func(o *graph.Options)) graph.Options {
		o := base
		f(&o)
		return o
	}
	p := graph.Params{K: 10, Ef: 50}
	plain := work(base, p)
	if more := work(change(func(o *graph.Options) { o.M = 20 }), p); more.Distances <= plain.Distances {
		t.Errorf("with m 20 %d distances, with 8 %d", more.Distances, plain.Distances)
	}
	if other := work(change(func(o *graph.Options) { o.EfConstruction = 200 }), p); other.Distances == plain.Distances {
		t.Errorf("ef_construction changes nothing: %d", other.Distances)
	}
	if other := work(change(func(o *graph.Options) { o.Seed = 2 }), p); other.Distances == plain.Distances {
		t.Errorf("the seed changes nothing: %d", other.Distances)
	}
	floats := change(func(o *graph.Options) { o.Code, o.Floats = code.TQ8, true })
	if w := work(floats, p); w.Reranked < 10*20 {
		t.Errorf("reranked %d", w.Reranked)
	}
	p.Rerank = 40
	if w := work(floats, p); w.Reranked != 40*20 {
		t.Errorf("reranked %d, want %d", w.Reranked, 40*20)
	}
	x := d.build(t, base)
	last := graph.Work{}
	for _, ef := range []int{10, 30, 100, 300} {
		_, w := d.recall(t, x, graph.Params{K: 10, Ef: ef})
		if w.Distances <= last.Distances || w.Hops <= last.Hops {
			t.Errorf("ef %d: %+v after %+v", ef, w, last)
		}
		last = w
	}
	_, few := d.recall(t, x, graph.Params{K: 1, Ef: 1})
	if _, many := d.recall(t, x, graph.Params{K: 60, Ef: 1}); many.Distances <= few.Distances {
		t.Errorf("k 60: %+v, k 1: %+v", many, few)
	}
	if _, w := d.recall(t, x, graph.Params{K: 1, Ef: 1, Exact: true}); w.Distances != 20*5000 || w.Strategy != graph.StrategyExact {
		t.Errorf("exact: %+v", w)
	}
	if _, w := d.recall(t, x, graph.Params{K: 10, Ef: 50, Allowed: half}); w.Distances <= plain.Distances || w.Strategy != graph.StrategyGraph {
		t.Errorf("filtered: %+v, not %+v", w, plain)
	}
	// What is asked for decides, not only how many rows there are.
	if _, w := d.recall(t, x, graph.Params{K: 10, Ef: 1000, Allowed: half}); w.Distances != 20*2500 || w.Strategy != graph.StrategyExact {
		t.Errorf("filtered, with a large pool: %+v", w)
	}
	// A count that says few rows makes it compare them all.
	if _, w := d.recall(t, x, graph.Params{K: 10, Ef: 50, Allowed: half, AllowedCount: 100}); w.Strategy != graph.StrategyExact || w.Distances != 20*2500 {
		t.Errorf("said to be few: %+v", w)
	}
}

// TestPoolIsHonoured: rows of which walks find few, so that calibration ends at the largest pool, are walked over with the pool
// that is asked for, and compared with all when none is.
func TestPoolIsHonoured(t *testing.T) {
	d := clusters(8, vec.MetricL2, 4000, 120, 10, 1, 120)
	x := d.build(t, graph.Options{M: 2, EfConstruction: 8, Seed: 1, Workers: 1})
	if cal := x.Calibration(); cal.Recall99 >= 0.95 {
		t.Fatalf("walks find too much for this test: %+v", cal)
	}
	if _, w := d.recall(t, x, graph.Params{K: 10, Ef: 20}); w.Strategy != graph.StrategyGraph || w.Distances > 10*1000 {
		t.Errorf("with a pool of 20: %+v", w)
	}
	if got, w := d.recall(t, x, graph.Params{K: 10}); w.Strategy != graph.StrategyExact || got < 1 {
		t.Errorf("with none: %v, %+v", got, w)
	}
}

func TestSeedAndWorkers(t *testing.T) {
	d := mixture(8, vec.MetricCosine, 1500, 16, 20)
	o := graph.Options{EfConstruction: 40, Seed: 4, Workers: 1}
	a, _ := d.write(t, o)
	b, _ := d.write(t, o)
	if !bytes.Equal(a, b) {
		t.Error("one worker and one seed gave different bytes")
	}
	o.Seed = 5
	if c, _ := d.write(t, o); bytes.Equal(a, c) {
		t.Error("another seed gave the same bytes")
	}
	o.Seed, o.Rows = 4, 1500
	if c, _ := d.write(t, o); !bytes.Equal(a, c) {
		t.Error("the number of rows said before changed the bytes")
	}
}

// TestManyWorkers is for the race detector: links are made by several goroutines at once, and searched by several.
func TestManyWorkers(t *testing.T) {
	for _, kind := range []code.Kind{code.Float32, code.TQ8} {
		dim := 8
		if kind == code.TQ8 {
			dim = 256
		}
		d := mixture(9, vec.MetricL2, 2500, dim, 16)
		x := d.build(t, graph.Options{M: 8, EfConstruction: 48, Code: kind, Floats: true, Workers: 8})
		x = x.Force(graph.StrategyGraph)
		some := make([]uint64, 2500/64+1)
		for i := range some {
			some[i] = 0xffff0000ffff0000
		}
		var wait sync.WaitGroup
		for w := range 6 {
			wait.Go(func() {
				mine := *d
				mine.sorted = nil
				p := graph.Params{K: 10, Ef: 80}
				if w%2 == 0 {
					p.Allowed = some
				}
				if got, _ := mine.recall(t, x, p); got < 0.95 {
					t.Errorf("%s: recall %v", kind, got)
				}
			})
		}
		wait.Wait()
	}
}

func TestMemory(t *testing.T) {
	ctx := context.Background()
	d := mixture(1, vec.MetricL2, 3000, 64, 0)
	for _, o := range []graph.Options{{EfConstruction: 32, Rows: 3000}, {EfConstruction: 32}, {EfConstruction: 32, Code: code.TQ4, Floats: true}} {
		_, stats := d.write(t, o)
		if least := int64(3000 * 64 * 4); stats.Memory < least || stats.Memory > 4*least {
			t.Errorf("the build held %d bytes, rows are %d", stats.Memory, least)
		}
		o.Memory = stats.Memory
		d.write(t, o)
		o.Memory = stats.Memory - 1
		b, err := graph.NewBuilder(d.options(o))
		for at := 0; at < 3000 && err == nil; at += 700 {
			n := min(700, 3000-at)
			err = b.Add(ctx, d.positions[at:at+n], d.rows[at*64:(at+n)*64])
		}
		if !errs.Is(err, errs.Exhausted) || !strings.Contains(err.Error(), "3000") && o.Rows > 0 || errs.HintOf(err) == "" {
			t.Errorf("a byte less: %v", err)
		}
	}
	x := d.build(t, graph.Options{EfConstruction: 32})
	if got := x.Memory(); got < 3000*(64+32)*4 || got > 2*3000*(64+32)*4 {
		t.Errorf("the index holds %d bytes", got)
	}
}

func TestProgressAndCancel(t *testing.T) {
	d := mixture(1, vec.MetricL2, 3000, 8, 1)
	last := int64(0)
	d.build(t, graph.Options{EfConstruction: 32, Progress: func(done, total int64) {
		if done < last || done > total || total != 3000 {
			t.Errorf("%d of %d after %d", done, total, last)
		}
		last = done
	}})
	if last != 3000 {
		t.Errorf("the last progress was %d", last)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b, err := graph.NewBuilder(d.options(graph.Options{EfConstruction: 32, Progress: func(done, _ int64) {
		if last = done; done > 500 {
			cancel()
		}
	}}))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Add(ctx, d.positions, d.rows); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Finish(ctx, section.NewWriter(new(bytes.Buffer))); !errs.Is(err, errs.Canceled) || last > 2000 {
		t.Errorf("cancelled after %d nodes: %v", last, err)
	}
	x := d.build(t, graph.Options{EfConstruction: 32})
	for _, p := range []graph.Params{{K: 1}, {K: 1, Exact: true}} {
		if _, _, err := x.Search(ctx, d.queries[0], p); !errs.Is(err, errs.Canceled) {
			t.Errorf("a search cancelled before: %v", err)
		}
	}
	b, err = graph.NewBuilder(d.options(graph.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Add(ctx, d.positions, d.rows); !errs.Is(err, errs.Canceled) {
		t.Errorf("adding when cancelled: %v", err)
	}
}

// TestLargeFilters is the long form: the strategies that 100,000 rows choose by themselves.
func TestLargeFilters(t *testing.T) {
	if os.Getenv("OVERLAKE_DEEP") == "" {
		t.Skip("set OVERLAKE_DEEP to build a graph over 100,000 rows")
	}
	d := mixture(4, vec.MetricL2, 100_000, 16, 20)
	x := d.build(t, graph.Options{Code: code.TQ8, Floats: true, Seed: 1})
	var ways []string
	for _, share := range []float64{0.5, 0.22, 0.1, 0.03, 0.01, 0.001, 0.0001} {
		for name, allowed := range d.filters(rand.New(rand.NewPCG(7, 8)), share) {
			got, work := d.recall(t, x, graph.Params{K: 10, Allowed: allowed})
			t.Logf("%v %s: recall %.3f by %s, %d distances", share, name, got, work.Strategy, work.Distances/20)
			if got < 0.99 {
				t.Errorf("%v %s: recall is %v by %s", share, name, got, work.Strategy)
			}
			ways = append(ways, work.Strategy)
		}
	}
	for _, way := range []string{graph.StrategyExact, graph.StrategyGraph, graph.StrategyTwoHop} {
		if !slices.Contains(ways, way) {
			t.Errorf("no search went by %q", way)
		}
	}
}

package lists_test

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/overlakedb/overlake/internal/index/vector/lists"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/code"
	"github.com/overlakedb/overlake/internal/vec/kernel"
)

// cpu is the time that this thread, or the whole process, was at work: other processes do not count (clock_gettime).
func cpu(clock uintptr) time.Duration {
	var t syscall.Timespec
	if _, _, err := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&t)), 0); err != 0 {
		panic(err)
	}
	return time.Duration(t.Nano())
}

const (
	ofProcess = 2 // CLOCK_PROCESS_CPUTIME_ID
	ofThread  = 3 // CLOCK_THREAD_CPUTIME_ID
)

// BenchmarkSearch builds an index and finds the cheapest probes and candidates for a recall of 0.95 and 0.99, beside the
// defaults and a search of all rows. Queries run one after another on one thread; times are of that thread. Sizes are set
// by the name: -bench 'Search/100000x128'.
func BenchmarkSearch(b *testing.B) {
	for _, size := range []string{"20000x128", "100000x128", "100000x768", "1000000x64"} {
		b.Run(size, func(b *testing.B) {
			rows, dim, _ := strings.Cut(size, "x")
			n, _ := strconv.Atoi(rows)
			d, _ := strconv.Atoi(dim)
			benchmark(b, n, d)
		})
	}
}

func benchmark(b *testing.B, n, dim int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	g := newClusters(11, dim, 300)
	of := dense(dim, g.draw(n))
	const queries = 200
	all := g.draw(queries)
	query := func(i int) []float32 { return all[i%queries*dim:][:dim] }
	truth := make([][]uint32, queries)
	distances := make([]float32, n)
	begin := cpu(ofThread)
	for i := range truth {
		kernel.L2(query(i), of.rows, distances)
	}
	brute := cpu(ofThread) - begin
	for i := range truth {
		kernel.L2(query(i), of.rows, distances)
		var ids []uint32
		for pos, d := range distances {
			if len(ids) < 10 || d < distances[ids[9]] {
				at, _ := slices.BinarySearchFunc(ids, d, func(id uint32, d float32) int { return cmp.Compare(distances[id], d) })
				ids = slices.Insert(ids, at, uint32(pos))
				ids = ids[:min(len(ids), 10)]
			}
		}
		truth[i] = ids
	}
	fmt.Printf("%d x %d: brute force %.0f queries/s\n", n, dim, queries/brute.Seconds())
	for _, c := range []struct {
		name         string
		scan, rerank code.Kind
	}{{"bit+byte", code.Bit1, code.TQ8}, {"bit+float", code.Bit1, code.Float32}, {"4+float", code.TQ4, code.Float32}, {"byte", code.TQ8, code.TQ8}, {"float", code.Float32, code.Float32}} {
		b.Run(c.name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			o := lists.Options{Metric: vec.MetricL2, Dim: dim, Code: c.scan, Rerank: c.rerank, Seed: 1, Memory: 4 << 30}
			begin := cpu(ofProcess)
			artifact, stats := build(b, o, of)
			took := cpu(ofProcess) - begin
			x := open(b, artifact, true)
			fmt.Printf("%s: built in %.2f s of CPU, %d lists up to %d rows, %.1f MB; defaults probe %d, rerank %d, measured %.3f\n", c.name,
				took.Seconds(), stats.Lists, stats.Largest, float64(len(artifact))/1e6, stats.Probes, stats.Rerank, stats.Recall)
			run := func(p lists.Params) (recall, qps float64, work lists.Work) {
				found := 0
				for i := range queries {
					hits, w, err := x.Search(b.Context(), query(i), p)
					if err != nil {
						b.Fatal(err)
					}
					work = w
					for _, h := range hits {
						if slices.Contains(truth[i], h.Pos) {
							found++
						}
					}
				}
				var best time.Duration
				for range 3 {
					begin := cpu(ofThread)
					for i := range queries {
						x.Search(b.Context(), query(i), p)
					}
					if took := cpu(ofThread) - begin; best == 0 || took < best {
						best = took
					}
				}
				return float64(found) / (10 * queries), queries / best.Seconds(), work
			}
			recall, qps, work := run(lists.Params{K: 10})
			fmt.Printf("%s: defaults: recall %.3f, %.0f queries/s, %+v\n", c.name, recall, qps, work)
			probes, rerank := x.Tuning(10, 0.99)
			recall, qps, _ = run(lists.Params{K: 10, Probes: probes, Rerank: rerank})
			fmt.Printf("%s: tuned for 0.99 (%d, %d): recall %.3f, %.0f queries/s\n", c.name, probes, rerank, recall, qps)
			for _, target := range []float64{0.95, 0.99} {
				best, at := 0.0, ""
				for _, p := range []int{2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 28, 40} {
					for _, r := range []int{10, 15, 20, 30, 40, 60, 80, 110, 150} {
						recall, qps, _ := run(lists.Params{K: 10, Probes: p, Rerank: r})
						if recall >= target && qps > best {
							best, at = qps, fmt.Sprintf("%d probes, %d candidates, recall %.3f", p, r, recall)
						}
						if recall >= target || c.scan == code.Float32 || c.scan == c.rerank {
							break
						}
					}
				}
				fmt.Printf("%s: %.2f: %.0f queries/s (%.1f times brute force) with %s\n", c.name, target, best, best/(queries/brute.Seconds()), at)
			}
		})
	}
}

// BenchmarkQuery is one search with defaults after another, for profiles.
func BenchmarkQuery(b *testing.B) {
	for _, dim := range []int{128, 768} {
		b.Run(strconv.Itoa(dim), func(b *testing.B) {
			g := newClusters(11, dim, 300)
			of := dense(dim, g.draw(50000))
			o := lists.Default(vec.MetricL2, dim)
			artifact, _ := build(b, o, of)
			x := open(b, artifact, true)
			queries := g.draw(500)
			i := 0
			for b.Loop() {
				if _, _, err := x.Search(b.Context(), queries[i%500*dim:][:dim], lists.Params{K: 10}); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}

// BenchmarkFilter searches under filters drawn by chance, as the index decides and over all allowed rows.
func BenchmarkFilter(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const n, dim, queries = 100_000, 128, 100
	g := newClusters(11, dim, 300)
	of := dense(dim, g.draw(n))
	artifact, _ := build(b, lists.Default(vec.MetricL2, dim), of)
	x := open(b, artifact, true)
	all := g.draw(queries)
	distances := make([]float32, n)
	for _, share := range []float64{0.9, 0.5, 0.3, 0.2, 0.1, 0.07, 0.05, 0.03, 0.01, 0.003} {
		allowed := make([]uint64, (n+63)/64)
		var ids []uint32
		for pos := range uint32(n) {
			if g.rng.Float64() < share {
				allowed[pos>>6] |= 1 << (pos & 63)
				ids = append(ids, pos)
			}
		}
		run := func(p lists.Params) (recall, qps float64, work lists.Work) {
			found := 0
			var took time.Duration
			for i := range queries {
				q := all[i*dim:][:dim]
				begin := cpu(ofThread)
				hits, w, err := x.Search(b.Context(), q, p)
				took += cpu(ofThread) - begin
				if err != nil {
					b.Fatal(err)
				}
				kernel.L2At(q, of.rows, ids, distances)
				nearest := slices.Clone(distances[:len(ids)])
				slices.Sort(nearest)
				for _, h := range hits {
					if vec.SquaredL2(q, of.row(int(h.Pos))) <= nearest[9]*(1+1e-6) {
						found++
					}
				}
				work = w
			}
			return float64(found) / (10 * queries), queries / took.Seconds(), work
		}
		recall, qps, work := run(lists.Params{K: 10, Allowed: allowed, AllowedCount: int64(len(ids))})
		exact, exactly, _ := run(lists.Params{K: 10, Allowed: allowed, AllowedCount: int64(len(ids)), Exact: true})
		fmt.Printf("%.3f of the rows: recall %.3f, %.0f queries/s, %+v; exactly %.3f, %.0f queries/s\n", share, recall, qps, work, exact, exactly)
	}
}

package graph_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/overlakedb/overlake/internal/index/vector/graph"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/code"
)

// cpu is the processor time of the process in seconds: other work on the machine does not count.
func cpu() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}

// benchRows is the size of the graphs of benchmarks: 100,000 rows with OVERLAKE_DEEP.
func benchRows() int {
	if os.Getenv("OVERLAKE_DEEP") != "" {
		return 100_000
	}
	return 10_000
}

func BenchmarkBuild(b *testing.B) {
	for _, c := range []struct {
		dim  int
		kind code.Kind
	}{{128, code.Float32}, {128, code.TQ8}, {768, code.Float32}, {768, code.TQ8}, {768, code.TQ4}} {
		b.Run(fmt.Sprintf("%d/%s", c.dim, c.kind), func(b *testing.B) {
			d := clusters(1, vec.MetricL2, benchRows(), c.dim, 0, 300, 40)
			before := cpu()
			for b.Loop() {
				bl, err := graph.NewBuilder(d.options(graph.Options{Code: c.kind, Seed: 1, Rows: int64(len(d.positions))}))
				if err != nil {
					b.Fatal(err)
				}
				if err := bl.Add(context.Background(), d.positions, d.rows); err != nil {
					b.Fatal(err)
				}
				if _, err := bl.Finish(context.Background(), section.NewWriter(new(bytes.Buffer))); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric((cpu()-before)/float64(b.N), "cpu-s/op")
		})
	}
}

func BenchmarkSearch(b *testing.B) {
	for _, dim := range []int{128, 768} {
		d := clusters(1, vec.MetricL2, benchRows(), dim, 200, 300, 40)
		for _, kind := range []code.Kind{code.Float32, code.TQ8, code.TQ4} {
			var x *graph.Index
			for _, ef := range []int{40, 80, 160} {
				b.Run(fmt.Sprintf("%d/%s/ef=%d", dim, kind, ef), func(b *testing.B) {
					if x == nil {
						x = d.build(b, graph.Options{Code: kind, Floats: true, Seed: 1})
					}
					p := graph.Params{K: 10, Ef: ef}
					recall, _ := d.recall(b, x, p)
					var work graph.Work
					i := 0
					b.ResetTimer()
					before := cpu()
					for b.Loop() {
						_, w, err := x.Search(context.Background(), d.queries[i%len(d.queries)], p)
						if err != nil {
							b.Fatal(err)
						}
						work.Distances += w.Distances
						i++
					}
					spent := cpu() - before
					b.ReportMetric(recall, "recall")
					b.ReportMetric(float64(work.Distances)/float64(i), "distances")
					b.ReportMetric(spent*1e9/float64(work.Distances), "cpu-ns/distance")
					b.ReportMetric(float64(i)/spent, "queries/cpu-s")
				})
			}
		}
	}
}

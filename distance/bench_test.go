package distance_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/overlakedb/overlake/distance"
)

// loop is what a program writes without this package.
func loop(query, rows, out []float32) {
	for i := range out {
		row := rows[i*len(query):][:len(query)]
		var sum float32
		for k, x := range query {
			d := x - row[k]
			sum += d * d
		}
		out[i] = sum
	}
}

// BenchmarkBatch compares one query with rows that stay in the cache, beside a plain loop over the same. Run it with -cpu 1:
// MB/s is then of one thread.
func BenchmarkBatch(b *testing.B) {
	for _, dim := range []int{128, 384, 768, 1536} {
		n := 1 << 17 / dim
		r := rand.New(rand.NewPCG(1, 1))
		query, rows, out := random(r, dim), random(r, n*dim), make([]float32, n)
		b.Run(fmt.Sprintf("loop/%d", dim), func(b *testing.B) {
			b.SetBytes(int64(4 * len(rows)))
			for b.Loop() {
				loop(query, rows, out)
			}
		})
		for _, m := range dense {
			b.Run(fmt.Sprintf("%v/%d", m, dim), func(b *testing.B) {
				b.SetBytes(int64(4 * len(rows)))
				for b.Loop() {
					if _, err := distance.CPU.Batch(m, query, rows, out); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkPair measures what a single pair costs.
func BenchmarkPair(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, dim := range []int{128, 768} {
		x, y := random(r, dim), random(r, dim)
		b.Run(fmt.Sprint(dim), func(b *testing.B) {
			for b.Loop() {
				if _, err := distance.CPU.Pair(distance.SquaredL2, x, y); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkNearest finds 10 of 20,000 rows for 1 query and for 64 at once.
func BenchmarkNearest(b *testing.B) {
	const dim, n = 128, 20_000
	r := rand.New(rand.NewPCG(1, 1))
	rows := random(r, n*dim)
	for _, q := range []int{1, 64} {
		queries := random(r, q*dim)
		b.Run(fmt.Sprint(q), func(b *testing.B) {
			b.SetBytes(int64(4 * n * dim * q))
			for b.Loop() {
				if _, err := distance.CPU.Nearest(b.Context(), distance.L2, dim, 10, queries, rows); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkKMeans makes 100 clusters of 10,000 points in 10 rounds.
func BenchmarkKMeans(b *testing.B) {
	const dim, n, k = 128, 10_000, 100
	points := random(rand.New(rand.NewPCG(1, 1)), n*dim)
	for b.Loop() {
		if _, err := distance.CPU.KMeans(b.Context(), dim, k, points, distance.KMeansOptions{Iterations: 10}); err != nil {
			b.Fatal(err)
		}
	}
}

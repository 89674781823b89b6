package distance_test

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/overlakedb/overlake/distance"
)

// clouds are n points around each of k centres, which are far apart; offset is added to every number.
func clouds(r *rand.Rand, k, n, dim int, offset float32) []float32 {
	out := make([]float32, 0, k*n*dim)
	for range n {
		for c := range k {
			for d := range dim {
				x := float32(r.NormFloat64())
				if d == c%dim {
					x += float32(100 * (1 + c/dim))
				}
				out = append(out, x+offset)
			}
		}
	}
	return out
}

func check(t *testing.T, name string, points []float32, c *distance.Clusters) {
	t.Helper()
	sizes, sum := make([]int, len(c.Sizes)), 0.0
	for i, id := range c.Assignment {
		p := points[i*c.Dim : (i+1)*c.Dim]
		own := reference(distance.SquaredL2, p, c.Centroids[id*c.Dim:(id+1)*c.Dim])
		for j := range c.Sizes {
			if other := reference(distance.SquaredL2, p, c.Centroids[j*c.Dim:(j+1)*c.Dim]); other < own*(1-1e-3)-1e-3 {
				t.Fatalf("%s: point %d is at centroid %d (%g), nearer to %d (%g)", name, i, id, own, j, other)
			}
		}
		sizes[id]++
		sum += own
	}
	if !slices.Equal(sizes, c.Sizes) || math.Abs(sum-c.Inertia) > 1e-3*(1+sum) {
		t.Errorf("%s: sizes %v, want %v; inertia %g, want %g", name, c.Sizes, sizes, c.Inertia, sum)
	}
}

// TestKMeansFindsClouds: points around centres that are far apart come together, also where all of them are far from 0, which
// costs a float32 most of its digits.
func TestKMeansFindsClouds(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		for _, offset := range []float32{0, 20_000} {
			const k, n, dim = 10, 60, 12
			points := clouds(rand.New(rand.NewPCG(1, 1)), k, n, dim, offset)
			best := math.Inf(1)
			for seed := range uint64(4) {
				c, err := distance.Auto.KMeans(t.Context(), dim, k, points, distance.KMeansOptions{Seed: seed})
				if err != nil {
					t.Fatal(err)
				}
				check(t, "clouds", points, c)
				best = min(best, c.Inertia)
				if c.Iterations < 1 || c.Iterations >= 25 {
					t.Errorf("%d iterations", c.Iterations)
				}
			}
			// Of the best of a few runs every cloud is a cluster: the squares of k·n·dim normal numbers, less what the means take.
			if want := float64(k*(n-1)*dim) * 1.1; best > want {
				t.Errorf("offset %g: inertia %g, want below %g", offset, best, want)
			}
		}
	})
}

// TestKMeansRepeats: the same seed gives the same bits with any number of threads, and another seed other clusters.
func TestKMeansRepeats(t *testing.T) {
	points := random(rand.New(rand.NewPCG(2, 2)), 4000*16)
	run := func(seed uint64, threads int) *distance.Clusters {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
		c, err := distance.CPU.KMeans(t.Context(), 16, 40, points, distance.KMeansOptions{Seed: seed, Iterations: 6})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	a, b, other := run(5, 1), run(5, 4), run(6, 1)
	if !slices.Equal(a.Centroids, b.Centroids) || !slices.Equal(a.Assignment, b.Assignment) || a.Inertia != b.Inertia || a.Iterations != b.Iterations {
		t.Error("two runs with one seed differ")
	}
	if slices.Equal(a.Centroids, other.Centroids) {
		t.Error("two seeds give one result")
	}
	check(t, "seed 5", points, a)
	last := math.Inf(1)
	for rounds := 1; rounds <= 5; rounds++ {
		c, err := distance.CPU.KMeans(t.Context(), 16, 40, points, distance.KMeansOptions{Seed: 5, Iterations: rounds})
		if err != nil {
			t.Fatal(err)
		}
		if c.Inertia > last*(1+1e-6) {
			t.Errorf("round %d makes it worse: %g after %g", rounds, c.Inertia, last)
		}
		last = c.Inertia
	}
}

// TestKMeansEdges: as many clusters as points, one cluster, and more clusters than there are different points.
func TestKMeansEdges(t *testing.T) {
	points := []float32{0, 0, 1, 0, 0, 1, 5, 5}
	c, err := distance.Auto.KMeans(t.Context(), 2, 4, points, distance.KMeansOptions{})
	if err != nil || c.Inertia != 0 || !slices.Equal(c.Sizes, []int{1, 1, 1, 1}) {
		t.Errorf("every point its own: %+v, %v", c, err)
	}
	c, err = distance.Auto.KMeans(t.Context(), 2, 1, points, distance.KMeansOptions{})
	if err != nil || !slices.Equal(c.Centroids, []float32{1.5, 1.5}) || c.Inertia != 4.5+2.5+2.5+24.5 {
		t.Errorf("one cluster: %+v, %v", c, err)
	}
	same := []float32{2, 2, 2, 2, 2, 9}
	c, err = distance.Auto.KMeans(t.Context(), 1, 4, same, distance.KMeansOptions{})
	if err != nil || c.Inertia != 0 {
		t.Errorf("two different points in four clusters: %+v, %v", c, err)
	} else {
		check(t, "two different points", same, c)
	}
}

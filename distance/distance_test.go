package distance_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/overlakedb/overlake"
	"github.com/overlakedb/overlake/distance"
	"github.com/overlakedb/overlake/internal/vec/kernel"
)

var dense = []distance.Metric{distance.L2, distance.SquaredL2, distance.NegativeInnerProduct, distance.Cosine, distance.L1}

func random(r *rand.Rand, n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(r.NormFloat64())
	}
	return out
}

// reference is a distance by its definition, in float64.
func reference(m distance.Metric, a, b []float32) float64 {
	var dot, aa, bb, l2, l1 float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		dot += x * y
		aa += x * x
		bb += y * y
		l2 += (x - y) * (x - y)
		l1 += math.Abs(x - y)
	}
	switch m {
	case distance.L2:
		return math.Sqrt(l2)
	case distance.SquaredL2:
		return l2
	case distance.NegativeInnerProduct:
		return -dot
	case distance.Cosine:
		return 1 - dot/math.Sqrt(aa*bb)
	}
	return l1
}

func near(got float32, want float64, dim int) bool {
	return math.Abs(float64(got)-want) <= 1e-6*float64(dim+8)*max(1, math.Abs(want)/8)
}

// everywhere runs a test with each kind of instructions that the machine has, and with one thread and several.
func everywhere(t *testing.T, test func(t *testing.T)) {
	for level := kernel.Plain; level <= kernel.Best(); level++ {
		for _, threads := range []int{1, 3} {
			t.Run(fmt.Sprintf("%v-%d", level, threads), func(t *testing.T) {
				defer kernel.Use(kernel.Use(level))
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
				test(t)
			})
		}
	}
}

// TestOneAnswer: a pair, a batch and a matrix give the distance of the definition, and the same bits (V2).
func TestOneAnswer(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		for _, c := range []struct{ dim, q, n int }{{1, 1, 1}, {3, 2, 5}, {17, 5, 3}, {128, 3, 700}, {768, 40, 70}, {2, 1, 40_000}, {40_000, 2, 2}, {1000, 900, 2}} {
			queries, rows := random(r, c.q*c.dim), random(r, c.n*c.dim)
			for _, m := range dense {
				all, err := distance.Auto.Matrix(t.Context(), m, c.dim, queries, rows, nil)
				if err != nil || len(all) != c.q*c.n {
					t.Fatalf("%v %v: %d distances, %v", c, m, len(all), err)
				}
				for i := range c.q {
					query := queries[i*c.dim : (i+1)*c.dim]
					batch, err := distance.CPU.Batch(m, query, rows, make([]float32, 0, c.n))
					if err != nil || !slices.Equal(batch, all[i*c.n:(i+1)*c.n]) {
						t.Fatalf("%v %v: the batch of query %d is not the row of the matrix, %v", c, m, i, err)
					}
					for j := 0; j < c.n; j += 1 + c.n/50 {
						row := rows[j*c.dim : (j+1)*c.dim]
						pair, err := distance.Auto.Pair(m, query, row)
						if err != nil || pair != batch[j] {
							t.Fatalf("%v %v: pair %d, %d is %v, in the batch %v, %v", c, m, i, j, pair, batch[j], err)
						}
						if want := reference(m, query, row); !near(pair, want, c.dim) {
							t.Errorf("%v %v: pair %d, %d is %v, want %v", c, m, i, j, pair, want)
						}
					}
				}
			}
		}
	})
}

// TestSelf: a vector has no distance to itself, also by its angle, where rounding could leave some.
func TestSelf(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(9, 9))
		for _, dim := range []int{1, 5, 100, 384, 1000} {
			rows := random(r, 9*dim)
			for i := range 9 {
				for _, m := range []distance.Metric{distance.L2, distance.SquaredL2, distance.Cosine, distance.L1} {
					d, err := distance.Auto.Batch(m, rows[i*dim:(i+1)*dim], rows, nil)
					if err != nil || d[i] != 0 {
						t.Errorf("%v of row %d of %d elements to itself: %v, %v", m, i, dim, d[i], err)
					}
				}
			}
		}
	})
}

// sorted ranks distances the slow way.
func sorted(all []float32, k int) (rows []int, distances []float32) {
	rows = make([]int, len(all))
	for i := range rows {
		rows[i] = i
	}
	slices.SortStableFunc(rows, func(a, b int) int {
		x, y := all[a], all[b]
		if x != x || y != y {
			return cmp.Compare(b2i(x != x), b2i(y != y))
		}
		return cmp.Compare(x, y)
	})
	rows = rows[:min(k, len(rows))]
	for _, i := range rows {
		distances = append(distances, all[i])
	}
	return rows, distances
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return x == y || x != x && y != y })
}

// TestNearest compares the ranking with a sorted batch: ties, zeros, infinities and NaN included.
func TestNearest(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		for _, c := range []struct{ dim, q, n, k int }{{4, 1, 1, 1}, {4, 3, 10, 10}, {4, 3, 10, 99}, {2, 1, 100_000, 10}, {2, 70, 3000, 5}, {300, 2, 900, 7}, {40_000, 1, 3, 2}, {8, 1, 30_000, 29_999}} {
			queries, rows := random(r, c.q*c.dim), random(r, c.n*c.dim)
			for i := range rows { // coarse numbers make ties
				rows[i] = float32(math.Round(float64(rows[i])))
			}
			if c.n >= 10 {
				rows[c.dim] = float32(math.NaN())
				rows[3*c.dim] = float32(math.Inf(1))
				clear(rows[4*c.dim : 5*c.dim]) // cosine: NaN
			}
			for _, m := range dense {
				found, err := distance.Auto.Nearest(t.Context(), m, c.dim, c.k, queries, rows)
				if err != nil || found.K != min(c.k, c.n) {
					t.Fatalf("%v %v: %d, %v", c, m, found.K, err)
				}
				for i := range c.q {
					all, err := distance.Auto.Batch(m, queries[i*c.dim:(i+1)*c.dim], rows, nil)
					if err != nil {
						t.Fatal(err)
					}
					gotRows, got := found.Of(i)
					wantRows, want := sorted(all, c.k)
					if !slices.Equal(gotRows, wantRows) || !sameBits(got, want) {
						t.Fatalf("%v %v, query %d: got %v %v, want %v %v", c, m, i, short(gotRows), short(got), short(wantRows), short(want))
					}
					if places, smallest, err := distance.TopK(all, c.k); err != nil || !slices.Equal(places, wantRows) || !sameBits(smallest, want) {
						t.Fatalf("%v %v, query %d: TopK gives %v %v, %v", c, m, i, short(places), short(smallest), err)
					}
				}
			}
		}
	})
}

func short[T any](all []T) []T { return all[:min(len(all), 12)] }

func FuzzTopK(f *testing.F) {
	f.Add([]byte{1, 2, 3, 0x7f, 0xff}, uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, k uint8) {
		all := make([]float32, len(data))
		for i, b := range data { // few values, so that many are equal
			all[i] = [...]float32{0, float32(math.Copysign(0, -1)), 1, -1, float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 1e-45}[b&7]
		}
		places, smallest, err := distance.TopK(all, int(k))
		if k == 0 {
			if err == nil {
				t.Fatal("k = 0 is taken")
			}
			return
		}
		wantRows, want := sorted(all, int(k))
		if err != nil || !slices.Equal(places, wantRows) || !sameBits(smallest, want) {
			t.Fatalf("%v, k %d: %v %v, want %v %v, %v", all, k, places, smallest, wantRows, want, err)
		}
	})
}

func TestBits(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 6))
		for _, c := range []struct{ size, q, n int }{{1, 1, 1}, {8, 3, 100}, {7, 2, 9}, {96, 2, 2000}, {128, 300, 3}} {
			fill := func(n int) []byte {
				out := make([]byte, n)
				for i := range out {
					out[i] = byte(r.Uint32())
				}
				return out
			}
			queries, rows := fill(c.q*c.size), fill(c.n*c.size)
			clear(rows[:c.size])
			for _, m := range []distance.Metric{distance.Hamming, distance.Jaccard} {
				all, err := distance.Auto.MatrixBits(t.Context(), m, c.size, queries, rows, nil)
				if err != nil {
					t.Fatal(err)
				}
				found, err := distance.Auto.NearestBits(t.Context(), m, c.size, 5, queries, rows)
				if err != nil {
					t.Fatal(err)
				}
				for i := range c.q {
					query := queries[i*c.size : (i+1)*c.size]
					batch, err := distance.Auto.BatchBits(m, query, rows, nil)
					if err != nil || !slices.Equal(batch, all[i*c.n:(i+1)*c.n]) {
						t.Fatalf("%v %v: batch and matrix differ, %v", c, m, err)
					}
					gotRows, got := found.Of(i)
					if wantRows, want := sorted(batch, 5); !slices.Equal(gotRows, wantRows) || !slices.Equal(got, want) {
						t.Fatalf("%v %v: nearest %v %v, want %v %v", c, m, gotRows, got, wantRows, want)
					}
					for j := range c.n {
						differ, both, either := 0, 0, 0
						for k, x := range query {
							y := rows[j*c.size+k]
							differ += bits.OnesCount8(x ^ y)
							both += bits.OnesCount8(x & y)
							either += bits.OnesCount8(x | y)
						}
						want := float32(differ)
						if m == distance.Jaccard {
							want = float32(1 - float64(both)/float64(either))
							if both == 0 {
								want = 1
							}
						}
						if pair, err := distance.Auto.PairBits(m, query, rows[j*c.size:(j+1)*c.size]); err != nil || pair != want || batch[j] != want {
							t.Fatalf("%v %v: pair %v, batch %v, want %v, %v", c, m, pair, batch[j], want, err)
						}
					}
				}
			}
		}
	})
}

func TestSparse(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	const dim = 60
	make1 := func() (distance.Sparse, []float32) {
		s, full := distance.Sparse{Dim: dim}, make([]float32, dim)
		for i := range full {
			if r.IntN(4) == 0 {
				full[i] = float32(r.NormFloat64())
				s.Indices, s.Values = append(s.Indices, int32(i)), append(s.Values, full[i])
			}
		}
		return s, full
	}
	query, fullQuery := make1()
	rows, full := make([]distance.Sparse, 40), make([][]float32, 40)
	for i := range rows {
		rows[i], full[i] = make1()
	}
	for _, m := range dense {
		got, err := distance.Auto.BatchSparse(m, query, rows, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			pair, err := distance.CPU.PairSparse(m, query, rows[i])
			if err != nil || pair != got[i] || !near(pair, reference(m, fullQuery, full[i]), dim) {
				t.Errorf("%v: pair %v, batch %v, want %v, %v", m, pair, got[i], reference(m, fullQuery, full[i]), err)
			}
		}
	}
	if d, err := distance.Auto.PairSparse(distance.Cosine, query, distance.Sparse{Dim: dim}); err != nil || d == d {
		t.Errorf("the angle to zero is %v, %v", d, err)
	}
}

func TestNormalize(t *testing.T) {
	rows := []float32{3, 4, 0, 0, 1e38, 1e38, 1e-45, 0}
	if err := distance.Auto.Normalize(2, rows); err != nil {
		t.Fatal(err)
	}
	half := float32(math.Sqrt(0.5))
	if want := []float32{0.6, 0.8, 0, 0, half, half, 1, 0}; !slices.Equal(rows, want) {
		t.Errorf("got %v, want %v", rows, want)
	}
	bad := []float32{3, 4, 5, float32(math.NaN())}
	if err := distance.Auto.Normalize(2, bad); overlake.KindOf(err) != overlake.KindInvalid || !strings.Contains(err.Error(), "element 1 of row 1 is NaN") || bad[0] != 3 {
		t.Errorf("%v, %v", bad, err)
	}
}

// TestRefusals: every wrong input is an error of the right kind, and no call panics.
func TestRefusals(t *testing.T) {
	ctx, d := t.Context(), distance.Auto
	v := func(n int) []float32 { return make([]float32, n) }
	pick := func(_ any, err error) error { return err }
	inf := []float32{float32(math.Inf(-1))}
	huge := distance.Sparse{Dim: 5, Indices: []int32{5}, Values: []float32{1}}
	for name, c := range map[string]struct {
		err  error
		says string
	}{
		"pair of two lengths":      {pick(d.Pair(distance.L2, v(2), v(3))), "2 elements and one of 3"},
		"pair of nothing":          {pick(d.Pair(distance.L2, nil, nil)), "at least 1 element"},
		"batch of half rows":       {pick(d.Batch(distance.L1, v(2), v(3), nil)), "3 elements of rows are not whole vectors of 2"},
		"batch without a query":    {pick(d.Batch(distance.L1, nil, v(3), nil)), "at least 1 element"},
		"matrix of half queries":   {pick(d.Matrix(ctx, distance.L2, 2, v(3), v(2), nil)), "3 elements of queries"},
		"matrix of dimension 0":    {pick(d.Matrix(ctx, distance.L2, 0, v(3), v(2), nil)), "not 0"},
		"matrix of dimension -1":   {pick(d.Matrix(ctx, distance.L2, -1, v(3), v(2), nil)), "not -1"},
		"bits as numbers":          {pick(d.Batch(distance.Hamming, v(2), v(2), nil)), "hamming is not a distance of numbers"},
		"no metric":                {pick(d.Batch(distance.Metric(99), v(2), v(2), nil)), "metric(99)"},
		"numbers as bits":          {pick(d.BatchBits(distance.L2, []byte{1}, []byte{1}, nil)), "l2 is not a distance of bits"},
		"bits of two lengths":      {pick(d.PairBits(distance.Hamming, []byte{1}, nil)), "1 bytes and one of 0"},
		"half rows of bits":        {pick(d.MatrixBits(ctx, distance.Jaccard, 2, []byte{1, 2}, []byte{1}, nil)), "not whole vectors of 2"},
		"nearest 0":                {pick(d.Nearest(ctx, distance.L2, 1, 0, v(1), v(1))), "at least 1 neighbour"},
		"nearest of half rows":     {pick(d.Nearest(ctx, distance.L2, 2, 1, v(2), v(1))), "not whole vectors"},
		"nearest bits -1":          {pick(d.NearestBits(ctx, distance.Hamming, 1, -1, []byte{1}, []byte{1})), "not -1"},
		"sparse beyond its end":    {pick(d.PairSparse(distance.L2, distance.Sparse{Dim: 5}, huge)), "no element 5"},
		"sparse of no dimension":   {pick(d.PairSparse(distance.L2, distance.Sparse{}, huge)), "at least 1 element"},
		"sparse that descends":     {pick(d.PairSparse(distance.L2, distance.Sparse{Dim: 5, Indices: []int32{2, 2}, Values: v(2)}, huge)), "2 comes behind 2"},
		"sparse below 0":           {pick(d.PairSparse(distance.L2, distance.Sparse{Dim: 5, Indices: []int32{-1}, Values: v(1)}, huge)), "-1 comes behind -1"},
		"sparse without values":    {pick(d.PairSparse(distance.L2, distance.Sparse{Dim: 5, Indices: []int32{1}}, huge)), "1 indices and 0 values"},
		"sparse of two dimensions": {pick(d.BatchSparse(distance.L2, distance.Sparse{Dim: 5}, []distance.Sparse{{Dim: 5}, {Dim: 6}}, nil)), "row 1: a vector of 5"},
		"normalize half rows":      {d.Normalize(2, v(3)), "not whole vectors"},
		"normalize infinity":       {d.Normalize(1, inf), "row 0 is infinite"},
		"kmeans of infinity":       {pick(d.KMeans(ctx, 1, 1, inf, distance.KMeansOptions{})), "row 0 is infinite"},
		"kmeans of large numbers":  {pick(d.KMeans(ctx, 1, 1, []float32{0, 3e38}, distance.KMeansOptions{})), "too far from the others"},
		"more clusters than rows":  {pick(d.KMeans(ctx, 1, 3, v(2), distance.KMeansOptions{})), "2 points cannot make 3 clusters"},
		"no clusters":              {pick(d.KMeans(ctx, 1, 0, v(2), distance.KMeansOptions{})), "cannot make 0"},
		"negative iterations":      {pick(d.KMeans(ctx, 1, 1, v(2), distance.KMeansOptions{Iterations: -1})), "not negative"},
	} {
		if overlake.KindOf(c.err) != overlake.KindInvalid || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
	gone := distance.Device(7)
	for name, err := range map[string]error{
		"pair": pick(gone.Pair(distance.L2, v(1), v(1))), "batch": pick(gone.Batch(distance.L2, v(1), v(1), nil)), "matrix": pick(gone.Matrix(ctx, distance.L2, 1, v(1), v(1), nil)),
		"nearest": pick(gone.Nearest(ctx, distance.L2, 1, 1, v(1), v(1))), "bits": pick(gone.PairBits(distance.Hamming, []byte{1}, []byte{1})),
		"nearest bits": pick(gone.NearestBits(ctx, distance.Hamming, 1, 1, []byte{1}, []byte{1})), "sparse": pick(gone.PairSparse(distance.L2, huge, huge)),
		"normalize": gone.Normalize(1, v(1)), "kmeans": pick(gone.KMeans(ctx, 1, 1, v(1), distance.KMeansOptions{})),
	} {
		if overlake.KindOf(err) != overlake.KindUnsupported || overlake.HintOf(err) == "" || !strings.Contains(err.Error(), "device(7)") {
			t.Errorf("%s on no device: %v", name, err)
		}
	}
	// A matrix too large to make, told before it is made: 2^17 by 2^17 distances of one number each.
	large := v(1 << 17)
	if _, err := d.Matrix(ctx, distance.L2, 1, large, large, nil); overlake.KindOf(err) != overlake.KindExhausted || overlake.HintOf(err) == "" {
		t.Errorf("a matrix of 2^34: %v", err)
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	for name, err := range map[string]error{
		"matrix": pick(d.Matrix(done, distance.L2, 1, large[:9], large, nil)), "nearest": pick(d.Nearest(done, distance.L2, 1, 1, large[:9], large)),
		"bits": pick(d.MatrixBits(done, distance.Hamming, 1, []byte{1}, []byte{1}, nil)), "nearest bits": pick(d.NearestBits(done, distance.Hamming, 1, 1, []byte{1}, []byte{1})),
		"kmeans": pick(d.KMeans(done, 1, 2, large, distance.KMeansOptions{})),
	} {
		if overlake.KindOf(err) != overlake.KindCanceled {
			t.Errorf("%s after the end: %v", name, err)
		}
	}
}

// TestNothing: no rows, or no queries, are no error.
func TestNothing(t *testing.T) {
	d, q := distance.Auto, []float32{1, 2}
	if out, err := d.Batch(distance.L2, q, nil, nil); err != nil || len(out) != 0 {
		t.Errorf("%v, %v", out, err)
	}
	if out, err := d.Matrix(t.Context(), distance.L2, 2, nil, q, nil); err != nil || len(out) != 0 {
		t.Errorf("%v, %v", out, err)
	}
	if out, err := d.Nearest(t.Context(), distance.L2, 2, 3, q, nil); err != nil || out.K != 0 || len(out.Rows) != 0 {
		t.Errorf("%v, %v", out, err)
	}
	if out, err := d.BatchSparse(distance.L2, distance.Sparse{Dim: 3}, nil, nil); err != nil || len(out) != 0 {
		t.Errorf("%v, %v", out, err)
	}
	if places, _, err := distance.TopK(nil, 3); err != nil || len(places) != 0 {
		t.Errorf("%v, %v", places, err)
	}
}

// TestOutIsUsed: the caller's memory is taken where it is large enough, and nothing outside of it is touched.
func TestOutIsUsed(t *testing.T) {
	buf := []float32{7, 7, 7, 7}
	out, err := distance.Auto.Batch(distance.L1, []float32{1}, []float32{1, 2, 3}, buf[:0])
	if err != nil || &out[0] != &buf[0] || !slices.Equal(buf, []float32{0, 1, 2, 7}) {
		t.Errorf("%v, %v, %v", out, buf, err)
	}
}

func TestNames(t *testing.T) {
	for got, want := range map[string]string{distance.Auto.String(): "auto", distance.CPU.String(): "cpu", distance.Jaccard.String(): "jaccard",
		distance.L2.String(): "l2", distance.NegativeInnerProduct.String(): "negative_inner_product"} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

package vector_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/checksum"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec"
)

// column makes a column of vectors; nil is NULL.
func column(rows [][]float32) arrow.Array {
	b := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Float32)
	defer b.Release()
	for _, v := range rows {
		if v == nil {
			b.AppendNull()
			continue
		}
		b.Append(true)
		b.ValueBuilder().(*array.Float32Builder).AppendValues(v, nil)
	}
	return b.NewArray()
}

func build(t testing.TB, o vector.Options, rows [][]float32) ([]byte, vector.Stats) {
	t.Helper()
	b, err := vector.NewBuilder(o)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx := context.Background()
	for at := 0; at < len(rows); {
		n := min(1+at%700, len(rows)-at)
		if err := b.Add(ctx, int64(at), column(rows[at:at+n])); err != nil {
			t.Fatal(err)
		}
		at += n
	}
	var out bytes.Buffer
	s, err := b.Finish(ctx, &out, int64(len(rows)))
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), s
}

// cloud draws rows around a few centres, some NULL, some of length 0.
func cloud(rng *rand.Rand, n, dim int) [][]float32 {
	centres := make([]float32, 8*dim)
	for i := range centres {
		centres[i] = float32(rng.NormFloat64() * 3)
	}
	rows := make([][]float32, n)
	for i := range rows {
		if rng.IntN(20) == 0 {
			continue
		}
		rows[i] = make([]float32, dim)
		if rng.IntN(50) == 0 {
			continue
		}
		c := rng.IntN(8)
		for k := range rows[i] {
			rows[i][k] = centres[c*dim+k] + float32(rng.NormFloat64())
		}
	}
	return rows
}

// nearest compares a query with all rows.
func nearest(m vec.Metric, rows [][]float32, query []float32, k int, allowed []uint64) (pos []int64) {
	type hit struct {
		pos int64
		d   float64
	}
	var all []hit
	for i, v := range rows {
		if v == nil || allowed != nil && allowed[i/64]>>(i%64)&1 == 0 {
			continue
		}
		if d := m.Distance(query, v); d == d {
			all = append(all, hit{int64(i), d})
		}
	}
	slices.SortFunc(all, func(a, b hit) int { return cmp.Or(cmp.Compare(a.d, b.d), cmp.Compare(a.pos, b.pos)) })
	for _, h := range all[:min(k, len(all))] {
		pos = append(pos, h.pos)
	}
	return pos
}

// TestKinds: every kind by every metric finds the neighbours, of few rows and of many, filtered or not, and its artifact
// says what it is.
func TestKinds(t *testing.T) {
	ctx := context.Background()
	for _, kind := range vector.Kinds {
		for _, metric := range []string{"l2", "cosine", "ip", "l1"} {
			_, _, err := vector.CheckParam(kind, "metric", metric)
			if err != nil {
				if metric != "l1" || !errs.Is(err, errs.Unsupported) {
					t.Errorf("%s by %s: %v", kind, metric, err)
				}
				continue
			}
			for _, n := range []int{300, 3000} {
				t.Run(fmt.Sprintf("%s/%s/%d", kind, metric, n), func(t *testing.T) {
					rng := rand.New(rand.NewPCG(uint64(n), 7))
					const dim, k = 24, 10
					rows := cloud(rng, n, dim)
					params := map[string]string{"metric": metric}
					b, stats := build(t, vector.Options{Kind: kind, Params: params, Dim: dim, Rows: int64(n)}, rows)
					r, err := vector.Open(ctx, section.Memory(b), int64(len(b)))
					if err != nil {
						t.Fatal(err)
					}
					if got := r.Stats(); got != stats || r.Sum() != checksum.Of(b) || r.Metric().String() != metric || r.Dim() != dim {
						t.Fatalf("%+v of %s, %d dimensions, sum %08x; want %+v", got, r.Metric(), r.Dim(), r.Sum(), stats)
					}
					if asked, built := r.Kind(); asked != kind || n == 300 && built != vector.Flat || n > 300 && built != kind {
						t.Errorf("asked for %s, built %s", asked, built)
					}
					found, wanted := 0, 0
					for q := range 60 {
						query := make([]float32, dim)
						base := rows[rng.IntN(n)]
						for i := range query {
							query[i] = float32(rng.NormFloat64())
							if base != nil {
								query[i] += base[i]
							}
						}
						p := vector.Params{K: k}
						if q%3 == 1 {
							p.Allowed = make([]uint64, (n+63)/64)
							for i := range n {
								if rng.IntN(1+q%7*5) == 0 {
									p.Allowed[i/64] |= 1 << (i % 64)
									p.AllowedCount++
								}
							}
						}
						p.Exact = q%3 == 2
						res, err := r.Search(ctx, query, p)
						if err != nil {
							t.Fatal(err)
						}
						want := nearest(r.Metric(), rows, query, k, p.Allowed)
						short := len(want) < k && (p.Allowed == nil || p.AllowedCount > int64(len(want)))
						if len(res.Hits) != len(want) || res.Short != short {
							t.Fatalf("%d hits, short %v; want %d", len(res.Hits), res.Short, len(want))
						}
						for i, h := range res.Hits {
							if p.Allowed != nil && p.Allowed[h.Pos/64]>>(h.Pos%64)&1 == 0 {
								t.Fatalf("row %d may not be a hit", h.Pos)
							}
							if d := r.Metric().Distance(query, rows[h.Pos]); r.Exact() && math.Abs(d-h.Distance) > 1e-3*math.Max(1, math.Abs(d)) {
								t.Fatalf("row %d at %v, is at %v", h.Pos, h.Distance, d)
							}
							if i > 0 && h.Distance < res.Hits[i-1].Distance {
								t.Fatalf("hits are out of order")
							}
							if slices.Contains(want, h.Pos) {
								found++
							}
						}
						wanted += len(want)
					}
					if recall := float64(found) / float64(wanted); recall < 0.95 {
						t.Errorf("recall %.3f", recall)
					}
				})
			}
		}
	}
}

// TestRowsThatAreNoVectors: what float32 cannot compare is named by every search, vectors of other dimensions make that
// there is no index.
func TestRowsThatAreNoVectors(t *testing.T) {
	ctx := context.Background()
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	rows := [][]float32{{1, 2}, {inf, 0}, nil, {nan, 1}, {3e38, 3e38}, {0, 0}, {1e-30, 0}}
	for metric, want := range map[string]struct {
		vectors, zeros int64
		also           []int64
	}{"l2": {3, 0, []int64{1, 3, 4}}, "ip": {3, 0, []int64{1, 3, 4}}, "cosine": {1, 1, []int64{1, 3, 4, 6}}} {
		b, s := build(t, vector.Options{Kind: vector.HNSW, Params: map[string]string{"metric": metric}}, rows)
		if s.Vectors != want.vectors || s.Zeros != want.zeros || s.Nulls != 1 {
			t.Errorf("%s: %+v", metric, s)
		}
		r, err := vector.Open(ctx, section.Memory(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		res, err := r.Search(ctx, []float32{1, 1}, vector.Params{K: 5})
		if err != nil || !slices.Equal(res.Also, want.also) || !res.Short {
			t.Errorf("%s: %+v %v", metric, res, err)
		}
		if res, err := r.Search(ctx, []float32{1, 1}, vector.Params{K: 5, Allowed: []uint64{0b1000}, AllowedCount: 1}); err != nil || !slices.Equal(res.Also, []int64{3}) {
			t.Errorf("%s: %+v %v", metric, res, err)
		}
		for _, q := range [][]float32{{inf, 1}, {nan, 1}, {3e38, 0}} {
			if _, err := r.Search(ctx, q, vector.Params{K: 1}); !errs.Is(err, errs.Unsupported) {
				t.Errorf("%v: %v", q, err)
			}
		}
		if _, err := r.Search(ctx, []float32{0, 0}, vector.Params{K: 1}); (metric == "cosine") != errs.Is(err, errs.Unsupported) {
			t.Errorf("%s of nothing: %v", metric, err)
		}
		if _, err := r.Search(ctx, []float32{1}, vector.Params{K: 1}); !errs.Is(err, errs.Invalid) {
			t.Errorf("one dimension: %v", err)
		}
		if _, err := r.Search(ctx, []float32{1, 1}, vector.Params{}); !errs.Is(err, errs.Invalid) {
			t.Errorf("no hits: %v", err)
		}
	}
	b, err := vector.NewBuilder(vector.Options{Kind: vector.HNSW})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Add(ctx, 0, column([][]float32{{1, 2}, {1, 2, 3}})); err != nil || !errs.Is(b.Fits(), errs.Unsupported) {
		t.Errorf("two and three dimensions: %v, %v", err, b.Fits())
	}
}

// TestNothing: artifacts without a vector answer.
func TestNothing(t *testing.T) {
	for _, rows := range [][][]float32{nil, {nil, nil}} {
		b, _ := build(t, vector.Options{Kind: vector.IVF}, rows)
		r, err := vector.Open(context.Background(), section.Memory(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		res, err := r.Search(context.Background(), []float32{1, 2, 3}, vector.Params{K: 3})
		if err != nil || len(res.Hits) != 0 || res.Short != (len(rows) > 0) {
			t.Errorf("%d rows: %+v %v", len(rows), res, err)
		}
	}
}

// TestGraphWithoutRoom: where a graph does not fit into memory, lists take its place; a flat index has no other place.
func TestGraphWithoutRoom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	rows := cloud(rng, 20_000, 100)
	spill := func() (vector.SpillFile, error) { return os.CreateTemp(t.TempDir(), "spill") }
	for metric, want := range map[string]vector.Kind{"l2": vector.IVF, "l1": vector.IVFFlat} {
		b, _ := build(t, vector.Options{Kind: vector.HNSW, Params: map[string]string{"metric": metric}, Rows: 20_000, Memory: 6 << 20, Spill: spill}, rows)
		r, err := vector.Open(context.Background(), section.Memory(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		if asked, built := r.Kind(); asked != vector.HNSW || built != want {
			t.Errorf("asked for %s, built %s, want %s", asked, built, want)
		}
	}
	b, err := vector.NewBuilder(vector.Options{Kind: vector.Flat, Memory: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Add(context.Background(), 0, column(rows)); err != nil || !errs.Is(b.Fits(), errs.Exhausted) {
		t.Errorf("a flat index of 8 MB in one: %v, %v", err, b.Fits())
	}
}

// TestDamage flips bytes of artifacts: either that is seen, or the answer is as before.
func TestDamage(t *testing.T) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(2, 2))
	rows := cloud(rng, 1300, 8)
	query := []float32{1, -1, 2, 0, 1, 1, 0, -2}
	for _, kind := range []vector.Kind{vector.Flat, vector.HNSWTQ8, vector.IVF, vector.IVFFlat} {
		b, _ := build(t, vector.Options{Kind: kind, Rows: 1300}, rows)
		r, err := vector.Open(ctx, section.Memory(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		want, err := r.Search(ctx, query, vector.Params{K: 5})
		if err != nil {
			t.Fatal(err)
		}
		for range 800 {
			bad := slices.Clone(b)
			bad[rng.IntN(len(bad))] ^= 1 << rng.IntN(8)
			x, err := vector.Open(ctx, section.Memory(bad), int64(len(bad)))
			if err != nil || x.Sum() != r.Sum() {
				continue
			}
			got, err := x.Search(ctx, query, vector.Params{K: 5})
			if err == nil && !slices.Equal(got.Hits, want.Hits) {
				t.Fatalf("%s: %v, want %v", kind, got.Hits, want.Hits)
			}
		}
		for n := 0; n < len(b); n += 1 + len(b)/200 {
			if _, err := vector.Open(ctx, section.Memory(b[:n]), int64(n)); err == nil {
				t.Fatalf("%s opens when it is cut to %d bytes", kind, n)
			}
		}
	}
}

func FuzzOpen(f *testing.F) {
	rng := rand.New(rand.NewPCG(3, 3))
	for _, kind := range []vector.Kind{vector.Flat, vector.HNSWTQ4, vector.IVF} {
		b, _ := build(f, vector.Options{Kind: kind, Rows: 1200}, cloud(rng, 1200, 4))
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := vector.Open(context.Background(), section.Memory(b), int64(len(b)))
		if err != nil {
			return
		}
		r.Search(context.Background(), make([]float32, min(r.Dim(), 1000)), vector.Params{K: 3})
	})
}

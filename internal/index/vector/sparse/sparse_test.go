package sparse_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/index/vector/sparse"
	"github.com/overlakedb/overlake/internal/vec"
)

func open(t testing.TB, b []byte, m vec.Metric, dim int, rows int64) (*sparse.Index, error) {
	t.Helper()
	f, err := section.Open(context.Background(), section.Memory(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return sparse.Open(context.Background(), f, m, dim, rows)
}

func build(t testing.TB, m vec.Metric, rows []vec.Sparse) []byte {
	t.Helper()
	b := sparse.NewBuilder(m, 4<<30)
	for i := range rows {
		if err := b.Add(uint32(i), &rows[i]); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	w := section.NewWriter(&out)
	if err := b.Write(w); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// expansions draws vectors such as models of learned sparse retrieval make: some hundred words of 30,522, the frequent ones
// in many rows, with weights that fall off.
func expansions(rng *rand.Rand, n, elements int) []vec.Sparse {
	const dim = 30522
	rows := make([]vec.Sparse, n)
	seen := make([]int, dim)
	for i := range rows {
		v := &rows[i]
		v.Dim = dim
		for range elements/2 + rng.IntN(elements) {
			w := int32(math.Pow(dim, rng.Float64())) % dim
			if rng.IntN(2) == 0 { // of a subject
				w = int32(i%97*300+int(math.Pow(300, rng.Float64()))) % dim
			}
			if seen[w] != i+1 {
				seen[w] = i + 1
				v.Index = append(v.Index, w)
			}
		}
		slices.Sort(v.Index)
		for range v.Index {
			v.Value = append(v.Value, float32(math.Log1p(rng.ExpFloat64()*2)))
		}
	}
	return rows
}

// TestCancelled: the end of a context ends a search.
func TestCancelled(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	rows := expansions(rng, 100, 20)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, m := range []vec.Metric{vec.MetricDot, vec.MetricL1, vec.MetricL2} {
		x, err := open(t, build(t, m, rows), m, rows[0].Dim, 100)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := x.Search(ctx, &rows[3], sparse.Params{K: 1}); !errs.Is(err, errs.Canceled) {
			t.Errorf("%s: %v", m, err)
		}
		if _, _, err := x.Search(context.Background(), &rows[3], sparse.Params{}); !errs.Is(err, errs.Invalid) {
			t.Errorf("no hits by %s: %v", m, err)
		}
	}
}

// TestListsArePruned: of the postings of a query, the search looks at a part, and compares few rows in full.
func TestListsArePruned(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	rows := expansions(rng, 30_000, 40)
	for _, m := range []vec.Metric{vec.MetricDot, vec.MetricCosine, vec.MetricL2} {
		x, err := open(t, build(t, m, rows), m, rows[0].Dim, int64(len(rows)))
		if err != nil {
			t.Fatal(err)
		}
		full, compared, postings := 0, int64(0), int64(0)
		for range 10 {
			q := rows[rng.IntN(len(rows))]
			in := map[int32]bool{}
			for _, d := range q.Index {
				in[d] = true
			}
			for _, r := range rows {
				for _, d := range r.Index {
					if in[d] {
						full++
					}
				}
			}
			_, w, err := x.Search(context.Background(), &q, sparse.Params{K: 10})
			if err != nil || w.Scan {
				t.Fatal(w, err)
			}
			compared += w.Rows
			postings += w.Postings
		}
		t.Logf("%s: %d of %d postings, %d rows", m, postings, full, compared)
		// The lengths of vectors differ too much for l2 to leave out lists.
		if m != vec.MetricL2 && postings >= int64(full) || postings > int64(full) || compared > 10*2000 {
			t.Errorf("%s: %d of %d postings, %d rows", m, postings, full, compared)
		}
	}
}

// FuzzSections opens sections of any bytes, whose checksums are right: Open refuses them, or a search ends without a panic.
func FuzzSections(f *testing.F) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(3, 3))
	rows := make([]vec.Sparse, 12)
	for i := range rows {
		rows[i] = vec.Sparse{Dim: 6, Index: []int32{int32(i % 3), int32(3 + rng.IntN(3))}, Value: []float32{1, float32(rng.NormFloat64())}}
	}
	metrics := []vec.Metric{vec.MetricL2, vec.MetricDot, vec.MetricCosine, vec.MetricL1}
	for i, m := range metrics {
		b := build(f, m, rows)
		s, err := section.Open(ctx, section.Memory(b), int64(len(b)))
		if err != nil {
			f.Fatal(err)
		}
		var all []byte // each section behind its kind and length
		for _, e := range s.Sections() {
			all = binary.LittleEndian.AppendUint16(all, uint16(e.Kind))
			all = binary.LittleEndian.AppendUint16(all, uint16(e.Length))
			all = append(all, b[e.Offset:e.Offset+e.Length]...)
		}
		f.Add(byte(i), all)
	}
	f.Fuzz(func(t *testing.T, metric byte, all []byte) {
		var out bytes.Buffer
		w := section.NewWriter(&out)
		for seen := map[uint16]bool{}; len(all) >= 4; {
			kind, n := binary.LittleEndian.Uint16(all), int(binary.LittleEndian.Uint16(all[2:]))
			if all = all[4:]; n > len(all) || seen[kind] || len(seen) > 30 {
				return
			}
			seen[kind] = true
			w.Begin(section.Kind(kind))
			w.Write(all[:n])
			all = all[n:]
		}
		if _, err := w.Close(); err != nil {
			t.Fatal(err)
		}
		x, err := open(t, out.Bytes(), metrics[int(metric)%4], 6, 1<<20)
		if err != nil {
			if !errs.Is(err, errs.Corrupt) {
				t.Fatal(err)
			}
			return
		}
		for _, q := range []vec.Sparse{{Dim: 6, Index: []int32{0, 4}, Value: []float32{1, 2}}, {Dim: 6, Index: []int32{1, 3, 5}, Value: []float32{-1, 1, 2}}} {
			for _, p := range []sparse.Params{{K: 3}, {K: 100}, {Ranged: true, Within: 0.5}, {K: 2, Allowed: []uint64{0xff0}, AllowedCount: 100}} {
				if _, _, err := x.Search(ctx, &q, p); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// BenchmarkSearch is what a query of 30 words costs among rows of about 100.
func BenchmarkSearch(b *testing.B) {
	n := 100_000
	if s := os.Getenv("OVERLAKE_SPARSE_ROWS"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	rng := rand.New(rand.NewPCG(4, 4))
	rows := expansions(rng, n, 100)
	queries := expansions(rng, 200, 30)
	for _, m := range []vec.Metric{vec.MetricDot, vec.MetricCosine, vec.MetricL2} {
		bytes := build(b, m, rows)
		x, err := open(b, bytes, m, rows[0].Dim, int64(n))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("%s/%d", m, n), func(b *testing.B) {
			i, postings, compared := 0, int64(0), int64(0)
			for b.Loop() {
				_, w, err := x.Search(b.Context(), &queries[i%len(queries)], sparse.Params{K: 10})
				if err != nil {
					b.Fatal(err)
				}
				i++
				postings += w.Postings
				compared += w.Rows
			}
			b.ReportMetric(float64(postings)/float64(b.N), "postings/op")
			b.ReportMetric(float64(compared)/float64(b.N), "rows/op")
			b.ReportMetric(float64(len(bytes))/float64(n), "bytes/row")
		})
		b.Run(fmt.Sprintf("all compared/%s/%d", m, n), func(b *testing.B) {
			i := 0
			for b.Loop() {
				q := &queries[i%len(queries)]
				best := make([]float64, n)
				for k := range rows {
					if m == vec.MetricL2 {
						best[k] = vec.SparseL2(q, &rows[k])
					} else {
						best[k] = -float64(vec.SparseDot(q, &rows[k]))
					}
				}
				slices.SortFunc(best, func(a, b float64) int { return cmp.Compare(a, b) })
				i++
			}
		})
	}
}

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
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/checksum"
	"github.com/overlakedb/overlake/internal/declared"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec"
)

// values are the rows of a column in some form, with the distance of each to a query.
type values struct {
	form   vector.Form
	dim    int
	column func(from, to int) arrow.Array
	n      int
	query  func(rng *rand.Rand) vector.Query
	// distance gives NaN for a row that is no hit.
	distance func(m vec.Metric, q vector.Query, i int) float64
}

// bitStrings draws rows of n bits around a few strings, some NULL.
func bitStrings(rng *rand.Rand, rows, n int) values {
	draw := func(density int) []byte {
		b := make([]byte, (n+7)/8)
		for i := range n {
			if rng.IntN(density) == 0 {
				b[i/8] |= 0x80 >> (i % 8)
			}
		}
		return b
	}
	all := make([][]byte, rows)
	for i := range all {
		if rng.IntN(15) > 0 {
			all[i] = draw(1 + rng.IntN(6))
		}
		if rng.IntN(30) == 0 {
			all[i] = make([]byte, (n+7)/8)
		}
	}
	return values{form: vector.Bits, dim: n, n: rows,
		column: func(from, to int) arrow.Array {
			b := array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.Binary)
			defer b.Release()
			for _, v := range all[from:to] {
				if v == nil {
					b.AppendNull()
					continue
				}
				b.Append(v)
			}
			return b.NewArray()
		},
		query: func(rng *rand.Rand) vector.Query {
			return vector.Query{Form: vector.Bits, Bits: draw(1 + rng.IntN(4)), Count: n}
		},
		distance: func(m vec.Metric, q vector.Query, i int) float64 {
			switch {
			case all[i] == nil:
				return math.NaN()
			case m == vec.MetricJaccard:
				return vec.Jaccard(q.Bits, all[i])
			}
			return float64(vec.Hamming(q.Bits, all[i]))
		}}
}

// sparseVectors draws rows of a few elements, the low dimensions more often; some NULL, some without an element. Elements
// are positive, or of both signs, or small whole numbers so that ties are many.
func sparseVectors(rng *rand.Rand, rows, dim, most int, sign string) values {
	draw := func(rng *rand.Rand, most int) vec.Sparse {
		v := vec.Sparse{Dim: dim}
		places := map[int32]bool{}
		for range rng.IntN(most + 1) {
			places[int32(float64(dim)*math.Pow(rng.Float64(), 3))] = true
		}
		for p := range places {
			v.Index = append(v.Index, p)
		}
		slices.Sort(v.Index)
		for range v.Index {
			x := float32(rng.ExpFloat64()) + 1e-3
			switch sign {
			case "both":
				x = float32(rng.NormFloat64())
			case "negative":
				x = -x
			case "whole":
				x = []float32{-2, -1, 1, 2}[rng.IntN(4)]
			}
			v.Value = append(v.Value, x)
		}
		return v
	}
	all := make([]*vec.Sparse, rows)
	for i := range all {
		if rng.IntN(20) > 0 {
			v := draw(rng, most)
			all[i] = &v
		}
	}
	return values{form: vector.Sparse, dim: dim, n: rows,
		column: func(from, to int) arrow.Array {
			b := array.NewBuilder(memory.DefaultAllocator, declared.Type{Name: "sparsevec"}.Storage()).(*array.StructBuilder)
			defer b.Release()
			for _, v := range all[from:to] {
				if v == nil {
					b.AppendNull()
					continue
				}
				b.Append(true)
				b.FieldBuilder(0).(*array.Int32Builder).Append(int32(v.Dim))
				l := b.FieldBuilder(1).(*array.ListBuilder)
				l.Append(true)
				l.ValueBuilder().(*array.Int32Builder).AppendValues(v.Index, nil)
				l = b.FieldBuilder(2).(*array.ListBuilder)
				l.Append(true)
				l.ValueBuilder().(*array.Float32Builder).AppendValues(v.Value, nil)
			}
			return b.NewArray()
		},
		query: func(rng *rand.Rand) vector.Query {
			v := draw(rng, most)
			return vector.Query{Form: vector.Sparse, Sparse: &v}
		},
		distance: func(m vec.Metric, q vector.Query, i int) float64 {
			switch {
			case all[i] == nil:
				return math.NaN()
			case m == vec.MetricL2:
				return vec.SparseL2(q.Sparse, all[i])
			case m == vec.MetricL1:
				return vec.SparseL1(q.Sparse, all[i])
			case m == vec.MetricDot:
				return 0 - float64(vec.SparseDot(q.Sparse, all[i]))
			}
			return vec.SparseCosine(q.Sparse, all[i])
		}}
}

func buildForm(t testing.TB, kind vector.Kind, metric string, v values) ([]byte, vector.Stats) {
	t.Helper()
	b, err := vector.NewBuilder(vector.Options{Kind: kind, Form: v.form, Params: map[string]string{"metric": metric}, Dim: v.dim, Rows: int64(v.n)})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx := context.Background()
	for at := 0; at < v.n; {
		n := min(1+at%700, v.n-at)
		if err := b.Add(ctx, int64(at), v.column(at, at+n)); err != nil {
			t.Fatal(err)
		}
		at += n
	}
	var out bytes.Buffer
	s, err := b.Finish(ctx, &out, int64(v.n))
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), s
}

// sorted are all rows that may be hits, by their distances.
func (v *values) sorted(m vec.Metric, q vector.Query, allowed []uint64) (hits []vector.Hit) {
	for i := range v.n {
		if allowed != nil && allowed[i/64]>>(i%64)&1 == 0 {
			continue
		}
		if d := v.distance(m, q, i); d == d {
			hits = append(hits, vector.Hit{Pos: int64(i), Distance: d})
		}
	}
	slices.SortFunc(hits, func(a, b vector.Hit) int {
		return cmp.Or(cmp.Compare(a.Distance, b.Distance), cmp.Compare(a.Pos, b.Pos))
	})
	return hits
}

// TestForms: an index over bit strings or sparse vectors gives what a sort of all distances gives, to the last bit.
func TestForms(t *testing.T) {
	seeds := uint64(1)
	if os.Getenv("OVERLAKE_DEEP") != "" {
		seeds = 15
	}
	for seed := range seeds {
		testForms(t, seed)
	}
}

func testForms(t *testing.T, seed uint64) {
	ctx := context.Background()
	for name, draw := range map[string]func(*rand.Rand) values{
		"bits 1":           func(rng *rand.Rand) values { return bitStrings(rng, 300, 1) },
		"bits 70":          func(rng *rand.Rand) values { return bitStrings(rng, 3000, 70) },
		"bits 256":         func(rng *rand.Rand) values { return bitStrings(rng, 3000, 256) },
		"sparse few":       func(rng *rand.Rand) values { return sparseVectors(rng, 60, 5, 3, "whole") },
		"sparse positive":  func(rng *rand.Rand) values { return sparseVectors(rng, 20_000, 500, 20, "positive") },
		"sparse wide":      func(rng *rand.Rand) values { return sparseVectors(rng, 9000, 1_000_000_000, 9, "positive") },
		"sparse both":      func(rng *rand.Rand) values { return sparseVectors(rng, 9000, 300, 20, "both") },
		"sparse negatives": func(rng *rand.Rand) values { return sparseVectors(rng, 3000, 300, 20, "negative") },
		"sparse whole":     func(rng *rand.Rand) values { return sparseVectors(rng, 9000, 100, 8, "whole") },
	} {
		rng := rand.New(rand.NewPCG(5, seed))
		v := draw(rng)
		metrics, kinds := []string{"l2", "cosine", "ip", "l1"}, []vector.Kind{vector.HNSW, vector.Flat}
		if v.form == vector.Bits {
			metrics, kinds = []string{"hamming", "jaccard"}, []vector.Kind{vector.HNSW, vector.IVFFlat, vector.Flat}
		}
		for i, metric := range metrics {
			t.Run(name+"/"+metric, func(t *testing.T) {
				b, stats := buildForm(t, kinds[i%len(kinds)], metric, v)
				r, err := vector.Open(ctx, section.Memory(b), int64(len(b)))
				if err != nil {
					t.Fatal(err)
				}
				if got := r.Stats(); got != stats || r.Sum() != checksum.Of(b) || r.Metric().String() != metric || r.Form() != v.form || !r.Exact() {
					t.Fatalf("%+v of %s, sum %08x; want %+v", got, r.Metric(), r.Sum(), stats)
				}
				if asked, _ := r.Kind(); asked != kinds[i%len(kinds)] {
					t.Errorf("asked for %s", asked)
				}
				if len(v.sorted(r.Metric(), v.query(rng), nil)) > int(stats.Vectors) {
					t.Fatalf("%d vectors", stats.Vectors)
				}
				for n := range 40 {
					q := v.query(rng)
					if metric == "cosine" && len(q.Sparse.Index) == 0 {
						continue
					}
					p := vector.Params{K: []int{1, 10, 100, v.n + 5}[n%4]}
					if n%5 > 2 {
						p.Allowed = make([]uint64, (v.n+63)/64)
						for i := range v.n {
							if rng.IntN(1+n%3*40) == 0 {
								p.Allowed[i/64] |= 1 << (i % 64)
								p.AllowedCount++
							}
						}
					}
					want := v.sorted(r.Metric(), q, p.Allowed)
					if n%7 == 6 && len(want) > 0 {
						p.K, p.Ranged = 0, true
						p.Within = want[rng.IntN(len(want))].Distance
						want = slices.DeleteFunc(want, func(h vector.Hit) bool { return h.Distance >= p.Within })
					}
					if p.K > 0 {
						want = want[:min(p.K, len(want))]
					}
					res, err := r.Find(ctx, q, p)
					if err != nil {
						t.Fatal(err)
					}
					if p.Ranged { // those that are as far but for the last digits come too
						for len(res.Hits) > len(want) && res.Hits[len(res.Hits)-1].Distance <= p.Within+math.Abs(p.Within)*1e-4+2e-3 {
							res.Hits = res.Hits[:len(res.Hits)-1]
						}
					}
					if !slices.Equal(res.Hits, want) {
						at := 0
						for at < min(len(want), len(res.Hits)) && res.Hits[at] == want[at] {
							at++
						}
						t.Fatalf("query %d %+v: %d hits, want %d; they differ from %d on: %v, want %v", n, p.K, len(res.Hits), len(want), at, res.Hits[at:min(at+3, len(res.Hits))], want[at:min(at+3, len(want))])
					}
					all := p.Allowed != nil && p.AllowedCount <= int64(len(res.Hits)+len(res.Also)) // that may be hits
					if !p.Ranged && res.Short != (len(want) < p.K && stats.Nulls+stats.Zeros > 0 && !all) {
						t.Fatalf("short %v with %d of %d hits", res.Short, len(want), p.K)
					}
				}
			})
		}
	}
}

// TestFormsThatAreRefused: kinds, metrics and operator classes that a form does not have tell which it has.
func TestFormsThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		form   vector.Form
		kind   vector.Kind
		metric string
		want   string
	}{
		{vector.Bits, vector.HNSW, "vector_l2_ops", "bit_hamming_ops or bit_jaccard_ops"},
		{vector.Bits, vector.HNSW, "cosine", "hamming or jaccard"},
		{vector.Bits, vector.IVF, "hamming", "flat, hnsw or ivfflat"},
		{vector.Sparse, vector.HNSW, "bit_hamming_ops", "sparsevec_l2_ops, sparsevec_cosine_ops, sparsevec_ip_ops or sparsevec_l1_ops"},
		{vector.Sparse, vector.HNSW, "halfvec_l2_ops", "sparsevec_l2_ops"},
		{vector.Sparse, vector.Flat, "jaccard", "l2, cosine, ip or l1"},
		{vector.Sparse, vector.IVFFlat, "l2", "flat or hnsw"},
		{vector.Dense, vector.HNSW, "sparsevec_l2_ops", "vector_l2_ops"},
		{vector.Dense, vector.HNSW, "hamming", "l2, cosine, ip or l1"},
	} {
		err := vector.CheckForm(c.form, c.kind, c.metric)
		if !errs.Is(err, errs.Unsupported) || !strings.Contains(errs.HintOf(err), c.want) {
			t.Errorf("%s over %s by %s: %v (%s), want %s", c.kind, c.form, c.metric, err, errs.HintOf(err), c.want)
		}
	}
	for _, c := range []struct {
		form   vector.Form
		kind   vector.Kind
		metric string
	}{{vector.Bits, vector.IVFFlat, "bit_hamming_ops"}, {vector.Bits, vector.HNSW, ""}, {vector.Sparse, vector.HNSW, "SPARSEVEC_IP_OPS"}, {vector.Sparse, vector.Flat, "l1"}, {vector.Dense, vector.BQ, "halfvec_ip_ops"}} {
		if err := vector.CheckForm(c.form, c.kind, c.metric); err != nil {
			t.Errorf("%s over %s by %s: %v", c.kind, c.form, c.metric, err)
		}
	}
	v := bitStrings(rand.New(rand.NewPCG(1, 1)), 100, 40)
	b, _ := buildForm(t, vector.HNSW, "hamming", v)
	r, err := vector.Open(context.Background(), section.Memory(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []vector.Query{vector.DenseQuery(make([]float32, 40)), {Form: vector.Bits, Bits: make([]byte, 6), Count: 41}, {Form: vector.Sparse, Sparse: &vec.Sparse{Dim: 40}}} {
		if _, err := r.Find(context.Background(), q, vector.Params{K: 1}); !errs.Is(err, errs.Invalid) {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

// TestRowsThatAreNoValues: rows that are no bit strings or sparse vectors of the column are named by every search.
func TestRowsThatAreNoValues(t *testing.T) {
	ctx := context.Background()
	bb := array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.Binary)
	for _, s := range []string{"\xa0", "\xa1", "\xa0\x00", ""} {
		bb.Append([]byte(s))
	}
	sb := array.NewBuilder(memory.DefaultAllocator, declared.Type{Name: "sparsevec"}.Storage()).(*array.StructBuilder)
	inf := float32(math.Inf(1))
	for _, v := range []vec.Sparse{{Dim: 4, Index: []int32{1}, Value: []float32{2}}, {Dim: 4, Index: []int32{4}, Value: []float32{2}}, {Dim: 4, Index: []int32{0}, Value: []float32{inf}},
		{Dim: 4, Index: []int32{0}, Value: []float32{2e30}}, {Dim: 4, Index: []int32{0}, Value: []float32{1e-30}}, {Dim: 4}} {
		sb.Append(true)
		sb.FieldBuilder(0).(*array.Int32Builder).Append(int32(v.Dim))
		l := sb.FieldBuilder(1).(*array.ListBuilder)
		l.Append(true)
		l.ValueBuilder().(*array.Int32Builder).AppendValues(v.Index, nil)
		l = sb.FieldBuilder(2).(*array.ListBuilder)
		l.Append(true)
		l.ValueBuilder().(*array.Float32Builder).AppendValues(v.Value, nil)
	}
	sparseColumn := sb.NewArray()
	for _, c := range []struct {
		form   vector.Form
		metric string
		dim    int
		column arrow.Array
		also   []int64
		zeros  int64
		query  vector.Query
	}{
		{vector.Bits, "hamming", 4, bb.NewArray(), []int64{1, 2, 3}, 0, vector.Query{Form: vector.Bits, Bits: []byte{0x10}, Count: 4}},
		{vector.Sparse, "l2", 0, sparseColumn, []int64{1, 2, 3}, 0, vector.Query{Form: vector.Sparse, Sparse: &vec.Sparse{Dim: 4, Index: []int32{1}, Value: []float32{3}}}},
		{vector.Sparse, "cosine", 4, sparseColumn, []int64{1, 2, 3, 4}, 1, vector.Query{Form: vector.Sparse, Sparse: &vec.Sparse{Dim: 4, Index: []int32{1}, Value: []float32{1}}}},
	} {
		b, err := vector.NewBuilder(vector.Options{Kind: vector.HNSW, Form: c.form, Params: map[string]string{"metric": c.metric}, Dim: c.dim})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Add(ctx, 0, c.column); err != nil || b.Fits() != nil {
			t.Fatal(err, b.Fits())
		}
		var out bytes.Buffer
		s, err := b.Finish(ctx, &out, int64(c.column.Len()))
		if err != nil || s.Zeros != c.zeros {
			t.Fatal(s, err)
		}
		r, err := vector.Open(ctx, section.Memory(out.Bytes()), s.Size)
		if err != nil {
			t.Fatal(err)
		}
		if res, err := r.Find(ctx, c.query, vector.Params{K: 1}); err != nil || !slices.Equal(res.Also, c.also) || len(res.Hits) != 1 || res.Hits[0].Pos != 0 {
			t.Errorf("%s by %s: %+v %v", c.form, c.metric, res, err)
		}
	}
	for _, c := range []struct {
		o      vector.Options
		column arrow.Array
		kind   errs.Kind
	}{
		{vector.Options{Kind: vector.HNSW, Form: vector.Bits, Params: map[string]string{"metric": "hamming"}, Dim: 256, Memory: 1000}, bitStrings(rand.New(rand.NewPCG(1, 1)), 100, 256).column(0, 100), errs.Exhausted},
		{vector.Options{Kind: vector.HNSW, Form: vector.Sparse, Memory: 1000}, sparseVectors(rand.New(rand.NewPCG(1, 1)), 100, 9, 5, "both").column(0, 100), errs.Exhausted},
		{vector.Options{Kind: vector.HNSW, Form: vector.Sparse, Dim: 7}, sparseColumn, errs.Unsupported},
		{vector.Options{Kind: vector.HNSW, Form: vector.Bits, Params: map[string]string{"metric": "hamming"}}, bitStrings(rand.New(rand.NewPCG(1, 1)), 100, 256).column(0, 100), errs.Unsupported},
	} {
		b, err := vector.NewBuilder(c.o)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Add(ctx, 0, c.column); err != nil || !errs.Is(b.Fits(), c.kind) {
			t.Errorf("%v, %v; want %v", err, b.Fits(), c.kind)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	b, err := vector.NewBuilder(vector.Options{Kind: vector.HNSW, Form: vector.Sparse})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Add(ctx, 0, column([][]float32{{1}})); !errs.Is(err, errs.Invalid) {
		t.Errorf("a column of lists: %v", err)
	}
}

// smallForms are artifacts of every form and metric, with a query.
func smallForms(t testing.TB) (list []smallForm) {
	rng := rand.New(rand.NewPCG(9, 9))
	for _, metric := range []string{"hamming", "jaccard", "l2", "ip", "cosine", "l1"} {
		v := bitStrings(rng, 20, 70)
		if metric[0] != 'h' && metric[0] != 'j' {
			v = sparseVectors(rng, 20, 9, 4, "both")
		}
		b, _ := buildForm(t, vector.HNSW, metric, v)
		q := v.query(rng)
		for v.form == vector.Sparse && len(q.Sparse.Index) < 2 {
			q = v.query(rng)
		}
		list = append(list, smallForm{metric, b, q})
	}
	return list
}

type smallForm struct {
	metric string
	bytes  []byte
	query  vector.Query
}

// TestDamageOfForms changes every byte of small artifacts and cuts them at every length: that is seen, or it changes nothing.
func TestDamageOfForms(t *testing.T) {
	ctx := context.Background()
	for _, f := range smallForms(t) {
		r, err := vector.Open(ctx, section.Memory(f.bytes), int64(len(f.bytes)))
		if err != nil {
			t.Fatal(err)
		}
		want, err := r.Find(ctx, f.query, vector.Params{K: 5})
		if err != nil || len(want.Hits) != 5 {
			t.Fatal(want, err)
		}
		for at := range f.bytes {
			bad := slices.Clone(f.bytes)
			bad[at] ^= 1 << (at % 8)
			x, err := vector.Open(ctx, section.Memory(bad), int64(len(bad)))
			if err != nil || x.Sum() != r.Sum() {
				continue
			}
			if got, err := x.Find(ctx, f.query, vector.Params{K: 5}); err == nil && !slices.Equal(got.Hits, want.Hits) {
				t.Fatalf("%s, byte %d: %v, want %v", f.metric, at, got.Hits, want.Hits)
			}
			if x.Sum() == checksum.Of(bad) {
				t.Fatalf("%s, byte %d: the sum is as before", f.metric, at)
			}
		}
		for n := range f.bytes {
			if _, err := vector.Open(ctx, section.Memory(f.bytes[:n]), int64(n)); err == nil {
				t.Fatalf("%s opens when it is cut to %d bytes", f.metric, n)
			}
		}
	}
}

func FuzzForms(f *testing.F) {
	for _, s := range smallForms(f) {
		f.Add(s.bytes)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		ctx := context.Background()
		r, err := vector.Open(ctx, section.Memory(b), int64(len(b)))
		if err != nil {
			return
		}
		q := vector.DenseQuery(make([]float32, min(r.Dim(), 1000)))
		switch r.Form() {
		case vector.Bits:
			q = vector.Query{Form: vector.Bits, Bits: make([]byte, (min(r.Dim(), 1000)+7)/8), Count: min(r.Dim(), 1000)}
		case vector.Sparse:
			q = vector.Query{Form: vector.Sparse, Sparse: &vec.Sparse{Dim: r.Dim(), Index: []int32{0, 2, 3}, Value: []float32{1, -1, 2}}}
		}
		for _, p := range []vector.Params{{K: 3}, {Ranged: true, Within: 1}, {K: 30, Allowed: []uint64{0xffff}, AllowedCount: 16}} {
			if _, err := r.Find(ctx, q, p); errs.Is(err, errs.Internal) {
				t.Fatal(err)
			}
		}
	})
}

// BenchmarkBits is what a row costs.
func BenchmarkBits(b *testing.B) {
	for _, metric := range []string{"hamming", "jaccard"} {
		rng := rand.New(rand.NewPCG(1, 1))
		v := bitStrings(rng, 2000, 768)
		const times = 500
		x, err := vector.NewBuilder(vector.Options{Kind: vector.HNSW, Form: vector.Bits, Params: map[string]string{"metric": metric}, Dim: 768})
		if err != nil {
			b.Fatal(err)
		}
		col := v.column(0, v.n)
		for i := range times {
			if err := x.Add(b.Context(), int64(i*v.n), col); err != nil {
				b.Fatal(err)
			}
		}
		var out bytes.Buffer
		s, err := x.Finish(b.Context(), &out, times*int64(v.n))
		if err != nil {
			b.Fatal(err)
		}
		r, err := vector.Open(b.Context(), section.Memory(out.Bytes()), s.Size)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("%s/%d", metric, s.Vectors), func(b *testing.B) {
			for b.Loop() {
				if _, err := r.Find(b.Context(), v.query(rng), vector.Params{K: 10}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(s.Vectors), "ns/row")
		})
	}
}

package segment_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/posting"
	"github.com/overlakedb/overlake/internal/index/bm25/segment"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
	"github.com/overlakedb/overlake/internal/row"
)

// answers are what a damaged segment may not say otherwise.
type answers struct {
	hits  []row.Hits
	count []int64
	terms []string
	walk  []posting.Term
}

// asked are queries over the texts of the test below.
func asked(rng *rand.Rand, of texts, fs []segment.Field) (out []want) {
	for range 12 {
		out = append(out, drawQuery(rng, of, len(fs), func(f int) bool { return fs[f].Positions }))
	}
	return append(out, want{terms: []string{"always"}, fields: []int{0}, weights: []float32{1}, repeats: []int{1}, slop: -1})
}

func answer(t *testing.T, b []byte, o segment.OpenOptions, queries []want, norms []*[256]float32) (a answers, err error) {
	ctx := t.Context()
	r, err := segment.Open(ctx, memory(b), int64(len(b)), o)
	if err != nil {
		return a, err
	}
	for f := range r.Fields() {
		err := r.Walk(ctx, f, nil, func(term []byte, p posting.Term) ([]byte, bool) {
			a.terms, a.walk = append(a.terms, string(term)), append(a.walk, p)
			return nil, true
		})
		if err != nil {
			return a, err
		}
	}
	for _, q := range queries {
		query := segment.Query{All: q.all, MinMatch: q.min, Norms: norms}
		var terms []posting.Term
		for i, w := range q.terms {
			got, err := r.Lookup(ctx, q.fields[i], [][]byte{[]byte(w)})
			if err != nil {
				return a, err
			}
			terms = append(terms, got[0])
		}
		if q.slop >= 0 {
			query.Phrase = &segment.Phrase{Field: q.fields[0], Terms: terms, Offsets: q.offsets, Slop: q.slop, Weight: q.weights[0]}
		} else {
			for i, term := range terms {
				query.Clauses = append(query.Clauses, segment.Clause{Field: q.fields[i], Term: term, Weight: q.weights[i], Repeat: q.repeats[i]})
			}
		}
		c := collector(5, -1)
		if err := r.Best(ctx, &query, nil, 0, c); err != nil {
			return a, err
		}
		a.hits, a.count = append(a.hits, c.Top.Hits()), append(a.count, c.Hits)
	}
	return a, nil
}

// TestEveryByteIsChecked flips each byte of an artifact, and cuts it: an error, or the right answer.
func TestEveryByteIsChecked(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 7))
	of := draw(rng, shape{rows: 300, fields: 2, vocabulary: 60, length: 5, skew: 0.3, empty: 0.1, gaps: true, dense: 0.7})
	fs := fields(2, true)
	b := build(t, of, 0, len(of), segment.Options{Fields: fs})
	norms := modelOf(of, 0, len(of), 2).norms(similarity.DefaultParams)
	queries := asked(rng, of, fs)
	// Small segments are held whole: the other way of reading takes more than the tail.
	large := draw(rng, shape{rows: 5000, fields: 2, vocabulary: 3000, length: 12, skew: 0.2, empty: 0.1, gaps: true, dense: 0.7})
	lb := build(t, large, 0, len(large), segment.Options{Fields: fs})
	lnorms := modelOf(large, 0, len(large), 2).norms(similarity.DefaultParams)
	lqueries := asked(rng, large, fs)[:4]
	if len(lb) < 100<<10 {
		t.Fatalf("only %d bytes", len(lb))
	}
	for _, c := range []struct {
		artifact []byte
		queries  []want
		norms    []*[256]float32
		step     int
	}{{b, queries, norms, 1}, {lb, lqueries, lnorms, 331}} {
		want, err := answer(t, c.artifact, segment.OpenOptions{}, c.queries, c.norms)
		if err != nil {
			t.Fatal(err)
		}
		failed, tried := 0, 0
		try := func(what string, at int, b []byte) {
			t.Helper()
			got, err := answer(t, b, segment.OpenOptions{}, c.queries, c.norms)
			tried++
			if err != nil {
				if failed++; !errs.Is(err, errs.Corrupt) && !errs.Is(err, errs.Unsupported) {
					t.Fatalf("%s %d: %v", what, at, err)
				}
				return
			}
			same := slices.EqualFunc(got.hits, want.hits, func(a, b row.Hits) bool { return slices.Equal(a, b) })
			if !same || !slices.Equal(got.count, want.count) || !slices.Equal(got.terms, want.terms) || !slices.Equal(got.walk, want.walk) {
				t.Fatalf("%s %d of %d: another answer", what, at, len(b))
			}
		}
		for i := 0; i < len(c.artifact); i += c.step {
			bad := slices.Clone(c.artifact)
			bad[i] ^= 1 << (i % 8)
			try("byte", i, bad)
		}
		if c.step == 1 && failed < tried*9/10 {
			t.Errorf("of %d flipped bytes, %d were seen", tried, failed)
		}
		for n := 0; n < len(c.artifact); n += 7 * c.step {
			try("cut to", n, c.artifact[:n])
		}
	}
}

package segment

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/best"
	"github.com/overlakedb/overlake/internal/index/bm25/posting"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/row"
)

// TestMain lets panics through.
func TestMain(m *testing.M) {
	guarded = false
	os.Exit(m.Run())
}

type bytesSource []byte

func (m bytesSource) ReadAtContext(_ context.Context, p []byte, off int64) (int, error) {
	if off < 0 || off > int64(len(m)) {
		return 0, io.EOF
	}
	n := copy(p, m[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

var allKinds = [5]section.Kind{postingsSection, lengthsSection, dictionarySection, indexSection, headSection}

// artifacts are the sections of some small segments.
func artifacts(t testing.TB) (all [][5][]byte) {
	for seed, n := range []int{0, 3, 40, 300} {
		rng := rand.New(rand.NewPCG(uint64(seed), 8))
		b, err := NewBuilder(Options{Fields: []Field{{Positions: true, Params: similarity.DefaultParams}, {Params: similarity.DefaultParams}}})
		if err != nil {
			t.Fatal(err)
		}
		for r := range n {
			for f := range 2 {
				if err := b.Begin(uint32(r), f); err != nil {
					t.Fatal(err)
				}
				at := 0
				for range rng.IntN(6) {
					b.Token([]byte{byte('a' + rng.IntN(3)*rng.IntN(12)), byte('a' + f)}, at)
					at += rng.IntN(3)
				}
				if err := b.End(); err != nil {
					t.Fatal(err)
				}
			}
		}
		var out bytes.Buffer
		if _, err := b.Finish(t.Context(), &out, int64(n)); err != nil {
			t.Fatal(err)
		}
		file, err := section.Open(t.Context(), bytesSource(out.Bytes()), int64(out.Len()))
		if err != nil {
			t.Fatal(err)
		}
		var parts [5][]byte
		for i, k := range allKinds {
			if parts[i], err = file.Load(t.Context(), k); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, parts)
	}
	return all
}

// FuzzSections gives a reader any sections under right checksums, so that what lies behind them is reached too.
func FuzzSections(f *testing.F) {
	for _, p := range artifacts(f) {
		f.Add(p[0], p[1], p[2], p[3], p[4])
	}
	f.Fuzz(func(t *testing.T, a, b, c, d, e []byte) { try(t, [5][]byte{a, b, c, d, e}) })
}

// FuzzArtifact gives a reader any bytes.
func FuzzArtifact(f *testing.F) {
	for _, p := range artifacts(f) {
		f.Add(pack(p))
	}
	f.Fuzz(func(t *testing.T, b []byte) { readAll(t, b) })
}

// TestMutations does so for random changes of small segments.
func TestMutations(t *testing.T) {
	n := 3000
	if os.Getenv("OVERLAKE_DEEP") != "" {
		n = 300_000
	}
	rng := rand.New(rand.NewPCG(51, 52))
	seeds := artifacts(t)
	for range n {
		parts := seeds[rng.IntN(len(seeds))]
		for range 1 + rng.IntN(3) {
			p := &parts[[]int{0, 0, 2, 2, 3, 4, 1}[rng.IntN(7)]]
			*p = bytes.Clone(*p)
			if len(*p) == 0 {
				continue
			}
			at := rng.IntN(len(*p))
			switch rng.IntN(5) {
			case 0:
				(*p)[at] ^= 1 << rng.IntN(8)
			case 1:
				(*p)[at] = byte(rng.Uint32())
			case 2:
				(*p)[at] = 0xff
			case 3:
				if rng.IntN(4) == 0 {
					*p = (*p)[:at]
				}
			case 4:
				clear((*p)[at:min(at+4, len(*p))])
			}
		}
		try(t, parts)
	}
}

func pack(parts [5][]byte) []byte {
	var out bytes.Buffer
	w := section.NewWriter(&out)
	for i, k := range allKinds {
		w.Begin(k)
		w.Write(parts[i])
	}
	w.Close()
	return out.Bytes()
}

func try(t *testing.T, parts [5][]byte) {
	t.Helper()
	readAll(t, pack(parts))
}

// readAll opens a segment, reads everything in it and searches.
func readAll(t *testing.T, b []byte) {
	t.Helper()
	ctx := t.Context()
	for _, resident := range []bool{true, false} {
		r, err := Open(ctx, bytesSource(b), int64(len(b)), OpenOptions{})
		if err == nil {
			r.resident = resident
			err = readFields(ctx, r)
		}
		if err != nil && !errs.Is(err, errs.Corrupt) && !errs.Is(err, errs.Unsupported) {
			t.Fatalf("%v", err)
		}
	}
}

func readFields(ctx context.Context, r *Reader) error {
	var first error
	keep := func(err error) {
		if first == nil {
			first = err
		}
	}
	norms := make([]*[256]float32, r.Fields())
	for f := range norms {
		st := r.Stats(f)
		n := similarity.InverseNorms(similarity.DefaultParams, similarity.AverageLength(st.Docs, st.SumTotalTermFreq))
		norms[f] = &n
	}
	filter := NewFilter(row.BitmapOf(0, 1, 3, 4, 50, 51, 52, 200), r.Rows())
	for f := range r.Fields() {
		if _, err := r.Lengths(ctx, f); err != nil {
			keep(err)
		}
		var terms []posting.Term
		keep(r.Walk(ctx, f, nil, func(_ []byte, t posting.Term) ([]byte, bool) {
			terms = append(terms, t)
			return nil, len(terms) < 200
		}))
		_, err := r.Lookup(ctx, f, [][]byte{[]byte("aa"), []byte("ba"), []byte("zz")})
		keep(err)
		for _, t := range terms {
			c, err := r.Postings(ctx, f, t, r.Field(f).Positions)
			if err != nil {
				keep(err)
				continue
			}
			for n := 0; c.Next() != posting.End; n++ {
				c.Freq()
				c.Positions()
				if n%7 == 6 {
					c.Advance(c.Row() + 20)
				}
			}
			keep(c.Err())
		}
		var queries []Query
		for i := 0; i+3 <= len(terms) && i < 12; i += 3 {
			c := []Clause{{f, terms[i], 1, 1}, {f, terms[i+1], 2, 1}, {f, terms[i+2], 0.5, 2}}
			queries = append(queries, Query{Clauses: c[:1]}, Query{Clauses: c}, Query{Clauses: c[:2], All: true}, Query{Clauses: c, MinMatch: 2})
			if r.Field(f).Positions {
				queries = append(queries, Query{Phrase: &Phrase{Field: f, Terms: terms[i : i+2], Weight: 1}}, Query{Phrase: &Phrase{Field: f, Terms: []posting.Term{terms[i], terms[i+1], terms[i]}, Slop: 3, Weight: 1}})
			}
		}
		for _, q := range queries {
			q.Norms = norms
			for _, track := range []int64{-1, 0} {
				for _, flt := range []*Filter{nil, filter} {
					keep(r.Best(ctx, &q, flt, 0, &Collector{Top: best.New(3), Track: track}))
				}
			}
		}
		keep(mergeOne(ctx, r))
	}
	return first
}

// mergeOne rewrites a segment.
func mergeOne(ctx context.Context, r *Reader) error {
	_, err := Merge(ctx, io.Discard, int64(r.Rows()), []Part{{Reader: r}}, MergeOptions{})
	return err
}

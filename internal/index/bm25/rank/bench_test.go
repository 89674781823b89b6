package rank_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/index/bm25"
	"github.com/overlakedb/overlake/internal/index/bm25/memory"
	"github.com/overlakedb/overlake/internal/index/bm25/query"
	"github.com/overlakedb/overlake/internal/index/bm25/rank"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
)

// BenchmarkQueries measures forms over 50,000 rows of 20 words in memory, words as frequent as in a language; ns/posting is
// over the postings of the terms.
func BenchmarkQueries(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	zipf := rand.NewZipf(rng, 1.1, 5, 30_000)
	white := find(b, "whitespace")
	builder := memory.NewBuilder(memory.Options{Analyzers: []*analysis.Analyzer{white}, Positions: true})
	for range 50_000 {
		var row strings.Builder
		for range 20 {
			fmt.Fprintf(&row, "w%d ", zipf.Uint64())
		}
		if err := builder.Add(row.String()); err != nil {
			b.Fatal(err)
		}
	}
	segments := []rank.Segment{{Source: builder.Source()}}
	schema := &query.Schema{Fields: []query.Field{{Name: "body", Analyzer: white}}}
	for _, c := range []struct{ name, text string }{
		{"term", "w3"}, {"or2", "w3 w40"}, {"or5", "w3 w7 w40 w200 w900"}, {"or30", "w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11 w12 w13 w14 w15 w16 w17 w18 w19 w20 w21 w22 w23 w24 w25 w26 w27 w28 w29 w30"},
		{"and2", "+w3 +w7"}, {"and5", "+w3 +w7 +w1 +w2 +w5"}, {"phrase", `"w1 w2"`}, {"sloppy", `"w1 w2 w3"~4`}, {"prefix", "w12*"}, {"wildcard", "w*7"}, {"fuzzy", "w4711~2"}, {"must-should", "+w3 w7 w40 -w1"},
	} {
		n, err := query.QueryString(c.text, query.StringOptions{Fields: []query.FieldBoost{{Name: "body"}}})
		if err != nil {
			b.Fatal(err)
		}
		node, err := query.Lower(n, schema)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(c.name, func(b *testing.B) {
			var rows int64
			b.ReportAllocs()
			for b.Loop() {
				q, err := rank.Prepare(b.Context(), node, []rank.Field{{Name: "body"}}, segments)
				if err != nil {
					b.Fatal(err)
				}
				r, err := q.Search(b.Context(), segments, rank.Options{Limit: 10, Track: -1})
				if err != nil {
					b.Fatal(err)
				}
				rows = r.Total
			}
			b.ReportMetric(float64(rows), "rows")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(max(rows, 1)), "ns/row")
		})
	}
}

// BenchmarkScan measures a query of three words over 20,000 rows without an index, beside package bm25, which knows only this
// form, and beside analysis alone.
func BenchmarkScan(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	zipf := rand.NewZipf(rng, 1.1, 5, 30_000)
	a := find(b, "standard")
	var rows []string
	for range 20_000 {
		var row strings.Builder
		for range 30 {
			fmt.Fprintf(&row, "w%d ", zipf.Uint64())
		}
		rows = append(rows, row.String())
	}
	schema := &query.Schema{Fields: []query.Field{{Name: "body", Analyzer: a}}}
	b.Run("analysis", func(b *testing.B) {
		var s analysis.Stream
		for b.Loop() {
			for range 2 {
				for _, r := range rows {
					for s.Reset(a, r); s.Next(); {
					}
				}
			}
		}
	})
	b.Run("bm25", func(b *testing.B) {
		for b.Loop() {
			q := bm25.ParseQuery(a, "w3 w40 w900")
			st := bm25.Stats{DocFreq: map[string]int64{}}
			var index bm25.TermIndex
			for _, t := range q.Terms {
				index.Add(t)
			}
			freqs := make([]int64, len(q.Terms))
			seen := make([]int, len(q.Terms))
			var s analysis.Stream
			for at, r := range rows {
				n := int64(0)
				for s.Reset(a, r); s.Next(); n++ {
					if i := index.Find(s.Term); i >= 0 && seen[i] != at+1 {
						seen[i] = at + 1
						freqs[i]++
					}
				}
				st.Docs++
				st.SumTotalTermFreq += n
			}
			for i, t := range q.Terms {
				st.DocFreq[t] = freqs[i]
			}
			scorer, top := bm25.NewScorer(a, q, st, similarity.DefaultParams), rank.NewTop(10, -1)
			var state bm25.State
			for at, r := range rows {
				if x, ok := scorer.ScoreMatch(r, &state); ok {
					top.Count(1)
					top.Add(rank.Hit{Row: int64(at), Score: x})
				}
			}
			b.ReportMetric(float64(top.Result().Total), "rows")
		}
	})
	for name, text := range map[string]string{"words": "w3 w40 w900", "phrase": `"w3 w5"`, "fuzzy": "w4711~1", "prefix": "w12*"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				n, err := query.QueryString(text, query.StringOptions{Fields: []query.FieldBoost{{Name: "body"}}})
				if err != nil {
					b.Fatal(err)
				}
				node, err := query.Lower(n, schema)
				if err != nil {
					b.Fatal(err)
				}
				p, err := rank.NewPlan(node, []rank.Field{{Name: "body"}})
				if err != nil {
					b.Fatal(err)
				}
				s := rank.Scan{Analyzers: []*analysis.Analyzer{a}, Rows: func(_ context.Context, yield func(...string) error) error {
					for _, r := range rows {
						if err := yield(r); err != nil {
							return err
						}
					}
					return nil
				}}
				st, err := s.Gather(b.Context(), p)
				if err != nil {
					b.Fatal(err)
				}
				q, err := p.Bind(st)
				if err != nil {
					b.Fatal(err)
				}
				top := rank.NewTop(10, -1)
				if err := s.Collect(b.Context(), p, q, rank.Options{}, top); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(top.Result().Total), "rows")
			}
		})
	}
}

package rank_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/index/bm25/memory"
	"github.com/overlakedb/overlake/internal/index/bm25/query"
	"github.com/overlakedb/overlake/internal/index/bm25/rank"
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

package rank_test

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/index/bm25/memory"
	"github.com/overlakedb/overlake/internal/index/bm25/primitive"
	"github.com/overlakedb/overlake/internal/index/bm25/query"
	"github.com/overlakedb/overlake/internal/index/bm25/rank"
)

var rewrite = flag.Bool("rewrite", false, "write what is found into testdata")

// TestRankings runs testdata/rankings.txt: rows, queries in Lucene's syntax or in the simple one, and the rows they find,
// with scores, or the explanation of one.
func TestRankings(t *testing.T) {
	const file = "testdata/rankings.txt"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	schema := &query.Schema{Fields: []query.Field{{Name: "title", Analyzer: find(t, "english")}, {Name: "body", Analyzer: find(t, "english")}}}
	fields := []rank.Field{{Name: "title"}, {Name: "body"}}
	var rows [][]string
	var segments []rank.Segment
	var out strings.Builder
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		out.WriteString(line + "\n")
		if line == "" || strings.HasPrefix(line, "--") {
			continue
		}
		command, rest, _ := strings.Cut(line, " ")
		if command == "rows" {
			rows, segments = nil, nil
			continue
		}
		if command == "row" {
			title, body, _ := strings.Cut(rest, "|")
			rows = append(rows, []string{strings.TrimSpace(title), strings.TrimSpace(body)})
			segments = nil
			continue
		}
		if segments == nil {
			for at := 0; at < len(rows); at += 3 { // three rows a source
				b := memory.NewBuilder(memory.Options{Analyzers: []*analysis.Analyzer{schema.Fields[0].Analyzer, schema.Fields[1].Analyzer}, Positions: true})
				for _, r := range rows[at:min(at+3, len(rows))] {
					if err := b.Add(r...); err != nil {
						t.Fatal(err)
					}
				}
				segments = append(segments, rank.Segment{Source: b.Source(), Base: int64(at)})
			}
		}
		o := query.StringOptions{Fields: []query.FieldBoost{{Name: "title", Boost: 2}, {Name: "body"}}}
		at := 0
		if command == "explain" {
			var number string
			number, rest, _ = strings.Cut(rest, " ")
			at, _ = strconv.Atoi(number)
		}
		text := strings.Trim(rest, "`")
		var n query.Node
		if command == "simple" {
			n, err = query.Simple(text, o)
		} else {
			n, err = query.QueryString(text, o)
		}
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		var p primitive.Node
		if p, err = query.Lower(n, schema); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		q, err := rank.Prepare(t.Context(), p, fields, segments)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		var got string
		if command == "explain" {
			s := segments[at/3]
			e, err := q.Explain(t.Context(), s, uint32(at%3), rank.Options{})
			if err != nil {
				t.Fatal(err)
			}
			got = e.String()
		} else {
			r, err := q.Search(t.Context(), segments, rank.Options{Limit: 10, Track: -1})
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range r.Hits {
				got += fmt.Sprintf("%-10v %d %s\n", h.Score, h.Row, rows[h.Row][0])
			}
			if r.Hits == nil {
				got = "nothing\n"
			}
		}
		got = "    " + strings.ReplaceAll(strings.TrimSuffix(got, "\n"), "\n", "\n    ")
		var want []string
		for i+1 < len(lines) && strings.HasPrefix(lines[i+1], "    ") {
			i++
			want = append(want, lines[i])
		}
		if !*rewrite && strings.Join(want, "\n") != got {
			t.Errorf("%s\n got\n%s\nwant\n%s", line, got, strings.Join(want, "\n"))
		}
		out.WriteString(got + "\n")
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

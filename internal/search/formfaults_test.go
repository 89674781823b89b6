package search_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/index/bm25/query"
	"github.com/overlakedb/overlake/internal/index/bm25/rank"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/overlay"
	"github.com/overlakedb/overlake/internal/row"
	"github.com/overlakedb/overlake/internal/search"
)

// formQuestions are queries of many forms, bound under the statistics of a scan, and the rows that they match.
func formQuestions(t testing.TB, table *lake.Table) (list []textQuestion) {
	t.Helper()
	plan, err := table.Plan(t.Context(), lake.Ref{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := analysis.Find("standard")
	if err != nil {
		t.Fatal(err)
	}
	files := textFiles(table, plan)
	for _, text := range []string{"w3 w41", `"w1 w2"`, `"w1 w2 w5"~4`, "w5*", "+w7 -w2", "w41~1", "w?", "w2 AND (w3 OR w4)^2", "/w[3-5]9/"} {
		tree, err := query.QueryString(text, query.StringOptions{Fields: []query.FieldBoost{{Name: "body"}}})
		if err != nil {
			t.Fatal(err)
		}
		node, err := query.Lower(tree, &query.Schema{Fields: []query.Field{{Name: "body", Analyzer: a}}})
		if err != nil {
			t.Fatal(err)
		}
		x := textQuestion{text: text, ask: search.TextQuery{Field: 1, Analyzer: a}}
		if x.ask.Form, err = rank.NewPlan(node, []rank.Field{{Name: "body"}}); err != nil {
			t.Fatal(err)
		}
		st, _, err := search.FormStats(t.Context(), plan, nil, files, x.ask)
		if err != nil {
			t.Fatal(err)
		}
		if x.ask.Ranked, err = x.ask.Form.Bind(st); err != nil {
			t.Fatal(err)
		}
		for i := range plan.Files {
			scan := rank.Scan{Analyzers: []*analysis.Analyzer{a}, Rows: func(ctx context.Context, yield func(...string) error) error {
				r, err := files[i].Read(ctx)
				if err != nil {
					return err
				}
				defer r.Release()
				for r.Next() {
					for k := range int(r.RecordBatch().NumRows()) {
						text := r.RecordBatch().Column(0).ValueStr(k)
						if r.RecordBatch().Column(0).IsNull(k) {
							text = ""
						}
						if err := yield(text); err != nil {
							return err
						}
					}
				}
				return r.Err()
			}}
			top := rank.NewTop(10_000, -1)
			if err := scan.Collect(t.Context(), x.ask.Form, x.ask.Ranked, rank.Options{}, top); err != nil {
				t.Fatal(err)
			}
			for _, h := range top.Result().Hits {
				if !plan.Files[i].Deletes.Contains(h.Row) {
					x.hits = append(x.hits, row.Hit{Addr: row.Addr{File: uint32(i), Pos: h.Row}, Score: h.Score})
				}
			}
		}
		x.hits.SortDescending()
		list = append(list, x)
	}
	return list
}

// formAnswers asks an overlay the forms, and compares what it tells with what a scan says.
func formAnswers(ctx context.Context, s *overlay.Set, table *lake.Table, questions []textQuestion) (u textUsage, err error) {
	plan, err := table.Plan(ctx, lake.Ref{}, nil)
	if err != nil {
		return u, err
	}
	view, err := s.Of(table).View(ctx, plan.Schema)
	if err != nil {
		return u, err
	}
	for _, x := range questions {
		st, used, err := search.FormStats(ctx, plan, view, textFiles(table, plan), x.ask)
		if err != nil {
			return u, err
		}
		if used != "" {
			u.stats++
		}
		ask := x.ask
		if ask.Ranked, err = ask.Form.Bind(st); err != nil {
			return u, err
		}
		if got, want := ask.Ranked.Expansion(), x.ask.Ranked.Expansion(); got != want {
			return u, fmt.Errorf("%s became %s, %s by scan", x.text, got, want)
		}
		const k = 12
		hits, ok, err := search.FindTexts(ctx, plan, view, search.TextRequest{TextQuery: ask, K: k, Ties: true, Matches: true})
		if err != nil {
			return u, err
		}
		if ok {
			u.best++
			got := map[row.Addr]bool{}
			for _, i := range hits.Access.Scan {
				for p := range plan.Files[i].Rows {
					got[row.Addr{File: uint32(i), Pos: p}] = true
				}
			}
			for _, f := range hits.Access.Fetch {
				for p := range f.Rows.All() {
					got[row.Addr{File: uint32(f.File), Pos: p}] = true
				}
			}
			for _, h := range x.hits[:min(k, len(x.hits))] {
				if !got[h.Addr] {
					return u, fmt.Errorf("%s: row %v of score %v is not among the best", x.text, h.Addr, h.Score)
				}
			}
		}
		sets, used, err := search.TextMatches(ctx, plan, view, ask)
		if err != nil {
			return u, err
		}
		if used != "" {
			u.matches++
			for _, h := range x.hits {
				if set := sets[h.File]; set != nil && !set.Contains(h.Pos) {
					return u, fmt.Errorf("%s: row %v matches and is not named", x.text, h.Addr)
				}
			}
		}
	}
	return u, nil
}

// Queries of any form are answered by an index as by a scan, and a changed byte of it changes no answer.
func TestBytesOfTextIndexesUnderForms(t *testing.T) {
	store := objstore.NewMemory("formbytes")
	table := textTable(t, store)
	questions := formQuestions(t, table)
	u, err := formAnswers(t.Context(), open(t, store, nil), table, questions)
	if err != nil {
		t.Fatal(err)
	}
	if u.stats != len(questions) || u.best < 6 || u.matches < 6 {
		t.Errorf("of %d questions the index told statistics %d times, the best rows %d times, the matching ones %d times", len(questions), u.stats, u.best, u.matches)
	}
	rng := rand.New(rand.NewPCG(6, 6))
	told := 0
	for name, data := range objects(t, store) {
		if !strings.HasSuffix(name, ".puffin") || !strings.Contains(name, "_overlay/") {
			continue
		}
		step := max(len(data)/25, 1)
		for at := rng.IntN(step); at < len(data); at += 1 + rng.IntN(2*step) {
			bad := append([]byte(nil), data...)
			bad[at] ^= 1 << rng.IntN(8)
			put(t, store, name, bad)
			var e events
			if _, err := formAnswers(t.Context(), open(t, store, &e), table, questions); err != nil {
				t.Fatalf("%s, byte %d: %v", name, at, err)
			}
			if e.len() > 0 {
				told++
			}
			put(t, store, name, data)
		}
	}
	if told < 5 {
		t.Errorf("%d changed bytes were noticed", told)
	}
}

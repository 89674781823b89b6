package search_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/overlay"
	"github.com/overlakedb/overlake/internal/row"
	"github.com/overlakedb/overlake/internal/search"
)

// Indexes of texts under faults: statistics, best rows and matching rows are those of a scan.

var textSchema = arrow.NewSchema([]arrow.Field{{Name: "body", Type: arrow.BinaryTypes.String, Nullable: true}}, nil)

func textsOf(seed uint64, n int) array.RecordReader {
	rng := rand.New(rand.NewPCG(seed, 9))
	b := array.NewRecordBuilder(memory.DefaultAllocator, textSchema)
	defer b.Release()
	texts := b.Field(0).(*array.StringBuilder)
	for i := range n {
		if i%9 == 4 {
			texts.AppendNull()
			continue
		}
		words := make([]string, rng.IntN(30))
		for k := range words {
			words[k] = fmt.Sprint("w", min(rng.IntN(60), rng.IntN(60)))
		}
		texts.Append(strings.Join(words, " "))
	}
	rec := b.NewRecordBatch()
	defer rec.Release()
	out, err := array.NewRecordReader(textSchema, []arrow.RecordBatch{rec})
	if err != nil {
		panic(err) // of one batch of the schema
	}
	return out
}

// textTable has an artifact of one file and one of two, deleted rows, and a file without an index.
func textTable(t testing.TB, store objstore.Store) *lake.Table {
	t.Helper()
	table, err := lake.OpenFileCatalog(store).Create(t.Context(), lake.Ident{Namespace: lake.DefaultNamespace, Name: "texts"}, lake.CreateSpec{Schema: textSchema})
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, store, nil)
	if _, err := s.Of(table).Define(t.Context(), table, overlay.Spec{Name: "words", Kind: overlay.Text, Columns: []string{"body"}}); err != nil {
		t.Fatal(err)
	}
	add := func(seed uint64, n int) {
		var err error
		if table, _, err = table.Append(t.Context(), textsOf(seed, n), lake.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	add(1, 700)
	build(t, s, table)
	add(2, 60)
	add(3, 90)
	build(t, s, table)
	table = remove(t, table, 7)
	add(4, 50)
	return table
}

// textUsage is what indexes told.
type textUsage struct{ stats, best, matches int }

// textQuestion is a query with what a scan says of it.
type textQuestion struct {
	text  string
	ask   search.TextQuery
	stats bm25.Stats
	hits  row.Hits // all rows that match, the best first
}

func textFiles(table *lake.Table, plan *lake.Plan) []search.TextFile {
	files := make([]search.TextFile, len(plan.Files))
	for i := range plan.Files {
		f := &plan.Files[i]
		files[i] = search.TextFile{Read: func(ctx context.Context) (array.RecordReader, error) {
			return table.ReadFile(ctx, f, []string{"body"}, lake.Ref{}, false)
		}}
	}
	return files
}

// textQuestions asks the texts themselves.
func textQuestions(t testing.TB, table *lake.Table) (list []textQuestion) {
	t.Helper()
	plan, err := table.Plan(t.Context(), lake.Ref{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	deletes := &row.Set{}
	for i := range plan.Files {
		if d := plan.Files[i].Deletes; d.Len() > 0 {
			deletes.Put(uint32(i), d)
		}
	}
	a, err := analysis.Find("standard")
	if err != nil {
		t.Fatal(err)
	}
	files := textFiles(table, plan)
	for _, text := range []string{"w0", "w3 w41", "w59", "w1 w2 w3 w4 w50", "w5 w5 w7", "nothing", ""} {
		for _, all := range []bool{false, true} {
			q := bm25.ParseQuery(a, text)
			q.All = all
			x := textQuestion{text: text, ask: search.TextQuery{Field: 1, Analyzer: a, Query: q}}
			if x.stats, _, err = search.TextStats(t.Context(), nil, plan, nil, files, x.ask); err != nil {
				t.Fatal(err)
			}
			hits, err := search.FlatText(t.Context(), search.FlatRequest{Files: files, Analyzer: a, Queries: []bm25.Query{q}, Params: similarity.DefaultParams, K: 10_000, Deletes: deletes})
			if err != nil {
				t.Fatal(err)
			}
			x.hits = hits[0]
			list = append(list, x)
		}
	}
	return list
}

// textAnswers asks an overlay, and compares what it tells with what a scan says.
func textAnswers(ctx context.Context, s *overlay.Set, table *lake.Table, questions []textQuestion) (u textUsage, err error) {
	plan, err := table.Plan(ctx, lake.Ref{}, nil)
	if err != nil {
		return u, err
	}
	view, err := s.Of(table).View(ctx, plan.Schema)
	if err != nil {
		return u, err
	}
	files := textFiles(table, plan)
	cache := search.NewTextCache()
	for _, x := range questions {
		stats, used, err := search.TextStats(ctx, cache, plan, view, files, x.ask)
		if err != nil {
			return u, err
		}
		if used != "" {
			u.stats++
		}
		for _, term := range x.ask.Query.Terms {
			if stats.DocFreq[term] != x.stats.DocFreq[term] {
				return u, fmt.Errorf("%q: %d rows with %s, %d by scan", x.text, stats.DocFreq[term], term, x.stats.DocFreq[term])
			}
		}
		if stats.Docs != x.stats.Docs || stats.SumTotalTermFreq != x.stats.SumTotalTermFreq {
			return u, fmt.Errorf("%q: %d rows of %d terms, %d of %d by scan", x.text, stats.Docs, stats.SumTotalTermFreq, x.stats.Docs, x.stats.SumTotalTermFreq)
		}
		const k = 12
		scorer := bm25.NewScorer(x.ask.Analyzer, x.ask.Query, stats, similarity.DefaultParams)
		hits, ok, err := search.FindTexts(ctx, plan, view, search.TextRequest{TextQuery: x.ask, Scorer: scorer, K: k, Ties: true, Matches: true})
		if err != nil {
			return u, err
		}
		if ok {
			u.best++
			scanned := map[int]bool{}
			for _, f := range hits.Access.Scan {
				scanned[f] = true
			}
			got := map[row.Addr]bool{}
			for _, f := range hits.Access.Fetch {
				for p := range f.Rows.All() {
					got[row.Addr{File: uint32(f.File), Pos: p}] = true
				}
			}
			for _, h := range x.hits[:min(k, len(x.hits))] {
				if !scanned[int(h.File)] && !got[h.Addr] {
					return u, fmt.Errorf("%q: row %v of score %v is not among the best", x.text, h.Addr, h.Score)
				}
			}
			for a := range got {
				if plan.Files[a.File].Deletes.Contains(a.Pos) {
					return u, fmt.Errorf("%q: row %v is deleted, and named", x.text, a)
				}
			}
			if len(got) > 3*k {
				return u, fmt.Errorf("%q: %d rows for the best %d", x.text, len(got), k)
			}
		}
		sets, used, err := search.TextMatches(ctx, plan, view, x.ask)
		if err != nil {
			return u, err
		}
		if used != "" {
			u.matches++
			for _, h := range x.hits {
				if set := sets[h.File]; set != nil && !set.Contains(h.Pos) {
					return u, fmt.Errorf("%q: row %v matches and is not named", x.text, h.Addr)
				}
			}
		}
	}
	return u, nil
}

// healsTexts looks that a damaged overlay gives right answers, tells, and is whole again after a build.
func healsTexts(t testing.TB, store objstore.Store, table *lake.Table, questions []textQuestion, what string) (told bool) {
	t.Helper()
	var e events
	s := open(t, store, &e)
	u, err := textAnswers(t.Context(), s, table, questions)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	return e.len() > 0 || u.stats < 12
}

func TestTextsAreFoundByIndex(t *testing.T) {
	store := objstore.NewMemory("texts")
	table := textTable(t, store)
	questions := textQuestions(t, table)
	u, err := textAnswers(t.Context(), open(t, store, nil), table, questions)
	if err != nil {
		t.Fatal(err)
	}
	if u.stats != 14 || u.best < 10 || u.matches < 10 {
		t.Errorf("of 14 questions the index told statistics %d times, the best rows %d times, the matching ones %d times", u.stats, u.best, u.matches)
	}
}

// A changed byte of an overlay with texts never changes an answer.
func TestBytesOfTextIndexes(t *testing.T) {
	store := objstore.NewMemory("textbytes")
	table := textTable(t, store)
	questions := textQuestions(t, table)
	was := objects(t, store)
	rng := rand.New(rand.NewPCG(5, 5))
	flipped, told := 0, 0
	for name, data := range was {
		if !strings.Contains(name, "_overlay/") {
			continue
		}
		step := max(len(data)/60, 1)
		for at := rng.IntN(step); at < len(data); at += 1 + rng.IntN(2*step) {
			bad := append([]byte(nil), data...)
			bad[at] ^= 1 << rng.IntN(8)
			put(t, store, name, bad)
			flipped++
			if healsTexts(t, store, table, questions, fmt.Sprintf("%s, byte %d", name, at)) {
				told++
			}
			put(t, store, name, data)
		}
	}
	if flipped < 150 || told < flipped/3 {
		t.Errorf("%d bytes were changed, and %d noticed", flipped, told)
	}
}

// Objects that are gone or cut never change an answer, and what was found damaged is built anew.
func TestTextBundlesGoneAndCut(t *testing.T) {
	store := objstore.NewMemory("textcut")
	table := textTable(t, store)
	questions := textQuestions(t, table)
	was := objects(t, store)
	for name, data := range was {
		if !strings.Contains(name, "_overlay/") {
			continue
		}
		for _, n := range []int{0, 1, len(data) / 2, len(data) - 1} {
			put(t, store, name, data[:n])
			healsTexts(t, store, table, questions, fmt.Sprintf("%s, cut to %d", name, n))
		}
		if err := store.Delete(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		healsTexts(t, store, table, questions, name+" is gone")
		restore(t, store, was)
	}
	for name, data := range was {
		if strings.HasSuffix(name, ".puffin") {
			put(t, store, name, data[:len(data)/2])
		}
	}
	var e events
	s := open(t, store, &e)
	if _, err := textAnswers(t.Context(), s, table, questions); err != nil || e.len() == 0 {
		t.Fatalf("%d events, %v", e.len(), err)
	}
	if _, err := s.Of(table).Cover(t.Context(), table, overlay.BuildOptions{}); err != nil {
		t.Fatal(err)
	}
	if u, err := textAnswers(t.Context(), open(t, store, nil), table, questions); err != nil || u.stats != 14 {
		t.Errorf("after the build: %+v, %v", u, err)
	}
}

// A query that is ended ends with that, not with an answer by other means.
func TestEndedTextQuery(t *testing.T) {
	store := objstore.NewMemory("textend")
	table := textTable(t, store)
	questions := textQuestions(t, table)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := textAnswers(ctx, open(t, store, nil), table, questions); !errs.Is(err, errs.Canceled) {
		t.Errorf("ended: %v", err)
	}
}

// Random histories of a table with an index of texts: rows come and go, the index follows or lags, another analyzer makes it useless for
// a while. Answers are those of a scan, and no row that was deleted comes back.
func TestTextHistories(t *testing.T) {
	seed := seedOf(t)
	var told textUsage
	for n := range 4 {
		rng := rand.New(rand.NewPCG(seed, uint64(n)))
		store := objstore.NewMemory("texthistory")
		table := textTable(t, store)
		s := open(t, store, nil)
		var did []string
		for step := range 10 {
			var what string
			var err error
			switch what = []string{"append", "append", "delete", "delete", "build", "build", "overwrite", "alter", "reopen"}[rng.IntN(9)]; what {
			case "append":
				table, _, err = table.Append(t.Context(), textsOf(rng.Uint64(), 20+rng.IntN(200)), lake.WriteOptions{})
			case "delete":
				table = remove(t, table, int64(2+rng.IntN(9)))
			case "build":
				_, err = s.Of(table).Cover(t.Context(), table, overlay.BuildOptions{Anew: rng.IntN(4) == 0})
			case "overwrite":
				if step < 5 {
					continue
				}
				table, _, err = table.Overwrite(t.Context(), textsOf(rng.Uint64(), 300), lake.WriteOptions{})
			case "alter":
				_, err = s.Of(table).Alter(t.Context(), "words", map[string]string{"analyzer": []string{"standard", "simple"}[rng.IntN(2)]})
			case "reopen":
				s = open(t, store, nil)
			}
			did = append(did, what)
			if err != nil {
				t.Fatalf("history %d, %v: %v", n, did, err)
			}
			u, err := textAnswers(t.Context(), s, table, textQuestions(t, table))
			if err != nil {
				t.Fatalf("history %d, %v: %v", n, did, err)
			}
			told.stats, told.best = told.stats+u.stats, told.best+u.best
		}
	}
	if told.stats < 20 || told.best < 20 {
		t.Errorf("indexes told statistics %d times, the best rows %d times", told.stats, told.best)
	}
}

// Files with a term that is too long for an index are left out of it, wherever they stand in a group, and so are no others, and no
// other index is without them.
func TestFilesWithTermsTooLong(t *testing.T) {
	store := objstore.NewMemory("long")
	table, err := lake.OpenFileCatalog(store).Create(t.Context(), lake.Ident{Namespace: lake.DefaultNamespace, Name: "long"}, lake.CreateSpec{Schema: textSchema})
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, store, nil)
	for _, spec := range []overlay.Spec{{Name: "whole", Kind: overlay.Text, Columns: []string{"body"}, Params: map[string]string{"analyzer": "keyword"}},
		{Name: "words", Kind: overlay.Text, Columns: []string{"body"}}, {Name: "bloom", Kind: overlay.Bloom, Columns: []string{"body"}}} {
		if _, err := s.Of(table).Define(t.Context(), table, spec); err != nil {
			t.Fatal(err)
		}
	}
	long := strings.Repeat("x", 1_000_000)
	lists := [][]string{{"a b", "a b", "\x00"}, {"a b", long, "a b"}, {"c", "a b"}, {long}, {"a b", "d", strings.Repeat("y", 1<<16)}, {"a b", strings.Repeat("z", 1<<16+1)}}
	odd := map[int]bool{1: true, 3: true, 5: true}
	for _, list := range lists {
		if table, _, err = table.Append(t.Context(), (&corpus{batch: 2}).reader(list), lake.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Of(table).Cover(t.Context(), table, overlay.BuildOptions{}); !errs.Is(err, errs.Unsupported) {
		t.Fatalf("the build: %v", err)
	}
	status, err := s.Of(table).Status(t.Context(), table)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range status {
		want := map[string]int{"whole": 3, "words": 6, "bloom": 6}[x.Name]
		if x.Covered != want {
			t.Errorf("%s covers %d files, not %d", x.Name, x.Covered, want)
		}
	}
	plan, err := table.Plan(t.Context(), lake.Ref{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	view, err := s.Of(table).View(t.Context(), plan.Schema)
	if err != nil {
		t.Fatal(err)
	}
	c := newCollection()
	c.corpus.files = lists
	order := c.fileOrder(t, plan)
	a := analyzer(t, "keyword")
	for _, text := range []string{"a b", "c", long, lists[4][2]} {
		ask := search.TextQuery{Field: 1, Analyzer: a, Query: bm25.ParseQuery(a, text)}
		files := textFiles(table, plan)
		want, _, err := search.TextStats(t.Context(), nil, plan, nil, files, ask)
		if err != nil {
			t.Fatal(err)
		}
		for i := range files {
			from := files[i].Read
			files[i].Read = func(ctx context.Context) (array.RecordReader, error) {
				if !odd[order[i]] {
					t.Errorf("file %d is read, and the index covers it", order[i])
				}
				return from(ctx)
			}
		}
		got, used, err := search.TextStats(t.Context(), nil, plan, view, files, ask)
		if err != nil || used != "whole" || got.Docs != want.Docs || got.SumTotalTermFreq != want.SumTotalTermFreq || fmt.Sprint(got.DocFreq) != fmt.Sprint(want.DocFreq) {
			t.Errorf("%.10s: counted by %q, %d texts of %d, %v", text, used, got.Docs, want.Docs, err)
		}
		sets, _, err := search.TextMatches(t.Context(), plan, view, ask)
		if err != nil {
			t.Fatal(err)
		}
		for i, set := range sets {
			if set == nil {
				continue
			}
			for pos, row := range lists[order[i]] {
				if set.Contains(int64(pos)) != (row == text) || odd[order[i]] {
					t.Errorf("%.10s: file %d, row %d is named: %v", text, order[i], pos, set.Contains(int64(pos)))
				}
			}
		}
	}
}

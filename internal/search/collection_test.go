package search_test

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/index/bm25"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/overlay"
	"github.com/overlakedb/overlake/internal/row"
	"github.com/overlakedb/overlake/internal/search"
	"github.com/overlakedb/overlake/internal/testenv"
)

// A collection is a set of documents with queries of which somebody has said which documents are right.
type collection struct {
	corpus  *corpus
	ids     [][]string                 // of the rows of each file
	queries []string                   // ids
	texts   []string                   // of the queries
	judged  map[string]map[string]bool // query → documents
}

func newCollection() *collection {
	return &collection{corpus: &corpus{batch: 256}, judged: map[string]map[string]bool{}}
}

// document is a line of a collection: a document or a query.
type document struct {
	ID    string `json:"_id"`
	Lang  string
	Title string
	Text  string
}

// linesOf reads a file of the shared data, packed or not, line by line.
func linesOf(t testing.TB, each func(line []byte), path ...string) {
	t.Helper()
	f, err := os.Open(testenv.Shared(t, path...))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(path[len(path)-1], ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		each(sc.Bytes())
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
}

// add appends a document, to a new file when the last has so many.
func (c *collection) add(id, text string, perFile int) {
	last := len(c.ids) - 1
	if last < 0 || len(c.ids[last]) == perFile {
		c.ids, c.corpus.files = append(c.ids, nil), append(c.corpus.files, nil)
		last++
	}
	c.ids[last] = append(c.ids[last], id)
	c.corpus.files[last] = append(c.corpus.files[last], text)
}

func (c *collection) id(a row.Addr) string { return c.ids[a.File][a.Pos] }

// named gives the ids of hits.
func (c *collection) named(hits []row.Hits) [][]string {
	out := make([][]string, len(hits))
	for i, list := range hits {
		for _, h := range list {
			out[i] = append(out[i], c.id(h.Addr))
		}
	}
	return out
}

// ndcg is the mean nDCG@10 with gains of 0 and 1.
func (c *collection) ndcg(ranked [][]string) float64 {
	sum := 0.0
	for i, q := range c.queries {
		gain, ideal, relevant := 0.0, 0.0, 0
		for _, yes := range c.judged[q] {
			if yes {
				relevant++
			}
		}
		for rank := range 10 {
			discount := 1 / math.Log2(float64(rank+2))
			if rank < len(ranked[i]) && c.judged[q][ranked[i][rank]] {
				gain += discount
			}
			if rank < relevant {
				ideal += discount
			}
		}
		sum += gain / ideal
	}
	return sum / float64(len(c.queries))
}

func (c *collection) parsed(a *analysis.Analyzer) []bm25.Query {
	out := make([]bm25.Query, len(c.texts))
	for i, text := range c.texts {
		out[i] = bm25.ParseQuery(a, text)
	}
	return out
}

// scanned gives the best documents for each query by reading all of them.
func (c *collection) scanned(t testing.TB, a *analysis.Analyzer, p similarity.Params, k int) []row.Hits {
	t.Helper()
	hits, err := search.FlatText(t.Context(), search.FlatRequest{Files: c.corpus.textFiles(""), Analyzer: a, Queries: c.parsed(a), Params: p, K: k, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	return hits
}

// table puts the documents into a table of as many files, with indexes of them.
func (c *collection) table(t testing.TB, indexes ...overlay.Spec) (*lake.Table, *overlay.Set) {
	t.Helper()
	store := objstore.NewMemory("collection")
	table, err := lake.OpenFileCatalog(store).Create(t.Context(), lake.Ident{Namespace: lake.DefaultNamespace, Name: "documents"}, lake.CreateSpec{Schema: textSchema})
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, store, nil)
	for _, x := range indexes {
		if _, err := s.Of(table).Define(t.Context(), table, x); err != nil {
			t.Fatal(err)
		}
	}
	for i, rows := range c.corpus.files {
		if table, _, err = table.Append(t.Context(), c.corpus.reader(rows), lake.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		if i%2 == 1 || i == len(c.corpus.files)-1 {
			build(t, s, table) // so artifacts are of one file and of two
		}
	}
	return table, s
}

// indexed gives the best documents for every step-th query by an index of texts: its statistics, and of the rows that it names the
// best.
func (c *collection) indexed(t testing.TB, table *lake.Table, s *overlay.Set, a *analysis.Analyzer, p similarity.Params, k, step int) []row.Hits {
	t.Helper()
	plan, err := table.Plan(t.Context(), lake.Ref{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	view, err := s.Of(table).View(t.Context(), plan.Schema)
	if err != nil {
		t.Fatal(err)
	}
	files := make([]search.TextFile, len(plan.Files))
	for i := range files {
		files[i].Read = func(context.Context) (array.RecordReader, error) {
			return nil, fmt.Errorf("file %d is read, and the index covers it", i)
		}
	}
	order := c.fileOrder(t, plan)
	var state bm25.State
	out := make([]row.Hits, len(c.texts))
	for i, q := range c.parsed(a) {
		if i%step > 0 {
			continue
		}
		ask := search.TextQuery{Field: 1, Analyzer: a, Query: q}
		stats, _, err := search.TextStats(t.Context(), nil, plan, view, files, ask)
		if err != nil {
			t.Fatal(err)
		}
		scorer := bm25.NewScorer(a, q, stats, p)
		found, ok, err := search.FindTexts(t.Context(), plan, view, search.TextRequest{TextQuery: ask, Scorer: scorer, K: k, Ties: true, Matches: true})
		if err != nil || !ok || len(found.Access.Scan) > 0 {
			t.Fatalf("%q: the index does not tell: %v", c.texts[i], err)
		}
		for _, f := range found.Access.Fetch {
			file := order[f.File]
			for pos := range f.Rows.All() {
				score, _ := scorer.ScoreMatch(c.corpus.files[file][pos], &state)
				out[i] = append(out[i], row.Hit{Addr: row.Addr{File: uint32(file), Pos: pos}, Score: score})
			}
		}
		slices.SortFunc(out[i], func(x, y row.Hit) int { return cmp.Or(cmp.Compare(y.Score, x.Score), x.Addr.Compare(y.Addr)) })
		out[i] = out[i][:min(k, len(out[i]))]
	}
	return out
}

// both gives the best documents for each query, which must be the same by an index as by a scan, to the last bit of the score. Every
// step-th query is asked of the index, and each in a deep test.
func (c *collection) both(t testing.TB, a *analysis.Analyzer, p similarity.Params, k, step int) []row.Hits {
	t.Helper()
	if os.Getenv(testenv.DeepVar) != "" {
		step = 1
	}
	want := c.scanned(t, a, p, k)
	table, s := c.table(t, overlay.Spec{Name: "texts", Kind: overlay.Text, Columns: []string{"body"}, Params: map[string]string{"analyzer": a.Name(),
		"k1": fmt.Sprint(p.K1), "b": fmt.Sprint(p.B)}})
	got := c.indexed(t, table, s, a, p, k, step)
	for i := 0; i < len(want); i += step {
		if !slices.Equal(got[i], want[i]) {
			t.Fatalf("%s, %q: by index\n%v\nby scan\n%v", a.Name(), c.texts[i], got[i], want[i])
		}
	}
	return want
}

// fileOrder gives, for each file of a plan, its place in the collection: files were appended one by one.
func (c *collection) fileOrder(t testing.TB, plan *lake.Plan) []int {
	t.Helper()
	if len(plan.Files) != len(c.corpus.files) {
		t.Fatalf("%d files became %d", len(c.corpus.files), len(plan.Files))
	}
	at := make([]int, len(plan.Files))
	for i := range at {
		at[i] = i
	}
	slices.SortFunc(at, func(i, j int) int { return cmp.Compare(plan.Files[i].Sequence, plan.Files[j].Sequence) })
	order := make([]int, len(at))
	for place, i := range at {
		if plan.Files[i].Rows != int64(len(c.corpus.files[place])) {
			t.Fatalf("file %d has %d rows, not %d", place, plan.Files[i].Rows, len(c.corpus.files[place]))
		}
		order[i] = place
	}
	return order
}

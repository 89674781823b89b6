package search_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
	"github.com/overlakedb/overlake/internal/row"
	"github.com/overlakedb/overlake/internal/search"
)

// corpus is a table in memory; "\x00" stands for NULL.
type corpus struct {
	files [][]string
	batch int              // rows a batch
	alloc memory.Allocator // nil: the default
	kind  arrow.DataType   // nil: string
	reads atomic.Int64
	fail  error // after the first batch
}

func (c *corpus) textFiles(name string) []search.TextFile {
	out := make([]search.TextFile, len(c.files))
	for i := range c.files {
		out[i].Read = func(context.Context) (array.RecordReader, error) {
			c.reads.Add(1)
			return c.reader(c.files[i]), nil
		}
		if name != "" {
			out[i].Key = fmt.Sprintf("%s/%d", name, i)
		}
	}
	return out
}

func (c *corpus) reader(rows []string) array.RecordReader {
	alloc, kind := c.alloc, c.kind
	if alloc == nil {
		alloc = memory.DefaultAllocator
	}
	if kind == nil {
		kind = arrow.BinaryTypes.String
	}
	schema := arrow.NewSchema([]arrow.Field{{Name: "body", Type: kind, Nullable: true}}, nil)
	return array.ReaderFromIter(schema, func(yield func(arrow.RecordBatch, error) bool) {
		for part := range slices.Chunk(rows, max(c.batch, 1)) {
			b := array.NewBuilder(alloc, kind)
			for _, s := range part {
				switch {
				case s == "\x00":
					b.AppendNull()
				default:
					if err := b.AppendValueFromString(s); err != nil {
						yield(nil, err)
						return
					}
				}
			}
			col := b.NewArray()
			b.Release()
			rec := array.NewRecordBatch(schema, []arrow.Array{col}, int64(len(part)))
			col.Release()
			ok := yield(rec, nil)
			rec.Release()
			if !ok {
				return
			}
			if c.fail != nil {
				yield(nil, c.fail)
				return
			}
		}
	})
}

func analyzer(t testing.TB, name string) *analysis.Analyzer {
	t.Helper()
	a, err := analysis.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func randomCorpus(rng *rand.Rand) *corpus {
	c := &corpus{batch: 1 + rng.IntN(9)}
	for range rng.IntN(5) {
		var rows []string
		for range rng.IntN(40) {
			var b strings.Builder
			for range rng.IntN(14) {
				fmt.Fprintf(&b, "w%d ", int(rng.ExpFloat64()*6))
			}
			text := b.String()
			if rng.IntN(10) == 0 {
				text = "\x00"
			}
			rows = append(rows, text)
		}
		c.files = append(c.files, rows)
	}
	return c
}

func randomQueries(rng *rand.Rand, a *analysis.Analyzer) []bm25.Query {
	queries := make([]bm25.Query, 1+rng.IntN(5))
	for i := range queries {
		text := ""
		for range rng.IntN(5) {
			text += fmt.Sprintf("w%d ", rng.IntN(14))
		}
		queries[i] = bm25.ParseQuery(a, text)
		queries[i].All, queries[i].Min = rng.IntN(4) == 0, rng.IntN(3)
	}
	return queries
}

// naive is the answer by the plainest means: count with maps, score each row, sort everything.
func naive(c *corpus, a *analysis.Analyzer, queries []bm25.Query, p similarity.Params, k int, deletes *row.Set) (bm25.Stats, []row.Hits) {
	st := bm25.Stats{DocFreq: map[string]int64{}}
	for _, q := range queries {
		for _, t := range q.Terms {
			st.DocFreq[t] = 0
		}
	}
	var s analysis.Scratch
	for _, f := range c.files {
		for _, text := range f {
			if text == "\x00" {
				continue
			}
			seen := map[string]bool{}
			n := int64(0)
			a.Each(text, &s, func(t analysis.Token) {
				n++
				seen[string(t.Term)] = true
			})
			if n > 0 {
				st.Docs++
				st.SumTotalTermFreq += n
			}
			for t := range seen {
				if _, asked := st.DocFreq[t]; asked {
					st.DocFreq[t]++
				}
			}
		}
	}
	out := make([]row.Hits, len(queries))
	var state bm25.State
	for i, q := range queries {
		scorer := bm25.NewScorer(a, q, st, p)
		for f, rows := range c.files {
			for pos, text := range rows {
				h := row.Hit{Addr: row.Addr{File: uint32(f), Pos: int64(pos)}}
				if text == "\x00" || deletes.Contains(h.Addr) {
					continue
				}
				var ok bool
				if h.Score, ok = scorer.ScoreMatch(text, &state); ok {
					out[i] = append(out[i], h)
				}
			}
		}
		out[i].SortDescending()
		out[i] = out[i][:min(k, len(out[i]))]
	}
	return st, out
}

// TestFlatAgainstNaive: any split into files and batches, any number of workers, notes that fit and notes that do not, a
// cold and a warm cache give the bits of the plainest computation.
func TestFlatAgainstNaive(t *testing.T) {
	ctx := context.Background()
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		a := analyzer(t, []string{"standard", "english"}[rng.IntN(2)])
		c, queries, p, k := randomCorpus(rng), randomQueries(rng, a), similarity.Params{K1: 1.2, B: rng.Float64()}, rng.IntN(20)
		var deletes *row.Set
		if rng.IntN(2) == 0 {
			deletes = &row.Set{}
			for f, rows := range c.files {
				for pos := range rows {
					if rng.IntN(4) == 0 {
						deletes.Add(row.Addr{File: uint32(f), Pos: int64(pos)})
					}
				}
			}
		}
		wantStats, want := naive(c, a, queries, p, k, deletes)
		files := c.textFiles("table")
		cache := search.NewTextCache()
		for pass, r := range []search.FlatRequest{
			{Workers: 1},
			{LogBytes: 40, Workers: 3},
			{Cache: cache, Workers: 2},
			{Cache: cache},
			{Cache: cache, LogBytes: 1},
		} {
			r.Files, r.Analyzer, r.Queries, r.Params, r.K, r.Deletes = files, a, queries, p, k, deletes
			got, err := search.FlatText(ctx, r)
			if err != nil {
				t.Fatalf("seed %d, pass %d: %v", seed, pass, err)
			}
			for q := range queries {
				if !slices.Equal(got[q], want[q]) {
					t.Fatalf("seed %d, pass %d, query %v:\n got %v\nwant %v", seed, pass, queries[q], got[q], want[q])
				}
			}
		}
		for _, from := range []*search.TextCache{nil, cache, search.NewTextCache()} {
			st, err := from.Collect(ctx, files, a, queries...)
			if err != nil || fmt.Sprint(st) != fmt.Sprint(wantStats) {
				t.Fatalf("seed %d: statistics %v, %v, want %v", seed, st, err, wantStats)
			}
		}
	}
}

func TestCacheReadsNoMoreThanItMust(t *testing.T) {
	ctx := context.Background()
	a := analyzer(t, "standard")
	c := &corpus{files: [][]string{{"a b", "a c", ""}, {"b b", "\x00", "d"}}, batch: 2}
	files, cache := c.textFiles("t"), search.NewTextCache()
	ask := func(query string, reads int64, want string) {
		t.Helper()
		c.reads.Store(0)
		st, err := cache.Collect(ctx, files, a, bm25.ParseQuery(a, query))
		if got := fmt.Sprint(st.Docs, st.SumTotalTermFreq, st.DocFreq); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", query, got, err, want)
		}
		if c.reads.Load() != reads {
			t.Errorf("%s: %d files were read, want %d", query, c.reads.Load(), reads)
		}
	}
	ask("a", 2, "4 7 map[a:2]")
	ask("a", 0, "4 7 map[a:2]")
	ask("", 0, "4 7 map[]")
	ask("b", 2, "4 7 map[b:2]")             // the second miss makes a table
	ask("d x c", 0, "4 7 map[c:1 d:1 x:0]") // which knows every term
	if _, err := cache.Collect(ctx, c.textFiles("other"), a, bm25.ParseQuery(a, "a")); err != nil || c.reads.Load() != 2 {
		t.Errorf("other files: %d reads, %v", c.reads.Load(), err)
	}
	// Another analyzer has other terms.
	c.reads.Store(0)
	e := analyzer(t, "english")
	if st, err := cache.Collect(ctx, files, e, bm25.ParseQuery(e, "b")); err != nil || c.reads.Load() != 2 || st.SumTotalTermFreq != 5 {
		t.Errorf("english: %d reads, %+v, %v", c.reads.Load(), st, err)
	}
	// Files without a key are not remembered.
	nameless := c.textFiles("")
	for range 2 {
		c.reads.Store(0)
		if _, err := cache.Collect(ctx, nameless, a, bm25.ParseQuery(a, "a")); err != nil || c.reads.Load() != 2 {
			t.Errorf("no key: %d reads, %v", c.reads.Load(), err)
		}
	}
}

func TestCacheIsBounded(t *testing.T) {
	ctx := context.Background()
	a := analyzer(t, "standard")
	const limit = 100_000
	cache := search.NewTextCacheOf(limit)
	var rows []string
	for i := range 300 {
		rows = append(rows, fmt.Sprintf("term%d other%d", i, i))
	}
	for i := range 400 {
		c := &corpus{files: [][]string{rows}, batch: 100}
		for _, query := range []string{"term1", fmt.Sprint("term", i)} {
			st, err := cache.Collect(ctx, c.textFiles(fmt.Sprint("t", i%150)), a, bm25.ParseQuery(a, query))
			if err != nil || st.Docs != 300 || st.DocFreq["term1"]+st.DocFreq[fmt.Sprint("term", i)] < 1 && i < 300 {
				t.Fatalf("%d: %+v %v", i, st, err)
			}
		}
		if cache.Bytes() > limit {
			t.Fatalf("the cache takes %d bytes", cache.Bytes())
		}
	}
	if cache.Bytes() == 0 {
		t.Error("the cache remembers nothing")
	}
}

func TestLayoutsOfStrings(t *testing.T) {
	a := analyzer(t, "standard")
	dictionary := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}
	for _, kind := range []arrow.DataType{arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString, arrow.BinaryTypes.StringView, dictionary} {
		c := &corpus{files: [][]string{{"a b", "\x00", "b", "a b"}}, batch: 3, kind: kind}
		got, err := search.FlatText(context.Background(), search.FlatRequest{Files: c.textFiles(""), Analyzer: a, Queries: []bm25.Query{bm25.ParseQuery(a, "b")}, Params: similarity.DefaultParams, K: 9})
		if err != nil || len(got[0]) != 3 || got[0][0].Pos != 2 || got[0][1].Pos != 0 || got[0][2].Pos != 3 {
			t.Errorf("%s: %v, %v", kind, got, err)
		}
	}
	c := &corpus{files: [][]string{{"1", "2"}}, batch: 3, kind: arrow.PrimitiveTypes.Int64}
	if _, err := search.NewTextCache().Collect(context.Background(), c.textFiles(""), a); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "int64") {
		t.Errorf("a column of numbers gave %v", err)
	}
}

// TestFailuresReleaseEverything: errors and cancellation come through with their kind, and no batch leaks.
func TestFailuresReleaseEverything(t *testing.T) {
	alloc := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer alloc.AssertSize(t, 0)
	a := analyzer(t, "standard")
	c := &corpus{alloc: alloc, batch: 1}
	for range 8 {
		c.files = append(c.files, slices.Repeat([]string{"a b c"}, 200))
	}
	run := func(ctx context.Context) error {
		_, err := search.FlatText(ctx, search.FlatRequest{Files: c.textFiles("t"), Analyzer: a, Queries: []bm25.Query{bm25.ParseQuery(a, "a")}, Params: similarity.DefaultParams, K: 3, Cache: search.NewTextCache(), Workers: 3})
		return err
	}
	if err := run(context.Background()); err != nil {
		t.Fatal(err)
	}
	c.fail = errs.New(errs.Corrupt, "test", "bad page")
	if err := run(context.Background()); !errs.Is(err, errs.Corrupt) || !strings.Contains(err.Error(), "bad page") {
		t.Errorf("a corrupt file gave %v", err)
	}
	c.fail = nil
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := run(ctx); !errs.Is(err, errs.Canceled) || !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled search gave %v", err)
	}
	files := c.textFiles("t")
	ctx, cancel = context.WithCancel(context.Background())
	read := files[3].Read
	files[3].Read = func(ctx context.Context) (array.RecordReader, error) { cancel(); return read(ctx) }
	if _, err := search.NewTextCache().Collect(ctx, files, a, bm25.ParseQuery(a, "a")); !errs.Is(err, errs.Canceled) {
		t.Errorf("a search canceled on the way gave %v", err)
	}
}

func TestFlatRefusals(t *testing.T) {
	a := analyzer(t, "standard")
	q := []bm25.Query{bm25.ParseQuery(a, "a")}
	if _, err := search.FlatText(context.Background(), search.FlatRequest{Analyzer: a, Queries: q, Params: similarity.Params{K1: -1}, K: 1}); !errs.Is(err, errs.Invalid) {
		t.Errorf("negative k1 gave %v", err)
	}
	if _, err := search.FlatText(context.Background(), search.FlatRequest{Analyzer: a, Queries: q, Params: similarity.DefaultParams, K: 1 << 40}); !errs.Is(err, errs.Exhausted) {
		t.Errorf("too many hits gave %v", err)
	}
	got, err := search.FlatText(context.Background(), search.FlatRequest{Analyzer: a, Queries: q, Params: similarity.DefaultParams, K: 5})
	if err != nil || len(got) != 1 || len(got[0]) != 0 {
		t.Errorf("no files: %v, %v", got, err)
	}
}

func TestFuse(t *testing.T) {
	hits := func(positions ...int64) (h row.Hits) {
		for _, p := range positions {
			h = append(h, row.Hit{Addr: row.Addr{Pos: p}, Score: 1})
		}
		return h
	}
	for _, c := range []struct {
		lists []row.Hits
		want  string
	}{
		{nil, ""},
		{[]row.Hits{hits(3, 1, 2)}, "3:0.016393 1:0.016129 2:0.015873 "},
		{[]row.Hits{hits(3, 1), hits(1, 5)}, "1:0.032522 3:0.016393 5:0.016129 "},
		{[]row.Hits{hits(7), hits(4)}, "4:0.016393 7:0.016393 "},
		{[]row.Hits{hits(1, 1, 2), hits()}, "1:0.016393 2:0.016129 "},
	} {
		got := ""
		for _, h := range search.Fuse(search.DefaultFuseK, c.lists...) {
			got += fmt.Sprintf("%d:%.6f ", h.Pos, h.Score)
		}
		if got != c.want {
			t.Errorf("fuse %v is %s, want %s", c.lists, got, c.want)
		}
	}
}

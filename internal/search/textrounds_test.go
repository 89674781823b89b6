package search_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/overlakedb/overlake/internal/index/bm25"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/objstore/storetest"
	"github.com/overlakedb/overlake/internal/overlay"
	"github.com/overlakedb/overlake/internal/search"
)

// metered counts the bytes that are read of bundles.
type metered struct {
	objstore.Store
	bytes atomic.Int64
}

func (m *metered) Get(ctx context.Context, name string, off, most int64) ([]byte, objstore.Info, error) {
	b, info, err := m.Store.(objstore.Getter).Get(ctx, name, off, most)
	if strings.HasSuffix(name, ".puffin") {
		m.bytes.Add(int64(len(b)))
	}
	return b, info, err
}

// wordy makes n texts of some 14 words, of a vocabulary of which most words are rare, as in languages.
func wordy(seed uint64, n int) []string {
	rng := rand.New(rand.NewPCG(seed, 12))
	zipf := rand.NewZipf(rng, 1.1, 3, 60_000)
	out := make([]string, n)
	for i := range out {
		words := make([]string, 7+rng.IntN(15))
		for k := range words {
			words[k] = fmt.Sprintf("w%x", zipf.Uint64()*2654435761%(1<<32))
		}
		out[i] = strings.Join(words, " ")
	}
	return out
}

// TestRoundsOfAColdTextQuery counts the dependent rounds of a query of five terms over a store that is far away, when nothing is known
// from before, and the bytes of the index that it reads. It takes five, however many artifacts there are:
//
//  1. the hint, which names a version of the overlay and its chunks;
//  2. the head of that version, the look for a later one, and the chunks, all at once;
//  3. the end of each artifact, and what the files are now;
//  4. of each artifact the parts of the dictionary where the terms may stand;
//  5. of each artifact the postings of the terms, and the lengths of the rows.
//
// The last is missing where an artifact is so small that its end is all of it.
func TestRoundsOfAColdTextQuery(t *testing.T) {
	const rows = 20_000
	for _, files := range []int{1, 4} {
		near := objstore.NewMemory("t")
		c := newCollection()
		for i := range files {
			c.ids = append(c.ids, nil)
			c.corpus.files = append(c.corpus.files, wordy(uint64(i), rows))
		}
		table, err := lake.OpenFileCatalog(near).Create(t.Context(), lake.Ident{Namespace: lake.DefaultNamespace, Name: "t"}, lake.CreateSpec{Schema: textSchema})
		if err != nil {
			t.Fatal(err)
		}
		s := open(t, near, nil)
		if _, err := s.Of(table).Define(t.Context(), table, overlay.Spec{Name: "words", Kind: overlay.Text, Columns: []string{"body"}}); err != nil {
			t.Fatal(err)
		}
		for _, list := range c.corpus.files { // each with an artifact of its own
			if table, _, err = table.Append(t.Context(), c.corpus.reader(list), lake.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			build(t, s, table)
		}
		whole := int64(0)
		for name, data := range objects(t, near) {
			if strings.HasSuffix(name, ".puffin") {
				whole += int64(len(data))
			}
		}
		a := analyzer(t, "standard")
		words := slices.Clone(strings.Fields(c.corpus.files[0][77])[:5])
		q := bm25.ParseQuery(a, strings.Join(words, " "))
		ask := search.TextQuery{Field: 1, Analyzer: a, Query: q}
		synctest.Test(t, func(t *testing.T) {
			meter := &metered{Store: near}
			far := &storetest.Far{Store: meter, Trip: time.Second}
			table, err := lake.OpenFileCatalog(far).Load(t.Context(), lake.Ident{Namespace: lake.DefaultNamespace, Name: "t"})
			if err != nil {
				t.Fatal(err)
			}
			plan, err := table.Plan(t.Context(), lake.Ref{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			far.Rounds()
			view, err := overlay.NewSet(far, overlay.Options{}).Of(table).View(t.Context(), plan.Schema)
			if err != nil {
				t.Fatal(err)
			}
			stats, used, err := search.TextStats(t.Context(), nil, plan, view, make([]search.TextFile, len(plan.Files)), ask)
			if err != nil || used == "" || stats.Docs != int64(files*rows) {
				t.Fatalf("%d texts, counted by %q, %v", stats.Docs, used, err)
			}
			request := search.TextRequest{TextQuery: ask, Scorer: bm25.NewScorer(a, q, stats, similarity.DefaultParams), K: 10, Ties: true, Matches: true}
			hits, ok, err := search.FindTexts(t.Context(), plan, view, request)
			if err != nil || !ok || hits.Parts != files || hits.Access.Rows < 10 {
				t.Fatalf("%+v, %v", hits, err)
			}
			rounds := far.Rounds()
			for i, r := range rounds {
				short := map[string]int{}
				for _, x := range r {
					what, name, _ := strings.Cut(x, " ")
					short[what+" "+path.Ext(name)]++
				}
				t.Logf("%d files, round %d: %v", files, i+1, short)
			}
			postings := int64(0)
			for _, n := range stats.DocFreq {
				postings += n
			}
			t.Logf("%d files: %d bytes of %d, %d postings", files, meter.bytes.Load(), whole, postings)
			if len(rounds) != 5 {
				t.Errorf("a query over %d files takes %d rounds, want 5", files, len(rounds))
			}
			// The end of each artifact, 64 KiB; a block of the dictionary for each term; some two bytes for each posting; a byte for
			// each row. What lies between near ranges is read with them.
			if want := int64(files)*(64<<10+5*1200+rows) + 2*postings; meter.bytes.Load() > want*5/2 || meter.bytes.Load() > whole {
				t.Errorf("a query over %d files reads %d bytes, want some %d", files, meter.bytes.Load(), want)
			}
		})
	}
}

// Package search answers: which rows, in which order?
//
// For now it knows one way, the scan: the statistics that BM25 needs are collected by reading the whole text column, and
// texts are scored one by one. Statistics cover all rows of the live data files, deleted rows too, because only that
// stays the same whether an index is used or not; deleted rows are never returned.
package search

import (
	"context"
	"sync"

	"github.com/apache/arrow-go/v18/arrow/array"
	"golang.org/x/sync/errgroup"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25"
)

// TextFile is one data file's text column: all its rows, deleted ones included. Read is called once per pass and may be
// called by several goroutines for different files.
type TextFile struct {
	Key  string // names the file and the column for ever
	Read func(ctx context.Context) (array.RecordReader, error)
}

// fileStats is what one file adds to the statistics.
type fileStats struct {
	docs, sum int64
	freq      map[string]int64
}

// TextCache remembers the statistics of files, which never change. It is safe for concurrent use.
type TextCache struct {
	mu    sync.Mutex
	files map[string]*fileStats
	terms int
}

// maxCachedTerms bounds a cache, in document frequencies.
const maxCachedTerms = 1_000_000

// NewTextCache returns an empty cache.
func NewTextCache() *TextCache { return &TextCache{files: map[string]*fileStats{}} }

// Collect gives the statistics over the files for the terms of the queries, in one pass over the files that the cache
// does not know yet.
func (c *TextCache) Collect(ctx context.Context, files []TextFile, a *analysis.Analyzer, queries ...bm25.Query) (bm25.Stats, error) {
	want := map[string]int{}
	for _, q := range queries {
		for _, t := range q.Terms {
			if _, ok := want[t]; !ok {
				want[t] = len(want)
			}
		}
	}
	total := bm25.Stats{DocFreq: map[string]int64{}}
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(2)
	for _, f := range files {
		g.Go(func() error {
			st, err := c.file(ctx, f, a, want)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			total.Docs += st.docs
			total.SumTotalTermFreq += st.sum
			for t := range want {
				total.DocFreq[t] += st.freq[t]
			}
			return nil
		})
	}
	return total, g.Wait()
}

func (c *TextCache) file(ctx context.Context, f TextFile, a *analysis.Analyzer, want map[string]int) (*fileStats, error) {
	key := a.Fingerprint() + "\x00" + f.Key
	c.mu.Lock()
	known := c.files[key]
	c.mu.Unlock()
	missing := known == nil
	if known != nil {
		for t := range want {
			if _, ok := known.freq[t]; !ok {
				missing = true
			}
		}
	}
	if !missing {
		return known, nil
	}
	st := &fileStats{freq: make(map[string]int64, len(want))}
	if known != nil {
		for t, n := range known.freq {
			st.freq[t] = n
		}
	}
	counts := make([]int64, len(want))
	last := make([]int64, len(want)) // the row a term was last seen in, from 1
	r, err := f.Read(ctx)
	if err != nil {
		return nil, err
	}
	defer r.Release()
	var s analysis.Scratch
	row := int64(0)
	for r.Next() {
		col, ok := r.RecordBatch().Column(0).(*array.String)
		if !ok {
			return nil, errs.New(errs.Invalid, "search.text", "text search needs a column of type VARCHAR")
		}
		for i := range col.Len() {
			row++
			if col.IsNull(i) {
				continue
			}
			st.docs++
			a.Each(col.Value(i), &s, func(t analysis.Token) {
				st.sum++
				if k, ok := want[string(t.Term)]; ok && last[k] != row {
					last[k] = row
					counts[k]++
				}
			})
		}
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	for t, k := range want {
		st.freq[t] = counts[k]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.terms += len(st.freq); c.terms > maxCachedTerms {
		clear(c.files)
		c.terms = len(st.freq)
	}
	c.files[key] = st
	return st, nil
}

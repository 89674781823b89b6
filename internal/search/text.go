// Package search answers: which rows, in which order?
//
// For text it knows two ways. The flat one reads the whole column and analyzes every text: it is the truth an index is compared
// with, and serves rows that no index covers:
//
//	TextCache.Collect   the statistics BM25 needs, for many queries in one pass; scoring is then the caller's, a row at
//	                    a time, with a bm25.Scorer
//	FlatText            the best k rows for each of many queries, statistics included, in one pass
//	Fuse                several rankings made one
//
// An index of texts tells the same and reads little: TextStats and FormStats, FindTexts, TextMatches.
//
// The rules:
//
//	T1  Statistics cover all rows of the files, deleted rows too: as in Lucene they count until their file is rewritten.
//	    Nobody could subtract them from an index's document frequencies cheaply, so the scan does not either.
//	T2  A deleted row is never a hit.
//	T3  Hits are ordered by score, best first, then by file, then by position; how the work was split changes nothing.
//	T4  A file's text never changes. Its statistics are remembered under the key its TextFile gives.
package search

import (
	"context"
	"runtime"

	"github.com/apache/arrow-go/v18/arrow/array"
	"golang.org/x/sync/errgroup"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25"
)

// TextFile is one data file's text column: all its rows in order, deleted ones included.
type TextFile struct {
	// Key names file and column for ever: path and field id, not a name that another column may bear tomorrow. An empty
	// key is not remembered.
	Key string

	// Read opens the column: batches whose first column holds the texts, as strings of any Arrow layout, dictionary
	// encoded or not. It is called once a pass, by several goroutines for different files. Batches may be retained.
	Read func(ctx context.Context) (array.RecordReader, error)
}

// textBatch is a part of a file: column row i is position first+i.
type textBatch struct {
	file  int
	first int64
	texts bm25.Texts
}

// textWorker takes batches, one at a time, in any order of files; done is called after the last.
type textWorker struct {
	batch func(textBatch) error
	done  func() error
}

// scanTexts reads files and hands their batches to workers, of which newWorker makes one a goroutine. No more than three
// batches a worker are in memory at once. It stops at the first error and when ctx ends.
func scanTexts(ctx context.Context, files []TextFile, which []int, workers int, newWorker func() textWorker) error {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	g, ctx := errgroup.WithContext(ctx)
	queue := make(chan textBatch, workers)
	g.Go(func() error {
		defer close(queue)
		readers, ctx := errgroup.WithContext(ctx)
		readers.SetLimit(workers)
		for _, i := range which {
			if ctx.Err() != nil {
				break
			}
			readers.Go(func() error { return readTexts(ctx, files[i], i, queue) })
		}
		return readers.Wait()
	})
	for range workers {
		g.Go(func() error {
			w := newWorker()
			for b := range queue {
				err := ctx.Err()
				if err == nil {
					err = w.batch(b)
				}
				b.texts.Release()
				if err != nil {
					// The reader sees the context end; what it has queued is released here.
					for b := range queue {
						b.texts.Release()
					}
					return err
				}
			}
			return w.done()
		})
	}
	if err := g.Wait(); err != nil {
		return errs.Wrap(errs.KindOf(err), "search.text", err)
	}
	return nil
}

func readTexts(ctx context.Context, f TextFile, file int, queue chan<- textBatch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r, err := f.Read(ctx)
	if err != nil {
		return err
	}
	defer r.Release()
	first := int64(0)
	for r.Next() {
		rec := r.RecordBatch()
		if rec.NumCols() == 0 {
			return errs.New(errs.Internal, "search.text", "a batch without a column", errs.On(f.Key))
		}
		t, err := bm25.TextsOf(rec.Column(0))
		if err != nil {
			return err
		}
		t.Retain()
		select {
		case queue <- textBatch{file, first, t}:
		case <-ctx.Done():
			t.Release()
			return ctx.Err()
		}
		first += rec.NumRows()
	}
	return r.Err()
}

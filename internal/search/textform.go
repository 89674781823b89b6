package search

import (
	"context"
	"math"
	"slices"
	"sync"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/index/bm25/best"
	"github.com/overlakedb/overlake/internal/index/bm25/memory"
	"github.com/overlakedb/overlake/internal/index/bm25/posting"
	"github.com/overlakedb/overlake/internal/index/bm25/rank"
	"github.com/overlakedb/overlake/internal/index/bm25/segment"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/overlay"
	"github.com/overlakedb/overlake/internal/row"
)

// Queries of any form over one column of texts. Package rank runs them; here are its sources: the artifacts of an index, and
// the texts of files that none covers.

// column is one field of an artifact as the source of queries over one field, which they call 0. Equal values are one source.
type column struct {
	*segment.Reader
	field int
}

var (
	_ posting.Source = column{}
	_ rank.Pruner    = column{}
)

func (c column) Stats(int) posting.Stats { return c.Reader.Stats(c.field) }

func (c column) Lookup(ctx context.Context, _ int, terms [][]byte) ([]posting.Term, error) {
	return c.Reader.Lookup(ctx, c.field, terms)
}

func (c column) Walk(ctx context.Context, _ int, from []byte, yield func(term []byte, t posting.Term) ([]byte, bool)) error {
	return c.Reader.Walk(ctx, c.field, from, yield)
}

func (c column) Lengths(ctx context.Context, _ int) ([]byte, error) {
	return c.Reader.Lengths(ctx, c.field)
}

func (c column) Postings(ctx context.Context, _ int, t posting.Term, positions bool) (posting.Cursor, error) {
	return c.Reader.Postings(ctx, c.field, t, positions)
}

// Best lets the artifact find the best rows of a flat query. What was found before goes with it, as rows of a part before, so
// that it leaves out what cannot be among the best of all.
func (c column) Best(ctx context.Context, f rank.Flat, t *rank.Top) (bool, error) {
	fits := func(w float32) bool { return w >= 0 && w <= math.MaxFloat32 }
	q := &segment.Query{All: f.All, MinMatch: f.Min, Norms: make([]*[256]float32, c.field+1)}
	q.Norms[c.field] = f.Inverse(0)
	for _, x := range f.Clauses {
		if !fits(x.Weight) {
			return false, nil
		}
		q.Clauses = append(q.Clauses, segment.Clause{Field: c.field, Term: x.Term, Weight: x.Weight})
	}
	if p := f.Phrase; p != nil {
		if !fits(p.Weight) || !c.Field(c.field).Positions {
			return false, nil
		}
		q.Phrase = &segment.Phrase{Field: c.field, Terms: p.Terms, Offsets: p.Positions, Slop: p.Slop, Weight: p.Weight}
	}
	var filter *segment.Filter
	if f.Filter != nil {
		filter = segment.NewFilter(f.Filter, c.Rows())
	}
	track := t.Track()
	if track >= 0 {
		track = max(track-t.Counted(), 0)
	}
	const before, here = 0, 1
	found := &segment.Collector{Top: best.New(t.Limit()), Track: track}
	for i, h := range t.Result().Hits {
		found.Top.Offer(before, uint32(i), h.Score)
	}
	if err := c.Reader.Best(ctx, q, filter, here, found); err != nil {
		return false, err
	}
	t.Count(found.Hits)
	for _, h := range found.Top.Hits() {
		if h.File == here {
			t.Add(rank.Hit{Row: f.Base + h.Pos, Score: h.Score})
		}
	}
	return true, nil
}

// formBytes is the memory of one goroutine for postings while a column is read for statistics.
const formBytes = 16 << 20

// FormStats is TextStats for a Form.
func FormStats(ctx context.Context, plan *lake.Plan, view *overlay.View, files []TextFile, r TextQuery) (stats *rank.Statistics, used string, err error) {
	stats = r.Form.Empty()
	rest := make([]int, len(files))
	for i := range rest {
		rest[i] = i
	}
	if x, field := r.index(view, false); x != nil {
		parts, left, err := x.TextParts(ctx, plan)
		if err != nil {
			return nil, "", err
		}
		for _, p := range parts {
			ok := p.Whole()
			if ok {
				one, err := r.Form.Gather(ctx, column{p.Reader, field})
				if ok = err == nil; ok {
					used = x.Name
					r.Form.Merge(stats, one)
				} else if err := p.Damaged(ctx, err); err != nil {
					return nil, "", err
				}
			}
			for _, f := range p.Files {
				if !ok {
					left = append(left, f.File)
				}
			}
		}
		slices.Sort(left)
		rest = left
	}
	if len(rest) == 0 {
		return stats, used, nil
	}
	c := &gathering{r: &r, ctx: ctx, stats: stats}
	return stats, used, scanTexts(ctx, files, rest, 0, c.worker)
}

// gathering reads texts for the statistics of a Form.
type gathering struct {
	r   *TextQuery
	ctx context.Context

	mu    sync.Mutex
	stats *rank.Statistics
}

func (g *gathering) worker() textWorker {
	o := memory.Options{Analyzers: []*analysis.Analyzer{g.r.Analyzer}, Keep: g.r.Form.Keep(), Limit: formBytes}
	b := memory.NewBuilder(o)
	flush := func() error {
		one, err := g.r.Form.Gather(g.ctx, b.Source())
		if err != nil {
			return err
		}
		b = memory.NewBuilder(o)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.r.Form.Merge(g.stats, one.Unlocated())
		return nil
	}
	return textWorker{
		batch: func(t textBatch) error {
			for i := range t.texts.Len() {
				text, _ := t.texts.At(i) // NULL is a row without terms
				if err := b.Add(text); err != nil {
					return err
				}
				if b.Full() {
					if err := flush(); err != nil {
						return err
					}
				}
			}
			return nil
		},
		done: flush,
	}
}

// setBytes is the memory of one query for sets of rows.
const setBytes = 256 << 20

// matchesEmpty reports whether a row without terms matches a Form. An index does not know such rows from those with NULL, which
// match nothing.
func (r *TextQuery) matchesEmpty(ctx context.Context) (bool, error) {
	b := memory.NewBuilder(memory.Options{Analyzers: []*analysis.Analyzer{r.Analyzer}, Positions: r.Form.Positions()})
	if err := b.Add(""); err != nil {
		return false, err
	}
	_, within, err := r.Ranked.Matching(ctx, rank.Segment{Source: b.Source()}, rank.Options{}, 0)
	return !within, err
}

// bestOfForm are the k best rows of the parts for a Form; words are the rows of each part that may be hits, nil all.
// It is nil where a part is damaged.
func (r *TextRequest) bestOfForm(ctx context.Context, parts []*overlay.TextPart, field int, words [][]uint64, k int) (row.Hits, error) {
	top, bases, base := rank.NewTop(k, 0), make([]int64, len(parts)), int64(0)
	for i, p := range parts {
		bases[i] = base
		s := rank.Segment{Source: column{p.Reader, field}, Base: base}
		if words[i] != nil {
			s.Filter = row.FromWords(words[i])
		}
		base += int64(p.Reader.Rows())
		if err := r.Ranked.Collect(ctx, s, rank.Options{Memory: setBytes}, top); err != nil {
			return nil, p.Damaged(ctx, err)
		}
	}
	out := row.Hits{}
	for _, h := range top.Result().Hits {
		i, found := slices.BinarySearch(bases, h.Row)
		if !found {
			i--
		}
		out = append(out, row.Hit{Addr: row.Addr{File: uint32(i), Pos: h.Row - bases[i]}, Score: h.Score})
	}
	return out, nil
}

// matchingForm is matching for a Form.
func matchingForm(ctx context.Context, s *segment.Reader, field int, r *TextQuery) (*row.Bitmap, error) {
	set, ok, err := r.Ranked.Matching(ctx, rank.Segment{Source: column{s, field}}, rank.Options{Memory: setBytes}, int64(textMost*float64(s.Rows())))
	if !ok || err != nil {
		return nil, err
	}
	return set, nil
}

// Package rank answers: which rows does a query find, and how well?
//
// The way of a query:
//
//	plan := NewPlan(node, fields)             what must be known: terms, and patterns over the dictionary
//	stats := plan.Gather(ctx, source)         one round of reads for each source; Merge adds them up
//	query := plan.Bind(stats)                 patterns become terms, terms get weights
//	query.Search(ctx, segments, options)      the best rows of all segments, the number of rows, in one order
//
// Prepare is the first three over segments. Rows that no index covers are a Scan: it gathers and collects as a segment does,
// so a query can run over both.
//
// Rules:
//
//	R1  Statistics are summed over all sources before anything is scored, and expansions are chosen over all of them. So a
//	    score does not depend on how the rows are split into sources.
//	R2  Scores are those of Lucene 8.7 to the last bit: a clause scores in float32; the Must clauses of a Bool are added in
//	    float64 in their order and cast, so are the Should clauses, and the two sums are added in float32.
//	R3  Equal scores are in the order of the rows.
//	R4  A source that can find the best rows of a flat query by itself (Pruner) is asked to. The answer is the same.
//
// A query keeps no more than the best rows, one bit a row for each set of terms of a source, and buffers for positions;
// Options.Memory bounds the bits.
package rank

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/posting"
	"github.com/overlakedb/overlake/internal/index/bm25/primitive"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
	"github.com/overlakedb/overlake/internal/row"
)

// Field is a field of the sources, by its number.
type Field struct {
	Name   string
	Params *similarity.Params // nil: similarity.DefaultParams
}

func (f Field) params() similarity.Params {
	if f.Params == nil {
		return similarity.DefaultParams
	}
	return *f.Params
}

// Segment is a source and where its rows are: row 0 of the source is Base. Bases ascend with the segments.
type Segment struct {
	Source posting.Source
	Base   int64
	Filter *row.Bitmap // rows of the source that may be found; nil: all
}

// Hit is a row and its score.
type Hit struct {
	Row   int64 // Base of the segment plus the row in the source
	Score float32
}

// Compare orders hits: the better is less.
func (h Hit) Compare(o Hit) int {
	if c := cmp.Compare(o.Score, h.Score); c != 0 {
		return c
	}
	return cmp.Compare(h.Row, o.Row)
}

// Options bound a search.
type Options struct {
	Limit  int   // how many rows are given; 0 means none
	Track  int64 // up to this number rows are counted exactly; -1: always
	Memory int64 // bytes for sets of rows; 0: 256 MiB

	// Number gives the numbers that functions of a query use; it may be nil where there is none.
	Number primitive.Number
}

const defaultMemory = 256 << 20

// Result is what a search found.
type Result struct {
	Hits []Hit // the best first

	// Total is the number of rows that match; where it is above Options.Track, Total is Track and AtLeast is set.
	Total   int64
	AtLeast bool
}

// Top collects the best rows over many segments. It belongs to one goroutine.
type Top struct {
	limit int
	track int64
	heap  []Hit // the worst first
	total int64
}

// NewTop makes a collector of the best limit rows that counts up to track rows, -1 meaning all.
func NewTop(limit int, track int64) *Top { return &Top{limit: max(limit, 0), track: track} }

// Threshold is the hit that a row must be better than to be taken; ok is false while every row is.
func (t *Top) Threshold() (worst Hit, ok bool) {
	if len(t.heap) < t.limit {
		return Hit{}, false
	}
	if t.limit == 0 {
		return Hit{Score: math.MaxFloat32, Row: -1}, true
	}
	return t.heap[0], true
}

// Limit is how many rows are kept.
func (t *Top) Limit() int { return t.limit }

// Track is up to which number rows must be counted; -1: all.
func (t *Top) Track() int64 { return t.track }

// Counted is the number of rows counted so far.
func (t *Top) Counted() int64 { return t.total }

// Enough reports whether no more rows need to be counted.
func (t *Top) Enough() bool { return t.track >= 0 && t.total > t.track }

// Count adds rows that match to the number. A source that stops counting once Enough says so has counted enough.
func (t *Top) Count(n int64) { t.total += n }

// Add offers a row; it does not count it.
func (t *Top) Add(h Hit) {
	switch {
	case t.limit == 0:
	case len(t.heap) < t.limit:
		t.heap = append(t.heap, h)
		for i := len(t.heap) - 1; i > 0; {
			up := (i - 1) / 2
			if t.heap[i].Compare(t.heap[up]) <= 0 {
				break
			}
			t.heap[i], t.heap[up] = t.heap[up], t.heap[i]
			i = up
		}
	case h.Compare(t.heap[0]) < 0:
		t.heap[0] = h
		for i := 0; ; {
			worst := i
			for _, c := range [2]int{2*i + 1, 2*i + 2} {
				if c < len(t.heap) && t.heap[c].Compare(t.heap[worst]) > 0 {
					worst = c
				}
			}
			if worst == i {
				break
			}
			t.heap[i], t.heap[worst] = t.heap[worst], t.heap[i]
			i = worst
		}
	}
}

// Merge adds what another collector with the same limits found in other segments.
func (t *Top) Merge(o *Top) {
	for _, h := range o.heap {
		t.Add(h)
	}
	t.total += o.total
}

// Result gives what was collected.
func (t *Top) Result() *Result {
	r := &Result{Hits: slices.Clone(t.heap), Total: t.total}
	slices.SortFunc(r.Hits, Hit.Compare)
	if t.Enough() {
		r.Total, r.AtLeast = t.track, true
	}
	return r
}

// Flat is a query of terms, or of one phrase, with nothing around it: what a Pruner can answer.
type Flat struct {
	Clauses []FlatClause
	All     bool // every clause must match
	Min     int  // else at least so many, at least 1

	// Phrase is set instead of Clauses.
	Phrase *FlatPhrase

	// Inverse are the inverse norms of a field for each length byte, and Params those that they were made with.
	Inverse func(field int) *[256]float32
	Params  func(field int) similarity.Params

	Base   int64
	Filter *row.Bitmap
}

// FlatClause is a term and its weight. Terms may repeat.
type FlatClause struct {
	Field  int
	Term   posting.Term // of this source
	Weight float32
}

// FlatPhrase is a phrase: one term at each place.
type FlatPhrase struct {
	Field     int
	Terms     []posting.Term
	Positions []int
	Slop      int
	Weight    float32
}

// Pruner is what a source may be besides. Best offers the collector at least every row that is among the best, with its
// exact score, and counts rows until the collector has enough. It says false, before it has offered or counted anything,
// where it cannot answer.
type Pruner interface {
	Best(ctx context.Context, f Flat, t *Top) (bool, error)
}

// Prepare is Gather over all segments, and Bind.
func Prepare(ctx context.Context, n primitive.Node, fields []Field, segments []Segment) (*Query, error) {
	p, err := NewPlan(n, fields)
	if err != nil {
		return nil, err
	}
	st, err := p.GatherAll(ctx, segments)
	if err != nil {
		return nil, err
	}
	return p.Bind(st)
}

// Search finds the best rows of all segments.
func (q *Query) Search(ctx context.Context, segments []Segment, o Options) (*Result, error) {
	top := NewTop(o.Limit, o.Track)
	for _, s := range segments {
		if err := q.Collect(ctx, s, o, top); err != nil {
			return nil, err
		}
	}
	return top.Result(), nil
}

// rows goes over the rows of the source that match and are in a filter; nil where none can.
func (r *run) rows(filter *row.Bitmap) (iterator, error) {
	it, err := r.q.root.open(r)
	if err != nil || it == nil || filter == nil {
		return it, err
	}
	f, err := r.bits(filter.Words(int64(r.src.Rows())), filter.Len())
	if err != nil {
		return nil, err
	}
	return newConjunction([]iterator{f, it}, []iterator{it}), nil
}

// Collect searches one segment. Segments must come in the order of their bases.
func (q *Query) Collect(ctx context.Context, s Segment, o Options, top *Top) error {
	r, err := q.begin(ctx, s, o)
	if err != nil {
		return err
	}
	if p, ok := s.Source.(Pruner); ok {
		if f, flat := q.root.flat(r); flat {
			f.Base, f.Filter, f.Inverse, f.Params = s.Base, s.Filter, q.inverse, q.params
			if done, err := p.Best(ctx, f, top); done || err != nil {
				return err
			}
		}
	}
	it, err := r.rows(s.Filter)
	if err != nil || it == nil {
		return err
	}
	same := q.root.constant()
	for n, at := 1, it.advance(0); at != end; n, at = n+1, it.advance(at+1) {
		if n&1023 == 0 {
			if err := ctx.Err(); err != nil {
				return errs.Wrap(errs.Canceled, "rank.search", err)
			}
		}
		if !it.confirm() {
			continue
		}
		top.Count(1)
		worst, full := top.Threshold()
		if full && top.limit == 0 {
			if top.Enough() {
				break
			}
			continue
		}
		h := Hit{Row: s.Base + at, Score: it.score()}
		if r.err != nil {
			return r.err
		}
		if full && same && h.Compare(worst) > 0 && top.Enough() {
			break // no later row of this segment can be better
		}
		top.Add(h)
	}
	if r.err != nil {
		return r.err
	}
	return it.err()
}

package search

import (
	"context"
	"math"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25"
	"github.com/overlakedb/overlake/internal/index/bm25/best"
	"github.com/overlakedb/overlake/internal/index/bm25/posting"
	"github.com/overlakedb/overlake/internal/index/bm25/rank"
	"github.com/overlakedb/overlake/internal/index/bm25/segment"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/overlay"
	"github.com/overlakedb/overlake/internal/row"
)

// Texts by index. An index of texts answers three questions about a query: what its terms weigh, which rows are best, and
// which rows match. The files that it does not cover are read as ever; the engine scores and filters the rows that it gets.

// TextQuery asks about one column of texts.
type TextQuery struct {
	Field    int // the column, by id
	Analyzer *analysis.Analyzer
	Query    bm25.Query
	Only     string // name of the index to use; "" means any

	// Form is a query of any form over one field, instead of Query; Ranked is it under the statistics of the whole table, which
	// everything but FormStats needs.
	Form   *rank.Plan
	Ranked *rank.Query
}

// index is the first index of texts that is over the column, makes terms as the query does and has their positions if those are
// needed; nil when there is none.
func (r *TextQuery) index(view *overlay.View, positions bool) (*overlay.Index, int) {
	if view == nil {
		return nil, 0
	}
	for _, x := range view.Indexes() {
		a := x.Analyzer()
		if f := x.Field(r.Field); a != nil && f >= 0 && a.Fingerprint() == r.Analyzer.Fingerprint() && (r.Only == "" || r.Only == x.Name) && (!positions || x.Positions()) {
			return x, f
		}
	}
	return nil, 0
}

// positions reports whether a search needs the positions of terms.
func (r *TextQuery) positions() bool { return r.Form != nil && r.Form.Positions() }

// terms are the query's, as a dictionary has them.
func (r *TextQuery) terms() [][]byte {
	out := make([][]byte, len(r.Query.Terms))
	for i, t := range r.Query.Terms {
		out[i] = []byte(t)
	}
	return out
}

// TextStats collects what BM25 needs to know of a query over all rows of a plan's files: from the index where it covers them,
// from the texts elsewhere. files are those of the plan, in its order. used is the name of the index, "" when it told nothing.
func TextStats(ctx context.Context, cache *TextCache, plan *lake.Plan, view *overlay.View, files []TextFile, r TextQuery) (stats bm25.Stats, used string, err error) {
	stats = bm25.Stats{DocFreq: map[string]int64{}}
	rest := files
	if x, field := r.index(view, false); x != nil {
		parts, left, err := x.TextParts(ctx, plan)
		if err != nil {
			return stats, "", err
		}
		found := lookups(ctx, parts, field, r.terms())
		for n, p := range parts {
			// An artifact counts the rows of all its files, also of those that the table has no more.
			ok := p.Whole()
			if ok {
				terms, err := found[n].terms, found[n].err
				if ok = err == nil; ok {
					used = x.Name
					st := p.Reader.Stats(field)
					stats.Docs += st.Docs
					stats.SumTotalTermFreq += st.SumTotalTermFreq
					for i, t := range terms {
						stats.DocFreq[r.Query.Terms[i]] += t.DocFreq
					}
				} else if err := p.Damaged(ctx, err); err != nil {
					return stats, "", err
				}
			}
			for _, f := range p.Files {
				if !ok {
					left = append(left, f.File)
				}
			}
		}
		slices.Sort(left)
		rest = make([]TextFile, len(left))
		for i, f := range left {
			rest[i] = files[f]
		}
	}
	if len(rest) > 0 {
		flat, err := cache.Collect(ctx, rest, r.Analyzer, r.Query)
		if err != nil {
			return stats, "", err
		}
		stats.Merge(flat)
	}
	return stats, used, nil
}

// looked is what a part says of terms.
type looked struct {
	terms []posting.Term
	err   error
}

// lookups finds terms in those parts that are whole, in all of them at once where that takes reads.
func lookups(ctx context.Context, parts []*overlay.TextPart, field int, terms [][]byte) []looked {
	out := make([]looked, len(parts))
	var g errgroup.Group
	g.SetLimit(askParallel)
	for i, p := range parts {
		if !p.Whole() {
			continue
		}
		look := func() error {
			out[i].terms, out[i].err = p.Reader.Lookup(ctx, field, terms)
			return nil
		}
		if p.Reader.Resident() {
			_ = look() // which keeps its error
			continue
		}
		g.Go(look)
	}
	_ = g.Wait()
	return out
}

// TextRequest asks for the rows that are best for a query.
type TextRequest struct {
	TextQuery
	Scorer  *bm25.Scorer // of Query, under the statistics of the whole table; nil with a Form
	K       int
	Ties    bool // all rows with the score of the last are wanted, because they are ordered by something else
	Matches bool // fewer than K rows are enough, if no other matches: a row that does not is not wanted
	// Allowed are the live rows of each file of the plan that may be hits, by the place of the file; nil: all live rows.
	Allowed []*row.Bitmap
}

// TextHits is what an index says of a request.
type TextHits struct {
	Access *Access
	Index  string
	Parts  int // artifacts searched
}

// FindTexts asks the index of a column for the best rows. ok is false when it cannot tell, or a scan is as good.
func FindTexts(ctx context.Context, plan *lake.Plan, view *overlay.View, r TextRequest) (hits *TextHits, ok bool, err error) {
	x, field := r.index(view, r.positions())
	if x == nil || r.K < 1 || r.K > kMost || len(plan.Files) == 0 {
		return nil, false, nil
	}
	parts, rest, err := x.TextParts(ctx, plan)
	if err != nil || len(parts) == 0 {
		return nil, false, err
	}
	rows := int64(0)
	for _, p := range parts {
		for _, f := range p.Files {
			rows += f.Rows
		}
	}
	if r.K > manyHits && float64(r.K) > hitShare*float64(rows) {
		return nil, false, nil
	}
	if r.Form != nil {
		if empty, err := r.matchesEmpty(ctx); empty || err != nil {
			return nil, false, err
		}
	}
	words := make([][]uint64, len(parts))
	for i, p := range parts {
		words[i], _ = allowed(p.Files, p.Rows(), p.Whole(), plan, r.Allowed)
	}
	best := r.bestOfWords
	if r.Form != nil {
		best = r.bestOfForm
	}
	for k := r.K; ; k *= 8 {
		if r.Ties {
			k = max(k, r.K+tieRows)
		}
		found, err := best(ctx, parts, field, words, k)
		if found == nil || err != nil {
			return nil, false, err
		}
		if !r.Matches && (len(found) < r.K || found[r.K-1].Score <= 0) {
			return nil, false, nil // rows that do not match are wanted too
		}
		n := min(len(found), r.K)
		if r.Ties && n == r.K {
			for n < len(found) && found[n].Score == found[r.K-1].Score {
				n++
			}
			if n == len(found) && len(found) == k {
				if k > tieMost {
					return nil, false, nil // who is first among so many is not for the index to say
				}
				continue
			}
		}
		list := make([]fileHit, n)
		for i, h := range found[:n] {
			file, at := placeOf(parts[h.File].Files, h.Pos)
			list[i] = fileHit{File: file, Pos: at}
		}
		return &TextHits{Access: access(plan, x.Name, list, nil, rest), Index: x.Name, Parts: len(parts)}, true, nil
	}
}

// bestOfWords are the k best rows of the parts, by their places there; words are the rows of each part that may be hits, nil all.
// It is nil where a part is damaged. Parts that are read from afar are searched at once, each for itself; those at hand one after
// another, as what was found so far spares work.
func (r *TextRequest) bestOfWords(ctx context.Context, parts []*overlay.TextPart, field int, words [][]uint64, k int) (row.Hits, error) {
	top := best.New(k)
	filters := make([]*segment.Filter, len(parts))
	for i, p := range parts {
		if words[i] != nil {
			filters[i] = segment.FilterOf(words[i], p.Reader.Rows())
		}
	}
	far := make([]*best.Rows, len(parts))
	failed := make([]error, len(parts))
	var g errgroup.Group
	g.SetLimit(askParallel)
	for i, p := range parts {
		if p.Reader.Resident() {
			continue
		}
		far[i] = best.New(top.K())
		g.Go(func() error {
			failed[i] = searchPart(ctx, p, field, r, filters[i], uint32(i), &segment.Collector{Top: far[i]})
			return nil
		})
	}
	_ = g.Wait() // each keeps its own
	for i, p := range parts {
		if failed[i] != nil {
			return nil, p.Damaged(ctx, failed[i])
		}
		if far[i] != nil {
			top.Merge(far[i])
		}
	}
	c := &segment.Collector{Top: top}
	for i, p := range parts {
		if far[i] != nil {
			continue
		}
		if err := searchPart(ctx, p, field, r, filters[i], uint32(i), c); err != nil {
			return nil, p.Damaged(ctx, err)
		}
	}
	return append(row.Hits{}, top.Hits()...), nil
}

// searchPart offers the rows of one artifact.
func searchPart(ctx context.Context, p *overlay.TextPart, field int, r *TextRequest, filter *segment.Filter, part uint32, c *segment.Collector) error {
	terms, err := p.Reader.Lookup(ctx, field, r.terms())
	if err != nil {
		return err
	}
	weights, repeat, inv := r.Scorer.Clauses()
	q := segment.Query{All: r.Query.All, MinMatch: r.Query.Min, Norms: make([]*[256]float32, field+1)}
	q.Norms[field] = inv
	for i, t := range terms {
		// A repeated term is one clause of that weight where no minimum is set, yet counts as often as it stands in the query.
		q.Clauses = append(q.Clauses, segment.Clause{Field: field, Term: t, Weight: weights[i], Repeat: repeat[i]})
	}
	return p.Reader.Best(ctx, &q, filter, part, c)
}

// Prices of texts, as in decision 0004.
const (
	textMatch = 4_000.0 // to analyze a text of some thirty words, in nanoseconds
	textMost  = 0.5     // of the rows of a table, as the sum over the terms: more are not worth naming
)

// TextMatches gives, for each file of a plan that the index covers, the rows that may match a query: all that do, and where a
// minimum number of terms must match, others as well. Files that it does not speak of have nil. used is the name of the index,
// "" when none can tell.
func TextMatches(ctx context.Context, plan *lake.Plan, view *overlay.View, r TextQuery) (sets []*row.Bitmap, used string, err error) {
	x, field := r.index(view, r.positions())
	if x == nil {
		return nil, "", nil
	}
	parts, _, err := x.TextParts(ctx, plan)
	if err != nil {
		return nil, "", err
	}
	found := make([]*row.Bitmap, len(parts))
	failed := make([]error, len(parts))
	ask := matching
	if r.Form != nil {
		ask = matchingForm
	}
	var g errgroup.Group
	g.SetLimit(askParallel)
	for i, p := range parts {
		find := func() error {
			found[i], failed[i] = ask(ctx, p.Reader, field, &r)
			return nil
		}
		if p.Reader.Resident() {
			_ = find() // which keeps its error
			continue
		}
		g.Go(find)
	}
	_ = g.Wait()
	sets = make([]*row.Bitmap, len(plan.Files))
	for i, p := range parts {
		set, err := found[i], failed[i]
		if err != nil {
			if err := p.Damaged(ctx, err); err != nil {
				return nil, "", err
			}
			continue
		}
		if set == nil {
			continue
		}
		used = x.Name
		for _, f := range p.Files {
			sets[f.File] = set.Part(f.Base, f.Rows)
		}
	}
	return sets, used, nil
}

// matching are the rows of a segment that may match; nil when there are too many to be worth naming.
func matching(ctx context.Context, s *segment.Reader, field int, r *TextQuery) (*row.Bitmap, error) {
	terms, err := s.Lookup(ctx, field, r.terms())
	if err != nil {
		return nil, err
	}
	if len(terms) == 0 {
		return row.NewBitmap(), nil
	}
	slices.SortStableFunc(terms, func(a, b posting.Term) int { return int(max(min(a.DocFreq-b.DocFreq, 1), -1)) })
	asked := terms
	if !r.Query.All {
		sum := int64(0)
		for _, t := range terms {
			sum += t.DocFreq
		}
		if float64(sum) > textMost*float64(s.Rows()) {
			return nil, nil
		}
	} else if float64(terms[0].DocFreq) > textMost*float64(s.Rows()) {
		return nil, nil
	}
	var out *row.Bitmap
	for i, t := range asked {
		if r.Query.All && t.DocFreq == 0 {
			return row.NewBitmap(), nil
		}
		if r.Query.All && i > 0 && (out.Len() <= enoughRows || float64(t.DocFreq) > textMost*float64(s.Rows())) {
			break // what is left is small enough, or this term would hardly cut it
		}
		if t.DocFreq == 0 {
			continue
		}
		c, err := s.Postings(ctx, field, t, false)
		if err != nil {
			return nil, err
		}
		set := row.NewBitmap()
		var chunk []int64
		for at := c.Next(); at != posting.End; at = c.Next() {
			if chunk = append(chunk, int64(at)); len(chunk) == 4096 {
				set.AddMany(chunk)
				chunk = chunk[:0]
				if ctx.Err() != nil {
					return nil, errs.Wrap(errs.Canceled, "search.text", ctx.Err())
				}
			}
		}
		if err := c.Err(); err != nil {
			return nil, err
		}
		set.AddMany(chunk)
		switch {
		case out == nil:
			out = set
		case r.Query.All:
			out.And(set)
		default:
			out.Or(set)
		}
	}
	if out == nil {
		out = row.NewBitmap()
	}
	return out, nil
}

// Narrow leaves of an access the rows that may match texts, and takes files that are scanned to those of which rows are
// fetched, where that is cheaper: a scan has to analyze every text. columns is how many columns are wanted.
func (a *Access) Narrow(plan *lake.Plan, sets []*row.Bitmap, index string, columns int) {
	if columns <= 0 {
		columns = plan.Schema.NumFields()
	}
	a.Rows = 0
	fetch := a.Fetch[:0:0]
	for _, f := range a.Fetch {
		if set := sets[f.File]; set != nil {
			f.Rows = f.Rows.Clone()
			f.Rows.And(set)
		}
		if f.Rows.Len() == 0 {
			a.Pruned++
			continue
		}
		fetch = append(fetch, f)
	}
	scan := a.Scan[:0:0]
	for _, i := range a.Scan {
		f, set := &plan.Files[i], sets[i]
		if set == nil {
			scan = append(scan, i)
			continue
		}
		set = set.Clone()
		set.AndNot(f.Deletes)
		pages := 0
		for range set.Blocks(pageRows) {
			pages++
		}
		n, c := float64(set.Len()), float64(columns)
		price := fetchFile + c*(float64(pages)*pageRows*fetchValue+n*fetchPick) + n*textMatch
		switch {
		case n == 0:
			a.Pruned++
		case price < float64(f.Rows)*(c*scanValue+textMatch):
			fetch = append(fetch, lake.FileRows{File: i, Rows: set})
		default:
			scan = append(scan, i)
			continue
		}
		a.Covered++
		delete(a.Runs, i)
	}
	slices.SortFunc(fetch, func(x, y lake.FileRows) int { return x.File - y.File })
	a.Fetch, a.Scan = fetch, scan
	for _, f := range fetch {
		a.Rows += f.Rows.Len()
	}
	if !slices.Contains(a.Used, index) {
		a.Used = append(a.Used, index)
		slices.Sort(a.Used)
	}
	if left := math.MaxInt; len(a.Why) > 0 { // reasons are of files that are scanned
		left = len(scan)
		for i := range a.Why {
			a.Why[i].Files = min(a.Why[i].Files, left)
			left -= a.Why[i].Files
		}
		a.Why = slices.DeleteFunc(a.Why, func(r Reason) bool { return r.Files == 0 })
	}
}

package search

import (
	"cmp"
	"context"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/overlay"
	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/row"
	"github.com/overlakedb/overlake/internal/vec"
)

// The nearest rows: an index of vectors names those of the files that it covers, and the rest is scanned. As everywhere, the
// engine computes what it is asked for over the rows that it gets: their distances, their order, and the filter.

// NearestRequest asks for the rows whose vectors are nearest to one.
type NearestRequest struct {
	Field  int // the column, by id
	Metric vec.Metric
	Query  vector.Query
	K      int
	Ties   bool // rows as far as the last one are wanted too, because they are ordered by something else
	// Allowed are the live rows of each file of the plan that may be hits, by the place of the file; nil: all live rows.
	Allowed []*row.Bitmap
	Effort  Effort
	Only    string // name of the index to use; "" means any
	Forced  bool   // use an index where a scan is known to be as fast
	NotNull bool   // rows without a vector are not wanted
	Full    bool   // fewer than K rows are of no use
}

// Effort overrides how much a search of an index does; 0 means what the index says, else what was found right when it was
// built.
type Effort struct {
	Ef     int // candidates in a graph
	Probes int // lists
	Rerank int // candidates that are compared in full
	Exact  bool
}

// EffortNames are the numbers that Effort.Set takes; it takes exact besides, which is true, on, false or off.
var EffortNames = []string{"ef_search", "probes", "rerank"}

// Set sets one part of an effort by its name.
func (e *Effort) Set(name, value string) error {
	into, most := &e.Ef, 100_000
	switch name {
	case "ef_search":
	case "probes":
		into, most = &e.Probes, 1<<20
	case "rerank":
		into = &e.Rerank
	case "exact":
		switch value {
		case "true", "on":
			e.Exact = true
		case "false", "off":
			e.Exact = false
		default:
			return errs.Newf(errs.Invalid, "search.effort", "exact is true or false, not %s", value)
		}
		return nil
	default:
		return errs.New(errs.Invalid, "search.effort", "there is no such effort", errs.On(name), errs.Hint("there are %s and exact", strings.Join(EffortNames, ", ")))
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > most {
		return errs.Newf(errs.Invalid, "search.effort", "%s is a number from 1 to %d, not %s", name, most, value)
	}
	*into = n
	return nil
}

// Nearest is what indexes say of a request.
type Nearest struct {
	Access *Access // the rows to fetch and the files to scan
	Index  string
	Kind   string
	Parts  int // artifacts searched
	Hits   int // rows with a distance among the rows to fetch; of several vectors the fewest
	Work   vector.Work
}

const (
	tieRows  = 4    // more rows than wanted are asked for: two ways to add up a distance differ in its last digits
	tieMost  = 4096 // more than these ties are for a scan to order
	tieShare = 1e-5 // distances as near as this are ties, besides what vector.Result.Near says
	estShare = 0.01 // of estimated distances
	manyHits = 1000 // so many rows, and a share of a covered table such as the next, are found by a scan
	hitShare = 0.05 // as fast
	// eachShare is the share of the rows that may be near to one of several vectors: each is compared with all of them.
	eachShare = 0.1
	kMost     = 100_000 // a request of more is answered by a scan
)

// FindNearest asks the indexes of a column. ok is false when they cannot tell, or a scan is as good.
func FindNearest(ctx context.Context, plan *lake.Plan, view *overlay.View, r NearestRequest) (n *Nearest, ok bool, err error) {
	return FindNearestEach(ctx, plan, view, r, []vector.Query{r.Query})
}

// FindNearestEach is FindNearest for several vectors in the place of that of the request: the rows to fetch are those that are
// near to one of them. ok is false too when these may be a large part of the table.
func FindNearestEach(ctx context.Context, plan *lake.Plan, view *overlay.View, r NearestRequest, queries []vector.Query) (n *Nearest, ok bool, err error) {
	if !CanRank(view, r) || len(plan.Files) == 0 || len(queries) == 0 {
		return nil, false, nil
	}
	x, parts, rest, err := bestIndex(ctx, plan, view, &r, func(p *overlay.Part) bool { return (!r.Effort.Exact || p.Exact()) && p.Takes(&queries[0]) })
	if x == nil || err != nil {
		return nil, false, err
	}
	if rows := float64(rowsOf(parts)); !r.Forced && (r.K > manyHits && float64(r.K) > hitShare*rows || len(queries) > 1 && float64(r.K)*float64(len(queries)) > eachShare*rows) {
		return nil, false, nil
	}
	n = &Nearest{Index: x.Name, Kind: x.Kind, Parts: len(parts)}
	found := make([]hitsOf, len(queries))
	one := func(ctx context.Context, i int) (err error) {
		of := r
		of.Query = queries[i]
		found[i], err = nearest(ctx, plan, x, parts, &of)
		return err
	}
	if len(queries) == 1 {
		err = one(ctx, 0)
	} else {
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(runtime.GOMAXPROCS(0))
		for i := range queries {
			g.Go(func() error { return one(gctx, i) })
		}
		err = g.Wait()
	}
	if err != nil {
		return nil, false, err
	}
	var hits, also []fileHit
	for i := range found {
		if !found[i].ok || r.Full && len(found[i].hits) < r.K {
			return nil, false, nil
		}
		if i == 0 || len(found[i].hits) < n.Hits {
			n.Hits = len(found[i].hits)
		}
		hits, also = append(hits, found[i].hits...), append(also, found[i].also...)
		n.Work.Add(found[i].work)
	}
	n.Access = access(plan, x.Name, hits, also, rest)
	return n, true, nil
}

// hitsOf is what an index says of one vector; ok is false when it cannot tell.
type hitsOf struct {
	hits, also []fileHit
	work       vector.Work
	ok         bool
}

// nearest asks the artifacts of an index for the rows that are nearest to one vector, ties included where these are wanted.
func nearest(ctx context.Context, plan *lake.Plan, x *overlay.Index, parts []*overlay.Part, r *NearestRequest) (out hitsOf, err error) {
	params := vector.Params{Ef: r.Effort.Ef, Probes: r.Effort.Probes, Rerank: r.Effort.Rerank, Exact: r.Effort.Exact, NotNull: r.NotNull}
	ef, probes, rerank := vector.SearchParams(x.Params)
	params.Ef, params.Probes, params.Rerank = cmp.Or(params.Ef, ef), cmp.Or(params.Probes, probes), cmp.Or(params.Rerank, rerank)
	exact := r.Effort.Exact || x.Kind == string(vector.Flat)
	least, share := tieRows, tieShare
	estimated := slices.ContainsFunc(parts, func(p *overlay.Part) bool { return !p.Exact() })
	if estimated {
		least, share = max(tieRows, r.K/2), estShare // the engine compares these in full
	}
	for more := least; ; more *= 8 {
		params.K = r.K + more
		var near float64
		var short, ok bool
		var work vector.Work
		out.hits, out.also, near, short, work, ok, err = searchParts(ctx, plan, parts, r, params)
		out.work = work
		if !ok || err != nil || short && len(out.hits) < r.K { // rows without a distance come last, and are wanted
			return hitsOf{}, err
		}
		out.ok = true
		if len(out.hits) <= r.K {
			return out, nil
		}
		last := out.hits[r.K-1].Distance
		far := last + share*math.Abs(last) + near
		at := r.K
		if estimated {
			at = min(r.K+least, len(out.hits))
		}
		for at < len(out.hits) && out.hits[at].Distance <= far {
			at++
		}
		if (r.Ties || exact) && at == len(out.hits) && len(out.hits) >= params.K {
			if more < tieMost {
				continue
			}
			if r.Ties {
				return hitsOf{}, nil // who is first among so many is not for the index to say
			}
		}
		out.hits = out.hits[:at]
		return out, nil
	}
}

// rangeShare is the share of the rows that a range may hold at most, for fetching them to be cheaper than a scan.
const rangeShare = 0.1

// FindWithin asks the indexes of a column for the rows that are nearer than a distance: all of them, and perhaps a few that
// are as far. K and Effort of the request do not count. ok is false when the indexes cannot tell, or a scan is as good.
func FindWithin(ctx context.Context, plan *lake.Plan, view *overlay.View, r NearestRequest, within float64) (n *Nearest, ok bool, err error) {
	r.K = 1
	if !CanRank(view, r) || len(plan.Files) == 0 {
		return nil, false, nil
	}
	x, parts, rest, err := bestIndex(ctx, plan, view, &r, func(p *overlay.Part) bool { return p.Exact() && p.Takes(&r.Query) })
	if x == nil || err != nil {
		return nil, false, err
	}
	n = &Nearest{Index: x.Name, Kind: x.Kind, Parts: len(parts)}
	hits, also, _, _, work, ok, err := searchParts(ctx, plan, parts, &r, vector.Params{Exact: true, Ranged: true, Within: within})
	n.Work = work
	if !ok || err != nil {
		return nil, false, err
	}
	if !r.Forced && float64(len(hits)) > rangeShare*float64(rowsOf(parts)) {
		return nil, false, nil
	}
	n.Access = access(plan, x.Name, hits, also, rest)
	return n, true, nil
}

func rowsOf(parts []*overlay.Part) (n int64) {
	for _, p := range parts {
		for _, f := range p.Files {
			n += f.Rows
		}
	}
	return n
}

// fileHit is a hit by the place of its file in the plan.
type fileHit struct {
	File     int
	Pos      int64
	Distance float64
}

// searchParts searches all parts, some at once, and merges what they find. near and short are those of vector.Result.
func searchParts(ctx context.Context, plan *lake.Plan, parts []*overlay.Part, r *NearestRequest, params vector.Params) (hits, also []fileHit, near float64, short bool, work vector.Work, ok bool, err error) {
	results := make([]vector.Result, len(parts))
	told := make([]bool, len(parts))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(askParallel)
	one := func(ctx context.Context, i int) (err error) {
		p := params
		p.Allowed, p.AllowedCount = allowed(parts[i].Files, parts[i].Rows(), parts[i].Whole(), plan, r.Allowed)
		results[i], told[i], err = parts[i].Search(ctx, r.Query, p)
		return err
	}
	if len(parts) == 1 {
		err = one(ctx, 0)
	} else {
		for i := range parts {
			g.Go(func() error { return one(gctx, i) })
		}
		err = g.Wait()
	}
	if err != nil {
		return nil, nil, 0, false, work, false, err
	}
	for i, res := range results {
		if !told[i] {
			return nil, nil, 0, false, work, false, nil
		}
		work.Add(res.Work)
		short, near = short || res.Short, max(near, res.Near)
		place := func(pos int64, d float64) fileHit {
			file, at := placeOf(parts[i].Files, pos)
			return fileHit{file, at, d}
		}
		for _, h := range res.Hits {
			hits = append(hits, place(h.Pos, h.Distance))
		}
		for _, pos := range res.Also {
			also = append(also, place(pos, 0))
		}
	}
	slices.SortFunc(hits, func(a, b fileHit) int {
		return cmp.Or(cmp.Compare(a.Distance, b.Distance), cmp.Compare(a.File, b.File), cmp.Compare(a.Pos, b.Pos))
	})
	// What one part gives farther out than the last of these another part may have nearer and not have given.
	if params.K > 0 {
		hits = hits[:min(len(hits), params.K)]
	}
	return hits, also, near, short, work, true, nil
}

// placeOf is the file that holds a row of an artifact, by its place in the plan, and the row's place in it.
func placeOf(files []overlay.PartFile, pos int64) (file int, at int64) {
	i, found := slices.BinarySearchFunc(files, pos, func(f overlay.PartFile, pos int64) int { return cmp.Compare(f.Base, pos) })
	if !found {
		i--
	}
	return files[i].File, pos - files[i].Base
}

// allowed are the rows of an artifact that may be hits, as bits by position; nil means all. files are those of the plan that it
// covers, whole tells whether it covers no others.
func allowed(files []overlay.PartFile, rows int64, whole bool, plan *lake.Plan, sets []*row.Bitmap) (words []uint64, count int64) {
	all := sets == nil && whole
	for _, f := range files {
		all = all && plan.Files[f.File].Deletes.Len() == 0
	}
	if all {
		return nil, 0
	}
	if len(files) == 1 && files[0].Base == 0 && sets != nil {
		words = sets[files[0].File].Words(rows)
	} else {
		words = make([]uint64, (rows+63)/64)
		for _, f := range files {
			if sets != nil {
				for pos := range sets[f.File].All() {
					if at := f.Base + pos; pos < f.Rows {
						words[at>>6] |= 1 << (at & 63)
					}
				}
				continue
			}
			setRange(words, f.Base, f.Base+f.Rows)
			for pos := range plan.Files[f.File].Deletes.All() {
				if at := f.Base + pos; pos < f.Rows {
					words[at>>6] &^= 1 << (at & 63)
				}
			}
		}
	}
	for _, w := range words {
		count += int64(bits.OnesCount64(w))
	}
	return words, count
}

// setRange sets the bits from lo on, below hi.
func setRange(words []uint64, lo, hi int64) {
	for at := lo; at < hi; {
		if at&63 == 0 && hi-at >= 64 {
			words[at>>6] = math.MaxUint64
			at += 64
			continue
		}
		words[at>>6] |= 1 << (at & 63)
		at++
	}
}

// bestIndex chooses among the indexes of the column by the metric the one that covers the most rows; of equal ones the kind
// that is fastest. Files whose artifact does not fit count as not covered.
func bestIndex(ctx context.Context, plan *lake.Plan, view *overlay.View, r *NearestRequest, fits func(*overlay.Part) bool) (best *overlay.Index, parts []*overlay.Part, rest []int, err error) {
	most := int64(-1)
	for _, x := range view.Indexes() {
		if !r.isBy(x) {
			continue
		}
		p, left, err := x.Parts(ctx, plan)
		if err != nil {
			return nil, nil, nil, err
		}
		p = slices.DeleteFunc(p, func(part *overlay.Part) bool {
			if fits(part) {
				return false
			}
			for _, f := range part.Files {
				left = append(left, f.File)
			}
			return true
		})
		slices.Sort(left)
		rows := rowsOf(p)
		if len(p) == 0 || rows < most || rows == most && speed(x.Kind) >= speed(best.Kind) {
			continue
		}
		best, parts, rest, most = x, p, left, rows
	}
	return best, parts, rest, nil
}

// fastest are the kinds by how fast they find what they find.
var fastest = []vector.Kind{vector.HNSWTQ8, vector.HNSWTQ4, vector.HNSWPQ, vector.IVF, vector.IVFTQ8, vector.IVFTQ4, vector.IVFPQ, vector.HNSW, vector.IVFFlat, vector.BQ, vector.Flat}

// speed is the place of a kind among the fastest; one that is not there comes last.
func speed(kind string) int {
	if at := slices.Index(fastest, vector.Kind(kind)); at >= 0 {
		return at
	}
	return len(fastest)
}

// access makes hits an access.
func access(plan *lake.Plan, index string, hits, also []fileHit, rest []int) *Access {
	a := &Access{Used: []string{index}, Covered: len(plan.Files) - len(rest), Scan: rest}
	sets := make([]*row.Bitmap, len(plan.Files))
	for _, h := range append(slices.Clip(hits), also...) {
		if sets[h.File] == nil {
			sets[h.File] = row.NewBitmap()
		}
		sets[h.File].Add(h.Pos)
	}
	for i, s := range sets {
		if s != nil {
			a.Fetch = append(a.Fetch, lake.FileRows{File: i, Rows: s})
			a.Rows += s.Len()
		}
	}
	a.Pruned = a.Covered - len(a.Fetch)
	if len(rest) > 0 {
		a.Why = []Reason{{"no index covers the file", len(rest)}}
	}
	return a
}

// Union is an access to the rows of several, and to those of further sets, by file of the plan; files that one of them scans are
// scanned.
func Union(plan *lake.Plan, of []*Access, sets ...[]*row.Bitmap) *Access {
	out := &Access{}
	scanned := make([]bool, len(plan.Files))
	rows := make([]*row.Bitmap, len(plan.Files))
	add := func(file int, set *row.Bitmap) {
		if set.Len() == 0 {
			return
		}
		if rows[file] == nil {
			rows[file] = row.NewBitmap()
		}
		rows[file].Or(set)
	}
	for _, a := range of {
		for _, i := range a.Scan {
			scanned[i] = true
		}
		for _, f := range a.Fetch {
			add(f.File, f.Rows)
		}
		for _, name := range a.Used {
			if !slices.Contains(out.Used, name) {
				out.Used = append(out.Used, name)
			}
		}
	}
	for _, s := range sets {
		for i := range s {
			add(i, s[i])
		}
	}
	slices.Sort(out.Used)
	for i := range plan.Files {
		switch {
		case scanned[i]:
			out.Scan = append(out.Scan, i)
		case rows[i] != nil:
			out.Fetch = append(out.Fetch, lake.FileRows{File: i, Rows: rows[i]})
			out.Rows += rows[i].Len()
		default:
			out.Pruned++
		}
	}
	out.Covered = len(plan.Files) - len(out.Scan)
	if len(out.Scan) > 0 {
		out.Why = []Reason{{"no index covers the file", len(out.Scan)}}
	}
	return out
}

// FusedShare is the share of a table's rows that a fusion of rankings may name at most, for fetching them to be cheaper than a
// scan.
const FusedShare = 0.1

// maxExact bounds the rows that indexes may be asked for, to know the rows of a filter; a scan of its columns is faster for
// more.
const maxExact = 2_000_000

// FilterRows gives the live rows of each file of a plan that an exact filter leaves. ok is false when the indexes cannot
// tell.
func FilterRows(ctx context.Context, plan *lake.Plan, filter *predicate.Bound, view *overlay.View) (sets []*row.Bitmap, ok bool, err error) {
	if view == nil || !filter.IsExact() {
		return nil, false, nil
	}
	c := &chooser{plan: plan, opts: AccessOptions{Hint: UseIndex}, columns: 1}
	if c.root = c.tree(filter, view); c.root == nil {
		return nil, false, nil
	}
	sets = make([]*row.Bitmap, len(plan.Files))
	left := int64(maxExact)
	for i := range plan.Files {
		if err := ctx.Err(); err != nil {
			return nil, false, errs.Wrap(errs.Canceled, "search.filter", err)
		}
		e := &evaluation{c: c, ctx: ctx, f: &plan.Files[i], open: map[*overlay.Index]*overlay.OnFile{}}
		n, known, err := e.postings(c.root)
		if err != nil || !known {
			return nil, false, err
		}
		if left -= n; left < 0 {
			return nil, false, nil
		}
		set, known, err := e.exactly(filter, view)
		if err != nil || !known {
			return nil, false, err
		}
		set = set.Clone()
		set.AndNot(plan.Files[i].Deletes)
		sets[i] = set
	}
	return sets, true, nil
}

// CanRank tells whether some index may answer a request, without opening any.
func CanRank(view *overlay.View, r NearestRequest) bool {
	return view != nil && r.K >= 1 && r.K <= kMost && slices.ContainsFunc(view.Indexes(), r.isBy)
}

// isBy tells whether an index is of the column and by the metric.
func (r *NearestRequest) isBy(x *overlay.Index) bool {
	return overlay.OfVectors(x.Kind) && x.Columns[0] == r.Field && vector.MetricOf(x.Params) == r.Metric && (r.Only == "" || r.Only == x.Name)
}

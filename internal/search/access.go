package search

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/overlay"
	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/row"
)

// Access by filter: partitions and statistics have left some files; which of their rows can an index name, and is it
// cheaper to fetch these than to scan the file? This is the only place that decides, and it decides for each file.
//
//  1. From what is known without reading, bound the rows that the filter leaves. Where these are many, scan.
//  2. Ask the indexes, the most selective first, and combine their sets along the filter. What no index speaks of keeps
//     every row: the engine evaluates the filter again, so a set may hold too much.
//  3. Compare the price of the pages that hold the rows with the price of the scan.

// Hint overrides the comparison of prices.
type Hint uint8

// The hints.
const (
	NoHint   Hint = iota
	UseIndex      // wherever an index covers
	NoIndex       // nowhere
)

// AccessOptions tell what a query wants.
type AccessOptions struct {
	Hint Hint
	Only string // with UseIndex: the name of the index to use; "" means any
	// Columns is how many columns are wanted; 0 means all.
	Columns int
}

// Access says how the rows of a plan are reached: every file is in one of Scan, Fetch and Pruned.
type Access struct {
	Scan    []int         // files to scan, by their place in the plan
	Runs    map[int][]Run // of files to scan: runs that hold all rows of the filter; a file that is not here is read from end to end
	Fetch   []lake.FileRows
	Rows    int64    // rows to fetch
	Pruned  int      // files in which an index found no row
	Covered int      // files for which some index could be asked
	Used    []string // names of the indexes asked, ascending
	Why     []Reason // why files are scanned although indexes are there, the most frequent first
}

// Reason counts files.
type Reason struct {
	Why   string
	Files int
}

// Prices, in nanoseconds of processor time; measured with bench/, see decision 0004.
const (
	scanValue   = 12.0 // to decode and test one value of a scan
	fetchValue  = 6.0  // to unpack one value of a page, wanted or not
	fetchPick   = 250.0
	scanList    = 40.0 // to look a value up in a list of more than longKeys
	longKeys    = 8
	manyKeys    = 20_000   // to bound the rows of so many keys costs more than it can save
	fetchFile   = 60_000.0 // to open a file for fetching
	pageRows    = 2048
	scanShare   = 0.05 // a larger share of a file's rows is scanned; the indexes are asked only where the rows may lie together
	enoughRows  = 16   // a set so small is not worth cutting further
	askRow      = 20.0 // to have an index name one row of many
	askCost     = 0.1  // of the price of the scan may be spent to learn where very many rows lie
	askParallel = 64
)

// Choose decides for the files of a plan. The filter is the bound form of the one that the plan was made with.
func Choose(ctx context.Context, plan *lake.Plan, filter *predicate.Bound, view *overlay.View, opts AccessOptions) (*Access, error) {
	a := &Access{}
	c := &chooser{plan: plan, opts: opts, columns: opts.Columns}
	if c.columns <= 0 {
		c.columns = plan.Schema.NumFields()
	}
	if opts.Hint != NoIndex && view != nil {
		c.root = c.tree(filter, view)
		filter.Leaves(func(l *predicate.Bound) {
			if len(l.Keys) > longKeys {
				c.testing += scanList
			}
		})
	}
	if c.root == nil {
		for i := range plan.Files {
			a.Scan = append(a.Scan, i)
		}
		return a, nil
	}
	results := make([]fileAccess, len(plan.Files))
	if len(plan.Files) == 1 {
		var err error
		if results[0], err = c.file(ctx, 0); err != nil {
			return nil, err
		}
	} else {
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(askParallel)
		for i := range plan.Files {
			g.Go(func() (err error) {
				results[i], err = c.file(gctx, i)
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return nil, err
		}
	}
	why := map[string]int{}
	gain := map[int]float64{}
	for i, r := range results {
		if r.covered {
			a.Covered++
		}
		switch {
		case r.why != "":
			why[r.why]++
			a.Scan = append(a.Scan, i)
			if r.runs != nil {
				if a.Runs == nil {
					a.Runs = map[int][]Run{}
				}
				a.Runs[i], gain[i] = r.runs, r.gain
			}
		case r.rows.Len() == 0:
			a.Pruned++
		default:
			a.Fetch = append(a.Fetch, lake.FileRows{File: i, Rows: r.rows})
			a.Rows += r.rows.Len()
		}
	}
	a.keepRuns(gain)
	for w, n := range why {
		a.Why = append(a.Why, Reason{Why: w, Files: n})
	}
	slices.SortFunc(a.Why, func(x, y Reason) int { return cmp.Or(y.Files-x.Files, cmp.Compare(x.Why, y.Why)) })
	a.Used = c.names()
	return a, nil
}

type chooser struct {
	plan    *lake.Plan
	opts    AccessOptions
	columns int
	root    *ask
	testing float64 // the price of the filter for a row of a scan

	mu   sync.Mutex
	used map[string]bool
}

func (c *chooser) names() []string {
	var out []string
	for n := range c.used {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

func (c *chooser) use(x *overlay.Index) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.used == nil {
		c.used = map[string]bool{}
	}
	c.used[x.Name] = true
}

// ask is a node of the filter with the indexes that can speak of it. A node that none can is left out of an And, and makes
// its Or unknown.
type ask struct {
	op      predicate.BoundOp
	kids    []*ask
	keys    predicate.Ranges
	null    bool
	indexes []*overlay.Index
}

// tree finds the indexes for a filter; nil when none can help.
func (c *chooser) tree(b *predicate.Bound, view *overlay.View) *ask {
	switch b.Op {
	case predicate.BoundAnd:
		n := &ask{op: b.Op, kids: c.composites(b, view)}
		for _, k := range b.Kids {
			if x := c.tree(k, view); x != nil {
				n.kids = append(n.kids, x)
			}
		}
		switch len(n.kids) {
		case 0:
			return nil
		case 1:
			return n.kids[0]
		}
		return n
	case predicate.BoundOr:
		n := &ask{op: b.Op}
		for _, k := range b.Kids {
			x := c.tree(k, view)
			if x == nil {
				return nil
			}
			n.kids = append(n.kids, x)
		}
		return n
	case predicate.BoundLeaf:
		n := &ask{op: b.Op, keys: b.Keys, null: b.Null}
		if len(b.Keys) == 0 && !b.Null {
			return n // no row at all, whatever the index
		}
		for _, x := range view.Indexes() {
			if len(x.Columns) == 1 && x.Columns[0] == b.Field && c.allowed(x) {
				n.indexes = append(n.indexes, x)
			}
		}
		// An index that names rows before one that only rules files out.
		slices.SortStableFunc(n.indexes, func(x, y *overlay.Index) int { return preference(x) - preference(y) })
		if n.indexes != nil {
			return n
		}
		if x := c.prefix(b, view); x != nil {
			return x
		}
	}
	return nil
}

// preference orders indexes of one column: less is looked at first.
func preference(x *overlay.Index) int {
	if x.Kind == overlay.Bloom {
		return 1
	}
	return 0
}

func (c *chooser) allowed(x *overlay.Index) bool {
	return !overlay.OfVectors(x.Kind) && x.Kind != overlay.Text && (c.opts.Only == "" || c.opts.Only == x.Name)
}

// maxTuples bounds the ranges that IN lists over several columns multiply to.
const maxTuples = 10_000

// composites are the questions that an AND puts to indexes over several columns: values of the first columns, and perhaps
// a range of the next.
func (c *chooser) composites(b *predicate.Bound, view *overlay.View) []*ask {
	leaves := map[int]*predicate.Bound{}
	for _, k := range b.Kids {
		if k.Op == predicate.BoundLeaf {
			if _, twice := leaves[k.Field]; !twice {
				leaves[k.Field] = k
			}
		}
	}
	var out []*ask
	for _, x := range view.Indexes() {
		if len(x.Columns) < 2 || x.Kind != overlay.Bitmap || !c.allowed(x) {
			continue
		}
		if leaves[x.Columns[0]] == nil || leaves[x.Columns[1]] == nil {
			continue // the first column alone is asked elsewhere
		}
		if keys := tuples(x.Columns, leaves); keys != nil {
			out = append(out, &ask{op: predicate.BoundLeaf, keys: keys, indexes: []*overlay.Index{x}})
		}
	}
	return out
}

// prefix asks an index over several columns for its first one.
func (c *chooser) prefix(b *predicate.Bound, view *overlay.View) *ask {
	n := &ask{op: predicate.BoundLeaf}
	for _, x := range view.Indexes() {
		if len(x.Columns) > 1 && x.Kind == overlay.Bitmap && x.Columns[0] == b.Field && c.allowed(x) {
			if keys := tuples(x.Columns, map[int]*predicate.Bound{b.Field: b}); keys != nil {
				n.keys = keys
				n.indexes = append(n.indexes, x)
			}
		}
	}
	if n.indexes == nil {
		return nil
	}
	return n
}

// tuples are the ranges of tuples that the leaves of the first columns leave: products of their values as long as all are
// single values, then ranges of one more column.
func tuples(columns []int, leaves map[int]*predicate.Bound) predicate.Ranges {
	heads := [][]byte{nil}
	for at, field := range columns {
		leaf := leaves[field]
		if leaf == nil {
			break
		}
		points := !slices.ContainsFunc(leaf.Keys, func(r predicate.Range) bool { return !r.IsPoint() })
		n := len(leaf.Keys)
		if leaf.Null {
			n++
		}
		if len(heads)*n > maxTuples {
			if at == 0 {
				return nil
			}
			break
		}
		var next [][]byte
		var out []predicate.Range
		for _, h := range heads {
			if leaf.Null {
				key := predicate.AppendTuple(slices.Clone(h), leaf.Kind, nil, true)
				next = append(next, key)
				out = append(out, predicate.PrefixRange(key))
			}
			for _, r := range leaf.Keys {
				if points {
					next = append(next, predicate.AppendTuple(slices.Clone(h), leaf.Kind, r.Lo, false))
					continue
				}
				out = append(out, predicate.TupleRange(h, leaf.Kind, r))
			}
		}
		if !points {
			return predicate.RangesOf(out...)
		}
		heads = next
	}
	out := make([]predicate.Range, len(heads))
	for i, h := range heads {
		out[i] = predicate.PrefixRange(h)
	}
	return predicate.RangesOf(out...)
}

// fileAccess is the decision for one file: rows to fetch, or why it is scanned.
type fileAccess struct {
	rows    *row.Bitmap
	why     string
	runs    []Run   // with why: what of the file is scanned; nil: all
	gain    float64 // by the runs, in nanoseconds
	covered bool
}

func (c *chooser) file(ctx context.Context, i int) (fileAccess, error) {
	f := &c.plan.Files[i]
	e := &evaluation{c: c, ctx: ctx, f: f, open: map[*overlay.Index]*overlay.OnFile{}}
	most, known, err := e.estimate(c.root)
	if err != nil {
		return fileAccess{}, err
	}
	if !known {
		return fileAccess{why: "no index covers the file"}, nil
	}
	forced := c.opts.Hint == UseIndex
	scan := float64(f.Rows) * (float64(c.columns)*scanValue + c.testing)
	if !forced && most > 64 && float64(most) > scanShare*float64(f.Rows) {
		switch {
		case !e.exact:
			return fileAccess{covered: true, why: "the index cannot rule the file out"}, nil
		case f.Rows < 2*runGap || float64(most) > runAsk*float64(f.Rows) || float64(most)*askRow > askCost*scan:
			return fileAccess{covered: true, why: tooMany}, nil
		}
	}
	rows, known, err := e.find(c.root)
	if err != nil {
		return fileAccess{}, err
	}
	if !known {
		return fileAccess{covered: true, why: "the index cannot name the rows"}, nil
	}
	if f.Deletes.Len() > 0 {
		rows = rows.Clone()
		rows.AndNot(f.Deletes)
	}
	if n := rows.Len(); !forced && n > enoughRows {
		pages := 0
		for range rows.Blocks(pageRows) {
			pages++
		}
		fetch := fetchFile + float64(c.columns)*(float64(pages)*pageRows*fetchValue+float64(n)*fetchPick)
		runs, gain := runsOf(rows, f.Rows)
		if fetch > scan-gain {
			d := fileAccess{covered: true, why: "scanning is cheaper than fetching so many rows", runs: runs, gain: gain}
			if runs == nil && float64(n) > scanShare*float64(f.Rows) {
				d.why = tooMany
			}
			return d, nil
		}
	}
	return fileAccess{rows: rows, covered: true}, nil
}

var tooMany = fmt.Sprintf("more than %g %% of the rows may match", scanShare*100)

// evaluation asks the indexes about one file.
type evaluation struct {
	c    *chooser
	ctx  context.Context
	f    *lake.DataFile
	open map[*overlay.Index]*overlay.OnFile

	exact bool // some index that was opened names rows
}

func (e *evaluation) on(x *overlay.Index) (*overlay.OnFile, error) {
	if o, ok := e.open[x]; ok {
		return o, nil
	}
	o, err := x.On(e.ctx, e.f)
	if err == nil {
		e.open[x] = o
		e.exact = e.exact || o != nil && o.Exact()
	}
	return o, err
}

// estimate bounds the rows that a node leaves; known is false when no index covers the file.
func (e *evaluation) estimate(n *ask) (most int64, known bool, err error) {
	most = e.f.Rows
	switch n.op {
	case predicate.BoundAnd:
		for _, k := range n.kids {
			m, ok, err := e.estimate(k)
			if err != nil {
				return 0, false, err
			}
			if ok {
				known, most = true, min(most, m)
			}
		}
	case predicate.BoundOr:
		sum := int64(0)
		for _, k := range n.kids {
			m, ok, err := e.estimate(k)
			if err != nil || !ok {
				return e.f.Rows, false, err
			}
			sum += m
		}
		return min(sum, e.f.Rows), true, nil
	case predicate.BoundLeaf:
		if len(n.keys) == 0 && !n.null {
			return 0, true, nil
		}
		for _, x := range n.indexes {
			o, err := e.on(x)
			if err != nil {
				return 0, false, err
			}
			if o != nil {
				known = true
				if len(n.keys) <= manyKeys {
					_, m := o.Estimate(n.keys, n.null)
					most = min(most, m)
				}
			}
		}
	}
	return most, known, nil
}

// find gives the rows that a node leaves, perhaps more; known is false when the indexes cannot tell.
func (e *evaluation) find(n *ask) (set *row.Bitmap, known bool, err error) {
	switch n.op {
	case predicate.BoundAnd:
		type part struct {
			k    *ask
			most int64
		}
		var parts []part
		for _, k := range n.kids {
			m, ok, err := e.estimate(k)
			if err != nil {
				return nil, false, err
			}
			if ok {
				parts = append(parts, part{k, m})
			}
		}
		slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(a.most, b.most) })
		for _, p := range parts {
			if known && (set.Len() <= enoughRows || p.most > e.f.Rows/2) {
				break
			}
			s, ok, err := e.find(p.k)
			if err != nil {
				return nil, false, err
			}
			switch {
			case !ok:
			case !known:
				set, known = s, true
			default:
				set = set.Clone()
				set.And(s)
			}
		}
		return set, known, nil
	case predicate.BoundOr:
		out := row.NewBitmap()
		for _, k := range n.kids {
			s, ok, err := e.find(k)
			if err != nil || !ok {
				return nil, false, err
			}
			out.Or(s)
		}
		return out, true, nil
	}
	if len(n.keys) == 0 && !n.null {
		return row.NewBitmap(), true, nil
	}
	for _, x := range n.indexes {
		o, err := e.on(x)
		if err != nil {
			return nil, false, err
		}
		if o == nil {
			continue
		}
		s, ok, err := o.Find(e.ctx, n.keys, n.null)
		if err != nil {
			return nil, false, err
		}
		if ok {
			e.c.use(x)
			return s, true, nil
		}
		if o.Exact() {
			// It is damaged: what was estimated with it does not count.
			e.open[x] = nil
		}
	}
	return nil, false, nil
}

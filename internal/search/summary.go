package search

import (
	"bytes"
	"context"
	"slices"

	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/overlay"
	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/row"
)

// What indexes say without the rows: how many there are, and which have the least and the greatest value of a column. The
// rows are named, not their values, so that what a query gets is what the table holds.

// Place is one row of a plan.
type Place struct {
	File int // in the plan
	Pos  int64
}

// Summary is what indexes alone say of the rows that a filter leaves. Without rows there are no places.
type Summary struct {
	Rows            int64 // NULLs of the column asked for included
	Nulls           int64 // rows in which the column asked for is NULL
	Any             Place
	Least, Greatest Place // of the column asked for, when not all are NULL
	Ends            bool  // whether a column was asked for
	Null            Place // a row in which the column asked for is NULL
	Used            []string
}

// Rows that have to be looked at one by one to count them may be so many at most, as a share of all: beyond, a scan is as
// fast.
const countShare = 0.1

// Summarize counts the live rows of a plan that an exact filter leaves, and finds the ends of a column, by its field id; 0
// asks for none, and a filter over other columns than this one is then allowed. ok is false when the indexes cannot tell.
func Summarize(ctx context.Context, plan *lake.Plan, filter *predicate.Bound, view *overlay.View, field int) (s Summary, ok bool, err error) {
	leaf := filter
	if filter.Op == predicate.BoundAll {
		if field == 0 {
			return s, false, nil // the metadata says it
		}
		leaf = &predicate.Bound{Op: predicate.BoundLeaf, Field: field, Keys: predicate.Ranges{{NoHi: true}}, Null: true, Exact: true}
	}
	if !leaf.IsExact() || view == nil {
		return s, false, nil
	}
	if leaf.Op == predicate.BoundLeaf && (field == 0 || leaf.Field == field) {
		return summarizeLeaf(ctx, plan, leaf, view, field != 0)
	}
	if field != 0 {
		return s, false, nil
	}
	c := &chooser{plan: plan, opts: AccessOptions{Hint: UseIndex}}
	if ok, err := c.worthFinding(ctx, filter, view, int64(countShare*float64(plan.Rows))); !ok || err != nil {
		return s, false, err
	}
	for i := range plan.Files {
		f := &plan.Files[i]
		e := &evaluation{c: c, ctx: ctx, f: f, open: map[*overlay.Index]*overlay.OnFile{}}
		set, known, err := e.exactly(filter, view)
		if err != nil || !known {
			return s, false, err
		}
		if f.Deletes.Len() > 0 {
			set = set.Clone()
			set.AndNot(f.Deletes)
		}
		if n := set.Len(); n > 0 {
			if s.Rows == 0 {
				s.Any = Place{File: i, Pos: first(set)}
			}
			s.Rows += n
		}
	}
	s.Used = c.names()
	return s, true, nil
}

func first(set *row.Bitmap) int64 {
	for p := range set.All() {
		return p
	}
	return -1
}

// worthFinding tells whether indexes cover the columns of a filter and pass at most so many rows to find its rows.
func (c *chooser) worthFinding(ctx context.Context, filter *predicate.Bound, view *overlay.View, most int64) (bool, error) {
	if c.root = c.tree(filter, view); c.root == nil {
		return false, nil
	}
	many := int64(0)
	for i := range c.plan.Files {
		e := &evaluation{c: c, ctx: ctx, f: &c.plan.Files[i], open: map[*overlay.Index]*overlay.OnFile{}}
		n, known, err := e.postings(c.root)
		if err != nil || !known {
			return false, err
		}
		if many += n; many > most {
			return false, nil
		}
	}
	return true, nil
}

// postings bounds the rows that finding the sets of all leaves passes.
func (e *evaluation) postings(n *ask) (int64, bool, error) {
	if n.op == predicate.BoundLeaf {
		return e.estimate(n)
	}
	sum := int64(0)
	for _, k := range n.kids {
		m, known, err := e.postings(k)
		if err != nil || !known {
			return 0, false, err
		}
		sum += m
	}
	return sum, true, nil
}

// exactly gives the rows of an exact filter; known is false when an index for one of its columns is missing.
func (e *evaluation) exactly(b *predicate.Bound, view *overlay.View) (set *row.Bitmap, known bool, err error) {
	if b.Op == predicate.BoundLeaf {
		if len(b.Keys) == 0 && !b.Null {
			return row.NewBitmap(), true, nil
		}
		x := exactIndex(view, b.Field)
		if x == nil {
			return nil, false, nil
		}
		o, err := e.on(x)
		if o == nil || err != nil {
			return nil, false, err
		}
		e.c.use(x)
		return o.Find(e.ctx, b.Keys, b.Null)
	}
	for _, k := range b.Kids {
		s, ok, err := e.exactly(k, view)
		if err != nil || !ok {
			return nil, false, err
		}
		switch {
		case set == nil:
			set = s.Clone()
		case b.Op == predicate.BoundAnd:
			set.And(s)
		default:
			set.Or(s)
		}
	}
	return set, set != nil, nil
}

// exactIndex is an index that names the rows of a column's values.
func exactIndex(view *overlay.View, field int) *overlay.Index {
	for _, x := range view.Indexes() {
		if x.Kind == overlay.Bitmap && len(x.Columns) == 1 && x.Columns[0] == field {
			return x
		}
	}
	return nil
}

func summarizeLeaf(ctx context.Context, plan *lake.Plan, leaf *predicate.Bound, view *overlay.View, ends bool) (s Summary, ok bool, err error) {
	x := exactIndex(view, leaf.Field)
	if x == nil {
		return s, false, nil
	}
	var least, greatest []byte
	for i := range plan.Files {
		f := &plan.Files[i]
		o, err := x.On(ctx, f)
		if o == nil || err != nil {
			return s, false, err
		}
		values, ok, err := live(ctx, o, leaf.Keys, false, f.Deletes)
		if err != nil || !ok {
			return s, false, err
		}
		if values > 0 && (ends || s.Rows == 0) {
			low, pos, ok, err := end(ctx, o, leaf.Keys, f.Deletes, false)
			if err != nil || !ok {
				return s, false, err
			}
			if s.Rows == 0 {
				s.Any = Place{File: i, Pos: pos}
			}
			if least == nil || bytes.Compare(low, least) < 0 {
				least, s.Least = low, Place{File: i, Pos: pos}
			}
		}
		if values > 0 && ends {
			high, pos, ok, err := end(ctx, o, leaf.Keys, f.Deletes, true)
			if err != nil || !ok {
				return s, false, err
			}
			if greatest == nil || bytes.Compare(high, greatest) > 0 {
				greatest, s.Greatest = high, Place{File: i, Pos: pos}
			}
		}
		nulls := int64(0)
		if leaf.Null {
			if nulls, ok, err = live(ctx, o, nil, true, f.Deletes); err != nil || !ok {
				return s, false, err
			}
		}
		if nulls > 0 && s.Nulls == 0 {
			set, ok, err := o.Find(ctx, nil, true)
			if err != nil || !ok {
				return s, false, err
			}
			for p := range set.All() {
				if !f.Deletes.Contains(p) {
					s.Null = Place{File: i, Pos: p}
					break
				}
			}
			if s.Rows == 0 && values == 0 {
				s.Any = s.Null
			}
		}
		s.Nulls += nulls
		s.Rows += values + nulls
	}
	s.Used, s.Ends = []string{x.Name}, ends
	return s, true, nil
}

// live counts the rows of a set of keys that are not deleted.
func live(ctx context.Context, o *overlay.OnFile, keys predicate.Ranges, null bool, deletes *row.Bitmap) (n int64, ok bool, err error) {
	if len(keys) == 0 && !null {
		return 0, true, nil
	}
	if deletes.Len() == 0 {
		return o.Count(ctx, keys, null)
	}
	set, ok, err := o.Find(ctx, keys, null)
	if err != nil || !ok {
		return 0, false, err
	}
	set = set.Clone()
	set.AndNot(deletes)
	return set.Len(), true, nil
}

// end finds the first or the last key of a set with a live row; pos is -1 when there is none.
func end(ctx context.Context, o *overlay.OnFile, keys predicate.Ranges, deletes *row.Bitmap, last bool) (key []byte, pos int64, ok bool, err error) {
	pos = -1
	ok, err = o.Walk(ctx, keys, last, func(k []byte, rows []int64) bool {
		for _, p := range rows {
			if !deletes.Contains(p) {
				key, pos = slices.Clone(k), p
				return false
			}
		}
		return true
	})
	if key == nil && pos >= 0 {
		key = []byte{}
	}
	return key, pos, ok, err
}

// fetchOf fetches sets of rows, one for each file of a plan or nil, that an index named.
func fetchOf(sets []*row.Bitmap, index string) *Access {
	a := &Access{Used: []string{index}, Covered: len(sets)}
	for i, s := range sets {
		if s == nil {
			a.Pruned++
			continue
		}
		a.Fetch = append(a.Fetch, lake.FileRows{File: i, Rows: s})
		a.Rows += s.Len()
	}
	return a
}

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

// TopRequest asks for the rows that come first in the order of a column.
type TopRequest struct {
	Field      int // by id
	Descending bool
	NullsFirst bool
	Rows       int64 // how many are wanted
}

const (
	// maxTop bounds the rows that are looked for in an index, ties of the last one apart.
	maxTop = 10_000
	// orderShare bounds the rows that are passed in the order of an index until enough of them pass a filter, as a share of a
	// file's rows: beyond, a scan is as fast.
	orderShare = 0.1
	// keepShare bounds the rows that are read of other indexes to know what a filter keeps, as a share of all: the scan that
	// this saves reads all columns for its first rows.
	keepShare = 0.5
)

// Top gives rows among which those are that come first in the order of a column: as many as wanted from every file, with
// all that are equal to the last. ok is false when the indexes cannot tell, or only with so much work that a scan is as
// good. The filter must be exact, or keep all. What it says of the column itself bounds the walk; what it says of others
// is a set of rows, by their indexes, in which each row of the walk is looked up.
func Top(ctx context.Context, plan *lake.Plan, filter *predicate.Bound, view *overlay.View, r TopRequest) (a *Access, ok bool, err error) {
	if view == nil || r.Rows > maxTop || filter.Op != predicate.BoundAll && !filter.IsExact() {
		return nil, false, nil
	}
	x := exactIndex(view, r.Field)
	if x == nil {
		return nil, false, nil
	}
	c := &chooser{plan: plan, opts: AccessOptions{Hint: UseIndex}}
	keys, null, rest := orderKeys(filter, r.Field)
	if rest != nil {
		if ok, err := c.worthFinding(ctx, rest, view, max(fewRows, int64(keepShare*float64(plan.Rows)))); !ok || err != nil {
			return nil, false, err
		}
	}
	t := &topRows{r: r, sets: make([]*row.Bitmap, len(plan.Files))}
	for i := range plan.Files {
		f := &plan.Files[i]
		e := &evaluation{c: c, ctx: ctx, f: f, open: map[*overlay.Index]*overlay.OnFile{}}
		o, err := e.on(x)
		if o == nil || err != nil {
			return nil, false, err
		}
		var keep *row.Bitmap // nil: all that is not deleted
		if rest != nil {
			set, known, err := e.exactly(rest, view)
			if err != nil || !known {
				return nil, false, err
			}
			keep = set.Clone()
			keep.AndNot(f.Deletes)
			if keep.Len() <= r.Rows {
				t.add(i, slices.Collect(keep.All())) // whatever their order
				continue
			}
			// In no order, one of so many rows that are passed is kept.
			if float64(r.Rows)/float64(keep.Len())*float64(f.Rows) > float64(mostPassed(f)) {
				return nil, false, nil
			}
		}
		if ok, err := t.walk(ctx, o, i, f, keys, null, keep); err != nil || !ok {
			return nil, false, err
		}
	}
	if !t.choose() {
		println("choose")
		return nil, false, nil
	}
	if a = fetchOf(t.sets, x.Name); a.Rows > 10*maxTop {
		println("many", a.Rows)
		return nil, false, nil
	}
	c.use(x)
	a.Used = c.names()
	return a, true, nil
}

// orderKeys parts a filter into the keys of one column that it leaves and what it says besides, nil for nothing.
func orderKeys(filter *predicate.Bound, field int) (keys predicate.Ranges, null bool, rest *predicate.Bound) {
	keys, null = predicate.Ranges{{NoHi: true}}, true
	switch {
	case filter.Op == predicate.BoundAll:
		return keys, null, nil
	case filter.Op == predicate.BoundLeaf && filter.Field == field:
		return filter.Keys, filter.Null, nil
	case filter.Op == predicate.BoundAnd:
		at := slices.IndexFunc(filter.Kids, func(k *predicate.Bound) bool { return k.Op == predicate.BoundLeaf && k.Field == field })
		if at < 0 {
			break
		}
		part := *filter
		part.Kids = slices.Delete(slices.Clone(filter.Kids), at, at+1)
		if rest = &part; len(part.Kids) == 1 {
			rest = part.Kids[0]
		}
		return filter.Kids[at].Keys, filter.Kids[at].Null, rest
	}
	return keys, null, filter
}

// topRows gathers the first rows of files.
type topRows struct {
	r    TopRequest
	sets []*row.Bitmap // by file: rows to fetch

	found   []topKey
	have    int64 // rows of found
	nulls   []lake.FileRows
	missing int64 // rows of nulls
}

type topKey struct {
	key  []byte
	file int
	rows []int64
}

func (t *topRows) add(file int, rows []int64) {
	if len(rows) == 0 {
		return
	}
	if t.sets[file] == nil {
		t.sets[file] = row.NewBitmap()
	}
	t.sets[file].AddMany(rows)
}

// mostPassed bounds the rows of a file that are passed in the order of an index.
func mostPassed(f *lake.DataFile) int64 { return max(fewRows, int64(orderShare*float64(f.Rows))) }

// walk takes the first rows of a file that are to be kept. ok is false when it is too far to these, or the index is damaged.
func (t *topRows) walk(ctx context.Context, o *overlay.OnFile, i int, f *lake.DataFile, keys predicate.Ranges, null bool, keep *row.Bitmap) (ok bool, err error) {
	n, passed, most := int64(0), int64(0), mostPassed(f)
	ok, err = o.Walk(ctx, keys, t.r.Descending, func(k []byte, rows []int64) bool {
		var live []int64
		for _, p := range rows {
			if keep == nil && !f.Deletes.Contains(p) || keep != nil && keep.Contains(p) {
				live = append(live, p)
			}
		}
		if len(live) > 0 {
			t.found = append(t.found, topKey{slices.Clone(k), i, live})
			n += int64(len(live))
		}
		passed += int64(len(rows))
		return n < t.r.Rows && (keep == nil || passed <= most)
	})
	if err != nil || !ok || n < t.r.Rows && keep != nil && passed > most {
		return false, err
	}
	t.have += n
	if null {
		set, ok, err := o.Find(ctx, nil, true)
		if err != nil || !ok {
			return false, err
		}
		set = set.Clone()
		if set.AndNot(f.Deletes); keep != nil {
			set.And(keep)
		}
		if set.Len() > 0 {
			t.nulls = append(t.nulls, lake.FileRows{File: i, Rows: set})
			t.missing += set.Len()
		}
	}
	return true, nil
}

// choose takes the first of what was found, and NULLs where they may be among the first; false when these are too many.
func (t *topRows) choose() bool {
	slices.SortStableFunc(t.found, func(p, q topKey) int {
		if t.r.Descending {
			p, q = q, p
		}
		return bytes.Compare(p.key, q.key)
	})
	want := t.r.Rows
	if t.r.NullsFirst {
		want -= min(t.missing, want)
	}
	n := int64(0)
	for i, x := range t.found {
		if n >= want && (i == 0 || !bytes.Equal(t.found[i-1].key, x.key)) {
			break
		}
		t.add(x.file, x.rows)
		n += int64(len(x.rows))
	}
	if t.r.NullsFirst && t.missing > 0 || t.have < t.r.Rows {
		if t.missing > 10*maxTop {
			return false
		}
		for _, f := range t.nulls {
			t.add(f.File, slices.Collect(f.Rows.All()))
		}
	}
	return true
}

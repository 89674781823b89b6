package search

import (
	"context"
	"slices"

	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/overlay"
	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/row"
)

// Different values are looked for in an index when there are few of them in a file, and many rows for each.
const (
	maxDistinct   = 10_000
	rowsADistinct = 40 // with 50 it takes half of a scan, with 500 a fifth

	fewRows = 1 << 16 // to look at so many of an index is cheap, whatever the file
)

// Distinct gives for each different value of a column, by its field id, one live row that has it, and one with NULL if there
// is one. The filter must keep all or be an exact one over the column. ok is false when the indexes cannot tell, or when a
// scan is likely to be as cheap and the hint leaves the choice.
//
// The first row of each value is read of an index without its others. Only values whose first row is deleted, or belongs to
// another file that shares the artifact, are looked for among all their rows.
func Distinct(ctx context.Context, plan *lake.Plan, filter *predicate.Bound, view *overlay.View, field int, hint Hint) (a *Access, ok bool, err error) {
	keys, null := predicate.Ranges{{NoHi: true}}, true
	if filter.Op == predicate.BoundLeaf && filter.Field == field && filter.IsExact() {
		keys, null = filter.Keys, filter.Null
	} else if filter.Op != predicate.BoundAll {
		return nil, false, nil
	}
	if view == nil {
		return nil, false, nil
	}
	x := exactIndex(view, field)
	if x == nil {
		return nil, false, nil
	}
	on := make([]*overlay.OnFile, len(plan.Files))
	for i := range plan.Files {
		f := &plan.Files[i]
		if on[i], err = x.On(ctx, f); on[i] == nil || err != nil {
			return nil, false, err
		}
		if n, ok := on[i].Distinct(keys); !ok || n > maxDistinct || hint != UseIndex && n > 1 && n*rowsADistinct > f.Rows {
			return nil, false, nil
		}
	}
	sets := make([]*row.Bitmap, len(plan.Files))
	have := map[string]bool{}
	known := func(key []byte) bool { return have[string(key)] }
	keep := func(file int, pos int64) {
		if sets[file] == nil {
			sets[file] = row.NewBitmap()
		}
		sets[file].Add(pos)
	}
	hidden := make([][]predicate.Range, len(plan.Files)) // values whose first row does not do
	for i, o := range on {
		f := &plan.Files[i]
		ok, err := o.Firsts(ctx, keys, known, func(key []byte, pos int64) bool {
			switch {
			case known(key):
			case pos >= 0 && pos < f.Rows && !f.Deletes.Contains(pos):
				have[string(key)] = true
				keep(i, pos)
			default:
				hidden[i] = append(hidden[i], predicate.Point(slices.Clone(key)))
			}
			return len(have) <= maxDistinct
		})
		if !ok || err != nil || len(have) > maxDistinct {
			return nil, false, err
		}
	}
	for i, o := range on {
		f := &plan.Files[i]
		left := predicate.RangesOf(slices.DeleteFunc(hidden[i], func(r predicate.Range) bool { return known(r.Lo) })...)
		if len(left) == 0 {
			continue
		}
		if _, most := o.Estimate(left, false); hint != UseIndex && most > fewRows && float64(most) > countShare*float64(f.Rows) {
			return nil, false, nil
		}
		ok, err := o.Walk(ctx, left, false, func(key []byte, rows []int64) bool {
			for _, p := range rows {
				if !f.Deletes.Contains(p) {
					have[string(key)] = true
					keep(i, p)
					break
				}
			}
			return true
		})
		if !ok || err != nil {
			return nil, false, err
		}
	}
	for i, o := range on {
		if !null {
			break
		}
		pos, ok, err := o.FirstNull(ctx)
		if !ok || err != nil {
			return nil, false, err
		}
		if f := &plan.Files[i]; pos >= 0 && f.Deletes.Contains(pos) {
			set, ok, err := o.Find(ctx, nil, true)
			if !ok || err != nil {
				return nil, false, err
			}
			set = set.Clone()
			set.AndNot(f.Deletes)
			pos = first(set)
		}
		if pos >= 0 {
			keep(i, pos)
			null = false
		}
	}
	return fetchOf(sets, x.Name), true, nil
}

package overlay

import (
	"cmp"
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector"
	"github.com/overlakedb/overlake/internal/lake"
)

// covering is an artifact with the files of a plan that it covers.
type covering struct {
	Files []PartFile // in the order of their rows in the artifact

	index *Index
	a     *Artifact
	r     *reader
}

// PartFile is one file of a part.
type PartFile struct {
	File int   // place in the plan
	Base int64 // place of its first row in the artifact
	Rows int64
}

// Rows is how many rows the artifact has, also of files that the plan lacks.
func (p *covering) Rows() int64 { return p.a.Rows }

// Whole tells whether the files of the plan are all that the artifact covers.
func (p *covering) Whole() bool { return len(p.Files) == len(p.a.Files) && p.covered() == p.a.Rows }

func (p *covering) covered() (n int64) {
	for _, f := range p.Files {
		n += f.Rows
	}
	return n
}

// askParallel bounds the requests that are under way at once while artifacts are opened.
const askParallel = 32

// coverings opens the artifacts of an index that cover files of a plan, and gives the places of the files that none covers,
// or only one that is not as it should be. What the files are now and what the artifacts say is asked at the same time, of all
// of them. An error means that the query is at its end.
func (x *Index) coverings(ctx context.Context, plan *lake.Plan, fits func(r *reader) bool) (parts []*covering, rest []int, err error) {
	type opened struct {
		r   *reader
		err error
	}
	var g errgroup.Group
	g.SetLimit(askParallel)
	at := map[*Artifact]*opened{}
	named := make([]*Artifact, len(plan.Files))
	for i := range plan.Files {
		f := &plan.Files[i]
		a, ok := x.view.v.Artifact(x.ID, f.Path)
		if !ok {
			continue
		}
		named[i] = a
		g.Go(func() error {
			// What goes wrong here, check tells.
			_, _ = x.view.key(ctx, f)
			return nil
		})
		if at[a] != nil || a.Fingerprint != x.print {
			continue
		}
		o := &opened{}
		at[a] = o
		if o.r = x.view.o.set.cache.opened(a); o.r == nil {
			g.Go(func() error {
				o.r, o.err = x.view.o.set.cache.reader(ctx, a)
				return nil
			})
		}
	}
	_ = g.Wait() // each keeps its own
	place := map[*Artifact]int{}
	for i, a := range named {
		if a == nil {
			rest = append(rest, i)
			continue
		}
		f := &plan.Files[i]
		a, base, err := x.check(ctx, f, a)
		if err != nil {
			return nil, nil, err
		}
		if a == nil {
			rest = append(rest, i)
			continue
		}
		k, ok := place[a]
		if !ok {
			k = -1
			o := at[a]
			if o.err != nil {
				if err := x.damaged(ctx, a, o.err); err != nil {
					return nil, nil, err
				}
			} else if o.r != nil && fits(o.r) {
				k = len(parts)
				parts = append(parts, &covering{index: x, a: a, r: o.r})
			}
			place[a] = k
		}
		if k < 0 {
			rest = append(rest, i)
			continue
		}
		parts[k].Files = append(parts[k].Files, PartFile{File: i, Base: base, Rows: f.Rows})
	}
	for _, p := range parts {
		slices.SortFunc(p.Files, func(a, b PartFile) int { return cmp.Compare(a.Base, b.Base) })
	}
	return parts, rest, nil
}

// Part is an artifact of an index of vectors with the files of a plan that it covers.
type Part struct {
	covering
	r *vector.Reader
}

// Exact tells whether the distances of hits are those of the vectors, not estimates.
func (p *Part) Exact() bool { return p.r.Exact() }

// Takes tells whether the artifact has vectors of as many dimensions as a query, or none.
func (p *Part) Takes(q *vector.Query) bool { return p.r.Dim() == 0 || p.r.Dim() == q.Dim() }

// Parts opens the artifacts of an index of vectors that cover files of a plan, and gives the places of the files that none
// covers. An error means that the query is at its end.
func (x *Index) Parts(ctx context.Context, plan *lake.Plan) (parts []*Part, rest []int, err error) {
	all, rest, err := x.coverings(ctx, plan, func(r *reader) bool { return r.vector != nil })
	for _, c := range all {
		parts = append(parts, &Part{covering: *c, r: c.r.vector})
	}
	return parts, rest, err
}

// Search finds the rows of the artifact that are nearest to a vector. ok is false when the index cannot tell: its artifact
// is damaged, or the query is one that indexes cannot rank by. A query of another dimension is Invalid.
func (p *Part) Search(ctx context.Context, query vector.Query, params vector.Params) (res vector.Result, ok bool, err error) {
	res, err = p.r.Find(ctx, query, params)
	switch {
	case err == nil:
		return res, true, nil
	case errs.Is(err, errs.Invalid), errs.Is(err, errs.Canceled):
		return res, false, err
	case errs.Is(err, errs.Unsupported):
		return res, false, nil
	}
	return res, false, p.index.damaged(ctx, p.a, err)
}

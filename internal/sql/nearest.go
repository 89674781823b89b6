package sql

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/overlakedb/overlake/internal/datafile"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector"
	"github.com/overlakedb/overlake/internal/overlay"
	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/search"
	"github.com/overlakedb/overlake/internal/sql/coltype"
	"github.com/overlakedb/overlake/internal/sql/nearest"
	"github.com/overlakedb/overlake/internal/sql/tree"
)

// ORDER BY distance LIMIT n of a table with an index of vectors. In the table's place come the rows that the index names,
// and the files that it does not cover; the statement stays as it is, so distances, order and WHERE are the engine's.
//
// Which rows may be named is known before the index is asked, so that n of them come back: those of the indexes of WHERE
// where these know, else those that the engine finds for FROM and WHERE in a query of its own, without the vectors.

// ranking is what the statement may ask of the indexes of vectors of a table.
type ranking struct {
	view   *overlay.View
	forced bool
	only   string // name of the index to use; "" means any
}

// rankingOf gives the indexes of vectors of a table, nil when there is none to ask.
func (q *statement) rankingOf(s *source) (*ranking, error) {
	opts, err := q.hint()
	if err != nil || opts.Hint == search.NoIndex {
		return nil, err
	}
	v, err := q.view(s.base, s.ref)
	if v == nil || err != nil || !slices.ContainsFunc(v.Indexes(), func(x *overlay.Index) bool { return overlay.OfVectors(x.Kind) }) {
		return nil, err
	}
	by := &ranking{view: v, forced: opts.Hint == search.UseIndex}
	if opts.Only != "" {
		if k := slices.IndexFunc(v.Indexes(), func(x *overlay.Index) bool { return strings.EqualFold(x.Name, opts.Only) }); k >= 0 {
			if !overlay.OfVectors(v.Indexes()[k].Kind) {
				return nil, nil
			}
			by.only, q.hintMet = v.Indexes()[k].Name, true
		}
	}
	return by, nil
}

// reader reads what a SELECT says of the distances of a table.
func (r *resolver) reader(s *source, sc *scope) *nearest.Reader {
	p := &pusher{q: r.q, s: s, sc: sc}
	return &nearest.Reader{Constant: r.q.constant, Scalar: r.q.scalar, Column: p.field, Aside: func(distance node, i int, arg node, form vector.Form) (*nearest.Values, error) {
		if tree.Str(arg, "class") == "COLUMN_REF" {
			return r.outerVectors(arg, s, sc, form)
		}
		return r.vectorAside(distance, i, arg, sc, form)
	}}
}

// joined tells how a table stands in a FROM clause: each says that each of its rows is part of a row of FROM, pads that rows
// of other tables come back with NULLs when rows of it are taken away.
func joined(from, table node) (found, each, pads bool) {
	if tree.Str(from, "type") != "JOIN" {
		return tree.Str(from, "type") == "BASE_TABLE" && tree.Location(from) == tree.Location(table), true, false
	}
	for _, side := range []string{"left", "right"} {
		found, each, pads := joined(tree.Child(from, side), table)
		if !found {
			continue
		}
		switch kind := tree.Str(from, "join_type"); {
		case tree.Str(from, "ref_type") == "CROSS" || kind == "INNER":
			each = false
		case kind == "LEFT" && side == "left" || kind == "RIGHT" && side == "right":
		case kind == "FULL" || kind == "OUTER":
			pads = true
		default: // the other side of LEFT and RIGHT, and joins that only test
			each, pads = false, pads || kind == "LEFT" || kind == "RIGHT"
		}
		return true, each, pads
	}
	return false, false, false
}

// nearest gives an expression for FROM, or "" when the SELECT is not of these or no index can tell.
func (r *resolver) nearest(n node, s *source, sc *scope) (string, error) {
	q := r.q
	by, err := q.rankingOf(s)
	if by == nil || err != nil {
		return "", err
	}
	found, each, pads := joined(tree.Child(n, "from_table"), s.node)
	if !found {
		return "", nil
	}
	rd := r.reader(s, sc)
	nq, err := rd.Of(n)
	if nq == nil || err != nil || nq.Nulls && nq.Ties {
		return "", err // to a NULL all rows are as near, and what follows decides
	}
	var filter predicate.Expr
	effort, err := q.effort()
	if err != nil {
		return "", err
	}
	exact, filtered, notNull, bounded := true, !each, false, false
	p := &pusher{q: q, s: s, sc: sc}
	for _, c := range tree.Conjuncts(tree.Child(n, "where_clause")) {
		if isEffort(c, &effort) || c == nil {
			continue
		}
		e, ok := p.expr(c)
		if not, is := e.(predicate.Not); is {
			if x, is := not.X.(predicate.IsNull); is && x.Column == nq.Column {
				notNull = true // has no distance
				continue
			}
		}
		if x := tree.List(c, "children"); tree.Str(c, "type") == "OPERATOR_IS_NOT_NULL" && len(x) == 1 {
			col, _ := x[0].(node)
			if f, ok := p.field(col); ok && f.Name == nq.Column {
				notNull = true
				continue
			}
		}
		if d, _, is := rd.Bound(c); is && rd.Same(d, nq) {
			bounded = true
			continue // of the nearest rows the engine drops those that are too far
		}
		filtered = true
		filter, exact = conjoin(filter, e), exact && ok
	}
	plan, err := q.plan(s)
	if err != nil || len(plan.Files) == 0 {
		return "", err
	}
	request := search.NearestRequest{Field: columnID(plan.Schema, nq.Column), Metric: nq.Metric, Query: nq.Queries[0], K: int(nq.Rows), Ties: nq.Ties, Effort: effort, Forced: by.forced, Only: by.only,
		NotNull: notNull, Full: pads}
	if !search.CanRank(by.view, request) {
		return "", nil
	}
	how := ""
	if filtered {
		if each && exact {
			bound, err := s.base.Bind(s.ref, filter)
			if err != nil {
				return "", err
			}
			sets, ok, err := search.FilterRows(q.ctx, plan, bound, by.view)
			if err != nil {
				return "", err
			}
			if ok {
				request.Allowed, how = sets, "rows of WHERE by index"
			}
		}
		if request.Allowed == nil {
			if request.Allowed, err = r.qualifying(n, s, sc, plan, nq.Column); err != nil || request.Allowed == nil {
				return "", err
			}
			how = "rows of WHERE by a query of their own"
		}
	}
	hits, ok, err := search.FindNearestEach(q.ctx, plan, by.view, request, nq.Queries)
	if err != nil && errs.Is(err, errs.Invalid) {
		err, ok = nil, false // the engine tells where
	}
	if err != nil || !ok {
		return "", err
	}
	info := scanInfo{id: s.base.Ident(), plan: plan, access: hits.Access}
	if filter != nil {
		info.filter = filter.String()
	}
	note := noteOf(nq, s, hits)
	if len(nq.Queries) > 1 {
		note += fmt.Sprintf("; %d vectors of the outer query", len(nq.Queries))
	}
	if how != "" {
		allowed := int64(0)
		for _, a := range request.Allowed {
			allowed += a.Len()
		}
		note += fmt.Sprintf("; %d %s", allowed, how)
	}
	q.notes = append(q.notes, note)
	q.ranked = true
	if !bounded {
		if err := r.directly(n, s, sc, plan, nq, hits.Access); err != nil {
			return "", err
		}
	}
	if q.answer != nil {
		return coltype.Empty(plan.Schema) // of no use any more
	}
	return q.assemble(s.base, s.ref, info)
}

// noteOf tells what an index did.
func noteOf(nq *nearest.Search, s *source, found *search.Nearest) string {
	note := fmt.Sprintf("vector %s %s.%s: index %s (%s), %d parts, %s, %d candidates, %d distances", nq.Metric, s.id, nq.Column, found.Index, found.Kind, found.Parts,
		found.Work.Strategy, found.Access.Rows, found.Work.Distances)
	if found.Work.Reranked > 0 {
		note += fmt.Sprintf(" of which %d in full", found.Work.Reranked)
	}
	return note
}

// within gives an expression for FROM where WHERE says that a distance is below a constant; "" when no index can tell.
func (r *resolver) within(n node, s *source, sc *scope) (string, error) {
	q := r.q
	by, err := q.rankingOf(s)
	if by == nil || err != nil {
		return "", err
	}
	rd := r.reader(s, sc)
	for _, c := range tree.Conjuncts(tree.Child(n, "where_clause")) {
		e, most, ok := rd.Bound(c)
		if !ok || nearest.Squared(e) {
			continue
		}
		nq, err := rd.Distance(e)
		if err != nil {
			return "", err
		}
		if nq == nil || len(nq.Queries) > 1 || nq.Nulls {
			continue
		}
		plan, err := q.plan(s)
		if err != nil || len(plan.Files) == 0 {
			return "", err
		}
		request := search.NearestRequest{Field: columnID(plan.Schema, nq.Column), Metric: nq.Metric, Query: nq.Queries[0], Forced: by.forced, Only: by.only}
		found, ok, err := search.FindWithin(q.ctx, plan, by.view, request, math.Nextafter(float64(most), math.Inf(1)))
		if err != nil && errs.Is(err, errs.Invalid) {
			continue // the engine tells where
		}
		if err != nil {
			return "", err
		}
		if !ok {
			continue
		}
		info := scanInfo{id: s.base.Ident(), plan: plan, access: found.Access}
		if s.filter != nil {
			info.filter = s.filter.String()
		}
		q.notes = append(q.notes, noteOf(nq, s, found)+fmt.Sprintf(", nearer than %v", most))
		q.ranked = true
		return q.assemble(s.base, s.ref, info)
	}
	return "", nil
}

func columnID(sc *arrow.Schema, name string) int {
	at := slices.IndexFunc(sc.Fields(), func(f arrow.Field) bool { return f.Name == name })
	if at < 0 {
		return -1
	}
	return datafile.FieldID(sc.Field(at))
}

func conjoin(a, b predicate.Expr) predicate.Expr {
	if a == nil {
		return b
	}
	return predicate.Conjoin(a, b)
}

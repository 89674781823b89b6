package sql

import (
	"fmt"
	"strings"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/row"
	"github.com/overlakedb/overlake/internal/search"
	"github.com/overlakedb/overlake/internal/sql/lex"
	"github.com/overlakedb/overlake/internal/sql/nearest"
	"github.com/overlakedb/overlake/internal/sql/tree"
)

// rrf(distance, bm25(…)) ranks all rows that WHERE leaves, and only the first ones of each ranking count. Those by a distance an
// index names, those by a score a query of its own over the text, and all of these take the table's place. Among them the first
// ones of each ranking are what they are among all, and who is not is behind them: so ranks, and scores, stay as they are. Rows
// that are in none have the score 0; it has to be clear that they are not wanted.

// fused gives an expression for FROM where a SELECT fuses rankings and no index is needed for rows of score 0; "" when the
// SELECT is not of these or an index cannot tell.
func (r *resolver) fused(n node, s *source, sc *scope) (string, error) {
	q := r.q
	by, err := q.rankingOf(s)
	if by == nil || err != nil {
		return "", err
	}
	rd := r.reader(s, sc)
	legs, wanted, ok := r.fusion(n, s, sc, rd)
	if !ok {
		return "", nil
	}
	effort, err := q.effort()
	if err != nil {
		return "", err
	}
	plan, err := q.plan(s)
	if err != nil || len(plan.Files) == 0 {
		return "", err
	}
	var allowed []*row.Bitmap
	var filter predicate.Expr
	p := &pusher{q: q, s: s, sc: sc}
	filtered, exact := false, true
	for _, c := range tree.Conjuncts(tree.Child(n, "where_clause")) {
		if c == nil || isEffort(c, &effort) || q.constant(c) == true {
			continue
		}
		e, ok := p.expr(c)
		filtered, exact, filter = true, exact && ok, conjoin(filter, e)
	}
	var requests []search.NearestRequest
	var searches []*nearest.Search
	for _, l := range legs {
		if l.Descending {
			continue
		}
		d, err := rd.Distance(l.By)
		if err != nil {
			return "", err
		}
		if d == nil || len(d.Queries) > 1 || d.Nulls || nearest.Squared(l.By) {
			return "", nil
		}
		request := search.NearestRequest{Field: columnID(plan.Schema, d.Column), Metric: d.Metric, Query: d.Queries[0], K: int(l.Depth), Ties: true, NotNull: true, Effort: effort, Forced: by.forced, Only: by.only}
		if !search.CanRank(by.view, request) {
			return "", nil
		}
		requests, searches = append(requests, request), append(searches, d)
	}
	if len(requests) == 0 {
		return "", nil
	}
	if filtered {
		if exact {
			bound, err := s.base.Bind(s.ref, filter)
			if err != nil {
				return "", err
			}
			sets, ok, err := search.FilterRows(q.ctx, plan, bound, by.view)
			if err != nil {
				return "", err
			}
			if ok {
				allowed = sets
			}
		}
		if allowed == nil {
			if allowed, err = r.qualifying(n, s, sc, plan, ""); err != nil || allowed == nil {
				return "", err
			}
		}
	}
	var found []*search.Access
	var notes []string
	counted := int64(0) // rows of a score above 0, at least
	for i, request := range requests {
		request.Allowed = allowed
		f, ok, err := search.FindNearest(q.ctx, plan, by.view, request)
		if err != nil && errs.Is(err, errs.Invalid) {
			err, ok = nil, false // the engine tells where
		}
		if err != nil || !ok {
			return "", err
		}
		counted = max(counted, int64(min(f.Hits, request.K)))
		found, notes = append(found, f.Access), append(notes, noteOf(searches[i], s, f)+fmt.Sprintf("; the first %d of a fusion", request.K))
	}
	if counted < wanted {
		return "", nil
	}
	var texts [][]*row.Bitmap
	for _, l := range legs {
		if !l.Descending {
			continue
		}
		call, ok := r.call(l.By)
		if !ok {
			return "", nil
		}
		set, err := r.qualifyingBy(n, s, sc, plan, "", fmt.Sprintf(" QUALIFY (%s) > 0 AND rank() OVER (ORDER BY %s DESC) <= %d", call, call, l.Depth))
		if set == nil || err != nil {
			return "", err
		}
		texts = append(texts, set)
	}
	a := search.Union(plan, found, texts...)
	if !by.forced && float64(a.Rows) > search.FusedShare*float64(plan.Rows) {
		return "", nil
	}
	q.notes = append(q.notes, notes...)
	q.ranked = true
	info := scanInfo{id: s.base.Ident(), plan: plan, access: a}
	if filter != nil {
		info.filter = filter.String()
	}
	return q.assemble(s.base, s.ref, info)
}

// fusion finds the one fusion in a SELECT of a single table, and how many rows have to have a score above 0 for the others not
// to be wanted.
func (r *resolver) fusion(n node, s *source, sc *scope, rd *nearest.Reader) (legs []nearest.Leg, wanted int64, ok bool) {
	if len(sc.sources) != 1 || tree.Str(tree.Child(n, "from_table"), "type") != "BASE_TABLE" || len(tree.List(n, "group_expressions")) > 0 || len(tree.List(n, "group_sets")) > 0 ||
		tree.Str(n, "aggregate_handling") != "STANDARD_HANDLING" || n["having"] != nil || n["qualify"] != nil || len(tree.List(tree.Child(n, "cte_map"), "map")) > 0 {
		return nil, 0, false
	}
	name, at := "", 0
	for i, item := range tree.List(n, "select_list") {
		x, _ := item.(node)
		if rd.RowByRow(x) {
			continue
		}
		if legs != nil {
			return nil, 0, false
		}
		if legs = rd.Fused(x); legs == nil {
			return nil, 0, false
		}
		name, at = tree.Str(x, "alias"), i+1
	}
	if legs == nil || name == "" {
		return nil, 0, false
	}
	var order, limit node
	for _, m := range tree.List(n, "modifiers") {
		switch m, _ := m.(node); tree.Str(m, "type") {
		case "ORDER_MODIFIER":
			order = m
		case "LIMIT_MODIFIER":
			limit = m
		default:
			return nil, 0, false
		}
	}
	if order == nil && limit == nil {
		return legs, 0, r.aboveZero(s, sc, name)
	}
	orders := tree.List(order, "orders")
	if len(orders) == 0 || tree.Child(limit, "limit") == nil {
		return nil, 0, false
	}
	for i, o := range orders {
		o, _ := o.(node)
		e := tree.Child(o, "expression")
		if i > 0 {
			if !rd.RowByRow(e) {
				return nil, 0, false
			}
			continue
		}
		names := tree.List(e, "column_names")
		last := ""
		if len(names) == 1 {
			last, _ = names[0].(string)
		}
		_, isColumn := s.field(name)
		if tree.Str(o, "type") != "DESCENDING" || !(strings.EqualFold(last, name) && !isColumn || r.q.constant(e) == int64(at) && !starred(n, at)) {
			return nil, 0, false
		}
	}
	for _, key := range []string{"limit", "offset"} {
		if e := tree.Child(limit, key); e != nil {
			k, ok := r.q.constant(e).(int64)
			if !ok || k < 0 || k > 1<<31 {
				return nil, 0, false
			}
			wanted += k
		}
	}
	return legs, wanted, true
}

// starred tells whether one of the first items of a select list is a star, so that places of columns are others.
func starred(n node, items int) bool {
	for _, x := range tree.List(n, "select_list")[:items] {
		if x, _ := x.(node); tree.Str(x, "class") == "STAR" {
			return true
		}
	}
	return false
}

// aboveZero tells whether a SELECT is all that its outer one reads, and that drops the rows in which a column is not above 0, as
// hybrid_search does.
func (r *resolver) aboveZero(s *source, sc *scope, name string) bool {
	out := sc.outer
	if out == nil || tree.Str(tree.Child(out.node, "from_table"), "type") != "SUBQUERY" || tree.Child(out.node, "from_table")["sample"] != nil || out.node["sample"] != nil ||
		len(tree.List(tree.Child(out.node, "from_table"), "column_name_alias")) > 0 {
		return false
	}
	body := tree.Child(tree.Child(tree.Child(out.node, "from_table"), "subquery"), "node")
	if _, isColumn := s.field(name); isColumn || body["from_table"] == nil || tree.Location(tree.Child(body, "from_table")) != tree.Location(s.node) {
		return false
	}
	for _, c := range tree.Conjuncts(tree.Child(out.node, "where_clause")) {
		names := tree.List(tree.Child(c, "left"), "column_names")
		if tree.Str(c, "type") != "COMPARE_GREATERTHAN" || tree.Str(tree.Child(c, "left"), "class") != "COLUMN_REF" || len(names) != 1 || r.q.constant(tree.Child(c, "right")) != int64(0) {
			continue
		}
		if column, _ := names[0].(string); strings.EqualFold(column, name) {
			return true
		}
	}
	return false
}

// call is the text of a call.
func (r *resolver) call(n node) (string, bool) {
	i := r.token(tree.Location(n))
	if tree.Str(n, "class") != "FUNCTION" || i < 0 || i+1 >= len(r.tokens) || !r.tokens[i+1].Is("(") {
		return "", false
	}
	end := lex.Close(r.tokens, i+1)
	if end < 0 {
		return "", false
	}
	return r.text[r.tokens[i].Start:r.tokens[end].End], true
}

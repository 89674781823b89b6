package sql

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/overlay"
	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/search"
	"github.com/overlakedb/overlake/internal/sql/lex"
	"github.com/overlakedb/overlake/internal/sql/tree"
)

// bm25(column, query) and match(column, query). The engine computes both, row by row; what it needs to know of the whole
// column is collected before. An index of texts tells it, and takes rows away that cannot be in the answer:
//
//   - ORDER BY bm25(column, query) DESC LIMIT n: in the table's place come the rows that the index names.
//   - WHERE match(column, query): the rows that may match, in files that it covers.

// textCall is one call of these functions.
type textCall struct {
	source   *source
	column   string
	text     string // the query as it was written
	analyzer *analysis.Analyzer
	query    bm25.Query
	params   similarity.Params
	arg      string // the text of the first argument
	end      int    // the token of the closing bracket
}

// same tells whether two calls speak of the same terms of a column, and of which rows match.
func (c *textCall) same(o *textCall) bool {
	return c.source == o.source && c.column == o.column && c.analyzer.Fingerprint() == o.analyzer.Fingerprint() && slices.Equal(c.query.Terms, o.query.Terms) &&
		slices.Equal(c.query.Counts, o.query.Counts) && c.query.All == o.query.All && c.query.Min == o.query.Min
}

// textCall reads a call.
func (r *resolver) textCall(name string, n node, sc *scope) (*textCall, error) {
	at := tree.Location(n)
	i := r.token(at)
	fail := func(format string, args ...any) (*textCall, error) {
		return nil, errs.With(lex.Errorf(r.text, max(at, 0), format, args...), errs.Hint("write %s(column, 'words'), with analyzer => 'english', k1 => 1.2, b => 0.75 or operator => 'and' if needed", name))
	}
	if i < 0 || i+1 >= len(r.tokens) || !r.tokens[i+1].Is("(") {
		return nil, errs.New(errs.Internal, "sql.text", "the parser gave no place for a call", errs.On(name))
	}
	args, end := lex.Args(r.tokens, i+1)
	children := tree.List(n, "children")
	if len(children) < 2 || len(args) != len(children) {
		return fail("%s needs a column and a query", name)
	}
	c := &textCall{params: similarity.DefaultParams, arg: r.text[args[0][0].Start:args[0][len(args[0])-1].End], end: end}
	col, _ := children[0].(node)
	if tree.Str(col, "class") != "COLUMN_REF" {
		return fail("the first argument of %s must be a column of a table", name)
	}
	if c.source, c.column = find(col, sc); c.source == nil {
		return fail("%s needs a text column of a table, and %s is none", name, c.arg)
	}
	second, _ := children[1].(node)
	var ok bool
	if c.text, ok = r.q.constant(second).(string); !ok {
		return fail("the query of %s must be a string or a parameter", name)
	}
	analyzer, operator := "standard", ""
	r.q.s.textDefaults(&analyzer, &c.params)
	for _, x := range children[2:] {
		o, _ := x.(node)
		v := r.q.constant(o)
		switch strings.ToLower(tree.Str(o, "alias")) {
		case "analyzer":
			analyzer, ok = v.(string)
		case "operator":
			operator, ok = v.(string)
		case "k1":
			c.params.K1, ok = number(v)
		case "b":
			c.params.B, ok = number(v)
		default:
			ok = false
		}
		if !ok {
			return fail("%s has no option %q, or not with this value", name, tree.Str(o, "alias"))
		}
	}
	var err error
	if c.analyzer, err = analysis.Find(analyzer); err != nil {
		return nil, err
	}
	if err := c.params.Check(); err != nil {
		return nil, err
	}
	c.query = bm25.ParseQuery(c.analyzer, c.text)
	c.query.All, err = bm25.ParseOperator(operator)
	return c, err
}

// textFunction prepares bm25(column, query …) and match(column, query …).
func (r *resolver) textFunction(name string, n node, sc *scope) error {
	c, err := r.textCall(name, n, sc)
	if err != nil {
		return err
	}
	scorer, by, err := r.q.scorer(c, name == "bm25")
	if err != nil {
		return err
	}
	id := r.q.addScorer(scorer)
	function := scoreFunction
	if name == "match" {
		function = matchFunction
	}
	r.q.notes = append(r.q.notes, fmt.Sprintf("text %s(%s.%s, '%s'): analyzer %s, %d terms; %s", name, c.source.id, c.column, c.text, c.analyzer.Name(), len(c.query.Terms), by))
	r.edits = append(r.edits, lex.Edit{Start: r.tokens[r.token(tree.Location(n))].Start, End: r.tokens[c.end].End, New: fmt.Sprintf("%s(%d, %s)", function, id, c.arg)})
	return nil
}

// textIndexes gives what the statement may ask of the indexes of texts of a table: a view, nil when there is none, and the
// index that a hint names.
func (q *statement) textIndexes(s *source) (view *overlay.View, only string, err error) {
	opts, err := q.hint()
	if err != nil || opts.Hint == search.NoIndex {
		return nil, "", err
	}
	v, err := q.view(s.base, s.ref)
	if v == nil || err != nil || !slices.ContainsFunc(v.Indexes(), func(x *overlay.Index) bool { return x.Kind == overlay.Text }) {
		return nil, "", err
	}
	if k := slices.IndexFunc(v.Indexes(), func(x *overlay.Index) bool { return strings.EqualFold(x.Name, opts.Only) }); opts.Only != "" && k >= 0 {
		if v.Indexes()[k].Kind != overlay.Text {
			return nil, "", nil
		}
		only, q.hintMet = v.Indexes()[k].Name, true
	}
	return v, only, nil
}

// asks is a call as a question to an index.
func (c *textCall) asks(plan *lake.Plan, only string) search.TextQuery {
	return search.TextQuery{Field: columnID(plan.Schema, c.column), Analyzer: c.analyzer, Query: c.query, Only: only}
}

// scorer prepares a call for the engine: with what BM25 needs to know about the column, over all rows of the snapshot, whatever
// the statement keeps. A match without a score needs none of it. by tells EXPLAIN where it comes from.
func (q *statement) scorer(c *textCall, scored bool) (_ *bm25.Scorer, by string, err error) {
	if !scored {
		return bm25.NewScorer(c.analyzer, c.query, bm25.Stats{Docs: 1, SumTotalTermFreq: 1}, c.params), "row by row", nil
	}
	s := c.source
	plan, err := s.base.Plan(q.ctx, s.ref, nil)
	if err != nil {
		return nil, "", err
	}
	if fields, _ := plan.Schema.FieldsByName(c.column); len(fields) != 1 {
		return nil, "", errs.New(errs.Internal, "sql.text", "the column is not in the table's schema", errs.On(c.column))
	}
	view, only, err := q.textIndexes(s)
	if err != nil {
		return nil, "", err
	}
	// A name may come to mean another column; a field id does not.
	ask := c.asks(plan, only)
	id := strconv.Itoa(ask.Field)
	files := make([]search.TextFile, len(plan.Files))
	for i := range plan.Files {
		f := &plan.Files[i]
		files[i] = search.TextFile{Key: s.base.UUID() + "\x00" + f.Path + "\x00" + id, Read: func(ctx context.Context) (array.RecordReader, error) {
			return s.base.ReadFile(ctx, f, []string{c.column}, s.ref, false)
		}}
	}
	st, index, err := search.TextStats(q.ctx, q.s.env.texts, plan, view, files, ask)
	if err != nil {
		return nil, "", err
	}
	by = fmt.Sprintf("%d documents, counted in the column, no index", st.Docs)
	if index != "" {
		by = fmt.Sprintf("%d documents, counted by index %s", st.Docs, index)
	}
	return bm25.NewScorer(c.analyzer, c.query, st, c.params), by, nil
}

// callOn is a call of a function on a column of the table, nil when the expression is none.
func (r *resolver) callOn(name string, e node, s *source, sc *scope) (*textCall, error) {
	if tree.Str(e, "class") != "FUNCTION" || !strings.EqualFold(tree.Str(e, "function_name"), name) || tree.Str(e, "schema") != "" {
		return nil, nil
	}
	col, _ := tree.List(e, "children")[0].(node)
	p := &pusher{q: r.q, s: s, sc: sc}
	if _, ok := p.field(col); !ok {
		return nil, nil
	}
	c, err := r.textCall(name, e, sc)
	if err != nil || c.source != s {
		return nil, err
	}
	return c, nil
}

// texts looks for what an index of texts can answer: the best rows of a query, in sql, or conditions that rows match, with the
// source.
func (r *resolver) texts(n node, s *source, sc *scope, sql *string) error {
	view, only, err := r.q.textIndexes(s)
	if view == nil || err != nil {
		return err
	}
	where := tree.Conjuncts(tree.Child(n, "where_clause"))
	for _, w := range where {
		c, err := r.callOn("match", w, s, sc)
		if err != nil {
			return err
		}
		if c != nil {
			s.match = append(s.match, c)
		}
	}
	if *sql != "" {
		return nil
	}
	first, order, ok := r.reader(s, sc).First(n, true)
	if !ok || len(sc.sources) != 1 {
		return nil
	}
	c, err := r.callOn("bm25", first, s, sc)
	if c == nil || err != nil {
		return err
	}
	var filter predicate.Expr
	exact, filtered, matches := true, false, false
	p := &pusher{q: r.q, s: s, sc: sc}
	for _, w := range where {
		if w == nil {
			continue
		}
		m, err := r.callOn("match", w, s, sc)
		if err != nil {
			return err
		}
		if m != nil && m.same(c) {
			matches = true // and that is all it says
			continue
		}
		e, ok := p.expr(w)
		filtered = true
		filter, exact = conjoin(filter, e), exact && ok
	}
	if !exact {
		return nil // rows that match are looked at, all of them
	}
	plan, err := r.q.plan(s)
	if err != nil || len(plan.Files) == 0 {
		return err
	}
	request := search.TextRequest{TextQuery: c.asks(plan, only), K: int(order.Rows), Ties: order.Ties, Matches: matches}
	note := ""
	if filtered {
		bound, err := s.base.Bind(s.ref, filter)
		if err != nil {
			return err
		}
		sets, ok, err := search.FilterRows(r.q.ctx, plan, bound, view)
		if !ok || err != nil {
			return err
		}
		request.Allowed = sets
		allowed := int64(0)
		for _, a := range sets {
			allowed += a.Len()
		}
		note = fmt.Sprintf("; %d rows of WHERE by index", allowed)
	}
	if request.Scorer, _, err = r.q.scorer(c, true); err != nil {
		return err
	}
	hits, ok, err := search.FindTexts(r.q.ctx, plan, view, request)
	if !ok || err != nil {
		return err
	}
	info := scanInfo{id: s.base.Ident(), plan: plan, access: hits.Access}
	if filter != nil {
		info.filter = filter.String()
	}
	r.q.notes = append(r.q.notes, fmt.Sprintf("text best %d of %s.%s: index %s, %d parts, %d candidates%s", order.Rows, s.id, c.column, hits.Index, hits.Parts, hits.Access.Rows, note))
	*sql, err = r.q.assemble(s.base, s.ref, info)
	return err
}

// narrow takes away from an access what conditions on texts rule out.
func (q *statement) narrow(s *source, plan *lake.Plan, a *search.Access) (*search.Access, error) {
	if len(s.match) == 0 || len(plan.Files) == 0 {
		return a, nil
	}
	view, only, err := q.textIndexes(s)
	if view == nil || err != nil {
		return a, err
	}
	for _, c := range s.match {
		sets, index, err := search.TextMatches(q.ctx, plan, view, c.asks(plan, only))
		if err != nil {
			return nil, err
		}
		if index == "" {
			continue
		}
		if a == nil {
			a = &search.Access{}
			for i := range plan.Files {
				a.Scan = append(a.Scan, i)
			}
		}
		a.Narrow(plan, sets, index, s.used)
	}
	return a, nil
}

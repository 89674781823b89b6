package sql

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/overlay"
	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/search"
	"github.com/overlakedb/overlake/internal/sql/lex"
	"github.com/overlakedb/overlake/internal/sql/textcall"
	"github.com/overlakedb/overlake/internal/sql/tree"
)

// bm25(column, query) and match(column, query). The engine computes both, row by row; what it needs to know of the whole
// column is collected before. An index of texts tells it, and takes rows away that cannot be in the answer:
//
//   - ORDER BY bm25(column, query) DESC LIMIT n: in the table's place come the rows that the index names.
//   - WHERE match(column, query): the rows that may match, in files that it covers.
//
// highlight(text, query) needs to know nothing of a column: the text may be any expression.

// textCall is one call of bm25 or match.
type textCall struct {
	source *source
	column string
	form   *textcall.Form
	arg    string // the text of the first argument
	end    int    // the token of the closing bracket
}

// same tells whether two calls speak of one column, and of which rows match.
func (c *textCall) same(o *textCall) bool {
	return c.source == o.source && c.column == o.column && c.form.Same(o.form)
}

// isText tells which functions of texts are ours.
func isText(name string) bool { return name == "bm25" || name == "match" || name == "highlight" }

// textArgs reads the arguments of a call: the query, the options, and where the arguments are.
func (r *resolver) textArgs(name string, n node) (query string, o textcall.Options, args [][]lex.Token, end int, err error) {
	i := r.token(tree.Location(n))
	if i < 0 || i+1 >= len(r.tokens) || !r.tokens[i+1].Is("(") {
		return "", o, nil, 0, errs.New(errs.Internal, "sql.text", "the parser gave no place for a call", errs.On(name))
	}
	args, end = lex.Args(r.tokens, i+1)
	children := tree.List(n, "children")
	if len(children) < 2 || len(args) != len(children) {
		return "", o, nil, 0, r.textError(name, n, "%s needs a column and a query", name)
	}
	second, _ := children[1].(node)
	query, ok := r.q.constant(second).(string)
	if !ok {
		return "", o, nil, 0, r.textError(name, n, "the query of %s must be a string or a parameter", name)
	}
	r.q.s.textDefaults(&o.Analyzer, &o.Params)
	for k, x := range children[2:] {
		x, _ := x.(node)
		var v any = r.q.constant(x)
		if f, ok := number(v); ok {
			v = f
		}
		if err := o.Set(name, tree.Str(x, "alias"), v); err != nil {
			return "", o, nil, 0, r.textPlace(args[2+k], err)
		}
	}
	return query, o, args, end, nil
}

// textError names the place of a call and how to write one.
func (r *resolver) textError(name string, n node, format string, args ...any) error {
	return errs.With(lex.Errorf(r.text, max(tree.Location(n), 0), format, args...), errs.Hint("write %s(column, 'words'), with options such as analyzer => 'english' or syntax => 'query_string' behind", name))
}

// textPlace names the place of an argument that is wrong.
func (r *resolver) textPlace(arg []lex.Token, err error) error {
	return errs.Wrap(errs.KindOf(err), "sql.text", lex.At(r.text, arg[0].Start, err.Error()), errs.Hint("%s", errs.HintOf(err)))
}

// textCall reads a call of bm25 or match.
func (r *resolver) textCall(name string, n node, sc *scope) (*textCall, error) {
	query, o, args, end, err := r.textArgs(name, n)
	if err != nil {
		return nil, err
	}
	c := &textCall{arg: r.text[args[0][0].Start:args[0][len(args[0])-1].End], end: end}
	col, _ := tree.List(n, "children")[0].(node)
	if tree.Str(col, "class") != "COLUMN_REF" {
		return nil, r.textError(name, n, "the first argument of %s must be one column of a table", name)
	}
	if c.source, c.column = find(col, sc); c.source == nil {
		return nil, r.textError(name, n, "%s needs a text column of a table, and %s is none", name, c.arg)
	}
	if c.form, err = textcall.New(c.column, query, o); err != nil {
		return nil, r.textPlace(args[1], err)
	}
	return c, nil
}

// textFunction prepares bm25(column, query …) and match(column, query …).
func (r *resolver) textFunction(name string, n node, sc *scope) error {
	c, err := r.textCall(name, n, sc)
	if err != nil {
		return err
	}
	ready, by, err := r.q.textReady(c, name == "bm25")
	if err != nil {
		return err
	}
	function := textcall.ScoreFunction
	if name == "match" {
		function = textcall.MatchFunction
	}
	r.q.notes = append(r.q.notes, fmt.Sprintf("text %s(%s.%s, %s; %s", name, c.source.id, c.column, c.form, by))
	r.edits = append(r.edits, lex.Edit{Start: r.tokens[r.token(tree.Location(n))].Start, End: r.tokens[c.end].End, New: fmt.Sprintf("%s(%d, %s)", function, r.q.addText(ready), c.arg)})
	return nil
}

// highlight prepares highlight(text, query …). The query knows the text by its column's name, if it is a column.
func (r *resolver) highlight(n node, with *ctes, sc *scope) error {
	query, o, args, end, err := r.textArgs("highlight", n)
	if err != nil {
		return err
	}
	first, _ := tree.List(n, "children")[0].(node)
	column := "text"
	if names := tree.List(first, "column_names"); tree.Str(first, "class") == "COLUMN_REF" && len(names) > 0 {
		column, _ = names[len(names)-1].(string)
	}
	ready, err := textcall.NewHighlight(column, query, o)
	if err != nil {
		return r.textPlace(args[1], err)
	}
	start, last := args[0][0].Start, args[0][len(args[0])-1].End
	r.edits = append(r.edits, lex.Edit{Start: r.tokens[r.token(tree.Location(n))].Start, End: start, New: fmt.Sprintf("%s(%d, ", textcall.HighlightFunction, r.q.addText(ready))})
	if err := r.expr(first, with, sc, false); err != nil {
		return err
	}
	r.edits = append(r.edits, lex.Edit{Start: last, End: r.tokens[end].End, New: ")"})
	return nil
}

// addText keeps a query for the functions while the statement runs, by the number that it gives.
func (q *statement) addText(r *textcall.Ready) int64 {
	q.slow = true
	id, forget := q.s.env.queries.Add(r)
	q.release = append(q.release, forget)
	return id
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

// asks is a call as a question to an index; ready is not needed for statistics.
func (c *textCall) asks(plan *lake.Plan, only string, ready *textcall.Ready) search.TextQuery {
	ask := search.TextQuery{Field: columnID(plan.Schema, c.column), Analyzer: c.form.Analyzer, Query: c.form.Words, Form: c.form.Plan, Only: only}
	if ready != nil {
		ask.Ranked = ready.Query()
	}
	return ask
}

// readyText is a query that was prepared, and where its statistics come from.
type readyText struct {
	*textcall.Ready
	by string
}

// textReady prepares a call for the engine, once a statement: with what BM25 needs to know about the column, over all rows of the
// snapshot, whatever the statement keeps. A match needs none of it, unless terms of the column stand for a part of its query. by
// tells EXPLAIN where it comes from.
func (q *statement) textReady(c *textCall, scored bool) (_ *textcall.Ready, by string, err error) {
	f, s := c.form, c.source
	if scored = scored || f.Plan != nil && f.Plan.Expands(); !scored {
		if f.Plan == nil {
			return f.ReadyWords(bm25.Stats{Docs: 1, SumTotalTermFreq: 1}), "row by row", nil
		}
		bound, err := f.Plan.Bind(f.Plan.Empty())
		return f.ReadyForm(bound), "row by row", err
	}
	key := fmt.Sprintf("%s\x00%v\x00%s\x00%s", s.base.UUID(), s.ref, c.column, f.Key())
	if known, ok := q.texts[key]; ok {
		return known.Ready, known.by, nil
	}
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
	ask := c.asks(plan, only, nil)
	id := strconv.Itoa(ask.Field)
	files := make([]search.TextFile, len(plan.Files))
	for i := range plan.Files {
		f := &plan.Files[i]
		files[i] = search.TextFile{Key: s.base.UUID() + "\x00" + f.Path + "\x00" + id, Read: func(ctx context.Context) (array.RecordReader, error) {
			return s.base.ReadFile(ctx, f, []string{c.column}, s.ref, false)
		}}
	}
	var out readyText
	var index string
	if f.Plan == nil {
		st, used, err := search.TextStats(q.ctx, q.s.env.texts, plan, view, files, ask)
		if err != nil {
			return nil, "", err
		}
		out.Ready, index, out.by = f.ReadyWords(st), used, fmt.Sprintf("%d documents", st.Docs)
	} else {
		st, used, err := search.FormStats(q.ctx, plan, view, files, ask)
		if err != nil {
			return nil, "", err
		}
		bound, err := f.Plan.Bind(st)
		if err != nil {
			return nil, "", err
		}
		out.Ready, index, out.by = f.ReadyForm(bound), used, fmt.Sprintf("%d documents", st.Docs(0))
	}
	if out.by += ", counted in the column, no index"; index != "" {
		out.by = strings.TrimSuffix(out.by, "in the column, no index") + "by index " + index
	}
	if q.texts == nil {
		q.texts = map[string]readyText{}
	}
	q.texts[key] = out
	return out.Ready, out.by, nil
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
	ready, _, err := r.q.textReady(c, true)
	if err != nil {
		return err
	}
	request := search.TextRequest{TextQuery: c.asks(plan, only, ready), Scorer: ready.Scorer(), K: int(order.Rows), Ties: order.Ties, Matches: matches}
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
		ready, _, err := q.textReady(c, false)
		if err != nil {
			return nil, err
		}
		sets, index, err := search.TextMatches(q.ctx, plan, view, c.asks(plan, only, ready))
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

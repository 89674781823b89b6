package sql

import (
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/engine"
	"github.com/overlakedb/overlake/internal/index/vector"
	"github.com/overlakedb/overlake/internal/sql/coltype"
	"github.com/overlakedb/overlake/internal/sql/lex"
	"github.com/overlakedb/overlake/internal/sql/nearest"
	"github.com/overlakedb/overlake/internal/sql/tree"
	"github.com/overlakedb/overlake/internal/vec/pgvector"
)

// A vector to search for may be no constant but the same for every row: (SELECT e FROM t WHERE id = 7), or a function of
// constants. The engine is asked for it first, and its value takes the place of the expression, so that the index and the
// statement speak of one vector.

// vectorAside evaluates argument i of a distance, for a column of the form, and gives its type too; nil when it is not of
// these.
func (r *resolver) vectorAside(distance node, i int, arg node, sc *scope, form vector.Form) (*nearest.Values, error) {
	switch tree.Str(arg, "class") {
	case "SUBQUERY":
		if tree.Str(arg, "subquery_type") != "SCALAR" {
			return nil, nil
		}
	case "FUNCTION":
		if op, _ := arg["is_operator"].(bool); op || !r.q.constantCall(arg) {
			return nil, nil
		}
	default:
		return nil, nil
	}
	lo, hi, ok := r.argument(distance, i)
	if !ok {
		return nil, nil
	}
	q := r.q
	with, ok := r.asideWith(lo, sc, r.text[lo:hi])
	if !ok {
		return nil, nil
	}
	value := "x"
	if form != vector.Dense {
		value = "CAST(x AS VARCHAR)"
	}
	text := with + "SELECT " + value + ", typeof(x) FROM (SELECT " + r.text[lo:hi] + " AS x)"
	rows, done, err := q.ask(text, nil)
	if rows == nil || err != nil {
		return nil, err
	}
	defer done()
	if !rows.Next() || rows.Record().NumRows() != 1 {
		return nil, canceled(rows.Err())
	}
	kind, _ := rows.Record().Column(1).(*array.String)
	if kind == nil {
		return nil, nil
	}
	typ := strings.Clone(kind.Value(0))
	out, literal := valueAside(rows.Record().Column(0), 0, typ, form)
	if out == nil {
		return nil, nil
	}
	r.edits = slices.DeleteFunc(r.edits, func(e lex.Edit) bool { return e.Start >= lo && e.End <= hi })
	r.edits = append(r.edits, lex.Edit{Start: lo, End: hi, New: literal})
	q.gone = true
	return &nearest.Values{Queries: []vector.Query{*out}, Type: typ}, nil
}

// valueAside is value i of a column as a vector, and a literal of it; nil when its type does not make one of the
// form. What has no form of floats comes as text.
func valueAside(value arrow.Array, i int, typ string, form vector.Form) (*vector.Query, string) {
	if value.IsNull(i) {
		return nil, ""
	}
	if form == vector.Dense && (typ == "vector" || typ == "halfvec") {
		list, ok := value.(array.ListLike)
		if !ok {
			return nil, ""
		}
		values, ok := list.ListValues().(*array.Float32)
		if !ok || values.NullN() > 0 {
			return nil, ""
		}
		from, to := list.ValueOffsets(i)
		q := vector.DenseQuery(slices.Clone(values.Float32Values()[from:to]))
		return &q, coltype.CastFunction(typ) + "(CAST(" + lex.QuoteText(pgvector.Format(q.Floats)) + " AS " + typ + "))"
	}
	s, ok := value.(array.StringLike)
	if !ok {
		return nil, ""
	}
	literal := lex.QuoteText(s.Value(i))
	switch {
	case typ == "VARCHAR":
	case typ == "BIT" && form == vector.Bits:
		literal = coltype.BitsFunction + "(" + literal + ")"
	case typ == "sparsevec" && form == vector.Sparse:
		literal = coltype.CastFunction(typ) + "(CAST(" + literal + " AS " + typ + "))"
	default:
		return nil, ""
	}
	q, err := vector.ParseQuery(form, strings.Clone(s.Value(i)))
	if err != nil {
		return nil, ""
	}
	return &q, literal
}

// constantCall tells whether a call has the same value whenever it is made: its functions are so, and it names no column.
func (q *statement) constantCall(n node) bool {
	same := true
	var walk func(v any, lambda bool)
	walk = func(v any, lambda bool) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				walk(x, lambda)
			}
		case node:
			switch tree.Str(v, "class") {
			case "COLUMN_REF":
				same = same && lambda && len(tree.List(v, "column_names")) == 1
			case "SUBQUERY", "WINDOW", "STAR":
				same = false
			case "LAMBDA":
				lambda = true
			case "FUNCTION":
				op, _ := v["is_operator"].(bool)
				steady, known := q.stabilityOf(tree.Str(v, "function_name"))
				same = same && (op || known && steady == ofAll)
			}
			for _, x := range v {
				walk(x, lambda)
			}
		}
	}
	walk(n, false)
	return same
}

// asideWith is the WITH that a query aside begins with: that of the statement, when what the text is taken from lies behind
// it. ok is false when a name in the text would mean something else there, such as the name of a WITH further in.
func (r *resolver) asideWith(at int, sc *scope, text string) (with string, ok bool) {
	with = r.text[:lex.With(r.tokens)]
	known := r.top
	if at < len(with) {
		with = "" // what it is taken from is a part of it
	}
	if with == "" {
		known = nil
	}
	var hidden []string
	for c := sc.with; c != known; c = c.up {
		if c == nil {
			return "", false // not met: the statement's names are in sight behind its WITH
		}
		hidden = append(hidden, c.name)
	}
	if hidden == nil {
		return with, true
	}
	tokens, err := lex.Tokens(text)
	if err != nil {
		return "", false
	}
	for _, t := range tokens {
		if t.IsIdent() && slices.ContainsFunc(hidden, func(name string) bool { return strings.EqualFold(name, t.Name()) }) {
			return "", false
		}
	}
	return with, true
}

// restless tells whether a part of a statement may give other rows when it is asked again: it calls a function such as
// random, or takes a sample. What its tables stand for is looked at too.
func (q *statement) restless(v any) bool {
	seen := map[*scope]bool{}
	var walk func(v any) bool
	walk = func(v any) bool {
		switch v := v.(type) {
		case []any:
			return slices.ContainsFunc(v, walk)
		case node:
			if v["sample"] != nil {
				return true
			}
			if op, _ := v["is_operator"].(bool); tree.Str(v, "class") == "FUNCTION" && !op {
				if s, known := q.stabilityOf(tree.Str(v, "function_name")); known && s == ofEachCall {
					return true
				}
			}
			for _, x := range v {
				if sc, is := x.(*scope); is && !seen[sc] {
					seen[sc] = true
					for _, s := range sc.sources {
						if walk(s.query) {
							return true
						}
					}
				}
				if walk(x) {
					return true
				}
			}
		}
		return false
	}
	return walk(v)
}

// wholeRows tells whether an expression takes the rows of a table as such: a query aside adds to their columns. inner tells
// that it stands in a further SELECT, where * is of other tables.
func wholeRows(v any, s *source, inner bool) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, func(x any) bool { return wholeRows(x, s, inner) })
	case node:
		inner = inner || tree.IsQuery(v)
		switch tree.Str(v, "class") {
		case "STAR":
			return !inner || strings.EqualFold(tree.Str(v, "relation_name"), s.name)
		case "COLUMN_REF":
			names := tree.List(v, "column_names")
			name, _ := names[0].(string)
			if len(names) > 1 || !strings.EqualFold(name, s.name) {
				return false
			}
			_, ok := s.heldColumn(name)
			return !ok
		}
		for _, x := range v {
			if wholeRows(x, s, inner) {
				return true
			}
		}
	}
	return false
}

// argument is the place of an argument of a distance in the text.
func (r *resolver) argument(distance node, i int) (lo, hi int, ok bool) {
	k := r.token(tree.Location(distance))
	if k < 0 {
		return 0, 0, false
	}
	t := r.tokens[k]
	if t.Kind != lex.Op {
		if k+1 >= len(r.tokens) || !r.tokens[k+1].Is("(") {
			return 0, 0, false
		}
		args, end := lex.Args(r.tokens, k+1)
		if end < 0 || i >= len(args) || len(args[i]) == 0 {
			return 0, 0, false
		}
		return args[i][0].Start, args[i][len(args[i])-1].End, true
	}
	if i == 0 {
		if k == 0 {
			return 0, 0, false
		}
		return r.tokens[lex.Operand(r.tokens, k-1)].Start, r.tokens[k-1].End, true
	}
	from, open := k+1, k+1
	if open+1 < len(r.tokens) && r.tokens[open].IsIdent() {
		open++
	}
	if open >= len(r.tokens) || !r.tokens[open].Is("(") {
		return 0, 0, false
	}
	end := lex.Close(r.tokens, open)
	if end < 0 || end+1 < len(r.tokens) && (r.tokens[end+1].Text == "::" || r.tokens[end+1].Is("[") || r.tokens[end+1].Is(".")) {
		return 0, 0, false
	}
	return r.tokens[from].Start, r.tokens[end].End, true
}

// canAsk ends recursion: a query aside may ask aside itself, but not without end.
const canAsk = 4

// ask runs a SELECT of the statement's own text before the statement, over the same versions of its tables. rows is nil
// when it cannot be run, which the statement itself will tell of if it has the same reason.
func (q *statement) ask(text string, at *places) (rows *engine.Result, done func(), err error) {
	if q.asked >= canAsk {
		return nil, nil, nil
	}
	aside := &statement{s: q.s, ctx: q.ctx, tables: q.tables, views: q.views, hinted: q.hinted, hintedEffort: q.hintedEffort, args: q.args, params: q.params, paramNames: q.paramNames,
		lists: q.lists, places: at, asked: q.asked + 1}
	fail := func(err error) (*engine.Result, func(), error) {
		aside.close()
		return nil, nil, canceled(err)
	}
	w := &rewriting{original: text, text: text}
	root, err := aside.parse(text)
	if err != nil {
		return fail(err)
	}
	edits, err := aside.resolve(text, root)
	if err != nil {
		return fail(err)
	}
	w.splice(edits)
	if q.params > 0 {
		err = aside.renumber(w)
	} else {
		err = aside.dropArgs(w)
	}
	if err != nil {
		return fail(err)
	}
	aside.restoreLists(w)
	r, err := q.s.env.engine.Query(q.ctx, w.text, aside.args...)
	if err != nil {
		return fail(err)
	}
	return r, func() { r.Close(); aside.close() }, nil
}

// dropArgs drops the parameters by name that a text does not have.
func (q *statement) dropArgs(w *rewriting) error {
	tokens, err := lex.Tokens(w.text)
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, t := range tokens {
		if t.Kind == lex.Param {
			used[strings.ToLower(strings.Trim(t.Text[1:], `"`))] = true
		}
	}
	q.args = slices.DeleteFunc(slices.Clone(q.args), func(a Arg) bool { return !used[strings.ToLower(strings.TrimPrefix(a.Name, "$"))] })
	return nil
}

package sql

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/overlakedb/overlake/internal/engine"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/sql/cast"
	"github.com/overlakedb/overlake/internal/sql/coltype"
	"github.com/overlakedb/overlake/internal/sql/guard"
	"github.com/overlakedb/overlake/internal/sql/lex"
	"github.com/overlakedb/overlake/internal/sql/macro"
	"github.com/overlakedb/overlake/internal/sql/textcall"
)

// rewriting is a SELECT on its way to the engine: the text as it is now, and how it came about, so that an error of the
// engine can be told where the user wrote its cause.
type rewriting struct {
	original string
	text     string
	stages   [][]lex.Edit
}

// part begins the rewriting of the bytes from start to end of the statement, with text around them that is not the
// user's. Errors inside are told at their place in the whole statement.
func (q *statement) part(start, end int, prefix, suffix string) *rewriting {
	w := &rewriting{original: q.text, text: q.text}
	var edits []lex.Edit
	if start > 0 || prefix != "" {
		edits = append(edits, lex.Edit{Start: 0, End: start, New: prefix})
	}
	if end < len(q.text) || suffix != "" {
		edits = append(edits, lex.Edit{Start: end, End: len(q.text), New: suffix})
	}
	w.splice(edits)
	return w
}

func (w *rewriting) splice(edits []lex.Edit) {
	if len(edits) == 0 {
		return
	}
	w.text = lex.Splice(w.text, edits)
	w.stages = append(w.stages, edits)
}

// origin maps a byte offset of the text back to the original.
func (w *rewriting) origin(pos int) int {
	for i := len(w.stages) - 1; i >= 0; i-- {
		pos = lex.Origin(w.stages[i], pos)
	}
	return pos
}

// locate gives an engine's error the place in the original text.
func (w *rewriting) locate(err error) error {
	e, ok := engine.AsSQLError(err)
	if !ok {
		return err
	}
	message, hint := e.Message, errs.HintOf(err)
	if refused := cast.Refused(e); refused != nil {
		err, message, hint = refused, refused.Error(), ""
	}
	if e.Position < 0 {
		return err
	}
	return errs.Wrap(errs.KindOf(err), "sql.query", lex.At(w.original, w.origin(e.Position), message), errs.Hint("%s", hint))
}

// own gives an error about a place in the text the place in the original.
func (w *rewriting) own(err error) error {
	var p *lex.Position
	if !errors.As(err, &p) {
		return err
	}
	*p = *lex.At(w.original, w.origin(p.Offset), p.Message)
	return err
}

// rewrite prepares a SELECT for the engine.
func (q *statement) rewrite(w *rewriting) (*rewriting, error) {
	// Search functions may write an argument twice, and take SQL in strings: so what DuckDB cannot read is replaced
	// before and after them, and parameters have their numbers before.
	for _, step := range []func(*rewriting) error{q.cutLists, q.dialect, q.name, q.expand, q.dialect, q.casts, q.cutTexts} {
		if err := step(w); err != nil {
			return nil, w.own(err)
		}
	}
	if err := checkArgs(q.params, q.args); err != nil {
		return nil, err
	}
	root, err := q.parse(w.text)
	if err != nil {
		if strings.Contains(err.Error(), "Only SELECT statements can be serialized") {
			return nil, errs.New(errs.Unsupported, "sql.query", "PIVOT without the values of its columns, or a statement that is no query",
				errs.Hint("name the values: PIVOT t ON c IN ('a', 'b') USING sum(x)"))
		}
		return nil, w.own(w.locate(err))
	}
	given := q.params
	edits, err := q.resolve(w.text, root)
	if err != nil {
		return nil, w.own(err)
	}
	w.splice(edits)
	if given > 0 || q.gone && len(q.paramNames) == 0 {
		if err := q.renumber(w); err != nil {
			return nil, err
		}
	}
	q.restoreLists(w)
	return w, nil
}

// parse gives the syntax tree of a SELECT whose functions are all for statements of users.
func (q *statement) parse(text string) (node, error) {
	return q.s.env.trees.Of(text, func() (string, error) { return q.s.env.engine.Parse(q.ctx, text) }, func(root node) error { return guard.Check(root, text, macro.EffortFunction, textcall.AnalyzeFunction) })
}

// expand replaces the search functions of a text until none is left.
func (q *statement) expand(w *rewriting) error {
	for range 20 {
		tokens, err := lex.Tokens(w.text)
		if err != nil {
			return err
		}
		edit, found, err := macro.Expand(w.text, tokens)
		if err != nil || !found {
			return err
		}
		w.splice([]lex.Edit{edit})
	}
	return errs.New(errs.Unsupported, "sql.expand", "more than 20 search functions in one statement")
}

// casts makes one pass for casts to pgvector's types.
func (q *statement) casts(w *rewriting) error {
	tokens, err := lex.Tokens(w.text)
	if err != nil {
		return err
	}
	edits, err := cast.Edits(w.text, tokens)
	if err != nil {
		return err
	}
	w.splice(edits)
	return nil
}

// renumber gives the parameters that are left in the text the numbers from 1 on: text functions took the others, and the
// engine binds no number that is larger than the number of parameters.
func (q *statement) renumber(w *rewriting) error {
	tokens, err := lex.Tokens(w.text)
	if err != nil {
		return err
	}
	numbers := map[string]string{}
	var args []Arg
	var edits []lex.Edit
	for _, t := range tokens {
		if t.Kind != lex.Param {
			continue
		}
		old := t.Text[1:]
		if numbers[old] == "" {
			value, ok := q.param(old)
			if !ok {
				return errs.With(w.own(lex.Errorf(w.text, t.Start, "no value for parameter $%s", old)), errs.Hint("pass one argument for every parameter of the statement"))
			}
			numbers[old] = strconv.Itoa(len(args) + 1)
			args = append(args, Arg{Name: numbers[old], Value: value})
		}
		edits = append(edits, lex.Edit{Start: t.Start, End: t.End, New: "$" + numbers[old]})
	}
	w.splice(edits)
	q.args = args
	return nil
}

// dialect makes one pass over the words for what DuckDB cannot read or reads otherwise.
func (q *statement) dialect(w *rewriting) error {
	tokens, err := lex.Tokens(w.text)
	if err != nil {
		return err
	}
	edits := lex.SpaceEdits(w.text, tokens)
	for i, t := range tokens {
		switch {
		case t.Kind == lex.Op && t.Text == "<#>":
			edits = append(edits, lex.Edit{Start: t.Start, End: t.End, New: coltype.NegativeDot})
		case cast.IsBits(t):
			b, err := cast.Bits(w.text, t)
			if err != nil {
				return err
			}
			edits = append(edits, lex.Edit{Start: t.Start, End: t.End, New: b})
		case t.Kind == lex.Param && t.Text == "?":
			q.params++
			edits = append(edits, lex.Edit{Start: t.Start, End: t.End, New: "$" + strconv.Itoa(q.params)})
		case t.Kind == lex.Param:
			if n, err := strconv.Atoi(t.Text[1:]); err == nil {
				q.params = max(q.params, n)
			} else {
				q.paramNames = append(q.paramNames, strings.ToLower(strings.Trim(t.Text[1:], `"`)))
			}
		case t.Is("FOR"):
			edits = append(edits, lex.Travel(w.text, tokens, i)...)
		case t.Is("AT") && i+2 < len(tokens) && tokens[i+1].Is("(") && (tokens[i+2].Is("VERSION") || tokens[i+2].Is("TIMESTAMP")):
			if end := lex.Close(tokens, i+1); end > 0 {
				edits = append(edits, lex.MoveAlias(w.text, tokens, t.Start, end+1)...)
			}
		case t.Is("TABLE") && i+1 < len(tokens) && tokens[i+1].IsIdent() && beginsQuery(tokens, i):
			edits = append(edits, lex.Edit{Start: t.Start, End: t.End, New: "FROM"}) // TABLE t
		case (t.Is("SUMMARIZE") || t.Is("DESCRIBE")) && i+1 < len(tokens) && tokens[i+1].IsIdent() && !queryWord(tokens[i+1]) && beginsQuery(tokens, i):
			// What takes the place of the table is no name.
			edits = append(edits, lex.Edit{Start: t.End, End: t.End, New: " FROM"})
		case t.Is("OPERATOR") && i+1 < len(tokens) && tokens[i+1].Is("("):
			// OPERATOR(schema.<->): DuckDB takes the schema for the operator. Ours have none.
			if end := lex.Close(tokens, i+1); end > 0 && tokens[end-1].Kind == lex.Op {
				edits = append(edits, lex.Edit{Start: t.Start, End: tokens[end-1].Start}, lex.Edit{Start: tokens[end].Start, End: tokens[end].End})
			}
		}
	}
	w.splice(edits)
	return nil
}

// queryWord reports whether a word begins a query.
func queryWord(t lex.Token) bool {
	if t.Kind == lex.Quoted {
		return false
	}
	switch strings.ToUpper(t.Text) {
	case "SELECT", "WITH", "VALUES", "FROM", "(", "TABLE", "PIVOT", "UNPIVOT", "SUMMARIZE", "DESCRIBE", "SHOW":
		return true
	}
	return false
}

// beginsQuery reports whether a word stands where a query may begin.
func beginsQuery(tokens []lex.Token, i int) bool {
	if i == 0 {
		return true
	}
	p := tokens[i-1]
	return p.Is("(") || p.Is("ALL") || p.Is("UNION") || p.Is("EXCEPT") || p.Is("INTERSECT") || p.Is("NAME") || p.Is("DISTINCT") || p.Is(")")
}

// ref reads the words inside AT (…).
func (q *statement) ref(text string, tokens []lex.Token) (lake.Ref, error) {
	bad := func(format string, args ...any) error {
		return errs.With(lex.Errorf(text, tokens[0].Start, format, args...), errs.Hint("write AT (VERSION => 123) with a snapshot id, a branch or a tag, or AT (TIMESTAMP => '2026-01-31 12:00:00')"))
	}
	if len(tokens) < 3 || tokens[1].Text != "=>" {
		return lake.Ref{}, bad("AT needs a unit and a value")
	}
	v := tokens[len(tokens)-1]
	var value any
	switch v.Kind {
	case lex.Number:
		n, err := strconv.ParseInt(v.Text, 10, 64)
		if err != nil {
			return lake.Ref{}, bad("%s is no snapshot id", v.Text)
		}
		value = n
	case lex.String:
		value = v.Value()
	case lex.Param:
		var ok bool
		if value, ok = q.param(v.Text[1:]); !ok {
			return lake.Ref{}, bad("no value for parameter %s", v.Text)
		}
	default:
		return lake.Ref{}, bad("AT takes a number, a string or a parameter")
	}
	switch {
	case tokens[0].Is("VERSION"):
		switch v := value.(type) {
		case int64:
			return lake.Ref{SnapshotID: v}, nil
		case int:
			return lake.Ref{SnapshotID: int64(v)}, nil
		case string:
			if n, err := strconv.ParseInt(v, 10, 64); err == nil {
				return lake.Ref{SnapshotID: n}, nil
			}
			return lake.Ref{Name: v}, nil
		}
	case tokens[0].Is("TIMESTAMP"):
		switch v := value.(type) {
		case time.Time:
			return lake.Ref{AsOf: v}, nil
		case string:
			for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02"} {
				if t, err := time.Parse(layout, v); err == nil {
					return lake.Ref{AsOf: t}, nil
				}
			}
			return lake.Ref{}, bad("%q is no time", v)
		}
	}
	return lake.Ref{}, bad("AT does not take this")
}

// hide passes a value as a parameter that the user does not see, and gives what stands for it in the text. Parameters are
// all numbers or all names, as the user's are.
//
// What FROM needs is passed this way because of what DuckDB does with it: it prepares a statement before it runs it, and
// a function in FROM whose parameter has no value yet ends the preparing. So the statement is planned once, when the
// values are there, and not twice (docs/decisions/0002-duckdb-embedding.md has the numbers).
func (q *statement) hide(value any) string {
	name := ""
	if len(q.paramNames) == 0 {
		q.params++
		name = strconv.Itoa(q.params)
	} else {
		for i := len(q.args); name == "" || slices.Contains(q.paramNames, name); i++ {
			name = "overlake_" + strconv.Itoa(i)
		}
		q.paramNames = append(q.paramNames, name)
	}
	q.args = append(slices.Clip(q.args), Arg{Name: name, Value: value})
	return "$" + name
}

// param is the value of a parameter by number or name.
func (q *statement) param(name string) (any, bool) {
	at := 0
	n, err := strconv.Atoi(name)
	for _, a := range q.args {
		if a.Name == "" {
			if at++; err == nil && at == n {
				return a.Value, true
			}
		} else if strings.EqualFold(strings.TrimPrefix(a.Name, "$"), name) {
			return a.Value, true
		}
	}
	return nil, false
}

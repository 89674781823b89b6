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
	"github.com/overlakedb/overlake/internal/sql/coltype"
	"github.com/overlakedb/overlake/internal/sql/lex"
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
	if refused := refusedCast(e); refused != nil {
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
	for _, step := range []func(*rewriting) error{q.cutLists, q.dialect, q.name, q.expand, q.dialect, q.casts} {
		if err := step(w); err != nil {
			return nil, w.own(err)
		}
	}
	if err := checkArgs(q.params, q.args); err != nil {
		return nil, err
	}
	tree, err := q.s.env.engine.Parse(q.ctx, w.text)
	if err != nil {
		if strings.Contains(err.Error(), "Only SELECT statements can be serialized") {
			return nil, errs.New(errs.Unsupported, "sql.query", "PIVOT without the values of its columns, or a statement that is no query",
				errs.Hint("name the values: PIVOT t ON c IN ('a', 'b') USING sum(x)"))
		}
		return nil, w.locate(err)
	}
	given := q.params
	edits, err := q.resolve(w.text, tree)
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
		case isBits(t):
			b, err := bits(w.text, t)
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
			edits = append(edits, travel(w.text, tokens, i)...)
		case t.Is("AT") && i+2 < len(tokens) && tokens[i+1].Is("(") && (tokens[i+2].Is("VERSION") || tokens[i+2].Is("TIMESTAMP")):
			if end := lex.Close(tokens, i+1); end > 0 {
				edits = append(edits, moveAlias(w.text, tokens, t.Start, end+1)...)
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

// operand is the index of the first word of the operand that ends at index i, as :: binds: a literal, a parameter, a
// name, a CASE, a bracket with the function name, the subscripted value or the aggregate before it, or an earlier cast.
func operand(tokens []lex.Token, i int) int {
	for i >= 0 {
		t := tokens[i]
		before := lex.Token{Kind: lex.Punct}
		switch {
		case t.Is(")") || t.Is("]") || t.Is("}"):
			k := lex.Open(tokens, i)
			if k < 0 {
				return 0
			}
			if i = k; k > 0 {
				before = tokens[k-1]
			}
			switch {
			case t.Is(")") && (before.Is("OVER") || before.Is("FILTER")) && k > 1:
				i = k - 2 // f(…) FILTER (…) OVER (…)
				continue
			case t.Is(")") && before.Is("GROUP") && k > 2 && tokens[k-2].Is("WITHIN"):
				i = k - 3
				continue
			case before.IsIdent() && !operatorWord(before), t.Is("]") && (before.Is(")") || before.Is("]") || before.Is("}") || before.Kind == lex.Param || before.Kind == lex.String):
				i = k - 1
				continue
			}
		case t.Is("END"):
			if k := caseOf(tokens, i); k >= 0 {
				i = k
				break
			}
			fallthrough
		case t.IsIdent():
			i = typeStart(tokens, i)
			if i > 1 && tokens[i-1].Is("OVER") {
				i -= 2 // f(…) OVER w
				continue
			}
			if i > 1 && tokens[i-1].Is(".") {
				i -= 2 // of a name, a call or a bracket
				continue
			}
		case t.Kind == lex.String && i > 0:
			// DATE '…', vector(3) '…'
			switch p := tokens[i-1]; {
			case p.Kind == lex.Word && !operatorWord(p) && !p.Is("END") && !p.Is("NULL") && !p.Is("TRUE") && !p.Is("FALSE"):
				i--
			case p.Is(")"):
				if k := lex.Open(tokens, i-1); k > 0 && tokens[k-1].IsIdent() && !operatorWord(tokens[k-1]) {
					i = k - 1
				}
			}
		}
		if i >= 2 && tokens[i-1].Text == "::" {
			i -= 2
			continue
		}
		if t := tokens[i]; i > 1 && tokens[i-1].Is(".") && t.IsIdent() {
			i -= 2
			continue
		}
		return i
	}
	return 0
}

// typeStart is the index of the first word of a type whose last word is at index i: DOUBLE PRECISION, TIME WITH TIME ZONE.
func typeStart(tokens []lex.Token, i int) int {
	for _, words := range [][]string{{"DOUBLE", "PRECISION"}, {"CHARACTER", "VARYING"}, {"WITH", "TIME", "ZONE"}, {"WITHOUT", "TIME", "ZONE"}} {
		from := i - len(words) + 1
		found := from > 0
		for k, w := range words {
			found = found && tokens[from+k].Is(w)
		}
		if found && len(words) == 3 {
			from-- // TIME or TIMESTAMP
		}
		if found && from > 0 && tokens[from-1].Text == "::" {
			return from
		}
	}
	return i
}

// caseOf is the index of the CASE that ends at index i, or -1.
func caseOf(tokens []lex.Token, i int) int {
	depth := 0
	for k := i; k >= 0; k-- {
		switch {
		case tokens[k].Is("END") && !(k > 0 && tokens[k-1].Is(".")):
			depth++
		case tokens[k].Is("CASE"):
			if depth--; depth == 0 {
				return k
			}
		}
	}
	return -1
}

// operatorWord reports whether a keyword before a bracket or a string is no part of an operand.
func operatorWord(t lex.Token) bool {
	if t.Kind != lex.Word {
		return false
	}
	switch strings.ToUpper(t.Text) {
	case "SELECT", "AND", "OR", "NOT", "IN", "WHERE", "BY", "ON", "WHEN", "THEN", "ELSE", "CASE", "LIKE", "ILIKE", "BETWEEN", "IS", "VALUES", "HAVING", "AS", "FROM",
		"LIMIT", "OFFSET", "RETURNING", "SET", "USING", "DISTINCT", "ALL", "EXISTS", "ANY", "UNION", "EXCEPT", "INTERSECT", "QUALIFY", "FILTER", "OVER", "SIMILAR", "TO":
		return true
	}
	return false
}

// travel turns FOR VERSION AS OF x and FOR TIMESTAMP AS OF x into AT (…).
func travel(text string, tokens []lex.Token, i int) []lex.Edit {
	if i+4 >= len(tokens) || !tokens[i+2].Is("AS") || !tokens[i+3].Is("OF") {
		return nil
	}
	unit := ""
	switch strings.ToUpper(tokens[i+1].Text) {
	case "VERSION", "SYSTEM_VERSION":
		unit = "VERSION"
	case "TIMESTAMP", "SYSTEM_TIME", "TIME", "SYSTEM_TIMESTAMP":
		unit = "TIMESTAMP"
	default:
		return nil
	}
	last := i + 4
	if tokens[last].Kind == lex.Word && last+1 < len(tokens) && tokens[last+1].Kind == lex.String {
		last++ // TIMESTAMP '…'
	}
	out := moveAlias(text, tokens, tokens[i].Start, last+1)
	return append(out, lex.Edit{Start: tokens[i].Start, End: tokens[i+4].Start, New: "AT (" + unit + " => "}, lex.Edit{Start: tokens[last].End, End: tokens[last].End, New: ")"})
}

// moveAlias puts the other name of a table, which may begin at index i, before the place of its AT, where DuckDB wants it.
func moveAlias(text string, tokens []lex.Token, place, i int) []lex.Edit {
	from := i
	if i < len(tokens) && tokens[i].Is("AS") {
		i++
	} else if i < len(tokens) && behindTable(tokens[i]) {
		return nil
	}
	if i >= len(tokens) || !tokens[i].IsIdent() {
		return nil
	}
	if i+1 < len(tokens) && tokens[i+1].Is("(") {
		if i = lex.Close(tokens, i+1); i < 0 {
			return nil
		}
	}
	lo, hi := tokens[from].Start, tokens[i].End
	return []lex.Edit{{Start: place, End: place, New: text[lo:hi] + " "}, {Start: lo, End: hi}}
}

// behindTable reports whether a word behind a table's name is no other name of it.
func behindTable(t lex.Token) bool {
	if t.Kind == lex.Quoted {
		return false
	}
	switch strings.ToUpper(t.Text) {
	case "WHERE", "JOIN", "LEFT", "RIGHT", "INNER", "FULL", "CROSS", "NATURAL", "ASOF", "POSITIONAL", "SEMI", "ANTI", "ON", "USING", "GROUP", "ORDER", "LIMIT", "HAVING",
		"QUALIFY", "WINDOW", "UNION", "EXCEPT", "INTERSECT", "OFFSET", "FETCH", "TABLESAMPLE", "PIVOT", "UNPIVOT", "SELECT", "FOR", "WITH", "RETURNING", "LATERAL":
		return true
	}
	return false
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

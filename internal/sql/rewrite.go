package sql

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/overlakedb/overlake/internal/engine"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/sql/lex"
	"github.com/overlakedb/overlake/internal/vec/pgvector"
)

// rewriting is a SELECT on its way to the engine: the text as it is now, and how it came about, so that an error of the
// engine can be told where the user wrote its cause.
type rewriting struct {
	original string
	text     string
	stages   [][]lex.Edit
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
		shift := 0 // how much longer the new text is before an edit
		at := pos
		done := false
		for _, e := range sortedEdits(w.stages[i]) {
			start := e.Start + shift
			if pos < start {
				break
			}
			if pos < start+len(e.New) {
				at, done = e.Start, true
				break
			}
			shift += len(e.New) - (e.End - e.Start)
		}
		if !done {
			at = pos - shift
		}
		pos = at
	}
	return pos
}

func sortedEdits(edits []lex.Edit) []lex.Edit {
	out := append([]lex.Edit(nil), edits...)
	for i := 1; i < len(out); i++ {
		for k := i; k > 0 && out[k].Start < out[k-1].Start; k-- {
			out[k], out[k-1] = out[k-1], out[k]
		}
	}
	return out
}

// locate gives an engine's error the place in the original text.
func (w *rewriting) locate(err error) error {
	e, ok := engine.AsSQLError(err)
	if !ok || e.Position < 0 {
		return err
	}
	return errs.Wrap(errs.KindOf(err), "sql.query", lex.At(w.original, w.origin(e.Position), e.Message), errs.Hint("%s", errs.HintOf(err)))
}

// rewrite prepares a SELECT for the engine.
func (q *statement) rewrite(text string) (*rewriting, error) {
	w := &rewriting{original: text, text: text}
	// Parameters get their numbers first: expanding may repeat or move them.
	if err := q.number(w); err != nil {
		return nil, err
	}
	if err := q.expand(w); err != nil {
		return nil, err
	}
	if err := q.dialect(w); err != nil {
		return nil, err
	}
	tree, err := q.s.env.engine.Parse(q.ctx, w.text)
	if err != nil {
		return nil, w.locate(err)
	}
	edits, err := q.resolve(w.text, tree)
	if err != nil {
		return nil, err
	}
	w.splice(edits)
	return w, nil
}

// dialect makes one pass over the words for what DuckDB cannot read.
func (q *statement) dialect(w *rewriting) error {
	tokens, err := lex.Tokens(w.text)
	if err != nil {
		return err
	}
	var edits []lex.Edit
	for i, t := range tokens {
		switch {
		case t.Kind == lex.Op && t.Text == "<#>":
			edits = append(edits, lex.Edit{Start: t.Start, End: t.End, New: negativeDot})
		case t.Is("vector") && i+1 < len(tokens) && tokens[i+1].Is("(") && i > 0 && (tokens[i-1].Text == "::" || tokens[i-1].Is("AS")):
			e, err := typmod(w.text, tokens, i)
			if err != nil {
				return err
			}
			edits = append(edits, e...)
		case t.Is("FOR"):
			if e, ok := travel(w.text, tokens, i); ok {
				edits = append(edits, e)
			}
		}
	}
	w.splice(edits)
	return nil
}

// number turns each ? into $1, $2 … and checks that no more values were given than there are parameters.
func (q *statement) number(w *rewriting) error {
	tokens, err := lex.Tokens(w.text)
	if err != nil {
		return err
	}
	var edits []lex.Edit
	params := 0
	for _, t := range tokens {
		if t.Kind != lex.Param {
			continue
		}
		if t.Text == "?" {
			params++
			edits = append(edits, lex.Edit{Start: t.Start, End: t.End, New: "$" + strconv.Itoa(params)})
		} else if n, err := strconv.Atoi(t.Text[1:]); err == nil {
			params = max(params, n)
		}
	}
	w.splice(edits)
	return checkArgs(params, q.args)
}

// typmod turns x::vector(n) and CAST(x AS vector(n)) into a check around a cast without n.
func typmod(text string, tokens []lex.Token, i int) ([]lex.Edit, error) {
	args, end := lex.Args(tokens, i+1)
	if end < 0 {
		return nil, nil // the parser will tell
	}
	n, err := modifier(text, tokens[i], args)
	if err != nil {
		return nil, err
	}
	check := ", " + strconv.FormatInt(n, 10) + ")"
	drop := lex.Edit{Start: tokens[i+1].Start, End: tokens[end].End}
	if tokens[i-1].Text == "::" {
		from := operand(tokens, i-2)
		drop.New = check
		return []lex.Edit{{Start: tokens[from].Start, End: tokens[from].Start, New: checkFunction + "("}, drop}, nil
	}
	// CAST ( … AS vector(n) ): the cast itself begins two words before its bracket's content.
	depth := 0
	for k := i; k >= 0; k-- {
		if tokens[k].Is(")") {
			depth++
		}
		if tokens[k].Is("(") {
			if depth--; depth < 0 {
				if k > 0 && (tokens[k-1].Is("CAST") || tokens[k-1].Is("TRY_CAST")) && end+1 < len(tokens) {
					return []lex.Edit{{Start: tokens[k-1].Start, End: tokens[k-1].Start, New: checkFunction + "("}, drop,
						{Start: tokens[end+1].End, End: tokens[end+1].End, New: check}}, nil
				}
				return nil, nil
			}
		}
	}
	return nil, nil
}

func modifier(text string, at lex.Token, args [][]lex.Token) (int64, error) {
	bad := func(message string) error { return lex.Errorf(text, at.Start, "%s", message) }
	if len(args) != 1 || len(args[0]) == 0 {
		return 0, bad("invalid type modifier")
	}
	a := args[0]
	switch {
	case len(a) == 1 && a[0].Kind == lex.String:
		n, err := strconv.ParseInt(a[0].Value(), 10, 32)
		if err != nil {
			return 0, bad(fmt.Sprintf("invalid input syntax for type integer: \"%s\"", a[0].Value()))
		}
		return n, wrapAt(text, at, pgvector.CheckModifier(n))
	case len(a) == 1 && a[0].Kind == lex.Number:
		n, err := strconv.ParseInt(a[0].Text, 10, 64)
		if err != nil {
			return 0, bad("invalid type modifier")
		}
		return n, wrapAt(text, at, pgvector.CheckModifier(n))
	case len(a) == 2 && a[0].Text == "-" && a[1].Kind == lex.Number:
		return 0, bad("dimensions for type vector must be at least 1")
	}
	return 0, bad("type modifiers must be simple constants or identifiers")
}

func wrapAt(text string, at lex.Token, err error) error {
	if err == nil {
		return nil
	}
	return lex.Errorf(text, at.Start, "%s", err.Error())
}

// operand is the index of the first word of the operand that ends at index i, as :: binds: a literal, a parameter, a
// name, a bracket with the function name or the subscripted value before it, or an earlier cast.
func operand(tokens []lex.Token, i int) int {
	for i >= 0 {
		t := tokens[i]
		switch {
		case t.Is(")") || t.Is("]") || t.Is("}"):
			k := lex.Open(tokens, i)
			if k < 0 {
				return 0
			}
			i = k
			if k > 0 && (tokens[k-1].IsIdent() && !operatorWord(tokens[k-1]) || t.Is("]") && (tokens[k-1].Is(")") || tokens[k-1].Is("]"))) {
				i = k - 1
				continue
			}
		case t.IsIdent():
			for i >= 2 && tokens[i-1].Is(".") && (tokens[i-2].IsIdent() || tokens[i-2].Is(")")) {
				i -= 2
			}
			if tokens[i].Is(")") {
				continue
			}
		case t.Kind == lex.String && i > 0 && tokens[i-1].Kind == lex.Word && !operatorWord(tokens[i-1]):
			i-- // DATE '…'
		}
		if i >= 2 && tokens[i-1].Text == "::" {
			i -= 2
			continue
		}
		return i
	}
	return 0
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
func travel(text string, tokens []lex.Token, i int) (lex.Edit, bool) {
	if i+4 >= len(tokens) || !tokens[i+2].Is("AS") || !tokens[i+3].Is("OF") {
		return lex.Edit{}, false
	}
	unit := ""
	switch strings.ToUpper(tokens[i+1].Text) {
	case "VERSION", "SYSTEM_VERSION":
		unit = "VERSION"
	case "TIMESTAMP", "SYSTEM_TIME", "TIME", "SYSTEM_TIMESTAMP":
		unit = "TIMESTAMP"
	default:
		return lex.Edit{}, false
	}
	last := i + 4
	if tokens[last].Kind == lex.Word && last+1 < len(tokens) && tokens[last+1].Kind == lex.String {
		last++ // TIMESTAMP '…'
	}
	value := text[tokens[i+4].Start:tokens[last].End]
	return lex.Edit{Start: tokens[i].Start, End: tokens[last].End, New: "AT (" + unit + " => " + value + ")"}, true
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

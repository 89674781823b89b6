// Package cast answers: what does a cast to a type of pgvector become?
//
// Casts to pgvector's types become calls of functions of ours (package coltype registers them), before the engine sees them:
// it drops a cast between types that are one but for their names, and knows no numbers of dimensions. So do casts to
// FLOAT[], which may come from a vector. Left alone are casts to lists of these types, and a bare BIT, which is the
// engine's, of any length.
package cast

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/overlakedb/overlake/internal/engine"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/sql/coltype"
	"github.com/overlakedb/overlake/internal/sql/lex"
	"github.com/overlakedb/overlake/internal/vec/pgvector"
)

// Types are the types whose casts are rewritten.
var Types = map[string]bool{"vector": true, "halfvec": true, "sparsevec": true, "bit": true}

// Type is the type that a word names, when it is one of them.
func Type(t lex.Token) (string, bool) {
	if !t.IsIdent() {
		return "", false
	}
	name := strings.ToLower(t.Name())
	return name, Types[name]
}

// Edits are those that a text needs for its casts to pgvector's types.
func Edits(text string, tokens []lex.Token) ([]lex.Edit, error) {
	var edits []lex.Edit
	// The last one first: of casts of casts, the outer one's words go around those of the inner one.
	for i := len(tokens) - 1; i >= 0; i-- {
		t := tokens[i]
		var e []lex.Edit
		var err error
		switch typ, ok := Type(t); {
		case ok && i > 0:
			e, err = castEdits(text, tokens, i, typ)
		case i > 0 && FloatList(tokens, i):
			e = around(tokens, i, i+2, coltype.FloatsFunction)
		}
		if err != nil {
			return nil, err
		}
		edits = append(edits, e...)
	}
	return edits, nil
}

// IsBits reports whether a word is a bit string: B'101'.
func IsBits(t lex.Token) bool { return t.Kind == lex.String && (t.Text[0] == 'B' || t.Text[0] == 'b') }

// Bits is a bit string as the engine reads it: it takes B'101' for the text b101, and has no literal for no bits.
func Bits(text string, t lex.Token) (string, error) {
	digits := t.Value()
	if _, err := pgvector.PackBits(digits, nil); err != nil {
		return "", lex.Errorf(text, t.Start, "%s", err.Error())
	}
	if digits == "" {
		return coltype.BitsFunction + "('')", nil
	}
	return "'" + digits + "'::BIT", nil
}

// FloatList reports whether FLOAT[] begins at a word.
func FloatList(tokens []lex.Token, i int) bool {
	if !tokens[i].Is("FLOAT") && !tokens[i].Is("REAL") && !tokens[i].Is("FLOAT4") || i+2 >= len(tokens) {
		return false
	}
	return tokens[i+1].Is("[") && tokens[i+2].Is("]") && !(i+3 < len(tokens) && tokens[i+3].Is("["))
}

// castOf finds the call of CAST or TRY_CAST whose type, behind AS, ends at a word: the index of its name, or -1.
func castOf(tokens []lex.Token, last int) int {
	if last+1 >= len(tokens) || !tokens[last+1].Is(")") {
		return -1
	}
	if k := lex.Open(tokens, last+1); k > 0 && (tokens[k-1].Is("CAST") || tokens[k-1].Is("TRY_CAST")) {
		return k - 1
	}
	return -1
}

// around puts a call around a cast, x::T or CAST(x AS T), whose type is the words from first to last.
func around(tokens []lex.Token, first, last int, function string) []lex.Edit {
	from, end := -1, tokens[last].End
	switch p := tokens[first-1]; {
	case p.Text == "::":
		from = lex.Operand(tokens, first-2)
	case p.Is("AS"):
		if from = castOf(tokens, last); from >= 0 {
			end = tokens[last+1].End
		}
	}
	if from < 0 {
		return nil
	}
	at := tokens[from].Start
	return []lex.Edit{{Start: at, End: at, New: function + "("}, {Start: end, End: end, New: ")"}}
}

// castEdits puts a call around x::T(n), CAST(x AS T(n)) and T(n) 'x', and without n too. The casts to vector and halfvec stay
// inside it, without n, since what fails in a cast of the engine is told with its place. Those to sparsevec and bit go: the
// engine has none from all types that they can come from.
func castEdits(text string, tokens []lex.Token, i int, typ string) ([]lex.Edit, error) {
	prev := tokens[i-1]
	cast, as, literal := prev.Text == "::", prev.Is("AS"), false
	last, dim := i, ""
	if i+1 < len(tokens) && tokens[i+1].Is("(") {
		args, end := lex.Args(tokens, i+1)
		if end < 0 {
			return nil, nil // the parser will tell
		}
		literal = !cast && !as && end+1 < len(tokens) && tokens[end+1].Kind == lex.String
		if !cast && !as && !literal {
			return nil, nil // a function of this name, or no type at all
		}
		n, err := Modifier(text, tokens[i], typ, args)
		if err != nil {
			return nil, err
		}
		last, dim = end, ", "+strconv.FormatInt(n, 10)
	}
	if last+2 < len(tokens) && tokens[last+1].Is("[") && tokens[last+2].Is("]") {
		if dim != "" && !literal {
			return nil, errs.With(lex.Errorf(text, tokens[i].Start, "lists of vectors take no number of dimensions"), errs.Hint("write %s[]", typ))
		}
		return nil, nil
	}
	from, end := i, tokens[last].End
	switch {
	case typ == "bit" && dim == "":
		return nil, nil
	case cast:
		from = lex.Operand(tokens, i-2)
	case as:
		if from = castOf(tokens, last); from < 0 {
			return nil, nil
		}
		end = tokens[last+1].End
	case literal:
		end = tokens[last+1].End
	default:
		return nil, nil
	}
	start, open, shut := tokens[from].Start, coltype.CastFunction(typ)+"(", dim+")"
	if as && tokens[from].Is("TRY_CAST") {
		open, shut = "TRY("+open, shut+")"
	}
	edits := []lex.Edit{{Start: start, End: start, New: open}, {Start: end, End: end, New: shut}}
	switch {
	case typ == "vector" || typ == "halfvec":
		if last > i {
			edits = append(edits, lex.Edit{Start: tokens[i+1].Start, End: tokens[last].End})
		}
	case literal:
		edits = append(edits, lex.Edit{Start: tokens[i].Start, End: tokens[last].End})
	case cast:
		edits = append(edits, lex.Edit{Start: prev.Start, End: tokens[last].End})
	default:
		edits = append(edits, lex.Edit{Start: start, End: tokens[from+1].End}, lex.Edit{Start: prev.Start, End: end})
	}
	return edits, nil
}

// Modifier reads n of T(n).
func Modifier(text string, at lex.Token, typ string, args [][]lex.Token) (int64, error) {
	bad := func(message string) error { return lex.Errorf(text, at.Start, "%s", message) }
	check := func(n int64) (int64, error) {
		if err := pgvector.CheckModifier(typ, n); err != nil {
			return 0, bad(err.Error())
		}
		return n, nil
	}
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
		return check(n)
	case len(a) == 1 && a[0].Kind == lex.Number:
		n, err := strconv.ParseInt(a[0].Text, 10, 64)
		if err != nil {
			return 0, bad("invalid type modifier")
		}
		return check(n)
	case len(a) == 2 && a[0].Text == "-" && a[1].Kind == lex.Number:
		return check(-1)
	}
	return 0, bad("type modifiers must be simple constants or identifiers")
}

// Refused is the error of a cast for which the engine finds that none of our functions takes such an argument; nil when
// the engine says something else.
func Refused(e *engine.SQLError) error {
	call, ours := strings.CutPrefix(e.Call, "overlake_")
	name, args, _ := strings.Cut(strings.TrimPrefix(call, "assign_"), "(")
	if e.Subtype != "NO_MATCHING_FUNCTION" || !ours || !Types[name] {
		return nil
	}
	from, _, _ := strings.Cut(strings.TrimSuffix(args, ")"), ", INTEGER")
	from = strings.TrimSuffix(strings.TrimSuffix(from, ", STRING_LITERAL"), ", VARCHAR")
	if strings.HasSuffix(from, "[][]") {
		return pgvector.NotFlat()
	}
	return errs.New(errs.Invalid, "sql.query", fmt.Sprintf("cannot cast type %s to %s", strings.ToLower(from), name))
}

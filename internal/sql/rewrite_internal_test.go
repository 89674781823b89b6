package sql

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/overlakedb/overlake/internal/sql/heading"
	"github.com/overlakedb/overlake/internal/sql/lex"
)

// The operand of :: as DuckDB binds it: from the first word to the last before the cast.
func TestOperand(t *testing.T) {
	for _, text := range []string{
		"x", "1.5", "$1", "?", "'a'", "x.y", "main.t.x", `"q"."r"`, "f(a, b)", "s.f(a)", "(a + b)", "(SELECT 1)", "x[1]", "x[1][2:3]", "(x)[1]", "[1, 2]", "{'a': 1}", "{'a': 1}.a",
		"f(x).y", "(x).y.z", "x::text", "x::text::int", "x[1]::text", "ARRAY[1]", "CAST(x AS text)", "DATE '2020-01-01'", "vector(3) '[1,2,3]'", "CASE WHEN a THEN b END",
		"CASE CASE WHEN a THEN b END WHEN c THEN d ELSE CASE WHEN e THEN f END END", "max(x) FILTER (WHERE true)", "f(x) OVER ()", "f(x) OVER w", "f(x) FILTER (WHERE y) OVER (ORDER BY z)",
		"percentile_cont(0.5) WITHIN GROUP (ORDER BY x)", "'a'\n'b'", "E'\\''", "x.upper()", "'a'.upper().lower()", "NULL", "$x[1]",
	} {
		for _, before := range []string{"", "a + ", "a <-> ", "SELECT ", "a AND ", "NOT ", "- ", "(", "f(a, ", "a IN (", "CASE WHEN ", "a LIKE ", "x = "} {
			full := before + text + "::vector"
			tokens, err := lex.Tokens(full)
			if err != nil {
				t.Fatal(err)
			}
			last := len(tokens) - 3
			if got := tokens[lex.Operand(tokens, last)].Start; got != len(before) {
				t.Errorf("%s: the operand begins at %q", full, full[got:])
			}
		}
	}
}

// No words make the passes over words fail.
func FuzzWords(f *testing.F) {
	for _, s := range []string{
		"SELECT DISTINCT ON (a) CASE WHEN x THEN 1 END::vector(3), vector(2) '[1]', TRY_CAST(a AS vector(1)) FROM t AT (VERSION => 1) AS x(a)",
		"VALUES (1, 'a'), (-2, [3]), (DEFAULT)", "FOR VERSION AS OF x y", "OPERATOR(a.<#>)", "a OVER w::vector(1) . ) FILTER (", "END ::vector(1)", "WITHIN GROUP () ::vector('2')",
		"WITH w AS (SELECT 1) SELECT (SELECT t.id FROM t ORDER BY t.e <-> q.e LIMIT 1) FROM (q JOIN w), LATERAL (SELECT x FROM [y] WHERE z) WHERE a IN (SELECT b FROM c)",
		"x::halfvec::sparsevec(2)::vector, TRY_CAST(B'10' AS bit(3)), bit(1) '', a::DOUBLE PRECISION[]::halfvec(2), CAST(x AS FLOAT[])::REAL[], B''", ":: bit ( 3 )", "AS vector)",
	} {
		f.Add(s)
	}
	fields := []arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int32}, {Name: "b", Type: arrow.BinaryTypes.String}}
	f.Fuzz(func(t *testing.T, s string) {
		tokens, err := lex.Tokens(s)
		if err != nil {
			return
		}
		for _, r := range heading.Items(tokens) {
			heading.Rewritten(tokens[r[0]:r[1]])
		}
		r := &resolver{text: s, tokens: tokens}
		q := &statement{}
		for i := range tokens {
			if k := lex.Operand(tokens, i); k < 0 || k > i {
				t.Fatalf("operand of word %d of %q is %d", i, s, k)
			}
			lex.Splice(s, lex.Travel(s, tokens, i))
			lex.Splice(s, lex.MoveAlias(s, tokens, tokens[i].Start, i+1))
			r.atClause(i, 1)
			if lo, hi, ok := lex.OuterFrom(tokens, i); ok && !(0 <= lo && lo < hi && hi <= len(s)) {
				t.Fatalf("the outer FROM of word %d of %q is %d to %d", i, s, lo, hi)
			}
			if from, where, end, ok := lex.FromWhere(tokens, i); ok && !(0 <= from && from <= i && i < end && end <= len(tokens) && where < end) {
				t.Fatalf("FROM and WHERE of word %d of %q are %d, %d and %d", i, s, from, where, end)
			}
		}
		if edits, err := castCells(s, fields, func(arrow.Field) (string, error) { return "NULL", nil }); err == nil {
			lex.Splice(s, edits)
		}
		w := &rewriting{original: s, text: s}
		if q.dialect(w) == nil && q.casts(w) == nil {
			for i := range len(w.text) {
				if o := w.origin(i); o < 0 || o > len(s) {
					t.Fatalf("byte %d of %q is %d of %q", i, w.text, o, s)
				}
			}
		}
	})
}

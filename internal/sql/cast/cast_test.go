package cast_test

import (
	"testing"

	"github.com/overlakedb/overlake/internal/sql/cast"
	"github.com/overlakedb/overlake/internal/sql/lex"
)

// become is a text after its casts were rewritten.
func become(text string) (string, error) {
	tokens, err := lex.Tokens(text)
	if err != nil {
		return "", err
	}
	edits, err := cast.Edits(text, tokens)
	return lex.Splice(text, edits), err
}

// TestCasts: what casts to pgvector's types become.
func TestCasts(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"x::vector", "overlake_vector(x::vector)"},
		{"x::vector(3)", "overlake_vector(x::vector, 3)"},
		{"a.b::halfvec('3') + 1", "overlake_halfvec(a.b::halfvec, 3) + 1"},
		{"CAST(x AS vector)", "overlake_vector(CAST(x AS vector))"},
		{"TRY_CAST(x AS halfvec(2))", "TRY(overlake_halfvec(TRY_CAST(x AS halfvec), 2))"},
		{"x::sparsevec", "overlake_sparsevec(x)"},
		{"CAST(f(x) AS sparsevec(9))", "overlake_sparsevec(f(x) , 9)"},
		{"TRY_CAST(x AS sparsevec)", "TRY(overlake_sparsevec(x ))"},
		{"x::bit(3)", "overlake_bit(x, 3)"},
		{"x::bit, CAST(x AS BIT)", "x::bit, CAST(x AS BIT)"},
		{"vector(2) '[1,2]', sparsevec(1) '{}/1', bit(3) '1'", "overlake_vector(vector '[1,2]', 2), overlake_sparsevec( '{}/1', 1), overlake_bit( '1', 3)"},
		{"x::vector(2)::halfvec(2)::sparsevec", "overlake_sparsevec(overlake_halfvec(overlake_vector(x::vector, 2)::halfvec, 2))"},
		{"CAST(CAST(x AS sparsevec) AS vector)::bit(2)", "overlake_bit(overlake_vector(CAST(overlake_sparsevec(x ) AS vector)), 2)"},
		{"x::FLOAT[], CAST(x AS REAL[])", "overlake_floats(x::FLOAT[]), overlake_floats(CAST(x AS REAL[]))"},
		{"x::DOUBLE PRECISION[]::vector", "overlake_vector(x::DOUBLE PRECISION[]::vector)"},
		{"x::TIMESTAMP WITH TIME ZONE::vector", "overlake_vector(x::TIMESTAMP WITH TIME ZONE::vector)"},
		{"x::FLOAT[][], x::FLOAT[3], x::vector[], x::\"Vector\"", "x::FLOAT[][], x::FLOAT[3], x::vector[], overlake_vector(x::\"Vector\")"},
		{"CASE WHEN a THEN b END::vector", "overlake_vector(CASE WHEN a THEN b END::vector)"},
		{"(SELECT 1 AS vector), f(1 AS bit), vector(3), t.vector, 'x' AS halfvec", "(SELECT 1 AS vector), f(1 AS bit), vector(3), t.vector, 'x' AS halfvec"},
		{"CAST(x AS STRUCT(a FLOAT[], vector INTEGER))", "CAST(x AS STRUCT(a FLOAT[], vector INTEGER))"},
	} {
		text := "SELECT " + c.in
		if got, err := become(text); err != nil {
			t.Errorf("%s: %v", c.in, err)
		} else if got != "SELECT "+c.want {
			t.Errorf("%s becomes\n%s, want\n%s", c.in, got, c.want)
		}
	}
	for _, c := range []struct{ in, want string }{
		{"x::vector(0)", "line 1, column 4: dimensions for type vector must be at least 1"},
		{"x::halfvec(16001)", "line 1, column 4: dimensions for type halfvec cannot exceed 16000"},
		{"x::sparsevec(-1)", "line 1, column 4: dimensions for type sparsevec must be at least 1"},
		{"x::bit(1, 2)", "line 1, column 4: invalid type modifier"},
		{"x::bit(n)", "line 1, column 4: type modifiers must be simple constants or identifiers"},
		{"x::vector('a')", `line 1, column 4: invalid input syntax for type integer: "a"`},
		{"x::sparsevec(3)[]", "line 1, column 4: lists of vectors take no number of dimensions"},
	} {
		if _, err := become(c.in); err == nil || err.Error() != c.want {
			t.Errorf("%s gives %v, want %s", c.in, err, c.want)
		}
	}
}

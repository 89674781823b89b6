package coltype

import (
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/engine"
	"github.com/overlakedb/overlake/internal/errs"
)

// TestLoad: what other engines have written into a column of a declared type is read, or refused with pgvector's words.
func TestLoad(t *testing.T) {
	db, err := engine.Open(engine.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := Register(db); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ call, want string }{
		{loadSparse + "(5, [0, 4], [1.5, -2]::FLOAT[])", "{1:1.5,5:-2}/5"},
		{loadSparse + "(1000000000, [], [])", "{}/1000000000"},
		{loadSparse + "(NULL, [0], [1]::FLOAT[])", "(null)"},
		{loadSparse + "(5, [5], [1]::FLOAT[])", "sparsevec index out of bounds"},
		{loadSparse + "(5, [-1], [1]::FLOAT[])", "sparsevec index out of bounds"},
		{loadSparse + "(5, [1, 1], [1, 2]::FLOAT[])", "sparsevec indices must not contain duplicates"},
		{loadSparse + "(5, [2, 1], [1, 2]::FLOAT[])", "sparsevec indices must be in ascending order"},
		{loadSparse + "(5, [1], [0]::FLOAT[])", "sparsevec values must not be zero"},
		{loadSparse + "(5, [1], ['NaN']::FLOAT[])", "NaN not allowed in sparsevec"},
		{loadSparse + "(5, [1, 2], [1]::FLOAT[])", "sparsevec has 2 indices and 1 values"},
		{loadSparse + "(5, [NULL], [1]::FLOAT[])", "array must not contain nulls"},
		{loadSparse + "(5, [1], [NULL]::FLOAT[])", "array must not contain nulls"},
		{loadSparse + "(0, [], [])", "sparsevec must have at least 1 dimension"},
		{loadSparse + "(2147483647, [], [])", "sparsevec cannot have more than 1000000000 dimensions"},
		{loadSparse + "(16001, range(16001)::INTEGER[], list_transform(range(16001), x -> 1)::FLOAT[])", "sparsevec cannot have more than 16000 non-zero elements"},
		{loadBits + "('\\xAA\\xC0'::BLOB, 10)", "1010101011"},
		{loadBits + "(NULL::BLOB, 10)", "(null)"},
		{loadBits + "('\\xAA'::BLOB, 10)", "bit(10) is 2 bytes, not 1"},
		{loadBits + "('\\xAA\\xE0'::BLOB, 10)", "unused bits of bit(10) are set"},
	} {
		got := ""
		rows, err := db.Query(t.Context(), "SELECT "+c.call)
		if err == nil {
			for rows.Next() {
				got = strings.Clone(rows.Record().Column(0).ValueStr(0))
			}
			err = rows.Err()
			rows.Close()
		}
		if err != nil {
			if got = err.Error(); !errs.Is(err, errs.Invalid) {
				t.Errorf("%s gives %v", c.call, errs.KindOf(err))
			}
		}
		if got != c.want {
			t.Errorf("%s is %s, want %s", c.call, got, c.want)
		}
	}
}

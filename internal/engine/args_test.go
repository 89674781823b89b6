package engine_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/overlakedb/overlake/internal/engine"
)

// TestFileColumns: the files and the schema of read_parquet come in as arguments and say what the same text says, with
// defaults of every type as text.
func TestFileColumns(t *testing.T) {
	db := open(t, engine.Config{})
	path := fieldIDs(t, db, "SELECT 7 AS a, 'it''s' AS b", "{a: 1, b: 2}")
	text := func(s string) *string { return &s }
	args := []engine.Arg{{Value: []string{path, path}}, {Value: []engine.FileColumn{{ID: 2, Name: `b "quoted"`, Type: "VARCHAR"}, {ID: 1, Name: "a", Type: "BIGINT"},
		{ID: 9, Name: "blob", Type: "BLOB", Default: text(`\x00\xFF`)}, {ID: 10, Name: "uuid", Type: "UUID", Default: text("00112233-4455-6677-8899-aabbccddeeff")},
		{ID: 11, Name: "t", Type: "VARCHAR", Default: text("")}, {ID: 12, Name: "d", Type: "DECIMAL(9,2)", Default: text("1.25")}, {ID: 13, Name: "none", Type: "DATE"},
		{ID: 14, Name: "v", Type: "vector"}}}}
	got := rows(t, db, "SELECT * REPLACE (hex(blob) AS blob) FROM read_parquet($1, schema = $2)", args...)
	const want = "it's|7|00FF|00112233-4455-6677-8899-aabbccddeeff||1.25|(null)|(null)"
	if strings.Join(got, " / ") != want+" / "+want {
		t.Errorf("got %q", got)
	}
	if got := rows(t, db, "SELECT len($1), len($2)", engine.Arg{Value: []string{}}, engine.Arg{Value: []string{"x", ""}}); strings.Join(got, "") != "0|2" {
		t.Errorf("lists of texts are %q", got)
	}
	args[1].Value = []engine.FileColumn{{ID: 9, Name: "n", Type: "INTEGER", Default: text("x")}}
	if _, err := tryRows(t.Context(), db, "SELECT * FROM read_parquet($1, schema = $2)", args...); err == nil || !strings.Contains(err.Error(), "default_value") {
		t.Errorf("a default that is no number gave %v", err)
	}
}

// TestPlannedOnce: a scan whose files are an argument is planned when it runs and not before, with the user's arguments as
// constants; what is wrong with the statement is then told with its place.
func TestPlannedOnce(t *testing.T) {
	db := open(t, engine.Config{})
	path := fieldIDs(t, db, "SELECT 7 AS a", "{a: 1}")
	files := engine.Arg{Value: []string{path, path}}
	var bound atomic.Int64
	var constants atomic.Bool
	if err := db.RegisterScalar(engine.Scalar{Name: "same", Args: []engine.Type{engine.Int64, engine.Int64}, Returns: engine.Int32, Bind: func(b *engine.Binding) (func() engine.Row, error) {
		bound.Add(1)
		_, ok := b.Constant(1)
		constants.Store(ok)
		return func() engine.Row {
			return func(i int, args []engine.Column, out *engine.Output) error {
				out.Int32(i, int32(args[0].Int64(i)))
				return nil
			}
		}, nil
	}}); err != nil {
		t.Fatal(err)
	}
	want(t, rows(t, db, "SELECT same(a, $2) FROM read_parquet($1)", files, engine.Arg{Value: 1}), "7", "7")
	if n := bound.Swap(0); n != 1 || !constants.Load() {
		t.Errorf("the function was bound %d times, its argument was a constant: %v", n, constants.Load())
	}
	want(t, rows(t, db, "SELECT same(a, $1) FROM read_parquet(['"+path+"', '"+path+"'])", engine.Arg{Value: 1}), "7", "7")
	if n := bound.Swap(0); n != 2 {
		t.Errorf("with the files in the text the function was bound %d times: is the argument still needed?", n)
	}
	for sql, at := range map[string]int{"SELECT b FROM read_parquet($1)": 7, "SELECT nosuch(a) FROM read_parquet($1)": 7} {
		_, err := tryRows(t.Context(), db, sql, files)
		if e, ok := engine.AsSQLError(err); !ok || e.Position != at {
			t.Errorf("%s: %v", sql, err)
		}
	}
	if _, err := tryRows(t.Context(), db, "SELECT a, $2 FROM read_parquet($1)", files); err == nil || !strings.Contains(err.Error(), "$2") {
		t.Errorf("a parameter without a value gave %v", err)
	}
}

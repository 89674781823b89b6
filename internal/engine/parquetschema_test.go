package engine_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/engine"
)

// fieldIDs writes the rows of a SELECT to a Parquet file with field ids and gives its path.
func fieldIDs(t testing.TB, db *engine.DB, sql, ids string) string {
	t.Helper()
	real := filepath.Join(t.TempDir(), "t.parquet")
	out, release, err := db.AddOutput(real)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	opts := "FORMAT parquet, USE_TMP_FILE false"
	if ids != "" {
		opts += ", FIELD_IDS " + ids
	}
	if _, err := db.RunCopy(t.Context(), "COPY ("+sql+") TO '"+out+"' ("+opts+")"); err != nil {
		t.Fatal(err)
	}
	path, forget, err := db.AddFile(real)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(forget)
	return path
}

// TestParquetSchema runs testdata/parquetschema.txt: what read_parquet's schema does with field ids. A case begins with
// "file SELECT" and "ids {…}" (or none); then come lines "schema {…}", each followed by "= values" or "! error". With
// OVERLAKE_REWRITE=1 the answers are written anew.
func TestParquetSchema(t *testing.T) {
	db := open(t, engine.Config{})
	golden := filepath.Join("testdata", "parquetschema.txt")
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	var file, path string
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		key, rest, _ := strings.Cut(line, " ")
		switch key {
		case "file":
			file, path = rest, ""
		case "ids":
			path = fieldIDs(t, db, file, strings.TrimSpace(rest))
		case "schema":
			got, err := tryRows(t.Context(), db, "SELECT * FROM read_parquet('"+path+"', schema = MAP {"+rest+"})")
			out.WriteString(line + "\n")
			if err != nil {
				message, _, _ := strings.Cut(strings.ReplaceAll(err.Error(), "\n", " "), "  In file")
				if i := strings.Index(message, "t.parquet"); i >= 0 {
					message = message[i:]
				}
				out.WriteString("! " + message + "\n")
			} else {
				out.WriteString("= " + strings.Join(got, " / ") + "\n")
			}
			continue
		case "=", "!":
			continue
		}
		out.WriteString(line + "\n")
	}
	if os.Getenv("OVERLAKE_REWRITE") != "" {
		if err := os.WriteFile(golden, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, expect := strings.Split(out.String(), "\n"), strings.Split(string(text), "\n")
	for i := range min(len(got), len(expect)) {
		if got[i] != expect[i] {
			t.Errorf("line %d\n got %s\nwant %s", i+1, got[i], expect[i])
		}
	}
	if len(got) != len(expect) {
		t.Errorf("%d lines, want %d", len(got), len(expect))
	}
}

// TestParquetOpensFiles answers: which files does a query over many open, and when? The first one at binding; each of the
// others when the scan comes to it, so that EXPLAIN and a LIMIT touch few.
func TestParquetOpensFiles(t *testing.T) {
	db := open(t, engine.Config{Threads: 1})
	data := copyOut(t, db, fieldIDs(t, db, "SELECT i AS id FROM range(3000) t(i)", "{id: 1}"))
	const n = 300
	touched := make([]atomic.Bool, n)
	paths := make([]string, n)
	for i := range paths {
		paths[i] = addReader(t, db, context.Background(), "k.parquet", readerFunc(func(p []byte, at int64) (int, error) {
			touched[i].Store(true)
			return bytes.NewReader(data).ReadAt(p, at)
		}), len(data))
	}
	from := "read_parquet(['" + strings.Join(paths, "', '") + "'], schema = MAP {1: {name: 'id', type: 'BIGINT', default_value: NULL}})"
	opened := func(sql string) int {
		t.Helper()
		for i := range touched {
			touched[i].Store(false)
		}
		rows(t, db, sql)
		c := 0
		for i := range touched {
			if touched[i].Load() {
				c++
			}
		}
		return c
	}
	if c := opened("EXPLAIN SELECT sum(id) FROM " + from); c > 2 {
		t.Errorf("binding opened %d of %d files", c, n)
	}
	if c := opened("SELECT id FROM " + from + " LIMIT 5"); c > 20 {
		t.Errorf("a LIMIT opened %d of %d files", c, n)
	}
	if c := opened("SELECT sum(id) FROM " + from); c != n {
		t.Errorf("a scan opened %d of %d files", c, n)
	}
}

// copyOut gives the bytes of a registered file.
func copyOut(t testing.TB, db *engine.DB, path string) []byte {
	t.Helper()
	r, err := db.Query(t.Context(), "SELECT content FROM read_blob('"+path+"')")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if !r.Next() {
		t.Fatal(r.Err())
	}
	return bytes.Clone(r.Record().Column(0).(*array.Binary).Value(0))
}

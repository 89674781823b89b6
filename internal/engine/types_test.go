package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/engine"
)

// TestTypes compares the Arrow type and the values of expressions with testdata/types.txt: a line is an expression, a
// tab, the type, a tab, the values of it for three rows (NULL in the second). OVERLAKE_REWRITE=1 writes the file anew.
func TestTypes(t *testing.T) {
	db := open(t, engine.Config{})
	golden := filepath.Join("testdata", "types.txt")
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			out.WriteString(line + "\n")
			continue
		}
		expr, _, _ := strings.Cut(line, "\t")
		out.WriteString(expr + "\t" + typeAndValues(t, db, expr) + "\n")
	}
	if os.Getenv("OVERLAKE_REWRITE") != "" {
		if err := os.WriteFile(golden, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, expect := strings.Split(out.String(), "\n"), strings.Split(string(text), "\n")
	for i := range expect {
		if got[i] != expect[i] {
			t.Errorf("line %d\n got %s\nwant %s", i+1, got[i], expect[i])
		}
	}
}

func typeAndValues(t *testing.T, db *engine.DB, expr string) string {
	// i keeps the optimizer from folding; the values stand inside lists, structs and beside constants as well.
	r, err := db.Query(t.Context(), "SELECT CASE WHEN i <> 1 THEN "+expr+" END FROM range(3) t(i)")
	if err != nil {
		return "error\t" + strings.ReplaceAll(err.Error(), "\n", " ")
	}
	defer r.Close()
	typ := r.Schema().Field(0).Type.String()
	if a, ok := r.Schema().Field(0).Metadata.GetValue(engine.TypeKey); ok {
		typ = a + "=" + typ
	}
	var values []string
	for r.Next() {
		col := r.Record().Column(0)
		for i := range col.Len() {
			values = append(values, strings.Clone(col.ValueStr(i)))
		}
	}
	if err := r.Err(); err != nil {
		return typ + "\terror " + err.Error()
	}
	return fmt.Sprintf("%s\t%s", typ, strings.Join(values, " "))
}

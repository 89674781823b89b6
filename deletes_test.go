package overlake_test

import (
	"testing"

	"github.com/overlakedb/overlake"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/row"
)

// TestVirtualColumnNames: a table may have columns of the names that the engine's reader gives to places in files, and its
// deleted rows stay deleted.
func TestVirtualColumnNames(t *testing.T) {
	dir := t.TempDir()
	db, err := overlake.Open(t.Context(), dir, overlake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	const all = "SELECT string_agg(concat_ws(' ', id, filename, file_index, FILE_ROW_NUMBER), ', ' ORDER BY id) AS x FROM v"
	answer(t.Context(), db, "CREATE TABLE v (id INTEGER, filename VARCHAR, file_index BIGINT, FILE_ROW_NUMBER BIGINT)")
	answer(t.Context(), db, "INSERT INTO v SELECT i, 'n' || i, 9 - i, 5 FROM range(4) t(i)")
	if got := answer(t.Context(), db, all); got != "x\n\"0 n0 9 5, 1 n1 8 5, 2 n2 7 5, 3 n3 6 5\"\n" {
		t.Errorf("all rows: %s", got)
	}
	store, err := objstore.OpenLocal(dir, objstore.LocalOptions{})
	if err != nil {
		t.Fatal(err)
	}
	table, err := lake.OpenFileCatalog(store).Load(t.Context(), lake.Ident{Namespace: "main", Name: "v"})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := table.Plan(t.Context(), lake.Ref{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := row.NewBitmap()
	b.Add(1)
	b.Add(3)
	if _, err := table.DeleteRows(t.Context(), map[string]*row.Bitmap{plan.Files[0].Path: b}); err != nil {
		t.Fatal(err)
	}
	if got := answer(t.Context(), db, all); got != "x\n\"0 n0 9 5, 2 n2 7 5\"\n" {
		t.Errorf("rows left: %s", got)
	}
}

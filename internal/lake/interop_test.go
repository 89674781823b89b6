package lake_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"

	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/row"
)

// countTheirs scans a table with iceberg-go and its own access to files.
func countTheirs(t *testing.T, tbl *table.Table) int {
	t.Helper()
	_, batches, err := tbl.Scan(table.WithSelectedFields("id")).ToArrowRecords(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for rec, err := range batches {
		if err != nil {
			t.Fatal(err)
		}
		n += int(rec.NumRows())
		rec.Release()
	}
	return n
}

// fill makes a table with a history: two appends, deletes, a rename and an added column, another append.
func fill(t *testing.T, c lake.Catalog, version int) (tbl *lake.Table, rows int) {
	t.Helper()
	tbl = appendRows(t, create(t, c, lake.CreateSpec{FormatVersion: version, Partition: []lake.PartitionField{{Column: "cat", Transform: "identity"}}}), 0, 50)
	tbl = appendRows(t, tbl, 50, 80)
	plan, err := tbl.Plan(t.Context(), lake.Ref{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		gone := map[string]*row.Bitmap{}
		for _, f := range plan.Files {
			gone[f.Path] = row.BitmapOf(int64(i))
		}
		if tbl, err = tbl.DeleteRows(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
	}
	return tbl, 80 - 2*len(plan.Files)
}

// hadoopTables is what the catalogs of directories in Spark and elsewhere do: the hint, or else the listing, names the
// version; the next one appears by a link that fails when there is one.
type hadoopTables struct{ dir string }

func (h hadoopTables) LoadTable(ctx context.Context, id table.Identifier) (*table.Table, error) {
	meta := filepath.Join(append([]string{h.dir}, append(id, "metadata")...)...)
	hint, err := os.ReadFile(filepath.Join(meta, "version-hint.text"))
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(hint)))
	if err != nil {
		return nil, err
	}
	for {
		if _, err := os.Stat(filepath.Join(meta, fmt.Sprintf("v%d.metadata.json", n+1))); err != nil {
			break
		}
		n++
	}
	return table.NewFromLocation(ctx, id, filepath.Join(meta, fmt.Sprintf("v%d.metadata.json", n)), localFiles, h)
}

func (h hadoopTables) CommitTable(ctx context.Context, id table.Identifier, _ []table.Requirement, updates []table.Update) (table.Metadata, string, error) {
	now, err := h.LoadTable(ctx, id)
	if err != nil {
		return nil, "", err
	}
	next, err := table.UpdateTableMetadata(now.Metadata(), updates, now.MetadataLocation())
	if err != nil {
		return nil, "", err
	}
	var n int
	if _, err := fmt.Sscanf(filepath.Base(now.MetadataLocation()), "v%d.metadata.json", &n); err != nil {
		return nil, "", err
	}
	at := filepath.Join(filepath.Dir(now.MetadataLocation()), fmt.Sprintf("v%d.metadata.json", n+1))
	return next, at, h.write(at, next)
}

func (h hadoopTables) write(at string, meta table.Metadata) error {
	data, err := json.Marshal(meta)
	if err != nil {
		return err
	}
	if err := os.WriteFile(at+".tmp", data, 0o666); err != nil {
		return err
	}
	defer os.Remove(at + ".tmp")
	return os.Link(at+".tmp", at)
}

func localFiles(context.Context) (iceio.IO, error) { return iceio.LocalFS{}, nil }

// TestDirectoryIsIcebergs: the layout is Iceberg's, so other engines find the tables of a warehouse, and commit to them;
// and we go on from there.
func TestDirectoryIsIcebergs(t *testing.T) {
	for _, version := range []int{2, 3} {
		dir := t.TempDir()
		s, err := objstore.OpenLocal(dir, objstore.LocalOptions{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		c := lake.OpenFileCatalog(s)
		_, rows := fill(t, c, version)
		theirs, err := hadoopTables{dir}.LoadTable(t.Context(), table.Identifier{"main", "docs"})
		if err != nil {
			t.Fatal(err)
		}
		if n := countTheirs(t, theirs); n != rows {
			t.Errorf("version %d: iceberg-go reads %d rows, want %d", version, n, rows)
		}
		tx := theirs.NewTransaction()
		if err := tx.SetProperties(iceberg.Properties{"touched": "yes"}); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		tbl := reload(t, c)
		if tbl.Properties()["touched"] != "yes" {
			t.Error("the commit of the other engine is not seen")
		}
		wantIDs(t, ids(t, appendRows(t, tbl, 100, 105), lake.Ref{}), rows+5)
	}
}

// sqlTables is what the SQL catalogs of PyIceberg and Java do, statement by statement.
type sqlTables struct {
	db  *sql.DB
	dir string
}

func (q sqlTables) LoadTable(ctx context.Context, id table.Identifier) (*table.Table, error) {
	var at string
	err := q.db.QueryRowContext(ctx, `SELECT metadata_location FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?`,
		lake.SQLiteCatalogName, id[0], id[1]).Scan(&at)
	if err != nil {
		return nil, err
	}
	return table.NewFromLocation(ctx, id, at, localFiles, q)
}

func (q sqlTables) CommitTable(ctx context.Context, id table.Identifier, _ []table.Requirement, updates []table.Update) (table.Metadata, string, error) {
	now, err := q.LoadTable(ctx, id)
	if err != nil {
		return nil, "", err
	}
	next, err := table.UpdateTableMetadata(now.Metadata(), updates, now.MetadataLocation())
	if err != nil {
		return nil, "", err
	}
	at := strings.TrimPrefix(now.Metadata().Location(), "file://") + "/metadata/00099-other.metadata.json"
	if err := (hadoopTables{}).write(at, next); err != nil {
		return nil, "", err
	}
	res, err := q.db.ExecContext(ctx, `UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ? WHERE catalog_name = ? AND table_namespace = ? AND table_name = ? AND metadata_location = ?`,
		at, now.MetadataLocation(), lake.SQLiteCatalogName, id[0], id[1], now.MetadataLocation())
	if err != nil {
		return nil, "", err
	}
	if n, err := res.RowsAffected(); err != nil || n != 1 {
		return nil, "", errors.Join(err, errors.New("the pointer had moved"))
	}
	return next, at, nil
}

// TestDatabaseIsIcebergs: the same for the SQLite catalog.
func TestDatabaseIsIcebergs(t *testing.T) {
	dir := t.TempDir()
	c := openShared(t, "sqlite", dir)
	_, rows := fill(t, c, 2)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "catalog.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tbl, err := sqlTables{db, dir}.LoadTable(t.Context(), table.Identifier{"main", "docs"})
	if err != nil {
		t.Fatal(err)
	}
	if n := countTheirs(t, tbl); n != rows {
		t.Errorf("iceberg-go reads %d rows, want %d", n, rows)
	}
	tx := tbl.NewTransaction()
	if err := tx.SetProperties(iceberg.Properties{"touched": "yes"}); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	ours := reload(t, c)
	if ours.Properties()["touched"] != "yes" {
		t.Error("the commit of the other engine is not seen")
	}
	wantIDs(t, ids(t, appendRows(t, ours, 100, 105), lake.Ref{}), rows+5)
}

// TestTableOfAnotherEngine: iceberg-go makes and fills a table in the same warehouse; we load, append and read it.
func TestTableOfAnotherEngine(t *testing.T) {
	dir := t.TempDir()
	s, err := objstore.OpenLocal(dir, objstore.LocalOptions{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	sc, err := table.ArrowSchemaToIcebergWithFreshIDs(schema(), false)
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, "main", "docs")
	meta, err := table.NewMetadata(sc, iceberg.UnpartitionedSpec, table.UnsortedSortOrder, at, nil) // a plain path, as some write it
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(at, "metadata"), 0o777); err != nil {
		t.Fatal(err)
	}
	h := hadoopTables{dir}
	if err := errors.Join(h.write(filepath.Join(at, "metadata", "v1.metadata.json"), meta), os.WriteFile(filepath.Join(at, "metadata", "version-hint.text"), []byte("1"), 0o666)); err != nil {
		t.Fatal(err)
	}
	theirs, err := h.LoadTable(t.Context(), table.Identifier{"main", "docs"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := theirs.Append(context.Background(), rowsOf(t, 0, 10), nil); err != nil {
		t.Fatal(err)
	}
	c := lake.OpenFileCatalog(s)
	if list, err := c.Tables(t.Context(), "main"); err != nil || fmt.Sprint(list) != "[main.docs]" {
		t.Errorf("%v, %v", list, err)
	}
	tbl := appendRows(t, reload(t, c), 10, 20)
	wantIDs(t, ids(t, tbl, lake.Ref{}), 20)
	if theirs, err = h.LoadTable(t.Context(), table.Identifier{"main", "docs"}); err != nil {
		t.Fatal(err)
	}
	if n := countTheirs(t, theirs); n != 20 {
		t.Errorf("iceberg-go reads %d rows", n)
	}
	if !strings.HasPrefix(tbl.MetadataLocation(), "file://") {
		t.Errorf("the metadata is at %s", tbl.MetadataLocation())
	}
}

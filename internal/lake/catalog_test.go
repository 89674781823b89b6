package lake_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
)

// TestCrashAtEveryWriteOfADrop loses power at every step of a drop. After the restart the table is there with its newest
// rows or it is not there at all, never as it once was; a new table of the name begins empty and can be written.
func TestCrashAtEveryWriteOfADrop(t *testing.T) {
	start := func(seed uint64) (*objstore.Crashable, lake.Catalog) {
		s := objstore.NewCrashable("t", seed)
		c := lake.OpenFileCatalog(s)
		appendRows(t, appendRows(t, create(t, c, lake.CreateSpec{}), 0, 10), 10, 20)
		return s, c
	}
	s, c := start(0)
	base := s.Writes()
	if err := c.Drop(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	points := s.Writes() - base
	if left := objectKinds(t, s); fmt.Sprint(left) != "map[metadata:1]" {
		t.Errorf("a drop leaves %v, not only a tombstone", left)
	}
	gone := 0
	for n := 1; n <= points; n++ {
		for seed := range uint64(4) {
			s, c := start(seed)
			s.CrashAfter(n)
			if err := c.Drop(t.Context(), docs); err == nil {
				t.Fatalf("the drop survived the crash at write %d", n)
			}
			s = s.Restart()
			c = lake.OpenFileCatalog(s)
			tbl, err := c.Load(t.Context(), docs)
			list, lerr := c.Tables(t.Context(), "main")
			switch {
			case lerr != nil:
				t.Fatal(lerr)
			case err == nil:
				wantIDs(t, ids(t, tbl, lake.Ref{}), 20)
				if len(list) != 1 {
					t.Errorf("a table that is there is not listed")
				}
				if err := c.Drop(t.Context(), docs); err != nil {
					t.Fatal(err)
				}
			case errs.Is(err, errs.NotFound):
				gone++
				if len(list) != 0 {
					t.Errorf("a dropped table is listed: %v", list)
				}
				if err := c.Drop(t.Context(), docs); !errs.Is(err, errs.NotFound) {
					t.Errorf("dropping it again gave %v", err)
				}
			default:
				t.Fatalf("crash at write %d: %v", n, err)
			}
			wantIDs(t, ids(t, appendRows(t, create(t, c, lake.CreateSpec{}), 0, 5), lake.Ref{}), 5)
			wantIDs(t, ids(t, reload(t, lake.OpenFileCatalog(s)), lake.Ref{}), 5)
			if err := c.Drop(t.Context(), docs); err != nil {
				t.Fatal(err)
			}
			if left := objectKinds(t, s); fmt.Sprint(left) != "map[metadata:1]" {
				t.Errorf("crash at write %d, then a new table and its drop leave %v", n, left)
			}
		}
	}
	if gone < points {
		t.Errorf("only %d of %d crashes came after the drop took effect", gone, 4*points)
	}
}

func reload(t testing.TB, c lake.Catalog) *lake.Table {
	t.Helper()
	tbl, err := c.Load(t.Context(), docs)
	if err != nil {
		t.Fatal(err)
	}
	return tbl
}

// TestDropSchemaAfterInterruptedDrop: what such a drop left behind goes with the schema.
func TestDropSchemaAfterInterruptedDrop(t *testing.T) {
	s := objstore.NewCrashable("t", 0)
	c := lake.OpenFileCatalog(s)
	id := lake.Ident{Namespace: "web", Name: "pages"}
	if err := c.CreateNamespace(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	tbl, err := c.Create(t.Context(), id, lake.CreateSpec{Schema: schema()})
	if err != nil {
		t.Fatal(err)
	}
	appendRows(t, tbl, 0, 10)
	s.CrashAfter(4)
	if err := c.Drop(t.Context(), id); err == nil {
		t.Fatal("the drop was not interrupted")
	}
	s = s.Restart()
	c = lake.OpenFileCatalog(s)
	if _, err := c.Load(t.Context(), id); !errs.Is(err, errs.NotFound) {
		t.Fatal(err)
	}
	if err := c.DropNamespace(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	if left := objectKinds(t, s); len(left) != 0 {
		t.Errorf("it leaves %v", left)
	}
	if ns, err := c.Namespaces(t.Context()); err != nil || fmt.Sprint(ns) != "[main]" {
		t.Error(ns, err)
	}
}

// TestStaleHandleMeetsANewTable: a table was dropped and made anew and has come to the very version that a writer still
// holds of the old one. The writer must not write the version after it.
func TestStaleHandleMeetsANewTable(t *testing.T) {
	s := local(t)
	old := appendRows(t, create(t, lake.OpenFileCatalog(s), lake.CreateSpec{}), 0, 10)
	other := lake.OpenFileCatalog(s)
	if err := other.Drop(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	appendRows(t, create(t, other, lake.CreateSpec{}), 100, 105)
	if _, _, err := old.Append(t.Context(), rowsOf(t, 10, 20), lake.WriteOptions{}); !errs.Is(err, errs.NotFound) {
		t.Errorf("the stale writer got %v", err)
	}
	got := ids(t, reload(t, lake.OpenFileCatalog(s)), lake.Ref{})
	if wantIDs(t, got, 5); got[100] != 1 {
		t.Errorf("%v", got)
	}
	if k := objectKinds(t, s); k["data"] != 1 {
		t.Errorf("the refused rows are left behind: %v", k)
	}
}

// TestHintIsOnlyAHint: any content of version-hint.text, and none, leads to the newest version.
func TestHintIsOnlyAHint(t *testing.T) {
	s := local(t)
	tbl := create(t, lake.OpenFileCatalog(s), lake.CreateSpec{})
	for i := range 12 {
		tbl = appendRows(t, tbl, i, i+1)
	}
	const hint = "main/docs/metadata/version-hint.text"
	for _, content := range []string{"1", "12", "13", "14", "99", "0", "-1", "v3", "", "7\n", strings.Repeat("1", 60), "99999999999999999999999", strings.Repeat("x", 100)} {
		if _, err := s.Put(t.Context(), hint, []byte(content), objstore.Condition{}); err != nil {
			t.Fatal(err)
		}
		wantIDs(t, ids(t, reload(t, lake.OpenFileCatalog(s)), lake.Ref{}), 12)
	}
	if err := s.Delete(t.Context(), hint); err != nil {
		t.Fatal(err)
	}
	c := lake.OpenFileCatalog(s)
	wantIDs(t, ids(t, appendRows(t, reload(t, c), 12, 13), lake.Ref{}), 13)
	// Old versions may be cleaned away by another program.
	for n := 1; n <= 10; n++ {
		if err := s.Delete(t.Context(), fmt.Sprintf("main/docs/metadata/v%d.metadata.json", n)); err != nil {
			t.Fatal(err)
		}
	}
	wantIDs(t, ids(t, appendRows(t, reload(t, lake.OpenFileCatalog(s)), 13, 14), lake.Ref{}), 14)
}

// TestOldVersionsCleanedAway: a writer that holds version 2 finds the name of version 3 free only because another program
// removed the versions between. It must not bring the old table back.
func TestOldVersionsCleanedAway(t *testing.T) {
	s := local(t)
	stale := create(t, lake.OpenFileCatalog(s), lake.CreateSpec{})
	other := reload(t, lake.OpenFileCatalog(s))
	for i := range 5 {
		other = appendRows(t, other, i, i+1)
	}
	for n := 1; n <= 4; n++ {
		if err := s.Delete(t.Context(), fmt.Sprintf("main/docs/metadata/v%d.metadata.json", n)); err != nil {
			t.Fatal(err)
		}
	}
	next, _, err := stale.Append(t.Context(), rowsOf(t, 50, 51), lake.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, ids(t, next, lake.Ref{}), 6)
	wantIDs(t, ids(t, reload(t, lake.OpenFileCatalog(s)), lake.Ref{}), 6)
}

func TestCompressedMetadataIsRefusedByName(t *testing.T) {
	s := local(t)
	appendRows(t, create(t, lake.OpenFileCatalog(s), lake.CreateSpec{}), 0, 10)
	if _, err := s.Put(t.Context(), "main/docs/metadata/v3.gz.metadata.json", []byte("x"), objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), "main/docs/metadata/version-hint.text"); err != nil {
		t.Fatal(err)
	}
	if _, err := lake.OpenFileCatalog(s).Load(t.Context(), docs); !errs.Is(err, errs.Unsupported) || errs.HintOf(err) == "" {
		t.Errorf("got %v", err)
	}
}

func TestFileCatalogRefusesToRename(t *testing.T) {
	c := lake.OpenFileCatalog(local(t))
	create(t, c, lake.CreateSpec{})
	if err := c.Rename(t.Context(), docs, lake.Ident{Namespace: "main", Name: "b"}); !errs.Is(err, errs.Unsupported) || errs.HintOf(err) == "" {
		t.Error(err)
	}
}

func TestUnwritablePlaces(t *testing.T) {
	m := objstore.NewMemory("t")
	f, err := objstore.NewFaulty(m, "")
	if err != nil {
		t.Fatal(err)
	}
	c := lake.OpenFileCatalog(f)
	tbl := appendRows(t, create(t, c, lake.CreateSpec{}), 0, 10)
	if err := f.Set("deny put *"); err != nil {
		t.Fatal(err)
	}
	_, _, err = tbl.Append(t.Context(), rowsOf(t, 10, 20), lake.WriteOptions{})
	_, cerr := c.Create(t.Context(), lake.Ident{Namespace: "main", Name: "other"}, lake.CreateSpec{Schema: schema()})
	for _, err := range []error{err, cerr, c.Drop(t.Context(), docs)} {
		if !errs.Is(err, errs.Denied) {
			t.Errorf("got %v (%v)", err, errs.KindOf(err))
		}
	}
	wantIDs(t, ids(t, reload(t, c), lake.Ref{}), 10)
}

// TestQuotaLeavesTheTable: whatever fills up, the table stays as it was, what was written of the failed append is gone, and
// rows go on being added when there is room.
func TestQuotaLeavesTheTable(t *testing.T) {
	m := objstore.NewMemory("t")
	appendRows(t, create(t, lake.OpenFileCatalog(m), lake.CreateSpec{}), 0, 10)
	before := objectKinds(t, m)
	var used int64
	for info, err := range m.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		used += info.Size
	}
	exhausted := 0
	for extra := int64(100); extra < 30_000; extra += 400 {
		q, err := objstore.NewQuota(t.Context(), m, used+extra)
		if err != nil {
			t.Fatal(err)
		}
		c := lake.OpenFileCatalog(q)
		_, _, err = reload(t, c).Append(t.Context(), rowsOf(t, 10, 20), lake.WriteOptions{})
		if err == nil {
			break
		}
		exhausted++
		if !errs.Is(err, errs.Exhausted) {
			t.Fatalf("with %d bytes to spare: %v (%v)", extra, err, errs.KindOf(err))
		}
		if got := objectKinds(t, m); fmt.Sprint(got) != fmt.Sprint(before) {
			t.Fatalf("with %d bytes to spare: %v is left, not %v", extra, got, before)
		}
		wantIDs(t, ids(t, reload(t, lake.OpenFileCatalog(m)), lake.Ref{}), 10)
	}
	if exhausted < 5 {
		t.Errorf("the quota was met %d times", exhausted)
	}
	tbl := reload(t, lake.OpenFileCatalog(m))
	wantIDs(t, ids(t, appendRows(t, tbl, 30, 35), lake.Ref{}), 25)
}

// TestUnknownOutcome: the pointer was swapped, the answer is lost, and the store does not answer any more. Nothing may be
// removed, because the new version names it; the error says what to do.
func TestUnknownOutcome(t *testing.T) {
	m := objstore.NewMemory("t")
	f, err := objstore.NewFaulty(m, "")
	if err != nil {
		t.Fatal(err)
	}
	tbl := appendRows(t, create(t, lake.OpenFileCatalog(f), lake.CreateSpec{}), 0, 10)
	if err := f.Set("unknown put v3.metadata.json\nfail open v3.metadata.json"); err != nil {
		t.Fatal(err)
	}
	_, _, err = tbl.Append(t.Context(), rowsOf(t, 10, 20), lake.WriteOptions{})
	if errs.Is(err, errs.Conflict) {
		t.Errorf("an unknown outcome was taken for a lost race, whose files are removed: %v", err)
	}
	if !errs.Is(err, errs.Unavailable) || errs.HintOf(err) == "" {
		t.Errorf("got %v", err)
	}
	wantIDs(t, ids(t, reload(t, lake.OpenFileCatalog(m)), lake.Ref{}), 20)
}

// TestCancelLeavesNothing cancels an append between batches: nothing is visible, nothing is left.
func TestCancelLeavesNothing(t *testing.T) {
	catalogs(t, func(t *testing.T, c lake.Catalog) {
		tbl := appendRows(t, create(t, c, lake.CreateSpec{}), 0, 10)
		store := tbl.Store()
		before := objectKinds(t, store)
		ctx, cancel := context.WithCancel(t.Context())
		_, _, err := tbl.Append(ctx, rowsOf(t, 10, 20), lake.WriteOptions{Progress: func(int64) { cancel() }})
		if !errs.Is(err, errs.Canceled) {
			t.Errorf("got %v (%v)", err, errs.KindOf(err))
		}
		if got := objectKinds(t, store); fmt.Sprint(got) != fmt.Sprint(before) {
			t.Errorf("%v is left, not %v", got, before)
		}
		wantIDs(t, ids(t, reload(t, c), lake.Ref{}), 10)
	})
}

// TestRenameThenReuseTheName: two tables that had one name after the other share no files, so that dropping one leaves
// the other.
func TestRenameThenReuseTheName(t *testing.T) {
	dir := t.TempDir()
	c := openShared(t, "sqlite", dir)
	old := lake.Ident{Namespace: "main", Name: "old"}
	appendRows(t, create(t, c, lake.CreateSpec{}), 0, 10)
	if err := c.Rename(t.Context(), docs, old); err != nil {
		t.Fatal(err)
	}
	appendRows(t, create(t, c, lake.CreateSpec{}), 0, 20)
	if err := c.Rename(t.Context(), docs, old); !errs.Is(err, errs.Exists) {
		t.Errorf("a taken name gave %v", err)
	}
	if err := c.Rename(t.Context(), docs, lake.Ident{Namespace: "nowhere", Name: "x"}); !errs.Is(err, errs.NotFound) {
		t.Errorf("an unknown schema gave %v", err)
	}
	if err := c.Rename(t.Context(), lake.Ident{Namespace: "main", Name: "none"}, lake.Ident{Namespace: "main", Name: "x"}); !errs.Is(err, errs.NotFound) {
		t.Errorf("an unknown table gave %v", err)
	}
	if err := c.Drop(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	c = openShared(t, "sqlite", dir)
	tbl, err := c.Load(t.Context(), old)
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, ids(t, appendRows(t, tbl, 50, 55), lake.Ref{}), 15)
}

// TestSQLiteOfAnOlderSchema: PyIceberg and Java's first version have no column that tells tables from views.
func TestSQLiteOfAnOlderSchema(t *testing.T) {
	dir := t.TempDir()
	db, err := sql.Open("sqlite", filepath.Join(dir, "catalog.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`CREATE TABLE iceberg_tables (catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL,
		metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000), PRIMARY KEY (catalog_name, table_namespace, table_name))`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	c := openShared(t, "sqlite", dir)
	wantIDs(t, ids(t, appendRows(t, create(t, c, lake.CreateSpec{}), 0, 10), lake.Ref{}), 10)
	openShared(t, "sqlite", dir) // and once more, now that it was changed
}

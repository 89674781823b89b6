package lake

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go/table"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
)

// catalogs are one of each kind, empty.
func catalogs(t *testing.T) map[string]Catalog {
	t.Helper()
	dir := t.TempDir()
	store, err := objstore.OpenLocal(dir, objstore.LocalOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := OpenSQLiteCatalog(t.Context(), filepath.Join(dir, "catalog.db"), store)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return map[string]Catalog{"file": OpenFileCatalog(objstore.NewMemory("t")), "sqlite": c}
}

// twoColumns are rows of two columns, one of which has the name of idSchema's but another type.
func twoColumns(t testing.TB, lo, hi int) array.RecordReader {
	sc := arrow.NewSchema([]arrow.Field{{Name: "name", Type: arrow.BinaryTypes.String}, {Name: "id", Type: arrow.BinaryTypes.String, Nullable: true}}, nil)
	return reader(t, sc, func(b *array.RecordBuilder) {
		for i := lo; i < hi; i++ {
			b.Field(0).(*array.StringBuilder).Append(fmt.Sprint("name ", i%2))
			b.Field(1).(*array.StringBuilder).Append(fmt.Sprint("id ", i))
		}
	})
}

// TestReplace: a replaced table has its new columns and rows, for other readers too, and its history.
func TestReplace(t *testing.T) {
	for kind, c := range catalogs(t) {
		for _, version := range []int{2, 3} {
			t.Run(fmt.Sprint(kind, version), func(t *testing.T) {
				defer c.Drop(t.Context(), docsIdent)
				old := add(t, makeTable(t, c, CreateSpec{FormatVersion: version, Comment: "old", Properties: map[string]string{"x": "y"}}), idRows(t, 0, 3))
				before := old.meta.CurrentSnapshot().SnapshotID
				old, err := old.commitUpdates(t.Context(), nil, []table.Update{table.NewSetSnapshotRefUpdate("first", before, table.TagRef, 0, 0, 0)}, &ledger{})
				if err != nil {
					t.Fatal(err)
				}
				rows := twoColumns(t, 0, 4)
				spec := CreateSpec{Schema: rows.Schema(), Partition: []PartitionField{{Column: "name", Transform: "identity"}}, FormatVersion: 3}
				now, info, err := old.Replace(t.Context(), spec, rows, WriteOptions{Properties: map[string]string{"why": "test"}})
				if err != nil {
					t.Fatal(err)
				}
				if info.Rows != 4 || info.Files != 2 || now.UUID() != old.UUID() || now.FormatVersion() != 3 || now.Properties()["x"] != "" || now.Properties()["comment"] != "" {
					t.Errorf("replaced by %+v: %v", info, now.Properties())
				}
				if s, _ := now.CurrentSnapshot(); s.ID != info.SnapshotID || s.Summary["why"] != "test" || s.ParentID != 0 {
					t.Errorf("the snapshot is %+v", s)
				}
				loaded, err := c.Load(t.Context(), docsIdent)
				if err != nil || loaded.MetadataLocation() != now.MetadataLocation() {
					t.Fatal(loaded, err)
				}
				for _, read := range [][]string{ours(t, loaded, "id"), theirs(t, loaded, "id")} {
					if slices.Sort(read); fmt.Sprint(read) != "[id 0 id 1 id 2 id 3]" {
						t.Errorf("the rows are %q", read)
					}
				}
				for _, ref := range []Ref{{SnapshotID: before}, {Name: "first"}} {
					p, err := loaded.Plan(t.Context(), ref, nil)
					if err != nil || p.Rows != 3 || !p.Schema.Equal(old.Schema()) {
						t.Errorf("the older snapshot %+v has %+v, %v", ref, p, err)
					}
				}
				next := add(t, loaded, twoColumns(t, 4, 6))
				if got := ours(t, next, "name"); len(got) != 6 {
					t.Errorf("after another append there are %q", got)
				}
				// Without rows, and once more with columns of the first names.
				empty, _, err := next.Replace(t.Context(), CreateSpec{Schema: idSchema()}, nil, WriteOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if p, err := empty.Plan(t.Context(), Ref{}, nil); err != nil || len(p.Files) != 0 || len(empty.PartitionFields()) != 0 {
					t.Errorf("an empty replacement has %+v, %v", p, err)
				}
				again := add(t, empty, idRows(t, 7, 9))
				if got := theirs(t, again, "id"); len(got) != 2 {
					t.Errorf("its rows are %q", got)
				}
				if _, _, err := again.Replace(t.Context(), CreateSpec{Schema: idSchema(), FormatVersion: 2}, nil, WriteOptions{}); !errs.Is(err, errs.Unsupported) {
					t.Errorf("a lower format version gave %v", err)
				}
			})
		}
	}
}

// TestReplaceRaces: rows written for the old columns do not get into a replaced table, a replacement waits out other
// commits, and what failed leaves the table as it was.
func TestReplaceRaces(t *testing.T) {
	for kind, c := range catalogs(t) {
		t.Run(kind, func(t *testing.T) {
			old := add(t, makeTable(t, c, CreateSpec{}), idRows(t, 0, 3))
			add(t, old, idRows(t, 3, 5)) // old is not the newest any more
			rows := twoColumns(t, 0, 4)
			now, _, err := old.Replace(t.Context(), CreateSpec{Schema: rows.Schema()}, rows, WriteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := old.Append(t.Context(), idRows(t, 5, 6), WriteOptions{}); !errs.Is(err, errs.Conflict) {
				t.Errorf("rows for the old columns gave %v", err)
			}
			if got := ours(t, now, "id"); len(got) != 4 {
				t.Errorf("the rows are %q", got)
			}
			failing := array.ReaderFromIter(idSchema(), func(yield func(arrow.RecordBatch, error) bool) { yield(nil, errors.New("no more")) })
			if _, _, err := now.Replace(t.Context(), CreateSpec{Schema: idSchema()}, failing, WriteOptions{}); err == nil {
				t.Error("rows that end in an error replaced the table")
			}
			if loaded, err := c.Load(t.Context(), docsIdent); err != nil || len(ours(t, loaded, "id")) != 4 {
				t.Errorf("after a failed replacement: %v", err)
			}
			var wait sync.WaitGroup
			for i := range 4 {
				wait.Go(func() {
					r := twoColumns(t, i, i+2)
					if i%2 == 1 {
						if _, _, err := now.Append(t.Context(), r, WriteOptions{}); err != nil && !errs.Is(err, errs.Conflict) {
							t.Error(err)
						}
					} else if _, _, err := now.Replace(t.Context(), CreateSpec{Schema: r.Schema()}, r, WriteOptions{}); err != nil && !errs.Is(err, errs.Conflict) {
						t.Error(err)
					}
				})
			}
			wait.Wait()
			loaded, err := c.Load(t.Context(), docsIdent)
			if err != nil {
				t.Fatal(err)
			}
			if got, read := ours(t, loaded, "id"), theirs(t, loaded, "id"); len(got) != 2 || len(read) != 2 {
				t.Errorf("after all replacements there are %q, other readers see %q", got, read)
			}
		})
	}
}

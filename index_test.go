package overlake_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/overlakedb/overlake"
)

// eventsTable is a warehouse in memory with a table of a hundred thousand events, for the examples.
func eventsTable(ctx context.Context, name string) (*overlake.DB, *overlake.Table) {
	db, err := overlake.Open(ctx, "mem://"+name, overlake.Options{})
	if err != nil {
		panic(err)
	}
	if _, err := db.SQL(ctx, "CREATE TABLE events AS SELECT i AS id, i % 7 AS kind, 'user' || i % 10000 AS who FROM range(100000) t(i)"); err != nil {
		panic(err)
	}
	t, err := db.Table(ctx, "events")
	if err != nil {
		panic(err)
	}
	return db, t
}

func ExampleTable_AddIndex() {
	ctx := context.Background()
	db, events := eventsTable(ctx, "example-add")
	defer db.Close()

	x, err := events.AddIndex(ctx, overlake.IndexSpec{Columns: []string{"who"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s: %s over %v covers %d of %d rows\n", x.Name, x.Kind, x.Columns, x.RowsCovered, x.Rows)

	// Queries use it by themselves.
	plan, err := events.Query().Where("who = ?", "user42").Explain(ctx)
	fmt.Println(strings.Contains(plan, "index events_who_bitmap: 1 of 1 files asked, 10 rows of 1 files to fetch"), err)
	// Output:
	// events_who_bitmap: bitmap over [who] covers 100000 of 100000 rows
	// true <nil>
}

func ExampleTable_AddIndex_background() {
	ctx := context.Background()
	db, events := eventsTable(ctx, "example-background")
	defer db.Close()

	// A composite key, built while the program goes on.
	if _, err := events.AddIndex(ctx, overlake.IndexSpec{Name: "place", Columns: []string{"kind", "who"}, Async: true}); err != nil {
		fmt.Println(err)
		return
	}
	// Commits are followed in the background as well.
	if _, err := db.SQL(ctx, "INSERT INTO events VALUES (100000, 1, 'user77')"); err != nil {
		fmt.Println(err)
		return
	}
	if err := events.WaitForIndexes(ctx); err != nil {
		fmt.Println(err)
		return
	}
	list, err := events.Indexes(ctx)
	for _, x := range list {
		fmt.Printf("%s covers %d of %d files\n", x.Name, x.Covered, x.Files)
	}
	fmt.Println(err)
	// Output:
	// place covers 2 of 2 files
	// <nil>
}

func ExampleTable_AddIndex_bloom() {
	ctx := context.Background()
	db, events := eventsTable(ctx, "example-bloom")
	defer db.Close()
	x, err := events.AddIndex(ctx, overlake.IndexSpec{Kind: "bloom", Columns: []string{"who"}, Params: map[string]string{"fpr": "0.001"}})
	fmt.Println(x.Name, x.Params, err)

	_, err = events.AddIndex(ctx, overlake.IndexSpec{Columns: []string{"whom"}})
	fmt.Println(overlake.KindOf(err), overlake.HintOf(err))
	// Output:
	// events_who_bloom map[fpr:0.001] <nil>
	// not found did you mean who?
}

func ExampleTable_BuildIndexes() {
	ctx := context.Background()
	db, events := eventsTable(ctx, "example-build")
	defer db.Close()
	if _, err := events.AddIndex(ctx, overlake.IndexSpec{Name: "who", Columns: []string{"who"}}); err != nil {
		fmt.Println(err)
		return
	}
	// Build everything once more, and tell how far it is.
	var last overlake.IndexProgress
	err := events.BuildIndexes(ctx, []string{"who"}, true, func(p overlake.IndexProgress) { last = p })
	fmt.Printf("%d of %d files, %d of %d rows, %v\n", last.FilesDone, last.Files, last.RowsDone, last.Rows, err)

	problems, err := events.VerifyIndexes(ctx, nil)
	fmt.Println(len(problems), err)
	fmt.Println(events.DropIndex(ctx, "who"))
	fmt.Println(overlake.KindOf(events.DropIndex(ctx, "who")))
	// Output:
	// 1 of 1 files, 100000 of 100000 rows, <nil>
	// 0 <nil>
	// <nil>
	// not found
}

// TestIndexCancelled holds that a cancelled build leaves an index that can be gone on with.
func TestIndexCancelled(t *testing.T) {
	db, events := eventsTable(t.Context(), t.Name())
	defer db.Close()
	ctx, cancel := context.WithCancel(t.Context())
	x, err := events.AddIndex(ctx, overlake.IndexSpec{Columns: []string{"id"}, Progress: func(overlake.IndexProgress) { cancel() }})
	if overlake.KindOf(err) != overlake.KindCanceled || x.Name != "events_id_bitmap" || !strings.Contains(overlake.HintOf(err), "BuildIndexes goes on") {
		t.Fatalf("%+v, %v (%s)", x, err, overlake.HintOf(err))
	}
	if err := events.BuildIndexes(t.Context(), []string{"EVENTS_ID_bitmap"}, false, nil); err != nil {
		t.Fatal(err)
	}
	list, err := events.Indexes(t.Context())
	if err != nil || len(list) != 1 || list[0].Covered != 1 || list[0].RowsCovered != 100000 {
		t.Fatalf("%+v, %v", list, err)
	}
}

// TestIndexesFollow holds that the builds which commits start are known until they end, on every way in.
func TestIndexesFollow(t *testing.T) {
	var mu sync.Mutex
	var events []overlake.Event
	db, err := overlake.Open(t.Context(), filepath.Join(t.TempDir(), "w"), overlake.Options{Events: func(e overlake.Event) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, e)
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	csv := filepath.Join(t.TempDir(), "more.csv")
	if err := os.WriteFile(csv, []byte("id\n5\n6\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	exec := func(sql string) {
		t.Helper()
		rows, err := db.SQL(t.Context(), sql)
		if err != nil {
			t.Fatal(err)
		}
		rows.Close()
	}
	exec("CREATE TABLE t (id BIGINT) WITH ('overlake.index.columns' = 'id')")
	table, err := db.Table(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for i, commit := range []func(){
		func() { exec("INSERT INTO t VALUES (1), (2)"); rows += 2 },
		func() { exec("INSERT INTO t SELECT i FROM range(1000) x(i)"); rows += 1000 },
		func() {
			if _, _, err := db.Import(t.Context(), "t", csv, overlake.ImportOptions{}); err != nil {
				t.Fatal(err)
			}
			rows += 2
		},
		func() {
			exec("CREATE OR REPLACE TABLE t WITH ('overlake.index.columns' = 'id') AS SELECT i AS id FROM range(10) x(i)")
			rows = 10
		},
		func() { exec("INSERT OVERWRITE t VALUES (7)"); rows = 1 },
	} {
		commit()
		for _, b := range db.IndexBuilds() {
			if b.Table != "main.t" {
				t.Errorf("commit %d: a build of %s", i, b.Table)
			}
		}
		if err := db.WaitForIndexes(t.Context()); err != nil {
			t.Fatal(err)
		}
		if db.BuildingIndexes() || len(db.IndexBuilds()) > 0 {
			t.Errorf("commit %d: builds go on after WaitForIndexes", i)
		}
		list, err := table.Indexes(t.Context())
		if err != nil || len(list) != 1 || list[0].RowsCovered != int64(rows) || list[0].Rows != int64(rows) || list[0].Covered != list[0].Files {
			t.Errorf("commit %d: %+v, %v; want %d rows", i, list, err, rows)
		}
	}
	if len(events) > 0 {
		t.Errorf("%+v", events)
	}
}

// TestDropWhileBuilding holds that nothing of a dropped table's overlay is left, also when it is being built.
func TestDropWhileBuilding(t *testing.T) {
	dir := t.TempDir()
	db, err := overlake.Open(t.Context(), dir, overlake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for range 3 {
		for _, sql := range []string{
			"CREATE TABLE a AS SELECT i AS id, (i * 7919) % 100003 AS k FROM range(200000) x(i)", "CREATE INDEX ON a (k) WITH (async)",
			"CREATE TABLE b AS SELECT i AS id FROM range(1000) x(i)", "CREATE INDEX ON b (id) WITH (async)", // waits behind a
			"DROP TABLE b", "DROP TABLE a",
		} {
			if _, err := db.SQL(t.Context(), sql); err != nil {
				t.Fatal(sql, err)
			}
		}
		if err := db.WaitForIndexes(t.Context()); err != nil {
			t.Fatal(err)
		}
		left, err := filepath.Glob(filepath.Join(dir, "_overlay", "*", "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range left {
			if inside, _ := filepath.Glob(filepath.Join(l, "*")); len(inside) > 0 || !isDir(l) {
				t.Errorf("%s is left: %v", l, inside)
			}
		}
	}
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

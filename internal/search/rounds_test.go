package search_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/objstore/storetest"
	"github.com/overlakedb/overlake/internal/overlay"
	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/search"
)

// TestRoundsOfAColdLookup counts the dependent rounds of a lookup of one row over a store that is far away, when nothing is
// known from before. The index takes four:
//
//  1. the hint, which names a version of the overlay and its chunks;
//  2. the head of that version, the look for a later one, and the chunks, all at once;
//  3. of every file the end of its artifact with the directory, and what the file is now;
//  4. of every file the block that may hold the key.
//
// The data takes four: opening the file, the footer, the places of the pages, the pages. (How the table itself is read is the
// lake's: go test -v tells.)
func TestRoundsOfAColdLookup(t *testing.T) {
	for _, files := range []int{1, 12} {
		near := objstore.NewMemory("t")
		table := newTable(t, near, "t", overlay.Spec{Name: "id", Columns: []string{"id"}})
		s := open(t, near, nil)
		for i := range files {
			list := made(0, 20_000, 7*i)
			for k := range list { // all files hold all of the range, so that only the index tells
				list[k].id = list[k].id*int64(files) + int64(i)
			}
			table = appendTo(t, table, list)
			build(t, s, table)
		}
		synctest.Test(t, func(t *testing.T) {
			far := &storetest.Far{Store: near, Trip: time.Second}
			tell := func(part string) int {
				rounds := far.Rounds()
				for i, r := range rounds {
					short := map[string]int{}
					for _, x := range r {
						what, name, _ := strings.Cut(x, " ")
						parts := strings.Split(name, "/")
						name = parts[len(parts)-1]
						if len(parts) > 1 && len(name) > 20 {
							name = parts[len(parts)-2] + "/…"
						}
						short[what+" "+name]++
					}
					t.Logf("%d files, %s, round %d: %v", files, part, i+1, short)
				}
				return len(rounds)
			}
			table, err := lake.OpenFileCatalog(far).Load(t.Context(), lake.Ident{Namespace: lake.DefaultNamespace, Name: "t"})
			if err != nil {
				t.Fatal(err)
			}
			filter := predicate.Compare{Column: "id", Op: predicate.Eq, Value: int64(12345)}
			plan, err := table.Plan(t.Context(), lake.Ref{}, filter)
			if err != nil {
				t.Fatal(err)
			}
			tell("table")
			view, err := overlay.NewSet(far, overlay.Options{}).Of(table).View(t.Context(), plan.Schema)
			if err != nil {
				t.Fatal(err)
			}
			bound, err := table.Bind(lake.Ref{}, filter)
			if err != nil {
				t.Fatal(err)
			}
			a, err := search.Choose(t.Context(), plan, bound, view, search.AccessOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if len(plan.Files) != files || a.Rows != 1 || a.Pruned != files-1 {
				t.Fatalf("%d files in the plan, %+v", len(plan.Files), a)
			}
			if n := tell("index"); n != 4 {
				t.Errorf("the index takes %d rounds, want 4", n)
			}
			rows := table.FetchRows(t.Context(), plan, lake.Ref{}, a.Fetch, []int{0, 1, 2})
			defer rows.Release()
			var got []record
			for rows.Next() {
				got = append(got, recordsIn(rows.RecordBatch())...)
			}
			if len(got) != 1 || got[0].id != 12345 || rows.Err() != nil {
				t.Fatalf("got %v, %v", got, rows.Err())
			}
			if n := tell("data"); n != 4 {
				t.Errorf("the data takes %d rounds, want 4", n)
			}
		})
	}
}

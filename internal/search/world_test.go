package search_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/datafile"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/overlay"
	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/row"
	"github.com/overlakedb/overlake/internal/search"
)

// A record is a row of the tables in these tests.
type record struct {
	id   int64
	cat  int32 // -1 is NULL
	name string
}

var recordSchema = arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "cat", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
	{Name: "name", Type: arrow.BinaryTypes.String, Nullable: true}}, nil)

func recordsOf(list []record) array.RecordReader {
	b := array.NewRecordBuilder(memory.DefaultAllocator, recordSchema)
	defer b.Release()
	for _, r := range list {
		b.Field(0).(*array.Int64Builder).Append(r.id)
		if r.cat < 0 {
			b.Field(1).AppendNull()
		} else {
			b.Field(1).(*array.Int32Builder).Append(r.cat)
		}
		b.Field(2).(*array.StringBuilder).Append(r.name)
	}
	rec := b.NewRecordBatch()
	defer rec.Release()
	out, err := array.NewRecordReader(recordSchema, []arrow.RecordBatch{rec})
	if err != nil {
		panic(err) // of one batch of the schema
	}
	return out
}

// made gives n records from an id on. Values repeat, so that indexes of two such files are alike.
func made(first int64, n, shift int) []record {
	out := make([]record, n)
	for i := range out {
		k := (i + shift) % n
		out[i] = record{first + int64(k), int32(k%5) - 1, fmt.Sprintf("n%02d", k%7)}
	}
	return out
}

// question is a filter, and the rows that it keeps.
type question struct {
	filter predicate.Expr
	keep   func(r record) bool
}

func questions(ids ...int64) []question {
	compare := func(column string, op predicate.Op, v predicate.Value) predicate.Expr {
		return predicate.Compare{Column: column, Op: op, Value: v}
	}
	out := []question{
		{compare("cat", predicate.Eq, int64(2)), func(r record) bool { return r.cat == 2 }},
		{compare("name", predicate.Gt, "n04"), func(r record) bool { return r.name > "n04" }},
		{predicate.IsNull{Column: "cat"}, func(r record) bool { return r.cat < 0 }},
		{predicate.Or{predicate.StartsWith{Column: "name", Prefix: "n01"}, compare("cat", predicate.Le, int64(0))}, func(r record) bool { return strings.HasPrefix(r.name, "n01") || r.cat == 0 }},
		{predicate.And{compare("cat", predicate.Eq, int64(1)), compare("name", predicate.Eq, "n02")}, func(r record) bool { return r.cat == 1 && r.name == "n02" }},
	}
	for _, id := range ids {
		out = append(out, question{compare("id", predicate.Eq, id), func(r record) bool { return r.id == id }},
			question{compare("id", predicate.Lt, id), func(r record) bool { return r.id < id }})
	}
	return out
}

// events collects what an overlay reports.
type events struct {
	sync.Mutex
	list []overlay.Event
}

func (e *events) add(x overlay.Event) {
	e.Lock()
	defer e.Unlock()
	e.list = append(e.list, x)
}

func (e *events) len() int {
	e.Lock()
	defer e.Unlock()
	return len(e.list)
}

// open gives the overlays of a store as a process finds them.
func open(t testing.TB, store objstore.Reader, e *events) *overlay.Set {
	o := overlay.Options{SpillDir: t.TempDir()}
	if e != nil {
		o.Events = e.add
	}
	s := overlay.NewSet(store, o)
	t.Cleanup(func() { s.Close() })
	return s
}

// specs are the indexes of the tables in these tests.
var specs = []overlay.Spec{{Name: "id", Columns: []string{"id"}}, {Name: "cat", Columns: []string{"cat"}}, {Name: "name", Columns: []string{"name"}},
	{Name: "both", Columns: []string{"cat", "name"}}, {Name: "bloom", Kind: overlay.Bloom, Columns: []string{"id"}}}

// newTable makes a table in a store, with indexes defined.
func newTable(t testing.TB, store objstore.Store, name string, indexes ...overlay.Spec) *lake.Table {
	t.Helper()
	table, err := lake.OpenFileCatalog(store).Create(t.Context(), lake.Ident{Namespace: lake.DefaultNamespace, Name: name}, lake.CreateSpec{Schema: recordSchema})
	if err != nil {
		t.Fatal(err)
	}
	o := open(t, store, nil).Of(table)
	for _, s := range indexes {
		if _, err := o.Define(t.Context(), table, s); err != nil {
			t.Fatal(err)
		}
	}
	return table
}

func appendTo(t testing.TB, table *lake.Table, list []record) *lake.Table {
	t.Helper()
	out, _, err := table.Append(t.Context(), recordsOf(list), lake.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func build(t testing.TB, s *overlay.Set, table *lake.Table) overlay.Report {
	t.Helper()
	r, err := s.Of(table).Cover(t.Context(), table, overlay.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// contents reads the rows of a plan's files, deleted ones included, as a scan does.
func contents(ctx context.Context, table *lake.Table, plan *lake.Plan) ([][]record, error) {
	out := make([][]record, len(plan.Files))
	for i := range plan.Files {
		r, err := table.ReadFile(ctx, &plan.Files[i], []string{"id", "cat", "name"}, lake.Ref{}, false)
		if err != nil {
			return nil, err
		}
		for r.Next() {
			out[i] = append(out[i], recordsIn(r.RecordBatch())...)
		}
		err = r.Err()
		r.Release()
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func recordsIn(rec arrow.RecordBatch) []record {
	out := make([]record, rec.NumRows())
	ids, cats, names := rec.Column(0).(*array.Int64), rec.Column(1).(*array.Int32), rec.Column(2).(*array.String)
	for k := range out {
		out[k] = record{ids.Value(k), -1, strings.Clone(names.Value(k))}
		if cats.IsValid(k) {
			out[k].cat = cats.Value(k)
		}
	}
	return out
}

// usage counts how questions were answered.
type usage struct{ fetched, pruned, scanned, summed, first, different int }

// answers puts the questions to a table through its indexes and compares with a scan of all rows.
func answers(ctx context.Context, s *overlay.Set, table *lake.Table, rows [][]record, list []question) (u usage, err error) {
	o := s.Of(table)
	all, err := table.Plan(ctx, lake.Ref{}, nil)
	if err != nil {
		return u, err
	}
	field := func(name string) int {
		return datafile.FieldID(all.Schema.Field(all.Schema.FieldIndices(name)[0]))
	}
	places := map[string]int{}
	for i := range all.Files {
		places[all.Files[i].Path] = i
	}
	for _, q := range list {
		view, err := o.View(ctx, all.Schema)
		if err != nil {
			return u, fmt.Errorf("%s: %w", q.filter, err)
		}
		plan, err := table.Plan(ctx, lake.Ref{}, q.filter)
		if err != nil {
			return u, err
		}
		bound, err := table.Bind(lake.Ref{}, q.filter)
		if err != nil {
			return u, err
		}
		a, err := search.Choose(ctx, plan, bound, view, search.AccessOptions{Hint: search.UseIndex})
		if err != nil {
			return u, fmt.Errorf("%s: %w", q.filter, err)
		}
		u.fetched, u.pruned, u.scanned = u.fetched+len(a.Fetch), u.pruned+a.Pruned, u.scanned+len(a.Scan)
		want, got := map[record]int{}, map[record]int{}
		for i := range all.Files {
			for pos, r := range rows[i] {
				if q.keep(r) && !all.Files[i].Deletes.Contains(int64(pos)) {
					want[r]++
				}
			}
		}
		for _, i := range a.Scan {
			at := places[plan.Files[i].Path]
			for pos, r := range rows[at] {
				if q.keep(r) && !all.Files[at].Deletes.Contains(int64(pos)) {
					got[r]++
				}
			}
		}
		r := table.FetchRows(ctx, plan, lake.Ref{}, a.Fetch, []int{0, 1, 2})
		for r.Next() {
			for _, x := range recordsIn(r.RecordBatch()) {
				if q.keep(x) {
					got[x]++
				}
			}
		}
		err = r.Err()
		r.Release()
		if err != nil {
			return u, fmt.Errorf("%s: fetching: %w", q.filter, err)
		}
		if !maps.Equal(got, want) {
			return u, fmt.Errorf("%s: %d different rows, want %d: %+v", q.filter, len(got), len(want), a)
		}
		if err := summaries(ctx, all, plan, rows, places, q, bound, view, field("cat"), &u); err != nil {
			return u, fmt.Errorf("%s: %w", q.filter, err)
		}
	}
	return u, nil
}

// summaries compares counts, ends and first rows.
func summaries(ctx context.Context, all, plan *lake.Plan, rows [][]record, places map[string]int, q question, bound *predicate.Bound, view *overlay.View, cat int, u *usage) error {
	at := func(p search.Place) record { return rows[places[plan.Files[p.File].Path]][p.Pos] }
	var want []record
	nulls := 0
	for i := range all.Files {
		for pos, r := range rows[i] {
			if q.keep(r) && !all.Files[i].Deletes.Contains(int64(pos)) {
				if want = append(want, r); r.cat < 0 {
					nulls++
				}
			}
		}
	}
	sum, ok, err := search.Summarize(ctx, plan, bound, view, 0)
	if err != nil {
		return err
	}
	if ok {
		u.summed++
		if sum.Rows != int64(len(want)) || sum.Rows > 0 && !q.keep(at(sum.Any)) {
			return fmt.Errorf("%d rows by the index, %d by a scan", sum.Rows, len(want))
		}
	}
	byCat := func(a, b record) int { return int(a.cat) - int(b.cat) }
	if sum, ok, err = search.Summarize(ctx, plan, bound, view, cat); err != nil {
		return err
	} else if ok {
		u.summed++
		values := slices.DeleteFunc(slices.Clone(want), func(r record) bool { return r.cat < 0 })
		if sum.Rows != int64(len(want)) || sum.Nulls != int64(nulls) {
			return fmt.Errorf("%d rows and %d NULLs by the index, %d and %d by a scan", sum.Rows, sum.Nulls, len(want), nulls)
		}
		if len(values) > 0 && (at(sum.Least).cat != slices.MinFunc(values, byCat).cat || at(sum.Greatest).cat != slices.MaxFunc(values, byCat).cat) {
			return fmt.Errorf("the ends are other ones")
		}
	}
	a, ok, err := search.Distinct(ctx, plan, bound, view, cat, search.UseIndex)
	if err != nil {
		return err
	}
	if ok {
		u.different++
		got, different := map[int32]int{}, map[int32]bool{}
		for _, f := range a.Fetch {
			for pos := range f.Rows.All() {
				if all.Files[places[plan.Files[f.File].Path]].Deletes.Contains(pos) {
					return fmt.Errorf("a deleted row has one of the different values")
				}
				if r := at(search.Place{File: f.File, Pos: pos}); q.keep(r) {
					got[r.cat]++
				}
			}
		}
		for _, r := range want {
			different[r.cat] = true
		}
		for v := range different {
			if got[v] != 1 {
				return fmt.Errorf("%d rows have the value %d, want 1", got[v], v)
			}
		}
		if len(got) != len(different) {
			return fmt.Errorf("%d different values by the index, %d by a scan", len(got), len(different))
		}
	}
	a, ok, err = search.Top(ctx, plan, bound, view, search.TopRequest{Field: cat, Rows: 3})
	if err != nil || !ok {
		return err
	}
	u.first++
	var got []int32
	for _, f := range a.Fetch {
		for pos := range f.Rows.All() {
			r := at(search.Place{File: f.File, Pos: pos})
			if all.Files[places[plan.Files[f.File].Path]].Deletes.Contains(pos) {
				return fmt.Errorf("a deleted row is among the first")
			}
			if q.keep(r) {
				got = append(got, r.cat)
			}
		}
	}
	var first []int32
	for _, r := range want {
		first = append(first, r.cat)
	}
	last := func(a, b int32) int { // NULLs, which are -1, come last
		return cmp.Compare(uint32(a), uint32(b))
	}
	slices.SortFunc(got, last)
	slices.SortFunc(first, last)
	if n := min(3, len(first)); len(got) < n || !slices.Equal(got[:n], first[:n]) {
		return fmt.Errorf("the first by cat are %v, by a scan %v", got[:min(3, len(got))], first[:n])
	}
	return nil
}

func remove(t testing.TB, table *lake.Table, every int64) *lake.Table {
	t.Helper()
	plan, err := table.Plan(t.Context(), lake.Ref{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	gone := map[string]*row.Bitmap{}
	for i := range plan.Files {
		b := row.NewBitmap()
		for pos := int64(1); pos < plan.Files[i].Rows; pos += every {
			b.Add(pos)
		}
		gone[plan.Files[i].Path] = b
	}
	out, err := table.DeleteRows(t.Context(), gone)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// scan reads all rows of the table as it is.
func scan(t testing.TB, table *lake.Table) [][]record {
	t.Helper()
	plan, err := table.Plan(t.Context(), lake.Ref{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := contents(t.Context(), table, plan)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

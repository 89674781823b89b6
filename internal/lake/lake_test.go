package lake_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/row"
)

var docs = lake.Ident{Namespace: "main", Name: "docs"}

func schema() *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int32},
		{Name: "cat", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "at", Type: &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, Nullable: true},
		{Name: "emb", Type: arrow.ListOf(arrow.PrimitiveTypes.Float32), Nullable: true, Metadata: arrow.MetadataFrom(map[string]string{lake.TypeKey: "vector(2)"})},
	}, nil)
}

// rowsOf builds rows with ids lo to hi-1.
func rowsOf(t testing.TB, lo, hi int) array.RecordReader {
	t.Helper()
	sc := schema()
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
	defer b.Release()
	for i := lo; i < hi; i++ {
		b.Field(0).(*array.Int32Builder).Append(int32(i))
		if i%10 == 9 {
			b.Field(1).AppendNull()
		} else {
			b.Field(1).(*array.StringBuilder).Append(fmt.Sprintf("c%d", i%3))
		}
		b.Field(2).(*array.TimestampBuilder).Append(arrow.Timestamp(int64(i) * 3_600_000_000))
		l := b.Field(3).(*array.ListBuilder)
		l.Append(true)
		l.ValueBuilder().(*array.Float32Builder).AppendValues([]float32{float32(i), 1}, nil)
	}
	rec := b.NewRecordBatch()
	defer rec.Release()
	r, err := array.NewRecordReader(sc, []arrow.RecordBatch{rec})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func create(t testing.TB, c lake.Catalog, spec lake.CreateSpec) *lake.Table {
	t.Helper()
	if spec.Schema == nil {
		spec.Schema = schema()
	}
	tbl, err := c.Create(t.Context(), docs, spec)
	if err != nil {
		t.Fatal(err)
	}
	return tbl
}

func appendRows(t testing.TB, tbl *lake.Table, lo, hi int) *lake.Table {
	t.Helper()
	next, info, err := tbl.Append(t.Context(), rowsOf(t, lo, hi), lake.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if info.Rows != int64(hi-lo) || info.Files == 0 || info.SnapshotID == 0 {
		t.Fatalf("%+v", info)
	}
	return next
}

// ids reads the first column of all live rows; it must be an integer.
func ids(t testing.TB, tbl *lake.Table, ref lake.Ref) map[int64]int {
	t.Helper()
	r, err := tbl.Read(t.Context(), ref, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	out := map[int64]int{}
	for r.Next() {
		switch c := r.RecordBatch().Column(0).(type) {
		case *array.Int32:
			for i := range c.Len() {
				out[int64(c.Value(i))]++
			}
		case *array.Int64:
			for i := range c.Len() {
				out[c.Value(i)]++
			}
		}
	}
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	return out
}

func wantIDs(t testing.TB, got map[int64]int, want int) {
	t.Helper()
	if len(got) != want {
		t.Errorf("%d distinct ids, want %d", len(got), want)
	}
	for id, n := range got {
		if n != 1 {
			t.Errorf("id %d is there %d times", id, n)
		}
	}
}

func local(t testing.TB) objstore.Store {
	t.Helper()
	s, err := objstore.OpenLocal(t.TempDir(), objstore.LocalOptions{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// catalogs runs a test against every kind of catalog.
func catalogs(t *testing.T, test func(t *testing.T, c lake.Catalog)) {
	t.Run("file-local", func(t *testing.T) { test(t, lake.OpenFileCatalog(local(t))) })
	t.Run("file-memory", func(t *testing.T) { test(t, lake.OpenFileCatalog(objstore.NewMemory("t"))) })
	t.Run("sqlite", func(t *testing.T) {
		c, err := lake.OpenSQLiteCatalog(t.Context(), filepath.Join(t.TempDir(), "catalog.db"), local(t))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		test(t, c)
	})
}

func TestLifeOfATable(t *testing.T) {
	catalogs(t, func(t *testing.T, c lake.Catalog) {
		for _, version := range []int{2, 3} {
			tbl := create(t, c, lake.CreateSpec{FormatVersion: version, Comment: "pages", Properties: map[string]string{"k": "v"}})
			if tbl.FormatVersion() != version || tbl.Properties()["k"] != "v" {
				t.Errorf("version %d, properties %v", tbl.FormatVersion(), tbl.Properties())
			}
			if d, _ := tbl.Schema().Field(3).Metadata.GetValue(lake.TypeKey); d != "vector(2)" {
				t.Errorf("the vector is declared as %q", d)
			}
			if _, err := c.Create(t.Context(), docs, lake.CreateSpec{Schema: schema()}); !errs.Is(err, errs.Exists) {
				t.Errorf("creating twice gave %v", err)
			}
			wantIDs(t, ids(t, tbl, lake.Ref{}), 0)
			tbl = appendRows(t, tbl, 0, 100)
			tbl = appendRows(t, tbl, 100, 150)
			first := tbl.Snapshots()[0]
			loaded, err := c.Load(t.Context(), docs)
			if err != nil {
				t.Fatal(err)
			}
			wantIDs(t, ids(t, loaded, lake.Ref{}), 150)
			wantIDs(t, ids(t, loaded, lake.Ref{SnapshotID: first.ID}), 100)
			next, info, err := loaded.Overwrite(t.Context(), rowsOf(t, 500, 520), lake.WriteOptions{})
			if err != nil || info.Rows != 20 {
				t.Fatal(info, err)
			}
			wantIDs(t, ids(t, next, lake.Ref{}), 20)
			wantIDs(t, ids(t, next, lake.Ref{SnapshotID: first.ID}), 100)
			if _, err := next.Plan(t.Context(), lake.Ref{SnapshotID: 12345}, nil); !errs.Is(err, errs.NotFound) || errs.HintOf(err) == "" {
				t.Errorf("an unknown snapshot gave %v", err)
			}
			if _, err := next.Plan(t.Context(), lake.Ref{AsOf: time.Unix(1000, 0)}, nil); !errs.Is(err, errs.NotFound) {
				t.Errorf("a time before the table gave %v", err)
			}
			if p, err := next.Plan(t.Context(), lake.Ref{AsOf: time.Now().Add(time.Hour)}, nil); err != nil || p.Rows != 20 {
				t.Errorf("%+v, %v", p, err)
			}
			list, err := c.Tables(t.Context(), "main")
			if err != nil || len(list) != 1 || list[0] != docs {
				t.Errorf("%v, %v", list, err)
			}
			if err := c.Drop(t.Context(), docs); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Load(t.Context(), docs); !errs.Is(err, errs.NotFound) {
				t.Errorf("a dropped table gave %v", err)
			}
		}
	})
}

func TestNamespaces(t *testing.T) {
	catalogs(t, func(t *testing.T, c lake.Catalog) {
		if err := c.CreateNamespace(t.Context(), "web"); err != nil {
			t.Fatal(err)
		}
		if err := c.CreateNamespace(t.Context(), "web"); !errs.Is(err, errs.Exists) {
			t.Error(err)
		}
		id := lake.Ident{Namespace: "web", Name: "pages"}
		if _, err := c.Create(t.Context(), id, lake.CreateSpec{Schema: schema()}); err != nil {
			t.Fatal(err)
		}
		if ns, err := c.Namespaces(t.Context()); err != nil || strings.Join(ns, ",") != "main,web" {
			t.Error(ns, err)
		}
		if err := c.DropNamespace(t.Context(), "web"); !errs.Is(err, errs.Invalid) {
			t.Error(err)
		}
		if err := c.Drop(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if err := c.DropNamespace(t.Context(), "web"); err != nil {
			t.Error(err)
		}
		if _, err := c.Create(t.Context(), id, lake.CreateSpec{Schema: schema()}); !errs.Is(err, errs.NotFound) {
			t.Errorf("a table in no schema gave %v", err)
		}
	})
}

func TestNamesCannotLeaveTheWarehouse(t *testing.T) {
	c := lake.OpenFileCatalog(local(t))
	for _, bad := range []string{"", "..", "../x", "a/b", `a\b`, "_wal", ".git", "a\x00", "metadata", strings.Repeat("x", 200), "a%2fb"} {
		for _, id := range []lake.Ident{{Namespace: "main", Name: bad}, {Namespace: bad, Name: "t"}} {
			if _, err := c.Create(t.Context(), id, lake.CreateSpec{Schema: schema()}); !errs.Is(err, errs.Invalid) {
				t.Errorf("%q gave %v", id, err)
			}
			if _, err := c.Load(t.Context(), id); !errs.Is(err, errs.Invalid) {
				t.Errorf("%q gave %v", id, err)
			}
		}
	}
}

// TestSchemaEvolution reads rows written under four schemas through the last one, and old snapshots through their own.
func TestSchemaEvolution(t *testing.T) {
	c := lake.OpenFileCatalog(local(t))
	tbl := appendRows(t, create(t, c, lake.CreateSpec{FormatVersion: 3}), 0, 10)
	before, _ := tbl.CurrentSnapshot()
	tbl, err := tbl.AlterSchema(t.Context(),
		lake.RenameColumn{From: "cat", To: "category"}, lake.PromoteColumn{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		lake.AddColumn{Field: arrow.Field{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, Default: int64(7)},
		lake.AddColumn{Field: arrow.Field{Name: "note", Type: arrow.BinaryTypes.String, Nullable: true}}, lake.DropColumn{Name: "at"})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(names(tbl.Schema()), ","); got != "id,category,emb,n,note" {
		t.Errorf("columns %s", got)
	}
	r, err := tbl.Read(t.Context(), lake.Ref{}, []string{"id", "category", "n", "note"})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Next() || r.RecordBatch().NumRows() != 10 {
		t.Fatal("no rows", r.Err())
	}
	rec := r.RecordBatch()
	if got := fmt.Sprint(rec.Column(0), rec.Column(1).ValueStr(1), rec.Column(2).ValueStr(3), rec.Column(3).IsNull(4)); got != "[0 1 2 3 4 5 6 7 8 9]c17true" {
		t.Errorf("%s", got)
	}
	r.Release()
	if old, err := tbl.SchemaAt(lake.Ref{SnapshotID: before.ID}); err != nil || strings.Join(names(old), ",") != "id,cat,at,emb" {
		t.Errorf("%v, %v", old, err)
	}
	wantIDs(t, ids(t, tbl, lake.Ref{SnapshotID: before.ID}), 10)
	for name, bad := range map[string]lake.SchemaChange{
		"narrowing": lake.PromoteColumn{Name: "id", Type: arrow.PrimitiveTypes.Int32}, "unknown": lake.DropColumn{Name: "zzz"},
		"taken": lake.RenameColumn{From: "n", To: "NOTE"}, "twice": lake.AddColumn{Field: arrow.Field{Name: "Id", Type: arrow.PrimitiveTypes.Int64, Nullable: true}},
		"required": lake.AddColumn{Field: arrow.Field{Name: "r", Type: arrow.PrimitiveTypes.Int64}},
	} {
		if _, err := tbl.AlterSchema(t.Context(), bad); err == nil || errs.Is(err, errs.Internal) {
			t.Errorf("%s gave %v", name, err)
		}
	}
	tbl, err = tbl.SetProperties(t.Context(), map[string]string{"a": "1", "b": "2"})
	if err == nil {
		tbl, err = tbl.SetProperties(t.Context(), nil, "a")
	}
	if p := tbl.Properties(); err != nil || p["b"] != "2" || p["a"] != "" {
		t.Errorf("%v, %v", p, err)
	}
	if _, err := tbl.SetProperties(t.Context(), map[string]string{"overlake.nonsense": "1"}); !errs.Is(err, errs.Unsupported) {
		t.Error(err)
	}
}

func names(sc *arrow.Schema) (out []string) {
	for _, f := range sc.Fields() {
		out = append(out, f.Name)
	}
	return out
}

func TestWriteChecks(t *testing.T) {
	c := lake.OpenFileCatalog(local(t))
	tbl := create(t, c, lake.CreateSpec{})
	build := func(fields []arrow.Field, fill func(b *array.RecordBuilder)) array.RecordReader {
		b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
		fill(b)
		rec := b.NewRecordBatch()
		r, _ := array.NewRecordReader(rec.Schema(), []arrow.RecordBatch{rec})
		return r
	}
	id := arrow.Field{Name: "id", Type: arrow.PrimitiveTypes.Int32, Nullable: true}
	vec := arrow.Field{Name: "emb", Type: arrow.ListOf(arrow.PrimitiveTypes.Float32), Nullable: true}
	vector := func(v ...float32) array.RecordReader {
		return build([]arrow.Field{id, vec}, func(b *array.RecordBuilder) {
			b.Field(0).(*array.Int32Builder).Append(1)
			b.Field(1).(*array.ListBuilder).Append(true)
			b.Field(1).(*array.ListBuilder).ValueBuilder().(*array.Float32Builder).AppendValues(v, nil)
		})
	}
	zero := float32(0)
	for name, r := range map[string]array.RecordReader{
		"three dimensions": vector(1, 2, 3), "NaN": vector(zero/zero, 1), "infinity": vector(1/zero, 1),
		"required NULL":  build([]arrow.Field{id}, func(b *array.RecordBuilder) { b.Field(0).AppendNull() }),
		"missing column": build([]arrow.Field{vec}, func(b *array.RecordBuilder) { b.Field(0).AppendNull() }),
		"unknown column": build([]arrow.Field{id, {Name: "x", Type: arrow.PrimitiveTypes.Int32}}, func(b *array.RecordBuilder) {}),
	} {
		if name == "unknown column" {
			r = build([]arrow.Field{id, {Name: "x", Type: arrow.PrimitiveTypes.Int32}}, func(b *array.RecordBuilder) {
				b.Field(0).(*array.Int32Builder).Append(1)
				b.Field(1).(*array.Int32Builder).Append(1)
			})
		}
		if _, _, err := tbl.Append(t.Context(), r, lake.WriteOptions{}); !errs.Is(err, errs.Invalid) {
			t.Errorf("%s gave %v", name, err)
		}
	}
	if _, _, err := tbl.Append(t.Context(), vector(1, 2), lake.WriteOptions{}); err != nil {
		t.Error(err)
	}
}

// TestPruning compares, for many filters, the rows kept by pruning with those that match: pruning may keep too much but
// never drop a match, and must drop something where it can.
func TestPruning(t *testing.T) {
	for _, p := range []lake.PartitionField{{Column: "cat", Transform: "identity"}, {Column: "id", Transform: "bucket[4]"}, {Column: "at", Transform: "day"},
		{Column: "id", Transform: "truncate[10]"}, {Column: "cat", Transform: "truncate[1]"}, {Column: "at", Transform: "hour"}, {Column: "at", Transform: "month"}, {Column: "at", Transform: "void"}} {
		t.Run(p.Transform+" "+p.Column, func(t *testing.T) {
			c := lake.OpenFileCatalog(objstore.NewMemory("t"))
			tbl := create(t, c, lake.CreateSpec{Partition: []lake.PartitionField{p}})
			tbl = appendRows(t, tbl, 0, 60)
			tbl = appendRows(t, tbl, 60, 100)
			wantIDs(t, ids(t, tbl, lake.Ref{}), 100)
			pruned := 0
			for _, c := range []struct {
				e    predicate.Expr
				want func(i int) bool
			}{
				{predicate.Compare{Column: "id", Op: predicate.Eq, Value: int64(42)}, func(i int) bool { return i == 42 }},
				{predicate.Compare{Column: "id", Op: predicate.Gt, Value: int64(95)}, func(i int) bool { return i > 95 }},
				{predicate.Compare{Column: "id", Op: predicate.Le, Value: int64(3)}, func(i int) bool { return i <= 3 }},
				{predicate.Compare{Column: "ID", Op: predicate.Ne, Value: int64(3)}, func(i int) bool { return i != 3 }},
				{predicate.In{Column: "id", Values: []predicate.Value{int64(1), int64(99)}}, func(i int) bool { return i == 1 || i == 99 }},
				{predicate.Compare{Column: "cat", Op: predicate.Eq, Value: "c1"}, func(i int) bool { return i%10 != 9 && i%3 == 1 }},
				{predicate.Compare{Column: "cat", Op: predicate.Gt, Value: "c1"}, func(i int) bool { return i%10 != 9 && i%3 == 2 }},
				{predicate.IsNull{Column: "cat"}, func(i int) bool { return i%10 == 9 }},
				{predicate.Not{X: predicate.IsNull{Column: "cat"}}, func(i int) bool { return i%10 != 9 }},
				{predicate.StartsWith{Column: "cat", Prefix: "c2"}, func(i int) bool { return i%10 != 9 && i%3 == 2 }},
				{predicate.StartsWith{Column: "cat", Prefix: "d"}, func(i int) bool { return false }},
				{predicate.Compare{Column: "at", Op: predicate.Lt, Value: predicate.Typed{Type: "timestamp", Text: "1970-01-01 05:00:00"}}, func(i int) bool { return i < 5 }},
				{predicate.Compare{Column: "at", Op: predicate.Ge, Value: predicate.Typed{Type: "date", Text: "1970-01-04"}}, func(i int) bool { return i >= 72 }},
				{predicate.And{predicate.Compare{Column: "id", Op: predicate.Ge, Value: int64(10)}, predicate.Compare{Column: "id", Op: predicate.Lt, Value: int64(12)}}, func(i int) bool { return i == 10 || i == 11 }},
				{predicate.Or{predicate.Compare{Column: "id", Op: predicate.Eq, Value: int64(5)}, predicate.IsNull{Column: "cat"}}, func(i int) bool { return i == 5 || i%10 == 9 }},
				{predicate.Not{X: predicate.Compare{Column: "id", Op: predicate.Lt, Value: int64(90)}}, func(i int) bool { return i >= 90 }},
				{predicate.Compare{Column: "id", Op: predicate.Eq, Value: 42.5}, func(i int) bool { return false }},
				{predicate.Compare{Column: "nope", Op: predicate.Eq, Value: int64(1)}, func(i int) bool { return true }},
				{predicate.False{}, func(i int) bool { return false }},
			} {
				plan, err := tbl.Plan(t.Context(), lake.Ref{}, c.e)
				if err != nil {
					t.Fatal(err)
				}
				if plan.Total != len(plan.Files)+plan.PrunedByPartition+plan.PrunedByStats {
					t.Errorf("%v: the counts do not add up: %+v", c.e, plan)
				}
				pruned += plan.PrunedByPartition + plan.PrunedByStats
				kept := map[int64]bool{}
				for i := range plan.Files {
					r, err := tbl.ReadFile(t.Context(), &plan.Files[i], []string{"id"}, lake.Ref{}, true)
					if err != nil {
						t.Fatal(err)
					}
					for r.Next() {
						for _, v := range r.RecordBatch().Column(0).(*array.Int32).Int32Values() {
							kept[int64(v)] = true
						}
					}
					r.Release()
				}
				for i := range 100 {
					if c.want(i) && !kept[int64(i)] {
						t.Errorf("%v lost row %d", c.e, i)
					}
				}
			}
			if pruned == 0 {
				t.Error("nothing was ever pruned")
			}
		})
	}
}

func TestDeleteRows(t *testing.T) {
	for _, version := range []int{2, 3} {
		c := lake.OpenFileCatalog(local(t))
		tbl := appendRows(t, create(t, c, lake.CreateSpec{FormatVersion: version, Partition: []lake.PartitionField{{Column: "cat", Transform: "identity"}}}), 0, 50)
		tbl = appendRows(t, tbl, 50, 100)
		deleted := 0
		for round := range 3 {
			plan, err := tbl.Plan(t.Context(), lake.Ref{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			rows := map[string]*row.Bitmap{}
			for _, f := range plan.Files {
				if f.Rows > int64(round) {
					rows[f.Path] = row.BitmapOf(int64(round))
					deleted++
				}
			}
			if tbl, err = tbl.DeleteRows(t.Context(), rows); err != nil {
				t.Fatal(err)
			}
			wantIDs(t, ids(t, tbl, lake.Ref{}), 100-deleted)
		}
		plan, err := tbl.Plan(t.Context(), lake.Ref{}, nil)
		if err != nil || plan.Deleted != int64(deleted) {
			t.Errorf("version %d: %d deleted, want %d, %v", version, plan.Deleted, deleted, err)
		}
		if _, err := tbl.DeleteRows(t.Context(), map[string]*row.Bitmap{plan.Files[0].Path: row.BitmapOf(1 << 40)}); !errs.Is(err, errs.Invalid) {
			t.Errorf("a position beyond the file gave %v", err)
		}
	}
}

// TestTwoDeletersOfOneFile is the race that leaves two live vectors on one file when a commit is merely replayed.
func TestTwoDeletersOfOneFile(t *testing.T) {
	c := lake.OpenFileCatalog(local(t))
	tbl := appendRows(t, create(t, c, lake.CreateSpec{FormatVersion: 3}), 0, 100)
	plan, err := tbl.Plan(t.Context(), lake.Ref{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for k := range 5 {
				if _, err := tbl.DeleteRows(context.Background(), map[string]*row.Bitmap{plan.Files[0].Path: row.BitmapOf(int64(w*10 + k))}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if tbl, err = tbl.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantIDs(t, ids(t, tbl, lake.Ref{}), 80)
}

// TestConcurrentAppends: every acknowledged row is there, once.
func TestConcurrentAppends(t *testing.T) {
	catalogs(t, func(t *testing.T, c lake.Catalog) {
		tbl := create(t, c, lake.CreateSpec{Properties: map[string]string{"commit.retry.num-retries": "4"}})
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				for k := range 4 {
					lo := (w*4 + k) * 10
					if _, _, err := tbl.Append(context.Background(), rowsOf(t, lo, lo+10), lake.WriteOptions{}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		tbl, err := c.Load(t.Context(), docs)
		if err != nil {
			t.Fatal(err)
		}
		wantIDs(t, ids(t, tbl, lake.Ref{}), 160)
	})
}

// TestCrashAtEveryWrite appends into a store that loses power at its n-th write, for every n: after the restart the table
// reads as before or after the append, never otherwise, and takes further writes.
func TestCrashAtEveryWrite(t *testing.T) {
	start := func(seed uint64) (*objstore.Crashable, *lake.Table) {
		s := objstore.NewCrashable("t", seed)
		return s, appendRows(t, create(t, lake.OpenFileCatalog(s), lake.CreateSpec{}), 0, 10)
	}
	s, tbl := start(0)
	base := s.Writes()
	appendRows(t, tbl, 10, 20)
	points := s.Writes() - base
	if points < 4 {
		t.Fatalf("an append makes %d writes; data, manifest, list and metadata are four", points)
	}
	for n := 1; n <= points; n++ {
		for seed := range uint64(4) {
			s, tbl := start(seed)
			s.CrashAfter(n)
			_, _, err := tbl.Append(t.Context(), rowsOf(t, 10, 20), lake.WriteOptions{})
			c := lake.OpenFileCatalog(s.Restart())
			after, lerr := c.Load(t.Context(), docs)
			if lerr != nil {
				t.Fatalf("crash at write %d: %v", n, lerr)
			}
			got := len(ids(t, after, lake.Ref{}))
			if got != 10 && got != 20 || err == nil && got != 20 {
				t.Errorf("crash at write %d: %d rows, append said %v", n, got, err)
			}
			wantIDs(t, ids(t, appendRows(t, after, 30, 35), lake.Ref{}), got+5)
		}
	}
}

func TestLostAnswersAndFullDisks(t *testing.T) {
	m := objstore.NewMemory("t")
	f, err := objstore.NewFaulty(m, "")
	if err != nil {
		t.Fatal(err)
	}
	tbl := appendRows(t, create(t, lake.OpenFileCatalog(f), lake.CreateSpec{}), 0, 10)
	// The metadata is written but its answer is lost: the commit must find out that it won.
	if err := f.Set("unknown put *.metadata.json"); err != nil {
		t.Fatal(err)
	}
	tbl = appendRows(t, tbl, 10, 20)
	for _, script := range []string{"full put *.parquet", "full put *.avro", "full put *.metadata.json", "fail put *.avro from 2", "fail stat *.parquet"} {
		if err := f.Set(script); err != nil {
			t.Fatal(err)
		}
		_, _, err := tbl.Append(t.Context(), rowsOf(t, 20, 30), lake.WriteOptions{})
		if err == nil || strings.HasPrefix(script, "full") && !errs.Is(err, errs.Exhausted) {
			t.Errorf("%s gave %v (%v)", script, err, errs.KindOf(err))
		}
	}
	if err := f.Set(""); err != nil {
		t.Fatal(err)
	}
	if tbl, err = tbl.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantIDs(t, ids(t, appendRows(t, tbl, 40, 45), lake.Ref{}), 25)
}

func TestReadOnlyCatalogRefusesToWrite(t *testing.T) {
	m := objstore.NewMemory("t")
	appendRows(t, create(t, lake.OpenFileCatalog(m), lake.CreateSpec{}), 0, 10)
	c := lake.OpenFileCatalog(objstore.ReadOnly(m))
	tbl, err := c.Load(t.Context(), docs)
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, ids(t, tbl, lake.Ref{}), 10)
	_, _, err = tbl.Append(t.Context(), rowsOf(t, 0, 1), lake.WriteOptions{})
	for _, err := range []error{err, c.Drop(t.Context(), docs), c.CreateNamespace(t.Context(), "x")} {
		if !errs.Is(err, errs.Denied) || errs.HintOf(err) == "" {
			t.Errorf("got %v", err)
		}
	}
}

func TestDamagedMetadataIsCorrupt(t *testing.T) {
	s := local(t)
	appendRows(t, create(t, lake.OpenFileCatalog(s), lake.CreateSpec{}), 0, 10)
	var objects []string
	for info, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(info.Name, "v1.metadata.json") && !strings.HasSuffix(info.Name, ".text") {
			objects = append(objects, info.Name)
		}
	}
	for _, name := range objects {
		good, _, err := objstore.ReadAll(t.Context(), s, name, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for what, bad := range map[string][]byte{"cut": good[:len(good)/2], "empty": nil, "zeros": make([]byte, len(good))} {
			if _, err := s.Put(t.Context(), name, bad, objstore.Condition{}); err != nil {
				t.Fatal(err)
			}
			err := func() error {
				tbl, err := lake.OpenFileCatalog(s).Load(t.Context(), docs)
				if err != nil {
					return err
				}
				r, err := tbl.Read(t.Context(), lake.Ref{}, nil)
				if err != nil {
					return err
				}
				defer r.Release()
				for r.Next() {
				}
				return r.Err()
			}()
			if !errs.Is(err, errs.Corrupt) {
				t.Errorf("%s %s gave %v (%v)", what, name, err, errs.KindOf(err))
			}
		}
		if err := s.Delete(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ".parquet") {
			tbl, err := lake.OpenFileCatalog(s).Load(t.Context(), docs)
			if err != nil {
				t.Fatal(err)
			}
			r, err := tbl.Read(t.Context(), lake.Ref{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for r.Next() {
			}
			if !errs.Is(r.Err(), errs.NotFound) || !strings.Contains(r.Err().Error(), name) {
				t.Errorf("a missing data file gave %v", r.Err())
			}
		}
		if _, err := s.Put(t.Context(), name, good, objstore.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
}

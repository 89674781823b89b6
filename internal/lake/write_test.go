package lake_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/predicate"
)

// manyParts builds a reader of rows (id, part) over n partitions in random order, in batches.
func manyParts(t testing.TB, rows, parts, batch int, rng *rand.Rand) array.RecordReader {
	t.Helper()
	sc := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "part", Type: arrow.PrimitiveTypes.Int32}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
	defer b.Release()
	var recs []arrow.RecordBatch
	for i := range rows {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		b.Field(1).(*array.Int32Builder).Append(int32(rng.IntN(parts)))
		if (i+1)%batch == 0 || i == rows-1 {
			recs = append(recs, b.NewRecordBatch())
		}
	}
	r, err := array.NewRecordReader(sc, recs)
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range recs {
		rec.Release()
	}
	return r
}

// TestManyPartitions writes more partitions than files may be open, with much memory and with little: every row is there
// once, and with memory enough each partition is one file.
func TestManyPartitions(t *testing.T) {
	const rows, parts = 20_000, 300
	for _, c := range []struct {
		memory           int64
		minFiles, atMost int
	}{{0, parts, parts}, {1 << 17, parts + 1, 40 * parts}} {
		tbl := create(t, lake.OpenFileCatalog(objstore.NewMemory("t")), lake.CreateSpec{
			Schema:    arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "part", Type: arrow.PrimitiveTypes.Int32}}, nil),
			Partition: []lake.PartitionField{{Column: "part", Transform: "identity"}},
		})
		tbl, info, err := tbl.Append(t.Context(), manyParts(t, rows, parts, 1000, rand.New(rand.NewPCG(1, 2))), lake.WriteOptions{MemoryBytes: c.memory})
		if err != nil {
			t.Fatal(err)
		}
		if info.Rows != rows || info.Files < c.minFiles || info.Files > c.atMost {
			t.Errorf("memory %d: %+v", c.memory, info)
		}
		wantIDs(t, ids(t, tbl, lake.Ref{}), rows)
		plan, err := tbl.Plan(t.Context(), lake.Ref{}, predicate.Compare{Column: "part", Op: predicate.Eq, Value: int64(7)})
		if err != nil || plan.PrunedByPartition == 0 || len(plan.Files) == 0 {
			t.Errorf("%+v, %v", plan, err)
		}
		for _, f := range plan.Files {
			if c.memory == 0 && f.Rows > rows/parts*2 {
				t.Errorf("a file of %d rows", f.Rows)
			}
		}
	}
}

// TestTargetFileSize: the option counts, then the table property.
func TestTargetFileSize(t *testing.T) {
	for _, c := range []struct {
		option   int64
		property string
		more     bool
	}{{0, "", false}, {20_000, "", true}, {0, "20000", true}, {1 << 30, "20000", false}, {0, "a lot", false}} {
		spec := lake.CreateSpec{Schema: arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "part", Type: arrow.PrimitiveTypes.Int32}}, nil)}
		if c.property != "" {
			spec.Properties = map[string]string{"write.target-file-size-bytes": c.property}
		}
		tbl := create(t, lake.OpenFileCatalog(objstore.NewMemory("t")), spec)
		tbl, info, err := tbl.Append(t.Context(), manyParts(t, 50_000, 1000, 1000, rand.New(rand.NewPCG(1, 2))), lake.WriteOptions{TargetFileBytes: c.option})
		if err != nil || (info.Files > 1) != c.more {
			t.Errorf("%+v: %+v, %v", c, info, err)
		}
		wantIDs(t, ids(t, tbl, lake.Ref{}), 50_000)
	}
}

type failing struct {
	array.RecordReader
	left int
}

func (f *failing) Next() bool { f.left--; return f.left >= 0 && f.RecordReader.Next() }
func (f *failing) Err() error { return errs.New(errs.Invalid, "test", "line 7: no number") }

// TestFailingSource: when the rows cannot be read to the end, nothing is visible and nothing is left.
func TestFailingSource(t *testing.T) {
	m := objstore.NewMemory("t")
	tbl := create(t, lake.OpenFileCatalog(m), lake.CreateSpec{
		Schema:    arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "part", Type: arrow.PrimitiveTypes.Int32}}, nil),
		Partition: []lake.PartitionField{{Column: "part", Transform: "identity"}},
	})
	before := objectKinds(t, m)
	r := &failing{manyParts(t, 10_000, 100, 1000, rand.New(rand.NewPCG(1, 2))), 6}
	if _, _, err := tbl.Append(t.Context(), r, lake.WriteOptions{MemoryBytes: 1 << 16}); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "line 7") {
		t.Errorf("got %v", err)
	}
	if got := objectKinds(t, m); fmt.Sprint(got) != fmt.Sprint(before) {
		t.Errorf("%v is left, not %v", got, before)
	}
}

// TestSchemaChangesWhileRowsAreWritten: files name columns by id, so rows written under the old schema arrive.
func TestSchemaChangesWhileRowsAreWritten(t *testing.T) {
	catalogs(t, func(t *testing.T, c lake.Catalog) {
		tbl := create(t, c, lake.CreateSpec{})
		next, _, err := tbl.Append(t.Context(), rowsOf(t, 0, 10), lake.WriteOptions{Progress: func(int64) {
			if _, err := reload(t, c).AlterSchema(t.Context(), lake.AddColumn{Field: arrow.Field{Name: "note", Type: arrow.BinaryTypes.String, Nullable: true}},
				lake.RenameColumn{From: "cat", To: "category"}, lake.DropColumn{Name: "at"}, lake.PromoteColumn{Name: "id", Type: arrow.PrimitiveTypes.Int64}); err != nil {
				t.Error(err)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(names(next.Schema()), ","); got != "id,category,emb,note" {
			t.Errorf("columns %s", got)
		}
		wantIDs(t, ids(t, next, lake.Ref{}), 10)
		r, err := next.Read(t.Context(), lake.Ref{}, []string{"category"})
		if err != nil || !r.Next() || r.RecordBatch().Column(0).ValueStr(1) != "c1" {
			t.Errorf("the renamed column: %v", err)
		}
	})
}

// TestPartitionColumnWidensWhileRowsAreWritten: a partition value of the old type does not fit the new manifests.
func TestPartitionColumnWidensWhileRowsAreWritten(t *testing.T) {
	m := objstore.NewMemory("t")
	c := lake.OpenFileCatalog(m)
	tbl := create(t, c, lake.CreateSpec{Partition: []lake.PartitionField{{Column: "id", Transform: "identity"}}})
	_, _, err := tbl.Append(t.Context(), rowsOf(t, 0, 3), lake.WriteOptions{Progress: func(int64) {
		if _, err := reload(t, c).AlterSchema(t.Context(), lake.PromoteColumn{Name: "id", Type: arrow.PrimitiveTypes.Int64}); err != nil {
			t.Error(err)
		}
	}})
	if !errs.Is(err, errs.Conflict) || errs.HintOf(err) == "" {
		t.Errorf("got %v", err)
	}
	if k := objectKinds(t, m); k["data"] != 0 {
		t.Errorf("%v is left", k)
	}
	if wantIDs(t, ids(t, appendRows(t, reload(t, c), 0, 3), lake.Ref{}), 3); t.Failed() {
		return
	}
}

// TestChangesApplyInOrder: every change of one call sees the ones before it.
func TestChangesApplyInOrder(t *testing.T) {
	c := lake.OpenFileCatalog(objstore.NewMemory("t"))
	tbl := appendRows(t, create(t, c, lake.CreateSpec{Properties: map[string]string{"write.parquet.bloom-filter-enabled.column.cat": "true"}}), 0, 10)
	note := arrow.Field{Name: "cat", Type: arrow.PrimitiveTypes.Int64, Nullable: true}
	tbl, err := tbl.AlterSchema(t.Context(), lake.RenameColumn{From: "cat", To: "tmp"}, lake.AddColumn{Field: note}, lake.DropColumn{Name: "CAT"},
		lake.RenameColumn{From: "tmp", To: "Cat"}, lake.RenameColumn{From: "Cat", To: "label"})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(names(tbl.Schema()), ","); got != "id,label,at,emb" {
		t.Errorf("columns %s", got)
	}
	tbl = appendRows2(t, tbl, "label")
	if tbl, err = tbl.AlterSchema(t.Context(), lake.DropColumn{Name: "label"}); err != nil {
		t.Fatal(err)
	}
	if tbl, err = tbl.AlterSchema(t.Context(), lake.AddColumn{Field: arrow.Field{Name: "label", Type: arrow.BinaryTypes.String, Nullable: true}}); err != nil {
		t.Fatal(err)
	}
	r, err := tbl.Read(t.Context(), lake.Ref{}, []string{"label"})
	if err != nil {
		t.Fatal(err)
	}
	for r.Next() {
		if n := r.RecordBatch().Column(0).NullN(); int64(n) != r.RecordBatch().NumRows() {
			t.Error("a dropped column came back with its name")
		}
	}
	vec := arrow.Field{Name: "v", Type: arrow.ListOf(arrow.PrimitiveTypes.Float32), Nullable: true, Metadata: arrow.MetadataFrom(map[string]string{lake.TypeKey: "vector(3)"})}
	if tbl, err = tbl.AlterSchema(t.Context(), lake.AddColumn{Field: vec}); err != nil {
		t.Fatal(err)
	}
	at := tbl.Schema().FieldIndices("v")[0]
	if d, _ := tbl.Schema().Field(at).Metadata.GetValue(lake.TypeKey); d != "vector(3)" {
		t.Errorf("the new vector is declared as %q", d)
	}
	if tbl, err = tbl.AlterSchema(t.Context(), lake.DropColumn{Name: "v"}); err != nil {
		t.Fatal(err)
	}
	for k := range tbl.Properties() {
		if strings.HasPrefix(k, "overlake.column.") && k != "overlake.column.4.type" {
			t.Errorf("%s outlives its column", k)
		}
	}
}

// appendRows2 adds one row whose only text column has another name.
func appendRows2(t testing.TB, tbl *lake.Table, column string) *lake.Table {
	t.Helper()
	sc := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int32}, {Name: column, Type: arrow.BinaryTypes.String}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
	defer b.Release()
	b.Field(0).(*array.Int32Builder).Append(99)
	b.Field(1).(*array.StringBuilder).Append("x")
	rec := b.NewRecordBatch()
	defer rec.Release()
	r, err := array.NewRecordReader(sc, []arrow.RecordBatch{rec})
	if err != nil {
		t.Fatal(err)
	}
	next, _, err := tbl.Append(t.Context(), r, lake.WriteOptions{Properties: map[string]string{"overlake.applied": "7"}})
	if err != nil {
		t.Fatal(err)
	}
	if s, _ := next.CurrentSnapshot(); s.Summary["overlake.applied"] != "7" {
		t.Errorf("the summary is %v", s.Summary)
	}
	return next
}

func TestRequiredColumnWithDefault(t *testing.T) {
	tbl := appendRows(t, create(t, lake.OpenFileCatalog(objstore.NewMemory("t")), lake.CreateSpec{FormatVersion: 3}), 0, 10)
	tbl, err := tbl.AlterSchema(t.Context(), lake.AddColumn{Field: arrow.Field{Name: "n", Type: arrow.PrimitiveTypes.Int64}, Default: int64(7)})
	if err != nil {
		t.Fatal(err)
	}
	if f, _ := tbl.Schema().FieldsByName("n"); f[0].Nullable {
		t.Error("the column is optional")
	}
	if tbl, err = tbl.AlterSchema(t.Context(), lake.DropNotNull{Name: "n"}); err != nil {
		t.Fatal(err)
	}
	if f, _ := tbl.Schema().FieldsByName("n"); !f[0].Nullable {
		t.Error("the column is still required")
	}
	v2 := create(t, lake.OpenFileCatalog(objstore.NewMemory("t")), lake.CreateSpec{})
	if _, err := v2.AlterSchema(t.Context(), lake.AddColumn{Field: arrow.Field{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, Default: int64(7)}); !errs.Is(err, errs.Unsupported) {
		t.Errorf("a default in version 2 gave %v", err)
	}
}

// TestCreateSpecs lists what a new table may not be.
func TestCreateSpecs(t *testing.T) {
	field := func(name string, typ arrow.DataType, md ...string) *arrow.Schema {
		f := arrow.Field{Name: name, Type: typ, Nullable: true}
		if len(md) == 2 {
			f.Metadata = arrow.MetadataFrom(map[string]string{md[0]: md[1]})
		}
		return arrow.NewSchema([]arrow.Field{f}, nil)
	}
	ns := &arrow.TimestampType{Unit: arrow.Nanosecond}
	for name, c := range map[string]struct {
		spec lake.CreateSpec
		kind errs.Kind
	}{
		"no columns":           {lake.CreateSpec{Schema: arrow.NewSchema(nil, nil)}, errs.Invalid},
		"version 1":            {lake.CreateSpec{Schema: schema(), FormatVersion: 1}, errs.Unsupported},
		"version 4":            {lake.CreateSpec{Schema: schema(), FormatVersion: 4}, errs.Unsupported},
		"version by property":  {lake.CreateSpec{Schema: schema(), Properties: map[string]string{"format-version": "1"}}, errs.Unsupported},
		"no version":           {lake.CreateSpec{Schema: schema(), Properties: map[string]string{"format-version": "new"}}, errs.Invalid},
		"nanoseconds in 2":     {lake.CreateSpec{Schema: field("t", ns)}, errs.Unsupported},
		"nested nanoseconds":   {lake.CreateSpec{Schema: field("t", arrow.ListOf(arrow.StructOf(arrow.Field{Name: "x", Type: ns})))}, errs.Unsupported},
		"a vector of doubles":  {lake.CreateSpec{Schema: field("v", arrow.ListOf(arrow.PrimitiveTypes.Float64), lake.TypeKey, "vector(2)")}, errs.Invalid},
		"a vector of nothing":  {lake.CreateSpec{Schema: field("v", arrow.ListOf(arrow.PrimitiveTypes.Float32), lake.TypeKey, "vector(0)")}, errs.Invalid},
		"an unknown type":      {lake.CreateSpec{Schema: field("v", arrow.ListOf(arrow.PrimitiveTypes.Float32), lake.TypeKey, "tensor")}, errs.Invalid},
		"unsigned 64 bits":     {lake.CreateSpec{Schema: field("u", arrow.PrimitiveTypes.Uint64)}, errs.Unsupported},
		"an unknown property":  {lake.CreateSpec{Schema: schema(), Properties: map[string]string{"overlake.magic": "on"}}, errs.Unsupported},
		"an unknown column":    {lake.CreateSpec{Schema: schema(), Partition: []lake.PartitionField{{Column: "zzz", Transform: "day"}}}, errs.NotFound},
		"an unknown transform": {lake.CreateSpec{Schema: schema(), Partition: []lake.PartitionField{{Column: "at", Transform: "fortnight"}}}, errs.Invalid},
		"days of a text":       {lake.CreateSpec{Schema: schema(), Partition: []lake.PartitionField{{Column: "cat", Transform: "day"}}}, errs.Invalid},
		"no buckets":           {lake.CreateSpec{Schema: schema(), Partition: []lake.PartitionField{{Column: "cat", Transform: "bucket[0]"}}}, errs.Invalid},
	} {
		c0 := lake.OpenFileCatalog(objstore.NewMemory("t"))
		if _, err := c0.Create(t.Context(), docs, c.spec); !errs.Is(err, c.kind) {
			t.Errorf("%s gave %v (%v)", name, err, errs.KindOf(err))
		}
	}
	// A name is no type.
	c := lake.OpenFileCatalog(objstore.NewMemory("t"))
	if _, err := c.Create(t.Context(), docs, lake.CreateSpec{Schema: field("latency_ns", arrow.PrimitiveTypes.Int64)}); err != nil {
		t.Error(err)
	}
	if _, err := c.Create(t.Context(), lake.Ident{Namespace: "main", Name: "v3"}, lake.CreateSpec{Schema: field("t", ns), Properties: map[string]string{"format-version": "3"}}); err != nil {
		t.Error(err)
	}
}

// TestDictionaries: a dictionary is a way to store its values, whatever their type.
func TestDictionaries(t *testing.T) {
	typ := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.PrimitiveTypes.Int64}
	sc := arrow.NewSchema([]arrow.Field{{Name: "n", Type: typ, Nullable: true}}, nil)
	tbl := create(t, lake.OpenFileCatalog(objstore.NewMemory("t")), lake.CreateSpec{Schema: sc})
	if got := tbl.Schema().Field(0).Type; got.ID() != arrow.INT64 {
		t.Fatalf("the column is %s", got)
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
	defer b.Release()
	for _, v := range []int64{7, 9, 11} {
		if err := b.Field(0).(*array.Int64DictionaryBuilder).Append(v); err != nil {
			t.Fatal(err)
		}
	}
	rec := b.NewRecordBatch()
	defer rec.Release()
	r, err := array.NewRecordReader(sc, []arrow.RecordBatch{rec})
	if err != nil {
		t.Fatal(err)
	}
	if tbl, _, err = tbl.Append(t.Context(), r, lake.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := ids(t, tbl, lake.Ref{}); fmt.Sprint(got) != "map[7:1 9:1 11:1]" {
		t.Errorf("%v", got)
	}
}

// TestFilesComeInOrder: a partition keeps the order of its rows.
func TestFilesComeInOrder(t *testing.T) {
	var first string
	for range 3 {
		tbl := create(t, lake.OpenFileCatalog(objstore.NewMemory("t")), lake.CreateSpec{FormatVersion: 3, Partition: []lake.PartitionField{{Column: "cat", Transform: "identity"}}})
		tbl = appendRows(t, tbl, 0, 100)
		r, err := tbl.Read(context.Background(), lake.Ref{}, []string{"id"})
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for r.Next() {
			all = append(all, r.RecordBatch().Column(0).String())
		}
		r.Release()
		if len(all) != 4 {
			t.Fatalf("%d files", len(all))
		}
		sortByFirst(all)
		if s := strings.Join(all, ""); first == "" {
			first = s
		} else if s != first {
			t.Error("the rows of a partition changed their order")
		}
	}
}

func sortByFirst(all []string) {
	for i := range all {
		for k := i; k > 0 && all[k] < all[k-1]; k-- {
			all[k], all[k-1] = all[k-1], all[k]
		}
	}
}

// TestStoreLosesAnObject: an object that the store took and does not have is found out before metadata names it.
func TestStoreLosesAnObject(t *testing.T) {
	for _, lost := range []string{"*.parquet", "*-m*.avro", "snap-*.avro"} {
		m := objstore.NewMemory("t")
		tbl := create(t, lake.OpenFileCatalog(forgetful{m, lost}), lake.CreateSpec{})
		if _, _, err := tbl.Append(t.Context(), rowsOf(t, 0, 10), lake.WriteOptions{}); !errs.Is(err, errs.Unavailable) {
			t.Errorf("%s lost: %v (%v)", lost, err, errs.KindOf(err))
		}
		wantIDs(t, ids(t, reload(t, lake.OpenFileCatalog(m)), lake.Ref{}), 0)
		if k := objectKinds(t, m); k["data"]+k["manifest"]+k["list"] != 0 {
			t.Errorf("%v is left", k)
		}
	}
}

// forgetful is a store that says it stored an object and did not.
type forgetful struct {
	objstore.Store
	glob string
}

func (f forgetful) Put(ctx context.Context, name string, data []byte, cond objstore.Condition) (objstore.Info, error) {
	info, err := f.Store.Put(ctx, name, data, cond)
	return info, errors.Join(err, f.forget(ctx, name))
}

func (f forgetful) Create(ctx context.Context, name string, cond objstore.Condition) (objstore.Writer, error) {
	w, err := f.Store.Create(ctx, name, cond)
	return forgetfulWriter{w, f, name}, err
}

func (f forgetful) forget(ctx context.Context, name string) error {
	if ok, _ := path.Match(f.glob, path.Base(name)); ok {
		return f.Store.Delete(ctx, name)
	}
	return nil
}

type forgetfulWriter struct {
	objstore.Writer
	f    forgetful
	name string
}

func (w forgetfulWriter) Commit(ctx context.Context) (objstore.Info, error) {
	info, err := w.Writer.Commit(ctx)
	return info, errors.Join(err, w.f.forget(ctx, w.name))
}

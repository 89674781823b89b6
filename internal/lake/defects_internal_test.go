package lake

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"github.com/overlakedb/overlake/internal/budget"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/row"
)

// These tests hold off the defects of iceberg-go and arrow-go that the room works around. Each says what goes wrong
// without the workaround; run them before a new version of either is taken.

var docsIdent = Ident{Namespace: "main", Name: "docs"}

func idSchema() *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
}

func reader(t testing.TB, sc *arrow.Schema, fill func(b *array.RecordBuilder)) array.RecordReader {
	t.Helper()
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
	defer b.Release()
	fill(b)
	rec := b.NewRecordBatch()
	defer rec.Release()
	r, err := array.NewRecordReader(sc, []arrow.RecordBatch{rec})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func idRows(t testing.TB, lo, hi int64) array.RecordReader {
	return reader(t, idSchema(), func(b *array.RecordBuilder) {
		for i := lo; i < hi; i++ {
			b.Field(0).(*array.Int64Builder).Append(i)
		}
	})
}

func makeTable(t testing.TB, c Catalog, spec CreateSpec) *Table {
	t.Helper()
	if spec.Schema == nil {
		spec.Schema = idSchema()
	}
	tbl, err := c.Create(t.Context(), docsIdent, spec)
	if err != nil {
		t.Fatal(err)
	}
	return tbl
}

func add(t testing.TB, tbl *Table, r array.RecordReader) *Table {
	t.Helper()
	next, _, err := tbl.Append(t.Context(), r, WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// theirs reads a column with iceberg-go's own scan: the independent reader of what we wrote.
func theirs(t testing.TB, tbl *Table, column string) []string {
	t.Helper()
	_, batches, err := tbl.ice(t.Context(), &ledger{}).Scan(table.WithSelectedFields(column)).ToArrowRecords(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for rec, err := range batches {
		if err != nil {
			t.Fatal(err)
		}
		for i := range int(rec.NumRows()) {
			out = append(out, rec.Column(0).ValueStr(i))
		}
		rec.Release()
	}
	slices.Sort(out)
	return out
}

// theirPlan reads the ids of the files that iceberg-go keeps for a filter.
func theirPlan(t testing.TB, tbl *Table, filter iceberg.BooleanExpression) (kept []string, files int) {
	t.Helper()
	tasks, err := tbl.ice(t.Context(), &ledger{}).Scan(table.WithRowFilter(filter)).PlanFiles(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	plan, err := tbl.Plan(t.Context(), Ref{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		i := slices.IndexFunc(plan.Files, func(f DataFile) bool { return f.Path == task.File.FilePath() })
		r, err := tbl.ReadFile(t.Context(), &plan.Files[i], []string{"id"}, Ref{}, true)
		if err != nil {
			t.Fatal(err)
		}
		for r.Next() {
			for k := range int(r.RecordBatch().NumRows()) {
				kept = append(kept, r.RecordBatch().Column(0).ValueStr(k))
			}
		}
		r.Release()
	}
	return kept, len(tasks)
}

// ours reads the same column with our reader.
func ours(t testing.TB, tbl *Table, column string) []string {
	t.Helper()
	r, err := tbl.Read(t.Context(), Ref{}, []string{column})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	var out []string
	for r.Next() {
		for i := range int(r.RecordBatch().NumRows()) {
			out = append(out, r.RecordBatch().Column(0).ValueStr(i))
		}
	}
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	slices.Sort(out)
	return out
}

func liveVectors(t testing.TB, tbl *Table) map[string]int {
	t.Helper()
	tasks, err := tbl.ice(t.Context(), &ledger{}).Scan().PlanFiles(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for _, task := range tasks {
		out[task.File.FilePath()] = len(task.DeletionVectorFiles)
	}
	return out
}

// TestOneLiveVector: iceberg-go's replay of a lost commit leaves two deletion vectors on one file, and the table cannot be
// read any more; the property that turns its retries on must change nothing here.
func TestOneLiveVector(t *testing.T) {
	c := OpenFileCatalog(objstore.NewMemory("t"))
	tbl := add(t, makeTable(t, c, CreateSpec{FormatVersion: 3, Properties: map[string]string{"commit.retry.num-retries": "4", "commit.retry.min-wait-ms": "1"}}), idRows(t, 0, 10))
	var path string
	for p := range liveVectors(t, tbl) {
		path = p
	}
	for _, pos := range []int64{3, 5, 7, 5} { // all from one base version: three lost races
		if _, err := tbl.DeleteRows(t.Context(), map[string]*row.Bitmap{path: row.BitmapOf(pos)}); err != nil {
			t.Fatal(err)
		}
	}
	tbl, err := c.Load(t.Context(), docsIdent)
	if err != nil {
		t.Fatal(err)
	}
	if n := liveVectors(t, tbl)[path]; n != 1 {
		t.Errorf("%d live vectors", n)
	}
	want := "[0 1 2 4 6 8 9]"
	if got := fmt.Sprint(ours(t, tbl, "id")); got != want {
		t.Errorf("we read %s", got)
	}
	if got := fmt.Sprint(theirs(t, tbl, "id")); got != want {
		t.Errorf("iceberg-go reads %s", got)
	}
}

// TestVectorsFoldPositionDeletes: after an upgrade from V2, a deletion vector that holds only the new positions brings the
// rows back that V2's position deletes had removed, because readers ignore those once a vector exists.
func TestVectorsFoldPositionDeletes(t *testing.T) {
	c := OpenFileCatalog(objstore.NewMemory("t"))
	tbl := add(t, makeTable(t, c, CreateSpec{}), idRows(t, 0, 10))
	var path string
	for p := range liveVectors(t, tbl) {
		path = p
	}
	tbl, err := tbl.DeleteRows(t.Context(), map[string]*row.Bitmap{path: row.BitmapOf(1, 2, 3)})
	if err != nil {
		t.Fatal(err)
	}
	if tbl, err = tbl.commitUpdates(t.Context(), nil, []table.Update{table.NewUpgradeFormatVersionUpdate(3)}, &ledger{}); err != nil {
		t.Fatal(err)
	}
	if tbl, err = tbl.DeleteRows(t.Context(), map[string]*row.Bitmap{path: row.BitmapOf(8)}); err != nil {
		t.Fatal(err)
	}
	want := "[0 4 5 6 7 9]"
	if got := fmt.Sprint(ours(t, tbl, "id")); got != want {
		t.Errorf("we read %s", got)
	}
	if got := fmt.Sprint(theirs(t, tbl, "id")); got != want {
		t.Errorf("iceberg-go reads %s", got)
	}
}

func TestUpgradeIsNotOffered(t *testing.T) {
	tbl := makeTable(t, OpenFileCatalog(objstore.NewMemory("t")), CreateSpec{})
	if _, err := tbl.SetProperties(t.Context(), map[string]string{"format-version": "3"}); !errs.Is(err, errs.Unsupported) {
		t.Errorf("got %v", err)
	}
}

// TestStaleRequirementIsAConflict: iceberg-go's SQL catalog answers a commit to an old version with a plain error, so that
// nobody retries it.
func TestStaleRequirementIsAConflict(t *testing.T) {
	db, err := OpenSQLiteCatalog(t.Context(), filepath.Join(t.TempDir(), "c.db"), objstore.NewMemory("t"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for name, c := range map[string]Catalog{"file": OpenFileCatalog(objstore.NewMemory("t")), "sqlite": db} {
		stale := makeTable(t, c, CreateSpec{})
		add(t, stale, idRows(t, 0, 1))
		set := []table.Update{table.NewSetPropertiesUpdate(iceberg.Properties{"a": "b"})}
		if _, err := stale.cat.commit(t.Context(), stale, nil, set); !errs.Is(err, errs.Conflict) {
			t.Errorf("%s: a stale commit gave %v (%v)", name, err, errs.KindOf(err))
		}
		fresh, err := c.Load(t.Context(), docsIdent)
		if err != nil {
			t.Fatal(err)
		}
		wrong := []table.Requirement{table.AssertRefSnapshotID("main", nil)}
		if _, err := fresh.cat.commit(t.Context(), fresh, wrong, set); !errs.Is(err, errs.Conflict) {
			t.Errorf("%s: a requirement that does not hold gave %v (%v)", name, err, errs.KindOf(err))
		}
	}
}

// TestFixedSizeLists: the Parquet writer ignores the offset of a sliced fixed-size list and writes rows from the beginning
// of the array again; a NULL list is refused.
func TestFixedSizeLists(t *testing.T) {
	sc := arrow.NewSchema([]arrow.Field{{Name: "v", Type: arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32), Nullable: true,
		Metadata: arrow.MetadataFrom(map[string]string{TypeKey: "vector(2)"})}}, nil)
	tbl := makeTable(t, OpenFileCatalog(objstore.NewMemory("t")), CreateSpec{Schema: sc})
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
	defer b.Release()
	l := b.Field(0).(*array.FixedSizeListBuilder)
	for i := range 10 {
		if i == 6 {
			l.AppendNull()
			continue
		}
		l.Append(true)
		l.ValueBuilder().(*array.Float32Builder).AppendValues([]float32{float32(i), 0.5}, nil)
	}
	rec := b.NewRecordBatch()
	defer rec.Release()
	part := rec.NewSlice(4, 8)
	defer part.Release()
	r, err := array.NewRecordReader(sc, []arrow.RecordBatch{part})
	if err != nil {
		t.Fatal(err)
	}
	tbl = add(t, tbl, r)
	want := "[(null) [4 0.5] [5 0.5] [7 0.5]]"
	for who, got := range map[string][]string{"we": ours(t, tbl, "v"), "iceberg-go": theirs(t, tbl, "v")} {
		s := strings.NewReplacer("[4,0.5]", "[4 0.5]", "[5,0.5]", "[5 0.5]", "[7,0.5]", "[7 0.5]").Replace(fmt.Sprint(got))
		if s != want {
			t.Errorf("%s read %s, want %s", who, s, want)
		}
	}
}

// TestNameMappingFollowsRenames: iceberg-go leaves the property schema.name-mapping.default as it was on a rename.
func TestNameMappingFollowsRenames(t *testing.T) {
	mapping := `[{"field-id":1,"names":["id"]}]`
	tbl := makeTable(t, OpenFileCatalog(objstore.NewMemory("t")), CreateSpec{Properties: map[string]string{table.DefaultNameMappingKey: mapping}})
	tbl, err := tbl.AlterSchema(t.Context(), RenameColumn{From: "id", To: "key"}, AddColumn{Field: arrow.Field{Name: "n", Type: arrow.PrimitiveTypes.Int32, Nullable: true}})
	if err != nil {
		t.Fatal(err)
	}
	var got []struct {
		FieldID int      `json:"field-id"`
		Names   []string `json:"names"`
	}
	if err := json.Unmarshal([]byte(tbl.Properties()[table.DefaultNameMappingKey]), &got); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != "[{1 [id key]} {2 [n]}]" {
		t.Errorf("%v", got)
	}
}

// TestFilesClaimNoOrder: iceberg-go sorts every batch alone and so its files must not claim a sort order; ours are written
// as they come and claim none either.
func TestFilesClaimNoOrder(t *testing.T) {
	tbl := add(t, makeTable(t, OpenFileCatalog(objstore.NewMemory("t")), CreateSpec{}), idRows(t, 0, 10))
	tasks, err := tbl.ice(t.Context(), &ledger{}).Scan().PlanFiles(t.Context())
	if err != nil || len(tasks) != 1 {
		t.Fatal(tasks, err)
	}
	if id := tasks[0].File.SortOrderID(); id != nil && *id != 0 {
		t.Errorf("sort order %d", *id)
	}
}

// TestRowLineage: rows of format version 3 have unique ids across appends, deletes and overwrites, and the table's counter
// is beyond all of them.
func TestRowLineage(t *testing.T) {
	c := OpenFileCatalog(objstore.NewMemory("t"))
	tbl := makeTable(t, c, CreateSpec{FormatVersion: 3})
	seen := map[int64]string{}
	check := func(what string) {
		t.Helper()
		tasks, err := tbl.ice(t.Context(), &ledger{}).Scan().PlanFiles(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			if task.FirstRowID == nil {
				t.Fatalf("%s: a file without row ids", what)
			}
			for id := *task.FirstRowID; id < *task.FirstRowID+task.File.Count(); id++ {
				if other, ok := seen[id]; ok && other != task.File.FilePath() {
					t.Errorf("%s: row id %d in two files", what, id)
				}
				seen[id] = task.File.FilePath()
				if id >= tbl.meta.NextRowID() {
					t.Errorf("%s: row id %d, next is %d", what, id, tbl.meta.NextRowID())
				}
			}
		}
	}
	stale := tbl
	tbl = add(t, tbl, idRows(t, 0, 10))
	check("append")
	tbl = add(t, stale, idRows(t, 10, 15)) // loses a race and is planned again
	check("second append")
	var path string
	for p := range liveVectors(t, tbl) {
		path = p
	}
	tbl, err := tbl.DeleteRows(t.Context(), map[string]*row.Bitmap{path: row.BitmapOf(1)})
	if err != nil {
		t.Fatal(err)
	}
	check("delete")
	if tbl, _, err = tbl.Overwrite(t.Context(), idRows(t, 100, 107), WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	check("overwrite")
	if got := ours(t, tbl, "id"); len(got) != 7 {
		t.Errorf("after the overwrite: %v", got)
	}
	tbl = add(t, tbl, idRows(t, 200, 203))
	check("last append")
	if got, n := theirs(t, tbl, "id"), len(ours(t, tbl, "id")); len(got) != 10 || n != 10 {
		t.Errorf("iceberg-go reads %d rows, we %d", len(got), n)
	}
}

// TestDefaultsAsOthersReadThem: iceberg-go writes the default of a date as a number and of a decimal as an object; the
// specification wants texts.
func TestDefaultsAsOthersReadThem(t *testing.T) {
	tbl := add(t, makeTable(t, OpenFileCatalog(objstore.NewMemory("t")), CreateSpec{FormatVersion: 3}), idRows(t, 0, 2))
	us, ns := &arrow.TimestampType{Unit: arrow.Microsecond}, &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"}
	cases := []struct {
		name string
		typ  arrow.DataType
		def  predicate.Value
		json string
		text string // as read
	}{
		{"b", arrow.FixedWidthTypes.Boolean, true, `true`, "true"},
		{"i", arrow.PrimitiveTypes.Int32, int64(-7), `-7`, "-7"},
		{"l", arrow.PrimitiveTypes.Int64, int64(1) << 40, `1099511627776`, "1099511627776"},
		{"f", arrow.PrimitiveTypes.Float32, 0.5, `0.5`, "0.5"},
		{"d", arrow.PrimitiveTypes.Float64, 2.25, `2.25`, "2.25"},
		{"dec", &arrow.Decimal128Type{Precision: 9, Scale: 2}, predicate.Typed{Type: "decimal", Text: "14.2"}, `"14.20"`, "14.2"},
		{"date", arrow.FixedWidthTypes.Date32, predicate.Typed{Type: "date", Text: "2017-11-16"}, `"2017-11-16"`, "2017-11-16"},
		{"time", arrow.FixedWidthTypes.Time64us, predicate.Typed{Type: "time", Text: "22:31:08.5"}, `"22:31:08.500000"`, "22:31:08.500000"},
		{"ts", us, predicate.Typed{Type: "timestamp", Text: "2017-11-16 22:31:08"}, `"2017-11-16T22:31:08.000000"`, "2017-11-16T22:31:08"},
		{"tz", arrow.FixedWidthTypes.Timestamp_us, predicate.Typed{Type: "timestamptz", Text: "2017-11-16 22:31:08Z"}, `"2017-11-16T22:31:08.000000+00:00"`, "2017-11-16T22:31:08Z"},
		{"nz", ns, predicate.Typed{Type: "timestamptz", Text: "2017-11-16 22:31:08Z"}, `"2017-11-16T22:31:08.000000000+00:00"`, "2017-11-16T22:31:08Z"},
		{"s", arrow.BinaryTypes.String, "it's", `"it's"`, "it's"},
	}
	for _, c := range cases {
		var err error
		if tbl, err = tbl.AlterSchema(t.Context(), AddColumn{Field: arrow.Field{Name: c.name, Type: c.typ, Nullable: c.name != "i"}, Default: c.def}); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
	}
	tbl = add(t, tbl, idRows(t, 2, 3)) // without the columns: they get their defaults
	raw, err := json.Marshal(tbl.meta)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parseMetadata("x", raw)
	if err != nil {
		t.Fatal(err)
	}
	fresh := &Table{id: tbl.id, meta: parsed, location: tbl.location, io: tbl.io, cat: tbl.cat, reload: tbl.reload, shared: tbl.shared}
	for _, c := range cases {
		f, _ := tbl.meta.CurrentSchema().FindFieldByName(c.name)
		got, err := json.Marshal(f.InitialDefault)
		if err != nil || string(got) != c.json {
			t.Errorf("%s is written as %s, want %s", c.name, got, c.json)
		}
		for _, tbl := range []*Table{tbl, fresh} {
			if got := ours(t, tbl, c.name); len(got) != 3 || !strings.HasPrefix(got[0], c.text) || got[2] != got[0] {
				t.Errorf("%s is read as %q, want %q", c.name, got, c.text)
			}
		}
	}
	for name, c := range map[string]AddColumn{
		"an infinity":     {Field: arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Float64, Nullable: true}, Default: math.Inf(1)},
		"too many digits": {Field: arrow.Field{Name: "x", Type: &arrow.Decimal128Type{Precision: 3, Scale: 1}, Nullable: true}, Default: predicate.Typed{Type: "decimal", Text: "1234.5"}},
		"another type":    {Field: arrow.Field{Name: "x", Type: arrow.FixedWidthTypes.Date32, Nullable: true}, Default: "no date"},
	} {
		if _, err := tbl.AlterSchema(t.Context(), c); !errs.Is(err, errs.Invalid) {
			t.Errorf("%s as a default gave %v", name, err)
		}
	}
}

// TestPartitionTransforms writes rows of every type under every transform that applies to it and lets iceberg-go, whose
// pruning relies on the partition values, find each of them.
func TestPartitionTransforms(t *testing.T) {
	us, ns := &arrow.TimestampType{Unit: arrow.Microsecond}, &arrow.TimestampType{Unit: arrow.Nanosecond}
	const n = 7
	columns := []struct {
		name string
		typ  arrow.DataType
		put  func(b array.Builder, i int)
		lit  func(i int) iceberg.Literal
	}{
		{"b", arrow.FixedWidthTypes.Boolean, func(b array.Builder, i int) { b.(*array.BooleanBuilder).Append(i%2 == 0) }, func(i int) iceberg.Literal { return iceberg.NewLiteral(i%2 == 0) }},
		{"i", arrow.PrimitiveTypes.Int32, func(b array.Builder, i int) { b.(*array.Int32Builder).Append(int32(i*7 - 20)) }, func(i int) iceberg.Literal { return iceberg.NewLiteral(int32(i*7 - 20)) }},
		{"l", arrow.PrimitiveTypes.Int64, func(b array.Builder, i int) { b.(*array.Int64Builder).Append(int64(i)<<33 - 5) }, func(i int) iceberg.Literal { return iceberg.NewLiteral(int64(i)<<33 - 5) }},
		{"f", arrow.PrimitiveTypes.Float32, func(b array.Builder, i int) { b.(*array.Float32Builder).Append(float32(i) / 4) }, func(i int) iceberg.Literal { return iceberg.NewLiteral(float32(i) / 4) }},
		{"d", arrow.PrimitiveTypes.Float64, func(b array.Builder, i int) { b.(*array.Float64Builder).Append(float64(i) / 8) }, func(i int) iceberg.Literal { return iceberg.NewLiteral(float64(i) / 8) }},
		{"s", arrow.BinaryTypes.String, func(b array.Builder, i int) { b.(*array.StringBuilder).Append(fmt.Sprintf("äß/=%%%d", i)) }, func(i int) iceberg.Literal { return iceberg.NewLiteral(fmt.Sprintf("äß/=%%%d", i)) }},
		{"bin", arrow.BinaryTypes.Binary, func(b array.Builder, i int) { b.(*array.BinaryBuilder).Append([]byte{byte(i), 0, 255}) }, func(i int) iceberg.Literal { return iceberg.NewLiteral([]byte{byte(i), 0, 255}) }},
		{"fix", &arrow.FixedSizeBinaryType{ByteWidth: 3}, func(b array.Builder, i int) { b.(*array.FixedSizeBinaryBuilder).Append([]byte{byte(i), 0, 255}) }, func(i int) iceberg.Literal { return iceberg.FixedLiteral([]byte{byte(i), 0, 255}) }},
		{"date", arrow.FixedWidthTypes.Date32, func(b array.Builder, i int) { b.(*array.Date32Builder).Append(arrow.Date32(i*40 - 100)) }, func(i int) iceberg.Literal { return iceberg.NewLiteral(iceberg.Date(i*40 - 100)) }},
		{"time", arrow.FixedWidthTypes.Time64us, func(b array.Builder, i int) { b.(*array.Time64Builder).Append(arrow.Time64(i * 1_000_003)) }, func(i int) iceberg.Literal { return iceberg.NewLiteral(iceberg.Time(i * 1_000_003)) }},
		{"ts", us, func(b array.Builder, i int) {
			b.(*array.TimestampBuilder).Append(arrow.Timestamp(i-6) * 86_399_999_999)
		}, func(i int) iceberg.Literal { return iceberg.NewLiteral(iceberg.Timestamp(i-6) * 86_399_999_999) }},
		{"tz", arrow.FixedWidthTypes.Timestamp_us, func(b array.Builder, i int) { b.(*array.TimestampBuilder).Append(arrow.Timestamp(i-6) * 3_599_999_999) }, func(i int) iceberg.Literal { return iceberg.NewLiteral(iceberg.Timestamp(i-6) * 3_599_999_999) }},
		{"tn", ns, func(b array.Builder, i int) {
			b.(*array.TimestampBuilder).Append(arrow.Timestamp(i-6) * 86_399_999_999_999)
		}, func(i int) iceberg.Literal {
			return iceberg.NewLiteral(iceberg.TimestampNano(i-6) * 86_399_999_999_999)
		}},
		{"dec", &arrow.Decimal128Type{Precision: 20, Scale: 2}, func(b array.Builder, i int) {
			b.(*array.Decimal128Builder).Append(decimal128.FromI64(int64(i)*12_345 - 50_000))
		},
			func(i int) iceberg.Literal {
				return iceberg.NewLiteral(iceberg.Decimal{Val: decimal128.FromI64(int64(i)*12_345 - 50_000), Scale: 2})
			}},
	}
	tried := 0
	for _, col := range columns {
		for _, tr := range []string{"identity", "bucket[4]", "truncate[3]", "year", "month", "day", "hour", "void"} {
			sc := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, {Name: col.name, Type: col.typ, Nullable: true}}, nil)
			tbl, err := OpenFileCatalog(objstore.NewMemory("t")).Create(t.Context(), docsIdent, CreateSpec{Schema: sc, FormatVersion: 3, Partition: []PartitionField{{Column: col.name, Transform: tr}}})
			if errs.Is(err, errs.Invalid) && strings.Contains(err.Error(), "does not apply") {
				continue
			}
			if err != nil {
				t.Fatalf("%s(%s): %v", tr, col.name, err)
			}
			tried++
			for range 2 { // the second time all partitions are there
				tbl = add(t, tbl, reader(t, sc, func(b *array.RecordBuilder) {
					for i := range n {
						b.Field(0).(*array.Int64Builder).Append(int64(i))
						col.put(b.Field(1), i)
					}
					b.Field(0).(*array.Int64Builder).Append(n)
					b.Field(1).AppendNull()
				}))
			}
			if got := len(ours(t, tbl, col.name)); got != 2*(n+1) {
				t.Errorf("%s(%s): we read %d rows", tr, col.name, got)
			}
			for i := range n {
				got, files := theirPlan(t, tbl, iceberg.LiteralPredicate(iceberg.OpEQ, iceberg.Reference(col.name), col.lit(i)))
				if !slices.Contains(got, fmt.Sprint(i)) {
					t.Errorf("%s(%s): iceberg-go does not find row %d (%v): %v", tr, col.name, i, col.lit(i), got)
				}
				if tr == "identity" && files != 2 && col.name != "fix" {
					t.Errorf("%s(%s): iceberg-go reads %d files for one value", tr, col.name, files)
				}
			}
			if got, _ := theirPlan(t, tbl, iceberg.IsNull(iceberg.Reference(col.name))); !slices.Contains(got, fmt.Sprint(n)) {
				t.Errorf("%s(%s): iceberg-go finds NULL in %v", tr, col.name, got)
			}
		}
	}
	if tried < 50 {
		t.Errorf("only %d combinations were tried", tried)
	}
}

// TestPartitionsOfNaN: NaN is one partition, and the zeros are found whatever their sign.
func TestPartitionsOfNaN(t *testing.T) {
	sc := arrow.NewSchema([]arrow.Field{{Name: "f", Type: arrow.PrimitiveTypes.Float64, Nullable: true}}, nil)
	tbl := makeTable(t, OpenFileCatalog(objstore.NewMemory("t")), CreateSpec{Schema: sc, Partition: []PartitionField{{Column: "f", Transform: "identity"}}})
	tbl = add(t, tbl, reader(t, sc, func(b *array.RecordBuilder) {
		for range 3 {
			b.Field(0).(*array.Float64Builder).AppendValues([]float64{math.NaN(), 0, math.Copysign(0, -1), 1}, nil)
		}
	}))
	plan, err := tbl.Plan(t.Context(), Ref{}, nil)
	if err != nil || len(plan.Files) != 4 {
		t.Errorf("%d files, %v", len(plan.Files), err)
	}
	for _, zero := range []float64{0, math.Copysign(0, -1)} {
		plan, err := tbl.Plan(t.Context(), Ref{}, predicate.Compare{Column: "f", Op: predicate.Eq, Value: zero})
		if err != nil || plan.Rows < 6 || plan.Rows > 9 {
			t.Errorf("= %v keeps %d rows, want the 6 zeros and not the ones, %v", zero, plan.Rows, err)
		}
	}
}

// anyMemory is as much memory as a test's file takes.
func anyMemory() *budget.Reservation {
	r, err := budget.New(1 << 40).TryReserve(0)
	if err != nil {
		panic(err)
	}
	return r
}

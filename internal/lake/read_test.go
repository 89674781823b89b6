package lake_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
)

// readText reads all rows as JSON, one a line, columns by name.
func readText(t testing.TB, tbl *lake.Table, columns ...string) (string, error) {
	t.Helper()
	r, err := tbl.Read(t.Context(), lake.Ref{}, columns)
	if err != nil {
		return "", err
	}
	defer r.Release()
	var lines []string
	for r.Next() {
		for _, m := range jsonRows(r.RecordBatch()) {
			raw, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, string(raw))
		}
	}
	return strings.Join(lines, "\n"), r.Err()
}

func nested(id int, name string, typ iceberg.Type) iceberg.NestedField {
	return iceberg.NestedField{ID: id, Name: name, Type: typ}
}

// TestNestedEvolution: inside structs, lists and maps, fields are found by id, promoted, defaulted and dropped.
func TestNestedEvolution(t *testing.T) {
	def := nested(14, "d", iceberg.PrimitiveTypes.Int32)
	def.InitialDefault, def.WriteDefault = 5, 5
	now := iceberg.NewSchema(3,
		nested(1, "s", &iceberg.StructType{FieldList: []iceberg.NestedField{
			nested(12, "a", iceberg.PrimitiveTypes.String),   // was b
			nested(11, "wide", iceberg.PrimitiveTypes.Int64), // was a, an int
			nested(13, "new", iceberg.PrimitiveTypes.String),
			def,
		}}),
		nested(2, "l", &iceberg.ListType{ElementID: 20, Element: &iceberg.StructType{FieldList: []iceberg.NestedField{
			nested(22, "y", iceberg.PrimitiveTypes.Float64), nested(23, "z", iceberg.PrimitiveTypes.String)}}}),
		nested(3, "m", &iceberg.MapType{KeyID: 30, KeyType: iceberg.PrimitiveTypes.String, ValueID: 31, ValueType: &iceberg.StructType{FieldList: []iceberg.NestedField{
			nested(33, "v", iceberg.PrimitiveTypes.Int32)}}}),
	)
	store := objstore.NewMemory("t")
	putParquet(t, store, "a.parquet", `
		{"s":{"a":1,"b":"x"},"l":[{"x":1,"y":1.5},null],"m":[{"key":"k","value":{"u":1,"w":2}}]},
		{"s":null,"l":[],"m":[]},
		{"s":{"a":null,"b":null},"l":null,"m":null},
		{"s":{"a":4,"b":"z"},"l":[{"x":3,"y":null}],"m":[{"key":"p","value":null},{"key":"q","value":{"u":5,"w":6}}]}`,
		arrow.Field{Name: "s", Nullable: true, Metadata: fieldID(1), Type: arrow.StructOf(intField(11, "a"), textField(12, "b"))},
		arrow.Field{Name: "l", Nullable: true, Metadata: fieldID(2), Type: arrow.ListOfField(arrow.Field{Name: "element", Nullable: true, Metadata: fieldID(20),
			Type: arrow.StructOf(intField(21, "x"), arrow.Field{Name: "y", Type: arrow.PrimitiveTypes.Float32, Nullable: true, Metadata: fieldID(22)})})},
		arrow.Field{Name: "m", Nullable: true, Metadata: fieldID(3), Type: arrow.MapOfFields(
			arrow.Field{Name: "key", Type: arrow.BinaryTypes.String, Metadata: fieldID(30)},
			arrow.Field{Name: "value", Nullable: true, Metadata: fieldID(31), Type: arrow.StructOf(intField(32, "u"), intField(33, "w"))})})
	tbl := forgery{version: 3, schemas: []*iceberg.Schema{now}, files: []forgedFile{{path: "a.parquet", rows: 4, sequence: 1}}}.mount(t, store)
	got, err := readText(t, tbl)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"l":[{"y":1.5,"z":null},null],"m":[{"key":"k","value":{"v":2}}],"s":{"a":"x","d":5,"new":null,"wide":1}}
{"l":[],"m":[],"s":null}
{"l":null,"m":null,"s":{"a":null,"d":5,"new":null,"wide":null}}
{"l":[{"y":null,"z":null}],"m":[{"key":"p","value":null},{"key":"q","value":{"v":6}}],"s":{"a":"z","d":5,"new":null,"wide":4}}`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	plan, err := tbl.Plan(t.Context(), lake.Ref{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if needs, err := tbl.NeedsMapping(t.Context(), &plan.Files[0]); err != nil || !needs {
		t.Errorf("NeedsMapping is %v, %v", needs, err)
	}
}

// TestFilesWithoutFieldIDs: migrated files are read by the name mapping, or by the names that columns had first.
func TestFilesWithoutFieldIDs(t *testing.T) {
	bare := func(name string, typ arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: typ, Nullable: true}
	}
	first := iceberg.NewSchema(0, nested(1, "a", iceberg.PrimitiveTypes.Int32), nested(2, "S", &iceberg.StructType{FieldList: []iceberg.NestedField{nested(3, "x", iceberg.PrimitiveTypes.Int32)}}))
	// a was renamed to b, and another column took its name; x likewise, inside the struct.
	now := iceberg.NewSchema(1, nested(1, "b", iceberg.PrimitiveTypes.Int64), nested(4, "a", iceberg.PrimitiveTypes.Int32),
		nested(2, "s", &iceberg.StructType{FieldList: []iceberg.NestedField{nested(3, "y", iceberg.PrimitiveTypes.Int32), nested(5, "x", iceberg.PrimitiveTypes.Int32)}}))
	for _, c := range []struct{ mapping, want string }{
		{"", `{"a":null,"b":1,"s":{"x":null,"y":2}}`},
		{`[{"field-id":4,"names":["a","old"]},{"field-id":2,"names":["s"],"fields":[{"field-id":5,"names":["x"]}]}]`, `{"a":1,"b":null,"s":{"x":2,"y":null}}`},
	} {
		store := objstore.NewMemory("t")
		putParquet(t, store, "a.parquet", `{"a":1,"s":{"x":2}}`, bare("a", arrow.PrimitiveTypes.Int32), bare("s", arrow.StructOf(bare("x", arrow.PrimitiveTypes.Int32))))
		f := forgery{schemas: []*iceberg.Schema{first, now}, files: []forgedFile{{path: "a.parquet", rows: 1, sequence: 1}}}
		if c.mapping != "" {
			f.properties = map[string]string{"schema.name-mapping.default": c.mapping}
		}
		if got, err := readText(t, f.mount(t, store)); err != nil || got != c.want {
			t.Errorf("mapping %q: got %s, want %s (%v)", c.mapping, got, c.want, err)
		}
	}
}

// TestForeignStorage: types stored otherwise than we would are converted, and what does not fit is Corrupt.
func TestForeignStorage(t *testing.T) {
	for _, c := range []struct {
		want iceberg.Type
		have arrow.DataType
		json string
		text string // "" for Corrupt
	}{
		{iceberg.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Int32, `5`, `5`},
		{iceberg.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64, `5`, `5`},
		{iceberg.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64, `5000000000`, ``},
		{iceberg.PrimitiveTypes.Float64, arrow.PrimitiveTypes.Float32, `1.5`, `1.5`},
		{iceberg.DecimalTypeOf(12, 2), &arrow.Decimal128Type{Precision: 9, Scale: 2}, `"1.25"`, `"1.25"`},
		{iceberg.PrimitiveTypes.String, arrow.BinaryTypes.Binary, `"aGk="`, `"hi"`},
		{iceberg.PrimitiveTypes.Binary, arrow.BinaryTypes.String, `"hi"`, `"aGk="`},
		{iceberg.FixedTypeOf(2), arrow.BinaryTypes.Binary, `"aGk="`, `"aGk="`},
		{iceberg.FixedTypeOf(3), arrow.BinaryTypes.Binary, `"aGk="`, ``},
		{iceberg.PrimitiveTypes.Timestamp, &arrow.TimestampType{Unit: arrow.Nanosecond}, `"1969-12-31 23:59:59.999999999"`, `"1969-12-31T23:59:59.999999"`},
		{iceberg.PrimitiveTypes.Timestamp, arrow.FixedWidthTypes.Date32, `"2020-01-02"`, `"2020-01-02T00:00:00"`},
		{iceberg.PrimitiveTypes.Int32, arrow.BinaryTypes.String, `"x"`, ``},
		{&iceberg.StructType{FieldList: []iceberg.NestedField{nested(2, "a", iceberg.PrimitiveTypes.Int32)}}, arrow.PrimitiveTypes.Int32, `1`, ``},
	} {
		store := objstore.NewMemory("t")
		putParquet(t, store, "a.parquet", `{"c":`+c.json+`},{"c":null}`, arrow.Field{Name: "c", Type: c.have, Nullable: true, Metadata: fieldID(1)})
		tbl := forgery{schemas: []*iceberg.Schema{iceberg.NewSchema(0, nested(1, "c", c.want))}, files: []forgedFile{{path: "a.parquet", rows: 2, sequence: 1}}}.mount(t, store)
		got, err := readText(t, tbl)
		want := fmt.Sprintf("{\"c\":%s}\n{\"c\":null}", c.text)
		switch {
		case c.text == "":
			if !errs.Is(err, errs.Corrupt) {
				t.Errorf("%v as %v: got %s, %v; want Corrupt", c.have, c.want, got, err)
			}
		case err != nil || got != want:
			t.Errorf("%v as %v: got %s (%v), want %s", c.have, c.want, got, err, want)
		}
	}
}

// TestRequiredColumnThatIsNotThere: a required column without value, default or partition is an error and not NULL.
func TestRequiredColumnThatIsNotThere(t *testing.T) {
	store := objstore.NewMemory("t")
	putParquet(t, store, "a.parquet", `{"id":1}`, intField(1, "id"))
	must := nested(2, "must", iceberg.PrimitiveTypes.Int32)
	must.Required = true
	tbl := forgery{schemas: []*iceberg.Schema{iceberg.NewSchema(0, nested(1, "id", iceberg.PrimitiveTypes.Int32), must)},
		files: []forgedFile{{path: "a.parquet", rows: 1, sequence: 1}}}.mount(t, store)
	if _, err := readText(t, tbl); !errs.Is(err, errs.Corrupt) || !strings.Contains(err.Error(), "must") {
		t.Errorf("got %v", err)
	}
	if got, err := readText(t, tbl, "id"); err != nil || got != `{"id":1}` {
		t.Errorf("the other column: %s, %v", got, err)
	}
}

// TestMountIsReadOnlyAndFindsItsFiles: the recorded location is mapped to where the table was found.
func TestMountIsReadOnlyAndFindsItsFiles(t *testing.T) {
	store := objstore.NewMemory("t")
	putParquet(t, store, "data/a.parquet", `{"id":1}`, arrow.Field{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true, Metadata: fieldID(1)})
	tbl := forgery{schemas: []*iceberg.Schema{idOnly}, files: []forgedFile{{path: "data/a.parquet", rows: 1, sequence: 1}}}.mount(t, store)
	if got, err := readText(t, tbl); err != nil || got != `{"id":1}` {
		t.Errorf("%s, %v", got, err)
	}
	if _, ok := tbl.Store().(objstore.Store); ok || !tbl.ReadOnly() {
		t.Error("a mounted table has a way to write")
	}
	if _, err := tbl.AlterSchema(t.Context(), lake.DropColumn{Name: "id"}); !errs.Is(err, errs.Denied) {
		t.Errorf("altering gave %v", err)
	}
	if _, err := lake.Mount(t.Context(), docs, objstore.NewMemory("empty"), lake.MountOptions{}); !errs.Is(err, errs.NotFound) || errs.HintOf(err) == "" {
		t.Errorf("an empty place gave %v", err)
	}
	// A file outside the table's place is refused, not looked for elsewhere.
	out := forgery{schemas: []*iceberg.Schema{idOnly}, files: []forgedFile{{path: "../../elsewhere/a.parquet", rows: 1, sequence: 1}}}.mount(t, objstore.NewMemory("t"))
	if _, err := out.Plan(t.Context(), lake.Ref{}, nil); err == nil {
		t.Error("a path that climbs out of the table was accepted")
	}
}

// TestMountFollows: Refresh of a mounted directory finds the version another engine has written since.
func TestMountFollows(t *testing.T) {
	store := objstore.NewMemory("t")
	tbl := manyFiles(1).mount(t, store)
	raw, _, err := objstore.ReadAll(t.Context(), store, "metadata/v1.metadata.json", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	next := strings.Replace(string(raw), `"properties":null`, `"properties":{"note":"second"}`, 1)
	if next == string(raw) {
		t.Fatal("the forged metadata has no properties to replace")
	}
	if _, err := store.Put(t.Context(), "metadata/v2.metadata.json", []byte(next), objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
	again, err := tbl.Refresh(t.Context())
	if err != nil || again.Properties()["note"] != "second" || tbl.Properties()["note"] != "" {
		t.Errorf("refreshed to %v (%v)", again.Properties(), err)
	}
	fixed, err := lake.Mount(t.Context(), docs, store, lake.MountOptions{Metadata: "metadata/v1.metadata.json"})
	if err != nil {
		t.Fatal(err)
	}
	if same, err := fixed.Refresh(t.Context()); err != nil || same.Properties()["note"] != "" {
		t.Errorf("a mount of one metadata file moved on (%v)", err)
	}
}

package overlake_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake"
)

// TestAppendDeclaredTypes: rows that come as Arrow batches are rounded, parsed and checked as those of INSERT are.
func TestAppendDeclaredTypes(t *testing.T) {
	export := t.TempDir()
	db, err := overlake.Open(t.Context(), t.TempDir(), overlake.Options{Export: []string{export}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	is := func(name string, typ arrow.DataType, declared string) arrow.Field {
		return arrow.Field{Name: name, Type: typ, Nullable: true, Metadata: arrow.MetadataFrom(map[string]string{"overlake.type": declared})}
	}
	text := arrow.BinaryTypes.String
	sc := arrow.NewSchema([]arrow.Field{is("e", arrow.ListOf(arrow.PrimitiveTypes.Float32), "halfvec(2)"), is("s", text, "sparsevec(3)"), is("b", text, "bit(4)")}, nil)
	table, err := db.CreateTable(t.Context(), "t", overlake.TableSpec{Schema: sc})
	if err != nil {
		t.Fatal(err)
	}
	held, err := table.Schema(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"halfvec(2) list", "sparsevec(3) struct", "bit(4) binary"} {
		f := held.Field(i)
		if d, _ := f.Metadata.GetValue("overlake.type"); d+" "+f.Type.Name() != want {
			t.Errorf("column %s is %s %s, want %s", f.Name, d, f.Type.Name(), want)
		}
	}
	write := func(sc *arrow.Schema, json string) error {
		rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, sc, strings.NewReader(json))
		if err != nil {
			t.Fatal(err)
		}
		defer rec.Release()
		r, err := array.NewRecordReader(sc, []arrow.RecordBatch{rec})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Release()
		_, err = table.Append(t.Context(), r)
		return err
	}
	doubles := arrow.NewSchema([]arrow.Field{{Name: "b", Type: text, Nullable: true}, {Name: "e", Type: arrow.ListOf(arrow.PrimitiveTypes.Float64), Nullable: true}}, nil)
	for _, c := range []struct {
		sc         *arrow.Schema
		json, fail string
	}{
		{sc, `[{"e": [0.1, 2049], "s": "{3:1,1:-2}/3", "b": "1010"}, {"e": null, "s": null, "b": null}]`, ""},
		{doubles, `[{"b": "0001", "e": [0.2, -0.5]}]`, ""},
		{held, `[{"e": [1, 2], "s": {"size": 3, "indices": [1], "values": [4]}, "b": "8A=="}]`, ""},
		{sc, `[{"e": [65520, 0], "s": null, "b": null}]`, `e: "65520" is out of range for type halfvec`},
		{sc, `[{"e": null, "s": "{}/2", "b": null}]`, "s: expected 3 dimensions, not 2"},
		{sc, `[{"e": null, "s": null, "b": "101"}]`, "b: bit string length 3 does not match type bit(4)"},
		{held, `[{"e": null, "s": {"size": 3, "indices": [3], "values": [4]}, "b": null}]`, "s: sparsevec index out of bounds"},
		{held, `[{"e": null, "s": null, "b": "8Q=="}]`, "b: unused bits of bit(4) are set"},
	} {
		err := write(c.sc, c.json)
		if (err == nil) != (c.fail == "") || err != nil && !strings.HasSuffix(err.Error(), c.fail) || err != nil && overlake.KindOf(err) != overlake.KindInvalid {
			t.Errorf("%s gives %v, want %q", c.json, err, c.fail)
		}
	}
	want := "e,s,b\n\"[0.19995117,-0.5]\",,0001\n\"[0.099975586,2048.0]\",\"{1:-2,3:1}/3\",1010\n\"[1.0,2.0]\",{2:4}/3,1111\n,,\n"
	if got := answer(t.Context(), db, "SELECT e, s, b FROM t ORDER BY b"); got != want {
		t.Errorf("got\n%s want\n%s", got, want)
	}
	rows, err := db.SQL(t.Context(), "COPY (SELECT s FROM t WHERE b = ?::BIT) TO 'p.json'", "1010")
	if err != nil {
		t.Fatal(err)
	}
	rows.Close()
	if got, err := os.ReadFile(filepath.Join(export, "p.json")); err != nil || string(got) != "{\"s\":\"{1:-2,3:1}/3\"}\n" {
		t.Errorf("COPY with a parameter wrote %s, %v", got, err)
	}
}

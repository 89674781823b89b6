package declared_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/declared"
	"github.com/overlakedb/overlake/internal/errs"
)

func TestParse(t *testing.T) {
	for _, s := range []string{"vector", "vector(3)", "halfvec", "halfvec(16000)", "sparsevec", "sparsevec(1000000000)", "bit(1)", "bit(83886080)"} {
		if d, ok := declared.Parse(s); !ok || d.String() != s || !d.Holds(d.Storage()) {
			t.Errorf("%s is %v, %v", s, d, ok)
		}
	}
	for _, s := range []string{"", "bit", "bit(0)", "vector(16001)", "halfvec(0)", "halfvec(01)", "sparsevec(1000000001)", "sparsevec(99999999999999999999)", "bit(83886081)", "Vector", "vector(3) ", "list", "vector()"} {
		if d, ok := declared.Parse(s); ok {
			t.Errorf("%q is %v", s, d)
		}
	}
}

func field(name string, typ arrow.DataType, is string) arrow.Field {
	return arrow.Field{Name: name, Type: typ, Nullable: true, Metadata: arrow.MetadataFrom(map[string]string{declared.Key: is})}
}

func TestStored(t *testing.T) {
	floats, text := arrow.ListOf(arrow.PrimitiveTypes.Float32), arrow.BinaryTypes.String
	for _, c := range []struct {
		typ  arrow.DataType
		is   string
		want string // the storage type, or the error
	}{
		{floats, "vector(3)", floats.String()},
		{arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Float32), "halfvec(3)", arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Float32).String()},
		{text, "sparsevec(9)", "struct<size: int32 nullable, indices: list<element: int32, nullable> nullable, values: list<element: float32, nullable> nullable>"},
		{arrow.BinaryTypes.LargeString, "bit(9)", "binary"},
		{arrow.BinaryTypes.Binary, "bit(9)", "binary"},
		{text, "vector(3)", "invalid: v: a vector is held as a list of FLOAT, not utf8"},
		{arrow.ListOf(arrow.PrimitiveTypes.Float64), "halfvec", "invalid: v: a halfvec is held as a list of FLOAT, not list<item: float64, nullable>"},
		{floats, "sparsevec", "invalid: v: a sparsevec is held as a struct of size, indices and values, not list<item: float32, nullable>"},
		{text, "bit", `invalid: v: a column cannot be declared as "bit"`},
	} {
		f, d, ok, err := declared.Stored(field("v", c.typ, c.is))
		got := f.Type.String()
		if err != nil {
			got = errs.KindOf(err).String() + ": " + err.Error()
		}
		if got != c.want || err == nil && (!ok || d.String() != c.is) {
			t.Errorf("%s as %s is\n%s, want\n%s", c.typ, c.is, got, c.want)
		}
	}
	if _, _, ok, err := declared.Stored(arrow.Field{Name: "v", Type: text}); ok || err != nil {
		t.Error(ok, err)
	}
}

// column makes an array of JSON.
func column(t *testing.T, typ arrow.DataType, json string) arrow.Array {
	t.Helper()
	a, _, err := array.FromJSON(memory.DefaultAllocator, typ, strings.NewReader(json))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// take parses and checks a column of a type, as a table does, and prints what comes out.
func take(t *testing.T, d declared.Type, a arrow.Array) string {
	t.Helper()
	sc := arrow.NewSchema([]arrow.Field{{Name: "v", Type: d.Storage(), Nullable: true}}, nil)
	in := arrow.NewSchema([]arrow.Field{{Name: "v", Type: a.DataType(), Nullable: true}}, nil)
	rec := array.NewRecordBatch(in, []arrow.Array{a}, int64(a.Len()))
	defer rec.Release()
	types := map[int]declared.Type{0: d}
	parsed, err := declared.ParseTexts(rec, sc, types)
	if err != nil {
		return err.Error()
	}
	defer parsed.Release()
	checked, err := declared.Check(parsed, types)
	if err != nil {
		return err.Error()
	}
	defer checked.Release()
	return fmt.Sprint(checked.Column(0))
}

func TestCheck(t *testing.T) {
	floats := declared.Type{Name: "vector"}.Storage()
	sparse := declared.Type{Name: "sparsevec"}.Storage()
	one := func(size, indices, values string) string {
		return fmt.Sprintf(`[null, {"size": %s, "indices": %s, "values": %s}]`, size, indices, values)
	}
	for _, c := range []struct {
		is, json, want string
		typ            arrow.DataType
	}{
		{"vector(2)", `[[0.1, 2], null, [65520, 1]]`, "[[0.1 2] (null) [65520 1]]", floats},
		{"vector(2)", `[[1, 2], [1]]`, "v: expected 2 dimensions, not 1", floats},
		{"vector", `[[]]`, "v: vector must have at least 1 dimension", floats},
		{"halfvec(2)", `[[0.1, 2], null, [2049, 65504]]`, "[[0.099975586 2] (null) [2048 65504]]", floats},
		{"halfvec", `[[0.5, 2], [1]]`, "[[0.5 2] [1]]", floats},
		{"halfvec", `[[65520]]`, `v: "65520" is out of range for type halfvec`, floats},
		{"halfvec(1)", `[[1, 2]]`, "v: expected 1 dimensions, not 2", floats},
		{"sparsevec(5)", one("5", "[0, 4]", "[1.5, -2]"), "{[(null) 5] [(null) [0 4]] [(null) [1.5 -2]]}", sparse},
		{"sparsevec", `["{2:0.5,1:-1}/3", null]`, "{[3 (null)] [[0 1] (null)] [[-1 0.5] (null)]}", arrow.BinaryTypes.String},
		{"sparsevec", `["{2:0.5"]`, `v: invalid input syntax for type sparsevec: "{2:0.5"`, arrow.BinaryTypes.String},
		{"sparsevec(2)", `["{2:0.5}/3"]`, `v: expected 2 dimensions, not 3`, arrow.BinaryTypes.LargeString},
		{"sparsevec(5)", one("6", "[0]", "[1]"), "v: expected 5 dimensions, not 6", sparse},
		{"sparsevec", one("5", "[5]", "[1]"), "v: sparsevec index out of bounds", sparse},
		{"sparsevec", one("5", "[1, 0]", "[1, 1]"), "v: sparsevec indices must be in ascending order", sparse},
		{"sparsevec", one("5", "[1]", "[0]"), "v: sparsevec values must not be zero", sparse},
		{"sparsevec", one("5", "[1, 2]", "[1]"), "v: sparsevec has 2 indices and 1 values", sparse},
		{"sparsevec", one("5", "[null]", "[1]"), "v: array must not contain nulls", sparse},
		{"sparsevec", one("5", "[1]", "[null]"), "v: array must not contain nulls", sparse},
		{"sparsevec", one("null", "[1]", "[1]"), "v: array must not contain nulls", sparse},
		{"bit(10)", `["1010101011", null]`, `["\xaa\xc0" (null)]`, arrow.BinaryTypes.String},
		{"bit(10)", `["101"]`, "v: bit string length 3 does not match type bit(10)", arrow.BinaryTypes.String},
		{"bit(3)", `["10x"]`, `v: "x" is not a valid binary digit`, arrow.BinaryTypes.String},
		{"bit(10)", `["qsA=", null]`, `["\xaa\xc0" (null)]`, arrow.BinaryTypes.Binary},
		{"bit(10)", `["qsE="]`, "v: unused bits of bit(10) are set", arrow.BinaryTypes.Binary},
		{"bit(10)", `["qg=="]`, "v: bit(10) is 2 bytes, not 1", arrow.BinaryTypes.Binary},
	} {
		d, ok := declared.Parse(c.is)
		if !ok {
			t.Fatal(c.is)
		}
		a := column(t, c.typ, c.json)
		if got := take(t, d, a); got != c.want {
			t.Errorf("%s from %s is\n%s, want\n%s", c.is, c.json, got, c.want)
		}
		a.Release()
	}
}

// TestCheckSlices: a batch may be a part of a larger one.
func TestCheckSlices(t *testing.T) {
	for _, c := range []struct {
		is, json, want string
		typ            arrow.DataType
	}{
		{"halfvec(2)", `[[1e9, 1], [0.1, 2], null, [0.2, 1], [1e9]]`, "[[0.099975586 2] (null) [0.19995117 1]]", declared.Type{Name: "halfvec"}.Storage()},
		{"sparsevec", `["x", "{1:1}/2", null, "{2:1}/2", "y"]`, "{[2 (null) 2] [[0] (null) [1]] [[1] (null) [1]]}", arrow.BinaryTypes.String},
		{"bit(3)", `["x", "101", null, "111", "y"]`, `["\xa0" (null) "\xe0"]`, arrow.BinaryTypes.String},
	} {
		d, _ := declared.Parse(c.is)
		all := column(t, c.typ, c.json)
		part := array.NewSlice(all, 1, 4)
		if got := take(t, d, part); got != c.want {
			t.Errorf("%s from a part of %s is\n%s, want\n%s", c.is, c.json, got, c.want)
		}
		part.Release()
		all.Release()
	}
	// So may the struct of a sparsevec.
	s := column(t, declared.Type{Name: "sparsevec"}.Storage(), `[{"size": 1, "indices": [9], "values": [1]}, {"size": 2, "indices": [1], "values": [3]}, {"size": 1, "indices": [9], "values": [1]}]`)
	defer s.Release()
	part := array.NewSlice(s, 1, 2)
	defer part.Release()
	if got, want := take(t, declared.Type{Name: "sparsevec"}, part), "{[2] [[1]] [[3]]}"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

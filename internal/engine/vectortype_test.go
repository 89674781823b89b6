package engine_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/engine"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/pgvector"
)

// vectors registers text in and out and operators of the vector type, each with a result that tells it from DuckDB's own.
func vectors(t testing.TB, db *engine.DB) {
	t.Helper()
	two := []engine.Type{engine.Vector, engine.Vector}
	all := []error{
		db.RegisterCast(engine.Cast{From: engine.Text, To: engine.Vector, Cost: 100, Row: func(i int, in *engine.Column, out *engine.Output) error {
			s, ok := strings.CutPrefix(in.Text(i), "[")
			if !ok {
				return errors.New("invalid input syntax for type vector")
			}
			var v []float32
			for p := range strings.SplitSeq(strings.TrimSuffix(s, "]"), ",") {
				f, err := strconv.ParseFloat(strings.TrimSpace(p), 32)
				if err != nil {
					return err
				}
				v = append(v, float32(f))
			}
			out.Floats(i, v)
			return nil
		}}),
		db.RegisterCast(engine.Cast{From: engine.Vector, To: engine.Text, Cost: -1, Row: func(i int, in *engine.Column, out *engine.Output) error {
			out.Text(i, "ours"+strings.ReplaceAll(fmt.Sprint(in.Floats(i)), " ", ","))
			return nil
		}}),
		db.RegisterCast(engine.Cast{From: engine.FloatList, To: engine.Vector, Cost: 10, Row: func(i int, in *engine.Column, out *engine.Output) error {
			out.Floats(i, in.Floats(i))
			return nil
		}}),
	}
	for _, name := range []string{"+", "-", "*", "||"} {
		all = append(all, db.RegisterScalar(engine.Scalar{Name: name, Args: two, Returns: engine.Vector, Row: func(i int, _ []engine.Column, out *engine.Output) error {
			out.Floats(i, []float32{42})
			return nil
		}}))
	}
	for _, name := range []string{"<->", "<=>", "<#>", "<+>", "<!>"} {
		all = append(all, db.RegisterScalar(engine.Scalar{Name: name, Args: two, Returns: engine.Float64, Row: func(i int, _ []engine.Column, out *engine.Output) error {
			out.Float64(i, 42)
			return nil
		}}))
	}
	for _, name := range []string{"=", "<"} {
		all = append(all, db.RegisterScalar(engine.Scalar{Name: name, Args: two, Returns: engine.Bool, Row: func(int, []engine.Column, *engine.Output) error {
			return errors.New("never called")
		}}))
	}
	if err := errors.Join(all...); err != nil {
		t.Fatal(err)
	}
}

// TestOverloadsOfBuiltIns answers: may functions of ours carry DuckDB's names? Scalars and operators yes, for the alias
// type alone; comparisons are syntax and never look a function up; aggregates no.
func TestOverloadsOfBuiltIns(t *testing.T) {
	db := open(t, engine.Config{})
	vectors(t, db)
	for _, c := range []struct{ sql, want string }{
		{"v + w, v - w, v * w, v || w", "[42]|[42]|[42]|[42]"},
		{"v <-> w, v <=> w, v <+> w, v <!> w", "42|42|42|42"},
		{"v + '[3,4]', '[3,4]' + v, v <-> '[3,4]', '[3,4]' <-> v", "[42]|[42]|42|42"},
		{"typeof(v + w)", "vector"},
		{"1 + 2, 1.5 * 2, DATE '2020-01-01' + 3, 'a' || 'b', [1] || [2]", "3|3|2020-01-04|ab|[1,2]"},
		{"[1,2]::FLOAT[] + [3,4]::FLOAT[], [1,2]::FLOAT[] <-> [3,2]::FLOAT[]", "[1,2,3,4]|2"}, // DuckDB's, on plain lists
		{"v = w, v < w, v = '[1, 2]', v IN ('[1,2]', '[5]'), v BETWEEN '[0]' AND '[9]'", "false|true|true|true|true"},
		{"min(v), max(w), count(v), first(v), any_value(w)", "[1,2]|[3,4]|1|[1,2]|[3,4]"},
		{"vector_sum(v), vector_avg(w)", "[1,2]|[3,4]"},
	} {
		want(t, rows(t, db, "SELECT "+c.sql+" FROM (SELECT '[1,2]'::vector AS v, '[3,4]'::vector AS w)"), c.want)
	}
	for _, name := range []string{"sum", "avg"} {
		if err := db.RegisterAggregate(engine.Aggregate{Name: name, Args: []engine.Type{engine.Vector}, Returns: engine.Vector}); err == nil {
			t.Errorf("%s can be overloaded now: vector_%[1]s is not needed any more", name)
		}
		_, err := tryRows(t.Context(), db, "SELECT "+name+"('[1]'::vector)")
		if e, ok := engine.AsSQLError(err); !ok || e.Subtype != "NO_MATCHING_FUNCTION" || e.Call != name+"(vector)" || e.Position != 7 {
			t.Errorf("%s: %v %+v", name, err, e)
		}
	}
	want(t, rows(t, db, "SELECT sum(i), avg(i) FROM range(5) t(i)"), "10|2")
	// List functions do not take the alias; a cast to a list does not help, because it is dropped.
	for _, sql := range []string{"v[1]", "len(v)", "list_sum(v)", "list_sum(v::FLOAT[])", "v <!> [1]::INTEGER[]"} {
		if got, err := tryRows(t.Context(), db, "SELECT "+sql+" FROM (SELECT '[1,2]'::vector AS v)"); err == nil {
			t.Errorf("%s works now and gives %q", sql, got)
		}
	}
}

// TestCastsOfTheAlias answers: where do casts of ours apply? Everywhere but between the alias and its own base type.
func TestCastsOfTheAlias(t *testing.T) {
	db := open(t, engine.Config{})
	vectors(t, db)
	for _, c := range []struct{ sql, want string }{
		{"SELECT '[1,2]'::vector, '[1,2]'::vector::VARCHAR, CAST('[1]' AS vector)", "[1,2]|ours[1,2]|[1]"},
		{"SELECT TRY_CAST('x' AS vector), [1,2]::DOUBLE[]::vector, [1,2]::INTEGER[]::vector", "(null)|[1,2]|[1,2]"},
		{"SELECT v, typeof(v) FROM (VALUES (1, '[0]'::vector), (2, '[3]')) t(i, v)", "[0]|vector\n[3]|vector"},
		{"SELECT typeof(coalesce(v, '[2]')), typeof(CASE WHEN v IS NULL THEN '[1]' ELSE v END), typeof({'a': v}), typeof([v]) FROM (SELECT '[1]'::vector AS v)", "vector|vector|STRUCT(a vector)|vector[]"},
		{"SELECT typeof(v), typeof(list(v)), typeof(max(v)), typeof(first(v)) FROM (SELECT '[1]'::vector AS v) GROUP BY v", "vector|vector[]|vector|vector"},
		{"WITH x AS (SELECT '[1]'::vector v), y AS MATERIALIZED (SELECT * FROM x) SELECT typeof(v), typeof(lag(v) OVER ()) FROM y JOIN x USING (v)", "vector|vector"},
		{"SELECT typeof(v) FROM (SELECT '[1]'::vector v UNION ALL SELECT '[2]'::vector)", "vector\nvector"},
		{"SELECT v FROM (VALUES ('[2]'::vector), ('[1]'), ('[1,0]'), (NULL)) t(v) ORDER BY v", "[1]\n[1,0]\n[2]\n(null)"},
		// The trap: between the alias and its base type a cast is dropped, ours is not called, and the type stays what it was.
		{"SELECT typeof(v::vector), typeof('[1]'::vector::FLOAT[]), v::vector + v::vector FROM (SELECT [7]::FLOAT[] AS v)", "FLOAT[]|vector|[7,7]"},
	} {
		want(t, rows(t, db, c.sql), strings.Split(c.want, "\n")...)
	}
	if _, err := tryRows(t.Context(), db, "SELECT 'x'::vector"); !errs.Is(err, errs.Invalid) {
		t.Errorf("a bad text gave %v", err)
	}
	if _, err := tryRows(t.Context(), db, "SELECT '[1]'::vector UNION ALL SELECT [2]::FLOAT[]"); err == nil {
		t.Error("a list unites with a vector now")
	}
	// The way around it: a function. Its result has the type, and it can check what a cast would have.
	err := db.RegisterScalar(engine.Scalar{Name: "as_vector", Args: []engine.Type{engine.FloatList}, Returns: engine.Vector, Row: func(i int, a []engine.Column, out *engine.Output) error {
		if a[0].HasNullElement(i) {
			return errors.New("array must not contain nulls")
		}
		out.Floats(i, a[0].Floats(i))
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	want(t, rows(t, db, "SELECT typeof(as_vector(v)), as_vector(v) + as_vector(v) FROM (SELECT [7]::FLOAT[] AS v)"), "vector|[42]")
	if _, err := tryRows(t.Context(), db, "SELECT as_vector([1, NULL]::FLOAT[])"); !errs.Is(err, errs.Invalid) {
		t.Errorf("a NULL element gave %v", err)
	}
}

// TestAliasComesInAndGoesOut: through read_parquet's schema, and in the type of results.
func TestAliasComesInAndGoesOut(t *testing.T) {
	db := open(t, engine.Config{})
	vectors(t, db)
	check := func(from string) {
		t.Helper()
		want(t, rows(t, db, "SELECT typeof(emb), emb + emb, emb <-> '[1,2]' FROM "+from), "vector|[42]|42")
		r, err := db.Query(t.Context(), "SELECT emb, emb + emb AS s, [1]::FLOAT[] AS l FROM "+from)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for i, name := range []string{"vector", "vector", ""} {
			if got, _ := r.Schema().Field(i).Metadata.GetValue(engine.TypeKey); got != name {
				t.Errorf("column %d has type %q, want %q", i, got, name)
			}
		}
	}
	path := fieldIDs(t, db, "SELECT [1, 2]::FLOAT[] AS emb", "{emb: {__duckdb_field_id: 2, element: 3}}")
	check("read_parquet('" + path + "', schema = MAP {2: {name: 'emb', type: 'vector', default_value: NULL}})")
}

// TestOtherAliases: halfvec is another type than vector to functions, though a cast between them is dropped; sparsevec is
// none of them, sorts by its bytes and comes out as text.
func TestOtherAliases(t *testing.T) {
	db := open(t, engine.Config{})
	vectors(t, db)
	all := []error{
		db.RegisterCast(engine.Cast{From: engine.Text, To: engine.Sparsevec, Cost: 100, Row: func(i int, in *engine.Column, out *engine.Output) error {
			var v vec.Sparse
			if in.Text(i) == "broken" {
				out.Bytes(i, []byte("broken"))
				return nil
			}
			err := pgvector.ParseSparse(in.Text(i), &v)
			out.Bytes(i, pgvector.AppendSparseKey(nil, &v))
			return err
		}}),
		db.RegisterCast(engine.Cast{From: engine.Text, To: engine.Halfvec, Cost: 100, Row: func(i int, _ *engine.Column, out *engine.Output) error {
			out.Floats(i, []float32{7})
			return nil
		}}),
	}
	for typ, name := range map[engine.Type]string{engine.Vector: "vector", engine.Halfvec: "halfvec", engine.Sparsevec: "sparsevec", engine.FloatList: "list"} {
		all = append(all, db.RegisterScalar(engine.Scalar{Name: "kind", Args: []engine.Type{typ}, Returns: engine.Text, Row: func(i int, _ []engine.Column, out *engine.Output) error {
			out.Text(i, name)
			return nil
		}}))
	}
	all = append(all, db.RegisterScalar(engine.Scalar{Name: "copy", Args: []engine.Type{engine.FloatList}, Returns: engine.FloatList, Row: func(i int, a []engine.Column, out *engine.Output) error {
		out.List(i, &a[0])
		return nil
	}}))
	if err := errors.Join(all...); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ sql, want string }{
		{"SELECT kind('[1]'::vector), kind('[1]'::halfvec), kind('{}/1'::sparsevec), kind([1]::FLOAT[])", "vector|halfvec|sparsevec|list"},
		{"SELECT kind('[1]'::vector::halfvec), kind('[1]'::halfvec::FLOAT[])", "vector|halfvec"},
		{"SELECT v, typeof(v) FROM (VALUES ('{2:1}/3'::sparsevec), ('{1:1}/3'), (NULL), ('{1:-1}/3')) t(v) ORDER BY v", "{1:-1}/3|sparsevec\n{2:1}/3|sparsevec\n{1:1}/3|sparsevec\n(null)|sparsevec"},
		{"SELECT '{1:1}/2'::sparsevec = '{1:1}/2', ['{1:1}/2'::sparsevec], {'a': '{}/2'::sparsevec}", `true|["{1:1}/2"]|{"a":"{}/2"}`},
		{"SELECT copy([1, NULL, 3]), copy(l) FROM (VALUES ([NULL]::FLOAT[]), ([]), (NULL), ([2, NULL])) t(l)", "[1,null,3]|[null]\n[1,null,3]|[]\n[1,null,3]|(null)\n[1,null,3]|[2,null]"},
	} {
		want(t, rows(t, db, c.sql), strings.Split(c.want, "\n")...)
	}
	for _, sql := range []string{"SELECT 'x'::BLOB::sparsevec", "SELECT '{}/1'::sparsevec::BLOB", "SELECT '{}/1'::sparsevec || '{}/1'::sparsevec", "SELECT octet_length('{}/1'::sparsevec)"} {
		if got, err := tryRows(t.Context(), db, sql); err == nil {
			t.Errorf("%s works now and gives %q", sql, got)
		}
	}
	if _, err := tryRows(t.Context(), db, "SELECT 'broken'::sparsevec"); !errs.Is(err, errs.Corrupt) {
		t.Errorf("a broken key gave %v", err)
	}
	r, err := db.Query(t.Context(), "SELECT '{}/1'::sparsevec, '[1]'::halfvec, '1'::BIT")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for i, name := range []string{"sparsevec", "halfvec", ""} {
		if got, _ := r.Schema().Field(i).Metadata.GetValue(engine.TypeKey); got != name {
			t.Errorf("column %d has type %q, want %q", i, got, name)
		}
	}
}

// TestBits: bits come as PostgreSQL packs them, and go so; the engine keeps them otherwise, and takes none at all.
func TestBits(t *testing.T) {
	db := open(t, engine.Config{})
	err := errors.Join(
		db.RegisterScalar(engine.Scalar{Name: "bytes_of", Args: []engine.Type{engine.Bit}, Returns: engine.Text, Row: func(i int, a []engine.Column, out *engine.Output) error {
			b, n := a[0].Bits(i, nil)
			out.Text(i, fmt.Sprintf("%x/%d", b, n))
			return nil
		}}),
		db.RegisterScalar(engine.Scalar{Name: "bits_of", Args: []engine.Type{engine.Blob, engine.Int32}, Returns: engine.Bit, Row: func(i int, a []engine.Column, out *engine.Output) error {
			out.Bits(i, a[0].Bytes(i), int(a[1].Int32(i)))
			return nil
		}}))
	if err != nil {
		t.Fatal(err)
	}
	text := "1011001110001111000011111000001"
	for n := 1; n <= len(text); n++ {
		s := text[:n]
		want(t, rows(t, db, "SELECT bits_of(unhex(split_part(bytes_of('"+s+"'), '/', 1)), "+strconv.Itoa(n)+"), bits_of(unhex(split_part(bytes_of('"+s+"'), '/', 1)), "+strconv.Itoa(n)+") = '"+s+"'"), s+"|true")
	}
	want(t, rows(t, db, "SELECT bytes_of('101'), bytes_of('101010101'), bytes_of(bits_of(''::BLOB, 0))"), "a0/3|aa80/9|/0")
	want(t, rows(t, db, "SELECT bits_of('', 0), length(bits_of('', 0)), bit_count(bits_of('', 0)), bits_of('', 0) = bits_of('', 0), bits_of('', 0)::VARCHAR, bits_of('', 0) || '1', bits_of('', 0) & bits_of('', 0)"),
		"|0|0|true||1|")
}

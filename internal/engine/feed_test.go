package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/engine"
	"github.com/overlakedb/overlake/internal/errs"
)

// batchOf makes a batch from JSON.
func batchOf(t testing.TB, mem memory.Allocator, schema *arrow.Schema, json string) arrow.RecordBatch {
	t.Helper()
	rec, _, err := array.RecordFromJSON(mem, schema, strings.NewReader(json))
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// TestFeedTypes: for every Arrow type the engine's type and values, also from a slice that does not begin at row 0, and
// inside a list and a struct.
func TestFeedTypes(t *testing.T) {
	db := open(t, engine.Config{})
	kv := arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int32)
	for _, c := range []struct {
		typ    arrow.DataType
		a, b   string // JSON values; NULL stands between them
		duck   string
		wa, wb string // as text of the engine
	}{
		{arrow.FixedWidthTypes.Boolean, `true`, `false`, "BOOLEAN", "true", "false"},
		{arrow.PrimitiveTypes.Int8, `-7`, `7`, "TINYINT", "-7", "7"},
		{arrow.PrimitiveTypes.Int16, `-700`, `700`, "SMALLINT", "-700", "700"},
		{arrow.PrimitiveTypes.Int32, `-70000`, `7`, "INTEGER", "-70000", "7"},
		{arrow.PrimitiveTypes.Int64, `-7000000000`, `7`, "BIGINT", "-7000000000", "7"},
		{arrow.PrimitiveTypes.Uint8, `200`, `7`, "UTINYINT", "200", "7"},
		{arrow.PrimitiveTypes.Uint16, `60000`, `7`, "USMALLINT", "60000", "7"},
		{arrow.PrimitiveTypes.Uint32, `4000000000`, `7`, "UINTEGER", "4000000000", "7"},
		{arrow.PrimitiveTypes.Uint64, `18446744073709551615`, `7`, "UBIGINT", "18446744073709551615", "7"},
		{arrow.FixedWidthTypes.Float16, `1.5`, `-0.25`, "FLOAT", "1.5", "-0.25"},
		{arrow.PrimitiveTypes.Float32, `1.5`, `-0.25`, "FLOAT", "1.5", "-0.25"},
		{arrow.PrimitiveTypes.Float64, `1.5`, `-0.25`, "DOUBLE", "1.5", "-0.25"},
		{&arrow.Decimal128Type{Precision: 4, Scale: 2}, `"-12.34"`, `"0.01"`, "DECIMAL(4,2)", "-12.34", "0.01"},
		{&arrow.Decimal128Type{Precision: 9, Scale: 2}, `"-1234567.89"`, `"0.01"`, "DECIMAL(9,2)", "-1234567.89", "0.01"},
		{&arrow.Decimal128Type{Precision: 18, Scale: 3}, `"-123456789012345.678"`, `"0.010"`, "DECIMAL(18,3)", "-123456789012345.678", "0.010"},
		{&arrow.Decimal128Type{Precision: 38, Scale: 10}, `"-1234567890123456789012345678.0123456789"`, `"0.0000000001"`, "DECIMAL(38,10)", "-1234567890123456789012345678.0123456789", "0.0000000001"},
		{&arrow.Decimal64Type{Precision: 10, Scale: 1}, `"-1.5"`, `"2.5"`, "DECIMAL(10,1)", "-1.5", "2.5"},
		{arrow.FixedWidthTypes.Date32, `"1969-12-30"`, `"2024-02-29"`, "DATE", "1969-12-30", "2024-02-29"},
		{arrow.FixedWidthTypes.Date64, `"1969-12-30"`, `"2024-02-29"`, "DATE", "1969-12-30", "2024-02-29"},
		{arrow.FixedWidthTypes.Time32s, `"23:59:58"`, `"00:00:01"`, "TIME", "23:59:58", "00:00:01"},
		{arrow.FixedWidthTypes.Time32ms, `"23:59:58.123"`, `"00:00:01"`, "TIME", "23:59:58.123", "00:00:01"},
		{arrow.FixedWidthTypes.Time64us, `"23:59:58.123456"`, `"00:00:01"`, "TIME", "23:59:58.123456", "00:00:01"},
		{arrow.FixedWidthTypes.Time64ns, `"23:59:58.123456789"`, `"00:00:01"`, "TIME_NS", "23:59:58.123456789", "00:00:01"},
		{&arrow.TimestampType{Unit: arrow.Second}, `"1969-12-31 23:59:59"`, `"2024-02-29 01:02:03"`, "TIMESTAMP_S", "1969-12-31 23:59:59", "2024-02-29 01:02:03"},
		{&arrow.TimestampType{Unit: arrow.Millisecond}, `"1969-12-31 23:59:59.5"`, `"2024-02-29 01:02:03"`, "TIMESTAMP_MS", "1969-12-31 23:59:59.5", "2024-02-29 01:02:03"},
		{&arrow.TimestampType{Unit: arrow.Microsecond}, `"1969-12-31 23:59:59.000001"`, `"2024-02-29 01:02:03"`, "TIMESTAMP", "1969-12-31 23:59:59.000001", "2024-02-29 01:02:03"},
		{&arrow.TimestampType{Unit: arrow.Nanosecond}, `"1969-12-31 23:59:59.000000001"`, `"2024-02-29 01:02:03"`, "TIMESTAMP_NS", "1969-12-31 23:59:59.000000001", "2024-02-29 01:02:03"},
		{&arrow.TimestampType{Unit: arrow.Second, TimeZone: "UTC"}, `"1969-12-31 23:59:59Z"`, `"2024-02-29 01:02:03Z"`, "TIMESTAMP WITH TIME ZONE", "1969-12-31 23:59:59+00", "2024-02-29 01:02:03+00"},
		{&arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "Europe/Berlin"}, `"1969-12-31 23:59:59.000001Z"`, `"2024-02-29 01:02:03Z"`, "TIMESTAMP WITH TIME ZONE", "1969-12-31 23:59:59.000001+00", "2024-02-29 01:02:03+00"},
		{&arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"}, `"1969-12-31 23:59:59.000001001Z"`, `"2024-02-29 01:02:03Z"`, "TIMESTAMP WITH TIME ZONE", "1969-12-31 23:59:59.000001+00", "2024-02-29 01:02:03+00"},
		{arrow.FixedWidthTypes.MonthDayNanoInterval, `{"months": 14, "days": -2, "nanoseconds": 3500000000}`, `{"months": 0, "days": 1, "nanoseconds": 0}`, "INTERVAL", "1 year 2 months -2 days 00:00:03.5", "1 day"},
		{arrow.BinaryTypes.String, `"short"`, `"longer than twelve bytes é"`, "VARCHAR", "short", "longer than twelve bytes é"},
		{arrow.BinaryTypes.LargeString, `""`, `"longer than twelve bytes é"`, "VARCHAR", "", "longer than twelve bytes é"},
		{arrow.BinaryTypes.StringView, `"exactly12byt"`, `"longer than twelve bytes é"`, "VARCHAR", "exactly12byt", "longer than twelve bytes é"},
		{arrow.BinaryTypes.Binary, `"AGE="`, `"YmI="`, "BLOB", `\x00a`, "bb"},
		{arrow.BinaryTypes.LargeBinary, `"AGE="`, `"YmI="`, "BLOB", `\x00a`, "bb"},
		{&arrow.FixedSizeBinaryType{ByteWidth: 2}, `"AGE="`, `"YmI="`, "BLOB", `\x00a`, "bb"},
		{extensions.NewUUIDType(), `"c4f8a0b2-0000-4000-8000-0000000000ff"`, `"00000000-0000-0000-0000-000000000000"`, "UUID", "c4f8a0b2-0000-4000-8000-0000000000ff", "00000000-0000-0000-0000-000000000000"},
		{arrow.ListOf(arrow.PrimitiveTypes.Float32), `[1.5, null, 2]`, `[]`, "FLOAT[]", "[1.5, NULL, 2.0]", "[]"},
		{arrow.LargeListOf(arrow.BinaryTypes.String), `["a", null]`, `["longer than twelve bytes"]`, "VARCHAR[]", "[a, NULL]", "[longer than twelve bytes]"},
		{arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Int32), `[1, 2]`, `[3, null]`, "INTEGER[]", "[1, 2]", "[3, NULL]"},
		{arrow.ListOf(arrow.ListOf(arrow.PrimitiveTypes.Int32)), `[[1], [], null, [2, 3]]`, `[[4]]`, "INTEGER[][]", "[[1], [], NULL, [2, 3]]", "[[4]]"},
		{arrow.StructOf(arrow.Field{Name: "x y", Type: arrow.PrimitiveTypes.Int32, Nullable: true}, arrow.Field{Name: "l", Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true}), `{"x y": 1, "l": ["a"]}`, `{"x y": null, "l": null}`, `STRUCT("x y" INTEGER, l VARCHAR[])`, "{'x y': 1, 'l': [a]}", "{'x y': NULL, 'l': NULL}"},
		{kv, `[{"key": "k", "value": 1}, {"key": "l", "value": null}]`, `[]`, "MAP(VARCHAR, INTEGER)", "{k=1, l=NULL}", "{}"},
		{&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}, `"a"`, `"longer than twelve bytes"`, "VARCHAR", "a", "longer than twelve bytes"},
		{arrow.Null, `null`, `null`, "INTEGER", "NULL", "NULL"},
	} {
		t.Run(c.typ.String(), func(t *testing.T) {
			for _, in := range []struct {
				typ                arrow.DataType
				json, access, duck string
			}{
				{c.typ, "%s", "v", "%s"},
				{arrow.ListOf(c.typ), "[null, %s]", "v[2]", "%s[]"},
				{arrow.StructOf(arrow.Field{Name: "f", Type: c.typ, Nullable: true}), `{"f": %s}`, "v.f", "STRUCT(f %s)"},
			} {
				typ, wrap, access, duck := in.typ, in.json, in.access, fmt.Sprintf(in.duck, c.duck)
				schema := arrow.NewSchema([]arrow.Field{{Name: "other", Type: arrow.PrimitiveTypes.Int32, Nullable: true}, {Name: "v", Type: typ, Nullable: true}}, nil)
				row := func(v string) string { return `{"other": 1, "v": ` + fmt.Sprintf(wrap, v) + `}` }
				rec := batchOf(t, memory.DefaultAllocator, schema, "["+row(c.b)+","+row(c.a)+","+row("null")+","+row(c.b)+"]")
				defer rec.Release()
				part := rec.NewSlice(1, 4)
				defer part.Release()
				from, release, err := db.NewBatchFeed(schema, []arrow.RecordBatch{part})
				if err != nil {
					t.Fatal(err)
				}
				want(t, rows(t, db, "SELECT typeof(v), coalesce("+access+"::VARCHAR, 'NULL') FROM "+from), duck+"|"+c.wa, duck+"|NULL", duck+"|"+c.wb)
				release()
			}
		})
	}
	for _, typ := range []arrow.DataType{
		&arrow.Decimal256Type{Precision: 60}, arrow.SparseUnionOf(nil, nil), arrow.FixedWidthTypes.Duration_s, arrow.FixedWidthTypes.MonthInterval,
		arrow.ListOf(&arrow.Decimal256Type{Precision: 60}), arrow.StructOf(), arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int32),
	} {
		_, _, err := db.NewBatchFeed(arrow.NewSchema([]arrow.Field{{Name: "c", Type: typ}}, nil), nil)
		if !errs.Is(err, errs.Unsupported) || !strings.Contains(fmt.Sprint(err), "c") {
			t.Errorf("%s gave %v", typ, err)
		}
	}
}

// manyRows makes batches of odd lengths, 200,000 rows in all.
func manyRows(t testing.TB) (*arrow.Schema, []arrow.RecordBatch) {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, {Name: "s", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "v", Type: arrow.ListOf(arrow.PrimitiveTypes.Float32), Nullable: true}, {Name: "n", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
	}, nil)
	var out []arrow.RecordBatch
	for row, size := 0, 1; row < 200_000; size = size*3%7001 + 1 {
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		for i := row; i < min(row+size, 200_000); i++ {
			b.Field(0).(*array.Int64Builder).Append(int64(i))
			b.Field(1).(*array.StringBuilder).Append(fmt.Sprintf("text number %d", i))
			lb := b.Field(2).(*array.ListBuilder)
			lb.Append(true)
			for k := range i % 5 {
				lb.ValueBuilder().(*array.Float32Builder).Append(float32(i + k))
			}
			if i%3 == 0 {
				b.Field(3).AppendNull()
			} else {
				b.Field(3).(*array.Int32Builder).Append(int32(i))
			}
		}
		row += size
		out = append(out, b.NewRecordBatch())
		b.Release()
	}
	return schema, out
}

// TestFeedProjection: the reader is asked for the columns that a query uses, order is kept, and threads share the work.
func TestFeedProjection(t *testing.T) {
	db := open(t, engine.Config{Threads: 4})
	schema, batches := manyRows(t)
	var mu sync.Mutex
	var asked []string
	from, release, err := db.NewColumnFeed(schema, 5, func(columns []int) (array.RecordReader, error) {
		mu.Lock()
		asked = append(asked, fmt.Sprint(columns))
		mu.Unlock()
		fields := make([]arrow.Field, len(columns))
		for i, c := range columns {
			fields[i] = schema.Field(c)
		}
		sc := arrow.NewSchema(fields, nil)
		var recs []arrow.RecordBatch
		for _, b := range batches {
			cols := make([]arrow.Array, len(columns))
			for i, c := range columns {
				cols[i] = b.Column(c)
			}
			recs = append(recs, array.NewRecordBatch(sc, cols, b.NumRows()))
		}
		return array.NewRecordReader(sc, recs)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	for _, c := range []struct{ sql, columns, want string }{
		{"SELECT count(*) FROM %s", "[[0]]", "200000"}, // the engine counts the rows of any one column
		{"SELECT sum(n), count(n), sum(id) FROM %s", "[[0 3]]", "13333266667|133333|19999900000"},
		{"SELECT sum(len(v)), sum(list_sum(v))::BIGINT FROM %s", "[[2]]", "400000|40000600000"},
		{"SELECT n, s, id FROM %s WHERE id = 123457", "[[0 1 3]]", "123457|text number 123457|123457"},
		{"SELECT id FROM %s LIMIT 1 OFFSET 150000", "[[0]]", "150000"},
		{"SELECT count(*) FROM %[1]s a JOIN %[1]s b ON a.id = b.n", "[[0] [3]]", "133333"},
		{"SELECT bool_and(id = r) FROM (SELECT id, row_number() OVER () - 1 AS r FROM %s)", "[[0]]", "true"},
		{"SELECT count(DISTINCT s), min(s), max(s) FROM %s", "[[1]]", "200000|text number 0|text number 99999"},
	} {
		asked = nil
		want(t, rows(t, db, fmt.Sprintf(c.sql, from)), c.want)
		if got := fmt.Sprint(asked); got != c.columns && got != "[[3] [0]]" {
			t.Errorf("%s asked for %s, want %s", c.sql, got, c.columns)
		}
	}
	i := int64(0)
	r, err := db.Query(t.Context(), "SELECT id, s FROM "+from)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for r.Next() {
		for _, v := range r.Record().Column(0).(*array.Int64).Int64Values() {
			if v != i {
				t.Fatalf("row %d came as %d: the order is lost", v, i)
			}
			i++
		}
	}
}

// failing is a reader that fails at once.
type failing struct{ err error }

func (f failing) Retain()                        {}
func (f failing) Release()                       {}
func (f failing) Schema() *arrow.Schema          { return nil }
func (f failing) Next() bool                     { return false }
func (f failing) RecordBatch() arrow.RecordBatch { return nil }
func (f failing) Record() arrow.RecordBatch      { return nil }
func (f failing) Err() error                     { return f.err }

// TestFeedErrors: unknown numbers, readers that fail, and batches that are not what was promised.
func TestFeedErrors(t *testing.T) {
	db := open(t, engine.Config{})
	schema := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int64}}, nil)
	for _, sql := range []string{"SELECT * FROM overlake_feed(0)", "SELECT * FROM overlake_feed(-1)", "SELECT * FROM overlake_feed(9223372036854775807)", "SELECT * FROM overlake_feed(NULL)"} {
		if _, err := tryRows(t.Context(), db, sql); !errs.Is(err, errs.NotFound) && !errs.Is(err, errs.Invalid) {
			t.Errorf("%s gave %v (%v)", sql, err, errs.KindOf(err))
		}
	}
	broken := errs.New(errs.Unavailable, "lake.read", "the store is away", errs.Hint("wait"))
	for name, open := range map[string]func() (array.RecordReader, error){
		"open":  func() (array.RecordReader, error) { return nil, broken },
		"panic": func() (array.RecordReader, error) { panic(broken.Error()) },
		"next": func() (array.RecordReader, error) {
			return failing{broken}, nil
		},
		"type": func() (array.RecordReader, error) {
			sc := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.BinaryTypes.String}}, nil)
			return array.NewRecordReader(sc, []arrow.RecordBatch{batchOf(t, memory.DefaultAllocator, sc, `[{"a": "x"}]`)})
		},
	} {
		from, release, err := db.NewFeed(schema, open)
		if err != nil {
			t.Fatal(err)
		}
		_, err = tryRows(t.Context(), db, "SELECT a FROM "+from)
		switch name {
		case "open", "next":
			if !errors.Is(err, broken) || !errs.Is(err, errs.Unavailable) || errs.HintOf(err) != "wait" || err.Error() != broken.Error() {
				t.Errorf("%s: got %v (%v)", name, err, errs.KindOf(err))
			}
		default:
			if !errs.Is(err, errs.Internal) {
				t.Errorf("%s: got %v (%v)", name, err, errs.KindOf(err))
			}
		}
		release()
	}
}

// TestFeedText: text that is not UTF-8 is an error, wherever the bad byte lies, but not under a NULL.
func TestFeedText(t *testing.T) {
	db := open(t, engine.Config{})
	schema := arrow.NewSchema([]arrow.Field{{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true}}, nil)
	long := strings.Repeat("x", 20)
	for _, c := range []struct {
		bytes   string
		offsets []int32
		null    int // row, or -1
		want    string
	}{
		{"ab\xffc", []int32{0, 2, 4}, -1, "corrupt"},
		{long + "\xff" + long, []int32{0, 10, 41}, -1, "corrupt"},
		{"é", []int32{0, 1, 2}, -1, "corrupt"}, // one character cut in two
		{"\xffé", []int32{0, 1, 3}, 0, "NULL é"},
		{"é" + long, []int32{0, 2, 22}, -1, "é " + long},
		{"", []int32{0, 0, 0}, -1, " "},
	} {
		valid := []byte{0xff}
		nulls := 0
		if c.null >= 0 {
			valid[0], nulls = ^(1 << c.null), 1
		}
		d := array.NewData(arrow.BinaryTypes.String, 2, []*memory.Buffer{memory.NewBufferBytes(valid),
			memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(c.offsets)), memory.NewBufferBytes([]byte(c.bytes))}, nil, nulls, 0)
		rec := array.NewRecordBatch(schema, []arrow.Array{array.NewStringData(d)}, 2)
		from, release, err := db.NewBatchFeed(schema, []arrow.RecordBatch{rec})
		if err != nil {
			t.Fatal(err)
		}
		got, err := tryRows(t.Context(), db, "SELECT coalesce(s, 'NULL') FROM "+from)
		release()
		if c.want == "corrupt" {
			if !errs.Is(err, errs.Corrupt) {
				t.Errorf("%q gave %q, %v", c.bytes, got, err)
			}
		} else if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%q gave %q, %v", c.bytes, got, err)
		}
	}
}

// TestFeedKeepsNothing: every reading is closed and all Arrow memory given back, also when queries end early.
func TestFeedKeepsNothing(t *testing.T) {
	db := open(t, engine.Config{Threads: 2})
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer mem.AssertSize(t, 0)
	before := engine.FeedHandles()
	schema := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int64}, {Name: "b", Type: arrow.BinaryTypes.String}}, nil)
	rec := batchOf(t, mem, schema, `[{"a": 1, "b": "some text of more than twelve"}, {"a": 2, "b": "x"}]`)
	many := make([]arrow.RecordBatch, 3000)
	for i := range many {
		many[i] = rec
	}
	from, release, err := db.NewBatchFeed(schema, many)
	if err != nil {
		t.Fatal(err)
	}
	rec.Release()
	for range 5 {
		want(t, rows(t, db, "SELECT sum(a) FROM "+from), "9000")
		ctx, cancel := context.WithCancel(t.Context())
		r, err := db.Query(ctx, "SELECT * FROM "+from)
		if err != nil {
			t.Fatal(err)
		}
		r.Next()
		cancel()
		r.Close()
		_, _ = tryRows(t.Context(), db, "SELECT error('stop') FROM "+from)
	}
	r, err := db.Query(t.Context(), "SELECT b FROM "+from)
	if err != nil {
		t.Fatal(err)
	}
	release()
	release()
	n := int64(0)
	for r.Next() {
		n += r.Record().NumRows()
	}
	r.Close()
	if n != 6000 || r.Err() != nil {
		t.Errorf("a released feed gave %d rows, %v", n, r.Err())
	}
	// The engine's threads drop the tasks of queries that ended early when they come to them.
	for start := time.Now(); engine.FeedHandles() != before && time.Since(start) < 5*time.Second; {
		rows(t, db, "SELECT count(*) FROM range(1000000) t(i) WHERE hash(i) = 1")
	}
	if left := engine.FeedHandles() - before; left != 0 {
		t.Errorf("%d readings are left", left)
	}
}

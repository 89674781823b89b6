package datafile_test

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/datafile"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the answers in testdata")

// oracle walks the rows of a batch one by one and gathers what the statistics of its leaves have to say.
type oracle struct {
	values, nulls, nans int64
	repeated            bool
	seen                []any
}

func (o *oracle) null() { o.values++; o.nulls++ }

// walk visits one value. Leaves below something that is NULL or empty count one NULL each, as Parquet has it.
func walk(a arrow.Array, i int, f arrow.Field, there, repeated bool, into map[int]*oracle) {
	there = there && a.IsValid(i)
	switch t := f.Type.(type) {
	case *arrow.StructType:
		for k, m := range t.Fields() {
			walk(a.(*array.Struct).Field(k), i, m, there, repeated, into)
		}
		return
	case arrow.ListLikeType:
		l := a.(array.ListLike)
		lo, hi := int64(0), int64(0)
		if there {
			lo, hi = l.ValueOffsets(i)
		}
		elem := arrow.Field{Type: t.Elem()}
		if lf, ok := t.(*arrow.ListType); ok {
			elem = lf.ElemField()
		}
		if lo == hi {
			absent(elem, into)
		}
		for k := lo; k < hi; k++ {
			walk(l.ListValues(), int(k), elem, true, true, into)
		}
		return
	}
	o := leafOracle(f, into)
	o.repeated = repeated
	if !there {
		o.null()
		return
	}
	o.values++
	v := plainValue(a, i)
	if n, ok := asFloat(v); ok && math.IsNaN(n) {
		o.nans++
		return
	}
	o.seen = append(o.seen, v)
}

func absent(f arrow.Field, into map[int]*oracle) {
	if _, ext := f.Type.(arrow.ExtensionType); ext { // the library says of every extension that it is nested
	} else if n, ok := f.Type.(arrow.NestedType); ok {
		if s, ok := f.Type.(*arrow.MapType); ok {
			n = s.Elem().(arrow.NestedType)
		}
		for _, c := range n.Fields() {
			absent(c, into)
		}
		return
	}
	o := leafOracle(f, into)
	o.repeated = true
	o.null()
}

func leafOracle(f arrow.Field, into map[int]*oracle) *oracle {
	id := datafile.FieldID(f)
	if into[id] == nil {
		into[id] = &oracle{}
	}
	return into[id]
}

func asFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case float32:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

func plainValue(a arrow.Array, i int) any {
	switch a := a.(type) {
	case *array.Boolean:
		return a.Value(i)
	case *array.Int32:
		return a.Value(i)
	case *array.Date32:
		return int32(a.Value(i))
	case *array.Int64:
		return a.Value(i)
	case *array.Time64:
		return int64(a.Value(i))
	case *array.Timestamp:
		return int64(a.Value(i))
	case *array.Float32:
		return a.Value(i)
	case *array.Float64:
		return a.Value(i)
	case *array.Decimal128:
		return a.Value(i)
	case *array.String:
		return a.Value(i)
	case *array.Binary:
		return a.Value(i)
	case *array.FixedSizeBinary:
		return a.Value(i)
	case *extensions.UUIDArray:
		return a.Storage().(*array.FixedSizeBinary).Value(i)
	}
	panic(fmt.Sprintf("%T", a))
}

// order compares two values of a column as Iceberg does: -0.0 before +0.0, text and bytes by their bytes.
func order(a, b any) int {
	switch a := a.(type) {
	case bool:
		if a == b.(bool) {
			return 0
		} else if a {
			return 1
		}
		return -1
	case int32:
		return order(int64(a), int64(b.(int32)))
	case int64:
		switch b := b.(int64); {
		case a < b:
			return -1
		case a > b:
			return 1
		}
		return 0
	case float32:
		return order(float64(a), float64(b.(float32)))
	case float64:
		b := b.(float64)
		switch {
		case a < b || a == 0 && b == 0 && math.Signbit(a) && !math.Signbit(b):
			return -1
		case a > b || a == 0 && b == 0 && math.Signbit(b) && !math.Signbit(a):
			return 1
		}
		return 0
	case string:
		return strings.Compare(a, b.(string))
	case []byte:
		return bytes.Compare(a, b.([]byte))
	case decimal128.Num:
		return a.Cmp(b.(decimal128.Num))
	}
	panic(fmt.Sprintf("%T", a))
}

// TestStatisticsAgreeWithTheRows compares the statistics with a walk over all values.
func TestStatisticsAgreeWithTheRows(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 21))
		rows := []int{1, 3, 40, 300}[rng.IntN(4)]
		whole := randomBatch(memory.DefaultAllocator, everySchema(rng), rows, rng)
		data, m := writeBatch(t, whole, datafile.WriterOptions{RowGroupRows: 70, PageBytes: 400}, rng)
		want := map[int]*oracle{}
		for c, f := range whole.Schema().Fields() {
			for i := range rows {
				walk(whole.Column(c), i, f, true, false, want)
			}
		}
		if len(m.Columns) < len(want) {
			t.Errorf("seed %d: %d leaves have statistics, %d have rows", seed, len(m.Columns), len(want))
		}
		var total int64
		for id, got := range m.Columns {
			total += got.Bytes
			w := want[id]
			if w == nil {
				w = &oracle{repeated: true}
			}
			if got.FieldID != id || got.Values != w.values || got.Nulls != w.nulls || got.NaNs != w.nans {
				t.Errorf("seed %d field %d: %+v; the rows have %d values, %d NULLs, %d NaNs", seed, id, got, w.values, w.nulls, w.nans)
			}
			checkBounds(t, fmt.Sprintf("seed %d field %d", seed, id), got, w)
		}
		if f := openFile(t, data); total == 0 || total != groupBytes(f) {
			t.Errorf("seed %d: the leaves have %d bytes and the row groups %d", seed, total, groupBytes(f))
		}
		for i, g := range openFile(t, data).RowGroups() {
			if m.SplitOffsets[i] != g.Offset {
				t.Errorf("seed %d: row group %d begins at %d, split offset %d", seed, i, g.Offset, m.SplitOffsets[i])
			}
		}
	}
}

func groupBytes(f *datafile.File) int64 {
	n := int64(0)
	for _, g := range f.RowGroups() {
		n += g.Bytes
	}
	return n
}

func checkBounds(t *testing.T, name string, got datafile.ColumnStats, w *oracle) {
	t.Helper()
	if w.repeated || len(w.seen) == 0 {
		if got.Lower != nil || got.Upper != nil {
			t.Errorf("%s: bounds %v and %v where there are none", name, got.Lower, got.Upper)
		}
		return
	}
	lo, hi := w.seen[0], w.seen[0]
	for _, v := range w.seen {
		if order(v, lo) < 0 {
			lo = v
		}
		if order(v, hi) > 0 {
			hi = v
		}
	}
	if got.Lower == nil || fmt.Sprintf("%T", got.Lower) != fmt.Sprintf("%T", lo) || order(got.Lower, lo) > 0 {
		t.Errorf("%s: lower bound %v (%T) for %v", name, got.Lower, got.Lower, lo)
		return
	}
	switch v := lo.(type) {
	case string:
		if b := got.Lower.(string); !strings.HasPrefix(v, b) || utf8.RuneCountInString(b) != min(16, utf8.RuneCountInString(v)) {
			t.Errorf("%s: lower bound %q for %q", name, b, v)
		}
	case []byte:
		if b := got.Lower.([]byte); !bytes.HasPrefix(v, b) || len(b) != min(16, len(v)) {
			t.Errorf("%s: lower bound %x for %x", name, b, v)
		}
	default:
		if order(got.Lower, lo) != 0 {
			t.Errorf("%s: lower bound %v for %v", name, got.Lower, lo)
		}
	}
	if got.Upper == nil { // only where no short value is above
		switch v := hi.(type) {
		case string:
			if strings.Trim(string([]rune(v)[:min(16, utf8.RuneCountInString(v))]), "\U0010ffff") != "" {
				t.Errorf("%s: no upper bound for %q", name, v)
			}
		case []byte:
			if len(bytes.Trim(v[:min(16, len(v))], "\xff")) != 0 {
				t.Errorf("%s: no upper bound for %x", name, v)
			}
		default:
			t.Errorf("%s: no upper bound for %v", name, hi)
		}
		return
	}
	short := 0
	switch v := got.Upper.(type) {
	case string:
		short = utf8.RuneCountInString(v)
		if !utf8.ValidString(v) {
			t.Errorf("%s: upper bound %q is no text", name, v)
		}
	case []byte:
		short = len(v)
	default:
		if order(got.Upper, hi) != 0 {
			t.Errorf("%s: upper bound %v for %v", name, got.Upper, hi)
		}
	}
	if short > 16 || order(got.Upper, hi) < 0 {
		t.Errorf("%s: upper bound %v for %v", name, got.Upper, hi)
	}
}

// TestBounds writes one text or one value of bytes after the other and compares its bounds with testdata/bounds.txt. Run
// with -rewrite to take over what it gives, after judging it.
func TestBounds(t *testing.T) {
	in, err := os.ReadFile("testdata/bounds.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(in)) {
		kind, rest, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		value, _, _ := strings.Cut(rest, "  →")
		if !ok || strings.HasPrefix(line, "#") {
			out.WriteString(line)
			continue
		}
		var raw string
		if _, err := fmt.Sscanf(value, "%q", &raw); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		typ := map[string]arrow.DataType{"text": arrow.BinaryTypes.String, "bytes": arrow.BinaryTypes.Binary, "fixed": &arrow.FixedSizeBinaryType{ByteWidth: len(raw)}}[kind]
		b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{{Name: "v", Type: typ, Metadata: id(1)}}, nil))
		switch b := b.Field(0).(type) {
		case *array.StringBuilder:
			b.Append(raw)
		case *array.BinaryBuilder:
			b.Append([]byte(raw))
		case *array.FixedSizeBinaryBuilder:
			b.Append([]byte(raw))
		}
		_, m := writeBatch(t, b.NewRecordBatch(), datafile.WriterOptions{}, rand.New(rand.NewPCG(1, 1)))
		fmt.Fprintf(&out, "%s %s  → %s %s\n", kind, value, quoted(m.Columns[1].Lower), quoted(m.Columns[1].Upper))
	}
	if *rewrite {
		if err := os.WriteFile("testdata/bounds.txt", []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if out.String() != string(in) {
		t.Errorf("testdata/bounds.txt has\n%s\nand the writer gives\n%s", in, out.String())
	}
}

func quoted(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("%+q", v)
	case []byte:
		return fmt.Sprintf("%+q", v)
	case nil:
		return "none"
	}
	return fmt.Sprint(v)
}

// TestBoundsOfFloats: zeros keep their sign, NaN is never a bound, the infinities are.
func TestBoundsOfFloats(t *testing.T) {
	nan, minus, inf := math.NaN(), math.Copysign(0, -1), math.Inf(1)
	for _, c := range []struct {
		in   []float64
		want string
	}{
		{[]float64{0, minus}, "lower -0 upper 0 nans 0"},
		{[]float64{minus, 0}, "lower -0 upper 0 nans 0"},
		{[]float64{minus}, "lower -0 upper -0 nans 0"},
		{[]float64{nan, 2, nan, -3}, "lower -3 upper 2 nans 2"},
		{[]float64{nan}, "lower <nil> upper <nil> nans 1"},
		{[]float64{inf, -inf, nan}, "lower -Inf upper +Inf nans 1"},
		{nil, "lower <nil> upper <nil> nans 0"},
	} {
		for _, typ := range []arrow.DataType{arrow.PrimitiveTypes.Float64, arrow.PrimitiveTypes.Float32} {
			b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{{Name: "v", Type: typ, Nullable: true, Metadata: id(1)}}, nil))
			b.Field(0).AppendNull()
			for _, v := range c.in {
				switch b := b.Field(0).(type) {
				case *array.Float64Builder:
					b.Append(v)
				case *array.Float32Builder:
					b.Append(float32(v))
				}
			}
			_, m := writeBatch(t, b.NewRecordBatch(), datafile.WriterOptions{}, rand.New(rand.NewPCG(1, 1)))
			s := m.Columns[1]
			if got := fmt.Sprintf("lower %v upper %v nans %d", s.Lower, s.Upper, s.NaNs); got != c.want || s.Nulls != 1 {
				t.Errorf("%v as %s: %s, %d NULLs; want %s", c.in, typ, got, s.Nulls, c.want)
			}
		}
	}
}

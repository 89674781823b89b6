package predicate_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/uuid"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/predicate"
)

// Values are read from text, so that each type says what it holds in the same way; they are written in ascending order.
func TestKeysOfArraysAreThoseOfTheirValues(t *testing.T) {
	i := func(v int64) []byte { return predicate.AppendInt(nil, v) }
	f := func(v float64) []byte { return predicate.AppendFloat(nil, v) }
	id := uuid.MustParse("00112233-4455-6677-8899-aabbccddeeff")
	for _, c := range []struct {
		typ    arrow.DataType
		kind   predicate.KeyKind
		values []string
		keys   [][]byte
	}{
		{arrow.FixedWidthTypes.Boolean, predicate.Ints, []string{"false", "true"}, [][]byte{i(0), i(1)}},
		{arrow.PrimitiveTypes.Int8, predicate.Ints, []string{"-128", "127"}, [][]byte{i(-128), i(127)}},
		{arrow.PrimitiveTypes.Int16, predicate.Ints, []string{"-32768", "5"}, [][]byte{i(-32768), i(5)}},
		{arrow.PrimitiveTypes.Int32, predicate.Ints, []string{"-1", "2147483647"}, [][]byte{i(-1), i(2147483647)}},
		{arrow.PrimitiveTypes.Int64, predicate.Ints, []string{"-9223372036854775808", "0"}, [][]byte{i(-9223372036854775808), i(0)}},
		{arrow.PrimitiveTypes.Uint8, predicate.Ints, []string{"0", "255"}, [][]byte{i(0), i(255)}},
		{arrow.PrimitiveTypes.Uint16, predicate.Ints, []string{"1", "65535"}, [][]byte{i(1), i(65535)}},
		{arrow.PrimitiveTypes.Uint32, predicate.Ints, []string{"1", "4294967295"}, [][]byte{i(1), i(4294967295)}},
		{arrow.FixedWidthTypes.Date32, predicate.Ints, []string{"1969-12-31", "1970-01-02"}, [][]byte{i(-1), i(1)}},
		{arrow.FixedWidthTypes.Time32ms, predicate.Ints, []string{"00:00:00.001", "00:00:01"}, [][]byte{i(1), i(1000)}},
		{arrow.FixedWidthTypes.Time64us, predicate.Ints, []string{"00:00:00.000001", "00:00:01"}, [][]byte{i(1), i(1e6)}},
		{&arrow.TimestampType{Unit: arrow.Microsecond}, predicate.Ints, []string{"1969-12-31 23:59:59", "1970-01-01 00:00:01"}, [][]byte{i(-1e6), i(1e6)}},
		{&arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"}, predicate.Ints, []string{"1969-12-31T23:59:59Z", "1970-01-01T00:00:01Z"}, [][]byte{i(-1e9), i(1e9)}},
		{arrow.FixedWidthTypes.Float16, predicate.Floats, []string{"-2", "0.5"}, [][]byte{f(-2), f(0.5)}},
		{arrow.PrimitiveTypes.Float32, predicate.Floats, []string{"-0.5", "-0", "1.5", "NaN"}, [][]byte{f(-0.5), f(0), f(1.5), bytes.Repeat([]byte{0xff}, 8)}},
		{arrow.PrimitiveTypes.Float64, predicate.Floats, []string{"-Inf", "0", "0.1", "NaN"}, [][]byte{binary.BigEndian.AppendUint64(nil, 0x000fffffffffffff), f(0), f(0.1), bytes.Repeat([]byte{0xff}, 8)}},
		{&arrow.Decimal128Type{Precision: 20, Scale: 2}, predicate.Decimals, []string{"-1.50", "2"},
			[][]byte{predicate.AppendDecimal(nil, decimal128.FromI64(-150)), predicate.AppendDecimal(nil, decimal128.FromI64(200))}},
		{arrow.BinaryTypes.String, predicate.Bytes, []string{"", "a"}, [][]byte{{}, []byte("a")}},
		{arrow.BinaryTypes.LargeString, predicate.Bytes, []string{"a", "é"}, [][]byte{[]byte("a"), []byte("é")}},
		{arrow.BinaryTypes.Binary, predicate.Bytes, []string{"AA==", "AAE="}, [][]byte{{0}, {0, 1}}},
		{arrow.BinaryTypes.LargeBinary, predicate.Bytes, []string{"", "/w=="}, [][]byte{{}, {255}}},
		{&arrow.FixedSizeBinaryType{ByteWidth: 2}, predicate.Bytes, []string{"AAA=", "//8="}, [][]byte{{0, 0}, {255, 255}}},
		{extensions.NewUUIDType(), predicate.Bytes, []string{id.String()}, [][]byte{id[:]}},
	} {
		if k := predicate.KindOf(c.typ); k != c.kind {
			t.Errorf("%v has keys of the kind %v", c.typ, k)
			continue
		}
		// The values stand behind one that is cut away, with a NULL among them.
		b := array.NewBuilder(memory.DefaultAllocator, c.typ)
		put := func(v string) {
			if err := b.AppendValueFromString(v); err != nil {
				t.Fatalf("%v: %v", c.typ, err)
			}
		}
		put(c.values[0])
		for n, v := range c.values {
			put(v)
			if n == 0 {
				b.AppendNull()
			}
		}
		plain := b.NewArray()
		check := func(what string, a arrow.Array, keys [][]byte) {
			t.Helper()
			k, err := predicate.KeysOf(a)
			if err != nil || k.Kind() != c.kind || k.Len() != a.Len() || k.Len() != len(keys) {
				t.Fatalf("%s of %v: %d rows of %v, %v", what, c.typ, k.Len(), k.Kind(), err)
			}
			words := make([]uint64, 1)
			for row, want := range keys {
				if k.IsNull(row) != (want == nil) || want == nil && !k.MayHaveNulls() {
					t.Errorf("%s of %v: row %d is NULL: %v", what, c.typ, row, k.IsNull(row))
				}
				if want == nil {
					continue
				}
				if got := k.Append([]byte("x"), row); !bytes.Equal(got, append([]byte("x"), want...)) {
					t.Errorf("%s of %v: row %d has key %x, want %x", what, c.typ, row, got[1:], want)
				}
				if c.kind == predicate.Bytes && !bytes.Equal(k.Bytes(row), want) {
					t.Errorf("%s of %v: row %d has bytes %x", what, c.typ, row, k.Bytes(row))
				}
				if c.kind.Width() == 8 {
					if k.Words(words, row); words[0] != binary.BigEndian.Uint64(want) {
						t.Errorf("%s of %v: row %d is the word %x", what, c.typ, row, words[0])
					}
				}
			}
		}
		want := [][]byte{c.keys[0], c.keys[0], nil}
		want = append(want, c.keys[1:]...)
		check("an array", plain, want)
		check("a slice", array.NewSlice(plain, 1, int64(plain.Len())), want[1:])
		for at := 1; at < len(c.keys); at++ {
			if bytes.Compare(c.keys[at-1], c.keys[at]) >= 0 {
				t.Errorf("%v: key %d is not above the one before", c.typ, at)
			}
		}
		at := array.NewInt32Builder(memory.DefaultAllocator)
		at.AppendValues([]int32{2, int32(plain.Len() - 1), 0}, nil)
		at.AppendNull()
		dictionary := array.NewDictionaryArray(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: c.typ}, at.NewArray(), plain)
		want = [][]byte{nil, want[len(want)-1], c.keys[0], nil}
		check("a dictionary", dictionary, want)
		check("a slice of a dictionary", array.NewSlice(dictionary, 1, 3), want[1:3])
	}
	for _, typ := range []arrow.DataType{arrow.PrimitiveTypes.Uint64, arrow.FixedWidthTypes.MonthInterval, arrow.ListOf(arrow.PrimitiveTypes.Int8), arrow.Null,
		&arrow.Decimal256Type{Precision: 50}, arrow.StructOf()} {
		if k := predicate.KindOf(typ); k != predicate.NoKeys {
			t.Errorf("%v has keys of the kind %v", typ, k)
		}
		if _, err := predicate.KeysOf(array.MakeArrayOfNull(memory.DefaultAllocator, typ, 1)); !errs.Is(err, errs.Unsupported) {
			t.Errorf("%v: %v", typ, err)
		}
	}
}

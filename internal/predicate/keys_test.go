package predicate_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/overlakedb/overlake/internal/predicate"
)

func TestKeysAreInTheOrderOfTheirValues(t *testing.T) {
	ascending := func(what string, keys ...[]byte) {
		t.Helper()
		for i := 1; i < len(keys); i++ {
			if bytes.Compare(keys[i-1], keys[i]) >= 0 {
				t.Errorf("%s: key %d is not above the one before", what, i)
			}
		}
	}
	i := func(v int64) []byte { return predicate.AppendInt(nil, v) }
	ascending("ints", i(math.MinInt64), i(-2), i(-1), i(0), i(1), i(math.MaxInt64))
	f := func(v float64) []byte { return predicate.AppendFloat(nil, v) }
	ascending("floats", f(math.Inf(-1)), f(-math.MaxFloat64), f(-1), f(-math.SmallestNonzeroFloat64), f(0), f(math.SmallestNonzeroFloat64),
		f(1), f(math.Inf(1)), f(math.NaN()))
	if !bytes.Equal(f(0), f(math.Copysign(0, -1))) || !bytes.Equal(f(math.NaN()), f(-math.NaN())) {
		t.Error("-0 is not 0, or one NaN is not another")
	}
	d := func(v int64) []byte { return predicate.AppendDecimal(nil, decimal128.FromI64(v)) }
	ascending("decimals", predicate.AppendDecimal(nil, decimal128.New(math.MinInt64, 0)), d(math.MinInt64), d(-1), d(0), d(1), d(math.MaxInt64),
		predicate.AppendDecimal(nil, decimal128.New(math.MaxInt64, 0)))
	tuple := func(a string, b int64) []byte {
		return predicate.AppendTuple(predicate.AppendTuple(nil, predicate.Bytes, []byte(a), false), predicate.Ints, i(b), false)
	}
	ascending("tuples", predicate.AppendTuple(nil, predicate.Bytes, nil, true), tuple("", -1), tuple("", 7), tuple("\x00", 0), tuple("\x00\x00", 0),
		tuple("\x00\x01", 0), tuple("\x00\xff", 0), tuple("\x01", -5), tuple("a", 1), tuple("a", 2), tuple("a\x00", 0), tuple("ab", 0))
}

// Sets of ranges over one-byte keys, and the empty key, are compared with sets of those keys.
func TestRangesAreSets(t *testing.T) {
	keys := [][]byte{{}}
	for k := range 12 {
		keys = append(keys, []byte{byte(k)}, []byte{byte(k), 0})
	}
	rng := rand.New(rand.NewPCG(5, 5))
	pick := func() []byte { return keys[rng.IntN(len(keys))] }
	for range 3000 {
		var list []predicate.Range
		for range rng.IntN(5) {
			switch rng.IntN(4) {
			case 0:
				list = append(list, predicate.Point(pick()))
			case 1:
				list = append(list, predicate.PrefixRange(pick()))
			default:
				list = append(list, predicate.Range{Lo: pick(), Hi: pick(), LoOpen: rng.IntN(2) == 0, HiOpen: rng.IntN(2) == 0, NoHi: rng.IntN(8) == 0})
			}
		}
		set := predicate.RangesOf(list...)
		cut := rng.IntN(len(list) + 1)
		both := predicate.RangesOf(list[:cut]...).Intersect(predicate.RangesOf(list[cut:]...))
		other := set.Complement()
		back := other.Complement()
		for _, k := range keys {
			want := slices.ContainsFunc(list, func(r predicate.Range) bool { return r.Contains(k) })
			in := func(list []predicate.Range) bool {
				return slices.ContainsFunc(list, func(r predicate.Range) bool { return r.Contains(k) })
			}
			if both.Contains(k) != (in(list[:cut]) && in(list[cut:])) {
				t.Fatalf("%v and %v both hold %x: %v", list[:cut], list[cut:], k, both.Contains(k))
			}
			if set.Contains(k) != want || other.Contains(k) == want || back.Contains(k) != want {
				t.Fatalf("%v: key %x is in %v: %v, in the complement %v: %v", list, k, set, set.Contains(k), other, other.Contains(k))
			}
		}
		for i := 1; i < len(set); i++ {
			if set[i-1].NoHi || bytes.Compare(set[i-1].Hi, set[i].Lo) > 0 {
				t.Fatalf("%v is not in order", set)
			}
		}
	}
}

func TestPrefixRange(t *testing.T) {
	for _, p := range []string{"", "a", "a\xff", "\xff", "\xff\xff", "\xfe\xff\xff"} {
		r := predicate.PrefixRange([]byte(p))
		for _, k := range []string{"", "a", "a\xff", "a\xffz", "b", "\xfe\xff\xff\xff", "\xfe\xff\xfe", "\xff", "\xff\x00", "\xff\xff\xff"} {
			if got, want := r.Contains([]byte(k)), bytes.HasPrefix([]byte(k), []byte(p)); got != want {
				t.Errorf("prefix %q holds %q: %v", p, k, got)
			}
		}
	}
}

func TestTupleRange(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	texts := []string{"", "\x00", "\x00\x00", "\x00\x01", "\x01", "a", "a\x00", "ab", "\xff", "\xff\xff"}
	pick := func() []byte { return []byte(texts[rng.IntN(len(texts))]) }
	for range 20_000 {
		head := predicate.AppendTuple(nil, predicate.Bytes, pick(), false)
		r := predicate.Range{Lo: pick(), Hi: pick(), LoOpen: rng.IntN(2) == 0, HiOpen: rng.IntN(2) == 0, NoHi: rng.IntN(4) == 0}
		first, second := pick(), pick()
		null := rng.IntN(8) == 0
		key := predicate.AppendTuple(predicate.AppendTuple(nil, predicate.Bytes, first, false), predicate.Bytes, second, null)
		key = predicate.AppendTuple(key, predicate.Ints, predicate.AppendInt(nil, rng.Int64()), rng.IntN(2) == 0)
		want := bytes.Equal(head, predicate.AppendTuple(nil, predicate.Bytes, first, false)) && !null && r.Contains(second)
		if got := predicate.TupleRange(head, predicate.Bytes, r).Contains(key); got != want {
			t.Fatalf("%x and %+v hold (%q, %q): %v", head, r, first, second, got)
		}
	}
}

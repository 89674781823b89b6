package bitmap_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bitmap"
	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/testenv"
)

// blob is an artifact in memory.
type blob []byte

func (b blob) ReadAtContext(_ context.Context, p []byte, off int64) (int, error) {
	return bytes.NewReader(b).ReadAt(p, off)
}

// spillFile is a temporary file of a test, which counts those that are open.
type spillFile struct {
	*os.File
	open *int
}

func (f spillFile) Close() error {
	*f.open--
	return f.File.Close()
}

func spillTo(t testing.TB, open *int) func() (bitmap.SpillFile, error) {
	dir := t.TempDir()
	return func() (bitmap.SpillFile, error) {
		f, err := os.CreateTemp(dir, "run")
		*open++
		return spillFile{f, open}, err
	}
}

// A shape makes the number of a row's value out of its place, so that values come in some order and frequency.
var shapes = map[string]func(rng *rand.Rand, row, rows int) int{
	"unique":    func(rng *rand.Rand, row, rows int) int { return row*7919%rows ^ 1<<20 },
	"sorted":    func(rng *rand.Rand, row, rows int) int { return row },
	"reversed":  func(rng *rand.Rand, row, rows int) int { return rows - row },
	"few":       func(rng *rand.Rand, row, rows int) int { return rng.IntN(7) },
	"some":      func(rng *rand.Rand, row, rows int) int { return rng.IntN(rows/9 + 1) },
	"runs":      func(rng *rand.Rand, row, rows int) int { return row / 1500 % 3 },
	"shortruns": func(rng *rand.Rand, row, rows int) int { return row / 5 * 31 % 1000 },
	"skewed":    func(rng *rand.Rand, row, rows int) int { return int(math.Exp(rng.ExpFloat64())) % 5000 },
	"one":       func(rng *rand.Rand, row, rows int) int { return 3 },
	"cycle":     func(rng *rand.Rand, row, rows int) int { return row % 4 },
	"none":      func(rng *rand.Rand, row, rows int) int { return -1 },
}

// A column appends the value with a number to a builder; numbers of the same value are equal, or not, as it likes.
type column struct {
	typ    arrow.DataType
	append func(b array.Builder, v int)
}

var columns = map[string]column{
	"bool": {arrow.FixedWidthTypes.Boolean, func(b array.Builder, v int) { b.(*array.BooleanBuilder).Append(v%2 == 0) }},
	"int8": {arrow.PrimitiveTypes.Int8, func(b array.Builder, v int) { b.(*array.Int8Builder).Append(int8(v)) }},
	"int64": {arrow.PrimitiveTypes.Int64, func(b array.Builder, v int) {
		b.(*array.Int64Builder).Append(int64(v) * 1_000_003)
	}},
	"wild": {arrow.PrimitiveTypes.Int64, func(b array.Builder, v int) {
		b.(*array.Int64Builder).Append(int64(uint64(v)*0x9e3779b97f4a7c15) ^ int64(v&1)<<63)
	}},
	"timestamp": {&arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, func(b array.Builder, v int) {
		b.(*array.TimestampBuilder).Append(arrow.Timestamp(v)*60_000_000 + 1.7e15)
	}},
	"float64": {arrow.PrimitiveTypes.Float64, func(b array.Builder, v int) {
		b.(*array.Float64Builder).Append([]float64{float64(v), -float64(v) / 3, math.NaN(), math.Inf(1), math.Copysign(0, -1), 0}[v%6])
	}},
	"float32": {arrow.PrimitiveTypes.Float32, func(b array.Builder, v int) { b.(*array.Float32Builder).Append(float32(v) / 7) }},
	"decimal": {&arrow.Decimal128Type{Precision: 38, Scale: 2}, func(b array.Builder, v int) {
		d := decimal128.FromI64(int64(v) - 1000)
		if v%5 == 0 {
			d = d.Mul(decimal128.FromI64(math.MaxInt64))
		}
		b.(*array.Decimal128Builder).Append(d)
	}},
	"string": {arrow.BinaryTypes.String, func(b array.Builder, v int) {
		b.(*array.StringBuilder).Append(texts(v))
	}},
	"binary": {arrow.BinaryTypes.LargeBinary, func(b array.Builder, v int) {
		b.(*array.BinaryBuilder).Append(bytes.Repeat([]byte{byte(v), 0}, v%5))
	}},
	"fixed": {&arrow.FixedSizeBinaryType{ByteWidth: 16}, func(b array.Builder, v int) {
		b.(*array.FixedSizeBinaryBuilder).Append(fmt.Appendf(nil, "%016x", uint64(v)*0x9e3779b97f4a7c15))
	}},
	"numbered": {arrow.BinaryTypes.LargeString, func(b array.Builder, v int) {
		b.(*array.LargeStringBuilder).Append(fmt.Sprintf("customer-%08d", v))
	}},
}

// texts are strings of many lengths, with prefixes in common.
func texts(v int) string {
	switch v % 8 {
	case 0:
		return ""
	case 1:
		return strings.Repeat("a", v%100)
	case 2:
		return "a\x00" + strings.Repeat("\x00", v%9)
	case 3:
		return strings.Repeat("https://example.org/", 1+v%3) + fmt.Sprint(v)
	case 4:
		return "\xff\xff" + fmt.Sprint(v)
	}
	return fmt.Sprintf("%x", v*2654435761)
}

// data is the rows of a test: the arrays to add and what an index must know of them.
type data struct {
	kinds []predicate.KeyKind
	parts []part
	rows  int64
	model map[string][]int64
	nulls []int64
}

type part struct {
	first  int64
	arrays []arrow.Array
}

func makeData(rng *rand.Rand, rows int, shape string, dictionary bool, names ...string) *data {
	d := &data{model: map[string][]int64{}}
	for _, n := range names {
		d.kinds = append(d.kinds, predicate.KindOf(columns[n].typ))
	}
	nulls := []int{0, 0, 3, 50, 100}[rng.IntN(5)]
	next := int64(0)
	for row := 0; row < rows; {
		if rng.IntN(2) == 0 {
			next += rng.Int64N(3000) // rows that have no values
		}
		n := min(1+rng.IntN(rows), rows-row)
		p := part{first: next}
		values := make([]int, n)
		for i := range values {
			values[i] = shapes[shape](rng, row+i, rows)
		}
		for c, name := range names {
			mem := memory.DefaultAllocator
			col := columns[name]
			var b array.Builder
			typ := col.typ
			b = array.NewBuilder(mem, typ)
			for i, v := range values {
				if v < 0 || rng.IntN(100) < nulls {
					b.AppendNull()
				} else {
					col.append(b, v+c*i%3)
				}
			}
			a := b.NewArray()
			if dictionary {
				a = toDictionary(a, rng)
			}
			if n > 3 && rng.IntN(2) == 0 { // an array that begins inside its memory
				a = array.NewSlice(a, 1, int64(n))
				a = array.NewSlice(a, 0, int64(n-1))
			}
			p.arrays = append(p.arrays, a)
		}
		least := n
		for _, a := range p.arrays {
			least = min(least, a.Len())
		}
		for i, a := range p.arrays {
			p.arrays[i] = array.NewSlice(a, 0, int64(least))
		}
		d.know(p)
		d.parts = append(d.parts, p)
		row += n
		next += int64(least)
	}
	d.rows = next + rng.Int64N(100)
	return d
}

// know puts the rows of a part into the model.
func (d *data) know(p part) {
	var arrays []predicate.KeyArray
	for _, a := range p.arrays {
		k, err := predicate.KeysOf(a)
		if err != nil {
			panic(err)
		}
		arrays = append(arrays, k)
	}
	for i := range p.arrays[0].Len() {
		row := p.first + int64(i)
		var key []byte
		null := false
		for _, k := range arrays {
			var v []byte
			if null = k.IsNull(i); !null {
				v = k.Append(nil, i)
			}
			if len(p.arrays) > 1 {
				key = predicate.AppendTuple(key, k.Kind(), v, null)
				null = false
			} else {
				key = v
			}
		}
		if null {
			d.nulls = append(d.nulls, row)
		} else {
			d.model[string(key)] = append(d.model[string(key)], row)
		}
	}
}

// toDictionary makes a dictionary array of a plain one, with a NULL among its values.
func toDictionary(a arrow.Array, rng *rand.Rand) arrow.Array {
	n := a.Len()
	b := array.NewInt32Builder(memory.DefaultAllocator)
	for range n {
		if rng.IntN(50) == 0 {
			b.AppendNull()
		} else {
			b.Append(int32(rng.IntN(n)))
		}
	}
	t := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: a.DataType()}
	return array.NewDictionaryArray(t, b.NewArray(), a)
}

// build makes the artifact.
func (d *data) build(t testing.TB, o bitmap.BuildOptions) ([]byte, bitmap.Stats) {
	t.Helper()
	o.Columns = d.kinds
	b, err := bitmap.NewBuilder(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}()
	for _, p := range d.parts {
		if err := b.Add(t.Context(), p.first, p.arrays...); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	stats, err := b.Finish(t.Context(), &out, d.rows)
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), stats
}

// someKey is a key of the model or one that is near to one.
func (d *data) someKey(rng *rand.Rand, keys []string) []byte {
	if len(keys) == 0 || rng.IntN(20) == 0 {
		return fmt.Appendf(nil, "%d", rng.IntN(100))
	}
	k := []byte(keys[rng.IntN(len(keys))])
	switch rng.IntN(8) {
	case 0:
		k = append(k, byte(rng.IntN(2)))
	case 1:
		k = k[:rng.IntN(len(k)+1)]
	case 2:
		if len(k) > 0 {
			k[len(k)-1]++
		}
	}
	return k
}

func (d *data) someRanges(rng *rand.Rand, keys []string) predicate.Ranges {
	var list []predicate.Range
	for range []int{1, 1, 1, 2, 5, 40}[rng.IntN(6)] {
		switch rng.IntN(6) {
		case 0:
			list = append(list, predicate.PrefixRange(d.someKey(rng, keys)))
		case 1:
			list = append(list, predicate.Range{Lo: d.someKey(rng, keys), Hi: d.someKey(rng, keys), LoOpen: rng.IntN(2) == 0, HiOpen: rng.IntN(2) == 0, NoHi: rng.IntN(4) == 0})
		case 2:
			if len(keys) > 0 {
				i := rng.IntN(len(keys))
				j := min(len(keys)-1, i+rng.IntN(30))
				list = append(list, predicate.Range{Lo: []byte(keys[i]), Hi: []byte(keys[j]), LoOpen: rng.IntN(2) == 0, HiOpen: rng.IntN(2) == 0})
			}
		default:
			list = append(list, predicate.Point(d.someKey(rng, keys)))
		}
	}
	set := predicate.RangesOf(list...)
	if rng.IntN(6) == 0 {
		set = set.Complement()
	}
	return set
}

// check compares the answers of an artifact with the model.
func (d *data) check(t *testing.T, rng *rand.Rand, artifact []byte, stats bitmap.Stats, questions int) {
	t.Helper()
	ctx := t.Context()
	r, err := bitmap.Open(ctx, blob(artifact), int64(len(artifact)))
	if err != nil {
		t.Fatal(err)
	}
	keys := slices.Sorted(maps.Keys(d.model))
	postings := int64(0)
	for _, rows := range d.model {
		postings += int64(len(rows))
	}
	s := r.Stats()
	if fmt.Sprint(s) != fmt.Sprint(stats) || s.Rows != d.rows || s.Nulls != int64(len(d.nulls)) || s.Distinct != int64(len(keys)) ||
		s.Size != int64(len(artifact)) || s.Postings != postings || r.Memory() <= 0 || !slices.Equal(r.Columns(), d.kinds) {
		t.Fatalf("stats are %+v, of Finish %+v; there are %d NULLs and %d keys", s, stats, len(d.nulls), len(keys))
	}
	if len(keys) > 0 && (string(s.Min) != keys[0] || string(s.Max) != keys[len(keys)-1]) || len(keys) == 0 && (s.Min != nil || s.Max != nil) {
		t.Fatalf("least %x and greatest %x are wrong", s.Min, s.Max)
	}
	for q := range questions {
		set, null := d.someRanges(rng, keys), rng.IntN(3) == 0
		switch q {
		case 0:
			set = predicate.Ranges{{NoHi: true}}
		case 1:
			set = nil
		}
		var want []int64
		var within []string
		for _, k := range keys {
			if set.Contains([]byte(k)) {
				want = append(want, d.model[k]...)
				within = append(within, k)
			}
		}
		if null {
			want = append(want, d.nulls...)
		}
		slices.Sort(want)
		found, err := r.Find(ctx, set, null)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Collect(found.All()); !slices.Equal(got, want) {
			t.Fatalf("%v, NULL %v: found %d rows, want %d", set, null, len(got), len(want))
		}
		count, err := r.Count(ctx, set, null)
		if err != nil || count != int64(len(want)) {
			t.Fatalf("%v, NULL %v: counted %d (%v), want %d", set, null, count, err, len(want))
		}
		if least, most := r.Estimate(set, null); least > count || most < count || most > d.rows {
			t.Fatalf("%v, NULL %v: there are %d, estimated %d to %d", set, null, count, least, most)
		}
		d.checkFirsts(t, rng, r, set, within)
		descending := rng.IntN(2) == 0
		if descending {
			slices.Reverse(within)
		}
		stop := len(within)
		if rng.IntN(3) == 0 {
			stop = rng.IntN(len(within) + 1)
		}
		i := 0
		err = r.Walk(ctx, set, descending, func(key []byte, rows []int64) bool {
			if i >= len(within) || string(key) != within[i] || !slices.Equal(rows, d.model[within[i]]) {
				t.Fatalf("%v, descending %v: key %d is %x with %d rows", set, descending, i, key, len(rows))
			}
			i++
			return i < stop
		})
		if err != nil || i != max(stop, min(1, len(within))) {
			t.Fatalf("%v, descending %v: walked %d of %d keys (%v)", set, descending, i, len(within), err)
		}
	}
}

// checkFirsts compares the first rows of the keys within a set.
func (d *data) checkFirsts(t *testing.T, rng *rand.Rand, r *bitmap.Reader, set predicate.Ranges, within []string) {
	t.Helper()
	if n := r.Distinct(set); n < int64(len(within)) || n > r.Stats().Distinct {
		t.Fatalf("%v: there are %d keys, at most %d they say", set, len(within), n)
	}
	if p, ok, err := r.FirstNull(t.Context()); err != nil || ok != (len(d.nulls) > 0) || ok && p != slices.Min(d.nulls) {
		t.Fatalf("the first NULL is in row %d, %v, %v", p, ok, err)
	}
	var known func([]byte) bool
	left := map[string]bool{}
	if rng.IntN(2) == 0 {
		known = func(key []byte) bool {
			if _, ok := left[string(key)]; !ok {
				left[string(key)] = rng.IntN(2) == 0
			}
			return left[string(key)]
		}
	}
	stop := len(within)
	if known == nil && rng.IntN(3) == 0 {
		stop = rng.IntN(len(within) + 1)
	}
	i := 0
	err := r.Firsts(t.Context(), set, known, func(key []byte, row int64) bool {
		for i < len(within) && left[within[i]] {
			i++
		}
		if i >= len(within) || string(key) != within[i] || row != d.model[within[i]][0] {
			t.Fatalf("%v: key %d is %x, first in row %d", set, i, key, row)
		}
		i++
		return i < stop
	})
	for known != nil && i < len(within) && left[within[i]] {
		i++
	}
	if err != nil || i != max(stop, min(1, len(within))) {
		t.Fatalf("%v: the first rows of %d of %d keys (%v)", set, i, len(within), err)
	}
}

func TestIndexAnswersAsItsRowsDo(t *testing.T) {
	names := slices.Sorted(maps.Keys(columns))
	for _, shape := range slices.Sorted(maps.Keys(shapes)) {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			rounds := 1
			if testenv.Deep() {
				rounds = 20
			}
			for n := range rounds * len(names) {
				name := names[n%len(names)]
				rng := rand.New(rand.NewPCG(uint64(n), 11))
				for _, rows := range []int{1, 60, 7000} {
					d := makeData(rng, rows, shape, false, name)
					artifact, stats := d.build(t, bitmap.BuildOptions{})
					d.check(t, rng, artifact, stats, 20)
					d = makeData(rng, rows/2+1, shape, true, name)
					artifact, stats = d.build(t, bitmap.BuildOptions{})
					d.check(t, rng, artifact, stats, 6)
				}
				second := names[rng.IntN(len(names))]
				d := makeData(rng, 4000, shape, rng.IntN(2) == 0, name, second)
				artifact, stats := d.build(t, bitmap.BuildOptions{})
				d.check(t, rng, artifact, stats, 20)
			}
		})
	}
}

// Keys and NULLs of so many rows that they lie in several blocks.
func TestKeysOfManyBlocks(t *testing.T) {
	for i, shape := range []string{"few", "one", "runs", "skewed"} {
		rng := rand.New(rand.NewPCG(3, 2)) // a seed with which some rows are NULL
		d := makeData(rng, 250_000, shape, false, []string{"bool", "string", "int8", "decimal"}[i])
		artifact, stats := d.build(t, bitmap.BuildOptions{})
		longest := 0
		for _, rows := range d.model {
			longest = max(longest, len(rows))
		}
		if longest <= 1<<16 || len(d.nulls) == 0 {
			t.Fatalf("%s: the longest key has %d rows, %d are NULL", shape, longest, len(d.nulls))
		}
		d.check(t, rng, artifact, stats, 12)
	}
}

func TestSpilledIndexIsTheSame(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for i, shape := range []string{"unique", "few", "some", "skewed", "none"} {
		for _, names := range [][][]string{{{"int64"}, {"string"}}, {{"decimal"}, {"numbered", "float64"}}}[i%2] {
			d := makeData(rng, 80_000, shape, false, names...)
			want, stats := d.build(t, bitmap.BuildOptions{})
			open := 0
			got, spilled := d.build(t, bitmap.BuildOptions{Memory: 1 << 10, Spill: spillTo(t, &open)})
			if !bytes.Equal(got, want) || fmt.Sprint(stats) != fmt.Sprint(spilled) {
				t.Fatalf("%s %v: the artifact differs, %d and %d bytes", shape, names, len(got), len(want))
			}
			if open != 0 {
				t.Fatalf("%s %v: %d temporary files are left", shape, names, open)
			}
			d.check(t, rng, got, spilled, 10)
		}
	}
}

func TestWithoutSpillingMemoryIsExhausted(t *testing.T) {
	d := makeData(rand.New(rand.NewPCG(1, 1)), 5000, "unique", false, "string")
	b, err := bitmap.NewBuilder(bitmap.BuildOptions{Columns: d.kinds, Memory: 1 << 10})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range d.parts {
		if err = b.Add(t.Context(), p.first, p.arrays...); err != nil {
			break
		}
	}
	if !errs.Is(err, errs.Exhausted) || errs.HintOf(err) == "" {
		t.Fatalf("the error is %v", err)
	}
	if _, err := b.Finish(t.Context(), io.Discard, d.rows); !errs.Is(err, errs.Exhausted) {
		t.Fatalf("Finish after it says %v", err)
	}
}

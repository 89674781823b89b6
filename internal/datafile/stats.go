package datafile

import (
	"bytes"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/errs"
)

// ColumnStats is what a file holds of one leaf, by the rules of Iceberg's column metrics.
type ColumnStats struct {
	FieldID int
	// Values counts what Parquet counts: one for a value, for a NULL, and for a NULL or empty list on the way to the leaf.
	// Below no list that is the number of rows. Nulls are those of them that are no values.
	Values, Nulls int64
	// NaNs counts the values that are not a number; 0 for other types than float32 and float64.
	NaNs int64
	// Bytes is the size of the leaf in the file, compressed, page headers included.
	Bytes int64
	// Lower and Upper bound the values: bool, int32 (dates too), int64 (times and timestamps too), float32, float64,
	// string, []byte (binary, fixed and UUID) or decimal128.Num, in the unit of the Arrow type. Texts are cut to 16 code
	// points and binary and fixed to 16 bytes, the upper bound rounded up. Of the zeros -0.0 sorts before +0.0. Both are
	// nil when there are no bounds: nothing but NULLs and NaNs, lists and maps, or an upper bound that cannot be rounded up.
	Lower, Upper any
}

// tally gathers the statistics of one leaf. The counts of values and bytes come from the footer at the end.
type tally struct {
	present int64 // values that are not NULL
	nans    int64
	bounds  bounds // nil for leaves below lists and maps
}

// bounds follows the least and the greatest value.
type bounds interface {
	add(a arrow.Array)
	result() (lower, upper any)
}

func newTally(l leaf) *tally {
	t := &tally{}
	if l.repeated {
		return t
	}
	switch typ := l.typ.(type) {
	case *arrow.BooleanType:
		t.bounds = &boolBounds{}
	case *arrow.Int32Type:
		t.bounds = &ordered[int32, int32]{values: func(a arrow.Array) []int32 { return a.(*array.Int32).Int32Values() }}
	case *arrow.Date32Type:
		t.bounds = &ordered[arrow.Date32, int32]{values: func(a arrow.Array) []arrow.Date32 { return a.(*array.Date32).Date32Values() }}
	case *arrow.Int64Type:
		t.bounds = &ordered[int64, int64]{values: func(a arrow.Array) []int64 { return a.(*array.Int64).Int64Values() }}
	case *arrow.Time64Type:
		t.bounds = &ordered[arrow.Time64, int64]{values: func(a arrow.Array) []arrow.Time64 { return a.(*array.Time64).Time64Values() }}
	case *arrow.TimestampType:
		t.bounds = &ordered[arrow.Timestamp, int64]{values: func(a arrow.Array) []arrow.Timestamp { return a.(*array.Timestamp).TimestampValues() }}
	case *arrow.Float32Type:
		t.bounds = &ordered[float32, float32]{values: func(a arrow.Array) []float32 { return a.(*array.Float32).Float32Values() }}
	case *arrow.Float64Type:
		t.bounds = &ordered[float64, float64]{values: func(a arrow.Array) []float64 { return a.(*array.Float64).Float64Values() }}
	case *arrow.Decimal128Type:
		t.bounds = &decimalBounds{}
	case *arrow.StringType, *arrow.LargeStringType:
		t.bounds = &byteBounds{text: true}
	case *arrow.BinaryType, *arrow.LargeBinaryType, *arrow.FixedSizeBinaryType:
		t.bounds = &byteBounds{cut: true}
	case arrow.ExtensionType:
		if typ.StorageType().ID() == arrow.FIXED_SIZE_BINARY {
			t.bounds = &byteBounds{}
		}
	}
	return t
}

// count adds a column of planned type to the tallies of its leaves and returns how many leaves it has.
func count(mem memory.Allocator, a arrow.Array, t arrow.DataType, into []*tally) (int, error) {
	switch t := t.(type) {
	case *arrow.StructType:
		s := a.(*array.Struct)
		used := 0
		for i, f := range t.Fields() {
			child := maskRows(mem, s.Field(i), s)
			n, err := count(mem, child, f.Type, into[used:])
			child.Release()
			if err != nil {
				return 0, err
			}
			used += n
		}
		return used, nil
	case arrow.ListLikeType:
		l := a.(array.ListLike)
		first, last := int64(0), int64(0)
		if n := l.Len(); n > 0 {
			first, _ = l.ValueOffsets(0)
			_, last = l.ValueOffsets(n - 1)
		}
		window := array.NewSlice(l.ListValues(), first, last)
		defer window.Release()
		return count(mem, window, t.Elem(), into)
	}
	return 1, into[0].add(a)
}

func (t *tally) add(a arrow.Array) error {
	t.present += int64(a.Len() - a.NullN())
	switch f := a.(type) {
	case *array.Float32:
		t.nans += countNaN(a, f.Float32Values())
	case *array.Float64:
		t.nans += countNaN(a, f.Float64Values())
	case *array.String:
		if !validText(a, f.ValueBytes(), f.ValueOffsets()) {
			return errs.New(errs.Invalid, "datafile.write", "a text is not valid UTF-8", errs.Hint("store it in a column of type BLOB"))
		}
	case *array.LargeString:
		if !validText(a, f.ValueBytes(), f.ValueOffsets()) {
			return errs.New(errs.Invalid, "datafile.write", "a text is not valid UTF-8", errs.Hint("store it in a column of type BLOB"))
		}
	}
	if t.bounds != nil {
		t.bounds.add(a)
	}
	return nil
}

func countNaN[T float32 | float64](a arrow.Array, values []T) int64 {
	n := 0
	for _, v := range values {
		if v != v {
			n++
		}
	}
	if n > 0 && a.NullN() > 0 {
		n = 0
		for i, v := range values {
			if v != v && a.IsValid(i) {
				n++
			}
		}
	}
	return int64(n)
}

// validText checks all texts at once: together they are UTF-8 and each begins at a code point. Only where that fails, which
// bytes behind NULLs may cause, are the texts looked at one by one.
func validText[T int32 | int64](a arrow.Array, all []byte, offsets []T) bool {
	if a.Len() == 0 {
		return true
	}
	base := offsets[0]
	if utf8.Valid(all) {
		split := false
		for _, o := range offsets {
			at := int(o - base)
			split = split || at < len(all) && !utf8.RuneStart(all[at])
		}
		if !split {
			return true
		}
	}
	for i := range a.Len() {
		if a.IsValid(i) && !utf8.Valid(all[offsets[i]-base:offsets[i+1]-base]) {
			return false
		}
	}
	return true
}

// ordered bounds the numbers. The built-in min and max put -0.0 before +0.0, as Iceberg has it.
type ordered[T int32 | int64 | arrow.Date32 | arrow.Time64 | arrow.Timestamp | float32 | float64, R int32 | int64 | float32 | float64] struct {
	values func(arrow.Array) []T
	any    bool
	lo, hi T
}

func (b *ordered[T, R]) add(a arrow.Array) {
	values := b.values(a)
	nulls := a.NullN() > 0
	i := 0
	for ; !b.any && i < len(values); i++ {
		if v := values[i]; v == v && (!nulls || a.IsValid(i)) {
			b.lo, b.hi, b.any = v, v, true
		}
	}
	lo, hi := b.lo, b.hi
	if !nulls {
		for _, v := range values[i:] {
			if v == v {
				lo, hi = min(lo, v), max(hi, v)
			}
		}
	} else {
		for ; i < len(values); i++ {
			if v := values[i]; v == v && a.IsValid(i) {
				lo, hi = min(lo, v), max(hi, v)
			}
		}
	}
	b.lo, b.hi = lo, hi
}

func (b *ordered[T, R]) result() (any, any) {
	if !b.any {
		return nil, nil
	}
	return R(b.lo), R(b.hi)
}

type boolBounds struct{ no, yes bool }

func (b *boolBounds) add(a arrow.Array) {
	bits := a.(*array.Boolean)
	for i := 0; i < bits.Len() && !(b.no && b.yes); i++ {
		if bits.IsValid(i) {
			b.yes = b.yes || bits.Value(i)
			b.no = b.no || !bits.Value(i)
		}
	}
}

func (b *boolBounds) result() (any, any) {
	if !b.no && !b.yes {
		return nil, nil
	}
	return !b.no, b.yes
}

type decimalBounds struct {
	any    bool
	lo, hi decimal128.Num
}

func (b *decimalBounds) add(a arrow.Array) {
	d := a.(*array.Decimal128)
	for i, v := range d.Values() {
		if d.IsNull(i) {
			continue
		}
		if !b.any {
			b.lo, b.hi, b.any = v, v, true
		}
		if v.Cmp(b.lo) < 0 {
			b.lo = v
		}
		if v.Cmp(b.hi) > 0 {
			b.hi = v
		}
	}
}

func (b *decimalBounds) result() (any, any) {
	if !b.any {
		return nil, nil
	}
	return b.lo, b.hi
}

// byteBounds bounds texts and bytes, which sort by their bytes.
type byteBounds struct {
	text   bool // cut by code points
	cut    bool // cut by bytes
	any    bool
	lo, hi []byte
}

func (b *byteBounds) add(a arrow.Array) {
	if ext, ok := a.(array.ExtensionArray); ok {
		a = ext.Storage()
	}
	switch x := a.(type) {
	case *array.String:
		addBytes(b, a, x.ValueBytes(), x.ValueOffsets())
	case *array.LargeString:
		addBytes(b, a, x.ValueBytes(), x.ValueOffsets())
	case *array.Binary:
		addBytes(b, a, x.ValueBytes(), x.ValueOffsets())
	case *array.LargeBinary:
		addBytes(b, a, x.ValueBytes(), x.ValueOffsets())
	case *array.FixedSizeBinary:
		width := x.DataType().(*arrow.FixedSizeBinaryType).ByteWidth
		offsets := make([]int, a.Len()+1)
		for i := range offsets {
			offsets[i] = i * width
		}
		if a.Len() > 0 {
			from := x.Data().Offset() * width
			addBytes(b, a, x.Data().Buffers()[1].Bytes()[from:from+a.Len()*width], offsets)
		}
	}
}

func addBytes[T int | int32 | int64](b *byteBounds, a arrow.Array, all []byte, offsets []T) {
	if a.Len() == 0 {
		return
	}
	lo, hi, grown := b.lo, b.hi, false
	nulls, base := a.NullN() > 0, offsets[0]
	for i := range a.Len() {
		if nulls && a.IsNull(i) {
			continue
		}
		v := all[offsets[i]-base : offsets[i+1]-base]
		switch {
		case !b.any:
			lo, hi, b.any, grown = v, v, true, true
		case bytes.Compare(v, lo) < 0:
			lo, grown = v, true
		case bytes.Compare(v, hi) > 0:
			hi, grown = v, true
		}
	}
	if grown { // the batch goes away
		b.lo, b.hi = append([]byte{}, lo...), append([]byte{}, hi...)
	}
}

func (b *byteBounds) result() (lower, upper any) {
	switch {
	case !b.any:
		return nil, nil
	case b.text:
		lo, ok1 := lowerText(b.lo)
		hi, ok2 := upperText(b.hi)
		if ok1 {
			lower = lo
		}
		if ok2 {
			upper = hi
		}
	case b.cut:
		lower = lowerBytes(b.lo)
		if hi, ok := upperBytes(b.hi); ok {
			upper = hi
		}
	default:
		lower, upper = b.lo, b.hi
	}
	return lower, upper
}

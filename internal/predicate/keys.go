package predicate

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// Keys are values as bytes whose order under bytes.Compare is the order of the column in SQL. A filter whose constants have
// become keys is a Bound: the form that indexes answer.
//
//	Ints      8 bytes, big endian, sign bit flipped. Booleans are 0 and 1; dates, times and timestamps are counted in the
//	          unit of their column. An int column that became a long keeps its keys.
//	Floats    8 bytes of the number as float64, positive ones with the sign bit flipped, negative ones with all bits
//	          flipped. -0 is 0; every NaN is the one key above all others, as SQL orders it.
//	Decimals  16 bytes, big endian, sign bit flipped, of the unscaled value: a scale belongs to the column.
//	Bytes     strings (UTF-8), binary, fixed and UUIDs as they are.
//	Tuples    several values, each in the form of AppendTuple, compared one after the other.

// KeyKind says how the values of a column become keys.
type KeyKind uint8

// The kinds of keys. NoKeys is for columns that have none, such as lists and structs.
const (
	NoKeys KeyKind = iota
	Ints
	Floats
	Decimals
	Bytes
	Tuples
)

var kindNames = [...]string{"none", "int", "float", "decimal", "bytes", "tuple"}

func (k KeyKind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// Width is the length of a key in bytes, 0 where keys differ in length.
func (k KeyKind) Width() int { return [...]int{0, 8, 8, 16, 0, 0}[k] }

// AppendInt appends the key of an integer.
func AppendInt(dst []byte, v int64) []byte { return binary.BigEndian.AppendUint64(dst, OrderInt(v)) }

// AppendFloat appends the key of a floating-point number.
func AppendFloat(dst []byte, v float64) []byte {
	return binary.BigEndian.AppendUint64(dst, OrderFloat(v))
}

// AppendDecimal appends the key of an unscaled decimal.
func AppendDecimal(dst []byte, v decimal128.Num) []byte {
	dst = binary.BigEndian.AppendUint64(dst, OrderInt(v.HighBits()))
	return binary.BigEndian.AppendUint64(dst, v.LowBits())
}

// OrderInt is the key of an integer as a number.
func OrderInt(v int64) uint64 { return uint64(v) ^ 1<<63 }

// OrderFloat is the key of a floating-point number as a number.
func OrderFloat(v float64) uint64 {
	switch {
	case v != v:
		return math.MaxUint64
	case v == 0:
		return 1 << 63
	}
	b := math.Float64bits(v)
	if b>>63 == 0 {
		return b | 1<<63
	}
	return ^b
}

// AppendTuple appends one value of a tuple: 0 for NULL, which comes first; 1 and the key for a value. A key without fixed
// width is escaped and ended: a zero byte becomes 0 255, and 0 1 is the end.
func AppendTuple(dst []byte, kind KeyKind, key []byte, null bool) []byte {
	if null {
		return append(dst, 0)
	}
	dst = append(dst, 1)
	if kind.Width() > 0 {
		return append(dst, key...)
	}
	for {
		i := bytes.IndexByte(key, 0)
		if i < 0 {
			break
		}
		dst = append(append(dst, key[:i]...), 0, 255)
		key = key[i+1:]
	}
	return append(append(dst, key...), 0, 1)
}

// TupleRange is the range of the tuples that begin with head and have next a value of the range.
func TupleRange(head []byte, kind KeyKind, r Range) Range {
	// Every tuple with a value v in this place begins with the encoding of v, and between the encodings of v and of the
	// next value lies nothing but tuples that continue that of v.
	out := Range{Lo: AppendTuple(slices.Clone(head), kind, r.Lo, false)}
	if r.LoOpen {
		out.Lo = PrefixRange(out.Lo).Hi
	}
	if r.NoHi {
		end := PrefixRange(append(slices.Clone(head), 1))
		out.Hi, out.HiOpen, out.NoHi = end.Hi, end.HiOpen, end.NoHi
		return out
	}
	out.Hi, out.HiOpen = AppendTuple(slices.Clone(head), kind, r.Hi, false), true
	if !r.HiOpen {
		end := PrefixRange(out.Hi)
		out.Hi, out.HiOpen, out.NoHi = end.Hi, end.HiOpen, end.NoHi
	}
	return out
}

// Range is a run of keys from Lo to Hi, ends included unless Open. Without a lower end Lo is empty and LoOpen false, which
// is no restriction, since the empty key is the least; without an upper end NoHi is true and Hi and HiOpen say nothing.
type Range struct {
	Lo, Hi               []byte
	LoOpen, HiOpen, NoHi bool
}

// Point is the range of one key.
func Point(key []byte) Range { return Range{Lo: key, Hi: key} }

// PrefixRange is the range of the keys that begin with the prefix.
func PrefixRange(prefix []byte) Range {
	n := len(prefix)
	for n > 0 && prefix[n-1] == 0xff {
		n--
	}
	if n == 0 {
		return Range{Lo: prefix, NoHi: true}
	}
	hi := slices.Clone(prefix[:n])
	hi[len(hi)-1]++
	return Range{Lo: prefix, Hi: hi, HiOpen: true}
}

// Contains tells whether a key is in the range.
func (r Range) Contains(key []byte) bool {
	if c := bytes.Compare(key, r.Lo); c < 0 || c == 0 && r.LoOpen {
		return false
	}
	if r.NoHi {
		return true
	}
	c := bytes.Compare(key, r.Hi)
	return c < 0 || c == 0 && !r.HiOpen
}

// IsPoint tells whether the range holds one key alone.
func (r Range) IsPoint() bool {
	return !r.NoHi && !r.LoOpen && !r.HiOpen && bytes.Equal(r.Lo, r.Hi)
}

// Empty tells whether no key can be in the range.
func (r Range) Empty() bool {
	if r.NoHi {
		return false
	}
	c := bytes.Compare(r.Lo, r.Hi)
	return c > 0 || c == 0 && (r.LoOpen || r.HiOpen)
}

// Ranges is a set of keys: ranges in ascending order of which no two touch.
type Ranges []Range

// RangesOf makes a set of any ranges.
func RangesOf(list ...Range) Ranges {
	out := Ranges(slices.DeleteFunc(slices.Clone(list), Range.Empty))
	byLow := func(a, b Range) int {
		if c := bytes.Compare(a.Lo, b.Lo); c != 0 {
			return c
		}
		switch {
		case a.LoOpen == b.LoOpen:
			return 0
		case b.LoOpen:
			return -1
		}
		return 1
	}
	if !slices.IsSortedFunc(out, byLow) {
		slices.SortFunc(out, byLow)
	}
	n := 0
	for _, r := range out {
		if n > 0 && out[n-1].touches(r) {
			out[n-1].extend(r)
			continue
		}
		out[n] = r
		n++
	}
	return out[:n]
}

// touches tells whether a range that does not begin before r leaves no key between them.
func (r Range) touches(next Range) bool {
	if r.NoHi {
		return true
	}
	c := bytes.Compare(next.Lo, r.Hi)
	return c < 0 || c == 0 && !(next.LoOpen && r.HiOpen)
}

func (r *Range) extend(next Range) {
	switch {
	case r.NoHi:
	case next.NoHi:
		r.Hi, r.HiOpen, r.NoHi = nil, false, true
	default:
		if c := bytes.Compare(next.Hi, r.Hi); c > 0 || c == 0 && !next.HiOpen {
			r.Hi, r.HiOpen = next.Hi, next.HiOpen
		}
	}
}

// Complement is the set of all other keys.
func (rs Ranges) Complement() Ranges {
	var out Ranges
	next := Range{NoHi: true}
	for _, r := range rs {
		gap := Range{Lo: next.Lo, LoOpen: next.LoOpen, Hi: r.Lo, HiOpen: !r.LoOpen}
		if !gap.Empty() {
			out = append(out, gap)
		}
		if r.NoHi {
			return out
		}
		next = Range{Lo: r.Hi, LoOpen: !r.HiOpen, NoHi: true}
	}
	return append(out, next)
}

// Intersect is the set of the keys that are in both.
func (rs Ranges) Intersect(other Ranges) Ranges {
	var out Ranges
	for i, k := 0, 0; i < len(rs) && k < len(other); {
		a, b := rs[i], other[k]
		r := a
		if c := bytes.Compare(b.Lo, a.Lo); c > 0 || c == 0 && b.LoOpen {
			r.Lo, r.LoOpen = b.Lo, b.LoOpen
		}
		// Whose end comes first ends the common part, and is passed.
		first := !a.NoHi
		if !a.NoHi && !b.NoHi {
			c := bytes.Compare(a.Hi, b.Hi)
			first = c < 0 || c == 0 && (a.HiOpen || !b.HiOpen)
		}
		if first {
			i++
		} else {
			r.Hi, r.HiOpen, r.NoHi = b.Hi, b.HiOpen, b.NoHi
			k++
		}
		if !r.Empty() {
			out = append(out, r)
		}
	}
	return out
}

// Contains tells whether a key is in the set.
func (rs Ranges) Contains(key []byte) bool {
	i, found := slices.BinarySearchFunc(rs, key, func(r Range, key []byte) int { return bytes.Compare(r.Lo, key) })
	if found && rs[i].Contains(key) {
		return true
	}
	return i > 0 && rs[i-1].Contains(key)
}

// Bound is a filter whose constants are keys. The kinds of nodes are And, Or and Leaf; negation has been carried into the
// leaves. A Bound keeps every row that its filter keeps; when it is exact it keeps no other.
type Bound struct {
	Op    BoundOp
	Kids  []*Bound // of And and Or
	Field int      // of a Leaf: the field id of the column
	Kind  KeyKind
	Keys  Ranges // the values that it keeps
	Null  bool   // whether it keeps NULL
	Exact bool   // of a Leaf: whether it keeps just what the filter does
}

// BoundOp is the kind of a node of a Bound.
type BoundOp uint8

// The kinds of nodes. All keeps every row, because it is not understood or because every row is wanted.
const (
	BoundAll BoundOp = iota
	BoundAnd
	BoundOr
	BoundLeaf
)

// IsExact tells whether a Bound keeps just the rows that its filter keeps, provided that the filter itself said all.
func (b *Bound) IsExact() bool {
	switch b.Op {
	case BoundAnd, BoundOr:
		return !slices.ContainsFunc(b.Kids, func(k *Bound) bool { return !k.IsExact() })
	case BoundLeaf:
		return b.Exact
	}
	return false
}

// Simplify joins what an AND or an OR says of one column into one leaf: the two ends of BETWEEN are one range.
func (b *Bound) Simplify() *Bound {
	if b.Op != BoundAnd && b.Op != BoundOr {
		return b
	}
	out := &Bound{Op: b.Op}
	at := map[int]*Bound{}
	add := func(k *Bound) {
		if k.Op != BoundLeaf {
			out.Kids = append(out.Kids, k)
			return
		}
		have := at[k.Field]
		if have == nil {
			c := *k
			at[k.Field] = &c
			out.Kids = append(out.Kids, &c)
			return
		}
		have.Exact = have.Exact && k.Exact
		if b.Op == BoundAnd {
			have.Keys, have.Null = have.Keys.Intersect(k.Keys), have.Null && k.Null
		} else {
			have.Keys, have.Null = RangesOf(append(slices.Clone(have.Keys), k.Keys...)...), have.Null || k.Null
		}
	}
	for _, k := range b.Kids {
		k = k.Simplify()
		if k.Op == b.Op {
			for _, kk := range k.Kids {
				add(kk)
			}
			continue
		}
		add(k)
	}
	if len(out.Kids) == 1 {
		return out.Kids[0]
	}
	return out
}

// Leaves calls yield for every leaf.
func (b *Bound) Leaves(yield func(*Bound)) {
	if b.Op == BoundLeaf {
		yield(b)
	}
	for _, k := range b.Kids {
		k.Leaves(yield)
	}
}

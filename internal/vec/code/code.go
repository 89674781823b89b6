// Package code answers: how is a vector packed into few bits, and how far is a query from such a row?
//
// A Coder turns the vector by a random rotation, so that no element matters more than another and all of them look like
// draws from one normal distribution, and then packs each element into 8, 4 or 1 bits: the row. What a row lost is mended by
// its Factor, two numbers beside it. A Query is a vector that was rotated and rounded once, to be compared with many rows.
//
//	C1  A rotation keeps lengths and inner products, up to rounding of floats. It is the same for the same seed and
//	    dimension on every machine.
//	C2  Estimates of inner products are unbiased over rotations. Float32 rows are exact.
//	C3  A row packed from a zero vector, or from one whose squared length is no float32, has a Scale of zero: its inner
//	    products are zero and distances never NaN, unless floats of a Float32 row are.
//	C4  Any bytes of the right length are a row. Distances of rows that nobody packed mean nothing, but do not panic.
package code

import (
	"fmt"
	"math"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/vec"
)

// Kind is how many bits an element gets, and what they mean. Numbers are part of file formats.
type Kind uint8

// The kinds.
const (
	Float32 Kind = iota // as it is, not rotated, little endian
	TQ8                 // 8 bits: whole numbers from -127 to 127 times a step that the largest element sets
	TQ4                 // 4 bits: the 16 best levels of a normal distribution, times the length of the row
	Bit1                // 1 bit: the sign
)

var kindNames = [...]string{"float32", "tq8", "tq4", "bit1"}

// String is the name of the kind: float32, tq8, tq4 or bit1.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("code(%d)", uint8(k))
}

// Factor is what a row needs beside its bits: 8 bytes.
type Factor struct {
	// Scale makes an inner product with the bits one with the vector x: |x|² / <x, bits>, which is unbiased (Gao and Long,
	// "RaBitQ", SIGMOD 2024, section 3.2).
	Scale float32
	Norm  float32 // |x|², from the vector itself
}

// MaxDim is the largest dimension: sums of products of bytes stay within 32 bits.
const MaxDim = 1 << 16

// wordBits is what rows of bits are padded to, in elements.
const wordBits = 64

// Coder packs vectors of one dimension. It is never changed and safe for concurrent use.
type Coder struct {
	kind   Kind
	metric vec.Metric
	dim    int
	padded int // dim, rounded up to 64
	turn   rotation
	ones   []int8 // padded
}

// New makes a coder for vectors of dim elements. For Cosine the caller normalises rows and queries. Unsupported when the
// metric has no estimate by codes of the kind (L1 has none but Float32); Invalid for a dimension below 1 or above MaxDim.
func New(kind Kind, metric vec.Metric, dim int, seed uint64) (*Coder, error) {
	const op = "code.new"
	if kind > Bit1 || metric > vec.MetricL1 {
		return nil, errs.Newf(errs.Unsupported, op, "%s for the metric %s", kind, metric)
	}
	if metric == vec.MetricL1 && kind != Float32 {
		return nil, errs.New(errs.Unsupported, op, fmt.Sprintf("%s codes cannot tell distances by the metric l1", kind), errs.Hint("use float32 rows"))
	}
	if dim < 1 || dim > MaxDim {
		return nil, errs.Newf(errs.Invalid, op, "vectors of %d elements; 1 to %d can be packed", dim, MaxDim)
	}
	c := &Coder{kind: kind, metric: metric, dim: dim, padded: (dim + wordBits - 1) / wordBits * wordBits}
	if kind != Float32 {
		c.turn = newRotation(dim, seed)
		c.ones = make([]int8, c.padded)
		for i := range c.ones {
			c.ones[i] = 1
		}
	}
	return c, nil
}

// Kind is the kind of code.
func (c *Coder) Kind() Kind { return c.kind }

// Metric is the metric of distances.
func (c *Coder) Metric() vec.Metric { return c.metric }

// Dim is the number of elements of a vector.
func (c *Coder) Dim() int { return c.dim }

// RowBytes is the number of bytes of a row. Rows lie one after another.
func (c *Coder) RowBytes() int {
	switch c.kind {
	case TQ8:
		return c.padded
	case TQ4:
		return c.padded / 2
	case Bit1:
		return c.padded / 8
	}
	return 4 * c.dim
}

// Rotate rotates src into dst, which may be the same; both have dim elements. Float32 copies.
func (c *Coder) Rotate(dst, src []float32) {
	if len(dst) != c.dim || len(src) != c.dim {
		panic(fmt.Sprintf("code: vectors of %d and %d, not %d", len(dst), len(src), c.dim))
	}
	copy(dst, src)
	c.turn.apply(dst)
}

// Pack packs a rotated vector of dim elements into row, which has RowBytes bytes.
func (c *Coder) Pack(rotated []float32, row []byte) Factor {
	if len(rotated) != c.dim || len(row) != c.RowBytes() {
		panic(fmt.Sprintf("code: a vector of %d into %d bytes, not %d into %d", len(rotated), len(row), c.dim, c.RowBytes()))
	}
	if c.kind == Float32 {
		putFloats(row, rotated)
		norm, _ := square(rotated)
		return Factor{Scale: 1, Norm: norm}
	}
	norm, some := square(rotated)
	if !some {
		c.packZero(row)
		return Factor{Norm: norm}
	}
	var dot float64 // <x, bits>
	switch c.kind {
	case TQ8:
		dot = pack8(rotated, row)
	case TQ4:
		dot = pack4(rotated, row, float32(math.Sqrt(float64(c.dim)/float64(norm))))
	case Bit1:
		dot = pack1(rotated, row)
	}
	return Factor{Scale: finite(float64(norm) / dot), Norm: norm}
}

// square is the squared length, and whether the vector can be packed: its squared length is neither zero nor beyond
// float32. Where it is beyond, or not a number, it is the largest float32.
func square(x []float32) (norm float32, some bool) {
	if n := vec.Norm(x); n*n < math.MaxFloat32 {
		norm = float32(n * n)
		return norm, norm > 0
	}
	return math.MaxFloat32, false
}

// finite is the nearest float32, zero for NaN.
func finite(x float64) float32 {
	if x != x {
		return 0
	}
	return float32(max(min(x, math.MaxFloat32), -math.MaxFloat32))
}

func (c *Coder) packZero(row []byte) {
	fill := byte(0)
	switch c.kind {
	case TQ8:
		fill = zero8
	case TQ4:
		fill = zero4
	}
	for i := range row {
		row[i] = fill
	}
}

// Unpack gives the elements of a row as its bits say them, before Scale: whole numbers, or the floats of a Float32 row. dst
// has dim elements.
func (c *Coder) Unpack(dst []float32, row []byte) {
	if len(dst) != c.dim || len(row) != c.RowBytes() {
		panic(fmt.Sprintf("code: %d bytes into a vector of %d, not %d into %d", len(row), len(dst), c.RowBytes(), c.dim))
	}
	switch c.kind {
	case Float32:
		copy(dst, floats(row))
	case TQ8:
		for i := range dst {
			dst[i] = float32(int(row[i]) - zero8)
		}
	case TQ4:
		for i := range dst {
			dst[i] = float32(levels[nibble(row, i)])
		}
	case Bit1:
		for i := range dst {
			dst[i] = float32(int(row[i>>3]>>(i&7)&1)*2 - 1)
		}
	}
}

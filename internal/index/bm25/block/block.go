// Package block answers: how do up to 128 small numbers become few bits, and numbers again?
//
// A posting list is cut into blocks of 128. Value i of a block of width w takes the bits from i·w on, counted from the lowest
// bit of the first byte. So a block of n values has ⌈n·w/8⌉ bytes, sixteen values always begin at a byte, and one value can be
// read without the others. Rows are held as gaps, each less one, or as a bit set where that is no longer.
//
//	P1  A width is 0 to 32. What is decoded from n values is n values; what lies behind them in the output is anything.
//	P2  Decoders read up to Slack bytes behind the values. They panic where these are not there: callers see to it.
//	P3  The vector kernels give what plain.go gives, for all bytes.
package block

import (
	"encoding/binary"
	"math/bits"
)

// Size is the number of values of a full block.
const Size = 128

// Slack is how many bytes must follow on packed values, of any content.
const Slack = 64

// MaxWidth is the greatest width.
const MaxWidth = 32

// Values are those of one block, with room behind them that kernels may write to.
type Values = [Size + 16]uint32

// Width is the least width that holds all values.
func Width(values []uint32) uint {
	all := uint32(0)
	for _, v := range values {
		all |= v
	}
	return uint(bits.Len32(all))
}

// Bytes is the length of n packed values.
func Bytes(n int, width uint) int { return int((uint64(n)*uint64(width) + 7) / 8) }

// Append packs values that fit the width.
func Append(to []byte, values []uint32, width uint) []byte {
	if width == 0 {
		return to
	}
	acc, have := uint64(0), uint(0)
	for _, v := range values {
		acc |= uint64(v) << have
		have += width
		for have >= 8 {
			to = append(to, byte(acc))
			acc >>= 8
			have -= 8
		}
	}
	if have > 0 {
		to = append(to, byte(acc))
	}
	return to
}

// At is value i.
func At(packed []byte, width uint, i int) uint32 {
	bit := uint64(i) * uint64(width)
	return uint32(binary.LittleEndian.Uint64(packed[bit>>3:]) >> (bit & 7) & (1<<width - 1))
}

// Unpack gives n values, at most Size, each with one added: frequencies are held so.
func Unpack(to *Values, packed []byte, n int, width uint) {
	if width == 0 {
		*to = ones
		return
	}
	unpack(to, packed[:Bytes(n, width)+Slack], n, width)
}

var ones = func() (v Values) {
	for i := range v {
		v[i] = 1
	}
	return v
}()

// Sums gives n rows of gaps, each less one, that follow on the row before first. It tells whether they stay below 2^32.
func Sums(to *Values, packed []byte, n int, width uint, first uint32) bool {
	switch {
	case width == 0:
		for i := range to {
			to[i] = first + uint32(i)
		}
		return uint64(first)+uint64(n) <= 1<<32
	case width > 24 || first > 1<<31:
		return plainSums(to, packed, n, width, first)
	}
	sums(to, packed[:Bytes(n, width)+Slack], n, width, first)
	return true
}

// Words is the number of 64-bit words of a bit set for rows from first to last.
func Words(first, last uint32) int { return int((uint64(last)-uint64(first))/64) + 1 }

// AppendBits packs rows as a bit set that begins at first.
func AppendBits(to []byte, rows []uint32, first uint32) []byte {
	at := len(to)
	to = append(to, make([]byte, 8*Words(first, rows[len(rows)-1]))...)
	for _, r := range rows {
		b := r - first
		to[at+int(b>>3)] |= 1 << (b & 7)
	}
	return to
}

// MaxWords is the greatest number of words of a bit set: packed, no block is longer.
const MaxWords = Size * MaxWidth / 64

// Ranks gives the number of bits before each word of a bit set, at most MaxWords of them, and tells whether it has n bits, the
// last one for the row last. Only then may the set be used.
func Ranks(to *[MaxWords]uint8, set []byte, n int, first, last uint32) bool {
	count := 0
	for i := 0; i < len(set); i += 8 {
		to[i/8] = uint8(count)
		count += bits.OnesCount64(binary.LittleEndian.Uint64(set[i:]))
		if count > n {
			return false
		}
	}
	if count != n || n > Size || len(set) != 8*Words(first, last) {
		return false
	}
	return binary.LittleEndian.Uint64(set[len(set)-8:])>>((last-first)&63) == 1
}

// FromBits gives the rows of a bit set that Ranks found to have n of them.
func FromBits(to *Values, set []byte, n int, first uint32) { fromBits(to, set, n, first) }

// Find tells whether a bit of a set is there, and how many are below it.
func Find(ranks *[MaxWords]uint8, set []byte, bit uint32) (int, bool) {
	w := binary.LittleEndian.Uint64(set[bit>>6<<3:])
	return int(ranks[bit>>6&(MaxWords-1)]) + bits.OnesCount64(w&(1<<(bit&63)-1)), w>>(bit&63)&1 != 0
}

// LowerBound is the place of the first of the Size values that is not less than x; the last one never is.
func LowerBound(v *Values, x uint32) int {
	i := 0
	for step := Size / 2; step > 0; step /= 2 {
		below := (int64(v[i+step-1]) - int64(x)) >> 63 // all ones when the value is less
		i += step & int(below)
	}
	return i
}

// Package checksum answers: are these bytes those that were written?
//
// All sums of the product are CRC-32C, with the polynomial of Castagnoli, as RFC 3720, appendix B.4, has it.
package checksum

import (
	"hash"
	"hash/crc32"
)

var table = crc32.MakeTable(crc32.Castagnoli)

// New is a hash that gives the sum of what is written to it.
func New() hash.Hash32 { return crc32.New(table) }

// Of is the sum of bytes.
func Of(b []byte) uint32 { return crc32.Checksum(b, table) }

// Update is the sum of bytes that follow on others with the given sum; that of none is 0.
func Update(sum uint32, b []byte) uint32 { return crc32.Update(sum, table, b) }

// Join is the CRC-32C of two runs of bytes, one behind the other, by that of each and the length of the second. A CRC is
// a polynomial over two elements modulo the generator, its highest power in the lowest bit: n bytes more multiply the first
// by x to the 8n.
func Join(first, second uint32, length int64) uint32 {
	power := uint32(1 << 31) // x to the 0
	n := uint64(length)
	for k := 3; n > 0; k, n = (k+1)%len(squares), n>>1 {
		if n&1 != 0 {
			power = multiply(squares[k], power)
		}
	}
	return multiply(power, first) ^ second
}

// squares are x to the powers 1, 2, 4, 8 … They repeat after 31, because x to the 2^31-1 is 1: the generator is x+1 times a
// primitive polynomial of degree 31.
var squares = func() (s [31]uint32) {
	s[0] = 1 << 30
	for i := 1; i < len(s); i++ {
		s[i] = multiply(s[i-1], s[i-1])
	}
	return s
}()

// multiply is the product of two polynomials modulo that of CRC-32C.
func multiply(a, b uint32) uint32 {
	p := uint32(0)
	for m := uint32(1 << 31); a != 0; m >>= 1 {
		if a&m != 0 {
			p ^= b
			a &^= m
		}
		if b&1 != 0 {
			b = b>>1 ^ crc32.Castagnoli
		} else {
			b >>= 1
		}
	}
	return p
}

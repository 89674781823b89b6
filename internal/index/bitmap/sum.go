package bitmap

import "hash/crc32"

// Sum is the CRC-32C of the whole artifact, put together from those of its blocks, its directory and its tail. Whoever has
// noted the checksum of an artifact can so tell, when it is opened, that it is this one and no other that is well too.
func (r *Reader) Sum() uint32 { return r.dir.sum }

// sumWhole joins the checksums of the blocks with those of a directory and a tail.
func (d *directory) sumWhole(dir, tail []byte) uint32 {
	sum := uint32(0)
	for i, s := range d.sums {
		sum = joinSums(sum, s, d.offsets[i+1]-d.offsets[i])
	}
	sum = joinSums(sum, sumOf(dir), int64(len(dir)))
	return joinSums(sum, sumOf(tail), int64(len(tail)))
}

// joinSums is the CRC-32C of two runs of bytes, one behind the other, by that of each and the length of the second. A CRC is
// a polynomial over two elements modulo the generator, its highest power in the lowest bit: n bytes more multiply the first
// by x to the 8n.
func joinSums(first, second uint32, length int64) uint32 {
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

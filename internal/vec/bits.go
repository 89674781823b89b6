package vec

import (
	"encoding/binary"
	"math/bits"
)

// Hamming counts the bits in which two packed bit vectors differ. Unused bits of the last byte must be equal.
func Hamming(a, b []byte) int {
	b = b[:len(a)]
	n := 0
	for len(a) >= 8 && len(b) >= 8 {
		n += bits.OnesCount64(binary.LittleEndian.Uint64(a) ^ binary.LittleEndian.Uint64(b))
		a, b = a[8:], b[8:]
	}
	for i, x := range a {
		n += bits.OnesCount8(x ^ b[i])
	}
	return n
}

// Jaccard is one minus the share of the common bits among those set in either vector; 1 when no bit is common. Unused
// bits of the last byte must be zero.
func Jaccard(a, b []byte) float64 {
	b = b[:len(a)]
	both, inA, inB := 0, 0, 0
	for len(a) >= 8 && len(b) >= 8 {
		x, y := binary.LittleEndian.Uint64(a), binary.LittleEndian.Uint64(b)
		both += bits.OnesCount64(x & y)
		inA += bits.OnesCount64(x)
		inB += bits.OnesCount64(y)
		a, b = a[8:], b[8:]
	}
	for i, x := range a {
		both += bits.OnesCount8(x & b[i])
		inA += bits.OnesCount8(x)
		inB += bits.OnesCount8(b[i])
	}
	if both == 0 {
		return 1
	}
	return 1 - float64(both)/float64(inA+inB-both)
}

package block

import (
	"encoding/binary"
	"math/bits"
)

// The twins in Go of the kernels.

func plainUnpack(to *Values, packed []byte, n int, width uint) {
	mask := uint64(1)<<width - 1
	bit := uint(0)
	for i := range to[:n] {
		to[i] = uint32(binary.LittleEndian.Uint64(packed[bit>>3:])>>(bit&7)&mask) + 1
		bit += width
	}
}

func plainSums(to *Values, packed []byte, n int, width uint, first uint32) bool {
	mask := uint64(1)<<width - 1
	bit := uint(0)
	row := uint64(first)
	for i := range to[:n] {
		row += binary.LittleEndian.Uint64(packed[bit>>3:]) >> (bit & 7) & mask
		to[i] = uint32(row)
		row++
		bit += width
	}
	return row <= 1<<32
}

func plainFromBits(to *Values, set []byte, n int, first uint32) {
	at := 0
	for i := 0; i < len(set); i += 8 {
		for w := binary.LittleEndian.Uint64(set[i:]); w != 0; w &= w - 1 {
			to[at] = first + uint32(bits.TrailingZeros64(w))
			at++
		}
		first += 64
	}
}

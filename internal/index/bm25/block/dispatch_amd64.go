//go:build !purego

package block

import (
	"unsafe"

	"github.com/overlakedb/overlake/internal/vec/kernel"
)

var best = kernel.Best()

// vectorWidth is the greatest width that the kernels in assembly take.
const vectorWidth = 25

// how are the tables of each width: where the bytes of each lane's value are, and by how much they are shifted then.
var (
	how512 [vectorWidth + 1]struct {
		place [64]byte
		shift [16]uint32
	}
	how256 [vectorWidth + 1]struct {
		place [32]byte
		shift [8]uint32
	}
)

func init() {
	for w := range how512 {
		for lane := range 16 {
			bit := lane * w
			for k := range 4 {
				how512[w].place[4*lane+k] = byte(bit/8 + k)
			}
			how512[w].shift[lane] = uint32(bit % 8)
		}
		for lane := range 8 {
			bit := lane * w
			if lane >= 4 { // counted from the byte where the fifth value begins
				bit = 4*w%8 + (lane-4)*w
			}
			for k := range 4 {
				how256[w].place[4*lane+k] = byte(bit/8 + k)
			}
			how256[w].shift[lane] = uint32(bit % 8)
		}
	}
}

// The kernels decode whole groups of 16 or 8 values. They read no further than 64 bytes behind the begin of a group.

func unpack(to *Values, packed []byte, n int, width uint) {
	switch {
	case level == kernel.Plain || width > vectorWidth:
		plainUnpack(to, packed, n, width)
	case level == kernel.AVX2:
		unpackAVX2(&to[0], unsafe.SliceData(packed), int(width), (n+7)/8, &how256[width].place[0])
	default:
		unpackAVX512(&to[0], unsafe.SliceData(packed), int(width), (n+15)/16, &how512[width].place[0])
	}
}

func sums(to *Values, packed []byte, n int, width uint, first uint32) {
	switch level {
	case kernel.Plain:
		plainSums(to, packed, n, width, first)
	case kernel.AVX2:
		sumsAVX2(&to[0], unsafe.SliceData(packed), int(width), (n+7)/8, &how256[width].place[0], first)
	default:
		sumsAVX512(&to[0], unsafe.SliceData(packed), int(width), (n+15)/16, &how512[width].place[0], first)
	}
}

func fromBits(to *Values, set []byte, n int, first uint32) {
	if level != kernel.AVX512 {
		plainFromBits(to, set, n, first)
		return
	}
	bitsAVX512(&to[0], unsafe.SliceData(set), len(set)/8, first)
}

package code

import (
	"encoding/binary"
	"math"
	"unsafe"
)

const (
	zero8 = 128  // the byte of an element of TQ8 that is 0
	zero4 = 0x88 // two elements of TQ4 of the smallest positive level
)

// The levels that lose least of a standard normal distribution, and the borders between them: those above zero (Max,
// "Quantizing for minimum distortion", 1960, table I for 16 levels).
var (
	normalLevels  = [8]float32{0.1284, 0.3881, 0.6568, 0.9424, 1.2562, 1.6181, 2.0690, 2.7326}
	normalBorders = [8]float32{0.2582, 0.5224, 0.7996, 1.0993, 1.4371, 1.8435, 2.4008, math.MaxFloat32}
)

// levels are those of TQ4 as whole numbers, from the lowest; level 15 is 127. They are part of the format.
var levels = [16]int8{-127, -96, -75, -58, -44, -31, -18, -6, 6, 18, 31, 44, 58, 75, 96, 127}

// unsignedLevels are the levels plus 128, as kernels take them.
var unsignedLevels = func() (u [16]byte) {
	for i, l := range levels {
		u[i] = byte(int(l) + 128)
	}
	return u
}()

// cells tells for a number from 0 to 3, in steps of 1/64, the level of the low end of the step. A step holds one border at
// most.
var cells = func() (c [192]uint8) {
	for i := range c {
		for normalBorders[c[i]] <= float32(i)/64 {
			c[i]++
		}
	}
	return c
}()

// largest is the largest absolute value of numbers: without their signs, bits are in the order of floats.
func largest(x []float32) float32 {
	var m0, m1, m2, m3 uint32
	i := 0
	for ; i < len(x)-3; i += 4 {
		m0 = max(m0, math.Float32bits(x[i])<<1)
		m1 = max(m1, math.Float32bits(x[i+1])<<1)
		m2 = max(m2, math.Float32bits(x[i+2])<<1)
		m3 = max(m3, math.Float32bits(x[i+3])<<1)
	}
	for ; i < len(x); i++ {
		m0 = max(m0, math.Float32bits(x[i])<<1)
	}
	return math.Float32frombits(max(m0, m1, m2, m3) >> 1)
}

func abs(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

// pack8 fills a row of TQ8 and gives its inner product with the vector, which is neither zero nor infinite.
func pack8(x []float32, row []byte) float64 {
	step := 127 / largest(x)
	var dot float64
	for i, v := range x {
		k := int32(v*step + (zero8 + 0.5))
		row[i] = byte(k)
		dot += float64(v) * float64(k-zero8)
	}
	for i := len(x); i < len(row); i++ {
		row[i] = zero8
	}
	return dot
}

// signed takes 128 off each byte, eight at once; the lengths are equal and a multiple of 8.
func signed(dst []int8, row []byte) {
	d := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(dst))), len(dst))
	for i := 0; i+8 <= len(row) && i+8 <= len(d); i += 8 {
		binary.NativeEndian.PutUint64(d[i:], binary.NativeEndian.Uint64(row[i:])^0x8080808080808080)
	}
}

// pack4 fills a row of TQ4. Times scale the elements have a variance of 1.
func pack4(x []float32, row []byte, scale float32) float64 {
	for i := range row {
		row[i] = zero4
	}
	var dot float64
	for i, v := range x {
		t := abs(v) * scale
		level := uint8(7)
		if t < 3 {
			level = cells[int(t*64)]
			if t >= normalBorders[level] {
				level++
			}
		}
		level += 8
		if v < 0 {
			level = 15 - level
		}
		dot += float64(v) * float64(levels[level])
		// Of 64 elements the first 32 are in the low halves of 32 bytes.
		at := i>>6<<5 | i&31
		if i&32 == 0 {
			row[at] = row[at]&0xf0 | level
		} else {
			row[at] = row[at]&0x0f | level<<4
		}
	}
	return dot
}

// nibble is the half byte of element i of a row of TQ4.
func nibble(row []byte, i int) byte {
	return row[i>>6<<5|i&31] >> (i >> 5 & 1 * 4) & 15
}

// pack1 fills a row of Bit1: bit i%8 of byte i/8 is set for an element that is not negative.
func pack1(x []float32, row []byte) float64 {
	clear(row)
	var dot float64
	for i, v := range x {
		if v >= 0 {
			row[i>>3] |= 1 << (i & 7)
		}
		dot += float64(abs(v))
	}
	return dot
}

var little = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// floats takes the bytes of Float32 rows for floats, without a copy where the machine allows it.
func floats(b []byte) []float32 {
	n := len(b) / 4
	if n == 0 {
		return nil
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	if little && uintptr(p)%4 == 0 {
		return unsafe.Slice((*float32)(p), n)
	}
	room := make([]float32, n)
	for i := range room {
		room[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return room
}

func putFloats(b []byte, x []float32) {
	for i, v := range x {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
	}
}

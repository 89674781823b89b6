package kernel

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// The plain kernels: what all others must agree with.

// place is the number of the row that gives result i: that at ids, or i itself where ids is nil.
func place(ids []uint32, i int) int {
	if ids == nil {
		return i
	}
	return int(ids[i])
}

func plainL2(query, rows []float32, ids []uint32, out []float32) {
	for i := range out {
		out[i] = pairL2(query, rows[place(ids, i)*len(query):][:len(query)])
	}
}

func pairL2(a, b []float32) float32 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float32
	i := 0
	for ; i < len(a)-3; i += 4 {
		d0, d1, d2, d3 := a[i]-b[i], a[i+1]-b[i+1], a[i+2]-b[i+2], a[i+3]-b[i+3]
		s0 += d0 * d0
		s1 += d1 * d1
		s2 += d2 * d2
		s3 += d3 * d3
	}
	for ; i < len(a); i++ {
		d := a[i] - b[i]
		s0 += d * d
	}
	return (s0 + s1) + (s2 + s3)
}

func plainDot(query, rows []float32, ids []uint32, out []float32) {
	for i := range out {
		out[i] = pairDot(query, rows[place(ids, i)*len(query):][:len(query)])
	}
}

func pairDot(a, b []float32) float32 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float32
	i := 0
	for ; i < len(a)-3; i += 4 {
		s0 += a[i] * b[i]
		s1 += a[i+1] * b[i+1]
		s2 += a[i+2] * b[i+2]
		s3 += a[i+3] * b[i+3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return (s0 + s1) + (s2 + s3)
}

func plainL1(query, rows []float32, ids []uint32, out []float32) {
	for i := range out {
		out[i] = pairL1(query, rows[place(ids, i)*len(query):][:len(query)])
	}
}

func pairL1(a, b []float32) float32 {
	b = b[:len(a)]
	var s float32
	for i := range a {
		s += float32(math.Abs(float64(a[i] - b[i])))
	}
	return s
}

func plainHalfL2(query []float32, rows []uint16, ids []uint32, out []float32) {
	for i := range out {
		out[i] = pairHalfL2(query, rows[place(ids, i)*len(query):][:len(query)])
	}
}

func pairHalfL2(a []float32, b []uint16) float32 {
	b = b[:len(a)]
	var s float32
	for i, x := range a {
		d := x - widen(b[i])
		s += d * d
	}
	return s
}

func plainHalfDot(query []float32, rows []uint16, ids []uint32, out []float32) {
	for i := range out {
		out[i] = pairHalfDot(query, rows[place(ids, i)*len(query):][:len(query)])
	}
}

func pairHalfDot(a []float32, b []uint16) float32 {
	b = b[:len(a)]
	var s float32
	for i, x := range a {
		s += x * widen(b[i])
	}
	return s
}

// widen gives the number that a binary16 stands for (IEEE 754-2019, 3.6).
func widen(h uint16) float32 {
	sign, exponent, fraction := uint32(h&0x8000)<<16, uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch exponent {
	case 0: // a multiple of 2^-24
		v := float32(fraction) * (1.0 / (1 << 24))
		return math.Float32frombits(sign | math.Float32bits(v))
	case 0x1f: // infinite, or not a number
		if fraction != 0 {
			fraction |= 0x200 // quiet, as the machine makes it
		}
		return math.Float32frombits(sign | 0xff<<23 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}

func plainDotU8(query []int8, codes []byte, ids []uint32, out []int32) {
	for i := range out {
		out[i] = pairU8(query, codes[place(ids, i)*len(query):][:len(query)])
	}
}

func pairU8(q []int8, c []byte) int32 {
	c = c[:len(q)]
	var s int32
	for i, x := range q {
		s += int32(x) * int32(c[i])
	}
	return s
}

func plainDot4(query []int8, levels *[16]byte, codes []byte, ids []uint32, out []int32) {
	n := len(query) / 2
	for i := range out {
		out[i] = pair4(query, levels, codes[place(ids, i)*n:][:n])
	}
}

func pair4(q []int8, levels *[16]byte, c []byte) int32 {
	var s int32
	for b := 0; b < len(c); b += 32 {
		lo, hi := q[2*b:][:32], q[2*b+32:][:32]
		for j, x := range c[b:][:32] {
			s += int32(lo[j])*int32(levels[x&15]) + int32(hi[j])*int32(levels[x>>4])
		}
	}
	return s
}

func plainHamming(query, codes []byte, ids []uint32, out []uint32) {
	for i := range out {
		out[i] = pairHamming(query, codes[place(ids, i)*len(query):][:len(query)])
	}
}

func pairHamming(a, b []byte) uint32 {
	n := 0
	for i := 0; i < len(a); i += 8 {
		n += bits.OnesCount64(binary.LittleEndian.Uint64(a[i:]) ^ binary.LittleEndian.Uint64(b[i:]))
	}
	return uint32(n)
}

func plainOverlap(query, codes []byte, ids []uint32, out []uint32) {
	for i := range out {
		out[i] = pairOverlap(query, codes[place(ids, i)*len(query):][:len(query)])
	}
}

func pairOverlap(a, b []byte) uint32 {
	n := 0
	for i := 0; i < len(a); i += 8 {
		n += bits.OnesCount64(binary.LittleEndian.Uint64(a[i:]) & binary.LittleEndian.Uint64(b[i:]))
	}
	return uint32(n)
}

func plainScanBlock(tables, block []byte, out *[BlockRows]uint32) {
	clear(out[:])
	for len(tables) > 0 {
		t := tables[:16]
		for j, x := range block[:32] {
			out[j] += uint32(t[x&15])
			out[32+j] += uint32(t[x>>4])
		}
		tables, block = tables[16:], block[32:]
	}
}

func plainHadamard(x []float32) {
	for half := 1; half < len(x); half *= 2 {
		for i := 0; i < len(x); i += 2 * half {
			a, b := x[i:][:half], x[i+half:][:half]
			for j, v := range a {
				a[j], b[j] = v+b[j], v-b[j]
			}
		}
	}
}

func plainNearest(dim int, points, centroids, half []float32, ids []uint32, nearest []float32) {
	for i := range ids {
		p := points[i*dim:][:dim]
		best, at := float32(math.Inf(1)), 0
		for c, h := range half {
			if d := h - pairDot(p, centroids[c*dim:][:dim]); d < best {
				best, at = d, c
			}
		}
		ids[i], nearest[i] = uint32(at), best
	}
}

func plainSelect(values []float32, bound float32, out []uint32) int {
	n := 0
	for i, v := range values {
		if v < bound {
			out[n] = uint32(i)
			n++
		}
	}
	return n
}

func plainEstimate(sums []int32, scales, adds []float32, f Affine, bound float32, out []float32) uint64 {
	var found uint64
	for i, s := range sums {
		// A conversion keeps a product from being fused with the sum after it.
		product := float32(scales[i] * (float32(f.A*float32(s-f.Shift)) + f.B))
		d := float32(f.Base+adds[i]) - product
		if out[i] = d; d < bound {
			found |= 1 << i
		}
	}
	return found
}

// plainHighest gives the highest of the numbers, 0 of none.
func plainHighest(ids []uint32) uint32 {
	var a, b, c, d uint32
	for ; len(ids) >= 4; ids = ids[4:] {
		a, b, c, d = max(a, ids[0]), max(b, ids[1]), max(c, ids[2]), max(d, ids[3])
	}
	for _, id := range ids {
		a = max(a, id)
	}
	return max(a, b, c, d)
}

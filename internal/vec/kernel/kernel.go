// Package kernel answers: how far is one query from many rows, as fast as this machine can tell?
//
// A call takes one query and a batch of rows that lie one after another in one slice; functions whose name ends in At take
// the rows whose numbers are listed. Results are raw sums: squared Euclidean distances, inner products, counts of bits.
// What they mean is for the callers to say (package code for packed rows, package vec for pgvector's distances).
//
//	R1  A row number beyond the slice, or an output shorter than its input, panics: callers check outside bytes first.
//	R2  Integer kernels give the same numbers on every machine. Sums of floats differ in their last digits, because they
//	    are added in another order.
package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
)

// L2 fills out with the squared Euclidean distances of the query to len(out) rows.
func L2(query, rows, out []float32) { each(len(query), len(rows), len(out)); l2(query, rows, out) }

// L2At fills out with the squared Euclidean distances of the query to the rows at ids.
func L2At(query, rows []float32, ids []uint32, out []float32) {
	at(len(query), len(rows), ids, len(out))
	l2At(query, rows, ids, out)
}

// Dot fills out with the inner products of the query with len(out) rows.
func Dot(query, rows, out []float32) { each(len(query), len(rows), len(out)); dot(query, rows, out) }

// DotAt fills out with the inner products of the query with the rows at ids.
func DotAt(query, rows []float32, ids []uint32, out []float32) {
	at(len(query), len(rows), ids, len(out))
	dotAt(query, rows, ids, out)
}

// L1 fills out with the sums of absolute differences of the query and len(out) rows.
func L1(query, rows, out []float32) { each(len(query), len(rows), len(out)); l1(query, rows, out) }

// L1At fills out with the sums of absolute differences of the query and the rows at ids.
func L1At(query, rows []float32, ids []uint32, out []float32) {
	at(len(query), len(rows), ids, len(out))
	l1At(query, rows, ids, out)
}

// DotU8 fills out with the inner products of a query of signed bytes with rows of unsigned ones. len(query) is the length
// of a row and a multiple of 64.
func DotU8(query []int8, codes []byte, out []int32) {
	whole(len(query), 64)
	each(len(query), len(codes), len(out))
	dotU8(query, codes, out)
}

// DotU8At is DotU8 over the rows at ids.
func DotU8At(query []int8, codes []byte, ids []uint32, out []int32) {
	whole(len(query), 64)
	at(len(query), len(codes), ids, len(out))
	dotU8At(query, codes, ids, out)
}

// Dot4 fills out with the inner products of a query of signed bytes with rows of half bytes, each of which stands for one
// of 16 levels. len(query) is a multiple of 64; a row has half as many bytes. Of every 32 bytes of a row, the low halves
// are elements 0 to 31 and the high halves elements 32 to 63 of 64.
func Dot4(query []int8, levels *[16]byte, codes []byte, out []int32) {
	whole(len(query), 64)
	each(len(query)/2, len(codes), len(out))
	dot4(query, levels, codes, out)
}

// Dot4At is Dot4 over the rows at ids.
func Dot4At(query []int8, levels *[16]byte, codes []byte, ids []uint32, out []int32) {
	whole(len(query), 64)
	at(len(query)/2, len(codes), ids, len(out))
	dot4At(query, levels, codes, ids, out)
}

// Hamming fills out with the numbers of bits in which the query differs from rows of packed bits. len(query) is the length
// of a row in bytes and a multiple of 8.
func Hamming(query, codes []byte, out []uint32) {
	whole(len(query), 8)
	each(len(query), len(codes), len(out))
	hamming(query, codes, out)
}

// HammingAt is Hamming over the rows at ids.
func HammingAt(query, codes []byte, ids []uint32, out []uint32) {
	whole(len(query), 8)
	at(len(query), len(codes), ids, len(out))
	hammingAt(query, codes, ids, out)
}

// BlockRows is the number of rows of a block of ScanBlock.
const BlockRows = 64

// ScanBlock adds up table entries for the 64 rows of a block, one of 16 for each half byte of a row (the fast scan of
// André, Kermarrec and Le Scouarnec, "Cache locality is not enough", VLDB 2015). tables holds 16 bytes for each half byte
// of a row, block 32 bytes for each: byte j has row j in its low half and row 32+j in its high half.
func ScanBlock(tables, block []byte, out *[BlockRows]uint32) {
	if len(tables)%16 != 0 || len(block) != 2*len(tables) {
		panic(fmt.Sprintf("kernel: a block of %d bytes does not fit tables of %d", len(block), len(tables)))
	}
	scanBlock(tables, block, out)
}

// Hadamard multiplies by the Walsh-Hadamard matrix of +1 and -1, in place; len(x) is a power of two. Twice gives len(x)
// times the vector.
func Hadamard(x []float32) {
	if len(x)&(len(x)-1) != 0 {
		panic(fmt.Sprintf("kernel: %d is no power of two", len(x)))
	}
	hadamard(x)
}

// Nearest finds for each point the centroid with the least squared Euclidean distance, the first of equal ones. half holds
// for each centroid half its squared length. Of the distance, nearest gives what the point does not add: half the squared
// length less the inner product.
func Nearest(dim int, points, centroids, half []float32, ids []uint32, nearest []float32) {
	each(dim, len(points), len(ids))
	each(dim, len(centroids), len(half))
	if len(half) == 0 || len(nearest) < len(ids) {
		panic("kernel: no centroids, or no room for distances")
	}
	nearestOf(dim, points, centroids, half, ids, nearest)
}

func whole(n, of int) {
	if n%of != 0 {
		panic(fmt.Sprintf("kernel: a row of %d is not a multiple of %d", n, of))
	}
}

func each(row, all, rows int) {
	if row*rows != all {
		panic(fmt.Sprintf("kernel: %d elements are not %d rows of %d", all, rows, row))
	}
}

func at(row, all int, ids []uint32, out int) {
	if out < len(ids) {
		panic(fmt.Sprintf("kernel: no room for %d results in %d", len(ids), out))
	}
	rows := all
	if row > 0 {
		rows = all / row
	}
	for _, id := range ids {
		if int(id) >= rows {
			panic(fmt.Sprintf("kernel: row %d of %d", id, rows))
		}
	}
}

// The plain kernels: what all others must agree with.

func l2(query, rows, out []float32) {
	for i := range out {
		out[i] = pairL2(query, rows[i*len(query):][:len(query)])
	}
}

func l2At(query, rows []float32, ids []uint32, out []float32) {
	for i, id := range ids {
		out[i] = pairL2(query, rows[int(id)*len(query):][:len(query)])
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

func dot(query, rows, out []float32) {
	for i := range out {
		out[i] = pairDot(query, rows[i*len(query):][:len(query)])
	}
}

func dotAt(query, rows []float32, ids []uint32, out []float32) {
	for i, id := range ids {
		out[i] = pairDot(query, rows[int(id)*len(query):][:len(query)])
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

func l1(query, rows, out []float32) {
	for i := range out {
		out[i] = pairL1(query, rows[i*len(query):][:len(query)])
	}
}

func l1At(query, rows []float32, ids []uint32, out []float32) {
	for i, id := range ids {
		out[i] = pairL1(query, rows[int(id)*len(query):][:len(query)])
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

func dotU8(query []int8, codes []byte, out []int32) {
	for i := range out {
		out[i] = pairU8(query, codes[i*len(query):][:len(query)])
	}
}

func dotU8At(query []int8, codes []byte, ids []uint32, out []int32) {
	for i, id := range ids {
		out[i] = pairU8(query, codes[int(id)*len(query):][:len(query)])
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

func dot4(query []int8, levels *[16]byte, codes []byte, out []int32) {
	n := len(query) / 2
	for i := range out {
		out[i] = pair4(query, levels, codes[i*n:][:n])
	}
}

func dot4At(query []int8, levels *[16]byte, codes []byte, ids []uint32, out []int32) {
	n := len(query) / 2
	for i, id := range ids {
		out[i] = pair4(query, levels, codes[int(id)*n:][:n])
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

func hamming(query, codes []byte, out []uint32) {
	for i := range out {
		out[i] = pairHamming(query, codes[i*len(query):][:len(query)])
	}
}

func hammingAt(query, codes []byte, ids []uint32, out []uint32) {
	for i, id := range ids {
		out[i] = pairHamming(query, codes[int(id)*len(query):][:len(query)])
	}
}

func pairHamming(a, b []byte) uint32 {
	n := 0
	for i := 0; i < len(a); i += 8 {
		n += bits.OnesCount64(binary.LittleEndian.Uint64(a[i:]) ^ binary.LittleEndian.Uint64(b[i:]))
	}
	return uint32(n)
}

func scanBlock(tables, block []byte, out *[BlockRows]uint32) {
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

func hadamard(x []float32) {
	for half := 1; half < len(x); half *= 2 {
		for i := 0; i < len(x); i += 2 * half {
			a, b := x[i:][:half], x[i+half:][:half]
			for j, v := range a {
				a[j], b[j] = v+b[j], v-b[j]
			}
		}
	}
}

func nearestOf(dim int, points, centroids, half []float32, ids []uint32, nearest []float32) {
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

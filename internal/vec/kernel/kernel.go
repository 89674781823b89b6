// Package kernel answers: how far is one query from many rows, as fast as this machine can tell?
//
// A call takes one query and a batch of rows that lie one after another in one slice; functions whose name ends in At take
// the rows whose numbers are listed. Results are raw sums: squared Euclidean distances, inner products, counts of bits.
// What they mean is for the callers to say (package code for packed rows, package vec for pgvector's distances).
//
// A level is a set of instructions: Plain is Go alone, AVX2 and AVX512 are assembly that package gen writes. The highest one of
// the machine is chosen once. Other architectures, and the build tag purego, have the plain kernels.
//
//	R1  A row number beyond the slice, or an output shorter than its input, panics: callers check outside bytes first.
//	R2  Integer kernels and Hadamard give the same numbers on every machine. Sums of floats differ in their last digits,
//	    because they are added in another order.
//	R3  No kernel reads or writes beyond its slices, wherever these begin.
//	R4  Every kernel has a plain twin (plain.go), and one test compares all levels with it.
//	R5  A call in assembly cannot be interrupted, not even by the garbage collector. Who has many rows makes several calls:
//	    ten thousand rows of 128 numbers take up to a millisecond.
package kernel

import (
	"fmt"
	"unsafe"
)

// L2 fills out with the squared Euclidean distances of the query to len(out) rows.
func L2(query, rows, out []float32) { each(len(query), len(rows), len(out)); l2(query, rows, nil, out) }

// L2At fills out with the squared Euclidean distances of the query to the rows at ids.
func L2At(query, rows []float32, ids []uint32, out []float32) {
	at(len(query), len(rows), ids, len(out))
	l2(query, rows, ids, out[:len(ids)])
}

// Dot fills out with the inner products of the query with len(out) rows.
func Dot(query, rows, out []float32) {
	each(len(query), len(rows), len(out))
	dot(query, rows, nil, out)
}

// DotAt fills out with the inner products of the query with the rows at ids.
func DotAt(query, rows []float32, ids []uint32, out []float32) {
	at(len(query), len(rows), ids, len(out))
	dot(query, rows, ids, out[:len(ids)])
}

// L1 fills out with the sums of absolute differences of the query and len(out) rows.
func L1(query, rows, out []float32) { each(len(query), len(rows), len(out)); l1(query, rows, nil, out) }

// L1At fills out with the sums of absolute differences of the query and the rows at ids.
func L1At(query, rows []float32, ids []uint32, out []float32) {
	at(len(query), len(rows), ids, len(out))
	l1(query, rows, ids, out[:len(ids)])
}

// HalfL2 fills out with the squared Euclidean distances of the query to len(out) rows of IEEE 754 binary16.
func HalfL2(query []float32, rows []uint16, out []float32) {
	each(len(query), len(rows), len(out))
	halfL2(query, rows, nil, out)
}

// HalfL2At is HalfL2 over the rows at ids.
func HalfL2At(query []float32, rows []uint16, ids []uint32, out []float32) {
	at(len(query), len(rows), ids, len(out))
	halfL2(query, rows, ids, out[:len(ids)])
}

// HalfDot fills out with the inner products of the query with len(out) rows of IEEE 754 binary16.
func HalfDot(query []float32, rows []uint16, out []float32) {
	each(len(query), len(rows), len(out))
	halfDot(query, rows, nil, out)
}

// HalfDotAt is HalfDot over the rows at ids.
func HalfDotAt(query []float32, rows []uint16, ids []uint32, out []float32) {
	at(len(query), len(rows), ids, len(out))
	halfDot(query, rows, ids, out[:len(ids)])
}

// DotU8 fills out with the inner products of a query of signed bytes with rows of unsigned ones. len(query) is the length
// of a row and a multiple of 64.
func DotU8(query []int8, codes []byte, out []int32) {
	whole(len(query), 64)
	each(len(query), len(codes), len(out))
	dotU8(query, codes, nil, out)
}

// DotU8At is DotU8 over the rows at ids.
func DotU8At(query []int8, codes []byte, ids []uint32, out []int32) {
	whole(len(query), 64)
	at(len(query), len(codes), ids, len(out))
	dotU8(query, codes, ids, out[:len(ids)])
}

// Dot4 fills out with the inner products of a query of signed bytes with rows of half bytes, each of which stands for one
// of 16 levels. len(query) is a multiple of 64; a row has half as many bytes. Of every 32 bytes of a row, the low halves
// are elements 0 to 31 and the high halves elements 32 to 63 of 64.
func Dot4(query []int8, levels *[16]byte, codes []byte, out []int32) {
	whole(len(query), 64)
	each(len(query)/2, len(codes), len(out))
	dot4(query, levels, codes, nil, out)
}

// Dot4At is Dot4 over the rows at ids.
func Dot4At(query []int8, levels *[16]byte, codes []byte, ids []uint32, out []int32) {
	whole(len(query), 64)
	at(len(query)/2, len(codes), ids, len(out))
	dot4(query, levels, codes, ids, out[:len(ids)])
}

// Hamming fills out with the numbers of bits in which the query differs from rows of packed bits. len(query) is the length
// of a row in bytes and a multiple of 8.
func Hamming(query, codes []byte, out []uint32) {
	whole(len(query), 8)
	each(len(query), len(codes), len(out))
	hamming(query, codes, nil, out)
}

// HammingAt is Hamming over the rows at ids.
func HammingAt(query, codes []byte, ids []uint32, out []uint32) {
	whole(len(query), 8)
	at(len(query), len(codes), ids, len(out))
	hamming(query, codes, ids, out[:len(ids)])
}

// Overlap fills out with the numbers of bits that the query and rows of packed bits have in common. With the numbers of
// bits of both that is what the Jaccard distance needs. len(query) is the length of a row in bytes and a multiple of 8.
func Overlap(query, codes []byte, out []uint32) {
	whole(len(query), 8)
	each(len(query), len(codes), len(out))
	overlap(query, codes, nil, out)
}

// OverlapAt is Overlap over the rows at ids.
func OverlapAt(query, codes []byte, ids []uint32, out []uint32) {
	whole(len(query), 8)
	at(len(query), len(codes), ids, len(out))
	overlap(query, codes, ids, out[:len(ids)])
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
// times the vector. The bits of the result are the same on every machine, but for the payloads of NaN.
func Hadamard(x []float32) {
	if len(x)&(len(x)-1) != 0 {
		panic(fmt.Sprintf("kernel: %d is no power of two", len(x)))
	}
	hadamard(x)
}

// Nearest finds for each point the centroid with the least squared Euclidean distance, the first of equal ones. half holds
// for each centroid half its squared length. Of the distance, nearest gives what the point does not add: half the squared
// length less the inner product; it is +Inf, with the centroid 0, where no distance is a number below that. Nearest allocates
// room for 32 centroids, and 128 bytes for each of up to 1,024 points.
func Nearest(dim int, points, centroids, half []float32, ids []uint32, nearest []float32) {
	each(dim, len(points), len(ids))
	each(dim, len(centroids), len(half))
	if len(half) == 0 || len(nearest) < len(ids) {
		panic("kernel: no centroids, or no room for distances")
	}
	nearestOf(dim, points, centroids, half, ids, nearest)
}

// Select writes the places of the values below bound into out, in order, and gives their number. out is at least as long as
// values; what stands in it behind the places that were written is undefined. NaN is below nothing.
func Select(values []float32, bound float32, out []uint32) int {
	if len(out) < len(values) {
		panic(fmt.Sprintf("kernel: no room for %d places in %d", len(values), len(out)))
	}
	return selectBelow(values, bound, out)
}

// Affine says how whole numbers become distances: a row's is Base + add - scale*(A*(sum-Shift)+B), with its own sum, scale
// and add. Sums are taken for int32, and the arithmetic is that of float32, one operation after another, none fused.
type Affine struct {
	Shift      int32
	A, B, Base float32
}

// Estimate makes distances of up to 64 sums, and gives the bits of those below bound. scales, adds and out are as long as
// sums, or longer. NaN is below nothing. The digits are the same on every machine.
func Estimate[T int32 | uint32](sums []T, scales, adds []float32, f Affine, bound float32, out []float32) uint64 {
	n := len(sums)
	if n > BlockRows || len(scales) < n || len(adds) < n || len(out) < n {
		panic(fmt.Sprintf("kernel: %d sums with %d scales, %d addends and room for %d; there can be %d", n, len(scales), len(adds), len(out), BlockRows))
	}
	return estimate(unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(sums))), n), scales, adds, f, bound, out)
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
	if top := highest(ids); len(ids) > 0 && int(top) >= rows {
		panic(fmt.Sprintf("kernel: row %d of %d", top, rows))
	}
}

// Package cloops answers: how fast is the loop that a C compiler makes of the plain sum, and how fast are our kernels beside it?
//
// The loops are in loops.c, compiled with -O3 -march=native -ffast-math, and each is called once over the whole array, so
// that nothing of Go is in what is measured of them. Compare measures; the tests compare the loops' results with ours.
package cloops

// #cgo CFLAGS: -O3 -march=native -ffast-math
// #include "loops.h"
import "C"

import "unsafe"

func f32(x []float32) *C.float    { return (*C.float)(unsafe.SliceData(x)) }
func u32(x []uint32) *C.uint32_t  { return (*C.uint32_t)(unsafe.SliceData(x)) }
func bytesOf(x []byte) *C.uint8_t { return (*C.uint8_t)(unsafe.SliceData(x)) }

// L2 fills out with squared Euclidean distances of the query to len(out) rows.
func L2(query, rows, out []float32) {
	rowsFit(len(query), len(rows), len(out))
	C.loop_l2(f32(query), f32(rows), C.long(len(out)), C.long(len(query)), f32(out))
}

// L2At is L2 over the rows at ids, which must be there.
func L2At(query, rows []float32, ids []uint32, out []float32) {
	rowsFit(1, len(ids), len(out))
	C.loop_l2_at(f32(query), f32(rows), u32(ids), C.long(len(ids)), C.long(len(query)), f32(out))
}

// Dot fills out with inner products of the query with len(out) rows.
func Dot(query, rows, out []float32) {
	rowsFit(len(query), len(rows), len(out))
	C.loop_dot(f32(query), f32(rows), C.long(len(out)), C.long(len(query)), f32(out))
}

// DotAt is Dot over the rows at ids, which must be there.
func DotAt(query, rows []float32, ids []uint32, out []float32) {
	rowsFit(1, len(ids), len(out))
	C.loop_dot_at(f32(query), f32(rows), u32(ids), C.long(len(ids)), C.long(len(query)), f32(out))
}

// DotU8 fills out with inner products of a query of signed bytes with len(out) rows of unsigned ones.
func DotU8(query []int8, rows []byte, out []int32) {
	rowsFit(len(query), len(rows), len(out))
	C.loop_dot_u8((*C.int8_t)(unsafe.SliceData(query)), bytesOf(rows), C.long(len(out)), C.long(len(query)), (*C.int32_t)(unsafe.SliceData(out)))
}

// Hamming fills out with the numbers of bits in which the query differs from len(out) rows; a row is a multiple of 8 bytes.
func Hamming(query, rows []byte, out []uint32) {
	rowsFit(len(query), len(rows), len(out))
	rowsFit(8, len(query), len(query)/8)
	C.loop_hamming(bytesOf(query), bytesOf(rows), C.long(len(out)), C.long(len(query)), u32(out))
}

func rowsFit(row, all, rows int) {
	if row*rows != all {
		panic("cloops: the slices do not fit together")
	}
}

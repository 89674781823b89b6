//go:build !amd64 || purego

package kernel

func detect() Level { return Plain }

func l2(query, rows []float32, ids []uint32, out []float32) {
	plainL2(query, rows, ids, out)
}

func dot(query, rows []float32, ids []uint32, out []float32) {
	plainDot(query, rows, ids, out)
}

func l1(query, rows []float32, ids []uint32, out []float32) {
	plainL1(query, rows, ids, out)
}

func halfL2(query []float32, rows []uint16, ids []uint32, out []float32) {
	plainHalfL2(query, rows, ids, out)
}

func halfDot(query []float32, rows []uint16, ids []uint32, out []float32) {
	plainHalfDot(query, rows, ids, out)
}

func dotU8(query []int8, codes []byte, ids []uint32, out []int32) {
	plainDotU8(query, codes, ids, out)
}

func dot4(query []int8, levels *[16]byte, codes []byte, ids []uint32, out []int32) {
	plainDot4(query, levels, codes, ids, out)
}

func hamming(query, codes []byte, ids []uint32, out []uint32) {
	plainHamming(query, codes, ids, out)
}

func overlap(query, codes []byte, ids []uint32, out []uint32) {
	plainOverlap(query, codes, ids, out)
}

func scanBlock(tables, block []byte, out *[BlockRows]uint32) { plainScanBlock(tables, block, out) }

func hadamard(x []float32) { plainHadamard(x) }

func nearestOf(dim int, points, centroids, half []float32, ids []uint32, nearest []float32) {
	plainNearest(dim, points, centroids, half, ids, nearest)
}

func selectBelow(values []float32, bound float32, out []uint32) int {
	return plainSelect(values, bound, out)
}

func estimate(sums []int32, scales, adds []float32, f Affine, bound float32, out []float32) uint64 {
	return plainEstimate(sums, scales, adds, f, bound, out)
}

func highest(ids []uint32) uint32 { return plainHighest(ids) }

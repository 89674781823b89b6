//go:build !purego

package kernel

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

func detect() Level {
	switch x := &cpu.X86; {
	case !x.HasAVX2 || !x.HasFMA || !x.HasF16C || !x.HasPOPCNT || !x.HasBMI1:
		return Plain
	case !x.HasAVX512F || !x.HasAVX512BW || !x.HasAVX512DQ || !x.HasAVX512VL || !x.HasAVX512VBMI || !x.HasAVX512VNNI || !x.HasAVX512VPOPCNTDQ:
		return AVX2
	}
	return AVX512
}

// The kernels in assembly are called with pointers to at least one row of at least one element; the callers have checked
// that all rows are there. In a call with ids, out is as long as ids.

func l2(query, rows []float32, ids []uint32, out []float32) {
	switch {
	case len(out) == 0:
	case level == Plain || len(query) == 0:
		plainL2(query, rows, ids, out)
	case level == AVX2:
		l2AVX2(&query[0], &rows[0], unsafe.SliceData(ids), len(out), 4*len(query), &out[0])
	default:
		l2AVX512(&query[0], &rows[0], unsafe.SliceData(ids), len(out), 4*len(query), &out[0])
	}
}

func dot(query, rows []float32, ids []uint32, out []float32) {
	switch {
	case len(out) == 0:
	case level == Plain || len(query) == 0:
		plainDot(query, rows, ids, out)
	case level == AVX2:
		dotAVX2(&query[0], &rows[0], unsafe.SliceData(ids), len(out), 4*len(query), &out[0])
	default:
		dotAVX512(&query[0], &rows[0], unsafe.SliceData(ids), len(out), 4*len(query), &out[0])
	}
}

func l1(query, rows []float32, ids []uint32, out []float32) {
	switch {
	case len(out) == 0:
	case level == Plain || len(query) == 0:
		plainL1(query, rows, ids, out)
	case level == AVX2:
		l1AVX2(&query[0], &rows[0], unsafe.SliceData(ids), len(out), 4*len(query), &out[0])
	default:
		l1AVX512(&query[0], &rows[0], unsafe.SliceData(ids), len(out), 4*len(query), &out[0])
	}
}

func halfL2(query []float32, rows []uint16, ids []uint32, out []float32) {
	switch {
	case len(out) == 0:
	case level == Plain || len(query) < 8:
		plainHalfL2(query, rows, ids, out)
	case level == AVX2:
		halfL2AVX2(&query[0], &rows[0], unsafe.SliceData(ids), len(out), 2*len(query), &out[0])
	default:
		halfL2AVX512(&query[0], &rows[0], unsafe.SliceData(ids), len(out), 2*len(query), &out[0])
	}
}

func halfDot(query []float32, rows []uint16, ids []uint32, out []float32) {
	switch {
	case len(out) == 0:
	case level == Plain || len(query) < 8:
		plainHalfDot(query, rows, ids, out)
	case level == AVX2:
		halfDotAVX2(&query[0], &rows[0], unsafe.SliceData(ids), len(out), 2*len(query), &out[0])
	default:
		halfDotAVX512(&query[0], &rows[0], unsafe.SliceData(ids), len(out), 2*len(query), &out[0])
	}
}

func dotU8(query []int8, codes []byte, ids []uint32, out []int32) {
	switch {
	case len(out) == 0:
	case level == Plain || len(query) == 0:
		plainDotU8(query, codes, ids, out)
	case level == AVX2:
		dotU8AVX2(&query[0], &codes[0], unsafe.SliceData(ids), len(out), len(query), &out[0])
	default:
		dotU8AVX512(&query[0], &codes[0], unsafe.SliceData(ids), len(out), len(query), &out[0])
	}
}

func dot4(query []int8, levels *[16]byte, codes []byte, ids []uint32, out []int32) {
	switch {
	case len(out) == 0:
	case level == Plain || len(query) == 0:
		plainDot4(query, levels, codes, ids, out)
	case level == AVX2:
		dot4AVX2(&query[0], &codes[0], unsafe.SliceData(ids), len(out), len(query)/2, &out[0], levels)
	default:
		dot4AVX512(&query[0], &codes[0], unsafe.SliceData(ids), len(out), len(query)/2, &out[0], levels)
	}
}

func hamming(query, codes []byte, ids []uint32, out []uint32) {
	switch {
	case len(out) == 0:
	case level == Plain || len(query) == 0:
		plainHamming(query, codes, ids, out)
	case level == AVX2:
		hammingAVX2(&query[0], &codes[0], unsafe.SliceData(ids), len(out), len(query), &out[0])
	default:
		hammingAVX512(&query[0], &codes[0], unsafe.SliceData(ids), len(out), len(query), &out[0])
	}
}

func overlap(query, codes []byte, ids []uint32, out []uint32) {
	switch {
	case len(out) == 0:
	case level == Plain || len(query) == 0:
		plainOverlap(query, codes, ids, out)
	case level == AVX2:
		overlapAVX2(&query[0], &codes[0], unsafe.SliceData(ids), len(out), len(query), &out[0])
	default:
		overlapAVX512(&query[0], &codes[0], unsafe.SliceData(ids), len(out), len(query), &out[0])
	}
}

// scanRound is the number of half bytes of a row after which sums of words may be too small.
const scanRound = 256

func scanBlock(tables, block []byte, out *[BlockRows]uint32) {
	if level == Plain {
		plainScanBlock(tables, block, out)
		return
	}
	clear(out[:])
	for len(tables) > 0 {
		n := min(len(tables)/16, scanRound)
		if level == AVX2 {
			scanBlockAVX2(&tables[0], &block[0], n, &out[0])
		} else {
			scanBlockAVX512(&tables[0], &block[0], n, &out[0])
		}
		tables, block = tables[16*n:], block[32*n:]
	}
}

func hadamard(x []float32) {
	switch {
	case level == AVX512 && len(x) >= 256:
		hadamardAVX512(&x[0], len(x))
	case level != Plain && len(x) >= 64:
		hadamardAVX2(&x[0], len(x))
	default:
		plainHadamard(x)
	}
}

func selectBelow(values []float32, bound float32, out []uint32) int {
	switch {
	case level == Plain || len(values) == 0:
		return plainSelect(values, bound, out)
	case level == AVX2:
		return selectAVX2(&values[0], len(values), bound, &out[0])
	}
	return selectAVX512(&values[0], len(values), bound, &out[0])
}

func estimate(sums []int32, scales, adds []float32, f Affine, bound float32, out []float32) uint64 {
	n := len(sums) &^ 7
	if level == AVX512 {
		n = len(sums) &^ 15
	}
	var found uint64
	switch {
	case level == Plain || n == 0:
		return plainEstimate(sums, scales, adds, f, bound, out)
	case level == AVX2:
		found = estimateAVX2(&sums[0], &scales[0], &adds[0], n, f.Shift, f.A, f.B, f.Base, bound, &out[0])
	default:
		found = estimateAVX512(&sums[0], &scales[0], &adds[0], n, f.Shift, f.A, f.B, f.Base, bound, &out[0])
	}
	if n < len(sums) {
		found |= plainEstimate(sums[n:], scales[n:], adds[n:], f, bound, out[n:]) << n
	}
	return found
}

// highest gives the highest of the numbers, 0 of none.
func highest(ids []uint32) uint32 {
	if level == Plain || len(ids) < 8 {
		return plainHighest(ids)
	}
	return highestAVX2(&ids[0], len(ids))
}

func nearestOf(dim int, points, centroids, half []float32, ids []uint32, nearest []float32) {
	switch {
	case level == Plain || dim == 0:
		plainNearest(dim, points, centroids, half, ids, nearest)
	case level == AVX2:
		tiledNearest(6, 8, dim, points, centroids, half, ids, nearest)
	default:
		tiledNearest(8, 16, dim, points, centroids, half, ids, nearest)
	}
}

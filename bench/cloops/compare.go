package cloops

// #include "loops.h"
import "C"

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"github.com/overlakedb/overlake/internal/vec/kernel"
)

// Row is one kernel at one dimension, in nanoseconds of processor time for one vector. What this machine cannot run is 0.
type Row struct {
	Kernel string  `json:"kernel"` // as in package kernel; near is 24 KiB in order, hot 256 KiB, stream 256 MiB, cold random rows of 256 MiB
	Dim    int     `json:"dim"`    // elements, or bits
	AVX512 float64 `json:"avx512"`
	AVX2   float64 `json:"avx2"`
	Plain  float64 `json:"plain"`
	C      float64 `json:"c"`     // 0 where no loop was written
	Ratio  float64 `json:"ratio"` // C over the best level of this machine: above 1 ours is faster
}

const (
	nearBytes = 24 << 10
	hotBytes  = 256 << 10
	coldBytes = 256 << 20

	streamBytes = 1 << 20 // of a call
	batch       = 32      // rows of a call by number

	rounds = 9
	slice  = 1_000_000 // nanoseconds of one measurement
)

var dims = []int{128, 384, 768, 1536}

// Compare measures kernels and loops in turns, round by round, and takes the median of each. It takes some seconds, and no
// other call of package kernel may be under way.
func Compare() []Row {
	r := rand.New(rand.NewPCG(1, 2))
	var out []Row
	floats := make([]float32, coldBytes/4)
	for i := range floats {
		floats[i] = float32(r.NormFloat64())
	}
	codes := make([]byte, hotBytes)
	for i := range codes {
		codes[i] = byte(r.Uint32())
	}
	results, sums, counts := make([]float32, hotBytes), make([]int32, hotBytes), make([]uint32, hotBytes)
	for _, k := range []struct {
		name    string
		bytes   int
		ours, c func(q, rows, out []float32)
	}{{"L2 near", nearBytes, kernel.L2, L2}, {"L2 hot", hotBytes, kernel.L2, L2}, {"Dot hot", hotBytes, kernel.Dot, Dot}} {
		for _, d := range dims {
			n := k.bytes / 4 / d
			q, x := floats[len(floats)-d:], floats[:n*d]
			out = append(out, measure(k.name, d, n, func() { k.ours(q, x, results[:n]) }, func() { k.c(q, x, results[:n]) }))
		}
	}
	for _, d := range dims {
		n, at := streamBytes/4/d, 0
		q := floats[:d]
		next := func() []float32 {
			at = (at + n*d) % (len(floats) - n*d)
			return floats[at:][:n*d]
		}
		out = append(out, measure("L2 stream", d, n, func() { kernel.L2(q, next(), results[:n]) }, func() { L2(q, next(), results[:n]) }))
	}
	ids := make([]uint32, 1<<18)
	for _, k := range []struct {
		name    string
		ours, c func(q, rows []float32, ids []uint32, out []float32)
	}{{"L2At cold", kernel.L2At, L2At}, {"DotAt cold", kernel.DotAt, DotAt}} {
		for _, d := range dims {
			q, rows := floats[:d], len(floats)/d
			for i := range ids {
				ids[i] = uint32(r.IntN(rows))
			}
			at := 0
			next := func() []uint32 { // the loop gets all of them in one call, as much as 16 batches of ours
				at = (at + 16*batch) % len(ids)
				return ids[at:][:16*batch]
			}
			ours := func() {
				for b := range slices.Chunk(next(), batch) {
					k.ours(q, floats[:rows*d], b, results)
				}
			}
			out = append(out, measure(k.name, d, 16*batch, ours, func() { k.c(q, floats[:rows*d], next(), results[:16*batch]) }))
		}
	}
	for _, d := range dims {
		n := hotBytes / d
		q, x := unsafe.Slice((*int8)(unsafe.Pointer(&codes[7])), d), codes[:n*d]
		out = append(out, measure("DotU8 hot", d, n, func() { kernel.DotU8(q, x, sums[:n]) }, func() { DotU8(q, x, sums[:n]) }))
	}
	for _, d := range dims {
		n := hotBytes / (d / 8)
		q, x := codes[8:][:d/8], codes[:n*(d/8)]
		out = append(out, measure("Hamming hot", d, n, func() { kernel.Hamming(q, x, counts[:n]) }, func() { Hamming(q, x, counts[:n]) }))
	}
	return append(out, alone(floats, codes)...)
}

// alone are the kernels for which there is no loop in C.
func alone(floats []float32, codes []byte) []Row {
	var out []Row
	results, sums, counts := make([]float32, hotBytes), make([]int32, hotBytes), make([]uint32, hotBytes)
	levels := (*[16]byte)(codes[:16])
	for _, d := range dims {
		n, q := hotBytes/4/d, floats[len(floats)-d:]
		out = append(out, measure("L1 hot", d, n, func() { kernel.L1(q, floats[:n*d], results[:n]) }, nil))
	}
	halves := unsafe.Slice((*uint16)(unsafe.Pointer(&codes[0])), len(codes)/2)
	for i := range halves {
		halves[i] &= 0xbfff // no infinite numbers
	}
	for _, d := range dims {
		n, q := len(halves)/d, floats[:d]
		out = append(out, measure("HalfL2 hot", d, n, func() { kernel.HalfL2(q, halves[:n*d], results[:n]) }, nil))
	}
	for _, d := range dims {
		n, q := hotBytes/(d/2), unsafe.Slice((*int8)(unsafe.Pointer(&codes[7])), d)
		out = append(out, measure("Dot4 hot", d, n, func() { kernel.Dot4(q, levels, codes[:n*(d/2)], sums[:n]) }, nil))
	}
	for _, d := range dims {
		n, q := hotBytes/(d/8), codes[8:][:d/8]
		out = append(out, measure("Overlap hot", d, n, func() { kernel.Overlap(q, codes[:n*(d/8)], counts[:n]) }, nil))
	}
	var block [kernel.BlockRows]uint32
	for _, d := range dims {
		tables, size := codes[:4*d], 8*d
		n := hotBytes / size
		out = append(out, measure("ScanBlock hot", d, n*kernel.BlockRows, func() {
			for i := range n {
				kernel.ScanBlock(tables, codes[i*size:][:size], &block)
			}
		}, nil))
	}
	for _, d := range []int{128, 512, 1024, 2048, 4096} {
		x := make([]float32, d)
		out = append(out, measure("Hadamard", d, 1, func() { kernel.Hadamard(x) }, nil))
	}
	const n = 4096
	for _, percent := range []int{1, 10, 50} {
		for i := range results[:n] {
			results[i] = float32(int(floats[i]*1e6)%100 + 100)
		}
		bound := slices.Sorted(slices.Values(results[:n]))[n*percent/100]
		out = append(out, measure(fmt.Sprintf("Select %d %% of 4,096", percent), 1, n, func() { kernel.Select(results[:n], bound, counts) }, nil))
	}
	for _, d := range []int{128, 768} {
		points, centroids, half, ids := floats[:256*d], floats[256*d:][:n*d], results[:n], counts[:256]
		out = append(out,
			measure("Nearest of 4,096", d, n*len(ids), func() { kernel.Nearest(d, points, centroids, half, ids, results[n:]) }, nil),
			measure("Dot of the same", d, n, func() { kernel.Dot(points[:d], centroids, results[n:][:n]) }, nil))
	}
	return out
}

// measure times one call of each kind after the other, again and again. loop may be nil.
func measure(name string, dim, vectors int, ours, loop func()) Row {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer kernel.Use(kernel.Use(kernel.Best()))
	ways := []func(){loop}
	for l := kernel.Plain; l <= kernel.Best(); l++ {
		ways = append(ways, func() { kernel.Use(l); ours() })
	}
	times := make([][]float64, len(ways))
	for range rounds {
		for i, way := range ways {
			if way == nil {
				continue
			}
			// The clock is asked so rarely that asking it does not count.
			calls, spent := 1, int64(0)
			for {
				start := int64(C.loop_cpu())
				for range calls {
					way()
				}
				if spent = int64(C.loop_cpu()) - start; spent >= slice {
					break
				}
				calls *= 2
			}
			times[i] = append(times[i], float64(spent)/float64(calls*vectors))
		}
	}
	var medians [4]float64
	for i, t := range times {
		if slices.Sort(t); len(t) > 0 {
			medians[i] = t[len(t)/2]
		}
	}
	r := Row{Kernel: name, Dim: dim, C: medians[0], Plain: medians[1], AVX2: medians[2], AVX512: medians[3]}
	r.Ratio = over(r.C, medians[len(times)-1])
	return r
}

// Table writes rows as a table of Markdown, with the speed of C as 1.
func Table(rows []Row) string {
	var b strings.Builder
	b.WriteString("| kernel | d | AVX-512 ns | AVX2 ns | C ns | plain Go ns | AVX-512 / C | AVX2 / C | AVX2 / plain Go |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	number := func(form string, v float64) string {
		if v == 0 {
			return ""
		}
		return fmt.Sprintf(form, v)
	}
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | %s | %s | %s | %s |\n", r.Kernel, r.Dim,
			number("%.2f", r.AVX512), number("%.2f", r.AVX2), number("%.2f", r.C), number("%.1f", r.Plain),
			number("%.2f", over(r.C, r.AVX512)), number("%.2f", over(r.C, r.AVX2)), number("%.1f", over(r.Plain, r.AVX2)))
	}
	return b.String()
}

func over(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

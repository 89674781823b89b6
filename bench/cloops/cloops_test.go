package cloops_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/overlakedb/overlake/bench/cloops"
	"github.com/overlakedb/overlake/internal/vec/kernel"
)

// TestSame: what is compared must do the same work.
func TestSame(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const d, rows = 192, 9
	q, x, q8, c := make([]float32, d), make([]float32, d*rows), make([]int8, d), make([]byte, d*rows)
	for i := range x {
		x[i], c[i] = r.Float32(), byte(r.Uint32())
	}
	for i := range q {
		q[i], q8[i] = r.Float32(), int8(r.Uint32())
	}
	ids := []uint32{8, 0, 3, 3}
	floats := func(name string, n int, ours, loop func(out []float32)) {
		a, b := make([]float32, n), make([]float32, n)
		ours(a)
		loop(b)
		for i := range a {
			if math.Abs(float64(a[i]-b[i])) > 1e-4*float64(a[i]) || a[i] == 0 {
				t.Errorf("%s: row %d is %v here and %v there", name, i, a[i], b[i])
			}
		}
	}
	floats("L2", rows, func(o []float32) { kernel.L2(q, x, o) }, func(o []float32) { cloops.L2(q, x, o) })
	floats("Dot", rows, func(o []float32) { kernel.Dot(q, x, o) }, func(o []float32) { cloops.Dot(q, x, o) })
	floats("L2At", 4, func(o []float32) { kernel.L2At(q, x, ids, o) }, func(o []float32) { cloops.L2At(q, x, ids, o) })
	floats("DotAt", 4, func(o []float32) { kernel.DotAt(q, x, ids, o) }, func(o []float32) { cloops.DotAt(q, x, ids, o) })

	a, b := make([]int32, rows), make([]int32, rows)
	kernel.DotU8(q8, c, a)
	cloops.DotU8(q8, c, b)
	if !slices.Equal(a, b) {
		t.Errorf("DotU8: %v and %v", a, b)
	}
	m, n := make([]uint32, rows), make([]uint32, rows)
	kernel.Hamming(c[:d], c, m)
	cloops.Hamming(c[:d], c, n)
	if !slices.Equal(m, n) || m[0] != 0 || m[1] == 0 {
		t.Errorf("Hamming: %v and %v", m, n)
	}
}

// TestDenormals: -ffast-math must not reach the linker, which would make the whole program treat tiny numbers as zero.
func TestDenormals(t *testing.T) {
	out := make([]float32, 1)
	cloops.Dot([]float32{1}, []float32{1}, out)
	tiny := math.Float32frombits(1)
	if x := tiny * out[0]; x == 0 {
		t.Error("tiny numbers have become zero")
	}
}

// BenchmarkCompare prints the table: go test ./bench/cloops -run '^$' -bench Compare -benchtime 1x
func BenchmarkCompare(b *testing.B) {
	for b.Loop() {
		fmt.Print("\n" + cloops.Table(cloops.Compare()))
	}
}

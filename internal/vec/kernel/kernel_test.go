package kernel_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/overlakedb/overlake/internal/vec/kernel"
)

// levels calls test once for every level of this machine, with the level in use.
func levels(t *testing.T, test func(t *testing.T)) {
	for l := kernel.Plain; l <= kernel.Best(); l++ {
		t.Run(l.String(), func(t *testing.T) {
			defer kernel.Use(kernel.Use(l))
			test(t)
		})
	}
}

// plain gives what the plain kernels say.
func plain(call func()) {
	defer kernel.Use(kernel.Use(kernel.Plain))
	call()
}

// dims are the lengths of rows that are looked at.
func dims(step int) []int {
	var out []int
	for d := 0; d <= 300; d++ {
		if d%step == 0 {
			out = append(out, d)
		}
	}
	for _, d := range []int{384, 768, 1536, 16000} {
		out = append(out, d/step*step)
	}
	return out
}

func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

// numbers, and with strange ones among them where asked.
func numbers(r *rand.Rand, x []float32, strange bool) {
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	if strange && len(x) > 0 {
		odd := []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 1e-42, -3e-45, 1e30, -1e30, 0, float32(math.Copysign(0, -1))}
		for range 1 + r.IntN(3) {
			x[r.IntN(len(x))] = odd[r.IntN(len(odd))]
		}
	}
}

func places(r *rand.Rand, ids []uint32, rows int) {
	for i := range ids {
		ids[i] = uint32(r.IntN(rows))
	}
}

// floatKernels are the kernels whose sums are floats, with the terms that they add.
var floatKernels = []struct {
	name string
	all  func(q, rows, out []float32)
	at   func(q, rows []float32, ids []uint32, out []float32)
	term func(a, b float64) float64
}{
	{"L2", kernel.L2, kernel.L2At, func(a, b float64) float64 { return (a - b) * (a - b) }},
	{"Dot", kernel.Dot, kernel.DotAt, func(a, b float64) float64 { return a * b }},
	{"L1", kernel.L1, kernel.L1At, func(a, b float64) float64 { return math.Abs(a - b) }},
}

// near compares a sum with what the plain kernel gives and with the sum of the terms in double precision.
func near(got, twin float32, q, row []float32, term func(a, b float64) float64) string {
	var sum, size float64
	for i := range q {
		t := term(float64(q[i]), float64(row[i]))
		sum += t
		size += math.Abs(t)
	}
	if math.IsNaN(float64(twin)) || math.IsInf(float64(twin), 0) {
		if got != twin && !(got != got && twin != twin) {
			return fmt.Sprintf("got %v, the plain kernel %v", got, twin)
		}
		return ""
	}
	// A sum of n terms in any order errs by n roundings of the sum of sizes, and denormals by one unit a term.
	limit := float64(len(q)+2)*0x1p-24*size + float64(len(q))*0x1p-149
	if d := math.Abs(float64(got) - sum); !(d <= limit) {
		return fmt.Sprintf("got %v, exact %v: more than %v apart", got, sum, limit)
	}
	return ""
}

func TestFloats(t *testing.T) {
	levels(t, func(t *testing.T) {
		for _, d := range dims(1) {
			r := random(uint64(d))
			rows := 9 + r.IntN(8)
			if d > 1000 {
				rows = 5 + d%3
			}
			for _, strange := range []bool{false, true} {
				q, x := guarded[float32](t, d), guarded[float32](t, d*rows)
				numbers(r, q, strange && d%2 == 0)
				numbers(r, x, strange)
				for _, k := range floatKernels {
					got, twin := guarded[float32](t, rows), make([]float32, rows)
					k.all(q, x, got)
					plain(func() { k.all(q, x, twin) })
					for i := range got {
						if p := near(got[i], twin[i], q, x[i*d:][:d], k.term); p != "" {
							t.Fatalf("%s of %d, row %d of %d: %s", k.name, d, i, rows, p)
						}
					}
					if d == 0 {
						continue
					}
					for _, n := range []int{0, 1, 3, 4, 6, 7, 13} {
						ids := guarded[uint32](t, n)
						places(r, ids, rows)
						byID := guarded[float32](t, n)
						k.at(q, x, ids, byID)
						for i, id := range ids {
							if p := near(byID[i], twin[id], q, x[int(id)*d:][:d], k.term); p != "" {
								t.Fatalf("%sAt of %d, row %d: %s", k.name, d, id, p)
							}
						}
					}
				}
			}
		}
	})
}

// TestOffsets moves all slices by a few elements, so that nothing is aligned.
func TestOffsets(t *testing.T) {
	levels(t, func(t *testing.T) {
		r := random(1)
		for off := range 9 {
			const d, rows = 133, 6
			q, x, got, twin := make([]float32, d+off), make([]float32, off+d*rows), make([]float32, off+rows), make([]float32, rows)
			numbers(r, q, false)
			numbers(r, x, false)
			for _, k := range floatKernels {
				for i := range got {
					got[i] = 77
				}
				k.all(q[off:], x[off:], got[off:])
				plain(func() { k.all(q[off:], x[off:], twin) })
				for i := range twin {
					if p := near(got[off+i], twin[i], q[off:], x[off+i*d:][:d], k.term); p != "" {
						t.Fatalf("%s, moved by %d: %s", k.name, off, p)
					}
				}
				for _, v := range got[:off] {
					if v != 77 {
						t.Fatalf("%s wrote before its output", k.name)
					}
				}
			}
		}
	})
}

func halves(r *rand.Rand, x []uint16, strange bool) {
	for i := range x {
		if strange {
			x[i] = uint16(r.Uint32())
		} else {
			x[i] = uint16(r.IntN(2))<<15 | uint16(8+r.IntN(10))<<10 | uint16(r.IntN(1024))
		}
	}
}

// widened gives the numbers of halves, by way of one kernel with one element.
func widened(x []uint16) []float32 {
	out := make([]float32, len(x))
	plain(func() { kernel.HalfDot([]float32{1}, x, out) })
	return out
}

// halfKernels are the kernels over rows of binary16.
var halfKernels = []struct {
	name string
	all  func(q []float32, rows []uint16, out []float32)
	at   func(q []float32, rows []uint16, ids []uint32, out []float32)
	term func(a, b float64) float64
}{
	{"HalfL2", kernel.HalfL2, kernel.HalfL2At, floatKernels[0].term},
	{"HalfDot", kernel.HalfDot, kernel.HalfDotAt, floatKernels[1].term},
}

func TestHalves(t *testing.T) {
	levels(t, func(t *testing.T) {
		for _, d := range dims(1) {
			r := random(uint64(d))
			rows := 7 + d%4
			for _, strange := range []bool{false, true} {
				q, x := guarded[float32](t, d), guarded[uint16](t, d*rows)
				numbers(r, q, strange && d%3 == 0)
				halves(r, x, strange)
				wide := widened(x)
				for _, k := range halfKernels {
					got, twin := guarded[float32](t, rows), make([]float32, rows)
					k.all(q, x, got)
					plain(func() { k.all(q, x, twin) })
					for i := range got {
						if p := near(got[i], twin[i], q, wide[i*d:][:d], k.term); p != "" {
							t.Fatalf("%s of %d, row %d of %d: %s", k.name, d, i, rows, p)
						}
					}
					if d == 0 {
						continue
					}
					ids := guarded[uint32](t, 11)
					places(r, ids, rows)
					byID := guarded[float32](t, len(ids))
					k.at(q, x, ids, byID)
					for i, id := range ids {
						if p := near(byID[i], twin[id], q, wide[int(id)*d:][:d], k.term); p != "" {
							t.Fatalf("%sAt of %d, row %d: %s", k.name, d, id, p)
						}
					}
				}
			}
		}
	})
}

// TestAllHalves looks at every number of 16 bits: those that binary16 has, by the rule of the standard.
func TestAllHalves(t *testing.T) {
	levels(t, func(t *testing.T) {
		const d = 64
		x := make([]uint16, 1<<16)
		for i := range x {
			x[i] = uint16(i)
		}
		q, out := make([]float32, d), make([]float32, len(x)/d)
		for at := range d {
			clear(q)
			q[at] = 1
			row := slices.Clone(x)
			for i := range row {
				if i%d != at {
					row[i] = 0
				}
			}
			kernel.HalfDot(q, row, out)
			for i, got := range out {
				h := x[i*d+at]
				sign := 1 - 2*float64(h>>15)
				e, f := int(h>>10&31), float64(h&1023)
				want := sign * math.Ldexp(1+f/1024, e-15)
				switch {
				case e == 0:
					want = sign * math.Ldexp(f, -24)
				case e == 31 && f == 0:
					want = math.Inf(int(sign))
				case e == 31:
					want = math.NaN()
				}
				if float64(got) != want && !(got != got && want != want) {
					t.Fatalf("%#04x is %v, got %v", h, want, got)
				}
			}
		}
	})
}

func TestHighest(t *testing.T) {
	mustPanic := func(name string, call func()) {
		defer func() {
			if recover() == nil {
				t.Errorf("%s did not panic", name)
			}
		}()
		call()
	}
	x, out := make([]float32, 8*5), make([]float32, 40)
	for n := 1; n < 40; n++ {
		for bad := range n {
			ids := make([]uint32, n)
			ids[bad] = 4
			kernel.L2At(x[:8], x, ids, out)
			for _, beyond := range []uint32{5, 1 << 31, 1<<32 - 1} {
				ids[bad] = beyond
				mustPanic(fmt.Sprintf("row %d at %d of %d", beyond, bad, n), func() { kernel.L2At(x[:8], x, ids, out) })
			}
		}
	}
	rows := make([]float32, 65)
	mustPanic("short output", func() { kernel.L2At(x[:8], x, make([]uint32, 3), out[:2]) })
	mustPanic("half a row", func() { kernel.L2(x[:8], x[:12], out[:1]) })
	mustPanic("a row of no whole chunk", func() { kernel.DotU8(make([]int8, 65), make([]byte, 65), make([]int32, 1)) })
	mustPanic("short output of Estimate", func() { kernel.Estimate(make([]int32, 9), x, x, kernel.Affine{}, 0, out[:8]) })
	mustPanic("few scales of Estimate", func() { kernel.Estimate(make([]int32, 9), x[:8], x, kernel.Affine{}, 0, out) })
	mustPanic("few addends of Estimate", func() { kernel.Estimate(make([]int32, 9), x, x[:8], kernel.Affine{}, 0, out) })
	mustPanic("many sums of Estimate", func() { kernel.Estimate(make([]int32, 65), rows, rows, kernel.Affine{}, 0, rows) })
	mustPanic("short output of Select", func() { kernel.Select(x, 1, make([]uint32, 7)) })
}

// TestNoAllocations: what callers keep on the stack stays there.
func TestNoAllocations(t *testing.T) {
	levels(t, func(t *testing.T) {
		rows, codes := make([]float32, 16*100), make([]byte, 64*100)
		for name, call := range map[string]func(){
			"L2At": func() {
				var q [16]float32
				var out [9]float32
				ids := [9]uint32{1, 5, 99}
				kernel.L2At(q[:], rows, ids[:], out[:])
			},
			"DotU8": func() {
				var q [64]int8
				var out [100]int32
				kernel.DotU8(q[:], codes, out[:])
			},
			"ScanBlock": func() {
				var tables [64]byte
				var out [kernel.BlockRows]uint32
				kernel.ScanBlock(tables[:], codes[:128], &out)
			},
			"Hadamard": func() {
				var x [512]float32
				kernel.Hadamard(x[:])
			},
			"Estimate": func() {
				var sums [kernel.BlockRows]uint32
				var out [kernel.BlockRows]float32
				kernel.Estimate(sums[:], rows, rows, kernel.Affine{A: 1}, 1, out[:])
			},
			"Select": func() {
				var out [1600]uint32
				kernel.Select(rows, 1, out[:])
			},
		} {
			if n := testing.AllocsPerRun(10, call); n != 0 {
				t.Errorf("%s allocates %v times", name, n)
			}
		}
	})
}

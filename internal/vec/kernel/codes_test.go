package kernel_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/overlakedb/overlake/internal/vec/kernel"
)

// codeKernels are the kernels over bytes, whose sums are the same on every machine. size is the number of bytes of a row
// for one element of the query, in halves.
var codeKernels = []struct {
	name string
	step int // the length of a query is a multiple of it
	size int // bytes of two rows for one byte of the query
	all  func(q, rows []byte, out []uint32)
	at   func(q, rows []byte, ids, out []uint32)
}{
	{"DotU8", 64, 2,
		func(q, rows []byte, out []uint32) { kernel.DotU8(signed(q), rows, signed32(out)) },
		func(q, rows []byte, ids, out []uint32) { kernel.DotU8At(signed(q), rows, ids, signed32(out)) }},
	{"Dot4", 64, 1,
		func(q, rows []byte, out []uint32) { kernel.Dot4(signed(q), &someLevels, rows, signed32(out)) },
		func(q, rows []byte, ids, out []uint32) {
			kernel.Dot4At(signed(q), &someLevels, rows, ids, signed32(out))
		}},
	{"Hamming", 8, 2, kernel.Hamming, kernel.HammingAt},
	{"Overlap", 8, 2, kernel.Overlap, kernel.OverlapAt},
}

var someLevels = [16]byte{0, 255, 1, 254, 128, 127, 3, 77, 200, 9, 31, 64, 65, 190, 240, 18}

// TestCodes compares every implementation with the plain one, to the last digit, also where all bytes are extreme.
func TestCodes(t *testing.T) {
	fills := map[string]func(r *rand.Rand, b []byte, query bool){
		"random": func(r *rand.Rand, b []byte, _ bool) {
			for i := range b {
				b[i] = byte(r.Uint32())
			}
		},
		"largest": func(_ *rand.Rand, b []byte, query bool) {
			for i := range b {
				b[i] = 255
				if query {
					b[i] = 127
				}
			}
		},
		"least": func(_ *rand.Rand, b []byte, query bool) {
			for i := range b {
				b[i] = 0x11 // two half bytes of the level 255
				if query {
					b[i] = 0x80
				} else if i%3 > 0 {
					b[i] = 255
				}
			}
		},
	}
	levels(t, func(t *testing.T) {
		for _, k := range codeKernels {
			for _, d := range dims(k.step) {
				for name, fill := range fills {
					r := random(uint64(d))
					rows, size := 9+r.IntN(8), d*k.size/2
					q, x := guarded[byte](t, d), guarded[byte](t, rows*size)
					fill(r, q, true)
					fill(r, x, false)
					got, want := guarded[uint32](t, rows), make([]uint32, rows)
					k.all(q, x, got)
					plain(func() { k.all(q, x, want) })
					if !slices.Equal(got, want) {
						t.Fatalf("%s of %d, %s: got %v, want %v", k.name, d, name, got, want)
					}
					for n := 0; n < 14 && d > 0; n++ {
						ids, byID := guarded[uint32](t, n), guarded[uint32](t, n)
						places(r, ids, rows)
						k.at(q, x, ids, byID)
						for i, id := range ids {
							if byID[i] != want[id] {
								t.Fatalf("%sAt of %d, %s, row %d: got %d, want %d", k.name, d, name, id, byID[i], want[id])
							}
						}
					}
				}
			}
		}
	})
}

// TestCodesByHand looks at sums that one can do in one's head.
func TestCodesByHand(t *testing.T) {
	levels(t, func(t *testing.T) {
		q, row := make([]int8, 128), make([]byte, 128)
		for i := range q {
			q[i], row[i] = -128, 255
		}
		var out [1]int32
		if kernel.DotU8(q, row, out[:]); out[0] != 128*-128*255 {
			t.Errorf("DotU8: got %d", out[0])
		}
		// Element 1 is the low half of byte 1, element 33 the high half; the second 32 bytes have elements 64 and on.
		clear(row)
		clear(q)
		row[1], row[34] = 0x2<<4|0x1, 0x4
		q[1], q[33], q[66] = 1, 10, 100
		lv := [16]byte{0, 3, 5, 7, 9}
		if kernel.Dot4(q, &lv, row[:64], out[:]); out[0] != 3+50+900 {
			t.Errorf("Dot4: got %d", out[0])
		}
		a, b := []byte{0xff, 1, 0, 0, 0, 0, 0, 0x80}, []byte{0x0f, 1, 0, 0, 0, 0, 0, 0}
		var n [1]uint32
		if kernel.Hamming(a, b, n[:]); n[0] != 5 {
			t.Errorf("Hamming: got %d", n[0])
		}
		if kernel.Overlap(a, b, n[:]); n[0] != 5 {
			t.Errorf("Overlap: got %d", n[0])
		}
		if kernel.Hamming(a, a, n[:]); n[0] != 0 {
			t.Errorf("Hamming of itself: got %d", n[0])
		}
	})
}

func ExampleHamming() {
	query := []byte{0b1010, 0, 0, 0, 0, 0, 0, 0}
	codes := []byte{
		0b1010, 0, 0, 0, 0, 0, 0, 0,
		0b0101, 0, 0, 0, 0, 0, 0, 1,
	}
	out := make([]uint32, 2)
	kernel.Hamming(query, codes, out)
	fmt.Println(out)
	// Output: [0 5]
}

func signed(b []byte) []int8 {
	return unsafe.Slice((*int8)(unsafe.Pointer(unsafe.SliceData(b))), len(b))
}

func signed32(b []uint32) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(b))), len(b))
}

package code

import (
	"math"

	"github.com/overlakedb/overlake/internal/vec/kernel"
)

// rotation is a product of three rounds of random signs and a Walsh-Hadamard transform (Ailon and Chazelle, "The fast
// Johnson-Lindenstrauss transform", 2009). A transform needs a power of two elements: the largest one that fits is taken of
// the front, of the end and of the front again. Where they do not cover all, the two halves are also turned into each other
// by 45 degrees, element by element, because windows may overlap in a few elements only.
type rotation struct {
	dim    int
	window int          // the power of two
	signs  [3][]float32 // +1 or -1, divided by the square root of window for elements inside
}

func newRotation(dim int, seed uint64) rotation {
	r := rotation{dim: dim, window: 1}
	for r.window*2 <= dim {
		r.window *= 2
	}
	root := float32(1 / math.Sqrt(float64(r.window)))
	bits := splitMix(seed)
	for round := range r.signs {
		s := make([]float32, dim)
		from := r.from(round)
		var word uint64
		for i := range s {
			if i%64 == 0 {
				word = bits.next()
			}
			s[i] = 1
			if i >= from && i < from+r.window {
				s[i] = root
			}
			if word>>(i%64)&1 == 1 {
				s[i] = -s[i]
			}
		}
		r.signs[round] = s
	}
	return r
}

// from is where the window of a round begins.
func (r *rotation) from(round int) int {
	if round == 1 {
		return r.dim - r.window
	}
	return 0
}

func (r *rotation) apply(x []float32) {
	for round, signs := range r.signs {
		if signs == nil {
			return
		}
		signs = signs[:len(x)]
		for i, v := range x {
			x[i] = v * signs[i]
		}
		from := r.from(round)
		kernel.Hadamard(x[from : from+r.window])
		if r.window < r.dim {
			halves(x)
		}
	}
}

// halves turns each element of the first half and its fellow of the second by 45 degrees.
func halves(x []float32) {
	const root = float32(1 / math.Sqrt2)
	a, b := x[:len(x)/2], x[(len(x)+1)/2:]
	b = b[:len(a)]
	for i, v := range a {
		w := b[i]
		a[i], b[i] = (v+w)*root, (v-w)*root
	}
}

// splitMix is the generator of Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014: its
// numbers are part of the format.
type splitMix uint64

func (s *splitMix) next() uint64 {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

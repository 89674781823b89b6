package vec

import "math"

// Sparse is a vector of which only some elements are kept; all others are 0.
type Sparse struct {
	Dim   int       // the number of all elements
	Index []int32   // the places of those kept, from 0, ascending
	Value []float32 // as many as Index
}

// each calls f with the elements of a and b wherever one of them keeps one.
func each(a, b *Sparse, f func(x, y float32)) {
	i, k := 0, 0
	for i < len(a.Index) && k < len(b.Index) {
		switch p, q := a.Index[i], b.Index[k]; {
		case p < q:
			f(a.Value[i], 0)
			i++
		case p > q:
			f(0, b.Value[k])
			k++
		default:
			f(a.Value[i], b.Value[k])
			i++
			k++
		}
	}
	for ; i < len(a.Index); i++ {
		f(a.Value[i], 0)
	}
	for ; k < len(b.Index); k++ {
		f(0, b.Value[k])
	}
}

// SparseSquaredL2 is the square of the Euclidean distance.
func SparseSquaredL2(a, b *Sparse) float32 {
	var sum float32
	each(a, b, func(x, y float32) {
		d := x - y
		sum += d * d
	})
	return sum
}

// SparseL2 is the Euclidean distance.
func SparseL2(a, b *Sparse) float64 { return math.Sqrt(float64(SparseSquaredL2(a, b))) }

// SparseL1 is the sum of absolute differences.
func SparseL1(a, b *Sparse) float64 {
	var sum float32
	each(a, b, func(x, y float32) { sum += abs(x - y) })
	return float64(sum)
}

// SparseDot is the inner product.
func SparseDot(a, b *Sparse) float32 {
	var sum float32
	i, k := 0, 0
	for i < len(a.Index) && k < len(b.Index) {
		p, q := a.Index[i], b.Index[k]
		if p == q {
			sum += a.Value[i] * b.Value[k]
		}
		if p <= q {
			i++
		}
		if q <= p {
			k++
		}
	}
	return sum
}

// SparseCosine is one minus the cosine of the angle, NaN when a vector is zero.
func SparseCosine(a, b *Sparse) float64 {
	return cosineOf(SparseDot(a, b), square(a.Value), square(b.Value))
}

func square(v []float32) float32 {
	var sum float32
	for _, x := range v {
		sum += x * x
	}
	return sum
}

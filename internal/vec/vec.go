// Package vec answers: how far apart are two vectors?
//
// The kernels work on float32 and add up in float32, four sums at a time, as pgvector does within rounding; what is made
// of the sum is float64. Both arguments must have the same length, which callers check.
package vec

import "math"

// SquaredL2 is the square of the Euclidean distance.
func SquaredL2(a, b []float32) float32 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float32
	i := 0
	for ; i+4 <= len(a); i += 4 {
		d0, d1, d2, d3 := a[i]-b[i], a[i+1]-b[i+1], a[i+2]-b[i+2], a[i+3]-b[i+3]
		s0 += d0 * d0
		s1 += d1 * d1
		s2 += d2 * d2
		s3 += d3 * d3
	}
	for ; i < len(a); i++ {
		d := a[i] - b[i]
		s0 += d * d
	}
	return s0 + s1 + s2 + s3
}

// L2 is the Euclidean distance.
func L2(a, b []float32) float64 { return math.Sqrt(float64(SquaredL2(a, b))) }

// Dot is the inner product.
func Dot(a, b []float32) float32 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float32
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += a[i] * b[i]
		s1 += a[i+1] * b[i+1]
		s2 += a[i+2] * b[i+2]
		s3 += a[i+3] * b[i+3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return s0 + s1 + s2 + s3
}

// Cosine is one minus the cosine of the angle; NaN when a vector is zero.
func Cosine(a, b []float32) float64 {
	b = b[:len(a)]
	var dot, na, nb float32
	for i, x := range a {
		y := b[i]
		dot += x * y
		na += x * x
		nb += y * y
	}
	s := float64(dot) / math.Sqrt(float64(na)*float64(nb))
	// Rounding may leave the range; NaN stays NaN.
	if s > 1 {
		s = 1
	} else if s < -1 {
		s = -1
	}
	return 1 - s
}

// L1 is the sum of absolute differences.
func L1(a, b []float32) float64 {
	b = b[:len(a)]
	var s float32
	for i, x := range a {
		d := x - b[i]
		if d < 0 {
			d = -d
		}
		s += d
	}
	return float64(s)
}

// Norm is the Euclidean length, added up in float64.
func Norm(a []float32) float64 {
	var s float64
	for _, x := range a {
		s += float64(x) * float64(x)
	}
	return math.Sqrt(s)
}

// Package vec answers: how far apart are two vectors?
//
// A vector is a slice of float32, a sparse vector a Sparse, a bit vector a string of packed bytes. The kernels follow
// pgvector: sums run in float32 (so a square may overflow to infinity or vanish below the smallest float32), and what is
// made of a sum, a root or a quotient, is float64. Over slices four sums run side by side, so the last digits differ from
// a sum in order.
//
//	K1  Both arguments have the same length; a shorter second one panics. Callers check outside input first
//	    (Dense.Same in package pgvector does, with pgvector's words).
//	K2  A function over one pair and its form over many rows give the same bits. The forms over many rows are the seam
//	    for wider instructions: one call does a whole batch.
package vec

import "math"

// SquaredL2 is the square of the Euclidean distance.
func SquaredL2(a, b []float32) float32 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float32
	i := 0
	for ; i < len(a)-3; i += 4 {
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
	return (s0 + s1) + (s2 + s3)
}

// L2 is the Euclidean distance, pgvector's <->.
func L2(a, b []float32) float64 { return math.Sqrt(float64(SquaredL2(a, b))) }

// Dot is the inner product.
func Dot(a, b []float32) float32 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float32
	i := 0
	for ; i < len(a)-3; i += 4 {
		s0 += a[i] * b[i]
		s1 += a[i+1] * b[i+1]
		s2 += a[i+2] * b[i+2]
		s3 += a[i+3] * b[i+3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return (s0 + s1) + (s2 + s3)
}

// NegativeDot is the inner product with its sign turned, pgvector's <#>; of orthogonal vectors it is -0.
func NegativeDot(a, b []float32) float64 { return -float64(Dot(a, b)) }

// Cosine is one minus the cosine of the angle, pgvector's <=>: from 0 to 2, and NaN when a vector is zero or its square
// leaves the range of float32.
func Cosine(a, b []float32) float64 {
	b = b[:len(a)]
	var d0, d1, d2, d3, x0, x1, x2, x3, y0, y1, y2, y3 float32
	i := 0
	for ; i < len(a)-3; i += 4 {
		d0 += a[i] * b[i]
		x0 += a[i] * a[i]
		y0 += b[i] * b[i]
		d1 += a[i+1] * b[i+1]
		x1 += a[i+1] * a[i+1]
		y1 += b[i+1] * b[i+1]
		d2 += a[i+2] * b[i+2]
		x2 += a[i+2] * a[i+2]
		y2 += b[i+2] * b[i+2]
		d3 += a[i+3] * b[i+3]
		x3 += a[i+3] * a[i+3]
		y3 += b[i+3] * b[i+3]
	}
	for ; i < len(a); i++ {
		y := b[i]
		d0 += a[i] * y
		x0 += a[i] * a[i]
		y0 += y * y
	}
	return cosineOf((d0+d1)+(d2+d3), (x0+x1)+(x2+x3), (y0+y1)+(y2+y3))
}

// cosineOf makes the distance of an inner product and two squared norms.
func cosineOf(dot, xx, yy float32) float64 {
	return 1 - clamp(float64(dot)/math.Sqrt(float64(xx)*float64(yy)))
}

// clamp brings back what rounding took out of the range of a cosine; NaN stays NaN.
func clamp(s float64) float64 {
	if s > 1 {
		return 1
	}
	if s < -1 {
		return -1
	}
	return s
}

// Spherical is the angle between two unit vectors as a share of a half turn, from 0 to 1.
func Spherical(a, b []float32) float64 { return math.Acos(clamp(float64(Dot(a, b)))) / math.Pi }

// L1 is the sum of absolute differences, pgvector's <+>.
func L1(a, b []float32) float64 { return float64(l1(a, b)) }

func l1(a, b []float32) float32 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float32
	i := 0
	for ; i < len(a)-3; i += 4 {
		s0 += abs(a[i] - b[i])
		s1 += abs(a[i+1] - b[i+1])
		s2 += abs(a[i+2] - b[i+2])
		s3 += abs(a[i+3] - b[i+3])
	}
	for ; i < len(a); i++ {
		s0 += abs(a[i] - b[i])
	}
	return (s0 + s1) + (s2 + s3)
}

func abs(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

// Norm is the Euclidean length, added up in float64.
func Norm(a []float32) float64 {
	var s0, s1, s2, s3 float64
	i := 0
	for ; i < len(a)-3; i += 4 {
		s0 += float64(a[i]) * float64(a[i])
		s1 += float64(a[i+1]) * float64(a[i+1])
		s2 += float64(a[i+2]) * float64(a[i+2])
		s3 += float64(a[i+3]) * float64(a[i+3])
	}
	for ; i < len(a); i++ {
		s0 += float64(a[i]) * float64(a[i])
	}
	return math.Sqrt((s0 + s1) + (s2 + s3))
}

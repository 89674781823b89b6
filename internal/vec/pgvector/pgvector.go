// Package pgvector answers: what does pgvector's type vector mean?
//
// It has the text form, the limits, the arithmetic and the error messages of PostgreSQL's extension, in plain Go.
// Source: the behaviour of pgvector 0.8 on PostgreSQL 15.
package pgvector

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/overlakedb/overlake/internal/vec"
)

// MaxDim is the largest number of dimensions.
const MaxDim = 16000

var errNoDimensions = errors.New("vector must have at least 1 dimension")

// Parse reads [1,2,3] and appends the elements to into.
func Parse(s string, into []float32) ([]float32, error) {
	bad := func() error { return fmt.Errorf("invalid input syntax for type vector: \"%s\"", s) }
	p := strings.Trim(s, " \t\n\r\v\f")
	if len(p) < 2 || p[0] != '[' || p[len(p)-1] != ']' {
		return nil, bad()
	}
	p = strings.Trim(p[1:len(p)-1], " \t\n\r\v\f")
	if p == "" {
		return nil, errNoDimensions
	}
	start := len(into)
	for {
		word, rest, more := strings.Cut(p, ",")
		word = strings.Trim(word, " \t\n\r\v\f")
		if len(into)-start == MaxDim {
			return nil, errTooMany()
		}
		f, err := parseElement(word)
		if err != nil {
			if errors.Is(err, errSyntax) {
				return nil, bad()
			}
			return nil, err
		}
		into = append(into, f)
		if !more {
			return into, nil
		}
		p = rest
	}
}

func errTooMany() error { return fmt.Errorf("vector cannot have more than %d dimensions", MaxDim) }

var errSyntax = errors.New("syntax")

func parseElement(word string) (float32, error) {
	if word == "" || strings.ContainsAny(word, "_xXpP") {
		return 0, errSyntax
	}
	f, err := strconv.ParseFloat(word, 32)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("\"%s\" is out of range for type vector", word)
	case err != nil:
		return 0, errSyntax
	case math.IsNaN(f):
		return 0, errors.New("NaN not allowed in vector")
	case math.IsInf(f, 0):
		return 0, errors.New("infinite value not allowed in vector")
	}
	return float32(f), nil
}

// Check refuses elements that a vector must not have.
func Check(v []float32) error {
	if len(v) == 0 {
		return errNoDimensions
	}
	if len(v) > MaxDim {
		return errTooMany()
	}
	for _, x := range v {
		switch {
		case x != x:
			return errors.New("NaN not allowed in vector")
		case math.IsInf(float64(x), 0):
			return errors.New("infinite value not allowed in vector")
		}
	}
	return nil
}

// CheckDim is what vector(n) demands.
func CheckDim(v []float32, n int) error {
	if len(v) != n {
		return fmt.Errorf("expected %d dimensions, not %d", n, len(v))
	}
	return nil
}

// CheckModifier is what n in vector(n) must be.
func CheckModifier(n int64) error {
	switch {
	case n < 1:
		return errors.New("dimensions for type vector must be at least 1")
	case n > MaxDim:
		return fmt.Errorf("dimensions for type vector cannot exceed %d", MaxDim)
	}
	return nil
}

// Same refuses two vectors of different length.
func Same(a, b []float32) error {
	if len(a) != len(b) {
		return fmt.Errorf("different vector dimensions %d and %d", len(a), len(b))
	}
	return nil
}

// Append writes the text form, with the shortest digits that read back, as PostgreSQL prints float4.
func Append(b []byte, v []float32) []byte {
	b = append(b, '[')
	for i, x := range v {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendFloat4(b, x)
	}
	return append(b, ']')
}

// Format is Append as a string.
func Format(v []float32) string { return string(Append(nil, v)) }

// appendFloat4 writes digits plainly for exponents from -4 to 6 and with an exponent outside, as float4 prints in
// PostgreSQL: 0.0001 and 1e-05, 999999 and 1e+06.
func appendFloat4(b []byte, x float32) []byte {
	s := strconv.FormatFloat(float64(x), 'e', -1, 32)
	_, exp, _ := strings.Cut(s, "e")
	if e, _ := strconv.Atoi(exp); x != 0 && (e < -4 || e >= 6) {
		return append(b, s...)
	}
	return strconv.AppendFloat(b, float64(x), 'f', -1, 32)
}

func elementwise(a, b []float32, into []float32, f func(x, y float32) float32, underflow bool) ([]float32, error) {
	if err := Same(a, b); err != nil {
		return nil, err
	}
	for i := range a {
		r := f(a[i], b[i])
		if math.IsInf(float64(r), 0) {
			return nil, errors.New("value out of range: overflow")
		}
		if underflow && r == 0 && a[i] != 0 && b[i] != 0 {
			return nil, errors.New("value out of range: underflow")
		}
		into = append(into, r)
	}
	return into, nil
}

// Add, Sub and Mul work element by element and append to into.
func Add(a, b, into []float32) ([]float32, error) {
	return elementwise(a, b, into, func(x, y float32) float32 { return x + y }, false)
}

// Sub subtracts.
func Sub(a, b, into []float32) ([]float32, error) {
	return elementwise(a, b, into, func(x, y float32) float32 { return x - y }, false)
}

// Mul multiplies.
func Mul(a, b, into []float32) ([]float32, error) {
	return elementwise(a, b, into, func(x, y float32) float32 { return x * y }, true)
}

// Concat joins two vectors.
func Concat(a, b, into []float32) ([]float32, error) {
	if len(a)+len(b) > MaxDim {
		return nil, errTooMany()
	}
	return append(append(into, a...), b...), nil
}

// Compare orders element by element, then by length.
func Compare(a, b []float32) int {
	for i := range min(len(a), len(b)) {
		switch {
		case a[i] < b[i]:
			return -1
		case a[i] > b[i]:
			return 1
		}
	}
	switch {
	case len(a) < len(b):
		return -1
	case len(a) > len(b):
		return 1
	}
	return 0
}

// Subvector is count elements from start, which counts from 1 and may lie before the first.
func Subvector(v []float32, start, count int32) ([]float32, error) {
	if count < 1 {
		return nil, errNoDimensions
	}
	lo, hi := int64(start), int64(start)+int64(count)
	lo, hi = max(lo, 1), min(hi, int64(len(v))+1)
	if lo >= hi {
		return nil, errNoDimensions
	}
	return v[lo-1 : hi-1], nil
}

// Normalize divides by the norm; a zero vector stays zero.
func Normalize(v, into []float32) ([]float32, error) {
	n := vec.Norm(v)
	for _, x := range v {
		r := x
		if n > 0 {
			r = float32(float64(x) / n)
		}
		if math.IsInf(float64(r), 0) {
			return nil, errors.New("value out of range: overflow")
		}
		into = append(into, r)
	}
	return into, nil
}

// Quantize is one bit a dimension, as text: 1 where the element is positive.
func Quantize(v []float32) string {
	b := make([]byte, len(v))
	for i, x := range v {
		b[i] = '0'
		if x > 0 {
			b[i] = '1'
		}
	}
	return string(b)
}

// BitDistances of two bit strings of equal length: how many bits differ, and one minus the share of common ones.
func BitDistances(a, b string) (hamming, jaccard float64, err error) {
	if len(a) != len(b) {
		return 0, 0, fmt.Errorf("different bit lengths %d and %d", len(a), len(b))
	}
	var differ, both, any float64
	for i := range len(a) {
		x, y := a[i] == '1', b[i] == '1'
		if x != y {
			differ++
		}
		if x && y {
			both++
		}
		if x || y {
			any++
		}
	}
	if both == 0 {
		return differ, 1, nil
	}
	return differ, 1 - both/any, nil
}

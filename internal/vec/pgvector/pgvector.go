// Package pgvector answers: what does pgvector's type vector mean?
//
// It has the values of PostgreSQL's extension in plain Go: the text form and its grammar, the limits, arithmetic, order,
// aggregates, casts, and the words of every error. Source: the behaviour of pgvector 0.8 on PostgreSQL. Distances are in
// package vec.
//
// A value is a []float32 of 1 to MaxDim finite elements. Functions that make one take a slice to append to, which may be
// nil, so that rows can share a buffer; the result may be that slice grown. On an error the result is nil.
//
// Errors are of kind errs.Invalid, print exactly pgvector's message, and carry an *Error with its SQLSTATE.
package pgvector

import (
	"fmt"
	"math"
	"strconv"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/vec"
)

// MaxDim is the largest number of dimensions.
const MaxDim = 16000

// The SQLSTATE codes of errors.
const (
	CodeData       = "22000" // data_exception
	CodeOutOfRange = "22003" // numeric_value_out_of_range
	CodeNull       = "22004" // null_value_not_allowed
	CodeParameter  = "22023" // invalid_parameter_value
	CodeSyntax     = "22P02" // invalid_text_representation
	CodeLimit      = "54000" // program_limit_exceeded
)

// Error is what PostgreSQL would report.
type Error struct {
	Code    string // SQLSTATE
	Message string
}

func (e *Error) Error() string { return e.Message }

func fail(code, format string, args ...any) error {
	return errs.Wrap(errs.Invalid, "pgvector", &Error{Code: code, Message: fmt.Sprintf(format, args...)})
}

func noDimensions() error { return fail(CodeData, "vector must have at least 1 dimension") }
func tooMany() error      { return fail(CodeLimit, "vector cannot have more than %d dimensions", MaxDim) }
func overflow() error     { return fail(CodeOutOfRange, "value out of range: overflow") }
func underflow() error    { return fail(CodeOutOfRange, "value out of range: underflow") }

// NullElement is the error for an array with a NULL in it.
func NullElement() error { return fail(CodeNull, "array must not contain nulls") }

// NotFlat is the error for an array of arrays.
func NotFlat() error { return fail(CodeData, "array must be 1-D") }

// checkElement refuses what no vector may hold.
func checkElement(x float32) error {
	switch {
	case x != x:
		return fail(CodeData, "NaN not allowed in vector")
	case math.IsInf(float64(x), 0):
		return fail(CodeData, "infinite value not allowed in vector")
	}
	return nil
}

func checkCount(n int) error {
	switch {
	case n < 1:
		return noDimensions()
	case n > MaxDim:
		return tooMany()
	}
	return nil
}

// Check refuses elements and numbers of elements that a vector must not have.
func Check(v []float32) error {
	if err := checkCount(len(v)); err != nil {
		return err
	}
	for _, x := range v {
		if x-x != 0 { // NaN or infinite
			return checkElement(x)
		}
	}
	return nil
}

// CheckDim is what vector(n) demands.
func CheckDim(v []float32, n int) error {
	if len(v) != n {
		return fail(CodeData, "expected %d dimensions, not %d", n, len(v))
	}
	return nil
}

// CheckModifier is what n in vector(n) must be: 1 to MaxDim.
func CheckModifier(n int64) error {
	switch {
	case n < 1:
		return fail(CodeParameter, "dimensions for type vector must be at least 1")
	case n > MaxDim:
		return fail(CodeParameter, "dimensions for type vector cannot exceed %d", MaxDim)
	}
	return nil
}

// ParseModifier reads n of vector(n) from text and checks it.
func ParseModifier(text string) (int, error) {
	n, err := strconv.ParseInt(trimSpace(text), 10, 32)
	if err != nil {
		if numErr, ok := err.(*strconv.NumError); ok && numErr.Err == strconv.ErrRange {
			return 0, fail(CodeOutOfRange, "value \"%s\" is out of range for type integer", text)
		}
		return 0, fail(CodeSyntax, "invalid input syntax for type integer: \"%s\"", text)
	}
	return int(n), CheckModifier(n)
}

// Same refuses two vectors of different length.
func Same(a, b []float32) error {
	if len(a) != len(b) {
		return fail(CodeData, "different vector dimensions %d and %d", len(a), len(b))
	}
	return nil
}

// Add adds element by element.
func Add(a, b, into []float32) ([]float32, error) {
	if err := Same(a, b); err != nil {
		return nil, err
	}
	start := len(into)
	for i, x := range a {
		into = append(into, x+b[i])
	}
	return finite(into, start)
}

// Sub subtracts element by element.
func Sub(a, b, into []float32) ([]float32, error) {
	if err := Same(a, b); err != nil {
		return nil, err
	}
	start := len(into)
	for i, x := range a {
		into = append(into, x-b[i])
	}
	return finite(into, start)
}

// Mul multiplies element by element. A product that vanishes although neither factor is 0 is an error too.
func Mul(a, b, into []float32) ([]float32, error) {
	if err := Same(a, b); err != nil {
		return nil, err
	}
	for i, x := range a {
		r := x * b[i]
		if math.IsInf(float64(r), 0) {
			return nil, overflow()
		}
		if r == 0 && x != 0 && b[i] != 0 {
			return nil, underflow()
		}
		into = append(into, r)
	}
	return into, nil
}

func finite(v []float32, from int) ([]float32, error) {
	for _, x := range v[from:] {
		if math.IsInf(float64(x), 0) {
			return nil, overflow()
		}
	}
	return v, nil
}

// Concat joins two vectors.
func Concat(a, b, into []float32) ([]float32, error) {
	if err := checkCount(len(a) + len(b)); err != nil {
		return nil, err
	}
	return append(append(into, a...), b...), nil
}

// Compare orders element by element, then by length; 0 equals -0.
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

// Subvector is count elements from start, which counts from 1 and may lie before the first. The result shares v's memory.
func Subvector(v []float32, start, count int32) ([]float32, error) {
	if count < 1 {
		return nil, noDimensions()
	}
	lo, hi := max(int64(start), 1), min(int64(start)+int64(count), int64(len(v))+1)
	if lo >= hi {
		return nil, noDimensions()
	}
	return v[lo-1 : hi-1], nil
}

// Normalize divides by the norm; a zero vector stays zero.
func Normalize(v, into []float32) ([]float32, error) {
	norm := vec.Norm(v)
	start := len(into)
	for _, x := range v {
		if norm > 0 {
			x = float32(float64(x) / norm)
		}
		into = append(into, x)
	}
	return finite(into, start)
}

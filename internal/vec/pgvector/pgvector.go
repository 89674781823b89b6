// Package pgvector answers: what do pgvector's types mean: their text, their limits, their arithmetic?
//
// It has the values of PostgreSQL's extension in plain Go: the text forms and their grammar, the limits, arithmetic, order,
// aggregates, casts, and the words of every error. Source: the behaviour of pgvector 0.8 on PostgreSQL. Distances are in
// package vec.
//
// The types vector and halfvec keep every element: a value is a []float32 of 1 to MaxDim finite elements, and those of a
// halfvec are numbers that 16 bits hold. What the two types do differently is in a Dense. A sparsevec is a vec.Sparse. A bit
// string is its text of the characters 0 and 1, or packed bytes and a number of bits.
//
// Functions that make a value take a slice to append to, which may be nil, so that rows can share a buffer; the result may
// be that slice grown. On an error the result is nil.
//
// Errors are of kind errs.Invalid, print exactly pgvector's message, and carry an *Error with its SQLSTATE.
package pgvector

import (
	"cmp"
	"fmt"
	"math"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/vec"
)

// The limits of pgvector: dimensions of vector and halfvec, dimensions of sparsevec, elements of sparsevec that are not 0.
const (
	MaxDim       = 16000
	MaxSparseDim = 1_000_000_000
	MaxNonzero   = 16000
)

// Dense is a type of vectors that keep every element.
type Dense struct {
	name string
	half bool
}

// The two dense types.
var (
	Vector  = &Dense{name: "vector"}
	Halfvec = &Dense{name: "halfvec", half: true}
)

// Name is the name of the type.
func (d *Dense) Name() string { return d.name }

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

func noDimensions(typ string) error { return fail(CodeData, "%s must have at least 1 dimension", typ) }
func tooMany(typ string, limit int) error {
	return fail(CodeLimit, "%s cannot have more than %d dimensions", typ, limit)
}
func tooLarge(text, typ string) error {
	return fail(CodeOutOfRange, "\"%s\" is out of range for type %s", text, typ)
}
func overflow() error  { return fail(CodeOutOfRange, "value out of range: overflow") }
func underflow() error { return fail(CodeOutOfRange, "value out of range: underflow") }

// NullElement is the error for an array with a NULL in it.
func NullElement() error { return fail(CodeNull, "array must not contain nulls") }

// NotFlat is the error for an array of arrays.
func NotFlat() error { return fail(CodeData, "array must be 1-D") }

// checkElement refuses what no vector of a type may hold.
func checkElement(x float32, typ string) error {
	switch {
	case x != x:
		return fail(CodeData, "NaN not allowed in %s", typ)
	case math.IsInf(float64(x), 0):
		return fail(CodeData, "infinite value not allowed in %s", typ)
	}
	return nil
}

func checkCount(n int, typ string, limit int) error {
	switch {
	case n < 1:
		return noDimensions(typ)
	case n > limit:
		return tooMany(typ, limit)
	}
	return nil
}

// Check refuses elements and numbers of elements that a value must not have. It does not ask whether 16 bits hold them.
func (d *Dense) Check(v []float32) error {
	if err := checkCount(len(v), d.name, MaxDim); err != nil {
		return err
	}
	for _, x := range v {
		if x-x != 0 { // NaN or infinite
			return checkElement(x, d.name)
		}
	}
	return nil
}

// CheckDim is what a type with n in brackets demands.
func CheckDim(v []float32, n int) error { return checkDim(len(v), n) }

func checkDim(have, n int) error {
	if have != n {
		return fail(CodeData, "expected %d dimensions, not %d", n, have)
	}
	return nil
}

// CheckModifier is what n in vector(n), halfvec(n), sparsevec(n) or bit(n) must be.
func CheckModifier(typ string, n int64) error {
	unit, limit := "dimensions", int64(MaxDim)
	switch typ {
	case "sparsevec":
		limit = MaxSparseDim
	case "bit":
		unit, limit = "length", MaxBits
	}
	switch {
	case n < 1:
		return fail(CodeParameter, "%s for type %s must be at least 1", unit, typ)
	case n > limit:
		return fail(CodeParameter, "%s for type %s cannot exceed %d", unit, typ, limit)
	}
	return nil
}

// Same refuses two values of different length.
func (d *Dense) Same(a, b []float32) error { return same(len(a), len(b), d.name) }

func same(a, b int, typ string) error {
	if a != b {
		return fail(CodeData, "different %s dimensions %d and %d", typ, a, b)
	}
	return nil
}

// round gives a number the precision of the type.
func (d *Dense) round(x float32) float32 {
	if d.half {
		return vec.Half(x)
	}
	return x
}

// Add adds element by element.
func (d *Dense) Add(a, b, into []float32) ([]float32, error) {
	if err := d.Same(a, b); err != nil {
		return nil, err
	}
	start := len(into)
	for i, x := range a {
		into = append(into, d.round(x+b[i]))
	}
	return finite(into, start)
}

// Sub subtracts element by element.
func (d *Dense) Sub(a, b, into []float32) ([]float32, error) {
	if err := d.Same(a, b); err != nil {
		return nil, err
	}
	start := len(into)
	for i, x := range a {
		into = append(into, d.round(x-b[i]))
	}
	return finite(into, start)
}

// Mul multiplies element by element. A product that vanishes although neither factor is 0 is an error too.
func (d *Dense) Mul(a, b, into []float32) ([]float32, error) {
	if err := d.Same(a, b); err != nil {
		return nil, err
	}
	for i, x := range a {
		r := d.round(x * b[i])
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

// Concat joins two values.
func (d *Dense) Concat(a, b, into []float32) ([]float32, error) {
	if err := checkCount(len(a)+len(b), d.name, MaxDim); err != nil {
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
	return cmp.Compare(len(a), len(b))
}

// Subvector is count elements from start, which counts from 1 and may lie before the first. The result shares v's memory.
func (d *Dense) Subvector(v []float32, start, count int32) ([]float32, error) {
	if count < 1 {
		return nil, noDimensions(d.name)
	}
	lo, hi := max(int64(start), 1), min(int64(start)+int64(count), int64(len(v))+1)
	if lo >= hi {
		return nil, noDimensions(d.name)
	}
	return v[lo-1 : hi-1], nil
}

// Normalize divides by the norm; a zero vector stays zero.
func (d *Dense) Normalize(v, into []float32) ([]float32, error) {
	norm := vec.Norm(v)
	start := len(into)
	for _, x := range v {
		if norm > 0 {
			x = d.round(float32(float64(x) / norm))
		}
		into = append(into, x)
	}
	return finite(into, start)
}

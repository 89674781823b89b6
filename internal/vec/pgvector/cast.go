package pgvector

import (
	"errors"
	"math"
	"strconv"
)

// FromFloat32s makes a vector of an array of real. Arrays with a NULL are NullElement's; callers know where theirs are.
func FromFloat32s(values, into []float32) ([]float32, error) {
	if err := Check(values); err != nil {
		return nil, err
	}
	return append(into, values...), nil
}

// FromFloat64s makes a vector of an array of double precision. What is too small becomes 0, what is too large an error.
func FromFloat64s(values []float64, into []float32) ([]float32, error) {
	return fromNumbers(values, into)
}

// FromInt32s makes a vector of an array of integer.
func FromInt32s(values []int32, into []float32) ([]float32, error) { return fromNumbers(values, into) }

// FromInt64s makes a vector of an array of bigint. pgvector has no such cast; engines whose integer literals are wide
// need it.
func FromInt64s(values []int64, into []float32) ([]float32, error) { return fromNumbers(values, into) }

func fromNumbers[T int32 | int64 | float64](values []T, into []float32) ([]float32, error) {
	if err := checkCount(len(values)); err != nil {
		return nil, err
	}
	start := len(into)
	for _, x := range values {
		into = append(into, float32(x))
	}
	if err := Check(into[start:]); err != nil {
		return nil, err
	}
	return into, nil
}

// FromNumerics makes a vector of an array of numeric, given as decimal text.
func FromNumerics(values []string, into []float32) ([]float32, error) {
	if err := checkCount(len(values)); err != nil {
		return nil, err
	}
	for _, s := range values {
		x, err := strconv.ParseFloat(s, 32)
		switch {
		case errors.Is(err, strconv.ErrRange):
			return nil, fail(CodeOutOfRange, "\"%s\" is out of range for type real", s)
		case err != nil:
			return nil, fail(CodeSyntax, "invalid input syntax for type numeric: \"%s\"", s)
		}
		if err := checkElement(float32(x)); err != nil {
			return nil, err
		}
		into = append(into, float32(x))
	}
	return into, nil
}

// Sum adds up vectors in float32, as sum(vector) does. The zero value is an empty sum.
type Sum struct{ sum []float32 }

// Add adds a vector. NULLs are left out by the caller.
func (s *Sum) Add(v []float32) error {
	if s.sum == nil {
		s.sum = append(make([]float32, 0, len(v)), v...)
		return nil
	}
	if err := Same(s.sum, v); err != nil {
		return err
	}
	for i, x := range v {
		if s.sum[i] += x; math.IsInf(float64(s.sum[i]), 0) {
			return overflow()
		}
	}
	return nil
}

// Merge adds another sum.
func (s *Sum) Merge(o *Sum) error {
	if o.sum == nil {
		return nil
	}
	return s.Add(o.sum)
}

// Value is the sum, or nil, meaning NULL, when nothing was added.
func (s *Sum) Value() []float32 { return s.sum }

// Avg averages vectors in float64, as avg(vector) does. The zero value is an empty average.
type Avg struct {
	n   int64
	sum []float64
}

// Add adds a vector. NULLs are left out by the caller.
func (a *Avg) Add(v []float32) error {
	if a.n == 0 {
		a.sum = make([]float64, len(v))
	} else if len(v) != len(a.sum) {
		return CheckDim(v, len(a.sum))
	}
	a.n++
	for i, x := range v {
		if a.sum[i] += float64(x); math.IsInf(a.sum[i], 0) {
			return overflow()
		}
	}
	return nil
}

// Merge adds what another average has seen.
func (a *Avg) Merge(o *Avg) error {
	switch {
	case o.n == 0:
		return nil
	case a.n == 0:
		a.sum = make([]float64, len(o.sum))
	case len(a.sum) != len(o.sum):
		return fail(CodeData, "expected %d dimensions, not %d", len(a.sum), len(o.sum))
	}
	a.n += o.n
	for i, x := range o.sum {
		if a.sum[i] += x; math.IsInf(a.sum[i], 0) {
			return overflow()
		}
	}
	return nil
}

// Value is the average appended to into, or nil, meaning NULL, when nothing was added.
func (a *Avg) Value(into []float32) ([]float32, error) {
	if a.n == 0 {
		return nil, nil
	}
	for _, x := range a.sum {
		r := float32(x / float64(a.n))
		if err := checkElement(r); err != nil {
			return nil, err
		}
		into = append(into, r)
	}
	return into, nil
}

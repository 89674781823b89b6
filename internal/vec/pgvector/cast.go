package pgvector

import "math"

// Number is what an array that becomes a vector may hold.
type Number interface {
	int32 | int64 | float32 | float64
}

// FromNumbers makes a value of an array of real, double precision, integer or bigint. What is too small becomes 0, what is
// too large is an error. pgvector has no cast from bigint; engines whose integer literals are wide need it. Arrays with
// a NULL are NullElement's; callers know where theirs are.
func FromNumbers[T Number](d *Dense, values []T, into []float32) ([]float32, error) {
	if err := checkCount(len(values), d.name, MaxDim); err != nil {
		return nil, err
	}
	for _, x := range values {
		f, err := d.number(float32(x))
		if err != nil {
			return nil, err
		}
		into = append(into, f)
	}
	return into, nil
}

// number gives a number the precision of the type.
func (d *Dense) number(x float32) (float32, error) {
	if err := checkElement(x, d.name); err != nil {
		return 0, err
	}
	h := d.round(x)
	if math.IsInf(float64(h), 0) {
		return 0, tooLarge(string(appendFloat4(nil, x)), d.name)
	}
	return h, nil
}

// Sum adds up values in the precision of their type, as sum does.
type Sum struct {
	of  *Dense
	sum []float32
}

// NewSum is an empty sum.
func NewSum(of *Dense) *Sum { return &Sum{of: of} }

// Add adds a vector. NULLs are left out by the caller.
func (s *Sum) Add(v []float32) error {
	if s.sum == nil {
		s.sum = append(make([]float32, 0, len(v)), v...)
		return nil
	}
	_, err := s.of.Add(s.sum, v, s.sum[:0])
	return err
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

// Avg averages values in float64, as avg does.
type Avg struct {
	of  *Dense
	n   int64
	sum []float64
}

// NewAvg is an empty average.
func NewAvg(of *Dense) *Avg { return &Avg{of: of} }

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
		return checkDim(len(o.sum), len(a.sum))
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
		r, err := a.of.number(float32(x / float64(a.n)))
		if err != nil {
			return nil, err
		}
		into = append(into, r)
	}
	return into, nil
}

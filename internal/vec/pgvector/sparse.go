package pgvector

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/overlakedb/overlake/internal/vec"
)

const sparse = "sparsevec"

// ParseSparse reads the text form {1:1.5,3:2}/5 and appends the elements to those of into, which are reused. Indices count
// from 1 and may come in any order; elements that are 0 are left out.
func ParseSparse(s string, into *vec.Sparse) error {
	into.Index, into.Value = into.Index[:0], into.Value[:0]
	if strings.Count(s, ",") >= MaxNonzero {
		return tooManyElements()
	}
	i := skipSpace(s, 0)
	take := func(c byte) bool {
		i = skipSpace(s, i)
		if i == len(s) || s[i] != c {
			return false
		}
		i = skipSpace(s, i+1)
		return true
	}
	if !take('{') {
		return badText(s, sparse)
	}
	for more := !take('}'); more; {
		index, end := scanInteger(s, i)
		if end == i {
			return badText(s, sparse)
		}
		if i = end; !take(':') {
			return badText(s, sparse)
		}
		if end = scanFloat(s, i); end == i {
			return badText(s, sparse)
		}
		x, err := parseFloat(s[i:end])
		if err != nil {
			return tooLarge(s[i:end], sparse)
		}
		if err := checkElement(x, sparse); err != nil {
			return err
		}
		if x != 0 {
			into.Index, into.Value = append(into.Index, index-1), append(into.Value, x)
		}
		if i = end; !take(',') {
			if more = false; !take('}') {
				return badText(s, sparse)
			}
		}
	}
	if !take('/') {
		return badText(s, sparse)
	}
	dim, end := scanInteger(s, i)
	if end == i || skipSpace(s, end) != len(s) {
		return badText(s, sparse)
	}
	into.Dim = int(dim)
	if !slices.IsSorted(into.Index) {
		sortElements(into)
	}
	return CheckSparse(into)
}

// scanInteger reads the longest integer at i; what is too large for 32 bits becomes the largest or smallest.
func scanInteger(s string, i int) (n int32, end int) {
	start := i
	if i < len(s) && (s[i] == '+' || s[i] == '-') {
		i++
	}
	digits := i
	for i < len(s) && isDigit(s[i]) {
		i++
	}
	if i == digits {
		return 0, start
	}
	v, _ := strconv.ParseInt(s[start:i], 10, 64) // out of range gives the nearest number
	return int32(min(max(v, math.MinInt32+1), math.MaxInt32)), i
}

func sortElements(v *vec.Sparse) {
	type element struct {
		index int32
		value float32
	}
	all := make([]element, len(v.Index))
	for i := range all {
		all[i] = element{v.Index[i], v.Value[i]}
	}
	slices.SortStableFunc(all, func(a, b element) int { return cmp.Compare(a.index, b.index) })
	for i, e := range all {
		v.Index[i], v.Value[i] = e.index, e.value
	}
}

func tooManyElements() error {
	return fail(CodeLimit, "sparsevec cannot have more than %d non-zero elements", MaxNonzero)
}

// CheckSparse refuses what no sparsevec may be.
func CheckSparse(v *vec.Sparse) error {
	if err := checkCount(v.Dim, sparse, MaxSparseDim); err != nil {
		return err
	}
	if len(v.Index) > MaxNonzero {
		return tooManyElements()
	}
	if len(v.Index) != len(v.Value) {
		return fail(CodeData, "sparsevec has %d indices and %d values", len(v.Index), len(v.Value))
	}
	last := int32(-1)
	for k, i := range v.Index {
		switch {
		case i < 0 || int(i) >= v.Dim:
			return fail(CodeData, "sparsevec index out of bounds")
		case i < last:
			return fail(CodeData, "sparsevec indices must be in ascending order")
		case i == last:
			return fail(CodeData, "sparsevec indices must not contain duplicates")
		case v.Value[k] == 0:
			return fail(CodeData, "sparsevec values must not be zero")
		}
		if err := checkElement(v.Value[k], sparse); err != nil {
			return err
		}
		last = i
	}
	return nil
}

// CheckSparseDim is what sparsevec(n) demands.
func CheckSparseDim(v *vec.Sparse, n int) error { return checkDim(v.Dim, n) }

// SameSparse refuses two values of different dimensions.
func SameSparse(a, b *vec.Sparse) error { return same(a.Dim, b.Dim, sparse) }

// AppendSparse writes the text form.
func AppendSparse(b []byte, v *vec.Sparse) []byte {
	b = append(b, '{')
	for k, i := range v.Index {
		if k > 0 {
			b = append(b, ',')
		}
		b = append(strconv.AppendInt(b, int64(i)+1, 10), ':')
		b = appendFloat4(b, v.Value[k])
	}
	return strconv.AppendInt(append(b, '}', '/'), int64(v.Dim), 10)
}

// FormatSparse is AppendSparse as a string.
func FormatSparse(v *vec.Sparse) string { return string(AppendSparse(nil, v)) }

// CompareSparse orders as the vectors with all their elements are ordered, then by dimensions.
func CompareSparse(a, b *vec.Sparse) int {
	sign := func(x float32) int { return cmp.Compare(x, 0) }
	n := min(len(a.Index), len(b.Index))
	for k := range n {
		switch {
		case a.Index[k] < b.Index[k]:
			return sign(a.Value[k])
		case a.Index[k] > b.Index[k]:
			return -sign(b.Value[k])
		case a.Value[k] != b.Value[k]:
			return cmp.Compare(a.Value[k], b.Value[k])
		}
	}
	if len(b.Index) > n && int(b.Index[n]) < a.Dim {
		return -sign(b.Value[n])
	}
	if len(a.Index) > n && int(a.Index[n]) < b.Dim {
		return sign(a.Value[n])
	}
	return cmp.Compare(a.Dim, b.Dim)
}

// NormalizeSparse divides by the norm in place, and drops what becomes 0.
func NormalizeSparse(v *vec.Sparse) error {
	norm := vec.Norm(v.Value)
	if norm == 0 {
		return nil
	}
	kept := 0
	for k, x := range v.Value {
		x = float32(float64(x) / norm)
		if math.IsInf(float64(x), 0) {
			return overflow()
		}
		if x != 0 {
			v.Index[kept], v.Value[kept] = v.Index[k], x
			kept++
		}
	}
	v.Index, v.Value = v.Index[:kept], v.Value[:kept]
	return nil
}

// SparseFromNumbers makes a sparsevec of an array, or of the elements of a vector, reusing into.
func SparseFromNumbers[T Number](values []T, into *vec.Sparse) error {
	into.Dim, into.Index, into.Value = len(values), into.Index[:0], into.Value[:0]
	if err := checkCount(len(values), sparse, MaxSparseDim); err != nil {
		return err
	}
	for i, x := range values {
		f := float32(x)
		if err := checkElement(f, sparse); err != nil {
			return err
		}
		if f == 0 {
			continue
		}
		if len(into.Index) == MaxNonzero {
			return tooManyElements()
		}
		into.Index, into.Value = append(into.Index, int32(i)), append(into.Value, f)
	}
	return nil
}

// FromSparse makes a dense value of a sparsevec.
func (d *Dense) FromSparse(v *vec.Sparse, into []float32) ([]float32, error) {
	if err := checkCount(v.Dim, d.name, MaxDim); err != nil {
		return nil, err
	}
	start := len(into)
	into = append(into, make([]float32, v.Dim)...)
	for k, i := range v.Index {
		x, err := d.number(v.Value[k])
		if err != nil {
			return nil, err
		}
		into[start+int(i)] = x
	}
	return into, nil
}

package distance

import (
	"strconv"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/vec"
)

// Sparse is a vector of which only some elements are kept; all others are 0.
type Sparse struct {
	Dim     int       // the number of all elements
	Indices []int32   // the places of those kept, from 0, ascending, each once
	Values  []float32 // as many as Indices
}

func (s *Sparse) check(op string) error {
	if s.Dim < 1 {
		return invalid(op, "a vector has at least 1 element, not %d", s.Dim)
	}
	if len(s.Indices) != len(s.Values) {
		return invalid(op, "a sparse vector has %d indices and %d values", len(s.Indices), len(s.Values))
	}
	last := int32(-1)
	for _, i := range s.Indices {
		if i <= last {
			return invalid(op, "the indices of a sparse vector ascend from 0: %d comes behind %d", i, last)
		}
		last = i
	}
	if int(last) >= s.Dim {
		return invalid(op, "a sparse vector of %d elements has no element %d", s.Dim, last)
	}
	return nil
}

// PairSparse is the distance of two sparse vectors of the same Dim, by L2, SquaredL2, NegativeInnerProduct, Cosine or L1. It
// takes as long as both have elements, whatever Dim is.
func (d Device) PairSparse(m Metric, a, b Sparse) (float32, error) {
	out, err := d.batchSparse("distance.pair_sparse", m, a, []Sparse{b}, make([]float32, 1))
	if err != nil {
		return 0, err
	}
	return out[0], nil
}

// BatchSparse gives the distance of a sparse vector to each of the rows. The result has one distance for each row and lies in
// out if that has the capacity; nil is fine.
func (d Device) BatchSparse(m Metric, query Sparse, rows []Sparse, out []float32) ([]float32, error) {
	return d.batchSparse("distance.batch_sparse", m, query, rows, out)
}

func (d Device) batchSparse(op string, m Metric, query Sparse, rows []Sparse, out []float32) ([]float32, error) {
	if _, err := d.engine(op); err != nil {
		return nil, err
	}
	if err := m.ofNumbers(op); err != nil {
		return nil, err
	}
	if err := query.check(op); err != nil {
		return nil, err
	}
	for i := range rows {
		if err := rows[i].check(op); err != nil {
			return nil, errs.With(err, errs.On("row "+strconv.Itoa(i)))
		}
		if rows[i].Dim != query.Dim {
			return nil, errs.With(invalid(op, "a vector of %d elements and one of %d have no distance", query.Dim, rows[i].Dim), errs.On("row "+strconv.Itoa(i)))
		}
	}
	out, err := room(op, out, 1, len(rows))
	if err != nil {
		return nil, err
	}
	a := vec.Sparse{Dim: query.Dim, Index: query.Indices, Value: query.Values}
	for i := range rows {
		out[i] = sparse(m, &a, &vec.Sparse{Dim: rows[i].Dim, Index: rows[i].Indices, Value: rows[i].Values})
	}
	return out, nil
}

func sparse(m Metric, a, b *vec.Sparse) float32 {
	switch m {
	case L2:
		return float32(vec.SparseL2(a, b))
	case SquaredL2:
		return vec.SparseSquaredL2(a, b)
	case NegativeInnerProduct:
		return 0 - vec.SparseDot(a, b)
	case Cosine:
		return float32(vec.SparseCosine(a, b))
	}
	return float32(vec.SparseL1(a, b))
}

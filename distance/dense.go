package distance

import (
	"context"
	"math"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/vec"
)

// Pair is the distance of two vectors of the same length, by L2, SquaredL2, NegativeInnerProduct, Cosine or L1.
func (d Device) Pair(m Metric, a, b []float32) (float32, error) {
	const op = "distance.pair"
	e, err := d.engine(op)
	if err == nil {
		err = m.ofNumbers(op)
	}
	switch {
	case err != nil:
		return 0, err
	case len(a) != len(b):
		return 0, invalid(op, "a vector of %d elements and one of %d have no distance", len(a), len(b))
	case len(a) == 0:
		return 0, invalid(op, "a vector has at least 1 element, not 0")
	}
	return e.pair(m, a, b), nil
}

// Batch gives the distance of a query to each of the rows, which are as long as the query and lie one after another. The
// result has one distance for each row and lies in out if that has the capacity; nil is fine.
func (d Device) Batch(m Metric, query, rows, out []float32) ([]float32, error) {
	return d.matrix(context.Background(), "distance.batch", m, len(query), query, rows, out)
}

// Matrix gives the distances of every query to every row, vectors of dim elements one after another: the distance of query i
// to row j is at i·n+j, where n is the number of rows. The result lies in out if that has the capacity; without it, more than
// 2³¹ distances are refused with kind exhausted. The call ends early, with kind canceled, when the context does.
func (d Device) Matrix(ctx context.Context, m Metric, dim int, queries, rows, out []float32) ([]float32, error) {
	return d.matrix(ctx, "distance.matrix", m, dim, queries, rows, out)
}

func (d Device) matrix(ctx context.Context, op string, m Metric, dim int, queries, rows, out []float32) ([]float32, error) {
	e, err := d.engine(op)
	if err == nil {
		err = m.ofNumbers(op)
	}
	if err != nil {
		return nil, err
	}
	q, err := count(op, "queries", dim, len(queries))
	if err != nil {
		return nil, err
	}
	n, err := count(op, "rows", dim, len(rows))
	if err != nil {
		return nil, err
	}
	if out, err = room(op, out, q, n); err != nil || len(out) == 0 {
		return out, err
	}
	if err := e.dense(ctx, m, dim, queries, rows, out); err != nil {
		return nil, errs.Wrap(errs.Internal, op, err)
	}
	return out, nil
}

// Neighbors are the nearest rows of some queries: K of each, query after query, the nearest first. Of rows that are equally
// near the one with the lower number comes first.
type Neighbors struct {
	K         int // as many as asked for, or as there are rows
	Rows      []int
	Distances []float32
}

// Of gives the neighbours of one query: the numbers of the rows and their distances.
func (n *Neighbors) Of(query int) (rows []int, distances []float32) {
	return n.Rows[query*n.K : (query+1)*n.K], n.Distances[query*n.K : (query+1)*n.K]
}

// Nearest finds the k nearest rows of every query by looking at all of them. Queries and rows are vectors of dim elements
// one after another. It ends early, with kind canceled, when the context does.
func (d Device) Nearest(ctx context.Context, m Metric, dim, k int, queries, rows []float32) (*Neighbors, error) {
	const op = "distance.nearest"
	e, err := d.engine(op)
	if err == nil {
		err = m.ofNumbers(op)
	}
	if err != nil {
		return nil, err
	}
	q, err := count(op, "queries", dim, len(queries))
	if err != nil {
		return nil, err
	}
	n, err := count(op, "rows", dim, len(rows))
	if err != nil {
		return nil, err
	}
	out, err := neighbors(op, q, n, k)
	if err != nil || len(out.Rows) == 0 {
		return out, err
	}
	if err := e.nearest(ctx, m, dim, out.K, queries, rows, out.Rows, out.Distances); err != nil {
		return nil, errs.Wrap(errs.Internal, op, err)
	}
	return out, nil
}

// neighbors makes room for the k nearest of n rows for each of q queries.
func neighbors(op string, q, n, k int) (*Neighbors, error) {
	if k < 1 {
		return nil, invalid(op, "at least 1 neighbour is asked for, not %d", k)
	}
	k = min(k, n)
	distances, err := room(op, nil, q, k)
	if err != nil {
		return nil, err
	}
	return &Neighbors{K: k, Rows: make([]int, len(distances)), Distances: distances}, nil
}

// Normalize divides each of the vectors of dim elements, which lie one after another, by its Euclidean length, in place. A
// vector of zeros stays as it is. A number that is not finite is refused, and nothing is changed then.
func (d Device) Normalize(dim int, rows []float32) error {
	const op = "distance.normalize"
	if _, err := d.engine(op); err != nil {
		return err
	}
	if _, err := count(op, "rows", dim, len(rows)); err != nil {
		return err
	}
	if err := finite(op, dim, rows); err != nil {
		return err
	}
	for i := 0; i < len(rows); i += dim {
		v := rows[i : i+dim]
		length := vec.Norm(v)
		if length == 0 {
			continue
		}
		for k, x := range v {
			v[k] = float32(float64(x) / length)
		}
	}
	return nil
}

// finite refuses NaN and infinity.
func finite(op string, dim int, rows []float32) error {
	for i, x := range rows {
		if x-x != 0 {
			what := "infinite"
			if math.IsNaN(float64(x)) {
				what = "NaN"
			}
			return invalid(op, "element %d of row %d is %s", i%dim, i/dim, what)
		}
	}
	return nil
}

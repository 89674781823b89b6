package distance

import (
	"context"

	"github.com/overlakedb/overlake/internal/errs"
)

// PairBits is the distance of two bit vectors of the same number of bytes, by Hamming or Jaccard. Bits of the last byte that
// are not used must be 0.
func (d Device) PairBits(m Metric, a, b []byte) (float32, error) {
	const op = "distance.pair_bits"
	if len(a) != len(b) {
		return 0, invalid(op, "a bit vector of %d bytes and one of %d have no distance", len(a), len(b))
	}
	var out [1]float32
	_, err := d.bitMatrix(context.Background(), op, m, len(a), a, b, out[:])
	return out[0], err
}

// BatchBits gives the distance of a bit vector to each of the rows, which have as many bytes and lie one after another. The
// result has one distance for each row and lies in out if that has the capacity; nil is fine.
func (d Device) BatchBits(m Metric, query, rows []byte, out []float32) ([]float32, error) {
	return d.bitMatrix(context.Background(), "distance.batch_bits", m, len(query), query, rows, out)
}

// MatrixBits is Matrix for bit vectors of size bytes.
func (d Device) MatrixBits(ctx context.Context, m Metric, size int, queries, rows []byte, out []float32) ([]float32, error) {
	return d.bitMatrix(ctx, "distance.matrix_bits", m, size, queries, rows, out)
}

func (d Device) bitMatrix(ctx context.Context, op string, m Metric, size int, queries, rows []byte, out []float32) ([]float32, error) {
	e, q, n, err := d.bitInput(op, m, size, queries, rows)
	if err != nil {
		return nil, err
	}
	if out, err = room(op, out, q, n); err != nil || len(out) == 0 {
		return out, err
	}
	if err := e.bits(ctx, m, size, queries, rows, out); err != nil {
		return nil, errs.Wrap(errs.Internal, op, err)
	}
	return out, nil
}

func (d Device) bitInput(op string, m Metric, size int, queries, rows []byte) (e engine, q, n int, err error) {
	if e, err = d.engine(op); err == nil {
		err = m.ofBits(op)
	}
	if err == nil {
		q, err = count(op, "queries", size, len(queries))
	}
	if err == nil {
		n, err = count(op, "rows", size, len(rows))
	}
	return e, q, n, err
}

// NearestBits finds the k nearest rows of every query, as Nearest does, among bit vectors of size bytes.
func (d Device) NearestBits(ctx context.Context, m Metric, size, k int, queries, rows []byte) (*Neighbors, error) {
	const op = "distance.nearest_bits"
	e, q, n, err := d.bitInput(op, m, size, queries, rows)
	if err != nil {
		return nil, err
	}
	out, err := neighbors(op, q, n, k)
	if err != nil || len(out.Rows) == 0 {
		return out, err
	}
	all := make([]float32, n)
	for i := range q {
		if err := e.bits(ctx, m, size, queries[i*size:(i+1)*size], rows, all); err != nil {
			return nil, errs.Wrap(errs.Internal, op, err)
		}
		near, dist, err := TopK(all, out.K)
		if err != nil {
			return nil, err
		}
		copy(out.Rows[i*out.K:], near)
		copy(out.Distances[i*out.K:], dist)
	}
	return out, nil
}

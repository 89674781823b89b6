package distance

import (
	"context"
	"math"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/kernel"
)

// cpu computes on the processor.
type cpu struct{}

const (
	// blockNumbers bounds a block of rows: as many numbers as stay in the second cache while all queries pass by.
	blockNumbers = 1 << 15
	// threadNumbers is the least work of a thread, in numbers that are compared.
	threadNumbers = 1 << 18
)

// split lets several threads do parts of units; each unit compares so many numbers.
func split(ctx context.Context, units, numbers int, work func(ctx context.Context, from, to int) error) error {
	threads := min(runtime.GOMAXPROCS(0), units)
	if numbers > 0 {
		threads = min(threads, max(units/max(threadNumbers/numbers, 1), 1))
	}
	if threads < 2 {
		return work(ctx, 0, units)
	}
	g, ctx := errgroup.WithContext(ctx)
	for t := range threads {
		g.Go(func() error { return work(ctx, units*t/threads, units*(t+1)/threads) })
	}
	return g.Wait()
}

// blockRows is the number of rows of a block, a multiple of the four that a kernel takes at once.
func blockRows(dim int) int { return max(blockNumbers/dim&^3, 4) }

// blocks calls f for the rows from to to, a block at a time.
func blocks(ctx context.Context, dim, from, to int, f func(lo, hi int)) error {
	size := blockRows(dim)
	for lo := from; lo < to; lo += size {
		if err := ctx.Err(); err != nil {
			return err
		}
		f(lo, min(lo+size, to))
	}
	return nil
}

// block compares queries with a block of rows.
type block struct {
	m       Metric
	dim     int
	rows    []float32
	squares []float32 // of the rows, for Cosine
	zero    []float32
}

func (b *block) set(rows []float32) {
	b.rows = rows
	if b.m == Cosine {
		if b.zero == nil {
			b.zero = make([]float32, b.dim)
		}
		b.squares = squares(b.zero, rows, b.squares)
	}
}

// squares gives the inner product of each vector with itself, which is its squared distance to zero: so one call does all of
// them, in the order of sums of kernel.Dot, and the angle of a vector to itself is exactly 0.
func squares(zero, rows, out []float32) []float32 {
	n := len(rows) / len(zero)
	if n > cap(out) {
		out = make([]float32, n)
	}
	raw(SquaredL2, zero, rows, out[:n])
	return out[:n]
}

// ranks fills out with numbers that are ordered as the distances of the query to the rows are; final makes distances of them.
// square is the query's inner product with itself, for Cosine.
func (b *block) ranks(query []float32, square float32, out []float32) {
	switch b.m {
	case L2, SquaredL2:
		raw(SquaredL2, query, b.rows, out)
	case NegativeInnerProduct, Cosine:
		raw(NegativeInnerProduct, query, b.rows, out)
	case L1:
		raw(L1, query, b.rows, out)
	}
	b.ranked(square, out)
}

// ranked makes ranks of sums.
func (b *block) ranked(square float32, out []float32) {
	switch b.m {
	case NegativeInnerProduct:
		for i, x := range out {
			out[i] = 0 - x
		}
	case Cosine:
		for i, x := range out {
			// The cosine by its definition; rounding may take it a little out of its range.
			c := float64(x) / math.Sqrt(float64(square)*float64(b.squares[i]))
			if c > 1 {
				c = 1
			} else if c < -1 {
				c = -1
			}
			out[i] = float32(1 - c)
		}
	}
}

// raw fills out with the sums of a metric for rows one after another: of squared differences, of products or of absolute
// differences. A kernel takes four rows at once and adds up single ones in another order; so that a row has the same distance
// wherever it lies (V2), the last ones are looked at as four of which some are the same.
func raw(m Metric, query, rows, out []float32) {
	n := len(out) &^ 3
	whole := rows[:n*len(query)]
	var ids [4]uint32
	var four [4]float32
	for i := range ids {
		ids[i] = uint32(min(n+i, len(out)-1))
	}
	switch m {
	case SquaredL2:
		kernel.L2(query, whole, out[:n])
		if n < len(out) {
			kernel.L2At(query, rows, ids[:], four[:])
		}
	case NegativeInnerProduct:
		kernel.Dot(query, whole, out[:n])
		if n < len(out) {
			kernel.DotAt(query, rows, ids[:], four[:])
		}
	case L1:
		kernel.L1(query, whole, out[:n])
		if n < len(out) {
			kernel.L1At(query, rows, ids[:], four[:])
		}
	}
	copy(out[n:], four[:])
}

func (b *block) final(rank float32) float32 {
	if b.m == L2 {
		return float32(math.Sqrt(float64(rank)))
	}
	return rank
}

// querySquares gives what Cosine needs of the queries.
func querySquares(m Metric, dim int, queries []float32) []float32 {
	if m == Cosine {
		return squares(make([]float32, dim), queries, nil)
	}
	return make([]float32, len(queries)/dim)
}

// pair is dense for one query and one row. It needs no memory.
func (cpu) pair(m Metric, a, b []float32) float32 {
	var out, square, other [1]float32
	switch m {
	case L2, SquaredL2:
		raw(SquaredL2, a, b, out[:])
	case L1:
		raw(L1, a, b, out[:])
	default:
		raw(NegativeInnerProduct, a, b, out[:])
		if m == Cosine {
			raw(NegativeInnerProduct, a, a, square[:])
			raw(NegativeInnerProduct, b, b, other[:])
		}
	}
	one := block{m: m, squares: other[:]}
	one.ranked(square[0], out[:])
	return one.final(out[0])
}

func (cpu) dense(ctx context.Context, m Metric, dim int, queries, rows, out []float32) error {
	q, n := len(queries)/dim, len(rows)/dim
	sq := querySquares(m, dim, queries)
	part := func(ctx context.Context, q0, q1, n0, n1 int) error {
		b := &block{m: m, dim: dim}
		return blocks(ctx, dim, n0, n1, func(lo, hi int) {
			b.set(rows[lo*dim : hi*dim])
			for i := q0; i < q1; i++ {
				to := out[i*n+lo : i*n+hi]
				b.ranks(queries[i*dim:(i+1)*dim], sq[i], to)
				if m == L2 {
					for k, x := range to {
						to[k] = b.final(x)
					}
				}
			}
		})
	}
	if q > n {
		return split(ctx, q, n*dim, func(ctx context.Context, from, to int) error { return part(ctx, from, to, 0, n) })
	}
	return split(ctx, n, q*dim, func(ctx context.Context, from, to int) error { return part(ctx, 0, q, from, to) })
}

// A thread ranks at most so many queries at once, and fewer where the rankings are long.
const (
	queriesAtOnce = 64
	hitsAtOnce    = 1 << 20
)

func (cpu) nearest(ctx context.Context, m Metric, dim, k int, queries, rows []float32, ids []int, out []float32) error {
	q, n := len(queries)/dim, len(rows)/dim
	sq := querySquares(m, dim, queries)
	// part ranks the rows n0 to n1 for the queries q0 to q1.
	part := func(ctx context.Context, q0, q1, n0, n1 int) ([]ranking, error) {
		b := &block{m: m, dim: dim}
		tops := make([]ranking, q1-q0)
		for i := range tops {
			tops[i].k = min(k, n1-n0)
		}
		ranks, places := make([]float32, blockRows(dim)), make([]uint32, blockRows(dim))
		err := blocks(ctx, dim, n0, n1, func(lo, hi int) {
			b.set(rows[lo*dim : hi*dim])
			for i := range tops {
				at := q0 + i
				b.ranks(queries[at*dim:(at+1)*dim], sq[at], ranks[:hi-lo])
				tops[i].take(ranks[:hi-lo], lo, b.final, places)
			}
		})
		return tops, err
	}
	put := func(at int, r *ranking) { r.sorted(ids[at*k:(at+1)*k], out[at*k:(at+1)*k]) }
	if q >= runtime.GOMAXPROCS(0) || n < q {
		return split(ctx, q, n*dim, func(ctx context.Context, from, to int) error {
			size := max(min(queriesAtOnce, hitsAtOnce/k), 1)
			for q0 := from; q0 < to; q0 += size {
				tops, err := part(ctx, q0, min(q0+size, to), 0, n)
				if err != nil {
					return err
				}
				for i := range tops {
					put(q0+i, &tops[i])
				}
			}
			return nil
		})
	}
	// Few queries: the threads share the rows, and their rankings are joined.
	joined := make([]ranking, q)
	for i := range joined {
		joined[i].k = k
	}
	var mu sync.Mutex
	err := split(ctx, n, q*dim, func(ctx context.Context, from, to int) error {
		tops, err := part(ctx, 0, q, from, to)
		mu.Lock()
		defer mu.Unlock()
		for i := range tops {
			for _, h := range tops[i].heap {
				joined[i].add(h)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	for i := range joined {
		put(i, &joined[i])
	}
	return nil
}

func (cpu) bits(ctx context.Context, m Metric, size int, queries, rows []byte, out []float32) error {
	q, n := len(queries)/size, len(rows)/size
	part := func(ctx context.Context, q0, q1, n0, n1 int) error {
		counts := make([]uint32, blockRows(size))
		return blocks(ctx, size, n0, n1, func(lo, hi int) {
			for i := q0; i < q1; i++ {
				bitDistances(m, queries[i*size:(i+1)*size], rows[lo*size:hi*size], counts[:hi-lo], out[i*n+lo:i*n+hi])
			}
		})
	}
	if q > n {
		return split(ctx, q, n*size, func(ctx context.Context, from, to int) error { return part(ctx, from, to, 0, n) })
	}
	return split(ctx, n, q*size, func(ctx context.Context, from, to int) error { return part(ctx, 0, q, from, to) })
}

func bitDistances(m Metric, query, rows []byte, counts []uint32, out []float32) {
	size := len(query)
	switch {
	case m == Hamming && size%8 == 0:
		kernel.Hamming(query, rows, counts)
		for i, c := range counts {
			out[i] = float32(c)
		}
	case m == Hamming:
		for i := range out {
			out[i] = float32(vec.Hamming(query, rows[i*size:(i+1)*size]))
		}
	default:
		for i := range out {
			out[i] = float32(vec.Jaccard(query, rows[i*size:(i+1)*size]))
		}
	}
}

// assignPoints is the number of points that are shifted at once.
const assignPoints = 1024

func (cpu) assign(ctx context.Context, dim int, points, centroids, shift []float32, ids []uint32) error {
	shifted := make([]float32, len(centroids))
	subtract(dim, centroids, shift, shifted)
	half := squares(make([]float32, dim), shifted, nil)
	for i := range half {
		half[i] /= 2
	}
	// The threads share whole parts, so that where a part begins does not depend on their number.
	parts := (len(ids) + assignPoints - 1) / assignPoints
	return split(ctx, parts, assignPoints*len(centroids), func(ctx context.Context, from, to int) error {
		size := min(assignPoints, len(ids))
		moved, near := make([]float32, size*dim), make([]float32, size)
		for part := from; part < to; part++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			lo := part * assignPoints
			hi := min(lo+assignPoints, len(ids))
			m := moved[:(hi-lo)*dim]
			subtract(dim, points[lo*dim:hi*dim], shift, m)
			kernel.Nearest(dim, m, shifted, half, ids[lo:hi], near[:hi-lo])
		}
		return nil
	})
}

// subtract takes one vector from each of the rows.
func subtract(dim int, rows, v, out []float32) {
	for i := 0; i < len(rows); i += dim {
		from, to := rows[i:i+dim], out[i:i+dim]
		for k, x := range v {
			to[k] = from[k] - x
		}
	}
}

// Package flat answers: which rows are nearest, when all of them are looked at?
//
// It holds the vectors of some rows as they are, and a search computes every distance. It is exact, is built at the price
// of a copy, and is the fastest there is for a few thousand rows. Rows are known by their position in the artifact.
package flat

import (
	"cmp"
	"context"
	"math"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/kernel"
)

// The sections: uint32 positions, ascending; the vectors as float32, one row after another. Of cosine they have length 1.
const (
	Positions section.Kind = 10
	Vectors   section.Kind = 11
)

// Write writes rows of dim elements. Positions ascend.
func Write(w *section.Writer, positions []uint32, rows []float32) error {
	w.Begin(Positions)
	w.Write(section.Bytes(positions))
	w.Begin(Vectors)
	w.Write(section.Bytes(rows))
	return w.Err()
}

// Index is an opened index. It is safe for concurrent use.
type Index struct {
	metric    vec.Metric
	dim       int
	positions []uint32
	rows      []float32
}

// Open opens the sections of an artifact. What they mean is for As to say.
func Open(ctx context.Context, f *section.File) (*Index, error) {
	x := &Index{}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		b, err := f.Load(ctx, Positions)
		if err == nil {
			x.positions, err = section.View[uint32](b)
		}
		return err
	})
	g.Go(func() error {
		b, err := f.Load(ctx, Vectors)
		if err == nil {
			x.rows, err = section.View[float32](b)
		}
		return err
	})
	return x, g.Wait()
}

// As checks that there are vectors of dim elements at positions below rows, to be compared by a metric.
func (x *Index) As(metric vec.Metric, dim int, rows int64) error {
	x.metric, x.dim = metric, dim
	if dim < 1 || len(x.rows)%dim != 0 || len(x.rows)/dim != len(x.positions) {
		return errs.Newf(errs.Corrupt, "flat.open", "%d elements are not %d vectors of %d", len(x.rows), len(x.positions), dim)
	}
	for i, p := range x.positions {
		if int64(p) >= rows || i > 0 && p <= x.positions[i-1] {
			return errs.Newf(errs.Corrupt, "flat.open", "position %d of %d rows", p, rows)
		}
	}
	return nil
}

// Len is the number of vectors.
func (x *Index) Len() int { return len(x.positions) }

// Hit is a row with its distance: the squared Euclidean distance, the negative inner product, one minus the cosine, or the
// sum of absolute differences.
type Hit struct {
	Pos      uint32
	Distance float32
}

// Params of a search.
type Params struct {
	K       int      // hits wanted, at least 1; with Within 0 means all
	Allowed []uint64 // a bit for each position, set for rows that may be hits; nil: all
	Within  float32  // rows at distances below this only; 0: no bound
}

// Search gives the K nearest rows of those allowed, ascending by distance, then position, and how many distances it
// computed. The query has the dimension of the index; for cosine its length is 1.
func (x *Index) Search(ctx context.Context, query []float32, p Params) ([]Hit, int64, error) {
	if p.K == 0 && p.Within != 0 {
		p.K = max(len(x.positions), 1)
	}
	if p.K < 1 || len(query) != x.dim {
		return nil, 0, errs.Newf(errs.Invalid, "flat.search", "%d hits of a query of %d dimensions in an index of %d", p.K, len(query), x.dim)
	}
	const batch = 256
	var ids [batch]uint32
	var out [batch]float32
	// Hits gather beyond K and are cut to the K best when the room is full.
	room := min(2*p.K+64, len(x.positions))
	best := make([]Hit, 0, room)
	worst := float32(math.Inf(1))
	if p.Within != 0 {
		worst = p.Within
	}
	done := int64(0)
	cut := func() {
		slices.SortFunc(best, Compare)
		if len(best) >= p.K {
			best = best[:p.K]
			worst = min(worst, best[p.K-1].Distance)
		}
	}
	keep := func(row uint32, d float32) {
		if d >= worst { // rows come in the order of positions
			return
		}
		if best = append(best, Hit{x.positions[row], d}); len(best) == room {
			cut()
		}
	}
	for from := 0; from < len(x.positions); from += batch {
		if from%(batch*64) == 0 {
			if err := ctx.Err(); err != nil {
				return nil, done, errs.Wrap(errs.Canceled, "flat.search", err)
			}
		}
		n := 0
		for i := from; i < min(from+batch, len(x.positions)); i++ {
			if pos := x.positions[i]; p.Allowed == nil || int(pos>>6) < len(p.Allowed) && p.Allowed[pos>>6]>>(pos&63)&1 != 0 {
				ids[n] = uint32(i)
				n++
			}
		}
		Distances(x.metric, query, x.rows, ids[:n], out[:n])
		done += int64(n)
		for i, id := range ids[:n] {
			keep(id, out[i])
		}
	}
	cut()
	return best, done, nil
}

// Compare orders hits.
func Compare(a, b Hit) int {
	return cmp.Or(cmp.Compare(a.Distance, b.Distance), cmp.Compare(a.Pos, b.Pos))
}

// Distances gives those of the rows at ids, as a Hit has them.
func Distances(metric vec.Metric, query, rows []float32, ids []uint32, out []float32) {
	switch metric {
	case vec.MetricL2:
		kernel.L2At(query, rows, ids, out)
	case vec.MetricL1:
		kernel.L1At(query, rows, ids, out)
	case vec.MetricDot, vec.MetricCosine:
		kernel.DotAt(query, rows, ids, out)
		one := float32(0)
		if metric == vec.MetricCosine {
			one = 1
		}
		for i := range ids {
			out[i] = one - out[i]
		}
	}
}

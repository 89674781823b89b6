package lists

import (
	"context"
	"math"

	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/code"
)

// within finds the rows at less than a distance. Lists are read from the nearest on, but none whose rows must all lie
// farther away, until twice as many lists as a search for neighbours reads had no hit.
func (s *search) within(ctx context.Context, probes int) ([]Hit, error) {
	q := s.q
	found := &nearestHits{k: s.p.K, within: s.p.Within, bound: inf}
	quiet := 0 // lists since the last that had a hit
	for want := probes; ; want += max(want/2, 4) {
		from := len(q.probes)
		fresh := q.next(want, want)
		if len(fresh) == 0 {
			break
		}
		quiet += len(fresh)
		near := q.probes[:from]
		for _, p := range fresh {
			if s.nearest(p) < s.p.Within {
				near = append(near, p)
			}
		}
		q.probes = near
		bounds := make([]float32, len(near)-from)
		for i, p := range near[from:] {
			bounds[i] = s.most(p)
		}
		q.best.begin(math.MaxInt / 4)
		if err := s.scan(ctx, near[from:], bounds); err != nil {
			return nil, err
		}
		hits, err := s.finish(ctx)
		if err != nil {
			return nil, err
		}
		for _, h := range hits {
			found.add(h.Pos, h.Distance)
		}
		if len(hits) > 0 {
			quiet = 0
		}
		if quiet >= 2*max(probes, 4) {
			break
		}
	}
	return found.sorted(), nil
}

// nearest is a distance that no row of a list falls short of.
func (s *search) nearest(p probe) float32 {
	radius := s.directory[p.list].radius * (1 + 1e-4)
	switch s.Index.p.metric {
	case vec.MetricL2:
		d := max(float32(math.Sqrt(float64(max(p.key, 0))))*(1-1e-4)-radius, 0)
		return d * d
	case vec.MetricL1: // a sum of differences is at most so many times the root of a sum of squares
		return p.key*(1-1e-4) - radius*float32(math.Sqrt(float64(s.Index.p.dim)))
	default: // <q, x> is at most <q, c> + |q| radius
		return (p.base - float32(vec.Norm(s.q.vector))*radius) * s.q.back
	}
}

// deviations is by how many standard deviations an estimate may be off before a row within the distance is lost.
const deviations = 3

// most is the estimate from which on rows of a list cannot be within the distance.
func (s *search) most(p probe) float32 {
	x := s.Index
	bound := float64(s.p.Within) / float64(s.q.back)
	if s.sure() {
		return finite(bound)
	}
	// Of an estimate of <q-c, r>, the standard deviation is |q-c| |r| times the root of (1/a² - 1) / dim, with a the cosine
	// between r and its bits (Gao and Long, theorem 3.2): a² is 2/pi for signs, and 0.9905 for the 16 levels. Of bytes it is
	// much less.
	relative := 0.01
	switch x.p.code {
	case code.Bit1:
		relative = math.Sqrt(math.Pi/2 - 1)
	case code.TQ4:
		relative = math.Sqrt(1/0.9905 - 1)
	}
	if x.p.metric == vec.MetricL2 {
		relative *= 2
	}
	away := vec.L2(s.q.turned, x.centroids[int(p.list)*x.p.dim:][:x.p.dim])
	return finite(bound + deviations*relative*away*float64(x.directory[p.list].radius)/math.Sqrt(float64(x.p.dim)))
}

package graph

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/code"
)

// A graph for inner products is built in one of two ways. By products, links lead to rows that are long, and walks find those
// fast; but rows that are seldom among the nearest of others get no links, and are missed by searches for many rows and by
// filtered ones. By distances of lifted rows, every row gets its links; but a query, which has no height, lies far away from
// all rows, and walks to it end early if lengths differ much. Which is better is told by no number that is known before, so
// both are tried over a sample of the rows.

// trialNodes is the size of the sample. Up to that many nodes, all are tried.
const trialNodes = 4096

// trialNearest is how many of the nearest a trial looks for, with a pool of twice as many.
const trialNearest = 100

// measure is the space that links are chosen by: that of s, or for inner products the better of the two.
func (b *Builder) measure(ctx context.Context, s *space) (*space, error) {
	if b.opt.Metric != vec.MetricDot {
		return s, nil
	}
	var recall [2]float64
	for i, lifted := range []bool{false, true} {
		var err error
		if recall[i], err = b.trial(ctx, s, lifted); err != nil {
			return nil, err
		}
	}
	if recall[1] > recall[0] {
		return s.lift()
	}
	return s, nil
}

// trial builds a graph over a sample, and tells how many of the trialNearest a walk finds.
func (b *Builder) trial(ctx context.Context, s *space, lifted bool) (float64, error) {
	some := s.sample(trialNodes, rand.New(rand.NewPCG(b.opt.Seed, 4)))
	measure := some
	if lifted {
		var err error
		if measure, err = some.lift(); err != nil {
			return 0, err
		}
	}
	opt := b.opt
	opt.Progress, opt.Code = nil, s.coder.Kind()
	net := newNet(measure, &opt)
	if err := net.build(ctx); err != nil {
		return 0, errs.Wrap(errs.KindOf(err), "graph.build", err)
	}
	order := net.order()
	some.permute(order, make([]uint64, (net.n+63)/64))
	x := net.index(order)
	x.main = some
	nodes := x.drawn(opt.Seed)
	k := min(trialNearest, x.n-1)
	if k < 1 {
		return 1, nil
	}
	w := x.scratch()
	limits, err := x.limits(ctx, w, some, nodes, k)
	if err != nil {
		return 0, err
	}
	var q code.Query
	found := 0
	for i, node := range nodes {
		right, err := x.found(ctx, w, some, &q, node, 2*k, k, 2*k, limits[i])
		if err != nil {
			return 0, err
		}
		found += right
	}
	return float64(found) / float64(k*len(nodes)), nil
}

// trialBytes is the memory of a trial over so many rows.
func (b *Builder) trialBytes(rows int64) int64 {
	if b.opt.Metric != vec.MetricDot {
		return 0
	}
	s := b.floats
	if b.eight != nil {
		s = b.eight
	}
	rows = min(rows, trialNodes)
	return s.bytesFor(rows) + graphBytes(rows, &b.opt)
}

// sample copies n rows, drawn by lot, or all when there are no more.
func (s *space) sample(n int, rng *rand.Rand) *space {
	of := s.len()
	some := &space{coder: s.coder, size: s.size}
	some.reserve(min(n, of))
	for i := range of { // each row with the chance that makes n of those that are left
		if left := n - some.len(); rng.IntN(of-i) < left {
			to := some.len()
			some.extend(1)
			copy(some.row(uint32(to)), s.row(uint32(i)))
			if !s.float() {
				some.factors[to] = s.factors[i]
			}
		}
	}
	return some
}

// lift gives a space of inner products as one of distances that a graph can be built by: each row gets one more element, its
// height, so that all are equally long. For a query whose height is 0, the nearest row is the one with the largest inner
// product (Bachrach and others, "Speeding up the Xbox recommender system", RecSys 2014).
func (s *space) lift() (*space, error) {
	c, err := code.New(s.coder.Kind(), vec.MetricL2, s.coder.Dim(), 0)
	if err != nil {
		return nil, err
	}
	up := &space{coder: c, size: s.size, rows: s.rows, factors: s.factors, heights: make([]float32, s.len())}
	v := make([]float32, c.Dim())
	longest := 0.0
	for i := range up.heights {
		var norm float64
		if s.float() {
			s.vector(v, uint32(i))
			norm = vec.Norm(v)
			norm *= norm
		} else {
			norm = float64(s.factors[i].Norm)
		}
		up.heights[i] = float32(norm)
		longest = max(longest, norm)
	}
	for i, norm := range up.heights {
		up.heights[i] = float32(math.Sqrt(max(0, longest-float64(norm))))
	}
	return up, nil
}

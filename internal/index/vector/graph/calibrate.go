package graph

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/vec/code"
)

const (
	calibrated   = 10  // the nearest that a calibration looks for
	calibrations = 200 // queries
)

// pools are the sizes that are tried, the last one maxEf.
var pools = []int{10, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, maxEf}

// calibrate measures what pool it takes to find the nearest ten. Queries are nodes drawn from the seed; the node itself is
// left out, also of the walk, which would otherwise go straight to its neighbours. What is right is told by truth, which
// has the nodes in the order of the index. Where the artifact has codes alone, a neighbour counts as found when it is
// among the first thirty, which callers would measure again by the table's rows.
func (x *Index) calibrate(ctx context.Context, truth *space, seed uint64) error {
	x.cal = Calibration{Ef95: maxEf, Ef99: maxEf, Distances: x.n}
	k := min(calibrated, x.n-1)
	if k < 1 {
		return nil
	}
	nodes := x.drawn(seed)
	s := x.scratch()
	defer x.release(s)
	limits, err := x.limits(ctx, s, truth, nodes, k)
	if err != nil {
		return err
	}
	var q code.Query
	depth := 0 // as searches do
	if !x.Floats() {
		depth = 3 * k
	}
	x.cal.Queries = len(nodes)
	has95 := false
	for _, ef := range pools {
		if x.kind != code.Float32 {
			ef = max(ef, depth, firstAgain(k))
		}
		found, distances := 0, int64(0)
		for i, node := range nodes {
			right, err := x.found(ctx, s, truth, &q, node, ef, k, depth, limits[i])
			if err != nil {
				return err
			}
			found += right
			distances += s.work.Distances
		}
		recall := float32(found) / float32(k*len(nodes))
		x.cal.Distances = int(distances) / len(nodes)
		if recall >= 0.95 && !has95 {
			has95 = true
			x.cal.Ef95, x.cal.Recall95 = ef, recall
		}
		if recall >= 0.99 || ef == maxEf {
			x.cal.Ef99, x.cal.Recall99 = ef, recall
			if !has95 {
				x.cal.Ef95, x.cal.Recall95 = ef, recall
			}
			break
		}
	}
	return nil
}

// drawn are the nodes that are queries of a calibration.
func (x *Index) drawn(seed uint64) []uint32 {
	rng := rand.New(rand.NewPCG(seed, 3))
	nodes := make([]uint32, 0, calibrations)
	if x.n <= calibrations {
		for node := range x.n {
			nodes = append(nodes, uint32(node))
		}
	} else {
		for len(nodes) < calibrations {
			if node := rng.Uint32N(uint32(x.n)); !slices.Contains(nodes, node) {
				nodes = append(nodes, node)
			}
		}
	}
	return nodes
}

// found walks to a node with a pool of ef, without finding the node itself, and counts how many of the k nearest are not
// farther than the limit.
func (x *Index) found(ctx context.Context, s *scratch, truth *space, q *code.Query, node uint32, ef, k, depth int, limit float32) (int, error) {
	truth.be(q, node)
	truth.vector(s.own, node)
	if truth.float() {
		x.main.coder.QueryInto(&s.query, s.own)
	} else {
		x.main.coder.QueryRotatedInto(&s.query, s.own)
	}
	s.work = Work{}
	s.seen.begin(x.n)
	s.seen.mark(node)
	if err := x.plain(ctx, s, x.descend(s), ef); err != nil {
		return 0, errs.Wrap(errs.Canceled, "graph.build", err)
	}
	c := slices.DeleteFunc(s.pool.c, func(c candidate) bool { return c.node&^expanded == node })
	c = s.again(truth, q, c, k, depth)
	right := 0
	for _, o := range c[:min(k, len(c))] {
		if o.dist <= limit+1e-6+1e-5*max(limit, -limit) { // kernels round in different orders
			right++
		}
	}
	return right, nil
}

// limits gives for each of the nodes how far the k-th nearest of the others is.
func (x *Index) limits(ctx context.Context, s *scratch, truth *space, nodes []uint32, k int) ([]float32, error) {
	queries, near := make([]code.Query, len(nodes)), make([]pool, len(nodes))
	for i, node := range nodes {
		truth.be(&queries[i], node)
		near[i].reset(k)
	}
	for at := 0; at < x.n; at += scanBatch { // a batch of rows stays in the cache for all queries
		if at%(16*scanBatch) == 0 && ctx.Err() != nil {
			return nil, errs.Wrap(errs.Canceled, "graph.build", ctx.Err())
		}
		n := min(scanBatch, x.n-at)
		for i, node := range nodes {
			truth.between(&queries[i], at, at+n, s.dists[:n])
			worst := near[i].worst()
			for j, d := range s.dists[:n] {
				if !(d >= worst) && at+j != int(node) {
					near[i].add(d, uint32(at+j))
					worst = near[i].worst()
				}
			}
		}
	}
	limits := make([]float32, len(nodes))
	for i := range near {
		limits[i] = near[i].worst()
	}
	return limits, nil
}

package graph

import (
	"cmp"
	"context"
	"math"
	"math/bits"
	"slices"
	"sort"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/code"
	"github.com/overlakedb/overlake/internal/vec/kernel"
)

// maxEf is the largest pool that is asked for by calibration. Callers may ask for more.
const maxEf = 1024

// scratch is the memory of one search.
type scratch struct {
	query code.Query
	float code.Query // for measuring again
	own   []float32
	seen  seen
	pool  pool
	edge  frontier
	in    []candidate // nodes within a range
	ids   []uint32
	dists []float32
	work  Work
}

func (x *Index) scratch() *scratch {
	select {
	case s := <-x.free:
		s.work = Work{}
		return s
	default:
		return &scratch{own: make([]float32, x.dim), ids: make([]uint32, max(x.width, scanBatch)), dists: make([]float32, max(x.width, scanBatch))}
	}
}

// release keeps the memory for the next search, unless enough of it is kept.
func (x *Index) release(s *scratch) {
	if cap(s.edge) > 1<<16 {
		s.edge = nil
	}
	if cap(s.in) > 1<<16 {
		s.in = nil
	}
	if cap(s.pool.c) > 1<<14 {
		s.pool.c = nil
	}
	select {
	case x.free <- s:
	default:
	}
}

// filter is the positions that may be hits.
type filter struct {
	allowed []uint64 // nil: all
	count   int64    // of allowed rows, as far as is known
	all     bool     // compare all of them, because walks find too few
}

func (f *filter) has(pos uint32) bool {
	return f.allowed == nil || int(pos>>6) < len(f.allowed) && f.allowed[pos>>6]>>(pos&63)&1 != 0
}

// takes tells whether one of the rows of a node may be a hit.
func (x *Index) takes(f *filter, node uint32) bool {
	if x.first == nil {
		return f.has(x.by[node])
	}
	return slices.ContainsFunc(x.rowsOf(node), f.has)
}

// Search finds the rows nearest to a query of Dim elements, ascending by distance, those equally far by position. Invalid
// when the query or the parameters are out of range.
func (x *Index) Search(ctx context.Context, query []float32, p Params) ([]Hit, Work, error) {
	const op = "graph.search"
	f, err := x.check(query, &p)
	if err != nil {
		return nil, Work{}, err
	}
	if err := ctx.Err(); err != nil {
		return nil, Work{}, errs.Wrap(errs.Canceled, op, err)
	}
	s := x.scratch()
	defer x.release(s)
	copy(s.own, query)
	if x.metric == vec.MetricCosine && !normalise(s.own) {
		s.work.Strategy = StrategyExact
		return x.undirected(&p, f), s.work, nil
	}
	x.main.coder.QueryInto(&s.query, s.own)
	if x.exact != nil {
		x.exact.coder.QueryInto(&s.float, s.own)
	}
	var hits []Hit
	switch way := x.way(&p, f); way {
	case StrategyExact:
		hits, err = x.scan(ctx, s, &p, f)
		s.work.Strategy = StrategyExact
	default:
		var enough bool
		hits, enough, err = x.walk(ctx, s, &p, f, way)
		s.work.Strategy = way
		if err == nil && !enough {
			hits, err = x.scan(ctx, s, &p, f)
			s.work.Strategy = StrategyFallback
		}
	}
	if err != nil {
		return nil, s.work, errs.Wrap(errs.KindOf(err), op, err)
	}
	return hits, s.work, nil
}

// poor is a recall of the largest pool below which walks are not taken unless a pool is asked for.
const poor = 0.95

// check checks a query and its parameters and fills in defaults.
func (x *Index) check(query []float32, p *Params) (*filter, error) {
	const op = "graph.search"
	switch {
	case len(query) != x.dim:
		return nil, errs.Newf(errs.Invalid, op, "a query of %d elements for vectors of %d", len(query), x.dim)
	case p.K < 0 || p.Ef < 0 || p.Rerank < 0 || p.AllowedCount < 0 || p.Within != p.Within:
		return nil, errs.Newf(errs.Invalid, op, "parameters out of range: k %d, ef %d, rerank %d, %d allowed rows, within %v", p.K, p.Ef, p.Rerank, p.AllowedCount, p.Within)
	case p.K == 0 && p.Within == 0:
		return nil, errs.New(errs.Invalid, op, "neither a number of hits nor a range")
	case p.Rerank > 0 && !x.Floats():
		return nil, errs.New(errs.Invalid, op, "the index holds codes alone and cannot rerank", errs.Hint("build it with floats, or ask for more hits and measure them by the table's rows"))
	}
	for _, v := range query {
		if v-v != 0 {
			return nil, errs.New(errs.Invalid, op, "the query holds what is no number")
		}
	}
	f := &filter{allowed: p.Allowed, count: int64(len(x.positions))}
	if p.Allowed != nil {
		f.count = p.AllowedCount
		if f.count == 0 {
			for _, w := range p.Allowed {
				f.count += int64(bits.OnesCount64(w))
			}
		}
		f.count = min(f.count, int64(len(x.positions)))
	}
	if p.Ef == 0 {
		f.all = x.cal.Recall99 < poor
		p.Ef = x.cal.Ef99 + max(0, min(p.K, len(x.positions))-calibrated)
		if f.allowed != nil { // allowed rows may be where the graph is thin
			p.Ef *= 2
		}
	}
	k := p.K // a range may hold more than any pool
	if p.K == 0 || p.K > len(x.positions) {
		p.K = len(x.positions)
	}
	if p.Within == 0 {
		k = p.K
	}
	again := 0
	if x.exact == nil {
		p.Rerank = 0
	} else if p.Rerank > 0 {
		p.Rerank = max(p.Rerank, k)
		again = p.Rerank
	} else {
		again = 2 * firstAgain(k)
	}
	p.Ef = min(max(p.Ef, k, again, 1), max(x.n, 1))
	return f, nil
}

// batched is how many rows are compared one after another in the time in which a walk meets one. Of long rows both ways
// mostly wait for memory.
func (x *Index) batched() float64 {
	if x.main.size >= 2048 {
		return 2
	}
	return 4
}

// reach is about how many rows a walk compares whose pool holds ef nodes. What was calibrated is one point of it; around
// that it grows more slowly than the pool, because what lies around neighbours overlaps.
func (x *Index) reach(ef float64) float64 {
	r := ef / float64(x.cal.Ef99)
	return min(float64(x.cal.Distances)*math.Sqrt(r*math.Sqrt(r)), float64(x.n))
}

// way chooses the strategy by what it costs. A pool of allowed nodes reaches as far as one of all nodes that is larger by as
// much as the allowed ones are fewer.
func (x *Index) way(p *Params, f *filter) string {
	if x.forced != "" {
		return x.forced
	}
	share := float64(f.count) / float64(len(x.positions))
	switch {
	case p.Exact || f.all || f.count <= fewRows || p.Ef >= x.n || float64(f.count) <= x.batched()*x.reach(float64(p.Ef)/share):
		return StrategyExact
	case f.allowed == nil || share >= 0.25:
		return StrategyGraph
	}
	return StrategyTwoHop
}

// walk searches the graph; enough is false when comparing every allowed row is the better way.
func (x *Index) walk(ctx context.Context, s *scratch, p *Params, f *filter, way string) (hits []Hit, enough bool, err error) {
	s.seen.begin(x.n)
	near := x.descend(s)
	switch {
	case way == StrategyTwoHop:
		enough, err = x.filtered(ctx, s, near, p.Ef, p.Within, f, true)
	case f.allowed != nil || p.Within != 0:
		enough, err = x.filtered(ctx, s, near, p.Ef, p.Within, f, false)
	default:
		err = x.plain(ctx, s, near, p.Ef)
		enough = true
	}
	if err != nil || !enough {
		return nil, false, err
	}
	hits = x.hits(s, p, f, x.exact != nil)
	return hits, p.Within != 0 || len(hits) >= p.K, nil
}

// descend goes down to level 0 and gives a near node there.
func (x *Index) descend(s *scratch) candidate {
	s.ids[0] = x.entry
	if x.top > 0 {
		s.ids[0] = x.upper[x.entry]
	}
	x.main.at(&s.query, s.ids[:1], s.dists)
	s.work.Distances++
	near, at := candidate{s.dists[0], s.ids[0]}, x.entry
	for level := x.top; level > 0; level-- {
		for {
			row := x.upRow(at, level)
			n := 0
			for _, u := range row {
				if u == none {
					break
				}
				s.ids[n] = x.upper[u]
				n++
			}
			x.main.at(&s.query, s.ids[:n], s.dists)
			s.work.Distances += int64(n)
			s.work.Hops++
			was := at
			for i, d := range s.dists[:n] {
				if d < near.dist {
					near, at = candidate{d, s.ids[i]}, row[i]
				}
			}
			if at == was {
				break
			}
		}
	}
	return near
}

// row are the links of a node on level 0; what is not used of it is none.
func (x *Index) row(node uint32) []uint32 { return x.links[int(node)*x.width:][:x.width] }

// pause is how many nodes are expanded between two looks at the context.
const pause = 256

// plain walks over level 0 (algorithm 2 of the paper). It ends when the links of all nodes in the pool were followed: then
// the nearest of the others is farther than the farthest of the pool.
func (x *Index) plain(ctx context.Context, s *scratch, near candidate, ef int) error {
	s.pool.reset(ef)
	if s.seen.mark(near.node) {
		s.pool.add(near.dist, near.node)
	} else {
		// A calibration leaves out the node where its walk begins: it begins at the neighbours.
		s.pool.add(inf, near.node)
	}
	distances, hops := 0, 0
	for {
		node, ok := s.pool.expand()
		if !ok {
			break
		}
		if hops++; hops%pause == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		fresh := s.seen.fresh(x.row(node), s.ids)
		if len(fresh) == 0 {
			continue
		}
		if p := &s.pool; p.next < len(p.c) { // likely the next, unless a nearer one is among the fresh
			kernel.Prefetch(x.row(p.c[p.next].node &^ expanded))
		}
		x.main.at(&s.query, fresh, s.dists)
		distances += len(fresh)
		worst := s.pool.worst()
		for i, d := range s.dists[:len(fresh)] {
			if !(d >= worst) {
				s.pool.add(d, fresh[i])
				worst = s.pool.worst()
			}
		}
	}
	s.work.Distances += int64(distances)
	s.work.Hops += int64(hops)
	return nil
}

// filtered walks with two lists: nodes whose links are to be followed, and the pool of nodes that may be hits. Over all
// nodes, or with twoHop over allowed ones, where a node that is not allowed is stood for by its allowed neighbours. With a
// range, the walk goes on as long as it is within, and all nodes that are go to s.in. It tells false when it costs more
// than comparing every allowed row.
func (x *Index) filtered(ctx context.Context, s *scratch, near candidate, ef int, within float32, f *filter, twoHop bool) (bool, error) {
	s.pool.reset(ef)
	s.edge, s.in = s.edge[:0], s.in[:0]
	bound := float32(math.Inf(-1))
	if within != 0 {
		bound = x.slack(within)
	}
	meet := func(dist float32, node uint32) {
		if s.pool.full() && !(dist < s.pool.worst()) && !(dist < bound) {
			return
		}
		s.edge.push(dist, node)
		if x.takes(f, node) {
			s.pool.add(dist, node)
			if dist < bound {
				s.in = append(s.in, candidate{dist, node})
			}
		}
	}
	s.seen.mark(near.node)
	meet(near.dist, near.node)
	distances, hops := int64(0), int64(0)
	defer func() {
		s.work.Distances += distances
		s.work.Hops += hops
	}()
	for len(s.edge) > 0 {
		c := s.edge.pop()
		if s.pool.full() && c.dist > max(s.pool.worst(), bound) {
			return true, nil
		}
		if distances+hops > f.count {
			return false, nil
		}
		if hops++; hops%pause == 0 && ctx.Err() != nil {
			return false, ctx.Err()
		}
		ids := s.ids[:0]
		if !twoHop {
			ids = s.seen.fresh(x.row(c.node), s.ids)
		} else {
			for _, link := range x.row(c.node) {
				if link == none {
					break
				}
				if !s.seen.mark(link) {
					continue
				}
				if x.takes(f, link) {
					ids = append(ids, link)
					continue
				}
				hops++
				for _, far := range x.row(link) {
					if far == none {
						break
					}
					if s.seen.marks[far] != s.seen.now && x.takes(f, far) {
						s.seen.mark(far)
						ids = append(ids, far)
					}
				}
			}
			s.ids = ids[:cap(ids)]
		}
		if len(s.edge) > 0 {
			kernel.Prefetch(x.row(s.edge[0].node))
		}
		if len(ids) > len(s.dists) {
			s.dists = make([]float32, cap(s.ids))
		}
		x.main.at(&s.query, ids, s.dists)
		distances += int64(len(ids))
		for i, id := range ids {
			meet(s.dists[i], id)
		}
	}
	return true, nil
}

// slack is how far a walk for a range goes: codes may tell a distance wrong by some of it.
func (x *Index) slack(within float32) float32 {
	if x.exact == nil {
		return within
	}
	share := float32(0.02)
	if x.kind == code.TQ4 {
		share = 0.1
	}
	return within + share*float32(math.Abs(float64(within)))
}

// again measures the first of the candidates by the floats that q was made for, sorts them and gives them back. How many
// is said by most; 0: first those that mostly do, and then as many again as long as there is one of the k nearest among them.
func (s *scratch) again(floats *space, q *code.Query, c []candidate, k, most int) []candidate {
	n := most
	if most == 0 {
		n = firstAgain(k)
	}
	done := 0
	for {
		n = min(n, len(c))
		kth := inf
		if most == 0 && done > 0 && done >= k {
			kth = c[k-1].dist
		}
		better := false
		for done < n {
			part := c[done:min(done+scanBatch, n)]
			for i, o := range part {
				s.ids[i] = o.node &^ expanded
			}
			floats.at(q, s.ids[:len(part)], s.dists)
			for i, d := range s.dists[:len(part)] {
				if d != d {
					d = inf
				}
				part[i] = candidate{d, s.ids[i]}
				better = better || d < kth
			}
			done += len(part)
			s.work.Reranked += int64(len(part))
		}
		slices.SortFunc(c[:n], func(a, b candidate) int { return cmp.Compare(a.dist, b.dist) })
		if most > 0 || !better || n == len(c) {
			return c[:n]
		}
		n *= 2
	}
}

// firstAgain is how many are measured again at least.
func firstAgain(k int) int { return k + k/4 + 4 }

// hits makes rows of the nodes in the pool, or within the range; again: after their distances were measured by floats.
func (x *Index) hits(s *scratch, p *Params, f *filter, again bool) []Hit {
	if p.Within != 0 {
		c := s.in
		if again {
			c = s.again(x.exact, &s.float, c, 1, len(c))
		} else {
			slices.SortFunc(c, func(a, b candidate) int { return cmp.Compare(a.dist, b.dist) })
		}
		n := sort.Search(len(c), func(i int) bool { return !(c[i].dist < p.Within) })
		return x.rowsOfAll(c[:n], p.K, f)
	}
	c := s.pool.c
	if again {
		c = s.again(x.exact, &s.float, c, p.K, p.Rerank)
	}
	hits := x.rowsOfAll(c, p.K, f)
	for _, pos := range x.zeros {
		if len(hits) >= p.K {
			break
		}
		if f.has(pos) {
			hits = append(hits, Hit{pos, nan})
		}
	}
	return hits
}

// rowsOfAll gives the allowed rows of nodes that ascend by distance, k at most.
func (x *Index) rowsOfAll(c []candidate, k int, f *filter) []Hit {
	hits := make([]Hit, 0, min(k, len(c)))
	for at, o := range c {
		if len(hits) >= k && o.dist > c[at-1].dist {
			break
		}
		n := 0 // of one node, k rows are enough
		for _, pos := range x.rowsOf(o.node &^ expanded) {
			if f.has(pos) {
				hits = append(hits, Hit{pos, x.clamp(o.dist)})
				if n++; n == k {
					break
				}
			}
		}
	}
	sortHits(hits)
	return hits[:min(k, len(hits))]
}

// clamp brings back what rounding, or a code, took out of the range of a distance.
func (x *Index) clamp(dist float32) float32 {
	if x.metric == vec.MetricCosine {
		return max(0, min(2, dist))
	}
	return dist
}

func sortHits(hits []Hit) {
	slices.SortFunc(hits, func(a, b Hit) int {
		if c := cmp.Compare(a.Distance, b.Distance); c != 0 {
			return c
		}
		return cmp.Compare(a.Pos, b.Pos)
	})
}

// undirected are the hits of a zero vector under cosine: all rows are equally far, which is no number.
func (x *Index) undirected(p *Params, f *filter) []Hit {
	var hits []Hit
	if p.Within != 0 {
		return hits
	}
	for _, pos := range x.positions {
		if len(hits) == p.K {
			break
		}
		if f.has(pos) {
			hits = append(hits, Hit{pos, nan})
		}
	}
	return hits
}

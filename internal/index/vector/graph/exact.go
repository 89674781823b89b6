package graph

import (
	"context"
	"math/bits"
	"sort"

	"github.com/overlakedb/overlake/internal/vec/code"
)

// scanBatch is how many rows are compared by one call of a kernel.
const scanBatch = 256

// fewRows is up to how many rows comparing floats is cheaper than comparing codes and measuring the best again.
const fewRows = 2000

// scan compares the query with every allowed row.
func (x *Index) scan(ctx context.Context, s *scratch, p *Params, f *filter) ([]Hit, error) {
	by, query, again := x.main, &s.query, x.exact != nil
	if again && (p.Exact || f.count <= fewRows) {
		by, query, again = x.exact, &s.float, false
	}
	size := p.K
	if again {
		if size = p.Rerank; size == 0 {
			size = 8*p.K + 100
		}
	}
	s.pool.reset(max(1, min(size, x.n)))
	s.in = s.in[:0]
	bound := p.Within
	if again {
		bound = x.slack(bound)
	}
	offer := func(ids []uint32, dists []float32) {
		if p.Within != 0 {
			for i, d := range dists {
				if d < bound {
					s.in = append(s.in, candidate{d, ids[i]})
				}
			}
			return
		}
		worst := s.pool.worst()
		for i, d := range dists {
			if !(d >= worst) {
				s.pool.add(d, ids[i])
				worst = s.pool.worst()
			}
		}
	}
	var err error
	if f.allowed == nil {
		err = x.compareAll(ctx, s, by, query, offer)
	} else {
		err = x.compareAllowed(ctx, s, by, query, f.allowed, offer)
	}
	if err != nil {
		return nil, err
	}
	return x.hits(s, p, f, again), nil
}

func (x *Index) compareAll(ctx context.Context, s *scratch, by *space, query *code.Query, offer func([]uint32, []float32)) error {
	for at := 0; at < x.n; at += scanBatch {
		if at%(64*scanBatch) == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		n := min(scanBatch, x.n-at)
		by.between(query, at, at+n, s.dists[:n])
		for i := range n {
			s.ids[i] = uint32(at + i)
		}
		offer(s.ids[:n], s.dists[:n])
	}
	s.work.Distances += int64(x.n)
	return nil
}

func (x *Index) compareAllowed(ctx context.Context, s *scratch, by *space, query *code.Query, allowed []uint64, offer func([]uint32, []float32)) error {
	if len(x.positions) == 0 {
		return nil
	}
	last := len(x.positions) - 1
	missing := int(x.positions[last]) - last // numbers below the last position that are none
	if x.first != nil {
		s.seen.begin(x.n)
	}
	next, n, batches := 0, 0, 0
	flush := func() {
		by.at(query, s.ids[:n], s.dists[:n])
		s.work.Distances += int64(n)
		offer(s.ids[:n], s.dists[:n])
		n = 0
	}
	for w, word := range allowed[:min(len(allowed), int(x.positions[last])>>6+1)] {
		for ; word != 0; word &= word - 1 {
			pos := w<<6 + bits.TrailingZeros64(word)
			// A position is at its own number, less the missing ones before it.
			if next = max(next, pos-missing); next > last {
				break
			}
			if int(x.positions[next]) != pos {
				high := min(pos, last)
				next += sort.Search(high+1-next, func(i int) bool { return int(x.positions[next+i]) >= pos })
				if next > last || int(x.positions[next]) != pos {
					continue
				}
			}
			node := x.nodes[next]
			next++
			if node == none || x.first != nil && !s.seen.mark(node) {
				continue
			}
			s.ids[n] = node
			if n++; n == scanBatch {
				flush()
				if batches++; batches%64 == 0 && ctx.Err() != nil {
					return ctx.Err()
				}
			}
		}
	}
	flush()
	return nil
}

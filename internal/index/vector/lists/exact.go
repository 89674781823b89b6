package lists

import (
	"context"
	"math"
	"math/bits"
	"slices"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/vec/kernel"
)

const exactLists = 256 // lists that are in memory at once, when they must be read

// exact compares all allowed rows by the best data.
func (s *search) exact(ctx context.Context) ([]Hit, error) {
	q, x := s.q, s.Index
	if s.p.Allowed != nil {
		if err := s.mark(ctx); err != nil {
			return nil, err
		}
	}
	// All lists that hold an allowed row, in the order of the artifact.
	q.probes, q.parts = q.probes[:0], q.parts[:0]
	for l := range x.p.lists {
		if s.p.Allowed == nil || q.some(int(x.first[l]), int(x.first[l+1])) {
			q.probes = append(q.probes, probe{list: uint32(l)})
		}
	}
	q.ids, q.values = grow(q.ids, len(q.probes)), grow(q.values, len(q.probes))
	for i, p := range q.probes {
		q.ids[i] = p.list
	}
	q.exactKeys(q.ids, q.values)
	for i := range q.probes {
		q.probes[i].key = q.values[i]
	}
	q.bases(q.probes)
	hits := &nearestHits{k: s.p.K, within: s.p.Within, bound: inf}
	if s.p.Within == 0 {
		hits.k = s.k
	}
	whole := q.probes
	defer func() { q.probes = whole }()
	all := whole
	step := len(all)
	if !x.resident {
		step = exactLists
	}
	for len(all) > 0 {
		some := all[:min(step, len(all))]
		all = all[len(some):]
		var err error
		if q.parts, err = s.gather(ctx, some, q.parts[:0], s.work); err != nil {
			return nil, err
		}
		q.probes = some // candidates and readRows speak of these
		s.work.Lists += int64(len(some))
		if x.resident && !s.sure() {
			err = s.compareLists(ctx, hits)
		} else {
			err = s.compare(ctx, hits)
		}
		if err != nil {
			return nil, err
		}
	}
	return s.sorted(hits.items), nil
}

// compareLists is compare for rerank rows in memory, list by list. Rows in bytes are compared with the rounded query first,
// and those near enough again.
func (s *search) compareLists(ctx context.Context, hits *nearestHits) error {
	q, x := s.q, s.Index
	twice := x.layout.rerankFactors && s.p.Within == 0
	q.best.begin(2*s.k + 16)
	rows := int64(0)
	for i := range q.probes {
		if i&15 == 0 {
			if err := ctx.Err(); err != nil {
				return errs.Wrap(errs.Canceled, "lists.search", err)
			}
		}
		probe, part := &q.probes[i], &q.parts[i]
		first := x.first[probe.list]
		q.ids = q.ids[:0]
		s.each(int(first), part.n, func(j int) { q.ids = append(q.ids, first+uint32(j)) })
		q.values = grow(q.values, len(q.ids))
		values := q.values[:len(q.ids)]
		s.work.Reranked += int64(len(values))
		rows += int64(len(values))
		if x.layout.rerankFactors {
			if !twice && !q.refined {
				q.rerank.Refine()
				q.refined = true
			}
			q.rerank.ProductsAt(x.rows, q.ids, values)
			scales, adds := x.layout.rerankFactor(part)
			for at, place := range q.ids {
				j := place - first
				values[at] = probe.base + adds[j] - scales[j]*values[at]
			}
		} else {
			q.rerank.DistancesAt(x.rows, nil, q.ids, values)
		}
		if twice {
			for at, d := range values {
				if d < q.best.bound {
					q.best.add(d, q.ids[at])
				}
			}
			continue
		}
		positions := x.layout.positions(part)
		for at, d := range values {
			if d = q.settle(d); d <= hits.bound {
				hits.add(Hit{Pos: positions[q.ids[at]-first], Distance: d})
			}
		}
	}
	if !twice {
		return nil
	}
	q.best.shrink()
	if int64(len(q.best.items)) < min(int64(s.k), rows) {
		return s.compare(ctx, hits) // estimates beyond all bounds
	}
	found, err := s.finish(ctx)
	hits.items = found
	return err
}

// mark sets the bits of the places of the allowed rows.
func (s *search) mark(ctx context.Context) error {
	q, x := s.q, s.Index
	if err := x.loadPlaces(ctx); err != nil {
		return err
	}
	q.rows = grow(q.rows, int(x.p.rows+63)/64)
	clear(q.rows)
	set := func(rank int) {
		place := x.places[rank]
		q.rows[place>>6] |= 1 << (place & 63)
	}
	if x.positions == nil {
		for i, w := range s.p.Allowed {
			for ; w != 0; w &= w - 1 {
				pos := int64(i)<<6 + int64(bits.TrailingZeros64(w))
				if pos >= x.p.rows {
					return nil
				}
				set(int(pos))
			}
		}
		return nil
	}
	if s.p.AllowedCount > x.p.rows/8 {
		for rank, pos := range x.positions {
			if w := int(pos >> 6); w < len(s.p.Allowed) && s.p.Allowed[w]>>(pos&63)&1 != 0 {
				set(rank)
			}
		}
		return nil
	}
	from := 0
	for i, w := range s.p.Allowed {
		for ; w != 0; w &= w - 1 {
			pos := uint64(i)<<6 + uint64(bits.TrailingZeros64(w))
			if pos > math.MaxUint32 {
				return nil
			}
			n, ok := slices.BinarySearch(x.positions[from:], uint32(pos))
			if from += n; ok {
				set(from)
			}
		}
	}
	return nil
}

// some: a place of from..to is marked.
func (q *query) some(from, to int) bool {
	for at := from; at < to; {
		w := q.rows[at>>6] >> (at & 63)
		if n := bits.TrailingZeros64(w); w != 0 {
			return at+n < to
		}
		at = (at>>6 + 1) << 6
	}
	return false
}

// compare gives the allowed rows of the lists at hand to the hits.
func (s *search) compare(ctx context.Context, hits *nearestHits) error {
	q, x := s.q, s.Index
	var items []candidate
	flush := func() error {
		if len(items) == 0 {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return errs.Wrap(errs.Canceled, "lists.search", err)
		}
		if err := s.again(ctx, items); err != nil {
			return err
		}
		for _, c := range items {
			if d := q.settle(c.d); d <= hits.bound {
				hits.add(Hit{Pos: x.layout.positions(&q.parts[c.probe])[c.place-x.first[q.probes[c.probe].list]], Distance: d})
			}
		}
		items = items[:0]
		return nil
	}
	var estimates [kernel.BlockRows]float32
	for i := range q.probes {
		probe, part := &q.probes[i], &q.parts[i]
		first := int(x.first[probe.list])
		if !s.sure() {
			s.each(first, part.n, func(j int) {
				items = append(items, candidate{place: uint32(first + j), probe: uint32(i)})
			})
			if len(items) >= 4*stretch {
				if err := flush(); err != nil {
					return err
				}
			}
			continue
		}
		if err := ctx.Err(); err != nil {
			return errs.Wrap(errs.Canceled, "lists.search", err)
		}
		positions := x.layout.positions(part)
		for from := 0; from < part.n; from += kernel.BlockRows {
			n := min(kernel.BlockRows, part.n-from)
			if s.p.Allowed != nil && !q.some(first+from, first+from+n) {
				continue
			}
			q.estimate(part, from, probe.base, &estimates)
			s.work.Scanned += int64(n)
			s.each(first+from, n, func(j int) {
				if d := q.settle(estimates[j]); d <= hits.bound {
					hits.add(Hit{Pos: positions[from+j], Distance: d})
				}
			})
		}
	}
	return flush()
}

// each calls f with the allowed of n places.
func (s *search) each(first, n int, f func(j int)) {
	if s.p.Allowed == nil {
		for j := range n {
			f(j)
		}
		return
	}
	for at := first; at < first+n; {
		w := s.q.rows[at>>6] >> (at & 63)
		next := (at>>6 + 1) << 6
		for ; w != 0; w &= w - 1 {
			if j := at + bits.TrailingZeros64(w) - first; j < n {
				f(j)
			}
		}
		at = next
	}
}

// nearestHits keeps the k nearest hits, or all within a distance.
type nearestHits struct {
	k      int // 0: all
	within float32
	bound  float32 // none beyond is wanted
	items  []Hit
}

func (h *nearestHits) add(hit Hit) {
	if h.within != 0 && !(hit.Distance < h.within) {
		return
	}
	h.items = append(h.items, hit)
	if h.k > 0 && len(h.items) >= 2*h.k+32 {
		nearest(h.items, h.k, func(a, b Hit) bool { return compareHits(a, b) < 0 })
		h.items = h.items[:h.k]
		h.bound = h.items[0].Distance
		for _, i := range h.items {
			h.bound = max(h.bound, i.Distance)
		}
	}
}

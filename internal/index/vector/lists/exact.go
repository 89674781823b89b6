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
	floats := s.p.Allowed != nil && x.resident && x.layout.hasRerank && !x.layout.rerankFactors
	if floats && s.p.AllowedCount < x.p.rows/rarely {
		return s.compareFloats(ctx, false)
	}
	if s.p.Allowed != nil && !s.marked {
		if err := s.mark(ctx); err != nil {
			return nil, err
		}
	}
	if floats {
		return s.compareFloats(ctx, true)
	}
	q.turn()
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
	hits := s.hits()
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
	return hits.sorted(), nil
}

// hits is room for the hits of a search of all rows.
func (s *search) hits() *nearestHits {
	h := &nearestHits{k: s.p.K, within: s.p.Within, bound: inf}
	if s.p.Within == 0 {
		h.k = s.k
	}
	return h
}

const (
	exactBatch = 512 // rows that are compared by one call
	rarely     = 32  // one row in so many is far from the next, whatever the order
)

// compareFloats compares the allowed rows where floats are in memory: lists and centroids are not needed. inOrder goes through
// the marked rows as they lie there, else they come by position.
func (s *search) compareFloats(ctx context.Context, inOrder bool) ([]Hit, error) {
	q, x := s.q, s.Index
	if err := x.loadPlaces(ctx); err != nil {
		return nil, err
	}
	hits := s.hits()
	q.ids, q.values, q.chosen = grow(q.ids, exactBatch), grow(q.values, exactBatch), grow(q.chosen, exactBatch)
	var ranks, positions [exactBatch]uint32
	var at cursor
	from, list := 0, 0 // places ascend when they are in order
	for batches := 0; ; batches++ {
		if batches&15 == 0 && ctx.Err() != nil {
			return nil, errs.Wrap(errs.Canceled, "lists.search", ctx.Err())
		}
		ids := q.ids[:0]
		if inOrder {
			ids, from = q.places(ids, from, int(x.p.rows), exactBatch)
		} else {
			for _, rank := range ranks[:s.next(&at, ranks[:], positions[:])] {
				ids = append(ids, x.places[rank])
			}
		}
		if len(ids) == 0 {
			break
		}
		out := q.values[:len(ids)]
		q.rerank.DistancesAt(x.rows, nil, ids, out)
		s.work.Reranked += int64(len(ids))
		chosen := q.chosen[:len(ids)]
		if hits.bound < math.MaxFloat32 && q.back == 1 {
			chosen = q.chosen[:kernel.Select(out, math.Nextafter32(hits.bound, inf), q.chosen)]
		} else {
			for j := range chosen {
				chosen[j] = uint32(j)
			}
		}
		for _, j := range chosen {
			d := q.settle(out[j])
			if !(d <= hits.bound) {
				continue
			}
			pos := positions[j]
			if inOrder {
				for x.first[list+1] <= ids[j] {
					list++
				}
				part, err := x.layout.view(x.pieces[x.offsets[list]:x.offsets[list+1]], int(x.directory[list].rows))
				if err != nil {
					return nil, err
				}
				pos = x.layout.positions(&part)[ids[j]-x.first[list]]
			}
			hits.add(pos, d)
		}
	}
	return hits.sorted(), nil
}

// places appends the marked of from..to to ids, most altogether, and says from where on none was looked at.
func (q *query) places(ids []uint32, from, to, most int) ([]uint32, int) {
	for from < to {
		w := q.rows[from>>6] >> (from & 63)
		next := (from>>6 + 1) << 6
		if next > to {
			w &= 1<<(to-from) - 1
		}
		for ; w != 0; w &= w - 1 {
			if len(ids) == most {
				return ids, from + bits.TrailingZeros64(w)
			}
			ids = append(ids, uint32(from+bits.TrailingZeros64(w)))
		}
		from = next
	}
	return ids, to
}

// compareLists is compare for rerank rows in memory, a batch at a time. Rows in bytes are compared with the rounded query
// first, and those near enough again.
func (s *search) compareLists(ctx context.Context, hits *nearestHits) error {
	q, x := s.q, s.Index
	twice := x.layout.rerankFactors && s.p.Within == 0
	if x.layout.rerankFactors && !twice && !q.refined {
		q.rerank.Refine()
		q.refined = true
	}
	q.best.begin(2*s.k + 16)
	q.ids, q.values = grow(q.ids, exactBatch), grow(q.values, exactBatch)
	ids := q.ids[:0]
	rows, batches := int64(0), 0
	begun := 0 // the probe of the first of the batch
	flush := func() error {
		if batches++; batches&15 == 0 && ctx.Err() != nil {
			return errs.Wrap(errs.Canceled, "lists.search", ctx.Err())
		}
		values := q.values[:len(ids)]
		if x.layout.rerankFactors {
			q.rerank.ProductsAt(x.rows, ids, values)
		} else {
			q.rerank.DistancesAt(x.rows, nil, ids, values)
		}
		rows += int64(len(ids))
		for at := 0; at < len(ids); begun++ {
			probe, part := &q.probes[begun], &q.parts[begun]
			first := x.first[probe.list]
			end := first + uint32(part.n)
			if ids[at] >= end {
				continue
			}
			positions := x.layout.positions(part)
			var scales, adds []float32
			if x.layout.rerankFactors {
				scales, adds = x.layout.rerankFactor(part)
			}
			for ; at < len(ids) && ids[at] < end; at++ {
				d, j := values[at], ids[at]-first
				if scales != nil {
					d = probe.base + adds[j] - scales[j]*d
				}
				if twice {
					if d < q.best.bound {
						q.best.add(d, ids[at])
					}
				} else if d = q.settle(d); d <= hits.bound {
					hits.add(positions[j], d)
				}
			}
			if at == len(ids) {
				break // more of this list may come
			}
		}
		ids = ids[:0]
		return nil
	}
	for i := range q.probes {
		first := int(x.first[q.probes[i].list])
		for from, to := first, first+q.parts[i].n; from < to; {
			if s.p.Allowed != nil {
				ids, from = q.places(ids, from, to, exactBatch)
			} else {
				for ; from < to && len(ids) < exactBatch; from++ {
					ids = append(ids, uint32(from))
				}
			}
			if len(ids) == exactBatch {
				if err := flush(); err != nil {
					return err
				}
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	s.work.Reranked += rows
	if !twice {
		return nil
	}
	q.best.shrink()
	if int64(len(q.best.items)) < min(int64(s.k), rows) {
		return s.compare(ctx, hits) // estimates beyond all bounds
	}
	found, err := s.finish(ctx)
	for _, h := range found {
		hits.add(h.Pos, h.Distance)
	}
	return err
}

// mark sets the bits of the places of the allowed rows.
func (s *search) mark(ctx context.Context) error {
	q, x := s.q, s.Index
	s.marked = true
	if err := x.loadPlaces(ctx); err != nil {
		return err
	}
	q.rows = grow(q.rows, int(x.p.rows+63)/64)
	rows := q.rows
	clear(rows)
	var ranks, positions [exactBatch]uint32
	for at := (cursor{}); ; {
		some := ranks[:s.next(&at, ranks[:], positions[:])]
		if len(some) == 0 {
			return nil
		}
		for _, rank := range some {
			place := x.places[rank]
			rows[place>>6] |= 1 << (place & 63)
		}
	}
}

// cursor is where in Allowed a search is.
type cursor struct {
	bits uint64 // of the word before this one, what is left
	word int
	rank int // where the next position may stand among those of the index
}

// next gives the ranks and positions of the next allowed rows, as many as there is room for, and how many these are.
func (s *search) next(c *cursor, ranks, positions []uint32) int {
	x, allowed := s.Index, s.p.Allowed
	rows := int(x.p.rows)
	n := 0
	positions = positions[:len(ranks)]
	for n < len(ranks) {
		for c.bits == 0 {
			if c.word == len(allowed) {
				return n
			}
			c.bits = allowed[c.word]
			c.word++
		}
		pos := (c.word-1)<<6 + bits.TrailingZeros64(c.bits)
		c.bits &= c.bits - 1
		rank := pos
		if x.positions != nil {
			if pos > math.MaxUint32 {
				return n
			}
			rank = c.find(x.positions, uint32(pos))
			if rank < rows && int(x.positions[rank]) != pos {
				continue
			}
		}
		if rank >= rows {
			c.bits, c.word = 0, len(allowed)
			return n
		}
		ranks[n], positions[n] = uint32(rank), uint32(pos)
		n++
	}
	return n
}

// find gives the rank of the first position that is not below pos, by steps that double from where the last one was.
func (c *cursor) find(positions []uint32, pos uint32) int {
	low, step := c.rank, 1
	for low+step <= len(positions) && positions[low+step-1] < pos {
		low += step
		step *= 2
	}
	at, _ := slices.BinarySearch(positions[low:min(low+step, len(positions))], pos)
	c.rank = low + at
	return c.rank
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
				hits.add(x.layout.positions(&q.parts[c.probe])[c.place-x.first[q.probes[c.probe].list]], d)
			}
		}
		items = items[:0]
		return nil
	}
	var estimates [kernel.BlockRows]float32
	var below [1]uint64 // of no use here
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
			q.estimate(part, from, probe.base, inf, estimates[:n], nil, below[:])
			s.work.Scanned += int64(n)
			s.each(first+from, n, func(j int) {
				if d := q.settle(estimates[j]); d <= hits.bound {
					hits.add(positions[from+j], d)
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

// nearestHits keeps the k nearest hits, or all within a distance. A hit is one number, the order of whose bits is that of
// distances, then of positions.
type nearestHits struct {
	k      int // 0: all
	within float32
	bound  float32 // none beyond is wanted
	items  []uint64
}

// add takes a distance that query.settle made.
func (h *nearestHits) add(pos uint32, d float32) {
	if h.within != 0 && !(d < h.within) {
		return
	}
	h.items = append(h.items, uint64(ascending(d))<<32|uint64(pos))
	if h.k > 0 && len(h.items) >= 2*h.k+32 {
		h.shrink()
	}
}

func (h *nearestHits) shrink() {
	if len(h.items) > h.k {
		least(h.items, h.k)
		h.items = h.items[:h.k]
		h.bound = estimate(slices.Max(h.items))
	}
}

// sorted gives the hits in order.
func (h *nearestHits) sorted() []Hit {
	if h.k > 0 {
		h.shrink()
	}
	slices.Sort(h.items)
	hits := make([]Hit, len(h.items))
	for i, item := range h.items {
		hits[i] = Hit{Pos: uint32(item), Distance: estimate(item)}
	}
	return hits
}

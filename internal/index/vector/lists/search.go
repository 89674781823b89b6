package lists

import (
	"cmp"
	"context"
	"math"
	"math/bits"
	"slices"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/code"
	"github.com/overlakedb/overlake/internal/vec/kernel"
)

// Params say what to search for.
type Params struct {
	// K is how many rows are wanted; with Within, 0 for all.
	K int

	// Probes is how many lists are scanned at least, Rerank how many rows of the scan are compared again. 0 takes what found
	// 95 of 100 neighbours when the index was built, or 99 of 100 with Allowed or Within.
	Probes int
	Rerank int

	// Allowed has a bit for each position whose row may be a hit, and none beyond its end; nil allows all. AllowedCount is
	// how many bits are set; 0 has them counted.
	Allowed      []uint64
	AllowedCount int64

	// Exact compares the query with all allowed rows by the best data of the index.
	Exact bool

	// Within asks for rows at less than this distance, in the measure of Hit; 0 for any. A list is read when its rows can
	// be so near, and until lists that are farther and farther had none.
	Within float32
}

func (p *Params) check(x *Index, vector []float32) error {
	switch {
	case len(vector) != x.p.dim:
		return invalid("a query of %d elements for vectors of %d", len(vector), x.p.dim)
	case p.K < 0 || p.K == 0 && p.Within == 0:
		return invalid("%d neighbours", p.K)
	case p.Probes < 0 || p.Rerank < 0 || p.AllowedCount < 0:
		return invalid("%d probes, %d candidates, %d rows allowed", p.Probes, p.Rerank, p.AllowedCount)
	case p.Within != p.Within:
		return invalid("neighbours within %v", p.Within)
	}
	if n := vec.Norm(vector); !(n*n <= math.MaxFloat32) {
		return invalid("a query of length %v", n)
	}
	return nil
}

// Tuning gives the probes and candidates that found a share of the k nearest when the index was built, among rows of the
// index: recall is 0.95 or, for all above it, 0.99.
func (x *Index) Tuning(k int, recall float64) (probes, rerank int) {
	t := 0
	if recall > 0.95 {
		t = 1
	}
	few, many := x.p.tuning[0][t], x.p.tuning[1][t]
	at := func(a, b uint32) float64 { // between 10 and 100 by the logarithm, and on like a root beyond
		switch l := math.Log10(float64(max(k, 1))); {
		case l <= 1:
			return float64(a)
		case l <= 2:
			return float64(a) + (float64(b)-float64(a))*(l-1)
		default:
			return float64(b) * math.Sqrt(float64(k)/100)
		}
	}
	probes = min(max(int(math.Ceil(at(few.probes, many.probes))), 1), max(x.p.lists, 1))
	r := at(few.rerank, many.rerank)
	if k > 100 {
		r = float64(many.rerank) * float64(k) / 100
	}
	return probes, int(min(max(math.Ceil(r), float64(k)), float64(x.p.rows)))
}

// Search finds the rows nearest to the query, nearest first, of equal ones that with the lower position. Invalid when the
// query is not finite or of another dimension, or when K is 0 without Within.
func (x *Index) Search(ctx context.Context, vector []float32, p Params) ([]Hit, Work, error) {
	var work Work
	if err := p.check(x, vector); err != nil {
		return nil, work, err
	}
	if x.p.rows == 0 || p.Allowed != nil && p.AllowedCount == 0 {
		for _, w := range p.Allowed {
			p.AllowedCount += int64(bits.OnesCount64(w))
		}
		if x.p.rows == 0 || p.AllowedCount == 0 {
			return nil, work, errs.Wrap(errs.Canceled, "lists.search", ctx.Err())
		}
	}
	q, _ := x.queries.Get().(*query)
	if q == nil {
		q = new(query)
	}
	defer func() {
		clear(q.parts) // what was read may go
		x.queries.Put(q)
	}()
	q.begin(&x.core, vector)
	s := search{Index: x, q: q, p: p, work: &work}
	hits, err := s.run(ctx)
	if err != nil {
		return nil, work, err
	}
	work.Distances += work.Scanned + work.Reranked
	return hits, work, nil
}

// search is one search at work.
type search struct {
	*Index
	q    *query
	p    Params
	work *Work

	k       int // hits that are wanted
	rerank  int
	matched int64 // allowed rows of the lists that were scanned
	passed  int64 // all rows of these lists
	marked  bool  // the places of allowed rows have their bits
}

func (s *search) run(ctx context.Context) ([]Hit, error) {
	x := s.Index
	s.k = int(min(int64(s.p.K), x.p.rows))
	probes, rerank := x.Tuning(max(s.k, 1), 0.95)
	probes, rerank = probes+probes/2+1, rerank+rerank/4 // queries may lie elsewhere than the rows by which it was measured
	if s.p.Within != 0 {
		probes, rerank = x.Tuning(max(s.k, 1), 0.99)
	}
	if s.p.Allowed != nil {
		probes, rerank = x.Tuning(max(s.k, 1), 0.99)
		probes, rerank = 3*probes/2, rerank+rerank/2 // queries differ more than without a filter
	}
	if s.p.Probes > 0 {
		probes = s.p.Probes
	}
	if s.p.Rerank > 0 {
		rerank = s.p.Rerank
	}
	probes = min(probes, x.p.lists)
	s.rerank = int(min(int64(max(rerank, s.k)), x.p.rows))
	if s.p.Exact {
		s.work.Strategy = "exact"
		return s.exact(ctx)
	}
	if s.p.Within != 0 {
		s.rank()
		s.work.Strategy = "range"
		return s.within(ctx, probes)
	}
	if s.p.Allowed == nil {
		s.rank()
		s.work.Strategy = "probe"
		return s.probe(ctx, probes, mask{})
	}
	// Rows that an unfiltered search of this quality scans.
	scanned := float64(probes) * float64(x.p.rows) / float64(x.p.lists)
	allowed := float64(min(s.p.AllowedCount, x.p.rows))
	share := allowed / float64(x.p.rows)
	// Neighbours among the allowed rows lie farther away: as many allowed rows are scanned as the root of their share says,
	// of the share near the query where that is larger.
	need := scanned * math.Sqrt(share)
	dear := x.layout.scansPerExact()
	if allowed <= max(fewRows, need/share/dear+float64(s.rerank)) {
		s.work.Strategy = "exact"
		return s.exact(ctx)
	}
	s.rank()
	s.work.Strategy = "masked"
	if x.resident && x.positions == nil && allowed < marksPerMask*need/share {
		if err := s.mark(ctx); err != nil {
			return nil, err
		}
	}
	return s.probe(ctx, probes, mask{share, scanned, int64(allowed * dear)})
}

// rank makes the query ready for lists and ranks them.
func (s *search) rank() {
	s.q.turn()
	s.q.rank()
	s.work.Distances += int64(s.Index.p.lists)
}

// scansPerExact is how many rows of lists are scanned in the time in which one row is compared by the best data. Either takes
// some time for the row and some for its bytes; the numbers are nanoseconds on Zen 4, of 30 bytes in one.
func (l *layout) scansPerExact() float64 {
	row := float64(l.codeBytes)
	if l.scan == code.Bit1 {
		row /= kernel.BlockRows
	}
	best := row
	if l.hasRerank {
		best = float64(l.rerankBytes)
	}
	return (8 + best/30) / (3 + row/30)
}

const (
	fewRows      = 2000 // these are always compared
	leastShare   = 0.7  // of the allowed rows that chance would put into the nearest lists
	marksPerMask = 0.7  // allowed rows marked by place in the time in which that many rows are looked up by position
)

// mask is what a filter asks of a search of lists.
type mask struct {
	share   float64 // of the rows, allowed ones
	scanned float64 // rows to be scanned if all were allowed
	budget  int64   // rows scanned, when comparing all allowed rows becomes cheaper; 0 for no filter
}

// probe scans lists, the nearest first, until there are enough candidates and enough allowed rows were scanned. Where the
// nearest lists hold far fewer allowed rows than others, the filter keeps neighbours away from the query: they may lie in any
// list and be about equally far, so that codes tell little, and all allowed rows are compared.
func (s *search) probe(ctx context.Context, probes int, m mask) ([]Hit, error) {
	q := s.q
	keep := s.rerank
	if s.sure() {
		keep = s.k
	}
	q.best.begin(keep)
	ahead := probes
	if m.budget > 0 {
		ahead = int(float64(probes) / math.Sqrt(m.share))
	}
	for want := probes; ; {
		fresh := q.next(want, ahead)
		if len(fresh) == 0 {
			break
		}
		if err := s.scan(ctx, fresh, nil); err != nil {
			return nil, err
		}
		here := float64(s.matched) / float64(s.passed)
		need := max(m.scanned*math.Sqrt(max(here, m.share)), float64(keep))
		if m.budget > 0 && here < leastShare*m.share {
			s.work.Strategy = "exact"
			return s.exact(ctx)
		}
		if float64(s.matched) >= need {
			break
		}
		if m.budget > 0 && s.passed > m.budget {
			s.work.Strategy = "exact"
			return s.exact(ctx)
		}
		// As many more lists as seem to be missing.
		want += max(int(float64(want)*min(max(need/float64(max(s.matched, 1))-1, 0.1), 1)), 4)
	}
	q.best.shrink()
	hits, err := s.finish(ctx)
	if err == nil && len(hits) < s.k && int64(len(hits)) < s.possible() {
		// Estimates were too far out of range for candidates, or bits stand for positions that no row has.
		s.work.Strategy = "exact"
		return s.exact(ctx)
	}
	return hits, err
}

// possible is how many hits there can be at most.
func (s *search) possible() int64 {
	if s.p.Allowed == nil {
		return s.Index.p.rows
	}
	return min(s.p.AllowedCount, s.Index.p.rows)
}

// scan reads lists and gives their rows to the best. With bounds, only rows of a list below its own.
func (s *search) scan(ctx context.Context, fresh []probe, bounds []float32) error {
	q := s.q
	var err error
	from := len(q.parts)
	if q.parts, err = s.gather(ctx, fresh, q.parts, s.work); err != nil {
		return err
	}
	for i := range fresh {
		if i&15 == 0 {
			if err := ctx.Err(); err != nil {
				return errs.Wrap(errs.Canceled, "lists.search", err)
			}
		}
		bound := inf
		if bounds != nil {
			bound = bounds[i]
		}
		s.list(from+i, bound)
	}
	s.work.Lists += int64(len(fresh))
	return nil
}

// list scans one list. Rows are kept below most and below the bound of the best.
func (s *search) list(i int, most float32) {
	q, x := s.q, s.Index
	part, probe := &q.parts[i], &q.probes[i]
	first := x.first[probe.list]
	q.values = grow(q.values, stretch)
	s.passed += int64(part.n)
	var allowed, below [stretch / 64]uint64
	var wanted []uint64
	if s.p.Allowed == nil {
		s.matched += int64(part.n)
		s.work.Scanned += int64(part.n)
	}
	for from := 0; from < part.n; from += stretch {
		out := q.values[:min(stretch, part.n-from)]
		if s.p.Allowed != nil {
			some := 0
			if s.marked {
				some = q.marks(int(first)+from, len(out), allowed[:])
			} else {
				some = s.mask(x.layout.positions(part)[from:][:len(out)], allowed[:])
			}
			if some == 0 {
				continue
			}
			wanted = allowed[:]
			s.matched += int64(some)
			s.work.Scanned += int64(len(out))
			for at := 0; x.p.code == code.Bit1 && at < len(out); at += kernel.BlockRows {
				if allowed[at>>6] == 0 { // the block is left out
					s.work.Scanned -= int64(min(kernel.BlockRows, len(out)-at))
				}
			}
		}
		q.estimate(part, from, probe.base, min(q.best.bound, most), out, wanted, below[:])
		for w, m := range below[:(len(out)+63)/64] {
			if wanted != nil {
				m &= wanted[w]
			}
			for ; m != 0; m &= m - 1 {
				if j := w<<6 + bits.TrailingZeros64(m); out[j] < q.best.bound {
					q.best.add(out[j], first+uint32(from+j))
				}
			}
		}
	}
}

// mask sets the bits of the allowed among positions, and counts them.
func (s *search) mask(positions []uint32, mask []uint64) int {
	n, allowed := 0, s.p.Allowed
	for at := 0; at < len(positions); at += 64 {
		var m uint64
		some := positions[at:min(at+64, len(positions))]
		for _, pos := range some {
			m >>= 1
			if w := int(pos >> 6); w < len(allowed) {
				m |= allowed[w] >> (pos & 63) << 63
			}
		}
		m >>= 64 - len(some)
		mask[at/64] = m
		n += bits.OnesCount64(m)
	}
	return n
}

// marks sets the bits of the marked among n places, and counts them.
func (q *query) marks(from, n int, mask []uint64) int {
	count := 0
	for at := 0; at < n; at += 64 {
		w, shift := (from+at)>>6, (from+at)&63
		m := q.rows[w] >> shift
		if shift > 0 && w+1 < len(q.rows) {
			m |= q.rows[w+1] << (64 - shift)
		}
		if n-at < 64 {
			m &= 1<<(n-at) - 1
		}
		mask[at/64] = m
		count += bits.OnesCount64(m)
	}
	return count
}

// finish compares the candidates again and makes hits of them.
func (s *search) finish(ctx context.Context) ([]Hit, error) {
	q, x := s.q, s.Index
	items := s.candidates()
	if !s.sure() {
		if err := s.again(ctx, items); err != nil {
			return nil, err
		}
	}
	hits := nearestHits{k: s.p.K, within: s.p.Within, bound: inf, items: q.order[:0]}
	for _, c := range items {
		hits.add(x.layout.positions(&q.parts[c.probe])[c.place-x.first[q.probes[c.probe].list]], q.settle(c.d))
	}
	q.order = hits.items
	return hits.sorted(), nil
}

// candidates takes the best, by place, with the probe that each is of.
func (s *search) candidates() []candidate {
	q := s.q
	for i, item := range q.best.items {
		q.best.items[i] = item<<32 | item>>32
	}
	slices.Sort(q.best.items)
	q.found = q.found[:0]
	for _, item := range q.best.items {
		q.found = append(q.found, candidate{d: estimate(item << 32), place: uint32(item >> 32)})
	}
	q.best.items = q.best.items[:0]
	order := grow(q.ids, len(q.probes))
	q.ids = order
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int { return cmp.Compare(q.probes[a].list, q.probes[b].list) })
	at := 0
	for i := range q.found {
		for q.found[i].place >= s.first[q.probes[order[at]].list+1] {
			at++
		}
		q.found[i].probe = order[at]
	}
	return q.found
}

// again sets the distances of candidates, sorted by place, by their rerank rows.
func (s *search) again(ctx context.Context, items []candidate) error {
	q, x := s.q, s.Index
	n := len(items)
	s.work.Reranked += int64(n)
	q.values, q.ids = grow(q.values, n), grow(q.ids, n)
	values := q.values[:n]
	rows := x.rows
	if x.resident {
		for i, c := range items {
			q.ids[i] = c.place
		}
	} else {
		var err error
		if rows, err = x.readRows(ctx, q.parts, items, q.probes, s.work); err != nil {
			return err
		}
		for i := range items {
			q.ids[i] = uint32(i)
		}
	}
	if !q.refined {
		q.rerank.Refine() // of floats nothing is lost
		q.refined = true
	}
	if !x.layout.rerankFactors {
		q.rerank.DistancesAt(rows, nil, q.ids[:n], values)
		for i := range items {
			items[i].d = values[i]
		}
		return nil
	}
	q.rerank.ProductsAt(rows, q.ids[:n], values)
	for i := range items {
		c := &items[i]
		probe := &q.probes[c.probe]
		scales, adds := x.layout.rerankFactor(&q.parts[c.probe])
		j := c.place - x.first[probe.list]
		c.d = probe.base + adds[j] - scales[j]*values[i]
	}
	return nil
}

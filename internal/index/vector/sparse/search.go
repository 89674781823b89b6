package sparse

import (
	"cmp"
	"context"
	"math"
	"math/bits"
	"slices"
	"sync"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/kernel"
)

// Hit is a row with its distance: the squared Euclidean distance, the negative inner product, one minus the cosine, or the
// sum of absolute differences, as package vec computes them.
type Hit struct {
	Pos      uint32
	Distance float64
}

// Params of a search.
type Params struct {
	K            int      // hits wanted, at least 1; with Ranged 0 means all
	Allowed      []uint64 // a bit for each position, set for rows that may be hits; nil: all
	AllowedCount int64    // bits set in Allowed
	Ranged       bool     // rows at distances below Within only
	Within       float64
}

// Work is what a search did.
type Work struct {
	Postings int64 // looked at in lists
	Rows     int64 // compared in full
	Scan     bool  // the rows were compared one by one, without the lists
}

// Search gives the K nearest rows of those allowed. The elements of the query are finite, not 0, and their places ascend; by
// cosine it has a length. ctx ends a search early.
func (x *Index) Search(ctx context.Context, q *vec.Sparse, p Params) ([]Hit, Work, error) {
	if p.K == 0 && p.Ranged {
		p.K = max(len(x.positions), 1)
	}
	if p.K < 1 || q.Dim != x.dim {
		return nil, Work{}, errs.Newf(errs.Invalid, "sparse.search", "%d hits of a query of %d dimensions in an index of %d", p.K, q.Dim, x.dim)
	}
	s := &search{x: x, q: q, p: p, ctx: ctx, worst: math.Inf(1)}
	for _, v := range q.Value {
		s.square += float64(v) * float64(v)
	}
	if p.Ranged {
		s.worst = p.Within
	}
	var err error
	if s.terms = x.terms(q, s.square); x.metric == vec.MetricL1 || s.fewAllowed() || s.ends() {
		s.work.Scan = true
		err = s.scan()
	} else if err = s.walk(); err == nil {
		err = s.rest()
	}
	if err != nil {
		return nil, s.work, err
	}
	slices.SortFunc(s.best, compare)
	out := make([]Hit, len(s.best))
	for i, h := range s.best {
		out[i] = Hit{x.positions[h.row], h.d}
	}
	return out, s.work, nil
}

// hit is a row by its number, which ascends with the position.
type hit struct {
	d   float64
	row uint32
}

func compare(a, b hit) int { return cmp.Or(cmp.Compare(a.d, b.d), cmp.Compare(a.row, b.row)) }

// search is one under way.
type search struct {
	x      *Index
	q      *vec.Sparse
	p      Params
	ctx    context.Context
	terms  []term
	square float64 // the squared length of the query
	best   []hit   // a heap with the worst one on top, once there are K
	worst  float64 // a row farther than this is no hit
	slack  float64 // by which two sums of the same gains may differ
	floor  float64 // a row that gains less is left to rest
	work   Work
}

// term is an element of the query that has a list.
type term struct {
	list        int
	weight      float64
	most        float64 // that an element of the list adds
	block, end  uint64  // blocks that are left
	from        uint64  // first posting of the next block
	signed      bool    // some elements add less than nothing
	worth       float64 // most that a row of the window at hand may gain
	contributes [256]float32
}

// terms are the elements of a query that have a list.
func (x *Index) terms(q *vec.Sparse, square float64) []term {
	if x.metric == vec.MetricL1 {
		return nil
	}
	scale := 1.0
	if x.metric == vec.MetricCosine {
		scale = 1 / math.Sqrt(square)
	}
	out := make([]term, 0, len(q.Index))
	for k, d := range q.Index {
		i, ok := slices.BinarySearch(x.dims, uint32(d))
		if !ok {
			continue
		}
		t := term{list: i, weight: float64(q.Value[k]) * scale, block: x.blocks[i], end: x.blocks[i+1], from: x.lists[i]}
		low, step := x.scales[2*i], x.scales[2*i+1]
		for c := range t.contributes {
			// The element lies between this number and the one before it.
			v := c
			if t.weight < 0 {
				v = max(c-1, 0)
			}
			t.contributes[c] = float32(t.weight * decode(low, step, v))
			t.most = max(t.most, math.Abs(float64(t.contributes[c])))
			t.signed = t.signed || t.contributes[c] < 0
		}
		out = append(out, t)
	}
	return out
}

// fewAllowed tells whether the rows that may be hits are compared sooner than their lists are read.
func (s *search) fewAllowed() bool {
	if s.p.Allowed == nil {
		return false
	}
	postings := uint64(0)
	for _, t := range s.terms {
		postings += s.x.lists[t.list+1] - s.x.lists[t.list]
	}
	perRow := uint64(len(s.q.Index)) + uint64(len(s.x.indices))/max(uint64(len(s.x.positions)), 1)
	return uint64(s.p.AllowedCount)*perRow < postings
}

// ends tells whether a range takes in rows without a common element, so that it is as large as the table.
func (s *search) ends() bool {
	return s.p.Ranged && (s.x.metric == vec.MetricDot && s.p.Within > 0 || s.x.metric == vec.MetricCosine && s.p.Within > 1)
}

func (s *search) allowed(row uint32) bool {
	if s.p.Allowed == nil {
		return true
	}
	pos := s.x.positions[row]
	return int(pos>>6) < len(s.p.Allowed) && s.p.Allowed[pos>>6]>>(pos&63)&1 != 0
}

// offer compares a row in full and keeps it when it is among the nearest.
func (s *search) offer(row uint32) {
	s.work.Rows++
	h := hit{s.x.distance(s.q, row), row}
	switch {
	case !(h.d < math.Inf(1)): // no number, or too far for one
	case s.p.Ranged && h.d >= s.p.Within:
	case len(s.best) < s.p.K:
		if s.best = append(s.best, h); len(s.best) == s.p.K {
			for i := len(s.best)/2 - 1; i >= 0; i-- {
				s.sink(i)
			}
			s.worst = min(s.worst, s.best[0].d)
		}
	case compare(h, s.best[0]) < 0:
		s.best[0] = h
		s.sink(0)
		s.worst = min(s.worst, s.best[0].d)
	}
}

func (s *search) full() bool { return len(s.best) == s.p.K }

// sink brings the hit at i down to its place in the heap.
func (s *search) sink(i int) {
	b := s.best
	for {
		k := 2*i + 1
		if k >= len(b) {
			return
		}
		if k+1 < len(b) && compare(b[k+1], b[k]) > 0 {
			k++
		}
		if compare(b[k], b[i]) <= 0 {
			return
		}
		b[i], b[k] = b[k], b[i]
		i = k
	}
}

func (s *search) canceled() error {
	if err := s.ctx.Err(); err != nil {
		return errs.Wrap(errs.Canceled, "sparse.search", err)
	}
	return nil
}

// scan compares all rows that may be hits.
func (s *search) scan() error {
	for row := range uint32(len(s.x.positions)) {
		if row%1024 == 0 {
			if err := s.canceled(); err != nil {
				return err
			}
		}
		if s.allowed(row) {
			s.offer(row)
		}
	}
	return nil
}

// room is what a walk needs.
type room struct {
	sums   [window]float32 // of each row of the window: what it gains at most, negative
	places [window]uint32
	sorted []candidate
	top    []candidate
	active []*term
}

type candidate struct {
	key   float32
	place uint32
}

var rooms = sync.Pool{New: func() any { return new(room) }}

// walk offers the rows that gain something by the elements they have in common with the query, and may be hits.
func (s *search) walk() error {
	r := rooms.Get().(*room)
	defer rooms.Put(r)
	// Two sums of the same numbers in other orders, in float32, differ by less than this share of what they add up. By
	// cosine that is at most 1, and the length is a sum too.
	for i := range s.terms {
		s.slack += s.terms[i].most
		if s.terms[i].signed {
			s.floor = -1
		}
	}
	s.slack *= float64(len(s.q.Index)+16) * 0x1p-22
	if s.x.metric == vec.MetricCosine {
		s.slack += float64(len(s.q.Index)+s.x.longest+16) * 0x1p-22
	}
	s.floor *= s.slack // where gains cancel out, nothing may be a little in truth
	for {
		next := uint32(math.MaxUint32)
		for i := range s.terms {
			if t := &s.terms[i]; t.block < t.end {
				next = min(next, s.x.windows[t.block])
			}
		}
		if next == math.MaxUint32 {
			return nil
		}
		if err := s.canceled(); err != nil {
			return err
		}
		r.active = r.active[:0]
		for i := range s.terms {
			t := &s.terms[i]
			if t.block == t.end || s.x.windows[t.block] != next {
				continue
			}
			bound := s.x.bounds[2*t.block+1]
			if t.weight < 0 {
				bound = s.x.bounds[2*t.block]
			}
			t.worth = max(0, float64(t.contributes[bound]))
			r.active = append(r.active, t)
		}
		s.window(next, r)
		for _, t := range r.active {
			t.from = s.x.lists[t.list] + uint64(s.x.ends[t.block])
			t.block++
		}
	}
}

// need is what a row must gain to be a hit, where square is its squared length, or less than it. Rows that gain nothing are
// left to rest.
func (s *search) need(square float64) float64 {
	switch s.x.metric {
	case vec.MetricL2:
		sum := s.square + square
		// The distance is added up in float32 too.
		sum -= sum * float64(len(s.q.Index)+s.x.longest+16) * 0x1p-22
		return max(0, (sum-s.worst)/2)
	case vec.MetricCosine:
		return max(0, 1-s.worst)
	}
	return max(0, -s.worst)
}

// window looks at one window.
func (s *search) window(number uint32, r *room) {
	x := s.x
	least := 0.0
	if x.metric == vec.MetricL2 {
		least = float64(x.least[number])
	}
	need := s.need(least) - s.slack
	slices.SortFunc(r.active, func(a, b *term) int { return cmp.Compare(a.worth, b.worth) })
	// Rows that are in the first lists alone gain too little: those lists are looked at last, for single rows.
	single, idle := 0, 0.0
	for single < len(r.active) && idle+r.active[single].worth <= need {
		idle += r.active[single].worth
		single++
	}
	if single == len(r.active) {
		return
	}
	clear(r.sums[:])
	for _, t := range r.active[single:] {
		s.add(t, r)
	}
	bound := max(need-idle, s.floor)
	places := r.places[:kernel.Select(r.sums[:], float32(-bound+math.Abs(bound)*0x1p-22), r.places[:])]
	for i := single - 1; i >= 0 && len(places) > 0; i-- {
		t := r.active[i]
		idle -= t.worth
		s.addTo(t, r, places)
		bound := max(need-idle, s.floor)
		most := float32(-bound + math.Abs(bound)*0x1p-22)
		if len(places) > window/16 { // the others gain too little all the same
			places = r.places[:kernel.Select(r.sums[:], most, r.places[:])]
			continue
		}
		kept := 0
		for _, p := range places {
			if r.sums[p] < most {
				places[kept] = p
				kept++
			}
		}
		places = places[:kept]
	}
	r.sorted = r.sorted[:0]
	first := number << windowBits
	for _, p := range places {
		row := first + p
		if int(row) < len(x.positions) && s.mayBe(row, r.sums[p]) && s.allowed(row) {
			r.sorted = append(r.sorted, candidate{s.key(row, r.sums[p]), p})
		}
	}
	// The best first, so that the bound becomes sharp soon.
	if !s.full() && len(r.sorted) > 4*s.p.K {
		s.fill(first, r)
	}
	slices.SortFunc(r.sorted, candidates)
	for _, c := range r.sorted {
		if row := first + c.place; s.mayBe(row, r.sums[c.place]) {
			s.offer(row)
		}
	}
}

// mayBe tells whether a row may be a hit, by its sum.
func (s *search) mayBe(row uint32, sum float32) bool {
	square := 0.0
	if s.x.metric == vec.MetricL2 {
		square = float64(s.x.squares[row])
	}
	return s.slack-float64(sum) >= s.need(square)
}

// key orders rows by what their distances are at least.
func (s *search) key(row uint32, sum float32) float32 {
	if s.x.metric == vec.MetricL2 {
		return sum + s.x.squares[row]/2
	}
	return sum
}

// fill offers the K best candidates of a window, and leaves those of the others that may be hits yet.
func (s *search) fill(first uint32, r *room) {
	k := s.p.K
	r.top = r.top[:0]
	bound := float32(math.Inf(1))
	cut := func() {
		slices.SortFunc(r.top, candidates)
		if len(r.top) > k {
			r.top = r.top[:k]
			bound = r.top[k-1].key
		}
	}
	for _, c := range r.sorted {
		if c.key >= bound {
			continue
		}
		if r.top = append(r.top, c); len(r.top) == 2*k+64 {
			cut()
		}
	}
	cut()
	for _, c := range r.top {
		s.offer(first + c.place)
		r.sums[c.place] = float32(math.Inf(1)) // once is enough
	}
	kept := r.sorted[:0]
	for _, c := range r.sorted {
		if s.mayBe(first+c.place, r.sums[c.place]) {
			kept = append(kept, c)
		}
	}
	r.sorted = kept
}

// candidates orders them, the best first.
func candidates(a, b candidate) int {
	return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.place, b.place))
}

// add adds a block of a list to the sums.
func (s *search) add(t *term, r *room) {
	end := s.x.lists[t.list] + uint64(s.x.ends[t.block])
	rows, codes := s.x.rows[t.from:end], s.x.codes[t.from:end]
	s.work.Postings += int64(len(rows))
	codes = codes[:len(rows)]
	sums, table := &r.sums, &t.contributes
	for i, p := range rows {
		sums[p&(window-1)] -= table[codes[i]]
	}
}

// addTo adds a block to the sums of some rows, which ascend.
func (s *search) addTo(t *term, r *room, places []uint32) {
	end := s.x.lists[t.list] + uint64(s.x.ends[t.block])
	rows, codes := s.x.rows[t.from:end], s.x.codes[t.from:end]
	if len(places)*(bits.Len(uint(len(rows)))+2) > len(rows) {
		s.add(t, r)
		return
	}
	s.work.Postings += int64(len(places))
	at := 0
	for _, p := range places {
		i, found := slices.BinarySearch(rows[at:], uint16(p))
		if at += i; found {
			r.sums[p] -= t.contributes[codes[at]]
		}
	}
}

// rest offers the rows that gain nothing, as long as these may be hits.
func (s *search) rest() error {
	x := s.x
	if s.p.Ranged && x.metric != vec.MetricL2 {
		return nil // they are beyond it
	}
	inside := make(map[uint32]bool, len(s.best))
	for _, h := range s.best {
		inside[h.row] = true
	}
	least := 0.0 // the distance of such a row
	if x.metric == vec.MetricCosine {
		least = 1
	}
	for i := range uint32(len(x.positions)) {
		if i%1024 == 0 {
			if err := s.canceled(); err != nil {
				return err
			}
		}
		row := i
		if x.metric == vec.MetricL2 {
			row = x.order[i]
			sum := s.square + float64(x.squares[row])
			least = sum - sum*float64(len(s.q.Index)+x.longest+16)*0x1p-22
			if least > s.worst || s.p.Ranged && least >= s.p.Within {
				return nil
			}
		} else if s.full() && compare(hit{least, row}, s.best[0]) > 0 {
			return nil
		}
		if !inside[row] && s.allowed(row) {
			s.offer(row)
		}
	}
	return nil
}

package segment

import (
	"context"
	"math"
	"math/bits"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/best"
	"github.com/overlakedb/overlake/internal/index/bm25/posting"
	"github.com/overlakedb/overlake/internal/row"
)

// Clause is one term of a flat query.
type Clause struct {
	Field  int
	Term   posting.Term // as Lookup of the same reader gave it; one without rows matches nothing
	Weight float32      // similarity.Weight; finite and not negative
	Repeat int          // how often its score is added, and how many clauses it stands for; 0 means once
}

// MaxRepeat bounds Clause.Repeat.
const MaxRepeat = 1 << 20

// Phrase is terms at fixed distances, or near them.
type Phrase struct {
	Field   int
	Terms   []posting.Term
	Offsets []int // the place of each term; nil: one after another
	Slop    int   // by how much the terms may be moved, all together, as Lucene counts it
	Weight  float32
}

// Query is a flat query: clauses, or one phrase.
type Query struct {
	Clauses  []Clause
	All      bool    // every clause must match
	MinMatch int     // where All is not set: how many clauses must match, repeats counted; 0 means one
	Phrase   *Phrase // instead of clauses

	// Norms are inv of package similarity for each field that the query uses, by the statistics that count.
	Norms []*[256]float32
}

// Filter is a set of rows of a segment that may be hits. It is made once and used by any number of searches.
type Filter struct {
	words []uint64
	list  []uint32 // of few rows
	count int64
}

// sparseRows is the share of rows, one in so many, below which a filter is a list too.
const sparseRows = 64

// NewFilter makes a filter of a set of rows; those beyond the segment's are left out.
func NewFilter(b *row.Bitmap, rows uint32) *Filter {
	f := &Filter{words: b.Words(int64(rows)), count: b.CountRange(0, int64(rows))}
	if f.count*sparseRows <= int64(rows) {
		f.list = make([]uint32, 0, f.count)
		for p := range b.All() {
			if p >= int64(rows) {
				break
			}
			f.list = append(f.list, uint32(p))
		}
	}
	return f
}

// FilterOf makes a filter of a dense bit array of a segment with so many rows, as row.Bitmap.Words gives one. The words are
// kept.
func FilterOf(words []uint64, rows uint32) *Filter {
	f := &Filter{words: words}
	for _, w := range words {
		f.count += int64(bits.OnesCount64(w))
	}
	if f.count*sparseRows <= int64(rows) {
		f.list = make([]uint32, 0, f.count)
		for i, w := range words {
			for ; w != 0; w &= w - 1 {
				f.list = append(f.list, uint32(i<<6+bits.TrailingZeros64(w)))
			}
		}
	}
	return f
}

// Len is the number of rows.
func (f *Filter) Len() int64 { return f.count }

func (f *Filter) has(r uint32) bool { return f.words[r>>6]>>(r&63)&1 != 0 }

// Collector is what searches of one part after another have found. Parts are searched in the order of their numbers.
type Collector struct {
	Top *best.Rows

	// Track is up to how many hits are counted exactly; -1 means all. Beyond, rows that cannot be among the best may be
	// left out of the count.
	Track int64
	Hits  int64 // matching rows seen so far
	Lower bool  // there may be more
}

// counting tells whether every matching row must still be counted.
func (c *Collector) counting() bool { return c.Track < 0 || c.Hits <= c.Track }

// search is one under way. It is kept for the next one, with all its room.
type search struct {
	ctx     context.Context
	r       *Reader
	filter  *Filter
	c       *Collector
	part    uint32
	clauses []*clause // in the order of the query
	lists   []*list
	need    int     // of MinMatch
	ordered bool    // scores must be added in the order of the clauses
	counts  bool    // every matching row must still be counted
	known   int64   // hits that there are for certain, together with those before
	floor   float32 // as many rows as are wanted reach it

	window
	conjunction
	phrases
	sorted   []*clause
	requests []openRequest
}

var searches = sync.Pool{New: func() any { return new(search) }}

// Best finds the best rows of the segment, which is the given part for the collector, and counts. A nil filter allows all
// rows. Where the segment is not held in memory it takes one round of reads.
func (r *Reader) Best(ctx context.Context, q *Query, f *Filter, part uint32, c *Collector) (err error) {
	if err := r.checkQuery(q, f); err != nil {
		return err
	}
	s := searches.Get().(*search)
	s.ctx, s.r, s.filter, s.part, s.c = ctx, r, f, part, c
	defer func() {
		if err == nil { // else sums may be left in the windows
			s.release()
		}
	}()
	defer guard("segment.search", &err)()
	return s.best(q)
}

// best searches.
func (s *search) best(q *Query) error {
	f := s.filter
	if f != nil && f.count == 0 {
		return nil
	}
	if q.Phrase != nil {
		return s.phrase(q)
	}
	s.need, s.floor = max(q.MinMatch, 1), float32(math.Inf(-1))
	all := q.All
	var present []Clause
	for _, c := range q.Clauses {
		c.Repeat = max(c.Repeat, 1)
		if c.Term.DocFreq > 0 {
			present = append(present, c)
		} else if q.All {
			return nil
		}
	}
	reach := 0
	for _, c := range present {
		reach += c.Repeat
	}
	if len(present) == 0 || !all && reach < s.need {
		return nil
	}
	if !all && s.need == reach {
		all = true // what is there must all match
	}
	if err := s.open(q, present); err != nil {
		return err
	}
	switch {
	case f != nil && f.list != nil && f.count*2 < s.shortest(all):
		return s.byFilter(all)
	case len(present) == 1:
		return s.single()
	case all:
		return s.all()
	}
	return s.any()
}

// checkQuery refuses what has no meaning.
func (r *Reader) checkQuery(q *Query, f *Filter) error {
	const op = "segment.search"
	if f != nil && len(f.words) != (int(r.head.Rows)+63)/64 {
		return errs.Newf(errs.Invalid, op, "a filter of %d words for %d rows", len(f.words), r.head.Rows)
	}
	check := func(field int, weight float32) error {
		if field < 0 || field >= len(r.fields) || field >= len(q.Norms) || q.Norms[field] == nil {
			return errs.Newf(errs.Invalid, op, "field %d of %d, with norms of %d", field, len(r.fields), len(q.Norms))
		}
		if !(weight >= 0) || weight > math.MaxFloat32 {
			return errs.Newf(errs.Invalid, op, "a weight of %v", weight)
		}
		return nil
	}
	if p := q.Phrase; p != nil {
		if len(q.Clauses) > 0 || len(p.Terms) == 0 || p.Offsets != nil && len(p.Offsets) != len(p.Terms) || p.Slop < 0 {
			return errs.New(errs.Invalid, op, "a query is clauses or one phrase, which has terms, a place for each and no negative slop")
		}
		for _, o := range p.Offsets {
			if o < 0 || o > math.MaxInt32/2 {
				return errs.Newf(errs.Invalid, op, "place %d in a phrase", o)
			}
		}
		return check(p.Field, p.Weight)
	}
	for _, c := range q.Clauses {
		if err := check(c.Field, c.Weight); err != nil {
			return err
		}
		if c.Repeat < 0 || c.Repeat > MaxRepeat {
			return errs.Newf(errs.Invalid, op, "a clause that is repeated %d times", c.Repeat)
		}
	}
	return nil
}

func (s *search) release() {
	s.ctx, s.r, s.filter, s.c = nil, nil, nil, nil
	for _, c := range s.clauses {
		c.lens, c.inv = nil, nil
	}
	for _, l := range s.lists {
		l.forget()
	}
	s.clauses = s.clauses[:0]
	if len(s.lists) > keptLists {
		s.lists, s.clauses, s.sorted, s.joined, s.conjunction.freqs = nil, nil, nil, nil, nil
	}
	searches.Put(s)
}

// keptLists is for how many lists room is kept.
const keptLists = 64

// forget drops what belongs to the segment.
func (l *list) forget() {
	l.body, l.lasts, l.ends, l.before, l.worths, l.widths, l.set, l.freqs = nil, nil, nil, nil, nil, nil, nil, nil
	l.pos.packed, l.pos.ends, l.pos.widths = nil, nil, nil
}

// room makes n lists ready.
func (s *search) room(n int) {
	for len(s.lists) < n {
		s.lists = append(s.lists, new(list))
	}
}

// open opens the lists of clauses, and what scores them.
func (s *search) open(q *Query, clauses []Clause) error {
	s.room(len(clauses))
	s.requests = s.requests[:0]
	for _, c := range clauses {
		s.requests = append(s.requests, openRequest{c.Field, c.Term, false})
	}
	if err := s.load(); err != nil {
		return err
	}
	for i, c := range clauses {
		if err := s.addClause(i, c.Field, q.Norms[c.Field], c.Weight, c.Repeat); err != nil {
			return err
		}
	}
	return nil
}

// addClause adds the clause of list i. The room is that of a search before where there is one.
func (s *search) addClause(i, field int, inv *[256]float32, weight float32, repeat int) error {
	n := len(s.clauses)
	if n < cap(s.clauses) {
		s.clauses = s.clauses[:n+1]
	} else {
		s.clauses = append(s.clauses, nil)
	}
	if s.clauses[n] == nil {
		s.clauses[n] = new(clause)
	}
	c := s.clauses[n]
	c.ord = n
	// Most queries have one field.
	for _, o := range s.clauses[:n] {
		if o.field == field {
			c.lens, c.inv, c.ratio, c.greatest, c.maxFreq, c.field = o.lens, o.inv, o.ratio, o.greatest, o.maxFreq, field
			c.prepare(s.lists[i], weight, repeat, s.r.fields[field].MaxLength)
			return nil
		}
	}
	lens, err := s.r.Lengths(s.ctx, field)
	if err != nil {
		return err
	}
	f := &s.r.fields[field]
	c.lens, c.inv, c.maxFreq, c.field = lens, inv, f.MaxFreq, field
	c.ratio, c.greatest = f.ratio(inv)
	c.prepare(s.lists[i], weight, repeat, f.MaxLength)
	return nil
}

// load reads the lists of the requests and the lengths of their fields, in one round.
func (s *search) load() error {
	lists := s.lists[:len(s.requests)]
	if s.r.resident {
		return s.r.openLists(s.ctx, s.requests, lists)
	}
	g, ctx := errgroup.WithContext(s.ctx)
	g.Go(func() error { return s.r.openLists(ctx, s.requests, lists) })
	g.Go(func() error { _, err := s.r.section(ctx, lengthsSection); return err })
	return g.Wait()
}

// shortest is how many postings a search without the filter would look at.
func (s *search) shortest(all bool) int64 {
	n := s.clauses[0].list.term.DocFreq
	for _, c := range s.clauses[1:] {
		if all {
			n = min(n, c.list.term.DocFreq)
		} else {
			n += c.list.term.DocFreq
		}
	}
	return n
}

// byFilter looks at each row of a small filter.
func (s *search) byFilter(all bool) error {
	need := s.need
	if all {
		need = 0
		for _, c := range s.clauses {
			need += int(c.repeat)
		}
	}
	live := slices.Clone(s.clauses)
	for n, r := range s.filter.list {
		if n%256 == 0 {
			if err := canceled(s.ctx); err != nil {
				return err
			}
		}
		found, sum := 0, 0.0
		for _, c := range live {
			freq, err := c.at(r)
			if err != nil {
				return err
			}
			if freq > 0 {
				found += int(c.repeat)
				sum = c.add(sum, c.score(freq, r))
			} else if all {
				break
			}
		}
		if found >= need {
			s.c.Hits++
			s.c.Top.Offer(s.part, r, float32(sum))
		}
	}
	return nil
}

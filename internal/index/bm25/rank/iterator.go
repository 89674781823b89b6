package rank

import (
	"math/bits"
	"slices"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/posting"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
)

// end is the row behind the last.
const end int64 = int64(posting.End)

// iterator goes over rows that may match, in order. It belongs to one goroutine.
type iterator interface {
	// row is where it stands: -1 before the first advance, end behind the last row.
	row() int64

	// advance moves to the first row that is not less than target, unless it is there or further already, and gives it.
	advance(target int64) int64

	// confirm reports whether the row does match. It must be asked before score, and may be asked twice.
	confirm() bool

	// score is that of the row.
	score() float32

	// cost is about how many rows there are.
	cost() int64

	// err is what ended the iteration early.
	err() error
}

// termIterator goes over the postings of one term.
type termIterator struct {
	c       posting.Cursor
	at      int64
	n       int64
	lengths []byte
	inv     *[256]float32
	weight  float32
	failed  error
}

func (t *termIterator) row() int64 { return t.at }

func (t *termIterator) advance(target int64) int64 {
	if t.at >= target {
		return t.at
	}
	if target == t.at+1 && t.at >= 0 {
		t.at = int64(t.c.Next())
	} else {
		t.at = int64(t.c.Advance(uint32(target)))
	}
	if t.at >= int64(len(t.lengths)) && t.at != end {
		t.failed = beyond(t.at, len(t.lengths))
		t.at = end
	}
	return t.at
}

// beyond is the error of a posting whose row is not one of the source.
func beyond(at int64, rows int) error {
	return errs.Newf(errs.Corrupt, "rank.search", "a posting is of row %d of %d", at, rows)
}

func (t *termIterator) confirm() bool { return true }
func (t *termIterator) cost() int64   { return t.n }

func (t *termIterator) err() error {
	if t.failed != nil {
		return t.failed
	}
	return t.c.Err()
}

func (t *termIterator) score() float32 {
	return similarity.Score(t.weight, float32(t.c.Freq()), t.inv[t.lengths[t.at]])
}

// synonymIterator goes over the postings of several terms as if they were one.
type synonymIterator struct {
	disjunction
	lengths []byte
	inv     *[256]float32
	weight  float32
}

func (s *synonymIterator) score() float32 {
	freq := uint32(0)
	for _, i := range s.matching() {
		freq += s.its[i].(*termIterator).c.Freq()
	}
	return similarity.Score(s.weight, float32(freq), s.inv[s.lengths[s.at]])
}

// bitIterator goes over a set of rows.
type bitIterator struct {
	words []uint64
	at    int64
	n     int64
	value float32
}

func (b *bitIterator) row() int64     { return b.at }
func (b *bitIterator) confirm() bool  { return true }
func (b *bitIterator) score() float32 { return b.value }
func (b *bitIterator) cost() int64    { return b.n }
func (b *bitIterator) err() error     { return nil }

func (b *bitIterator) advance(target int64) int64 {
	if b.at >= target {
		return b.at
	}
	i := target >> 6
	if i >= int64(len(b.words)) {
		b.at = end
		return end
	}
	w := b.words[i] >> (target & 63) << (target & 63)
	for w == 0 {
		if i++; i >= int64(len(b.words)) {
			b.at = end
			return end
		}
		w = b.words[i]
	}
	b.at = i<<6 + int64(bits.TrailingZeros64(w))
	return b.at
}

// bits makes an iterator of a set of n rows.
func (r *run) bits(words []uint64, n int64) (*bitIterator, error) {
	if err := r.reserve(int64(len(words)) * 8); err != nil {
		return nil, err
	}
	return &bitIterator{words: words, at: -1, n: n}, nil
}

// allIterator goes over all rows of a source.
type allIterator struct{ at, rows int64 }

func (a *allIterator) row() int64     { return a.at }
func (a *allIterator) confirm() bool  { return true }
func (a *allIterator) score() float32 { return 1 }
func (a *allIterator) cost() int64    { return a.rows }
func (a *allIterator) err() error     { return nil }

func (a *allIterator) advance(target int64) int64 {
	if a.at < target {
		if a.at = target; a.at >= a.rows {
			a.at = end
		}
	}
	return a.at
}

// lengthIterator goes over the rows that have a length.
type lengthIterator struct {
	allIterator
	lengths []byte
	n       int64
}

func (l *lengthIterator) cost() int64 { return l.n }

func (l *lengthIterator) advance(target int64) int64 {
	for l.allIterator.advance(target) != end && l.lengths[l.at] == 0 {
		target = l.at + 1
	}
	return l.at
}

// constantIterator gives every row of another one score.
type constantIterator struct {
	iterator
	value float32
}

func (c *constantIterator) score() float32 { return c.value }

// conjunction goes over the rows that every one of its iterators matches.
type conjunction struct {
	its     []iterator // the cheapest first
	scoring []iterator // those that score, in the order of the clauses
	at      int64
}

func newConjunction(its, scoring []iterator) *conjunction {
	a := &conjunction{its: slices.Clone(its), scoring: scoring, at: -1}
	slices.SortStableFunc(a.its, func(x, y iterator) int {
		switch {
		case x.cost() < y.cost():
			return -1
		case x.cost() > y.cost():
			return 1
		}
		return 0
	})
	return a
}

func (a *conjunction) row() int64  { return a.at }
func (a *conjunction) cost() int64 { return a.its[0].cost() }

func (a *conjunction) advance(target int64) int64 {
	if a.at >= target {
		return a.at
	}
	lead := a.its[0]
	target = lead.advance(target)
next:
	for target != end {
		for _, it := range a.its[1:] {
			if at := it.advance(target); at > target {
				target = lead.advance(at)
				continue next
			}
		}
		break
	}
	a.at = target
	return target
}

func (a *conjunction) confirm() bool {
	for _, it := range a.its {
		if !it.confirm() {
			return false
		}
	}
	return true
}

func (a *conjunction) score() float32 {
	sum := 0.0
	for _, it := range a.scoring {
		sum += float64(it.score())
	}
	return float32(sum)
}

func (a *conjunction) err() error { return firstError(a.its) }

func firstError(its []iterator) error {
	for _, it := range its {
		if err := it.err(); err != nil {
			return err
		}
	}
	return nil
}

// exclusion leaves out the rows of another iterator.
type exclusion struct {
	iterator
	not iterator
}

func (w *exclusion) confirm() bool {
	at := w.row()
	return w.iterator.confirm() && (w.not.advance(at) != at || !w.not.confirm())
}

func (w *exclusion) err() error { return firstError([]iterator{w.iterator, w.not}) }

// optional adds the score of another iterator where it matches too.
type optional struct {
	iterator
	may iterator
}

func (o *optional) score() float32 {
	s, at := o.iterator.score(), o.row()
	if o.may.advance(at) == at && o.may.confirm() {
		s += o.may.score()
	}
	return s
}

func (o *optional) err() error { return firstError([]iterator{o.iterator, o.may}) }

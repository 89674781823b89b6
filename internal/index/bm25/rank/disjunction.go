package rank

import (
	"math/bits"
	"slices"
)

// disjunction goes over the rows that at least min of its iterators match.
//
// It works in one of two ways. While it is led to rows by another iterator, a heap orders the iterators by row, and a score
// is computed when it is asked for. While it is asked for one row after the other, it takes a window of rows at once: each
// iterator adds its scores to all rows of the window, one iterator after the other, so that their order is that of the
// clauses, and no order of rows has to be kept among the iterators.
type disjunction struct {
	its  []iterator
	min  int
	at   int64
	best bool    // the score is that of the best, with tie times the others (Lucene's DisjunctionMaxScorer); else the sum
	tie  float32 // of best
	led  bool    // no windows

	heap  []int32
	stale bool  // the heap is not in order
	found []int // what matches the row, in the order of the clauses
	known int64 // the row that found is of

	steps int // rows asked for one after the other
	win   *window
}

// windowRows is the number of rows of a window, and windowAfter the number of rows asked for one after the other that make
// it worth its while.
const (
	windowRows  = 2048
	windowAfter = 8
)

// window holds the rows from ≤ row < to that match, and their scores.
type window struct {
	from, to int64
	rows     [windowRows / 64]uint64
	clauses  [windowRows]uint32  // that match
	sum      [windowRows]float64 // of all, or of all but the best
	high     [windowRows]float32 // the best
}

func newDisjunction(its []iterator, least int) disjunction {
	a := disjunction{its: its, min: max(least, 1), at: -1, known: -1}
	a.heap = make([]int32, len(its))
	for i := range its {
		a.heap[i] = int32(i)
	}
	return a
}

func (a *disjunction) row() int64 { return a.at }

func (a *disjunction) cost() int64 {
	n := int64(0)
	for _, it := range a.its {
		n += it.cost()
	}
	return n
}

func (a *disjunction) less(x, y int32) bool { return a.its[x].row() < a.its[y].row() }

func (a *disjunction) down(i int) {
	for {
		least := i
		for _, c := range [2]int{2*i + 1, 2*i + 2} {
			if c < len(a.heap) && a.less(a.heap[c], a.heap[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		a.heap[i], a.heap[least] = a.heap[least], a.heap[i]
		i = least
	}
}

func (a *disjunction) advance(target int64) int64 {
	if a.at >= target {
		return a.at
	}
	if target == a.at+1 {
		a.steps++
	} else {
		a.steps = 0
	}
	if w := a.win; w != nil && w.to > 0 {
		if target < w.to {
			if a.at = w.next(target, a.min); a.at != end {
				return a.at
			}
			target = w.to
		}
		w.to = 0
	}
	if !a.led && a.steps >= windowAfter {
		return a.fill(target)
	}
	if a.stale {
		for i := len(a.heap)/2 - 1; i >= 0; i-- {
			a.down(i)
		}
		a.stale = false
	}
	for {
		for {
			top := a.its[a.heap[0]]
			if top.row() >= target {
				break
			}
			top.advance(target)
			a.down(0)
		}
		a.at = a.its[a.heap[0]].row()
		if a.min == 1 || a.at == end || a.here(0, a.min) >= a.min {
			return a.at
		}
		target = a.at + 1
	}
}

// fill takes windows from a row on until one has a row that matches.
func (a *disjunction) fill(target int64) int64 {
	if a.win == nil {
		a.win = new(window)
	}
	w := a.win
	a.stale = true
	for {
		w.from = end
		for _, it := range a.its {
			w.from = min(w.from, it.advance(target))
		}
		if w.from == end {
			w.to, a.at = 0, end
			return end
		}
		w.to = min(w.from+windowRows, end)
		clear(w.rows[:])
		for _, it := range a.its {
			for at := it.row(); at < w.to; at = it.advance(at + 1) {
				if !it.confirm() {
					continue
				}
				i, s := at-w.from, it.score()
				if bit := uint64(1) << (i & 63); w.rows[i>>6]&bit == 0 {
					w.rows[i>>6] |= bit
					w.clauses[i], w.sum[i], w.high[i] = 0, 0, 0
				}
				w.clauses[i]++
				switch {
				case !a.best:
					w.sum[i] += float64(s)
				case s >= w.high[i]:
					w.sum[i] += float64(w.high[i])
					w.high[i] = s
				default:
					w.sum[i] += float64(s)
				}
			}
		}
		if a.at = w.next(w.from, a.min); a.at != end {
			return a.at
		}
		target = w.to
	}
}

// next is the first row of the window that is not less than target and that enough clauses match; end where there is none.
func (w *window) next(target int64, least int) int64 {
	for i := target - w.from; i < windowRows; i++ {
		rest := w.rows[i>>6] >> (i & 63)
		if rest == 0 {
			i |= 63
			continue
		}
		if i += int64(bits.TrailingZeros64(rest)); int(w.clauses[i]) >= least {
			return w.from + i
		}
	}
	return end
}

// inside reports whether the row is one of the window.
func (a *disjunction) inside() bool { return a.win != nil && a.at < a.win.to }

// here counts the iterators at the row below a place of the heap, up to enough.
func (a *disjunction) here(i, enough int) int {
	if i >= len(a.heap) || enough <= 0 || a.its[a.heap[i]].row() != a.at {
		return 0
	}
	n := 1 + a.here(2*i+1, enough-1)
	return n + a.here(2*i+2, enough-n)
}

// gather appends the iterators at the row.
func (a *disjunction) gather(i int) {
	if i >= len(a.heap) || a.its[a.heap[i]].row() != a.at {
		return
	}
	if it := int(a.heap[i]); a.its[it].confirm() {
		a.found = append(a.found, it)
	}
	a.gather(2*i + 1)
	a.gather(2*i + 2)
}

// matching are the iterators that match the row, in the order of the clauses. It must not be asked inside a window.
func (a *disjunction) matching() []int {
	if a.known != a.at {
		a.found = a.found[:0]
		a.gather(0)
		slices.Sort(a.found)
		a.known = a.at
	}
	return a.found
}

func (a *disjunction) confirm() bool { return a.inside() || len(a.matching()) >= a.min }

func (a *disjunction) score() float32 {
	if a.inside() {
		i := a.at - a.win.from
		if a.best {
			return float32(float64(a.win.high[i]) + float64(a.win.sum[i]*float64(a.tie)))
		}
		return float32(a.win.sum[i])
	}
	sum, high := 0.0, float32(0)
	for _, i := range a.matching() {
		s := a.its[i].score()
		if a.best && s >= high {
			s, high = high, s
		}
		sum += float64(s)
	}
	if a.best {
		return float32(float64(high) + float64(sum*float64(a.tie)))
	}
	return float32(sum)
}

func (a *disjunction) err() error { return firstError(a.its) }

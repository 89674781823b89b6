package rank

import (
	"fmt"
	"math"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/primitive"
)

// functionWeight changes scores by functions of the row.
type functionWeight struct {
	q       *Query
	node    primitive.Function
	inner   weight
	filters []weight // nil: every row
	notFlat
}

func (w *functionWeight) constant() bool { return false }

func (w *functionWeight) open(r *run) (iterator, error) {
	inner, err := w.inner.open(r)
	if inner == nil || err != nil {
		return nil, err
	}
	f := &functionIterator{iterator: inner, w: w, r: r, known: -1}
	for _, x := range w.filters {
		var it iterator
		if x != nil {
			if it, err = x.open(r); err != nil {
				return nil, err
			}
			if it == nil {
				it = &allIterator{at: -1} // of no rows
			}
		}
		f.filters = append(f.filters, it)
	}
	return f, nil
}

type functionIterator struct {
	iterator
	w       *functionWeight
	r       *run
	filters []iterator
	known   int64
	value   float32
}

// confirm computes the score only where it may decide.
func (f *functionIterator) confirm() bool {
	if !f.iterator.confirm() {
		return false
	}
	return f.w.node.MinScore == nil || f.score() >= *f.w.node.MinScore
}

func (f *functionIterator) err() error {
	for _, it := range f.filters {
		if it != nil && it.err() != nil {
			return it.err()
		}
	}
	return f.iterator.err()
}

func (f *functionIterator) score() float32 {
	at := f.row()
	if f.known != at {
		f.known = at
		score := f.iterator.score()
		value, err := f.factor(at)
		if err == nil {
			f.value = f.w.node.BoostMode.Combine(score, value, f.w.node.MaxBoost)
			if f.value < 0 || f.value != f.value {
				err = errs.New(errs.Invalid, "rank.function", fmt.Sprintf("the score of a row becomes %v, which is not a number or negative", f.value))
			}
		}
		if err != nil && f.r.err == nil {
			f.r.err = err
		}
	}
	return f.value
}

// matches reports whether a function is for the row.
func (f *functionIterator) matches(i int, at int64) bool {
	it := f.filters[i]
	return it == nil || it.advance(at) == at && it.confirm()
}

// factor is the value of the functions together; 1 where none is for the row.
func (f *functionIterator) factor(at int64) (float64, error) {
	n := &f.w.node
	result, weights, found := 1.0, 0.0, false
	for i := range n.Functions {
		if !f.matches(i, at) {
			continue
		}
		v, weight, err := valueOf(&n.Functions[i], f.r.base+at, f.r.number)
		if err != nil {
			return 0, err
		}
		if !found {
			found = true
			result, weights = v, weight
			if n.ScoreMode == primitive.ScoreFirst {
				break
			}
			continue
		}
		weights += weight
		switch n.ScoreMode {
		case primitive.ScoreSum, primitive.ScoreAvg:
			result += v
		case primitive.ScoreMax:
			result = max(result, v)
		case primitive.ScoreMin:
			result = min(result, v)
		default:
			result = float64(result * v)
		}
	}
	if n.ScoreMode == primitive.ScoreAvg && found {
		if weights == 0 {
			return 1, nil
		}
		result /= weights
	}
	if n.ScoreMode == primitive.ScoreSum && found && weights == 0 {
		return 1, nil
	}
	return result, nil
}

// valueOf is the value of one function and its weight.
func valueOf(f *primitive.RowFunction, row int64, number primitive.Number) (value, weight float64, err error) {
	value, weight = 1, 1
	if f.Score != nil {
		if value, err = f.Score.Value(row, number); err != nil {
			return 0, 0, err
		}
	}
	if f.Weight != nil {
		weight = float64(*f.Weight)
		value = float64(value * weight)
	}
	if math.IsNaN(value) {
		return 0, 0, errs.New(errs.Invalid, "rank.function", "the value of a function is not a number")
	}
	return value, weight, nil
}

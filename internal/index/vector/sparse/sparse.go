// Package sparse answers: which sparse vectors are nearest?
//
// An index holds the vectors as they are, row after row (the copy), and for each dimension the rows that have an element
// there (a posting list). Rows are counted in windows of 8,192; a list is cut into blocks, one for each window that has rows
// of it. A posting is the place of the row in its window and a code of 8 bits, which says between which two numbers the
// element lies.
//
// A search goes from window to window. What the elements of the query add up to is bounded from above by the codes; the
// bounds of whole blocks tell which lists cannot make a hit alone, and these are looked at for the rows only that the others
// left (MaxScore: Turtle, Flood, "Query evaluation: strategies and optimizations", 1995; blocks with bounds of their own:
// Ding, Suel, "Faster top-k document retrieval using block-max indexes", 2011). Rows whose bound is good enough are compared
// in full, with the copy.
//
//	S1  Hits are exact: the K nearest by the distances that package vec computes, ascending, then by position.
//	S2  There are K hits whenever K rows may be hits. Rows that have no element in common with the query count too.
//	S3  Damaged bytes give wrong rows at worst, never a panic, once Open has taken them.
package sparse

import (
	"context"
	"math"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec"
)

// The sections. N rows have E elements in T dimensions; there are B blocks.
const (
	positionsSection section.Kind = 300 // uint32[N]: positions of the rows, ascending
	startsSection    section.Kind = 301 // uint64[N+1]: where the elements of each row begin
	indicesSection   section.Kind = 302 // uint32[E]: places, from 0, ascending in a row
	valuesSection    section.Kind = 303 // float32[E]

	// Without these in an index by l1.
	dimsSection    section.Kind = 310 // uint32[T]: dimensions with a list, ascending
	scalesSection  section.Kind = 311 // float32[2T]: the least element of a list, and the step of its codes
	listsSection   section.Kind = 312 // uint64[T+1]: where the postings of each list begin
	blocksSection  section.Kind = 313 // uint64[T+1]: where the blocks of each list begin
	windowsSection section.Kind = 314 // uint32[B]: window of a block, ascending in a list
	endsSection    section.Kind = 315 // uint32[B]: where a block ends, counted from the begin of its list
	boundsSection  section.Kind = 316 // uint8[2B]: the least and the largest code of a block
	rowsSection    section.Kind = 317 // uint16[E]: places of rows in their windows, ascending in a block
	codesSection   section.Kind = 318 // uint8[E]: the element is at most least + code*step, and at least one step less

	// Of an index by l2.
	squaresSection section.Kind = 320 // float32[N]: the squared length of each row
	orderSection   section.Kind = 321 // uint32[N]: the rows by their squared lengths, ascending, then by number
)

// window is the number of rows that are looked at together.
const (
	windowBits = 13
	window     = 1 << windowBits
)

// Index is an opened index. It is safe for concurrent use.
type Index struct {
	metric    vec.Metric
	dim       int
	positions []uint32
	starts    []uint64
	indices   []int32
	values    []float32
	longest   int // elements of a row at most

	dims    []uint32
	scales  []float32
	lists   []uint64
	blocks  []uint64
	windows []uint32
	ends    []uint32
	bounds  []byte
	rows    []uint16
	codes   []byte

	squares []float32
	order   []uint32
	least   []float32 // of squares, in each window
}

// Open opens the sections of an artifact whose positions are below rows, of vectors with dim elements.
func Open(ctx context.Context, f *section.File, metric vec.Metric, dim int, rows int64) (*Index, error) {
	if metric.OfBits() {
		return nil, errs.Newf(errs.Unsupported, "sparse.open", "sparse vectors have no distance %s", metric)
	}
	x := &Index{metric: metric, dim: dim}
	l := &loader{ctx: ctx, f: f}
	load(l, positionsSection, &x.positions)
	load(l, startsSection, &x.starts)
	load(l, indicesSection, &x.indices)
	load(l, valuesSection, &x.values)
	if metric != vec.MetricL1 {
		load(l, dimsSection, &x.dims)
		load(l, scalesSection, &x.scales)
		load(l, listsSection, &x.lists)
		load(l, blocksSection, &x.blocks)
		load(l, windowsSection, &x.windows)
		load(l, endsSection, &x.ends)
		load(l, boundsSection, &x.bounds)
		load(l, rowsSection, &x.rows)
		load(l, codesSection, &x.codes)
	}
	if metric == vec.MetricL2 {
		load(l, squaresSection, &x.squares)
		load(l, orderSection, &x.order)
	}
	if l.err != nil {
		return nil, l.err
	}
	if err := x.check(rows); err != nil {
		return nil, err
	}
	return x, nil
}

// loader keeps the first error.
type loader struct {
	ctx context.Context
	f   *section.File
	err error
}

func load[T section.Number](l *loader, kind section.Kind, into *[]T) {
	if l.err != nil {
		return
	}
	b, err := l.f.Load(l.ctx, kind)
	if err == nil {
		*into, err = section.View[T](b)
	}
	l.err = err
}

// check makes sure that no number leads out of its section, and that rows are those of vectors.
func (x *Index) check(rows int64) error {
	bad := func(format string, args ...any) error { return errs.Newf(errs.Corrupt, "sparse.open", format, args...) }
	n, e := len(x.positions), len(x.indices)
	for i, p := range x.positions {
		if int64(p) >= rows || i > 0 && p <= x.positions[i-1] {
			return bad("position %d of %d rows", p, rows)
		}
	}
	if len(x.values) != e || !ascend(x.starts, n, e) {
		return bad("the elements of %d rows are not where they should be", n)
	}
	for i := range n {
		x.longest = max(x.longest, int(x.starts[i+1]-x.starts[i]))
	}
	if x.metric == vec.MetricL1 {
		return nil
	}
	t, b := len(x.dims), len(x.windows)
	if len(x.scales) != 2*t || !ascend(x.lists, t, e) || !ascend(x.blocks, t, b) || len(x.ends) != b || len(x.bounds) != 2*b || len(x.rows) != e || len(x.codes) != e {
		return bad("the lists of %d dimensions are not where they should be", t)
	}
	for i := range t {
		if i > 0 && x.dims[i] <= x.dims[i-1] {
			return bad("dimension %d comes behind dimension %d", x.dims[i], x.dims[i-1])
		}
		for j, last := x.blocks[i], uint32(0); j < x.blocks[i+1]; j++ {
			if x.ends[j] <= last || j > x.blocks[i] && x.windows[j] <= x.windows[j-1] {
				return bad("block %d of dimension %d is not where it should be", j, x.dims[i])
			}
			last = x.ends[j]
			if j+1 == x.blocks[i+1] && uint64(last) != x.lists[i+1]-x.lists[i] {
				return bad("the blocks of dimension %d end early", x.dims[i])
			}
		}
		if x.blocks[i] == x.blocks[i+1] && x.lists[i] != x.lists[i+1] {
			return bad("dimension %d has no blocks", x.dims[i])
		}
	}
	for _, w := range x.windows {
		if int64(w)<<windowBits >= int64(n) {
			return bad("window %d of %d rows", w, n)
		}
	}
	if x.metric != vec.MetricL2 {
		return nil
	}
	if len(x.squares) != n || len(x.order) != n {
		return bad("%d lengths of %d rows", len(x.squares), n)
	}
	x.least = make([]float32, (n+window-1)>>windowBits)
	for i, s := range x.squares {
		if w := i >> windowBits; i&(window-1) == 0 || s < x.least[w] {
			x.least[w] = s
		}
		if !(s >= 0) || x.order[i] >= uint32(n) {
			return bad("row %d has the squared length %v, or is not in order", i, s)
		}
	}
	return nil
}

// ascend tells whether n pieces of so many elements begin and end where they may.
func ascend(starts []uint64, n, elements int) bool {
	if len(starts) != n+1 || starts[0] != 0 || starts[n] != uint64(elements) {
		return false
	}
	for i := range n {
		if starts[i] > starts[i+1] || starts[i+1]-starts[i] > math.MaxUint32 {
			return false
		}
	}
	return true
}

// Len is the number of vectors.
func (x *Index) Len() int { return len(x.positions) }

// Memory is what the index holds in bytes where it is not mapped.
func (x *Index) Memory() int64 {
	n := 12*int64(len(x.positions)) + 8*int64(len(x.indices))
	if x.metric != vec.MetricL1 {
		n += 28*int64(len(x.dims)) + 10*int64(len(x.windows)) + 3*int64(len(x.rows))
	}
	return n + 8*int64(len(x.squares))
}

// row is a vector of the copy.
func (x *Index) row(i uint32) vec.Sparse {
	from, to := x.starts[i], x.starts[i+1]
	return vec.Sparse{Dim: x.dim, Index: x.indices[from:to], Value: x.values[from:to]}
}

// distance is what a Hit has.
func (x *Index) distance(q *vec.Sparse, i uint32) float64 {
	r := x.row(i)
	switch x.metric {
	case vec.MetricL2:
		return float64(vec.SparseSquaredL2(q, &r))
	case vec.MetricL1:
		return vec.SparseL1(q, &r)
	case vec.MetricDot:
		return 0 - float64(vec.SparseDot(q, &r)) // no negative zero
	}
	return vec.SparseCosine(q, &r)
}

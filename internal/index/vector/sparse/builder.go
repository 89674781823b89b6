package sparse

import (
	"cmp"
	"math"
	"slices"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec"
)

// Builder gathers rows in memory. It is for one goroutine.
type Builder struct {
	metric    vec.Metric
	memory    int64
	positions []uint32
	starts    []uint64
	indices   []int32
	values    []float32
}

// NewBuilder begins an index that may hold so many bytes of memory.
func NewBuilder(metric vec.Metric, memory int64) *Builder {
	return &Builder{metric: metric, memory: memory, starts: []uint64{0}}
}

// Add takes a row: its elements are finite, and those of cosine have a length. Positions ascend. Exhausted means that there
// is no memory for it.
func (b *Builder) Add(position uint32, v *vec.Sparse) error {
	// An element takes 8 bytes, a posting 3; slices grow by a half. A row has two numbers of its own.
	if n := int64(len(b.indices) + len(v.Index)); 15*n+24*int64(len(b.positions)) > b.memory {
		return errs.With(errs.Newf(errs.Exhausted, "sparse.build", "%d elements of %d sparse vectors do not fit into %d bytes", n, len(b.positions)+1, b.memory),
			errs.Hint("give index builds more memory"))
	}
	b.positions = append(b.positions, position)
	b.indices = append(b.indices, v.Index...)
	b.values = append(b.values, v.Value...)
	b.starts = append(b.starts, uint64(len(b.indices)))
	return nil
}

// Write writes the index.
func (b *Builder) Write(w *section.Writer) error {
	write(w, positionsSection, b.positions)
	write(w, startsSection, b.starts)
	write(w, indicesSection, b.indices)
	write(w, valuesSection, b.values)
	if b.metric == vec.MetricL1 {
		return w.Err()
	}
	b.invert(w)
	if b.metric == vec.MetricL2 {
		squares, order := make([]float32, len(b.positions)), make([]uint32, len(b.positions))
		for i := range squares {
			squares[i], order[i] = b.square(i), uint32(i)
		}
		slices.SortFunc(order, func(i, j uint32) int { return cmp.Or(cmp.Compare(squares[i], squares[j]), cmp.Compare(i, j)) })
		write(w, squaresSection, squares)
		write(w, orderSection, order)
	}
	return w.Err()
}

func write[T section.Number](w *section.Writer, kind section.Kind, v []T) {
	w.Begin(kind)
	w.Write(section.Bytes(v))
}

func (b *Builder) square(i int) float32 {
	sum := float32(0)
	for _, x := range b.values[b.starts[i]:b.starts[i+1]] {
		sum += x * x
	}
	return sum
}

// list is a posting list while it is built.
type list struct {
	dim       int32
	low, high float32
	postings  uint64
	blocks    uint64
	last      int64  // window of the last row
	at, block uint64 // where the next posting and the next block go
	begin     uint64
	step      float32
	least     byte // codes of the block at work
	most      byte
}

// smallDims is up to how many dimensions lists are found by an array.
const smallDims = 1 << 22

// invert writes the posting lists.
func (b *Builder) invert(w *section.Writer) {
	var lists []list
	top := int32(-1)
	for _, d := range b.indices {
		top = max(top, d)
	}
	var small []int32 // number of a list, plus one
	large := map[int32]int32{}
	if top < smallDims {
		small = make([]int32, top+1)
	}
	find := func(d int32) *list {
		k := int32(0)
		if small != nil {
			k = small[d]
		} else {
			k = large[d]
		}
		if k == 0 {
			lists = append(lists, list{dim: d, low: math.MaxFloat32, high: -math.MaxFloat32, last: -1})
			if k = int32(len(lists)); small != nil {
				small[d] = k
			} else {
				large[d] = k
			}
		}
		return &lists[k-1]
	}
	b.each(func(row int, d int32, v float32) {
		l := find(d)
		l.low, l.high = min(l.low, v), max(l.high, v)
		l.postings++
		if k := int64(row >> windowBits); k != l.last {
			l.last = k
			l.blocks++
		}
	})
	slices.SortFunc(lists, func(a, b list) int { return cmp.Compare(a.dim, b.dim) })
	dims, scales := make([]uint32, len(lists)), make([]float32, 2*len(lists))
	begins, blocks := make([]uint64, len(lists)+1), make([]uint64, len(lists)+1)
	for i := range lists {
		l := &lists[i]
		if small != nil {
			small[l.dim] = int32(i + 1)
		} else {
			large[l.dim] = int32(i + 1)
		}
		l.last, l.begin, l.at, l.block = -1, begins[i], begins[i], blocks[i]
		dims[i] = uint32(l.dim)
		l.step = step(l.low, l.high)
		scales[2*i], scales[2*i+1] = l.low, l.step
		begins[i+1], blocks[i+1] = begins[i]+l.postings, blocks[i]+l.blocks
	}
	count := blocks[len(lists)]
	windows, ends, bounds := make([]uint32, count), make([]uint32, count), make([]byte, 2*count)
	rows, codes := make([]uint16, len(b.indices)), make([]byte, len(b.indices))
	end := func(l *list) { // of a block
		k := l.block - 1
		ends[k], bounds[2*k], bounds[2*k+1] = uint32(l.at-l.begin), l.least, l.most
	}
	b.each(func(row int, d int32, v float32) {
		l := find(d)
		c := encode(l.low, l.step, v)
		if k := int64(row >> windowBits); k != l.last {
			if l.last >= 0 {
				end(l)
			}
			windows[l.block] = uint32(k)
			l.last, l.least, l.most = k, c, c
			l.block++
		}
		rows[l.at], codes[l.at] = uint16(row&(window-1)), c
		l.at++
		l.least, l.most = min(l.least, c), max(l.most, c)
	})
	for i := range lists {
		end(&lists[i])
	}
	write(w, dimsSection, dims)
	write(w, scalesSection, scales)
	write(w, listsSection, begins)
	write(w, blocksSection, blocks)
	write(w, windowsSection, windows)
	write(w, endsSection, ends)
	write(w, boundsSection, bounds)
	write(w, rowsSection, rows)
	write(w, codesSection, codes)
}

// each calls f with what the lists hold of every element: of cosine, the element of a vector of length 1.
func (b *Builder) each(f func(row int, d int32, v float32)) {
	for i := range b.positions {
		scale := 1.0
		if b.metric == vec.MetricCosine {
			scale = 1 / math.Sqrt(float64(b.square(i)))
		}
		for k := b.starts[i]; k < b.starts[i+1]; k++ {
			v := b.values[k]
			if scale != 1 {
				v = float32(float64(v) * scale)
			}
			f(i, b.indices[k], v)
		}
	}
}

// step is the distance of the numbers that codes stand for; 255 of them reach from the least element to the largest.
func step(low, high float32) float32 {
	if low == high {
		return 0
	}
	return math.Nextafter32(float32((float64(high)-float64(low))/255), math.MaxFloat32)
}

// encode is the least code that stands for a number that is not smaller.
func encode(low, step, v float32) byte {
	if step == 0 {
		return 0
	}
	c := int(math.Ceil((float64(v) - float64(low)) / float64(step)))
	for c < 255 && decode(low, step, c) < float64(v) {
		c++
	}
	return byte(max(0, min(c, 255)))
}

// decode is the number that a code stands for.
func decode(low, step float32, c int) float64 { return float64(low) + float64(step)*float64(c) }

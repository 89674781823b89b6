package graph

import (
	"context"
	"encoding/binary"
	"math"
	"runtime"
	"slices"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/code"
)

// Index is an opened artifact, whole in memory.
type Index struct {
	metric vec.Metric
	kind   code.Kind
	dim    int
	m, ef  int // of the build
	seed   uint64
	cal    Calibration

	n     int    // nodes
	main  *space // what walks measure by
	exact *space // floats beside codes; nil without

	width   int
	links   []uint32 // level 0: a row of width for each node
	upper   []uint32 // the nodes with upper levels, ascending; links above level 0 are numbers in this list
	upAt    []uint32 // the first row in upLinks of each, that of level 1; one more at the end
	upLinks []uint32 // rows of m
	top     int
	entry   uint32 // a number in upper, or a node when there is no upper level

	positions []uint32 // of all rows, ascending
	nodes     []uint32 // of each; none for a zero vector under cosine
	first     []uint32 // where in by the positions of a node begin; nil when each node has one row
	by        []uint32 // positions by node, ascending within
	zeros     []uint32 // positions without a node

	free   chan *scratch
	forced string // by tests: the strategy
}

// Rows is the number of rows.
func (x *Index) Rows() int64 { return int64(len(x.positions)) }

// Dim is the number of elements of a vector.
func (x *Index) Dim() int { return x.dim }

// Metric is the metric of distances.
func (x *Index) Metric() vec.Metric { return x.metric }

// Code is what walks measure by.
func (x *Index) Code() code.Kind { return x.kind }

// Floats tells whether the artifact holds floats, so that distances of hits are exact.
func (x *Index) Floats() bool { return x.kind == code.Float32 || x.exact != nil }

// Calibration is what was measured when the graph was built.
func (x *Index) Calibration() Calibration { return x.cal }

// Memory is the number of bytes that the index holds, with room for as many searches at once as it keeps.
func (x *Index) Memory() int64 {
	n := 4 * (len(x.links) + len(x.upper) + len(x.upAt) + len(x.upLinks) + len(x.positions) + len(x.nodes) + len(x.first) + len(x.by) + len(x.zeros))
	n += len(x.main.rows) + factorBytes*len(x.main.factors)
	if x.exact != nil {
		n += len(x.exact.rows)
	}
	return int64(n) + int64(cap(x.free))*int64(x.n)
}

// ready checks what rows say of nodes, and puts rows by node.
func (x *Index) ready() error {
	counts := make([]uint32, x.n+1)
	for i, node := range x.nodes {
		if i > 0 && x.positions[i] <= x.positions[i-1] {
			return corrupt("positions do not ascend")
		}
		switch {
		case node == none:
			if x.metric != vec.MetricCosine {
				return corrupt("a row without a node")
			}
			x.zeros = append(x.zeros, x.positions[i])
		case int(node) >= x.n:
			return corrupt("a row of node %d of %d", node, x.n)
		default:
			counts[node+1]++
		}
	}
	single := true
	for node, c := range counts[1:] {
		if c == 0 {
			return corrupt("node %d has no row", node)
		}
		single = single && c == 1
	}
	for node := range x.n {
		counts[node+1] += counts[node]
	}
	x.by = make([]uint32, len(x.nodes)-len(x.zeros))
	for i, node := range x.nodes {
		if node != none {
			x.by[counts[node]] = x.positions[i]
			counts[node]++
		}
	}
	if !single { // each count is now where the next node begins
		copy(counts[1:], counts[:x.n])
		counts[0] = 0
		x.first = counts
	}
	x.free = make(chan *scratch, runtime.GOMAXPROCS(0))
	return nil
}

// rowsOf are the positions of a node, ascending.
func (x *Index) rowsOf(node uint32) []uint32 {
	if x.first == nil {
		return x.by[node : node+1]
	}
	return x.by[x.first[node]:x.first[node+1]]
}

func corrupt(format string, args ...any) error {
	return errs.Newf(errs.Corrupt, "graph.open", format, args...)
}

// aligned makes room for numbers that begins at a cache line.
func aligned[T section.Number](n int) []T { return view[T](section.Aligned(n * binary.Size(*new(T)))) }

// view takes bytes for numbers, of which they are a whole number.
func view[T section.Number](b []byte) []T {
	v, err := section.View[T](b)
	if err != nil {
		panic(err)
	}
	return v
}

// The section of parameters, little endian.
const (
	paramsVersion = 1
	paramsSize    = 96
)

func (x *Index) params() []byte {
	b := make([]byte, paramsSize)
	le := binary.LittleEndian
	le.PutUint32(b[0:], paramsVersion)
	b[4], b[5] = uint8(x.metric), uint8(x.kind)
	if x.exact != nil {
		b[6] = 1
	}
	for i, v := range []int{x.dim, x.m, x.ef, x.n, len(x.nodes), len(x.upper), len(x.upLinks) / x.m, x.top, int(x.entry)} {
		le.PutUint32(b[8+4*i:], uint32(v))
	}
	le.PutUint64(b[48:], x.seed)
	le.PutUint32(b[56:], uint32(x.cal.Queries))
	le.PutUint32(b[60:], uint32(x.cal.Ef95))
	le.PutUint32(b[64:], uint32(x.cal.Ef99))
	le.PutUint32(b[68:], math.Float32bits(x.cal.Recall95))
	le.PutUint32(b[72:], math.Float32bits(x.cal.Recall99))
	le.PutUint32(b[76:], uint32(x.cal.Distances))
	return b
}

// parse reads the parameters; the numbers of rows of links and of upper nodes are given back.
func (x *Index) parse(b []byte) (rows, upper, upRows int, err error) {
	le := binary.LittleEndian
	if len(b) != paramsSize {
		return 0, 0, 0, corrupt("%d bytes of parameters", len(b))
	}
	if v := le.Uint32(b); v != paramsVersion {
		return 0, 0, 0, errs.Newf(errs.Unsupported, "graph.open", "version %d of the parameters of a graph", v)
	}
	x.metric, x.kind = vec.Metric(b[4]), code.Kind(b[5])
	at := func(i int) int { return int(le.Uint32(b[8+4*i:])) }
	x.dim, x.m, x.ef, x.n = at(0), at(1), at(2), at(3)
	rows, upper, upRows, x.top, x.entry = at(4), at(5), at(6), at(7), uint32(at(8))
	x.seed = le.Uint64(b[48:])
	x.cal = Calibration{Queries: int(le.Uint32(b[56:])), Ef95: int(le.Uint32(b[60:])), Ef99: int(le.Uint32(b[64:])),
		Recall95: math.Float32frombits(le.Uint32(b[68:])), Recall99: math.Float32frombits(le.Uint32(b[72:])), Distances: int(le.Uint32(b[76:]))}
	o := Options{Metric: x.metric, Dim: x.dim, M: x.m, EfConstruction: x.ef, Code: x.kind}
	switch {
	case slices.ContainsFunc(b[80:], func(v byte) bool { return v != 0 }) || le.Uint32(b[44:]) != 0:
		err = corrupt("parameters beyond those known")
	case o.check() != nil || x.m == 0 || x.ef == 0 || b[6] > 1 || b[7] != 0 || b[6] == 1 && x.kind == code.Float32:
		err = corrupt("parameters beyond their range")
	case x.n > rows || rows > maxRows || upper > x.n || upRows < upper || upRows > upper*maxLevel || x.top > maxLevel:
		err = corrupt("%d rows, %d nodes, %d of them above level 0, %d rows of links there", rows, x.n, upper, upRows)
	case (x.top == 0) != (upper == 0) || x.n == 0 && x.entry != 0 || x.n > 0 && x.top == 0 && int(x.entry) >= x.n || x.top > 0 && int(x.entry) >= upper:
		err = corrupt("the walk begins at %d on level %d", x.entry, x.top)
	case x.cal.Ef95 > maxEf || x.cal.Ef99 > maxEf || x.cal.Ef95 < 1 || x.cal.Ef99 < 1 || x.cal.Distances > maxRows:
		err = corrupt("the calibration is beyond its range")
	}
	return rows, upper, upRows, err
}

// write writes the sections.
func (x *Index) write(ctx context.Context, w *section.Writer) error {
	put := func(kind section.Kind, b []byte) {
		w.Begin(kind)
		const step = 8 << 20
		for len(b) > 0 && ctx.Err() == nil {
			n := min(len(b), step)
			if _, err := w.Write(b[:n]); err != nil {
				return
			}
			b = b[n:]
		}
	}
	put(kindParams, x.params())
	put(kindPositions, section.Bytes(x.positions))
	put(kindNodes, section.Bytes(x.nodes))
	put(kindLinks, section.Bytes(x.links))
	upper := make([]uint32, 0, 2*len(x.upper))
	for u, node := range x.upper {
		upper = append(upper, node, x.upAt[u+1]-x.upAt[u])
	}
	put(kindUpperNodes, section.Bytes(upper))
	put(kindUpperLinks, section.Bytes(x.upLinks))
	put(kindRows, x.main.rows)
	if x.kind != code.Float32 {
		factors := make([]float32, 0, 2*x.n)
		for _, f := range x.main.factors {
			factors = append(factors, f.Scale, f.Norm)
		}
		put(kindFactors, section.Bytes(factors))
	}
	if x.exact != nil {
		put(kindFloats, x.exact.rows)
	}
	if err := ctx.Err(); err != nil {
		return errs.Wrap(errs.Canceled, "graph.build", err)
	}
	return w.Err()
}

// Open reads an artifact and checks it.
func Open(ctx context.Context, f *section.File) (*Index, error) {
	b, err := f.Load(ctx, kindParams)
	if err != nil {
		return nil, err
	}
	x := new(Index)
	rows, upper, upRows, err := x.parse(b)
	if err != nil {
		return nil, err
	}
	x.width = linkWidth(x.m)
	hasFloats := b[6] == 1
	numbers := func(kind section.Kind, n int) []uint32 {
		var v []uint32
		if err == nil {
			v, err = load[uint32](ctx, f, kind, n)
		}
		return v
	}
	x.positions, x.nodes = numbers(kindPositions, rows), numbers(kindNodes, rows)
	x.links = numbers(kindLinks, x.n*x.width)
	pairs := numbers(kindUpperNodes, 2*upper)
	x.upLinks = numbers(kindUpperLinks, upRows*x.m)
	if err != nil {
		return nil, err
	}
	if x.main, err = newSpace(x.kind, x.metric, x.dim, x.seed); err != nil {
		return nil, err
	}
	if x.main.rows, err = load[byte](ctx, f, kindRows, x.n*x.main.size); err != nil {
		return nil, err
	}
	if x.kind != code.Float32 {
		v, err := load[float32](ctx, f, kindFactors, 2*x.n)
		if err != nil {
			return nil, err
		}
		x.main.factors = make([]code.Factor, x.n)
		for i := range x.main.factors {
			x.main.factors[i] = code.Factor{Scale: v[2*i], Norm: v[2*i+1]}
		}
	}
	if hasFloats {
		if x.exact, err = newSpace(code.Float32, x.metric, x.dim, x.seed); err != nil {
			return nil, err
		}
		if x.exact.rows, err = load[byte](ctx, f, kindFloats, x.n*x.exact.size); err != nil {
			return nil, err
		}
	}
	if err := x.checkLinks(pairs); err != nil {
		return nil, err
	}
	return x, x.ready()
}

// load reads a section of n numbers.
func load[T section.Number](ctx context.Context, f *section.File, kind section.Kind, n int) ([]T, error) {
	s, ok := f.Find(kind)
	if want := int64(n) * int64(binary.Size(*new(T))); ok && s.Length != want {
		return nil, corrupt("section %d has %d bytes, not %d", kind, s.Length, want)
	}
	b, err := f.Load(ctx, kind)
	if err != nil {
		return nil, err
	}
	return section.View[T](b)
}

// checkLinks is G3.
func (x *Index) checkLinks(pairs []uint32) error {
	if !ended(x.links, x.width, 2*x.m, uint32(x.n)) {
		return corrupt("a link on level 0 leads nowhere")
	}
	next := uint64(0)
	for i := 0; i < len(pairs); i += 2 {
		node, levels := pairs[i], pairs[i+1]
		if int(node) >= x.n || i > 0 && node <= pairs[i-2] || levels < 1 || levels > uint32(x.top) {
			return corrupt("node %d has %d upper levels", node, levels)
		}
		x.upper, x.upAt = append(x.upper, node), append(x.upAt, uint32(next))
		next += uint64(levels)
	}
	if next != uint64(len(x.upLinks)/x.m) {
		return corrupt("%d rows of upper links, not %d", len(x.upLinks)/x.m, next)
	}
	x.upAt = append(x.upAt, uint32(next))
	if x.top > 0 && x.levelsOf(x.entry) != x.top {
		return corrupt("the walk begins on level %d at a node with %d", x.top, x.levelsOf(x.entry))
	}
	for u := range x.upper {
		for l := 1; l <= x.levelsOf(uint32(u)); l++ {
			row := x.upRow(uint32(u), l)
			if !ended(row, x.m, x.m, uint32(len(x.upper))) {
				return corrupt("a link on level %d leads nowhere", l)
			}
			for _, v := range row {
				if v != none && x.levelsOf(v) < l {
					return corrupt("a link on level %d leads to a node below it", l)
				}
			}
		}
	}
	return nil
}

// levelsOf is the highest level of a node in upper.
func (x *Index) levelsOf(u uint32) int { return int(x.upAt[u+1] - x.upAt[u]) }

// upRow are the links on an upper level of a node in upper.
func (x *Index) upRow(u uint32, level int) []uint32 {
	return x.upLinks[(int(x.upAt[u])+level-1)*x.m:][:x.m]
}

// ended tells whether each row has links below n, most of them at most, and behind them nothing.
func ended(links []uint32, width, most int, n uint32) bool {
	for at := 0; at < len(links); at += width {
		end := false
		for k, v := range links[at : at+width] {
			if v == none {
				end = true
			} else if end || v >= n || k >= most {
				return false
			}
		}
	}
	return true
}

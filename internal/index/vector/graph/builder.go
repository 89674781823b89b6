package graph

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/code"
)

// buildByCodes is the dimension from which links are chosen by codes of 8 bits. Below it, making a row a query costs more
// than codes save.
const buildByCodes = 256

// Builder makes one artifact. One goroutine at a time may use it.
type Builder struct {
	opt    Options
	floats *space // nil when codes say all that is needed
	eight  *space // codes of 8 bits that links are chosen by; nil when floats do it
	final  *space // what the artifact's walks measure by; may be floats or eight

	positions []uint32 // of rows with a vector
	zeros     []uint32 // of zero vectors under cosine, which have no direction
	peak      int64
	done      bool
}

// NewBuilder checks the options and begins a build.
func NewBuilder(opt Options) (*Builder, error) {
	if err := opt.check(); err != nil {
		return nil, err
	}
	if opt.Workers == 0 {
		opt.Workers = runtime.GOMAXPROCS(0)
	}
	b := &Builder{opt: opt}
	made := func(kind code.Kind) (*space, error) { return newSpace(kind, opt.Metric, opt.Dim, opt.Seed) }
	byCodes := opt.Code != code.Float32 && opt.Dim >= buildByCodes
	var err error
	if opt.Code == code.Float32 || opt.Floats || !byCodes {
		if b.floats, err = made(code.Float32); err != nil {
			return nil, err
		}
	}
	if byCodes {
		if b.eight, err = made(code.TQ8); err != nil {
			return nil, err
		}
	}
	switch {
	case opt.Code == code.Float32:
		b.final = b.floats
	case opt.Code == code.TQ8 && byCodes:
		b.final = b.eight
	default:
		if b.final, err = made(opt.Code); err != nil {
			return nil, err
		}
	}
	if err := b.room(opt.Rows); err != nil {
		return nil, err
	}
	return b, nil
}

// spaces are the different sets of rows that are held.
func (b *Builder) spaces() []*space {
	var all []*space
	for _, s := range []*space{b.floats, b.eight, b.final} {
		if s != nil && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// needs is the memory in bytes of a whole build of so many rows.
func (b *Builder) needs(rows int64) int64 {
	n := rows * 4 // positions
	for _, s := range b.spaces() {
		n += s.bytesFor(rows)
	}
	return n + graphBytes(rows, &b.opt) + b.trialBytes(rows)
}

// room makes room for so many rows in all.
func (b *Builder) room(rows int64) error {
	const op = "graph.build"
	if rows > maxRows {
		return errs.Newf(errs.Unsupported, op, "%d rows; a graph takes %d", rows, maxRows)
	}
	need := b.needs(rows)
	grown, held := rows, int64(cap(b.positions))
	if rows > held && held > 0 {
		// While rows move to larger room both are held, but not yet the graph.
		grown = max(rows, min(held+held/2, maxRows))
		need = max(need, b.needs(grown)-graphBytes(grown, &b.opt)+b.needs(held)-graphBytes(held, &b.opt))
	}
	if b.opt.Memory > 0 && need > b.opt.Memory {
		return errs.New(errs.Exhausted, op, fmt.Sprintf("a graph over %d rows needs %d bytes and may hold %d", rows, need, b.opt.Memory),
			errs.Hint("allow it more memory, or index smaller files"))
	}
	b.peak = max(b.peak, need)
	if rows > held {
		for _, s := range b.spaces() {
			s.reserve(int(grown))
		}
		b.positions = append(make([]uint32, 0, grown), b.positions...)
	}
	return nil
}

// Add adds rows: len(positions) vectors one after another. A position may come once only, in any order. Invalid when an
// element is not finite; Exhausted when the build would need more memory than it may hold.
func (b *Builder) Add(ctx context.Context, positions []uint32, rows []float32) error {
	const op = "graph.add"
	dim := b.opt.Dim
	if b.done {
		return errs.New(errs.Invalid, op, "the build was finished")
	}
	if len(rows) != len(positions)*dim {
		return errs.Newf(errs.Invalid, op, "%d elements are not %d vectors of %d", len(rows), len(positions), dim)
	}
	if err := ctx.Err(); err != nil {
		return errs.Wrap(errs.Canceled, op, err)
	}
	from := len(b.positions)
	if err := b.room(int64(from + len(positions))); err != nil {
		return err
	}
	for _, s := range b.spaces() {
		s.extend(len(positions))
	}
	undo := func(err error) error {
		for _, s := range b.spaces() {
			s.truncate(from)
		}
		return err
	}
	zero := make([]bool, len(positions))
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(b.opt.Workers)
	const batch = 512
	for at := 0; at < len(positions); at += batch {
		group.Go(func() error {
			if err := gctx.Err(); err != nil {
				return errs.Wrap(errs.Canceled, op, err)
			}
			v, turned := make([]float32, dim), make([]float32, dim)
			for i := at; i < min(at+batch, len(positions)); i++ {
				copy(v, rows[i*dim:])
				if !finite(v) {
					return errs.Newf(errs.Invalid, op, "the vector at position %d holds what is no number", positions[i])
				}
				if b.opt.Metric == vec.MetricCosine && !normalise(v) {
					zero[i] = true
				}
				for _, s := range b.spaces() {
					copy(turned, v)
					s.put(from+i, turned)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return undo(err)
	}
	// Zero vectors go to their own list, and those behind them move up.
	to := from
	for i, pos := range positions {
		if zero[i] {
			b.zeros = append(b.zeros, pos)
			continue
		}
		if to != from+i {
			for _, s := range b.spaces() {
				s.move(uint32(to), uint32(from+i))
			}
		}
		b.positions = append(b.positions, pos)
		to++
	}
	for _, s := range b.spaces() {
		s.truncate(to)
	}
	return nil
}

// Close gives up what a build holds.
func (b *Builder) Close() {
	b.done = true
	b.floats, b.eight, b.final, b.positions, b.zeros = nil, nil, nil, nil, nil
}

// Finish builds the graph and writes the sections of the artifact; the caller closes w. A build can be finished once, and
// holds nothing afterwards.
func (b *Builder) Finish(ctx context.Context, w *section.Writer) (Stats, error) {
	const op = "graph.build"
	if b.done {
		return Stats{}, errs.New(errs.Invalid, op, "the build was finished")
	}
	defer b.Close()
	b.done = true
	if err := b.once(); err != nil {
		return Stats{}, err
	}
	rows := int64(len(b.positions) + len(b.zeros))
	nodeOf := b.unite()
	metric := b.floats
	if b.eight != nil {
		metric = b.eight
	}
	measure, err := b.measure(ctx, metric)
	if err != nil {
		return Stats{}, err
	}
	net := newNet(measure, &b.opt)
	if err := net.build(ctx); err != nil {
		return Stats{}, errs.Wrap(errs.KindOf(err), op, err)
	}
	order := net.order()
	done := make([]uint64, (net.n+63)/64)
	for _, s := range b.spaces() {
		s.permute(order, done)
	}
	x := net.index(order)
	net = nil
	x.main = b.final
	if b.floats != b.final && b.opt.Floats {
		x.exact = b.floats
	}
	to := make([]uint32, len(order)) // the new number of a node
	for i, old := range order {
		to[old] = uint32(i)
	}
	for i, node := range nodeOf {
		nodeOf[i] = to[node]
	}
	b.place(x, nodeOf)
	if err := x.ready(); err != nil {
		return Stats{}, err
	}
	truth := metric
	if b.floats != nil {
		truth = b.floats
	}
	if err := x.calibrate(ctx, truth, b.opt.Seed); err != nil {
		return Stats{}, err
	}
	if err := x.write(ctx, w); err != nil {
		return Stats{}, err
	}
	links := int64(0)
	for _, l := range x.links {
		if l != none {
			links++
		}
	}
	return Stats{Rows: rows, Nodes: int64(x.n), Links: links, TopLevel: x.top, Memory: b.peak, Calibration: x.cal}, nil
}

// once checks that no position came twice.
func (b *Builder) once() error {
	all := slices.Concat(b.positions, b.zeros)
	if !slices.IsSorted(all) {
		slices.Sort(all)
	}
	for i := 1; i < len(all); i++ {
		if all[i] == all[i-1] {
			return errs.Newf(errs.Invalid, "graph.build", "position %d was added twice", all[i])
		}
	}
	return nil
}

// unite gives rows with equal vectors one node and drops the copies. The result is the node of each row.
func (b *Builder) unite() []uint32 {
	s := b.floats
	if s == nil {
		s = b.eight
	}
	n := s.len()
	type hashed struct {
		sum uint64
		row uint32
	}
	sums := make([]hashed, n)
	seed := maphash.MakeSeed()
	each(n, b.opt.Workers, func(i int) {
		sum := maphash.Bytes(seed, s.row(uint32(i)))
		if !s.float() {
			f := s.factors[i]
			sum = sum*31 + uint64(math.Float32bits(f.Scale))<<32 + uint64(math.Float32bits(f.Norm))
		}
		sums[i] = hashed{sum, uint32(i)}
	})
	slices.SortFunc(sums, func(a, b hashed) int {
		if c := cmp.Compare(a.sum, b.sum); c != 0 {
			return c
		}
		return cmp.Compare(a.row, b.row)
	})
	same := make([]uint32, n) // the first row with the vector of a row
	for from := 0; from < n; {
		to := from + 1
		for to < n && sums[to].sum == sums[from].sum {
			to++
		}
		var firsts []uint32 // of one sum there is one vector, or by a rare chance more
		for _, h := range sums[from:to] {
			same[h.row] = h.row
			for _, f := range firsts {
				if bytes.Equal(s.row(f), s.row(h.row)) && (s.float() || s.factors[f] == s.factors[h.row]) {
					same[h.row] = f
					break
				}
			}
			if same[h.row] == h.row {
				firsts = append(firsts, h.row)
			}
		}
		from = to
	}
	nodes := uint32(0)
	for i, first := range same {
		if int(first) != i {
			same[i] = same[first] // the node of a row before
			continue
		}
		if int(nodes) != i {
			for _, s := range b.spaces() {
				s.move(nodes, uint32(i))
			}
		}
		same[i] = nodes
		nodes++
	}
	for _, s := range b.spaces() {
		s.truncate(int(nodes))
	}
	return same
}

// each calls f for the numbers below n, by several goroutines.
func each(n, workers int, f func(i int)) {
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			for i := n * w / workers; i < n*(w+1)/workers; i++ {
				f(i)
			}
		})
	}
	wait.Wait()
}

// place gives the index its rows.
func (b *Builder) place(x *Index, nodeOf []uint32) {
	type place struct{ pos, node uint32 }
	all := make([]place, 0, len(b.positions)+len(b.zeros))
	for i, pos := range b.positions {
		all = append(all, place{pos, nodeOf[i]})
	}
	for _, pos := range b.zeros {
		all = append(all, place{pos, none})
	}
	slices.SortFunc(all, func(a, b place) int { return cmp.Compare(a.pos, b.pos) })
	x.positions, x.nodes = make([]uint32, len(all)), make([]uint32, len(all))
	for i, p := range all {
		x.positions[i], x.nodes[i] = p.pos, p.node
	}
}

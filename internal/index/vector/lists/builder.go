package lists

import (
	"context"
	"encoding/binary"
	"math"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/code"
)

// Builder makes an index of rows. It goes over them three times:
//
//  1. It draws a sample and finds centroids by k-means.
//  2. It finds the nearest centroid of each row, packs the row, and puts the record into the partition of its list, which
//     are some neighbouring lists. Meanwhile it compares all rows with a few that stand for queries.
//  3. It reads partition by partition, sorts records by list and position, and writes the lists; then again, for the
//     rerank rows. The queries of before scan the lists as they go by, which tells how many probes and candidates it takes.
//
// One goroutine at a time may use a builder.
type Builder struct {
	o       Options
	workers int
	memory  int64

	raw   heap // blocks of rows: positions, then elements
	block []byte
	rows  int64
	whole int // rows of a full block
	norms []float64

	squares float64 // the sum of squared lengths
	done    int64
	total   int64
	held    int64
	err     error
}

// shares of the memory, in sixteenths.
const (
	shareRaw     = 6
	shareRecords = 4
	shareSample  = 2
	shareWork    = 2
)

// NewBuilder begins an index.
func NewBuilder(o Options) (*Builder, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	b := &Builder{o: o, workers: o.Workers, memory: o.Memory}
	if b.workers == 0 {
		b.workers = runtime.GOMAXPROCS(0)
	}
	if b.memory == 0 {
		b.memory = defaultMemory
	}
	record := 4 + 4*o.Dim
	b.whole = max(1, int(min(256<<10, b.memory/128))/record)
	b.raw = heap{limit: b.memory * shareRaw / 16, spill: o.Spill}
	return b, nil
}

// Add takes rows, which lie one after another with Dim elements each, and their positions. A position may be there once.
// Invalid, and none of the rows is taken, when elements are not finite or squares add up to more than a float32.
func (b *Builder) Add(ctx context.Context, positions []uint32, rows []float32) error {
	const op = "lists.add"
	if b.err != nil {
		return b.err
	}
	dim := b.o.Dim
	if len(rows) != dim*len(positions) {
		return errs.Newf(errs.Invalid, op, "%d elements are not %d rows of %d", len(rows), len(positions), dim)
	}
	if b.rows+int64(len(positions)) > maxRows {
		return errs.Newf(errs.Exhausted, op, "more than %d rows", maxRows)
	}
	if err := ctx.Err(); err != nil {
		return errs.Wrap(errs.Canceled, op, err)
	}
	b.norms = grow(b.norms, len(positions))
	for i, pos := range positions {
		b.norms[i] = vec.Norm(rows[i*dim:][:dim])
		if n := b.norms[i]; !(n*n <= math.MaxFloat32) {
			return errs.Newf(errs.Invalid, op, "the vector at position %d has a length of %v", pos, n)
		}
	}
	for i, pos := range positions {
		row, norm := rows[i*dim:][:dim], b.norms[i]
		scale := float32(1)
		if b.o.Metric == vec.MetricCosine && norm > 0 {
			scale = float32(1 / norm)
			norm = 1
		}
		b.squares += norm * norm
		b.block = binary.LittleEndian.AppendUint32(b.block, pos)
		for _, v := range row {
			b.block = binary.LittleEndian.AppendUint32(b.block, math.Float32bits(v*scale))
		}
		b.rows++
		if len(b.block) == b.whole*(4+4*dim) {
			if b.err = b.flush(); b.err != nil {
				return b.err
			}
		}
	}
	return nil
}

func (b *Builder) flush() error {
	if len(b.block) == 0 {
		return nil
	}
	_, kept, err := b.raw.add(b.block)
	if err != nil {
		return err
	}
	if kept {
		b.block = make([]byte, 0, b.whole*(4+4*b.o.Dim))
	}
	b.block = b.block[:0]
	return nil
}

// Close gives memory and temporary files back. It may be called at any time, and again.
func (b *Builder) Close() error {
	b.block = nil
	if b.err == nil {
		b.err = errs.New(errs.Invalid, "lists.build", "the builder is closed")
	}
	return b.raw.close()
}

// chunk is a block of rows, unpacked.
type chunk struct {
	first     int64 // the ordinal of its first row
	positions []uint32
	rows      []float32
	room      []byte
}

// chunk reads block id.
func (b *Builder) chunk(id int, c *chunk) error {
	data, err := b.raw.read(id, &c.room)
	if err != nil {
		return err
	}
	dim := b.o.Dim
	n := len(data) / (4 + 4*dim)
	c.first = int64(id) * int64(b.whole)
	c.positions, c.rows = grow(c.positions, n), grow(c.rows, n*dim)
	for i := range n {
		c.positions[i] = binary.LittleEndian.Uint32(data)
		for k := range dim {
			c.rows[i*dim+k] = math.Float32frombits(binary.LittleEndian.Uint32(data[4+4*k:]))
		}
		data = data[4+4*dim:]
	}
	return nil
}

// step counts units of work that are done.
func (b *Builder) step(n int64) {
	b.done += n
	if b.o.Progress != nil {
		b.o.Progress(min(b.done, b.total), b.total)
	}
}

// parallel calls f for each number below n, by all workers.
func (b *Builder) parallel(ctx context.Context, n int, f func(i int) error) error {
	if err := ctx.Err(); err != nil {
		return errs.Wrap(errs.Canceled, "lists.build", err)
	}
	if b.workers == 1 || n == 1 {
		for i := range n {
			if err := ctx.Err(); err != nil {
				return errs.Wrap(errs.Canceled, "lists.build", err)
			}
			if err := f(i); err != nil {
				return err
			}
		}
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(b.workers)
	for i := range n {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return errs.Wrap(errs.Canceled, "lists.build", err)
			}
			return f(i)
		})
	}
	return g.Wait()
}

// build is what the passes share.
type build struct {
	*Builder
	p      *params
	c      coders
	layout layout
	cells  *cells // trained centroids, less the mean, not turned
	turned []float32
	meanT  []float32 // the mean, turned

	record  recordLayout
	records heap
	parts   []*partition
	partOf  []int32   // of each trained list
	counts  []int64   // rows of each trained list
	radii   []float32 // and their largest distance from the centroid

	trial *trial
	stats Stats
}

// Finish builds the index of all rows added and writes its sections. The builder is of no use afterwards.
func (b *Builder) Finish(ctx context.Context, w *section.Writer) (Stats, error) {
	if b.err != nil {
		return Stats{}, b.err
	}
	defer b.Close()
	if err := b.flush(); err != nil {
		return Stats{}, err
	}
	b.block = nil
	p := &params{metric: b.o.Metric, code: b.o.Code, rerank: b.o.Rerank, hasRerank: b.o.hasRerank(), dim: b.o.Dim, seed: b.o.Seed,
		rows: b.rows, dense: true, mean: make([]float32, b.o.Dim)}
	if !p.hasRerank {
		p.rerank = code.Float32
	}
	if b.rows > 0 {
		p.length = float32(math.Sqrt(b.squares / float64(b.rows)))
	}
	c, err := newCoders(p)
	if err != nil {
		return Stats{}, err
	}
	x := &build{Builder: b, p: p, c: c, layout: newLayout(c), stats: Stats{Rows: b.rows}}
	defer x.records.close()
	b.total = 6 * b.rows // sampling 1, training 1, assigning 2, lists 1, rerank rows 1
	if b.rows > 0 {
		if err := x.train(ctx); err != nil {
			return Stats{}, err
		}
		if err := x.assign(ctx); err != nil {
			return Stats{}, err
		}
	}
	if err := x.write(ctx, w); err != nil {
		return Stats{}, err
	}
	x.stats.Spilled = b.raw.filed + x.records.filed
	b.step(b.total - b.done)
	return x.stats, w.Err()
}

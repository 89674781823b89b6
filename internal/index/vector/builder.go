package vector

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector/flat"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/index/vector/sparse"
	"github.com/overlakedb/overlake/internal/vec"
)

// SpillFile is a temporary file of a builder. It is gone when it is closed.
type SpillFile interface {
	io.Writer
	io.ReaderAt
	io.Closer
}

// Options of a build.
type Options struct {
	Kind     Kind
	Form     Form
	Params   map[string]string // checked and in their plain form, see CheckParam
	Dim      int               // of all vectors; 0: that of the first, which bit strings do not tell
	Rows     int64             // how many rows will be added at most; 0: not known
	Memory   int64             // bytes that the build may hold; 0: 1 GiB
	Workers  int               // goroutines; 0: one a processor
	Spill    func() (SpillFile, error)
	Progress func(done, total int64) // of the vectors, while Finish runs; nil: not told
}

const defaultMemory = 1 << 30

// flatRows is up to how many vectors an index of any kind is flat: comparing them all is faster than to choose.
const flatRows = 1000

// shortest is the least squared length of a vector that can be brought to length 1 in float32.
const shortest = math.SmallestNonzeroFloat32 * (1 << 24)

// farthest bounds the squared length of a vector: beyond, the arithmetic of float32 ends. Such vectors, and those with
// elements that are no numbers, are left out and looked at in every search.
const farthest = 1e36

// maxOthers bounds them.
const maxOthers = 1000

// Stats describe an artifact.
type Stats struct {
	Rows    int64 // covered
	Vectors int64 // in the index
	Nulls   int64 // rows without a vector
	Zeros   int64 // vectors of length 0, which have no direction: left out of an index by cosine
	Size    int64
}

// Builder makes an artifact. It is for one goroutine.
type Builder struct {
	opts   Options
	metric vec.Metric
	dim    int
	stats  Stats
	others []uint32

	longest float32 // square of the length of a vector

	positions []uint32 // as long as it may become flat
	rows      []float32
	form      formBuilder // of what is not dense
	kind      kindBuilder // of more rows
	built     Kind        // what that is
	err       error       // why there can be no index of these rows
	odd       error       // why the rows since the last call of Took can be no part of it
	sure      int         // of others, how many were there at that call
}

// kindBuilder builds one kind.
type kindBuilder interface {
	add(ctx context.Context, positions []uint32, rows []float32) error
	finish(ctx context.Context, w *section.Writer) error
	close() error
}

// NewBuilder begins a build.
func NewBuilder(opts Options) (*Builder, error) {
	if !IsKind(string(opts.Kind)) {
		return nil, errs.New(errs.Unsupported, "vector.build", "there is no such kind of index", errs.On(string(opts.Kind)))
	}
	if opts.Memory <= 0 {
		opts.Memory = defaultMemory
	}
	b := &Builder{opts: opts, metric: MetricOf(opts.Params), dim: opts.Dim}
	if err := CheckForm(opts.Form, opts.Kind, b.metric.String()); err != nil {
		return nil, err
	}
	switch opts.Form {
	case Bits:
		b.form = &bitBuilder{}
	case Sparse:
		b.form = &sparseBuilder{x: sparse.NewBuilder(b.metric, opts.Memory)}
	}
	return b, nil
}

// Add takes the vectors of rows from a position on, in the form in which a table holds them: a list of float32 each, the
// bytes of a bit string, or the struct of a sparse vector (package declared). Positions ascend from call to call. Rows that the
// index cannot have are no error here: see Took and Fits.
func (b *Builder) Add(ctx context.Context, first int64, column arrow.Array) error {
	if b.err != nil || b.odd != nil {
		return nil
	}
	if b.form != nil {
		return b.addForm(ctx, first, column)
	}
	list, ok := column.(array.ListLike)
	if !ok {
		return errs.Newf(errs.Invalid, "vector.build", "a column of %s holds no vectors", column.DataType())
	}
	values, ok := list.ListValues().(*array.Float32)
	if !ok {
		return errs.Newf(errs.Invalid, "vector.build", "a column of %s holds no vectors", column.DataType())
	}
	if first+int64(column.Len()) > math.MaxUint32 {
		b.refuse(errs.New(errs.Unsupported, "vector.build", "more than 4,294,967,295 rows in one part of an index"))
		return nil
	}
	var positions []uint32
	var rows []float32
	flush := func() error {
		err := b.keep(ctx, positions, rows)
		positions, rows = positions[:0], rows[:0]
		return err
	}
	for i := range column.Len() {
		if list.IsNull(i) {
			b.stats.Nulls++
			continue
		}
		from, to := list.ValueOffsets(i)
		v := values.Float32Values()[from:to]
		if b.dim == 0 {
			b.dim = len(v)
		}
		pos := uint32(first + int64(i))
		if len(v) != b.dim || len(v) == 0 {
			b.odd = b.differs(len(v))
			return nil
		}
		square := vec.Dot(v, v)
		switch {
		case values.NullN() > 0 && hasNull(values, from, to), !(square <= farthest):
			if b.odd = b.leave(pos); b.odd != nil {
				return nil
			}
			continue
		case square < shortest && b.metric == vec.MetricCosine:
			if vec.Norm(v) == 0 {
				b.stats.Zeros++
			} else { // too short to be brought to length 1 in float32
				b.others = append(b.others, pos)
			}
			continue
		}
		b.longest = max(b.longest, square)
		positions = append(positions, pos)
		rows = append(rows, v...)
		if b.metric == vec.MetricCosine {
			scale := float32(1 / math.Sqrt(float64(square)))
			for k := range rows[len(rows)-len(v):] {
				rows[len(rows)-len(v)+k] *= scale
			}
		}
		if len(positions) == 4096 {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

func hasNull(values *array.Float32, from, to int64) bool {
	for i := from; i < to; i++ {
		if values.IsNull(int(i)) {
			return true
		}
	}
	return false
}

// refuse ends a build: these rows cannot have an index.
func (b *Builder) refuse(err error) {
	if b.err == nil {
		b.err = err
		b.positions, b.rows, b.form = nil, nil, nil
	}
}

// keep takes vectors, as a flat index for as long as they are few.
func (b *Builder) keep(ctx context.Context, positions []uint32, rows []float32) error {
	if len(positions) == 0 {
		return nil
	}
	b.stats.Vectors += int64(len(positions))
	if b.kind == nil {
		if n := len(b.positions) + len(positions); n <= flatRows || b.opts.Kind == Flat {
			if int64(n)*int64(4*b.dim+4) > b.opts.Memory {
				b.refuse(errs.With(errs.Newf(errs.Exhausted, "vector.build", "%d vectors of %d dimensions do not fit into %d bytes", n, b.dim, b.opts.Memory),
					errs.Hint("give index builds more memory, or choose another kind of index")))
				return nil
			}
			b.positions = append(b.positions, positions...)
			b.rows = append(b.rows, rows...)
			return nil
		}
		kind, err := b.newKind()
		if err != nil {
			return err
		}
		b.kind = kind
		err = kind.add(ctx, b.positions, b.rows)
		b.positions, b.rows = nil, nil
		if err != nil {
			return b.check(err)
		}
	}
	return b.check(b.kind.add(ctx, positions, rows))
}

// check keeps an error that means that these rows cannot have such an index apart from one that ends the build.
func (b *Builder) check(err error) error {
	if errs.Is(err, errs.Exhausted) || errs.Is(err, errs.Unsupported) {
		b.refuse(err)
		return nil
	}
	return err
}

// Took tells why the rows added since its last call can be no part of the index: their vectors have another number of
// dimensions than those before, or too many cannot be compared. nil: they are in it. The rows of later calls of Add may be in it
// again; of those that cannot, some may have been taken, so searches are not to allow their positions.
func (b *Builder) Took() error {
	err := b.odd
	if err != nil {
		b.others = b.others[:b.sure]
	}
	b.odd, b.sure = nil, len(b.others)
	return err
}

// Fits tells why the rows added cannot have such an index; nil when they can.
func (b *Builder) Fits() error { return cmp.Or(b.err, b.odd) }

// head is the first section of an artifact.
type head struct {
	Kind    Kind    `json:"kind"`    // as it was asked for
	Built   Kind    `json:"built"`   // as it is: flat when there are few vectors, lists where a graph finds no room in memory; bits, sparse
	Metric  string  `json:"metric"`  // l2, cosine, ip, l1, hamming or jaccard
	Dim     int     `json:"dim"`     // 0 without vectors
	Rows    int64   `json:"rows"`    // covered
	Vectors int64   `json:"vectors"` // in the index
	Nulls   int64   `json:"nulls"`
	Zeros   int64   `json:"zeros"`
	Longest float64 `json:"longest,omitempty"` // length of a vector in the index
}

// The sections that every artifact has: head as JSON; uint32 positions of the rows that are looked at in every search.
const (
	headSection   section.Kind = 1
	othersSection section.Kind = 2
)

// Finish writes the artifact of the given number of rows.
func (b *Builder) Finish(ctx context.Context, w io.Writer, rows int64) (Stats, error) {
	if err := cmp.Or(b.err, b.odd); err != nil {
		return Stats{}, err
	}
	h := head{Kind: b.opts.Kind, Metric: b.metric.String(), Dim: b.dim, Rows: rows, Vectors: b.stats.Vectors, Nulls: b.stats.Nulls, Zeros: b.stats.Zeros,
		Longest: math.Sqrt(float64(b.longest))}
	switch h.Built = b.built; {
	case b.form != nil:
		h.Built = b.form.built()
	case b.kind == nil:
		h.Built = Flat
	}
	text, err := json.Marshal(h)
	if err != nil {
		return Stats{}, errs.Wrap(errs.Internal, "vector.build", err)
	}
	out := section.NewWriter(w)
	out.Begin(headSection)
	out.Write(text)
	out.Begin(othersSection)
	out.Write(section.Bytes(b.others))
	switch {
	case b.form != nil:
		err = b.form.write(out)
	case b.kind == nil:
		err = flat.Write(out, b.positions, b.rows)
	default:
		err = b.kind.finish(ctx, out)
	}
	if err != nil {
		return Stats{}, err
	}
	b.stats.Rows = rows
	b.stats.Size, err = out.Close()
	return b.stats, err
}

// Close gives back what the build holds.
func (b *Builder) Close() error {
	b.positions, b.rows, b.form = nil, nil, nil
	if b.kind == nil {
		return nil
	}
	return b.kind.close()
}

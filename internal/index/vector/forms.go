package vector

import (
	"bytes"
	"context"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector/bits"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/index/vector/sparse"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/pgvector"
)

// Form is what the vectors of an index are.
type Form uint8

// The forms.
const (
	Dense  Form = iota // all elements, as float32
	Bits               // bit strings
	Sparse             // the elements that are not 0
)

// Indexes of these forms are built in one way, whatever kind is asked for.
const (
	bitRows  Kind = "bits"   // every row is compared
	postings Kind = "sparse" // posting lists
)

// form is the form of what a kind has built.
func (k Kind) form() Form {
	switch k {
	case bitRows:
		return Bits
	case postings:
		return Sparse
	}
	return Dense
}

// formKinds are the kinds that can be asked for.
func (f Form) kinds() []Kind {
	switch f {
	case Bits:
		return []Kind{Flat, HNSW, IVFFlat}
	case Sparse:
		return []Kind{Flat, HNSW}
	}
	return Kinds
}

// CheckForm refuses kinds and metrics that vectors of a form do not have. metric is the name of a metric or of an operator
// class, or empty; what is not the name of any is for CheckParam to refuse.
func CheckForm(f Form, kind Kind, metric string) error {
	const op = "vector.form"
	if !slices.Contains(f.kinds(), kind) {
		return errs.With(errs.Newf(errs.Unsupported, op, "an index of kind %s cannot be over %s", kind, f), errs.Hint("write USING %s", list(f.kinds())))
	}
	m, known := ParseMetric(metric)
	class, named := classForm(metric)
	switch {
	case metric == "" || !known:
		return nil
	case named && class != f:
		return errs.With(errs.Newf(errs.Unsupported, op, "the operator class %s is not for %s", metric, f), errs.Hint("write %s", f.classes()))
	case m.OfBits() != (f == Bits):
		return errs.With(errs.Newf(errs.Unsupported, op, "%s have no distance %s", f, m), errs.Hint("write %s", f.metrics()))
	}
	return nil
}

func list(kinds []Kind) string {
	out := ""
	for i, k := range kinds {
		switch {
		case i > 0 && i == len(kinds)-1:
			out += " or "
		case i > 0:
			out += ", "
		}
		out += string(k)
	}
	return out
}

// String names vectors of the form.
func (f Form) String() string {
	return [...]string{"vectors", "bit strings", "sparse vectors"}[f]
}

func (f Form) metrics() string {
	if f == Bits {
		return "hamming or jaccard"
	}
	return "l2, cosine, ip or l1"
}

func (f Form) classes() string {
	return [...]string{"vector_l2_ops, vector_cosine_ops, vector_ip_ops or vector_l1_ops", "bit_hamming_ops or bit_jaccard_ops",
		"sparsevec_l2_ops, sparsevec_cosine_ops, sparsevec_ip_ops or sparsevec_l1_ops"}[f]
}

// Metric is the metric of an index that is asked for without one.
func (f Form) Metric() vec.Metric {
	if f == Bits {
		return vec.MetricHamming
	}
	return vec.MetricL2
}

// Query is a vector to search for, in one of the forms.
type Query struct {
	Form   Form
	Floats []float32   // of Dense
	Bits   []byte      // of Bits, packed
	Count  int         // of Bits, how many
	Sparse *vec.Sparse // of Sparse
}

// DenseQuery is a query of floats.
func DenseQuery(v []float32) Query { return Query{Floats: v} }

// ParseQuery reads the text of a vector: [1,2], 0110 or {1:1.5,3:2}/5.
func ParseQuery(f Form, text string) (Query, error) {
	q := Query{Form: f}
	var err error
	switch f {
	case Bits:
		q.Count = len(text)
		q.Bits, err = pgvector.PackBits(text, nil)
	case Sparse:
		q.Sparse = new(vec.Sparse)
		err = pgvector.ParseSparse(text, q.Sparse)
	default:
		q.Floats, err = pgvector.Vector.Parse(text, nil)
	}
	return q, err
}

// Dim is the number of elements or bits.
func (q *Query) Dim() int {
	switch q.Form {
	case Bits:
		return q.Count
	case Sparse:
		return q.Sparse.Dim
	}
	return len(q.Floats)
}

// Equal tells whether two queries are one.
func (q *Query) Equal(o *Query) bool {
	if q.Form != o.Form || q.Dim() != o.Dim() {
		return false
	}
	switch q.Form {
	case Bits:
		return bytes.Equal(q.Bits, o.Bits)
	case Sparse:
		return slices.Equal(q.Sparse.Index, o.Sparse.Index) && slices.Equal(q.Sparse.Value, o.Sparse.Value)
	}
	return slices.Equal(q.Floats, o.Floats)
}

// length is the squared length, which bounds what a query may be.
func (q *Query) length() float32 {
	switch q.Form {
	case Bits:
		return 1
	case Sparse:
		return vec.Dot(q.Sparse.Value, q.Sparse.Value)
	}
	return vec.Dot(q.Floats, q.Floats)
}

// formBuilder builds an index of a form that is not dense.
type formBuilder interface {
	add(b *Builder, pos uint32, i int) error
	open(column arrow.Array) bool
	write(w *section.Writer) error
	built() Kind
}

// addForm takes the values of a column that are not dense vectors.
func (b *Builder) addForm(ctx context.Context, first int64, column arrow.Array) error {
	if !b.form.open(column) {
		return errs.Newf(errs.Invalid, "vector.build", "a column of %s holds no %s", column.DataType(), b.opts.Form)
	}
	if first+int64(column.Len()) > math.MaxUint32 {
		b.refuse(errs.New(errs.Unsupported, "vector.build", "more than 4,294,967,295 rows in one part of an index"))
		return nil
	}
	if err := ctx.Err(); err != nil {
		return errs.Wrap(errs.Canceled, "vector.build", err)
	}
	for i := range column.Len() {
		if column.IsNull(i) {
			b.stats.Nulls++
			continue
		}
		switch err := b.form.add(b, uint32(first+int64(i)), i); {
		case errs.Is(err, errs.Unsupported):
			b.odd = err
			return nil
		case err != nil:
			b.refuse(err)
			return nil
		}
	}
	return nil
}

// leave takes a row whose vector the index cannot compare.
func (b *Builder) leave(pos uint32) error {
	if b.others = append(b.others, pos); len(b.others) > maxOthers {
		return errs.Newf(errs.Unsupported, "vector.build", "more than %d vectors have elements that are no numbers, or are too large", maxOthers)
	}
	return nil
}

// differs is the error of a column with vectors of several dimensions.
func (b *Builder) differs(n int) error {
	return errs.With(errs.Newf(errs.Unsupported, "vector.build", "vectors of %d and of %d dimensions in one column", b.dim, n),
		errs.Hint("an index needs a column with a number of dimensions, such as vector(n) or sparsevec(n)"))
}

// bitBuilder builds an index over bit strings.
type bitBuilder struct {
	column    interface{ Value(int) []byte }
	positions []uint32
	rows      []byte
}

func (x *bitBuilder) open(column arrow.Array) (ok bool) {
	x.column, ok = column.(interface{ Value(int) []byte })
	return ok
}

func (x *bitBuilder) add(b *Builder, pos uint32, i int) error {
	packed := x.column.Value(i)
	if b.dim == 0 {
		return errs.New(errs.Unsupported, "vector.build", "bit strings of any number of bits in one column", errs.Hint("an index needs a column of type bit(n)"))
	}
	if pgvector.CheckPacked(packed, b.dim) != nil {
		return b.leave(pos) // who reads the row is told what is wrong
	}
	width := bits.Width(b.dim)
	if n := int64(len(x.positions) + 1); n*int64(width+4) > b.opts.Memory {
		return errs.With(errs.Newf(errs.Exhausted, "vector.build", "%d strings of %d bits do not fit into %d bytes", n, b.dim, b.opts.Memory),
			errs.Hint("give index builds more memory"))
	}
	x.positions = append(x.positions, pos)
	x.rows = append(x.rows, packed...)
	for len(x.rows) < len(x.positions)*width {
		x.rows = append(x.rows, 0)
	}
	b.stats.Vectors++
	return nil
}

func (x *bitBuilder) write(w *section.Writer) error { return bits.Write(w, x.positions, x.rows) }
func (x *bitBuilder) built() Kind                   { return bitRows }

// sparseBuilder builds an index over sparse vectors.
type sparseBuilder struct {
	x               *sparse.Builder
	size            *array.Int32
	indices, values *array.List
	places          *array.Int32
	numbers         *array.Float32
}

func (x *sparseBuilder) open(column arrow.Array) bool {
	s, ok := column.(*array.Struct)
	if !ok || s.NumField() != 3 {
		return false
	}
	var ok1, ok2, ok3, ok4, ok5 bool
	x.size, ok1 = s.Field(0).(*array.Int32)
	x.indices, ok2 = s.Field(1).(*array.List)
	x.values, ok3 = s.Field(2).(*array.List)
	if !ok1 || !ok2 || !ok3 {
		return false
	}
	x.places, ok4 = x.indices.ListValues().(*array.Int32)
	x.numbers, ok5 = x.values.ListValues().(*array.Float32)
	return ok4 && ok5
}

func (x *sparseBuilder) add(b *Builder, pos uint32, i int) error {
	if x.size.IsNull(i) || x.indices.IsNull(i) || x.values.IsNull(i) {
		return b.leave(pos)
	}
	lo, hi := x.indices.ValueOffsets(i)
	from, to := x.values.ValueOffsets(i)
	for k := lo; k < hi && x.places.NullN() > 0; k++ {
		if x.places.IsNull(int(k)) {
			return b.leave(pos)
		}
	}
	if x.numbers.NullN() > 0 && hasNull(x.numbers, from, to) {
		return b.leave(pos)
	}
	v := vec.Sparse{Dim: int(x.size.Value(i)), Index: x.places.Int32Values()[lo:hi], Value: x.numbers.Float32Values()[from:to]}
	if pgvector.CheckSparse(&v) != nil {
		return b.leave(pos) // who reads the row is told what is wrong
	}
	if b.dim == 0 {
		b.dim = v.Dim
	}
	if v.Dim != b.dim {
		return b.differs(v.Dim)
	}
	square := vec.Dot(v.Value, v.Value)
	switch {
	case !(square <= farthest):
		return b.leave(pos)
	case b.metric != vec.MetricCosine || square >= shortest:
	case len(v.Value) == 0:
		b.stats.Zeros++
		return nil
	default:
		return b.leave(pos)
	}
	b.stats.Vectors++
	return x.x.Add(pos, &v)
}

func (x *sparseBuilder) write(w *section.Writer) error { return x.x.Write(w) }
func (x *sparseBuilder) built() Kind                   { return postings }

// openForm opens an index of a form that is not dense.
func openForm(ctx context.Context, f *section.File, h *head, m vec.Metric) (kindReader, error) {
	if h.Built == bitRows {
		x, err := bits.Open(ctx, f, m, max(h.Dim, 1), h.Rows)
		if err != nil {
			return nil, err
		}
		return bitReader{x}, sameCount(int64(x.Len()), h)
	}
	x, err := sparse.Open(ctx, f, m, h.Dim, h.Rows)
	if err != nil {
		return nil, err
	}
	return sparseReader{x, m}, sameCount(int64(x.Len()), h)
}

type bitReader struct{ x *bits.Index }

func (r bitReader) search(ctx context.Context, q Query, p Params) ([]Hit, Work, error) {
	hits, n, err := r.x.Search(ctx, q.Bits, bits.Params{K: p.K, Allowed: p.Allowed, Ranged: p.Ranged, Within: p.within(vec.MetricHamming)})
	out := make([]Hit, len(hits))
	for i, h := range hits {
		out[i] = Hit{int64(h.Pos), h.Distance}
	}
	return out, Work{Distances: n, Reranked: n, Strategy: "all compared"}, err
}

func (r bitReader) memory() int64 { return r.x.Memory() }
func (r bitReader) exact() bool   { return true }

type sparseReader struct {
	x      *sparse.Index
	metric vec.Metric
}

func (r sparseReader) search(ctx context.Context, q Query, p Params) ([]Hit, Work, error) {
	hits, w, err := r.x.Search(ctx, q.Sparse, sparse.Params{K: p.K, Allowed: p.Allowed, AllowedCount: p.AllowedCount, Ranged: p.Ranged, Within: p.within(r.metric)})
	out := make([]Hit, len(hits))
	for i, h := range hits {
		out[i] = Hit{int64(h.Pos), h.Distance}
	}
	work := Work{Distances: w.Postings + w.Rows, Reranked: w.Rows, Strategy: "posting lists"}
	if w.Scan {
		work.Strategy = "all compared"
	}
	return out, work, err
}

func (r sparseReader) memory() int64 { return r.x.Memory() }
func (r sparseReader) exact() bool   { return true }

package datafile

import (
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/overlakedb/overlake/internal/errs"
)

// Codec names a compression of pages.
type Codec string

// The codecs that every reader of Iceberg tables knows.
const (
	Zstd         Codec = "zstd"
	Snappy       Codec = "snappy"
	Gzip         Codec = "gzip"
	Uncompressed Codec = "uncompressed"
)

var codecs = map[Codec]compress.Compression{
	"": compress.Codecs.Zstd, Zstd: compress.Codecs.Zstd, Snappy: compress.Codecs.Snappy, Gzip: compress.Codecs.Gzip,
	Uncompressed: compress.Codecs.Uncompressed,
}

// VectorEncoding says how the elements of lists of float32 are stored.
type VectorEncoding uint8

const (
	// VectorsPlain stores them as they are in memory, uncompressed.
	VectorsPlain VectorEncoding = iota
	// VectorsSplit stores their bytes apart (BYTE_STREAM_SPLIT) and compresses them: 7 % smaller, 1.6 times the work to
	// write, 1.4 times the work to read (docs/format/data-files.md has the measurement).
	VectorsSplit
)

// WriterOptions shape a file. The zero value is usable.
type WriterOptions struct {
	// RowGroupRows bounds the rows of a row group; 0 means 122,880, the unit in which DuckDB shares a file among threads
	// and skips what a filter excludes.
	RowGroupRows int64
	// RowGroupBytes bounds a row group, in encoded bytes, and so the memory of the writer, which holds one group; 0 means
	// 128 MiB.
	RowGroupBytes int64
	// PageBytes is the size that a page is closed at, before compression; 0 means 24 KiB, the unit of a point fetch. Pages of
	// wide values are up to three times as large.
	PageBytes int64
	// Codec compresses the pages; "" means zstd. Vectors are left alone unless they are split.
	Codec Codec
	// Vectors is the storage of lists of float32; the zero value is VectorsPlain.
	Vectors VectorEncoding
	// Bloom lists the columns that get a bloom filter: names of top-level columns, or paths of leaves as in "s.x" or
	// "tags.list.element".
	Bloom []string
	// Allocator serves the buffers; nil means Go's.
	Allocator memory.Allocator
}

// Meta describes a finished file.
type Meta struct {
	Rows int64
	Size int64 // bytes
	// SplitOffsets are the offsets of the row groups, ascending: where readers may divide the file.
	SplitOffsets []int64
	// Columns is by field id and has all leaves; it is empty for a schema without ids.
	Columns map[int]ColumnStats
	// Footer is the Parquet metadata, opaque to other rooms: the lake hands it on to compute Iceberg statistics.
	Footer any
}

// Writer writes one file. It is not safe for concurrent use. After an error it only gives that error.
type Writer struct {
	opts    WriterOptions
	layout  *layout
	out     *sink
	props   []parquet.WriterProperty
	fw      *pqarrow.FileWriter // nil until the first rows
	tallies []*tally
	groups  int
	inGroup int64 // rows of the row group that is open
	rows    int64
	err     error
	closed  bool
}

// sink counts what goes to the file and keeps the error of its writer, which the library does not always hand on.
type sink struct {
	w   io.Writer
	n   int64
	err error
}

func (s *sink) Write(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.w.Write(p)
	s.n += int64(n)
	s.err = err
	return n, err
}

// The library counts row groups in 16 bits.
const maxRowGroups = 32000

// stepRows bounds the rows that are handed to the library at once, so that row groups end near their limit in bytes.
const stepRows = 16384

// NewWriter starts a file of the schema. What cannot be stored is refused here: types without an Iceberg type are
// Unsupported and named. The batches written later need the schema's types, except that fixed-size lists, dictionaries and
// other time zones are taken for what they stand for. The writer below is neither closed nor synced.
func NewWriter(w io.Writer, sc *arrow.Schema, opts WriterOptions) (_ *Writer, err error) {
	defer guard(errs.Internal, "datafile.write", &err)
	if opts.RowGroupRows <= 0 {
		opts.RowGroupRows = 122_880
	}
	if opts.RowGroupBytes <= 0 {
		opts.RowGroupBytes = 128 << 20
	}
	if opts.PageBytes <= 0 {
		opts.PageBytes = 24 << 10
	}
	if opts.Allocator == nil {
		opts.Allocator = memory.DefaultAllocator
	}
	l, err := plan(sc)
	if err != nil {
		return nil, err
	}
	wr := &Writer{opts: opts, layout: l, out: &sink{w: w}, tallies: make([]*tally, len(l.leaves))}
	if wr.props, err = l.properties(opts); err != nil {
		return nil, err
	}
	if _, err := pqarrow.ToParquet(l.schema, parquet.NewWriterProperties(wr.props...), wr.arrowProperties()); err != nil {
		return nil, wrap(errs.Unsupported, "datafile.write", err)
	}
	for i, x := range l.leaves {
		wr.tallies[i] = newTally(x)
	}
	return wr, nil
}

func (w *Writer) arrowProperties() pqarrow.ArrowWriterProperties {
	return pqarrow.NewArrowWriterProperties(pqarrow.WithAllocator(w.opts.Allocator))
}

// start begins the file, with dictionaries for the columns that the first rows speak for.
func (w *Writer) start(cols []arrow.Array) error {
	props, at, largest := w.props, 0, float64(smallDictionary)
	for _, c := range cols {
		eachLeaf(c, func(a arrow.Array, _ int64) {
			x := w.layout.leaves[at]
			at++
			if x.vector || w.layout.shared[x.path] {
				return
			}
			r, ok := sample(a, w.opts.RowGroupRows)
			switch _, fixed := x.typ.(arrow.FixedWidthDataType); {
			case ok:
				props = append(props, parquet.WithDictionaryFor(x.path, r.worthwhile()))
				if r.worthwhile() {
					largest = max(largest, 2*r.dictionary) // it was an estimate
				}
			case fixed:
				// The library finds out by itself, on its first page, whether a dictionary of numbers pays.
				props = append(props, parquet.WithDictionaryCostFallbackFor(x.path, true))
			}
		})
	}
	props = append(props, parquet.WithDictionaryPageSizeLimit(int64(min(largest, largeDictionary))))
	fw, err := pqarrow.NewFileWriter(w.layout.schema, w.out, parquet.NewWriterProperties(props...), w.arrowProperties())
	if err != nil {
		return w.failed(err)
	}
	w.fw = fw
	return nil
}

// properties are the library's options for the layout.
func (l *layout) properties(opts WriterOptions) ([]parquet.WriterProperty, error) {
	codec, ok := codecs[opts.Codec]
	if !ok {
		return nil, errs.New(errs.Unsupported, "datafile.write", fmt.Sprintf("the codec %q", string(opts.Codec)),
			errs.Hint("use zstd, snappy, gzip or uncompressed"))
	}
	if opts.Vectors > VectorsSplit {
		return nil, errs.Newf(errs.Unsupported, "datafile.write", "the vector encoding %d", opts.Vectors)
	}
	props := []parquet.WriterProperty{
		parquet.WithAllocator(opts.Allocator),
		parquet.WithCompression(codec),
		parquet.WithDataPageVersion(parquet.DataPageV2),
		parquet.WithPageIndexEnabled(true),
		parquet.WithDataPageSize(opts.PageBytes),
		parquet.WithBatchSize(opts.valuesPerLook()),
		parquet.WithMaxRowGroupLength(opts.RowGroupRows),
		parquet.WithVersion(parquet.V2_LATEST),
		parquet.WithStoreDecimalAsInteger(true), // as Iceberg prescribes up to 18 digits
		parquet.WithRootRepetition(parquet.Repetitions.Required),
		parquet.WithCreatedBy("overlake"),
	}
	for _, x := range l.leaves {
		if l.shared[x.path] {
			continue
		}
		if !x.vector {
			continue
		}
		// Bounds over all elements of all vectors tell nothing and cost a pass over them.
		props = append(props, parquet.WithDictionaryFor(x.path, false), parquet.WithStatsFor(x.path, false))
		if opts.Vectors == VectorsSplit {
			props = append(props, parquet.WithEncodingFor(x.path, parquet.Encodings.ByteStreamSplit))
		} else {
			props = append(props, parquet.WithCompressionFor(x.path, compress.Codecs.Uncompressed))
		}
	}
	for _, name := range opts.Bloom {
		x, ok := l.named(name)
		switch {
		case !ok:
			return nil, errs.New(errs.Invalid, "datafile.write", "a bloom filter needs a column, or the path of a value within one", errs.On(name))
		case l.shared[x.path]:
			return nil, errs.New(errs.Unsupported, "datafile.write", "a bloom filter on one of two columns of the same path", errs.On(name))
		case x.typ.ID() == arrow.BOOL:
			return nil, errs.New(errs.Unsupported, "datafile.write", "a bloom filter on a boolean", errs.On(name))
		}
		props = append(props, parquet.WithBloomFilterEnabledFor(x.path, true), parquet.WithAdaptiveBloomFilterEnabledFor(x.path, true))
	}
	return props, nil
}

// named finds a leaf by its path, or as the only leaf of a top-level column.
func (l *layout) named(name string) (leaf, bool) {
	for _, x := range l.leaves {
		if x.path == name {
			return x, true
		}
	}
	at := 0
	for _, f := range l.schema.Fields() {
		n := leafCount(f.Type)
		if f.Name == name && n == 1 {
			return l.leaves[at], true
		}
		at += n
	}
	return leaf{}, false
}

func leafCount(t arrow.DataType) int {
	if n, ok := nestedType(t); ok {
		total := 0
		for _, f := range n.Fields() {
			total += leafCount(f.Type)
		}
		return total
	}
	return 1
}

// Write adds the rows of a batch. The batch is the caller's again when Write returns.
func (w *Writer) Write(rec arrow.RecordBatch) (err error) {
	if w.closed {
		return errs.New(errs.Internal, "datafile.write", "the file is already finished")
	}
	if w.err != nil {
		return w.err
	}
	defer func() { w.err = err }()
	defer guard(errs.Internal, "datafile.write", &err)
	sc := w.layout.schema
	if int(rec.NumCols()) != sc.NumFields() {
		return errs.Newf(errs.Invalid, "datafile.write", "the batch has %d columns and the file has %d", rec.NumCols(), sc.NumFields())
	}
	if rec.NumRows() == 0 {
		return nil
	}
	cols := make([]arrow.Array, sc.NumFields())
	defer func() {
		for _, c := range cols {
			if c != nil {
				c.Release()
			}
		}
	}()
	at := 0
	for i, f := range sc.Fields() {
		if have := rec.ColumnName(i); have != f.Name {
			return invalid("datafile.write", have, "the column stands where the file has %s", f.Name)
		}
		if cols[i], err = shape(w.opts.Allocator, rec.Column(i), f, f.Name); err != nil {
			return err
		}
		n, err := count(w.opts.Allocator, cols[i], f.Type, w.tallies[at:])
		if err != nil {
			return errs.With(err, errs.On(f.Name))
		}
		at += n
	}
	return w.add(cols, rec.NumRows())
}

// add hands planned columns to the library, step by step, and ends row groups at their limits.
func (w *Writer) add(cols []arrow.Array, rows int64) error {
	if w.fw == nil {
		if err := w.start(cols); err != nil {
			return err
		}
	}
	rec := array.NewRecordBatch(w.layout.schema, cols, rows)
	defer rec.Release()
	step := w.step(cols, rows)
	for at := int64(0); at < rows; {
		if w.inGroup == 0 || w.inGroup >= w.opts.RowGroupRows || w.fw.RowGroupTotalBytesWritten() >= w.opts.RowGroupBytes {
			if w.groups == maxRowGroups {
				return errs.With(errs.Newf(errs.Exhausted, "datafile.write", "the file has %d row groups, the most there can be", maxRowGroups),
					errs.Hint("write larger row groups or more files"))
			}
			if err := w.fw.NewBufferedRowGroupChecked(); err != nil {
				return w.failed(err)
			}
			w.groups++
			w.inGroup = 0
		}
		n := min(rows-at, step, w.opts.RowGroupRows-w.inGroup)
		part := rec.NewSlice(at, at+n)
		err := w.fw.WriteBuffered(part)
		part.Release()
		if err != nil {
			return w.failed(err)
		}
		at += n
		w.inGroup += n
		w.rows += n
	}
	return nil
}

// valuesPerLook is how many values of a column the library takes before it looks whether the page is full: enough of eight
// bytes for a third of a page. It is also the fewest that a page of a column of short texts has.
func (o WriterOptions) valuesPerLook() int64 { return min(max((o.PageBytes+23)/24, 16), 1024) }

// step is how many rows to hand over at once. Values so wide that valuesPerLook of them overfill a page threefold are handed
// over in fewer, for pages of that size, and no step is more than an eighth of a row group.
func (w *Writer) step(cols []arrow.Array, rows int64) int64 {
	step, total := int64(stepRows), int64(0)
	for _, c := range cols {
		eachLeaf(c, func(a arrow.Array, size int64) {
			total += size
			if n := int64(a.Len()); n > 0 && size/n*w.opts.valuesPerLook() > 3*w.opts.PageBytes {
				step = min(step, 3*w.opts.PageBytes*rows/size)
			}
		})
	}
	if total > w.opts.RowGroupBytes/8 {
		step = min(step, w.opts.RowGroupBytes/8*rows/total)
	}
	return max(step, 1)
}

// eachLeaf gives the leaves of a planned column, in Parquet's order, with the bytes of their values.
func eachLeaf(a arrow.Array, yield func(a arrow.Array, size int64)) {
	switch x := a.(type) {
	case *array.Struct:
		for i := range x.NumField() {
			eachLeaf(x.Field(i), yield)
		}
	case array.ListLike:
		first, last := int64(0), int64(0)
		if n := x.Len(); n > 0 {
			first, _ = x.ValueOffsets(0)
			_, last = x.ValueOffsets(n - 1)
		}
		window := array.NewSlice(x.ListValues(), first, last)
		defer window.Release()
		eachLeaf(window, yield)
	case array.ExtensionArray:
		eachLeaf(x.Storage(), yield)
	case *array.String:
		yield(a, int64(len(x.ValueBytes())))
	case *array.LargeString:
		yield(a, int64(len(x.ValueBytes())))
	case *array.Binary:
		yield(a, int64(len(x.ValueBytes())))
	case *array.LargeBinary:
		yield(a, int64(len(x.ValueBytes())))
	default:
		if t, ok := a.DataType().(arrow.FixedWidthDataType); ok {
			yield(a, int64(a.Len())*int64(t.BitWidth())/8)
		}
	}
}

// failed prefers the error of the writer below, which says why.
func (w *Writer) failed(err error) error {
	if w.out.err != nil {
		return wrap(errs.Unavailable, "datafile.write", w.out.err)
	}
	return wrap(errs.Internal, "datafile.write", err)
}

// Rows is the number of rows so far.
func (w *Writer) Rows() int64 { return w.rows }

// Bytes is about the size of the file so far, what is buffered included.
func (w *Writer) Bytes() int64 {
	if w.closed || w.fw == nil {
		return w.out.n
	}
	return w.out.n + w.fw.RowGroupTotalCompressedBytes()
}

// Close finishes the file and describes it. After an error of Write it gives that error and the file is of no use.
func (w *Writer) Close() (m Meta, err error) {
	if w.closed {
		return Meta{}, errs.New(errs.Internal, "datafile.write", "the file is already finished")
	}
	if w.err != nil {
		w.Abort()
		return Meta{}, w.err
	}
	w.closed = true
	defer guard(errs.Internal, "datafile.write", &err)
	if w.fw == nil {
		if err := w.start(nil); err != nil {
			return Meta{}, err
		}
	}
	if err := w.fw.Close(); err != nil {
		return Meta{}, w.failed(err)
	}
	footer, err := w.fw.FileMetadata()
	if err != nil {
		return Meta{}, w.failed(err)
	}
	m = Meta{Rows: w.rows, Size: w.out.n, Footer: footer, Columns: make(map[int]ColumnStats, len(w.tallies))}
	stats := make([]ColumnStats, len(w.tallies))
	for g := range footer.NumRowGroups() {
		rg := footer.RowGroup(g)
		start := m.Size
		for i := range stats {
			c, err := rg.ColumnChunk(i)
			if err != nil {
				return Meta{}, w.failed(err)
			}
			start = min(start, chunkStart(c))
			stats[i].Values += c.NumValues()
			stats[i].Bytes += c.TotalCompressedSize()
		}
		m.SplitOffsets = append(m.SplitOffsets, start)
	}
	for i, x := range w.layout.leaves {
		t, s := w.tallies[i], &stats[i]
		s.FieldID, s.Nulls, s.NaNs = x.id, s.Values-t.present, t.nans
		if t.bounds != nil {
			s.Lower, s.Upper = t.bounds.result()
		}
		if x.id > 0 {
			m.Columns[x.id] = *s
		}
	}
	return m, nil
}

// Abort gives the memory back without finishing the file; what was written below stays as it is. It may follow anything.
func (w *Writer) Abort() {
	if w.closed {
		return
	}
	w.closed = true
	if w.fw == nil {
		return
	}
	var err error
	defer guard(errs.Internal, "datafile.write", &err)
	w.out.w, w.out.err = io.Discard, nil
	_ = w.fw.Close() // writes the rest to nowhere, which is how the library frees its buffers
}

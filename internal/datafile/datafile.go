// Package datafile answers: how do rows become the bytes of a data file, and which rows are at these positions?
//
// A Writer turns Arrow batches into one Parquet file: zstd, V2 data pages, always with a page index, rows never split
// across pages, Iceberg field ids on every node. Lists of float32 (vectors) are stored uncompressed, because random
// mantissas do not compress and decoding is then a copy.
//
// A File reads: its schema, all rows of chosen columns in order, or the rows at given positions.
//
// Parquet files come from outside, so every entry into the Parquet library recovers: bytes that are not what the format
// says are Corrupt, never a panic.
package datafile

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/overlakedb/overlake/internal/errs"
)

// FieldIDKey is the Arrow field metadata that carries an Iceberg field id.
const FieldIDKey = "PARQUET:field_id"

// WriterOptions shape a file. The zero value is usable.
type WriterOptions struct {
	// RowGroupRows bounds a row group; 0 means 122,880: enough rows for compression and few enough that two threads
	// share a file of a million rows evenly.
	RowGroupRows int64
	// PageBytes is the size that a page is closed at; 0 means 64 KiB, the unit of a point fetch.
	PageBytes int64
	// Bloom lists the paths of the columns that get a bloom filter.
	Bloom []string
}

// Meta describes a finished file.
type Meta struct {
	Rows int64
	Size int64
	// Footer is the Parquet metadata, opaque to other rooms: the lake hands it on to compute Iceberg statistics.
	Footer any
}

// Writer writes one file. It is not safe for concurrent use.
type Writer struct {
	w       *counter
	fw      *pqarrow.FileWriter
	schema  *arrow.Schema
	group   int64
	inGroup int64
	rows    int64
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// NewWriter starts a file of the schema. Fixed-size lists must have become lists (see Conform): the Parquet library
// ignores their offsets. Float16 has no Iceberg type and is refused.
func NewWriter(w io.Writer, sc *arrow.Schema, opts WriterOptions) (*Writer, error) {
	if opts.RowGroupRows <= 0 {
		opts.RowGroupRows = 122_880
	}
	if opts.PageBytes <= 0 {
		opts.PageBytes = 64 << 10
	}
	props := []parquet.WriterProperty{
		parquet.WithCompression(compress.Codecs.Zstd),
		parquet.WithDataPageVersion(parquet.DataPageV2),
		parquet.WithPageIndexEnabled(true),
		parquet.WithDataPageSize(opts.PageBytes),
		parquet.WithMaxRowGroupLength(opts.RowGroupRows),
		parquet.WithVersion(parquet.V2_LATEST),
		parquet.WithCreatedBy("overlake"),
	}
	for _, f := range sc.Fields() {
		if err := writable(f.Name, f.Type); err != nil {
			return nil, err
		}
		if l, ok := f.Type.(*arrow.ListType); ok && l.Elem().ID() == arrow.FLOAT32 {
			path := parquet.ColumnPath{f.Name, "list", "element"}
			props = append(props, parquet.WithCompressionPath(path, compress.Codecs.Uncompressed), parquet.WithDictionaryPath(path, false),
				parquet.WithStatsPath(path, false))
		}
	}
	for _, b := range opts.Bloom {
		props = append(props, parquet.WithBloomFilterEnabledFor(b, true))
	}
	c := &counter{w: w}
	fw, err := pqarrow.NewFileWriter(sc, c, parquet.NewWriterProperties(props...), pqarrow.NewArrowWriterProperties())
	if err != nil {
		return nil, errs.Wrap(errs.Unsupported, "datafile.write", err)
	}
	return &Writer{w: c, fw: fw, schema: sc, group: opts.RowGroupRows}, nil
}

func writable(name string, t arrow.DataType) error {
	switch t := t.(type) {
	case *arrow.Float16Type:
		return errs.New(errs.Unsupported, "datafile.write", "half-precision floats have no Iceberg type", errs.On(name), errs.Hint("cast the column to FLOAT"))
	case *arrow.FixedSizeListType:
		return errs.New(errs.Internal, "datafile.write", "a fixed-size list reached the writer", errs.On(name))
	case arrow.NestedType:
		for _, f := range t.Fields() {
			if err := writable(name+"."+f.Name, f.Type); err != nil {
				return err
			}
		}
	}
	return nil
}

// Write adds the rows of a batch of the writer's schema. Batches are cut at row-group limits here, so that the library
// never has to.
func (w *Writer) Write(rec arrow.RecordBatch) (err error) {
	defer guard("datafile.write", &err)
	for at := int64(0); at < rec.NumRows(); {
		if w.inGroup == w.group {
			w.fw.NewBufferedRowGroup()
			w.inGroup = 0
		}
		n := min(rec.NumRows()-at, w.group-w.inGroup)
		part := rec.NewSlice(at, at+n)
		err := w.fw.WriteBuffered(part)
		part.Release()
		if err != nil {
			return wrapIO("datafile.write", err)
		}
		at += n
		w.inGroup += n
		w.rows += n
	}
	return nil
}

// Rows is the number of rows so far.
func (w *Writer) Rows() int64 { return w.rows }

// Bytes is about the size of the file so far, what is buffered included.
func (w *Writer) Bytes() int64 { return w.w.n + w.fw.RowGroupTotalBytesWritten() }

// Close finishes the file. It does not close the writer below.
func (w *Writer) Close() (m Meta, err error) {
	defer guard("datafile.write", &err)
	if err := w.fw.Close(); err != nil {
		return Meta{}, wrapIO("datafile.write", err)
	}
	footer, err := w.fw.FileMetadata()
	if err != nil {
		return Meta{}, errs.Wrap(errs.Internal, "datafile.write", err)
	}
	return Meta{Rows: w.rows, Size: w.w.n, Footer: footer}, nil
}

func wrapIO(op string, err error) error {
	var e *errs.Error
	if errors.As(err, &e) {
		return errs.Wrap(e.Kind, op, err, errs.Hint("%s", e.Hint))
	}
	return errs.Wrap(errs.Unavailable, op, err)
}

// guard turns a panic of the Parquet library into an error.
func guard(op string, err *error) {
	if p := recover(); p != nil {
		*err = errs.Newf(errs.Corrupt, op, "the Parquet library failed: %v", p)
	}
}

// File is an opened data file. It is safe for concurrent use.
type File struct {
	r      *file.Reader
	schema *arrow.Schema
}

// maxFooter bounds the footer of a file we are willing to read, in bytes.
const maxFooter = 256 << 20

// Open reads the footer of a file of the given size.
func Open(r io.ReaderAt, size int64) (f *File, err error) {
	defer guard("datafile.open", &err)
	if size < 12 {
		return nil, errs.New(errs.Corrupt, "datafile.open", "the file is too short for Parquet")
	}
	var tail [8]byte
	if _, err := r.ReadAt(tail[:], size-8); err != nil && err != io.EOF {
		return nil, wrapIO("datafile.open", err)
	}
	n := int64(tail[0]) | int64(tail[1])<<8 | int64(tail[2])<<16 | int64(tail[3])<<24
	switch magic := string(tail[4:]); {
	case magic == "PARE":
		return nil, errs.New(errs.Unsupported, "datafile.open", "the Parquet file is encrypted")
	case magic != "PAR1":
		return nil, errs.New(errs.Corrupt, "datafile.open", "the Parquet file does not end in its magic bytes")
	case n > size-12 || n > maxFooter:
		return nil, errs.New(errs.Corrupt, "datafile.open", "the footer of the Parquet file is longer than the file")
	}
	props := parquet.NewReaderProperties(memory.DefaultAllocator)
	props.BufferedStreamEnabled = true // else every seek loads the whole column chunk
	props.BufferSize = 64 << 10
	pr, err := file.NewParquetReader(io.NewSectionReader(r, 0, size), file.WithReadProps(props))
	if err != nil {
		return nil, corrupt("datafile.open", err)
	}
	fr, err := pqarrow.NewFileReader(pr, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		return nil, corrupt("datafile.open", err)
	}
	sc, err := fr.Schema()
	if err != nil {
		return nil, corrupt("datafile.open", err)
	}
	return &File{r: pr, schema: sc}, nil
}

func corrupt(op string, err error) error {
	var e *errs.Error
	if errors.As(err, &e) {
		return wrapIO(op, err)
	}
	return errs.Wrap(errs.Corrupt, op, err)
}

// Schema has the columns of the file with their field ids.
func (f *File) Schema() *arrow.Schema { return f.schema }

// Rows is the number of rows.
func (f *File) Rows() int64 { return f.r.NumRows() }

// Footer is the Parquet metadata, opaque as in Meta.
func (f *File) Footer() any { return f.r.MetaData() }

// HasFieldIDs reports whether any column carries a field id; files of migrated tables have none.
func (f *File) HasFieldIDs() bool {
	var any func(n schema.Node) bool
	any = func(n schema.Node) bool {
		if n.FieldID() > 0 {
			return true
		}
		if g, ok := n.(*schema.GroupNode); ok {
			for i := range g.NumFields() {
				if any(g.Field(i)) {
					return true
				}
			}
		}
		return false
	}
	root := f.r.MetaData().Schema.Root()
	for i := range root.NumFields() {
		if any(root.Field(i)) {
			return true
		}
	}
	return false
}

// leaves are the leaf columns below the named top-level columns, in file order; nil means all.
func (f *File) leaves(columns []string) ([]int, error) {
	sc := f.r.MetaData().Schema
	var out []int
	found := map[string]bool{}
	for i := range sc.NumColumns() {
		top := sc.ColumnRoot(i).Name()
		if columns == nil || slices.Contains(columns, top) {
			out = append(out, i)
			found[top] = true
		}
	}
	for _, c := range columns {
		if !found[c] {
			return nil, errs.New(errs.NotFound, "datafile.read", "the file has no such column", errs.On(c))
		}
	}
	return out, nil
}

func (f *File) reader(ctx context.Context, columns []string, groups []int, batch int64) (rr pqarrow.RecordReader, err error) {
	defer guard("datafile.read", &err)
	leaves, err := f.leaves(columns)
	if err != nil {
		return nil, err
	}
	fr, err := pqarrow.NewFileReader(f.r, pqarrow.ArrowReadProperties{BatchSize: batch}, memory.DefaultAllocator)
	if err != nil {
		return nil, corrupt("datafile.read", err)
	}
	rr, err = fr.GetRecordReader(ctx, leaves, groups)
	if err != nil {
		return nil, corrupt("datafile.read", err)
	}
	return rr, nil
}

// Read gives all rows of the named top-level columns, nil meaning all, in file order and column order of the file.
func (f *File) Read(ctx context.Context, columns []string, batchRows int64) (array.RecordReader, error) {
	if batchRows <= 0 {
		batchRows = 8192
	}
	rr, err := f.reader(ctx, columns, nil, batchRows)
	if err != nil {
		return nil, err
	}
	return &guarded{RecordReader: rr, ctx: ctx}, nil
}

// guarded keeps panics of the Parquet library and cancellation away from the caller.
type guarded struct {
	pqarrow.RecordReader
	ctx context.Context
	err error
}

func (g *guarded) Next() (ok bool) {
	defer func() {
		guard("datafile.read", &g.err)
		ok = ok && g.err == nil
	}()
	if g.err != nil {
		return false
	}
	if err := g.ctx.Err(); err != nil {
		g.err = errs.Wrap(errs.Canceled, "datafile.read", err)
		return false
	}
	if g.RecordReader.Next() {
		return true
	}
	if err := g.RecordReader.Err(); err != nil && err != io.EOF {
		g.err = corrupt("datafile.read", err)
	}
	return false
}

func (g *guarded) Err() error { return g.err }

// nearRows is the distance between two wanted rows up to which reading on is cheaper than seeking anew.
const nearRows = 256

// Fetch gives the rows at the positions, in the order of the positions, with the named top-level columns, nil meaning
// all. It reads through the page index where the file has one. A position outside the file is Invalid.
func (f *File) Fetch(ctx context.Context, positions []int64, columns []string) (rec arrow.RecordBatch, err error) {
	defer guard("datafile.fetch", &err)
	sorted := slices.Clone(positions)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	if len(sorted) > 0 && (sorted[0] < 0 || sorted[len(sorted)-1] >= f.Rows()) {
		return nil, errs.Newf(errs.Invalid, "datafile.fetch", "the file has %d rows, position %d or %d is outside", f.Rows(), sorted[0], sorted[len(sorted)-1])
	}
	var parts []arrow.RecordBatch
	defer func() {
		for _, p := range parts {
			p.Release()
		}
	}()
	base, at := int64(0), 0
	for g := range f.r.NumRowGroups() {
		end := base + f.r.MetaData().RowGroup(g).NumRows()
		for at < len(sorted) && sorted[at] < end {
			first := at
			for at++; at < len(sorted) && sorted[at] < end && sorted[at]-sorted[at-1] <= nearRows; at++ {
			}
			run, err := f.fetchRun(ctx, g, base, sorted[first:at], columns)
			if err != nil {
				return nil, err
			}
			parts = append(parts, run...)
		}
		base = end
	}
	if len(parts) == 0 {
		return f.empty(columns)
	}
	return reorder(ctx, parts, sorted, positions)
}

// fetchRun reads neighbouring rows of one row group. Every run has a reader of its own: seeking twice with one reader
// fails on list columns.
func (f *File) fetchRun(ctx context.Context, group int, base int64, rows []int64, columns []string) ([]arrow.RecordBatch, error) {
	lo, hi := rows[0]-base, rows[len(rows)-1]-base+1
	rr, err := f.reader(ctx, columns, []int{group}, hi-lo)
	if err != nil {
		return nil, err
	}
	defer rr.Release()
	// Pages of files that are not ours need not begin at a row, and seeking in such lists goes wrong silently, so only
	// files with V2 pages and an index are seeked; the others are read from the start of the group.
	skip := lo
	if f.seekable(group) {
		if err := rr.SeekToRow(lo); err != nil {
			return nil, corrupt("datafile.fetch", err)
		}
		skip = 0
	}
	var out []arrow.RecordBatch
	seen, k := int64(0), 0
	for k < len(rows) && rr.Next() {
		rec := rr.RecordBatch()
		for ; k < len(rows) && rows[k]-base-lo+skip < seen+rec.NumRows(); k++ {
			i := rows[k] - base - lo + skip - seen
			out = append(out, rec.NewSlice(i, i+1))
		}
		seen += rec.NumRows()
	}
	if err := rr.Err(); err != nil && err != io.EOF {
		return nil, corrupt("datafile.fetch", err)
	}
	if k < len(rows) {
		return nil, errs.New(errs.Corrupt, "datafile.fetch", "a row group holds fewer rows than it says")
	}
	return out, nil
}

func (f *File) seekable(group int) bool {
	md := f.r.MetaData()
	if md.GetCreatedBy() != "overlake" {
		return false
	}
	c, err := md.RowGroup(group).ColumnChunk(0)
	return err == nil && c.GetOffsetIndexLocation() != nil
}

func (f *File) empty(columns []string) (arrow.RecordBatch, error) {
	var fields []arrow.Field
	for _, fd := range f.schema.Fields() {
		if columns == nil || slices.Contains(columns, fd.Name) {
			fields = append(fields, fd)
		}
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	return b.NewRecordBatch(), nil
}

// reorder joins single-row batches, which are in the order of sorted, into one batch in the order of positions.
func reorder(ctx context.Context, parts []arrow.RecordBatch, sorted, positions []int64) (arrow.RecordBatch, error) {
	sc := parts[0].Schema()
	index := array.NewInt64Builder(memory.DefaultAllocator)
	defer index.Release()
	for _, p := range positions {
		i, _ := slices.BinarySearch(sorted, p)
		index.Append(int64(i))
	}
	indices := index.NewArray()
	defer indices.Release()
	cols := make([]arrow.Array, sc.NumFields())
	defer func() {
		for _, c := range cols {
			if c != nil {
				c.Release()
			}
		}
	}()
	for c := range cols {
		chunks := make([]arrow.Array, len(parts))
		for i, p := range parts {
			chunks[i] = p.Column(c)
		}
		whole, err := array.Concatenate(chunks, memory.DefaultAllocator)
		if err != nil {
			return nil, errs.Wrap(errs.Internal, "datafile.fetch", err)
		}
		cols[c], err = compute.TakeArray(ctx, whole, indices)
		whole.Release()
		if err != nil {
			return nil, errs.Wrap(errs.Internal, "datafile.fetch", err)
		}
	}
	return array.NewRecordBatch(sc, cols, int64(len(positions))), nil
}

// RowGroupBytes gives, for tests and inspection, the compressed bytes of every row group.
func RowGroupBytes(footer any) ([]int64, error) {
	md, ok := footer.(*metadata.FileMetaData)
	if !ok {
		return nil, errs.Newf(errs.Internal, "datafile.meta", "a %T is no Parquet footer", footer)
	}
	out := make([]int64, md.NumRowGroups())
	for i := range out {
		out[i] = md.RowGroup(i).TotalCompressedSize()
	}
	return out, nil
}

// FieldID is the field id of an Arrow field, or 0.
func FieldID(f arrow.Field) int {
	v, ok := f.Metadata.GetValue(FieldIDKey)
	if !ok {
		return 0
	}
	id, err := strconv.Atoi(v)
	if err != nil {
		return 0
	}
	return id
}

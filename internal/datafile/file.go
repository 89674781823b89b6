package datafile

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/overlakedb/overlake/internal/errs"
)

// Limits bound what reading a file may take. The zero value is usable.
type Limits struct {
	// BatchBytes bounds the memory for one batch of Read or one Fetch, decoding included; 0 means 1 GiB. More is Exhausted.
	BatchBytes int64
	// Allocator serves the arrays that are handed out; nil means Go's.
	Allocator memory.Allocator
}

// File is an opened data file. It is safe for concurrent use as long as its reader is.
type File struct {
	src    io.ReaderAt
	size   int64
	limits Limits
	md     *metadata.FileMetaData
	schema *arrow.Schema
	// leafAt[i] is the first leaf of top-level column i; one more entry ends the last.
	leafAt []int
	cells  []cellType // by leaf: how Fetch decodes it, if it does so by itself
	all    []int      // the top-level columns
	rows   int64
	groups []RowGroup
	chunks [][]chunk
	starts map[int64]bool // where column chunks begin
	kept   *Pages         // nil: nothing is kept
	number uint64         // of the file, there
}

// RowGroup is a part of a file whose columns lie together.
type RowGroup struct {
	First  int64 // the position of its first row
	Rows   int64
	Offset int64 // where it begins in the file
	Bytes  int64 // compressed
}

// chunk is where one leaf of one row group lies.
type chunk struct {
	start, end, data int64 // data is the offset of the first data page
	uncompressed     int64
	index            int64 // offset of the offset index, 0 when there is none
	indexLen         int64
	codec            compress.Compression
}

// On is the same file read through another reader; the footer is shared.
func (f *File) On(r io.ReaderAt) *File {
	g := *f
	g.src = r
	return &g
}

// Memory is about what an opened file holds, in bytes.
func (f *File) Memory() int64 {
	n := int64(4096)
	for _, g := range f.chunks {
		n += 2048 * int64(len(g)) // what the library keeps of a column chunk, statistics included
	}
	return n
}

// maxFooter bounds the footer of a file that we are willing to read, in bytes.
const maxFooter = 256 << 20

// footerRead is what is read of the end of a file that is far away, in the hope that the footer is in it.
const footerRead = 64 << 10

// maxLeaves bounds the columns of a file.
const maxLeaves = 1 << 16

// Open reads the footer of a file of the given size in bytes, and nothing else. A reader with a method Near that gives true
// answers at once, from memory or from a disk of this machine, and is asked for smaller ranges than others.
func Open(r io.ReaderAt, size int64) (*File, error) { return OpenLimited(r, size, Limits{}) }

// OpenLimited is Open with limits of one's own.
func OpenLimited(r io.ReaderAt, size int64, limits Limits) (f *File, err error) {
	defer guard(errs.Corrupt, "datafile.open", &err)
	if limits.BatchBytes <= 0 {
		limits.BatchBytes = 1 << 30
	}
	if limits.Allocator == nil {
		limits.Allocator = memory.DefaultAllocator
	}
	footer, err := readFooter(r, size)
	if err != nil {
		return nil, err
	}
	if err := (&thriftWalk{b: footer}).structure(0, nil, nil); err != nil {
		return nil, corrupt("datafile.open", err)
	}
	md, err := metadata.NewFileMetaData(footer, nil)
	if err != nil {
		return nil, corrupt("datafile.open", err)
	}
	md.SetSourceFileSize(size)
	if md.IsSetEncryptionAlgorithm() {
		return nil, errs.New(errs.Unsupported, "datafile.open", "the Parquet file is encrypted")
	}
	// Writers that know Arrow leave their own schema beside Parquet's. It may be anything, and the Parquet types are what the
	// pages hold, so only those count.
	var kept metadata.KeyValueMetadata
	for _, kv := range md.KeyValueMetadata() {
		if kv.GetKey() != "ARROW:schema" {
			kept = append(kept, kv)
		}
	}
	md.FileMetaData.KeyValueMetadata = kept
	f = &File{src: r, size: size, limits: limits, md: md, starts: map[int64]bool{}}
	if err := f.readSchema(); err != nil {
		return nil, err
	}
	if err := f.readGroups(); err != nil {
		return nil, err
	}
	return f, nil
}

func readFooter(r io.ReaderAt, size int64) ([]byte, error) {
	if size < 12 {
		return nil, corrupt("datafile.open", errors.New("the file is too short for Parquet"))
	}
	// Far away a second request costs more than bytes read in vain.
	ahead := int64(8)
	if o, ok := r.(near); !ok || !o.Near() {
		ahead = min(size, footerRead)
	}
	end := make([]byte, ahead)
	if _, err := r.ReadAt(end, size-ahead); err != nil && err != io.EOF {
		return nil, wrap(errs.Unavailable, "datafile.open", err)
	}
	tail := end[ahead-8:]
	n := int64(binary.LittleEndian.Uint32(tail[:4]))
	switch {
	case bytes.Equal(tail[4:], []byte("PARE")):
		return nil, errs.New(errs.Unsupported, "datafile.open", "the Parquet file is encrypted")
	case !bytes.Equal(tail[4:], []byte("PAR1")):
		return nil, corrupt("datafile.open", errors.New("the file does not end as a Parquet file does"))
	case n > size-12:
		return nil, corrupt("datafile.open", errors.New("the footer is longer than the file"))
	case n > maxFooter:
		return nil, errs.With(errs.Newf(errs.Exhausted, "datafile.open", "the footer has %d MiB, more than the %d MiB that are read", n>>20, maxFooter>>20),
			errs.Hint("write larger row groups"))
	}
	if n+8 <= ahead {
		return end[ahead-8-n : ahead-8], nil
	}
	footer := make([]byte, n)
	if _, err := r.ReadAt(footer, size-8-n); err != nil && err != io.EOF {
		return nil, wrap(errs.Unavailable, "datafile.open", err)
	}
	return footer, nil
}

func corrupt(op string, err error) error { return wrap(errs.Corrupt, op, err) }

func corruptf(op, format string, args ...any) error {
	return errs.New(errs.Corrupt, op, fmt.Sprintf(format, args...))
}

// manifest maps the Parquet schema to Arrow without the marks that the library leaves where a field has no id.
func (f *File) manifest() (*pqarrow.SchemaManifest, error) {
	m, err := pqarrow.NewSchemaManifest(f.md.Schema, nil, &pqarrow.ArrowReadProperties{})
	if err != nil {
		return nil, errs.Wrap(errs.Unsupported, "datafile.open", err)
	}
	for i := range m.Fields {
		withoutMarks(&m.Fields[i])
	}
	return m, nil
}

func withoutMarks(s *pqarrow.SchemaField) {
	for i := range s.Children {
		withoutMarks(&s.Children[i])
	}
	clean := cleanField(*s.Field)
	s.Field = &clean
}

func cleanField(f arrow.Field) arrow.Field {
	if v, ok := f.Metadata.GetValue(FieldIDKey); ok && FieldID(f) == 0 && v != "0" {
		f.Metadata = arrow.Metadata{}
	}
	switch t := f.Type.(type) {
	case *arrow.StructType:
		members := make([]arrow.Field, t.NumFields())
		for i, m := range t.Fields() {
			members[i] = cleanField(m)
		}
		f.Type = arrow.StructOf(members...)
	case *arrow.MapType:
		f.Type = arrow.MapOfFields(cleanField(t.KeyField()), cleanField(t.ItemField()))
	case *arrow.ListType:
		f.Type = arrow.ListOfField(cleanField(t.ElemField()))
	}
	return f
}

func (f *File) readSchema() error {
	n := f.md.Schema.NumColumns()
	if n > maxLeaves {
		return errs.Newf(errs.Exhausted, "datafile.open", "the file has %d columns, more than the %d that are read", n, maxLeaves)
	}
	m, err := f.manifest()
	if err != nil {
		return err
	}
	fields := make([]arrow.Field, len(m.Fields))
	for i := range m.Fields {
		fields[i] = *m.Fields[i].Field
	}
	f.schema = arrow.NewSchema(fields, nil)
	root := f.md.Schema.Root()
	f.leafAt = make([]int, 0, len(fields)+1)
	for at := range n {
		if c := f.md.Schema.Column(at); c.PhysicalType() == parquet.Types.FixedLenByteArray && c.TypeLength() <= 0 {
			return corruptf("datafile.open", "the column %s has a fixed length of %d bytes", c.Path(), c.TypeLength())
		}
		for len(f.leafAt) < len(fields) && f.md.Schema.ColumnRoot(at) == root.Field(len(f.leafAt)) {
			f.leafAt = append(f.leafAt, at)
		}
	}
	if len(f.leafAt) != len(fields) {
		return corruptf("datafile.open", "a column of the file has no values")
	}
	f.leafAt = append(f.leafAt, n)
	f.cells = make([]cellType, n)
	for i, at := range f.leafAt[:len(fields)] {
		f.all = append(f.all, i)
		if own := ownCells(f.md.Schema, at, fields[i], 0); len(own) == f.leafAt[i+1]-at {
			copy(f.cells[at:], own)
		}
	}
	return nil
}

// readGroups checks the row groups against the schema and the size of the file, so that later reading may trust them.
func (f *File) readGroups() error {
	bad := func(g int, format string, args ...any) error {
		return corruptf("datafile.open", "row group %d: %s", g, fmt.Sprintf(format, args...))
	}
	leaves, rows := f.md.Schema.NumColumns(), int64(0)
	if leaves == 0 && f.md.NumRowGroups() > 0 {
		return corruptf("datafile.open", "the file has row groups and no columns")
	}
	for g := range f.md.NumRowGroups() {
		rg := f.md.RowGroup(g)
		if rg.NumColumns() != leaves {
			return bad(g, "it has %d columns and the schema %d", rg.NumColumns(), leaves)
		}
		if rg.NumRows() < 0 || rows+rg.NumRows() < rows {
			return bad(g, "it has %d rows", rg.NumRows())
		}
		group := RowGroup{First: rows, Rows: rg.NumRows(), Offset: f.size}
		chunks := make([]chunk, leaves)
		for i := range chunks {
			col := f.md.Schema.Column(i)
			c, err := rg.ColumnChunk(i)
			if err != nil {
				return errs.Wrap(errs.Unsupported, "datafile.open", err, errs.On(col.Path()))
			}
			switch {
			case c.CryptoMetadata() != nil:
				return errs.New(errs.Unsupported, "datafile.open", "the column is encrypted", errs.On(col.Path()))
			case c.FilePath() != "":
				return errs.New(errs.Unsupported, "datafile.open", "the column lies in another file", errs.On(col.Path()))
			case c.Type() != col.PhysicalType():
				return bad(g, "the column %s is %s and in the schema %s", col.Path(), c.Type(), col.PhysicalType())
			}
			k := chunk{start: chunkStart(c), data: c.DataPageOffset(), uncompressed: max(c.TotalUncompressedSize(), 0), codec: c.Compression()}
			k.end = k.start + c.TotalCompressedSize()
			if group.Rows == 0 { // writers leave all sorts of offsets where there is nothing
				chunks[i] = chunk{}
				continue
			}
			if k.start < 4 || c.TotalCompressedSize() < 0 || k.end > f.size || k.end < k.start || k.data < k.start || k.data > k.end || c.NumValues() < 0 {
				return bad(g, "the column %s is said to lie at %d to %d of %d bytes", col.Path(), k.start, k.end, f.size)
			}
			if at := c.GetOffsetIndexLocation(); at != nil && at.Length > 0 && at.Offset >= 4 && at.Offset <= f.size-int64(at.Length) {
				k.index, k.indexLen = at.Offset, int64(at.Length)
			}
			group.Offset = min(group.Offset, k.start)
			group.Bytes += c.TotalCompressedSize()
			f.starts[k.start] = true
			chunks[i] = k
		}
		rows += group.Rows
		f.groups = append(f.groups, group)
		f.chunks = append(f.chunks, chunks)
	}
	f.rows = rows // the count for the whole file is wrong in files of some writers
	return nil
}

// chunkStart is where the first page of a column chunk lies, a dictionary included.
func chunkStart(c *metadata.ColumnChunkMetaData) int64 {
	if c.HasDictionaryPage() && c.DictionaryPageOffset() > 0 && c.DictionaryPageOffset() < c.DataPageOffset() {
		return c.DictionaryPageOffset()
	}
	return c.DataPageOffset()
}

// Schema has the columns of the file with their field ids. Types are Parquet's: an Arrow schema that a writer left in the
// file does not count.
func (f *File) Schema() *arrow.Schema { return f.schema }

// Rows is the number of rows.
func (f *File) Rows() int64 { return f.rows }

// RowGroups describes the row groups in file order.
func (f *File) RowGroups() []RowGroup { return f.groups }

// Footer is the Parquet metadata, opaque as in Meta.
func (f *File) Footer() any { return f.md }

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
	root := f.md.Schema.Root()
	for i := range root.NumFields() {
		if any(root.Field(i)) {
			return true
		}
	}
	return false
}

// columns finds top-level columns by name, in the order asked for; nil means all.
func (f *File) columns(names []string) ([]int, error) {
	if names == nil {
		return f.all, nil
	}
	out := make([]int, len(names))
	for i, name := range names {
		switch at := f.schema.FieldIndices(name); len(at) {
		case 0:
			return nil, errs.New(errs.NotFound, "datafile.read", "the file has no such column", errs.On(name))
		case 1:
			out[i] = at[0]
		default:
			return nil, errs.New(errs.Unsupported, "datafile.read", "the file has several columns of this name", errs.On(name))
		}
	}
	return out, nil
}

// source reads the bytes of a file for one caller: it gives up when the caller does, serves what was prefetched from
// memory, keeps the first failure of the store and looks at the first page of every column chunk.
type source struct {
	ctx    context.Context
	f      *File
	ranges ranges
	maps   []mapped // addresses that a pretence made up, ascending
	at     int64    // for Seek, which the library only wants to know the size
	err    error
}

func (s *source) ReadAt(p []byte, off int64) (int, error) {
	n, err := s.read(p, off)
	if s.f.starts[off] && n > 0 {
		if e := checkFirstPage(p[:n]); e != nil {
			return 0, e
		}
	}
	return n, err
}

func (s *source) read(p []byte, off int64) (int, error) {
	if off >= farAway {
		return s.readMapped(p, off)
	}
	if err := s.ctx.Err(); err != nil {
		s.err = err
		return 0, err
	}
	if n, ok := s.ranges.readAt(p, off); ok {
		return n, nil
	}
	n, err := s.f.src.ReadAt(p, off)
	if err != nil && err != io.EOF && s.err == nil {
		s.err = err
	}
	return n, err
}

// view gives the bytes of a span, without a copy where they were prefetched. They may not be changed.
func (s *source) view(sp span) ([]byte, error) {
	if b, ok := s.ranges.view(sp); ok {
		return b, nil
	}
	b := make([]byte, sp.to-sp.from)
	if n, err := s.read(b, sp.from); n < len(b) {
		if err == nil || err == io.EOF {
			err = corruptf("datafile.read", "the file ends at %d, before its pages do", sp.from+int64(n))
		}
		return nil, err
	}
	return b, nil
}

// readMapped reads from the parts that made-up addresses stand for.
func (s *source) readMapped(p []byte, off int64) (int, error) {
	i, ok := slices.BinarySearchFunc(s.maps, off, func(m mapped, off int64) int {
		switch {
		case m.to <= off:
			return -1
		case m.from > off:
			return 1
		}
		return 0
	})
	if !ok {
		return 0, io.EOF
	}
	n, at := 0, s.maps[i].from
	for _, part := range s.maps[i].parts {
		size := part.to - part.from
		if from := off + int64(n) - at; from < size && n < len(p) {
			k, err := s.ReadAt(p[n:n+int(min(size-from, int64(len(p)-n)))], part.from+from)
			n += k
			if err != nil && (err != io.EOF || int64(k) < size-from && n < len(p)) {
				return n, err
			}
		}
		at += size
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// checkFirstPage refuses a dictionary that says it has more values than bytes: the library would make room for them all.
func checkFirstPage(b []byte) error {
	h, err := parsePageHeader(b)
	if err != nil {
		return nil // longer than what was read, or broken, and then the library finds it
	}
	if h.kind == dictionaryPage && h.values > h.uncompressed {
		return fmt.Errorf("a dictionary of %d bytes says that it holds %d values", h.uncompressed, h.values)
	}
	return nil
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.ReadAt(p, s.at)
	s.at += int64(n)
	return n, err
}

func (s *source) Seek(off int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		off += s.at
	case io.SeekEnd:
		off += s.f.size
	}
	if off < 0 {
		return 0, errors.New("seek before the beginning of the file")
	}
	s.at = off
	return off, nil
}

// failure gives an error of the library its kind: what the store said wins, then cancellation, then the bytes are blamed.
func (s *source) failure(op string, err error) error {
	if err == nil {
		return nil
	}
	if s.err != nil {
		return wrap(errs.Unavailable, op, s.err)
	}
	switch text := err.Error(); {
	case strings.Contains(text, "exceeds configured limit"):
		return errs.Wrap(errs.Exhausted, op, err)
	case strings.Contains(text, "outside the Arrow nanosecond range"):
		return errs.Wrap(errs.Unsupported, op, err)
	}
	return corrupt(op, err)
}

// session is one caller's reading: its source, its memory and, once it is open, readers of the library over the shared
// footer.
type session struct {
	src   *source
	props *parquet.ReaderProperties
	pr    *file.Reader
	fr    *pqarrow.FileReader
	mem   *limited
}

func (f *File) session(ctx context.Context) *session {
	return &session{src: &source{ctx: ctx, f: f}, mem: &limited{Allocator: f.limits.Allocator, limit: f.limits.BatchBytes}}
}

// open makes the readers of the library, which buffer so many bytes a column.
func (s *session) open(buffer int64) error {
	f := s.src.f
	s.props = parquet.NewReaderProperties(s.mem)
	s.props.BufferedStreamEnabled = true // else every seek loads the whole column chunk
	s.props.BufferSize = buffer
	s.props.MaxCompressedPageSize, s.props.MaxUncompressedPageSize = f.limits.BatchBytes, f.limits.BatchBytes
	var err error
	if s.pr, err = file.NewParquetReader(s.src, file.WithReadProps(s.props), file.WithMetadata(f.md)); err != nil {
		return corrupt("datafile.read", err)
	}
	fr, err := pqarrow.NewFileReader(s.pr, pqarrow.ArrowReadProperties{}, s.mem)
	if err != nil {
		return corrupt("datafile.read", err)
	}
	if fr.Manifest, err = f.manifest(); err != nil {
		return err
	}
	s.fr = fr
	return nil
}

// column opens a reader of one top-level column over row groups. The library opens the members of structs on goroutines,
// where a panic could not be recovered; so what it does there is done here once before.
func (s *session) column(ctx context.Context, f *File, col int, groups []int) (*pqarrow.ColumnReader, error) {
	leaves := map[int]bool{}
	for i := f.leafAt[col]; i < f.leafAt[col+1]; i++ {
		leaves[i] = true
		for g, rg := range f.groups {
			if rg.Rows == 0 {
				continue
			}
			meta, err := f.md.RowGroup(g).ColumnChunk(i)
			if err != nil {
				return nil, err
			}
			if _, err := compress.GetCodec(meta.Compression()); err != nil {
				return nil, errs.Wrap(errs.Unsupported, "datafile.read", err, errs.On(f.md.Schema.Column(i).Path()))
			}
		}
		pages, err := s.pr.RowGroup(groups[0]).GetColumnPageReader(i)
		if err != nil {
			return nil, err
		}
		if err := pages.Close(); err != nil {
			return nil, err
		}
		field, err := s.fr.Manifest.GetColumnField(i)
		if err != nil {
			return nil, err
		}
		file.NewRecordReader(f.md.Schema.Column(i), field.LevelInfo, field.Field.Type, s.mem, s.pr.BufferPool()).Release()
	}
	return s.fr.GetFieldReader(ctx, col, leaves, groups)
}

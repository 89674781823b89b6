package lake

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/arrow/scalar"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"github.com/overlakedb/overlake/internal/datafile"
	"github.com/overlakedb/overlake/internal/declared"
	"github.com/overlakedb/overlake/internal/embedding"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/property"
)

const (
	defaultTargetFile  = 512 << 20
	defaultWriteMemory = 256 << 20
	// maxOpenFiles bounds the data files that are open at once.
	maxOpenFiles = 32
	// partRowGroup bounds the row groups of a partitioned write, of which several are open: in encoded bytes.
	partRowGroup = 32 << 20
)

// tableWriter turns batches into data files, one or more a partition.
//
// The rows of a partition wait in memory; a file is opened for it only when memory runs short, for the partitions with
// most rows waiting first. So a write with thousands of small partitions makes one file for each, and one with a few big
// ones streams them.
type tableWriter struct {
	t          *Table
	ctx        context.Context
	opts       WriteOptions
	schema     *arrow.Schema
	declared   map[int]declared.Type      // column → its declared type
	contracts  map[int]embedding.Contract // field id → what is said of its vectors
	bloom      []string
	defaults   map[string]scalar.Scalar // write defaults of columns that have one
	partitions *partitioner
	parts      map[string]*partWriter
	order      []*partWriter // as they appeared
	waiting    int64         // bytes
	open       int
	files      []*writtenFile
	made       ledger
	rows       int64
}

// partWriter is what is being written for one partition.
type partWriter struct {
	values  map[int]any // partition field id → value
	waiting []arrow.RecordBatch
	bytes   int64 // of waiting
	name    string
	obj     objstore.Writer // nil while there is no open file
	sent    countingWriter
	pw      *datafile.Writer
}

type countingWriter struct {
	w objstore.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

func newTableWriter(ctx context.Context, t *Table, opts WriteOptions) (*tableWriter, error) {
	w := &tableWriter{t: t, ctx: ctx, opts: opts, schema: t.Schema(), declared: map[int]declared.Type{}, defaults: map[string]scalar.Scalar{}, parts: map[string]*partWriter{}}
	if w.opts.TargetFileBytes <= 0 {
		w.opts.TargetFileBytes = defaultTargetFile
		if n, err := strconv.ParseInt(t.meta.Properties()[table.WriteTargetFileSizeBytesKey], 10, 64); err == nil && n > 0 {
			w.opts.TargetFileBytes = n
		}
	}
	if w.opts.MemoryBytes <= 0 {
		w.opts.MemoryBytes = defaultWriteMemory
	}
	var err error
	if w.contracts, err = contractsOf(t.meta); err != nil {
		return nil, err
	}
	for i, f := range t.meta.CurrentSchema().Fields() {
		if d, ok := declared.Of(w.schema.Field(i)); ok {
			if k, made := w.contracts[f.ID]; made {
				d.N = k.Dim
			}
			w.declared[i] = d
		}
	}
	for _, f := range t.meta.CurrentSchema().Fields() {
		d, err := defaultScalar(f, f.WriteDefault)
		if err != nil {
			return nil, err
		}
		if d != nil {
			w.defaults[f.Name] = d
		}
	}
	for k, v := range t.meta.Properties() {
		if c, ok := strings.CutPrefix(k, property.Bloom); ok && v == "true" {
			w.bloom = append(w.bloom, c)
		}
	}
	spec := t.meta.PartitionSpec()
	w.partitions, err = newPartitioner(&spec, t.meta.CurrentSchema(), w.schema)
	return w, err
}

// run writes all rows. The files are complete and durable when it returns; on error, and on success too, what was made is
// in the ledger.
func (w *tableWriter) run(r array.RecordReader) ([]*writtenFile, error) {
	defer w.abort()
	for r.Next() {
		if err := w.ctx.Err(); err != nil {
			return nil, errs.Wrap(errs.Canceled, "lake.write", err)
		}
		if err := w.take(r.RecordBatch()); err != nil {
			return nil, err
		}
		if err := w.shrink(); err != nil {
			return nil, err
		}
		w.rows += r.RecordBatch().NumRows()
		if w.opts.Progress != nil {
			w.opts.Progress(w.rows)
		}
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	if err := w.ctx.Err(); err != nil {
		return nil, errs.Wrap(errs.Canceled, "lake.write", err)
	}
	for _, p := range w.order {
		if err := w.drain(p); err != nil {
			return nil, err
		}
		if err := w.finish(p); err != nil {
			return nil, err
		}
	}
	return w.files, nil
}

// withDefaults adds the columns that a batch lacks and the table has a write default for. The caller releases the result.
func (w *tableWriter) withDefaults(rec arrow.RecordBatch) (arrow.RecordBatch, error) {
	if len(w.defaults) == 0 {
		rec.Retain()
		return rec, nil
	}
	fields, cols := slices.Clone(rec.Schema().Fields()), slices.Clone(rec.Columns())
	for _, f := range w.schema.Fields() {
		d := w.defaults[f.Name]
		if d == nil || rec.Schema().HasField(f.Name) {
			continue
		}
		c, err := scalar.MakeArrayFromScalar(d, int(rec.NumRows()), memory.DefaultAllocator)
		if err != nil {
			return nil, errs.Wrap(errs.Unsupported, "lake.default", err, errs.On(f.Name))
		}
		defer c.Release()
		fields, cols = append(fields, arrow.Field{Name: f.Name, Type: c.DataType(), Nullable: true}), append(cols, c)
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), cols, rec.NumRows()), nil
}

// take gives rows the form that the table has, checks them and puts them where they belong.
func (w *tableWriter) take(rec arrow.RecordBatch) error {
	full, err := w.withDefaults(rec)
	if err != nil {
		return err
	}
	defer full.Release()
	parsed, err := declared.ParseTexts(full, w.schema, w.declared)
	if err != nil {
		return err
	}
	defer parsed.Release()
	conform, err := datafile.Conform(w.ctx, parsed, w.schema)
	if err != nil {
		return err
	}
	defer conform.Release()
	checked, err := declared.Check(conform, w.declared)
	if err != nil {
		return w.promised(err)
	}
	defer checked.Release()
	if len(w.partitions.fields) == 0 {
		return w.direct(checked)
	}
	return w.partitions.split(w.ctx, checked, w.wait)
}

// direct writes the rows of a table without partitions.
func (w *tableWriter) direct(rec arrow.RecordBatch) error {
	p := w.part("", nil)
	return w.write(p, rec)
}

func (w *tableWriter) part(key string, values map[int]any) *partWriter {
	p := w.parts[key]
	if p == nil {
		p = &partWriter{values: values}
		w.parts[key] = p
		w.order = append(w.order, p)
	}
	return p
}

// wait keeps rows of a partition.
func (w *tableWriter) wait(key string, values map[int]any, rec arrow.RecordBatch) error {
	p := w.part(key, values)
	rec.Retain()
	p.waiting = append(p.waiting, rec)
	n := sizeOf(rec)
	p.bytes += n
	w.waiting += n
	return nil
}

// shrink holds the memory of a write to its limit: half of it for rows that wait, half for the row groups of open files.
func (w *tableWriter) shrink() error {
	half := w.opts.MemoryBytes / 2
	if w.waiting > half {
		parts := make([]*partWriter, 0, len(w.parts))
		for _, p := range w.order {
			if p.bytes > 0 {
				parts = append(parts, p)
			}
		}
		slices.SortFunc(parts, func(a, b *partWriter) int { return int(min(max(b.bytes-a.bytes, -1), 1)) })
		for _, p := range parts {
			if w.waiting <= half/2 {
				break
			}
			if err := w.drain(p); err != nil {
				return err
			}
		}
	}
	if len(w.partitions.fields) == 0 {
		return nil // one file is open, and its row group is bounded
	}
	for {
		var sum, most int64
		var largest *partWriter
		for _, p := range w.order {
			if p.obj == nil {
				continue
			}
			n := p.buffered()
			sum += n
			if n > most {
				most, largest = n, p
			}
		}
		if sum <= half || largest == nil {
			return nil
		}
		if err := w.finish(largest); err != nil {
			return err
		}
	}
}

// buffered is about what an open file holds in memory, in bytes.
func (p *partWriter) buffered() int64 { return max(p.pw.Bytes()-p.sent.n, 0) }

// Waiting rows are joined into one batch, up to so many rows or bytes: a partition gets few rows from each batch of the
// source, and the file writer has a price for every batch.
const (
	drainRows  = 16 << 10
	drainBytes = 16 << 20
)

// drain writes the rows of a partition that wait.
func (w *tableWriter) drain(p *partWriter) error {
	for len(p.waiting) > 0 {
		n, rows, size := 0, int64(0), int64(0)
		for n < len(p.waiting) && rows < drainRows && size < drainBytes {
			rows += p.waiting[n].NumRows()
			size += sizeOf(p.waiting[n])
			n++
		}
		rec, err := joined(w.schema, p.waiting[:n], rows)
		if err != nil {
			return err
		}
		for _, r := range p.waiting[:n] {
			size := sizeOf(r)
			p.bytes -= size
			w.waiting -= size
			r.Release()
		}
		p.waiting = p.waiting[n:]
		err = w.write(p, rec)
		rec.Release()
		if err != nil {
			return err
		}
	}
	p.waiting = nil
	return nil
}

// joined makes one batch of several; the caller releases it.
func joined(sc *arrow.Schema, recs []arrow.RecordBatch, rows int64) (arrow.RecordBatch, error) {
	if len(recs) == 1 {
		recs[0].Retain()
		return recs[0], nil
	}
	cols := make([]arrow.Array, sc.NumFields())
	defer func() {
		for _, c := range cols {
			if c != nil {
				c.Release()
			}
		}
	}()
	parts := make([]arrow.Array, len(recs))
	for i := range cols {
		for k, r := range recs {
			parts[k] = r.Column(i)
		}
		var err error
		if cols[i], err = array.Concatenate(parts, memory.DefaultAllocator); err != nil {
			return nil, errs.Wrap(errs.Internal, "lake.write", err, errs.On(sc.Field(i).Name))
		}
	}
	return array.NewRecordBatch(sc, cols, rows), nil
}

func (w *tableWriter) write(p *partWriter, rec arrow.RecordBatch) error {
	if rec.NumRows() == 0 {
		return nil
	}
	if p.obj == nil {
		if err := w.start(p); err != nil {
			return err
		}
	}
	if err := p.pw.Write(rec); err != nil {
		return err
	}
	if p.pw.Bytes() >= w.opts.TargetFileBytes {
		return w.finish(p)
	}
	return nil
}

// start opens a file. When too many are open, the largest is finished.
func (w *tableWriter) start(p *partWriter) error {
	if w.open >= maxOpenFiles {
		var largest *partWriter
		for _, o := range w.order {
			if o.obj != nil && (largest == nil || o.pw.Bytes() > largest.pw.Bytes()) {
				largest = o
			}
		}
		if err := w.finish(largest); err != nil {
			return err
		}
	}
	dir, err := w.t.io.name(w.t.Location())
	if err != nil {
		return err
	}
	name := dir + "/data/" + uuid.NewString() + ".parquet"
	obj, err := w.t.io.writable.Create(w.ctx, name, objstore.Condition{IfAbsent: true})
	if err != nil {
		return err
	}
	p.sent = countingWriter{w: obj}
	o := datafile.WriterOptions{Bloom: w.bloom}
	if len(w.partitions.fields) > 0 {
		o.RowGroupBytes = partRowGroup
	}
	p.pw, err = datafile.NewWriter(&p.sent, w.schema, o)
	if err != nil {
		return errors.Join(err, obj.Abort())
	}
	p.name, p.obj = name, obj
	w.open++
	w.made.note(name, -1)
	return nil
}

// finish closes the file of a partition, if one is open.
func (w *tableWriter) finish(p *partWriter) error {
	if p.obj == nil {
		return nil
	}
	meta, err := p.pw.Close()
	obj := p.obj
	p.obj = nil
	w.open--
	if err != nil {
		return errors.Join(err, obj.Abort())
	}
	if _, err := obj.Commit(w.ctx); err != nil {
		return err
	}
	w.made.note(p.name, meta.Size)
	w.files = append(w.files, &writtenFile{
		location: w.t.io.location(p.name), meta: meta, schema: w.t.meta.CurrentSchema(), spec: w.t.meta.PartitionSpec(), values: p.values,
	})
	return nil
}

// abort drops what is still open and what still waits.
func (w *tableWriter) abort() {
	for _, p := range w.order {
		if p.obj != nil {
			p.pw.Abort()
			_ = p.obj.Abort()
			p.obj = nil
		}
		for _, rec := range p.waiting {
			rec.Release()
		}
		p.waiting = nil
	}
}

// sizeOf is about the memory of a batch in bytes; of a slice, all of what it is cut from.
func sizeOf(rec arrow.RecordBatch) int64 {
	var n int64
	for _, c := range rec.Columns() {
		n += int64(c.Data().SizeInBytes())
	}
	return n
}

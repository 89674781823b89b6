package lake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"github.com/overlakedb/overlake/internal/datafile"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
)

// WriteOptions shape a write. The zero value is usable.
type WriteOptions struct {
	// TargetFileBytes is the size that a data file is closed at; 0 means 512 MiB.
	TargetFileBytes int64
	// Properties are added to the snapshot summary.
	Properties map[string]string
	// Progress, when set, is called after every batch with the rows written so far.
	Progress func(rows int64)
}

// CommitInfo says what a write did.
type CommitInfo struct {
	SnapshotID  int64
	Rows, Bytes int64
	Files       int
}

// maxOpenWriters bounds the partitions written at once; beyond it the one with most rows is finished early.
const maxOpenWriters = 32

// maxCommitTries bounds how often a lost race is planned again.
const maxCommitTries = 30

// Append adds the rows of a reader. The columns are matched by name; see datafile.Conform for what is converted. On error
// nothing is visible and the files written so far are removed.
func (t *Table) Append(ctx context.Context, r array.RecordReader, opts WriteOptions) (*Table, CommitInfo, error) {
	return t.write(ctx, r, opts, false)
}

// Overwrite replaces all rows by those of a reader, in one snapshot.
func (t *Table) Overwrite(ctx context.Context, r array.RecordReader, opts WriteOptions) (*Table, CommitInfo, error) {
	return t.write(ctx, r, opts, true)
}

func (t *Table) write(ctx context.Context, r array.RecordReader, opts WriteOptions, replace bool) (*Table, CommitInfo, error) {
	if t.cat == nil {
		return nil, CommitInfo{}, denied(t.id)
	}
	w := &tableWriter{t: t, ctx: ctx, opts: opts, schema: t.Schema(), parts: map[string]*partWriter{}}
	if w.opts.TargetFileBytes <= 0 {
		w.opts.TargetFileBytes = 512 << 20
	}
	files, err := w.run(r)
	if err == nil {
		err = w.verify(files)
	}
	if err != nil {
		w.remove()
		return nil, CommitInfo{}, errs.With(err, errs.On(t.id.String()))
	}
	info := CommitInfo{Rows: w.rows, Files: len(files)}
	for _, f := range files {
		info.Bytes += f.FileSize
	}
	if len(files) == 0 && !replace {
		return t, info, nil
	}
	next, err := t.commitRetrying(ctx, func(cur *Table) (*Table, error) {
		if cur.meta.CurrentSchema().ID != t.meta.CurrentSchema().ID {
			return nil, errs.New(errs.Conflict, "lake.append", "the schema of the table was changed while rows were written", errs.On(t.id.String()))
		}
		return cur.commitFiles(ctx, files, opts.Properties, replace)
	})
	if err != nil {
		if errs.KindOf(err) != errs.Unavailable { // after a lost answer the files may be part of the table
			w.remove()
		}
		return nil, CommitInfo{}, err
	}
	if s := next.meta.CurrentSnapshot(); s != nil {
		info.SnapshotID = s.SnapshotID
	}
	return next, info, nil
}

// commitRetrying runs an operation on the newest version until it does not lose a race.
func (t *Table) commitRetrying(ctx context.Context, op func(cur *Table) (*Table, error)) (*Table, error) {
	cur := t
	for try := 1; ; try++ {
		next, err := op(cur)
		if !errs.Is(err, errs.Conflict) || try == maxCommitTries {
			return next, err
		}
		wait := time.Duration(rand.Int64N(int64(min(try, 8)) * int64(8*time.Millisecond)))
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, errs.Wrap(errs.Canceled, "lake.commit", ctx.Err(), errs.On(t.id.String()))
		}
		if cur, err = t.cat.Load(ctx, t.id); err != nil {
			return nil, err
		}
		if cur.UUID() != t.UUID() {
			return nil, errs.New(errs.NotFound, "lake.commit", "the table was dropped and created anew meanwhile", errs.On(t.id.String()))
		}
	}
}

// ice is the table as iceberg-go knows it. Its catalog is nil: commits are ours.
func (t *Table) ice(ctx context.Context) *table.Table {
	return table.New(table.Identifier{t.id.Namespace, t.id.Name}, t.meta, t.location, t.io.with(ctx).fs, nil)
}

// commitTx hands the updates of a transaction to the catalog, without iceberg-go's own commit and its retries.
func (t *Table) commitTx(ctx context.Context, tx *table.Transaction) (*Table, error) {
	c, err := tx.TableCommit()
	if err != nil {
		return nil, errs.Wrap(errs.Internal, "lake.commit", err, errs.On(t.id.String()))
	}
	return t.cat.commit(ctx, t, c.Requirements, c.Updates)
}

func (t *Table) commitFiles(ctx context.Context, args []table.DataFileArgs, props map[string]string, replace bool) (*Table, error) {
	ice := t.ice(ctx)
	tx := ice.NewTransaction()
	summary := iceberg.Properties{}
	for k, v := range props {
		summary[k] = v
	}
	wrap := func(err error) error {
		var e *errs.Error
		if errors.As(err, &e) {
			return err
		}
		return errs.Wrap(errs.Internal, "lake.commit", err, errs.On(t.id.String()))
	}
	replace = replace && t.meta.CurrentSnapshot() != nil
	next := t.meta.NextRowID()
	files := make([]iceberg.DataFile, len(args))
	for i, a := range args {
		if replace && t.meta.Version() >= 3 {
			// A replacement does not inherit row ids, so it takes the next ones itself; a lost race plans it anew.
			first := next
			a.FirstRowID, a.FormatVersion = &first, t.meta.Version()
		}
		f, err := table.DataFileFromMetadata(a)
		if err != nil {
			return nil, wrap(err)
		}
		files[i] = f
		next += f.Count()
	}
	if replace {
		tasks, err := ice.Scan().PlanFiles(ctx)
		if err != nil {
			return nil, wrap(err)
		}
		old := make([]iceberg.DataFile, 0, len(tasks))
		for _, task := range tasks {
			old = append(old, task.File)
		}
		if len(old)+len(files) == 0 {
			return t, nil
		}
		if len(old) > 0 {
			if err := tx.ReplaceDataFilesWithDataFiles(ctx, old, files, summary); err != nil {
				return nil, wrap(err)
			}
			return t.commitTx(ctx, tx)
		}
	}
	if len(files) == 0 {
		return t, nil
	}
	if err := tx.NewRowDelta(summary).AddRows(files...).Commit(ctx); err != nil {
		return nil, wrap(err)
	}
	return t.commitTx(ctx, tx)
}

// tableWriter turns batches into data files, one writer a partition.
type tableWriter struct {
	t       *Table
	ctx     context.Context
	opts    WriteOptions
	schema  *arrow.Schema
	parts   map[string]*partWriter
	files   []table.DataFileArgs
	written []string // names of all objects created, for cleaning up
	rows    int64
}

type partWriter struct {
	key    string
	values map[int]any
	obj    objstore.Writer
	pw     *datafile.Writer
	name   string
}

func (w *tableWriter) run(r array.RecordReader) ([]table.DataFileArgs, error) {
	defer w.abort()
	spec := w.t.meta.PartitionSpec()
	dims := map[int]int{}
	for i, f := range w.schema.Fields() {
		if d, ok := f.Metadata.GetValue(TypeKey); ok {
			dims[i], _ = VectorDim(d)
		}
	}
	for r.Next() {
		if err := w.ctx.Err(); err != nil {
			return nil, errs.Wrap(errs.Canceled, "lake.write", err)
		}
		rec, err := datafile.Conform(w.ctx, r.RecordBatch(), w.schema)
		if err != nil {
			return nil, err
		}
		err = checkVectors(rec, dims)
		if err == nil && spec.IsUnpartitioned() {
			err = w.put("", nil, rec)
		} else if err == nil {
			err = w.split(&spec, rec)
		}
		w.rows += rec.NumRows()
		rec.Release()
		if err != nil {
			return nil, err
		}
		if w.opts.Progress != nil {
			w.opts.Progress(w.rows)
		}
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	for _, p := range w.parts {
		if err := w.finish(p); err != nil {
			return nil, err
		}
	}
	return w.files, nil
}

// checkVectors holds the rows of declared vectors to their declaration: no NULL, NaN or infinite elements, the declared
// number of dimensions.
func checkVectors(rec arrow.RecordBatch, dims map[int]int) error {
	for c, dim := range dims {
		l, ok := rec.Column(c).(*array.List)
		if !ok {
			continue
		}
		bad := func(format string, args ...any) error {
			return errs.New(errs.Invalid, "lake.write", fmt.Sprintf(format, args...), errs.On(rec.ColumnName(c)))
		}
		values, ok := l.ListValues().(*array.Float32)
		if !ok {
			continue
		}
		for i := range l.Len() {
			if l.IsNull(i) {
				continue
			}
			lo, hi := l.ValueOffsets(i)
			if n := int(hi - lo); dim > 0 && n != dim {
				return bad("expected %d dimensions, not %d", dim, n)
			}
			for _, v := range values.Float32Values()[lo:hi] {
				if v-v != 0 { // NaN and the infinities
					return bad("NaN and infinite values are not allowed in a vector")
				}
			}
		}
	}
	return nil
}

func (w *tableWriter) put(key string, values map[int]any, rec arrow.RecordBatch) error {
	p := w.parts[key]
	if p == nil {
		if len(w.parts) >= maxOpenWriters {
			var largest *partWriter
			for _, o := range w.parts {
				if largest == nil || o.pw.Rows() > largest.pw.Rows() {
					largest = o
				}
			}
			if err := w.finish(largest); err != nil {
				return err
			}
		}
		var err error
		if p, err = w.start(key, values); err != nil {
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

func (w *tableWriter) start(key string, values map[int]any) (*partWriter, error) {
	dir, err := w.t.io.name(w.t.Location())
	if err != nil {
		return nil, err
	}
	p := &partWriter{key: key, values: values, name: dir + "/data/" + uuid.NewString() + ".parquet"}
	if p.obj, err = w.t.io.writable.Create(w.ctx, p.name, objstore.Condition{IfAbsent: true}); err != nil {
		return nil, err
	}
	var bloom []string
	for k, v := range w.t.meta.Properties() {
		if c, ok := strings.CutPrefix(k, "write.parquet.bloom-filter-enabled.column."); ok && v == "true" {
			bloom = append(bloom, c)
		}
	}
	if p.pw, err = datafile.NewWriter(p.obj, w.schema, datafile.WriterOptions{Bloom: bloom}); err != nil {
		return nil, errors.Join(err, p.obj.Abort())
	}
	w.parts[key] = p
	return p, nil
}

func (w *tableWriter) finish(p *partWriter) error {
	meta, err := p.pw.Close()
	if err != nil {
		return err
	}
	if _, err := p.obj.Commit(w.ctx); err != nil {
		p.obj = nil
		return err
	}
	p.obj = nil
	delete(w.parts, p.key)
	w.written = append(w.written, p.name)
	w.files = append(w.files, table.DataFileArgs{
		Schema: w.t.meta.CurrentSchema(), Spec: w.t.meta.PartitionSpec(), Format: iceberg.ParquetFile, Metadata: meta.Footer,
		FilePath: w.t.io.location(p.name), FileSize: meta.Size, Content: iceberg.EntryContentData, PartitionValues: p.values,
	})
	return nil
}

// abort drops what is still open.
func (w *tableWriter) abort() {
	for _, p := range w.parts {
		if p.obj != nil {
			_ = p.obj.Abort()
		}
	}
}

// remove deletes the files of a write that will not be committed.
func (w *tableWriter) remove() {
	ctx := context.WithoutCancel(w.ctx)
	for _, name := range w.written {
		_ = w.t.io.writable.Delete(ctx, name)
	}
}

// verify finds the files again, whole, before metadata may name them (L1).
func (w *tableWriter) verify(files []table.DataFileArgs) error {
	for i, f := range files {
		info, err := w.t.io.store.Stat(w.ctx, w.written[i])
		if err != nil {
			return err
		}
		if info.Size != f.FileSize {
			return errs.New(errs.Unavailable, "lake.write", "a data file has another size than was written", errs.On(f.FilePath))
		}
	}
	return nil
}

// split writes the rows of a batch to the writers of their partitions.
func (w *tableWriter) split(spec *iceberg.PartitionSpec, rec arrow.RecordBatch) error {
	type group struct {
		values map[int]any
		rows   *array.Int64Builder
	}
	groups := map[string]*group{}
	var order []string
	cols := make([]func(i int) (iceberg.Literal, error), 0, spec.Len())
	var fields []iceberg.PartitionField
	for _, pf := range spec.Fields() {
		src, ok := w.t.meta.CurrentSchema().FindFieldByID(pf.SourceID())
		if !ok {
			return errs.Newf(errs.Unsupported, "lake.write", "the table is partitioned by the dropped or nested column with id %d", pf.SourceID())
		}
		at := w.schema.FieldIndices(src.Name)
		if len(at) == 0 {
			return errs.New(errs.Unsupported, "lake.write", "partitioning by a nested column", errs.On(src.Name))
		}
		get, err := literals(rec.Column(at[0]), src.Type)
		if err != nil {
			return errs.With(err, errs.On(src.Name))
		}
		cols = append(cols, get)
		fields = append(fields, pf)
	}
	for i := range int(rec.NumRows()) {
		values := make(map[int]any, len(cols))
		var key strings.Builder
		for k, get := range cols {
			lit, err := get(i)
			if err != nil {
				return err
			}
			v := fields[k].Transform.Apply(iceberg.Optional[iceberg.Literal]{Val: lit, Valid: lit != nil})
			if !v.Valid {
				values[fields[k].FieldID] = nil
				key.WriteString("n;")
				continue
			}
			values[fields[k].FieldID] = v.Val.Any()
			s := v.Val.String()
			fmt.Fprintf(&key, "%d:%s;", len(s), s)
		}
		g := groups[key.String()]
		if g == nil {
			g = &group{values: values, rows: array.NewInt64Builder(memory.DefaultAllocator)}
			defer g.rows.Release()
			groups[key.String()] = g
			order = append(order, key.String())
		}
		g.rows.Append(int64(i))
	}
	for _, key := range order {
		g := groups[key]
		indices := g.rows.NewArray()
		part, err := compute.Take(w.ctx, *compute.DefaultTakeOptions(), compute.NewDatumWithoutOwning(rec), compute.NewDatumWithoutOwning(indices))
		indices.Release()
		if err != nil {
			return errs.Wrap(errs.Internal, "lake.write", err)
		}
		err = w.put(key, g.values, part.(*compute.RecordDatum).Value)
		part.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// literals reads the values of a column as Iceberg literals; nil stands for NULL.
func literals(a arrow.Array, t iceberg.Type) (func(i int) (iceberg.Literal, error), error) {
	var get func(i int) iceberg.Literal
	switch a := a.(type) {
	case *array.Boolean:
		get = func(i int) iceberg.Literal { return iceberg.NewLiteral(a.Value(i)) }
	case *array.Int32:
		get = func(i int) iceberg.Literal { return iceberg.NewLiteral(a.Value(i)) }
	case *array.Int64:
		get = func(i int) iceberg.Literal { return iceberg.NewLiteral(a.Value(i)) }
	case *array.Float32:
		get = func(i int) iceberg.Literal { return iceberg.NewLiteral(a.Value(i)) }
	case *array.Float64:
		get = func(i int) iceberg.Literal { return iceberg.NewLiteral(a.Value(i)) }
	case *array.String:
		get = func(i int) iceberg.Literal { return iceberg.NewLiteral(strings.Clone(a.Value(i))) }
	case *array.Binary:
		get = func(i int) iceberg.Literal { return iceberg.NewLiteral(append([]byte(nil), a.Value(i)...)) }
	case *array.FixedSizeBinary:
		get = func(i int) iceberg.Literal {
			if _, ok := t.(iceberg.UUIDType); ok {
				return iceberg.NewLiteral(uuid.UUID(a.Value(i)))
			}
			return iceberg.NewLiteral(append([]byte(nil), a.Value(i)...))
		}
	case *array.Date32:
		get = func(i int) iceberg.Literal { return iceberg.NewLiteral(iceberg.Date(a.Value(i))) }
	case *array.Time64:
		get = func(i int) iceberg.Literal { return iceberg.NewLiteral(iceberg.Time(a.Value(i))) }
	case *array.Timestamp:
		nano := a.DataType().(*arrow.TimestampType).Unit == arrow.Nanosecond
		get = func(i int) iceberg.Literal {
			if nano {
				return iceberg.NewLiteral(iceberg.TimestampNano(a.Value(i)))
			}
			return iceberg.NewLiteral(iceberg.Timestamp(a.Value(i)))
		}
	case *array.Decimal128:
		scale := int(a.DataType().(*arrow.Decimal128Type).Scale)
		get = func(i int) iceberg.Literal { return iceberg.NewLiteral(iceberg.Decimal{Val: a.Value(i), Scale: scale}) }
	default:
		return nil, errs.Newf(errs.Unsupported, "lake.write", "partitioning by a column of type %s", a.DataType())
	}
	return func(i int) (iceberg.Literal, error) {
		if a.IsNull(i) {
			return nil, nil
		}
		return get(i), nil
	}, nil
}

// nameMapping is the property that lets other engines read files without field ids; kept in step with the schema.
func nameMapping(m iceberg.NameMapping) (string, error) {
	b, err := json.Marshal(m)
	return string(b), err
}

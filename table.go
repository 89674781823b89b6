package overlake

import (
	"context"
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/row"
)

// Table is one table of a DB. Every method works on the newest version; it is safe for concurrent use.
type Table struct {
	db *DB
	id lake.Ident
}

// Ref names an older state of a table: one of the fields is set.
type Ref struct {
	SnapshotID int64     // a snapshot, see Table.Snapshots
	AsOf       time.Time // what was current then
	Name       string    // a branch or a tag
}

func (r Ref) clause() (string, error) {
	switch {
	case r.SnapshotID != 0:
		return fmt.Sprintf(" AT (VERSION => %d)", r.SnapshotID), nil
	case r.Name != "":
		return " AT (VERSION => " + literal(r.Name) + ")", nil
	case !r.AsOf.IsZero():
		return " AT (TIMESTAMP => '" + r.AsOf.UTC().Format(time.RFC3339Nano) + "')", nil
	}
	return "", errs.New(errs.Invalid, "query.at", "an empty Ref names no state")
}

// Snapshot is one state of a table.
type Snapshot struct {
	ID, ParentID int64 // ParentID is 0 for the first
	Sequence     int64
	Time         time.Time
	Operation    string // append, overwrite, replace or delete
	Summary      map[string]string
}

// WriteInfo says what a write did.
type WriteInfo struct {
	SnapshotID  int64
	Rows, Bytes int64
	Files       int
}

// Table opens a table by name, schema.table or table in the DB's schema.
func (db *DB) Table(ctx context.Context, name string) (*Table, error) {
	id, err := db.ident(name)
	if err != nil {
		return nil, err
	}
	if _, err := db.catalog.Load(ctx, id); err != nil {
		return nil, err
	}
	return &Table{db: db, id: id}, nil
}

// TableSpec describes a new table.
type TableSpec struct {
	// Schema of the rows. Declare a vector with Vectors, another type that Iceberg has none for with the field metadata
	// overlake.type = halfvec(n), sparsevec(n) or bit(n); the last two may be columns of text here, and in what is appended.
	Schema *arrow.Schema
	// Vectors gives the number of dimensions of the columns that are vectors: lists of float32.
	Vectors map[string]int
	// Partition derives partitions from columns: "category", "bucket(16, id)" is written as PartitionField.
	Partition []PartitionField
	// Properties are Iceberg table properties; format-version may be 2 (the default) or 3.
	Properties map[string]string
	Comment    string
}

// PartitionField derives a partition value from a column: Transform is identity, bucket[n], truncate[n], year, month, day,
// hour or void.
type PartitionField = lake.PartitionField

// CreateTable makes a table without rows; KindExists when there is one.
func (db *DB) CreateTable(ctx context.Context, name string, spec TableSpec) (*Table, error) {
	id, err := db.ident(name)
	if err != nil {
		return nil, err
	}
	fields := spec.Schema.Fields()
	for col, dim := range spec.Vectors {
		at := spec.Schema.FieldIndices(col)
		if len(at) != 1 {
			return nil, errs.New(errs.NotFound, "overlake.create", "there is no such column", errs.On(col))
		}
		md := fields[at[0]].Metadata.ToMap()
		md[lake.TypeKey] = "vector"
		if dim > 0 {
			md[lake.TypeKey] = fmt.Sprintf("vector(%d)", dim)
		}
		fields[at[0]].Metadata = arrow.MetadataFrom(md)
		fields[at[0]].Type = arrow.ListOfField(arrow.Field{Name: "element", Type: arrow.PrimitiveTypes.Float32})
	}
	l, err := db.catalog.Create(ctx, id, lake.CreateSpec{Schema: arrow.NewSchema(fields, nil), Partition: spec.Partition, Properties: spec.Properties, Comment: spec.Comment})
	if err != nil {
		return nil, err
	}
	if err := db.env.Created(ctx, l); err != nil {
		_ = db.catalog.Drop(context.WithoutCancel(ctx), id)
		return nil, err
	}
	return &Table{db: db, id: id}, nil
}

func (t *Table) load(ctx context.Context) (*lake.Table, error) { return t.db.catalog.Load(ctx, t.id) }

// Name is schema.table.
func (t *Table) Name() string { return t.id.String() }

func (t *Table) sqlName() string { return quote(t.id.Namespace) + "." + quote(t.id.Name) }

// Schema is the current schema. A column of a type that Iceberg has none for, such as vector(n), has the field metadata
// overlake.type = vector(n); docs/format/table-properties.md lists the types and how they are held.
func (t *Table) Schema(ctx context.Context) (*arrow.Schema, error) {
	l, err := t.load(ctx)
	if err != nil {
		return nil, err
	}
	return l.Schema(), nil
}

// Properties are the table properties.
func (t *Table) Properties(ctx context.Context) (map[string]string, error) {
	l, err := t.load(ctx)
	if err != nil {
		return nil, err
	}
	return l.Properties(), nil
}

// Location is where the table's files are, as a URL.
func (t *Table) Location(ctx context.Context) (string, error) {
	l, err := t.load(ctx)
	if err != nil {
		return "", err
	}
	return l.Location(), nil
}

// Snapshots lists all states, oldest first.
func (t *Table) Snapshots(ctx context.Context) ([]Snapshot, error) {
	l, err := t.load(ctx)
	if err != nil {
		return nil, err
	}
	var out []Snapshot
	for _, s := range l.Snapshots() {
		out = append(out, Snapshot(s))
	}
	return out, nil
}

// File is one data file of a table.
type File struct {
	Path        string
	Rows, Bytes int64
	Deleted     int64 // rows that are deleted from it
}

// Files lists the data files of the current state.
func (t *Table) Files(ctx context.Context) ([]File, error) {
	l, err := t.load(ctx)
	if err != nil {
		return nil, err
	}
	p, err := l.Plan(ctx, lake.Ref{}, nil)
	if err != nil {
		return nil, err
	}
	out := make([]File, len(p.Files))
	for i, f := range p.Files {
		out[i] = File{Path: f.Path, Rows: f.Rows, Bytes: f.Size, Deleted: f.Deletes.Len()}
	}
	return out, nil
}

// WriteOption shapes a write.
type WriteOption func(*lake.WriteOptions)

// WithProgress calls f after every batch with the rows written so far.
func WithProgress(f func(rows int64)) WriteOption {
	return func(o *lake.WriteOptions) { o.Progress = f }
}

// WithSummary adds an entry to the summary of the snapshot.
func WithSummary(key, value string) WriteOption {
	return func(o *lake.WriteOptions) {
		if o.Properties == nil {
			o.Properties = map[string]string{}
		}
		o.Properties[key] = value
	}
}

func writeOptions(opts []WriteOption) lake.WriteOptions {
	var o lake.WriteOptions
	for _, f := range opts {
		f(&o)
	}
	return o
}

// Append adds the rows of a reader, in one snapshot. Columns are matched by name and converted where nothing is lost; the
// reader stays the caller's.
func (t *Table) Append(ctx context.Context, r array.RecordReader, opts ...WriteOption) (WriteInfo, error) {
	l, err := t.load(ctx)
	if err != nil {
		return WriteInfo{}, err
	}
	l, info, err := l.Append(ctx, r, writeOptions(opts))
	if err == nil {
		t.db.env.Committed(ctx, l)
	}
	return WriteInfo(info), err
}

// Overwrite replaces all rows by those of a reader, in one snapshot.
func (t *Table) Overwrite(ctx context.Context, r array.RecordReader, opts ...WriteOption) (WriteInfo, error) {
	l, err := t.load(ctx)
	if err != nil {
		return WriteInfo{}, err
	}
	l, info, err := l.Overwrite(ctx, r, writeOptions(opts))
	if err == nil {
		t.db.env.Committed(ctx, l)
	}
	return WriteInfo(info), err
}

// Problem is something Check found.
type Problem struct {
	File string
	Err  error
}

// Check reads everything a table names, changing nothing, and yields what is wrong: missing and damaged files, wrong sizes
// and row counts. progress, when not nil, is called after every file.
func (t *Table) Check(ctx context.Context, progress func(done, total int)) ([]Problem, error) {
	l, err := t.load(ctx)
	if err != nil {
		return nil, err
	}
	p, err := l.Plan(ctx, lake.Ref{}, nil)
	if err != nil {
		return []Problem{{File: l.MetadataLocation(), Err: err}}, nil
	}
	var out []Problem
	for i := range p.Files {
		if err := ctx.Err(); err != nil {
			return out, errs.Wrap(errs.Canceled, "overlake.check", err)
		}
		if err := checkFile(ctx, l, &p.Files[i]); err != nil {
			if errs.Is(err, errs.Canceled) {
				return out, err
			}
			out = append(out, Problem{File: p.Files[i].Path, Err: err})
		}
		if progress != nil {
			progress(i+1, len(p.Files))
		}
	}
	return out, nil
}

func checkFile(ctx context.Context, l *lake.Table, f *lake.DataFile) error {
	info, err := f.Store.Stat(ctx, f.Name)
	if err != nil {
		return err
	}
	if info.Size != f.Size {
		return errs.Newf(errs.Corrupt, "overlake.check", "the file has %d bytes, its manifest says %d", info.Size, f.Size)
	}
	r, err := l.ReadFile(ctx, f, nil, lake.Ref{}, false)
	if err != nil {
		return err
	}
	defer r.Release()
	var n int64
	for r.Next() {
		n += r.RecordBatch().NumRows()
	}
	if err := r.Err(); err != nil {
		return err
	}
	if n != f.Rows {
		return errs.Newf(errs.Corrupt, "overlake.check", "the file has %d rows, its manifest says %d", n, f.Rows)
	}
	return nil
}

func literal(s string) string {
	b := []byte{'\''}
	for i := range len(s) {
		if s[i] == '\'' {
			b = append(b, '\'')
		}
		b = append(b, s[i])
	}
	return string(append(b, '\''))
}

// Delete deletes rows by data file, as Files names it, and position, in one snapshot: position deletes in format version 2,
// deletion vectors in version 3.
func (t *Table) Delete(ctx context.Context, positions map[string][]int64) error {
	l, err := t.load(ctx)
	if err != nil {
		return err
	}
	rows := map[string]*row.Bitmap{}
	for path, list := range positions {
		rows[path] = row.BitmapOf(list...)
	}
	_, err = l.DeleteRows(ctx, rows)
	return err
}

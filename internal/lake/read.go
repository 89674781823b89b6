package lake

import (
	"context"
	"iter"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"

	"github.com/overlakedb/overlake/internal/cache"
	"github.com/overlakedb/overlake/internal/datafile"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/row"
)

// Reading in Go: the way that does not depend on the SQL engine. It serves checks, text statistics, files that the engine
// cannot map (no field ids, nested evolution), and tests as an independent truth.

// NeedsMapping reports whether the rows of a file can only be read through ReadFile, because the engine maps top-level
// columns by field id and everything else by name and Parquet type: the file has no field ids, lacks columns that its
// partition supplies, has nested fields that were added, renamed or given another id, or stores a column in a way that
// only we take for the table's type.
func (t *Table) NeedsMapping(ctx context.Context, f *DataFile) (bool, error) {
	df, done, err := t.openData(ctx, f.Path)
	if err != nil {
		return false, err
	}
	defer done()
	if err := sameRows(df, f); err != nil {
		return false, err
	}
	if !df.HasFieldIDs() {
		return true, nil
	}
	have := map[int]arrow.Field{}
	for _, c := range df.Schema().Fields() {
		have[datafile.FieldID(c)] = c
	}
	current := t.meta.CurrentSchema()
	for _, s := range append([]*iceberg.Schema{current}, t.meta.Schemas()...) {
		sc, err := t.toArrow(s)
		if err != nil {
			return false, err
		}
		for _, w := range sc.Fields() {
			if h, ok := have[datafile.FieldID(w)]; ok && !plainly(h.Type, w.Type, s == current) {
				return true, nil
			}
		}
	}
	// A column that only the partition knows.
	if f.partition != nil {
		for _, pf := range f.partition.Fields() {
			if pf.Transform.String() != "identity" || len(pf.SourceIDs) != 1 {
				continue
			}
			if _, ok := have[pf.SourceID()]; !ok {
				return true, nil
			}
		}
	}
	return false, nil
}

// sameRows refuses a file that is not the one its manifest describes: deleted positions would mean other rows.
func sameRows(df *datafile.File, f *DataFile) error {
	if df.Rows() == f.Rows {
		return nil
	}
	return errs.With(errs.Newf(errs.Corrupt, "lake.read", "the file has %d rows, its manifest says %d", df.Rows(), f.Rows), errs.On(f.Path))
}

// plainly tells whether the engine reads a file's type as the table's without our help: the same members by the same
// names, and, if types are asked for, leaves that are equal or promoted.
func plainly(have, want arrow.DataType, types bool) bool {
	switch w := want.(type) {
	case *arrow.StructType:
		h, ok := have.(*arrow.StructType)
		if !ok {
			return false
		}
		for _, m := range w.Fields() {
			at, ok := h.FieldIdx(m.Name)
			if !ok || datafile.FieldID(h.Field(at)) != datafile.FieldID(m) || !plainly(h.Field(at).Type, m.Type, types) {
				return false
			}
		}
		return true
	case *arrow.ListType:
		h, ok := have.(*arrow.ListType)
		return ok && plainly(h.Elem(), w.Elem(), types)
	case *arrow.MapType:
		h, ok := have.(*arrow.MapType)
		return ok && plainly(h.KeyType(), w.KeyType(), types) && plainly(h.ItemType(), w.ItemType(), types)
	}
	if e, ok := have.(arrow.ExtensionType); ok {
		have = e.StorageType()
	}
	if !types || arrow.TypeEqual(have, want) {
		return true
	}
	switch w := want.(type) {
	case *arrow.Int64Type:
		return have.ID() == arrow.INT32
	case *arrow.Float64Type:
		return have.ID() == arrow.FLOAT32
	case *arrow.Decimal128Type:
		h, ok := have.(*arrow.Decimal128Type)
		return ok && h.Scale == w.Scale && h.Precision <= w.Precision
	}
	return false
}

// columns is the schema that a ref reads by, with the named columns alone, nil meaning all.
func (t *Table) columns(ref Ref, names []string) (*iceberg.Schema, error) {
	sc, err := t.schemaAt(ref)
	if err != nil || names == nil {
		return sc, err
	}
	var fields []iceberg.NestedField
	for _, c := range names {
		field, ok := columnOf(sc, c)
		if !ok {
			return nil, errs.New(errs.NotFound, "lake.read", "there is no such column", errs.On(c))
		}
		fields = append(fields, field)
	}
	return iceberg.NewSchema(sc.ID, fields...), nil
}

// Fetch reads the rows of a file at the positions, in their order, as the schema of the plan has them. Deleted rows come
// too: who gives positions has left them out.
func (t *Table) Fetch(ctx context.Context, f *DataFile, columns []string, ref Ref, positions []int64) (arrow.RecordBatch, error) {
	sc, err := t.columns(ref, columns)
	if err != nil {
		return nil, err
	}
	df, done, err := t.openCached(ctx, f)
	if err != nil {
		return nil, err
	}
	defer done()
	p, names, err := t.projection(ctx, df, f, sc)
	if err != nil {
		return nil, errs.With(err, errs.On(f.Path))
	}
	if len(names) == 0 {
		return p.assemble(nil, len(positions))
	}
	rec, err := df.Fetch(ctx, positions, names)
	if err != nil {
		return nil, errs.With(err, errs.On(f.Path))
	}
	defer rec.Release()
	return p.assemble(rec.Columns(), len(positions))
}

// openCached opens a data file whose footer may be known from before, and some of its pages.
func (t *Table) openCached(ctx context.Context, f *DataFile) (*datafile.File, func(), error) {
	o, err := f.Store.Open(ctx, f.Name)
	if err != nil {
		return nil, nil, missing(err, f.Path)
	}
	key := "footer " + f.Path + " " + o.ETag()
	df, err := cache.Or(t.shared.manifests, key, func() (*datafile.File, int64, error) {
		df, err := datafile.Open(o, o.Size())
		if err != nil {
			return nil, 0, errs.With(err, errs.On(f.Path))
		}
		return df.Keep(t.shared.pages), df.Memory(), sameRows(df, f)
	})
	if err != nil {
		o.Close()
		return nil, nil, err
	}
	return df.On(o), func() { o.Close() }, nil
}

// ReadFile reads the named columns of a file, nil meaning all, as the schema of the plan has them: renames, promotions,
// defaults and partition constants applied. Deleted rows come too unless live is asked for.
func (t *Table) ReadFile(ctx context.Context, f *DataFile, columns []string, ref Ref, live bool) (array.RecordReader, error) {
	sc, err := t.columns(ref, columns)
	if err != nil {
		return nil, err
	}
	df, done, err := t.openData(ctx, f.Path)
	if err != nil {
		return nil, err
	}
	if err := sameRows(df, f); err != nil {
		done()
		return nil, err
	}
	r, err := t.project(ctx, df, f, sc, 0)
	if err != nil {
		done()
		return nil, errs.With(err, errs.On(f.Path))
	}
	r.done = done
	if live {
		r.deletes = f.Deletes
	}
	return r, nil
}

// Read reads all live rows of the named columns, nil meaning all, file by file.
func (t *Table) Read(ctx context.Context, ref Ref, columns []string) (array.RecordReader, error) {
	p, err := t.Plan(ctx, ref, nil)
	if err != nil {
		return nil, err
	}
	fields := p.Schema.Fields()
	if columns != nil {
		sc, err := t.schemaAt(ref)
		if err != nil {
			return nil, err
		}
		fields = nil
		for _, c := range columns {
			f, ok := columnOf(sc, c)
			if !ok {
				return nil, errs.New(errs.NotFound, "lake.read", "there is no such column", errs.On(c))
			}
			fields = append(fields, p.Schema.Field(p.Schema.FieldIndices(f.Name)[0]))
		}
	}
	return array.ReaderFromIter(arrow.NewSchema(fields, nil), t.batches(ctx, p, columns, ref)), nil
}

// batches yields the live rows of a plan, file by file.
func (t *Table) batches(ctx context.Context, p *Plan, columns []string, ref Ref) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		for i := range p.Files {
			r, err := t.ReadFile(ctx, &p.Files[i], columns, ref, true)
			if err != nil {
				yield(nil, err)
				return
			}
			for r.Next() {
				if !yield(r.RecordBatch(), nil) {
					r.Release()
					return
				}
			}
			err = r.Err()
			r.Release()
			if err != nil {
				yield(nil, errs.With(err, errs.On(p.Files[i].Path)))
				return
			}
		}
	}
}

// projected reads a file through a projection.
type projected struct {
	array.RecordReader // of the file; nil when no column of it is wanted
	ctx                context.Context
	schema             *arrow.Schema
	columns            []source
	deletes            *row.Bitmap
	pos                int64
	rec                arrow.RecordBatch
	err                error
	done               func()
	none               int64 // rows left when no column of the file is wanted
	batch              int64
}

func (p *projected) Schema() *arrow.Schema { return p.schema }

func (p *projected) Next() bool {
	p.drop()
	if p.err != nil {
		return false
	}
	for {
		rec, ok := p.next()
		if !ok {
			return false
		}
		n := rec.NumRows()
		if p.deletes.Len() > 0 {
			kept := p.keep(rec)
			rec.Release()
			rec = kept
		}
		p.pos += n
		if p.err != nil {
			return false
		}
		if rec.NumRows() == 0 {
			rec.Release()
			continue
		}
		p.rec = rec
		return true
	}
}

// next gives the next batch in the wanted schema, deleted rows included.
func (p *projected) next() (_ arrow.RecordBatch, ok bool) {
	if p.RecordReader == nil {
		n := min(p.none, p.batch)
		p.none -= n
		if n == 0 {
			return nil, false
		}
		out, err := p.assemble(nil, int(n))
		p.err = err
		return out, err == nil
	}
	if !p.RecordReader.Next() {
		p.err = p.RecordReader.Err()
		return nil, false
	}
	rec := p.RecordReader.RecordBatch()
	out, err := p.assemble(rec.Columns(), int(rec.NumRows()))
	p.err = err
	return out, err == nil
}

// keep drops the deleted rows of a batch whose first row is at pos.
func (p *projected) keep(rec arrow.RecordBatch) arrow.RecordBatch {
	var parts []arrow.RecordBatch
	start := int64(0)
	for i := int64(0); i <= rec.NumRows(); i++ {
		if i < rec.NumRows() && !p.deletes.Contains(p.pos+i) {
			continue
		}
		if i > start {
			parts = append(parts, rec.NewSlice(start, i))
		}
		start = i + 1
	}
	defer func() {
		for _, x := range parts {
			x.Release()
		}
	}()
	if len(parts) == 0 {
		return rec.NewSlice(0, 0)
	}
	cols := make([]arrow.Array, rec.NumCols())
	n := int64(0)
	for c := range cols {
		chunks := make([]arrow.Array, len(parts))
		n = 0
		for i, x := range parts {
			chunks[i] = x.Column(c)
			n += x.NumRows()
		}
		a, err := array.Concatenate(chunks, memory.DefaultAllocator)
		if err != nil {
			p.err = errs.Wrap(errs.Internal, "lake.read", err)
			return rec.NewSlice(0, 0)
		}
		defer a.Release()
		cols[c] = a
	}
	return array.NewRecordBatch(rec.Schema(), cols, n)
}

func (p *projected) RecordBatch() arrow.RecordBatch { return p.rec }
func (p *projected) Record() arrow.RecordBatch      { return p.rec }
func (p *projected) Err() error                     { return p.err }
func (p *projected) Retain()                        {}

// Release ends the reading; there is one owner.
func (p *projected) Release() {
	p.drop()
	if p.RecordReader != nil {
		p.RecordReader.Release()
		p.RecordReader = nil
	}
	if p.done != nil {
		p.done()
		p.done = nil
	}
}

func (p *projected) drop() {
	if p.rec != nil {
		p.rec.Release()
		p.rec = nil
	}
}

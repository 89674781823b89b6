package lake

import (
	"context"
	"encoding/hex"
	"fmt"
	"iter"
	"math/big"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/arrow/scalar"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"github.com/overlakedb/overlake/internal/datafile"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/row"
)

// Reading in Go: the way that does not depend on the SQL engine. It serves checks, text statistics, files that the engine
// cannot map (no field ids, nested evolution), and tests as an independent truth.

// NeedsMapping reports whether the rows of a file can only be read through ReadFile: the file has no field ids, or lacks
// columns that its partition supplies.
func (t *Table) NeedsMapping(ctx context.Context, f *DataFile) (bool, error) {
	df, done, err := t.openData(ctx, f.Path)
	if err != nil {
		return false, err
	}
	defer done()
	if !df.HasFieldIDs() {
		return true, nil
	}
	// Nested fields are matched by name in the engine, so a nested rename or reuse needs us.
	have := map[int]string{}
	nestedNames(df.Schema().Fields(), have, true)
	want := map[int]string{}
	sc, err := t.toArrow(t.meta.CurrentSchema())
	if err != nil {
		return false, err
	}
	nestedNames(sc.Fields(), want, true)
	byName := map[string]int{}
	for id, n := range have {
		byName[n] = id
	}
	for id, n := range want {
		if h, ok := have[id]; ok && h != n {
			return true, nil
		} else if other, used := byName[n]; !ok && used && other != id {
			return true, nil
		}
	}
	// A column that only the partition knows.
	if f.partition != nil {
		top := map[int]bool{}
		for _, c := range df.Schema().Fields() {
			top[datafile.FieldID(c)] = true
		}
		for _, pf := range f.partition.Fields() {
			if pf.Transform.String() == "identity" && len(pf.SourceIDs) == 1 && !top[pf.SourceID()] {
				return true, nil
			}
		}
	}
	return false, nil
}

// nestedNames collects the names of struct fields below the top level by id.
func nestedNames(fields []arrow.Field, into map[int]string, top bool) {
	for _, f := range fields {
		if id := datafile.FieldID(f); !top && id > 0 {
			into[id] = f.Name
		}
		switch t := f.Type.(type) {
		case *arrow.StructType:
			nestedNames(t.Fields(), into, false)
		case *arrow.ListType:
			if s, ok := t.Elem().(*arrow.StructType); ok {
				nestedNames(s.Fields(), into, false)
			}
		case *arrow.MapType:
			if s, ok := t.ItemType().(*arrow.StructType); ok {
				nestedNames(s.Fields(), into, false)
			}
		}
	}
}

// ReadFile reads the named columns of a file, nil meaning all, as the schema of the plan has them: renames, promotions,
// defaults and partition constants applied. Deleted rows come too unless live is asked for.
func (t *Table) ReadFile(ctx context.Context, f *DataFile, columns []string, ref Ref, live bool) (array.RecordReader, error) {
	sc, err := t.schemaAt(ref)
	if err != nil {
		return nil, err
	}
	if columns != nil {
		var fields []iceberg.NestedField
		for _, c := range columns {
			field, ok := sc.FindFieldByNameCaseInsensitive(c)
			if !ok {
				return nil, errs.New(errs.NotFound, "lake.read", "there is no such column", errs.On(c))
			}
			fields = append(fields, field)
		}
		sc = iceberg.NewSchema(sc.ID, fields...)
	}
	df, done, err := t.openData(ctx, f.Path)
	if err != nil {
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
		fields = nil
		for _, c := range columns {
			i := p.Schema.FieldIndices(c)
			if len(i) == 0 {
				return nil, errs.New(errs.NotFound, "lake.read", "there is no such column", errs.On(c))
			}
			fields = append(fields, p.Schema.Field(i[0]))
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

// projected reads a file through a schema.
type projected struct {
	array.RecordReader
	ctx     context.Context
	file    *iceberg.Schema // what is there, with the table's ids
	want    *iceberg.Schema
	schema  *arrow.Schema
	missing map[int]scalar.Scalar // by position in want: the value of columns that the file lacks
	deletes *row.Bitmap
	pos     int64
	rec     arrow.RecordBatch
	err     error
	done    func()
	none    int64 // rows left when no column of the file is wanted
	batch   int64
}

// project maps the columns of a file, by id or by name where there are none, to a schema of the table.
func (t *Table) project(ctx context.Context, f *datafile.File, data *DataFile, want *iceberg.Schema, batch int64) (*projected, error) {
	asc, err := t.toArrow(want)
	if err != nil {
		return nil, err
	}
	p := &projected{ctx: ctx, want: want, schema: asc, missing: map[int]scalar.Scalar{}, batch: 8192}
	mapping := t.meta.NameMapping()
	byID := map[int]arrow.Field{}
	ids := f.HasFieldIDs()
	for _, c := range f.Schema().Fields() {
		if id := datafile.FieldID(c); ids && id > 0 {
			byID[id] = c
			continue
		}
		if ids {
			continue
		}
		for _, m := range mapping {
			for _, n := range m.Names {
				if strings.EqualFold(n, c.Name) && m.FieldID != nil {
					byID[*m.FieldID] = c
				}
			}
		}
		if mapping == nil {
			// Without a mapping the names of the oldest schema are the file's.
			for _, s := range t.meta.Schemas() {
				if field, ok := s.FindFieldByNameCaseInsensitive(c.Name); ok {
					if _, taken := byID[field.ID]; !taken {
						byID[field.ID] = c
					}
					break
				}
			}
		}
	}
	var names []string
	for i, w := range want.Fields() {
		c, ok := byID[w.ID]
		if !ok {
			v, err := t.absent(data, w, asc.Field(i).Type)
			if err != nil {
				return nil, err
			}
			p.missing[i] = v
			continue
		}
		names = append(names, c.Name)
	}
	if len(names) == 0 {
		p.none = f.Rows()
		return p, nil
	}
	r, err := f.Read(ctx, names, p.batch)
	if err != nil {
		return nil, err
	}
	fileSchema, err := fileIcebergSchema(r.Schema(), byID, ids, want)
	if err != nil {
		r.Release()
		return nil, err
	}
	p.RecordReader, p.file = r, fileSchema
	return p, nil
}

// fileIcebergSchema describes the columns read with the ids of the table.
func fileIcebergSchema(sc *arrow.Schema, byID map[int]arrow.Field, ids bool, want *iceberg.Schema) (*iceberg.Schema, error) {
	fields := make([]arrow.Field, sc.NumFields())
	for i, f := range sc.Fields() {
		fields[i] = f
		if ids {
			continue
		}
		for _, w := range want.Fields() {
			if c, ok := byID[w.ID]; ok && c.Name == f.Name {
				typ, err := table.TypeToArrowType(w.Type, true, false)
				if err != nil {
					return nil, errs.Wrap(errs.Unsupported, "lake.read", err, errs.On(f.Name))
				}
				fields[i] = withIDs(f, arrow.Field{Type: typ, Metadata: arrow.MetadataFrom(map[string]string{FieldIDKey: strconv.Itoa(w.ID)})})
			}
		}
	}
	s, err := table.ArrowSchemaToIceberg(arrow.NewSchema(fields, nil), false, nil)
	if err != nil {
		return nil, errs.Wrap(errs.Unsupported, "lake.read", err)
	}
	return s, nil
}

// withIDs puts the ids of a table's field onto a file's field of the same shape, matching struct members by name.
func withIDs(f, model arrow.Field) arrow.Field {
	f.Metadata = model.Metadata
	switch t := f.Type.(type) {
	case *arrow.ListType:
		if m, ok := model.Type.(*arrow.ListType); ok {
			f.Type = arrow.ListOfField(withIDs(t.ElemField(), m.ElemField()))
		}
	case *arrow.MapType:
		if m, ok := model.Type.(*arrow.MapType); ok {
			f.Type = arrow.MapOfFields(withIDs(t.KeyField(), m.KeyField()), withIDs(t.ItemField(), m.ItemField()))
		}
	case *arrow.StructType:
		if m, ok := model.Type.(*arrow.StructType); ok {
			members := make([]arrow.Field, t.NumFields())
			for i, c := range t.Fields() {
				members[i] = c
				for _, x := range m.Fields() {
					if strings.EqualFold(x.Name, c.Name) {
						members[i] = withIDs(c, x)
					}
				}
			}
			f.Type = arrow.StructOf(members...)
		}
	}
	return f
}

// absent is the value of a column that a file lacks: its partition value, else its initial default, else NULL.
func (t *Table) absent(data *DataFile, f iceberg.NestedField, typ arrow.DataType) (scalar.Scalar, error) {
	if data != nil && data.partition != nil {
		for _, pf := range data.partition.Fields() {
			if len(pf.SourceIDs) != 1 || pf.SourceID() != f.ID || pf.Transform.String() != "identity" {
				continue
			}
			if v, ok := data.entry.partitionValue(pf.FieldID); ok {
				return constant(v, typ)
			}
		}
	}
	if f.InitialDefault != nil {
		l, ok := defaultLiteral(f.InitialDefault, f.Type)
		if !ok {
			return nil, errs.New(errs.Unsupported, "lake.read", fmt.Sprintf("a default of type %s", f.Type), errs.On(f.Name))
		}
		return constant(l, typ)
	}
	return scalar.MakeNullScalar(typ), nil
}

// defaultLiteral gives a default, which metadata holds as a JSON value, the type of its column.
func defaultLiteral(v any, t iceberg.Type) (iceberg.Literal, bool) {
	switch x := v.(type) {
	case iceberg.Literal:
		l, err := x.To(t)
		return l, err == nil
	case float64:
		if x == float64(int64(x)) {
			if l, ok := literalOf(int64(x), t); ok {
				return l, true
			}
		}
		return literalOf(x, t)
	case string:
		switch t.(type) {
		case iceberg.BinaryType, iceberg.FixedType:
			b, err := hex.DecodeString(x)
			return iceberg.NewLiteral(b), err == nil
		case iceberg.DecimalType:
			return typedLiteral(predicate.Typed{Type: "decimal", Text: x}, t)
		}
		return literalOf(x, t)
	}
	return literalOf(v, t)
}

func constant(v any, typ arrow.DataType) (scalar.Scalar, error) {
	if v == nil {
		return scalar.MakeNullScalar(typ), nil
	}
	if l, ok := v.(iceberg.Literal); ok {
		v = l.Any()
	}
	fail := func(err error) error { return errs.Wrap(errs.Unsupported, "lake.read", err) }
	switch n := v.(type) {
	case iceberg.Date:
		v = int64(n)
	case iceberg.Time:
		v = int64(n)
	case iceberg.Timestamp:
		v = int64(n)
	case iceberg.TimestampNano:
		v = int64(n)
	case int32:
		v = int64(n)
	case iceberg.Decimal:
		return scalar.NewDecimal128Scalar(n.Val, typ), nil
	}
	switch n := v.(type) {
	case int64:
		switch typ.ID() {
		case arrow.INT32:
			return scalar.NewInt32Scalar(int32(n)), nil
		case arrow.DATE32:
			return scalar.NewDate32Scalar(arrow.Date32(n)), nil
		case arrow.TIMESTAMP:
			return scalar.NewTimestampScalar(arrow.Timestamp(n), typ), nil
		case arrow.TIME64:
			return scalar.NewTime64Scalar(arrow.Time64(n), typ), nil
		case arrow.INT64:
			return scalar.NewInt64Scalar(n), nil
		}
	case string:
		return scalar.NewStringScalar(n), nil
	case bool:
		return scalar.NewBooleanScalar(n), nil
	case float32:
		if typ.ID() == arrow.FLOAT64 {
			return scalar.NewFloat64Scalar(float64(n)), nil
		}
		return scalar.NewFloat32Scalar(n), nil
	case float64:
		if typ.ID() == arrow.FLOAT32 {
			return scalar.NewFloat32Scalar(float32(n)), nil
		}
		return scalar.NewFloat64Scalar(n), nil
	case []byte:
		switch typ.ID() {
		case arrow.DECIMAL128:
			unscaled, _ := partitionNormal(n, iceberg.DecimalTypeOf(9, 0)).(*big.Int)
			return scalar.NewDecimal128Scalar(decimal128.FromBigInt(unscaled), typ), nil
		case arrow.FIXED_SIZE_BINARY:
			return scalar.NewFixedSizeBinaryScalar(memory.NewBufferBytes(n), typ), nil
		case arrow.BINARY:
			return scalar.NewBinaryScalar(memory.NewBufferBytes(n), typ), nil
		}
	}
	s, err := scalar.MakeScalarParam(v, typ)
	if err != nil {
		return nil, fail(err)
	}
	return s, nil
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
		return p.assemble(nil, n)
	}
	if !p.RecordReader.Next() {
		p.err = p.RecordReader.Err()
		return nil, false
	}
	rec := p.RecordReader.RecordBatch()
	var fields []iceberg.NestedField
	for i, f := range p.want.Fields() {
		if _, absent := p.missing[i]; !absent {
			fields = append(fields, f)
		}
	}
	part, err := p.convert(rec, iceberg.NewSchema(0, fields...))
	if err != nil {
		p.err = err
		return nil, false
	}
	defer part.Release()
	return p.assemble(part, rec.NumRows())
}

// convert lets iceberg-go resolve nested evolution and promotion.
func (p *projected) convert(rec arrow.RecordBatch, to *iceberg.Schema) (out arrow.RecordBatch, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errs.Newf(errs.Corrupt, "lake.read", "the columns of the file do not fit the table: %v", r)
		}
	}()
	out, err = table.ToRequestedSchema(p.ctx, to, p.file, rec, table.SchemaOptions{IncludeFieldIDs: true})
	if err != nil {
		return nil, errs.Wrap(errs.Corrupt, "lake.read", err)
	}
	return out, nil
}

func (p *projected) assemble(part arrow.RecordBatch, n int64) (arrow.RecordBatch, bool) {
	cols := make([]arrow.Array, p.schema.NumFields())
	k := 0
	for i := range cols {
		if v, absent := p.missing[i]; absent {
			a, err := scalar.MakeArrayFromScalar(v, int(n), memory.DefaultAllocator)
			if err != nil {
				p.err = errs.Wrap(errs.Internal, "lake.read", err)
				return nil, false
			}
			defer a.Release()
			cols[i] = a
			continue
		}
		cols[i] = part.Column(k)
		if e, ok := cols[i].(array.ExtensionArray); ok {
			cols[i] = e.Storage()
		}
		k++
	}
	return array.NewRecordBatch(p.schema, cols, n), true
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

// ReadPlan reads the live rows of the files of a plan.
func (t *Table) ReadPlan(ctx context.Context, p *Plan, ref Ref) array.RecordReader {
	return array.ReaderFromIter(p.Schema, t.batches(ctx, p, nil, ref))
}

// DefaultText is the initial default of a column as a SQL literal, NULL when it has none.
func (t *Table) DefaultText(column string) (string, error) {
	f, ok := t.meta.CurrentSchema().FindFieldByNameCaseInsensitive(column)
	if !ok || f.InitialDefault == nil {
		return "NULL", nil
	}
	l, ok := defaultLiteral(f.InitialDefault, f.Type)
	if !ok {
		return "", errs.New(errs.Unsupported, "lake.default", fmt.Sprintf("a default of type %s", f.Type), errs.On(column))
	}
	typ, err := table.TypeToArrowType(f.Type, false, false)
	if err != nil {
		return "", errs.Wrap(errs.Unsupported, "lake.default", err, errs.On(column))
	}
	s, err := constant(l, plain(typ))
	if err != nil {
		return "", err
	}
	return "'" + strings.ReplaceAll(s.String(), "'", "''") + "'", nil
}

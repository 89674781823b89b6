package lake

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/arrow/scalar"
	"github.com/apache/iceberg-go"

	"github.com/overlakedb/overlake/internal/datafile"
	"github.com/overlakedb/overlake/internal/errs"
)

// A projection maps the columns of a file to a schema of the table (specification, "Column Projection"): fields are
// found by id at every level of nesting, by name where the file has no ids, and a field that the file lacks is its
// identity-partition value, else its initial default, else NULL. Lists and maps are matched by their structure.

// source tells where a field of the table comes from.
type source struct {
	name   string // of the column, for messages
	at     int    // position among the file's fields of this level, -1: absent
	absent scalar.Scalar
	kids   []source // members of a struct; the element of a list; key and value of a map
}

// fileNames finds fields in a file without ids.
type fileNames struct {
	ids     bool             // the file has ids
	mapping map[int][]string // names by field id, from the table's name mapping
	history map[string]int   // without a mapping: the id that a path had first, in lower case
}

func (t *Table) fileNames(f *datafile.File) *fileNames {
	n := &fileNames{ids: f.HasFieldIDs()}
	if n.ids {
		return n
	}
	if m := t.meta.NameMapping(); m != nil {
		n.mapping = map[int][]string{}
		var walk func(fields []iceberg.MappedField)
		walk = func(fields []iceberg.MappedField) {
			for _, f := range fields {
				if f.FieldID != nil {
					n.mapping[*f.FieldID] = append(n.mapping[*f.FieldID], f.Names...)
				}
				walk(f.Fields)
			}
		}
		walk(m)
		return n
	}
	n.history = map[string]int{}
	schemas := t.meta.Schemas()
	slices.SortFunc(schemas, func(a, b *iceberg.Schema) int { return a.ID - b.ID })
	for _, s := range schemas {
		n.remember("", s.Fields())
	}
	return n
}

func (n *fileNames) remember(path string, fields []iceberg.NestedField) {
	for _, f := range fields {
		p := path + "." + strings.ToLower(f.Name)
		if _, taken := n.history[p]; !taken {
			n.history[p] = f.ID
		}
		n.rememberType(p, f.Type)
	}
}

func (n *fileNames) rememberType(path string, t iceberg.Type) {
	switch t := t.(type) {
	case *iceberg.StructType:
		n.remember(path, t.FieldList)
	case *iceberg.ListType:
		n.rememberType(path+"[]", t.Element)
	case *iceberg.MapType:
		n.rememberType(path+"{key}", t.KeyType)
		n.rememberType(path+"{}", t.ValueType)
	}
}

// find is the position of a field among the file's fields of one level, -1 without one.
func (n *fileNames) find(fields []arrow.Field, id int, path string) int {
	if n.ids {
		return slices.IndexFunc(fields, func(f arrow.Field) bool { return datafile.FieldID(f) == id })
	}
	folded := -1
	for i, f := range fields {
		if n.mapping == nil {
			if got, ok := n.history[path+"."+strings.ToLower(f.Name)]; ok && got == id {
				return i
			}
			continue
		}
		for _, name := range n.mapping[id] {
			if name == f.Name {
				return i
			}
			if strings.EqualFold(name, f.Name) && folded < 0 {
				folded = i
			}
		}
	}
	return folded
}

// sources plans the fields of one level. data gives the partition constants; it may be nil.
func (t *Table) sources(want []iceberg.NestedField, have []arrow.Field, n *fileNames, path string, data *DataFile) ([]source, error) {
	out := make([]source, len(want))
	for i, w := range want {
		typ, err := arrowType(w.Type)
		if err != nil {
			return nil, errs.With(err, errs.On(w.Name))
		}
		s := source{name: w.Name, at: n.find(have, w.ID, path)}
		if s.at < 0 {
			var known bool
			if s.absent, known, err = t.absent(data, w, typ); err != nil {
				return nil, err
			}
			if !known && w.Required {
				return nil, errs.Newf(errs.Corrupt, "lake.read", "the file lacks the required column %s, which has no default", w.Name)
			}
		} else if s.kids, err = t.nested(w.Type, have[s.at], n, path+"."+strings.ToLower(have[s.at].Name), data, w.Name); err != nil {
			return nil, err
		}
		out[i] = s
	}
	return out, nil
}

func (t *Table) nested(want iceberg.Type, have arrow.Field, n *fileNames, path string, data *DataFile, name string) ([]source, error) {
	mismatch := func() error {
		return errs.Newf(errs.Corrupt, "lake.read", "column %s: the file holds %s where the table has %s", name, have.Type, want)
	}
	one := func(t *Table, want iceberg.Type, have arrow.Field, path string, at int) (source, error) {
		kids, err := t.nested(want, have, n, path, data, name)
		return source{name: name, at: at, kids: kids}, err
	}
	switch w := want.(type) {
	case *iceberg.StructType:
		h, ok := have.Type.(*arrow.StructType)
		if !ok {
			return nil, mismatch()
		}
		return t.sources(w.FieldList, h.Fields(), n, path, data)
	case *iceberg.ListType:
		h, ok := have.Type.(arrow.ListLikeType)
		if !ok {
			return nil, mismatch()
		}
		elem, err := one(t, w.Element, h.ElemField(), path+"[]", 0)
		return []source{elem}, err
	case *iceberg.MapType:
		h, ok := have.Type.(*arrow.MapType)
		if !ok {
			return nil, mismatch()
		}
		key, err := one(t, w.KeyType, h.KeyField(), path+"{key}", 0)
		if err != nil {
			return nil, err
		}
		value, err := one(t, w.ValueType, h.ItemField(), path+"{}", 1)
		return []source{key, value}, err
	}
	return nil, nil
}

// project reads a file through a schema; batch is the number of rows at a time, 0 for 8,192.
func (t *Table) project(ctx context.Context, f *datafile.File, data *DataFile, want *iceberg.Schema, batch int64) (*projected, error) {
	if batch <= 0 {
		batch = 8192
	}
	p, names, err := t.projection(ctx, f, data, want)
	if err != nil {
		return nil, err
	}
	p.batch = batch
	if len(names) == 0 {
		p.none = f.Rows()
		return p, nil
	}
	p.RecordReader, err = f.Read(ctx, names, batch)
	return p, err
}

// projection plans how the columns of a schema come from those of a file, and names the ones to read. The batches to
// assemble from have these columns in the order of the names.
func (t *Table) projection(ctx context.Context, f *datafile.File, data *DataFile, want *iceberg.Schema) (p *projected, names []string, err error) {
	asc, err := t.toArrow(want)
	if err != nil {
		return nil, nil, err
	}
	p = &projected{ctx: ctx, schema: asc}
	n := t.fileNames(f)
	all := f.Schema().Fields()
	var have []arrow.Field
	for _, w := range want.Fields() {
		if at := n.find(all, w.ID, ""); at >= 0 && !slices.Contains(names, all[at].Name) {
			names = append(names, all[at].Name)
			have = append(have, all[at])
		}
	}
	p.columns, err = t.sources(want.Fields(), have, n, "", data)
	return p, names, err
}

// assemble makes a batch in the wanted schema from the columns read.
func (p *projected) assemble(cols []arrow.Array, n int) (out arrow.RecordBatch, err error) {
	defer func() { // arrays made from hostile files break promises that Arrow's code relies on
		if r := recover(); r != nil {
			err = errs.Newf(errs.Corrupt, "lake.read", "the columns of the file do not fit the table: %v", r)
		}
	}()
	made, err := p.members(p.columns, p.schema.Fields(), cols, n)
	if err != nil {
		return nil, err
	}
	defer release(made)
	return array.NewRecordBatch(p.schema, made, int64(n)), nil
}

func release(list []arrow.Array) {
	for _, a := range list {
		if a != nil {
			a.Release()
		}
	}
}

// members makes the fields of one level; the caller releases them.
func (p *projected) members(sources []source, to []arrow.Field, from []arrow.Array, n int) ([]arrow.Array, error) {
	out := make([]arrow.Array, len(sources))
	for i := range sources {
		s := &sources[i]
		var err error
		if s.at < 0 {
			if !s.absent.IsValid() {
				out[i] = array.MakeArrayOfNull(memory.DefaultAllocator, to[i].Type, n)
			} else {
				out[i], err = scalar.MakeArrayFromScalar(s.absent, n, memory.DefaultAllocator)
			}
		} else {
			out[i], err = p.convert(s, from[s.at], to[i].Type)
		}
		if err != nil {
			release(out)
			return nil, err
		}
	}
	return out, nil
}

// convert makes an array of the table's type from the file's.
func (p *projected) convert(s *source, a arrow.Array, to arrow.DataType) (arrow.Array, error) {
	if e, ok := a.(array.ExtensionArray); ok {
		a = e.Storage()
	}
	if d, ok := a.(*array.Dictionary); ok {
		plain, err := compute.TakeArray(p.ctx, d.Dictionary(), d.Indices())
		if err != nil {
			return nil, errs.Wrap(errs.Corrupt, "lake.read", err, errs.On(s.name))
		}
		defer plain.Release()
		return p.convert(s, plain, to)
	}
	switch to := to.(type) {
	case *arrow.StructType:
		st := a.(*array.Struct)
		from := make([]arrow.Array, st.NumField())
		for i := range from {
			from[i] = st.Field(i)
		}
		kids, err := p.members(s.kids, to.Fields(), from, st.Len())
		if err != nil {
			return nil, err
		}
		defer release(kids)
		data := make([]arrow.ArrayData, len(kids))
		for i, k := range kids {
			data[i] = k.Data()
		}
		d := array.NewData(to, st.Len(), []*memory.Buffer{validityOf(st)}, data, st.NullN(), 0)
		defer d.Release()
		return array.MakeFromData(d), nil
	case *arrow.ListType:
		l, ok := a.(*array.List)
		if !ok {
			return p.cast(s, a, to)
		}
		values, err := p.convert(&s.kids[0], l.ListValues(), to.Elem())
		if err != nil {
			return nil, err
		}
		defer values.Release()
		return relist(l.Data(), to, values.Data()), nil
	case *arrow.MapType:
		m := a.(*array.Map)
		key, err := p.convert(&s.kids[0], m.Keys(), to.KeyType())
		if err != nil {
			return nil, err
		}
		defer key.Release()
		value, err := p.convert(&s.kids[1], m.Items(), to.ItemType())
		if err != nil {
			return nil, err
		}
		defer value.Release()
		entries := array.NewData(to.Elem(), key.Len(), []*memory.Buffer{nil}, []arrow.ArrayData{key.Data(), value.Data()}, 0, 0)
		defer entries.Release()
		return relist(m.Data(), to, entries), nil
	}
	return p.cast(s, a, to)
}

// relist is a list or map array with other values behind the same offsets.
func relist(d arrow.ArrayData, t arrow.DataType, values arrow.ArrayData) arrow.Array {
	n := array.NewData(t, d.Len(), d.Buffers(), []arrow.ArrayData{values}, d.NullN(), d.Offset())
	defer n.Release()
	return array.MakeFromData(n)
}

// validityOf is the validity of a struct array as a bitmap that begins at its first row; nil when all rows are valid.
func validityOf(s *array.Struct) *memory.Buffer {
	if s.NullN() == 0 {
		return nil
	}
	b := memory.NewResizableBuffer(memory.DefaultAllocator)
	b.Resize(int(bitutil.BytesForBits(int64(s.Len()))))
	bitutil.CopyBitmap(s.NullBitmapBytes(), s.Data().Offset(), s.Len(), b.Bytes(), 0)
	return b
}

// cast converts values without nesting: the promotions that Iceberg allows, and the ways in which other writers store
// its types in Parquet. A value that does not fit is Corrupt.
func (p *projected) cast(s *source, a arrow.Array, to arrow.DataType) (arrow.Array, error) {
	from := a.DataType()
	if arrow.TypeEqual(from, to) {
		a.Retain()
		return a, nil
	}
	unfit := func(err error) error {
		return errs.Wrap(errs.Corrupt, "lake.read", fmt.Errorf("column %s: the file holds %s where the table has %s: %w", s.name, from, to, err))
	}
	if f, ok := from.(*arrow.TimestampType); ok {
		if t, ok := to.(*arrow.TimestampType); ok {
			out, err := retime(a.(*array.Timestamp), f.Unit, t)
			if err != nil {
				return nil, unfit(err)
			}
			return out, nil
		}
	}
	swap := false // the same bytes under another name
	switch to.ID() {
	case arrow.STRING:
		swap = from.ID() == arrow.BINARY
	case arrow.BINARY:
		swap = from.ID() == arrow.STRING
	}
	if swap {
		d := array.NewData(to, a.Len(), a.Data().Buffers(), nil, a.NullN(), a.Data().Offset())
		defer d.Release()
		return array.MakeFromData(d), nil
	}
	if f, ok := to.(*arrow.FixedSizeBinaryType); ok {
		if b, ok := a.(*array.Binary); ok {
			out := array.NewFixedSizeBinaryBuilder(memory.DefaultAllocator, f)
			defer out.Release()
			for i := range b.Len() {
				switch {
				case b.IsNull(i):
					out.AppendNull()
				case len(b.Value(i)) != f.ByteWidth:
					return nil, unfit(fmt.Errorf("a value of %d bytes", len(b.Value(i))))
				default:
					out.Append(b.Value(i))
				}
			}
			return out.NewArray(), nil
		}
	}
	out, err := compute.CastArray(p.ctx, a, compute.SafeCastOptions(to))
	if err != nil {
		return nil, unfit(err)
	}
	return out, nil
}

// retime changes unit and zone of timestamps. Both sides count from 1970 in UTC, so the zone is only a name; finer units
// are rounded down, as Spark does with 96-bit timestamps.
func retime(a *array.Timestamp, from arrow.TimeUnit, to *arrow.TimestampType) (arrow.Array, error) {
	scale := [...]int64{arrow.Second: 1_000_000_000, arrow.Millisecond: 1_000_000, arrow.Microsecond: 1000, arrow.Nanosecond: 1}
	f, t := scale[from], scale[to.Unit]
	if f == t {
		d := array.NewData(to, a.Len(), a.Data().Buffers(), nil, a.NullN(), a.Data().Offset())
		defer d.Release()
		return array.MakeFromData(d), nil
	}
	out := array.NewTimestampBuilder(memory.DefaultAllocator, to)
	defer out.Release()
	out.Reserve(a.Len())
	for i := range a.Len() {
		if a.IsNull(i) {
			out.AppendNull()
			continue
		}
		v := int64(a.Value(i))
		if f > t {
			k := f / t
			if v*k/k != v {
				return nil, fmt.Errorf("the time %d is out of range", v)
			}
			v *= k
		} else {
			k := t / f
			q := v / k
			if v%k < 0 {
				q--
			}
			v = q
		}
		out.Append(arrow.Timestamp(v))
	}
	return out.NewArray(), nil
}

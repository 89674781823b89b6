package datafile

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/extensions"

	"github.com/overlakedb/overlake/internal/errs"
)

// leaf is one Parquet column of a schema, in Parquet's order: depth first.
type leaf struct {
	path     string // joined by dots, as the Parquet library knows it: "s.list.element"
	id       int    // 0 when the schema has no ids
	typ      arrow.DataType
	repeated bool // below a list or a map
	vector   bool // the elements of a list of float32
}

// layout is a schema made ready for writing: the types Parquet stores and the leaves below them.
type layout struct {
	schema *arrow.Schema
	leaves []leaf
	shared map[string]bool // paths that two leaves have in common, because names may contain dots
}

// plan turns the schema of a writer into what is stored. Fixed-size lists become lists, dictionaries their values, 16 bytes
// marked as UUID the UUID type; what has no Iceberg type is Unsupported, ids on some fields but not on all are Invalid.
func plan(sc *arrow.Schema) (*layout, error) {
	if sc.NumFields() == 0 {
		return nil, errs.New(errs.Invalid, "datafile.write", "a data file needs a column")
	}
	p := &planner{}
	fields := make([]arrow.Field, sc.NumFields())
	for i, f := range sc.Fields() {
		var err error
		if fields[i], err = p.field(f, f.Name, []string{f.Name}, false); err != nil {
			return nil, err
		}
	}
	if p.with > 0 && p.without != "" {
		return nil, invalid("datafile.write", p.without, "the field has no id, though others have")
	}
	l := &layout{schema: arrow.NewSchema(fields, nil), leaves: p.leaves, shared: map[string]bool{}}
	seen := map[string]bool{}
	for _, x := range l.leaves {
		if seen[x.path] {
			l.shared[x.path] = true
		}
		seen[x.path] = true
	}
	return l, nil
}

type planner struct {
	leaves  []leaf
	ids     map[int]string
	with    int    // fields with an id
	without string // a field without, "" when all have one
}

// field plans one field. name is how people say it (a.element), path how Parquet says it.
func (p *planner) field(f arrow.Field, name string, path []string, repeated bool) (arrow.Field, error) {
	id := FieldID(f)
	if v, ok := f.Metadata.GetValue(FieldIDKey); ok && id == 0 && v != "-1" {
		return f, invalid("datafile.write", name, "%q is no field id", v)
	}
	md := arrow.Metadata{}
	if id > 0 {
		if other, taken := p.ids[id]; taken {
			return f, invalid("datafile.write", name, "the field id %d is also that of %s", id, other)
		}
		if p.ids == nil {
			p.ids = map[int]string{}
		}
		p.ids[id] = name
		p.with++
		md = arrow.NewMetadata([]string{FieldIDKey}, []string{strconv.Itoa(id)})
	} else if p.without == "" {
		p.without = name
	}
	out := arrow.Field{Name: f.Name, Nullable: f.Nullable, Metadata: md}
	sub := func(c arrow.Field, label string, repeated bool, step ...string) (arrow.Field, error) {
		return p.field(c, name+"."+label, append(path[:len(path):len(path)], step...), repeated)
	}
	var err error
	var c arrow.Field
	switch t := f.Type.(type) {
	case *arrow.DictionaryType:
		f.Type = t.ValueType
		p.undo(id)
		return p.field(f, name, path, repeated)
	case *arrow.StructType:
		if t.NumFields() == 0 {
			return f, errs.New(errs.Unsupported, "datafile.write", "Parquet has no struct without fields", errs.On(name))
		}
		members := make([]arrow.Field, t.NumFields())
		for i, m := range t.Fields() {
			if members[i], err = sub(m, m.Name, repeated, m.Name); err != nil {
				return f, err
			}
		}
		out.Type = arrow.StructOf(members...)
		return out, nil
	case *arrow.MapType:
		key, item := t.KeyField(), t.ItemField()
		key.Nullable = false
		if key, err = sub(key, "key", true, "key_value", "key"); err != nil {
			return f, err
		}
		if item, err = sub(item, "value", true, "key_value", "value"); err != nil {
			return f, err
		}
		key.Name, item.Name = "key", "value"
		out.Type = arrow.MapOfFields(key, item)
		return out, nil
	case *arrow.ListType:
		c = t.ElemField()
	case *arrow.LargeListType:
		c = t.ElemField()
	case *arrow.FixedSizeListType:
		c = t.ElemField()
	default:
		if out.Type, err = storable(f, name); err != nil {
			return f, err
		}
		p.leaves = append(p.leaves, leaf{path: strings.Join(path, "."), id: id, typ: out.Type, repeated: repeated})
		return out, nil
	}
	if c, err = sub(c, "element", true, "list", "element"); err != nil {
		return f, err
	}
	c.Name = "element"
	if c.Type.ID() == arrow.FLOAT32 {
		p.leaves[len(p.leaves)-1].vector = true
	}
	if _, large := f.Type.(*arrow.LargeListType); large {
		out.Type = arrow.LargeListOfField(c)
	} else {
		out.Type = arrow.ListOfField(c)
	}
	return out, nil
}

// undo forgets an id that the same field is about to bring again.
func (p *planner) undo(id int) {
	if id > 0 {
		delete(p.ids, id)
		p.with--
	}
}

// storable is the type a value is stored in, or the reason why there is none.
func storable(f arrow.Field, name string) (arrow.DataType, error) {
	no := func(hint string) error {
		return errs.New(errs.Unsupported, "datafile.write", fmt.Sprintf("Iceberg has no type for %s", f.Type), errs.On(name), errs.Hint("%s", hint))
	}
	switch t := f.Type.(type) {
	case *arrow.BooleanType, *arrow.Int32Type, *arrow.Int64Type, *arrow.Float32Type, *arrow.Float64Type, *arrow.Date32Type,
		*arrow.StringType, *arrow.LargeStringType, *arrow.BinaryType, *arrow.LargeBinaryType, *extensions.UUIDType:
		return t, nil
	case *arrow.Decimal128Type:
		if t.Precision < 1 || t.Precision > 38 || t.Scale < 0 || t.Scale > t.Precision {
			return nil, no("a decimal has 1 to 38 digits, of which none to all are decimal places")
		}
		return t, nil
	case *arrow.Time64Type:
		if t.Unit == arrow.Microsecond {
			return t, nil
		}
		return nil, no("cast the column to a time in microseconds")
	case *arrow.TimestampType:
		if t.Unit != arrow.Microsecond && t.Unit != arrow.Nanosecond {
			return nil, no("cast the column to microseconds")
		}
		if t.TimeZone != "" {
			return &arrow.TimestampType{Unit: t.Unit, TimeZone: "UTC"}, nil
		}
		return t, nil
	case *arrow.FixedSizeBinaryType:
		if v, _ := f.Metadata.GetValue(IcebergTypeKey); v == "uuid" {
			if t.ByteWidth != 16 {
				return nil, invalid("datafile.write", name, "a UUID has 16 bytes, not %d", t.ByteWidth)
			}
			return extensions.NewUUIDType(), nil
		}
		if t.ByteWidth < 1 {
			return nil, no("a fixed value has at least one byte")
		}
		return t, nil
	case *arrow.Float16Type:
		return nil, no("cast the column to FLOAT")
	case *arrow.Int8Type, *arrow.Int16Type, *arrow.Uint8Type, *arrow.Uint16Type:
		return nil, no("cast the column to INTEGER")
	case *arrow.Uint32Type:
		return nil, no("cast the column to BIGINT")
	case *arrow.Uint64Type:
		return nil, no("cast the column to DECIMAL(20, 0)")
	}
	return nil, no("cast the column to another type")
}

// nestedType tells types with fields. The library says of every extension that it is one.
func nestedType(t arrow.DataType) (arrow.NestedType, bool) {
	if _, ext := t.(arrow.ExtensionType); ext {
		return nil, false
	}
	n, ok := t.(arrow.NestedType)
	return n, ok
}

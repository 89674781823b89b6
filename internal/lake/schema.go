package lake

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/iceberg-go"

	"github.com/overlakedb/overlake/internal/declared"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/property"
)

// Keys of the metadata of Arrow fields.
const (
	FieldIDKey = "PARQUET:field_id"
	// TypeKey holds the declared type of a column that Iceberg has no type for (see package declared).
	TypeKey = declared.Key
	// IcebergTypeKey holds the Iceberg type where the Arrow type does not tell: uuid.
	IcebergTypeKey = "iceberg.type"
	// DocKey holds the comment of a column.
	DocKey = "doc"
)

// knownSchema is a schema of a table, in Iceberg's words and in Arrow's. Neither may be changed.
type knownSchema struct {
	iceberg *iceberg.Schema
	arrow   *arrow.Schema
}

// current is the current schema of the table. The library copies a schema whenever it is asked for it; this is one copy.
func (t *Table) current() *iceberg.Schema {
	if k := t.known.Load(); k != nil {
		return k.iceberg
	}
	s := t.meta.CurrentSchema()
	if a, err := t.newArrow(s); err == nil {
		t.known.Store(&knownSchema{s, a})
	}
	return s
}

// toArrow gives a schema in Arrow's words. Every field, nested ones too, carries its id; declared types, UUIDs and
// comments carry the keys above. A declaration that does not fit the column is none. Of the current schema it is made once.
func (t *Table) toArrow(s *iceberg.Schema) (*arrow.Schema, error) {
	if k := t.known.Load(); k != nil && k.iceberg == s {
		return k.arrow, nil
	}
	return t.newArrow(s)
}

func (t *Table) newArrow(s *iceberg.Schema) (*arrow.Schema, error) {
	props := t.meta.Properties()
	fields := make([]arrow.Field, len(s.Fields()))
	for i, f := range s.Fields() {
		var err error
		if fields[i], err = arrowField(f); err != nil {
			return nil, err
		}
		if d, ok := props[property.ColumnType(f.ID)]; ok {
			if of, ok := declared.Parse(d); ok && of.Holds(fields[i].Type) {
				md := fields[i].Metadata.ToMap()
				md[TypeKey] = d
				fields[i].Metadata = arrow.MetadataFrom(md)
			}
		}
	}
	return arrow.NewSchema(fields, nil), nil
}

// toIceberg turns the schema of a new table into Iceberg's and returns the properties that declare types. Field ids begin behind
// last.
func toIceberg(sc *arrow.Schema, last int) (*iceberg.Schema, map[string]string, error) {
	fields := make([]iceberg.NestedField, sc.NumFields())
	id := last
	next := func() int { id++; return id }
	seen := map[string]bool{}
	for i, f := range sc.Fields() {
		if f.Name == "" {
			return nil, nil, errs.New(errs.Invalid, "lake.schema", "a column has no name")
		}
		if key := strings.ToLower(f.Name); seen[key] {
			return nil, nil, errs.New(errs.Invalid, "lake.schema", "two columns have one name", errs.On(f.Name), errs.Hint("names that differ in case only are one name in SQL"))
		} else {
			seen[key] = true
		}
		fields[i] = iceberg.NestedField{ID: next(), Name: f.Name, Required: !f.Nullable}
		fields[i].Doc, _ = f.Metadata.GetValue(DocKey)
	}
	props := map[string]string{}
	for i, f := range sc.Fields() {
		f, of, ok, err := declared.Stored(f)
		if err != nil {
			return nil, nil, err
		}
		if fields[i].Type, err = icebergType(f, next); err != nil {
			return nil, nil, err
		}
		if ok {
			props[property.ColumnType(fields[i].ID)] = of.String()
		}
	}
	return iceberg.NewSchema(0, fields...), props, nil
}

func icebergType(f arrow.Field, next func() int) (iceberg.Type, error) {
	unsupported := func(hint string) error {
		return errs.New(errs.Unsupported, "lake.schema", fmt.Sprintf("Iceberg has no type for %s", f.Type), errs.On(f.Name), errs.Hint("%s", hint))
	}
	if v, _ := f.Metadata.GetValue(IcebergTypeKey); v == "uuid" {
		return iceberg.PrimitiveTypes.UUID, nil
	}
	switch t := f.Type.(type) {
	case *arrow.BooleanType:
		return iceberg.PrimitiveTypes.Bool, nil
	case *arrow.Int8Type, *arrow.Int16Type, *arrow.Int32Type, *arrow.Uint8Type, *arrow.Uint16Type:
		return iceberg.PrimitiveTypes.Int32, nil
	case *arrow.Int64Type, *arrow.Uint32Type:
		return iceberg.PrimitiveTypes.Int64, nil
	case *arrow.Uint64Type:
		return nil, unsupported("cast the column to BIGINT or DECIMAL(20,0)")
	case *arrow.Float32Type:
		return iceberg.PrimitiveTypes.Float32, nil
	case *arrow.Float64Type:
		return iceberg.PrimitiveTypes.Float64, nil
	case *arrow.Decimal128Type:
		return iceberg.DecimalTypeOf(int(t.Precision), int(t.Scale)), nil
	case *arrow.Date32Type:
		return iceberg.PrimitiveTypes.Date, nil
	case *arrow.Time32Type, *arrow.Time64Type:
		return iceberg.PrimitiveTypes.Time, nil
	case *arrow.TimestampType:
		switch {
		case t.Unit == arrow.Nanosecond && t.TimeZone != "":
			return iceberg.PrimitiveTypes.TimestampTzNs, nil
		case t.Unit == arrow.Nanosecond:
			return iceberg.PrimitiveTypes.TimestampNs, nil
		case t.TimeZone != "":
			return iceberg.PrimitiveTypes.TimestampTz, nil
		}
		return iceberg.PrimitiveTypes.Timestamp, nil
	case *arrow.StringType, *arrow.LargeStringType:
		return iceberg.PrimitiveTypes.String, nil
	case *arrow.DictionaryType:
		return icebergType(arrow.Field{Name: f.Name, Type: t.ValueType}, next)
	case *arrow.BinaryType, *arrow.LargeBinaryType:
		return iceberg.PrimitiveTypes.Binary, nil
	case *arrow.FixedSizeBinaryType:
		return iceberg.FixedTypeOf(t.ByteWidth), nil
	case *extensions.UUIDType:
		return iceberg.PrimitiveTypes.UUID, nil
	case arrow.ExtensionType:
		return icebergType(arrow.Field{Name: f.Name, Type: t.StorageType()}, next)
	case *arrow.ListType:
		return listType(f.Name, t.ElemField(), requiredElements(f), next)
	case *arrow.LargeListType:
		return listType(f.Name, t.ElemField(), requiredElements(f), next)
	case *arrow.FixedSizeListType:
		return listType(f.Name, t.ElemField(), requiredElements(f), next)
	case *arrow.MapType:
		kid, vid := next(), next()
		key, err := icebergType(arrow.Field{Name: f.Name + ".key", Type: t.KeyType(), Metadata: t.KeyField().Metadata}, next)
		if err != nil {
			return nil, err
		}
		val, err := icebergType(arrow.Field{Name: f.Name + ".value", Type: t.ItemType(), Metadata: t.ItemField().Metadata}, next)
		if err != nil {
			return nil, err
		}
		return &iceberg.MapType{KeyID: kid, KeyType: key, ValueID: vid, ValueType: val, ValueRequired: !t.ItemField().Nullable}, nil
	case *arrow.StructType:
		nested := make([]iceberg.NestedField, t.NumFields())
		for i, c := range t.Fields() {
			nested[i] = iceberg.NestedField{ID: next(), Name: c.Name, Required: !c.Nullable}
		}
		for i, c := range t.Fields() {
			typ, err := icebergType(arrow.Field{Name: f.Name + "." + c.Name, Type: c.Type, Metadata: c.Metadata}, next)
			if err != nil {
				return nil, err
			}
			nested[i].Type = typ
		}
		return &iceberg.StructType{FieldList: nested}, nil
	}
	return nil, unsupported("cast the column to a type that Iceberg has")
}

func listType(name string, elem arrow.Field, required bool, next func() int) (iceberg.Type, error) {
	id := next()
	typ, err := icebergType(arrow.Field{Name: name + ".element", Type: elem.Type, Metadata: elem.Metadata}, next)
	if err != nil {
		return nil, err
	}
	return &iceberg.ListType{ElementID: id, Element: typ, ElementRequired: required || !elem.Nullable}, nil
}

// requiredElements: the lists that hold vectors have no NULL in them.
func requiredElements(f arrow.Field) bool {
	_, ok := declared.Of(f)
	return ok
}

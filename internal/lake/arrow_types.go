package lake

import (
	"fmt"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"

	"github.com/overlakedb/overlake/internal/errs"
)

// arrowField gives a field of a table in Arrow's words. It is our own and not iceberg-go's conversion, because that one
// looks at default values too and refuses those that other engines write.
func arrowField(f iceberg.NestedField) (arrow.Field, error) {
	t, err := arrowType(f.Type)
	if err != nil {
		return arrow.Field{}, errs.With(err, errs.On(f.Name))
	}
	md := map[string]string{FieldIDKey: strconv.Itoa(f.ID)}
	if f.Doc != "" {
		md[DocKey] = f.Doc
	}
	if _, ok := f.Type.(iceberg.UUIDType); ok {
		md[IcebergTypeKey] = "uuid"
	}
	return arrow.Field{Name: f.Name, Type: t, Nullable: !f.Required, Metadata: arrow.MetadataFrom(md)}, nil
}

func arrowType(t iceberg.Type) (arrow.DataType, error) {
	switch t := t.(type) {
	case iceberg.BooleanType:
		return arrow.FixedWidthTypes.Boolean, nil
	case iceberg.Int32Type:
		return arrow.PrimitiveTypes.Int32, nil
	case iceberg.Int64Type:
		return arrow.PrimitiveTypes.Int64, nil
	case iceberg.Float32Type:
		return arrow.PrimitiveTypes.Float32, nil
	case iceberg.Float64Type:
		return arrow.PrimitiveTypes.Float64, nil
	case iceberg.DecimalType:
		if t.Precision() < 1 || t.Precision() > 38 || t.Scale() < 0 || t.Scale() > t.Precision() {
			return nil, errs.Newf(errs.Corrupt, "lake.schema", "there is no decimal(%d, %d)", t.Precision(), t.Scale())
		}
		return &arrow.Decimal128Type{Precision: int32(t.Precision()), Scale: int32(t.Scale())}, nil
	case iceberg.DateType:
		return arrow.FixedWidthTypes.Date32, nil
	case iceberg.TimeType:
		return arrow.FixedWidthTypes.Time64us, nil
	case iceberg.TimestampType:
		return &arrow.TimestampType{Unit: arrow.Microsecond}, nil
	case iceberg.TimestampTzType:
		return arrow.FixedWidthTypes.Timestamp_us, nil
	case iceberg.TimestampNsType:
		return &arrow.TimestampType{Unit: arrow.Nanosecond}, nil
	case iceberg.TimestampTzNsType:
		return arrow.FixedWidthTypes.Timestamp_ns, nil
	case iceberg.StringType:
		return arrow.BinaryTypes.String, nil
	case iceberg.BinaryType:
		return arrow.BinaryTypes.Binary, nil
	case iceberg.FixedType:
		return &arrow.FixedSizeBinaryType{ByteWidth: t.Len()}, nil
	case iceberg.UUIDType:
		return &arrow.FixedSizeBinaryType{ByteWidth: 16}, nil
	case *iceberg.StructType:
		fields := make([]arrow.Field, len(t.FieldList))
		for i, f := range t.FieldList {
			var err error
			if fields[i], err = arrowField(f); err != nil {
				return nil, err
			}
		}
		return arrow.StructOf(fields...), nil
	case *iceberg.ListType:
		elem, err := arrowField(t.ElementField())
		if err != nil {
			return nil, err
		}
		return arrow.ListOfField(elem), nil
	case *iceberg.MapType:
		key, err := arrowField(t.KeyField())
		if err != nil {
			return nil, err
		}
		value, err := arrowField(t.ValueField())
		if err != nil {
			return nil, err
		}
		return arrow.MapOfFields(key, value), nil
	}
	return nil, errs.New(errs.Unsupported, "lake.schema", fmt.Sprintf("columns of type %s are not supported", t))
}

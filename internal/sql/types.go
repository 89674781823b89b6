package sql

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/extensions"

	"github.com/overlakedb/overlake/internal/errs"
)

// Field metadata keys that the rooms share (see internal/lake).
const (
	fieldIDKey   = "PARQUET:field_id"
	declaredType = "overlake.type"
	icebergType  = "iceberg.type"
)

// duckType is the engine's name of an Arrow type as a table column has it.
func duckType(t arrow.DataType, md arrow.Metadata) (string, error) {
	if v, ok := md.GetValue(icebergType); ok && v == "uuid" {
		return "UUID", nil
	}
	switch t := t.(type) {
	case *arrow.BooleanType:
		return "BOOLEAN", nil
	case *arrow.Int32Type:
		return "INTEGER", nil
	case *arrow.Int64Type:
		return "BIGINT", nil
	case *arrow.Float32Type:
		return "FLOAT", nil
	case *arrow.Float64Type:
		return "DOUBLE", nil
	case *arrow.Decimal128Type:
		return fmt.Sprintf("DECIMAL(%d,%d)", t.Precision, t.Scale), nil
	case *arrow.Date32Type:
		return "DATE", nil
	case *arrow.Time64Type:
		return "TIME", nil
	case *arrow.TimestampType:
		switch {
		case t.TimeZone != "":
			return "TIMESTAMPTZ", nil
		case t.Unit == arrow.Nanosecond:
			return "TIMESTAMP_NS", nil
		}
		return "TIMESTAMP", nil
	case *arrow.StringType, *arrow.LargeStringType:
		return "VARCHAR", nil
	case *arrow.BinaryType, *arrow.LargeBinaryType, *arrow.FixedSizeBinaryType:
		return "BLOB", nil
	case *extensions.UUIDType:
		return "UUID", nil
	case *arrow.ListType:
		elem, err := duckType(t.Elem(), t.ElemField().Metadata)
		return elem + "[]", err
	case *arrow.MapType:
		key, err := duckType(t.KeyType(), t.KeyField().Metadata)
		if err != nil {
			return "", err
		}
		item, err := duckType(t.ItemType(), t.ItemField().Metadata)
		return "MAP(" + key + ", " + item + ")", err
	case *arrow.StructType:
		parts := make([]string, t.NumFields())
		for i, f := range t.Fields() {
			ft, err := duckType(f.Type, f.Metadata)
			if err != nil {
				return "", err
			}
			parts[i] = quoteIdent(f.Name) + " " + ft
		}
		return "STRUCT(" + strings.Join(parts, ", ") + ")", nil
	}
	return "", errs.Newf(errs.Unsupported, "sql.type", "columns of type %s cannot be queried with SQL", t)
}

// columnType is the type users see for a column: a declared vector keeps its declaration.
func columnType(f arrow.Field) (string, error) {
	if d, ok := f.Metadata.GetValue(declaredType); ok {
		return d, nil
	}
	return duckType(f.Type, f.Metadata)
}

// isVector reports whether a column was declared as a vector.
func isVector(f arrow.Field) bool {
	d, ok := f.Metadata.GetValue(declaredType)
	return ok && (d == "vector" || strings.HasPrefix(d, "vector("))
}

// quoteIdent writes a name so that the engine reads it as exactly that name.
func quoteIdent(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// quoteText writes a string literal.
func quoteText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

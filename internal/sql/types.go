package sql

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/extensions"

	"github.com/overlakedb/overlake/internal/declared"
	"github.com/overlakedb/overlake/internal/errs"
)

// Field metadata keys that the rooms share (see internal/lake).
const (
	fieldIDKey  = "PARQUET:field_id"
	icebergType = "iceberg.type"
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

// columnType is the type users see for a column: a declared type is told as it was declared.
func columnType(f arrow.Field) (string, error) {
	if d, ok := declared.Of(f); ok {
		return d.String(), nil
	}
	return duckType(f.Type, f.Metadata)
}

// engineType is the engine's name of the type that a column has in queries.
func engineType(f arrow.Field) (string, error) {
	d, ok := declared.Of(f)
	switch {
	case !ok:
		return duckType(f.Type, f.Metadata)
	case d.Name == "bit":
		return "BIT", nil
	}
	return d.Name, nil
}

// loaded is the expression that makes values of a declared type of those that files hold; "" where the files hold what
// queries see, once the engine is told the type.
func loaded(f arrow.Field) string {
	name := quoteIdent(f.Name)
	switch d, _ := declared.Of(f); d.Name {
	case "sparsevec":
		return fmt.Sprintf("%s(%s.%s, %s.%s, %s.%s)", loadSparse, name, quoteIdent(declared.SparseSize), name, quoteIdent(declared.SparseIndices), name, quoteIdent(declared.SparseValues))
	case "bit":
		return fmt.Sprintf("%s(%s, %d)", loadBits, name, d.N)
	}
	return ""
}

// fileType is the engine's name of the type in which it reads a column from files.
func fileType(f arrow.Field) (string, error) {
	if loaded(f) != "" {
		return duckType(f.Type, f.Metadata)
	}
	return engineType(f)
}

// assigned is the expression that gives a value the type of a column, as INSERT does. The number of dimensions or bits is
// the table's to check, which tells the column.
func assigned(f arrow.Field, value string) (string, error) {
	d, ok := declared.Of(f)
	switch {
	case !ok:
		typ, err := duckType(f.Type, f.Metadata)
		return "CAST(" + value + " AS " + typ + ")", err
	case d.Name == "vector" || d.Name == "halfvec": // the others have no cast from all that they take
		value = "CAST(" + value + " AS " + d.Name + ")"
	}
	return assignFunction(d.Name) + "(" + value + ", " + quoteText(f.Name) + ")", nil
}

// quoteIdent writes a name so that the engine reads it as exactly that name.
func quoteIdent(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// quoteText writes a string literal.
func quoteText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

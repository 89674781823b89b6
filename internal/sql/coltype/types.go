// Package coltype answers: of what type is a column in the engine, and what does the engine know of pgvector's types?
//
// A column has a type that users see, one that it has in queries, and one in which it is read from files; Shown, Engine and
// InFiles name them. Register teaches an engine the types of pgvector that it does not have: casts, operators, functions
// and aggregates.
package coltype

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/extensions"

	"github.com/overlakedb/overlake/internal/declared"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/sql/lex"
)

// Field metadata keys that the rooms share (see internal/lake).
const (
	IcebergType = "iceberg.type"
)

// Duck is the engine's name of an Arrow type as a table column has it.
func Duck(t arrow.DataType, md arrow.Metadata) (string, error) {
	if v, ok := md.GetValue(IcebergType); ok && v == "uuid" {
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
		elem, err := Duck(t.Elem(), t.ElemField().Metadata)
		return elem + "[]", err
	case *arrow.MapType:
		key, err := Duck(t.KeyType(), t.KeyField().Metadata)
		if err != nil {
			return "", err
		}
		item, err := Duck(t.ItemType(), t.ItemField().Metadata)
		return "MAP(" + key + ", " + item + ")", err
	case *arrow.StructType:
		parts := make([]string, t.NumFields())
		for i, f := range t.Fields() {
			ft, err := Duck(f.Type, f.Metadata)
			if err != nil {
				return "", err
			}
			parts[i] = lex.QuoteIdent(f.Name) + " " + ft
		}
		return "STRUCT(" + strings.Join(parts, ", ") + ")", nil
	}
	return "", errs.Newf(errs.Unsupported, "sql.type", "columns of type %s cannot be queried with SQL", t)
}

// Shown is the type users see for a column: a declared type is told as it was declared.
func Shown(f arrow.Field) (string, error) {
	if d, ok := declared.Of(f); ok {
		return d.String(), nil
	}
	return Duck(f.Type, f.Metadata)
}

// Engine is the engine's name of the type that a column has in queries.
func Engine(f arrow.Field) (string, error) {
	d, ok := declared.Of(f)
	switch {
	case !ok:
		return Duck(f.Type, f.Metadata)
	case d.Name == "bit":
		return "BIT", nil
	}
	return d.Name, nil
}

// Loaded is the expression that makes values of a declared type of those that files hold; "" where the files hold what
// queries see, once the engine is told the type.
func Loaded(f arrow.Field) string {
	name := lex.QuoteIdent(f.Name)
	switch d, _ := declared.Of(f); d.Name {
	case "sparsevec":
		return fmt.Sprintf("%s(%s.%s, %s.%s, %s.%s)", loadSparse, name, lex.QuoteIdent(declared.SparseSize), name, lex.QuoteIdent(declared.SparseIndices), name, lex.QuoteIdent(declared.SparseValues))
	case "bit":
		return fmt.Sprintf("%s(%s, %d)", loadBits, name, d.N)
	}
	return ""
}

// InFiles is the engine's name of the type in which it reads a column from files.
func InFiles(f arrow.Field) (string, error) {
	if Loaded(f) != "" {
		return Duck(f.Type, f.Metadata)
	}
	return Engine(f)
}

// Assigned is the expression that gives a value the type of a column, as INSERT does. The number of dimensions or bits is
// the table's to check, which tells the column.
func Assigned(f arrow.Field, value string) (string, error) {
	d, ok := declared.Of(f)
	switch {
	case !ok:
		typ, err := Duck(f.Type, f.Metadata)
		return "CAST(" + value + " AS " + typ + ")", err
	case d.Name == "vector" || d.Name == "halfvec": // the others have no cast from all that they take
		value = "CAST(" + value + " AS " + d.Name + ")"
	}
	return AssignFunction(d.Name) + "(" + value + ", " + lex.QuoteText(f.Name) + ")", nil
}

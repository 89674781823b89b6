package lake

import (
	"encoding/hex"
	"fmt"
	"math"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/arrow/scalar"
	"github.com/apache/iceberg-go"
	"github.com/google/uuid"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/predicate"
)

// Values of columns that a file does not hold: identity-partition values and initial defaults.

// absent is the value of a column that a file lacks: its partition value, else its initial default, else NULL. known is
// false for the last.
func (t *Table) absent(data *DataFile, f iceberg.NestedField, typ arrow.DataType) (v scalar.Scalar, known bool, err error) {
	if data != nil && data.partition != nil {
		for _, pf := range data.partition.Fields() {
			if len(pf.SourceIDs) != 1 || pf.SourceID() != f.ID || pf.Transform.String() != "identity" {
				continue
			}
			if v, ok := data.entry.partitionValue(pf.FieldID); ok {
				c, err := constant(v, typ)
				return c, true, err
			}
		}
	}
	if f.InitialDefault == nil {
		return scalar.MakeNullScalar(typ), false, nil
	}
	l, ok := defaultLiteral(f.InitialDefault, f.Type)
	if !ok {
		return nil, false, errs.Newf(errs.Unsupported, "lake.read", "the default %.64v of column %s of type %s", f.InitialDefault, f.Name, f.Type)
	}
	c, err := constant(l, typ)
	return c, true, err
}

// defaultLiteral gives a default, which metadata holds as a JSON value, the type of its column.
func defaultLiteral(v any, t iceberg.Type) (iceberg.Literal, bool) {
	switch x := v.(type) {
	case iceberg.Literal:
		l, err := x.To(t)
		return l, err == nil
	case float64:
		switch t.(type) {
		case iceberg.Float32Type:
			return iceberg.NewLiteral(float32(x)), true
		case iceberg.Float64Type:
			return iceberg.NewLiteral(x), true
		}
		// A number beyond 2^53 was rounded when the metadata was parsed; only the ends of the range can be meant for sure.
		switch {
		case x == -(1 << 63):
			return literalOf(int64(math.MinInt64), t)
		case x == 1<<63:
			return literalOf(int64(math.MaxInt64), t)
		case x != math.Trunc(x) || math.Abs(x) > 1<<53:
			return nil, false
		}
		return literalOf(int64(x), t)
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

// constant is a partition value or a literal as a scalar of a column's type; Corrupt when it does not fit.
func constant(v any, typ arrow.DataType) (scalar.Scalar, error) {
	if l, ok := v.(iceberg.Literal); ok {
		v = l.Any()
	}
	switch x := v.(type) {
	case nil:
		return scalar.MakeNullScalar(typ), nil
	case int32:
		v = int64(x)
	case iceberg.Date:
		v = int64(x)
	case iceberg.Time:
		v = int64(x)
	case iceberg.Timestamp:
		v = int64(x)
	case iceberg.TimestampNano:
		v = int64(x)
	case uuid.UUID:
		v = x[:]
	case iceberg.Decimal:
		if typ.ID() == arrow.DECIMAL128 {
			return scalar.NewDecimal128Scalar(x.Val, typ), nil
		}
	case float32:
		v = float64(x)
	}
	switch x := v.(type) {
	case bool:
		if typ.ID() == arrow.BOOL {
			return scalar.NewBooleanScalar(x), nil
		}
	case int64:
		switch typ.ID() {
		case arrow.INT32:
			if x == int64(int32(x)) {
				return scalar.NewInt32Scalar(int32(x)), nil
			}
		case arrow.DATE32:
			if x == int64(int32(x)) {
				return scalar.NewDate32Scalar(arrow.Date32(x)), nil
			}
		case arrow.INT64:
			return scalar.NewInt64Scalar(x), nil
		case arrow.TIMESTAMP:
			return scalar.NewTimestampScalar(arrow.Timestamp(x), typ), nil
		case arrow.TIME64:
			return scalar.NewTime64Scalar(arrow.Time64(x), typ), nil
		}
	case float64:
		switch typ.ID() {
		case arrow.FLOAT32:
			return scalar.NewFloat32Scalar(float32(x)), nil
		case arrow.FLOAT64:
			return scalar.NewFloat64Scalar(x), nil
		}
	case string:
		switch typ.ID() {
		case arrow.STRING:
			return scalar.NewStringScalar(x), nil
		case arrow.FIXED_SIZE_BINARY:
			if u, err := uuid.Parse(x); err == nil && typ.(*arrow.FixedSizeBinaryType).ByteWidth == 16 {
				return scalar.NewFixedSizeBinaryScalar(memory.NewBufferBytes(u[:]), typ), nil
			}
		case arrow.BINARY:
			return scalar.NewBinaryScalar(memory.NewBufferBytes([]byte(x)), typ), nil
		}
	case []byte:
		switch typ.ID() {
		case arrow.DECIMAL128:
			if d, ok := decimalBytes(x); ok {
				return scalar.NewDecimal128Scalar(d.d, typ), nil
			}
		case arrow.FIXED_SIZE_BINARY:
			if len(x) == typ.(*arrow.FixedSizeBinaryType).ByteWidth {
				return scalar.NewFixedSizeBinaryScalar(memory.NewBufferBytes(x), typ), nil
			}
		case arrow.BINARY:
			return scalar.NewBinaryScalar(memory.NewBufferBytes(x), typ), nil
		case arrow.STRING:
			return scalar.NewStringScalar(string(x)), nil
		}
	}
	return nil, errs.Newf(errs.Corrupt, "lake.read", "the partition value or default %.64v is no %s", v, typ)
}

// DefaultText is the initial default of a column as text that casts to the column's type, nil when it has none: the value
// of rows in files that lack the column.
func (t *Table) DefaultText(column string) (*string, error) {
	f, ok := t.meta.CurrentSchema().FindFieldByNameCaseInsensitive(column)
	if !ok {
		return nil, nil
	}
	return defaultText(f, f.InitialDefault)
}

// WriteDefaultText is the write default of a column, like DefaultText: the value of new rows that do not give one.
func (t *Table) WriteDefaultText(column string) (*string, error) {
	f, ok := t.meta.CurrentSchema().FindFieldByNameCaseInsensitive(column)
	if !ok {
		return nil, nil
	}
	return defaultText(f, f.WriteDefault)
}

// defaultScalar is a default of a column, nil when it has none.
func defaultScalar(f iceberg.NestedField, value any) (scalar.Scalar, error) {
	if value == nil {
		return nil, nil
	}
	l, ok := defaultLiteral(value, f.Type)
	if !ok {
		return nil, errs.New(errs.Unsupported, "lake.default", fmt.Sprintf("a default of type %s", f.Type), errs.On(f.Name))
	}
	typ, err := arrowType(f.Type)
	if err != nil {
		return nil, errs.With(err, errs.On(f.Name))
	}
	s, err := constant(l, typ)
	return s, errs.With(err, errs.On(f.Name))
}

func defaultText(f iceberg.NestedField, value any) (*string, error) {
	s, err := defaultScalar(f, value)
	if s == nil || err != nil {
		return nil, err
	}
	text := s.String()
	switch x := s.(type) {
	case *scalar.FixedSizeBinary:
		text = escaped(x.Data())
		if _, ok := f.Type.(iceberg.UUIDType); ok {
			text = uuid.UUID(x.Data()).String()
		}
	case *scalar.Binary:
		text = escaped(x.Data())
	}
	return &text, nil
}

// escaped writes bytes as SQL casts text to BLOB: each as \x and two digits.
func escaped(b []byte) string {
	var s strings.Builder
	for _, c := range b {
		fmt.Fprintf(&s, "\\x%02X", c)
	}
	return s.String()
}

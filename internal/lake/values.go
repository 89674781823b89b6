package lake

import (
	"math"
	"math/big"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/iceberg-go"
	"github.com/google/uuid"

	"github.com/overlakedb/overlake/internal/predicate"
)

// literalOf gives a constant of a filter the type of a column; false when it does not fit exactly, in which case the
// filter says nothing about files.
func literalOf(v predicate.Value, t iceberg.Type) (iceberg.Literal, bool) {
	if d, ok := v.(predicate.Typed); ok {
		return typedLiteral(d, t)
	}
	switch t := t.(type) {
	case iceberg.BooleanType:
		b, ok := v.(bool)
		return iceberg.NewLiteral(b), ok
	case iceberg.Int32Type:
		n, ok := integer(v)
		// A constant outside the type still compares; bounds are compared as 64-bit integers.
		if ok && (n > math.MaxInt32 || n < math.MinInt32) {
			return nil, false
		}
		return iceberg.NewLiteral(int32(n)), ok
	case iceberg.Int64Type:
		n, ok := integer(v)
		return iceberg.NewLiteral(n), ok
	case iceberg.Float32Type:
		f, ok := float(v)
		return iceberg.NewLiteral(float32(f)), ok && float64(float32(f)) == f
	case iceberg.Float64Type:
		f, ok := float(v)
		return iceberg.NewLiteral(f), ok
	case iceberg.StringType:
		s, ok := v.(string)
		return iceberg.NewLiteral(s), ok
	case iceberg.DecimalType:
		if n, ok := v.(int64); ok {
			return decimalLiteral(big.NewRat(n, 1), t)
		}
	case iceberg.DateType, iceberg.TimestampType, iceberg.TimestampTzType, iceberg.TimeType, iceberg.UUIDType, iceberg.TimestampNsType, iceberg.TimestampTzNsType:
		// SQL casts a bare string to the type of the column.
		if s, ok := v.(string); ok {
			return parseLiteral(s, t)
		}
	}
	return nil, false
}

func typedLiteral(v predicate.Typed, t iceberg.Type) (iceberg.Literal, bool) {
	switch t := t.(type) {
	case iceberg.StringType:
		return iceberg.NewLiteral(v.Text), v.Type == "varchar"
	case iceberg.DateType:
		if v.Type == "date" {
			return parseLiteral(v.Text, t)
		}
	case iceberg.TimestampType, iceberg.TimestampTzType, iceberg.TimestampNsType, iceberg.TimestampTzNsType:
		if v.Type == "date" || v.Type == "timestamp" || v.Type == "timestamptz" {
			return parseLiteral(v.Text, t)
		}
	case iceberg.TimeType:
		if v.Type == "time" {
			return parseLiteral(v.Text, t)
		}
	case iceberg.UUIDType:
		if v.Type == "uuid" {
			return parseLiteral(v.Text, t)
		}
	case iceberg.DecimalType:
		if r, ok := new(big.Rat).SetString(v.Text); ok && v.Type == "decimal" {
			return decimalLiteral(r, t)
		}
	case iceberg.Float32Type, iceberg.Float64Type:
		if r, ok := new(big.Rat).SetString(v.Text); ok && v.Type == "decimal" {
			f, _ := r.Float64()
			return literalOf(f, t)
		}
	case iceberg.Int32Type, iceberg.Int64Type:
		if r, ok := new(big.Rat).SetString(v.Text); ok && v.Type == "decimal" && r.IsInt() && r.Num().IsInt64() {
			return literalOf(r.Num().Int64(), t)
		}
	}
	return nil, false
}

func integer(v predicate.Value) (int64, bool) {
	n, ok := v.(int64)
	return n, ok
}

func float(v predicate.Value) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, !math.IsNaN(v)
	case int64:
		return float64(v), v <= 1<<53 && v >= -(1<<53)
	}
	return 0, false
}

func decimalLiteral(r *big.Rat, t iceberg.DecimalType) (iceberg.Literal, bool) {
	scaled := new(big.Rat).Mul(r, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(t.Scale())), nil)))
	if !scaled.IsInt() || scaled.Num().BitLen() > 126 {
		return nil, false
	}
	return iceberg.NewLiteral(iceberg.Decimal{Val: decimal128.FromBigInt(scaled.Num()), Scale: t.Scale()}), true
}

var timeLayouts = []string{
	"2006-01-02", "2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02T15:04:05",
	"2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05Z07:00", "2006-01-02 15:04:05Z07",
}

// parseLiteral reads dates, times and identifiers as SQL does with the time zone UTC. Go's parser takes fractions of a
// second wherever seconds stand.
func parseLiteral(s string, t iceberg.Type) (iceberg.Literal, bool) {
	s = strings.TrimSpace(s)
	switch t.(type) {
	case iceberg.UUIDType:
		u, err := uuid.Parse(s)
		return iceberg.NewLiteral(u), err == nil
	case iceberg.TimeType:
		for _, l := range []string{"15:04", "15:04:05"} {
			if v, err := time.Parse(l, s); err == nil {
				return iceberg.NewLiteral(iceberg.Time(v.Sub(v.Truncate(24 * time.Hour)).Microseconds())), v.Nanosecond()%1000 == 0
			}
		}
		return nil, false
	}
	for i, l := range timeLayouts {
		v, err := time.Parse(l, s)
		if err != nil {
			continue
		}
		switch t.(type) {
		case iceberg.DateType:
			if i > 0 {
				return nil, false
			}
			return iceberg.NewLiteral(iceberg.Date(v.Unix() / 86400)), v.Unix()%86400 == 0
		case iceberg.TimestampType, iceberg.TimestampTzType:
			return iceberg.NewLiteral(iceberg.Timestamp(v.UnixMicro())), v.Nanosecond()%1000 == 0
		default:
			if y := v.Year(); y < 1700 || y > 2200 {
				return nil, false
			}
			return iceberg.NewLiteral(iceberg.TimestampNano(v.UnixNano())), true
		}
	}
	return nil, false
}

// normal brings the value of a literal to one of bool, int64, float64, string, []byte, *big.Int.
func normal(l iceberg.Literal) any {
	switch v := l.Any().(type) {
	case int32:
		return int64(v)
	case float32:
		return float64(v)
	case iceberg.Date:
		return int64(v)
	case iceberg.Time:
		return int64(v)
	case iceberg.Timestamp:
		return int64(v)
	case iceberg.TimestampNano:
		return int64(v)
	case iceberg.Decimal:
		return v.Val.BigInt()
	case uuid.UUID:
		return v[:]
	default:
		return v
	}
}

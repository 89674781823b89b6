package lake

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"math/big"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/iceberg-go"

	"github.com/overlakedb/overlake/internal/predicate"
)

// datum is a value of a column in the form that pruning compares: small, without pointers where possible, and ordered
// as SQL orders the column. Dates are days, times and timestamps the unit of their type, decimals unscaled.
type datum struct {
	kind datumKind
	i    int64 // bool, integers, dates, times
	f    float64
	d    decimal128.Num
	b    []byte // strings, binary, fixed, uuid
}

type datumKind uint8

const (
	noDatum datumKind = iota
	intDatum
	floatDatum
	decimalDatum
	bytesDatum
)

func (a datum) compare(b datum) int {
	switch a.kind {
	case intDatum:
		return cmp.Compare(a.i, b.i)
	case floatDatum:
		return cmp.Compare(a.f, b.f)
	case decimalDatum:
		return a.d.Cmp(b.d)
	}
	return bytes.Compare(a.b, b.b)
}

func kindOf(t iceberg.Type) datumKind {
	switch t.(type) {
	case iceberg.BooleanType, iceberg.Int32Type, iceberg.Int64Type, iceberg.DateType, iceberg.TimeType, iceberg.TimestampType,
		iceberg.TimestampTzType, iceberg.TimestampNsType, iceberg.TimestampTzNsType:
		return intDatum
	case iceberg.Float32Type, iceberg.Float64Type:
		return floatDatum
	case iceberg.DecimalType:
		return decimalDatum
	case iceberg.StringType, iceberg.BinaryType, iceberg.FixedType, iceberg.UUIDType:
		return bytesDatum
	}
	return noDatum
}

// boundDatum reads the single-value serialization of a bound (specification, appendix D); false when the bytes do not
// fit the type. A column promoted since may still have the shorter form.
func boundDatum(t iceberg.Type, b []byte) (datum, bool) {
	switch t := t.(type) {
	case iceberg.BooleanType:
		if len(b) == 1 {
			return datum{kind: intDatum, i: int64(b[0] & 1)}, b[0] <= 1
		}
	case iceberg.Int32Type, iceberg.DateType:
		if len(b) == 4 {
			return datum{kind: intDatum, i: int64(int32(binary.LittleEndian.Uint32(b)))}, true
		}
	case iceberg.Int64Type, iceberg.TimeType, iceberg.TimestampType, iceberg.TimestampTzType, iceberg.TimestampNsType,
		iceberg.TimestampTzNsType:
		switch len(b) {
		case 8:
			return datum{kind: intDatum, i: int64(binary.LittleEndian.Uint64(b))}, true
		case 4:
			v := int64(int32(binary.LittleEndian.Uint32(b)))
			if _, ok := t.(iceberg.Int64Type); !ok { // a date that became a timestamp
				return datum{}, false
			}
			return datum{kind: intDatum, i: v}, true
		}
	case iceberg.Float32Type, iceberg.Float64Type:
		f := math.NaN()
		switch {
		case len(b) == 4:
			f = float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
		case len(b) == 8 && t == iceberg.PrimitiveTypes.Float64:
			f = math.Float64frombits(binary.LittleEndian.Uint64(b))
		}
		return datum{kind: floatDatum, f: f}, !math.IsNaN(f) // some writers put NaN into bounds
	case iceberg.DecimalType:
		return decimalBytes(b)
	case iceberg.StringType, iceberg.BinaryType:
		return datum{kind: bytesDatum, b: b}, b != nil
	case iceberg.FixedType:
		return datum{kind: bytesDatum, b: b}, len(b) > 0
	case iceberg.UUIDType:
		return datum{kind: bytesDatum, b: b}, len(b) == 16
	}
	return datum{}, false
}

// decimalBytes reads a big-endian two's-complement number of at most 16 bytes.
func decimalBytes(b []byte) (datum, bool) {
	if len(b) == 0 {
		return datum{}, false
	}
	fill := byte(0)
	if b[0]&0x80 != 0 {
		fill = 0xff
	}
	for len(b) > 16 {
		if b[0] != fill || (b[1]^fill)&0x80 != 0 {
			return datum{}, false
		}
		b = b[1:]
	}
	var w [16]byte
	for i := range w {
		w[i] = fill
	}
	copy(w[16-len(b):], b)
	return datum{kind: decimalDatum, d: decimal128.New(int64(binary.BigEndian.Uint64(w[:8])), binary.BigEndian.Uint64(w[8:]))}, true
}

// tupleDatum is a partition value as a manifest has it, in the type that its transform gives; null is a value of its own.
func tupleDatum(v any, t iceberg.Type) (d datum, null, ok bool) {
	kind := kindOf(t)
	switch v := v.(type) {
	case nil:
		return datum{}, true, true
	case bool:
		if v {
			d.i = 1
		}
		d.kind = intDatum
	case int64:
		d = datum{kind: intDatum, i: v}
	case float32:
		d = datum{kind: floatDatum, f: float64(v)}
	case float64:
		d = datum{kind: floatDatum, f: v}
	case string:
		d = datum{kind: bytesDatum, b: []byte(v)}
		if _, uuid := t.(iceberg.UUIDType); uuid {
			return d, false, false
		}
	case []byte:
		if kind == decimalDatum {
			d, ok = decimalBytes(v)
			return d, false, ok
		}
		d = datum{kind: bytesDatum, b: v}
	}
	return d, false, d.kind == kind && kind != noDatum
}

// literalRange is a constant of a filter in the type of a column. lo and hi differ where the engine may round the
// constant: the true value lies between them. above means that the constant lies strictly between lo and the next
// value of a discrete type, so that no row equals it.
type literalRange struct {
	lo, hi datum
	above  bool
}

func (l literalRange) exact() bool { return !l.above && l.lo.compare(l.hi) == 0 }

func exactly(d datum) literalRange { return literalRange{lo: d, hi: d} }

// bindLiteral gives a constant the type of a column; false when we are not sure what the engine will compare with.
func bindLiteral(v predicate.Value, t iceberg.Type) (literalRange, bool) {
	typed, _ := v.(predicate.Typed)
	switch t := t.(type) {
	case iceberg.Int32Type, iceberg.Int64Type:
		switch v := v.(type) {
		case int64:
			return exactly(datum{kind: intDatum, i: v}), true
		case float64:
			if math.Abs(v) < 1<<53 {
				f := math.Floor(v)
				l := exactly(datum{kind: intDatum, i: int64(f)})
				l.above = f != v
				return l, true
			}
		case predicate.Typed:
			if d, above, ok := floorDecimal(v, 0); ok && d.LowBits()>>63 == uint64(d.HighBits())>>63 && (d.HighBits() == 0 || d.HighBits() == -1) {
				l := exactly(datum{kind: intDatum, i: int64(d.LowBits())})
				l.above = above
				return l, true
			}
		}
		return literalRange{}, false
	case iceberg.Float32Type, iceberg.Float64Type:
		_, single := t.(iceberg.Float32Type)
		return bindFloat(v, single)
	case iceberg.DecimalType:
		if n, ok := v.(int64); ok {
			typed = predicate.Typed{Type: "decimal", Text: big.NewInt(n).String()}
		}
		d, above, ok := floorDecimal(typed, t.Scale())
		l := exactly(datum{kind: decimalDatum, d: d})
		l.above = above
		return l, ok
	case iceberg.BinaryType, iceberg.FixedType:
		b, ok := v.([]byte)
		return exactly(datum{kind: bytesDatum, b: b}), ok
	}
	l, ok := literalOf(v, t)
	if !ok || !asWritten(v, t) {
		return literalRange{}, false
	}
	switch v := normal(l).(type) {
	case bool:
		d := datum{kind: intDatum}
		if v {
			d.i = 1
		}
		return exactly(d), true
	case int64:
		return exactly(datum{kind: intDatum, i: v}), true
	case string:
		return exactly(datum{kind: bytesDatum, b: []byte(v)}), true
	case []byte:
		return exactly(datum{kind: bytesDatum, b: v}), true
	}
	return literalRange{}, false
}

// asWritten tells whether the engine takes the whole text of a moment: a cast to a date takes the time away, one to another
// type what is below a microsecond, and a type without a zone passes over one in the text.
func asWritten(v predicate.Value, t iceberg.Type) bool {
	name := t.Type()
	if !strings.HasPrefix(name, "timestamp") {
		return true
	}
	text, bare := v.(string)
	if !bare {
		d, _ := v.(predicate.Typed)
		as := map[string]iceberg.Type{"date": iceberg.PrimitiveTypes.Date, "timestamp": iceberg.PrimitiveTypes.Timestamp, "timestamptz": iceberg.PrimitiveTypes.TimestampTz}[d.Type]
		if _, ok := parseLiteral(d.Text, as); !ok || d.Type == "timestamptz" && strings.HasSuffix(name, "_ns") {
			return false
		}
		text, name = d.Text, d.Type
	}
	text = strings.TrimSpace(text)
	return strings.HasPrefix(name, "timestamptz") || len(text) <= len("2006-01-02") || !strings.ContainsAny(text[10:], "Z+-")
}

// fit tells whether the engine compares constants with a column without rounding one of them: a decimal has at most 38
// digits, and where the digits before the point and those behind it are more, it cuts behind the point. Beside a
// floating-point number whole numbers become one.
func fit(values []predicate.Value, t iceberg.Type) bool {
	whole, scale := 19, 0
	d, isDecimal := t.(iceberg.DecimalType)
	if isDecimal {
		whole, scale = d.Precision()-d.Scale(), d.Scale()
	}
	decimals, floats, large := isDecimal, false, false
	for _, v := range values {
		switch v := v.(type) {
		case int64:
			whole = max(whole, 19)
			large = large || v >= 1<<53 || v <= -(1<<53)
		case float64:
			floats = true
		case predicate.Typed:
			if v.Type == "decimal" {
				decimals = true
				before, behind, _ := strings.Cut(strings.TrimLeft(v.Text, "+-"), ".")
				whole, scale = max(whole, len(before)), max(scale, len(behind))
			}
		}
	}
	if floats && (decimals || large) {
		return false
	}
	return !decimals || whole+scale <= 38
}

// bindFloat widens a constant by one unit in the last place, in the column's precision, unless it is a whole number: the
// engine may round a decimal constant to the column's type in its own way.
func bindFloat(v predicate.Value, single bool) (literalRange, bool) {
	f := math.NaN()
	switch v := v.(type) {
	case int64:
		f = float64(v)
		if v > 1<<53 || v < -(1<<53) {
			return literalRange{}, false
		}
	case float64:
		f = v
	case predicate.Typed:
		if r, ok := new(big.Rat).SetString(v.Text); ok && v.Type == "decimal" {
			f, _ = r.Float64()
		}
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return literalRange{}, false
	}
	lo, hi := f, f
	if single {
		g := float32(f)
		if math.IsInf(float64(g), 0) {
			return literalRange{}, false
		}
		if float64(g) != f || f != math.Trunc(f) {
			lo = min(f, float64(math.Nextafter32(g, float32(math.Inf(-1)))))
			hi = max(f, float64(math.Nextafter32(g, float32(math.Inf(1)))))
		}
	} else if f != math.Trunc(f) {
		lo, hi = math.Nextafter(f, math.Inf(-1)), math.Nextafter(f, math.Inf(1))
	}
	return literalRange{lo: datum{kind: floatDatum, f: lo}, hi: datum{kind: floatDatum, f: hi}}, true
}

// floorDecimal is a decimal constant at a scale, rounded down; above tells that something was cut off.
func floorDecimal(v predicate.Typed, scale int) (d decimal128.Num, above, ok bool) {
	if v.Type != "decimal" || len(v.Text) > 100 {
		return d, false, false
	}
	for _, c := range v.Text { // no exponents: they could ask for a number of any size
		if (c < '0' || c > '9') && c != '-' && c != '+' && c != '.' {
			return d, false, false
		}
	}
	r, ok := new(big.Rat).SetString(v.Text)
	if !ok {
		return d, false, false
	}
	r.Mul(r, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)))
	q, m := new(big.Int).DivMod(r.Num(), r.Denom(), new(big.Int))
	if q.BitLen() > 126 {
		return d, false, false
	}
	return decimal128.FromBigInt(q), m.Sign() != 0, true
}

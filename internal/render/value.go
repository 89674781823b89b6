package render

import (
	"encoding/hex"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
)

// Text is the value at row i as plain text; NULL is the empty string. Lists, structs and maps are compact json.
func Text(a arrow.Array, i int) string {
	if a.IsNull(i) {
		return ""
	}
	switch a := a.(type) {
	case *array.String:
		return a.Value(i)
	case *array.LargeString:
		return a.Value(i)
	case *array.Float32:
		return floatText(float64(a.Value(i)), 32)
	case *array.Float64:
		return floatText(a.Value(i), 64)
	}
	b := appendJSON(nil, a, i)
	if len(b) > 1 && b[0] == '"' {
		// A quoted scalar (date, binary, uuid): none of these holds a character that json escapes, except binary's
		// backslash.
		if s, err := strconv.Unquote(string(b)); err == nil {
			return s
		}
	}
	return string(b)
}

// appendJSON appends the value at row i as json.
func appendJSON(b []byte, a arrow.Array, i int) []byte {
	if a.IsNull(i) {
		return append(b, "null"...)
	}
	switch a := a.(type) {
	case *array.Boolean:
		return strconv.AppendBool(b, a.Value(i))
	case *array.Int8:
		return strconv.AppendInt(b, int64(a.Value(i)), 10)
	case *array.Int16:
		return strconv.AppendInt(b, int64(a.Value(i)), 10)
	case *array.Int32:
		return strconv.AppendInt(b, int64(a.Value(i)), 10)
	case *array.Int64:
		return strconv.AppendInt(b, a.Value(i), 10)
	case *array.Uint8:
		return strconv.AppendUint(b, uint64(a.Value(i)), 10)
	case *array.Uint16:
		return strconv.AppendUint(b, uint64(a.Value(i)), 10)
	case *array.Uint32:
		return strconv.AppendUint(b, uint64(a.Value(i)), 10)
	case *array.Uint64:
		return strconv.AppendUint(b, a.Value(i), 10)
	case *array.Float16:
		return appendFloat(b, float64(a.Value(i).Float32()), 32)
	case *array.Float32:
		return appendFloat(b, float64(a.Value(i)), 32)
	case *array.Float64:
		return appendFloat(b, a.Value(i), 64)
	case *array.Decimal128:
		return append(b, a.Value(i).ToString(a.DataType().(*arrow.Decimal128Type).Scale)...)
	case *array.Decimal256:
		return append(b, a.Value(i).ToString(a.DataType().(*arrow.Decimal256Type).Scale)...)
	case *array.String:
		return appendJSONString(b, a.Value(i))
	case *array.LargeString:
		return appendJSONString(b, a.Value(i))
	case *array.Binary:
		return appendHex(b, a.Value(i))
	case *array.LargeBinary:
		return appendHex(b, a.Value(i))
	case *array.FixedSizeBinary:
		return appendHex(b, a.Value(i))
	case *extensions.UUIDArray:
		return appendQuoted(b, a.Value(i).String())
	case *array.Date32:
		return appendQuoted(b, dateText(a.Value(i).ToTime()))
	case *array.Date64:
		return appendQuoted(b, dateText(a.Value(i).ToTime()))
	case *array.Time32:
		return appendQuoted(b, clock(int64(a.Value(i)), a.DataType().(*arrow.Time32Type).Unit))
	case *array.Time64:
		return appendQuoted(b, clock(int64(a.Value(i)), a.DataType().(*arrow.Time64Type).Unit))
	case *array.Timestamp:
		t := a.DataType().(*arrow.TimestampType)
		return appendQuoted(b, timestampText(a.Value(i), t))
	case *array.Duration:
		d := a.DataType().(*arrow.DurationType)
		return appendQuoted(b, (time.Duration(a.Value(i)) * d.Unit.Multiplier()).String())
	case *array.MonthDayNanoInterval:
		return appendQuoted(b, intervalText(a.Value(i)))
	case *array.Dictionary:
		return appendJSON(b, a.Dictionary(), a.GetValueIndex(i))
	case *array.Map:
		return appendMap(b, a, i)
	case array.ListLike:
		lo, hi := a.ValueOffsets(i)
		b = append(b, '[')
		for k := lo; k < hi; k++ {
			if k > lo {
				b = append(b, ',')
			}
			b = appendJSON(b, a.ListValues(), int(k))
		}
		return append(b, ']')
	case *array.Struct:
		t := a.DataType().(*arrow.StructType)
		b = append(b, '{')
		for k, f := range t.Fields() {
			if k > 0 {
				b = append(b, ',')
			}
			b = append(appendJSONString(b, f.Name), ':')
			b = appendJSON(b, a.Field(k), i)
		}
		return append(b, '}')
	case array.ExtensionArray:
		return appendJSON(b, a.Storage(), i)
	}
	return appendJSONString(b, a.ValueStr(i))
}

func appendMap(b []byte, a *array.Map, i int) []byte {
	lo, hi := a.ValueOffsets(i)
	keys, items := a.Keys(), a.Items()
	if keys.DataType().ID() != arrow.STRING {
		b = append(b, '[')
		for k := int(lo); k < int(hi); k++ {
			if k > int(lo) {
				b = append(b, ',')
			}
			b = append(b, `{"key":`...)
			b = appendJSON(b, keys, k)
			b = append(b, `,"value":`...)
			b = append(appendJSON(b, items, k), '}')
		}
		return append(b, ']')
	}
	b = append(b, '{')
	for k := int(lo); k < int(hi); k++ {
		if k > int(lo) {
			b = append(b, ',')
		}
		b = append(appendJSON(b, keys, k), ':')
		b = appendJSON(b, items, k)
	}
	return append(b, '}')
}

func appendFloat(b []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(b, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(b, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(b, `"-Infinity"`...)
	}
	return append(b, floatText(f, bits)...)
}

// floatText is the shortest decimal that reads back as f: plain digits in the usual range, an exponent outside it.
func floatText(f float64, bits int) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	abs := math.Abs(f)
	if abs != 0 && (abs < 1e-5 || abs >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, bits)
	}
	s := strconv.FormatFloat(f, 'f', -1, bits)
	for k := 0; k < len(s); k++ {
		if s[k] == '.' {
			return s
		}
	}
	return s + ".0"
}

func appendHex(b, v []byte) []byte {
	b = append(b, `"\\x`...)
	b = hex.AppendEncode(b, v)
	return append(b, '"')
}

func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

const hexDigits = "0123456789abcdef"

// appendJSONString quotes s; invalid UTF-8 becomes U+FFFD as in encoding/json, without its html escapes.
func appendJSONString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= 0x20 && c != '"' && c != '\\' {
				i++
				continue
			}
			b = append(b, s[start:i]...)
			switch c {
			case '"', '\\':
				b = append(b, '\\', c)
			case '\n':
				b = append(b, `\n`...)
			case '\r':
				b = append(b, `\r`...)
			case '\t':
				b = append(b, `\t`...)
			default:
				b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			}
			i++
			start = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			b = append(b, s[start:i]...)
			b = append(b, `\ufffd`...)
			i++
			start = i
			continue
		}
		i += n
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

func dateText(t time.Time) string { return t.Format("2006-01-02") }

func clock(v int64, unit arrow.TimeUnit) string {
	t := time.Unix(0, 0).UTC().Add(time.Duration(v) * unit.Multiplier())
	return trimFraction(t.Format("15:04:05.000000000"))
}

// timestampText shows microseconds or nanoseconds only where they are not zero. The extreme values are DuckDB's
// infinities.
func timestampText(v arrow.Timestamp, t *arrow.TimestampType) string {
	switch int64(v) {
	case math.MaxInt64:
		return "infinity"
	case -math.MaxInt64:
		return "-infinity"
	}
	s := trimFraction(v.ToTime(t.Unit).UTC().Format("2006-01-02T15:04:05.000000000"))
	if t.TimeZone != "" {
		s += "Z"
	}
	return s
}

// trimFraction cuts the zeros of a fraction that is always written with nine digits.
func trimFraction(s string) string {
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

func intervalText(v arrow.MonthDayNanoInterval) string {
	s := ""
	if v.Months != 0 {
		s += strconv.Itoa(int(v.Months)) + " months "
	}
	if v.Days != 0 {
		s += strconv.Itoa(int(v.Days)) + " days "
	}
	if v.Nanoseconds != 0 || s == "" {
		return s + time.Duration(v.Nanoseconds).String()
	}
	return s[:len(s)-1]
}

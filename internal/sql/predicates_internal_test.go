package sql

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Random values, constants and conditions for TestIndexesAgreeWithTheEngine.

// A family is a kind of column with its values, as SQL reads them in a cast, and ways to write such a value as a constant.
type family struct {
	typ    string
	class  string   // columns of one class are compared with each other's constants
	values []string // 'text'::typ
	write  []string // forms of a constant; %s is the text, $ the type
}

var (
	wholes   = []string{"-2147483648", "-6", "-5", "-1", "0", "1", "2", "5", "6", "7", "100", "16777216", "16777217", "2147483647"}
	bigs     = append(slices.Clone(wholes), "9007199254740991", "9007199254740992", "9007199254740993", "-9007199254740993", "9223372036854775807", "-9223372036854775807", "4294967296", "2147483648")
	cents    = []string{"0", "0.01", "-0.01", "5", "5.5", "5.55", "9999999.99", "-9999999.99", "0.1", "0.3", "100", "-5"}
	long     = []string{"0", "1", "1.123456789", "1.1234567891", "1.1234567892", "5.5", "5", "-5.5", "0.0000000001", "-0.0000000001", "1234567890123456789012345678.1234567890", "-1234567890123456789012345678.123456789", "0.1", "9007199254740993"}
	singles  = []string{"NaN", "0", "-0.0", "inf", "-inf", "1e-45", "-1e-45", "0.1", "0.3", "0.5", "5", "5.5", "16777216", "16777218", "3.4e38", "-0.1", "1e-38", "-5"}
	doubles  = append(slices.Clone(singles), "5e-324", "0.30000000000000004", "9007199254740992", "9007199254740994", "1.7e308", "16777217", "1e-300")
	days     = []string{"2026-01-01", "2026-01-02", "1969-12-31", "1970-01-01", "0001-01-01", "9999-12-31", "2024-02-29", "1582-10-15"}
	clocks   = []string{"00:00:00", "12:00:00", "12:00:00.000001", "23:59:59.999999", "01:02:03", "12:30:00"}
	instants = []string{"2026-01-01 00:00:00", "2026-01-01 12:00:00", "2026-01-01 12:00:00.000001", "2026-01-01 12:00:00.123456", "2026-01-02 00:00:00", "1969-12-31 23:59:59.999999", "1970-01-01 00:00:00",
		"0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "2025-12-31 22:00:00", "2026-01-01 02:00:00"}
	nanos = []string{"2026-01-01 00:00:00", "2026-01-01 12:00:00.123456", "2026-01-01 12:00:00.123456789", "2026-01-01 12:00:00.000000001", "1969-12-31 23:59:59.999999999", "1970-01-01 00:00:00", "2200-01-01 00:00:00", "1700-01-01 00:00:00"}
	words = []string{"", "a", "ab", "abc", "abd", "ABC", "b", "a%", "a_b", `a\b`, "ä", "äb", "é", "日本", "\U0001F600", "\U0010FFFF", "\uFFFF", "5", "05", "5.0", "true", "2026-01-01", "NULL", " a", "a ",
		strings.Repeat("long", 100), strings.Repeat("long", 100) + "er", "'", `"`, "zzzzzzzzzzzzzzzzzz"}
	uuids = []string{"00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", "8f14e45f-ceea-467f-ab6d-0b2a3c4d5e6f", "7f14e45f-ceea-467f-ab6d-0b2a3c4d5e6f"}
	blobs = []string{``, `a`, `ab`, `\x00`, `a\x00`, `a\x00b`, `\xFF`, `\xFF\xFF`, `\xC3\xA4`, `\x80`}
)

var (
	temporal = []string{"'%s'", "'%s'", "TIMESTAMP '%s'", "'%s'::DATE", "TIMESTAMPTZ '%s'", "'%sZ'", "'%s+02'", "'%s+02:00'::TIMESTAMPTZ", "' %s '", "'%s.1234567'", "TIMESTAMP '%s.1234567'",
		"TIMESTAMP '%s+02'", "TIMESTAMPTZ '%s+02'", "DATE '%s'"}
	numeric = []string{"%s", "%s", "%s", "%s", "'%s'", "(%s)", "(%s)::$", "(%s)::BIGINT", "(%s)::DOUBLE", "(%s)::FLOAT", "(%s)::DECIMAL(38,2)", "-(%s)", "+%s", "%s.0", "%s.5", "%s.000000000001", "%s.000000000000000001",
		"%se0", "%s.5e0", "%s + 0", "'%s.0'", "(%s)::HUGEINT", "'%s'::$"}
	floating = []string{"'%s'::$", "'%s'::$", "'%s'::DOUBLE", "'%s'::FLOAT", "%s", "'%s'", "-('%s'::$)", "(%s)::DECIMAL(38,20)"}
)

var families = map[string]family{
	"bool":   {"BOOLEAN", "truth", []string{"true", "false"}, []string{"%s", "'%s'", "'%s'::$"}},
	"int":    {"INTEGER", "number", wholes, numeric},
	"big":    {"BIGINT", "number", bigs, numeric},
	"single": {"FLOAT", "number", singles, floating},
	"double": {"DOUBLE", "number", doubles, floating},
	"cents":  {"DECIMAL(9,2)", "number", cents, []string{"%s", "%s", "'%s'", "%s::$", "%s::DOUBLE", "(%s)::DECIMAL(38,20)", "-(%s)", "%s::FLOAT", "'%s0001'"}},
	"long":   {"DECIMAL(38,10)", "number", long, []string{"%s", "%s", "'%s'", "'%s'::$", "(%s)::DOUBLE", "-(%s)", "(%s)::DECIMAL(38,5)", "(%s)::FLOAT"}},
	"day":    {"DATE", "moment", days, append([]string{"DATE '%s'", "'%s 12:00:00'", "TIMESTAMP '%s 12:00:00'", "'%s 12:00:00'::DATE"}, temporal...)},
	"clock":  {"TIME", "clock", clocks, []string{"'%s'", "TIME '%s'", "'%s'::TIME", "' %s'", "'%s.0000005'", "TIME '%s.0000005'"}},
	"at":     {"TIMESTAMP", "moment", instants, temporal},
	"tz":     {"TIMESTAMPTZ", "moment", instants, temporal},
	"nano":   {"TIMESTAMP_NS", "nano", nanos, []string{"'%s'", "TIMESTAMP '%s'", "'%s'::DATE", "'%s'::TIMESTAMP_NS", "'%s'::TIMESTAMP", "'%sZ'", "'%s+02'", "TIMESTAMP '%s+02'", "DATE '%s'"}},
	"text":   {"VARCHAR", "text", words, []string{"'%s'", "'%s'", "'%s'::VARCHAR", "E'%s'", "lower('%s')", "concat('%s', chr(0))"}},
	"uuid":   {"UUID", "uuid", uuids, []string{"'%s'", "UUID '%s'", "'%s'::UUID", "'{%s}'"}},
	"blob":   {"BLOB", "blob", blobs, []string{"'%s'::BLOB", "'%s'::BLOB", "'%s'"}},
}

// odd constants, by the class of the column that they meet.
var odd = map[string][]string{
	"number": {"NULL", "5.5", "'5'", "1", "170141183460469231731687303715884105727", "9223372036854775808", "18446744073709551615", "-9223372036854775808", "1.1234567890123", "1.12345678910",
		"0.30000000000000004", "16777217", "9007199254740993", "9007199254740993.0", "9007199254740992.5", "9007199254740993e0", "'NaN'::DOUBLE", "12345678901234567890123456789012345678", "5::UTINYINT",
		"18446744073709551615::UBIGINT", "1e2", "' 5 '", "5.", ".5", "1_000", "99999999999999999999999999999999999999"},
	"moment": {"NULL", "'2026-01-01'", "'2026-1-1'", "'2026-01-01 00:00'", "'2026-01-01T12:00:00'", "DATE '2026-01-01'", "TIMESTAMP '2026-01-01'", "'infinity'::DATE",
		"TIMESTAMP '2026-01-01 12:00'", "'2026-01-01 12:00:00.1234569'", "'2026-01-01 12:00:00 UTC'", "'2026-01-01 12:00:00 Europe/Berlin'", "TIMESTAMPTZ '2026-01-01 12:00:00 Europe/Berlin'", "'epoch'::TIMESTAMP", "'2026-01-01 24:00:00'",
		"DATE '2026-01-01' + 1", "'10000-01-01'::DATE", "'0001-01-01 (BC)'::DATE", "make_date(2026, 1, 1)"},
	"nano":  {"NULL", "'2026-01-01'", "'2026-1-1'", "DATE '2026-01-01'", "TIMESTAMP '2026-01-01'", "TIMESTAMP '2026-01-01 12:00'", "'2026-01-01 12:00:00.1234569'", "make_date(2026, 1, 1)"},
	"clock": {"NULL", "'12:00'", "'24:00:00'", "TIME '24:00:00'", "'1:02:03'", "'01:02:03.000'", "'12:00:00 '", "'12:30'::TIME"},
	"text":  {"NULL", "''", "'a'", "'A'", "'a'::VARCHAR", "'a' || 'b'", "chr(0)"},
	"uuid":  {"NULL", "'8F14E45F-CEEA-467F-AB6D-0B2A3C4D5E6F'", "'8f14e45fceea467fab6d0b2a3c4d5e6f'", "'{8f14e45f-ceea-467f-ab6d-0b2a3c4d5e6f}'"},
	"blob":  {"NULL", "''", "''::BLOB", "'a'", "'\\x61'", "'\\x61'::BLOB", "'61'::BLOB"},
	"truth": {"NULL", "'t'", "'yes'", "'false'", "true"},
}

var ops = []string{"=", "=", "<>", "!=", "<", "<=", ">", ">="}

// column is a column that conditions speak of.
type column struct{ name, family string }

// conditions makes conditions over columns.
type conditions struct {
	rng     *rand.Rand
	columns []column
	refused map[string]bool // constants that the engine does not compare with a family: family, NUL, constant
	parts   [][2]string     // family and constant of the condition at work
}

func pick[T any](rng *rand.Rand, list []T) T { return list[rng.IntN(len(list))] }

// constant writes a constant to compare with a column.
func (c *conditions) constant(col column) string {
	for {
		s := c.anyConstant(col)
		if !c.refused[col.family+"\x00"+s] {
			c.parts = append(c.parts, [2]string{col.family, s})
			return s
		}
	}
}

func (c *conditions) anyConstant(col column) string {
	f := families[col.family]
	switch c.rng.IntN(12) {
	case 0:
		return pick(c.rng, odd[f.class])
	case 1:
		g := f
		for _, col := range c.columns {
			if other := families[col.family]; other.class == f.class && c.rng.IntN(3) == 0 {
				g = other
			}
		}
		return fmt.Sprintf("'%s'::%s", quoted(pick(c.rng, g.values)), g.typ)
	}
	text := quoted(pick(c.rng, f.values))
	if f.class == "number" && strings.Trim(text, "-.0123456789e") != "" { // NaN and inf are no words of SQL
		return "'" + text + "'::" + f.typ
	}
	form := strings.ReplaceAll(pick(c.rng, f.write), "$", f.typ)
	return strings.ReplaceAll(form, "%s", text)
}

func quoted(s string) string { return strings.ReplaceAll(s, "'", "''") }

// condition makes a condition; depth bounds how it is nested.
func (c *conditions) condition(depth int) string {
	if depth > 0 {
		switch c.rng.IntN(11) {
		case 0, 1, 2:
			return c.join(" AND ", depth)
		case 3, 4:
			return c.join(" OR ", depth)
		case 5, 6:
			return "NOT (" + c.condition(depth-1) + ")"
		case 7:
			return "(" + c.condition(depth-1) + ")" + pick(c.rng, []string{" IS TRUE", " IS NOT TRUE", " IS FALSE", " IS NULL", " = true", " IS DISTINCT FROM false"})
		}
	}
	return c.leaf()
}

func (c *conditions) join(word string, depth int) string {
	parts := make([]string, 2+c.rng.IntN(2))
	for i := range parts {
		parts[i] = "(" + c.condition(depth-1) + ")"
	}
	return strings.Join(parts, word)
}

func (c *conditions) leaf() string {
	col := pick(c.rng, c.columns)
	n := col.name
	not := pick(c.rng, []string{"", "NOT "})
	switch c.rng.IntN(16) {
	case 0, 1, 2, 3:
		return n + " " + pick(c.rng, ops) + " " + c.constant(col)
	case 4:
		return c.constant(col) + " " + pick(c.rng, ops) + " " + n
	case 5, 6:
		low, high := c.constant(col), c.constant(col)
		switch c.rng.IntN(6) {
		case 0:
			low = c.beside(col)
		case 1:
			high = c.beside(col)
		}
		return n + " " + not + "BETWEEN " + low + " AND " + high
	case 7, 8:
		size := 1 + c.rng.IntN(5)
		if c.rng.IntN(100) == 0 {
			size = 100 + c.rng.IntN(300)
		}
		list := make([]string, size)
		for i := range list {
			if list[i] = c.constant(col); size > 5 && c.rng.IntN(10) > 0 {
				f := families[col.family]
				list[i] = fmt.Sprintf("'%s'::%s", quoted(pick(c.rng, f.values)), f.typ)
			}
		}
		if c.rng.IntN(10) == 0 {
			list[c.rng.IntN(size)] = "NULL"
		}
		return n + " " + not + "IN (" + strings.Join(list, ", ") + ")"
	case 9:
		return n + " IS " + not + "NULL"
	case 10:
		return n + " IS " + not + "DISTINCT FROM " + c.constant(col)
	case 11, 12:
		for col.family != "text" { // the others have no LIKE
			if col = pick(c.rng, c.columns); c.rng.IntN(40) == 0 {
				return n + " IS NOT NULL"
			}
		}
		n = col.name
		p := quoted(pick(c.rng, families[col.family].values))
		if cut := c.rng.IntN(len(p) + 1); p != "" && cut > 0 && isASCII(p) && !strings.Contains(p, "'") {
			p = p[:cut]
		}
		switch c.rng.IntN(8) {
		case 0:
			return "starts_with(" + n + ", '" + p + "')"
		case 1:
			return n + " ^@ '" + p + "'"
		case 2:
			return "prefix(" + n + ", '" + p + "')"
		case 3:
			return n + " " + not + "ILIKE '" + p + "%'"
		case 4:
			return n + " " + not + "LIKE '" + p + "'"
		case 5:
			return n + " " + not + "LIKE '" + p + "%' ESCAPE '\\'"
		}
		return n + " " + not + "LIKE '" + p + pick(c.rng, []string{"%", "%", "%", "%b", "_", "_%", "%%", `\%`}) + "'"
	case 13:
		other := pick(c.rng, c.columns)
		for families[other.family].class != families[col.family].class {
			other = pick(c.rng, c.columns)
		}
		return n + " " + pick(c.rng, ops) + " " + other.name
	case 14:
		other := pick(c.rng, c.columns)
		if c.rng.IntN(2) == 0 {
			return fmt.Sprintf("(%s, %s) = (%s, %s)", n, other.name, c.constant(col), c.constant(other))
		}
		return fmt.Sprintf("(%s, %s) %sIN ((%s, %s), (%s, %s))", n, other.name, not, c.constant(col), c.constant(other), c.constant(col), c.constant(other))
	}
	if col.family == "bool" {
		return pick(c.rng, []string{n, "NOT " + n, n + " IS TRUE", n + " IS NOT FALSE"})
	}
	return "coalesce(" + n + " " + pick(c.rng, ops) + " " + c.constant(col) + ", " + pick(c.rng, []string{"true", "false"}) + ")"
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r > 126 }) < 0
}

// beside is a column whose values are compared with those of another one.
func (c *conditions) beside(col column) string {
	for {
		if other := pick(c.rng, c.columns); families[other.family].class == families[col.family].class {
			return other.name
		}
	}
}

// value is a random value of a family as an expression of its type.
func value(rng *rand.Rand, name string) string {
	f := families[name]
	if rng.IntN(8) == 0 {
		return "NULL::" + f.typ
	}
	if name == "text" && rng.IntN(8) == 0 {
		return pick(rng, []string{"chr(0)", "'a' || chr(0)", "'a' || chr(0) || 'b'", "'ab' || chr(255)"})
	}
	return fmt.Sprintf("'%s'::%s", quoted(pick(rng, f.values)), f.typ)
}

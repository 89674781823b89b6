package sql

import (
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/overlakedb/overlake/internal/declared"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/sql/cast"
	"github.com/overlakedb/overlake/internal/sql/coltype"
	"github.com/overlakedb/overlake/internal/sql/lex"
)

// cursor reads the words of a statement one after the other.
type cursor struct {
	text   string
	tokens []lex.Token
	at     int
}

func (c *cursor) peek() lex.Token {
	if c.at < len(c.tokens) {
		return c.tokens[c.at]
	}
	return lex.Token{Kind: lex.Punct, Start: len(c.text), End: len(c.text)}
}

func (c *cursor) next() lex.Token {
	t := c.peek()
	c.at++
	return t
}

func (c *cursor) done() bool { return c.at >= len(c.tokens) }

// accept moves over the words if they come next.
func (c *cursor) accept(words ...string) bool {
	for i, w := range words {
		if c.at+i >= len(c.tokens) || !c.tokens[c.at+i].Is(w) {
			return false
		}
	}
	c.at += len(words)
	return true
}

func (c *cursor) expect(word string) error {
	if c.accept(word) {
		return nil
	}
	return c.errorf("expected %s", word)
}

// errorf is an error at the next word.
func (c *cursor) errorf(format string, args ...any) error {
	t := c.peek()
	where := ", not " + strconv.Quote(t.Text)
	if c.done() {
		where = " at the end of the statement"
	}
	return lex.Errorf(c.text, t.Start, format+"%s", append(args, where)...)
}

func (c *cursor) end() error {
	if c.done() {
		return nil
	}
	return lex.Errorf(c.text, c.peek().Start, "unexpected %q", c.peek().Text)
}

func (c *cursor) name(what string) (string, error) {
	if t := c.peek(); t.IsIdent() {
		c.at++
		return t.Name(), nil
	}
	return "", c.errorf("expected the name of %s", what)
}

// parts is a name with dots.
func (c *cursor) parts(what string) ([]string, error) {
	var out []string
	for {
		n, err := c.name(what)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
		if !c.accept(".") {
			return out, nil
		}
	}
}

// rest is the text from the next word on.
func (c *cursor) rest() string { return c.text[c.peek().Start:] }

// typeName reads a SQL type. declared is the type to remember for a vector.
func (c *cursor) typeName() (t arrow.DataType, md map[string]string, err error) {
	start := c.peek()
	word, err := c.name("a type")
	if err != nil {
		return nil, nil, err
	}
	md = map[string]string{}
	args := func() ([][]lex.Token, error) {
		if !c.peek().Is("(") {
			return nil, nil
		}
		a, end := lex.Args(c.tokens, c.at)
		if end < 0 {
			return nil, c.errorf("this bracket is never closed")
		}
		c.at = end + 1
		return a, nil
	}
	switch strings.ToUpper(word) {
	case "BOOLEAN", "BOOL", "LOGICAL":
		t = arrow.FixedWidthTypes.Boolean
	case "TINYINT", "INT1", "SMALLINT", "INT2", "SHORT", "INTEGER", "INT", "INT4", "SIGNED", "UTINYINT", "USMALLINT":
		t = arrow.PrimitiveTypes.Int32
	case "BIGINT", "INT8", "LONG", "UINTEGER":
		t = arrow.PrimitiveTypes.Int64
	case "REAL", "FLOAT4", "FLOAT":
		t = arrow.PrimitiveTypes.Float32
	case "DOUBLE", "FLOAT8":
		c.accept("PRECISION")
		t = arrow.PrimitiveTypes.Float64
	case "DECIMAL", "NUMERIC", "DEC":
		a, err := args()
		if err != nil {
			return nil, nil, err
		}
		p, s := int64(18), int64(3)
		if len(a) > 0 && len(a[0]) == 1 {
			p, err = strconv.ParseInt(a[0][0].Text, 10, 32)
			s = 0
		}
		if err == nil && len(a) > 1 && len(a[1]) == 1 {
			s, err = strconv.ParseInt(a[1][0].Text, 10, 32)
		}
		if err != nil || p < 1 || p > 38 || s < 0 || s > p || len(a) > 2 {
			return nil, nil, lex.Errorf(c.text, start.Start, "DECIMAL(p, s) needs 1 ≤ p ≤ 38 and 0 ≤ s ≤ p")
		}
		t = &arrow.Decimal128Type{Precision: int32(p), Scale: int32(s)}
	case "VARCHAR", "TEXT", "STRING", "CHAR", "BPCHAR", "JSON":
		if _, err := args(); err != nil { // VARCHAR(n): the length is no limit, as in DuckDB
			return nil, nil, err
		}
		t = arrow.BinaryTypes.String
	case "BLOB", "BYTEA", "BINARY", "VARBINARY":
		t = arrow.BinaryTypes.Binary
	case "DATE":
		t = arrow.FixedWidthTypes.Date32
	case "TIME":
		t = arrow.FixedWidthTypes.Time64us
	case "TIMESTAMP", "DATETIME":
		ts := &arrow.TimestampType{Unit: arrow.Microsecond}
		if c.accept("WITH", "TIME", "ZONE") {
			ts.TimeZone = "UTC"
		} else {
			c.accept("WITHOUT", "TIME", "ZONE")
		}
		t = ts
	case "TIMESTAMPTZ":
		t = &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	case "TIMESTAMP_NS":
		t = &arrow.TimestampType{Unit: arrow.Nanosecond}
	case "UUID":
		t = &arrow.FixedSizeBinaryType{ByteWidth: 16}
		md[coltype.IcebergType] = "uuid"
	case "VECTOR", "HALFVEC", "SPARSEVEC", "BIT":
		name := strings.ToLower(word)
		a, err := args()
		if err != nil {
			return nil, nil, err
		}
		if a != nil {
			n, err := cast.Modifier(c.text, start, name, a)
			if err != nil {
				return nil, nil, err
			}
			name += "(" + strconv.FormatInt(n, 10) + ")"
		}
		d, ok := declared.Parse(name)
		if !ok {
			return nil, nil, errs.With(lex.Errorf(c.text, start.Start, "a column of type %s needs a length", word), errs.Hint("write %s(8) for bit strings of 8 bits", word))
		}
		md[declared.Key], t = name, d.Storage()
	case "STRUCT", "ROW":
		a, err := args()
		if err != nil {
			return nil, nil, err
		}
		var fields []arrow.Field
		for _, f := range a {
			in := &cursor{text: c.text, tokens: f}
			n, err := in.name("a field")
			if err != nil {
				return nil, nil, err
			}
			ft, fmd, err := in.typeName()
			if err == nil {
				err = in.end()
			}
			if err != nil {
				return nil, nil, err
			}
			fields = append(fields, arrow.Field{Name: n, Type: ft, Nullable: true, Metadata: arrow.MetadataFrom(fmd)})
		}
		if len(fields) == 0 {
			return nil, nil, lex.Errorf(c.text, start.Start, "a STRUCT needs fields")
		}
		t = arrow.StructOf(fields...)
	case "MAP":
		a, err := args()
		if err != nil {
			return nil, nil, err
		}
		if len(a) != 2 {
			return nil, nil, lex.Errorf(c.text, start.Start, "MAP needs a key type and a value type")
		}
		var kv [2]arrow.DataType
		for i := range kv {
			in := &cursor{text: c.text, tokens: a[i]}
			if kv[i], _, err = in.typeName(); err == nil {
				err = in.end()
			}
			if err != nil {
				return nil, nil, err
			}
		}
		t = arrow.MapOf(kv[0], kv[1])
	default:
		return nil, nil, errs.New(errs.Unsupported, "sql.type", "columns of this type cannot be stored in Iceberg", errs.On(word),
			errs.Hint("use BOOLEAN, INTEGER, BIGINT, FLOAT, DOUBLE, DECIMAL, VARCHAR, BLOB, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, UUID, vector(n), halfvec(n), sparsevec(n), bit(n), lists, STRUCT or MAP"))
	}
	for c.peek().Is("[") {
		c.next()
		if c.peek().Kind == lex.Number {
			return nil, nil, errs.New(errs.Unsupported, "sql.type", "fixed-size arrays", errs.On(word), errs.Hint("use vector(n) for vectors, or a list: %s[]", word))
		}
		if err := c.expect("]"); err != nil {
			return nil, nil, err
		}
		t, md = arrow.ListOfField(arrow.Field{Name: "element", Type: t, Nullable: true}), map[string]string{}
	}
	return t, md, nil
}

// columnDef reads name type [NOT NULL] [NULL] [COMMENT '…'] [DEFAULT literal].
func (c *cursor) columnDef() (f arrow.Field, def any, err error) {
	if f.Name, err = c.name("a column"); err != nil {
		return f, nil, err
	}
	t, md, err := c.typeName()
	if err != nil {
		return f, nil, err
	}
	f.Type, f.Nullable = t, true
	for {
		switch {
		case c.accept("NOT", "NULL"):
			f.Nullable = false
		case c.accept("NULL"):
		case c.accept("COMMENT"):
			s := c.next()
			if s.Kind != lex.String {
				return f, nil, lex.Errorf(c.text, s.Start, "COMMENT needs a string")
			}
			md[lake.DocKey] = s.Value()
		case c.accept("DEFAULT"):
			from := c.peek()
			if def, err = c.literal(); err != nil {
				return f, nil, err
			}
			if _, decimal := f.Type.(*arrow.Decimal128Type); decimal && def != nil {
				text := c.text[from.Start:c.tokens[c.at-1].End]
				if from.Kind == lex.String {
					text = from.Value()
				}
				def = predicate.Typed{Type: "decimal", Text: text}
			}
		case c.peek().Is("PRIMARY"), c.peek().Is("UNIQUE"), c.peek().Is("CHECK"), c.peek().Is("REFERENCES"), c.peek().Is("GENERATED"):
			return f, nil, errs.Wrap(errs.Unsupported, "sql.column", lex.At(c.text, c.peek().Start, "column constraints other than NOT NULL are not supported: "+strings.ToUpper(c.peek().Text)))
		default:
			f.Metadata = arrow.MetadataFrom(md)
			return f, def, nil
		}
	}
}

// literal reads a constant.
func (c *cursor) literal() (any, error) {
	negative := c.accept("-")
	t := c.next()
	switch {
	case t.Kind == lex.String && !negative:
		return t.Value(), nil
	case t.Kind == lex.Number:
		s := t.Text
		if negative {
			s = "-" + s
		}
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return n, nil
		}
		if f, err := strconv.ParseFloat(s, 64); err == nil {
			return f, nil
		}
	case t.Is("TRUE") && !negative:
		return true, nil
	case t.Is("FALSE") && !negative:
		return false, nil
	case t.Is("NULL") && !negative:
		return nil, nil
	}
	return nil, lex.Errorf(c.text, t.Start, "expected a constant")
}

// properties reads (key = value, …); keys are names with dots or strings.
func (c *cursor) properties() (map[string]string, error) {
	if err := c.expect("("); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for !c.accept(")") {
		key, at := "", c.peek().Start
		if t := c.peek(); t.Kind == lex.String {
			key = c.next().Value()
		} else {
			parts, err := c.parts("a property")
			if err != nil {
				return nil, err
			}
			key = strings.Join(parts, ".")
		}
		if _, twice := out[key]; twice {
			return nil, lex.Errorf(c.text, at, "parameter %q specified more than once", key)
		}
		if c.peek().Text == "=" || c.peek().Text == "=>" {
			c.next()
		} else {
			return nil, c.errorf("expected =")
		}
		v := c.next()
		switch v.Kind {
		case lex.String:
			out[key] = v.Value()
		case lex.Number, lex.Word, lex.Quoted:
			out[key] = v.Name()
		default:
			return nil, lex.Errorf(c.text, v.Start, "expected a value for %s", key)
		}
		if !c.accept(",") && !c.peek().Is(")") {
			return nil, c.errorf("expected , or )")
		}
	}
	return out, nil
}

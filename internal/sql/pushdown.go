package sql

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/sql/coltype"
	"github.com/overlakedb/overlake/internal/sql/tree"
)

// pushdown gives what a WHERE clause says about one table, for pruning its files. Conditions that are not understood, or
// that name other tables, say nothing. Below an outer join only conditions that no NULL row passes may prune, since rows
// taken away there come back as NULLs. exact tells that the rows for which the clause is true are those of the predicate.
func pushdown(q *statement, where node, s *source, sc *scope, outerJoin bool) (e predicate.Expr, exact bool) {
	if where == nil {
		return nil, true
	}
	exact = true
	p := &pusher{q: q, s: s, sc: sc}
	out := predicate.Expr(predicate.True{})
	for _, c := range tree.Conjuncts(where) {
		e, ok := p.expr(c)
		if outerJoin && !strict(e) {
			exact = false
			continue
		}
		exact = exact && ok
		out = predicate.Conjoin(out, e)
	}
	if _, nothing := out.(predicate.True); nothing {
		return nil, false
	}
	return out, exact
}

func strict(e predicate.Expr) bool {
	switch e := e.(type) {
	case predicate.Compare, predicate.In, predicate.StartsWith:
		return true
	case predicate.And:
		for _, x := range e {
			if strict(x) {
				return true
			}
		}
	case predicate.Or:
		for _, x := range e {
			if !strict(x) {
				return false
			}
		}
		return len(e) > 0
	}
	return false
}

type pusher struct {
	q  *statement
	s  *source
	sc *scope
}

var comparisons = map[string]predicate.Op{
	"COMPARE_EQUAL": predicate.Eq, "COMPARE_NOTEQUAL": predicate.Ne, "COMPARE_LESSTHAN": predicate.Lt, "COMPARE_LESSTHANOREQUALTO": predicate.Le,
	"COMPARE_GREATERTHAN": predicate.Gt, "COMPARE_GREATERTHANOREQUALTO": predicate.Ge,
}

// expr translates a condition. exact tells that the translation is true for the very rows that the condition is true for,
// so that it may be negated; otherwise it is true for more.
func (p *pusher) expr(n node) (e predicate.Expr, exact bool) {
	typ := tree.Str(n, "type")
	if op, ok := comparisons[typ]; ok {
		return p.compare(tree.Child(n, "left"), op, tree.Child(n, "right"))
	}
	switch typ {
	case "CONJUNCTION_AND":
		e, exact = predicate.True{}, true
		for _, c := range tree.List(n, "children") {
			x, _ := c.(node)
			part, ok := p.expr(x)
			e, exact = predicate.Conjoin(e, part), exact && ok
		}
		return e, exact
	case "CONJUNCTION_OR":
		for i, c := range tree.List(n, "children") {
			x, _ := c.(node)
			part, ok := p.expr(x)
			if i == 0 {
				e, exact = part, ok
			} else {
				e, exact = predicate.Disjoin(e, part), exact && ok
			}
		}
		if e != nil {
			return e, exact
		}
	case "COMPARE_BETWEEN":
		in := tree.Child(n, "input")
		// The engine compares all three as one type, which may round them.
		switch a, b := p.q.operand(tree.Child(n, "lower")), p.q.operand(tree.Child(n, "upper")); {
		case a != nil && b != nil && alike(a, b), a == nil && p.typedAs(in, tree.Child(n, "lower"), b), b == nil && p.typedAs(in, tree.Child(n, "upper"), a):
		default:
			return predicate.True{}, false
		}
		low, a := p.compare(in, predicate.Ge, tree.Child(n, "lower"))
		high, b := p.compare(in, predicate.Le, tree.Child(n, "upper"))
		return predicate.Conjoin(low, high), a && b
	case "COMPARE_IN":
		return p.in(n)
	case "OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL":
		children := tree.List(n, "children")
		if len(children) == 1 {
			x, _ := children[0].(node)
			if col, ok := p.column(x); ok {
				if typ == "OPERATOR_IS_NULL" {
					return predicate.IsNull{Column: col}, true
				}
				return predicate.Not{X: predicate.IsNull{Column: col}}, true
			}
		}
	case "OPERATOR_NOT":
		if children := tree.List(n, "children"); len(children) == 1 {
			x, _ := children[0].(node)
			if e, exact := p.expr(x); exact {
				return predicate.Not{X: e}, true
			}
		}
	case "FUNCTION":
		return p.function(n)
	}
	return predicate.True{}, false
}

func (p *pusher) in(n node) (predicate.Expr, bool) {
	children := tree.List(n, "children")
	if len(children) < 2 {
		return predicate.True{}, false
	}
	first, _ := children[0].(node)
	if tree.Str(first, "class") == "FUNCTION" && tree.Str(first, "function_name") == "row" {
		return p.rows(tree.List(first, "children"), children[1:])
	}
	col, ok := p.column(first)
	if !ok {
		return predicate.True{}, false
	}
	in := predicate.In{Column: col}
	for _, c := range children[1:] {
		x, _ := c.(node)
		v := p.q.operand(x)
		if v == nil || len(in.Values) > 0 && !alike(in.Values[0], v) {
			return predicate.True{}, false
		}
		if all, ok := p.q.list(v); ok {
			in.Values = all
			continue
		}
		in.Values = append(in.Values, v)
	}
	return in, true
}

// maxRows bounds the rows of (a, b) IN ((1, 2), …) that are understood.
const maxRows = 1000

// rows translates (a, b) IN ((1, 2), …).
func (p *pusher) rows(columns, values []any) (predicate.Expr, bool) {
	if len(values) > maxRows || len(columns) == 0 {
		return predicate.True{}, false
	}
	out := predicate.Or{}
	first := make([]predicate.Value, len(columns))
	for _, v := range values {
		row, _ := v.(node)
		cells := tree.List(row, "children")
		if tree.Str(row, "class") != "FUNCTION" || tree.Str(row, "function_name") != "row" || len(cells) != len(columns) {
			return predicate.True{}, false
		}
		all := predicate.And{}
		for i := range cells {
			c, _ := columns[i].(node)
			x, _ := cells[i].(node)
			col, ok := p.column(c)
			k := p.q.operand(x)
			if first[i] == nil {
				first[i] = k
			}
			if !ok || k == nil || !alike(first[i], k) { // the engine compares all as one type, which may round the column
				return predicate.True{}, false
			}
			all = append(all, predicate.Compare{Column: col, Op: predicate.Eq, Value: k})
		}
		out = append(out, all)
	}
	// NOT of it is not NOT of the translation: rows are compared member by member, and NULL members differ.
	return out, false
}

func (p *pusher) function(n node) (predicate.Expr, bool) {
	children := tree.List(n, "children")
	if len(children) != 2 {
		return predicate.True{}, false
	}
	a, _ := children[0].(node)
	b, _ := children[1].(node)
	col, ok := p.column(a)
	text, isText := p.q.constant(b).(string)
	if !ok || !isText {
		return predicate.True{}, false
	}
	switch strings.ToLower(tree.Str(n, "function_name")) {
	case "starts_with", "prefix", "^@":
		return predicate.StartsWith{Column: col, Prefix: text}, true
	case "~~", "like":
		if i := strings.IndexAny(text, `%_\`); i > 0 {
			return predicate.StartsWith{Column: col, Prefix: text[:i]}, text[i:] == "%"
		} else if i < 0 {
			// Of a column of another type LIKE sees the text, and two texts may be one value.
			return predicate.Compare{Column: col, Op: predicate.Eq, Value: predicate.Typed{Type: "varchar", Text: text}}, true
		}
	}
	return predicate.True{}, false
}

func (p *pusher) compare(l node, op predicate.Op, r node) (predicate.Expr, bool) {
	if col, ok := p.column(l); ok {
		if v := p.q.constant(r); v != nil {
			return predicate.Compare{Column: col, Op: op, Value: v}, true
		}
	} else if col, ok := p.column(r); ok {
		if v := p.q.constant(l); v != nil {
			return predicate.Compare{Column: col, Op: op.Flip(), Value: v}, true
		}
	}
	return predicate.True{}, false
}

// operand is a constant among several that are compared with one value: all get one type. A bare string takes the type of
// the others; a parameter and a cast to VARCHAR do not.
func (q *statement) operand(n node) predicate.Value {
	v := q.constant(n)
	if s, ok := v.(string); ok && tree.Str(n, "class") != "CONSTANT" {
		return predicate.Typed{Type: "varchar", Text: s}
	}
	return v
}

// typedAs tells whether another column has the type of a column, so that it changes nothing in how that one is compared with a
// constant.
func (p *pusher) typedAs(n, other node, v predicate.Value) bool {
	a, ok := p.column(n)
	b, too := p.column(other)
	if t, is := v.(predicate.Typed); !ok || !too || v == nil || is && t.Type == "varchar" {
		return false
	}
	sc, err := p.s.base.SchemaAt(p.s.ref)
	if err != nil {
		return false
	}
	x, y := sc.FieldIndices(a), sc.FieldIndices(b)
	if len(x) != 1 || len(y) != 1 {
		return false
	}
	xt, err := coltype.Engine(sc.Field(x[0]))
	yt, err2 := coltype.Engine(sc.Field(y[0]))
	return err == nil && err2 == nil && xt == yt
}

// alike tells whether two constants have one type before the engine gives them one.
func alike(a, b predicate.Value) bool {
	switch a := a.(type) {
	case bool:
		_, ok := b.(bool)
		return ok
	case int64:
		_, ok := b.(int64)
		return ok || isDecimal(b)
	case float64:
		_, ok := b.(float64)
		return ok
	case string:
		_, ok := b.(string)
		return ok
	case predicate.Typed:
		if _, whole := b.(int64); whole {
			return isDecimal(a)
		}
		other, ok := b.(predicate.Typed)
		return ok && a.Type == other.Type
	}
	return false
}

func isDecimal(v predicate.Value) bool {
	d, ok := v.(predicate.Typed)
	return ok && d.Type == "decimal"
}

// column is the name of a column of the table that files hold as queries see it, when the expression is one.
func (p *pusher) column(n node) (string, bool) {
	name, ok := p.named(n)
	if !ok {
		return "", false
	}
	return p.s.heldColumn(name)
}

// field is a column of the table, whatever files hold.
func (p *pusher) field(n node) (arrow.Field, bool) {
	name, ok := p.named(n)
	if !ok {
		return arrow.Field{}, false
	}
	return p.s.field(name)
}

// named is the name of a column, when the expression is one and no other table of the FROM clause could be meant.
func (p *pusher) named(n node) (string, bool) {
	if tree.Str(n, "class") != "COLUMN_REF" {
		return "", false
	}
	// Column aliases give other names to columns.
	if len(tree.List(p.s.node, "column_name_alias")) > 0 {
		return "", false
	}
	names := tree.List(n, "column_names")
	if len(names) == 0 || len(names) > 2 {
		return "", false
	}
	name, _ := names[len(names)-1].(string)
	if len(names) == 2 {
		if q, _ := names[0].(string); !strings.EqualFold(q, p.s.name) {
			return "", false
		}
	} else {
		for _, o := range p.sc.sources {
			if o == p.s {
				continue
			}
			if o.mayHave(name) {
				return "", false
			}
		}
	}
	return name, true
}

// heldColumn finds a column whose values files hold as queries see them: what a bit(n) is in a file is no bit string.
func (s *source) heldColumn(name string) (string, bool) {
	f, ok := s.field(name)
	return f.Name, ok && coltype.Loaded(f) == ""
}

// field finds a column of the table.
func (s *source) field(name string) (f arrow.Field, ok bool) {
	src, c := s.column(name, 0)
	if src == nil {
		return f, false
	}
	sc, err := src.base.SchemaAt(src.ref)
	if err != nil {
		return f, false
	}
	at := slices.IndexFunc(sc.Fields(), func(f arrow.Field) bool { return f.Name == c })
	if at < 0 {
		return f, false
	}
	return sc.Field(at), true
}

// constant is the value of a literal, a cast literal or a parameter: nil when the expression is none, or is NULL.
func (q *statement) constant(n node) predicate.Value {
	switch tree.Str(n, "class") {
	case "CONSTANT":
		v := tree.Child(n, "value")
		if null, _ := v["is_null"].(bool); null {
			return nil
		}
		typ := tree.Child(v, "type")
		switch id := tree.Str(typ, "id"); id {
		case "VARCHAR":
			s, _ := v["value"].(string)
			return q.whole(s)
		case "BOOLEAN":
			b, ok := v["value"].(bool)
			if !ok {
				return nil
			}
			return b
		case "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "INTEGER_LITERAL":
			num, _ := v["value"].(json.Number)
			if i, err := strconv.ParseInt(string(num), 10, 64); err == nil {
				return i
			}
		case "DOUBLE", "FLOAT":
			num, _ := v["value"].(json.Number)
			if f, err := strconv.ParseFloat(string(num), 64); err == nil {
				return f
			}
		case "DECIMAL":
			num, ok := v["value"].(json.Number)
			scale, _ := tree.Child(typ, "type_info")["scale"].(json.Number)
			k, err := strconv.Atoi(string(scale))
			if ok && err == nil {
				return predicate.Typed{Type: "decimal", Text: shift(string(num), k)}
			}
		}
	case "PARAMETER":
		v, _ := q.param(tree.Str(n, "identifier"))
		return fromGo(v)
	case "CAST":
		in := q.constant(tree.Child(n, "child"))
		typ := strings.ToUpper(tree.Str(tree.Child(n, "cast_type"), "id"))
		if s, ok := in.(string); ok {
			switch typ {
			case "DATE":
				return predicate.Typed{Type: "date", Text: s}
			case "TIMESTAMP":
				return predicate.Typed{Type: "timestamp", Text: s}
			case "TIMESTAMP WITH TIME ZONE":
				return predicate.Typed{Type: "timestamptz", Text: s}
			case "TIME":
				return predicate.Typed{Type: "time", Text: s}
			case "UUID":
				return predicate.Typed{Type: "uuid", Text: s}
			case "VARCHAR":
				return s
			}
			return nil
		}
		if _, ok := in.(int64); ok && (typ == "BIGINT" || typ == "INTEGER") {
			return in
		}
	case "FUNCTION":
		// A negative number is the function - over a positive one.
		if c := tree.List(n, "children"); tree.Str(n, "function_name") == "-" && len(c) == 1 {
			x, _ := c[0].(node)
			switch v := q.constant(x).(type) {
			case int64:
				return -v
			case float64:
				return -v
			case predicate.Typed:
				if v.Type == "decimal" {
					return predicate.Typed{Type: "decimal", Text: "-" + v.Text}
				}
			}
		}
	}
	return nil
}

// shift puts the decimal point of an unscaled number.
func shift(digits string, scale int) string {
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for len(digits) <= scale {
		digits = "0" + digits
	}
	return sign + digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
}

func fromGo(v any) predicate.Value {
	switch v := v.(type) {
	case bool, int64, float64, string:
		return v
	case int:
		return int64(v)
	case int32:
		return int64(v)
	case int16:
		return int64(v)
	case uint8:
		return int64(v)
	case uint32:
		return int64(v)
	case float32:
		return float64(v)
	case time.Time:
		return predicate.Typed{Type: "timestamptz", Text: v.UTC().Format("2006-01-02 15:04:05.999999")}
	}
	return nil
}

func number(v predicate.Value) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	case predicate.Typed:
		f, err := strconv.ParseFloat(v.Text, 64)
		return f, err == nil && v.Type == "decimal"
	}
	return 0, false
}

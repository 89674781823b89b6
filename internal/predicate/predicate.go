// Package predicate holds the filters that file pruning and indexes understand.
//
// A predicate is a tree over column names. It says which rows MAY match: whoever evaluates one against statistics,
// partitions or an index may keep too much but never drop a matching row, and the SQL engine evaluates the full WHERE
// clause again over what is kept. Anything a tree cannot express is True, so a partial translation is always safe.
//
// Nothing here knows SQL text or Iceberg: the sql room and the fluent query translate into it, the lake and the index
// rooms translate out of it. Of Arrow it knows how values become keys (KeysOf).
package predicate

import (
	"fmt"
	"strings"
)

// Expr is one of True, False, And, Or, Not, Compare, In, IsNull or StartsWith.
type Expr interface {
	fmt.Stringer
	expr()
}

// True keeps every row: the filter that is not understood.
type True struct{}

// False keeps no row.
type False struct{}

// And keeps rows that every part may keep. An empty And is True.
type And []Expr

// Or keeps rows that some part may keep. An empty Or is False.
type Or []Expr

// Not keeps rows for which its part is false. It must only wrap exact predicates: negating a part that was widened
// to True would drop rows, so use Negate to build it.
type Not struct{ X Expr }

// Op is a comparison operator.
type Op uint8

// The comparison operators.
const (
	Eq Op = iota
	Ne
	Lt
	Le
	Gt
	Ge
)

var opNames = [...]string{"=", "<>", "<", "<=", ">", ">="}

func (o Op) String() string { return opNames[o] }

// Flip returns the operator for swapped operands: a < b is b > a.
func (o Op) Flip() Op { return [...]Op{Eq, Ne, Gt, Ge, Lt, Le}[o] }

// Value is a constant: bool, int64, float64, string, []byte, or Typed.
type Value any

// Typed is a constant written with a type, such as DATE '2026-01-01'; Text is the literal's text and Type the SQL type
// name in lower case ("date", "timestamp", "timestamptz", "time", "decimal", "uuid").
type Typed struct{ Type, Text string }

func (t Typed) String() string { return t.Type + " '" + t.Text + "'" }

// Compare is column op constant; a NULL column value never matches.
type Compare struct {
	Column string
	Op     Op
	Value  Value
}

// In is column IN (constants).
type In struct {
	Column string
	Values []Value
}

// IsNull is column IS NULL.
type IsNull struct{ Column string }

// StartsWith is a case-sensitive prefix test on a string column.
type StartsWith struct {
	Column string
	Prefix string
}

func (True) expr()       {}
func (False) expr()      {}
func (And) expr()        {}
func (Or) expr()         {}
func (Not) expr()        {}
func (Compare) expr()    {}
func (In) expr()         {}
func (IsNull) expr()     {}
func (StartsWith) expr() {}

func (True) String() string      { return "true" }
func (False) String() string     { return "false" }
func (a And) String() string     { return join([]Expr(a), " AND ", "true") }
func (o Or) String() string      { return join([]Expr(o), " OR ", "false") }
func (n Not) String() string     { return "NOT " + n.X.String() }
func (c Compare) String() string { return c.Column + " " + c.Op.String() + " " + format(c.Value) }
func (i In) String() string {
	parts := make([]string, len(i.Values))
	for k, v := range i.Values {
		parts[k] = format(v)
	}
	return i.Column + " IN (" + strings.Join(parts, ", ") + ")"
}
func (i IsNull) String() string     { return i.Column + " IS NULL" }
func (s StartsWith) String() string { return "starts_with(" + s.Column + ", " + format(s.Prefix) + ")" }

func format(v Value) string {
	switch v := v.(type) {
	case string:
		return "'" + strings.ReplaceAll(v, "'", "''") + "'"
	case []byte:
		return fmt.Sprintf("'\\x%x'", v)
	}
	return fmt.Sprint(v)
}

func join(parts []Expr, sep, empty string) string {
	if len(parts) == 0 {
		return empty
	}
	s := make([]string, len(parts))
	for i, p := range parts {
		s[i] = p.String()
	}
	return "(" + strings.Join(s, sep) + ")"
}

// Conjoin is a AND b with the trivial cases folded.
func Conjoin(a, b Expr) Expr {
	switch {
	case a == nil || isTrue(a):
		return orTrue(b)
	case b == nil || isTrue(b):
		return a
	}
	if x, ok := a.(And); ok {
		return append(append(And{}, x...), b)
	}
	return And{a, b}
}

// Disjoin is a OR b with the trivial cases folded. One True side makes the whole True.
func Disjoin(a, b Expr) Expr {
	if a == nil || b == nil || isTrue(a) || isTrue(b) {
		return True{}
	}
	if x, ok := a.(Or); ok {
		return append(append(Or{}, x...), b)
	}
	return Or{a, b}
}

// Negate is NOT x where x is exact, and True where any part of x was widened: a widened part keeps too much, so its
// negation would keep too little.
func Negate(x Expr) Expr {
	if !exact(x) {
		return True{}
	}
	return Not{x}
}

func exact(x Expr) bool {
	switch x := x.(type) {
	case nil, True:
		return false
	case And:
		return allExact([]Expr(x))
	case Or:
		return allExact([]Expr(x))
	case Not:
		return exact(x.X)
	}
	return true
}

func allExact(parts []Expr) bool {
	for _, p := range parts {
		if !exact(p) {
			return false
		}
	}
	return true
}

func isTrue(e Expr) bool { _, ok := e.(True); return ok }

func orTrue(e Expr) Expr {
	if e == nil {
		return True{}
	}
	return e
}

// Columns calls yield for every column a predicate names; a column may be named more than once.
func Columns(e Expr, yield func(string)) {
	switch e := e.(type) {
	case And:
		for _, p := range e {
			Columns(p, yield)
		}
	case Or:
		for _, p := range e {
			Columns(p, yield)
		}
	case Not:
		Columns(e.X, yield)
	case Compare:
		yield(e.Column)
	case In:
		yield(e.Column)
	case IsNull:
		yield(e.Column)
	case StartsWith:
		yield(e.Column)
	}
}

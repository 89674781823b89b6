// Package tree answers: what does DuckDB's syntax tree say?
//
// It is the tree that json_serialize_sql of version 1.5.6 gives. A node is a JSON object. Query nodes have a type that ends in
// _NODE, expressions have a class; a place in the text is a byte offset: of the first word for names of tables, calls and names
// of columns, of the operator for operators.
package tree

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"github.com/overlakedb/overlake/internal/errs"
)

// Node is an object of the tree.
type Node = map[string]any

// Str is the text that a node has under a key; "" for none.
func Str(n Node, key string) string { s, _ := n[key].(string); return s }

// Child is the node under a key; nil for none.
func Child(n Node, key string) Node { c, _ := n[key].(Node); return c }

// List is the list under a key; nil for none.
func List(n Node, key string) []any { l, _ := n[key].([]any); return l }

// Location is the byte offset of a node in the text, or -1.
func Location(n Node) int {
	num, _ := n["query_location"].(json.Number)
	v, err := strconv.ParseUint(string(num), 10, 64)
	if err != nil || v > 1<<31 {
		return -1
	}
	return int(v)
}

// IsQuery tells whether a node is a query: a SELECT, a set operation, or a WITH that is a query of its own.
func IsQuery(n Node) bool { return strings.HasSuffix(Str(n, "type"), "_NODE") }

// Conjuncts are the conditions that hold all at once where one holds.
func Conjuncts(n Node) []Node {
	if Str(n, "type") != "CONJUNCTION_AND" {
		return []Node{n}
	}
	var out []Node
	for _, c := range List(n, "children") {
		if x, ok := c.(Node); ok {
			out = append(out, Conjuncts(x)...)
		}
	}
	return out
}

// Mentioned collects the last names of all column names below a node, in lower case; all tells that some expression takes
// every column.
func Mentioned(n Node) (names map[string]bool, all bool) {
	names = map[string]bool{}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				walk(x)
			}
		case Node:
			switch Str(v, "class") {
			case "STAR":
				all = true
			case "COLUMN_REF":
				if list := List(v, "column_names"); len(list) > 0 {
					name, _ := list[len(list)-1].(string)
					names[strings.ToLower(name)] = true
				}
				return
			}
			for _, x := range v {
				switch x.(type) {
				case Node, []any:
					walk(x)
				}
			}
		}
	}
	walk(n)
	return names, all
}

// RowByRow tells whether an expression of a select list is known to make one value of each row, whatever other rows are.
func RowByRow(n Node) bool {
	switch Str(n, "class") {
	case "COLUMN_REF", "CONSTANT":
		return true
	case "STAR":
		return n["columns"] != true && len(List(n, "replace_list")) == 0 && len(List(n, "rename_list")) == 0 && n["expr"] == nil
	case "CAST":
		return RowByRow(Child(n, "child"))
	case "FUNCTION":
		op, _ := n["is_operator"].(bool)
		if !op {
			return false
		}
		for _, c := range List(n, "children") {
			x, _ := c.(Node)
			if !RowByRow(x) {
				return false
			}
		}
		return true
	}
	return false
}

// Equal tells whether two parts of a tree say the same, wherever they stand.
func Equal(a, b any) bool {
	switch a := a.(type) {
	case Node:
		b, ok := b.(Node)
		if !ok || len(a) != len(b) {
			return false
		}
		for key, x := range a {
			if y, has := b[key]; key != "query_location" && (!has || !Equal(x, y)) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !Equal(a[i], b[i]) {
				return false
			}
		}
		return true
	}
	switch b.(type) {
	case Node, []any:
		return false
	}
	return a == b
}

// Decode reads a tree.
func Decode(text string) (Node, error) {
	dec := json.NewDecoder(strings.NewReader(finite(text)))
	dec.UseNumber()
	var root Node
	if err := dec.Decode(&root); err != nil {
		return nil, errs.Wrap(errs.Internal, "sql.tree", err)
	}
	return root, nil
}

// finite makes JSON of a tree with constants that are infinite or NaN: DuckDB writes them as such, and JSON has no word for
// them. They become null, which is no constant.
func finite(tree string) string {
	if !strings.Contains(tree, "Infinity") && !strings.Contains(tree, "NaN") {
		return tree
	}
	return textOrEndless.ReplaceAllStringFunc(tree, func(s string) string {
		if s[0] == '"' {
			return s
		}
		return "null"
	})
}

var textOrEndless = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|-?(?:Infinity|NaN)`)

package nearest

import (
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/overlakedb/overlake/internal/declared"
	"github.com/overlakedb/overlake/internal/index/vector"
	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/sql/coltype"
	"github.com/overlakedb/overlake/internal/sql/tree"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/pgvector"
)

// vector is the vector that an expression of constants is, in the form that a column has.
func (r *Reader) vector(form vector.Form, n tree.Node) (v vector.Query, ok bool) {
	if form == vector.Dense {
		v.Floats, ok = r.floats(n)
		return v, ok
	}
	switch tree.Str(n, "class") {
	case "CONSTANT", "PARAMETER":
		if s, is := r.Constant(n).(string); is {
			v, err := vector.ParseQuery(form, s)
			return v, err == nil
		}
	case "CAST":
		return r.vector(form, tree.Child(n, "child"))
	case "FUNCTION":
		name, args := strings.ToLower(tree.Str(n, "function_name")), tree.List(n, "children")
		if len(args) == 1 && (form == vector.Bits && name == coltype.BitsFunction || form == vector.Sparse && name == coltype.CastFunction("sparsevec")) {
			x, _ := args[0].(tree.Node)
			return r.vector(form, x)
		}
	}
	return v, false
}

// floats is the vector that an expression of constants is.
func (r *Reader) floats(n tree.Node) ([]float32, bool) {
	switch tree.Str(n, "class") {
	case "CONSTANT", "PARAMETER":
		s, ok := r.Constant(n).(string)
		if !ok {
			return nil, false
		}
		v, err := pgvector.Vector.Parse(s, nil)
		return v, err == nil
	case "CAST":
		if !keepsFloats(tree.Child(n, "cast_type")) {
			return nil, false
		}
		return r.floats(tree.Child(n, "child"))
	case "FUNCTION":
		args := tree.List(n, "children")
		switch strings.ToLower(tree.Str(n, "function_name")) {
		case coltype.CastFunction("vector"), coltype.CastFunction("halfvec"), coltype.FloatsFunction:
			if len(args) == 0 || len(args) > 2 {
				return nil, false
			}
			in, _ := args[0].(tree.Node)
			v, ok := r.floats(in)
			if ok && len(args) == 2 {
				dim, _ := args[1].(tree.Node)
				n, is := r.Constant(dim).(int64)
				ok = is && int(n) == len(v)
			}
			if ok && strings.HasSuffix(tree.Str(n, "function_name"), "halfvec") {
				for i := range v {
					v[i] = vec.Half(v[i])
				}
			}
			return v, ok
		case "list_value", "array_value":
			var v []float32
			for _, a := range args {
				x, _ := a.(tree.Node)
				f, ok := r.float(x)
				if !ok {
					return nil, false
				}
				v = append(v, f)
			}
			return v, len(v) > 0
		}
	}
	return nil, false
}

// keepsFloats tells whether a cast to a type leaves the elements of a vector as they are.
func keepsFloats(typ tree.Node) bool {
	info := tree.Child(typ, "type_info")
	switch tree.Str(typ, "id") {
	case "VARCHAR":
		return true
	case "LIST", "ARRAY":
		of := tree.Str(tree.Child(info, "child_type"), "id")
		return of == "FLOAT" || of == "DOUBLE"
	case "UNBOUND": // what a cast to halfvec rounds, the function around it rounds too
		name := strings.ToLower(tree.Str(info, "name"))
		return name == "vector" || name == "halfvec"
	}
	return false
}

// float is the number that an expression of constants is, as an element of a vector.
func (r *Reader) float(n tree.Node) (float32, bool) {
	if args := tree.List(n, "children"); tree.Str(n, "class") == "FUNCTION" && tree.Str(n, "function_name") == "-" && len(args) == 1 {
		x, _ := args[0].(tree.Node)
		f, ok := r.float(x)
		return -f, ok
	}
	switch v := r.Constant(n).(type) {
	case int64:
		return float32(v), true
	case float64:
		return float32(v), true
	case predicate.Typed:
		f, err := strconv.ParseFloat(v.Text, 32)
		return float32(f), err == nil && v.Type == "decimal"
	}
	return 0, false
}

// halve rounds a query as the engine does for a column of halves.
func halve(column arrow.Field, q *vector.Query) {
	if d, _ := declared.Of(column); d.Name == "halfvec" {
		for i, v := range q.Floats {
			q.Floats[i] = vec.Half(v)
		}
	}
}

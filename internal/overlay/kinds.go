package overlay

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/overlakedb/overlake/internal/datafile"
	"github.com/overlakedb/overlake/internal/declared"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25"
	"github.com/overlakedb/overlake/internal/index/vector"
	"github.com/overlakedb/overlake/internal/predicate"
)

// The kinds of indexes by value. Those of vectors are the kinds of package vector.
const (
	Bitmap = "bitmap" // one column, or several as a tuple
	Bloom  = "bloom"
)

// Kinds lists all kinds.
func Kinds() []string {
	out := []string{Bitmap, Bloom, Text}
	for _, k := range vector.Kinds {
		out = append(out, string(k))
	}
	return out
}

// IsKind tells whether there is a kind of the name.
func IsKind(name string) bool {
	return name == Bitmap || name == Bloom || name == Text || OfVectors(name)
}

// OfVectors tells whether a kind finds the vectors that are nearest to one.
func OfVectors(kind string) bool { return vector.IsKind(kind) }

// defaultKind is the kind for columns of a table when none is asked for.
func defaultKind(sc *arrow.Schema, columns []string) string {
	for _, f := range sc.Fields() {
		if len(columns) != 1 || !strings.EqualFold(f.Name, columns[0]) {
			continue
		}
		if form, ok := FormOf(f); ok && form == vector.Dense {
			return string(vector.HNSWTQ8)
		} else if ok {
			return string(vector.Flat) // an index of these has one form, whatever it is called
		}
	}
	return Bitmap
}

// Indexable tells why a column cannot have an index of the kind that it gets when none is asked for.
func Indexable(f arrow.Field) error {
	sc := arrow.NewSchema([]arrow.Field{f}, nil)
	return indexable(defaultKind(sc, []string{f.Name}), f, "")
}

// indexable tells why a column cannot have an index of a kind, by the metric that was asked for.
func indexable(kind string, f arrow.Field, metric string) error {
	is, declares := declared.Of(f)
	if OfVectors(kind) {
		if form, ok := FormOf(f); ok {
			return errs.With(vector.CheckForm(form, vector.Kind(kind), metric), errs.On(f.Name))
		}
		return errs.With(errs.Newf(errs.Unsupported, "overlay.define", "an index of kind %s cannot be over column %s", kind, f.Name),
			errs.Hint("it takes a column of type vector(n), halfvec(n), bit(n) or sparsevec(n), or a list of FLOAT"))
	}
	if kind == Text {
		if !declares && bm25.HoldsTexts(f.Type) {
			return nil
		}
		return errs.With(errs.Newf(errs.Unsupported, "overlay.define", "a %s index cannot be over column %s", kind, f.Name), errs.Hint("it takes columns of type TEXT"))
	}
	if declares { // its values are not those that queries compare
		return errs.With(errs.Newf(errs.Unsupported, "overlay.define", "a %s index cannot be over column %s of type %s", kind, f.Name, is), errs.Hint("%s", vectorHint(f)))
	}
	if predicate.KindOf(f.Type) == predicate.NoKeys {
		return errs.With(errs.Newf(errs.Unsupported, "overlay.define", "a %s index cannot be over column %s", kind, f.Name),
			errs.Hint("%s", vectorHint(f)))
	}
	return nil
}

func vectorHint(f arrow.Field) string {
	switch form, ok := FormOf(f); {
	case ok && form == vector.Dense:
		return "vectors have indexes of their own: write USING hnsw or ivfflat"
	case ok:
		return form.String() + " have indexes of their own: write USING hnsw"
	}
	return "lists, structs and maps have no index in this version"
}

// FormOf is the form of the vectors that a column holds; false when it holds none.
func FormOf(f arrow.Field) (vector.Form, bool) {
	d, ok := declared.Of(f)
	switch {
	case ok && d.Name == "bit":
		return vector.Bits, d.Holds(f.Type)
	case ok && d.Name == "sparsevec":
		return vector.Sparse, d.Holds(f.Type)
	}
	l, ok := f.Type.(arrow.ListLikeType)
	return vector.Dense, ok && f.Type.ID() != arrow.MAP && l.Elem().ID() == arrow.FLOAT32
}

// dimensions are those that a column declares; 0 when it does not.
func dimensions(f arrow.Field) int {
	if d, ok := declared.Of(f); ok {
		return d.N
	}
	if l, ok := f.Type.(*arrow.FixedSizeListType); ok {
		return int(l.Len())
	}
	return 0
}

// DefaultFPR is the share of values that a Bloom index takes for present although they are not.
const DefaultFPR = 0.01

// setParams gives a definition parameters in their plain form.
func setParams(d *Definition, params map[string]string) error {
	for k, v := range params {
		name, value, err := checkParam(d.Kind, strings.ToLower(k), v)
		if err != nil {
			return err
		}
		d.Params[name] = value
	}
	if OfVectors(d.Kind) {
		return vector.CheckParams(vector.Kind(d.Kind), d.Params)
	}
	return nil
}

// asked is the metric among parameters, as it was asked for.
func asked(params map[string]string) string {
	for k, v := range params {
		if strings.EqualFold(k, "metric") {
			return v
		}
	}
	return ""
}

// checkParam gives a parameter of an index and its name in their plain form.
func checkParam(kind, name, value string) (string, string, error) {
	if kind == Bloom && name == "fpr" {
		f, err := strconv.ParseFloat(value, 64)
		if err != nil || !(f >= 0.0001 && f <= 0.5) {
			return "", "", errs.Newf(errs.Invalid, "overlay.define", "fpr is a share between 0.0001 and 0.5, not %s", value)
		}
		return name, strconv.FormatFloat(f, 'g', -1, 64), nil
	}
	if OfVectors(kind) {
		return vector.CheckParam(vector.Kind(kind), name, value)
	}
	if kind == Text {
		return checkTextParam(name, value)
	}
	known := "it takes none"
	if kind == Bloom {
		known = "it takes fpr"
	}
	return "", "", errs.With(errs.Newf(errs.Invalid, "overlay.define", "a %s index has no parameter %s", kind, name), errs.Hint("%s", known))
}

// buildParams are the parameters on which artifacts depend.
func buildParams(d *Definition) map[string]string {
	if OfVectors(d.Kind) {
		return vector.BuildParams(d.Params)
	}
	if d.Kind == Text {
		return textBuildParams(d.Params)
	}
	return d.Params
}

// fingerprint is what an artifact of a definition must have been built from, apart from the file: format, columns with
// their types, parameters. Promotions that keep the keys (int to long, float to double, a longer decimal) keep it.
func fingerprint(d *Definition, sc *arrow.Schema) (string, bool) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/1", d.Kind)
	for _, id := range d.Columns {
		at := slices.IndexFunc(sc.Fields(), func(f arrow.Field) bool { return datafile.FieldID(f) == id })
		if at < 0 {
			return "", false
		}
		typ := sc.Field(at).Type
		name := typ.String()
		switch t := typ.(type) {
		case *arrow.Int32Type, *arrow.Int64Type:
			name = "int"
		case *arrow.Float32Type, *arrow.Float64Type:
			name = "float"
		case *arrow.Decimal128Type:
			name = "decimal scale " + strconv.Itoa(int(t.Scale))
		}
		if OfVectors(d.Kind) {
			form, ok := FormOf(sc.Field(at))
			if !ok {
				return "", false
			}
			name = form.String()
		} else if d.Kind == Text {
			if !bm25.HoldsTexts(typ) {
				return "", false
			}
			name = "text"
		} else if predicate.KindOf(typ) == predicate.NoKeys {
			return "", false
		}
		fmt.Fprintf(&b, " %d:%s", id, name)
	}
	params := buildParams(d)
	for _, k := range slices.Sorted(maps.Keys(params)) {
		fmt.Fprintf(&b, " %s=%s", k, params[k])
	}
	return b.String(), true
}

package embedding

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/overlakedb/overlake/internal/declared"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/vec/pgvector"
)

// Prefix begins the names of the properties. Behind it stands a field, or the name of a column, a dot and a field.
const Prefix = "overlake.embedding."

// The fields.
const (
	fieldModel       = "model"
	fieldDim         = "dim"
	fieldProvider    = "provider"
	fieldEndpoint    = "endpoint"
	fieldQueryPrefix = "query_prefix"
)

var fields = []string{fieldModel, fieldDim, fieldProvider, fieldEndpoint, fieldQueryPrefix}

// Contract is what a table says of the vectors of a column. All of it is empty where it says nothing.
type Contract struct {
	Model    string // the catalogue's name of a model that it knows, and any other as it was given
	Known    *Model // nil for a model that the catalogue does not know
	Dim      int    // dimensions of every vector; 0 where any number will do
	Provider string // who runs the model
	Endpoint string // where it is asked, as a URL
	// QueryPrefix is what the text of a query begins with: the property, or what is known of the model.
	QueryPrefix string
}

// Column is a column of a table.
type Column struct {
	ID   int
	Name string
	Type declared.Type // the zero value for columns that declare none
}

// dense tells whether a column holds vectors that models make.
func (c *Column) dense() bool { return c.Type.Name == "vector" || c.Type.Name == "halfvec" }

// Ours gives the properties that belong to this room.
func Ours(props map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range props {
		if strings.HasPrefix(k, Prefix) {
			out[k] = v
		}
	}
	return out
}

// cut gives the column and the field that a property speaks of; the column is empty in the plain form.
func cut(key string) (column, field string, err error) {
	field = strings.TrimPrefix(key, Prefix)
	if at := strings.LastIndexByte(field, '.'); at >= 0 {
		if column, field = field[:at], field[at+1:]; column == "" {
			field = "" // a dot with nothing before it
		}
	}
	if !slices.Contains(fields, field) {
		return "", "", errs.New(errs.Unsupported, "embedding.properties", "there is no such property", errs.On(key),
			errs.Hint("behind %s stands a field, or a column, a dot and a field: %s", Prefix, strings.Join(fields, ", ")))
	}
	return column, field, nil
}

// said is what the properties say of a column: the values by field, and the properties that they come from.
type said struct{ value, key map[string]string }

// Read gives the contracts of the columns that hold vectors, by field id. It refuses properties that cannot be kept: of a
// column that is not there or holds no vectors, with values that mean nothing, or that contradict the column, the model or
// each other.
func Read(props map[string]string, columns []Column) (map[int]Contract, error) {
	out, of := map[int]Contract{}, map[int]*said{}
	for i := range columns {
		if c := &columns[i]; c.dense() {
			of[c.ID] = &said{value: map[string]string{}, key: map[string]string{}}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(Ours(props))) {
		name, field, err := cut(key)
		if err != nil {
			return nil, err
		}
		c, err := find(key, name, field, columns)
		if err != nil {
			return nil, err
		}
		s, v := of[c.ID], props[key]
		if other, twice := s.value[field]; twice && other != v {
			return nil, errs.New(errs.Invalid, "embedding.properties", fmt.Sprintf("%s is %q, and %s is %q", s.key[field], other, key, v), errs.On(c.Name),
				errs.Hint("both speak of the same column: leave one of them out"))
		}
		s.value[field], s.key[field] = v, key
	}
	for i := range columns {
		if c := &columns[i]; c.dense() {
			var err error
			if out[c.ID], err = of[c.ID].contract(c); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// find gives the column that a property speaks of.
func find(key, name, field string, columns []Column) (*Column, error) {
	if name == "" {
		var all []*Column
		for i := range columns {
			if columns[i].dense() {
				all = append(all, &columns[i])
			}
		}
		switch len(all) {
		case 0:
			return nil, errs.New(errs.Invalid, "embedding.properties", "the table has no column of vectors", errs.On(key), errs.Hint("declare the column as vector(n) or halfvec(n)"))
		case 1:
			return all[0], nil
		}
		names := make([]string, len(all))
		for i, c := range all {
			names[i] = c.Name
		}
		return nil, errs.New(errs.Invalid, "embedding.properties", "the table has several columns of vectors: "+strings.Join(names, ", "), errs.On(key),
			errs.Hint("name the column, as in %s%s.%s", Prefix, names[0], field))
	}
	c := named(name, columns)
	switch {
	case c == nil:
		return nil, errs.New(errs.NotFound, "embedding.properties", "there is no column "+strconv.Quote(name), errs.On(key))
	case !c.dense():
		return nil, errs.New(errs.Invalid, "embedding.properties", "the column "+strconv.Quote(c.Name)+" does not hold vectors", errs.On(key),
			errs.Hint("declare it as vector(n) or halfvec(n)"))
	}
	return c, nil
}

// named finds a column. Names that differ in case only are one name.
func named(name string, columns []Column) *Column {
	for i := range columns {
		if strings.EqualFold(columns[i].Name, name) {
			return &columns[i]
		}
	}
	return nil
}

// contract makes a contract of what is said of a column.
func (s *said) contract(c *Column) (Contract, error) {
	k := Contract{Dim: c.Type.N, Provider: s.value[fieldProvider], Endpoint: s.value[fieldEndpoint]}
	invalid := func(field, message string, opts ...errs.Option) error {
		return errs.New(errs.Invalid, "embedding.properties", message, append(opts, errs.On(s.key[field]))...)
	}
	for _, field := range []string{fieldModel, fieldProvider} {
		if v, given := s.value[field]; given && strings.TrimSpace(v) == "" {
			return k, invalid(field, "the value is empty", errs.Hint("ALTER TABLE … RESET (%q) removes it", s.key[field]))
		}
	}
	if _, given := s.value[fieldEndpoint]; given {
		u, err := url.Parse(k.Endpoint)
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			return k, invalid(fieldEndpoint, "an endpoint is a URL that begins with http:// or https://")
		case u.User != nil:
			return k, invalid(fieldEndpoint, "an endpoint holds no user and no password: everybody who reads the table reads it")
		}
	}
	dim, given := s.value[fieldDim]
	if given {
		n, err := strconv.Atoi(dim)
		if err != nil || n < 1 || n > pgvector.MaxDim {
			return k, invalid(fieldDim, fmt.Sprintf("a number of dimensions is 1 to %d, not %q", pgvector.MaxDim, dim))
		}
		if k.Dim > 0 && n != k.Dim {
			return k, invalid(fieldDim, fmt.Sprintf("the column %s is a %s, so its vectors have %d dimensions, not %d", c.Name, c.Type, k.Dim, n),
				errs.Hint("declare the column as %s(%d), or leave the property out", c.Type.Name, n))
		}
		k.Dim = n
	}
	if k.Model = s.value[fieldModel]; k.Model != "" {
		if known, ok := Find(k.Model); ok {
			k.Model, k.Known, k.QueryPrefix = known.Name, known, known.QueryPrefix
			switch {
			case k.Dim == 0:
				k.Dim = known.Dim
			case !known.Makes(k.Dim):
				where := fmt.Sprintf("the column %s is a %s", c.Name, c.Type)
				if given {
					where = s.key[fieldDim] + " is " + dim
				}
				return k, invalid(fieldModel, fmt.Sprintf("%s makes vectors of %s dimensions, not %d: %s", known.Name, known.Dims(), k.Dim, where),
					errs.Hint("declare the column as %s(%d), or give the name of the model that makes the vectors", c.Type.Name, known.Dim))
			}
		}
	}
	if k.Model != "" && k.Dim == 0 {
		return k, invalid(fieldModel, fmt.Sprintf("how many dimensions %s makes is not known", k.Model),
			errs.Hint("set %s too, or declare the column as %s(n)", strings.TrimSuffix(s.key[fieldModel], fieldModel)+fieldDim, c.Type.Name))
	}
	if v, given := s.value[fieldQueryPrefix]; given {
		k.QueryPrefix = v
	}
	return k, nil
}

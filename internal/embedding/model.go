// Package embedding answers: which vectors does a model make?
//
// A Model is what is known of an embedding model: how many dimensions its vectors have, by which distance they are compared,
// what a query and a document begin with. A Contract is what the properties of a table say of the vectors of one column: the
// model that made them, and so how many dimensions they have. The properties are described in
// docs/format/table-properties.md.
//
//	M1  The catalogue holds what the makers of the models publish. What is not certain is left out; a model that is not in
//	    the catalogue may be used all the same.
//	M2  A contract that says a model says a number of dimensions too, and the column, the model and the property agree
//	    on it.
//	M3  Rows stay under a contract only if the model and the dimensions are those that they were written under (Keep). Who
//	    commits a change asks that of the version that the commit builds on.
package embedding

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/overlakedb/overlake/internal/vec"
)

// Answer is yes, no, or neither where a model's maker does not say.
type Answer uint8

// The answers.
const (
	Unstated Answer = iota
	Yes
	No
)

// Model is an embedding model.
type Model struct {
	Name    string   // as its maker writes it
	Aliases []string // other names, in lower case
	Dim     int      // dimensions of its vectors, unless it is asked for others
	Other   []int    // further numbers of dimensions that its maker documents, ascending
	Min     int      // where it makes every number of dimensions up to Dim: the least; 0 where it does not
	Metric  vec.Metric
	// QueryPrefix and DocumentPrefix are what the text of a query and of a document begins with before it is given to the
	// model; empty for models that take texts as they are, or are told another way which of the two a text is.
	QueryPrefix, DocumentPrefix string
	Unit                        Answer // whether its vectors have length 1
}

// Find gives the model of a name or alias; upper and lower case are the same.
func Find(name string) (*Model, bool) {
	m := byName[strings.ToLower(name)]
	return m, m != nil
}

// Models lists the catalogue.
func Models() []*Model { return slices.Clone(catalogue) }

var byName = func() map[string]*Model {
	all := map[string]*Model{}
	for _, m := range catalogue {
		for _, name := range append([]string{strings.ToLower(m.Name)}, m.Aliases...) {
			all[name] = m
		}
	}
	return all
}()

// Makes tells whether the model makes vectors of so many dimensions.
func (m *Model) Makes(dim int) bool {
	return dim == m.Dim || slices.Contains(m.Other, dim) || m.Min > 0 && dim >= m.Min && dim <= m.Dim
}

// Dims is the numbers of dimensions that the model makes, for people: "384", "1 to 1536", "256, 512 or 1024".
func (m *Model) Dims() string {
	if m.Min > 0 {
		return fmt.Sprintf("%d to %d", m.Min, m.Dim)
	}
	all := append(slices.Clone(m.Other), m.Dim)
	slices.Sort(all)
	text := make([]string, len(all))
	for i, d := range all {
		text[i] = strconv.Itoa(d)
	}
	if len(text) == 1 {
		return text[0]
	}
	return strings.Join(text[:len(text)-1], ", ") + " or " + text[len(text)-1]
}

package overlake

import (
	"context"
	"strings"

	"github.com/overlakedb/overlake/internal/declared"
	"github.com/overlakedb/overlake/internal/embedding"
	"github.com/overlakedb/overlake/internal/errs"
)

// Embedding is what a table says of the vectors of a column, in its properties overlake.embedding.…, and what is known of
// the model that it names.
type Embedding struct {
	Model    string // the model that made the vectors; empty where none is named
	Dim      int    // dimensions of every vector; 0 where any number will do
	Provider string // who runs the model, and where it is asked
	Endpoint string
	// QueryPrefix and DocumentPrefix are what a text begins with before it is given to the model, as a query or as a document.
	QueryPrefix, DocumentPrefix string
	// Metric is the distance by which vectors of the model are compared: l2, ip, cosine or l1; empty for a model that is
	// not known.
	Metric string
}

// Embedding says which vectors a column of type vector or halfvec holds. Every write checks Dim; with rows in the table,
// Model and Dim cannot be changed.
func (t *Table) Embedding(ctx context.Context, column string) (Embedding, error) {
	l, err := t.load(ctx)
	if err != nil {
		return Embedding{}, err
	}
	fields := l.Schema().Fields()
	columns, at := make([]embedding.Column, len(fields)), -1
	for i, f := range fields {
		columns[i] = embedding.Column{ID: i, Name: f.Name}
		columns[i].Type, _ = declared.Of(f)
		if strings.EqualFold(f.Name, column) {
			at = i
		}
	}
	if at < 0 {
		return Embedding{}, errs.New(errs.NotFound, "overlake.embedding", "there is no such column", errs.On(column))
	}
	contracts, err := embedding.Read(l.Properties(), columns)
	if err != nil {
		return Embedding{}, err
	}
	k, ok := contracts[at]
	if !ok {
		return Embedding{}, errs.New(errs.Invalid, "overlake.embedding", "the column does not hold vectors that models make", errs.On(column),
			errs.Hint("declare it as vector(n) or halfvec(n)"))
	}
	e := Embedding{Model: k.Model, Dim: k.Dim, Provider: k.Provider, Endpoint: k.Endpoint, QueryPrefix: k.QueryPrefix}
	if k.Known != nil {
		e.DocumentPrefix, e.Metric = k.Known.DocumentPrefix, k.Known.Metric.String()
	}
	return e, nil
}

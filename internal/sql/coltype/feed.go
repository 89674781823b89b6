package coltype

import (
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/overlakedb/overlake/internal/declared"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/sql/lex"
)

// Empty is a relation with the columns of a schema and no row.
func Empty(sc *arrow.Schema) (string, error) {
	cols := make([]string, sc.NumFields())
	for i, f := range sc.Fields() {
		typ, err := Engine(f)
		if err != nil {
			return "", errs.With(err, errs.On(f.Name))
		}
		cols[i] = "NULL::" + typ + " AS " + lex.QuoteIdent(f.Name)
	}
	return "(SELECT " + strings.Join(cols, ", ") + " WHERE false)", nil
}

// Fed selects the columns of a feed with the types that they have in a scan.
func Fed(sc *arrow.Schema, from string) string {
	cols := make([]string, sc.NumFields())
	for i, f := range sc.Fields() {
		cols[i] = lex.QuoteIdent(f.Name)
		if d, ok := declared.Of(f); ok && Loaded(f) != "" {
			cols[i] = Loaded(f) + " AS " + cols[i]
		} else if ok {
			cols[i] = CastFunction(d.Name) + "(" + cols[i] + ") AS " + cols[i]
		} else if v, _ := f.Metadata.GetValue(IcebergType); v == "uuid" {
			cols[i] = "lower(hex(" + cols[i] + "))::UUID AS " + cols[i]
		}
	}
	return "SELECT " + strings.Join(cols, ", ") + " FROM " + from
}

package sql

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/sql/coltype"
	"github.com/overlakedb/overlake/internal/sql/lex"
)

// Import reads a file of this machine: parquet, csv or json (one object a line, or an array). Columns named in vectors are
// read as vectors, whatever the file has them as; types overrides the inferred types of CSV columns.
func (e *Env) Import(ctx context.Context, path, format string, vectors []string, types map[string]string) (*Result, error) {
	function := map[string]string{"parquet": "read_parquet", "csv": "read_csv", "json": "read_json_auto"}[format]
	if function == "" {
		return nil, errs.New(errs.Unsupported, "sql.import", "files of this format cannot be read", errs.On(format), errs.Hint("use parquet, csv, json or arrow"))
	}
	virtual, release, err := e.engine.AddFile(path)
	if err != nil {
		return nil, err
	}
	var replace []string
	for _, v := range vectors {
		replace = append(replace, coltype.CastFunction("vector")+"(CAST("+lex.QuoteIdent(v)+" AS vector)) AS "+lex.QuoteIdent(v))
	}
	text := "SELECT * "
	if len(replace) > 0 {
		text += "REPLACE (" + strings.Join(replace, ", ") + ") "
	}
	columns := ""
	if len(types) > 0 {
		if format != "csv" {
			release()
			return nil, errs.New(errs.Unsupported, "sql.import", "types can only be given for csv; other formats have their own", errs.On(format))
		}
		var list []string
		for _, name := range slices.Sorted(maps.Keys(types)) {
			list = append(list, lex.QuoteText(name)+": "+lex.QuoteText(types[name]))
		}
		columns = ", types = {" + strings.Join(list, ", ") + "}"
	}
	rows, err := e.engine.Query(ctx, text+"FROM "+function+"('"+virtual+"'"+columns+")")
	if err != nil {
		release()
		return nil, errs.With(err, errs.On(path))
	}
	return &Result{Tag: "IMPORT", Affected: -1, HasRows: true, rows: rows, release: []func(){release}}, nil
}

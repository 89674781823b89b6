package sql

import (
	"strings"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/sql/cast"
	"github.com/overlakedb/overlake/internal/sql/coltype"
	"github.com/overlakedb/overlake/internal/sql/lex"
	"github.com/overlakedb/overlake/internal/sql/macro"
	"github.com/overlakedb/overlake/internal/sql/textcall"
	"github.com/overlakedb/overlake/internal/sql/tree"
)

// tableFunctions are those that may stand in FROM. All others read files or the engine's own state: deleted rows, files
// that are no longer of a table, the secret paths of files.
var tableFunctions = map[string]bool{"range": true, "generate_series": true, "unnest": true, "repeat": true, "repeat_row": true, "json_each": true, "json_tree": true,
	"pg_timezone_names": true, "icu_calendar_names": true, "duckdb_functions": true, "duckdb_types": true, "duckdb_keywords": true}

// castFunctions are the functions of ours that casts of users become, and what INSERT puts around a query.
var castFunctions = map[string]bool{coltype.FloatsFunction: true, coltype.BitsFunction: true, macro.EffortFunction: true, textcall.AnalyzeFunction: true}

func init() {
	for typ := range cast.Types {
		castFunctions[coltype.CastFunction(typ)], castFunctions[coltype.AssignFunction(typ)] = true, true
	}
}

// guard refuses functions that are not for statements of users. It runs before any of ours are put in, but for those that
// casts become.
func guard(v any, text string) error {
	switch v := v.(type) {
	case []any:
		for _, c := range v {
			if err := guard(c, text); err != nil {
				return err
			}
		}
	case node:
		if tree.Str(v, "type") == "TABLE_FUNCTION" {
			f := tree.Child(v, "function")
			if name := strings.ToLower(tree.Str(f, "function_name")); !tableFunctions[name] {
				return refused(f, text, name, errs.Hint("ingest or mount files to read them; table functions are range, generate_series, unnest, repeat, json_each and json_tree"))
			}
		} else if tree.Str(v, "class") == "FUNCTION" || tree.Str(v, "class") == "WINDOW" {
			switch name := strings.ToLower(tree.Str(v, "function_name")); {
			case name == "current_setting":
				return refused(v, text, name, errs.Hint("SHOW name tells a setting"))
			case strings.HasPrefix(name, "overlake_") && !castFunctions[name]:
				return refused(v, text, name)
			}
		}
		for _, c := range v {
			switch c.(type) {
			case node, []any:
				if err := guard(c, text); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func refused(n node, text, name string, hint ...errs.Option) error {
	at := max(tree.Location(n), 0)
	return errs.Wrap(errs.Denied, "sql.guard", lex.At(text, at, "the function "+name+" may not be used in a statement"), hint...)
}

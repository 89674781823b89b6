package engine

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"unicode"

	"github.com/overlakedb/overlake/internal/errs"
)

// Functions of DuckDB that a SELECT may name but not call here. The configuration is locked, yet these change the state
// of the whole process, tell other users' statements and paths, or run SQL made at run time, which no check of ours sees.
var forbidden = map[string]bool{
	"enable_logging": true, "disable_logging": true, "truncate_duckdb_logs": true, "write_log": true, "duckdb_logs_parsed": true,
	"enable_profiling": true, "disable_profiling": true, "checkpoint": true, "force_checkpoint": true,
	"duckdb_settings": true, "current_setting": true, "duckdb_secrets": true, "which_secret": true, "duckdb_prepared_statements": true,
	"duckdb_external_file_cache": true, "duckdb_temporary_files": true, "add_parquet_key": true, "sql_auto_complete": true,
	"query": true, "query_table": true, "json_execute_serialized_sql": true,
}

// suspicious finds anything that could be a call of a forbidden function: its name, and then a bracket or a comment that
// may hide one. What it finds may as well be a word in a text; the syntax tree decides.
func suspicious(sql string) bool {
	for i := range len(sql) {
		switch {
		case sql[i] == '(', strings.HasPrefix(sql[i:], "/*"), strings.HasPrefix(sql[i:], "--"):
			// All beyond ASCII may be a space to DuckDB.
			end := len(strings.TrimRightFunc(sql[:i], func(r rune) bool { return r <= ' ' || r > unicode.MaxASCII }))
			if end > 0 && sql[end-1] == '"' {
				end--
			}
			from := end
			for from > 0 && (sql[from-1] == '_' || asciiLetter(sql[from-1]) || '0' <= sql[from-1] && sql[from-1] <= '9') {
				from--
			}
			if forbidden[strings.ToLower(sql[from:end])] {
				return true
			}
		}
	}
	return false
}

func asciiLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

var (
	// explained is what may stand before a SELECT that can be checked.
	explained = regexp.MustCompile(`(?is)^\s*(?:explain(?:\s+analyze)?(?:\s*\([^()]*\))?|describe|summarize)\s`)
	// query is how a statement begins that cannot be anything but a SELECT.
	query  = regexp.MustCompile(`(?i)^(?:select|from|values)\b`)
	copied = regexp.MustCompile(`(?is)^\s*copy\s*\((.*)\)\s*to\s`)
)

// guard refuses a statement that calls a forbidden function. Statements that cannot be checked are refused when they look
// as if they did.
func (db *DB) guard(ctx context.Context, sql string) error {
	if !suspicious(sql) {
		return nil
	}
	if m := copied.FindStringSubmatch(sql); m != nil {
		sql = m[1]
	} else {
		sql = sql[len(explained.FindString(sql)):]
	}
	tree, err := db.Parse(ctx, sql)
	if err != nil {
		if errs.Is(err, errs.Canceled) || errs.Is(err, errs.Unavailable) {
			return err
		}
		if e, ok := AsSQLError(err); ok && e.Type != "" && e.Type != "not implemented" {
			return nil // it does not parse, so it does not run; the engine says why
		}
		return errs.New(errs.Denied, "engine.query", "the statement may call a function that is not allowed here",
			errs.Hint("take the SELECT out of the statement around it"))
	}
	var node any
	if err := json.Unmarshal([]byte(tree), &node); err != nil {
		return errs.Wrap(errs.Internal, "engine.query", err)
	}
	if name := called(node); name != "" {
		return errs.New(errs.Denied, "engine.query", "the function is not allowed here", errs.On(name))
	}
	return nil
}

// guardExplained lets EXPLAIN through for SELECT alone: EXPLAIN ANALYZE runs what it explains.
func (db *DB) guardExplained(ctx context.Context, sql string) error {
	sql = sql[len(explained.FindString(sql)):]
	if query.MatchString(sql) {
		return nil
	}
	_, err := db.Parse(ctx, sql)
	if err == nil || errs.Is(err, errs.Canceled) || errs.Is(err, errs.Unavailable) {
		return err
	}
	return errs.New(errs.Denied, "engine.query", "only SELECT may be explained here")
}

// called finds a forbidden function in a syntax tree.
func called(node any) string {
	switch n := node.(type) {
	case []any:
		for _, e := range n {
			if name := called(e); name != "" {
				return name
			}
		}
	case map[string]any:
		if name, ok := n["function_name"].(string); ok && forbidden[strings.ToLower(name)] {
			return strings.ToLower(name)
		}
		for _, e := range n {
			if name := called(e); name != "" {
				return name
			}
		}
	}
	return ""
}

package engine_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/overlakedb/overlake/internal/engine"
	"github.com/overlakedb/overlake/internal/errs"
)

// TestForbiddenFunctions: they cannot be called under any spelling, and their names may stand everywhere else.
func TestForbiddenFunctions(t *testing.T) {
	db := open(t, engine.Config{})
	for _, sql := range []string{
		"SELECT * FROM enable_logging('QueryLog')", "FROM enable_profiling()", "SELECT * FROM query('SELECT 1')", "SELECT * FROM QUERY('SELECT 1')",
		`SELECT * FROM "query"('SELECT 1')`, "SELECT * FROM query/**/('SELECT 1')", "SELECT * FROM query/*/**/*/('SELECT 1')", "SELECT * FROM query -- (\n('SELECT 1')",
		"SELECT * FROM query\n\t('SELECT 1')", "SELECT * FROM query\u00a0('SELECT 1')", "SELECT * FROM query\u3000\u2003('SELECT 1')", "SELECT * FROM query\v\f('SELECT 1')", "SELECT * FROM system.main.query('SELECT 1')", "SELECT current_setting('temp_directory')", "SELECT value FROM duckdb_settings()",
		"SELECT * FROM (SELECT * FROM (VALUES (1)) t(a), LATERAL (SELECT * FROM query_table('t')))", "WITH x AS (SELECT * FROM force_checkpoint()) SELECT * FROM x",
		"SELECT CASE WHEN true THEN (SELECT write_log('x')) END", "EXPLAIN SELECT * FROM query('SELECT 1')", "EXPLAIN ANALYZE SELECT * FROM query('SELECT 1')",
		"SUMMARIZE SELECT * FROM query('SELECT 1')", "DESCRIBE FROM duckdb_settings()", "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
		"PIVOT (SELECT * FROM query('SELECT 1 AS a')) ON a", "SHOW (SELECT * FROM duckdb_settings())", "SELECT [x FOR x IN [write_log('a')]]",
	} {
		if got, err := tryRows(t.Context(), db, sql); !errs.Is(err, errs.Denied) && !errs.Is(err, errs.Invalid) {
			t.Errorf("%s gave %q, %v", sql, got, err)
		}
	}
	for sql, expect := range map[string]string{
		"SELECT 'a query (with words)'": "a query (with words)", "SELECT query FROM (SELECT 7 AS query) -- query (": "7",
		"SELECT /* query( */ 1": "1", "SELECT $$query($$": "query(", `SELECT "query" FROM (SELECT 3 AS "query")`: "3",
	} {
		want(t, rows(t, db, sql), expect)
	}
	if _, err := tryRows(t.Context(), db, "SELECT query( FROM"); !errs.Is(err, errs.Invalid) {
		t.Errorf("a syntax error gave %v", err)
	}
	out, release, err := db.AddOutput(filepath.Join(t.TempDir(), "x.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if _, err := db.RunCopy(t.Context(), "COPY (SELECT * FROM duckdb_settings()) TO '"+out+"' (FORMAT csv, USE_TMP_FILE false)"); !errs.Is(err, errs.Denied) {
		t.Errorf("COPY of settings gave %v", err)
	}
	if _, err := db.RunCopy(t.Context(), "COPY (SELECT 'query (') TO '"+out+"' (FORMAT csv, USE_TMP_FILE false)"); err != nil {
		t.Errorf("COPY of a text gave %v", err)
	}
}

// TestOnlySelectRuns: no other statement, not even behind a SELECT or an EXPLAIN ANALYZE.
func TestOnlySelectRuns(t *testing.T) {
	db := open(t, engine.Config{})
	for _, sql := range []string{
		"BEGIN", "COMMIT", "CREATE TEMP TABLE t(i INTEGER)", "CREATE MACRO f(x) AS x", "CREATE TYPE x AS INTEGER", "DROP TYPE vector", "INSERT INTO t VALUES (1)",
		"PREPARE p AS SELECT 1", "EXECUTE p", "DEALLOCATE p", "SET VARIABLE x = 1", "RESET threads", "SET threads = 1", "SET SESSION TimeZone = 'CET'", "SET GLOBAL threads = 1",
		"PRAGMA enable_profiling", "PRAGMA database_list = 1", "CALL pragma_version()", "USE memory", "VACUUM", "CHECKPOINT", "ANALYZE", "DETACH memory",
		"EXPLAIN CREATE TABLE t AS SELECT 1", "EXPLAIN ANALYZE CREATE TABLE t AS SELECT 1", "COPY (SELECT 1) TO '/x'", "SELECT 1; DROP TYPE vector", "SELECT 1; SELECT 2", ";", "",
		"EXPLAIN ANALYZE COPY (SELECT 1) TO '/tmp/overlake-engine-test.csv'", "UPDATE t SET i = 1", "DELETE FROM t", "TRUNCATE t", "ALTER TABLE t ADD COLUMN j INTEGER",
		"CREATE SECRET (TYPE http)", "UPDATE EXTENSIONS", "COMMENT ON TYPE vector IS 'x'", "/* */ EXPLAIN ANALYZE CREATE TABLE t AS SELECT 1",
		"EXPLAIN ANALYZE SELECT 1; CREATE TEMP TABLE t(i INTEGER)", "EXPLAIN ANALYZE SELECT 1 INTO t", "EXPLAIN ANALYZE WITH x AS (SELECT 1) INSERT INTO t FROM x",
		"EXPLAIN ANALYZE SET threads = 1", "EXPLAIN (ANALYZE) CREATE TABLE t AS SELECT 1",
	} {
		if got, err := tryRows(t.Context(), db, sql); err == nil {
			t.Errorf("%s gave %q", sql, got)
		}
	}
	want(t, rows(t, db, "SELECT count(*) FROM information_schema.tables"), "0")
	for _, sql := range []string{"EXPLAIN SELECT 42", "EXPLAIN ANALYZE SELECT 42", "EXPLAIN (FORMAT json) SELECT 42", "explain analyze\nWITH x AS (SELECT 42) FROM x"} {
		if got := rows(t, db, sql); len(got) != 1 {
			t.Errorf("%s gave %q", sql, got)
		}
	}
	want(t, rows(t, db, "SELECT '[1]'::VARCHAR, typeof(NULL::vector)"), "[1]|vector")
}

// FuzzQueryText: whatever the text, Query answers rows or an error with a kind that is the caller's fault, and the engine
// goes on.
func FuzzQueryText(f *testing.F) {
	for _, s := range []string{"SELECT 1", "SELECT '[1,2]'::vector + [1]", "EXPLAIN SELECT * FROM range(3)", "SELECT $1, $x", "COPY (SELECT 1) TO 'x'", "SELECT overlake_live(1, 2, 3), * FROM overlake_feed(4)",
		"SELECT * FROM read_parquet(['/.overlake-files/x'], schema = MAP {1: {name: 'a', type: 'vector', default_value: NULL}})", "SELECT map {[1]: {'a': NULL}}, INTERVAL 1 DAY, '101'::BIT"} {
		f.Add(s)
	}
	db, err := engine.Open(engine.Config{MemoryLimit: 64 << 20, Threads: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { db.Close() })
	f.Fuzz(func(t *testing.T, sql string) {
		if len(sql) > 500 {
			return
		}
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
		defer stop()
		_, err := tryRows(ctx, db, sql)
		if err != nil && errs.KindOf(err) == errs.Internal {
			t.Errorf("%q gave %v", sql, err)
		}
		if got, err := tryRows(t.Context(), db, "SELECT 7"); err != nil || len(got) != 1 || got[0] != "7" {
			t.Fatalf("after %q the engine gives %q, %v", sql, got, err)
		}
	})
}

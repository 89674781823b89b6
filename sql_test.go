package overlake_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/overlakedb/overlake"
	"github.com/overlakedb/overlake/internal/render"
	"github.com/overlakedb/overlake/internal/sql"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the answers in testdata/sql")

// varying is what differs from run to run in an answer.
var varying = regexp.MustCompile(`snapshot [1-9][0-9]{9,}|[0-9]+(\.[0-9])? (B|KiB|MiB)\)|about [0-9]+ rows|/[^ ]*TestSQL[^ ]*|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z; list|[0-9a-f-]{36}`)

// TestSQL runs the scripts of testdata/sql: statements end in a semicolon at the end of a line, and what follows up to an
// empty line is the answer as csv, or the error with its kind and hint. -rewrite writes the answers anew; read them then.
func TestSQL(t *testing.T) {
	scripts, err := filepath.Glob("testdata/sql/*.txt")
	if err != nil || len(scripts) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, script := range scripts {
		for _, place := range []string{"local", "memory"} {
			t.Run(strings.TrimSuffix(filepath.Base(script), ".txt")+"/"+place, func(t *testing.T) {
				warehouse := "mem://" + t.Name()
				if place == "local" {
					warehouse = filepath.Join(t.TempDir(), "warehouse")
				}
				db, err := overlake.Open(t.Context(), warehouse, overlake.Options{Export: []string{t.TempDir()}})
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				data, err := os.ReadFile(script)
				if err != nil {
					t.Fatal(err)
				}
				var out strings.Builder
				for _, block := range strings.Split(strings.TrimRight(string(data), "\n"), "\n\n") {
					i := strings.Index(block, ";\n")
					statement, want := block, ""
					if i >= 0 {
						statement, want = block[:i+1], block[i+2:]
					}
					if strings.HasPrefix(strings.TrimSpace(statement), "#") {
						out.WriteString(block + "\n\n")
						continue
					}
					got := strings.TrimRight(answer(t.Context(), db, statement), "\n")
					if got != strings.TrimRight(want, "\n") && !*rewrite {
						t.Errorf("%s\n got: %s\nwant: %s", statement, got, want)
					}
					out.WriteString(statement + "\n" + got + "\n\n")
				}
				if *rewrite && place == "local" {
					if err := os.WriteFile(script, []byte(strings.TrimRight(out.String(), "\n")+"\n"), 0o644); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}

func answer(ctx context.Context, db *overlake.DB, statement string) string {
	rows, err := db.SQL(ctx, statement)
	var b strings.Builder
	if err == nil {
		defer rows.Close()
		if !rows.HasRows() {
			return fmt.Sprintf("%s %d", rows.Tag(), rows.RowsAffected())
		}
		var w render.Writer
		if w, err = render.NewWriter(&b, render.CSV, rows.Schema(), render.Options{}); err == nil {
			for rows.Next() && err == nil {
				err = w.Write(rows.RecordBatch())
			}
			if err == nil {
				err = rows.Err()
			}
			if err == nil {
				err = w.Close()
			}
		}
	}
	if err != nil {
		s := fmt.Sprintf("error %v: %v", overlake.KindOf(err), err)
		if hint := overlake.HintOf(err); hint != "" {
			s += "\nhint: " + hint
		}
		return strings.ReplaceAll(varying.ReplaceAllString(s, "…"), "\n\n", "\n")
	}
	return strings.ReplaceAll(varying.ReplaceAllString(b.String(), "…"), "\n\n", "\n")
}

// TestExplain says what is pruned, and why.
func TestExplain(t *testing.T) {
	db, err := overlake.Open(t.Context(), t.TempDir(), overlake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.SQL(t.Context(), "CREATE TABLE t (id INTEGER, lang VARCHAR, v vector(2)) PARTITIONED BY (lang); INSERT INTO t VALUES (1, 'en', '[1,0]'), (2, 'de', '[0,1]'); INSERT INTO t VALUES (100, 'en', NULL)"); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		"SELECT id FROM t WHERE lang = 'en'":                 "3 files, 1 pruned by partition, 0 pruned by statistics, 0 pruned by index, 2 scanned",
		"SELECT id FROM t WHERE id > 50":                     "3 files, 0 pruned by partition, 2 pruned by statistics, 0 pruned by index, 1 scanned",
		"SELECT id FROM t WHERE id > 50 OR lang = 'de'":      "2 scanned",
		"SELECT id FROM t x LEFT JOIN t y USING (id)":        "3 scanned",
		"SELECT id FROM t ORDER BY v <-> '[1,1]' LIMIT 1":    "vector distance <->: exact",
		"SELECT id FROM t WHERE match(lang, 'en')":           "text match(main.t.lang, 'en'): analyzer standard",
		"SELECT id FROM t WHERE id BETWEEN 2 AND 3":          "1 scanned",
		"SELECT id FROM t WHERE NOT (lang <> 'en') AND id=1": "1 scanned",
	} {
		if got := answer(t.Context(), db, "EXPLAIN "+query); !strings.Contains(got, want) {
			t.Errorf("%s: no %q in\n%s", query, want, got)
		}
		if got := answer(t.Context(), db, "EXPLAIN ANALYZE "+query); !strings.Contains(got, want) || !strings.Contains(got, "ran in") {
			t.Errorf("ANALYZE %s:\n%s", query, got)
		}
	}
}

func TestTwoProcessesCreateOneTable(t *testing.T) {
	dir := t.TempDir()
	var dbs []*overlake.DB
	for range 2 {
		db, err := overlake.Open(t.Context(), dir, overlake.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		dbs = append(dbs, db)
	}
	created := 0
	for _, db := range dbs {
		if _, err := db.SQL(t.Context(), "CREATE TABLE t (i INTEGER)"); err == nil {
			created++
		} else if overlake.KindOf(err) != overlake.KindExists {
			t.Error(err)
		}
	}
	if created != 1 {
		t.Errorf("%d creators won", created)
	}
}

func TestQuotaAndReadOnly(t *testing.T) {
	dir := t.TempDir()
	db, err := overlake.Open(t.Context(), dir, overlake.Options{Quota: 20_000})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.SQL(t.Context(), "CREATE TABLE t (s VARCHAR); INSERT INTO t VALUES ('a')"); err != nil {
		t.Fatal(err)
	}
	_, err = db.SQL(t.Context(), "INSERT INTO t SELECT md5(i::VARCHAR) FROM range(100000) r(i)")
	if overlake.KindOf(err) != overlake.KindExhausted || overlake.HintOf(err) == "" {
		t.Errorf("over the quota: %v", err)
	}
	if got := answer(t.Context(), db, "SELECT count(*) AS n FROM t"); got != "n\n1\n" {
		t.Errorf("after a failed insert: %s", got)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	db, err = overlake.Open(t.Context(), dir, overlake.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range []string{"INSERT INTO t VALUES ('b')", "DROP TABLE t", "CREATE TABLE u (i INTEGER)", "ALTER TABLE t ADD COLUMN x INTEGER"} {
		if _, err := db.SQL(t.Context(), s); overlake.KindOf(err) != overlake.KindDenied || overlake.HintOf(err) == "" {
			t.Errorf("%s on a read-only warehouse: %v", s, err)
		}
	}
}

// TestArgumentsBesideScans: a scan takes arguments of its own, which the user's must not meet.
func TestArgumentsBesideScans(t *testing.T) {
	db, err := overlake.Open(t.Context(), t.TempDir(), overlake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range []string{"CREATE TABLE t (i INTEGER, s VARCHAR)", "INSERT INTO t VALUES (1, 'a')", "INSERT INTO t VALUES (2, 'b')"} {
		if _, err := db.SQL(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	named := func(name string, v any) overlake.Named { return overlake.Named{Name: name, Value: v} }
	for _, c := range []struct {
		sql  string
		args []any
		want string
	}{
		{"SELECT t.s FROM t JOIN t u USING (i) WHERE t.i = ?", []any{2}, "b"},
		{"SELECT s || $2 FROM t WHERE i = $1", []any{2, "x"}, "bx"},
		{"SELECT s || $2 || $1 FROM t WHERE i = $1 AND EXISTS (FROM t WHERE s = $2)", []any{2, "b"}, "bb2"},
		{"SELECT s || $2 FROM t WHERE match(s, $1)", []any{"b", "x"}, "bx"},
		{"SELECT s || $3 || $2 FROM t WHERE match(s, $1) AND bm25(s, $1) > 0 AND i = $2", []any{"b", 2, "x"}, "bx2"},
		{"SELECT s || ? FROM t WHERE match(s, ?) AND i = ?", []any{"x", "b", 2}, "bx"},
		{"SELECT s FROM t WHERE match(s, $1) ORDER BY bm25(s, $1)", []any{"b"}, "b"},
		{"SELECT s || $w FROM t WHERE match(s, $q)", []any{named("q", "b"), named("w", "x")}, "bx"},
		{"SELECT t.s || $overlake_0 || $OVERLAKE_1 FROM t, t u WHERE t.i = $i AND u.i = $i", []any{named("i", 1), named("overlake_0", "x"), named("overlake_1", "y")}, "axy"},
		{`SELECT s || $"overlake_2" FROM t WHERE i = $i`, []any{named("overlake_2", "x"), named("i", 1)}, "ax"},
	} {
		rows, err := db.SQL(t.Context(), c.sql, c.args...)
		if err != nil {
			t.Errorf("%s: %v", c.sql, err)
			continue
		}
		var got []any
		for r, err := range rows.Values() {
			if err != nil {
				t.Errorf("%s: %v", c.sql, err)
			}
			got = append(got, r...)
		}
		if len(got) != 1 || got[0] != c.want {
			t.Errorf("%s gave %v, want %s", c.sql, got, c.want)
		}
	}
	for _, c := range []struct {
		sql  string
		args []any
	}{{"SELECT s FROM t WHERE i = ?", nil}, {"SELECT s FROM t WHERE i = $i", nil}, {"SELECT s FROM t WHERE i = $2", []any{1}}, {"SELECT s || $2 FROM t WHERE match(s, $1)", []any{"b"}}, {"SELECT s FROM t WHERE i = ?", []any{1, 2}}} {
		if _, err := db.SQL(t.Context(), c.sql, c.args...); overlake.KindOf(err) != overlake.KindInvalid {
			t.Errorf("%s with %d arguments: %v", c.sql, len(c.args), err)
		}
	}
}

// TestShowCreateRoundTrip: what SHOW CREATE TABLE says makes the same table again.
func TestShowCreateRoundTrip(t *testing.T) {
	db, err := overlake.Open(t.Context(), "mem://"+t.Name(), overlake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	text := func(sql string) string {
		rows, err := db.SQL(t.Context(), sql)
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		out := ""
		for r, err := range rows.Values() {
			if err != nil {
				t.Fatal(err)
			}
			out += fmt.Sprint(r[0])
		}
		return out
	}
	for _, sql := range []string{
		`CREATE TABLE "Select" ("a ""b" INTEGER NOT NULL COMMENT 'it''s', "select" VARCHAR)`,
		`CREATE TABLE t (a BOOLEAN, b TINYINT, c BIGINT, d FLOAT, e DOUBLE, f DECIMAL(38,9), g TEXT, h BLOB, i DATE, j TIME, k TIMESTAMP, l TIMESTAMPTZ, m UUID,
			n vector, o vector(3), p INTEGER[], q STRUCT(x INTEGER, "y z" VARCHAR[]), r MAP(VARCHAR, DOUBLE), s STRUCT(x DOUBLE)[])
			PARTITIONED BY (b, bucket(16, c), truncate(4, g), month(i), hour(k)) WITH (write.format.default = 'parquet', "x.y" = 'a''b') COMMENT 'what it''s for'`,
		`CREATE TABLE v (a INTEGER DEFAULT 7, b VARCHAR NOT NULL DEFAULT 'it''s', c DECIMAL(9,2) DEFAULT -1.5, d DATE DEFAULT '2026-01-31' COMMENT 'day', e DOUBLE DEFAULT 0.25,
			f BOOLEAN DEFAULT true, g TIMESTAMP_NS, h TIMESTAMP DEFAULT '2026-01-31 10:00:00', i UUID DEFAULT '00112233-4455-6677-8899-aabbccddeeff', j TIME DEFAULT '10:11:12.5',
			k TIMESTAMPTZ DEFAULT '2026-01-31 10:00:00Z', l BIGINT DEFAULT -9) WITH ("format-version" = 3)`,
	} {
		text(sql)
		name := strings.Fields(strings.TrimPrefix(sql, "CREATE TABLE "))[0]
		shown, described := text("SHOW CREATE TABLE "+name), text("DESCRIBE "+name)
		text("DROP TABLE " + name)
		text(shown)
		if again := text("SHOW CREATE TABLE " + name); again != shown || text("DESCRIBE "+name) != described {
			t.Errorf("%s\nbecame\n%s", shown, again)
		}
		if strings.Contains(sql, "it''s for") != strings.Contains(shown, "it''s for") || strings.Contains(sql, "DEFAULT 7") != strings.Contains(shown, "DEFAULT 7") {
			t.Errorf("%s is shown as %s", sql, shown)
		}
	}
	text("INSERT INTO v (g) VALUES (NULL)")
	if got := text("SELECT concat_ws('|', a, b, c, d, e, f, h, i, j, k, l) FROM v"); got != "7|it's|-1.50|2026-01-31|0.25|true|2026-01-31 10:00:00|00112233-4455-6677-8899-aabbccddeeff|10:11:12.5|2026-01-31 10:00:00+00|-9" {
		t.Errorf("the defaults are %s", got)
	}
}

// TestCreateIfNotExistsRace: of many that make the same table at once one does, and the others succeed with nothing done.
func TestCreateIfNotExistsRace(t *testing.T) {
	for _, catalog := range []string{"file", "sqlite"} {
		dir := t.TempDir()
		var group errgroup.Group
		for range 6 {
			db, err := overlake.Open(t.Context(), dir, overlake.Options{Catalog: catalog, Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			group.Go(func() error {
				for i := range 5 {
					for _, sql := range []string{"CREATE TABLE IF NOT EXISTS made%d AS SELECT i FROM range(10) t(i)", "CREATE TABLE IF NOT EXISTS plain%d (i INTEGER)"} {
						rows, err := db.SQL(t.Context(), fmt.Sprintf(sql, i))
						if err != nil {
							return err
						}
						rows.Close()
					}
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			t.Errorf("%s catalog: %v", catalog, err)
			continue
		}
		db, err := overlake.Open(t.Context(), dir, overlake.Options{Catalog: catalog})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		rows, err := db.SQL(t.Context(), "SELECT (SELECT count(*) FROM made0), (SELECT count(*) FROM made4), (SELECT count(*) FROM plain4)")
		if err != nil {
			t.Fatal(err)
		}
		for r, err := range rows.Values() {
			if err != nil || fmt.Sprint(r) != "[10 10 0]" {
				t.Errorf("%s catalog: the tables have %v rows, %v", catalog, r, err)
			}
		}
	}
}

func TestArgumentsAndCancel(t *testing.T) {
	db, err := overlake.Open(t.Context(), "mem://"+t.Name(), overlake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.SQL(t.Context(), "SELECT ?::vector <-> ?, $name || '!'", []float32{1, 2}, "[1,3]", overlake.Named{Name: "name", Value: "x"})
	if err == nil {
		rows.Close()
		t.Error("? and $name together were accepted by the engine")
	}
	rows, err = db.SQL(t.Context(), "SELECT ?::vector <-> ?, ? || '!'", []float32{1, 2}, "[1,3]", "x")
	if err != nil {
		t.Fatal(err)
	}
	for r, err := range rows.Values() {
		if err != nil || r[0] != 1.0 || r[1] != "x!" {
			t.Error(r, err)
		}
	}
	if _, err := db.SQL(t.Context(), "SELECT ?", 1, 2); overlake.KindOf(err) != overlake.KindInvalid {
		t.Errorf("too many arguments: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	rows, err = db.SQL(ctx, "SELECT a.i FROM range(100000000) a(i), range(1000) b(i)")
	if err != nil {
		t.Fatal(err)
	}
	rows.Next()
	cancel()
	for rows.Next() {
	}
	if overlake.KindOf(rows.Err()) != overlake.KindCanceled {
		t.Error(rows.Err())
	}
	rows.Close()
}

func ExampleDB_SQL() {
	ctx := context.Background()
	db, err := overlake.Open(ctx, "mem://example", overlake.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	rows, err := db.SQL(ctx, `CREATE TABLE docs (id INTEGER, title VARCHAR, embedding vector(2));
		INSERT INTO docs VALUES (1, 'a red fox', '[1,0]'), (2, 'a lazy dog', '[0,1]');
		SELECT title FROM docs ORDER BY embedding <-> ? LIMIT 1`, []float32{0.9, 0.1})
	if err != nil {
		fmt.Println(err)
		return
	}
	for row, err := range rows.Values() {
		fmt.Println(row[0], err)
	}
	// Output: a red fox <nil>
}

func ExampleTable_Query() {
	ctx := context.Background()
	db, err := overlake.Open(ctx, "mem://example-query", overlake.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	if _, err := db.SQL(ctx, `CREATE TABLE docs (id INTEGER, body VARCHAR, embedding vector(2));
		INSERT INTO docs VALUES (1, 'the red fox', '[1,0]'), (2, 'a lazy dog', '[0,1]'), (3, 'red dogs', '[1,1]')`); err != nil {
		fmt.Println(err)
		return
	}
	docs, err := db.Table(ctx, "docs")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, q := range []*overlake.Query{
		docs.Query().Where("id > ?", 1).Near("embedding", []float32{1, 0}).Select("id").Limit(2),
		docs.Query().Match("body", "red").Select("id").OrderBy("id"),
		docs.Query().Near("embedding", []float32{0, 1}, overlake.Cosine).Match("body", "dog").Select("id").Limit(1),
	} {
		rows, err := q.Rows(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		for row, err := range rows.Values() {
			fmt.Printf("%v %.3f %v\n", row[0], row[1], err)
		}
	}
	// Output:
	// 3 1.000 <nil>
	// 2 1.414 <nil>
	// 3 0.524 <nil>
	// 1 0.447 <nil>
	// 2 0.033 <nil>
}

// TestSettingsPage compares the guide's list of settings with the settings.
func TestSettingsPage(t *testing.T) {
	page, err := os.ReadFile("docs/guide/sql.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sql.Settings() {
		row := strings.ReplaceAll("| `"+s[0]+"` | "+s[1]+" | "+s[2]+" |\n", "|  |", "| |")
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/guide/sql.md does not say\n%s", row)
		}
	}
}

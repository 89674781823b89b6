// Package interop answers one question: do other engines read what we write as we do, and do we read what they write?
//
// The other engines are PyIceberg and DuckDB, at the versions of requirements.txt, in a Python environment that
// OVERLAKE_PYTHON names (its interpreter) or that lies in .cache/interop below the root. Without one the tests are skipped;
// with the variable set they must run.
//
// A table is compared by one query that runs in all engines and turns what it computes into text: counts, sums, smallest
// and largest values, and a hash over the rows in order.
package interop

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/overlakedb/overlake"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/row"
	"github.com/overlakedb/overlake/internal/testenv"
	"github.com/overlakedb/overlake/test/ask"
)

// pythonVar names the interpreter that has the packages of requirements.txt.
const pythonVar = "OVERLAKE_PYTHON"

// interpreter is the Python that has the packages; the test is skipped when there is none.
func interpreter(t *testing.T) string {
	t.Helper()
	if p, promised := os.LookupEnv(pythonVar); promised {
		return p
	}
	p := filepath.Join(testenv.Root(t), ".cache", "interop", "bin", "python")
	if _, err := os.Stat(p); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("no Python environment for interop: set %s, or run .ci/run once", pythonVar)
	}
	return p
}

// python runs one of the scripts beside this file and decodes its answer.
func python(t *testing.T, into any, script string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), interpreter(t), append([]string{script}, args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", script, strings.Join(args, " "), err, stderr.String())
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// request is what read.py is asked, seen is what it says.
type (
	request struct {
		Table string `json:"table"`
		Query string `json:"query"`
		Files bool   `json:"files"`
	}
	seen struct {
		Pyiceberg, Duckdb [][]*string
		Problems          []string
	}
)

// readers asks the other engines about several tables at once, because Python takes seconds to start.
func readers(t *testing.T, requests []request) []seen {
	t.Helper()
	text, err := json.Marshal(requests)
	if err != nil {
		t.Fatal(err)
	}
	var out []seen
	python(t, &out, "read.py", string(text))
	if len(out) != len(requests) {
		t.Fatalf("%d answers to %d requests", len(out), len(requests))
	}
	return out
}

// compare holds what others saw of a table against our own answer.
func compare(t *testing.T, r request, s seen, ours string) {
	t.Helper()
	for _, p := range s.Problems {
		t.Error(p)
	}
	if got := flat(s.Pyiceberg); got != ours {
		t.Errorf("PyIceberg reads\n%s\nwe read\n%s", got, ours)
	}
	if got := flat(s.Duckdb); r.Files && got != ours {
		t.Errorf("DuckDB reads\n%s\nwe read\n%s", got, ours)
	}
}

// answer runs a statement and gives its rows as text.
func answer(t *testing.T, db *overlake.DB, sql string) [][]*string {
	t.Helper()
	rows, err := ask.Rows(t.Context(), db, sql, ask.Text)
	if err != nil {
		t.Fatalf("%s\n%v", sql, err)
	}
	return rows
}

func flat(rows [][]*string) string {
	var b strings.Builder
	for _, r := range rows {
		for i, v := range r {
			if i > 0 {
				b.WriteString(" | ")
			}
			if v == nil {
				b.WriteString("NULL")
			} else {
				b.WriteString(*v)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// question is the query that every engine answers about the columns; key orders the rows.
func question(key string, columns ...string) string {
	parts := []string{"count(*)::VARCHAR"}
	for _, c := range columns {
		parts = append(parts, "count("+c+")::VARCHAR", "min("+c+")::VARCHAR", "max("+c+")::VARCHAR",
			"md5(string_agg(coalesce("+c+"::VARCHAR, 'NULL'), '|' ORDER BY "+key+"))")
	}
	return "SELECT " + strings.Join(parts, ", ") + " FROM t"
}

// newest is the metadata file with the highest version below a table's directory.
func newest(t *testing.T, warehouse, namespace, table string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(warehouse, namespace, table, "metadata", "*.metadata.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no metadata of %s.%s in %s: %v", namespace, table, warehouse, err)
	}
	slices.SortFunc(files, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	return files[len(files)-1]
}

// tables are made by SQL; each is compared by the columns named.
var tables = []struct {
	name    string
	columns []string
	files   bool // the data files alone hold the table: no deletes, no evolution
	script  string
}{
	{"types", []string{"b", "i", "l", "f", "d", "n", "day", "tm", "ts", "tz", "s", "hex(x)", "u"}, true, `
		CREATE TABLE types (id BIGINT NOT NULL, b BOOLEAN, i INTEGER, l BIGINT, f REAL, d DOUBLE, n DECIMAL(20,4), day DATE, tm TIME, ts TIMESTAMP, tz TIMESTAMPTZ, s VARCHAR, x BLOB, u UUID);
		INSERT INTO types VALUES
		  (1, true, 2147483647, 9223372036854775807, 1.25, 1e300, 1234567890123456.7891, '2026-02-28', '23:59:59.999999', '2026-02-28 12:34:56.123456', '2026-02-28 12:34:56+02', 'plain', '\x00\xFF'::BLOB, '11111111-2222-3333-4444-555555555555'),
		  (2, false, -2147483648, -9223372036854775808, -0.5, -1e-300, -0.0001, '1969-12-31', '00:00:00', '1969-12-31 23:59:59.999999', '1969-12-31 23:59:59+00', '', ''::BLOB, '00000000-0000-0000-0000-000000000000'),
		  (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
		INSERT INTO types SELECT 4, true, 0, 0, 'NaN'::FLOAT, 'NaN'::DOUBLE, 0, '2000-02-29', '12:00:00', '2000-02-29 00:00:00', '2000-02-29 00:00:00+00', repeat('é', 40), repeat('z', 40)::BLOB, 'ffffffff-ffff-ffff-ffff-ffffffffffff';
		INSERT INTO types SELECT 5, true, 1, 1, 'Infinity'::FLOAT, '-Infinity'::DOUBLE, 1, '2000-01-01', '12:00:00', '2000-01-01', '2000-01-01 00:00:00+00', repeat(chr(1114111), 20), 'a'::BLOB, NULL`},
	{"nested", []string{"a", "st.p", "st.q", "m"}, true, `
		CREATE TABLE nested (id BIGINT, a INTEGER[], st STRUCT(p INTEGER, q VARCHAR), m MAP(VARCHAR, INTEGER));
		INSERT INTO nested VALUES (1, [1, NULL, 3], {'p': 1, 'q': 'one'}, MAP {'k': 1, 'j': NULL}), (2, [], {'p': NULL, 'q': NULL}, MAP {}), (3, NULL, NULL, NULL)`},
	{"vectors", []string{"array_to_string(e, ',')"}, true, `
		CREATE TABLE vectors (id BIGINT, e vector(4));
		INSERT INTO vectors SELECT i, [i, i / 2, -i, 0.1]::FLOAT[] FROM range(3000) t(i);
		INSERT INTO vectors VALUES (9999, NULL)`},
	{"parted", []string{"cat", "ts", "v"}, true, `
		CREATE TABLE parted (id BIGINT, cat VARCHAR, ts TIMESTAMP, v DOUBLE) PARTITIONED BY (cat, bucket(3, id), month(ts));
		INSERT INTO parted SELECT i, CASE WHEN i % 5 = 0 THEN NULL ELSE 'c/' || (i % 2) || ' %' END, TIMESTAMP '2026-01-20 00:00:00' + INTERVAL (i) HOUR, i / 3 FROM range(500) t(i);
		INSERT INTO parted SELECT i, 'late', NULL, NULL FROM range(500, 510) t(i)`},
	{"transforms", []string{"s", "n", "dc", "d", "ts"}, true, `
		CREATE TABLE transforms (id BIGINT, s VARCHAR, n INTEGER, dc DECIMAL(9,2), d DATE, ts TIMESTAMP) PARTITIONED BY (truncate(2, s), truncate(10, n), bucket(4, dc), year(d), hour(ts));
		INSERT INTO transforms VALUES (1, 'abc', 15, 1.25, '2026-01-31', '2026-01-31 10:59:59'), (2, 'éàü', -1, -1.25, '1969-01-01', '1969-12-31 23:00:00'), (3, NULL, NULL, NULL, NULL, NULL), (4, 'a', 0, 0, '1970-01-01', '1970-01-01 00:00:00')`},
	{"evolved", []string{"title", "score", "note"}, false, `
		CREATE TABLE evolved (id INTEGER, name VARCHAR, score FLOAT, gone VARCHAR);
		INSERT INTO evolved SELECT i, 'n' || i, i / 4, 'x' FROM range(20) t(i);
		ALTER TABLE evolved RENAME COLUMN name TO title;
		ALTER TABLE evolved ADD COLUMN note VARCHAR;
		ALTER TABLE evolved DROP COLUMN gone;
		ALTER TABLE evolved ALTER COLUMN score TYPE DOUBLE;
		ALTER TABLE evolved ALTER COLUMN id TYPE BIGINT;
		INSERT INTO evolved SELECT i, 'm' || i, 0.1, 'noted' FROM range(20, 30) t(i)`},
	{"rewritten", []string{"v"}, true, `
		CREATE TABLE rewritten (id BIGINT, v INTEGER);
		INSERT INTO rewritten SELECT i, i FROM range(1000) t(i);
		INSERT OVERWRITE rewritten SELECT id, v * 2 FROM rewritten WHERE id % 2 = 0`},
	{"third", []string{"v", "s"}, true, `
		CREATE TABLE third (id BIGINT, v INTEGER, s VARCHAR) PARTITIONED BY (bucket(2, id)) WITH ("format-version" = '3');
		INSERT INTO third SELECT i, i, 's' || i FROM range(100) t(i);
		INSERT INTO third SELECT i, i, NULL FROM range(100, 150) t(i)`},
	{"hollow", []string{"v"}, false, `CREATE TABLE hollow (id BIGINT, v INTEGER)`},
}

// TestOthersRead lets PyIceberg and DuckDB read every table, and compares their answers with ours, and what the manifests say
// about files with the files.
func TestOthersRead(t *testing.T) {
	interpreter(t) // skip before work
	var names, ours []string
	var requests []request
	add := func(db *overlake.DB, name, source string, files bool, columns ...string) {
		q := question("id", append([]string{"id"}, columns...)...)
		table := filepath.Base(name)
		names = append(names, name)
		requests = append(requests, request{Table: source, Query: q, Files: files})
		ours = append(ours, flat(answer(t, db, strings.ReplaceAll(q, "FROM t", "FROM "+table))))
	}
	for _, kind := range []string{"file", "sqlite"} {
		dir := t.TempDir()
		db := ask.Open(t, dir, overlake.Options{Catalog: kind})
		for _, c := range tables {
			answer(t, db, c.script)
			source := filepath.Join(dir, "catalog.db") + ":main." + c.name
			if kind == "file" {
				source = newest(t, dir, "main", c.name)
			}
			add(db, kind+"/"+c.name, source, c.files, c.columns...)
		}
	}
	for _, version := range []string{"2", "3"} {
		dir := t.TempDir()
		db := ask.Open(t, dir, overlake.Options{})
		withDeletes(t, db, dir, version)
		add(db, "deletes_v"+version+"/d", newest(t, dir, "main", "d"), false, "v")
	}
	for i, s := range readers(t, requests) {
		t.Run(names[i], func(t *testing.T) { compare(t, requests[i], s, ours[i]) })
	}
}

// withDeletes makes the table d and deletes one row in three by position, in two rounds so that the second meets the first:
// by position delete files in format version 2, by deletion vectors in version 3.
func withDeletes(t *testing.T, db *overlake.DB, dir, version string) {
	t.Helper()
	answer(t, db, fmt.Sprintf(`CREATE TABLE d (id BIGINT, v VARCHAR) PARTITIONED BY (bucket(2, id)) WITH ("format-version" = '%s');
		INSERT INTO d SELECT i, 'v' || i FROM range(300) t(i)`, version))
	store, err := objstore.OpenLocal(dir, objstore.LocalOptions{})
	if err != nil {
		t.Fatal(err)
	}
	table, err := lake.OpenFileCatalog(store).Load(t.Context(), lake.Ident{Namespace: "main", Name: "d"})
	if err != nil {
		t.Fatal(err)
	}
	left := int64(300)
	for round := range int64(2) {
		plan, err := table.Plan(t.Context(), lake.Ref{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		deletes := map[string]*row.Bitmap{}
		for _, f := range plan.Files {
			b := row.NewBitmap()
			for pos := round; pos < f.Rows; pos += 6 {
				b.Add(pos)
				left--
			}
			deletes[f.Path] = b
		}
		if table, err = table.DeleteRows(t.Context(), deletes); err != nil {
			t.Fatal(err)
		}
	}
	if got := answer(t, db, "SELECT count(*)::VARCHAR FROM d"); *got[0][0] != fmt.Sprint(left) {
		t.Fatalf("%s rows are left, want %d", *got[0][0], left)
	}
}

// TestWeReadOthers lets PyIceberg write tables into a SQL catalog and reads them through that catalog, and through mounts
// of their directories and of their metadata files.
func TestWeReadOthers(t *testing.T) {
	dir := t.TempDir()
	q := question("id", "id", "cat", "ts")
	var made map[string]struct {
		Metadata string
		Answer   [][]*string
	}
	python(t, &made, "write.py", filepath.Join(dir, "catalog.db"), dir, q)
	if len(made) != 4 {
		t.Fatalf("%d tables were written", len(made))
	}
	catalog := ask.Open(t, dir, overlake.Options{Catalog: "sqlite"})
	mounts := ask.Open(t, t.TempDir(), overlake.Options{})
	for name, m := range made {
		t.Run(name, func(t *testing.T) {
			want := flat(m.Answer)
			if got := flat(answer(t, catalog, strings.ReplaceAll(q, "FROM t", "FROM "+name))); got != want {
				t.Errorf("through the catalog we read\n%s\nPyIceberg\n%s", got, want)
			}
			short := strings.TrimPrefix(name, "py.")
			if _, err := mounts.Mount(t.Context(), short+"_file", m.Metadata); err != nil {
				t.Fatal(err)
			}
			if got := flat(answer(t, mounts, strings.ReplaceAll(q, "FROM t", "FROM "+short+"_file"))); got != want {
				t.Errorf("through the metadata file we read\n%s\nPyIceberg\n%s", got, want)
			}
			if _, err := mounts.Mount(t.Context(), short+"_dir", filepath.Dir(filepath.Dir(m.Metadata))); err != nil {
				t.Fatal(err)
			}
			if got := flat(answer(t, mounts, strings.ReplaceAll(q, "FROM t", "FROM "+short+"_dir"))); got != want {
				t.Errorf("through the directory we read\n%s\nPyIceberg\n%s", got, want)
			}
		})
	}
}

// TestDeclaredTypes: the types that Iceberg has none for are lists, structs and bytes to others, who read and write them so.
func TestDeclaredTypes(t *testing.T) {
	interpreter(t) // skip before work
	dir := t.TempDir()
	db := ask.Open(t, dir, overlake.Options{Catalog: "sqlite"})
	answer(t, db, `CREATE TABLE d (id BIGINT, e halfvec(3), s sparsevec(5), b bit(10));
		INSERT INTO d VALUES (1, '[0.1,2049,-1]', '{1:1.5,3:-2}/5', '1010101011'), (2, NULL, '{}/5', B'0000000001'), (3, '[1,2,3]', NULL, NULL)`)
	database := filepath.Join(dir, "catalog.db")
	r := request{Table: database + ":main.d", Files: true,
		Query: `SELECT id, e::VARCHAR, s.size, s.indices::VARCHAR, s."values"::VARCHAR, hex(b) FROM t ORDER BY id`}
	compare(t, r, readers(t, []request{r})[0], "1 | [0.099975586, 2048.0, -1.0] | 5 | [0, 2] | [1.5, -2.0] | AAC0\n2 | NULL | 5 | [] | [] | 0040\n3 | [1.0, 2.0, 3.0] | NULL | NULL | NULL | NULL\n")

	var rows int
	python(t, &rows, "append.py", database, "main.d")
	if rows != 5 {
		t.Errorf("the table has %d rows", rows)
	}
	want := "10 | [0.5,-2,65504] | {1:0.25,5:-1}/5 | 1010000001\n11 | NULL | NULL | NULL\n"
	if got := flat(answer(t, db, "SELECT id, e::VARCHAR, s, b FROM d WHERE id > 9 ORDER BY id")); got != want {
		t.Errorf("of what PyIceberg wrote we read\n%s\nwant\n%s", got, want)
	}
	if got := flat(answer(t, db, "SELECT id FROM d ORDER BY s <#> '{1:1}/5', id LIMIT 2")); got != "1\n10\n" {
		t.Errorf("the nearest are\n%s", got)
	}
}

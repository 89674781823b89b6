package overlake_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/overlakedb/overlake"
)

// placesTable is a warehouse in memory with a table of 3,000 points on a spiral, and an index over them.
func placesTable(ctx context.Context, name string) (*overlake.DB, *overlake.Table, error) {
	db, err := overlake.Open(ctx, "mem://"+name, overlake.Options{})
	if err != nil {
		return nil, nil, err
	}
	for _, s := range []string{"CREATE TABLE places (id INTEGER, side VARCHAR, at vector(2))",
		"INSERT INTO places SELECT i, CASE WHEN cos(i) < 0 THEN 'left' ELSE 'right' END, [i * cos(i), i * sin(i)]::FLOAT[]::vector FROM range(3000) r(i)",
		"CREATE INDEX ON places USING hnsw (at vector_l2_ops)"} {
		rows, err := db.SQL(ctx, s)
		if err != nil {
			return nil, nil, err
		}
		rows.Close()
	}
	t, err := db.Table(ctx, "places")
	return db, t, err
}

func ExampleQuery_NearEach() {
	ctx := context.Background()
	db, places, err := placesTable(ctx, "example-near-each")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	rows, err := places.Query().Where("side = ?", "right").NearEach("at", [][]float32{{100, 0}, {0, 7}}, overlake.L2).Select("id").Limit(2).Effort(overlake.Effort{Ef: 100}).Rows(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for row, err := range rows.Values() {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(row[0], row[1])
	}
	// Output:
	// 0 88
	// 0 113
	// 1 7
	// 1 1
}

// TestEffort checks that what a query says of effort arrives at the index.
func TestEffort(t *testing.T) {
	ctx := t.Context()
	db, places, err := placesTable(ctx, "effort")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	distances := func(e overlake.Effort) string {
		t.Helper()
		plan, err := places.Query().Near("at", []float32{700, 100}).Select("id").Limit(10).Effort(e).Explain(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(plan) {
			if strings.HasPrefix(line, "vector l2") {
				return line
			}
		}
		return "none"
	}
	few, many := distances(overlake.Effort{Ef: 20}), distances(overlake.Effort{Ef: 500})
	if few == many || !strings.Contains(few, "graph") {
		t.Errorf("ef 20: %sef 500: %s", few, many)
	}
	if exact := distances(overlake.Effort{Exact: true}); !strings.Contains(exact, "exact") || !strings.Contains(exact, " 3000 distances") {
		t.Errorf("exact: %s", exact)
	}
	if none := distances(overlake.Effort{NoIndex: true}); none != "none" {
		t.Errorf("without an index: %s", none)
	}
	if _, err := places.Query().Near("at", []float32{1, 2}).Effort(overlake.Effort{Ef: -1}).Limit(1).Rows(ctx); overlake.KindOf(err) != overlake.KindInvalid {
		t.Errorf("ef -1: %v", err)
	}
	if _, err := places.Query().NearEach("at", [][]float32{{1, 2}}, overlake.L2).Rows(ctx); overlake.KindOf(err) != overlake.KindInvalid {
		t.Errorf("NearEach without a limit: %v", err)
	}
}

// TestDirectAnswers: what is answered without the engine has the columns and values that the engine gives.
func TestDirectAnswers(t *testing.T) {
	ctx := t.Context()
	db, err := overlake.Open(ctx, "mem://direct", overlake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ask := func(sql string, args ...any) (schema string, rows []string) {
		t.Helper()
		r, err := db.SQL(ctx, sql, args...)
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		schema = r.Schema().String()
		for row, err := range r.Values() {
			if err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
			rows = append(rows, fmt.Sprintf("%#v", row))
		}
		return schema, rows
	}
	ask(`CREATE TABLE t (b BOOLEAN, i INTEGER, "Long" BIGINT, f FLOAT, d DOUBLE, s VARCHAR, day DATE, ts TIMESTAMP, tz TIMESTAMPTZ, n DECIMAL(9,2), u UUID, e vector(3), h halfvec(3))`)
	ask(`INSERT INTO t SELECT i % 2 = 0, i, i * 10000000000, i / 3, i / 7, CASE WHEN i % 5 > 0 THEN 'row ' || i END, DATE '2026-01-01' + i::INTEGER, TIMESTAMP '2026-01-01 00:00:00' + to_seconds(i),
		TIMESTAMPTZ '2026-01-01 00:00:00Z' + to_seconds(i), i / 8, uuid(), CASE WHEN i % 11 > 0 THEN [i, i % 3, -i] END::FLOAT[]::vector, [i, 1, 2]::FLOAT[]::halfvec FROM range(1500) r(i)`)
	ask(`INSERT INTO t (i, e) VALUES (9000, '[1,1,1]'), (9001, '[1,1,1]')`)
	for _, index := range []string{"hnsw (e vector_l2_ops)", "ivf (e vector_ip_ops)", "hnsw_tq8 (e vector_cosine_ops)", "hnsw (h halfvec_l2_ops)"} {
		ask("CREATE INDEX ON t USING " + index)
	}
	n := 0
	for _, column := range []string{"b", "i", `"Long"`, "LONG", "f", "d", "s", "day", "ts", "tz", "n", "u", "e", "h", "t.i", "i AS x", "1 AS one", "i + 1 AS next", "*", "i, i, e, s", "e AS v, i, e", "* EXCLUDE (n, h, u, tz)"} {
		for _, distance := range []string{"e <-> '[5,1,-5]'", "e <#> '[5,1,-5]'", "e <=> '[5,1,-4]'", "h <-> '[5,1,2]'", "vector_l2_squared_distance(e, '[5,1,-5]')"} {
			for _, rest := range []string{" ORDER BY dist LIMIT 4", " ORDER BY dist LIMIT 3 OFFSET 2", " WHERE mod(i, 7) > 0 ORDER BY dist LIMIT 4", " WHERE i < 0 ORDER BY dist LIMIT 4", " ORDER BY dist, i LIMIT 4"} {
				n++
				sql := "SELECT /*+ %s */ " + column + ", " + distance + " AS dist FROM t" + rest
				schema, rows := ask(fmt.Sprintf(sql, "no_index"))
				indexSchema, indexRows := ask(fmt.Sprintf(sql, "index ef_search(400) probes(64)"))
				if schema != indexSchema {
					t.Fatalf("%s: the columns are\n%s\nwithout an index\n%s", sql, indexSchema, schema)
				}
				// Equal distances may come in any order, so the distances are compared, and the rows by what they hold.
				if len(rows) != len(indexRows) {
					t.Fatalf("%s:\n%s\nwithout an index\n%s", sql, strings.Join(indexRows, "\n"), strings.Join(rows, "\n"))
				}
				for i := range rows {
					if a, b := last(rows[i]), last(indexRows[i]); a != b {
						t.Errorf("%s:\n%s\nwithout an index\n%s", sql, strings.Join(indexRows, "\n"), strings.Join(rows, "\n"))
						break
					}
				}
			}
		}
	}
	t.Log(n, "statements")
	// All columns of a table whose types are plain.
	ask("CREATE TABLE p (id INTEGER, name VARCHAR, v vector(3))")
	ask("INSERT INTO p SELECT i, CASE WHEN i % 3 > 0 THEN 'n' || i END, CASE WHEN i % 7 > 0 THEN [i, 1, 2] END::FLOAT[]::vector FROM range(400) r(i)")
	ask("CREATE INDEX ON p USING flat (v)")
	for _, sql := range []string{"SELECT %s * FROM p ORDER BY v <-> '[7.2,1,2]' LIMIT 5", "SELECT %s p.*, v <-> '[7.2,1,2]' AS d FROM p ORDER BY d LIMIT 5 OFFSET 1", "SELECT %s *, id, v FROM p x ORDER BY v <-> '[7.2,1,2]' LIMIT 3",
		"SELECT %s * EXCLUDE (id) FROM p ORDER BY v <-> '[7.2,1,2]' LIMIT 3", "SELECT %s x.* FROM p x(a, b, c) ORDER BY c <-> '[7.2,1,2]' LIMIT 3", "SELECT %s * RENAME (id AS other) FROM p ORDER BY v <-> '[7.2,1,2]' LIMIT 3",
		"SELECT %s * REPLACE (id + 1 AS id) FROM p ORDER BY v <-> '[7.2,1,2]' LIMIT 3", "SELECT %s COLUMNS('id|v') FROM p ORDER BY v <-> '[7.2,1,2]' LIMIT 3", "SELECT %s * LIKE 'n%%' FROM p ORDER BY v <-> '[7.2,1,2]' LIMIT 3"} {
		schema, rows := ask(fmt.Sprintf(sql, "/*+ no_index */"))
		indexSchema, indexRows := ask(fmt.Sprintf(sql, ""))
		if schema != indexSchema || fmt.Sprint(rows) != fmt.Sprint(indexRows) {
			t.Errorf("%s:\n%s\n%s\nwithout an index\n%s\n%s", sql, indexSchema, strings.Join(indexRows, "\n"), schema, strings.Join(rows, "\n"))
		}
	}
	_, rows := ask("SELECT i FROM t ORDER BY e <-> $1 LIMIT 2", []float32{5, 2, -5})
	if len(rows) != 2 || rows[0] != "[]interface {}{5}" {
		t.Errorf("with a parameter: %v", rows)
	}
}

// last is the last value of a row as text.
func last(row string) string { return row[strings.LastIndex(row, ", ")+1:] }

// TestBitsAndSparse: an index over bit strings or sparse vectors answers as a scan does, whatever way the vector to search
// for comes, and EXPLAIN tells how.
func TestBitsAndSparse(t *testing.T) {
	ctx := t.Context()
	db, err := overlake.Open(ctx, t.TempDir(), overlake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range []string{"CREATE TABLE d (id INTEGER, kind INTEGER, signs bit(70), words sparsevec(500))",
		`INSERT INTO d SELECT i, i % 7, binary_quantize(list_transform(range(70), lambda k: sin(i * (k + 1) * 1.7))::FLOAT[]::vector),
			('{' || (i % 40 + 1) || ':' || (i % 11 + 0.5) || ',' || (i % 53 + 100) || ':' || (i % 5 + 1) || ',' || (i % 211 + 200) || ':-2}/500')::sparsevec FROM range(4000) r(i)`,
		"CREATE INDEX ON d (kind)", "CREATE INDEX by_hamming ON d USING hnsw (signs bit_hamming_ops)", "CREATE INDEX by_jaccard ON d USING ivfflat (signs bit_jaccard_ops)",
		"CREATE INDEX by_ip ON d USING hnsw (words sparsevec_ip_ops)", "CREATE INDEX by_cosine ON d USING hnsw (words sparsevec_cosine_ops)",
		"CREATE INDEX by_l2 ON d USING hnsw (words sparsevec_l2_ops)", "CREATE INDEX by_l1 ON d USING flat (words sparsevec_l1_ops)"} {
		rows, err := db.SQL(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		rows.Close()
	}
	read := func(s string, args ...any) string {
		t.Helper()
		rows, err := db.SQL(ctx, s, args...)
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		defer rows.Close()
		out := ""
		for values, err := range rows.Values() {
			if err != nil {
				t.Fatalf("%s: %v", s, err)
			}
			out += fmt.Sprintln(values...)
		}
		return out
	}
	signs := strings.Repeat("1100101", 10)
	words := "{3:1.5,120:2,210:-1,250:0.5}/500"
	for _, c := range []struct {
		query string
		args  []any
		want  string // of EXPLAIN
	}{
		{"SELECT id, signs <~> $1 FROM d ORDER BY signs <~> $1, id LIMIT 5", []any{signs}, "vector hamming main.d.signs: index by_hamming (hnsw), 1 parts, all compared"},
		{"SELECT id FROM d ORDER BY hamming_distance(B'" + signs + "', signs), id LIMIT 5", nil, "index by_hamming"},
		{"SELECT id FROM d ORDER BY signs <~> '" + signs + "'::bit(70), id LIMIT 5", nil, "index by_hamming"},
		{"SELECT id FROM d ORDER BY signs <~> (SELECT signs FROM d WHERE id = 17), id LIMIT 5", nil, "index by_hamming"},
		{"SELECT id FROM d ORDER BY signs <%> '" + signs + "', id LIMIT 5", nil, "index by_jaccard (ivfflat), 1 parts, all compared"},
		{"SELECT id FROM d WHERE kind = 3 AND signs IS NOT NULL ORDER BY signs <%> '" + signs + "', id LIMIT 5", nil, "by index"},
		{"SELECT id FROM d WHERE length(kind::VARCHAR) = 1 AND id % 3 = 1 ORDER BY signs <%> '" + signs + "', id LIMIT 5", nil, "by a query of their own"},
		{"SELECT id FROM d WHERE signs <~> '" + signs + "' < 26 ORDER BY id", nil, "nearer than 26"},
		{"SELECT id, distance FROM vector_search(d, signs, $1, 4, metric => 'hamming') ORDER BY distance, id", []any{strings.Repeat("0", 70)}, "index by_hamming"},
		{"SELECT id, words <#> $1 FROM d ORDER BY words <#> $1, id LIMIT 5", []any{words}, "vector ip main.d.words: index by_ip (hnsw), 1 parts, posting lists"},
		{"SELECT id FROM d ORDER BY sparsevec_negative_inner_product('" + words + "'::sparsevec, words), id LIMIT 5", nil, "index by_ip"},
		{"SELECT id FROM d ORDER BY words <=> '" + words + "'::sparsevec(500), id LIMIT 5", nil, "index by_cosine"},
		{"SELECT id FROM d ORDER BY words <-> '" + words + "', id LIMIT 5", nil, "index by_l2"},
		{"SELECT id FROM d ORDER BY words <+> '" + words + "', id LIMIT 5", nil, "index by_l1 (flat), 1 parts, all compared"},
		{"SELECT id FROM d ORDER BY words <-> (SELECT words FROM d WHERE id = 17), id LIMIT 5", nil, "index by_l2"},
		{"SELECT id FROM d ORDER BY words <-> l2_normalize('" + words + "'::sparsevec), id LIMIT 5", nil, "index by_l2"},
		{"SELECT id FROM d WHERE kind = 3 ORDER BY words <#> '" + words + "', id LIMIT 5", nil, "by index"},
		{"SELECT id FROM d WHERE words <=> '" + words + "' < 0.6 ORDER BY id", nil, "nearer than 0.6"},
		{"SELECT id FROM d WHERE words <#> '{7:1}/500' < -9 ORDER BY id", nil, "nearer than -9"},
	} {
		if got, want := read(c.query, c.args...), read("SELECT * FROM ("+strings.Replace(c.query, "SELECT", "SELECT /*+ NO_INDEX */", 1)+")", c.args...); got != want || got == "" {
			t.Errorf("%s:\n%swant\n%s", c.query, got, want)
		}
		if plan := read("EXPLAIN "+c.query, c.args...); !strings.Contains(plan, c.want) {
			t.Errorf("%s: %q is not in\n%s", c.query, c.want, plan)
		}
	}
}

// TestManyTies: where more rows are as far as the last one than an index is asked for, the second key of ORDER BY decides
// among all of them.
func TestManyTies(t *testing.T) {
	ctx := t.Context()
	db, err := overlake.Open(ctx, t.TempDir(), overlake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range []string{"CREATE TABLE d (id INTEGER, signs bit(4), e vector(1), words sparsevec(9))",
		"INSERT INTO d SELECT i, (i % 2)::bit(4), [i % 2]::FLOAT[]::vector, ('{' || (i % 2 + 1) || ':1}/9')::sparsevec FROM range(60000) r(i)",
		"CREATE INDEX ON d USING hnsw (signs bit_hamming_ops)", "CREATE INDEX ON d USING hnsw (words sparsevec_ip_ops)", "CREATE INDEX ON d USING flat (e vector_l2_ops)"} {
		rows, err := db.SQL(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		rows.Close()
	}
	for order, want := range map[string]string{"signs <~> '0000', id DESC": "59998 59996 59994 ", "words <#> '{1:1}/9', id DESC": "59998 59996 59994 ", "e <-> '[1]', id DESC": "59999 59997 59995 ",
		"words <#> '{5:1}/9', id DESC": "59999 59998 59997 "} {
		rows, err := db.SQL(ctx, "SELECT id FROM d ORDER BY "+order+" LIMIT 3")
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for values, err := range rows.Values() {
			if err != nil {
				t.Fatal(err)
			}
			got += fmt.Sprint(values[0]) + " "
		}
		if err := rows.Close(); err != nil || got != want {
			t.Errorf("%s: %s, want %s (%v)", order, got, want, err)
		}
	}
}

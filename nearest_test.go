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
	for _, column := range []string{"b", "i", `"Long"`, "LONG", "f", "d", "s", "day", "ts", "tz", "n", "u", "e", "h", "t.i", "i AS x", "1 AS one", "i + 1 AS next", "*"} {
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
	_, rows := ask("SELECT i FROM t ORDER BY e <-> $1 LIMIT 2", []float32{5, 2, -5})
	if len(rows) != 2 || rows[0] != "[]interface {}{5}" {
		t.Errorf("with a parameter: %v", rows)
	}
}

// last is the last value of a row as text.
func last(row string) string { return row[strings.LastIndex(row, ", ")+1:] }

package overlake_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/row"
)

// facts is a warehouse with a table of 60,000 rows in three files, of which one row in 50 is deleted and all in which k is 33:
// k has a hundred values and NULL, and is indexed; so are name, which has 300, u, which is unique, and zero, which has 0, -0
// and 5.
func facts(t *testing.T) *overlake.DB {
	dir := t.TempDir()
	db, err := overlake.Open(t.Context(), dir, overlake.Options{IndexByHand: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	do := func(statement string) { answer(t.Context(), db, statement) }
	do("CREATE TABLE t (id BIGINT, k INTEGER, name VARCHAR, u BIGINT, x DOUBLE, zero DOUBLE)")
	for i := range 3 {
		do(fmt.Sprintf(`INSERT INTO t SELECT i, CASE WHEN i %% 101 = 7 THEN NULL ELSE hash(i) %% 100 END, 'n' || hash(i + 1) %% 300, (i * 7919) %% 60000, i / 3,
			CASE i %% 3 WHEN 0 THEN 0.0 WHEN 1 THEN '-0'::DOUBLE ELSE 5 END
			FROM range(%d, %d) r(i)`, 20_000*i, 20_000*(i+1)))
	}
	for _, c := range []string{"k", "name", "u", "zero"} {
		do("CREATE INDEX ON t (" + c + ")")
	}
	store, err := objstore.OpenLocal(dir, objstore.LocalOptions{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	table, err := lake.OpenFileCatalog(store).Load(t.Context(), lake.Ident{Namespace: "main", Name: "t"})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := table.Plan(t.Context(), lake.Ref{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	gone := map[string]*row.Bitmap{}
	for i := range plan.Files {
		r, err := table.ReadFile(t.Context(), &plan.Files[i], []string{"k"}, lake.Ref{}, false)
		if err != nil {
			t.Fatal(err)
		}
		set, pos := row.NewBitmap(), int64(0)
		for r.Next() {
			c := r.RecordBatch().Column(0).(*array.Int32)
			for k := range c.Len() {
				if pos%50 == 0 || c.IsValid(k) && c.Value(k) == 33 {
					set.Add(pos)
				}
				pos++
			}
		}
		if r.Err() != nil {
			t.Fatal(r.Err())
		}
		r.Release()
		gone[plan.Files[i].Path] = set
	}
	if _, err := table.DeleteRows(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	return db
}

// What is answered from an index alone, and what is not, and that the answers are those of a scan.
func TestWhatAnIndexAnswersAlone(t *testing.T) {
	db := facts(t)
	ask := func(statement string) string { return answer(t.Context(), db, statement) }
	const distinct, order, scan = "a row for each value in the index", "the first rows in the order of the index", "read_parquet"
	for _, c := range []struct{ via, text string }{
		{distinct, "SELECT DISTINCT k FROM t ORDER BY k"},
		{distinct, "SELECT DISTINCT k AS j, k % 10 AS m FROM t WHERE k > 20 ORDER BY m DESC, j LIMIT 7 OFFSET 2"},
		{distinct, "SELECT DISTINCT t.k FROM t WHERE k IS NULL OR k IN (5, 33, 700) ORDER BY 1"},
		{distinct, "SELECT k FROM t GROUP BY k ORDER BY k NULLS FIRST"},
		{distinct, "SELECT k FROM t GROUP BY 1 HAVING k BETWEEN 10 AND 20 ORDER BY 1"},
		{distinct, "SELECT k % 7 AS m, min(k), max(k), count(DISTINCT k) FROM t GROUP BY m ORDER BY m"},
		{distinct, "SELECT count(DISTINCT k), count(DISTINCT k) + 1 AS more, min(k) FROM t"},
		{distinct, "SELECT count(DISTINCT name) FROM t WHERE name LIKE 'n1%'"},
		{distinct, "SELECT count(DISTINCT k) FROM t WHERE k = 33"},
		{distinct, "SELECT n.name FROM (SELECT DISTINCT name FROM t) n ORDER BY 1 LIMIT 5"},
		{distinct, "SELECT DISTINCT k IS NULL AS a FROM t ORDER BY a"},
		{distinct, "SELECT sum(j) FROM (SELECT k AS j FROM t GROUP BY j)"},
		{scan, "SELECT sum(j) FROM (SELECT k AS j FROM t GROUP BY ALL)"},
		{order, "SELECT * FROM t ORDER BY u DESC LIMIT 3"},
		{order, "SELECT * FROM t WHERE name = 'n7' ORDER BY u LIMIT 5"},
		{order, "SELECT id, u FROM t WHERE k BETWEEN 3 AND 8 ORDER BY u DESC, id LIMIT 20 OFFSET 5"},
		{order, "SELECT id, u FROM t WHERE k < 5 AND u > 30000 ORDER BY u LIMIT 7"},
		{order, "SELECT id, u FROM t WHERE (k = 5 OR name = 'n8') AND u > 30000 ORDER BY u LIMIT 7"},
		{order, "SELECT id, k FROM t WHERE name IN ('n1', 'n2', 'n3') ORDER BY k DESC NULLS FIRST, id LIMIT 10"},
		{order, "SELECT id, k FROM t WHERE name IN ('n1', 'n2', 'n3') ORDER BY k NULLS LAST, id LIMIT 590"}, // nearly all
		{order, "SELECT id, k FROM t WHERE name = 'n1' AND k IS NULL ORDER BY k, id LIMIT 3"},
		{order, "SELECT id, u FROM t WHERE k = 33 ORDER BY u LIMIT 3"},
		{order, "SELECT id, u FROM t WHERE k IS NULL ORDER BY u LIMIT 3"},
		{scan, "SELECT id, u FROM t WHERE k < 5 AND x > 3 ORDER BY u LIMIT 7"},
		{scan, "SELECT id, x FROM t WHERE k < 5 ORDER BY x, id LIMIT 7"},
		{scan, "SELECT DISTINCT u FROM t WHERE k < 9 ORDER BY u LIMIT 7"},
		// How often a value is there decides these.
		{scan, "SELECT k, count(*) FROM t GROUP BY k ORDER BY k"},
		{scan, "SELECT k, count(k) AS n FROM t GROUP BY k ORDER BY k"},
		{scan, "SELECT k FROM t GROUP BY k HAVING count(*) > 620 ORDER BY k"},
		{scan, "SELECT sum(DISTINCT k), avg(k) FROM t"},
		{scan, "SELECT k FROM t WHERE k > 97 ORDER BY k"},
		{scan, "SELECT count(DISTINCT k) FILTER (k > 3) FROM t"},
		{scan, "SELECT k, row_number() OVER (ORDER BY k) AS n FROM t GROUP BY k ORDER BY k"},
		{scan, "SELECT k FROM t GROUP BY k ORDER BY count(*), k LIMIT 5"},
		{scan, "SELECT k FROM t GROUP BY ROLLUP (k) ORDER BY k NULLS LAST"},
		{scan, "SELECT k FROM t GROUP BY GROUPING SETS ((k), ()) ORDER BY k"},
		// A heading that is a column's name too may mean either.
		{scan, "SELECT k AS id FROM t WHERE id < 3 GROUP BY id, k ORDER BY k"},
		{scan, "SELECT DISTINCT k AS x FROM t ORDER BY x"},
		{distinct, "SELECT DISTINCT k % 5 AS k FROM t ORDER BY k"},
		// So are the texts of 0 and -0, which are one value.
		{distinct, "SELECT count(DISTINCT zero), max(zero)::VARCHAR FROM t"},
		{distinct, "SELECT DISTINCT abs(z) FROM (SELECT DISTINCT zero AS z FROM t) ORDER BY 1"},
		{scan, "SELECT DISTINCT zero::VARCHAR AS z FROM t ORDER BY z"},
		{scan, "SELECT count(*) FROM (SELECT zero FROM t GROUP BY zero, 1 / zero)"},
		// Other columns do.
		{scan, "SELECT DISTINCT k, x > 10 AS b FROM t ORDER BY k, b"},
		{scan, "SELECT k, max(id) FROM t GROUP BY k ORDER BY k"},
		{scan, "SELECT DISTINCT k FROM t WHERE x > 10000 ORDER BY k"},
		{scan, "SELECT DISTINCT k FROM t WHERE k % 2 = 0 ORDER BY k"},
		{scan, "SELECT DISTINCT x FROM t WHERE x < 3 ORDER BY x"},
		// A scan is as cheap.
		{scan, "SELECT count(DISTINCT u) FROM t"},
		{distinct, "SELECT /*+ index */ count(DISTINCT u) FROM t WHERE u < 5000"},
		{scan, "SELECT /*+ no_index */ DISTINCT k FROM t ORDER BY k"},
	} {
		plan := ask("EXPLAIN " + c.text)
		if !strings.Contains(plan, c.via) || c.via == scan && (strings.Contains(plan, distinct) || strings.Contains(plan, order)) {
			t.Errorf("%s:\n%s", c.text, plan)
		}
		if got, want := ask(c.text), ask(strings.Replace(strings.Replace(c.text, "/*+ index */", "", 1), "SELECT", "SELECT /*+ no_index */", 1)); got != want {
			t.Errorf("%s:\n%.1000s\nwithout an index:\n%.1000s", c.text, got, want)
		}
	}
}

// Each side of BETWEEN prunes by itself, when the other is a column of the same type: a type that rounds could keep more.
func TestSidesOfBetweenPrune(t *testing.T) {
	db := facts(t)
	for where, want := range map[string]string{
		"id BETWEEN 59999 AND u + 1": "",
		"id BETWEEN 59999 AND u":     "pruned with id >= 59999",
		"id BETWEEN u AND 7":         "pruned with id <= 7",
		"id BETWEEN 59999 AND x":     "", // as DOUBLE
		"id BETWEEN k AND 7":         "", // of another type, though it would do
	} {
		plan := answer(t.Context(), db, "EXPLAIN SELECT * FROM t WHERE "+where)
		if strings.Contains(plan, "pruned with") != (want != "") || !strings.Contains(plan, want) {
			t.Errorf("%s: %s", where, plan)
		}
	}
}

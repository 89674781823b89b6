package nearest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/overlakedb/overlake"
	"github.com/overlakedb/overlake/test/ask"
)

// same asks a statement with and without indexes.
func (w *world) same(text, hint string, args ...any) {
	w.Helper()
	want, err := w.rows(text+" /*+ no_index */", args...)
	if err != nil {
		w.Fatalf("%s: %v", text, err)
	}
	got, err := w.rows(text+hint, args...)
	if err != nil || !slices.Equal(got, want) {
		w.Errorf("%.300s\n  want %.300q\n   got %.300q, %v\n%s", text, want, got, err, w.explain(text+hint, args...))
	}
}

// Thousands of rows are equally far: what follows in ORDER BY says who comes, in graphs too.
func TestManyTies(t *testing.T) {
	w := newWorld(t)
	w.do("CREATE TABLE g (id INTEGER, e vector(3))")
	w.do("INSERT INTO g SELECT i, '[1,2,3]'::vector FROM range(0, 9000) r(i)")
	w.do("INSERT INTO g SELECT i, CASE WHEN i % 2 = 0 THEN '[1,2,3]'::vector ELSE '[1,2,4]'::vector END FROM range(9000, 9800) r(i)")
	for _, m := range []string{"l2", "ip", "cosine", "l1"} {
		w.do("CREATE INDEX g_" + m + " ON g USING hnsw (e) WITH (metric = '" + m + "')")
	}
	for _, op := range []string{"<->", "<#>", "<=>", "<+>"} {
		for _, q := range []string{"[1,2,3]", "[0,0,1]", "[-1,-2,-3]"} {
			d := "e " + op + " '" + q + "'"
			w.same("SELECT id, "+d+" FROM g ORDER BY "+d+", id LIMIT 3", " /*+ index */")
			w.same("SELECT id, "+d+" FROM g ORDER BY "+d+", id DESC LIMIT 3", " /*+ index */")
			w.same("SELECT id FROM g WHERE id % 10 = 7 ORDER BY "+d+", id DESC LIMIT 300", " /*+ index */")
			// Without more in ORDER BY, any of them will do, and the index has them.
			w.same("SELECT "+d+" FROM g ORDER BY "+d+" LIMIT 5000", " /*+ index */")
			if w.explain("SELECT "+d+" FROM g ORDER BY "+d+" LIMIT 10 /*+ index */") == "" {
				t.Errorf("%s: no index", d)
			}
		}
	}
}

// Vectors of one dimension and of the most there are.
func TestDimensions(t *testing.T) {
	for _, dim := range []int{1, 2, 17, 255, 16_000} {
		t.Run(fmt.Sprint(dim), func(t *testing.T) {
			w := newWorld(t)
			w.do(fmt.Sprintf("CREATE TABLE v (id INTEGER, e vector(%d))", dim))
			rows := 1100
			if dim > 1000 {
				rows = 30
			}
			value := fmt.Sprintf("list_transform(range(0, %d), lambda k: sin((k + 1) * (i + 1))::FLOAT)::FLOAT[]::vector", dim)
			w.do(fmt.Sprintf("INSERT INTO v SELECT i, CASE WHEN i %% 13 <> 5 THEN %s END FROM range(0, %d) r(i)", value, rows))
			for kind, m := range map[string]string{"hnsw_tq8": "l2", "hnsw_tq4": "cosine", "flat": "l1", "hnsw": "ip"} {
				w.do(fmt.Sprintf("CREATE INDEX v_%s ON v USING %s (e) WITH (metric = '%s')", m, kind, m))
			}
			for _, op := range []string{"<->", "<#>", "<=>", "<+>"} {
				text := "SELECT id, e " + op + " (SELECT e FROM v WHERE id = 6) FROM v ORDER BY 2, id LIMIT 7"
				w.same(text, " /*+ index exact */")
				w.same(strings.Replace(text, "LIMIT 7", "LIMIT 3 OFFSET 20", 1), " /*+ exact */")
				w.same(strings.Replace(text, "ORDER BY", "WHERE id > 10 ORDER BY", 1), " /*+ index exact ef_search(1) */")
				if w.explain(text+" /*+ index exact */") == "" {
					t.Errorf("no index: %s", text)
				}
				// More candidates than ef are wanted.
				if got, err := w.rows("SELECT id FROM v ORDER BY e " + op + " (SELECT e FROM v WHERE id = 6) LIMIT 25 /*+ index ef_search(1) rerank(1) */"); err != nil || len(got) != 25 {
					t.Errorf("ef below k: %d rows, %v", len(got), err)
				}
			}
			if _, err := w.rows("SELECT id FROM v ORDER BY e <-> '[1,2,3]' LIMIT 1"); err == nil {
				t.Error("another dimension is no error")
			}
		})
	}
}

// What is written by a SELECT of the nearest rows is what the SELECT gives.
func TestNearestRowsAreWritten(t *testing.T) {
	w := newWorld(t)
	w.do("CREATE TABLE o (id INTEGER, e vector(2))")
	w.do("INSERT INTO o SELECT i, [i, i % 7]::FLOAT[]::vector FROM range(1, 500) r(i)")
	w.do("CREATE INDEX ON o USING hnsw (e)")
	near := "SELECT id, e FROM o WHERE id % 2 = 0 AND id NOT IN (SELECT id FROM o WHERE id < 20) ORDER BY e <-> (SELECT e FROM o WHERE id = 33), id LIMIT 9"
	w.do("CREATE TABLE a AS " + near)
	w.do("CREATE TABLE b (id BIGINT, e halfvec(2))")
	w.do("INSERT INTO b " + near)
	w.do("INSERT INTO b WITH o AS (SELECT * FROM main.o WHERE id = 400) SELECT id, e FROM main.o ORDER BY e <-> (SELECT e FROM o), id LIMIT 1")
	want, err := w.rows(near + " /*+ no_index */")
	if err != nil {
		t.Fatal(err)
	}
	a, err := w.rows("SELECT * FROM a ORDER BY e <-> (SELECT e FROM o WHERE id = 33), id")
	if err != nil || !slices.Equal(a, want) {
		t.Errorf("CREATE TABLE AS wrote %q, %v, want %q", a, err, want)
	}
	b, err := w.rows("SELECT * FROM b WHERE id <> 400 ORDER BY e <-> '[33,5]', id")
	if err != nil || !slices.Equal(b, want) {
		t.Errorf("INSERT wrote %q, %v, want %q", b, err, want)
	}
	if n, err := w.rows("SELECT count(*) FROM b WHERE id = 400"); err != nil || n[0] != "1" {
		t.Errorf("INSERT with a WITH: %q, %v", n, err)
	}
	if w.explain(near) == "" {
		t.Error("no index")
	}
}

// Rows that cannot have such an index keep the others from nothing, and are scanned.
func TestRowsWithoutAnIndex(t *testing.T) {
	for name, c := range map[string]struct {
		options overlake.Options
		odd     string // vector of some rows
		want    string
	}{
		"too little memory": {overlake.Options{IndexMemory: 300_000}, "'[1,2,3,4]'", "needs .* bytes and may hold|do not fit into|needs [0-9]+ bytes, not"},
		"too many are huge": {overlake.Options{}, "'[1e30,0,0,1e-30]'", "more than 1000 vectors"},
	} {
		t.Run(name, func(t *testing.T) {
			events := 0
			c.options.IndexByHand, c.options.Events = true, func(overlake.Event) { events++ }
			db := ask.Open(t, t.TempDir(), c.options)
			w := &world{t, db, db.Session()}
			w.do("CREATE TABLE v (id INTEGER, e vector(4))")
			w.do("INSERT INTO v SELECT i, CASE WHEN i % 4 = 0 THEN " + c.odd + " ELSE [sin(i), cos(i), sin(2 * i), 1]::FLOAT[]::vector END FROM range(0, 8000) r(i)")
			w.do("CREATE INDEX ids ON v (id)")
			_, err := w.rows("CREATE INDEX nearest ON v USING hnsw (e)")
			if err == nil || !regexp.MustCompile(c.want).MatchString(err.Error()) || events == 0 {
				t.Errorf("the build gives %v and %d events", err, events)
			}
			w.do("INSERT INTO v SELECT i, [sin(i), cos(i), sin(2 * i), 1]::FLOAT[]::vector FROM range(8000, 8100) r(i)")
			if _, err := w.rows("REINDEX INDEX nearest"); err == nil {
				t.Error("the file has an index now")
			}
			for _, q := range []string{"[0,1,0,1]", "[1,2,3,4]", "[1e30,0,0,0]"} {
				w.same("SELECT id, e <-> '"+q+"' FROM v ORDER BY 2, id LIMIT 9", " /*+ index */")
				w.same("SELECT id FROM v WHERE id > 7990 ORDER BY e <-> '"+q+"', id LIMIT 9", " /*+ index exact */")
			}
		})
	}
}

// An index by another metric, of another column or of no vectors is not asked.
func TestOtherIndexes(t *testing.T) {
	w := newWorld(t)
	w.do("CREATE TABLE o (id INTEGER, e vector(2), f vector(2), n vector(2))")
	w.do("INSERT INTO o SELECT i, [i, i % 7]::FLOAT[]::vector, [i % 5, i]::FLOAT[]::vector, NULL FROM range(1, 200) r(i)")
	w.do("CREATE INDEX by_l2 ON o USING hnsw (e)")
	w.do("CREATE INDEX by_ip ON o USING flat (f) WITH (metric = 'ip')")
	w.do("CREATE INDEX empty ON o USING hnsw (n)")
	w.do("CREATE INDEX ids ON o (id)")
	for text, used := range map[string]bool{
		"SELECT id FROM o ORDER BY e <-> '[3,4]', id LIMIT 5":                                             true,
		"SELECT id FROM o ORDER BY e <=> '[3,4]', id LIMIT 5":                                             false,
		"SELECT id FROM o ORDER BY f <-> '[3,4]', id LIMIT 5":                                             false,
		"SELECT id FROM o ORDER BY f <#> '[3,4]', id LIMIT 5":                                             true,
		"SELECT id FROM o ORDER BY f <#> '[3,4]' DESC, id LIMIT 5":                                        false,
		"SELECT id FROM o ORDER BY -(e <-> '[3,4]') DESC, id LIMIT 5":                                     false,
		"SELECT id FROM o ORDER BY inner_product(f, '[3,4]') DESC, id LIMIT 5":                            false,
		"SELECT id FROM o ORDER BY n <-> '[3,4]', id LIMIT 5":                                             false,
		"SELECT id FROM o WHERE n IS NOT NULL ORDER BY n <-> '[3,4]', id LIMIT 5":                         true,
		"SELECT id FROM o ORDER BY e <-> f, id LIMIT 5":                                                   false,
		"SELECT id FROM o ORDER BY id, e <-> '[3,4]' LIMIT 5":                                             false,
		"SELECT id FROM o WHERE id = 5 ORDER BY e <-> '[3,4]' LIMIT 5":                                    true,
		"SELECT id FROM (SELECT * FROM o) s ORDER BY e <-> '[3,4]', id LIMIT 5":                           false,
		"SELECT min(id) FROM o GROUP BY e ORDER BY e <-> '[3,4]', 1 LIMIT 5":                              false,
		"SELECT id FROM o ORDER BY e <-> '[3,4]' NULLS FIRST, id LIMIT 5":                                 false,
		"SELECT id FROM o ORDER BY e <-> '[3,4]', id LIMIT 50 PERCENT":                                    false,
		"SELECT id FROM o ORDER BY e <-> '[3,4]', id LIMIT (SELECT 3)":                                    false,
		"SELECT id FROM o WHERE e <-> '[3,4]' < 9 ORDER BY e <-> '[3,4]', id LIMIT 50":                    true,
		"SELECT (SELECT o2.id FROM o o2 ORDER BY o2.e <-> '[3,4]', o2.id LIMIT 1) + id FROM o ORDER BY 1": true,
	} {
		w.same(text, " /*+ index */")
		if got := w.explain(text+" /*+ index */") != ""; got != used {
			t.Errorf("%s: an index is used: %v, want %v", text, got, used)
		}
	}
	if e := w.explain("SELECT id FROM o ORDER BY e <-> '[3,4]', id LIMIT 5 /*+ index(by_ip) */"); e != "" {
		t.Errorf("an index of another column was asked: %s", e)
	}
	if e := w.explain("SELECT id FROM o ORDER BY e <-> '[3,4]', id LIMIT 5 /*+ index(by_l2) */"); !strings.Contains(e, "by_l2") {
		t.Errorf("the index named was not asked: %s", e)
	}
}

// Fewer rows than wanted come by an index too, when no row without a distance can be missing.
func TestFewerThanWanted(t *testing.T) {
	w := newWorld(t)
	w.do("CREATE TABLE o (id INTEGER, e vector(2))")
	w.do("INSERT INTO o SELECT i, CASE WHEN i % 10 = 3 THEN NULL WHEN i % 10 = 4 THEN '[0,0]'::vector ELSE [i, i % 7]::FLOAT[]::vector END FROM range(0, 2000) r(i)")
	w.do("CREATE INDEX o_l2 ON o USING hnsw (e)")
	w.do("CREATE INDEX o_cosine ON o USING hnsw (e) WITH (metric = 'cosine')")
	for text, used := range map[string]bool{
		"WHERE id IN (10, 20, 30) ORDER BY e <-> '[1,2]', id LIMIT 10":                   true,
		"WHERE id IN (10, 13, 30) ORDER BY e <-> '[1,2]', id LIMIT 10":                   false,
		"WHERE id IN (10, 13, 30) ORDER BY e <-> '[1,2]', id LIMIT 2":                    true,
		"WHERE e IS NOT NULL AND id IN (10, 13, 30) ORDER BY e <-> '[1,2]', id LIMIT 10": true,
		"WHERE e IS NOT NULL ORDER BY e <-> '[1,2]', id LIMIT 1900":                      true,
		"WHERE id IN (10, 20, 30) ORDER BY e <=> '[1,2]', id LIMIT 10":                   true,
		"WHERE id IN (10, 14, 30) ORDER BY e <=> '[1,2]', id LIMIT 10":                   false,
		"WHERE e IS NOT NULL AND id IN (10, 14, 3) ORDER BY e <=> '[1,2]', id LIMIT 10":  false,
		"WHERE e IS NOT NULL AND length('ab') = 1 ORDER BY e <=> '[1,2]', id LIMIT 10":   true,
		"WHERE e IS NOT NULL AND id IN (10, 13, 3) ORDER BY e <-> '[1,2]', id LIMIT 10":  true,
		"WHERE e IS NULL ORDER BY e <-> '[1,2]', id LIMIT 3":                             false,
		"WHERE e IS NULL OR id = 7 ORDER BY e <-> '[1,2]', id LIMIT 3":                   false,
		"WHERE NOT (e IS NULL) ORDER BY e <-> '[1,2]', id LIMIT 3":                       true,
		"WHERE e IS NOT NULL OR id = 13 ORDER BY e <-> '[1,2]', id LIMIT 1801":           false,
	} {
		text = "SELECT id, e FROM o " + text
		w.same(text, " /*+ index */")
		if got := w.explain(text+" /*+ index */") != ""; got != used {
			t.Errorf("%s: an index is used: %v, want %v", text, got, used)
		}
	}
}

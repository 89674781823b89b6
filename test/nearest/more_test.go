package nearest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/overlakedb/overlake"
	"github.com/overlakedb/overlake/test/ask"
)

// The nearest rows beside the other things that statements hold: text search, long lists, search functions, older states; in
// a directory, and in memory, where the engine reaches no file by itself.
func TestBesideOtherParts(t *testing.T) {
	for name, place := range map[string]string{"directory": "", "memory": "mem://nearest-beside"} {
		t.Run(name, func(t *testing.T) {
			dir := place
			if dir == "" {
				dir = t.TempDir()
			}
			db := ask.Open(t, dir, overlake.Options{IndexByHand: true, Events: func(e overlake.Event) { t.Errorf("event: %+v", e) }})
			w := &world{t, db, db.Session()}
			w.do("CREATE TABLE p (id INTEGER, kind VARCHAR, body VARCHAR, e vector(3), s STRUCT(e INTEGER, p INTEGER))")
			w.do("INSERT INTO p SELECT i, chr((97 + i % 5)::INT), CASE WHEN i % 3 = 0 THEN 'a quick fox' ELSE 'lazy dog ' || i END, [sin(i), cos(i * i), i % 11 / 7.0]::FLOAT[]::vector, {e: i, p: i} FROM range(0, 900) r(i)")
			w.do("CREATE INDEX ON p USING hnsw (e)")
			w.do("CREATE INDEX ON p USING flat (e) WITH (metric = 'cosine')")
			w.do("CREATE INDEX ON p (kind)")
			var ids []string
			for i := range 3000 {
				ids = append(ids, fmt.Sprint(i*2))
			}
			long := strings.Join(ids, ", ")
			used := 0
			for _, text := range []string{
				"SELECT id FROM p WHERE match(body, 'fox') ORDER BY e <-> '[1,0,1]', id LIMIT 5",
				"SELECT id, bm25(body, 'fox') FROM p WHERE kind = 'a' ORDER BY e <-> '[1,0,1]', id LIMIT 5",
				"SELECT id FROM p WHERE id IN (" + long + ") AND length(kind) = 1 ORDER BY e <-> '[1,0,1]', id LIMIT 5",
				"SELECT id FROM p WHERE kind IN ('a', 'b') AND id NOT IN (" + long + ") ORDER BY e <-> (SELECT e FROM p WHERE id IN (" + long + ") ORDER BY id DESC LIMIT 1), id LIMIT 5",
				"SELECT v.id, v.distance, q.kind FROM vector_search(p, e, '[1,0,1]', 7, metric => 'cosine', filter => 'id % 2 = 0') v JOIN p q USING (id) ORDER BY 2, 1",
				"SELECT a.id, b.id FROM vector_search(p, e, '[1,0,1]', 5) a, vector_search(p, e, '[0,1,1]', 5) b WHERE a.kind = b.kind ORDER BY 1, 2",
				"SELECT id FROM hybrid_search(p, body, 'fox', e, '[1,0,1]', 5) ORDER BY score DESC, id",
				"SELECT p.id, s.e FROM p ORDER BY p.e <-> '[1,0,1]', id LIMIT 5",
				"SELECT main.p.id FROM main.p ORDER BY main.p.e <-> '[1,0,1]', main.p.id LIMIT 5",
				"SELECT P.ID FROM P WHERE P.KIND = 'a' ORDER BY P.E <-> '[1,0,1]', P.ID LIMIT 5",
				`SELECT "p"."id" FROM "p" WHERE "p"."id" > 3 ORDER BY "p"."e" <-> '[1,0,1]', "id" LIMIT 5`,
				"SELECT id /* one */ FROM /* FROM k */ p -- WHERE id = 3\n WHERE kind = 'a' AND id % 2 = 1 ORDER BY e <-> '[1,0,1]', id LIMIT 5",
				"SELECT id FROM (p JOIN (SELECT 'a' AS kind) k USING (kind)) ORDER BY e <-> '[1,0,1]', id LIMIT 5",
				"SELECT id FROM p WHERE (SELECT count(*) FROM p q WHERE q.id < p.id) > 800 ORDER BY e <-> '[1,0,1]', id LIMIT 5",
				"SELECT id FROM p WHERE CASE WHEN kind = 'a' THEN id > 100 ELSE id < 50 END ORDER BY e <-> '[1,0,1]', id LIMIT 5",
				"SELECT id FROM p WHERE list_contains([x for x in [1, 2, 300] if x > 1], id) ORDER BY e <-> '[1,0,1]', id LIMIT 5",
				"SELECT id FROM p WHERE s.e < 40 ORDER BY e <-> '[1,0,1]', id LIMIT 5",
				"SELECT id FROM p WHERE p.s.p < 40 ORDER BY e <-> '[1,0,1]', id LIMIT 5",
				"SELECT id FROM p WHERE kind = 'a' ORDER BY e <-> '[1,0,1]', id FETCH FIRST 5 ROWS ONLY",
				"SELECT id FROM p, range(0, 3) r(x) WHERE x = id % 5 ORDER BY e <-> '[1,0,1]', id, x LIMIT 5",
				"SELECT id, x FROM p, unnest([1, 2]) u(x) ORDER BY e <-> '[1,0,1]', id, x LIMIT 5",
				"SELECT id FROM p JOIN (VALUES ('a'), ('b')) k(kind) ON k.kind = p.kind ORDER BY e <-> '[1,0,1]', id LIMIT 5",
				"WITH RECURSIVE n AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT p.id FROM p JOIN n ON n.i = p.id ORDER BY p.e <-> '[1,0,1]' LIMIT 3",
				"WITH RECURSIVE n AS (SELECT 0 AS i, 0 AS k UNION ALL (SELECT p.id, n.k + 1 FROM p, n WHERE p.id > n.i AND n.k < 4 ORDER BY p.e <-> '[1,0,1]', p.id LIMIT 1)) SELECT * FROM n ORDER BY k",
				"SELECT id FROM p WHERE e = (SELECT e FROM p WHERE id = 4) ORDER BY e <-> '[1,0,1]', id LIMIT 5",
				"SELECT * FROM (PIVOT (SELECT id, kind FROM p ORDER BY e <-> '[1,0,1]', id LIMIT 50) ON kind IN ('a', 'b') USING count(*)) ORDER BY ALL",
				"SELECT (SELECT list(id) FROM (SELECT id FROM p ORDER BY e <-> '[1,0,1]', id LIMIT 3)), count(*) FROM p",
				"SELECT id FROM p ORDER BY e <=> '[1,0,1]'::vector(3) ASC NULLS LAST, id ASC LIMIT 5",
				"(SELECT id FROM p ORDER BY e <-> '[1,0,1]', id LIMIT 5) EXCEPT (SELECT id FROM p ORDER BY e <=> '[1,0,1]', id LIMIT 2) ORDER BY 1",
				"SELECT id FROM p WHERE id IN (SELECT id FROM p WHERE id IN (SELECT id FROM p WHERE kind < 'd' ORDER BY e <-> '[1,0,1]', id LIMIT 90) ORDER BY e <-> '[0,0,1]', id LIMIT 50) ORDER BY e <-> '[0,1,0]', id LIMIT 9",
			} {
				want, werr := w.rows(text + " /*+ no_index */")
				got, gerr := w.rows(text + " /*+ index exact */")
				if fmt.Sprint(werr) != fmt.Sprint(gerr) || werr != nil || !slices.Equal(want, got) {
					t.Errorf("%.300s\n  want %.300q, %v\n   got %.300q, %v", text, want, werr, got, gerr)
					continue
				}
				if w.explain(text+" /*+ index exact */") != "" {
					used++
				}
			}
			if t.Logf("%d statements used an index", used); used < 10 {
				t.Errorf("only %d statements used an index", used)
			}
		})
	}
}

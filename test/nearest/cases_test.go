package nearest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/overlakedb/overlake"
)

// Statements that were, or could have been, answered wrongly.
func TestCases(t *testing.T) {
	w := newWorld(t)
	w.do("CREATE TABLE p (id INTEGER, kind VARCHAR, g INTEGER, e vector(3), f vector(3), h halfvec(3), l FLOAT[])")
	w.do("INSERT INTO p SELECT i, CASE WHEN i % 3 = 0 THEN 'a' ELSE 'b' END, i % 7, [sin(i), cos(i*i), i % 11 / 7.0]::FLOAT[]::vector, [cos(i), i % 5, 1]::FLOAT[]::vector, [sin(i), cos(i*i), i % 11 / 7.0]::FLOAT[]::halfvec, [sin(i), cos(i*i), i % 11 / 7.0]::FLOAT[] FROM range(0, 400) r(i)")
	w.do("INSERT INTO p SELECT i, 'c', i % 7, [1, 2, 3]::FLOAT[]::vector, [i - 399, 2*(i-399), 3*(i-399)]::FLOAT[]::vector, [1,2,3]::FLOAT[]::halfvec, [1,2,3]::FLOAT[] FROM range(400, 900) r(i)")
	w.do("CREATE TABLE k (id INTEGER, kind VARCHAR, e vector(3), q vector(3))")
	w.do("INSERT INTO k SELECT i + 200, chr((97 + i % 3)::INT), CASE WHEN i % 2 = 0 THEN [i, 0, 0]::FLOAT[]::vector END, [i, 1, 0]::FLOAT[]::vector FROM range(0, 20) r(i)")
	for _, c := range []string{"e", "f", "h", "l"} {
		for _, m := range []string{"l2", "cosine", "ip", "l1"} {
			w.do(fmt.Sprintf("CREATE INDEX %s_%s ON p USING flat (%s) WITH (metric = '%s')", c, m, c, m))
		}
	}
	w.do("CREATE INDEX ON p (kind)")
	used := 0
	for _, c := range []struct {
		text string
		args []any
	}{
		{"SELECT id FROM (WITH k AS (SELECT q AS e, id FROM main.k WHERE id = 209) SELECT p.id FROM p ORDER BY p.e <-> (SELECT e FROM k LIMIT 1), p.id LIMIT 3)", nil},
		{"WITH k AS (SELECT q AS e, id FROM main.k WHERE id = 209), n AS (SELECT p.id FROM p ORDER BY p.e <-> (SELECT e FROM k LIMIT 1), p.id LIMIT 3) SELECT * FROM n", nil},
		{"WITH k AS (SELECT id + 100 AS id FROM main.k), n AS (SELECT p.id FROM p JOIN k USING (id) ORDER BY p.e <-> '[1,0,0]', p.id LIMIT 3) SELECT * FROM n", nil},
		{"SELECT * FROM (WITH k AS (SELECT id + 100 AS id FROM main.k) SELECT p.id FROM p JOIN k USING (id) ORDER BY p.e <-> '[1,0,0]', p.id LIMIT 3)", nil},
		{"SELECT p.id, k.id FROM p JOIN k ON k.id = p.id WHERE k.e IS NOT NULL AND p.kind < 'd' ORDER BY p.e <-> '[1,0,0]', p.id LIMIT 3", nil},
		{"SELECT p.id FROM p JOIN (SELECT * FROM k) k USING (id) ORDER BY p.e <-> '[1,0,0]', p.id LIMIT 3", nil},
		{"SELECT p.id FROM p WHERE length(COLUMNS('kind')) < 3 ORDER BY p.e <-> '[1,0,0]', p.id LIMIT 3", nil},
		{"SELECT p.id FROM p WHERE EXISTS (SELECT * FROM k WHERE k.id = p.id) ORDER BY p.e <-> '[1,0,0]', p.id LIMIT 3", nil},
		{"SELECT id FROM p WHERE length(p::VARCHAR) < 120 ORDER BY e <-> '[1,0,0]', id LIMIT 3", nil},
		{"SELECT id FROM p WHERE NOT p::VARCHAR LIKE '%12%' ORDER BY e <-> '[1,0,0]', id LIMIT 3", nil},
		{"SELECT id, f AS e FROM p ORDER BY e <-> '[1,0,0]', id LIMIT 3", nil},
		{"SELECT id, f AS e FROM p ORDER BY p.e <-> '[1,0,0]', id LIMIT 3", nil},
		{"SELECT id FROM p ORDER BY e <-> '[1,2,3]', sum(g) OVER (PARTITION BY kind), id LIMIT 3", nil},
		{"SELECT id FROM p ORDER BY e <-> '[1,2,3]', count(*) OVER (PARTITION BY g), id LIMIT 3", nil},
		{"SELECT id FROM p ORDER BY f <=> '[1,2,3]', id DESC LIMIT 3", nil},
		{"SELECT id FROM p ORDER BY f <#> '[2,-1,0]', id DESC LIMIT 5", nil},
		{"SELECT id FROM p ORDER BY e <-> '[1,2,3]', id DESC LIMIT 3", nil},
		{"SELECT id, h <-> '[0.1,0.3,0.7]' FROM p ORDER BY h <-> '[0.1,0.3,0.7]', id LIMIT 30", nil},
		{"SELECT id, h <=> '[0.1,0.3,0.7]' FROM p ORDER BY h <=> '[0.1,0.3,0.7]', id LIMIT 30", nil},
		{"SELECT id, e <-> '[0.1,0.3,0.7]'::halfvec FROM p ORDER BY 2, id LIMIT 30", nil},
		{"SELECT id, halfvec_l2_distance(e, '[0.1,0.3,0.7]') FROM p ORDER BY 2, id LIMIT 30", nil},
		{"SELECT id, vector_l2_distance(h, '[0.1,0.3,0.7]') FROM p ORDER BY 2, id LIMIT 30", nil},
		{"SELECT id, l <-> '[0.1,0.3,0.7]' FROM p ORDER BY 2, id LIMIT 30", nil},
		{"SELECT id, l <-> '[0.1,0.3,0.7]'::halfvec FROM p ORDER BY 2, id LIMIT 30", nil},
		{"SELECT id, e <-> '[1.6,0.3,2.7]'::INTEGER[]::vector FROM p ORDER BY 2, id LIMIT 30", nil},
		{"SELECT id, e <-> [1.6,0.3,2.7]::INTEGER[]::vector FROM p ORDER BY 2, id LIMIT 30", nil},
		{"SELECT id, e <-> '[1.6,0.3,2.7]'::halfvec::vector FROM p ORDER BY 2, id LIMIT 30", nil},
		{"SELECT unnest(range(0, g)) AS u, id FROM p ORDER BY e <-> '[1,0,0]', id, u LIMIT 5", nil},
		{"SELECT * REPLACE (count(*) OVER () AS id) FROM p ORDER BY e <-> '[1,0,0]', g LIMIT 5", nil},
		{"SELECT id FROM p WHERE g < $m ORDER BY e <-> (SELECT q FROM k WHERE id = 204), id LIMIT 3", []any{overlake.Named{Name: "m", Value: 4}}},
		{"SELECT id FROM p WHERE g < ? ORDER BY e <-> (SELECT q FROM k WHERE id = ?), id LIMIT ?", []any{4, 205, 6}},
		{"SELECT id FROM p WHERE g < $2 AND length(kind) = 1 ORDER BY e <-> $1, id LIMIT $3", []any{[]float32{1, 2, 3}, 5, 6}},
		{"SELECT id FROM p WHERE g < $m AND length(kind) = 1 ORDER BY e <-> $q, id LIMIT $n", []any{overlake.Named{Name: "m", Value: 4}, overlake.Named{Name: "q", Value: []float32{0, 1, 1}}, overlake.Named{Name: "n", Value: 4}}},
		{"SELECT k.id, n.id FROM k, LATERAL (SELECT p.id FROM p ORDER BY p.e <-> k.q, p.id LIMIT 2) n ORDER BY 1, 2", nil},
		{"SELECT k.id, n.id FROM k, LATERAL (SELECT p.id FROM p WHERE p.kind = k.kind ORDER BY p.e <-> '[1,0,0]', p.id LIMIT 2) n ORDER BY 1, 2", nil},
		{"SELECT k.id, n.id FROM k, LATERAL (SELECT p.id FROM p ORDER BY p.e <-> (SELECT k.q), p.id LIMIT 2) n ORDER BY 1, 2", nil},
		{"SELECT p.id FROM p JOIN k a ON p.g IS DISTINCT FROM a.id JOIN k b ON b.id = a.id WHERE b.id < 203 ORDER BY p.e <-> '[1,0,0]', p.id LIMIT 3", nil},
		{"SELECT id FROM p WHERE e <-> '[1,0,0]' < 1 ORDER BY e <-> '[1,0,0]', id LIMIT 500", nil},
		{"SELECT id FROM p WHERE kind = 'a' OR e IS NULL ORDER BY e <-> '[1,0,0]', id LIMIT 5", nil},
		{"SELECT DISTINCT ON (g) id, g FROM p ORDER BY e <-> '[1,0,0]', id LIMIT 5", nil},
		{"SELECT id FROM p QUALIFY row_number() OVER (PARTITION BY g ORDER BY id) = 1 ORDER BY e <-> '[1,0,0]', id LIMIT 5", nil},
		{"FROM p SELECT id ORDER BY e <-> '[1,0,0]', id LIMIT 5", nil},
		{"SELECT id, e <-> '[1,0,0]' AS d FROM p ORDER BY ALL LIMIT 5", nil},
		{"SELECT id FROM p ORDER BY e <-> '[1,0,0]', id LIMIT 2 OFFSET 898", nil},
		{"SELECT id FROM p ORDER BY e <-> '[1,0,0]', id LIMIT 2 OFFSET 899", nil},
		{"SELECT id FROM p ORDER BY e <-> '[1,0,0]', id LIMIT 2 OFFSET 5000", nil},
		{"SELECT id FROM p ORDER BY e <-> '[1,0,0]', id LIMIT 100000", nil},
		{"SELECT id FROM p ORDER BY e <-> NULL, id LIMIT 3", nil},
		{"SELECT id FROM p ORDER BY e <-> NULL::vector, id LIMIT 3", nil},
		{"SELECT id FROM p ORDER BY e <-> $1, id LIMIT 3", []any{nil}},
		{"SELECT id FROM p ORDER BY e <-> (SELECT e FROM k WHERE id = 201), id LIMIT 3", nil},
		{"SELECT id FROM p ORDER BY e <-> (SELECT q FROM k WHERE id = 1000), id LIMIT 3", nil},
		{"SELECT id FROM p ORDER BY e <=> '[0,0,0]', id LIMIT 3", nil},
		{"SELECT id FROM p ORDER BY e <-> '[1e30,0,0]', id LIMIT 3", nil},
	} {
		for _, hint := range []string{" /*+ index exact */", " /*+ exact */"} {
			want, werr := w.rows(c.text+" /*+ no_index */", c.args...)
			got, gerr := w.rows(c.text+hint, c.args...)
			if fmt.Sprint(werr) != fmt.Sprint(gerr) || !slices.Equal(want, got) {
				t.Errorf("%s%s\n  want %q, %v\n   got %q, %v", c.text, hint, want[:min(8, len(want))], werr, got[:min(8, len(got))], gerr)
			}
		}
		if _, err := w.rows(c.text, c.args...); err == nil && w.explain(c.text+" /*+ index exact */", c.args...) != "" {
			used++
		}
	}
	if used < 15 {
		t.Errorf("only %d of the statements used an index", used)
	}
}

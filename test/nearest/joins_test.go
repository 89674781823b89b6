package nearest

import (
	"slices"
	"testing"
)

// Which statements with outer joins and outer queries an index answers, and that the answers are those of a scan.
func TestJoinsUseTheIndex(t *testing.T) {
	w := newWorld(t)
	w.do("CREATE TABLE t (id INTEGER, kind VARCHAR, e vector(2))")
	w.do("INSERT INTO t SELECT i, CASE WHEN i % 3 = 0 THEN 'a' ELSE 'b' END, [i, i * 7 % 31]::FLOAT[]::vector FROM range(0, 600) r(i)")
	w.do("CREATE TABLE n (t INTEGER, note VARCHAR)")
	w.do("INSERT INTO n SELECT i * 5, 'note ' || i FROM range(0, 200) r(i)")
	w.do("CREATE TABLE q (id INTEGER, e vector(2))")
	w.do("INSERT INTO q SELECT i, [i * 50, i]::FLOAT[]::vector FROM range(0, 6) r(i)")
	w.do("CREATE INDEX ON t USING flat (e vector_l2_ops)")
	w.do("CREATE INDEX ON t (kind)")
	for _, c := range []struct {
		text string
		used bool
	}{
		{"SELECT t.id, n.note FROM t LEFT JOIN n ON n.t = t.id ORDER BY t.e <-> '[3,4]', t.id LIMIT 5", true},
		{"SELECT t.id, n.note FROM n RIGHT JOIN t ON n.t = t.id ORDER BY t.e <-> '[3,4]', t.id LIMIT 5", true},
		{"SELECT t.id, n.note FROM t FULL JOIN n ON n.t = t.id ORDER BY t.e <-> '[3,4]', t.id LIMIT 5", true},
		{"SELECT t.id, n.note FROM n LEFT JOIN t ON n.t = t.id ORDER BY t.e <-> '[3,4]', t.id LIMIT 5", true},
		{"SELECT t.id, n.note FROM t LEFT JOIN n ON n.t = t.id WHERE n.note IS NULL AND t.kind = 'a' ORDER BY t.e <-> '[3,4]', t.id LIMIT 5", true},
		{"SELECT t.id, n.note FROM t LEFT JOIN n USING (t) ORDER BY t.e <-> '[3,4]', t.id LIMIT 5", false}, // an error
		{"SELECT t.id FROM t ANTI JOIN n ON n.t = t.id ORDER BY t.e <-> '[3,4]', t.id LIMIT 5", true},
		// Fewer rows of t take part than are wanted: what has no partner comes behind them.
		{"SELECT t.id, n.note FROM n LEFT JOIN t ON n.t = t.id AND t.id < 20 ORDER BY t.e <-> '[3,4]', n.t LIMIT 9", false},
		{"SELECT t.id, n.note FROM n FULL JOIN t ON n.t = t.id WHERE n.t > 550 ORDER BY t.e <-> '[3,4]', n.t LIMIT 50", false},
		{"SELECT t.id FROM t POSITIONAL JOIN n ORDER BY t.e <-> '[3,4]', t.id LIMIT 5", false},
		{"SELECT q.id, s.id FROM q, LATERAL (SELECT t.id FROM t ORDER BY t.e <-> q.e, t.id LIMIT 3) s ORDER BY 1, 2", true},
		{"SELECT q.id, s.id FROM q, (SELECT t.id FROM t ORDER BY q.e <-> t.e, t.id LIMIT 3) s ORDER BY 1, 2", true},
		{"SELECT q.id, s.id FROM q LEFT JOIN LATERAL (SELECT t.id FROM t WHERE t.kind = 'a' ORDER BY t.e <-> q.e, t.id LIMIT 3) s ON true WHERE q.id > 2 ORDER BY 1, 2", true},
		{"SELECT q.id, (SELECT t.id FROM t ORDER BY t.e <-> q.e, t.id LIMIT 1) FROM q ORDER BY 1", true},
		{"SELECT q.id FROM q WHERE (SELECT t.id FROM t ORDER BY t.e <-> q.e, t.id LIMIT 1) > 30 ORDER BY 1", true},
		{"SELECT q.id, ARRAY(SELECT t.id FROM t ORDER BY t.e <-> q.e, t.id LIMIT 2)::VARCHAR FROM q ORDER BY 1", false}, // there is a SELECT between,
		{"WITH w AS (SELECT id, e FROM q WHERE id < 4) SELECT w.id, s.id FROM w, LATERAL (SELECT t.id FROM t ORDER BY t.e <-> w.e, t.id LIMIT 3) s ORDER BY 1, 2", true},
		{"SELECT q.id, n.note, s.id FROM q JOIN n ON n.t = q.id * 5, LATERAL (SELECT t.id FROM t ORDER BY t.e <-> q.e, t.id LIMIT 3) s ORDER BY 1, 3", true},
		{"SELECT q.id, s.id, u.id FROM q, LATERAL (SELECT t.id, t.e FROM t ORDER BY t.e <-> q.e, t.id LIMIT 2) s, LATERAL (SELECT t.id FROM t ORDER BY t.e <-> s.e, t.id LIMIT 2) u ORDER BY 1, 2, 3", true},
		{"SELECT q.id, s.id FROM q, LATERAL (SELECT t.id FROM t WHERE t.id % 6 = q.id ORDER BY t.e <-> q.e, t.id LIMIT 3) s ORDER BY 1, 2", false},
		{"SELECT a.id, s.id FROM t a, LATERAL (SELECT t.id FROM t ORDER BY t.e <-> a.e, t.id LIMIT 1) s ORDER BY 1, 2", false}, // too many vectors
		{"SELECT q.id, s.id FROM q, LATERAL (SELECT t.id FROM t ORDER BY t.e <-> q.e, t.id LIMIT 80) s ORDER BY 1, 2", false},  // too large a part
		{"SELECT r.id, s.id FROM (SELECT id, random(), e FROM q) r, LATERAL (SELECT t.id FROM t ORDER BY t.e <-> r.e, t.id LIMIT 2) s ORDER BY 1, 2", false},
	} {
		want, werr := w.rows(c.text + " /*+ no_index */")
		got, gerr := w.rows(c.text)
		if (werr == nil) != (gerr == nil) || !slices.Equal(want, got) {
			t.Errorf("%s:\n%q, %v\nwith an index:\n%q, %v", c.text, want, werr, got, gerr)
		}
		if werr != nil {
			continue
		}
		if used := w.explain(c.text) != ""; used != c.used {
			t.Errorf("%s: an index is used: %v", c.text, used)
		}
	}
}

package lex_test

import (
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/sql/lex"
)

// The word HERE stands for a table of the inner query.
func TestOuterFrom(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT * FROM q, LATERAL (SELECT id FROM HERE ORDER BY e LIMIT 3) s":                                   "FROM q",
		"SELECT * FROM q JOIN w ON (q.a = w.a) LEFT JOIN LATERAL (SELECT id FROM HERE) s ON true WHERE x":       "FROM q JOIN w ON (q.a = w.a)",
		"SELECT * FROM (VALUES (1, '[1]')) q(id, v) CROSS JOIN (SELECT id FROM HERE) s":                         "FROM (VALUES (1, '[1]')) q(id, v)",
		"SELECT q.id, (SELECT id FROM HERE WHERE x LIMIT 1) AS n FROM q JOIN w USING (a) WHERE b ORDER BY 1":    "FROM q JOIN w USING (a)",
		"SELECT coalesce((SELECT id FROM HERE), extract(year FROM d), a IS DISTINCT FROM b) FROM q GROUP BY 1":  "FROM q",
		"SELECT * FROM q WHERE f(q.a, (SELECT id FROM (HERE JOIN x ON true))) > 3":                              "FROM q",
		"SELECT a FROM z UNION SELECT (SELECT id FROM HERE) FROM q UNION SELECT 1 FROM y":                       "FROM q",
		"SELECT * FROM q JOIN w ON q.a < (SELECT id FROM HERE)":                                                 "",
		"SELECT * FROM (SELECT id FROM HERE) s":                                                                 "",
		"SELECT id FROM HERE":                                                                                   "",
		"WITH w AS (SELECT id FROM HERE) SELECT * FROM w":                                                       "",
		"SELECT * FROM q, (WITH w AS (SELECT 1) SELECT id FROM HERE, w) s":                                      "FROM q",
		"SELECT (SELECT id FROM HERE)":                                                                          "",
		"SELECT * FROM q GROUP BY a HAVING (SELECT id FROM HERE) > 0 ORDER BY 1":                                "FROM q",
		"SELECT * FROM a, (SELECT q.x, (SELECT id FROM HERE) FROM q) s":                                         "FROM q",
		"SELECT * FROM a, b, LATERAL (SELECT * FROM q, LATERAL (SELECT id FROM HERE) i) o":                      "FROM q",
		"SELECT * FROM a.q AS q NATURAL FULL OUTER JOIN LATERAL (SELECT id FROM HERE) s":                        "FROM a.q AS q",
		"SELECT (SELECT id FROM HERE LIMIT 1) FROM q WINDOW w AS (ORDER BY a) QUALIFY row_number() OVER w = 1":  "FROM q",
		"SELECT * FROM q WHERE x IN (SELECT y FROM z) AND (SELECT id FROM HERE ORDER BY e <-> q.v LIMIT 1) = 4": "FROM q",
	} {
		tokens, err := lex.Tokens(text)
		if err != nil {
			t.Fatal(err)
		}
		k := -1
		for i, x := range tokens {
			if x.Text == "HERE" {
				k = i
			}
		}
		got := ""
		if lo, hi, ok := lex.OuterFrom(tokens, k); ok {
			got = text[lo:hi]
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
		from, where, end, ok := lex.FromWhere(tokens, k)
		if !ok || !tokens[from].Is("FROM") || where > 0 && !tokens[where].Is("WHERE") || !strings.Contains(text[tokens[from].Start:tokens[end-1].End], "HERE") {
			t.Errorf("%s: FROM and WHERE are words %d, %d and %d, %v", text, from, where, end, ok)
		}
	}
	if _, _, ok := lex.OuterFrom(nil, -1); ok {
		t.Error("no word has an outer FROM")
	}
	if _, _, _, ok := lex.FromWhere(nil, -1); ok {
		t.Error("no word has a FROM")
	}
}

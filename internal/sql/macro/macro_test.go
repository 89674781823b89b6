package macro_test

import (
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/sql/lex"
	"github.com/overlakedb/overlake/internal/sql/macro"
)

// TestExpand: what search functions mean.
func TestExpand(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"SELECT * FROM vector_search(t, e, '[1]', 5)", `SELECT * FROM (SELECT *, "e" <-> ('[1]') AS distance FROM "t" WHERE "e" IS NOT NULL ORDER BY distance LIMIT (5))`},
		{"vector_search('s.t', 'e', $1, k => 5, metric => 'cosine', filter => 'a > 1 -- x')", `(SELECT *, "e" <=> ($1) AS distance FROM "s"."t" WHERE "e" IS NOT NULL AND (a > 1 -- x
) ORDER BY distance LIMIT (5))`},
		{"vector_search(t, e, v, 1, ef_search => 100, probes => 3, rerank => 7, exact => TRUE)",
			`(SELECT *, "e" <-> (v) AS distance FROM "t" WHERE "e" IS NOT NULL AND overlake_effort('ef_search=100 probes=3 rerank=7 exact=true') ORDER BY distance LIMIT (1))`},
		{"bm25_search(t, b, 'x y', 3, k1 => 2)", `(SELECT *, bm25("b", 'x y', k1 => 2) AS score FROM "t" WHERE match("b", 'x y', k1 => 2) ORDER BY score DESC LIMIT (3))`},
		{"bm25_search(t, b, 'x y', 3, slop => 1, syntax => 'phrase')",
			`(SELECT *, bm25("b", 'x y', syntax => 'phrase', slop => 1) AS score FROM "t" WHERE match("b", 'x y', syntax => 'phrase', slop => 1) ORDER BY score DESC LIMIT (3))`},
		{"analyze('english', text => $1)", `(SELECT unnest(from_json(overlake_analyze('english', $1), '[{"term":"VARCHAR","position":"BIGINT","position_length":"BIGINT","start":"BIGINT","end":"BIGINT"}]'), recursive := true))`},
		{"hybrid_search(t, b, 'x', e, v, 3, rrf_k => 7)",
			`(SELECT * FROM (SELECT *, rrf("e" <-> (v), bm25("b", 'x'), k => 7) AS score FROM "t" WHERE true) WHERE score > 0 ORDER BY score DESC LIMIT (3))`},
		{"rrf(e <-> v, k => 1)", "(CASE WHEN (e <-> v) IS NOT NULL AND rank() OVER (ORDER BY e <-> v) <= 1000 THEN 1.0::DOUBLE / (1 + rank() OVER (ORDER BY e <-> v)) ELSE 0 END)"},
		{"SELECT t.rrf(1), 'rrf(1)'", ""},
	} {
		tokens, err := lex.Tokens(c.in)
		if err != nil {
			t.Fatal(err)
		}
		edit, found, err := macro.Expand(c.in, tokens)
		if err != nil || found != (c.want != "") {
			t.Errorf("%s: found %v, %v", c.in, found, err)
			continue
		}
		if found {
			if got := lex.Splice(c.in, []lex.Edit{edit}); got != c.want {
				t.Errorf("%s becomes\n%s, want\n%s", c.in, got, c.want)
			}
		}
	}
	for in, want := range map[string]string{
		"vector_search(t, e, v)":                          "needs k",
		"vector_search(t, e, v, 1, 2)":                    "takes 4 arguments",
		"vector_search(t, e, v, 1, depth => 2)":           "no argument depth",
		"vector_search(t, e, v, 1, metric => 'x')":        "unknown metric",
		"vector_search(t, e, v, 1, filter => 'a) OR (b')": "no single condition",
		"vector_search(t, e, v, 1, ef_search => 0)":       "a number from 1",
		"vector_search(t, 1 + 1, v, 1)":                   "must be a name",
		"analyze('english')":                              "needs text",
		"rrf()":                                           "rrf needs ranks",
		"rrf(a)":                                          "neither a distance nor a bm25 score",
	} {
		tokens, err := lex.Tokens(in)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := macro.Expand(in, tokens); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
}

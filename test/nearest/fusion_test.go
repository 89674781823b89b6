package nearest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Rankings that are fused give the same scores whether an index names the first rows of the vectors or all are ranked.
func TestFusions(t *testing.T) {
	seed := uint64(20260411)
	if s, err := strconv.ParseUint(os.Getenv("OVERLAKE_SEED"), 10, 64); err == nil {
		seed = s
	}
	rng := rand.New(rand.NewPCG(seed, 11))
	w := newWorld(t)
	g := &gen{world: w, rng: rng, table: "doc", dim: 3}
	words := []string{"red", "green", "blue", "fox", "dog", "over", "lazy", "quick"}
	w.do("CREATE TABLE doc (id INTEGER, n INTEGER, body VARCHAR, e vector(3), f vector(3))")
	fill := func(rows int) {
		var list []string
		for range rows {
			var text []string
			for range 1 + rng.IntN(6) {
				text = append(text, pick(rng, words...))
			}
			vector := func() string {
				if rng.IntN(12) == 0 {
					return "NULL"
				}
				return "'" + g.half(3) + "'"
			}
			list = append(list, fmt.Sprintf("(%d, %d, '%s', %s, %s)", g.last, rng.IntN(10), strings.Join(text, " "), vector(), vector()))
			g.last++
		}
		w.do("INSERT INTO doc VALUES " + strings.Join(list, ", "))
	}
	fill(300)
	fill(200)
	for _, m := range []string{"l2", "ip", "l1"} {
		w.do(fmt.Sprintf("CREATE INDEX ON doc USING %s (e) WITH (metric = '%s')", pick(rng, "flat", "hnsw", "ivf"), m))
	}
	w.do("CREATE INDEX ON doc USING flat (f vector_l2_ops)")
	w.do("CREATE INDEX ON doc (n)")
	fill(40) // of no index
	g.remove(8)
	used := 0
	for range 60 {
		distance := func() string {
			return pick(rng, "e <-> '"+g.half(3)+"'", "e <#> '"+g.half(3)+"'", "l1_distance(e, '"+g.half(3)+"')", "f <-> '"+g.half(3)+"'", fmt.Sprintf("e <-> (SELECT e FROM doc WHERE id = %d)", rng.IntN(g.last)))
		}
		text := "bm25(body, '" + pick(rng, words...) + " " + pick(rng, words...) + "')"
		depth := strconv.Itoa(pick(rng, 1, 5, 20, 60))
		where := pick(rng, "", "", " WHERE n < 6", " WHERE n < 6 AND id % 2 = 0", " WHERE length(body) > 9")
		limit := pick(rng, 1, 5, 20, 200)
		statement := ""
		switch rng.IntN(5) {
		case 0:
			statement = fmt.Sprintf("SELECT id, rrf(%s, %s, depth => %s) AS s FROM doc%s ORDER BY s DESC, id LIMIT %d", distance(), text, depth, where, limit)
		case 1:
			statement = fmt.Sprintf("SELECT id, rrf(%s, %s, k => 3, depth => %s) AS s, n FROM doc%s ORDER BY 2 DESC, n, id LIMIT %d", distance(), distance(), depth, where, limit)
		case 2:
			statement = fmt.Sprintf("SELECT * FROM (SELECT id, rrf(%s, %s, %s, depth => %s) AS s FROM doc%s) WHERE s > 0 ORDER BY s DESC, id", text, distance(), distance(), depth, where)
		case 3:
			filter := ""
			if where != "" {
				filter = ", filter => '" + strings.TrimPrefix(where, " WHERE ") + "'"
			}
			statement = fmt.Sprintf("SELECT id, score FROM hybrid_search('doc', 'body', '%s', 'e', '%s', 1000, depth => %s%s) ORDER BY score, id", pick(rng, words...), g.half(3), depth, filter)
		case 4: // all rows are wanted, or their number
			statement = pick(rng, fmt.Sprintf("SELECT id, rrf(%s, depth => %s) AS s FROM doc%s ORDER BY s, id LIMIT %d", distance(), depth, where, limit),
				fmt.Sprintf("SELECT count(*), sum(s) FROM (SELECT rrf(%s, depth => %s) AS s FROM doc%s) WHERE s >= 0", distance(), depth, where),
				fmt.Sprintf("SELECT id, count(*) OVER () AS c, rrf(%s, depth => %s) AS s FROM doc%s ORDER BY s DESC, id LIMIT %d", distance(), depth, where, limit))
		}
		want, werr := w.rows(statement + " /*+ no_index */")
		got, gerr := w.rows(statement + " /*+ index exact */")
		if werr != nil || gerr != nil {
			t.Fatalf("seed %d: %s: %v, %v", seed, statement, werr, gerr)
		}
		if !slices.Equal(want, got) {
			t.Fatalf("seed %d: %s\n%d rows without an index, %d with:\n%.900q\n%.900q\n%s", seed, statement, len(want), len(got), want, got, w.explain(statement+" /*+ index exact */"))
		}
		if strings.Contains(w.explain(statement+" /*+ index exact */"), "of a fusion") {
			used++
			if strings.Contains(statement, "OVER ()") || strings.Contains(statement, "ORDER BY s, id LIMIT") || strings.Contains(statement, "s >= 0") {
				t.Errorf("%s: rows of score 0 are wanted", statement)
			}
		}
	}
	if t.Logf("seed %d: %d of 60 by an index", seed, used); used < 20 {
		t.Errorf("only %d of 60 statements used an index", used)
	}
	if e := w.explain("SELECT * FROM vector_search('doc', 'e', '[1,2,3]', 3)"); e == "" {
		t.Error("vector_search uses no index")
	}
}

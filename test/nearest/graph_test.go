package nearest

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// clustered fills a table with rows in clusters, in files of the given numbers of rows.
func clustered(w *world, table string, dim int, files ...int) {
	rng := rand.New(rand.NewPCG(11, 11))
	centers := make([][]float64, 40)
	for i := range centers {
		for range dim {
			centers[i] = append(centers[i], rng.NormFloat64()*2)
		}
	}
	id := 0
	for _, rows := range files {
		var b strings.Builder
		b.WriteString("INSERT INTO " + table + " VALUES ")
		for i := range rows {
			if i > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, "(%d, %d, '%s')", id, rng.IntN(100), point(rng, centers))
			id++
		}
		w.do(b.String())
	}
}

func point(rng *rand.Rand, centers [][]float64) string {
	var b strings.Builder
	for i, c := range centers[rng.IntN(len(centers))] {
		b.WriteString(string("[,"[min(i, 1)]) + strconv.FormatFloat(c+rng.NormFloat64(), 'f', 4, 64))
	}
	return b.String() + "]"
}

// Graphs and lists find most of the nearest rows, whatever is deleted, filtered and not in the index, and as many rows as are
// wanted whenever there are so many.
func TestMostAreFound(t *testing.T) {
	for name, kinds := range map[string][]indexed{
		"graphs": {{"hnsw", "l2"}, {"hnsw_tq8", "cosine"}, {"hnsw_tq4", "ip"}, {"hnsw", "l1"}},
		"lists":  {{"ivf", "l2"}, {"ivf_tq4", "cosine"}, {"ivf_tq8", "ip"}, {"ivfflat", "l1"}},
		"others": {{"bq", "l2"}, {"ivf_pq", "cosine"}, {"hnsw_pq", "ip"}, {"flat", "l1"}},
	} {
		t.Run(name, func(t *testing.T) { mostAreFound(t, kinds, name == "graphs") })
	}
}

type indexed struct{ kind, metric string }

func mostAreFound(t *testing.T, kinds []indexed, graphs bool) {
	w := newWorld(t)
	const dim = 16
	w.do(fmt.Sprintf("CREATE TABLE g (id INTEGER, share INTEGER, e vector(%d))", dim))
	clustered(w, "g", dim, 3000, 2000)
	for _, x := range kinds {
		w.do(fmt.Sprintf("CREATE INDEX g_%s_%s ON g USING %s (e) WITH (metric = '%s')", x.kind, x.metric, x.kind, x.metric))
	}
	g := &gen{world: w, rng: rand.New(rand.NewPCG(5, 5)), table: "g"}
	g.remove(6)
	clustered(w, "g", dim, 100)
	rng := rand.New(rand.NewPCG(12, 12))
	centers := [][]float64{make([]float64, dim), make([]float64, dim)}
	found, wanted, walked, asked := map[string]int{}, map[string]int{}, 0, 0
	for i := range 72 {
		op := []string{"<->", "<=>", "<#>", "<+>"}[i%4]
		k := []int{1, 10, 10, 50, 300}[rng.IntN(5)]
		where := []string{"", " WHERE share < 60", " WHERE share < 30", " WHERE share < 10 AND id % 2 = 0", " WHERE share = 7", " WHERE id < 20"}[i/4%6]
		q := "'" + point(rng, centers) + "'"
		if i%5 == 0 {
			q = fmt.Sprintf("(SELECT e FROM g WHERE id = (SELECT min(id) FROM g WHERE id > %d))", rng.IntN(4000))
		}
		text := fmt.Sprintf("SELECT e %s %s AS d FROM g%s ORDER BY 1 LIMIT %d", op, q, where, k)
		want, err := w.rows(text + " /*+ no_index */")
		if err != nil {
			t.Fatal(err)
		}
		got, err := w.rows(text + " /*+ index */")
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d rows by an index, %d by a scan", text, len(got), len(want))
			continue
		}
		last, _ := strconv.ParseFloat(want[len(want)-1], 64)
		for _, d := range got {
			if f, _ := strconv.ParseFloat(d, 64); f <= last {
				found[op]++
			}
		}
		wanted[op] += len(want)
		asked++
		if e := w.explain(text + " /*+ index */"); strings.Contains(e, "graph") || strings.Contains(e, "two") || strings.Contains(e, "several") {
			walked++
		} else if e == "" {
			t.Errorf("no index: %s", text)
		}
		if slowly, err := w.rows(text + " /*+ index exact */"); err != nil || strings.Join(slowly, " ") != strings.Join(want, " ") {
			t.Errorf("%s, exact: %q, %v, want %q", text, slowly, err, want)
		}
	}
	for op := range found {
		if recall := float64(found[op]) / float64(wanted[op]); recall < 0.9 {
			t.Errorf("%s: %.3f of the nearest were found", op, recall)
		} else {
			t.Logf("%s: %.4f of the nearest were found", op, recall)
		}
	}
	if t.Logf("%d of %d searches walked a graph", walked, asked); graphs && walked < 5 {
		t.Errorf("only %d of %d searches walked a graph", walked, asked)
	}
}

var counted = regexp.MustCompile(`(\d+) candidates, (\d+) distances(?: of which (\d+) in full)?`)

// work gives the distances that EXPLAIN counts.
func (w *world) work(text string, args ...any) (candidates, distances, full int) {
	w.Helper()
	m := counted.FindStringSubmatch(w.explain(text, args...))
	if m == nil {
		w.Fatalf("%s: no index: %s", text, w.explain(text, args...))
	}
	candidates, _ = strconv.Atoi(m[1])
	distances, _ = strconv.Atoi(m[2])
	full, _ = strconv.Atoi(m[3])
	return candidates, distances, full
}

// Every way to say how much a search does changes what it does, and the last one said in the order argument, hint, setting,
// index counts.
func TestEffort(t *testing.T) {
	w := newWorld(t)
	const dim = 16
	w.do(fmt.Sprintf("CREATE TABLE g (id INTEGER, share INTEGER, e vector(%d))", dim))
	clustered(w, "g", dim, 6000)
	w.do("CREATE INDEX tq ON g USING hnsw_tq8 (e vector_l2_ops) WITH (m = 8, ef_construction = 64)")
	q := "'" + point(rand.New(rand.NewPCG(1, 2)), [][]float64{make([]float64, dim)}) + "'"
	text := "SELECT id FROM g ORDER BY e <-> " + q + " LIMIT 10"
	search := "SELECT id FROM vector_search(g, e, " + q + ", 10%s)"
	distances := func(text string) int {
		t.Helper()
		_, d, _ := w.work(text)
		return d
	}
	full := func(text string) int {
		t.Helper()
		_, _, f := w.work(text)
		return f
	}
	plain := distances(text)
	more := func(what string, d, than int) {
		t.Helper()
		if d <= than {
			t.Errorf("%s: %d distances, not more than %d", what, d, than)
		}
	}
	same := func(what string, d, as int) {
		t.Helper()
		if d != as {
			t.Errorf("%s: %d, want %d", what, d, as)
		}
	}
	wide := distances(text + " /*+ ef_search(1000) */")
	more("hint ef_search", wide, plain)
	same("INDEX_HINT", distances(text+" /*+ INDEX_HINT(ef_search=1000, probes=20) */"), wide)
	same("hint before", distances("/*+ ef_search(1000) */ "+text), wide)
	same("two hints", distances("/*+ index(tq) */ "+text+" /*+ ef_search(1000) */"), wide)
	same("argument", distances(fmt.Sprintf(search, ", ef_search => 1000")), wide)
	same("no argument", distances(fmt.Sprintf(search, "")), plain)
	w.do("SET hnsw.ef_search = 1000")
	same("setting", distances(text), wide)
	narrow := distances(text + " /*+ ef_search(40) */")
	more("a hint over a setting", wide, narrow)
	same("an argument over a setting", distances(fmt.Sprintf(search, ", ef_search => 40")), narrow)
	same("an argument over a hint", distances(fmt.Sprintf(search, ", ef_search => 40")+" /*+ ef_search(500) */"), narrow)
	w.do("RESET hnsw.ef_search")
	same("reset", distances(text), plain)
	few := full(text + " /*+ rerank(20) */")
	many := full(text + " /*+ rerank(200) ef_search(300) */")
	if few >= many || many != 200 {
		t.Errorf("rerank 20 compares %d in full, 200 compares %d", few, many)
	}
	w.do("SET vector.rerank = 200")
	same("setting rerank", full(text+" /*+ ef_search(300) */"), many)
	w.do("RESET vector.rerank")
	same("argument rerank", full(fmt.Sprintf(search, ", rerank => 200, ef_search => 300")), many)
	w.do("SET vector.exact = 'on'")
	same("exact", distances(text), 6000)
	more("a hint over the setting exact", 6000, distances(text+" /*+ INDEX_HINT(exact=off) */"))
	w.do("RESET vector.exact")
	same("hint exact", distances(text+" /*+ exact */"), 6000)
	same("argument exact", distances(fmt.Sprintf(search, ", exact => true")), 6000)
	// The index itself.
	before, err := w.rows("SELECT bundle, blob_offset FROM overlake.artifacts")
	if err != nil {
		t.Fatal(err)
	}
	artifacts := func(what string, kept bool) {
		t.Helper()
		after, err := w.rows("SELECT bundle, blob_offset FROM overlake.artifacts WHERE index_name = 'tq'")
		if err != nil || len(after) != 1 || (after[0] == before[0]) != kept {
			t.Errorf("%s: %v, %v; before %v", what, after, err, before)
		}
	}
	w.do("ALTER INDEX tq SET (ef_search = 1000)")
	artifacts("SET ef_search", true)
	same("ef_search of the index", distances(text), wide)
	same("a hint over the index", distances(text+" /*+ ef_search(40) */"), narrow)
	sparse := distances(text + " /*+ ef_search(60) */")
	w.do("ALTER INDEX tq SET (m = 24)")
	artifacts("SET m", false)
	more("m of the index", distances(text+" /*+ ef_search(60) */"), sparse)
	for _, c := range []struct{ text, want string }{
		{"SELECT 1 /*+ ef_search(0) */ FROM g WHERE id = 1", `line 1, column 10: ef_search is a number from 1 to 100000, not 0`},
		{text + " /*+ INDEX_HINT(ef_search=x) */", `ef_search is a number from 1 to 100000, not x`},
		{text + " /*+ INDEX_HINT(ef=3) */", `there is no such effort`},
		{text + " /*+ INDEX_HINT(ef_search) */", `INDEX_HINT takes name = value, not "ef_search"`},
		{text + " /*+ exactly */", `there is no hint "exactly"`},
		{text + " /*+ ef_search(100 */", `never closed`},
		{"SET hnsw.ef_search = 0", `ef_search`},
		{"SET hnsw.ef_search = 'many'", `ef_search`},
		{"SET ivfflat.probes = -1", `probes`},
		{"SET vector.rerank = 1e9", `rerank`},
		{"SET vector.exact = 'perhaps'", `exact`},
		{"SET hnsw.ef_serch = 3", `hnsw.ef_serch`},
		{fmt.Sprintf(search, ", ef_search => 0"), `line 1, column 16: vector_search: ef_search is a number from 1 to 100000, not 0`},
		{fmt.Sprintf(search, ", exact => 3"), `line 1, column 16`},
		{fmt.Sprintf(search, ", ef_serch => 3"), `line 1, column 16: vector_search has no argument ef_serch`},
	} {
		if _, err := w.rows(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.text, err, c.want)
		}
	}
}

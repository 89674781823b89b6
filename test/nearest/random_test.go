package nearest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/overlakedb/overlake"
	"github.com/overlakedb/overlake/internal/testenv"
)

// shape is a table that indexes of vectors meet.
type shape struct {
	name string
	dim  int
	make func(g *gen)
	from []string // how FROM may name it; %t is the table
}

// gen makes tables and statements.
type gen struct {
	*world
	rng     *rand.Rand
	table   string
	dim     int
	columns []string // of vectors
	last    int      // id
	args    []any
	named   bool
}

func pick[T any](rng *rand.Rand, list ...T) T { return list[rng.IntN(len(list))] }

// vector writes a vector: of a small grid, so that many are equally far, some as multiples of others, or of any numbers.
func (g *gen) vector(dim int, odd bool) string {
	out := make([]string, dim)
	kind := g.rng.IntN(12)
	scale := pick(g.rng, 1, 2, 3, 0.5, 7)
	for i := range out {
		v := 0.0
		switch {
		case kind < 4:
			v = float64(g.rng.IntN(4) - 1)
		case kind < 6:
			v = float64(i%3+1) * scale
		case kind < 10:
			v = g.rng.NormFloat64()
		case kind == 10 && odd:
			v = g.rng.NormFloat64() * pick(g.rng, 1e30, 1e-21, 1e17, 1e-3, 1e4)
		}
		out[i] = strconv.FormatFloat(v, 'g', 6, 32)
	}
	return "[" + strings.Join(out, ",") + "]"
}

// half is a vector that fits into halfvec.
func (g *gen) half(dim int) string {
	for {
		if v := g.vector(dim, false); !strings.Contains(v, "e+") {
			return v
		}
	}
}

// insert adds a data file.
func (g *gen) insert(rows int, columns ...string) {
	var b strings.Builder
	fmt.Fprintf(&b, "INSERT INTO %s (id, kind, n, x, %s) VALUES ", g.table, strings.Join(columns, ", "))
	for i := range rows {
		if i > 0 {
			b.WriteString(", ")
		}
		kind := pick(g.rng, "'a'", "'b'", "'c'", "'a'", "NULL", "'dd'")
		fmt.Fprintf(&b, "(%d, %s, %d, %d", g.last, kind, g.rng.IntN(20), g.rng.IntN(50))
		for _, c := range columns {
			switch v := "'" + g.vector(g.dim, true) + "'"; {
			case g.rng.IntN(15) == 0:
				b.WriteString(", NULL")
			case c == "h":
				b.WriteString(", '" + g.half(g.dim) + "'")
			case c == "l":
				b.WriteString(", '" + g.half(g.dim) + "'::FLOAT[]")
			default:
				b.WriteString(", " + v)
			}
		}
		b.WriteString(")")
		g.last++
	}
	g.do(b.String())
}

// index gives columns indexes of several kinds by all metrics, and some of the others too.
func (g *gen) index(columns ...string) {
	for _, c := range columns {
		for i, m := range []string{"l2", "cosine", "ip", "l1"} {
			kinds := []string{"flat", "hnsw", "ivfflat"}
			if m != "l1" {
				kinds = append(kinds, "hnsw_tq8", "hnsw_tq4", "hnsw_pq", "ivf", "ivf_tq8", "ivf_tq4", "ivf_pq", "bq")
			}
			for range 1 + g.rng.IntN(2) {
				name := fmt.Sprintf("%s_%s_%s_%d_%d", g.table, c, m, i, g.rng.IntN(1000))
				g.do(fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s ON %s USING %s (%s) WITH (async, metric = '%s')", name, g.table, pick(g.rng, kinds...), c, m))
			}
		}
	}
	if g.rng.IntN(4) > 0 {
		g.do(fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s_kind ON %s (kind) WITH (async)", g.table, g.table))
		g.do(fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s_n ON %s USING %s (n) WITH (async)", g.table, g.table, pick(g.rng, "bitmap", "bloom")))
	}
	g.build()
}

func (g *gen) handle() *overlake.Table {
	t, err := g.db.Table(g.Context(), g.table)
	if err != nil {
		g.Fatal(err)
	}
	return t
}

func (g *gen) build() {
	if err := g.handle().BuildIndexes(g.Context(), nil, false, nil); err != nil {
		g.Fatal(err)
	}
}

// remove deletes about one row of n of each file.
func (g *gen) remove(n int) {
	files, err := g.handle().Files(g.Context())
	if err != nil {
		g.Fatal(err)
	}
	gone := map[string][]int64{}
	for _, f := range files {
		for pos := range f.Rows {
			if g.rng.IntN(n) == 0 {
				gone[f.Path] = append(gone[f.Path], pos)
			}
		}
	}
	if err := g.handle().Delete(g.Context(), gone); err != nil {
		g.Fatal(err)
	}
}

// snapshot is the id of the newest one.
func (g *gen) snapshot() int64 {
	all, err := g.handle().Snapshots(g.Context())
	if err != nil {
		g.Fatal(err)
	}
	return all[len(all)-1].ID
}

func (g *gen) create(types map[string]string, tail string) {
	text := fmt.Sprintf("CREATE TABLE %s (id INTEGER, kind VARCHAR, n INTEGER, x INTEGER", g.table)
	for _, c := range g.columns {
		text += ", " + c + " " + types[c]
	}
	g.do(text + ") " + tail)
}

var shapes = []shape{
	{name: "an artifact a file, deletes, files without", dim: 3, make: func(g *gen) {
		g.columns = []string{"e", "h"}
		g.create(map[string]string{"e": "vector(3)", "h": "halfvec(3)"}, "")
		g.insert(80, "e", "h")
		g.index("e", "h")
		g.insert(60, "e", "h")
		g.build()
		g.remove(5)
		g.insert(30, "e")
		g.insert(30, "h")
	}},
	{name: "shared artifacts, version 3", dim: 5, make: func(g *gen) {
		g.columns = []string{"e"}
		g.create(map[string]string{"e": "vector(5)"}, `WITH ("format-version" = '3')`)
		for range 6 {
			g.insert(1+g.rng.IntN(60), "e")
		}
		g.index("e")
		for range 4 {
			g.insert(1+g.rng.IntN(40), "e")
		}
		g.build()
		g.remove(4)
		g.remove(9)
	}},
	{name: "a schema that changed", dim: 3, make: func(g *gen) {
		g.columns = []string{"e", "f"}
		g.create(map[string]string{"e": "vector(3)", "f": "vector(3)"}, "")
		g.insert(80, "e", "f")
		g.index("e", "f")
		g.do("ALTER TABLE " + g.table + " DROP COLUMN e")
		g.do("ALTER TABLE " + g.table + " RENAME COLUMN f TO e")
		g.do("ALTER TABLE " + g.table + " ADD COLUMN f vector(3)")
		g.insert(50, "e", "f")
		g.index("f")
		g.insert(40, "e", "f")
	}},
	{name: "an older version", dim: 2, from: []string{"%t AT (VERSION => %v)"}, make: func(g *gen) {
		g.columns = []string{"e"}
		g.create(map[string]string{"e": "vector(2)"}, "")
		g.insert(90, "e")
		g.index("e")
		g.insert(40, "e")
		g.remove(4)
	}},
	{name: "partitions, lists without a number of dimensions", dim: 4, make: func(g *gen) {
		g.columns = []string{"e", "l"}
		g.create(map[string]string{"e": "vector", "l": "FLOAT[]"}, "PARTITIONED BY ("+pick(g.rng, "kind", "bucket(3, n)", "truncate(1, kind), n")+")")
		g.insert(60, "e", "l")
		g.insert(60, "e", "l")
		g.index("e", "l")
		g.insert(30, "e", "l")
	}},
	{name: "more rows than a flat index has", dim: 6, make: func(g *gen) {
		g.columns = []string{"e"}
		g.create(map[string]string{"e": "vector(6)"}, "")
		for range 3 {
			g.insert(700, "e")
		}
		g.index("e")
		g.remove(10)
		g.insert(50, "e")
	}},
}

// query writes the vector to search for, in one of the ways to say it.
func (g *gen) query() string {
	v := g.vector(g.dim, g.rng.IntN(30) == 0)
	if g.rng.IntN(4) == 0 { // one that is there
		if g.named {
			g.args = append(g.args, overlake.Named{Name: fmt.Sprintf("p%d", len(g.args)), Value: g.rng.IntN(g.last)})
			return fmt.Sprintf("(SELECT %s FROM %s WHERE id = $p%d)", g.columns[0], g.table, len(g.args)-1)
		}
		if len(g.args) > 0 {
			g.args = append(g.args, g.rng.IntN(g.last))
			return fmt.Sprintf("(SELECT %s FROM %s WHERE id = $%d)", g.columns[0], g.table, len(g.args))
		}
		return fmt.Sprintf("(SELECT %s FROM %s WHERE id = %d)", g.columns[0], g.table, g.rng.IntN(g.last))
	}
	param := func() string {
		if g.named {
			name := fmt.Sprintf("p%d", len(g.args))
			g.args = append(g.args, overlake.Named{Name: name, Value: v})
			return "$" + name
		}
		g.args = append(g.args, v)
		return fmt.Sprintf("$%d", len(g.args))
	}
	switch g.rng.IntN(16) {
	case 0:
		return "'" + v + "'::vector"
	case 1:
		return fmt.Sprintf("CAST('%s' AS vector(%d))", v, g.dim)
	case 2:
		return v + "::FLOAT[]::vector"
	case 3:
		return v + "::DOUBLE[]::vector"
	case 4:
		return "'" + g.half(g.dim) + "'::halfvec"
	case 5, 6:
		return param()
	case 7:
		return param() + "::vector"
	case 8:
		return "l2_normalize('" + g.half(g.dim) + "'::vector)"
	case 9:
		return fmt.Sprintf("(SELECT avg(%s) FROM %s WHERE kind = 'a' AND l2_norm(%s::vector) < 100)", "c.v", "(SELECT '"+g.half(g.dim)+"'::vector AS v, 'a' AS kind UNION ALL SELECT '"+g.half(g.dim)+"'::vector, 'a') AS c", "c.v")
	case 10:
		return "('" + g.half(g.dim) + "'::vector + '" + g.half(g.dim) + "'::vector)"
	}
	return "'" + v + "'"
}

// distance writes a distance of a column.
func (g *gen) distance(column string) string {
	q := g.query()
	a, b := column, q
	if g.rng.IntN(5) == 0 {
		a, b = b, a
	}
	switch g.rng.IntN(12) {
	case 0:
		return "l2_distance(" + a + ", " + b + ")"
	case 1:
		return "cosine_distance(" + a + ", " + b + ")"
	case 2:
		return "l1_distance(" + a + ", " + b + ")"
	}
	return a + pick(g.rng, " <-> ", " <#> ", " <=> ", " <+> ") + b
}

// where writes a condition of a table named t, or nothing.
func (g *gen) where(t string, depth int) string {
	if depth > 0 {
		switch g.rng.IntN(6) {
		case 0, 1:
			return g.where(t, depth-1) + " AND " + g.where(t, depth-1)
		case 2:
			return "(" + g.where(t, depth-1) + " OR " + g.where(t, depth-1) + ")"
		case 3:
			return "NOT (" + g.where(t, depth-1) + ")"
		}
	}
	c := t + "." + pick(g.rng, g.columns...)
	n := g.rng.IntN(20)
	switch g.rng.IntN(18) {
	case 0:
		return t + ".kind = '" + pick(g.rng, "a", "b", "dd") + "'"
	case 1:
		return fmt.Sprintf("%s.n < %d", t, n)
	case 2:
		return fmt.Sprintf("%s.n IN (%d, %d, %d)", t, n, n/2, n+1)
	case 3:
		return fmt.Sprintf("%s.x %% 3 = %d", t, n%3)
	case 4, 5:
		return c + " IS NOT NULL"
	case 6:
		return fmt.Sprintf("%s.id IN (SELECT k.id FROM keys k WHERE k.id %% 7 < %d)", t, 1+n%6)
	case 7:
		return fmt.Sprintf("EXISTS (SELECT * FROM keys k WHERE k.id = %s.id AND k.w > %d)", t, n)
	case 8:
		return fmt.Sprintf("%s.n BETWEEN %d AND %d", t, n/3, n)
	case 9:
		return t + ".kind LIKE 'd%'"
	case 10:
		return t + ".kind IS " + pick(g.rng, "", "NOT ") + "NULL"
	case 11:
		return fmt.Sprintf("%s <-> '%s' < %d", c, g.half(g.dim), 1+n%6)
	case 12:
		if g.named {
			g.args = append(g.args, overlake.Named{Name: fmt.Sprintf("p%d", len(g.args)), Value: n})
			return fmt.Sprintf("%s.n >= $p%d", t, len(g.args)-1)
		}
		g.args = append(g.args, n)
		return fmt.Sprintf("%s.n >= $%d", t, len(g.args))
	case 13:
		return fmt.Sprintf("length(%s.kind) = 1", t)
	case 14:
		return fmt.Sprintf("%s.id = %d", t, g.rng.IntN(g.last))
	case 15:
		return fmt.Sprintf("(%s.kind, %s.n) IN (('a', %d), ('b', %d))", t, t, n, n/2)
	case 16:
		return fmt.Sprintf("%s.id %% 2 = 0", t)
	}
	return fmt.Sprintf("%s.x > %d", t, n*2)
}

// form is a SELECT that the answers of are compared.
type form struct {
	text string
	args []any
}

func (g *gen) form(from string) form {
	g.args, g.named = nil, g.rng.IntN(3) == 0
	t := "t"
	column := pick(g.rng, g.columns...)
	d := g.distance(t + "." + column)
	if from == "" {
		from = g.table
	}
	from += " AS t"
	if i := strings.Index(from, " AT ("); i >= 0 {
		from = strings.TrimSuffix(from, " AS t")
		from = from[:i] + " AS t" + from[i:]
	}
	where := ""
	if g.rng.IntN(3) > 0 {
		where = " WHERE " + g.where(t, g.rng.IntN(3))
	}
	limit := pick(g.rng, 1, 2, 3, 3, 5, 5, 10, 10, 20, 50, 200)
	tail := fmt.Sprintf(" LIMIT %d", limit)
	switch g.rng.IntN(8) {
	case 0:
		tail += fmt.Sprintf(" OFFSET %d", g.rng.IntN(2*limit))
	case 1:
		if !g.named {
			g.args = append(g.args, limit)
			tail = fmt.Sprintf(" LIMIT $%d", len(g.args))
		}
	}
	then := ", t.id"
	switch g.rng.IntN(6) {
	case 0:
		then = ", t.id DESC"
	case 1:
		then = ", t.kind, t.n DESC, t.id"
	case 2:
		then = ", -t.id"
	}
	by := d
	items := "t.id, t.kind, " + d + " AS d"
	switch g.rng.IntN(8) {
	case 0:
		items, by = "t.id, "+d+" AS d, t.n", "d"
	case 1:
		items, by = "t.id, "+d+" AS d", "2"
	case 2:
		items = "t.*"
	case 3:
		items = "* EXCLUDE (n)"
	case 4:
		items = "upper(t.kind), t.id + 1, CASE WHEN t.n > 3 THEN t.x END, t.id"
	case 5:
		items = "t.id, (SELECT count(*) FROM keys k WHERE k.id = t.id)"
	}
	join, before := "", ""
	switch g.rng.IntN(20) {
	case 0:
		join = " JOIN keys k ON k.id = t.id"
	case 1:
		join = ", keys k"
		if where == "" {
			where = " WHERE k.id = t.id"
		} else {
			where += " AND k.id = t.id"
		}
	case 2:
		join = " LEFT JOIN keys k ON k.id = t.id"
	case 3:
		join = fmt.Sprintf(" JOIN %s u ON u.id = t.id + 1", g.table)
	case 4:
		join = " JOIN (SELECT id AS j, w FROM keys WHERE w < 10) k ON k.j = t.id"
	case 5:
		join = " JOIN LATERAL (SELECT t.n + 1 AS m) lat ON true"
	case 6:
		join = " JOIN (SELECT id, count(*) AS c FROM keys GROUP BY id) z USING (id)"
	case 7:
		join = " JOIN few ON few.kind = t.kind"
	case 8, 9: // rows of keys alone come last
		join, then = " "+pick(g.rng, "RIGHT", "FULL")+" JOIN keys k ON k.id = t.id"+pick(g.rng, "", " AND k.w > 3"), then+", k.id"
	case 10, 11:
		before, join, then = "keys k "+pick(g.rng, "LEFT", "RIGHT", "FULL")+" JOIN ", " ON k.id = t.id"+pick(g.rng, "", " AND t.n > 5"), then+", k.id"
	case 12:
		join = pick(g.rng, " SEMI", " ANTI") + " JOIN keys k ON k.id = t.id"
	case 13:
		join, then = " LEFT JOIN keys k ON k.id = t.id FULL JOIN keys l ON l.id = k.id + 2", then+", k.id, l.id"
	}
	if (before != "" || strings.Contains(join, "FULL") || strings.Contains(join, "RIGHT")) && g.rng.IntN(3) == 0 && where == "" {
		where = pick(g.rng, " WHERE k.w > 10", " WHERE t.id IS NULL OR t.n > 4", " WHERE coalesce(k.w, 9) < 12")
	}
	f := form{args: g.args}
	if strings.HasPrefix(items, "* EX") && join != "" {
		items = "t.*"
	}
	from = before + from
	body := "SELECT " + items + " FROM " + from + join + where + " ORDER BY " + by + then + tail
	with := ""
	if strings.Contains(join, "few") {
		with = "WITH few AS (SELECT 'a' AS kind UNION ALL SELECT 'dd') "
	}
	switch g.rng.IntN(12) {
	case 0:
		body = "SELECT count(*), sum(id), min(id) FROM (" + body + ") s"
		if !strings.Contains(items, "t.id") && items != "t.*" && !strings.HasPrefix(items, "*") {
			body = strings.Replace(body, "sum(id), min(id)", "1", 1)
		}
	case 1:
		if with == "" {
			body = "WITH near AS (" + body + ") SELECT * FROM near"
		}
	case 2:
		body = "(" + body + ") UNION ALL (" + body + ")"
	case 3:
		body = fmt.Sprintf("SELECT o.id FROM %s o WHERE o.id IN (SELECT t.id FROM %s%s%s%s%s) ORDER BY o.id", g.table, from, join, where, " ORDER BY "+d+then, tail)
	}
	f.text = with + body
	return f
}

// each is a SELECT of the nearest rows of each row of an outer query.
func (g *gen) each(from string) form {
	g.args, g.named = nil, false
	table := g.table
	if from != "" {
		table = from
	}
	as := func(name string) string { // a table under another name, which AT comes behind
		if i := strings.Index(table, " AT ("); i >= 0 {
			return table[:i] + " AS " + name + table[i:]
		}
		return table + " AS " + name
	}
	c, v := pick(g.rng, g.columns...), pick(g.rng, g.columns...)
	of, vector := "(SELECT u.id, u.n, u."+v+" AS v FROM "+as("u")+" WHERE u."+v+" IS NOT NULL AND u.id % 7 = "+strconv.Itoa(g.rng.IntN(7))+") q", "q.v"
	where := ""
	switch g.rng.IntN(7) {
	case 0: // with vectors that are NULL
		of = "(SELECT u.id, u.n, u." + v + " AS v FROM " + as("u") + " WHERE u.id % 9 = " + strconv.Itoa(g.rng.IntN(9)) + ") q"
	case 1:
		of, vector = as("q"), "q."+v
		where = fmt.Sprintf(" WHERE q.id < %d AND q.%s IS NOT NULL", g.rng.IntN(20), v)
	case 2:
		of = fmt.Sprintf("(VALUES (1, 3, '%s'::vector), (2, 5, '%s'::vector), (3, 9, '%s'::vector)) q(id, n, v)", g.vector(g.dim, false), g.half(g.dim), g.vector(g.dim, true))
	case 3:
		of = "keys k JOIN " + of + " ON k.id = q.id"
	case 4:
		of += " LEFT JOIN keys k ON k.id = q.id"
	}
	d := "t." + c + pick(g.rng, " <-> ", " <#> ", " <=> ", " <+> ") + vector
	inner := ""
	if g.rng.IntN(2) == 0 {
		inner = " WHERE " + g.where("t", g.rng.IntN(2))
	}
	if g.rng.IntN(8) == 0 { // a condition that each row of the outer query has its own of
		inner = " WHERE t.n > q.n / 2"
	}
	then := pick(g.rng, ", t.id", ", t.id", ", t.kind DESC, t.id")
	n := strconv.Itoa(1 + g.rng.IntN(6))
	near := func(items string) string {
		return "(SELECT " + items + " FROM " + as("t") + inner + " ORDER BY " + d + then + " LIMIT "
	}
	f := form{}
	switch g.rng.IntN(5) {
	case 0:
		f.text = "SELECT q.id, " + near("t.id") + "1) AS nearest FROM " + of + where + " ORDER BY 1, 2"
	case 1:
		f.text = "SELECT q.id, s.id, s.d FROM " + of + " LEFT JOIN LATERAL " + near("t.id, "+d+" AS d") + n + ") s ON s.id <> q.id" + where + " ORDER BY 1, 2, 3"
	case 2:
		f.text = "WITH w AS (SELECT q.id, s.* FROM " + of + " CROSS JOIN LATERAL " + near("t.id AS i, t.kind") + n + ") s" + where + ") SELECT * FROM w ORDER BY ALL"
	default:
		f.text = "SELECT q.id, s.id, s.kind, s.d FROM " + of + ", LATERAL " + near("t.id, t.kind, "+d+" AS d") + n + ") s" + where + " ORDER BY 1, 2, 3"
	}
	f.args = g.args
	return f
}

// digits are what may differ in errors: which row is met first.
var digits = regexp.MustCompile(`"-?[0-9.e+-]+"`)

// tally counts statements.
type tally struct{ asked, refused, looked, used, rows, each int }

// Statements of ORDER BY distance LIMIT n of all shapes over tables of all shapes: with indexes that compare all, the answers
// are those without any, to the last digit.
func TestRandomStatements(t *testing.T) {
	want, seed := 130, uint64(20260301)
	deep := os.Getenv(testenv.DeepVar) != ""
	if deep {
		want, seed = 40_000, rand.Uint64()
	}
	if s, err := strconv.ParseUint(os.Getenv("OVERLAKE_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 7))
	var sum tally
	for sum.asked < want && !t.Failed() {
		w := newWorld(t)
		w.do("CREATE TABLE keys (id INTEGER, w INTEGER)")
		w.do("INSERT INTO keys SELECT i * 2, i % 25 FROM range(0, 90) r(i)")
		w.do("INSERT INTO keys SELECT i * 4, i % 15 FROM range(0, 60) r(i)")
		w.do("CREATE INDEX ON keys (id)")
		for i, sh := range shapes {
			g := &gen{world: w, rng: rng, table: "t" + strconv.Itoa(i), dim: sh.dim}
			sh.make(g)
			from := ""
			if sh.from != nil {
				from = strings.ReplaceAll(strings.ReplaceAll(pick(rng, sh.from...), "%t", g.table), "%v", strconv.FormatInt(g.snapshot(), 10))
				g.insert(40, g.columns...)
				g.do("ALTER TABLE " + g.table + " DROP COLUMN x")
				g.do("ALTER TABLE " + g.table + " RENAME COLUMN e TO y")
			}
			for range map[bool]int{false: 22, true: 400}[deep] {
				g.compare(&sum, sh, from)
				if t.Failed() {
					t.Fatalf("seed %d, %s", seed, sh.name)
				}
			}
		}
	}
	t.Logf("%+v", sum)
	if sum.each*20 < sum.asked || sum.used*4 < sum.looked || sum.refused > sum.asked/4 || sum.rows < 5*sum.asked {
		t.Errorf("too few statements used an index to prove anything: %+v", sum)
	}
}

func (g *gen) compare(sum *tally, sh shape, from string) {
	f := g.form(from)
	each := g.rng.IntN(5) == 0
	if each {
		f = g.each(from)
	} else if from != "" {
		f.text = strings.ReplaceAll(f.text, "FROM "+g.table+" WHERE id =", "FROM "+from+" WHERE id =")
		f.text = strings.ReplaceAll(f.text, "JOIN "+g.table+" u", "JOIN "+strings.Replace(from, g.table, g.table+" u", 1))
	}
	hint := pick(g.rng, " /*+ index exact */", " /*+ exact */", " /*+ exact */", " /*+ INDEX_HINT(exact=on) index */")
	if each {
		hint = " /*+ index exact */" // else a scan is as good for tables as small as these
	}
	want, werr := g.rows(f.text+" /*+ no_index */", f.args...)
	got, gerr := g.rows(f.text+hint, f.args...)
	sum.asked++
	if werr != nil || gerr != nil {
		if digits.ReplaceAllString(fmt.Sprint(werr), "") != digits.ReplaceAllString(fmt.Sprint(gerr), "") {
			g.Errorf("%s: %s %v\nwithout an index: %v\nwith: %v", sh.name, f.text, f.args, werr, gerr)
		}
		if sum.refused++; sum.refused < 5 || testing.Verbose() {
			g.Logf("refused: %.300s: %v", f.text, werr)
		}
		return
	}
	sum.rows += len(want)
	if !slices.Equal(want, got) {
		at := 0
		for at < min(len(want), len(got)) && want[at] == got[at] {
			at++
		}
		g.Errorf("%s: %s %q\n%d rows without an index, %d with; from row %d on:\n  %q\n  %q\n%s", sh.name, f.text+hint, f.args, len(want), len(got), at+1, want[at:min(at+5, len(want))], got[at:min(at+5, len(got))],
			g.explain(f.text+hint, f.args...))
		return
	}
	if each && strings.Contains(g.explain(f.text+hint, f.args...), "of the outer query") {
		sum.each++
	} else if !each && g.rng.IntN(4) == 0 {
		sum.looked++
		if g.explain(f.text+hint, f.args...) != "" {
			sum.used++
		}
	}
}

package sql

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/engine"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/overlay"
	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/row"
	"github.com/overlakedb/overlake/internal/search"
	"github.com/overlakedb/overlake/internal/sql/tree"
	"github.com/overlakedb/overlake/internal/testenv"
)

// world is a warehouse with a session.
type world struct {
	t   *testing.T
	env *Env
	s   *Session
}

func newWorld(t *testing.T) *world {
	t.Helper()
	store, err := objstore.OpenLocal(t.TempDir(), objstore.LocalOptions{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	db, err := engine.Open(engine.Config{SpillDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	overlays := overlay.NewSet(store, overlay.Options{Events: func(e overlay.Event) { t.Errorf("event without damage: %+v", e) }})
	t.Cleanup(func() { overlays.Close() })
	env, err := NewEnv(db, lake.OpenFileCatalog(store), overlays, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &world{t, env, env.NewSession("")}
}

// ask runs one statement and gives its batches to read.
func (w *world) ask(text string, read func(arrow.RecordBatch)) error {
	list, err := Split(text)
	if err != nil {
		return err
	}
	r, err := w.s.Run(w.t.Context(), list[0])
	if err != nil {
		return err
	}
	defer r.Close()
	for r.Next() {
		if read != nil {
			read(r.Record())
		}
	}
	return r.Err()
}

func (w *world) do(text string) {
	w.t.Helper()
	if err := w.ask(text, nil); err != nil {
		w.t.Fatalf("%.300s: %v", text, err)
	}
}

// insert adds rows of random values; ids go on from first.
func (w *world) insert(rng *rand.Rand, table string, first, rows int, columns []column) {
	w.t.Helper()
	var b strings.Builder
	names := []string{"id"}
	for _, c := range columns {
		names = append(names, c.name)
	}
	fmt.Fprintf(&b, "INSERT INTO %s (%s) VALUES ", table, strings.Join(names, ", "))
	for i := range rows {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "(%d", first+i)
		for _, c := range columns {
			b.WriteString(", " + value(rng, c.family))
		}
		b.WriteString(")")
	}
	w.do(b.String())
}

func (w *world) table(name string) *lake.Table {
	w.t.Helper()
	t, err := w.env.catalog.Load(w.t.Context(), lake.Ident{Namespace: lake.DefaultNamespace, Name: name})
	if err != nil {
		w.t.Fatal(err)
	}
	return t
}

// index defines indexes over every column and some triples; some columns have no other than the one that they begin.
func (w *world) index(table string, columns []column) {
	w.t.Helper()
	o, t := w.env.overlays.Of(w.table(table)), w.table(table)
	for i, c := range columns {
		var specs []overlay.Spec
		if i%6 != 3 {
			specs = append(specs, overlay.Spec{Name: "i" + strconv.Itoa(i), Columns: []string{c.name}})
		}
		if i%3 == 0 {
			specs = append(specs, overlay.Spec{Name: "p" + strconv.Itoa(i), Columns: []string{c.name, columns[(i+1)%len(columns)].name, columns[(i+2)%len(columns)].name}})
		}
		for _, s := range specs {
			if _, err := o.Define(w.t.Context(), t, s); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// remove deletes every n-th row of each file, from the k-th on.
func (w *world) remove(table string, n, k int64) {
	w.t.Helper()
	t := w.table(table)
	plan, err := t.Plan(w.t.Context(), lake.Ref{}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	rows := map[string]*row.Bitmap{}
	for i := range plan.Files {
		f := &plan.Files[i]
		gone := row.NewBitmap()
		for pos := k; pos < f.Rows; pos += n {
			gone.Add(pos)
		}
		if gone.Len() > 0 {
			rows[f.Path] = gone
		}
	}
	if _, err := t.DeleteRows(w.t.Context(), rows); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) build(table string) {
	w.t.Helper()
	t := w.table(table)
	if _, err := w.env.overlays.Of(t).Cover(w.t.Context(), t, overlay.BuildOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func create(table string, columns []column, tail string) string {
	var defs []string
	for _, c := range columns {
		defs = append(defs, c.name+" "+families[c.family].typ)
	}
	return "CREATE TABLE " + table + " (id BIGINT, " + strings.Join(defs, ", ") + ") " + tail
}

// The shapes of tables that indexes meet. Each makes a table and gives its columns, and what it is read by.
var shapes = []struct {
	name string
	make func(w *world, rng *rand.Rand, table string) (columns []column, ref lake.Ref)
}{
	{"an artifact a file, deletes, a file without", func(w *world, rng *rand.Rand, table string) ([]column, lake.Ref) {
		cols := familyColumns("bool", "int", "big", "single", "double", "cents", "long", "day", "clock", "at", "tz", "text", "uuid", "blob", "int", "text")
		w.do(create(table, cols, ""))
		w.index(table, cols)
		for i := range 5 {
			w.insert(rng, table, 1000*i, 60+rng.IntN(60), cols)
			w.build(table)
		}
		w.remove(table, 7, 3)
		w.insert(rng, table, 9000, 40, cols)
		return cols, lake.Ref{}
	}},
	{"shared artifacts, version 3", func(w *world, rng *rand.Rand, table string) ([]column, lake.Ref) {
		cols := familyColumns("nano", "int", "single", "text", "at", "big", "nano", "double", "bool", "long", "uuid")
		w.do(create(table, cols, `WITH ("format-version" = '3')`))
		w.index(table, cols)
		for i := range 8 {
			w.insert(rng, table, 1000*i, 1+rng.IntN(60), cols)
			if i == 2 || i == 6 {
				w.build(table)
			}
		}
		w.remove(table, 5, 1)
		return cols, lake.Ref{}
	}},
	{"a schema that changed", func(w *world, rng *rand.Rand, table string) ([]column, lake.Ref) {
		old := familyColumns("int", "single", "cents", "text", "day", "at")
		w.do(create(table, old, ""))
		w.index(table, old)
		w.insert(rng, table, 0, 80, old)
		w.build(table)
		alter := func(s string) { w.do("ALTER TABLE " + table + " " + s) }
		alter("ALTER COLUMN c0 TYPE BIGINT")
		alter("ALTER COLUMN c1 TYPE DOUBLE")
		alter("ALTER COLUMN c2 TYPE DECIMAL(12,2)")
		alter("RENAME COLUMN c3 TO other")
		alter("RENAME COLUMN c4 TO c3")
		alter("DROP COLUMN c5")
		alter("ADD COLUMN c5 INTEGER")
		alter("ADD COLUMN added VARCHAR")
		cols := []column{{"c0", "big"}, {"c1", "double"}, {"c2", "cents"}, {"other", "text"}, {"c3", "day"}, {"c5", "int"}, {"added", "text"}}
		o, t := w.env.overlays.Of(w.table(table)), w.table(table)
		for _, c := range []string{"c5", "added"} {
			if _, err := o.Define(w.t.Context(), t, overlay.Spec{Name: "late_" + c, Columns: []string{c}}); err != nil {
				w.t.Fatal(err)
			}
		}
		w.insert(rng, table, 1000, 80, cols)
		w.build(table)
		w.insert(rng, table, 2000, 50, cols)
		w.build(table)
		w.remove(table, 11, 1)
		return cols, lake.Ref{}
	}},
	{"an older version", func(w *world, rng *rand.Rand, table string) ([]column, lake.Ref) {
		cols := familyColumns("int", "text", "single", "at", "bool")
		w.do(create(table, cols, ""))
		w.index(table, cols)
		w.insert(rng, table, 0, 80, cols)
		w.insert(rng, table, 1000, 80, cols)
		w.remove(table, 3, 1)
		all := w.table(table).Snapshots()
		w.do("ALTER TABLE " + table + " ALTER COLUMN c0 TYPE BIGINT")
		w.do("ALTER TABLE " + table + " ALTER COLUMN c2 TYPE DOUBLE")
		w.do("ALTER TABLE " + table + " RENAME COLUMN c1 TO c9")
		w.do("ALTER TABLE " + table + " DROP COLUMN c3")
		w.insert(rng, table, 2000, 30, []column{{"c0", "big"}, {"c9", "text"}, {"c2", "double"}, {"c4", "bool"}})
		w.remove(table, 4, 1)
		w.build(table)
		return cols, lake.Ref{SnapshotID: all[len(all)-1].ID}
	}},
	{"partitions", func(w *world, rng *rand.Rand, table string) ([]column, lake.Ref) {
		cols := familyColumns("text", "int", "at", "day", "big", "cents", "tz")
		w.do(create(table, cols, "PARTITIONED BY ("+pick(rng, []string{"bucket(3, c1), day(c2)", "truncate(1, c0), month(c3)", "c1", "c3, truncate(10, c4)", "year(c6), bucket(2, c5)"})+")"))
		w.index(table, cols)
		for i := range 3 {
			w.insert(rng, table, 1000*i, 20, cols)
			if i != 1 {
				w.build(table)
			}
		}
		w.insert(rng, table, 9000, 10, cols)
		return cols, lake.Ref{}
	}},
}

func familyColumns(families ...string) []column {
	var out []column
	for i, f := range families {
		out = append(out, column{"c" + strconv.Itoa(i), f})
	}
	return out
}

// perBatch is how many conditions one SELECT asks for: for more, the engine takes more than in proportion.
const perBatch = 100

// formsPerBatch is how many statements of other forms are asked after each batch.
const formsPerBatch = 1

// Conditions of all kinds over values of all types: what the engine says of a row in a plain scan is the truth. No row for
// which a condition is true may be missing from what the indexes give or from the files that planning keeps, no deleted row
// may come back, and where everything is exact, no other row may be in it.
func TestIndexesAgreeWithTheEngine(t *testing.T) {
	want, batches := 100_000, 102
	if os.Getenv(testenv.DeepVar) != "" {
		want = 2_000_000
	}
	if testing.Short() {
		want, batches = 5_000, 10
	}
	seed := uint64(20260101)
	if s, err := strconv.ParseUint(os.Getenv("OVERLAKE_SEED"), 10, 64); err == nil {
		seed = s
	} else if want > 100_000 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	var sum tally
	refused := map[string]bool{}
	for round := 0; sum.asked < want; round++ {
		w := newWorld(t)
		for i, shape := range shapes {
			if sum.asked >= want {
				break
			}
			table := "t" + strconv.Itoa(i)
			columns, ref := shape.make(w, rng, table)
			c := &checker{w: w, rng: rng, table: table, shape: shape.name, ref: ref, gen: conditions{rng: rng, columns: columns, refused: refused}, sum: &sum}
			c.prepare()
			for range batches {
				c.batch(perBatch)
				if c.forms(); t.Failed() {
					t.Fatalf("seed %d, round %d, %s", seed, round, shape.name)
				}
			}
			t.Logf("%s: %+v", shape.name, sum)
		}
	}
	t.Logf("%+v", sum)
	if sum.exact < sum.asked/10 || sum.narrow < sum.asked/5 || sum.whole < sum.asked/600 {
		t.Errorf("too few conditions were answered by an index to prove anything: %+v", sum)
	}
}

// tally counts conditions.
type tally struct {
	asked   int // by the engine, without error
	refused int // by the engine
	indexed int // understood by an index
	narrow  int // for which an index left rows out
	exact   int // whose rows had to be the very rows
	whole   int // asked as whole statements too
	forms   int // statements that ask for counts, ends and first rows
	pruned  int // for which planning left files out
}

// checker compares the answers over one table.
type checker struct {
	w     *world
	rng   *rand.Rand
	table string
	shape string
	ref   lake.Ref
	gen   conditions
	sum   *tally

	from  string // the table as FROM names it
	t     *lake.Table
	plan  *lake.Plan
	view  *overlay.View
	file  map[string]int     // place in the plan
	place map[int64][2]int64 // file and position of an id
	known map[int]bool       // field ids with an index that covers every file
}

func (c *checker) prepare() {
	t := c.w.t
	var err error
	fail := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	c.t = c.w.table(c.table)
	c.from = c.table
	if c.ref.SnapshotID != 0 {
		c.from += fmt.Sprintf(" AT (VERSION => %d)", c.ref.SnapshotID)
	}
	c.plan, err = c.t.Plan(t.Context(), c.ref, nil)
	fail(err)
	sc, err := c.t.SchemaAt(c.ref)
	fail(err)
	c.view, err = c.w.env.overlays.Of(c.t).View(t.Context(), sc)
	fail(err)
	c.place, c.file, c.known = map[int64][2]int64{}, map[string]int{}, map[int]bool{}
	for i := range c.plan.Files {
		f := &c.plan.Files[i]
		c.file[f.Path] = i
		r, err := c.t.ReadFile(t.Context(), f, []string{"id"}, c.ref, false)
		fail(err)
		pos := int64(0)
		for r.Next() {
			ids := r.RecordBatch().Column(0).(*array.Int64)
			for k := range ids.Len() {
				if !f.Deletes.Contains(pos) {
					c.place[ids.Value(k)] = [2]int64{int64(i), pos}
				}
				pos++
			}
		}
		fail(r.Err())
		r.Release()
	}
	for _, x := range c.view.Indexes() {
		if len(x.Columns) == 1 {
			c.known[x.Columns[0]] = true
		}
	}
}

// batch asks the engine for n conditions at once and then the indexes for each.
func (c *checker) batch(n int) {
	texts := make([]string, n)
	parts := make([][][2]string, n)
	for i := range texts {
		c.gen.parts = nil
		texts[i] = c.gen.condition(c.rng.IntN(3))
		parts[i] = c.gen.parts
	}
	c.ask(texts, parts)
}

// ask halves what the engine refuses until the conditions at fault are found.
func (c *checker) ask(texts []string, parts [][][2]string) {
	if len(texts) == 0 {
		return
	}
	truth, err := c.truth(texts)
	if err == nil {
		c.sum.asked += len(texts)
		c.compare(texts, truth)
		return
	}
	if len(texts) == 1 {
		c.sum.refused++
		for _, p := range parts[0] { // not again
			col := c.gen.columns[0]
			for _, x := range c.gen.columns {
				if x.family == p[0] {
					col = x
				}
			}
			if c.w.ask("SELECT ("+col.name+" = "+p[1]+") FROM "+c.from, nil) != nil {
				c.gen.refused[p[0]+"\x00"+p[1]] = true
			}
		}
		return
	}
	half := len(texts) / 2
	c.ask(texts[:half], parts[:half])
	c.ask(texts[half:], parts[half:])
}

// truth gives for each condition the ids for which it is true.
func (c *checker) truth(texts []string) ([]map[int64]bool, error) {
	c.w.do("SET use_index = 'off'")
	out := make([]map[int64]bool, len(texts))
	for i := range out {
		out[i] = map[int64]bool{}
	}
	rows := 0
	err := c.w.ask("SELECT id, TRY("+strings.Join(texts, "), TRY(")+") FROM "+c.from, func(rec arrow.RecordBatch) {
		ids := rec.Column(0).(*array.Int64)
		rows += ids.Len()
		for k := range texts {
			col, ok := rec.Column(k + 1).(*array.Boolean)
			if !ok {
				continue // a bare NULL
			}
			for i := range ids.Len() {
				if col.IsValid(i) && col.Value(i) {
					out[k][ids.Value(i)] = true
				}
			}
		}
	})
	if err == nil && rows != len(c.place) {
		c.w.t.Fatalf("the scan gave %d rows, %d are live", rows, len(c.place))
	}
	return out, err
}

// nodes gives the trees of the conditions and what translates them.
func (c *checker) nodes(ctx context.Context, texts []string) (*pusher, []node) {
	t := c.w.t
	text := "SELECT (" + strings.Join(texts, "), (") + ") FROM " + c.table
	parsed, err := c.w.env.engine.Parse(ctx, text)
	if err != nil {
		t.Fatal(err)
	}
	root, err := tree.Decode(parsed)
	if err != nil {
		t.Fatal(err)
	}
	st, _ := tree.List(root, "statements")[0].(node)
	sel := tree.Child(st, "node")
	q := &statement{s: c.w.s, ctx: ctx, text: text}
	src := &source{node: tree.Child(sel, "from_table"), name: c.table, base: c.t, ref: c.ref}
	var out []node
	for _, n := range tree.List(sel, "select_list") {
		x, _ := n.(node)
		out = append(out, x)
	}
	return &pusher{q: q, s: src, sc: &scope{sources: []*source{src}}}, out
}

func (c *checker) compare(texts []string, truth []map[int64]bool) {
	t, ctx := c.w.t, c.w.t.Context()
	p, nodes := c.nodes(ctx, texts)
	if len(nodes) != len(texts) {
		t.Fatalf("%d conditions have %d trees", len(texts), len(nodes))
	}
	for k, text := range texts {
		filter, exact := p.expr(nodes[k])
		say := func(format string, args ...any) {
			t.Helper()
			t.Errorf("%s: %.2000s\n  filter %.500s\n  %s", c.shape, text, filter, fmt.Sprintf(format, args...))
		}
		if _, nothing := filter.(predicate.True); !nothing {
			plan, err := c.t.Plan(ctx, c.ref, filter)
			if err != nil {
				t.Fatal(err)
			}
			kept := map[int64]bool{}
			for i := range plan.Files {
				kept[int64(c.file[plan.Files[i].Path])] = true
			}
			if len(kept) < len(c.plan.Files) {
				c.sum.pruned++
			}
			for id := range truth[k] {
				if !kept[c.place[id][0]] {
					say("planning left out the file of row %d", id)
					return
				}
			}
			c.index(filter, exact, truth[k], say)
		}
		if c.rng.IntN(300) == 0 {
			c.whole(text, truth[k])
		}
		if t.Failed() {
			return
		}
	}
}

// index compares what the indexes give for a filter.
func (c *checker) index(filter predicate.Expr, exact bool, truth map[int64]bool, say func(string, ...any)) {
	t, ctx := c.w.t, c.w.t.Context()
	bound, err := c.t.Bind(c.ref, filter)
	if err != nil {
		t.Fatal(err)
	}
	a, err := search.Choose(ctx, c.plan, bound, c.view, search.AccessOptions{Hint: search.UseIndex})
	if err != nil {
		t.Fatal(err)
	}
	if a.Covered > 0 {
		c.sum.indexed++
	}
	if a.Pruned > 0 || len(a.Fetch) > 0 {
		c.sum.narrow++
	}
	fetch := map[int64]*lake.FileRows{}
	scan := map[int64]bool{}
	for i := range a.Fetch {
		fetch[int64(a.Fetch[i].File)] = &a.Fetch[i]
	}
	for _, i := range a.Scan {
		scan[int64(i)] = true
	}
	// Sets of an AND may hold more: it stops asking when little is left.
	exact = exact && bound.IsExact() && !hasAnd(bound) && len(scan) < len(c.plan.Files)
	bound.Leaves(func(b *predicate.Bound) { exact = exact && (c.known[b.Field] || len(b.Keys) == 0 && !b.Null) })
	if exact {
		c.sum.exact++
	}
	chosen := int64(0)
	for id, at := range c.place {
		f := fetch[at[0]]
		in := f != nil && f.Rows.Contains(at[1])
		if in {
			chosen++
		}
		if truth[id] && !in && !scan[at[0]] {
			say("the indexes %v lost row %d, at %d of file %d; keys %s", a.Used, id, at[1], at[0], keysOf(bound))
			return
		}
		if exact && in && !truth[id] {
			say("the indexes %v gave row %d, at %d of file %d, though everything is exact; keys %s", a.Used, id, at[1], at[0], keysOf(bound))
			return
		}
	}
	if chosen != a.Rows {
		say("the indexes gave %d rows, of which %d are live", a.Rows, chosen)
	}
}

func hasAnd(b *predicate.Bound) bool {
	if b.Op == predicate.BoundAnd {
		return true
	}
	for _, k := range b.Kids {
		if hasAnd(k) {
			return true
		}
	}
	return false
}

func keysOf(b *predicate.Bound) string {
	var out []string
	b.Leaves(func(l *predicate.Bound) {
		out = append(out, fmt.Sprintf("field %d null %v %.300s", l.Field, l.Null, fmt.Sprintf("%+v", l.Keys)))
	})
	return strings.Join(out, "; ")
}

// forms asks statements that an index may answer alone, or of which it may read the first rows, with and without it.
func (c *checker) forms() {
	for range formsPerBatch {
		col := pick(c.rng, c.gen.columns)
		n := col.name
		where := ""
		if c.rng.IntN(4) > 0 {
			over := col
			if c.rng.IntN(3) == 0 {
				over = pick(c.rng, c.gen.columns)
			}
			f := families[over.family]
			lit := func() string { return fmt.Sprintf("'%s'::%s", quoted(pick(c.rng, f.values)), f.typ) }
			if f.class == "number" && over.family != "single" && over.family != "double" {
				lit = func() string { return pick(c.rng, f.values) }
			}
			where = " WHERE " + over.name + " " + pick(c.rng, []string{"= " + lit(), "<= " + lit(), "> " + lit(), "IS NULL", "IS NOT NULL", "<> " + lit(), "IN (" + lit() + ", " + lit() + ")",
				"BETWEEN " + lit() + " AND " + lit(), "= " + lit() + " OR " + over.name + " > " + lit(), ">= " + lit() + " AND " + n + " IS NOT NULL"})
		}
		order := n + pick(c.rng, []string{"", " DESC"}) + pick(c.rng, []string{"", " NULLS FIRST", " NULLS LAST"}) + ", id"
		text := pick(c.rng, []string{
			"SELECT count(*) FROM %t%w",
			"SELECT count(" + n + "), count(*), min(" + n + "), max(" + n + ") FROM %t%w",
			"SELECT max(" + n + ") FROM %t%w",
			"SELECT min(" + n + "), count(" + n + ") + 1 FROM %t%w",
			"SELECT id, " + n + " FROM %t%w ORDER BY " + order + fmt.Sprintf(" LIMIT %d", 1+c.rng.IntN(40)),
			"SELECT id, " + n + " FROM %t%w ORDER BY " + order + fmt.Sprintf(" LIMIT %d OFFSET %d", 1+c.rng.IntN(10), c.rng.IntN(30)),
			"SELECT DISTINCT " + n + " FROM %t%w ORDER BY 1",
			"SELECT DISTINCT " + n + " IS NULL AS a, " + n + " AS b FROM %t%w ORDER BY b" + pick(c.rng, []string{"", " DESC"}) + fmt.Sprintf(" LIMIT %d", c.rng.IntN(30)),
			"SELECT count(DISTINCT " + n + "), max(" + n + ") FROM %t%w",
			"SELECT " + n + ", count(DISTINCT " + n + ") AS k FROM %t%w GROUP BY " + n + pick(c.rng, []string{"", " HAVING k = 1"}) + " ORDER BY " + n,
			"SELECT EXISTS (SELECT 1 FROM %t%w)",
			"SELECT id FROM %t%w ORDER BY " + n + " LIMIT 0",
			"SELECT count(*) FROM %t AS a JOIN %t AS b ON a." + n + " = b." + n,
			"SELECT id FROM %t WHERE " + n + " IN (SELECT " + n + " FROM %t%w) ORDER BY id",
		})
		text = strings.ReplaceAll(strings.ReplaceAll(text, "%t", c.from), "%w", where)
		answers := map[string]string{}
		failed := false
		for _, use := range []string{"off", "on", "auto"} {
			c.w.do("SET use_index = '" + use + "'")
			var b strings.Builder
			err := c.w.ask(text, func(rec arrow.RecordBatch) {
				for i := range int(rec.NumRows()) {
					for k := range int(rec.NumCols()) {
						v := rec.Column(k).ValueStr(i)
						if v == "-0" {
							v = "0" // they are equal, and either may come
						}
						b.WriteString(v + "\t")
					}
					b.WriteString("\n")
				}
			})
			if failed = failed || err != nil; failed {
				break
			}
			answers[use] = b.String()
		}
		if failed {
			continue
		}
		c.sum.forms++
		for _, use := range []string{"on", "auto"} {
			if answers[use] != answers["off"] {
				c.w.t.Errorf("%s: %.2000s\nwithout an index:\n%.2000s\nuse_index %s:\n%.2000s", c.shape, text, answers["off"], use, answers[use])
			}
		}
	}
}

// whole asks the condition as a statement, with and without indexes.
func (c *checker) whole(text string, truth map[int64]bool) {
	c.sum.whole++
	say := func(format string, args ...any) {
		c.w.t.Helper()
		c.w.t.Errorf("%s: %.1000s\n  %s", c.shape, text, fmt.Sprintf(format, args...))
	}
	answers := map[string]map[string]bool{}
	for _, use := range []string{"off", "on", "auto"} {
		c.w.do("SET use_index = '" + use + "'")
		rows := map[string]bool{}
		n, wrong := 0, 0
		err := c.w.ask("SELECT id, t::VARCHAR AS all_of_it FROM "+c.from+" AS t WHERE "+text, func(rec arrow.RecordBatch) {
			ids := rec.Column(0).(*array.Int64)
			for i := range ids.Len() {
				n++
				rows[fmt.Sprint(ids.Value(i), " ", rec.Column(1).ValueStr(i))] = true
				if !truth[ids.Value(i)] {
					wrong++
				}
			}
		})
		if err != nil {
			return // here no TRY stands around the condition
		}
		if len(rows) != n {
			say("use_index %s: %d rows of which %d differ", use, n, len(rows))
		}
		if wrong > 0 || n != len(truth) {
			// Where some part fails, a WHERE clause may pass over it and TRY may not.
			if use == "off" && c.w.ask("SELECT id, ("+text+") FROM "+c.from, nil) != nil {
				return
			}
			say("use_index %s: %d rows, %d in the SELECT list; %d too many", use, n, len(truth), wrong)
		}
		answers[use] = rows
	}
	for row := range answers["off"] {
		if !answers["on"][row] || !answers["auto"][row] {
			say("row %s has other values with an index", row)
		}
	}
}

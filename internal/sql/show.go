package sql

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/render"
	"github.com/overlakedb/overlake/internal/search"
	"github.com/overlakedb/overlake/internal/sql/coltype"
	"github.com/overlakedb/overlake/internal/sql/lex"
)

// textRows is a result of text columns.
func textRows(tag string, columns []string, rows [][]string) *Result {
	rec := render.Texts(columns, rows)
	return &Result{Tag: tag, Affected: -1, HasRows: true, rows: newBatches(rec.Schema(), rec)}
}

func (q *statement) show(c *cursor) (*Result, error) {
	c.next()
	switch {
	case c.accept("TABLES"):
		q.s.mu.Lock()
		schema := q.s.schema
		q.s.mu.Unlock()
		if c.accept("FROM") || c.accept("IN") {
			var err error
			if schema, err = c.name("a schema"); err != nil {
				return nil, err
			}
		}
		if err := c.end(); err != nil {
			return nil, err
		}
		tables, err := q.s.env.catalog.Tables(q.ctx, schema)
		if err != nil {
			return nil, err
		}
		var rows [][]string
		for _, t := range tables {
			rows = append(rows, []string{t.Name})
		}
		return textRows("SHOW", []string{"name"}, rows), nil
	case c.accept("SCHEMAS"), c.accept("NAMESPACES"), c.accept("DATABASES"):
		all, err := q.s.env.catalog.Namespaces(q.ctx)
		if err != nil {
			return nil, err
		}
		var rows [][]string
		for _, n := range all {
			rows = append(rows, []string{n})
		}
		return textRows("SHOW", []string{"name"}, rows), c.end()
	case c.accept("COLUMNS"):
		if !c.accept("FROM") && !c.accept("IN") {
			return nil, c.errorf("expected FROM")
		}
		return q.describe(c)
	case c.accept("CREATE", "TABLE"):
		return q.showCreate(c)
	case c.accept("INDEXES"), c.accept("INDEX"), c.accept("INDICES"), c.accept("KEYS"):
		return q.showIndexes(c)
	case c.accept("ALL"):
		var rows [][]string
		for _, s := range settings {
			v, _ := q.s.setting(s.name)
			rows = append(rows, []string{s.name, v, s.doc})
		}
		return textRows("SHOW", []string{"name", "setting", "description"}, rows), c.end()
	}
	parts, err := c.parts("a setting")
	if err == nil {
		err = c.end()
	}
	if err != nil {
		return nil, err
	}
	name := strings.ToLower(strings.Join(parts, "."))
	v, err := q.s.setting(name)
	if err != nil {
		return nil, err
	}
	return textRows("SHOW", []string{name}, [][]string{{v}}), nil
}

// describe lists the columns of a table, or of a query.
func (q *statement) describe(c *cursor) (*Result, error) {
	c.accept("TABLE")
	if c.done() {
		return nil, c.errorf("expected a table or a query")
	}
	columns := []string{"column_name", "column_type", "null", "comment"}
	if c.peek().Is("SELECT") || c.peek().Is("WITH") || c.peek().Is("(") || c.peek().Is("FROM") || c.peek().Is("VALUES") {
		w, err := q.rewrite(q.part(c.peek().Start, len(q.text), "", ""))
		if err != nil {
			return nil, err
		}
		w.splice([]lex.Edit{{New: "DESCRIBE "}})
		rows, err := q.start(w)
		if err != nil {
			return nil, err
		}
		return &Result{Tag: "DESCRIBE", Affected: -1, HasRows: true, rows: rows}, nil
	}
	id, err := q.lastNamed(c)
	if err != nil {
		return nil, err
	}
	v, err := findView(id.Namespace, id.Name)
	if err != nil {
		return nil, err
	}
	var fields []arrow.Field
	if v != nil {
		fields = v.fields
	} else {
		t, err := q.table(id)
		if err != nil {
			return nil, err
		}
		fields = t.Schema().Fields()
	}
	var rows [][]string
	for _, f := range fields {
		typ, err := coltype.Shown(f)
		if err != nil {
			typ = f.Type.String()
		}
		null := "YES"
		if !f.Nullable {
			null = "NO"
		}
		doc, _ := f.Metadata.GetValue(lake.DocKey)
		rows = append(rows, []string{f.Name, typ, null, doc})
	}
	return textRows("DESCRIBE", columns, rows), nil
}

func (q *statement) showCreate(c *cursor) (*Result, error) {
	id, err := q.lastNamed(c)
	if err != nil {
		return nil, err
	}
	t, err := q.table(id)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "CREATE TABLE %s.%s (", lex.QuoteIdent(t.Ident().Namespace), lex.QuoteIdent(t.Ident().Name))
	for i, f := range t.Schema().Fields() {
		if i > 0 {
			b.WriteString(",")
		}
		typ, err := coltype.Shown(f)
		if err != nil {
			return nil, err
		}
		b.WriteString("\n  " + lex.QuoteIdent(f.Name) + " " + typ)
		if !f.Nullable {
			b.WriteString(" NOT NULL")
		}
		def, err := t.WriteDefaultText(f.Name)
		if err != nil {
			return nil, err
		}
		if def != nil {
			b.WriteString(" DEFAULT " + defaultConstant(f, *def))
		}
		if doc, ok := f.Metadata.GetValue(lake.DocKey); ok {
			b.WriteString(" COMMENT " + lex.QuoteText(doc))
		}
	}
	b.WriteString("\n)")
	if p := t.PartitionFields(); len(p) > 0 {
		var list []string
		for _, f := range p {
			kind, n, ok := strings.Cut(strings.TrimSuffix(f.Transform, "]"), "[")
			switch {
			case f.Transform == "identity":
				list = append(list, lex.QuoteIdent(f.Column))
			case ok:
				list = append(list, kind+"("+n+", "+lex.QuoteIdent(f.Column)+")")
			default:
				list = append(list, kind+"("+lex.QuoteIdent(f.Column)+")")
			}
		}
		b.WriteString("\nPARTITIONED BY (" + strings.Join(list, ", ") + ")")
	}
	props := t.Properties()
	if comment, ok := props["comment"]; ok {
		b.WriteString("\nCOMMENT " + lex.QuoteText(comment))
	}
	props["format-version"] = strconv.Itoa(t.FormatVersion())
	var list []string
	for _, k := range slices.Sorted(maps.Keys(props)) {
		if !strings.HasPrefix(k, "overlake.column.") && k != "comment" && k != "schema.name-mapping.default" {
			list = append(list, lex.QuoteIdent(k)+" = "+lex.QuoteText(props[k]))
		}
	}
	b.WriteString("\nWITH (" + strings.Join(list, ", ") + ")")
	return textRows("SHOW", []string{"sql"}, [][]string{{b.String()}}), nil
}

// defaultConstant writes a default as columnDef reads it.
func defaultConstant(f arrow.Field, text string) string {
	switch f.Type.ID() {
	case arrow.BOOL, arrow.INT32, arrow.INT64, arrow.FLOAT32, arrow.FLOAT64, arrow.DECIMAL128:
		return text
	}
	return lex.QuoteText(text)
}

// use changes the current schema.
func (q *statement) use(c *cursor) (*Result, error) {
	c.next()
	name, err := c.name("a schema")
	if err == nil {
		err = c.end()
	}
	if err != nil {
		return nil, err
	}
	all, err := q.s.env.catalog.Namespaces(q.ctx)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(all, name) {
		return nil, errs.New(errs.NotFound, "sql.use", "there is no such schema", errs.On(name), errs.Hint("the schemas are %s", strings.Join(all, ", ")))
	}
	q.s.mu.Lock()
	defer q.s.mu.Unlock()
	q.s.schema = name
	return done("USE", -1), nil
}

// setting is one thing that SET changes.
type setting struct {
	name, fallback, doc string
	check               func(v string) error
	fixed               func(s *Session) string // set: cannot be changed in a session
}

func floatIn(lo, hi float64) func(string) error {
	return func(v string) error {
		f, err := strconv.ParseFloat(v, 64)
		if err != nil || !(f >= lo && f <= hi) {
			return errs.Newf(errs.Invalid, "sql.set", "the value must be a number from %g to %g", lo, hi)
		}
		return nil
	}
}

func oneOf(values ...string) func(string) error {
	return func(v string) error {
		if !slices.Contains(values, v) {
			return errs.Newf(errs.Invalid, "sql.set", "the value must be one of %s", strings.Join(values, ", "))
		}
		return nil
	}
}

// settings lists all there are, by name.
var settings = []setting{
	{name: "bm25.analyzer", fallback: "standard", doc: "analyzer of bm25 and match without the option analyzer", check: func(v string) error { _, err := analysis.Find(v); return err }},
	{name: "bm25.b", fallback: "0.75", doc: "length normalisation of bm25", check: floatIn(0, 1)},
	{name: "bm25.k1", fallback: "1.2", doc: "term saturation of bm25", check: floatIn(0, 1000)},
	{name: "hnsw.ef_search", doc: "candidates of a search in a graph of vectors, 1 to 100000; empty: what the index says", check: effortIn("ef_search")},
	{name: "hnsw.iterative_scan", fallback: "strict_order", doc: "for pgvector's clients: a search always goes on until it has the rows that are wanted, in strict order", check: oneOf("off", "relaxed_order", "strict_order")},
	{name: "hnsw.max_scan_tuples", fallback: "20000", doc: "for pgvector's clients: a search always goes on until it has the rows that are wanted", check: intIn(1, 1<<31-1)},
	{name: "hnsw.scan_mem_multiplier", fallback: "1", doc: "for pgvector's clients: memory of searches is bounded by the budget of the warehouse", check: floatIn(1, 1000)},
	{name: "ivfflat.iterative_scan", fallback: "relaxed_order", doc: "for pgvector's clients, as hnsw.iterative_scan", check: oneOf("off", "relaxed_order", "strict_order")},
	{name: "ivfflat.max_probes", fallback: "32768", doc: "for pgvector's clients: a search probes as many lists as it needs", check: intIn(1, 32768)},
	{name: "ivfflat.probes", doc: "lists of a search in an index of lists of vectors, 1 to 1048576; empty: what the index says", check: effortIn("probes")},
	{name: "max_queries", doc: "queries that run at once (set when the warehouse is opened)", fixed: func(s *Session) string { return strconv.Itoa(s.env.engine.Config().MaxQueries) }},
	{name: "memory_limit", doc: "bytes of memory for queries (set when the warehouse is opened)", fixed: func(s *Session) string { return strconv.FormatInt(s.env.engine.Config().MemoryLimit, 10) }},
	{name: "search_path", fallback: "", doc: "current schema; USE is the same", fixed: func(s *Session) string { s.mu.Lock(); defer s.mu.Unlock(); return s.schema }},
	{name: "threads", doc: "threads that run queries (set when the warehouse is opened)", fixed: func(s *Session) string { return strconv.Itoa(s.env.engine.Config().Threads) }},
	{name: "timezone", doc: "time zone of timestamps", fixed: func(*Session) string { return "UTC" }},
	{name: "use_index", fallback: "auto", doc: "auto: where it is cheaper; on: wherever an index covers; off: nowhere. A comment /*+ index(name) */ or /*+ no_index */ in a statement goes before",
		check: oneOf("auto", "on", "off")},
	{name: "vector.exact", fallback: "off", doc: "on: an index of vectors compares all rows that may be hits", check: oneOf("on", "off")},
	{name: "vector.rerank", doc: "candidates of an index of vectors that are compared in full, 1 to 100000; empty: what the index says", check: effortIn("rerank")},
}

func effortIn(name string) func(string) error {
	return func(v string) error { return new(search.Effort).Set(name, v) }
}

func intIn(lo, hi int) func(string) error {
	return func(v string) error {
		if n, err := strconv.Atoi(v); err != nil || n < lo || n > hi {
			return errs.Newf(errs.Invalid, "sql.set", "the value must be a whole number from %d to %d", lo, hi)
		}
		return nil
	}
}

// Settings gives name, default and description of every setting, for documentation.
func Settings() [][3]string {
	var out [][3]string
	for _, s := range settings {
		out = append(out, [3]string{s.name, s.fallback, s.doc})
	}
	return out
}

func findSetting(name string) (*setting, error) {
	var names []string
	for i := range settings {
		if settings[i].name == name {
			return &settings[i], nil
		}
		names = append(names, settings[i].name)
	}
	hint := errs.Hint("SHOW ALL lists the settings")
	if near := errs.Nearest(name, names, 3); near != "" {
		hint = errs.Hint("did you mean %s?", near)
	}
	return nil, errs.New(errs.NotFound, "sql.set", "there is no such setting", errs.On(name), hint)
}

func (s *Session) setting(name string) (string, error) {
	d, err := findSetting(name)
	if err != nil {
		return "", err
	}
	if d.fixed != nil {
		return d.fixed(s), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := s.settings[name]; ok {
		return v, nil
	}
	return d.fallback, nil
}

func (q *statement) set(c *cursor) (*Result, error) {
	c.next()
	c.accept("SESSION")
	parts, err := c.parts("a setting")
	if err != nil {
		return nil, err
	}
	if c.peek().Text == "=" || c.peek().Is("TO") {
		c.next()
	} else {
		return nil, c.errorf("expected = or TO")
	}
	name := strings.ToLower(strings.Join(parts, "."))
	at := c.peek().Start
	value := strings.Trim(c.rest(), " \t\n")
	if len(c.tokens) == c.at+1 && c.peek().Kind <= 2 { // a word, a name or a string
		t := c.peek()
		value = t.Text
		if t.Text[0] == '\'' {
			value = t.Value()
		} else if t.IsIdent() {
			value = t.Name()
		}
	}
	d, err := findSetting(name)
	if err != nil {
		return nil, err
	}
	if d.fixed != nil {
		if d.name == "timezone" && strings.EqualFold(value, "utc") {
			return done("SET", -1), nil
		}
		return nil, errs.New(errs.Unsupported, "sql.set", "this setting cannot be changed in a session", errs.On(name))
	}
	if err := d.check(value); err != nil {
		return nil, errs.Wrap(errs.KindOf(err), "sql.set", lex.At(c.text, at, name+": "+err.Error()), errs.Hint("%s", errs.HintOf(err)))
	}
	q.s.mu.Lock()
	defer q.s.mu.Unlock()
	q.s.settings[name] = value
	return done("SET", -1), nil
}

func (q *statement) reset(c *cursor) (*Result, error) {
	c.next()
	if c.accept("ALL") {
		q.s.mu.Lock()
		defer q.s.mu.Unlock()
		clear(q.s.settings)
		return done("RESET", -1), c.end()
	}
	parts, err := c.parts("a setting")
	if err == nil {
		err = c.end()
	}
	if err != nil {
		return nil, err
	}
	name := strings.ToLower(strings.Join(parts, "."))
	if _, err := findSetting(name); err != nil {
		return nil, err
	}
	q.s.mu.Lock()
	defer q.s.mu.Unlock()
	delete(q.s.settings, name)
	return done("RESET", -1), nil
}

// textDefaults are the settings of bm25 and match.
func (s *Session) textDefaults(analyzer *string, p *similarity.Params) {
	*analyzer, _ = s.setting("bm25.analyzer")
	for name, into := range map[string]*float64{"bm25.k1": &p.K1, "bm25.b": &p.B} {
		v, _ := s.setting(name)
		*into, _ = strconv.ParseFloat(v, 64)
	}
}

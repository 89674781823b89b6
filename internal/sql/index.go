package sql

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/overlakedb/overlake/internal/declared"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/overlay"
	"github.com/overlakedb/overlake/internal/sql/lex"
)

// createIndex runs CREATE INDEX [CONCURRENTLY] [IF NOT EXISTS] [name] ON table [USING kind] (columns) [WITH (parameters)],
// with the cursor behind INDEX. It returns when the index covers the table, or with async at once; so does IF NOT EXISTS
// where the index is there.
func (q *statement) createIndex(c *cursor) (*Result, error) {
	c.accept("CONCURRENTLY") // every build lets readers and writers go on
	quiet := c.accept("IF", "NOT", "EXISTS")
	var spec overlay.Spec
	var err error
	if !c.peek().Is("ON") {
		if spec.Name, err = c.name("an index"); err != nil {
			return nil, err
		}
	}
	if err := c.expect("ON"); err != nil {
		return nil, err
	}
	c.accept("ONLY")
	id, err := q.named(c)
	if err != nil {
		return nil, err
	}
	if c.accept("USING") {
		at := c.peek().Start
		if spec.Kind, err = c.name("a kind of index"); err != nil {
			return nil, err
		}
		spec.Kind = strings.ToLower(spec.Kind)
		switch {
		case overlay.IsKind(spec.Kind), spec.Kind == "composite":
		case spec.Kind == "btree", spec.Kind == "hash": // what PostgreSQL's tools write; the bitmap index answers the same questions
			spec.Kind = overlay.Bitmap
		default:
			return nil, errs.Wrap(errs.Unsupported, "sql.index", lex.At(c.text, at, "there is no index of kind "+spec.Kind), errs.Hint("write USING %s", strings.Join(overlay.Kinds(), ", ")))
		}
	}
	var class lex.Token
	if spec.Columns, class, err = c.indexColumns(overlay.OfVectors(spec.Kind) || spec.Kind == ""); err != nil {
		return nil, err
	}
	async := false
	if c.accept("WITH") {
		if spec.Params, async, err = c.indexParams(); err != nil {
			return nil, err
		}
	}
	if m, ok := vector.ParseMetric(class.Name()); ok {
		metric := m.String()
		if m, ok := spec.Params["metric"]; ok {
			return nil, errs.New(errs.Invalid, "sql.index", "the operator class says "+metric+", and WITH says metric = "+m, errs.Hint("leave one of them out"))
		}
		if spec.Params == nil {
			spec.Params = map[string]string{}
		}
		spec.Params["metric"] = class.Name() // the table knows whether its column takes it
	}
	if c.peek().Is("WHERE") || c.peek().Is("INCLUDE") || c.peek().Is("TABLESPACE") || c.peek().Is("NULLS") {
		return nil, errs.Wrap(errs.Unsupported, "sql.index", lex.At(c.text, c.peek().Start, strings.ToUpper(c.peek().Text)+" in CREATE INDEX is not supported"))
	}
	if err := c.end(); err != nil {
		return nil, err
	}
	t, err := q.table(id)
	if err != nil {
		return nil, err
	}
	if err := checkClass(t, spec.Columns[0], c.text, class); err != nil {
		return nil, err
	}
	o := q.s.env.overlays.Of(t)
	d, err := o.Define(q.ctx, t, spec)
	if quiet && errs.Is(err, errs.Exists) {
		err = nil // its build may have been interrupted
	}
	if err != nil {
		return nil, err
	}
	if async {
		q.s.env.overlays.Start(t)
		return done("CREATE INDEX", -1), nil
	}
	_, err = o.Cover(q.ctx, t, overlay.BuildOptions{Only: []string{d.Name}})
	return done("CREATE INDEX", -1), indexError(err, d.Name)
}

// checkClass refuses an operator class of pgvector's that is of another type than the column.
func checkClass(t *lake.Table, column, text string, class lex.Token) error {
	of, _, _ := strings.Cut(strings.ToLower(class.Name()), "_")
	for _, f := range t.Schema().Fields() {
		d, ok := declared.Of(f)
		if !strings.EqualFold(f.Name, column) || !ok || d.Name == of || of != "vector" && of != "halfvec" || d.Name != "vector" && d.Name != "halfvec" {
			continue // the index tells of other types
		}
		return errs.Wrap(errs.Invalid, "sql.index", lex.At(text, class.Start, "operator class "+class.Name()+" does not accept data type "+d.Name),
			errs.Hint("write %s", strings.Replace(class.Name(), of, d.Name, 1)))
	}
	return nil
}

// indexError tells that an index stays when its build fails.
func indexError(err error, name string) error {
	if err == nil {
		return nil
	}
	return errs.With(err, errs.Hint("the index %s is there and covers a part of the table; CREATE INDEX IF NOT EXISTS goes on, DROP INDEX %s removes it", name, lex.QuoteIdent(name)))
}

// indexColumns reads the columns of CREATE INDEX. Order and operator classes that other databases know are refused unless
// they say what holds anyway; of an index of vectors the operator class says the metric, and is given as a word.
func (c *cursor) indexColumns(vectors bool) (out []string, class lex.Token, err error) {
	if err := c.expect("("); err != nil {
		return nil, class, err
	}
	for {
		at := c.peek().Start
		expression := func() error {
			return errs.Wrap(errs.Unsupported, "sql.index", lex.At(c.text, at, "indexes on expressions are not supported"), errs.Hint("name a column"))
		}
		if c.peek().Is("(") {
			return nil, class, expression()
		}
		name, err := c.name("a column")
		if err != nil {
			return nil, class, err
		}
		if c.peek().Kind == lex.Op || c.peek().Is("(") || c.peek().Is("::") || c.peek().Is("[") {
			return nil, class, expression()
		}
		if c.peek().Is("COLLATE") {
			return nil, class, errs.Wrap(errs.Unsupported, "sql.index", lex.At(c.text, c.peek().Start, "COLLATE in CREATE INDEX is not supported: text is compared byte by byte"))
		}
		out = append(out, name)
		if t := c.peek(); vectors && t.IsIdent() && !t.Is("ASC") && !t.Is("DESC") && !t.Is("NULLS") {
			if _, ok := vector.ParseMetric(t.Name()); !ok {
				return nil, class, errs.Wrap(errs.Unsupported, "sql.index", lex.At(c.text, t.Start, "operator class "+t.Name()+" is not supported"),
					errs.Hint("write vector_l2_ops, vector_cosine_ops, vector_ip_ops or vector_l1_ops; for other types sparsevec_l2_ops and so on, bit_hamming_ops or bit_jaccard_ops"))
			}
			class = c.next()
		}
		c.accept("ASC")
		if c.accept("NULLS") && !c.accept("LAST") && !c.accept("FIRST") {
			return nil, class, c.errorf("expected FIRST or LAST")
		}
		switch {
		case c.accept(","):
			continue
		case c.accept(")"):
			return out, class, nil
		case c.peek().Is("DESC"):
			c.next() // an index is read from both ends
			if c.accept("NULLS") && !c.accept("LAST") && !c.accept("FIRST") {
				return nil, class, c.errorf("expected FIRST or LAST")
			}
			if c.accept(",") {
				continue
			}
			if c.accept(")") {
				return out, class, nil
			}
		case c.peek().IsIdent():
			return nil, class, errs.Wrap(errs.Unsupported, "sql.index", lex.At(c.text, c.peek().Start, "operator class "+c.peek().Name()+" is not supported"))
		}
		return nil, class, c.errorf("expected , or )")
	}
}

// indexParams reads WITH (async, name = value, …).
func (c *cursor) indexParams() (params map[string]string, async bool, err error) {
	if !c.peek().Is("(") {
		return nil, false, c.errorf("expected (")
	}
	if c.at+2 < len(c.tokens) && c.tokens[c.at+1].Is("async") && (c.tokens[c.at+2].Is(",") || c.tokens[c.at+2].Is(")")) {
		async = true
		if c.tokens[c.at+2].Is(")") {
			c.at += 3
			return nil, true, nil
		}
		c.at += 2
		c.tokens[c.at] = lex.Token{Kind: lex.Punct, Start: c.tokens[c.at].Start, End: c.tokens[c.at].End, Text: "("}
	}
	if params, err = c.properties(); err != nil {
		return nil, false, err
	}
	if v, ok := params["async"]; ok {
		if async, err = strconv.ParseBool(v); err != nil {
			return nil, false, errs.New(errs.Invalid, "sql.index", "async is true or false", errs.On(v))
		}
		delete(params, "async")
	}
	return params, async, nil
}

// findIndex finds the table of an index by the index's name, in the current schema or the one named.
func (q *statement) findIndex(c *cursor) (*lake.Table, string, error) {
	at := c.peek().Start
	parts, err := c.parts("an index")
	if err != nil {
		return nil, "", err
	}
	if len(parts) > 2 {
		return nil, "", lex.Errorf(c.text, at, "an index is named by schema and name")
	}
	name := parts[len(parts)-1]
	if c.accept("ON") {
		id, err := q.named(c)
		if err != nil {
			return nil, "", err
		}
		t, err := q.table(id)
		return t, name, err
	}
	q.s.mu.Lock()
	schema := q.s.schema
	q.s.mu.Unlock()
	if len(parts) == 2 {
		schema = parts[0]
	}
	var found *lake.Table
	var names []string
	err = q.eachTableOf(schema, func(t *lake.Table) error {
		list, err := q.s.env.overlays.Of(t).List(q.ctx)
		if err != nil {
			return err
		}
		for _, d := range list {
			names = append(names, d.Name)
			if strings.EqualFold(d.Name, name) {
				if found != nil {
					return errs.New(errs.Invalid, "sql.index", "several tables have an index of this name", errs.On(name), errs.Hint("name the table too: %s ON %s", lex.QuoteIdent(name), t.Ident()))
				}
				found = t
			}
		}
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	if found == nil {
		hint := "SHOW INDEXES FROM t lists those of a table"
		if near := errs.Nearest(name, names, 3); near != "" {
			hint = "did you mean " + near + "?"
		}
		return nil, "", errs.New(errs.NotFound, "sql.index", "there is no such index in schema "+schema, errs.On(name), errs.Hint("%s", hint))
	}
	return found, name, nil
}

// dropIndex runs DROP INDEX [IF EXISTS] name [ON table], with the cursor behind INDEX.
func (q *statement) dropIndex(c *cursor) (*Result, error) {
	c.accept("CONCURRENTLY")
	quiet := c.accept("IF", "EXISTS")
	t, name, err := q.findIndex(c)
	if err == nil {
		if err := c.end(); err != nil {
			return nil, err
		}
		err = q.s.env.overlays.Of(t).Drop(q.ctx, name)
	}
	if quiet && errs.Is(err, errs.NotFound) {
		err = nil
	}
	return done("DROP INDEX", -1), err
}

// alterIndex runs ALTER INDEX name [ON table] SET (parameters) and RENAME TO, with the cursor behind INDEX.
func (q *statement) alterIndex(c *cursor) (*Result, error) {
	quiet := c.accept("IF", "EXISTS")
	t, name, err := q.findIndex(c)
	if quiet && errs.Is(err, errs.NotFound) {
		return done("ALTER INDEX", -1), nil
	}
	if err != nil {
		return nil, err
	}
	o := q.s.env.overlays.Of(t)
	switch {
	case c.accept("RENAME", "TO"):
		to, err := c.name("an index")
		if err == nil {
			err = c.end()
		}
		if err != nil {
			return nil, err
		}
		return done("ALTER INDEX", -1), o.Rename(q.ctx, name, to)
	case c.accept("SET"):
		params, async, err := c.indexParams()
		if err == nil {
			err = c.end()
		}
		if err != nil {
			return nil, err
		}
		d, err := o.Alter(q.ctx, name, params)
		if err != nil {
			return nil, err
		}
		if async {
			q.s.env.overlays.Start(t)
			return done("ALTER INDEX", -1), nil
		}
		_, err = o.Cover(q.ctx, t, overlay.BuildOptions{Only: []string{d.Name}})
		return done("ALTER INDEX", -1), indexError(err, d.Name)
	}
	return nil, c.errorf("expected SET or RENAME TO")
}

// reindex runs REINDEX INDEX name [ON table] and REINDEX TABLE table: everything is built anew.
func (q *statement) reindex(c *cursor) (*Result, error) {
	c.next()
	opts := overlay.BuildOptions{Anew: true}
	var t *lake.Table
	switch {
	case c.accept("INDEX"):
		c.accept("CONCURRENTLY")
		found, name, err := q.findIndex(c)
		if err != nil {
			return nil, err
		}
		t, opts.Only = found, []string{name}
	case c.accept("TABLE"):
		c.accept("CONCURRENTLY")
		id, err := q.named(c)
		if err != nil {
			return nil, err
		}
		if t, err = q.table(id); err != nil {
			return nil, err
		}
	default:
		return nil, c.errorf("expected INDEX or TABLE")
	}
	if err := c.end(); err != nil {
		return nil, err
	}
	o := q.s.env.overlays.Of(t)
	if _, err := o.Cover(q.ctx, t, opts); err != nil {
		return nil, err
	}
	_, err := o.Collect(q.ctx, t)
	return done("REINDEX", -1), err
}

// showIndexes runs SHOW INDEXES [FROM table], with the cursor behind INDEXES.
func (q *statement) showIndexes(c *cursor) (*Result, error) {
	var tables []*lake.Table
	if c.accept("FROM") || c.accept("IN") || c.accept("ON") {
		id, err := q.lastNamed(c)
		if err != nil {
			return nil, err
		}
		t, err := q.table(id)
		if err != nil {
			return nil, err
		}
		tables = append(tables, t)
	} else {
		if err := c.end(); err != nil {
			return nil, err
		}
		q.s.mu.Lock()
		schema := q.s.schema
		q.s.mu.Unlock()
		err := q.eachTableOf(schema, func(t *lake.Table) error {
			tables = append(tables, t)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	rows := [][]string{}
	for _, t := range tables {
		list, err := q.s.env.overlays.Of(t).Status(q.ctx, t)
		if err != nil {
			return nil, err
		}
		for _, s := range list {
			rows = append(rows, []string{s.Name, t.Ident().String(), s.Kind, strings.Join(s.Columns, ", "), paramText(s.Params),
				strconv.Itoa(s.Covered) + " of " + strconv.Itoa(s.Files), size(s.Bytes)})
		}
	}
	return textRows("SHOW", []string{"name", "table", "kind", "columns", "parameters", "files covered", "size"}, rows), nil
}

func paramText(params map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(params)) {
		parts = append(parts, k+" = "+params[k])
	}
	return strings.Join(parts, ", ")
}

// indexColumns are the columns that a property asks to index.
func indexColumns(properties map[string]string) (names []string) {
	for name := range strings.SplitSeq(properties[lake.IndexColumnsKey], ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// checkIndexColumns refuses a table that could not get the indexes that its properties ask for, before it is there.
func checkIndexColumns(spec lake.CreateSpec) error {
	var columns []string
	for _, f := range spec.Schema.Fields() {
		columns = append(columns, f.Name)
	}
	seen := map[int]bool{}
	for _, name := range indexColumns(spec.Properties) {
		at := slices.IndexFunc(columns, func(c string) bool { return strings.EqualFold(c, name) })
		switch {
		case at < 0:
			hint := "the columns are " + strings.Join(columns, ", ")
			if near := errs.Nearest(name, columns, 2); near != "" {
				hint = "did you mean " + near + "?"
			}
			return errs.Wrap(errs.NotFound, "sql.create", errs.New(errs.NotFound, "", "there is no such column", errs.On(name)), errs.On(lake.IndexColumnsKey), errs.Hint("%s", hint))
		case seen[at]:
			return errs.New(errs.Invalid, "sql.create", "column "+name+" is named twice", errs.On(lake.IndexColumnsKey))
		case overlay.Indexable(spec.Schema.Field(at)) != nil:
			return errs.With(overlay.Indexable(spec.Schema.Field(at)), errs.On(lake.IndexColumnsKey))
		}
		seen[at] = true
	}
	return nil
}

// Created is told of a new table: it gets the indexes that its properties ask for.
func (e *Env) Created(ctx context.Context, t *lake.Table) error {
	for _, name := range indexColumns(t.Properties()) {
		if _, err := e.overlays.Of(t).Define(ctx, t, overlay.Spec{Columns: []string{name}}); err != nil {
			return errs.With(err, errs.On(lake.IndexColumnsKey))
		}
	}
	return nil
}

// replaced is told of a table that was made anew in its place: the old indexes go, as its old columns did.
func (e *Env) replaced(ctx context.Context, t *lake.Table) error {
	e.overlays.Of(t).ColumnsDropped(ctx, t)
	if err := e.Created(ctx, t); err != nil {
		return err
	}
	e.Committed(ctx, t)
	return nil
}

// Committed is told of new rows in a table: its indexes follow in the background.
func (e *Env) Committed(ctx context.Context, t *lake.Table) { e.overlays.Follow(ctx, t) }

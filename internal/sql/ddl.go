package sql

import (
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/sql/lex"
)

func unsupported(c *cursor, what string) error {
	return errs.Wrap(errs.Unsupported, "sql.run", lex.At(c.text, 0, what+" is not supported"))
}

// create runs CREATE SCHEMA and CREATE [OR REPLACE] TABLE [IF NOT EXISTS] name [(columns)] [options] [AS query].
func (q *statement) create(c *cursor) (*Result, error) {
	c.next()
	replace := c.accept("OR", "REPLACE")
	if c.accept("SCHEMA") || c.accept("NAMESPACE") {
		quiet := c.accept("IF", "NOT", "EXISTS")
		name, err := c.name("a schema")
		if err == nil {
			err = c.end()
		}
		if err != nil {
			return nil, err
		}
		err = q.s.env.catalog.CreateNamespace(q.ctx, name)
		if quiet && errs.Is(err, errs.Exists) {
			err = nil
		}
		return done("CREATE SCHEMA", -1), err
	}
	if !replace && (c.peek().Is("INDEX") || c.peek().Is("UNIQUE")) {
		if c.accept("UNIQUE") {
			return nil, errs.Wrap(errs.Unsupported, "sql.index", lex.At(c.text, c.tokens[c.at-1].Start, "UNIQUE in CREATE INDEX is not supported: an index finds rows, it does not forbid any"), errs.Hint("leave UNIQUE out"))
		}
		if err := c.expect("INDEX"); err != nil {
			return nil, err
		}
		return q.createIndex(c)
	}
	if !c.accept("TABLE") {
		return nil, unsupported(c, "CREATE "+strings.ToUpper(c.peek().Text))
	}
	quiet := c.accept("IF", "NOT", "EXISTS")
	id, err := q.named(c)
	if err != nil {
		return nil, err
	}
	if same, ok := q.sameName(id); ok {
		id = same // t and T are one table
	}
	var spec lake.CreateSpec
	var fields []arrow.Field
	if c.accept("(") {
		for {
			if c.peek().Is("PRIMARY") || c.peek().Is("CONSTRAINT") || c.peek().Is("FOREIGN") || c.peek().Is("CHECK") || c.peek().Is("UNIQUE") {
				return nil, errs.Wrap(errs.Unsupported, "sql.create", lex.At(c.text, c.peek().Start, "table constraints are not supported: "+strings.ToUpper(c.peek().Text)))
			}
			f, def, err := c.columnDef()
			if err != nil {
				return nil, err
			}
			if def != nil {
				if spec.Defaults == nil {
					spec.Defaults = map[string]predicate.Value{}
				}
				spec.Defaults[f.Name] = def
			}
			fields = append(fields, f)
			if c.accept(")") {
				break
			}
			if !c.accept(",") {
				return nil, c.errorf("expected , or )")
			}
		}
	}
	for !c.done() && !c.peek().Is("AS") {
		switch {
		case c.accept("PARTITIONED", "BY"):
			if spec.Partition, err = c.partition(); err != nil {
				return nil, err
			}
		case c.accept("WITH"), c.accept("TBLPROPERTIES"):
			if spec.Properties, err = c.properties(); err != nil {
				return nil, err
			}
		case c.accept("USING", "ICEBERG"): // as Spark writes it: there is no other kind here
		case c.accept("COMMENT"):
			s := c.next()
			if s.Kind != lex.String {
				return nil, lex.Errorf(c.text, s.Start, "COMMENT needs a string")
			}
			spec.Comment = s.Value()
		default:
			return nil, c.errorf("expected PARTITIONED BY, WITH, TBLPROPERTIES, COMMENT or AS")
		}
	}
	if !c.done() {
		c.next()
		return q.createAs(c, id, spec, fields, quiet, replace)
	}
	if len(fields) == 0 {
		return nil, c.errorf("expected columns or AS SELECT")
	}
	spec.Schema = arrow.NewSchema(fields, nil)
	if err := checkIndexColumns(spec); err != nil {
		return nil, err
	}
	t, err := q.s.env.catalog.Create(q.ctx, id, spec)
	switch {
	case errs.Is(err, errs.Exists) && quiet:
		return done("CREATE TABLE", -1), nil
	case errs.Is(err, errs.Exists) && replace:
		old, err := q.s.env.catalog.Load(q.ctx, id)
		if err == nil {
			if old, _, err = old.Replace(q.ctx, spec, nil, lake.WriteOptions{}); err == nil {
				err = q.s.env.replaced(q.ctx, old)
			}
		}
		return done("CREATE TABLE", -1), err
	}
	if err != nil {
		return nil, err
	}
	if err := q.s.env.Created(q.ctx, t); err != nil {
		_ = q.s.env.catalog.Drop(q.ctx, id)
		return nil, err
	}
	return done("CREATE TABLE", -1), nil
}

// createAs makes a table from the rows of a query. A failure on the way leaves no table.
func (q *statement) createAs(c *cursor, id lake.Ident, spec lake.CreateSpec, fields []arrow.Field, quiet, replace bool) (*Result, error) {
	if len(fields) > 0 {
		return nil, errs.New(errs.Unsupported, "sql.create", "columns together with AS", errs.Hint("name and cast the columns in the SELECT"))
	}
	old, err := q.s.env.catalog.Load(q.ctx, id)
	switch {
	case err == nil && quiet:
		return done("CREATE TABLE", 0), nil
	case err == nil && !replace:
		return nil, errs.New(errs.Exists, "sql.create", "the table exists already", errs.On(id.String()), errs.Hint("use CREATE TABLE IF NOT EXISTS, CREATE OR REPLACE TABLE, or drop it first"))
	case err != nil && !errs.Is(err, errs.NotFound):
		return nil, err
	}
	rows, err := q.query(q.part(c.peek().Start, len(q.text), "", ""), "SELECT")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	spec.Schema = rows.Schema()
	if err := checkIndexColumns(spec); err != nil {
		return nil, err
	}
	var t *lake.Table
	if old == nil {
		t, err = q.s.env.catalog.Create(q.ctx, id, spec)
		switch {
		case errs.Is(err, errs.Exists) && quiet:
			return done("CREATE TABLE", 0), nil // somebody else was faster
		case errs.Is(err, errs.Exists) && replace:
			old, err = q.s.env.catalog.Load(q.ctx, id)
		}
		if err != nil {
			return nil, err
		}
	}
	if old != nil {
		// One commit: the query may read the table that it replaces, and so may everybody else until then.
		after, info, err := old.Replace(q.ctx, spec, &reader{rows}, lake.WriteOptions{})
		if err == nil {
			err = q.s.env.replaced(q.ctx, after)
		}
		return done("CREATE TABLE", info.Rows), err
	}
	t, info, err := t.Append(q.ctx, &reader{rows}, lake.WriteOptions{})
	if err == nil {
		err = q.s.env.Created(q.ctx, t)
	}
	if err != nil {
		_ = q.s.env.catalog.Drop(q.ctx, id)
		return nil, err
	}
	q.s.env.Committed(q.ctx, t)
	return done("CREATE TABLE", info.Rows), nil
}

// reader gives a result to the lake as a record reader.
type reader struct{ r stream }

func (r *reader) Retain()                        {}
func (r *reader) Release()                       {}
func (r *reader) Schema() *arrow.Schema          { return r.r.Schema() }
func (r *reader) Next() bool                     { return r.r.Next() }
func (r *reader) RecordBatch() arrow.RecordBatch { return r.r.Record() }
func (r *reader) Record() arrow.RecordBatch      { return r.r.Record() }
func (r *reader) Err() error                     { return r.r.Err() }

var _ array.RecordReader = (*reader)(nil)

// partition reads (column, transform(…), …): bucket(16, c), truncate(4, c), year(c), month(c), day(c), hour(c), with the
// arguments in either order and plural names too.
func (c *cursor) partition() ([]lake.PartitionField, error) {
	if !c.peek().Is("(") {
		return nil, c.errorf("expected (")
	}
	args, end := lex.Args(c.tokens, c.at)
	if end < 0 {
		return nil, c.errorf("this bracket is never closed")
	}
	if len(args) == 0 {
		return nil, c.errorf("expected columns to partition by")
	}
	c.at = end + 1
	var out []lake.PartitionField
	for _, a := range args {
		in := &cursor{text: c.text, tokens: a}
		name, err := in.name("a column")
		if err != nil {
			return nil, err
		}
		f := lake.PartitionField{Column: name, Transform: "identity"}
		width := ""
		if in.peek().Is("[") { // bucket[16](id)
			in.next()
			if width = in.next().Text; in.expect("]") != nil || !in.peek().Is("(") {
				return nil, in.errorf("expected ]( behind the width of a transform")
			}
		}
		if in.accept("(") {
			f.Transform = strings.TrimSuffix(strings.ToLower(name), "s")
			f.Column = ""
			n := width
			for !in.accept(")") {
				t := in.next()
				switch {
				case t.Kind == lex.Number:
					n = t.Text
				case t.IsIdent():
					f.Column = t.Name()
				case t.Is(","):
				default:
					return nil, lex.Errorf(c.text, t.Start, "a partition is a column or a transform of a column")
				}
			}
			if n != "" {
				f.Transform += "[" + n + "]"
			}
		}
		if err := in.end(); err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// drop runs DROP TABLE and DROP SCHEMA.
func (q *statement) drop(c *cursor) (*Result, error) {
	c.next()
	if c.accept("SCHEMA") || c.accept("NAMESPACE") {
		quiet := c.accept("IF", "EXISTS")
		name, err := c.name("a schema")
		if err != nil {
			return nil, err
		}
		cascade := c.accept("CASCADE")
		if !cascade {
			c.accept("RESTRICT")
		}
		if err = c.end(); err != nil {
			return nil, err
		}
		if cascade {
			err = q.emptySchema(name)
		}
		if err == nil {
			err = q.s.env.catalog.DropNamespace(q.ctx, name)
		}
		if quiet && errs.Is(err, errs.NotFound) {
			err = nil
		}
		return done("DROP SCHEMA", -1), err
	}
	if c.accept("INDEX") {
		return q.dropIndex(c)
	}
	if !c.accept("TABLE") {
		return nil, unsupported(c, "DROP "+strings.ToUpper(c.peek().Text))
	}
	quiet := c.accept("IF", "EXISTS")
	id, err := q.lastNamed(c)
	if err != nil {
		return nil, err
	}
	err = q.s.env.catalog.Drop(q.ctx, id)
	if errs.Is(err, errs.NotFound) {
		if same, ok := q.sameName(id); ok {
			err = q.s.env.catalog.Drop(q.ctx, same)
		}
	}
	if quiet && errs.Is(err, errs.NotFound) {
		err = nil
	}
	return done("DROP TABLE", -1), err
}

// emptySchema drops the tables of a schema, one after the other: who is stopped on the way has dropped some of them.
// Mounted tables are not dropped, so a schema with one stays as it is.
func (q *statement) emptySchema(name string) error {
	if name == lake.DefaultNamespace {
		return errs.New(errs.Invalid, "sql.drop", "the default schema cannot be dropped", errs.On(name))
	}
	tables, err := q.s.env.catalog.Tables(q.ctx, name)
	if err != nil {
		return err
	}
	for _, id := range tables {
		t, err := q.s.env.catalog.Load(q.ctx, id)
		if err == nil && t.ReadOnly() {
			return errs.New(errs.Denied, "sql.drop", "the schema holds a table that cannot be dropped", errs.On(id.String()), errs.Hint("overlake mount --remove %s forgets it if it is mounted; a warehouse that is open read-only is not changed", id))
		}
	}
	for _, id := range tables {
		if err := q.s.env.catalog.Drop(q.ctx, id); err != nil && !errs.Is(err, errs.NotFound) {
			return err
		}
	}
	return nil
}

// alter runs ALTER TABLE.
func (q *statement) alter(c *cursor) (*Result, error) {
	c.next()
	if c.accept("INDEX") {
		return q.alterIndex(c)
	}
	if !c.accept("TABLE") {
		return nil, unsupported(c, "ALTER "+strings.ToUpper(c.peek().Text))
	}
	quiet := c.accept("IF", "EXISTS")
	id, err := q.named(c)
	if err != nil {
		return nil, err
	}
	t, err := q.table(id)
	if quiet && errs.Is(err, errs.NotFound) {
		return done("ALTER TABLE", -1), nil
	}
	if err != nil {
		return nil, err
	}
	ok := done("ALTER TABLE", -1)
	switch {
	case c.accept("RENAME", "TO"):
		name, err := c.name("a table")
		if err == nil {
			err = c.end()
		}
		if err != nil {
			return nil, err
		}
		return ok, q.s.env.catalog.Rename(q.ctx, t.Ident(), lake.Ident{Namespace: t.Ident().Namespace, Name: name})
	case c.accept("SET"):
		if !c.accept("TBLPROPERTIES") && !c.accept("PROPERTIES") && !c.peek().Is("(") {
			return nil, c.errorf("expected ( or TBLPROPERTIES")
		}
		props, err := c.properties()
		if err == nil {
			err = c.end()
		}
		if err != nil {
			return nil, err
		}
		if _, given := props[lake.IndexColumnsKey]; given {
			return nil, errs.New(errs.Unsupported, "sql.alter", "this property is read when a table is made", errs.On(lake.IndexColumnsKey), errs.Hint("CREATE INDEX ON %s (column)", t.Ident()))
		}
		_, err = t.SetProperties(q.ctx, props)
		return ok, err
	case c.accept("RESET"), c.accept("UNSET"):
		c.accept("TBLPROPERTIES")
		if err := c.expect("("); err != nil {
			return nil, err
		}
		var remove []string
		for !c.accept(")") {
			if s := c.peek(); s.Kind == lex.String {
				remove = append(remove, c.next().Value())
			} else {
				p, err := c.parts("a property")
				if err != nil {
					return nil, err
				}
				remove = append(remove, strings.Join(p, "."))
			}
			c.accept(",")
		}
		_, err := t.SetProperties(q.ctx, nil, remove...)
		return ok, err
	}
	var changes []lake.SchemaChange
	for {
		change, err := q.schemaChange(c, t)
		if err != nil {
			return nil, err
		}
		if change != nil {
			changes = append(changes, change)
		}
		if !c.accept(",") {
			break
		}
	}
	if err := c.end(); err != nil {
		return nil, err
	}
	if len(changes) == 0 {
		return ok, nil
	}
	if t, err = t.AlterSchema(q.ctx, changes...); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(changes, func(c lake.SchemaChange) bool { _, is := c.(lake.DropColumn); return is }) {
		q.s.env.overlays.Of(t).ColumnsDropped(q.ctx, t)
	}
	return ok, nil
}

func (q *statement) schemaChange(c *cursor, t *lake.Table) (lake.SchemaChange, error) {
	has := func(name string) bool {
		for _, f := range t.Schema().Fields() {
			if strings.EqualFold(f.Name, name) {
				return true
			}
		}
		return false
	}
	switch {
	case c.accept("ADD"):
		c.accept("COLUMN")
		quiet := c.accept("IF", "NOT", "EXISTS")
		f, def, err := c.columnDef()
		if err != nil || quiet && has(f.Name) {
			return nil, err
		}
		return lake.AddColumn{Field: f, Default: def}, nil
	case c.accept("DROP"):
		c.accept("COLUMN")
		quiet := c.accept("IF", "EXISTS")
		name, err := c.name("a column")
		if err != nil || quiet && !has(name) {
			return nil, err
		}
		return lake.DropColumn{Name: name}, nil
	case c.accept("RENAME"):
		c.accept("COLUMN")
		from, err := c.name("a column")
		if err == nil {
			err = c.expect("TO")
		}
		if err != nil {
			return nil, err
		}
		to, err := c.name("a column")
		return lake.RenameColumn{From: from, To: to}, err
	case c.accept("ALTER"):
		c.accept("COLUMN")
		name, err := c.name("a column")
		if err != nil {
			return nil, err
		}
		switch {
		case c.accept("DROP", "NOT", "NULL"):
			return lake.DropNotNull{Name: name}, nil
		case c.accept("SET", "DATA", "TYPE"), c.accept("TYPE"), c.accept("SET", "TYPE"):
			typ, _, err := c.typeName()
			return lake.PromoteColumn{Name: name, Type: typ}, err
		case c.peek().Is("SET"), c.peek().Is("DROP"):
			return nil, errs.Wrap(errs.Unsupported, "sql.alter", lex.At(c.text, c.peek().Start, "only DROP NOT NULL and TYPE are supported here"))
		}
		return nil, c.errorf("expected TYPE or DROP NOT NULL")
	}
	return nil, c.errorf("expected ADD, DROP, RENAME, ALTER, SET or RESET")
}

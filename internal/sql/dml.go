package sql

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/engine"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/sql/cast"
	"github.com/overlakedb/overlake/internal/sql/coltype"
	"github.com/overlakedb/overlake/internal/sql/lex"
)

// insert runs INSERT INTO table and INSERT OVERWRITE [TABLE] table, followed by [(columns)] query, BY NAME query or DEFAULT
// VALUES. The query's columns are taken by position, or by name, and cast to the table's types. Columns of the table that
// get no value get their default.
func (q *statement) insert(c *cursor) (*Result, error) {
	c.next()
	overwrite := c.accept("OVERWRITE")
	if overwrite {
		c.accept("TABLE")
		c.accept("INTO")
	} else if err := c.expect("INTO"); err != nil {
		return nil, err
	}
	id, err := q.named(c)
	if err != nil {
		return nil, err
	}
	t, err := q.table(id)
	if err != nil {
		return nil, err
	}
	fields, named := t.Schema().Fields(), false
	if c.peek().Is("(") && c.at+1 < len(c.tokens) && !c.tokens[c.at+1].Is("SELECT") && !c.tokens[c.at+1].Is("WITH") && !c.tokens[c.at+1].Is("VALUES") && !c.tokens[c.at+1].Is("(") {
		if fields, err = q.insertColumns(c, t); err != nil {
			return nil, err
		}
		named = true
	}
	byName := false
	switch {
	case named && (c.peek().Is("BY") || c.peek().Is("DEFAULT")):
		return nil, errs.Wrap(errs.Invalid, "sql.insert", lex.At(c.text, c.peek().Start, "INSERT takes a list of columns, or BY NAME or DEFAULT VALUES, not both"))
	case c.accept("DEFAULT", "VALUES"):
		if err := c.end(); err != nil {
			return nil, err
		}
		// One row without any column: the lake fills in the defaults.
		row := array.NewRecordBatch(emptySchema, nil, 1)
		return q.write(t, newBatches(emptySchema, row), overwrite, fields)
	case c.accept("BY", "NAME"):
		byName = true
	case c.accept("BY", "POSITION"):
	case c.peek().Is("BY"):
		return nil, c.errorf("expected BY NAME or BY POSITION")
	}
	if c.done() {
		return nil, c.errorf("expected VALUES or SELECT")
	}
	for _, k := range c.tokens[c.at:] {
		if k.Is("RETURNING") || k.Is("CONFLICT") {
			return nil, errs.Wrap(errs.Unsupported, "sql.insert", lex.At(c.text, k.Start, "RETURNING and ON CONFLICT are not supported"))
		}
	}
	if byName {
		return q.insertByName(c, t, overwrite)
	}
	var cols, names []string
	for i, f := range fields {
		names = append(names, fmt.Sprintf("overlake_c%d", i))
		col, err := castTo(f, names[i])
		if err != nil {
			return nil, err
		}
		cols = append(cols, col)
	}
	// Columns that the query has and the table has not come last, so that they can be counted.
	prefix := "SELECT " + strings.Join(cols, ", ") + ", * EXCLUDE (" + strings.Join(names, ", ") + ") FROM ("
	suffix := "\n) AS overlake_rows(" + strings.Join(names, ", ") + ")"
	first := c.peek()
	w := q.part(first.Start, len(c.text), "", "")
	if first.Is("VALUES") {
		edits, err := castCells(w.text, fields, func(f arrow.Field) (string, error) { return defaultCell(f, t) })
		if err != nil {
			return nil, err
		}
		w.splice(edits)
	}
	w.splice([]lex.Edit{{New: prefix}, {Start: len(w.text), End: len(w.text), New: suffix}})
	rows, err := q.query(w, "INSERT")
	if err != nil {
		return nil, insertError(err, fields, t)
	}
	defer rows.Close()
	if n := rows.Schema().NumFields(); n > len(fields) {
		return nil, lex.Errorf(c.text, first.Start, "%s", countMessage(n, len(fields), t))
	}
	return q.write(t, rows, overwrite, fields)
}

// insertByName takes the columns of a query by their names; the others of the table get their defaults.
func (q *statement) insertByName(c *cursor, t *lake.Table, overwrite bool) (*Result, error) {
	first := c.peek()
	w, err := q.rewrite(q.part(first.Start, len(c.text), "", ""))
	if err != nil {
		return nil, err
	}
	const describe, end = "DESCRIBE (", "\n)"
	w.splice([]lex.Edit{{New: describe}, {Start: len(w.text), End: len(w.text), New: end}})
	names, err := q.firstColumn(w)
	if err != nil {
		return nil, err
	}
	var fields []arrow.Field
	var cols []string
	for _, name := range names {
		i := slices.IndexFunc(t.Schema().Fields(), func(f arrow.Field) bool { return strings.EqualFold(f.Name, name) })
		if i < 0 {
			return nil, noColumn(c.text, first.Start, name, t)
		}
		f := t.Schema().Field(i)
		if slices.ContainsFunc(fields, func(o arrow.Field) bool { return o.Name == f.Name }) {
			return nil, lex.Errorf(c.text, first.Start, "the query has the column %s twice", f.Name)
		}
		col, err := castTo(f, lex.QuoteIdent(name))
		if err != nil {
			return nil, err
		}
		fields, cols = append(fields, f), append(cols, col)
	}
	w.splice([]lex.Edit{{End: len(describe), New: "SELECT " + strings.Join(cols, ", ") + " FROM ("}, {Start: len(w.text), End: len(w.text), New: " AS overlake_rows"}})
	rows, err := q.start(w)
	if err != nil {
		return nil, insertError(err, fields, t)
	}
	defer rows.Close()
	return q.write(t, rows, overwrite, fields)
}

// firstColumn gives the texts of the first column of a rewritten query.
func (q *statement) firstColumn(w *rewriting) ([]string, error) {
	rows, err := q.start(w)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		col := rows.Record().Column(0)
		for i := range col.Len() {
			out = append(out, strings.Clone(col.ValueStr(i)))
		}
	}
	return out, rows.Err()
}

// write puts the rows of a query into a table.
func (q *statement) write(t *lake.Table, rows stream, overwrite bool, fields []arrow.Field) (*Result, error) {
	write := t.Append
	if overwrite {
		write = t.Overwrite
	}
	after, info, err := write(q.ctx, &reader{rows}, lake.WriteOptions{})
	if err != nil {
		return nil, insertError(err, fields, t)
	}
	q.s.env.Committed(q.ctx, after)
	return done("INSERT", info.Rows), nil
}

// castTo is an expression as a column of a table.
func castTo(f arrow.Field, expr string) (string, error) {
	cast, err := coltype.Assigned(f, expr)
	return cast + " AS " + lex.QuoteIdent(f.Name), err
}

func noColumn(text string, at int, name string, t *lake.Table) error {
	return errs.Wrap(errs.NotFound, "sql.insert", lex.At(text, at, "the table has no column "+name), errs.Hint("DESCRIBE %s lists the columns", t.Ident().Name))
}

// castCells casts the values of VALUES one by one to the types of their columns. Left to itself the engine looks for one
// type that all values of a column have, and finds none for 'NaN' and 1.5. Columns whose values are all strings, or all
// numbers or NULL, are left alone. DEFAULT becomes the default of the column.
func castCells(text string, fields []arrow.Field, defaultOf func(f arrow.Field) (string, error)) ([]lex.Edit, error) {
	tokens, err := lex.Tokens(text)
	if err != nil {
		return nil, err
	}
	var rows [][][]lex.Token
	for i := 1; i < len(tokens) && tokens[i].Is("("); i++ {
		cells, end := lex.Args(tokens, i)
		if end < 0 {
			return nil, nil // the parser will tell
		}
		rows = append(rows, cells)
		if i = end + 1; i < len(tokens) && !tokens[i].Is(",") {
			return nil, nil // more than VALUES: a set operation, ORDER BY
		}
	}
	var edits []lex.Edit
	for col, f := range fields {
		seen := map[string]bool{}
		for _, r := range rows {
			if col < len(r) && len(r[col]) == 1 && r[col][0].Is("DEFAULT") {
				value, err := defaultOf(f)
				if err != nil {
					return nil, err
				}
				edits = append(edits, lex.Edit{Start: r[col][0].Start, End: r[col][0].End, New: value})
			} else if col < len(r) {
				seen[cellKind(r[col])] = true
			}
		}
		delete(seen, "NULL")
		if len(seen) == 0 || len(seen) == 1 && !seen[""] {
			continue
		}
		typ, err := coltype.Engine(f)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			if col >= len(r) || len(r[col]) == 0 || r[col][0].Is("DEFAULT") {
				continue
			}
			lo, hi := r[col][0].Start, r[col][len(r[col])-1].End
			edits = append(edits, lex.Edit{Start: lo, End: lo, New: "CAST("}, lex.Edit{Start: hi, End: hi, New: " AS " + typ + ")"})
		}
	}
	return edits, nil
}

// defaultCell is what DEFAULT stands for in a column of VALUES.
func defaultCell(f arrow.Field, t *lake.Table) (string, error) {
	text, err := t.WriteDefaultText(f.Name)
	if text == nil || err != nil {
		return "NULL", err
	}
	typ, err := coltype.Duck(f.Type, f.Metadata)
	return "CAST(" + lex.QuoteText(*text) + " AS " + typ + ")", err
}

// cellKind tells what a value of VALUES is when it is a single word.
func cellKind(cell []lex.Token) string {
	if len(cell) == 2 && cell[0].Text == "-" {
		cell = cell[1:]
	}
	if len(cell) == 1 {
		switch {
		case cell[0].Kind == lex.String && !cast.IsBits(cell[0]):
			return "string"
		case cell[0].Kind == lex.Number:
			return "number"
		case cell[0].Is("NULL"):
			return "NULL"
		}
	}
	return ""
}

func countMessage(have, want int, t *lake.Table) string {
	return fmt.Sprintf("the rows to insert have %d columns, but %d of %s are to be filled", have, want, t.Ident())
}

// insertError takes the names of the frame that insert puts around a query out of an error's message.
func insertError(err error, fields []arrow.Field, t *lake.Table) error {
	fix := func(message *string) {
		var have, want int
		if n, _ := fmt.Sscanf(*message, `table "overlake_rows" has %d columns available but %d columns specified`, &have, &want); n == 2 {
			*message = countMessage(have, want, t)
		}
		for i := len(fields) - 1; i >= 0; i-- {
			*message = strings.ReplaceAll(*message, fmt.Sprintf("overlake_c%d", i), fields[i].Name)
		}
	}
	var at *lex.Position
	var e *engine.SQLError
	if errors.As(err, &at) {
		fix(&at.Message)
	} else if errors.As(err, &e) {
		fix(&e.Message)
	}
	return err
}

func (q *statement) insertColumns(c *cursor, t *lake.Table) ([]arrow.Field, error) {
	c.next()
	var out []arrow.Field
	for {
		at := c.peek()
		name, err := c.name("a column")
		if err != nil {
			return nil, err
		}
		found := false
		for _, f := range t.Schema().Fields() {
			if strings.EqualFold(f.Name, name) {
				out = append(out, f)
				found = true
			}
		}
		if !found {
			return nil, noColumn(c.text, at.Start, name, t)
		}
		if c.accept(")") {
			return out, nil
		}
		if !c.accept(",") {
			return nil, c.errorf("expected , or )")
		}
	}
}

// copy runs COPY (query) TO 'file' (options) and COPY table TO 'file' (options).
func (q *statement) copy(c *cursor) (*Result, error) {
	c.next()
	var w *rewriting
	if c.peek().Is("(") {
		end := lex.Close(c.tokens, c.at)
		if end < 0 {
			return nil, c.errorf("this bracket is never closed")
		}
		w = q.part(c.peek().End, c.tokens[end].Start, "", "")
		c.at = end + 1
	} else {
		start := c.peek()
		if _, err := c.parts("a table"); err != nil {
			return nil, err
		}
		w = q.part(start.Start, c.tokens[c.at-1].End, "FROM ", "")
	}
	if c.peek().Is("FROM") {
		return nil, errs.Wrap(errs.Unsupported, "sql.copy", lex.At(c.text, c.peek().Start, "COPY … FROM is not supported"), errs.Hint("use overlake ingest"))
	}
	if err := c.expect("TO"); err != nil {
		return nil, err
	}
	file := c.next()
	if file.Kind != lex.String {
		return nil, lex.Errorf(c.text, file.Start, "COPY … TO needs a file name in quotes")
	}
	options := map[string]string{}
	c.accept("WITH")
	if c.peek().Is("(") {
		args, end := lex.Args(c.tokens, c.at)
		if end < 0 {
			return nil, c.errorf("this bracket is never closed")
		}
		for _, a := range args {
			if len(a) == 0 || !a[0].IsIdent() {
				return nil, c.errorf("COPY options are a name and a value")
			}
			value := "true"
			if len(a) > 1 {
				value = c.text[a[1].Start:a[len(a)-1].End]
			}
			options[strings.ToUpper(a[0].Name())] = value
		}
		c.at = end + 1
	}
	if err := c.end(); err != nil {
		return nil, err
	}
	return q.export(w, file.Value(), options)
}

// copyOptions are the options of DuckDB's COPY that name no further files.
var copyOptions = map[string]bool{"FORMAT": true, "HEADER": true, "DELIMITER": true, "DELIM": true, "SEP": true, "QUOTE": true, "ESCAPE": true, "NULL": true, "NULLSTR": true,
	"DATEFORMAT": true, "TIMESTAMPFORMAT": true, "FORCE_QUOTE": true, "COMPRESSION": true, "COMPRESSION_LEVEL": true, "ROW_GROUP_SIZE": true, "ARRAY": true, "PARQUET_VERSION": true}

func (q *statement) export(w *rewriting, file string, options map[string]string) (*Result, error) {
	path, err := q.exportPath(file)
	if err != nil {
		return nil, err
	}
	if options["FORMAT"] == "" {
		switch strings.ToLower(filepath.Ext(path)) {
		case ".parquet":
			options["FORMAT"] = "parquet"
		case ".json", ".ndjson", ".jsonl":
			options["FORMAT"] = "json"
		default:
			options["FORMAT"] = "csv"
		}
	}
	if f := strings.ToLower(strings.Trim(options["FORMAT"], "'")); f != "parquet" && f != "csv" && f != "json" {
		return nil, errs.New(errs.Unsupported, "sql.copy", "COPY TO writes parquet, csv or json", errs.On(options["FORMAT"]))
	}
	var opts []string
	for k, v := range options {
		if !copyOptions[k] {
			return nil, errs.New(errs.Unsupported, "sql.copy", "this option of COPY TO is not supported", errs.On(k))
		}
		opts = append(opts, k+" "+v)
	}
	if w, err = q.rewrite(w); err != nil {
		return nil, err
	}
	q.sparseAsText(w)
	temp := filepath.Join(filepath.Dir(path), ".overlake-copy-"+filepath.Base(path))
	out, release, err := q.s.env.engine.AddOutput(temp)
	if err != nil {
		return nil, err
	}
	defer release()
	defer os.Remove(temp)
	w.splice([]lex.Edit{{New: "COPY ("}, {Start: len(w.text), End: len(w.text), New: "\n) TO '" + out + "' (" + strings.Join(append(opts, "USE_TMP_FILE false"), ", ") + ")"}})
	n, err := q.s.env.engine.RunCopy(q.ctx, w.text, q.args...)
	if err != nil {
		return nil, w.locate(err)
	}
	if err := os.Rename(temp, path); err != nil {
		return nil, errs.Wrap(errs.KindOf(err), "sql.copy", err, errs.On(path))
	}
	return done("COPY", n), nil
}

// sparseAsText makes text of what is a sparsevec in the columns of a query, inside lists and structs too: COPY writes what
// the engine holds, which is no form for others. When the query fails here it fails again, and tells why.
func (q *statement) sparseAsText(w *rewriting) {
	if !strings.Contains(strings.ToLower(w.text), "sparsevec") {
		return // no table and no cast has the type
	}
	rows, err := q.s.env.engine.Query(q.ctx, "SELECT column_name, column_type FROM (DESCRIBE "+w.text+"\n)", q.args...)
	if err != nil {
		return
	}
	defer rows.Close()
	var list []string
	for rows.Next() {
		names, types := rows.Record().Column(0), rows.Record().Column(1)
		for i := range names.Len() {
			name, typ := lex.QuoteIdent(names.ValueStr(i)), types.ValueStr(i)
			tokens, err := lex.Tokens(typ)
			if err != nil {
				return
			}
			var edits []lex.Edit
			for _, t := range tokens {
				if t.Is("sparsevec") {
					edits = append(edits, lex.Edit{Start: t.Start, End: t.End, New: "VARCHAR"})
				}
			}
			if edits != nil {
				list = append(list, "CAST("+name+" AS "+lex.Splice(typ, edits)+") AS "+name)
			}
		}
	}
	if len(list) > 0 {
		w.splice([]lex.Edit{{New: "SELECT * REPLACE (" + strings.Join(list, ", ") + ") FROM ("}, {Start: len(w.text), End: len(w.text), New: "\n)"}})
	}
}

// exportPath is where a file of COPY TO goes: inside one of the directories that exports are allowed in, links resolved.
func (q *statement) exportPath(file string) (string, error) {
	dirs := q.s.env.export
	if len(dirs) == 0 {
		return "", errs.New(errs.Denied, "sql.copy", "COPY … TO may not write anywhere", errs.On(file), errs.Hint("allow a directory: --export DIR, or Options.Export"))
	}
	for _, d := range dirs {
		root, err := filepath.Abs(d)
		if err == nil {
			root, err = filepath.EvalSymlinks(root)
		}
		if err != nil {
			return "", errs.Wrap(errs.KindOf(err), "sql.copy", err, errs.On(d))
		}
		path := file
		if !filepath.IsAbs(path) {
			path = filepath.Join(root, path)
		}
		parent, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			continue
		}
		if rel, err := filepath.Rel(root, parent); err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
			return filepath.Join(parent, filepath.Base(path)), nil
		}
	}
	return "", errs.New(errs.Denied, "sql.copy", "the file is not in a directory that may be written to", errs.On(file), errs.Hint("allowed are %s", strings.Join(dirs, ", ")))
}

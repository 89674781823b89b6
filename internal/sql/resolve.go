package sql

import (
	"slices"
	"strings"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/sql/lex"
	"github.com/overlakedb/overlake/internal/sql/tree"
)

// node is an object of the syntax tree.
type node = tree.Node

// scopeKey is where a SELECT node keeps its scope once it was walked.
const scopeKey = "\x00scope"

// rootKey marks the outermost node of a statement.
const rootKey = "\x00root"

// source is one entry of a FROM clause.
type source struct {
	node   node
	name   string // what columns are qualified by
	base   *lake.Table
	id     lake.Ident // of base, or of a view
	ref    lake.Ref
	query  node // of a subquery or a CTE
	scope  *ctes
	filter predicate.Expr // what WHERE says of a base table alone
	exact  bool           // that is all that WHERE says
	plan   *lake.Plan     // under the filter, once somebody asked for it
	match  []*textCall    // conditions of WHERE that a text of the table matches
	used   int            // how many columns of a base table the SELECT seems to use; 0: all
}

// ctes are the WITH names in sight.
type ctes struct {
	name  string
	query node
	up    *ctes
}

func (c *ctes) find(name string) (*ctes, bool) {
	for ; c != nil; c = c.up {
		if strings.EqualFold(c.name, name) {
			return c, true
		}
	}
	return nil, false
}

// scope is the names that an expression can see.
type scope struct {
	node    node // the SELECT
	sources []*source
	outer   *scope
	with    *ctes // names in sight
	placed  bool  // POSITIONAL or ASOF: which rows meet depends on what other rows there are, so none may be taken away
}

// resolver walks a tree and collects edits.
type resolver struct {
	q      *statement
	text   string
	tokens []lex.Token
	edits  []lex.Edit
	depth  int
	top    *ctes // names of the WITH of the whole statement
}

// resolve finds the tables and the text functions of a statement and gives the edits that replace them.
func (q *statement) resolve(text string, root node) ([]lex.Edit, error) {
	tokens, err := lex.Tokens(text)
	if err != nil {
		return nil, err
	}
	r := &resolver{q: q, text: text, tokens: tokens}
	for _, s := range tree.List(root, "statements") {
		st, _ := s.(node)
		if root := tree.Child(st, "node"); root != nil {
			root[rootKey] = true
		}
		if err := r.queryNode(tree.Child(st, "node"), nil, nil); err != nil {
			return nil, err
		}
	}
	return r.edits, nil
}

// maxTree bounds the recursion over a tree.
const maxTree = 4000

func (r *resolver) queryNode(n node, with *ctes, outer *scope) error {
	if n == nil {
		return nil
	}
	if r.depth++; r.depth > maxTree {
		return errs.New(errs.Invalid, "sql.resolve", "the statement is nested too deeply", errs.Hint("split it with WITH or a table"))
	}
	defer func() { r.depth-- }()
	for _, e := range tree.List(tree.Child(n, "cte_map"), "map") {
		entry, _ := e.(node)
		name := tree.Str(entry, "key")
		body := tree.Child(tree.Child(tree.Child(entry, "value"), "query"), "node")
		inside := with
		if tree.Str(body, "type") == "RECURSIVE_CTE_NODE" {
			inside = &ctes{name: name, query: body, up: with}
		}
		if err := r.queryNode(body, inside, outer); err != nil {
			return err
		}
		with = &ctes{name: name, query: body, up: with}
	}
	if r.depth == 1 {
		r.top = with
	}
	if tree.Str(n, "type") != "SELECT_NODE" {
		for key, v := range n {
			if key != "cte_map" {
				if err := r.other(v, with, outer); err != nil {
					return err
				}
			}
		}
		return nil
	}
	sc := &scope{node: n, outer: outer, with: with}
	defer func() { n[scopeKey] = sc }()
	outerJoin := false
	if err := r.from(tree.Child(n, "from_table"), with, sc, &outerJoin); err != nil {
		return err
	}
	for key, v := range n {
		if key == "cte_map" || key == "from_table" {
			continue
		}
		if err := r.expr(v, with, sc, key == "select_list"); err != nil {
			return err
		}
	}
	names, all := tree.Mentioned(n)
	for _, s := range sc.sources {
		if s.base != nil && !all && !names[strings.ToLower(s.name)] {
			s.used = s.columns(names)
		}
		if s.base != nil && prunable(n, s, sc) {
			s.filter, s.exact = pushdown(r.q, tree.Child(n, "where_clause"), s, sc, outerJoin)
		}
	}
	for _, s := range sc.sources {
		if s.base == nil {
			continue
		}
		sql := ""
		var more predicate.Expr
		if s.exact && len(sc.sources) == 1 && tree.Child(n, "from_table")["query_location"] == s.node["query_location"] {
			var err error
			if sql, err = r.q.indexOnly(n, s); err != nil {
				return err
			}
		}
		if !outerJoin && prunable(n, s, sc) {
			if err := r.texts(n, s, sc, &sql); err != nil {
				return err
			}
		}
		if sql == "" && prunable(n, s, sc) {
			var err error
			if sql, err = r.nearest(n, s, sc); err != nil {
				return err
			}
			if sql == "" && !outerJoin {
				if sql, err = r.fused(n, s, sc); err != nil {
					return err
				}
			}
			if sql == "" && !outerJoin {
				if sql, err = r.within(n, s, sc); err != nil {
					return err
				}
			}
		}
		if sql == "" && !outerJoin && prunable(n, s, sc) {
			var err error
			if more, err = r.joinFilter(n, s, sc); err != nil {
				return err
			}
		}
		if err := r.tableEdit(s, more, sql); err != nil {
			return err
		}
	}
	return nil
}

// columns counts the columns of a table that have one of the names, at least 1.
func (s *source) columns(names map[string]bool) int {
	sch, err := s.base.SchemaAt(s.ref)
	if err != nil {
		return 0
	}
	n := 0
	for _, f := range sch.Fields() {
		if names[strings.ToLower(f.Name)] {
			n++
		}
	}
	return max(n, 1)
}

// prunable tells whether rows that WHERE drops may be taken away from a table before. A sample is taken before WHERE.
func prunable(n node, s *source, sc *scope) bool {
	return n["sample"] == nil && s.node["sample"] == nil && !sc.placed
}

// other walks what hangs below a query node that is no SELECT: further query nodes and expressions.
func (r *resolver) other(v any, with *ctes, outer *scope) error {
	switch v := v.(type) {
	case node:
		if tree.IsQuery(v) {
			return r.queryNode(v, with, outer)
		}
		for _, c := range v {
			if err := r.other(c, with, outer); err != nil {
				return err
			}
		}
	case []any:
		for _, c := range v {
			if err := r.other(c, with, outer); err != nil {
				return err
			}
		}
	}
	return nil
}

// from collects the entries of a FROM clause.
func (r *resolver) from(n node, with *ctes, sc *scope, outerJoin *bool) error {
	if n == nil {
		return nil
	}
	switch tree.Str(n, "type") {
	case "BASE_TABLE":
		return r.baseTable(n, with, sc)
	case "JOIN":
		switch kind := tree.Str(n, "ref_type"); {
		case kind != "REGULAR" && kind != "CROSS" && kind != "NATURAL":
			sc.placed = true
		case tree.Str(n, "join_type") != "INNER" && kind != "CROSS":
			*outerJoin = true
		}
		for _, side := range []string{"left", "right"} {
			if err := r.from(tree.Child(n, side), with, sc, outerJoin); err != nil {
				return err
			}
		}
		return r.expr(n["condition"], with, sc, false)
	case "SUBQUERY":
		body := tree.Child(tree.Child(n, "subquery"), "node")
		sc.sources = append(sc.sources, &source{node: n, name: tree.Str(n, "alias"), query: body, scope: with})
		return r.queryNode(body, with, sc)
	case "EMPTY":
		return nil
	case "SHOW_REF":
		if tree.Child(n, "query") == nil {
			return errs.New(errs.Unsupported, "sql.resolve", "SHOW inside a query", errs.Hint("read information_schema.tables, columns or schemata"))
		}
	}
	sc.sources = append(sc.sources, &source{node: n, name: tree.Str(n, "alias")})
	for key, v := range n {
		if key == "source" {
			if err := r.from(tree.Child(n, key), with, sc, outerJoin); err != nil {
				return err
			}
			continue
		}
		if err := r.expr(v, with, sc, false); err != nil {
			return err
		}
	}
	return nil
}

func (r *resolver) baseTable(n node, with *ctes, sc *scope) error {
	catalog, schema, name := tree.Str(n, "catalog_name"), tree.Str(n, "schema_name"), tree.Str(n, "table_name")
	s := &source{node: n, name: name}
	if a := tree.Str(n, "alias"); a != "" {
		s.name = a
	}
	if schema == "" && catalog == "" {
		if c, ok := with.find(name); ok {
			s.query, s.scope = c.query, c.up
			sc.sources = append(sc.sources, s)
			return nil
		}
	}
	var parts []string
	for _, p := range []string{catalog, schema, name} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	if v, err := findView(schema, name); err != nil {
		return err
	} else if v != nil {
		if n["at_clause"] != nil {
			return errs.New(errs.Unsupported, "sql.table", "a system table has no older states", errs.On(v.schema+"."+v.name))
		}
		sql, err := r.q.systemView(v)
		if err != nil {
			return err
		}
		s.id = lake.Ident{Namespace: v.schema, Name: v.name}
		sc.sources = append(sc.sources, s)
		return r.replaceTable(s, len(parts), sql)
	}
	id, err := r.q.ident(parts)
	if err != nil {
		return err
	}
	t, err := r.q.table(id)
	if err != nil {
		if at := tree.Location(n); at >= 0 && errs.Is(err, errs.NotFound) {
			return errs.Wrap(errs.NotFound, "sql.table", lex.At(r.text, at, err.Error()), errs.Hint("%s", errs.HintOf(err)))
		}
		return err
	}
	s.base, s.id = t, id
	if n["at_clause"] != nil {
		at, end := r.atClause(r.token(tree.Location(n)), len(parts))
		if at < 0 {
			return errs.New(errs.Internal, "sql.resolve", "the parser gave no place for AT", errs.On(name))
		}
		if s.ref, err = r.q.ref(r.text, r.tokens[at+2:end]); err != nil {
			return err
		}
	}
	sc.sources = append(sc.sources, s)
	return nil
}

// token is the index of the word at a byte offset.
func (r *resolver) token(at int) int {
	i, ok := slices.BinarySearchFunc(r.tokens, at, func(t lex.Token, at int) int { return t.Start - at })
	if !ok {
		return -1
	}
	return i
}

// nameSpan gives the last word of a name of some parts that begins at a word, and the word behind.
func (r *resolver) nameSpan(i, parts int) (last, next int) {
	last = i + 2*(parts-1)
	return last, last + 1
}

// atClause is the place of AT and of its closing bracket behind a table's name of some parts that begins at a word, and
// behind the other name that the table may have got; -1 when there is none.
func (r *resolver) atClause(i, parts int) (at, end int) {
	_, k := r.nameSpan(i, parts)
	is := func(k int, word string) bool { return k < len(r.tokens) && r.tokens[k].Is(word) }
	if i < 0 || k > len(r.tokens) {
		return -1, -1
	}
	if !(is(k, "AT") && is(k+1, "(")) {
		if is(k, "AS") {
			k++
		}
		if k++; is(k, "(") {
			if k = lex.Close(r.tokens, k); k < 0 {
				return -1, -1
			}
			k++
		}
	}
	if is(k, "AT") && is(k+1, "(") {
		if end = lex.Close(r.tokens, k+1); end > k+2 {
			return k, end
		}
	}
	return -1, -1
}

// replaceTable puts an expression in the place of a table's name.
func (r *resolver) replaceTable(s *source, parts int, sql string) error {
	i := r.token(tree.Location(s.node))
	if i < 0 || i+2*(parts-1) >= len(r.tokens) {
		return errs.New(errs.Internal, "sql.resolve", "the parser gave no place for a table", errs.On(s.name))
	}
	last, _ := r.nameSpan(i, parts)
	if tree.Str(s.node, "alias") == "" {
		sql += " AS " + lex.QuoteIdent(s.name)
	}
	r.edits = append(r.edits, lex.Edit{Start: r.tokens[i].Start, End: r.tokens[last].End, New: sql})
	if at, end := r.atClause(i, parts); s.node["at_clause"] != nil && at >= 0 {
		r.edits = append(r.edits, lex.Edit{Start: r.tokens[at].Start, End: r.tokens[end].End})
	}
	return nil
}

// tableEdit puts a scan of the table in the place of its name, with what is known besides its filter, or the expression that
// does as well.
func (r *resolver) tableEdit(s *source, more predicate.Expr, sql string) error {
	if p := r.q.places; p != nil && p.plan != nil && tree.Location(s.node) == p.at {
		placed, ok, err := r.q.placed(s.base, s.ref, p.plan)
		if err != nil {
			return err
		}
		if ok {
			sql, p.plan = placed, nil // met
		}
	}
	if sql == "" {
		var plan *lake.Plan
		var err error
		filter := s.filter
		if more == nil {
			plan, err = r.q.plan(s)
		} else {
			filter = predicate.Conjoin(filter, more)
			plan, err = s.base.Plan(r.q.ctx, s.ref, filter)
		}
		if err != nil {
			return err
		}
		if sql, err = r.q.scan(s, plan, filter); err != nil {
			return err
		}
	}
	parts := 1
	for _, key := range []string{"catalog_name", "schema_name"} {
		if tree.Str(s.node, key) != "" {
			parts++
		}
	}
	return r.replaceTable(s, parts, sql)
}

// expr walks an expression; top tells that v is the select list, whose calls may need a heading.
func (r *resolver) expr(v any, with *ctes, sc *scope, top bool) error {
	if r.depth++; r.depth > maxTree {
		return errs.New(errs.Invalid, "sql.resolve", "the expression is nested too deeply", errs.Hint("split it"))
	}
	defer func() { r.depth-- }()
	switch v := v.(type) {
	case []any:
		for _, c := range v {
			n, _ := c.(node)
			if err := r.expr(c, with, sc, false); err != nil {
				return err
			}
			if top && n != nil && tree.Str(n, "class") == "FUNCTION" && tree.Str(n, "alias") == "" {
				if name := strings.ToLower(tree.Str(n, "function_name")); isText(name) && len(r.edits) > 0 {
					r.edits[len(r.edits)-1].New += " AS " + name
				}
			}
		}
	case node:
		if tree.IsQuery(v) {
			return r.queryNode(v, with, sc)
		}
		switch tree.Str(v, "class") {
		case "FUNCTION":
			name := strings.ToLower(tree.Str(v, "function_name"))
			if isText(name) && tree.Str(v, "schema") == "" {
				if name == "highlight" {
					return r.highlight(v, with, sc)
				}
				return r.textFunction(name, v, sc)
			}
		case "COLUMN_REF":
			r.shorten(v, sc)
			return nil
		}
		for _, c := range v {
			switch c.(type) {
			case node, []any:
				if err := r.expr(c, with, sc, false); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// shorten takes the schema off schema.table.column: the table is known by its name alone after rewriting.
func (r *resolver) shorten(n node, sc *scope) {
	names := tree.List(n, "column_names")
	if len(names) < 3 {
		return
	}
	for ; sc != nil; sc = sc.outer {
		for _, s := range sc.sources {
			a, _ := names[0].(string)
			b, _ := names[1].(string)
			if s.id.Namespace != "" && strings.EqualFold(s.id.Namespace, a) && strings.EqualFold(s.name, b) {
				if i := r.token(tree.Location(n)); i >= 0 && i+2 < len(r.tokens) {
					r.edits = append(r.edits, lex.Edit{Start: r.tokens[i].Start, End: r.tokens[i+2].Start})
				}
				return
			}
		}
	}
}

// find follows a column name to the table it comes from, through subqueries and WITH that pass it on unchanged.
func find(col node, sc *scope) (*source, string) {
	var names []string
	for _, n := range tree.List(col, "column_names") {
		s, _ := n.(string)
		names = append(names, s)
	}
	if len(names) == 0 {
		return nil, ""
	}
	column := names[len(names)-1]
	qualifier := ""
	if len(names) > 1 {
		qualifier = names[len(names)-2]
	}
	for ; sc != nil; sc = sc.outer {
		for _, s := range sc.sources {
			if qualifier != "" && !strings.EqualFold(s.name, qualifier) {
				continue
			}
			if src, c := s.column(column, 0); src != nil {
				return src, c
			}
		}
	}
	return nil, ""
}

// mayHave tells whether an entry may have a column of the name.
func (s *source) mayHave(name string) bool {
	if s.base != nil {
		src, _ := s.column(name, 0)
		return src != nil
	}
	if s.query == nil || tree.Str(s.query, "type") != "SELECT_NODE" {
		return true
	}
	renamed := tree.List(s.node, "column_name_alias")
	for _, a := range renamed {
		if a, _ := a.(string); strings.EqualFold(a, name) {
			return true
		}
	}
	if values := tree.Child(s.query, "from_table"); tree.Str(values, "type") == "EXPRESSION_LIST" {
		rows := tree.List(values, "values")
		if len(rows) == 0 {
			return true
		}
		cells, _ := rows[0].([]any)
		return len(cells) > len(renamed) // the others are named by the engine
	}
	for i, item := range tree.List(s.query, "select_list") {
		n, _ := item.(node)
		alias := tree.Str(n, "alias")
		switch {
		case tree.Str(n, "class") == "STAR":
			return true
		case i < len(renamed):
		case alias == "" && tree.Str(n, "class") == "COLUMN_REF":
			names := tree.List(n, "column_names")
			if last, _ := names[len(names)-1].(string); strings.EqualFold(last, name) {
				return true
			}
		case strings.EqualFold(alias, name):
			return true
		case alias == "" && tree.Str(n, "class") != "CONSTANT" && tree.Str(n, "class") != "FUNCTION":
			return true // the engine finds a name
		}
	}
	return false
}

// column finds the table column behind a column of an entry.
func (s *source) column(name string, depth int) (*source, string) {
	if depth > 50 {
		return nil, ""
	}
	if s.base != nil {
		sc, err := s.base.SchemaAt(s.ref)
		if err != nil {
			return nil, ""
		}
		for _, f := range sc.Fields() {
			if strings.EqualFold(f.Name, name) {
				return s, f.Name
			}
		}
		return nil, ""
	}
	if s.query == nil || tree.Str(s.query, "type") != "SELECT_NODE" {
		return nil, ""
	}
	// The sources of the inner SELECT were resolved when it was walked; here only names matter.
	inner, _ := s.query[scopeKey].(*scope)
	if inner == nil {
		return nil, ""
	}
	for _, item := range tree.List(s.query, "select_list") {
		n, _ := item.(node)
		switch {
		case tree.Str(n, "class") == "STAR":
			for _, src := range inner.sources {
				if found, c := src.column(name, depth+1); found != nil {
					return found, c
				}
			}
		case tree.Str(n, "class") == "COLUMN_REF":
			names := tree.List(n, "column_names")
			last, _ := names[len(names)-1].(string)
			heading := tree.Str(n, "alias")
			if heading == "" {
				heading = last
			}
			if strings.EqualFold(heading, name) {
				return find(n, &scope{sources: inner.sources})
			}
		}
	}
	return nil, ""
}

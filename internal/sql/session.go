// Package sql turns a statement into scans, retrievals and commits.
//
// A statement is cut into words (lex), classified by its first one, and run. DDL and the frames of INSERT, COPY and
// EXPLAIN are read here; every SELECT is DuckDB's: it is rewritten as text, at places that the words and DuckDB's own
// syntax tree tell, and handed to the engine. The rewriting, in order (see rewrite.go):
//
//  1. search functions become plain SELECTs: vector_search, bm25_search, hybrid_search and rrf;
//  2. what DuckDB cannot read becomes what it can: <#>, vector(n), FOR VERSION AS OF, ? for $n;
//  3. table names become read_parquet over the data files that the WHERE clause leaves, with a predicate for deleted rows;
//  4. bm25 and match get the statistics of their column.
//
// The WHERE clause itself is never taken away: pruning may only drop files that cannot matter.
package sql

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/overlakedb/overlake/internal/engine"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/overlay"
	"github.com/overlakedb/overlake/internal/row"
	"github.com/overlakedb/overlake/internal/search"
	"github.com/overlakedb/overlake/internal/sql/coltype"
	"github.com/overlakedb/overlake/internal/sql/lex"
	"github.com/overlakedb/overlake/internal/sql/paths"
	"github.com/overlakedb/overlake/internal/sql/textcall"
	"github.com/overlakedb/overlake/internal/sql/tree"
)

// Env is what all sessions share. It is safe for concurrent use.
type Env struct {
	engine   *engine.DB
	catalog  lake.Catalog
	overlays *overlay.Set
	export   []string
	texts    *search.TextCache
	queries  textcall.Queries

	paths *paths.Paths
	trees *tree.Trees

	mu      sync.Mutex
	scalars map[string]stability // functions that make one value of each row
}

// treeBytes bounds the syntax trees that are kept of statements.
const treeBytes = 16 << 20

// NewEnv prepares an engine for sessions over a catalog. export lists the directories that COPY TO may write into.
func NewEnv(db *engine.DB, catalog lake.Catalog, overlays *overlay.Set, export []string) (*Env, error) {
	e := &Env{engine: db, catalog: catalog, overlays: overlays, export: export, texts: search.NewTextCache(),
		paths: paths.New(paths.Most), trees: tree.NewTrees(treeBytes)}
	return e, errors.Join(coltype.Register(db), e.queries.Register(db), registerEffort(db))
}

// Session carries what statements of one user share: the current schema and the settings. It is safe for concurrent use;
// a statement takes the settings as they are when it starts.
type Session struct {
	env *Env

	mu       sync.Mutex
	schema   string
	settings map[string]string
}

// NewSession starts a session in a schema; "" is the default one.
func (e *Env) NewSession(schema string) *Session {
	if schema == "" {
		schema = lake.DefaultNamespace
	}
	return &Session{env: e, schema: schema, settings: map[string]string{}}
}

// Arg is a parameter value: by position when Name is empty.
type Arg = engine.Arg

// Statement is one statement of a script.
type Statement = lex.Statement

// Split cuts a script into statements.
func Split(script string) ([]lex.Statement, error) { return lex.Split(script) }

// Run runs one statement.
func (s *Session) Run(ctx context.Context, st lex.Statement, args ...Arg) (*Result, error) {
	if len(st.Tokens) == 0 {
		return nil, errs.New(errs.Invalid, "sql.run", "the statement is empty")
	}
	q := &statement{s: s, ctx: ctx, text: st.Text, tokens: st.Tokens, args: args}
	r, err := q.run()
	if err != nil {
		q.close()
		return nil, err
	}
	r.release = append(r.release, q.close)
	return r, nil
}

// statement is one statement at work.
type statement struct {
	s          *Session
	ctx        context.Context
	text       string
	tokens     []lex.Token
	args       []Arg
	params     int      // parameters by position seen so far
	paramNames []string // parameters by name seen so far
	release    []func()
	scans      []scanInfo
	notes      []string // what EXPLAIN says about retrieval
	tables     map[lake.Ident]*lake.Table
	views      map[string]*overlay.View // of the tables, by what they are read by
	hinted     *search.AccessOptions
	lists      []standIn // long lists that are out of the text
	hintMet    bool      // the index that the hint names is there
	slow       bool      // rows may take long to make: vectors are read or texts scored, so the first ones should not wait

	hintedEffort map[string]string // what a hint says about searches of vectors
	places       *places           // what is added to a table, in a query aside
	ranked       bool              // an index of vectors was used
	plain        bool              // the statement is a SELECT and nothing else
	answer       stream            // its rows, when the engine is not needed
	gone         bool              // parameters stood in text that was replaced by its value
	asked        int               // how many queries this one is aside of

	texts  map[string]readyText     // queries of texts, by what they ask
	rowsOf map[string][]*row.Bitmap // what queries aside have found, by their text
}

func (q *statement) close() {
	for i := len(q.release) - 1; i >= 0; i-- {
		q.release[i]()
	}
	q.release = nil
}

func (q *statement) run() (*Result, error) {
	c := &cursor{text: q.text, tokens: q.tokens}
	first := strings.ToUpper(q.tokens[0].Text)
	switch first {
	case "SELECT", "WITH", "VALUES", "FROM", "(", "TABLE", "PIVOT", "UNPIVOT", "SUMMARIZE":
		q.plain = true
		return q.query(q.part(0, len(q.text), "", ""), "SELECT")
	case "EXPLAIN":
		return q.explain(c)
	case "CREATE":
		return q.create(c)
	case "DROP":
		return q.drop(c)
	case "ALTER":
		return q.alter(c)
	case "INSERT":
		return q.insert(c)
	case "COPY":
		return q.copy(c)
	case "SET":
		return q.set(c)
	case "RESET":
		return q.reset(c)
	case "SHOW":
		return q.show(c)
	case "DESCRIBE", "DESC":
		c.next()
		return q.describe(c)
	case "USE":
		return q.use(c)
	case "REINDEX":
		return q.reindex(c)
	}
	what := first
	if first == "BEGIN" || first == "COMMIT" || first == "ROLLBACK" || first == "START" {
		return nil, errs.New(errs.Unsupported, "sql.run", "transactions of several statements are not supported: every statement commits on its own", errs.On(what))
	}
	if !knownStatements[first] {
		return nil, errs.With(lex.Errorf(q.text, 0, "%q does not begin a statement", q.tokens[0].Text), errs.Hint("%s", nearestStatement(first)))
	}
	return nil, errs.New(errs.Unsupported, "sql.run", "this statement is not supported", errs.On(what))
}

var knownStatements = map[string]bool{"UPDATE": true, "DELETE": true, "MERGE": true, "TRUNCATE": true, "VACUUM": true, "ANALYZE": true, "CALL": true,
	"PRAGMA": true, "ATTACH": true, "DETACH": true, "INSTALL": true, "LOAD": true, "PREPARE": true, "EXECUTE": true, "DEALLOCATE": true, "GRANT": true,
	"REVOKE": true, "IMPORT": true, "EXPORT": true, "CHECKPOINT": true, "COMMENT": true, "OPTIMIZE": true, "REFRESH": true}

var beginnings = []string{"SELECT", "WITH", "INSERT", "CREATE", "DROP", "ALTER", "SHOW", "DESCRIBE", "EXPLAIN", "COPY", "SET", "USE", "VALUES", "FROM", "REINDEX"}

func nearestStatement(word string) string {
	if best := errs.Nearest(word, beginnings, 2); best != "" {
		return "did you mean " + best + "?"
	}
	return "statements begin with SELECT, INSERT, CREATE, ALTER, DROP, SHOW, DESCRIBE, EXPLAIN, COPY, SET or USE"
}

// named reads the name of a table.
func (q *statement) named(c *cursor) (lake.Ident, error) {
	parts, err := c.parts("a table")
	if err != nil {
		return lake.Ident{}, err
	}
	return q.ident(parts)
}

// lastNamed reads the name of a table with which the statement ends.
func (q *statement) lastNamed(c *cursor) (lake.Ident, error) {
	parts, err := c.parts("a table")
	if err == nil {
		err = c.end()
	}
	if err != nil {
		return lake.Ident{}, err
	}
	return q.ident(parts)
}

// ident resolves the parts of a table name.
func (q *statement) ident(parts []string) (lake.Ident, error) {
	q.s.mu.Lock()
	schema := q.s.schema
	q.s.mu.Unlock()
	switch len(parts) {
	case 1:
		return lake.Ident{Namespace: schema, Name: parts[0]}, nil
	case 2:
		return lake.Ident{Namespace: parts[0], Name: parts[1]}, nil
	}
	return lake.Ident{}, errs.New(errs.Invalid, "sql.name", "table names have one or two parts: table or schema.table", errs.On(strings.Join(parts, ".")))
}

// table loads a table once a statement, so that every mention of it is the same version. Names are matched without regard
// to case when the exact one is not there.
func (q *statement) table(id lake.Ident) (*lake.Table, error) {
	if t := q.tables[id]; t != nil {
		return t, nil
	}
	t, err := q.s.env.catalog.Load(q.ctx, id)
	if errs.Is(err, errs.NotFound) {
		if same, ok := q.sameName(id); ok {
			t, err = q.s.env.catalog.Load(q.ctx, same)
		}
	}
	if err != nil {
		return nil, err
	}
	if q.tables == nil {
		q.tables = map[lake.Ident]*lake.Table{}
	}
	q.tables[id] = t
	return t, nil
}

// sameName finds the table whose name differs from the given one in case only.
func (q *statement) sameName(id lake.Ident) (lake.Ident, bool) {
	all, err := q.s.env.catalog.Tables(q.ctx, id.Namespace)
	if err != nil {
		return id, false
	}
	found := id
	for _, o := range all {
		if o.Name == id.Name {
			return id, false
		}
		if strings.EqualFold(o.Name, id.Name) {
			found = o
		}
	}
	return found, found != id
}

// query runs a SELECT.
func (q *statement) query(w *rewriting, tag string) (*Result, error) {
	final, err := q.rewrite(w)
	if err != nil {
		return nil, err
	}
	if q.answer != nil {
		return &Result{Tag: tag, Affected: -1, HasRows: true, rows: q.answer}, nil
	}
	rows, err := q.start(final)
	if err != nil {
		return nil, err
	}
	return &Result{Tag: tag, Affected: -1, HasRows: true, rows: rows}, nil
}

// aggregated are the aggregates of vectors: what the engine refuses, and what takes its place.
var aggregated = map[string]string{"sum(vector)": "vector_sum", "avg(vector)": "vector_avg", "sum(halfvec)": "halfvec_sum", "avg(halfvec)": "halfvec_avg"}

// start runs a rewritten SELECT. sum and avg of vectors are found out by the engine's refusal: it tells the place of the
// call, which gets the name of the aggregate that does take vectors.
func (q *statement) start(w *rewriting) (*engine.Result, error) {
	query := q.s.env.engine.QueryAhead
	if q.slow {
		query = q.s.env.engine.Query
	}
	for range 64 {
		rows, err := query(q.ctx, w.text, q.args...)
		if err == nil {
			return rows, nil
		}
		e, ok := engine.AsSQLError(err)
		if !ok {
			return nil, err
		}
		at := e.Position
		if of := aggregated[e.Call]; of != "" && at >= 0 && at+3 <= len(w.text) && strings.EqualFold(w.text[at:at+3], e.Call[:3]) {
			w.splice(append(q.nameAround(w.text, at), lex.Edit{Start: at, End: at + 3, New: of}))
			continue
		}
		return nil, w.locate(err)
	}
	return nil, errs.New(errs.Unsupported, "sql.query", "more than 64 aggregates of vectors in one statement")
}

// check refuses a wrong number of positional arguments.
func checkArgs(used int, args []Arg) error {
	positional := 0
	for _, a := range args {
		if a.Name == "" {
			positional++
		}
	}
	if positional > used {
		return errs.New(errs.Invalid, "sql.args", fmt.Sprintf("the statement has %d parameters, but %d values were given", used, positional))
	}
	return nil
}

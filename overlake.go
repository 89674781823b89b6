// Package overlake is an indexed lakehouse engine that runs inside your program: SQL, vector search and text search over
// Apache Iceberg tables that every other engine reads.
//
// The nouns: a DB is an open warehouse, a directory that holds tables. A Table is one table, at the newest version at the
// time of each call. An Index makes lookups in a table fast and never changes an answer. A Query is one retrieval being
// built. Rows is an answer, a stream of Arrow record batches.
//
//	db, err := overlake.Open(ctx, "warehouse", overlake.Options{})
//	defer db.Close()
//	rows, err := db.SQL(ctx, "SELECT id, title FROM docs ORDER BY embedding <=> ? LIMIT 5", vector)
//	for row, err := range rows.Values() { … }
//
// Caveats: one statement is one commit, there are no transactions of several statements. Writers of several processes may
// share a warehouse; a lost race is tried again inside, a bounded number of times. Every error is an *Error with a kind.
package overlake

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"sync"

	"github.com/overlakedb/overlake/internal/budget"
	"github.com/overlakedb/overlake/internal/engine"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/overlay"
	"github.com/overlakedb/overlake/internal/sql"
	"github.com/overlakedb/overlake/internal/vec/pgvector"
)

// DB is an open warehouse. It is safe for concurrent use.
type DB struct {
	engine   *engine.DB
	catalog  *mounts
	overlays *overlay.Set
	env      *sql.Env
	schema   string
	closers  []func() error

	mu      sync.Mutex
	session *Session
}

// memories are the stores behind mem:// locations, which live as long as the process.
var memories = struct {
	sync.Mutex
	byName map[string]*objstore.Memory
}{byName: map[string]*objstore.Memory{}}

// Open opens a warehouse: a directory, or mem://name for one in memory that lives as long as the process. A directory is
// created unless the options say read-only.
func Open(ctx context.Context, warehouse string, opts Options) (_ *DB, err error) {
	db := &DB{schema: opts.Namespace}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	store, err := openStore(ctx, warehouse, opts)
	if err != nil {
		return nil, err
	}
	limit := opts.MemoryLimit
	if limit == 0 {
		limit = defaultMemory
	}
	memory := lake.Memory(budget.New(limit))
	var catalog lake.Catalog
	switch opts.Catalog {
	case "", "file":
		catalog = lake.OpenFileCatalog(store, memory)
	case "sqlite":
		local, ok := store.(objstore.LocalPather)
		w, writable := store.(objstore.Store)
		if !ok || !writable {
			return nil, errs.New(errs.Unsupported, "overlake.open", "a sqlite catalog needs a warehouse directory that can be written", errs.On(warehouse))
		}
		path, _ := local.LocalPath("catalog.db")
		c, err := lake.OpenSQLiteCatalog(ctx, path, w, memory)
		if err != nil {
			return nil, err
		}
		db.closers = append(db.closers, c.Close)
		catalog = c
	default:
		return nil, errs.New(errs.Invalid, "overlake.open", "there is no such kind of catalog", errs.On(opts.Catalog), errs.Hint("use file or sqlite"))
	}
	if db.schema != "" {
		if err := lake.CheckNamespace(db.schema); err != nil {
			return nil, err
		}
	}
	db.catalog = &mounts{Catalog: catalog, store: store, memory: memory, open: map[string]*lake.Table{}}
	db.engine, err = engine.Open(engine.Config{MemoryLimit: limit, Threads: opts.Threads, SpillDir: opts.SpillDir, SpillLimit: opts.SpillLimit,
		MaxQueries: opts.MaxQueries, QueueTimeout: opts.QueueTimeout})
	if err != nil {
		return nil, err
	}
	db.closers = append(db.closers, db.engine.Close)
	o := overlay.Options{Memory: opts.IndexMemory, Cache: opts.IndexCache, SpillDir: opts.SpillDir, ByHand: opts.IndexByHand}
	if opts.Events != nil {
		o.Events = func(e overlay.Event) { opts.Events(Event(e)) }
	}
	if opts.BoundGarbage {
		o.Holds = bounded.hold
	}
	place := store
	if opts.Overlay != "" {
		if place, err = openStore(ctx, opts.Overlay, Options{}); err != nil {
			return nil, err
		}
	}
	db.overlays = overlay.NewSet(place, o)
	db.catalog.overlays = db.overlays
	db.closers = append(db.closers, db.overlays.Close)
	if db.env, err = sql.NewEnv(db.engine, db.catalog, db.overlays, opts.Export); err != nil {
		return nil, err
	}
	db.session = db.Session()
	return db, nil
}

func openStore(ctx context.Context, warehouse string, opts Options) (objstore.Reader, error) {
	if name, ok := strings.CutPrefix(warehouse, "mem://"); ok {
		memories.Lock()
		defer memories.Unlock()
		m := memories.byName[name]
		if m == nil {
			m = objstore.NewMemory(name)
			memories.byName[name] = m
		}
		if opts.ReadOnly {
			return objstore.ReadOnly(m), nil
		}
		return quota(ctx, m, opts)
	}
	dir := strings.TrimPrefix(warehouse, "file://")
	if i := strings.Index(dir, "://"); i > 0 {
		return nil, errs.New(errs.Unsupported, "overlake.open", "warehouses on "+dir[:i]+" are not supported yet", errs.On(warehouse), errs.Hint("use a local directory"))
	}
	if dir == "" {
		return nil, errs.New(errs.Invalid, "overlake.open", "the warehouse has no name", errs.Hint("give a directory"))
	}
	if opts.ReadOnly {
		return objstore.OpenLocalReadOnly(dir)
	}
	l, err := objstore.OpenLocal(dir, objstore.LocalOptions{})
	if err != nil {
		return nil, err
	}
	return quota(ctx, l, opts)
}

func quota(ctx context.Context, s objstore.Store, opts Options) (objstore.Reader, error) {
	if opts.Quota <= 0 {
		return s, nil
	}
	return objstore.NewQuota(ctx, s, opts.Quota)
}

// Close ends the DB. Rows must be closed before.
func (db *DB) Close() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	var all []error
	for i := len(db.closers) - 1; i >= 0; i-- {
		all = append(all, db.closers[i]())
	}
	db.closers = nil
	return errors.Join(all...)
}

// SQL runs one statement, or several separated by semicolons of which the last one answers. ? or $1, $2 … in the text
// stand for the arguments in order; an argument of type Named stands for $name. A []float32 argument is a vector.
//
// The session of SQL is the DB's own: SET and USE last until Close and are seen by all callers. Use Session for a private
// one.
func (db *DB) SQL(ctx context.Context, query string, args ...any) (*Rows, error) {
	return db.session.SQL(ctx, query, args...)
}

// Named is an argument for $Name.
type Named struct {
	Name  string
	Value any
}

// Session is a line of statements with settings and a current schema of its own. It is safe for concurrent use.
type Session struct{ s *sql.Session }

// Session starts a session.
func (db *DB) Session() *Session { return &Session{s: db.env.NewSession(db.schema)} }

// SQL is DB.SQL in the session.
func (s *Session) SQL(ctx context.Context, query string, args ...any) (*Rows, error) {
	list, err := sql.Split(query)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, errs.New(errs.Invalid, "overlake.sql", "there is no statement in the text")
	}
	for i, st := range list {
		res, err := s.s.Run(ctx, st, arguments(args, len(list), st)...)
		if err != nil {
			return nil, inScript(list, i, err)
		}
		if i == len(list)-1 {
			return newRows(res), nil
		}
		for res.Next() {
		}
		if err := errors.Join(res.Err(), res.Close()); err != nil {
			return nil, inScript(list, i, err)
		}
	}
	return nil, nil // not reached: the list is not empty
}

// Script runs the statements of a script one after the other and yields the answer of each, which the caller must close
// before going on. An error ends the script.
func (s *Session) Script(ctx context.Context, script string, args ...any) iter.Seq2[*Rows, error] {
	return func(yield func(*Rows, error) bool) {
		list, err := sql.Split(script)
		if err != nil {
			yield(nil, err)
			return
		}
		for i, st := range list {
			res, err := s.s.Run(ctx, st, arguments(args, len(list), st)...)
			if err != nil {
				yield(nil, inScript(list, i, err))
				return
			}
			if !yield(newRows(res), nil) {
				return
			}
		}
	}
}

// SplitScript cuts a script at its semicolons into statements, each with the comments before it.
func SplitScript(script string) ([]string, error) {
	list, err := sql.Split(script)
	if err != nil {
		return nil, err
	}
	out := make([]string, len(list))
	end := 0
	for i, st := range list {
		last := st.Offset + len(st.Text)
		out[i] = strings.Trim(script[end:last], "; \t\r\n")
		end = last
	}
	return out, nil
}

func inScript[T any](list []T, i int, err error) error {
	if len(list) == 1 {
		return err
	}
	return errs.Wrap(errs.KindOf(err), "overlake.sql", fmt.Errorf("statement %d: %w", i+1, err), errs.Hint("%s", errs.HintOf(err)))
}

// arguments converts the arguments of a statement; those of a script go to its statements that have parameters. It gives vectors their text form: it is exact, and the engine parses it once where a list would be copied for
// every row.
func arguments(args []any, statements int, st sql.Statement) []sql.Arg {
	if statements > 1 && !st.HasParams() {
		return nil
	}
	out := make([]sql.Arg, len(args))
	for i, a := range args {
		if n, ok := a.(Named); ok {
			out[i].Name, a = n.Name, n.Value
		}
		if v, ok := a.([]float32); ok {
			a = pgvector.Format(v)
		}
		out[i].Value = a
	}
	return out
}

// Tables lists the tables of all schemas as schema.table.
func (db *DB) Tables(ctx context.Context) ([]string, error) {
	namespaces, err := db.catalog.Namespaces(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, n := range namespaces {
		ids, err := db.catalog.Tables(ctx, n)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			out = append(out, id.String())
		}
	}
	return out, nil
}

// Mount makes a table of another engine readable under a name: location is its directory or one of its metadata files.
// The table is never written. The mount is kept in the warehouse until Unmount.
func (db *DB) Mount(ctx context.Context, name, location string) (*Table, error) {
	id, err := db.ident(name)
	if err != nil {
		return nil, err
	}
	abs, err := filepath.Abs(strings.TrimPrefix(location, "file://"))
	if err != nil {
		return nil, errs.Wrap(errs.Invalid, "overlake.mount", err, errs.On(location))
	}
	if err := db.catalog.mount(ctx, id, abs); err != nil {
		return nil, err
	}
	return db.Table(ctx, name)
}

// Unmount forgets a mounted table; its files stay as they are.
func (db *DB) Unmount(ctx context.Context, name string) error {
	id, err := db.ident(name)
	if err != nil {
		return err
	}
	return db.catalog.unmount(ctx, id)
}

func (db *DB) ident(name string) (lake.Ident, error) {
	id := lake.Ident{Namespace: db.schema, Name: name}
	if id.Namespace == "" {
		id.Namespace = lake.DefaultNamespace
	}
	if ns, n, ok := strings.Cut(name, "."); ok {
		id = lake.Ident{Namespace: ns, Name: n}
	}
	return id, id.Check()
}

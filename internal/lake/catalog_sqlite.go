package lake

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
	_ "modernc.org/sqlite" // the database driver "sqlite"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
)

// SQLiteCatalog keeps the pointer of every table as a row of a SQLite database, in the tables of Iceberg's JDBC catalog,
// so that PyIceberg's SqlCatalog reads it under the name below. A commit writes a metadata file of a unique name and then
// replaces the pointer only if it still is what the writer started from.
//
// The directory of a table has a unique part too: a name may be dropped, renamed and used again, and no two tables may
// ever share files.
type SQLiteCatalog struct {
	db     *sql.DB
	store  objstore.Store
	io     *fileIO
	shared *shared

	mu    sync.Mutex
	known map[string]*Table // by metadata location, which never changes content
}

// SQLiteCatalogName is the name under which other engines find the catalog in its database.
const SQLiteCatalogName = "overlake"

// OpenSQLiteCatalog opens or creates the database file; table files go into the store.
func OpenSQLiteCatalog(ctx context.Context, path string, store objstore.Store, opts ...Option) (*SQLiteCatalog, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate")
	if err != nil {
		return nil, errs.Wrap(errs.Unavailable, "lake.catalog", err, errs.On(path))
	}
	if err := prepare(ctx, db); err != nil {
		return nil, errors.Join(errs.Wrap(errs.Unavailable, "lake.catalog", err, errs.On(path), errs.Hint("the file must be a SQLite database that can be written")), db.Close())
	}
	return &SQLiteCatalog{db: db, store: store, io: rooted(store), shared: newShared(opts...), known: map[string]*Table{}}, nil
}

// prepare makes the tables, and the column that separates tables from views where an older version of the schema lacks it.
func prepare(ctx context.Context, db *sql.DB) error {
	for _, s := range []string{
		`CREATE TABLE IF NOT EXISTS iceberg_tables (catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL,
			table_name VARCHAR(255) NOT NULL, metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000),
			iceberg_type VARCHAR(5), PRIMARY KEY (catalog_name, table_namespace, table_name))`,
		`CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (catalog_name VARCHAR(255) NOT NULL, namespace VARCHAR(255) NOT NULL,
			property_key VARCHAR(255) NOT NULL, property_value VARCHAR(1000), PRIMARY KEY (catalog_name, namespace, property_key))`,
	} {
		if _, err := db.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var n int
	if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM pragma_table_info('iceberg_tables') WHERE name = 'iceberg_type'`).Scan(&n); err != nil {
		return err
	}
	if n == 0 {
		if _, err := tx.ExecContext(ctx, `ALTER TABLE iceberg_tables ADD COLUMN iceberg_type VARCHAR(5)`); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// Close closes the database.
func (c *SQLiteCatalog) Close() error { return c.db.Close() }

func (c *SQLiteCatalog) fail(err error) error {
	return errs.Wrap(errs.Unavailable, "lake.catalog", err)
}

func (c *SQLiteCatalog) strings(ctx context.Context, query string, args ...any) ([]string, error) {
	rows, err := c.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, c.fail(err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, c.fail(err)
		}
		out = append(out, s)
	}
	return out, c.fail(rows.Err())
}

// Namespaces lists the schemas.
func (c *SQLiteCatalog) Namespaces(ctx context.Context) ([]string, error) {
	out, err := c.strings(ctx, `SELECT table_namespace FROM iceberg_tables WHERE catalog_name = ?1 UNION SELECT namespace FROM iceberg_namespace_properties WHERE catalog_name = ?1`, SQLiteCatalogName)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(out, DefaultNamespace) {
		out = append(out, DefaultNamespace)
	}
	slices.Sort(out)
	return out, nil
}

func (c *SQLiteCatalog) hasNamespace(ctx context.Context, name string) (bool, error) {
	all, err := c.Namespaces(ctx)
	return slices.Contains(all, name), err
}

// CreateNamespace makes a schema.
func (c *SQLiteCatalog) CreateNamespace(ctx context.Context, name string) error {
	if err := CheckNamespace(name); err != nil {
		return err
	}
	there, err := c.hasNamespace(ctx, name)
	if err != nil {
		return err
	}
	if there {
		return errs.New(errs.Exists, "lake.createNamespace", "the schema exists already", errs.On(name))
	}
	_, err = c.db.ExecContext(ctx, `INSERT OR IGNORE INTO iceberg_namespace_properties VALUES (?, ?, 'exists', 'true')`, SQLiteCatalogName, name)
	return c.fail(err)
}

// DropNamespace removes an empty schema.
func (c *SQLiteCatalog) DropNamespace(ctx context.Context, name string) error {
	there, err := c.hasNamespace(ctx, name)
	if err != nil {
		return err
	}
	if !there {
		return errs.New(errs.NotFound, "lake.dropNamespace", "there is no such schema", errs.On(name))
	}
	tables, err := c.Tables(ctx, name)
	if err != nil {
		return err
	}
	if len(tables) > 0 || name == DefaultNamespace {
		return errs.New(errs.Invalid, "lake.dropNamespace", fmt.Sprintf("the schema holds %d tables, or is the default one", len(tables)), errs.On(name), errs.Hint("drop its tables first"))
	}
	_, err = c.db.ExecContext(ctx, `DELETE FROM iceberg_namespace_properties WHERE catalog_name = ? AND namespace = ?`, SQLiteCatalogName, name)
	return c.fail(err)
}

// Tables lists the tables of a schema.
func (c *SQLiteCatalog) Tables(ctx context.Context, namespace string) ([]Ident, error) {
	list, err := c.strings(ctx, `SELECT table_name FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ? AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL) ORDER BY table_name`, SQLiteCatalogName, namespace)
	out := make([]Ident, len(list))
	for i, n := range list {
		out[i] = Ident{Namespace: namespace, Name: n}
	}
	return out, err
}

// Create makes a table.
func (c *SQLiteCatalog) Create(ctx context.Context, id Ident, spec CreateSpec) (*Table, error) {
	if err := id.Check(); err != nil {
		return nil, err
	}
	if there, err := c.hasNamespace(ctx, id.Namespace); err != nil {
		return nil, err
	} else if !there {
		return nil, errs.New(errs.NotFound, "lake.create", "there is no such schema", errs.On(id.Namespace), errs.Hint("create it with CREATE SCHEMA %s", id.Namespace))
	}
	if _, err := c.Load(ctx, id); err == nil {
		return nil, tableExists(id)
	} else if !errs.Is(err, errs.NotFound) {
		return nil, err
	}
	dir := id.Namespace + "/" + id.Name + "-" + uuid.NewString()[:8]
	meta, err := newMetadata(spec, c.io.location(dir))
	if err != nil {
		return nil, errs.With(err, errs.On(id.String()))
	}
	location, err := c.putMetadata(ctx, id, dir, 0, meta)
	if err != nil {
		return nil, err
	}
	won, err := c.point(ctx, id, location, `INSERT OR IGNORE INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, iceberg_type)
		VALUES (?1, ?2, ?3, ?4, 'TABLE')`)
	if err != nil {
		return nil, err
	}
	if !won {
		return nil, errors.Join(tableExists(id), c.io.Remove(location))
	}
	return c.table(id, location, meta), nil
}

// point changes the pointer of a table to a location by a statement that changes at most one row. The location is unique,
// so a lost answer is looked up: the pointer is ours when it says so.
func (c *SQLiteCatalog) point(ctx context.Context, id Ident, location, statement string, more ...any) (won bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, errs.Wrap(errs.Canceled, "lake.commit", err, errs.On(id.String()))
	}
	ctx, cancel := swapContext(ctx)
	defer cancel()
	res, err := c.db.ExecContext(ctx, statement, append([]any{SQLiteCatalogName, id.Namespace, id.Name, location}, more...)...)
	if err == nil {
		n, err := res.RowsAffected()
		return n > 0, c.fail(err)
	}
	now, rerr := c.pointer(ctx, id)
	switch {
	case rerr != nil:
		return false, unknown(id, err)
	case now == location:
		return true, nil
	}
	return false, c.fail(err) // a statement that failed and left no trace did not happen
}

// pointer is where the newest metadata of a table is; "" for no table.
func (c *SQLiteCatalog) pointer(ctx context.Context, id Ident) (string, error) {
	list, err := c.strings(ctx, `SELECT metadata_location FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?
		AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)`, SQLiteCatalogName, id.Namespace, id.Name)
	if err != nil || len(list) == 0 {
		return "", err
	}
	return list[0], nil
}

// putMetadata writes a metadata file under a name of its own and finds it again.
func (c *SQLiteCatalog) putMetadata(ctx context.Context, id Ident, dir string, n int, meta table.Metadata) (string, error) {
	data, err := json.Marshal(meta)
	if err != nil {
		return "", errs.Wrap(errs.Internal, "lake.commit", err, errs.On(id.String()))
	}
	made := &ledger{}
	name := fmt.Sprintf("%s/metadata/%05d-%s.metadata.json", dir, n, uuid.NewString())
	made.note(name, int64(len(data)))
	_, err = c.store.Put(ctx, name, data, objstore.Condition{IfAbsent: true})
	if err == nil {
		err = made.verify(ctx, c.store)
	}
	if err != nil {
		made.remove(ctx, c.store)
		return "", err
	}
	return c.io.location(name), nil
}

// metadataNumber is the number that the name of a metadata file begins with.
func metadataNumber(location string) int {
	s, _, _ := strings.Cut(path.Base(location), "-")
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

func (c *SQLiteCatalog) table(id Ident, location string, meta table.Metadata) *Table {
	t := &Table{id: id, meta: meta, location: location, io: c.io, cat: c, shared: c.shared}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= maxKnown {
		clear(c.known)
	}
	c.known[location] = t
	return t
}

// maxKnown bounds the metadata versions that a catalog keeps parsed.
const maxKnown = 1000

// Load opens the newest version.
func (c *SQLiteCatalog) Load(ctx context.Context, id Ident) (*Table, error) {
	if err := id.Check(); err != nil {
		return nil, err
	}
	location, err := c.pointer(ctx, id)
	if err != nil {
		return nil, err
	}
	if location == "" {
		all, _ := c.Tables(ctx, id.Namespace)
		return nil, errs.New(errs.NotFound, "lake.load", "there is no such table", errs.On(id.String()), tableHint(id, all))
	}
	c.mu.Lock()
	t := c.known[location]
	c.mu.Unlock()
	if t != nil && t.id == id {
		return t, nil
	}
	meta, err := readMetadata(ctx, c.io, location)
	if err != nil {
		return nil, err
	}
	return c.table(id, location, meta), nil
}

func (c *SQLiteCatalog) commit(ctx context.Context, t *Table, reqs []table.Requirement, updates []table.Update) (*Table, error) {
	meta, err := applyUpdates(t, reqs, updates)
	if err != nil {
		return nil, err
	}
	dir, err := c.io.name(t.Location())
	if err != nil {
		return nil, err
	}
	location, err := c.putMetadata(ctx, t.id, dir, metadataNumber(t.location)+1, meta)
	if err != nil {
		return nil, t.dropped(ctx, err)
	}
	won, err := c.point(ctx, t.id, location, `UPDATE iceberg_tables SET metadata_location = ?4, previous_metadata_location = ?5
		WHERE catalog_name = ?1 AND table_namespace = ?2 AND table_name = ?3 AND metadata_location = ?5`, t.location)
	if err != nil {
		return nil, err
	}
	if !won {
		return nil, errors.Join(errs.New(errs.Conflict, "lake.commit", "another writer committed first", errs.On(t.id.String())), c.io.Remove(location))
	}
	return c.table(t.id, location, meta), nil
}

// Drop removes a table, pointer first. Its files go when they are below a directory of their own.
func (c *SQLiteCatalog) Drop(ctx context.Context, id Ident) error {
	if err := id.Check(); err != nil {
		return err
	}
	location, err := c.pointer(ctx, id)
	if err != nil {
		return err
	}
	t, err := c.Load(ctx, id)
	if err != nil && !errs.Is(err, errs.Corrupt) {
		return err
	}
	if _, err := c.db.ExecContext(ctx, `DELETE FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?`, SQLiteCatalogName, id.Namespace, id.Name); err != nil {
		return c.fail(err)
	}
	if t != nil {
		location = t.Location() + "/metadata/"
	}
	dir, err := c.io.name(path.Dir(path.Dir(pathKey(location))))
	if err != nil || strings.Count(dir, "/") != 1 {
		return err // a table that another program put elsewhere: its files are not ours to find
	}
	shared, err := c.strings(ctx, `SELECT metadata_location FROM iceberg_tables`)
	if err != nil {
		return err
	}
	for _, other := range shared {
		if name, err := c.io.name(other); err == nil && strings.HasPrefix(name, dir+"/") {
			return nil
		}
	}
	var names []string
	for info, err := range c.store.List(ctx, dir+"/") {
		if err != nil {
			return err
		}
		names = append(names, info.Name)
	}
	for _, name := range names {
		if err := c.store.Delete(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// Rename changes the name; the files stay where they are.
func (c *SQLiteCatalog) Rename(ctx context.Context, from, to Ident) error {
	if err := from.Check(); err != nil {
		return err
	}
	if err := to.Check(); err != nil {
		return err
	}
	if there, err := c.hasNamespace(ctx, to.Namespace); err != nil {
		return err
	} else if !there {
		return errs.New(errs.NotFound, "lake.rename", "there is no such schema", errs.On(to.Namespace), errs.Hint("create it with CREATE SCHEMA %s", to.Namespace))
	}
	if _, err := c.Load(ctx, from); err != nil {
		return err
	}
	// OR IGNORE: a name that is taken, also by a table that was created this moment, changes nothing.
	res, err := c.db.ExecContext(ctx, `UPDATE OR IGNORE iceberg_tables SET table_namespace = ?, table_name = ? WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?`,
		to.Namespace, to.Name, SQLiteCatalogName, from.Namespace, from.Name)
	if err != nil {
		return c.fail(err)
	}
	if n, err := res.RowsAffected(); err != nil || n > 0 {
		return c.fail(err)
	}
	if now, err := c.pointer(ctx, from); err != nil || now == "" {
		return errors.Join(err, errs.New(errs.NotFound, "lake.rename", "the table was dropped or renamed meanwhile", errs.On(from.String())))
	}
	return tableExists(to)
}

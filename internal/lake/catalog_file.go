package lake

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/apache/iceberg-go/table"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
)

// fileCatalog keeps tables as Iceberg's directory layout: <namespace>/<table>/metadata/vN.metadata.json. The newest N is
// the table. Version N+1 is written with a condition that there is none, so of any number of writers one wins; there is no
// other pointer. version-hint.text only says where to start looking.
//
// Dropping a table writes one more version, which says so (a tombstone), by the same condition: commits that race with it
// lose. Then everything else is removed. The tombstone stays, and a new table of the name takes the version after it: so a
// writer that still holds the old table never finds the version it wants to write free, and a removal that is still going
// on never meets a file of the new table. Tombstones go with the schema, and with the next drop of the name.
//
// docs/format/catalog-file.md is the page for operators and other programs.
type fileCatalog struct {
	store  objstore.Reader
	w      objstore.Store // nil: read-only
	io     *fileIO
	shared *shared

	mu    sync.Mutex
	known map[Ident]knownVersion
}

type knownVersion struct {
	n    int
	etag string
	t    *Table
}

// OpenFileCatalog opens the tables of a store. A store without write methods gives a catalog that refuses to write.
func OpenFileCatalog(store objstore.Reader, opts ...Option) Catalog {
	w, _ := store.(objstore.Store)
	return &fileCatalog{store: store, w: w, io: rooted(store), shared: newShared(opts...), known: map[Ident]knownVersion{}}
}

const namespaceMark = ".namespace"

func (c *fileCatalog) writable(op string) error {
	if c.w == nil {
		return errs.New(errs.Denied, op, "the warehouse is open read-only", errs.Hint("open it without --read-only"))
	}
	return nil
}

func (c *fileCatalog) Namespaces(ctx context.Context) ([]string, error) {
	set := map[string]bool{DefaultNamespace: true}
	for info, err := range c.store.List(ctx, "") {
		if err != nil {
			return nil, err
		}
		parts := strings.Split(info.Name, "/")
		if len(parts) == 2 && parts[1] == namespaceMark || len(parts) == 4 && parts[2] == "metadata" && versionOf(parts[3]) > 0 {
			if CheckNamespace(parts[0]) == nil {
				set[parts[0]] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(set)), nil
}

func (c *fileCatalog) CreateNamespace(ctx context.Context, name string) error {
	if err := c.writable("lake.createNamespace"); err != nil {
		return err
	}
	if err := CheckNamespace(name); err != nil {
		return err
	}
	there, err := c.Namespaces(ctx)
	if err != nil {
		return err
	}
	if slices.Contains(there, name) {
		return errs.New(errs.Exists, "lake.createNamespace", "the schema exists already", errs.On(name))
	}
	_, err = c.w.Put(ctx, name+"/"+namespaceMark, nil, objstore.Condition{IfAbsent: true})
	return err
}

func (c *fileCatalog) DropNamespace(ctx context.Context, name string) error {
	if err := c.writable("lake.dropNamespace"); err != nil {
		return err
	}
	if err := c.needNamespace(ctx, name); err != nil {
		return err
	}
	tables, err := c.Tables(ctx, name)
	if err != nil {
		return err
	}
	if len(tables) > 0 || name == DefaultNamespace {
		return errs.New(errs.Invalid, "lake.dropNamespace", fmt.Sprintf("the schema holds %d tables, or is the default one", len(tables)), errs.On(name),
			errs.Hint("drop its tables first"))
	}
	// Tombstones, and what interrupted drops left behind, go with the schema.
	last, err := c.newest(ctx, name)
	if err != nil {
		return err
	}
	for table, v := range last {
		if err := c.sweep(ctx, Ident{Namespace: name, Name: table}, v.n, nil); err != nil {
			return err
		}
		if err := c.w.Delete(ctx, v.info.Name); err != nil {
			return err
		}
	}
	return c.w.Delete(ctx, name+"/"+namespaceMark)
}

func (c *fileCatalog) needNamespace(ctx context.Context, name string) error {
	if name == DefaultNamespace {
		return nil
	}
	if _, err := c.store.Stat(ctx, name+"/"+namespaceMark); !errs.Is(err, errs.NotFound) {
		return err
	}
	there, err := c.Namespaces(ctx) // other programs make no mark
	if err != nil {
		return err
	}
	if !slices.Contains(there, name) {
		return errs.New(errs.NotFound, "lake.namespace", "there is no such schema", errs.On(name), errs.Hint("create it with CREATE SCHEMA %s", name))
	}
	return nil
}

func (c *fileCatalog) Tables(ctx context.Context, namespace string) ([]Ident, error) {
	if err := CheckNamespace(namespace); err != nil {
		return nil, err
	}
	newest, err := c.newest(ctx, namespace)
	if err != nil {
		return nil, err
	}
	var out []Ident
	for _, name := range slices.Sorted(maps.Keys(newest)) {
		if info := newest[name].info; info.Size <= maxTombstone {
			dropped, err := c.isTombstone(ctx, info.Name)
			if err != nil {
				return nil, err
			}
			if dropped {
				continue
			}
		}
		out = append(out, Ident{Namespace: namespace, Name: name})
	}
	return out, nil
}

type listed struct {
	n    int
	info objstore.Info
}

// newest lists the newest version of every table of a namespace, tombstones included.
func (c *fileCatalog) newest(ctx context.Context, namespace string) (map[string]listed, error) {
	out := map[string]listed{}
	for info, err := range c.store.List(ctx, namespace+"/") {
		if err != nil {
			return nil, err
		}
		parts := strings.Split(info.Name, "/")
		if len(parts) != 4 || parts[2] != "metadata" {
			continue
		}
		if n := versionOf(parts[3]); n > out[parts[1]].n {
			out[parts[1]] = listed{n, info}
		}
	}
	return out, nil
}

// tombstone is the content of the version that says that a table was dropped. Its keys make every Iceberg reader refuse it.
type tombstone struct {
	Dropped string `json:"overlake-dropped"` // the UUID of the table, "" when its metadata could not be read
}

// maxTombstone bounds a tombstone in bytes; the metadata of a table is always larger.
const maxTombstone = 128

func (c *fileCatalog) isTombstone(ctx context.Context, name string) (bool, error) {
	data, _, err := objstore.ReadAll(ctx, c.store, name, maxMetadata)
	if err != nil && !errs.Is(err, errs.NotFound) {
		return false, err
	}
	return err == nil && isTombstone(data), nil
}

func isTombstone(data []byte) bool {
	var probe map[string]any
	if len(data) > maxTombstone || json.Unmarshal(data, &probe) != nil {
		return false
	}
	_, is := probe["overlake-dropped"]
	return is
}

// versionOf is the number in the name vN.metadata.json; 0 for other names.
func versionOf(base string) int {
	s, isV := strings.CutPrefix(base, "v")
	s, isMeta := strings.CutSuffix(s, ".metadata.json")
	n, err := strconv.Atoi(s)
	if !isV || !isMeta || err != nil || n < 1 || strconv.Itoa(n) != s {
		return 0
	}
	return n
}

func versionName(id Ident, n int) string {
	return fmt.Sprintf("%s/%s/metadata/v%d.metadata.json", id.Namespace, id.Name, n)
}

// version finds the newest version number, 0 for none, starting from a version that is known to exist.
func (c *fileCatalog) version(ctx context.Context, id Ident, from int) (int, error) {
	for n := from; ; n++ {
		if _, err := c.store.Stat(ctx, versionName(id, n+1)); errs.Is(err, errs.NotFound) {
			return n, nil
		} else if err != nil {
			return 0, err
		}
	}
}

func (c *fileCatalog) Load(ctx context.Context, id Ident) (*Table, error) {
	t, _, err := c.load(ctx, id)
	return t, err
}

// load opens the newest version, or gives its number when that is the tombstone of a dropped table; 0 for no version.
func (c *fileCatalog) load(ctx context.Context, id Ident) (t *Table, dropped int, err error) {
	if err := id.Check(); err != nil {
		return nil, 0, err
	}
	c.mu.Lock()
	k := c.known[id]
	c.mu.Unlock()
	n := 0
	if k.n > 0 {
		// The usual case: what we know is still there and still the newest.
		if i, err := c.store.Stat(ctx, versionName(id, k.n)); err == nil && i.ETag == k.etag {
			if n, err = c.version(ctx, id, k.n); err != nil {
				return nil, 0, err
			}
			if n == k.n {
				return k.t, 0, nil
			}
		}
	}
	if n == 0 {
		start, err := c.start(ctx, id)
		if err != nil {
			return nil, 0, err
		}
		if n, err = c.version(ctx, id, start); err != nil {
			return nil, 0, err
		}
	}
	if n == 0 {
		return nil, 0, c.noTable(ctx, id)
	}
	data, found, err := objstore.ReadAll(ctx, c.store, versionName(id, n), maxMetadata)
	if err != nil {
		return nil, 0, err
	}
	if isTombstone(data) {
		c.forget(id)
		return nil, n, c.noTable(ctx, id)
	}
	meta, err := parseMetadata(versionName(id, n), data)
	if err != nil {
		return nil, 0, err
	}
	return c.remember(id, n, found.ETag, meta), 0, nil
}

func (c *fileCatalog) forget(id Ident) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, id)
}

// start is a version below the newest one: from the hint when it is right, else from a listing.
func (c *fileCatalog) start(ctx context.Context, id Ident) (int, error) {
	dir := id.Namespace + "/" + id.Name + "/metadata/"
	if data, _, err := objstore.ReadAll(ctx, c.store, dir+"version-hint.text", 64); err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(data))); err == nil && n > 0 {
			if _, err := c.store.Stat(ctx, versionName(id, n)); err == nil {
				return n - 1, nil
			}
		}
	}
	newest, packed := 0, 0
	for info, err := range c.store.List(ctx, dir+"v") {
		if err != nil {
			return 0, err
		}
		base := strings.TrimPrefix(info.Name, dir)
		newest = max(newest, versionOf(base))
		if s, ok := strings.CutSuffix(base, ".gz.metadata.json"); ok {
			packed = max(packed, versionOf(s+".metadata.json"))
		}
	}
	if packed > newest {
		return 0, errs.New(errs.Unsupported, "lake.load", "the newest metadata of this table is gzip-compressed, which a file catalog cannot commit to", errs.On(id.String()),
			errs.Hint("set write.metadata.compression-codec to none where it is written, or mount the table read-only"))
	}
	return max(newest-1, 0), nil
}

func (c *fileCatalog) remember(id Ident, n int, etag string, meta table.Metadata) *Table {
	t := &Table{id: id, meta: meta, location: c.io.location(versionName(id, n)), io: c.io, shared: c.shared}
	if c.w != nil {
		t.cat = c
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[id] = knownVersion{n, etag, t}
	return t
}

func (c *fileCatalog) noTable(ctx context.Context, id Ident) error {
	var opts []errs.Option
	opts = append(opts, errs.On(id.String()))
	if all, err := c.Tables(ctx, id.Namespace); err == nil {
		opts = append(opts, tableHint(id, all))
	}
	return errs.New(errs.NotFound, "lake.load", "there is no such table", opts...)
}

// tableHint names the nearest of the tables there are.
func tableHint(id Ident, all []Ident) errs.Option {
	lower := make([]string, len(all))
	for i, o := range all {
		lower[i] = strings.ToLower(o.Name)
	}
	if i := slices.Index(lower, errs.Nearest(strings.ToLower(id.Name), lower, 3)); i >= 0 {
		return errs.Hint("did you mean %s?", all[i].Name)
	}
	if len(all) == 0 {
		return errs.Hint("the schema %s has no tables; create one with CREATE TABLE or overlake ingest", id.Namespace)
	}
	return errs.Hint("SHOW TABLES lists the tables")
}

func (c *fileCatalog) Create(ctx context.Context, id Ident, spec CreateSpec) (*Table, error) {
	if err := c.writable("lake.create"); err != nil {
		return nil, err
	}
	if err := id.Check(); err != nil {
		return nil, err
	}
	if err := c.needNamespace(ctx, id.Namespace); err != nil {
		return nil, err
	}
	t, dropped, err := c.load(ctx, id)
	if err == nil {
		return nil, tableExists(t.id)
	}
	if !errs.Is(err, errs.NotFound) {
		return nil, err
	}
	meta, err := newMetadata(spec, c.io.location(id.Namespace+"/"+id.Name))
	if err != nil {
		return nil, errs.With(err, errs.On(id.String()))
	}
	etag, err := c.put(ctx, id, dropped+1, meta)
	if errs.Is(err, errs.Conflict) {
		return nil, tableExists(id)
	}
	if err != nil {
		return nil, err
	}
	return c.remember(id, dropped+1, etag, meta), nil
}

func tableExists(id Ident) error {
	return errs.New(errs.Exists, "lake.create", "the table exists already", errs.On(id.String()),
		errs.Hint("use CREATE TABLE IF NOT EXISTS, or drop it first"))
}

// put writes a metadata version and moves the hint.
func (c *fileCatalog) put(ctx context.Context, id Ident, n int, meta table.Metadata) (etag string, err error) {
	data, err := json.Marshal(meta)
	if err != nil {
		return "", errs.Wrap(errs.Internal, "lake.commit", err, errs.On(id.String()))
	}
	if err := ctx.Err(); err != nil {
		return "", errs.Wrap(errs.Canceled, "lake.commit", err, errs.On(id.String()))
	}
	ctx, cancel := swapContext(ctx)
	defer cancel()
	info, err := c.swap(ctx, id, n, data)
	if err != nil {
		return "", err
	}
	// The hint is an accelerator for us and a convenience for others: a failure to write it is no failure to commit.
	_, _ = c.w.Put(ctx, c.hint(id), []byte(strconv.Itoa(n)), objstore.Condition{})
	return info.ETag, nil
}

func (c *fileCatalog) hint(id Ident) string {
	return id.Namespace + "/" + id.Name + "/metadata/version-hint.text"
}

// swap writes version n if there is none. An answer that was lost is looked up: the version is ours when its bytes are.
// When there is no such version, the write may still be under way, so the same bytes are written again under the same
// condition, which settles it.
func (c *fileCatalog) swap(ctx context.Context, id Ident, n int, data []byte) (objstore.Info, error) {
	name := versionName(id, n)
	for try := 1; ; try++ {
		info, err := c.w.Put(ctx, name, data, objstore.Condition{IfAbsent: true})
		if err == nil {
			return info, nil
		}
		kind := errs.KindOf(err)
		if kind != errs.Exists && kind != errs.Unavailable && kind != errs.Canceled {
			return objstore.Info{}, err
		}
		there, found, rerr := objstore.ReadAll(ctx, c.store, name, maxMetadata)
		switch {
		case rerr == nil && bytes.Equal(there, data):
			return found, nil
		case rerr == nil || kind == errs.Exists && try == 1:
			return objstore.Info{}, errs.New(errs.Conflict, "lake.commit", "another writer committed first", errs.On(id.String()))
		case try == 3:
			return objstore.Info{}, unknown(id, err)
		}
	}
}

func (c *fileCatalog) commit(ctx context.Context, t *Table, reqs []table.Requirement, updates []table.Update) (*Table, error) {
	conflict := errs.New(errs.Conflict, "lake.commit", "the table was changed meanwhile", errs.On(t.id.String()))
	c.mu.Lock()
	k := c.known[t.id]
	c.mu.Unlock()
	if k.t != t {
		return nil, conflict // somebody here has seen another version since
	}
	meta, err := applyUpdates(t, reqs, updates)
	if err != nil {
		return nil, err
	}
	// The version after ours may be free for another reason than that ours is the newest: the table was dropped and
	// created anew and has come just as far, or its old versions were cleaned away. So ours must be there, before and after.
	if !c.still(ctx, t.id, k) {
		c.forget(t.id)
		return nil, conflict
	}
	etag, err := c.put(ctx, t.id, k.n+1, meta)
	if err != nil {
		return nil, err
	}
	ctx, cancel := swapContext(ctx)
	defer cancel()
	if !c.still(ctx, t.id, k) {
		c.forget(t.id)
		if err := c.w.Delete(ctx, versionName(t.id, k.n+1)); err != nil {
			return nil, unknown(t.id, err)
		}
		return nil, conflict
	}
	return c.remember(t.id, k.n+1, etag, meta), nil
}

// still reports whether a version is there as we know it. When the store does not answer, it is taken to be.
func (c *fileCatalog) still(ctx context.Context, id Ident, k knownVersion) bool {
	info, err := c.store.Stat(ctx, versionName(id, k.n))
	return err == nil && info.ETag == k.etag || err != nil && !errs.Is(err, errs.NotFound)
}

func (c *fileCatalog) Drop(ctx context.Context, id Ident) error {
	if err := c.writable("lake.drop"); err != nil {
		return err
	}
	for {
		t, _, err := c.load(ctx, id)
		if err != nil && !errs.Is(err, errs.Corrupt) {
			return err
		}
		mark := tombstone{}
		n := 0
		if err == nil {
			mark.Dropped = t.UUID()
			c.mu.Lock()
			n = c.known[id].n
			c.mu.Unlock()
		} else {
			start, err := c.start(ctx, id)
			if err != nil {
				return err
			}
			if n, err = c.version(ctx, id, start); err != nil {
				return err
			}
		}
		before, err := objects(ctx, c.w, id)
		if err != nil {
			return err
		}
		data, err := json.Marshal(mark)
		if err != nil {
			return errs.Wrap(errs.Internal, "lake.drop", err)
		}
		swapCtx, cancel := swapContext(ctx)
		_, err = c.swap(swapCtx, id, n+1, data)
		cancel()
		if errs.Is(err, errs.Conflict) {
			continue // a commit came first; the table is dropped with it
		}
		if err != nil {
			return err
		}
		c.forget(id)
		return c.sweep(ctx, id, n+1, before)
	}
}

// sweep removes the files of a dropped table except the tombstone, version n; the hint first, so that nobody starts from
// it. Files of a table created since must stay: their first is version n+1, so when that one is not there after the
// files were listed, none of the listed is of a new table; when it is, only files from before the tombstone are removed.
func (c *fileCatalog) sweep(ctx context.Context, id Ident, n int, before []string) error {
	mark := versionName(id, n)
	list, err := objects(ctx, c.w, id)
	if err != nil {
		return err
	}
	if _, err := c.store.Stat(ctx, versionName(id, n+1)); err == nil {
		list = before
	} else if !errs.Is(err, errs.NotFound) {
		return err
	}
	for _, name := range append([]string{c.hint(id)}, list...) {
		if name != mark {
			if err := c.w.Delete(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// objects lists everything below the directory of a table.
func objects(ctx context.Context, r objstore.Reader, id Ident) (names []string, err error) {
	for info, err := range r.List(ctx, id.Namespace+"/"+id.Name+"/") {
		if err != nil {
			return nil, err
		}
		names = append(names, info.Name)
	}
	return names, nil
}

func (c *fileCatalog) Rename(_ context.Context, from, _ Ident) error {
	return errs.New(errs.Unsupported, "lake.rename", "a file catalog cannot rename tables: their metadata names files by absolute paths", errs.On(from.String()),
		errs.Hint("use CREATE TABLE new AS SELECT * FROM %s, or the sqlite catalog", from.Name))
}

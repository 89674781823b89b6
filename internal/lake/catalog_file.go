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

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
)

// fileCatalog keeps tables as Iceberg's directory layout: <namespace>/<table>/metadata/vN.metadata.json. The newest N is
// the table. Version N+1 is written with a condition that there is none, so of any number of writers one wins; there is no
// other pointer. version-hint.text only says where to start looking.
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
func OpenFileCatalog(store objstore.Reader) Catalog {
	w, _ := store.(objstore.Store)
	return &fileCatalog{store: store, w: w, io: rooted(store), shared: newShared(), known: map[Ident]knownVersion{}}
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
		if len(parts) == 2 && parts[1] == namespaceMark || len(parts) == 4 && parts[2] == "metadata" {
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
	return c.w.Delete(ctx, name+"/"+namespaceMark)
}

func (c *fileCatalog) needNamespace(ctx context.Context, name string) error {
	if name == DefaultNamespace {
		return nil
	}
	there, err := c.Namespaces(ctx)
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
	var out []Ident
	for info, err := range c.store.List(ctx, namespace+"/") {
		if err != nil {
			return nil, err
		}
		parts := strings.Split(info.Name, "/")
		if len(parts) == 4 && parts[2] == "metadata" && strings.HasSuffix(parts[3], ".metadata.json") {
			id := Ident{namespace, parts[1]}
			if len(out) == 0 || out[len(out)-1] != id {
				out = append(out, id)
			}
		}
	}
	return out, nil
}

func versionName(id Ident, n int) string {
	return fmt.Sprintf("%s/%s/metadata/v%d.metadata.json", id.Namespace, id.Name, n)
}

// version finds the newest version number, 0 for none, starting from a version that is known to exist.
func (c *fileCatalog) version(ctx context.Context, id Ident, from int) (int, objstore.Info, error) {
	n, info := from, objstore.Info{}
	for {
		i, err := c.store.Stat(ctx, versionName(id, n+1))
		if errs.Is(err, errs.NotFound) {
			return n, info, nil
		}
		if err != nil {
			return 0, info, err
		}
		n, info = n+1, i
	}
}

func (c *fileCatalog) Load(ctx context.Context, id Ident) (*Table, error) {
	if err := id.Check(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	k := c.known[id]
	c.mu.Unlock()
	if k.n > 0 {
		// The usual case: what we know is still there and still the newest.
		if i, err := c.store.Stat(ctx, versionName(id, k.n)); err == nil && i.ETag == k.etag {
			n, info, err := c.version(ctx, id, k.n)
			if err != nil {
				return nil, err
			}
			if n == k.n {
				return k.t, nil
			}
			return c.read(ctx, id, n, info.ETag)
		}
	}
	start, err := c.start(ctx, id)
	if err != nil {
		return nil, err
	}
	n, info, err := c.version(ctx, id, start)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, c.noTable(ctx, id)
	}
	return c.read(ctx, id, n, info.ETag)
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
	newest := 0
	for info, err := range c.store.List(ctx, dir+"v") {
		if err != nil {
			return 0, err
		}
		s, ok := strings.CutSuffix(strings.TrimPrefix(info.Name, dir+"v"), ".metadata.json")
		if n, err := strconv.Atoi(s); ok && err == nil {
			newest = max(newest, n)
		}
	}
	return max(newest-1, 0), nil
}

func (c *fileCatalog) read(ctx context.Context, id Ident, n int, etag string) (*Table, error) {
	location := c.io.location(versionName(id, n))
	meta, err := readMetadata(ctx, c.io, location)
	if err != nil {
		return nil, err
	}
	return c.remember(id, n, etag, meta), nil
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
	best, distance := "", 4
	for _, o := range all {
		if d := editDistance(strings.ToLower(id.Name), strings.ToLower(o.Name)); d < distance {
			best, distance = o.Name, d
		}
	}
	switch {
	case best != "":
		return errs.Hint("did you mean %s?", best)
	case len(all) == 0:
		return errs.Hint("the schema %s has no tables; create one with CREATE TABLE or overlake ingest", id.Namespace)
	}
	return errs.Hint("SHOW TABLES lists the tables")
}

// editDistance is Levenshtein's.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			last, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, last+cost)
		}
	}
	return row[len(b)]
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
	if t, err := c.Load(ctx, id); err == nil {
		return nil, tableExists(t.id)
	} else if !errs.Is(err, errs.NotFound) {
		return nil, err
	}
	meta, err := newMetadata(spec, c.io.location(id.Namespace+"/"+id.Name))
	if err != nil {
		return nil, errs.With(err, errs.On(id.String()))
	}
	etag, err := c.put(ctx, id, 1, meta)
	if errs.Is(err, errs.Conflict) {
		return nil, tableExists(id)
	}
	if err != nil {
		return nil, err
	}
	return c.remember(id, 1, etag, meta), nil
}

func tableExists(id Ident) error {
	return errs.New(errs.Exists, "lake.create", "the table exists already", errs.On(id.String()),
		errs.Hint("use CREATE TABLE IF NOT EXISTS, or drop it first"))
}

// put writes a metadata version. An answer that was lost is looked up: the version is ours when its bytes are.
func (c *fileCatalog) put(ctx context.Context, id Ident, n int, meta table.Metadata) (etag string, err error) {
	data, err := json.Marshal(meta)
	if err != nil {
		return "", errs.Wrap(errs.Internal, "lake.commit", err, errs.On(id.String()))
	}
	name := versionName(id, n)
	info, err := c.w.Put(ctx, name, data, objstore.Condition{IfAbsent: true})
	if err != nil {
		kind := errs.KindOf(err)
		if kind != errs.Exists && kind != errs.Unavailable && kind != errs.Canceled {
			return "", err
		}
		there, found, rerr := objstore.ReadAll(context.WithoutCancel(ctx), c.store, name, maxMetadata)
		switch {
		case rerr == nil && bytes.Equal(there, data):
			info = found
		case rerr == nil || kind == errs.Exists:
			return "", errs.New(errs.Conflict, "lake.commit", "another writer committed first", errs.On(id.String()))
		default:
			return "", err
		}
	}
	// The hint is an accelerator for us and a convenience for others: a failure to write it is no failure to commit.
	_, _ = c.w.Put(context.WithoutCancel(ctx), id.Namespace+"/"+id.Name+"/metadata/version-hint.text", []byte(strconv.Itoa(n)), objstore.Condition{})
	return info.ETag, nil
}

func (c *fileCatalog) commit(ctx context.Context, t *Table, reqs []table.Requirement, updates []table.Update) (*Table, error) {
	c.mu.Lock()
	k := c.known[t.id]
	c.mu.Unlock()
	if k.t == nil || k.t.location != t.location {
		// Somebody here has seen another version since.
		return nil, errs.New(errs.Conflict, "lake.commit", "the table was changed meanwhile", errs.On(t.id.String()))
	}
	meta, err := applyUpdates(t, reqs, updates)
	if err != nil {
		return nil, err
	}
	etag, err := c.put(ctx, t.id, k.n+1, meta)
	if err != nil {
		return nil, err
	}
	return c.remember(t.id, k.n+1, etag, meta), nil
}

func (c *fileCatalog) Drop(ctx context.Context, id Ident) error {
	if err := c.writable("lake.drop"); err != nil {
		return err
	}
	if _, err := c.Load(ctx, id); err != nil && !errs.Is(err, errs.Corrupt) {
		return err
	}
	c.mu.Lock()
	delete(c.known, id)
	c.mu.Unlock()
	return dropFiles(ctx, c.w, id.Namespace+"/"+id.Name+"/")
}

// dropFiles removes a table: newest metadata first, so that a crash midway never leaves a table that names removed files
// as its newest version with older versions gone, then everything else.
func dropFiles(ctx context.Context, w objstore.Store, dir string) error {
	var metadata, rest []string
	for info, err := range w.List(ctx, dir) {
		if err != nil {
			return err
		}
		if strings.HasSuffix(info.Name, ".metadata.json") {
			metadata = append(metadata, info.Name)
		} else {
			rest = append(rest, info.Name)
		}
	}
	slices.SortFunc(metadata, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(b, a)
	})
	for _, name := range append(metadata, rest...) {
		if err := w.Delete(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (c *fileCatalog) Rename(_ context.Context, from, _ Ident) error {
	return errs.New(errs.Unsupported, "lake.rename", "a file catalog cannot rename tables: their metadata names files by absolute paths", errs.On(from.String()),
		errs.Hint("use CREATE TABLE new AS SELECT * FROM %s, or the sqlite catalog", from.Name))
}

// newMetadata is the first version of a table.
func newMetadata(spec CreateSpec, location string) (table.Metadata, error) {
	sc, props, err := toIceberg(spec.Schema)
	if err != nil {
		return nil, err
	}
	if sc.NumFields() == 0 {
		return nil, errs.New(errs.Invalid, "lake.create", "a table needs at least one column")
	}
	maps.Copy(props, spec.Properties)
	version := spec.FormatVersion
	if v, ok := props["format-version"]; ok && version == 0 {
		if version, err = strconv.Atoi(v); err != nil {
			return nil, errs.New(errs.Invalid, "lake.create", "format-version must be 2 or 3, not "+strconv.Quote(v))
		}
	}
	if version == 0 {
		version = 2
	}
	if version != 2 && version != 3 {
		return nil, errs.New(errs.Unsupported, "lake.create", fmt.Sprintf("tables are written in format version 2 or 3, not %d", version))
	}
	if version == 2 && strings.Contains(sc.String(), "_ns") {
		return nil, errs.New(errs.Unsupported, "lake.create", "nanosecond timestamps need format version 3", errs.Hint(`add WITH ("format-version" = 3)`))
	}
	props["format-version"] = strconv.Itoa(version)
	if spec.Comment != "" {
		props["comment"] = spec.Comment
	}
	if err := checkProperties(props); err != nil {
		return nil, err
	}
	pspec, err := partitionSpec(sc, spec.Partition)
	if err != nil {
		return nil, err
	}
	meta, err := table.NewMetadata(sc, pspec, table.UnsortedSortOrder, location, props)
	if err != nil {
		return nil, errs.Wrap(errs.Invalid, "lake.create", err)
	}
	// Field ids may be assigned anew in NewMetadata; declarations follow the columns by name.
	return redeclare(meta, sc)
}

// redeclare moves vector declarations to the ids that the columns really got.
func redeclare(meta table.Metadata, before *iceberg.Schema) (table.Metadata, error) {
	set, remove := iceberg.Properties{}, []string{}
	for _, f := range before.Fields() {
		d, ok := meta.Properties()[typeProperty(f.ID)]
		now, found := meta.CurrentSchema().FindFieldByName(f.Name)
		if ok && found && now.ID != f.ID {
			remove = append(remove, typeProperty(f.ID))
			set[typeProperty(now.ID)] = d
		}
	}
	if len(set) == 0 {
		return meta, nil
	}
	for k := range set {
		remove = slices.DeleteFunc(remove, func(r string) bool { return r == k })
	}
	return table.UpdateTableMetadata(meta, []table.Update{table.NewRemovePropertiesUpdate(remove), table.NewSetPropertiesUpdate(set)}, "")
}

func partitionSpec(sc *iceberg.Schema, fields []PartitionField) (*iceberg.PartitionSpec, error) {
	if len(fields) == 0 {
		return iceberg.UnpartitionedSpec, nil
	}
	var out []iceberg.PartitionField
	for i, f := range fields {
		src, ok := sc.FindFieldByNameCaseInsensitive(f.Column)
		if !ok {
			return nil, errs.New(errs.NotFound, "lake.partition", "there is no such column to partition by", errs.On(f.Column))
		}
		tr, err := iceberg.ParseTransform(f.Transform)
		if err != nil {
			return nil, errs.Wrap(errs.Invalid, "lake.partition", err, errs.On(f.Column))
		}
		if _, unknown := tr.(iceberg.UnknownTransform); unknown {
			return nil, errs.New(errs.Invalid, "lake.partition", "unknown partition transform "+strconv.Quote(f.Transform), errs.On(f.Column),
				errs.Hint("use identity, bucket[n], truncate[n], year, month, day, hour or void"))
		}
		if !tr.CanTransform(src.Type) {
			return nil, errs.New(errs.Invalid, "lake.partition", fmt.Sprintf("the transform %s does not apply to %s", tr, src.Type), errs.On(f.Column))
		}
		name := f.Name
		if name == "" {
			name = src.Name
			if t := tr.String(); t != "identity" {
				kind, _, _ := strings.Cut(t, "[")
				name += "_" + kind
			}
		}
		out = append(out, iceberg.PartitionField{SourceIDs: []int{src.ID}, FieldID: 1000 + i, Name: name, Transform: tr})
	}
	spec := iceberg.NewPartitionSpec(out...)
	return &spec, nil
}

// applyUpdates checks the requirements of a commit and makes its metadata.
func applyUpdates(t *Table, reqs []table.Requirement, updates []table.Update) (table.Metadata, error) {
	for _, r := range reqs {
		if err := r.Validate(t.meta); err != nil {
			return nil, errs.Wrap(errs.Conflict, "lake.commit", err, errs.On(t.id.String()))
		}
	}
	meta, err := table.UpdateTableMetadata(t.meta, updates, t.location)
	if err != nil {
		return nil, errs.Wrap(errs.Invalid, "lake.commit", err, errs.On(t.id.String()))
	}
	return meta, nil
}

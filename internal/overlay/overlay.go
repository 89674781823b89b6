// Package overlay answers: which index covers which file?
//
// The overlay of a table lies beside it, under a prefix of its own, and consists of
//
//   - definitions: an index is a name, a kind, columns by field id, and parameters;
//   - artifacts: what an index says about the rows of one data file, or of several small ones whose rows are counted one
//     file behind the other;
//   - bundles: Puffin files that hold artifacts;
//   - versions: which definitions and artifacts there are, in a chain of its own (manifest.go).
//
// An artifact belongs to data files, not to a snapshot: it is valid for every snapshot that holds its files. It covers a
// file when path, size, ETag and number of rows are those it was built from, and when kind, columns and types are those
// of the definition today. Everything else is not covered, and the file is scanned.
//
// What holds at all times:
//
//	O1  A version names only bundles that were read back and verified.
//	O2  An artifact that is missing, damaged or of another file makes a query slower and is reported; it never changes an
//	    answer, and the next build replaces it.
//	O3  Nothing in the table is written, so builds never conflict with commits.
//	O4  What a build holds in memory is bounded by a number; what does not fit goes to files.
package overlay

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/uuid"

	"github.com/overlakedb/overlake/internal/datafile"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/vec"
)

// Event is something that a person may want to know and that no query fails for.
type Event struct {
	Table  string // name of the table
	Index  string // name of the index, if one is concerned
	Object string // bundle, data file or manifest
	What   string
	Err    error
}

// Options of the overlays of a warehouse. The zero value is usable.
type Options struct {
	// Memory bounds what one build holds, in bytes; 0 means 256 MiB, and 1 GiB for indexes of vectors.
	Memory int64
	// Cache bounds the opened artifacts that are kept for queries, in bytes; 0 means 128 MiB.
	Cache int64
	// SpillDir is where builds put what does not fit into memory; "" means the system's directory for temporary files.
	SpillDir string
	// ByHand keeps Follow from building.
	ByHand bool
	// Events is told of damage; nil ignores it. It is called by several goroutines.
	Events func(Event)
	// Holds is told how many bytes a build may hold from now on, and calls what it gives when it no longer does; nil ignores it. It is
	// called by several goroutines.
	Holds func(bytes int64) (done func())
}

const (
	defaultMemory = 256 << 20
	vectorMemory  = 1 << 30
	defaultCache  = 128 << 20
)

// Set is the overlays of the tables of a warehouse. It is safe for concurrent use.
type Set struct {
	store objstore.Reader
	write objstore.Store // nil: overlays are only read
	opts  Options
	cache *readers

	vectorMemory int64 // for a build of vectors

	background background

	mu   sync.Mutex
	open map[string]*Overlay // by the table's UUID
}

// NewSet opens the overlays that lie in a store. A store that is also an objstore.Store can be built into.
func NewSet(store objstore.Reader, opts Options) *Set {
	vectors := opts.Memory
	if opts.Memory <= 0 {
		opts.Memory, vectors = defaultMemory, vectorMemory
	}
	if opts.Cache <= 0 {
		opts.Cache = defaultCache
	}
	s := &Set{store: store, opts: opts, vectorMemory: vectors, open: map[string]*Overlay{}, cache: newReaders(store, opts.Cache)}
	s.write, _ = store.(objstore.Store)
	return s
}

// Of is the overlay of a table.
func (s *Set) Of(t *lake.Table) *Overlay {
	id := t.UUID()
	away := ""
	if l := t.Properties()[LocationProperty]; l != "" && elsewhere(l, s.store.Location()) {
		away = l
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.open[id]
	if o != nil && o.away != away {
		o = nil // the property was changed
	}
	if o == nil {
		prefix := Prefix(id)
		o = &Overlay{set: s, away: away, table: t.Ident().String(), prefix: prefix, chain: OpenChain(s.store, prefix)}
		s.open[id] = o
	}
	return o
}

// Close ends background builds, which go on where they were when they are asked for again, and closes what is open. What is
// mapped into memory goes once no query uses it.
func (s *Set) Close() error {
	s.background.stop()
	s.cache.open.Clear()
	s.cache.bundles.close()
	return nil
}

// Prefix is where the overlay of a table lies in the warehouse, without a slash at the end. It is no part of the table's
// own location, where other engines remove what they do not know.
func Prefix(tableUUID string) string { return "_overlay/" + tableUUID }

// LocationProperty of a table says where its overlay lies, as a URL. It must be the place that the warehouse's overlays are
// in, or below it: a property of a table cannot make a program read or write elsewhere.
const LocationProperty = lake.OverlayLocationKey

// elsewhere tells whether a location is not the store's.
func elsewhere(location, store string) bool {
	location = strings.TrimSuffix(location, "/")
	if strings.HasPrefix(location, "/") {
		location = "file://" + location
	}
	return location != store && !strings.HasPrefix(location, store+"/")
}

// Overlay is the indexes of one table. It is safe for concurrent use, also by other processes.
type Overlay struct {
	away   string // the location that the table asks for, when the warehouse's overlays are not there
	set    *Set
	table  string
	prefix string
	chain  *Chain
}

func (o *Overlay) event(e Event) {
	if o.set.opts.Events != nil {
		e.Table = o.table
		o.set.opts.Events(e)
	}
}

// version loads the newest version and reports what of it cannot be read.
func (o *Overlay) version(ctx context.Context) (*Version, error) {
	if o.away != "" {
		return &Version{}, nil
	}
	v, err := o.chain.Load(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range v.Damage {
		o.event(Event{Object: o.prefix, What: "part of the overlay's manifest is damaged", Err: e})
	}
	return v, nil
}

// Spec asks for an index.
type Spec struct {
	Name    string   // "" makes one of table, columns, kind and, unless it is l2, metric
	Kind    string   // "" means bitmap, and hnsw_tq8 for a column of vectors
	Columns []string // of the table, in the order of the key
	Params  map[string]string
}

// maxColumns bounds the columns of a composite index.
const maxColumns = 16

// Define adds a definition. Nothing is built; see Build. A name that is taken is Exists.
func (o *Overlay) Define(ctx context.Context, t *lake.Table, spec Spec) (Definition, error) {
	if err := o.writable(); err != nil {
		return Definition{}, err
	}
	d, err := o.definition(t, spec)
	if err != nil {
		return Definition{}, err
	}
	_, err = o.chain.Update(ctx, o.set.write, func(v *Version) (Edit, error) {
		for _, old := range v.Definitions() {
			if strings.EqualFold(old.Name, d.Name) {
				return Edit{}, errs.New(errs.Exists, "overlay.define", "there is an index of this name", errs.On(d.Name),
					errs.Hint("choose another name, or write IF NOT EXISTS"))
			}
		}
		return Edit{AddDefinitions: []Definition{d}}, nil
	})
	return d, err
}

func (o *Overlay) writable() error {
	if o.away != "" {
		return errs.New(errs.Unsupported, "overlay.write", "the table's property "+LocationProperty+" names a place that this warehouse keeps no indexes in", errs.On(o.away),
			errs.Hint("open the warehouse with this place for its indexes (--overlay), or remove the property"))
	}
	if o.set.write == nil {
		return errs.New(errs.Denied, "overlay.write", "the warehouse is open for reading only, and so are its indexes", errs.On(o.table))
	}
	return nil
}

// definition checks a spec against the table.
func (o *Overlay) definition(t *lake.Table, spec Spec) (Definition, error) {
	bad := func(format string, args ...any) (Definition, error) {
		return Definition{}, errs.Newf(errs.Invalid, "overlay.define", format, args...)
	}
	d := Definition{ID: uuid.NewString(), Name: spec.Name, Kind: spec.Kind, Params: map[string]string{}, Created: time.Now().UTC().Truncate(time.Millisecond)}
	switch {
	case d.Kind == "composite":
		d.Kind = Bitmap
	case d.Kind == "":
		d.Kind = defaultKind(t.Schema(), spec.Columns)
	}
	if !IsKind(d.Kind) {
		return Definition{}, errs.New(errs.Unsupported, "overlay.define", "there is no such kind of index", errs.On(spec.Kind),
			errs.Hint("the kinds are %s", strings.Join(Kinds(), ", ")))
	}
	if len(spec.Columns) == 0 {
		return bad("an index needs a column")
	}
	if len(spec.Columns) > maxColumns {
		return bad("an index takes at most %d columns", maxColumns)
	}
	if d.Kind == Bloom && len(spec.Columns) > 1 {
		return bad("a Bloom index takes one column")
	}
	if OfVectors(d.Kind) && len(spec.Columns) > 1 {
		return bad("an index of vectors takes one column")
	}
	schema := t.Schema()
	for _, name := range spec.Columns {
		at := slices.IndexFunc(schema.Fields(), func(f arrow.Field) bool { return strings.EqualFold(f.Name, name) })
		if at < 0 {
			return Definition{}, errs.New(errs.NotFound, "overlay.define", "there is no such column", errs.On(name), errs.Hint("%s", nearestColumn(schema, name)))
		}
		f := schema.Field(at)
		if err := indexable(d.Kind, f, asked(spec.Params)); err != nil {
			return Definition{}, err
		}
		id := datafile.FieldID(f)
		if slices.Contains(d.Columns, id) {
			return bad("column %s is named twice", f.Name)
		}
		d.Columns = append(d.Columns, id)
	}
	if err := setParams(&d, spec.Params); err != nil {
		return Definition{}, err
	}
	if OfVectors(d.Kind) && d.Params["metric"] == "" {
		form, _ := FormOf(schema.Field(slices.IndexFunc(schema.Fields(), func(f arrow.Field) bool { return datafile.FieldID(f) == d.Columns[0] })))
		d.Params["metric"] = form.Metric().String()
	}
	if d.Name == "" {
		d.Name = t.Ident().Name + "_" + strings.ToLower(strings.Join(spec.Columns, "_")) + "_" + d.Kind
		if m := d.Params["metric"]; OfVectors(d.Kind) && m != vec.MetricL2.String() { // a column may have an index by each
			d.Name += "_" + m
		}
	}
	if len(d.Name) > 255 {
		return bad("the name of an index has at most 255 bytes")
	}
	return d, nil
}

func nearestColumn(sc *arrow.Schema, name string) string {
	var names []string
	for _, f := range sc.Fields() {
		names = append(names, f.Name)
	}
	if best := errs.Nearest(name, names, 2); best != "" {
		return "did you mean " + best + "?"
	}
	return "the columns are " + strings.Join(names, ", ")
}

// Alter changes parameters of an index. Artifacts of other parameters do not cover any more; see Build.
func (o *Overlay) Alter(ctx context.Context, name string, set map[string]string) (Definition, error) {
	if err := o.writable(); err != nil {
		return Definition{}, err
	}
	var out Definition
	_, err := o.chain.Update(ctx, o.set.write, func(v *Version) (Edit, error) {
		d, ok := find(v, name)
		if !ok {
			return Edit{}, missing(name)
		}
		old := d
		d.Params = maps.Clone(d.Params)
		if d.Params == nil { // a definition without parameters that came from the store
			d.Params = map[string]string{}
		}
		if err := setParams(&d, set); err != nil {
			return Edit{}, err
		}
		if m, was := vector.MetricOf(d.Params), vector.MetricOf(old.Params); m.OfBits() != was.OfBits() {
			return Edit{}, errs.Newf(errs.Unsupported, "overlay.alter", "an index by %s cannot become one by %s: its column holds other values", was, m)
		}
		out = d
		switch {
		case maps.Equal(d.Params, old.Params):
			return Edit{}, nil
		case maps.Equal(buildParams(&d), buildParams(&old)): // what is built stays
			return Edit{ChangeDefinitions: []Definition{d}}, nil
		}
		d.ID = uuid.NewString()
		out = d
		return Edit{DropDefinitions: []string{old.ID}, AddDefinitions: []Definition{d}}, nil
	})
	return out, err
}

// Rename gives an index another name.
func (o *Overlay) Rename(ctx context.Context, from, to string) error {
	if err := o.writable(); err != nil {
		return err
	}
	_, err := o.chain.Update(ctx, o.set.write, func(v *Version) (Edit, error) {
		d, ok := find(v, from)
		if !ok {
			return Edit{}, missing(from)
		}
		if other, taken := find(v, to); taken && other.ID != d.ID {
			return Edit{}, errs.New(errs.Exists, "overlay.rename", "there is an index of this name", errs.On(to))
		}
		d.Name = to
		return Edit{ChangeDefinitions: []Definition{d}}, nil
	})
	return err
}

// Drop removes an index: the definition and, from the next collection of garbage on, its artifacts.
func (o *Overlay) Drop(ctx context.Context, name string) error {
	if err := o.writable(); err != nil {
		return err
	}
	_, err := o.chain.Update(ctx, o.set.write, func(v *Version) (Edit, error) {
		d, ok := find(v, name)
		if !ok {
			return Edit{}, missing(name)
		}
		return Edit{DropDefinitions: []string{d.ID}}, nil
	})
	return err
}

// ColumnsDropped removes the indexes over columns that the table has no more. A failure leaves them, of no use, and is an
// event: the columns are gone already.
func (o *Overlay) ColumnsDropped(ctx context.Context, t *lake.Table) {
	gone := func(v *Version) (ids []string) {
		for _, d := range v.Definitions() {
			if _, ok := fingerprint(&d, t.Schema()); !ok {
				ids = append(ids, d.ID)
			}
		}
		return ids
	}
	v, err := o.version(ctx)
	if err == nil && len(gone(v)) > 0 && o.writable() == nil {
		_, err = o.chain.Update(ctx, o.set.write, func(v *Version) (Edit, error) { return Edit{DropDefinitions: gone(v)}, nil })
	}
	if err != nil {
		o.event(Event{Object: o.prefix, What: "indexes of dropped columns could not be removed", Err: err})
	}
}

func find(v *Version, name string) (Definition, bool) {
	for _, d := range v.Definitions() {
		if strings.EqualFold(d.Name, name) {
			return d, true
		}
	}
	return Definition{}, false
}

func missing(name string) error {
	return errs.New(errs.NotFound, "overlay.index", "there is no such index", errs.On(name), errs.Hint("SHOW INDEXES lists them"))
}

// Remove deletes the overlay of a table that is gone.
func (s *Set) Remove(ctx context.Context, tableUUID string) error {
	if s.write == nil {
		return nil
	}
	s.background.end(tableUUID)
	s.mu.Lock()
	delete(s.open, tableUUID)
	s.mu.Unlock()
	for info, err := range s.store.List(ctx, Prefix(tableUUID)+"/") {
		if err != nil {
			return err
		}
		if err := s.write.Delete(ctx, info.Name); err != nil {
			return err
		}
	}
	return nil
}

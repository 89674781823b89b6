// Package lake answers: which files are the table?
//
// A Catalog maps an Ident to a table. A Table is an immutable view of one metadata version: its schema, its snapshots,
// and, through Plan, the data files of one snapshot with the rows deleted from each. Writing makes new objects first,
// reads them back, and then commits one new metadata version; the result is a new Table.
//
// Everything on disk is Apache Iceberg, so other engines read what is written here, and what they write is read or
// refused with a reason. This is the only room that knows Iceberg, and iceberg-go enters here.
//
// Rules of the room:
//
//	L1  Metadata names only objects that were written, made durable and found again (promise P2).
//	L2  iceberg-go never retries a commit: its replay can leave two deletion vectors on one file. A lost race is one error
//	    of kind Conflict inside, and the whole operation is planned again here, a bounded number of times.
//	L3  A table opened read-only, and every mounted one, holds a store value without write methods.
//	L4  Manifests, and the deletes read from delete files, are immutable and cached by path; metadata versions by ETag.
package lake

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"github.com/overlakedb/overlake/internal/budget"
	"github.com/overlakedb/overlake/internal/cache"
	"github.com/overlakedb/overlake/internal/datafile"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake/ident"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/predicate"
)

// Ident names a table inside a catalog.
type Ident = ident.Ident

// DefaultNamespace is where unqualified names live.
const DefaultNamespace = "main"

// CheckNamespace refuses names that cannot be a namespace.
func CheckNamespace(name string) error { return ident.CheckNamespace(name) }

// Catalog finds and makes tables. It is safe for concurrent use, in this process and across processes.
type Catalog interface {
	Namespaces(ctx context.Context) ([]string, error)
	CreateNamespace(ctx context.Context, name string) error
	// DropNamespace removes an empty namespace.
	DropNamespace(ctx context.Context, name string) error
	// Tables lists the tables of a namespace by name.
	Tables(ctx context.Context, namespace string) ([]Ident, error)
	// Create makes a table without rows; Exists when there is one.
	Create(ctx context.Context, id Ident, spec CreateSpec) (*Table, error)
	// Load opens the newest version; NotFound when there is no such table.
	Load(ctx context.Context, id Ident) (*Table, error)
	// Drop removes a table with its files.
	Drop(ctx context.Context, id Ident) error
	// Rename moves a table to another name of the catalog.
	Rename(ctx context.Context, from, to Ident) error
}

// CreateSpec describes a new table.
type CreateSpec struct {
	// Schema of the rows; field ids are assigned here. A field with metadata overlake.type = vector(n) is a list of
	// float32 declared as a vector; see package declared for the other types.
	Schema    *arrow.Schema
	Partition []PartitionField
	// Defaults are the values of columns in rows that do not give one, by column; they need format version 3.
	Defaults   map[string]predicate.Value
	Properties map[string]string
	// FormatVersion is 2 or 3; 0 means 2, or what the property format-version says.
	FormatVersion int
	Comment       string
}

// PartitionField derives a partition value from a column.
type PartitionField struct {
	Column    string
	Transform string // identity, bucket[n], truncate[n], year, month, day, hour or void
	Name      string // "" derives it from column and transform
}

// Ref names a snapshot; the zero value is the current one.
type Ref struct {
	SnapshotID int64     // by id
	AsOf       time.Time // the current snapshot of that time
	Name       string    // a branch or tag
}

// IsZero reports whether the current snapshot is meant.
func (r Ref) IsZero() bool { return r == Ref{} }

// Snapshot is one state of a table.
type Snapshot struct {
	ID, ParentID int64 // ParentID is 0 for the first
	Sequence     int64
	Time         time.Time
	Operation    string // append, overwrite, replace or delete
	Summary      map[string]string
}

// Table is one version of a table.
type Table struct {
	id       Ident
	meta     table.Metadata
	location string // of the metadata file
	io       *fileIO
	cat      committer // nil: no way to write
	reload   func(ctx context.Context) (*Table, error)
	shared   *shared
	known    atomic.Pointer[knownSchema] // the current schema, once it was asked for
}

// committer is the writing half of a catalog.
type committer interface {
	// commit replaces a version of a table by one with the updates; Conflict when another version is current, or a
	// requirement does not hold.
	commit(ctx context.Context, t *Table, reqs []table.Requirement, updates []table.Update) (*Table, error)
	Load(ctx context.Context, id Ident) (*Table, error)
}

// shared holds the caches of a catalog: what immutable objects say, bounded in bytes.
type shared struct {
	manifests *cache.LRU      // manifest lists and manifests, decoded
	deletes   *cache.LRU      // delete files, decoded, and the positions that equality deletes come to
	pages     *datafile.Pages // of data files that rows were fetched from
	memory    *budget.Budget  // of manifests and delete files while they are decoded
}

// The caches of a catalog, in bytes. A data file takes about 1 KB in a manifest, so the first holds the manifests of
// some 250,000 files. The last holds the pages of some thousand rows in no order.
const (
	manifestCacheBytes = 256 << 20
	deleteCacheBytes   = 256 << 20
	pageCacheBytes     = 128 << 20
)

// defaultMemory bounds what manifests and delete files take while they are decoded, where no budget is given.
const defaultMemory = 2 << 30

// Option shapes a catalog.
type Option func(*shared)

// Memory makes what manifests and delete files take while they are decoded count for a budget, and keeps each cache of
// the catalog below a quarter of it, that of pages below a sixteenth.
func Memory(b *budget.Budget) Option {
	return func(s *shared) {
		s.memory = b.Child("memory limit", b.Limit())
		s.manifests = cache.New(min(manifestCacheBytes, b.Limit()/4))
		s.deletes = cache.New(min(deleteCacheBytes, b.Limit()/4))
		s.pages = datafile.NewPages(min(pageCacheBytes, b.Limit()/16))
	}
}

func newShared(opts ...Option) *shared {
	s := &shared{}
	Memory(budget.New(defaultMemory))(s)
	for _, o := range opts {
		o(s)
	}
	return s
}

// decoding reserves memory for a file of so many bytes that is about to be decoded. It waits for its turn, unless the
// caller holds a reservation already. What the content takes beyond it is asked for by growTo, as it becomes known.
func (s *shared) decoding(ctx context.Context, size int64, holds bool) (*budget.Reservation, error) {
	size = max(min(size, s.memory.Limit()), 0)
	if holds {
		return s.memory.TryReserve(size)
	}
	return s.memory.Reserve(ctx, size)
}

// growTo makes a reservation as large as the content is by now. It asks for more than that, so that few calls ask.
func growTo(r *budget.Reservation, size int64) error {
	d := size - r.Size()
	if d <= 0 {
		return nil
	}
	if r.Grow(d+size/8) == nil {
		return nil
	}
	return errs.With(r.Grow(d), errs.Hint("raise the memory limit of the warehouse, or run less at once"))
}

// Ident is the name the table was opened by.
func (t *Table) Ident() Ident { return t.id }

// UUID identifies the table for life. Format version 1 does without one; then it is made of the location.
func (t *Table) UUID() string {
	id := t.meta.TableUUID()
	if id == uuid.Nil {
		id = uuid.NewSHA1(uuid.NameSpaceURL, []byte(t.meta.Location()))
	}
	return id.String()
}

// Location is where the table lives, as its metadata says.
func (t *Table) Location() string { return t.meta.Location() }

// MetadataLocation is the metadata file of this version.
func (t *Table) MetadataLocation() string { return t.location }

// FormatVersion is Iceberg's: 1, 2 or 3.
func (t *Table) FormatVersion() int { return t.meta.Version() }

// Properties are the table properties.
func (t *Table) Properties() map[string]string {
	out := make(map[string]string, len(t.meta.Properties()))
	for k, v := range t.meta.Properties() {
		out[k] = v
	}
	return out
}

// ReadOnly reports whether the table cannot be written through this value.
func (t *Table) ReadOnly() bool { return t.cat == nil }

// Schema is the current schema; see toArrow for the metadata of its fields.
func (t *Table) Schema() *arrow.Schema {
	sc, err := t.toArrow(t.current())
	if err != nil {
		return arrow.NewSchema(nil, nil)
	}
	return sc
}

// SchemaAt is the schema of a snapshot.
func (t *Table) SchemaAt(ref Ref) (*arrow.Schema, error) {
	s, err := t.schemaAt(ref)
	if err != nil {
		return nil, err
	}
	return t.toArrow(s)
}

func (t *Table) schemaAt(ref Ref) (*iceberg.Schema, error) {
	if ref.IsZero() {
		return t.current(), nil
	}
	snap, err := t.snapshot(ref)
	if err != nil {
		return nil, err
	}
	// A branch is read with the table's schema, everything older and every tag with its own.
	if !t.isBranch(ref.Name) && snap.SchemaID != nil {
		for _, s := range t.meta.Schemas() {
			if s.ID == *snap.SchemaID {
				return s, nil
			}
		}
	}
	return t.current(), nil
}

func (t *Table) isBranch(name string) bool {
	for n, r := range t.meta.Refs() {
		if n == name {
			return r.SnapshotRefType == table.BranchRef
		}
	}
	return false
}

// PartitionFields describes the current partition spec.
func (t *Table) PartitionFields() []PartitionField {
	spec := t.meta.PartitionSpec()
	var out []PartitionField
	for _, f := range spec.Fields() {
		name, _ := t.meta.CurrentSchema().FindColumnName(f.SourceID())
		out = append(out, PartitionField{Column: name, Transform: f.Transform.String(), Name: f.Name})
	}
	return out
}

// CurrentSnapshot is the newest state; false for a table that never had rows.
func (t *Table) CurrentSnapshot() (Snapshot, bool) {
	s := t.meta.CurrentSnapshot()
	if s == nil {
		return Snapshot{}, false
	}
	return snapshotOf(s), true
}

// Snapshots lists all states, oldest first.
func (t *Table) Snapshots() []Snapshot {
	var out []Snapshot
	for _, s := range t.meta.Snapshots() {
		out = append(out, snapshotOf(&s))
	}
	return out
}

func snapshotOf(s *table.Snapshot) Snapshot {
	out := Snapshot{ID: s.SnapshotID, Sequence: s.SequenceNumber, Time: time.UnixMilli(s.TimestampMs).UTC(), Summary: map[string]string{}}
	if s.ParentSnapshotID != nil {
		out.ParentID = *s.ParentSnapshotID
	}
	if s.Summary != nil {
		out.Operation = string(s.Summary.Operation)
		for k, v := range s.Summary.Properties {
			out.Summary[k] = v
		}
	}
	return out
}

// snapshot finds the state a Ref names; nil without error for the current state of a table that never had rows.
func (t *Table) snapshot(ref Ref) (*table.Snapshot, error) {
	missing := func(what string) error {
		hint := "the table has no snapshots"
		if n := len(t.meta.Snapshots()); n > 0 {
			first := snapshotOf(&t.meta.Snapshots()[0])
			hint = fmt.Sprintf("its %d snapshots begin at %s; list them with overlake inspect %s", n, first.Time.Format(time.RFC3339), t.id.Name)
		}
		return errs.New(errs.NotFound, "lake.snapshot", what, errs.On(t.id.String()), errs.Hint("%s", hint))
	}
	switch {
	case ref.IsZero():
		return t.meta.CurrentSnapshot(), nil
	case ref.Name != "":
		if s := t.meta.SnapshotByName(ref.Name); s != nil {
			return s, nil
		}
		return nil, missing(fmt.Sprintf("there is no branch or tag %q", ref.Name))
	case ref.SnapshotID != 0:
		if s := t.meta.SnapshotByID(ref.SnapshotID); s != nil {
			return s, nil
		}
		return nil, missing(fmt.Sprintf("there is no snapshot %d", ref.SnapshotID))
	}
	var id int64
	found := false
	for e := range t.meta.SnapshotLogs() {
		if e.TimestampMs <= ref.AsOf.UnixMilli() {
			id, found = e.SnapshotID, true
		}
	}
	if s := t.meta.SnapshotByID(id); found && s != nil {
		return s, nil
	}
	return nil, missing("there was no snapshot at " + ref.AsOf.UTC().Format(time.RFC3339Nano))
}

// Refresh loads the newest version. A table mounted by a metadata file stays what it is.
func (t *Table) Refresh(ctx context.Context) (*Table, error) {
	switch {
	case t.reload != nil:
		return t.reload(ctx)
	case t.cat == nil:
		return t, nil
	}
	return t.cat.Load(ctx, t.id)
}

// Store is where the table's objects are.
func (t *Table) Store() objstore.Reader { return t.io.store }

func denied(id Ident) error {
	return errs.New(errs.Denied, "lake.write", "the table is read-only", errs.On(id.String()),
		errs.Hint("open the warehouse without --read-only; mounted tables are never written"))
}

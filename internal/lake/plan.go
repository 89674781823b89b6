package lake

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/row"
)

// DataFile is one file of a plan.
type DataFile struct {
	Path      string // as the metadata has it
	Name      string // in Store
	Store     objstore.Reader
	Size      int64
	Rows      int64
	Sequence  int64
	Deletes   *row.Bitmap // positions of deleted rows; nil: none
	entry     *fileEntry
	partition *iceberg.PartitionSpec
}

// Plan lists the files to read for one state of a table, in a deterministic order.
type Plan struct {
	SnapshotID        int64 // 0 for a table that never had rows
	Schema            *arrow.Schema
	Files             []DataFile
	Total             int // data files of the snapshot
	PrunedByPartition int
	PrunedByStats     int
	Rows, Bytes       int64 // of Files, deleted rows included
	Deleted           int64 // rows deleted from Files
}

// maxManifestEntries bounds the manifest cache of a catalog, in file entries (about 1 KB each).
const maxManifestEntries = 200_000

// Plan finds the files that may hold rows for which the filter is true. What a filter cannot tell keeps the file.
func (t *Table) Plan(ctx context.Context, ref Ref, filter predicate.Expr) (*Plan, error) {
	schema, err := t.schemaAt(ref)
	if err != nil {
		return nil, err
	}
	p := &Plan{}
	if p.Schema, err = t.toArrow(schema); err != nil {
		return nil, err
	}
	snap, err := t.snapshot(ref)
	if err != nil || snap == nil {
		return p, err
	}
	p.SnapshotID = snap.SnapshotID
	data, deletes, err := t.entries(ctx, snap)
	if err != nil {
		return nil, err
	}
	ev := &evaluator{schema: schema}
	for _, e := range data {
		p.Total++
		spec := t.meta.PartitionSpecByID(e.specID)
		if filter != nil {
			ev.entry, ev.spec = e, spec
			if !ev.may(filter, byPartition) {
				p.PrunedByPartition++
				continue
			}
			if !ev.may(filter, byStats) {
				p.PrunedByStats++
				continue
			}
		}
		if e.encrypted {
			return nil, refuseEncrypted(e.path)
		}
		if e.format != "PARQUET" {
			return nil, errs.New(errs.Unsupported, "lake.plan", "data files of format "+e.format+" cannot be read", errs.On(e.path),
				errs.Hint("rewrite the table to Parquet with the engine that wrote it"))
		}
		name, err := t.io.name(e.path)
		if err != nil {
			return nil, err
		}
		p.Files = append(p.Files, DataFile{Path: e.path, Name: name, Store: t.io.store, Size: e.size, Rows: e.rows, Sequence: e.sequence, entry: e, partition: spec})
		p.Rows += e.rows
		p.Bytes += e.size
	}
	slices.SortStableFunc(p.Files, func(a, b DataFile) int {
		return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), strings.Compare(a.Path, b.Path))
	})
	if len(deletes) > 0 {
		if err := t.resolveDeletes(ctx, p, deletes); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// entries gives the live data and delete files of a snapshot.
func (t *Table) entries(ctx context.Context, snap *table.Snapshot) (data, deletes []*fileEntry, err error) {
	var refs []manifestRef
	if snap.ManifestList != "" {
		raw, err := t.io.read(ctx, snap.ManifestList)
		if err != nil {
			return nil, nil, err
		}
		if refs, err = readManifestList(snap.ManifestList, raw); err != nil {
			return nil, nil, err
		}
	} else {
		// Version 1 may list manifests in the snapshot itself.
		for _, m := range snap.ManifestLocations {
			refs = append(refs, manifestRef{path: m, live: true, snapshotID: snap.SnapshotID})
		}
	}
	for i := range refs {
		m := &refs[i]
		if !m.live {
			continue
		}
		if m.encrypted {
			return nil, nil, refuseEncrypted(m.path)
		}
		entries, err := t.manifest(ctx, m)
		if err != nil {
			return nil, nil, err
		}
		for k := range entries {
			if entries[k].content == contentData {
				data = append(data, &entries[k])
			} else {
				deletes = append(deletes, &entries[k])
			}
		}
	}
	return data, deletes, nil
}

func (t *Table) manifest(ctx context.Context, m *manifestRef) ([]fileEntry, error) {
	s := t.shared
	s.mu.Lock()
	entries, ok := s.manifests[m.path]
	s.mu.Unlock()
	if ok {
		return entries, nil
	}
	raw, err := t.io.read(ctx, m.path)
	if err != nil {
		return nil, err
	}
	if entries, err = readManifest(m, raw); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries+len(entries) > maxManifestEntries {
		clear(s.manifests)
		s.entries = 0
	}
	if len(entries) <= maxManifestEntries {
		s.manifests[m.path] = entries
		s.entries += len(entries)
	}
	return entries, nil
}

// What the evaluator looks at.
type evidence uint8

const (
	byPartition evidence = iota
	byStats
)

// evaluator tells whether a file may hold matching rows.
type evaluator struct {
	schema *iceberg.Schema
	entry  *fileEntry
	spec   *iceberg.PartitionSpec
}

func (v *evaluator) may(e predicate.Expr, by evidence) bool {
	switch e := e.(type) {
	case predicate.False:
		return by == byPartition
	case predicate.And:
		for _, p := range e {
			if !v.may(p, by) {
				return false
			}
		}
	case predicate.Or:
		for _, p := range e {
			if v.may(p, by) {
				return true
			}
		}
		return len(e) == 0 && by == byPartition
	case predicate.Not:
		return v.mayNot(e.X, by)
	case predicate.Compare:
		return v.compare(e.Column, e.Op, []predicate.Value{e.Value}, by)
	case predicate.In:
		return v.compare(e.Column, predicate.Eq, e.Values, by)
	case predicate.IsNull:
		return v.isNull(e.Column, by)
	case predicate.StartsWith:
		return v.startsWith(e, by)
	}
	return true
}

// mayNot pushes a negation down to where something is known about it.
func (v *evaluator) mayNot(e predicate.Expr, by evidence) bool {
	switch e := e.(type) {
	case predicate.Not:
		return v.may(e.X, by)
	case predicate.And:
		for _, p := range e {
			if v.mayNot(p, by) {
				return true
			}
		}
		return len(e) == 0
	case predicate.Or:
		for _, p := range e {
			if !v.mayNot(p, by) {
				return false
			}
		}
	case predicate.Compare:
		inverse := [...]predicate.Op{predicate.Ne, predicate.Eq, predicate.Ge, predicate.Gt, predicate.Le, predicate.Lt}
		return v.compare(e.Column, inverse[e.Op], []predicate.Value{e.Value}, by)
	case predicate.IsNull:
		return v.notNull(e.Column, by)
	}
	return true
}

func (v *evaluator) field(column string) (iceberg.NestedField, bool) {
	return v.schema.FindFieldByNameCaseInsensitive(column)
}

// compare tells whether column op value may hold for some value of the list.
func (v *evaluator) compare(column string, op predicate.Op, values []predicate.Value, by evidence) bool {
	f, ok := v.field(column)
	if !ok {
		return true
	}
	for _, val := range values {
		lit, ok := literalOf(val, f.Type)
		if !ok {
			return true
		}
		if by == byPartition {
			if v.partitionMay(f, op, lit) {
				return true
			}
		} else if v.statsMay(f, op, lit) {
			return true
		}
	}
	return false
}

func (v *evaluator) partitionMay(f iceberg.NestedField, op predicate.Op, lit iceberg.Literal) bool {
	if v.spec == nil {
		return true
	}
	for _, pf := range v.spec.Fields() {
		if len(pf.SourceIDs) != 1 || pf.SourceID() != f.ID {
			continue
		}
		have, ok := v.entry.partitionValue(pf.FieldID)
		if !ok {
			continue
		}
		name := pf.Transform.String()
		if name == "void" || strings.HasPrefix(name, "bucket") && op != predicate.Eq {
			continue
		}
		if _, unknown := pf.Transform.(iceberg.UnknownTransform); unknown {
			continue
		}
		if have == nil {
			return false // every row of the file has NULL here, and NULL compares with nothing
		}
		want := pf.Transform.Apply(iceberg.Optional[iceberg.Literal]{Val: lit, Valid: true})
		if !want.Valid {
			continue
		}
		c, ok := compareValues(partitionNormal(have, pf.Transform.ResultType(f.Type)), normal(want.Val))
		if !ok {
			continue
		}
		may := true
		switch op {
		case predicate.Eq:
			may = c == 0
		case predicate.Ne:
			may = name != "identity" || c != 0
		case predicate.Lt:
			may = c < 0 || c == 0 && name != "identity"
		case predicate.Le:
			may = c <= 0
		case predicate.Gt:
			may = c > 0 || c == 0 && name != "identity"
		case predicate.Ge:
			may = c >= 0
		}
		if !may {
			return false
		}
	}
	return true
}

func (v *evaluator) statsMay(f iceberg.NestedField, op predicate.Op, lit iceberg.Literal) bool {
	b := v.entry.bounds(f.ID)
	if b == nil {
		return true
	}
	if b.nulls >= 0 && b.nulls == b.values {
		return false
	}
	want := normal(lit)
	// NaN sorts above every number in SQL and is never inside bounds.
	_, isFloat := want.(float64)
	nans := isFloat && b.nans != 0
	lo, lok := boundValue(f.Type, b.lower)
	hi, hok := boundValue(f.Type, b.upper)
	below := func() bool { // want < every value
		c, ok := compareValues(want, lo)
		return lok && ok && c < 0
	}
	above := func() bool { // want > every value
		c, ok := compareValues(want, hi)
		return hok && ok && c > 0 && !nans
	}
	equal := func(x any, there bool) bool {
		c, ok := compareValues(want, x)
		return there && ok && c == 0
	}
	switch op {
	case predicate.Eq:
		return !below() && !above()
	case predicate.Ne:
		// Bounds of text may be cut short, so only exact types can tell that all values are one.
		if _, text := want.(string); text || nans {
			return true
		}
		return !(equal(lo, lok) && equal(hi, hok))
	case predicate.Lt:
		return !below() && !equal(lo, lok)
	case predicate.Le:
		return !below()
	case predicate.Gt:
		_, text := want.(string)
		return !above() && (text || nans || !equal(hi, hok))
	case predicate.Ge:
		return !above()
	}
	return true
}

func (v *evaluator) isNull(column string, by evidence) bool {
	f, ok := v.field(column)
	if !ok {
		return true
	}
	if by == byPartition {
		have, ok := v.identity(f)
		return !ok || have == nil
	}
	b := v.entry.bounds(f.ID)
	return b == nil || b.nulls != 0
}

func (v *evaluator) notNull(column string, by evidence) bool {
	f, ok := v.field(column)
	if !ok {
		return true
	}
	if by == byPartition {
		have, ok := v.identity(f)
		return !ok || have != nil
	}
	b := v.entry.bounds(f.ID)
	return b == nil || b.nulls < 0 || b.nulls != b.values
}

// identity is the value of a column that the file is partitioned by unchanged.
func (v *evaluator) identity(f iceberg.NestedField) (any, bool) {
	if v.spec == nil {
		return nil, false
	}
	for _, pf := range v.spec.Fields() {
		if len(pf.SourceIDs) == 1 && pf.SourceID() == f.ID && pf.Transform.String() == "identity" {
			return v.entry.partitionValue(pf.FieldID)
		}
	}
	return nil, false
}

func (v *evaluator) startsWith(e predicate.StartsWith, by evidence) bool {
	f, ok := v.field(e.Column)
	if !ok {
		return true
	}
	if by == byPartition {
		have, ok := v.identity(f)
		s, text := have.(string)
		return !ok || text && strings.HasPrefix(s, e.Prefix)
	}
	b := v.entry.bounds(f.ID)
	if b == nil {
		return true
	}
	if b.nulls >= 0 && b.nulls == b.values {
		return false
	}
	lo, lok := boundValue(f.Type, b.lower)
	hi, hok := boundValue(f.Type, b.upper)
	if s, ok := lo.(string); lok && ok && s > e.Prefix && !strings.HasPrefix(s, e.Prefix) {
		return false
	}
	if s, ok := hi.(string); hok && ok && s < e.Prefix {
		return false
	}
	return true
}

package lake

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"github.com/overlakedb/overlake/internal/cache"
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

// MayHoldNaN tells whether a column, by its field id, has a NaN in one of the files, or may have one because a manifest does
// not count them.
func (p *Plan) MayHoldNaN(id int) bool {
	for i := range p.Files {
		if b := p.Files[i].entry.bounds(id); b == nil || b.nans != 0 {
			return true
		}
	}
	return false
}

// LivePaths are the paths of the data files of all snapshots that the table still has.
func (t *Table) LivePaths(ctx context.Context) (map[string]bool, error) {
	specs := map[int]*iceberg.PartitionSpec{}
	for _, s := range t.meta.PartitionSpecs() {
		specs[s.ID()] = &s
	}
	out, seen := map[string]bool{}, map[string]bool{}
	for _, snap := range t.meta.Snapshots() {
		refs, err := t.manifestList(ctx, &snap)
		if err != nil {
			return nil, err
		}
		for i := range refs {
			m := &refs[i]
			if seen[m.path] || m.deletes {
				continue
			}
			seen[m.path] = true
			entries, err := t.manifest(ctx, m, specs)
			if err != nil {
				return nil, err
			}
			for k := range entries.files {
				if entries.files[k].content == contentData {
					out[entries.files[k].path] = true
				}
			}
		}
	}
	return out, nil
}

// Only is the plan with just the files at the places given.
func (p *Plan) Only(places []int) *Plan {
	out := *p
	out.Files, out.Rows, out.Bytes, out.Deleted = nil, 0, 0, 0
	for _, i := range places {
		f := &p.Files[i]
		out.Files = append(out.Files, *f)
		out.Rows += f.Rows
		out.Bytes += f.Size
		out.Deleted += f.Deletes.Len()
	}
	return &out
}

// Plan finds the files that may hold rows for which the filter is true. What a filter cannot tell keeps the file. The
// files come in the order of their sequence numbers, those of one commit by path.
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
	specs := map[int]*iceberg.PartitionSpec{}
	for _, s := range t.meta.PartitionSpecs() {
		specs[s.ID()] = &s
	}
	prune := &pruner{filter: allNode, specs: specs, tests: map[testKey][]partitionTest{}}
	if filter != nil {
		prune.filter = bindFilter(filter, schema, false)
	}
	refs, err := t.manifestList(ctx, snap)
	if err != nil {
		return nil, err
	}
	var deletes []*fileEntry
	for i := range refs {
		m := &refs[i]
		if !m.live {
			continue
		}
		if m.encrypted {
			return nil, refuseEncrypted(m.path)
		}
		out := !m.deletes && !prune.manifest(m)
		if out && m.files >= 0 { // a manifest that is ruled out is not even read
			p.Total += m.files
			p.PrunedByPartition += m.files
			continue
		}
		entries, err := t.manifest(ctx, m, specs)
		if err != nil {
			return nil, err
		}
		for k := range entries.files {
			e := &entries.files[k]
			if e.content != contentData {
				deletes = append(deletes, e)
				continue
			}
			p.Total++
			if out || !prune.partition(e) {
				p.PrunedByPartition++
				continue
			}
			if !prune.stats(e) {
				p.PrunedByStats++
				continue
			}
			if e.encrypted {
				return nil, refuseEncrypted(e.path)
			}
			if e.format != "PARQUET" {
				return nil, refuseFormat("data", e)
			}
			if entries.names[k] == "" {
				_, err := t.io.name(e.path)
				return nil, err
			}
			p.Files = append(p.Files, DataFile{Path: e.path, Name: entries.names[k], Store: t.io.store, Size: e.size, Rows: e.rows,
				Sequence: e.sequence, entry: e, partition: specs[e.specID]})
			p.Rows += e.rows
			p.Bytes += e.size
		}
	}
	slices.SortStableFunc(p.Files, func(a, b DataFile) int {
		if a.Sequence != b.Sequence {
			return cmp.Compare(a.Sequence, b.Sequence)
		}
		return strings.Compare(a.Path, b.Path)
	})
	if len(deletes) > 0 {
		if err := t.resolveDeletes(ctx, p, deletes); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func refuseFormat(what string, e *fileEntry) error {
	return errs.New(errs.Unsupported, "lake.plan", fmt.Sprintf("%s files of format %.16s cannot be read", what, e.format), errs.On(e.path),
		errs.Hint("rewrite the table to Parquet with the engine that wrote it"))
}

// manifestList gives the manifests of a snapshot; they are immutable, so the list is cached by its path.
func (t *Table) manifestList(ctx context.Context, snap *table.Snapshot) ([]manifestRef, error) {
	if snap.ManifestList == "" {
		// Version 1 may list manifests in the snapshot itself.
		var refs []manifestRef
		for _, m := range snap.ManifestLocations {
			refs = append(refs, manifestRef{path: m, live: true, files: -1, specID: -1, snapshotID: snap.SnapshotID})
		}
		return refs, nil
	}
	return cache.Or(t.shared.manifests, "list "+snap.ManifestList, func() ([]manifestRef, int64, error) {
		raw, err := t.io.read(ctx, snap.ManifestList)
		if err != nil {
			return nil, 0, err
		}
		refs, err := readManifestList(snap.ManifestList, raw)
		return refs, int64(len(raw)) + int64(len(refs))*256, err
	})
}

// manifestFiles is a decoded manifest with the names of its files in the store; a name is empty when the file lies
// outside the table's place.
type manifestFiles struct {
	files []fileEntry // by sequence number and path
	names []string
}

func (t *Table) manifest(ctx context.Context, m *manifestRef, specs map[int]*iceberg.PartitionSpec) (*manifestFiles, error) {
	key := fmt.Sprintf("%s %d", m.path, m.length)
	return cache.Or(t.shared.manifests, key, func() (*manifestFiles, int64, error) {
		raw, err := t.io.read(ctx, m.path)
		if err != nil {
			return nil, 0, err
		}
		held, err := t.shared.decoding(ctx, int64(len(raw)), false)
		if err != nil {
			return nil, 0, err
		}
		defer held.Release()
		files, err := readManifest(m, raw, held)
		if err != nil {
			return nil, 0, err
		}
		slices.SortStableFunc(files, func(a, b fileEntry) int {
			return cmp.Or(cmp.Compare(a.sequence, b.sequence), strings.Compare(a.path, b.path))
		})
		out := &manifestFiles{files: files, names: make([]string, len(files))}
		size := int64(0)
		for i := range files {
			e := &files[i]
			if err := e.resolve(specs[e.specID]); err != nil {
				return nil, 0, errs.With(err, errs.On(m.path))
			}
			if name, err := t.io.name(e.path); err == nil {
				out.names[i] = name
			}
			size += e.memory()
		}
		return out, size, nil
	})
}

// resolve gives partition values without field ids, as some writers leave them, the ids of their spec: by name, or by
// position when the names were changed to be valid in Avro.
func (e *fileEntry) resolve(spec *iceberg.PartitionSpec) error {
	anonymous := slices.ContainsFunc(e.partition, func(p partitionValue) bool { return p.id < 0 })
	if spec == nil && len(e.partition) > 0 {
		return errs.Newf(errs.Corrupt, "lake.plan", "the manifest uses the unknown partition spec %d", e.specID)
	}
	if !anonymous {
		return nil
	}
	var fields []iceberg.PartitionField
	for _, f := range spec.Fields() {
		fields = append(fields, f)
	}
	for i := range e.partition {
		p := &e.partition[i]
		at := slices.IndexFunc(fields, func(f iceberg.PartitionField) bool { return f.Name == p.name })
		if at < 0 && p.id < 0 && -1-p.id < len(fields) && len(fields) == len(e.partition) {
			at = -1 - p.id
		}
		if p.id >= 0 || at < 0 {
			continue
		}
		p.id = fields[at].FieldID
	}
	e.finish()
	return nil
}

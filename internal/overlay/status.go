package overlay

import (
	"context"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/overlakedb/overlake/internal/datafile"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
)

// List gives the definitions by name.
func (o *Overlay) List(ctx context.Context) ([]Definition, error) {
	v, err := o.version(ctx)
	if err != nil {
		return nil, err
	}
	return sorted(v.Definitions()), nil
}

// Status is an index with what it covers of the current snapshot.
type Status struct {
	Definition
	Columns []string // by name; a column that was dropped since is "dropped column 7"
	Files   int      // data files of the snapshot
	Covered int
	Rows    int64 // of the snapshot, deleted ones included
	InIndex int64 // of the files covered
	Bytes   int64 // of its artifacts that cover
	Damaged int   // artifacts found unreadable in this process
}

// FileStatus is what an index has of one data file.
type FileStatus struct {
	Index    string
	File     *lake.DataFile
	Artifact *Artifact // nil: not covered
	Damaged  bool
}

// Status lists the indexes of a table with their coverage.
func (o *Overlay) Status(ctx context.Context, t *lake.Table) ([]Status, error) {
	var out []Status
	at := map[string]int{}
	counted := map[*Artifact]bool{}
	names := func(d Definition, sc *arrow.Schema) []string { return columnNames(d, sc) }
	sc := t.Schema()
	defs, err := o.List(ctx)
	if err != nil || len(defs) == 0 {
		return nil, err
	}
	for _, d := range defs {
		at[d.Name] = len(out)
		out = append(out, Status{Definition: d, Columns: names(d, sc)})
	}
	err = o.Files(ctx, t, func(f FileStatus) {
		i, ok := at[f.Index]
		if !ok {
			return // defined since
		}
		s := &out[i]
		s.Files++
		s.Rows += f.File.Rows
		if f.Damaged {
			s.Damaged++
		} else if f.Artifact != nil {
			s.Covered++
			s.InIndex += f.File.Rows
			if !counted[f.Artifact] {
				counted[f.Artifact] = true
				s.Bytes += f.Artifact.Length
			}
		}
	})
	return out, err
}

func columnNames(d Definition, sc *arrow.Schema) []string {
	out := make([]string, len(d.Columns))
	for i, id := range d.Columns {
		out[i] = "dropped column"
		for _, f := range sc.Fields() {
			if datafile.FieldID(f) == id {
				out[i] = f.Name
			}
		}
	}
	return out
}

// Files tells of every index and every data file of the current snapshot.
func (o *Overlay) Files(ctx context.Context, t *lake.Table, yield func(FileStatus)) error {
	plan, err := t.Plan(ctx, lake.Ref{}, nil)
	if err != nil {
		return err
	}
	defs, err := o.List(ctx)
	if err != nil {
		return err
	}
	v, err := o.View(ctx, plan.Schema)
	if err != nil {
		return err
	}
	seen := map[string]*Index{}
	for _, x := range v.Indexes() {
		seen[x.Name] = x
	}
	for _, d := range defs {
		x := seen[d.Name]
		for i := range plan.Files {
			s := FileStatus{Index: d.Name, File: &plan.Files[i]}
			if x != nil {
				if s.Artifact, _, err = x.Artifact(ctx, s.File); err != nil {
					return err
				}
				s.Damaged = s.Artifact != nil && o.set.cache.isBad(s.Artifact)
			}
			yield(s)
		}
	}
	return nil
}

// ArtifactStatus is an artifact with the name of its index; "" when the index was dropped.
type ArtifactStatus struct {
	*Artifact
	Index   string
	Damaged bool // found unreadable in this process
}

// Artifacts tells of every artifact that the newest version names, also those of files that only older snapshots hold.
func (o *Overlay) Artifacts(ctx context.Context, yield func(ArtifactStatus)) error {
	v, err := o.version(ctx)
	if err != nil {
		return err
	}
	names := map[string]string{}
	for _, d := range v.Definitions() {
		names[d.ID] = d.Name
	}
	for _, a := range v.Artifacts() {
		yield(ArtifactStatus{Artifact: a, Index: names[a.Index], Damaged: o.set.cache.isBad(a)})
	}
	return nil
}

// The objects that a version no longer names stay so long, for readers and builders that are at work on an older one.
const garbageAge = time.Hour

// Collect forgets artifacts of files that are in no snapshot of the table any more, and removes objects that no version
// names. It gives what it removed.
func (o *Overlay) Collect(ctx context.Context, t *lake.Table) ([]objstore.Info, error) {
	if err := o.writable(); err != nil {
		return nil, err
	}
	_, err := o.chain.Update(ctx, o.set.write, func(v *Version) (e Edit, err error) {
		// The table is asked after the version was read, so that every file that has an artifact is known.
		t, err := t.Refresh(ctx)
		if err != nil {
			return e, err
		}
		live, err := t.LivePaths(ctx)
		if err != nil {
			return e, err
		}
		for _, a := range v.Artifacts() {
			if !slices.ContainsFunc(a.Files, func(f CoveredFile) bool { return live[f.Path] }) {
				e.DropArtifacts = append(e.DropArtifacts, a)
			}
		}
		return e, nil
	})
	if err != nil {
		return nil, err
	}
	return o.chain.Collect(ctx, o.set.write, garbageAge)
}

// Verify reads every artifact that the newest version names and reports what is damaged or missing; such artifacts are
// ignored from then on, and the next build replaces them.
func (o *Overlay) Verify(ctx context.Context, progress func(done, total int), report func(object string, err error)) error {
	v, err := o.version(ctx)
	if err != nil {
		return err
	}
	for _, d := range v.Damage {
		report(o.prefix, d)
	}
	all := v.Artifacts()
	for i, a := range all {
		if progress != nil {
			progress(i, len(all))
		}
		b, err := o.set.cache.bundles.acquire(ctx, a.Bundle)
		if err == nil {
			err = checkSum(ctx, b.object, a)
			o.set.cache.bundles.release(b)
		}
		if ctx.Err() != nil {
			return errs.Wrap(errs.Canceled, "overlay.verify", ctx.Err())
		}
		if err != nil {
			o.set.cache.bad(a)
			report(a.Bundle, err)
		}
	}
	if progress != nil {
		progress(len(all), len(all))
	}
	return nil
}

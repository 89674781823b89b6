package lake

import (
	"context"
	"errors"
	"slices"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go"

	"github.com/overlakedb/overlake/internal/errs"
)

// WriteOptions shape a write. The zero value is usable.
type WriteOptions struct {
	// TargetFileBytes is the size that a data file is closed at; 0 means the table property
	// write.target-file-size-bytes, or 512 MiB.
	TargetFileBytes int64
	// MemoryBytes bounds what rows wait in memory for their file, about; 0 means 256 MiB. With many partitions, less
	// memory means more and smaller files.
	MemoryBytes int64
	// Properties are added to the snapshot summary, as they are when the last row was read.
	Properties map[string]string
	// Progress, when set, is called after every batch with the rows written so far.
	Progress func(rows int64)
}

// CommitInfo says what a write did.
type CommitInfo struct {
	SnapshotID  int64
	Rows, Bytes int64
	Files       int
}

// Append adds the rows of a reader. The columns are matched by name; see datafile.Conform for what is converted. Columns
// that the reader lacks get their write default, or NULL. On error
// nothing is visible and the files written so far are removed.
func (t *Table) Append(ctx context.Context, r array.RecordReader, opts WriteOptions) (*Table, CommitInfo, error) {
	return t.write(ctx, r, opts, false)
}

// Overwrite replaces all rows by those of a reader, in one snapshot.
func (t *Table) Overwrite(ctx context.Context, r array.RecordReader, opts WriteOptions) (*Table, CommitInfo, error) {
	return t.write(ctx, r, opts, true)
}

func (t *Table) write(ctx context.Context, r array.RecordReader, opts WriteOptions, replace bool) (*Table, CommitInfo, error) {
	if err := t.writable(); err != nil {
		return nil, CommitInfo{}, err
	}
	w, err := newTableWriter(ctx, t, opts)
	if err != nil {
		return nil, CommitInfo{}, err
	}
	files, err := w.run(r)
	if err == nil {
		err = t.dropped(ctx, w.made.verify(ctx, t.io.store))
	}
	if err != nil {
		w.made.remove(ctx, t.io.writable)
		return nil, CommitInfo{}, onTable(t, err)
	}
	info := CommitInfo{Rows: w.rows, Files: len(files)}
	for _, f := range files {
		info.Bytes += f.meta.Size
	}
	if len(files) == 0 && !replace {
		return t, info, nil
	}
	next, err := t.commitRetrying(ctx, func(cur *Table, made *ledger) (*Table, error) {
		if err := sameTable(t, cur); err != nil {
			return nil, err
		}
		return cur.commitFiles(ctx, files, opts.Properties, replace, made)
	})
	if err != nil {
		if !outcomeUnknown(err) {
			w.made.remove(ctx, t.io.writable)
		}
		return nil, CommitInfo{}, err
	}
	if s := next.meta.CurrentSnapshot(); s != nil {
		info.SnapshotID = s.SnapshotID
	}
	return next, info, nil
}

// onTable names the table in errors that name nothing yet; those of a column keep it.
func onTable(t *Table, err error) error {
	var e *errs.Error
	if errors.As(err, &e) && e.Object != "" {
		return err
	}
	return errs.With(err, errs.On(t.id.String()))
}

// sameTable lets files that were written for one version be committed to another. Columns that were added, dropped, renamed
// or widened meanwhile do no harm: files name columns by id. Partition values do not follow a change, and a table that was
// replaced has none of the columns.
func sameTable(then, now *Table) error {
	kept := slices.ContainsFunc(then.meta.CurrentSchema().Fields(), func(f iceberg.NestedField) bool {
		_, ok := now.meta.CurrentSchema().FindFieldByID(f.ID)
		return ok
	})
	if !kept {
		return lasting{errs.New(errs.Conflict, "lake.append", "the table was replaced while rows were written", errs.On(then.id.String()), errs.Hint("write the rows again"))}
	}
	if err := sameContracts(then.meta, now.meta); err != nil {
		return lasting{errs.Wrap(errs.Conflict, "lake.append", err, errs.On(then.id.String()), errs.Hint("write the rows again"))}
	}
	same := then.meta.DefaultPartitionSpec() == now.meta.DefaultPartitionSpec()
	spec := then.meta.PartitionSpec()
	for _, f := range spec.Fields() {
		a, _ := then.meta.CurrentSchema().FindFieldByID(f.SourceID())
		b, ok := now.meta.CurrentSchema().FindFieldByID(f.SourceID())
		same = same && ok && a.Type.Equals(b.Type)
	}
	if same {
		return nil
	}
	return lasting{errs.New(errs.Conflict, "lake.append", "the partitioning of the table was changed while rows were written", errs.On(then.id.String()),
		errs.Hint("write the rows again"))}
}

func (t *Table) commitFiles(ctx context.Context, written []*writtenFile, props map[string]string, replace bool, made *ledger) (*Table, error) {
	ice := t.ice(ctx, made)
	tx := ice.NewTransaction()
	summary := iceberg.Properties{}
	for k, v := range props {
		summary[k] = v
	}
	wrap := func(err error) error {
		var e *errs.Error
		if errors.As(err, &e) {
			return err
		}
		return errs.Wrap(errs.Internal, "lake.commit", err, errs.On(t.id.String()))
	}
	replace = replace && t.meta.CurrentSnapshot() != nil
	next := t.meta.NextRowID()
	files := make([]iceberg.DataFile, len(written))
	for i, f := range written {
		var first *int64
		if replace && t.meta.Version() >= 3 {
			// A replacement does not inherit row ids, so it takes the next ones itself; a lost race plans it anew.
			id := next
			first = &id
		}
		var err error
		if files[i], err = f.entry(t.meta.Properties(), first); err != nil {
			return nil, err
		}
		next += f.meta.Rows
	}
	if replace {
		tasks, err := ice.Scan().PlanFiles(ctx)
		if err != nil {
			return nil, wrap(err)
		}
		old := make([]iceberg.DataFile, 0, len(tasks))
		for _, task := range tasks {
			old = append(old, task.File)
		}
		if len(old)+len(files) == 0 {
			return t, nil
		}
		if len(old) > 0 {
			if err := tx.ReplaceDataFilesWithDataFiles(ctx, old, files, summary); err != nil {
				return nil, wrap(err)
			}
			return t.commitTx(ctx, tx, made)
		}
	}
	if len(files) == 0 {
		return t, nil
	}
	if err := tx.NewRowDelta(summary).AddRows(files...).Commit(ctx); err != nil {
		return nil, wrap(err)
	}
	return t.commitTx(ctx, tx, made)
}

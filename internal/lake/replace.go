package lake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/property"
)

// Replace gives the table another shape, as if it were made anew, and the rows of a reader (nil for none), in one commit. The
// table keeps its id, its place and its history: older snapshots are read with the schema they were written with. Every
// column is a new one, also when it has the name of an old one.
func (t *Table) Replace(ctx context.Context, spec CreateSpec, rows array.RecordReader, opts WriteOptions) (*Table, CommitInfo, error) {
	if err := t.writable(); err != nil {
		return nil, CommitInfo{}, err
	}
	first, _, err := t.reshaped(spec)
	if err != nil {
		return nil, CommitInfo{}, onTable(t, err)
	}
	var files []*writtenFile
	var w *tableWriter
	info := CommitInfo{}
	if rows != nil {
		if w, err = newTableWriter(ctx, first, opts); err != nil {
			return nil, info, err
		}
		if files, err = w.run(rows); err == nil {
			err = t.dropped(ctx, w.made.verify(ctx, t.io.store))
		}
		if err != nil {
			w.made.remove(ctx, t.io.writable)
			return nil, CommitInfo{}, onTable(t, err)
		}
		info.Rows, info.Files = w.rows, len(files)
		for _, f := range files {
			info.Bytes += f.meta.Size
		}
	}
	next, err := t.commitRetrying(ctx, func(cur *Table, made *ledger) (*Table, error) {
		staged, updates, err := cur.reshaped(spec)
		if err != nil {
			return nil, err
		}
		if !staged.meta.CurrentSchema().Equals(first.meta.CurrentSchema()) || staged.meta.DefaultPartitionSpec() != first.meta.DefaultPartitionSpec() {
			return nil, lasting{errs.New(errs.Conflict, "lake.replace", "the schema of the table was changed while it was replaced", errs.On(t.id.String()), errs.Hint("replace it again"))}
		}
		if len(files) > 0 {
			more, err := staged.fill(ctx, files, opts.Properties, made)
			if err != nil {
				return nil, err
			}
			updates = append(updates, more...)
		}
		var main *int64
		if s := cur.meta.CurrentSnapshot(); s != nil {
			main = &s.SnapshotID
		}
		return cur.commitUpdates(ctx, []table.Requirement{table.AssertTableUUID(cur.meta.TableUUID()), table.AssertRefSnapshotID(table.MainBranch, main),
			table.AssertLastAssignedFieldID(cur.meta.LastColumnID())}, updates, made)
	})
	if err != nil {
		if w != nil && !outcomeUnknown(err) {
			w.made.remove(ctx, t.io.writable)
		}
		return nil, CommitInfo{}, err
	}
	if s := next.meta.CurrentSnapshot(); s != nil {
		info.SnapshotID = s.SnapshotID
	}
	return next, info, nil
}

// reshaped is the table with another shape and no rows, as it would be after the updates.
func (t *Table) reshaped(spec CreateSpec) (*Table, []table.Update, error) {
	lastPartition := firstPartitionField - 1
	if id := t.meta.LastPartitionSpecID(); id != nil {
		lastPartition = max(lastPartition, *id)
	}
	s, err := shapeOf(spec, t.meta.Version(), t.meta.LastColumnID(), lastPartition)
	if err != nil {
		return nil, nil, err
	}
	var updates []table.Update
	switch {
	case s.version < t.meta.Version():
		return nil, nil, errs.New(errs.Unsupported, "lake.replace", fmt.Sprintf("a table of format version %d cannot become one of version %d", t.meta.Version(), s.version),
			errs.On(t.id.String()), errs.Hint("drop the table first"))
	case s.version > t.meta.Version():
		updates = append(updates, table.NewUpgradeFormatVersionUpdate(s.version))
	}
	delete(s.props, "format-version")
	updates = append(updates, table.NewAddSchemaUpdate(s.schema), table.NewSetCurrentSchemaUpdate(-1),
		table.NewAddPartitionSpecUpdate(s.partition, false), table.NewSetDefaultSpecUpdate(-1))
	if t.meta.DefaultSortOrder() != table.UnsortedSortOrderID {
		updates = append(updates, table.NewAddSortOrderUpdate(&table.UnsortedSortOrder), table.NewSetDefaultSortOrderUpdate(-1))
	}
	// Of the old properties those stay that say what older snapshots mean.
	var gone []string
	for _, k := range slices.Sorted(maps.Keys(t.meta.Properties())) {
		if _, again := s.props[k]; !again && k != table.DefaultNameMappingKey && k != "format-version" && !strings.HasPrefix(k, property.Column) {
			gone = append(gone, k)
		}
	}
	if len(gone) > 0 {
		updates = append(updates, table.NewRemovePropertiesUpdate(gone))
	}
	if len(s.props) > 0 {
		updates = append(updates, table.NewSetPropertiesUpdate(s.props))
	}
	if t.meta.CurrentSnapshot() != nil {
		updates = append(updates, table.NewRemoveSnapshotRefUpdate(table.MainBranch))
	}
	meta, err := table.UpdateTableMetadata(t.meta, updates, t.location)
	if err != nil {
		return nil, nil, errs.Wrap(errs.Invalid, "lake.replace", err, errs.On(t.id.String()))
	}
	staged := &Table{id: t.id, meta: meta, location: t.location, io: t.io, cat: t.cat, reload: t.reload, shared: t.shared}
	return staged, updates, nil
}

// fill gives the updates that make files the first rows of a reshaped table.
func (t *Table) fill(ctx context.Context, written []*writtenFile, props map[string]string, made *ledger) ([]table.Update, error) {
	wrap := func(err error) error {
		var e *errs.Error
		if errors.As(err, &e) {
			return err
		}
		return errs.Wrap(errs.Internal, "lake.replace", err, errs.On(t.id.String()))
	}
	files := make([]iceberg.DataFile, len(written))
	for i, f := range written {
		var err error
		if files[i], err = f.entry(t.meta.Properties(), nil); err != nil {
			return nil, err
		}
	}
	summary := iceberg.Properties{}
	maps.Copy(summary, props)
	tx := t.ice(ctx, made).NewTransaction()
	if err := tx.NewRowDelta(summary).AddRows(files...).Commit(ctx); err != nil {
		return nil, wrap(err)
	}
	c, err := tx.TableCommit()
	if err != nil {
		return nil, wrap(err)
	}
	return c.Updates, nil
}

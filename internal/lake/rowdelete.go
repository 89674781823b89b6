package lake

import (
	"bytes"
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/apache/iceberg-go/table/dv"
	"github.com/google/uuid"

	"github.com/overlakedb/overlake/internal/datafile"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/row"
)

// DeleteRows deletes rows by data file path and position, in one snapshot: position delete files in format version 2,
// deletion vectors in version 3. A new vector holds everything that was deleted from its file before, from older vectors
// and from position deletes of version 2 alike, and takes the place of the older vector: one live vector a file. On a
// lost race the rows are planned again against the newest version; rows of files that are gone by then are a Conflict.
func (t *Table) DeleteRows(ctx context.Context, rows map[string]*row.Bitmap) (*Table, error) {
	if err := t.writable(); err != nil {
		return nil, err
	}
	return t.commitRetrying(ctx, func(cur *Table, made *ledger) (*Table, error) { return cur.deleteRows(ctx, rows, made) })
}

func (t *Table) deleteRows(ctx context.Context, rows map[string]*row.Bitmap, made *ledger) (*Table, error) {
	ice := t.ice(ctx, made)
	tasks, err := ice.Scan().PlanFiles(ctx)
	if err != nil {
		return nil, errs.Wrap(errs.Internal, "lake.delete", err, errs.On(t.id.String()))
	}
	byPath := map[string]*table.FileScanTask{}
	for i := range tasks {
		byPath[tasks[i].File.FilePath()] = &tasks[i]
	}
	plan, err := t.Plan(ctx, Ref{}, nil)
	if err != nil {
		return nil, err
	}
	gone := map[string]*row.Bitmap{}
	for i := range plan.Files {
		gone[plan.Files[i].Path] = plan.Files[i].Deletes
	}
	tx := ice.NewTransaction()
	delta := tx.NewRowDelta(nil)
	dir, err := t.io.name(t.Location())
	if err != nil {
		return nil, err
	}
	vectors := dv.NewDVWriter(writer{t.io.with(ctx), made}, func(id int32) *iceberg.PartitionSpec { return t.meta.PartitionSpecByID(int(id)) })
	any := false
	for path, bits := range rows {
		task := byPath[path]
		if task == nil {
			return nil, errs.New(errs.NotFound, "lake.delete", "the data file is not part of the table any more", errs.On(path))
		}
		if bits.Len() == 0 {
			continue
		}
		if bits.Max() >= task.File.Count() {
			return nil, errs.Newf(errs.Invalid, "lake.delete", "%s has %d rows, not %d", path, task.File.Count(), bits.Max()+1)
		}
		any = true
		if t.meta.Version() < 3 {
			f, err := t.positionDeletes(ctx, dir, task.File, bits, made)
			if err != nil {
				return nil, err
			}
			delta.AddDeletes(f)
			continue
		}
		all := dv.NewRoaringPositionBitmap()
		for _, set := range []*row.Bitmap{bits, gone[path]} {
			for p := range set.All() {
				all.Set(uint64(p))
			}
		}
		vectors.Load(path, all, task.File.SpecID(), task.File.Partition())
		for _, old := range task.DeletionVectorFiles {
			delta.RemoveDeletes(old)
		}
	}
	if !any {
		return t, nil
	}
	if t.meta.Version() >= 3 {
		files, err := vectors.Flush(ctx, t.io.location(dir+"/data/"+uuid.NewString()+"-deletes.puffin"))
		if err != nil {
			return nil, errs.Wrap(errs.Internal, "lake.delete", err)
		}
		delta.AddDeletes(files...)
	}
	if err := delta.Commit(ctx); err != nil {
		return nil, errs.Wrap(errs.Internal, "lake.delete", err, errs.On(t.id.String()))
	}
	return t.commitTx(ctx, tx, made)
}

var positionSchema = arrow.NewSchema([]arrow.Field{
	{Name: "file_path", Type: arrow.BinaryTypes.String, Metadata: arrow.NewMetadata([]string{FieldIDKey}, []string{fmt.Sprint(filePathID)})},
	{Name: "pos", Type: arrow.PrimitiveTypes.Int64, Metadata: arrow.NewMetadata([]string{FieldIDKey}, []string{fmt.Sprint(posFieldID)})},
}, nil)

// positionDeletes writes the delete file of one data file.
func (t *Table) positionDeletes(ctx context.Context, dir string, data iceberg.DataFile, bits *row.Bitmap, made *ledger) (iceberg.DataFile, error) {
	b := array.NewRecordBuilder(memory.DefaultAllocator, positionSchema)
	defer b.Release()
	for p := range bits.All() {
		b.Field(0).(*array.StringBuilder).Append(data.FilePath())
		b.Field(1).(*array.Int64Builder).Append(p)
	}
	rec := b.NewRecordBatch()
	defer rec.Release()
	var buf bytes.Buffer
	w, err := datafile.NewWriter(&buf, positionSchema, datafile.WriterOptions{})
	if err != nil {
		return nil, err
	}
	if err := w.Write(rec); err != nil {
		return nil, err
	}
	meta, err := w.Close()
	if err != nil {
		return nil, err
	}
	name := dir + "/data/" + uuid.NewString() + "-deletes.parquet"
	made.note(name, int64(buf.Len()))
	if _, err := t.io.writable.Put(ctx, name, buf.Bytes(), objstore.Condition{IfAbsent: true}); err != nil {
		return nil, err
	}
	path := data.FilePath()
	f, err := table.DataFileFromMetadata(table.DataFileArgs{
		Schema: iceberg.NewSchema(0,
			iceberg.NestedField{ID: filePathID, Name: "file_path", Type: iceberg.PrimitiveTypes.String, Required: true},
			iceberg.NestedField{ID: posFieldID, Name: "pos", Type: iceberg.PrimitiveTypes.Int64, Required: true}),
		Spec: *t.meta.PartitionSpecByID(int(data.SpecID())), Format: iceberg.ParquetFile, Metadata: meta.Footer, FilePath: t.io.location(name),
		FileSize: meta.Size, Content: iceberg.EntryContentPosDeletes, PartitionValues: data.Partition(), ReferencedDataFile: &path,
	})
	if err != nil {
		return nil, errs.Wrap(errs.Internal, "lake.delete", err)
	}
	return f, nil
}

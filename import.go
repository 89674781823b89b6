package overlake

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/overlakedb/overlake/internal/errs"
)

// ImportOptions say how a file becomes rows of a table.
type ImportOptions struct {
	// Format is parquet, csv, json (one object a line, or an array) or arrow (an IPC stream or file); "" goes by the name.
	Format string
	// Vectors declares columns as vectors: the number of dimensions, or 0 for any.
	Vectors map[string]int
	// Types gives columns of a CSV file a SQL type instead of the inferred one: {"zip": "VARCHAR"} keeps leading zeros.
	Types map[string]string
	// Again imports a file although a snapshot says that it was imported before.
	Again bool
	// Progress is called after every batch with the rows so far.
	Progress func(rows int64)
}

// importKey is the snapshot summary entry that remembers an imported file.
const importKey = "overlake.import"

// Import adds the rows of a local file to a table, in one snapshot, and creates the table when there is none. A file that
// was imported before, told by path, size and time, is left out: an interrupted series of imports can be run again. The
// second result is false then.
func (db *DB) Import(ctx context.Context, table, path string, opts ImportOptions) (WriteInfo, bool, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return WriteInfo{}, false, errs.Wrap(errs.Invalid, "overlake.import", err, errs.On(path))
	}
	stat, err := os.Stat(abs)
	if err != nil {
		return WriteInfo{}, false, errs.Wrap(errs.KindOf(err), "overlake.import", err)
	}
	if stat.IsDir() {
		return WriteInfo{}, false, errs.New(errs.Invalid, "overlake.import", "this is a directory", errs.On(path), errs.Hint("name the files in it"))
	}
	stamp := abs + " " + strconv.FormatInt(stat.Size(), 10) + " " + strconv.FormatInt(stat.ModTime().UnixNano(), 10)
	t, err := db.Table(ctx, table)
	switch {
	case err == nil && !opts.Again:
		snapshots, err := t.Snapshots(ctx)
		if err != nil {
			return WriteInfo{}, false, err
		}
		for _, s := range snapshots {
			if s.Summary[importKey] == stamp {
				return WriteInfo{}, false, nil
			}
		}
	case err != nil && !errs.Is(err, errs.NotFound):
		return WriteInfo{}, false, err
	}
	format := opts.Format
	if format == "" {
		format = formatOf(abs)
	}
	r, closer, err := db.open(ctx, abs, format, opts)
	if err != nil {
		return WriteInfo{}, false, err
	}
	defer closer()
	created := t == nil
	if created {
		if t, err = db.CreateTable(ctx, table, TableSpec{Schema: r.Schema(), Vectors: opts.Vectors}); err != nil {
			return WriteInfo{}, false, err
		}
	}
	o := []WriteOption{WithSummary(importKey, stamp)}
	if opts.Progress != nil {
		o = append(o, WithProgress(opts.Progress))
	}
	info, err := t.Append(ctx, r, o...)
	if err != nil && created {
		_ = db.catalog.Drop(context.WithoutCancel(ctx), t.id)
	}
	return info, true, err
}

func formatOf(path string) string {
	name := strings.ToLower(strings.TrimSuffix(path, ".gz"))
	switch filepath.Ext(name) {
	case ".parquet", ".pq":
		return "parquet"
	case ".csv", ".tsv", ".txt":
		return "csv"
	case ".json", ".ndjson", ".jsonl":
		return "json"
	case ".arrow", ".arrows", ".ipc", ".feather":
		return "arrow"
	}
	return strings.TrimPrefix(filepath.Ext(name), ".")
}

func (db *DB) open(ctx context.Context, path, format string, opts ImportOptions) (array.RecordReader, func(), error) {
	if format == "arrow" {
		return openArrow(path)
	}
	var names []string
	for v := range opts.Vectors {
		names = append(names, v)
	}
	if format == "ndjson" || format == "jsonl" {
		format = "json"
	}
	res, err := db.env.Import(ctx, path, format, names, opts.Types)
	if err != nil {
		return nil, nil, err
	}
	rows := newRows(res)
	return rows, func() { rows.Close() }, nil
}

// openArrow reads the stream and the file form of Arrow IPC.
func openArrow(path string) (array.RecordReader, func(), error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, errs.Wrap(errs.KindOf(err), "overlake.import", err)
	}
	bad := func(err error) error {
		f.Close()
		return errs.Wrap(errs.Corrupt, "overlake.import", err, errs.On(path))
	}
	magic := make([]byte, 6)
	if _, err := f.ReadAt(magic, 0); err != nil {
		return nil, nil, bad(err)
	}
	if string(magic) != "ARROW1" {
		r, err := ipc.NewReader(f)
		if err != nil {
			return nil, nil, bad(err)
		}
		return r, func() { r.Release(); f.Close() }, nil
	}
	fr, err := ipc.NewFileReader(f)
	if err != nil {
		return nil, nil, bad(err)
	}
	r := array.ReaderFromIter(fr.Schema(), func(yield func(arrow.RecordBatch, error) bool) {
		for i := range fr.NumRecords() {
			rec, err := fr.RecordBatchAt(i)
			if err != nil {
				yield(nil, errs.Wrap(errs.Corrupt, "overlake.import", fmt.Errorf("batch %d: %w", i, err), errs.On(path)))
				return
			}
			ok := yield(rec, nil)
			rec.Release()
			if !ok {
				return
			}
		}
	})
	return r, func() { r.Release(); fr.Close(); f.Close() }, nil
}

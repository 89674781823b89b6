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
	"github.com/overlakedb/overlake/internal/lake"
)

// ImportOptions say how a file becomes rows of a table.
type ImportOptions struct {
	// Format is parquet, csv, json (one object a line, or an array) or arrow (an IPC stream or file); "" goes by the name.
	Format string
	// Vectors declares columns as vectors: the number of dimensions, or 0 for any.
	Vectors map[string]int
	// Types gives columns of a CSV file a SQL type instead of the inferred one: {"zip": "VARCHAR"} keeps leading zeros.
	Types map[string]string
	// Again imports a file although a snapshot says that it was imported before, from its first row.
	Again bool
	// CommitRows is the most rows of one commit; 0 means that the file is one commit. With more than one, an import that
	// fails or is interrupted leaves the rows of its finished commits, and goes on behind them when it is run again.
	CommitRows int64
	// Progress is called after every batch with the rows of the file so far.
	Progress func(rows int64)
	// Resumed is called when rows of an earlier import that did not come to its end are left out.
	Resumed func(rows int64)
}

// The snapshot summary entries that remember an imported file, and the first rows of a file that is not done yet:
// the file's stamp, behind it, for a part, the number of rows.
const (
	importKey     = "overlake.import"
	importPartKey = "overlake.import-part"
)

// Import adds the rows of a local file to a table, in one snapshot unless CommitRows says otherwise, and creates the table
// when there is none. A file that was imported before, told by path, size and time, is left out: an interrupted series of
// imports can be run again. The second result is false then. What is remembered goes when its snapshot is expired.
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
	if opts.CommitRows < 0 {
		return WriteInfo{}, false, errs.New(errs.Invalid, "overlake.import", "the number of rows of a commit must not be negative")
	}
	var skip int64
	t, err := db.Table(ctx, table)
	switch {
	case err == nil && !opts.Again:
		all := false
		if skip, all, err = t.imported(ctx, stamp); err != nil || all {
			return WriteInfo{}, false, err
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
	info, err := t.importPieces(ctx, &pieces{r: r}, stamp, skip, opts)
	switch {
	case err != nil && created && info.Rows == 0:
		_ = db.catalog.Drop(context.WithoutCancel(ctx), t.id)
	case err != nil && info.Rows > 0 && errs.HintOf(err) == "":
		err = errs.With(err, errs.Hint("%d rows of the file are in the table; the same import goes on behind them", skip+info.Rows))
	}
	return info, true, err
}

// imported tells how many rows of a file are in the table, and whether these are all.
func (t *Table) imported(ctx context.Context, stamp string) (rows int64, all bool, err error) {
	snapshots, err := t.Snapshots(ctx)
	if err != nil {
		return 0, false, err
	}
	for _, s := range snapshots {
		if s.Summary[importKey] == stamp {
			return 0, true, nil
		}
		if n, ok := strings.CutPrefix(s.Summary[importPartKey], stamp+" "); ok {
			if n, err := strconv.ParseInt(n, 10, 64); err == nil {
				rows = max(rows, n)
			}
		}
	}
	return rows, false, nil
}

// importPieces commits the rows of a file piece by piece, behind those that are skipped. The snapshot of the last piece
// says that the file is done, the others how far it is.
func (t *Table) importPieces(ctx context.Context, p *pieces, stamp string, skip int64, opts ImportOptions) (sum WriteInfo, err error) {
	defer p.release()
	if skip > 0 {
		if opts.Resumed != nil {
			opts.Resumed(skip)
		}
		if err := p.skip(ctx, skip); err != nil {
			return sum, err
		}
	}
	for {
		start := p.at
		summary := map[string]string{}
		piece := p.next(opts.CommitRows, func(last bool) {
			if last {
				summary[importKey] = stamp
			} else {
				summary[importPartKey] = stamp + " " + strconv.FormatInt(p.at, 10)
			}
		})
		o := lake.WriteOptions{Properties: summary}
		if opts.Progress != nil {
			o.Progress = func(rows int64) { opts.Progress(start + rows) }
		}
		l, err := t.load(ctx)
		if err != nil {
			return sum, err
		}
		l, info, err := l.Append(ctx, piece, o)
		if err != nil {
			return sum, err
		}
		t.db.env.Committed(ctx, l)
		sum.Rows, sum.Bytes, sum.Files = sum.Rows+info.Rows, sum.Bytes+info.Bytes, sum.Files+info.Files
		if info.SnapshotID != 0 {
			sum.SnapshotID = info.SnapshotID
		}
		if p.done {
			return sum, p.err
		}
	}
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

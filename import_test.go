package overlake_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake"
)

// importFiles writes the same rows as CSV and as Arrow: ids from 0 on, and a vector of each id.
func importFiles(t *testing.T, rows int) map[string]string {
	t.Helper()
	dir := t.TempDir()
	var csv, ipcs bytes.Buffer
	csv.WriteString("id,v\n")
	sc := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "v", Type: arrow.ListOf(arrow.PrimitiveTypes.Float32)}}, nil)
	w := ipc.NewWriter(&ipcs, ipc.WithSchema(sc))
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
	for i := range rows {
		fmt.Fprintf(&csv, "%d,\"[%d,1]\"\n", i, i)
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		l := b.Field(1).(*array.ListBuilder)
		l.Append(true)
		l.ValueBuilder().(*array.Float32Builder).AppendValues([]float32{float32(i), 1}, nil)
		if i%700 == 699 || i == rows-1 {
			if err := w.Write(b.NewRecordBatch()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for name, data := range map[string][]byte{"csv": csv.Bytes(), "arrow": ipcs.Bytes()} {
		out[name] = filepath.Join(dir, "f."+name)
		if err := os.WriteFile(out[name], data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestImportGoesOn: an import in several commits that is cut off goes on behind its last commit, and no row is there
// twice or missing.
func TestImportGoesOn(t *testing.T) {
	const rows, commit = 10_000, 1500
	for format, file := range importFiles(t, rows) {
		t.Run(format, func(t *testing.T) {
			db, err := overlake.Open(t.Context(), t.TempDir(), overlake.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			resumed := []int64{}
			run := func(stop int64) error {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				_, _, err := db.Import(ctx, "t", file, overlake.ImportOptions{Vectors: map[string]int{"v": 2}, CommitRows: commit,
					Resumed: func(n int64) { resumed = append(resumed, n) },
					Progress: func(n int64) {
						if stop > 0 && n >= stop {
							cancel()
						}
					}})
				return err
			}
			if err := run(1); overlake.KindOf(err) != overlake.KindCanceled {
				t.Errorf("an import that was cut off at once gave %v", err)
			}
			if _, err := db.Table(t.Context(), "t"); overlake.KindOf(err) != overlake.KindNotFound {
				t.Errorf("it left a table: %v", err)
			}
			err = run(4000)
			if overlake.KindOf(err) != overlake.KindCanceled || overlake.HintOf(err) != "3000 rows of the file are in the table; the same import goes on behind them" {
				t.Errorf("an import that was cut off at row 4000 gave %v (%s)", err, overlake.HintOf(err))
			}
			if err := run(3001); overlake.KindOf(err) != overlake.KindCanceled {
				t.Errorf("cut off once more: %v", err)
			}
			if err := run(0); err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(resumed) != "[3000 3000]" {
				t.Errorf("the runs went on behind %v", resumed)
			}
			_, done, err := db.Import(t.Context(), "t", file, overlake.ImportOptions{Vectors: map[string]int{"v": 2}})
			if err != nil || done {
				t.Errorf("the whole file was taken again: %v", err)
			}
			r, err := db.SQL(t.Context(), "SELECT count(*), count(DISTINCT id), min(id), max(id), count(*) FILTER (v <-> ('[' || id || ',1]')::vector = 0) FROM t")
			if err != nil {
				t.Fatal(err)
			}
			for row, err := range r.Values() {
				if err != nil || fmt.Sprint(row) != "[10000 10000 0 9999 10000]" {
					t.Errorf("the table has %v, %v", row, err)
				}
			}
			table, err := db.Table(t.Context(), "t")
			if err != nil {
				t.Fatal(err)
			}
			if list, err := table.Snapshots(t.Context()); err != nil || len(list) != (rows+commit-1)/commit {
				t.Errorf("%d snapshots, %v", len(list), err)
			}
		})
	}
}

// TestImportFailsLate: what is wrong behind the rows of a commit leaves that commit, and with one commit leaves nothing.
func TestImportFailsLate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f.csv")
	var text bytes.Buffer
	text.WriteString("id\n")
	for i := range 30_000 {
		fmt.Fprintln(&text, i)
	}
	text.WriteString("none\n")
	if err := os.WriteFile(file, text.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, commit := range []int64{0, 4000} {
		db, err := overlake.Open(t.Context(), t.TempDir(), overlake.Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		_, _, err = db.Import(t.Context(), "t", file, overlake.ImportOptions{Types: map[string]string{"id": "BIGINT"}, CommitRows: commit})
		if k := overlake.KindOf(err); k != overlake.KindInvalid && k != overlake.KindCorrupt {
			t.Fatalf("a file with a word for a number gave %v", err)
		}
		_, err = db.Table(t.Context(), "t")
		if there := err == nil; there != (commit > 0) {
			t.Errorf("commits of %d rows: a table is there: %v", commit, there)
		}
	}
	db, err := overlake.Open(t.Context(), t.TempDir(), overlake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, _, err := db.Import(t.Context(), "t", file, overlake.ImportOptions{CommitRows: -1}); overlake.KindOf(err) != overlake.KindInvalid {
		t.Errorf("commits of -1 rows gave %v", err)
	}
}

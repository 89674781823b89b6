package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/overlakedb/overlake/internal/engine"
	"github.com/overlakedb/overlake/internal/errs"
)

// eachDoor runs a test for both ways that files come in.
func eachDoor(t *testing.T, test func(t *testing.T, db *engine.DB)) {
	t.Run("wrapped", func(t *testing.T) {
		if runtime.GOOS != "linux" {
			t.Skip("the linker wraps on Linux only")
		}
		test(t, open(t, engine.Config{Threads: 2}))
	})
	t.Run("linked", func(t *testing.T) {
		engine.SetNoWrap(true)
		db := open(t, engine.Config{Threads: 2})
		engine.SetNoWrap(false)
		test(t, db)
	})
}

// parquet writes the rows of a SELECT and gives the bytes of the file.
func parquet(t testing.TB, db *engine.DB, sql string) []byte {
	t.Helper()
	real := filepath.Join(t.TempDir(), "out.parquet")
	out, release, err := db.AddOutput(real)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if _, err := db.RunCopy(t.Context(), "COPY ("+sql+") TO '"+out+"' (FORMAT parquet, ROW_GROUP_SIZE 20000, USE_TMP_FILE false)"); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(real)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func addReader(t testing.TB, db *engine.DB, ctx context.Context, name string, r io.ReaderAt, size int) string {
	t.Helper()
	path, release, err := db.AddReader(ctx, name, r, int64(size))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return path
}

func TestReaders(t *testing.T) {
	eachDoor(t, func(t *testing.T, db *engine.DB) {
		data := parquet(t, db, "SELECT i, 'text ' || i AS s FROM range(100000) t(i)")
		for _, ctx := range []context.Context{context.Background(), t.Context()} {
			path := addReader(t, db, ctx, "bucket/key one.parquet", bytes.NewReader(data), len(data))
			want(t, rows(t, db, "SELECT count(*), sum(i), min(s) FROM read_parquet('"+path+"')"), "100000|4999950000|text 0")
			want(t, rows(t, db, "SELECT s FROM '"+path+"' WHERE i = 77777"), "text 77777")
		}
		csv := []byte("a,b\n1,x\n2,y\n")
		path := addReader(t, db, t.Context(), "k.csv", bytes.NewReader(csv), len(csv))
		want(t, rows(t, db, "SELECT sum(a), max(b) FROM read_csv('"+path+"')"), "3|y")
		want(t, rows(t, db, "SELECT size, content FROM read_text('"+path+"')"), "12|a,b\n1,x\n2,y\n")
		want(t, rows(t, db, "SELECT count(*) FROM glob('"+path+"')"), "1")
		empty := addReader(t, db, t.Context(), "e.json", bytes.NewReader(nil), 0)
		want(t, rows(t, db, "SELECT size FROM read_blob('"+empty+"')"), "0")
		if _, err := db.RunCopy(t.Context(), "COPY (SELECT 1) TO '"+path+"' (FORMAT csv, USE_TMP_FILE false)"); err == nil && path[1] == '.' {
			t.Error("a file for reading was written") // links cannot tell
		}
		if _, _, err := db.AddReader(t.Context(), "n", bytes.NewReader(nil), -1); !errs.Is(err, errs.Invalid) {
			t.Errorf("a negative size gave %v", err)
		}
	})
}

// readerFunc is an io.ReaderAt.
type readerFunc func(p []byte, at int64) (int, error)

func (f readerFunc) ReadAt(p []byte, at int64) (int, error) { return f(p, at) }

// TestReaderErrors: what the reader says becomes the cause, with its kind and its hint.
func TestReaderErrors(t *testing.T) {
	db := open(t, engine.Config{Threads: 2})
	data := parquet(t, db, "SELECT i, hash(i) AS h FROM range(200000) t(i)")
	for _, c := range []struct {
		name string
		fail error
		kind errs.Kind
	}{
		{"unavailable", errs.New(errs.Unavailable, "s3.get", "503 slow down", errs.Hint("wait")), errs.Unavailable},
		{"gone", errs.New(errs.NotFound, "s3.get", "no such key"), errs.NotFound},
		{"denied", errs.New(errs.Denied, "s3.get", "403"), errs.Denied},
		{"plain", errors.New("cable pulled"), errs.Internal},
		{"short", io.EOF, errs.Corrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			var healthy atomic.Bool
			path := addReader(t, db, t.Context(), "bucket/k.parquet", readerFunc(func(p []byte, at int64) (int, error) {
				if !healthy.Load() && at < int64(len(data)/2) {
					return 0, c.fail
				}
				return bytes.NewReader(data).ReadAt(p, at)
			}), len(data))
			sql := "SELECT sum(i) FROM read_parquet('" + path + "')"
			_, err := tryRows(t.Context(), db, sql)
			if !errs.Is(err, c.kind) || c.fail != io.EOF && !errors.Is(err, c.fail) || errs.HintOf(err) != errs.HintOf(c.fail) {
				t.Errorf("got %v (%v), want %v", err, errs.KindOf(err), c.kind)
			}
			if strings.Contains(fmt.Sprint(err), "overlake-files") {
				t.Errorf("the message shows the secret path: %v", err)
			}
			healthy.Store(true)
			want(t, rows(t, db, sql), "19999900000")
		})
	}
	path := addReader(t, db, t.Context(), "bad.parquet", readerFunc(func([]byte, int64) (int, error) { panic("boom") }), len(data))
	if _, err := tryRows(t.Context(), db, "SELECT * FROM '"+path+"'"); err == nil || !strings.Contains(err.Error(), "boom") {
		t.Errorf("a panic gave %v", err)
	}
}

// TestReaderCancel: a store that does not answer does not hold up the end of its query.
func TestReaderCancel(t *testing.T) {
	db := open(t, engine.Config{Threads: 2})
	data := parquet(t, db, "SELECT i, hash(i) AS h FROM range(200000) t(i)")
	hang := make(chan struct{})
	defer close(hang)
	var waiting atomic.Int32
	stuck := readerFunc(func(p []byte, at int64) (int, error) {
		if at < int64(len(data)/2) {
			waiting.Add(1)
			<-hang
		}
		return bytes.NewReader(data).ReadAt(p, at)
	})
	ctx, cancel := context.WithCancel(t.Context())
	var paths []string
	for range 4 {
		paths = append(paths, addReader(t, db, ctx, "k.parquet", stuck, len(data)))
	}
	ended := make(chan error)
	go func() {
		_, err := tryRows(ctx, db, "SELECT sum(i) FROM read_parquet(['"+strings.Join(paths, "','")+"'])")
		ended <- err
	}()
	for waiting.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	start := time.Now()
	cancel()
	err := <-ended
	if d := time.Since(start); d > 500*time.Millisecond {
		t.Errorf("it took %v to end", d)
	}
	if !errs.Is(err, errs.Canceled) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v (%v)", err, errs.KindOf(err))
	}
	want(t, rows(t, db, "SELECT 1"), "1")
}

// TestFilesAreForgotten: registrations and descriptors leave nothing behind, and a file that is released under a running
// query is read to the end or not found, as far as the query came.
func TestFilesAreForgotten(t *testing.T) {
	db := open(t, engine.Config{Threads: 2})
	data := parquet(t, db, "SELECT i, hash(i) AS h FROM range(2000000) t(i)")
	before := engine.FileCount()
	path, release, err := db.AddReader(t.Context(), "k.parquet", bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	r, err := db.Query(t.Context(), "SELECT i, h FROM read_parquet('"+path+"')")
	if err != nil {
		t.Fatal(err)
	}
	release()
	release()
	n := int64(0)
	for r.Next() {
		n += r.Record().NumRows()
	}
	if (n != 2000000 || r.Err() != nil) && !errs.Is(r.Err(), errs.NotFound) {
		t.Errorf("%d rows, %v", n, r.Err())
	}
	r.Close()
	if _, err := tryRows(t.Context(), db, "SELECT * FROM read_parquet('"+path+"')"); !errs.Is(err, errs.NotFound) || strings.Contains(err.Error(), "overlake-files") {
		t.Errorf("a released file gave %v", err)
	}
	descriptors := openDescriptors(t)
	for range 3000 {
		_, release, err := db.AddFile("/a/b.parquet")
		if err != nil {
			t.Fatal(err)
		}
		release()
	}
	for range 30 {
		path, release, err := db.AddReader(t.Context(), "k.parquet", bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		rows(t, db, "SELECT count(*) FROM read_parquet('"+path+"')")
		release()
	}
	if left := engine.FileCount() - before; left != 0 {
		t.Errorf("%d registrations are left", left)
	}
	if left := openDescriptors(t) - descriptors; left > 2 {
		t.Errorf("%d descriptors are left", left)
	}
}

func openDescriptors(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

// TestPathsOutsideTheTable: nothing below the prefix can be made or found that was not registered, and other databases'
// files are as closed as everything else.
func TestPathsOutsideTheTable(t *testing.T) {
	eachDoor(t, func(t *testing.T, db *engine.DB) {
		other := open(t, engine.Config{})
		local := filepath.Join(t.TempDir(), "a.csv")
		if err := os.WriteFile(local, []byte("a\n1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		path, release, err := db.AddFile(local)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		want(t, rows(t, db, "SELECT a FROM '"+path+"'"), "1")
		dir := filepath.Dir(path)
		for _, sql := range []string{
			"SELECT * FROM read_text('" + dir + "/zzz.csv')", "SELECT * FROM read_text('" + dir + "/../../etc/passwd')",
			"SELECT * FROM read_text('" + dir + "/../../../../../../../../etc/passwd')", "SELECT * FROM read_text('" + local + "')",
		} {
			if got, err := tryRows(t.Context(), db, sql); err == nil && len(got) > 0 {
				t.Errorf("%s gave %q", sql, got)
			}
		}
		if got, err := tryRows(t.Context(), other, "SELECT * FROM read_text('"+path+"')"); err == nil {
			t.Errorf("another database read it: %q", got)
		}
		if _, err := db.RunCopy(t.Context(), "COPY (SELECT 1) TO '"+filepath.Join(filepath.Dir(local), "made.csv")+"' (FORMAT csv, USE_TMP_FILE false)"); err == nil {
			t.Error("COPY wrote outside")
		}
		if got, err := tryRows(t.Context(), db, "SELECT * FROM glob('"+dir+"/*')"); path[1] == '.' && err == nil && len(got) > 0 {
			t.Errorf("the registered files can be listed: %q", got)
		}
	})
}

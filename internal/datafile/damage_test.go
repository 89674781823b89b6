package datafile_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/datafile"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/testenv"
)

// readAll opens, reads and fetches from bytes that may be anything; only errors are allowed, and only those that say what
// is wrong. It gives the rows that were read.
func readAll(t testing.TB, data []byte) (int64, error) {
	f, err := datafile.OpenLimited(bytes.NewReader(data), int64(len(data)), datafile.Limits{BatchBytes: 256 << 20})
	if err != nil {
		return 0, judged(t, err)
	}
	if n := f.Rows(); n > 0 {
		rec, err := f.Fetch(t.Context(), []int64{0, n / 2, n - 1}, nil)
		if err == nil {
			rec.Release()
		}
		_ = judged(t, err)
	}
	r, err := f.Read(t.Context(), nil, 0)
	if err != nil {
		return 0, judged(t, err)
	}
	defer r.Release()
	var n int64
	for n < 10_000_000 && r.Next() { // a few bytes can stand for a great many equal rows
		n += r.RecordBatch().NumRows()
	}
	return n, judged(t, r.Err())
}

func judged(t testing.TB, err error) error {
	if err != nil && !errs.Is(err, errs.Corrupt) && !errs.Is(err, errs.Unsupported) && !errs.Is(err, errs.Exhausted) {
		t.Errorf("%v is %s", err, errs.KindOf(err))
	}
	return err
}

// damageSchema has the types that differ in how they are read, small enough for many rounds.
func damaged(t testing.TB, opts datafile.WriterOptions) []byte {
	rng := rand.New(rand.NewPCG(33, 1))
	sc := everySchema(rng)
	fields := slices.Concat(sc.Fields()[2:6], sc.Fields()[12:15], sc.Fields()[26:34], sc.Fields()[36:])
	whole := randomBatch(memory.DefaultAllocator, arrow.NewSchema(fields, nil), 200, rng)
	data, _ := writeBatch(t, whole, opts, rng)
	return data
}

func TestDamagedFilesAreErrors(t *testing.T) {
	for name, opts := range map[string]datafile.WriterOptions{"zstd": {}, "plain": {Codec: datafile.Uncompressed, PageBytes: 500}} {
		data := damaged(t, opts)
		for cut := 0; cut < len(data); cut += 1 + len(data)/60 {
			if _, err := readAll(t, data[:cut]); err == nil {
				t.Errorf("%s: %d of %d bytes were read as a file", name, cut, len(data))
			}
		}
		rounds := 400
		if os.Getenv(testenv.DeepVar) == "1" {
			rounds = 20_000
		}
		rng := rand.New(rand.NewPCG(5, 5))
		footer := int(binary.LittleEndian.Uint32(data[len(data)-8:])) + 8
		for round := range rounds {
			bad := bytes.Clone(data)
			at := rng.IntN(len(bad))
			if round%2 == 0 {
				at = len(bad) - 1 - rng.IntN(footer)
			}
			bad[at] ^= 1 << rng.IntN(8)
			before := allocated()
			_, _ = readAll(t, bad)
			if n := allocated() - before; n > 600<<20 {
				t.Errorf("%s: bit flipped at %d: %d MiB were allocated", name, at, n>>20)
			}
		}
	}
}

func allocated() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.TotalAlloc)
}

// TestForeignFiles reads every file of the Parquet project's and others' collections, valid, odd and hostile. Row counts have
// to be those of DuckDB where it reads the file; what is refused although DuckDB reads it is listed, with the reason, in
// testdata/refused.txt. Run with -rewrite to take over the list, after judging it.
func TestForeignFiles(t *testing.T) {
	odd := testenv.Shared(t, "data", "odd-files")
	root := filepath.Dir(odd)
	lines, err := os.ReadFile(filepath.Join(odd, "expected-duckdb.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	type answer struct {
		File string
		Rows *int64
	}
	duck := map[string]*int64{}
	for line := range bytes.Lines(lines) {
		var a answer
		if err := json.Unmarshal(line, &a); err != nil {
			t.Fatal(err)
		}
		duck[a.File] = a.Rows
	}
	read, refused := 0, 0
	var list strings.Builder
	for _, dir := range []string{"parquet-testing", "odd-files"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			before := allocated()
			rows, err := readAll(t, data)
			if n := allocated() - before; n > 600<<20 {
				t.Errorf("%s: %d MiB were allocated", name, n>>20)
			}
			want := duck[filepath.ToSlash(name)]
			switch {
			case err == nil && want != nil && rows != *want:
				t.Errorf("%s: %d rows, DuckDB reads %d", name, rows, *want)
			case err == nil:
				read++
			default:
				refused++
				if want != nil {
					fmt.Fprintf(&list, "%s: %s: %v\n", name, errs.KindOf(err), err)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d files read, %d refused with an error", read, refused)
	if read < 500 {
		t.Errorf("only %d files were read", read)
	}
	if *rewrite {
		if err := os.WriteFile("testdata/refused.txt", []byte(list.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile("testdata/refused.txt"); err != nil || string(want) != list.String() {
		t.Errorf("refused although DuckDB reads them:\n%s\nand expected were:\n%s", list.String(), want)
	}
}

// TestForeignRowsByPosition fetches rows of every file of the collections that can be read, and compares them with those that
// reading in order gives.
func TestForeignRowsByPosition(t *testing.T) {
	root := filepath.Dir(testenv.Shared(t, "data", "odd-files"))
	rng := rand.New(rand.NewPCG(12, 12))
	files, rows := 0, 0
	for _, dir := range []string{"parquet-testing", "odd-files"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			f, err := datafile.OpenLimited(bytes.NewReader(data), int64(len(data)), datafile.Limits{BatchBytes: 256 << 20})
			if err != nil || f.Rows() == 0 || f.Rows() > 200_000 {
				return nil
			}
			r, err := f.Read(t.Context(), nil, 0)
			if err != nil {
				return nil
			}
			defer r.Release()
			var batches []arrow.RecordBatch
			for r.Next() {
				rec := r.RecordBatch()
				rec.Retain()
				defer rec.Release()
				batches = append(batches, rec)
			}
			if r.Err() != nil {
				return nil
			}
			pos := []int64{0, f.Rows() - 1}
			for range 60 {
				pos = append(pos, rng.Int64N(f.Rows()))
			}
			got, err := f.Fetch(t.Context(), pos, nil)
			if err != nil {
				t.Errorf("%s: %v", path, err)
				return nil
			}
			defer got.Release()
			files, rows = files+1, rows+len(pos)
			for i, p := range pos {
				at := p
				for _, rec := range batches {
					if at >= rec.NumRows() {
						at -= rec.NumRows()
						continue
					}
					// Half floats that are infinite differ from themselves, so the text counts too.
					if diff := sameRows(got, int64(i), rec, at); diff != "" && !sameText(got, i, rec, int(at)) {
						t.Errorf("%s: position %d: %s", path, p, diff)
					}
					break
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d rows of %d files", rows, files)
	if files < 400 {
		t.Errorf("only %d files", files)
	}
}

func sameText(a arrow.RecordBatch, i int, b arrow.RecordBatch, k int) bool {
	for c := range int(a.NumCols()) {
		if a.Column(c).ValueStr(i) != b.Column(c).ValueStr(k) {
			return false
		}
	}
	return true
}

func TestEncryptedFilesAreUnsupported(t *testing.T) {
	for _, name := range []string{"encrypt_columns_and_footer.parquet.encrypted", "encrypt_columns_plaintext_footer.parquet.encrypted"} {
		data, err := os.ReadFile(testenv.Shared(t, "data", "parquet-testing", "data", name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := datafile.Open(bytes.NewReader(data), int64(len(data))); !errs.Is(err, errs.Unsupported) {
			t.Errorf("%s gave %v", name, err)
		}
	}
}

// FuzzOpen opens, reads and fetches from anything.
func FuzzOpen(f *testing.F) {
	data, _ := write(f, 3, 20, datafile.WriterOptions{PageBytes: 100})
	f.Add(data)
	split, _ := write(f, 4, 9, datafile.WriterOptions{Vectors: datafile.VectorsSplit, Codec: datafile.Uncompressed})
	f.Add(split)
	f.Add([]byte("PAR1\x00\x00\x00\x00PAR1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 1<<16 {
			_, _ = readAll(t, data)
		}
	})
}

// FuzzFooter replaces the footer of a good file, so that the fuzzer need not find the length that goes with it.
func FuzzFooter(f *testing.F) {
	data, _ := write(f, 5, 30, datafile.WriterOptions{PageBytes: 100, Codec: datafile.Uncompressed})
	at := len(data) - 8 - int(binary.LittleEndian.Uint32(data[len(data)-8:]))
	f.Add(bytes.Clone(data[at : len(data)-8]))
	f.Fuzz(func(t *testing.T, footer []byte) {
		if len(footer) > 1<<16 {
			return
		}
		bad := append(bytes.Clone(data[:at]), footer...)
		bad = binary.LittleEndian.AppendUint32(bad, uint32(len(footer)))
		_, _ = readAll(t, append(bad, "PAR1"...))
	})
}

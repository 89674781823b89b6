package overlake_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/overlakedb/overlake"
)

// TestBadFilesOfAGroup: small data files share one artifact. One that cannot be in it does not keep the others out, whether it
// cannot be read, has vectors of several dimensions, or too many that cannot be compared; the answers are those of a scan.
func TestBadFilesOfAGroup(t *testing.T) {
	ctx := t.Context()
	rows := func(from, n int, vector string) string {
		return fmt.Sprintf("INSERT INTO t SELECT i, %s::FLOAT[] FROM range(%d, %d) r(i)", vector, from, from+n)
	}
	good, other := "[i, i * 7 % 31, 1]", "[i, 2]"
	for _, c := range []struct {
		name    string
		files   []string
		spoil   int // place of a file that is damaged; -1: none
		covered int
		fails   string
	}{
		{"damaged, in the middle", []string{rows(0, 50, good), rows(50, 50, good), rows(100, 50, good)}, 1, 2, "page header"},
		{"damaged, first", []string{rows(0, 50, good), rows(50, 50, good), rows(100, 50, good)}, 0, 2, "page header"},
		{"two dimensions in one file", []string{rows(0, 50, good), rows(50, 50, "CASE WHEN i % 2 = 0 THEN "+good+" ELSE "+other+" END"), rows(100, 50, good)}, -1, 2, "dimensions"},
		{"two dimensions in the first", []string{rows(0, 50, "CASE WHEN i % 2 = 0 THEN "+other+" ELSE "+good+" END"), rows(50, 50, good), rows(100, 50, good)}, -1, 2, "dimensions"},
		{"a file of another dimension", []string{rows(0, 50, other), rows(50, 50, good), rows(100, 50, good), rows(150, 50, other)}, -1, 4, ""},
		{"many that are no numbers", []string{rows(0, 50, good), rows(50, 1500, "[i, 'NaN'::FLOAT, 1]"), rows(1550, 50, good), rows(1600, 900, "[i, 'inf'::FLOAT, 1]")}, -1, 3, "no numbers"},
		{"all are", []string{rows(0, 1500, "[i, NULL, 1]")}, -1, 0, "no numbers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			var events []string
			db, err := overlake.Open(ctx, dir, overlake.Options{IndexByHand: true, Events: func(e overlake.Event) { events = append(events, fmt.Sprint(e.Object, " ", e.What)) }})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			ask := func(text string) (out []string, err error) {
				r, err := db.SQL(ctx, text)
				if err != nil {
					return nil, err
				}
				for row, err := range r.Values() {
					if err != nil {
						return out, err
					}
					out = append(out, fmt.Sprint(row...))
				}
				return out, nil
			}
			do := func(text string) {
				t.Helper()
				if _, err := ask(text); err != nil {
					t.Fatalf("%s: %v", text, err)
				}
			}
			do("CREATE TABLE t (id INTEGER, e FLOAT[])")
			for _, f := range c.files {
				do(f)
			}
			table, err := db.Table(ctx, "t")
			if err != nil {
				t.Fatal(err)
			}
			files, err := table.Files(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if c.spoil >= 0 {
				spoil(t, dir, filepath.Base(files[c.spoil].Path))
			}
			_, err = ask("CREATE INDEX near ON t USING flat (e)")
			if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("the build ends with %v", err)
			}
			if len(events) != min(1, len(c.fails)) {
				t.Errorf("events %q", events)
			}
			list, err := table.Indexes(ctx)
			if err != nil || len(list) != 1 || list[0].Covered != c.covered || list[0].Files != len(files) {
				t.Fatalf("%+v, %v; want %d of %d files covered", list, err, c.covered, len(files))
			}
			for _, q := range []string{"SELECT id, e <-> '[3,4,1]'::vector AS d FROM t ORDER BY d, id LIMIT 7", "SELECT id FROM t WHERE len(e) = 3 ORDER BY e <-> '[60,4,1]'::vector, id LIMIT 7",
				"SELECT id FROM t WHERE len(e) = 2 ORDER BY e <-> '[60,4]'::vector, id LIMIT 7"} {
				want, werr := ask(q + " /*+ no_index */")
				got, gerr := ask(q + " /*+ index exact */")
				if (werr == nil) != (gerr == nil) || werr == nil && fmt.Sprint(want) != fmt.Sprint(got) {
					t.Errorf("%s: %v, %v; by the index %v, %v", q, want, werr, got, gerr)
				}
			}
		})
	}
}

// spoil damages the pages of a data file and leaves its footer as it is.
func spoil(t *testing.T, dir, name string) {
	t.Helper()
	found := false
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.Name() != name {
			return err
		}
		found = true
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		footer := int(binary.LittleEndian.Uint32(b[len(b)-8:]))
		for i := 4; i < len(b)-8-footer; i++ {
			b[i] ^= 0xff
		}
		if err := os.Chmod(path, 0o644); err != nil {
			return err
		}
		return os.WriteFile(path, b, 0o644)
	})
	if err != nil || !found {
		t.Fatalf("%s: %v", name, err)
	}
}

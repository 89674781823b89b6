package slt_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/overlakedb/overlake"
	"github.com/overlakedb/overlake/internal/testenv"
	"github.com/overlakedb/overlake/test/ask"
	"github.com/overlakedb/overlake/test/slt"
)

var rewriteFlag = flag.Bool("rewrite", false, "write the answers into the scripts")

// overlakeRunner is a session over a warehouse of its own.
type overlakeRunner struct {
	db      *overlake.DB
	session *overlake.Session
}

func (r overlakeRunner) Exec(ctx context.Context, sql string) (slt.Answer, error) {
	rows, err := r.session.SQL(ctx, sql)
	if err != nil {
		return slt.Answer{}, err
	}
	defer rows.Close()
	a := slt.Answer{Count: rows.RowsAffected()}
	for _, f := range rows.Schema().Fields() {
		a.Columns = append(a.Columns, f.Name)
	}
	a.Rows, err = ask.Read(rows, ask.Text)
	return a, err
}

func (r overlakeRunner) Snapshot(ctx context.Context, table string) (id, at string, err error) {
	t, err := r.db.Table(ctx, table)
	if err != nil {
		return "", "", err
	}
	all, err := t.Snapshots(ctx)
	if err != nil {
		return "", "", err
	}
	if len(all) == 0 {
		return "", "", fmt.Errorf("%s has no snapshot", table)
	}
	last := all[len(all)-1]
	return strconv.FormatInt(last.ID, 10), last.Time.UTC().Format(time.RFC3339Nano), nil
}

// errorText is what "statement error" compares.
func errorText(err error) string {
	s := overlake.KindOf(err).String() + ": " + err.Error()
	if h := overlake.HintOf(err); h != "" {
		s += " (hint: " + h + ")"
	}
	return s
}

func TestScripts(t *testing.T) {
	scripts, err := filepath.Glob("testdata/*.slt")
	if err != nil {
		t.Fatal(err)
	}
	if len(scripts) == 0 {
		t.Fatal("there are no scripts")
	}
	for _, path := range scripts {
		name := strings.TrimSuffix(filepath.Base(path), ".slt")
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			export := t.TempDir()
			db, err := overlake.Open(t.Context(), t.TempDir(), overlake.Options{Export: []string{export}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			}()
			if strings.HasPrefix(name, "docs_") {
				o := overlake.ImportOptions{Vectors: map[string]int{"vector": 384}}
				if _, _, err := db.Import(t.Context(), "docs", testenv.Examples(t, "fiori-docs", "docs.parquet"), o); err != nil {
					t.Fatal(err)
				}
			}
			res, err := slt.Run(t.Context(), string(text), overlakeRunner{db, db.Session()},
				slt.Options{Name: "overlake", Vars: map[string]string{"export": export}, ErrorText: errorText})
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			for _, f := range res.Failures {
				t.Errorf("%s, %s", path, f)
			}
			for _, d := range res.Defects {
				t.Logf("%s, known defect, %s", path, d)
			}
			t.Logf("%s: %d records passed, %d failed, %d known defects, %d left out", name, res.Passed, len(res.Failures), len(res.Defects), res.Skipped)
			if *rewriteFlag && res.Rewritten != string(text) {
				if err := os.WriteFile(path, []byte(res.Rewritten), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

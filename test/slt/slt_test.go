package slt_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/overlakedb/overlake"
	"github.com/overlakedb/overlake/internal/declared"
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

// The states of coverage that a script is run in.
const (
	none = "no index"
	half = "about half the files in indexes"
	full = "all in indexes"
)

// covering gives every table that a script makes indexes over all its columns, and builds them after each statement that
// writes. With half, it builds when a table has 1, 4, 7 … files, and every second table's when it has 2, 5, 8 …: so there
// are tables without, with a few of their files and with all in indexes.
type covering struct {
	overlakeRunner
	half   bool
	tables map[string]int  // by name, counted as they come
	known  map[string]bool // columns of tables with an index, or that can have none
}

var writing = regexp.MustCompile(`(?i)^\s*(CREATE|INSERT|ALTER|COPY|DROP|WITH|FROM)\b`)

func (c *covering) Exec(ctx context.Context, sql string) (slt.Answer, error) {
	a, err := c.overlakeRunner.Exec(ctx, sql)
	if err == nil && writing.MatchString(sql) && a.Columns == nil {
		if err := c.cover(ctx); err != nil {
			return a, fmt.Errorf("the indexes after this statement: %w", err)
		}
	}
	return a, err
}

func (c *covering) cover(ctx context.Context) error {
	names, err := c.db.Tables(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		t, err := c.db.Table(ctx, name)
		if err != nil {
			return err
		}
		if err := c.define(ctx, t); err != nil {
			return err
		}
		if files, err := t.Files(ctx); err != nil || c.half && len(files)%3 != 1+c.tables[t.Name()]%2 {
			if err != nil {
				return err
			}
			continue
		}
		if err := t.BuildIndexes(ctx, nil, false, nil); err != nil {
			return err
		}
	}
	return nil
}

// define gives the columns of a table indexes: bitmaps, a Bloom filter for every third, one over the first two, and of texts by two
// analyzers.
func (c *covering) define(ctx context.Context, t *overlake.Table) error {
	sc, err := t.Schema(ctx)
	if err != nil {
		return err
	}
	id, err := t.Location(ctx)
	if err != nil {
		return err
	}
	if _, ok := c.tables[t.Name()]; !ok {
		c.tables[t.Name()] = len(c.tables)
	}
	var first []string
	for i, f := range sc.Fields() {
		field, _ := f.Metadata.GetValue("PARQUET:field_id")
		key := id + " " + field
		if c.known[key] {
			continue
		}
		c.known[key] = true
		kind := "bitmap"
		if i%3 == 2 {
			kind = "bloom"
		}
		_, err := t.AddIndex(ctx, overlake.IndexSpec{Name: "cover_" + field, Kind: kind, Columns: []string{f.Name}})
		if overlake.KindOf(err) == overlake.KindUnsupported {
			if err = vectors(ctx, t, field, f); err == nil || overlake.KindOf(err) == overlake.KindUnsupported {
				continue
			}
		}
		if err != nil {
			return err
		}
		if f.Type.ID() == arrow.STRING && f.Metadata.FindKey(declared.Key) < 0 {
			for _, analyzer := range []string{"standard", "english"} {
				spec := overlake.IndexSpec{Name: "cover_" + field + "_" + analyzer, Kind: "bm25", Columns: []string{f.Name}, Params: map[string]string{"analyzer": analyzer}}
				if _, err := t.AddIndex(ctx, spec); err != nil {
					return err
				}
			}
		}
		if first = append(first, f.Name); len(first) == 2 && i == 1 {
			_, err := t.AddIndex(ctx, overlake.IndexSpec{Name: "cover_pair", Columns: first})
			if err != nil && overlake.KindOf(err) != overlake.KindExists { // a table made anew keeps its indexes
				return err
			}
		}
	}
	return nil
}

// vectors gives a column of vectors, sparse vectors or bit strings an index by each metric; Unsupported when it is none.
func vectors(ctx context.Context, t *overlake.Table, field string, f arrow.Field) error {
	kinds := map[string]string{"l2": "hnsw", "cosine": "ivfflat", "ip": "hnsw_tq8", "l1": "flat"}
	switch typ, _ := f.Metadata.GetValue(declared.Key); {
	case typ == "sparsevec": // vectors of any number of dimensions may have no index
		return nil
	case strings.HasPrefix(typ, "sparsevec"):
		kinds = map[string]string{"l2": "hnsw", "cosine": "flat", "ip": "hnsw", "l1": "flat"}
	case strings.HasPrefix(typ, "bit"):
		kinds = map[string]string{"hamming": "hnsw", "jaccard": "ivfflat"}
	}
	for metric, kind := range kinds {
		_, err := t.AddIndex(ctx, overlake.IndexSpec{Name: "cover_" + field + "_" + metric, Kind: kind, Columns: []string{f.Name}, Params: map[string]string{"metric": metric}})
		if err != nil {
			return err
		}
	}
	return nil
}

// Scripts are run without indexes, with half of what they write in indexes, and with all of it: the answers are the same.
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
			runScript(t, path, string(text), none)
			if !slt.Coverage(string(text)) || *rewriteFlag {
				return
			}
			for _, coverage := range []string{half, full} {
				t.Run(coverage, func(t *testing.T) { runScript(t, path, string(text), coverage) })
			}
		})
	}
}

func runScript(t *testing.T, path, text, coverage string) {
	name := strings.TrimSuffix(filepath.Base(path), ".slt")
	export := t.TempDir()
	opts := overlake.Options{Export: []string{export}, IndexByHand: coverage != none}
	if coverage != none {
		opts.Events = func(e overlake.Event) { t.Errorf("event without damage: %+v", e) }
	}
	db, err := overlake.Open(t.Context(), t.TempDir(), opts)
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
	r := overlakeRunner{db, db.Session()}
	var runner slt.Runner = r
	if coverage != none {
		c := &covering{overlakeRunner: r, half: coverage == half, tables: map[string]int{}, known: map[string]bool{}}
		if _, err := r.Exec(t.Context(), "SET use_index = 'on'"); err != nil {
			t.Fatal(err)
		}
		if err := c.cover(t.Context()); err != nil {
			t.Fatal(err)
		}
		runner = c
	}
	res, err := slt.Run(t.Context(), text, runner, slt.Options{Name: "overlake", Vars: map[string]string{"export": export}, ErrorText: errorText})
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	for _, f := range res.Failures {
		t.Errorf("%s, %s", path, f)
	}
	for _, d := range res.Defects {
		t.Logf("%s, known defect, %s", path, d)
	}
	t.Logf("%s, %s: %d records passed, %d failed, %d known defects, %d left out", name, coverage, res.Passed, len(res.Failures), len(res.Defects), res.Skipped)
	if *rewriteFlag && res.Rewritten != text {
		if err := os.WriteFile(path, []byte(res.Rewritten), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// The states are what they say: without this the runs with indexes could agree because no index is there.
func TestCoverageStates(t *testing.T) {
	for _, coverage := range []string{half, full} {
		t.Run(coverage, func(t *testing.T) {
			db := ask.Open(t, t.TempDir(), overlake.Options{IndexByHand: true})
			c := &covering{overlakeRunner: overlakeRunner{db, db.Session()}, half: coverage == half, tables: map[string]int{}, known: map[string]bool{}}
			for _, s := range []string{"SET use_index = 'on'", "CREATE TABLE t (a INTEGER, b VARCHAR, c DATE, v FLOAT[])", "INSERT INTO t VALUES (1, 'x', '2026-01-01', [1])",
				"INSERT INTO t VALUES (2, 'y', '2026-01-01', [1])", "INSERT INTO t VALUES (3, 'z', '2026-01-01', [1])"} {
				if _, err := c.Exec(t.Context(), s); err != nil {
					t.Fatal(err)
				}
			}
			table, err := db.Table(t.Context(), "t")
			if err != nil {
				t.Fatal(err)
			}
			list, err := table.Indexes(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(list) != 10 {
				t.Errorf("there are %d indexes, want a bitmap, a bitmap, a Bloom filter, one over two columns, four of vectors and two of texts", len(list))
			}
			for _, x := range list {
				if open := x.Files - x.Covered; x.Files != 3 || coverage == full && open != 0 || coverage == half && open != 2 {
					t.Errorf("%s covers %d of %d files", x.Name, x.Covered, x.Files)
				}
			}
			a, err := c.Exec(t.Context(), "EXPLAIN SELECT * FROM t WHERE a = 3")
			if err != nil {
				t.Fatal(err)
			}
			text := ""
			for _, r := range a.Rows {
				for _, v := range r {
					if v != nil {
						text += *v + "\n"
					}
				}
			}
			// The third file, which the statistics leave, is scanned where no index covers it.
			if scanned := strings.Contains(text, " 1 scanned"); scanned != (coverage == half) {
				t.Errorf("with %s:\n%s", coverage, text)
			}
		})
	}
}

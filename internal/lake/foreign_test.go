package lake_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/uuid"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/testenv"
)

type foreignTable struct {
	Table, Metadata, Location, Note string
	Rows                            *int64
	Features                        []string
	Sample                          []map[string]any
	RowsBySnapshot                  map[string]int64 `json:"rows_by_snapshot"`
	Independent                     *int64           `json:"iceberg_go_rows"`
}

// foreignCorrections are expectations that are wrong in the collection, with the reason why we know better.
var foreignCorrections = map[string]struct {
	rows int64
	why  string
}{
	"duckdb-iceberg/big_query_error":                         {2, "the manifest, the Parquet footer and the origin's own query say 2 rows"},
	"duckdb-iceberg/custom_write_paths":                      {0, "a valid table without snapshots; the origin's own query returns no rows"},
	"trino/materialized_view_expired_snapshots/source_table": {1, "the missing manifests hold no live files by the manifest list"},
}

// foreignDamaged are deliberately broken tables and the kind of error each must give.
var foreignDamaged = map[string]errs.Kind{
	"impala/hadoop_catalog/ice/iceberg_v2_null_delete_record":                                  errs.Corrupt,
	"impala/hadoop_catalog/ice/iceberg_with_key_metadata":                                      errs.Unsupported,
	"duckdb-iceberg/legacy_bare_deletion_vector/warehouse/default/legacy_bare_deletion_vector": errs.Corrupt,
	"duckdb-iceberg/generated_bounds":                                                          errs.Denied, // no data files, paths outside the table
}

// foreignRefused are good tables that we cannot read, and what the error must name. docs/format/reading-tables.md lists them.
var foreignRefused = []struct{ part, names string }{
	{"orc", "format ORC"},
	{"airports_orc", "format ORC"},
	{"iceberg_mixed_file_format_test", "format ORC"},
	{"avro", "format AVRO"},
	{"variant", "type variant"},
	{"iceberg_migrated_complex_test", "logical type Null"},
}

// looseSample tells of tables whose sample the independent reader got wrong: it ignores position deletes that name paths
// with another scheme.
func looseSample(f foreignTable) bool {
	return f.Independent == nil || f.Rows == nil || *f.Independent != *f.Rows
}

func eachForeign(t *testing.T, each func(store objstore.Reader, f foreignTable)) {
	root := testenv.Shared(t, "data", "iceberg-tables")
	raw, err := os.ReadFile(filepath.Join(root, "expected", "tables.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	store, err := objstore.OpenLocalReadOnly(root)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		var f foreignTable
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatal(err)
		}
		each(store, f)
	}
}

// TestForeignTables reads every table of the shared collection, in every snapshot, and compares rows and samples.
func TestForeignTables(t *testing.T) {
	passed, refused, tried, snapshots, samples := 0, 0, 0, 0, 0
	eachForeign(t, func(store objstore.Reader, f foreignTable) {
		tried++
		if c, ok := foreignCorrections[f.Table]; ok {
			f.Rows = &c.rows
		}
		got, tbl, err := func() (rows []map[string]any, tbl *lake.Table, err error) {
			defer func() {
				if p := recover(); p != nil {
					err = fmt.Errorf("panic: %v", p)
				}
			}()
			if tbl, err = mountForeign(t.Context(), store, f); err != nil {
				return nil, nil, err
			}
			rows, err = readRows(t.Context(), tbl, lake.Ref{})
			return rows, tbl, err
		}()
		if want, ok := foreignDamaged[f.Table]; ok {
			if !errs.Is(err, want) {
				t.Errorf("%s: got %v (%d rows), want an error of kind %v", f.Table, err, len(got), want)
			} else {
				passed++
			}
			return
		}
		for _, r := range foreignRefused {
			if err != nil && strings.Contains(f.Table, r.part) && strings.Contains(err.Error(), r.names) {
				refused++
				return
			}
		}
		switch {
		case err != nil:
			t.Errorf("%s: %v (%v)", f.Table, err, errs.KindOf(err))
			return
		case f.Rows == nil || int64(len(got)) != *f.Rows:
			t.Errorf("%s: %d rows, want %v: %s", f.Table, len(got), f.Rows, f.Note)
			return
		}
		passed++
		if !looseSample(f) {
			for _, want := range f.Sample {
				samples++
				if !containsRow(got, want) {
					t.Errorf("%s: no row is\n  %v, first is\n  %v", f.Table, want, got[0])
				}
			}
		}
		if slices.Contains(f.Features, "position-deletes") || strings.Contains(f.Table, "materialized_view") {
			return // the independent counts of old snapshots ignore deletes by other schemes
		}
		for id, want := range f.RowsBySnapshot {
			n, err := strconv.ParseInt(id, 10, 64)
			if err != nil {
				continue
			}
			snapshots++
			rows, err := readRows(t.Context(), tbl, lake.Ref{SnapshotID: n})
			if err != nil || int64(len(rows)) != want {
				t.Errorf("%s: snapshot %s has %d rows, want %d: %v", f.Table, id, len(rows), want, err)
			}
		}
	})
	t.Logf("foreign tables: %d passed / %d tried / %d refused; %d snapshots, %d sample rows", passed, tried, refused, snapshots, samples)
	if passed+refused != tried {
		t.Errorf("%d tables are neither read right nor refused as documented", tried-passed-refused)
	}
}

func mountForeign(ctx context.Context, store objstore.Reader, f foreignTable) (*lake.Table, error) {
	return lake.Mount(ctx, lake.Ident{Namespace: "main", Name: "t"}, store, lake.MountOptions{
		Metadata: f.Table + "/" + f.Metadata, Prefixes: map[string]string{
			f.Location: f.Table, "/test-warehouse/iceberg_test": "impala", "/test-warehouse": "impala", "data/persistent": "duckdb-iceberg",
			"/" + filepath.Base(f.Table): f.Table, filepath.Base(f.Table): f.Table,
		}})
}

// readRows reads all live rows, each as its columns by name in JSON's types.
func readRows(ctx context.Context, tbl *lake.Table, ref lake.Ref) ([]map[string]any, error) {
	r, err := tbl.Read(ctx, ref, nil)
	if err != nil {
		return nil, err
	}
	defer r.Release()
	var out []map[string]any
	for r.Next() {
		rec := r.RecordBatch()
		if len(out) > 2000 { // enough for a sample: the rest is counted
			out = append(out, make([]map[string]any, rec.NumRows())...)
			continue
		}
		out = append(out, jsonRows(rec)...)
	}
	return out, r.Err()
}

func jsonRows(rec arrow.RecordBatch) []map[string]any {
	out := make([]map[string]any, rec.NumRows())
	for i := range out {
		out[i] = map[string]any{}
		for c, f := range rec.Schema().Fields() {
			if v, _ := f.Metadata.GetValue(lake.IcebergTypeKey); v == "uuid" && rec.Column(c).IsValid(i) {
				out[i][f.Name] = uuid.UUID(rec.Column(c).(*array.FixedSizeBinary).Value(i)).String()
				continue
			}
			raw, err := json.Marshal(rec.Column(c).GetOneForMarshal(i))
			if err != nil {
				raw = []byte(strconv.Quote(err.Error()))
			}
			var v any
			if json.Unmarshal(raw, &v) != nil {
				v = string(raw)
			}
			out[i][f.Name] = v
		}
	}
	return out
}

// containsRow looks for a row of the independent reader. It leaves NULL in columns that only the partition knows.
func containsRow(rows []map[string]any, want map[string]any) bool {
	for _, r := range rows {
		same := len(r) == len(want)
		for k, w := range want {
			if got, ok := r[k]; !ok || w != nil && spelling(got) != spelling(w) {
				same = false
				break
			}
		}
		if same {
			return true
		}
	}
	return false
}

// spelling writes a value in one way: the independent reader writes times with T and Z.
func spelling(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case map[string]any:
		parts := make([]string, 0, len(v))
		for k, x := range v {
			parts = append(parts, k+":"+spelling(x))
		}
		slices.Sort(parts)
		return "{" + strings.Join(parts, ",") + "}"
	case []any:
		parts := make([]string, len(v))
		for i, x := range v {
			parts[i] = spelling(x)
		}
		return "[" + strings.Join(parts, ",") + "]"
	case string:
		s := v
		if len(s) > 10 && s[4] == '-' && s[7] == '-' && (s[10] == ' ' || s[10] == 'T') {
			s = strings.TrimSuffix(strings.Replace(s, " ", "T", 1), "Z")
		}
		return s
	}
	return fmt.Sprint(v)
}

package lake_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/predicate"
)

func le64(n int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(n)) }

var idOnly = iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64})

// manyFiles forges a table of n files of 100 rows with consecutive ids, in manifests of 500.
func manyFiles(n int) forgery {
	f := forgery{schemas: []*iceberg.Schema{idOnly}}
	for i := range n {
		lo := int64(i) * 100
		f.files = append(f.files, forgedFile{path: fmt.Sprintf("data/%06d.parquet", n-i), rows: 100, sequence: int64(i/500 + 1),
			lower: map[int][]byte{1: le64(lo)}, upper: map[int][]byte{1: le64(lo + 99)}, values: map[int]int64{1: 100}, nulls: map[int]int64{1: 0}})
	}
	return f
}

// TestPlansAreCachedAndFast: a second plan of a snapshot asks the store for nothing, and 5,000 files take milliseconds.
func TestPlansAreCachedAndFast(t *testing.T) {
	store := &counting{Store: objstore.NewMemory("t")}
	tbl := manyFiles(5000).mount(t, store)
	filter := predicate.And{predicate.Compare{Column: "id", Op: predicate.Ge, Value: int64(1000)}, predicate.Compare{Column: "id", Op: predicate.Ne, Value: int64(7)}}
	plan, err := tbl.Plan(t.Context(), lake.Ref{}, filter)
	if err != nil {
		t.Fatal(err)
	}
	if plan.Total != 5000 || plan.PrunedByStats != 10 || len(plan.Files) != 4990 || plan.Rows != 499_000 {
		t.Errorf("got %d of %d files, %d ruled out, %d rows", len(plan.Files), plan.Total, plan.PrunedByStats, plan.Rows)
	}
	if !slices.IsSortedFunc(plan.Files, func(a, b lake.DataFile) int {
		if a.Sequence != b.Sequence {
			return int(a.Sequence - b.Sequence)
		}
		return strings.Compare(a.Path, b.Path)
	}) {
		t.Error("the files are not in the order of sequence and path")
	}
	before := store.opens.Load()
	best := time.Hour
	for range 20 {
		start := time.Now()
		if _, err := tbl.Plan(t.Context(), lake.Ref{}, filter); err != nil {
			t.Fatal(err)
		}
		best = min(best, time.Since(start))
	}
	if n := store.opens.Load() - before; n != 0 {
		t.Errorf("a plan of a known snapshot opened %d objects", n)
	}
	allocations := testing.AllocsPerRun(3, func() {
		if _, err := tbl.Plan(t.Context(), lake.Ref{}, filter); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("5,000 files planned in %v with %v allocations", best, allocations)
	// It takes about 1.3 ms; the limit leaves room for the race detector and a busy machine. Allocations tell without noise
	// whether a plan does work for every file.
	if best > 100*time.Millisecond || allocations > 1000 {
		t.Errorf("planning 5,000 known files took %v and %v allocations", best, allocations)
	}
}

// TestManifestsAreRuledOutUnread: bounds in the manifest list save reading manifests.
func TestManifestsAreRuledOutUnread(t *testing.T) {
	spec := iceberg.NewPartitionSpecID(0, iceberg.PartitionField{SourceIDs: []int{1}, FieldID: 1000, Name: "id", Transform: iceberg.IdentityTransform{}})
	f := forgery{schemas: []*iceberg.Schema{idOnly}, specs: []iceberg.PartitionSpec{spec}, perFile: true}
	for i := range 20 {
		f.files = append(f.files, forgedFile{path: fmt.Sprintf("data/%d.parquet", i), rows: 1, sequence: 1, partition: map[int]any{1000: int64(i)}})
	}
	store := &counting{Store: objstore.NewMemory("t")}
	tbl := f.mount(t, store)
	before := store.opens.Load()
	plan, err := tbl.Plan(t.Context(), lake.Ref{}, predicate.Compare{Column: "id", Op: predicate.Eq, Value: int64(7)})
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Files) != 1 || plan.Total != 20 || plan.PrunedByPartition != 19 {
		t.Errorf("%d files of %d, %d ruled out", len(plan.Files), plan.Total, plan.PrunedByPartition)
	}
	if n := store.opens.Load() - before; n != 2 {
		t.Errorf("opened %d objects, want the list and one manifest", n)
	}
}

// TestPartitionEvolution: files of several specs are ruled out each by its own.
func TestPartitionEvolution(t *testing.T) {
	specs := []iceberg.PartitionSpec{
		iceberg.NewPartitionSpecID(0),
		iceberg.NewPartitionSpecID(1, iceberg.PartitionField{SourceIDs: []int{1}, FieldID: 1000, Name: "id_bucket", Transform: iceberg.BucketTransform{NumBuckets: 4}}),
		iceberg.NewPartitionSpecID(2, iceberg.PartitionField{SourceIDs: []int{1}, FieldID: 1000, Name: "id_bucket", Transform: iceberg.VoidTransform{}},
			iceberg.PartitionField{SourceIDs: []int{1}, FieldID: 1001, Name: "id_trunc", Transform: iceberg.TruncateTransform{Width: 10}}),
	}
	f := forgery{schemas: []*iceberg.Schema{idOnly}, specs: specs, files: []forgedFile{
		{path: "plain.parquet", rows: 1, sequence: 1},
		{path: "trunc0.parquet", rows: 1, sequence: 3, spec: 2, partition: map[int]any{1001: int64(0)}},
		{path: "trunc40.parquet", rows: 1, sequence: 3, spec: 2, partition: map[int]any{1001: int64(40)}},
		{path: "truncnull.parquet", rows: 1, sequence: 3, spec: 2, partition: map[int]any{1001: nil}},
	}}
	for b := range 4 {
		f.files = append(f.files, forgedFile{path: fmt.Sprintf("bucket%d.parquet", b), rows: 1, sequence: 2, spec: 1, partition: map[int]any{1000: int32(b)}})
	}
	tbl := f.mount(t, objstore.NewMemory("t"))
	plan, err := tbl.Plan(t.Context(), lake.Ref{}, predicate.Compare{Column: "id", Op: predicate.Eq, Value: int64(42)})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range plan.Files {
		got = append(got, strings.TrimPrefix(f.Path, "s3://forged/t/"))
	}
	// bucket[4] of 42 is known from the specification's hash: murmur3 of the 8 bytes.
	lit := iceberg.BucketTransform{NumBuckets: 4}.Apply(iceberg.Optional[iceberg.Literal]{Val: iceberg.NewLiteral(int64(42)), Valid: true})
	want := []string{"plain.parquet", fmt.Sprintf("bucket%v.parquet", lit.Val.Any()), "trunc40.parquet"}
	if !slices.Equal(got, want) {
		t.Errorf("kept %v, want %v", got, want)
	}
}

// TestRefusals: what cannot be read is refused with the file and the reason, and only when a plan needs it. The table in
// docs/format/reading-tables.md names the same texts; see TestRefusedThingsAreDocumented.
func TestRefusals(t *testing.T) {
	one := forgedFile{path: "a.parquet", rows: 1, sequence: 1, lower: map[int][]byte{1: le64(5)}, upper: map[int][]byte{1: le64(9)}, values: map[int]int64{1: 1}, nulls: map[int]int64{1: 0}}
	del := func(f forgedFile) []forgedFile {
		f.rows, f.sequence = 1, 2
		return []forgedFile{one, f}
	}
	with := func(change func(*forgedFile)) []forgedFile {
		f := one
		change(&f)
		return []forgedFile{f}
	}
	for _, c := range []struct {
		files []forgedFile
		kind  errs.Kind
		text  string
	}{
		{with(func(f *forgedFile) { f.format = iceberg.OrcFile }), errs.Unsupported, "data files of format ORC"},
		{with(func(f *forgedFile) { f.format = iceberg.AvroFile }), errs.Unsupported, "data files of format AVRO"},
		{with(func(f *forgedFile) { f.encrypted = true }), errs.Unsupported, "the file is encrypted"},
		{del(forgedFile{path: "d.orc", content: iceberg.EntryContentPosDeletes, format: iceberg.OrcFile}), errs.Unsupported, "delete files of format ORC"},
		{del(forgedFile{path: "d.parquet", content: iceberg.EntryContentEqDeletes, equality: []int{99}}), errs.NotFound, "d.parquet"},
		{append(del(forgedFile{path: "d1.puffin", content: iceberg.EntryContentPosDeletes, format: iceberg.PuffinFile, referenced: "a.parquet", offset: 4, length: 40}),
			forgedFile{path: "d2.puffin", rows: 1, sequence: 2, content: iceberg.EntryContentPosDeletes, format: iceberg.PuffinFile, referenced: "a.parquet", offset: 4, length: 40}),
			errs.Corrupt, "two deletion vectors are live for one data file"},
		{del(forgedFile{path: "d1.puffin", content: iceberg.EntryContentPosDeletes, format: iceberg.PuffinFile, referenced: "a.parquet", offset: 4, length: 40}), errs.NotFound, "d1.puffin"},
	} {
		tbl := forgery{version: 3, schemas: []*iceberg.Schema{idOnly}, files: c.files}.mount3(t)
		_, err := tbl.Plan(t.Context(), lake.Ref{}, nil)
		if !errs.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("got %v (%v), want %v naming %q", err, errs.KindOf(err), c.kind, c.text)
		}
		// A plan that does not need the file does not complain.
		if _, err := tbl.Plan(t.Context(), lake.Ref{}, predicate.Compare{Column: "id", Op: predicate.Gt, Value: int64(100)}); err != nil && !errs.Is(err, errs.Corrupt) {
			t.Errorf("ruled out, %s still gave %v", c.text, err)
		}
	}
}

// mount3 mounts a forged V3 table: its metadata needs next-row-id, which repair supplies, as for DuckDB's.
func (f forgery) mount3(t testing.TB) *lake.Table { return f.mount(t, objstore.NewMemory("t")) }

// TestMissingDataFile: a plan is made from metadata alone; reading names the file that is gone.
func TestMissingDataFile(t *testing.T) {
	tbl := manyFiles(3).mount(t, objstore.NewMemory("t"))
	plan, err := tbl.Plan(t.Context(), lake.Ref{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = tbl.ReadFile(t.Context(), &plan.Files[0], nil, lake.Ref{}, true)
	if !errs.Is(err, errs.NotFound) || !strings.Contains(err.Error(), plan.Files[0].Path) {
		t.Errorf("got %v", err)
	}
}

// TestGeneratedBounds: DuckDB's collection of bounds rules every file out that it should.
func TestGeneratedBounds(t *testing.T) {
	eachForeign(t, func(store objstore.Reader, f foreignTable) {
		if !strings.HasSuffix(f.Table, "generated_bounds") {
			return
		}
		tbl, err := lake.Mount(t.Context(), docs, store, lake.MountOptions{Metadata: f.Table + "/" + f.Metadata,
			Prefixes: map[string]string{"s3://fake-bucket": f.Table, "data/persistent": "duckdb-iceberg"}})
		if err != nil {
			t.Fatal(err)
		}
		all, err := tbl.Plan(t.Context(), lake.Ref{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		none, err := tbl.Plan(t.Context(), lake.Ref{}, predicate.And{
			predicate.Compare{Column: "block_number", Op: predicate.Ge, Value: int64(5_000_000)}, predicate.Compare{Column: "block_number", Op: predicate.Le, Value: int64(5_000_100)}})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d files, %d after pruning", len(all.Files), len(none.Files))
		if len(all.Files) < 100 || len(none.Files) != 0 {
			t.Errorf("%d files, %d kept", len(all.Files), len(none.Files))
		}
	})
}

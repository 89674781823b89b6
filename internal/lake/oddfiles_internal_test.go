package lake

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake/avro"
	"github.com/overlakedb/overlake/internal/testenv"
)

// clean fails the test for an error that is not one an outside file may cause.
func clean(t testing.TB, name string, err error) {
	t.Helper()
	if err != nil && !errs.Is(err, errs.Corrupt) && !errs.Is(err, errs.Unsupported) {
		t.Errorf("%s: %v (%v)", name, err, errs.KindOf(err))
	}
}

// validDespite are documents that the collection calls invalid and a reader need not refuse, with the reason.
var validDespite = map[string]string{
	"TableMetadataV2MissingSortOrder.json":       "reading needs no sort order",
	"TableMetadataV2MissingLastPartitionId.json": "only writers need the last partition id",
}

// TestOddMetadata reads every table metadata document of the collection: valid ones parse, others are refused.
func TestOddMetadata(t *testing.T) {
	root := testenv.Shared(t, "data", "odd-files")
	read, refused := 0, 0
	for _, dir := range []string{"iceberg-java/table-metadata", "iceberg-go/table-metadata", "iceberg-rust/table_metadata", "iceberg-rust", "iceberg-java/view", "iceberg-rust/view_metadata"} {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.json"))
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, name := range files {
			base := filepath.Base(name)
			if dir == "iceberg-rust" && !strings.HasPrefix(base, "example_table_metadata") {
				continue
			}
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			meta, err := parseMetadata(base, data)
			clean(t, name, err)
			if err == nil {
				read++
			} else {
				refused++
			}
			valid := !strings.Contains(dir, "view")
			for _, word := range []string{"Missing", "Unsupported", "NotFound", "Invalid", "NoValid"} {
				valid = valid && !strings.Contains(base, word)
			}
			switch {
			case valid && err != nil:
				t.Errorf("%s: %v", name, err)
			case !valid && err == nil && validDespite[base] == "":
				t.Errorf("%s was accepted as version %d", name, meta.Version())
			case err != nil && !strings.Contains(err.Error(), base):
				t.Errorf("%s: the error does not name the file: %v", name, err)
			}
			for cut := 0; cut < len(data); cut += 1 + len(data)/50 {
				if _, err := parseMetadata(base, data[:cut]); err == nil {
					t.Errorf("%s cut to %d bytes was accepted", name, cut)
				}
			}
		}
	}
	t.Logf("%d documents read, %d refused", read, refused)
	bad := filepath.Join(testenv.Shared(t, "data", "iceberg-tables"), "duckdb-iceberg", "bad_data", "bad_iceberg_metadata.json")
	data, err := os.ReadFile(bad)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parseMetadata(bad, data); !errs.Is(err, errs.Corrupt) {
		t.Errorf("%s gave %v", bad, err)
	}
}

// avroFiles calls each for every Avro file of the shared collections.
func avroFiles(t testing.TB, each func(name string, data []byte)) {
	for _, root := range []string{testenv.Shared(t, "data", "odd-files"), testenv.Shared(t, "data", "iceberg-tables")} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".avro") {
				data, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				each(path, data)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestOddAvro reads every Avro file there is as a manifest and as a list, whole and damaged, and skips its rows
// generically: rows or an error, never a panic.
func TestOddAvro(t *testing.T) {
	files, whole, lists := 0, 0, 0
	avroFiles(t, func(name string, data []byte) {
		files++
		_, err := avro.Read(name, data, func(c *avro.Cursor, row *avro.Type) error { c.Skip(row); return nil })
		clean(t, name, err)
		switch {
		case err == nil:
			whole++
		case !errs.Is(err, errs.Unsupported) && !strings.Contains(name, "encrypted"):
			t.Errorf("%s cannot be skipped: %v", name, err)
		}
		if refs, err := readManifestList(name, data); err == nil && len(refs) > 0 {
			lists++
		}
		for i := 0; i < len(data); i += 1 + len(data)/12 {
			bent := bytes.Clone(data)
			bent[i] ^= 1 << (i % 8)
			for _, d := range [][]byte{data[:i], bent} {
				_, err := readManifestList(name, d)
				clean(t, name, err)
				_, err = readManifest(&manifestRef{path: name}, d, anyMemory())
				clean(t, name, err)
			}
		}
	})
	t.Logf("%d Avro files, %d read to the end, %d manifest lists", files, whole, lists)
	if whole < files-3 || lists < 100 {
		t.Error("too few were read")
	}
}

// TestGoldenVectors decodes the reference implementation's deletion vectors.
func TestGoldenVectors(t *testing.T) {
	dir := testenv.Shared(t, "data", "odd-files", "iceberg-java", "deletes")
	span := func(list []int64, lo, hi int64) []int64 {
		for ; lo <= hi; lo++ {
			list = append(list, lo)
		}
		return list
	}
	all := []int64{5, 7}
	all = span(all, 65537, 66535)
	all = span(all, 131073, 196606)
	all = append(all, 4294967306, 4294967316)
	all = span(all, 4295032842, 4295033331)
	all = span(all, 4295098369, 4295163902)
	for name, want := range map[string][]int64{
		"empty-position-index.bin":                    nil,
		"small-alternating-values-position-index.bin": {1, 3, 5, 7, 9},
		"small-and-large-values-position-index.bin":   {100, 101, 2147483747, 2147483748},
		"all-container-types-position-index.bin":      all,
	} {
		blob, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		b, err := decodeVector(blob, int64(len(want)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := slices.Collect(b.All()); !slices.Equal(got, want) {
			t.Errorf("%s: %d positions, want %d", name, len(got), len(want))
		}
		if _, err := decodeVector(blob, int64(len(want))+1); err == nil {
			t.Errorf("%s: a wrong count of rows was accepted", name)
		}
		for i := range blob {
			if i > 64 && i < len(blob)-64 {
				continue
			}
			bent := bytes.Clone(blob)
			bent[i] ^= 0x40
			if _, err := decodeVector(bent, int64(len(want))); err == nil {
				t.Errorf("%s: a flipped bit in byte %d was accepted", name, i)
			}
			if _, err := decodeVector(blob[:i], int64(len(want))); err == nil {
				t.Errorf("%s cut to %d bytes was accepted", name, i)
			}
		}
	}
}

// forgedManifest is a small manifest, and its list, for seeds that need no shared data.
func forgedManifest(t testing.TB, version int) (manifest, list []byte) {
	sc := iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64})
	spec := iceberg.NewPartitionSpecID(0, iceberg.PartitionField{SourceIDs: []int{1}, FieldID: 1000, Name: "p", Transform: iceberg.IdentityTransform{}})
	b, err := iceberg.NewDataFileBuilder(spec, iceberg.EntryContentData, "s3://b/t/a.parquet", iceberg.ParquetFile, map[int]any{1000: int64(4)}, nil, nil, 10, 100)
	if err != nil {
		t.Fatal(err)
	}
	b.LowerBoundValues(map[int][]byte{1: make([]byte, 8)}).NullValueCounts(map[int]int64{1: 0})
	id, seq := int64(3), int64(1)
	var m, l bytes.Buffer
	f, err := iceberg.WriteManifest("s3://b/t/m.avro", &m, version, spec, sc, id, []iceberg.ManifestEntry{iceberg.NewManifestEntry(iceberg.EntryStatusADDED, &id, nil, nil, b.Build())})
	if err != nil {
		t.Fatal(err)
	}
	if err := iceberg.WriteManifestList(version, &l, id, nil, &seq, 0, []iceberg.ManifestFile{f}); err != nil {
		t.Fatal(err)
	}
	return m.Bytes(), l.Bytes()
}

// TestStrippedManifests: manifests lose their Avro metadata in some tools (avro-tools, ClickHouse, BigQuery); what is
// read must not change.
func TestStrippedManifests(t *testing.T) {
	for version := 1; version <= 3; version++ {
		manifest, list := forgedManifest(t, version)
		refs, err := readManifestList("l", list)
		if err != nil || len(refs) != 1 || refs[0].path != "s3://b/t/m.avro" || refs[0].files != 1 || refs[0].deletes {
			t.Fatalf("version %d: %+v, %v", version, refs, err)
		}
		want, err := readManifest(&refs[0], manifest, anyMemory())
		if err != nil {
			t.Fatal(err)
		}
		got, err := readManifest(&refs[0], strip(t, manifest), anyMemory())
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("version %d: stripped, it reads %+v (%v), want %+v", version, got, err, want)
		}
		e := want[0]
		if e.rows != 10 || e.sequence != int64(min(version-1, 1)) || e.bounds(1) == nil || e.key != "/t/a.parquet" || e.scope != "0|4" {
			t.Errorf("version %d: %+v", version, e)
		}
	}
}

// strip takes every key but the schema and the codec, and all field ids, out of an Avro file.
func strip(t testing.TB, data []byte) []byte {
	rest := data[4:]
	long := func() int64 {
		v, n := binary.Varint(rest)
		if n <= 0 {
			t.Fatal("the header is cut off")
		}
		rest = rest[n:]
		return v
	}
	text := func() string {
		n := long()
		s := string(rest[:n])
		rest = rest[n:]
		return s
	}
	meta := map[string]string{}
	for n := long(); n > 0; n = long() {
		for ; n > 0; n-- {
			k := text()
			meta[k] = text()
		}
	}
	var schema any
	if err := json.Unmarshal([]byte(meta["avro.schema"]), &schema); err != nil {
		t.Fatal(err)
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if v["type"] != nil && !strings.HasPrefix(fmt.Sprint(v["name"]), "k1") { // partition ids stay: nothing else names them
				if n, _ := v["name"].(string); manifestIDs[n] > 0 || n == "status" {
					delete(v, "field-id")
				}
			}
			for _, x := range v {
				walk(x)
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		}
	}
	walk(schema)
	stripped, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	out := binary.AppendVarint([]byte("Obj\x01"), 2)
	for _, s := range []string{"avro.schema", string(stripped), "avro.codec", meta["avro.codec"]} {
		out = append(binary.AppendVarint(out, int64(len(s))), s...)
	}
	return append(binary.AppendVarint(out, 0), rest...)
}

func FuzzManifest(f *testing.F) {
	for version := 1; version <= 3; version++ {
		m, l := forgedManifest(f, version)
		f.Add(m)
		f.Add(l)
		f.Add(strip(f, m))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, deletes := range []bool{false, true} {
			_, err := readManifest(&manifestRef{path: "m", sequence: 3, deletes: deletes, specID: -1}, data, anyMemory())
			clean(t, "manifest", err)
		}
		_, err := readManifestList("l", data)
		clean(t, "list", err)
	})
}

func FuzzDeletionVector(f *testing.F) {
	f.Add([]byte{0, 0, 0, 16, 0xd1, 0xd3, 0x39, 0x64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, int64(0))
	f.Fuzz(func(t *testing.T, blob []byte, rows int64) {
		if b, err := decodeVector(blob, rows); err == nil && rows >= 0 && b.Len() != rows {
			t.Errorf("%d positions, want %d", b.Len(), rows)
		}
	})
}

func FuzzMetadata(f *testing.F) {
	f.Add([]byte(`{"format-version":2,"table-uuid":"9c12d441-03fe-4693-9a96-a0705ddf69c1","location":"s3://b/t","last-sequence-number":1,"last-updated-ms":1,
		"last-column-id":1,"schemas":[{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"a","required":false,"type":"int"}]}],"current-schema-id":0,
		"partition-specs":[{"spec-id":0,"fields":[]}],"default-spec-id":0,"last-partition-id":999,"sort-orders":[{"order-id":0,"fields":[]}],"default-sort-order-id":0,
		"snapshots":[{"snapshot-id":9876543210123456789,"sequence-number":1,"timestamp-ms":1,"manifest-list":"m"}],"current-snapshot-id":9876543210123456789}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		meta, err := parseMetadata("m", data)
		clean(t, "metadata", err)
		if err == nil {
			tbl := &Table{meta: meta}
			tbl.Schema()
			tbl.Snapshots()
		}
	})
}

// TestSnapshotIDsBeyondInt64: DuckDB's hand-made tables have them; the id is the signed number of the same bits.
func TestSnapshotIDsBeyondInt64(t *testing.T) {
	doc := `{"format-version":3,"table-uuid":"9c12d441-03fe-4693-9a96-a0705ddf69c1","location":"s3://b/t","last-sequence-number":1,"last-updated-ms":1,
		"last-column-id":1,"schemas":[{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"a","required":false,"type":"int"}]}],"current-schema-id":0,
		"partition-specs":[{"spec-id":0,"fields":[]}],"default-spec-id":0,"last-partition-id":999,"sort-orders":[{"order-id":0,"fields":[]}],"default-sort-order-id":0,
		"snapshots":[{"snapshot-id":9876543210123456789,"sequence-number":1,"timestamp-ms":1,"manifest-list":"m","first-row-id":5,"added-rows":7}],
		"current-snapshot-id":9876543210123456789}`
	meta, err := parseMetadata("m", []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	big := uint64(9876543210123456789)
	if s := meta.CurrentSnapshot(); s == nil || s.SnapshotID != int64(big) {
		t.Errorf("the current snapshot is %v", s)
	}
	if meta.NextRowID() != 12 {
		t.Errorf("next-row-id was made %d, want 12", meta.NextRowID())
	}
	if _, err := parseMetadata("m", []byte(strings.Replace(doc, `"format-version":3`, `"format-version":4`, 1))); !errs.Is(err, errs.Unsupported) {
		t.Errorf("version 4 gave %v", err)
	}
}

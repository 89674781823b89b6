package lake_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/apache/iceberg-go"

	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
)

// forgedFile is one live entry of a forged manifest.
type forgedFile struct {
	path       string
	content    iceberg.ManifestEntryContent
	format     iceberg.FileFormat // "" is Parquet
	rows, size int64
	sequence   int64
	spec       int
	partition  map[int]any
	lower      map[int][]byte
	upper      map[int][]byte
	values     map[int]int64
	nulls      map[int]int64
	nans       map[int]int64
	equality   []int
	referenced string
	offset     int64
	length     int64
	encrypted  bool
}

// forgery is a table made of metadata alone: what planning sees of another engine's work. Manifests are written by
// iceberg-go, so they are what other engines write too.
type forgery struct {
	version    int
	schemas    []*iceberg.Schema // the last is the current one
	specs      []iceberg.PartitionSpec
	files      []forgedFile
	perFile    bool // a manifest for every file
	properties map[string]string
}

// mount writes the forged metadata into the store and opens the table.
func (f forgery) mount(t testing.TB, store objstore.Store) *lake.Table {
	t.Helper()
	if f.version == 0 {
		f.version = 2
	}
	if len(f.specs) == 0 {
		f.specs = []iceberg.PartitionSpec{iceberg.NewPartitionSpecID(0)}
	}
	put := func(name string, data []byte) {
		if _, err := store.Put(t.Context(), name, data, objstore.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	const snapshot, sequence = int64(7), int64(1000)
	schema := f.schemas[len(f.schemas)-1]
	groups := map[string][]forgedFile{}
	var order []string
	for i, x := range f.files {
		key := fmt.Sprintf("%d-%v", x.spec, x.content == iceberg.EntryContentData)
		if f.perFile {
			key += fmt.Sprint("-", i)
		}
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], x)
	}
	var manifests []iceberg.ManifestFile
	for _, key := range order {
		list := groups[key]
		content := iceberg.ManifestContentData
		if list[0].content != iceberg.EntryContentData {
			content = iceberg.ManifestContentDeletes
		}
		var spec iceberg.PartitionSpec
		for _, s := range f.specs {
			if s.ID() == list[0].spec {
				spec = s
			}
		}
		var buf bytes.Buffer
		w, err := iceberg.NewManifestWriter(f.version, &buf, spec, schema, snapshot, iceberg.WithManifestWriterContent(content))
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range list {
			seq := x.sequence
			id := snapshot
			if err := w.Existing(iceberg.NewManifestEntry(iceberg.EntryStatusEXISTING, &id, &seq, &seq, x.build(t, spec))); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		name := "metadata/" + key + "-m0.avro"
		put(name, buf.Bytes())
		m, err := w.ToManifestFile("s3://forged/t/"+name, int64(buf.Len()), iceberg.WithManifestFileContent(content))
		if err != nil {
			t.Fatal(err)
		}
		manifests = append(manifests, m)
	}
	var buf bytes.Buffer
	seq := sequence
	if err := iceberg.WriteManifestList(f.version, &buf, snapshot, nil, &seq, 0, manifests); err != nil {
		t.Fatal(err)
	}
	put("metadata/snap-7.avro", buf.Bytes())
	doc := map[string]any{
		"format-version": f.version, "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1", "location": "s3://forged/t",
		"last-sequence-number": sequence, "last-updated-ms": 1, "last-column-id": 10000, "schemas": f.schemas, "current-schema-id": schema.ID,
		"partition-specs": f.specs, "default-spec-id": f.specs[len(f.specs)-1].ID(), "last-partition-id": 2000,
		"sort-orders": []any{map[string]any{"order-id": 0, "fields": []any{}}}, "default-sort-order-id": 0, "properties": f.properties,
		"current-snapshot-id": snapshot, "snapshots": []any{map[string]any{"snapshot-id": snapshot, "sequence-number": sequence, "timestamp-ms": 1,
			"schema-id": schema.ID, "manifest-list": "s3://forged/t/metadata/snap-7.avro", "summary": map[string]string{"operation": "append"}}},
		"snapshot-log": []any{map[string]any{"snapshot-id": snapshot, "timestamp-ms": 1}},
	}
	if f.version == 1 {
		doc["schema"] = schema
		doc["partition-spec"] = []any{}
		delete(doc, "last-sequence-number")
		delete(doc["snapshots"].([]any)[0].(map[string]any), "sequence-number")
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	put("metadata/v1.metadata.json", raw)
	tbl, err := lake.Mount(t.Context(), docs, store, lake.MountOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return tbl
}

func (x forgedFile) build(t testing.TB, spec iceberg.PartitionSpec) iceberg.DataFile {
	t.Helper()
	format := x.format
	if format == "" {
		format = iceberg.ParquetFile
	}
	if x.size == 0 {
		x.size = 1000
	}
	b, err := iceberg.NewDataFileBuilder(spec, x.content, "s3://forged/t/"+x.path, format, x.partition, nil, nil, x.rows, x.size)
	if err != nil {
		t.Fatal(err)
	}
	b.LowerBoundValues(x.lower).UpperBoundValues(x.upper).ValueCounts(x.values).NullValueCounts(x.nulls).NaNValueCounts(x.nans)
	if x.equality != nil {
		b.EqualityFieldIDs(x.equality)
	}
	if x.referenced != "" {
		b.ReferencedDataFile("s3://forged/t/" + x.referenced)
	}
	if x.length > 0 {
		b.ContentOffset(x.offset).ContentSizeInBytes(x.length)
	}
	if x.encrypted {
		b.KeyMetadata([]byte{1})
	}
	return b.Build()
}

// counting counts how often a store is asked.
type counting struct {
	objstore.Store
	opens atomic.Int64
}

func (c *counting) Open(ctx context.Context, name string) (objstore.Object, error) {
	c.opens.Add(1)
	return c.Store.Open(ctx, name)
}

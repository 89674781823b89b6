package lake_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table/dv"

	"github.com/overlakedb/overlake/internal/datafile"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
)

func fieldID(id int) arrow.Metadata {
	return arrow.MetadataFrom(map[string]string{lake.FieldIDKey: strconv.Itoa(id)})
}

// putParquet writes a data file from JSON rows.
func putParquet(t testing.TB, store objstore.Store, name string, rows string, fields ...arrow.Field) {
	t.Helper()
	sc := arrow.NewSchema(fields, nil)
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, sc, strings.NewReader("["+rows+"]"))
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Release()
	var buf bytes.Buffer
	w, err := datafile.NewWriter(&buf, sc, datafile.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(rec); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Put(t.Context(), name, buf.Bytes(), objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
}

var positionFields = []arrow.Field{
	{Name: "file_path", Type: arrow.BinaryTypes.String, Nullable: true, Metadata: fieldID(2147483546)},
	{Name: "pos", Type: arrow.PrimitiveTypes.Int64, Nullable: true, Metadata: fieldID(2147483545)},
}

func intField(id int, name string) arrow.Field {
	return arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Int32, Nullable: true, Metadata: fieldID(id)}
}

func textField(id int, name string) arrow.Field {
	return arrow.Field{Name: name, Type: arrow.BinaryTypes.String, Nullable: true, Metadata: fieldID(id)}
}

// deleteWorld is a store with one data file, "a.parquet" of sequence 5: id 0 to 4, s "s0" to "s3" and NULL, and its table:
// id has grown from int to long, s was called t when the file was written, gone was dropped since, late was added with
// the default 7.
type deleteWorld struct {
	store objstore.Store
	forgery
}

const never = "an error"

func newDeleteWorld(t testing.TB) *deleteWorld {
	w := &deleteWorld{store: objstore.NewMemory("t")}
	old := iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int32},
		iceberg.NestedField{ID: 2, Name: "t", Type: iceberg.PrimitiveTypes.String}, iceberg.NestedField{ID: 3, Name: "gone", Type: iceberg.PrimitiveTypes.Int32},
		iceberg.NestedField{ID: 5, Name: "f", Type: iceberg.PrimitiveTypes.Float64})
	now := iceberg.NewSchema(1, iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64},
		iceberg.NestedField{ID: 2, Name: "s", Type: iceberg.PrimitiveTypes.String},
		iceberg.NestedField{ID: 4, Name: "late", Type: iceberg.PrimitiveTypes.Int32, InitialDefault: 7, WriteDefault: 7},
		iceberg.NestedField{ID: 5, Name: "f", Type: iceberg.PrimitiveTypes.Float64},
		iceberg.NestedField{ID: 6, Name: "part", Type: iceberg.PrimitiveTypes.String})
	w.version = 3
	w.schemas = []*iceberg.Schema{old, now}
	w.specs = []iceberg.PartitionSpec{iceberg.NewPartitionSpecID(0),
		iceberg.NewPartitionSpecID(1, iceberg.PartitionField{SourceIDs: []int{6}, FieldID: 1000, Name: "part", Transform: iceberg.IdentityTransform{}})}
	putParquet(t, w.store, "a.parquet", `{"id":0,"t":"s0","gone":0,"f":0},{"id":1,"t":"s1","gone":10,"f":1.5},{"id":2,"t":"s2","gone":20,"f":null},
		{"id":3,"t":"s3","gone":30,"f":3},{"id":4,"t":null,"gone":40,"f":4}`,
		intField(1, "id"), textField(2, "t"), intField(3, "gone"), arrow.Field{Name: "f", Type: arrow.PrimitiveTypes.Float64, Nullable: true, Metadata: fieldID(5)})
	w.files = []forgedFile{{path: "a.parquet", rows: 5, sequence: 5}}
	return w
}

func (w *deleteWorld) partitioned(value any) *deleteWorld {
	w.files[0].spec, w.files[0].partition = 1, map[int]any{1000: value}
	return w
}

func (w *deleteWorld) positions(t testing.TB, sequence int64, rows string, change ...func(*forgedFile)) *deleteWorld {
	f := forgedFile{path: fmt.Sprintf("p%d.parquet", len(w.files)), content: iceberg.EntryContentPosDeletes, rows: 1, sequence: sequence}
	for _, c := range change {
		c(&f)
	}
	putParquet(t, w.store, f.path, rows, positionFields...)
	w.files = append(w.files, f)
	return w
}

func (w *deleteWorld) equal(t testing.TB, sequence int64, ids []int, rows string, fields []arrow.Field, change ...func(*forgedFile)) *deleteWorld {
	f := forgedFile{path: fmt.Sprintf("e%d.parquet", len(w.files)), content: iceberg.EntryContentEqDeletes, rows: 1, sequence: sequence, equality: ids}
	for _, c := range change {
		c(&f)
	}
	putParquet(t, w.store, f.path, rows, fields...)
	w.files = append(w.files, f)
	return w
}

func (w *deleteWorld) vector(t testing.TB, sequence int64, change func([]byte) []byte, positions ...uint64) *deleteWorld {
	bits := dv.NewRoaringPositionBitmap()
	for _, p := range positions {
		bits.Set(p)
	}
	blob, err := dv.SerializeDV(bits)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		blob = change(blob)
	}
	data := append([]byte("PFA1"), blob...)
	data = append(data, "PFA1{\"blobs\":[]}\x0c\x00\x00\x00\x00\x00\x00\x00PFA1"...)
	name := fmt.Sprintf("v%d.puffin", len(w.files))
	if _, err := w.store.Put(t.Context(), name, data, objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
	w.files = append(w.files, forgedFile{path: name, content: iceberg.EntryContentPosDeletes, format: iceberg.PuffinFile, rows: int64(len(positions)),
		sequence: sequence, referenced: "a.parquet", offset: 4, length: int64(len(blob))})
	return w
}

// TestDeleteRules goes through the specification's rules of scan planning.
func TestDeleteRules(t *testing.T) {
	in := func(value any) func(*forgedFile) {
		return func(f *forgedFile) { f.spec, f.partition = 1, map[int]any{1000: value} }
	}
	idField := []arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true, Metadata: fieldID(1)}}
	floatField := []arrow.Field{{Name: "f", Type: arrow.PrimitiveTypes.Float64, Nullable: true, Metadata: fieldID(5)}}
	at := func(pos ...int) string {
		var rows []string
		for _, p := range pos {
			rows = append(rows, fmt.Sprintf(`{"file_path":"s3://forged/t/a.parquet","pos":%d}`, p))
		}
		return strings.Join(rows, ",")
	}
	for _, c := range []struct {
		name  string
		world func(w *deleteWorld) *deleteWorld
		left  string
	}{
		{"none", func(w *deleteWorld) *deleteWorld { return w }, "0 1 2 3 4"},
		{"positions of the same commit", func(w *deleteWorld) *deleteWorld { return w.positions(t, 5, at(1, 3)) }, "0 2 4"},
		{"positions older than the file", func(w *deleteWorld) *deleteWorld { return w.positions(t, 4, at(1, 3)) }, "0 1 2 3 4"},
		{"positions in several files", func(w *deleteWorld) *deleteWorld { return w.positions(t, 6, at(1)).positions(t, 7, at(1, 4)) }, "0 2 3"},
		{"another scheme and host", func(w *deleteWorld) *deleteWorld {
			return w.positions(t, 6, `{"file_path":"hdfs://host:1/t/a.parquet","pos":0},{"file_path":"/t/a.parquet","pos":1},{"file_path":"file:/t/a.parquet","pos":2}`)
		}, "3 4"},
		{"another file", func(w *deleteWorld) *deleteWorld {
			return w.positions(t, 6, `{"file_path":"s3://forged/t/b.parquet","pos":0}`)
		}, "0 1 2 3 4"},
		{"positions behind the last row", func(w *deleteWorld) *deleteWorld { return w.positions(t, 6, at(2, 5, 1000000)) }, "0 1 3 4"},
		{"positions of the partition", func(w *deleteWorld) *deleteWorld { return w.partitioned("x").positions(t, 6, at(0), in("x")) }, "1 2 3 4"},
		{"positions of another partition", func(w *deleteWorld) *deleteWorld { return w.partitioned("x").positions(t, 6, at(0), in("y")) }, "0 1 2 3 4"},
		{"positions of the NULL partition", func(w *deleteWorld) *deleteWorld { return w.partitioned(nil).positions(t, 6, at(0), in(nil)) }, "1 2 3 4"},
		{"file-scoped positions", func(w *deleteWorld) *deleteWorld {
			return w.partitioned("x").positions(t, 6, at(0), func(f *forgedFile) { f.referenced = "a.parquet" })
		}, "1 2 3 4"},
		{"NULL position", func(w *deleteWorld) *deleteWorld {
			return w.positions(t, 6, `{"file_path":"s3://forged/t/a.parquet","pos":null}`)
		}, never},
		{"NULL path", func(w *deleteWorld) *deleteWorld { return w.positions(t, 6, `{"file_path":null,"pos":1}`) }, never},
		{"negative position", func(w *deleteWorld) *deleteWorld { return w.positions(t, 6, at(-1)) }, never},

		{"equality, later", func(w *deleteWorld) *deleteWorld {
			return w.equal(t, 6, []int{1}, `{"id":1},{"id":9},{"id":null}`, idField)
		}, "0 2 3 4"},
		{"equality of the same commit", func(w *deleteWorld) *deleteWorld { return w.equal(t, 5, []int{1}, `{"id":1}`, idField) }, "0 1 2 3 4"},
		{"equality written before a promotion", func(w *deleteWorld) *deleteWorld {
			return w.equal(t, 6, []int{1}, `{"id":1}`, []arrow.Field{intField(1, "id")})
		}, "0 2 3 4"},
		{"equality on NULL and a renamed column", func(w *deleteWorld) *deleteWorld {
			return w.equal(t, 6, []int{2}, `{"whatever":null},{"whatever":"s0"}`, []arrow.Field{textField(2, "whatever")})
		}, "1 2 3"},
		{"equality on a dropped column", func(w *deleteWorld) *deleteWorld {
			return w.equal(t, 6, []int{3}, `{"gone":20}`, []arrow.Field{intField(3, "gone")})
		}, "0 1 3 4"},
		{"equality on a column the file lacks, by its default", func(w *deleteWorld) *deleteWorld {
			return w.equal(t, 6, []int{1, 4}, `{"id":1,"late":7},{"id":2,"late":8},{"id":3,"late":null}`, []arrow.Field{intField(1, "id"), intField(4, "late")})
		}, "0 2 3 4"},
		{"equality on a column only the partition knows", func(w *deleteWorld) *deleteWorld {
			return w.partitioned("x").equal(t, 6, []int{1, 6}, `{"id":1,"part":"x"},{"id":2,"part":"y"}`, []arrow.Field{intField(1, "id"), textField(6, "part")}, in("x"))
		}, "0 2 3 4"},
		{"equality with more columns than ids", func(w *deleteWorld) *deleteWorld {
			return w.equal(t, 6, []int{1}, `{"id":1,"t":"other"}`, []arrow.Field{intField(1, "id"), textField(2, "t")})
		}, "0 2 3 4"},
		{"equality everywhere", func(w *deleteWorld) *deleteWorld {
			return w.partitioned("x").equal(t, 6, []int{1}, `{"id":1}`, idField)
		}, "0 2 3 4"},
		{"equality of another partition", func(w *deleteWorld) *deleteWorld {
			return w.partitioned("x").equal(t, 6, []int{1}, `{"id":1}`, idField, in("y"))
		}, "0 1 2 3 4"},
		{"equality by several id sets", func(w *deleteWorld) *deleteWorld {
			return w.equal(t, 6, []int{1}, `{"id":0}`, idField).equal(t, 7, []int{2}, `{"t":"s1"}`, []arrow.Field{textField(2, "t")}).equal(t, 8, []int{1}, `{"id":3}`, idField).
				equal(t, 3, []int{1}, `{"id":4}`, idField)
		}, "2 4"},
		{"equality on floats", func(w *deleteWorld) *deleteWorld { return w.equal(t, 6, []int{5}, `{"f":1.5},{"f":null}`, floatField) }, "0 3 4"},
		{"equality on an unknown id", func(w *deleteWorld) *deleteWorld { return w.equal(t, 6, []int{77}, `{"id":1}`, idField) }, never},

		{"a vector", func(w *deleteWorld) *deleteWorld { return w.vector(t, 6, nil, 0, 4) }, "1 2 3"},
		{"a vector of the same commit", func(w *deleteWorld) *deleteWorld { return w.vector(t, 5, nil, 0, 4) }, "1 2 3"},
		{"a vector replaces positions, not equality", func(w *deleteWorld) *deleteWorld {
			return w.positions(t, 6, at(1)).vector(t, 7, nil, 0).equal(t, 7, []int{1}, `{"id":4}`, idField)
		}, "1 2 3"},
		{"two vectors", func(w *deleteWorld) *deleteWorld { return w.vector(t, 6, nil, 0).vector(t, 7, nil, 1) }, never},
		{"a vector with a flipped bit", func(w *deleteWorld) *deleteWorld {
			return w.vector(t, 6, func(b []byte) []byte { b[len(b)-6] ^= 1; return b }, 0, 4)
		}, never},
		{"a vector with a wrong checksum", func(w *deleteWorld) *deleteWorld {
			return w.vector(t, 6, func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, 0, 4)
		}, never},
		{"a vector with a wrong magic number", func(w *deleteWorld) *deleteWorld {
			return w.vector(t, 6, func(b []byte) []byte {
				b[4] ^= 1
				binary.BigEndian.PutUint32(b[len(b)-4:], crc32.ChecksumIEEE(b[4:len(b)-4]))
				return b
			}, 0, 4)
		}, never},
		{"a vector with a wrong length", func(w *deleteWorld) *deleteWorld {
			return w.vector(t, 6, func(b []byte) []byte { b[3]++; return b }, 0, 4)
		}, never},
		{"a vector of more rows than the file", func(w *deleteWorld) *deleteWorld { return w.vector(t, 6, nil, 0, 1, 2, 3, 4, 5, 6) }, never},
	} {
		w := c.world(newDeleteWorld(t))
		store := &counting{Store: w.store}
		w.store = store
		tbl := w.mount(t, store)
		plan, err := tbl.Plan(t.Context(), lake.Ref{}, nil)
		if c.left == never {
			if !errs.Is(err, errs.Corrupt) {
				t.Errorf("%s: got %v, want Corrupt", c.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		r, err := tbl.Read(t.Context(), lake.Ref{}, []string{"id"})
		if err != nil {
			t.Fatal(err)
		}
		var left []string
		for r.Next() {
			for _, v := range r.RecordBatch().Column(0).(*array.Int64).Int64Values() {
				left = append(left, fmt.Sprint(v))
			}
		}
		if got := strings.Join(left, " "); got != c.left || r.Err() != nil {
			t.Errorf("%s: left %s, want %s (%v)", c.name, got, c.left, r.Err())
		}
		r.Release()
		if int(plan.Deleted) != 5-len(left) || plan.Deleted != plan.Files[0].Deletes.Len() {
			t.Errorf("%s: the plan counts %d deleted rows", c.name, plan.Deleted)
		}
		before := store.opens.Load()
		if _, err := tbl.Plan(t.Context(), lake.Ref{}, nil); err != nil || store.opens.Load() != before {
			t.Errorf("%s: the second plan opened %d objects (%v)", c.name, store.opens.Load()-before, err)
		}
	}
}

// TestNaNKeys: NaN equals NaN as a key, whatever its bits; JSON cannot spell it, so the files are built by hand.
func TestNaNKeys(t *testing.T) {
	field := arrow.Field{Name: "f", Type: arrow.PrimitiveTypes.Float64, Nullable: true, Metadata: fieldID(5)}
	put := func(w *deleteWorld, name string, fields []arrow.Field, fill func(b *array.RecordBuilder)) {
		sc := arrow.NewSchema(fields, nil)
		b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
		defer b.Release()
		fill(b)
		rec := b.NewRecordBatch()
		defer rec.Release()
		var buf bytes.Buffer
		dw, err := datafile.NewWriter(&buf, sc, datafile.WriterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := dw.Write(rec); err != nil {
			t.Fatal(err)
		}
		if _, err := dw.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := w.store.Put(t.Context(), name, buf.Bytes(), objstore.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	w := newDeleteWorld(t)
	put(w, "a.parquet", []arrow.Field{intField(1, "id"), field}, func(b *array.RecordBuilder) {
		b.Field(0).(*array.Int32Builder).AppendValues([]int32{0, 1, 2}, nil)
		b.Field(1).(*array.Float64Builder).AppendValues([]float64{1, math.NaN(), math.Float64frombits(0xfff8000000000001)}, nil)
	})
	w.files[0].rows = 3
	w.equal(t, 6, []int{5}, `{"f":99}`, []arrow.Field{field})
	put(w, w.files[1].path, []arrow.Field{field}, func(b *array.RecordBuilder) { b.Field(0).(*array.Float64Builder).Append(math.NaN()) })
	plan, err := w.mount(t, w.store).Plan(t.Context(), lake.Ref{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Collect(plan.Files[0].Deletes.All()); !slices.Equal(got, []int64{1, 2}) {
		t.Errorf("deleted %v", got)
	}
}

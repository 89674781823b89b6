package interop

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	theirs "github.com/apache/iceberg-go/puffin"

	"github.com/overlakedb/overlake/internal/codec"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/puffin"
)

// bundle is a Puffin file of ours, with what was put into it.
type bundle struct {
	file   []byte
	footer puffin.Footer
	data   [][]byte
}

func bundleOf(t *testing.T, packFooter bool, codecs ...codec.Codec) bundle {
	t.Helper()
	var out bytes.Buffer
	w, err := puffin.NewWriter(&out, puffin.WriterOptions{Properties: map[string]string{puffin.CreatedBy: "overlake <test> é"}, PackFooter: packFooter})
	if err != nil {
		t.Fatal(err)
	}
	var b bundle
	for i, c := range codecs {
		for _, n := range []int{0, 1, 1000, 400_000} {
			data := bytes.Repeat([]byte(fmt.Sprintf("blob %d of %d.", i, n)), n/10+1)[:n]
			_, err := w.Add(puffin.BlobSpec{Type: fmt.Sprintf("overlake-test%d-v1", i), Fields: []int32{1, 2147483645}, SnapshotID: -1,
				SequenceNumber: int64(n), Codec: c, Properties: map[string]string{"kind": "\"<&>\" \u2028 é"}}, data)
			if err != nil {
				t.Fatal(err)
			}
			b.data = append(b.data, data)
		}
	}
	if b.footer, err = w.Close(); err != nil {
		t.Fatal(err)
	}
	b.file = out.Bytes()
	return b
}

// TestPyIcebergReadsPuffin: PyIceberg knows no LZ4 and no packed footers.
func TestPyIcebergReadsPuffin(t *testing.T) {
	interpreter(t)
	bundles := []bundle{bundleOf(t, false), bundleOf(t, false, codec.None, codec.Zstd)}
	var paths []string
	for i, b := range bundles {
		paths = append(paths, filepath.Join(t.TempDir(), fmt.Sprintf("%d.puffin", i)))
		if err := os.WriteFile(paths[i], b.file, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var got []struct {
		Properties map[string]string
		Blobs      []struct {
			Meta struct {
				Type           string
				Fields         []int32
				SnapshotID     int64       `json:"snapshot-id"`
				SequenceNumber int64       `json:"sequence-number"`
				Offset         int64       `json:"offset"`
				Length         int64       `json:"length"`
				Codec          codec.Codec `json:"compression-codec"`
				Properties     map[string]string
			}
			Data string
		}
	}
	python(t, &got, "puffin.py", paths...)
	if len(got) != len(bundles) {
		t.Fatalf("%d answers about %d files", len(got), len(bundles))
	}
	for i, b := range bundles {
		if !reflect.DeepEqual(got[i].Properties, b.footer.Properties) || len(got[i].Blobs) != len(b.data) {
			t.Fatalf("PyIceberg sees %d blobs and %v, we wrote %d and %v", len(got[i].Blobs), got[i].Properties, len(b.data), b.footer.Properties)
		}
		for j, blob := range got[i].Blobs {
			if meta := puffin.Blob(blob.Meta); !reflect.DeepEqual(meta, b.footer.Blobs[j]) {
				t.Errorf("PyIceberg sees\n%+v\nwe wrote\n%+v", meta, b.footer.Blobs[j])
			}
			if blob.Data != hex.EncodeToString(b.data[j]) {
				t.Errorf("PyIceberg reads other bytes of blob %d", j)
			}
		}
	}
}

// TestIcebergGoReadsPuffin, and we read what it writes. It reads packed footers, and gives packed blobs out as they are stored.
func TestIcebergGoReadsPuffin(t *testing.T) {
	for _, packFooter := range []bool{false, true} {
		b := bundleOf(t, packFooter, codec.None, codec.LZ4, codec.Zstd)
		r, err := theirs.NewReader(bytes.NewReader(b.file))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(r.Properties(), b.footer.Properties) || len(r.Blobs()) != len(b.data) {
			t.Fatalf("iceberg-go sees %d blobs and %v", len(r.Blobs()), r.Properties())
		}
		for i, m := range r.Blobs() {
			meta := puffin.Blob{Type: string(m.Type), Fields: m.Fields, SnapshotID: m.SnapshotID, SequenceNumber: m.SequenceNumber,
				Offset: m.Offset, Length: m.Length, Properties: m.Properties}
			if m.CompressionCodec != nil {
				meta.Codec = codec.Codec(*m.CompressionCodec)
			}
			if !reflect.DeepEqual(meta, b.footer.Blobs[i]) {
				t.Errorf("iceberg-go sees\n%+v\nwe wrote\n%+v", meta, b.footer.Blobs[i])
			}
			if meta.Codec != codec.None {
				continue
			}
			got, err := r.ReadBlob(i)
			if err != nil || !bytes.Equal(got.Data, b.data[i]) {
				t.Errorf("iceberg-go reads other bytes of blob %d: %v", i, err)
			}
		}
	}

	var out bytes.Buffer
	w, err := theirs.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.AddBlob(theirs.BlobMetadataInput{Type: theirs.BlobTypeDataSketchesTheta, SnapshotID: 7, SequenceNumber: 8, Fields: []int32{3},
		Properties: map[string]string{"ndv": "5"}}, []byte("sketch")); err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	o, err := puffin.Open(t.Context(), section(t, out.Bytes()), int64(out.Len()), puffin.ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := puffin.Blob{Type: "apache-datasketches-theta-v1", Fields: []int32{3}, SnapshotID: 7, SequenceNumber: 8, Offset: 4, Length: 6, Properties: map[string]string{"ndv": "5"}}
	if f := o.Footer(); len(f.Blobs) != 1 || !reflect.DeepEqual(f.Blobs[0], want) {
		t.Errorf("we see %+v, want %+v", f.Blobs, want)
	}
	if got, err := o.ReadBlob(t.Context(), 0, 100); err != nil || string(got) != "sketch" {
		t.Errorf("we read %q, %v", got, err)
	}
}

func section(t *testing.T, b []byte) puffin.Source {
	t.Helper()
	s := objstore.NewMemory("t")
	if _, err := s.Put(t.Context(), "b.puffin", b, objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
	o, err := s.Open(t.Context(), "b.puffin")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.Close() })
	return puffin.Object(o)
}

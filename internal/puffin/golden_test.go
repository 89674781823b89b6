package puffin_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/codec"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/puffin"
	"github.com/overlakedb/overlake/internal/testenv"
)

// Files of Iceberg's own test suites, in Java and in Go. Where such a file can be made by us in one way only, ours must have
// the same bytes: then whoever reads theirs reads ours, Java included, which does not run here. Packed blobs may differ,
// since compressors do.

// other is the second blob of Java's samples.
const other = "some blob \x00 binary data \U0001F92F that is not very very very very very very long, is it?"

type golden struct {
	file       string
	properties map[string]string
	blobs      []content
	same       bool // ours has the same bytes
}

func goldens(t *testing.T) []golden {
	created := func(s string) map[string]string { return map[string]string{puffin.CreatedBy: s} }
	blob := func(kind string, field int32, c codec.Codec, data string) content {
		return content{puffin.BlobSpec{Type: kind, Fields: []int32{field}, SnapshotID: 2, SequenceNumber: 1, Codec: c, Bare: true}, []byte(data)}
	}
	vector := func(file, cardinality, payload string, fields ...int32) content {
		data, err := hex.DecodeString(payload)
		if err != nil {
			t.Fatal(err)
		}
		return content{puffin.BlobSpec{Type: "deletion-vector-v1", Fields: fields, SnapshotID: -1, SequenceNumber: -1, Bare: true,
			Properties: map[string]string{"referenced-data-file": file, "cardinality": cardinality}}, data}
	}
	const five = "0000002ad1d339640100000000000000000000003a300000010000000000040010000000010003000500070009" + "00b3fb20be"
	const crossClient = "iceberg-go DV cross-client fixtures (apache/iceberg)"
	return []golden{
		{"iceberg-java/puffin/v1/empty-puffin-uncompressed.bin", nil, nil, true},
		{"iceberg-java/puffin/v1/sample-metric-data-uncompressed.bin", created("Test 1234"),
			[]content{blob("some-blob", 1, codec.None, "abcdefghi"), blob("some-other-blob", 2, codec.None, other)}, true},
		{"iceberg-java/puffin/v1/sample-metric-data-compressed-zstd.bin", created("Test 1234"),
			[]content{blob("some-blob", 1, codec.Zstd, "abcdefghi"), blob("some-other-blob", 2, codec.Zstd, other)}, false},
		{"iceberg-go/puffin/deletion-vector-v1.puffin", created("iceberg-go test fixture"),
			[]content{vector("data/test.parquet", "5", five)}, true},
		// The properties of these two are in an order of their own.
		{"iceberg-go/dv/single-blob-dv.puffin", created(crossClient),
			[]content{vector("s3://warehouse/db/table/data/00000-0-abc.parquet", "5", five, 2147483645)}, false},
		{"iceberg-go/dv/multi-blob-dv.puffin", created(crossClient), []content{
			vector("s3://warehouse/db/table/data/file-001.parquet", "3", "00000026d1d339640100000000000000000000003a3000000100000000000200100000000000"+"6400c8004967e825", 2147483645),
			vector("s3://warehouse/db/table/data/file-002.parquet", "2", "00000024d1d339640100000000000000000000003a300000010000000000010010000000320096"+"00869cbeb9", 2147483645)}, false},
	}
}

func TestGolden(t *testing.T) {
	dir := testenv.Shared(t, "data", "odd-files")
	var known []string
	for _, g := range goldens(t) {
		known = append(known, g.file)
		t.Run(filepath.Base(g.file), func(t *testing.T) {
			theirs, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(g.file)))
			if err != nil {
				t.Fatal(err)
			}
			ours, ourFooter := write(t, puffin.WriterOptions{Properties: g.properties}, g.blobs...)
			r, err := open(t, theirs)
			if err != nil {
				t.Fatal(err)
			}
			footer := r.Footer()
			for i := range footer.Blobs {
				got, err := r.ReadBlob(t.Context(), i, 1000)
				if want := g.blobs[i].data; err != nil || !bytes.Equal(got, want) {
					t.Errorf("blob %d is %q, %v, want %q", i, got, err, want)
				}
				if g.blobs[i].spec.Codec != codec.None { // compressors differ
					ourFooter.Blobs[i].Offset, ourFooter.Blobs[i].Length = footer.Blobs[i].Offset, footer.Blobs[i].Length
				}
				if len(footer.Blobs[i].Fields) == 0 {
					footer.Blobs[i].Fields = nil
				}
			}
			if !reflect.DeepEqual(footer, ourFooter) {
				t.Errorf("the footer says\n%+v\nwant\n%+v", footer, ourFooter)
			}
			if g.same && !bytes.Equal(theirs, ours) {
				t.Errorf("theirs\n%q\nours\n%q", theirs, ours)
			}
			// Sizes that are not the file's.
			for _, d := range []int64{-10, -1, 1, 10, 10_000} {
				if _, err := puffin.Open(t.Context(), &memory{b: theirs}, int64(len(theirs))+d, puffin.ReaderOptions{}); !errs.Is(err, errs.Corrupt) {
					t.Errorf("a size off by %d: %v", d, err)
				}
			}
		})
	}
	// Every Puffin file of the collection is one of these.
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(p, ".puffin") && !strings.HasSuffix(p, ".bin") {
			return err
		}
		data, err := os.ReadFile(p)
		rel, rerr := filepath.Rel(dir, p)
		if err != nil || rerr != nil {
			return err
		}
		if bytes.HasPrefix(data, []byte("PFA1")) && !slices.Contains(known, filepath.ToSlash(rel)) {
			t.Errorf("%s is not tested (%x)", rel, sha256.Sum256(data))
		}
		// What is no Puffin file is refused.
		if _, err := open(t, data); err == nil && !slices.Contains(known, filepath.ToSlash(rel)) {
			t.Errorf("%s is opened", rel)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

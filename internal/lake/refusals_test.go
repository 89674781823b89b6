package lake_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/testenv"
)

// refusals makes the error of every line of the page docs/format/reading-tables.md, by the line's first words.
var refusals = map[string]func(t *testing.T) error{
	"ORC data files":  func(t *testing.T) error { return plan(t, one(func(f *forgedFile) { f.format = iceberg.OrcFile })) },
	"Avro data files": func(t *testing.T) error { return plan(t, one(func(f *forgedFile) { f.format = iceberg.AvroFile })) },
	"ORC or Avro delete files": func(t *testing.T) error {
		return plan(t, append(one(nil), forgedFile{path: "d.orc", rows: 1, sequence: 2, content: iceberg.EntryContentPosDeletes, format: iceberg.OrcFile}))
	},
	"encrypted files": func(t *testing.T) error { return plan(t, one(func(f *forgedFile) { f.encrypted = true })) },
	"columns of type variant, geometry, geography or unknown": func(t *testing.T) error {
		_, err := forgery{version: 3, schemas: []*iceberg.Schema{iceberg.NewSchema(0, nested(1, "v", iceberg.VariantType{}))}}.mount(t, objstore.NewMemory("t")).Plan(t.Context(), lake.Ref{}, nil)
		return err
	},
	"format version 4 and later": func(t *testing.T) error { return damaged(t, `{"format-version": 4}`, "metadata/v1.metadata.json") },
	"equality deletes by a field inside a struct": func(t *testing.T) error {
		w := newDeleteWorld(t)
		w.schemas[1] = iceberg.NewSchema(1, append(w.schemas[1].Fields(), nested(50, "st", &iceberg.StructType{FieldList: []iceberg.NestedField{nested(51, "x", iceberg.PrimitiveTypes.Int32)}}))...)
		w.equal(t, 6, []int{51}, `{"x":1}`, []arrow.Field{intField(51, "x")})
		_, err := w.mount(t, w.store).Plan(t.Context(), lake.Ref{}, nil)
		return err
	},
	"defaults of whole numbers beyond 2^53, which the metadata parser rounds": func(t *testing.T) error {
		w := newDeleteWorld(t)
		f := nested(60, "big", iceberg.PrimitiveTypes.Int64)
		f.InitialDefault, f.WriteDefault = int64(1<<53+2), int64(1<<53+2)
		w.schemas[1] = iceberg.NewSchema(1, append(w.schemas[1].Fields(), f)...)
		return read(t, w)
	},
	"Avro codecs other than deflate, snappy and zstandard": func(t *testing.T) error {
		return damaged(t, "Obj\x01\x04\x16avro.schema\x0c\"null\"\x14avro.codec\x0abzip2\x000123456789abcdef", "metadata/snap-7.avro")
	},
	"two live deletion vectors on one file": func(t *testing.T) error {
		w := newDeleteWorld(t).vector(t, 6, nil, 0).vector(t, 7, nil, 1)
		return read(t, w)
	},
	"a damaged deletion vector, or one outside a Puffin file": func(t *testing.T) error {
		return read(t, newDeleteWorld(t).vector(t, 6, func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, 0))
	},
	"NULL or negative positions in a position delete file": func(t *testing.T) error {
		return read(t, newDeleteWorld(t).positions(t, 6, `{"file_path":"s3://forged/t/a.parquet","pos":-1}`))
	},
	"a required column that a file lacks and that has no default": func(t *testing.T) error {
		w := newDeleteWorld(t)
		f := nested(60, "must", iceberg.PrimitiveTypes.Int64)
		f.Required = true
		w.schemas[1] = iceberg.NewSchema(1, append(w.schemas[1].Fields(), f)...)
		return read(t, w)
	},
	"a column stored as a type that cannot become the table's": func(t *testing.T) error {
		w := newDeleteWorld(t)
		w.schemas[1] = iceberg.NewSchema(1, nested(2, "t", &iceberg.ListType{ElementID: 70, Element: iceberg.PrimitiveTypes.Int32}))
		return read(t, w)
	},
	"a data file with another number of rows than its manifest says": func(t *testing.T) error {
		w := newDeleteWorld(t)
		w.files[0].rows = 6
		return read(t, w)
	},
	"damaged metadata":                     func(t *testing.T) error { return damaged(t, `{"format-version": 2`, "metadata/v1.metadata.json") },
	"damaged manifests and manifest lists": func(t *testing.T) error { return damaged(t, "Obj\x01", "metadata/snap-7.avro") },
	"files that are gone": func(t *testing.T) error {
		w := newDeleteWorld(t)
		if err := w.store.Delete(t.Context(), "a.parquet"); err != nil {
			t.Fatal(err)
		}
		return read(t, w)
	},
	"paths outside the table": func(t *testing.T) error {
		return plan(t, one(func(f *forgedFile) { f.path = "../../other/a.parquet" }))
	},
}

func one(change func(*forgedFile)) []forgedFile {
	f := forgedFile{path: "a.parquet", rows: 1, sequence: 1}
	if change != nil {
		change(&f)
	}
	return []forgedFile{f}
}

func plan(t *testing.T, files []forgedFile) error {
	_, err := forgery{version: 3, schemas: []*iceberg.Schema{idOnly}, files: files}.mount(t, objstore.NewMemory("t")).Plan(t.Context(), lake.Ref{}, nil)
	return err
}

func read(t *testing.T, w *deleteWorld) error {
	_, err := readText(t, w.mount(t, w.store))
	return err
}

// damaged replaces an object of a good table and reads it anew.
func damaged(t *testing.T, bytes, name string) error {
	store := objstore.NewMemory("t")
	manyFiles(1).mount(t, store)
	if _, err := store.Put(t.Context(), name, []byte(bytes), objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
	tbl, err := lake.Mount(t.Context(), docs, store, lake.MountOptions{})
	if err != nil {
		return err
	}
	_, err = tbl.Plan(t.Context(), lake.Ref{}, nil)
	return err
}

// TestRefusedThingsAreDocumented holds the page against the program: each line's error is made and must be of the kind and
// say the words, and nothing is refused here that the page leaves out.
func TestRefusedThingsAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(testenv.Root(t), "docs", "format", "reading-tables.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(page), "## What is refused")
	if !ok {
		t.Fatal("the page has no section of refused things")
	}
	seen := 0
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 || strings.HasPrefix(strings.TrimSpace(cells[0]), "what") || strings.HasPrefix(cells[0], "---") {
			continue
		}
		what, kind, says := strings.TrimSpace(cells[0]), strings.TrimSpace(cells[1]), strings.Trim(strings.TrimSpace(cells[2]), "`")
		seen++
		refuse := refusals[what]
		if refuse == nil {
			t.Errorf("no case makes %q", what)
			continue
		}
		err := refuse(t)
		var e *errs.Error
		if err == nil || errs.KindOf(err).String() != kind || !strings.Contains(err.Error(), says) || !errors.As(err, &e) || e.Object == "" {
			t.Errorf("%s: the page says %s, %q; got %v", what, kind, says, err)
		}
	}
	if seen != len(refusals) {
		t.Errorf("the page has %d lines, the test makes %d", seen, len(refusals))
	}
}

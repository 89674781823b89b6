package avro_test

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/klauspost/compress/snappy"

	frames "github.com/overlakedb/overlake/internal/codec"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake/avro"
)

const schema = `{"type":"record","name":"r","fields":[{"name":"a","type":"long","field-id":7},{"name":"b","type":["null","string"]},
	{"name":"c","type":{"type":"array","items":"int"}},{"name":"d","type":{"type":"map","values":"double"}},{"name":"e","type":{"type":"fixed","name":"f","size":2}}]}`

// row is {a: n, b: "text", c: [1, 2], d: {"k": 0.0}, e: "xy"}.
func row(n int64) []byte {
	b := binary.AppendVarint(nil, n)
	b = append(binary.AppendVarint(b, 1), "\x08text"...)
	b = append(b, 4, 2, 4, 0)
	b = append(append(b, 2, 2, 'k'), make([]byte, 8)...)
	return append(b, 0, 'x', 'y')
}

// file is a container of one block.
func file(codec string, rows int64, block []byte) []byte {
	b := binary.AppendVarint([]byte("Obj\x01"), 2)
	for _, s := range []string{"avro.schema", schema, "avro.codec", codec} {
		b = append(binary.AppendVarint(b, int64(len(s))), s...)
	}
	b = append(binary.AppendVarint(b, 0), "0123456789abcdef"...)
	b = binary.AppendVarint(binary.AppendVarint(b, rows), int64(len(block)))
	return append(append(b, block...), "0123456789abcdef"...)
}

func packed(t testing.TB, codec string, plain []byte) []byte {
	t.Helper()
	switch codec {
	case "deflate":
		var buf bytes.Buffer
		w, err := flate.NewWriter(&buf, 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(plain); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return buf.Bytes()
	case "snappy":
		return binary.BigEndian.AppendUint32(snappy.Encode(nil, plain), crc32.ChecksumIEEE(plain))
	case "zstandard":
		var buf bytes.Buffer
		w, err := frames.Zstd.NewWriter(&buf, int64(len(plain)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(plain); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return buf.Bytes()
	}
	return plain
}

// say writes every row as text: numbers of known fields, and the rest skipped.
func say(out *strings.Builder) func(c *avro.Cursor, t *avro.Type) error {
	return func(c *avro.Cursor, t *avro.Type) error {
		c.Record(t, func(f *avro.Field) {
			switch f.Name {
			case "a":
				fmt.Fprintf(out, "%d:%d ", f.ID, c.IntegerOr(f.Type, -1))
			case "b":
				fmt.Fprintf(out, "%q ", c.Bound(f.Type))
			case "c":
				c.Items(f.Type, func(elem *avro.Type) { fmt.Fprint(out, c.Value(elem), " ") })
			case "e":
				fmt.Fprintf(out, "%s\n", c.Value(f.Type))
			default:
				c.Skip(f.Type)
			}
		})
		return nil
	}
}

func TestRead(t *testing.T) {
	plain := append(row(1), row(-2)...)
	const want = "7:1 \"text\" 1 2 xy\n7:-2 \"text\" 1 2 xy\n"
	for _, codec := range []string{"null", "deflate", "snappy", "zstandard"} {
		var out strings.Builder
		meta, err := avro.Read("f", file(codec, 2, packed(t, codec, plain)), say(&out))
		if err != nil || out.String() != want || meta["avro.codec"] != codec {
			t.Errorf("%s: %v, %q, %v", codec, err, out.String(), meta)
		}
		if b, err := avro.Inflate(codec, packed(t, codec, make([]byte, 1000)), 999); codec != "null" && (err == nil || b != nil) {
			t.Errorf("%s: 1000 bytes were unpacked within a limit of 999", codec)
		}
	}
	if _, err := avro.Read("f", file("bzip2", 2, plain), say(new(strings.Builder))); !errs.Is(err, errs.Unsupported) {
		t.Errorf("an unknown codec gave %v", err)
	}
	for name, data := range map[string][]byte{"too many rows": file("null", 3, plain), "too few": file("null", 1, plain), "nothing": nil, "a cut": file("null", 2, plain)[:200]} {
		if _, err := avro.Read("f", data, say(new(strings.Builder))); !errs.Is(err, errs.Corrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzRead: whatever the bytes are, reading ends in rows or in an error.
func FuzzRead(f *testing.F) {
	for _, codec := range []string{"null", "deflate", "snappy", "zstandard"} {
		f.Add(file(codec, 1, packed(f, codec, row(5))))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, each := range []func(*avro.Cursor, *avro.Type) error{say(new(strings.Builder)), func(c *avro.Cursor, r *avro.Type) error { c.Skip(r); return nil }} {
			if _, err := avro.Read("f", data, each); err != nil && !errs.Is(err, errs.Corrupt) && !errs.Is(err, errs.Unsupported) && !errs.Is(err, errs.Exhausted) {
				t.Errorf("%v: %v", errs.KindOf(err), err)
			}
		}
	})
}

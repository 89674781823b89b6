// Package puffin answers: where in a file is one blob, and what is it?
//
// A Puffin file (Apache Iceberg's Puffin specification, version 1) holds blobs, opaque byte sequences, one after the other, and
// a footer that says for each what it is and where it lies. A Writer streams blobs into any io.Writer. A Reader opens a file
// by its tail and reads single blobs by range, never the whole file.
//
//	Magic "PFA1"
//	Blob …
//	Footer
//	  Magic "PFA1"
//	  FooterPayload       JSON, UTF-8; one LZ4 frame when flagged
//	  FooterPayloadSize   int32, little-endian: bytes of the payload as stored
//	  Flags               4 bytes: bit 0 of the first says that the payload is packed; all others are zero
//	  Magic "PFA1"
//
// The payload is {"blobs": [{"type", "fields", "snapshot-id", "sequence-number", "offset", "length", "compression-codec",
// "properties"}, …], "properties": {…}}. A blob lies at its offset in its stored length; "compression-codec" (lz4 or zstd,
// each one frame that tells its content size) is absent when it is stored as it is. What Overlake puts into properties, and
// the types of its own blobs, are in docs/format/puffin-bundles.md.
//
//	B1  Outside bytes never panic and never make a Reader hold more than its limits: sizes, offsets and lengths are
//	    checked against the file before anything is allocated by them.
//	B2  Flags that are not known are refused, because they may change what the bytes mean; members of the JSON that are
//	    not known are ignored.
//	B3  A blob that says its checksum is never given out whole when it does not hold.
//	B4  Equal blobs and properties make equal files.
package puffin

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/overlakedb/overlake/internal/checksum"
	"github.com/overlakedb/overlake/internal/codec"
	"github.com/overlakedb/overlake/internal/errs"
)

// CreatedBy is the property of a file that names the program that wrote it.
const CreatedBy = "created-by"

// Properties that Overlake gives the blobs it writes; both are about the plain bytes, before packing.
const (
	PropertyCRC32C = "overlake.crc32c" // CRC-32C (Castagnoli), 8 lower-case hexadecimal digits
	PropertySize   = "overlake.size"   // length in bytes, decimal
)

const (
	magic       = "PFA1"
	trailerSize = 4 + 4 + len(magic)                           // payload size, flags, magic
	smallest    = int64(len(magic) + len(magic) + trailerSize) // a file without blobs and payload

	flagPacked = 1
)

// Blob says what one blob is and where it lies.
type Blob struct {
	Type           string
	Fields         []int32 // field ids of the columns it is about
	SnapshotID     int64   // of the snapshot it was computed from; -1 where that means nothing
	SequenceNumber int64   // of that snapshot; -1 where that means nothing
	Offset         int64   // in the file
	Length         int64   // as stored
	Codec          codec.Codec
	Properties     map[string]string
}

// Footer is what a file says about itself.
type Footer struct {
	Blobs      []Blob
	Properties map[string]string
}

func (b Blob) clone() Blob {
	b.Fields = slices.Clone(b.Fields)
	b.Properties = maps.Clone(b.Properties)
	return b
}

func (f Footer) clone() Footer {
	c := Footer{Blobs: make([]Blob, len(f.Blobs)), Properties: maps.Clone(f.Properties)}
	for i, b := range f.Blobs {
		c.Blobs[i] = b.clone()
	}
	return c
}

// Unpack turns the stored bytes of the blob into its plain bytes, of which there may be limit, and checks them against the
// length and the checksum that the properties tell, where they do.
func (b *Blob) Unpack(stored []byte, limit int64) ([]byte, error) {
	const op = "puffin.blob"
	corrupt := func(format string, args ...any) error {
		return errs.With(errs.Newf(errs.Corrupt, op, format, args...), errs.On(b.Type))
	}
	if int64(len(stored)) != b.Length {
		return nil, corrupt("%d stored bytes of a blob of %d", len(stored), b.Length)
	}
	plain, err := b.Codec.Unpack(stored, limit)
	if err != nil {
		return nil, errs.With(err, errs.On(b.Type))
	}
	if s, told := b.Properties[PropertySize]; told {
		if n, err := strconv.ParseInt(s, 10, 64); err != nil || n != int64(len(plain)) {
			return nil, corrupt("the blob has %d bytes, its properties say %.20q", len(plain), s)
		}
	}
	if s, told := b.Properties[PropertyCRC32C]; told {
		if have := sumText(checksum.Of(plain)); have != s {
			return nil, corrupt("the blob fails its checksum: %s, its properties say %.20q", have, s)
		}
	}
	return plain, nil
}

func sumText(sum uint32) string { return fmt.Sprintf("%08x", sum) }

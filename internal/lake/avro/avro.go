// Package avro answers: which rows does an Avro file hold?
//
// Read walks the rows of an object container file with the writer's own schema. The reader of a row gets a Cursor and takes
// the fields as they come: by Iceberg field id, or by name where a writer left the ids out. Manifests and manifest lists are
// such files.
//
// Rules of the room:
//
//	A1  Nothing in the bytes is trusted: a count is believed only when the bytes that remain could hold it, every length is
//	    checked before it is used, nesting is bounded, and neither a decompressed block nor all of a file may pass their
//	    limits.
//	A2  A failure sticks to its Cursor: every later read gives a zero, so a decoder may read a whole row and look once.
package avro

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/snappy"

	"github.com/overlakedb/overlake/internal/codec"
	"github.com/overlakedb/overlake/internal/errs"
)

// Layout: "Obj" 0x01, a map of metadata (avro.schema, avro.codec), a 16-byte sync marker, then blocks of
// {row count, byte count, bytes, sync marker}. Source: Apache Avro 1.11 specification, "Object Container Files".
const (
	maxBlock  = 256 << 20 // bytes of one block after decompression
	maxFile   = 1 << 30   // bytes of all blocks of a file after decompression
	maxDepth  = 48        // nesting of types and of values
	maxFields = 100_000   // fields and union branches in one schema
)

// Read decodes a container file held in memory. each is called for every row and must consume it with the cursor.
// The returned metadata holds what the writer put into the header besides the schema. Errors are Corrupt, or
// Unsupported for a codec we do not know, and name the file.
func Read(name string, data []byte, each func(c *Cursor, row *Type) error) (meta map[string]string, err error) {
	bad := func(format string, args ...any) error {
		return errs.With(errs.Newf(errs.Corrupt, "avro.read", format, args...), errs.On(name))
	}
	if len(data) < 4 || string(data[:4]) != "Obj\x01" {
		return nil, bad("not an Avro file: it begins with % x", data[:min(4, len(data))])
	}
	c := &Cursor{b: data[4:]}
	meta = map[string]string{}
	for c.err == nil {
		n := c.count()
		if n == 0 {
			break
		}
		for ; n > 0 && c.err == nil; n-- {
			key := string(c.take(c.long()))
			meta[key] = string(c.take(c.long()))
		}
	}
	sync := c.take(16)
	if c.err != nil {
		return nil, bad("the Avro header: %w", c.err)
	}
	row, err := parseSchema([]byte(meta["avro.schema"]))
	if err != nil {
		return nil, bad("%w", err)
	}
	codec := meta["avro.codec"]
	if _, err := Inflate(codec, nil, 0); errs.Is(err, errs.Unsupported) {
		return nil, errs.With(err, errs.On(name))
	}
	total := 0
	for len(c.b) > 0 {
		count, size := c.long(), c.long()
		block := c.take(size)
		mark := c.take(16)
		if c.err != nil {
			return nil, bad("an Avro block: %w", c.err)
		}
		if !bytes.Equal(mark, sync) {
			return nil, bad("an Avro block does not end with the file's sync marker")
		}
		if block, err = Inflate(codec, block, maxBlock); err != nil {
			return nil, bad("an Avro block: %w", err)
		}
		if total += len(block); total > maxFile {
			return nil, errs.With(errs.Newf(errs.Exhausted, "avro.read", "the Avro file decompresses to more than %d bytes", maxFile), errs.On(name))
		}
		if count < 0 || count > int64(len(block)) {
			return nil, bad("an Avro block claims %d rows in %d bytes", count, len(block))
		}
		in := &Cursor{b: block}
		for ; count > 0; count-- {
			if err := each(in, row); err != nil {
				return nil, err
			}
			if in.err != nil {
				return nil, bad("an Avro row: %w", in.err)
			}
		}
		if len(in.b) != 0 {
			return nil, bad("an Avro block has %d bytes behind its last row", len(in.b))
		}
	}
	return meta, nil
}

// Inflate undoes one of Avro's codecs: null, deflate, snappy or zstandard. What comes to more than limit bytes is an error.
func Inflate(name string, b []byte, limit int64) ([]byte, error) {
	switch name {
	case "", "null":
		return b, nil
	case "deflate":
		return readBounded(flate.NewReader(bytes.NewReader(b)), limit)
	case "snappy":
		return inflateSnappy(b, limit)
	case "zstandard":
		return codec.Zstd.Unpack(b, limit)
	}
	return nil, errs.Newf(errs.Unsupported, "avro.read", "the Avro codec %.32q is not supported", name)
}

// inflateSnappy undoes a snappy block: raw snappy followed by the big-endian CRC-32 of the plain bytes.
func inflateSnappy(b []byte, limit int64) ([]byte, error) {
	if len(b) < 4 {
		return nil, fmt.Errorf("a snappy block of %d bytes", len(b))
	}
	packed := b[:len(b)-4]
	n, err := snappy.DecodedLen(packed)
	if err != nil {
		return nil, err
	}
	if int64(n) > limit || n > 64*len(packed)+64 {
		return nil, fmt.Errorf("a snappy block claims %d bytes", n)
	}
	plain, err := snappy.Decode(nil, packed)
	if err != nil {
		return nil, err
	}
	if crc32.ChecksumIEEE(plain) != binary.BigEndian.Uint32(b[len(b)-4:]) {
		return nil, fmt.Errorf("a snappy block fails its checksum")
	}
	return plain, nil
}

// readBounded reads to the end of r and fails beyond limit bytes.
func readBounded(r io.Reader, limit int64) ([]byte, error) {
	var buf bytes.Buffer
	n, err := io.Copy(&buf, io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, fmt.Errorf("it decompresses to more than %d bytes", limit)
	}
	return buf.Bytes(), nil
}

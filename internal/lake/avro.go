package lake

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/klauspost/compress/snappy"

	"github.com/overlakedb/overlake/internal/codec"
	"github.com/overlakedb/overlake/internal/errs"
)

// An Avro object container file, read with the writer's own schema.
//
// Layout: "Obj" 0x01, a map of metadata (avro.schema, avro.codec), a 16-byte sync marker, then blocks of
// {row count, byte count, bytes, sync marker}. Source: Apache Avro 1.11 specification, "Object Container Files".
//
// Nothing in the bytes is trusted: a count is believed only when the bytes that remain could hold it, every length is
// checked before it is used, nesting is bounded, and neither a decompressed block nor all of a file may pass their limits.
const (
	avroMaxBlock  = 256 << 20 // bytes of one block after decompression
	avroMaxFile   = 1 << 30   // bytes of all blocks of a file after decompression
	avroMaxDepth  = 48        // nesting of types and of values
	avroMaxFields = 100_000   // fields and union branches in one schema
)

type avroKind uint8

const (
	avroNull avroKind = iota
	avroBool
	avroInt
	avroLong
	avroFloat
	avroDouble
	avroBytes
	avroString
	avroFixed
	avroEnum
	avroArray
	avroMap
	avroRecord
	avroUnion
)

var avroPrimitives = map[string]avroKind{
	"null": avroNull, "boolean": avroBool, "int": avroInt, "long": avroLong, "float": avroFloat, "double": avroDouble,
	"bytes": avroBytes, "string": avroString,
}

// avroType is one node of a writer's schema. A named type that refers to itself makes the graph cyclic.
type avroType struct {
	kind     avroKind
	logical  string
	size     int         // fixed
	elem     *avroType   // array items, map values
	fields   []avroField // record
	branches []*avroType // union
}

type avroField struct {
	name string
	id   int // the Iceberg field id, -1 without one
	typ  *avroType
}

type avroSchemaParser struct {
	named map[string]*avroType
	count int
}

func parseAvroSchema(text []byte) (*avroType, error) {
	var raw any
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, fmt.Errorf("the Avro schema is no JSON: %w", err)
	}
	p := avroSchemaParser{named: map[string]*avroType{}}
	return p.parse(raw, 0)
}

func (p *avroSchemaParser) parse(raw any, depth int) (*avroType, error) {
	if p.count++; p.count > avroMaxFields || depth > avroMaxDepth {
		return nil, fmt.Errorf("the Avro schema is too large")
	}
	switch raw := raw.(type) {
	case string:
		if k, ok := avroPrimitives[raw]; ok {
			return &avroType{kind: k}, nil
		}
		if t, ok := p.named[raw]; ok {
			return t, nil
		}
		return nil, fmt.Errorf("the Avro schema names an unknown type %.64q", raw)
	case []any:
		t := &avroType{kind: avroUnion}
		for _, b := range raw {
			branch, err := p.parse(b, depth+1)
			if err != nil {
				return nil, err
			}
			t.branches = append(t.branches, branch)
		}
		return t, nil
	case map[string]any:
		return p.parseObject(raw, depth)
	}
	return nil, fmt.Errorf("the Avro schema holds a %T where a type belongs", raw)
}

func (p *avroSchemaParser) parseObject(raw map[string]any, depth int) (*avroType, error) {
	kind, ok := raw["type"].(string)
	if !ok { // {"type": {...}} and {"type": [...]}: the type is one level down
		if raw["type"] == nil {
			return nil, fmt.Errorf("the Avro schema has a type without a kind")
		}
		return p.parse(raw["type"], depth+1)
	}
	t := &avroType{}
	t.logical, _ = raw["logicalType"].(string)
	switch kind {
	case "record", "error":
		t.kind = avroRecord
		p.name(raw, t)
		fields, _ := raw["fields"].([]any)
		for _, f := range fields {
			m, ok := f.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("the Avro schema has a malformed field")
			}
			name, _ := m["name"].(string)
			id := -1
			if n, ok := m["field-id"].(float64); ok && n >= 0 && n <= math.MaxInt32 {
				id = int(n)
			}
			typ, err := p.parse(m["type"], depth+1)
			if err != nil {
				return nil, err
			}
			t.fields = append(t.fields, avroField{name: name, id: id, typ: typ})
		}
	case "enum":
		t.kind = avroEnum
		p.name(raw, t)
	case "fixed":
		t.kind = avroFixed
		n, _ := raw["size"].(float64)
		if n < 0 || n > 1<<20 {
			return nil, fmt.Errorf("the Avro schema has a fixed type of %v bytes", n)
		}
		t.size = int(n)
		p.name(raw, t)
	case "array", "map":
		t.kind = avroArray
		inner := raw["items"]
		if kind == "map" {
			t.kind, inner = avroMap, raw["values"]
		}
		elem, err := p.parse(inner, depth+1)
		if err != nil {
			return nil, err
		}
		t.elem = elem
	default:
		inner, err := p.parse(kind, depth+1)
		if err != nil {
			return nil, err
		}
		if inner.kind >= avroArray || inner.kind == avroFixed || inner.kind == avroEnum {
			return inner, nil
		}
		t.kind = inner.kind
	}
	return t, nil
}

func (p *avroSchemaParser) name(raw map[string]any, t *avroType) {
	name, _ := raw["name"].(string)
	if ns, _ := raw["namespace"].(string); ns != "" {
		p.named[ns+"."+name] = t
	}
	p.named[name] = t
}

// avroCursor walks the bytes of one block. The first failure sticks: every later read returns a zero, so a decoder may
// read a whole row and look at err once.
type avroCursor struct {
	b   []byte
	err error
}

func (c *avroCursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
	c.b = nil
}

func (c *avroCursor) long() int64 {
	var u uint64
	for i, b := range c.b {
		if i == 10 {
			break
		}
		u |= uint64(b&0x7f) << (7 * i) // bits past the 64th fall off: some writers store unsigned ids
		if b < 0x80 {
			c.b = c.b[i+1:]
			return int64(u>>1) ^ -int64(u&1)
		}
	}
	c.fail("a number is cut off or too long")
	return 0
}

func (c *avroCursor) take(n int64) []byte {
	if n < 0 || n > int64(len(c.b)) {
		c.fail("a value of %d bytes does not fit into the %d that remain", n, len(c.b))
		return nil
	}
	v := c.b[:n:n]
	c.b = c.b[n:]
	return v
}

// count reads the item count of an array or map block; 0 ends the array. An item takes at least one byte in every
// schema that Iceberg writes, so a larger count is a lie.
func (c *avroCursor) count() int64 {
	n := c.long()
	if n < 0 {
		n = -n
		c.long() // byte size of the block, for skipping
	}
	if n < 0 || n > int64(len(c.b)) {
		c.fail("an array claims %d items in %d bytes", n, len(c.b))
		return 0
	}
	return n
}

// enter resolves a union to the branch that the value uses; other types are returned as they are.
func (c *avroCursor) enter(t *avroType) *avroType {
	for depth := 0; t.kind == avroUnion; depth++ {
		i := c.long()
		if c.err != nil || i < 0 || i >= int64(len(t.branches)) || depth > avroMaxDepth {
			c.fail("a union has no branch %d", i)
			return &avroType{kind: avroNull}
		}
		t = t.branches[i]
	}
	return t
}

// integer reads a bool, int or long; ok is false for null and for other kinds, which are skipped.
func (c *avroCursor) integer(t *avroType) (v int64, ok bool) {
	switch t = c.enter(t); t.kind {
	case avroInt, avroLong, avroEnum:
		return c.long(), c.err == nil
	case avroBool:
		b := c.take(1)
		return int64(first(b) & 1), c.err == nil
	}
	c.skip(t, 0)
	return 0, false
}

func first(b []byte) byte {
	if len(b) == 0 {
		return 0
	}
	return b[0]
}

// binary reads bytes, a string or a fixed value as a part of the block; ok is false for null and other kinds.
func (c *avroCursor) binary(t *avroType) (v []byte, ok bool) {
	switch t = c.enter(t); t.kind {
	case avroBytes, avroString:
		v = c.take(c.long())
		return v, c.err == nil
	case avroFixed:
		v = c.take(int64(t.size))
		return v, c.err == nil
	}
	c.skip(t, 0)
	return nil, false
}

// value reads a primitive as nil, bool, int64, float32, float64, string or a copy of the bytes.
func (c *avroCursor) value(t *avroType) any {
	t = c.enter(t)
	switch t.kind {
	case avroBool:
		return first(c.take(1)) != 0
	case avroInt, avroLong, avroEnum:
		return c.long()
	case avroFloat:
		if b := c.take(4); b != nil {
			return math.Float32frombits(binary.LittleEndian.Uint32(b))
		}
	case avroDouble:
		if b := c.take(8); b != nil {
			return math.Float64frombits(binary.LittleEndian.Uint64(b))
		}
	case avroString:
		return string(c.take(c.long()))
	case avroBytes:
		return bytes.Clone(c.take(c.long()))
	case avroFixed:
		return bytes.Clone(c.take(int64(t.size)))
	default:
		c.skip(t, 0)
	}
	return nil
}

// items calls each for every item of an array.
func (c *avroCursor) items(t *avroType, each func(elem *avroType)) {
	t = c.enter(t)
	if t.kind != avroArray {
		c.skip(t, 0)
		return
	}
	for c.err == nil {
		n := c.count()
		if n == 0 {
			return
		}
		for ; n > 0 && c.err == nil; n-- {
			each(t.elem)
		}
	}
}

// record calls each for every field of a record, in the writer's order; each must consume the field.
func (c *avroCursor) record(t *avroType, each func(f *avroField)) bool {
	t = c.enter(t)
	if t.kind != avroRecord {
		c.skip(t, 0)
		return false
	}
	for i := range t.fields {
		if c.err != nil {
			return false
		}
		each(&t.fields[i])
	}
	return c.err == nil
}

func (c *avroCursor) skip(t *avroType, depth int) {
	if depth > avroMaxDepth {
		c.fail("values are nested too deeply")
	}
	if c.err != nil {
		return
	}
	t = c.enter(t)
	switch t.kind {
	case avroBool:
		c.take(1)
	case avroInt, avroLong, avroEnum:
		c.long()
	case avroFloat:
		c.take(4)
	case avroDouble:
		c.take(8)
	case avroBytes, avroString:
		c.take(c.long())
	case avroFixed:
		c.take(int64(t.size))
	case avroArray, avroMap:
		for c.err == nil {
			n := c.count()
			if n == 0 {
				return
			}
			for ; n > 0 && c.err == nil; n-- {
				if t.kind == avroMap {
					c.take(c.long())
				}
				c.skip(t.elem, depth+1)
			}
		}
	case avroRecord:
		for i := range t.fields {
			c.skip(t.fields[i].typ, depth+1)
		}
	}
}

// readAvro decodes a container file held in memory. each is called for every row and must consume it with the cursor.
// The returned metadata holds what the writer put into the header besides the schema. Errors are Corrupt, or
// Unsupported for a codec we do not know, and name the file.
func readAvro(name string, data []byte, each func(c *avroCursor, row *avroType) error) (meta map[string]string, err error) {
	bad := func(format string, args ...any) error {
		return errs.With(errs.Newf(errs.Corrupt, "lake.avro", format, args...), errs.On(name))
	}
	if len(data) < 4 || string(data[:4]) != "Obj\x01" {
		return nil, bad("not an Avro file: it begins with % x", data[:min(4, len(data))])
	}
	c := &avroCursor{b: data[4:]}
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
	row, err := parseAvroSchema([]byte(meta["avro.schema"]))
	if err != nil {
		return nil, bad("%w", err)
	}
	inflate, err := avroCodec(meta["avro.codec"])
	if err != nil {
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
		if block, err = inflate(block); err != nil {
			return nil, bad("an Avro block: %w", err)
		}
		if total += len(block); total > avroMaxFile {
			return nil, errs.With(errs.Newf(errs.Exhausted, "lake.avro", "the Avro file decompresses to more than %d bytes", avroMaxFile), errs.On(name))
		}
		if count < 0 || count > int64(len(block)) {
			return nil, bad("an Avro block claims %d rows in %d bytes", count, len(block))
		}
		in := &avroCursor{b: block}
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

func avroCodec(name string) (func([]byte) ([]byte, error), error) {
	switch name {
	case "", "null":
		return func(b []byte) ([]byte, error) { return b, nil }, nil
	case "deflate":
		return func(b []byte) ([]byte, error) { return readBounded(flate.NewReader(bytes.NewReader(b)), avroMaxBlock) }, nil
	case "snappy":
		return inflateSnappy, nil
	case "zstandard":
		return func(b []byte) ([]byte, error) { return codec.Zstd.Unpack(b, avroMaxBlock) }, nil
	}
	return nil, errs.Newf(errs.Unsupported, "lake.avro", "the Avro codec %.32q is not supported", name)
}

// inflateSnappy undoes a snappy block: raw snappy followed by the big-endian CRC-32 of the plain bytes.
func inflateSnappy(b []byte) ([]byte, error) {
	if len(b) < 4 {
		return nil, fmt.Errorf("a snappy block of %d bytes", len(b))
	}
	packed := b[:len(b)-4]
	n, err := snappy.DecodedLen(packed)
	if err != nil {
		return nil, err
	}
	if n > avroMaxBlock || n > 64*len(packed)+64 {
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

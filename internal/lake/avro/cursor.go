package avro

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
)

// Cursor walks the bytes of one block. The first failure sticks: every later read returns a zero, so a decoder may
// read a whole row and look at err once.
type Cursor struct {
	b   []byte
	err error
}

// Fail makes a failure of what was read: the value is there and makes no sense.
func (c *Cursor) Fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
	c.b = nil
}

// Err is the first failure, nil when there was none.
func (c *Cursor) Err() error { return c.err }

func (c *Cursor) long() int64 {
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
	c.Fail("a number is cut off or too long")
	return 0
}

func (c *Cursor) take(n int64) []byte {
	if n < 0 || n > int64(len(c.b)) {
		c.Fail("a value of %d bytes does not fit into the %d that remain", n, len(c.b))
		return nil
	}
	v := c.b[:n:n]
	c.b = c.b[n:]
	return v
}

// count reads the item count of an array or map block; 0 ends the array. An item takes at least one byte in every
// schema that Iceberg writes, so a larger count is a lie.
func (c *Cursor) count() int64 {
	n := c.long()
	if n < 0 {
		n = -n
		c.long() // byte size of the block, for skipping
	}
	if n < 0 || n > int64(len(c.b)) {
		c.Fail("an array claims %d items in %d bytes", n, len(c.b))
		return 0
	}
	return n
}

// enter resolves a union to the branch that the value uses; other types are returned as they are.
func (c *Cursor) enter(t *Type) *Type {
	for depth := 0; t.kind == unionKind; depth++ {
		i := c.long()
		if c.err != nil || i < 0 || i >= int64(len(t.branches)) || depth > maxDepth {
			c.Fail("a union has no branch %d", i)
			return &Type{kind: nullKind}
		}
		t = t.branches[i]
	}
	return t
}

// Integer reads a bool, int or long; ok is false for null and for other kinds, which are skipped.
func (c *Cursor) Integer(t *Type) (v int64, ok bool) {
	switch t = c.enter(t); t.kind {
	case intKind, longKind, enumKind:
		return c.long(), c.err == nil
	case boolKind:
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

// Binary reads bytes, a string or a fixed value as a part of the block; ok is false for null and other kinds.
func (c *Cursor) Binary(t *Type) (v []byte, ok bool) {
	switch t = c.enter(t); t.kind {
	case bytesKind, stringKind:
		v = c.take(c.long())
		return v, c.err == nil
	case fixedKind:
		v = c.take(int64(t.size))
		return v, c.err == nil
	}
	c.skip(t, 0)
	return nil, false
}

// IntegerOr is integer with a value for what is none.
func (c *Cursor) IntegerOr(t *Type, otherwise int64) int64 {
	if v, ok := c.Integer(t); ok {
		return v
	}
	return otherwise
}

// Bound reads optional bytes; nil is absent, an empty value is not nil.
func (c *Cursor) Bound(t *Type) []byte {
	b, ok := c.Binary(t)
	if !ok {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}

// Value reads a primitive as nil, bool, int64, float32, float64, string or a copy of the bytes.
func (c *Cursor) Value(t *Type) any {
	t = c.enter(t)
	switch t.kind {
	case boolKind:
		return first(c.take(1)) != 0
	case intKind, longKind, enumKind:
		return c.long()
	case floatKind:
		if b := c.take(4); b != nil {
			return math.Float32frombits(binary.LittleEndian.Uint32(b))
		}
	case doubleKind:
		if b := c.take(8); b != nil {
			return math.Float64frombits(binary.LittleEndian.Uint64(b))
		}
	case stringKind:
		return string(c.take(c.long()))
	case bytesKind:
		return bytes.Clone(c.take(c.long()))
	case fixedKind:
		return bytes.Clone(c.take(int64(t.size)))
	default:
		c.skip(t, 0)
	}
	return nil
}

// Items calls each for every item of an array.
func (c *Cursor) Items(t *Type, each func(elem *Type)) {
	t = c.enter(t)
	if t.kind != arrayKind {
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

// Record calls each for every field of a record, in the writer's order; each must consume the field.
func (c *Cursor) Record(t *Type, each func(f *Field)) bool {
	t = c.enter(t)
	if t.kind != recordKind {
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

// Skip passes over a value.
func (c *Cursor) Skip(t *Type) { c.skip(t, 0) }

func (c *Cursor) skip(t *Type, depth int) {
	if depth > maxDepth {
		c.Fail("values are nested too deeply")
	}
	if c.err != nil {
		return
	}
	t = c.enter(t)
	switch t.kind {
	case boolKind:
		c.take(1)
	case intKind, longKind, enumKind:
		c.long()
	case floatKind:
		c.take(4)
	case doubleKind:
		c.take(8)
	case bytesKind, stringKind:
		c.take(c.long())
	case fixedKind:
		c.take(int64(t.size))
	case arrayKind, mapKind:
		for c.err == nil {
			n := c.count()
			if n == 0 {
				return
			}
			for ; n > 0 && c.err == nil; n-- {
				if t.kind == mapKind {
					c.take(c.long())
				}
				c.skip(t.elem, depth+1)
			}
		}
	case recordKind:
		for i := range t.fields {
			c.skip(t.fields[i].Type, depth+1)
		}
	}
}

package datafile

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/overlakedb/overlake/internal/errs"
)

// cellKind says how a value of Parquet becomes one of Arrow.
type cellKind uint8

const (
	// foreignCells are left to the library.
	foreignCells cellKind = iota
	// lowBytes takes the first bytes of the value: numbers, which may be narrower in Arrow, and fixed bytes.
	lowBytes
	// bitCells are booleans.
	bitCells
	// textCells are bytes of any length.
	textCells
	// smallDecimal is a decimal in a number, the lowest byte first; largeDecimal one in bytes, the highest first.
	smallDecimal
	largeDecimal
)

// cellType is the way of a leaf from Parquet to Arrow.
type cellType struct {
	kind   cellKind
	width  int // bytes of a value in Parquet, 0 for textCells and bitCells
	stored int // bytes of a value in Arrow, 0 for textCells and bitCells
	// defined is the level of definition of a value that is there.
	defined int16
	// list is the level of definition that an element of a list has at least; 0 where a row is one value or NULL.
	list int16
	// required says that only a struct around the value may be missing.
	required bool
}

// ownCells tells how the leaves of a column, from leaf on, are decoded here: columns of one value or NULL in each row, structs
// of such, and lists of numbers. It gives nothing for all that the library reads. level is the level of definition that what
// the column lies in has.
func ownCells(s *schema.Schema, leaf int, f arrow.Field, level int16) []cellType {
	if f.Nullable {
		level++
	}
	if t, ok := f.Type.(*arrow.StructType); ok {
		var out []cellType
		for _, m := range t.Fields() {
			more := ownCells(s, leaf+len(out), m, level)
			if more == nil || more[0].list > 0 {
				return nil
			}
			out = append(out, more...)
		}
		return out
	}
	if leaf >= s.NumColumns() {
		return nil
	}
	c, t := s.Column(leaf), f.Type
	list, isList := t.(*arrow.ListType)
	if isList {
		if level++; list.ElemField().Nullable {
			level++
		}
		t = list.Elem()
	}
	cell := valueCells(c, t)
	if cell.kind == foreignCells || c.MaxDefinitionLevel() != level {
		return nil
	}
	cell.defined, cell.required = level, !f.Nullable
	switch {
	case !isList && c.MaxRepetitionLevel() == 0:
		return []cellType{cell}
	case isList && c.MaxRepetitionLevel() == 1 && cell.kind == lowBytes && t.ID() != arrow.EXTENSION:
		cell.list = level
		if list.ElemField().Nullable {
			cell.list--
		}
		return []cellType{cell}
	}
	return nil
}

// valueCells is the way of a value by itself.
func valueCells(c *schema.Column, t arrow.DataType) cellType {
	if x, ok := t.(arrow.ExtensionType); ok {
		t = x.StorageType()
	}
	width := 0
	switch c.PhysicalType() {
	case parquet.Types.Boolean:
		if t.ID() == arrow.BOOL {
			return cellType{kind: bitCells}
		}
		return cellType{}
	case parquet.Types.ByteArray:
		if t.ID() == arrow.STRING || t.ID() == arrow.BINARY {
			return cellType{kind: textCells}
		}
		return cellType{}
	case parquet.Types.Int32, parquet.Types.Float:
		width = 4
	case parquet.Types.Int64, parquet.Types.Double:
		width = 8
	case parquet.Types.FixedLenByteArray:
		width = c.TypeLength()
		switch {
		case t.ID() == arrow.DECIMAL128 && width <= 16:
			return cellType{kind: largeDecimal, width: width, stored: 16}
		case t.ID() == arrow.FIXED_SIZE_BINARY && t.(*arrow.FixedSizeBinaryType).ByteWidth == width, t.ID() == arrow.FLOAT16 && width == 2:
			return cellType{kind: lowBytes, width: width, stored: width}
		}
		return cellType{}
	default:
		return cellType{}
	}
	switch t.ID() {
	case arrow.DECIMAL128:
		if width == 4 && c.PhysicalType() == parquet.Types.Int32 || width == 8 && c.PhysicalType() == parquet.Types.Int64 {
			return cellType{kind: smallDecimal, width: width, stored: 16}
		}
	case arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64, arrow.UINT8, arrow.UINT16, arrow.UINT32, arrow.UINT64, arrow.FLOAT32, arrow.FLOAT64,
		arrow.DATE32, arrow.TIME32, arrow.TIME64, arrow.TIMESTAMP:
		if n := t.(arrow.FixedWidthDataType).BitWidth() / 8; n <= width {
			return cellType{kind: lowBytes, width: width, stored: n}
		}
	}
	return cellType{}
}

// validity tells which rows of an Arrow column in the making are NULL.
type validity struct {
	rows  int
	nulls int
	valid *memory.Buffer // until a NULL comes, nil
	mem   memory.Allocator
}

// null makes rows NULL.
func (v *validity) null(at []int32) {
	if v.valid == nil {
		v.valid = memory.NewResizableBuffer(v.mem)
		v.valid.Resize(int(bitutil.BytesForBits(int64(v.rows))))
		bitutil.SetBitsTo(v.valid.Bytes(), 0, int64(v.rows), true)
	}
	for _, i := range at {
		bitutil.ClearBit(v.valid.Bytes(), int(i))
	}
	v.nulls += len(at)
}

// cells is an Arrow column in the making, whose values come in any order and each to its place.
type cells struct {
	cellType
	validity
	fixed  *memory.Buffer // values of one width, or bits
	texts  *memory.Buffer // bytes of textCells as they came, used up to used
	used   int
	places []stretch
}

// stretch is where the text of a row, or its elements, lie among those that came.
type stretch struct{ from, to int32 }

// offsets gives the offsets of stretches that are put into the order of their rows, and whether they are in it already. More
// than an Arrow array can hold is Exhausted.
func offsets(mem memory.Allocator, places []stretch) (_ *memory.Buffer, ordered bool, err error) {
	total := int64(0)
	ordered = true
	for _, p := range places {
		ordered = ordered && (int64(p.from) == total || p.from == p.to)
		total += int64(p.to - p.from)
	}
	if total > math.MaxInt32 {
		return nil, false, tooLong()
	}
	b := memory.NewResizableBuffer(mem)
	b.Resize((len(places) + 1) * 4)
	out := arrow.Int32Traits.CastFromBytes(b.Bytes())
	out[0] = 0
	for i, p := range places {
		out[i+1] = out[i] + p.to - p.from
	}
	return b, ordered, nil
}

func tooLong() error {
	return errs.With(errs.Newf(errs.Exhausted, "datafile.fetch", "a column of the rows is longer than 2^31"), errs.Hint("read fewer rows at a time"))
}

func newCells(mem memory.Allocator, t cellType, rows int) *cells {
	c := &cells{cellType: t, validity: validity{rows: rows, mem: mem}}
	switch t.kind {
	case textCells:
		c.texts, c.places = memory.NewResizableBuffer(mem), make([]stretch, rows)
	case bitCells:
		c.fixed = memory.NewResizableBuffer(mem)
		c.fixed.Resize(int(bitutil.BytesForBits(int64(rows))))
		clear(c.fixed.Bytes())
	default:
		c.fixed = memory.NewResizableBuffer(mem)
		c.fixed.Resize(rows * t.stored)
	}
	return c
}

func (c *cells) release() {
	for _, b := range []*memory.Buffer{c.valid, c.fixed, c.texts} {
		if b != nil {
			b.Release()
		}
	}
}

// null makes rows NULL, over zeros, or only zeros where it is a struct around them that is NULL.
func (c *cells) null(at []int32) {
	if !c.required {
		c.validity.null(at)
	}
	if c.stored > 0 {
		for _, i := range at {
			clear(c.fixed.Bytes()[int(i)*c.stored:][:c.stored])
		}
	}
}

// put makes rows the value. A bit is a byte, 0 or 1.
func (c *cells) put(v []byte, at []int32) error {
	switch c.kind {
	case lowBytes:
		out := c.fixed.Bytes()
		for _, i := range at {
			copy(out[int(i)*c.stored:][:c.stored], v)
		}
	case bitCells:
		if v[0] == 1 {
			for _, i := range at {
				bitutil.SetBit(c.fixed.Bytes(), int(i))
			}
		}
	case textCells:
		if len(v) > math.MaxInt32-c.used {
			return tooLong()
		}
		if c.used+len(v) > c.texts.Len() {
			c.texts.Resize(max(2*c.texts.Len(), c.used+len(v), 256))
		}
		copy(c.texts.Bytes()[c.used:], v)
		for _, i := range at {
			c.places[i] = stretch{int32(c.used), int32(c.used + len(v))}
		}
		c.used += len(v)
	default:
		var d [16]byte
		if c.kind == smallDecimal {
			copy(d[:], v)
		} else {
			for k, b := range v {
				d[len(v)-1-k] = b
			}
		}
		if len(v) > 0 && d[len(v)-1] >= 0x80 {
			for k := len(v); k < len(d); k++ {
				d[k] = 0xFF
			}
		}
		out := c.fixed.Bytes()
		for _, i := range at {
			copy(out[int(i)*len(d):], d[:])
		}
	}
	return nil
}

// array hands the column out.
func (c *cells) array(t arrow.DataType) (arrow.Array, error) {
	storage := t
	x, extension := t.(arrow.ExtensionType)
	if extension {
		storage = x.StorageType()
	}
	buffers := []*memory.Buffer{c.valid, c.fixed}
	if c.kind == textCells {
		ends, err := c.arrange()
		if err != nil {
			return nil, err
		}
		defer ends.Release()
		buffers = []*memory.Buffer{c.valid, ends, c.texts}
	}
	d := array.NewData(storage, c.rows, buffers, nil, c.nulls, 0)
	defer d.Release()
	a := array.MakeFromData(d)
	if !extension {
		return a, nil
	}
	defer a.Release()
	return array.NewExtensionArrayWithStorage(x, a), nil
}

// arrange brings the texts into the order of the rows and gives their offsets.
func (c *cells) arrange() (*memory.Buffer, error) {
	ends, ordered, err := offsets(c.mem, c.places)
	if err != nil {
		return nil, err
	}
	at := arrow.Int32Traits.CastFromBytes(ends.Bytes())
	if ordered {
		c.texts.Resize(int(at[c.rows]))
		return ends, nil
	}
	texts := memory.NewResizableBuffer(c.mem)
	texts.Resize(int(at[c.rows]))
	for i, p := range c.places {
		copy(texts.Bytes()[at[i]:], c.texts.Bytes()[p.from:p.to])
	}
	c.texts.Release()
	c.texts = texts
	return ends, nil
}

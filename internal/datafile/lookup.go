package datafile

import (
	"encoding/binary"

	"github.com/apache/arrow-go/v18/parquet"
)

// lookup gives the values of a page by their numbers, which ascend from call to call. A value is as Parquet stores it: of the
// column's width, or a text, or a byte for a bit. It is valid until the next call.
type lookup struct {
	cellType
	encoding parquet.Encoding
	b        []byte
	next     int // the number of the value that a walk comes to
	at       int // where that one lies, PLAIN texts
	scratch  []byte
	bits     hybrid // indexes into the dictionary, or booleans
	dict     *dictionary
	numbers  *deltas
	lengths  *lengths
	suffixes *suffixes
}

// dictionary has the values that pages refer to.
type dictionary struct {
	values int
	b      []byte
	ends   []uint32 // of texts: ends[i] is where text i ends; 4 bytes of length lie between them
}

// reset turns to the values of a page.
func (l *lookup) reset(t cellType, p *page, dict *dictionary) error {
	*l = lookup{cellType: t, encoding: p.encoding, b: p.values, scratch: l.scratch}
	if size := max(t.width, 8); len(l.scratch) < size {
		l.scratch = make([]byte, size)
	}
	if len(l.b) == 0 {
		return nil // all NULL, whatever the encoding
	}
	switch p.encoding {
	case parquet.Encodings.Plain:
	case parquet.Encodings.PlainDict, parquet.Encodings.RLEDict:
		if l.dict = dict; dict == nil || t.kind == bitCells {
			return errPage
		}
		l.encoding = parquet.Encodings.RLEDict
		if l.b[0] > 32 {
			return errPage
		}
		l.bits = hybrid{b: l.b[1:], width: uint(l.b[0])}
	case parquet.Encodings.RLE:
		if t.kind != bitCells || len(l.b) < 4 || int64(binary.LittleEndian.Uint32(l.b)) > int64(len(l.b)-4) {
			return errPage
		}
		l.bits = hybrid{b: l.b[4:][:binary.LittleEndian.Uint32(l.b)], width: 1}
	case parquet.Encodings.ByteStreamSplit:
		if t.width == 0 {
			return errPage
		}
	case parquet.Encodings.DeltaBinaryPacked:
		if t.width != 4 && t.width != 8 || t.kind == largeDecimal {
			return errPage
		}
	case parquet.Encodings.DeltaLengthByteArray:
		if t.kind != textCells {
			return errPage
		}
	case parquet.Encodings.DeltaByteArray:
		if t.kind == bitCells {
			return errPage
		}
	default:
		return errPage
	}
	return nil
}

// value gives value i.
func (l *lookup) value(i int) (v []byte, err error) {
	if len(l.b) == 0 {
		return nil, errPage
	}
	switch l.encoding {
	case parquet.Encodings.Plain:
		switch l.kind {
		case bitCells:
			if i/8 >= len(l.b) {
				return nil, errPage
			}
			return l.bit(uint32(l.b[i/8] >> (i % 8) & 1)), nil
		case textCells:
			return l.text(i)
		}
		if at := i * l.width; at <= len(l.b)-l.width {
			return l.b[at:][:l.width], nil
		}
		return nil, errPage
	case parquet.Encodings.RLEDict:
		k, err := l.bits.at(i)
		if err != nil || int64(k) >= int64(l.dict.values) {
			return nil, errPage
		}
		return l.dict.value(int(k), l.width), nil
	case parquet.Encodings.RLE:
		k, err := l.bits.at(i)
		return l.bit(k), err
	case parquet.Encodings.ByteStreamSplit:
		n := len(l.b) / l.width
		if i >= n {
			return nil, errPage
		}
		for k := range l.width {
			l.scratch[k] = l.b[k*n+i]
		}
		return l.scratch[:l.width], nil
	}
	if l.next == 0 {
		switch l.encoding {
		case parquet.Encodings.DeltaBinaryPacked:
			l.numbers, err = newDeltas(l.b)
		case parquet.Encodings.DeltaLengthByteArray:
			l.lengths, err = newLengths(l.b)
		default:
			l.suffixes, err = newSuffixes(l.b)
		}
		if err != nil {
			return nil, err
		}
	}
	for ; l.next <= i; l.next++ {
		switch {
		case l.numbers != nil:
			var n int64
			n, err = l.numbers.next()
			binary.LittleEndian.PutUint64(l.scratch, uint64(n))
			v = l.scratch[:l.width]
		case l.lengths != nil:
			v, err = l.lengths.next()
		default:
			v, err = l.suffixes.next()
		}
		if err != nil {
			return nil, err
		}
	}
	if l.width > 0 && len(v) != l.width {
		return nil, errPage
	}
	return v, nil
}

// run gives the values from i up to n as they lie in the page, where they do lie there as Arrow has them.
func (l *lookup) run(i, n int) ([]byte, bool) {
	if l.encoding != parquet.Encodings.Plain || l.kind != lowBytes || l.width != l.stored || n*l.width > len(l.b) {
		return nil, false
	}
	return l.b[i*l.width : n*l.width], true
}

func (l *lookup) bit(b uint32) []byte {
	l.scratch[0] = byte(b)
	return l.scratch[:1]
}

// text walks to a text among PLAIN ones, each of which has its length before it.
func (l *lookup) text(i int) ([]byte, error) {
	b, at := l.b, l.at
	for n := l.next; ; n++ {
		if at > len(b)-4 {
			return nil, errPage
		}
		size := int64(binary.LittleEndian.Uint32(b[at:]))
		if at += 4; size > int64(len(b)-at) {
			return nil, errPage
		}
		from := at
		at += int(size)
		if n == i {
			l.next, l.at = i+1, at
			return b[from:at], nil
		}
	}
}

// dictionary reads a dictionary page.
func (p *paging) dictionary(b []byte, t cellType) (*dictionary, error) {
	h, b, err := p.body(b)
	if err != nil {
		return nil, err
	}
	e := parquet.Encoding(h.encoding)
	if h.kind != dictionaryPage || h.values > h.uncompressed || e != parquet.Encodings.Plain && e != parquet.Encodings.PlainDict {
		return nil, errPage
	}
	d := &dictionary{values: int(h.values)}
	if h.uncompressed > 0 {
		if d.b, err = inflate(p.codec, b, int(h.uncompressed), p.keep, p.mem); err != nil {
			return nil, err
		}
	}
	if t.kind != textCells {
		if t.width == 0 || h.values > int64(len(d.b)/t.width) {
			return nil, errPage
		}
		return d, nil
	}
	if h.values > int64(len(d.b)/4) {
		return nil, errPage
	}
	d.ends = make([]uint32, h.values)
	at := 0
	for i := range d.ends {
		if at > len(d.b)-4 {
			return nil, errPage
		}
		size := int64(binary.LittleEndian.Uint32(d.b[at:]))
		if at += 4; size > int64(len(d.b)-at) {
			return nil, errPage
		}
		at += int(size)
		d.ends[i] = uint32(at)
	}
	return d, nil
}

// value gives entry i.
func (d *dictionary) value(i, width int) []byte {
	if d.ends == nil {
		return d.b[i*width:][:width]
	}
	from := uint32(4)
	if i > 0 {
		from += d.ends[i-1]
	}
	return d.b[from:d.ends[i]]
}

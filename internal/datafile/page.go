package datafile

import (
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
)

// Fetch decodes pages by itself where it can: the library decodes columns from a point on, and rows here and there are
// cheaper to have by looking at their places in the page.

// errPage says that a page is not read here: it is broken, or written in a way that only the library knows. The library is
// asked then, and finds out which.
var errPage = errors.New("the page is not one of those that are decoded here")

// pageHeader is what the header of a page says, as far as reading depends on it.
type pageHeader struct {
	kind                     int64 // 0 data, 1 index, 2 dictionary, 3 data V2
	uncompressed, compressed int64
	values                   int64 // of a data or dictionary page
	rows                     int64 // V2 only
	encoding                 int64
	levels                   int64 // the encoding of definition levels, V1 only
	repetitions, definitions int64 // bytes of levels, V2 only
	plain                    bool  // the values are not compressed, V2 only
	length                   int   // of the header, bytes
}

const (
	dataPage       = 0
	dictionaryPage = 2
	dataPageV2     = 3
)

// parsePageHeader reads the header at the beginning of b. It fails with errThrift when b does not hold all of it.
func parsePageHeader(b []byte) (pageHeader, error) {
	h := pageHeader{}
	w := &thriftWalk{b: b}
	err := w.structure(0, func(id int16, v int64) {
		switch id {
		case 1:
			h.kind = v
		case 2:
			h.uncompressed = v
		case 3:
			h.compressed = v
		}
	}, func(id int16) (bool, error) {
		var to []*int64
		var isCompressed int64 = 1
		switch id { // the three page headers that have values, and their first fields in order
		case 5:
			to = []*int64{&h.values, &h.encoding, &h.levels}
		case 7:
			to = []*int64{&h.values, &h.encoding}
		case 8:
			to = []*int64{&h.values, nil, &h.rows, &h.encoding, &h.definitions, &h.repetitions, &isCompressed}
		default:
			return false, nil
		}
		err := w.structure(1, func(id int16, v int64) {
			if id >= 1 && int(id) <= len(to) && to[id-1] != nil {
				*to[id-1] = v
			}
		}, nil)
		h.plain = isCompressed == 0
		return true, err
	})
	h.length = w.at
	return h, err
}

// page is a data page, decompressed.
type page struct {
	levels     int    // rows, or more of lists
	reps, defs hybrid // levels of repetition and definition
	values     []byte
	encoding   parquet.Encoding
	passed     int // levels that locate has passed, and values among them
	found      int
}

// paging opens the pages of one column chunk.
type paging struct {
	codec      compress.Compression
	lists      bool
	defined    int16 // the highest level of definition
	most       int64 // bytes of a page
	room, keep *room // for the page, in the place of the one before it, and for the dictionary
	mem        *limited
}

// maxPageRows bounds the rows of a page that is decoded here: a few bytes can stand for any number of rows.
const maxPageRows = 1 << 26

// body gives the header of the page that b is, and what follows it.
func (p *paging) body(b []byte) (pageHeader, []byte, error) {
	h, err := parsePageHeader(b)
	if err != nil {
		return h, nil, errPage
	}
	b = b[h.length:]
	if h.compressed < 0 || h.compressed > int64(len(b)) || h.uncompressed < 0 || h.uncompressed > p.most || h.values < 0 {
		return h, nil, errPage
	}
	return h, b[:h.compressed], nil
}

// open reads a data page, which has to have the number of rows.
func (p *paging) open(b []byte, rows int64) (page, error) {
	h, b, err := p.body(b)
	if err != nil || h.values > maxPageRows {
		return page{}, errPage
	}
	if p.lists && (h.kind != dataPageV2 || h.rows != rows || h.values < rows) || !p.lists && h.values != rows {
		return page{}, errPage
	}
	out := page{levels: int(h.values), encoding: parquet.Encoding(h.encoding)}
	out.reps.width, out.defs.width = 1, uint(bits.Len16(uint16(p.defined)))
	switch h.kind {
	case dataPage:
		if b, err = inflate(p.codec, b, int(h.uncompressed), p.room, p.mem); err != nil {
			return page{}, err
		}
		if p.defined > 0 {
			if h.levels != int64(parquet.Encodings.RLE) || len(b) < 4 {
				return page{}, errPage
			}
			n := int64(binary.LittleEndian.Uint32(b))
			if n > int64(len(b)-4) {
				return page{}, errPage
			}
			out.defs.b, b = b[4:4+n], b[4+n:]
		}
		out.values = b
	case dataPageV2:
		levels := h.repetitions + h.definitions
		if h.repetitions < 0 || h.definitions < 0 || levels < 0 || levels > int64(len(b)) || levels > h.uncompressed || p.defined == 0 && h.definitions > 0 {
			return page{}, errPage
		}
		out.reps.b, out.defs.b, b = b[:h.repetitions], b[h.repetitions:levels], b[levels:]
		codec := p.codec
		if h.plain {
			codec = compress.Codecs.Uncompressed
		}
		if n := int(h.uncompressed - levels); n > 0 {
			if out.values, err = inflate(codec, b, n, p.room, p.mem); err != nil {
				return page{}, err
			}
		}
	default:
		return page{}, errPage
	}
	return out, nil
}

// locate gives the level of definition of a row of a page without lists, and which value it has if that level is defined. Rows
// ascend from call to call.
func (p *page) locate(row int, defined int16) (value int, level int16, err error) {
	switch defined {
	case 0:
		return row, 0, nil
	case 1:
		one, before, err := p.defs.rank(row)
		if one {
			return before, 1, err
		}
		return before, 0, err
	}
	n, err := p.defs.count(p.passed, row, uint32(defined))
	if err != nil {
		return 0, 0, err
	}
	p.passed, p.found = row, p.found+n
	l, err := p.defs.at(row)
	if err != nil || l > uint32(defined) {
		return 0, 0, errPage
	}
	return p.found, int16(l), nil
}

// refers tells whether the values are numbers of entries of the dictionary.
func (p *page) refers() bool {
	return p.encoding == parquet.Encodings.PlainDict || p.encoding == parquet.Encodings.RLEDict
}

package bloom

import (
	"context"
	"encoding/binary"
	"io"
	"math"
	"slices"

	"github.com/overlakedb/overlake/internal/checksum"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/predicate"
)

// An artifact is the blocks, each of eight words in little endian, the head and the tail. The head:
//
//	byte       the kind of the keys
//	uvarint    rows covered, rows with NULL, different keys, blocks
//	uint32     CRC-32C of the blocks
//
// The tail, the last 32 bytes, little endian:
//
//	uint64     bytes of the head
//	uint64     bytes of the artifact
//	uint32     CRC-32C of the head
//	uint16     version of the format, 1
//	uint16     0
//	uint32     CRC-32C of the 24 bytes before
//	4 bytes    "OLBF"
const (
	tailSize      = 32
	magic         = "OLBF"
	formatVersion = 1
)

// head is what an artifact says beside its blocks.
type head struct {
	kind                  predicate.KeyKind
	rows, nulls, distinct int64
	blocks                int
}

func (h *head) stats(size int64) Stats {
	s := Stats{Rows: h.rows, Nulls: h.nulls, Distinct: h.distinct, Size: size}
	if h.blocks > 0 {
		s.FPR = rate(float64(h.distinct) / float64(h.blocks))
	}
	return s
}

// write writes the artifact.
func (h *head) write(out io.Writer, blocks []block) (Stats, error) {
	const piece = 1024
	sum := uint32(0)
	size := int64(0)
	buf := make([]byte, 0, piece*blockBytes)
	put := func(b []byte) error {
		size += int64(len(b))
		_, err := out.Write(b)
		return errs.Wrap(errs.KindOf(err), "bloom.finish", err)
	}
	for part := range slices.Chunk(blocks, piece) {
		buf = buf[:0]
		for i := range part {
			for _, w := range part[i] {
				buf = binary.LittleEndian.AppendUint32(buf, w)
			}
		}
		sum = checksum.Update(sum, buf)
		if err := put(buf); err != nil {
			return Stats{}, err
		}
	}
	buf = append(buf[:0], byte(h.kind))
	for _, v := range []int64{h.rows, h.nulls, h.distinct, int64(h.blocks)} {
		buf = binary.AppendUvarint(buf, uint64(v))
	}
	buf = binary.LittleEndian.AppendUint32(buf, sum)
	n := len(buf)
	buf = binary.LittleEndian.AppendUint64(buf, uint64(n))
	buf = binary.LittleEndian.AppendUint64(buf, uint64(size)+uint64(n)+tailSize)
	buf = binary.LittleEndian.AppendUint32(buf, checksum.Of(buf[:n]))
	buf = binary.LittleEndian.AppendUint16(buf, formatVersion)
	buf = binary.LittleEndian.AppendUint16(buf, 0)
	buf = binary.LittleEndian.AppendUint32(buf, checksum.Of(buf[n:]))
	if err := put(append(buf, magic...)); err != nil {
		return Stats{}, err
	}
	return h.stats(size), nil
}

// Filter is an opened artifact. It is in memory as a whole, is never changed, and is safe for concurrent use.
type Filter struct {
	sum    uint32 // of the artifact
	head   head
	blocks []block
	size   int64
}

// Open reads an artifact of the given size.
func Open(ctx context.Context, src Source, size int64) (*Filter, error) {
	if size < tailSize {
		return nil, corrupt("it is too short")
	}
	b, err := readAll(ctx, src, size)
	if err != nil {
		return nil, err
	}
	return parse(b)
}

// readAll reads an artifact. Memory is taken as bytes arrive, because the size may be wrong.
func readAll(ctx context.Context, src Source, size int64) ([]byte, error) {
	const step = 16 << 20
	buf := make([]byte, 0, min(size, step))
	for int64(len(buf)) < size {
		at := len(buf)
		more := int(min(size-int64(at), step))
		buf = slices.Grow(buf, more)[:at+more]
		switch n, err := src.ReadAtContext(ctx, buf[at:], int64(at)); {
		case n == more:
		case err == nil || err == io.EOF || err == io.ErrUnexpectedEOF:
			return nil, corrupt("it is cut off")
		default:
			return nil, errs.Wrap(errs.KindOf(err), "bloom.open", err)
		}
	}
	return buf, nil
}

func parse(b []byte) (*Filter, error) {
	size := uint64(len(b))
	tail := b[size-tailSize:]
	if string(tail[28:]) != magic {
		return nil, corrupt("it does not end in its mark")
	}
	if checksum.Of(tail[:24]) != binary.LittleEndian.Uint32(tail[24:]) {
		return nil, corrupt("the checksum of its tail is wrong")
	}
	if v := binary.LittleEndian.Uint32(tail[20:]); v != formatVersion {
		return nil, errs.With(errs.Newf(errs.Unsupported, "bloom.open", "the Bloom filter has version %d of its format; this program reads version %d", v, formatVersion),
			errs.Hint("use a newer program, or build the index again"))
	}
	n := binary.LittleEndian.Uint64(tail)
	if binary.LittleEndian.Uint64(tail[8:]) != size || n > size-tailSize {
		return nil, corrupt("it is not as long as it was written")
	}
	data := b[:size-tailSize-n]
	text := b[len(data) : size-tailSize]
	if checksum.Of(text) != binary.LittleEndian.Uint32(tail[16:]) {
		return nil, corrupt("the checksum of its head is wrong")
	}
	f := &Filter{size: int64(size), sum: checksum.Of(b)}
	if err := f.head.read(text, data); err != nil {
		return nil, err
	}
	f.blocks = make([]block, f.head.blocks)
	for i := range f.blocks {
		for j := range f.blocks[i] {
			f.blocks[i][j] = binary.LittleEndian.Uint32(data[blockBytes*i+4*j:])
		}
	}
	return f, nil
}

// read reads the head of an artifact with these blocks.
func (h *head) read(text, data []byte) error {
	if len(text) == 0 {
		return corrupt("it has no head")
	}
	h.kind = predicate.KeyKind(text[0])
	text = text[1:]
	var v [4]uint64
	for i := range v {
		n := 0
		if v[i], n = binary.Uvarint(text); n <= 0 || v[i] > math.MaxInt64 {
			return corrupt("its head is cut off")
		}
		text = text[n:]
	}
	h.rows, h.nulls, h.distinct = int64(v[0]), int64(v[1]), int64(v[2])
	switch {
	case len(text) != 4 || h.kind == predicate.NoKeys || h.kind >= predicate.Tuples || h.nulls > h.rows,
		v[3] > maxBlocks || v[3]*blockBytes != uint64(len(data)) || (v[3] == 0) != (h.distinct == 0):
		return corrupt("its head is impossible")
	case checksum.Of(data) != binary.LittleEndian.Uint32(text):
		return corrupt("the checksum of its blocks is wrong")
	}
	h.blocks = int(v[3])
	return nil
}

// Kind is the kind of the keys.
func (f *Filter) Kind() predicate.KeyKind { return f.head.kind }

// Stats sum up the artifact.
func (f *Filter) Stats() Stats { return f.head.stats(f.size) }

// Sum is the CRC-32C of the artifact.
func (f *Filter) Sum() uint32 { return f.sum }

// Memory is how many bytes the filter holds.
func (f *Filter) Memory() int64 { return int64(cap(f.blocks))*blockBytes + 128 }

// MayContain tells whether a key may be among the rows: no is certain.
func (f *Filter) MayContain(key []byte) bool {
	if len(f.blocks) == 0 {
		return false
	}
	hash := hashOf(key)
	return f.blocks[place(hash, len(f.blocks))].has(hash)
}

// MayMatch tells whether a row may have a key in the ranges, or be NULL if that is asked for: no is certain. Only ranges of
// one key can be excluded.
func (f *Filter) MayMatch(keys predicate.Ranges, null bool) bool {
	if null && f.head.nulls > 0 {
		return true
	}
	for _, r := range keys {
		if !r.Empty() && len(f.blocks) > 0 && (!r.IsPoint() || f.MayContain(r.Lo)) {
			return true
		}
	}
	return false
}

package segment

import (
	"encoding/binary"
	"math"

	"github.com/overlakedb/overlake/internal/checksum"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/block"
)

// bitSet is the width of a block whose rows are a bit set.
const bitSet = 64

// A run of postings is the bodies of its blocks, one after another, and then a table of them, in columns:
//
//	uint32 last rows · uint32 ends of bodies · uint32 occurrences before the block, with positions only ·
//	uint16 worths · uint8 widths of rows · uint8 widths of frequencies
const (
	tableEntry     = 4 + 4 + 2 + 1 + 1
	tablePositions = 4
)

// A run of positions is packed blocks of 128 values, the last one shorter, and then uint32 ends and uint8 widths of them.
const positionsEntry = 4 + 1

// worth is what the best of some postings is worth, of 65535: the greatest freq·inv/(1 + freq·inv), given the greatest
// freq·inv, rounded up.
func worth(most float64) uint16 {
	if math.IsInf(most, 1) {
		return math.MaxUint16
	}
	return uint16(math.Ceil(most / (1 + most) * math.MaxUint16))
}

// run is a posting list that is being written, of a term that is not small.
type run struct {
	table struct {
		lasts, ends, before []uint32
		worths              []uint16
		rows, freqs         []byte
	}
	length int64
	sum    uint32

	withPositions bool
	positions     spool
	ends          []uint32
	widths        []byte
	posLength     int64
	posSum        uint32
	buf           []byte
}

func (r *run) reset() {
	t := &r.table
	t.lasts, t.ends, t.before, t.worths, t.rows, t.freqs = t.lasts[:0], t.ends[:0], t.before[:0], t.worths[:0], t.rows[:0], t.freqs[:0]
	r.length, r.sum = 0, 0
	r.ends, r.widths, r.posLength, r.posSum = r.ends[:0], r.widths[:0], 0, 0
}

func tooLong() error {
	return errs.New(errs.Unsupported, "segment.build", "a term has more than 4 GiB of postings or positions", errs.Hint("let an index part cover fewer rows"))
}

// packBody packs the postings of a block, the rows as a bit set where sets allows it and it is no longer. gaps is room.
func packBody(to []byte, rows, freqs []uint32, first uint32, sets bool, gaps *block.Values) (b []byte, rowWidth, freqWidth uint) {
	next := first
	for i, r := range rows {
		gaps[i] = r - next
		next = r + 1
	}
	last := rows[len(rows)-1]
	rowWidth = block.Width(gaps[:len(rows)])
	if sets && 8*block.Words(first, last) <= block.Bytes(len(rows), rowWidth) {
		rowWidth = bitSet
		to = block.AppendBits(to, rows, first)
	} else {
		to = block.Append(to, gaps[:len(rows)], rowWidth)
	}
	for i, f := range freqs {
		gaps[i] = f - 1
	}
	freqWidth = block.Width(gaps[:len(freqs)])
	return block.Append(to, gaps[:len(freqs)], freqWidth), rowWidth, freqWidth
}

// add writes a block of postings through put. before is how often the term stands in rows before them.
func (r *run) add(rows, freqs []uint32, before uint64, most float64, gaps *block.Values, put func([]byte) error) error {
	first := uint32(0)
	t := &r.table
	if n := len(t.lasts); n > 0 {
		first = t.lasts[n-1] + 1
	}
	b, rw, fw := packBody(r.buf[:0], rows, freqs, first, true, gaps)
	r.buf = b
	r.length += int64(len(b))
	if r.length > math.MaxUint32 || r.withPositions && before > math.MaxUint32 {
		return tooLong()
	}
	t.lasts = append(t.lasts, rows[len(rows)-1])
	t.ends = append(t.ends, uint32(r.length))
	t.before = append(t.before, uint32(before))
	t.worths = append(t.worths, worth(most))
	t.rows = append(t.rows, byte(rw))
	t.freqs = append(t.freqs, byte(fw))
	r.sum = checksum.Update(r.sum, b)
	return put(b)
}

// addPositions packs a block of positions.
func (r *run) addPositions(values []uint32) error {
	w := block.Width(values)
	r.buf = block.Append(r.buf[:0], values, w)
	r.posLength += int64(len(r.buf))
	if r.posLength > math.MaxUint32 {
		return tooLong()
	}
	r.ends = append(r.ends, uint32(r.posLength))
	r.widths = append(r.widths, byte(w))
	r.posSum = checksum.Update(r.posSum, r.buf)
	return r.positions.write(r.buf)
}

// finish writes the table and the positions.
func (r *run) finish(put func([]byte) error) error {
	t := &r.table
	b := r.buf[:0]
	for _, v := range t.lasts {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	for _, v := range t.ends {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	if r.withPositions {
		for _, v := range t.before {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
	}
	for _, v := range t.worths {
		b = binary.LittleEndian.AppendUint16(b, v)
	}
	b = append(append(b, t.rows...), t.freqs...)
	r.length += int64(len(b))
	r.sum = checksum.Update(r.sum, b)
	r.buf = b
	if err := put(b); err != nil || !r.withPositions {
		return err
	}
	if err := r.positions.drain(put); err != nil {
		return err
	}
	b = r.buf[:0]
	for _, v := range r.ends {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	b = append(b, r.widths...)
	r.posLength += int64(len(b))
	r.posSum = checksum.Update(r.posSum, b)
	r.buf = b
	return put(b)
}

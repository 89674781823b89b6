package segment

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/block"
	"github.com/overlakedb/overlake/internal/index/bm25/posting"
)

// list is the posting list of a term that was opened: where its blocks are, and the block at which a search stands. Rows and
// frequencies are decoded when they are asked for.
type list struct {
	term posting.Term
	rows uint32 // of the segment: a row is below
	n    int    // blocks; 0 when the list is ended

	// Columns of the table. A small list has none: its one block is decoded when it is opened.
	body   []byte
	lasts  []byte
	ends   []byte
	before []byte
	worths []byte
	widths []byte // of rows, then of frequencies

	// The block at work.
	at        int
	first     uint32 // the least row that can be in it
	last      uint32 // its last row
	count     int
	hasRows   bool
	hasFreqs  bool
	set       []byte // rows as a bit set, or nil
	setRank   [block.MaxWords]uint8
	freqs     []byte
	freqWidth uint
	row       block.Values
	freq      block.Values

	pos positionList
	err error
}

// positionList is where the positions of a list are.
type positionList struct {
	packed  []byte
	ends    []byte // of blocks; nil for one block of any length
	widths  []byte
	width   uint
	total   uint64
	at      int    // block that was looked at last, -1 for none
	from    []byte // its bytes and what follows
	atWidth uint
	starts  block.Values // occurrences before each row of the block, counted from its begin
	upTo    int          // how many of them are known
	out     []uint32
}

// openRequest is a term to be opened.
type openRequest struct {
	field     int
	term      posting.Term
	positions bool
}

// spans are where the postings of a term, and its positions, are in the section; empty for one whose posting the dictionary has.
func (q *openRequest) spans() (postings, positions span) {
	at := q.term.At
	switch at[0] & 3 {
	case formSmall:
		postings = span{int64(at[0] >> 20), int64(at[1] >> 32), uint32(at[3])}
		positions.length = int64(at[2] >> 32)
	case formLarge:
		postings = span{int64(at[0] >> 2), int64(at[1]), uint32(at[3])}
		positions.length = int64(at[2])
	}
	positions.off, positions.sum = postings.off+postings.length, uint32(at[3]>>32)
	return postings, positions
}

// openLists opens posting lists in one round of reads.
func (r *Reader) openLists(ctx context.Context, requests []openRequest, lists []*list) error {
	var held []byte
	for _, q := range requests {
		f, err := r.fieldOf("segment.postings", q.field)
		if err != nil {
			return err
		}
		if q.positions && !f.Positions {
			return errs.New(errs.Unsupported, "segment.postings", "the index was built without positions", errs.Hint("phrases need an index with positions"))
		}
	}
	if r.resident {
		var err error
		if held, err = r.section(ctx, postingsSection); err != nil {
			return err
		}
		for i := range requests {
			q := &requests[i]
			var b, p []byte
			ps, qs := q.spans()
			if b, err = r.cut(held, ps); err == nil && q.positions {
				p, err = r.cut(held, qs)
			}
			if err == nil {
				err = lists[i].open(q, r.head.Rows, b, p)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	spans := make([]span, 0, 2*len(requests))
	for i := range requests {
		ps, qs := requests[i].spans()
		if spans = append(spans, ps); requests[i].positions {
			spans = append(spans, qs)
		}
	}
	raw, err := r.read(ctx, postingsSection, r.posts, spans, true)
	if err != nil {
		return err
	}
	for i := range requests {
		q := &requests[i]
		b := raw[0]
		raw = raw[1:]
		var p []byte
		if q.positions {
			p, raw = raw[0], raw[1:]
		}
		if err := lists[i].open(q, r.head.Rows, b, p); err != nil {
			return err
		}
	}
	return nil
}

// open makes a list of its bytes. What was in it before is gone.
func (l *list) open(q *openRequest, rows uint32, b, p []byte) error {
	l.term, l.rows, l.err = q.term, rows, nil
	l.body, l.lasts, l.ends, l.before, l.worths, l.widths = nil, nil, nil, nil, nil, nil
	l.pos.packed, l.pos.ends, l.pos.widths, l.pos.width, l.pos.total, l.pos.upTo, l.pos.at = nil, nil, nil, 0, 0, 0, -1
	l.at, l.first, l.set = 0, 0, nil
	at := q.term.At
	switch at[0] & 3 {
	case formInline:
		l.one(uint32(at[1]), 1)
		if l.last >= rows {
			return corrupt("row %d of %d", l.last, rows)
		}
		if q.positions {
			l.pos.total = 1
			l.pos.packed = binary.LittleEndian.AppendUint32(make([]byte, 0, 4+block.Slack), uint32(at[2]))
			l.pos.packed, l.pos.width = l.pos.packed[:4], 32
		}
		return nil
	case formSmall:
		return l.openSmall(q, b, p)
	case formLarge:
		return l.openLarge(q, b, p)
	}
	l.n, l.count, l.first, l.last = 0, 0, posting.End, posting.End
	return nil
}

// one makes the list one row.
func (l *list) one(row, freq uint32) {
	l.n, l.count, l.last = 1, 1, row
	l.row[0], l.freq[0] = row, freq
	l.hasRows, l.hasFreqs = true, true
	l.sentinel()
}

// sentinel fills the rows behind the last.
func (l *list) sentinel() {
	for i := l.count; i < block.Size; i++ {
		l.row[i] = posting.End
	}
}

func (l *list) openSmall(q *openRequest, b, p []byte) error {
	t := &q.term
	n := int(t.DocFreq)
	rw, fw, pw := uint(t.At[0]>>2&63), uint(t.At[0]>>8&63), uint(t.At[0]>>14&63)
	from := int64(uint32(t.At[1]))
	if n < 1 || n >= smallDocs || rw > block.MaxWidth || fw > block.MaxWidth || pw > block.MaxWidth ||
		int64(len(b)) < from+int64(block.Bytes(n, rw))+int64(block.Bytes(n, fw)) {
		return corrupt("the postings of a term do not decode")
	}
	rest := b[from:cap(b)]
	if !block.Sums(&l.row, rest, n, rw, 0) {
		return corrupt("the postings of a term do not decode")
	}
	block.Unpack(&l.freq, rest[block.Bytes(n, rw):], n, fw)
	l.n, l.count, l.last = 1, n, l.row[n-1]
	l.hasRows, l.hasFreqs = true, true
	if l.last >= l.rows {
		return corrupt("row %d of %d", l.last, l.rows)
	}
	l.sentinel()
	if sum := l.sumFreqs(); sum != uint64(t.TotalFreq) {
		return corrupt("a term stands %d times instead of %d", sum, t.TotalFreq)
	}
	if !q.positions {
		return nil
	}
	pos := int64(uint32(t.At[2]))
	if int64(len(p)) < pos+int64(block.Bytes(int(t.TotalFreq), pw)) {
		return corrupt("the positions of a term do not decode")
	}
	l.pos.packed, l.pos.width, l.pos.total = p[pos:], pw, uint64(t.TotalFreq)
	return nil
}

// sumFreqs adds the frequencies of the block.
func (l *list) sumFreqs() (sum uint64) {
	for _, f := range l.freq[:l.count] {
		sum += uint64(f)
	}
	return sum
}

func (l *list) openLarge(q *openRequest, b, p []byte) error {
	t := &q.term
	n := (t.DocFreq + block.Size - 1) / block.Size
	table := n * tableEntry
	if q.positions || t.At[2] > 0 {
		table = n * (tableEntry + tablePositions)
	}
	if t.DocFreq < 1 || n > math.MaxInt32 || int64(len(b)) < table {
		return corrupt("the postings of a term do not decode")
	}
	l.n = int(n)
	cut := int64(len(b)) - table
	l.body = b[:cut:cap(b)]
	c := b[cut:]
	l.lasts, c = c[:4*n], c[4*n:]
	l.ends, c = c[:4*n], c[4*n:]
	if table > n*tableEntry {
		l.before, c = c[:4*n], c[4*n:]
	}
	l.worths, l.widths = c[:2*n], c[2*n:]
	if int64(binary.LittleEndian.Uint32(l.ends[4*(n-1):])) != cut {
		return corrupt("the postings of a term do not decode")
	}
	if q.positions {
		if err := l.openPositions(t, p); err != nil {
			return err
		}
	}
	return l.load(0)
}

func (l *list) openPositions(t *posting.Term, p []byte) error {
	n := (t.TotalFreq + block.Size - 1) / block.Size
	if n > math.MaxInt32 || int64(len(p)) < n*positionsEntry || t.TotalFreq < 1 {
		return corrupt("the positions of a term do not decode")
	}
	cut := int64(len(p)) - n*positionsEntry
	o := &l.pos
	o.packed, o.ends, o.widths, o.total = p[:cut:cap(p)], p[cut:cut+4*n], p[cut+4*n:], uint64(t.TotalFreq)
	if int64(binary.LittleEndian.Uint32(o.ends[4*(n-1):])) != cut {
		return corrupt("the positions of a term do not decode")
	}
	return nil
}

func (l *list) lastOf(i int) uint32 { return binary.LittleEndian.Uint32(l.lasts[4*i:]) }

// worthOf is what block i is worth.
func (l *list) worthOf(i int) uint16 { return binary.LittleEndian.Uint16(l.worths[2*i:]) }

// load makes block i the one at work, without decoding it.
func (l *list) load(i int) error {
	l.at, l.hasRows, l.hasFreqs, l.pos.upTo = i, false, false, 0
	l.first = 0
	from := uint32(0)
	if i > 0 {
		l.first = l.lastOf(i-1) + 1
		from = binary.LittleEndian.Uint32(l.ends[4*(i-1):])
	}
	l.last = l.lastOf(i)
	end := binary.LittleEndian.Uint32(l.ends[4*i:])
	if l.count = block.Size; i == l.n-1 {
		l.count = int(l.term.DocFreq-1)%block.Size + 1
	}
	rw, fw := uint(l.widths[i]), uint(l.widths[l.n+i])
	if l.last < l.first || l.last >= l.rows || from > end || int(end) > len(l.body) || rw > block.MaxWidth && rw != bitSet || fw > block.MaxWidth {
		return corrupt("block %d of a term contradicts itself", i)
	}
	size := block.Bytes(l.count, rw)
	if rw == bitSet {
		size = 8 * block.Words(l.first, l.last)
	}
	if size+block.Bytes(l.count, fw) != int(end-from) {
		return corrupt("block %d of a term has not the length that its widths say", i)
	}
	l.set = nil
	if rw == bitSet {
		if size > 8*block.MaxWords {
			return corrupt("block %d of a term is a bit set of %d bytes", i, size)
		}
		l.set = l.body[from : int(from)+size]
		if !block.Ranks(&l.setRank, l.set, l.count, l.first, l.last) {
			return corrupt("block %d of a term has not as many rows as it should", i)
		}
	}
	l.freqs, l.freqWidth = l.body[int(from)+size:cap(l.body)], fw
	return nil
}

// decodeRows makes sure that rows are decoded.
func (l *list) decodeRows() error {
	if l.hasRows {
		return nil
	}
	if l.set != nil {
		block.FromBits(&l.row, l.set, l.count, l.first)
	} else {
		from := 0
		if l.at > 0 {
			from = int(binary.LittleEndian.Uint32(l.ends[4*(l.at-1):]))
		}
		if !block.Sums(&l.row, l.body[from:cap(l.body)], l.count, uint(l.widths[l.at]), l.first) || l.row[l.count-1] != l.last {
			return corrupt("block %d of a term does not decode", l.at)
		}
	}
	l.hasRows = true
	if l.count < block.Size {
		l.sentinel()
	}
	return nil
}

// decodeFreqs makes sure that frequencies are decoded.
func (l *list) decodeFreqs() {
	if !l.hasFreqs {
		block.Unpack(&l.freq, l.freqs, l.count, l.freqWidth)
		l.hasFreqs = true
	}
}

// freqAt is the frequency of row i of the block.
func (l *list) freqAt(i int) uint32 {
	switch {
	case l.hasFreqs:
		return l.freq[i]
	case l.freqWidth == 0:
		return 1
	}
	return block.At(l.freqs, l.freqWidth, i) + 1
}

// seek moves to the first block whose last row is not less than target, and says whether there is one; there is none with an
// error. It never moves back.
func (l *list) seek(target uint32) (bool, error) {
	if target <= l.last && l.n > 0 {
		return true, nil
	}
	if l.at+1 >= l.n {
		l.end()
		return false, nil
	}
	// First one after another, then in growing steps.
	lo, step := l.at+1, 1
	for lo+step < l.n && l.lastOf(lo+step-1) < target {
		lo += step
		step *= 2
	}
	hi := min(lo+step, l.n)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if l.lastOf(mid) < target {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo >= l.n {
		l.end()
		return false, nil
	}
	if err := l.load(lo); err != nil {
		return false, err
	}
	return true, nil
}

// end says that there is nothing left.
func (l *list) end() {
	l.at, l.n, l.count, l.first, l.last = 0, 0, 0, posting.End, posting.End
}

// index finds a row in the block at work, whose last row is not less: its place, or where it would be, and whether it is there.
func (l *list) index(row uint32) (int, bool, error) {
	if l.set != nil {
		if row < l.first {
			return 0, false, nil
		}
		i, ok := block.Find(&l.setRank, l.set, row-l.first)
		return i, ok, nil
	}
	if err := l.decodeRows(); err != nil {
		return 0, false, err
	}
	i := block.LowerBound(&l.row, row)
	return i, l.row[i] == row, nil
}

// positionsAt are the positions of row i of the block, valid until the next call.
func (l *list) positionsAt(i int) ([]uint32, error) {
	o := &l.pos
	if !l.hasFreqs && l.freqWidth > 0 {
		l.decodeFreqs()
	}
	from := uint64(0)
	if l.before != nil {
		from = uint64(binary.LittleEndian.Uint32(l.before[4*l.at:]))
	}
	if l.hasFreqs {
		if o.upTo == 0 {
			o.starts[0], o.upTo = 0, 1
		}
		for ; o.upTo <= i; o.upTo++ {
			o.starts[o.upTo] = o.starts[o.upTo-1] + l.freq[o.upTo-1]
		}
		from += uint64(o.starts[i])
	} else {
		from += uint64(i)
	}
	n := uint64(l.freqAt(i))
	if from+n > o.total {
		return nil, corrupt("position %d of %d", from+n, o.total)
	}
	out := o.out[:0]
	p := uint32(0)
	for k := from; k < from+n; {
		packed, w, at, have := o.packed[:cap(o.packed)], o.width, k, o.total-k
		if o.ends != nil {
			if b := int(k / block.Size); b != o.at {
				if err := o.load(b); err != nil {
					return nil, err
				}
			}
			packed, w, at = o.from, o.atWidth, k%block.Size
			have = block.Size - at // as total bounds it too
		}
		for range min(have, from+n-k) {
			p += block.At(packed, w, int(at))
			out = append(out, p)
			at++
			k++
		}
	}
	o.out = out
	return out, nil
}

// load goes to a block of positions.
func (o *positionList) load(b int) error {
	start, end := uint32(0), binary.LittleEndian.Uint32(o.ends[4*b:])
	if b > 0 {
		start = binary.LittleEndian.Uint32(o.ends[4*(b-1):])
	}
	w := uint(o.widths[b])
	count := min(o.total-uint64(b)*block.Size, block.Size)
	if w > block.MaxWidth || start > end || int(end) > len(o.packed) || int(end-start) != block.Bytes(int(count), w) {
		return corrupt("block %d of the positions of a term contradicts itself", b)
	}
	o.at, o.from, o.atWidth = b, o.packed[start:cap(o.packed)], w
	return nil
}

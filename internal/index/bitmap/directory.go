package bitmap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"sort"

	"github.com/overlakedb/overlake/internal/checksum"
	"github.com/overlakedb/overlake/internal/predicate"
)

// The directory, behind the blocks:
//
//	byte       how many columns; a byte for the kind of each
//	uvarint    rows covered, rows with NULL, postings, different keys
//	bytes      the least key and the greatest, each with its length before it as a uvarint
//	uvarint    how many blocks, how many of them are of NULLs; these come first
//	list       the bytes of each block
//	list       the postings of each block, less one
//	list       for each block its keys; 0 is a block of one key or of NULLs
//	uint32     for each block the CRC-32C of its bytes
//	keys       for each block but those of NULLs its first key: of Ints and Floats the list of the differences as
//	           numbers, else as a front-coded list (list of shared lengths, list of the other lengths, the bytes)
//
// The tail, the last 32 bytes, little endian:
//
//	uint64     bytes of the directory
//	uint64     bytes of the artifact
//	uint32     CRC-32C of the directory
//	uint16     version of the format, 1
//	uint16     0
//	uint32     CRC-32C of the 24 bytes before
//	4 bytes    "OLBM"
const (
	tailSize      = 32
	magic         = "OLBM"
	formatVersion = 1
)

var errDirectory = errors.New("the directory is cut off or impossible")

// entry is a block in the directory.
type entry struct {
	key      []byte // nil for NULLs
	keys     int    // 0 for a block of one key
	postings int
	size     int64
	sum      uint32
}

// directory is what Open keeps of an artifact.
type directory struct {
	columns            []predicate.KeyKind
	rows, postings     int64
	distinct           int64
	min, max           []byte
	nullBlocks         int
	offsets            []int64 // of each block, and the end of the last one
	before             []int64 // the postings, NULLs among them, of the blocks before each, and all
	keys               []uint16
	sums               []uint32
	first              keyList // for the blocks behind those of NULLs
	nulls              int64
	headSize, fileSize int64
	sum                uint32 // of the whole artifact
}

func (d *directory) enter(e entry) {
	n := len(d.sums)
	d.offsets = append(d.offsets, d.offsets[n]+e.size)
	d.before = append(d.before, d.before[n]+int64(e.postings))
	d.keys = append(d.keys, uint16(e.keys))
	d.sums = append(d.sums, e.sum)
	if n >= d.nullBlocks {
		d.first.add(e.key)
	}
}

// blocks is the number of blocks.
func (d *directory) blocks() int { return len(d.sums) }

// key is the first key of a block that is not of NULLs.
func (d *directory) key(block int) []byte { return d.first.at(block - d.nullBlocks) }

// continues tells whether a block that is not of NULLs goes on with the key of the block before.
func (d *directory) continues(block int) bool {
	return block > d.nullBlocks && d.keys[block] == 0 && d.keys[block-1] == 0 && bytes.Equal(d.key(block), d.key(block-1))
}

func (d *directory) memory() int64 {
	return int64(cap(d.offsets)+cap(d.before)+cap(d.first.ends))*8 + int64(cap(d.keys))*2 + int64(cap(d.sums))*4 +
		int64(cap(d.first.text)+cap(d.min)+cap(d.max)) + 256
}

// append appends the directory and the tail.
func (d *directory) append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, byte(len(d.columns)))
	for _, k := range d.columns {
		dst = append(dst, byte(k))
	}
	n := d.blocks()
	for _, v := range []int64{d.rows, d.nulls, d.postings, d.distinct} {
		dst = binary.AppendUvarint(dst, uint64(v))
	}
	for _, b := range [][]byte{d.min, d.max} {
		dst = append(binary.AppendUvarint(dst, uint64(len(b))), b...)
	}
	dst = binary.AppendUvarint(dst, uint64(n))
	dst = binary.AppendUvarint(dst, uint64(d.nullBlocks))
	v := make([]uint64, n)
	each := func(f func(i int) uint64) {
		for i := range v {
			v[i] = f(i)
		}
		dst = appendList(dst, v)
	}
	each(func(i int) uint64 { return uint64(d.offsets[i+1] - d.offsets[i]) })
	each(func(i int) uint64 { return uint64(d.before[i+1]-d.before[i]) - 1 })
	each(func(i int) uint64 { return uint64(d.keys[i]) })
	for _, s := range d.sums {
		dst = binary.LittleEndian.AppendUint32(dst, s)
	}
	v = v[:n-d.nullBlocks]
	if keyKind(d.columns).Width() == 8 {
		before := uint64(0)
		each(func(i int) uint64 {
			w := tail(d.first.at(i))
			gap := w - before
			before = w
			return gap
		})
	} else {
		shared := func(i int) int {
			if i == 0 {
				return 0
			}
			return commonPrefix(d.first.at(i-1), d.first.at(i))
		}
		each(func(i int) uint64 { return uint64(shared(i)) })
		each(func(i int) uint64 { return uint64(len(d.first.at(i)) - shared(i)) })
		for i := range v {
			dst = append(dst, d.first.at(i)[shared(i):]...)
		}
	}
	size := uint64(len(dst) - start)
	sum := checksum.Of(dst[start:])
	at := len(dst)
	dst = binary.LittleEndian.AppendUint64(dst, size)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(d.offsets[n])+size+tailSize)
	dst = binary.LittleEndian.AppendUint32(dst, sum)
	dst = binary.LittleEndian.AppendUint16(dst, formatVersion)
	dst = binary.LittleEndian.AppendUint16(dst, 0)
	dst = binary.LittleEndian.AppendUint32(dst, checksum.Of(dst[at:]))
	return append(dst, magic...)
}

// tailOf reads the tail of an artifact of the given size and returns the size and the checksum of its directory.
func tailOf(b []byte, size int64) (dir int64, sum uint32, err error) {
	const op = "bitmap.open"
	if len(b) != tailSize || string(b[28:]) != magic {
		return 0, 0, corrupt(op, "it does not end in its mark")
	}
	if checksum.Of(b[:24]) != binary.LittleEndian.Uint32(b[24:]) {
		return 0, 0, corrupt(op, "the checksum of its tail is wrong")
	}
	if v := binary.LittleEndian.Uint16(b[20:]); v != formatVersion || b[22] != 0 || b[23] != 0 {
		return 0, 0, unsupported(op, v)
	}
	if all := binary.LittleEndian.Uint64(b[8:]); all != uint64(size) {
		return 0, 0, corrupt(op, "it is not as long as it was written")
	}
	n := binary.LittleEndian.Uint64(b)
	if n > uint64(size)-tailSize {
		return 0, 0, corrupt(op, "its directory is longer than the artifact")
	}
	return int64(n), binary.LittleEndian.Uint32(b[16:]), nil
}

// cursor reads the parts of a directory; after a failure all it reads is nothing.
type cursor struct {
	b   []byte // padded
	off int
	err error
}

func (c *cursor) fail() {
	if c.err == nil {
		c.err = errDirectory
	}
}

// number reads a uvarint that is at most the given one.
func (c *cursor) number(most uint64) uint64 {
	if c.err != nil {
		return 0
	}
	v, n := binary.Uvarint(c.b[c.off:])
	if n <= 0 || v > most {
		c.fail()
		return 0
	}
	c.off += n
	return v
}

func (c *cursor) bytes(n uint64) []byte {
	if c.err != nil || n > uint64(len(c.b)-c.off) {
		c.fail()
		return nil
	}
	c.off += int(n)
	return c.b[c.off-int(n) : c.off]
}

func (c *cursor) list(dst []uint64) {
	if c.err != nil {
		return
	}
	off, err := readList(dst, c.b, c.off)
	if err != nil {
		c.fail()
		return
	}
	c.off = off
}

// readDirectory reads a directory, whose checksum is right, of an artifact of the given size. It is padded.
func readDirectory(b []byte, size int64) (*directory, error) {
	d := &directory{headSize: int64(len(b)), fileSize: size}
	c := &cursor{b: b}
	if n := c.bytes(1); n != nil && n[0] > 0 && n[0] <= maxKinds {
		for _, k := range c.bytes(uint64(n[0])) {
			if predicate.KeyKind(k) == predicate.NoKeys || predicate.KeyKind(k) >= predicate.Tuples {
				c.fail()
			}
			d.columns = append(d.columns, predicate.KeyKind(k))
		}
	} else {
		c.fail()
	}
	d.rows = int64(c.number(math.MaxInt64))
	d.nulls = int64(c.number(uint64(d.rows)))
	d.postings = int64(c.number(uint64(d.rows)))
	d.distinct = int64(c.number(uint64(d.postings)))
	d.min = bytes.Clone(c.bytes(c.number(uint64(len(b)))))
	d.max = bytes.Clone(c.bytes(c.number(uint64(len(b)))))
	// Each block has a checksum of four bytes here, so no number of blocks is allocated for that is not there.
	n := int(c.number(uint64(len(b)) / 4))
	d.nullBlocks = int(c.number(uint64(n)))
	if c.err != nil {
		return nil, c.err
	}
	v := make([]uint64, n)
	d.offsets, d.before = make([]int64, n+1), make([]int64, n+1)
	d.keys, d.sums = make([]uint16, n), make([]uint32, n)
	c.list(v)
	end := size - int64(len(b)) - tailSize
	for i, s := range v {
		if s == 0 || s > uint64(end-d.offsets[i]) {
			return nil, errDirectory
		}
		d.offsets[i+1] = d.offsets[i] + int64(s)
	}
	c.list(v)
	for i, p := range v {
		if p >= maxBlockPostings {
			return nil, errDirectory
		}
		d.before[i+1] = d.before[i] + int64(p) + 1
	}
	c.list(v)
	for i, k := range v {
		if k > maxBlockKeys || k > uint64(d.before[i+1]-d.before[i]) || i < d.nullBlocks && k != 0 {
			return nil, errDirectory
		}
		d.keys[i] = uint16(k)
	}
	sums := c.bytes(4 * uint64(n))
	if c.err != nil {
		return nil, c.err
	}
	for i := range d.sums {
		d.sums[i] = binary.LittleEndian.Uint32(sums[4*i:])
	}
	if err := d.readKeys(c, v[:n-d.nullBlocks]); err != nil {
		return nil, err
	}
	distinct := int64(0)
	for b := d.nullBlocks; b < n; b++ {
		distinct += int64(d.keys[b])
		if d.keys[b] == 0 && !d.continues(b) {
			distinct++
		}
	}
	if d.postings == 0 {
		d.min, d.max = nil, nil
	}
	if c.off != len(b) || d.offsets[n] != end || d.before[d.nullBlocks] != d.nulls || d.before[n]-d.nulls != d.postings || distinct != d.distinct ||
		len(d.columns) > 1 && d.nulls > 0 {
		return nil, errDirectory
	}
	return d, nil
}

func (d *directory) readKeys(c *cursor, v []uint64) error {
	kind := keyKind(d.columns)
	d.first.ends = make([]int, len(v))
	if kind.Width() == 8 {
		c.list(v)
		d.first.text = make([]byte, 0, 8*len(v))
		at := uint64(0)
		for i, gap := range v {
			at += gap
			d.first.text = binary.BigEndian.AppendUint64(d.first.text, at)
			d.first.ends[i] = len(d.first.text)
		}
	} else {
		rest := make([]uint64, len(v))
		c.list(v)
		c.list(rest)
		total, before, left := uint64(0), uint64(0), uint64(len(c.b)-c.off)
		for i := range v {
			if v[i] > before || rest[i] > left {
				return errDirectory
			}
			left -= rest[i]
			before = v[i] + rest[i]
			if total += before; total > maxDirectory {
				return errDirectory
			}
		}
		d.first.text = slices.Grow(d.first.text, int(total))
		start := 0
		for i := range v {
			from := len(d.first.text)
			d.first.text = append(d.first.text, d.first.text[start:start+int(v[i])]...)
			d.first.text = append(d.first.text, c.bytes(rest[i])...)
			d.first.ends[i] = len(d.first.text)
			start = from
		}
	}
	if c.err != nil {
		return c.err
	}
	for i := 1; i < len(v); i++ {
		b := d.nullBlocks + i
		switch order := bytes.Compare(d.first.at(i-1), d.first.at(i)); {
		case order > 0, order == 0 && (d.keys[b] != 0 || d.keys[b-1] != 0):
			return errDirectory
		}
	}
	return nil
}

// maxDirectory bounds the first keys of all blocks, written out.
const maxDirectory = 1 << 28

// span is the blocks from ≤ i < to that may hold keys of a range.
func (d *directory) span(r predicate.Range) (from, to int) {
	n := d.first.len()
	from = sort.Search(n, func(i int) bool { return bytes.Compare(d.first.at(i), r.Lo) >= 0 })
	if from > 0 && d.keys[d.nullBlocks+from-1] != 0 && (from == n || !bytes.Equal(d.first.at(from), r.Lo)) {
		from--
	}
	to = n
	if !r.NoHi {
		to = from + sort.Search(n-from, func(i int) bool {
			c := bytes.Compare(d.first.at(from+i), r.Hi)
			return c > 0 || c == 0 && r.HiOpen
		})
	}
	return from + d.nullBlocks, to + d.nullBlocks
}

// part is a block that holds, or may hold, keys that are looked for.
type part struct {
	block    int
	all      bool // all its keys are
	from, to int  // else the ranges that may have some of its keys
}

// parts lists the blocks of the ranges, ascending.
func (d *directory) parts(keys predicate.Ranges) []part {
	var out []part
	for i, r := range keys {
		if d.postings == 0 || r.Empty() || !r.NoHi && bytes.Compare(r.Hi, d.min) < 0 || bytes.Compare(r.Lo, d.max) > 0 {
			continue
		}
		from, to := d.span(r)
		for b := from; b < to; b++ {
			p := part{block: b, from: i, to: i + 1}
			if d.keys[b] == 0 {
				if !r.Contains(d.key(b)) {
					continue
				}
				p.all = true
			} else {
				p.all = d.inside(b, r)
			}
			if n := len(out); n > 0 && out[n-1].block == b {
				out[n-1].to = i + 1
				out[n-1].all = out[n-1].all || p.all
				continue
			}
			out = append(out, p)
		}
	}
	return out
}

// inside tells whether all keys of a block of many keys are known to be in the range.
func (d *directory) inside(b int, r predicate.Range) bool {
	lo := d.key(b)
	if b == d.nullBlocks {
		lo = d.min
	}
	if c := bytes.Compare(lo, r.Lo); c < 0 || c == 0 && r.LoOpen {
		return false
	}
	if r.NoHi {
		return true
	}
	if b+1 < d.blocks() {
		return bytes.Compare(d.key(b+1), r.Hi) <= 0
	}
	c := bytes.Compare(d.max, r.Hi)
	return c < 0 || c == 0 && !r.HiOpen
}

// sumWhole joins the checksums of the blocks with those of a directory and a tail.
func (d *directory) sumWhole(dir, tail []byte) uint32 {
	sum := uint32(0)
	for i, s := range d.sums {
		sum = checksum.Join(sum, s, d.offsets[i+1]-d.offsets[i])
	}
	sum = checksum.Join(sum, checksum.Of(dir), int64(len(dir)))
	return checksum.Join(sum, checksum.Of(tail), int64(len(tail)))
}

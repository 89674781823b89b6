package bitmap

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/overlakedb/overlake/internal/predicate"
)

// A block of many keys:
//
//	uvarint    bytes of the keys
//	keys       see keys.go
//	list       for each key its rows less one; not there when every key has one row
//	byte       0: the first rows less the base; 1: the first rows less the first row of the key before, in zigzag
//	uvarint    the base; of form 1 the first row of the first key
//	list       the first row of each key in that form; of form 1 without the first key
//	list       of the other rows, key by key: the difference to the row before, less one
//
// A block of one key, or of NULLs:
//
//	byte       0: gaps; 1: runs
//	uvarint    the first row
//	gaps       list of the differences of the rows, less one
//	runs       uvarint how many; list of their lengths, less one; list of the rows left out between them, less one
const (
	plainFirsts = 0
	deltaFirsts = 1

	gapRows = 0
	runRows = 1
)

var errBlock = errors.New("the rows of a block are cut off or impossible")

func zigzag(d int64) uint64   { return uint64(d<<1) ^ uint64(d>>63) }
func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// scratch is memory that encoding blocks uses again.
type scratch struct {
	keys, a, b []uint64
	lists      [2][]byte
}

// appendMany appends a block of the first n keys; counts says how many of the rows each has.
func appendMany(dst []byte, keys *keyList, n int, counts []int, rows []uint64, s *scratch) []byte {
	s.lists[0], s.keys = appendKeys(s.lists[0][:0], keys, n, s.keys)
	dst = binary.AppendUvarint(dst, uint64(len(s.lists[0])))
	dst = append(dst, s.lists[0]...)
	if len(rows) > n {
		s.a = slices.Grow(s.a[:0], n)
		for _, c := range counts[:n] {
			s.a = append(s.a, uint64(c-1))
		}
		dst = appendList(dst, s.a)
	}
	s.a = slices.Grow(s.a[:0], n)
	s.b = slices.Grow(s.b[:0], n)
	base, at, before := rows[0], 0, rows[0]
	for i, c := range counts[:n] {
		r := rows[at]
		s.a = append(s.a, r)
		if i > 0 {
			s.b = append(s.b, zigzag(int64(r-before)))
		}
		base, before = min(base, r), r
		at += c
	}
	for i := range s.a {
		s.a[i] -= base
	}
	s.lists[0] = appendList(s.lists[0][:0], s.a)
	s.lists[1] = appendList(s.lists[1][:0], s.b)
	if len(s.lists[0]) <= len(s.lists[1]) {
		dst = binary.AppendUvarint(append(dst, plainFirsts), base)
		dst = append(dst, s.lists[0]...)
	} else {
		dst = binary.AppendUvarint(append(dst, deltaFirsts), rows[0])
		dst = append(dst, s.lists[1]...)
	}
	s.a = slices.Grow(s.a[:0], len(rows)-n)
	at = 0
	for _, c := range counts[:n] {
		for i := at + 1; i < at+c; i++ {
			s.a = append(s.a, rows[i]-rows[i-1]-1)
		}
		at += c
	}
	return appendList(dst, s.a)
}

// appendOne appends a block of ascending rows of one key.
func appendOne(dst []byte, rows []uint64, s *scratch) []byte {
	s.a = slices.Grow(s.a[:0], len(rows))
	runs := 1
	for i := 1; i < len(rows); i++ {
		gap := rows[i] - rows[i-1] - 1
		s.a = append(s.a, gap)
		if gap > 0 {
			runs++
		}
	}
	s.lists[0] = appendList(s.lists[0][:0], s.a)
	if runs <= len(rows)/2 {
		s.keys, s.b = s.keys[:0], s.b[:0]
		length := uint64(0)
		for _, gap := range s.a {
			if gap == 0 {
				length++
				continue
			}
			s.keys = append(s.keys, length)
			s.b = append(s.b, gap-1)
			length = 0
		}
		s.keys = append(s.keys, length)
		l := binary.AppendUvarint(s.lists[1][:0], uint64(runs))
		l = appendList(l, s.keys)
		s.lists[1] = appendList(l, s.b)
		if len(s.lists[1]) < len(s.lists[0]) {
			dst = binary.AppendUvarint(append(dst, runRows), rows[0])
			return append(dst, s.lists[1]...)
		}
	}
	dst = binary.AppendUvarint(append(dst, gapRows), rows[0])
	return append(dst, s.lists[0]...)
}

// block is a decoded block. Its memory is used again by the next decode.
type block struct {
	keys blockKeys // of a block of many keys

	counts   []uint64 // rows of each key, after decodeCounts
	starts   []int    // where the rows of each key begin in gaps, and their end
	firsts   []uint64
	gaps     []uint64
	rest     int // where the rows begin
	postings int
}

// split finds the keys of a block of many keys and remembers where its rows begin.
func (bl *block) split(b []byte, keys, postings int) ([]byte, error) {
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) || keys <= 0 || keys > maxBlockKeys || postings < keys || postings > maxBlockPostings {
		return nil, errBlock
	}
	bl.rest = n + int(size)
	bl.postings = postings
	return b[n:bl.rest:cap(b)], nil
}

// decodeKeys reads the keys of a block of many keys.
func (bl *block) decodeKeys(b []byte, keys, postings int, kind predicate.KeyKind) error {
	k, err := bl.split(b, keys, postings)
	if err != nil {
		return err
	}
	return bl.keys.decode(k, keys, kind)
}

// decodeCounts reads how many rows each key has.
func (bl *block) decodeCounts(b []byte, keys int) error {
	bl.counts = slices.Grow(bl.counts[:0], keys)[:keys]
	if bl.postings == keys {
		for i := range bl.counts {
			bl.counts[i] = 1
		}
		return nil
	}
	off, err := readList(bl.counts, b, bl.rest)
	if err != nil {
		return err
	}
	bl.rest = off
	left := uint64(bl.postings)
	for i, c := range bl.counts {
		if c >= left {
			return errBlock
		}
		left -= c + 1
		bl.counts[i] = c + 1
	}
	if left != 0 {
		return errBlock
	}
	return nil
}

// decodeFirsts reads the first row of each key, all of which must be below the given number, and tells where the other rows
// begin.
func (bl *block) decodeFirsts(b []byte, keys int, rows uint64) (off int, err error) {
	bl.firsts = slices.Grow(bl.firsts[:0], keys)[:keys]
	if bl.rest >= len(b) {
		return 0, errBlock
	}
	form := b[bl.rest]
	base, n := binary.Uvarint(b[bl.rest+1:])
	if n <= 0 || base >= rows {
		return 0, errBlock
	}
	off = bl.rest + 1 + n
	switch form {
	case plainFirsts:
		off, err = readList(bl.firsts, b, off)
		for i, r := range bl.firsts {
			if r >= rows-base {
				return 0, errBlock
			}
			bl.firsts[i] = base + r
		}
	case deltaFirsts:
		off, err = readList(bl.firsts[1:], b, off)
		bl.firsts[0] = base
		for i, z := range bl.firsts[1:] {
			base += uint64(unzigzag(z))
			if base >= rows {
				return 0, errBlock
			}
			bl.firsts[i+1] = base
		}
	default:
		return 0, errBlock
	}
	return off, err
}

// decodeRows reads the rows, all of which must be below the given number.
func (bl *block) decodeRows(b []byte, keys int, rows uint64) error {
	off, err := bl.decodeFirsts(b, keys, rows)
	if err != nil {
		return err
	}
	bl.gaps = slices.Grow(bl.gaps[:0], bl.postings-keys)[:bl.postings-keys]
	if off, err = readList(bl.gaps, b, off); err != nil {
		return err
	}
	if off != len(b) {
		return errBlock
	}
	// Gaps become rows in place.
	bl.starts = slices.Grow(bl.starts[:0], keys+1)
	at := 0
	for i, first := range bl.firsts {
		bl.starts = append(bl.starts, at)
		r := first
		for end := at + int(bl.counts[i]) - 1; at < end; at++ {
			next := r + bl.gaps[at] + 1
			if next <= r || next >= rows {
				return errBlock
			}
			bl.gaps[at], r = next, next
		}
	}
	bl.starts = append(bl.starts, at)
	return nil
}

// others are the rows of key i after its first.
func (bl *block) others(i int) []uint64 { return bl.gaps[bl.starts[i]:bl.starts[i+1]] }

// firstOf is the first row in a block of one key.
func firstOf(b []byte, rows uint64) (uint64, error) {
	if len(b) == 0 {
		return 0, errBlock
	}
	first, n := binary.Uvarint(b[1:])
	if n <= 0 || first >= rows {
		return 0, errBlock
	}
	return first, nil
}

// decodeOne reads a block of one key and calls yield with its rows as runs, ascending: many of them one row long.
func (bl *block) decodeOne(b []byte, postings int, rows uint64, yield func(lo, hi uint64)) error {
	if len(b) == 0 || postings <= 0 || postings > maxBlockPostings {
		return errBlock
	}
	first, err := firstOf(b, rows)
	if err != nil {
		return err
	}
	_, n := binary.Uvarint(b[1:])
	off := 1 + n
	switch b[0] {
	case gapRows:
		bl.gaps = slices.Grow(bl.gaps[:0], postings)[:postings-1]
		off, err := readList(bl.gaps, b, off)
		if err != nil {
			return err
		}
		if off != len(b) {
			return errBlock
		}
		lo, hi := first, first+1
		for _, gap := range bl.gaps {
			if gap == 0 && hi < rows {
				hi++
				continue
			}
			if gap >= rows-hi {
				return errBlock
			}
			yield(lo, hi)
			lo = hi + gap
			hi = lo + 1
		}
		yield(lo, hi)
		return nil
	case runRows:
		runs, n := binary.Uvarint(b[off:])
		if n <= 0 || runs == 0 || runs > uint64(postings) {
			return errBlock
		}
		off += n
		bl.gaps = slices.Grow(bl.gaps[:0], 2*int(runs))[:2*int(runs)-1]
		lengths, gaps := bl.gaps[:runs], bl.gaps[runs:]
		off, err := readList(lengths, b, off)
		if err != nil {
			return err
		}
		if off, err = readList(gaps, b, off); err != nil {
			return err
		}
		if off != len(b) {
			return errBlock
		}
		left := uint64(postings)
		lo := first
		for i, length := range lengths {
			if i > 0 {
				if gaps[i-1] >= rows-lo || gaps[i-1]+1 >= rows-lo {
					return errBlock
				}
				lo += gaps[i-1] + 1
			}
			if length >= left || length >= rows-lo {
				return errBlock
			}
			left -= length + 1
			yield(lo, lo+length+1)
			lo += length + 1
		}
		if left != 0 {
			return errBlock
		}
		return nil
	}
	return errBlock
}

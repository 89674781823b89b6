package segment

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"slices"

	"github.com/overlakedb/overlake/internal/checksum"
	"github.com/overlakedb/overlake/internal/index/bm25/block"
	"github.com/overlakedb/overlake/internal/index/bm25/posting"
)

func sortBy(order []int, key func(int) int64) {
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(key(a), key(b)) })
}

// A place is what Term.At says. Its first number holds the form in two bits, then:
//
//	inline  1 row · 2 position
//	small   0 offset of the shared run, three widths · 1 its length, where in it · 2 length of the shared positions, where in
//	        them · 3 both checksums
//	large   0 offset of the run · 1 its length · 2 length of the positions behind it · 3 both checksums
const (
	formInline = 1
	formSmall  = 2
	formLarge  = 3
)

// dictBlock is a block of the dictionary that was read.
type dictBlock struct {
	f       *fieldReader
	rows    uint32
	n       int
	keys    []byte
	stats   []byte
	base    int64
	small   uint32 // checksums
	smallAt uint32

	terms []posting.Term // once all numbers are read
}

// parseBlock reads a block without its last four bytes, which are the checksum.
func parseBlock(f *fieldReader, rows uint32, b []byte) (*dictBlock, error) {
	d := &dictBlock{f: f, rows: rows}
	n, k := binary.Uvarint(b)
	if k <= 0 || n == 0 || n > termsPerBlock {
		return nil, corrupt("a dictionary block of %d terms", n)
	}
	b = b[k:]
	length, k := binary.Uvarint(b)
	if k <= 0 || length > uint64(len(b)-k) {
		return nil, corrupt("a dictionary block does not decode")
	}
	d.n, d.keys = int(n), b[k:k+int(length)]
	b = b[k+int(length):]
	base, k := binary.Uvarint(b)
	sums := 4
	if f.Positions {
		sums = 8
	}
	if k <= 0 || base > math.MaxInt64/2 || len(b) < k+sums {
		return nil, corrupt("a dictionary block does not decode")
	}
	d.base = int64(base)
	d.small = binary.LittleEndian.Uint32(b[k:])
	if f.Positions {
		d.smallAt = binary.LittleEndian.Uint32(b[k+4:])
	}
	d.stats = b[k+sums:]
	return d, nil
}

// readBlocks reads dictionary blocks of a field, by their numbers.
func (r *Reader) readBlocks(ctx context.Context, f *fieldReader, numbers []int) ([]*dictBlock, error) {
	spans := make([]span, len(numbers))
	for i, n := range numbers {
		spans[i] = span{off: f.blocks[n], length: f.blocks[n+1] - f.blocks[n]}
	}
	// The checksum of a block stands at its end.
	raw, err := r.read(ctx, dictionarySection, r.dict, spans, false)
	if err != nil {
		return nil, err
	}
	out := make([]*dictBlock, len(numbers))
	for i, b := range raw {
		if len(b) < 4 {
			return nil, corrupt("a dictionary block of %d bytes", len(b))
		}
		body := b[:len(b)-4]
		if !r.resident && checksum.Of(body) != binary.LittleEndian.Uint32(b[len(body):]) {
			return nil, corrupt("dictionary block %d fails its checksum", numbers[i])
		}
		if out[i], err = parseBlock(f, r.head.Rows, body); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// find gives the place of a term in the block, -1 when it is not there. Keys are compared by how much they share with the
// term: while they are less, a key that shares more with the one before than the term does is less too.
func (d *dictBlock) find(term []byte) (int, error) {
	keys, match := d.keys, 0
	length := 0
	for i := range d.n {
		shared, suffix, rest, err := nextKey(keys, length)
		if err != nil {
			return -1, err
		}
		keys, length = rest, shared+len(suffix)
		if shared > match {
			continue
		}
		if shared < match {
			return -1, nil
		}
		n := commonPrefix(term[match:], suffix)
		match += n
		switch {
		case n == len(suffix):
			if match == len(term) {
				return i, nil
			}
		case match == len(term) || suffix[n] > term[match]:
			return -1, nil
		}
	}
	return -1, nil
}

// nextKey takes a key off, given the length of the one before.
func nextKey(keys []byte, before int) (shared int, suffix, rest []byte, err error) {
	if len(keys) >= 2 && keys[0] < 0x80 && keys[1] < 0x80 {
		shared, n := int(keys[0]), int(keys[1])
		if shared <= before && n <= len(keys)-2 {
			return shared, keys[2 : 2+n], keys[2+n:], nil
		}
		return 0, nil, nil, corrupt("a dictionary block does not decode")
	}
	s, k := binary.Uvarint(keys)
	if k <= 0 || s > uint64(before) {
		return 0, nil, nil, corrupt("a dictionary block does not decode")
	}
	keys = keys[k:]
	n, k := binary.Uvarint(keys)
	if k <= 0 || n > uint64(len(keys)-k) || s+n > MaxTerm {
		return 0, nil, nil, corrupt("a dictionary block does not decode")
	}
	return int(s), keys[k : k+int(n)], keys[k+int(n):], nil
}

// decode reads the numbers of all terms.
func (d *dictBlock) decode() error {
	if d.terms != nil {
		return nil
	}
	terms := make([]posting.Term, d.n)
	b := d.stats
	bad := false
	number := func() uint64 {
		v, k := binary.Uvarint(b)
		if k <= 0 {
			bad, b = true, nil
			return 0
		}
		b = b[k:]
		return v
	}
	one := func() byte {
		if len(b) == 0 {
			bad = true
			return 0
		}
		v := b[0]
		b = b[1:]
		return v
	}
	sum := func() uint64 {
		if len(b) < 4 {
			bad, b = true, nil
			return 0
		}
		v := binary.LittleEndian.Uint32(b)
		b = b[4:]
		return uint64(v)
	}
	at := d.base // of the next large run
	small, smallPos := int64(0), int64(0)
	for i := range terms {
		t := &terms[i]
		docs := number()
		if docs == 0 {
			t.DocFreq, t.TotalFreq = 1, 1
			t.At[0], t.At[1] = formInline, number()
			if d.f.Positions {
				t.At[2] = number()
			}
			if t.At[1] >= uint64(d.rows) || t.At[2] > math.MaxInt32 {
				bad = true
			}
		} else {
			more := number()
			if docs > uint64(d.f.Docs) || more > uint64(d.f.SumTotalTermFreq) {
				bad = true
				break
			}
			t.DocFreq, t.TotalFreq = int64(docs), int64(docs+more)
			if isSmall(docs, docs+more) {
				var w [3]byte
				if w[0] = one(); more > 0 {
					w[1] = one()
				}
				if d.f.Positions {
					w[2] = one()
				}
				if w[0] > block.MaxWidth || w[1] > block.MaxWidth || w[2] > block.MaxWidth {
					bad = true
					break
				}
				t.At[0] = formSmall | uint64(w[0])<<2 | uint64(w[1])<<8 | uint64(w[2])<<14
				t.At[1], t.At[2] = uint64(small), uint64(smallPos)
				small += int64(block.Bytes(int(docs), uint(w[0]))) + int64(block.Bytes(int(docs), uint(w[1])))
				smallPos += int64(block.Bytes(int(docs+more), uint(w[2])))
			} else {
				length := number()
				sums := sum()
				var pos uint64
				if d.f.Positions {
					pos = number()
					sums |= sum() << 32
				}
				if length > math.MaxInt64/4 || pos > math.MaxInt64/4 || uint64(at) > math.MaxInt64/4 {
					bad = true
					break
				}
				t.At = [4]uint64{formLarge | uint64(at)<<2, length, pos, sums}
				at += int64(length) + int64(pos)
			}
		}
		if bad {
			break
		}
	}
	if bad || len(b) > 0 || at > 1<<43 || small > math.MaxUint32 || smallPos > math.MaxUint32 {
		return corrupt("the numbers of a dictionary block do not decode")
	}
	for i := range terms {
		if t := &terms[i]; t.At[0]&3 == formSmall {
			t.At[0] |= uint64(at) << 20
			t.At[1] |= uint64(small) << 32
			t.At[2] |= uint64(smallPos) << 32
			t.At[3] = uint64(d.small) | uint64(d.smallAt)<<32
		}
	}
	d.terms = terms
	return nil
}

// Lookup finds terms of a field in one round of reads.
func (r *Reader) Lookup(ctx context.Context, field int, terms [][]byte) ([]posting.Term, error) {
	f, err := r.fieldOf("segment.lookup", field)
	if err != nil {
		return nil, err
	}
	out := make([]posting.Term, len(terms))
	var numbers []int
	which := make([]int, len(terms))
	for i, t := range terms {
		n := f.find(t)
		which[i] = -1
		if n < 0 {
			continue
		}
		if which[i] = slices.Index(numbers, n); which[i] < 0 {
			which[i] = len(numbers)
			numbers = append(numbers, n)
		}
	}
	blocks, err := r.readBlocks(ctx, f, numbers)
	if err != nil {
		return nil, err
	}
	for i, t := range terms {
		if which[i] < 0 {
			continue
		}
		d := blocks[which[i]]
		at, err := d.find(t)
		if err != nil {
			return nil, err
		}
		if at < 0 {
			continue
		}
		if err := d.decode(); err != nil {
			return nil, err
		}
		out[i] = d.terms[at]
	}
	return out, nil
}

// walkBlocks is how many dictionary blocks Walk reads at once: 128 KiB or so.
const walkBlocks = 128

// Walk gives the terms of a field in order, from the first that is not less than from; see posting.Source.
func (r *Reader) Walk(ctx context.Context, field int, from []byte, yield func(term []byte, t posting.Term) (seek []byte, more bool)) error {
	f, err := r.fieldOf("segment.walk", field)
	if err != nil {
		return err
	}
	from = slices.Clone(from)
	n := max(f.find(from), 0)
	ahead := 1 // grows while blocks are taken one after another
	for n < int(f.Blocks) {
		numbers := make([]int, 0, ahead)
		for k := n; k < min(n+ahead, int(f.Blocks)); k++ {
			numbers = append(numbers, k)
		}
		blocks, err := r.readBlocks(ctx, f, numbers)
		if err != nil {
			return err
		}
		jumped := false
		for i, d := range blocks {
			if err := canceled(ctx); err != nil {
				return err
			}
			seek, more, err := d.walk(from, yield)
			if err != nil || !more {
				return err
			}
			if seek != nil {
				from = seek
				if next := f.find(from); next > numbers[i]+1 {
					n, jumped = next, true
					break
				}
			}
		}
		if jumped {
			ahead = 1
			continue
		}
		n += len(numbers)
		ahead = min(2*ahead, walkBlocks)
	}
	return nil
}

// walk gives the terms of the block that are not less than from. seek is from where on the next ones are wanted.
func (d *dictBlock) walk(from []byte, yield func(term []byte, t posting.Term) ([]byte, bool)) (seek []byte, more bool, err error) {
	if err := d.decode(); err != nil {
		return nil, false, err
	}
	keys := d.keys
	var key []byte
	for i := range d.terms {
		shared, suffix, rest, err := nextKey(keys, len(key))
		if err != nil {
			return nil, false, err
		}
		if len(suffix) == 0 || shared < len(key) && suffix[0] <= key[shared] {
			return nil, false, corrupt("the terms of a dictionary block are not in order")
		}
		key, keys = append(key[:shared], suffix...), rest
		if bytes.Compare(key, from) < 0 {
			continue
		}
		next, more := yield(key, d.terms[i])
		if !more {
			return nil, false, nil
		}
		if next != nil {
			from = slices.Clone(next)
			seek = from
		}
	}
	return seek, true, nil
}

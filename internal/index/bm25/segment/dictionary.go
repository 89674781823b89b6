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
	f     *fieldReader
	rows  uint32
	n     int
	keys  []byte
	stats []byte

	base     int64 // where its first large run begins
	small    int64 // where the shared run begins, behind the large ones
	smallLen int64
	posLen   int64
	smallSum uint32
	posSum   uint32
}

// parseBlock reads a block without its last four bytes, which are the checksum. Runs end at limit.
func parseBlock(f *fieldReader, rows uint32, limit int64, b []byte) (d dictBlock, err error) {
	d.f, d.rows = f, rows
	n := numbers{b: b}
	d.n = int(min(n.uvarint(), termsPerBlock+1))
	length := n.uvarint()
	if n.bad || d.n == 0 || d.n > termsPerBlock || length > uint64(len(n.b)) {
		return d, corrupt("a dictionary block does not decode")
	}
	d.keys, n.b = n.b[:length], n.b[length:]
	base, large, small, pos := n.uvarint(), n.uvarint(), n.uvarint(), uint64(0)
	d.smallSum = n.sum()
	if f.Positions {
		pos = n.uvarint()
		d.posSum = n.sum()
	}
	most := uint64(limit)
	if n.bad || base > most || large > most || small > most || pos > most || base+large+small+pos > most || small > math.MaxUint32 || pos > math.MaxUint32 {
		return d, corrupt("a dictionary block does not decode")
	}
	d.base, d.small, d.smallLen, d.posLen = int64(base), int64(base+large), int64(small), int64(pos)
	d.stats = n.b
	return d, nil
}

// readBlocks reads dictionary blocks of a field, by their numbers.
func (r *Reader) readBlocks(ctx context.Context, f *fieldReader, numbers []int) (_ []dictBlock, err error) {
	defer guard("segment.read", &err)()
	spans := make([]span, len(numbers))
	for i, n := range numbers {
		spans[i] = span{off: f.blocks[n], length: f.blocks[n+1] - f.blocks[n]}
	}
	// The checksum of a block stands at its end.
	raw, err := r.read(ctx, dictionarySection, r.dict, spans, false)
	if err != nil {
		return nil, err
	}
	out := make([]dictBlock, len(numbers))
	for i, b := range raw {
		if len(b) < 4 {
			return nil, corrupt("a dictionary block of %d bytes", len(b))
		}
		body := b[:len(b)-4]
		if !r.resident && checksum.Of(body) != binary.LittleEndian.Uint32(b[len(body):]) {
			return nil, corrupt("dictionary block %d fails its checksum", numbers[i])
		}
		if out[i], err = parseBlock(f, r.head.Rows, r.posts.Length, body); err != nil {
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

// numbers reads what a dictionary block says of its terms, one after another.
type numbers struct {
	d     *dictBlock
	b     []byte
	bad   bool
	large int64 // where the next large run begins
	small int64 // where in the shared run, and in the shared positions, the next small term is
	pos   int64
}

func (d *dictBlock) numbers() numbers { return numbers{d: d, b: d.stats, large: d.base} }

func (n *numbers) uvarint() uint64 {
	if len(n.b) > 0 && n.b[0] < 0x80 {
		v := n.b[0]
		n.b = n.b[1:]
		return uint64(v)
	}
	v, k := binary.Uvarint(n.b)
	if k <= 0 {
		n.bad, n.b = true, nil
		return 0
	}
	n.b = n.b[k:]
	return v
}

func (n *numbers) width() uint64 {
	if len(n.b) == 0 || n.b[0] > block.MaxWidth {
		n.bad = true
		return 0
	}
	v := n.b[0]
	n.b = n.b[1:]
	return uint64(v)
}

func (n *numbers) sum() uint32 {
	if len(n.b) < 4 {
		n.bad, n.b = true, nil
		return 0
	}
	v := binary.LittleEndian.Uint32(n.b)
	n.b = n.b[4:]
	return v
}

// next gives the next term.
func (n *numbers) next(t *posting.Term) error {
	d := n.d
	docs := n.uvarint()
	if docs == 0 {
		*t = posting.Term{DocFreq: 1, TotalFreq: 1, At: [4]uint64{formInline, n.uvarint()}}
		if d.f.Positions {
			t.At[2] = n.uvarint()
		}
		if n.bad || t.At[1] >= uint64(d.rows) || t.At[2] > math.MaxInt32 {
			return corrupt("the numbers of a dictionary block do not decode")
		}
		return nil
	}
	more := n.uvarint()
	if n.bad || docs > uint64(d.f.Docs) || more > uint64(d.f.SumTotalTermFreq) {
		return corrupt("the numbers of a dictionary block do not decode")
	}
	t.DocFreq, t.TotalFreq = int64(docs), int64(docs+more)
	if isSmall(docs, docs+more) {
		rw, fw, pw := n.width(), uint64(0), uint64(0)
		if more > 0 {
			fw = n.width()
		}
		if d.f.Positions {
			pw = n.width()
		}
		t.At = [4]uint64{
			formSmall | rw<<2 | fw<<8 | pw<<14 | uint64(d.small)<<20,
			uint64(d.smallLen)<<32 | uint64(n.small),
			uint64(d.posLen)<<32 | uint64(n.pos),
			uint64(d.smallSum) | uint64(d.posSum)<<32,
		}
		n.small += int64(block.Bytes(int(docs), uint(rw)) + block.Bytes(int(docs), uint(fw)))
		n.pos += int64(block.Bytes(int(docs+more), uint(pw)))
		if n.bad || n.small > d.smallLen || n.pos > d.posLen {
			return corrupt("the numbers of a dictionary block do not decode")
		}
		return nil
	}
	length := n.uvarint()
	sums, pos := uint64(n.sum()), uint64(0)
	if d.f.Positions {
		pos = n.uvarint()
		sums |= uint64(n.sum()) << 32
	}
	if left := uint64(d.small - n.large); n.bad || length > left || pos > left-length {
		return corrupt("the numbers of a dictionary block do not decode")
	}
	t.At = [4]uint64{formLarge | uint64(n.large)<<2, length, pos, sums}
	n.large += int64(length + pos)
	return nil
}

// Lookup finds terms of a field in one round of reads.
func (r *Reader) Lookup(ctx context.Context, field int, terms [][]byte) (_ []posting.Term, err error) {
	defer guard("segment.lookup", &err)()
	f, err := r.fieldOf("segment.lookup", field)
	if err != nil {
		return nil, err
	}
	out := make([]posting.Term, len(terms))
	if r.resident {
		return out, r.lookupHeld(ctx, f, terms, out)
	}
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
		if err := blocks[which[i]].term(t, &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// term looks for a term in the block; out stays as it is when it is not there.
func (d *dictBlock) term(term []byte, out *posting.Term) error {
	at, err := d.find(term)
	if err != nil || at < 0 {
		return err
	}
	n := d.numbers()
	for range at + 1 {
		if err := n.next(out); err != nil {
			return err
		}
	}
	return nil
}

// lookupHeld looks for terms in a dictionary that is held.
func (r *Reader) lookupHeld(ctx context.Context, f *fieldReader, terms [][]byte, out []posting.Term) error {
	held, err := r.section(ctx, dictionarySection)
	if err != nil {
		return err
	}
	for i, t := range terms {
		n := f.find(t)
		if n < 0 {
			continue
		}
		b := held[f.blocks[n]:f.blocks[n+1]]
		if len(b) < 4 {
			return corrupt("a dictionary block of %d bytes", len(b))
		}
		d, err := parseBlock(f, r.head.Rows, r.posts.Length, b[:len(b)-4])
		if err == nil {
			err = d.term(t, &out[i])
		}
		if err != nil {
			return err
		}
	}
	return nil
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
	keys, n := d.keys, d.numbers()
	var key []byte
	var t posting.Term
	for range d.n {
		if key, keys, err = d.step(key, keys, &n, &t); err != nil {
			return nil, false, err
		}
		if bytes.Compare(key, from) < 0 {
			continue
		}
		next, more := yield(key, t)
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

// step takes the next key and its numbers.
func (d *dictBlock) step(key, keys []byte, n *numbers, t *posting.Term) (_, rest []byte, err error) {
	defer guard("segment.walk", &err)()
	shared, suffix, rest, err := nextKey(keys, len(key))
	if err != nil {
		return key, keys, err
	}
	if len(suffix) == 0 || shared < len(key) && suffix[0] <= key[shared] {
		return key, keys, corrupt("the terms of a dictionary block are not in order")
	}
	return append(key[:shared], suffix...), rest, n.next(t)
}

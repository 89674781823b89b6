package bitmap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"sort"

	"github.com/overlakedb/overlake/internal/predicate"
)

// The keys of a block of many keys, in one of two forms:
//
//	0  words: keys of one length that differ in their last eight bytes (all bytes, when they are shorter) at most.
//	   uvarint length, the first key, and the list of the differences, less one, of those last bytes as a big-endian number.
//	1  front coding: the list of the lengths that a key has in common with the one before, the list of the lengths of
//	   the rest, then the rests.
const (
	wordKeys  = 0
	frontKeys = 1
)

var errKeys = errors.New("the keys of a block are cut off or out of order")

// keyList is some keys in ascending order, one after the other in text; key i ends at ends[i].
type keyList struct {
	text []byte
	ends []int
}

func (l *keyList) len() int { return len(l.ends) }

func (l *keyList) at(i int) []byte {
	if i == 0 {
		return l.text[:l.ends[0]]
	}
	return l.text[l.ends[i-1]:l.ends[i]]
}

func (l *keyList) add(key []byte) {
	l.text = append(l.text, key...)
	l.ends = append(l.ends, len(l.text))
}

func (l *keyList) reset() { l.text, l.ends = l.text[:0], l.ends[:0] }

// keepLast removes all keys but the last.
func (l *keyList) keepLast() {
	n := copy(l.text, l.at(l.len()-1))
	l.text, l.ends = l.text[:n], append(l.ends[:0], n)
}

func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for i+8 <= n && binary.LittleEndian.Uint64(a[i:]) == binary.LittleEndian.Uint64(b[i:]) {
		i += 8
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// tail is the last eight bytes of a key, or fewer, as a number.
func tail(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key[len(key)-8:])
	}
	v := uint64(0)
	for _, b := range key {
		v = v<<8 | uint64(b)
	}
	return v
}

// appendKeys appends the first n keys of the list, in the shorter form.
func appendKeys(dst []byte, l *keyList, n int, scratch []uint64) ([]byte, []uint64) {
	first, last := l.at(0), l.at(n-1)
	same := len(first) == len(last) && commonPrefix(first, last) >= len(first)-8
	for i := 1; same && i < n; i++ {
		same = l.ends[i]-l.ends[i-1] == len(first)
	}
	start := len(dst)
	if same {
		dst = binary.AppendUvarint(append(dst, wordKeys), uint64(len(first)))
		dst = append(dst, first...)
		scratch = slices.Grow(scratch[:0], n)
		before := tail(first)
		for i := 1; i < n; i++ {
			t := tail(l.at(i))
			scratch = append(scratch, t-before-1)
			before = t
		}
		dst = appendList(dst, scratch)
		if n == 1 || fixedWidth(len(first)) {
			return dst, scratch
		}
	}
	words := len(dst)
	dst = append(dst, frontKeys)
	scratch = slices.Grow(scratch[:0], 2*n)[:2*n]
	shared, rest := scratch[:n], scratch[n:]
	shared[0], rest[0] = 0, uint64(len(first))
	before := first
	for i := 1; i < n; i++ {
		key := l.at(i)
		c := commonPrefix(before, key)
		shared[i], rest[i] = uint64(c), uint64(len(key)-c)
		before = key
	}
	dst = appendList(dst, shared)
	dst = appendList(dst, rest)
	for i := range n {
		dst = append(dst, l.at(i)[shared[i]:]...)
	}
	if same && words-start <= len(dst)-words {
		return dst[:words], scratch
	}
	return append(dst[:start], dst[words:]...), scratch
}

// fixedWidth tells whether keys of that length are most likely numbers, for which front coding is not worth a try.
func fixedWidth(n int) bool { return n == 8 || n == 16 }

// blockKeys is the decoded keys of a block.
type blockKeys struct {
	n      int
	prefix []byte   // of word keys: what they have in common before their last bytes
	width  int      // of word keys: how many last bytes
	words  []uint64 // of word keys
	list   keyList  // of front-coded keys
	front  bool
}

// decode reads n keys from the whole of b, which is padded.
func (k *blockKeys) decode(b []byte, n int, kind predicate.KeyKind) error {
	if n <= 0 || n > maxBlockKeys || len(b) == 0 {
		return errKeys
	}
	k.n = n
	switch b[0] {
	case wordKeys:
		k.front = false
		length, used := binary.Uvarint(b[1:])
		if used <= 0 || length > uint64(len(b)-1-used) {
			return errKeys
		}
		first := b[1+used:][:length]
		k.width = min(8, len(first))
		k.prefix = first[:len(first)-k.width]
		k.words = slices.Grow(k.words[:0], n)[:n]
		off, err := readList(k.words[1:], b, 1+used+len(first))
		if err != nil {
			return err
		}
		if off != len(b) {
			return errKeys
		}
		k.words[0] = tail(first)
		at := k.words[0]
		for i, d := range k.words[1:] {
			next := at + d + 1
			if next <= at {
				return errKeys
			}
			k.words[i+1], at = next, next
		}
		if k.width < 8 && at>>(8*k.width) != 0 {
			return errKeys
		}
		if w := kind.Width(); w != 0 && w != len(first) {
			return errKeys
		}
		return nil
	case frontKeys:
		k.front = true
		return k.decodeFront(b, n, kind)
	}
	return errKeys
}

func (k *blockKeys) decodeFront(b []byte, n int, kind predicate.KeyKind) error {
	k.words = slices.Grow(k.words[:0], 2*n)[:2*n]
	shared, rest := k.words[:n], k.words[n:]
	off, err := readList(shared, b, 1)
	if err != nil {
		return err
	}
	if off, err = readList(rest, b, off); err != nil {
		return err
	}
	// The lengths are checked against the bytes that are there before anything is allocated for them.
	left, total, before := uint64(len(b)-off), uint64(0), uint64(0)
	for i := range n {
		if shared[i] > before || rest[i] > left {
			return errKeys
		}
		left -= rest[i]
		before = shared[i] + rest[i]
		total += before
	}
	if left != 0 || total > maxKeyBytes {
		return errKeys
	}
	k.list.reset()
	k.list.text = slices.Grow(k.list.text, int(total))
	k.list.ends = slices.Grow(k.list.ends, n)
	text := k.list.text
	start := 0
	for i := range n {
		s, r := int(shared[i]), int(rest[i])
		from := len(text)
		text = append(text, text[start:start+s]...)
		text = append(text, b[off:off+r]...)
		off += r
		if i > 0 && bytes.Compare(text[start:from], text[from:]) >= 0 {
			return errKeys
		}
		if w := kind.Width(); w != 0 && w != s+r {
			return errKeys
		}
		start = from
		k.list.ends = append(k.list.ends, len(text))
	}
	k.list.text = text
	return nil
}

// append appends key i.
func (k *blockKeys) append(dst []byte, i int) []byte {
	if k.front {
		return append(dst, k.list.at(i)...)
	}
	var w [8]byte
	binary.BigEndian.PutUint64(w[:], k.words[i])
	return append(append(dst, k.prefix...), w[8-k.width:]...)
}

// search returns the index of the first key that is not below the given one, and whether it is that key.
func (k *blockKeys) search(key []byte) (int, bool) {
	if k.front {
		i := sort.Search(k.n, func(i int) bool { return bytes.Compare(k.list.at(i), key) >= 0 })
		return i, i < k.n && bytes.Equal(k.list.at(i), key)
	}
	p := len(k.prefix)
	if c := bytes.Compare(key[:min(p, len(key))], k.prefix); c < 0 || c == 0 && len(key) < p {
		return 0, false
	} else if c > 0 {
		return k.n, false
	}
	// A key with fewer bytes than the others is below those that begin with it; one with more is above.
	rest := key[p:]
	t, longer := uint64(0), len(rest) > k.width
	for i := range k.width {
		t <<= 8
		if i < len(rest) {
			t |= uint64(rest[i])
		}
	}
	i, found := slices.BinarySearch(k.words[:k.n], t)
	switch {
	case found && longer:
		return i + 1, false
	case found && len(rest) < k.width:
		return i, false
	}
	return i, found
}

// within returns the keys of a range as indexes from ≤ i < to.
func (k *blockKeys) within(r predicate.Range) (from, to int) {
	from, found := k.search(r.Lo)
	if found && r.LoOpen {
		from++
	}
	if r.NoHi {
		return from, k.n
	}
	to, found = k.search(r.Hi)
	if found && !r.HiOpen {
		to++
	}
	return from, max(from, to)
}

package datafile

import "encoding/binary"

// deltas reads DELTA_BINARY_PACKED, in which every number is stored as its distance from the one before. It goes forward only.
//
//	head   varint values of a block, varint miniblocks of a block, varint values, zigzag first value
//	block  zigzag least distance, a byte for each miniblock: bits of a value; then the miniblocks, packed, as far as needed
type deltas struct {
	b           []byte // what follows the current miniblock
	mini, minis int    // values of a miniblock, miniblocks of a block
	count       int
	widths      []byte // of the block's miniblocks that are still to come
	least       int64
	packed      []byte // the current miniblock
	width       uint
	left        int // values of it that were not given
	given       int // values in all
	value       int64
}

func newDeltas(b []byte) (*deltas, error) {
	var head [3]uint64
	for i := range head {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > 1<<31 {
			return nil, errPage
		}
		head[i], b = v, b[n:]
	}
	first, n := binary.Varint(b)
	if n <= 0 || head[1] == 0 || head[0]%head[1] != 0 || head[0]/head[1]%8 != 0 || head[0] == 0 {
		return nil, errPage
	}
	return &deltas{b: b[n:], mini: int(head[0] / head[1]), minis: int(head[1]), count: int(head[2]), value: first}, nil
}

// miniblock moves to the next miniblock.
func (d *deltas) miniblock() error {
	if len(d.widths) == 0 {
		least, n := binary.Varint(d.b)
		if n <= 0 || len(d.b)-n < d.minis {
			return errPage
		}
		d.least, d.widths, d.b = least, d.b[n:n+d.minis], d.b[n+d.minis:]
	}
	d.width, d.widths = uint(d.widths[0]), d.widths[1:]
	size := d.mini / 8 * int(d.width)
	if d.width > 64 || size > len(d.b) {
		return errPage
	}
	d.packed, d.b, d.left = d.b[:size], d.b[size:], d.mini
	return nil
}

// next gives the next number.
func (d *deltas) next() (int64, error) {
	if d.given == d.count {
		return 0, errPage
	}
	d.given++
	if d.given == 1 {
		return d.value, nil
	}
	if d.left == 0 {
		if err := d.miniblock(); err != nil {
			return 0, err
		}
	}
	d.value += d.least + int64(unpackWide(d.packed, d.mini-d.left, d.width))
	d.left--
	return d.value, nil
}

// rest gives the bytes behind all numbers, without reading these.
func (d *deltas) rest() ([]byte, error) {
	x := *d
	for covered := max(x.given, 1) + x.left; covered < x.count; covered += x.mini {
		if err := x.miniblock(); err != nil {
			return nil, err
		}
	}
	return x.b, nil
}

// unpackWide gives value i of packed values of a width up to 64, all of which are there.
func unpackWide(b []byte, i int, width uint) uint64 {
	bit := uint(i) * width
	at, shift := bit/8, bit%8
	var x uint64
	if at+8 <= uint(len(b)) {
		x = binary.LittleEndian.Uint64(b[at:])
	} else {
		for k, c := range b[at:] {
			x |= uint64(c) << (8 * k)
		}
	}
	x >>= shift
	if shift+width > 64 {
		x |= uint64(b[at+8]) << (64 - shift)
	}
	if width == 64 {
		return x
	}
	return x & (1<<width - 1)
}

// lengths reads DELTA_LENGTH_BYTE_ARRAY, which has all lengths first and then all bytes.
type lengths struct {
	sizes *deltas
	b     []byte
}

func newLengths(b []byte) (*lengths, error) {
	sizes, err := newDeltas(b)
	if err != nil {
		return nil, err
	}
	if b, err = sizes.rest(); err != nil {
		return nil, err
	}
	return &lengths{sizes: sizes, b: b}, nil
}

func (l *lengths) next() ([]byte, error) {
	n, err := l.sizes.next()
	if err != nil || n < 0 || n > int64(len(l.b)) {
		return nil, errPage
	}
	v := l.b[:n]
	l.b = l.b[n:]
	return v, nil
}

// suffixes reads DELTA_BYTE_ARRAY, in which a value is so many bytes of the one before and then some of its own: the shared
// lengths come first, the own bytes after them like in lengths.
type suffixes struct {
	shared *deltas
	own    *lengths
	value  []byte
}

func newSuffixes(b []byte) (*suffixes, error) {
	shared, err := newDeltas(b)
	if err != nil {
		return nil, err
	}
	if b, err = shared.rest(); err != nil {
		return nil, err
	}
	own, err := newLengths(b)
	if err != nil {
		return nil, err
	}
	return &suffixes{shared: shared, own: own}, nil
}

func (s *suffixes) next() ([]byte, error) {
	n, err := s.shared.next()
	if err != nil || n < 0 || n > int64(len(s.value)) {
		return nil, errPage
	}
	own, err := s.own.next()
	if err != nil {
		return nil, err
	}
	s.value = append(s.value[:n], own...)
	return s.value, nil
}

package datafile

import (
	"encoding/binary"
	"math/bits"
)

// hybrid reads Parquet's mixture of runs and bit-packed groups, which levels, dictionary indexes and some booleans are
// written in. It goes forward only, run by run, so a value far into a page costs as much as there are runs before it.
//
//	run     varint n<<1, then the value in as many whole bytes as it needs
//	packed  varint n<<1 | 1, then n groups of 8 values of width bits, the lowest bits first
type hybrid struct {
	b     []byte // what follows the current run
	width uint   // bits of a value, at most 32

	from, to int    // the current run holds the values from … to
	packed   []byte // nil in a run of one value
	value    uint32
	ones     int // how many of the values before from are 1; counted for width 1 only
}

// reach makes the run that holds value i the current one. i must not lie before it.
func (h *hybrid) reach(i int) error {
	for i >= h.to {
		if h.width == 1 {
			h.ones += h.onesIn(h.to - h.from)
		}
		head, n := binary.Uvarint(h.b)
		if n <= 0 || head>>1 > 1<<31 || head>>1 == 0 {
			return errPage
		}
		h.b = h.b[n:]
		h.from = h.to
		if head&1 == 0 {
			size := int(h.width+7) / 8
			if len(h.b) < size {
				return errPage
			}
			h.value = 0
			for k := range size {
				h.value |= uint32(h.b[k]) << (8 * k)
			}
			if h.value>>1>>(h.width-1) != 0 { // in two steps, for 32
				return errPage
			}
			h.packed, h.b = nil, h.b[size:]
			h.to += int(head >> 1)
			continue
		}
		// The last run of a page may be cut short where nothing but padding is missing.
		size := min(int(head>>1)*int(h.width), len(h.b))
		h.packed, h.b = h.b[:size:size], h.b[size:]
		h.to += int(head>>1) * 8
	}
	return nil
}

// at gives value i.
func (h *hybrid) at(i int) (uint32, error) {
	if h.width == 0 {
		return 0, nil
	}
	if err := h.reach(i); err != nil {
		return 0, err
	}
	if h.packed == nil {
		return h.value, nil
	}
	return unpack(h.packed, i-h.from, h.width)
}

// rank gives value i of width 1, and how many values before it are 1.
func (h *hybrid) rank(i int) (one bool, before int, err error) {
	v, err := h.at(i)
	if err != nil {
		return false, 0, err
	}
	return v == 1, h.ones + h.onesIn(i-h.from), nil
}

// zero gives the first value from i on, of width 1, that is 0, or n if there is none before n.
func (h *hybrid) zero(i, n int) (int, error) {
	for i < n {
		if err := h.reach(i); err != nil {
			return 0, err
		}
		if h.packed == nil {
			if h.value&1 == 0 {
				return i, nil
			}
			i = h.to
			continue
		}
		for k := i - h.from; i < min(h.to, n); k++ {
			if k/8 >= len(h.packed) {
				return 0, errPage
			}
			if x := ^h.packed[k/8] >> (k % 8); x != 0 {
				return min(i+bits.TrailingZeros8(x), n), nil
			}
			i += 8 - k%8
			k += 7 - k%8
		}
	}
	return n, nil
}

// count counts the values from i up to n that are v.
func (h *hybrid) count(i, n int, v uint32) (sum int, err error) {
	for i < n {
		if err := h.reach(i); err != nil {
			return 0, err
		}
		end := min(h.to, n)
		if h.packed == nil {
			if h.value == v {
				sum += end - i
			}
			i = end
			continue
		}
		for ; i < end; i++ {
			x, err := unpack(h.packed, i-h.from, h.width)
			if err != nil {
				return 0, err
			}
			if x == v {
				sum++
			}
		}
	}
	return sum, nil
}

// onesIn counts the ones among the first n values of the current run.
func (h *hybrid) onesIn(n int) int {
	if h.packed == nil {
		return n * int(h.value&1)
	}
	sum, b := 0, h.packed[:min((n+7)/8, len(h.packed))]
	for ; n >= 64 && len(b) >= 8; n -= 64 {
		sum += bits.OnesCount64(binary.LittleEndian.Uint64(b))
		b = b[8:]
	}
	for ; n > 0 && len(b) > 0; n -= 8 {
		x := b[0]
		if n < 8 {
			x &= 1<<n - 1
		}
		sum += bits.OnesCount8(x)
		b = b[1:]
	}
	return sum
}

// unpack gives value i of packed values of a width from 1 to 32.
func unpack(b []byte, i int, width uint) (uint32, error) {
	bit := uint64(i) * uint64(width)
	at, shift := bit/8, uint(bit%8)
	if bit+uint64(width) > uint64(len(b))*8 {
		return 0, errPage
	}
	var x uint64
	if at+8 <= uint64(len(b)) {
		x = binary.LittleEndian.Uint64(b[at:])
	} else {
		for k, c := range b[at:] {
			x |= uint64(c) << (8 * k)
		}
	}
	return uint32(x >> shift & (1<<width - 1)), nil
}

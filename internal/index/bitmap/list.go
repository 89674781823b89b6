package bitmap

import (
	"encoding/binary"
	"errors"
	"math/bits"
)

// A list is a sequence of numbers whose count the reader knows. It is one chunk, or chunks of 128; a byte says which:
//
//	0          one chunk with all numbers
//	1          chunks of 128 numbers, the last one shorter
//
// A chunk is a byte and what it says, and ends at a byte:
//
//	0…56       k: Rice codes. A number v is v>>k zeros, a one, and the k low bits of v. Where v>>k is 40 or more it is
//	           40 zeros, a one, the length of v in bits as a number of 6 bits, and v below its highest bit.
//	64…120     w+64: a uvarint m, then v-m in w bits each; with w = 0 all numbers are m.
//	128        the numbers in 64 bits each.
//
// Bits fill bytes from the lowest up. An empty list has no bytes.
const (
	chunkLen  = 128
	maxRice   = 56
	maxUnary  = 40
	packed    = 64
	rawChunk  = 128
	riceExtra = maxUnary + 1 + 6
)

// listPad is what must follow the bytes of a list in memory, because numbers are read eight bytes at a time.
const listPad = 8

var errList = errors.New("a list of numbers is cut off or impossible")

// plan is the form of a chunk.
type plan struct {
	mode   byte
	lo, hi uint64 // the least and the greatest number
	bits   int64  // of the numbers, without the head
}

func (p plan) bytes() int64 {
	n := 1 + (p.bits+7)/8
	if p.mode >= packed && p.mode < rawChunk {
		n += int64(uvarintLen(p.lo))
	}
	return n
}

func uvarintLen(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// planPacked is the form of n numbers in bits of the same width.
func planPacked(lo, hi uint64, n int) plan {
	w := bits.Len64(hi - lo)
	p := plan{mode: packed + byte(w), lo: lo, hi: hi, bits: int64(n) * int64(w)}
	if w > maxRice {
		p.mode, p.bits = rawChunk, int64(n)*64
	}
	return p
}

// planChunk finds a form for the numbers: packed, or the Rice code that is the best near the one for their mean.
func planChunk(v []uint64) plan {
	lo, hi, sum, over := v[0], v[0], uint64(0), uint64(0)
	for _, x := range v {
		lo, hi = min(lo, x), max(hi, x)
		var carry uint64
		sum, carry = bits.Add64(sum, x, 0)
		over += carry
	}
	best := planPacked(lo, hi, len(v))
	if best.bits == 0 || over > 0 {
		return best
	}
	k := bits.Len64(sum/uint64(len(v))) - 1
	if k = max(k, 0); k > maxRice {
		return best
	}
	least := riceBits(v, k, hi)
	for _, step := range []int{1, -1} {
		moved := false
		for next := k + step; next >= 0 && next <= maxRice; next += step {
			n := riceBits(v, next, hi)
			if n >= least {
				break
			}
			k, least, moved = next, n, true
		}
		if moved {
			break
		}
	}
	if least < best.bits {
		best.mode, best.bits = byte(k), least
	}
	return best
}

// riceBits is the length of the numbers, of which hi is the greatest, as Rice codes.
func riceBits(v []uint64, k int, hi uint64) int64 {
	s := uint(k) & 63
	n := int64(len(v)) * int64(k+1)
	if hi>>s < maxUnary {
		q := uint64(0)
		for _, x := range v {
			q += x >> s
		}
		return n + int64(q)
	}
	for _, x := range v {
		if q := x >> s; q < maxUnary {
			n += int64(q)
		} else {
			n += int64(riceExtra + bits.Len64(x) - 1 - k - 1)
		}
	}
	return n
}

// appendList appends the list of the numbers.
func appendList(dst []byte, v []uint64) []byte {
	if len(v) == 0 {
		return dst
	}
	if len(v) <= chunkLen {
		return appendChunk(append(dst, 0), v, planChunk(v))
	}
	var space [maxBlockPostings / chunkLen]plan
	var codes [maxRice + 1]int // how often each Rice code was the best
	plans := space[:0]
	size := int64(0)
	lo, hi, code := v[0], v[0], 0
	for i := 0; i < len(v); i += chunkLen {
		p := planChunk(v[i:min(i+chunkLen, len(v))])
		size += p.bytes()
		lo, hi = min(lo, p.lo), max(hi, p.hi)
		if p.mode <= maxRice {
			if codes[p.mode]++; codes[p.mode] > codes[code] {
				code = int(p.mode)
			}
		}
		plans = append(plans, p)
	}
	// One chunk has one head, so it wins where all chunks are alike.
	whole := planPacked(lo, hi, len(v))
	if codes[code] > len(plans)/2 {
		if n := riceBits(v, code, hi); n < whole.bits {
			whole.mode, whole.bits = byte(code), n
		}
	}
	if whole.bytes() <= size {
		return appendChunk(append(dst, 0), v, whole)
	}
	dst = append(dst, 1)
	for i, p := range plans {
		dst = appendChunk(dst, v[i*chunkLen:min((i+1)*chunkLen, len(v))], p)
	}
	return dst
}

// bitWriter gathers bits, the lowest first.
type bitWriter struct {
	dst []byte
	acc uint64
	n   uint // bits in acc, less than 8 after put
}

// put appends the n low bits of v, which has no others; n is at most 56.
func (w *bitWriter) put(v uint64, n uint) {
	w.acc |= v << w.n
	w.n += n
	if w.n >= 32 {
		w.dst = binary.LittleEndian.AppendUint32(w.dst, uint32(w.acc))
		w.acc >>= 32
		w.n -= 32
	}
	for w.n >= 8 {
		w.dst = append(w.dst, byte(w.acc))
		w.acc >>= 8
		w.n -= 8
	}
}

func (w *bitWriter) flush() []byte {
	if w.n > 0 {
		w.dst = append(w.dst, byte(w.acc))
	}
	return w.dst
}

func appendChunk(dst []byte, v []uint64, p plan) []byte {
	dst = append(dst, p.mode)
	switch {
	case p.mode == rawChunk:
		for _, x := range v {
			dst = binary.LittleEndian.AppendUint64(dst, x)
		}
		return dst
	case p.mode >= packed:
		dst = binary.AppendUvarint(dst, p.lo)
		if p.mode == packed {
			return dst
		}
		w := bitWriter{dst: dst}
		for _, x := range v {
			w.put(x-p.lo, uint(p.mode-packed))
		}
		return w.flush()
	}
	w := bitWriter{dst: dst}
	k := uint(p.mode)
	low := uint64(1)<<k - 1
	for _, x := range v {
		q := x >> k
		if q < maxUnary {
			w.put(1<<q, uint(q)+1)
			w.put(x&low, k)
			continue
		}
		w.put(1<<maxUnary, maxUnary+1)
		n := uint(bits.Len64(x) - 1)
		w.put(uint64(n), 6)
		x &= 1<<n - 1
		w.put(x&(1<<32-1), min(n, 32))
		if n > 32 {
			w.put(x>>32, n-32)
		}
	}
	return w.flush()
}

// readList reads len(dst) numbers from b at off and returns the place behind them. Behind the end of b, up to its
// capacity, are listPad bytes of any content.
func readList(dst []uint64, b []byte, off int) (int, error) {
	if len(dst) == 0 {
		return off, nil
	}
	if off < 0 || off >= len(b) {
		return 0, errList
	}
	form := b[off]
	off++
	switch form {
	case 0:
		return readChunk(dst, b, off)
	case 1:
		var err error
		for len(dst) > 0 {
			n := min(chunkLen, len(dst))
			if off, err = readChunk(dst[:n], b, off); err != nil {
				return 0, err
			}
			dst = dst[n:]
		}
		return off, nil
	}
	return 0, errList
}

func readChunk(dst []uint64, b []byte, off int) (int, error) {
	if off >= len(b) {
		return 0, errList
	}
	mode := b[off]
	off++
	switch {
	case mode <= maxRice:
		return readRice(dst, b, off, uint(mode))
	case mode == rawChunk:
		if len(b)-off < 8*len(dst) {
			return 0, errList
		}
		for i := range dst {
			dst[i] = binary.LittleEndian.Uint64(b[off+8*i:])
		}
		return off + 8*len(dst), nil
	case mode < packed || mode > packed+maxRice:
		return 0, errList
	}
	base, n := binary.Uvarint(b[off:])
	if n <= 0 {
		return 0, errList
	}
	off += n
	w := int(mode - packed)
	if w == 0 {
		for i := range dst {
			dst[i] = base
		}
		return off, nil
	}
	size := (len(dst)*w + 7) / 8
	if len(b)-off < size {
		return 0, errList
	}
	mask := uint64(1)<<w - 1
	in := b[off : off+size+listPad]
	for i, bit := 0, 0; i < len(dst); i, bit = i+1, bit+w {
		dst[i] = base + binary.LittleEndian.Uint64(in[bit>>3:])>>(bit&7)&mask
	}
	return off + size, nil
}

// readRice reads Rice codes. A code has at most 41 bits before its second part and that at most 63, so from a place
// inside b never more than listPad bytes behind it are touched: each part is checked to begin inside.
func readRice(dst []uint64, b []byte, off int, k uint) (int, error) {
	in := b[: len(b)+listPad : len(b)+listPad]
	bit, end := uint(off)*8, uint(len(b))*8
	low := uint64(1)<<k - 1
	for i := range dst {
		if bit >= end {
			return 0, errList
		}
		w := binary.LittleEndian.Uint64(in[bit>>3:]) >> (bit & 7)
		q := uint(bits.TrailingZeros64(w))
		if q < maxUnary {
			if q+1+k <= maxRice {
				dst[i] = uint64(q)<<k | w>>(q+1)&low
				bit += q + 1 + k
				continue
			}
			bit += q + 1
			if bit > end {
				return 0, errList
			}
			dst[i] = uint64(q)<<k | binary.LittleEndian.Uint64(in[bit>>3:])>>(bit&7)&low
			bit += k
			continue
		}
		if q > maxUnary {
			return 0, errList
		}
		n := uint(w>>(maxUnary+1)) & 63
		bit += riceExtra
		if bit+n > end {
			return 0, errList
		}
		dst[i] = 1 << n
		first := min(n, 32)
		dst[i] |= binary.LittleEndian.Uint64(in[bit>>3:]) >> (bit & 7) & (1<<first - 1)
		bit += first
		if n > 32 {
			dst[i] |= binary.LittleEndian.Uint64(in[bit>>3:]) >> (bit & 7) & (1<<(n-32) - 1) << 32
			bit += n - 32
		}
	}
	if bit > end {
		return 0, errList
	}
	return int((bit + 7) / 8), nil
}

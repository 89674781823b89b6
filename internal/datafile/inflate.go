package datafile

import (
	"encoding/binary"

	"github.com/apache/arrow-go/v18/parquet/compress"
)

// inflates tells the codecs that inflate knows.
func inflates(c compress.Compression) bool {
	switch c {
	case compress.Codecs.Uncompressed, compress.Codecs.Zstd, compress.Codecs.Snappy, compress.Codecs.Gzip, compress.Codecs.Brotli, compress.Codecs.Lz4Raw:
		return true
	}
	return false
}

// inflate decompresses src into n bytes of r. Nothing is made room for before src is seen to be long enough for it, and a
// codec that makes room by itself for what the bytes say is only let at them when that is no more than a block above n.
func inflate(codec compress.Compression, src []byte, n int, r *room, mem *limited) ([]byte, error) {
	fits := true
	switch codec {
	case compress.Codecs.Uncompressed:
		if len(src) != n {
			return nil, errPage
		}
		return src, nil
	case compress.Codecs.Zstd:
		most, ok := zstdMost(src)
		fits = ok && most >= uint64(n) && most <= uint64(n)+zstdBlock
	case compress.Codecs.Snappy:
		says, k := binary.Uvarint(src)
		fits = k > 0 && says == uint64(n) && n <= 64*len(src) // three bytes stand for 64 at most
	case compress.Codecs.Gzip:
		fits = n <= 1100*len(src) // a bit stands for 129 bytes at most
	case compress.Codecs.Lz4Raw:
		fits = n <= 256*len(src) // a byte for 255
	}
	if !fits {
		return nil, errPage
	}
	c, err := compress.GetCodec(codec)
	if err != nil {
		return nil, err
	}
	dst := r.of(n, mem)
	out, err := compress.Decode(c, dst, src)
	if err != nil || len(out) != n {
		return nil, errPage
	}
	return out, nil
}

// zstdBlock is the most that a block of zstd decompresses to.
const zstdBlock = 128 << 10

// zstdMost walks the blocks of zstd frames, without decompressing them, and gives the most that they can decompress to: what
// a frame says it holds or, where it does not say, what its blocks can. It fails on what is not zstd.
//
//	frame  magic, descriptor, [window], [dictionary], [content size], blocks, [checksum]
//	block  3 bytes: last (1 bit), type (2), size (21); then size bytes, or one byte to repeat
func zstdMost(b []byte) (uint64, bool) {
	total := uint64(0)
	for len(b) > 0 {
		if len(b) < 8 {
			return 0, false
		}
		magic := binary.LittleEndian.Uint32(b)
		if magic&^15 == 0x184D2A50 { // a frame to be skipped
			n := uint64(binary.LittleEndian.Uint32(b[4:])) + 8
			if n > uint64(len(b)) {
				return 0, false
			}
			b = b[n:]
			continue
		}
		if magic != 0xFD2FB528 {
			return 0, false
		}
		flags := b[4]
		single, checksum := flags>>5&1 == 1, flags>>2&1 == 1
		at := 5 + []int{0, 1, 2, 4}[flags&3]
		size := []int{0, 2, 4, 8}[flags>>6]
		if !single {
			at++
		} else if size == 0 {
			size = 1
		}
		if at+size > len(b) {
			return 0, false
		}
		says := uint64(0)
		for k, c := range b[at : at+size] {
			says |= uint64(c) << (8 * k)
		}
		if size == 2 {
			says += 256
		}
		b = b[at+size:]
		holds := uint64(0)
		for last := false; !last; {
			if len(b) < 3 {
				return 0, false
			}
			head := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
			last = head&1 == 1
			n := int(head >> 3)
			b = b[3:]
			switch head >> 1 & 3 {
			case 0:
				holds += uint64(n)
			case 1:
				holds += uint64(n)
				n = 1
			case 2:
				holds += zstdBlock
			default:
				return 0, false
			}
			if n > len(b) {
				return 0, false
			}
			b = b[n:]
		}
		if checksum {
			if len(b) < 4 {
				return 0, false
			}
			b = b[4:]
		}
		if size > 0 {
			holds = says
		}
		if total += holds; total < holds {
			return 0, false
		}
	}
	return total, true
}

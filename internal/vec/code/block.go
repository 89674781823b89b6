package code

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/overlakedb/overlake/internal/vec/kernel"
)

// BlockBytes is the number of bytes of a block of 64 rows of Bit1, as Block makes it.
func (c *Coder) BlockBytes() int { return kernel.BlockRows * c.padded / 8 }

// Block lays up to 64 rows of Bit1, one after another, out for kernel.ScanBlock: dst has BlockBytes bytes. Missing rows are
// zero.
func (c *Coder) Block(dst, rows []byte) {
	n := c.padded / 8
	if c.kind != Bit1 || len(dst) != c.BlockBytes() || len(rows)%n != 0 || len(rows) > len(dst) {
		panic(fmt.Sprintf("code: %d bytes of %s as a block of %d", len(rows), c.kind, len(dst)))
	}
	clear(dst)
	for r := 0; len(rows) > 0; r++ {
		at, high := r&31, r>>5*4
		for i, b := range rows[:n] {
			dst[64*i+at] |= b & 15 << high
			dst[64*i+32+at] |= b >> 4 << high
		}
		rows = rows[n:]
	}
}

// FromBlock gives row r of a block, which Block laid out.
func (c *Coder) FromBlock(row, block []byte, r int) {
	at, high := r&31, r>>5*4
	for i := range row {
		row[i] = block[64*i+at]>>high&15 | block[64*i+32+at]>>high&15<<4
	}
}

// TableBytes is the number of bytes of the tables of a query of Bit1.
func (c *Coder) TableBytes() int { return 4 * c.padded }

// Tables fills the tables of kernel.ScanBlock, for a rotated vector of dim elements: its inner product with a row of the
// block is about scale times what the block gives for it, plus bias.
func (c *Coder) Tables(rotated []float32, tables []byte) (scale, bias float32) {
	if c.kind != Bit1 || len(tables) != c.TableBytes() || len(rotated) != c.dim {
		panic(fmt.Sprintf("code: tables of %d bytes for a vector of %d and %s", len(tables), len(rotated), c.kind))
	}
	clear(tables)
	norm, some := square(rotated)
	if !some {
		return 0, 0
	}
	// A table holds the sums of |x| of those of four elements whose sign is that of the bit. The largest sum is 255 at most,
	// also when each element was rounded up.
	var most float32
	x := rotated
	for ; len(x) >= 4; x = x[4:] {
		most = max(most, abs(x[0])+abs(x[1])+abs(x[2])+abs(x[3]))
	}
	var rest float32
	for _, v := range x {
		rest += abs(v)
	}
	step := 253 / max(most, rest)
	var product float32 // of the vector with what was rounded
	var all int32
	var four [4]float32
	for i := 0; i < len(rotated); i += 4 {
		four = [4]float32{}
		copy(four[:], rotated[i:])
		var lo, hi uint64
		for b, v := range &four {
			a := abs(v)
			k := int32(a*step + 0.5)
			all += k
			product += a * float32(k)
			every := uint64(k) * 0x0101010101010101
			minus := uint64(int64(int32(math.Float32bits(v))) >> 63)
			lo += every & (bitMasks[b][0] ^ minus)
			hi += every & (bitMasks[b][1] ^ minus)
		}
		binary.LittleEndian.PutUint64(tables[4*i:], lo)
		binary.LittleEndian.PutUint64(tables[4*i+8:], hi)
	}
	// <x, s> is twice the sum of those whose signs agree, less the sum of all.
	unit := finite(float64(norm) / float64(product))
	return 2 * unit, -unit * float32(all)
}

// bitMasks are for each bit of a half byte the entries of a table of 16 bytes in which it is set.
var bitMasks = [4][2]uint64{
	{0xff00ff00ff00ff00, 0xff00ff00ff00ff00}, {0xffff0000ffff0000, 0xffff0000ffff0000},
	{0xffffffff00000000, 0xffffffff00000000}, {0, 0xffffffffffffffff},
}

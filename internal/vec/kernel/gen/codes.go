package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// codes makes the kernels whose sums are integers: inner products of bytes and of half bytes, counts of bits.
func codes(g *gen) {
	g.masks()
	g.table("nibbles", 0, 0, 0, 0, 4, 4, 4, 4)
	g.table("fifteen", 0x0f0f0f0f0f0f0f0f, 0x0f0f0f0f0f0f0f0f)
	g.table("counts", 0x0302020102010100, 0x0403030203020201)
	for _, lv := range []level{avx512, avx2} {
		k := &kernel{
			level: lv, name: "dotU8", doc: "adds products of signed and unsigned bytes.", query: "int8", row: "byte", out: "int32",
			chunk: lv.bytes, scale: 1, slots: 2, whole: 64,
		}
		bytesOf(k)
		k.emit(g)

		k = &kernel{
			level: lv, name: "dot4", doc: "adds products of signed bytes and the levels of half bytes.", query: "int8", row: "byte", out: "int32",
			more:  ", levels *[16]byte",
			chunk: 32, scale: 2, slots: lv.bytes / 32, whole: 32,
		}
		halfBytesOf(k)
		k.emit(g)

		for _, and := range []bool{false, true} {
			k = &kernel{
				level: lv, name: "hamming", doc: "counts bits that differ.", query: "byte", row: "byte", out: "uint32",
				chunk: lv.bytes, scale: 1, slots: 1, whole: 8,
			}
			if and {
				k.name, k.doc = "overlap", "counts bits in common."
			}
			bitsOf(k, and)
			k.emit(g)
		}
	}
}

// bytesOf: VPDPBUSD does it all. AVX2 has only VPMADDUBSW, which saturates, so bytes are taken apart into the even and the
// odd ones, as words: VPMADDWD of these is exact.
func bytesOf(k *kernel) {
	integers(k)
	if k.bytes == 64 {
		k.load = loadFloat
		k.add = func(k *kernel, q []reg.VecVirtual, at operand.Mem, _ bool, sum reg.VecVirtual) {
			c := k.vec()
			k.g.VMOVDQU64(at, c)
			k.g.raw("AVX512VNNI", "VPDPBUSD", q[0], c, sum)
		}
		return
	}
	k.setup = func(k *kernel, _ reg.GPVirtual) { k.lowBytes() }
	k.load = func(k *kernel, at operand.Mem, _ bool) []reg.VecVirtual { return k.signedWords(at) }
	k.add = func(k *kernel, q []reg.VecVirtual, at operand.Mem, _ bool, sum reg.VecVirtual) {
		c := k.vec()
		k.g.VMOVDQU(at, c)
		k.addBytes(q, c, sum)
	}
}

// lowBytes keeps a mask of the low bytes of words.
func (k *kernel) lowBytes() {
	m := k.vec()
	k.g.VPCMPEQD(m, m, m)
	k.g.VPSRLW(operand.U8(8), m, m)
	k.consts["low"] = m
}

// signedWords loads signed bytes as words: the even ones and the odd ones.
func (k *kernel) signedWords(at operand.Mem) []reg.VecVirtual {
	even, odd := k.vec(), k.vec()
	k.g.VMOVDQU(at, odd)
	k.g.VPSLLW(operand.U8(8), odd, even)
	k.g.VPSRAW(operand.U8(8), even, even)
	k.g.VPSRAW(operand.U8(8), odd, odd)
	return []reg.VecVirtual{even, odd}
}

// addBytes adds the products of words and unsigned bytes.
func (k *kernel) addBytes(q []reg.VecVirtual, c, sum reg.VecVirtual) {
	even := k.vec()
	k.g.VPAND(k.consts["low"], c, even)
	k.g.VPSRLW(operand.U8(8), c, c)
	k.g.VPMADDWD(q[0], even, even)
	k.g.VPMADDWD(q[1], c, c)
	k.g.VPADDD(even, sum, sum)
	k.g.VPADDD(c, sum, sum)
}

// halfBytesOf: AVX-512 doubles 32 bytes into a register, moves the upper half of it down by four bits and looks all 64 up
// in the levels with VPERMB, which reads the lowest six bits of an index: four copies of the levels make the upper two
// meaningless.
func halfBytesOf(k *kernel) {
	integers(k)
	if k.bytes == 64 {
		k.setup = func(k *kernel, _ reg.GPVirtual) {
			levels, shift := k.vec(), k.vec()
			p := k.g.Load(k.g.Param("levels"), k.g.GP64())
			k.g.VBROADCASTI32X4(operand.Mem{Base: p}, levels)
			k.g.VMOVDQU64(operand.NewDataAddr(operand.NewStaticSymbol("nibbles"), 0), shift)
			k.consts["levels"], k.consts["shift"] = levels, shift
		}
		k.load = loadFloat
		k.add = func(k *kernel, q []reg.VecVirtual, at operand.Mem, _ bool, sum reg.VecVirtual) {
			c := k.vec()
			k.g.VBROADCASTI64X4(at, c)
			k.g.VPSRLVQ(k.consts["shift"], c, c)
			k.g.VPERMB(k.consts["levels"], c, c)
			k.g.raw("AVX512VNNI", "VPDPBUSD", q[0], c, sum)
		}
		return
	}
	k.setup = func(k *kernel, _ reg.GPVirtual) {
		k.lowBytes()
		levels := k.vec()
		p := k.g.Load(k.g.Param("levels"), k.g.GP64())
		k.g.VBROADCASTI128(operand.Mem{Base: p}, levels)
		k.consts["levels"] = levels
		k.lowHalves()
	}
	k.load = func(k *kernel, at operand.Mem, _ bool) []reg.VecVirtual {
		lo := k.signedWords(at)
		at.Disp += 32
		return append(lo, k.signedWords(at)...)
	}
	k.add = func(k *kernel, q []reg.VecVirtual, at operand.Mem, _ bool, sum reg.VecVirtual) {
		hi, lo := k.vec(), k.vec()
		k.g.VMOVDQU(at, hi)
		k.g.VPAND(k.consts["nibble"], hi, lo)
		k.g.VPSRLW(operand.U8(4), hi, hi)
		k.g.VPAND(k.consts["nibble"], hi, hi)
		k.g.VPSHUFB(lo, k.consts["levels"], lo)
		k.addBytes(q[:2], lo, sum)
		k.g.VPSHUFB(hi, k.consts["levels"], hi)
		k.addBytes(q[2:], hi, sum)
	}
}

// lowHalves keeps a mask of the low halves of bytes.
func (k *kernel) lowHalves() {
	m := k.vec()
	k.g.VBROADCASTI128(operand.NewDataAddr(operand.NewStaticSymbol("fifteen"), 0), m)
	k.consts["nibble"] = m
}

// bitsOf: VPOPCNTD counts. AVX2 looks half bytes up in a table of counts and adds them with VPSADBW.
func bitsOf(k *kernel, and bool) {
	integers(k)
	k.load = func(k *kernel, at operand.Mem, tail bool) []reg.VecVirtual {
		return []reg.VecVirtual{readFloat(k, at, tail)}
	}
	if k.bytes == 64 {
		k.setup = setupFloat
		k.add = func(k *kernel, q []reg.VecVirtual, at operand.Mem, tail bool, sum reg.VecVirtual) {
			c, x := k.vec(), operand.Op(at)
			if tail {
				x = readFloat(k, at, true)
			}
			if and {
				k.g.VPANDD(x, q[0], c)
			} else {
				k.g.VPXORD(x, q[0], c)
			}
			k.g.VPOPCNTD(c, c)
			k.g.VPADDD(c, sum, sum)
		}
		return
	}
	k.setup = func(k *kernel, stride reg.GPVirtual) {
		setupFloat(k, stride)
		k.lowHalves()
		counts, zero := k.vec(), k.vec()
		k.g.VBROADCASTI128(operand.NewDataAddr(operand.NewStaticSymbol("counts"), 0), counts)
		k.zero(zero)
		k.consts["counts"], k.consts["zero"] = counts, zero
	}
	k.add = func(k *kernel, q []reg.VecVirtual, at operand.Mem, tail bool, sum reg.VecVirtual) {
		c, lo, x := k.vec(), k.vec(), operand.Op(at)
		if tail {
			x = readFloat(k, at, true)
		}
		if and {
			k.g.VPAND(x, q[0], c)
		} else {
			k.g.VPXOR(x, q[0], c)
		}
		k.g.VPAND(k.consts["nibble"], c, lo)
		k.g.VPSRLW(operand.U8(4), c, c)
		k.g.VPAND(k.consts["nibble"], c, c)
		k.g.VPSHUFB(lo, k.consts["counts"], lo)
		k.g.VPSHUFB(c, k.consts["counts"], c)
		k.g.VPADDB(lo, c, c)
		k.g.VPSADBW(k.consts["zero"], c, c)
		k.g.VPADDD(c, sum, sum)
	}
}

// integers sets what sums of 32-bit integers have in common.
func integers(k *kernel) {
	k.join = func(k *kernel, from, to reg.VecVirtual) { k.g.VPADDD(from, to, to) }
	k.reduce4 = func(k *kernel, s []reg.VecVirtual) reg.VecVirtual {
		g := k.g
		var y [4]reg.VecVirtual
		for i := range y {
			y[i] = k.fold(s[i], g.VPADDD)
		}
		a, b, hi := g.YMM(), g.YMM(), g.XMM()
		g.VPHADDD(y[1], y[0], a)
		g.VPHADDD(y[3], y[2], b)
		g.VPHADDD(b, a, a)
		g.VEXTRACTI128(operand.U8(1), a, hi)
		g.VPADDD(hi, a.AsX(), hi)
		return hi
	}
	k.reduce1 = func(k *kernel, s reg.VecVirtual) reg.VecVirtual {
		g := k.g
		y := k.fold(s, g.VPADDD)
		hi := g.XMM()
		g.VEXTRACTI128(operand.U8(1), y, hi)
		g.VPADDD(hi, y.AsX(), hi)
		g.VPHADDD(hi, hi, hi)
		g.VPHADDD(hi, hi, hi)
		return hi
	}
}

// table makes 8-byte words of constants.
func (g *gen) table(name string, words ...uint64) {
	g.StaticGlobal(name)
	g.DataAttributes(8 | 16) // RODATA, NOPTR
	for i, w := range words {
		g.AddDatum(8*i, operand.U64(w))
	}
}

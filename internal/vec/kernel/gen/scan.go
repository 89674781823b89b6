package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// scans makes what looks at many values at once: the fast scan, the choice of places, the highest of numbers.
func scans(g *gen) {
	g.table("fifteen", 0x0f0f0f0f0f0f0f0f, 0x0f0f0f0f0f0f0f0f)
	g.table("eachLane", 0x100000000, 0x300000002, 0x500000004, 0x700000006, 0x900000008, 0xb0000000a, 0xd0000000c, 0xf0000000e)
	scanBlock(g, avx512)
	scanBlock(g, avx2)
	selectAVX512(g)
	selectAVX2(g)
	estimate(g, avx512)
	estimate(g, avx2)
	highest(g)
}

// data is a table made by gen.table.
func data(name string) operand.Mem {
	return operand.NewDataAddr(operand.NewStaticSymbol(name), 0)
}

const scanDoc = "adds up table entries for the 64 rows of a block of n half bytes, at most 256 of them."

func (g *gen) scanFunction(lv level) (tables, block, n, out reg.GPVirtual) {
	g.Function("scanBlock" + lv.name)
	g.Pragma("noescape")
	g.Doc("scanBlock"+lv.name+" "+scanDoc, "The sums are added to out.", "This is the variant for "+lv.name+".")
	g.SignatureExpr("func(tables, block *byte, n int, out *uint32)")
	tables, block, n, out = g.GP64(), g.GP64(), g.GP64(), g.GP64()
	g.Load(g.Param("tables"), tables)
	g.Load(g.Param("block"), block)
	g.Load(g.Param("n"), n)
	g.Load(g.Param("out"), out)
	return tables, block, n, out
}

// scanLoop runs step for n half bytes, four at a time.
func (g *gen) scanLoop(tables, block, n reg.GPVirtual, step func(table, codes operand.Mem)) {
	four, one, done := g.label("four"), g.label("one"), g.label("done")
	g.SUBQ(operand.U8(4), n)
	g.JL(operand.LabelRef(one))
	g.Label(four)
	for i := range 4 {
		step(operand.Mem{Base: tables, Disp: 16 * i}, operand.Mem{Base: block, Disp: 32 * i})
	}
	g.ADDQ(operand.U8(64), tables)
	g.SUBQ(operand.I8(-128), block)
	g.SUBQ(operand.U8(4), n)
	g.JGE(operand.LabelRef(four))
	g.Label(one)
	g.CMPQ(n, operand.I8(-4))
	g.JE(operand.LabelRef(done))
	step(operand.Mem{Base: tables}, operand.Mem{Base: block})
	g.ADDQ(operand.U8(16), tables)
	g.ADDQ(operand.U8(32), block)
	g.DECQ(n)
	g.JMP(operand.LabelRef(one))
	g.Label(done)
}

// scanBlock looks up the low halves of 32 bytes in one register and the high ones in another. VPERMB reads the lowest six
// bits of an index, and the table lies there four times, so what stands above a half byte need not be cleared as it must be
// for VPSHUFB. Words add pairs of rows: one sum takes both bytes of a word and may wrap around, another the upper bytes
// alone, which gives the lower ones in the end. Registers of 64 bytes were slower than these of 32 on Zen 4.
func scanBlock(g *gen, lv level) {
	tables, block, n, out := g.scanFunction(lv)
	nibble, upper, r := g.YMM(), g.YMM(), g.GP32()
	if lv == avx2 {
		g.VBROADCASTI128(data("fifteen"), nibble)
	}
	g.MOVL(operand.U32(0x0100), r)
	g.VMOVD(r, upper.AsX())
	g.VPBROADCASTW(upper.AsX(), upper)
	var both, odd [2]reg.VecVirtual
	for i := range both {
		both[i], odd[i] = g.YMM(), g.YMM()
		g.clear(both[i])
		g.clear(odd[i])
	}
	g.scanLoop(tables, block, n, func(table, codes operand.Mem) {
		t, lo, hi := g.YMM(), g.YMM(), g.YMM()
		g.VBROADCASTI128(table, t)
		if lv == avx2 {
			g.VMOVDQU(codes, hi)
			g.VPAND(nibble, hi, lo)
			g.VPSRLW(operand.U8(4), hi, hi)
			g.VPAND(nibble, hi, hi)
		} else {
			g.VMOVDQU(codes, lo)
			g.VPSRLW(operand.U8(4), lo, hi)
		}
		for i, c := range []reg.VecVirtual{lo, hi} {
			if lv == avx2 {
				g.VPSHUFB(c, t, c)
			} else {
				g.VPERMB(t, c, c)
			}
			g.VPADDW(c, both[i], both[i])
			g.VPMADDUBSW(upper, c, c)
			g.VPADDW(c, odd[i], odd[i])
		}
	})
	for i := range both {
		even, a, b := g.YMM(), g.YMM(), g.YMM()
		g.VPSLLW(operand.U8(8), odd[i], even)
		g.VPSUBW(even, both[i], even)
		g.VPUNPCKLWD(odd[i], even, a) // rows 0 to 7 and 16 to 23
		g.VPUNPCKHWD(odd[i], even, b) // rows 8 to 15 and 24 to 31
		for j, v := range []reg.VecVirtual{a, b} {
			for lane := range 2 {
				w := g.YMM()
				if lane == 1 {
					x := g.XMM()
					g.VEXTRACTI128(operand.U8(1), v, x)
					g.VPMOVZXWD(x, w)
				} else {
					g.VPMOVZXWD(v.AsX(), w)
				}
				at := operand.Mem{Base: out, Disp: 128*i + 64*lane + 32*j}
				g.VPADDD(at, w, w)
				g.VMOVDQU(w, at)
			}
		}
	}
	g.VZEROUPPER()
	g.RET()
}

// clear makes a register zero.
func (g *gen) clear(v reg.VecVirtual) {
	k := kernel{g: g, level: level{bytes: int(v.Size())}}
	k.zero(v)
}

const selectDoc = "writes the places of values below bound, counted from 0, and gives their number."

func (g *gen) selectFunction(lv level) (values, n, out, found, at reg.GPVirtual) {
	g.Function("select" + lv.name)
	g.Pragma("noescape")
	g.Doc("select"+lv.name+" "+selectDoc, "out has room for n places. This is the variant for "+lv.name+".")
	g.SignatureExpr("func(values *float32, n int, bound float32, out *uint32) int")
	values, n, out, found, at = g.GP64(), g.GP64(), g.GP64(), g.GP64(), g.GP64()
	g.Load(g.Param("values"), values)
	g.Load(g.Param("n"), n)
	g.Load(g.Param("out"), out)
	g.XORQ(found, found)
	g.XORQ(at, at)
	return values, n, out, found, at
}

// The predicate of VCMPPS: less, and false where something is not a number.
const lessThan = 17

// selectAVX512 compresses in a register and stores all of it, at the end as many as values are left: the store never reaches
// beyond the place of the last value looked at. A compressing store to memory is slow on Zen 4.
func selectAVX512(g *gen) {
	values, n, out, found, at := g.selectFunction(avx512)
	bound, place, step := g.ZMM(), g.ZMM(), g.ZMM()
	g.VBROADCASTSS(g.param("bound"), bound)
	g.VMOVDQU32(data("eachLane"), place)
	r := g.GP32()
	g.MOVL(operand.U32(16), r)
	g.VPBROADCASTD(r, step)
	loop, none, tail, done := g.label("loop"), g.label("none"), g.label("tail"), g.label("done")
	mask := g.GP32()
	g.Label(loop)
	g.SUBQ(operand.U8(16), n)
	g.JL(operand.LabelRef(tail))
	v := g.ZMM()
	g.VMOVUPS(mem(values, at, 4, 0), v)
	g.VCMPPS(operand.U8(lessThan), bound, v, reg.K1)
	g.KMOVW(reg.K1, mask)
	g.TESTL(mask, mask)
	g.JZ(operand.LabelRef(none))
	packed := g.ZMM()
	g.VPCOMPRESSD_Z(place, reg.K1, packed)
	g.VMOVDQU32(packed, mem(out, found, 4, 0))
	g.POPCNTL(mask, mask)
	g.ADDQ(mask.As64(), found)
	g.Label(none)
	g.VPADDD(step, place, place)
	g.ADDQ(operand.U8(16), at)
	g.JMP(operand.LabelRef(loop))

	g.Label(tail)
	g.ADDQ(operand.U8(16), n)
	g.JZ(operand.LabelRef(done))
	ones := g.GP64()
	g.lowBits(n, ones)
	g.KMOVW(ones.As32(), reg.K2)
	g.VMOVUPS_Z(mem(values, at, 4, 0), reg.K2, v)
	g.VCMPPS(operand.U8(lessThan), bound, v, reg.K2, reg.K1)
	g.KMOVW(reg.K1, mask)
	g.VPCOMPRESSD_Z(place, reg.K1, packed)
	g.POPCNTL(mask, mask)
	g.VMOVDQU32(packed, reg.K2, mem(out, found, 4, 0))
	g.ADDQ(mask.As64(), found)
	g.Label(done)
	g.Store(found, g.ReturnIndex(0))
	g.VZEROUPPER()
	g.RET()
}

// lowBits sets the lowest n bits of a register; n is below 64.
func (g *gen) lowBits(n, to reg.Register) {
	g.XORQ(to, to)
	g.BTSQ(n, to)
	g.DECQ(to)
}

// selectAVX2 looks at 32 values at once and then at the bits of those found, which are few where this is used.
func selectAVX2(g *gen) {
	values, n, out, found, at := g.selectFunction(avx2)
	bound := g.YMM()
	g.VBROADCASTSS(g.param("bound"), bound)
	loop, bits, tail, one, skip, done := g.label("loop"), g.label("bits"), g.label("tail"), g.label("one"), g.label("skip"), g.label("done")
	next := g.label("next")
	mask, part := g.GP32(), g.GP32()
	g.Label(loop)
	g.SUBQ(operand.U8(32), n)
	g.JL(operand.LabelRef(tail))
	g.XORL(mask, mask)
	for i := 3; i >= 0; i-- {
		v := g.YMM()
		g.VMOVUPS(mem(values, at, 4, 32*i), v)
		g.VCMPPS(operand.U8(lessThan), bound, v, v)
		g.VMOVMSKPS(v, part)
		g.SHLL(operand.U8(8), mask)
		g.ORL(part, mask)
	}
	g.TESTL(mask, mask)
	g.JZ(operand.LabelRef(next))
	g.Label(bits)
	g.TZCNTL(mask, part)
	g.ADDL(at.As32(), part)
	g.MOVL(part, mem(out, found, 4, 0))
	g.INCQ(found)
	g.LEAL(operand.Mem{Base: mask.As64(), Disp: -1}, part)
	g.ANDL(part, mask)
	g.JNZ(operand.LabelRef(bits))
	g.Label(next)
	g.ADDQ(operand.U8(32), at)
	g.JMP(operand.LabelRef(loop))

	g.Label(tail)
	g.ADDQ(operand.U8(32), n)
	g.Label(one)
	g.JZ(operand.LabelRef(done))
	x := g.XMM()
	g.VMOVSS(mem(values, at, 4, 0), x)
	g.VUCOMISS(x, bound.AsX()) // bound above the value, and both are numbers
	g.JLS(operand.LabelRef(skip))
	g.MOVL(at.As32(), mem(out, found, 4, 0))
	g.INCQ(found)
	g.Label(skip)
	g.INCQ(at)
	g.DECQ(n)
	g.JMP(operand.LabelRef(one))
	g.Label(done)
	g.Store(found, g.ReturnIndex(0))
	g.VZEROUPPER()
	g.RET()
}

const estimateDoc = "makes distances of n sums, a multiple of the lanes of a register and 64 at most, and gives the bits of those below bound."

// estimate goes from the last register to the first, so that the bits of the first end up lowest. It does not fuse products
// with sums: the plain twin gives the same digits.
func estimate(g *gen, lv level) {
	g.Function("estimate" + lv.name)
	g.Pragma("noescape")
	g.Doc("estimate"+lv.name+" "+estimateDoc, "This is the variant for "+lv.name+".")
	g.SignatureExpr("func(sums *int32, scales, adds *float32, n int, shift int32, a, b, base, bound float32, out *float32) uint64")
	k := kernel{g: g, level: lv}
	pointers := map[string]reg.Register{}
	for _, name := range []string{"sums", "scales", "adds", "n", "out"} {
		pointers[name] = g.Load(g.Param(name), g.GP64())
	}
	n := pointers["n"].(reg.GPVirtual)
	constants := map[string]reg.VecVirtual{}
	for _, name := range []string{"shift", "a", "b", "base", "bound"} {
		v := k.vec()
		g.VBROADCASTSS(g.param(name), v)
		constants[name] = v
	}
	found, part := g.GP64(), g.GP32()
	g.XORQ(found, found)
	loop, done := g.label("loop"), g.label("done")
	g.Label(loop)
	g.SUBQ(operand.U8(lv.bytes/4), n)
	g.JL(operand.LabelRef(done))
	of := func(name string) operand.Mem { return mem(pointers[name], n, 4, 0) }
	v, d := k.vec(), k.vec()
	if lv == avx512 {
		g.VMOVDQU32(of("sums"), v)
	} else {
		g.VMOVDQU(of("sums"), v)
	}
	g.VPSUBD(constants["shift"], v, v)
	g.VCVTDQ2PS(v, v)
	g.VMULPS(constants["a"], v, v)
	g.VADDPS(constants["b"], v, v)
	g.VMULPS(of("scales"), v, v)
	g.VADDPS(of("adds"), constants["base"], d)
	g.VSUBPS(v, d, d)
	g.VMOVUPS(d, of("out"))
	g.SHLQ(operand.U8(lv.bytes/4), found)
	if lv == avx512 {
		g.VCMPPS(operand.U8(lessThan), constants["bound"], d, reg.K1)
		g.KMOVW(reg.K1, part)
	} else {
		g.VCMPPS(operand.U8(lessThan), constants["bound"], d, d)
		g.VMOVMSKPS(d, part)
	}
	g.ORQ(part.As64(), found)
	g.JMP(operand.LabelRef(loop))
	g.Label(done)
	g.Store(found, g.ReturnIndex(0))
	g.VZEROUPPER()
	g.RET()
}

// highest reads eight numbers at a time; the last eight may overlap those before.
func highest(g *gen) {
	g.Function("highestAVX2")
	g.Pragma("noescape")
	g.Doc("highestAVX2 gives the highest of n numbers, of which there are at least eight.")
	g.SignatureExpr("func(ids *uint32, n int) uint32")
	ids := g.Load(g.Param("ids"), g.GP64())
	n := g.Load(g.Param("n"), g.GP64())
	last, v := g.GP64(), g.YMM()
	g.LEAQ(operand.Mem{Base: ids, Index: n, Scale: 4, Disp: -32}, last)
	g.VMOVDQU(operand.Mem{Base: last}, v)
	loop, done := g.label("loop"), g.label("done")
	g.Label(loop)
	g.CMPQ(ids, last)
	g.JAE(operand.LabelRef(done))
	g.VPMAXUD(operand.Mem{Base: ids}, v, v)
	g.ADDQ(operand.U8(32), ids)
	g.JMP(operand.LabelRef(loop))
	g.Label(done)
	x, r := g.XMM(), g.GP32()
	g.VEXTRACTI128(operand.U8(1), v, x)
	g.VPMAXUD(v.AsX(), x, x)
	y := g.XMM()
	g.VPSHUFD(operand.U8(0x4e), x, y)
	g.VPMAXUD(y, x, x)
	g.VPSHUFD(operand.U8(0xb1), x, y)
	g.VPMAXUD(y, x, x)
	g.VMOVD(x, r)
	g.Store(r, g.ReturnIndex(0))
	g.VZEROUPPER()
	g.RET()
}

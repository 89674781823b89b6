package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// nearests makes the tile of a matrix product that Nearest is built of: some points by two registers of centroids.
func nearests(g *gen) {
	g.table("eachLane", 0x100000000, 0x300000002, 0x500000004, 0x700000006, 0x900000008, 0xb0000000a, 0xd0000000c, 0xf0000000e)
	g.nearest(avx512, 8)
	g.nearest(avx2, 6)
	turn(g)
}

// nearest: all sums of the tile stay in registers. For every dimension two registers of centroids are loaded and each
// point's number is spread over one, so a load serves several multiplications.
func (g *gen) nearest(lv level, points int) {
	k := &kernel{level: lv, g: g}
	lanes := lv.bytes / 4
	g.Function("nearest" + lv.name)
	g.Pragma("noescape")
	g.Doc(fmt.Sprintf("nearest%s looks for the nearest of %d centroids for each of %d points.", lv.name, 2*lanes, points),
		fmt.Sprintf("panel holds the centroids dimension by dimension, half half their squared lengths. best and where hold %d lanes for", lanes),
		"each point: what was best so far, and its number. The first centroid has the number first.")
	g.SignatureExpr("func(points *float32, dim int, panel, half *float32, first uint32, best *float32, where *uint32)")
	n, panel, stride := g.GP64(), g.GP64(), g.GP64()
	g.Load(g.Param("dim"), n)
	g.Load(g.Param("panel"), panel)
	g.MOVQ(n, stride)
	g.SHLQ(operand.U8(2), stride)
	// A pointer serves three points.
	var p []reg.GPVirtual
	for i := 0; i < points; i += 3 {
		r := g.GP64()
		if i == 0 {
			g.Load(g.Param("points"), r)
		} else {
			g.LEAQ(mem(p[len(p)-1], stride, 2, 0), r)
			g.ADDQ(stride, r)
		}
		p = append(p, r)
	}
	sums := make([][2]reg.VecVirtual, points)
	for i := range sums {
		for j := range 2 {
			sums[i][j] = k.vec()
			k.zero(sums[i][j])
		}
	}
	step := func(disp int) {
		var c [2]reg.VecVirtual
		for j := range c {
			c[j] = k.vec()
			g.VMOVUPS(operand.Mem{Base: panel, Disp: (2*disp + j) * lv.bytes}, c[j])
		}
		for i := range sums {
			x, at := k.vec(), operand.Mem{Base: p[i/3], Disp: 4 * disp}
			if i%3 > 0 {
				at.Index, at.Scale = stride, uint8(i%3)
			}
			g.VBROADCASTSS(at, x)
			for j := range c {
				g.VFMADD231PS(c[j], x, sums[i][j])
			}
		}
	}
	advance := func(by int) {
		g.ADDQ(operand.U32(uint32(2*by*lv.bytes)), panel)
		for _, r := range p {
			g.ADDQ(operand.U8(uint8(4*by)), r)
		}
	}
	const unroll = 4
	loop, one, done := g.label("loop"), g.label("one"), g.label("done")
	g.SUBQ(operand.U8(unroll), n)
	g.JL(operand.LabelRef(one))
	g.Label(loop)
	for u := range unroll {
		step(u)
	}
	advance(unroll)
	g.SUBQ(operand.U8(unroll), n)
	g.JGE(operand.LabelRef(loop))
	g.Label(one)
	g.CMPQ(n, operand.I8(-unroll))
	g.JE(operand.LabelRef(done))
	step(0)
	advance(1)
	g.DECQ(n)
	g.JMP(operand.LabelRef(one))
	g.Label(done)

	half := g.Load(g.Param("half"), g.GP64())
	best := g.Load(g.Param("best"), g.GP64())
	where := g.Load(g.Param("where"), g.GP64())
	ids := k.vec()
	first := g.GP32()
	g.Load(g.Param("first"), first)
	g.VMOVD(first, ids.AsX())
	g.VPBROADCASTD(ids.AsX(), ids)
	g.VPADDD(data("eachLane"), ids, ids)
	for j := range 2 {
		if j > 0 {
			// The numbers of the second register of centroids.
			more := k.vec()
			r := g.GP32()
			g.MOVL(operand.U32(uint32(lanes)), r)
			g.VMOVD(r, more.AsX())
			g.VPBROADCASTD(more.AsX(), more)
			g.VPADDD(more, ids, ids)
		}
		for i := range sums {
			at := operand.Mem{Base: best, Disp: i * lv.bytes}
			to := operand.Mem{Base: where, Disp: i * lv.bytes}
			d := k.vec()
			g.VMOVUPS(operand.Mem{Base: half, Disp: j * lv.bytes}, d)
			g.VSUBPS(sums[i][j], d, d)
			if lv == avx512 {
				b, w := k.vec(), k.vec()
				g.VMOVUPS(at, b)
				g.VMOVDQU32(to, w)
				g.VCMPPS(operand.U8(lessThan), b, d, reg.K1)
				g.VMOVAPS(d, reg.K1, b)
				g.VMOVDQA32(ids, reg.K1, w)
				g.VMOVUPS(b, at)
				g.VMOVDQU32(w, to)
				continue
			}
			less, b := k.vec(), k.vec()
			g.VMOVUPS(at, b)
			g.VCMPPS(operand.U8(lessThan), b, d, less)
			g.VBLENDVPS(less, d, b, b)
			g.VMOVUPS(b, at)
			g.VMOVUPS(to, b)
			g.VBLENDVPS(less, ids, b, b)
			g.VMOVUPS(b, to)
		}
	}
	g.VZEROUPPER()
	g.RET()
}

// turn makes columns of rows, eight by eight.
func turn(g *gen) {
	g.Function("turnAVX2")
	g.Pragma("noescape")
	g.Doc("turnAVX2 writes n columns of eight rows, n a multiple of 8, one below the other. stride and width are the numbers of bytes",
		"from one row to the next and from one column to the next.")
	g.SignatureExpr("func(rows *float32, stride, n int, columns *float32, width int)")
	r, stride, n, c, width := g.GP64(), g.GP64(), g.GP64(), g.GP64(), g.GP64()
	for i, to := range []reg.GPVirtual{r, stride, n, c, width} {
		g.Load(g.ParamIndex(i), to)
	}
	r4, c4, stride3, width3 := g.GP64(), g.GP64(), g.GP64(), g.GP64()
	g.LEAQ(mem(r, stride, 4, 0), r4)
	g.LEAQ(mem(stride, stride, 2, 0), stride3)
	g.LEAQ(mem(width, width, 2, 0), width3)
	eight := func(a, b, by, by3 reg.GPVirtual) []operand.Mem {
		return []operand.Mem{{Base: a}, mem(a, by, 1, 0), mem(a, by, 2, 0), mem(a, by3, 1, 0), {Base: b}, mem(b, by, 1, 0), mem(b, by, 2, 0), mem(b, by3, 1, 0)}
	}
	loop := g.label("loop")
	g.Label(loop)
	g.LEAQ(mem(c, width, 4, 0), c4)
	var y, pairs, fours [8]reg.VecVirtual
	for i, at := range eight(r, r4, stride, stride3) {
		y[i] = g.YMM()
		g.VMOVUPS(at, y[i])
	}
	for i := 0; i < 8; i += 2 {
		pairs[i], pairs[i+1] = g.YMM(), g.YMM()
		g.VUNPCKLPS(y[i+1], y[i], pairs[i])
		g.VUNPCKHPS(y[i+1], y[i], pairs[i+1])
	}
	for i := 0; i < 8; i += 4 {
		for j := range 4 {
			fours[i+j] = g.YMM()
			g.VSHUFPS(operand.U8([]uint8{0x44, 0xee}[j%2]), pairs[i+2+j/2], pairs[i+j/2], fours[i+j])
		}
	}
	for i, at := range eight(c, c4, width, width3) {
		v := g.YMM()
		g.VPERM2F128(operand.U8([]uint8{0x20, 0x31}[i/4]), fours[4+i%4], fours[i%4], v)
		g.VMOVUPS(v, at)
	}
	g.ADDQ(operand.U8(32), r)
	g.ADDQ(operand.U8(32), r4)
	g.LEAQ(mem(c4, width, 4, 0), c)
	g.SUBQ(operand.U8(8), n)
	g.JNZ(operand.LabelRef(loop))
	g.VZEROUPPER()
	g.RET()
}

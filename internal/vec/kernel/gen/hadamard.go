package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// hadamards makes the Walsh-Hadamard transform. Every sum and every difference is of the same two numbers as in the plain
// kernel, so the results are the same to the last bit: within a register x becomes x*sign + neighbour, and a product with
// one of +1 and -1 is exact.
func hadamards(g *gen) {
	const one, minus = uint64(0x3f800000), uint64(0xbf800000)
	both := func(first, second uint64) uint64 { return first | second<<32 }
	p, m := both(one, one), both(minus, minus)
	pm := both(one, minus)
	g.table("sign1", pm, pm, pm, pm, pm, pm, pm, pm)
	g.table("sign2", p, m, p, m, p, m, p, m)
	g.table("sign4", p, p, m, m, p, p, m, m)
	g.table("sign8", p, p, p, p, m, m, m, m)
	g.hadamard(avx512, 16)
	g.hadamard(avx2, 8)
}

// hadamard transforms blocks of as many registers as fit, then the whole in steps of four blocks and at last of two.
func (g *gen) hadamard(lv level, registers int) {
	k := &kernel{level: lv, g: g}
	block := registers * lv.bytes
	g.Function("hadamard" + lv.name)
	g.Pragma("noescape")
	g.Doc("hadamard"+lv.name+" transforms n numbers in place. n is a power of two and a whole number of registers' fillings.", "This is the variant for "+lv.name+".")
	g.SignatureExpr("func(x *float32, n int)")
	x, n, end, p := g.GP64(), g.GP64(), g.GP64(), g.GP64()
	g.Load(g.Param("x"), x)
	g.Load(g.Param("n"), n)
	g.SHLQ(operand.U8(2), n)
	g.LEAQ(operand.Mem{Base: x, Index: n, Scale: 1}, end)

	var signs []reg.VecVirtual
	for _, name := range []string{"sign1", "sign2", "sign4", "sign8"}[:2+lv.bytes/32] {
		s := k.vec()
		g.VMOVUPS(data(name), s)
		signs = append(signs, s)
	}
	blocks := g.label("blocks")
	g.Comment("Blocks that fit into registers.")
	g.MOVQ(x, p)
	g.Label(blocks)
	v := make([]reg.VecVirtual, registers)
	for i := range v {
		v[i] = k.vec()
		g.VMOVUPS(operand.Mem{Base: p, Disp: i * lv.bytes}, v[i])
	}
	for s, sign := range signs {
		for i := range v {
			y := k.vec()
			switch {
			case s == 0:
				g.VPERMILPS(operand.U8(0xb1), v[i], y)
			case s == 1:
				g.VPERMILPS(operand.U8(0x4e), v[i], y)
			case lv == avx2:
				g.VPERM2F128(operand.U8(1), v[i], v[i], y)
			case s == 2:
				g.VSHUFF32X4(operand.U8(0xb1), v[i], v[i], y)
			default:
				g.VSHUFF32X4(operand.U8(0x4e), v[i], v[i], y)
			}
			g.VFMADD213PS(y, sign, v[i])
		}
	}
	for half := 1; half < registers; half *= 2 {
		for i := range v {
			if i&half == 0 {
				v[i], v[i+half] = k.butterfly(v[i], v[i+half])
			}
		}
	}
	for i := range v {
		g.VMOVUPS(v[i], operand.Mem{Base: p, Disp: i * lv.bytes})
	}
	g.ADDQ(operand.U32(uint32(block)), p)
	g.CMPQ(p, end)
	g.JB(operand.LabelRef(blocks))

	g.Comment("Four parts at a time.")
	h, h3, j := g.GP64(), g.GP64(), g.GP64()
	four, outer, inner, two, inner2, done := g.label("four"), g.label("outer"), g.label("inner"), g.label("two"), g.label("inner"), g.label("done")
	g.MOVQ(operand.U32(uint32(block)), h)
	g.Label(four)
	g.MOVQ(h, j)
	g.SHLQ(operand.U8(2), j)
	g.CMPQ(j, n)
	g.JG(operand.LabelRef(two))
	g.LEAQ(operand.Mem{Base: h, Index: h, Scale: 2}, h3)
	g.MOVQ(x, p)
	g.Label(outer)
	g.MOVQ(h, j)
	g.Label(inner)
	at := []operand.Mem{{Base: p}, mem(p, h, 1, 0), mem(p, h, 2, 0), mem(p, h3, 1, 0)}
	for i := range 4 {
		v[i] = k.vec()
		g.VMOVUPS(at[i], v[i])
	}
	v[0], v[1] = k.butterfly(v[0], v[1])
	v[2], v[3] = k.butterfly(v[2], v[3])
	v[0], v[2] = k.butterfly(v[0], v[2])
	v[1], v[3] = k.butterfly(v[1], v[3])
	for i := range 4 {
		g.VMOVUPS(v[i], at[i])
	}
	g.ADDQ(operand.U8(uint8(lv.bytes)), p)
	g.SUBQ(operand.U8(uint8(lv.bytes)), j)
	g.JNZ(operand.LabelRef(inner))
	g.ADDQ(h3, p)
	g.CMPQ(p, end)
	g.JB(operand.LabelRef(outer))
	g.SHLQ(operand.U8(2), h)
	g.JMP(operand.LabelRef(four))

	g.Comment("Two halves, where the number of doublings is odd.")
	g.Label(two)
	g.CMPQ(h, n)
	g.JGE(operand.LabelRef(done))
	g.MOVQ(x, p)
	g.Label(inner2)
	for i := range 2 {
		v[i] = k.vec()
		g.VMOVUPS(at[i], v[i])
	}
	v[0], v[1] = k.butterfly(v[0], v[1])
	for i := range 2 {
		g.VMOVUPS(v[i], at[i])
	}
	g.ADDQ(operand.U8(uint8(lv.bytes)), p)
	g.LEAQ(mem(p, h, 1, 0), j)
	g.CMPQ(j, end)
	g.JB(operand.LabelRef(inner2))
	g.Label(done)
	g.VZEROUPPER()
	g.RET()
}

// butterfly gives sum and difference.
func (k *kernel) butterfly(a, b reg.VecVirtual) (sum, difference reg.VecVirtual) {
	sum = k.vec()
	k.g.VADDPS(b, a, sum)
	k.g.VSUBPS(b, a, a)
	return sum, a
}

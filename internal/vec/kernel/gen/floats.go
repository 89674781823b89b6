package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// floats makes the kernels that add floats: L2, inner product, L1, over rows of binary32 and of binary16.
func floats(g *gen) {
	g.masks()
	for _, lv := range []level{avx512, avx2} {
		for _, op := range []struct {
			name, doc string
			add       func(k *kernel, q, x, sum reg.VecVirtual)
		}{
			{"l2", "adds squares of differences.", addL2},
			{"dot", "adds products.", addDot},
			{"l1", "adds absolute differences.", addL1},
		} {
			for _, half := range []bool{false, true} {
				if half && op.name == "l1" {
					continue
				}
				k := &kernel{
					level: lv, name: op.name, doc: op.doc, query: "float32", row: "float32", out: "float32",
					chunk: lv.bytes, scale: 1, slots: 2, whole: 4,
					setup:   setupFloat,
					load:    loadFloat,
					join:    func(k *kernel, from, to reg.VecVirtual) { k.g.VADDPS(from, to, to) },
					reduce4: reduceFloats,
					reduce1: reduceFloat,
				}
				read := readFloat
				if half {
					k.name, k.row = "half"+map[string]string{"l2": "L2", "dot": "Dot"}[op.name], "uint16"
					k.chunk, k.scale, k.whole = lv.bytes/2, 2, 2
					read = readHalf
					if lv == avx2 {
						k.rest = restHalf(op.add)
					}
				}
				k.add = func(k *kernel, q []reg.VecVirtual, at operand.Mem, tail bool, sum reg.VecVirtual) {
					if op.name == "dot" && !half && !tail {
						k.g.VFMADD231PS(at, q[0], sum)
						return
					}
					if !half && !tail && op.name == "l2" {
						d := k.vec()
						k.g.VSUBPS(at, q[0], d)
						k.g.VFMADD231PS(d, d, sum)
						return
					}
					op.add(k, q[0], read(k, at, tail), sum)
				}
				k.emit(g)
			}
		}
	}
}

// masks puts eight words of ones between eight of zeros and eight of ones: a window on them is a mask of the first or the
// last n of eight lanes.
func (g *gen) masks() {
	g.table("lanes", 0, 0, 0, 0, ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), 0, 0, 0, 0)
}

func setupFloat(k *kernel, stride reg.GPVirtual) {
	g := k.g
	rem := g.GP64()
	g.MOVQ(stride, rem)
	if k.scale == 1 {
		g.SHRQ(operand.U8(2), rem)
	} else {
		g.SHRQ(operand.U8(1), rem)
	}
	g.ANDQ(operand.U8(uint8(k.bytes/4-1)), rem)
	if k.bytes == 64 {
		ones := g.GP64()
		g.lowBits(rem, ones)
		g.KMOVW(ones.As32(), reg.K1)
	} else if k.scale == 1 {
		at := g.GP64()
		g.LEAQ(operand.NewDataAddr(operand.NewStaticSymbol("lanes"), 64), at)
		g.NEGQ(rem)
		m := g.YMM()
		g.VMOVDQU(mem(at, rem, 4, 0), m)
		k.consts["first"] = m
	} else {
		at := g.GP64()
		g.LEAQ(operand.NewDataAddr(operand.NewStaticSymbol("lanes"), 0), at)
		m := g.YMM()
		g.VMOVDQU(mem(at, rem, 4, 0), m)
		k.consts["last"] = m
	}
	if k.name == "l1" {
		m := k.vec()
		if k.bytes == 64 {
			g.VPTERNLOGD(operand.U8(0xff), m, m, m)
		} else {
			g.VPCMPEQD(m, m, m)
		}
		g.VPSRLD(operand.U8(1), m, m)
		k.consts["magnitude"] = m
	}
}

func loadFloat(k *kernel, at operand.Mem, tail bool) []reg.VecVirtual {
	return []reg.VecVirtual{readFloat(k, at, tail)}
}

func readFloat(k *kernel, at operand.Mem, tail bool) reg.VecVirtual {
	v := k.vec()
	switch {
	case !tail:
		k.g.VMOVUPS(at, v)
	case k.bytes == 64:
		k.g.VMOVUPS_Z(at, reg.K1, v)
	case k.scale == 1:
		k.g.VMASKMOVPS(at, k.consts["first"], v)
	}
	return v
}

func readHalf(k *kernel, at operand.Mem, tail bool) reg.VecVirtual {
	v := k.vec()
	if tail {
		h := k.g.YMM()
		k.g.VMOVDQU16_Z(at, reg.K1, h)
		k.g.VCVTPH2PS(h, v)
	} else {
		k.g.VCVTPH2PS(at, v)
	}
	return v
}

// restHalf reads the last eight halves of a row again and counts those that were not counted before. Rows have at least
// eight.
func restHalf(add func(k *kernel, q, x, sum reg.VecVirtual)) func(k *kernel, query, row, end, off reg.GPVirtual, sum reg.VecVirtual) {
	return func(k *kernel, query, row, end, off reg.GPVirtual, sum reg.VecVirtual) {
		g, m := k.g, k.consts["last"]
		q, x := g.YMM(), g.YMM()
		g.VANDPS(mem(query, end, 2, -32), m, q)
		g.VCVTPH2PS(mem(row, end, 1, -16), x)
		g.VANDPS(x, m, x)
		add(k, q, x, sum)
	}
}

func addL2(k *kernel, q, x, sum reg.VecVirtual) {
	k.g.VSUBPS(x, q, x)
	k.g.VFMADD231PS(x, x, sum)
}

func addDot(k *kernel, q, x, sum reg.VecVirtual) { k.g.VFMADD231PS(x, q, sum) }

func addL1(k *kernel, q, x, sum reg.VecVirtual) {
	k.g.VSUBPS(x, q, x)
	if k.bytes == 64 {
		k.g.VPANDD(k.consts["magnitude"], x, x)
	} else {
		k.g.VPAND(k.consts["magnitude"], x, x)
	}
	k.g.VADDPS(x, sum, sum)
}

// fold gives the sum of the halves of a register of 64 bytes, by the instruction given.
func (k *kernel) fold(v reg.VecVirtual, add func(ops ...operand.Op)) reg.VecVirtual {
	if k.bytes == 32 {
		return v
	}
	hi := k.g.YMM()
	k.g.VEXTRACTI64X4(operand.U8(1), v, hi)
	add(hi, v.AsY(), hi)
	return hi
}

func reduceFloats(k *kernel, s []reg.VecVirtual) reg.VecVirtual {
	g := k.g
	var y [4]reg.VecVirtual
	for i := range y {
		y[i] = k.fold(s[i], g.VADDPS)
	}
	a, b, hi := g.YMM(), g.YMM(), g.XMM()
	g.VHADDPS(y[1], y[0], a)
	g.VHADDPS(y[3], y[2], b)
	g.VHADDPS(b, a, a)
	g.VEXTRACTF128(operand.U8(1), a, hi)
	g.VADDPS(hi, a.AsX(), hi)
	return hi
}

func reduceFloat(k *kernel, s reg.VecVirtual) reg.VecVirtual {
	g := k.g
	y := k.fold(s, g.VADDPS)
	hi := g.XMM()
	g.VEXTRACTF128(operand.U8(1), y, hi)
	g.VADDPS(hi, y.AsX(), hi)
	g.VHADDPS(hi, hi, hi)
	g.VHADDPS(hi, hi, hi)
	return hi
}

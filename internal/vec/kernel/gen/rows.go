package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// level is a set of instructions.
type level struct {
	name  string // the end of the names of its functions
	bytes int    // of a vector
}

var (
	avx2   = level{"AVX2", 32}
	avx512 = level{"AVX512", 64}
)

// ahead is the number of bytes of a row from which on the rows that come next are asked for while the present ones are
// read. Short rows are in flight early enough without it, and asking costs them more than it gains.
const ahead = 1024

// aheadEnd is the place in the coming rows up to which they are asked for; the machine goes on by itself. More would drive
// the present rows out of the nearest cache.
const aheadEnd = 512

// kernel is one query against many rows: what is done with a chunk of a row. All kernels are called as
//
//	func name(query, rows, ids, n, stride, out)
//
// with the rows at ids or, when ids is nil, n rows in order. stride is the number of bytes of a row. Four rows are read at
// once, so that a chunk of the query is loaded once for four, and the sums of four rows are reduced together.
type kernel struct {
	level
	name, doc  string
	query, row string // types of elements
	out        string
	more       string // further parameters
	chunk      int    // bytes of a row that one step takes
	scale      int    // bytes of the query for one byte of a row
	slots      int    // sums for each row when four are read; one row alone has twice as many
	whole      int    // a row is a multiple of so many bytes

	setup func(k *kernel, stride reg.GPVirtual)
	// load brings a chunk of the query into registers; tail says that only what is left of a row may be touched.
	load func(k *kernel, at operand.Mem, tail bool) []reg.VecVirtual
	// add adds a chunk of a row to a sum.
	add func(k *kernel, q []reg.VecVirtual, at operand.Mem, tail bool, sum reg.VecVirtual)
	// join adds the second sum to the first.
	join func(k *kernel, from, to reg.VecVirtual)
	// reduce gives the elements of four sums, or of one, in the lowest lanes of a register.
	reduce4 func(k *kernel, sums []reg.VecVirtual) reg.VecVirtual
	reduce1 func(k *kernel, sum reg.VecVirtual) reg.VecVirtual
	// rest adds what does not fill a chunk, where masks do not do it.
	rest func(k *kernel, q, row reg.GPVirtual, stride reg.GPVirtual, off reg.GPVirtual, sum reg.VecVirtual)

	g      *gen
	consts map[string]reg.VecVirtual
}

func (g *gen) label(name string) string {
	g.labels++
	return fmt.Sprintf("%s%d", name, g.labels)
}

// vec makes a register of the level's width.
func (k *kernel) vec() reg.VecVirtual {
	if k.bytes == 64 {
		return k.g.ZMM()
	}
	return k.g.YMM()
}

// raw emits an instruction that avo has not.
func (g *gen) raw(opcode string, ops ...operand.Op) {
	last := ops[len(ops)-1]
	g.Instruction(&ir.Instruction{Opcode: opcode, Operands: ops, Inputs: ops, Outputs: []operand.Op{last}})
}

func (g *gen) param(name string) operand.Mem {
	b, err := g.Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

func mem(base, index reg.Register, scale uint8, disp int) operand.Mem {
	return operand.Mem{Base: base, Index: index, Scale: scale, Disp: disp}
}

func (k *kernel) emit(g *gen) {
	k.g, k.consts = g, map[string]reg.VecVirtual{}
	g.Function(k.name + k.level.name)
	g.Pragma("noescape")
	g.Doc(k.name+k.level.name+" "+k.doc, "This is the variant for "+k.level.name+".")
	g.SignatureExpr(fmt.Sprintf("func(query *%s, rows *%s, ids *uint32, n, stride int, out *%s%s)", k.query, k.row, k.out, k.more))

	query, ids, n, out := g.GP64(), g.GP64(), g.GP64(), g.GP64()
	g.Load(g.Param("query"), query)
	g.Load(g.Param("ids"), ids)
	g.Load(g.Param("n"), n)
	g.Load(g.Param("out"), out)
	stride := g.param("stride")
	end, off := g.GP64(), g.GP64()
	g.MOVQ(stride, end)
	if k.setup != nil {
		k.setup(k, end)
	}
	r := []reg.GPVirtual{g.GP64(), g.GP64(), g.GP64(), g.GP64()}

	four, inOrder, ready := g.label("four"), g.label("inorder"), g.label("ready")
	one, oneInOrder, oneReady, done := g.label("one"), g.label("oneinorder"), g.label("oneready"), g.label("done")
	g.TESTQ(ids, ids)
	g.JZ(operand.LabelRef(inOrder))

	// row sets a pointer to the row whose number stands in the list at place i.
	row := func(i int, to reg.GPVirtual, base reg.GPVirtual) {
		g.MOVL(operand.Mem{Base: ids, Disp: 4 * i}, to.As32())
		g.IMULQ(stride, to)
		g.ADDQ(base, to)
	}

	g.Comment("Four rows of the list at once.")
	g.Label(four)
	g.CMPQ(n, operand.U8(4))
	g.JL(operand.LabelRef(one))
	g.MOVQ(g.param("rows"), off)
	for i := range r {
		row(i, r[i], off)
	}
	sums := k.sums(4, k.slots)
	summed := g.label("summed")
	g.CMPQ(stride, operand.U32(ahead))
	g.JL(operand.LabelRef(ready))
	p := []reg.GPVirtual{g.GP64(), g.GP64(), g.GP64(), g.GP64()}
	asked := g.label("asked")
	for i := range p {
		g.MOVQ(r[i], p[i])
	}
	for i := range p {
		g.CMPQ(n, operand.I8(int8(5+i)))
		g.JL(operand.LabelRef(asked))
		row(4+i, p[i], off)
	}
	g.Label(asked)
	k.body(query, end, off, r, sums, p)
	g.JMP(operand.LabelRef(summed))
	g.Label(ready)
	k.body(query, end, off, r, sums, nil)
	g.Label(summed)
	first := k.finish(query, end, off, r, sums)
	res := k.reduce4(k, first)
	g.VMOVDQU(res.AsX(), operand.Mem{Base: out})
	g.ADDQ(operand.U8(16), out)
	g.SUBQ(operand.U8(4), n)
	g.ADDQ(operand.U8(16), ids)
	g.JMP(operand.LabelRef(four))

	k.quarters(query, n, out, end, off, r, inOrder)

	g.Comment("What is left, row by row.")
	g.Label(one)
	g.TESTQ(n, n)
	g.JZ(operand.LabelRef(done))
	g.TESTQ(ids, ids)
	g.JZ(operand.LabelRef(oneInOrder))
	g.MOVQ(g.param("rows"), off)
	row(0, r[3], off)
	g.ADDQ(operand.U8(4), ids)
	g.JMP(operand.LabelRef(oneReady))
	g.Label(oneInOrder)
	g.ADDQ(stride, r[3])
	g.Label(oneReady)
	single := k.sums(1, 2*k.slots)
	k.body(query, end, off, r[3:], single, nil)
	first = k.finish(query, end, off, r[3:], single)
	res = k.reduce1(k, first[0])
	g.VMOVD(res.AsX(), operand.Mem{Base: out})
	g.ADDQ(operand.U8(4), out)
	g.DECQ(n)
	g.JMP(operand.LabelRef(one))

	g.Label(done)
	g.VZEROUPPER()
	g.RET()
}

// quarters takes the rows in order, one of each quarter of them at once: four streams, each of which goes straight on, are
// what the machine foresees best. Four neighbours at once took twice as long on Zen 4 where rows came from memory. It leaves
// up to three rows, with the last pointer at the row before them.
func (k *kernel) quarters(query, n, out, end, off reg.GPVirtual, r []reg.GPVirtual, label string) {
	g := k.g
	left, gap, gap3 := g.GP64(), g.GP64(), g.GP64()
	loop, over := g.label("quarters"), g.label("over")
	g.Comment("Rows in order.")
	g.Label(label)
	g.MOVQ(g.param("rows"), r[3])
	g.MOVQ(n, left)
	g.SHRQ(operand.U8(2), left)
	g.JZ(operand.LabelRef(over))
	g.MOVQ(left, gap)
	g.IMULQ(end, gap)
	g.MOVQ(r[3], r[0])
	for i := range 3 {
		g.LEAQ(mem(r[i], gap, 1, 0), r[i+1])
	}
	g.MOVQ(left, gap)
	g.SHLQ(operand.U8(2), gap)
	g.LEAQ(mem(gap, gap, 2, 0), gap3)
	g.Label(loop)
	sums := k.sums(4, k.slots)
	k.body(query, end, off, r, sums, nil)
	res := k.reduce4(k, k.finish(query, end, off, r, sums)).AsX()
	g.VMOVD(res, operand.Mem{Base: out})
	g.VPEXTRD(operand.U8(1), res, mem(out, gap, 1, 0))
	g.VPEXTRD(operand.U8(2), res, mem(out, gap, 2, 0))
	g.VPEXTRD(operand.U8(3), res, mem(out, gap3, 1, 0))
	g.ADDQ(operand.U8(4), out)
	for i := range r {
		g.ADDQ(end, r[i])
	}
	g.DECQ(left)
	g.JNZ(operand.LabelRef(loop))
	g.ADDQ(gap3, out)
	g.ANDQ(operand.U8(3), n)
	g.Label(over)
	g.SUBQ(end, r[3])
}

// sums makes n sums for each of some rows.
func (k *kernel) sums(rows, n int) [][]reg.VecVirtual {
	out := make([][]reg.VecVirtual, rows)
	for i := range out {
		for range n {
			out[i] = append(out[i], k.vec())
		}
	}
	return out
}

// body clears the sums and adds all groups of chunks that are whole, one chunk for each sum of a row. off is then where
// it stopped. The rows at p are asked for meanwhile.
func (k *kernel) body(query, end, off reg.GPVirtual, r []reg.GPVirtual, sums [][]reg.VecVirtual, p []reg.GPVirtual) {
	g := k.g
	for _, s := range sums {
		for _, v := range s {
			k.zero(v)
		}
	}
	n := len(sums[0])
	step := n * k.chunk
	over := g.label("over")
	chunks := func(p []reg.GPVirtual) {
		for c := range n {
			q := k.load(k, mem(query, off, uint8(k.scale), (c*k.chunk-step)*k.scale), false)
			for i := range sums {
				k.add(k, q, mem(r[i], off, 1, c*k.chunk-step), false, sums[i][c])
			}
			for i := range p {
				if c*k.chunk%64 == 0 {
					g.PREFETCHT0(mem(p[i], off, 1, c*k.chunk-step))
				}
			}
		}
		g.ADDQ(operand.I32(int32(step)), off)
	}
	g.MOVQ(operand.U32(uint32(step)), off)
	g.CMPQ(off, end)
	g.JG(operand.LabelRef(over))
	if p != nil {
		loop := g.label("asking")
		g.Label(loop)
		chunks(p)
		g.CMPQ(off, end)
		g.JG(operand.LabelRef(over))
		g.CMPQ(off, operand.U32(aheadEnd))
		g.JLE(operand.LabelRef(loop))
	}
	loop := g.label("loop")
	g.Label(loop)
	chunks(nil)
	g.CMPQ(off, end)
	g.JLE(operand.LabelRef(loop))
	g.Label(over)
	g.SUBQ(operand.I32(int32(step)), off)
}

// finish adds the chunks that are left and joins the sums of each row.
func (k *kernel) finish(query, end, off reg.GPVirtual, r []reg.GPVirtual, sums [][]reg.VecVirtual) []reg.VecVirtual {
	g := k.g
	n := len(sums[0])
	if n > 1 && k.whole%(n*k.chunk) != 0 {
		// At most n-1 whole chunks are left.
		loop, over := g.label("chunk"), g.label("chunks")
		g.Label(loop)
		g.ADDQ(operand.I32(int32(k.chunk)), off)
		g.CMPQ(off, end)
		g.JG(operand.LabelRef(over))
		q := k.load(k, mem(query, off, uint8(k.scale), -k.chunk*k.scale), false)
		for i := range sums {
			k.add(k, q, mem(r[i], off, 1, -k.chunk), false, sums[i][0])
		}
		g.JMP(operand.LabelRef(loop))
		g.Label(over)
		g.SUBQ(operand.I32(int32(k.chunk)), off)
	}
	if k.whole%k.chunk != 0 {
		whole := g.label("whole")
		g.CMPQ(off, end)
		g.JGE(operand.LabelRef(whole))
		if k.rest != nil {
			for i := range sums {
				k.rest(k, query, r[i], end, off, sums[i][n-1])
			}
		} else {
			q := k.load(k, mem(query, off, uint8(k.scale), 0), true)
			for i := range sums {
				k.add(k, q, mem(r[i], off, 1, 0), true, sums[i][n-1])
			}
		}
		g.Label(whole)
	}
	var first []reg.VecVirtual
	for _, s := range sums {
		for m := n; m > 1; m /= 2 {
			for j := range m / 2 {
				k.join(k, s[m/2+j], s[j])
			}
		}
		first = append(first, s[0])
	}
	return first
}

// zero clears a register; whatever was in it does not matter.
func (k *kernel) zero(v reg.VecVirtual) {
	opcode := "VPXORD" // all 32 registers can be named
	if k.bytes == 32 {
		opcode = "VPXOR"
	}
	k.g.Instruction(&ir.Instruction{Opcode: opcode, Operands: []operand.Op{v, v, v}, Outputs: []operand.Op{v}})
}

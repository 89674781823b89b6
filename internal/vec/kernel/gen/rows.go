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
//
// The four are one of each quarter of the rows: where rows lie one after another in memory, these are four streams, each of
// which goes straight on, and the machine foresees them best. Four neighbours at once took more than twice as long on Zen 4 where
// the rows were in no cache. Up to three rows are left and taken one by one.
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

// raw emits an instruction that avo has not, of the extension given.
func (g *gen) raw(isa, opcode string, ops ...operand.Op) {
	last := ops[len(ops)-1]
	g.Instruction(&ir.Instruction{Opcode: opcode, Operands: ops, Inputs: ops, Outputs: []operand.Op{last}, ISA: []string{isa}})
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

	query, ids, out, left, gap := g.GP64(), g.GP64(), g.GP64(), g.GP64(), g.GP64()
	g.Load(g.Param("query"), query)
	g.Load(g.Param("ids"), ids)
	g.Load(g.Param("out"), out)
	stride, end, off := g.param("stride"), g.GP64(), g.GP64()
	g.MOVQ(stride, end)
	if k.setup != nil {
		k.setup(k, end)
	}
	r := []reg.GPVirtual{g.GP64(), g.GP64(), g.GP64(), g.GP64()}

	loop, ready, summed, inOrder := g.label("quarters"), g.label("ready"), g.label("summed"), g.label("inorder")
	one, oneInOrder, oneReady, done := g.label("one"), g.label("oneinorder"), g.label("oneready"), g.label("done")
	g.Load(g.Param("n"), left)
	g.SHRQ(operand.U8(2), left)
	g.MOVQ(left, gap)
	g.SHLQ(operand.U8(2), gap)
	g.TESTQ(ids, ids)
	g.JZ(operand.LabelRef(inOrder))

	// at is one of four places in a list of which quarter is a pointer into the first quarter. off is overwritten.
	at := func(quarter reg.GPVirtual, i, disp int) operand.Mem {
		switch i {
		case 0:
			return operand.Mem{Base: quarter, Disp: disp}
		case 3:
			g.LEAQ(mem(gap, gap, 2, 0), off)
			return mem(quarter, off, 1, disp)
		}
		return mem(quarter, gap, uint8(i), disp)
	}
	// rows sets pointers to four rows of the list. off is overwritten.
	rows := func(to []reg.GPVirtual, disp int) {
		for i := range to {
			g.MOVL(at(ids, i, disp), to[i].As32())
			g.IMULQ(stride, to[i])
			g.ADDQ(g.param("rows"), to[i])
		}
	}
	// store writes four results.
	store := func(sums [][]reg.VecVirtual) {
		res := k.reduce4(k, k.finish(query, end, off, r, sums)).AsX()
		g.VMOVD(res, at(out, 0, 0))
		for i := 1; i < 4; i++ {
			g.VPEXTRD(operand.U8(uint8(i)), res, at(out, i, 0))
		}
		g.ADDQ(operand.U8(4), out)
	}

	g.Comment("Rows of the list.")
	g.TESTQ(left, left)
	g.JZ(operand.LabelRef(one))
	g.Label(loop)
	rows(r, 0)
	sums := k.sums(4, k.slots)
	g.CMPQ(stride, operand.U32(ahead))
	g.JL(operand.LabelRef(ready))
	g.CMPQ(left, operand.U8(1))
	g.JE(operand.LabelRef(ready))
	p := []reg.GPVirtual{g.GP64(), g.GP64(), g.GP64(), g.GP64()}
	rows(p, 4)
	k.body(query, end, off, r, sums, p)
	g.JMP(operand.LabelRef(summed))
	g.Label(ready)
	k.body(query, end, off, r, sums, nil)
	g.Label(summed)
	store(sums)
	g.ADDQ(operand.U8(4), ids)
	g.DECQ(left)
	g.JNZ(operand.LabelRef(loop))
	g.LEAQ(mem(gap, gap, 2, 0), off)
	g.ADDQ(off, ids)
	g.ADDQ(off, out)
	g.JMP(operand.LabelRef(one))

	g.Comment("Rows in order.")
	g.Label(inOrder)
	next, over := g.label("quarters"), g.label("over")
	g.MOVQ(g.param("rows"), r[3])
	g.TESTQ(left, left)
	g.JZ(operand.LabelRef(over))
	g.MOVQ(left, off)
	g.IMULQ(end, off)
	g.MOVQ(r[3], r[0])
	for i := range 3 {
		g.LEAQ(mem(r[i], off, 1, 0), r[i+1])
	}
	g.Label(next)
	sums = k.sums(4, k.slots)
	k.body(query, end, off, r, sums, nil)
	store(sums)
	for i := range r {
		g.ADDQ(end, r[i])
	}
	g.DECQ(left)
	g.JNZ(operand.LabelRef(next))
	g.LEAQ(mem(gap, gap, 2, 0), off)
	g.ADDQ(off, out)
	g.Label(over)
	g.SUBQ(end, r[3]) // to the row before those that are left

	g.Comment("What is left, row by row.")
	g.Label(one)
	n, again := g.GP64(), g.label("again")
	g.Load(g.Param("n"), n)
	g.ANDQ(operand.U8(3), n)
	g.Label(again)
	g.JZ(operand.LabelRef(done))
	g.TESTQ(ids, ids)
	g.JZ(operand.LabelRef(oneInOrder))
	rows(r[3:], 0)
	g.ADDQ(operand.U8(4), ids)
	g.JMP(operand.LabelRef(oneReady))
	g.Label(oneInOrder)
	g.ADDQ(stride, r[3])
	g.Label(oneReady)
	single := k.sums(1, 2*k.slots)
	k.body(query, end, off, r[3:], single, nil)
	res := k.reduce1(k, k.finish(query, end, off, r[3:], single)[0])
	g.VMOVD(res.AsX(), operand.Mem{Base: out})
	g.ADDQ(operand.U8(4), out)
	g.DECQ(n)
	g.JMP(operand.LabelRef(again))

	g.Label(done)
	g.VZEROUPPER()
	g.RET()
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
	if p != nil {
		// Such rows have at least ahead bytes, so the end is not near.
		loop := g.label("asking")
		g.Label(loop)
		chunks(p)
		g.CMPQ(off, operand.U32(aheadEnd))
		g.JLE(operand.LabelRef(loop))
	} else {
		g.CMPQ(off, end)
		g.JG(operand.LabelRef(over))
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
	opcode, isa := "VPXORD", "AVX512F" // all 32 registers can be named
	if k.bytes == 32 {
		opcode, isa = "VPXOR", "AVX2"
	}
	k.g.Instruction(&ir.Instruction{Opcode: opcode, Operands: []operand.Op{v, v, v}, Outputs: []operand.Op{v}, ISA: []string{isa}})
}

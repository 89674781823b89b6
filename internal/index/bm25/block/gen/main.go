// Command gen writes the assembly of package block: which instructions turn packed bits into numbers?
//
// It is a module of its own, so that the assembler avo never becomes a module of the product. Run it by go generate in
// the package above. The same source always gives the same files.
//
// Sixteen values of width w take 2w bytes, eight take w. A shuffle brings the four bytes that hold a value into its lane, a shift
// and a mask take it out. That works for widths up to 25, where no value touches a fifth byte.
package main

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
	"github.com/mmcloughlin/avo/reg"
)

// gen is the file being made.
type gen struct {
	*build.Context
	labels int
}

func (g *gen) label(name string) string {
	g.labels++
	return fmt.Sprintf("%s%d", name, g.labels)
}

func main() {
	g := &gen{Context: build.NewContext()}
	g.ConstraintExpr("!purego")
	g.table("eachLane", 0x100000000, 0x300000002, 0x500000004, 0x700000006, 0x900000008, 0xb0000000a, 0xd0000000c, 0xf0000000e)
	unpackAVX512(g, false)
	unpackAVX512(g, true)
	bitsAVX512(g)
	unpackAVX2(g, false)
	unpackAVX2(g, true)
	f, err := g.Result()
	if err != nil {
		log.Fatal(err)
	}
	if err := pass.Compile.Execute(f); err != nil {
		log.Fatal(err)
	}
	for _, fn := range f.Functions() {
		if err := withinLevel(fn); err != nil {
			log.Fatal(err)
		}
	}
	cfg := printer.Config{Name: "internal/index/bm25/block/gen", Pkg: "block"}
	for name, p := range map[string]printer.Printer{"asm_amd64.s": printer.NewGoAsm(cfg), "asm_amd64.go": printer.NewStubs(cfg)} {
		text, err := p.Print(f)
		if err != nil {
			log.Fatalf("%s: %v", name, err)
		}
		if err := os.WriteFile(filepath.Join("..", name), text, 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// sets are the extensions that a level of package kernel promises, by the end of a function's name.
var sets = map[string][]string{
	"AVX2":   {"AVX", "AVX2", "FMA3", "F16C", "BMI", "POPCNT", "MMX+"},
	"AVX512": {"AVX512F", "AVX512BW", "AVX512DQ", "AVX512VL", "AVX512VBMI", "AVX512VNNI", "AVX512VPOPCNTDQ"},
}

// withinLevel fails where a function needs more than the level in its name has.
func withinLevel(fn *ir.Function) error {
	allowed := sets["AVX2"]
	if strings.HasSuffix(fn.Name, "AVX512") {
		allowed = append(slices.Clone(allowed), sets["AVX512"]...)
	}
	for _, isa := range fn.ISA {
		if !slices.Contains(allowed, isa) {
			return fmt.Errorf("%s needs %s", fn.Name, isa)
		}
	}
	return nil
}

// table makes read-only data of 64-bit words.
func (g *gen) table(name string, words ...uint64) {
	g.StaticGlobal(name)
	g.DataAttributes(8 | 16) // RODATA, NOPTR
	for i, w := range words {
		g.AddDatum(8*i, operand.U64(w))
	}
}

func data(name string) operand.Mem {
	return operand.NewDataAddr(operand.NewStaticSymbol(name), 0)
}

// signature begins a function that decodes groups of values.
func signature(g *gen, level string, sums bool) (to, packed, width, groups, how reg.GPVirtual) {
	name, doc, more := "unpack"+level, "unpacks groups of values and adds one to each", ""
	if sums {
		name, doc, more = "sums"+level, "adds up groups of gaps, each less one, that follow on the row before first", ", first uint32"
	}
	g.Function(name)
	g.Pragma("noescape")
	g.Doc(name+" "+doc+". how is the entry of the width in the tables.", "This is the variant for "+level+".")
	g.SignatureExpr("func(to *uint32, packed *byte, width, groups int, how *byte" + more + ")")
	to, packed, width, groups, how = g.GP64(), g.GP64(), g.GP64(), g.GP64(), g.GP64()
	g.Load(g.Param("to"), to)
	g.Load(g.Param("packed"), packed)
	g.Load(g.Param("width"), width)
	g.Load(g.Param("groups"), groups)
	g.Load(g.Param("how"), how)
	return to, packed, width, groups, how
}

// lowBits sets the lowest width bits of a register.
func (g *gen) lowBits(width reg.GPVirtual) reg.GPVirtual {
	m := g.GP64()
	g.XORQ(m, m)
	g.BTSQ(width, m)
	g.DECQ(m)
	return m
}

// unpackAVX512 takes 16 values at once. The tables of a width are 64 places of bytes and 16 shifts.
func unpackAVX512(g *gen, sums bool) {
	to, packed, width, groups, how := signature(g, "AVX512", sums)
	place, shift, mask, ones := g.ZMM(), g.ZMM(), g.ZMM(), g.ZMM()
	g.VMOVDQU64(operand.Mem{Base: how}, place)
	g.VMOVDQU64(operand.Mem{Base: how, Disp: 64}, shift)
	g.VPBROADCASTD(g.lowBits(width).As32(), mask)
	one := g.GP32()
	g.MOVL(operand.U32(1), one)
	g.VPBROADCASTD(one, ones)
	zero, base, last := g.ZMM(), g.ZMM(), g.ZMM()
	if sums {
		g.VPXORD(zero, zero, zero)
		first := g.Load(g.Param("first"), g.GP32())
		g.DECL(first)
		g.VPBROADCASTD(first, base)
		g.MOVL(operand.U32(15), one)
		g.VPBROADCASTD(one, last)
	}
	loop := g.label("loop")
	g.Label(loop)
	v := g.ZMM()
	g.VMOVDQU64(operand.Mem{Base: packed}, v)
	g.VPERMB(v, place, v)
	g.VPSRLVD(shift, v, v)
	g.VPANDD(mask, v, v)
	g.VPADDD(ones, v, v)
	if sums {
		for k := 1; k < 16; k *= 2 {
			moved := g.ZMM()
			g.VALIGND(operand.U8(uint8(16-k)), zero, v, moved)
			g.VPADDD(moved, v, v)
		}
		g.VPADDD(base, v, v)
		g.VPERMD(v, last, base)
	}
	g.VMOVDQU64(v, operand.Mem{Base: to})
	g.LEAQ(operand.Mem{Base: packed, Index: width, Scale: 2}, packed)
	g.ADDQ(operand.U8(64), to)
	g.DECQ(groups)
	g.JNZ(operand.LabelRef(loop))
	g.VZEROUPPER()
	g.RET()
}

// unpackAVX2 takes eight values at once, four in each half of a register. The tables of a width are 32 places of bytes in the halves
// and eight shifts.
func unpackAVX2(g *gen, sums bool) {
	to, packed, width, groups, how := signature(g, "AVX2", sums)
	place, shift, mask, ones := g.YMM(), g.YMM(), g.YMM(), g.YMM()
	g.VMOVDQU(operand.Mem{Base: how}, place)
	g.VMOVDQU(operand.Mem{Base: how, Disp: 32}, shift)
	g.VMOVD(g.lowBits(width).As32(), mask.AsX())
	g.VPBROADCASTD(mask.AsX(), mask)
	one := g.GP32()
	g.MOVL(operand.U32(1), one)
	g.VMOVD(one, ones.AsX())
	g.VPBROADCASTD(ones.AsX(), ones)
	half := g.GP64() // where the fifth value begins
	g.MOVQ(width, half)
	g.SHRQ(operand.U8(1), half)
	base, last, upper := g.YMM(), g.YMM(), g.YMM()
	if sums {
		first := g.Load(g.Param("first"), g.GP32())
		g.DECL(first)
		g.VMOVD(first, base.AsX())
		g.VPBROADCASTD(base.AsX(), base)
		g.MOVL(operand.U32(7), one)
		g.VMOVD(one, last.AsX())
		g.VPBROADCASTD(last.AsX(), last)
		g.MOVL(operand.U32(3), one)
		g.VMOVD(one, upper.AsX())
		g.VPBROADCASTD(upper.AsX(), upper)
	}
	loop := g.label("loop")
	g.Label(loop)
	v := g.YMM()
	g.VMOVDQU(operand.Mem{Base: packed}, v.AsX())
	g.VINSERTI128(operand.U8(1), operand.Mem{Base: packed, Index: half, Scale: 1}, v, v)
	g.VPSHUFB(place, v, v)
	g.VPSRLVD(shift, v, v)
	g.VPAND(mask, v, v)
	g.VPADDD(ones, v, v)
	if sums {
		moved := g.YMM()
		g.VPSLLDQ(operand.U8(4), v, moved)
		g.VPADDD(moved, v, v)
		g.VPSLLDQ(operand.U8(8), v, moved)
		g.VPADDD(moved, v, v)
		// The last sum of the lower half goes to all of the upper one.
		g.VPERMD(v, upper, moved)
		zero := g.YMM()
		g.VPXOR(zero, zero, zero)
		g.VPBLENDD(operand.U8(0x0f), zero, moved, moved)
		g.VPADDD(moved, v, v)
		g.VPADDD(base, v, v)
		g.VPERMD(v, last, base)
	}
	g.VMOVDQU(v, operand.Mem{Base: to})
	g.ADDQ(width, packed)
	g.ADDQ(operand.U8(32), to)
	g.DECQ(groups)
	g.JNZ(operand.LabelRef(loop))
	g.VZEROUPPER()
	g.RET()
}

// bitsAVX512 takes 16 bits at once: a row for each lane, and those whose bit is set move together. A store writes 16 rows, of which
// those behind the last are anything.
func bitsAVX512(g *gen) {
	g.Function("bitsAVX512")
	g.Pragma("noescape")
	g.Doc("bitsAVX512 gives the rows of the bits of a set of so many words, the first of which stands for the row first.", "Behind the last row up to 16 more are written. This is the variant for AVX512.")
	g.SignatureExpr("func(to *uint32, set *byte, words int, first uint32)")
	to := g.Load(g.Param("to"), g.GP64())
	set := g.Load(g.Param("set"), g.GP64())
	words := g.Load(g.Param("words"), g.GP64())
	rows, step := g.ZMM(), g.ZMM()
	r := g.Load(g.Param("first"), g.GP32())
	g.VPBROADCASTD(r, rows)
	g.VPADDD(data("eachLane"), rows, rows)
	g.MOVL(operand.U32(16), r)
	g.VPBROADCASTD(r, step)
	loop := g.label("loop")
	g.Label(loop)
	word, part := g.GP64(), g.GP64()
	g.MOVQ(operand.Mem{Base: set}, word)
	for i := range 4 {
		g.MOVWLZX(word.As16(), part.As32())
		if i < 3 {
			g.SHRQ(operand.U8(16), word)
		}
		g.KMOVW(part.As32(), reg.K1)
		packed := g.ZMM()
		g.VPCOMPRESSD_Z(rows, reg.K1, packed)
		g.VMOVDQU32(packed, operand.Mem{Base: to})
		g.POPCNTL(part.As32(), part.As32())
		g.LEAQ(operand.Mem{Base: to, Index: part, Scale: 4}, to)
		g.VPADDD(step, rows, rows)
	}
	g.ADDQ(operand.U8(8), set)
	g.DECQ(words)
	g.JNZ(operand.LabelRef(loop))
	g.VZEROUPPER()
	g.RET()
}

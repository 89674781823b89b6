// Command gen writes the assembly of package kernel: what must a machine do, instruction by instruction?
//
// It is a module of its own, so that the assembler avo never becomes a module of the product. Run it by go generate in
// the package above. The same source always gives the same files.
//
// A level is a set of instructions: AVX2 (with FMA, F16C, POPCNT) or AVX-512 (F, BW, DQ, VL, VBMI, VNNI and VPOPCNTDQ).
// Most kernels are made twice by the same lines, once for each; see rows.go for what they have in common.
package main

import (
	"log"
	"os"
	"path/filepath"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
)

// subjects are the files: <name>_amd64.s and the declarations <name>_amd64.go.
var subjects = []struct {
	name string
	make func(*gen)
}{
	{"asmfloat", floats},
	{"asmcode", codes},
	{"asmscan", scans},
	{"asmhadamard", hadamards},
	{"asmnearest", nearests},
}

// gen is the file being made.
type gen struct {
	*build.Context
	labels int
}

func main() {
	for _, s := range subjects {
		g := &gen{Context: build.NewContext()}
		g.ConstraintExpr("!purego")
		s.make(g)
		f, err := g.Result()
		if err != nil {
			log.Fatalf("%s: %v", s.name, err)
		}
		if err := pass.Compile.Execute(f); err != nil {
			log.Fatalf("%s: %v", s.name, err)
		}
		cfg := printer.Config{Name: "internal/vec/kernel/gen", Pkg: "kernel"}
		for name, p := range map[string]printer.Printer{s.name + "_amd64.s": printer.NewGoAsm(cfg), s.name + "_amd64.go": printer.NewStubs(cfg)} {
			text, err := p.Print(f)
			if err != nil {
				log.Fatalf("%s: %v", name, err)
			}
			if err := os.WriteFile(filepath.Join("..", name), text, 0o644); err != nil {
				log.Fatal(err)
			}
		}
	}
}

// Command gen writes the assembly of package kernel: what must a machine do, instruction by instruction?
//
// It is a module of its own, so that the assembler avo never becomes a module of the product. Run it by go generate in
// the package above. The same source always gives the same files.
//
// A level is a set of instructions: AVX2 (with FMA, F16C, POPCNT) or AVX-512 (F, BW, DQ, VL, VBMI, VNNI and VPOPCNTDQ).
// Most kernels are made twice by the same lines, once for each; see rows.go for what they have in common.
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
		for _, fn := range f.Functions() {
			if err := withinLevel(fn); err != nil {
				log.Fatalf("%s: %v", s.name, err)
			}
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

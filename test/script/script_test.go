// Package script answers one question: does a session in a shell go as it is written down?
//
// A session is a file of testdata in the form of rogpeppe's testscript: commands, what they must print, and the files they
// begin with. The program is built once and found as overlake. Besides testscript's own commands there are:
//
//	exits CODE overlake …   the program ends with this exit code; stdout and stderr look at what it printed
//	flip FILE OFFSET        change one byte of a file
//	cut FILE SIZE           make a file this short
//
// and ${EXAMPLES} is the folder of examples. The files are the manual's proof: read them to learn the program.
package script

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	_ "github.com/overlakedb/overlake" // what the program is made of: see sources
	"github.com/overlakedb/overlake/internal/testenv"
)

func TestSessions(t *testing.T) {
	sources(t)
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./cmd/overlake")
	build.Dir = testenv.Root(t)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	examples := testenv.Examples(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", bin+string(filepath.ListSeparator)+e.Getenv("PATH"))
			e.Setenv("EXAMPLES", examples)
			e.Setenv("HOME", e.WorkDir)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits, "flip": flip, "cut": cut,
		},
	})
}

// sources reads the program's own files. The go command repeats a test when a package it imports or a file it reads has
// changed; of what the test builds by itself it knows nothing.
func sources(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(testenv.Root(t), "cmd", "overlake", "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d sources, %v", len(files), err)
	}
	for _, f := range files {
		if _, err := os.ReadFile(f); err != nil {
			t.Fatal(err)
		}
	}
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE program [arguments]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// one finds the file that a pattern means, and reads the number behind it.
func one(ts *testscript.TestScript, neg bool, args []string) (file string, n int) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: a file and a number")
	}
	files, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(files) != 1 {
		ts.Fatalf("%d files are called %s", len(files), args[0])
	}
	n, err = strconv.Atoi(args[1])
	ts.Check(err)
	return files[0], n
}

func flip(ts *testscript.TestScript, neg bool, args []string) {
	file, at := one(ts, neg, args)
	text, err := os.ReadFile(file)
	ts.Check(err)
	text[at] ^= 0x55
	ts.Check(os.WriteFile(file, text, 0o644))
}

func cut(ts *testscript.TestScript, neg bool, args []string) {
	file, size := one(ts, neg, args)
	ts.Check(os.Truncate(file, int64(size)))
}

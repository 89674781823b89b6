// Package testenv answers one question: where is the data a test needs?
//
// There are three places. The root is the directory that holds go.mod. The examples are data sets that ship with the
// project, so a test may always use them. The shared folder holds larger collections (foreign tables, conformance cases,
// retrieval sets) that live beside the checkout and may be absent: a test that asks for them is skipped when they are not
// there, with the path it looked for.
//
// Only tests import this package.
package testenv

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// SharedVar is the environment variable that names the shared folder. When it is unset, the folder is "shared" beside
// the project's root.
const SharedVar = "OVERLAKE_SHARED"

// DeepVar is the environment variable that turns the long forms of tests on; make deep sets it to 1.
const DeepVar = "OVERLAKE_DEEP"

var root = sync.OnceValues(func() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = up
	}
})

// Root returns the directory that holds go.mod.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := root()
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	return dir
}

// Shared returns the path of something below the shared folder. The test is skipped when it does not exist; when the
// variable OVERLAKE_SHARED is set, a missing path is a failure instead, so that a run which promises the shared data
// cannot pass by skipping.
func Shared(t testing.TB, elem ...string) string {
	t.Helper()
	dir, promised := os.LookupEnv(SharedVar)
	if !promised || dir == "" {
		promised = false
		dir = filepath.Join(filepath.Dir(Root(t)), "shared")
	}
	p := filepath.Join(append([]string{dir}, elem...)...)
	_, err := os.Stat(p)
	switch {
	case err == nil:
		return p
	case promised:
		t.Fatalf("%s is set, but: %v", SharedVar, err)
	case errors.Is(err, fs.ErrNotExist):
		t.Skipf("shared data absent: %s (set %s to use another place)", filepath.Join(elem...), SharedVar)
	default:
		t.Fatalf("testenv: %v", err)
	}
	return ""
}

// Examples returns the path of something below the project's examples, which are always there.
func Examples(t testing.TB, elem ...string) string {
	t.Helper()
	p := filepath.Join(append([]string{Root(t), "examples"}, elem...)...)
	if _, err := os.Stat(p); err != nil {
		t.Fatalf("testenv: %v", err)
	}
	return p
}

// Deep reports whether the long forms of tests were asked for.
func Deep() bool { return os.Getenv(DeepVar) == "1" }

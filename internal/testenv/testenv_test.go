package testenv_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/overlakedb/overlake/internal/testenv"
)

func TestRootHoldsGoMod(t *testing.T) {
	if _, err := os.Stat(filepath.Join(testenv.Root(t), "go.mod")); err != nil {
		t.Fatal(err)
	}
}

func TestSharedFollowsTheEnvironment(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(testenv.SharedVar, dir)
	if err := os.WriteFile(filepath.Join(dir, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := testenv.Shared(t, "x"), filepath.Join(dir, "x"); got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
}

func TestDeepIsOffUnlessAsked(t *testing.T) {
	t.Setenv(testenv.DeepVar, "")
	if testenv.Deep() {
		t.Fatal("deep without asking")
	}
	t.Setenv(testenv.DeepVar, "1")
	if !testenv.Deep() {
		t.Fatal("not deep although asked")
	}
}

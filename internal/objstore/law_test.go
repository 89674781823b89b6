package objstore_test

import (
	"os"
	"testing"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/objstore/storetest"
)

var always = objstore.Condition{}

func TestMain(m *testing.M) {
	if role := os.Getenv("OBJSTORE_CHILD"); role != "" {
		child(role, os.Getenv("OBJSTORE_DIR"))
		return
	}
	os.Exit(m.Run())
}

// openLocal opens a store in a new directory, without fsync.
func openLocal(t testing.TB) objstore.Store {
	t.Helper()
	return openDir(t, t.TempDir(), objstore.LocalOptions{NoSync: true})
}

func openDir(t testing.TB, dir string, opts objstore.LocalOptions) objstore.Store {
	t.Helper()
	s, err := objstore.OpenLocal(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t testing.TB, s objstore.Store, name, data string) objstore.Info {
	t.Helper()
	info, err := s.Put(t.Context(), name, []byte(data), always)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func names(t testing.TB, s objstore.Reader) []string {
	t.Helper()
	var out []string
	for info, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, info.Name)
	}
	return out
}

func wantKindAndHint(t *testing.T, err error, kind errs.Kind) {
	t.Helper()
	if !errs.Is(err, kind) || errs.HintOf(err) == "" {
		t.Errorf("got %v with the hint %q, want an error of the kind %q with a hint", err, errs.HintOf(err), kind)
	}
}

func TestLaw(t *testing.T) {
	for name, open := range map[string]func(*testing.T) objstore.Store{
		"memory": func(t *testing.T) objstore.Store { return objstore.NewMemory("t") },
		"local":  func(t *testing.T) objstore.Store { return openLocal(t) },
		"synced": func(t *testing.T) objstore.Store { return openDir(t, t.TempDir(), objstore.LocalOptions{}) },
		"quota": func(t *testing.T) objstore.Store {
			return openDir(t, t.TempDir(), objstore.LocalOptions{NoSync: true, Quota: 1 << 30})
		},
		"memory quota": func(t *testing.T) objstore.Store {
			s, err := objstore.NewQuota(t.Context(), objstore.NewMemory("t"), 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		"faultless": func(t *testing.T) objstore.Store {
			s, err := objstore.NewFaulty(openLocal(t), "# no rules\n")
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		"slow": func(t *testing.T) objstore.Store {
			s, err := objstore.NewFaulty(objstore.NewMemory("t"), "delay=10us read * \n delay=100us put *\n tear put never")
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		"crashable": func(t *testing.T) objstore.Store { return objstore.NewCrashable("t", 1) },
		"unsynced": func(t *testing.T) objstore.Store {
			return objstore.NewCrashable("t", 1, objstore.Torn, objstore.Unsynced)
		},
	} {
		t.Run(name, func(t *testing.T) { storetest.Run(t, open) })
	}
}

// TestLawOnOneDirectory runs the law on one directory after another store has used it, which must leave no difference.
func TestLawOnOneDirectory(t *testing.T) {
	dir := t.TempDir()
	storetest.Run(t, func(t *testing.T) objstore.Store {
		s := openDir(t, dir, objstore.LocalOptions{NoSync: true})
		for _, name := range names(t, s) {
			if err := s.Delete(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		return s
	})
}

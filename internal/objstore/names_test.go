package objstore_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
)

// FuzzCheckName checks that an accepted name is one path below any directory, and that the stores agree about it.
func FuzzCheckName(f *testing.F) {
	for _, n := range []string{"a", "a/b.c", "../x", "a/./b", "/", "a\\b", "a\x00", ".overlake/tmp", "é", "\xff", "..", "...", strings.Repeat("a/", 600)} {
		f.Add(n)
	}
	f.Fuzz(func(t *testing.T, name string) {
		err := objstore.CheckName(name)
		if err != nil {
			if !errs.Is(err, errs.Invalid) {
				t.Errorf("%q gives %v", name, err)
			}
			return
		}
		path := filepath.Join("/store", filepath.FromSlash(name))
		if !strings.HasPrefix(path, "/store/") || path[len("/store/"):] != name || !filepath.IsLocal(name) {
			t.Errorf("%q becomes the path %q", name, path)
		}
		m := objstore.NewMemory("t")
		if _, err := m.Put(t.Context(), name, nil, always); err != nil {
			t.Error(err)
		}
		for info, err := range m.List(t.Context(), "") {
			if err != nil || info.Name != name {
				t.Errorf("%q is listed as %q, %v", name, info.Name, err)
			}
		}
	})
}

package policy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/testenv"
)

var fragmentName = regexp.MustCompile(`^(breaking|security|added|changed|fixed)-[a-z0-9-]+\.md$`)

// TestChanges holds the form of changes/README.md.
func TestChanges(t *testing.T) {
	dir := filepath.Join(testenv.Root(t), "changes")
	versions, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range versions {
		if !v.IsDir() {
			continue
		}
		fragments, err := os.ReadDir(filepath.Join(dir, v.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range fragments {
			text, err := os.ReadFile(filepath.Join(dir, v.Name(), f.Name()))
			if err != nil {
				t.Fatal(err)
			}
			if problem := checkFragment(f.Name(), string(text)); problem != "" {
				t.Errorf("changes/%s/%s: %s", v.Name(), f.Name(), problem)
			}
		}
	}
}

func checkFragment(name, text string) string {
	switch title, body, _ := strings.Cut(text, "\n\n"); {
	case !fragmentName.MatchString(name):
		return "the name is not <kind>-<a-few-words>.md"
	case !strings.HasPrefix(title, "# ") || strings.Contains(strings.TrimSpace(title), "\n"):
		return "it does not begin with one heading"
	case strings.TrimSpace(body) == "":
		return "nothing follows the heading"
	}
	return ""
}

func TestFragmentForm(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"added-a-thing.md", "# A thing\n\nIt is there.\n", ""},
		{"new-a-thing.md", "# A thing\n\nIt is there.\n", "the name is not <kind>-<a-few-words>.md"},
		{"added-a-thing.md", "A thing\n\nIt is there.\n", "it does not begin with one heading"},
		{"added-a-thing.md", "# A thing\n", "nothing follows the heading"},
	} {
		if got := checkFragment(c.name, c.text); got != c.want {
			t.Errorf("%s %q: got %q, want %q", c.name, c.text, got, c.want)
		}
	}
}

// TestDecisions holds the form of docs/decisions: numbers without gaps, the number in the heading, a line in the list.
func TestDecisions(t *testing.T) {
	dir := filepath.Join(testenv.Root(t), "docs", "decisions")
	index, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "[0-9]*.md"))
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) == 0 {
		t.Fatal("there are no decisions")
	}
	for i, p := range pages {
		name := filepath.Base(p)
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("%04d-", i+1); !strings.HasPrefix(name, want) {
			t.Errorf("%s should begin with %s", name, want)
		}
		if !strings.Contains(string(index), "("+name+")") {
			t.Errorf("%s is not in docs/decisions/README.md", name)
		}
		if !strings.HasPrefix(string(text), "# "+name[:4]+" ") {
			t.Errorf("%s does not begin with its number", name)
		}
	}
}

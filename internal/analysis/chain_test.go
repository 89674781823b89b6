package analysis_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/analysis"
)

// TestChains runs testdata/chains.txt.
func TestChains(t *testing.T) {
	const file = "testdata/chains.txt"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	var a *analysis.Analyzer
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "      "):
			continue // an answer
		case strings.HasPrefix(line, "  "):
			for rest := strings.TrimSpace(line); rest != ""; {
				quoted, err := strconv.QuotedPrefix(rest)
				if err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				text, _ := strconv.Unquote(quoted)
				out.WriteString("  " + quoted + "\n      " + tokens(a, text) + "\n")
				rest = strings.TrimSpace(rest[len(quoted):])
			}
			continue
		case line != "" && !strings.HasPrefix(line, "--"):
			a = find(t, line)
		}
		out.WriteString(line + "\n")
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if out.String() != string(data) {
		t.Errorf("the analyzers say\n%s", diff(string(data), out.String()))
	}
}

// diff lists the lines that differ.
func diff(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	var out strings.Builder
	for i := range max(len(w), len(g)) {
		a, b := "", ""
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a != b {
			out.WriteString("want " + a + "\n got " + b + "\n")
		}
	}
	return out.String()
}

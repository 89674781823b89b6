package analysis_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/analysis/lexicon"
	"github.com/overlakedb/overlake/internal/analysis/stem"
	"github.com/overlakedb/overlake/internal/testenv"
)

// TestGuide compares the tables and lists of the guide's page on text search with the analyzers, and writes the tables with
// -rewrite.
func TestGuide(t *testing.T) {
	file := filepath.Join(testenv.Root(t), "docs", "guide", "text-search.md")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	code := func(s string) string {
		if s == "" {
			return ""
		}
		return "`" + strings.ReplaceAll(s, "|", `\|`) + "`"
	}
	const sample = "The Dog's 3.14 cafés, well-known"
	var short, long, tokenizers, filters []string
	for _, name := range analysis.Names() {
		a := find(t, name)
		switch {
		case !strings.Contains(a.Fingerprint(), "chain:"):
			var terms []string
			var s analysis.Stream
			for s.Reset(a, sample); s.Next(); {
				terms = append(terms, string(s.Term))
			}
			short = append(short, "| `"+name+"` | "+strings.Join(terms, " · ")+" |")
		default:
			long = append(long, "| `"+name+"` | "+code(a.Definition())+" |")
		}
	}
	for _, p := range analysis.Tokenizers() {
		tokenizers = append(tokenizers, "| `"+p.Name+"` | "+code(strings.Join(p.Parameters, ", "))+" | "+p.Doc+" |")
	}
	for _, p := range analysis.Filters() {
		filters = append(filters, "| `"+p.Name+"` | "+code(strings.Join(p.Parameters, ", "))+" | "+p.Doc+" |")
	}
	for _, table := range []struct {
		head string
		rows []string
	}{
		{"| name | `" + sample + "` becomes |\n|---|---|\n", short},
		{"| name | made of |\n|---|---|\n", long},
		{"| tokenizer | parameters | a text becomes |\n|---|---|---|\n", tokenizers},
		{"| filter | parameters | terms become |\n|---|---|---|\n", filters},
	} {
		before, rest, ok := strings.Cut(page, table.head)
		if !ok {
			t.Fatalf("%s has no table\n%s", file, table.head)
		}
		end := 0
		for strings.HasPrefix(rest[end:], "|") {
			end += strings.IndexByte(rest[end:], '\n') + 1
		}
		want := strings.ReplaceAll(strings.Join(table.rows, "\n")+"\n", "|  |", "| |")
		if rest[:end] != want && !*rewrite {
			t.Errorf("the table\n%s%sshould be\n%s", table.head, rest[:end], want)
		}
		page = before + table.head + want + rest[end:]
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stemmers := append(stem.Names(), "possessive_english")
	slices.Sort(stemmers)
	words := strings.Join(strings.Fields(page), " ")
	for _, list := range []string{
		"Stop words: " + strings.Join(lexicon.Languages(), ", ") + ".",
		"Articles: " + strings.Join(lexicon.WithArticles(), ", ") + ".",
		"**stemmer** knows " + strings.Join(stemmers, ", ") + ".",
	} {
		if !strings.Contains(words, list) {
			t.Errorf("%s does not say\n%s", file, list)
		}
	}
}

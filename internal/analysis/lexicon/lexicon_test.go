package lexicon_test

import (
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/overlakedb/overlake/internal/analysis/lexicon"
)

var rewrite = flag.Bool("rewrite", false, "write the checksums of the lists into testdata")

// TestListsStay holds L1: testdata/lists.txt has the number of words, the first, the last and a checksum of each list.
func TestListsStay(t *testing.T) {
	var out strings.Builder
	line := func(kind, language string, words []string) {
		if !slices.IsSorted(words) || len(slices.Compact(slices.Clone(words))) != len(words) {
			t.Errorf("the %s of %s are not sorted or not distinct", kind, language)
		}
		h := fnv.New64a()
		for _, w := range words {
			if w == "" || !utf8.ValidString(w) || strings.TrimSpace(w) != w {
				t.Errorf("the %s of %s hold %q", kind, language, w)
			}
			h.Write([]byte(w + "\n"))
		}
		fmt.Fprintf(&out, "%s %s: %d, %s to %s, %x\n", language, kind, len(words), words[0], words[len(words)-1], h.Sum64())
	}
	for _, l := range lexicon.Languages() {
		words, ok := lexicon.StopWords(l)
		if !ok || len(words) < 30 {
			t.Fatalf("%s has %d stop words", l, len(words))
		}
		line("stop words", l, words)
	}
	for _, l := range lexicon.WithArticles() {
		words, ok := lexicon.Articles(l)
		if !ok || len(words) < 3 {
			t.Fatalf("%s has %d articles", l, len(words))
		}
		line("articles", l, words)
	}
	const file = "testdata/lists.txt"
	if *rewrite {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("the lists are\n%s%s says\n%s", &out, file, want)
	}
}

func TestUnknown(t *testing.T) {
	for _, l := range []string{"klingon", "", "French"} {
		if _, ok := lexicon.StopWords(l); ok {
			t.Errorf("%q has stop words", l)
		}
	}
	if _, ok := lexicon.Articles("german"); ok {
		t.Error("german has articles")
	}
}

package fold_test

import (
	"bytes"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/bleve/v2/analysis/char/asciifolding"

	"github.com/overlakedb/overlake/internal/analysis/fold"
)

var rewrite = flag.Bool("rewrite", false, "write what the folds say into testdata")

type named struct {
	name string
	f    fold.Fold
}

func folds() []named {
	return []named{
		{"lowercase", fold.Lowercase}, {"uppercase", fold.Uppercase}, {"turkish", fold.Turkish}, {"greek", fold.Greek}, {"irish", fold.Irish},
		{"ascii", fold.ASCII}, {"icu", fold.NewICU()}, {"nfc", fold.NewNormal(fold.NFC)}, {"nfd", fold.NewNormal(fold.NFD)},
		{"nfkc", fold.NewNormal(fold.NFKC)}, {"nfkd", fold.NewNormal(fold.NFKD)}, {"casefolded", fold.NewNormal(fold.CaseFolded)},
		{"width", fold.Width}, {"digits", fold.Digits}, {"german", fold.German}, {"arabic", fold.Arabic}, {"persian", fold.Persian},
		{"scandinavian", fold.Scandinavian}, {"sorani", fold.Sorani}, {"hindi", fold.Hindi}, {"indic", fold.NewIndic()},
	}
}

// golden compares with a file of testdata, or writes it.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *rewrite {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\n%s says\n%s", got, file, want)
	}
}

// TestFolds runs testdata/folds.txt: a line "fold "word"" is followed by the folded word.
func TestFolds(t *testing.T) {
	const file = "testdata/folds.txt"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]fold.Fold{}
	for _, n := range folds() {
		byName[n.name] = n.f
	}
	var out strings.Builder
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "--") {
			out.WriteString(line + "\n")
			continue
		}
		name, rest, _ := strings.Cut(line, " ")
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil || byName[name] == nil {
			t.Fatalf("%s: %v", line, err)
		}
		word, _ := strconv.Unquote(quoted)
		fmt.Fprintf(&out, "%s %s -> %q\n", name, quoted, byName[name](nil, []byte(word)))
	}
	golden(t, file, out.String())
}

// TestChecksums holds F1. When another toolchain or a newer module changes a sum, raise the revision of the filters that
// use the fold, then rewrite testdata/checksums.txt.
func TestChecksums(t *testing.T) {
	var out strings.Builder
	for _, n := range folds() {
		h := fnv.New64a()
		changed := 0
		var buf, word []byte
		for r := rune(0); r <= unicode.MaxRune; r++ {
			word = utf8.AppendRune(word[:0], r)
			buf = n.f(buf[:0], word)
			if !bytes.Equal(buf, word) {
				changed++
				h.Write(strconv.AppendInt(nil, int64(r), 16))
				h.Write(append(buf, '\n'))
			}
		}
		fmt.Fprintf(&out, "%s: %d characters change, %x\n", n.name, changed, h.Sum64())
	}
	// What Indic joins stands in pairs of one script.
	h, changed, indic := fnv.New64a(), 0, fold.NewIndic()
	var buf, word []byte
	for block := rune(0x900); block < 0xd80; block += 0x80 {
		for pair := range rune(0x80 * 0x80) {
			word = utf8.AppendRune(utf8.AppendRune(word[:0], block+pair>>7), block+pair&0x7f)
			if buf = indic(buf[:0], word); !bytes.Equal(buf, word) {
				changed++
				h.Write(append(append(word, '>'), append(buf, '\n')...))
			}
		}
	}
	fmt.Fprintf(&out, "indic: %d pairs change, %x\n", changed, h.Sum64())
	golden(t, "testdata/checksums.txt", out.String())
}

// TestASCIIBlocks: outside the stretches that ASCII looks at, nothing folds, and inside it the table is the module's.
func TestASCIIBlocks(t *testing.T) {
	filter := asciifolding.New()
	var got []byte
	for r := rune(0); r <= 0x1ffff; r++ {
		s := []byte(string(r))
		want := filter.Filter(s)
		if got = fold.ASCII(got[:0], s); !bytes.Equal(got, want) {
			t.Fatalf("%U is folded to %q, want %q", r, got, want)
		}
	}
}

// TestTwiceIsOnce: folding what is folded changes nothing, for every character. Not so where a letter becomes one that stands for
// another: heh of Sorani, for one.
func TestTwiceIsOnce(t *testing.T) {
	for _, n := range folds() {
		if n.name == "uppercase" || n.name == "irish" || n.name == "sorani" || n.name == "hindi" {
			continue
		}
		var once, twice, word []byte
		for r := rune(0); r <= unicode.MaxRune; r++ {
			word = utf8.AppendRune(word[:0], r)
			once = n.f(once[:0], word)
			if bytes.Equal(once, word) {
				continue
			}
			if twice = n.f(twice[:0], once); !bytes.Equal(once, twice) {
				t.Errorf("%s: %U becomes %q, and that %q", n.name, r, once, twice)
			}
		}
	}
}

func TestFoldsDoNotAllocate(t *testing.T) {
	words := [][]byte{[]byte("Plain"), []byte("Übergrößenträger"), []byte("ＡＢｶﾞ"), []byte("الْعَرَبِيَّة"), []byte("ΣΊΣΥΦΟΣ")}
	for _, n := range folds() {
		buf := make([]byte, 0, 256)
		if got := testing.AllocsPerRun(100, func() {
			for _, w := range words {
				buf = n.f(buf[:0], w)
			}
		}); got > 0 {
			t.Errorf("%s allocates %v times", n.name, got)
		}
	}
}

// FuzzFolds: any bytes are folded without panic, behind whatever stands in the buffer, and valid text stays valid.
func FuzzFolds(f *testing.F) {
	for _, s := range []string{"", "plain", "I\u0307\u0323", "\xff\xed\xa0\x80", "ﬁß\u00ad", "ｶﾞｶﾟ", "aeoeue", "e\u0301", "\u0301", "nÁ"} {
		f.Add([]byte(s))
	}
	all := folds()
	f.Fuzz(func(t *testing.T, word []byte) {
		for _, n := range all {
			alone := n.f(nil, word)
			behind := n.f([]byte("e"), word)
			if string(behind) != "e"+string(alone) {
				t.Fatalf("%s of %q is %q alone and %q behind an e", n.name, word, alone, behind)
			}
			roomy := n.f(append(make([]byte, 0, 4096), 'e'), word)
			if !bytes.Equal(roomy, behind) {
				t.Fatalf("%s of %q depends on the room of the buffer", n.name, word)
			}
			if utf8.Valid(word) && !utf8.Valid(alone) {
				t.Fatalf("%s makes %q of %q", n.name, alone, word)
			}
		}
	})
}

package analysis_test

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/overlakedb/overlake/internal/analysis"
)

// definitions are those of testdata/chains.txt.
func definitions(t testing.TB) (out []string) {
	t.Helper()
	data, err := os.ReadFile("testdata/chains.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "tokenizer=") {
			out = append(out, strings.TrimSuffix(line, "\n"))
		}
	}
	return out
}

// overlapping are the named analyzers whose tokens may share text; a definition may always.
var overlapping = map[string]bool{"cjk": true, "code": true}

// lawful checks A1 and returns the number of tokens.
func lawful(t testing.TB, a *analysis.Analyzer, s *analysis.Stream, text string) (n int) {
	t.Helper()
	strict := !overlapping[a.Name()] && !strings.Contains(a.Name(), "=")
	start, end, position := 0, 0, -1
	for s.Reset(a, text); s.Next(); n++ {
		k := s.Token
		switch {
		case len(k.Term) == 0, k.Start < start, k.End <= k.Start, k.End > len(text),
			k.Increment < 0, k.Position < 0, k.Position != position+k.Increment, k.PositionLength < 1,
			strict && (k.Start < end || k.Increment < 1 || k.PositionLength != 1):
			t.Fatalf("%s of %.300q: %q %+v behind %d-%d, position %d", a.Name(), text, k.Term, k, start, end, position)
		}
		start, end, position = k.Start, k.End, k.Position
	}
	return n
}

// everything gives the named analyzers and those of testdata/chains.txt.
func everything(t testing.TB) (out []*analysis.Analyzer) {
	t.Helper()
	for _, name := range append(analysis.Names(), definitions(t)...) {
		out = append(out, find(t, name))
	}
	return out
}

// FuzzAnalyzers: every analyzer keeps A1 on any bytes, and says the same a second time.
func FuzzAnalyzers(f *testing.F) {
	for _, s := range []string{"", "The dog's's 3.14", "\xff\xfe\xed\xa0\x80'S", "東京タワー ｶﾞ 한국", "user@example.com http://a.b/c?d#e", "fooBarHTTPServer2 wi-fi", "/a//b/", "a.b.c",
		"\u202eabc\u2066\u200b\u200d", "x\u0301\u0301\u0301", "#️⃣👩‍❤️‍👩🇩🇪🇫🇷🇦", "usa united states of united", "l'’avion'", "İIıi\u0307", "۱۲۳", "𝒳𝒳"} {
		f.Add(s)
	}
	all := everything(f)
	streams := make([]analysis.Stream, len(all))
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<12 {
			return
		}
		for i, a := range all {
			if n := lawful(t, a, &streams[i], text); n != lawful(t, a, &streams[i], text) {
				t.Fatalf("%s cuts %q in two ways", a.Name(), text)
			}
		}
	})
}

// FuzzDefine: no definition makes a panic, one that is taken has a canonical form that means the same, and its analyzer keeps A1.
func FuzzDefine(f *testing.F) {
	for _, d := range definitions(f) {
		f.Add(d, "The usa wi-fi fooBar, x@y.de 東京")
	}
	for _, d := range refusals {
		f.Add(d[0], "")
	}
	f.Fuzz(func(t *testing.T, definition, text string) {
		if len(text) > 256 || len(definition) > 4096 {
			return
		}
		a, err := analysis.Define(definition)
		if err != nil {
			return
		}
		again, err := analysis.Define(a.Definition())
		if err != nil || again.Definition() != a.Definition() || again.Fingerprint() != a.Fingerprint() {
			t.Fatalf("%s is %s, which is not itself: %v", definition, a.Definition(), err)
		}
		var s, other analysis.Stream
		if n := lawful(t, a, &s, text); n != lawful(t, again, &other, text) {
			t.Fatalf("%s and %s cut %q in two ways", definition, a.Definition(), text)
		}
	})
}

// TestAnyText holds A1 over random texts of many scripts, broken bytes among them.
func TestAnyText(t *testing.T) {
	const seed1, seed2 = 11, 12
	rng := rand.New(rand.NewPCG(seed1, seed2))
	all := everything(t)
	streams := make([]analysis.Stream, len(all))
	pieces := []string{"a", "B", "the", " ", " ", "'", "’", "s", "é", "e\u0301", "İ", "ß", "東", "京", "タ", "ｶ", "ﾞ", "한", "ไทย", "١", "4", "2", ".", "-", "_", "/", "@", ":", "http://", "www.",
		"com", "usa", "united states", "\xff", "\xed\xa0\x80", "\u200b", "\u200d", "\u202e", "👍🏽", "🇩🇪", "𝒳", "l'", "Foo", "HTTP", "\n", "\u00ad", "\ufeff", "\x00"}
	for range 1500 {
		var b strings.Builder
		for range rng.IntN(40) {
			b.WriteString(pieces[rng.IntN(len(pieces))])
		}
		for i, a := range all {
			lawful(t, a, &streams[i], b.String())
		}
	}
	t.Logf("seed %d %d", seed1, seed2)
}

// TestLongTokens: many kilobytes without a break, or of one break after another, are no harm to any analyzer, nor is a token
// of a megabyte to those that make one.
func TestLongTokens(t *testing.T) {
	all := everything(t)
	for _, unit := range []string{"a", "é", "東", "aB", "a-", "/a", "1.", "a@", "\u0301", "\xff", "ﷺ", "a b "} {
		text := strings.Repeat(unit, 20_000/len(unit))
		for _, a := range all {
			var s analysis.Stream
			lawful(t, a, &s, text)
		}
	}
	for _, d := range []string{"tokenizer=keyword, filters=ngram(3, 3)|lowercase", "tokenizer=keyword, filters=word_delimiter_graph(preserve_original=true)",
		"tokenizer=keyword, filters=cjk_bigram(output_unigrams=true)", "tokenizer=keyword, filters=icu_folding|stemmer(turkish)|reverse|unique",
		"tokenizer=whitespace(max_token_length=1048576), filters=edge_ngram(1, 255)", "tokenizer=path_hierarchy(reverse=true)", "tokenizer=uax_url_email", "tokenizer=code"} {
		a := find(t, d)
		for _, unit := range []string{"aB", "/東", "a@", "http://a.b/", "\u0301"} {
			var s analysis.Stream
			lawful(t, a, &s, strings.Repeat(unit, (1<<20)/len(unit)))
		}
	}
}

// TestUnicodeStays guards A2: testdata/unicode.txt holds a checksum of each analyzer's terms for every character of Unicode, by
// itself, behind a letter and doubled. When a toolchain or a module with newer tables changes one, raise the revision of the
// part that changed, and rewrite the file.
func TestUnicodeStays(t *testing.T) {
	var out strings.Builder
	for _, name := range append(analysis.Names(), "tokenizer=standard, filters=icu_folding", "tokenizer=whitespace, filters=asciifolding|word_delimiter_graph",
		"tokenizer=standard, filters=lowercase(turkish)", "tokenizer=standard, filters=lowercase(greek)", "tokenizer=ngram(1, 1, token_chars=[letter, digit, punctuation, symbol])",
		"tokenizer=code", "tokenizer=keyword, filters=icu_normalizer|decimal_digit|scandinavian_folding|persian_normalization|trim|uppercase") {
		a := find(t, name)
		var s analysis.Stream
		h := fnv.New64a()
		var text []byte
		terms := 0
		for r := rune(0); r <= unicode.MaxRune; r++ {
			if r == 0xf0000 {
				break // private use from here on
			}
			if r >= 0xd800 && r < 0xe000 || r >= 0x30000 && r < 0xe0000 {
				continue // surrogates; planes without characters or with ideographs like those before
			}
			text = fmt.Appendf(text[:0], "%c x%c %c%c", r, r, r, r)
			for s.Reset(a, string(text)); s.Next(); terms++ {
				h.Write(append(strconv.AppendInt(s.Term, int64(s.Position), 10), '\n'))
			}
		}
		fmt.Fprintf(&out, "%s\n    %s\n    %d terms, %x\n", name, a.Fingerprint(), terms, h.Sum64())
	}
	const file = "testdata/unicode.txt"
	if *rewrite {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("%s, Unicode %s:\n%s", file, unicode.Version, diff(string(want), out.String()))
	}
}

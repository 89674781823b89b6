package stem_test

import (
	"bufio"
	"compress/gzip"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/overlakedb/overlake/internal/analysis/stem"
	"github.com/overlakedb/overlake/internal/testenv"
)

var rewrite = flag.Bool("rewrite", false, "write what the stemmers say into testdata")

// all gives every stemmer by name, Snowball's as snowball/language where New has another under that name.
func all(t testing.TB) (names []string, stemmers map[string]*stem.Stemmer) {
	t.Helper()
	stemmers = map[string]*stem.Stemmer{}
	for _, n := range stem.Names() {
		s, ok := stem.New(n)
		if !ok {
			t.Fatalf("there is no stemmer %s", n)
		}
		names, stemmers[n] = append(names, n), s
	}
	for _, n := range stem.Languages() {
		s, ok := stem.Snowball(n)
		if !ok {
			t.Fatalf("there is no Snowball stemmer %s", n)
		}
		names, stemmers["snowball/"+n] = append(names, "snowball/"+n), s
	}
	return names, stemmers
}

// TestStems runs testdata/stems.txt: a line "stemmer word …" is followed by the stems.
func TestStems(t *testing.T) {
	const file = "testdata/stems.txt"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	names, stemmers := all(t)
	seen := map[string]bool{}
	var out strings.Builder
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "    ") {
			continue
		}
		out.WriteString(line + "\n")
		if line == "" || strings.HasPrefix(line, "--") {
			continue
		}
		words := strings.Fields(line)
		s := stemmers[words[0]]
		if s == nil {
			t.Fatalf("there is no stemmer %s", words[0])
		}
		seen[words[0]] = true
		var stems []string
		for _, w := range words[1:] {
			stems = append(stems, string(s.Append(nil, []byte(w))))
		}
		out.WriteString("    " + strings.Join(stems, " ") + "\n")
	}
	for _, n := range names {
		if !seen[n] && (!strings.HasPrefix(n, "snowball/") || n == "snowball/arabic" || n == "snowball/english") {
			t.Errorf("%s has no line in %s", n, file)
		}
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if out.String() != string(data) {
		t.Errorf("the stemmers say\n%s%s says\n%s", &out, file, data)
	}
}

// pairs reads the words and stems of a language, as the Snowball project's version 3 has them.
func pairs(t *testing.T, language string, yield func(word, stem string)) {
	t.Helper()
	f, err := os.Open(testenv.Shared(t, "data", "stemmers", language+".tsv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	sc := bufio.NewScanner(z)
	for sc.Scan() {
		word, want, _ := strings.Cut(sc.Text(), "\t")
		yield(word, want)
	}
	if sc.Err() != nil {
		t.Fatal(sc.Err())
	}
}

// TestVocabularies compares with the Snowball project's vocabularies and holds T1 over them. The vocabularies are those of
// its version 3; the algorithms here are version 2, as in Lucene 8, so that some languages depart from them. Every
// departure is counted, so that none comes or goes unseen.
func TestVocabularies(t *testing.T) {
	has := func(set string) func(string) bool {
		return func(w string) bool { return strings.ContainsAny(w, set) }
	}
	ends := func(ends ...string) func(string) bool {
		return func(w string) bool {
			for _, e := range ends {
				if strings.HasSuffix(w, e) {
					return true
				}
			}
			return false
		}
	}
	none := func(string) bool { return false }
	for _, c := range []struct {
		language   string
		newer      func(word string) bool // words that version 3 made a new rule for
		newerCount int                    // departures among them
		other      int                    // departures among the other words, which newer rules cause too
		words      int
		sumOfStems string
	}{
		{"danish", none, 0, 0, 23832, "2fc32e9692631e06"},
		{"dutch", none, 0, 20897, 45670, "e14e488a0021842f"}, // version 3 has another algorithm, that of Kraaij and Pohlmann
		{"english", none, 0, 57, 42649, "f581bf8f55718135"},
		{"finnish", has("ñéí"), 3, 0, 49957, "9fb962bd35156768"},
		{"french", none, 0, 919, 21655, "618e837deb7d8e44"}, // version 3 takes off articles, and knows bijoux and ambiguë
		{"german", none, 0, 1247, 35033, "9c617a19ec2706e"},
		{"italian", none, 0, 1, 35495, "459530853219adf1"}, // divano
		{"norwegian", none, 0, 136, 20895, "2b5d3d67dc6bcfd5"},
		{"porter", none, 0, 0, 42603, "59ec30df1aaab019"},
		{"portuguese", none, 0, 0, 32016, "906440a6380d15da"},
		{"romanian", has("țșţş"), 13304, 0, 87642, "3590c5ac39ea285a"}, // version 3 writes ş and ţ with commas
		{"russian", has("ё"), 112, 0, 49785, "7eee4c2b7cbd86ef"},
		{"spanish", ends("acion", "ucion"), 9, 0, 28378, "a6db2075c3d90f82"},
		{"swedish", ends("et", "ets"), 506, 47, 30738, "63a77f8fd183704d"},
		{"turkish", has("'"), 9204, 0, 96325, "86a20c1f9904ffbb"},
	} {
		t.Run(c.language, func(t *testing.T) {
			s, ok := stem.Snowball(c.language)
			if !ok {
				t.Fatal("there is no stemmer")
			}
			words, newer, other := 0, 0, 0
			h := fnv.New64a()
			var buf []byte
			var examples []string
			pairs(t, c.language, func(word, want string) {
				words++
				buf = s.Append(buf[:0], []byte(word))
				h.Write(append(buf, '\n'))
				switch {
				case string(buf) == want:
				case c.newer(word):
					newer++
				default:
					if other++; other <= 8 {
						examples = append(examples, fmt.Sprintf("%s: %s, want %s", word, buf, want))
					}
				}
			})
			sum := fmt.Sprintf("%x", h.Sum64())
			if words != c.words || newer != c.newerCount || other != c.other || sum != c.sumOfStems {
				t.Errorf("%d words, %d departures by newer rules, %d others, checksum %q\n%s", words, newer, other, sum, strings.Join(examples, "\n"))
			}
		})
	}
}

// TestMemoChangesNothing compares a stemmer that remembers with new ones.
func TestMemoChangesNothing(t *testing.T) {
	old, _ := stem.New("light_french")
	for round := range 3 {
		for i := range 2000 {
			word := fmt.Appendf(nil, "mot%dissements", i*i%977)
			fresh, _ := stem.New("light_french")
			if got, want := old.Append(nil, word), fresh.Append(nil, word); string(got) != string(want) {
				t.Fatalf("round %d: %s is stemmed to %s with a memo, %s without", round, word, got, want)
			}
		}
	}
}

func TestStemmersDoNotAllocate(t *testing.T) {
	_, stemmers := all(t)
	buf := make([]byte, 0, 256)
	for name, s := range stemmers {
		run := func() {
			for _, w := range []string{"generalizations", "continuellement", "übergrößen", "красивая", "çalışmalarımızdan"} {
				buf = s.Append(buf[:0], append(buf[128:128], w...))
			}
		}
		for range 200 {
			run()
		}
		if n := testing.AllocsPerRun(50, run); n > 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

func TestUnknown(t *testing.T) {
	if _, ok := stem.New("klingon"); ok {
		t.Error("New knows klingon")
	}
	if _, ok := stem.Snowball("light_french"); ok {
		t.Error("Snowball knows light_french")
	}
}

// FuzzStem: no bytes make a stemmer panic, a stem of UTF-8 is UTF-8, and a second look gives the same.
func FuzzStem(f *testing.F) {
	for _, s := range []string{"", "a", "generalizations", "xxxxxx", "aux", "éé", "\xff\xfe", "e\u0301e\u0301s", "𝒳𝒳𝒳ing", "والكتاب", "kitaplar'ın", "nthathair", strings.Repeat("e", 1020)} {
		f.Add([]byte(s))
	}
	names, stemmers := all(f)
	f.Fuzz(func(t *testing.T, word []byte) {
		for _, n := range names {
			s := stemmers[n]
			first := s.Append([]byte("<"), word)
			if first[0] != '<' {
				t.Fatalf("%s of %q overwrites the buffer: %q", n, word, first)
			}
			if again := s.Append(nil, word); string(again) != string(first[1:]) {
				t.Fatalf("%s of %q is %q, then %q", n, word, first[1:], again)
			}
			if utf8.Valid(word) && !utf8.Valid(first) {
				t.Fatalf("%s makes %q of %q", n, first[1:], word)
			}
			if len(word) > stem.MaxWord && string(first[1:]) != string(word) {
				t.Fatalf("%s stems a word of %d bytes", n, len(word))
			}
		}
	})
}

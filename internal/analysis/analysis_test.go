package analysis_test

import (
	"bufio"
	"compress/gzip"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/analysis/stem"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/testenv"
)

var rewrite = flag.Bool("rewrite", false, "write what the analyzers say into testdata")

func find(t testing.TB, name string) *analysis.Analyzer {
	t.Helper()
	a, err := analysis.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// tokens prints each token as term@position:start-end, and +n where it spans n positions.
func tokens(a *analysis.Analyzer, text string) string {
	var s analysis.Stream
	var out []string
	for s.Reset(a, text); s.Next(); {
		one := fmt.Sprintf("%s@%d:%d-%d", s.Term, s.Position, s.Start, s.End)
		if s.PositionLength != 1 {
			one += fmt.Sprintf("+%d", s.PositionLength)
		}
		out = append(out, one)
	}
	return strings.Join(out, " ")
}

// TestTokens runs testdata/tokens.txt. A line "analyzer "text"" is followed by its tokens.
func TestTokens(t *testing.T) {
	const file = "testdata/tokens.txt"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		out.WriteString(line + "\n")
		if line == "" || strings.HasPrefix(line, "--") {
			continue
		}
		name, quoted, _ := strings.Cut(line, " ")
		text, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatalf("%s:%d: %v", file, i+1, err)
		}
		got := "    " + tokens(find(t, name), text)
		if i+1 < len(lines) && strings.HasPrefix(lines[i+1], "    ") {
			i++
			if lines[i] != got && !*rewrite {
				t.Errorf("%s\n got %s\nwant %s", line, got, lines[i])
			}
		} else if !*rewrite {
			t.Errorf("%s:%d has no answer", file, i+1)
		}
		out.WriteString(got + "\n")
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFind(t *testing.T) {
	if a := find(t, "ENGLISH"); a.Name() != "english" || a.Fingerprint() != "english/2" {
		t.Errorf("%s %s", a.Name(), a.Fingerprint())
	}
	if _, err := analysis.Find("klingon"); !errs.Is(err, errs.NotFound) || !strings.Contains(errs.HintOf(err), "whitespace") {
		t.Errorf("%v, hint %q", err, errs.HintOf(err))
	}
	seen := map[string]bool{}
	for _, name := range analysis.Names() {
		a := find(t, name)
		if a.Name() != name || seen[a.Fingerprint()] {
			t.Errorf("%s is %s with the fingerprint %s", name, a.Name(), a.Fingerprint())
		}
		seen[a.Fingerprint()] = true
	}
}

func TestEachIsTheStream(t *testing.T) {
	a := find(t, "english")
	var scratch analysis.Scratch
	var out []string
	const text = "The quick foxes' tails"
	a.Each(text, &scratch, func(k analysis.Token) {
		out = append(out, fmt.Sprintf("%s@%d:%d-%d", k.Term, k.Position, k.Start, k.End))
		if k.Increment < 1 {
			t.Errorf("%s has the increment %d", k.Term, k.Increment)
		}
	})
	if got, want := strings.Join(out, " "), tokens(a, text); got != want {
		t.Errorf("Each yields %s, the stream %s", got, want)
	}
}

func TestLongWordsAreCut(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []int // lengths in bytes
	}{
		{"standard", strings.Repeat("a", 600), []int{255, 255, 90}},
		{"standard", strings.Repeat("é", 300), []int{510, 90}},
		{"standard", strings.Repeat("𝒳", 200), []int{127 * 4, 73 * 4}},
		{"standard", strings.Repeat("a", 254) + "'b", []int{254, 1}},
		{"standard", strings.Repeat("a", 253) + "'b", []int{255}},
		{"standard", strings.Repeat("_", 300) + "a", []int{1}},
		{"simple", strings.Repeat("a", 256), []int{255, 1}},
		{"whitespace", strings.Repeat("-", 256), []int{255, 1}},
		{"keyword", strings.Repeat("a", 600), []int{600}},
	} {
		var s analysis.Stream
		var got []int
		for s.Reset(find(t, c.name), c.text); s.Next(); {
			got = append(got, s.End-s.Start)
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s cuts %d bytes into %v, want %v", c.name, len(c.text), got, c.want)
		}
	}
}

// stemmed is the english analyzer's term for a word that is neither a stop word nor cut.
func stemmed(s *analysis.Stream, a *analysis.Analyzer, word string) string {
	s.Reset(a, word)
	if !s.Next() {
		return ""
	}
	return string(s.Term)
}

// TestPorter compares with the vocabulary of the Snowball project. Lucene's stemmer departs from it in few words: those
// with logi and bli and those of one or two letters.
func TestPorter(t *testing.T) {
	f, err := os.Open(testenv.Shared(t, "data", "stemmers", "porter.tsv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	a := find(t, "english")
	var s analysis.Stream
	words, departures, stops := 0, 0, 0
	for sc := bufio.NewScanner(z); sc.Scan(); {
		word, want, _ := strings.Cut(sc.Text(), "\t")
		if strings.Contains(word, "'") {
			continue // the possessive filter takes these first
		}
		words++
		switch got := stemmed(&s, a, word); {
		case got == want:
		case got == "":
			stops++
		case len(word) <= 2 && got == word, strings.Contains(word, "bl"), strings.Contains(word, "logi"), strings.Contains(word, "logy"):
			departures++
		default:
			t.Errorf("%s is stemmed to %s, want %s", word, got, want)
		}
	}
	if words < 40000 || stops != 33 || departures > 66 {
		t.Errorf("%d words, %d stop words, %d departures", words, stops, departures)
	}
	t.Logf("%d words, %d departures", words, departures)
}

// FuzzEnglish: a lower-case ASCII word is stemmed as the Snowball project's Porter stemmer does, the known departures
// apart, and the chain that the definition names gives the tokens of the fast path, for any bytes.
func FuzzEnglish(f *testing.F) {
	for _, s := range []string{"generalizations", "hopping", "The dog's's", "\xff'S", "ééed", "baéing", "ΣΊΣΥΦΟΣ", "K", "ﬁshing", "'s ’S x'"} {
		f.Add(s)
	}
	var s analysis.Stream
	english, chain := find(f, "english"), find(f, find(f, "english").Definition())
	porter, _ := stem.Snowball("porter")
	f.Fuzz(func(t *testing.T, text string) {
		if got, want := tokens(chain, text), tokens(english, text); got != want {
			t.Fatalf("%q\nthe chain says %s\n     english %s", text, got, want)
		}
		if len(text) < 3 || len(text) > 40 || strings.ContainsFunc(text, func(r rune) bool { return r < 'a' || r > 'z' }) || strings.Contains(text, "bl") || strings.Contains(text, "log") {
			return
		}
		want := string(porter.Append(nil, []byte(text)))
		if got := stemmed(&s, english, text); got != "" && got != want {
			t.Errorf("%s is stemmed to %s, want %s", text, got, want)
		}
	})
}

// allocating are the analyzers that allocate for each text: an expression's matches.
var allocating = map[string]bool{"pattern": true}

func TestStreamsDoNotAllocate(t *testing.T) {
	names := append(analysis.Names(), definitions(t)...)
	for _, name := range names {
		a := find(t, name)
		if allocating[name] || strings.Contains(name, "pattern") {
			continue
		}
		var s analysis.Stream
		run := func() {
			for s.Reset(a, "The generalizations of 3.14 dogs don't fly: Ελλάδα, 漢字 and the rest of it, Übergröße L'avion wi-fi usa united states fooBar2"); s.Next(); {
			}
		}
		for range 100 {
			run() // until the memo is there
		}
		if n := testing.AllocsPerRun(50, run); n > 0 {
			t.Errorf("%s allocates %v times a text", name, n)
		}
	}
}

func BenchmarkAnalyze(b *testing.B) {
	text := strings.Repeat("Vaccination of 1,204 adults didn't reduce the incidence of SARS-CoV-2 infections; however, hospitalizations fell by 37.5% (p < 0.01). "+
		"The authors' conclusions were based on randomized trials comparing treatments across several countries and age groups. ", 20)
	for _, name := range append(analysis.Names(), "tokenizer=standard, filters=lowercase", find(b, "english").Definition(), "tokenizer=standard, filters=lowercase|asciifolding",
		"tokenizer=standard, filters=icu_folding", "tokenizer=standard, filters=lowercase|shingle", "tokenizer=standard, filters=lowercase|edge_ngram(1, 8)", `tokenizer=standard, filters=lowercase|synonym_graph("usa, united states")`) {
		a := find(b, name)
		b.Run(name, func(b *testing.B) {
			var s analysis.Stream
			n := 0
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				for s.Reset(a, text); s.Next(); n++ {
				}
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds()/1e6, "Mtokens/s")
		})
	}
}

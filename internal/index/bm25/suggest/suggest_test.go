package suggest_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/memory"
	"github.com/overlakedb/overlake/internal/index/bm25/posting"
	"github.com/overlakedb/overlake/internal/index/bm25/suggest"
)

func find(t testing.TB, name string) *analysis.Analyzer {
	t.Helper()
	a, err := analysis.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// dictionary makes sources of rows, n of them.
func dictionary(t testing.TB, a *analysis.Analyzer, n int, rows []string) suggest.Dictionary {
	t.Helper()
	var d suggest.Dictionary
	for i := range n {
		b := memory.NewBuilder(memory.Options{Analyzers: []*analysis.Analyzer{a}})
		for _, r := range rows[i*len(rows)/n : (i+1)*len(rows)/n] {
			if err := b.Add(r); err != nil {
				t.Fatal(err)
			}
		}
		d.Sources = append(d.Sources, b.Source())
	}
	return d
}

// edits is the edit distance with swaps, from its definition.
func edits(a, b []rune) int {
	memo := map[[2]int]int{}
	var d func(i, j int) int
	d = func(i, j int) int {
		if i == 0 || j == 0 {
			return i + j
		}
		if v, ok := memo[[2]int{i, j}]; ok {
			return v
		}
		v := d(i-1, j-1)
		if a[i-1] != b[j-1] {
			v++
		}
		v = min(v, d(i-1, j)+1, d(i, j-1)+1)
		if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
			v = min(v, d(i-2, j-2)+1)
		}
		memo[[2]int{i, j}] = v
		return v
	}
	return d(len(a), len(b))
}

// TestTermsAgainstAList compares with a plain walk through all words, over 1 and 4 sources.
func TestTermsAgainstAList(t *testing.T) {
	white := find(t, "whitespace")
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 3))
		word := func() string {
			var b strings.Builder
			for range 1 + rng.IntN(6) {
				b.WriteByte("abcd"[rng.IntN(4)])
			}
			return b.String()
		}
		var rows []string
		freq := map[string]int64{}
		for range 1 + rng.IntN(60) {
			row := ""
			seen := map[string]bool{}
			for range rng.IntN(12) {
				w := word()
				row += w + " "
				if !seen[w] {
					seen[w] = true
					freq[w]++
				}
			}
			rows = append(rows, row)
		}
		for range 20 {
			w := word()
			o := suggest.TermOptions{Size: 1 + rng.IntN(4), MaxEdits: 1 + rng.IntN(2), MinWordLength: 1 + rng.IntN(4), MaxInspections: 1000, MaxTermFreq: 1000, ByFrequency: rng.IntN(2) == 0,
				Mode: []suggest.Mode{suggest.Missing, suggest.Popular, suggest.Always}[rng.IntN(3)], Accuracy: 0.3, MinDocFreq: float64(rng.IntN(3))}
			var want []suggest.Option
			if len(w) >= o.MinWordLength && (o.Mode != suggest.Missing || freq[w] == 0) {
				for e := 1; e <= o.MaxEdits && len(want) < o.Size; e++ {
					want = nil
					for x, n := range freq {
						d := edits([]rune(w), []rune(x))
						score := 1 - float64(d)/float64(min(len(w), len(x)))
						if x != w && d <= e && x[0] == w[0] && score >= o.Accuracy && n >= int64(o.MinDocFreq) && (o.Mode != suggest.Popular || n > freq[w]) {
							want = append(want, suggest.Option{Text: x, Score: score, Freq: n})
						}
					}
				}
				slices.SortFunc(want, func(a, b suggest.Option) int {
					if o.ByFrequency {
						return cmp.Or(cmp.Compare(b.Freq, a.Freq), cmp.Compare(b.Score, a.Score), cmp.Compare(a.Text, b.Text))
					}
					return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.Freq, a.Freq), cmp.Compare(a.Text, b.Text))
				})
				want = want[:min(len(want), o.Size)]
			}
			for _, n := range []int{1, 4} {
				got, err := dictionary(t, white, n, rows).Terms(t.Context(), white, w, o)
				if err != nil {
					t.Fatal(err)
				}
				if len(got) != 1 || got[0].Text != w || !slices.Equal(got[0].Options, want) {
					t.Fatalf("seed %d: %q with %+v in %d sources: %v, want %v", seed, w, o, n, got, want)
				}
			}

			// Completions of its beginning.
			begin := w[:rng.IntN(len(w)+1)]
			var full []suggest.Completion
			for x, n := range freq {
				if strings.HasPrefix(x, begin) {
					full = append(full, suggest.Completion{Text: x, Weight: float64(n)})
				}
			}
			slices.SortFunc(full, func(a, b suggest.Completion) int {
				return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.Text, b.Text))
			})
			got, err := dictionary(t, white, 3, rows).Complete(t.Context(), begin, suggest.CompletionOptions{Size: 4})
			if full = full[:min(4, len(full))]; err != nil || !slices.Equal(got, full) {
				t.Fatalf("seed %d: %q is completed to %v, want %v, %v", seed, begin, got, full, err)
			}
			fuzzy := map[string]int{}
			limit := 0
			if len(begin) >= 3 {
				limit = 1
			}
			if len(begin) >= 6 {
				limit = 2
			}
			for x := range freq {
				for n := range len(x) + 1 {
					if e := edits([]rune(begin), []rune(x[:n])); e <= limit && (begin == "" || n > 0 && x[0] == begin[0]) {
						if have, ok := fuzzy[x]; !ok || e < have {
							fuzzy[x] = e
						}
					}
				}
			}
			got, err = dictionary(t, white, 2, rows).Complete(t.Context(), begin, suggest.CompletionOptions{Size: 10_000, Fuzzy: true})
			if err != nil || len(got) != len(fuzzy) {
				t.Fatalf("seed %d: about %q are %v, want %v, %v", seed, begin, got, fuzzy, err)
			}
			for _, c := range got {
				if e, ok := fuzzy[c.Text]; !ok || e != c.Edits {
					t.Fatalf("seed %d: about %q is %+v, want %d changes", seed, begin, c, e)
				}
			}
		}
	}
}

// pairs is a source of pairs of words: what a shingle filter would make.
type pairs struct {
	posting.Source
	n map[string]int64
}

func (p *pairs) Lookup(_ context.Context, _ int, terms [][]byte) ([]posting.Term, error) {
	out := make([]posting.Term, len(terms))
	for i, t := range terms {
		out[i] = posting.Term{DocFreq: min(1, p.n[string(t)]), TotalFreq: p.n[string(t)]}
	}
	return out, nil
}

func TestPhrases(t *testing.T) {
	white := find(t, "whitespace")
	rows := []string{
		"the quick brown fox jumps over the lazy dog", "the quick brown fox sleeps", "a quick brown bear", "brown bread and butter", "a lazy dog sleeps",
		"the crown of the king", "the crowd goes wild", "a quack doctor", "the dock of the bay",
	}
	d := dictionary(t, white, 3, rows)
	two := &pairs{n: map[string]int64{}}
	for _, r := range rows {
		w := strings.Fields(r)
		for i := 1; i < len(w); i++ {
			two.n[w[i-1]+" "+w[i]]++
		}
	}
	bigrams := &suggest.Dictionary{Sources: []posting.Source{two}}
	free := 0
	o := suggest.PhraseOptions{Pre: "[", Post: "]", MaxErrors: 2, Candidates: suggest.TermOptions{MaxTermFreq: 100, PrefixLength: &free}}
	for _, c := range []struct {
		text, want string
		pairs      *suggest.Dictionary
	}{
		{"the quick crown fox", "the quick [brown] fox", bigrams}, // a word that is there, in the wrong place
		{"teh quick brwn fox", "teh quick [brown] fox", bigrams},  // words of three letters are left alone
		{"lasy dogg", "[lazy] [dog]", bigrams},
		{"quick brown fox", "", bigrams},
		{"brwon bread", "[brown] bread", nil},
	} {
		got, err := suggest.Phrases(t.Context(), d, c.pairs, white, c.text, o)
		if err != nil {
			t.Fatal(err)
		}
		best := ""
		if len(got) > 0 {
			best = got[0].Highlighted
		}
		if best != c.want {
			t.Errorf("%q is corrected to %q, want %q: %+v", c.text, best, c.want, got)
		}
	}
	// All ways, by their scores, against every combination.
	o.Confidence, o.Size, o.MaxErrors = -1, 1000, 1
	got, err := suggest.Phrases(t.Context(), d, bigrams, white, "the quick crown fox", o)
	if err != nil || len(got) < 4 {
		t.Fatalf("%v %v", got, err)
	}
	for i, p := range got {
		if strings.Count(p.Highlighted, "[") > 1 || i > 0 && p.Score > got[i-1].Score {
			t.Errorf("way %d is %+v", i, p)
		}
	}
	if _, err := suggest.Phrases(t.Context(), d, nil, white, strings.Repeat("a ", 200), o); !errs.Is(err, errs.Exhausted) {
		t.Errorf("a long text: %v", err)
	}
}

func TestOptions(t *testing.T) {
	white := find(t, "whitespace")
	d := dictionary(t, white, 1, []string{"word"})
	for i, o := range []suggest.TermOptions{{Mode: "never"}, {MaxEdits: 3}, {Size: -1}, {Accuracy: -1}} {
		if _, err := d.Terms(t.Context(), white, "wrod", o); !errs.Is(err, errs.Invalid) {
			t.Errorf("options %d: %v", i, err)
		}
	}
	got, err := d.Terms(t.Context(), white, "x wrod", suggest.TermOptions{})
	if err != nil || fmt.Sprint(got) != "[{x 0 1 []} {wrod 2 6 [{word 0.75 1}]}]" {
		t.Errorf("%v %v", got, err)
	}
	if _, err := suggest.Phrases(t.Context(), d, nil, white, "a", suggest.PhraseOptions{Discount: 2}); !errs.Is(err, errs.Invalid) {
		t.Errorf("discount: %v", err)
	}
	if _, err := d.Complete(t.Context(), "w", suggest.CompletionOptions{Size: -1}); !errs.Is(err, errs.Invalid) {
		t.Errorf("size: %v", err)
	}
}

package analysis_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/analysis"
)

// The models of this file say what filters do in the plainest way, and random texts are put to both.

// randomly calls f with a new source of random numbers many times. A failure names the round.
func randomly(t *testing.T, rounds int, f func(t *testing.T, rng *rand.Rand)) {
	t.Helper()
	for seed := range uint64(rounds) {
		f(t, rand.New(rand.NewPCG(seed, 77)))
		if t.Failed() {
			t.Fatalf("with the seed %d", seed)
		}
	}
}

func pick(rng *rand.Rand, n int, from ...string) string {
	var b strings.Builder
	for range n {
		b.WriteString(from[rng.IntN(len(from))])
	}
	return b.String()
}

func compare(t *testing.T, definition, text, want string) {
	t.Helper()
	if got := tokens(find(t, definition), text); got != want {
		t.Errorf("%s of %.200q\n%s", definition, text, firstDifference(got, want))
	}
}

// firstDifference shows two lists of tokens from a little before the place where they part.
func firstDifference(got, want string) string {
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	return fmt.Sprintf(" got …%.200s\nwant …%.200s", got[max(i-40, 0):], want[max(i-40, 0):])
}

// edges joins the tokens of a model.
func edges(list []string) string { return strings.Join(list, " ") }

func edge(term string, position, start, end, length int) string {
	s := fmt.Sprintf("%s@%d:%d-%d", term, position, start, end)
	if length != 1 {
		s += fmt.Sprintf("+%d", length)
	}
	return s
}

func TestGramTokensAgreeWithAModel(t *testing.T) {
	randomly(t, 1500, func(t *testing.T, rng *rand.Rand) {
		text := pick(rng, rng.IntN(14), "a", "é", "1", "-", "𝒳", " ")
		if rng.IntN(30) == 0 {
			text = strings.Repeat(text, 400) // beyond the window
		}
		least := 1 + rng.IntN(4)
		most := least + rng.IntN(4)
		for _, kind := range []string{"ngram", "edge_ngram"} {
			var want []string
			for start := 0; start < len(text); {
				end := start
				for end < len(text) && !strings.ContainsRune("- ", rune(text[end])) {
					end++
				}
				places := []int{}
				for i := range text[start:end] {
					places = append(places, start+i)
				}
				places = append(places, end)
				for i := range len(places) - 1 {
					for n := least; n <= most && i+n < len(places); n++ {
						want = append(want, edge(text[places[i]:places[i+n]], len(want), places[i], places[i+n], 1))
					}
					if kind == "edge_ngram" {
						break
					}
				}
				start = end + 1
			}
			compare(t, fmt.Sprintf("tokenizer=%s(%d, %d, token_chars=[letter, digit])", kind, least, most), text, edges(want))
		}
	})
}

// wordsOf gives the words of a text between spaces with their offsets.
func wordsOf(text string) (words []string, starts []int) {
	for i := 0; i < len(text); {
		if text[i] == ' ' {
			i++
			continue
		}
		end := i
		for end < len(text) && text[end] != ' ' {
			end++
		}
		words, starts = append(words, text[i:end]), append(starts, i)
		i = end
	}
	return words, starts
}

func TestGramsAgreeWithAModel(t *testing.T) {
	randomly(t, 1500, func(t *testing.T, rng *rand.Rand) {
		text := pick(rng, rng.IntN(16), "a", "b", "é", "漢", " ")
		least := 1 + rng.IntN(3)
		most := least + rng.IntN(4)
		preserve := rng.IntN(2) == 0
		words, starts := wordsOf(text)
		for _, kind := range []string{"ngram", "edge_ngram", "edge_ngram back"} {
			var want []string
			for w, word := range words {
				chars := []rune(word)
				add := func(term string) {
					want = append(want, edge(term, w, starts[w], starts[w]+len(word), 1))
				}
				for i := range chars {
					for n := least; n <= most && i+n <= len(chars); n++ {
						switch kind {
						case "edge_ngram back":
							add(string(chars[len(chars)-n:]))
						default:
							add(string(chars[i : i+n]))
						}
					}
					if kind != "ngram" {
						break
					}
				}
				if preserve && (len(chars) < least || len(chars) > most) {
					add(word)
				}
			}
			name, back := strings.CutSuffix(kind, " back")
			definition := fmt.Sprintf("tokenizer=whitespace, filters=%s(%d, %d, preserve_original=%t", name, least, most, preserve)
			if back {
				definition += ", side=back"
			}
			compare(t, definition+")", text, edges(want))
		}
	})
}

func TestShinglesAgreeWithAModel(t *testing.T) {
	randomly(t, 1500, func(t *testing.T, rng *rand.Rand) {
		text := pick(rng, rng.IntN(12), "a ", "b ", "c ", "the ")
		least := 2 + rng.IntN(2)
		most := least + rng.IntN(2)
		unigrams := rng.IntN(2) == 0
		words, starts := wordsOf(text)
		// The row of words, with at most most-1 fillers for removed ones; those at the end are not known to the filter.
		type place struct {
			term       string
			start, end int
			filler     bool
		}
		var row []place
		gap := 0
		for i, w := range words {
			if w == "the" {
				gap++
				continue
			}
			for range min(gap, most-1) {
				row = append(row, place{"_", starts[i], starts[i], true})
			}
			gap = 0
			row = append(row, place{w, starts[i], starts[i] + len(w), false})
		}
		var want []string
		position := -1
		for i := range row {
			here := false
			for n := 1; n <= most && i+n <= len(row); n++ {
				run := row[i : i+n]
				if n == 1 && !unigrams || n > 1 && n < least || !slices.ContainsFunc(run, func(p place) bool { return !p.filler }) {
					continue
				}
				if !here {
					position, here = position+1, true
				}
				var terms []string
				for _, p := range run {
					terms = append(terms, p.term)
				}
				want = append(want, edge(strings.Join(terms, "+"), position, run[0].start, run[n-1].end, n))
			}
		}
		compare(t, fmt.Sprintf("tokenizer=whitespace, filters=stop([the])|shingle(%d, %d, %t, token_separator=\"+\")", least, most, unigrams), text, edges(want))
	})
}

// rules makes random rules of synonyms as they are written and as a model holds them: what stands for a phrase, and
// whether it stays.
func rules(rng *rand.Rand) (written []string, to map[string][]string, keep map[string]bool) {
	to, keep = map[string][]string{}, map[string]bool{}
	phrase := func() string {
		return strings.TrimSpace(pick(rng, 1+rng.IntN(3), "a ", "b ", "c "))
	}
	put := func(from, what string) {
		if from == what {
			keep[from] = true
		} else if !slices.Contains(to[from], what) {
			to[from] = append(to[from], what)
		}
	}
	for range 1 + rng.IntN(3) {
		left := []string{phrase()}
		if rng.IntN(2) == 0 {
			left = append(left, phrase())
		}
		if rng.IntN(2) == 0 {
			right := []string{phrase(), phrase()}[:1+rng.IntN(2)]
			written = append(written, `"`+strings.Join(left, ", ")+" => "+strings.Join(right, ", ")+`"`)
			for _, l := range left {
				for _, r := range right {
					put(l, r)
				}
			}
			continue
		}
		if len(left) < 2 {
			left = append(left, phrase())
		}
		written = append(written, `"`+strings.Join(left, ", ")+`"`)
		put(left[0], left[1])
		put(left[1], left[0])
		keep[left[0]], keep[left[1]] = true, true
	}
	return written, to, keep
}

// longestMatch is the number of words of the longest phrase that words begins with, 0 for none.
func longestMatch(words []string, to map[string][]string, keep map[string]bool) int {
	for n := len(words); n > 0; n-- {
		p := strings.Join(words[:n], " ")
		if len(to[p]) > 0 || keep[p] {
			return n
		}
	}
	return 0
}

// paths lists the terms along every way through the graph of a text, each once, sorted.
func paths(a *analysis.Analyzer, text string) []string {
	type arc struct {
		term string
		to   int
	}
	from := map[int][]arc{}
	end := 0
	var s analysis.Stream
	for s.Reset(a, text); s.Next(); {
		from[s.Position] = append(from[s.Position], arc{string(s.Term), s.Position + s.PositionLength})
		end = max(end, s.Position+s.PositionLength)
	}
	var out []string
	var walk func(at int, terms string)
	walk = func(at int, terms string) {
		if at == end {
			out = append(out, strings.TrimSpace(terms))
			return
		}
		for _, e := range from[at] {
			walk(e.to, terms+" "+e.term)
		}
	}
	walk(0, "")
	slices.Sort(out)
	return slices.Compact(out)
}

// TestSynonymGraphsAgreeWithAModel: the ways through the graph are the texts that the rules make of the text, no more and no
// fewer.
func TestSynonymGraphsAgreeWithAModel(t *testing.T) {
	randomly(t, 2000, func(t *testing.T, rng *rand.Rand) {
		written, to, keep := rules(rng)
		words := strings.Fields(pick(rng, 1+rng.IntN(6), "a ", "b ", "c ", "d "))
		want := []string{""}
		for i := 0; i < len(words); {
			n := longestMatch(words[i:], to, keep)
			choices := []string{words[i]}
			if n > 0 {
				phrase := strings.Join(words[i:i+n], " ")
				choices = slices.Clone(to[phrase])
				if keep[phrase] {
					choices = append(choices, phrase)
				}
			}
			var longer []string
			for _, w := range want {
				for _, c := range choices {
					longer = append(longer, strings.TrimSpace(w+" "+c))
				}
			}
			want = longer
			i += max(n, 1)
		}
		slices.Sort(want)
		want = slices.Compact(want)
		definition := "tokenizer=whitespace, filters=synonym_graph(" + strings.Join(written, ", ") + ")"
		if got := paths(find(t, definition), strings.Join(words, " ")); !slices.Equal(got, want) {
			t.Errorf("%s of %q\n got %q\nwant %q\n%s", definition, words, got, want, tokens(find(t, definition), strings.Join(words, " ")))
		}
	})
}

// TestFlatSynonymsAgreeWithAModel compares the terms at each position.
func TestFlatSynonymsAgreeWithAModel(t *testing.T) {
	randomly(t, 2000, func(t *testing.T, rng *rand.Rand) {
		written, to, keep := rules(rng)
		words := strings.Fields(pick(rng, 1+rng.IntN(6), "a ", "b ", "c ", "d "))
		var want [][]string
		var later [][]string // words of phrases that are longer than what they replace
		take := func() (out []string) {
			if len(later) > 0 {
				out, later = later[0], later[1:]
			}
			return out
		}
		for i := 0; i < len(words); {
			n := longestMatch(words[i:], to, keep)
			if n == 0 {
				want = append(want, append([]string{words[i]}, take()...))
				i++
				continue
			}
			phrase := strings.Join(words[i:i+n], " ")
			for j := range n {
				var here []string
				if keep[phrase] {
					here = append(here, words[i+j])
				}
				for _, p := range to[phrase] {
					if w := strings.Fields(p); j < len(w) {
						here = append(here, w[j])
					}
				}
				if here = append(here, take()...); len(here) > 0 {
					want = append(want, here)
				}
			}
			for _, p := range to[phrase] {
				for j, w := range strings.Fields(p) {
					if j < n {
						continue
					}
					for len(later) <= j-n {
						later = append(later, nil)
					}
					later[j-n] = append(later[j-n], w)
				}
			}
			i += n
		}
		want = append(want, later...)
		definition := "tokenizer=whitespace, filters=synonym(" + strings.Join(written, ", ") + ")"
		var got [][]string
		var s analysis.Stream
		for s.Reset(find(t, definition), strings.Join(words, " ")); s.Next(); {
			for len(got) <= s.Position {
				got = append(got, nil)
			}
			got[s.Position] = append(got[s.Position], string(s.Term))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s of %q\n got %q\nwant %q", definition, words, got, want)
		}
	})
}

// TestPartsOfNamesAgreeWithAModel: every way through the graph of a name without the name itself spells its parts, and the
// parts alone are those that an expression finds.
func TestPartsOfNamesAgreeWithAModel(t *testing.T) {
	part := regexp.MustCompile(`[A-Z]+[a-z]*|[a-z]+|[0-9]+`)
	randomly(t, 2000, func(t *testing.T, rng *rand.Rand) {
		text := strings.TrimSpace(pick(rng, rng.IntN(14), "a", "b", "C", "D", "1", "2", "-", "_", " "))
		var words []string
		for _, w := range strings.Fields(text) {
			words = append(words, part.FindAllString(w, -1)...)
		}
		plain := find(t, "tokenizer=whitespace, filters=word_delimiter_graph")
		if got, want := paths(plain, text), strings.Join(words, " "); !slices.Equal(got, []string{want}) && !strings.Contains(" "+text+" ", " -") && !strings.Contains(" "+text+" ", " _") {
			t.Errorf("%q has the parts %q, want %q", text, got, want)
		}
		if strings.Contains(text, " ") {
			return
		}
		joined := find(t, fmt.Sprintf("tokenizer=whitespace, filters=word_delimiter_graph(catenate_words=%t, catenate_numbers=%t, catenate_all=%t, preserve_original=%t)",
			rng.IntN(2) == 0, rng.IntN(2) == 0, rng.IntN(2) == 0, rng.IntN(2) == 0))
		for _, p := range paths(joined, text) {
			if spelt := strings.ReplaceAll(p, " ", ""); spelt != strings.Join(words, "") && spelt != text {
				t.Errorf("%s of %q has the way %q", joined.Definition(), text, p)
			}
		}
	})
}

func TestBigramsAgreeWithAModel(t *testing.T) {
	randomly(t, 1500, func(t *testing.T, rng *rand.Rand) {
		text := pick(rng, rng.IntN(14), "東", "京", "か", "カ", "x", " ", "、")
		unigrams := rng.IntN(2) == 0
		var want []string
		position := 0
		for rest, at := text, 0; rest != ""; {
			n := strings.IndexAny(rest, "x 、")
			if n != 0 {
				if n < 0 {
					n = len(rest)
				}
				chars := n / 3
				for i := range chars {
					from := at + 3*i
					if unigrams || chars == 1 {
						want = append(want, edge(text[from:from+3], position, from, from+3, 1))
					}
					if i+1 < chars {
						length := 1
						if unigrams {
							length = 2
						}
						want = append(want, edge(text[from:from+6], position, from, from+6, length))
					}
					if unigrams || i+1 < chars || chars == 1 {
						position++
					}
				}
			} else if n = len(string([]rune(rest)[:1])); rest[0] == 'x' {
				for n = 1; n < len(rest) && rest[n] == 'x'; {
					n++
				}
				want = append(want, edge(rest[:n], position, at, at+n, 1))
				position++
			}
			rest, at = rest[n:], at+n
		}
		compare(t, fmt.Sprintf("tokenizer=standard, filters=cjk_bigram(output_unigrams=%t)", unigrams), text, edges(want))
	})
}

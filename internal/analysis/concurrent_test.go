package analysis_test

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/overlakedb/overlake/internal/analysis"
)

// TestAnalyzersAreShared: goroutines that use one analyzer, each with its stream, do not meet.
func TestAnalyzersAreShared(t *testing.T) {
	const text = "The usa Wi-Fi Übergrößen fooBar İstanbul'un L'avion 東京タワー running x@y.de http://a.b/c quick brown ΣΊΣΥΦΟΣ ﬁ"
	for _, a := range everything(t) {
		want := tokens(a, text)
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				for range 3 {
					if got := tokens(a, text); got != want {
						t.Errorf("%s: %s beside others, %s alone", a.Name(), got, want)
					}
				}
			})
		}
		group.Wait()
	}
}

// TestPatternsOfLongTexts compares with the plain way to split and to find, over many more matches than are looked for at once.
func TestPatternsOfLongTexts(t *testing.T) {
	text := strings.Repeat("one two,three;; four-5 é ", 300)
	for _, expr := range []string{`\W+`, `\b`, `[ ,;]*`, `(?:^one)|\W`, `x`, ``, `e+`, `\B`, `,|$`} {
		re := regexp.MustCompile(expr)
		var want, found []string
		for _, w := range re.Split(text, -1) {
			if w != "" {
				want = append(want, w)
			}
		}
		for _, w := range re.FindAllString(text, -1) {
			if w != "" {
				found = append(found, w)
			}
		}
		for group, words := range map[string][]string{"-1": want, "0": found} {
			definition := "tokenizer=pattern(\"" + strings.ReplaceAll(expr, `\`, `\\`) + "\", group=" + group + ")"
			var got []string
			var s analysis.Stream
			for s.Reset(find(t, definition), text); s.Next(); {
				got = append(got, string(s.Term))
				if string(s.Term) != text[s.Start:s.End] {
					t.Fatalf("%s: %s stands at %d-%d", definition, s.Term, s.Start, s.End)
				}
			}
			if !slices.Equal(got, words) {
				t.Errorf("%s finds %d tokens, want %d: %.200q, want %.200q", definition, len(got), len(words), got, words)
			}
		}
	}
}

package analysis_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/errs"
)

func terms(t testing.TB, name, text string) string {
	t.Helper()
	a, err := analysis.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	a.Each(text, &analysis.Scratch{}, func(k analysis.Token) {
		if k.Start < 0 || k.End > len(text) || k.Start >= k.End {
			t.Errorf("%q: token %q at %d..%d", text, k.Term, k.Start, k.End)
		}
		out = append(out, fmt.Sprintf("%s@%d", k.Term, k.Position))
	})
	return strings.Join(out, " ")
}

func TestAnalyzers(t *testing.T) {
	for _, c := range []struct{ analyzer, text, want string }{
		{"standard", "The QUICK brown-fox's 3.5 e-mails, O'Neil!", "the@0 quick@1 brown@2 fox's@3 3.5@4 e@5 mails@6 o'neil@7"},
		{"standard", "snake_case x.y 世界 Ünïcode", "snake_case@0 x.y@1 世@2 界@3 ünïcode@4"},
		{"standard", "", ""}, {"standard", " ,.- ", ""},
		{"english", "The running dogs' owner's houses are not on the hills", "run@1 dog@2 owner@3 hous@4 hill@9"},
		{"simple", "It's 3x BIG", "it@0 s@1 x@2 big@3"}, {"whitespace", " A-b  C! ", "A-b@0 C!@1"}, {"keyword", "Some Text", "Some Text@0"},
	} {
		if got := terms(t, c.analyzer, c.text); got != c.want {
			t.Errorf("%s(%q)\n got %s\nwant %s", c.analyzer, c.text, got, c.want)
		}
	}
	if got := terms(t, "standard", strings.Repeat("x", 300)); strings.Count(got, "@") != 2 {
		t.Errorf("a word of 300 letters gave %s", got)
	}
	if _, err := analysis.Find("klingon"); !errs.Is(err, errs.NotFound) || errs.HintOf(err) == "" {
		t.Error(err)
	}
}

func FuzzEach(f *testing.F) {
	f.Add("The QUICK brown-fox's 3.5 世界 \xff'")
	f.Fuzz(func(t *testing.T, s string) {
		for _, n := range analysis.Names() {
			terms(t, n, s)
		}
	})
}

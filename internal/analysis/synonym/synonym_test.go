package synonym_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/analysis/synonym"
	"github.com/overlakedb/overlake/internal/errs"
)

func TestParse(t *testing.T) {
	for _, c := range [][2]string{
		{"", "[]"},
		{"# nothing\n\n  \n", "[]"},
		{"usa, united  states ,america", "[{[usa united  states america] [] false}]"},
		{"i-pod, i pod => ipod\na => b, c", "[{[i-pod i pod] [ipod] true} {[a] [b c] true}]"},
		{`a\,b, c\=\>d => \\e`, `[{[a,b c=>d] [\e] true}]`},
		{`end\`, `[{[end\] [] false}]`},
		{"a = b, ,c", "[{[a = b c] [] false}]"},
		{"a =>", "a =>: a rule needs a phrase on each side"},
		{"=> a", "=> a: a rule needs a phrase on each side"},
		{",,", ",,: a rule needs a phrase on each side"},
		{"a => b => c", "a => b => c: a rule has one arrow at most"},
	} {
		rules, err := synonym.Parse(c[0])
		got := fmt.Sprint(rules)
		if err != nil {
			if got = err.Error(); !errs.Is(err, errs.Invalid) {
				t.Errorf("%q: %v", c[0], errs.KindOf(err))
			}
		}
		if got != c[1] {
			t.Errorf("%q is %s, want %s", c[0], got, c[1])
		}
	}
}

// walk goes along a phrase and gives what stands for it, "" for nothing.
func walk(s *synonym.Set, phrase string) string {
	state := int32(0)
	for _, w := range strings.Fields(phrase) {
		next, ok := s.Step(state, []byte(w))
		if !ok {
			return ""
		}
		state = next
	}
	o := s.Output(state)
	if o == nil {
		return ""
	}
	return fmt.Sprintf("%v keep=%t words=%d", o.Phrases, o.Keep, o.Words)
}

func TestSet(t *testing.T) {
	var s synonym.Set
	for _, p := range []struct {
		from, to string
		keep     bool
	}{{"a b", "x", false}, {"a b", "x", false}, {"a b", "y z", false}, {"a", "a", false}, {"a b c", "q", true}, {"a b", "a b", false}} {
		if err := s.Add(strings.Fields(p.from), strings.Fields(p.to), p.keep); err != nil {
			t.Fatal(err)
		}
	}
	for phrase, want := range map[string]string{"a": "[] keep=true words=1", "a b": "[[x] [y z]] keep=true words=2", "a b c": "[[q]] keep=true words=3", "b": "", "a c": "", "a b c d": "", "": ""} {
		if got := walk(&s, phrase); got != want {
			t.Errorf("%q: %s, want %s", phrase, got, want)
		}
	}
	if s.Growth() != 2 { // x, y and z for a and b, and the phrase itself
		t.Errorf("the growth is %d", s.Growth())
	}
	var empty synonym.Set
	if walk(&empty, "a") != "" || walk(&empty, "") != "" {
		t.Error("an empty set stands for something")
	}
	long := slices.Repeat([]string{"w"}, 33)
	if err := s.Add(long, []string{"x"}, false); !errs.Is(err, errs.Invalid) {
		t.Errorf("a phrase of 33 words: %v", err)
	}
	if err := s.Add(nil, []string{"x"}, false); !errs.Is(err, errs.Invalid) {
		t.Errorf("a phrase of no words: %v", err)
	}
}

// FuzzParse: no text makes a panic, and rules have phrases without white space at their ends.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"a, b => c", `\`, "=>", "a\\,b,\xff", "#x\ny"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rules, err := synonym.Parse(text)
		if err != nil {
			return
		}
		for _, r := range rules {
			if len(r.Left) == 0 || r.Arrow != (len(r.Right) > 0) {
				t.Fatalf("%q has the rule %v", text, r)
			}
			for _, p := range append(slices.Clone(r.Left), r.Right...) {
				if p == "" || strings.TrimSpace(p) != p {
					t.Fatalf("%q has the phrase %q", text, p)
				}
			}
		}
	})
}

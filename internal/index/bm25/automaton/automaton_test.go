package automaton_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/automaton"
	"github.com/overlakedb/overlake/internal/index/bm25/posting"
)

// dictionary is a source that has terms and nothing else.
type dictionary struct {
	posting.Source
	terms []string
	seen  int
}

func (d *dictionary) Walk(_ context.Context, _ int, from []byte, yield func([]byte, posting.Term) ([]byte, bool)) error {
	for i := sort.SearchStrings(d.terms, string(from)); i < len(d.terms); {
		d.seen++
		seek, more := yield([]byte(d.terms[i]), posting.Term{DocFreq: 1})
		if !more {
			return nil
		}
		i++
		if seek != nil {
			if string(seek) <= d.terms[i-1] {
				return fmt.Errorf("behind %q the walk seeks %q", d.terms[i-1], seek)
			}
			i = sort.SearchStrings(d.terms, string(seek))
		}
	}
	return nil
}

// randomTerms are short words over few characters, some wide, some not UTF-8.
func randomTerms(rng *rand.Rand, n int) []string {
	alphabet := []string{"a", "a", "b", "b", "c", "B", "1", "2", "é", "漢", "𝒳", "\xff", "\xe2\x82"}
	seen := map[string]bool{}
	for range n {
		var b strings.Builder
		for range 1 + rng.IntN(7) {
			b.WriteString(alphabet[rng.IntN(len(alphabet))])
		}
		seen[b.String()] = true
	}
	var out []string
	for t := range seen {
		out = append(out, t)
	}
	slices.Sort(out)
	return out
}

// check walks a dictionary and compares with a plain answer for each term.
func check(t *testing.T, what string, a *automaton.Automaton, terms []string, accepts func(string) bool) {
	t.Helper()
	var want, got []string
	for _, s := range terms {
		if accepts(s) {
			want = append(want, s)
		}
	}
	d := &dictionary{terms: terms}
	if err := automaton.Each(t.Context(), d, 0, a, func(term []byte, _ posting.Term) bool {
		got = append(got, string(term))
		return true
	}); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%s: got %q, want %q", what, got, want)
	}
	m := a.Matcher()
	for _, s := range terms {
		if m.Match([]byte(s)) != accepts(s) {
			t.Fatalf("%s: Match says %t of %q", what, !accepts(s), s)
		}
	}
}

// wildcard is the plain meaning of a pattern.
func wildcard(pattern, s []rune) bool {
	if len(pattern) == 0 {
		return len(s) == 0
	}
	switch c := pattern[0]; {
	case c == '*':
		return wildcard(pattern[1:], s) || len(s) > 0 && wildcard(pattern, s[1:])
	case len(s) == 0:
		return false
	case c == '?':
		return wildcard(pattern[1:], s[1:])
	case c == '\\' && len(pattern) > 1:
		return pattern[1] == s[0] && wildcard(pattern[2:], s[1:])
	default:
		return c == s[0] && wildcard(pattern[1:], s[1:])
	}
}

func TestRandomPatterns(t *testing.T) {
	const seed = 1
	rng := rand.New(rand.NewPCG(seed, 2))
	for round := range 150 {
		terms := randomTerms(rng, 400)
		pick := func() string { return terms[rng.IntN(len(terms))] }

		var pattern strings.Builder
		for _, r := range pick() {
			switch rng.IntN(5) {
			case 0:
				pattern.WriteByte('*')
			case 1:
				pattern.WriteByte('?')
			default:
				pattern.WriteRune(r)
			}
		}
		p := pattern.String()
		a, err := automaton.Wildcard(p, false)
		if err != nil {
			t.Fatal(err)
		}
		check(t, fmt.Sprintf("round %d, wildcard %q", round, p), a, terms, func(s string) bool { return wildcard([]rune(p), []rune(s)) })

		prefix := pick()
		prefix = prefix[:rng.IntN(len(prefix))]
		check(t, fmt.Sprintf("prefix %q", prefix), automaton.Prefix([]byte(prefix)), terms, func(s string) bool { return strings.HasPrefix(s, prefix) })

		word, edits, same, swaps := pick(), rng.IntN(3), rng.IntN(3), rng.IntN(2) == 0
		a, err = automaton.Fuzzy(word, edits, same, swaps)
		if err != nil {
			t.Fatal(err)
		}
		w := []rune(word)
		check(t, fmt.Sprintf("fuzzy %q, %d edits, prefix %d, swaps %t", word, edits, same, swaps), a, terms, func(s string) bool {
			r := []rune(s)
			n := min(same, len(w))
			return len(r) >= n && slices.Equal(r[:n], w[:n]) && distance(r[n:], w[n:], swaps) <= edits
		})
		other := []rune(pick())
		if got, want := automaton.Distance(w, other, 2, swaps), min(3, distance(w, other, swaps)); got != want {
			t.Fatalf("%q to %q: distance %d, want %d", word, string(other), got, want)
		}

		lo, hi := pick(), pick()
		b := automaton.Bounds{From: []byte(lo), To: []byte(hi), ExcludeFrom: rng.IntN(2) == 0, ExcludeTo: rng.IntN(2) == 0}
		if rng.IntN(4) == 0 {
			b.From = nil
		}
		if rng.IntN(4) == 0 {
			b.To = nil
		}
		check(t, fmt.Sprintf("range %+v", b), automaton.Range(b), terms, func(s string) bool {
			if b.From != nil && (s < lo || s == lo && b.ExcludeFrom) {
				return false
			}
			return b.To == nil || s < hi || s == hi && !b.ExcludeTo
		})
	}
}

// distance is the edit distance straight from its definition: by recursion, remembered.
func distance(a, b []rune, swaps bool) int {
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
		if swaps && i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
			v = min(v, d(i-2, j-2)+1)
		}
		memo[[2]int{i, j}] = v
		return v
	}
	return d(len(a), len(b))
}

// TestRegexpAgainstGo makes random expressions in the part that Go's regular expressions share, and what Lucene adds from
// two of them.
func TestRegexpAgainstGo(t *testing.T) {
	const seed = 3
	rng := rand.New(rand.NewPCG(seed, 4))
	var expression func(depth int) string
	expression = func(depth int) string {
		if depth == 0 {
			return []string{"a", "b", "c", "é", "漢", ".", "[ab]", "[^a]", "[a-c1]", `\d`, `\W`, "(ab|c)"}[rng.IntN(12)]
		}
		switch rng.IntN(7) {
		case 0:
			return expression(depth-1) + "|" + expression(depth-1)
		case 1:
			return "(" + expression(depth-1) + ")" + []string{"*", "+", "?", "{2}", "{1,3}", "{2,}"}[rng.IntN(6)]
		default:
			return "(" + expression(depth-1) + ")" + expression(depth-1)
		}
	}
	for round := range 150 {
		terms := randomTerms(rng, 200)
		x, y := expression(rng.IntN(4)), expression(rng.IntN(3))
		gx, gy := regexp.MustCompile(`(?s)^(?:`+x+`)$`), regexp.MustCompile(`(?s)^(?:`+y+`)$`)
		for pattern, accepts := range map[string]func(string) bool{
			x:                            gx.MatchString,
			"(" + x + ")&(" + y + ")":    func(s string) bool { return gx.MatchString(s) && gy.MatchString(s) },
			"~(" + x + ")":               func(s string) bool { return !gx.MatchString(s) },
			"@&~((" + x + ")|" + y + ")": func(s string) bool { return !gx.MatchString(s) && !gy.MatchString(s) },
		} {
			a, err := automaton.Regexp(pattern, false)
			if err != nil {
				t.Fatalf("%s: %v", pattern, err)
			}
			check(t, fmt.Sprintf("round %d, regexp %s", round, pattern), a, terms, accepts)
		}
	}
}

func TestRegexpCases(t *testing.T) {
	for _, c := range []struct {
		pattern  string
		fold     bool
		yes, not string // by blanks
	}{
		{"@", false, "a abc", ""},
		{"#", false, "", "a #"},
		{"a#?b", false, "ab", "a#b"},
		{"()", false, "", "a"},
		{"a()b", false, "ab", "a"},
		{`a"b*c"d`, false, "ab*cd", "abbcd"},
		{`a\.b`, false, "a.b", "axb"},
		{"<1-100>", false, "1 7 42 100 007 0100", "0 101 1000 a"},
		{"<01-12>", false, "01 09 12", "1 00 13 012"},
		{"a<9-11>b", false, "a9b a10b a11b a09b", "a8b a12b"},
		{"~a", false, "b aa", "a"},
		{"~~a", false, "a", "b"},
		{"a~b*c", false, "ac axc abbbc abxc", "ab a"},
		{"Straße", true, "straße STRAßE straẞe", "strasse"},
		{"[a-c]x", true, "Ax bX", "dx"},
		{"[^a-c]", true, "d D", "a A C"},
		{"[]a]", false, "] a", "b"},
		{"[a-]", false, "a -", "b"},
		{`[\]\-]`, false, "] -", `a \`},
	} {
		a, err := automaton.Regexp(c.pattern, c.fold)
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		m := a.Matcher()
		for _, s := range strings.Fields(c.yes) {
			if !m.Match([]byte(s)) {
				t.Errorf("%s does not accept %s", c.pattern, s)
			}
		}
		for _, s := range strings.Fields(c.not) {
			if m.Match([]byte(s)) {
				t.Errorf("%s accepts %s", c.pattern, s)
			}
		}
	}
}

func TestErrors(t *testing.T) {
	for pattern, want := range map[string]string{
		"a(b":                       "character 4: expected a closing ), found the end",
		"a|*":                       "character 3: expected a character, a class or a group, found '*'",
		"a)":                        "character 2: expected an operator or the end, found ')'",
		"":                          "found the end",
		"[a":                        "a closing ]",
		"[z-a]":                     "a range that ascends",
		"a{x}":                      "a number up to 10000, found 'x'",
		"a{5,2}":                    "a greater number",
		"a{2":                       "expected }",
		`é"b`:                       `a closing "`,
		"<1-x>":                     "a number of at most 18 digits, found 'x'",
		"<1>":                       "expected -",
		`a\`:                        `a character behind \`,
		strings.Repeat("(", 200):    "at most 100 groups",
		strings.Repeat("a", 1001):   "more than 1000",
		"((a{100}){100}){100}":      "more than 10000 states",
		"~((a|b)*a(a|b){14}c)":      "more than 10000 states",
		"(.*a.{13}c)&(.*b.{15}d.*)": "more than 10000 states",
	} {
		_, err := automaton.Regexp(pattern, false)
		if err == nil || !strings.Contains(err.Error(), want) || errs.Is(err, errs.Internal) {
			t.Errorf("%.40s: %v, want %s", pattern, err, want)
		}
	}
	if _, err := automaton.Fuzzy(strings.Repeat("x", 9000), 2, 0, true); !errs.Is(err, errs.Exhausted) {
		t.Errorf("a long fuzzy term: %v", err)
	}
	if _, err := automaton.Wildcard(strings.Repeat("x", 20000), false); !errs.Is(err, errs.Exhausted) {
		t.Errorf("a long wildcard: %v", err)
	}
}

// TestWalkSkips: a walk looks at few of the terms that it does not want.
func TestWalkSkips(t *testing.T) {
	d := &dictionary{}
	for i := range 100_000 {
		d.terms = append(d.terms, fmt.Sprintf("%05d", i))
	}
	a, err := automaton.Fuzzy("04711", 1, 0, true)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if err := automaton.Each(t.Context(), d, 0, a, func([]byte, posting.Term) bool { n++; return true }); err != nil || n != 49 || d.seen > 800 {
		t.Errorf("%d terms after %d were looked at, %v", n, d.seen, err)
	}
}

// TestManyStates: what would need very many deterministic states takes bounded memory and time, with right answers.
func TestManyStates(t *testing.T) {
	a, err := automaton.Wildcard("*a????????????????*b", false)
	if err != nil {
		t.Fatal(err)
	}
	m := a.Matcher()
	rng := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		var b bytes.Buffer
		for range 100 {
			b.WriteByte("ab"[rng.IntN(2)])
		}
		s := b.String()
		i := strings.IndexByte(s, 'a')
		want := i >= 0 && len(s)-i-1 >= 17 && s[len(s)-1] == 'b'
		if m.Match([]byte(s)) != want {
			t.Fatalf("%s: %t", s, !want)
		}
		m.Next([]byte(s))
	}
}

func FuzzPatterns(f *testing.F) {
	f.Add("a(b|c)*~d&@<1-10>", "abc")
	f.Add(`[^\d-x]{2,3}"q"#`, "\xffa")
	f.Add("a*b?c\\*", "abbc*")
	f.Fuzz(func(t *testing.T, pattern, term string) {
		if len(pattern) > 60 || len(term) > 200 {
			return
		}
		w, err := automaton.Wildcard(pattern, false)
		if err != nil {
			t.Fatal(err)
		}
		if len(term) < 14 && strings.Count(pattern, "*") < 5 {
			var clean []rune
			for _, r := range pattern {
				clean = append(clean, r)
			}
			if got, want := w.Matcher().Match([]byte(term)), wildcard(clean, []rune(term)); got != want {
				t.Fatalf("wildcard %q of %q: %t", pattern, term, got)
			}
		}
		if z, err := automaton.Fuzzy(pattern, 2, 1, true); err == nil && utf8.ValidString(pattern) && pattern != "" && !z.Matcher().Match([]byte(pattern)) {
			t.Fatalf("%q is not near itself", pattern)
		}
		a, err := automaton.Regexp(pattern, true)
		if err != nil {
			if errs.Is(err, errs.Internal) {
				t.Fatal(err)
			}
			return
		}
		m := a.Matcher()
		m.Match([]byte(term))
		if seek, more := m.Next([]byte(term)); more && seek != nil && bytes.Compare(seek, []byte(term)) <= 0 {
			t.Fatalf("behind %q the walk seeks %q", term, seek)
		}
	})
}

package highlight_test

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/highlight"
	"github.com/overlakedb/overlake/internal/index/bm25/primitive"
	"github.com/overlakedb/overlake/internal/index/bm25/query"
)

var rewrite = flag.Bool("rewrite", false, "write what is marked into testdata")

func schema(t testing.TB, name string) *query.Schema {
	a, err := analysis.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return &query.Schema{Fields: []query.Field{{Name: "body", Analyzer: a}, {Name: "title", Analyzer: a}}}
}

func lower(t testing.TB, s *query.Schema, text string) primitive.Node {
	t.Helper()
	n, err := query.QueryString(text, query.StringOptions{Fields: []query.FieldBoost{{Name: "body"}}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := query.Lower(n, s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestFragments runs testdata/fragments.txt: a text, then options and a query a line, each followed by its fragments.
func TestFragments(t *testing.T) {
	const file = "testdata/fragments.txt"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	text := ""
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		out.WriteString(line + "\n")
		if line == "" || strings.HasPrefix(line, "--") {
			continue
		}
		if rest, ok := strings.CutPrefix(line, "text "); ok {
			if text, err = strconv.Unquote(rest); err != nil {
				t.Fatalf("%s:%d: %v", file, i+1, err)
			}
			continue
		}
		options, q, _ := strings.Cut(line, " ")
		var o highlight.Options
		s := schema(t, "english")
		for option := range strings.SplitSeq(options, ",") {
			name, value, _ := strings.Cut(option, "=")
			n, _ := strconv.Atoi(value)
			switch name {
			case "-":
			case "fragments":
				o.Fragments = n
			case "size":
				o.FragmentSize = n
			case "whole":
				o.Whole = true
			case "tags":
				o.Pre, o.Post = "[", "]"
			case "score":
				o.ByScore = true
			case "nomatch":
				o.NoMatchSize = n
			case "html":
				o.HTML = true
			case "any":
				o.AnyField = true
			case "limit":
				o.Limit = n
			case "standard":
				s = schema(t, "standard")
			default:
				t.Fatalf("no option %s", option)
			}
		}
		h, err := highlight.New(lower(t, s, strings.Trim(q, "`")), 0, s.Fields[0].Analyzer, o)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range h.Fragments(text) {
			got = append(got, "    "+strconv.Quote(f))
		}
		if got == nil {
			got = []string{"    nothing"}
		}
		var want []string
		for i+1 < len(lines) && strings.HasPrefix(lines[i+1], "    ") {
			i++
			want = append(want, lines[i])
		}
		if !*rewrite && strings.Join(want, "\n") != strings.Join(got, "\n") {
			t.Errorf("%s\n got\n%s\nwant\n%s", line, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		out.WriteString(strings.Join(got, "\n") + "\n")
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSnippet(t *testing.T) {
	s := schema(t, "standard")
	h, err := highlight.New(lower(t, s, "fox"), 0, s.Fields[0].Analyzer, highlight.Options{FragmentSize: 10})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{"A long beginning. The fox. A dog and a fox. Fox fox fox.": "<em>Fox</em> <em>fox</em> <em>fox</em>.", "Nothing of that kind": "Nothing of", "": ""} {
		if got := h.Snippet(text); got != want {
			t.Errorf("%q is cut to %q, want %q", text, got, want)
		}
	}
}

func TestSizes(t *testing.T) {
	s := schema(t, "standard")
	if _, err := highlight.New(lower(t, s, "a"), 0, s.Fields[0].Analyzer, highlight.Options{Fragments: -1}); !errs.Is(err, errs.Invalid) {
		t.Errorf("-1 fragments: %v", err)
	}
}

// FuzzFragments: fragments are parts of the text, in order, with every mark in one of them, whatever the text.
func FuzzFragments(f *testing.F) {
	f.Add("The fox. A dog! fox fox? \xff fox", 10, uint8(3))
	f.Add("狐は速い。fox 犬。", 1, uint8(1))
	f.Add(strings.Repeat("word ", 50)+"fox", 7, uint8(0))
	s := schema(f, "standard")
	n := lower(f, s, `fox "a dog"~2 wor* 狐`)
	f.Fuzz(func(t *testing.T, text string, size int, flags uint8) {
		if size <= 0 || size > 1<<20 || strings.ContainsAny(text, "\x01\x02") {
			return
		}
		o := highlight.Options{FragmentSize: size, Fragments: 1 << 20, Pre: "\x01", Post: "\x02", Whole: flags&1 > 0, NoMatchSize: int(flags >> 4)}
		h, err := highlight.New(n, 0, s.Fields[0].Analyzer, o)
		if err != nil {
			t.Fatal(err)
		}
		marks := h.Marks(text)
		at, count := 0, 0
		for _, fragment := range h.Fragments(text) {
			count += strings.Count(fragment, "\x01")
			if strings.Count(fragment, "\x01") != strings.Count(fragment, "\x02") {
				t.Fatalf("%q of %q has tags without partners", fragment, text)
			}
			plain := strings.NewReplacer("\x01", "", "\x02", "").Replace(fragment)
			i := strings.Index(text[at:], plain)
			if i < 0 {
				t.Fatalf("%q is not in %q from byte %d", plain, text, at)
			}
			at += i + len(plain)
			if utf8.ValidString(text) && !utf8.ValidString(fragment) {
				t.Fatalf("%q cuts a character of %q", fragment, text)
			}
		}
		if count != len(marks) {
			t.Fatalf("%q: %d marks of %d: %q", text, count, len(marks), fmt.Sprintf("%q", h.Fragments(text)))
		}
	})
}

package lex_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/sql/lex"
)

var update = flag.Bool("update", false, "rewrite the answers in testdata")

var kinds = [...]string{"word", "quoted", "string", "number", "param", "op", "punct"}

func TestTokens(t *testing.T) {
	const file = "testdata/tokens.txt"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(data), "\n")
	var out []string
	for _, block := range strings.Split(strings.TrimSpace(rest), "\n\n") {
		in, want, _ := strings.Cut(block, "\n----")
		tokens, err := lex.Tokens(in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		got := ""
		for _, k := range tokens {
			got += fmt.Sprintf("\n%s %d-%d %s", kinds[k.Kind], k.Start, k.End, strings.ReplaceAll(k.Text, "\n", "⏎"))
		}
		if got != want && !*update {
			t.Errorf("%s:\n got%s\nwant%s", in, got, want)
		}
		out = append(out, in+"\n----"+got+"\n")
	}
	if *update {
		if err := os.WriteFile(file, []byte(head+"\n"+strings.Join(out, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// DuckDB ends these where we do; a difference would let text hide from one of the two.
func TestCommentsAndSpaces(t *testing.T) {
	for in, want := range map[string]string{
		"a -- b\rc":                     "a c",
		"a -- b\r\nc":                   "a c",
		"a\u00a0b\u3000\u2003c\ufeff":   "a b c",
		"/*/*x*/ y*/z":                  "z",
		"/**/a/***/":                    "a",
		"a/* ' */b/* \" */c-- '\n'd'":   "a b c 'd'",
		"'--' \"/*\" $$--$$ '/*'":       "'--' \"/*\" $$--$$ '/*'",
		"$a$ $b$ $$ $a$ c":              "$a$ $b$ $$ $a$ c",
		"a$b $1$2":                      "a$b $1 $2",
		"\xff\xfe":                      "\xff\xfe",
		"U&'x' N'y'":                    "U & 'x' N 'y'",
		"a<#>b a<#>-b a <#>- b a < # b": "a <#> b a <#> - b a <#> - b a < # b",
	} {
		tokens, err := lex.Tokens(in)
		var got []string
		for _, k := range tokens {
			got = append(got, k.Text)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q gave %q, %v; want %q", in, strings.Join(got, " "), err, want)
		}
	}
	text := "SELECT\u00a0'\u00a0' -- \u3000\n"
	tokens, _ := lex.Tokens(text)
	if got := lex.Splice(text, lex.SpaceEdits(text, tokens)); got != "SELECT '\u00a0' --  \n" {
		t.Errorf("%q", got)
	}
}

func TestErrorsTellWhere(t *testing.T) {
	for in, want := range map[string]string{
		"SELECT 1,\n  'open":            "line 2, column 3",
		"SELECT \"open":                 "line 1, column 8",
		"é /* open":                     "line 1, column 3",
		"SELECT /*/":                    "line 1, column 8",
		"SELECT $$x":                    "line 1, column 8",
		"SELECT $é$ $e$":                "line 1, column 8",
		"SELECT $ 1":                    "line 1, column 8",
		"SELECT $\"x":                   "line 1, column 8",
		"SELECT \\":                     "line 1, column 8",
		"SELECT E'a\\'":                 "line 1, column 8",
		"SELECT 'a'\n 'b":               "line 1, column 8",
		strings.Repeat("(", 1000) + "1": "column 501",
		"a\x00b":                        "column 2",
		`SELECT ""`:                     "column 8",
	} {
		_, err := lex.Tokens(in)
		if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q gave %v, want %s", in, err, want)
		}
	}
	if _, err := lex.Tokens(strings.Repeat("()", 1000) + strings.Repeat("(;", 1000)); err != nil {
		t.Errorf("brackets side by side: %v", err)
	}
}

func TestSplit(t *testing.T) {
	script := "SELECT ';'; -- a;b\n;;\n /* ; */ INSERT INTO \"x;y\" VALUES (1) ;\nSELECT $$;$$"
	list, err := lex.Split(script)
	if err != nil || len(list) != 3 {
		t.Fatal(list, err)
	}
	for _, s := range list {
		if script[s.Offset:s.Offset+len(s.Text)] != s.Text || s.Text[s.Tokens[0].Start:s.Tokens[0].End] != s.Tokens[0].Text {
			t.Errorf("offsets of %q", s.Text)
		}
	}
}

// Hints before and behind a statement are of it; other comments are not.
func TestHintsOfStatements(t *testing.T) {
	script := "/* a */ /*+ b */ SELECT 1 -- c\n /*+ d */ ; /*+ e */ SELECT /*+ f */ 2 /* g */; SELECT 3 /*+ h */ /* i */ -- /*+ j */"
	list, err := lex.Split(script)
	if err != nil || len(list) != 3 {
		t.Fatal(list, err)
	}
	for i, want := range []string{"b d", "e f", "h"} {
		s := list[i]
		if script[s.Offset:s.Offset+len(s.Text)] != s.Text || s.Text[s.Tokens[0].Start:s.Tokens[0].End] != "SELECT" {
			t.Errorf("offsets of %q", s.Text)
		}
		if got, at := lex.Hint(s.Text, s.Tokens); got != want || !strings.HasPrefix(s.Text[at:], "/*+") {
			t.Errorf("hints of %q are %q at %d, want %q", s.Text, got, at, want)
		}
	}
}

func TestValues(t *testing.T) {
	for in, want := range map[string]string{
		`'it''s'`: "it's", `''`: "", `""""`: `"`, `"a""b"`: `a"b`, "abc": "abc",
		"'a'\n 'b''c'": "ab'c", "'a' -- x\n\n'b'": "ab", "'a'\n-- x\n'b'": "ab",
		`E'a\nb\''`: "a\nb'", `e'\x41\101\u00e9\\\q'`: `AAé\q`, "E'\\\\n'\n'\\t'": "\\n\t", `E'\x'`: "x", `E'a''b'`: "a'b",
		"$$x'y$$": "x'y", "$q$z$q$": "z", "$$$$": "", "X'4F'": "4F", "b'10'": "10",
	} {
		tokens, err := lex.Tokens(in)
		if err != nil || len(tokens) == 0 {
			t.Fatal(in, tokens, err)
		}
		got := tokens[0].Name()
		if tokens[0].Kind == lex.String {
			got = tokens[0].Value()
		}
		if got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}

func TestArgs(t *testing.T) {
	text := "f(a, g(b, [1,2]), 'x,y') + h()"
	tokens, _ := lex.Tokens(text)
	args, end := lex.Args(tokens, 1)
	if len(args) != 3 || !tokens[end].Is(")") || tokens[end+1].Text != "+" || lex.Open(tokens, end) != 1 {
		t.Errorf("%d arguments, end %d", len(args), end)
	}
	if none, _ := lex.Args(tokens, len(tokens)-2); len(none) != 0 {
		t.Errorf("h() has %d arguments", len(none))
	}
	if got := lex.Splice(text, []lex.Edit{{Start: 27, End: 28, New: "H"}, {Start: 0, End: 1, New: "F"}, {New: "<"}}); got != "<F(a, g(b, [1,2]), 'x,y') + H()" {
		t.Error(got)
	}
}

// What an edit leaves alone is found again at its old place.
func TestOrigin(t *testing.T) {
	text := "SELECT a <#> ? FROM t"
	edits := []lex.Edit{{Start: 13, End: 14, New: "$1"}, {Start: 9, End: 12, New: "<!>"}, {Start: 13, End: 13, New: "f("}, {Start: 14, End: 14, New: ")"},
		{Start: 20, End: 21, New: "read_parquet(['x'])"}, {Start: 21, End: 21, New: " AS t"}}
	made := lex.Splice(text, edits)
	if want := "SELECT a <!> f($1) FROM read_parquet(['x']) AS t"; made != want {
		t.Fatalf("%q, want %q", made, want)
	}
	for now, then := range map[string]string{"SELECT": "SELECT", "a <": "a <", "<!>": "<#>", "$1": "?", ") F": " F", "FROM": "FROM", "'x'": "t", "f(": "?"} {
		if got := lex.Origin(edits, strings.Index(made, now)); got != strings.LastIndex(text, then) {
			t.Errorf("%q is at %d, want %d", now, got, strings.LastIndex(text, then))
		}
	}
	frame := []lex.Edit{{Start: 0, End: 7, New: "COPY ("}, {Start: 21, End: 21, New: ")"}}
	for i := range 14 {
		if got := lex.Origin(frame, 6+i); got != 7+i {
			t.Errorf("byte %d of the frame is at %d", i, got)
		}
	}
	if got := lex.Origin(frame, 2); got != 7 {
		t.Errorf("the frame itself is at %d", got)
	}
}

func FuzzTokens(f *testing.F) {
	for _, s := range []string{"SELECT 'a' <-> $1; --x", "\"q\"\"\" $$a$$ E'\\''", "/*/**/*/ 1e+5.x::y", "'a'\n'b' E'\\u00'\r'x' \u3000?1 #2 ..", "$é$é$é$ $\"x\""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		tokens, err := lex.Tokens(s)
		if err != nil {
			if !errs.Is(err, errs.Invalid) {
				t.Error(err)
			}
			return
		}
		last := 0
		for _, k := range tokens {
			if k.Start < last || k.End <= k.Start || s[k.Start:k.End] != k.Text {
				t.Fatalf("token %+v after %d", k, last)
			}
			last = k.End
			if k.Kind == lex.String {
				_ = k.Value()
			}
		}
		lex.Splice(s, lex.SpaceEdits(s, tokens))
	})
}

func FuzzSplit(f *testing.F) {
	for _, s := range []string{"a;b", ";;", "';';$$;$$", "(;)", "-- ;\n;/*;*/x", "/*+ a */b--c\n/*+d*/;/*+e*/f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		list, err := lex.Split(s)
		if err != nil {
			return
		}
		// Joined again, the statements split into the same ones.
		var parts []string
		for _, x := range list {
			if s[x.Offset:x.Offset+len(x.Text)] != x.Text {
				t.Fatalf("offset of %q", x.Text)
			}
			parts = append(parts, x.Text)
		}
		again, err := lex.Split(strings.Join(parts, "\n;\n"))
		if err != nil || len(again) != len(list) {
			t.Fatalf("%d statements became %d: %v", len(list), len(again), err)
		}
		for i := range again {
			if again[i].Text != list[i].Text || len(again[i].Tokens) != len(list[i].Tokens) {
				t.Errorf("%q became %q", list[i].Text, again[i].Text)
			}
		}
	})
}

func FuzzSplice(f *testing.F) {
	f.Add("SELECT a", 3, 2, "x", 5, 1, "", 4)
	f.Fuzz(func(t *testing.T, s string, a, n int, x string, b, m int, y string, at int) {
		clip := func(v, most int) int { return max(0, min(v, most)) }
		e1 := lex.Edit{Start: clip(a, len(s)), New: x}
		e1.End = e1.Start + clip(n, len(s)-e1.Start)
		e2 := lex.Edit{Start: clip(b, len(s)), New: y}
		e2.End = e2.Start + clip(m, len(s)-e2.Start)
		edits := []lex.Edit{e1, e2}
		made := lex.Splice(s, edits)
		at = clip(at, len(made))
		if old := lex.Origin(edits, at); old < 0 || old > len(s) {
			t.Errorf("byte %d of %q is %d of %q", at, made, old, s)
		}
	})
}

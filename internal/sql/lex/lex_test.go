package lex_test

import (
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/sql/lex"
)

func TestTokens(t *testing.T) {
	for in, want := range map[string]string{
		"SELECT a<->-1, b<#>'[1]'":                "SELECT a <-> - 1 , b <#> '[1]'",
		"x::vector(3) /* c /* d */ */ -- end\n+1": "x :: vector ( 3 ) + 1",
		`"a ""b""".c = E'it\'s' || $$ x; $$`:      `"a ""b""" . c = E'it\'s' || $$ x; $$`,
		"$1 $name ? $t$a$t$ 1e5 .5 0xff 1_000 1.": "$1 $name ? $t$a$t$ 1e5 .5 0xff 1_000 1.",
		"a>=b and c<>d and e->>'x' @> y":          "a >= b and c <> d and e ->> 'x' @> y",
		"héllo := 1; k => [1,{'a':2}]":            "héllo := 1 ; k => [ 1 , { 'a' : 2 } ]",
		"a*-b, a <= -1, x@-1":                     "a * - b , a <= - 1 , x @- 1",
	} {
		tokens, err := lex.Tokens(in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		var got []string
		for _, k := range tokens {
			got = append(got, k.Text)
			if in[k.Start:k.End] != k.Text {
				t.Errorf("%s: offsets of %q", in, k.Text)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s:\n got %s\nwant %s", in, strings.Join(got, " "), want)
		}
	}
}

func TestErrorsTellWhere(t *testing.T) {
	for in, want := range map[string]string{
		"SELECT 1,\n  'open":            "line 2, column 3",
		"SELECT \"open":                 "line 1, column 8",
		"é /* open":                     "line 1, column 3",
		"SELECT $$x":                    "line 1, column 8",
		"SELECT $ 1":                    "line 1, column 8",
		"SELECT \\":                     "line 1, column 8",
		strings.Repeat("(", 1000) + "1": "column 501",
		"a\x00b":                        "column 2",
		`SELECT ""`:                     "column 8",
	} {
		_, err := lex.Tokens(in)
		if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q gave %v, want %s", in, err, want)
		}
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

func TestValues(t *testing.T) {
	for in, want := range map[string]string{`'it''s'`: "it's", `E'a\nb\''`: "a\nb'", "$$x'y$$": "x'y", "$q$z$q$": "z", `"a""b"`: `a"b`, "abc": "abc"} {
		tokens, err := lex.Tokens(in)
		if err != nil || len(tokens) != 1 {
			t.Fatal(in, tokens, err)
		}
		got := tokens[0].Name()
		if tokens[0].Kind == lex.String {
			got = tokens[0].Value()
		}
		if got != want {
			t.Errorf("%s is %q, want %q", in, got, want)
		}
	}
}

func TestArgsAndSplice(t *testing.T) {
	text := "f(a, g(b, [1,2]), 'x,y') + h()"
	tokens, _ := lex.Tokens(text)
	args, end := lex.Args(tokens, 1)
	if len(args) != 3 || !tokens[end].Is(")") || tokens[end+1].Text != "+" {
		t.Errorf("%d arguments, end %d", len(args), end)
	}
	if none, _ := lex.Args(tokens, len(tokens)-2); len(none) != 0 {
		t.Errorf("h() has %d arguments", len(none))
	}
	if got := lex.Splice(text, []lex.Edit{{27, 28, "H"}, {0, 1, "F"}, {0, 0, "<"}}); got != "<F(a, g(b, [1,2]), 'x,y') + H()" && got != "F(a, g(b, [1,2]), 'x,y') + H()" {
		t.Error(got)
	}
}

func FuzzTokens(f *testing.F) {
	for _, s := range []string{"SELECT 'a' <-> $1; --x", "\"q\"\"\" $$a$$ E'\\''", "/*/**/*/ 1e+5.x::y"} {
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
		if _, err := lex.Split(s); err != nil {
			t.Error(err)
		}
	})
}

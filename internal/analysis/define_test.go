package analysis_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/errs"
)

// refusals are definitions that are not taken, each with its kind, a part of the message and a part of the hint.
var refusals = [][4]string{
	{"filters=lowercase", "invalid", "there is no tokenizer", "write tokenizer=NAME"},
	{"tokenizer=", "invalid", "a name is expected at byte 10", "write tokenizer=NAME"},
	{"tokenizer=standard filters=lowercase", "invalid", "the definition should end at byte 19", ""},
	{"tokenizer=standard, char_filter=html_strip", "invalid", "an analyzer has a tokenizer and filters, no char_filter", ""},
	{"tokenizer=standard, tokenizer=letter", "invalid", "tokenizer stands twice", ""},
	{"tokenizer=standard, filters=stop(a", "invalid", "a comma or a closing parenthesis is expected", ""},
	{"tokenizer=standard, filters=stop([a", "invalid", "a comma or a closing bracket is expected", ""},
	{`tokenizer=standard, filters=stop("a`, "invalid", "a text is not closed", ""},
	{"tokenizer=standard, filters=", "invalid", "a name is expected", ""},
	{"tokenizer=thai", "unsupported", "tokenizer thai: there is no such tokenizer", "standard, letter, lowercase, whitespace, keyword, pattern, ngram, edge_ngram, path_hierarchy, uax_url_email, code"},
	{"tokenizer=standard, filters=kstem", "unsupported", "filter kstem: there is no such filter", "apostrophe, arabic_normalization, asciifolding, cjk_bigram"},
	{"tokenizer=standard, filters=stemmer(klingon)", "unsupported", `filter stemmer: language "klingon" is not supported`, "arabic, bulgarian, czech"},
	{"tokenizer=standard, filters=stop(klingon)", "unsupported", `filter stop: there are no stop words of "klingon"`, "write a list, [a, b], or one of arabic"},
	{"tokenizer=standard, filters=elision(german)", "unsupported", "there are no articles of", "catalan, french, irish, italian"},
	{"tokenizer=standard, filters=stop(stopwords_path=x)", "unsupported", "filter stop: there is no parameter stopwords_path", "stopwords, ignore_case"},
	{"tokenizer=standard, filters=reverse(1)", "invalid", "there are more arguments than parameters", "it has no parameters"},
	{"tokenizer=standard, filters=length(1, 2, 3)", "invalid", "there are more arguments than parameters", "min, max"},
	{"tokenizer=standard, filters=length(min=1, min=2)", "invalid", "the parameter min stands twice", ""},
	{"tokenizer=standard, filters=length(min=[1, 2])", "invalid", "the parameter min has one value, not a list", ""},
	{"tokenizer=standard, filters=length(3, 2)", "invalid", "min 3 is more than max 2", ""},
	{"tokenizer=standard, filters=truncate(x)", "invalid", "length is a number from 1 to 1048576", ""},
	{"tokenizer=standard, filters=asciifolding(maybe)", "invalid", `preserve_original is true or false, not "maybe"`, ""},
	{"tokenizer=standard(max_token_length=1)", "invalid", "max_token_length is a number from 2 to 1048576", ""},
	{"tokenizer=standard, filters=lowercase(klingon)", "unsupported", `language "klingon" is not supported`, "none, greek, irish, turkish"},
	{"tokenizer=ngram(3, 2)", "invalid", "min_gram 3 is more than max_gram 2", ""},
	{"tokenizer=ngram(1, 33)", "invalid", "max_gram is less than 32 above min_gram, not 32", ""},
	{"tokenizer=ngram(1, 2, token_chars=[letters])", "unsupported", `token_chars "letters" is not supported`, "letter, digit, whitespace, punctuation, symbol"},
	{"tokenizer=ngram(1, 2, token_chars=[custom])", "invalid", "custom_token_chars belongs to custom", ""},
	{"tokenizer=ngram(200, 231)", "", "", ""},
	{"tokenizer=ngram(200, 231), filters=ngram(1, 2)", "invalid", "more than 10000 times as long", "fewer sizes"},
	{"tokenizer=standard, filters=shingle(2, 16)|shingle(2, 16)", "invalid", "more than 10000 times as long", "fewer sizes"},
	{"tokenizer=standard, filters=edge_ngram(1, 255)|edge_ngram(1, 255)", "invalid", "more than 10000 times as long", ""},
	{"tokenizer=standard, filters=shingle(3, 2)", "invalid", "min_shingle_size 3 is more than max_shingle_size 2", ""},
	{`tokenizer=pattern("(?=x)")`, "invalid", "invalid or unsupported Perl syntax", "RE2"},
	{`tokenizer=pattern("(a)\\1")`, "invalid", "invalid escape sequence", "RE2"},
	{`tokenizer=pattern("((a{100}){100}){10}")`, "invalid", "invalid repeat count", ""},
	{`tokenizer=pattern("(((a|b)(c|d)){30}){30}")`, "", "", ""},
	{`tokenizer=pattern("((ab|cd|ef|gh|ij|kl|mn|op|qr|st){31}){31}")`, "invalid", "pattern is too large", ""},
	{`tokenizer=pattern("a", group=1)`, "invalid", "the pattern has no group 1", ""},
	{`tokenizer=pattern("a", flags=COMMENTS)`, "unsupported", "the flag COMMENTS of a pattern is not supported", "CASE_INSENSITIVE"},
	{`tokenizer=path_hierarchy("ab")`, "invalid", `delimiter is one character, not "ab"`, ""},
	{"tokenizer=standard, filters=synonym", "invalid", "synonyms must be given", ""},
	{`tokenizer=standard, filters=synonym("a =>")`, "invalid", "a rule needs a phrase on each side", "write a, b"},
	{`tokenizer=standard, filters=synonym("a => b => c")`, "invalid", "a rule has one arrow at most", ""},
	{`tokenizer=standard, filters=synonym("--, b")`, "invalid", "leave no word of it", ""},
	{`tokenizer=standard, filters=stop([the])|synonym("the boss, chief")`, "invalid", "make more than a row of words of it", "behind the synonyms"},
	{`tokenizer=standard, filters=stop([the])|synonym("the boss, chief", lenient=true)`, "", "", ""},
	{"tokenizer=standard, filters=keyword_marker", "invalid", "either keywords or keywords_pattern must be given", ""},
	{"tokenizer=standard, filters=keyword_marker([a], keywords_pattern=b)", "invalid", "either keywords or keywords_pattern must be given", ""},
	{"tokenizer=standard, filters=stemmer_override(went)", "invalid", `a rule is word => stem, not "went"`, ""},
	{"tokenizer=standard, filters=icu_normalizer(nfkc_cf, decompose)", "invalid", "nfkc_cf has no decomposed form", ""},
	{"tokenizer=standard, filters=" + strings.Repeat("lowercase|", 32) + "lowercase", "invalid", "a chain has 32 filters at most, not 33", ""},
}

func TestRefusals(t *testing.T) {
	for _, r := range refusals {
		a, err := analysis.Find(r[0])
		if r[1] == "" {
			if err != nil {
				t.Errorf("%s: %v", r[0], err)
			}
			continue
		}
		if err == nil {
			t.Errorf("%s is taken as %s", r[0], a.Definition())
			continue
		}
		if errs.KindOf(err).String() != r[1] || !strings.Contains(err.Error(), r[2]) || !strings.Contains(errs.HintOf(err), r[3]) {
			t.Errorf("%s\n  %v: %v\n  hint %s", r[0], errs.KindOf(err), err, errs.HintOf(err))
		}
	}
	if _, err := analysis.Find("tokenizer=standard, filters=stop(\"" + strings.Repeat("x", 1<<20) + "\")"); !errs.Is(err, errs.Invalid) {
		t.Errorf("a definition of a megabyte: %v", err)
	}
	pairs := "a0"
	for i := range 500 {
		pairs += fmt.Sprintf(", a%d", i+1)
	}
	if _, err := analysis.Define(`tokenizer=standard, filters=synonym("` + pairs + `")`); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "200000 replacements") {
		t.Errorf("500 equivalent phrases: %.200v", err)
	}
}

// TestDefinitions: a definition in any form becomes the canonical one, which is taken again, and the fingerprint tells two
// analyzers apart.
func TestDefinitions(t *testing.T) {
	for _, c := range [][2]string{
		{"tokenizer=standard", "tokenizer=standard"},
		{" Tokenizer = Standard ( ) ,\n filters = LOWERCASE | Stop ( _English_ ) ", "tokenizer=standard, filters=lowercase|stop(stopwords=english)"},
		{"filters=stop, tokenizer=letter", "tokenizer=letter, filters=stop(stopwords=english)"},
		{"tokenizer=standard, filters=stop(a, b)", "tokenizer=standard, filters=stop(stopwords=[a, b])"},
		{"tokenizer=standard, filters=stop([])", "tokenizer=standard, filters=stop(stopwords=[])"},
		{"tokenizer=standard, filters=stop(_none_)", "tokenizer=standard, filters=stop(stopwords=none)"},
		{`tokenizer=standard, filters=stop(["a b", "c\"d", "é"], ignore_case=TRUE)`, `tokenizer=standard, filters=stop(stopwords=["a b", "c\"d", "é"], ignore_case=true)`},
		{"tokenizer=ngram(1, 02)", "tokenizer=ngram"},
		{"tokenizer=ngram(max_gram=3, min_gram=2)", "tokenizer=ngram(min_gram=2, max_gram=3)"},
		{`tokenizer=standard, filters=synonym("a,b => c")`, `tokenizer=standard, filters=synonym(synonyms="a,b => c")`},
		{`tokenizer=standard, filters=synonym("a, b", "c, d", expand=false)`, `tokenizer=standard, filters=synonym(synonyms=["a, b", "c, d"], expand=false)`},
		{`tokenizer=pattern("\\W+")`, "tokenizer=pattern"},
	} {
		a := find(t, c[0])
		if a.Definition() != c[1] || a.Name() != c[1] {
			t.Errorf("%s is %s, want %s", c[0], a.Definition(), c[1])
		}
		if b := find(t, a.Definition()); b.Definition() != a.Definition() || b.Fingerprint() != a.Fingerprint() {
			t.Errorf("%s is defined as %s", a.Definition(), b.Definition())
		}
	}
	fingerprints := map[string]string{}
	for _, a := range everything(t) {
		if other, twice := fingerprints[a.Fingerprint()]; twice && other != a.Definition() {
			t.Errorf("%s and %s have the fingerprint %s", a.Definition(), other, a.Fingerprint())
		}
		if len(a.Fingerprint()) > 520 {
			t.Errorf("%s has a fingerprint of %d bytes", a.Name(), len(a.Fingerprint()))
		}
		fingerprints[a.Fingerprint()] = a.Definition()
	}
	long := func(word string) *analysis.Analyzer {
		return find(t, `tokenizer=standard, filters=stop(["`+strings.Repeat("x", 1000)+word+`"])`)
	}
	if a, b := long("a"), long("b"); a.Fingerprint() == b.Fingerprint() || !strings.HasPrefix(a.Fingerprint(), "chain:sha256:") {
		t.Errorf("%s, %s", a.Fingerprint(), b.Fingerprint())
	}
}

// TestNamedAnalyzersAreTheirDefinitions compares each named analyzer with the one that its definition makes.
func TestNamedAnalyzersAreTheirDefinitions(t *testing.T) {
	const text = "The dogs' Tails didn't  3.14 L'avion, Übergrößen ΣΊΣΥΦΟΣ 東京タワー x@y.de fooBar \xff naïvely and the rest"
	for _, name := range analysis.Names() {
		a := find(t, name)
		b := find(t, a.Definition())
		if b.Definition() != a.Definition() {
			t.Errorf("%s: %s is not canonical, %s is", name, a.Definition(), b.Definition())
		}
		if got, want := tokens(b, text), tokens(a, text); got != want {
			t.Errorf("%s\n  by its definition %s\n            by name %s", name, got, want)
		}
	}
}

func TestSpecs(t *testing.T) {
	spec := analysis.Spec{Tokenizer: analysis.Component{Name: "standard"}, Filters: []analysis.Component{
		{Name: "stop", Args: []analysis.Arg{{Name: "stopwords", Values: []string{"x y", "z"}, List: true}}}, {Name: "reverse"}}}
	a, err := spec.Analyzer()
	if err != nil {
		t.Fatal(err)
	}
	if want := `tokenizer=standard, filters=stop(stopwords=["x y", z])|reverse`; a.Definition() != want || spec.String() != want {
		t.Errorf("%s, %s, want %s", a.Definition(), spec.String(), want)
	}
	if _, err := (analysis.Spec{}).Analyzer(); !errs.Is(err, errs.Unsupported) {
		t.Errorf("an empty spec: %v", err)
	}
	bad := analysis.Spec{Tokenizer: analysis.Component{Name: "standard"}, Filters: []analysis.Component{{Name: "length", Args: []analysis.Arg{{Name: "min"}}}}}
	if _, err := bad.Analyzer(); !errs.Is(err, errs.Invalid) {
		t.Errorf("an argument without a value: %v", err)
	}
}

package analysis

import (
	"regexp/syntax"
	"strconv"
	"unicode/utf8"
)

// The limits of n-grams, in characters.
const (
	maxGram     = 255
	maxGramSpan = 32 // sizes of one ngram
)

// maxWord is the longest word that a tokenizer may be told to leave whole, in UTF-16 units.
const maxWord = 1 << 20

// longest is the parameter that cuts words. A character of two units must fit.
var longest = number("max_token_length", maxToken, 2, maxWord)

// tokenizers are what a chain can begin with.
var tokenizers = []component{
	{name: "standard", revision: 2, params: []param{longest}, doc: "words by the rules of Unicode (UAX #29)",
		bind: func(a *arguments) stage {
			n := a.number("max_token_length")
			return stage{tokenizer: func() source { return &standardTokens{seg: segmenter{max: n}} }}
		}},
	{name: "letter", revision: 2, params: []param{longest}, doc: "runs of letters",
		bind: func(a *arguments) stage {
			n := a.number("max_token_length")
			return stage{tokenizer: func() source { return &runTokens{runs: runs{longest: n}, ascii: &asciiLetter, in: isLetter} }}
		}},
	{name: "lowercase", revision: 2, params: []param{longest}, doc: "`letter`, in lower case",
		bind: func(a *arguments) stage {
			n := a.number("max_token_length")
			return stage{tokenizer: func() source {
				return &mapping{in: &runTokens{runs: runs{longest: n}, ascii: &asciiLetter, in: isLetter}, mappers: []mapper{newLowering()}}
			}}
		}},
	{name: "whitespace", revision: 2, params: []param{longest}, doc: "runs of anything but white space",
		bind: func(a *arguments) stage {
			n := a.number("max_token_length")
			return stage{tokenizer: func() source { return &runTokens{runs: runs{longest: n}, ascii: &asciiNotSpace, in: isNotSpace} }}
		}},
	{name: "keyword", revision: 1, doc: "the whole text as one term",
		bind: func(*arguments) stage { return stage{tokenizer: func() source { return &wholeText{} }} }},
	{name: "pattern", revision: 1, params: []param{text("pattern", `\W+`), text("flags", ""), number("group", -1, -1, 99)},
		doc:  "what stands between the matches of an RE2 expression, or a group of each match",
		bind: bindPatternTokens},
	{name: "ngram", revision: 1, params: gramParams, doc: "all parts of some characters, of runs of the kinds in `token_chars`",
		bind: func(a *arguments) stage { return bindGramTokens(a, false) }},
	{name: "edge_ngram", revision: 1, params: gramParams, doc: "the beginnings of runs of the kinds in `token_chars`",
		bind: func(a *arguments) stage { return bindGramTokens(a, true) }},
	{name: "path_hierarchy", revision: 1, doc: "a path and the paths it lies in, at one position; none beyond 4096 bytes",
		params: []param{text("delimiter", "/"), text("replacement", ""), flag("reverse", false), number("skip", 0, 0, 1000)},
		bind:   bindPathTokens},
	{name: "uax_url_email", revision: 1, params: []param{longest}, doc: "`standard`, with URLs and e-mail addresses whole",
		bind: func(a *arguments) stage {
			n := a.number("max_token_length")
			return stage{tokenizer: func() source { return &urlTokens{seg: segmenter{max: n}} }}
		}},
	{name: "code", revision: 1, params: []param{flag("split", true), flag("split_on_numerics", true), longest},
		doc: "names in programs, in their parts: camelCase, HTTPServer, snake_case, kebab-case, v2; whole with `split=false`",
		bind: func(a *arguments) stage {
			split, digits, n := a.flag("split"), a.flag("split_on_numerics"), a.number("max_token_length")
			return stage{tokenizer: func() source {
				return &codeTokens{split: split, longest: n, splitter: splitter{onCase: true, onAcronym: true, onDigits: digits}}
			}}
		}},
}

func bindPatternTokens(a *arguments) stage {
	re, group := a.pattern("pattern", a.text("flags")), a.number("group")
	if re != nil && group > re.NumSubexp() {
		a.failf("the pattern has no group %d", group)
	}
	behind := true
	if re != nil {
		if tree, err := syntax.Parse(re.String(), syntax.Perl); err == nil {
			behind = looksBehind(tree)
		}
	}
	return stage{tokenizer: func() source { return &patternTokens{re: re, group: group, lookBehind: behind} }}
}

var gramParams = []param{number("min_gram", 1, 1, maxGram), number("max_gram", 2, 1, maxGram), list("token_chars"), text("custom_token_chars", "")}

// gramSizes reads min_gram and max_gram and tells how the text grows.
func gramSizes(a *arguments, edge bool) (least, most, growth int) {
	least, most = a.number("min_gram"), a.number("max_gram")
	switch {
	case least > most:
		a.failf("min_gram %d is more than max_gram %d", least, most)
	case edge:
		return least, most, (most + 1) / 2
	case most-least >= maxGramSpan:
		a.failf("max_gram is less than %d above min_gram, not %d", maxGramSpan, most-least)
	}
	return least, most, (least + most) * (most - least + 1) / 2
}

func bindGramTokens(a *arguments, edge bool) stage {
	least, most, growth := gramSizes(a, edge)
	values, _ := a.list("token_chars")
	custom := a.text("custom_token_chars")
	var named []string
	wantsCustom := false
	for _, v := range values {
		if v == "custom" {
			wantsCustom = true
		} else {
			named = append(named, v)
		}
	}
	if wantsCustom != (custom != "") {
		a.failf("custom_token_chars belongs to custom among token_chars")
	}
	if utf8.RuneCountInString(custom) > 100 {
		a.failf("custom_token_chars has 100 characters at most")
	}
	// The word custom is not a kind; the others are checked.
	kinds := &arguments{component: a.component, what: a.what, values: map[string]Arg{"token_chars": {Values: named}}}
	keep := kinds.words("token_chars", gramKinds)
	if a.err == nil {
		a.err = kinds.err
	}
	runes := []rune(custom)
	return stage{growth: growth, tokenizer: func() source {
		return &gramTokens{least: least, most: most, edge: edge, keep: keep, custom: runes}
	}}
}

func bindPathTokens(a *arguments) stage {
	delimiter := a.char("delimiter")
	replacement := delimiter
	if a.text("replacement") != "" {
		replacement = a.char("replacement")
	}
	reverse, skip := a.flag("reverse"), a.number("skip")
	return stage{growth: 16, tokenizer: func() source {
		return &pathTokens{delimiter: delimiter, replacement: replacement, reverse: reverse, skip: skip}
	}}
}

// quoted is a text as a message shows it.
func quoted(s string) string { return strconv.Quote(s) }

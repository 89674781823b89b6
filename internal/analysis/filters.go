package analysis

import (
	"regexp"
	"strings"

	"github.com/overlakedb/overlake/internal/analysis/fold"
	"github.com/overlakedb/overlake/internal/analysis/lexicon"
	"github.com/overlakedb/overlake/internal/analysis/stem"
	"github.com/overlakedb/overlake/internal/analysis/synonym"
	"github.com/overlakedb/overlake/internal/errs"
)

func newLowering() mapper { return &lowering{folding{fold: fold.Lowercase}} }

// folds makes a filter that replaces terms by a fold of theirs; one that keeps buffers is made for each chain.
func folds(f func() fold.Fold) func(*arguments) stage {
	return func(*arguments) stage { return stage{mapper: func() mapper { return &folding{fold: f()} }} }
}

// always gives a fold without buffers.
func always(f fold.Fold) func() fold.Fold { return func() fold.Fold { return f } }

// maps makes a filter without parameters.
func maps(m func() mapper) func(*arguments) stage {
	return func(*arguments) stage { return stage{mapper: m} }
}

var lowercaseLanguages = []string{"none", "greek", "irish", "turkish"}

// maxList is the largest number of words in a list of a filter.
const maxList = 100_000

// filters are what a tokenizer can be followed by.
var filters = []component{
	{name: "apostrophe", revision: 1, doc: "what stands before the first apostrophe", bind: maps(func() mapper { return cutting{} })},
	{name: "arabic_normalization", revision: 1, doc: "one form of each Arabic letter, no vowel marks", bind: folds(always(fold.Arabic))},
	{name: "asciifolding", revision: 1, params: []param{flag("preserve_original", false)}, doc: "é as e, ß as ss", bind: bindASCIIFolding},
	{name: "cjk_bigram", revision: 1, params: []param{list("ignored_scripts"), flag("output_unigrams", false)},
		doc: "Chinese, Japanese and Korean in pairs of characters", bind: bindBigrams},
	{name: "cjk_width", revision: 1, doc: "Ａ as A, ｶ as カ", bind: folds(always(fold.Width))},
	{name: "decimal_digit", revision: 1, doc: "digits of all scripts as 0 to 9", bind: folds(always(fold.Digits))},
	{name: "edge_ngram", revision: 1, params: []param{number("min_gram", 1, 1, maxGram), number("max_gram", 2, 1, maxGram), flag("preserve_original", false), word("side", "front", []string{"front", "back"})},
		doc: "beginnings of terms, or their ends", bind: func(a *arguments) stage { return bindGrams(a, true) }},
	{name: "elision", revision: 1, params: []param{list("articles"), flag("articles_case", false)},
		doc: "without articles that an apostrophe ties to a word; `elision(french)` has the list of a language", bind: bindElision},
	{name: "german_normalization", revision: 1, doc: "ä and ae as a, ß as ss", bind: folds(always(fold.German))},
	{name: "hindi_normalization", revision: 1, doc: "one form of each letter of Hindi", bind: folds(always(fold.Hindi))},
	{name: "icu_folding", revision: 1, doc: "without case, marks and forms of letters, in all scripts", bind: folds(fold.NewICU)},
	{name: "icu_normalizer", revision: 1, params: []param{word("name", "nfkc_cf", []string{"nfc", "nfkc", "nfkc_cf"}), word("mode", "compose", []string{"compose", "decompose"})},
		doc: "a normal form of Unicode", bind: bindNormalizer},
	{name: "indic_normalization", revision: 1, doc: "one code of each letter of the scripts of India", bind: folds(fold.NewIndic)},
	{name: "keep", revision: 1, params: []param{list("keep_words"), flag("keep_words_case", false)}, doc: "words of a list only", bind: bindKeep},
	{name: "keyword_marker", revision: 1, params: []param{list("keywords"), text("keywords_pattern", ""), flag("ignore_case", false)},
		doc: "words that the stemmers behind it leave alone", bind: bindMarker},
	{name: "keyword_repeat", revision: 1, doc: "every term twice, once protected from stemmers",
		bind: func(*arguments) stage {
			return stage{growth: 2, filter: func(in source) source { return &repeating{in: in} }}
		}},
	{name: "length", revision: 1, params: []param{number("min", 0, 0, maxWord), number("max", maxWord, 0, maxWord)}, doc: "terms of so many characters only",
		bind: func(a *arguments) stage {
			least, most := a.number("min"), a.number("max")
			if least > most {
				a.failf("min %d is more than max %d", least, most)
			}
			return stage{mapper: func() mapper { return &measuring{least: least, most: most} }}
		}},
	{name: "limit", revision: 1, params: []param{number("max_token_count", 1, 1, 1<<30)}, doc: "the first terms of a text",
		bind: func(a *arguments) stage {
			n := a.number("max_token_count")
			return stage{mapper: func() mapper { return &limiting{most: n} }}
		}},
	{name: "lowercase", revision: 1, params: []param{word("language", "none", lowercaseLanguages)}, doc: "lower case, also as in Turkish, Greek and Irish", bind: bindLowercase},
	{name: "ngram", revision: 1, params: []param{number("min_gram", 1, 1, maxGram), number("max_gram", 2, 1, maxGram), flag("preserve_original", false)},
		doc: "all parts of some characters", bind: func(a *arguments) stage { return bindGrams(a, false) }},
	{name: "persian_normalization", revision: 1, doc: "Persian letters as their Arabic forms", bind: folds(always(fold.Persian))},
	{name: "porter_stem", revision: 1, doc: "`stemmer(porter)`",
		bind: func(*arguments) stage {
			return stage{mapper: func() mapper { s, _ := stem.New("porter"); return &stemming{stem: s} }}
		}},
	{name: "remove_duplicates", revision: 1, doc: "no term twice at one position", bind: maps(func() mapper { return &distinct{samePosition: true} })},
	{name: "reverse", revision: 1, doc: "the characters from the last to the first", bind: maps(func() mapper { return &reversing{} })},
	{name: "scandinavian_folding", revision: 1, doc: "å and aa as a, ø as o", bind: folds(always(fold.Scandinavian))},
	{name: "shingle", revision: 1, params: []param{number("min_shingle_size", 2, 2, 16), number("max_shingle_size", 2, 2, 16), flag("output_unigrams", true),
		flag("output_unigrams_if_no_shingles", false), text("token_separator", " "), text("filler_token", "_")},
		doc: "runs of some terms as one", bind: bindShingles},
	{name: "snowball", revision: 1, params: []param{word("language", "english", stem.Languages())}, doc: "stems by Snowball's algorithm of a language",
		bind: func(a *arguments) stage {
			language := a.word("language")
			return stage{mapper: func() mapper { s, _ := stem.Snowball(language); return &stemming{stem: s} }}
		}},
	{name: "sorani_normalization", revision: 1, doc: "one form of each letter of Sorani Kurdish", bind: folds(always(fold.Sorani))},
	{name: "stemmer", revision: 1, params: []param{word("language", "english", append([]string{"possessive_english"}, stem.Names()...))}, doc: "stems by the usual algorithm of a language",
		bind: func(a *arguments) stage {
			language := a.word("language")
			if language == "possessive_english" {
				return stage{mapper: func() mapper { return possessive{} }}
			}
			return stage{mapper: func() mapper { s, _ := stem.New(language); return &stemming{stem: s} }}
		}},
	{name: "stemmer_override", revision: 1, params: []param{list("rules")}, doc: "stems given word by word, `\"went => go\"`; later stemmers leave them alone", bind: bindOverride},
	{name: "stop", revision: 1, params: []param{list("stopwords"), flag("ignore_case", false)}, doc: "without words of a list, or the frequent words of a language", bind: bindStop},
	{name: "synonym", revision: 1, params: synonymParams, doc: "words for other words, laid flat", bind: func(a *arguments) stage { return bindSynonyms(a, true) }},
	{name: "synonym_graph", revision: 1, params: synonymParams, doc: "words for other words, as a graph of positions", bind: func(a *arguments) stage { return bindSynonyms(a, false) }},
	{name: "trim", revision: 1, doc: "without white space at the ends", bind: maps(func() mapper { return trimming{} })},
	{name: "truncate", revision: 1, params: []param{number("length", 10, 1, maxWord)}, doc: "the first characters",
		bind: func(a *arguments) stage {
			n := a.number("length")
			return stage{mapper: func() mapper { return &truncating{chars: n} }}
		}},
	{name: "unique", revision: 1, params: []param{flag("only_on_same_position", false)}, doc: "no term twice in a text",
		bind: func(a *arguments) stage {
			same := a.flag("only_on_same_position")
			return stage{mapper: func() mapper { return &distinct{samePosition: same} }}
		}},
	{name: "uppercase", revision: 1, doc: "upper case", bind: folds(always(fold.Uppercase))},
	{name: "word_delimiter_graph", revision: 1, params: delimiterParams, doc: "parts of names and numbers, as a graph of positions", bind: bindDelimiter},
}

func bindASCIIFolding(a *arguments) stage {
	if a.flag("preserve_original") {
		return stage{growth: 2, filter: func(in source) source { return &foldingBoth{in: in, fold: fold.ASCII} }}
	}
	return stage{mapper: func() mapper { return &folding{fold: fold.ASCII} }}
}

func bindLowercase(a *arguments) stage {
	switch a.word("language") {
	case "greek":
		return stage{mapper: func() mapper { return &folding{fold: fold.Greek} }}
	case "irish":
		return stage{mapper: func() mapper { return &folding{fold: fold.Irish} }}
	case "turkish":
		return stage{mapper: func() mapper { return &folding{fold: fold.Turkish} }}
	}
	return stage{mapper: newLowering}
}

func bindNormalizer(a *arguments) stage {
	form := map[string]fold.Form{"nfc": fold.NFC, "nfkc": fold.NFKC, "nfkc_cf": fold.CaseFolded}[a.word("name")]
	if a.word("mode") == "decompose" {
		switch form {
		case fold.NFC:
			form = fold.NFD
		case fold.NFKC:
			form = fold.NFKD
		default:
			a.failf("nfkc_cf has no decomposed form")
		}
	}
	return stage{mapper: func() mapper { return &folding{fold: fold.NewNormal(form)} }}
}

func bindBigrams(a *arguments) stage {
	ignored, unigrams := a.words("ignored_scripts", scriptNames), a.flag("output_unigrams")
	return stage{growth: 3, filter: func(in source) source {
		return &bigrams{in: in, scripts: allScripts &^ ignored, unigrams: unigrams}
	}}
}

func bindGrams(a *arguments, edge bool) stage {
	least, most, growth := gramSizes(a, edge)
	preserve := a.flag("preserve_original")
	back := edge && a.word("side") == "back"
	return stage{growth: growth + 1, filter: func(in source) source {
		return &grams{in: in, least: least, most: most, edge: edge, back: back, preserve: preserve}
	}}
}

func bindShingles(a *arguments) stage {
	f := shingles{least: a.number("min_shingle_size"), most: a.number("max_shingle_size"), unigrams: a.flag("output_unigrams"),
		unigramsIfNone: a.flag("output_unigrams_if_no_shingles"), separator: a.text("token_separator"), filler: a.text("filler_token")}
	if f.least > f.most {
		a.failf("min_shingle_size %d is more than max_shingle_size %d", f.least, f.most)
	}
	if len(f.separator) > 64 || len(f.filler) > 64 {
		a.failf("token_separator and filler_token have 64 bytes at most")
	}
	return stage{growth: (f.least+f.most)*(f.most-f.least+1)/2 + 1 + (len(f.separator)+len(f.filler))/4, filter: func(in source) source {
		g := f
		g.in = in
		return &g
	}}
}

// languageList reads a list that may also be the name of a language, as french or _french_ or, for nothing, _none_.
func languageList(a *arguments, name, what string, find func(string) ([]string, bool), known []string) []string {
	values, isList := a.list(name)
	if len(values) > maxList {
		a.failf("%s has %d words at most", name, maxList)
		return nil
	}
	if isList || len(values) != 1 {
		return values
	}
	language := strings.ToLower(strings.Trim(values[0], "_"))
	if language == "none" {
		a.set(name, language)
		return nil
	}
	words, ok := find(language)
	if !ok && a.err == nil {
		a.err = errs.New(errs.Unsupported, opDefine, "there are no "+what+" of "+quoted(values[0]), errs.On(a.what+" "+a.component.name),
			errs.Hint("write a list, [a, b], or one of %s", strings.Join(known, ", ")))
	}
	a.set(name, language)
	return words
}

func bindStop(a *arguments) stage {
	if !a.given("stopwords") {
		a.values["stopwords"] = Arg{Name: "stopwords", Values: []string{"english"}}
	}
	words := languageList(a, "stopwords", "stop words", lexicon.StopWords, lexicon.Languages())
	set := newWordSet(words, a.flag("ignore_case"))
	return stage{mapper: func() mapper { return &stopping{set: set} }}
}

func bindKeep(a *arguments) stage {
	words, _ := a.list("keep_words")
	if len(words) == 0 || len(words) > maxList {
		a.failf("keep_words has 1 to %d words", maxList)
	}
	set := newWordSet(words, a.flag("keep_words_case"))
	return stage{mapper: func() mapper { return &stopping{set: set, keep: true} }}
}

func bindElision(a *arguments) stage {
	if !a.given("articles") {
		a.values["articles"] = Arg{Name: "articles", Values: []string{"french"}}
	}
	// The lists of languages disregard case, as those analyzers do.
	_, isList := a.list("articles")
	ignoreCase := a.flag("articles_case") || !isList
	words := languageList(a, "articles", "articles", lexicon.Articles, lexicon.WithArticles())
	set := newWordSet(words, ignoreCase)
	return stage{mapper: func() mapper { return &eliding{articles: set} }}
}

func bindMarker(a *arguments) stage {
	words, _ := a.list("keywords")
	if (len(words) > 0) == a.given("keywords_pattern") {
		a.failf("either keywords or keywords_pattern must be given")
	}
	if len(words) > maxList {
		a.failf("keywords has %d words at most", maxList)
	}
	ignoreCase := a.flag("ignore_case")
	if !a.given("keywords_pattern") {
		set := newWordSet(words, ignoreCase)
		return stage{mapper: func() mapper { return &marking{set: set} }}
	}
	flags := ""
	if ignoreCase {
		flags = "CASE_INSENSITIVE"
	}
	// The pattern matches the whole term, as in Java.
	re := a.pattern("keywords_pattern", flags)
	if re != nil {
		re = regexp.MustCompile(`\A(?:` + re.String() + `)\z`)
	}
	return stage{mapper: func() mapper { return &marking{pattern: re} }}
}

func bindOverride(a *arguments) stage {
	rules, _ := a.list("rules")
	to := map[string]string{}
	for _, r := range rules {
		from, stem, ok := strings.Cut(r, "=>")
		stem = strings.TrimSpace(stem)
		if !ok || stem == "" {
			a.failf("a rule is word => stem, not %s", quoted(r))
			break
		}
		for w := range strings.SplitSeq(from, ",") {
			if w = strings.TrimSpace(w); w == "" {
				a.failf("a rule is word => stem, not %s", quoted(r))
			} else if _, twice := to[w]; !twice {
				to[w] = stem
			}
		}
	}
	if len(to) == 0 || len(to) > maxList {
		a.failf("rules has 1 to %d words", maxList)
	}
	return stage{mapper: func() mapper { return &overriding{to: to} }}
}

var synonymParams = []param{list("synonyms"), flag("expand", true), flag("lenient", false)}

func bindSynonyms(a *arguments, flat bool) stage {
	lines, _ := a.list("synonyms")
	expand, lenient := a.flag("expand"), a.flag("lenient")
	if len(lines) == 0 {
		a.failf("synonyms must be given, as in synonym(\"a, b => c\")")
		return stage{}
	}
	set := &synonym.Set{}
	chain := a.before()
	for _, line := range lines {
		rules, err := synonym.Parse(line)
		if err != nil {
			if lenient {
				continue
			}
			a.keep(err)
			return stage{}
		}
		for _, r := range rules {
			if err := addRule(set, r, chain, expand, lenient); err != nil {
				a.keep(err)
				return stage{}
			}
		}
	}
	growth := set.Growth()
	return stage{growth: growth, filter: func(in source) source { return &synonyms{in: in, set: set, flat: flat} }}
}

// keep keeps the first failure.
func (a *arguments) keep(err error) {
	if a.err == nil {
		a.err = errs.With(err, errs.On(a.what+" "+a.component.name+": "+objectOf(err)))
	}
}

func objectOf(err error) string {
	text, _, _ := strings.Cut(err.Error(), ": ")
	return text
}

// addRule adds a rule to a set, its phrases analyzed by the chain.
func addRule(set *synonym.Set, r synonym.Rule, chain source, expand, lenient bool) error {
	analyze := func(phrases []string) (out [][]string, err error) {
		for _, p := range phrases {
			words, err := analyzePhrase(chain, p)
			if err != nil {
				if lenient {
					continue
				}
				return nil, err
			}
			out = append(out, words)
		}
		return out, nil
	}
	left, err := analyze(r.Left)
	if err != nil {
		return err
	}
	right, err := analyze(r.Right)
	if err != nil {
		return err
	}
	keep := false
	if !r.Arrow {
		if len(left) == 0 {
			return nil
		}
		right, keep = left, expand
		if !expand {
			right = left[:1]
		}
	}
	for i, from := range left {
		for j, to := range right {
			if keep && i == j {
				continue
			}
			if err := set.Add(from, to, keep); err != nil {
				return err
			}
		}
	}
	return nil
}

// analyzePhrase gives the terms of a phrase of a rule. They must stand one behind the other.
func analyzePhrase(chain source, phrase string) (words []string, err error) {
	var t token
	for chain.reset(phrase); chain.next(&t); {
		if t.inc != 1 || t.length > 1 || len(t.term) == 0 {
			return nil, errs.New(errs.Invalid, opDefine, "the tokenizer and the filters before make more than a row of words of it", errs.On(phrase),
				errs.Hint("put filters that remove or stack words behind the synonyms"))
		}
		words = append(words, string(t.term))
	}
	if len(words) == 0 {
		return nil, errs.New(errs.Invalid, opDefine, "the tokenizer and the filters before leave no word of it", errs.On(phrase))
	}
	return words, nil
}

var delimiterParams = []param{flag("generate_word_parts", true), flag("generate_number_parts", true), flag("catenate_words", false), flag("catenate_numbers", false),
	flag("catenate_all", false), flag("split_on_case_change", true), flag("split_on_acronyms", false), flag("split_on_numerics", true), flag("preserve_original", false),
	flag("stem_english_possessive", true), list("protected_words"), flag("adjust_offsets", true), flag("ignore_keywords", false)}

func bindDelimiter(a *arguments) stage {
	f := wordDelimiter{words: a.flag("generate_word_parts"), numbers: a.flag("generate_number_parts"), joinWords: a.flag("catenate_words"),
		joinNumbers: a.flag("catenate_numbers"), join: a.flag("catenate_all"), preserve: a.flag("preserve_original"),
		adjustOffsets: a.flag("adjust_offsets"), ignoreKeywords: a.flag("ignore_keywords"),
		splitter: splitter{onCase: a.flag("split_on_case_change"), onAcronym: a.flag("split_on_acronyms"), onDigits: a.flag("split_on_numerics"),
			possessive: a.flag("stem_english_possessive")}}
	words, _ := a.list("protected_words")
	if len(words) > maxList {
		a.failf("protected_words has %d words at most", maxList)
	}
	f.protected = make(map[string]bool, len(words))
	for _, w := range words {
		f.protected[w] = true
	}
	return stage{growth: 4, filter: func(in source) source {
		g := f
		g.in = in
		return &g
	}}
}

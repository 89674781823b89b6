package analysis

import "sync"

// named are the analyzers that are composed, as Lucene 8's analyzers of these names chain them, apart from code and url_email,
// which are ours. A language of Lucene's whose stemmer is neither Snowball's nor one of package stem's is not here.
var named = []struct{ name, definition string }{
	{"arabic", "tokenizer=standard, filters=lowercase|decimal_digit|stop(arabic)|arabic_normalization|stemmer(arabic)"},
	{"bulgarian", "tokenizer=standard, filters=lowercase|stop(bulgarian)|stemmer(bulgarian)"},
	{"cjk", "tokenizer=standard, filters=cjk_width|lowercase|cjk_bigram|stop(english)"},
	{"code", "tokenizer=code(split=false), filters=word_delimiter_graph(preserve_original=true, split_on_acronyms=true, stem_english_possessive=false)|lowercase"},
	{"czech", "tokenizer=standard, filters=lowercase|stop(czech)|stemmer(czech)"},
	{"danish", "tokenizer=standard, filters=lowercase|stop(danish)|stemmer(danish)"},
	{"dutch", `tokenizer=standard, filters=lowercase|stop(dutch)|stemmer_override("fiets => fiets", "bromfiets => bromfiets", "ei => eier", "kind => kinder")|stemmer(dutch)`},
	{"finnish", "tokenizer=standard, filters=lowercase|stop(finnish)|stemmer(finnish)"},
	{"french", "tokenizer=standard, filters=elision(french)|lowercase|stop(french)|stemmer(light_french)"},
	{"german", "tokenizer=standard, filters=lowercase|stop(german)|german_normalization|stemmer(light_german)"},
	{"hindi", "tokenizer=standard, filters=lowercase|decimal_digit|indic_normalization|hindi_normalization|stop(hindi)|stemmer(hindi)"},
	{"hungarian", "tokenizer=standard, filters=lowercase|stop(hungarian)|stemmer(hungarian)"},
	{"indonesian", "tokenizer=standard, filters=lowercase|stop(indonesian)|stemmer(indonesian)"},
	{"irish", "tokenizer=standard, filters=stop([h, n, t], ignore_case=true)|elision(irish)|lowercase(irish)|stop(irish)|stemmer(irish)"},
	{"italian", "tokenizer=standard, filters=elision(italian)|lowercase|stop(italian)|stemmer(light_italian)"},
	{"norwegian", "tokenizer=standard, filters=lowercase|stop(norwegian)|stemmer(norwegian)"},
	{"pattern", "tokenizer=pattern, filters=lowercase"},
	{"portuguese", "tokenizer=standard, filters=lowercase|stop(portuguese)|stemmer(light_portuguese)"},
	{"romanian", "tokenizer=standard, filters=lowercase|stop(romanian)|stemmer(romanian)"},
	{"russian", "tokenizer=standard, filters=lowercase|stop(russian)|stemmer(russian)"},
	{"sorani", "tokenizer=standard, filters=sorani_normalization|lowercase|decimal_digit|stop(sorani)|stemmer(sorani)"},
	{"spanish", "tokenizer=standard, filters=lowercase|stop(spanish)|stemmer(light_spanish)"},
	{"stop", "tokenizer=letter, filters=lowercase|stop(english)"},
	{"swedish", "tokenizer=standard, filters=lowercase|stop(swedish)|stemmer(swedish)"},
	{"turkish", "tokenizer=standard, filters=apostrophe|lowercase(turkish)|stop(turkish)|stemmer(turkish)"},
	{"url_email", "tokenizer=uax_url_email, filters=lowercase"},
}

// composedByName makes the named analyzers when one is asked for. The definitions are ours, and a test makes all of them.
var composedByName = sync.OnceValues(func() (map[string]*Analyzer, error) {
	out := map[string]*Analyzer{}
	for _, n := range named {
		a, err := Define(n.definition)
		if err != nil {
			return nil, err
		}
		a.name = n.name
		out[n.name] = a
	}
	return out, nil
})

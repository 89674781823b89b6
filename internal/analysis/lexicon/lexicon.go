// Package lexicon answers: which words of a language say nothing by themselves, and which articles cling to the next word?
//
// A stop word is a word so frequent that it tells no text from another. An article here is one that an apostrophe ties to
// its noun: l'avion. Both are in lower case and sorted. The lists are those of Lucene's analyzers, which took most of them
// from the Snowball project and from J. Savoy, as the module bleve carries them; the English one is Lucene's 33 words.
//
// L1 A list never changes while the fingerprints of the analyzers stay: the unit test holds a checksum of each.
package lexicon

import (
	"slices"
	"strings"
	"sync"

	"github.com/blevesearch/bleve/v2/analysis/lang/ar"
	"github.com/blevesearch/bleve/v2/analysis/lang/bg"
	"github.com/blevesearch/bleve/v2/analysis/lang/ca"
	"github.com/blevesearch/bleve/v2/analysis/lang/ckb"
	"github.com/blevesearch/bleve/v2/analysis/lang/cs"
	"github.com/blevesearch/bleve/v2/analysis/lang/da"
	"github.com/blevesearch/bleve/v2/analysis/lang/de"
	"github.com/blevesearch/bleve/v2/analysis/lang/el"
	"github.com/blevesearch/bleve/v2/analysis/lang/es"
	"github.com/blevesearch/bleve/v2/analysis/lang/eu"
	"github.com/blevesearch/bleve/v2/analysis/lang/fa"
	"github.com/blevesearch/bleve/v2/analysis/lang/fi"
	"github.com/blevesearch/bleve/v2/analysis/lang/fr"
	"github.com/blevesearch/bleve/v2/analysis/lang/ga"
	"github.com/blevesearch/bleve/v2/analysis/lang/gl"
	"github.com/blevesearch/bleve/v2/analysis/lang/hi"
	"github.com/blevesearch/bleve/v2/analysis/lang/hu"
	"github.com/blevesearch/bleve/v2/analysis/lang/hy"
	"github.com/blevesearch/bleve/v2/analysis/lang/id"
	"github.com/blevesearch/bleve/v2/analysis/lang/it"
	"github.com/blevesearch/bleve/v2/analysis/lang/nl"
	"github.com/blevesearch/bleve/v2/analysis/lang/no"
	"github.com/blevesearch/bleve/v2/analysis/lang/pt"
	"github.com/blevesearch/bleve/v2/analysis/lang/ro"
	"github.com/blevesearch/bleve/v2/analysis/lang/ru"
	"github.com/blevesearch/bleve/v2/analysis/lang/sv"
	"github.com/blevesearch/bleve/v2/analysis/lang/tr"
)

// lucene33 are the stop words of Lucene's EnglishAnalyzer, which are fewer than the Snowball project's.
const lucene33 = "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to was will with"

type language struct {
	name           string
	stop, articles func() []string
}

// list reads a list of words with comments behind # or |.
func list(text []byte) func() []string {
	return sync.OnceValue(func() []string {
		var out []string
		for line := range strings.Lines(string(text)) {
			if comment := strings.IndexAny(line, "#|"); comment >= 0 {
				line = line[:comment]
			}
			out = append(out, strings.Fields(line)...)
		}
		slices.Sort(out)
		return slices.Compact(out)
	})
}

var languages = []language{
	{name: "arabic", stop: list(ar.ArabicStopWords)},
	{name: "armenian", stop: list(hy.ArmenianStopWords)},
	{name: "basque", stop: list(eu.BasqueStopWords)},
	{name: "bulgarian", stop: list(bg.BulgarianStopWords)},
	{name: "catalan", stop: list(ca.CatalanStopWords), articles: list(ca.CatalanArticles)},
	{name: "czech", stop: list(cs.CzechStopWords)},
	{name: "danish", stop: list(da.DanishStopWords)},
	{name: "dutch", stop: list(nl.DutchStopWords)},
	{name: "english", stop: func() []string { return strings.Fields(lucene33) }},
	{name: "finnish", stop: list(fi.FinnishStopWords)},
	{name: "french", stop: list(fr.FrenchStopWords), articles: list(fr.FrenchArticles)},
	{name: "galician", stop: list(gl.GalicianStopWords)},
	{name: "german", stop: list(de.GermanStopWords)},
	{name: "greek", stop: list(el.GreekStopWords)},
	{name: "hindi", stop: list(hi.HindiStopWords)},
	{name: "hungarian", stop: list(hu.HungarianStopWords)},
	{name: "indonesian", stop: list(id.IndonesianStopWords)},
	{name: "irish", stop: list(ga.IrishStopWords), articles: list(ga.IrishArticles)},
	{name: "italian", stop: list(it.ItalianStopWords), articles: list(it.ItalianArticles)},
	{name: "norwegian", stop: list(no.NorwegianStopWords)},
	{name: "persian", stop: list(fa.PersianStopWords)},
	{name: "portuguese", stop: list(pt.PortugueseStopWords)},
	{name: "romanian", stop: list(ro.RomanianStopWords)},
	{name: "russian", stop: list(ru.RussianStopWords)},
	{name: "sorani", stop: list(ckb.SoraniStopWords)},
	{name: "spanish", stop: list(es.SpanishStopWords)},
	{name: "swedish", stop: list(sv.SwedishStopWords)},
	{name: "turkish", stop: list(tr.TurkishStopWords)},
}

// StopWords gives the stop words of a language, or false where there is no list. The caller does not change them.
func StopWords(name string) ([]string, bool) {
	for _, l := range languages {
		if l.name == name {
			return l.stop(), true
		}
	}
	return nil, false
}

// Articles gives the articles of a language that an apostrophe ties to the next word, without the apostrophe, or false
// where there is no list. The caller does not change them.
func Articles(name string) ([]string, bool) {
	for _, l := range languages {
		if l.name == name && l.articles != nil {
			return l.articles(), true
		}
	}
	return nil, false
}

// Languages lists the languages that have stop words, sorted.
func Languages() []string {
	out := make([]string, len(languages))
	for i, l := range languages {
		out[i] = l.name
	}
	return out
}

// WithArticles lists the languages that have articles, sorted.
func WithArticles() []string {
	var out []string
	for _, l := range languages {
		if l.articles != nil {
			out = append(out, l.name)
		}
	}
	return out
}

package search_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
)

// loadXQuAD reads a language of XQuAD: paragraphs, and questions of which each has one right paragraph.
func loadXQuAD(t testing.TB, lang string) *collection {
	t.Helper()
	c := newCollection()
	read := func(name string, each func(document)) {
		linesOf(t, func(line []byte) {
			var d document
			if err := json.Unmarshal(line, &d); err != nil {
				t.Fatal(err)
			}
			if d.Lang == lang {
				each(d)
			}
		}, "data", "xquad", name)
	}
	read("corpus.jsonl.gz", func(d document) { c.add(d.ID, d.Text, 70) })
	read("queries.jsonl.gz", func(d document) { c.queries, c.texts = append(c.queries, d.ID), append(c.texts, d.Text) })
	linesOf(t, func(line []byte) {
		f := strings.Split(string(line), "\t")
		if strings.HasPrefix(f[0], lang+"-") {
			c.judged[f[0]] = map[string]bool{f[1]: true}
		}
	}, "data", "xquad", "qrels.tsv.gz")
	return c
}

// TestXQuAD: every language with an analyzer for it is found as well as with the plain words of the reference, or, where those
// are not divided by spaces, as with pairs of characters.
func TestXQuAD(t *testing.T) {
	for _, x := range []struct {
		lang, analyzer string
		least          float64
	}{
		{"ar", "arabic", 0.8895},
		{"de", "german", 0.9152},
		{"el", "tokenizer=standard, filters=icu_folding|truncate(6)", 0.9096},
		{"en", "english", 0.9594},
		{"es", "spanish", 0.9485},
		{"hi", "tokenizer=standard, filters=icu_folding", 0.7792},
		{"ro", "romanian", 0.9199},
		{"ru", "russian", 0.8711},
		{"th", "tokenizer=standard, filters=lowercase|ngram(3, 3, preserve_original=true)", 0.9145},
		{"tr", "turkish", 0.8959},
		{"vi", "tokenizer=standard, filters=lowercase|shingle(2, 2)", 0.9593},
		{"zh", "tokenizer=standard, filters=cjk_width|lowercase|cjk_bigram(output_unigrams=true)", 0.9648},
	} {
		c := loadXQuAD(t, x.lang)
		if len(c.queries) != 1190 || len(c.judged) != 1190 {
			t.Fatalf("%s: %d questions, %d judged", x.lang, len(c.queries), len(c.judged))
		}
		got := c.ndcg(c.named(c.both(t, analyzer(t, x.analyzer), similarity.DefaultParams, 10, 7)))
		t.Logf("%s: nDCG@10 %.4f, %s", x.lang, got, x.analyzer)
		if got < x.least {
			t.Errorf("%s: nDCG@10 is %.4f, below %.4f", x.lang, got, x.least)
		}
	}
}

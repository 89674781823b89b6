package suggest

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/errs"
)

// PhraseOptions choose ways to write a text. The zero value is Elasticsearch's default, which each field names.
type PhraseOptions struct {
	Size       int     // ways: 5
	RealWord   float64 // how likely a word of the text that is in the dictionary is meant: 0.95
	Confidence float64 // a way must be likelier than this times the text itself: 1; less than 0: all ways
	MaxErrors  float64 // words that may be changed, below 1 a part of them: 1
	Discount   float64 // of stupid backoff, where two words never follow each other: 0.4
	Pre, Post  string  // around changed words in Highlighted

	// Candidates choose what a word may be; its Mode is Always where none is set.
	Candidates TermOptions
}

// Phrase is a way to write a text.
type Phrase struct {
	Text        string // words with blanks between
	Highlighted string // with Pre and Post around words that were changed
	Score       float64
}

// Phrases gives likelier ways to write a text. words is the field with single words; pairs one whose terms are two words with
// a blank between, as a shingle filter makes them, or nil, for words on their own.
//
// The score of a way is that of Elasticsearch's noisy channel: for each word, the logarithm of how near it is to what was
// written (RealWord for the word itself) times how likely it follows the word before, by stupid backoff (Brants et al. 2007).
func Phrases(ctx context.Context, words Dictionary, pairs *Dictionary, a *analysis.Analyzer, text string, o PhraseOptions) ([]Phrase, error) {
	o.Size, o.RealWord, o.MaxErrors, o.Discount = or(o.Size, 5), or(o.RealWord, 0.95), or(o.MaxErrors, 1), or(o.Discount, 0.4)
	o.Confidence = or(o.Confidence, 1)
	if o.Size < 0 || !(o.RealWord > 0 && o.RealWord <= 1) || !(o.MaxErrors > 0) || !(o.Discount > 0 && o.Discount <= 1) || math.IsNaN(o.Confidence) {
		return nil, errs.New(errs.Invalid, "suggest.phrase", "real_word_error_likelihood and discount lie between 0 and 1, size is not negative and max_errors is greater than 0")
	}
	if o.Candidates.Mode == "" {
		o.Candidates.Mode = Always
	}
	var written []string
	var s analysis.Stream
	for s.Reset(a, text); s.Next(); {
		written = append(written, string(s.Term))
	}
	if len(written) == 0 {
		return nil, nil
	}
	if len(written) > maxPhrase {
		return nil, errs.Newf(errs.Exhausted, "suggest.phrase", "the text has %d words, more than %d", len(written), maxPhrase)
	}
	n := &channel{ctx: ctx, o: o, words: words, pairs: pairs, all: float64(words.stats().SumTotalTermFreq), single: map[string]float64{}, double: map[string]float64{}}
	if err := n.candidates(written); err != nil {
		return nil, err
	}
	errors := int(o.MaxErrors)
	if o.MaxErrors < 1 {
		errors = int(math.Ceil(o.MaxErrors * float64(len(written))))
	}
	return n.search(written, errors)
}

// maxPhrase is the largest number of words of a text that is corrected: the work grows with it.
const maxPhrase = 100

// channel scores ways.
type channel struct {
	ctx   context.Context
	o     PhraseOptions
	words Dictionary
	pairs *Dictionary

	all    float64            // words in the field
	single map[string]float64 // how often a word stands there
	double map[string]float64 // how often two follow each other

	options [][]candidate
}

type candidate struct {
	text string
	near float64 // how near it is to the word that was written
	own  bool    // it is that word
}

// candidates finds what each word may be, and how often candidates stand alone and side by side.
func (n *channel) candidates(written []string) error {
	found, err := n.words.lookup(n.ctx, written)
	if err != nil {
		return err
	}
	var list []string
	for i, w := range written {
		own := candidate{text: w, near: n.o.RealWord, own: true}
		near, err := n.words.near(n.ctx, w, found[i].docs, n.o.Candidates)
		if err != nil {
			return err
		}
		options := []candidate{own}
		for _, c := range near {
			options = append(options, candidate{text: c.Text, near: c.Score})
		}
		for _, c := range options {
			list = append(list, c.text)
		}
		n.options = append(n.options, options)
	}
	slices.Sort(list)
	list = slices.Compact(list)
	if found, err = n.words.lookup(n.ctx, list); err != nil {
		return err
	}
	for i, w := range list {
		n.single[w] = float64(found[i].total)
	}
	if n.pairs == nil {
		return nil
	}
	list = list[:0]
	for i := 1; i < len(n.options); i++ {
		for _, before := range n.options[i-1] {
			for _, c := range n.options[i] {
				list = append(list, before.text+" "+c.text)
			}
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	if found, err = n.pairs.lookup(n.ctx, list); err != nil {
		return err
	}
	for i, w := range list {
		n.double[w] = float64(found[i].total)
	}
	return nil
}

// follows is the logarithm of how likely a candidate is meant behind a word; before is "" at the beginning.
func (n *channel) follows(before string, c candidate) float64 {
	p := (1 + n.single[c.text]) / max(n.all, 1)
	if before != "" && n.pairs != nil {
		if both := n.double[before+" "+c.text]; both > 0 {
			p = both / (n.single[before] + 1e-8)
		} else {
			p *= n.o.Discount
		}
	}
	return math.Log10(c.near * p)
}

// way is a beginning of the text, written in one way.
type way struct {
	words   []candidate
	score   float64
	changed int
}

// search keeps the best ways of each beginning: for every last word and number of changes, as many as are asked for.
func (n *channel) search(written []string, errors int) ([]Phrase, error) {
	ways := []way{{}}
	own := 0.0
	before := ""
	for i, options := range n.options {
		if err := n.ctx.Err(); err != nil {
			return nil, errs.Wrap(errs.Canceled, "suggest.phrase", err)
		}
		own += n.follows(before, options[0])
		before = written[i]
		type end struct {
			text    string
			changed int
		}
		kept := map[end]int{}
		var next []way
		for _, w := range ways {
			last := ""
			if i > 0 {
				last = w.words[i-1].text
			}
			for _, c := range options {
				changed := w.changed
				if !c.own {
					changed++
				}
				if changed <= errors {
					next = append(next, way{append(slices.Clone(w.words), c), w.score + n.follows(last, c), changed})
				}
			}
		}
		sortWays(next)
		ways = slices.DeleteFunc(next, func(w way) bool {
			e := end{w.words[i].text, w.changed}
			kept[e]++
			return kept[e] > n.o.Size
		})
	}
	var out []Phrase
	for _, w := range ways {
		if len(out) == n.o.Size {
			break
		}
		// Scores are probabilities again from here on.
		if n.o.Confidence >= 0 && (w.changed == 0 || math.Pow(10, w.score) <= n.o.Confidence*math.Pow(10, own)) {
			continue
		}
		p := Phrase{Score: math.Pow(10, w.score)}
		for i, c := range w.words {
			if i > 0 {
				p.Text += " "
				p.Highlighted += " "
			}
			p.Text += c.text
			if c.own {
				p.Highlighted += c.text
			} else {
				p.Highlighted += n.o.Pre + c.text + n.o.Post
			}
		}
		out = append(out, p)
	}
	return out, nil
}

func sortWays(ways []way) {
	slices.SortStableFunc(ways, func(a, b way) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.changed, b.changed), strings.Compare(a.text(), b.text()))
	})
}

func (w way) text() string {
	var b strings.Builder
	for _, c := range w.words {
		b.WriteString(c.text + " ")
	}
	return b.String()
}

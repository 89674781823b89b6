package query

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/primitive"
)

// read makes a graph of words: a/b are at one position, new+2 covers two, _ is a gap.
func read(text string) graph {
	var g graph
	at := 0
	for _, word := range strings.Fields(text) {
		for t := range strings.SplitSeq(word, "/") {
			term, n, long := strings.Cut(t, "+")
			length := 1
			if long {
				length, _ = strconv.Atoi(n)
			}
			if term != "_" {
				g = append(g, graphToken{term, at, length})
			}
		}
		at++
	}
	return g
}

// TestGraphs lowers texts whose analysis has synonyms of one and of several words.
func TestGraphs(t *testing.T) {
	a, err := analysis.Find("whitespace")
	if err != nil {
		t.Fatal(err)
	}
	s := &Schema{Fields: []Field{{Name: "f", Analyzer: a}, {Name: "n", Analyzer: a, NoPositions: true}}}
	for _, c := range []struct {
		text string
		n    func(text string) Node
		want string
	}{
		{"fast/quick fox", func(x string) Node { return Match{Field: "f", Text: x} }, "Synonym(f:fast f:quick) f:fox"},
		{"fast/quick fox", func(x string) Node { return Phrase{Field: "f", Text: x} }, `f:"(fast quick) fox"`},
		{"fast/quick fo/fa", func(x string) Node { return BoolPrefix{Field: "f", Text: x} }, "Synonym(f:fast f:quick) ConstantScore(f:fo* f:fa*)"},
		{"fast/quick fo/fa", func(x string) Node { return PhrasePrefix{Field: "f", Text: x} }, `f:"(fast quick) (fo* fa*)"`},
		{"big ny+2/new york pizza", func(x string) Node { return Match{Field: "f", Text: x} }, `f:big f:ny f:"new york" f:pizza`},
		{"big ny+2/new york pizza", func(x string) Node { return Match{Field: "f", Text: x, Options: MatchOptions{All: true}} }, `+f:big +(f:ny f:"new york") +f:pizza`},
		{"big ny+2/new york pizza", func(x string) Node { return Match{Field: "f", Text: x, Options: MatchOptions{MinimumShouldMatch: "2"}} }, `(f:big (f:ny f:"new york") f:pizza)~2`},
		{"big ny+2/new york pizza", func(x string) Node { return Phrase{Field: "f", Text: x, Slop: 1} }, `f:"big ny pizza"~1 f:"big new york pizza"~1`},
		{"ny+2/new york", func(x string) Node { return Match{Field: "f", Text: x} }, `f:ny f:"new york"`},
		{"wifi+3/wi/wireless+2 fi net", func(x string) Node { return Phrase{Field: "f", Text: x} }, `f:wifi f:"wi fi net" f:"wireless net"`},
		{"a _ b+2/c _ d", func(x string) Node { return Phrase{Field: "f", Text: x} }, `f:"a ? b d" f:"a ? c ? d"`},
		{"ny+2/new york pizza", func(x string) Node { return PhrasePrefix{Field: "f", Text: x} }, `f:"ny pizza*" f:"new york pizza*"`},
		{"ny+2/new york", func(x string) Node { return Match{Field: "n", Text: x} }, "unsupported"},
		{strings.Repeat("a+2/b c ", 11), func(x string) Node { return Phrase{Field: "f", Text: x} }, "exhausted"},
	} {
		l := &lowering{schema: s, cut: read}
		p, err := l.lower(c.n(c.text))
		got := ""
		if err != nil {
			got = fmt.Sprint(errs.KindOf(err))
		} else {
			got = primitive.Describe(primitive.Rewrite(p), s.Names())
		}
		if got != c.want {
			t.Errorf("%s is %s, want %s (%v)", c.text, got, c.want, err)
		}
	}
}

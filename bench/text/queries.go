package main

import (
	"bufio"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"github.com/overlakedb/overlake/internal/analysis"
)

// class is a kind of query.
type class struct {
	name    string
	kind    string  // what a worker calls it
	terms   int     // of a query; 0: 2 or 3
	bleve   float64 // how many times faster than bleve we want to be
	queries [][]string
}

func classes() []*class {
	return []*class{
		{name: "1 term", kind: "term", terms: 1, bleve: 20},
		{name: "OR of 2", kind: "or", terms: 2, bleve: 40},
		{name: "OR of 5", kind: "or", terms: 5, bleve: 100},
		{name: "AND of 2", kind: "and", terms: 2, bleve: 8},
		{name: "AND of 5", kind: "and", terms: 5, bleve: 20},
		{name: "phrase of 2 or 3", kind: "phrase", bleve: 15},
	}
}

// tokenize writes the tokens of the first texts of a file, a space between, a text a line, and gives them.
func tokenize(from, to string, limit int) (lines []string, tokens int, err error) {
	a, err := analysis.Find("standard")
	if err != nil {
		return nil, 0, err
	}
	in, err := os.Open(from)
	if err != nil {
		return nil, 0, err
	}
	defer in.Close()
	var s analysis.Stream
	var b strings.Builder
	sc := bufio.NewScanner(in)
	sc.Buffer(nil, 64<<20)
	for len(lines) < limit && sc.Scan() {
		b.Reset()
		for s.Reset(a, sc.Text()); s.Next(); tokens++ {
			if b.Len() > 0 {
				b.WriteByte(' ')
			}
			b.Write(s.Term)
		}
		lines = append(lines, b.String())
	}
	if err := sc.Err(); err != nil {
		return nil, 0, err
	}
	return lines, tokens, os.WriteFile(to, []byte(strings.Join(lines, "\n")+"\n"), 0o666)
}

// draw takes the terms of queries from texts: any terms of one text, or for a phrase some that follow one another.
func draw(cs []*class, lines []string, n int, seed uint64) {
	for i, c := range cs {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		for len(c.queries) < n {
			words := strings.Fields(lines[rng.IntN(len(lines))])
			want := c.terms
			if want == 0 {
				want = 2 + rng.IntN(2)
				if len(words) < want {
					continue
				}
				at := rng.IntN(len(words) - want + 1)
				c.queries = append(c.queries, words[at:at+want])
				continue
			}
			rng.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
			var terms []string
			for _, w := range words {
				if len(terms) < want && !slices.Contains(terms, w) {
					terms = append(terms, w)
				}
			}
			if len(terms) == want {
				c.queries = append(c.queries, terms)
			}
		}
	}
}

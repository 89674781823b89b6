package memory_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/memory"
	"github.com/overlakedb/overlake/internal/index/bm25/posting"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
)

func find(t testing.TB, name string) *analysis.Analyzer {
	t.Helper()
	a, err := analysis.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestAgainstAMap compares a source with a plain map of what stands where.
func TestAgainstAMap(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		analyzers := []*analysis.Analyzer{find(t, "whitespace"), find(t, "english")}
		keep := func(field int, term []byte) bool { return len(term)%2 == 1 }
		o := memory.Options{Analyzers: analyzers, Positions: seed%2 == 0}
		if seed%3 == 0 {
			o.Keep = keep
		}
		b := memory.NewBuilder(o)
		type at struct{ row, pos uint32 }
		model := []map[string][]at{{}, {}}
		stats := make([]posting.Stats, 2)
		lengths := make([][]byte, 2)
		rows := rng.IntN(60)
		for r := range rows {
			texts := make([]string, 2)
			for f := range texts {
				for range rng.IntN(20) {
					texts[f] += strings.Repeat(string(rune('a'+rng.IntN(4))), 1+rng.IntN(4)) + " "
				}
				var s analysis.Stream
				n := 0
				for s.Reset(analyzers[f], texts[f]); s.Next(); n++ {
					if o.Keep == nil || keep(f, s.Term) {
						model[f][string(s.Term)] = append(model[f][string(s.Term)], at{uint32(r), uint32(s.Position)})
					}
				}
				if n > 0 {
					stats[f].Docs++
					stats[f].SumTotalTermFreq += int64(n)
				}
				lengths[f] = append(lengths[f], similarity.EncodeLength(n))
			}
			if err := b.Add(texts...); err != nil {
				t.Fatal(err)
			}
		}
		s := b.Source()
		if s.Rows() != uint32(rows) {
			t.Fatalf("seed %d: %d rows, want %d", seed, s.Rows(), rows)
		}
		for f := range model {
			if got, err := s.Lengths(t.Context(), f); err != nil || !slices.Equal(got, lengths[f]) || s.Stats(f) != stats[f] {
				t.Fatalf("seed %d: lengths %v, want %v; stats %+v, want %+v; %v", seed, got, lengths[f], s.Stats(f), stats[f], err)
			}
			var terms, walked []string
			for term := range model[f] {
				terms = append(terms, term)
			}
			sort.Strings(terms)
			seek := rng.IntN(3) == 0
			var want []string
			for i, term := range terms {
				if !seek || i == 0 || want[len(want)-1]+"b" <= term {
					want = append(want, term)
				}
			}
			if err := s.Walk(t.Context(), f, nil, func(term []byte, _ posting.Term) ([]byte, bool) {
				walked = append(walked, string(term))
				if seek {
					return append(slices.Clone(term), 'b'), true
				}
				return nil, true
			}); err != nil || !slices.Equal(walked, want) {
				t.Fatalf("seed %d: walked %q, want %q, %v", seed, walked, want, err)
			}
			found, err := s.Lookup(t.Context(), f, [][]byte{[]byte("nowhere"), []byte("a")})
			if err != nil || found[0] != (posting.Term{}) {
				t.Fatalf("seed %d: %v %v", seed, found, err)
			}
			for _, term := range terms {
				found, err := s.Lookup(t.Context(), f, [][]byte{[]byte(term)})
				if err != nil || found[0].TotalFreq != int64(len(model[f][term])) {
					t.Fatalf("seed %d: %q is %+v, %v", seed, term, found, err)
				}
				c, err := s.Postings(t.Context(), f, found[0], o.Positions)
				if err != nil {
					t.Fatal(err)
				}
				var got []at
				docs := int64(0)
				for r := c.Next(); r != posting.End; r = c.Next() {
					docs++
					if !o.Positions {
						for range c.Freq() {
							got = append(got, at{row: r})
						}
						continue
					}
					for _, p := range c.Positions() {
						got = append(got, at{r, p})
					}
					if int(c.Freq()) != len(c.Positions()) || c.Row() != r {
						t.Fatalf("seed %d: %q has the frequency %d and %v", seed, term, c.Freq(), c.Positions())
					}
				}
				want := slices.Clone(model[f][term])
				if !o.Positions {
					for i := range want {
						want[i].pos = 0
					}
				}
				if !slices.Equal(got, want) || docs != found[0].DocFreq {
					t.Fatalf("seed %d: %q stands at %v, want %v", seed, term, got, want)
				}
				// Advance from anywhere to anywhere.
				c, _ = s.Postings(t.Context(), f, found[0], false)
				last := uint32(0)
				for target := uint32(0); target < uint32(rows)+2; target += uint32(rng.IntN(5)) {
					expect := posting.End
					for _, a := range want {
						if a.row >= max(target, last) && a.row < expect {
							expect = a.row
						}
					}
					if got := c.Advance(target); got != expect {
						t.Fatalf("seed %d: %q advances to %d: row %d, want %d", seed, term, target, got, expect)
					}
					if expect == posting.End {
						break
					}
					last = expect
				}
			}
		}
	}
}

func TestLimits(t *testing.T) {
	b := memory.NewBuilder(memory.Options{Analyzers: []*analysis.Analyzer{find(t, "standard")}, Limit: 4000})
	for i := 0; !b.Full(); i++ {
		if err := b.Add(fmt.Sprint("word", i)); err != nil || i > 100 {
			t.Fatalf("row %d, %d bytes: %v", i, b.Size(), err)
		}
	}
	if err := b.Add("a", "b"); !errs.Is(err, errs.Internal) {
		t.Errorf("a row of two texts: %v", err)
	}
	s := b.Source()
	found, err := s.Lookup(t.Context(), 0, [][]byte{[]byte("word0")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Postings(t.Context(), 0, found[0], true); !errs.Is(err, errs.Unsupported) {
		t.Errorf("positions that are not kept: %v", err)
	}
}

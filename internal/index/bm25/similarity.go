// Package bm25 answers: how well does a text match a query?
//
// This is the similarity of Lucene 8.7's LegacyBM25Similarity, which Elasticsearch 7 uses, to the last bit of float32: one
// byte for the length of a text, the factor k1+1, clause scores added in float64. The index format will live here too.
package bm25

import (
	"math"
	"math/bits"
	"strings"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/errs"
)

// Params are the free parameters.
type Params struct{ K1, B float64 }

// DefaultParams are Lucene's.
var DefaultParams = Params{K1: 1.2, B: 0.75}

// Check refuses parameters outside their meaning.
func (p Params) Check() error {
	if !(p.K1 >= 0) || math.IsInf(p.K1, 0) || !(p.B >= 0 && p.B <= 1) {
		return errs.New(errs.Invalid, "bm25.params", "k1 must not be negative and b must lie between 0 and 1")
	}
	return nil
}

// EncodeLength is the length byte (Lucene's SmallFloat.intToByte4): exact to 40, rounded down beyond.
func EncodeLength(n int) byte {
	if n < 24 {
		return byte(max(n, 0))
	}
	v := uint32(n - 24)
	if v < 16 {
		return byte(24 + v)
	}
	// A float with three bits of mantissa and an implied one; values below 16 are the subnormal ones.
	shift := bits.Len32(v) - 4
	return byte(24 + (uint32(shift+1)<<3 | v>>shift&7))
}

// DecodeLength is the length a byte stands for.
func DecodeLength(b byte) int {
	if b < 24 {
		return int(b)
	}
	e := uint32(b - 24)
	mantissa, shift := e&7, int(e>>3)-1
	if shift < 0 {
		return 24 + int(mantissa)
	}
	return 24 + int((mantissa|8)<<shift)
}

// Stats are the statistics of a text column over all rows of a table.
type Stats struct {
	Docs             int64            // rows that have the column
	SumTotalTermFreq int64            // terms in all of them
	DocFreq          map[string]int64 // rows that have a term, for the terms of the queries asked about
}

// Query is a parsed query: the distinct terms of its text, each with the number of times it stands there.
type Query struct {
	Terms  []string
	Counts []int
	All    bool // every term must match, else any
}

// ParseQuery analyzes the text of a query.
func ParseQuery(a *analysis.Analyzer, text string) Query {
	var q Query
	var s analysis.Scratch
	at := map[string]int{}
	a.Each(text, &s, func(t analysis.Token) {
		i, ok := at[string(t.Term)]
		if !ok {
			i = len(q.Terms)
			at[string(t.Term)] = i
			q.Terms = append(q.Terms, string(t.Term))
			q.Counts = append(q.Counts, 0)
		}
		q.Counts[i]++
	})
	return q
}

// Scorer scores texts for one query under fixed statistics. It is safe for concurrent use with one State a goroutine.
type Scorer struct {
	a       *analysis.Analyzer
	q       Query
	index   map[string]int
	weights []float32 // boost · (k1+1) · idf
	inv     [256]float32
}

// State holds the buffers of one goroutine.
type State struct {
	scratch analysis.Scratch
	freqs   []int32
}

// NewScorer prepares a query.
func NewScorer(a *analysis.Analyzer, q Query, st Stats, p Params) *Scorer {
	s := &Scorer{a: a, q: q, index: map[string]int{}, weights: make([]float32, len(q.Terms))}
	avgdl := float32(float64(st.SumTotalTermFreq) / float64(st.Docs))
	k1, b := float32(p.K1), float32(p.B)
	for i := range s.inv {
		s.inv[i] = 1 / (k1 * ((1 - b) + b*float32(DecodeLength(byte(i)))/avgdl))
	}
	for i, t := range q.Terms {
		s.index[t] = i
		n := float64(st.DocFreq[t])
		idf := float32(math.Log(1 + (float64(st.Docs)-n+0.5)/(n+0.5)))
		s.weights[i] = (k1 + 1) * idf
	}
	return s
}

// count fills the frequencies of the query's terms and returns the length of the text and how many terms it has.
func (s *Scorer) count(text string, st *State) (length, found int) {
	if cap(st.freqs) < len(s.q.Terms) {
		st.freqs = make([]int32, len(s.q.Terms))
	}
	st.freqs = st.freqs[:len(s.q.Terms)]
	clear(st.freqs)
	s.a.Each(text, &st.scratch, func(t analysis.Token) {
		length++
		if i, ok := s.index[string(t.Term)]; ok {
			if st.freqs[i] == 0 {
				found++
			}
			st.freqs[i]++
		}
	})
	return length, found
}

func (s *Scorer) matches(found int) bool {
	return found > 0 && (!s.q.All || found == len(s.q.Terms))
}

// Score is the score of a text: 0 when it does not match.
func (s *Scorer) Score(text string, st *State) float32 {
	length, found := s.count(text, st)
	if !s.matches(found) {
		return 0
	}
	return s.Of(st.freqs, EncodeLength(length))
}

// Of is the score for given frequencies of the query's terms and a length byte.
func (s *Scorer) Of(freqs []int32, length byte) float32 {
	inv := s.inv[length]
	var sum float64
	for i, f := range freqs {
		if f == 0 {
			continue
		}
		w := s.weights[i]
		one := w - w/(1+float32(f)*inv)
		for range s.q.Counts[i] {
			sum += float64(one)
		}
	}
	return float32(sum)
}

// Match reports whether a text matches.
func (s *Scorer) Match(text string, st *State) bool {
	_, found := s.count(text, st)
	return s.matches(found)
}

// ParseOperator reads the word for how terms combine: or (any, the default) or and (all).
func ParseOperator(word string) (all bool, err error) {
	switch strings.ToLower(word) {
	case "", "or", "any":
		return false, nil
	case "and", "all":
		return true, nil
	}
	return false, errs.New(errs.Invalid, "bm25.operator", "the operator of a query is or, or and", errs.On(word))
}

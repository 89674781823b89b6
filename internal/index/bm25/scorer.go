package bm25

import (
	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
)

// Scorer scores texts for one query under fixed statistics. It is immutable and safe for concurrent use with one State a
// goroutine.
type Scorer struct {
	a       *analysis.Analyzer
	q       Query
	index   TermIndex
	weights []float32 // boost · (k1+1) · idf
	repeat  []int     // how often a clause is added up
	inv     [256]float32
}

// State holds the buffers of one goroutine. The zero value is ready; reuse it, for a text then allocates nothing.
type State struct {
	stream analysis.Stream
	freqs  []int32
}

// NewScorer prepares a query. Parameters must pass Check.
//
// A repeated term weighs as many times as it stands in the query. Where any or all terms must match it is one clause with
// that boost, as Lucene rewrites it; where a minimum is set, its clauses stay apart.
func NewScorer(a *analysis.Analyzer, q Query, st Stats, p similarity.Params) *Scorer {
	s := &Scorer{a: a, q: q, weights: make([]float32, len(q.Terms)), repeat: make([]int, len(q.Terms)), inv: similarity.InverseNorms(p, similarity.AverageLength(st.Docs, st.SumTotalTermFreq))}
	for i, t := range q.Terms {
		s.index.Add(t)
		s.repeat[i] = 1
		boost := float32(q.Counts[i])
		if !q.All && q.Min > 1 {
			s.repeat[i], boost = q.Counts[i], 1
		}
		s.weights[i] = similarity.Weight(p, boost, similarity.IDF(st.Docs, st.DocFreq[t]))
	}
	return s
}

// Query is the query.
func (s *Scorer) Query() *Query { return &s.q }

// Clauses are what the terms of the query weigh: w of the similarity, how often the score of each is added, and inv.
func (s *Scorer) Clauses() (weights []float32, repeat []int, inv *[256]float32) {
	return s.weights, s.repeat, &s.inv
}

// count fills the frequencies of the query's terms and returns the length of the text.
func (s *Scorer) count(text string, st *State) (length int) {
	if cap(st.freqs) < len(s.q.Terms) {
		st.freqs = make([]int32, len(s.q.Terms))
	}
	st.freqs = st.freqs[:len(s.q.Terms)]
	clear(st.freqs)
	for st.stream.Reset(s.a, text); st.stream.Next(); {
		if st.stream.Increment > 0 { // what stands at the place of another term is no part of the length
			length++
		}
		if i := s.index.Find(st.stream.Term); i >= 0 {
			st.freqs[i]++
		}
	}
	return length
}

// Score is the score of a text: 0 when it does not match.
func (s *Scorer) Score(text string, st *State) float32 {
	score, _ := s.ScoreMatch(text, st)
	return score
}

// ScoreMatch is the score of a text and whether it matches.
func (s *Scorer) ScoreMatch(text string, st *State) (float32, bool) {
	length := s.count(text, st)
	if !s.q.Matches(st.freqs) {
		return 0, false
	}
	return s.Of(st.freqs, similarity.EncodeLength(length)), true
}

// Of is the score for given frequencies of the query's terms and a length byte.
func (s *Scorer) Of(freqs []int32, length byte) float32 {
	inv := s.inv[length]
	var sum float64
	for i, f := range freqs {
		if f == 0 {
			continue
		}
		one := float64(similarity.Score(s.weights[i], float32(f), inv))
		for range s.repeat[i] {
			sum += one
		}
	}
	return float32(sum)
}

// Match reports whether a text matches. It reads no further than it must, and needs no statistics.
func (s *Scorer) Match(text string, st *State) bool {
	if len(s.q.Terms) == 0 {
		return false
	}
	if cap(st.freqs) < len(s.q.Terms) {
		st.freqs = make([]int32, len(s.q.Terms))
	}
	st.freqs = st.freqs[:len(s.q.Terms)]
	clear(st.freqs)
	found, clauses := 0, 0
	for st.stream.Reset(s.a, text); st.stream.Next(); {
		i := s.index.Find(st.stream.Term)
		if i < 0 || st.freqs[i] > 0 {
			continue
		}
		st.freqs[i] = 1
		found++
		clauses += s.q.Counts[i]
		if s.q.enough(found, clauses) {
			return true
		}
	}
	return false
}

// TermIndex numbers terms in the order they are added. Most terms of a text are not in it, so it can say no by a few bits
// before it looks into its map. The zero value is empty.
type TermIndex struct {
	at   map[string]int32
	seen [4]uint64 // bit hash%256
}

func termBit(first, last byte, n int) uint {
	return (uint(first)*31 ^ uint(last)*17 ^ uint(n)*5) & 255
}

// Add gives a term its number, the old one if it has one.
func (x *TermIndex) Add(term string) int {
	if i, ok := x.at[term]; ok {
		return int(i)
	}
	if x.at == nil {
		x.at = map[string]int32{}
	}
	i := len(x.at)
	x.at[term] = int32(i)
	if n := len(term); n > 0 {
		bit := termBit(term[0], term[n-1], n)
		x.seen[bit>>6] |= 1 << (bit & 63)
	}
	return i
}

// Find is the number of a term, or -1.
func (x *TermIndex) Find(term []byte) int {
	n := len(term)
	if n == 0 {
		return -1
	}
	if bit := termBit(term[0], term[n-1], n); x.seen[bit>>6]>>(bit&63)&1 == 0 {
		return -1
	}
	if i, ok := x.at[string(term)]; ok {
		return int(i)
	}
	return -1
}

// Len is the number of terms.
func (x *TermIndex) Len() int { return len(x.at) }

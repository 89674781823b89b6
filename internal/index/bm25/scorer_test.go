package bm25_test

import (
	"testing"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/index/bm25"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
)

// TestGoldenScores are the two values that Elasticsearch's documentation publishes.
func TestGoldenScores(t *testing.T) {
	a, err := analysis.Find("standard")
	if err != nil {
		t.Fatal(err)
	}
	q := bm25.ParseQuery(a, "fox")
	one := bm25.NewScorer(a, q, bm25.Stats{Docs: 1, SumTotalTermFreq: 1, DocFreq: map[string]int64{"fox": 1}}, similarity.DefaultParams)
	if got := one.Score("Fox", &bm25.State{}); got != 0.2876821 {
		t.Errorf("one document: %v", got)
	}
	five := bm25.NewScorer(a, q, bm25.Stats{Docs: 5, SumTotalTermFreq: 27, DocFreq: map[string]int64{"fox": 1}}, similarity.DefaultParams)
	if got := five.Score("a fox runs", &bm25.State{}); got != 1.6943598 {
		t.Errorf("five documents: %v", got)
	}
	if five.Score("nothing here", &bm25.State{}) != 0 || five.Match("nothing", &bm25.State{}) {
		t.Error("a text without the term matches")
	}
}

func TestRepeatedAndRequiredTerms(t *testing.T) {
	a, _ := analysis.Find("standard")
	st := bm25.Stats{Docs: 10, SumTotalTermFreq: 50, DocFreq: map[string]int64{"a": 3, "b": 2}}
	once := bm25.NewScorer(a, bm25.ParseQuery(a, "a b"), st, similarity.DefaultParams)
	twice := bm25.NewScorer(a, bm25.ParseQuery(a, "a a b"), st, similarity.DefaultParams)
	only := bm25.NewScorer(a, bm25.ParseQuery(a, "a"), st, similarity.DefaultParams)
	s := &bm25.State{}
	if d := twice.Score("a b c", s) - once.Score("a b c", s) - only.Score("a b c", s); d > 1e-6 || d < -1e-6 {
		t.Error("a repeated term must count again")
	}
	q := bm25.ParseQuery(a, "a b")
	q.All = true
	all := bm25.NewScorer(a, q, st, similarity.DefaultParams)
	if all.Match("a c", s) || !all.Match("b a", s) || !once.Match("a c", s) {
		t.Error("operator and")
	}
}

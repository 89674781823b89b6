package bm25_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
)

func TestOptions(t *testing.T) {
	o, err := bm25.ParseOptions(" k1=0.9, b = 0.4,analyzer=english, operator=AND ,minimum_should_match=2<-25% 9<-3")
	if err != nil {
		t.Fatal(err)
	}
	a, q, p, err := o.Query("the running dogs run")
	if err != nil || a.Name() != "english" || p != (similarity.Params{K1: .9, B: .4}) || !q.All || q.Min != 0 || fmt.Sprint(q.Terms, q.Counts) != "[run dog] [2 1]" {
		t.Errorf("%v %+v %+v %v", a.Name(), q, p, err)
	}
	if a, q, p, err := (bm25.Options{}).Query("The dogs"); err != nil || a.Name() != "standard" || p != similarity.DefaultParams || q.All || fmt.Sprint(q.Terms) != "[the dogs]" {
		t.Errorf("%v %+v %+v %v", a, q, p, err)
	}
	for text, want := range map[string]string{
		"k1=-1": "k1 must not be negative", "b=2": "between 0 and 1", "b=x": "must be a number", "k1=NaN": "k1 must", "k1=Inf": "k1 must",
		"operator=xor": "or, or and", "analyzer=klingon": "no such analyzer", "boost=2": "no such option", "k1": "name=value",
		"minimum_should_match=half": "does not understand", "minimum_should_match=2<": "does not understand", "minimum_should_match=1<2<3": "does not understand",
		"minimum_should_match=5% 6%": "does not understand",
	} {
		if _, err := bm25.ParseOptions(text); err == nil || !strings.Contains(err.Error(), want) || errs.Is(err, errs.Internal) {
			t.Errorf("%s gave %v, want %s", text, err, want)
		}
	}
}

func TestMinimumShouldMatch(t *testing.T) {
	for _, c := range []struct {
		spec    string
		clauses int
		want    int
	}{
		{"2", 5, 2}, {"-1", 5, 4}, {"75%", 4, 3}, {"75%", 5, 3}, {"-25%", 4, 3}, {"-25%", 5, 4}, {"9", 3, 9}, {"-9", 3, 0}, {"0", 3, 0}, {"100%", 3, 3},
		{"3<90%", 3, 3}, {"3<90%", 10, 9}, {"2<-25% 9<-3", 2, 2}, {"2<-25% 9<-3", 5, 4}, {"2<-25% 9<-3", 9, 7}, {"2<-25% 9<-3", 12, 9}, {" 2 < -1 ", 4, 3}, {"2<50% 4 < 75%", 8, 6},
	} {
		words := make([]string, c.clauses)
		for i := range words {
			words[i] = fmt.Sprint("w", i)
		}
		_, q, _, err := bm25.Options{MinimumShouldMatch: c.spec}.Query(strings.Join(words, " "))
		if err != nil || q.Min != c.want {
			t.Errorf("%q of %d clauses is %d, %v, want %d", c.spec, c.clauses, q.Min, err, c.want)
		}
	}
	// A repeated term counts each time; a query of one clause matches whatever the minimum.
	match := func(query, minimum, text string) bool {
		a, q, p, err := bm25.Options{MinimumShouldMatch: minimum}.Query(query)
		if err != nil {
			t.Fatal(err)
		}
		s := bm25.NewScorer(a, q, bm25.Stats{}, p)
		var st bm25.State
		_, scored := s.ScoreMatch(text, &st)
		if m := s.Match(text, &st); m != scored {
			t.Errorf("%s in %s: Match says %t, ScoreMatch %t", query, text, m, scored)
		}
		return scored
	}
	if !match("a a b", "2", "a x") || match("a a b", "2", "b x") || !match("a", "2", "a") || match("a b", "3", "a b") || match("", "1", "a") {
		t.Error("minimum_should_match")
	}
}

// TestScorerAgainstTheFormula compares with the formula in float64, straight from the notes, over random texts.
func TestScorerAgainstTheFormula(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	a, _ := analysis.Find("standard")
	word := func() string { return fmt.Sprint("w", rng.IntN(12)) }
	var st bm25.State
	for range 2000 {
		text := strings.Repeat(word()+" ", rng.IntN(3))
		for range rng.IntN(90) {
			text += word() + " "
		}
		query := word() + " " + word() + " " + word()
		q := bm25.ParseQuery(a, query)
		q.All, q.Min = rng.IntN(3) == 0, rng.IntN(4)
		p := similarity.Params{K1: rng.Float64() * 3, B: rng.Float64()}
		stats := bm25.Stats{Docs: 1000, SumTotalTermFreq: 40000, DocFreq: map[string]int64{}}
		for _, term := range q.Terms {
			stats.DocFreq[term] = 1 + int64(rng.IntN(900))
		}
		got, matched := bm25.NewScorer(a, q, stats, p).ScoreMatch(text, &st)

		fields := strings.Fields(text)
		length := float64(similarity.DecodeLength(similarity.EncodeLength(len(fields))))
		want, found, clauses := 0.0, 0, 0
		for i, term := range q.Terms {
			freq := 0.0
			for _, f := range fields {
				if f == term {
					freq++
				}
			}
			if freq == 0 {
				continue
			}
			found++
			clauses += q.Counts[i]
			n := float64(stats.DocFreq[term])
			idf := math.Log(1 + (1000-n+.5)/(n+.5))
			want += float64(q.Counts[i]) * idf * (p.K1 + 1) * freq / (freq + p.K1*(1-p.B+p.B*length/40))
		}
		wantMatch := found > 0 && (q.All && found == len(q.Terms) || !q.All && clauses >= q.Min)
		if !wantMatch {
			want = 0
		}
		if matched != wantMatch || math.Abs(float64(got)-want) > 1e-5*max(1, want) {
			t.Fatalf("%q in %q, %+v %+v: %v %t, want %v %t", query, text, q, p, got, matched, want, wantMatch)
		}
	}
}

func TestScoringDoesNotAllocate(t *testing.T) {
	a, _ := analysis.Find("english")
	s := bm25.NewScorer(a, bm25.ParseQuery(a, "quick brown foxes"), bm25.Stats{Docs: 3, SumTotalTermFreq: 9}, similarity.DefaultParams)
	var st bm25.State
	run := func() { s.Score("the quick brown foxes jumped over the lazy dogs", &st); s.Match("a fox", &st) }
	for range 100 {
		run()
	}
	if n := testing.AllocsPerRun(20, run); n > 0 {
		t.Errorf("%v allocations a row", n)
	}
}

func TestMergeStats(t *testing.T) {
	var s bm25.Stats
	s.Merge(bm25.Stats{Docs: 2, SumTotalTermFreq: 5, DocFreq: map[string]int64{"a": 1}})
	s.Merge(bm25.Stats{Docs: 1, SumTotalTermFreq: 4, DocFreq: map[string]int64{"a": 1, "b": 1}})
	if s.Docs != 3 || s.SumTotalTermFreq != 9 || s.DocFreq["a"] != 2 || s.DocFreq["b"] != 1 {
		t.Errorf("%+v", s)
	}
}

func FuzzOptions(f *testing.F) {
	f.Add("k1=1.5,b=0,operator=and", "a b c")
	f.Add("minimum_should_match=2<-25% 9<-3", "a b c d")
	f.Fuzz(func(t *testing.T, options, text string) {
		o, err := bm25.ParseOptions(options)
		if err != nil {
			return
		}
		a, q, p, err := o.Query(text)
		if err != nil {
			t.Fatalf("%q was accepted, but %v", options, err)
		}
		var st bm25.State
		s := bm25.NewScorer(a, q, bm25.Stats{Docs: 1, SumTotalTermFreq: 1}, p)
		if score, matched := s.ScoreMatch(text, &st); score < 0 || matched != s.Match(text, &st) {
			t.Fatalf("%q %q: %v %t", options, text, score, matched)
		}
	})
}

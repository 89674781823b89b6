package textcall

import (
	"context"
	"sync"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/index/bm25"
	"github.com/overlakedb/overlake/internal/index/bm25/highlight"
	"github.com/overlakedb/overlake/internal/index/bm25/memory"
	"github.com/overlakedb/overlake/internal/index/bm25/rank"
)

// Ready is a query that can be asked of texts. It is safe for concurrent use.
type Ready struct {
	scorer *bm25.Scorer // of words

	plan  *rank.Plan // of everything else
	query *rank.Query
	a     *analysis.Analyzer
	keeps sync.Pool // of functions that Plan.Keep gave

	marks  func() (*highlight.Highlighter, error) // of highlight, which has nothing else
	marker sync.Pool
}

// ReadyWords is a query of words under statistics.
func (f *Form) ReadyWords(st bm25.Stats) *Ready {
	return &Ready{scorer: bm25.NewScorer(f.Analyzer, f.Words, st, f.Params)}
}

// ReadyForm is a query with a Plan, as the plan was bound.
func (f *Form) ReadyForm(q *rank.Query) *Ready {
	return &Ready{plan: f.Plan, query: q, a: f.Analyzer}
}

// Scorer is that of a query of words; nil of others.
func (r *Ready) Scorer() *bm25.Scorer { return r.scorer }

// Query is that of a query that is not of words; nil of words.
func (r *Ready) Query() *rank.Query { return r.query }

// textBytes is the memory for the postings of some texts of a batch, about.
const textBytes = 16 << 20

// wait is after how many texts it is asked whether anybody waits.
const wait = 16

// ask gives the score of each text and whether it matches, in any order. scored tells that the score is wanted.
func (r *Ready) ask(n int, text func(i int) string, scored bool, ended func() error, yield func(i int, score float32, matches bool)) error {
	if r.scorer != nil {
		return r.askWords(n, text, scored, ended, yield)
	}
	keep, _ := r.keeps.Get().(func(int, []byte) bool)
	if keep == nil {
		keep = r.plan.Keep()
	}
	defer r.keeps.Put(keep)
	o := memory.Options{Analyzers: []*analysis.Analyzer{r.a}, Keep: keep, Positions: r.plan.Positions(), Limit: textBytes}
	for first := 0; first < n; {
		b := memory.NewBuilder(o)
		i := first
		for ; i < n && !b.Full(); i++ {
			if i%wait == 0 {
				if err := ended(); err != nil {
					return err
				}
			}
			if err := b.Add(text(i)); err != nil {
				return err
			}
		}
		top := rank.NewTop(i-first, -1)
		err := r.query.Collect(context.Background(), rank.Segment{Source: b.Source()}, rank.Options{}, top)
		if err != nil {
			return err
		}
		for k := first; k < i; k++ {
			yield(k, 0, false)
		}
		for _, h := range top.Result().Hits {
			yield(first+int(h.Row), h.Score, true)
		}
		first = i
	}
	return nil
}

func (r *Ready) askWords(n int, text func(i int) string, scored bool, ended func() error, yield func(i int, score float32, matches bool)) error {
	var st bm25.State
	for i := range n {
		if i%wait == 0 {
			if err := ended(); err != nil {
				return err
			}
		}
		if !scored {
			yield(i, 0, r.scorer.Match(text(i), &st))
			continue
		}
		score, matches := r.scorer.ScoreMatch(text(i), &st)
		yield(i, score, matches)
	}
	return nil
}

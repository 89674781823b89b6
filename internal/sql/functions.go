package sql

import (
	"errors"
	"fmt"

	"github.com/overlakedb/overlake/internal/engine"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25"
)

// The functions that score texts take the number of a scorer, which rewriting puts there.
const (
	scoreFunction = "overlake_bm25"
	matchFunction = "overlake_match"
)

func (e *Env) registerText() error {
	find := func(id int64) (*bm25.Scorer, error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if s := e.scorers[id]; s != nil {
			return s, nil
		}
		return nil, errs.New(errs.NotFound, "sql.text", fmt.Sprintf("there is no text query %d", id))
	}
	start := func(use func(s *bm25.Scorer, st *bm25.State, i int, text string, out *engine.Output)) func() func(i int, a []engine.Column, out *engine.Output) error {
		return func() func(i int, a []engine.Column, out *engine.Output) error {
			var st bm25.State
			var s *bm25.Scorer
			return func(i int, a []engine.Column, out *engine.Output) error {
				if s == nil {
					var err error
					if s, err = find(a[0].Int64(i)); err != nil {
						return err
					}
				}
				use(s, &st, i, a[1].Text(i), out)
				return nil
			}
		}
	}
	args := []engine.Type{engine.Int64, engine.Text}
	return errors.Join(
		e.engine.RegisterScalar(engine.Scalar{Name: scoreFunction, Args: args, Returns: engine.Float32,
			Start: start(func(s *bm25.Scorer, st *bm25.State, i int, text string, out *engine.Output) {
				out.Float32(i, s.Score(text, st))
			})}),
		e.engine.RegisterScalar(engine.Scalar{Name: matchFunction, Args: args, Returns: engine.Bool,
			Start: start(func(s *bm25.Scorer, st *bm25.State, i int, text string, out *engine.Output) {
				out.Bool(i, s.Match(text, st))
			})}))
}

// addScorer keeps a scorer while a statement runs.
func (q *statement) addScorer(s *bm25.Scorer) int64 {
	q.slow = true
	e := q.s.env
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last++
	id := e.last
	e.scorers[id] = s
	q.release = append(q.release, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.scorers, id)
	})
	return id
}

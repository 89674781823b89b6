package textcall

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/engine"
	"github.com/overlakedb/overlake/internal/errs"
)

// The names of the engine's functions. They take the number of a query, which rewriting puts there, and a text;
// AnalyzeFunction takes the name of an analyzer and a text.
const (
	ScoreFunction     = "overlake_bm25"
	MatchFunction     = "overlake_match"
	HighlightFunction = "overlake_highlight"
	AnalyzeFunction   = "overlake_analyze"
)

// Queries are those of statements that run now. The zero value is empty; it is safe for concurrent use.
type Queries struct {
	mu   sync.Mutex
	all  map[int64]*Ready
	last int64
}

// Add keeps a query until forget is called; id is its number.
func (q *Queries) Add(r *Ready) (id int64, forget func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.all == nil {
		q.all = map[int64]*Ready{}
	}
	q.last++
	id = q.last
	q.all[id] = r
	return id, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.all, id)
	}
}

func (q *Queries) find(id int64) (*Ready, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r := q.all[id]; r != nil {
		return r, nil
	}
	return nil, errs.New(errs.NotFound, op, fmt.Sprintf("there is no text query %d", id))
}

// Register makes the functions known to the engine.
func (q *Queries) Register(db *engine.DB) error {
	args := []engine.Type{engine.Int64, engine.Text}
	asks := func(name string, returns engine.Type, out func(o *engine.Output, i int, score float32, matches bool)) error {
		return db.RegisterScalar(engine.Scalar{Name: name, Args: args, Returns: returns, Batch: func(rows []int, a []engine.Column, o *engine.Output, ended func() error) error {
			r, err := q.find(a[0].Int64(rows[0]))
			if err != nil {
				return err
			}
			return r.ask(len(rows), func(i int) string { return a[1].Text(rows[i]) }, returns == engine.Float32, ended, func(i int, score float32, matches bool) { out(o, rows[i], score, matches) })
		}})
	}
	return errors.Join(
		asks(ScoreFunction, engine.Float32, func(o *engine.Output, i int, score float32, _ bool) { o.Float32(i, score) }),
		asks(MatchFunction, engine.Bool, func(o *engine.Output, i int, _ float32, matches bool) { o.Bool(i, matches) }),
		db.RegisterScalar(engine.Scalar{Name: HighlightFunction, Args: args, Returns: engine.Text, Row: func(i int, a []engine.Column, o *engine.Output) error {
			r, err := q.find(a[0].Int64(i))
			if err != nil {
				return err
			}
			text, ok, err := r.highlight(a[1].Text(i))
			if !ok {
				o.Null(i)
				return err
			}
			o.Text(i, text)
			return nil
		}}),
		db.RegisterScalar(engine.Scalar{Name: AnalyzeFunction, Args: []engine.Type{engine.Text, engine.Text}, Returns: engine.Text, Row: func(i int, a []engine.Column, o *engine.Output) error {
			list, err := analyze(a[0].Text(i), a[1].Text(i))
			if err != nil {
				return err
			}
			o.Text(i, list)
			return nil
		}}))
}

// AnalyzeShape is the shape of what AnalyzeFunction gives, as from_json takes it.
const AnalyzeShape = `[{"term":"VARCHAR","position":"BIGINT","position_length":"BIGINT","start":"BIGINT","end":"BIGINT"}]`

// token is a row of analyze.
type token struct {
	Term   string `json:"term"`
	At     int    `json:"position"`
	Length int    `json:"position_length"`
	Start  int    `json:"start"` // bytes
	End    int    `json:"end"`
}

// most bounds the bytes of the terms of one text that analyze gives.
const most = 64 << 20

// analyze is the list of the tokens of a text, as JSON.
func analyze(name, text string) (string, error) {
	a, err := analysis.Find(name)
	if err != nil {
		return "", err
	}
	list, size := []token{}, 0
	var s analysis.Stream
	for s.Reset(a, text); s.Next(); {
		if size += len(s.Term) + 64; size > most {
			return "", errs.Newf(errs.Exhausted, op, "the terms of a text take more than %d bytes", most)
		}
		list = append(list, token{string(s.Term), s.Position, s.PositionLength, s.Start, s.End})
	}
	out, err := json.Marshal(list)
	return string(out), err
}

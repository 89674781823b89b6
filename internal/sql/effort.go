package sql

import (
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/engine"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/search"
	"github.com/overlakedb/overlake/internal/sql/lex"
	"github.com/overlakedb/overlake/internal/sql/macro"
	"github.com/overlakedb/overlake/internal/sql/tree"
)

// A stability tells what a call of a function has the same value for, when its arguments are the same.
type stability uint8

const (
	ofEachCall stability = iota // for nothing
	ofQuery                     // in one query
	ofAll
)

// stabilityOf is that of a function that makes one value of each row; false for other functions.
func (q *statement) stabilityOf(name string) (stability, bool) {
	q.scalar(name)
	q.s.env.mu.Lock()
	defer q.s.env.mu.Unlock()
	s, known := q.s.env.scalars[strings.ToLower(name)]
	return s, known
}

// scalar tells whether a function of the engine is known to make one value of each row.
func (q *statement) scalar(name string) bool {
	e := q.s.env
	e.mu.Lock()
	known := e.scalars
	e.mu.Unlock()
	if known == nil {
		rows, err := e.engine.Query(q.ctx, `SELECT function_name, CAST(min(CASE stability WHEN 'CONSISTENT' THEN 2 WHEN 'CONSISTENT_WITHIN_QUERY' THEN 1 ELSE 0 END) FILTER (function_type = 'scalar') AS BIGINT) FROM duckdb_functions()
			GROUP BY 1 HAVING bool_or(function_type = 'scalar') AND bool_and(function_type IN ('scalar', 'table', 'pragma'))`)
		if err != nil {
			return false
		}
		defer rows.Close()
		known = map[string]stability{"bm25": ofAll, "match": ofAll, "highlight": ofAll}
		for rows.Next() {
			names, ok := rows.Record().Column(0).(*array.String)
			steady, isNumber := rows.Record().Column(1).(*array.Int64)
			if !ok || !isNumber {
				return false
			}
			for i := range names.Len() {
				known[strings.Clone(names.Value(i))] = stability(steady.Value(i))
			}
		}
		if rows.Err() != nil {
			return false
		}
		e.mu.Lock()
		e.scalars = known
		e.mu.Unlock()
	}
	_, ok := known[strings.ToLower(name)]
	return ok
}

func registerEffort(db *engine.DB) error {
	return db.RegisterScalar(engine.Scalar{Name: macro.EffortFunction, Args: []engine.Type{engine.Text}, Returns: engine.Bool,
		Row: func(i int, _ []engine.Column, out *engine.Output) error { out.Bool(i, true); return nil }})
}

// isEffort reads a condition that is none but says how much a search does.
func isEffort(n node, e *search.Effort) bool {
	args := tree.List(n, "children")
	if tree.Str(n, "class") != "FUNCTION" || tree.Str(n, "function_name") != macro.EffortFunction || len(args) != 1 {
		return false
	}
	arg, _ := args[0].(node)
	q := &statement{}
	s, _ := q.constant(arg).(string)
	for _, part := range strings.Fields(s) {
		name, value, _ := strings.Cut(part, "=")
		e.Set(name, value)
	}
	return true
}

// effort is what the settings and a hint say about searches.
func (q *statement) effort() (e search.Effort, err error) {
	for setting, name := range map[string]string{"hnsw.ef_search": "ef_search", "ivfflat.probes": "probes", "vector.rerank": "rerank", "vector.exact": "exact"} {
		v, err := q.s.setting(setting)
		if err != nil {
			return e, err
		}
		if v != "" {
			e.Set(name, v)
		}
	}
	if _, err := q.hint(); err != nil {
		return e, err
	}
	for name, value := range q.hintedEffort {
		e.Set(name, value)
	}
	return e, nil
}

// nearestHint reads the parts of a hint that say how much a search does.
func (q *statement) nearestHint(at int, name, inside string) (bool, error) {
	name = strings.ToLower(name)
	set := func(name, value string) error {
		if err := new(search.Effort).Set(name, value); err != nil {
			return errs.Wrap(errs.Invalid, "sql.hint", lex.At(q.text, at, err.Error()), errs.Hint("%s", errs.HintOf(err)))
		}
		if q.hintedEffort == nil {
			q.hintedEffort = map[string]string{}
		}
		q.hintedEffort[name] = value
		return nil
	}
	switch {
	case name == "exact" && inside == "":
		return true, set("exact", "true")
	case name == "index_hint":
		for _, part := range strings.Split(inside, ",") {
			k, v, ok := strings.Cut(part, "=")
			if !ok {
				return true, lex.Errorf(q.text, at, "INDEX_HINT takes name = value, not %q", strings.TrimSpace(part))
			}
			if err := set(strings.ToLower(strings.TrimSpace(k)), strings.ToLower(strings.TrimSpace(v))); err != nil {
				return true, err
			}
		}
		return true, nil
	case slices.Contains(search.EffortNames, name):
		return true, set(name, strings.TrimSpace(inside))
	}
	return false, nil
}

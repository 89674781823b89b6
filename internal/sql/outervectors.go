package sql

import (
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/index/vector"
	"github.com/overlakedb/overlake/internal/sql/lex"
	"github.com/overlakedb/overlake/internal/sql/nearest"
	"github.com/overlakedb/overlake/internal/sql/tree"
)

// The vector to search for may be a column of an outer query: FROM q, LATERAL (SELECT … FROM t ORDER BY t.v <-> q.v LIMIT 3).
// The engine is asked for the vectors that the column has, before the statement runs, and the index for the rows that are near
// to one of them. These take the table's place: for each row of the outer query its own nearest rows are among them, and the
// engine finds out which.

// mostOuter bounds the vectors of an outer query; with more of them the table is scanned.
const mostOuter = 1000

// outerVectors are those of a column of the outer query, for a column of the form; nil when the expression is no such column, or
// when its vectors are not known to be few.
func (r *resolver) outerVectors(col node, s *source, sc *scope, form vector.Form) (*nearest.Values, error) {
	names := tree.List(col, "column_names")
	out := sc.outer
	if out == nil || len(names) == 0 || len(names) > 2 {
		return nil, nil
	}
	name, _ := names[len(names)-1].(string)
	table, _ := names[0].(string)
	has := func(o *source) bool {
		if len(names) == 2 {
			return strings.EqualFold(o.name, table)
		}
		return o.mayHave(name)
	}
	if slices.ContainsFunc(sc.sources, has) || !slices.ContainsFunc(out.sources, has) || r.q.restless(out.node["from_table"]) {
		return nil, nil
	}
	from, at, ok := r.outerFrom(s)
	if !ok {
		return nil, nil
	}
	with, ok := r.asideWith(at, out, from)
	if !ok {
		return nil, nil
	}
	// What WHERE says of the tables of the outer query leaves fewer vectors.
	where := ""
	for _, o := range out.sources {
		if o.base == nil || !prunable(out.node, o, out) || len(tree.List(o.node, "column_name_alias")) > 0 {
			continue
		}
		if e, _ := pushdown(r.q, tree.Child(out.node, "where_clause"), o, out, true); e != nil {
			if text := predicateSQL(e, o.name); text != "" {
				where += " AND " + text
			}
		}
	}
	c := lex.QuoteIdent(name)
	if len(names) == 2 {
		c = lex.QuoteIdent(table) + "." + c
	}
	value := "x"
	if form != vector.Dense {
		value = "CAST(x AS VARCHAR)"
	}
	rows, done, err := r.q.ask(with+"SELECT "+value+", typeof(x) FROM (SELECT DISTINCT "+c+" AS x "+from+" WHERE true"+where+") LIMIT "+strconv.Itoa(mostOuter+1), nil)
	if rows == nil || err != nil {
		return nil, err
	}
	defer done()
	v := &nearest.Values{}
	for rows.Next() {
		rec := rows.Record()
		kind, _ := rec.Column(1).(*array.String)
		if kind == nil {
			return nil, nil
		}
		for i := range int(rec.NumRows()) {
			if rec.Column(0).IsNull(i) {
				v.Nulls = true
				continue
			}
			v.Type = strings.Clone(kind.Value(i))
			q, _ := valueAside(rec.Column(0), i, v.Type, form)
			if q == nil || len(v.Queries) == mostOuter {
				return nil, nil
			}
			v.Queries = append(v.Queries, *q)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, canceled(err)
	}
	return v, nil
}

// outerFrom is the FROM clause of the query around the SELECT that reads a table, as far as it stands before that SELECT where
// this is a part of it, and its place in the text.
func (r *resolver) outerFrom(s *source) (text string, at int, ok bool) {
	k := r.token(tree.Location(s.node))
	if k < 0 {
		return "", 0, false
	}
	open := r.around(k)
	for open >= 0 && !(open+1 < len(r.tokens) && queryWord(r.tokens[open+1]) && !r.tokens[open+1].Is("(")) {
		open = r.around(open) // brackets around tables
	}
	if open < 1 {
		return "", 0, false
	}
	clause := r.clause(open - 1)
	if clause < 0 {
		return "", 0, false
	}
	if r.tokens[clause].Is("FROM") {
		end := open
		for end > clause+1 && (r.tokens[end-1].Is(",") || joinWord(r.tokens[end-1])) {
			end--
		}
		if end == clause+1 || end == open {
			return "", 0, false // in the condition of a join
		}
		return r.text[r.tokens[clause].Start:r.tokens[end-1].End], r.tokens[clause].Start, true
	}
	from := -1
	if r.tokens[clause].Is("SELECT") {
		for i := lex.Close(r.tokens, open) + 1; i > 0 && i < len(r.tokens); i++ {
			t := r.tokens[i]
			if t.Is("(") || t.Is("[") || t.Is("{") {
				if i = lex.Close(r.tokens, i); i < 0 {
					break
				}
				continue
			}
			if t.Is(")") || t.Is(";") || t.Is("UNION") || t.Is("INTERSECT") || t.Is("EXCEPT") {
				break
			}
			if t.Is("FROM") && !r.tokens[i-1].Is("DISTINCT") && !r.tokens[i-1].Is(".") {
				from = i
				break
			}
		}
	} else {
		for from = r.clause(clause - 1); from >= 0 && !r.tokens[from].Is("FROM") && !r.tokens[from].Is("SELECT"); {
			from = r.clause(from - 1)
		}
	}
	if from < 0 || !r.tokens[from].Is("FROM") {
		return "", 0, false
	}
	end := from + 1
	for ; end < len(r.tokens); end++ {
		t := r.tokens[end]
		if t.Is("(") || t.Is("[") || t.Is("{") {
			if end = lex.Close(r.tokens, end); end < 0 {
				return "", 0, false
			}
			continue
		}
		if t.Is(")") || t.Is(";") || clauseWord(t) || t.Is("UNION") || t.Is("INTERSECT") || t.Is("EXCEPT") || t.Is("LIMIT") || t.Is("OFFSET") || t.Is("FETCH") || t.Is("WINDOW") {
			break
		}
	}
	return r.text[r.tokens[from].Start:r.tokens[end-1].End], r.tokens[from].Start, true
}

// around is the bracket that a word stands in; -1 for none.
func (r *resolver) around(k int) int {
	depth := 0
	for k--; k >= 0; k-- {
		switch t := r.tokens[k]; {
		case t.Is(")") || t.Is("]") || t.Is("}"):
			depth++
		case t.Is("(") || t.Is("[") || t.Is("{"):
			if depth == 0 {
				return k
			}
			depth--
		}
	}
	return -1
}

// clause is the word that begins the clause of a query that a word stands in, through brackets of expressions; -1 for none.
func (r *resolver) clause(k int) int {
	depth := 0
	for ; k >= 0; k-- {
		switch t := r.tokens[k]; {
		case t.Is(")") || t.Is("]") || t.Is("}"):
			depth++
		case t.Is("(") || t.Is("[") || t.Is("{"):
			depth = max(depth-1, 0)
		case depth == 0 && clauseWord(t) && !(k > 0 && (r.tokens[k-1].Is(".") || t.Is("FROM") && r.tokens[k-1].Is("DISTINCT"))):
			return k
		}
	}
	return -1
}

// clauseWord tells the words that begin the clauses of a SELECT, up to ORDER.
func clauseWord(t lex.Token) bool {
	return t.Is("SELECT") || t.Is("FROM") || t.Is("WHERE") || t.Is("GROUP") || t.Is("HAVING") || t.Is("QUALIFY") || t.Is("ORDER")
}

// joinWord tells the words that stand between two tables of a FROM clause.
func joinWord(t lex.Token) bool {
	return t.Is("JOIN") || t.Is("INNER") || t.Is("LEFT") || t.Is("RIGHT") || t.Is("FULL") || t.Is("OUTER") || t.Is("CROSS") || t.Is("NATURAL") || t.Is("LATERAL")
}

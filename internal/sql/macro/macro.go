// Package macro answers: which SELECT does a search function mean?
//
// The search functions are written in SQL: each becomes the SELECT that it means, and that SELECT is then rewritten like
// any other. So they have no behaviour of their own.
//
//	vector_search(table, column, vector, k [, metric => 'l2'] [, filter => '…'] [, ef_search, probes, rerank, exact])
//	                                                                                        columns of the table, distance
//	bm25_search(table, column, query, k [, filter => '…'] [, bm25 options])                  columns of the table, score
//	hybrid_search(table, text column, query, vector column, vector, k [, metric, filter, rrf_k, depth, bm25 options])
//	analyze(analyzer, text)                              term, position, position_length, start and end (bytes) of each term
//	rrf(rank, rank … [, k => 60] [, depth => 1000])     Σ 1/(k + position), each rank a distance or a bm25(…)
//	max_sim(vectors, query)                             Σ over the vectors of the query of the largest inner product
package macro

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/search"
	"github.com/overlakedb/overlake/internal/sql/coltype"
	"github.com/overlakedb/overlake/internal/sql/lex"
	"github.com/overlakedb/overlake/internal/sql/textcall"
)

// EffortFunction carries the effort that vector_search was called with, as a condition that is true.
const EffortFunction = "overlake_effort"

// Expand finds a search function in a text and the SELECT that it means, as an edit of the text. Others may be left in
// what comes out.
func Expand(text string, tokens []lex.Token) (lex.Edit, bool, error) {
	// The last one first, so that inner calls are expanded before what holds them.
	for i := len(tokens) - 2; i >= 0; i-- {
		if tokens[i].Kind != lex.Word || !tokens[i+1].Is("(") || i > 0 && tokens[i-1].Is(".") {
			continue
		}
		expand := macros[strings.ToLower(tokens[i].Text)]
		if expand == nil {
			continue
		}
		list, end := lex.Args(tokens, i+1)
		if end < 0 {
			continue
		}
		a, err := newCall(text, tokens[i], list)
		if err != nil {
			return lex.Edit{}, false, err
		}
		sql, err := expand(a)
		if err == nil && len(a.named) > 0 {
			for name := range a.named {
				err = a.errorf("%s has no argument %s", a.name, name)
			}
		}
		return lex.Edit{Start: tokens[i].Start, End: tokens[end].End, New: sql}, true, err
	}
	return lex.Edit{}, false, nil
}

var macros map[string]func(*call) (string, error)

func init() {
	macros = map[string]func(*call) (string, error){
		"vector_search": vectorSearch, "bm25_search": bm25Search, "hybrid_search": hybridSearch, "rrf": reciprocalRank, "analyze": analyze, "max_sim": maxSim,
	}
}

// call is the arguments of a search function as text. Its methods give "" once one of them has failed, and err tells why.
type call struct {
	text       string
	at         lex.Token
	name       string
	positional [][]lex.Token
	named      map[string][]lex.Token
	err        error
}

func newCall(text string, at lex.Token, list [][]lex.Token) (*call, error) {
	c := &call{text: text, at: at, name: strings.ToLower(at.Text), named: map[string][]lex.Token{}}
	for _, a := range list {
		if len(a) > 2 && a[0].IsIdent() && (a[1].Text == "=>" || a[1].Text == ":=") {
			c.named[strings.ToLower(a[0].Name())] = a[2:]
			continue
		}
		if len(c.named) > 0 {
			return nil, c.errorf("arguments by position come before those by name")
		}
		if len(a) == 0 {
			return nil, c.errorf("an argument of %s is missing", c.name)
		}
		c.positional = append(c.positional, a)
	}
	return c, nil
}

func (c *call) errorf(format string, args ...any) error {
	return lex.Errorf(c.text, c.at.Start, format, args...)
}

// fail keeps the first failure.
func (c *call) fail(format string, args ...any) string {
	if c.err == nil {
		c.err = c.errorf(format, args...)
	}
	return ""
}

// want puts the arguments in their order, whether they came by position or by name.
func (c *call) want(names ...string) {
	if len(c.positional) > len(names) {
		c.fail("%s takes %d arguments: %s", c.name, len(names), strings.Join(names, ", "))
		return
	}
	for _, n := range names[len(c.positional):] {
		a, ok := c.named[n]
		if !ok {
			c.fail("%s needs %s", c.name, n)
			c.err = errs.With(c.err, errs.Hint("write %s(%s)", c.name, strings.Join(names, ", ")))
			return
		}
		c.positional = append(c.positional, a)
		delete(c.named, n)
	}
}

// expr is an argument as an expression.
func (c *call) expr(i int) string {
	if c.err != nil {
		return ""
	}
	a := c.positional[i]
	return c.text[a[0].Start:a[len(a)-1].End]
}

// names is an argument that names something: 'schema.table', "table" or schema.table.
func (c *call) names(i int) string {
	if c.err != nil {
		return ""
	}
	a := c.positional[i]
	var parts []string
	if len(a) == 1 && a[0].Kind == lex.String {
		inner, err := lex.Tokens(a[0].Value())
		if err != nil {
			return c.fail("%s: argument %d: %v", c.name, i+1, err)
		}
		a = inner
	}
	for k, t := range a {
		if k%2 == 1 && t.Is(".") {
			continue
		}
		if k%2 == 1 || !t.IsIdent() {
			return c.fail("%s: argument %d must be a name, as a string or an identifier", c.name, i+1)
		}
		parts = append(parts, lex.QuoteIdent(t.Name()))
	}
	if len(parts) == 0 {
		return c.fail("%s: argument %d is an empty name", c.name, i+1)
	}
	return strings.Join(parts, ".")
}

// option takes a named argument as text, "" when it is absent.
func (c *call) option(name string) string {
	a, ok := c.named[name]
	if !ok {
		return ""
	}
	delete(c.named, name)
	return c.text[a[0].Start:a[len(a)-1].End]
}

// filter takes the filter option: SQL in a string.
func (c *call) filter() string {
	a, ok := c.named["filter"]
	if !ok {
		return ""
	}
	delete(c.named, "filter")
	if len(a) != 1 || a[0].Kind != lex.String {
		return c.fail("%s: filter must be a SQL condition in a string", c.name)
	}
	text := a[0].Value()
	tokens, err := lex.Tokens(text)
	if err != nil {
		return c.fail("%s: the filter: %v", c.name, err)
	}
	depth := 0
	for _, t := range tokens {
		switch {
		case t.Is("("):
			depth++
		case t.Is(")"):
			depth--
		}
		if depth < 0 || t.Is(";") {
			return c.fail("%s: the filter is no single condition", c.name)
		}
	}
	if depth != 0 || len(tokens) == 0 {
		return c.fail("%s: the filter is no single condition", c.name)
	}
	return " AND (" + text + "\n)"
}

var metrics = map[string]string{"l2": "<->", "euclidean": "<->", "cosine": "<=>", "ip": "<#>", "inner_product": "<#>", "dot": "<#>", "l1": "<+>",
	"hamming": "<~>", "jaccard": "<%>"}

// metric takes the metric option as an operator; l2 is the default.
func (c *call) metric() string {
	a, ok := c.named["metric"]
	if !ok {
		return "<->"
	}
	delete(c.named, "metric")
	op := ""
	if len(a) == 1 && a[0].Kind == lex.String {
		op = metrics[strings.ToLower(a[0].Value())]
	}
	if op == "" && c.err == nil {
		c.err = errs.With(c.errorf("%s: unknown metric", c.name), errs.Hint("use 'l2', 'cosine', 'ip' or 'l1', and 'hamming' or 'jaccard' for bit strings"))
	}
	return op
}

// textOptions takes the options of bm25 and gives them as its further arguments.
func (c *call) textOptions() string {
	out := ""
	for _, o := range append(slices.Clone(textcall.QueryOptions), textcall.ScoreOptions...) {
		if v := c.option(o); v != "" {
			out += ", " + o + " => " + v
		}
	}
	return out
}

func vectorSearch(c *call) (string, error) {
	c.want("table", "column", "vector", "k")
	table, column, op, filter, effort := c.names(0), c.names(1), c.metric(), c.filter(), c.effort()
	return fmt.Sprintf("(SELECT *, %s %s (%s) AS distance FROM %s WHERE %s IS NOT NULL%s%s ORDER BY distance LIMIT (%s))",
		column, op, c.expr(2), table, column, filter, effort, c.expr(3)), c.err
}

// effort takes the options that say how much a search of an index does, as a condition that is true.
func (c *call) effort() string {
	var list []string
	for _, name := range []string{"ef_search", "probes", "rerank", "exact"} {
		v := strings.ToLower(c.option(name))
		if v == "" {
			continue
		}
		if err := new(search.Effort).Set(name, v); err != nil {
			return c.fail("%s: %v", c.name, err)
		}
		list = append(list, name+"="+v)
	}
	if list == nil {
		return ""
	}
	return " AND " + EffortFunction + "('" + strings.Join(list, " ") + "')"
}

func bm25Search(c *call) (string, error) {
	c.want("table", "column", "query", "k")
	table, column, filter, o := c.names(0), c.names(1), c.filter(), c.textOptions()
	return fmt.Sprintf("(SELECT *, bm25(%s, %s%s) AS score FROM %s WHERE match(%s, %s%s)%s ORDER BY score DESC LIMIT (%s))",
		column, c.expr(2), o, table, column, c.expr(2), o, filter, c.expr(3)), c.err
}

func hybridSearch(c *call) (string, error) {
	c.want("table", "text_column", "query", "vector_column", "vector", "k")
	table, text, column, op, filter := c.names(0), c.names(1), c.names(3), c.metric(), c.filter()
	o := ""
	if v := c.option("rrf_k"); v != "" {
		o += ", k => " + v
	}
	if v := c.option("depth"); v != "" {
		o += ", depth => " + v
	}
	return fmt.Sprintf("(SELECT * FROM (SELECT *, rrf(%s %s (%s), bm25(%s, %s%s)%s) AS score FROM %s WHERE true%s) WHERE score > 0 ORDER BY score DESC LIMIT (%s))",
		column, op, c.expr(4), text, c.expr(2), c.textOptions(), o, table, filter, c.expr(5)), c.err
}

// analyze is the terms of one text; of NULL there are none.
func analyze(c *call) (string, error) {
	c.want("analyzer", "text")
	return fmt.Sprintf("(SELECT unnest(from_json(%s(%s, %s), '%s'), recursive := true))", textcall.AnalyzeFunction, c.expr(0), c.expr(1), textcall.AnalyzeShape), c.err
}

// reciprocalRank becomes window functions over all rows that the WHERE clause leaves. Rows with one score have one rank.
func reciprocalRank(c *call) (string, error) {
	k, depth := 60, 1000
	for name, into := range map[string]*int{"k": &k, "depth": &depth} {
		v := c.option(name)
		if v == "" {
			continue
		}
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			return "", c.errorf("rrf: %s must be a positive whole number", name)
		}
		*into = n
	}
	if len(c.positional) == 0 {
		return "", errs.With(c.errorf("rrf needs ranks"), errs.Hint("write rrf(embedding <-> '[…]', bm25(body, 'words'))"))
	}
	var terms []string
	for i, a := range c.positional {
		e := c.expr(i)
		rank, ranked := "", ""
		switch {
		case distance(a):
			rank, ranked = "rank() OVER (ORDER BY "+e+")", "("+e+") IS NOT NULL"
		case len(a) > 1 && a[0].Is("bm25") && a[1].Is("(") && lex.Close(a, 1) == len(a)-1:
			rank, ranked = "rank() OVER (ORDER BY "+e+" DESC)", "("+e+") > 0"
		default:
			return "", errs.With(c.errorf("rrf: rank %d is neither a distance nor a bm25 score", i+1), errs.Hint("write rrf(embedding <-> '[…]', bm25(body, 'words'))"))
		}
		terms = append(terms, fmt.Sprintf("CASE WHEN %s AND %s <= %d THEN 1.0::DOUBLE / (%d + %s) ELSE 0 END", ranked, rank, depth, k, rank))
	}
	return "(" + strings.Join(terms, " + ") + ")", nil
}

// maxSim compares lists of vectors: each vector of the query counts with its largest inner product with one of the row (late
// interaction: Khattab, Zaharia, "ColBERT", SIGIR 2020). A row without a vector has none, which is NULL.
func maxSim(c *call) (string, error) {
	c.want("vectors", "query")
	return fmt.Sprintf("CAST(list_sum(list_transform(CAST((%s) AS FLOAT[][]), lambda overlake_q: list_max(list_transform(CAST((%s) AS FLOAT[][]), "+
		"lambda overlake_v: list_inner_product(overlake_q, overlake_v))))) AS DOUBLE)", c.expr(1), c.expr(0)), c.err
}

// distance reports whether an expression is a distance: a distance operator outside brackets, or a distance function.
func distance(a []lex.Token) bool {
	depth := 0
	for _, t := range a {
		switch {
		case t.Is("(") || t.Is("["):
			depth++
		case t.Is(")") || t.Is("]"):
			depth--
		case depth == 0 && t.Kind == lex.Op:
			switch t.Text {
			case "<->", "<#>", coltype.NegativeDot, "<=>", "<+>", "<~>", "<%>":
				return true
			}
		}
	}
	return len(a) > 1 && a[0].Kind == lex.Word && strings.HasSuffix(strings.ToLower(a[0].Text), "_distance") && a[1].Is("(")
}

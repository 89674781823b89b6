package sql

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/sql/lex"
)

// The search functions are written in SQL: each becomes the SELECT that it means, and that SELECT is then rewritten like
// any other. So they have no behaviour of their own.
//
//	vector_search(table, column, vector, k [, metric => 'l2'] [, filter => '…'])            columns of the table, distance
//	bm25_search(table, column, query, k [, filter => '…'] [, bm25 options])                  columns of the table, score
//	hybrid_search(table, text column, query, vector column, vector, k [, metric, filter, rrf_k, depth, bm25 options])
//	rrf(rank, rank … [, k => 60] [, depth => 1000])     Σ 1/(k + position), each rank a distance or a bm25(…)

// expand replaces the search functions of a text until none is left.
func (q *statement) expand(w *rewriting) error {
	for range 20 {
		tokens, err := lex.Tokens(w.text)
		if err != nil {
			return err
		}
		edit, found, err := q.expandOne(w.text, tokens)
		if err != nil || !found {
			return err
		}
		w.splice([]lex.Edit{edit})
	}
	return errs.New(errs.Unsupported, "sql.expand", "more than 20 search functions in one statement")
}

func (q *statement) expandOne(text string, tokens []lex.Token) (lex.Edit, bool, error) {
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
		sql, err := expand(q, a)
		if err == nil && len(a.named) > 0 {
			for name := range a.named {
				err = a.errorf("%s has no argument %s", a.name, name)
			}
		}
		return lex.Edit{Start: tokens[i].Start, End: tokens[end].End, New: sql}, true, err
	}
	return lex.Edit{}, false, nil
}

var macros map[string]func(*statement, *call) (string, error)

func init() {
	macros = map[string]func(*statement, *call) (string, error){
		"vector_search": vectorSearch, "bm25_search": bm25Search, "hybrid_search": hybridSearch, "rrf": reciprocalRank,
	}
}

// call is the arguments of a search function as text.
type call struct {
	text       string
	at         lex.Token
	name       string
	positional [][]lex.Token
	named      map[string][]lex.Token
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

func (c *call) want(names ...string) error {
	if len(c.positional) > len(names) {
		return c.errorf("%s takes %d arguments: %s", c.name, len(names), strings.Join(names, ", "))
	}
	for i, n := range names {
		if i < len(c.positional) {
			continue
		}
		a, ok := c.named[n]
		if !ok {
			return errs.With(c.errorf("%s needs %s", c.name, n), errs.Hint("write %s(%s)", c.name, strings.Join(names, ", ")))
		}
		c.positional = append(c.positional, a)
		delete(c.named, n)
	}
	return nil
}

// expr is an argument as an expression.
func (c *call) expr(i int) string {
	a := c.positional[i]
	return c.text[a[0].Start:a[len(a)-1].End]
}

// names is an argument that names something: 'schema.table', "table" or schema.table.
func (c *call) names(i int) (string, error) {
	a := c.positional[i]
	var parts []string
	if len(a) == 1 && a[0].Kind == lex.String {
		inner, err := lex.Tokens(a[0].Value())
		if err != nil {
			return "", c.errorf("%s: argument %d: %v", c.name, i+1, err)
		}
		a = inner
	}
	for k, t := range a {
		if k%2 == 1 && t.Is(".") {
			continue
		}
		if k%2 == 1 || !t.IsIdent() {
			return "", c.errorf("%s: argument %d must be a name, as a string or an identifier", c.name, i+1)
		}
		parts = append(parts, quoteIdent(t.Name()))
	}
	if len(parts) == 0 {
		return "", c.errorf("%s: argument %d is an empty name", c.name, i+1)
	}
	return strings.Join(parts, "."), nil
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
func (c *call) filter() (string, error) {
	a, ok := c.named["filter"]
	if !ok {
		return "", nil
	}
	delete(c.named, "filter")
	if len(a) != 1 || a[0].Kind != lex.String {
		return "", c.errorf("%s: filter must be a SQL condition in a string", c.name)
	}
	text := a[0].Value()
	tokens, err := lex.Tokens(text)
	if err != nil {
		return "", c.errorf("%s: the filter: %v", c.name, err)
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
			return "", c.errorf("%s: the filter is no single condition", c.name)
		}
	}
	if depth != 0 || len(tokens) == 0 {
		return "", c.errorf("%s: the filter is no single condition", c.name)
	}
	return " AND (" + text + "\n)", nil
}

var metrics = map[string]string{"": "<->", "l2": "<->", "euclidean": "<->", "cosine": "<=>", "ip": "<#>", "inner_product": "<#>", "dot": "<#>", "l1": "<+>"}

func (c *call) metric() (string, error) {
	a, ok := c.named["metric"]
	if !ok {
		return "<->", nil
	}
	delete(c.named, "metric")
	op := ""
	if len(a) == 1 && a[0].Kind == lex.String {
		op = metrics[strings.ToLower(a[0].Value())]
	}
	if op == "" {
		return "", errs.With(c.errorf("%s: unknown metric", c.name), errs.Hint("use 'l2', 'cosine', 'ip' or 'l1'"))
	}
	return op, nil
}

// textOptions takes the options of bm25 and gives them as its further arguments.
func (c *call) textOptions() string {
	out := ""
	for _, o := range []string{"analyzer", "k1", "b", "operator"} {
		if v := c.option(o); v != "" {
			out += ", " + o + " => " + v
		}
	}
	return out
}

func vectorSearch(_ *statement, c *call) (string, error) {
	if err := c.want("table", "column", "vector", "k"); err != nil {
		return "", err
	}
	table, err := c.names(0)
	if err != nil {
		return "", err
	}
	column, err := c.names(1)
	if err != nil {
		return "", err
	}
	op, err := c.metric()
	if err != nil {
		return "", err
	}
	filter, err := c.filter()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("(SELECT *, %s %s (%s) AS distance FROM %s WHERE %s IS NOT NULL%s ORDER BY distance LIMIT (%s))",
		column, op, c.expr(2), table, column, filter, c.expr(3)), nil
}

func bm25Search(_ *statement, c *call) (string, error) {
	if err := c.want("table", "column", "query", "k"); err != nil {
		return "", err
	}
	table, err := c.names(0)
	if err != nil {
		return "", err
	}
	column, err := c.names(1)
	if err != nil {
		return "", err
	}
	filter, err := c.filter()
	if err != nil {
		return "", err
	}
	o := c.textOptions()
	return fmt.Sprintf("(SELECT *, bm25(%s, %s%s) AS score FROM %s WHERE match(%s, %s%s)%s ORDER BY score DESC LIMIT (%s))",
		column, c.expr(2), o, table, column, c.expr(2), o, filter, c.expr(3)), nil
}

func hybridSearch(_ *statement, c *call) (string, error) {
	if err := c.want("table", "text_column", "query", "vector_column", "vector", "k"); err != nil {
		return "", err
	}
	table, err := c.names(0)
	if err != nil {
		return "", err
	}
	text, err := c.names(1)
	if err != nil {
		return "", err
	}
	column, err := c.names(3)
	if err != nil {
		return "", err
	}
	op, err := c.metric()
	if err != nil {
		return "", err
	}
	filter, err := c.filter()
	if err != nil {
		return "", err
	}
	o := ""
	if v := c.option("rrf_k"); v != "" {
		o += ", k => " + v
	}
	if v := c.option("depth"); v != "" {
		o += ", depth => " + v
	}
	return fmt.Sprintf("(SELECT * FROM (SELECT *, rrf(%s %s (%s), bm25(%s, %s%s)%s) AS score FROM %s WHERE true%s) WHERE score > 0 ORDER BY score DESC LIMIT (%s))",
		column, op, c.expr(4), text, c.expr(2), c.textOptions(), o, table, filter, c.expr(5)), nil
}

// reciprocalRank becomes window functions over all rows that the WHERE clause leaves. Rows with one score have one rank.
func reciprocalRank(_ *statement, c *call) (string, error) {
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
			case "<->", "<#>", negativeDot, "<=>", "<+>", "<~>", "<%>":
				return true
			}
		}
	}
	return len(a) > 1 && a[0].Kind == lex.Word && strings.HasSuffix(strings.ToLower(a[0].Text), "_distance") && a[1].Is("(")
}

package overlake

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/overlakedb/overlake/internal/errs"
)

// Metric is how far apart two vectors are. Its value is the pgvector operator that computes it.
type Metric string

// The metrics, with pgvector's meaning: smaller is nearer for every one of them.
const (
	L2           Metric = "<->" // Euclidean distance
	InnerProduct Metric = "<#>" // negative inner product
	Cosine       Metric = "<=>" // one minus cosine similarity
	L1           Metric = "<+>" // taxicab distance
	Hamming      Metric = "<~>" // differing bits, for bit strings
	Jaccard      Metric = "<%>" // one minus Jaccard similarity, for bit strings
)

// Query builds one retrieval over one table: filters, then at most one vector rank and one text rank, then columns,
// order and limit. It compiles to one SQL statement (see SQL), so it means exactly what that statement means.
//
// A Query is a value being built: methods change it and return it. Errors wait until Rows.
//
//	rows, err := docs.Query().
//		Where("category = ?", "guides").
//		Near("embedding", v, overlake.Cosine).
//		Select("id", "title").
//		Limit(10).
//		Rows(ctx)
type Query struct {
	t       *Table
	where   []string
	args    []any
	columns []string
	order   []string
	near    *nearTerm
	match   *matchTerm
	effort  Effort
	limit   int64
	offset  int64
	at      *Ref
	err     error
}

type nearTerm struct {
	column  string
	vectors [][]float32
	metric  Metric
	each    bool // NearEach
}

type matchTerm struct{ column, text string }

// Query starts a query over the table.
func (t *Table) Query() *Query { return &Query{t: t, limit: -1} }

// Where keeps the rows for which the SQL condition holds; ? in it stands for the arguments in order. Several conditions
// must all hold.
func (q *Query) Where(condition string, args ...any) *Query {
	q.where = append(q.where, condition)
	q.args = append(q.args, args...)
	return q
}

// Near ranks by the distance between a vector column and a query vector, nearest first. The answer gets a column
// distance. The metric defaults to L2.
func (q *Query) Near(column string, vector []float32, metric ...Metric) *Query {
	m := L2
	if len(metric) > 0 {
		m = metric[0]
	}
	if q.near != nil {
		q.fail("a query has one Near")
	}
	q.near = &nearTerm{column: column, vectors: [][]float32{vector}, metric: m}
	return q
}

// maxNear bounds the vectors of NearEach.
const maxNear = 1000

// NearEach is Near for several vectors, at most 1000, in one call: the answer has the nearest rows of each, Limit of them,
// after a column query that says which vector they are near to, from 0. It takes no Match and no Offset. The rows that Where
// leaves are found once for all vectors.
func (q *Query) NearEach(column string, vectors [][]float32, metric Metric) *Query {
	switch {
	case q.near != nil:
		q.fail("a query has one Near")
	case len(vectors) == 0 || len(vectors) > maxNear:
		q.fail(fmt.Sprintf("NearEach takes 1 to %d vectors, not %d", maxNear, len(vectors)))
	}
	q.near = &nearTerm{column: column, vectors: vectors, metric: metric, each: true}
	return q
}

// Effort says how much a search of a vector index does, for this query alone. The zero value leaves it to the index, whose
// build found what it takes to find most of the true neighbours.
type Effort struct {
	Ef      int    // candidates of a graph, 1 to 100,000: more finds more and takes longer
	Probes  int    // lists of an index of lists, 1 to 1,048,576
	Rerank  int    // candidates that are compared in full, 1 to 100,000
	Exact   bool   // compare all rows that Where leaves
	Index   string // name of the index to use; "" means any
	NoIndex bool   // scan
}

// Effort sets how much the search of Near does.
func (q *Query) Effort(e Effort) *Query {
	if e.NoIndex && e.Index != "" {
		q.fail("an effort names an index and wants none")
	}
	q.effort = e
	return q
}

// hint is the effort as a comment that statements take.
func (e Effort) hint() string {
	var parts []string
	for name, n := range map[string]int{"ef_search": e.Ef, "probes": e.Probes, "rerank": e.Rerank} {
		if n != 0 {
			parts = append(parts, fmt.Sprintf("%s(%d)", name, n))
		}
	}
	slices.Sort(parts)
	if e.Exact {
		parts = append(parts, "exact")
	}
	if e.Index != "" {
		parts = append(parts, "index("+quote(e.Index)+")")
	}
	if e.NoIndex {
		parts = append(parts, "no_index")
	}
	if parts == nil {
		return ""
	}
	return "/*+ " + strings.Join(parts, " ") + " */ "
}

// Match keeps the rows whose text column matches the words of the text (any of them) and ranks by BM25, best first. The
// answer gets a column score. Together with Near the two ranks are fused by reciprocal rank: rows need not match then,
// and score is the fused score.
func (q *Query) Match(column, text string) *Query {
	if q.match != nil {
		q.fail("a query has one Match")
	}
	q.match = &matchTerm{column: column, text: text}
	return q
}

// Select names the columns or SQL expressions of the answer; without it all columns come back.
func (q *Query) Select(columns ...string) *Query {
	q.columns = append(q.columns, columns...)
	return q
}

// OrderBy adds an SQL ordering such as "updated DESC"; with Near or Match it breaks ties of their rank.
func (q *Query) OrderBy(terms ...string) *Query {
	q.order = append(q.order, terms...)
	return q
}

// Limit bounds the number of rows.
func (q *Query) Limit(n int64) *Query {
	if n < 0 {
		q.fail("the limit must not be negative")
	}
	q.limit = n
	return q
}

// Offset skips rows before the limit counts.
func (q *Query) Offset(n int64) *Query {
	if n < 0 {
		q.fail("the offset must not be negative")
	}
	q.offset = n
	return q
}

// At reads the table as it was at a snapshot, a time, a branch or a tag.
func (q *Query) At(ref Ref) *Query {
	q.at = &ref
	return q
}

func (q *Query) fail(message string) {
	if q.err == nil {
		q.err = errs.New(errs.Invalid, "query.build", message, errs.On(q.t.Name()))
	}
}

// SQL is the statement the query runs, with its arguments in the order of its ? marks.
func (q *Query) SQL() (string, []any, error) {
	if q.err != nil {
		return "", nil, q.err
	}
	if q.near == nil || !q.near.each {
		return q.one(0)
	}
	switch {
	case q.match != nil:
		return "", nil, errs.New(errs.Invalid, "query.build", "NearEach takes no Match", errs.On(q.t.Name()))
	case q.offset > 0 || q.limit < 0:
		return "", nil, errs.New(errs.Invalid, "query.build", "NearEach needs a Limit and takes no Offset", errs.On(q.t.Name()))
	}
	var b strings.Builder
	var args []any
	b.WriteString("SELECT " + q.effort.hint() + "* FROM (")
	for i := range q.near.vectors {
		text, a, err := q.one(i)
		if err != nil {
			return "", nil, err
		}
		if i > 0 {
			b.WriteString(" UNION ALL ")
		}
		b.WriteString("(" + text + ")")
		args = append(args, a...)
	}
	b.WriteString(") ORDER BY query, distance")
	if len(q.order) > 0 {
		b.WriteString(", " + strings.Join(q.order, ", "))
	}
	return b.String(), args, nil
}

// one is the statement for one of the vectors.
func (q *Query) one(i int) (string, []any, error) {
	var b strings.Builder
	var args []any
	cols := "*"
	if len(q.columns) > 0 {
		cols = strings.Join(q.columns, ", ")
	}
	if q.near != nil && q.near.each {
		cols = fmt.Sprintf("%d AS query, %s", i, cols)
		b.WriteString("SELECT " + cols)
	} else {
		b.WriteString("SELECT " + q.effort.hint() + cols)
	}
	var order []string
	switch {
	case q.near != nil && q.match != nil:
		fmt.Fprintf(&b, ", rrf(%s %s ?, bm25(%s, ?)) AS score", quote(q.near.column), q.near.metric, quote(q.match.column))
		args = append(args, q.near.vectors[i], q.match.text)
		order = append(order, "score DESC")
	case q.near != nil:
		fmt.Fprintf(&b, ", %s %s ? AS distance", quote(q.near.column), q.near.metric)
		args = append(args, q.near.vectors[i])
		order = append(order, "distance")
	case q.match != nil:
		fmt.Fprintf(&b, ", bm25(%s, ?) AS score", quote(q.match.column))
		args = append(args, q.match.text)
		order = append(order, "score DESC")
	}
	b.WriteString(" FROM " + q.t.sqlName())
	if q.at != nil {
		clause, err := q.at.clause()
		if err != nil {
			return "", nil, err
		}
		b.WriteString(clause)
	}
	where := make([]string, 0, len(q.where)+1)
	for _, w := range q.where {
		where = append(where, "("+w+")")
	}
	args = append(args, q.args...)
	if q.match != nil && q.near == nil {
		where = append(where, "match("+quote(q.match.column)+", ?)")
		args = append(args, q.match.text)
	}
	if len(where) > 0 {
		b.WriteString(" WHERE " + strings.Join(where, " AND "))
	}
	if order = append(order, q.order...); len(order) > 0 {
		b.WriteString(" ORDER BY " + strings.Join(order, ", "))
	}
	if q.limit >= 0 {
		fmt.Fprintf(&b, " LIMIT %d", q.limit)
	}
	if q.offset > 0 {
		fmt.Fprintf(&b, " OFFSET %d", q.offset)
	}
	return b.String(), args, nil
}

// Rows runs the query.
func (q *Query) Rows(ctx context.Context) (*Rows, error) {
	text, args, err := q.SQL()
	if err != nil {
		return nil, err
	}
	return q.t.db.SQL(ctx, text, args...)
}

// Explain is the plan of the query as text.
func (q *Query) Explain(ctx context.Context) (string, error) {
	text, args, err := q.SQL()
	if err != nil {
		return "", err
	}
	rows, err := q.t.db.SQL(ctx, "EXPLAIN "+text, args...)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for row, err := range rows.Values() {
		if err != nil {
			return "", err
		}
		fmt.Fprintln(&b, row[0])
	}
	return b.String(), nil
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

package overlake

import (
	"context"
	"fmt"
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
	limit   int64
	offset  int64
	at      *Ref
	err     error
}

type nearTerm struct {
	column string
	vector []float32
	metric Metric
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
	q.near = &nearTerm{column: column, vector: vector, metric: m}
	return q
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
	var b strings.Builder
	var args []any
	cols := "*"
	if len(q.columns) > 0 {
		cols = strings.Join(q.columns, ", ")
	}
	b.WriteString("SELECT " + cols)
	var order []string
	switch {
	case q.near != nil && q.match != nil:
		fmt.Fprintf(&b, ", rrf(%s %s ?, bm25(%s, ?)) AS score", quote(q.near.column), q.near.metric, quote(q.match.column))
		args = append(args, q.near.vector, q.match.text)
		order = append(order, "score DESC")
	case q.near != nil:
		fmt.Fprintf(&b, ", %s %s ? AS distance", quote(q.near.column), q.near.metric)
		args = append(args, q.near.vector)
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

package sql

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/errs"
)

// explain runs EXPLAIN [ANALYZE] query: what is read of each table and why, how retrieval is done, and the engine's plan.
func (q *statement) explain(c *cursor) (*Result, error) {
	c.next()
	analyze := c.accept("ANALYZE")
	if c.accept("(") {
		return nil, errs.New(errs.Unsupported, "sql.explain", "EXPLAIN takes no options but ANALYZE")
	}
	if c.done() {
		return nil, c.errorf("expected a query")
	}
	first := strings.ToUpper(c.peek().Text)
	switch first {
	case "SELECT", "WITH", "VALUES", "FROM", "(", "TABLE", "PIVOT", "UNPIVOT":
	default:
		return nil, errs.New(errs.Unsupported, "sql.explain", "only queries can be explained", errs.On(first))
	}
	text := c.rest()
	w, err := q.rewrite(text)
	if err != nil {
		return nil, err
	}
	prefix := "EXPLAIN "
	if analyze {
		prefix = "EXPLAIN ANALYZE "
	}
	inner := &rewriting{original: text, text: w.text, stages: w.stages}
	inner.text = prefix + w.text
	rows, err := q.start(inner)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var lines [][]string
	say := func(format string, args ...any) { lines = append(lines, []string{fmt.Sprintf(format, args...)}) }
	for _, s := range q.scans {
		p := s.plan
		say("scan %s: snapshot %d, %d files, %d pruned by partition, %d pruned by statistics, %d scanned (%d rows, %s), %s", s.id, p.SnapshotID, p.Total,
			p.PrunedByPartition, p.PrunedByStats, len(p.Files), p.Rows, size(p.Bytes), s.via)
		if p.Deleted > 0 {
			say("  %d deleted rows are left out by a bitmap", p.Deleted)
		}
		if s.filter != "" {
			say("  pruned with %s", s.filter)
		}
	}
	for _, n := range q.notes {
		say("%s", n)
	}
	for _, op := range []string{"<->", "<#>", "<=>", "<+>"} {
		if strings.Contains(text, op) || op == "<->" && strings.Contains(strings.ToLower(text), "vector_search") {
			say("vector distance %s: exact, over every row that the filter leaves; no index", op)
		}
	}
	for rows.Next() {
		rec := rows.Record()
		values, ok := rec.Column(int(rec.NumCols()) - 1).(*array.String)
		if !ok {
			continue
		}
		for i := range values.Len() {
			for line := range strings.Lines(values.Value(i)) {
				say("%s", strings.TrimRight(line, "\n"))
			}
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return textRows("EXPLAIN", []string{"plan"}, lines), nil
}

func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}

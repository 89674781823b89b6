package sql

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/render"
	"github.com/overlakedb/overlake/internal/sql/lex"
)

// explain runs EXPLAIN [ANALYZE] [(options)] query: what is read of each table and why, how retrieval is done, and the engine's
// operators, each below the one it feeds.
func (q *statement) explain(c *cursor) (*Result, error) {
	c.next()
	analyze := c.accept("ANALYZE")
	if err := c.explainOptions(&analyze); err != nil {
		return nil, err
	}
	if c.done() {
		return nil, c.errorf("expected a query")
	}
	first := strings.ToUpper(c.peek().Text)
	switch first {
	case "SELECT", "WITH", "VALUES", "FROM", "(", "TABLE", "PIVOT", "UNPIVOT", "SUMMARIZE":
	default:
		return nil, errs.New(errs.Unsupported, "sql.explain", "only queries can be explained", errs.On(first))
	}
	text := c.rest()
	w, err := q.rewrite(q.part(c.peek().Start, len(q.text), "", ""))
	if err != nil {
		return nil, err
	}
	prefix := "EXPLAIN (FORMAT json) "
	if analyze {
		prefix = "EXPLAIN (ANALYZE, FORMAT json) "
	}
	w.splice([]lex.Edit{{New: prefix}})
	rows, err := q.start(w)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var lines [][]string
	said := map[string]bool{} // a table that stands in the statement twice is told once
	say := func(format string, args ...any) {
		if line := fmt.Sprintf(format, args...); !said[line] {
			said[line] = true
			lines = append(lines, []string{line})
		}
	}
	for _, s := range q.scans {
		p := s.plan
		scanned, pruned := p, 0
		if a := s.access; a != nil {
			scanned, pruned = p.Only(a.Scan), a.Pruned
		}
		say("scan %s: snapshot %d, %d files, %d pruned by partition, %d pruned by statistics, %d pruned by index, %d scanned (%d rows, %s), %s", s.id, p.SnapshotID,
			p.Total, p.PrunedByPartition, p.PrunedByStats, pruned, len(scanned.Files), scanned.Rows, size(scanned.Bytes), s.via)
		if a := s.access; a != nil {
			switch {
			case len(a.Used) > 0 && a.Rows > 0 && len(a.Fetch) == 0:
				say("  index %s: %d of %d files asked, %d rows counted", strings.Join(a.Used, ", "), a.Covered, len(p.Files), a.Rows)
			case len(a.Used) > 0:
				say("  index %s: %d of %d files asked, %d rows of %d files to fetch", strings.Join(a.Used, ", "), a.Covered, len(p.Files), a.Rows, len(a.Fetch))
			}
			for _, r := range a.Why {
				say("  %d files scanned: %s", r.Files, r.Why)
			}
			if len(a.Runs) > 0 {
				say("  %d of these files in part: %d of %d rows, where the index has hits", len(a.Runs), a.RunRows(), p.Only(slices.Collect(maps.Keys(a.Runs))).Rows)
			}
		}
		if p.Deleted > 0 {
			say("  %d deleted rows are left out by a bitmap", p.Deleted)
		}
		if s.filter != "" {
			say("  pruned with %s", s.filter)
		}
	}
	if h := q.explainHint(); h != "" {
		say("%s", h)
	}
	for _, n := range q.notes {
		say("%s", n)
	}
	for _, op := range []string{"<->", "<#>", "<=>", "<+>", "<~>", "<%>"} {
		if q.ranked {
			break
		}
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
			lines = append(lines, render.Plan(values.Value(i))...)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return textRows("EXPLAIN", []string{"plan"}, lines), nil
}

// explainOptions reads (ANALYZE [on], FORMAT text) behind EXPLAIN; a bracket may as well begin the query.
func (c *cursor) explainOptions(analyze *bool) error {
	if !c.peek().Is("(") || c.at+1 < len(c.tokens) && queryWord(c.tokens[c.at+1]) {
		return nil
	}
	options, end := lex.Args(c.tokens, c.at)
	if end < 0 {
		return c.errorf("this bracket is never closed")
	}
	for _, o := range options {
		if len(o) == 0 {
			return c.errorf("expected options of EXPLAIN, or a query")
		}
		value := ""
		if len(o) > 1 {
			value = strings.ToLower(strings.Trim(c.text[o[1].Start:o[len(o)-1].End], "'"))
		}
		switch {
		case o[0].Is("ANALYZE") && (value == "" || value == "true" || value == "on" || value == "1"):
			*analyze = true
		case o[0].Is("ANALYZE") && (value == "false" || value == "off" || value == "0"):
			*analyze = false
		case o[0].Is("FORMAT") && value == "text":
		default:
			return errs.Wrap(errs.Unsupported, "sql.explain", lex.At(c.text, o[0].Start, "EXPLAIN has no option "+c.text[o[0].Start:o[len(o)-1].End]),
				errs.Hint("the options are ANALYZE and FORMAT text"))
		}
	}
	c.at = end + 1
	return nil
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

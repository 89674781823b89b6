package sql

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/errs"
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
			lines = append(lines, operators(values.Value(i))...)
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

// operator is a node of the engine's plan, in the forms of EXPLAIN and of EXPLAIN ANALYZE.
type operator struct {
	Name     string         `json:"name"`
	Operator string         `json:"operator_name"`
	Timing   *float64       `json:"operator_timing"`
	Rows     *float64       `json:"operator_cardinality"`
	Latency  *float64       `json:"latency"`
	Children []operator     `json:"children"`
	Extra    map[string]any `json:"extra_info"`
}

// operators draws a plan, one operator a line.
func operators(plan string) [][]string {
	var roots []operator
	if json.Unmarshal([]byte(plan), &roots) != nil {
		var one operator
		if json.Unmarshal([]byte(plan), &one) != nil {
			var lines [][]string
			for line := range strings.Lines(plan) {
				lines = append(lines, []string{strings.TrimRight(line, "\n")})
			}
			return lines
		}
		roots = []operator{one}
	}
	var out [][]string
	var draw func(o operator, depth int)
	draw = func(o operator, depth int) {
		name := strings.TrimSpace(o.Name)
		if name == "" {
			name = strings.TrimSpace(o.Operator)
		}
		if name != "" && name != "EXPLAIN_ANALYZE" {
			line := strings.Repeat("  ", depth) + name
			for _, key := range []string{"Filters", "Join Type", "Conditions", "Order By", "Top", "Groups", "Estimated Cardinality"} {
				v := strings.ReplaceAll(fmt.Sprint(o.Extra[key]), "\n", ", ")
				if o.Extra[key] == nil || v == "" {
					continue
				}
				if len(v) > 80 {
					v = v[:80] + "…"
				}
				if key == "Estimated Cardinality" {
					line += ", about " + v + " rows"
				} else {
					line += ", " + strings.ToLower(key) + " " + v
				}
			}
			if o.Rows != nil && o.Timing != nil {
				line += fmt.Sprintf(", %.0f rows in %.1f ms", *o.Rows, *o.Timing*1000)
			}
			out = append(out, []string{line})
			depth++
		} else if o.Latency != nil {
			out = append(out, []string{fmt.Sprintf("ran in %.1f ms", *o.Latency*1000)})
		}
		for _, c := range o.Children {
			draw(c, depth)
		}
	}
	for _, r := range roots {
		draw(r, 0)
	}
	return out
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

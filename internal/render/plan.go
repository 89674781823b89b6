package render

import (
	"encoding/json"
	"fmt"
	"strings"
)

// operator is a node of a plan, in the forms of EXPLAIN and of EXPLAIN ANALYZE.
type operator struct {
	Name     string         `json:"name"`
	Operator string         `json:"operator_name"`
	Timing   *float64       `json:"operator_timing"`
	Rows     *float64       `json:"operator_cardinality"`
	Latency  *float64       `json:"latency"`
	Children []operator     `json:"children"`
	Extra    map[string]any `json:"extra_info"`
}

// Plan draws the plan of a query, as the engine tells it in JSON, one operator a line, each below and within the one it feeds.
// What is no such JSON is drawn line by line.
func Plan(plan string) [][]string {
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

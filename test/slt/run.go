package slt

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Runner executes one statement and gives its answer as text. A nil value is NULL.
type Runner interface {
	Exec(ctx context.Context, sql string) (Answer, error)
}

// Answer is what a statement gave.
type Answer struct {
	Columns []string
	Rows    [][]*string
	Count   int64 // rows written, -1 when the statement writes none
}

// Snapshotter is a Runner that knows the snapshots of its tables.
type Snapshotter interface {
	// Snapshot gives the id and the time of a table's current snapshot, as SQL writes them.
	Snapshot(ctx context.Context, table string) (id, time string, err error)
}

// Result is what a run found.
type Result struct {
	Passed, Skipped int
	Defects         []string // records that are known to fail and did
	Failures        []string
	Rewritten       string // the script with the answers that were given
}

// Options say how a script is run.
type Options struct {
	Name string            // of the runner, for skipif and onlyif
	Vars map[string]string // what ${name} stands for at the start
	// ErrorText gives an error the form that "statement error" compares; nil means Error().
	ErrorText func(error) string
}

// Run runs a script. It goes on after a failure, so that one run shows all of them.
func Run(ctx context.Context, script string, r Runner, o Options) (Result, error) {
	records, err := Parse(script)
	if err != nil {
		return Result{}, err
	}
	x := execution{runner: r, vars: map[string]string{}, labels: map[string]string{}, errorText: o.ErrorText}
	if x.errorText == nil {
		x.errorText = error.Error
	}
	for k, v := range o.Vars {
		x.vars[k] = v
	}
	var out Result
	answers := map[int][]string{}
	for i, rec := range records {
		if slices.Contains(rec.Skip, o.Name) || len(rec.Only) > 0 && !slices.Contains(rec.Only, o.Name) {
			out.Skipped++
			continue
		}
		rows, problem := x.record(ctx, rec)
		switch {
		case rec.Fails != "" && problem != "":
			out.Defects = append(out.Defects, fmt.Sprintf("line %d: %s", rec.Line, rec.Fails))
			continue
		case rec.Fails != "":
			problem = "passes now: take the line \"fails " + rec.Fails + "\" away"
			rows = nil
		}
		if problem != "" {
			out.Failures = append(out.Failures, fmt.Sprintf("line %d: %s\n  %s", rec.Line, strings.ReplaceAll(rec.Text, "\n", "\n  "), problem))
		} else {
			out.Passed++
		}
		if rows != nil && problem != "" {
			answers[i] = rows
		}
	}
	out.Rewritten = rewrite(script, records, answers)
	return out, nil
}

type execution struct {
	runner    Runner
	vars      map[string]string
	labels    map[string]string
	errorText func(error) string
}

// record runs one record. It returns the rows of a query as the script would write them, and what is wrong, if anything.
func (x *execution) record(ctx context.Context, rec Record) (rows []string, problem string) {
	if rec.Kind == Snapshot {
		s, ok := x.runner.(Snapshotter)
		if !ok {
			return nil, "this runner knows no snapshots"
		}
		id, at, err := s.Snapshot(ctx, rec.Text)
		if err != nil {
			return nil, x.errorText(err)
		}
		x.vars[rec.Name], x.vars[rec.Name+".time"] = id, at
		return nil, ""
	}
	text, err := x.expand(rec.Text)
	if err != nil {
		return nil, err.Error()
	}
	answer, err := x.runner.Exec(ctx, text)
	if rec.Kind == StatementError {
		switch {
		case err == nil:
			return nil, fmt.Sprintf("succeeded with %d rows, want the error %s", len(answer.Rows), rec.Error)
		case !rec.Error.MatchString(x.errorText(err)):
			return nil, fmt.Sprintf("got the error %s\n  want %s", x.errorText(err), rec.Error)
		}
		return nil, ""
	}
	if err != nil {
		return nil, "failed: " + x.errorText(err)
	}
	switch rec.Kind {
	case StatementCount:
		if got := strconv.FormatInt(answer.Count, 10); got != rec.Count {
			return nil, fmt.Sprintf("wrote %s rows, want %s", got, rec.Count)
		}
	case Let:
		if len(answer.Rows) != 1 || len(answer.Rows[0]) != 1 || answer.Rows[0][0] == nil {
			return nil, fmt.Sprintf("let needs one value, got %d rows", len(answer.Rows))
		}
		x.vars[rec.Name] = *answer.Rows[0][0]
	case Query:
		return x.query(rec, answer)
	}
	return nil, ""
}

// expand puts the values of variables in their places.
func (x *execution) expand(text string) (string, error) {
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(text, "${")
		b.WriteString(before)
		if !ok {
			return b.String(), nil
		}
		name, rest, ok := strings.Cut(after, "}")
		v, known := x.vars[name]
		if !ok || !known {
			return "", fmt.Errorf("there is no variable ${%s}", name)
		}
		b.WriteString(v)
		text = rest
	}
}

func (x *execution) query(rec Record, answer Answer) ([]string, string) {
	if len(answer.Columns) != len(rec.Types) {
		return nil, fmt.Sprintf("got %d columns (%s), want %d", len(answer.Columns), strings.Join(answer.Columns, ", "), len(rec.Types))
	}
	got := make([][]string, len(answer.Rows))
	for i, r := range answer.Rows {
		got[i] = make([]string, len(r))
		for k, v := range r {
			got[i][k] = written(v)
			if rec.Types[k] == 'I' && v != nil && strings.Trim(*v, "-0123456789") != "" {
				return nil, fmt.Sprintf("row %d, column %d: %s is no whole number", i+1, k+1, *v)
			}
		}
	}
	types := rec.Types
	want := make([][]string, len(rec.Rows))
	for i, r := range rec.Rows {
		want[i] = strings.Split(r, "\t")
	}
	switch rec.Sort {
	case "rowsort":
		slices.SortFunc(got, slices.Compare[[]string])
		slices.SortFunc(want, slices.Compare[[]string])
	case "valuesort":
		got, want = values(got), values(want)
		types = "T"
	}
	lines := make([]string, len(got))
	for i, r := range got {
		lines[i] = strings.Join(r, "\t")
	}
	all := strings.Join(lines, "\n")
	if rec.Label != "" {
		if before, seen := x.labels[rec.Label]; seen && before != all {
			return lines, fmt.Sprintf("label %s had another answer before", rec.Label)
		}
		x.labels[rec.Label] = all
	}
	show := func(why string) ([]string, string) {
		return lines, why + "\n  got:\n    " + strings.Join(lines, "\n    ") + "\n  want:\n    " + strings.Join(rec.Rows, "\n    ")
	}
	if len(got) != len(want) {
		return show(fmt.Sprintf("got %d rows, want %d", len(got), len(want)))
	}
	for i := range got {
		if len(got[i]) != len(want[i]) {
			return show(fmt.Sprintf("row %d has %d values, want %d", i+1, len(got[i]), len(want[i])))
		}
		for k := range got[i] {
			if !equal(got[i][k], want[i][k], types[min(k, len(types)-1)]) {
				return show(fmt.Sprintf("row %d, column %d: got %s, want %s", i+1, k+1, got[i][k], want[i][k]))
			}
		}
	}
	return lines, ""
}

// values gives every value a row of its own, sorted.
func values(rows [][]string) [][]string {
	var out [][]string
	for _, r := range rows {
		for _, v := range r {
			out = append(out, []string{v})
		}
	}
	slices.SortFunc(out, slices.Compare[[]string])
	return out
}

// equal compares two written values.
func equal(got, want string, kind byte) bool {
	if got == want {
		return true
	}
	if kind != 'R' {
		return false
	}
	g, gerr := strconv.ParseFloat(got, 64)
	w, werr := strconv.ParseFloat(want, 64)
	if gerr != nil || werr != nil || math.IsInf(g, 0) || math.IsInf(w, 0) {
		return false
	}
	return math.Abs(g-w) <= 1e-6*math.Max(1, math.Abs(w))
}

var escapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\t", `\t`, "\r", `\r`)

// written is a value as a script writes it.
func written(v *string) string {
	switch {
	case v == nil:
		return "NULL"
	case *v == "":
		return "(empty)"
	case *v == "NULL" || *v == "(empty)":
		return `\` + *v
	}
	return escapes.Replace(*v)
}

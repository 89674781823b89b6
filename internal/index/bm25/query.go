package bm25

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
)

// Query is a parsed query: the distinct terms of its text in the order of their first occurrence, each with the number of
// times it stands there. A query without terms matches nothing.
type Query struct {
	Terms  []string
	Counts []int
	All    bool // every term must match, else any
	Min    int  // how many clauses must match where All is not set, a repeated term counting each time; 0 means one
}

// ParseQuery analyzes the text of a query: any of its terms may match.
func ParseQuery(a *analysis.Analyzer, text string) Query {
	var q Query
	var s analysis.Stream
	at := map[string]int{}
	for s.Reset(a, text); s.Next(); {
		i, ok := at[string(s.Term)]
		if !ok {
			i = len(q.Terms)
			at[string(s.Term)] = i
			q.Terms = append(q.Terms, string(s.Term))
			q.Counts = append(q.Counts, 0)
		}
		q.Counts[i]++
	}
	return q
}

// clauses is the number of terms in the text of the query.
func (q *Query) clauses() int {
	n := 0
	for _, c := range q.Counts {
		n += c
	}
	return n
}

// Matches reports whether a text with these frequencies of the query's terms matches.
func (q *Query) Matches(freqs []int32) bool {
	found, clauses := 0, 0
	for i, f := range freqs {
		if f > 0 {
			found++
			clauses += q.Counts[i]
		}
	}
	return q.enough(found, clauses)
}

// enough decides by the number of distinct terms found and of clauses they stand for.
func (q *Query) enough(found, clauses int) bool {
	switch {
	case found == 0:
		return false
	case q.All:
		return found == len(q.Terms)
	}
	return clauses >= q.Min
}

// ParseOperator reads the word for how terms combine: or (any, the default) or and (all).
func ParseOperator(word string) (all bool, err error) {
	switch strings.ToLower(word) {
	case "", "or", "any":
		return false, nil
	case "and", "all":
		return true, nil
	}
	return false, errs.New(errs.Invalid, "bm25.operator", "the operator of a query is or, or and", errs.On(word))
}

// Options are what a query may say beside its text. The zero value means the defaults of each field.
type Options struct {
	Params   *similarity.Params // nil: DefaultParams
	Analyzer string             // "": analysis.Default
	Operator string             // "or" (default) or "and"

	// MinimumShouldMatch says how many clauses of an or must match, in Elasticsearch's language: 2, -1 (all but one), 75%,
	// -25%, or conditions such as "2<-25% 9<-3" (more than 2 clauses: all but a quarter; more than 9: all but 3). It
	// changes nothing where the operator is and, or where the query has one clause.
	MinimumShouldMatch string
}

// OptionNames lists what Set knows.
var OptionNames = []string{"analyzer", "b", "k1", "minimum_should_match", "operator"}

// Set sets an option by name from its text. Unknown names and values without meaning are errs.Invalid.
func (o *Options) Set(name, value string) error {
	const op = "bm25.option"
	switch strings.ToLower(name) {
	case "analyzer":
		if _, err := analysis.Find(value); err != nil {
			return err
		}
		o.Analyzer = value
	case "operator":
		if _, err := ParseOperator(value); err != nil {
			return err
		}
		o.Operator = value
	case "minimum_should_match":
		if _, err := MinimumShouldMatch(1, value); err != nil {
			return err
		}
		o.MinimumShouldMatch = value
	case "k1", "b":
		x, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil {
			return errs.New(errs.Invalid, op, "the value must be a number, not "+strconv.Quote(value), errs.On(name))
		}
		p := similarity.DefaultParams
		if o.Params != nil {
			p = *o.Params
		}
		if strings.EqualFold(name, "b") {
			p.B = x
		} else {
			p.K1 = x
		}
		if err := p.Check(); err != nil {
			return err
		}
		o.Params = &p
	default:
		return errs.New(errs.Invalid, op, "there is no such option", errs.On(name), errs.Hint("use one of %s", strings.Join(OptionNames, ", ")))
	}
	return nil
}

// ParseOptions reads options as text: name=value, separated by commas.
func ParseOptions(text string) (Options, error) {
	var o Options
	for part := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			return o, errs.New(errs.Invalid, "bm25.options", "an option is name=value, not "+strconv.Quote(part))
		}
		if err := o.Set(strings.TrimSpace(name), strings.TrimSpace(value)); err != nil {
			return o, err
		}
	}
	return o, nil
}

// Query analyzes a text under the options. It returns the analyzer and the parameters too, which go with the query.
func (o Options) Query(text string) (*analysis.Analyzer, Query, similarity.Params, error) {
	name := o.Analyzer
	if name == "" {
		name = analysis.Default
	}
	p := similarity.DefaultParams
	if o.Params != nil {
		p = *o.Params
	}
	a, err := analysis.Find(name)
	if err != nil {
		return nil, Query{}, p, err
	}
	if err := p.Check(); err != nil {
		return nil, Query{}, p, err
	}
	q := ParseQuery(a, text)
	if q.All, err = ParseOperator(o.Operator); err != nil {
		return nil, Query{}, p, err
	}
	if o.MinimumShouldMatch != "" && !q.All && q.clauses() > 1 {
		if q.Min, err = MinimumShouldMatch(q.clauses(), o.MinimumShouldMatch); err != nil {
			return nil, Query{}, p, err
		}
	}
	return a, q, p, nil
}

// MinimumShouldMatch is how many of n clauses a specification asks for. It follows Elasticsearch 7's
// Queries.calculateMinShouldMatch, and like it may ask for more than n.
func MinimumShouldMatch(n int, spec string) (int, error) {
	spec = strings.TrimSpace(spec)
	if !strings.Contains(spec, "<") {
		return simpleMinimum(n, spec)
	}
	result, decided := n, false
	for _, part := range conditions(spec) {
		bound, rest, ok := strings.Cut(part, "<")
		limit, err := strconv.Atoi(bound)
		if !ok || err != nil || strings.Contains(rest, "<") {
			return 0, badMinimum(spec)
		}
		// Every part is read even when the first decides, so that a wrong one is never silent.
		next, err := simpleMinimum(n, rest)
		if err != nil {
			return 0, badMinimum(spec)
		}
		if decided = decided || n <= limit; !decided {
			result = next
		}
	}
	return result, nil
}

// conditions splits a specification at white space, but not around <.
func conditions(spec string) []string {
	var out []string
	for _, f := range strings.Fields(strings.ReplaceAll(spec, "<", " < ")) {
		last := len(out) - 1
		if last >= 0 && (f == "<" || strings.HasSuffix(out[last], "<")) {
			out[last] += f
			continue
		}
		out = append(out, f)
	}
	return out
}

func simpleMinimum(n int, spec string) (int, error) {
	if number, ok := strings.CutSuffix(spec, "%"); ok {
		percent, err := strconv.ParseInt(number, 10, 32)
		if err != nil {
			return 0, badMinimum(spec)
		}
		part := float64(float32(float64(n)*float64(percent)) * float32(0.01))
		return bounded(n, math.Trunc(part)), nil
	}
	count, err := strconv.ParseInt(spec, 10, 32)
	if err != nil {
		return 0, badMinimum(spec)
	}
	return bounded(n, float64(count)), nil
}

// bounded counts a negative number from the end; the result is never negative.
func bounded(n int, x float64) int {
	if x < 0 {
		x += float64(n)
	}
	return int(max(x, 0))
}

func badMinimum(spec string) error {
	return errs.New(errs.Invalid, "bm25.minimum_should_match", fmt.Sprintf("minimum_should_match does not understand %q", spec),
		errs.Hint("write a number (2, -1), a percentage (75%%, -25%%) or conditions (2<-25%% 9<-3)"))
}

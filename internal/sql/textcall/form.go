package textcall

import (
	"fmt"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/index/bm25"
	"github.com/overlakedb/overlake/internal/index/bm25/primitive"
	"github.com/overlakedb/overlake/internal/index/bm25/query"
	"github.com/overlakedb/overlake/internal/index/bm25/rank"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
)

// Form is a query that was understood. It is immutable.
type Form struct {
	Analyzer *analysis.Analyzer
	Params   similarity.Params
	Words    bm25.Query // of words, where Plan is nil
	Plan     *rank.Plan // of everything else, over one field

	syntax string
	text   string
	node   primitive.Node // of a Plan
}

// New reads a query over a column, by whose name the query may call it. Errors are those of the analyzer, the parameters, the
// text and the options: errs.Invalid, errs.NotFound, errs.Unsupported, or errs.Exhausted where a limit of queries is passed.
func New(column, text string, o Options) (*Form, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	words := bm25.Options{Params: &o.Params, Analyzer: o.Analyzer, Operator: o.Operator, MinimumShouldMatch: o.MinimumShouldMatch}
	f := &Form{syntax: o.Syntax, text: text}
	var err error
	if f.Analyzer, f.Words, f.Params, err = words.Query(text); err != nil {
		return nil, err
	}
	if o.Syntax == Words && o.Fuzziness == "" {
		return f, nil
	}
	f.Words = bm25.Query{}
	if f.node, err = o.lower(column, text, f.Analyzer); err != nil {
		return nil, err
	}
	f.Plan, err = rank.NewPlan(f.node, []rank.Field{{Name: column, Params: &f.Params}})
	return f, err
}

// lower makes the query of terms.
func (o *Options) lower(column, text string, a *analysis.Analyzer) (primitive.Node, error) {
	n, err := o.tree(column, text)
	if err != nil {
		return nil, err
	}
	return query.Lower(n, &query.Schema{Fields: []query.Field{{Name: column, Analyzer: a}}})
}

// tree is the query as a tree.
func (o *Options) tree(column, text string) (query.Node, error) {
	all, err := bm25.ParseOperator(o.Operator)
	if err != nil {
		return nil, err
	}
	if _, err := bm25.MinimumShouldMatch(1, o.MinimumShouldMatch); o.MinimumShouldMatch != "" && err != nil {
		return nil, err
	}
	var near query.Fuzziness
	if o.Fuzziness != "" {
		if near, err = query.ParseFuzziness(o.Fuzziness); err != nil {
			return nil, err
		}
	}
	match := query.MatchOptions{All: all, MinimumShouldMatch: o.MinimumShouldMatch}
	if o.Fuzziness != "" {
		match.Fuzziness = &near
	}
	str := query.StringOptions{Fields: []query.FieldBoost{{Name: column}}, All: all, MinimumShouldMatch: o.MinimumShouldMatch, PhraseSlop: o.Slop, Fuzziness: near}
	switch o.Syntax {
	case QueryString:
		return query.QueryString(text, str)
	case Simple:
		return query.Simple(text, str)
	case Phrase:
		return query.Phrase{Field: column, Text: text, Slop: o.Slop}, nil
	case PhrasePrefix:
		return query.PhrasePrefix{Field: column, Text: text, Slop: o.Slop}, nil
	case BoolPrefix:
		return query.BoolPrefix{Field: column, Text: text, Options: match}, nil
	case Prefix:
		return query.Prefix{Field: column, Text: text}, nil
	case Wildcard:
		return query.Wildcard{Field: column, Pattern: text}, nil
	case Regexp:
		return query.Regexp{Field: column, Pattern: text}, nil
	case Fuzzy:
		return query.Fuzzy{Field: column, Text: text, Fuzziness: near}, nil
	case Term:
		return query.Term{Field: column, Text: text}, nil
	}
	return query.Match{Field: column, Text: text, Options: match}, nil
}

// Key names the query and its parameters: equal keys are equal answers under equal statistics.
func (f *Form) Key() string { return fmt.Sprintf("%s\x00%v", f.rows(), f.Params) }

// rows names what says which rows match.
func (f *Form) rows() string {
	if f.Plan == nil {
		return fmt.Sprintf("%s\x00%q %v %v %d", f.Analyzer.Fingerprint(), f.Words.Terms, f.Words.Counts, f.Words.All, f.Words.Min)
	}
	return f.Analyzer.Fingerprint() + "\x00\x00" + primitive.Key(f.node)
}

// Same reports whether two queries match the same rows of a column.
func (f *Form) Same(o *Form) bool { return f.rows() == o.rows() }

// String says what the query is, in a few words.
func (f *Form) String() string {
	if f.Plan == nil {
		return fmt.Sprintf("'%s'): analyzer %s, %d terms", f.text, f.Analyzer.Name(), len(f.Words.Terms))
	}
	return fmt.Sprintf("'%s'): analyzer %s, %s", f.text, f.Analyzer.Name(), f.syntax)
}

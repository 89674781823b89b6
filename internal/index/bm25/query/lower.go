package query

import (
	"fmt"
	"math"
	"path"
	"strings"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25"
	"github.com/overlakedb/overlake/internal/index/bm25/automaton"
	"github.com/overlakedb/overlake/internal/index/bm25/primitive"
)

// Schema names the fields that a query may speak of. Their order is that of the fields of the sources it is run over.
type Schema struct {
	Fields []Field
	Limits Limits
}

// Field is a column with text.
type Field struct {
	Name        string
	Analyzer    *analysis.Analyzer // of the rows
	Search      *analysis.Analyzer // of queries; nil: Analyzer
	NoPositions bool               // the index keeps none, so there are no phrases
}

// Limits bound a query. A zero is the default.
type Limits struct {
	Depth   int // how deep nodes lie in each other: 100
	Clauses int // nodes and terms of all texts, those of Terms apart: 65,536
	Terms   int // terms of one Terms: 65,536, Elasticsearch's index.max_terms_count
}

func (l Limits) depth() int   { return or(l.Depth, 100) }
func (l Limits) clauses() int { return or(l.Clauses, 65_536) }
func (l Limits) terms() int   { return or(l.Terms, 65_536) }

func or(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

// Names are the names of the fields.
func (s *Schema) Names() []string {
	out := make([]string, len(s.Fields))
	for i, f := range s.Fields {
		out[i] = f.Name
	}
	return out
}

const opLower = "query.lower"

// Lower analyzes the texts of a tree and gives what is run, not rewritten yet. Unknown fields are errs.NotFound, what means nothing is
// errs.Invalid, what is beyond the limits errs.Exhausted.
func Lower(n Node, s *Schema) (primitive.Node, error) {
	l := &lowering{schema: s}
	out, err := l.lower(n)
	if err != nil {
		return nil, err
	}
	if out == nil {
		return primitive.None{Reason: "no terms"}, nil
	}
	return out, nil
}

type lowering struct {
	schema  *Schema
	depth   int
	clauses int
	stream  analysis.Stream

	// cut gives the tokens of a text; nil: the analyzer does. Tests put graphs here that no analyzer makes.
	cut func(text string) graph
}

func invalid(format string, args ...any) error {
	return errs.Newf(errs.Invalid, opLower, format, args...)
}

func (l *lowering) count(n int) error {
	if l.clauses += n; l.clauses > l.schema.Limits.clauses() {
		return errs.New(errs.Exhausted, opLower, fmt.Sprintf("the query has more than %d clauses", l.schema.Limits.clauses()),
			errs.Hint("ask for fewer terms at once, or use a terms query"))
	}
	return nil
}

// field finds a field by its name.
func (l *lowering) field(name string) (int, *Field, error) {
	for i := range l.schema.Fields {
		if f := &l.schema.Fields[i]; strings.EqualFold(f.Name, name) {
			return i, f, nil
		}
	}
	return 0, nil, errs.New(errs.NotFound, opLower, "there is no such field with text", errs.On(name), errs.Hint("fields are %s", strings.Join(l.schema.Names(), ", ")))
}

// fields resolves patterns; a field that several name has the product of their boosts once each, as Elasticsearch has it.
func (l *lowering) fields(list []FieldBoost) ([]FieldBoost, error) {
	var out []FieldBoost
	at := map[string]int{}
	add := func(name string, boost float32) {
		if i, ok := at[name]; ok {
			out[i].Boost = float32(out[i].Boost * boost)
			return
		}
		at[name] = len(out)
		out = append(out, FieldBoost{name, boost})
	}
	for _, f := range list {
		boost := f.Boost
		if boost == 0 {
			boost = 1
		}
		if !strings.Contains(f.Name, "*") {
			_, found, err := l.field(f.Name)
			if err != nil {
				return nil, err
			}
			add(found.Name, boost)
			continue
		}
		for _, have := range l.schema.Fields {
			if ok, _ := path.Match(strings.ToLower(strings.ReplaceAll(strings.ReplaceAll(f.Name, "[", `\[`), "?", `\?`)), strings.ToLower(have.Name)); ok {
				add(have.Name, boost)
			}
		}
	}
	return out, nil
}

func (l *lowering) analyzer(f *Field, name string) (*analysis.Analyzer, error) {
	switch {
	case name != "":
		return analysis.Find(name)
	case f.Search != nil:
		return f.Search, nil
	}
	return f.Analyzer, nil
}

// lower gives nil for a node that is as if it were not there.
func (l *lowering) lower(n Node) (primitive.Node, error) {
	if l.depth++; l.depth > l.schema.Limits.depth() {
		return nil, errs.New(errs.Exhausted, opLower, fmt.Sprintf("the query is nested deeper than %d", l.schema.Limits.depth()))
	}
	defer func() { l.depth-- }()
	if err := l.count(1); err != nil {
		return nil, err
	}
	switch n := n.(type) {
	case nil:
		return nil, invalid("a query is missing")
	case MatchAll:
		return primitive.All{}, nil
	case MatchNone:
		return primitive.None{Reason: "match_none"}, nil
	case Term:
		i, _, err := l.field(n.Field)
		return primitive.Term{Field: i, Term: n.Text}, err
	case Terms:
		return l.terms(n)
	case Match:
		return l.match(n.Field, n.Text, n.Options, false)
	case BoolPrefix:
		return l.match(n.Field, n.Text, n.Options, true)
	case Phrase:
		return l.phrase(PhrasePrefix{Field: n.Field, Text: n.Text, Slop: n.Slop, Analyzer: n.Analyzer, ZeroTerms: n.ZeroTerms}, false)
	case PhrasePrefix:
		return l.phrase(n, true)
	case Prefix, Wildcard, Regexp, Range:
		return l.pattern(n)
	case Fuzzy:
		i, f, err := l.field(n.Field)
		if err != nil {
			return nil, err
		}
		if n.Fold {
			a, _ := l.analyzer(f, "")
			n.Text = normalize(a, n.Text)
		}
		return fuzzy(i, n.Text, n.Fuzziness)
	case Exists:
		i, _, err := l.field(n.Field)
		return primitive.Exists{Field: i}, err
	case Bool:
		return l.bool(n)
	case Not:
		inner, err := l.lower(n.Node)
		if inner == nil || err != nil {
			return nil, err
		}
		return primitive.Bool{Clauses: []primitive.Clause{{Occur: primitive.MustNot, Node: inner}, {Occur: primitive.Should, Node: primitive.All{}}}}, nil
	case Boost:
		if !(n.Factor >= 0) || math.IsInf(float64(n.Factor), 0) {
			return nil, invalid("a boost is a number that is not negative, not %v", n.Factor)
		}
		inner, err := l.lower(n.Node)
		if inner == nil || err != nil {
			return nil, err
		}
		return primitive.Boost{Node: inner, Factor: n.Factor}, nil
	case ConstantScore:
		inner, err := l.lower(n.Node)
		if inner == nil || err != nil {
			return nil, err
		}
		return primitive.Constant{Node: inner}, nil
	case DisMax:
		if !(n.TieBreaker >= 0) || math.IsInf(float64(n.TieBreaker), 0) {
			return nil, invalid("tie_breaker is a number that is not negative, not %v", n.TieBreaker)
		}
		return l.disMax(n.Nodes, n.TieBreaker)
	case InFields:
		return l.inFields(n)
	case MultiMatch:
		return l.multiMatch(n)
	case FunctionScore:
		return l.function(n)
	case MoreLikeThis:
		return l.moreLike(n)
	case Lenient:
		inner, err := l.lower(n.Node)
		if errs.Is(err, errs.NotFound) || errs.Is(err, errs.Invalid) || errs.Is(err, errs.Unsupported) {
			return primitive.None{Reason: err.Error()}, nil
		}
		return inner, err
	case Sequence:
		return l.sequence(n)
	}
	return nil, errs.New(errs.Unsupported, opLower, fmt.Sprintf("a query of the form %T is not known", n))
}

func (l *lowering) disMax(nodes []Node, tie float32) (primitive.Node, error) {
	out := primitive.DisMax{TieBreaker: tie}
	for _, c := range nodes {
		inner, err := l.lower(c)
		if err != nil {
			return nil, err
		}
		if inner != nil {
			out.Nodes = append(out.Nodes, inner)
		}
	}
	switch {
	case len(out.Nodes) == 0 && len(nodes) > 0:
		return nil, nil
	case len(out.Nodes) == 1:
		return out.Nodes[0], nil
	}
	return out, nil
}

func (l *lowering) terms(n Terms) (primitive.Node, error) {
	i, _, err := l.field(n.Field)
	if err != nil {
		return nil, err
	}
	if limit := l.schema.Limits.terms(); len(n.Texts) > limit {
		return nil, errs.New(errs.Exhausted, opLower, fmt.Sprintf("%d terms are more than %d", len(n.Texts), limit), errs.On(n.Field))
	}
	if len(n.Texts) == 0 {
		return primitive.None{Reason: "no terms"}, nil
	}
	return primitive.TermSet{Field: i, Terms: n.Texts}, nil
}

// one is the query for what stands at one place of a text.
func one(field int, terms []string, f *Fuzziness) (primitive.Node, error) {
	switch {
	case len(terms) > 1:
		return primitive.Synonym{Field: field, Terms: terms}, nil
	case f != nil:
		return fuzzy(field, terms[0], *f)
	}
	return primitive.Term{Field: field, Term: terms[0]}, nil
}

func fuzzy(field int, term string, f Fuzziness) (primitive.Node, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	edits := f.edits(term)
	a, err := automaton.Fuzzy(term, edits, f.PrefixLength, !f.NoTranspositions)
	if err != nil {
		return nil, err
	}
	return primitive.Fuzzy{Field: field, Term: term, Edits: edits, PrefixLength: f.PrefixLength, MaxExpansions: expansions(f.MaxExpansions),
		Transpositions: !f.NoTranspositions, Automaton: a}, nil
}

func zero(z ZeroTerms) primitive.Node {
	switch z {
	case ZeroAll:
		return primitive.All{}
	case ZeroSkip:
		return nil
	}
	return primitive.None{Reason: "no terms"}
}

func (l *lowering) match(field, text string, o MatchOptions, prefix bool) (primitive.Node, error) {
	i, f, err := l.field(field)
	if err != nil {
		return nil, err
	}
	a, err := l.analyzer(f, o.Analyzer)
	if err != nil {
		return nil, err
	}
	g, err := l.analyze(a, text)
	if err != nil {
		return nil, err
	}
	if o.MinimumShouldMatch != "" { // also where it does not matter, so that a wrong one is never silent
		if _, err := bm25.MinimumShouldMatch(1, o.MinimumShouldMatch); err != nil {
			return nil, err
		}
	}
	if len(g) == 0 {
		return zero(o.ZeroTerms), nil
	}
	out := primitive.Bool{}
	occur := primitive.Should
	if o.All {
		occur = primitive.Must
	}
	stretches := g.stretches()
	for p, part := range stretches {
		var n primitive.Node
		switch {
		case part.branches():
			paths, err := l.paths(part)
			if err != nil {
				return nil, err
			}
			var ways []primitive.Node
			for _, path := range paths {
				way, err := l.way(i, f, path)
				if err != nil {
					return nil, err
				}
				ways = append(ways, way)
			}
			n = should(ways)
		case prefix && p == len(stretches)-1:
			var ends []primitive.Node
			for _, t := range part.terms() {
				ends = append(ends, prefixOf(i, t))
			}
			if n = ends[0]; len(ends) > 1 {
				n = primitive.Constant{Node: should(ends)}
			}
		default:
			if n, err = one(i, part.terms(), o.Fuzziness); err != nil {
				return nil, err
			}
		}
		out.Clauses = append(out.Clauses, primitive.Clause{Occur: occur, Node: n})
	}
	return withMinimum(out, o.MinimumShouldMatch)
}

func should(nodes []primitive.Node) primitive.Node {
	var b primitive.Bool
	for _, n := range nodes {
		b.Clauses = append(b.Clauses, primitive.Clause{Occur: primitive.Should, Node: n})
	}
	return b
}

// withMinimum applies a minimum to the Should clauses of a Bool. One clause is not a Bool to Elasticsearch.
func withMinimum(b primitive.Bool, spec string) (primitive.Node, error) {
	if len(b.Clauses) == 1 && b.Clauses[0].Occur != primitive.MustNot {
		return b.Clauses[0].Node, nil
	}
	return minimum(b, spec)
}

func minimum(b primitive.Bool, spec string) (primitive.Bool, error) {
	if spec == "" {
		return b, nil
	}
	n := 0
	for _, c := range b.Clauses {
		if c.Occur == primitive.Should {
			n++
		}
	}
	m, err := bm25.MinimumShouldMatch(n, spec)
	if err != nil || n == 0 {
		return b, err
	}
	b.Min = m
	return b, nil
}

func prefixOf(field int, text string) primitive.Multi {
	return primitive.Multi{Field: field, Automaton: automaton.Prefix([]byte(text)), Label: text + "*"}
}

func (l *lowering) phrase(n PhrasePrefix, prefix bool) (primitive.Node, error) {
	i, f, err := l.field(n.Field)
	if err != nil {
		return nil, err
	}
	a, err := l.analyzer(f, n.Analyzer)
	if err != nil {
		return nil, err
	}
	if n.Slop < 0 || n.MaxExpansions < 0 {
		return nil, invalid("slop and max_expansions are not negative")
	}
	g, err := l.analyze(a, n.Text)
	if err != nil {
		return nil, err
	}
	if len(g) == 0 {
		return zero(n.ZeroTerms), nil
	}
	ways := [][]primitive.Part{g.parts()}
	if g.branches() {
		if ways, err = l.paths(g); err != nil {
			return nil, err
		}
	}
	var nodes []primitive.Node
	for _, parts := range ways {
		switch {
		case len(parts) == 1 && !prefix:
			q, err := one(i, parts[0].Terms, nil)
			if err != nil {
				return nil, err
			}
			nodes = append(nodes, q)
			continue
		case f.NoPositions && len(parts) > 1:
			return nil, noPositions(f)
		}
		out := primitive.Phrase{Field: i, Parts: parts, Slop: n.Slop, Prefixes: prefix}
		if prefix {
			out.MaxExpansions = expansions(n.MaxExpansions)
		}
		nodes = append(nodes, out)
	}
	if len(nodes) == 1 {
		return nodes[0], nil
	}
	return should(nodes), nil
}

func noPositions(f *Field) error {
	return errs.New(errs.Unsupported, opLower, "the index of the field keeps no positions, so it cannot find phrases", errs.On(f.Name),
		errs.Hint("index the field with positions, or ask for all terms in any order"))
}

// way is one way through a stretch of a text: a term, or a phrase.
func (l *lowering) way(field int, f *Field, parts []primitive.Part) (primitive.Node, error) {
	if len(parts) == 1 {
		return one(field, parts[0].Terms, nil)
	}
	if f.NoPositions {
		return nil, noPositions(f)
	}
	return primitive.Phrase{Field: field, Parts: parts}, nil
}

// normalize folds a term that is not analyzed as the analyzer folds words: lower case, or not.
func normalize(a *analysis.Analyzer, text string) string {
	var s analysis.Stream
	if s.Reset(a, "Qx"); s.Next() && string(s.Term) == "qx" {
		return strings.ToLower(text)
	}
	return text
}

func (l *lowering) pattern(n Node) (primitive.Node, error) {
	var name string
	switch n := n.(type) {
	case Prefix:
		name = n.Field
	case Wildcard:
		name = n.Field
	case Regexp:
		name = n.Field
	case Range:
		name = n.Field
	}
	i, f, err := l.field(name)
	if err != nil {
		return nil, err
	}
	out := primitive.Multi{Field: i}
	fold := false
	a, err := l.analyzer(f, "")
	if err != nil {
		return nil, err
	}
	switch n := n.(type) {
	case Prefix:
		if n.Fold {
			n.Text = normalize(a, n.Text)
		}
		if out.Label, fold = n.Text+"*", n.CaseInsensitive; fold {
			out.Automaton, err = automaton.FoldedPrefix(n.Text)
		} else {
			out.Automaton = automaton.Prefix([]byte(n.Text))
		}
	case Wildcard:
		p := normalize(a, n.Pattern)
		out.Label, fold = p, n.CaseInsensitive
		out.Automaton, err = automaton.Wildcard(p, fold)
	case Regexp:
		out.Label, fold = "/"+n.Pattern+"/", n.CaseInsensitive
		out.Automaton, err = automaton.Regexp(n.Pattern, fold)
	case Range:
		b := automaton.Bounds{ExcludeFrom: n.ExcludeFrom, ExcludeTo: n.ExcludeTo}
		from, to := "[*", "*]"
		if n.Fold {
			n.From, n.To = folded(a, n.From), folded(a, n.To)
		}
		if n.From != nil {
			b.From = []byte(*n.From)
			if from = "[" + *n.From; n.ExcludeFrom {
				from = "{" + *n.From
			}
		}
		if n.To != nil {
			b.To = []byte(*n.To)
			if to = *n.To + "]"; n.ExcludeTo {
				to = *n.To + "}"
			}
		}
		out.Label, out.Automaton = from+" TO "+to, automaton.Range(b)
	}
	if fold {
		out.Label += " (any case)"
	}
	return out, err
}

func (l *lowering) bool(n Bool) (primitive.Node, error) {
	var out primitive.Bool
	total := 0
	for _, group := range []struct {
		occur primitive.Occur
		nodes []Node
	}{{primitive.Must, n.Must}, {primitive.MustNot, n.MustNot}, {primitive.Should, n.Should}, {primitive.Filter, n.Filter}} {
		for _, c := range group.nodes {
			total++
			inner, err := l.lower(c)
			if err != nil {
				return nil, err
			}
			if inner != nil {
				out.Clauses = append(out.Clauses, primitive.Clause{Occur: group.occur, Node: inner})
			}
		}
	}
	if n.MinimumShouldMatch != "" {
		if _, err := bm25.MinimumShouldMatch(1, n.MinimumShouldMatch); err != nil {
			return nil, err
		}
	}
	switch {
	case total == 0:
		return primitive.All{}, nil
	case len(out.Clauses) == 0:
		return nil, nil
	}
	return minimum(negative(out), n.MinimumShouldMatch)
}

// negative lets a Bool that only prohibits match everything else, with the score 0.
func negative(b primitive.Bool) primitive.Bool {
	for _, c := range b.Clauses {
		if c.Occur != primitive.MustNot {
			return b
		}
	}
	b.Clauses = append(b.Clauses[:len(b.Clauses):len(b.Clauses)], primitive.Clause{Occur: primitive.Filter, Node: primitive.All{}})
	return b
}

// sequence joins clauses by the rules of Lucene's classic parser.
func (l *lowering) sequence(n Sequence) (primitive.Node, error) {
	var out primitive.Bool
	var single primitive.Node
	add := func(o primitive.Occur, c primitive.Node) {
		out.Clauses = append(out.Clauses, primitive.Clause{Occur: o, Node: c})
	}
	for i, c := range n.Clauses {
		inner, err := l.lower(c.Node)
		if err != nil {
			return nil, err
		}
		if last := len(out.Clauses) - 1; last >= 0 && out.Clauses[last].Occur != primitive.MustNot {
			switch {
			case c.Join == JoinAnd:
				out.Clauses[last].Occur = primitive.Must
			case c.Join == JoinOr && n.All:
				out.Clauses[last].Occur = primitive.Should
			}
		}
		if inner == nil {
			continue
		}
		if i == 0 && c.Sign == SignNone {
			single = inner
		}
		occur := primitive.Should
		switch {
		case c.Sign == SignNot:
			occur = primitive.MustNot
		case c.Sign == SignPlus, c.Join == JoinAnd, n.All && c.Join != JoinOr:
			occur = primitive.Must
		}
		if !c.Words {
			add(occur, inner)
			continue
		}
		if n.All {
			occur = primitive.Must
		} else {
			occur = primitive.Should
		}
		b, many := inner.(primitive.Bool)
		if !many {
			add(occur, inner)
			continue
		}
		plain := true
		for _, t := range b.Clauses {
			if _, ok := t.Node.(primitive.Term); !ok {
				plain = false
			}
		}
		for _, t := range b.Clauses {
			if plain || t.Occur == primitive.MustNot {
				add(t.Occur, t.Node)
			} else {
				add(occur, t.Node)
			}
		}
	}
	if n.MinimumShouldMatch != "" {
		if _, err := bm25.MinimumShouldMatch(1, n.MinimumShouldMatch); err != nil {
			return nil, err
		}
	}
	switch {
	case len(out.Clauses) == 0:
		return nil, nil
	case len(out.Clauses) == 1 && single != nil:
		if n.Top {
			return minimumInside(single, n.MinimumShouldMatch)
		}
		return single, nil
	}
	if n.Top {
		out = negative(out)
		return minimum(out, n.MinimumShouldMatch)
	}
	return out, nil
}

// minimumInside applies a minimum to a Bool, also below boosts.
func minimumInside(n primitive.Node, spec string) (primitive.Node, error) {
	switch n := n.(type) {
	case primitive.Bool:
		return minimum(n, spec)
	case primitive.Boost:
		inner, err := minimumInside(n.Node, spec)
		return primitive.Boost{Node: inner, Factor: n.Factor}, err
	}
	return n, nil
}

func folded(a *analysis.Analyzer, text *string) *string {
	if text == nil {
		return nil
	}
	s := normalize(a, *text)
	return &s
}

// inFields is a node in each of several fields.
func (l *lowering) inFields(n InFields) (primitive.Node, error) {
	fields, err := l.fields(n.Fields)
	if err != nil {
		return nil, err
	}
	var nodes []Node
	for _, f := range fields {
		var one Node
		switch x := n.Node.(type) {
		case Term:
			x.Field = f.Name
			one = x
		case Terms:
			x.Field = f.Name
			one = x
		case Prefix:
			x.Field = f.Name
			one = x
		case Wildcard:
			x.Field = f.Name
			one = x
		case Regexp:
			x.Field = f.Name
			one = x
		case Fuzzy:
			x.Field = f.Name
			one = x
		case Range:
			x.Field = f.Name
			one = x
		case Exists:
			x.Field = f.Name
			one = x
		default:
			return nil, errs.New(errs.Unsupported, opLower, fmt.Sprintf("a query of the form %T is not for several fields", x))
		}
		if f.Boost != 1 {
			one = Boost{one, f.Boost}
		}
		nodes = append(nodes, one)
	}
	if len(nodes) == 0 {
		return primitive.None{Reason: "no fields"}, nil
	}
	return l.lower(DisMax{Nodes: nodes, TieBreaker: n.TieBreaker})
}

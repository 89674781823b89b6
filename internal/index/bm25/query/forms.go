package query

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25"
	"github.com/overlakedb/overlake/internal/index/bm25/primitive"
)

func (l *lowering) multiMatch(n MultiMatch) (primitive.Node, error) {
	kind := n.Type
	if kind == "" {
		kind = BestFields
	}
	if !slices.Contains(MultiTypes, kind) {
		names := make([]string, len(MultiTypes))
		for i, t := range MultiTypes {
			names[i] = string(t)
		}
		return nil, errs.New(errs.Invalid, opLower, "there is no such type of multi_match", errs.On(string(kind)), errs.Hint("use one of %s", strings.Join(names, ", ")))
	}
	fields, err := l.fields(n.Fields)
	if err != nil {
		return nil, err
	}
	if len(fields) == 0 {
		return primitive.None{Reason: "no fields"}, nil
	}
	if n.Options.Fuzziness != nil && (kind == CrossFields || kind == PhraseFields || kind == PhrasePrefixField) {
		return nil, invalid("fuzziness is not allowed for the type %s", kind)
	}
	tie := float32(0)
	if kind == MostFields || kind == BoolPrefixFields {
		tie = 1
	}
	if n.TieBreaker != nil {
		tie = *n.TieBreaker
	}
	if !(tie >= 0) || math.IsInf(float64(tie), 0) {
		return nil, invalid("tie_breaker is a number that is not negative, not %v", tie)
	}
	if kind == CrossFields {
		return l.crossFields(n, fields, tie)
	}
	nodes := make([]Node, 0, len(fields))
	for _, f := range fields {
		var q Node
		switch kind {
		case PhraseFields:
			q = Phrase{Field: f.Name, Text: n.Text, Slop: n.Slop, Analyzer: n.Options.Analyzer, ZeroTerms: n.Options.ZeroTerms}
		case PhrasePrefixField:
			q = PhrasePrefix{Field: f.Name, Text: n.Text, Slop: n.Slop, MaxExpansions: n.MaxExpansions, Analyzer: n.Options.Analyzer, ZeroTerms: n.Options.ZeroTerms}
		case BoolPrefixFields:
			q = BoolPrefix{Field: f.Name, Text: n.Text, Options: n.Options}
		default:
			q = Match{Field: f.Name, Text: n.Text, Options: n.Options}
		}
		if f.Boost != 1 {
			q = Boost{q, f.Boost}
		}
		nodes = append(nodes, q)
	}
	return l.disMax(nodes, tie)
}

// crossFields takes fields with one analyzer together: every place of the text is looked for in all of them.
func (l *lowering) crossFields(n MultiMatch, fields []FieldBoost, tie float32) (primitive.Node, error) {
	type group struct {
		a      *analysis.Analyzer
		fields []FieldBoost
	}
	var groups []*group
	for _, f := range fields {
		_, field, err := l.field(f.Name)
		if err != nil {
			return nil, err
		}
		a, err := l.analyzer(field, n.Options.Analyzer)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(groups, func(g *group) bool { return g.a == a })
		if i < 0 {
			i = len(groups)
			groups = append(groups, &group{a: a})
		}
		groups[i].fields = append(groups[i].fields, f)
	}
	if n.Options.MinimumShouldMatch != "" {
		if _, err := bm25.MinimumShouldMatch(1, n.Options.MinimumShouldMatch); err != nil {
			return nil, err
		}
	}
	out := primitive.DisMax{TieBreaker: tie}
	for _, g := range groups {
		if len(g.fields) == 1 {
			q, err := l.match(g.fields[0].Name, n.Text, n.Options, false)
			if err != nil {
				return nil, err
			}
			if q != nil {
				out.Nodes = append(out.Nodes, primitive.Boost{Node: q, Factor: g.fields[0].Boost})
			}
			continue
		}
		tokens, err := l.analyze(g.a, n.Text)
		if err != nil {
			return nil, err
		}
		parts := tokens.parts()
		if len(parts) == 0 {
			if z := zero(n.Options.ZeroTerms); z != nil {
				out.Nodes = append(out.Nodes, z)
			}
			continue
		}
		var b primitive.Bool
		for _, p := range parts {
			blend := primitive.Blended{TieBreaker: tie}
			for _, t := range p.Terms {
				for _, f := range g.fields {
					i, _, err := l.field(f.Name)
					if err != nil {
						return nil, err
					}
					blend.Terms = append(blend.Terms, primitive.BlendedTerm{Field: i, Term: t, Boost: f.Boost})
				}
			}
			if err := l.count(len(blend.Terms)); err != nil {
				return nil, err
			}
			occur := primitive.Should
			if n.Options.All {
				occur = primitive.Must
			}
			b.Clauses = append(b.Clauses, primitive.Clause{Occur: occur, Node: blend})
		}
		q, err := withMinimum(b, n.Options.MinimumShouldMatch)
		if err != nil {
			return nil, err
		}
		out.Nodes = append(out.Nodes, q)
	}
	if len(out.Nodes) == 0 {
		return nil, nil
	}
	return out, nil
}

func (l *lowering) function(n FunctionScore) (primitive.Node, error) {
	if err := n.ScoreMode.Check(); err != nil {
		return nil, err
	}
	if err := n.BoostMode.Check(); err != nil {
		return nil, err
	}
	q := n.Query
	if q == nil {
		q = MatchAll{}
	}
	inner, err := l.lower(q)
	if inner == nil || err != nil {
		return nil, err
	}
	out := primitive.Function{Query: inner, ScoreMode: n.ScoreMode, BoostMode: n.BoostMode, MaxBoost: math.MaxFloat32, MinScore: n.MinScore}
	if n.MaxBoost != nil {
		if out.MaxBoost = *n.MaxBoost; !(out.MaxBoost >= 0) {
			return nil, invalid("max_boost is a number that is not negative, not %v", out.MaxBoost)
		}
	}
	if len(n.Functions) == 0 { // nothing changes the score but the minimum
		out.BoostMode = primitive.BoostMultiply
	}
	for _, f := range n.Functions {
		if f.Score == nil && f.Weight == nil {
			return nil, invalid("a function needs a score or a weight")
		}
		if f.Weight != nil && (!(*f.Weight >= 0) || math.IsInf(float64(*f.Weight), 0)) {
			return nil, invalid("a weight is a number that is not negative, not %v", *f.Weight)
		}
		if f.Score != nil {
			if err := f.Score.Check(); err != nil {
				return nil, err
			}
		}
		p := primitive.RowFunction{Score: f.Score, Weight: f.Weight}
		if f.Filter != nil {
			if p.Filter, err = l.lower(f.Filter); err != nil {
				return nil, err
			}
			if p.Filter == nil {
				p.Filter = primitive.None{Reason: "no terms"}
			}
		}
		out.Functions = append(out.Functions, p)
	}
	return out, nil
}

func (l *lowering) moreLike(n MoreLikeThis) (primitive.Node, error) {
	o := n.Options
	if o.MaxQueryTerms < 0 || o.MinTermFreq < 0 || o.MinDocFreq < 0 || o.MaxDocFreq < 0 || o.MinWordLength < 0 || o.MaxWordLength < 0 || !(o.BoostTerms >= 0) {
		return nil, invalid("the options of more_like_this are not negative")
	}
	if len(n.Fields) == 0 || len(n.Like) == 0 {
		return nil, invalid("more_like_this needs fields and texts")
	}
	share := o.MinimumShouldMatch
	if share == "" {
		share = "30%"
	}
	if _, err := bm25.MinimumShouldMatch(1, share); err != nil {
		return nil, err
	}
	out := primitive.MoreLike{MaxTerms: or(o.MaxQueryTerms, 25), MinTermFreq: or(o.MinTermFreq, 2), MinDocFreq: int64(or(o.MinDocFreq, 5)), MaxDocFreq: int64(or(o.MaxDocFreq, math.MaxInt)),
		BoostTerms: o.BoostTerms, MinimumOptional: func(n int) (int, error) { return bm25.MinimumShouldMatch(n, share) }, Minimum: share}
	stop := map[string]bool{}
	for _, w := range o.StopWords {
		stop[w] = true
	}
	for _, name := range n.Fields {
		i, f, err := l.field(name)
		if err != nil {
			return nil, err
		}
		a, err := l.analyzer(f, o.Analyzer)
		if err != nil {
			return nil, err
		}
		skip := map[string]bool{}
		for _, text := range n.Unlike {
			tokens, err := l.analyze(a, text)
			if err != nil {
				return nil, err
			}
			for _, k := range tokens {
				skip[k.term] = true
			}
		}
		at := map[string]int{}
		for _, text := range n.Like {
			tokens, err := l.analyze(a, text)
			if err != nil {
				return nil, err
			}
			for _, k := range tokens {
				t := k.term
				size := utf8.RuneCountInString(t)
				if skip[t] || stop[t] || size < o.MinWordLength || o.MaxWordLength > 0 && size > o.MaxWordLength {
					continue
				}
				j, ok := at[t]
				if !ok {
					j = len(out.Counts)
					at[t] = j
					out.Counts = append(out.Counts, primitive.LikeTerm{Field: i, Term: t})
				}
				out.Counts[j].Freq++
			}
		}
	}
	out.Counts = slices.DeleteFunc(out.Counts, func(t primitive.LikeTerm) bool { return t.Freq < out.MinTermFreq })
	if len(out.Counts) == 0 {
		return primitive.None{Reason: fmt.Sprintf("no term stands %d times in the texts", out.MinTermFreq)}, nil
	}
	return out, nil
}

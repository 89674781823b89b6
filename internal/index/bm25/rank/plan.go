package rank

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"sync"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25"
	"github.com/overlakedb/overlake/internal/index/bm25/automaton"
	"github.com/overlakedb/overlake/internal/index/bm25/posting"
	"github.com/overlakedb/overlake/internal/index/bm25/primitive"
)

// Plan is what must be known before a query can be scored. It is immutable and safe for concurrent use.
type Plan struct {
	node   primitive.Node
	fields []Field

	terms    [][]string // per field, sorted: what is looked up
	patterns []pattern  // what is expanded into terms
	sets     []set      // what is matched while rows are searched
	exact    bool       // a pattern or phrase needs positions
}

// pattern is expanded into the best terms of the dictionaries.
type pattern struct {
	key    string
	field  int
	a      *automaton.Automaton
	limit  int
	fuzzy  *primitive.Fuzzy // nil: the first terms count
	target []rune           // of fuzzy
}

type set struct {
	field int
	a     *automaton.Automaton
}

// NewPlan looks through a query, such as query.Lower gives.
func NewPlan(n primitive.Node, fields []Field) (*Plan, error) {
	p := &Plan{node: n, fields: fields, terms: make([][]string, len(fields))}
	for _, f := range fields {
		if err := f.params().Check(); err != nil {
			return nil, errs.With(err, errs.On(f.Name))
		}
	}
	if err := p.visit(n); err != nil {
		return nil, err
	}
	for i := range p.terms {
		slices.Sort(p.terms[i])
		p.terms[i] = slices.Compact(p.terms[i])
	}
	// What a query says twice is expanded once.
	seen := map[string]bool{}
	p.patterns = slices.DeleteFunc(p.patterns, func(x pattern) bool {
		twice := seen[x.key]
		seen[x.key] = true
		return twice
	})
	return p, nil
}

func (p *Plan) need(field int, terms ...string) error {
	if field < 0 || field >= len(p.fields) {
		return errs.Newf(errs.Internal, "rank.plan", "there is no field %d", field)
	}
	p.terms[field] = append(p.terms[field], terms...)
	return nil
}

func (p *Plan) visit(n primitive.Node) error {
	switch n := n.(type) {
	case primitive.None, primitive.All:
		return nil
	case primitive.Term:
		return p.need(n.Field, n.Term)
	case primitive.Synonym:
		return p.need(n.Field, n.Terms...)
	case primitive.TermSet:
		return p.need(n.Field, n.Terms...)
	case primitive.Exists:
		return p.need(n.Field)
	case primitive.Phrase:
		if err := p.need(n.Field); err != nil {
			return err
		}
		p.exact = p.exact || len(n.Parts) > 1
		for i, part := range n.Parts {
			if !n.Prefixes || i < len(n.Parts)-1 {
				if err := p.need(n.Field, part.Terms...); err != nil {
					return err
				}
				continue
			}
			for _, t := range part.Terms {
				p.patterns = append(p.patterns, pattern{key: prefixKey(n, t), field: n.Field, a: automaton.Prefix([]byte(t)), limit: n.MaxExpansions})
			}
		}
		return nil
	case primitive.Multi:
		p.sets = append(p.sets, set{n.Field, n.Automaton})
		return p.need(n.Field)
	case primitive.Fuzzy:
		p.patterns = append(p.patterns, pattern{key: primitive.Key(n), field: n.Field, a: n.Automaton, limit: n.MaxExpansions, fuzzy: &n, target: []rune(n.Term)})
		return p.need(n.Field)
	case primitive.Blended:
		for _, t := range n.Terms {
			if err := p.need(t.Field, t.Term); err != nil {
				return err
			}
		}
		return nil
	case primitive.Bool:
		for _, c := range n.Clauses {
			if err := p.visit(c.Node); err != nil {
				return err
			}
		}
		return nil
	case primitive.Boost:
		return p.visit(n.Node)
	case primitive.Constant:
		return p.visit(n.Node)
	case primitive.DisMax:
		for _, c := range n.Nodes {
			if err := p.visit(c); err != nil {
				return err
			}
		}
		return nil
	case primitive.MoreLike:
		for _, t := range n.Counts {
			if err := p.need(t.Field, t.Term); err != nil {
				return err
			}
		}
		return nil
	case primitive.Function:
		for _, f := range n.Functions {
			if f.Filter != nil {
				if err := p.visit(f.Filter); err != nil {
					return err
				}
			}
		}
		return p.visit(n.Query)
	}
	return errs.New(errs.Internal, "rank.plan", fmt.Sprintf("a node of the form %T cannot be run", n))
}

func prefixKey(n primitive.Phrase, prefix string) string {
	return fmt.Sprintf("%d:%q*/%d", n.Field, prefix, n.MaxExpansions)
}

// Positions reports whether the query needs the positions of terms.
func (p *Plan) Positions() bool { return p.exact }

// Expands reports whether terms of the dictionaries stand for a part of the query. Then the statistics say which rows match;
// else they say only how well.
func (p *Plan) Expands() bool { return len(p.patterns) > 0 }

// Keep makes a function that says which terms the query may ask a source for. It is for one goroutine. A source that holds
// only the postings of those terms gives the same answers.
func (p *Plan) Keep() func(field int, term []byte) bool {
	type matcher struct {
		exact bm25.TermIndex
		all   []*automaton.Matcher
	}
	fields := make([]matcher, len(p.fields))
	for i, terms := range p.terms {
		for _, t := range terms {
			fields[i].exact.Add(t)
		}
	}
	for _, s := range p.sets {
		fields[s.field].all = append(fields[s.field].all, s.a.Matcher())
	}
	for _, s := range p.patterns {
		fields[s.field].all = append(fields[s.field].all, s.a.Matcher())
	}
	return func(field int, term []byte) bool {
		f := &fields[field]
		if f.exact.Find(term) >= 0 {
			return true
		}
		for _, m := range f.all {
			if m.Match(term) {
				return true
			}
		}
		return false
	}
}

// counts are the numbers of a term over the sources.
type counts struct{ docs, total int64 }

// expansion is a term that stands for a pattern.
type expansion struct {
	term  string
	boost float32 // how similar it is; less than 0 may be
	n     counts
	at    posting.Term // in the one source that it was gathered from
}

// Statistics are what a plan needs to know of its sources.
type Statistics struct {
	rows     int64
	fields   []posting.Stats
	terms    []map[string]counts
	expanded map[string][]expansion

	// located are the terms of each source, per field, so that a search need not look them up again. Sources that cannot be
	// compared are not in it.
	located map[posting.Source][]map[string]posting.Term
}

// Gather reads the statistics of one source: one lookup for each field, and a walk for each pattern.
func (p *Plan) Gather(ctx context.Context, s posting.Source) (*Statistics, error) {
	st := &Statistics{rows: int64(s.Rows()), fields: make([]posting.Stats, len(p.fields)), terms: make([]map[string]counts, len(p.fields)), expanded: map[string][]expansion{}}
	located := make([]map[string]posting.Term, len(p.fields))
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for i := range p.fields {
		located[i] = map[string]posting.Term{}
		st.fields[i] = s.Stats(i)
		st.terms[i] = make(map[string]counts, len(p.terms[i]))
		if len(p.terms[i]) == 0 {
			continue
		}
		g.Go(func() error {
			found, err := s.Lookup(ctx, i, bytesOf(p.terms[i]))
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			for j, t := range found {
				if t.DocFreq > 0 {
					st.terms[i][p.terms[i][j]] = counts{t.DocFreq, t.TotalFreq}
					located[i][p.terms[i][j]] = t
				}
			}
			return nil
		})
	}
	for _, x := range p.patterns {
		g.Go(func() error {
			var found []expansion
			err := automaton.Each(ctx, s, x.field, x.a, func(term []byte, t posting.Term) bool {
				found = append(found, expansion{string(term), x.boost(term), counts{t.DocFreq, t.TotalFreq}, t})
				if x.fuzzy == nil {
					return len(found) < x.limit
				}
				if len(found) >= 2*x.limit+64 {
					found = x.best(found)
				}
				return true
			})
			if err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return errs.Wrap(errs.Canceled, "rank.gather", err)
			}
			mu.Lock()
			defer mu.Unlock()
			st.expanded[x.key] = x.best(found)
			for _, e := range st.expanded[x.key] {
				located[x.field][e.term] = e.at
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if reflect.ValueOf(s).Comparable() {
		st.located = map[posting.Source][]map[string]posting.Term{s: located}
	}
	return st, nil
}

// Docs is the number of rows with a term in a field.
func (st *Statistics) Docs(field int) int64 { return st.fields[field].Docs }

// Unlocated is the statistics without the source they were gathered from, for a source that is not kept.
func (st *Statistics) Unlocated() *Statistics {
	out := *st
	out.located = nil
	return &out
}

func bytesOf(terms []string) [][]byte {
	out := make([][]byte, len(terms))
	for i, t := range terms {
		out[i] = []byte(t)
	}
	return out
}

// boost is how similar a term is: Lucene's FuzzyTermsEnum.
func (x *pattern) boost(term []byte) float32 {
	if x.fuzzy == nil {
		return 0
	}
	edits := automaton.Distance([]rune(string(term)), x.target, x.fuzzy.Edits, x.fuzzy.Transpositions)
	if edits == 0 {
		return 1
	}
	n := min(utf8.RuneCount(term), len(x.target))
	return 1 - float32(edits)/float32(n)
}

// best cuts expansions down to the limit: the most similar, then the first by bytes.
func (x *pattern) best(list []expansion) []expansion {
	slices.SortFunc(list, func(a, b expansion) int {
		if c := cmp.Compare(b.boost, a.boost); c != 0 {
			return c
		}
		return cmp.Compare(a.term, b.term)
	})
	return slices.Clip(list[:min(len(list), x.limit)])
}

// GatherAll gathers over all segments, several at a time.
func (p *Plan) GatherAll(ctx context.Context, segments []Segment) (*Statistics, error) {
	all := make([]*Statistics, len(segments))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for i, s := range segments {
		g.Go(func() (err error) {
			all[i], err = p.Gather(ctx, s.Source)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	st := p.Empty()
	for _, o := range all {
		p.Merge(st, o)
	}
	return st, nil
}

// Empty are the statistics of no source, to merge others into.
func (p *Plan) Empty() *Statistics {
	st := &Statistics{fields: make([]posting.Stats, len(p.fields)), terms: make([]map[string]counts, len(p.fields)), expanded: map[string][]expansion{}, located: map[posting.Source][]map[string]posting.Term{}}
	for i := range st.terms {
		st.terms[i] = map[string]counts{}
	}
	return st
}

// Merge adds the statistics of another source to st, which Empty made.
func (p *Plan) Merge(st, o *Statistics) {
	st.rows += o.rows
	maps.Copy(st.located, o.located)
	for i := range st.fields {
		st.fields[i].Docs += o.fields[i].Docs
		st.fields[i].SumTotalTermFreq += o.fields[i].SumTotalTermFreq
		for t, n := range o.terms[i] {
			have := st.terms[i][t]
			st.terms[i][t] = counts{have.docs + n.docs, have.total + n.total}
		}
	}
	for _, x := range p.patterns {
		at := map[string]int{}
		list := slices.Clone(st.expanded[x.key])
		for i, e := range list {
			at[e.term] = i
		}
		for _, e := range o.expanded[x.key] {
			if i, ok := at[e.term]; ok {
				list[i].n.docs += e.n.docs
				list[i].n.total += e.n.total
				continue
			}
			at[e.term] = len(list)
			list = append(list, e)
		}
		st.expanded[x.key] = x.best(list)
	}
}

// expand replaces patterns by their terms.
func (p *Plan) expand(n primitive.Node, st *Statistics) (primitive.Node, error) {
	switch n := n.(type) {
	case primitive.Fuzzy:
		list := slices.Clone(st.expanded[primitive.Key(n)])
		slices.SortFunc(list, func(a, b expansion) int { return cmp.Compare(a.term, b.term) })
		docs := int64(0)
		for _, e := range list {
			docs = max(docs, e.n.docs)
		}
		var out primitive.Bool
		for _, e := range list {
			var t primitive.Node = primitive.Term{Field: n.Field, Term: e.term, DocFreq: docs}
			if b := max(e.boost, 0); b != 1 {
				t = primitive.Boost{Node: t, Factor: b}
			}
			out.Clauses = append(out.Clauses, primitive.Clause{Occur: primitive.Should, Node: t})
		}
		return out, nil
	case primitive.Phrase:
		return p.expandPhrase(n, st), nil
	case primitive.Blended:
		return p.blend(n, st), nil
	case primitive.MoreLike:
		return p.like(n, st)
	case primitive.Bool:
		out := primitive.Bool{Min: n.Min}
		for _, c := range n.Clauses {
			inner, err := p.expand(c.Node, st)
			if err != nil {
				return nil, err
			}
			out.Clauses = append(out.Clauses, primitive.Clause{Occur: c.Occur, Node: inner})
		}
		return out, nil
	case primitive.Boost:
		inner, err := p.expand(n.Node, st)
		return primitive.Boost{Node: inner, Factor: n.Factor}, err
	case primitive.Constant:
		inner, err := p.expand(n.Node, st)
		return primitive.Constant{Node: inner}, err
	case primitive.DisMax:
		out := primitive.DisMax{TieBreaker: n.TieBreaker}
		for _, c := range n.Nodes {
			inner, err := p.expand(c, st)
			if err != nil {
				return nil, err
			}
			out.Nodes = append(out.Nodes, inner)
		}
		return out, nil
	case primitive.Function:
		out := n
		out.Functions = slices.Clone(n.Functions)
		for i, f := range out.Functions {
			if f.Filter == nil {
				continue
			}
			inner, err := p.expand(f.Filter, st)
			if err != nil {
				return nil, err
			}
			out.Functions[i].Filter = inner
		}
		var err error
		out.Query, err = p.expand(n.Query, st)
		return out, err
	}
	return n, nil
}

func (p *Plan) expandPhrase(n primitive.Phrase, st *Statistics) primitive.Node {
	if n.Prefixes {
		out := n
		out.Prefixes, out.MaxExpansions = false, 0
		out.Parts = slices.Clone(n.Parts)
		last := len(out.Parts) - 1
		seen := map[string]bool{}
		var terms []string
		for _, prefix := range n.Parts[last].Terms {
			for _, e := range st.expanded[prefixKey(n, prefix)] {
				if !seen[e.term] && len(terms) < n.MaxExpansions {
					seen[e.term] = true
					terms = append(terms, e.term)
				}
			}
		}
		if len(terms) == 0 {
			return primitive.None{Reason: "no term begins so"}
		}
		out.Parts[last].Terms = terms
		n = out
	}
	if len(n.Parts) > 1 {
		return n
	}
	var out primitive.Bool
	for _, t := range n.Parts[0].Terms {
		out.Clauses = append(out.Clauses, primitive.Clause{Occur: primitive.Should, Node: primitive.Term{Field: n.Field, Term: t}})
	}
	return out
}

// blend gives the terms the document frequency of the one that is in most rows, a little more to those in fewer fields, as
// Elasticsearch's BlendedTermQuery does; none more than there are rows with the field.
func (p *Plan) blend(n primitive.Blended, st *Statistics) primitive.Node {
	docs := make([]int64, len(n.Terms))
	most, fewest := int64(0), int64(math.MaxInt64)
	for i, t := range n.Terms {
		docs[i] = st.terms[t.Field][t.Term].docs
		most = max(most, docs[i])
		if docs[i] > 0 {
			fewest = min(fewest, st.fields[t.Field].SumTotalTermFreq)
		}
	}
	limit := min(st.rows, fewest)
	order := make([]int, len(n.Terms))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(docs[b], docs[a]) })
	blended := slices.Clone(docs)
	actual, prev := min(limit, most), most
	for _, i := range order {
		if docs[i] == 0 {
			break
		}
		if prev > docs[i] {
			actual++
		}
		blended[i] = min(actual, st.fields[n.Terms[i].Field].Docs, limit)
		prev = docs[i]
	}
	out := primitive.DisMax{TieBreaker: n.TieBreaker}
	for i, t := range n.Terms {
		var q primitive.Node = primitive.Term{Field: t.Field, Term: t.Term, DocFreq: blended[i]}
		if t.Boost != 1 {
			q = primitive.Boost{Node: q, Factor: t.Boost}
		}
		out.Nodes = append(out.Nodes, q)
	}
	return out
}

// like chooses the terms that tell most: frequency in the texts times Lucene's classic idf.
func (p *Plan) like(n primitive.MoreLike, st *Statistics) (primitive.Node, error) {
	type scored struct {
		primitive.LikeTerm
		score float32
		at    int
	}
	var list []scored
	for i, t := range n.Counts {
		docs := st.terms[t.Field][t.Term].docs
		if docs == 0 || docs < n.MinDocFreq || docs > n.MaxDocFreq {
			continue
		}
		idf := float32(math.Log(float64(st.rows+1)/float64(docs+1)) + 1)
		list = append(list, scored{t, float32(t.Freq) * idf, i})
	}
	slices.SortFunc(list, func(a, b scored) int {
		if c := cmp.Compare(b.score, a.score); c != 0 {
			return c
		}
		if c := cmp.Compare(a.Field, b.Field); c != 0 {
			return c
		}
		return cmp.Compare(a.Term, b.Term)
	})
	list = list[:min(len(list), n.MaxTerms)]
	if len(list) == 0 {
		return primitive.None{Reason: "no term of the texts is frequent enough"}, nil
	}
	var out primitive.Bool
	for _, t := range list {
		var q primitive.Node = primitive.Term{Field: t.Field, Term: t.Term}
		if n.BoostTerms > 0 {
			q = primitive.Boost{Node: q, Factor: n.BoostTerms * t.score / list[0].score}
		}
		out.Clauses = append(out.Clauses, primitive.Clause{Occur: primitive.Should, Node: q})
	}
	min, err := n.MinimumOptional(len(out.Clauses))
	out.Min = min
	return out, err
}

// Expansion lists the terms that a query became, sorted, as field:term; it is for tests and for people.
func (q *Query) Expansion() string { return primitive.Describe(q.node, q.names) }

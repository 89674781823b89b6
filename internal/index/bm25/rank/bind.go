package rank

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/posting"
	"github.com/overlakedb/overlake/internal/index/bm25/primitive"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
)

// Query is a query with the weights of its terms. It is immutable and safe for concurrent use.
type Query struct {
	node   primitive.Node // expanded
	names  []string
	fields []Field
	stats  []posting.Stats
	norms  []*[256]float32
	avgdl  []float32
	terms  [][]string // per field, sorted: what is looked up in a source
	root   weight

	located map[posting.Source][]map[string]posting.Term
}

// weight is a node with its weights: what opens iterators over the rows of a source.
type weight interface {
	// open gives an iterator over the rows that match; nil where none can.
	open(r *run) (iterator, error)

	// explain tells how the score of a row came to be. The row is one of the source.
	explain(r *run, at int64) (*Explanation, error)

	// constant reports whether all rows have one score.
	constant() bool

	// flat gives the query in the form that a Pruner takes.
	flat(r *run) (Flat, bool)
}

// Bind gives a plan its statistics.
func (p *Plan) Bind(st *Statistics) (*Query, error) {
	n, err := p.expand(p.node, st)
	if err != nil {
		return nil, err
	}
	q := &Query{node: primitive.Rewrite(n), fields: p.fields, stats: st.fields, located: st.located}
	for i, f := range p.fields {
		avgdl := similarity.AverageLength(st.fields[i].Docs, st.fields[i].SumTotalTermFreq)
		norms := similarity.InverseNorms(f.params(), avgdl)
		q.names = append(q.names, f.Name)
		q.norms = append(q.norms, &norms)
		q.avgdl = append(q.avgdl, avgdl)
	}
	b := &binder{q: q, st: st}
	for range p.fields {
		b.terms = append(b.terms, map[string]bool{})
		b.expanded = append(b.expanded, map[string]int64{})
	}
	for _, x := range p.patterns {
		for _, e := range st.expanded[x.key] {
			b.expanded[x.field][e.term] = e.n.docs
		}
	}
	if q.root, err = b.bind(q.node, 1); err != nil {
		return nil, err
	}
	q.terms = make([][]string, len(p.fields))
	for i, set := range b.terms {
		for t := range set {
			q.terms[i] = append(q.terms[i], t)
		}
		slices.Sort(q.terms[i])
	}
	return q, nil
}

func (q *Query) inverse(field int) *[256]float32    { return q.norms[field] }
func (q *Query) params(field int) similarity.Params { return q.fields[field].params() }
func (q *Query) describe(n primitive.Node) string   { return primitive.Describe(n, q.names) }
func (q *Query) idf(field int, docs int64) float32  { return similarity.IDF(q.stats[field].Docs, docs) }
func (q *Query) weigh(field int, b, idf float32) float32 {
	return similarity.Weight(q.params(field), b, idf)
}

type binder struct {
	q     *Query
	st    *Statistics
	terms []map[string]bool

	expanded []map[string]int64 // per field: rows of the terms that patterns became
}

// docs is the number of rows with a term, over all sources, and notes that the term is looked up.
func (b *binder) docs(field int, term string) int64 {
	b.terms[field][term] = true
	if n, ok := b.st.terms[field][term]; ok {
		return n.docs
	}
	return b.expanded[field][term]
}

func (b *binder) bind(n primitive.Node, boost float32) (weight, error) {
	q := b.q
	switch n := n.(type) {
	case primitive.None:
		return noneWeight{n}, nil
	case primitive.All:
		return constantWeight{q: q, node: n, score: boost, inner: allWeight{}}, nil
	case primitive.Term:
		docs := b.docs(n.Field, n.Term)
		if n.DocFreq > 0 {
			docs = n.DocFreq
		}
		return newTerms(q, n, n.Field, []string{n.Term}, docs, boost), nil
	case primitive.Synonym:
		docs := int64(0)
		for _, t := range n.Terms {
			docs = max(docs, b.docs(n.Field, t))
		}
		return newTerms(q, n, n.Field, n.Terms, docs, boost), nil
	case primitive.Phrase:
		w := &phraseWeight{q: q, node: n, boost: boost}
		sum := 0.0
		for _, p := range n.Parts {
			for _, t := range p.Terms {
				if docs := b.docs(n.Field, t); docs > 0 {
					idf := q.idf(n.Field, docs)
					sum += float64(idf)
					w.idfs = append(w.idfs, idfOf{t, docs, idf})
				}
			}
		}
		w.idf = float32(sum)
		w.weight = q.weigh(n.Field, boost, w.idf)
		return w, nil
	case primitive.Multi:
		return constantWeight{q: q, node: n, score: boost, inner: setWeight{field: n.Field, automaton: n.Automaton}}, nil
	case primitive.TermSet:
		for _, t := range n.Terms {
			b.terms[n.Field][t] = true
		}
		return constantWeight{q: q, node: n, score: boost, inner: setWeight{field: n.Field, terms: n.Terms}}, nil
	case primitive.Exists:
		return constantWeight{q: q, node: n, score: boost, inner: existsWeight{n.Field}}, nil
	case primitive.Bool:
		w := &boolWeight{q: q, node: n, min: n.Min, led: hasFunction(n)}
		for _, c := range n.Clauses {
			inner, err := b.bind(c.Node, boost)
			if err != nil {
				return nil, err
			}
			w.clauses = append(w.clauses, inner)
		}
		return w, nil
	case primitive.Boost:
		return b.bind(n.Node, float32(n.Factor*boost))
	case primitive.Constant:
		inner, err := b.bind(n.Node, 1)
		return constantWeight{q: q, node: n, score: boost, inner: inner}, err
	case primitive.DisMax:
		w := &disMaxWeight{q: q, tie: n.TieBreaker, led: hasFunction(n)}
		for _, c := range n.Nodes {
			inner, err := b.bind(c, boost)
			if err != nil {
				return nil, err
			}
			w.nodes = append(w.nodes, inner)
		}
		return w, nil
	case primitive.Function:
		inner, err := b.bind(n.Query, boost)
		if err != nil {
			return nil, err
		}
		w := &functionWeight{q: q, node: n, inner: inner}
		for _, f := range n.Functions {
			var filter weight
			if f.Filter != nil {
				if filter, err = b.bind(f.Filter, 1); err != nil {
					return nil, err
				}
			}
			w.filters = append(w.filters, filter)
		}
		return w, nil
	}
	return nil, errs.New(errs.Internal, "rank.bind", fmt.Sprintf("a node of the form %T cannot be run", n))
}

// hasFunction reports whether a function of the row stands in a node. It is only asked for rows that may be found: one that
// has no value for others is no error.
func hasFunction(n primitive.Node) bool {
	switch n := n.(type) {
	case primitive.Function:
		return true
	case primitive.Boost:
		return hasFunction(n.Node)
	case primitive.Constant:
		return hasFunction(n.Node)
	case primitive.DisMax:
		return slices.ContainsFunc(n.Nodes, hasFunction)
	case primitive.Bool:
		return slices.ContainsFunc(n.Clauses, func(c primitive.Clause) bool { return hasFunction(c.Node) })
	}
	return false
}

// run is a query over one source. It belongs to one goroutine.
type run struct {
	ctx     context.Context
	q       *Query
	src     posting.Source
	base    int64
	number  primitive.Number
	memory  int64 // bytes left for sets of rows
	located []map[string]posting.Term
	lengths [][]byte
	err     error // of a function, which has no other way to say it
}

func (q *Query) begin(ctx context.Context, s Segment, o Options) (*run, error) {
	r := &run{ctx: ctx, q: q, src: s.Source, base: s.Base, number: o.Number, memory: o.Memory, located: make([]map[string]posting.Term, len(q.fields)), lengths: make([][]byte, len(q.fields))}
	if r.memory == 0 {
		r.memory = defaultMemory
	}
	if r.number == nil {
		r.number = func(string, int64) (float64, bool) { return 0, false }
	}
	if reflect.ValueOf(s.Source).Comparable() {
		if located, ok := q.located[s.Source]; ok {
			r.located = located
			return r, nil
		}
	}
	for i, terms := range q.terms {
		if len(terms) == 0 {
			continue
		}
		found, err := s.Source.Lookup(ctx, i, bytesOf(terms))
		if err != nil {
			return nil, err
		}
		r.located[i] = make(map[string]posting.Term, len(terms))
		for j, t := range found {
			if t.DocFreq > 0 {
				r.located[i][terms[j]] = t
			}
		}
	}
	return r, nil
}

// lengthsOf are the length bytes of a field.
func (r *run) lengthsOf(field int) ([]byte, error) {
	if r.lengths[field] == nil {
		l, err := r.src.Lengths(r.ctx, field)
		if err != nil {
			return nil, err
		}
		if len(l) < int(r.src.Rows()) {
			return nil, errs.Newf(errs.Corrupt, "rank.lengths", "there are %d lengths for %d rows", len(l), r.src.Rows())
		}
		r.lengths[field] = l
	}
	return r.lengths[field], nil
}

// reserve takes bytes for a set of rows.
func (r *run) reserve(n int64) error {
	if r.memory -= n; r.memory < 0 {
		return errs.New(errs.Exhausted, "rank.search", "the sets of rows of the query need more memory than it may use",
			errs.Hint("ask for fewer prefixes, wildcards, ranges and lists of terms at once, or allow more memory"))
	}
	return nil
}

// cursor opens the postings of a term; nil where it stands nowhere in the source.
func (r *run) cursor(field int, term string, positions bool) (posting.Cursor, int64, error) {
	t, ok := r.located[field][term]
	if !ok {
		return nil, 0, nil
	}
	c, err := r.src.Postings(r.ctx, field, t, positions)
	return c, t.DocFreq, err
}

package rank

import (
	"slices"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/automaton"
	"github.com/overlakedb/overlake/internal/index/bm25/posting"
	"github.com/overlakedb/overlake/internal/index/bm25/primitive"
)

// noneWeight matches nothing.
type noneWeight struct{ node primitive.None }

func (w noneWeight) open(*run) (iterator, error) { return nil, nil }
func (w noneWeight) constant() bool              { return true }
func (w noneWeight) flat(*run) (Flat, bool)      { return Flat{}, false }

// notFlat is what most weights say to a Pruner.
type notFlat struct{}

func (notFlat) flat(*run) (Flat, bool) { return Flat{}, false }

// termWeight is a term, or several that are scored as one.
type termWeight struct {
	q      *Query
	node   primitive.Node
	field  int
	terms  []string
	docs   int64
	boost  float32
	idf    float32
	weight float32
}

func newTerms(q *Query, n primitive.Node, field int, terms []string, docs int64, boost float32) *termWeight {
	w := &termWeight{q: q, node: n, field: field, terms: slices.Compact(slices.Sorted(slices.Values(terms))), docs: docs, boost: boost, idf: q.idf(field, docs)}
	w.weight = q.weigh(field, boost, w.idf)
	return w
}

func (w *termWeight) constant() bool { return false }

func (w *termWeight) open(r *run) (iterator, error) {
	lengths, err := r.lengthsOf(w.field)
	if err != nil {
		return nil, err
	}
	var its []iterator
	for _, t := range w.terms {
		c, n, err := r.cursor(w.field, t, false)
		if err != nil {
			return nil, err
		}
		if c != nil {
			its = append(its, &termIterator{c: c, at: -1, n: n, lengths: lengths, inv: w.q.norms[w.field], weight: w.weight})
		}
	}
	switch len(its) {
	case 0:
		return nil, nil
	case 1:
		return its[0], nil
	}
	d := newDisjunction(its, 1)
	d.led = true
	return &synonymIterator{disjunction: d, lengths: lengths, inv: w.q.norms[w.field], weight: w.weight}, nil
}

func (w *termWeight) clause(r *run) FlatClause {
	return FlatClause{Field: w.field, Term: r.located[w.field][w.terms[0]], Weight: w.weight}
}

func (w *termWeight) flat(r *run) (Flat, bool) {
	return Flat{Clauses: []FlatClause{w.clause(r)}, Min: 1}, len(w.terms) == 1
}

// allWeight is every row.
type allWeight struct{}

func (allWeight) open(r *run) (iterator, error) {
	return &allIterator{at: -1, rows: int64(r.src.Rows())}, nil
}

// existsWeight is the rows with a term.
type existsWeight struct{ field int }

func (w existsWeight) open(r *run) (iterator, error) {
	lengths, err := r.lengthsOf(w.field)
	if err != nil {
		return nil, err
	}
	return &lengthIterator{allIterator: allIterator{at: -1, rows: int64(r.src.Rows())}, lengths: lengths, n: r.src.Stats(w.field).Docs}, nil
}

// setWeight is the rows with one of some terms.
type setWeight struct {
	field     int
	automaton *automaton.Automaton // nil: terms
	terms     []string
}

func (w setWeight) open(r *run) (iterator, error) {
	var found []posting.Term
	if w.automaton == nil {
		seen := make(map[string]bool, len(w.terms))
		for _, t := range w.terms {
			if p, ok := r.located[w.field][t]; ok && !seen[t] {
				seen[t] = true
				found = append(found, p)
			}
		}
		return w.rows(r, func(yield func(posting.Term) error) error {
			for _, t := range found {
				if err := yield(t); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return w.rows(r, func(yield func(posting.Term) error) error {
		var failed error
		err := automaton.Each(r.ctx, r.src, w.field, w.automaton, func(_ []byte, t posting.Term) bool {
			failed = yield(t)
			return failed == nil
		})
		if failed != nil {
			return failed
		}
		if err == nil && r.ctx.Err() != nil {
			err = errs.Wrap(errs.Canceled, "rank.search", r.ctx.Err())
		}
		return err
	})
}

// rows gathers the postings of terms into a set.
func (w setWeight) rows(r *run, terms func(yield func(posting.Term) error) error) (iterator, error) {
	words := (int64(r.src.Rows()) + 63) / 64
	if err := r.reserve(words * 8); err != nil {
		return nil, err
	}
	b := &bitIterator{at: -1, value: 1}
	err := terms(func(t posting.Term) error {
		c, err := r.src.Postings(r.ctx, w.field, t, false)
		if err != nil {
			return err
		}
		if b.words == nil {
			b.words = make([]uint64, words)
		}
		for at := c.Next(); at != posting.End; at = c.Next() {
			if int64(at>>6) >= words {
				return beyond(int64(at), int(r.src.Rows()))
			}
			b.words[at>>6] |= 1 << (at & 63)
		}
		b.n += t.DocFreq
		return c.Err()
	})
	if err != nil || b.words == nil {
		return nil, err
	}
	return b, nil
}

// constantWeight gives what its inner weight matches one score.
type constantWeight struct {
	q     *Query
	node  primitive.Node
	score float32
	inner opener
	notFlat
}

// opener is the part of a weight that finds rows.
type opener interface {
	open(r *run) (iterator, error)
}

func (w constantWeight) constant() bool { return true }

func (w constantWeight) open(r *run) (iterator, error) {
	it, err := w.inner.open(r)
	if it == nil || err != nil {
		return nil, err
	}
	return &constantIterator{it, w.score}, nil
}

// boolWeight combines clauses.
type boolWeight struct {
	q       *Query
	node    primitive.Bool
	clauses []weight
	min     int
	led     bool // scores are computed only where they are asked for
}

func (w *boolWeight) constant() bool { return false }

func (w *boolWeight) open(r *run) (iterator, error) {
	var required, scoring, should, not []iterator
	most := 0
	for i, c := range w.node.Clauses {
		it, err := w.clauses[i].open(r)
		if err != nil {
			return nil, err
		}
		if it == nil {
			if c.Occur == primitive.Must || c.Occur == primitive.Filter {
				return nil, nil
			}
			continue
		}
		switch c.Occur {
		case primitive.Must:
			required, scoring = append(required, it), append(scoring, it)
		case primitive.Filter:
			required = append(required, it)
		case primitive.Should:
			should = append(should, it)
			most++
		case primitive.MustNot:
			not = append(not, it)
		}
	}
	least := w.min
	if least == 0 && !w.requires() {
		least = 1
	}
	if most < least {
		return nil, nil
	}
	var may iterator
	switch {
	case len(should) == 1:
		may = should[0]
	case len(should) > 1 && least == len(should):
		may = newConjunction(should, should)
	case len(should) > 1:
		a := newDisjunction(should, least)
		a.led = w.led
		may = &a
	}
	var out iterator
	switch {
	case len(required) == 0:
		out = may
	case least > 0:
		must := iterator(newConjunction(required, scoring))
		out = &both{*newConjunction([]iterator{must, may}, []iterator{must, may})}
	default:
		out = newConjunction(required, scoring)
		if may != nil {
			out = &optional{out, may}
		}
	}
	switch len(not) {
	case 0:
	case 1:
		out = &exclusion{out, not[0]}
	default:
		a := newDisjunction(not, 1)
		a.led = true
		out = &exclusion{out, &a}
	}
	return out, nil
}

// both is a conjunction of what must and what may match: two sums that are added in float32.
type both struct{ conjunction }

// requires reports whether a clause must match.
func (w *boolWeight) requires() bool {
	for _, c := range w.node.Clauses {
		if c.Occur == primitive.Must || c.Occur == primitive.Filter {
			return true
		}
	}
	return false
}

func (w *boolWeight) flat(r *run) (Flat, bool) {
	f := Flat{Min: max(w.min, 1)}
	for i, c := range w.node.Clauses {
		t, ok := w.clauses[i].(*termWeight)
		if !ok || len(t.terms) > 1 || c.Occur != w.node.Clauses[0].Occur || c.Occur != primitive.Must && c.Occur != primitive.Should {
			return Flat{}, false
		}
		f.Clauses = append(f.Clauses, t.clause(r))
		f.All = c.Occur == primitive.Must
	}
	return f, true
}

// disMaxWeight takes the best of several.
type disMaxWeight struct {
	q     *Query
	nodes []weight
	tie   float32
	led   bool
	notFlat
}

func (w *disMaxWeight) constant() bool { return false }

func (w *disMaxWeight) open(r *run) (iterator, error) {
	var its []iterator
	for _, n := range w.nodes {
		it, err := n.open(r)
		if err != nil {
			return nil, err
		}
		if it != nil {
			its = append(its, it)
		}
	}
	switch len(its) {
	case 0:
		return nil, nil
	case 1:
		return its[0], nil
	}
	d := newDisjunction(its, 1)
	d.best, d.tie, d.led = true, w.tie, w.led
	return &d, nil
}

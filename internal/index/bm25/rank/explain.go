package rank

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/primitive"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
)

// Explanation tells how a score came to be, in the words of Elasticsearch 7.10.
type Explanation struct {
	Value       float32        `json:"value"`
	Description string         `json:"description"`
	Details     []*Explanation `json:"details"`

	// Match says whether the row matches; the value of one that does not is 0.
	Match bool `json:"-"`
}

// String writes the tree, two blanks deeper for each level.
func (e *Explanation) String() string {
	var b strings.Builder
	e.write(&b, 0)
	return b.String()
}

func (e *Explanation) write(b *strings.Builder, depth int) {
	fmt.Fprintf(b, "%s%s %s\n", strings.Repeat("  ", depth), float(e.Value), e.Description)
	for _, d := range e.Details {
		d.write(b, depth+1)
	}
}

// float writes a number as Java does.
func float(x float32) string {
	s := strconv.FormatFloat(float64(x), 'f', -1, 32)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

func yes(value float32, description string, details ...*Explanation) *Explanation {
	return &Explanation{Value: value, Description: description, Details: details, Match: true}
}

func no(description string, details ...*Explanation) *Explanation {
	return &Explanation{Description: description, Details: details}
}

// Explain tells how the score of a row of a segment came to be; at is the row in its source. The value is the score that
// Search gives it.
func (q *Query) Explain(ctx context.Context, s Segment, at uint32, o Options) (*Explanation, error) {
	if at >= s.Source.Rows() {
		return nil, errs.Newf(errs.NotFound, "rank.explain", "there is no row %d of %d", at, s.Source.Rows())
	}
	r, err := q.begin(ctx, s, o)
	if err != nil {
		return nil, err
	}
	if s.Filter != nil && !s.Filter.Contains(int64(at)) {
		return no("the row is not among those that may be found"), nil
	}
	e, err := q.root.explain(r, int64(at))
	if err == nil {
		err = r.err
	}
	return e, err
}

// here opens a weight at a row; ok is false where it does not match.
func here(w opener, r *run, at int64) (it iterator, ok bool, err error) {
	if it, err = w.open(r); it == nil || err != nil {
		return nil, false, err
	}
	ok = it.advance(at) == at && it.confirm()
	if err = it.err(); err == nil {
		err = r.err
	}
	return it, ok, err
}

func (w noneWeight) explain(*run, int64) (*Explanation, error) {
	return no(primitive.Describe(w.node, nil)), nil
}

// scored explains a term or a phrase with a frequency in a row.
func (q *Query) scored(r *run, n primitive.Node, field int, at int64, boost, freq float32, freqIs string, idf *Explanation, value float32) (*Explanation, error) {
	lengths, err := r.lengthsOf(field)
	if err != nil {
		return nil, err
	}
	length := similarity.DecodeLength(lengths[at])
	p := q.params(field)
	inv := q.norms[field][lengths[at]]
	lengthIs := "dl, length of field"
	if length > 39 {
		lengthIs += " (approximate)"
	}
	tf := yes(1-1/float32(1+float32(freq*inv)), "tf, computed as freq / (freq + k1 * (1 - b + b * dl / avgdl)) from:",
		yes(freq, freqIs),
		yes(float32(p.K1), "k1, term saturation parameter"),
		yes(float32(p.B), "b, length normalization parameter"),
		yes(float32(length), lengthIs),
		yes(q.avgdl[field], "avgdl, average length of field"))
	score := yes(value, "score(freq="+float(freq)+"), computed as boost * idf * tf from:", idf, tf)
	if b := float32(boost * (1 + float32(p.K1))); b != 1 {
		score.Details = append([]*Explanation{yes(b, "boost")}, score.Details...)
	}
	return yes(value, fmt.Sprintf("weight(%s in %d) [PerFieldSimilarity], result of:", q.describe(n), r.base+at), score), nil
}

func (q *Query) explainIDF(field int, docs int64, idf float32) *Explanation {
	return yes(idf, "idf, computed as log(1 + (N - n + 0.5) / (n + 0.5)) from:",
		yes(float32(docs), "n, number of documents containing term"),
		yes(float32(q.stats[field].Docs), "N, total number of documents with field"))
}

func (w *termWeight) explain(r *run, at int64) (*Explanation, error) {
	it, ok, err := here(w, r, at)
	if err != nil {
		return nil, err
	}
	if !ok {
		return no("no matching term"), nil
	}
	freq := uint32(0)
	switch it := it.(type) {
	case *termIterator:
		freq = it.c.Freq()
	case *synonymIterator:
		for _, i := range it.matching() {
			freq += it.its[i].(*termIterator).c.Freq()
		}
	}
	return w.q.scored(r, w.node, w.field, at, w.boost, float32(freq), "freq, occurrences of term within document", w.q.explainIDF(w.field, w.docs, w.idf), it.score())
}

func (w *phraseWeight) explain(r *run, at int64) (*Explanation, error) {
	it, ok, err := here(w, r, at)
	if err != nil {
		return nil, err
	}
	if !ok {
		return no("no matching phrase"), nil
	}
	idf := yes(w.idf, "idf, sum of:")
	for _, t := range w.idfs {
		idf.Details = append(idf.Details, w.q.explainIDF(w.node.Field, t.docs, t.idf))
	}
	freq := it.(*phraseIterator).freq
	return w.q.scored(r, w.node, w.node.Field, at, w.boost, freq, "phraseFreq="+float(freq), idf, it.score())
}

func (w constantWeight) explain(r *run, at int64) (*Explanation, error) {
	_, ok, err := here(w.inner, r, at)
	if err != nil {
		return nil, err
	}
	text := w.q.describe(w.node)
	switch w.node.(type) {
	case primitive.Multi, primitive.TermSet:
		text = "ConstantScore(" + text + ")"
	}
	if !ok {
		return no(text + " doesn't match id " + strconv.FormatInt(r.base+at, 10)), nil
	}
	if w.score != 1 {
		text += "^" + float(w.score)
	}
	return yes(w.score, text), nil
}

func (w *boolWeight) explain(r *run, at int64) (*Explanation, error) {
	it, ok, err := here(w, r, at)
	if err != nil {
		return nil, err
	}
	var details, failed []*Explanation
	matching := 0
	for i, c := range w.node.Clauses {
		e, err := w.clauses[i].explain(r, at)
		if err != nil {
			return nil, err
		}
		switch {
		case c.Occur == primitive.MustNot && e.Match:
			failed = append(failed, no("match on prohibited clause ("+w.q.describe(c.Node)+")", e))
		case c.Occur == primitive.MustNot:
		case c.Occur == primitive.Filter && e.Match:
			details = append(details, yes(0, "match on required clause, product of:", yes(0, "# clause"), yes(1, e.Description, e.Details...)))
		case e.Match:
			details = append(details, e)
			if c.Occur == primitive.Should {
				matching++
			}
		case c.Occur != primitive.Should:
			failed = append(failed, no("no match on required clause ("+w.q.describe(c.Node)+")", e))
		}
	}
	switch {
	case ok:
		return yes(it.score(), "sum of:", details...), nil
	case len(failed) > 0:
		return no("Failure to meet condition(s) of required/prohibited clause(s)", failed...), nil
	case matching < w.min:
		return no(fmt.Sprintf("Failure to match minimum number of optional clauses: %d", w.min), details...), nil
	}
	return no("No matching clauses"), nil
}

func (w *disMaxWeight) explain(r *run, at int64) (*Explanation, error) {
	it, ok, err := here(w, r, at)
	if err != nil {
		return nil, err
	}
	var details []*Explanation
	for _, n := range w.nodes {
		e, err := n.explain(r, at)
		if err != nil {
			return nil, err
		}
		if e.Match {
			details = append(details, e)
		}
	}
	if !ok {
		return no("No matching clause"), nil
	}
	text := "max of:"
	if w.tie != 0 {
		text = "max plus " + float(w.tie) + " times others of:"
	}
	return yes(it.score(), text, details...), nil
}

func (w *functionWeight) explain(r *run, at int64) (*Explanation, error) {
	inner, err := w.inner.explain(r, at)
	if err != nil || !inner.Match {
		return inner, err
	}
	it, ok, err := here(w, r, at)
	if err != nil {
		return nil, err
	}
	f, found := it.(*functionIterator)
	if !found {
		return nil, errs.New(errs.Internal, "rank.explain", "a row matches and does not")
	}
	score := f.score()
	if r.err != nil {
		return nil, r.err
	}
	if !ok {
		return no(fmt.Sprintf("Score value is too low, expected at least %s but got %s", float(*w.node.MinScore), float(score)), inner), nil
	}
	factor, err := f.factor(at)
	if err != nil {
		return nil, err
	}
	mode := w.node.ScoreMode
	if mode == "" {
		mode = primitive.ScoreMultiply
	}
	values := yes(float32(factor), "function score, score mode ["+string(mode)+"]")
	for i := range w.node.Functions {
		x := &w.node.Functions[i]
		if !f.matches(i, at) {
			continue
		}
		v, _, err := valueOf(x, r.base+at, r.number)
		if err != nil {
			return nil, err
		}
		text := "constant score 1.0"
		if x.Score != nil {
			text = x.Score.Describe()
		}
		if x.Weight != nil {
			text += ", weight " + float(*x.Weight)
		}
		filter := "match filter: *:*"
		if x.Filter != nil {
			filter = "match filter: " + w.q.describe(x.Filter)
		}
		values.Details = append(values.Details, yes(float32(v), "function score, product of:", yes(1, filter), yes(float32(v), text)))
	}
	if len(values.Details) == 0 {
		values = yes(1, "No function matched")
	}
	limited := yes(float32(math.Min(factor, float64(w.node.MaxBoost))), "min of:", values, yes(w.node.MaxBoost, "maxBoost"))
	how := map[primitive.BoostMode]string{primitive.BoostSum: "sum of", primitive.BoostAvg: "avg of", primitive.BoostMax: "max of", primitive.BoostMin: "min of", primitive.BoostReplace: "replaced by"}[w.node.BoostMode]
	if how == "" {
		how = "function score, product of:"
	}
	return yes(score, how, inner, limited), nil
}

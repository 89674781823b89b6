package rank_test

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/index/bm25"
	"github.com/overlakedb/overlake/internal/index/bm25/primitive"
	"github.com/overlakedb/overlake/internal/index/bm25/query"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
)

// The oracle evaluates a query over analyzed documents, one document after the other, without postings, automata or
// iterators. It is written from the definitions: slow and plain.
type oracle struct {
	t      testing.TB
	fields []query.Field
	params []similarity.Params
	docs   [][][]word // document, field, words
	memo   map[string]int64
	number primitive.Number
}

type word struct {
	term string
	at   int
}

func cut(a *analysis.Analyzer, text string) []word {
	var s analysis.Stream
	var out []word
	for s.Reset(a, text); s.Next(); {
		out = append(out, word{string(s.Term), s.Position})
	}
	return out
}

func newOracle(t testing.TB, fields []query.Field, params []similarity.Params, rows [][]string, number primitive.Number) *oracle {
	o := &oracle{t: t, fields: fields, params: params, memo: map[string]int64{}, number: number}
	for _, r := range rows {
		var doc [][]word
		for i, text := range r {
			doc = append(doc, cut(fields[i].Analyzer, text))
		}
		o.docs = append(o.docs, doc)
	}
	return o
}

// plan is a query for the oracle: what it is called, and what it says of a document under a boost.
type plan struct {
	key  string
	eval func(doc int, boost float32) (float32, bool)

	boost *float32 // of a boosted one
	inner *plan
	some  []*plan // of a disjunction that may be dissolved
	plain bool    // a term
	parts []clause
	min   int
}

type clause struct {
	occur primitive.Occur
	p     *plan
}

func (o *oracle) field(name string) int {
	for i, f := range o.fields {
		if f.Name == name {
			return i
		}
	}
	o.t.Fatalf("no field %s", name)
	return -1
}

func (o *oracle) search(f int) *analysis.Analyzer {
	if s := o.fields[f].Search; s != nil {
		return s
	}
	return o.fields[f].Analyzer
}

// df is the number of documents with a term.
func (o *oracle) df(f int, term string) int64 {
	key := fmt.Sprint(f, term)
	if n, ok := o.memo[key]; ok {
		return n
	}
	n := int64(0)
	for d := range o.docs {
		if o.freq(d, f, term) > 0 {
			n++
		}
	}
	o.memo[key] = n
	return n
}

func (o *oracle) freq(doc, f int, term string) int {
	n := 0
	for _, w := range o.docs[doc][f] {
		if w.term == term {
			n++
		}
	}
	return n
}

func (o *oracle) stats(f int) (docs, sum int64) {
	for _, d := range o.docs {
		if len(d[f]) > 0 {
			docs++
			sum += int64(len(d[f]))
		}
	}
	return docs, sum
}

// vocabulary lists the terms of a field.
func (o *oracle) vocabulary(f int) []string {
	seen := map[string]bool{}
	var out []string
	for _, d := range o.docs {
		for _, w := range d[f] {
			if !seen[w.term] {
				seen[w.term] = true
				out = append(out, w.term)
			}
		}
	}
	sort.Strings(out)
	return out
}

func (o *oracle) bm25(doc, f int, boost, idf, freq float32) float32 {
	docs, sum := o.stats(f)
	p := o.params[f]
	inv := similarity.InverseNorms(p, similarity.AverageLength(docs, sum))
	return similarity.Score(similarity.Weight(p, boost, idf), freq, inv[similarity.EncodeLength(len(o.docs[doc][f]))])
}

func (o *oracle) term(f int, term string, df int64) *plan {
	docs, _ := o.stats(f)
	own := df == 0
	if own {
		df = o.df(f, term)
	}
	idf := similarity.IDF(docs, df)
	return &plan{key: fmt.Sprintf("term %d %q %d %t", f, term, df, own), plain: true, eval: func(d int, boost float32) (float32, bool) {
		n := o.freq(d, f, term)
		if n == 0 {
			return 0, false
		}
		return o.bm25(d, f, boost, idf, float32(n)), true
	}}
}

// fixed matches what a predicate says, with the score 1.
func fixed(key string, match func(doc int) bool) *plan {
	return &plan{key: key, eval: func(d int, boost float32) (float32, bool) {
		if !match(d) {
			return 0, false
		}
		return boost, true
	}}
}

func (o *oracle) anyTerm(f int, key string, accepts func(term string) bool) *plan {
	return fixed(fmt.Sprint("set ", f, key), func(d int) bool {
		return slices.ContainsFunc(o.docs[d][f], func(w word) bool { return accepts(w.term) })
	})
}

func nothing() *plan { return fixed("nothing", func(int) bool { return false }) }
func everything() *plan {
	return fixed("everything", func(int) bool { return true })
}

func boosted(p *plan, b float32) *plan {
	if p.boost != nil {
		b *= *p.boost
		p = p.inner
	}
	if b == 1 {
		return p
	}
	return &plan{key: fmt.Sprintf("%s^%v", p.key, b), boost: &b, inner: p, eval: func(d int, outer float32) (float32, bool) {
		return p.eval(d, b*outer)
	}}
}

func constant(p *plan) *plan {
	if p.boost != nil {
		p = p.inner
	}
	return &plan{key: "constant " + strings.TrimPrefix(p.key, "constant "), eval: func(d int, boost float32) (float32, bool) {
		_, ok := p.eval(d, 1)
		return boost, ok
	}}
}

// disjunctionMax takes the best.
func disjunctionMax(ps []*plan, tie float32) *plan {
	if len(ps) == 1 {
		return ps[0]
	}
	key := fmt.Sprint("max ", tie)
	for _, p := range ps {
		key += "|" + p.key
	}
	return &plan{key: key, eval: func(d int, boost float32) (float32, bool) {
		var scores []float32
		for _, p := range ps {
			if s, ok := p.eval(d, boost); ok {
				scores = append(scores, s)
			}
		}
		if scores == nil {
			return 0, false
		}
		high := slices.Max(scores)
		sum, skipped := 0.0, false
		for _, s := range scores {
			if s == high && !skipped {
				skipped = true
				continue
			}
			sum += float64(s)
		}
		return float32(float64(high) + sum*float64(tie)), true
	}}
}

// addedUp makes one clause of those that are the same.
func addedUp(list []clause, min int) []clause {
	var cs []clause
	sums := map[string]float64{}
	for _, c := range list {
		scores := c.occur == primitive.Must || c.occur == primitive.Should
		if c.occur == primitive.Should && min > 1 {
			cs = append(cs, c)
			continue
		}
		base, b := c.p, 1.0
		if scores && base.boost != nil {
			base, b = base.inner, float64(*base.boost)
		}
		id := fmt.Sprint(c.occur, base.key)
		_, seen := sums[id]
		sums[id] += b
		if !seen {
			cs = append(cs, c)
			continue
		}
		for i := range cs {
			have := cs[i].p
			if scores && have.boost != nil {
				have = have.inner
			}
			if scores && cs[i].occur == c.occur && have.key == base.key {
				cs[i].p = boosted(base, float32(sums[id]))
			}
		}
	}
	return cs
}

// boolean combines clauses as Lucene does after its rewriting.
func boolean(cs []clause, min int) *plan {
	// Clauses that are the same are added up, and disjunctions inside a disjunction dissolved, until nothing changes.
	for changed := true; changed; {
		changed = false
		cs = addedUp(cs, min)
		var next []clause
		for _, c := range cs {
			if min <= 1 && c.occur == primitive.Should && c.p.some != nil {
				for _, p := range c.p.some {
					next = append(next, clause{primitive.Should, p})
				}
				changed = true
				continue
			}
			next = append(next, c)
		}
		cs = next
	}
	if len(cs) == 0 {
		return nothing()
	}
	should, required, positive := 0, 0, 0
	for _, c := range cs {
		switch c.occur {
		case primitive.Should:
			should++
			positive++
		case primitive.Must, primitive.Filter:
			required++
			positive++
		}
	}
	if positive == 0 || should < min {
		return nothing()
	}
	if len(cs) == 1 {
		if cs[0].occur == primitive.Filter {
			return boosted(constant(cs[0].p), 0)
		}
		return cs[0].p
	}
	out := &plan{parts: cs, min: min, key: fmt.Sprint("bool ", min)}
	for _, c := range cs {
		out.key += fmt.Sprint(" (", c.occur, c.p.key, ")")
	}
	if should == len(cs) && min <= 1 {
		for _, c := range cs {
			out.some = append(out.some, c.p)
		}
	}
	out.eval = func(d int, boost float32) (float32, bool) {
		must, may, found := 0.0, 0.0, 0
		for _, c := range cs {
			s, ok := c.p.eval(d, boost)
			switch c.occur {
			case primitive.Must:
				if !ok {
					return 0, false
				}
				must += float64(s)
			case primitive.Filter:
				if !ok {
					return 0, false
				}
			case primitive.MustNot:
				if ok {
					return 0, false
				}
			case primitive.Should:
				if ok {
					found++
					may += float64(s)
				}
			}
		}
		if found < min || required == 0 && found == 0 {
			return 0, false
		}
		return float32(must) + float32(may), true
	}
	return out
}

func minimum(t testing.TB, n int, spec string) int {
	m, err := bm25.MinimumShouldMatch(n, spec)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (o *oracle) match(f int, text string, opt query.MatchOptions, prefix bool) *plan {
	ws := cut(o.search(f), text)
	var cs []clause
	occur := primitive.Should
	if opt.All {
		occur = primitive.Must
	}
	for i, w := range ws {
		var p *plan
		switch {
		case prefix && i == len(ws)-1:
			p = o.anyTerm(f, w.term+"*", func(t string) bool { return strings.HasPrefix(t, w.term) })
		case opt.Fuzziness != nil:
			p = o.fuzzy(f, w.term, *opt.Fuzziness)
		default:
			p = o.term(f, w.term, 0)
		}
		cs = append(cs, clause{occur, p})
	}
	if len(cs) == 0 {
		if opt.ZeroTerms == query.ZeroAll {
			return everything()
		}
		return nothing()
	}
	if len(cs) == 1 {
		return cs[0].p
	}
	min := 0
	if opt.MinimumShouldMatch != "" && !opt.All {
		min = minimum(o.t, len(cs), opt.MinimumShouldMatch)
	}
	return boolean(cs, min)
}

func edits(a, b []rune, swaps bool) int {
	memo := map[[2]int]int{}
	var d func(i, j int) int
	d = func(i, j int) int {
		if i == 0 || j == 0 {
			return i + j
		}
		if v, ok := memo[[2]int{i, j}]; ok {
			return v
		}
		v := d(i-1, j-1)
		if a[i-1] != b[j-1] {
			v++
		}
		v = min(v, d(i-1, j)+1, d(i, j-1)+1)
		if swaps && i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
			v = min(v, d(i-2, j-2)+1)
		}
		memo[[2]int{i, j}] = v
		return v
	}
	return d(len(a), len(b))
}

func (o *oracle) fuzzy(f int, term string, z query.Fuzziness) *plan {
	limit := 0
	switch n := utf8.RuneCountInString(term); {
	case z.Fixed:
		limit = z.Edits
	case n > 5:
		limit = 2
	case n > 2:
		limit = 1
	}
	type near struct {
		term  string
		boost float32
	}
	var list []near
	r := []rune(term)
	for _, t := range o.vocabulary(f) {
		x := []rune(t)
		n := min(z.PrefixLength, len(r))
		if len(x) < n || !slices.Equal(x[:n], r[:n]) {
			continue
		}
		e := edits(r, x, !z.NoTranspositions)
		if e > limit {
			continue
		}
		b := float32(1)
		if e > 0 {
			b = 1 - float32(e)/float32(min(len(r), len(x)))
		}
		list = append(list, near{t, b})
	}
	sort.SliceStable(list, func(i, j int) bool { return list[i].boost > list[j].boost })
	if n := z.MaxExpansions; n > 0 {
		list = list[:min(n, len(list))]
	}
	sort.Slice(list, func(i, j int) bool { return list[i].term < list[j].term })
	df := int64(0)
	for _, x := range list {
		df = max(df, o.df(f, x.term))
	}
	var cs []clause
	for _, x := range list {
		cs = append(cs, clause{primitive.Should, boosted(o.term(f, x.term, df), max(x.boost, 0))})
	}
	return boolean(cs, 0)
}

// phrase matches terms, some to choose from at each place.
func (o *oracle) phrase(f int, places [][]string, at []int, slop int) *plan {
	docs, _ := o.stats(f)
	sum := 0.0
	for _, terms := range places {
		for _, t := range terms {
			if df := o.df(f, t); df > 0 {
				sum += float64(similarity.IDF(docs, df))
			}
		}
	}
	idf := float32(sum)
	return &plan{key: fmt.Sprintf("phrase %d %q %v %d", f, places, at, slop), eval: func(d int, boost float32) (float32, bool) {
		lists := make([][]int, len(places))
		for i, terms := range places {
			for _, w := range o.docs[d][f] {
				if slices.Contains(terms, w.term) {
					lists[i] = append(lists[i], w.at-at[i])
				}
			}
			if lists[i] == nil {
				return 0, false
			}
		}
		freq := float32(0)
		if slop == 0 {
			for _, p := range lists[0] {
				if !slices.ContainsFunc(lists, func(l []int) bool { return !slices.Contains(l, p) }) {
					freq++
				}
			}
		} else {
			freq = sloppyFreq(lists, at, slop)
		}
		if freq == 0 {
			return 0, false
		}
		return o.bm25(d, f, boost, idf, freq), true
	}}
}

// sloppyFreq counts matches of terms that differ, given their phrase positions: always the term that is furthest behind
// moves on, until it passes the one that is next behind; the closest set on the way is one match.
func sloppyFreq(lists [][]int, offsets []int, slop int) float32 {
	now := make([]int, len(lists))
	at := func(i int) int { return lists[i][now[i]] }
	last := func(except int) int { // the furthest behind
		b := -1
		for i := range lists {
			if i != except && (b < 0 || at(i) < at(b) || at(i) == at(b) && offsets[i] < offsets[b]) {
				b = i
			}
		}
		return b
	}
	front := func() int {
		m := at(0)
		for i := range lists {
			m = max(m, at(i))
		}
		return m
	}
	// The front never goes back: it is the largest position seen.
	freq, end := float32(0), front()
	for {
		i := last(-1)
		next := at(last(i))
		length := end - at(i)
		for {
			if now[i]++; now[i] == len(lists[i]) {
				if length <= slop {
					freq += 1 / (1 + float32(length))
				}
				return freq
			}
			end = max(end, at(i))
			if at(i) > next {
				break
			}
			length = min(length, end-at(i))
		}
		if length <= slop {
			freq += 1 / (1 + float32(length))
		}
	}
}

func (o *oracle) textPhrase(f int, text string, slop int, prefix bool, limit int) *plan {
	ws := cut(o.search(f), text)
	if len(ws) == 0 {
		return nothing()
	}
	var places [][]string
	var at []int
	for _, w := range ws {
		places = append(places, []string{w.term})
		at = append(at, w.at-ws[0].at)
	}
	if prefix {
		var found []string
		for _, t := range o.vocabulary(f) {
			if strings.HasPrefix(t, ws[len(ws)-1].term) && len(found) < limit {
				found = append(found, t)
			}
		}
		if found == nil {
			return nothing()
		}
		places[len(places)-1] = found
	}
	if len(places) == 1 {
		var cs []clause
		for _, t := range places[0] {
			cs = append(cs, clause{primitive.Should, o.term(f, t, 0)})
		}
		return boolean(cs, 0)
	}
	return o.phrase(f, places, at, slop)
}

func globMatch(pattern, s []rune) bool {
	switch {
	case len(pattern) == 0:
		return len(s) == 0
	case pattern[0] == '*':
		return globMatch(pattern[1:], s) || len(s) > 0 && globMatch(pattern, s[1:])
	case len(s) == 0:
		return false
	}
	return (pattern[0] == '?' || pattern[0] == s[0]) && globMatch(pattern[1:], s[1:])
}

func (o *oracle) blended(fs []int, boosts []float32, term string, tie float32) *plan {
	df := make([]int64, len(fs))
	limit := int64(len(o.docs))
	top := int64(0)
	for i, f := range fs {
		df[i] = o.df(f, term)
		top = max(top, df[i])
		if _, sum := o.stats(f); df[i] > 0 {
			limit = min(limit, sum)
		}
	}
	order := make([]int, len(fs))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(a, b int) bool { return df[order[a]] > df[order[b]] })
	use := min(limit, top)
	out := make([]int64, len(fs))
	for k, i := range order {
		if df[i] == 0 {
			break
		}
		if k > 0 && df[order[k-1]] > df[i] {
			use++
		}
		docs, _ := o.stats(fs[i])
		out[i] = min(use, docs, limit)
	}
	var ps []*plan
	for i, f := range fs {
		ps = append(ps, boosted(o.term(f, term, out[i]), boosts[i]))
	}
	return disjunctionMax(ps, tie)
}

// plan translates a query.
func (o *oracle) plan(n query.Node) *plan {
	switch n := n.(type) {
	case query.MatchAll:
		return everything()
	case query.MatchNone:
		return nothing()
	case query.Term:
		return o.term(o.field(n.Field), n.Text, 0)
	case query.Terms:
		if len(n.Texts) == 0 {
			return nothing()
		}
		return o.anyTerm(o.field(n.Field), fmt.Sprintf("%q", n.Texts), func(t string) bool { return slices.Contains(n.Texts, t) })
	case query.Match:
		return o.match(o.field(n.Field), n.Text, n.Options, false)
	case query.BoolPrefix:
		return o.match(o.field(n.Field), n.Text, n.Options, true)
	case query.Phrase:
		return o.textPhrase(o.field(n.Field), n.Text, n.Slop, false, 0)
	case query.PhrasePrefix:
		return o.textPhrase(o.field(n.Field), n.Text, n.Slop, true, n.MaxExpansions)
	case query.Prefix:
		return o.anyTerm(o.field(n.Field), n.Text+"*", func(t string) bool { return strings.HasPrefix(t, n.Text) })
	case query.Wildcard:
		return o.anyTerm(o.field(n.Field), n.Pattern, func(t string) bool { return globMatch([]rune(n.Pattern), []rune(t)) })
	case query.Regexp:
		re := regexp.MustCompile("^(?:" + n.Pattern + ")$")
		return o.anyTerm(o.field(n.Field), "/"+n.Pattern, re.MatchString)
	case query.Fuzzy:
		return o.fuzzy(o.field(n.Field), n.Text, n.Fuzziness)
	case query.Range:
		key := fmt.Sprint(n.ExcludeFrom, n.ExcludeTo)
		if n.From != nil {
			key += "f" + *n.From
		}
		if n.To != nil {
			key += "t" + *n.To
		}
		return o.anyTerm(o.field(n.Field), key, func(t string) bool {
			if n.From != nil && (t < *n.From || t == *n.From && n.ExcludeFrom) {
				return false
			}
			return n.To == nil || t < *n.To || t == *n.To && !n.ExcludeTo
		})
	case query.Exists:
		f := o.field(n.Field)
		return fixed(fmt.Sprint("exists ", f), func(d int) bool { return len(o.docs[d][f]) > 0 })
	case query.Bool:
		var cs []clause
		for _, g := range []struct {
			occur primitive.Occur
			ns    []query.Node
		}{{primitive.Must, n.Must}, {primitive.MustNot, n.MustNot}, {primitive.Should, n.Should}, {primitive.Filter, n.Filter}} {
			for _, c := range g.ns {
				cs = append(cs, clause{g.occur, o.plan(c)})
			}
		}
		if len(cs) == 0 {
			return everything()
		}
		if len(cs) == len(n.MustNot) {
			cs = append(cs, clause{primitive.Filter, everything()})
		}
		min := 0
		if n.MinimumShouldMatch != "" && len(n.Should) > 0 {
			min = minimum(o.t, len(n.Should), n.MinimumShouldMatch)
		}
		return boolean(cs, min)
	case query.Not:
		return boolean([]clause{{primitive.MustNot, o.plan(n.Node)}, {primitive.Should, everything()}}, 0)
	case query.Boost:
		return boosted(o.plan(n.Node), n.Factor)
	case query.ConstantScore:
		return constant(o.plan(n.Node))
	case query.DisMax:
		var ps []*plan
		for _, c := range n.Nodes {
			ps = append(ps, o.plan(c))
		}
		return disjunctionMax(ps, n.TieBreaker)
	case query.MultiMatch:
		return o.multi(n)
	case query.FunctionScore:
		return o.function(n)
	case query.MoreLikeThis:
		return o.like(n)
	}
	o.t.Fatalf("the oracle does not know %T", n)
	return nil
}

func (o *oracle) multi(n query.MultiMatch) *plan {
	tie := float32(0)
	if n.Type == query.MostFields || n.Type == query.BoolPrefixFields {
		tie = 1
	}
	if n.TieBreaker != nil {
		tie = *n.TieBreaker
	}
	if n.Type == query.CrossFields {
		groups := map[*analysis.Analyzer][]int{}
		var order []*analysis.Analyzer
		boosts := map[int]float32{}
		for _, f := range n.Fields {
			i := o.field(f.Name)
			a := o.search(i)
			if groups[a] == nil {
				order = append(order, a)
			}
			groups[a] = append(groups[a], i)
			boosts[i] = f.Boost
		}
		var ps []*plan
		for _, a := range order {
			fs := groups[a]
			if len(fs) == 1 {
				ps = append(ps, boosted(o.match(fs[0], n.Text, n.Options, false), boosts[fs[0]]))
				continue
			}
			var bs []float32
			for _, f := range fs {
				bs = append(bs, boosts[f])
			}
			var cs []clause
			for _, w := range cut(a, n.Text) {
				occur := primitive.Should
				if n.Options.All {
					occur = primitive.Must
				}
				cs = append(cs, clause{occur, o.blended(fs, bs, w.term, tie)})
			}
			switch {
			case len(cs) == 0:
				ps = append(ps, nothing())
			case len(cs) == 1:
				ps = append(ps, cs[0].p)
			default:
				min := 0
				if n.Options.MinimumShouldMatch != "" && !n.Options.All {
					min = minimum(o.t, len(cs), n.Options.MinimumShouldMatch)
				}
				ps = append(ps, boolean(cs, min))
			}
		}
		return disjunctionMax(ps, tie)
	}
	var ps []*plan
	for _, f := range n.Fields {
		i := o.field(f.Name)
		var p *plan
		switch n.Type {
		case query.PhraseFields:
			p = o.textPhrase(i, n.Text, n.Slop, false, 0)
		case query.PhrasePrefixField:
			p = o.textPhrase(i, n.Text, n.Slop, true, n.MaxExpansions)
		case query.BoolPrefixFields:
			p = o.match(i, n.Text, n.Options, true)
		default:
			p = o.match(i, n.Text, n.Options, false)
		}
		ps = append(ps, boosted(p, f.Boost))
	}
	return disjunctionMax(ps, tie)
}

func (o *oracle) function(n query.FunctionScore) *plan {
	inner := everything()
	if n.Query != nil {
		inner = o.plan(n.Query)
	}
	var filters []*plan
	key := fmt.Sprintf("function %s %v %v", inner.key, n.ScoreMode, n.BoostMode)
	for _, f := range n.Functions {
		p := everything()
		if f.Filter != nil {
			p = o.plan(f.Filter)
		}
		filters = append(filters, p)
		key += p.key
		if f.Score != nil {
			key += f.Score.Describe()
		}
		if f.Weight != nil {
			key += fmt.Sprint("w", *f.Weight)
		}
	}
	if n.MaxBoost != nil {
		key += fmt.Sprint("max", *n.MaxBoost)
	}
	if n.MinScore != nil {
		key += fmt.Sprint("min", *n.MinScore)
	}
	return &plan{key: key, eval: func(d int, boost float32) (float32, bool) {
		score, ok := inner.eval(d, boost)
		if !ok {
			return 0, false
		}
		var values, weights []float64
		for i, f := range n.Functions {
			if _, ok := filters[i].eval(d, 1); !ok {
				continue
			}
			v, w := 1.0, 1.0
			if f.Score != nil {
				var err error
				if v, err = f.Score.Value(int64(d), o.number); err != nil {
					o.t.Fatal(err)
				}
			}
			if f.Weight != nil {
				w = float64(*f.Weight)
				v *= w
			}
			values, weights = append(values, v), append(weights, w)
		}
		factor := 1.0
		sum := func(x []float64) (s float64) {
			for _, v := range x {
				s += v
			}
			return s
		}
		if len(values) > 0 {
			switch n.ScoreMode {
			case primitive.ScoreFirst:
				factor = values[0]
			case primitive.ScoreMax:
				factor = slices.Max(values)
			case primitive.ScoreMin:
				factor = slices.Min(values)
			case primitive.ScoreSum:
				if sum(weights) != 0 {
					factor = sum(values)
				}
			case primitive.ScoreAvg:
				if sum(weights) != 0 {
					factor = sum(values) / sum(weights)
				}
			default:
				for _, v := range values {
					factor *= v
				}
			}
		}
		limit := math.MaxFloat32
		if n.MaxBoost != nil {
			limit = float64(*n.MaxBoost)
		}
		q, v := float64(score), min(factor, limit)
		var result float32
		mode := n.BoostMode
		if len(n.Functions) == 0 {
			mode = primitive.BoostMultiply
		}
		switch mode {
		case primitive.BoostReplace:
			result = float32(v)
		case primitive.BoostSum:
			result = float32(q + v)
		case primitive.BoostAvg:
			result = float32((q + v) / 2)
		case primitive.BoostMax:
			result = float32(max(q, v))
		case primitive.BoostMin:
			result = float32(min(q, v))
		default:
			result = float32(q * v)
		}
		return result, n.MinScore == nil || result >= *n.MinScore
	}}
}

func (o *oracle) like(n query.MoreLikeThis) *plan {
	type scored struct {
		f     int
		term  string
		score float32
	}
	var list []scored
	for _, name := range n.Fields {
		f := o.field(name)
		count := map[string]int{}
		for _, text := range n.Like {
			for _, w := range cut(o.search(f), text) {
				count[w.term]++
			}
		}
		for _, text := range n.Unlike {
			for _, w := range cut(o.search(f), text) {
				delete(count, w.term)
			}
		}
		for term, c := range count {
			df := o.df(f, term)
			if c < n.Options.MinTermFreq || df == 0 || df < int64(n.Options.MinDocFreq) || slices.Contains(n.Options.StopWords, term) {
				continue
			}
			idf := float32(math.Log(float64(len(o.docs)+1)/float64(df+1)) + 1)
			list = append(list, scored{f, term, float32(c) * idf})
		}
	}
	sort.Slice(list, func(i, j int) bool {
		a, b := list[i], list[j]
		if a.score != b.score {
			return a.score > b.score
		}
		return a.f < b.f || a.f == b.f && a.term < b.term
	})
	list = list[:min(len(list), n.Options.MaxQueryTerms)]
	if len(list) == 0 {
		return nothing()
	}
	var cs []clause
	for _, x := range list {
		p := o.term(x.f, x.term, 0)
		if b := n.Options.BoostTerms; b > 0 {
			p = boosted(p, b*x.score/list[0].score)
		}
		cs = append(cs, clause{primitive.Should, p})
	}
	return boolean(cs, minimum(o.t, len(cs), n.Options.MinimumShouldMatch))
}

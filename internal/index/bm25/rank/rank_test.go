package rank_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25"
	"github.com/overlakedb/overlake/internal/index/bm25/memory"
	"github.com/overlakedb/overlake/internal/index/bm25/posting"
	"github.com/overlakedb/overlake/internal/index/bm25/primitive"
	"github.com/overlakedb/overlake/internal/index/bm25/query"
	"github.com/overlakedb/overlake/internal/index/bm25/rank"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
	"github.com/overlakedb/overlake/internal/row"
	"github.com/overlakedb/overlake/internal/testenv"
)

func find(t testing.TB, name string) *analysis.Analyzer {
	t.Helper()
	a, err := analysis.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// world is rows in three fields, and the ways to ask them.
type world struct {
	schema *query.Schema
	fields []rank.Field
	params []similarity.Params
	rows   [][]string
	number primitive.Number
}

var vocabulary = []string{"fox", "foxes", "fax", "box", "dog", "dogs", "dig", "the", "of", "quick", "quack", "brown", "lazy", "jump", "jumps", "a", "ab", "abc", "ox", "é"}

func newWorld(t testing.TB, rng *rand.Rand, n int) *world {
	w := &world{}
	other := similarity.Params{K1: 0.9, B: 0.4}
	w.schema = &query.Schema{Fields: []query.Field{
		{Name: "title", Analyzer: find(t, "standard")}, {Name: "body", Analyzer: find(t, "standard")}, {Name: "note", Analyzer: find(t, "english")},
	}}
	w.fields = []rank.Field{{Name: "title"}, {Name: "body", Params: &other}, {Name: "note"}}
	w.params = []similarity.Params{similarity.DefaultParams, other, similarity.DefaultParams}
	text := func(most int) string {
		var b strings.Builder
		for range rng.IntN(most + 1) {
			// Words at the front of the list are frequent.
			b.WriteString(vocabulary[rng.IntN(1+rng.IntN(len(vocabulary)))] + " ")
		}
		return b.String()
	}
	for range n {
		w.rows = append(w.rows, []string{text(4), text(60), text(12)})
	}
	values := make([]float64, n)
	for i := range values {
		values[i] = float64(rng.IntN(50)) / 4
	}
	w.number = func(field string, row int64) (float64, bool) {
		switch field {
		case "price":
			return values[row], true
		case "rare":
			return values[row], row%3 == 0
		}
		return 0, false
	}
	return w
}

// segments splits the rows into sources.
func (w *world) segments(t testing.TB, n int, keep func() func(int, []byte) bool) []rank.Segment {
	t.Helper()
	var out []rank.Segment
	for i := range n {
		from, to := i*len(w.rows)/n, (i+1)*len(w.rows)/n
		o := memory.Options{Positions: true}
		if keep != nil {
			o.Keep = keep()
		}
		for _, f := range w.schema.Fields {
			o.Analyzers = append(o.Analyzers, f.Analyzer)
		}
		b := memory.NewBuilder(o)
		for _, r := range w.rows[from:to] {
			if err := b.Add(r...); err != nil {
				t.Fatal(err)
			}
		}
		out = append(out, rank.Segment{Source: b.Source(), Base: int64(from)})
	}
	return out
}

// trees makes random queries.
type trees struct {
	*rand.Rand
	w *world
}

func (r trees) word() string { return vocabulary[r.IntN(len(vocabulary))] }

func (r trees) text(most int) string {
	var out []string
	for range 1 + r.IntN(most) {
		out = append(out, r.word())
	}
	return strings.Join(out, " ")
}

// distinct words, for phrases that may be moved.
func (r trees) distinct(n int) string {
	p := r.Perm(len(vocabulary))[:n]
	var out []string
	for _, i := range p {
		out = append(out, vocabulary[i])
	}
	return strings.Join(out, " ")
}

func (r trees) field() string { return []string{"title", "body", "note"}[r.IntN(3)] }

func (r trees) plain() string { return []string{"title", "body"}[r.IntN(2)] }

func (r trees) options() query.MatchOptions {
	o := query.MatchOptions{All: r.IntN(3) == 0, ZeroTerms: query.ZeroTerms(r.IntN(2))}
	if r.IntN(3) == 0 {
		o.MinimumShouldMatch = []string{"2", "-1", "50%", "2<-25%", "9", "1"}[r.IntN(6)]
	}
	if r.IntN(5) == 0 {
		z := r.fuzziness()
		o.Fuzziness = &z
	}
	return o
}

func (r trees) fuzziness() query.Fuzziness {
	z := query.Fuzziness{PrefixLength: r.IntN(2), MaxExpansions: 1 + r.IntN(6), NoTranspositions: r.IntN(3) == 0}
	if r.IntN(2) == 0 {
		z.Fixed, z.Edits = true, r.IntN(3)
	}
	return z
}

func (r trees) factor() float32 { return []float32{0, 0.3, 1, 1.7, 2, 13}[r.IntN(6)] }

func (r trees) boosts(fields []string) []query.FieldBoost {
	var out []query.FieldBoost
	for _, f := range fields {
		out = append(out, query.FieldBoost{Name: f, Boost: []float32{1, 1, 2.5, 0.7}[r.IntN(4)]})
	}
	return out
}

func (r trees) nodes(depth, most int) []query.Node {
	var out []query.Node
	for range r.IntN(most + 1) {
		out = append(out, r.tree(depth))
	}
	return out
}

func (r trees) tree(depth int) query.Node {
	if depth == 0 {
		switch r.IntN(13) {
		case 0:
			return query.Term{Field: r.plain(), Text: r.word()}
		case 1:
			return query.Terms{Field: r.plain(), Texts: strings.Fields(r.text(4))}
		case 2:
			return query.Phrase{Field: r.field(), Text: r.text(3)}
		case 3:
			return query.Phrase{Field: r.plain(), Text: r.distinct(2 + r.IntN(2)), Slop: 1 + r.IntN(6)}
		case 4:
			w := r.word()
			return query.PhrasePrefix{Field: r.plain(), Text: r.word() + " " + w[:1], MaxExpansions: 1 + r.IntN(5)}
		case 5:
			return query.BoolPrefix{Field: r.plain(), Text: r.text(3), Options: r.options()}
		case 6:
			w := r.word()
			return query.Prefix{Field: r.plain(), Text: w[:r.IntN(len(w))]}
		case 7:
			return query.Wildcard{Field: r.plain(), Pattern: []string{"f*", "*x", "?o?", "*", "d*s", "j?mp*"}[r.IntN(6)]}
		case 8:
			return query.Regexp{Field: r.plain(), Pattern: []string{"fo.*", "(dog|dig)s?", "[a-c]+", "q.{3}k", "nothing"}[r.IntN(5)]}
		case 9:
			return query.Fuzzy{Field: r.plain(), Text: r.word(), Fuzziness: r.fuzziness()}
		case 10:
			a, b := r.word(), r.word()
			n := query.Range{Field: r.plain(), From: &a, To: &b, ExcludeFrom: r.IntN(2) == 0, ExcludeTo: r.IntN(2) == 0}
			if r.IntN(4) == 0 {
				n.To = nil
			}
			return n
		case 11:
			return []query.Node{query.Exists{Field: r.field()}, query.MatchAll{}, query.MatchNone{}}[r.IntN(3)]
		default:
			return query.Match{Field: r.field(), Text: r.text(4), Options: r.options()}
		}
	}
	switch r.IntN(10) {
	case 0:
		return query.Boost{Node: r.tree(depth - 1), Factor: r.factor()}
	case 1:
		return query.ConstantScore{Node: r.tree(depth - 1)}
	case 2:
		return query.DisMax{Nodes: append(r.nodes(depth-1, 2), r.tree(depth-1)), TieBreaker: []float32{0, 0.3, 1}[r.IntN(3)]}
	case 3:
		kind := query.MultiTypes[r.IntN(len(query.MultiTypes))]
		m := query.MultiMatch{Fields: r.boosts([]string{"title", "body"}), Text: r.text(3), Type: kind, Options: r.options(), MaxExpansions: 1 + r.IntN(5)}
		if r.IntN(2) == 0 {
			m.Fields = r.boosts([]string{"title", "body", "note"})
		}
		if kind == query.CrossFields || kind == query.PhraseFields || kind == query.PhrasePrefixField {
			m.Options.Fuzziness = nil
			m.Options.ZeroTerms = query.ZeroNone
		}
		if r.IntN(3) == 0 {
			tie := float32(0.4)
			m.TieBreaker = &tie
		}
		return m
	case 4:
		f := query.FunctionScore{Query: r.tree(depth - 1), ScoreMode: append(primitive.ScoreModes, "")[r.IntN(7)], BoostMode: append(primitive.BoostModes, "")[r.IntN(7)]}
		for range r.IntN(4) {
			var x query.RowFunction
			if r.IntN(2) == 0 {
				x.Filter = r.tree(0)
			}
			if r.IntN(3) > 0 {
				weight := float32(r.IntN(4)) / 2
				x.Weight = &weight
			}
			missing := 2.0
			switch r.IntN(4) {
			case 0:
				x.Score = primitive.FieldValue{Field: "price", Factor: 1.2, Modifier: []primitive.Modifier{"", "log1p", "sqrt", "square", "ln2p"}[r.IntN(5)]}
			case 1:
				x.Score = primitive.FieldValue{Field: "rare", Missing: &missing, Modifier: "log2p"}
			case 2:
				x.Score = primitive.Decay{Kind: []primitive.DecayKind{primitive.Gauss, primitive.Exp, primitive.Linear}[r.IntN(3)], Field: "rare", Origin: 5, Scale: 2, Offset: 1}
			case 3:
				x.Score = primitive.Random{Seed: int64(r.IntN(5))}
			}
			f.Functions = append(f.Functions, x)
		}
		if r.IntN(3) == 0 {
			limit := float32(1.5)
			f.MaxBoost = &limit
		}
		if r.IntN(3) == 0 {
			least := float32(r.IntN(4)) / 2
			f.MinScore = &least
		}
		return f
	case 5:
		return query.MoreLikeThis{Fields: []string{"body", "title"}, Like: []string{r.text(20), r.text(20)}, Unlike: []string{r.word()},
			Options: query.LikeOptions{MaxQueryTerms: 1 + r.IntN(6), MinTermFreq: 1 + r.IntN(3), MinDocFreq: 1 + r.IntN(5), BoostTerms: float32(r.IntN(2)), MinimumShouldMatch: "30%"}}
	case 6:
		return query.Not{Node: r.tree(depth - 1)}
	default:
		b := query.Bool{Must: r.nodes(depth-1, 2), Filter: r.nodes(depth-1, 1), Should: r.nodes(depth-1, 4), MustNot: r.nodes(0, 1)}
		if r.IntN(2) == 0 {
			b.Must = nil
		}
		if r.IntN(3) == 0 {
			b.MinimumShouldMatch = []string{"1", "2", "-1", "60%"}[r.IntN(4)]
		}
		return b
	}
}

// TestRandomTrees compares every form of query, over rows in 1, 3 and 8 sources, with the oracle: rows, scores to the last
// bit, order, totals and explanations.
func TestRandomTrees(t *testing.T) {
	rounds := 60
	if testenv.Deep() {
		rounds = 2000
	}
	for seed := range rounds {
		rng := rand.New(rand.NewPCG(uint64(seed), 7))
		w := newWorld(t, rng, 1+rng.IntN(80))
		o := newOracle(t, w.schema.Fields, w.params, w.rows, w.number)
		split := map[int][]rank.Segment{}
		for _, n := range []int{1, 3, 8} {
			split[n] = w.segments(t, n, nil)
		}
		for i := range 30 {
			tree := trees{rng, w}.tree(rng.IntN(4))
			name := fmt.Sprintf("seed %d, query %d, %#v", seed, i, tree)
			filter := row.NewBitmap()
			for r := range w.rows {
				if rng.IntN(3) > 0 {
					filter.Add(int64(r))
				}
			}
			if rng.IntN(2) == 0 {
				filter = nil
			}
			want := wanted(o, tree, filter)
			node, err := query.Lower(tree, w.schema)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for _, n := range []int{1, 3, 8} {
				check(t, fmt.Sprintf("%s in %d", name, n), w, node, split[n], filter, want)
			}
			if i%6 == 0 {
				plan, err := rank.NewPlan(node, w.fields)
				if err != nil {
					t.Fatal(err)
				}
				check(t, name+" over needed terms", w, node, w.segments(t, 3, plan.Keep), filter, want)
			}
		}
	}
}

// wanted asks the oracle for all rows.
func wanted(o *oracle, tree query.Node, filter *row.Bitmap) []rank.Hit {
	p := o.plan(tree)
	var want []rank.Hit
	for d := range o.docs {
		if filter != nil && !filter.Contains(int64(d)) {
			continue
		}
		if s, ok := p.eval(d, 1); ok {
			want = append(want, rank.Hit{Row: int64(d), Score: s})
		}
	}
	slices.SortFunc(want, rank.Hit.Compare)
	return want
}

func check(t *testing.T, name string, w *world, node primitive.Node, segments []rank.Segment, filter *row.Bitmap, want []rank.Hit) {
	t.Helper()
	ctx := context.Background()
	segments = slices.Clone(segments)
	if filter != nil {
		for i := range segments {
			segments[i].Filter = filter.Part(segments[i].Base, int64(segments[i].Source.Rows()))
		}
	}
	q, err := rank.Prepare(ctx, node, w.fields, segments)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, limit := range []int{len(w.rows), 3} {
		got, err := q.Search(ctx, segments, rank.Options{Limit: limit, Track: -1, Number: w.number})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if expect := want[:min(limit, len(want))]; !slices.Equal(got.Hits, expect) || got.Total != int64(len(want)) || got.AtLeast {
			t.Fatalf("%s, %s:\n got %v of %d\nwant %v of %d", name, q.Expansion(), got.Hits, got.Total, expect, len(want))
		}
	}
	for _, track := range []int64{0, 4} {
		got, err := q.Search(ctx, segments, rank.Options{Limit: 2, Track: track, Number: w.number})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		most := int64(len(want)) > track
		if !slices.Equal(got.Hits, want[:min(2, len(want))]) || got.AtLeast != most || got.Total != min(track, int64(len(want))) {
			t.Fatalf("%s: tracked to %d: %+v, want %d", name, track, got, len(want))
		}
	}
	score := map[int64]rank.Hit{}
	for _, h := range want {
		score[h.Row] = h
	}
	for _, s := range segments {
		here := row.NewBitmap()
		for r := range score {
			if r >= s.Base && r < s.Base+int64(s.Source.Rows()) {
				here.Add(r - s.Base)
			}
		}
		n := here.Len()
		got, ok, err := q.Matching(ctx, s, rank.Options{Number: w.number}, n)
		if err != nil || !ok || !got.Equal(here) {
			t.Fatalf("%s: %d rows of a segment match (%t, %v), want %d", name, got.Len(), ok, err, n)
		}
		if _, ok, err = q.Matching(ctx, s, rank.Options{Number: w.number}, n-1); n > 0 && (ok || err != nil) {
			t.Fatalf("%s: %d rows are no more than %d (%v)", name, n, n-1, err)
		}
		for at := range s.Source.Rows() {
			if at%3 > 0 {
				continue
			}
			e, err := q.Explain(ctx, s, at, rank.Options{Number: w.number})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if h, ok := score[s.Base+int64(at)]; ok != e.Match || h.Score != e.Value {
				t.Fatalf("%s: row %d scores %v %t, explained as\n%s", name, s.Base+int64(at), h.Score, ok, e)
			}
		}
	}
}

// TestChosenTrees compares trees with the oracle that random ones seldom are.
func TestChosenTrees(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 7))
	w := newWorld(t, rng, 60)
	o := newOracle(t, w.schema.Fields, w.params, w.rows, w.number)
	segments := w.segments(t, 3, nil)
	z := query.Fuzziness{MaxExpansions: 3}
	for _, tree := range []query.Node{
		// A pattern that is said twice is counted once.
		query.Match{Field: "body", Text: "jump jump", Options: query.MatchOptions{MinimumShouldMatch: "2", Fuzziness: &z}},
		query.DisMax{Nodes: []query.Node{query.PhrasePrefix{Field: "body", Text: "the f", MaxExpansions: 5}, query.PhrasePrefix{Field: "body", Text: "of f", MaxExpansions: 5}}, TieBreaker: 1},
		query.Bool{Should: []query.Node{query.Match{Field: "body", Text: "a a a"}, query.Match{Field: "body", Text: "a"}, query.Boost{Node: query.Term{Field: "body", Text: "a"}, Factor: 0.1}}},
		query.Bool{MustNot: []query.Node{query.MatchAll{}}},
		query.Bool{},
	} {
		node, err := query.Lower(tree, w.schema)
		if err != nil {
			t.Fatal(err)
		}
		check(t, fmt.Sprintf("%#v", tree), w, node, segments, nil, wanted(o, tree, nil))
	}
}

// pruner answers flat queries itself, by looking at every posting.
type pruner struct {
	posting.Source
	asked, refused int
	refuse         bool
	starts         []uint32
}

func (p *pruner) Best(ctx context.Context, f rank.Flat, top *rank.Top) (bool, error) {
	if p.refuse {
		p.refused++
		return false, nil
	}
	p.asked++
	for r := range p.Rows() {
		if f.Filter != nil && !f.Filter.Contains(int64(r)) {
			continue
		}
		sum, found := 0.0, 0
		for _, c := range f.Clauses {
			if c.Term.DocFreq == 0 {
				continue
			}
			cur, err := p.Postings(ctx, c.Field, c.Term, false)
			if err != nil {
				return false, err
			}
			if cur.Advance(r) == r {
				lengths, _ := p.Lengths(ctx, c.Field)
				sum += float64(similarity.Score(c.Weight, float32(cur.Freq()), f.Inverse(c.Field)[lengths[r]]))
				found++
			}
		}
		if f.Phrase != nil {
			freq := float32(0)
			for i, t := range f.Phrase.Terms {
				if t.DocFreq == 0 {
					freq = 0
					break
				}
				cur, err := p.Postings(ctx, f.Phrase.Field, t, true)
				if err != nil {
					return false, err
				}
				var starts []uint32
				if cur.Advance(r) == r {
					for _, at := range cur.Positions() {
						starts = append(starts, at-uint32(f.Phrase.Positions[i]))
					}
				}
				if i == 0 {
					p.starts = starts
				}
				p.starts = slices.DeleteFunc(slices.Clone(p.starts), func(x uint32) bool { return !slices.Contains(starts, x) })
				freq = float32(len(p.starts))
			}
			if freq == 0 {
				continue
			}
			lengths, _ := p.Lengths(ctx, f.Phrase.Field)
			top.Count(1)
			top.Add(rank.Hit{Row: f.Base + int64(r), Score: similarity.Score(f.Phrase.Weight, freq, f.Inverse(f.Phrase.Field)[lengths[r]])})
			continue
		}
		if f.All && found < len(f.Clauses) || found < max(f.Min, 1) {
			continue
		}
		top.Count(1)
		top.Add(rank.Hit{Row: f.Base + int64(r), Score: float32(sum)})
	}
	return true, nil
}

// TestPruner: a source that can is asked, gets what it needs, and the answer is the same.
func TestPruner(t *testing.T) {
	for seed := range uint64(15) {
		rng := rand.New(rand.NewPCG(seed, 9))
		w := newWorld(t, rng, 60)
		o := newOracle(t, w.schema.Fields, w.params, w.rows, w.number)
		r := trees{rng, w}
		filter := row.NewBitmap()
		for at := range w.rows {
			if rng.IntN(2) == 0 {
				filter.Add(int64(at))
			}
		}
		for _, c := range []struct {
			tree query.Node
			flat bool
		}{
			{query.Term{Field: "body", Text: r.word()}, true},
			{query.Match{Field: "body", Text: r.text(5)}, true},
			{query.Match{Field: "title", Text: r.text(5), Options: query.MatchOptions{All: true}}, true},
			{query.Match{Field: "body", Text: r.distinct(5), Options: query.MatchOptions{MinimumShouldMatch: "3"}}, true},
			{query.Phrase{Field: "body", Text: r.distinct(2)}, true},
			{query.Boost{Node: query.Match{Field: "body", Text: r.distinct(3)}, Factor: 1.5}, true},
			{query.Bool{Must: []query.Node{query.Term{Field: "body", Text: "a"}}, Should: []query.Node{query.Term{Field: "body", Text: "fox"}}}, false},
			{query.Prefix{Field: "body", Text: "f"}, false},
		} {
			node, err := query.Lower(c.tree, w.schema)
			if err != nil {
				t.Fatal(err)
			}
			for _, refuse := range []bool{false, true} {
				segments := w.segments(t, 3, nil)
				var ps []*pruner
				for i := range segments {
					p := &pruner{Source: segments[i].Source, refuse: refuse}
					ps = append(ps, p)
					segments[i].Source = p
				}
				check(t, fmt.Sprintf("seed %d, %#v", seed, c.tree), w, node, segments, filter, wanted(o, c.tree, filter))
				for _, p := range ps {
					if (p.asked > 0) != (c.flat && !refuse) || (p.refused > 0) != (c.flat && refuse) {
						t.Fatalf("%#v: asked %d times, refused %d", c.tree, p.asked, p.refused)
					}
				}
			}
		}
	}
}

// TestManyTerms: a query of ten thousand terms works, in either form.
func TestManyTerms(t *testing.T) {
	schema := &query.Schema{Fields: []query.Field{{Name: "body", Analyzer: find(t, "whitespace")}}}
	b := memory.NewBuilder(memory.Options{Analyzers: []*analysis.Analyzer{schema.Fields[0].Analyzer}})
	var words []string
	for i := range 10_000 {
		words = append(words, fmt.Sprint("w", i))
	}
	for i := range 300 {
		if err := b.Add(strings.Join(words[i*30:i*30+30+i%7], " ")); err != nil {
			t.Fatal(err)
		}
	}
	segments := []rank.Segment{{Source: b.Source()}}
	for _, tree := range []query.Node{query.Match{Field: "body", Text: strings.Join(words, " ")}, query.Terms{Field: "body", Texts: words}} {
		node, err := query.Lower(tree, schema)
		if err != nil {
			t.Fatal(err)
		}
		q, err := rank.Prepare(t.Context(), node, []rank.Field{{Name: "body"}}, segments)
		if err != nil {
			t.Fatal(err)
		}
		r, err := q.Search(t.Context(), segments, rank.Options{Limit: 5, Track: -1})
		if err != nil || r.Total != 300 || len(r.Hits) != 5 {
			t.Fatalf("%+v, %v", r, err)
		}
		// A search that is given up ends, and one that may use no memory says so.
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := rank.Prepare(ctx, node, []rank.Field{{Name: "body"}}, segments); err != nil && !errs.Is(err, errs.Canceled) {
			t.Errorf("given up: %v", err)
		}
		if _, ok := tree.(query.Terms); ok {
			if _, err := q.Search(t.Context(), segments, rank.Options{Limit: 5, Memory: 8}); !errs.Is(err, errs.Exhausted) {
				t.Errorf("eight bytes: %v", err)
			}
		}
	}
}

// TestFunctionErrors: a score that is none is an error that says so, wherever the function stands.
func TestFunctionErrors(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	w := newWorld(t, rng, 30)
	segments := w.segments(t, 2, nil)
	missing := -1.0
	for _, c := range []struct {
		f    primitive.ScoreFunction
		want string
	}{
		{primitive.FieldValue{Field: "rare"}, "a row has no value"},
		{primitive.FieldValue{Field: "none", Missing: &missing}, "the value of a row is -1"},
		{primitive.FieldValue{Field: "none", Missing: &missing, Modifier: "sqrt"}, "the value of a row is NaN"},
		{primitive.Random{Field: "none"}, "a row has no value"},
	} {
		inner := query.FunctionScore{Functions: []query.RowFunction{{Score: c.f}}}
		for _, tree := range []query.Node{inner, query.Bool{Must: []query.Node{query.MatchAll{}, inner}}, query.DisMax{Nodes: []query.Node{query.MatchAll{}, inner}}} {
			node, err := query.Lower(tree, w.schema)
			if err != nil {
				t.Fatal(err)
			}
			q, err := rank.Prepare(t.Context(), node, w.fields, segments)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := q.Search(t.Context(), segments, rank.Options{Limit: 3, Number: w.number}); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%#v: %v, want %s", tree, err, c.want)
			}
		}
	}
}

// TestSloppyRepeats: terms that repeat in a phrase stand on words of their own. The cases are those of Lucene's
// TestSloppyPhraseQuery, which says from which slop on a phrase matches.
func TestSloppyRepeats(t *testing.T) {
	white := find(t, "whitespace")
	schema := &query.Schema{Fields: []query.Field{{Name: "body", Analyzer: white}}}
	score := func(doc, phrase string, slop int) float32 {
		b := memory.NewBuilder(memory.Options{Analyzers: []*analysis.Analyzer{white}, Positions: true})
		if err := b.Add(doc); err != nil {
			t.Fatal(err)
		}
		segments := []rank.Segment{{Source: b.Source()}}
		node, err := query.Lower(query.Phrase{Field: "body", Text: phrase, Slop: slop}, schema)
		if err != nil {
			t.Fatal(err)
		}
		q, err := rank.Prepare(t.Context(), node, []rank.Field{{Name: "body"}}, segments)
		if err != nil {
			t.Fatal(err)
		}
		e, err := q.Explain(t.Context(), segments[0], 0, rank.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if !e.Match {
			return 0
		}
		return e.Details[0].Details[len(e.Details[0].Details)-1].Details[0].Value // the frequency
	}
	for _, c := range []struct {
		doc, phrase string
		from        int // the least slop that matches; -1: none does
	}{
		{"X A A A Y", "A A A", 0}, {"X A 1 2 3 A 4 5 6 A Y", "A A A", 6}, {"X A 1 2 3 A 4 5 6 A Y", "A 1 2 3 A 4 5 6 A", 0},
		{"X A A Y", "A A A", -1}, {"X A 1 A B Y", "A A B", 1}, {"A B A C", "A B A", 0}, {"B A A", "A B A", 2}, {"A", "A A", -1}, {"A B", "A A", -1}, {"A X A", "A A", 1},
		{"B A", "A B", 2}, {"A C B", "A B", 1}, {"C A B", "A B C", 3},
	} {
		for slop := range 12 {
			if got := score(c.doc, c.phrase, slop); (got > 0) != (c.from >= 0 && slop >= c.from) {
				t.Errorf("%q in %q, slop %d: frequency %v, want it from %d", c.phrase, c.doc, slop, got, c.from)
			}
		}
	}
	// One more place to stand on counts more.
	if a, b := score("X A A A Y", "A A A", 2), score("X A A A A Y", "A A A", 2); !(b > a) {
		t.Errorf("%v is not more than %v", b, a)
	}
	for _, c := range []struct {
		doc, phrase string
		slop        int
		want        float32
	}{{"A C B", "A B", 1, 0.5}, {"B A", "A B", 2, 1. / 3}, {"A B A B", "A B", 1, 2}, {"A A", "A A", 3, 1}} {
		if got := score(c.doc, c.phrase, c.slop); got != c.want {
			t.Errorf("%q in %q, slop %d: frequency %v, want %v", c.phrase, c.doc, c.slop, got, c.want)
		}
	}
}

// TestScans: rows that are read and analyzed when they are asked give the answer of sources, also mixed with sources, in
// chunks of any size.
func TestScans(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 21))
		w := newWorld(t, rng, 80)
		o := newOracle(t, w.schema.Fields, w.params, w.rows, w.number)
		var analyzers []*analysis.Analyzer
		for _, f := range w.schema.Fields {
			analyzers = append(analyzers, f.Analyzer)
		}
		filter := row.NewBitmap()
		for at := range w.rows {
			if rng.IntN(4) > 0 {
				filter.Add(int64(at))
			}
		}
		indexed := w.segments(t, 4, nil)[:2]
		for i := range indexed {
			indexed[i].Filter = filter.Part(indexed[i].Base, int64(indexed[i].Source.Rows()))
		}
		for i := range 12 {
			tree := trees{rng, w}.tree(rng.IntN(3))
			name := fmt.Sprintf("seed %d, query %d, %#v", seed, i, tree)
			node, err := query.Lower(tree, w.schema)
			if err != nil {
				t.Fatal(err)
			}
			p, err := rank.NewPlan(node, w.fields)
			if err != nil {
				t.Fatal(err)
			}
			from := []int64{0, 40}[i%2] // the first rows may have an index
			s := &rank.Scan{Analyzers: analyzers, Base: from, Filter: filter.Part(from, int64(len(w.rows))-from), Memory: int64(1 + rng.IntN(20_000)),
				Rows: func(_ context.Context, yield func(...string) error) error {
					for _, r := range w.rows[from:] {
						if err := yield(r...); err != nil {
							return err
						}
					}
					return nil
				}}
			st := p.Empty()
			if from > 0 {
				if st, err = p.GatherAll(t.Context(), indexed); err != nil {
					t.Fatal(err)
				}
			}
			more, err := s.Gather(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			p.Merge(st, more)
			q, err := p.Bind(st)
			if err != nil {
				t.Fatal(err)
			}
			opt := rank.Options{Number: w.number}
			top := rank.NewTop(10, -1)
			if from > 0 {
				for _, seg := range indexed {
					if err := q.Collect(t.Context(), seg, opt, top); err != nil {
						t.Fatal(err)
					}
				}
			}
			// The scan has a collector of its own, as another goroutine would.
			rest := rank.NewTop(10, -1)
			if err := s.Collect(t.Context(), p, q, opt, rest); err != nil {
				t.Fatal(err)
			}
			top.Merge(rest)
			want := wanted(o, tree, filter)
			if got := top.Result(); !slices.Equal(got.Hits, want[:min(10, len(want))]) || got.Total != int64(len(want)) {
				t.Fatalf("%s:\n got %v of %d\nwant %v of %d", name, got.Hits, got.Total, want[:min(10, len(want))], len(want))
			}
		}
	}
}

// TestSynonyms compares terms at one place, which the analyzers of the other tests do not make.
func TestSynonyms(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 31))
		w := newWorld(t, rng, 70)
		o := newOracle(t, w.schema.Fields, w.params, w.rows, w.number)
		pick := func(n int) []string {
			var out []string
			for _, i := range rng.Perm(len(vocabulary))[:n] {
				out = append(out, vocabulary[i])
			}
			return out
		}
		f := rng.IntN(2)
		terms := pick(2 + rng.IntN(2))
		df := int64(0)
		for _, x := range terms {
			df = max(df, o.df(f, x))
		}
		docs, _ := o.stats(f)
		synonym := &plan{eval: func(d int, boost float32) (float32, bool) {
			n := 0
			for _, x := range terms {
				n += o.freq(d, f, x)
			}
			return o.bm25(d, f, boost, similarity.IDF(docs, df), float32(n)), n > 0
		}}
		places := [][]string{pick(1 + rng.IntN(3)), pick(1 + rng.IntN(3)), pick(1 + rng.IntN(3))}
		phrase := primitive.Phrase{Field: f}
		at := []int{0, 1, 3}
		for i, p := range places {
			phrase.Parts = append(phrase.Parts, primitive.Part{Position: at[i], Terms: p})
		}
		for i, c := range []struct {
			node primitive.Node
			p    *plan
		}{
			{primitive.Synonym{Field: f, Terms: terms}, synonym},
			{primitive.Boost{Node: primitive.Synonym{Field: f, Terms: terms}, Factor: 3}, boosted(synonym, 3)},
			{phrase, o.phrase(f, places, at, 0)},
		} {
			var want []rank.Hit
			for d := range o.docs {
				if s, ok := c.p.eval(d, 1); ok {
					want = append(want, rank.Hit{Row: int64(d), Score: s})
				}
			}
			slices.SortFunc(want, rank.Hit.Compare)
			for _, n := range []int{1, 3} {
				check(t, fmt.Sprintf("seed %d, case %d in %d", seed, i, n), w, c.node, w.segments(t, n, nil), nil, want)
			}
		}
	}
}

// TestFunctionsOfFoundRows: a function needs no value for rows that are excluded, also where rows are taken one after the
// other.
func TestFunctionsOfFoundRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	w := newWorld(t, rng, 3000)
	segments := w.segments(t, 1, nil)
	number := func(field string, row int64) (float64, bool) {
		if field == "without" { // 1 for the rows that have no value
			return min(1, float64(row%3)), true
		}
		return 2, row%3 == 0
	}
	one := float32(1)
	f := query.FunctionScore{Functions: []query.RowFunction{{Score: primitive.FieldValue{Field: "value"}}}}
	without := query.FunctionScore{Functions: []query.RowFunction{{Score: primitive.FieldValue{Field: "without"}}}, BoostMode: primitive.BoostReplace, MinScore: &one}
	term := query.Term{Field: "body", Text: "a"}
	for _, tree := range []query.Node{f, query.Bool{Should: []query.Node{f, term}}, query.DisMax{Nodes: []query.Node{f, query.ConstantScore{Node: f}, term}}} {
		node, err := query.Lower(query.Bool{Must: []query.Node{tree}, MustNot: []query.Node{without}}, w.schema)
		if err != nil {
			t.Fatal(err)
		}
		q, err := rank.Prepare(t.Context(), node, w.fields, segments)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := q.Search(t.Context(), segments, rank.Options{Limit: 3, Track: -1, Number: number}); err != nil || r.Total != 1000 {
			t.Errorf("%#v: %+v, %v", tree, r, err)
		}
	}
}

// TestWindows: rows that are taken many at a time have the scores of rows that are taken one by one, as in sources too small
// for windows.
func TestWindows(t *testing.T) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 41))
		w := newWorld(t, rng, 6000)
		large, small := w.segments(t, 1, nil), w.segments(t, 1000, nil)
		for i := range 25 {
			tree := trees{rng, w}.tree(1 + rng.IntN(3))
			name := fmt.Sprintf("seed %d, query %d, %#v", seed, i, tree)
			node, err := query.Lower(tree, w.schema)
			if err != nil {
				t.Fatal(err)
			}
			q, err := rank.Prepare(t.Context(), node, w.fields, large)
			if err != nil {
				t.Fatal(err)
			}
			o := rank.Options{Limit: 2000, Track: -1, Number: w.number}
			got, err := q.Search(t.Context(), large, o)
			if err != nil {
				t.Fatal(err)
			}
			want, err := q.Search(t.Context(), small, o)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.Hits, want.Hits) || got.Total != want.Total {
				t.Fatalf("%s: %d rows at once, %d one by one", name, got.Total, want.Total)
			}
		}
	}
}

// damaged gives postings of rows that are not there.
type damaged struct{ posting.Source }

type farCursor struct{ posting.Cursor }

func (c farCursor) far(r uint32) uint32 {
	if r != posting.End {
		r += 1000
	}
	return r
}

func (c farCursor) Row() uint32             { return c.far(c.Cursor.Row()) }
func (c farCursor) Next() uint32            { return c.far(c.Cursor.Next()) }
func (c farCursor) Advance(t uint32) uint32 { return c.far(c.Cursor.Advance(t)) }

func (d damaged) Postings(ctx context.Context, field int, t posting.Term, positions bool) (posting.Cursor, error) {
	c, err := d.Source.Postings(ctx, field, t, positions)
	return farCursor{c}, err
}

// TestDamage: postings of rows that are not there are an error of kind Corrupt.
func TestDamage(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 4))
	w := newWorld(t, rng, 50)
	segments := w.segments(t, 1, nil)
	segments[0].Source = damaged{segments[0].Source}
	for _, tree := range []query.Node{query.Match{Field: "body", Text: "fox a"}, query.Term{Field: "body", Text: "fox"}, query.Phrase{Field: "body", Text: "fox a"}, query.Prefix{Field: "body", Text: "f"},
		query.Fuzzy{Field: "body", Text: "foxes"}, query.Bool{Must: []query.Node{query.MatchAll{}}, Should: []query.Node{query.Term{Field: "body", Text: "fox"}}}} {
		node, err := query.Lower(tree, w.schema)
		if err != nil {
			t.Fatal(err)
		}
		q, err := rank.Prepare(t.Context(), node, w.fields, segments)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := q.Search(t.Context(), segments, rank.Options{Limit: 3}); !errs.Is(err, errs.Corrupt) {
			t.Errorf("%#v: %v", tree, err)
		}
	}
}

// FuzzQueries: what a text finds does not depend on how the rows are split, nor on whether they have an index, and the
// explanation of a score is the score.
func FuzzQueries(f *testing.F) {
	for _, text := range []string{"fox", "+fox -dog", `"the quick"~3 OR ab*`, "/f.x/ fox~ [a TO fox}", "(fox^2 AND a) b", "fo? *x -the", "body:fox title:(a b)"} {
		f.Add(text)
	}
	rng := rand.New(rand.NewPCG(1, 8))
	w := newWorld(f, rng, 40)
	one, five := w.segments(f, 1, nil), w.segments(f, 5, nil)
	f.Fuzz(func(t *testing.T, text string) {
		o := query.StringOptions{Fields: []query.FieldBoost{{Name: "body"}, {Name: "title", Boost: 2}}, Lenient: true, Limits: query.Limits{Clauses: 200}}
		n, err := query.QueryString(text, o)
		if err != nil {
			return
		}
		node, err := query.Lower(n, w.schema)
		if err != nil {
			return
		}
		p, err := rank.NewPlan(node, w.fields)
		if err != nil {
			t.Fatal(err)
		}
		var last *rank.Result
		for _, segments := range [][]rank.Segment{one, five, w.segments(t, 2, p.Keep)} {
			q, err := rank.Prepare(t.Context(), node, w.fields, segments)
			if err != nil {
				t.Fatal(err)
			}
			r, err := q.Search(t.Context(), segments, rank.Options{Limit: 40, Track: -1})
			if err != nil {
				t.Fatal(err)
			}
			if last != nil && (!slices.Equal(r.Hits, last.Hits) || r.Total != last.Total) {
				t.Fatalf("%q: %v, %v", text, r, last)
			}
			last = r
		}
		q, err := rank.Prepare(t.Context(), node, w.fields, one)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range last.Hits {
			if e, err := q.Explain(t.Context(), one[0], uint32(h.Row), rank.Options{}); err != nil || !e.Match || e.Value != h.Score {
				t.Fatalf("%q: row %d scores %v, explained as %v, %v", text, h.Row, h.Score, e, err)
			}
		}
	})
}

// TestAgainstTheScan: a text asked of one field has the score that package bm25 gives each text.
func TestAgainstTheScan(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 51))
		w := newWorld(t, rng, 100)
		segments := w.segments(t, 3, nil)
		r := trees{rng, w}
		for range 20 {
			o := bm25.Options{Params: &w.params[1], Operator: []string{"or", "and"}[rng.IntN(2)], MinimumShouldMatch: []string{"", "2", "-1", "60%"}[rng.IntN(4)]}
			text := r.text(6)
			a, q, params, err := o.Query(text)
			if err != nil {
				t.Fatal(err)
			}
			oracle := newOracle(t, w.schema.Fields, w.params, w.rows, nil)
			var st bm25.Stats
			st.Docs, st.SumTotalTermFreq = oracle.stats(1)
			st.DocFreq = map[string]int64{}
			for _, term := range q.Terms {
				st.DocFreq[term] = oracle.df(1, term)
			}
			scorer := bm25.NewScorer(a, q, st, params)
			var state bm25.State
			var want []rank.Hit
			for at, row := range w.rows {
				if s, ok := scorer.ScoreMatch(row[1], &state); ok {
					want = append(want, rank.Hit{Row: int64(at), Score: s})
				}
			}
			slices.SortFunc(want, rank.Hit.Compare)
			node, err := query.Lower(query.Match{Field: "body", Text: text, Options: query.MatchOptions{All: q.All, MinimumShouldMatch: o.MinimumShouldMatch}}, w.schema)
			if err != nil {
				t.Fatal(err)
			}
			check(t, fmt.Sprintf("seed %d, %q, %+v", seed, text, o), w, node, segments, nil, want)
		}
	}
}

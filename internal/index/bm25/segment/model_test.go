package segment_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/overlakedb/overlake/internal/index/bm25/best"
	"github.com/overlakedb/overlake/internal/index/bm25/posting"
	"github.com/overlakedb/overlake/internal/index/bm25/segment"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
	"github.com/overlakedb/overlake/internal/row"
)

// memory is an artifact in memory that is read by ranges.
type memory []byte

func (m memory) ReadAtContext(_ context.Context, p []byte, off int64) (int, error) {
	if off < 0 || off > int64(len(m)) {
		return 0, io.EOF
	}
	n := copy(p, m[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// token is a term at a position.
type token struct {
	term string
	at   int
}

// texts are the tokens of each row in each field; nil where it has none.
type texts [][][]token

// shape says what random texts look like.
type shape struct {
	rows, fields, vocabulary, length int
	skew                             float64 // 1 for natural language
	empty                            float64 // share of rows without text
	gaps                             bool    // positions that are skipped or shared
	dense                            float64 // share of rows that have the term "always"
}

func vocabulary(rng *rand.Rand, n int) []string {
	words := make([]string, n)
	for i := range words {
		switch rng.IntN(8) {
		case 0:
			words[i] = fmt.Sprintf("w%d", i)
		case 1:
			words[i] = fmt.Sprintf("präfix-%06d", i)
		case 2:
			words[i] = fmt.Sprintf("%s%d", bytes.Repeat([]byte("x"), rng.IntN(40)), i)
		default:
			b := make([]byte, 1+rng.IntN(9))
			for k := range b {
				b[k] = byte('a' + rng.IntN(26))
			}
			words[i] = string(b)
		}
	}
	return words
}

func draw(rng *rand.Rand, s shape) texts {
	words := vocabulary(rng, s.vocabulary)
	zipf := rand.NewZipf(rng, 1+s.skew, 2, uint64(s.vocabulary-1))
	out := make(texts, s.rows)
	for r := range out {
		out[r] = make([][]token, s.fields)
		for f := range out[r] {
			if rng.Float64() < s.empty {
				continue
			}
			n := 1 + rng.IntN(s.length)
			if rng.IntN(200) == 0 {
				n *= 20
			}
			at := 0
			for i := range n {
				w := words[zipf.Uint64()]
				if i == 0 && rng.Float64() < s.dense {
					w = "always"
				}
				out[r][f] = append(out[r][f], token{w, at})
				at++
				if s.gaps {
					switch rng.IntN(6) {
					case 0:
						at += rng.IntN(5)
					case 1:
						at--
					}
				}
			}
		}
	}
	return out
}

func fields(n int, positions bool) []segment.Field {
	out := make([]segment.Field, n)
	for i := range out {
		out[i] = segment.Field{Analyzer: "test/1", Positions: positions != (i == 1), Params: similarity.DefaultParams}
	}
	return out
}

func build(t testing.TB, of texts, from, to int, o segment.Options) []byte {
	t.Helper()
	b, err := segment.NewBuilder(o)
	if err != nil {
		t.Fatal(err)
	}
	for r := from; r < to; r++ {
		for f, tokens := range of[r] {
			if tokens == nil {
				continue
			}
			if err := b.Begin(uint32(r-from), f); err != nil {
				t.Fatal(err)
			}
			for _, k := range tokens {
				b.Token([]byte(k.term), k.at)
			}
			if err := b.End(); err != nil {
				t.Fatal(err)
			}
		}
	}
	var out bytes.Buffer
	st, err := b.Finish(t.Context(), &out, int64(to-from))
	if err != nil {
		t.Fatal(err)
	}
	if st.Size != int64(out.Len()) || st.Rows != uint32(to-from) {
		t.Fatalf("%+v of %d bytes", st, out.Len())
	}
	return out.Bytes()
}

func open(t testing.TB, b []byte, o segment.OpenOptions) *segment.Reader {
	t.Helper()
	r, err := segment.Open(t.Context(), memory(b), int64(len(b)), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func spill(t testing.TB) func() (segment.SpillFile, error) {
	dir := t.TempDir()
	return func() (segment.SpillFile, error) { return os.CreateTemp(dir, "spill") }
}

// posted is a posting of the model.
type posted struct {
	row       uint32
	positions []uint32
}

// model is what a segment should say, by plain maps.
type model struct {
	rows     int
	postings []map[string][]posted
	lengths  [][]byte
	stats    []posting.Stats
}

func modelOf(of texts, from, to, fields int) *model {
	m := &model{rows: to - from}
	for f := range fields {
		p := map[string][]posted{}
		lengths := make([]byte, m.rows)
		var st posting.Stats
		for r := from; r < to; r++ {
			length, last := 0, -1
			for _, k := range of[r][f] {
				if k.at != last {
					length++
				}
				last = k.at
				st.SumTotalTermFreq++
				l := p[k.term]
				if len(l) == 0 || l[len(l)-1].row != uint32(r-from) {
					l = append(l, posted{row: uint32(r - from)})
				}
				l[len(l)-1].positions = append(l[len(l)-1].positions, uint32(k.at))
				p[k.term] = l
			}
			if length > 0 {
				st.Docs++
			}
			lengths[r-from] = similarity.EncodeLength(length)
		}
		m.postings = append(m.postings, p)
		m.lengths = append(m.lengths, lengths)
		m.stats = append(m.stats, st)
	}
	return m
}

func (m *model) norms(p similarity.Params) []*[256]float32 {
	var out []*[256]float32
	for _, s := range m.stats {
		n := similarity.InverseNorms(p, similarity.AverageLength(s.Docs, s.SumTotalTermFreq))
		out = append(out, &n)
	}
	return out
}

// want is a query as the tests draw it.
type want struct {
	terms   []string
	fields  []int
	weights []float32
	repeats []int
	all     bool
	min     int
	slop    int // phrase when not negative
	offsets []int
}

func (q want) String() string {
	return fmt.Sprintf("%q in %v, weights %v, repeats %v, all %v, min %d, slop %d, offsets %v", q.terms, q.fields, q.weights, q.repeats, q.all, q.min, q.slop, q.offsets)
}

// hits are all matching rows by the model, best first.
func (m *model) hits(q want, norms []*[256]float32, filter *row.Bitmap) row.Hits {
	var out row.Hits
	find := func(i int, r uint32) *posted {
		l := m.postings[q.fields[i]][q.terms[i]]
		if k, ok := slices.BinarySearchFunc(l, r, func(p posted, r uint32) int { return cmp.Compare(p.row, r) }); ok {
			return &l[k]
		}
		return nil
	}
	for r := range uint32(m.rows) {
		if filter != nil && !filter.Contains(int64(r)) {
			continue
		}
		var score float32
		if q.slop >= 0 {
			var slots [][]uint32
			for i := range q.terms {
				p := find(i, r)
				if p == nil {
					break
				}
				slots = append(slots, p.positions)
			}
			if len(slots) < len(q.terms) {
				continue
			}
			freq := phraseFreq(q, slots)
			if freq == 0 {
				continue
			}
			score = similarity.Score(q.weights[0], freq, norms[q.fields[0]][m.lengths[q.fields[0]][r]])
		} else {
			sum, found := 0.0, 0
			missing := false
			for i := range q.terms {
				p := find(i, r)
				if p == nil {
					missing = true
					continue
				}
				found += q.repeats[i]
				for range q.repeats[i] {
					sum += float64(similarity.Score(q.weights[i], float32(len(p.positions)), norms[q.fields[i]][m.lengths[q.fields[i]][r]]))
				}
			}
			if q.all && missing || found == 0 || !q.all && found < q.min {
				continue
			}
			score = float32(sum)
		}
		out = append(out, row.Hit{Addr: row.Addr{Pos: int64(r)}, Score: score})
	}
	out.SortDescending()
	return out
}

// phraseFreq counts an exact phrase by trying every place, a sloppy one of two different terms by all that are near.
func phraseFreq(q want, slots [][]uint32) float32 {
	offset := func(i int) int64 {
		if q.offsets != nil {
			return int64(q.offsets[i])
		}
		return int64(i)
	}
	if q.slop > 0 && len(slots) > 1 {
		return nearFreq(q, slots, offset)
	}
	n := 0
	for _, p := range slots[0] {
		base := int64(p) - offset(0)
		all := true
		for i, s := range slots {
			all = all && slices.Contains(s, uint32(base+offset(i))) && base+offset(i) >= 0
		}
		if all {
			n++
		}
	}
	return float32(n)
}

// nearFreq follows the definition for different terms: merge the places less the offsets; each time the least moves on, the
// distance to the greatest is a match if it is within the slop and was not longer than the next one.
func nearFreq(q want, slots [][]uint32, offset func(int) int64) float32 {
	at := make([]int, len(slots))
	place := func(i int) int64 { return int64(slots[i][at[i]]) - offset(i) }
	sum := float32(0)
	least := func(except int) int {
		k := -1
		for i := range slots {
			if i == except {
				continue
			}
			if k < 0 || place(i) < place(k) || place(i) == place(k) && offset(i) < offset(k) {
				k = i
			}
		}
		return k
	}
	end := place(0)
	for i := range slots {
		end = max(end, place(i))
	}
	for {
		i := least(-1)
		next := place(least(i))
		length := end - place(i)
		over := false
		for {
			if at[i]+1 == len(slots[i]) {
				over = true
				break
			}
			at[i]++
			end = max(end, place(i))
			if place(i) > next {
				break
			}
			length = min(length, end-place(i))
		}
		if length <= int64(q.slop) {
			sum += 1 / (1 + float32(length))
		}
		if over {
			return sum
		}
	}
}

// ask asks a reader.
func ask(t testing.TB, r *segment.Reader, q want, norms []*[256]float32, f *segment.Filter, part uint32, c *segment.Collector) {
	t.Helper()
	query := segment.Query{All: q.all, MinMatch: q.min, Norms: norms}
	var terms []posting.Term
	for i, w := range q.terms {
		got, err := r.Lookup(t.Context(), q.fields[i], [][]byte{[]byte(w)})
		if err != nil {
			t.Fatal(err)
		}
		terms = append(terms, got[0])
	}
	if q.slop >= 0 {
		query.Phrase = &segment.Phrase{Field: q.fields[0], Terms: terms, Offsets: q.offsets, Slop: q.slop, Weight: q.weights[0]}
	} else {
		for i, term := range terms {
			query.Clauses = append(query.Clauses, segment.Clause{Field: q.fields[i], Term: term, Weight: q.weights[i], Repeat: q.repeats[i]})
		}
	}
	if err := r.Best(t.Context(), &query, f, part, c); err != nil {
		t.Fatalf("%v: %v", q, err)
	}
}

func collector(k int, track int64) *segment.Collector {
	return &segment.Collector{Top: best.New(k), Track: track}
}

// drawQuery draws a query over texts.
func drawQuery(rng *rand.Rand, of texts, fieldCount int, positions func(int) bool) want {
	q := want{slop: -1}
	n := 1 + rng.IntN(6)
	pick := func(f int) string {
		for range 20 {
			if l := of[rng.IntN(len(of))][f]; len(l) > 0 {
				return l[rng.IntN(len(l))].term
			}
		}
		return "nowhere"
	}
	f := rng.IntN(fieldCount)
	if rng.IntN(3) == 0 && positions(f) {
		// A phrase, mostly one that stands somewhere.
		q.slop = []int{0, 0, 1, 2, 5}[rng.IntN(5)]
		n = 1 + rng.IntN(3)
		for range 50 {
			l := of[rng.IntN(len(of))][f]
			if len(l) < n {
				continue
			}
			at := rng.IntN(len(l) - n + 1)
			for _, k := range l[at : at+n] {
				q.terms = append(q.terms, k.term)
				q.offsets = append(q.offsets, k.at-l[at].at)
			}
			break
		}
		if q.terms == nil {
			q.terms, q.offsets = []string{"nowhere"}, nil
		}
		if rng.IntN(3) == 0 {
			q.offsets = nil
		}
		if q.slop > 0 {
			// Repeated terms are for a test of their own.
			seen := map[string]bool{}
			var terms []string
			for _, w := range q.terms {
				if !seen[w] {
					terms = append(terms, w)
				}
				seen[w] = true
			}
			if len(terms) < len(q.terms) {
				q.offsets = nil
			}
			q.terms = terms
		}
		for range q.terms {
			q.fields = append(q.fields, f)
		}
		q.weights = []float32{rng.Float32() * 5}
		return q
	}
	q.all = rng.IntN(3) == 0
	if rng.IntN(4) == 0 {
		q.min = rng.IntN(5)
	}
	wild := rng.IntN(10) == 0
	for range n {
		f := f
		if rng.IntN(4) == 0 {
			f = rng.IntN(fieldCount)
		}
		w := pick(f)
		if rng.IntN(5) == 0 {
			w = "always"
		}
		q.terms = append(q.terms, w)
		q.fields = append(q.fields, f)
		x := rng.Float32() * 5
		if wild { // sums that must be rounded
			x *= []float32{1e-30, 1e-12, 1e-6, 1, 1e8, 1e20}[rng.IntN(6)]
		}
		q.weights = append(q.weights, x)
		q.repeats = append(q.repeats, 1+rng.IntN(3)/2)
	}
	return q
}

var shapes = []shape{
	{rows: 1, fields: 1, vocabulary: 3, length: 4, skew: 0.1},
	{rows: 40, fields: 2, vocabulary: 30, length: 6, skew: 0.3, empty: 0.3, gaps: true},
	{rows: 3000, fields: 2, vocabulary: 2000, length: 12, skew: 0.2, empty: 0.1, gaps: true, dense: 0.5},
	{rows: 9000, fields: 1, vocabulary: 60, length: 8, skew: 0.4, dense: 0.97},
	{rows: 20000, fields: 1, vocabulary: 3000, length: 9, skew: 0.1, empty: 0.05, dense: 0.3},
}

// TestEverythingComesBack compares all that a segment says with the model.
func TestEverythingComesBack(t *testing.T) {
	for seed, s := range shapes {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		of := draw(rng, s)
		fs := fields(s.fields, true)
		m := modelOf(of, 0, s.rows, s.fields)
		b := build(t, of, 0, s.rows, segment.Options{Fields: fs})
		t.Logf("%+v: %d bytes", s, len(b))
		for _, o := range []segment.OpenOptions{{}, {Resident: true}} {
			compare(t, open(t, b, o), m, fs, rng)
		}
	}
}

func compare(t *testing.T, r *segment.Reader, m *model, fs []segment.Field, rng *rand.Rand) {
	t.Helper()
	if int(r.Rows()) != m.rows || r.Fields() != len(fs) {
		t.Fatalf("%d rows, %d fields", r.Rows(), r.Fields())
	}
	for f := range fs {
		if r.Stats(f) != m.stats[f] || r.Field(f) != fs[f] {
			t.Fatalf("field %d: %+v, want %+v", f, r.Stats(f), m.stats[f])
		}
		l, err := r.Lengths(t.Context(), f)
		if err != nil || !bytes.Equal(l, m.lengths[f]) {
			t.Fatalf("lengths of field %d: %v", f, err)
		}
		names := slices.Sorted(maps.Keys(m.postings[f]))
		var got []string
		terms := map[string]posting.Term{}
		err = r.Walk(t.Context(), f, nil, func(term []byte, p posting.Term) ([]byte, bool) {
			got = append(got, string(term))
			terms[string(term)] = p
			return nil, true
		})
		if err != nil || !slices.Equal(got, names) {
			t.Fatalf("walk gives %d terms, want %d: %v", len(got), len(names), err)
		}
		walkFrom(t, r, f, names, rng)
		var list [][]byte
		for _, n := range names {
			list = append(list, []byte(n))
		}
		for range 200 {
			list = append(list, []byte(vocabulary(rng, 1)[0]))
		}
		list = append(list, nil, []byte{0}, []byte{0xff, 0xff}, []byte("always"))
		found, err := r.Lookup(t.Context(), f, list)
		if err != nil {
			t.Fatal(err)
		}
		for i, n := range list {
			if w := terms[string(n)]; found[i] != w || found[i].DocFreq != int64(len(m.postings[f][string(n)])) {
				t.Fatalf("lookup of %q: %+v, want %+v", n, found[i], w)
			}
		}
		for i, n := range names {
			if len(names) > 500 && len(m.postings[f][n]) < 100 && rng.IntN(20) > 0 {
				continue
			}
			compareList(t, r, f, found[i], m.postings[f][n], fs[f].Positions, rng)
		}
	}
}

func walkFrom(t *testing.T, r *segment.Reader, f int, names []string, rng *rand.Rand) {
	t.Helper()
	for range 20 {
		from := vocabulary(rng, 1)[0]
		if len(names) > 0 && rng.IntN(2) == 0 {
			from = names[rng.IntN(len(names))]
		}
		at, _ := slices.BinarySearch(names, from)
		var got, want []string
		jump := rng.IntN(3) > 0
		seek := func(w string) string { return w + string([]byte{byte(rng.IntN(256)), 'x'}) }
		var seeks []string
		err := r.Walk(t.Context(), f, []byte(from), func(term []byte, _ posting.Term) ([]byte, bool) {
			got = append(got, string(term))
			if len(got) == 30 {
				return nil, false
			}
			if jump && len(term) > 0 {
				s := seek(string(term[:1+len(term)/2]))
				if s > string(term) {
					seeks = append(seeks, s)
					return []byte(s), true
				}
			}
			seeks = append(seeks, "")
			return nil, true
		})
		if err != nil {
			t.Fatal(err)
		}
		for at < len(names) && len(want) < 30 {
			want = append(want, names[at])
			if k := len(want) - 1; k < len(seeks) && seeks[k] != "" {
				at, _ = slices.BinarySearch(names, seeks[k])
			} else {
				at++
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("walk from %q: %q, want %q", from, got, want)
		}
	}
}

func compareList(t *testing.T, r *segment.Reader, f int, term posting.Term, want []posted, positions bool, rng *rand.Rand) {
	t.Helper()
	total := 0
	for _, p := range want {
		total += len(p.positions)
	}
	if term.TotalFreq != int64(total) {
		t.Fatalf("total frequency %d, want %d", term.TotalFreq, total)
	}
	for try := range 3 {
		c, err := r.Postings(t.Context(), f, term, positions && try != 1)
		if err != nil {
			t.Fatal(err)
		}
		at := -1
		for {
			var got uint32
			if try == 0 || rng.IntN(2) == 0 {
				got = c.Next()
				at++
			} else {
				from := uint32(0)
				if at >= 0 {
					from = want[at].row
				}
				target := from + uint32(rng.IntN(1+len(want)/3*2+200))
				if rng.IntN(3) == 0 {
					target = from + uint32(rng.IntN(3))
				}
				got = c.Advance(target)
				at = max(at, 0)
				for at < len(want) && want[at].row < target {
					at++
				}
			}
			if at >= len(want) {
				if got != posting.End || c.Row() != posting.End || c.Err() != nil || c.Next() != posting.End || c.Advance(5) != posting.End {
					t.Fatalf("row %d behind the last, %v", got, c.Err())
				}
				break
			}
			w := want[at]
			if got != w.row || c.Row() != w.row {
				t.Fatalf("row %d, want %d: %v", got, w.row, c.Err())
			}
			if rng.IntN(2) == 0 && c.Freq() != uint32(len(w.positions)) {
				t.Fatalf("frequency %d, want %d", c.Freq(), len(w.positions))
			}
			if positions && try != 1 && rng.IntN(3) > 0 {
				if p := c.Positions(); !slices.Equal(p, w.positions) {
					t.Fatalf("positions %v, want %v: %v", p, w.positions, c.Err())
				}
			}
		}
	}
}

// check compares searches with the model: hits to the last bit, and counts.
func check(t *testing.T, r *segment.Reader, m *model, q want, norms []*[256]float32, rng *rand.Rand) {
	t.Helper()
	var filter *row.Bitmap
	var f *segment.Filter
	if rng.IntN(3) == 0 {
		filter = row.NewBitmap()
		share := []float64{0.002, 0.02, 0.3, 0.99}[rng.IntN(4)]
		for r := range m.rows {
			if rng.Float64() < share {
				filter.Add(int64(r))
			}
		}
		f = segment.NewFilter(filter, uint32(m.rows))
	}
	all := m.hits(q, norms, filter)
	for _, k := range []int{0, 1, 10, m.rows + 1} {
		for _, track := range []int64{-1, 0, 50} {
			c := collector(k, track)
			ask(t, r, q, norms, f, 0, c)
			want := all[:min(k, len(all))]
			got := c.Top.Hits()
			if !slices.Equal(got, want) {
				n := 0
				for n < min(len(got), len(want)) && got[n] == want[n] {
					n++
				}
				t.Fatalf("%v, filter of %d, top %d, track %d: %d hits, want %d; the first difference at %d:\n%v\n%v", q, filter.Len(), k, track, len(got), len(want), n, got[n:min(n+3, len(got))], want[n:min(n+3, len(want))])
			}
			if c.Hits > int64(len(all)) || (!c.Lower || track < 0 || c.Hits <= track) && c.Hits != int64(len(all)) {
				t.Fatalf("%v, filter of %d, top %d, track %d: %d hits counted (lower bound: %v) of %d", q, filter.Len(), k, track, c.Hits, c.Lower, len(all))
			}
		}
	}
}

// TestSearchesAreExact compares random queries with the model.
func TestSearchesAreExact(t *testing.T) {
	for seed, s := range shapes {
		rng := rand.New(rand.NewPCG(uint64(seed), 2))
		of := draw(rng, s)
		fs := fields(s.fields, true)
		m := modelOf(of, 0, s.rows, s.fields)
		b := build(t, of, 0, s.rows, segment.Options{Fields: fs})
		readers := []*segment.Reader{open(t, b, segment.OpenOptions{}), open(t, b, segment.OpenOptions{Resident: true})}
		n := 120
		for i := range n {
			p := similarity.DefaultParams
			if i%5 == 4 { // parameters, and lengths, that the segment was not built for
				p = similarity.Params{K1: rng.Float64() * 3, B: rng.Float64()}
			}
			norms := m.norms(p)
			if i%7 == 6 {
				other := similarity.InverseNorms(p, 1+rng.Float32()*30)
				norms[0] = &other
			}
			q := drawQuery(rng, of, s.fields, func(f int) bool { return fs[f].Positions })
			check(t, readers[i%2], m, q, norms, rng)
		}
	}
}

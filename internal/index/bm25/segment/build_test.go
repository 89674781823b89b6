package segment_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/best"
	"github.com/overlakedb/overlake/internal/index/bm25/posting"
	"github.com/overlakedb/overlake/internal/index/bm25/segment"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
)

// counted makes spill files and counts them.
func counted(t testing.TB, n *int) func() (segment.SpillFile, error) {
	dir := t.TempDir()
	return func() (segment.SpillFile, error) {
		*n++
		return os.CreateTemp(dir, "spill")
	}
}

// TestSpilledIsTheSame: the bytes do not depend on memory.
func TestSpilledIsTheSame(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 3))
	of := draw(rng, shape{rows: 9000, fields: 2, vocabulary: 5000, length: 30, skew: 0.2, empty: 0.1, gaps: true, dense: 0.6})
	fs := fields(2, true)
	want := build(t, of, 0, len(of), segment.Options{Fields: fs})
	n := 0
	got := build(t, of, 0, len(of), segment.Options{Fields: fs, Memory: 1, Spill: counted(t, &n)})
	if n == 0 {
		t.Fatal("nothing was spilled")
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%d bytes with %d spill files, %d without", len(got), n, len(want))
	}
	// Without spill files there is an end.
	b, err := segment.NewBuilder(segment.Options{Fields: fs, Memory: 1})
	if err != nil {
		t.Fatal(err)
	}
	for r := 0; err == nil && r < len(of); r++ {
		if err = b.Begin(uint32(r), 0); err == nil {
			for _, k := range of[r][0] {
				b.Token([]byte(k.term), k.at)
			}
			err = b.End()
		}
	}
	if !errs.Is(err, errs.Exhausted) || errs.HintOf(err) == "" {
		t.Fatalf("without spill files: %v", err)
	}
}

// TestSpillFilesThatFail: the error comes through, and files are closed.
func TestSpillFilesThatFail(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 3))
	of := draw(rng, shape{rows: 6000, fields: 1, vocabulary: 5000, length: 30, skew: 0.2})
	for fail := range 12 {
		open := 0
		left := fail
		b, err := segment.NewBuilder(segment.Options{Fields: fields(1, true), Memory: 1, Spill: func() (segment.SpillFile, error) {
			f, err := os.CreateTemp(t.TempDir(), "spill")
			if err == nil {
				open++
			}
			return &failing{f, &left, &open}, err
		}})
		if err != nil {
			t.Fatal(err)
		}
		for r := 0; err == nil && r < len(of); r++ {
			if err = b.Begin(uint32(r), 0); err == nil {
				for _, k := range of[r][0] {
					b.Token([]byte(k.term), k.at)
				}
				err = b.End()
			}
		}
		if err == nil {
			_, err = b.Finish(t.Context(), new(bytes.Buffer), int64(len(of)))
		}
		if cerr := b.Close(); cerr != nil {
			t.Fatal(cerr)
		}
		if err == nil || open != 0 {
			t.Fatalf("failure %d: %v, %d files open", fail, err, open)
		}
	}
}

type failing struct {
	*os.File
	left, open *int
}

func (f *failing) Write(b []byte) (int, error) {
	if *f.left--; *f.left < 0 {
		return 0, errs.New(errs.Exhausted, "test", "the disk is full")
	}
	return f.File.Write(b)
}

func (f *failing) ReadAt(b []byte, at int64) (int, error) {
	if *f.left--; *f.left < 0 {
		return 0, errs.New(errs.Unavailable, "test", "the disk is gone")
	}
	return f.File.ReadAt(b, at)
}

func (f *failing) Close() error {
	*f.open--
	return f.File.Close()
}

// TestMergedIsBuiltAtOnce: segments one after another merge to the bytes of one.
func TestMergedIsBuiltAtOnce(t *testing.T) {
	for seed, s := range shapes {
		rng := rand.New(rand.NewPCG(uint64(seed), 4))
		of := draw(rng, s)
		fs := fields(s.fields, true)
		want := build(t, of, 0, s.rows, segment.Options{Fields: fs})
		for _, n := range []int{1, 2, 7} {
			cuts := []int{0, s.rows}
			for range n - 1 {
				cuts = append(cuts, rng.IntN(s.rows+1))
			}
			slices.Sort(cuts)
			var parts []segment.Part
			for i := range n {
				r := open(t, build(t, of, cuts[i], cuts[i+1], segment.Options{Fields: fs}), segment.OpenOptions{Resident: i%2 == 0})
				parts = append(parts, segment.Part{Reader: r, Base: int64(cuts[i])})
			}
			rng.Shuffle(n, func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
			for _, memory := range []int64{0, 1} {
				var out bytes.Buffer
				if _, err := segment.Merge(t.Context(), &out, int64(s.rows), parts, segment.MergeOptions{Memory: memory, Spill: spill(t)}); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(out.Bytes(), want) {
					t.Fatalf("%+v in %d parts: %d bytes, want %d", s, n, out.Len(), len(want))
				}
			}
		}
	}
}

// TestMergedInAnyOrder: rows that move and rows that go give the segment of what is left.
func TestMergedInAnyOrder(t *testing.T) {
	for seed, s := range shapes[1:4] {
		rng := rand.New(rand.NewPCG(uint64(seed), 5))
		of := draw(rng, s)
		fs := fields(s.fields, true)
		for _, sorted := range []bool{true, false} {
			for _, drop := range []float64{0, 0.2, 1} {
				// Where each row goes: rows that stay, shuffled or not, with room between.
				var stay []int
				for r := range of {
					if rng.Float64() >= drop {
						stay = append(stay, r)
					}
				}
				if !sorted {
					rng.Shuffle(len(stay), func(i, j int) { stay[i], stay[j] = stay[j], stay[i] })
				}
				to := make([]uint32, s.rows)
				for i := range to {
					to[i] = posting.End
				}
				result := texts{}
				for _, r := range stay {
					if rng.IntN(10) == 0 {
						result = append(result, make([][]token, s.fields))
					}
					to[r] = uint32(len(result))
					result = append(result, of[r])
				}
				want := build(t, result, 0, len(result), segment.Options{Fields: fs})
				cut := rng.IntN(s.rows)
				var parts []segment.Part
				for _, c := range [][2]int{{0, cut}, {cut, s.rows}} {
					r := open(t, build(t, of, c[0], c[1], segment.Options{Fields: fs}), segment.OpenOptions{Resident: true})
					parts = append(parts, segment.Part{Reader: r, Map: func(row uint32) uint32 { return to[c[0]+int(row)] }})
				}
				var out bytes.Buffer
				if _, err := segment.Merge(t.Context(), &out, int64(len(result)), parts, segment.MergeOptions{}); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(out.Bytes(), want) {
					t.Fatalf("%+v, sorted %v, %v dropped: %d bytes, want %d", s, sorted, drop, out.Len(), len(want))
				}
			}
		}
	}
}

// TestManySegmentsAreOne: with the statistics of all, the answer does not depend on how rows are split.
func TestManySegmentsAreOne(t *testing.T) {
	s := shapes[4]
	rng := rand.New(rand.NewPCG(11, 6))
	of := draw(rng, s)
	fs := fields(s.fields, true)
	m := modelOf(of, 0, s.rows, s.fields)
	norms := m.norms(similarity.DefaultParams)
	whole := open(t, build(t, of, 0, s.rows, segment.Options{Fields: fs}), segment.OpenOptions{Resident: true})
	for _, n := range []int{8, 32} {
		var parts []*segment.Reader
		var bases []int64
		for i := range n {
			from, to := i*s.rows/n, (i+1)*s.rows/n
			parts = append(parts, open(t, build(t, of, from, to, segment.Options{Fields: fs}), segment.OpenOptions{}))
			bases = append(bases, int64(from))
		}
		for range 60 {
			q := drawQuery(rng, of, s.fields, func(f int) bool { return fs[f].Positions })
			for _, track := range []int64{-1, 0, 1000} {
				one, many := collector(10, track), collector(10, track)
				ask(t, whole, q, norms, nil, 0, one)
				apart := best.New(10)
				for i, p := range parts {
					ask(t, p, q, norms, nil, uint32(i), many)
					c := collector(10, track)
					ask(t, p, q, norms, nil, uint32(i), c)
					apart.Merge(c.Top)
				}
				want := one.Top.Hits()
				for _, got := range []*best.Rows{many.Top, apart} {
					hits := got.Hits()
					for i := range hits {
						hits[i].Pos += bases[hits[i].File]
						hits[i].File = 0
					}
					if !slices.Equal(hits, want) {
						t.Fatalf("%v in %d parts: %v, want %v", q, n, hits, want)
					}
				}
				if track < 0 && (one.Hits != many.Hits || one.Lower || many.Lower) {
					t.Fatalf("%v in %d parts: %d hits, want %d", q, n, many.Hits, one.Hits)
				}
			}
		}
	}
}

// TestBuilderRefuses lists what a builder does not take.
func TestBuilderRefuses(t *testing.T) {
	for name, o := range map[string]segment.Options{
		"no fields":  {},
		"parameters": {Fields: []segment.Field{{Params: similarity.Params{K1: -1}}}},
	} {
		if _, err := segment.NewBuilder(o); !errs.Is(err, errs.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, c := range map[string]struct {
		f    func(b *segment.Builder) error
		want errs.Kind
	}{
		"a row twice":     {func(b *segment.Builder) error { b.Begin(3, 0); b.End(); return b.Begin(3, 0) }, errs.Invalid},
		"rows that fall":  {func(b *segment.Builder) error { b.Begin(3, 0); b.End(); return b.Begin(2, 0) }, errs.Invalid},
		"a strange field": {func(b *segment.Builder) error { return b.Begin(3, 1) }, errs.Invalid},
		"too many rows":   {func(b *segment.Builder) error { return b.Begin(segment.MaxRows, 0) }, errs.Invalid},
		"an empty term":   {func(b *segment.Builder) error { b.Begin(3, 0); b.Token(nil, 0); return b.End() }, errs.Invalid},
		"a long term": {func(b *segment.Builder) error {
			b.Begin(3, 0)
			b.Token(make([]byte, segment.MaxTerm+1), 0)
			return b.End()
		}, errs.Unsupported},
		"places that fall": {func(b *segment.Builder) error {
			b.Begin(3, 0)
			b.Token([]byte("a"), 4)
			b.Token([]byte("a"), 3)
			return b.End()
		}, errs.Invalid},
		"fewer rows": {func(b *segment.Builder) error {
			b.Begin(3, 0)
			b.End()
			_, err := b.Finish(t.Context(), new(bytes.Buffer), 3)
			return err
		}, errs.Invalid},
		"too many lengths": {func(b *segment.Builder) error {
			_, err := b.Finish(t.Context(), new(bytes.Buffer), segment.MaxRows)
			return err
		}, errs.Exhausted},
	} {
		b, err := segment.NewBuilder(segment.Options{Fields: fields(1, true)})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.f(b); !errs.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestStreamsAreTaken: Add takes the tokens of an analyzer, and scores are the two that Elasticsearch's documentation publishes.
func TestStreamsAreTaken(t *testing.T) {
	a, err := analysis.Find("standard")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		texts []string
		want  float32
	}{
		{[]string{"Fox"}, 0.2876821},
		{[]string{"a fox runs", strings.Repeat("word ", 8), strings.Repeat("word ", 8), strings.Repeat("word ", 4), strings.Repeat("word ", 4)}, 1.6943598},
	} {
		b, err := segment.NewBuilder(segment.Options{Fields: []segment.Field{{Analyzer: a.Fingerprint(), Positions: true, Params: similarity.DefaultParams}}})
		if err != nil {
			t.Fatal(err)
		}
		var s analysis.Stream
		for i, text := range c.texts {
			s.Reset(a, text)
			if err := b.Add(uint32(i), 0, &s); err != nil {
				t.Fatal(err)
			}
		}
		var out bytes.Buffer
		if _, err := b.Finish(t.Context(), &out, int64(len(c.texts))); err != nil {
			t.Fatal(err)
		}
		r := open(t, out.Bytes(), segment.OpenOptions{})
		st := r.Stats(0)
		norms := similarity.InverseNorms(similarity.DefaultParams, similarity.AverageLength(st.Docs, st.SumTotalTermFreq))
		w := similarity.Weight(similarity.DefaultParams, 1, similarity.IDF(st.Docs, 1))
		col := collector(10, -1)
		ask(t, r, want{terms: []string{"fox"}, fields: []int{0}, weights: []float32{w}, repeats: []int{1}, slop: -1}, []*[256]float32{&norms}, nil, 0, col)
		if h := col.Top.Hits(); len(h) != 1 || h[0].Score != c.want {
			t.Errorf("%v, want %v", h, c.want)
		}
	}
}

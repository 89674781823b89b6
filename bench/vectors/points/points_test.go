package points_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/overlakedb/overlake/bench/vectors/points"
	"github.com/overlakedb/overlake/internal/testenv"
	"github.com/overlakedb/overlake/internal/vec"
)

func TestRowsDependOnSeedAndNumberOnly(t *testing.T) {
	c := points.Clusters{Seed: 3, Dim: 24}
	long, clusters := c.Rows(9000) // more than one chunk
	short, _ := c.Rows(500)
	if !slices.Equal(long[:500*24], short) {
		t.Fatal("the first rows depend on how many follow")
	}
	again, _ := c.Rows(9000)
	if !slices.Equal(long, again) {
		t.Fatal("two runs differ")
	}
	c.Seed++
	if other, _ := c.Rows(500); slices.Equal(other, short) {
		t.Fatal("another seed gives the same rows")
	}
	sizes := map[uint16]int{}
	for _, x := range clusters {
		sizes[x]++
	}
	if len(sizes) < 250 || sizes[0] < 5*9000/300 {
		t.Fatalf("%d clusters, the first of %d rows: not skewed as Zipf's law says", len(sizes), sizes[0])
	}
}

// TestFirstRow holds the bytes of the seed: who changes the generator changes what all results are about.
func TestFirstRow(t *testing.T) {
	rows, clusters := points.Clusters{Seed: 20260930, Dim: 4}.Rows(2)
	want := []float32{0.21697, -0.29514, -1.14707, -1.05189, -1.99899, 0.33750, -0.96079, 0.22427}
	for i := range want {
		if math.Abs(float64(rows[i]-want[i])) > 1e-5 {
			t.Fatalf("rows %v in clusters %v, want %v", rows, clusters, want)
		}
	}
}

func TestQueriesAreOtherRows(t *testing.T) {
	c := points.Clusters{Seed: 5, Dim: 32, Unit: true}
	rows, _ := c.Rows(100)
	like, shifted := c.Queries(100), c.Shifted(100)
	if slices.Equal(rows, like) || slices.Equal(like, shifted) {
		t.Fatal("queries are the rows themselves")
	}
	for _, v := range [][]float32{rows, like, shifted} {
		for at := 0; at < len(v); at += 32 {
			if n := vec.Norm(v[at : at+32]); math.Abs(n-1) > 1e-5 {
				t.Fatalf("length %v", n)
			}
		}
	}
}

func plain(metric vec.Metric) *points.Set {
	c := points.Clusters{Seed: 8, Dim: 16, Count: 20}
	s := &points.Set{Name: "plain", Dim: 16, Metric: metric}
	s.Base, s.Clusters = c.Rows(3000)
	copy(s.Base[16*100:], s.Base[16*99:16*100]) // two equal rows
	s.Queries = []points.Queries{{Rows: c.Queries(20)}}
	return s
}

// nearest ranks all allowed rows in the plainest way.
func nearest(s *points.Set, q []float32, k int, f *points.Filter) []int32 {
	var ids []int32
	for i := range s.Len() {
		if f == nil || slices.Contains(f.Rows, uint32(i)) {
			ids = append(ids, int32(i))
		}
	}
	dist := func(i int32) float64 {
		return s.Metric.Distance(q, s.Base[int(i)*s.Dim:int(i+1)*s.Dim])
	}
	slices.SortStableFunc(ids, func(a, b int32) int {
		switch x, y := dist(a), dist(b); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	out := slices.Repeat([]int32{-1}, k)
	copy(out, ids)
	return out
}

func TestTruthOfPlainRanking(t *testing.T) {
	const k = 10
	for _, metric := range []vec.Metric{vec.MetricL2, vec.MetricDot} {
		s := plain(metric)
		lot := s.Uncorrelated(0.01, 1)
		few := s.Correlated(0.001, 1)
		if len(lot.Rows) != 30 || len(few.Rows) != 3 || few.Allowed[few.Rows[0]/64]>>(few.Rows[0]%64)&1 != 1 {
			t.Fatalf("filters of %d and %d rows", len(lot.Rows), len(few.Rows))
		}
		for _, f := range []*points.Filter{nil, &lot, &few} {
			q := s.Queries[0].Rows
			truth := s.Truth(q, k, f)
			var answers []int32
			for at := 0; at < len(q); at += s.Dim {
				answers = append(answers, nearest(s, q[at:at+s.Dim], k, f)...)
			}
			if r, forbidden := truth.Recall(answers, k); r < 0.999 || forbidden != 0 {
				t.Fatalf("%v: the plain ranking has recall %v, %d forbidden", metric, r, forbidden)
			}
		}
	}
}

func TestRecallCounts(t *testing.T) {
	const k = 10
	s := plain(vec.MetricL2)
	q := s.Queries[0].Rows[:2*s.Dim]
	truth := s.Truth(q, k, nil)
	right := append(nearest(s, q[:s.Dim], k, nil), nearest(s, q[s.Dim:], k, nil)...)
	check := func(what string, answers []int32, want float64) {
		t.Helper()
		if r, _ := truth.Recall(answers, k); math.Abs(r-want) > 1e-9 {
			t.Errorf("%s: recall %v, want %v", what, r, want)
		}
	}
	check("right", right, 1)
	wrong := slices.Clone(right)
	wrong[3], wrong[17] = -1, int32(s.Len())
	check("two missing", wrong, 0.9)
	twice := slices.Clone(right)
	twice[1] = twice[0]
	check("a row twice", twice, 0.95)
	mixed := slices.Clone(right)
	rand.New(rand.NewPCG(1, 1)).Shuffle(k, func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
	check("another order", mixed, 1)
	first, _ := truth.First(1).Recall(right[:k], k)
	if first != 1 {
		t.Errorf("first query: %v", first)
	}

	f := s.Uncorrelated(0.5, 2)
	_, forbidden := s.Truth(q, k, &f).Recall(right, k)
	want := 0
	for _, id := range right {
		if f.Allowed[id/64]>>(id%64)&1 == 0 {
			want++
		}
	}
	if forbidden != want || want == 0 {
		t.Errorf("%d forbidden, want %d", forbidden, want)
	}
	// The equal rows 99 and 100 are worth the same.
	one := s.Truth(s.Base[99*s.Dim:100*s.Dim], 1, nil)
	for _, id := range []int32{99, 100} {
		if r, _ := one.Recall([]int32{id}, 1); r != 1 {
			t.Errorf("row %d is not its own neighbour", id)
		}
	}
}

func TestExampleSet(t *testing.T) {
	places := points.Places{Examples: testenv.Examples(t), Shared: t.TempDir()}
	for _, src := range points.Sources {
		switch src.Name {
		case "fiori-778-384":
			s, err := src.Make(places, 50)
			if err != nil {
				t.Fatal(err)
			}
			if s.Len() != 778 || len(s.Queries[0].Rows) != 50*384 {
				t.Fatalf("%d rows, %d numbers of queries", s.Len(), len(s.Queries[0].Rows))
			}
		case "sift-10k-128":
			if _, err := src.Make(places, 1); err == nil {
				t.Fatal("an absent collection is no error")
			}
		}
	}
}

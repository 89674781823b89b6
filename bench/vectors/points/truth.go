package points

import (
	"cmp"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/kernel"
)

// Filter is a set of rows that an answer may hold.
type Filter struct {
	Name    string
	Allowed []uint64 // one bit a row, the lowest bit of a word first
	Rows    []uint32 // the same, ascending
}

func newFilter(name string, n int, rows []uint32) Filter {
	slices.Sort(rows)
	f := Filter{Name: name, Allowed: make([]uint64, (n+63)/64), Rows: rows}
	for _, r := range rows {
		f.Allowed[r/64] |= 1 << (r % 64)
	}
	return f
}

// share is how many of n rows a filter of the given share keeps: at least one.
func share(n int, selectivity float64) int {
	return max(1, int(math.Round(selectivity*float64(n))))
}

// Uncorrelated keeps rows by lot.
func (s *Set) Uncorrelated(selectivity float64, seed uint64) Filter {
	n := s.Len()
	order := rand.New(rand.NewPCG(seed, 11)).Perm(n)
	rows := make([]uint32, share(n, selectivity))
	for i := range rows {
		rows[i] = uint32(order[i])
	}
	return newFilter("uncorrelated", n, rows)
}

// Correlated keeps the rows of clusters drawn by lot, so that what passes lies together and mostly away from a query. Of
// the last cluster it keeps as many rows as are missing. It needs a made set.
func (s *Set) Correlated(selectivity float64, seed uint64) Filter {
	n := s.Len()
	want := share(n, selectivity)
	members := map[uint16][]uint32{}
	for i, c := range s.Clusters {
		members[c] = append(members[c], uint32(i))
	}
	names := make([]uint16, 0, len(members))
	for c := range members {
		names = append(names, c)
	}
	slices.Sort(names)
	rand.New(rand.NewPCG(seed, 12)).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	var rows []uint32
	for _, c := range names {
		rows = append(rows, members[c][:min(len(members[c]), want-len(rows))]...)
		if len(rows) == want {
			break
		}
	}
	return newFilter("correlated", n, rows)
}

// Truth holds the distance of the last of the k nearest rows for each query.
type Truth struct {
	set   *Set
	ask   []float32
	k     []int // the true neighbours of each query: fewer than asked for when fewer rows pass
	last  []float64
	allow []uint64
}

// Truth finds the k nearest rows of each query among the allowed ones; allowed may be nil.
func (s *Set) Truth(queries []float32, k int, f *Filter) *Truth {
	n := len(queries) / s.Dim
	t := &Truth{set: s, ask: queries, k: make([]int, n), last: make([]float64, n)}
	if f != nil {
		t.allow = f.Allowed
	}
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		g.Go(func() error {
			t.k[i], t.last[i] = s.last(queries[i*s.Dim:(i+1)*s.Dim], k, f)
			return nil
		})
	}
	g.Wait() // nothing in it fails
	return t
}

// last is the distance of the k-th nearest row. Floats choose the candidates, with some to spare, and float64 decides.
func (s *Set) last(q []float32, k int, f *Filter) (int, float64) {
	const block = 1024
	out := make([]float32, block)
	keep := 2*k + 10
	type candidate struct {
		row  uint32
		dist float32
	}
	best := make([]candidate, 0, 2*keep)
	bound := float32(math.Inf(1))
	shrink := func() {
		slices.SortFunc(best, func(a, b candidate) int { return cmp.Compare(a.dist, b.dist) })
		if len(best) > keep {
			best = best[:keep]
			bound = best[keep-1].dist
		}
	}
	add := func(row uint32, d float32) {
		if s.Metric != vec.MetricL2 {
			d = -d
		}
		if d < bound {
			best = append(best, candidate{row, d})
			if len(best) == cap(best) {
				shrink()
			}
		}
	}
	if f != nil {
		for at := 0; at < len(f.Rows); at += block {
			ids := f.Rows[at:min(at+block, len(f.Rows))]
			if s.Metric == vec.MetricL2 {
				kernel.L2At(q, s.Base, ids, out[:len(ids)])
			} else {
				kernel.DotAt(q, s.Base, ids, out[:len(ids)])
			}
			for i, id := range ids {
				add(id, out[i])
			}
		}
	} else {
		for at := 0; at < s.Len(); at += block {
			m := min(block, s.Len()-at)
			rows := s.Base[at*s.Dim : (at+m)*s.Dim]
			if s.Metric == vec.MetricL2 {
				kernel.L2(q, rows, out[:m])
			} else {
				kernel.Dot(q, rows, out[:m])
			}
			for i, d := range out[:m] {
				add(uint32(at+i), d)
			}
		}
	}
	shrink()
	exact := make([]float64, len(best))
	for i, c := range best {
		exact[i] = s.distance(q, c.row)
	}
	slices.Sort(exact)
	k = min(k, len(exact))
	if k == 0 {
		return 0, 0
	}
	return k, exact[k-1]
}

// distance ranks rows: a squared Euclidean distance, or the negative inner product, in float64.
func (s *Set) distance(q []float32, row uint32) float64 {
	sum := 0.0
	r := s.Base[int(row)*s.Dim : (int(row)+1)*s.Dim]
	if s.Metric == vec.MetricL2 {
		for i, x := range q {
			d := float64(x) - float64(r[i])
			sum += d * d
		}
		return sum
	}
	for i, x := range q {
		sum -= float64(x) * float64(r[i])
	}
	return sum
}

// Recall is the share of the true neighbours among answers, k of them for each query, the first queries first; a negative
// number stands for none. A row counts once and only when it is allowed: one that is not allowed is reported.
func (t *Truth) Recall(answers []int32, k int) (recall float64, forbidden int) {
	n := len(answers) / k
	found, all := 0, 0
	for i := range n {
		mine := answers[i*k : (i+1)*k]
		q := t.ask[i*t.set.Dim : (i+1)*t.set.Dim]
		hits := 0
		for j, id := range mine {
			switch {
			case id < 0 || int(id) >= t.set.Len() || slices.Contains(mine[:j], id):
			case t.allow != nil && t.allow[id/64]&(1<<(id%64)) == 0:
				forbidden++
			case t.set.distance(q, uint32(id)) <= t.last[i]:
				hits++
			}
		}
		found += min(hits, t.k[i])
		all += t.k[i]
	}
	if all == 0 {
		return 1, forbidden
	}
	return float64(found) / float64(all), forbidden
}

// Of the truth, First is that of the first n queries.
func (t *Truth) First(n int) *Truth {
	f := *t
	f.k, f.last = t.k[:n], t.last[:n]
	return &f
}

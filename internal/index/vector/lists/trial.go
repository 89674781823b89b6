package lists

import (
	"cmp"
	"context"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/kernel"
)

// trial finds out how many probes and candidates searches need. Some rows stand for queries: their true neighbours are
// known once all rows went by, and their ranks among estimates once all lists did. A row is not its own neighbour.
type trial struct {
	x         *build
	ordinals  []int64   // of the rows, ascending
	queries   []float32 // the rows
	positions []uint32
	filled    int
	truth     []best // 100 nearest rows of each, place is the position, probe the trained list
	budget    int    // of one query: estimates kept

	core    core
	ranks   [][]uint32 // of each query: the rank of each list that is written
	wanted  []uint32   // of each query: how many lists it scans
	true    [][]neighbour
	seen    []best // the best estimates of the lists scanned: place is the position, probe the rank of the list
	current query
	scans   []*query // of each worker
}

type neighbour struct {
	pos  uint32
	rank int // of its list
}

const (
	trialQueries   = 200
	trialDistances = 20_000_000 // the number of queries goes down so that there are not many more comparisons
	trialLeast     = 40
	fewNeighbours  = 10
	manyNeighbours = 100
)

func newTrial(x *build, rng *rand.Rand) *trial {
	n := min(max(trialDistances/x.rows, trialLeast), trialQueries, x.rows)
	n = max(min(n, x.memory/64/int64(4*x.o.Dim), x.memory/32/12/1024), 1)
	t := &trial{x: x, queries: make([]float32, n*int64(x.o.Dim)), positions: make([]uint32, n), truth: make([]best, n)}
	for i := range n {
		from, to := i*x.rows/n, (i+1)*x.rows/n
		t.ordinals = append(t.ordinals, from+rng.Int64N(to-from))
		t.truth[i].begin(manyNeighbours)
	}
	t.budget = int(min(x.memory/32/12/n, 4096))
	return t
}

// holds: the row stands for a query.
func (t *trial) holds(ordinal int64) bool {
	_, ok := slices.BinarySearch(t.ordinals, ordinal)
	return ok
}

// fill takes the queries out of the rows as they go by.
func (t *trial) fill(c *chunk) {
	dim := t.x.o.Dim
	for t.filled < len(t.ordinals) && t.ordinals[t.filled] < c.first+int64(len(c.positions)) {
		i := int(t.ordinals[t.filled] - c.first)
		copy(t.queries[t.filled*dim:][:dim], c.rows[i*dim:])
		t.positions[t.filled] = c.positions[i]
		t.filled++
	}
}

// compare looks for neighbours among the rows of some chunks.
func (t *trial) compare(ctx context.Context, wave []worker) error {
	dim := t.x.o.Dim
	return t.x.parallel(ctx, len(t.ordinals), func(i int) error {
		q, own, b := t.queries[i*dim:][:dim], t.ordinals[i], &t.truth[i]
		var out []float32
		var chosen []uint32
		for w := range wave {
			c := &wave[w].chunk
			out = grow(out, len(c.positions))
			switch t.x.p.metric {
			case vec.MetricL2:
				kernel.L2(q, c.rows, out)
			case vec.MetricL1:
				kernel.L1(q, c.rows, out)
			default:
				kernel.Dot(q, c.rows, out)
				for k, v := range out {
					out[k] = -v
				}
			}
			chosen = grow(chosen, len(out))
			for _, k := range chosen[:kernel.Select(out, b.bound, chosen)] {
				if d := out[k]; d < b.bound && c.first+int64(k) != own {
					b.add(candidate{d: d, place: c.positions[k], probe: wave[w].ids[k]})
				}
			}
		}
		return nil
	})
}

// begin takes the lists as they are written, and decides which lists each query scans.
func (t *trial) begin(x *build, lists []final, centroids []float32) {
	t.core = core{p: x.p, c: x.c, layout: x.layout, centroids: centroids}
	t.core.c.route = nil // keys as floats
	t.core.finish()
	n := len(lists)
	if limit := x.memory / 64 / int64(4*n); int64(len(t.ordinals)) > limit {
		t.ordinals = t.ordinals[:max(limit, 1)]
	}
	lastOf := make([]int, len(x.counts)) // the written list of a trained one
	for i, f := range lists {
		lastOf[f.trained] = i
	}
	t.ranks, t.true = make([][]uint32, len(t.ordinals)), make([][]neighbour, len(t.ordinals))
	t.wanted, t.seen = make([]uint32, len(t.ordinals)), make([]best, len(t.ordinals))
	near := make([][]candidate, len(t.ordinals))
	for i := range near {
		near[i] = t.truth[i].sorted()
		t.seen[i].begin(t.budget)
	}
	t.rank(near, lastOf)
	if x.p.metric == vec.MetricDot {
		least, lean := t.effort(), float32(0)
		t.core.lean = make([]float32, n)
		for _, by := range leans {
			for l, f := range lists {
				t.core.lean[l] = by * x.radii[f.trained]
			}
			t.rank(near, lastOf)
			if e := t.effort(); e < least {
				least, lean = e, by
			}
		}
		x.p.lean = lean
		for l, f := range lists {
			t.core.lean[l] = lean * x.radii[f.trained]
		}
		t.rank(near, lastOf)
	}
	for k, size := range [2]int{fewNeighbours, manyNeighbours} {
		for j, share := range [2]float64{0.95, 0.99} {
			// Some of what may be lost is left for the estimates, and some for queries that are not like rows.
			p := t.probes(size, share+(1-share)*0.6)
			x.p.tuning[k][j].probes = uint32(p)
			for i := range t.wanted {
				t.wanted[i] = max(t.wanted[i], uint32(p))
			}
		}
	}
}

// leans are tried for inner products: shares of the radius of a list. The largest products are those of long rows, which lie
// farthest from their centroid; were all in the direction of the query, the share would be 1.
var leans = []float32{0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5}

// effort tells how many lists it takes to find the ten nearest, and a hundred.
func (t *trial) effort() float64 {
	return float64(t.probes(fewNeighbours, 0.95)) + float64(t.probes(fewNeighbours, 0.99))/4 + float64(t.probes(manyNeighbours, 0.95))/4
}

// rank ranks the lists for each query, and finds those of its true neighbours.
func (t *trial) rank(near [][]candidate, lastOf []int) {
	order := make([]int, t.core.p.lists)
	for i := range t.ordinals {
		q := &t.current
		q.begin(&t.core, t.query(i))
		q.turn()
		q.rank()
		for l := range order {
			order[l] = l
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(q.keys[a], q.keys[b]) })
		if t.ranks[i] == nil {
			t.ranks[i] = make([]uint32, len(order))
		}
		for r, l := range order {
			t.ranks[i][l] = uint32(r)
		}
		t.true[i] = t.true[i][:0]
		for _, c := range near[i] {
			t.true[i] = append(t.true[i], neighbour{c.place, int(t.ranks[i][lastOf[c.probe]])})
		}
	}
}

func (t *trial) query(i int) []float32 { return t.queries[i*t.x.o.Dim:][:t.x.o.Dim] }

// probes is the least number of lists in which a share of the neighbours lie.
func (t *trial) probes(k int, share float64) int {
	at := make([]int, len(t.ranks[0])+1) // neighbours by the rank of their list
	all := 0
	for _, near := range t.true {
		for _, n := range near[:min(k, len(near))] {
			at[n.rank]++
			all++
		}
	}
	found := 0
	for rank, n := range at {
		if found += n; float64(found) >= share*float64(all) {
			return rank + 1
		}
	}
	return len(t.ranks[0])
}

// scan lets the queries estimate the rows of a list that goes by.
func (t *trial) scan(ctx context.Context, list int, piece []byte, n int) error {
	if t.core.sure() {
		return canceled(ctx)
	}
	p, err := t.core.layout.view(piece, n)
	if err != nil {
		return err
	}
	positions := t.core.layout.positions(&p)
	// Each worker takes some of the queries, which know nothing of each other.
	share := min(t.x.workers, len(t.ranks))
	for len(t.scans) < share {
		t.scans = append(t.scans, new(query))
	}
	return t.x.parallel(ctx, share, func(worker int) error {
		var estimates [kernel.BlockRows]float32
		var below [1]uint64
		q := t.scans[worker]
		for i := worker; i < len(t.ranks); i += share {
			if t.ranks[i][list] >= t.wanted[i] {
				continue
			}
			if err := canceled(ctx); err != nil {
				return err
			}
			q.begin(&t.core, t.query(i))
			q.turn()
			probes := [1]probe{{list: uint32(list)}}
			q.exactKeys([]uint32{uint32(list)}, estimates[:1])
			probes[0].key = estimates[0]
			q.bases(probes[:])
			for from := 0; from < n; from += kernel.BlockRows {
				rows := min(kernel.BlockRows, n-from)
				q.estimate(&p, from, probes[0].base, t.seen[i].bound, estimates[:rows], nil, below[:])
				for m := below[0]; m != 0; m &= m - 1 {
					j := bits.TrailingZeros64(m)
					if pos := positions[from+j]; pos != t.positions[i] {
						t.seen[i].add(candidate{d: estimates[j], place: pos, probe: t.ranks[i][list]})
					}
				}
			}
		}
		return nil
	})
}

// tune writes down how many candidates are needed, and what that finds.
func (t *trial) tune(p *params, stats *Stats) {
	// Of the best estimates of each query, in order: the list's rank, and which of the true neighbours it is, counted from 1.
	for i := range t.true {
		if t.core.sure() {
			break
		}
		which := make(map[uint32]uint32, len(t.true[i]))
		for n, near := range t.true[i] {
			which[near.pos] = uint32(n + 1)
		}
		seen := t.seen[i].sorted()
		for r := range seen {
			seen[r].place = which[seen[r].place]
		}
	}
	for k, size := range [2]int{fewNeighbours, manyNeighbours} {
		for j, share := range [2]float64{0.95, 0.99} {
			e := &p.tuning[k][j]
			e.rerank = uint32(min(size, int(p.rows)))
			found, all := t.found(size, int(e.probes))
			if !t.core.sure() {
				want := int(math.Ceil((share + (1-share)*0.4) * float64(all)))
				sum := 0
				for r, n := range found {
					if sum += n; sum >= want || r == len(found)-1 {
						e.rerank = max(e.rerank, uint32(r+1))
						break
					}
				}
			}
			if k == 0 && j == 0 && all > 0 {
				sum := 0
				for r, n := range found {
					if t.core.sure() || r < int(e.rerank) {
						sum += n
					}
				}
				p.recall = float32(sum) / float32(all)
			}
		}
	}
}

// found counts the k true neighbours by their rank among the estimates of that many lists; without rerank rows, by that of
// their list.
func (t *trial) found(k, probes int) (at []int, all int) {
	at = make([]int, t.budget+1)
	for i, near := range t.true {
		near = near[:min(k, len(near))]
		all += len(near)
		if t.core.sure() {
			for _, n := range near {
				if n.rank < probes {
					at[0]++
				}
			}
			continue
		}
		r := 0
		for _, c := range t.seen[i].rows {
			if int(c.probe) >= probes {
				continue
			}
			if c.place > 0 && int(c.place) <= len(near) {
				at[r]++
			}
			r++
		}
	}
	return at, all
}

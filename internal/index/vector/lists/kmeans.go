package lists

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/code"
	"github.com/overlakedb/overlake/internal/vec/kernel"
)

const (
	samplePerList = 64 // rows of the sample for each list
	rounds        = 10 // of k-means
	quarterRounds = 4  // the first ones: over every fourth point
	halfRounds    = 3  // and the next: over every second
	leastPerCell  = 8  // points that are left for each cell then
)

// flatLists is the number of lists above which centroids are found in two steps.
var flatLists = 2048

// cells are centroids in groups of neighbours. With one group, a row is compared with all; with more, with those of the
// group that is nearest and of some around it.
type cells struct {
	dim       int
	groups    []group
	tops      []float32 // the centroid of each group
	topHalf   []float32
	centroids []float32
	half      []float32 // half the squared length of each centroid
}

type group struct {
	from, to int   // its centroids
	near     []int // the groups to look into, itself first
}

// nearGroups is how many groups are looked into.
const nearGroups = 8

func halves(dim int, centroids []float32) []float32 {
	half := make([]float32, len(centroids)/dim)
	for i := range half {
		c := centroids[i*dim:][:dim]
		half[i] = vec.Dot(c, c) / 2
	}
	return half
}

// nearest finds the list of each row.
func (c *cells) nearest(rows []float32, ids []uint32) {
	dim := c.dim
	best := make([]float32, len(ids))
	if len(c.groups) == 1 {
		kernel.Nearest(dim, rows, c.centroids, c.half, ids, best)
		return
	}
	top := make([]uint32, len(ids))
	kernel.Nearest(dim, rows, c.tops, c.topHalf, top, best)
	members := make([][]uint32, len(c.groups))
	for i, t := range top {
		members[t] = append(members[t], uint32(i))
	}
	var some []float32
	var found []uint32
	var near []float32
	for t, of := range members {
		if len(of) == 0 {
			continue
		}
		some, found, near = grow(some, len(of)*dim), grow(found, len(of)), grow(near, len(of))
		for i, r := range of {
			copy(some[i*dim:][:dim], rows[int(r)*dim:])
			best[r] = float32(math.Inf(1))
		}
		for _, g := range c.groups[t].near {
			g := c.groups[g]
			kernel.Nearest(dim, some, c.centroids[g.from*dim:g.to*dim], c.half[g.from:g.to], found, near)
			for i, r := range of {
				if near[i] < best[r] || math.IsInf(float64(best[r]), 1) {
					best[r], ids[r] = near[i], uint32(g.from)+found[i]
				}
			}
		}
	}
}

// train draws the sample and finds centroids.
func (x *build) train(ctx context.Context) error {
	dim := x.o.Dim
	lists := x.o.Lists
	if lists == 0 {
		lists = defaultLists(x.rows)
	}
	lists = int(min(int64(lists), x.rows))
	if most := max(x.memory/4/int64(16*dim), 1); int64(lists) > most {
		if x.o.Lists > 0 {
			return errs.New(errs.Exhausted, "lists.build", fmt.Sprintf("%d lists take more memory than the build has", lists), errs.Hint("ask for %d at most", most))
		}
		lists = int(most)
	}
	rng := rand.New(rand.NewPCG(x.o.Seed, 0x6c69737473))
	x.trial = newTrial(x, rng)
	// A sample of rows, one drawn from each of n equal stretches. Rows that stand for queries are left out, where many are left.
	most := max(x.memory*shareSample/16/int64(4*dim), int64(lists))
	n := min(x.rows, int64(lists)*samplePerList, most)
	sample := make([]float32, 0, n*int64(dim))
	var c chunk
	next := int64(0)
	draw := func(i int64) int64 {
		from, to := i*x.rows/n, (i+1)*x.rows/n
		return from + rng.Int64N(to-from)
	}
	at := draw(0)
	skip := x.rows > 20*int64(len(x.trial.queries))
	for id := range x.raw.blocks {
		if err := canceled(ctx); err != nil {
			return err
		}
		if err := x.chunk(id, &c); err != nil {
			return err
		}
		for next < n && at < c.first+int64(len(c.positions)) {
			i := int(at - c.first)
			if !skip || !x.trial.holds(at) {
				sample = append(sample, c.rows[i*dim:][:dim]...)
			}
			if next++; next < n {
				at = draw(next)
			}
		}
		x.trial.fill(&c)
		x.step(int64(len(c.positions)))
	}
	x.held = max(x.held, int64(len(sample))*4)
	if x.p.code != code.Float32 {
		sums := make([]float64, dim)
		for at := 0; at < len(sample); at += dim {
			for i, v := range sample[at:][:dim] {
				sums[i] += float64(v)
			}
		}
		for i, s := range sums {
			x.p.mean[i] = float32(s * float64(dim) / float64(len(sample)))
		}
		for at := 0; at < len(sample); at += dim {
			less(sample[at:][:dim], x.p.mean)
		}
	}
	var err error
	x.cells, err = x.cluster(ctx, sample, min(lists, len(sample)/dim), rng)
	if err != nil {
		return err
	}
	// Centroids and the mean, as rows are packed.
	x.turned = make([]float32, len(x.cells.centroids))
	for at := 0; at < len(x.turned); at += dim {
		x.c.scan.Rotate(x.turned[at:][:dim], x.cells.centroids[at:][:dim])
	}
	x.meanT = make([]float32, dim)
	x.c.scan.Rotate(x.meanT, x.p.mean)
	x.step(x.rows)
	return nil
}

func less(x, y []float32) {
	y = y[:len(x)]
	for i := range x {
		x[i] -= y[i]
	}
}

// cluster finds about k centroids in the sample, in an order in which neighbours are near.
func (x *build) cluster(ctx context.Context, sample []float32, k int, rng *rand.Rand) (*cells, error) {
	dim := x.o.Dim
	c := &cells{dim: dim}
	if k <= flatLists {
		centroids, err := x.kmeans(ctx, sample, k, rng, true)
		if err != nil {
			return nil, err
		}
		c.centroids = ordered(dim, centroids)
		c.groups = []group{{0, len(c.centroids) / dim, []int{0}}}
		c.half = halves(dim, c.centroids)
		return c, nil
	}
	groups := int(math.Round(math.Sqrt(float64(k))))
	tops, err := x.kmeans(ctx, sample, groups, rng, false)
	if err != nil {
		return nil, err
	}
	c.tops = ordered(dim, tops)
	groups = len(c.tops) / dim
	c.topHalf = halves(dim, c.tops)
	n := len(sample) / dim
	ids := make([]uint32, n)
	if err := x.nearestOf(ctx, sample, c.tops, c.topHalf, ids, make([]float32, n)); err != nil {
		return nil, err
	}
	for g := range groups {
		var own []float32
		for i, id := range ids {
			if int(id) == g {
				own = append(own, sample[i*dim:][:dim]...)
			}
		}
		from := len(c.centroids) / dim
		if rows := len(own) / dim; rows == 0 {
			c.centroids = append(c.centroids, c.tops[g*dim:][:dim]...)
		} else {
			share := max(1, int(math.Round(float64(k)*float64(rows)/float64(n))))
			leaves, err := x.kmeans(ctx, own, share, rng, true)
			if err != nil {
				return nil, err
			}
			c.centroids = append(c.centroids, ordered(dim, leaves)...)
		}
		c.groups = append(c.groups, group{from: from, to: len(c.centroids) / dim})
	}
	c.half = halves(dim, c.centroids)
	distances := make([]float32, groups)
	for g := range c.groups {
		kernel.L2(c.tops[g*dim:][:dim], c.tops, distances)
		near := make([]int, groups)
		for i := range near {
			near[i] = i
		}
		distances[g] = -1
		slices.SortStableFunc(near, func(a, b int) int { return cmp.Compare(distances[a], distances[b]) })
		c.groups[g].near = near[:min(nearGroups, groups)]
	}
	return c, nil
}

const stretch = 512 // points that one worker takes at once

// nearestOf is kernel.Nearest by all workers.
func (x *build) nearestOf(ctx context.Context, points, centroids, half []float32, ids []uint32, near []float32) error {
	dim := x.o.Dim
	return x.parallel(ctx, (len(ids)+stretch-1)/stretch, func(i int) error {
		from, to := i*stretch, min((i+1)*stretch, len(ids))
		kernel.Nearest(dim, points[from*dim:to*dim], centroids, half, ids[from:to], near[from:to])
		return nil
	})
}

// kmeans finds k centroids or, with split, some more, because cells of more than twice the mean size are split.
func (x *build) kmeans(ctx context.Context, points []float32, k int, rng *rand.Rand, split bool) ([]float32, error) {
	dim := x.o.Dim
	n := len(points) / dim
	k = min(k, n)
	centroids := make([]float32, 0, k*dim)
	for i := range k { // one of each of k stretches
		from, to := i*n/k, (i+1)*n/k
		at := from + rng.IntN(to-from)
		centroids = append(centroids, points[at*dim:][:dim]...)
	}
	if k == n {
		return centroids, nil
	}
	ids, near := make([]uint32, n), make([]float32, n)
	sums, counts := make([]float64, k*dim), make([]int, k)
	var some []float32
	every := 0
	for round := range rounds {
		// Where centroids still move far, some points show the way as well as all.
		was := every
		switch {
		case round < quarterRounds:
			every = 4
		case round < quarterRounds+halfRounds:
			every = 2
		default:
			every = 1
		}
		if n < leastPerCell*k*every {
			every = 1
		}
		if every == 1 {
			some = points
		} else if every != was {
			some = make([]float32, 0, (n/every+1)*dim)
			for i := 0; i < n; i += every {
				some = append(some, points[i*dim:][:dim]...)
			}
		}
		ids, near := ids[:len(some)/dim], near[:len(some)/dim]
		if err := x.nearestOf(ctx, some, centroids, halves(dim, centroids), ids, near); err != nil {
			return nil, err
		}
		clear(sums)
		clear(counts)
		for i, id := range ids {
			counts[id]++
			s := sums[int(id)*dim:][:dim]
			for j, v := range some[i*dim:][:dim] {
				s[j] += float64(v)
			}
		}
		for c, count := range counts {
			if count > 0 {
				for j, s := range sums[c*dim:][:dim] {
					centroids[c*dim+j] = float32(s / float64(count))
				}
			}
		}
		if round < rounds-1 {
			reseed(dim, some, centroids, ids, counts, rng)
		}
	}
	if err := x.nearestOf(ctx, points, centroids, halves(dim, centroids), ids, near); err != nil {
		return nil, err
	}
	clear(counts)
	for _, id := range ids {
		counts[id]++
	}
	members := make([][]uint32, k)
	for i, id := range ids {
		members[id] = append(members[id], uint32(i))
	}
	mean := max(1, n/k)
	var out []float32
	for c, of := range members {
		switch {
		case len(of) == 0:
		case split && len(of) > 2*mean && !alike(dim, points, of):
			var own []float32
			for _, i := range of {
				own = append(own, points[int(i)*dim:][:dim]...)
			}
			parts, err := x.kmeans(ctx, own, (len(of)+mean-1)/mean, rng, false)
			if err != nil {
				return nil, err
			}
			out = append(out, parts...)
		default:
			out = append(out, centroids[c*dim:][:dim]...)
		}
	}
	return out, nil
}

// alike: all members are equal.
func alike(dim int, points []float32, members []uint32) bool {
	first := points[int(members[0])*dim:][:dim]
	for _, i := range members[1:] {
		if !slices.Equal(first, points[int(i)*dim:][:dim]) {
			return false
		}
	}
	return true
}

// reseed gives cells without points a point of a large cell, which counts as half as large then.
func reseed(dim int, points, centroids []float32, ids []uint32, counts []int, rng *rand.Rand) {
	for c, count := range counts {
		if count > 0 {
			continue
		}
		large := 0
		for i, n := range counts {
			if n > counts[large] {
				large = i
			}
		}
		if counts[large] < 2 {
			return
		}
		nth := rng.IntN(len(ids))
		for range ids { // the first member from a place drawn by chance
			if int(ids[nth]) == large {
				break
			}
			nth = (nth + 1) % len(ids)
		}
		copy(centroids[c*dim:][:dim], points[nth*dim:][:dim])
		counts[c] = counts[large] / 2
		counts[large] -= counts[c]
	}
}

// ordered puts centroids into an order in which near ones are near: it halves them along the line between two that are far
// from each other, again and again.
func ordered(dim int, centroids []float32) []float32 {
	n := len(centroids) / dim
	ids := make([]int, n)
	for i := range ids {
		ids[i] = i
	}
	at := func(i int) []float32 { return centroids[i*dim:][:dim] }
	keys := make([]float32, n)
	farthest := func(ids []int, from int) int {
		far, most := ids[0], float32(-1)
		for _, i := range ids {
			if d := vec.SquaredL2(at(from), at(i)); d > most {
				far, most = i, d
			}
		}
		return far
	}
	var halve func(ids []int)
	halve = func(ids []int) {
		if len(ids) < 3 {
			return
		}
		a := farthest(ids, ids[0])
		b := farthest(ids, a)
		line := slices.Clone(at(b))
		less(line, at(a))
		for _, i := range ids {
			keys[i] = vec.Dot(line, at(i))
		}
		slices.SortStableFunc(ids, func(i, k int) int { return cmp.Compare(keys[i], keys[k]) })
		halve(ids[:len(ids)/2])
		halve(ids[len(ids)/2:])
	}
	halve(ids)
	out := make([]float32, 0, len(centroids))
	for _, i := range ids {
		out = append(out, at(i)...)
	}
	return out
}

package distance

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/vec/kernel"
)

// KMeansOptions shape KMeans. The zero value is usable.
type KMeansOptions struct {
	// Iterations is the most rounds of Lloyd's algorithm; 0 means 25. It ends before that when no point changes its cluster.
	Iterations int
	// Seed begins the random choices: the same points, options and kind of machine give the same clusters.
	Seed uint64
}

// Clusters are what KMeans found.
type Clusters struct {
	Dim        int
	Centroids  []float32 // one after another, Dim numbers each
	Assignment []int     // for each point the number of its centroid, the nearest one
	Sizes      []int     // for each centroid how many points it has
	// Inertia is the sum of the squared Euclidean distances of all points to their centroids.
	Inertia    float64
	Iterations int // as many rounds as were made
}

// KMeans divides points, vectors of dim elements one after another, into k clusters around centroids, such that the sum of
// squared Euclidean distances to the centroids is small: the algorithm of Lloyd ("Least squares quantization in PCM", IEEE
// Transactions on Information Theory 28, 1982) from starting points chosen as by Arthur and Vassilvitskii ("k-means++: the
// advantages of careful seeding", SODA 2007). A cluster that loses all its points begins anew at the point that is farthest
// from its centroid. For clusters by angle, Normalize the points first.
//
// k is 1 to the number of points. Numbers that are not finite are refused, and those so large that squared distances leave
// the range of float32. The call ends early, with kind canceled, when the context does.
func (d Device) KMeans(ctx context.Context, dim, k int, points []float32, o KMeansOptions) (*Clusters, error) {
	const op = "distance.kmeans"
	e, err := d.engine(op)
	if err != nil {
		return nil, err
	}
	n, err := count(op, "points", dim, len(points))
	switch {
	case err != nil:
		return nil, err
	case k < 1 || k > n:
		return nil, invalid(op, "%d points cannot make %d clusters", n, k)
	case int64(n) > math.MaxUint32:
		return nil, errs.New(errs.Unsupported, op, "there are more than 2³² points", errs.Hint("cluster a sample of them"))
	case o.Iterations < 0:
		return nil, invalid(op, "a number of iterations is not negative: %d", o.Iterations)
	}
	if err := finite(op, dim, points); err != nil {
		return nil, err
	}
	rounds := o.Iterations
	if rounds == 0 {
		rounds = 25
	}
	c := &clustering{ctx: ctx, e: e, dim: dim, k: k, n: n, points: points, rng: rand.New(rand.NewPCG(o.Seed, 0x6b6d65616e73))}
	out, err := c.run(op, rounds)
	if err != nil {
		return nil, errs.Wrap(errs.KindOf(err), op, err)
	}
	return out, nil
}

// clustering is one run of KMeans.
type clustering struct {
	ctx       context.Context
	e         engine
	dim, k, n int
	points    []float32
	rng       *rand.Rand
	mean      []float32 // of all points
	centroids []float32
	ids, last []uint32
	sizes     []int
}

func (c *clustering) run(op string, rounds int) (*Clusters, error) {
	if err := c.measure(op); err != nil {
		return nil, err
	}
	if err := c.seed(); err != nil {
		return nil, err
	}
	c.ids, c.last, c.sizes = make([]uint32, c.n), make([]uint32, c.n), make([]int, c.k)
	if err := c.assign(); err != nil {
		return nil, err
	}
	round := 0
	for round < rounds {
		round++
		if err := c.update(); err != nil {
			return nil, err
		}
		copy(c.last, c.ids)
		if err := c.assign(); err != nil {
			return nil, err
		}
		same := true
		for i, id := range c.ids {
			same = same && id == c.last[i]
		}
		if same {
			break
		}
	}
	out := &Clusters{Dim: c.dim, Centroids: c.centroids, Assignment: make([]int, c.n), Sizes: c.sizes, Iterations: round}
	for i, id := range c.ids {
		out.Assignment[i] = int(id)
		out.Inertia += float64(c.distance(i))
	}
	return out, nil
}

// measure finds the mean of the points, and refuses those that are too far from it.
func (c *clustering) measure(op string) error {
	sums := make([]float64, c.dim)
	for i := range c.n {
		for k, x := range c.point(i) {
			sums[k] += float64(x)
		}
	}
	c.mean = make([]float32, c.dim)
	for k := range sums {
		c.mean[k] = float32(sums[k] / float64(c.n))
	}
	for i := range c.n {
		far := 0.0
		for k, x := range c.point(i) {
			d := float64(x) - float64(c.mean[k])
			far += d * d
		}
		// Two points are at most twice as far apart as the farther one is from the mean.
		if far > math.MaxFloat32/8 {
			return invalid(op, "row %d is too far from the others: squared distances would leave the range of float32", i)
		}
	}
	return nil
}

func (c *clustering) point(i int) []float32    { return c.points[i*c.dim : (i+1)*c.dim] }
func (c *clustering) centroid(i int) []float32 { return c.centroids[i*c.dim : (i+1)*c.dim] }

// distance is the squared distance of a point to its centroid.
func (c *clustering) distance(i int) float32 {
	var out [1]float32
	kernel.L2(c.centroid(int(c.ids[i])), c.point(i), out[:])
	return out[0]
}

// seed chooses the first centroids: each next one is a point, with a chance that grows with the square of its distance to
// those there are.
func (c *clustering) seed() error {
	c.centroids = append(make([]float32, 0, c.k*c.dim), c.point(c.rng.IntN(c.n))...)
	nearest, to := make([]float32, c.n), make([]float32, c.n)
	for i := range nearest {
		nearest[i] = float32(math.Inf(1))
	}
	for at := range c.k - 1 {
		if err := c.e.dense(c.ctx, SquaredL2, c.dim, c.centroid(at), c.points, to); err != nil {
			return err
		}
		total := 0.0
		for i, x := range to {
			nearest[i] = min(nearest[i], x)
			total += float64(nearest[i])
		}
		next := c.rng.IntN(c.n) // when all points lie on centroids
		if total > 0 {
			for left := c.rng.Float64() * total; ; left = c.rng.Float64() * total {
				next = 0
				for next < c.n && left >= float64(nearest[next]) {
					left -= float64(nearest[next])
					next++
				}
				if next < c.n { // rounding may walk past the last point
					break
				}
			}
		}
		c.centroids = append(c.centroids, c.point(next)...)
	}
	return nil
}

// assign gives each point its nearest centroid.
func (c *clustering) assign() error {
	if err := c.e.assign(c.ctx, c.dim, c.points, c.centroids, c.mean, c.ids); err != nil {
		return err
	}
	clear(c.sizes)
	for _, id := range c.ids {
		c.sizes[id]++
	}
	return nil
}

// update moves the centroids to the means of their points.
func (c *clustering) update() error {
	c.refill()
	sums := make([]float64, c.k*c.dim)
	for i, id := range c.ids {
		if i%4096 == 0 {
			if err := c.ctx.Err(); err != nil {
				return err
			}
		}
		to := sums[int(id)*c.dim:][:c.dim]
		for k, x := range c.point(i) {
			to[k] += float64(x)
		}
	}
	for j, size := range c.sizes {
		for k := range c.dim {
			c.centroids[j*c.dim+k] = float32(sums[j*c.dim+k] / float64(size))
		}
	}
	return nil
}

// refill gives each empty cluster the point that is farthest from its centroid, of a cluster that keeps others.
func (c *clustering) refill() {
	for j := range c.k {
		if c.sizes[j] > 0 {
			continue
		}
		far, at := float32(-1), -1
		for i := range c.n {
			if c.sizes[c.ids[i]] < 2 {
				continue
			}
			if x := c.distance(i); x > far {
				far, at = x, i
			}
		}
		// There is one: with at least as many points as clusters and this one empty, another has two.
		c.sizes[c.ids[at]]--
		c.ids[at], c.sizes[j] = uint32(j), 1
		copy(c.centroid(j), c.point(at))
	}
}

// String says how many points are in how many clusters.
func (c *Clusters) String() string {
	return fmt.Sprintf("%d points in %d clusters, inertia %g", len(c.Assignment), len(c.Sizes), c.Inertia)
}

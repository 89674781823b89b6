// Package points answers: which vectors are measured, and what is the true answer to each query?
//
// A set is rows of float32 and one or more lists of queries, of one metric. Some are made from a seed, others read from
// Parquet. The truth is never stored: it is found again by an exact scan, and distances that decide are added up in float64.
//
//	D1  A seed gives the same rows on every run, and a row does not depend on how many others there are.
//	D2  An answer counts when it is as near as the last true neighbour: so rows of equal distance are worth the same.
package points

import (
	"math"
	"math/rand/v2"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// Clusters describes a made set: rows around the centres of clusters whose sizes follow Zipf's law. Each row is drawn in
// few latent dimensions and pushed linearly to many, with noise added, as embeddings are.
type Clusters struct {
	Seed   uint64
	Dim    int
	Latent int     // dimensions before the push, 40 when 0
	Count  int     // clusters, 300 when 0
	Spread float64 // deviation inside a cluster, between centres it is 1; 1 when 0
	Unit   bool    // rows get length 1
}

// mixture is what a seed makes of Clusters before any row.
type mixture struct {
	Clusters
	push    []float64 // Latent x Dim
	centres []float64 // Count x Latent
	spread  []float64 // of each cluster
	sum     []float64 // sum of weights up to and with each cluster
}

const (
	noise      = 0.05 // deviation in each of Dim dimensions
	zipf       = 0.8  // exponent of the cluster sizes
	shift      = 0.8  // how far the shifted queries are moved, as a share of the deviation between centres
	streamPlan = 1 << 62
	streamAsk  = 1 << 61
	streamFar  = 1 << 60
)

func (c Clusters) mixture() *mixture {
	if c.Latent == 0 {
		c.Latent = 40
	}
	if c.Count == 0 {
		c.Count = 300
	}
	if c.Spread == 0 {
		c.Spread = 1
	}
	m := &mixture{Clusters: c}
	r := newNormal(c.Seed, streamPlan)
	m.push = make([]float64, c.Latent*c.Dim)
	for i := range m.push {
		m.push[i] = r.next() / math.Sqrt(float64(c.Latent))
	}
	m.centres = make([]float64, c.Count*c.Latent)
	for i := range m.centres {
		m.centres[i] = r.next()
	}
	total := 0.0
	for i := range c.Count {
		m.spread = append(m.spread, c.Spread*math.Exp(0.3*r.next()))
		total += math.Pow(float64(i+1), -zipf)
		m.sum = append(m.sum, total)
	}
	return m
}

// row draws one row into out and gives its cluster. Shifted rows prefer the small clusters and lie beside them.
func (m *mixture) row(stream uint64, shifted bool, latent []float64, out []float32) uint16 {
	r := newNormal(m.Seed, stream)
	u, c := r.uniform.Float64()*m.sum[m.Count-1], 0
	for m.sum[c] < u {
		c++
	}
	if shifted {
		c = m.Count - 1 - c
	}
	for j := range latent {
		latent[j] = m.centres[c*m.Latent+j] + m.spread[c]*r.next()
		if shifted {
			latent[j] += shift
		}
	}
	length := 0.0
	for i := range out {
		sum := noise * r.next()
		for j, z := range latent {
			sum += z * m.push[j*m.Dim+i]
		}
		out[i] = float32(sum)
		length += sum * sum
	}
	if m.Unit {
		scale := float32(1 / math.Sqrt(length))
		for i := range out {
			out[i] *= scale
		}
	}
	return uint16(c)
}

func (m *mixture) rows(n int, stream uint64, shifted bool) ([]float32, []uint16) {
	rows, labels := make([]float32, n*m.Dim), make([]uint16, n)
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	const chunk = 4096
	for at := 0; at < n; at += chunk {
		g.Go(func() error {
			latent := make([]float64, m.Latent)
			for i := at; i < min(n, at+chunk); i++ {
				labels[i] = m.row(stream+uint64(i), shifted, latent, rows[i*m.Dim:(i+1)*m.Dim])
			}
			return nil
		})
	}
	g.Wait() // nothing in it fails
	return rows, labels
}

// Rows makes n rows and the cluster of each.
func (c Clusters) Rows(n int) (rows []float32, clusters []uint16) {
	return c.mixture().rows(n, 0, false)
}

// Queries makes n queries from the distribution of the rows.
func (c Clusters) Queries(n int) []float32 {
	q, _ := c.mixture().rows(n, streamAsk, false)
	return q
}

// Shifted makes n queries from another one: clusters that are small among the rows are large here, and all are moved.
func (c Clusters) Shifted(n int) []float32 {
	q, _ := c.mixture().rows(n, streamFar, true)
	return q
}

// normal draws from the normal distribution by the method of Box and Muller, "A note on the generation of random normal
// deviates" (1958).
type normal struct {
	uniform *rand.Rand
	kept    float64
	has     bool
}

func newNormal(seed, stream uint64) *normal {
	return &normal{uniform: rand.New(rand.NewPCG(seed, stream*0x9e3779b97f4a7c15+1))}
}

func (r *normal) next() float64 {
	if r.has {
		r.has = false
		return r.kept
	}
	radius := math.Sqrt(-2 * math.Log(1-r.uniform.Float64()))
	sin, cos := math.Sincos(2 * math.Pi * r.uniform.Float64())
	r.kept, r.has = radius*sin, true
	return radius * cos
}

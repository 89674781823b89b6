package graph

import "github.com/overlakedb/overlake/internal/index/vector/section"

// cluster is how many nodes are numbered around one before the next begins.
const cluster = 1024

// order numbers the nodes anew, so that nodes which a walk visits together lie together in memory: breadth first around a
// node until a cluster is full, then around a node at its edge. The result is the old number of each node.
func (t *net) order() []uint32 {
	order := make([]uint32, 0, t.n)
	numbered := make([]bool, t.n)
	var edge []uint32 // nodes that were met and belong to no cluster yet
	met := 0
	take := func(node uint32) {
		numbered[node] = true
		order = append(order, node)
	}
	for lowest := uint32(0); len(order) < t.n; {
		start := t.entry
		for len(order) > 0 {
			if met < len(edge) {
				start = edge[met]
				met++
			} else {
				start = lowest
				lowest++
			}
			if !numbered[start] {
				break
			}
		}
		from, at := len(order), len(order)
		for take(start); at < len(order); at++ {
			node := int(order[at])
			for _, link := range t.base.links[node*t.base.width:][:t.base.degree[node]] {
				if numbered[link] {
					continue
				}
				if len(order)-from < cluster {
					take(link)
				} else {
					edge = append(edge, link)
				}
			}
		}
		if met > 1<<16 && met*2 > len(edge) {
			edge = append(edge[:0], edge[met:]...)
			met = 0
		}
	}
	return order
}

// index is the graph with nodes in the given order, without vectors and rows.
func (t *net) index(order []uint32) *Index {
	x := &Index{metric: t.opt.Metric, kind: t.opt.Code, dim: t.opt.Dim, m: t.m, ef: t.ef, seed: t.opt.Seed, n: t.n, width: t.base.width}
	to := make([]uint32, t.n)
	for i, old := range order {
		to[old] = uint32(i)
	}
	x.links = view[uint32](section.Bytes(t.base.dists)) // the distances are needed no more, and their room is
	t.base.dists = nil
	upper := make([]uint32, t.n) // the number of a node among those with upper levels
	for i, old := range order {
		row := x.links[i*x.width:][:x.width]
		n := int(t.base.degree[old])
		for k, link := range t.base.links[int(old)*x.width:][:n] {
			row[k] = to[link]
		}
		for k := n; k < x.width; k++ {
			row[k] = none
		}
		if t.levels[old] > 0 {
			upper[old] = uint32(len(x.upper))
			x.upper = append(x.upper, uint32(i))
			x.upAt = append(x.upAt, uint32(len(x.upLinks)/t.m))
			x.upLinks = append(x.upLinks, make([]uint32, int(t.levels[old])*t.m)...)
		}
	}
	x.upAt = append(x.upAt, uint32(len(x.upLinks)/t.m))
	for u, node := range x.upper {
		old := order[node]
		for l := range int(t.levels[old]) {
			i := int(t.upAt[old]) + l
			row := x.upRow(uint32(u), l+1)
			n := int(t.upper.degree[i])
			for k, link := range t.upper.links[i*t.m:][:n] {
				row[k] = upper[link]
			}
			for k := n; k < t.m; k++ {
				row[k] = none
			}
		}
	}
	if t.n > 0 {
		x.top, x.entry = t.level, to[t.entry]
		if x.top > 0 {
			x.entry = upper[t.entry]
		}
	}
	return x
}

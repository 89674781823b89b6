package graph

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/overlakedb/overlake/internal/vec/code"
	"github.com/overlakedb/overlake/internal/vec/kernel"
)

// lists are rows of links of one width. In a row, the first kept links were chosen together and stand ascending by
// distance; what was linked since stands behind them. Links are read without a lock, all else with that of the node.
type lists struct {
	width  int // of a row
	most   int // links in a row, at most
	links  []uint32
	dists  []float32 // of each link
	degree []uint8   // links of each row
	kept   []uint8
}

func newLists(rows, width, most int) lists {
	l := lists{width: width, most: most, links: aligned[uint32](rows * width), dists: aligned[float32](rows * width),
		degree: make([]uint8, rows), kept: make([]uint8, rows)}
	for i := range l.links {
		l.links[i] = none
	}
	return l
}

func (l *lists) row(i int) []uint32 { return l.links[i*l.width:][:l.width] }

// set writes a link. Others may read the row meanwhile: they see links of before and of after, all of them nodes.
func (l *lists) set(i, k int, c candidate) {
	atomic.StoreUint32(&l.links[i*l.width+k], c.node)
	l.dists[i*l.width+k] = c.dist
}

// net is a graph while it is built.
type net struct {
	s     *space
	n     int
	m, ef int
	opt   *Options

	base   lists
	upper  lists
	levels []uint8  // the highest level of each node
	upAt   []uint32 // where in upper the row of level 1 of a node is

	locks []atomic.Uint32 // one a node, held while its links are written
	top   sync.Mutex      // guards entry and level, and is held by an insertion that raises level
	entry uint32
	level int // -1: nothing is inserted

	inserted atomic.Int64
}

// graphBytes is the memory of a build beside the rows.
func graphBytes(rows int64, o *Options) int64 {
	width, m := int64(linkWidth(o.M)), int64(o.M)
	node := width*8 + 2 + 1 + 4 + 4 + 4 + // links, distances, counts, level, where upper ones are, lock, height
		(8*m+2)/(m-1) + 1 // upper levels
	node += 4 + 12 + 12 // order of insertion; united rows; places
	node += 4 * 2       // the new order, both ways
	return rows*node + int64(max(o.Workers, runtime.GOMAXPROCS(0)))*rows
}

func newNet(s *space, o *Options) *net {
	n := s.len()
	t := &net{s: s, n: n, m: o.M, ef: o.EfConstruction, opt: o, level: -1,
		base: newLists(n, linkWidth(o.M), 2*o.M), levels: make([]uint8, n), upAt: make([]uint32, n), locks: make([]atomic.Uint32, n)}
	rng := rand.New(rand.NewPCG(o.Seed, 1))
	scale := 1 / math.Log(float64(o.M))
	rows := 0
	for i := range t.levels {
		l := min(int(-math.Log(1-rng.Float64())*scale), maxLevel)
		t.levels[i], t.upAt[i] = uint8(l), uint32(rows)
		rows += l
	}
	t.upper = newLists(rows, o.M, o.M)
	return t
}

func (t *net) lock(node uint32) {
	for !t.locks[node].CompareAndSwap(0, 1) {
		runtime.Gosched()
	}
}

func (t *net) unlock(node uint32) { t.locks[node].Store(0) }

// list is where the links of a node on a level are.
func (t *net) list(node uint32, level int) (*lists, int) {
	if level == 0 {
		return &t.base, int(node)
	}
	return &t.upper, int(t.upAt[node]) + level - 1
}

// alone is how many nodes are inserted by one worker: of those that are inserted at once, none finds another.
const alone = 256

// build inserts all nodes in an order drawn from the seed. Workers take the next node that nobody took.
func (t *net) build(ctx context.Context) error {
	order := make([]uint32, t.n)
	for i := range order {
		order[i] = uint32(i)
	}
	rng := rand.New(rand.NewPCG(t.opt.Seed, 2))
	rng.Shuffle(t.n, func(i, k int) { order[i], order[k] = order[k], order[i] })
	var taken atomic.Int64
	var stop atomic.Bool
	var telling sync.Mutex
	var wait sync.WaitGroup
	first := newWorker(t)
	for ; taken.Load() < min(alone, int64(t.n)); t.inserted.Add(1) {
		first.insert(order[taken.Add(1)-1])
	}
	for k := range t.opt.Workers {
		wait.Go(func() {
			w := first
			if k > 0 {
				w = newWorker(t)
			}
			for {
				i := taken.Add(1) - 1
				if i >= int64(t.n) || stop.Load() {
					return
				}
				w.insert(order[i])
				if done := t.inserted.Add(1); done%64 == 0 || done == int64(t.n) {
					if ctx.Err() != nil {
						stop.Store(true)
					}
					if t.opt.Progress != nil {
						telling.Lock()
						t.opt.Progress(t.inserted.Load(), int64(t.n))
						telling.Unlock()
					}
				}
			}
		})
	}
	wait.Wait()
	return ctx.Err()
}

// worker inserts nodes, one at a time.
type worker struct {
	t    *net
	node uint32
	self code.Query // the node that is inserted
	made code.Query // another node, compared with those that may hide it
	seen seen
	pool pool

	row   []uint32
	ids   []uint32
	dists []float32

	near   []candidate // candidates for the links of one node
	chosen []candidate
	own    []candidate // chosen for the node that is inserted
	ids2   []uint32    // of those chosen
	young  []uint32    // of those chosen that were not in the part of a row that was chosen before
}

func newWorker(t *net) *worker {
	w := &worker{t: t}
	width := max(t.base.width, t.upper.width)
	w.row, w.ids, w.dists = make([]uint32, width), make([]uint32, 1), make([]float32, max(width, t.ef, 2*t.m+1))
	w.seen.begin(t.n)
	return w
}

// read copies the links of a node.
func (w *worker) read(node uint32, level int) []uint32 {
	l, i := w.t.list(node, level)
	row := l.row(i)
	for n := range row {
		link := atomic.LoadUint32(&row[n])
		if link == none {
			return w.row[:n]
		}
		w.row[n] = link
	}
	return w.row[:len(row)]
}

// fresh gives the links of a node that were not met before, and marks them.
func (w *worker) fresh(node uint32, level int) []uint32 {
	l, i := w.t.list(node, level)
	row := l.row(i)
	out, marks, now := w.row[:len(row)], w.seen.marks, w.seen.now
	n := 0
	for k := range row {
		link := atomic.LoadUint32(&row[k])
		if link == none {
			break
		}
		out[n] = link
		if marks[link] != now {
			n++
		}
		marks[link] = now
	}
	return out[:n]
}

// ahead begins to load the links of the node that is likely expanded next, while distances are computed.
func (w *worker) ahead(level int) {
	if p := &w.pool; p.next < len(p.c) {
		l, i := w.t.list(p.c[p.next].node&^expanded, level)
		kernel.Prefetch(l.row(i))
	}
}

// insert links a node into the graph (algorithm 1 of the paper).
func (w *worker) insert(node uint32) {
	t := w.t
	level := int(t.levels[node])
	t.top.Lock()
	entry, top := t.entry, t.level
	if level <= top {
		t.top.Unlock()
	} else {
		defer t.top.Unlock() // others wait for a node that goes higher than all before
	}
	if top < 0 {
		t.entry, t.level = node, level
		return
	}
	w.node = node
	t.s.be(&w.self, node)
	w.ids[0] = entry
	t.s.from(node, &w.self, w.ids[:1], w.dists)
	near := candidate{w.dists[0], entry}
	for l := top; l > level; l-- {
		near = w.greedy(near, l)
	}
	for l := min(level, top); l >= 0; l-- {
		w.search(node, near, l)
		if len(w.pool.c) == 0 {
			continue
		}
		near = candidate{w.pool.c[0].dist, w.pool.c[0].node &^ expanded}
		w.link(node, l)
	}
	if level > top {
		t.entry, t.level = node, level
	}
}

// greedy goes from a node to ever nearer ones on one level.
func (w *worker) greedy(near candidate, level int) candidate {
	for {
		row := w.read(near.node, level)
		w.t.s.from(w.node, &w.self, row, w.dists)
		was := near.node
		for i, id := range row {
			if w.dists[i] < near.dist {
				near = candidate{w.dists[i], id}
			}
		}
		if near.node == was {
			return near
		}
	}
}

// search fills the pool with nodes near to the one that is inserted (algorithm 2 of the paper).
func (w *worker) search(self uint32, near candidate, level int) {
	w.pool.reset(w.t.ef)
	w.seen.begin(w.t.n)
	w.seen.mark(self) // another worker may have linked to it already
	if w.seen.mark(near.node) {
		w.pool.add(near.dist, near.node)
	}
	for {
		node, ok := w.pool.expand()
		if !ok {
			return
		}
		fresh := w.fresh(node, level)
		w.ahead(level)
		w.t.s.from(w.node, &w.self, fresh, w.dists)
		worst := w.pool.worst()
		for i, id := range fresh {
			if d := w.dists[i]; !(d >= worst) {
				w.pool.add(d, id)
				worst = w.pool.worst()
			}
		}
	}
}

// link chooses the links of the inserted node from the pool, and links back.
func (w *worker) link(node uint32, level int) {
	t := w.t
	w.near = w.near[:0]
	for _, c := range w.pool.c {
		w.near = append(w.near, candidate{c.dist, c.node &^ expanded})
	}
	chose := w.choose(t.m)
	chosen := append(w.own[:0], w.chosen...)
	w.own = chosen
	l, i := t.list(node, level)
	t.lock(node)
	if l.degree[i] == 0 {
		for k, c := range chosen {
			l.set(i, k, c)
		}
		l.degree[i] = uint8(len(chosen))
		if chose {
			l.kept[i] = uint8(len(chosen))
		}
	} else { // others found the node on this level before it had links of its own
		for _, c := range chosen {
			w.join(l, i, c)
		}
	}
	t.unlock(node)
	for _, c := range chosen {
		l, i := t.list(c.node, level)
		t.lock(c.node)
		w.join(l, i, candidate{c.dist, node})
		t.unlock(c.node)
	}
}

// join adds a link to a row; of a full row, links are chosen anew. The node's lock is held.
func (w *worker) join(l *lists, i int, c candidate) {
	links, dists := l.links[i*l.width:][:l.most], l.dists[i*l.width:][:l.most]
	n := int(l.degree[i])
	for _, have := range links[:n] {
		if have == c.node {
			return
		}
	}
	if n < l.most {
		l.set(i, n, c)
		l.degree[i]++
		return
	}
	w.near = w.near[:0]
	for k, link := range links {
		w.near = append(w.near, candidate{dists[k], link})
	}
	w.near = append(w.near, c)
	kept := int(l.kept[i])
	for k := range w.near {
		if k < kept {
			w.near[k].node |= expanded // chosen together before
		}
	}
	for k := max(kept, 1); k < len(w.near); k++ {
		x, at := w.near[k], k
		for ; at > 0 && w.near[at-1].dist > x.dist; at-- {
			w.near[at] = w.near[at-1]
		}
		w.near[at] = x
	}
	w.choose(l.most)
	for k, c := range w.chosen {
		l.set(i, k, c)
	}
	for k := len(w.chosen); k < l.most; k++ {
		atomic.StoreUint32(&links[k], none)
	}
	l.degree[i], l.kept[i] = uint8(len(w.chosen)), uint8(len(w.chosen))
}

// choose takes at most most of the candidates, which ascend by distance: each that is nearer to the node in question than
// to any that was taken before (algorithm 4 of the paper, without its extensions). When there are fewer candidates than
// most it takes all and tells false. Candidates with the bit expanded were taken together before, so they do not hide each
// other and are not compared.
func (w *worker) choose(most int) bool {
	w.chosen, w.ids2, w.young = w.chosen[:0], w.ids2[:0], w.young[:0]
	if len(w.near) < most {
		for _, c := range w.near {
			w.chosen = append(w.chosen, candidate{c.dist, c.node &^ expanded})
		}
		return false
	}
	for _, c := range w.near {
		old := c.node&expanded != 0
		c.node &^= expanded
		against := w.ids2
		if old {
			against = w.young
		}
		if w.hidden(c, against) {
			continue
		}
		w.chosen = append(w.chosen, c)
		w.ids2 = append(w.ids2, c.node)
		if !old {
			w.young = append(w.young, c.node)
		}
		if len(w.chosen) == most {
			break
		}
	}
	return true
}

// hidden tells whether one of the nodes is nearer to c than the node in question is. The first few mostly decide.
func (w *worker) hidden(c candidate, nodes []uint32) bool {
	if len(nodes) == 0 {
		return false
	}
	w.t.s.be(&w.made, c.node)
	for step := 4; len(nodes) > 0; step = 8 {
		k := min(step, len(nodes))
		w.t.s.from(c.node, &w.made, nodes[:k], w.dists)
		for _, d := range w.dists[:k] {
			if d < c.dist {
				return true
			}
		}
		nodes = nodes[k:]
	}
	return false
}

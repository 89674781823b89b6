package lists

import (
	"math"
	"slices"

	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/code"
	"github.com/overlakedb/overlake/internal/vec/kernel"
)

// core is what an index holds in memory, and what a search of it begins with.
type core struct {
	p         *params
	c         coders
	layout    layout
	meanT     []float32 // the mean, turned
	centroids []float32 // list by list, turned and less the mean
	routes    []byte    // the same in bytes
	scales    []float32 // of them
	adds      []float32 // what a centroid adds to the key of a list; see route
	lean      []float32 // of lists ranked by inner products: how much nearer their rows may be; nil for none
}

// finish computes what is not stored.
func (x *core) finish() {
	dim := x.p.dim
	x.meanT = make([]float32, dim)
	x.c.scan.Rotate(x.meanT, x.p.mean)
	if x.c.route == nil {
		return
	}
	x.adds = make([]float32, x.p.lists)
	for l := range x.adds {
		c := x.centroids[l*dim:][:dim]
		if x.p.metric == vec.MetricDot {
			x.adds[l] = -vec.Dot(x.meanT, c)
		} else {
			x.adds[l] = vec.Dot(c, c)
		}
	}
}

// query is a vector made ready for one search. It is used again.
type query struct {
	x      *core
	vector []float32 // as rows are kept: of length one for Cosine
	turned []float32 // less the mean, and turned
	whole  []float32 // turned only
	mean   float32   // <vector, mean>
	length float32   // of the vector
	back   float32   // a distance is this times what is computed
	ready  bool      // it was turned

	scan    code.Query
	tables  []byte // Bit1
	a, b    float32
	rerank  code.Query
	refined bool // rerank is
	order   []uint64
	route   code.Query
	sums    [kernel.BlockRows]uint32
	keys    []float32 // by list, about
	ids     []uint32
	values  []float32
	chosen  []uint32
	probes  []probe
	reserve []probe // the next ones
	parts   []part
	given   int // lists that next gave
	best    top
	found   []candidate
	rows    []uint64 // a bit a place
}

// probe is a list to be scanned.
type probe struct {
	list uint32
	rank float32 // what lists are ranked by: the key, less the lean
	key  float32 // how far away the centroid is
	base float32 // what distances of its rows begin with
}

// begin takes a vector whose elements are finite. It is enough to compare floats.
func (q *query) begin(x *core, vector []float32) {
	q.x = x
	q.vector = append(q.vector[:0], vector...)
	q.back = 1
	norm := vec.Norm(vector)
	switch {
	case norm == 0:
	case x.p.metric == vec.MetricCosine:
		scale(q.vector, 1/norm)
	case x.p.metric == vec.MetricDot && x.p.code != code.Float32 && x.p.length > 0:
		// The order is that of any multiple; one as long as rows are loses least when it is compared with centroids.
		f := float64(x.p.length) / norm
		scale(q.vector, f)
		q.back = finite(1 / f)
	}
	q.refined, q.ready = false, false
	if x.c.rerank != nil && x.p.rerank == code.Float32 {
		x.c.rerank.QueryRotatedInto(&q.rerank, q.vector)
	}
	q.probes, q.parts, q.reserve, q.given = q.probes[:0], q.parts[:0], q.reserve[:0], 0
}

// turn makes the rest of a query, which centroids and codes are compared with.
func (q *query) turn() {
	if q.ready {
		return
	}
	q.ready = true
	x := q.x
	dim := x.p.dim
	q.turned, q.whole = grow(q.turned, dim), grow(q.whole, dim)
	copy(q.turned, q.vector)
	less(q.turned, x.p.mean)
	x.c.scan.Rotate(q.turned, q.turned)
	for i, v := range q.turned {
		q.whole[i] = v + x.meanT[i]
	}
	q.mean, q.length = vec.Dot(q.vector, x.p.mean), float32(vec.Norm(q.vector))
	switch x.p.code {
	case code.Float32:
		x.c.scan.QueryRotatedInto(&q.scan, q.vector)
	case code.Bit1:
		q.tables = grow(q.tables, x.c.scan.TableBytes())
		q.a, q.b = x.c.scan.Tables(q.turned, q.tables)
	default:
		x.c.scan.QueryRotatedInto(&q.scan, q.turned)
		if x.sure() {
			q.scan.Refine()
		}
	}
	if x.c.rerank != nil && x.p.rerank != code.Float32 {
		x.c.rerank.QueryRotatedInto(&q.rerank, q.turned)
	}
}

func scale(x []float32, by float64) {
	for i, v := range x {
		x[i] = float32(float64(v) * by)
	}
}

// fewLists is the number of lists up to which all centroids are compared as floats.
const fewLists = 48

// rank fills keys: about the distances of all centroids. Those of lists that were given become infinite.
func (q *query) rank() {
	x := q.x
	n := x.p.lists
	q.keys = grow(q.keys, n)
	if x.c.route == nil || n <= fewLists {
		q.ids = grow(q.ids, n)
		for l := range q.ids {
			q.ids[l] = uint32(l)
		}
		q.exactKeys(q.ids, q.keys)
		for l, key := range q.keys {
			q.keys[l] = within32(q.leaned(uint32(l), key))
		}
		return
	}
	route := &q.route
	if x.c.rerank != nil && x.p.rerank == code.TQ8 && !q.refined {
		route = &q.rerank // it would be the same
	} else {
		x.c.route.QueryRotatedInto(route, q.turned)
	}
	route.Products(x.routes, q.keys)
	k := float32(2)
	if x.p.metric == vec.MetricDot {
		k = 1
	}
	scales, adds := x.scales[:n], x.adds[:n]
	for l, p := range q.keys {
		q.keys[l] = within32(adds[l] - k*p*scales[l])
	}
	for l := range x.lean {
		q.keys[l] = within32(q.leaned(uint32(l), q.keys[l]))
	}
}

// leaned is the rank of a list of which that of the centroid alone is known. The largest inner products are those of long
// rows, which lie far from their centroid: lists of a large radius hold more of them than the centroid says.
func (q *query) leaned(list uint32, key float32) float32 {
	if q.x.lean == nil {
		return key
	}
	return key - q.length*q.x.lean[list]
}

// within32 is below infinity, also for what is not a number.
func within32(v float32) float32 {
	if v < math.MaxFloat32 {
		return v
	}
	return math.MaxFloat32
}

// exactKeys are what lists are ranked by: the squared distance from the centroid, for Dot the negative inner product with
// it, for L1 the sum of differences.
func (q *query) exactKeys(ids []uint32, out []float32) {
	x := q.x
	switch x.p.metric {
	case vec.MetricDot:
		kernel.DotAt(q.whole, x.centroids, ids, out)
		for i := range out {
			out[i] = -out[i]
		}
	case vec.MetricL1:
		kernel.L1At(q.turned, x.centroids, ids, out)
	default:
		kernel.L2At(q.turned, x.centroids, ids, out)
	}
}

// next gives the nearest lists that were not given before, as many as are missing to want, in order. ahead is how many may
// be wanted in the end.
func (q *query) next(want, ahead int) []probe {
	n := q.x.p.lists
	more := min(want, n) - q.given
	if more <= 0 {
		return nil
	}
	// Keys are rounded: a few more lists than are given are compared as floats.
	spare := func(lists int) int { return lists + lists/4 + 8 }
	if left := n - q.given; len(q.reserve) < min(spare(more), left) {
		q.fill(min(spare(max(want, min(ahead, n))-q.given), left))
	}
	from := len(q.probes)
	q.probes = append(q.probes, q.reserve[:more]...)
	q.reserve = q.reserve[:copy(q.reserve, q.reserve[more:])]
	q.given += more
	q.bases(q.probes[from:])
	return q.probes[from:]
}

// fill makes the reserve up to at least some lists, the nearest of those that were not given, in order.
func (q *query) fill(some int) {
	missing := some - len(q.reserve)
	q.ids = grow(q.ids, len(q.keys))
	bound := inf
	if some < q.x.p.lists-q.given {
		bound = q.bound(missing)
	}
	q.ids = q.ids[:kernel.Select(q.keys, bound, q.ids)] // of equal ones all
	q.values = grow(q.values, len(q.ids))
	q.exactKeys(q.ids, q.values)
	for i, l := range q.ids {
		q.reserve = append(q.reserve, probe{list: l, key: q.values[i], rank: q.leaned(l, q.values[i])})
		q.keys[l] = inf // it is there
	}
	slices.SortFunc(q.reserve, func(a, b probe) int {
		switch {
		case a.rank < b.rank:
			return -1
		case a.rank > b.rank:
			return 1
		}
		return int(a.list) - int(b.list)
	})
}

// bound is above the n least keys, and above no other but those that are equal. A few keys tell about where it is, so that
// not all must be moved about.
func (q *query) bound(n int) float32 {
	q.values = q.values[:0]
	step := max(min(len(q.keys)/32, 16), 1)
	for i := step / 2; i < len(q.keys); i += step {
		q.values = append(q.values, q.keys[i])
	}
	if at := n*len(q.values)/len(q.keys) + 4; at < len(q.values) {
		least(q.values, at)
		guess := math.Nextafter32(slices.Max(q.values[:at]), inf)
		if found := kernel.Select(q.keys, guess, q.ids); found >= n {
			q.values = q.values[:0]
			for _, l := range q.ids[:found] {
				q.values = append(q.values, q.keys[l])
			}
			least(q.values, n)
			return math.Nextafter32(slices.Max(q.values[:n]), inf)
		}
	}
	q.values = append(q.values[:0], q.keys...)
	least(q.values, n)
	return math.Nextafter32(slices.Max(q.values[:n]), inf)
}

// bases fills in what distances begin with.
func (q *query) bases(probes []probe) {
	switch q.x.p.metric {
	case vec.MetricL2, vec.MetricL1:
		for i := range probes {
			probes[i].base = probes[i].key
		}
	case vec.MetricDot:
		for i := range probes {
			probes[i].base = probes[i].key - q.mean
		}
	case vec.MetricCosine:
		dim := q.x.p.dim
		for i := range probes {
			probes[i].base = 1 - q.mean - vec.Dot(q.whole, q.x.centroids[int(probes[i].list)*dim:][:dim])
		}
	}
}

// part is a list at hand.
type part struct {
	n      int
	bytes  []byte
	floats []float32 // the same bytes
	words  []uint32  // the same bytes
}

// view takes a piece for a list of n rows. The bytes begin at a multiple of 64, as many as layout says.
func (l *layout) view(piece []byte, n int) (part, error) {
	if int64(len(piece)) != l.piece(n) {
		return part{}, corrupt("a list of %d rows in %d bytes", n, len(piece))
	}
	floats, err := section.View[float32](piece)
	if err != nil {
		return part{}, err
	}
	words, err := section.View[uint32](piece)
	return part{n: n, bytes: piece, floats: floats, words: words}, err
}

// positions are those of the rows.
func (l *layout) positions(p *part) []uint32 {
	at := l.codes(p.n)
	if l.rerankFactors {
		at += 8 * int64(p.n)
	}
	return p.words[at/4:][:p.n]
}

// sums are the checksums of the rerank rows.
func (l *layout) sums(p *part) []uint32 {
	at := l.codes(p.n) + 4*int64(p.n)
	if l.rerankFactors {
		at += 8 * int64(p.n)
	}
	return p.words[at/4:][:p.n]
}

// rerankFactor gives scales and addends of the rerank rows.
func (l *layout) rerankFactor(p *part) (scales, adds []float32) {
	at := l.codes(p.n) / 4
	return p.floats[at:][:p.n], p.floats[at+int64(p.n):][:p.n]
}

// estimate fills out with the estimates of len(out) rows, stretch at most, from a multiple of 64 on, and sets a bit in below,
// 64 rows a word, for each that is below bound. With wanted, which has the same form, words without a bit there are left out:
// their estimates are undefined, and nothing is below. Of floats, estimates are the distances.
func (q *query) estimate(p *part, from int, base, bound float32, out []float32, wanted, below []uint64) {
	l := &q.x.layout
	switch {
	case q.x.p.code == code.Bit1:
		f := kernel.Affine{A: q.a, B: q.b, Base: base}
		for i := 0; i < len(out); i += kernel.BlockRows {
			if wanted != nil && wanted[i>>6] == 0 {
				below[i>>6] = 0
				continue
			}
			at := (from + i) / kernel.BlockRows * (l.codeBytes + blockFactors)
			kernel.ScanBlock(q.tables, p.bytes[at:][:l.codeBytes], &q.sums)
			factors := p.floats[(at+l.codeBytes)/4:]
			some := out[i:min(i+kernel.BlockRows, len(out))]
			below[i>>6] = kernel.Estimate(q.sums[:len(some)], factors, factors[kernel.BlockRows:], f, bound, some)
		}
	case !l.factors:
		q.scan.Distances(p.bytes[from*l.codeBytes:][:len(out)*l.codeBytes], nil, out)
		q.chosen = grow(q.chosen, stretch)
		clear(below[:(len(out)+63)/64])
		for _, j := range q.chosen[:kernel.Select(out, bound, q.chosen)] {
			below[j>>6] |= 1 << (j & 63)
		}
	default:
		f := p.floats[p.n*l.codeBytes/4:]
		q.scan.Estimate(p.bytes[from*l.codeBytes:][:len(out)*l.codeBytes], f[from:], f[p.n+from:], base, bound, out, below)
	}
}

// sure: distances of the scan are those of hits, because there is nothing better.
func (x *core) sure() bool { return x.c.rerank == nil }

// settle makes the distance of a hit of what was computed.
func (q *query) settle(d float32) float32 {
	if d != d {
		return math.MaxFloat32
	}
	d *= q.back
	if d == 0 || d < 0 && q.x.p.metric != vec.MetricDot {
		return 0 // without a sign
	}
	return d
}

package lists

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/overlakedb/overlake/internal/checksum"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/code"
)

var inf = float32(math.Inf(1))

// OpenOptions say how an index is held.
type OpenOptions struct {
	// Resident loads the whole index into memory. Without it, centroids and the directory are loaded, and a search reads
	// the lists and the rerank rows that it needs, by range.
	Resident bool
}

// Index is an opened index. It is never changed and safe for concurrent use.
type Index struct {
	core
	file      *section.File
	directory []entry
	first     []uint32 // the place of the first row of each list, and the number of rows
	offsets   []int64  // of each piece, and the end
	resident  bool
	pieces    []byte // resident
	rows      []byte // resident: the rerank rows

	placing   sync.Mutex
	places    []uint32 // by rank of the position; loaded when a search first needs them
	positions []uint32 // nil when they are 0 to rows-1
	placed    atomic.Bool

	queries sync.Pool
}

// Open opens an artifact. It checks what it loads; what is read later is checked then. Errors are Corrupt, Unsupported for
// a format of the future, or those of reading.
func Open(ctx context.Context, f *section.File, o OpenOptions) (*Index, error) {
	var head [3][]byte
	kinds := [3]section.Kind{kindParams, kindDirectory, kindCentroids}
	var routes []byte
	g, gctx := errgroup.WithContext(ctx)
	for i, kind := range kinds {
		g.Go(func() (err error) {
			head[i], err = f.Load(gctx, kind)
			return err
		})
	}
	if _, ok := f.Find(kindRoutes); ok {
		g.Go(func() (err error) {
			routes, err = f.Load(gctx, kindRoutes)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	p, err := decodeParams(head[0])
	if err != nil {
		return nil, err
	}
	x := &Index{file: f, resident: o.Resident}
	x.p = p
	if x.c, err = newCoders(p); err != nil {
		return nil, err
	}
	x.layout = newLayout(x.c)
	if err := x.openDirectory(head[1]); err != nil {
		return nil, err
	}
	if len(head[2]) != 4*p.dim*p.lists {
		return nil, corrupt("centroids of %d bytes for %d lists", len(head[2]), p.lists)
	}
	if x.centroids, err = section.View[float32](head[2]); err != nil {
		return nil, err
	}
	if x.c.route != nil {
		size := x.c.route.RowBytes() * p.lists
		if len(routes) != size+4*p.lists {
			return nil, corrupt("centroids in %d bytes for %d lists", len(routes), p.lists)
		}
		x.routes = routes[:size]
		if x.scales, err = section.View[float32](routes[size:]); err != nil {
			return nil, err
		}
	}
	x.finish()
	if p.lean > 0 && p.metric == vec.MetricDot {
		x.lean = make([]float32, p.lists)
		for l, e := range x.directory {
			x.lean[l] = p.lean * finite(float64(e.radius))
		}
	}
	if err := x.checkLengths(); err != nil {
		return nil, err
	}
	if o.Resident {
		if err := x.load(ctx); err != nil {
			return nil, err
		}
	}
	return x, nil
}

func (x *Index) openDirectory(b []byte) error {
	n := x.p.lists
	if len(b) != entrySize*n {
		return corrupt("a directory of %d bytes for %d lists", len(b), n)
	}
	le := binary.LittleEndian
	x.directory = make([]entry, n)
	x.first, x.offsets = make([]uint32, n+1), make([]int64, n+1)
	rows := int64(0)
	for i := range x.directory {
		at := b[entrySize*i:]
		e := entry{rows: le.Uint32(at), sum: le.Uint32(at[4:]), radius: math.Float32frombits(le.Uint32(at[8:]))}
		if rows += int64(e.rows); e.rows == 0 || rows > x.p.rows {
			return corrupt("list %d has %d rows", i, e.rows)
		}
		x.directory[i] = e
		x.first[i+1] = uint32(rows)
		x.offsets[i+1] = x.offsets[i] + x.layout.piece(int(e.rows))
	}
	if rows != x.p.rows {
		return corrupt("lists of %d rows together, not %d", rows, x.p.rows)
	}
	return nil
}

func (x *Index) checkLengths() error {
	want := map[section.Kind]int64{kindLists: x.offsets[x.p.lists], kindPlaces: 4 * x.p.rows}
	if x.p.hasRerank {
		want[kindRerank] = x.p.rows * int64(x.layout.rerankBytes)
	}
	if !x.p.dense {
		want[kindPositions] = 4 * x.p.rows
	}
	for kind, length := range want {
		if s, ok := x.file.Find(kind); !ok || s.Length != length {
			return corrupt("section %d has %d bytes, not %d", kind, s.Length, length)
		}
	}
	return nil
}

// load reads the lists and the rerank rows.
func (x *Index) load(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		x.pieces, err = x.file.Load(gctx, kindLists)
		return err
	})
	if x.p.hasRerank {
		g.Go(func() (err error) {
			x.rows, err = x.file.Load(gctx, kindRerank)
			return err
		})
	}
	g.Go(func() error { return x.loadPlaces(gctx) })
	return g.Wait()
}

// loadPlaces reads where positions are, once.
func (x *Index) loadPlaces(ctx context.Context) error {
	if x.placed.Load() {
		return nil
	}
	x.placing.Lock()
	defer x.placing.Unlock()
	if x.placed.Load() {
		return nil
	}
	b, err := x.file.Load(ctx, kindPlaces)
	if err != nil {
		return err
	}
	places, err := section.View[uint32](b)
	if err != nil {
		return err
	}
	for _, p := range places {
		if int64(p) >= x.p.rows {
			return corrupt("place %d of %d", p, x.p.rows)
		}
	}
	if !x.p.dense {
		b, err := x.file.Load(ctx, kindPositions)
		if err != nil {
			return err
		}
		if x.positions, err = section.View[uint32](b); err != nil {
			return err
		}
		for i, pos := range x.positions {
			if i > 0 && pos <= x.positions[i-1] {
				return corrupt("positions do not ascend")
			}
		}
	}
	x.places = places
	x.placed.Store(true)
	return nil
}

// Memory is what the index holds, in bytes, mapped sections too.
func (x *Index) Memory() int64 {
	return int64(len(x.pieces)) + int64(len(x.rows)) + 4*int64(len(x.first)) + 8*int64(len(x.offsets)) + 16*int64(len(x.directory)) + 8*x.p.rows
}

// Rows is the number of rows.
func (x *Index) Rows() int64 { return x.p.rows }

// Lists is the number of lists.
func (x *Index) Lists() int { return x.p.lists }

// Dim is the number of elements of a vector.
func (x *Index) Dim() int { return x.p.dim }

// Metric is the metric.
func (x *Index) Metric() vec.Metric { return x.p.metric }

// Exact: distances of hits are those of the vectors, not estimates.
func (x *Index) Exact() bool { return x.best() == code.Float32 }

// best is the kind of the best data.
func (x *Index) best() code.Kind {
	if x.p.hasRerank {
		return x.p.rerank
	}
	return x.p.code
}

// Recall is the share of the 10 nearest that a search with defaults found when the index was built, of rows of the index.
func (x *Index) Recall() float64 { return float64(x.p.recall) }

const (
	listGap  = 64 << 10 // of lists, bytes that are read although nobody needs them, to save a request
	rowGap   = 8 << 10  // the same, of rerank rows
	requests = 32       // at once
)

// gather gives the lists of probes. All that must be read is read at once, and checked.
func (x *Index) gather(ctx context.Context, probes []probe, parts []part, work *Work) ([]part, error) {
	if x.resident {
		for _, p := range probes {
			l := p.list
			v, err := x.layout.view(x.pieces[x.offsets[l]:x.offsets[l+1]], int(x.directory[l].rows))
			if err != nil {
				return nil, err
			}
			parts = append(parts, v)
		}
		return parts, nil
	}
	order := make([]int, len(probes))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(probes[a].list, probes[b].list) })
	from := len(parts)
	parts = append(parts, make([]part, len(probes))...)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(requests)
	for len(order) > 0 {
		n := 1
		for n < len(order) && x.offsets[probes[order[n]].list]-x.offsets[probes[order[n-1]].list+1] <= listGap {
			n++
		}
		some := order[:n]
		order = order[n:]
		begin, end := x.offsets[probes[some[0]].list], x.offsets[probes[some[n-1]].list+1]
		work.Requests++
		work.Bytes += end - begin
		g.Go(func() error {
			b := section.Aligned(int(end - begin))
			if err := x.file.ReadAt(gctx, kindLists, b, begin); err != nil {
				return err
			}
			for _, i := range some {
				l := probes[i].list
				piece := b[x.offsets[l]-begin : x.offsets[l+1]-begin]
				if checksum.Of(piece) != x.directory[l].sum {
					return corrupt("list %d fails its checksum", l)
				}
				var err error
				if parts[from+i], err = x.layout.view(piece, int(x.directory[l].rows)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return parts, nil
}

// readRows reads the rerank rows of the candidates, which are sorted by place, one after another.
func (x *Index) readRows(ctx context.Context, parts []part, of []candidate, probes []probe, work *Work) ([]byte, error) {
	size := int64(x.layout.rerankBytes)
	out := section.Aligned(len(of) * int(size))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(requests)
	for at := 0; at < len(of); {
		n := at + 1
		for n < len(of) && int64(of[n].place-of[n-1].place-1)*size <= rowGap && int64(of[n].place-of[at].place)*size < 4<<20 {
			n++
		}
		some, to := of[at:n], out[int64(at)*size:int64(n)*size]
		at = n
		begin := int64(some[0].place) * size
		length := int64(some[len(some)-1].place+1)*size - begin
		work.Requests++
		work.Bytes += length
		g.Go(func() error {
			b := to
			if int64(len(to)) != length {
				b = make([]byte, length)
			}
			if err := x.file.ReadAt(gctx, kindRerank, b, begin); err != nil {
				return err
			}
			for i, c := range some {
				row := b[int64(c.place)*size-begin:][:size]
				l := probes[c.probe].list
				if sum := x.layout.sums(&parts[c.probe])[c.place-x.first[l]]; checksum.Of(row) != sum {
					return corrupt("the rerank row %d fails its checksum", c.place)
				}
				copy(to[int64(i)*size:], row)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return out, nil
}

func invalid(format string, args ...any) error {
	return errs.Newf(errs.Invalid, "lists.search", format, args...)
}

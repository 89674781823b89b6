package vector

import (
	"context"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector/flat"
	"github.com/overlakedb/overlake/internal/index/vector/graph"
	"github.com/overlakedb/overlake/internal/index/vector/lists"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/code"
)

// newKind begins an index of a kind that is not flat.
func (b *Builder) newKind() (kindBuilder, error) {
	o, p := &b.opts, b.opts.Params
	seed := uint64(number(p, "seed", 0))
	b.built = o.Kind
	if o.Kind.graph() {
		g, err := graph.NewBuilder(graph.Options{Metric: b.metric, Dim: b.dim, M: number(p, "m", defaultM), EfConstruction: number(p, "ef_construction", 0),
			Code: o.Kind.code(p, b.dim), Floats: true, Seed: seed, Workers: o.Workers, Rows: o.Rows, Memory: o.Memory, Progress: o.Progress})
		if err == nil {
			return graphBuilder{g}, nil
		}
		// A graph is built in memory, lists are not: they take its place where it finds no room.
		if !errs.Is(err, errs.Exhausted) {
			return nil, err
		}
		b.built = IVF
		if b.metric == vec.MetricL1 {
			b.built = IVFFlat
		}
	}
	opts := lists.Options{Metric: b.metric, Dim: b.dim, Lists: number(p, "lists", 0), Code: b.built.code(p, b.dim), Seed: seed, Workers: o.Workers, Memory: o.Memory, Progress: o.Progress}
	if o.Spill != nil {
		opts.Spill = func() (lists.SpillFile, error) { return o.Spill() }
	}
	switch {
	case b.built == BQ:
		opts.Lists, opts.Rerank = 1, code.TQ8
	case opts.Code == code.Bit1:
		opts.Rerank = code.TQ8
	case opts.Code != code.Float32: // rows of floats, read where they lie
		opts.Rerank = code.Float32
	}
	l, err := lists.NewBuilder(opts)
	return listsBuilder{l}, err
}

// opened is what the sections of a kind hold.
type opened struct {
	flat  *flat.Index
	graph *graph.Index
	lists *lists.Index
}

// openKind opens the sections of the kind that is there.
func openKind(ctx context.Context, f *section.File) (o *opened, err error) {
	o = &opened{}
	for _, s := range f.Sections() {
		switch {
		case s.Kind == flat.Positions:
			o.flat, err = flat.Open(ctx, f)
			return o, err
		case s.Kind >= 100 && s.Kind < 200:
			o.graph, err = graph.Open(ctx, f)
			return o, err
		case s.Kind >= 200 && s.Kind < 300:
			// What is mapped is as good as read. Other artifacts are read by ranges, unless they are small.
			o.lists, err = lists.Open(ctx, f, lists.OpenOptions{Resident: f.CanMap(ctx) || f.Size() <= smallLists})
			return o, err
		}
	}
	return o, nil // what is not dense is opened once the head is known
}

// as makes the reader that a head asks for.
func (o *opened) as(ctx context.Context, f *section.File, h *head, m vec.Metric) (kindReader, error) {
	differs := func(is int64) (kindReader, error) { return nil, corrupt("%d vectors, the head says %d", is, h.Vectors) }
	switch {
	case h.Built.form() != Dense:
		return openForm(ctx, f, h, m)
	case m.OfBits():
		return nil, corrupt("an index of kind %s by %s", h.Built, m)
	case o.flat != nil && h.Built == Flat:
		if int64(o.flat.Len()) != h.Vectors {
			return differs(int64(o.flat.Len()))
		}
		dim := max(h.Dim, 1)
		return flatReader{o.flat, m, dim}, o.flat.As(m, dim, h.Rows)
	case o.graph != nil && h.Built.graph():
		if o.graph.Rows() != h.Vectors || o.graph.Dim() != h.Dim || o.graph.Metric() != m {
			return differs(o.graph.Rows())
		}
		return graphReader{o.graph}, nil
	case o.lists != nil && h.Built.lists():
		if o.lists.Rows() != h.Vectors || o.lists.Dim() != h.Dim || o.lists.Metric() != m {
			return differs(o.lists.Rows())
		}
		return listsReader{o.lists}, nil
	}
	return nil, corrupt("the head says %s, the sections are others", h.Built)
}

const smallLists = 8 << 20

// sameCount compares the number of vectors with what the head says.
func sameCount(is int64, h *head) error {
	if is != h.Vectors {
		return errs.Newf(errs.Corrupt, "vector.open", "%d vectors, the head says %d", is, h.Vectors)
	}
	return nil
}

type graphBuilder struct{ b *graph.Builder }

func (g graphBuilder) add(ctx context.Context, positions []uint32, rows []float32) error {
	return g.b.Add(ctx, positions, rows)
}

func (g graphBuilder) finish(ctx context.Context, w *section.Writer) error {
	_, err := g.b.Finish(ctx, w)
	return err
}

func (g graphBuilder) close() error {
	g.b.Close()
	return nil
}

type graphReader struct{ x *graph.Index }

func (g graphReader) search(ctx context.Context, q Query, p Params) ([]Hit, Work, error) {
	rerank := p.Rerank
	if g.x.Code() == code.Float32 {
		rerank = 0 // all distances are of floats
	}
	hits, w, err := g.x.Search(ctx, q.Floats, graph.Params{K: p.K, Ef: p.Ef, Rerank: rerank, Allowed: p.Allowed, AllowedCount: p.AllowedCount, Exact: p.Exact, Within: p.bound(g.x.Metric())})
	out := make([]Hit, len(hits))
	for i, h := range hits {
		out[i] = Hit{int64(h.Pos), float64(h.Distance)}
	}
	return out, Work{Distances: w.Distances + w.Reranked, Reranked: w.Reranked, Hops: w.Hops, Strategy: w.Strategy}, err
}

func (g graphReader) memory() int64 { return g.x.Memory() }

func (g graphReader) exact() bool { return g.x.Floats() }

type listsBuilder struct{ b *lists.Builder }

func (l listsBuilder) add(ctx context.Context, positions []uint32, rows []float32) error {
	return l.b.Add(ctx, positions, rows)
}

func (l listsBuilder) finish(ctx context.Context, w *section.Writer) error {
	_, err := l.b.Finish(ctx, w)
	return err
}

func (l listsBuilder) close() error { return l.b.Close() }

type listsReader struct{ x *lists.Index }

func (l listsReader) search(ctx context.Context, q Query, p Params) ([]Hit, Work, error) {
	hits, w, err := l.x.Search(ctx, q.Floats, lists.Params{K: p.K, Probes: p.Probes, Rerank: p.Rerank, Allowed: p.Allowed, AllowedCount: p.AllowedCount, Exact: p.Exact, Within: p.bound(l.x.Metric())})
	out := make([]Hit, len(hits))
	for i, h := range hits {
		out[i] = Hit{int64(h.Pos), float64(h.Distance)}
	}
	return out, Work{Distances: w.Distances, Reranked: w.Reranked, Lists: w.Lists, Strategy: w.Strategy}, err
}

func (l listsReader) memory() int64 { return l.x.Memory() }
func (l listsReader) exact() bool   { return l.x.Exact() }

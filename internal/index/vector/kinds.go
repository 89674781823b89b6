package vector

import (
	"context"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector/flat"
	"github.com/overlakedb/overlake/internal/index/vector/graph"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/code"
)

// newKind begins an index of a kind that is not flat.
func (b *Builder) newKind() (kindBuilder, error) {
	o, p := &b.opts, b.opts.Params
	if o.Kind.graph() {
		g, err := graph.NewBuilder(graph.Options{Metric: b.metric, Dim: b.dim, M: number(p, "m", defaultM), EfConstruction: number(p, "ef_construction", 0),
			Code: o.Kind.code(), Floats: true, Seed: uint64(number(p, "seed", 0)), Workers: o.Workers, Memory: o.Memory, Progress: o.Progress})
		return graphBuilder{g}, err
	}
	return nil, errs.New(errs.Unsupported, "vector.build", "there is no such kind of index", errs.On(string(o.Kind)))
}

// openKind opens what a head says.
func openKind(ctx context.Context, f *section.File, h *head, m vec.Metric) (kindReader, error) {
	differs := func(is int64) error {
		return errs.Newf(errs.Corrupt, "vector.open", "%d vectors, the head says %d", is, h.Vectors)
	}
	switch {
	case h.Built == Flat:
		dim := max(h.Dim, 1)
		x, err := flat.Open(ctx, f, m, dim, h.Rows)
		if err != nil {
			return nil, err
		}
		if int64(x.Len()) != h.Vectors {
			return nil, differs(int64(x.Len()))
		}
		return flatReader{x, dim}, nil
	case h.Built.graph():
		x, err := graph.Open(ctx, f)
		if err != nil {
			return nil, err
		}
		if x.Rows() != h.Vectors {
			return nil, differs(x.Rows())
		}
		return graphReader{x}, nil
	}
	return nil, errs.New(errs.Unsupported, "vector.open", "an index of a kind that this version does not know", errs.On(string(h.Built)))
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

func (g graphReader) search(ctx context.Context, query []float32, p Params) ([]Hit, Work, error) {
	rerank := p.Rerank
	if g.x.Code() == code.Float32 {
		rerank = 0 // all distances are of floats
	}
	hits, w, err := g.x.Search(ctx, query, graph.Params{K: p.K, Ef: p.Ef, Rerank: rerank, Allowed: p.Allowed, AllowedCount: p.AllowedCount, Exact: p.Exact})
	out := make([]Hit, len(hits))
	for i, h := range hits {
		out[i] = Hit{int64(h.Pos), float64(h.Distance)}
	}
	return out, Work{Distances: w.Distances + w.Reranked, Reranked: w.Reranked, Hops: w.Hops, Strategy: w.Strategy}, err
}

func (g graphReader) memory() int64 { return g.x.Memory() }

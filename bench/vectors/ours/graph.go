package ours

import (
	"context"

	"github.com/overlakedb/overlake/bench/vectors/worker"
	"github.com/overlakedb/overlake/internal/index/vector/graph"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec/code"
)

// graphs is an index of the room graph.
type graphs struct {
	index *graph.Index
}

// Shared says that searches may run at once.
func (g *graphs) Shared() {}

func (g *graphs) Build(d worker.Data, w worker.Words) (size worker.Size, err error) {
	ctx := context.Background()
	kind, err := kindOf(w["code"])
	if err != nil {
		return size, err
	}
	m, err := w.Int("m", 0)
	if err != nil {
		return size, err
	}
	efc, err := w.Int("efc", 0)
	if err != nil {
		return size, err
	}
	workers, err := w.Int("workers", 1)
	if err != nil {
		return size, err
	}
	n := len(d.Rows) / d.Dim
	b, err := graph.NewBuilder(graph.Options{
		Metric: d.Metric, Dim: d.Dim, M: m, EfConstruction: efc, Code: kind, Floats: w["floats"] == "1", Seed: seed, Workers: workers, Rows: int64(n),
	})
	if err != nil {
		return size, err
	}
	defer b.Close()
	if err := addAll(ctx, d, b.Add); err != nil {
		return size, err
	}
	a, err := store(ctx, d.Dir, func(w *section.Writer) error {
		_, err := b.Finish(ctx, w)
		return err
	})
	if err != nil {
		return size, err
	}
	if g.index, err = graph.Open(ctx, a.File); err != nil {
		return size, err
	}
	size.Artifact = a.Size()
	if kind != code.Float32 && g.index.Floats() {
		size.Floats = int64(4 * len(d.Rows))
	}
	return size, err
}

func (g *graphs) Effort(w worker.Words) (worker.Effort, error) {
	var p graph.Params
	var err error
	if p.Ef, err = w.Int("ef", 0); err != nil {
		return nil, err
	}
	if p.Rerank, err = w.Int("rerank", 0); err != nil {
		return nil, err
	}
	p.Exact = w["exact"] == "1"
	return p, nil
}

func (g *graphs) Search(q []float32, k int, effort worker.Effort, allowed *worker.Allowed, out []int32) error {
	p := effort.(graph.Params)
	p.K = k
	if allowed != nil {
		p.Allowed, p.AllowedCount = allowed.Bits, int64(allowed.Count)
	}
	hits, _, err := g.index.Search(context.Background(), q, p)
	for i, h := range hits {
		out[i] = int32(h.Pos)
	}
	return err
}

package ours

import (
	"context"
	"fmt"
	"os"

	"github.com/overlakedb/overlake/bench/vectors/worker"
	"github.com/overlakedb/overlake/internal/index/vector/lists"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec/code"
)

// inverted is an index of the room lists, loaded whole.
type inverted struct {
	index *lists.Index
}

// spill is a temporary file that goes when it is closed.
type spill struct{ *os.File }

func (s spill) Close() error {
	err := s.File.Close()
	if gone := os.Remove(s.Name()); err == nil {
		err = gone
	}
	return err
}

// Shared says that searches may run at once.
func (l *inverted) Shared() {}

func (l *inverted) Build(d worker.Data, w worker.Words) (size worker.Size, err error) {
	ctx := context.Background()
	workers, err := w.Int("workers", 1)
	if err != nil {
		return size, err
	}
	o := lists.Options{
		Metric: d.Metric, Dim: d.Dim, Seed: seed, Workers: workers, NoRerank: w["rerank"] == "none",
		Spill: func() (lists.SpillFile, error) {
			f, err := os.CreateTemp(d.Dir, "spill-")
			return spill{f}, err
		},
	}
	if o.Lists, err = w.Int("lists", 0); err != nil {
		return size, err
	}
	if o.Code, err = kindOf(w["code"]); err != nil {
		return size, err
	}
	if !o.NoRerank {
		if o.Rerank, err = kindOf(w["rerank"]); err != nil {
			return size, err
		}
	}
	b, err := lists.NewBuilder(o)
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
	if l.index, err = lists.Open(ctx, a.File, lists.OpenOptions{Resident: true}); err != nil {
		return size, err
	}
	size.Artifact = a.Size()
	if !o.NoRerank && o.Rerank == code.Float32 && o.Code != code.Float32 {
		size.Floats = int64(4 * len(d.Rows))
	}
	return size, nil
}

func (l *inverted) Effort(w worker.Words) (worker.Effort, error) {
	var p lists.Params
	var err error
	if p.Probes, err = w.Int("probes", 0); err != nil {
		return nil, err
	}
	if p.Rerank, err = w.Int("rerank", 0); err != nil {
		return nil, err
	}
	p.Exact = w["exact"] == "1"
	return p, nil
}

func (l *inverted) Search(q []float32, k int, effort worker.Effort, allowed *worker.Allowed, out []int32) error {
	p := effort.(lists.Params)
	p.K = k
	if allowed != nil {
		p.Allowed, p.AllowedCount = allowed.Bits, int64(allowed.Count)
	}
	hits, _, err := l.index.Search(context.Background(), q, p)
	if len(hits) > k {
		return fmt.Errorf("%d hits for k=%d", len(hits), k)
	}
	for i, h := range hits {
		out[i] = int32(h.Pos)
	}
	return err
}

package rank

import (
	"context"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/memory"
	"github.com/overlakedb/overlake/internal/row"
)

// Scan is rows that no index covers: they are read and analyzed when they are asked. It reads them twice, for the statistics
// and for the search, and holds the postings of some rows at a time, only of the terms that the query may need.
type Scan struct {
	Analyzers []*analysis.Analyzer // of the fields

	// Rows gives every row, in order: its text in each field, "" where it has none. It ends with the first error of yield.
	// It is called once for Gather and once for each Collect, and must give the same rows.
	Rows func(ctx context.Context, yield func(texts ...string) error) error

	Base   int64       // the number of the first row
	Filter *row.Bitmap // rows, counted from the first, that may be found; nil: all
	Memory int64       // bytes of postings held at a time, about; 0: 64 MiB
}

// chunks gives the rows as sources, each with the number of its first row counted from the first of the scan.
func (s *Scan) chunks(ctx context.Context, p *Plan, use func(first int64, src *memory.Source) error) error {
	o := memory.Options{Analyzers: s.Analyzers, Keep: p.Keep(), Positions: p.Positions(), Limit: s.Memory}
	b, first := memory.NewBuilder(o), int64(0)
	flush := func() error {
		n := int64(b.Rows())
		if n == 0 {
			return nil
		}
		at := first
		first += n
		src := b.Source()
		b = memory.NewBuilder(o)
		return use(at, src)
	}
	err := s.Rows(ctx, func(texts ...string) error {
		if err := b.Add(texts...); err != nil {
			return err
		}
		if b.Rows()&1023 == 0 && ctx.Err() != nil {
			return errs.Wrap(errs.Canceled, "rank.scan", ctx.Err())
		}
		if b.Full() {
			return flush()
		}
		return nil
	})
	if err != nil {
		return err
	}
	return flush()
}

// Gather reads the statistics of the rows.
func (s *Scan) Gather(ctx context.Context, p *Plan) (*Statistics, error) {
	st := p.Empty()
	err := s.chunks(ctx, p, func(_ int64, src *memory.Source) error {
		one, err := p.Gather(ctx, src)
		if err != nil {
			return err
		}
		p.Merge(st, one.Unlocated())
		return nil
	})
	return st, err
}

// Collect searches the rows; p is the plan that q was bound from.
func (s *Scan) Collect(ctx context.Context, p *Plan, q *Query, o Options, top *Top) error {
	return s.chunks(ctx, p, func(first int64, src *memory.Source) error {
		seg := Segment{Source: src, Base: s.Base + first}
		if s.Filter != nil {
			seg.Filter = s.Filter.Part(first, int64(src.Rows()))
		}
		return q.Collect(ctx, seg, o, top)
	})
}

package overlake

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/errs"
)

// pieces cuts the rows of a reader into several readers, one after the other.
type pieces struct {
	r    array.RecordReader
	rest arrow.RecordBatch // of the batch at hand, what no piece has taken yet; nil: nothing
	at   int64             // rows that were taken
	done bool              // there are no more
	err  error
}

// take gives the next batch, of at most limit rows; nil at the end. The caller releases it.
func (p *pieces) take(limit int64) arrow.RecordBatch {
	if !p.more() {
		return nil
	}
	b := p.rest
	p.rest = nil
	if n := b.NumRows(); n > limit {
		p.rest = b.NewSlice(limit, n)
		head := b.NewSlice(0, limit)
		b.Release()
		b = head
	}
	p.at += b.NumRows()
	return b
}

// more looks whether there are rows left.
func (p *pieces) more() bool {
	for p.rest == nil && !p.done {
		if !p.r.Next() {
			p.done, p.err = true, p.r.Err()
			break
		}
		if b := p.r.RecordBatch(); b.NumRows() > 0 {
			b.Retain()
			p.rest = b
		}
	}
	return p.rest != nil
}

// skip passes over rows; fewer than there should be are Invalid.
func (p *pieces) skip(ctx context.Context, n int64) error {
	for p.at < n {
		if err := ctx.Err(); err != nil {
			return errs.Wrap(errs.Canceled, "overlake.import", err)
		}
		b := p.take(n - p.at)
		if b == nil {
			if p.err != nil {
				return p.err
			}
			return errs.Newf(errs.Invalid, "overlake.import", "%d rows of the file are said to be in the table, and it has %d", n, p.at)
		}
		b.Release()
	}
	return nil
}

func (p *pieces) release() {
	if p.rest != nil {
		p.rest.Release()
		p.rest = nil
	}
}

// next is the reader of the next rows, at most limit; 0 is no limit. end is called behind its last row, before the reader
// says that there are no more: last tells that this was the last piece.
func (p *pieces) next(limit int64, end func(last bool)) *piece {
	return &piece{p: p, limited: limit > 0, left: limit, end: end}
}

// piece is one of the readers.
type piece struct {
	p       *pieces
	limited bool
	left    int64
	end     func(last bool)
	b       arrow.RecordBatch
}

func (r *piece) Retain()                        {}
func (r *piece) Release()                       {}
func (r *piece) Schema() *arrow.Schema          { return r.p.r.Schema() }
func (r *piece) RecordBatch() arrow.RecordBatch { return r.b }
func (r *piece) Record() arrow.RecordBatch      { return r.b }

// Err is the error that ended the piece. One behind a full piece is the next one's.
func (r *piece) Err() error {
	if r.limited && r.left == 0 {
		return nil
	}
	return r.p.err
}

func (r *piece) Next() bool {
	if r.b != nil {
		r.b.Release()
		r.b = nil
	}
	limit := int64(1) << 62
	if r.limited {
		limit = r.left
	}
	if limit > 0 {
		r.b = r.p.take(limit)
	}
	if r.b == nil {
		more := r.p.more()
		r.end(!more && r.p.err == nil)
		return false
	}
	r.left -= r.b.NumRows()
	return true
}

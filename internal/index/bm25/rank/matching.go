package rank

import (
	"context"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/row"
)

// Matching gives the rows of one segment that match, counted from the first of its source; ok is false where they are more
// than limit. Options.Limit and Options.Track are not looked at.
func (q *Query) Matching(ctx context.Context, s Segment, o Options, limit int64) (rows *row.Bitmap, ok bool, err error) {
	r, err := q.begin(ctx, s, o)
	if err != nil {
		return nil, false, err
	}
	rows = row.NewBitmap()
	it, err := r.rows(s.Filter)
	if err != nil {
		return nil, false, err
	}
	if it == nil {
		return rows, true, nil
	}
	var chunk []int64
	found := int64(0)
	for n, at := 1, it.advance(0); at != end; n, at = n+1, it.advance(at+1) {
		if n&1023 == 0 {
			if err := ctx.Err(); err != nil {
				return nil, false, errs.Wrap(errs.Canceled, "rank.matching", err)
			}
		}
		if !it.confirm() {
			continue
		}
		if found++; found > limit {
			return nil, false, nil
		}
		if chunk = append(chunk, at); len(chunk) == 4096 {
			rows.AddMany(chunk)
			chunk = chunk[:0]
		}
	}
	if r.err != nil {
		return nil, false, r.err
	}
	if err := it.err(); err != nil {
		return nil, false, err
	}
	rows.AddMany(chunk)
	return rows, true, nil
}

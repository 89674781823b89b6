package segment

import (
	"context"

	"github.com/overlakedb/overlake/internal/index/bm25/block"
	"github.com/overlakedb/overlake/internal/index/bm25/posting"
)

// cursor is a posting.Cursor over a list.
type cursor struct {
	list      list
	i         int // in the block
	row       uint32
	begun     bool
	positions bool
	err       error
}

// Postings are those of a term that Lookup or Walk gave.
func (r *Reader) Postings(ctx context.Context, field int, t posting.Term, positions bool) (posting.Cursor, error) {
	c := &cursor{positions: positions}
	if err := r.openLists(ctx, []openRequest{{field, t, positions}}, []*list{&c.list}); err != nil {
		return nil, err
	}
	return c, nil
}

// Row is the row the cursor stands on. Before the first move it is none, and 0 is given.
func (c *cursor) Row() uint32 { return c.row }

func (c *cursor) fail(err error) uint32 {
	c.err = err
	c.list.end()
	c.row = posting.End
	return posting.End
}

// Next moves to the next row.
func (c *cursor) Next() uint32 {
	l := &c.list
	if c.begun {
		c.i++
	}
	c.begun = true
	if c.i >= l.count {
		if l.at+1 >= l.n {
			l.end()
			c.row = posting.End
			return posting.End
		}
		if err := l.load(l.at + 1); err != nil {
			return c.fail(err)
		}
		c.i = 0
	}
	if err := l.decodeRows(); err != nil {
		return c.fail(err)
	}
	c.row = l.row[c.i]
	return c.row
}

// Advance moves to the first row that is not less than target.
func (c *cursor) Advance(target uint32) uint32 {
	if c.begun && c.row >= target {
		return c.row
	}
	l := &c.list
	before := l.at
	ok, err := l.seek(target)
	if err != nil {
		return c.fail(err)
	}
	if !ok {
		c.begun, c.row = true, posting.End
		return posting.End
	}
	if l.at != before {
		c.i = 0
	}
	c.begun = true
	if err := l.decodeRows(); err != nil {
		return c.fail(err)
	}
	c.i = block.LowerBound(&l.row, target)
	c.row = l.row[c.i]
	return c.row
}

// Freq is how often the term stands in the row; 0 where there is none.
func (c *cursor) Freq() uint32 {
	if c.i >= c.list.count {
		return 0
	}
	c.list.decodeFreqs()
	return c.list.freq[c.i]
}

// Positions are those of the term in the row.
func (c *cursor) Positions() []uint32 {
	if !c.positions || c.i >= c.list.count {
		return nil
	}
	p, err := c.list.positionsAt(c.i)
	if err != nil {
		c.fail(err)
	}
	return p
}

// Err is what stopped the cursor early.
func (c *cursor) Err() error { return c.err }

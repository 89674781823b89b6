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
func (r *Reader) Postings(ctx context.Context, field int, t posting.Term, positions bool) (_ posting.Cursor, err error) {
	defer guard("segment.postings", &err)()
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
	if c.i >= l.count || !l.hasRows {
		if err := c.nextBlock(); err != nil {
			return c.fail(err)
		}
		if l.count == 0 {
			c.row = posting.End
			return posting.End
		}
	}
	c.row = l.row[c.i]
	return c.row
}

// nextBlock decodes the block at work, or goes to the one after where that is done.
func (c *cursor) nextBlock() (err error) {
	defer guard("segment.postings", &err)()
	l := &c.list
	if c.i >= l.count {
		if l.at+1 >= l.n {
			l.end()
			return nil
		}
		if err := l.load(l.at + 1); err != nil {
			return err
		}
		c.i = 0
	}
	return l.decodeRows()
}

// Advance moves to the first row that is not less than target.
func (c *cursor) Advance(target uint32) uint32 {
	if c.begun && c.row >= target {
		return c.row
	}
	c.begun = true
	if err := c.advance(target); err != nil {
		return c.fail(err)
	}
	if c.list.count == 0 {
		c.row = posting.End
	} else {
		c.row = c.list.row[c.i]
	}
	return c.row
}

func (c *cursor) advance(target uint32) (err error) {
	defer guard("segment.postings", &err)()
	l := &c.list
	if ok, err := l.seek(target); !ok {
		return err
	}
	if err := l.decodeRows(); err != nil {
		return err
	}
	c.i = block.LowerBound(&l.row, target)
	return nil
}

// Freq is how often the term stands in the row; 0 where there is none.
func (c *cursor) Freq() uint32 {
	if c.i >= c.list.count {
		return 0
	}
	if !c.list.hasFreqs {
		if err := c.decodeFreqs(); err != nil {
			c.fail(err)
			return 0
		}
	}
	return c.list.freq[c.i]
}

func (c *cursor) decodeFreqs() (err error) {
	defer guard("segment.postings", &err)()
	c.list.decodeFreqs()
	return nil
}

// Positions are those of the term in the row.
func (c *cursor) Positions() []uint32 {
	if !c.positions || c.i >= c.list.count {
		return nil
	}
	p, err := c.readPositions()
	if err != nil {
		c.fail(err)
		return nil
	}
	return p
}

func (c *cursor) readPositions() (_ []uint32, err error) {
	defer guard("segment.postings", &err)()
	return c.list.positionsAt(c.i)
}

// Err is what stopped the cursor early.
func (c *cursor) Err() error { return c.err }

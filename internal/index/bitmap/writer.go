package bitmap

import (
	"context"
	"io"
	"math/bits"

	"github.com/overlakedb/overlake/internal/checksum"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/predicate"
)

// sink takes postings by key, then row: first those of NULL, if there are any.
type sink interface {
	// group begins the rows of a key, or of NULL, that was not begun before.
	group(null bool, key []byte) error
	// row adds a row of the group; rows ascend.
	row(r uint64) error
	// end ends the last group.
	end() error
}

// blockWriter is the sink that cuts postings into blocks and gathers the directory.
type blockWriter struct {
	ctx context.Context
	out io.Writer
	dir directory
	err error // of a write

	null   bool // the rows are those of NULL
	own    bool // the block belongs to its one key
	keys   keyList
	counts []int
	rows   []uint64
	bits   int64  // an estimate of the size
	first  uint64 // the first row of the last key
	before []byte // the greatest key of the blocks written
	some   bool   // such a block was written

	buf []byte
	s   scratch
}

func newBlockWriter(ctx context.Context, out io.Writer, columns []predicate.KeyKind) *blockWriter {
	w := &blockWriter{ctx: ctx, out: out}
	w.dir.columns = columns
	w.dir.offsets = []int64{0}
	w.dir.before = []int64{0}
	return w
}

func (w *blockWriter) group(null bool, key []byte) error {
	if err := w.endGroup(len(key)); err != nil {
		return err
	}
	if null {
		w.null, w.own = true, true
		return nil
	}
	if n := w.keys.len(); n == 0 {
		w.bits += int64(len(key)) * 8
	} else if last := w.keys.at(n - 1); len(key) == 8 && len(last) == 8 {
		w.bits += int64(bits.Len64(tail(key)-tail(last))) + 1
	} else {
		w.bits += int64(len(key)-commonPrefix(last, key))*8 + 10
	}
	w.keys.add(key)
	w.counts = append(w.counts, 0)
	w.dir.distinct++
	return nil
}

// endGroup closes the block behind the last group where that is its place; a key of the given length comes next.
func (w *blockWriter) endGroup(next int) error {
	switch n := w.keys.len(); {
	case w.own:
		return w.flushOne()
	case n == 0:
		return nil
	case n == maxBlockKeys || w.bits >= blockBits || len(w.rows) >= blockPostings || len(w.keys.text)+next > maxKeyBytes:
		return w.flushMany(n, len(w.rows))
	}
	return nil
}

func (w *blockWriter) row(r uint64) error {
	w.rows = append(w.rows, r)
	if w.null {
		w.bits += w.gapBits(r)
		if w.full() {
			return w.flushRows()
		}
		return nil
	}
	last := len(w.counts) - 1
	w.counts[last]++
	count := w.counts[last]
	if count == 1 {
		w.bits += int64(bits.Len64(zigzag(int64(r-w.first)))) + 1
		w.first = r
		return nil
	}
	w.bits += w.gapBits(r)
	if w.own {
		if w.full() {
			return w.flushRows()
		}
		return nil
	}
	if count < ownBlocks {
		return nil
	}
	if last > 0 {
		if err := w.flushMany(last, len(w.rows)-count); err != nil {
			return err
		}
	}
	w.own = true
	w.bits = 0
	for i := 1; i < len(w.rows); i++ {
		w.bits += int64(bits.Len64(w.rows[i]-w.rows[i-1])) + 1
	}
	return nil
}

func (w *blockWriter) gapBits(r uint64) int64 {
	if n := len(w.rows); n > 1 {
		return int64(bits.Len64(r-w.rows[n-2])) + 1
	}
	return 0
}

func (w *blockWriter) full() bool { return w.bits >= blockBits || len(w.rows) == maxBlockPostings }

// flushOne writes what is left of the group that has blocks of its own, and ends it.
func (w *blockWriter) flushOne() error {
	err := w.flushRows()
	if !w.null {
		w.before, w.some = append(w.before[:0], w.keys.at(0)...), true
	}
	w.null, w.own = false, false
	w.keys.reset()
	w.counts = w.counts[:0]
	return err
}

// flushRows writes the rows there are as a block of one key.
func (w *blockWriter) flushRows() error {
	if len(w.rows) == 0 {
		return w.err
	}
	e := entry{postings: len(w.rows)}
	if w.null {
		w.dir.nullBlocks++
	} else {
		e.key = w.keys.at(0)
		w.dir.postings += int64(len(w.rows))
	}
	w.buf = appendOne(w.buf[:0], w.rows, &w.s)
	w.rows = w.rows[:0]
	w.bits = 0
	return w.write(e)
}

// flushMany writes the first n keys with the first m rows as a block; there is at most one key more.
func (w *blockWriter) flushMany(n, m int) error {
	e := entry{keys: n, postings: m}
	first := w.keys.at(0)
	if w.some {
		first = separator(w.before, first)
	} else {
		first = first[:0]
	}
	if kind := keyKind(w.dir.columns); kind.Width() > 0 {
		first = w.keys.at(0)
	}
	e.key = first
	w.buf = appendMany(w.buf[:0], &w.keys, n, w.counts, w.rows[:m], &w.s)
	w.dir.postings += int64(m)
	err := w.write(e)
	w.before, w.some = append(w.before[:0], w.keys.at(n-1)...), true
	if n < w.keys.len() {
		w.keys.keepLast()
		w.counts = append(w.counts[:0], w.counts[n])
	} else {
		w.keys.reset()
		w.counts = w.counts[:0]
	}
	w.rows = append(w.rows[:0], w.rows[m:]...)
	w.bits = 0
	return err
}

// separator is the shortest start of key that is above before, which is below key.
func separator(before, key []byte) []byte { return key[:commonPrefix(before, key)+1] }

// write writes the block in buf and enters it in the directory.
func (w *blockWriter) write(e entry) error {
	if w.err == nil {
		w.err = w.ctx.Err()
	}
	if w.err != nil {
		return errs.Wrap(errs.KindOf(w.err), "bitmap.finish", w.err)
	}
	if len(w.dir.first.text)+len(e.key) > maxDirectory {
		w.err = errs.New(errs.Unsupported, "bitmap.finish", "keys of this length are too many for the directory of an index")
		return w.err
	}
	e.size = int64(len(w.buf))
	e.sum = checksum.Of(w.buf)
	if !w.some && w.keys.len() > 0 {
		w.dir.min = append([]byte{}, w.keys.at(0)...)
	}
	w.dir.enter(e)
	return w.emit(w.buf)
}

func (w *blockWriter) emit(b []byte) error {
	if _, err := w.out.Write(b); err != nil {
		w.err = err
		return errs.Wrap(errs.KindOf(err), "bitmap.finish", err)
	}
	return nil
}

// end writes what is left, but not the directory.
func (w *blockWriter) end() error {
	if w.own {
		if err := w.flushOne(); err != nil {
			return err
		}
	}
	if n := w.keys.len(); n > 0 {
		if err := w.flushMany(n, len(w.rows)); err != nil {
			return err
		}
	}
	if w.some {
		w.dir.max = append([]byte{}, w.before...)
	}
	return nil
}

package bitmap

import (
	"context"
	"slices"

	"github.com/overlakedb/overlake/internal/predicate"
)

// Walk yields the keys of the ranges in ascending or descending order, each once with all its rows ascending, until yield
// returns false. Key and rows are good during the call. Blocks are read as they are needed, a growing number at once; the
// rows of one key are held together.
func (r *Reader) Walk(ctx context.Context, keys predicate.Ranges, descending bool, yield func(key []byte, rows []int64) bool) error {
	d := r.dir
	parts := d.parts(keys)
	if descending {
		slices.Reverse(parts)
		// The blocks of one key stay in the order of its rows.
		for from := 0; from < len(parts); {
			to := from + 1
			for to < len(parts) && d.continues(parts[to-1].block) {
				to++
			}
			slices.Reverse(parts[from:to])
			from = to
		}
	}
	w := walk{r: r, keys: keys, descending: descending, yield: yield}
	for ahead := 1; len(parts) > 0; ahead = min(2*ahead, walkAhead) {
		n := min(ahead, len(parts))
		if err := w.blocks(ctx, parts[:n]); err != nil || w.stopped {
			return err
		}
		parts = parts[n:]
	}
	w.finish()
	return nil
}

// walkAhead is how many blocks a walk reads at once in the end.
const walkAhead = 64

type walk struct {
	r          *Reader
	keys       predicate.Ranges
	descending bool
	yield      func(key []byte, rows []int64) bool
	stopped    bool

	one  bool // a key with blocks of its own is being gathered, in key and rows
	key  []byte
	rows []int64
}

// blocks walks through blocks that are read together. They are decoded where they were read, one after the other.
func (w *walk) blocks(ctx context.Context, parts []part) error {
	read := slices.Clone(parts)
	if w.descending {
		slices.SortFunc(read, func(a, b part) int { return a.block - b.block })
	}
	pieces := make(map[int][]byte, len(read))
	var total int64
	for _, p := range read {
		total += w.r.dir.offsets[p.block+1] - w.r.dir.offsets[p.block] + listPad
	}
	memory := make([]byte, total)
	for _, p := range read {
		n := w.r.dir.offsets[p.block+1] - w.r.dir.offsets[p.block]
		pieces[p.block] = memory[: n : n+listPad]
		memory = memory[n+listPad:]
	}
	err := w.r.each(ctx, read, func(p part, b []byte, _ *block) error {
		copy(pieces[p.block], b)
		return nil
	})
	if err != nil {
		return err
	}
	buf := blocks.Get().(*work)
	defer blocks.Put(buf)
	for _, p := range parts {
		if err := w.block(p, pieces[p.block], &buf.block); err != nil {
			return corrupt("bitmap.walk", err.Error())
		}
		if w.stopped {
			return nil
		}
	}
	return nil
}

func (w *walk) block(p part, b []byte, bl *block) error {
	d := w.r.dir
	n, postings := int(d.keys[p.block]), int(d.before[p.block+1]-d.before[p.block])
	if n == 0 {
		if key := d.key(p.block); !w.one || string(key) != string(w.key) {
			if !w.finish() {
				return nil
			}
			w.one, w.key = true, append(w.key[:0], key...)
		}
		return bl.decodeOne(b, postings, uint64(d.rows), func(lo, hi uint64) {
			for ; lo < hi; lo++ {
				w.rows = append(w.rows, int64(lo))
			}
		})
	}
	if !w.finish() {
		return nil
	}
	if err := bl.decodeKeys(b, n, postings, keyKind(d.columns)); err != nil {
		return err
	}
	if err := bl.decodeCounts(b, n); err != nil {
		return err
	}
	if err := bl.decodeRows(b, n, uint64(d.rows)); err != nil {
		return err
	}
	ranges := w.keys[p.from:p.to]
	for i := range ranges {
		k := ranges[i]
		if w.descending {
			k = ranges[len(ranges)-1-i]
		}
		from, to := bl.keys.within(k)
		for i := range to - from {
			at := from + i
			if w.descending {
				at = to - 1 - i
			}
			w.key = bl.keys.append(w.key[:0], at)
			w.rows = append(w.rows[:0], int64(bl.firsts[at]))
			for _, r := range bl.others(at) {
				w.rows = append(w.rows, int64(r))
			}
			if !w.yield(w.key, w.rows) {
				w.stopped = true
				return nil
			}
		}
	}
	w.rows = w.rows[:0]
	return nil
}

// finish yields the key that was gathered, if there is one, and tells whether to go on.
func (w *walk) finish() bool {
	if w.one {
		w.one = false
		w.stopped = !w.yield(w.key, w.rows)
	}
	w.rows = w.rows[:0]
	return !w.stopped
}

// Firsts yields the keys of the ranges in ascending order, each once with the first of its rows, until yield returns false.
// Of keys with many rows no more than one block is read, and none where known tells that the key is of no interest; nil
// knows none. The keys are good during the calls.
func (r *Reader) Firsts(ctx context.Context, keys predicate.Ranges, known func(key []byte) bool, yield func(key []byte, row int64) bool) error {
	const op = "bitmap.firsts"
	d := r.dir
	parts := slices.DeleteFunc(d.parts(keys), func(p part) bool {
		if d.keys[p.block] > 0 {
			return false
		}
		return d.continues(p.block) || known != nil && known(d.key(p.block))
	})
	var memory []byte
	for ahead := 1; len(parts) > 0; ahead = min(2*ahead, walkAhead) {
		these := parts[:min(ahead, len(parts))]
		parts = parts[len(these):]
		pieces := make([][]byte, len(these))
		total := int64(0)
		for _, p := range these {
			total += d.offsets[p.block+1] - d.offsets[p.block] + listPad
		}
		memory = slices.Grow(memory[:0], int(total))[:total]
		at := int64(0)
		for i, p := range these {
			n := d.offsets[p.block+1] - d.offsets[p.block]
			pieces[i] = memory[at : at+n : at+n+listPad]
			at += n + listPad
		}
		err := r.each(ctx, these, func(p part, b []byte, _ *block) error {
			i, _ := slices.BinarySearchFunc(these, p.block, func(a part, block int) int { return a.block - block })
			copy(pieces[i], b)
			return nil
		})
		if err != nil {
			return err
		}
		more, err := r.firsts(these, pieces, keys, yield)
		if err != nil {
			return corrupt(op, err.Error())
		}
		if !more {
			return nil
		}
	}
	return nil
}

// firsts yields the keys of some blocks and tells whether to go on.
func (r *Reader) firsts(parts []part, pieces [][]byte, keys predicate.Ranges, yield func(key []byte, row int64) bool) (bool, error) {
	d := r.dir
	w := blocks.Get().(*work)
	defer blocks.Put(w)
	bl := &w.block
	var key []byte
	for i, p := range parts {
		n, postings := int(d.keys[p.block]), int(d.before[p.block+1]-d.before[p.block])
		if n == 0 {
			first, err := firstOf(pieces[i], uint64(d.rows))
			if err != nil {
				return false, err
			}
			if !yield(d.key(p.block), int64(first)) {
				return false, nil
			}
			continue
		}
		if err := bl.decodeKeys(pieces[i], n, postings, keyKind(d.columns)); err != nil {
			return false, err
		}
		if err := bl.decodeCounts(pieces[i], n); err != nil {
			return false, err
		}
		if _, err := bl.decodeFirsts(pieces[i], n, uint64(d.rows)); err != nil {
			return false, err
		}
		for _, k := range keys[p.from:p.to] {
			from, to := bl.keys.within(k)
			for at := from; at < to; at++ {
				key = bl.keys.append(key[:0], at)
				if !yield(key, int64(bl.firsts[at])) {
					return false, nil
				}
			}
		}
	}
	return true, nil
}

// FirstNull is the first row with NULL; ok is false when there is none.
func (r *Reader) FirstNull(ctx context.Context) (row int64, ok bool, err error) {
	if r.dir.nulls == 0 {
		return 0, false, nil
	}
	err = r.each(ctx, []part{{block: 0, all: true}}, func(_ part, b []byte, _ *block) error {
		first, err := firstOf(b, uint64(r.dir.rows))
		row = int64(first)
		return err
	})
	return row, err == nil, err
}

// Distinct bounds the number of different keys in the ranges from above, without reading anything.
func (r *Reader) Distinct(keys predicate.Ranges) int64 {
	d := r.dir
	n := int64(0)
	for _, p := range d.parts(keys) {
		switch {
		case d.keys[p.block] > 0:
			n += int64(d.keys[p.block])
		case !d.continues(p.block):
			n++
		}
	}
	return n
}

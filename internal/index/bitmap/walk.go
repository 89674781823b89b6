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

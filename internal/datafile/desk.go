package datafile

import "sync"

// desk is what a fetch works with; fetches that come later use it again.
type desk struct {
	heads, pages     room // as they were read
	page, dictionary room // decompressed, one at a time
	lookup           lookup
	rows             []int64
}

var desks = sync.Pool{New: func() any { return &desk{} }}

func (d *desk) free() {
	for _, r := range []*room{&d.heads, &d.pages, &d.page, &d.dictionary} {
		r.free()
	}
	d.lookup = lookup{scratch: d.lookup.scratch}
	desks.Put(d)
}

// room is memory that is used again and again. What a fetch makes of it counts for the limit of the fetch.
type room struct {
	b       []byte
	charged int
}

// of gives n bytes, charged to mem unless that is nil, with some to spare behind them: zstd decodes faster where it need not
// stop at the last byte.
func (r *room) of(n int, mem *limited) []byte {
	if mem != nil && n > r.charged {
		mem.take(int64(n - r.charged))
		r.charged = n
	}
	if n+roomToSpare > cap(r.b) {
		r.b = make([]byte, n+roomToSpare+min(n/4, 1<<20))
	}
	return r.b[:n]
}

// free ends the use by one fetch.
func (r *room) free() {
	r.charged = 0
	if cap(r.b) > maxKept {
		r.b = nil
	}
}

const (
	roomToSpare = 64
	// maxKept is the most that a room keeps for the next fetch, in bytes.
	maxKept = 4 << 20
)

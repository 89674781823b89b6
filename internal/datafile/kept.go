package datafile

import (
	"sync/atomic"

	"github.com/overlakedb/overlake/internal/cache"
)

// Pages keeps what fetches of few rows have read of files: pages and dictionaries, decompressed, and where pages lie. Who asks
// for some rows again and again, as searches do, then neither reads nor decompresses them. It is bounded in bytes; what was
// used longest ago goes first. It is safe for concurrent use.
type Pages struct {
	by   *cache.By[pageKey]
	last atomic.Uint64 // number of a file
}

// NewPages makes room for so many bytes.
func NewPages(limit int64) *Pages { return &Pages{by: cache.NewBy[pageKey](limit)} }

// pageKey is a part of a file: what begins at an offset.
type pageKey struct {
	file uint64
	at   int64
	part part
}

// part is what is kept of a file.
type part uint8

const (
	keptDirectory part = iota
	keptPage
	keptDictionary
)

const (
	// keptRows is how many rows a fetch may be of for its pages to be kept: those of a larger one are seldom wanted again, and
	// would push others out.
	keptRows = 256
	// keptBytes bounds a page that is kept, and a dictionary.
	keptBytes = 1 << 20
)

// Keep is the same file, with pages that are kept for later fetches, of this value and of those that On makes of it.
func (f *File) Keep(p *Pages) *File {
	g := *f
	g.kept, g.number = p, p.last.Add(1)
	return &g
}

// directory is where the pages of a leaf of a row group lie.
type directory struct {
	places []place // none: not to be followed
	v2     bool    // of lists: the first page, and so all of them, is of version 2 and begins with a row
}

// keeping is what a fetch has found kept. Its zero value keeps nothing.
type keeping struct {
	on     bool
	places map[int64]*directory // by the offset of the index
	pages  map[int64]*page      // by offset
	dicts  map[int64]*dictionary
}

// keep begins the use of what is kept for a fetch of so many rows.
func (w *fetcher) keep(rows int) {
	if w.f.kept != nil && rows <= keptRows {
		w.k = keeping{on: true, places: map[int64]*directory{}, pages: map[int64]*page{}, dicts: map[int64]*dictionary{}}
	}
}

// known looks for what is kept of a file.
func known[T any](w *fetcher, in map[int64]*T, at int64, what part) *T {
	if !w.k.on {
		return nil
	}
	if x, ok := in[at]; ok {
		return x
	}
	v, _ := w.f.kept.by.Get(pageKey{w.f.number, at, what})
	x, _ := v.(*T)
	if x != nil {
		in[at] = x // for as long as this fetch lasts
	}
	return x
}

func (w *fetcher) directoryAt(index int64) *directory {
	return known(w, w.k.places, index, keptDirectory)
}
func (w *fetcher) pageAt(offset int64) *page { return known(w, w.k.pages, offset, keptPage) }
func (w *fetcher) dictionaryAt(offset int64) *dictionary {
	return known(w, w.k.dicts, offset, keptDictionary)
}

func (w *fetcher) keepDirectory(index int64, l *directory) {
	if w.k.on {
		w.f.kept.by.Put(pageKey{w.f.number, index, keptDirectory}, l, 24*int64(len(l.places))+64)
	}
}

// keepPage keeps a copy of a page as it was opened.
func (w *fetcher) keepPage(offset int64, p *page) {
	n := len(p.reps.b) + len(p.defs.b) + len(p.values)
	if !w.k.on || n > keptBytes {
		return
	}
	b := make([]byte, 0, n)
	own := func(in []byte) []byte {
		from := len(b)
		b = append(b, in...)
		return b[from:len(b):len(b)]
	}
	c := *p
	c.reps.b, c.defs.b, c.values = own(p.reps.b), own(p.defs.b), own(p.values)
	w.f.kept.by.Put(pageKey{w.f.number, offset, keptPage}, &c, int64(n)+160)
}

// keepDictionary keeps a copy of a dictionary, and gives it.
func (w *fetcher) keepDictionary(offset int64, d *dictionary) {
	n := len(d.b) + 4*len(d.ends)
	if !w.k.on || n > keptBytes {
		return
	}
	c := *d
	c.b = append([]byte(nil), d.b...)
	w.f.kept.by.Put(pageKey{w.f.number, offset, keptDictionary}, &c, int64(n)+96)
}

// ownSpans adds what is to be read of a column chunk whose pages are decoded here: the pages of the rows, and the dictionary,
// as far as they are not kept.
func (w *fetcher) ownSpans(spans []span, k chunk, places []place, rows []int64) []span {
	refers := false
	for at := 0; at < len(rows); {
		n := pageOf(places, rows[at])
		for at++; at < len(rows) && (n+1 == len(places) || rows[at] < places[n+1].row); at++ {
		}
		if p := w.pageAt(places[n].from); p != nil {
			refers = refers || p.refers()
			continue
		}
		spans, refers = append(spans, places[n].span), true // perhaps
	}
	if first := places[0].from; first > k.start && refers && w.dictionaryAt(k.start) == nil {
		spans = append(spans, span{k.start, first})
	}
	return spans
}

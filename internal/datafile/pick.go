package datafile

import (
	"sync"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/overlakedb/overlake/internal/errs"
)

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

// ownSpans adds what is read of a column chunk whose pages are decoded here: the dictionary and the pages of the rows.
func ownSpans(spans []span, k chunk, places []place, rows []int64) []span {
	if first := places[0].from; first > k.start {
		spans = append(spans, span{k.start, first})
	}
	for at := 0; at < len(rows); {
		n := pageOf(places, rows[at])
		for at++; at < len(rows) && (n+1 == len(places) || rows[at] < places[n+1].row); at++ {
		}
		spans = append(spans, places[n].span)
	}
	return spans
}

// pick gives a column of the result from pages that are decoded here. With errPage it gives up.
func (w *fetcher) pick(i int) (arrow.Array, error) {
	if w.f.cells[w.cols[i]].list > 0 {
		return w.pickLists(i)
	}
	c := newCells(w.s.mem, w.f.cells[w.cols[i]], len(w.slots))
	defer c.release()
	for pi := range w.parts {
		if err := w.pickFrom(&w.parts[pi], i, c); err != nil {
			return nil, err
		}
	}
	return c.array(w.f.schema.Field(w.cols[i]).Type)
}

// pickFrom puts the values of one row group into their cells.
func (w *fetcher) pickFrom(p *groupRows, i int, c *cells) error {
	return w.eachPage(p, i, func(page *page, rows []int64, at int) error {
		for k, row := range rows {
			slots := w.slotsOf(at + k)
			value, ok, err := page.locate(int(row))
			if err != nil {
				return err
			}
			if !ok {
				c.null(slots)
				continue
			}
			v, err := w.d.lookup.value(value)
			if err != nil {
				return err
			}
			if err := c.put(v, slots); err != nil {
				return err
			}
		}
		return nil
	})
}

// eachPage opens the pages of a column that have wanted rows, one after the other, turns the lookup to it and gives it with
// its wanted rows, counted from its first, and with the place of these among the sorted positions.
func (w *fetcher) eachPage(p *groupRows, i int, use func(page *page, rows []int64, at int) error) error {
	leaf, t := w.f.leafAt[w.cols[i]], w.f.cells[w.cols[i]]
	k, places := w.f.chunks[p.group][leaf], p.places[i][0]
	pages := paging{codec: k.codec, lists: t.list > 0, defined: w.f.md.Schema.Column(leaf).MaxDefinitionLevel(), most: w.f.limits.BatchBytes,
		room: &w.d.page, keep: &w.d.dictionary, mem: w.s.mem}
	var dict *dictionary
	for at := 0; at < len(p.rows); {
		if err := w.ctx.Err(); err != nil {
			return errs.Wrap(errs.Canceled, "datafile.fetch", err)
		}
		n := pageOf(places, p.rows[at])
		first, end := places[n].row, w.f.groups[p.group].Rows
		if n+1 < len(places) {
			end = places[n+1].row
		}
		b, err := w.s.src.view(places[n].span)
		if err != nil {
			return err
		}
		page, err := pages.open(b, end-first)
		if err != nil {
			return err
		}
		if page.refers() && len(page.values) > 0 && dict == nil {
			if b, err = w.s.src.view(span{k.start, places[0].from}); err != nil {
				return err
			}
			if dict, err = pages.dictionary(b, t); err != nil {
				return err
			}
		}
		if err := w.d.lookup.reset(t, &page, dict); err != nil {
			return err
		}
		from := at
		w.d.rows = w.d.rows[:0]
		for ; at < len(p.rows) && p.rows[at] < end; at++ {
			w.d.rows = append(w.d.rows, p.rows[at]-first)
		}
		if err := use(&page, w.d.rows, p.from+from); err != nil {
			return err
		}
	}
	return nil
}

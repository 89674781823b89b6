package datafile

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/errs"
)

// pick gives a column of the result from pages that are decoded here. With errPage it gives up.
func (w *fetcher) pick(i int) (arrow.Array, error) {
	if w.f.cells[w.f.leafAt[w.cols[i]]].list > 0 {
		return w.pickLists(i)
	}
	leaf := 0
	a, _, err := w.pickField(i, &leaf, w.f.schema.Field(w.cols[i]), 0)
	return a, err
}

// pickField gives a field of column i, whose leaves begin at leaf, and moves that behind them. Within structs it also gives
// the level of definition of every row: what lies around a value is there, or not, according to that.
func (w *fetcher) pickField(i int, leaf *int, f arrow.Field, level int16) (arrow.Array, []int16, error) {
	t, ok := f.Type.(*arrow.StructType)
	if !ok {
		k := *leaf
		*leaf++
		return w.pickLeaf(i, k, f.Type)
	}
	if f.Nullable {
		level++
	}
	members := make([]arrow.Array, t.NumFields())
	defer releaseAll(members)
	data := make([]arrow.ArrayData, len(members))
	var levels []int16
	for k, m := range t.Fields() {
		a, l, err := w.pickField(i, leaf, m, level)
		if err != nil {
			return nil, nil, err
		}
		members[k], data[k] = a, a.Data()
		if k == 0 {
			levels = l
		}
	}
	v := validity{rows: len(w.slots), mem: w.s.mem}
	if f.Nullable {
		for k, l := range levels {
			if l < level {
				v.null([]int32{int32(k)})
			}
		}
	}
	d := array.NewData(t, v.rows, []*memory.Buffer{v.valid}, data, v.nulls, 0)
	defer d.Release()
	if v.valid != nil {
		v.valid.Release()
	}
	return array.MakeFromData(d), levels, nil
}

// pickLeaf gives leaf k of column i, and within structs the level of definition of every row.
func (w *fetcher) pickLeaf(i, k int, t arrow.DataType) (_ arrow.Array, levels []int16, err error) {
	cell := w.f.cells[w.f.leafAt[w.cols[i]]+k]
	if len(w.parts[0].places[i]) > 1 || cell.defined > 1 || cell.required && cell.defined > 0 {
		levels = make([]int16, len(w.slots))
	}
	c := newCells(w.s.mem, cell, len(w.slots))
	defer c.release()
	for pi := range w.parts {
		err := w.eachPage(&w.parts[pi], i, k, func(page *page, rows []int64, at int) error {
			for r, row := range rows {
				slots := w.slotsOf(at + r)
				value, level, err := page.locate(int(row), cell.defined)
				if err != nil {
					return err
				}
				if levels != nil {
					for _, s := range slots {
						levels[s] = level
					}
				}
				if level < cell.defined {
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
		if err != nil {
			return nil, nil, err
		}
	}
	a, err := c.array(t)
	return a, levels, err
}

// eachPage opens the pages of leaf l of column i that have wanted rows, one after the other. It turns the lookup to the page
// and gives that with its wanted rows, counted from its first, and with the place of these among the sorted positions.
func (w *fetcher) eachPage(p *groupRows, i, l int, use func(page *page, rows []int64, at int) error) error {
	leaf := w.f.leafAt[w.cols[i]] + l
	t, k, places := w.f.cells[leaf], w.f.chunks[p.group][leaf], p.places[i][l]
	pages := paging{codec: k.codec, lists: t.list > 0, defined: t.defined, most: w.f.limits.BatchBytes, room: &w.d.page, keep: &w.d.dictionary, mem: w.s.mem}
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
		var page page
		if kept := w.pageAt(places[n].from); kept != nil {
			page = *kept
		} else {
			b, err := w.s.src.view(places[n].span)
			if err != nil {
				return err
			}
			if page, err = pages.open(b, end-first); err != nil {
				return err
			}
			w.keepPage(places[n].from, &page)
		}
		if page.refers() && len(page.values) > 0 && dict == nil {
			if dict = w.dictionaryAt(k.start); dict == nil {
				b, err := w.s.src.view(span{k.start, places[0].from})
				if err != nil {
					return err
				}
				if dict, err = pages.dictionary(b, t); err != nil {
					return err
				}
				w.keepDictionary(k.start, dict)
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

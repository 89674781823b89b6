package datafile

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// A list of numbers, a vector above all, has a value for each element. Levels of repetition say where rows begin (0) and go on
// (1), levels of definition how far the list is there: below cellType.list - 1 it is NULL, at that empty, from cellType.list
// on there is an element, and at the highest it is not NULL.

// listCells is an Arrow column of lists in the making.
type listCells struct {
	cellType
	validity
	elements *memory.Buffer // as they came
	used     int            // elements so far
	missing  []byte         // bits of the elements that are NULL, as far as the last of these
	places   []stretch      // by row
}

func newListCells(mem memory.Allocator, t cellType, rows int) *listCells {
	return &listCells{cellType: t, validity: validity{rows: rows, mem: mem}, elements: memory.NewResizableBuffer(mem), places: make([]stretch, rows)}
}

// pickLists gives a column of lists of numbers from pages that are decoded here.
func (w *fetcher) pickLists(i int) (arrow.Array, error) {
	col := w.cols[i]
	c := newListCells(w.s.mem, w.f.cells[w.f.leafAt[col]], len(w.slots))
	defer c.release()
	for pi := range w.parts {
		err := w.eachPage(&w.parts[pi], i, 0, func(page *page, rows []int64, at int) error {
			r := listRow{page: page}
			for k, row := range rows {
				if err := r.next(row, uint32(c.defined)); err != nil {
					return err
				}
				if err := c.put(&r, &w.d.lookup, w.slotsOf(at+k)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return c.array(w.f.schema.Field(col).Type.(*arrow.ListType))
}

// listRow walks over the rows of a page of lists.
type listRow struct {
	page     *page
	row      int64 // the next row to come to
	from, to int   // the levels of the row that it came to
	values   int   // there are before from
}

// next goes forward to a row.
func (r *listRow) next(row int64, defined uint32) error {
	p := r.page
	for ; r.row <= row; r.row++ {
		n, err := p.defs.count(r.from, r.to, defined)
		if err != nil {
			return err
		}
		r.values += n
		if r.from = r.to; r.from >= p.levels {
			return errPage
		}
		if first, err := p.reps.at(r.from); err != nil || first != 0 {
			return errPage
		}
		if r.to, err = p.reps.zero(r.from+1, p.levels); err != nil {
			return err
		}
	}
	return nil
}

// put makes rows the list that r has come to.
func (c *listCells) put(r *listRow, values *lookup, at []int32) error {
	// Definition levels are read twice, here and when r goes on, so this is a copy.
	defs, n := r.page.defs, r.to-r.from
	first, err := defs.at(r.from)
	if err != nil {
		return err
	}
	if int(first) < int(c.list) {
		switch {
		case n > 1:
			return errPage
		case int(first) < int(c.list)-1:
			c.null(at)
			return nil
		}
		n = 0
	}
	if n > math.MaxInt32-c.used {
		return tooLong()
	}
	size := c.stored
	if need := (c.used + n) * size; need > c.elements.Len() {
		c.elements.Resize(max(2*c.elements.Len(), need))
	}
	out := c.elements.Bytes()[c.used*size:][:n*size]
	counting := defs
	present, err := counting.count(r.from, r.from+n, uint32(c.defined))
	if err != nil {
		return err
	}
	if b, ok := values.run(r.values, r.values+n); ok && present == n {
		copy(out, b)
	} else {
		value := r.values
		for k := range n {
			d, err := defs.at(r.from + k)
			if err != nil || int(d) < int(c.list) || int(d) > int(c.defined) {
				return errPage
			}
			if int(d) < int(c.defined) {
				clear(out[k*size:][:size])
				c.miss(c.used + k)
				continue
			}
			v, err := values.value(value)
			if err != nil {
				return err
			}
			copy(out[k*size:][:size], v)
			value++
		}
	}
	for _, i := range at {
		c.places[i] = stretch{int32(c.used), int32(c.used + n)}
	}
	c.used += n
	return nil
}

// miss makes an element NULL.
func (c *listCells) miss(i int) {
	for len(c.missing) <= i/8 {
		c.missing = append(c.missing, 0)
	}
	bitutil.SetBit(c.missing, i)
}

func (c *listCells) release() {
	c.elements.Release()
	if c.valid != nil {
		c.valid.Release()
	}
}

// array hands the column out.
func (c *listCells) array(t *arrow.ListType) (arrow.Array, error) {
	ends, ordered, err := offsets(c.mem, c.places)
	if err != nil {
		return nil, err
	}
	defer ends.Release()
	at := arrow.Int32Traits.CastFromBytes(ends.Bytes())
	total, size := int(at[c.rows]), c.stored
	elements := c.elements
	if ordered {
		elements.Resize(total * size)
	} else {
		elements = memory.NewResizableBuffer(c.mem)
		defer elements.Release()
		elements.Resize(total * size)
		for i, p := range c.places {
			copy(elements.Bytes()[int(at[i])*size:], c.elements.Bytes()[int(p.from)*size:int(p.to)*size])
		}
	}
	var valid *memory.Buffer
	nulls := 0
	if c.missing != nil {
		valid = memory.NewResizableBuffer(c.mem)
		defer valid.Release()
		valid.Resize(int(bitutil.BytesForBits(int64(total))))
		bitutil.SetBitsTo(valid.Bytes(), 0, int64(total), true)
		for i, p := range c.places {
			for k := p.from; k < p.to && int(k/8) < len(c.missing); k++ {
				if bitutil.BitIsSet(c.missing, int(k)) {
					bitutil.ClearBit(valid.Bytes(), int(at[i]+k-p.from))
					nulls++
				}
			}
		}
	}
	child := array.NewData(t.Elem(), total, []*memory.Buffer{valid, elements}, nil, nulls, 0)
	defer child.Release()
	d := array.NewData(t, c.rows, []*memory.Buffer{c.valid, ends}, []arrow.ArrayData{child}, c.nulls, 0)
	defer d.Release()
	return array.MakeFromData(d), nil
}

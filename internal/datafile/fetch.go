package datafile

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/errs"
)

// How Fetch reads a column of a row group.
type fetchMode uint8

const (
	// scanRows reads from the start of the row group: no page index, or lists whose pages need not begin at rows.
	scanRows fetchMode = iota
	// ownPages decodes the pages that hold wanted rows here: see ownCells.
	ownPages
	// pickPages lets the library read exactly the pages that hold wanted rows, found by the page index.
	pickPages
	// seekRows lets the library seek. Columns of several leaves need it, because their pages begin at different rows and
	// must be read from the same one.
	seekRows
)

const (
	// nearRows is the distance between two wanted rows up to which seekRows reads on rather than seeks anew.
	nearRows = 256
	// pickBytes is what the library decodes at once while looking for rows.
	pickBytes = 8 << 20
	// fetchBuffer is what the library reads at once of a page.
	fetchBuffer = 16 << 10
	// headBytes is enough of a page to read its header, statistics included, in almost all files.
	headBytes = 1 << 10
)

// Fetch gives the rows at the positions, in the order of the positions and as often as they are named, with the named
// top-level columns in the order asked for; nil means all. A position outside the file is Invalid, a name that it lacks
// NotFound.
//
// With a page index the store is asked at most twice, each time for all ranges at once: for the indexes of the row groups
// concerned, and for the pages. What has no index is read from the start of its row group.
func (f *File) Fetch(ctx context.Context, positions []int64, names []string) (_ arrow.RecordBatch, err error) {
	defer guard(errs.Corrupt, "datafile.fetch", &err)
	cols, err := f.columns(names)
	if err != nil {
		return nil, err
	}
	w, err := f.fetcher(ctx, positions, cols)
	if err != nil {
		return nil, err
	}
	defer w.d.free()
	arrays := make([]arrow.Array, len(cols))
	defer releaseAll(arrays)
	for i := range cols {
		if arrays[i], err = w.column(i); err != nil {
			return nil, w.s.src.failure("datafile.fetch", err)
		}
	}
	return array.NewRecordBatch(f.project(cols), arrays, int64(len(positions))), nil
}

// fetcher makes ready to fetch: it has the bytes of all pages. Its desk has to be freed.
func (f *File) fetcher(ctx context.Context, positions []int64, cols []int) (*fetcher, error) {
	w := &fetcher{ctx: ctx, f: f, cols: cols, s: f.session(ctx)}
	w.sort(positions)
	if n := len(w.sorted); n > 0 && (w.sorted[0] < 0 || w.sorted[n-1] >= f.Rows()) {
		out := w.sorted[0]
		if out >= 0 {
			out = w.sorted[n-1]
		}
		return nil, errs.Newf(errs.Invalid, "datafile.fetch", "position %d is outside of the file's %d rows", out, f.Rows())
	}
	if err := ctx.Err(); err != nil {
		return nil, errs.Wrap(errs.Canceled, "datafile.fetch", err)
	}
	w.s.mem.begin()
	w.d = desks.Get().(*desk)
	w.keep(len(w.sorted))
	w.divide()
	if err := w.plan(); err != nil {
		w.d.free()
		return nil, w.s.src.failure("datafile.fetch", err)
	}
	return w, nil
}

// groupRows are wanted rows of one row group, counted from its first, ascending, each once.
type groupRows struct {
	group  int
	from   int // the place of the first among all sorted rows
	rows   []int64
	modes  []fetchMode // by column
	places [][][]place // by column and leaf, unless it is scanned
	runs   [][]run     // by column that the library reads: what to read of it, in order
}

// run is a stretch of a column that the library reads in one go.
type run struct {
	mode  fetchMode
	group int   // of the session's files: pages that are picked pose as row groups of their own
	first int64 // the row that reading begins at
	rows  []int64
}

type fetcher struct {
	ctx  context.Context
	f    *File
	s    *session
	cols []int
	// Sorted position k goes to the rows slots[ends[k-1]:ends[k]] of the result.
	sorted  []int64
	slots   []int32
	ends    []int32
	ordered bool // the positions were asked for as they are in sorted
	parts   []groupRows
	pages   *pretence
	d       *desk
	k       keeping
}

// sort sorts the positions and remembers where each belongs.
func (w *fetcher) sort(positions []int64) {
	w.slots = make([]int32, len(positions))
	for i := range w.slots {
		w.slots[i] = int32(i)
	}
	if !slices.IsSorted(positions) {
		slices.SortFunc(w.slots, func(a, b int32) int { return cmp.Or(cmp.Compare(positions[a], positions[b]), cmp.Compare(a, b)) })
	}
	w.sorted, w.ends = make([]int64, 0, len(positions)), make([]int32, 0, len(positions))
	w.ordered = true
	for i, slot := range w.slots {
		p := positions[slot]
		if n := len(w.sorted); n == 0 || w.sorted[n-1] != p {
			w.sorted, w.ends = append(w.sorted, p), append(w.ends, 0)
		}
		w.ends[len(w.ends)-1] = int32(i + 1)
		w.ordered = w.ordered && int(slot) == i && len(w.sorted) == i+1
	}
}

// slotsOf are the rows of the result that a sorted position goes to.
func (w *fetcher) slotsOf(k int) []int32 {
	from := int32(0)
	if k > 0 {
		from = w.ends[k-1]
	}
	return w.slots[from:w.ends[k]]
}

// divide divides the sorted positions among the row groups.
func (w *fetcher) divide() {
	f := w.f
	rows := make([]int64, len(w.sorted))
	for at := 0; at < len(w.sorted); {
		g := sort.Search(len(f.groups), func(g int) bool { return f.groups[g].First+f.groups[g].Rows > w.sorted[at] })
		rg, from := f.groups[g], at
		for ; at < len(w.sorted) && w.sorted[at] < rg.First+rg.Rows; at++ {
			rows[at] = w.sorted[at] - rg.First
		}
		w.parts = append(w.parts, groupRows{group: g, from: from, rows: rows[from:at], modes: make([]fetchMode, len(w.cols)),
			places: make([][][]place, len(w.cols)), runs: make([][]run, len(w.cols))})
	}
}

// plan decides how every column is read, and fetches the bytes for it.
func (w *fetcher) plan() error {
	f := w.f
	var heads []span
	for _, p := range w.parts {
		for _, c := range w.cols {
			for i := f.leafAt[c]; i < f.leafAt[c+1]; i++ {
				k := f.chunks[p.group][i]
				if k.index == 0 || w.directoryAt(k.index) != nil {
					continue
				}
				heads = append(heads, span{k.index, k.index + k.indexLen})
				if f.md.Schema.Column(i).MaxRepetitionLevel() > 0 {
					heads = append(heads, span{k.data, min(k.data+headBytes, k.end)})
				}
			}
		}
	}
	if err := w.s.src.prefetch(heads, &w.d.heads); err != nil {
		return err
	}
	w.pages = &pretence{f: f, groups: len(f.groups), free: map[int]int{}, next: farAway}
	var pages []span
	for i, c := range w.cols {
		own := true
		for pi := range w.parts {
			p := &w.parts[pi]
			var err error
			if p.modes[i], p.places[i], err = w.mode(p.group, c); err != nil {
				return err
			}
			own = own && p.modes[i] == ownPages
		}
		for pi := range w.parts {
			p := &w.parts[pi]
			if p.modes[i] == ownPages && !own { // a column is read in one way
				p.modes[i] = w.libraryMode(c)
			}
			switch p.modes[i] {
			case scanRows:
				p.runs[i] = []run{{mode: scanRows, group: p.group, rows: p.rows}}
			case seekRows:
				for at := 0; at < len(p.rows); {
					from := at
					for at++; at < len(p.rows) && p.rows[at]-p.rows[at-1] <= nearRows; at++ {
					}
					p.runs[i] = append(p.runs[i], run{mode: seekRows, group: p.group, first: p.rows[from], rows: p.rows[from:at]})
				}
				for k := range p.places[i] {
					pages = append(pages, soughtSpans(f.chunks[p.group][f.leafAt[c]+k], p.places[i][k], p.runs[i])...)
				}
			case pickPages:
				p.runs[i] = w.pages.pick(p.group, f.leafAt[c], p.places[i][0], p.rows)
			case ownPages:
				for k := range p.places[i] {
					pages = w.ownSpans(pages, f.chunks[p.group][f.leafAt[c]+k], p.places[i][k], p.rows)
				}
			}
		}
	}
	for _, m := range w.pages.maps {
		pages = append(pages, m.parts...)
	}
	return w.s.src.prefetch(pages, &w.d.pages)
}

// soughtSpans is what the library will read of a leaf on its way to runs of rows: the index again, the dictionary, the pages
// of every run, the page behind them, where the end of the last list shows, and what its buffer reads too much.
func soughtSpans(k chunk, places []place, runs []run) []span {
	out := []span{{k.index, k.index + k.indexLen}, {k.start, k.data}}
	for _, r := range runs {
		end := min(pageOf(places, r.rows[len(r.rows)-1])+1, len(places)-1)
		out = append(out, span{places[pageOf(places, r.first)].from, min(places[end].to+fetchBuffer, k.end)})
	}
	return out
}

// mode says how to read a column of a row group, with the places of the pages of every leaf unless it is scanned.
func (w *fetcher) mode(group, col int) (fetchMode, [][]place, error) {
	f := w.f
	var all [][]place
	for i := f.leafAt[col]; i < f.leafAt[col+1]; i++ {
		k := f.chunks[group][i]
		if k.index == 0 {
			return scanRows, nil, nil
		}
		lists := f.md.Schema.Column(i).MaxRepetitionLevel() > 0
		l, err := w.directory(k, f.groups[group].Rows, lists)
		if err != nil || len(l.places) == 0 || lists && !l.v2 {
			return scanRows, nil, err
		}
		all = append(all, l.places)
	}
	own := true
	for i := f.leafAt[col]; i < f.leafAt[col+1]; i++ {
		own = own && f.cells[i].kind != foreignCells && inflates(f.chunks[group][i].codec)
	}
	if own {
		return ownPages, all, nil
	}
	return w.libraryMode(col), all, nil
}

// directory finds the pages of a leaf.
func (w *fetcher) directory(k chunk, rows int64, lists bool) (*directory, error) {
	if l := w.directoryAt(k.index); l != nil {
		return l, nil
	}
	l := &directory{}
	var err error
	if l.places, err = w.s.src.places(k, rows); err != nil {
		return nil, err
	}
	if lists && len(l.places) > 0 {
		b := make([]byte, min(headBytes, k.end-k.data))
		n, err := w.s.src.ReadAt(b, k.data)
		if n < len(b) {
			return l, err
		}
		h, err := parsePageHeader(b)
		l.v2 = err == nil && h.kind == dataPageV2
	}
	w.keepDirectory(k.index, l)
	return l, nil
}

// libraryMode is how the library reads a column whose pages are known.
func (w *fetcher) libraryMode(col int) fetchMode {
	if w.f.leafAt[col+1]-w.f.leafAt[col] > 1 {
		return seekRows
	}
	return pickPages
}

// place is where a page lies and which row it begins at.
type place struct {
	span
	row int64
}

// places reads an offset index. It gives none when the index is not one that can be followed: the pages have to lie in the
// chunk one after the other and to begin at ascending rows, the first at row 0.
func (s *source) places(k chunk, rows int64) ([]place, error) {
	b, err := s.view(span{k.index, k.index + k.indexLen})
	if err != nil {
		return nil, err
	}
	out := parsePlaces(b)
	for i, p := range out {
		if p.from < k.data || p.to > k.end || p.to <= p.from {
			return nil, nil
		}
		if i == 0 && p.row != 0 || i > 0 && (p.row <= out[i-1].row || p.from < out[i-1].to) || p.row >= rows {
			return nil, nil
		}
	}
	return out, nil
}

// parsePlaces reads the page locations of an offset index, or gives none.
func parsePlaces(b []byte) []place {
	w := &thriftWalk{b: b}
	// OffsetIndex { 1: list<PageLocation> }, so: field 1 of type list, then its elements, which are structs.
	if head, err := w.byte(); err != nil || head != 1<<4|thriftList {
		return nil
	}
	head, err := w.byte()
	if err != nil || head&15 != thriftStruct {
		return nil
	}
	n := uint64(head >> 4)
	if n == 15 {
		if n, err = w.varint(); err != nil {
			return nil
		}
	}
	if n > uint64(len(b)-w.at) { // no location is shorter than a byte
		return nil
	}
	out := make([]place, 0, min(n, uint64(len(b)/7)+1)) // few are shorter than 7
	for range n {
		p, err := w.place()
		if err != nil {
			return nil
		}
		out = append(out, p)
	}
	return out
}

// place reads PageLocation { 1: i64 offset, 2: i32 size, 3: i64 first row }. Writers write it in this order, which is read
// without the detour over field ids: a file has many of them.
func (w *thriftWalk) place() (p place, err error) {
	var size int64
	if at := w.at; !w.field(thriftI64, &p.from) || !w.field(thriftI32, &size) || !w.field(thriftI64, &p.row) || !w.end() {
		w.at, p, size = at, place{}, 0
		err = w.structure(1, func(id int16, v int64) {
			switch id {
			case 1:
				p.from = v
			case 2:
				size = v
			case 3:
				p.row = v
			}
		}, nil)
	}
	if err != nil || p.from < 0 || size < 0 || p.from+size < 0 {
		return p, errThrift
	}
	p.to = p.from + size
	return p, nil
}

// column gives a column of the result.
func (w *fetcher) column(i int) (arrow.Array, error) {
	if len(w.parts) == 0 {
		b := array.NewBuilder(w.s.mem, w.f.schema.Field(w.cols[i]).Type)
		defer b.Release()
		return b.NewArray(), nil
	}
	if w.parts[0].modes[i] == ownPages {
		a, err := w.pick(i)
		if !errors.Is(err, errPage) {
			return a, err
		}
		// What is not decoded here, broken pages too, the library shall judge, without help of an index that may be wrong.
		for pi := range w.parts {
			p := &w.parts[pi]
			p.runs[i] = []run{{mode: scanRows, group: p.group, rows: p.rows}}
		}
	}
	if w.s.fr == nil {
		if err := w.s.open(fetchBuffer); err != nil {
			return nil, err
		}
		if err := w.s.pretend(w.pages); err != nil {
			return nil, err
		}
	}
	a, err := w.gather(i)
	if err != nil || w.ordered {
		return a, err
	}
	defer a.Release()
	return w.reorder(a)
}

// gather lets the library read the wanted rows of one column, sorted by position.
func (w *fetcher) gather(i int) (arrow.Array, error) {
	var kept []arrow.Array
	defer func() { releaseAll(kept) }()
	step := w.f.window(w.cols[i:i+1], pickBytes)
	for _, p := range w.parts {
		for _, r := range p.runs[i] {
			more, err := w.read(w.cols[i], r, min(step, defaultBatch))
			kept = append(kept, more...)
			if err != nil {
				return nil, err
			}
		}
	}
	if len(kept) == 1 {
		kept[0].Retain()
		return kept[0], nil
	}
	return array.Concatenate(kept, w.s.mem)
}

// read reads one run step by step and keeps the wanted rows.
func (w *fetcher) read(col int, r run, step int64) (kept []arrow.Array, err error) {
	c, err := w.s.column(w.ctx, w.f, col, []int{r.group})
	if err != nil {
		return nil, err
	}
	defer c.Release()
	if r.mode == seekRows {
		if err := c.SeekToRow(r.first); err != nil {
			return nil, err
		}
	}
	last := r.rows[len(r.rows)-1]
	at, k := r.first, 0
	for at <= last {
		if err := w.ctx.Err(); err != nil {
			return kept, errs.Wrap(errs.Canceled, "datafile.fetch", err)
		}
		n := min(step, last+1-at)
		a, err := w.s.next(c, n)
		if err != nil {
			return kept, err
		}
		var slices []arrow.Array
		for k < len(r.rows) && r.rows[k] < at+n {
			from := k
			for k++; k < len(r.rows) && r.rows[k] < at+n && r.rows[k] == r.rows[k-1]+1; k++ {
			}
			slices = append(slices, array.NewSlice(a, r.rows[from]-at, r.rows[k-1]+1-at))
		}
		if len(slices) > 0 {
			// A copy, so that a row does not keep the step alive.
			copied, err := array.Concatenate(slices, w.s.mem)
			releaseAll(slices)
			if err != nil {
				a.Release()
				return kept, err
			}
			kept = append(kept, copied)
		}
		a.Release()
		at += n
	}
	return kept, nil
}

// reorder puts the rows of a column, which are those of the sorted positions, to where they belong.
func (w *fetcher) reorder(a arrow.Array) (arrow.Array, error) {
	from := make([]int64, len(w.slots))
	for k := range w.sorted {
		for _, slot := range w.slotsOf(k) {
			from[slot] = int64(k)
		}
	}
	var slices []arrow.Array
	defer func() { releaseAll(slices) }()
	for i := 0; i < len(from); {
		n := 1
		for i+n < len(from) && from[i+n] == from[i]+int64(n) {
			n++
		}
		slices = append(slices, array.NewSlice(a, from[i], from[i]+int64(n)))
		i += n
	}
	out, err := array.Concatenate(slices, w.s.mem)
	return out, wrap(errs.Internal, "datafile.fetch", err)
}

func pageOf(places []place, row int64) int {
	return sort.Search(len(places), func(i int) bool { return places[i].row > row }) - 1
}

package datafile

import (
	"context"
	"slices"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/overlakedb/overlake/internal/errs"
)

// How Fetch reads a column of a row group.
type fetchMode uint8

const (
	// scanRows reads from the start of the row group: no page index, or lists whose pages need not begin at rows.
	scanRows fetchMode = iota
	// pickPages reads exactly the pages that hold wanted rows, found by the page index.
	pickPages
	// seekRows lets the library seek. Columns of several leaves need it, because their pages begin at different rows and
	// must be read from the same one.
	seekRows
)

const (
	// nearRows is the distance between two wanted rows up to which seekRows reads on rather than seeks anew.
	nearRows = 256
	// pickBytes is what is decoded at once while looking for rows.
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
	sorted := slices.Clone(positions)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	if n := len(sorted); n > 0 && (sorted[0] < 0 || sorted[n-1] >= f.Rows()) {
		out := sorted[0]
		if out >= 0 {
			out = sorted[n-1]
		}
		return nil, errs.Newf(errs.Invalid, "datafile.fetch", "position %d is outside of the file's %d rows", out, f.Rows())
	}
	if err := ctx.Err(); err != nil {
		return nil, errs.Wrap(errs.Canceled, "datafile.fetch", err)
	}
	w := &fetcher{ctx: ctx, f: f, cols: cols}
	if len(sorted) == 0 {
		return w.empty(), nil
	}
	if w.s, err = f.session(ctx, fetchBuffer); err != nil {
		return nil, err
	}
	w.s.mem.begin()
	for at := 0; at < len(sorted); {
		g := sort.Search(len(f.groups), func(g int) bool { return f.groups[g].First+f.groups[g].Rows > sorted[at] })
		rg, from := f.groups[g], at
		for at < len(sorted) && sorted[at] < rg.First+rg.Rows {
			at++
		}
		rows := make([]int64, at-from)
		for i, p := range sorted[from:at] {
			rows[i] = p - rg.First
		}
		w.parts = append(w.parts, groupRows{group: g, rows: rows})
	}
	arrays := make([]arrow.Array, len(cols))
	defer releaseAll(arrays)
	if err := w.plan(); err != nil {
		return nil, w.s.src.failure("datafile.fetch", err)
	}
	for i := range cols {
		if arrays[i], err = w.column(i); err != nil {
			return nil, w.s.src.failure("datafile.fetch", err)
		}
	}
	if !slices.Equal(sorted, positions) {
		for i := range arrays {
			ordered, err := w.reorder(arrays[i], sorted, positions)
			if err != nil {
				return nil, err
			}
			arrays[i].Release()
			arrays[i] = ordered
		}
	}
	return array.NewRecordBatch(f.project(cols), arrays, int64(len(positions))), nil
}

// groupRows are wanted rows of one row group, counted from its first.
type groupRows struct {
	group int
	rows  []int64
	runs  [][]run // by column: what to read of it, in order
}

// run is a stretch of a column that is read in one go.
type run struct {
	mode  fetchMode
	group int   // of the session's files: pages that are picked pose as row groups of their own
	first int64 // the row that reading begins at
	rows  []int64
}

type fetcher struct {
	ctx   context.Context
	f     *File
	s     *session
	cols  []int
	parts []groupRows
}

// plan decides how every column is read, and fetches the bytes for it.
func (w *fetcher) plan() error {
	f := w.f
	var heads []span
	for _, p := range w.parts {
		for _, c := range w.cols {
			for i := f.leafAt[c]; i < f.leafAt[c+1]; i++ {
				k := f.chunks[p.group][i]
				if k.index == 0 {
					continue
				}
				heads = append(heads, span{k.index, k.index + k.indexLen})
				if f.md.Schema.Column(i).MaxRepetitionLevel() > 0 {
					heads = append(heads, span{k.data, min(k.data+headBytes, k.end)})
				}
			}
		}
	}
	if err := w.s.src.prefetch(heads); err != nil {
		return err
	}
	v := &pretence{f: f, groups: len(f.groups), free: map[int]int{}, next: farAway}
	var pages []span
	for pi := range w.parts {
		p := &w.parts[pi]
		p.runs = make([][]run, len(w.cols))
		for i, c := range w.cols {
			mode, places, err := w.mode(p.group, c)
			if err != nil {
				return err
			}
			switch mode {
			case scanRows:
				p.runs[i] = []run{{mode: mode, group: p.group, rows: p.rows}}
			case seekRows:
				for at := 0; at < len(p.rows); {
					from := at
					for at++; at < len(p.rows) && p.rows[at]-p.rows[at-1] <= nearRows; at++ {
					}
					p.runs[i] = append(p.runs[i], run{mode: mode, group: p.group, first: p.rows[from], rows: p.rows[from:at]})
				}
				for k := range places {
					pages = append(pages, soughtSpans(f.chunks[p.group][f.leafAt[c]+k], places[k], p.runs[i])...)
				}
			case pickPages:
				p.runs[i] = v.pick(p.group, f.leafAt[c], places[0], p.rows)
			}
		}
	}
	for _, m := range v.maps {
		pages = append(pages, m.parts...)
	}
	if err := w.s.src.prefetch(pages); err != nil {
		return err
	}
	return w.s.pretend(v)
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
		places, err := w.s.src.places(k, f.groups[group].Rows)
		if err != nil || len(places) == 0 {
			return scanRows, nil, err
		}
		all = append(all, places)
		if f.md.Schema.Column(i).MaxRepetitionLevel() > 0 {
			b := make([]byte, min(headBytes, k.end-k.data))
			n, err := w.s.src.ReadAt(b, k.data)
			if n < len(b) {
				return scanRows, nil, err
			}
			if h, err := parsePageHeader(b); err != nil || h.kind != dataPageV2 {
				return scanRows, nil, nil
			}
		}
	}
	if f.leafAt[col+1]-f.leafAt[col] > 1 {
		return seekRows, all, nil
	}
	return pickPages, all, nil
}

// place is where a page lies and which row it begins at.
type place struct {
	span
	row int64
}

// places reads an offset index. It gives none when the index is not one that can be followed: the pages have to lie in the
// chunk one after the other and to begin at ascending rows, the first at row 0.
func (s *source) places(k chunk, rows int64) ([]place, error) {
	b := make([]byte, k.indexLen)
	if n, err := s.ReadAt(b, k.index); n < len(b) {
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
	var out []place
	w := &thriftWalk{b: b}
	if w.structure(0, nil, nil) != nil { // counts fit, depth is bounded: what follows may trust the bytes
		return nil
	}
	// OffsetIndex { 1: list<PageLocation> }, so: field 1 of type list, then its elements, which are structs.
	w.at = 0
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
	for range n {
		var p place
		var size int64
		err := w.structure(1, func(id int16, v int64) {
			switch id {
			case 1:
				p.from = v
			case 2:
				size = v
			case 3:
				p.row = v
			}
		}, nil)
		if err != nil || p.from < 0 || size < 0 || p.from+size < 0 {
			return nil
		}
		p.to = p.from + size
		out = append(out, p)
	}
	return out
}

// column gathers the wanted rows of one column, sorted by position.
func (w *fetcher) column(i int) (arrow.Array, error) {
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

// reorder puts the rows of a column, which are those of sorted, into the order of positions.
func (w *fetcher) reorder(a arrow.Array, sorted, positions []int64) (arrow.Array, error) {
	var slices []arrow.Array
	defer func() { releaseAll(slices) }()
	for i := 0; i < len(positions); {
		at := sort.Search(len(sorted), func(k int) bool { return sorted[k] >= positions[i] })
		n := 1
		for i+n < len(positions) && at+n < len(sorted) && positions[i+n] == sorted[at+n] {
			n++
		}
		slices = append(slices, array.NewSlice(a, int64(at), int64(at+n)))
		i += n
	}
	out, err := array.Concatenate(slices, w.s.mem)
	return out, wrap(errs.Internal, "datafile.fetch", err)
}

func (w *fetcher) empty() arrow.RecordBatch {
	b := array.NewRecordBuilder(w.f.limits.Allocator, w.f.project(w.cols))
	defer b.Release()
	return b.NewRecordBatch()
}

// pretence is a file that the library is made to see: after the row groups of the real one come groups that consist of
// nothing but picked pages, each column's dictionary before them. The k-th of these holds the k-th run of every column. Their
// bytes have addresses from far behind the end of the real file, and source leads these to where the bytes are.
//
// So the library reads every run from the start of a chunk to its end, which it does right for every kind of column, while
// only the pages that matter are read and decoded.
type pretence struct {
	f      *File
	groups int         // so far, real ones included
	free   map[int]int // by leaf: the first group that has no run of it yet
	swaps  []swap
	maps   []mapped
	next   int64 // the first address that is free
}

// swap puts a mapped chunk into a pretended group.
type swap struct {
	group, leaf int
	real        int // the real row group that the chunk is of
	m           mapped
	dictionary  bool
}

// mapped are parts of the real file under consecutive addresses.
type mapped struct {
	span
	parts []span
}

// farAway is the first pretended address; no file is that long.
const farAway = int64(1) << 56

// pick makes runs of consecutive pages that hold wanted rows of a leaf.
func (v *pretence) pick(group, leaf int, places []place, rows []int64) []run {
	k := v.f.chunks[group][leaf]
	var out []run
	for at := 0; at < len(rows); {
		first := pageOf(places, rows[at])
		end := first
		from := at
		for at < len(rows) {
			p := pageOf(places, rows[at])
			if p > end+1 {
				break
			}
			end = p
			at++
		}
		m := mapped{parts: []span{{places[first].from, places[end].to}}}
		dictionary := k.start < k.data
		if dictionary {
			m.parts = slices.Insert(m.parts, 0, span{k.start, k.data})
		}
		m.from = v.next
		m.to = m.from
		for _, p := range m.parts {
			m.to += p.to - p.from
		}
		v.next = m.to + 1<<10 // some versions of the format look behind the end of a chunk
		g := max(v.free[leaf], len(v.f.groups))
		v.free[leaf] = g + 1
		v.groups = max(v.groups, g+1)
		v.swaps = append(v.swaps, swap{group: g, leaf: leaf, real: group, m: m, dictionary: dictionary})
		v.maps = append(v.maps, m)
		out = append(out, run{mode: pickPages, group: g, first: places[first].row, rows: rows[from:at]})
	}
	return out
}

func pageOf(places []place, row int64) int {
	return sort.Search(len(places), func(i int) bool { return places[i].row > row }) - 1
}

// pretend makes the session's library see the pretence.
func (s *session) pretend(v *pretence) error {
	if len(v.swaps) == 0 {
		return nil
	}
	md := *v.f.md
	footer := *v.f.md.FileMetaData
	footer.RowGroups = slices.Clone(footer.RowGroups)
	for len(footer.RowGroups) < v.groups {
		g := *v.f.md.RowGroups[v.swaps[0].real]
		g.Columns = slices.Clone(g.Columns)
		footer.RowGroups = append(footer.RowGroups, &g)
	}
	for _, x := range v.swaps {
		c := *v.f.md.RowGroups[x.real].Columns[x.leaf]
		m := *c.MetaData
		m.DataPageOffset, m.DictionaryPageOffset = x.m.from, nil
		if x.dictionary {
			from := x.m.from
			m.DictionaryPageOffset = &from
			m.DataPageOffset = from + x.m.parts[0].to - x.m.parts[0].from
		}
		m.TotalCompressedSize = x.m.to - x.m.from
		c.MetaData = &m
		c.OffsetIndexOffset, c.OffsetIndexLength, c.ColumnIndexOffset, c.ColumnIndexLength = nil, nil, nil, nil
		footer.RowGroups[x.group].Columns[x.leaf] = &c
	}
	md.FileMetaData = &footer
	md.SetSourceFileSize(v.next)
	s.src.maps = v.maps
	pr, err := file.NewParquetReader(s.src, file.WithReadProps(s.props), file.WithMetadata(&md))
	if err != nil {
		return err
	}
	fr, err := pqarrow.NewFileReader(pr, pqarrow.ArrowReadProperties{}, s.mem)
	if err != nil {
		return err
	}
	fr.Manifest = s.fr.Manifest
	s.pr, s.fr = pr, fr
	return nil
}

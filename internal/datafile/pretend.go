package datafile

import (
	"slices"

	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

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
		// Some writers do not say that there is a dictionary: it is what lies before the first page.
		dictionary := k.start < places[0].from
		if dictionary {
			m.parts = slices.Insert(m.parts, 0, span{k.start, places[0].from})
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

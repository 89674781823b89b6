// Package row answers: which rows?
//
// An Addr names one row by the ordinal of its data file in a scan's file list and its position in that file. A Bitmap is
// a set of positions of one file: deleted rows, or rows that an index allows. A Set holds a Bitmap for each of several
// files. A Hit is a row with a score; Hits have one deterministic order in each direction, so that equal scores never
// make an answer depend on how the work was split.
//
// Positions count from 0. A negative position is no row: adding it does nothing and no set contains it. A decoder that
// meets one in outside bytes reports it as corrupt before it comes here.
package row

import (
	"cmp"
	"iter"
	"maps"
	"slices"
)

// Addr is the address of a row inside a scan.
type Addr struct {
	File uint32 // ordinal of the data file in the scan's file list
	Pos  int64  // position in the file, from 0
}

// Compare orders addresses by file, then position.
func (a Addr) Compare(b Addr) int {
	if c := cmp.Compare(a.File, b.File); c != 0 {
		return c
	}
	return cmp.Compare(a.Pos, b.Pos)
}

// Set is a set of rows of several files. The zero value is empty and ready; the nil *Set is empty for every reading
// method. A Set is safe for concurrent reading.
type Set struct{ files map[uint32]*Bitmap }

// Get returns the positions of a file; nil, which is an empty set, when none were put. The Bitmap is the Set's own.
func (s *Set) Get(file uint32) *Bitmap {
	if s == nil {
		return nil
	}
	return s.files[file]
}

// Put makes b the positions of a file; nil removes the file. The Set keeps b itself, not a copy.
func (s *Set) Put(file uint32, b *Bitmap) {
	if b == nil {
		delete(s.files, file)
		return
	}
	if s.files == nil {
		s.files = map[uint32]*Bitmap{}
	}
	s.files[file] = b
}

// Add puts one row into the set.
func (s *Set) Add(a Addr) {
	b := s.Get(a.File)
	if b == nil {
		b = NewBitmap()
		s.Put(a.File, b)
	}
	b.Add(a.Pos)
}

// Contains reports whether a row is in the set.
func (s *Set) Contains(a Addr) bool { return s.Get(a.File).Contains(a.Pos) }

// Len is the number of rows in all files.
func (s *Set) Len() int64 {
	var n int64
	if s != nil {
		for _, b := range s.files {
			n += b.Len()
		}
	}
	return n
}

// Files yields every file that was put with its positions, by ascending ordinal, also files with an empty Bitmap.
func (s *Set) Files() iter.Seq2[uint32, *Bitmap] {
	return func(yield func(uint32, *Bitmap) bool) {
		if s == nil {
			return
		}
		for _, file := range slices.Sorted(maps.Keys(s.files)) {
			if !yield(file, s.files[file]) {
				return
			}
		}
	}
}

// Hit is a row with a score.
type Hit struct {
	Addr
	Score float32
}

// Hits is a ranked list.
type Hits []Hit

// SortDescending orders by score, highest first, as similarities rank; equal scores by file, then position; NaN last.
func (h Hits) SortDescending() { slices.SortFunc(h, CompareDescending) }

// SortAscending orders by score, lowest first, as distances rank; equal scores by file, then position; NaN last.
func (h Hits) SortAscending() { slices.SortFunc(h, CompareAscending) }

// CompareDescending is the order of SortDescending: negative when a ranks before b.
func CompareDescending(a, b Hit) int {
	if c := cmp.Compare(b.Score, a.Score); c != 0 { // cmp puts NaN lowest, so here last
		return c
	}
	return a.Addr.Compare(b.Addr)
}

// CompareAscending is the order of SortAscending: negative when a ranks before b.
func CompareAscending(a, b Hit) int {
	aNaN, bNaN := a.Score != a.Score, b.Score != b.Score
	switch {
	case aNaN && !bNaN:
		return 1
	case bNaN && !aNaN:
		return -1
	}
	if c := cmp.Compare(a.Score, b.Score); c != 0 {
		return c
	}
	return a.Addr.Compare(b.Addr)
}

// Better reports whether a comes before b in the descending order.
func Better(a, b Hit) bool { return CompareDescending(a, b) < 0 }

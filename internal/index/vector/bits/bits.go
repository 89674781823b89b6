// Package bits answers: which bit strings are nearest, when all of them are looked at?
//
// A bit string is a row of packed bytes (package vec says how they are packed), filled up with zeros to a multiple of 8
// bytes. A search compares every row that may be a hit: that is a few nanoseconds a row, so up to some millions of rows
// nothing that skips rows is faster, and nothing that skips rows finds all of them. Rows are known by their position in the
// artifact.
//
//	B1  Distances are those of vec.Hamming and vec.Jaccard, to the last bit.
//	B2  Hits ascend by distance, then by position; there are K of them whenever K rows may be hits.
package bits

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/kernel"
)

// The sections: uint32 positions, ascending; the rows, one behind the other.
const (
	Positions section.Kind = 20
	Rows      section.Kind = 21
)

// Width is the number of bytes of a row of n bits.
func Width(n int) int { return (n + 63) / 64 * 8 }

// Write writes rows of Width(n) bytes. Positions ascend.
func Write(w *section.Writer, positions []uint32, rows []byte) error {
	w.Begin(Positions)
	w.Write(section.Bytes(positions))
	w.Begin(Rows)
	w.Write(rows)
	return w.Err()
}

// Index is an opened index. It is safe for concurrent use.
type Index struct {
	metric    vec.Metric
	width     int
	positions []uint32
	rows      []byte
}

// Open opens the sections of an artifact whose positions are below rows, with n bits a row.
func Open(ctx context.Context, f *section.File, metric vec.Metric, n int, rows int64) (*Index, error) {
	const op = "bits.open"
	if metric != vec.MetricHamming && metric != vec.MetricJaccard {
		return nil, errs.Newf(errs.Unsupported, op, "bit strings have no distance %s", metric)
	}
	x := &Index{metric: metric, width: Width(n)}
	b, err := f.Load(ctx, Positions)
	if err != nil {
		return nil, err
	}
	if x.positions, err = section.View[uint32](b); err != nil {
		return nil, err
	}
	if x.rows, err = f.Load(ctx, Rows); err != nil {
		return nil, err
	}
	if n < 1 || len(x.rows)%x.width != 0 || len(x.rows)/x.width != len(x.positions) {
		return nil, errs.Newf(errs.Corrupt, op, "%d bytes are not %d rows of %d bits", len(x.rows), len(x.positions), n)
	}
	for i, p := range x.positions {
		if int64(p) >= rows || i > 0 && p <= x.positions[i-1] {
			return nil, errs.Newf(errs.Corrupt, op, "position %d of %d rows", p, rows)
		}
	}
	return x, nil
}

// Len is the number of bit strings.
func (x *Index) Len() int { return len(x.positions) }

// Memory is what the index holds in bytes where it is not mapped.
func (x *Index) Memory() int64 { return int64(len(x.rows)) + 4*int64(len(x.positions)) }

// Hit is a row with its distance.
type Hit struct {
	Pos      uint32
	Distance float64
}

// Params of a search.
type Params struct {
	K       int      // hits wanted, at least 1; with Ranged 0 means all
	Allowed []uint64 // a bit for each position, set for rows that may be hits; nil: all
	Ranged  bool     // rows at distances below Within only
	Within  float64
}

// batch is how many rows are compared in one call.
const batch = 512

// Search gives the K nearest rows of those allowed, and how many were compared. The query is packed, without the bytes that
// fill up a row.
func (x *Index) Search(ctx context.Context, packed []byte, p Params) ([]Hit, int64, error) {
	if p.K == 0 && p.Ranged {
		p.K = max(len(x.positions), 1)
	}
	if p.K < 1 || len(packed) > x.width || len(packed) <= x.width-8 {
		return nil, 0, errs.Newf(errs.Invalid, "bits.search", "%d hits of a query of %d bytes in an index of %d", p.K, len(packed), x.width)
	}
	query := make([]byte, x.width)
	copy(query, packed)
	s := &scan{x: x, query: query, worst: math.Inf(1), k: p.K}
	if p.Ranged {
		s.worst = p.Within
	}
	// Hits gather beyond K and are cut to the K best when the room is full.
	s.best = make([]Hit, 0, min(2*p.K+64, len(x.positions)))
	var ids [batch]uint32
	for from := 0; from < len(x.positions); from += batch {
		if from%(64*batch) == 0 {
			if err := ctx.Err(); err != nil {
				return nil, s.done, errs.Wrap(errs.Canceled, "bits.search", err)
			}
		}
		to := min(from+batch, len(x.positions))
		if p.Allowed == nil {
			s.compare(from, to, nil)
			continue
		}
		n := 0
		for i, pos := range x.positions[from:to] {
			ids[n] = uint32(from + i)
			if at := int(pos >> 6); at < len(p.Allowed) {
				n += int(p.Allowed[at] >> (pos & 63) & 1)
			}
		}
		if n > 0 {
			s.compare(0, n, ids[:n])
		}
	}
	s.cut()
	return s.best, s.done, nil
}

// scan is a search under way.
type scan struct {
	x     *Index
	query []byte
	k     int
	best  []Hit
	worst float64 // rows at this distance are no hits any more: they come in the order of positions
	done  int64
	count [batch]uint32
	other [batch]uint32
}

// compare compares the rows from one to another, or those at ids.
func (s *scan) compare(from, to int, ids []uint32) {
	n := to - from
	s.done += int64(n)
	x, count := s.x, s.count[:n]
	if ids == nil {
		kernel.Hamming(s.query, x.rows[from*x.width:to*x.width], count)
	} else {
		kernel.HammingAt(s.query, x.rows, ids, count)
	}
	row := func(i int) uint32 {
		if ids == nil {
			return uint32(from + i)
		}
		return ids[i]
	}
	if x.metric == vec.MetricHamming {
		bound := uint32(math.MaxUint32)
		if s.worst <= math.MaxInt32 {
			bound = uint32(max(math.Ceil(s.worst), 0))
		}
		for i, d := range count {
			if d < bound && s.keep(row(i), float64(d)) {
				bound = uint32(max(math.Ceil(min(s.worst, math.MaxInt32)), 0))
			}
		}
		return
	}
	// Of the bits that are set in one string at least, those that differ are the ones not in common.
	common := s.other[:n]
	if ids == nil {
		kernel.Overlap(s.query, x.rows[from*x.width:to*x.width], common)
	} else {
		kernel.OverlapAt(s.query, x.rows, ids, common)
	}
	for i, both := range common {
		d := 1.0
		if both > 0 {
			d = 1 - float64(both)/float64(both+count[i])
		}
		if d < s.worst {
			s.keep(row(i), d)
		}
	}
}

// keep takes a hit; it tells whether the bound is another one now.
func (s *scan) keep(row uint32, d float64) bool {
	if s.best = append(s.best, Hit{s.x.positions[row], d}); len(s.best) < cap(s.best) || len(s.best) <= s.k {
		return false
	}
	s.cut()
	return true
}

// cut keeps the K best.
func (s *scan) cut() {
	slices.SortFunc(s.best, func(a, b Hit) int { return cmp.Or(cmp.Compare(a.Distance, b.Distance), cmp.Compare(a.Pos, b.Pos)) })
	if len(s.best) >= s.k {
		s.best = s.best[:s.k]
		s.worst = min(s.worst, s.best[s.k-1].Distance)
	}
}

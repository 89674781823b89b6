package graph

import (
	"math"

	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/code"
)

// space is vectors packed by one coder, and how far they are apart.
type space struct {
	coder   *code.Coder
	size    int // bytes of a row
	rows    []byte
	factors []code.Factor // one a row; none for floats, which need none
	heights []float32     // see lift; mostly none
}

func newSpace(kind code.Kind, metric vec.Metric, dim int, seed uint64) (*space, error) {
	c, err := code.New(kind, metric, dim, seed)
	if err != nil {
		return nil, err
	}
	return &space{coder: c, size: c.RowBytes()}, nil
}

func (s *space) float() bool { return s.coder.Kind() == code.Float32 }

// bytesFor is the memory of so many rows.
func (s *space) bytesFor(rows int64) int64 {
	if s.float() {
		return rows * int64(s.size)
	}
	return rows * int64(s.size+factorBytes)
}

const factorBytes = 8

func (s *space) len() int { return len(s.rows) / s.size }

func (s *space) row(i uint32) []byte { return s.rows[int(i)*s.size:][:s.size] }

// reserve makes room for so many rows in all.
func (s *space) reserve(rows int) {
	if rows*s.size > cap(s.rows) {
		more := section.Aligned(rows * s.size)
		s.rows = more[:copy(more, s.rows)]
	}
	if !s.float() && rows > cap(s.factors) {
		s.factors = append(make([]code.Factor, 0, rows), s.factors...)
	}
}

// extend adds rows whose bytes are still to be filled; there must be room.
func (s *space) extend(rows int) {
	s.rows = s.rows[:len(s.rows)+rows*s.size]
	if !s.float() {
		s.factors = s.factors[:len(s.factors)+rows]
	}
}

// put packs a vector, which is turned in place, as row i.
func (s *space) put(i int, vector []float32) {
	s.coder.Rotate(vector, vector)
	f := s.coder.Pack(vector, s.row(uint32(i)))
	if !s.float() {
		s.factors[i] = f
	}
}

// move copies row from to row to.
func (s *space) move(to, from uint32) {
	copy(s.row(to), s.row(from))
	if !s.float() {
		s.factors[to] = s.factors[from]
	}
}

func (s *space) truncate(rows int) {
	s.rows = s.rows[:rows*s.size]
	if !s.float() {
		s.factors = s.factors[:rows]
	}
}

// permute moves the row at order[i] to i, in place. done is room for a bit for each row, all zero, and is so afterwards.
func (s *space) permute(order []uint32, done []uint64) {
	spare := make([]byte, s.size)
	for i := range order {
		if done[i>>6]>>(i&63)&1 != 0 {
			continue
		}
		copy(spare, s.row(uint32(i)))
		var kept code.Factor
		if !s.float() {
			kept = s.factors[i]
		}
		at := uint32(i)
		for {
			done[at>>6] |= 1 << (at & 63)
			from := order[at]
			if int(from) == i {
				break
			}
			s.move(at, from)
			at = from
		}
		copy(s.row(at), spare)
		if !s.float() {
			s.factors[at] = kept
		}
	}
	clear(done)
}

// be makes q the vector of a row.
func (s *space) be(q *code.Query, i uint32) {
	var f code.Factor
	if !s.float() {
		f = s.factors[i]
	}
	s.coder.QueryOfInto(q, s.row(i), f)
}

// vector gives what is known of a row's vector; turned, unless rows are floats.
func (s *space) vector(dst []float32, i uint32) {
	s.coder.Unpack(dst, s.row(i))
	if !s.float() {
		for k := range dst {
			dst[k] *= s.factors[i].Scale
		}
	}
}

// at fills out with the distances to the rows at ids.
func (s *space) at(q *code.Query, ids []uint32, out []float32) {
	q.DistancesAt(s.rows, s.factors, ids, out)
}

// between fills out with the distances to the rows from one to before another.
func (s *space) between(q *code.Query, from, to int, out []float32) {
	var f []code.Factor
	if !s.float() {
		f = s.factors[from:to]
	}
	q.Distances(s.rows[from*s.size:to*s.size], f, out[:to-from])
}

// normalise gives v the length 1; false when it is zero.
func normalise(v []float32) bool {
	norm := vec.Norm(v)
	if norm == 0 {
		return false
	}
	for i, x := range v {
		v[i] = float32(float64(x) / norm)
	}
	return true
}

// finite turns -0 into 0 and tells whether all elements are numbers.
func finite(v []float32) bool {
	for i, x := range v {
		if x-x != 0 {
			return false
		}
		v[i] = x + 0
	}
	return true
}

// from is at, where q is row self.
func (s *space) from(self uint32, q *code.Query, ids []uint32, out []float32) {
	s.at(q, ids, out)
	if s.heights != nil {
		h := s.heights[self]
		for i, id := range ids {
			d := h - s.heights[id]
			out[i] += d * d
		}
	}
}

var inf, nan = float32(math.Inf(1)), float32(math.NaN())

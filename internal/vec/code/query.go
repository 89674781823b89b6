package code

import (
	"fmt"

	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/kernel"
)

// Query is a vector made ready to be compared with rows. One goroutine at a time may use it.
type Query struct {
	c     *Coder
	scale float32 // an element of the vector is this times its whole number
	norm  float32 // |q|²

	floats []float32 // Float32: the vector; else it rotated, when it was made of floats
	ints   []int8    // TQ8, TQ4: whole numbers, padded with zeros
	shift  int32     // 128 times the sum of ints: what is too much because rows hold unsigned bytes

	// TQ8, TQ4 after Refine: what ints lost, in the same form.
	fine      []int8
	fineScale float32
	fineShift int32

	// Bit1: whole numbers are odd and from -31 to 31, the sum over planes of 2^p for a set bit and -2^p for another.
	planes int
	bits   []byte // the planes one after another, each as long as a row

	dots   []int32
	counts []uint32
}

// queryPlanes is the number of bits of an element of a query for Bit1.
const queryPlanes = 5

// batch is how many rows are compared at once.
const batch = 256

// Query rotates and rounds a vector of dim elements.
func (c *Coder) Query(vector []float32) *Query {
	q := new(Query)
	c.QueryInto(q, vector)
	return q
}

// QueryInto is Query into one that was used before, of this or of another coder, or into a new one.
func (c *Coder) QueryInto(q *Query, vector []float32) {
	q.floats = append(q.floats[:0], vector...)
	c.Rotate(q.floats, q.floats)
	c.round(q)
}

// QueryRotatedInto is QueryInto for a vector that is rotated already.
func (c *Coder) QueryRotatedInto(q *Query, rotated []float32) {
	if len(rotated) != c.dim {
		panic(fmt.Sprintf("code: a query of %d, not %d", len(rotated), c.dim))
	}
	q.floats = append(q.floats[:0], rotated...)
	c.round(q)
}

// round makes whole numbers of the floats.
func (c *Coder) round(q *Query) {
	q.c = c
	norm, some := square(q.floats)
	q.norm, q.scale, q.shift, q.fine = norm, 0, 0, q.fine[:0]
	x := q.floats
	switch c.kind {
	case TQ8, TQ4:
		q.ints = resize(q.ints, c.padded)
		if !some {
			clear(q.ints)
			return
		}
		step := 127 / largest(x)
		var dot float32
		var sum int32
		for i, v := range x {
			k := int32(v*step+(zero8+0.5)) - zero8
			q.ints[i] = int8(k)
			sum += k
			dot += v * float32(k)
		}
		clear(q.ints[c.dim:])
		q.shift = sum * zero8
		q.scale = finite(float64(norm) / float64(dot))
	case Bit1:
		n := c.RowBytes()
		q.planes = queryPlanes
		q.bits = resize(q.bits, n*queryPlanes)
		clear(q.bits)
		if !some {
			return
		}
		const most = 1<<queryPlanes - 1
		step := (most + 1) / 2 / largest(x)
		var dot float32
		for i, v := range x {
			k := min(int32(v*step+(most+1)/2), most)
			dot += v * float32(2*k-most)
			for p := range queryPlanes {
				q.bits[p*n+i>>3] |= byte(k>>p&1) << (i & 7)
			}
		}
		q.scale = finite(float64(norm) / float64(dot))
	}
}

// Refine makes a query of TQ8 or TQ4 that was made of floats more precise, from 8 bits an element to 15, and comparing twice
// as dear. It pays where the query is much longer than what rows were packed of, which then lose less than the query.
func (q *Query) Refine() {
	if len(q.ints) != q.c.padded || len(q.floats) != q.c.dim || q.scale == 0 || q.c.kind != TQ8 && q.c.kind != TQ4 {
		return
	}
	q.scale = largest(q.floats) / 127
	q.fineScale = q.scale / 254
	q.fine = resize(q.fine, q.c.padded)
	step := 1 / q.fineScale
	var sum int32
	for i, v := range q.floats {
		k := max(min(int32((v-q.scale*float32(q.ints[i]))*step+(zero8+0.5)), 255), 1) - zero8
		q.fine[i] = int8(k)
		sum += k
	}
	clear(q.fine[q.c.dim:])
	q.fineShift = sum * zero8
}

// QueryOf makes a query of a packed row and its factor, without its floats. Of two rows of one bit, what both lost is alike,
// so that a product comes out too large (asin p for p, of vectors of length one); with more bits this does not show.
func (c *Coder) QueryOf(row []byte, f Factor) *Query {
	q := new(Query)
	c.QueryOfInto(q, row, f)
	return q
}

// QueryOfInto is QueryOf into one that was used before, or into a new one.
func (c *Coder) QueryOfInto(q *Query, row []byte, f Factor) {
	if len(row) != c.RowBytes() {
		panic(fmt.Sprintf("code: a row of %d bytes, not %d", len(row), c.RowBytes()))
	}
	q.c, q.scale, q.norm, q.shift, q.fine = c, f.Scale, f.Norm, 0, q.fine[:0]
	q.floats = q.floats[:0]
	switch c.kind {
	case Float32:
		q.floats = append(q.floats, floats(row)...)
	case TQ8:
		q.ints = resize(q.ints, c.padded)
		signed(q.ints, row)
		var sum [1]int32
		kernel.DotU8(c.ones, row, sum[:])
		q.shift = (sum[0] - zero8*int32(c.padded)) * zero8
	case TQ4:
		q.ints = resize(q.ints, c.padded)
		var sum int32
		for at := 0; at < len(row); at += 32 {
			lo, hi := q.ints[2*at:][:32], q.ints[2*at+32:][:32]
			for j, b := range row[at:][:32] {
				l, h := levels[b&15], levels[b>>4]
				lo[j], hi[j] = l, h
				sum += int32(l) + int32(h)
			}
		}
		for i, k := range q.ints[c.dim:] {
			sum -= int32(k)
			q.ints[c.dim+i] = 0
		}
		q.shift = sum * zero8
	case Bit1:
		q.planes = 1
		q.bits = append(q.bits[:0], row...)
	}
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// Norm is the squared length of the vector.
func (q *Query) Norm() float32 { return q.norm }

// Distances fills out with the distances to len(out) rows, which lie one after another and have a factor each: an estimate
// of the squared Euclidean distance, never below zero, for L2; of the negative inner product for Dot; of one minus it for
// Cosine; the sum of absolute differences for L1. Float32 rows give them exactly and need no factors.
func (q *Query) Distances(rows []byte, factors []Factor, out []float32) {
	if q.c.kind == Float32 {
		q.exact(floats(rows), nil, out)
		return
	}
	q.Products(rows, out)
	for i, f := range factors[:len(out)] {
		out[i] *= f.Scale
	}
	q.finish(factors, nil, out)
}

// DistancesAt is Distances to the rows whose numbers are listed.
func (q *Query) DistancesAt(rows []byte, factors []Factor, ids []uint32, out []float32) {
	out = out[:len(ids)]
	if q.c.kind == Float32 {
		q.exact(floats(rows), ids, out)
		return
	}
	q.ProductsAt(rows, ids, out)
	for i, id := range ids {
		out[i] *= factors[id].Scale
	}
	q.finish(factors, ids, out)
}

// finish makes distances of inner products. With ids, the factor of a row is the one at its number.
func (q *Query) finish(factors []Factor, ids []uint32, out []float32) {
	switch q.c.metric {
	case vec.MetricL2:
		if ids == nil {
			for i, p := range out {
				out[i] = squared(q.norm, factors[i].Norm, p)
			}
			return
		}
		for i, p := range out {
			out[i] = squared(q.norm, factors[ids[i]].Norm, p)
		}
	case vec.MetricDot:
		for i, p := range out {
			out[i] = -p
		}
	case vec.MetricCosine:
		for i, p := range out {
			out[i] = 1 - p
		}
	}
}

func squared(a, b, product float32) float32 {
	if d := a + b - 2*product; d > 0 {
		return d
	}
	return 0
}

// Products fills out with the inner products of the vector with the bits of len(out) rows, before their Scale.
func (q *Query) Products(rows []byte, out []float32) {
	if q.c.kind == Float32 {
		kernel.Dot(q.floats, floats(rows), out)
		return
	}
	q.dots, q.counts = resize(q.dots, batch), resize(q.counts, batch)
	for size := q.c.RowBytes(); len(out) > 0; {
		n := min(batch, len(out))
		q.products(rows[:n*size], nil, out[:n])
		rows, out = rows[n*size:], out[n:]
	}
}

// Estimate is for rows of TQ8 and TQ4 whose distances are base + add - scale times their Products, with a scale and an add
// of their own: it fills out with those of len(out) rows and sets a bit in below, which has one for each row, 64 a word,
// where one is below bound. The bits of the last word behind the last row are zero.
func (q *Query) Estimate(rows []byte, scales, adds []float32, base, bound float32, out []float32, below []uint64) {
	q.dots, q.counts = resize(q.dots, batch), resize(q.counts, batch)
	f := kernel.Affine{Shift: q.shift, A: q.scale, Base: base}
	for at := 0; at < len(out); at += batch {
		n := min(batch, len(out)-at)
		some := rows[at*q.c.RowBytes():][:n*q.c.RowBytes()]
		if len(q.fine) > 0 {
			q.products(some, nil, out[at:][:n])
			for i := at; i < at+n; i++ {
				if i&63 == 0 {
					below[i>>6] = 0
				}
				if out[i] = base + adds[i] - scales[i]*out[i]; out[i] < bound {
					below[i>>6] |= 1 << (i & 63)
				}
			}
			continue
		}
		dots := q.dots[:n]
		q.whole(q.ints, some, nil, dots)
		for i := at; i < at+n; i += kernel.BlockRows {
			m := min(kernel.BlockRows, at+n-i)
			below[i>>6] = kernel.Estimate(dots[i-at:][:m], scales[i:], adds[i:], f, bound, out[i:])
		}
	}
}

// ProductsAt is Products with the rows whose numbers are listed.
func (q *Query) ProductsAt(rows []byte, ids []uint32, out []float32) {
	out = out[:len(ids)]
	if q.c.kind == Float32 {
		kernel.DotAt(q.floats, floats(rows), ids, out)
		return
	}
	q.dots, q.counts = resize(q.dots, batch), resize(q.counts, batch)
	for len(out) > 0 {
		n := min(batch, len(out))
		q.products(rows, ids[:n], out[:n])
		ids, out = ids[n:], out[n:]
	}
}

// products are those of up to a batch of rows, the listed ones or, without a list, the first.
func (q *Query) products(rows []byte, ids []uint32, out []float32) {
	dots := q.dots[:len(out)]
	if q.c.kind == Bit1 {
		n := q.c.RowBytes()
		q.begin(dots)
		for p := range q.planes {
			if plane, counts := q.bits[p*n:][:n], q.counts[:len(out)]; ids == nil {
				kernel.Hamming(plane, rows, counts)
			} else {
				kernel.HammingAt(plane, rows, ids, counts)
			}
			q.plane(p, dots)
		}
		for i, dot := range dots {
			out[i] = q.scale * float32(dot)
		}
		return
	}
	q.whole(q.ints, rows, ids, dots)
	for i, dot := range dots {
		out[i] = q.scale * float32(dot-q.shift)
	}
	if len(q.fine) > 0 {
		q.whole(q.fine, rows, ids, dots)
		for i, dot := range dots {
			out[i] += q.fineScale * float32(dot-q.fineShift)
		}
	}
}

// whole are the inner products of whole numbers with unsigned ones.
func (q *Query) whole(ints []int8, rows []byte, ids []uint32, dots []int32) {
	switch {
	case q.c.kind == TQ8 && ids == nil:
		kernel.DotU8(ints, rows, dots)
	case q.c.kind == TQ8:
		kernel.DotU8At(ints, rows, ids, dots)
	case ids == nil:
		kernel.Dot4(ints, &unsignedLevels, rows, dots)
	default:
		kernel.Dot4At(ints, &unsignedLevels, rows, ids, dots)
	}
}

// begin and plane add up, for rows and planes of signs, dim less twice the number of bits that differ. Bits beyond dim are
// zero in all planes and should be in all rows.
func (q *Query) begin(out []int32) {
	all := int32(q.c.dim * (1<<q.planes - 1))
	for i := range out {
		out[i] = all
	}
}

func (q *Query) plane(p int, out []int32) {
	for i, differ := range q.counts[:len(out)] {
		out[i] -= int32(differ) << (p + 1)
	}
}

// exact compares floats.
func (q *Query) exact(rows []float32, ids []uint32, out []float32) {
	at := ids != nil
	switch q.c.metric {
	case vec.MetricL2:
		if at {
			kernel.L2At(q.floats, rows, ids, out)
		} else {
			kernel.L2(q.floats, rows, out)
		}
		return
	case vec.MetricL1:
		if at {
			kernel.L1At(q.floats, rows, ids, out)
		} else {
			kernel.L1(q.floats, rows, out)
		}
		return
	}
	if at {
		kernel.DotAt(q.floats, rows, ids, out)
	} else {
		kernel.Dot(q.floats, rows, out)
	}
	q.finish(nil, nil, out)
}

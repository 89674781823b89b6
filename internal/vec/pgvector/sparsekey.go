package pgvector

import (
	"encoding/binary"
	"math"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/vec"
)

// The key of a sparsevec is bytes that hold it and compare, byte by byte, as CompareSparse compares. So an engine that knows
// nothing of the type sorts, groups and joins it rightly.
//
//	element       8 bytes each: place, value; big-endian
//	end           8 bytes: the dimensions as the place of an element that is smaller than all numbers
//
//	place         of a negative element its index; of a positive one 2^32-1 less its index
//	value         the bits of a float32, those of a negative number inverted; 0 at the end
//
// Why it sorts: where two vectors differ first, one has an element that the other has not, or another one. Against the
// zeros, or the end, of the other one a negative element makes the vector smaller, the sooner the more: a low place that
// grows with the index. A positive one makes it larger, the sooner the more: a high place that shrinks. An end comes
// before all elements of its place, and behind the negative ones before it, whose index is smaller.

// AppendSparseKey appends the key of a value to b.
func AppendSparseKey(b []byte, v *vec.Sparse) []byte {
	for k, i := range v.Index {
		place, value := uint32(i), math.Float32bits(v.Value[k])
		if v.Value[k] < 0 {
			value = ^value
		} else {
			place = ^place
		}
		b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, place), value)
	}
	return binary.BigEndian.AppendUint64(b, uint64(v.Dim)<<32)
}

// ParseSparseKey reads a key, reusing into. Bytes that are none are an error.
func ParseSparseKey(b []byte, into *vec.Sparse) error {
	into.Index, into.Value = into.Index[:0], into.Value[:0]
	bad := errs.New(errs.Corrupt, "pgvector", "the bytes are no sparsevec")
	n := len(b)/8 - 1
	if n < 0 || len(b)%8 != 0 || n > MaxNonzero {
		return bad
	}
	for k := range n {
		place, value := binary.BigEndian.Uint32(b[8*k:]), binary.BigEndian.Uint32(b[8*k+4:])
		if place <= math.MaxInt32 {
			value = ^value
		} else {
			place = ^place
		}
		x := math.Float32frombits(value)
		if (x < 0) != (place == binary.BigEndian.Uint32(b[8*k:])) {
			return bad
		}
		into.Index, into.Value = append(into.Index, int32(place)), append(into.Value, x)
	}
	dim := binary.BigEndian.Uint64(b[8*n:])
	if into.Dim = int(dim >> 32); uint32(dim) != 0 || CheckSparse(into) != nil {
		return bad
	}
	return nil
}

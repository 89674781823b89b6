package datafile

import (
	"hash/maphash"
	"math"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Whether a column gets a dictionary is decided on the first rows. A dictionary makes a file smaller and a scan faster where
// values repeat, but whoever wants one row has to read all of it. So it is for columns whose dictionary of a row group will
// be small; the library alone would gather a megabyte of names that hardly repeat before it gives up.

const (
	// sampleRows is how many rows the decision looks at, and sampleLeast the fewest that tell something.
	sampleRows  = 2048
	sampleLeast = 256
	// smallDictionary is one that costs little to read, in bytes; largeDictionary the most there may be, where the values are
	// so wide that it is still a sixteenth of them.
	smallDictionary = 128 << 10
	largeDictionary = 1 << 20
)

// repeats is what a sample of a leaf says about a row group.
type repeats struct {
	dictionary, indexes, values float64 // bytes
}

// worthwhile says whether a dictionary is smaller than the values by a quarter, and small.
func (r repeats) worthwhile() bool {
	return r.dictionary <= max(smallDictionary, min(largeDictionary, r.values/16)) && r.dictionary+r.indexes <= r.values*3/4
}

// sample looks at the values of a leaf and tells how those of a row group with so many rows will repeat. It cannot tell when
// there are too few, or when the type has no dictionary.
func sample(a arrow.Array, rows int64) (repeats, bool) {
	value := valueBytes(a)
	if value == nil {
		return repeats{}, false
	}
	seed := maphash.MakeSeed()
	seen := make(map[uint64]struct{}, sampleRows)
	looked, size := 0, 0
	n := a.Len()
	for i := range min(n, sampleRows) {
		k := i * n / min(n, sampleRows)
		if a.IsNull(k) {
			continue
		}
		v, extra := value(k)
		looked++
		size += len(v) + extra
		seen[maphash.Bytes(seed, v)] = struct{}{}
	}
	if looked < sampleLeast {
		return repeats{}, false
	}
	width, all := float64(size)/float64(looked), float64(rows)
	different := expected(population(looked, len(seen)), all)
	return repeats{dictionary: different * width, indexes: all * float64(bits.Len64(uint64(different))) / 8, values: all * width}, true
}

// population is how many different values there are where a sample of n has d of them, if all are equally frequent.
func population(n, d int) float64 {
	if d >= n {
		return math.Inf(1)
	}
	low, high := float64(d), float64(n)*float64(n)
	for range 60 {
		middle := (low + high) / 2
		if expected(middle, float64(n)) < float64(d) {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

// expected is how many different values n draws from a population give.
func expected(population, n float64) float64 {
	if math.IsInf(population, 1) {
		return n
	}
	return -population * math.Expm1(-n/population)
}

// valueBytes gives a function for the bytes of a value of a planned leaf, and for how many Parquet adds to them.
func valueBytes(a arrow.Array) func(i int) (v []byte, extra int) {
	switch x := a.(type) {
	case array.ExtensionArray:
		return valueBytes(x.Storage())
	case array.BinaryLike:
		if x.Len() == 0 {
			return nil
		}
		b, from := x.ValueBytes(), x.ValueOffset64(0)
		return func(i int) ([]byte, int) { return b[x.ValueOffset64(i)-from:][:x.ValueLen(i)], 4 }
	case *array.Boolean:
		return nil // is its own dictionary
	}
	t, ok := a.DataType().(arrow.FixedWidthDataType)
	if !ok || t.BitWidth()%8 != 0 || len(a.Data().Buffers()) < 2 || a.Data().Buffers()[1] == nil {
		return nil
	}
	width, b := t.BitWidth()/8, a.Data().Buffers()[1].Bytes()[a.Data().Offset()*t.BitWidth()/8:]
	return func(i int) ([]byte, int) { return b[i*width:][:width], 0 }
}

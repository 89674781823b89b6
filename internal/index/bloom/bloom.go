// Package bloom answers: may this value be among the rows?
//
// A Filter is a split-block Bloom filter over the keys of one column (internal/predicate): it says no for certain and yes
// wrongly in a share of cases that was chosen when it was built. It is the index for equality on columns of which hardly
// any file holds a given value; it takes about ten bits for each different value and knows no rows.
//
// An artifact is written as a stream by a Builder, and read whole when it is opened. docs/format/bloom-index.md describes
// the bytes.
//
// Invariants:
//
//	F1  A key that was added is always found.
//	F2  The filter is sized for the keys that were seen, so the share of wrong answers is the one asked for however many
//	    there are.
//	F3  Every byte is under a checksum, which is verified before the first answer.
package bloom

import (
	"context"
	"math"

	"github.com/cespare/xxhash/v2"

	"github.com/overlakedb/overlake/internal/errs"
)

// BlobType names the format in a Puffin file.
const BlobType = "overlake-bloom-v1"

// Stats sum up an artifact.
type Stats struct {
	Rows     int64   // rows covered
	Nulls    int64   // rows with NULL, which has no key
	Distinct int64   // different keys; an estimate where they did not fit into the builder's memory
	Size     int64   // bytes of the artifact
	FPR      float64 // the share of absent keys for which the filter says yes, by its size and Distinct
}

// Source reads ranges of an artifact, with the rules of io.ReaderAt. It may be called by several goroutines at once.
type Source interface {
	ReadAtContext(ctx context.Context, p []byte, off int64) (int, error)
}

// A block is eight words. A key sets one bit in each word of one block: the upper half of its hash chooses the block, and
// the lower half, multiplied by the word's salt, the bits. These are the numbers of Parquet's specification.
type block [8]uint32

const blockBytes = 32

var salts = [8]uint32{0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d, 0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31}

// maxBlocks keeps the choice of a block within 32 bits, and a filter under 64 GiB.
const maxBlocks = 1 << 31

func hashOf(key []byte) uint64 { return xxhash.Sum64(key) }

// place is the block of a hash among n.
func place(hash uint64, n int) int { return int(hash >> 32 * uint64(n) >> 32) }

func (b *block) add(hash uint64) {
	for i := range b {
		b[i] |= 1 << (uint32(hash) * salts[i] >> 27)
	}
}

func (b *block) has(hash uint64) bool {
	for i := range b {
		if b[i]>>(uint32(hash)*salts[i]>>27)&1 == 0 {
			return false
		}
	}
	return true
}

// rate is the share of wrong answers of a filter with so many keys for each block. Keys fall into blocks as a Poisson
// distribution says, and a block with i keys has a bit of a word set with the probability 1-(1-1/32)^i.
func rate(load float64) float64 {
	if load <= 0 {
		return 0
	}
	sum := 0.0
	width := 12*math.Sqrt(load) + 20
	for i := math.Max(1, math.Floor(load-width)); i <= load+width; i++ {
		log, _ := math.Lgamma(i + 1)
		sum += math.Exp(i*math.Log(load)-load-log) * math.Pow(1-math.Pow(31.0/32, i), 8)
	}
	return math.Min(sum, 1)
}

// loadFor is the greatest number of keys for each block at which the share of wrong answers is no more than fpr.
func loadFor(fpr float64) float64 {
	lo, hi := 0.0, 1.0
	for rate(hi) < fpr && hi < 1<<12 {
		lo, hi = hi, 2*hi
	}
	for range 60 {
		if mid := (lo + hi) / 2; rate(mid) <= fpr {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

func corrupt(message string) error {
	return errs.New(errs.Corrupt, "bloom.open", "the Bloom filter is damaged: "+message, errs.Hint("drop the artifact and build it again"))
}

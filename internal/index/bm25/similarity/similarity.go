// Package similarity answers: how much is one term worth in a text?
//
// It is Lucene 8.7's LegacyBM25Similarity, which Elasticsearch 7 uses, to the last bit of float32:
//
//	idf    = float32(ln(1 + (N - n + 0.5) / (n + 0.5)))    N rows that have terms, n of them with this term
//	avgdl  = float32(sumTotalTermFreq / N)
//	inv[B] = 1 / (k1 · ((1 - b) + b · LEN[B] / avgdl))     B the byte that stands for the length of a text
//	w      = boost · (k1 + 1) · idf
//	score  = w - w / (1 + freq · inv[B])                   one clause; clauses are added in float64, then cast
//
// Float32 operations are kept apart (no fused multiply-add), so every processor gives the same bits.
package similarity

import (
	"math"
	"math/bits"

	"github.com/overlakedb/overlake/internal/errs"
)

// Params are the free parameters.
type Params struct {
	K1 float64 // how soon repeating a term stops to matter; 0 means at once
	B  float64 // how much long texts are held back: 0 not at all, 1 fully
}

// DefaultParams are Lucene's.
var DefaultParams = Params{K1: 1.2, B: 0.75}

// Check refuses parameters outside their meaning.
func (p Params) Check() error {
	if !(p.K1 >= 0) || p.K1 > math.MaxFloat32 || !(p.B >= 0 && p.B <= 1) {
		return errs.New(errs.Invalid, "bm25.params", "k1 must not be negative and b must lie between 0 and 1")
	}
	return nil
}

// exactLengths is the number of lengths that a byte holds as they are, before the floats begin.
const exactLengths = 24

// EncodeLength is the length byte (Lucene's SmallFloat.intToByte4): exact to 40, rounded down beyond, to one part in 16.
func EncodeLength(n int) byte {
	if n < exactLengths {
		return byte(max(n, 0))
	}
	v := uint32(min(n, math.MaxInt32) - exactLengths)
	if v < 16 {
		return byte(exactLengths + v)
	}
	// A float with three bits of mantissa and an implied one; values below 16 are the subnormal ones.
	shift := bits.Len32(v) - 4
	return byte(exactLengths + (uint32(shift+1)<<3 | v>>shift&7))
}

// DecodeLength is the length a byte stands for.
func DecodeLength(b byte) int {
	if b < exactLengths {
		return int(b)
	}
	e := uint32(b - exactLengths)
	mantissa, shift := e&7, int(e>>3)-1
	if shift < 0 {
		return exactLengths + int(mantissa)
	}
	return exactLengths + int((mantissa|8)<<shift)
}

// AverageLength is avgdl; 1 where there are no texts, which then cannot be scored anyway.
func AverageLength(docs, sumTotalTermFreq int64) float32 {
	if docs <= 0 || sumTotalTermFreq <= 0 {
		return 1
	}
	return float32(float64(sumTotalTermFreq) / float64(docs))
}

// IDF weighs a term by its rarity: n of docs rows have it.
func IDF(docs, n int64) float32 {
	return float32(math.Log(1 + (float64(docs)-float64(n)+0.5)/(float64(n)+0.5)))
}

// Weight is w of a clause, the part of its score that does not depend on the row.
func Weight(p Params, boost, idf float32) float32 {
	return float32(boost*(1+float32(p.K1))) * idf
}

// InverseNorms is inv for every length byte.
func InverseNorms(p Params, avgdl float32) (inv [256]float32) {
	k1, b := float32(p.K1), float32(p.B)
	for i := range inv {
		part := float32(b*float32(DecodeLength(byte(i)))) / avgdl
		inv[i] = 1 / (k1 * float32((1-b)+part))
	}
	return inv
}

// Score is that of one clause in a text where its term stands freq times: a phrase may stand there less than once.
func Score(w, freq, inv float32) float32 {
	return w - w/float32(1+float32(freq*inv))
}

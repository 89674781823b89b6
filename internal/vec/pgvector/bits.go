package pgvector

import "github.com/overlakedb/overlake/internal/vec"

// Quantize is binary_quantize as text: one bit a dimension, 1 where the element is positive.
func Quantize(v []float32) string {
	b := make([]byte, len(v))
	for i, x := range v {
		b[i] = '0'
		if x > 0 {
			b[i] = '1'
		}
	}
	return string(b)
}

// QuantizeBits is binary_quantize packed: dimension i is bit 7-i%8 of byte i/8, as PostgreSQL packs bit strings. Unused
// bits are 0. The bytes are appended to into.
func QuantizeBits(v []float32, into []byte) []byte {
	for i, x := range v {
		if i%8 == 0 {
			into = append(into, 0)
		}
		if x > 0 {
			into[len(into)-1] |= 0x80 >> (i % 8)
		}
	}
	return into
}

// PackBits packs a bit string of the characters 0 and 1, as QuantizeBits does, and appends the bytes to into.
func PackBits(s string, into []byte) ([]byte, error) {
	for i := range len(s) {
		if i%8 == 0 {
			into = append(into, 0)
		}
		switch s[i] {
		case '0':
		case '1':
			into[len(into)-1] |= 0x80 >> (i % 8)
		default:
			return nil, fail(CodeSyntax, "\"%c\" is not a valid binary digit", rune(s[i]))
		}
	}
	return into, nil
}

// BitDistances of two bit strings of equal length: in how many bits they differ (<~>), and one minus the share of common
// bits (<%>).
func BitDistances(a, b string) (hamming, jaccard float64, err error) {
	if len(a) != len(b) {
		return 0, 0, fail(CodeData, "different bit lengths %d and %d", len(a), len(b))
	}
	var bufA, bufB [128]byte
	x, err := PackBits(a, bufA[:0])
	if err != nil {
		return 0, 0, err
	}
	y, err := PackBits(b, bufB[:0])
	if err != nil {
		return 0, 0, err
	}
	return float64(vec.Hamming(x, y)), vec.Jaccard(x, y), nil
}

package pgvector

// MaxBits is the largest number of bits in bit(n).
const MaxBits = 83886080

// Bit strings are packed as PostgreSQL and NumPy pack them: bit k is bit 7-k%8 of byte k/8, and unused bits are 0.

// QuantizeBits is binary_quantize: one bit a dimension, 1 where the element is positive. The bytes are appended to into.
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

// PackBits packs a bit string of the characters 0 and 1 and appends the bytes to into.
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

// ResizeBits makes n bits of the first have, in place: it cuts those too many and adds zeros, as a cast to bit(n) does.
func ResizeBits(packed []byte, have, n int) []byte {
	size := (n + 7) / 8
	if n > have {
		return append(packed, make([]byte, size-len(packed))...)
	}
	packed = packed[:size]
	if n%8 != 0 {
		packed[size-1] &= 0xff << (8 - n%8)
	}
	return packed
}

// CheckBits is what bit(n) demands of a value that is not cast to it.
func CheckBits(have, n int) error {
	if have != n {
		return fail(CodeData, "bit string length %d does not match type bit(%d)", have, n)
	}
	return nil
}

// SameBits refuses two bit strings of different length.
func SameBits(a, b int) error {
	if a != b {
		return fail(CodeData, "different bit lengths %d and %d", a, b)
	}
	return nil
}

// CheckPacked refuses bytes that are not n packed bits.
func CheckPacked(packed []byte, n int) error {
	if n < 0 || len(packed) != (n+7)/8 {
		return fail(CodeData, "bit(%d) is %d bytes, not %d", n, (n+7)/8, len(packed))
	}
	if n%8 != 0 && packed[len(packed)-1]&(0xff>>(n%8)) != 0 {
		return fail(CodeData, "unused bits of bit(%d) are set", n)
	}
	return nil
}

package vec

import "math"

// Half is the nearest number of IEEE 754's binary16, which has 11 bits of precision; of two that are equally near, the one
// whose last bit is 0. From 65520 on it is infinite, below 2^-25 zero.
func Half(x float32) float32 {
	const (
		sign     = 1 << 31
		smallest = 0x38800000 // 2^-14, the smallest normal number
		overflow = 0x47800000 // 65536
		infinity = 0x7f800000
	)
	b := math.Float32bits(x)
	a := b &^ sign
	switch {
	case a > infinity: // NaN
		return x
	case a < smallest:
		// Below it all numbers are multiples of 2^-24, as those of float32 from a half to one are: the sum rounds.
		a = math.Float32bits(float32(math.Float32frombits(a)+0.5) - 0.5)
	default:
		a = (a + 0xfff + a>>13&1) &^ 0x1fff
		if a >= overflow {
			a = infinity
		}
	}
	return math.Float32frombits(a | b&sign)
}

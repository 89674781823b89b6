package checksum

import (
	"math/rand/v2"
	"testing"
)

func TestJoinedSums(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for range 2000 {
		b := make([]byte, rng.IntN(1<<rng.IntN(18)))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		cut := rng.IntN(len(b) + 1)
		if got, want := Join(Of(b[:cut]), Of(b[cut:]), int64(len(b)-cut)), Of(b); got != want {
			t.Fatalf("%d and %d bytes: %08x, want %08x", cut, len(b)-cut, got, want)
		}
	}
	// Lengths for which the powers repeat: zeros joined in two ways.
	for _, n := range []int64{1 << 27, 1<<28 + 5, 1<<29 + 1, 1 << 33, 1<<40 + 12345} {
		half := n / 2
		once := Join(0x12345678, 0, n)
		if twice := Join(Join(0x12345678, 0, half), 0, n-half); once != twice {
			t.Errorf("%d bytes: %08x at once, %08x in halves", n, once, twice)
		}
	}
}

package block_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/overlakedb/overlake/internal/index/bm25/block"
	"github.com/overlakedb/overlake/internal/vec/kernel"
)

// levels runs a test with each set of instructions of this machine.
func levels(t *testing.T, f func(t *testing.T)) {
	for l := kernel.Plain; l <= kernel.Best(); l++ {
		t.Run(l.String(), func(t *testing.T) {
			defer block.Use(block.Use(l))
			f(t)
		})
	}
}

// slack puts what must not matter behind bytes, and what may not be there behind that.
func slack(b []byte, rng *rand.Rand) []byte {
	for range block.Slack {
		b = append(b, byte(rng.Uint32()))
	}
	return slices.Clip(b)
}

func TestValuesComeBack(t *testing.T) { levels(t, valuesComeBack) }

func valuesComeBack(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for width := uint(0); width <= block.MaxWidth; width++ {
		for _, n := range []int{1, 2, 7, 15, 16, 17, 31, 100, 127, 128} {
			v := make([]uint32, n)
			for i := range v {
				v[i] = uint32(rng.Uint64() & (1<<width - 1))
			}
			v[rng.IntN(n)] = uint32(1<<width - 1)
			if got := block.Width(v); got != width {
				t.Fatalf("width %d of values of %d bits", got, width)
			}
			b := block.Append([]byte("before"), v, width)
			if len(b) != 6+block.Bytes(n, width) {
				t.Fatalf("%d values of %d bits have %d bytes", n, width, len(b)-6)
			}
			b = slack(b[6:], rng)
			var out block.Values
			block.Unpack(&out, b, n, width)
			for i, x := range v {
				if out[i] != x+1 || block.At(b, width, i) != x {
					t.Fatalf("value %d of %d of width %d: %d and %d, want %d", i, n, width, out[i]-1, block.At(b, width, i), x)
				}
			}
			first := rng.Uint32N(1 << 31)
			ok := block.Sums(&out, b, n, width, first)
			row := uint64(first)
			for i, x := range v {
				row += uint64(x)
				if ok && out[i] != uint32(row) {
					t.Fatalf("row %d of %d of width %d: %d, want %d", i, n, width, out[i], row)
				}
				row++
			}
			if ok != (row <= 1<<32) {
				t.Fatalf("%d gaps of width %d from %d end at %d: %v", n, width, first, row, ok)
			}
		}
	}
}

func TestBitSetsComeBack(t *testing.T) { levels(t, bitSetsComeBack) }

func bitSetsComeBack(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	for range 3000 {
		n := 1 + rng.IntN(block.Size)
		first := rng.Uint32N(1 << 30)
		share := 1 + rng.IntN(20)
		var rows []uint32
		for r := first; len(rows) < n; r++ {
			if rng.IntN(share) == 0 {
				rows = append(rows, r)
			}
		}
		last := rows[n-1]
		words := block.Words(first, last)
		b := block.AppendBits(nil, rows, first)
		if len(b) != 8*words {
			t.Fatalf("%d bytes for %d words", len(b), words)
		}
		var out block.Values
		var ranks [block.MaxWords]uint8
		if words > block.MaxWords {
			continue
		}
		if !block.Ranks(&ranks, b, n, first, last) {
			t.Fatalf("%d rows from %d are not those of their set", n, first)
		}
		if block.FromBits(&out, b, n, first); !slices.Equal(out[:n], rows) {
			t.Fatalf("%d rows from %d do not come back", n, first)
		}
		for i := n; i < block.Size; i++ {
			out[i] = 1<<32 - 1
		}
		for range 10 {
			r := first + rng.Uint32N(last-first+1)
			want, found := slices.BinarySearch(rows, r)
			if got, ok := block.Find(&ranks, b, r-first); got != want || ok != found {
				t.Fatalf("row %d is found at %d, %v", r, got, ok)
			}
			if got := block.LowerBound(&out, r); got != want {
				t.Fatalf("row %d is at %d, want %d", r, got, want)
			}
		}
		bad := slices.Clone(b)
		bad[rng.IntN(len(bad))] ^= 1 << rng.IntN(8)
		if block.Ranks(&ranks, bad, n, first, last) || words > 1 && block.Ranks(&ranks, b[8:], n, first, last) {
			t.Fatal("a bit or a word more or less is not seen")
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	rng := rand.New(rand.NewPCG(3, 1))
	for _, width := range []uint{1, 5, 11, 20} {
		v := make([]uint32, block.Size)
		for i := range v {
			v[i] = uint32(rng.Uint64() & (1<<width - 1))
		}
		p := slack(block.Append(nil, v, width), rng)
		var out block.Values
		b.Run(fmt.Sprintf("unpack/%d", width), func(b *testing.B) {
			for b.Loop() {
				block.Unpack(&out, p, block.Size, width)
			}
		})
		b.Run(fmt.Sprintf("sums/%d", width), func(b *testing.B) {
			for b.Loop() {
				block.Sums(&out, p, block.Size, width, 7)
			}
		})
	}
}

package code

import (
	"math"
	"testing"
)

// TestLevelsAreTheBest derives the levels again: each is the mean of a normal distribution between its borders, and borders
// lie in the middle (Lloyd's and Max's conditions).
func TestLevelsAreTheBest(t *testing.T) {
	density := func(x float64) float64 { return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) }
	below := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	for i, level := range normalLevels {
		lo, hi := 0.0, math.Inf(1)
		if i > 0 {
			lo = float64(normalBorders[i-1])
			if mid := float64(normalLevels[i-1]+level) / 2; math.Abs(mid-lo) > 2e-4 {
				t.Errorf("border %d is %v, want %v", i-1, lo, mid)
			}
		}
		if i < 7 {
			hi = float64(normalBorders[i])
		}
		if mean := (density(lo) - density(hi)) / (below(hi) - below(lo)); math.Abs(mean-float64(level)) > 2e-4 {
			t.Errorf("level %d is %v, want %v", i, level, mean)
		}
		if whole := int8(math.Round(float64(level) * 127 / float64(normalLevels[7]))); levels[8+i] != whole || levels[7-i] != -whole {
			t.Errorf("levels %d and %d are %d and %d, want %d", 8+i, 7-i, levels[8+i], levels[7-i], whole)
		}
	}
	for x := float32(0); x < 3; x += 1.0 / 1024 {
		want := uint8(0)
		for normalBorders[want] <= x {
			want++
		}
		got := cells[int(x*64)]
		if x >= normalBorders[got] {
			got++
		}
		if got != want {
			t.Fatalf("%v has level %d, want %d", x, got, want)
		}
	}
}

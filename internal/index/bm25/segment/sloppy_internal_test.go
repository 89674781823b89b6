package segment

import (
	"strings"
	"testing"
)

// TestSloppyFrequency holds phrases worked out by hand, also those in which a term stands twice. Places that touch count 1,
// a match of distance d counts 1/(1+d).
func TestSloppyFrequency(t *testing.T) {
	for _, c := range []struct {
		phrase, text string
		slop         int
		want         float32
	}{
		{"a b", "a b", 1, 1},
		{"a b", "a x b", 1, 0.5},
		{"a b", "a x x b", 1, 0},
		{"a b", "b a", 1, 0},
		{"a b", "b a", 2, 1.0 / 3},
		{"a b", "a b x a b", 1, 2},
		{"a b c", "a x b c", 1, 0.5},
		{"a b c", "a c b", 3, 1.0 / 3},
		{"a a", "a", 5, 0},
		{"a a", "a b a", 0, 0},
		{"a a", "a b a", 1, 0.5},
		{"a a", "a x a x a", 3, 1},
		{"a a", "a a a", 2, 2},
		{"a b a", "a b a", 1, 1},
		{"a b a", "a b x", 4, 0},
		{"a b a", "a x b a", 1, 0.5},
	} {
		at := map[string][]uint32{}
		for i, w := range strings.Fields(c.text) {
			at[w] = append(at[w], uint32(i))
		}
		number := map[string]int{}
		var slots []slot
		missing := false
		for i, w := range strings.Fields(c.phrase) {
			if _, ok := number[w]; !ok {
				number[w] = len(number)
			}
			missing = missing || at[w] == nil
			slots = append(slots, slot{list: number[w], offset: i, positions: at[w]})
		}
		if missing {
			if c.want != 0 {
				t.Errorf("%+v lacks a term", c)
			}
			continue
		}
		var m sloppyMatch
		m.prepare(slots)
		if got := m.freq(slots, c.slop); got != c.want {
			t.Errorf("%q near by %d in %q: %v, want %v", c.phrase, c.slop, c.text, got, c.want)
		}
	}
}

package analysis

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestMemoChangesNothing compares a stream that remembers with new ones that do not.
func TestMemoChangesNothing(t *testing.T) {
	a, err := Find("english")
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	words := []string{"The", "the", "running", "Running", "dog's", "dogs", "DOG’S", "naïvely", "a", "generalizations", "0", "x", "internationalizations", "ﬁt's"}
	for len(words) < 9000 {
		words = append(words, fmt.Sprintf("%s%xing", words[rng.IntN(14)], rng.IntN(3000)))
	}
	var old Stream
	for range 60000 {
		w := words[rng.IntN(len(words))]
		var fresh Stream
		old.Reset(a, w)
		fresh.Reset(a, w)
		if was, is := old.Next(), fresh.Next(); was != is || string(old.Term) != string(fresh.Term) || old.Position != fresh.Position {
			t.Fatalf("%s: %t %s@%d with a memo, %t %s@%d without", w, was, old.Term, old.Position, is, fresh.Term, fresh.Position)
		}
	}
	if old.memo == nil {
		t.Fatal("the stream has no memo")
	}
}

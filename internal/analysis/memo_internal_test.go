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

// TestTermMemoChangesNothing compares chains that remember with new ones that do not: the words change, vanish, are protected
// and grow too long for a slot.
func TestTermMemoChangesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	var words []string
	for range 3000 {
		words = append(words, fmt.Sprintf("%s%x%s", []string{"L'", "", "Über", "ß", "The", "x"}[rng.IntN(6)], rng.IntN(700), []string{"ing", "ÉS", "ßßßßßßßßßßßßß", "’s", "", "aaaaaaaaaaaaaaaaaaaaaaaaaa"}[rng.IntN(6)]))
	}
	words = append(words, "the", "a", "running", "\xff", "2", "x")
	for _, definition := range []string{"french", "german", "turkish", "tokenizer=whitespace, filters=lowercase|asciifolding|length(2, 12)|keyword_marker([running, xing])|stemmer",
		"tokenizer=whitespace, filters=keyword_repeat|lowercase|stemmer(light_french)|remove_duplicates", "tokenizer=whitespace, filters=lowercase|unique|reverse"} {
		a, err := Find(definition)
		if err != nil {
			t.Fatal(err)
		}
		var old Stream
		for range 12000 {
			text := words[rng.IntN(len(words))] + " " + words[rng.IntN(len(words))]
			var fresh Stream
			old.Reset(a, text)
			fresh.Reset(a, text)
			for more := true; more; {
				was, is := old.Next(), fresh.Next()
				if was != is || was && (string(old.Term) != string(fresh.Term) || old.Position != fresh.Position) {
					t.Fatalf("%s of %q: %t %s@%d with a memo, %t %s@%d without", definition, text, was, old.Term, old.Position, is, fresh.Term, fresh.Position)
				}
				more = was
			}
		}
		if m, ok := old.chain.(*mapping); ok && m.remember != (m.memo.slots != nil) {
			t.Errorf("%s remembers %t and has a memo %t", definition, m.remember, m.memo.slots != nil)
		}
	}
}

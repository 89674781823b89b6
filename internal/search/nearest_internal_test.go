package search

import (
	"slices"
	"testing"

	"github.com/overlakedb/overlake/internal/index/vector"
)

// TestEveryKindHasItsSpeed: a kind that is forgotten would be taken for the slowest.
func TestEveryKindHasItsSpeed(t *testing.T) {
	for _, k := range vector.Kinds {
		if !slices.Contains(fastest, k) {
			t.Errorf("%s is not among the fastest", k)
		}
	}
	if len(fastest) != len(vector.Kinds) {
		t.Errorf("%d kinds, of which %d are ordered by speed", len(vector.Kinds), len(fastest))
	}
}

package similarity_test

import (
	"testing"

	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
)

func TestLengthByte(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 1, 23: 23, 24: 24, 39: 39, 40: 40, 41: 40, 100: 96, 500: 472, 1000: 984, 10000: 9240} {
		if got := similarity.DecodeLength(similarity.EncodeLength(n)); got != want {
			t.Errorf("length %d reads back as %d, want %d", n, got, want)
		}
	}
	last := -1
	for n := range 100_000 {
		got := similarity.DecodeLength(similarity.EncodeLength(n))
		if got > n || got < last {
			t.Fatalf("length %d reads back as %d after %d", n, got, last)
		}
		last = got
	}
}

// TestGoldenScores are the two values that Elasticsearch's documentation publishes.
func TestGoldenScores(t *testing.T) {
	p := similarity.DefaultParams
	for _, c := range []struct {
		docs, sum, n int64
		length       int
		want         float32
	}{{1, 1, 1, 1, 0.2876821}, {5, 27, 1, 3, 1.6943598}} {
		inv := similarity.InverseNorms(p, similarity.AverageLength(c.docs, c.sum))
		w := similarity.Weight(p, 1, similarity.IDF(c.docs, c.n))
		if got := similarity.Score(w, 1, inv[similarity.EncodeLength(c.length)]); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

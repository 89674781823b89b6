package bits_test

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector/bits"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec"
)

func open(t testing.TB, positions []uint32, rows []byte, m vec.Metric, n int, covered int64) (*bits.Index, error) {
	t.Helper()
	var out bytes.Buffer
	w := section.NewWriter(&out)
	if err := bits.Write(w, positions, rows); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := section.Open(t.Context(), section.Memory(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return bits.Open(t.Context(), f, m, n, covered)
}

// TestSearchSortsEverything compares with all distances sorted: of positions with gaps, filtered, within a range.
func TestSearchSortsEverything(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n, count := 1+rng.IntN(200), rng.IntN(1500)
		width := bits.Width(n)
		draw := func() []byte {
			b := make([]byte, (n+7)/8)
			for i := range n {
				b[i/8] |= byte(rng.IntN(2)) * (0x80 >> (i % 8))
			}
			return b
		}
		var positions []uint32
		var rows []byte
		next := uint32(0)
		for range count {
			next += 1 + rng.Uint32N(3)
			positions = append(positions, next)
			rows = append(append(rows, draw()...), make([]byte, width-(n+7)/8)...)
		}
		metric := []vec.Metric{vec.MetricHamming, vec.MetricJaccard}[rng.IntN(2)]
		x, err := open(t, positions, rows, metric, n, int64(next)+1)
		if err != nil {
			t.Fatal(err)
		}
		query := draw()
		p := bits.Params{K: 1 + rng.IntN(30)}
		if rng.IntN(2) == 0 {
			p.Allowed = make([]uint64, 1+next/64)
			for i := range p.Allowed {
				p.Allowed[i] = rng.Uint64() & rng.Uint64()
			}
		}
		if rng.IntN(3) == 0 {
			p.K, p.Ranged, p.Within = rng.IntN(2)*20, true, float64(rng.IntN(n+1))/2
		}
		var want []bits.Hit
		for i, pos := range positions {
			row := rows[i*width : i*width+len(query)]
			d := float64(vec.Hamming(query, row))
			if metric == vec.MetricJaccard {
				d = vec.Jaccard(query, row)
			}
			if (p.Allowed == nil || p.Allowed[pos/64]>>(pos%64)&1 != 0) && (!p.Ranged || d < p.Within) {
				want = append(want, bits.Hit{Pos: pos, Distance: d})
			}
		}
		slices.SortFunc(want, func(a, b bits.Hit) int { return cmp.Or(cmp.Compare(a.Distance, b.Distance), cmp.Compare(a.Pos, b.Pos)) })
		if p.K > 0 {
			want = want[:min(p.K, len(want))]
		}
		got, _, err := x.Search(t.Context(), query, p)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%d bits, %s, %+v: %v (%v), want %v", n, metric, p, got, err, want)
		}
	}
}

// TestOpen refuses sections that do not fit each other.
func TestOpen(t *testing.T) {
	for name, c := range map[string]struct {
		positions []uint32
		rows      int
		n         int
		covered   int64
	}{
		"a row is missing": {[]uint32{1, 2}, 8, 60, 9}, "half a row": {[]uint32{1}, 12, 60, 9}, "no bits": {nil, 0, 0, 9},
		"not ascending": {[]uint32{2, 2}, 16, 60, 9}, "beyond the end": {[]uint32{2, 9}, 16, 60, 9}, "a row too long": {[]uint32{1}, 16, 60, 9},
	} {
		if _, err := open(t, c.positions, make([]byte, c.rows), vec.MetricHamming, c.n, c.covered); !errs.Is(err, errs.Corrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := open(t, nil, nil, vec.MetricL2, 60, 0); !errs.Is(err, errs.Unsupported) {
		t.Errorf("l2: %v", err)
	}
	x, err := open(t, []uint32{3}, make([]byte, 8), vec.MetricHamming, 60, 4)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		query []byte
		k     int
	}{{make([]byte, 8), 0}, {make([]byte, 9), 1}, {nil, 1}} {
		if _, _, err := x.Search(t.Context(), c.query, bits.Params{K: c.k}); !errs.Is(err, errs.Invalid) {
			t.Errorf("%d hits of %d bytes: %v", c.k, len(c.query), err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := x.Search(ctx, make([]byte, 8), bits.Params{K: 1}); !errs.Is(err, errs.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if hits, _, err := x.Search(t.Context(), make([]byte, 8), bits.Params{Ranged: true, Within: math.Inf(-1)}); err != nil || len(hits) > 0 {
		t.Errorf("nearer than all: %v %v", hits, err)
	}
}

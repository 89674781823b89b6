package flat_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector/flat"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec"
)

func write(t testing.TB, positions []uint32, rows []float32) []byte {
	t.Helper()
	var out bytes.Buffer
	w := section.NewWriter(&out)
	if err := flat.Write(w, positions, rows); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func open(b []byte, m vec.Metric, dim int, rows int64) (*flat.Index, error) {
	f, err := section.Open(context.Background(), section.Memory(b), int64(len(b)))
	if err != nil {
		return nil, err
	}
	x, err := flat.Open(context.Background(), f)
	if err != nil {
		return nil, err
	}
	return x, x.As(m, dim, rows)
}

// TestSearchSortsEverything compares with all distances sorted, over whole numbers, so that ties are many.
func TestSearchSortsEverything(t *testing.T) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		dim, n := 1+rng.IntN(20), rng.IntN(400)
		positions := make([]uint32, n)
		next := uint32(0)
		for i := range positions {
			next += 1 + rng.Uint32N(3)
			positions[i] = next - 1
		}
		rows := make([]float32, n*dim)
		for i := range rows {
			rows[i] = float32(rng.IntN(5) - 2)
		}
		query := make([]float32, dim)
		for i := range query {
			query[i] = float32(rng.IntN(5) - 2)
		}
		metric := []vec.Metric{vec.MetricL2, vec.MetricDot, vec.MetricL1, vec.MetricCosine}[rng.IntN(4)]
		var allowed []uint64
		if rng.IntN(2) == 0 {
			allowed = make([]uint64, rng.IntN(int(next)/64+2))
			for i := range allowed {
				allowed[i] = rng.Uint64()
			}
		}
		var want []flat.Hit
		for i, p := range positions {
			if allowed != nil && (int(p/64) >= len(allowed) || allowed[p/64]>>(p%64)&1 == 0) {
				continue
			}
			v := rows[i*dim:][:dim]
			h := flat.Hit{Pos: p}
			switch metric {
			case vec.MetricL2:
				h.Distance = vec.SquaredL2(query, v)
			case vec.MetricL1:
				h.Distance = float32(vec.L1(query, v))
			case vec.MetricDot:
				h.Distance = -vec.Dot(query, v)
			case vec.MetricCosine:
				h.Distance = 1 - vec.Dot(query, v)
			}
			want = append(want, h)
		}
		slices.SortFunc(want, flat.Compare)
		k := 1 + rng.IntN(60)
		x, err := open(write(t, positions, rows), metric, dim, int64(next))
		if err != nil {
			t.Fatal(err)
		}
		got, done, err := x.Search(ctx, query, flat.Params{K: k, Allowed: allowed})
		if err != nil || int(done) != len(want) {
			t.Fatalf("%d distances of %d, %v", done, len(want), err)
		}
		if want = want[:min(k, len(want))]; !slices.Equal(got, want) {
			t.Fatalf("%v: %v, want %v", metric, got, want)
		}
	}
}

func TestBadQuestions(t *testing.T) {
	x, err := open(write(t, []uint32{0, 2}, []float32{1, 2, 3, 4}), vec.MetricL2, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := x.Search(context.Background(), []float32{1}, flat.Params{K: 1}); !errs.Is(err, errs.Invalid) {
		t.Error("a short query:", err)
	}
	if _, _, err := x.Search(context.Background(), []float32{1, 2}, flat.Params{}); !errs.Is(err, errs.Invalid) {
		t.Error("no hits:", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := x.Search(ctx, []float32{1, 2}, flat.Params{K: 1}); !errs.Is(err, errs.Canceled) {
		t.Error("cancelled:", err)
	}
}

func TestWrongSections(t *testing.T) {
	for name, b := range map[string][]byte{
		"too few elements":       write(t, []uint32{0, 2}, []float32{1, 2, 3}),
		"another dimension":      write(t, []uint32{0}, []float32{1, 2, 3, 4}),
		"a position twice":       write(t, []uint32{1, 1}, []float32{1, 2, 3, 4}),
		"a position of no row":   write(t, []uint32{1, 3}, []float32{1, 2, 3, 4}),
		"positions that descend": write(t, []uint32{2, 1}, []float32{1, 2, 3, 4}),
	} {
		if _, err := open(b, vec.MetricL2, 2, 3); !errs.Is(err, errs.Corrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

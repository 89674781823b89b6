package lists_test

import (
	"slices"
	"testing"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector/lists"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec"
)

// answers are those of some searches of an artifact.
func answers(t *testing.T, artifact []byte, resident bool, query []float32) ([][]lists.Hit, error) {
	x, err := tryOpen(t.Context(), section.Memory(artifact), len(artifact), resident)
	if err != nil {
		return nil, err
	}
	var all [][]lists.Hit
	for _, p := range []lists.Params{{K: 5}, {K: 50, Probes: 1}, {K: 3, Exact: true}, {K: 4, Allowed: []uint64{0xf0f0}}, {Within: 3}} {
		hits, _, err := x.Search(t.Context(), query, p)
		if err != nil {
			return nil, err
		}
		all = append(all, hits)
	}
	return all, nil
}

// TestEveryByteIsChecked flips each byte of artifacts, and cuts them: an error, or the right answer.
func TestEveryByteIsChecked(t *testing.T) {
	g := newClusters(31, 5, 4)
	of := dense(5, g.draw(40))
	of.positions[39] = 50
	query := g.draw(1)
	for name, o := range forms(vec.MetricL2, 5) {
		if name != "bit+byte" && name != "4+float" && name != "float" && name != "byte" {
			continue // the others have nothing that these have not
		}
		o.Lists = 3
		artifact, _ := build(t, o, of)
		for _, resident := range []bool{true, false} {
			want, err := answers(t, artifact, resident, query)
			if err != nil {
				t.Fatal(err)
			}
			failed := 0
			check := func(what string, at int, b []byte) {
				t.Helper()
				got, err := answers(t, b, resident, query)
				if err != nil {
					if failed++; !errs.Is(err, errs.Corrupt) && !errs.Is(err, errs.Unsupported) {
						t.Fatalf("%s, %s %d: %v", name, what, at, err)
					}
					return
				}
				for i := range got {
					if !same(got[i], want[i], 0) {
						t.Fatalf("%s, resident %v, %s %d: search %d gives %v, want %v", name, resident, what, at, i, got[i], want[i])
					}
				}
			}
			for i := range artifact {
				bad := slices.Clone(artifact)
				bad[i] ^= 1 << (i % 8)
				check("byte", i, bad)
			}
			if failed < len(artifact)/2 {
				t.Errorf("%s: of %d flipped bytes, %d were seen", name, len(artifact), failed)
			}
			for n := 0; n < len(artifact); n += 7 {
				check("cut to", n, artifact[:n])
			}
		}
	}
}

package lists

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/overlakedb/overlake/internal/checksum"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/code"
)

var allKinds = [8]section.Kind{kindParams, kindCentroids, kindRoutes, kindDirectory, kindLists, kindRerank, kindPlaces, kindPositions}

// artifacts are the sections of some small indexes.
func artifacts(t testing.TB) (all [][8][]byte) {
	for _, o := range []Options{
		{Dim: 2}, {Dim: 3, Code: code.Bit1, Rerank: code.TQ8}, {Dim: 2, Code: code.TQ4, Metric: vec.MetricDot}, {Dim: 1, Code: code.TQ8, NoRerank: true},
		{Dim: 3, Code: code.Bit1, NoRerank: true, Metric: vec.MetricCosine}, {Dim: 2, Metric: vec.MetricL1}, {Dim: 2, Code: code.Bit1, Rerank: code.TQ4},
	} {
		o.Lists = 3
		b, err := NewBuilder(o)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 9 {
			row := make([]float32, o.Dim)
			for k := range row {
				row[k] = float32((i*7 + k*3) % 5)
			}
			if err := b.Add(t.Context(), []uint32{uint32(i * (1 + o.Dim/3))}, row); err != nil {
				t.Fatal(err)
			}
		}
		var out bytes.Buffer
		w := section.NewWriter(&out)
		if _, err := b.Finish(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		w.Close()
		file, err := section.Open(t.Context(), section.Memory(out.Bytes()), int64(out.Len()))
		if err != nil {
			t.Fatal(err)
		}
		var parts [8][]byte
		for i, k := range allKinds {
			if _, ok := file.Find(k); ok {
				if parts[i], err = file.Load(t.Context(), k); err != nil {
					t.Fatal(err)
				}
			}
		}
		all = append(all, parts)
	}
	return all
}

// FuzzOpen gives Open any sections under right checksums, so that what lies behind them is reached too.
func FuzzOpen(f *testing.F) {
	for _, p := range artifacts(f) {
		f.Add(p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], uint8(0xff))
	}
	f.Fuzz(func(t *testing.T, a, b, c, d, e, g, h, i []byte, which uint8) {
		try(t, [8][]byte{a, b, c, bytes.Clone(d), e, g, h, i}, which)
	})
}

// TestMutations does so for random changes of small indexes.
func TestMutations(t *testing.T) {
	n := 4000
	if os.Getenv("OVERLAKE_DEEP") != "" {
		n = 400_000
	}
	rng := rand.New(rand.NewPCG(41, 42))
	seeds := artifacts(t)
	for range n {
		parts := seeds[rng.IntN(len(seeds))]
		for range 1 + rng.IntN(3) {
			p := &parts[rng.IntN(8)]
			*p = bytes.Clone(*p)
			if len(*p) == 0 {
				continue
			}
			at := rng.IntN(len(*p))
			switch rng.IntN(6) {
			case 0:
				(*p)[at] ^= 1 << rng.IntN(8)
			case 1:
				(*p)[at] = byte(rng.Uint32())
			case 2: // not a number, infinite, or large
				if at &^= 3; at+4 > len(*p) {
					continue
				}
				binary.LittleEndian.PutUint32((*p)[at:], []uint32{0x7fc00000, 0x7f800000, 0xff800000, 0x7f7fffff, 0xffffffff}[rng.IntN(5)])
			case 3:
				*p = (*p)[:at]
			case 4:
				*p = append(*p, (*p)[:at]...)
			case 5:
				clear((*p)[at:min(at+8, len(*p))])
			}
		}
		try(t, parts, 0xff)
	}
}

// try opens an index of sections, and searches it.
func try(t *testing.T, parts [8][]byte, which uint8) {
	t.Helper()
	// The sums of lists are made right.
	if p, err := decodeParams(parts[0]); err == nil && len(parts[3]) == entrySize*p.lists {
		if c, err := newCoders(p); err == nil {
			l := newLayout(c)
			at := int64(0)
			for n := range p.lists {
				size := l.piece(int(binary.LittleEndian.Uint32(parts[3][entrySize*n:])))
				if at+size > int64(len(parts[4])) {
					break
				}
				binary.LittleEndian.PutUint32(parts[3][entrySize*n+4:], checksum.Of(parts[4][at:at+size]))
				at += size
			}
		}
	}
	var out bytes.Buffer
	w := section.NewWriter(&out)
	for n, k := range allKinds {
		if which>>n&1 != 0 {
			w.Begin(k)
			w.Write(parts[n])
		}
	}
	w.Close()
	ctx := t.Context()
	file, err := section.Open(ctx, section.Memory(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	for _, resident := range []bool{true, false} {
		x, err := Open(ctx, file, OpenOptions{Resident: resident})
		if err == nil {
			query := make([]float32, x.Dim())
			for n := range query {
				query[n] = float32(n)
			}
			for _, p := range []Params{
				{K: 2}, {K: 100, Probes: 1}, {K: 3, Allowed: []uint64{0x5f5f, 1}}, {K: 3, Exact: true}, {Within: 2}, {K: 2, Within: -1, Exact: true},
			} {
				var hits []Hit
				if hits, _, err = x.Search(ctx, query, p); err != nil {
					break
				}
				for _, hit := range hits {
					if math.IsNaN(float64(hit.Distance)) {
						t.Fatalf("%v", hit)
					}
				}
			}
		}
		if err != nil && !errs.Is(err, errs.Corrupt) && !errs.Is(err, errs.Unsupported) {
			t.Fatalf("%v", err)
		}
	}
}

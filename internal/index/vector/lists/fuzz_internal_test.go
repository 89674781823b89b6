package lists

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math"
	"testing"

	"github.com/overlakedb/overlake/internal/checksum"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/code"
)

type bytesSource []byte

func (m bytesSource) ReadAtContext(_ context.Context, p []byte, off int64) (int, error) {
	if off < 0 || off > int64(len(m)) {
		return 0, io.EOF
	}
	n := copy(p, m[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// FuzzOpen gives Open any sections under right checksums, so that what lies behind them is reached too.
func FuzzOpen(f *testing.F) {
	kinds := []section.Kind{kindParams, kindCentroids, kindRoutes, kindDirectory, kindLists, kindRerank, kindPlaces, kindPositions}
	for _, o := range []Options{
		{Dim: 2}, {Dim: 3, Code: code.Bit1, Rerank: code.TQ8}, {Dim: 2, Code: code.TQ4, Metric: vec.MetricDot}, {Dim: 1, Code: code.TQ8, NoRerank: true},
		{Dim: 3, Code: code.Bit1, NoRerank: true, Metric: vec.MetricCosine}, {Dim: 2, Metric: vec.MetricL1}, {Dim: 2, Code: code.Bit1, Rerank: code.TQ4},
	} {
		o.Lists = 3
		b, err := NewBuilder(o)
		if err != nil {
			f.Fatal(err)
		}
		for i := range 9 {
			row := make([]float32, o.Dim)
			for k := range row {
				row[k] = float32((i*7 + k*3) % 5)
			}
			if err := b.Add(f.Context(), []uint32{uint32(i * (1 + o.Dim/3))}, row); err != nil {
				f.Fatal(err)
			}
		}
		var out bytes.Buffer
		w := section.NewWriter(&out)
		if _, err := b.Finish(f.Context(), w); err != nil {
			f.Fatal(err)
		}
		w.Close()
		file, err := section.Open(f.Context(), bytesSource(out.Bytes()), int64(out.Len()))
		if err != nil {
			f.Fatal(err)
		}
		var parts [8][]byte
		for i, k := range kinds {
			if _, ok := file.Find(k); ok {
				if parts[i], err = file.Load(f.Context(), k); err != nil {
					f.Fatal(err)
				}
			}
		}
		f.Add(parts[0], parts[1], parts[2], parts[3], parts[4], parts[5], parts[6], parts[7], uint8(0xff))
	}
	f.Fuzz(func(t *testing.T, a, b, c, d, e, g, h, i []byte, which uint8) {
		parts := [8][]byte{a, b, c, bytes.Clone(d), e, g, h, i}
		// The sums of lists are made right.
		if p, err := decodeParams(a); err == nil && len(d) == entrySize*p.lists {
			if c, err := newCoders(p); err == nil {
				l := newLayout(c)
				at := int64(0)
				for n := range p.lists {
					size := l.piece(int(binary.LittleEndian.Uint32(d[entrySize*n:])))
					if at+size > int64(len(e)) {
						break
					}
					binary.LittleEndian.PutUint32(parts[3][entrySize*n+4:], checksum.Of(e[at:at+size]))
					at += size
				}
			}
		}
		var out bytes.Buffer
		w := section.NewWriter(&out)
		for n, k := range kinds {
			if which>>n&1 != 0 {
				w.Begin(k)
				w.Write(parts[n])
			}
		}
		w.Close()
		ctx := t.Context()
		file, err := section.Open(ctx, bytesSource(out.Bytes()), int64(out.Len()))
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
	})
}

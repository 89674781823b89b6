package datafile

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
)

// counted counts reads.
type counted struct {
	io.ReaderAt
	reads atomic.Int64
}

func (c *counted) ReadAt(p []byte, off int64) (int, error) {
	c.reads.Add(1)
	return c.ReaderAt.ReadAt(p, off)
}

// TestKeptPagesGiveTheSame fetches rows of every type in every encoding with pages that are kept and without: the first time,
// when they are read, and again, when nothing is read any more.
func TestKeptPagesGiveTheSame(t *testing.T) {
	const rows = 1000
	seed := uint64(0)
	for _, typ := range append(ownTypes(), ownStructs()...) {
		for _, e := range encodings(typ) {
			for _, p := range []nullPattern{"required", "some", "all"} {
				seed++
				t.Run(fmt.Sprintf("%s/%s/%s", typ, e, p), func(t *testing.T) {
					rng := rand.New(rand.NewPCG(seed, 8))
					c := column(typ, rows, p, e == parquet.Encodings.RLEDict, rng)
					data := foreign(t, c, p != "required", e, parquet.WithDataPageVersion(parquet.DataPageV2), parquet.WithCompression(compress.Codecs.Zstd))
					src := &counted{ReaderAt: bytes.NewReader(data)}
					plain, err := Open(src, int64(len(data)))
					if err != nil {
						t.Fatal(err)
					}
					kept := plain.Keep(NewPages(1 << 20))
					for range 5 {
						positions := make([]int64, 1+rng.IntN(20))
						for i := range positions {
							positions[i] = rng.Int64N(rows)
						}
						want, err := plain.Fetch(t.Context(), positions, nil)
						if err != nil {
							t.Fatal(err)
						}
						for again := range 3 {
							before := src.reads.Load()
							got, err := kept.On(src).Fetch(t.Context(), positions, nil)
							if err != nil {
								t.Fatal(err)
							}
							if !same(got.Column(0), want.Column(0)) {
								t.Fatalf("seed %d, rows %v, time %d: %v, want %v", seed, positions, again+1, got.Column(0), want.Column(0))
							}
							if n := src.reads.Load() - before; n > 0 && again > 0 {
								t.Fatalf("%d reads, although all was read before", n)
							}
							got.Release()
						}
						want.Release()
					}
				})
			}
		}
	}
}

// TestKeptPagesAreBounded: what is kept does not grow beyond what there is room for, large fetches leave nothing behind, and
// files do not get each other's pages. Fetches go on at once.
func TestKeptPagesAreBounded(t *testing.T) {
	const rows, limit = 4000, 64 << 10
	pages := NewPages(limit)
	var files []*File
	var columns []arrow.Array
	for i := range 4 {
		rng := rand.New(rand.NewPCG(uint64(i), 9))
		c := column(arrow.PrimitiveTypes.Int64, rows, "some", false, rng)
		data := foreign(t, c, true, parquet.Encodings.Plain, parquet.WithCompression(compress.Codecs.Zstd))
		f, err := Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		files, columns = append(files, f.Keep(pages)), append(columns, c)
	}
	all := make([]int64, rows)
	for i := range all {
		all[i] = int64(i)
	}
	rec, err := files[0].Fetch(t.Context(), all, nil)
	if err != nil {
		t.Fatal(err)
	}
	rec.Release()
	if n := pages.by.Bytes(); n != 0 {
		t.Errorf("a fetch of all rows left %d bytes", n)
	}
	var g sync.WaitGroup
	for k := range 8 {
		g.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(k), 10))
			for range 200 {
				i := rng.IntN(len(files))
				at := []int64{rng.Int64N(rows), rng.Int64N(rows)}
				rec, err := files[i].Fetch(t.Context(), at, nil)
				if err != nil {
					t.Error(err)
					return
				}
				for j, p := range at {
					if got, want := rec.Column(0).ValueStr(j), columns[i].ValueStr(int(p)); got != want {
						t.Errorf("row %d of file %d is %s, want %s", p, i, got, want)
					}
				}
				rec.Release()
			}
		})
	}
	g.Wait()
	if n := pages.by.Bytes(); n > limit || n == 0 {
		t.Errorf("%d bytes are kept, there is room for %d", n, limit)
	}
}

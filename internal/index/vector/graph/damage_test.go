package graph_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector/graph"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/code"
)

// small are artifacts of few bytes, each with every section that its kind has.
func small(t testing.TB) (files [][]byte, of []*data) {
	for _, kind := range []code.Kind{code.Float32, code.TQ8, code.TQ4} {
		d := mixture(11, vec.MetricCosine, 40, 3, 3)
		copy(d.row(3), d.row(4)) // two rows of a node
		clear(d.row(9))          // and one of none
		file, stats := d.write(t, graph.Options{M: 2, EfConstruction: 8, Code: kind, Floats: true, Seed: 3, Workers: 1})
		if stats.TopLevel < 2 || stats.Nodes != 38 || stats.Rows != 40 {
			t.Fatalf("%+v", stats)
		}
		files, of = append(files, file), append(of, d)
	}
	return files, of
}

// ask searches in every way; hits must be rows, each once and allowed, and as many as there are.
func ask(t *testing.T, x *graph.Index, query []float32) [][]graph.Hit {
	t.Helper()
	odd := []uint64{0xaaaaaaaaaaaaaaaa, 0xaaaaaaaaaaaaaaaa}
	var all [][]graph.Hit
	for _, way := range []string{"", graph.StrategyGraph, graph.StrategyTwoHop} {
		x := x.Force(way)
		for _, p := range []graph.Params{{K: 5}, {K: 100}, {K: 5, Ef: 3, Allowed: odd}, {K: 3, Exact: true, Allowed: odd}, {Within: 0.5}, {Within: 0.5, Allowed: odd}} {
			hits, _, err := x.Search(context.Background(), query[:min(len(query), x.Dim())], p)
			if err != nil {
				if len(query) < x.Dim() && errs.Is(err, errs.Invalid) {
					continue
				}
				t.Fatalf("%+v: %v", p, err)
			}
			seen := map[uint32]bool{}
			for _, h := range hits {
				if seen[h.Pos] || p.Allowed != nil && h.Pos%2 == 0 {
					t.Fatalf("%+v: row %d may not be a hit", p, h.Pos)
				}
				seen[h.Pos] = true
			}
			if p.K == 100 && int64(len(hits)) != x.Rows() {
				t.Fatalf("%d hits of %d rows", len(hits), x.Rows())
			}
			all = append(all, hits)
		}
	}
	return all
}

func same(a, b [][]graph.Hit) bool {
	return slices.EqualFunc(a, b, func(a, b []graph.Hit) bool {
		return slices.EqualFunc(a, b, func(a, b graph.Hit) bool { return a.Pos == b.Pos && compare(a.Distance, b.Distance) == 0 })
	})
}

// TestEveryByteIsChecked flips each byte and cuts at each: the artifact does not open or answers as before.
func TestEveryByteIsChecked(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	files, of := small(t)
	for n, file := range files {
		x, err := open(file)
		if err != nil {
			t.Fatal(err)
		}
		query := of[n].queries[0]
		want := ask(t, x, query)
		opened := 0
		for i := range file {
			bad := slices.Clone(file)
			bad[i] ^= 1 << rng.IntN(8)
			x, err := open(bad)
			if err != nil {
				if !errs.Is(err, errs.Corrupt) && !errs.Is(err, errs.Unsupported) {
					t.Fatalf("byte %d: %v", i, err)
				}
				continue
			}
			opened++
			if !same(want, ask(t, x, query)) {
				t.Errorf("byte %d was flipped, and answers differ", i)
			}
		}
		if opened > len(file)/3 { // the head and what lies between sections
			t.Errorf("of %d flipped bytes %d were not seen", len(file), opened)
		}
		for i := range file {
			if _, err := open(file[:i]); err == nil {
				t.Errorf("cut to %d bytes it opens", i)
			}
		}
	}
}

// sections takes an artifact apart, and join puts one together with right checksums.
func sections(t testing.TB, file []byte) (kinds []section.Kind, parts map[section.Kind][]byte) {
	ctx := context.Background()
	f, err := section.Open(ctx, section.Memory(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	parts = map[section.Kind][]byte{}
	for _, s := range f.Sections() {
		kinds = append(kinds, s.Kind)
		if parts[s.Kind], err = f.Load(ctx, s.Kind); err != nil {
			t.Fatal(err)
		}
	}
	return kinds, parts
}

func join(kinds []section.Kind, parts map[section.Kind][]byte) []byte {
	var out bytes.Buffer
	w := section.NewWriter(&out)
	for _, k := range kinds {
		w.Begin(k)
		w.Write(parts[k])
	}
	w.Close()
	return out.Bytes()
}

// TestCraftedBytes changes each byte of each section and makes the checksums right again: no search panics or gives what is
// no row.
func TestCraftedBytes(t *testing.T) {
	files, of := small(t)
	for n, file := range files {
		kinds, parts := sections(t, file)
		refused := map[section.Kind]int{}
		for _, k := range kinds {
			b := parts[k]
			for i := range b {
				was := b[i]
				for _, v := range []byte{0, 1, 0x7f, 0xff} {
					b[i] = v
					if v == 1 {
						b[i] = was ^ 1
					}
					x, err := open(join(kinds, parts))
					if err != nil {
						refused[k]++
						continue
					}
					if v == 0xff || i%4 == 0 {
						ask(t, x, append(of[n].queries[0], of[n].queries[1]...))
					}
				}
				b[i] = was
			}
			cut := b[:max(len(b)-4, 0)]
			parts[k] = cut
			if _, err := open(join(kinds, parts)); err == nil && len(b) > 0 {
				t.Errorf("section %d without its last bytes opens", k)
			}
			parts[k] = b
			if _, err := open(join(slices.DeleteFunc(slices.Clone(kinds), func(o section.Kind) bool { return o == k }), parts)); err == nil {
				t.Errorf("it opens without section %d", k)
			}
		}
		for _, k := range kinds[:6] {
			if refused[k] == 0 {
				t.Errorf("section %d takes any byte", k)
			}
		}
	}
}

func FuzzOpen(f *testing.F) {
	files, of := small(f)
	for i := range files {
		_, parts := sections(f, files[i])
		f.Add(uint8(i), parts[100], uint32(5), uint32(0xffff), uint32(77), uint32(3))
		f.Add(uint8(i), parts[100], uint32(4000), uint32(1), uint32(900), uint32(0xffffffff))
	}
	f.Fuzz(func(t *testing.T, which uint8, params []byte, at1, v1, at2, v2 uint32) {
		n := int(which) % len(files)
		kinds, parts := sections(t, files[n])
		if len(params) > 0 {
			parts[100] = params
		}
		total := 0
		for _, k := range kinds[1:] {
			total += len(parts[k]) / 4
		}
		for _, e := range [][2]uint32{{at1, v1}, {at2, v2}} {
			at := int(e[0]) % total
			for _, k := range kinds[1:] {
				if at < len(parts[k])/4 {
					parts[k][4*at], parts[k][4*at+1], parts[k][4*at+2], parts[k][4*at+3] = byte(e[1]), byte(e[1]>>8), byte(e[1]>>16), byte(e[1]>>24)
					break
				}
				at -= len(parts[k]) / 4
			}
		}
		x, err := open(join(kinds, parts))
		if err != nil {
			return
		}
		ask(t, x, append(of[n].queries[0], of[n].queries[1]...))
	})
}

package lists_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector/lists"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/code"
)

// spill is a place for temporary files that counts those that are open, and fails on demand.
type spill struct {
	dir     string
	open    atomic.Int64
	written atomic.Int64
	fail    int64 // writes from this one on fail; 0: none
	flip    bool  // reads give wrong bytes
	short   bool  // reads end early
}

type spilled struct {
	*os.File
	s *spill
}

func (s *spill) file() (lists.SpillFile, error) {
	f, err := os.CreateTemp(s.dir, "lists")
	if err != nil {
		return nil, err
	}
	os.Remove(f.Name())
	s.open.Add(1)
	return &spilled{f, s}, nil
}

var errDisk = errors.New("the disk is full")

func (f *spilled) Write(p []byte) (int, error) {
	if n := f.s.written.Add(1); f.s.fail > 0 && n >= f.s.fail {
		return 0, errDisk
	}
	return f.File.Write(p)
}

func (f *spilled) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	if f.s.flip && n > 0 {
		p[n/2] ^= 4
	}
	if f.s.short && n > 0 {
		return n - 1, nil
	}
	return n, err
}

func (f *spilled) Close() error {
	f.s.open.Add(-1)
	return f.File.Close()
}

// TestSpill: what does not fit into memory goes to files, and the artifact is the same, whatever the memory and the number
// of workers.
func TestSpill(t *testing.T) {
	const dim = 64
	g := newClusters(21, dim, 50)
	of := dense(dim, g.draw(20000))
	for name, o := range forms(vec.MetricL2, dim) {
		if name != "bit+byte" && name != "4+float" {
			continue
		}
		o.Workers, o.Lists = 1, 100
		want, stats := build(t, o, of)
		if stats.Spilled != 0 {
			t.Fatalf("%s: %d bytes were spilled", name, stats.Spilled)
		}
		o.Workers = 4
		if got, _ := build(t, o, of); !bytes.Equal(got, want) {
			t.Errorf("%s: four workers build another index", name)
		}
		s := &spill{dir: t.TempDir()}
		o.Memory, o.Spill = 4<<20, s.file
		got, stats := build(t, o, of)
		if stats.Spilled < 4<<20 || s.open.Load() != 0 {
			t.Errorf("%s: %d bytes were spilled, %d files are open", name, stats.Spilled, s.open.Load())
		}
		x := open(t, got, true)
		if x.Rows() != 20000 {
			t.Fatalf("%s: %d rows", name, x.Rows())
		}
		queries, found := g.draw(30), 0
		for i := 0; i < len(queries); i += dim {
			q := queries[i:][:dim]
			hits, _ := search(t, x, q, lists.Params{K: 10})
			sound(t, name, hits, of, 10, nil)
			found += overlap(hits, flat(of, vec.MetricL2, q, 10, nil), of, vec.MetricL2, q)
		}
		if found < 270 {
			t.Errorf("%s: after spilling, %d of 300 neighbours are found", name, found)
		}
		o.Spill = nil
		if _, _, err := tryBuild(t.Context(), o, of); !errs.Is(err, errs.Exhausted) {
			t.Errorf("%s: without room: %v", name, err)
		}
	}
}

// TestTwoSteps: centroids of many lists are found in two steps, and searches find as much.
func TestTwoSteps(t *testing.T) {
	const dim = 32
	g := newClusters(22, dim, 100)
	of := dense(dim, g.draw(12000))
	queries := g.draw(50)
	recall := func() (found int, lists_ int) {
		o := lists.Default(vec.MetricL2, dim)
		o.Lists = 300
		artifact, stats := build(t, o, of)
		x := open(t, artifact, true)
		for i := 0; i < len(queries); i += dim {
			q := queries[i:][:dim]
			hits, _ := search(t, x, q, lists.Params{K: 10, Probes: 12, Rerank: 150})
			found += overlap(hits, flat(of, vec.MetricL2, q, 10, nil), of, vec.MetricL2, q)
		}
		return found, stats.Lists
	}
	one, n := recall()
	defer lists.SetFlatLists(lists.SetFlatLists(50))
	two, m := recall()
	t.Logf("%d of 500 by %d lists in one step, %d by %d in two", one, n, two, m)
	if two < one-15 || two < 450 || m < 200 || m > 500 {
		t.Errorf("%d of 500 by %d lists in one step, %d by %d in two", one, n, two, m)
	}
}

// TestKilled cancels a build at many places, and fails its files.
func TestKilled(t *testing.T) {
	const dim = 48
	g := newClusters(23, dim, 20)
	of := dense(dim, g.draw(20000))
	s := &spill{dir: t.TempDir()}
	o := lists.Default(vec.MetricL2, dim)
	o.Lists, o.Memory, o.Spill, o.Workers = 40, 4<<20, s.file, 2
	steps := 0
	last := int64(-1)
	o.Progress = func(done, total int64) {
		if steps++; done < last || done > total {
			t.Errorf("progress goes from %d to %d of %d", last, done, total)
		}
		last = done
	}
	want, _ := build(t, o, of)
	if steps < 20 || last == 0 {
		t.Fatalf("%d steps of progress", steps)
	}
	for i := range 12 {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		o.Progress = func(done, total int64) {
			if n++; n == 1+i*steps/12 {
				cancel()
			}
		}
		if _, _, err := tryBuild(ctx, o, of); !errs.Is(err, errs.Canceled) {
			t.Errorf("canceled at step %d of %d: %v", n, steps, err)
		}
		cancel()
		if n := s.open.Load(); n != 0 {
			t.Fatalf("%d files are open", n)
		}
	}
	o.Progress = nil
	writes := s.written.Load() / 12
	for i := range int64(6) {
		s.written.Store(0)
		s.fail = 1 + i*writes/12
		if _, _, err := tryBuild(t.Context(), o, of); !errors.Is(err, errDisk) {
			t.Errorf("write %d fails: %v", s.fail, err)
		}
	}
	s.fail, s.flip = 0, true
	if _, _, err := tryBuild(t.Context(), o, of); !errs.Is(err, errs.Corrupt) {
		t.Errorf("a spill file that changed: %v", err)
	}
	s.flip, s.short = false, true
	if _, _, err := tryBuild(t.Context(), o, of); !errs.Is(err, errs.Corrupt) {
		t.Errorf("a spill file that was cut: %v", err)
	}
	s.short = false
	if n := s.open.Load(); n != 0 {
		t.Errorf("%d files are open", n)
	}
	again, _ := build(t, o, of)
	if !bytes.Equal(again, want) {
		t.Error("another build gives other bytes")
	}
	b, err := lists.NewBuilder(o)
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	b.Close()
	if err := b.Add(t.Context(), []uint32{1}, make([]float32, dim)); !errs.Is(err, errs.Invalid) {
		t.Errorf("rows for a closed builder: %v", err)
	}
	if _, err := b.Finish(t.Context(), section.NewWriter(new(bytes.Buffer))); !errs.Is(err, errs.Invalid) {
		t.Errorf("a closed builder is finished: %v", err)
	}
}

// TestMemory watches the heap while much more than fits is built.
func TestMemory(t *testing.T) {
	const dim, n, memory = 256, 60000, 16 << 20 // 61 MB of rows
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	rng := rand.New(rand.NewPCG(24, 25))
	s := &spill{dir: t.TempDir()}
	o := lists.Default(vec.MetricL2, dim)
	o.Rerank = code.Float32
	o.Memory, o.Spill, o.Workers = memory, s.file, 2
	held := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, most, calls := held(), uint64(0), 0
	o.Progress = func(done, total int64) {
		if calls++; calls%40 == 0 {
			most = max(most, held())
		}
	}
	b, err := lists.NewBuilder(o)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for from := 0; from < n; from += 500 {
		positions := make([]uint32, 500)
		for i := range positions {
			positions[i] = uint32(from + i)
		}
		rows := make([]float32, 500*dim)
		for i := range rows {
			rows[i] = rng.Float32()
		}
		if err := b.Add(t.Context(), positions, rows); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.CreateTemp(t.TempDir(), "artifact")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	stats, err := b.Finish(t.Context(), section.NewWriter(f))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.1f MB held in a build of %d MB, %+v", float64(most-before)/1e6, memory/1000000, stats)
	if calls < 400 || most-before > memory+12*n+2<<20 {
		t.Errorf("%.1f MB held, %d may be, %d looks", float64(most-before)/1e6, memory, calls/40)
	}
}

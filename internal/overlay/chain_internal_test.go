package overlay

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
)

// chainGrow publishes versions that add a definition each, until there are n.
func chainGrow(t testing.TB, store objstore.Store, n int64) {
	t.Helper()
	c := OpenChain(store, "o")
	for {
		v, err := c.Update(t.Context(), store, func(v *Version) (Edit, error) {
			if v.Number >= n {
				return Edit{}, nil
			}
			id := fmt.Sprintf("i%d", v.Number)
			return Edit{AddDefinitions: []Definition{{ID: id, Name: id, Kind: "bitmap"}}}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if v.Number >= n {
			return
		}
	}
}

func chainAt(t testing.TB, c *Chain) int64 {
	t.Helper()
	v, err := c.Load(t.Context())
	if err != nil || len(v.Damage) > 0 {
		t.Fatal(err, v.Damage)
	}
	return v.Number
}

func chainAdd(v *Version) (Edit, error) {
	return Edit{AddDefinitions: []Definition{{ID: fmt.Sprintf("late%d", v.Number), Name: "late", Kind: "bitmap"}}}, nil
}

// TestSleeper: a process that sleeps while versions come and are collected takes its old version for the newest for a minute at
// most, and cannot publish on it although the number after it is free.
func TestSleeper(t *testing.T) {
	for _, at := range []int64{0, 3} {
		store := objstore.NewMemory("t")
		chainGrow(t, store, at)
		var now time.Time
		c := OpenChain(store, "o")
		c.now = func() time.Time { return now }
		now = time.Now()
		if n := chainAt(t, c); n != at {
			t.Fatalf("it is version %d", n)
		}
		chainGrow(t, store, 30)
		if _, err := OpenChain(store, "o").Collect(t.Context(), store, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Stat(t.Context(), fmt.Sprintf("o/v%d.json", at+1)); !errs.Is(err, errs.NotFound) {
			t.Fatalf("the version after %d is there: %v", at, err)
		}
		v, err := c.Load(t.Context())
		if err != nil || v.Number != at {
			t.Fatalf("it is version %d: %v", v.Number, err)
		}
		e, _ := chainAdd(v)
		if _, err := c.Publish(t.Context(), store, v, e); !errs.Is(err, errs.Conflict) {
			t.Errorf("a publish on version %d: %v", at, err)
		}
		if _, err := store.Stat(t.Context(), fmt.Sprintf("o/v%d.json", at+1)); !errs.Is(err, errs.NotFound) {
			t.Errorf("a version after %d stays: %v", at, err)
		}
		if n := chainAt(t, c); n != 30 {
			t.Errorf("after a conflict it is version %d", n)
		}

		// Without a publish, time tells; a clock that goes back does, too.
		for _, later := range []time.Duration{trustFor, -time.Second} {
			c := OpenChain(store, "o")
			c.now = func() time.Time { return now }
			from := chainAt(t, c)
			chainGrow(t, store, from+20)
			if _, err := OpenChain(store, "o").Collect(t.Context(), store, 0); err != nil {
				t.Fatal(err)
			}
			if n := chainAt(t, c); n != from {
				t.Fatalf("it is version %d", n)
			}
			now = now.Add(later)
			if n := chainAt(t, c); n != from+20 {
				t.Errorf("%v later it is version %d, want %d", later, n, from+20)
			}
		}
	}
}

// hooked calls a function after a name was put.
type hooked struct {
	objstore.Store
	name  string
	after func()
}

func (h *hooked) Put(ctx context.Context, name string, data []byte, cond objstore.Condition) (objstore.Info, error) {
	info, err := h.Store.Put(ctx, name, data, cond)
	if err == nil && name == h.name && h.after != nil {
		after := h.after
		h.after = nil
		after()
	}
	return info, err
}

// TestFollowedAtOnce: a version upon which another is published right away is not taken for one that stands alone.
func TestFollowedAtOnce(t *testing.T) {
	for _, at := range []int64{0, 3} {
		store := objstore.NewMemory("t")
		chainGrow(t, store, at)
		h := &hooked{Store: store, name: fmt.Sprintf("o/v%d.json", at+1)}
		h.after = func() { chainGrow(t, store, at+4) }
		c := OpenChain(h, "o")
		v, err := c.Update(t.Context(), h, chainAdd)
		if err != nil || v.Number != at+1 {
			t.Errorf("version %d, %v", v.Number, err)
		}
		if n := chainAt(t, OpenChain(store, "o")); n != at+4 {
			t.Errorf("it is version %d", n)
		}
	}
}

// TestClocks: garbage goes late rather than early when this machine's clock, or the store's, is wrong.
func TestClocks(t *testing.T) {
	for _, c2 := range []struct {
		local, store time.Duration // how far clocks are ahead
		gone         bool
	}{{0, 0, false}, {2 * time.Hour, 0, false}, {0, 2 * time.Hour, false}, {2 * time.Hour, 2 * time.Hour, true}, {-2 * time.Hour, -2 * time.Hour, false}} {
		mem := objstore.NewMemory("t")
		chainGrow(t, mem, 30)
		store := &shifted{Store: mem, by: c2.store}
		c := OpenChain(store, "o")
		c.now = func() time.Time { return time.Now().Add(c2.local) }
		done, err := c.Collect(t.Context(), store, time.Hour)
		if err != nil || (len(done) > 0) != c2.gone {
			t.Errorf("%+v: %d objects are removed, %v", c2, len(done), err)
		}
		for info, err := range mem.List(t.Context(), "o/collect-") {
			t.Errorf("%s stays, %v", info.Name, err)
		}
	}
}

// shifted is a store whose clock is wrong from now on.
type shifted struct {
	objstore.Store
	by time.Duration
}

func (s *shifted) Put(ctx context.Context, name string, data []byte, cond objstore.Condition) (objstore.Info, error) {
	info, err := s.Store.Put(ctx, name, data, cond)
	info.ModTime = info.ModTime.Add(s.by)
	return info, err
}

// TestHeadsGoInOrder: a collection that dies leaves no old version behind one that is gone.
func TestHeadsGoInOrder(t *testing.T) {
	store := objstore.NewMemory("t")
	chainGrow(t, store, 30)
	garbage, err := OpenChain(store, "o").Unreferenced(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, info := range garbage[:20] {
		if info.Name != fmt.Sprintf("o/v%d.json", i+1) {
			t.Errorf("object %d to go is %s", i, info.Name)
		}
	}
}

// TestManyChunksAreMerged: small publishes leave few chunks, and each artifact is written a few times at most.
func TestManyChunksAreMerged(t *testing.T) {
	store := &written{Store: objstore.NewMemory("t")}
	c := OpenChain(store, "o")
	chainGrow(t, store.Store, 1)
	if _, err := store.Store.Put(t.Context(), "o/b", make([]byte, 1<<20), objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
	const publishes = 1500
	var v *Version
	for i := range publishes {
		var err error
		if v, err = c.Update(t.Context(), store, func(*Version) (Edit, error) { return chainFiles(i*3, 3), nil }); err != nil {
			t.Fatal(err)
		}
	}
	sizes := int64(0)
	for i := range v.parts {
		sizes += v.parts[i].ref.Size
	}
	t.Logf("%d artifacts in %d chunks of %d bytes; %d bytes of chunks and %d of heads were written", v.Len(), len(v.parts), sizes, store.chunks, store.heads)
	if v.Len() != 3*publishes || len(v.parts) > 4*mergeAt || store.chunks > 6*sizes {
		t.Error("too many")
	}
	for i := range 3 * publishes {
		if _, ok := v.Artifact("i0", chainPath(i)); !ok {
			t.Fatalf("file %d is not covered", i)
		}
	}

	// Dropping most of them leaves small chunks, too.
	all := v.Artifacts()
	v, err := c.Update(t.Context(), store, func(*Version) (Edit, error) { return Edit{DropArtifacts: all[10:]}, nil })
	if err != nil || v.Len() != 10 {
		t.Fatalf("%d artifacts are left, %v", v.Len(), err)
	}
	sizes = 0
	for i := range v.parts {
		sizes += v.parts[i].ref.Size
	}
	if sizes > 10_000 {
		t.Errorf("10 artifacts take %d bytes", sizes)
	}
}

// written counts bytes.
type written struct {
	objstore.Store
	chunks, heads int64
}

func (w *written) Put(ctx context.Context, name string, data []byte, cond objstore.Condition) (objstore.Info, error) {
	if strings.Contains(name, chunksDir) {
		w.chunks += int64(len(data))
	} else {
		w.heads += int64(len(data))
	}
	return w.Store.Put(ctx, name, data, cond)
}

func chainPath(i int) string {
	return fmt.Sprintf("s3://warehouse/main/events/data/day=2026-11-%02d/%08x-0000-4000-8000-%012d.parquet", i%28+1, i*2654435761, i)
}

// chainFiles adds an artifact of index i0 for each of some files.
func chainFiles(from, n int, indexes ...string) Edit {
	if len(indexes) == 0 {
		indexes = []string{"i0"}
	}
	var e Edit
	for i := from; i < from+n; i++ {
		key := FileKey{Path: chainPath(i), Size: 128 << 20, ETag: fmt.Sprintf("%016x-%x", i*2654435761, i), Rows: 1 << 20}
		for j, id := range indexes {
			e.AddArtifacts = append(e.AddArtifacts, Artifact{Index: id, Fingerprint: "bitmap/1 3:int", Files: []CoveredFile{{FileKey: key}}, Bundle: "o/b",
				Offset: int64(i*8 + j), Length: 1, Type: "overlake-bitmap-v1", CRC: fmt.Sprintf("%08x", i), Rows: key.Rows, Min: []byte("00000000"), Max: []byte("99999999"),
				Distinct: int64(i), Nulls: 0})
		}
	}
	return e
}

func chainOf(tb testing.TB, files int, indexes ...string) (*objstore.Memory, *Chain) {
	tb.Helper()
	store := objstore.NewMemory("t")
	if _, err := store.Put(tb.Context(), "o/b", make([]byte, 8<<20), objstore.Condition{}); err != nil {
		tb.Fatal(err)
	}
	c := OpenChain(store, "o")
	if _, err := c.Update(tb.Context(), store, func(*Version) (Edit, error) {
		e := chainFiles(0, files, indexes...)
		for _, id := range indexes {
			e.AddDefinitions = append(e.AddDefinitions, Definition{ID: id, Name: id, Kind: "bitmap"})
		}
		return e, nil
	}); err != nil {
		tb.Fatal(err)
	}
	return store, c
}

// BenchmarkOpen opens the overlay of 5,000 files with two indexes, and finds every artifact.
func BenchmarkOpen(b *testing.B) {
	store, _ := chainOf(b, 5000, "i0", "i1")
	b.Run("load", func(b *testing.B) {
		for b.Loop() {
			if v, err := OpenChain(store, "o").Load(b.Context()); err != nil || v.Len() != 10_000 {
				b.Fatal(err)
			}
		}
	})
	v, err := OpenChain(store, "o").Load(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	paths := make([]string, 5000)
	for i := range paths {
		paths[i] = chainPath(i)
	}
	b.Run("known", func(b *testing.B) {
		c := OpenChain(store, "o")
		for b.Loop() {
			if _, err := c.Load(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("lookup", func(b *testing.B) {
		for b.Loop() {
			for _, p := range paths {
				_, one := v.Artifact("i0", p)
				_, two := v.Artifact("i1", p)
				if !one || !two {
					b.Fatal(p)
				}
			}
		}
	})
}

// BenchmarkOpenLarge opens the overlay of 100,000 files with two indexes.
func BenchmarkOpenLarge(b *testing.B) {
	store, _ := chainOf(b, 100_000, "i0", "i1")
	size := int64(0)
	for info := range store.List(b.Context(), "o/chunks/") {
		size += info.Size
	}
	for b.Loop() {
		if v, err := OpenChain(store, "o").Load(b.Context()); err != nil || v.Len() != 200_000 {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(size), "chunkbytes")
}

// BenchmarkPublish publishes ten files, each once more, onto an overlay of 100,000, merges included.
func BenchmarkPublish(b *testing.B) {
	store, c := chainOf(b, 100_000, "i0")
	w := &written{Store: store}
	next := 100_000
	for b.Loop() {
		if _, err := c.Update(b.Context(), w, func(*Version) (Edit, error) { next += 10; return chainFiles(next%1_000_000, 10), nil }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(w.chunks)/float64(b.N), "chunkbytes/op")
	b.ReportMetric(float64(w.heads)/float64(b.N), "headbytes/op")
	v, err := c.Load(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(len(v.parts)), "chunks")
}

package bitmap_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bitmap"
	"github.com/overlakedb/overlake/internal/predicate"
)

// everything asks an artifact for all it has, and returns what was damaged or a digest of the answers.
func everything(t *testing.T, src bitmap.Source, size int64) (answers []int64, err error) {
	ctx := t.Context()
	r, err := bitmap.Open(ctx, src, size)
	if err != nil {
		return nil, err
	}
	all := predicate.Ranges{{NoHi: true}}
	found, err := r.Find(ctx, all, true)
	if err != nil {
		return nil, err
	}
	answers = slices.AppendSeq(answers, found.All())
	s := r.Stats()
	answers = append(answers, s.Rows, s.Nulls, s.Distinct, s.Size)
	err = r.Walk(ctx, all, false, func(key []byte, rows []int64) bool {
		for _, b := range key {
			answers = append(answers, int64(b))
		}
		answers = append(answers, rows...)
		return true
	})
	if err != nil {
		return nil, err
	}
	err = r.Walk(ctx, all, true, func(key []byte, rows []int64) bool {
		answers = append(answers, rows...)
		return true
	})
	if err != nil {
		return nil, err
	}
	err = r.Firsts(ctx, all, nil, func(key []byte, row int64) bool {
		answers = append(answers, int64(len(key)), row)
		return true
	})
	if err != nil {
		return nil, err
	}
	null, _, err := r.FirstNull(ctx)
	if err != nil {
		return nil, err
	}
	answers = append(answers, null, r.Distinct(all))
	n, err := r.Count(ctx, predicate.Ranges{{Lo: s.Min, LoOpen: true, Hi: s.Max, HiOpen: true}}, true)
	return append(answers, n), err
}

func damaged(err error) bool { return errs.Is(err, errs.Corrupt) && errs.HintOf(err) != "" }

func TestDamageIsSeen(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for _, c := range []struct {
		shape string
		rows  int
		names []string
	}{{"some", 300, []string{"int64"}}, {"unique", 40, []string{"string"}}, {"few", 9000, []string{"bool"}}, {"runs", 4000, []string{"decimal"}}, {"none", 9, []string{"string"}},
		{"cycle", 50, []string{"numbered", "float64"}}} {
		d := makeData(rng, c.rows, c.shape, false, c.names...)
		artifact, _ := d.build(t, bitmap.BuildOptions{})
		want, err := everything(t, blob(artifact), int64(len(artifact)))
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for i := range artifact {
			for _, flip := range []byte{1, 0x80, byte(1 + rng.IntN(255))} {
				b := slices.Clone(artifact)
				b[i] ^= flip
				got, err := everything(t, blob(b), int64(len(b)))
				switch {
				case err == nil && !slices.Equal(got, want):
					t.Fatalf("%s: byte %d of %d changed the answers", c.shape, i, len(artifact))
				case err != nil && !damaged(err):
					t.Fatalf("%s: byte %d of %d: %v", c.shape, i, len(artifact), err)
				case err != nil:
					seen++
				}
			}
		}
		if seen != 3*len(artifact) {
			t.Errorf("%s: %d of %d changed bytes were seen", c.shape, seen, 3*len(artifact))
		}
		for n := range artifact {
			if _, err := everything(t, blob(artifact[:n]), int64(n)); !damaged(err) {
				t.Fatalf("%s: cut off at %d of %d: %v", c.shape, n, len(artifact), err)
			}
			if _, err := everything(t, blob(artifact[:n]), int64(len(artifact))); !damaged(err) {
				t.Fatalf("%s: %d of %d bytes in the store: %v", c.shape, n, len(artifact), err)
			}
			if _, err := everything(t, blob(artifact[n:]), int64(len(artifact)-n)); n > 0 && !damaged(err) {
				t.Fatalf("%s: begun at %d of %d: %v", c.shape, n, len(artifact), err)
			}
		}
		longer := append(slices.Clone(artifact), 0)
		if _, err := everything(t, blob(longer), int64(len(longer))); !damaged(err) {
			t.Fatalf("%s: a byte more: %v", c.shape, err)
		}
	}
}

// failing fails every read behind an offset.
type failing struct {
	blob
	from int64
	err  error
}

func (f failing) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	if off < f.from {
		return 0, f.err
	}
	return f.blob.ReadAtContext(ctx, p, off)
}

func TestFailuresOfTheStoreAreNotDamage(t *testing.T) {
	d := makeData(rand.New(rand.NewPCG(2, 7)), 40_000, "unique", false, "wild")
	artifact, _ := d.build(t, bitmap.BuildOptions{})
	if len(artifact) < 128<<10 {
		t.Fatal("the artifact is read as a whole")
	}
	gone := errs.New(errs.Unavailable, "store", "gone")
	for _, from := range []int64{int64(len(artifact)), int64(len(artifact)) - 64<<10} {
		_, err := everything(t, failing{artifact, from, gone}, int64(len(artifact)))
		if !errs.Is(err, errs.Unavailable) || !errors.Is(err, gone) {
			t.Errorf("reads before %d fail: %v", from, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, err := bitmap.Open(ctx, blob(artifact), int64(len(artifact)))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := r.Find(ctx, predicate.Ranges{{NoHi: true}}, false); !errs.Is(err, errs.Canceled) {
		t.Errorf("a find that nobody waits for: %v", err)
	}
	if err := r.Walk(ctx, predicate.Ranges{{NoHi: true}}, false, nil); !errs.Is(err, errs.Canceled) {
		t.Errorf("a walk that nobody waits for: %v", err)
	}
}

// counting counts reads and bytes.
type counting struct {
	blob
	reads, bytes *int64
}

func (c counting) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	atomic.AddInt64(c.reads, 1)
	atomic.AddInt64(c.bytes, int64(len(p)))
	return c.blob.ReadAtContext(ctx, p, off)
}

func TestReadsAreFewAndSmall(t *testing.T) {
	build := func(rows int, value func(row int) int64) []byte {
		b := array.NewInt64Builder(memory.DefaultAllocator)
		for row := range rows {
			b.Append(value(row))
		}
		d := &data{kinds: []predicate.KeyKind{predicate.Ints}, parts: []part{{arrays: []arrow.Array{b.NewArray()}}}, rows: int64(rows)}
		artifact, _ := d.build(t, bitmap.BuildOptions{})
		return artifact
	}
	rng := rand.New(rand.NewPCG(1, 1))
	perm := rng.Perm(300_000)
	unique := build(len(perm), func(row int) int64 { return int64(perm[row]) })
	hundred := build(len(perm), func(int) int64 { return rng.Int64N(100) })
	ask := func(artifact []byte, question func(r *bitmap.Reader) error) (reads, bytes int64) {
		t.Helper()
		c := counting{artifact, &reads, &bytes}
		r, err := bitmap.Open(t.Context(), c, int64(len(artifact)))
		if err != nil {
			t.Fatal(err)
		}
		if reads != 1 || bytes > 64<<10 {
			t.Errorf("Open reads %d bytes in %d reads", bytes, reads)
		}
		reads, bytes = 0, 0
		if err := question(r); err != nil {
			t.Fatal(err)
		}
		return reads, bytes
	}
	key := func(v int64) []byte { return predicate.AppendInt(nil, v) }
	find := func(set predicate.Ranges) func(r *bitmap.Reader) error {
		return func(r *bitmap.Reader) error { _, err := r.Find(t.Context(), set, false); return err }
	}
	count := func(set predicate.Ranges) func(r *bitmap.Reader) error {
		return func(r *bitmap.Reader) error { _, err := r.Count(t.Context(), set, true); return err }
	}
	middle := predicate.Ranges{{Lo: key(1500), Hi: key(250_000)}}
	for _, c := range []struct {
		what         string
		artifact     []byte
		question     func(r *bitmap.Reader) error
		reads, bytes int64
	}{
		{"one of unique keys", unique, find(predicate.Ranges{predicate.Point(key(777))}), 1, 8 << 10},
		{"a key that is not there", unique, find(predicate.Ranges{predicate.Point(key(-777))}), 0, 0},
		{"3,000 of unique keys", unique, find(predicate.Ranges{{Lo: key(150_000), Hi: key(152_999)}}), 1, 16 << 10},
		{"one of a hundred values", hundred, find(predicate.Ranges{predicate.Point(key(50))}), 1, 3400},
		{"two of them", hundred, find(predicate.RangesOf(predicate.Point(key(5)), predicate.Point(key(90)))), 2, 6800},
		{"counting one of them", hundred, count(predicate.Ranges{predicate.Point(key(50))}), 0, 0},
		{"counting five sixths of unique keys", unique, count(middle), 2, 8 << 10},
		{"counting all", unique, count(predicate.Ranges{{NoHi: true}}), 0, 0},
		{"the least key", unique, func(r *bitmap.Reader) error {
			return r.Walk(t.Context(), predicate.Ranges{{NoHi: true}}, false, func([]byte, []int64) bool { return false })
		}, 1, 8 << 10},
		{"the first row of each of a hundred values", hundred, func(r *bitmap.Reader) error {
			return r.Firsts(t.Context(), predicate.Ranges{{NoHi: true}}, nil, func([]byte, int64) bool { return true })
		}, 8, 340_000},
		{"the first rows of what is known", hundred, func(r *bitmap.Reader) error {
			return r.Firsts(t.Context(), predicate.Ranges{{NoHi: true}}, func([]byte) bool { return true }, nil)
		}, 0, 0},
	} {
		if reads, bytes := ask(c.artifact, c.question); reads > c.reads || bytes > c.bytes {
			t.Errorf("%s: %d bytes in %d reads, want at most %d in %d", c.what, bytes, reads, c.bytes, c.reads)
		}
	}
}

func TestLongDirectoryTakesASecondRead(t *testing.T) {
	d := makeData(rand.New(rand.NewPCG(9, 9)), 3, "unique", false, "string")
	long := strings.Repeat("long ", 20_000)
	b := array.NewStringBuilder(memory.DefaultAllocator)
	for i := range 2600 {
		b.Append(long + string(rune('a'+i/1300)))
	}
	for i := range 12 { // and long keys that share blocks
		b.Append(long[:len(long)/(1+i%3)] + strings.Repeat("z", i*1000))
		b.Append(long + long + long[:i*9000])
	}
	p := part{first: d.rows, arrays: []arrow.Array{b.NewArray()}}
	d.know(p)
	d.parts = append(d.parts, p)
	d.rows += 3000
	artifact, stats := d.build(t, bitmap.BuildOptions{})
	d.check(t, rand.New(rand.NewPCG(1, 1)), artifact, stats, 30)
	reads, bytes := int64(0), int64(0)
	r, err := bitmap.Open(t.Context(), counting{artifact, &reads, &bytes}, int64(len(artifact)))
	if err != nil || reads != 2 || r.Memory() < 200_000 {
		t.Errorf("%d reads, %v", reads, err)
	}
}

func TestWrongUse(t *testing.T) {
	for _, kinds := range [][]predicate.KeyKind{nil, {predicate.NoKeys}, {predicate.Tuples}, {predicate.Ints, 77}, slices.Repeat([]predicate.KeyKind{predicate.Ints}, 65)} {
		if _, err := bitmap.NewBuilder(bitmap.BuildOptions{Columns: kinds}); !errs.Is(err, errs.Invalid) {
			t.Errorf("columns %v: %v", kinds, err)
		}
	}
	if _, err := bitmap.NewBuilder(bitmap.BuildOptions{Columns: []predicate.KeyKind{predicate.Ints}, Memory: -1}); !errs.Is(err, errs.Invalid) {
		t.Errorf("negative memory: %v", err)
	}
	ctx := t.Context()
	array8 := func(n int) arrow.Array {
		b := array.NewInt8Builder(memory.DefaultAllocator)
		b.AppendValues(make([]int8, n), nil)
		return b.NewArray()
	}
	b, err := bitmap.NewBuilder(bitmap.BuildOptions{Columns: []predicate.KeyKind{predicate.Ints, predicate.Ints}})
	if err != nil {
		t.Fatal(err)
	}
	texts := array.NewStringBuilder(memory.DefaultAllocator)
	texts.Append("a")
	list := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Int8)
	list.AppendNull()
	lists := list.NewArray()
	text := texts.NewArray()
	for what, c := range map[string]struct {
		err  error
		kind errs.Kind
	}{
		"one array":        {b.Add(ctx, 0, array8(1)), errs.Invalid},
		"unequal lengths":  {b.Add(ctx, 0, array8(1), array8(2)), errs.Invalid},
		"another kind":     {b.Add(ctx, 0, array8(1), text), errs.Invalid},
		"no keys":          {b.Add(ctx, 0, array8(1), lists), errs.Unsupported},
		"a negative row":   {b.Add(ctx, -1, array8(1), array8(1)), errs.Invalid},
		"a row out of use": {b.Add(ctx, 1<<61, array8(1), array8(1)), errs.Invalid},
	} {
		if !errs.Is(c.err, c.kind) {
			t.Errorf("%s: %v", what, c.err)
		}
	}
	if err := b.Add(ctx, 5, array8(3), array8(3)); err != nil {
		t.Fatal(err)
	}
	if err := b.Add(ctx, 7, array8(1), array8(1)); !errs.Is(err, errs.Invalid) {
		t.Errorf("a row twice: %v", err)
	}
	if _, err := b.Finish(ctx, io.Discard, 7); !errs.Is(err, errs.Invalid) {
		t.Errorf("fewer rows than were added: %v", err)
	}
	long, err := bitmap.NewBuilder(bitmap.BuildOptions{Columns: []predicate.KeyKind{predicate.Bytes}})
	if err != nil {
		t.Fatal(err)
	}
	texts.Append(strings.Repeat("x", 1<<26+1))
	if err := long.Add(ctx, 0, texts.NewArray()); !errs.Is(err, errs.Unsupported) {
		t.Errorf("a key that is too long: %v", err)
	}
	empty, err := bitmap.NewBuilder(bitmap.BuildOptions{Columns: []predicate.KeyKind{predicate.Bytes}})
	if err != nil {
		t.Fatal(err)
	}
	if err := empty.Add(ctx, 0, array.NewSlice(text, 0, 0)); err != nil {
		t.Fatal(err)
	}
	if s, err := empty.Finish(ctx, io.Discard, 0); err != nil || s.Rows != 0 || s.Min != nil {
		t.Errorf("an index of nothing: %+v, %v", s, err)
	}
	if _, err := empty.Finish(ctx, io.Discard, 0); !errs.Is(err, errs.Invalid) {
		t.Errorf("written twice: %v", err)
	}
	if err := empty.Add(ctx, 0, text); !errs.Is(err, errs.Invalid) {
		t.Errorf("added after the end: %v", err)
	}
}

// A writer or a temporary file that fails makes the build fail with its error, and leaves no file behind.
func TestBuildFails(t *testing.T) {
	full := errs.New(errs.Exhausted, "disk", "full")
	d := makeData(rand.New(rand.NewPCG(5, 5)), 20_000, "some", false, "string")
	for fail := range 40 {
		writes, open := 0, 0
		next := func() error {
			if writes++; writes > fail {
				return full
			}
			return nil
		}
		files := spillTo(t, &open)
		b, err := bitmap.NewBuilder(bitmap.BuildOptions{Columns: d.kinds, Memory: 1 << 16, Spill: func() (bitmap.SpillFile, error) {
			if err := next(); err != nil {
				return nil, err
			}
			f, err := files()
			return failingFile{f, next}, err
		}})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range d.parts {
			if err = b.Add(t.Context(), p.first, p.arrays...); err != nil {
				break
			}
		}
		if err == nil {
			_, err = b.Finish(t.Context(), writer(func(p []byte) (int, error) { return len(p), next() }), d.rows)
		}
		if !errs.Is(err, errs.Exhausted) || !errors.Is(err, full) {
			t.Fatalf("after %d writes: %v", fail, err)
		}
		if err := b.Close(); err != nil || open != 0 {
			t.Fatalf("after %d writes: %d files are left, %v", fail, open, err)
		}
	}
}

type failingFile struct {
	bitmap.SpillFile
	next func() error
}

func (f failingFile) Write(p []byte) (int, error) {
	if err := f.next(); err != nil {
		return 0, err
	}
	return f.SpillFile.Write(p)
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// A temporary file whose bytes change is seen before the artifact is said to be there.
func TestDamagedTemporaryFiles(t *testing.T) {
	d := makeData(rand.New(rand.NewPCG(5, 5)), 20_000, "some", false, "int64")
	for at := range int64(60) {
		open := 0
		files := spillTo(t, &open)
		b, err := bitmap.NewBuilder(bitmap.BuildOptions{Columns: d.kinds, Memory: 1 << 17, Spill: func() (bitmap.SpillFile, error) {
			f, err := files()
			return flipped{f, at * 97}, err
		}})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range d.parts {
			if err := b.Add(t.Context(), p.first, p.arrays...); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := b.Finish(t.Context(), io.Discard, d.rows); !errs.Is(err, errs.Corrupt) {
			t.Fatalf("byte %d is wrong: %v", at*97, err)
		}
		if err := b.Close(); err != nil || open != 0 {
			t.Fatalf("%d files are left, %v", open, err)
		}
	}
}

type flipped struct {
	bitmap.SpillFile
	at int64
}

func (f flipped) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.SpillFile.ReadAt(p, off)
	if f.at >= off && f.at < off+int64(n) {
		p[f.at-off] ^= 4
	}
	return n, err
}

func TestReadersAreShared(t *testing.T) {
	d := makeData(rand.New(rand.NewPCG(8, 8)), 30_000, "some", false, "string")
	artifact, _ := d.build(t, bitmap.BuildOptions{})
	r, err := bitmap.Open(t.Context(), blob(artifact), int64(len(artifact)))
	if err != nil {
		t.Fatal(err)
	}
	keys := slices.Sorted(maps.Keys(d.model))
	for range 8 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(rand.Uint64(), 1))
			for range 50 {
				k := keys[rng.IntN(len(keys))]
				found, err := r.Find(t.Context(), predicate.Ranges{predicate.Point([]byte(k))}, false)
				if err != nil || !slices.Equal(slices.Collect(found.All()), d.model[k]) {
					t.Errorf("%q has other rows: %v", k, err)
				}
			}
		})
	}
}

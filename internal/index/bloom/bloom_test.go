package bloom_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/checksum"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bloom"
	"github.com/overlakedb/overlake/internal/predicate"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

type blob []byte

func (b blob) ReadAtContext(_ context.Context, p []byte, off int64) (int, error) {
	return bytes.NewReader(b).ReadAt(p, off)
}

func ints(n int, value func(i int) int64) arrow.Array {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	for i := range n {
		b.Append(value(i))
	}
	return b.NewArray()
}

func build(t testing.TB, fpr float64, memory int64, arrays ...arrow.Array) ([]byte, bloom.Stats) {
	t.Helper()
	b, err := bloom.NewBuilder(fpr, predicate.KindOf(arrays[0].DataType()), memory)
	if err != nil {
		t.Fatal(err)
	}
	rows := int64(0)
	for _, a := range arrays {
		if err := b.Add(a); err != nil {
			t.Fatal(err)
		}
		rows += int64(a.Len())
	}
	var out bytes.Buffer
	s, err := b.Finish(&out, rows)
	if err != nil {
		t.Fatal(err)
	}
	if s.Size != int64(out.Len()) || s.Rows != rows {
		t.Fatalf("%+v, %d bytes", s, out.Len())
	}
	return out.Bytes(), s
}

func open(t testing.TB, artifact []byte) *bloom.Filter {
	t.Helper()
	f, err := bloom.Open(t.Context(), blob(artifact), int64(len(artifact)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// The share of wrong answers is the one asked for, for any number of keys, with a builder that knows all of them and with
// one that has to fold a large filter; and no key is missing.
func TestRateIsTheOneAskedFor(t *testing.T) {
	for _, c := range []struct {
		fpr    float64
		keys   int
		memory int64
	}{
		{0.01, 1, 0}, {0.01, 10, 0}, {0.01, 1000, 0}, {0.01, 60_000, 0}, {0.1, 50_000, 0}, {0.001, 50_000, 0}, {0.0001, 50_000, 0}, {0.3, 50_000, 0},
		{0.01, 60_000, 1 << 19}, {0.05, 200_000, 1 << 20}, {0.3, 100_000, 1 << 18},
	} {
		rng := rand.New(rand.NewPCG(uint64(c.keys), 9))
		values := make([]int64, c.keys)
		for i := range values {
			values[i] = rng.Int64N(1 << 40) // absent keys come from above
		}
		// Each value is there three times.
		artifact, s := build(t, c.fpr, c.memory, ints(3*c.keys, func(i int) int64 { return values[i%c.keys] }))
		f := open(t, artifact)
		for _, v := range values {
			if !f.MayContain(predicate.AppendInt(nil, v)) {
				t.Fatalf("%d of %d keys is missing", v, c.keys)
			}
		}
		wrong, tries := 0, max(int(400/c.fpr), 40_000)
		var key []byte
		for i := range tries {
			key = predicate.AppendInt(key[:0], 1<<41+int64(i))
			if f.MayContain(key) {
				wrong++
			}
		}
		got := float64(wrong) / float64(tries)
		t.Logf("asked %.4f, %6d keys: expected %.5f, got %.5f, %.2f bits a key", c.fpr, c.keys, s.FPR, got, float64(s.Size)*8/float64(c.keys))
		if got > 1.5*c.fpr || s.FPR > c.fpr*1.001 || c.keys >= 1000 && got > 1.25*s.FPR+0.0001 {
			t.Errorf("asked %v of %d keys: expected %v, got %v", c.fpr, c.keys, s.FPR, got)
		}
		folded := c.memory > 0
		if distinct := float64(s.Distinct) / float64(c.keys); !folded && distinct != 1 || distinct < 0.97 || distinct > 1.03 {
			t.Errorf("%d keys of %d were seen", s.Distinct, c.keys)
		}
		if !folded && c.keys > 10 && s.FPR < 0.9*c.fpr {
			t.Errorf("asked %v of %d keys: a rate of %v wastes memory", c.fpr, c.keys, s.FPR)
		}
	}
}

func TestKindsAndNulls(t *testing.T) {
	texts := array.NewStringBuilder(memory.DefaultAllocator)
	texts.AppendValues([]string{"", "a", "lake", "lake"}, nil)
	texts.AppendNull()
	decimals := array.NewDecimal128Builder(memory.DefaultAllocator, &arrow.Decimal128Type{Precision: 20, Scale: 2})
	decimals.Append(decimal128.FromI64(-7))
	decimals.AppendNull()
	decimals.Append(decimal128.FromI64(7))
	floats := array.NewFloat64Builder(memory.DefaultAllocator)
	floats.AppendNull()
	for _, v := range []float64{0.5, 0, -2} {
		floats.Append(v)
	}
	text := texts.NewArray()
	at := array.NewInt8Builder(memory.DefaultAllocator)
	at.AppendValues([]int8{2, 4, 1}, nil)
	at.AppendNull()
	dictionary := array.NewDictionaryArray(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}, at.NewArray(), text)
	for _, a := range []arrow.Array{text, decimals.NewArray(), floats.NewArray(), dictionary, array.NewSlice(text, 1, 4)} {
		k, err := predicate.KeysOf(a)
		if err != nil {
			t.Fatal(err)
		}
		artifact, s := build(t, 0.001, 0, a, a)
		f := open(t, artifact)
		keys := map[string]bool{}
		nulls := int64(0)
		for i := range k.Len() {
			if k.IsNull(i) {
				nulls += 2
				continue
			}
			key := k.Append(nil, i)
			keys[string(key)] = true
			if !f.MayContain(key) {
				t.Errorf("%v: key %x is missing", a, key)
			}
		}
		if s.Nulls != nulls || s.Distinct != int64(len(keys)) || f.Kind() != k.Kind() || f.Stats() != s || f.Memory() <= 0 {
			t.Errorf("%v: %+v and %+v; %d keys, %d NULLs", a, s, f.Stats(), len(keys), nulls)
		}
	}
}

func TestMayMatch(t *testing.T) {
	artifact, _ := build(t, 1e-5, 0, ints(100, func(i int) int64 { return int64(i) }))
	f := open(t, artifact)
	key := func(v int64) []byte { return predicate.AppendInt(nil, v) }
	for _, c := range []struct {
		keys predicate.Ranges
		null bool
		want bool
	}{
		{nil, false, false}, {nil, true, false}, {predicate.Ranges{predicate.Point(key(5))}, false, true},
		{predicate.Ranges{predicate.Point(key(500))}, true, false}, {predicate.Ranges{predicate.Point(key(-1)), predicate.Point(key(99))}, false, true},
		{predicate.Ranges{predicate.Point(key(-1)), {Lo: key(500), NoHi: true}}, false, true}, {predicate.Ranges{{Lo: key(5), Hi: key(5), HiOpen: true}}, false, false},
	} {
		if got := f.MayMatch(c.keys, c.null); got != c.want {
			t.Errorf("%v, NULL %v: %v", c.keys, c.null, got)
		}
	}
	b := array.NewInt64Builder(memory.DefaultAllocator)
	b.AppendNull()
	artifact, s := build(t, 0.01, 0, b.NewArray())
	f = open(t, artifact)
	if s.Distinct != 0 || f.MayContain(key(0)) || f.MayMatch(predicate.Ranges{{NoHi: true}}, false) || !f.MayMatch(nil, true) {
		t.Errorf("a column of NULLs: %+v", s)
	}
}

func TestDamageIsSeen(t *testing.T) {
	for _, keys := range []int{0, 1, 300} {
		b, err := bloom.NewBuilder(0.01, predicate.Ints, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Add(ints(keys, func(i int) int64 { return int64(i) })); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if _, err := b.Finish(&out, int64(keys)); err != nil {
			t.Fatal(err)
		}
		artifact := out.Bytes()
		see := func(what string, src bloom.Source, size int) {
			t.Helper()
			if _, err := bloom.Open(t.Context(), src, int64(size)); !errs.Is(err, errs.Corrupt) || errs.HintOf(err) == "" {
				t.Fatalf("%d keys, %s: %v", keys, what, err)
			}
		}
		for i := range artifact {
			for bit := range 8 {
				bad := slices.Clone(artifact)
				bad[i] ^= 1 << bit
				see(fmt.Sprintf("bit %d of byte %d", bit, i), blob(bad), len(bad))
			}
			see("cut off", blob(artifact[:i]), i)
			see("missing in the store", blob(artifact[:i]), len(artifact))
			see("begun late", blob(artifact[i+1:]), len(artifact)-i-1)
		}
		see("longer", blob(append(slices.Clone(artifact), 0)), len(artifact)+1)
		future := slices.Clone(artifact)
		tail := future[len(future)-32:]
		tail[20] = 2
		binary.LittleEndian.PutUint32(tail[24:], checksum.Of(tail[:24]))
		if _, err := bloom.Open(t.Context(), blob(future), int64(len(future))); !errs.Is(err, errs.Unsupported) {
			t.Errorf("version 2: %v", err)
		}
	}
}

type failing struct{ err error }

func (f failing) ReadAtContext(context.Context, []byte, int64) (int, error) { return 0, f.err }
func (f failing) Write([]byte) (int, error)                                 { return 0, f.err }

func TestFailuresAndWrongUse(t *testing.T) {
	gone := errs.New(errs.Unavailable, "store", "gone")
	if _, err := bloom.Open(t.Context(), failing{gone}, 100); !errs.Is(err, errs.Unavailable) || !errors.Is(err, gone) {
		t.Errorf("a store that fails: %v", err)
	}
	for _, c := range []struct {
		fpr    float64
		kind   predicate.KeyKind
		memory int64
	}{{0, predicate.Ints, 0}, {0.6, predicate.Ints, 0}, {-1, predicate.Ints, 0}, {0.1, predicate.NoKeys, 0}, {0.1, predicate.Tuples, 0}, {0.1, predicate.Ints, -1}} {
		if _, err := bloom.NewBuilder(c.fpr, c.kind, c.memory); !errs.Is(err, errs.Invalid) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	b, err := bloom.NewBuilder(0.01, predicate.Bytes, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Add(ints(1, func(int) int64 { return 1 })); !errs.Is(err, errs.Invalid) {
		t.Errorf("another kind: %v", err)
	}
	list := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Int8)
	if err := b.Add(list.NewArray()); !errs.Is(err, errs.Unsupported) {
		t.Errorf("no keys: %v", err)
	}
	texts := array.NewStringBuilder(memory.DefaultAllocator)
	texts.Append("x")
	text := texts.NewArray()
	if err := b.Add(text); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Finish(io.Discard, 0); !errs.Is(err, errs.Invalid) {
		t.Errorf("fewer rows than were added: %v", err)
	}
	if _, err := b.Finish(failing{gone}, 1); !errs.Is(err, errs.Unavailable) {
		t.Errorf("a writer that fails: %v", err)
	}
	if err := b.Add(text); !errs.Is(err, errs.Invalid) {
		t.Errorf("added after the end: %v", err)
	}
	small, err := bloom.NewBuilder(0.0001, predicate.Ints, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := small.Add(ints(100_000, func(i int) int64 { return int64(i) })); err != nil {
		t.Fatal(err)
	}
	if _, err := small.Finish(io.Discard, 100_000); !errs.Is(err, errs.Exhausted) || errs.HintOf(err) == "" {
		t.Errorf("more keys than fit: %v", err)
	}
}

// The bytes of a small artifact are written down.
func TestGolden(t *testing.T) {
	texts := array.NewStringBuilder(memory.DefaultAllocator)
	for i := range 30 {
		texts.Append(fmt.Sprint("value ", i))
	}
	texts.AppendNull()
	artifact, s := build(t, 0.01, 0, texts.NewArray())
	var out strings.Builder
	line := func(from, to int, what string) {
		for from < to {
			n := min(to-from, blockLine)
			fmt.Fprintf(&out, "%04x  % -*x  %s\n", from, 3*blockLine-1, artifact[from:from+n], what)
			from, what = from+n, ""
		}
	}
	head := len(artifact) - 32 - int(artifact[len(artifact)-32])
	for at := 0; at < head; at += 32 {
		line(at, at+32, fmt.Sprintf("block %d", at/32))
	}
	line(head, head+1, "head: keys are "+predicate.Bytes.String())
	line(head+1, head+5, fmt.Sprintf("rows %d, NULLs %d, keys %d, blocks %d", s.Rows, s.Nulls, s.Distinct, head/32))
	line(head+5, head+9, "CRC-32C of the blocks")
	line(head+9, head+17, "tail: bytes of the head")
	line(head+17, head+25, "bytes of the artifact")
	line(head+25, head+29, "CRC-32C of the head")
	line(head+29, head+33, "version")
	line(head+33, head+37, "CRC-32C of the 24 bytes before")
	line(head+37, head+41, fmt.Sprintf("%q", artifact[head+37:]))
	const path = "testdata/texts.txt"
	if *rewrite {
		if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("the bytes are not those of %s; they are now\n%s", path, out.String())
	}
}

const blockLine = 8

// FuzzOpen gives Open anything, with the checksums of the tail and of the head made right.
func FuzzOpen(f *testing.F) {
	for _, n := range []int{0, 1, 300} {
		artifact, _ := build(f, 0.01, 0, ints(n, func(i int) int64 { return int64(i) }))
		f.Add(artifact, true)
		f.Add(artifact, false)
	}
	f.Fuzz(func(t *testing.T, b []byte, mend bool) {
		b = slices.Clone(b)
		if n := len(b) - 32; mend && n >= 0 {
			tail := b[n:]
			size := min(binary.LittleEndian.Uint64(tail), uint64(n))
			head := b[uint64(n)-size : n]
			if len(head) >= 4 {
				binary.LittleEndian.PutUint32(head[len(head)-4:], checksum.Of(b[:uint64(n)-size]))
			}
			binary.LittleEndian.PutUint64(tail, size)
			binary.LittleEndian.PutUint64(tail[8:], uint64(len(b)))
			binary.LittleEndian.PutUint32(tail[16:], checksum.Of(head))
			binary.LittleEndian.PutUint32(tail[20:], 1)
			binary.LittleEndian.PutUint32(tail[24:], checksum.Of(tail[:24]))
			copy(tail[28:], "OLBF")
		}
		filter, err := bloom.Open(t.Context(), blob(b), int64(len(b)))
		if err != nil {
			if !errs.Is(err, errs.Corrupt) && !errs.Is(err, errs.Unsupported) {
				t.Fatal(err)
			}
			return
		}
		filter.MayContain(b)
		filter.MayMatch(predicate.Ranges{predicate.Point(b)}, true)
		if s := filter.Stats(); s.Size != int64(len(b)) || s.FPR < 0 || s.FPR > 1 {
			t.Fatalf("%+v", s)
		}
	})
}

// cpuTime is the time that the process has computed, which other work on the machine hardly changes.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkBuild(b *testing.B) {
	const rows = 625_000
	rng := rand.New(rand.NewPCG(1, 1))
	for name, value := range map[string]func(i int) int64{
		"unique": func(int) int64 { return rng.Int64() }, "100 values": func(int) int64 { return rng.Int64N(100) },
	} {
		b.Run(name, func(b *testing.B) {
			a := ints(rows, value)
			var s bloom.Stats
			start := cpuTime(b)
			for b.Loop() {
				_, s = build(b, 0.01, 0, a)
			}
			b.ReportMetric(float64(rows)*float64(b.N)/(cpuTime(b)-start).Seconds()/1e6, "Mrows/cpu-s")
			b.ReportMetric(float64(s.Size)*8/float64(s.Distinct), "bits/key")
		})
	}
}

func BenchmarkMayContain(b *testing.B) {
	artifact, _ := build(b, 0.01, 0, ints(625_000, func(i int) int64 { return int64(i) }))
	f := open(b, artifact)
	var key []byte
	i := int64(0)
	start := cpuTime(b)
	for b.Loop() {
		key = predicate.AppendInt(key[:0], i)
		f.MayContain(key)
		i += 77
	}
	b.ReportMetric(float64((cpuTime(b)-start).Nanoseconds())/float64(b.N), "cpu-ns/op")
}

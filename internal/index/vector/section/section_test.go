package section_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/overlakedb/overlake/internal/checksum"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector/section"
)

func write(t testing.TB, parts map[section.Kind][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := section.NewWriter(&out)
	var kinds []section.Kind
	for k := range parts {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	for _, k := range kinds {
		w.Begin(k)
		half := len(parts[k]) / 2
		w.Write(parts[k][:half])
		w.Write(parts[k][half:])
	}
	size, err := w.Close()
	if err != nil || size != int64(out.Len()) {
		t.Fatalf("close: %d of %d, %v", size, out.Len(), err)
	}
	return out.Bytes()
}

func random(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	ctx := context.Background()
	for n := range 100 {
		parts := map[section.Kind][]byte{}
		for range rng.IntN(90) {
			parts[section.Kind(rng.Uint32N(1000))] = random(rng, rng.IntN(1+n*5))
		}
		file := write(t, parts)
		f, err := section.Open(ctx, section.Memory(file), int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		if f.Sum() != checksum.Of(file) {
			t.Fatalf("the sum is %08x, want %08x", f.Sum(), checksum.Of(file))
		}
		if len(f.Sections()) != len(parts) {
			t.Fatalf("%d sections, want %d", len(f.Sections()), len(parts))
		}
		for k, want := range parts {
			got, err := f.Load(ctx, k)
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("section %d: %v", k, err)
			}
			if len(want) > 2 {
				p := make([]byte, len(want)-2)
				if err := f.ReadAt(ctx, k, p, 1); err != nil || !bytes.Equal(p, want[1:len(want)-1]) {
					t.Fatalf("a range of section %d: %v", k, err)
				}
			}
			if err := f.ReadAt(ctx, k, make([]byte, len(want)+1), 0); !errs.Is(err, errs.Corrupt) {
				t.Fatalf("beyond section %d: %v", k, err)
			}
		}
		if _, err := f.Load(ctx, 1001); !errs.Is(err, errs.Corrupt) {
			t.Fatalf("a section that is not there: %v", err)
		}
	}
}

// mapper maps as often as it has room for.
type mapper struct {
	section.Memory
	room int32
	open atomic.Int32
}

func (m *mapper) Map(_ context.Context, off, length int64) ([]byte, func(), error) {
	if m.open.Load() == m.room {
		return nil, nil, errs.New(errs.Exhausted, "mapper.map", "no room for another mapping")
	}
	m.open.Add(1)
	return m.Memory[off : off+length], func() { m.open.Add(-1) }, nil
}

// Large sections are mapped, small ones and those that cannot be are read; what was mapped is given back.
func TestMapped(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	parts := map[section.Kind][]byte{1: random(rng, 100), 2: random(rng, 64<<10), 3: random(rng, 100_000), 4: random(rng, 70_000)}
	for room := range int32(5) {
		src := &mapper{Memory: write(t, parts), room: room}
		func() {
			f, err := section.Open(t.Context(), src, int64(len(src.Memory)))
			if err != nil {
				t.Fatal(err)
			}
			read := int64(0)
			for k := section.Kind(1); k <= 4; k++ {
				before := f.Maps()
				b, err := f.Load(t.Context(), k)
				if err != nil || !bytes.Equal(b, parts[k]) {
					t.Fatalf("room %d, section %d: %v", room, k, err)
				}
				if f.Maps() == before {
					read += int64(len(b))
				}
			}
			if f.Maps() != int(min(room, 3)) || f.Held() != read || read < 100 {
				t.Errorf("room %d: %d mappings, %d bytes held of %d", room, f.Maps(), f.Held(), read)
			}
			runtime.KeepAlive(f)
		}()
		for range 100 {
			if runtime.GC(); src.open.Load() == 0 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		if left := src.open.Load(); left > 0 {
			t.Errorf("room %d: %d mappings are left", room, left)
		}
	}
}

// TestEveryByteIsChecked flips each byte of a file: either it is seen, or it was between the sections and then the sum
// of the whole differs from that of the bytes.
func TestEveryByteIsChecked(t *testing.T) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(3, 4))
	parts := map[section.Kind][]byte{1: random(rng, 100), 2: random(rng, 1), 7: nil, 9: random(rng, 64)}
	file := write(t, parts)
	whole := checksum.Of(file)
	for i := range file {
		bad := slices.Clone(file)
		bad[i] ^= 1 << rng.IntN(8)
		f, err := section.Open(ctx, section.Memory(bad), int64(len(bad)))
		if err != nil {
			continue
		}
		if f.Sum() != whole {
			continue
		}
		seen := false
		for k := range parts {
			if _, err := f.Load(ctx, k); err != nil {
				seen = true
			}
		}
		// The table and the tail are as they were, so what was flipped is in a section, the head or a gap.
		gap := true
		for _, s := range f.Sections() {
			if int64(i) >= s.Offset && int64(i) < s.Offset+s.Length {
				gap = false
			}
		}
		if !seen && !gap {
			t.Errorf("byte %d was flipped and nobody saw it", i)
		}
	}
	for n := range file {
		if _, err := section.Open(ctx, section.Memory(file[:n]), int64(n)); err == nil {
			t.Errorf("cut to %d bytes it opens", n)
		}
		if f, err := section.Open(ctx, section.Memory(file[:n]), int64(len(file))); err == nil {
			for k, p := range parts {
				if b, err := f.Load(ctx, k); err == nil && !bytes.Equal(b, p) {
					t.Errorf("cut to %d bytes section %d is wrong", n, k)
				}
			}
		}
	}
}

func TestViews(t *testing.T) {
	v := []float32{1, -2, 3.5}
	b := section.Bytes(v)
	if want := []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 0, 0, 0x60, 0x40}; !bytes.Equal(b, want) {
		t.Fatalf("bytes %x", b)
	}
	for skip := range 4 { // also where the bytes are not aligned
		room := section.Aligned(len(b) + skip)
		copy(room[skip:], b)
		got, err := section.View[float32](room[skip:])
		if err != nil || !slices.Equal(got, v) {
			t.Fatalf("view: %v %v", got, err)
		}
	}
	if _, err := section.View[uint64](b); !errs.Is(err, errs.Corrupt) {
		t.Fatalf("12 bytes as uint64: %v", err)
	}
}

func FuzzOpen(f *testing.F) {
	rng := rand.New(rand.NewPCG(5, 6))
	f.Add(write(f, nil))
	f.Add(write(f, map[section.Kind][]byte{1: random(rng, 10), 3: random(rng, 200)}))
	f.Fuzz(func(t *testing.T, b []byte) {
		ctx := context.Background()
		x, err := section.Open(ctx, section.Memory(b), int64(len(b)))
		if err != nil {
			return
		}
		for _, s := range x.Sections() {
			x.Load(ctx, s.Kind)
		}
	})
}

package codec_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/overlakedb/overlake/internal/codec"
	"github.com/overlakedb/overlake/internal/errs"
)

var packing = []codec.Codec{codec.LZ4, codec.Zstd}

func pack(t testing.TB, c codec.Codec, plain []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := c.NewWriter(&out, int64(len(plain)))
	if err != nil {
		t.Fatal(err)
	}
	for len(plain) > 0 {
		n := min(len(plain), 70_000)
		if _, err := w.Write(plain[:n]); err != nil {
			t.Fatal(err)
		}
		plain = plain[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// sample is bytes that pack well in part.
func sample(n int) []byte {
	rng := rand.New(rand.NewPCG(7, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		if i/64%2 == 0 {
			b[i] = byte(rng.Uint32())
		}
	}
	return b
}

func TestRoundTrip(t *testing.T) {
	for _, c := range packing {
		for _, n := range []int{1, 2, 100, 65_536, 65_537, 1 << 20, 9<<20 + 3} {
			plain := sample(n)
			packed := pack(t, c, plain)
			got, err := c.Unpack(packed, int64(n))
			if err != nil || !bytes.Equal(got, plain) {
				t.Fatalf("%s of %d bytes: %v, equal: %v", c, n, err, bytes.Equal(got, plain))
			}
			if !bytes.Equal(pack(t, c, plain), packed) {
				t.Errorf("%s of %d bytes is packed in two ways", c, n)
			}
			if _, err := c.Unpack(packed, int64(n)-1); !errs.Is(err, errs.Exhausted) {
				t.Errorf("%s of %d bytes under a limit of one less: %v", c, n, err)
			}
		}
	}
	if got, err := codec.None.Unpack([]byte("abc"), 3); err != nil || string(got) != "abc" {
		t.Errorf("None: %q, %v", got, err)
	}
	if _, err := codec.None.Unpack([]byte("abc"), 2); !errs.Is(err, errs.Exhausted) {
		t.Errorf("None over the limit: %v", err)
	}
}

// TestFramesTellTheirSize: the specification of Puffin asks for it, and other readers allocate by it.
func TestFramesTellTheirSize(t *testing.T) {
	for c, want := range map[codec.Codec]string{
		// The content size is a field of the frame header: after the magic, the flags and (lz4) the block size.
		codec.LZ4: "04224d18" + "6c40" + "2c01000000000000",
		// Frame_Header_Descriptor 0x44: a content size of two bytes, which are 300 - 256, a checksum; then the window.
		codec.Zstd: "28b52ffd" + "44" + "00" + "2c00",
	} {
		if got := hex.EncodeToString(pack(t, c, make([]byte, 300))); len(got) < len(want) || got[:len(want)] != want {
			t.Errorf("%s begins with %s, want %s", c, got[:min(len(got), len(want))], want)
		}
	}
	for n := 1; n < 70_000; n += 1 + n/3 {
		var h zstd.Header
		if err := h.Decode(pack(t, codec.Zstd, sample(n))); err != nil || !h.HasFCS || h.FrameContentSize != uint64(n) {
			t.Errorf("a zstd frame of %d bytes tells %d (%v), %v", n, h.FrameContentSize, h.HasFCS, err)
		}
	}
}

// TestDamage cuts and flips packed bytes everywhere: the answer is an error or the right one.
func TestDamage(t *testing.T) {
	plain := sample(700)
	for _, c := range packing {
		packed := pack(t, c, plain)
		for cut := range packed {
			if got, err := c.Unpack(packed[:cut], 1<<20); err == nil {
				t.Errorf("%s cut to %d of %d bytes gives %d bytes", c, cut, len(packed), len(got))
			}
		}
		for i := range packed {
			for bit := range 8 {
				bad := bytes.Clone(packed)
				bad[i] ^= 1 << bit
				if got, err := c.Unpack(bad, 1<<20); err == nil && !bytes.Equal(got, plain) {
					t.Errorf("%s with bit %d of byte %d flipped gives other bytes", c, bit, i)
				}
			}
		}
	}
}

// TestBombs: little bytes that stand for many stop at the limit, told or not.
func TestBombs(t *testing.T) {
	for _, c := range packing {
		packed := pack(t, c, make([]byte, 64<<20))
		if _, err := c.Unpack(packed, 1<<20); !errs.Is(err, errs.Exhausted) {
			t.Errorf("%s: %d bytes for 64 MiB under a limit of 1 MiB: %v", c, len(packed), err)
		}
	}
	// A zstd frame without a content size: one window descriptor, then RLE blocks of 128 KiB.
	bomb := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58}
	for i := range 64 {
		h := uint32(128<<10)<<3 | 1<<1
		if i == 63 {
			h |= 1
		}
		bomb = append(bomb, byte(h), byte(h>>8), byte(h>>16), 'x')
	}
	if got, err := codec.Zstd.Unpack(bomb, 8<<20); err != nil || len(got) != 8<<20 {
		t.Errorf("a frame that tells no size gives %d bytes, %v", len(got), err)
	}
	if _, err := codec.Zstd.Unpack(bomb, 1<<20); !errs.Is(err, errs.Exhausted) {
		t.Errorf("a frame that tells no size, over the limit: %v", err)
	}
}

func TestWriterHoldsItsSize(t *testing.T) {
	for _, c := range packing {
		w, err := c.NewWriter(io.Discard, 3)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, 4)); !errs.Is(err, errs.Invalid) {
			t.Errorf("%s: more bytes than told: %v", c, err)
		}
		if _, err := w.Write(make([]byte, 2)); err != nil {
			t.Errorf("%s: %v", c, err)
		}
		if err := w.Close(); !errs.Is(err, errs.Invalid) {
			t.Errorf("%s: fewer bytes than told: %v", c, err)
		}
		if _, err := w.Write(nil); !errs.Is(err, errs.Invalid) {
			t.Errorf("%s: a write after the end: %v", c, err)
		}
		for _, size := range []int64{0, -1} {
			if _, err := c.NewWriter(io.Discard, size); !errs.Is(err, errs.Invalid) {
				t.Errorf("%s of %d bytes: %v", c, size, err)
			}
		}
	}
	if _, err := codec.Codec("brotli").NewWriter(io.Discard, 1); !errs.Is(err, errs.Unsupported) {
		t.Errorf("an unknown codec: %v", err)
	}
	if _, err := codec.Codec("brotli").Unpack(nil, 1); !errs.Is(err, errs.Unsupported) {
		t.Errorf("an unknown codec: %v", err)
	}
}

func FuzzUnpack(f *testing.F) {
	for i, c := range packing {
		for _, n := range []int{1, 100, 5000} {
			f.Add(i == 0, pack(f, c, sample(n)))
		}
	}
	f.Fuzz(func(t *testing.T, first bool, packed []byte) {
		c, limit := codec.Zstd, int64(1<<20)
		if first {
			c = codec.LZ4
		}
		got, err := c.Unpack(packed, limit)
		switch {
		case err == nil && int64(len(got)) > limit:
			t.Fatalf("%d bytes over the limit", len(got))
		case err != nil && !errs.Is(err, errs.Corrupt) && !errs.Is(err, errs.Exhausted):
			t.Fatalf("%v is neither corrupt nor exhausted", fmt.Sprint(err))
		}
	})
}

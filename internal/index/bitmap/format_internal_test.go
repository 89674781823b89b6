package bitmap

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/checksum"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/predicate"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// pad gives bytes the room that readers of lists need behind them, filled with what must not matter.
func pad(b []byte) []byte {
	return append(slices.Clone(b), bytes.Repeat([]byte{0xa5}, listPad)...)[:len(b)]
}

func TestListsComeBack(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	makers := map[string]func() uint64{
		"zero":      func() uint64 { return 0 },
		"constant":  func() uint64 { return math.MaxUint64 - 5 },
		"bits":      func() uint64 { return rng.Uint64N(2) },
		"geometric": func() uint64 { return uint64(rng.ExpFloat64() * 100) },
		"uniform":   func() uint64 { return 1<<40 + rng.Uint64N(1<<20) },
		"wide":      func() uint64 { return rng.Uint64() >> rng.IntN(64) },
		"outliers": func() uint64 {
			if rng.IntN(100) == 0 {
				return rng.Uint64()
			}
			return rng.Uint64N(4)
		},
		"full":  rng.Uint64,
		"56":    func() uint64 { return rng.Uint64() >> 8 },
		"57":    func() uint64 { return rng.Uint64() >> 7 },
		"large": func() uint64 { return 1<<62 + uint64(rng.ExpFloat64()*1e12) },
	}
	for name, next := range makers {
		for _, n := range []int{0, 1, 2, 127, 128, 129, 1000, 3000} {
			v := make([]uint64, n)
			for i := range v {
				v[i] = next()
			}
			before := []byte("before")
			b := pad(append(appendList(before, v), "after"...))
			got := make([]uint64, n)
			off, err := readList(got, b, len(before))
			if err != nil || off != len(b)-len("after") || !slices.Equal(got, v) {
				t.Fatalf("%s, %d numbers: ends at %d of %d, %v", name, n, off, len(b), err)
			}
			for cut := len(before); cut < off; cut += 1 + cut/50 {
				if _, err := readList(got, pad(b[:cut]), len(before)); err == nil {
					t.Fatalf("%s, %d numbers cut off at %d of %d: no error", name, n, cut, off)
				}
			}
		}
	}
}

// The form that is chosen for numbers is near what they are worth.
func TestListsAreShort(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const n = 8192
	for _, c := range []struct {
		name string
		bits float64 // each number may take
		next func(i int) uint64
	}{
		{"constant", 0.01, func(int) uint64 { return 1 << 50 }},
		{"gaps of one in a hundred", 8.2, func(int) uint64 { return uint64(math.Log(1-rng.Float64()) / math.Log(0.99)) }},
		{"gaps of one in two", 2.02, func(int) uint64 { return uint64(bits.TrailingZeros64(rng.Uint64() | 1<<63)) }},
		{"twenty bits", 20.02, func(int) uint64 { return 1<<60 + rng.Uint64N(1<<20) }},
		{"a chunk of large numbers among small", 2.42, func(i int) uint64 {
			if i/128 == 3 {
				return rng.Uint64N(1 << 20)
			}
			return rng.Uint64N(4)
		}},
	} {
		v := make([]uint64, n)
		for i := range v {
			v[i] = c.next(i)
		}
		if got := float64(len(appendList(nil, v))) * 8 / n; got > c.bits {
			t.Errorf("%s: %.3f bits a number, want at most %.3f", c.name, got, c.bits)
		}
	}
}

// describe lays an artifact out as text: the offset, the bytes, what they mean.
func describe(t *testing.T, artifact []byte) string {
	t.Helper()
	var out strings.Builder
	line := func(from, to int, format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		for from < to {
			n := min(to-from, 8)
			fmt.Fprintf(&out, "%05x  %-23x  %s\n", from, spaced(artifact[from:from+n]), text)
			from, text = from+n, ""
		}
	}
	r, err := Open(t.Context(), bytesSource(artifact), int64(len(artifact)))
	if err != nil {
		t.Fatal(err)
	}
	d := r.dir
	for b := range d.blocks() {
		from, to := int(d.offsets[b]), int(d.offsets[b+1])
		n, postings := int(d.keys[b]), int(d.before[b+1]-d.before[b])
		raw := pad(artifact[from:to])
		var bl block
		if n == 0 {
			of := "NULL"
			if b >= d.nullBlocks {
				of = fmt.Sprintf("key %x", d.key(b))
			}
			line(from, from+1, "block %d: %d rows of %s; 0 gaps, 1 runs", b, postings, of)
			var rows []uint64
			if err := bl.decodeOne(raw, postings, uint64(d.rows), func(lo, hi uint64) {
				for ; lo < hi; lo++ {
					rows = append(rows, lo)
				}
			}); err != nil {
				t.Fatal(err)
			}
			line(from+1, to, "first row, then the others: %s", shortened(rows))
			continue
		}
		keys, err := bl.split(raw, n, postings)
		if err != nil {
			t.Fatal(err)
		}
		start := from + bl.rest - len(keys)
		line(from, start, "block %d: %d rows of %d keys; %d bytes of keys", b, postings, n, len(keys))
		if err := bl.decodeKeys(raw, n, postings, keyKind(d.columns)); err != nil {
			t.Fatal(err)
		}
		var text []string
		for i := range n {
			text = append(text, fmt.Sprintf("%x", bl.keys.append(nil, i)))
		}
		line(start, start+1, "0 words, 1 front coding")
		line(start+1, from+bl.rest, "keys %s", strings.Join(text, " "))
		start = from + bl.rest
		if err := bl.decodeCounts(raw, n); err != nil {
			t.Fatal(err)
		}
		line(start, from+bl.rest, "rows of each, less one: %s", shortened(less(bl.counts)))
		if err := bl.decodeRows(raw, n, uint64(d.rows)); err != nil {
			t.Fatal(err)
		}
		line(from+bl.rest, from+bl.rest+1, "first rows: 0 plain, 1 differences")
		line(from+bl.rest+1, to, "base and first rows %s, then the others %s", shortened(bl.firsts), shortened(bl.gaps))
	}
	at := int(d.offsets[d.blocks()])
	end := len(artifact) - tailSize
	line(at, at+1+len(d.columns), "directory: %d columns, keys are %v", len(d.columns), d.columns)
	at += 1 + len(d.columns)
	for _, f := range []struct {
		name string
		v    int64
	}{{"rows", d.rows}, {"NULLs", d.nulls}, {"postings", d.postings}, {"different keys", d.distinct}} {
		line(at, at+uvarintLen(uint64(f.v)), "%s: %d", f.name, f.v)
		at += uvarintLen(uint64(f.v))
	}
	for i, b := range [][]byte{d.min, d.max} {
		n := uvarintLen(uint64(len(b))) + len(b)
		line(at, at+n, "%s key: %x", []string{"least", "greatest"}[i], b)
		at += n
	}
	line(at, at+1, "blocks: %d", d.blocks())
	line(at+1, at+2, "of NULLs: %d", d.nullBlocks)
	at += 2
	n := d.blocks()
	for i, name := range []string{"their bytes", "their postings, less one", "their keys"} {
		v := make([]uint64, n)
		off, err := readList(v, pad(artifact), at)
		if err != nil {
			t.Fatal(err)
		}
		line(at, off, "%s: %s", name, shortened(v))
		at = off
		_ = i
	}
	for b := range n {
		line(at, at+4, "CRC-32C of block %d", b)
		at += 4
	}
	line(at, end, "first keys")
	line(end, end+8, "tail: bytes of the directory: %d", binary.LittleEndian.Uint64(artifact[end:]))
	line(end+8, end+16, "bytes of the artifact: %d", binary.LittleEndian.Uint64(artifact[end+8:]))
	line(end+16, end+20, "CRC-32C of the directory")
	line(end+20, end+24, "version %d", binary.LittleEndian.Uint16(artifact[end+20:]))
	line(end+24, end+28, "CRC-32C of the 24 bytes before")
	line(end+28, end+32, "%q", artifact[end+28:])
	return out.String()
}

func less(v []uint64) []uint64 {
	out := slices.Clone(v)
	for i := range out {
		out[i]--
	}
	return out
}

func shortened(v []uint64) string {
	if len(v) > 12 {
		return strings.TrimSuffix(fmt.Sprint(v[:10]), "]") + fmt.Sprintf(" … %d]", v[len(v)-1])
	}
	return fmt.Sprint(v)
}

type spaced []byte

func (s spaced) Format(f fmt.State, _ rune) {
	parts := make([]string, len(s))
	for i, b := range s {
		parts[i] = fmt.Sprintf("%02x", b)
	}
	fmt.Fprintf(f, "%-23s", strings.Join(parts, " "))
}

type bytesSource []byte

func (b bytesSource) ReadAtContext(_ context.Context, p []byte, off int64) (int, error) {
	return bytes.NewReader(b).ReadAt(p, off)
}

// goldens are artifacts whose bytes are written down in testdata.
func goldens(t testing.TB) map[string][]byte {
	build := func(rows int64, arrays ...arrow.Array) []byte {
		var o BuildOptions
		for _, a := range arrays {
			o.Columns = append(o.Columns, predicate.KindOf(a.DataType()))
		}
		b, err := NewBuilder(o)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if err := b.Add(t.Context(), 0, arrays...); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if _, err := b.Finish(t.Context(), &out, rows); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	ints := array.NewInt64Builder(memory.DefaultAllocator)
	for i := range 24 {
		if i%8 == 7 {
			ints.AppendNull()
		} else {
			ints.Append([]int64{5, -1, 5, 7, 1000, 7}[i%6])
		}
	}
	texts := array.NewStringBuilder(memory.DefaultAllocator)
	for _, s := range []string{"lake", "", "laker", "over", "lake", "overlake"} {
		texts.Append(s)
	}
	often := array.NewBooleanBuilder(memory.DefaultAllocator)
	for i := range 3000 {
		often.Append(i%3 == 0 || i > 1500)
	}
	text := texts.NewArray()
	return map[string][]byte{
		"ints": build(25, ints.NewArray()), "texts": build(6, text), "often": build(3000, often.NewArray()), "pair": build(6, text, array.NewSlice(text, 0, 6)),
	}
}

func TestGolden(t *testing.T) {
	for name, artifact := range goldens(t) {
		path := "testdata/" + name + ".txt"
		got := describe(t, artifact)
		if *rewrite {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s: the bytes are not those of %s; they are now\n%s", name, path, got)
		}
	}
}

// An artifact of another version of the format is not damage.
func TestVersionOfTheFuture(t *testing.T) {
	for _, artifact := range goldens(t) {
		tail := artifact[len(artifact)-tailSize:]
		tail[20] = 2
		binary.LittleEndian.PutUint32(tail[24:], checksum.Of(tail[:24]))
		_, err := Open(t.Context(), bytesSource(artifact), int64(len(artifact)))
		if !errs.Is(err, errs.Unsupported) || errs.HintOf(err) == "" {
			t.Errorf("version 2: %v", err)
		}
	}
}

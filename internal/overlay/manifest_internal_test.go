package overlay

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
)

var rewriteManifest = flag.Bool("rewrite-manifest", false, "rewrite the dumps of manifests in testdata, which are to be judged")

// manifestSample is artifacts of every shape.
func manifestSample() []*Artifact {
	one := FileKey{Path: "s3://lake/events/data/00001.parquet", Size: 4096, ETag: "\"a1\"", Rows: 100}
	two := FileKey{Path: "s3://lake/events/data/00002.parquet", Size: 300, ETag: "\"b2\"", Rows: 7}
	again := FileKey{Path: two.Path, Size: 301, ETag: "\"b3\"", Rows: 8}
	return []*Artifact{
		{Index: "6f1c", Fingerprint: "bitmap/1 3:int", Files: []CoveredFile{{one, 0}}, Bundle: "o/bundles/x.puffin", Offset: 4, Length: 1000, Type: "overlake-bitmap-v1",
			CRC: "e3069283", Rows: 100, Min: []byte{0x80, 0, 0, 0, 0, 0, 0, 1}, Max: []byte{0x80, 0, 0, 0, 0, 0, 1, 0}, Distinct: 42, Nulls: 3},
		{Index: "7a20", Fingerprint: "bloom/1 4:bytes fpr=0.01", Files: []CoveredFile{{two, 100}, {one, 0}}, Bundle: "o/bundles/x.puffin", Offset: 1004, Length: 64,
			Type: "overlake-bloom-v1", CRC: "00000000", Rows: 107, Distinct: -1, Nulls: -1},
		{Index: "6f1c", Fingerprint: "bitmap/1 3:int", Files: []CoveredFile{{again, 0}}, Bundle: "o/bundles/y.puffin", Offset: 4, Length: 0, Type: "overlake-bitmap-v1",
			CRC: "", Rows: 8, Min: []byte{}, Distinct: 1, Nulls: 0},
	}
}

func sampleHead() *head {
	return &head{Format: headFormat, Version: 7, ID: "5ba2", Parent: "11e0", Written: time.Date(2026, 11, 30, 9, 30, 0, 5e6, time.UTC),
		Definitions: []Definition{
			{ID: "6f1c", Name: "events_id_bitmap", Kind: "bitmap", Columns: []int{3}, Created: time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)},
			{ID: "7a20", Name: "by <name>", Kind: "bloom", Columns: []int{4}, Params: map[string]string{"fpr": "0.01"}, Created: time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)},
		},
		Chunks: []chunkRef{
			{Name: "chunks/v3-90d1", Size: 18000, CRC32C: "89abcdef", Artifacts: 200, Dead: []int32{0, 5, 17, 18}},
			{Name: "chunks/v7-c7f3", Size: 331, CRC32C: "01234567", Artifacts: 3},
		}}
}

func TestChunkRoundTrip(t *testing.T) {
	want := manifestSample()
	b := encodeChunk("o", want)
	if !bytes.Equal(b, encodeChunk("o", want)) {
		t.Error("equal artifacts make different chunks")
	}
	c, err := decodeChunk("o", b)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.artifacts) != len(want) {
		t.Fatalf("%d artifacts", len(c.artifacts))
	}
	for i := range want {
		if !reflect.DeepEqual(c.artifacts[i], *want[i]) {
			t.Errorf("artifact %d is\n%+v, want\n%+v", i, c.artifacts[i], *want[i])
		}
	}
	// Under another prefix the same chunk is of bundles there: an overlay can be moved.
	moved, err := decodeChunk("elsewhere/p", b)
	if err != nil || moved.artifacts[2].Bundle != "elsewhere/p/bundles/y.puffin" {
		t.Errorf("under another prefix: %v", err)
	}
	for cut := range b {
		if _, err := decodeChunk("o", b[:cut]); err == nil {
			t.Errorf("cut to %d of %d bytes it is read", cut, len(b))
		}
	}
	if _, err := decodeChunk("o", append(slices.Clone(b), 0)); err == nil {
		t.Error("with a byte more it is read")
	}
}

// TestChunksThatClaimMuch: counts are believed only when the bytes could hold what they count.
func TestChunksThatClaimMuch(t *testing.T) {
	num := func(n ...uint64) []byte {
		b := []byte(chunkMagic)
		for _, v := range n {
			b = binary.AppendUvarint(b, v)
		}
		return b
	}
	for what, b := range map[string][]byte{
		"texts": num(1 << 40), "files": num(0, 1<<40), "artifacts": num(0, 0, 1<<40), "a text's bytes": num(1, 1<<40), "a path shared with none": num(0, 1, 3, 0, 0, 0, 0),
		"covered files": append(num(1, 0, 1, 0, 1), append([]byte("f"), binary.AppendUvarint([]byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 1<<40)...)...),
	} {
		allocated := testing.AllocsPerRun(1, func() {
			if _, err := decodeChunk("o", b); err == nil {
				t.Errorf("%s: it is read", what)
			}
		})
		if allocated > 100 {
			t.Errorf("%s: %v allocations", what, allocated)
		}
	}
}

func TestHeads(t *testing.T) {
	want := sampleHead()
	b, err := encodeHead(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeHead(b, 7)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%v: read\n%+v\nwritten\n%+v", err, got, want)
	}
	if _, err := decodeHead(b, 8); err == nil {
		t.Error("under the name of another version it is read")
	}
	for i := range b {
		for bit := range 8 {
			bad := bytes.Clone(b)
			bad[i] ^= 1 << bit
			if _, err := decodeHead(bad, 7); err == nil {
				t.Errorf("with bit %d of byte %d flipped it is read", bit, i)
			}
		}
		if _, err := decodeHead(b[:i], 7); err == nil {
			t.Errorf("cut to %d bytes it is read", i)
		}
	}
	for what, change := range map[string]func(*head){
		"a chunk elsewhere":       func(h *head) { h.Chunks[0].Name = "bundles/x" },
		"a chunk outside":         func(h *head) { h.Chunks[0].Name = "chunks/../../x" },
		"a chunk of no size":      func(h *head) { h.Chunks[0].Size = -1 },
		"a chunk too large":       func(h *head) { h.Chunks[0].Size = maxChunk + 1 },
		"too many artifacts":      func(h *head) { h.Chunks[0].Artifacts = maxArtifacts + 1 },
		"negative artifacts":      func(h *head) { h.Chunks[0].Artifacts = -1 },
		"dead beyond the chunk":   func(h *head) { h.Chunks[0].Dead = []int32{1, 201} },
		"dead before the chunk":   func(h *head) { h.Chunks[0].Dead = []int32{-1, 2} },
		"dead without an end":     func(h *head) { h.Chunks[0].Dead = []int32{1} },
		"dead in disorder":        func(h *head) { h.Chunks[0].Dead = []int32{5, 6, 6, 7} },
		"a definition without id": func(h *head) { h.Definitions[0].ID = "" },
		"a definition twice":      func(h *head) { h.Definitions[0].ID = h.Definitions[1].ID },
		"a later format":          func(h *head) { h.Format = 2 },
	} {
		h := sampleHead()
		change(h)
		b, err := encodeHead(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeHead(b, 7); err == nil {
			t.Errorf("%s: it is read", what)
		}
	}
}

func TestDeadSets(t *testing.T) {
	for size := range 70 {
		for _, ranges := range [][]int32{nil, {0, int32(size)}, {0, 1, int32(size - 1), int32(size)}} {
			ref := chunkRef{Name: "chunks/x", Artifacts: size, Dead: ranges}
			if ref.check() != nil {
				continue
			}
			d := deadRanges(size, ranges)
			n := 0
			for i := range int32(size) {
				if d.has(i) {
					n++
				}
			}
			if got := d.ranges(size); n != d.n || len(got) != len(ranges) || len(got) > 0 && !slices.Equal(got, ranges) {
				t.Errorf("of %d, %v become %v with %d of %d", size, ranges, got, d.n, n)
			}
		}
	}
	if d := (deadSet{}).add(100, []int32{3, 3, 99}); d.n != 2 || d.has(4) || !d.has(99) || d.has(64) {
		t.Errorf("%+v", d)
	}
}

func TestManifestNames(t *testing.T) {
	for name, want := range map[string]int64{"v1.json": 1, "v12.json": 12, "v0.json": 0, "v01.json": 0, "v-1.json": 0, "v1.json.tmp": 0, "1.json": 0, "v99999999999999999999.json": 0, "v1": 0, "chunks/v1.json": 0} {
		if got := versionOf(name); got != want {
			t.Errorf("%s is version %d", name, got)
		}
	}
	for name, want := range map[string]int64{"chunks/v3-x": 3, "chunks/v3": 0, "chunks/x-3": 0, "v3-x": 0, "chunks/v0-x": 0, "chunks/v3-a/b": 0} {
		if got, ok := chunkVersion(name); ok != (want > 0) || ok && got != want {
			t.Errorf("%s is for version %d, %v", name, got, ok)
		}
	}
}

// TestManifestDump holds the bytes of a chunk and of a head beside their meaning: whoever changes them changes the format. The
// reader here is written for this test, from the page docs/format/overlay-manifest.md, so that the product's is not its own
// judge.
func TestManifestDump(t *testing.T) {
	b := encodeChunk("o", manifestSample())
	var out strings.Builder
	fmt.Fprintf(&out, "# A chunk of %d bytes with the checksum %s: where, bytes, meaning.\n", len(b), manifestSum(b))
	at := 0
	show := func(n int, format string, args ...any) {
		fmt.Fprintf(&out, "%4d  %-36x %s\n", at, b[at:at+n], fmt.Sprintf(format, args...))
		at += n
	}
	num := func(what string) int {
		v, n := binary.Uvarint(b[at:])
		show(n, "%s: %d", what, v)
		return int(v)
	}
	signed := func(what string) {
		v, n := binary.Varint(b[at:])
		show(n, "%s: %d", what, v)
	}
	text := func(what string) {
		v, n := binary.Uvarint(b[at:])
		show(n+int(v), "%s: %q", what, b[at+n:at+n+int(v)])
	}
	show(5, "magic, format 1")
	for i := range num("texts") {
		text(fmt.Sprint("text ", i))
	}
	for i := range num("files") {
		num(fmt.Sprintf("file %d: bytes of the path before", i))
		text("  and more")
		num("  size")
		text("  ETag")
		num("  rows")
	}
	for i := range num("artifacts") {
		num(fmt.Sprintf("artifact %d: index, text", i))
		num("  fingerprint, text")
		num("  type, text")
		num("  bundle, text")
		num("  offset")
		num("  length")
		text("  checksum")
		num("  rows")
		flags := num("  flags")
		if flags&1 != 0 {
			text("  min")
		}
		if flags&2 != 0 {
			text("  max")
		}
		signed("  distinct")
		signed("  nulls")
		for range num("  files") {
			signed("    file, from the one after the last")
			signed("    first row, from the last")
		}
	}
	if at != len(b) {
		t.Fatalf("%d bytes are not explained", len(b)-at)
	}
	h, err := encodeHead(sampleHead())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&out, "\n# A head.\n%s", h)
	golden := filepath.Join("testdata", "manifest.txt")
	if *rewriteManifest {
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("the bytes of manifests changed; look, and run with -rewrite-manifest\n%s", out.String())
	}
}

func FuzzDecodeChunk(f *testing.F) {
	f.Add(encodeChunk("o", manifestSample()))
	f.Add(encodeChunk("o", manifestSample()[:1]))
	f.Add(encodeChunk("o", nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decodeChunk("o", b)
		if err != nil {
			return
		}
		// What is read can be written and means the same.
		var all []*Artifact
		for i := range c.artifacts {
			all = append(all, &c.artifacts[i])
		}
		again, err := decodeChunk("o", encodeChunk("o", all))
		if err != nil || !reflect.DeepEqual(again.artifacts, c.artifacts) && len(c.artifacts) > 0 {
			t.Fatalf("read %+v, written and read again %+v, %v", c.artifacts, again, err)
		}
		for i := range c.artifacts {
			for _, file := range c.artifacts[i].Files {
				found := false
				c.covering(c.artifacts[i].Index, file.Path, func(n int32) bool { found = found || int(n) == i; return true })
				if !found {
					t.Fatalf("artifact %d is not found by %q", i, file.Path)
				}
			}
		}
	})
}

func FuzzDecodeHead(f *testing.F) {
	b, err := encodeHead(sampleHead())
	if err != nil {
		f.Fatal(err)
	}
	body := string(b[len(headBegin)+8+len(headThen) : len(b)-len(headEnd)])
	f.Add(body)
	f.Add(`{"format":1,"version":7,"chunks":[{"name":"chunks/a","artifacts":3,"dead":[1,2]}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		// The checksum is made right, so that what is behind it is reached.
		b := []byte(headBegin + manifestSum([]byte(body)) + headThen + body + headEnd)
		h, err := decodeHead(b, 7)
		if err != nil {
			return
		}
		// Whatever it names, loading gives damage and no more.
		store := objstore.NewMemory("f")
		if _, err := store.Put(t.Context(), "o/v7.json", b, objstore.Condition{}); err != nil {
			t.Fatal(err)
		}
		v, err := OpenChain(store, "o").Load(t.Context())
		if err != nil || v.Number != 7 || len(v.Damage) != len(h.Chunks) {
			t.Fatalf("%v: version %d, damage %v", err, v.Number, v.Damage)
		}
		for _, err := range v.Damage {
			if !errs.Is(err, errs.NotFound) {
				t.Fatal(err)
			}
		}
	})
}

// FuzzHint reads anything as a hint; one that is written again says the same.
func FuzzHint(f *testing.F) {
	for _, s := range []string{"", "12", "12\n", "7\nchunks/v7-a\nchunks/v3-b", "-1\nx", "99999999999999999999", " 5 \n\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		n, chunks := parseHint(data)
		if n < 0 || n == 0 && chunks != nil {
			t.Fatalf("version %d with %d chunks", n, len(chunks))
		}
		if n == 0 || len(data) > hintSize || len(chunks) > hintChunks {
			return
		}
		h := head{Version: n}
		for _, c := range chunks {
			h.Chunks = append(h.Chunks, chunkRef{Name: c})
		}
		if m, again := parseHint(hintOf(&h)); m != n || len(again) != len(chunks) {
			t.Fatalf("%d, %q became %d, %q", n, chunks, m, again)
		}
	})
}

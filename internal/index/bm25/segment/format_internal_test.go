package segment

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/index/bm25/block"
	"github.com/overlakedb/overlake/internal/index/bm25/posting"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
	"github.com/overlakedb/overlake/internal/index/vector/section"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// dump lays a segment out as text: where, the bytes, what they mean.
type dump struct {
	strings.Builder
	t testing.TB
	b []byte
	r *Reader
}

func (d *dump) line(at int64, n int, format string, args ...any) int64 {
	d.t.Helper()
	text := fmt.Sprintf(format, args...)
	for part := d.b[at : at+int64(n)]; len(part) > 0; {
		k := min(len(part), 16)
		fmt.Fprintf(d, "%04x  %-32x  %s\n", at, part[:k], text)
		at, part, text = at+int64(k), part[k:], ""
	}
	return at
}

// varint says what a number is and gives it.
func (d *dump) varint(at int64, what string) (int64, uint64) {
	v, k := binary.Uvarint(d.b[at:])
	return d.line(at, k, "%s: %d", what, v), v
}

func TestFormat(t *testing.T) {
	type text = []string
	cases := map[string]struct {
		fields []Field
		rows   int
		text   func(row int) []text
	}{
		"small": {[]Field{{Analyzer: "standard/2", Positions: true, Params: similarity.DefaultParams}, {Analyzer: "keyword/1", Params: similarity.Params{K1: 0.9, B: 0.4}}}, 5, func(r int) []text {
			return [][]string{{"quick", "brown", "fox"}, {"quick", "quick", "dog"}, {}, {"brown", "bear", "brown", "brows"}, {"once"}}[r : r+1 : r+1]
		}},
		"long": {[]Field{{Analyzer: "standard/2", Positions: true, Params: similarity.DefaultParams}}, 400, func(r int) []text {
			words := text{}
			if r*r%11 < 5 {
				words = append(words, "often")
			}
			if r < 130 {
				words = append(words, "all")
			}
			if r%50 == 7 {
				words = append(words, "often", "few")
			}
			return []text{words}
		}},
	}
	for name, c := range cases {
		b, err := NewBuilder(Options{Fields: c.fields})
		if err != nil {
			t.Fatal(err)
		}
		for r := range c.rows {
			words := c.text(r)
			if len(c.fields) > 1 {
				words = append(words, text{fmt.Sprintf("key %d", r%2)})
			}
			for f, w := range words {
				if err := b.Begin(uint32(r), f); err != nil {
					t.Fatal(err)
				}
				for at, term := range w {
					b.Token([]byte(term), at)
				}
				if err := b.End(); err != nil {
					t.Fatal(err)
				}
			}
		}
		var out bytes.Buffer
		if _, err := b.Finish(t.Context(), &out, int64(c.rows)); err != nil {
			t.Fatal(err)
		}
		got := describe(t, out.Bytes())
		path := filepath.Join("testdata", name+".txt")
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
			t.Errorf("%s is laid out differently; run with -rewrite and look at the difference, and at the number of the format", path)
		}
	}
}

func describe(t *testing.T, b []byte) string {
	r, err := Open(t.Context(), bytesSource(b), int64(len(b)), OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d := &dump{t: t, b: b, r: r}
	find := func(k section.Kind) section.Section {
		s, ok := r.file.Find(k)
		if !ok {
			t.Fatalf("no section %d", k)
		}
		fmt.Fprintf(d, "section %d, %d bytes, checksum %08x\n", k, s.Length, s.Sum)
		return s
	}
	s := find(postingsSection)
	at := s.Offset
	for f := range r.fields {
		at = d.runs(f, at)
	}
	d.line(at, block.Slack, "slack")
	s = find(lengthsSection)
	at = s.Offset
	for f := range r.fields {
		at = d.line(at, int(r.Rows()), "length bytes of field %d", f)
	}
	d.line(at, block.Slack, "slack")
	s = find(dictionarySection)
	at = s.Offset
	for f := range r.fields {
		for n := range int(r.fields[f].Blocks) {
			at = d.block(f, n, at)
		}
	}
	s = find(indexSection)
	at = s.Offset
	for f := range r.fields {
		for range r.fields[f].Blocks {
			var n uint64
			at, _ = d.varint(at, fmt.Sprintf("field %d, shared with the separator before", f))
			at, n = d.varint(at, "bytes of its own")
			at = d.line(at, int(n), "%q", b[at:at+int64(n)])
			at, _ = d.varint(at, "bytes of the dictionary block")
		}
	}
	s = find(headSection)
	d.line(s.Offset, int(s.Length), "%s", strings.ReplaceAll(string(b[s.Offset:s.Offset+s.Length]), "},{", "},\n{"))
	return d.String()
}

// runs shows the postings of a field, dictionary block by dictionary block.
func (d *dump) runs(f int, at int64) int64 {
	field := &d.r.fields[f]
	for n := range int(field.Blocks) {
		blocks, err := d.r.readBlocks(d.t.Context(), field, []int{n})
		if err != nil {
			d.t.Fatal(err)
		}
		var small, places []func()
		err2 := error(nil)
		_, _, err = blocks[0].walk(nil, func(term []byte, t posting.Term) ([]byte, bool) {
			name := string(term)
			var l list
			if err2 = d.r.openLists(d.t.Context(), []openRequest{{f, t, field.Positions}}, []*list{&l}); err2 != nil {
				return nil, false
			}
			rows := func() string {
				if err := l.decodeRows(); err != nil {
					d.t.Fatal(err)
				}
				return fmt.Sprint(l.row[:l.count])
			}
			switch t.At[0] & 3 {
			case formSmall:
				size := block.Bytes(l.count, uint(t.At[0]>>2&63))
				freqs := block.Bytes(l.count, uint(t.At[0]>>8&63))
				shown := rows()
				counts := fmt.Sprint(l.freq[:l.count])
				small = append(small, func() {
					at = d.line(at, size, "%q: gaps of rows %s", name, shown)
					at = d.line(at, freqs, "%q: frequencies %s, less one", name, counts)
				})
				if field.Positions {
					width := block.Bytes(int(t.TotalFreq), uint(t.At[0]>>14&63))
					places = append(places, func() { at = d.line(at, width, "%q: positions", name) })
				}
			case formLarge:
				for i := range l.n {
					if err := l.load(i); err != nil {
						d.t.Fatal(err)
					}
					end := int(binary.LittleEndian.Uint32(l.ends[4*i:]))
					begin := 0
					if i > 0 {
						begin = int(binary.LittleEndian.Uint32(l.ends[4*(i-1):]))
					}
					kind := "gaps"
					if l.set != nil {
						kind = "bit set"
					}
					shown := []byte(rows())
					at = d.line(at, end-begin, "%q: block %d, %s of %d rows %.40s…, then frequencies of width %d", name, i, kind, l.count, shown, l.freqWidth)
				}
				at = d.line(at, 4*l.n, "last rows")
				at = d.line(at, 4*l.n, "ends of blocks")
				if field.Positions {
					at = d.line(at, 4*l.n, "occurrences before")
				}
				at = d.line(at, 2*l.n, "worths")
				at = d.line(at, l.n, "widths of rows; 64 is a bit set")
				at = d.line(at, l.n, "widths of frequencies")
				if field.Positions {
					o := &l.pos
					at = d.line(at, len(o.packed), "%q: positions", name)
					at = d.line(at, len(o.ends), "ends of blocks of them")
					at = d.line(at, len(o.widths), "their widths")
				}
			}
			return nil, true
		})
		if err != nil || err2 != nil {
			d.t.Fatal(err, err2)
		}
		for _, show := range append(small, places...) {
			show()
		}
	}
	return at
}

// block shows a dictionary block.
func (d *dump) block(f, n int, at int64) int64 {
	field := &d.r.fields[f]
	at, terms := d.varint(at, fmt.Sprintf("field %d, dictionary block %d: terms", f, n))
	at, _ = d.varint(at, "bytes of keys")
	for range terms {
		var k uint64
		at, _ = d.varint(at, "shared with the term before")
		at, k = d.varint(at, "bytes of its own")
		at = d.line(at, int(k), "%q", d.b[at:at+int64(k)])
	}
	at, _ = d.varint(at, "where its runs begin")
	at, _ = d.varint(at, "bytes of large runs")
	at, _ = d.varint(at, "bytes of the shared run")
	at = d.line(at, 4, "checksum of it")
	if field.Positions {
		at, _ = d.varint(at, "bytes of the shared positions")
		at = d.line(at, 4, "checksum of them")
	}
	for range terms {
		var docs, more uint64
		at, docs = d.varint(at, "rows; 0 is one posting, here")
		if docs == 0 {
			at, _ = d.varint(at, "row")
			if field.Positions {
				at, _ = d.varint(at, "position")
			}
			continue
		}
		at, more = d.varint(at, "occurrences, less the rows")
		if isSmall(docs, docs+more) {
			at = d.line(at, 1, "width of rows")
			if more > 0 {
				at = d.line(at, 1, "width of frequencies")
			}
			if field.Positions {
				at = d.line(at, 1, "width of positions")
			}
			continue
		}
		at, _ = d.varint(at, "bytes of the run")
		at = d.line(at, 4, "checksum of it")
		if field.Positions {
			at, _ = d.varint(at, "bytes of the positions")
			at = d.line(at, 4, "checksum of them")
		}
	}
	return d.line(at, 4, "checksum of the block")
}

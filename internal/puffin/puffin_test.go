package puffin_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/checksum"
	"github.com/overlakedb/overlake/internal/codec"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/puffin"
)

// memory is a Source of bytes that counts its reads.
type memory struct {
	b     []byte
	reads int
}

func (m *memory) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	m.reads++
	return bytes.NewReader(m.b).ReadAt(p, off)
}

func open(t testing.TB, b []byte) (*puffin.Reader, error) {
	return puffin.Open(t.Context(), &memory{b: b}, int64(len(b)), puffin.ReaderOptions{})
}

type content struct {
	spec puffin.BlobSpec
	data []byte
}

// write makes a file, giving blobs out in pieces where the spec has a size or no codec.
func write(t testing.TB, opts puffin.WriterOptions, blobs ...content) ([]byte, puffin.Footer) {
	t.Helper()
	var out bytes.Buffer
	w, err := puffin.NewWriter(&out, opts)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range blobs {
		if i%2 == 0 {
			if _, err := w.Add(c.spec, c.data); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if c.spec.Codec != codec.None {
			c.spec.Size = int64(len(c.data))
		}
		b, err := w.Create(c.spec)
		if err != nil {
			t.Fatal(err)
		}
		for rest := c.data; len(rest) > 0; {
			n := min(len(rest), 1000)
			if _, err := b.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if _, err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if w.Offset() > int64(out.Len()) {
		t.Fatalf("the writer is at %d of %d", w.Offset(), out.Len())
	}
	f, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), f
}

func sample(n int) []byte {
	rng := rand.New(rand.NewPCG(3, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		if i/32%2 == 0 {
			b[i] = byte(rng.Uint32())
		}
	}
	return b
}

// samples are blobs of all codecs and of sizes from nothing to more than a block.
func samples() []content {
	var out []content
	for i, n := range []int{0, 1, 50, 5000, 300_000} {
		for _, c := range []codec.Codec{codec.None, codec.LZ4, codec.Zstd} {
			if n == 0 && c != codec.None {
				continue
			}
			out = append(out, content{puffin.BlobSpec{Type: fmt.Sprintf("overlake-%d-v1", i), Fields: []int32{int32(i), 2147483645}, SnapshotID: -1,
				SequenceNumber: 1 << 60, Codec: c, Properties: map[string]string{"kind": "<&> \u2028 é"}}, sample(n)})
		}
	}
	return out
}

func TestRoundTrip(t *testing.T) {
	for _, packed := range []bool{false, true} {
		opts := puffin.WriterOptions{Properties: map[string]string{puffin.CreatedBy: "test"}, PackFooter: packed}
		blobs := samples()
		b, footer := write(t, opts, blobs...)
		again, _ := write(t, opts, blobs...)
		if !bytes.Equal(b, again) {
			t.Error("equal blobs make different files")
		}
		r, err := open(t, b)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Footer(); !reflect.DeepEqual(got, footer) {
			t.Fatalf("read\n%+v\nwritten\n%+v", got, footer)
		}
		at := int64(4)
		for i, c := range blobs {
			meta := footer.Blobs[i]
			if meta.Offset != at || meta.Type != c.spec.Type || meta.SequenceNumber != 1<<60 || meta.Properties["kind"] != "<&> \u2028 é" {
				t.Errorf("blob %d is %+v at %d", i, meta, at)
			}
			at += meta.Length
			got, err := r.ReadBlob(t.Context(), i, int64(len(c.data)))
			if err != nil || !bytes.Equal(got, c.data) {
				t.Errorf("blob %d: %v, equal: %v", i, err, bytes.Equal(got, c.data))
			}
			if len(c.data) > 0 {
				if _, err := r.ReadBlob(t.Context(), i, int64(len(c.data))-1); !errs.Is(err, errs.Exhausted) {
					t.Errorf("blob %d over the limit: %v", i, err)
				}
			}
			s, err := r.Blob(i)
			if c.spec.Codec != codec.None {
				if !errs.Is(err, errs.Unsupported) {
					t.Errorf("blob %d, packed, by range: %v", i, err)
				}
				continue
			}
			if err != nil || s.Size() != int64(len(c.data)) {
				t.Fatalf("blob %d has %d bytes: %v", i, s.Size(), err)
			}
			if got := make([]byte, len(c.data)/2); len(got) > 0 {
				if _, err := s.ReadAtContext(t.Context(), got, int64(len(got)/2)); err != nil || !bytes.Equal(got, c.data[len(got)/2:][:len(got)]) {
					t.Errorf("blob %d by range: %v", i, err)
				}
			}
		}
		if _, err := r.ReadBlob(t.Context(), len(blobs), 1); !errs.Is(err, errs.Invalid) {
			t.Errorf("a blob that is not there: %v", err)
		}
		if _, err := r.Blob(-1); !errs.Is(err, errs.Invalid) {
			t.Errorf("a blob that is not there: %v", err)
		}
	}
}

func TestPropertiesOfBlobs(t *testing.T) {
	data := []byte("123456789")
	_, f := write(t, puffin.WriterOptions{}, content{puffin.BlobSpec{Type: "a"}, data}, content{puffin.BlobSpec{Type: "b", Bare: true}, data})
	// e3069283 is the check value of CRC-32C in the literature.
	if want := map[string]string{"overlake.crc32c": "e3069283", "overlake.size": "9"}; !reflect.DeepEqual(f.Blobs[0].Properties, want) {
		t.Errorf("%v, want %v", f.Blobs[0].Properties, want)
	}
	if f.Blobs[1].Properties != nil {
		t.Errorf("a bare blob has %v", f.Blobs[1].Properties)
	}
}

// TestDamage cuts and flips a file everywhere. What comes is an error or the blob as written: the footer has no checksum, so
// words in it may change, but not which bytes are taken for a blob.
func TestDamage(t *testing.T) {
	for _, packed := range []bool{false, true} {
		var blobs []content
		for _, c := range []codec.Codec{codec.None, codec.LZ4, codec.Zstd} {
			blobs = append(blobs, content{puffin.BlobSpec{Type: "t-v1", Fields: []int32{1}, Codec: c}, sample(90)})
		}
		whole, _ := write(t, puffin.WriterOptions{PackFooter: packed}, blobs...)
		check := func(what string, b []byte) (opened bool) {
			t.Helper()
			r, err := open(t, b)
			if err != nil {
				if k := errs.KindOf(err); k != errs.Corrupt && k != errs.Unsupported && k != errs.Exhausted {
					t.Errorf("%s: %v: %v", what, k, err)
				}
				return false
			}
			for i := range r.Len() {
				got, err := r.ReadBlob(t.Context(), i, 1<<16)
				if err == nil && !bytes.Equal(got, blobs[min(i, 2)].data) {
					t.Errorf("%s: blob %d has other bytes", what, i)
				}
				_, _ = r.Blob(i)
			}
			return true
		}
		if !check("whole", whole) {
			t.Fatal("the whole file is not read")
		}
		for cut := range whole {
			if check(fmt.Sprintf("cut to %d", cut), whole[:cut]) {
				t.Errorf("cut to %d of %d bytes it is opened", cut, len(whole))
			}
			check(fmt.Sprintf("cut from %d", cut), whole[cut:])
		}
		for i := range whole {
			for bit := range 8 {
				b := bytes.Clone(whole)
				b[i] ^= 1 << bit
				check(fmt.Sprintf("bit %d of byte %d", bit, i), b)
			}
		}
	}
}

// TestOneOrTwoReads: a small footer is in the first read, a large one in the second, whatever the blobs weigh.
func TestOneOrTwoReads(t *testing.T) {
	for _, c := range []struct{ blobs, reads int }{{1, 1}, {100, 1}, {2000, 2}} {
		var blobs []content
		for range c.blobs {
			blobs = append(blobs, content{puffin.BlobSpec{Type: "overlake-bitmap-v1", Fields: []int32{1}}, sample(1000)})
		}
		b, _ := write(t, puffin.WriterOptions{}, blobs...)
		m := &memory{b: b}
		r, err := puffin.Open(t.Context(), m, int64(len(b)), puffin.ReaderOptions{})
		if err != nil || r.Len() != c.blobs || m.reads != c.reads {
			t.Errorf("%d blobs: %v after %d reads, want %d", c.blobs, err, m.reads, c.reads)
		}
	}
}

// forge makes a file around a footer's payload.
func forge(payload string, flags uint32) []byte {
	b := []byte("PFA1" + "blobblob" + "PFA1" + payload)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = binary.LittleEndian.AppendUint32(b, flags)
	return append(b, "PFA1"...)
}

const forged = `{"type":"t","fields":[],"snapshot-id":1,"sequence-number":1,"offset":4,"length":8}`

func TestFooters(t *testing.T) {
	with := func(old, new string) string { return `{"blobs":[` + strings.Replace(forged, old, new, 1) + `]}` }
	for name, c := range map[string]struct {
		file []byte
		kind errs.Kind
		want string // of the first blob, when it is read
	}{
		"as it should be":        {file: forge(with("", ""), 0), want: "blobblob"},
		"unknown members":        {file: forge(with(`{"type"`, `{"new":{"x":[1]},"Length":3,"type"`), 0), want: "blobblob"},
		"null for nothing":       {file: forge(with(`{"type"`, `{"compression-codec":null,"properties":null,"type"`), 0), want: "blobblob"},
		"unknown codec":          {file: forge(with(`{"type"`, `{"compression-codec":"brotli","type"`), 0), kind: errs.Unsupported},
		"unknown flag":           {file: forge(with("", ""), 2), kind: errs.Unsupported},
		"unknown flag, 4th byte": {file: forge(with("", ""), 1<<31), kind: errs.Unsupported},
		"packed but is not":      {file: forge(with("", ""), 1), kind: errs.Corrupt},
		"no type":                {file: forge(with(`"type":"t",`, ``), 0), kind: errs.Corrupt},
		"no offset":              {file: forge(with(`"offset":4,`, ``), 0), kind: errs.Corrupt},
		"null length":            {file: forge(with(`"length":8`, `"length":null`), 0), kind: errs.Corrupt},
		"length is text":         {file: forge(with(`"length":8`, `"length":"8"`), 0), kind: errs.Corrupt},
		"field of 33 bits":       {file: forge(with(`[]`, `[4294967296]`), 0), kind: errs.Corrupt},
		"over the head":          {file: forge(with(`"offset":4`, `"offset":3`), 0), kind: errs.Corrupt},
		"over the footer":        {file: forge(with(`"length":8`, `"length":9`), 0), kind: errs.Corrupt},
		"negative offset":        {file: forge(with(`"offset":4`, `"offset":-4`), 0), kind: errs.Corrupt},
		"negative length":        {file: forge(with(`"length":8`, `"length":-1`), 0), kind: errs.Corrupt},
		"overflow":               {file: forge(with(`"length":8`, `"length":9223372036854775807`), 0), kind: errs.Corrupt},
		"far offset":             {file: forge(with(`"offset":4`, `"offset":9223372036854775807`), 0), kind: errs.Corrupt},
		"wrong size":             {file: forge(with(`"offset":4`, `"properties":{"overlake.size":"7"},"offset":4`), 0), kind: errs.Corrupt},
		"wrong checksum":         {file: forge(with(`"offset":4`, `"properties":{"overlake.crc32c":"zz"},"offset":4`), 0), kind: errs.Corrupt},
		"no list":                {file: forge(`{"blobs":{}}`, 0), kind: errs.Corrupt},
		"nothing":                {file: forge(``, 0), kind: errs.Corrupt},
		"a list":                 {file: forge(`[]`, 0), kind: errs.Corrupt},
		"no UTF-8 JSON":          {file: forge("\xff\xfe", 0), kind: errs.Corrupt},
		"bytes after":            {file: forge(with("", "")+"x", 0), kind: errs.Corrupt},
		"bad properties":         {file: forge(`{"blobs":[],"properties":[]}`, 0), kind: errs.Corrupt},
	} {
		r, err := open(t, c.file)
		var got []byte
		if err == nil {
			if r.Len() == 0 {
				t.Errorf("%s: no blob", name)
				continue
			}
			got, err = r.ReadBlob(t.Context(), 0, 100)
		}
		if c.want == "" && !errs.Is(err, c.kind) || c.want != "" && (err != nil || string(got) != c.want) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestLimits(t *testing.T) {
	many := `{"blobs":[` + strings.Repeat(forged+",", 9) + forged + `]}`
	b := forge(many, 0)
	for _, c := range []struct {
		opts puffin.ReaderOptions
		ok   bool
	}{
		{puffin.ReaderOptions{MaxBlobs: 10, MaxFooter: int64(len(many))}, true},
		{puffin.ReaderOptions{MaxBlobs: 9}, false},
		{puffin.ReaderOptions{MaxFooter: int64(len(many)) - 1}, false},
	} {
		if _, err := puffin.Open(t.Context(), &memory{b: b}, int64(len(b)), c.opts); c.ok != (err == nil) || err != nil && !errs.Is(err, errs.Exhausted) {
			t.Errorf("%+v: %v", c.opts, err)
		}
	}
	// The limit holds for the payload unpacked, too.
	packed, _ := write(t, puffin.WriterOptions{Properties: map[string]string{"x": strings.Repeat("x", 100_000)}, PackFooter: true})
	if len(packed) > 10_000 {
		t.Fatalf("the packed footer has %d bytes", len(packed))
	}
	if _, err := puffin.Open(t.Context(), &memory{b: packed}, int64(len(packed)), puffin.ReaderOptions{MaxFooter: 50_000}); !errs.Is(err, errs.Exhausted) {
		t.Errorf("a packed footer over the limit: %v", err)
	}
}

// TestSizeIsBelieved: a size that is not the file's, as a manifest may have it, is an error.
func TestSizeIsBelieved(t *testing.T) {
	b, _ := write(t, puffin.WriterOptions{}, content{puffin.BlobSpec{Type: "t"}, sample(300)})
	for _, d := range []int64{-300, -10, -1, 1, 10, 10_000} {
		if _, err := puffin.Open(t.Context(), &memory{b: b}, int64(len(b))+d, puffin.ReaderOptions{}); !errs.Is(err, errs.Corrupt) {
			t.Errorf("a size off by %d: %v", d, err)
		}
	}
}

func TestCheckHead(t *testing.T) {
	b, _ := write(t, puffin.WriterOptions{})
	if err := puffin.CheckHead(t.Context(), &memory{b: b}); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "PFA", "PFA2PFA1"} {
		if err := puffin.CheckHead(t.Context(), &memory{b: []byte(bad)}); !errs.Is(err, errs.Corrupt) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestSections(t *testing.T) {
	s, err := puffin.NewSection(&memory{b: []byte("0123456789")}, 2, 5)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		n    int
		off  int64
		want string
		err  error
	}{{5, 0, "23456", nil}, {6, 0, "23456", io.EOF}, {2, 3, "56", nil}, {3, 3, "56", io.EOF}, {1, 5, "", io.EOF}, {1, 1 << 62, "", io.EOF}, {0, 5, "", nil}} {
		p := make([]byte, c.n)
		n, err := s.ReadAtContext(t.Context(), p, c.off)
		if string(p[:n]) != c.want || !errors.Is(err, c.err) {
			t.Errorf("%d bytes at %d: %q, %v", c.n, c.off, p[:n], err)
		}
	}
	if _, err := s.ReadAtContext(t.Context(), nil, -1); !errs.Is(err, errs.Invalid) {
		t.Errorf("a negative offset: %v", err)
	}
	for _, c := range [][2]int64{{-1, 1}, {1, -1}, {1 << 62, 1 << 62}} {
		if _, err := puffin.NewSection(&memory{}, c[0], c[1]); !errs.Is(err, errs.Invalid) {
			t.Errorf("a section at %d of %d: %v", c[0], c[1], err)
		}
	}
}

// TestObjects reads through a store, whole, and with a store whose reads break and lie.
func TestObjects(t *testing.T) {
	blobs := samples()
	b, _ := write(t, puffin.WriterOptions{}, blobs...)
	store, err := objstore.NewFaulty(objstore.NewMemory("t"), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Put(t.Context(), "b.puffin", b, objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
	read := func() error {
		o, err := store.Open(t.Context(), "b.puffin")
		if err != nil {
			return err
		}
		defer o.Close()
		r, err := puffin.Open(t.Context(), puffin.Object(o), o.Size(), puffin.ReaderOptions{})
		if err != nil {
			return err
		}
		for i, c := range blobs {
			got, err := r.ReadBlob(t.Context(), i, 1<<20)
			if err != nil {
				return err
			}
			if !bytes.Equal(got, c.data) {
				t.Errorf("blob %d has other bytes", i)
			}
		}
		return nil
	}
	if err := read(); err != nil {
		t.Fatal(err)
	}
	for script, kind := range map[string]errs.Kind{"fail read * at 1": errs.Unavailable, "tear read * at 5": errs.Unavailable, "flip read * at 7": errs.Corrupt, "deny read * at 2": errs.Denied} {
		if err := store.Set(script); err != nil {
			t.Fatal(err)
		}
		if err := read(); !errs.Is(err, kind) {
			t.Errorf("%s: %v", script, err)
		}
	}
}

func TestCancel(t *testing.T) {
	b, _ := write(t, puffin.WriterOptions{}, samples()...)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := puffin.Open(ctx, &memory{b: b}, int64(len(b)), puffin.ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := r.ReadBlob(ctx, 1, 1<<20); !errs.Is(err, errs.Canceled) {
		t.Errorf("a read after the end of its context: %v", err)
	}
	if _, err := puffin.Open(ctx, &memory{b: b}, int64(len(b)), puffin.ReaderOptions{}); !errs.Is(err, errs.Canceled) {
		t.Errorf("an open after the end of its context: %v", err)
	}
}

// limited fails after n bytes.
type limited struct{ n int }

var errFull = errs.New(errs.Exhausted, "test", "full")

func (l *limited) Write(p []byte) (int, error) {
	if len(p) > l.n {
		n := l.n
		l.n = 0
		return n, errFull
	}
	l.n -= len(p)
	return len(p), nil
}

// TestFullDisk: whenever the writer below fails, so does every later call, with the kind of that failure.
func TestFullDisk(t *testing.T) {
	blobs := samples()[:6]
	whole, _ := write(t, puffin.WriterOptions{}, blobs...)
	for n := range len(whole) {
		w, err := puffin.NewWriter(&limited{n}, puffin.WriterOptions{})
		for _, c := range blobs {
			if err == nil {
				_, err = w.Add(c.spec, c.data)
			}
		}
		if err == nil {
			_, err = w.Close()
		}
		if !errs.Is(err, errs.Exhausted) || !errors.Is(err, errFull) {
			t.Fatalf("after %d of %d bytes: %v", n, len(whole), err)
		}
		if w == nil {
			continue
		}
		if _, err := w.Add(blobs[0].spec, nil); !errs.Is(err, errs.Exhausted) {
			t.Fatalf("a blob after a failure: %v", err)
		}
		if _, err := w.Close(); !errs.Is(err, errs.Exhausted) {
			t.Fatalf("the end after a failure: %v", err)
		}
	}
}

func TestMisuse(t *testing.T) {
	invalid := func(what string, err error) {
		t.Helper()
		if !errs.Is(err, errs.Invalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := puffin.NewWriter(io.Discard, puffin.WriterOptions{Properties: map[string]string{"a": "\xff"}})
	invalid("a property that is no UTF-8", err)
	w, err := puffin.NewWriter(io.Discard, puffin.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for what, spec := range map[string]puffin.BlobSpec{
		"no type": {}, "a type that is no UTF-8": {Type: "\xff"}, "a negative size": {Type: "t", Size: -1}, "packed without a size": {Type: "t", Codec: codec.Zstd},
		"a property of the writer": {Type: "t", Properties: map[string]string{puffin.PropertyCRC32C: "0"}}, "a property no UTF-8": {Type: "t", Properties: map[string]string{"\xff": ""}},
	} {
		_, err := w.Create(spec)
		invalid(what, err)
	}
	if _, err := w.Add(puffin.BlobSpec{Type: "t", Codec: "brotli"}, []byte("x")); !errs.Is(err, errs.Unsupported) {
		t.Errorf("an unknown codec: %v", err)
	}
	b, err := w.Create(puffin.BlobSpec{Type: "t"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Create(puffin.BlobSpec{Type: "t"})
	invalid("two blobs at once", err)
	_, err = w.Close()
	invalid("an end within a blob", err)
	if _, err := b.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = b.Write(nil)
	invalid("a write after the blob's end", err)
	_, err = b.Close()
	invalid("a second end of a blob", err)
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = w.Close()
	invalid("a second end", err)
	_, err = w.Create(puffin.BlobSpec{Type: "t"})
	invalid("a blob after the end", err)

	for _, c := range []codec.Codec{codec.None, codec.LZ4, codec.Zstd} {
		w, err := puffin.NewWriter(io.Discard, puffin.WriterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		b, err := w.Create(puffin.BlobSpec{Type: "t", Size: 3, Codec: c})
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.Write(make([]byte, 4))
		invalid("more bytes than told", err)
		_, err = b.Close()
		invalid("fewer bytes than told", err)
		_, err = w.Close()
		invalid("a file with a spoilt blob", err)
	}
}

func FuzzOpen(f *testing.F) {
	for _, packed := range []bool{false, true} {
		b, _ := write(f, puffin.WriterOptions{PackFooter: packed, Properties: map[string]string{"a": "b"}}, samples()[:7]...)
		f.Add(b)
	}
	f.Add(forge(`{"blobs":[`+forged+`]}`, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		m := &memory{b: b}
		r, err := puffin.Open(t.Context(), m, int64(len(b)), puffin.ReaderOptions{MaxFooter: 1 << 20, MaxBlobs: 1000})
		if err != nil {
			if k := errs.KindOf(err); k != errs.Corrupt && k != errs.Unsupported && k != errs.Exhausted {
				t.Fatalf("%v: %v", k, err)
			}
			return
		}
		for i, meta := range r.Footer().Blobs {
			if meta.Offset < 4 || meta.Length < 0 || meta.Offset+meta.Length > int64(len(b))-16 {
				t.Fatalf("blob %d at %d of %d bytes in a file of %d", i, meta.Offset, meta.Length, len(b))
			}
			got, err := r.ReadBlob(t.Context(), i, 1<<16)
			if err == nil && len(got) > 1<<16 {
				t.Fatalf("%d bytes over the limit", len(got))
			}
			if want, told := meta.Properties[puffin.PropertyCRC32C]; err == nil && told {
				if have := fmt.Sprintf("%08x", checksum.Of(got)); have != want {
					t.Fatalf("a blob with the checksum %s is given out for %s", have, want)
				}
			}
		}
	})
}

func FuzzFooter(f *testing.F) {
	f.Add(`{"blobs":[` + forged + `]}`)
	f.Add(`{"blobs":[` + forged + `,` + forged + `],"properties":{"a":"b"}}`)
	f.Fuzz(func(t *testing.T, payload string) {
		r, err := open(t, forge(payload, 0))
		if err != nil {
			return
		}
		// What was read can be written, and means the same when it is read again.
		var blobs []content
		for i, b := range r.Footer().Blobs {
			if b.Type == "" || b.Codec != codec.None {
				return
			}
			data, err := r.ReadBlob(t.Context(), i, 100)
			if err != nil {
				return
			}
			blobs = append(blobs, content{puffin.BlobSpec{Type: b.Type, Fields: b.Fields, SnapshotID: b.SnapshotID, SequenceNumber: b.SequenceNumber, Properties: b.Properties, Bare: true}, data})
		}
		whole, _ := write(t, puffin.WriterOptions{Properties: r.Footer().Properties}, blobs...)
		again, err := open(t, whole)
		if err != nil {
			t.Fatal(err)
		}
		for i, b := range again.Footer().Blobs {
			old := r.Footer().Blobs[i]
			b.Offset = old.Offset
			if fmt.Sprint(b) != fmt.Sprint(old) {
				t.Fatalf("read %+v, after writing it again %+v", old, b)
			}
		}
	})
}

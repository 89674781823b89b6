package puffin

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/overlakedb/overlake/internal/codec"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
)

// Source is bytes by range. ReadAtContext follows io.ReaderAt, may be called by many goroutines at once, and stops when the
// context ends.
type Source interface {
	ReadAtContext(ctx context.Context, p []byte, off int64) (int, error)
}

// Object makes an object of a store a Source. It stays the caller's to close.
func Object(o objstore.Object) Source { return object{o} }

type object struct{ o objstore.Object }

func (s object) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	return objstore.ReadAt(ctx, s.o, p, off)
}

// Section is a part of a Source that looks like a whole.
type Section struct {
	src       Source
	off, size int64
}

// NewSection is the part of src that begins at off and has size bytes; neither may be negative.
func NewSection(src Source, off, size int64) (Section, error) {
	if off < 0 || size < 0 || off > math.MaxInt64-size {
		return Section{}, errs.Newf(errs.Invalid, "puffin.section", "no section has %d bytes at %d", size, off)
	}
	return Section{src, off, size}, nil
}

// Size is the length in bytes.
func (s Section) Size() int64 { return s.size }

// ReadAtContext reads from the section; a read that reaches its end is cut there and gives io.EOF.
func (s Section) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	switch {
	case off < 0:
		return 0, errs.Newf(errs.Invalid, "puffin.read", "a read at %d", off)
	case off >= s.size:
		if len(p) == 0 {
			return 0, nil
		}
		return 0, io.EOF
	case int64(len(p)) <= s.size-off:
		return s.src.ReadAtContext(ctx, p, s.off+off)
	}
	n, err := s.src.ReadAtContext(ctx, p[:s.size-off], s.off+off)
	if err == nil {
		err = io.EOF
	}
	return n, err
}

// readFull fills p or fails; an end before that is Corrupt, because the size of the file was known.
func readFull(ctx context.Context, src Source, p []byte, off int64) error {
	for done := 0; done < len(p); {
		n, err := src.ReadAtContext(ctx, p[done:], off+int64(done))
		if n < 0 || n > len(p)-done {
			return errs.Newf(errs.Internal, "puffin.read", "a source read %d bytes into %d", n, len(p)-done)
		}
		done += n
		switch {
		case done == len(p):
		case errors.Is(err, io.EOF), err == nil && n == 0:
			return errs.Wrap(errs.Corrupt, "puffin.read", fmt.Errorf("the file ends at %d: %w", off+int64(done), io.ErrUnexpectedEOF))
		case err != nil:
			return errs.Wrap(errs.KindOf(err), "puffin.read", err)
		}
	}
	return nil
}

// ReaderOptions are limits against files that claim too much; zero values are the defaults.
type ReaderOptions struct {
	MaxFooter int64 // bytes of the footer's payload, packed and plain: 64 MiB
	MaxBlobs  int   // blobs of a file: 1,000,000
}

const (
	defaultMaxFooter = 64 << 20
	defaultMaxBlobs  = 1_000_000

	// firstRead is what Open reads from the end: footers of some 200 blobs are in it.
	firstRead = 64 << 10
)

// Reader is an opened Puffin file. It may be used by many goroutines at once.
type Reader struct {
	src    Source
	footer Footer
}

// Open reads the footer of a file of the given size: in one read from its end, or two when the footer is large. The magic at
// the file's beginning is checked when these reads reach it; whoever wants it checked in every case asks CheckHead.
func Open(ctx context.Context, src Source, size int64, opts ReaderOptions) (*Reader, error) {
	const op = "puffin.open"
	if opts.MaxFooter <= 0 {
		opts.MaxFooter = defaultMaxFooter
	}
	if opts.MaxBlobs <= 0 {
		opts.MaxBlobs = defaultMaxBlobs
	}
	corrupt := func(format string, args ...any) (*Reader, error) {
		return nil, errs.Newf(errs.Corrupt, op, format, args...)
	}
	if size < smallest {
		return corrupt("a Puffin file has at least %d bytes, not %d", smallest, size)
	}
	tail := make([]byte, min(size, firstRead))
	if err := readFull(ctx, src, tail, size-int64(len(tail))); err != nil {
		return nil, err
	}
	trailer := tail[len(tail)-trailerSize:]
	if string(trailer[8:]) != magic {
		return corrupt("the file does not end with the magic of Puffin files")
	}
	flags := binary.LittleEndian.Uint32(trailer[4:])
	if flags&^flagPacked != 0 {
		return nil, errs.New(errs.Unsupported, op, fmt.Sprintf("the footer has unknown flags: %#x", flags), errs.Hint("a newer version may know them"))
	}
	stored := int64(int32(binary.LittleEndian.Uint32(trailer)))
	switch {
	case stored < 0 || stored > size-smallest:
		return corrupt("a footer of %d bytes does not fit into a file of %d", stored, size)
	case stored > opts.MaxFooter:
		return nil, errs.Newf(errs.Exhausted, op, "the footer has %d bytes, over the limit of %d", stored, opts.MaxFooter)
	}
	footer := stored + int64(len(magic)+trailerSize) // with its magic
	if footer > int64(len(tail)) {
		tail = make([]byte, footer)
		if err := readFull(ctx, src, tail, size-footer); err != nil {
			return nil, err
		}
	}
	if int64(len(tail)) == size && string(tail[:len(magic)]) != magic {
		return corrupt("the file does not begin with the magic of Puffin files")
	}
	tail = tail[int64(len(tail))-footer:]
	if string(tail[:len(magic)]) != magic {
		return corrupt("the footer does not begin with the magic of Puffin files")
	}
	payload := tail[len(magic) : int64(len(magic))+stored]
	if flags&flagPacked != 0 {
		var err error
		if payload, err = codec.LZ4.Unpack(payload, opts.MaxFooter); err != nil {
			return nil, err
		}
	}
	r := &Reader{src: src}
	if err := r.footer.unmarshal(payload, opts.MaxBlobs); err != nil {
		return nil, err
	}
	for i, b := range r.footer.Blobs {
		if end := size - footer; b.Offset < int64(len(magic)) || b.Length < 0 || b.Offset > end || b.Length > end-b.Offset {
			return corrupt("blob %d of %d bytes at %d lies outside the file's blobs, which end at %d", i, b.Length, b.Offset, end)
		}
	}
	return r, nil
}

// CheckHead reads the first bytes of a file and refuses it when they are not those of a Puffin file.
func CheckHead(ctx context.Context, src Source) error {
	var head [len(magic)]byte
	if err := readFull(ctx, src, head[:], 0); err != nil {
		return err
	}
	if string(head[:]) != magic {
		return errs.New(errs.Corrupt, "puffin.open", "the file does not begin with the magic of Puffin files")
	}
	return nil
}

// Footer says what the file holds; the caller may change what it gets.
func (r *Reader) Footer() Footer { return r.footer.clone() }

// Len is the number of blobs.
func (r *Reader) Len() int { return len(r.footer.Blobs) }

func (r *Reader) blob(i int) (*Blob, error) {
	if i < 0 || i >= len(r.footer.Blobs) {
		return nil, errs.Newf(errs.Invalid, "puffin.blob", "there is no blob %d of %d", i, len(r.footer.Blobs))
	}
	return &r.footer.Blobs[i], nil
}

// Blob is blob i by range, without reading it. Its checksum is not checked; what reads by range has checksums of its own.
// A packed blob has no ranges: it is Unsupported.
func (r *Reader) Blob(i int) (Section, error) {
	b, err := r.blob(i)
	if err != nil {
		return Section{}, err
	}
	if b.Codec != codec.None {
		return Section{}, errs.New(errs.Unsupported, "puffin.blob", fmt.Sprintf("a blob packed with %.32q cannot be read by range", string(b.Codec)),
			errs.On(b.Type), errs.Hint("read it whole"))
	}
	return NewSection(r.src, b.Offset, b.Length)
}

// ReadBlob reads blob i whole, at most limit plain bytes of it, and checks what its properties tell.
func (r *Reader) ReadBlob(ctx context.Context, i int, limit int64) ([]byte, error) {
	b, err := r.blob(i)
	if err != nil {
		return nil, err
	}
	return b.Read(ctx, r.src, limit)
}

// Read reads the blob from its file and unpacks it. Stored bytes that could not be limit plain bytes are Exhausted unread.
func (b *Blob) Read(ctx context.Context, src Source, limit int64) ([]byte, error) {
	if err := b.Codec.Check(); err != nil {
		return nil, errs.With(err, errs.On(b.Type))
	}
	most := limit
	if b.Codec != codec.None && most < math.MaxInt64/2 {
		most += most/64 + 1<<10 // what packing adds to bytes that do not pack
	}
	if b.Length < 0 || b.Length > most {
		return nil, errs.With(errs.Newf(errs.Exhausted, "puffin.blob", "the blob has %d stored bytes, over the limit of %d", b.Length, limit), errs.On(b.Type))
	}
	stored := make([]byte, b.Length)
	if err := readFull(ctx, src, stored, b.Offset); err != nil {
		return nil, errs.With(err, errs.On(b.Type))
	}
	return b.Unpack(stored, limit)
}

// unmarshal reads the payload. Blobs are counted while they are read, so that many small ones cannot take memory beyond the
// limit.
func (f *Footer) unmarshal(payload []byte, maxBlobs int) error {
	corrupt := func(err error) error {
		return errs.Wrap(errs.Corrupt, "puffin.open", fmt.Errorf("the footer: %w", err))
	}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(payload, &top); err != nil {
		return corrupt(err)
	}
	if len(top["blobs"]) == 0 || top["blobs"][0] != '[' {
		return corrupt(errors.New("it has no list of blobs"))
	}
	d := json.NewDecoder(bytes.NewReader(top["blobs"]))
	if _, err := d.Token(); err != nil {
		return corrupt(err)
	}
	for d.More() {
		if len(f.Blobs) == maxBlobs {
			return errs.Newf(errs.Exhausted, "puffin.open", "the footer lists more blobs than the limit of %d", maxBlobs)
		}
		var members map[string]json.RawMessage // and not a struct, which would match names whatever their case
		if err := d.Decode(&members); err != nil {
			return corrupt(err)
		}
		b, err := blobOf(members)
		if err != nil {
			return corrupt(fmt.Errorf("blob %d: %w", len(f.Blobs), err))
		}
		f.Blobs = append(f.Blobs, b)
	}
	if p, ok := top["properties"]; ok {
		if err := json.Unmarshal(p, &f.Properties); err != nil {
			return corrupt(fmt.Errorf("properties: %w", err))
		}
	}
	return nil
}

func blobOf(members map[string]json.RawMessage) (b Blob, err error) {
	for _, m := range []struct {
		name     string
		required bool
		into     any
	}{
		{"type", true, &b.Type}, {"fields", true, &b.Fields}, {"snapshot-id", true, &b.SnapshotID}, {"sequence-number", true, &b.SequenceNumber},
		{"offset", true, &b.Offset}, {"length", true, &b.Length}, {"compression-codec", false, &b.Codec}, {"properties", false, &b.Properties},
	} {
		raw, there := members[m.name]
		if !there || string(raw) == "null" {
			if m.required {
				return Blob{}, fmt.Errorf("%s is missing", m.name)
			}
			continue
		}
		if err := json.Unmarshal(raw, m.into); err != nil {
			return Blob{}, fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return b, nil
}

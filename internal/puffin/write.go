package puffin

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/overlakedb/overlake/internal/checksum"
	"github.com/overlakedb/overlake/internal/codec"
	"github.com/overlakedb/overlake/internal/errs"
)

// WriterOptions say what a file is to be; the zero value is a file without properties.
type WriterOptions struct {
	// Properties of the file. CreatedBy should be one of them.
	Properties map[string]string
	// PackFooter packs the footer's payload. The readers of Java and Python cannot unpack it.
	PackFooter bool
}

// BlobSpec says what a blob is to be.
type BlobSpec struct {
	Type           string
	Fields         []int32
	SnapshotID     int64
	SequenceNumber int64
	// Codec packs the blob. A frame tells its content size first, so Size is needed with it.
	Codec codec.Codec
	// Size is how many bytes will be written, 0 when that is not known; a different number is refused.
	Size int64
	// Properties of the blob. PropertyCRC32C and PropertySize are added to them.
	Properties map[string]string
	// Bare leaves those two away, for blobs whose specification lists every property.
	Bare bool
	// Align is 0, or a number at whose multiples the blob begins, so that its bytes can be used where they are mapped. Zeros
	// fill the gap.
	Align int64
}

const maxAlign = 1 << 20

// Writer streams a Puffin file, one blob after the other. It is for one goroutine. It holds no blob, only what the footer
// says of each. After a failure of the underlying writer every call fails as that one did.
type Writer struct {
	w      io.Writer
	opts   WriterOptions
	offset int64
	blobs  []Blob
	open   *BlobWriter
	err    error // of the underlying writer
	closed bool
}

// NewWriter begins a file on w, which stays the caller's to close.
func NewWriter(w io.Writer, opts WriterOptions) (*Writer, error) {
	if err := checkProperties(opts.Properties); err != nil {
		return nil, err
	}
	opts.Properties = maps.Clone(opts.Properties)
	out := &Writer{w: w, opts: opts}
	if err := out.put([]byte(magic)); err != nil {
		return nil, err
	}
	return out, nil
}

// checkProperties refuses text that JSON cannot carry as it is.
func checkProperties(properties map[string]string) error {
	for k, v := range properties {
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			return errs.New(errs.Invalid, "puffin.write", "a property is not UTF-8", errs.On(strconv.Quote(k)))
		}
	}
	return nil
}

func (w *Writer) put(p []byte) error {
	if w.err != nil {
		return w.err
	}
	n, err := w.w.Write(p)
	w.offset += int64(n)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	if err != nil {
		w.err = errs.Wrap(errs.KindOf(err), "puffin.write", err)
	}
	return w.err
}

// Offset is where the next blob will begin.
func (w *Writer) Offset() int64 { return w.offset }

// Create begins a blob; its Close ends it, and comes before the next Create, Add or Close of the Writer.
func (w *Writer) Create(spec BlobSpec) (*BlobWriter, error) {
	refuse := func(format string, args ...any) (*BlobWriter, error) {
		return nil, errs.With(errs.Newf(errs.Invalid, "puffin.create", format, args...), errs.On(spec.Type))
	}
	if w.err != nil {
		return nil, w.err
	}
	switch {
	case w.closed:
		return refuse("the file is closed")
	case w.open != nil:
		return refuse("a blob %q is still being written", w.open.spec.Type)
	case spec.Type == "" || !utf8.ValidString(spec.Type):
		return refuse("a blob needs a type, in UTF-8")
	case spec.Size < 0:
		return refuse("a blob cannot have %d bytes", spec.Size)
	case spec.Align < 0 || spec.Align > maxAlign:
		return refuse("a blob cannot begin at multiples of %d", spec.Align)
	case spec.Codec != codec.None && spec.Size == 0:
		return refuse("a packed blob says its size first; an empty one cannot be packed")
	}
	if err := checkProperties(spec.Properties); err != nil {
		return nil, err
	}
	for _, k := range []string{PropertyCRC32C, PropertySize} {
		if _, set := spec.Properties[k]; set && !spec.Bare {
			return refuse("the property %s is the writer's to set", k)
		}
	}
	if spec.Align > 0 && w.offset%spec.Align != 0 {
		if err := w.put(make([]byte, spec.Align-w.offset%spec.Align)); err != nil {
			return nil, err
		}
	}
	spec.Fields = slices.Clone(spec.Fields)
	spec.Properties = maps.Clone(spec.Properties)
	b := &BlobWriter{w: w, spec: spec, start: w.offset}
	if spec.Codec != codec.None {
		var err error
		if b.pack, err = spec.Codec.NewWriter(stored{w}, spec.Size); err != nil {
			return nil, errs.With(err, errs.On(spec.Type))
		}
	}
	w.open = b
	return b, nil
}

// stored is where the packed bytes of a blob go.
type stored struct{ w *Writer }

func (s stored) Write(p []byte) (int, error) {
	if err := s.w.put(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Add writes a whole blob. Its size is that of the data, whatever the spec says; an empty one is not packed.
func (w *Writer) Add(spec BlobSpec, data []byte) (Blob, error) {
	if spec.Size = int64(len(data)); spec.Size == 0 {
		spec.Codec = codec.None
	}
	b, err := w.Create(spec)
	if err != nil {
		return Blob{}, err
	}
	if _, err := b.Write(data); err != nil {
		return Blob{}, err
	}
	return b.Close()
}

// BlobWriter takes the bytes of one blob.
type BlobWriter struct {
	w     *Writer
	spec  BlobSpec
	start int64
	pack  io.WriteCloser // nil without a codec
	size  int64
	sum   uint32
	ended bool
}

// Write takes plain bytes.
func (b *BlobWriter) Write(p []byte) (int, error) {
	switch {
	case b.ended:
		return 0, errs.New(errs.Invalid, "puffin.write", "the blob has ended already", errs.On(b.spec.Type))
	case b.spec.Size > 0 && int64(len(p)) > b.spec.Size-b.size:
		return 0, errs.With(errs.Newf(errs.Invalid, "puffin.write", "the blob was to have %d bytes and gets more", b.spec.Size), errs.On(b.spec.Type))
	}
	if b.pack != nil {
		if _, err := b.pack.Write(p); err != nil {
			return 0, b.broken(err)
		}
	} else if err := b.w.put(p); err != nil {
		return 0, err
	}
	b.size += int64(len(p))
	b.sum = checksum.Update(b.sum, p)
	return len(p), nil
}

// broken makes a failure in the middle of a blob the failure of the file.
func (b *BlobWriter) broken(err error) error {
	if b.w.err == nil {
		b.w.err = errs.With(err, errs.On(b.spec.Type))
	}
	return b.w.err
}

// Close ends the blob and says where it lies. A blob of another size than was told spoils the file.
func (b *BlobWriter) Close() (Blob, error) {
	if b.ended {
		return Blob{}, errs.New(errs.Invalid, "puffin.write", "the blob has ended already", errs.On(b.spec.Type))
	}
	b.ended = true
	b.w.open = nil
	if b.w.err != nil {
		return Blob{}, b.w.err
	}
	if b.spec.Size > 0 && b.size != b.spec.Size {
		return Blob{}, b.broken(errs.Newf(errs.Invalid, "puffin.write", "the blob was to have %d bytes and got %d", b.spec.Size, b.size))
	}
	if b.pack != nil {
		if err := b.pack.Close(); err != nil {
			return Blob{}, b.broken(err)
		}
	}
	blob := Blob{Type: b.spec.Type, Fields: b.spec.Fields, SnapshotID: b.spec.SnapshotID, SequenceNumber: b.spec.SequenceNumber,
		Offset: b.start, Length: b.w.offset - b.start, Codec: b.spec.Codec, Properties: b.spec.Properties}
	if !b.spec.Bare {
		if blob.Properties == nil {
			blob.Properties = map[string]string{}
		}
		blob.Properties[PropertyCRC32C] = sumText(b.sum)
		blob.Properties[PropertySize] = strconv.FormatInt(b.size, 10)
	}
	b.w.blobs = append(b.w.blobs, blob)
	return blob.clone(), nil
}

// Close writes the footer and gives it. The file ends there, so nothing may be written to the underlying writer after it.
func (w *Writer) Close() (Footer, error) {
	const op = "puffin.close"
	switch {
	case w.err != nil:
		return Footer{}, w.err
	case w.closed:
		return Footer{}, errs.New(errs.Invalid, op, "the file is closed already")
	case w.open != nil:
		return Footer{}, errs.New(errs.Invalid, op, "a blob is still being written", errs.On(w.open.spec.Type))
	}
	w.closed = true
	footer := Footer{Blobs: w.blobs, Properties: w.opts.Properties}
	payload, err := footer.marshal()
	if err != nil {
		return Footer{}, err
	}
	flags := uint32(0)
	if w.opts.PackFooter {
		flags |= flagPacked
		var packed bytes.Buffer
		p, err := codec.LZ4.NewWriter(&packed, int64(len(payload)))
		if err != nil {
			return Footer{}, err
		}
		if _, err := p.Write(payload); err != nil {
			return Footer{}, err
		}
		if err := p.Close(); err != nil {
			return Footer{}, err
		}
		payload = packed.Bytes()
	}
	if len(payload) > math.MaxInt32 {
		return Footer{}, errs.Newf(errs.Exhausted, op, "the footer has %d bytes, more than the format allows", len(payload))
	}
	tail := append([]byte(magic), payload...)
	tail = binary.LittleEndian.AppendUint32(tail, uint32(len(payload)))
	tail = binary.LittleEndian.AppendUint32(tail, flags)
	tail = append(tail, magic...)
	if err := w.put(tail); err != nil {
		return Footer{}, err
	}
	return footer.clone(), nil
}

// The payload in JSON, its members in the order of the specification, as other writers have them.
type (
	jsonFooter struct {
		Blobs      []jsonBlob        `json:"blobs"`
		Properties map[string]string `json:"properties,omitempty"`
	}
	jsonBlob struct {
		Type           string            `json:"type"`
		Fields         []int32           `json:"fields"`
		SnapshotID     int64             `json:"snapshot-id"`
		SequenceNumber int64             `json:"sequence-number"`
		Offset         int64             `json:"offset"`
		Length         int64             `json:"length"`
		Codec          codec.Codec       `json:"compression-codec,omitempty"`
		Properties     map[string]string `json:"properties,omitempty"`
	}
)

func (f Footer) marshal() ([]byte, error) {
	out := jsonFooter{Blobs: make([]jsonBlob, len(f.Blobs)), Properties: f.Properties}
	for i, b := range f.Blobs {
		out.Blobs[i] = jsonBlob(b)
		if b.Fields == nil {
			out.Blobs[i].Fields = []int32{} // the list is required; null is none
		}
	}
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(out); err != nil {
		return nil, errs.Wrap(errs.Internal, "puffin.close", fmt.Errorf("the footer: %w", err))
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

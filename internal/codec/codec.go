// Package codec answers: how do packed bytes become plain bytes again, within a limit?
//
// A codec packs bytes into frames of a public format: zstd (RFC 8878) or lz4 (the LZ4 frame format). Files of several kinds
// hold such frames: blocks of Avro files, blobs and footers of Puffin files.
//
//	C1  What is written is one frame that tells its plain size first, so the size must be known before the bytes.
//	C2  Packed bytes are not trusted: no input panics, and none makes Unpack hold more than the limit and the buffers of
//	    a decoder (about 64 MiB for zstd, 12 MiB for lz4).
//	C3  Equal bytes are packed to equal bytes by one version of this room.
package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/overlakedb/overlake/internal/errs"
)

// Codec names a way to pack bytes, in the words of the Puffin specification.
type Codec string

const (
	None Codec = ""     // bytes as they are
	LZ4  Codec = "lz4"  // LZ4 frames
	Zstd Codec = "zstd" // Zstandard frames
)

// maxWindow bounds how far back a zstd frame may refer, and so the memory of a decoder.
const maxWindow = 64 << 20

// Check refuses codecs that this room does not know.
func (c Codec) Check() error {
	switch c {
	case None, LZ4, Zstd:
		return nil
	}
	return errs.New(errs.Unsupported, "codec.check", fmt.Sprintf("the codec %.32q is not supported", string(c)),
		errs.Hint("lz4 and zstd are"))
}

// Unpack gives the plain bytes; more than limit of them are Exhausted. With None it gives the bytes themselves.
func (c Codec) Unpack(packed []byte, limit int64) ([]byte, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	var r io.Reader
	size := int64(-1) // as the frame tells it
	switch c {
	case None:
		if int64(len(packed)) > limit {
			return nil, tooLarge(int64(len(packed)), limit)
		}
		return packed, nil
	case Zstd:
		if len(packed) == 0 { // which the decoder takes for nothing, packed into no frame
			return nil, corrupt(c, io.ErrUnexpectedEOF)
		}
		var h zstd.Header
		if err := h.Decode(packed); err == nil && h.HasFCS && !h.Skippable {
			size = int64(min(h.FrameContentSize, 1<<62))
		}
	case LZ4:
		var err error
		if size, err = lz4Frame(packed); err != nil {
			return nil, corrupt(c, err)
		}
	}
	if size > limit {
		return nil, tooLarge(size, limit)
	}
	switch c {
	case Zstd:
		d, err := zstd.NewReader(bytes.NewReader(packed), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, corrupt(c, err)
		}
		defer d.Close()
		r = d
	case LZ4:
		r = lz4.NewReader(bytes.NewReader(packed))
	}
	plain, err := readAll(r, size, limit, len(packed))
	switch {
	case err == nil && int64(len(plain)) > limit:
		return nil, tooLarge(limit+1, limit)
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		return nil, errs.Wrap(errs.Exhausted, "codec.unpack", fmt.Errorf("a zstd frame that refers back more than %d bytes", maxWindow))
	case err != nil:
		return nil, corrupt(c, err)
	case c == LZ4 && size >= 0 && int64(len(plain)) != size: // zstd checks this itself
		return nil, corrupt(c, fmt.Errorf("the frame tells %d bytes and holds %d", size, len(plain)))
	}
	return plain, nil
}

// readAll reads at most limit+1 bytes. What the frame tells of its size is believed as far as the packed bytes make it
// likely; the rest grows as it comes.
func readAll(r io.Reader, size, limit int64, packed int) ([]byte, error) {
	likely := min(max(size, 0), limit, 64*int64(packed)+512)
	buf := bytes.NewBuffer(make([]byte, 0, likely+bytes.MinRead))
	_, err := buf.ReadFrom(io.LimitReader(r, limit+1))
	return buf.Bytes(), err
}

// lz4Frame checks that the bytes are one whole LZ4 frame, whose decoder does not miss an end that is cut off, and gives the
// frame's content size, -1 when it tells none.
//
//	0   magic 04 22 4D 18
//	4   flags: bits 7-6 version 01, 4 block checksums, 3 content size, 2 content checksum, 0 dictionary id
//	5   block size
//	6   content size, 8 bytes, if flagged
//	+0  header checksum, 1 byte
//	+1  blocks: size, 4 bytes, of which the highest bit says that the block is not packed; bytes; checksum, 4 bytes, if flagged
//	    a block size of 0, which ends the blocks
//	    content checksum, 4 bytes, if flagged
func lz4Frame(b []byte) (size int64, err error) {
	switch {
	case len(b) < 7 || binary.LittleEndian.Uint32(b) != 0x184D2204:
		return 0, errors.New("no LZ4 frame")
	case b[4]>>6 != 1:
		return 0, fmt.Errorf("version %d of LZ4 frames", b[4]>>6)
	case b[4]&1 != 0:
		return 0, errors.New("the frame needs a dictionary")
	}
	flags, size := b[4], int64(-1)
	rest := b[6:]
	if flags&8 != 0 {
		if len(rest) < 8 {
			return 0, io.ErrUnexpectedEOF
		}
		size = int64(min(binary.LittleEndian.Uint64(rest), 1<<62))
		rest = rest[8:]
	}
	skip := func(n uint64) bool {
		if n > uint64(len(rest)) {
			return false
		}
		rest = rest[n:]
		return true
	}
	if !skip(1) {
		return 0, io.ErrUnexpectedEOF
	}
	for {
		if len(rest) < 4 {
			return 0, io.ErrUnexpectedEOF
		}
		n := uint64(binary.LittleEndian.Uint32(rest) &^ (1 << 31))
		last := binary.LittleEndian.Uint32(rest) == 0
		rest = rest[4:]
		if last {
			break
		}
		if flags&16 != 0 {
			n += 4
		}
		if !skip(n) {
			return 0, io.ErrUnexpectedEOF
		}
	}
	if flags&4 != 0 && !skip(4) {
		return 0, io.ErrUnexpectedEOF
	}
	if len(rest) > 0 {
		return 0, fmt.Errorf("%d bytes follow the frame", len(rest))
	}
	return size, nil
}

func tooLarge(size, limit int64) error {
	return errs.Newf(errs.Exhausted, "codec.unpack", "the plain bytes are %d or more, over the limit of %d", size, limit)
}

func corrupt(c Codec, err error) error {
	return errs.Wrap(errs.Corrupt, "codec.unpack", fmt.Errorf("bad %s frame: %w", string(c), err))
}

// NewWriter packs size plain bytes into one frame on w. Close ends the frame and fails when more or fewer were written;
// it does not close w. There is no frame of nothing that tells its size: size must be positive, unless the codec is None.
func (c Codec) NewWriter(w io.Writer, size int64) (io.WriteCloser, error) {
	const op = "codec.pack"
	if err := c.Check(); err != nil {
		return nil, err
	}
	if size < 0 || size == 0 && c != None {
		return nil, errs.Newf(errs.Invalid, op, "a frame cannot tell a size of %d", size)
	}
	p := &packer{left: size}
	switch c {
	case None:
		p.w = w
	case Zstd:
		// One goroutine: what comes out does not depend on when it was scheduled. Only a single segment tells sizes below 256.
		e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithSingleSegment(size < 256))
		if err != nil {
			return nil, errs.Wrap(errs.Internal, op, err)
		}
		e.ResetContentSize(w, size)
		p.w, p.end = e, e
	case LZ4:
		e := lz4.NewWriter(w)
		if err := e.Apply(lz4.SizeOption(uint64(size)), lz4.ConcurrencyOption(1), lz4.BlockSizeOption(blockSize(size))); err != nil {
			return nil, errs.Wrap(errs.Internal, op, err)
		}
		p.w, p.end = e, e
	}
	return p, nil
}

// blockSize is the smallest that holds it all, because readers take a buffer of that size.
func blockSize(size int64) lz4.BlockSize {
	for _, b := range []lz4.BlockSize{lz4.Block64Kb, lz4.Block256Kb, lz4.Block1Mb} {
		if size <= int64(b) {
			return b
		}
	}
	return lz4.Block4Mb
}

// packer counts the plain bytes on their way into an encoder.
type packer struct {
	w     io.Writer
	end   io.Closer // nil with None
	left  int64
	ended bool
}

func (p *packer) Write(b []byte) (int, error) {
	switch {
	case p.ended:
		return 0, errs.New(errs.Invalid, "codec.pack", "the frame has ended already")
	case int64(len(b)) > p.left:
		return 0, errs.Newf(errs.Invalid, "codec.pack", "%d bytes more than the frame was to hold", int64(len(b))-p.left)
	}
	n, err := p.w.Write(b)
	p.left -= int64(n)
	return n, err
}

func (p *packer) Close() error {
	if p.ended {
		return nil
	}
	p.ended = true
	var err error
	if p.end != nil {
		err = p.end.Close()
	}
	if p.left != 0 {
		return errs.Newf(errs.Invalid, "codec.pack", "%d bytes fewer than the frame was to hold", p.left)
	}
	return err
}

package bitmap

import (
	"context"
	"io"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/overlakedb/overlake/internal/checksum"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/predicate"
)

// Reader answers from an artifact. It is safe for concurrent use and holds nothing that must be closed; its source must
// stay open.
type Reader struct {
	src Source
	dir *directory
}

// What Open reads at once, in bytes: nearly every directory is in it.
const (
	tailRead  = 64 << 10 // at least
	tailShare = 128      // one part in so many of a large artifact
	tailMost  = 4 << 20
)

// Open reads the tail and the directory of an artifact of the given size: in one read, or in two when the directory is
// longer than 64 KiB and than a 128th of the artifact, or than 4 MiB.
func Open(ctx context.Context, src Source, size int64) (*Reader, error) {
	const op = "bitmap.open"
	if size < tailSize {
		return nil, corrupt(op, "it is too short")
	}
	n := min(size, max(tailRead, min(size/tailShare, tailMost)))
	buf := make([]byte, n, n+listPad)
	if err := readFull(ctx, src, buf, size-n); err != nil {
		return nil, err
	}
	length, sum, err := tailOf(buf[n-tailSize:], size)
	if err != nil {
		return nil, err
	}
	dir := buf[:n-tailSize]
	if length <= int64(len(dir)) {
		dir = dir[int64(len(dir))-length:]
	} else {
		if dir, err = readLong(ctx, src, size-tailSize-length, length); err != nil {
			return nil, err
		}
	}
	if checksum.Of(dir) != sum {
		return nil, corrupt(op, "the checksum of its directory is wrong")
	}
	d, err := readDirectory(dir, size)
	if err != nil {
		return nil, corrupt(op, err.Error())
	}
	d.sum = d.sumWhole(dir, buf[n-tailSize:])
	return &Reader{src: src, dir: d}, nil
}

// readLong reads a directory that may be very long. Memory is taken as bytes arrive, because the length is not yet known
// to be true.
func readLong(ctx context.Context, src Source, off, n int64) ([]byte, error) {
	const step = 16 << 20
	buf := make([]byte, 0, min(n, step)+listPad)
	for int64(len(buf)) < n {
		more := int(min(n-int64(len(buf)), step))
		buf = slices.Grow(buf, more+listPad)
		at := len(buf)
		buf = buf[:at+more]
		if err := readFull(ctx, src, buf[at:], off+int64(at)); err != nil {
			return nil, err
		}
	}
	return buf, nil
}

func readFull(ctx context.Context, src Source, p []byte, off int64) error {
	const op = "bitmap.read"
	n, err := src.ReadAtContext(ctx, p, off)
	switch {
	case n == len(p):
		return nil
	case err == nil || err == io.EOF || err == io.ErrUnexpectedEOF:
		return corrupt(op, "it is cut off")
	}
	return errs.Wrap(errs.KindOf(err), op, err)
}

// Columns are the kinds of the key's columns.
func (r *Reader) Columns() []predicate.KeyKind { return slices.Clone(r.dir.columns) }

// Stats sum up the artifact.
func (r *Reader) Stats() Stats { return r.dir.stats() }

// Memory is how many bytes the reader holds.
func (r *Reader) Memory() int64 { return r.dir.memory() }

func (d *directory) stats() Stats {
	return Stats{Rows: d.rows, Nulls: d.nulls, Postings: d.postings, Distinct: d.distinct, Size: d.fileSize, Min: slices.Clone(d.min), Max: slices.Clone(d.max)}
}

// Estimate bounds the number of rows whose key is in the ranges, and of those that are NULL if they are asked for,
// without reading anything.
func (r *Reader) Estimate(keys predicate.Ranges, null bool) (least, most int64) {
	d := r.dir
	if null {
		least, most = d.nulls, d.nulls
	}
	for _, p := range d.parts(keys) {
		n := d.before[p.block+1] - d.before[p.block]
		if p.all {
			least, most = least+n, most+n
			continue
		}
		// Where all ranges are points, each of the other keys has a row that is not looked for.
		points := int64(0)
		for _, k := range keys[p.from:p.to] {
			if !k.IsPoint() {
				points = n
				break
			}
			points++
		}
		most += n - max(int64(d.keys[p.block])-points, 0)
	}
	return least, most
}

// Count is the number of rows whose key is in the ranges, and of those that are NULL if they are asked for. It reads the
// blocks at the ends of ranges that cannot be told from the directory.
func (r *Reader) Count(ctx context.Context, keys predicate.Ranges, null bool) (int64, error) {
	d := r.dir
	total := int64(0)
	if null {
		total = d.nulls
	}
	var read []part
	for _, p := range d.parts(keys) {
		if p.all {
			total += d.before[p.block+1] - d.before[p.block]
		} else {
			read = append(read, p)
		}
	}
	var mu sync.Mutex
	err := r.each(ctx, read, func(p part, b []byte, bl *block) error {
		if err := bl.decodeKeys(b, int(d.keys[p.block]), int(d.before[p.block+1]-d.before[p.block]), keyKind(d.columns)); err != nil {
			return err
		}
		if err := bl.decodeCounts(b, bl.keys.n); err != nil {
			return err
		}
		n := int64(0)
		for _, k := range keys[p.from:p.to] {
			from, to := bl.keys.within(k)
			for _, c := range bl.counts[from:to] {
				n += int64(c)
			}
		}
		mu.Lock()
		total += n
		mu.Unlock()
		return nil
	})
	return total, err
}

// Blocks that are near each other are read together.
const (
	joinGap  = 32 << 10 // what may be read in vain between two
	joinSize = 1 << 20  // up to where
	parallel = 8        // reads at once
)

// blocks reuses the memory of decoding.
var blocks = sync.Pool{New: func() any { return new(work) }}

type work struct {
	block block
	buf   []byte
}

// each reads the blocks of the parts, checks them and calls visit, also from several goroutines at once. What it is given
// is good during the call.
func (r *Reader) each(ctx context.Context, parts []part, visit func(p part, b []byte, bl *block) error) error {
	if len(parts) == 0 {
		return nil
	}
	d := r.dir
	var group *errgroup.Group
	for len(parts) > 0 {
		n, start := 1, d.offsets[parts[0].block]
		end := d.offsets[parts[0].block+1]
		for n < len(parts) && d.offsets[parts[n].block]-end <= joinGap && d.offsets[parts[n].block+1]-start <= joinSize {
			end = d.offsets[parts[n].block+1]
			n++
		}
		these := parts[:n]
		parts = parts[n:]
		if group == nil {
			if len(parts) == 0 {
				return r.read(ctx, these, visit)
			}
			group, ctx = errgroup.WithContext(ctx)
			group.SetLimit(parallel)
		}
		group.Go(func() error { return r.read(ctx, these, visit) })
	}
	return group.Wait()
}

// read reads the blocks of the parts in one piece.
func (r *Reader) read(ctx context.Context, parts []part, visit func(p part, b []byte, bl *block) error) error {
	const op = "bitmap.read"
	d := r.dir
	if err := ctx.Err(); err != nil {
		return errs.Wrap(errs.Canceled, op, err)
	}
	w := blocks.Get().(*work)
	defer func() {
		if cap(w.buf) <= 2*joinSize {
			blocks.Put(w)
		}
	}()
	start := d.offsets[parts[0].block]
	n := int(d.offsets[parts[len(parts)-1].block+1] - start)
	w.buf = slices.Grow(w.buf[:0], n+listPad)
	piece := w.buf[:n]
	if err := readFull(ctx, r.src, piece, start); err != nil {
		return err
	}
	for _, p := range parts {
		b := piece[d.offsets[p.block]-start : d.offsets[p.block+1]-start]
		if checksum.Of(b) != d.sums[p.block] {
			return corrupt(op, "the checksum of a block is wrong")
		}
		if err := visit(p, b, &w.block); err != nil {
			return corrupt(op, err.Error())
		}
	}
	return nil
}

// Sum is the CRC-32C of the whole artifact, put together from those of its blocks, its directory and its tail. Whoever has
// noted the checksum of an artifact can so tell, when it is opened, that it is this one and no other that is well too.
func (r *Reader) Sum() uint32 { return r.dir.sum }

package bitmap

import (
	"bufio"
	"bytes"
	"container/heap"
	"context"
	"encoding/binary"
	"hash"
	"io"
	"math"

	"github.com/overlakedb/overlake/internal/checksum"
	"github.com/overlakedb/overlake/internal/errs"
)

// A run is a temporary file of sorted postings: groups, then a zero byte. A group is 1 for NULL, or 2 and the length of
// the key as a uvarint and the key; then uvarints, the first row plus one and the differences of the others; then a zero.
// The rows of a run come after those of the runs before it.
type run struct {
	file  SpillFile
	size  int64
	sum   uint32
	level int // how often its postings were merged
}

const (
	runEnd  = 0
	runNull = 1
	runKey  = 2
)

// fanIn is how many runs of one level become one.
const fanIn = 64

func (r *run) close() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return errs.Wrap(errs.KindOf(err), "bitmap.spill", err)
}

// spillRun writes the postings that are held to a run, and merges runs when there are many.
func (b *Builder) spillRun(ctx context.Context) error {
	if b.spill == nil {
		return exhausted(b.held(), b.memory)
	}
	if len(b.postings) == 0 && len(b.nulls) == 0 {
		return nil
	}
	r, err := b.writeRun(0, b.emit)
	if err != nil {
		return err
	}
	b.runs = append(b.runs, r)
	for {
		n := len(b.runs)
		level := b.runs[n-1].level
		if n < fanIn || b.runs[n-fanIn].level != level {
			return nil
		}
		last := b.runs[n-fanIn:]
		r, err := b.writeRun(level+1, func(to sink) error { return b.merge(ctx, last, to) })
		if err != nil {
			return err
		}
		for _, old := range last {
			err = firstError(err, old.close())
		}
		b.runs = append(b.runs[:n-fanIn], r)
		if err != nil {
			return err
		}
	}
}

// writeRun makes a run of what the function gives the sink.
func (b *Builder) writeRun(level int, emit func(sink) error) (*run, error) {
	const op = "bitmap.spill"
	f, err := b.spill()
	if err != nil {
		return nil, errs.Wrap(errs.KindOf(err), op, err)
	}
	r := &run{file: f, level: level}
	w := &runWriter{out: bufio.NewWriterSize(io.MultiWriter(f, writerFunc(func(p []byte) (int, error) {
		r.size += int64(len(p))
		r.sum = checksum.Update(r.sum, p)
		return len(p), nil
	})), b.buffer())}
	if err := emit(w); err != nil {
		return nil, firstError(err, r.close())
	}
	return r, nil
}

// buffer is the size of the buffer of one run of many.
func (b *Builder) buffer() int { return int(min(max(b.memory/(4*fanIn), 4<<10), 256<<10)) }

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// runWriter is the sink that writes a run. A failed write shows at the end at the latest.
type runWriter struct {
	out    *bufio.Writer
	inside bool
	before uint64
}

func (w *runWriter) uvarint(v uint64) error {
	_, err := w.out.Write(binary.AppendUvarint(w.out.AvailableBuffer(), v))
	return errs.Wrap(errs.KindOf(err), "bitmap.spill", err)
}

func (w *runWriter) endGroup() error {
	if !w.inside {
		return nil
	}
	return w.uvarint(0)
}

func (w *runWriter) group(null bool, key []byte) error {
	if err := w.endGroup(); err != nil {
		return err
	}
	w.inside, w.before = true, math.MaxUint64
	if null {
		return w.uvarint(runNull)
	}
	if err := w.uvarint(runKey); err != nil {
		return err
	}
	if err := w.uvarint(uint64(len(key))); err != nil {
		return err
	}
	_, err := w.out.Write(key)
	return errs.Wrap(errs.KindOf(err), "bitmap.spill", err)
}

func (w *runWriter) row(r uint64) error {
	d := r - w.before // of the first row: r + 1
	w.before = r
	return w.uvarint(d)
}

func (w *runWriter) end() error {
	if err := w.endGroup(); err != nil {
		return err
	}
	if err := w.uvarint(runEnd); err != nil {
		return err
	}
	err := w.out.Flush()
	return errs.Wrap(errs.KindOf(err), "bitmap.spill", err)
}

// runReader reads a run group by group.
type runReader struct {
	in    *bufio.Reader
	sum   hash.Hash32
	want  uint32
	order int // of its run
	null  bool
	key   []byte
}

func (b *Builder) openRun(r *run, order int) *runReader {
	sum := checksum.New()
	in := io.TeeReader(io.NewSectionReader(r.file, 0, r.size), sum)
	return &runReader{in: bufio.NewReaderSize(in, b.buffer()), sum: sum, want: r.sum, order: order}
}

func spillError(err error) error {
	const op = "bitmap.spill"
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errs.Wrap(errs.Corrupt, op, err, errs.On("a temporary file"))
	}
	return errs.Wrap(errs.KindOf(err), op, err)
}

// next reads the head of the next group; false is the end, after the checksum.
func (r *runReader) next() (bool, error) {
	tag, err := r.in.ReadByte()
	if err != nil {
		return false, spillError(err)
	}
	switch tag {
	case runNull:
		r.null, r.key = true, r.key[:0]
		return true, nil
	case runKey:
		r.null = false
		n, err := binary.ReadUvarint(r.in)
		if err != nil || n > maxKey {
			return false, spillError(firstError(err, io.ErrUnexpectedEOF))
		}
		if uint64(cap(r.key)) < n {
			r.key = make([]byte, n)
		}
		r.key = r.key[:n]
		if _, err := io.ReadFull(r.in, r.key); err != nil {
			return false, spillError(err)
		}
		return true, nil
	case runEnd:
		if _, err := r.in.ReadByte(); err != io.EOF || r.sum.Sum32() != r.want {
			return false, spillError(io.ErrUnexpectedEOF)
		}
		return false, nil
	}
	return false, spillError(io.ErrUnexpectedEOF)
}

// rows hands the rows of the group to the sink.
func (r *runReader) rows(to sink) error {
	before := uint64(math.MaxUint64)
	for {
		d, err := binary.ReadUvarint(r.in)
		if err != nil {
			return spillError(err)
		}
		if d == 0 {
			return nil
		}
		before += d
		if before >= maxRow {
			return spillError(io.ErrUnexpectedEOF)
		}
		if err := to.row(before); err != nil {
			return err
		}
	}
}

// runHeap has the run with the least key on top, of equal keys the earliest run.
type runHeap []*runReader

func (h runHeap) Len() int { return len(h) }
func (h runHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	if a.null != b.null {
		return a.null
	}
	if c := bytes.Compare(a.key, b.key); c != 0 {
		return c < 0
	}
	return a.order < b.order
}
func (h runHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *runHeap) Push(x any)   { *h = append(*h, x.(*runReader)) }
func (h *runHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// merge hands the postings of the runs to the sink.
func (b *Builder) merge(ctx context.Context, runs []*run, to sink) error {
	var h runHeap
	for i, r := range runs {
		in := b.openRun(r, i)
		some, err := in.next()
		if err != nil {
			return err
		}
		if some {
			h = append(h, in)
		}
	}
	heap.Init(&h)
	var key []byte
	started, null := false, false
	for len(h) > 0 {
		top := h[0]
		if !started || null != top.null || !bytes.Equal(key, top.key) {
			if err := ctx.Err(); err != nil {
				return errs.Wrap(errs.Canceled, "bitmap.spill", err)
			}
			if err := to.group(top.null, top.key); err != nil {
				return err
			}
			key, started, null = append(key[:0], top.key...), true, top.null
		}
		if err := top.rows(to); err != nil {
			return err
		}
		some, err := top.next()
		if err != nil {
			return err
		}
		if some {
			heap.Fix(&h, 0)
		} else {
			heap.Pop(&h)
		}
	}
	return to.end()
}

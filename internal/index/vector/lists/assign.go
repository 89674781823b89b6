package lists

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/vec"
	"github.com/overlakedb/overlake/internal/vec/code"
)

func canceled(ctx context.Context) error { return errs.Wrap(errs.Canceled, "lists.build", ctx.Err()) }

// recordLayout is where the parts of a record are: list, position, radius, factors of the scan and of the rerank row, the
// bytes of both.
type recordLayout struct {
	scan, rerank, size int // where bytes begin, and the whole
}

const recordHead = 28

func newRecordLayout(c coders) recordLayout {
	l := recordLayout{scan: recordHead}
	l.rerank = l.scan + c.scan.RowBytes()
	l.size = l.rerank
	if c.rerank != nil {
		l.size += c.rerank.RowBytes()
	}
	return l
}

type record []byte

func (r record) list() uint32 { return binary.LittleEndian.Uint32(r) }
func (r record) pos() uint32  { return binary.LittleEndian.Uint32(r[4:]) }
func (r record) float(at int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(r[at:]))
}

func (r record) radius() float32        { return r.float(8) }
func (r record) scan() (s, a float32)   { return r.float(12), r.float(16) }
func (r record) rerank() (s, a float32) { return r.float(20), r.float(24) }
func (r record) put(at int, v float32)  { binary.LittleEndian.PutUint32(r[at:], math.Float32bits(v)) }

// partition gathers the records of neighbouring lists.
type partition struct {
	from, to int // trained lists
	buffer   []byte
	blocks   []int
}

// worker is what one goroutine needs to make records of a chunk.
type worker struct {
	chunk   chunk
	ids     []uint32
	shifted []float32
	turned  []float32
	bits    []float32
	records []byte
}

// assign makes the records of all rows.
func (x *build) assign(ctx context.Context) error {
	x.record = newRecordLayout(x.c)
	trained := len(x.cells.half)
	x.counts, x.radii = make([]int64, trained), make([]float32, trained)
	work := x.memory * shareWork / 16
	parts := int(min((2*x.rows*int64(x.record.size)+work-1)/work, max(work/int64(4*x.record.size), 1), 256, int64(trained)))
	room := max(int(min(work/int64(4*parts), 256<<10))/x.record.size, 1) * x.record.size
	x.partOf = make([]int32, trained)
	for i := range parts {
		p := &partition{from: i * trained / parts, to: (i + 1) * trained / parts, buffer: make([]byte, 0, room)}
		for l := p.from; l < p.to; l++ {
			x.partOf[l] = int32(i)
		}
		x.parts = append(x.parts, p)
	}
	x.records = heap{limit: x.memory * shareRecords / 16, spill: x.o.Spill}
	workers := make([]worker, 2*x.workers)
	for id := 0; id < len(x.raw.blocks); id += len(workers) {
		wave := workers[:min(len(workers), len(x.raw.blocks)-id)]
		for i := range wave {
			if err := x.chunk(id+i, &wave[i].chunk); err != nil {
				return err
			}
		}
		if err := x.parallel(ctx, len(wave), func(i int) error { x.pack(&wave[i]); return nil }); err != nil {
			return err
		}
		if err := x.trial.compare(ctx, wave); err != nil {
			return err
		}
		for i := range wave {
			if err := x.keep(wave[i].records); err != nil {
				return err
			}
			x.step(2 * int64(len(wave[i].ids)))
		}
		x.held = max(x.held, x.raw.held+x.records.held)
	}
	for _, p := range x.parts {
		if err := x.flushPart(p); err != nil {
			return err
		}
		p.buffer = nil
	}
	return x.raw.close()
}

// keep gives records to their partitions.
func (x *build) keep(records []byte) error {
	for ; len(records) > 0; records = records[x.record.size:] {
		r := record(records[:x.record.size])
		x.counts[r.list()]++
		x.radii[r.list()] = max(x.radii[r.list()], r.radius())
		p := x.parts[x.partOf[r.list()]]
		p.buffer = append(p.buffer, r...)
		if len(p.buffer)+x.record.size > cap(p.buffer) {
			if err := x.flushPart(p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *build) flushPart(p *partition) error {
	if len(p.buffer) == 0 {
		return nil
	}
	id, kept, err := x.records.add(p.buffer)
	if err != nil {
		return err
	}
	p.blocks = append(p.blocks, id)
	if kept {
		p.buffer = make([]byte, 0, cap(p.buffer))
	}
	p.buffer = p.buffer[:0]
	return nil
}

// pack makes the records of a chunk.
func (x *build) pack(w *worker) {
	dim, n := x.o.Dim, len(w.chunk.positions)
	w.ids = grow(w.ids, n)
	w.shifted = append(w.shifted[:0], w.chunk.rows...)
	for i := range n {
		less(w.shifted[i*dim:][:dim], x.p.mean)
	}
	x.cells.nearest(w.shifted, w.ids)
	w.records = grow(w.records, n*x.record.size)
	w.turned, w.bits = grow(w.turned, dim), grow(w.bits, dim)
	for i, id := range w.ids {
		r := record(w.records[i*x.record.size:][:x.record.size])
		clear(r[:recordHead])
		binary.LittleEndian.PutUint32(r, id)
		binary.LittleEndian.PutUint32(r[4:], w.chunk.positions[i])
		row, rest := w.chunk.rows[i*dim:][:dim], w.shifted[i*dim:][:dim]
		less(rest, x.cells.centroids[int(id)*dim:][:dim])
		r.put(8, finite(vec.Norm(rest)))
		x.c.scan.Rotate(w.turned, rest)
		scan := r[x.record.scan:x.record.rerank]
		if x.p.code == code.Float32 {
			x.c.scan.Pack(row, scan)
		} else {
			s, a := x.factors(x.c.scan, int(id), w, scan)
			r.put(12, s)
			r.put(16, a)
		}
		if !x.p.hasRerank {
			continue
		}
		if rows := r[x.record.rerank:]; x.p.rerank == code.Float32 {
			x.c.rerank.Pack(row, rows)
		} else {
			s, a := x.factors(x.c.rerank, int(id), w, rows)
			r.put(20, s)
			r.put(24, a)
		}
	}
}

// factors packs what a row differs from its centroid by, r, and gives the two numbers by which a distance is told from the
// query's product with the bits: base + add - scale * <q, bits>, where base is that of the query and the centroid c.
//
// With s the unbiased factor, <q-c, r> is about s * (<q, bits> - <c, bits>), all of them turned and less the mean m. So
// |q-x|² = |q-c|² + |r|² - 2 <q-c, r>, and <q, x> = <q, c> + <q-c, r> + <c, r>, where the last c is with the mean.
func (x *build) factors(c *code.Coder, list int, w *worker, row []byte) (scale, add float32) {
	f := c.Pack(w.turned, row)
	c.Unpack(w.bits, row)
	centroid := x.turned[list*x.o.Dim:][:x.o.Dim]
	s := float64(f.Scale)
	own := s * float64(vec.Dot(centroid, w.bits))
	if x.p.metric == vec.MetricL2 {
		return finite(2 * s), finite(float64(f.Norm) + 2*own)
	}
	return f.Scale, finite(own - float64(vec.Dot(centroid, w.turned)) - float64(vec.Dot(x.meanT, w.turned)))
}

// finite is the nearest float32, zero for NaN.
func finite(v float64) float32 {
	if v != v {
		return 0
	}
	return float32(max(min(v, math.MaxFloat32), -math.MaxFloat32))
}

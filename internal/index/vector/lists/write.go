package lists

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"slices"

	"github.com/overlakedb/overlake/internal/checksum"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec/code"
	"github.com/overlakedb/overlake/internal/vec/kernel"
)

// final is a list as it is written: all rows of a trained one, or the rows from..to of it as they came, where it has too
// many.
type final struct {
	trained  int
	from, to int64
}

// batch is some lists whose records are in memory at once, all of one partition.
type batch struct {
	part     *partition
	from, to int // lists of the plan
}

// plan decides which lists are written, and which together.
func (x *build) plan() (lists []final, batches []batch) {
	mean := max(x.rows/int64(max(len(x.counts), 1)), 1)
	most := max(min(4*max(mean, 64), x.memory*shareWork/32/int64(x.record.size)), kernel.BlockRows)
	for _, p := range x.parts {
		b := batch{part: p, from: len(lists)}
		var bytes int64
		for l := p.from; l < p.to; l++ {
			pieces := (x.counts[l] + most - 1) / most
			for i := range pieces {
				f := final{l, i * x.counts[l] / pieces, (i + 1) * x.counts[l] / pieces}
				size := (f.to - f.from) * int64(x.record.size)
				if bytes > 0 && bytes+size > x.memory*shareWork/32 {
					b.to = len(lists)
					batches = append(batches, b)
					b.from, bytes = b.to, 0
				}
				bytes += size
				lists = append(lists, f)
			}
		}
		if b.to = len(lists); b.to > b.from {
			batches = append(batches, b)
		}
	}
	return lists, batches
}

// gather reads the records of a batch, list by list, each sorted by position. The records are those of room.
func (x *build) gather(ctx context.Context, lists []final, b batch, room *[]byte) ([][]record, error) {
	own := lists[b.from:b.to]
	out := make([][]record, len(own))
	var bytes int64
	for _, f := range own {
		bytes += (f.to - f.from) * int64(x.record.size)
	}
	*room = grow(*room, int(bytes))
	at := 0
	first, last := own[0].trained, own[len(own)-1].trained
	seen := make([]int64, last-first+1)
	var scratch []byte
	for _, id := range b.part.blocks {
		if err := canceled(ctx); err != nil {
			return nil, err
		}
		data, err := x.records.read(id, &scratch)
		if err != nil {
			return nil, err
		}
		for ; len(data) > 0; data = data[x.record.size:] {
			r := record(data[:x.record.size])
			l := int(r.list())
			if l < first || l > last {
				continue
			}
			nth := seen[l-first]
			seen[l-first]++
			i, _ := slices.BinarySearchFunc(own, l, func(f final, l int) int {
				if f.trained == l {
					switch {
					case nth >= f.to:
						return -1
					case nth < f.from:
						return 1
					}
				}
				return cmp.Compare(f.trained, l)
			})
			if i == len(own) || own[i].trained != l || nth < own[i].from || nth >= own[i].to {
				continue // of a list that is in two batches
			}
			to := (*room)[at:][:x.record.size]
			copy(to, r)
			out[i] = append(out[i], to)
			at += x.record.size
		}
	}
	x.held = max(x.held, x.records.held+int64(len(*room))+int64(len(scratch)))
	for _, l := range out {
		slices.SortFunc(l, func(a, b record) int { return cmp.Compare(a.pos(), b.pos()) })
	}
	return out, nil
}

// write writes all sections, the small ones that every search needs last.
func (x *build) write(ctx context.Context, w *section.Writer) error {
	var lists []final
	var batches []batch
	if x.rows > 0 {
		lists, batches = x.plan()
	}
	if len(lists) > maxLists {
		return errs.Newf(errs.Exhausted, "lists.build", "%d lists", len(lists))
	}
	x.p.lists = len(lists)
	dim := x.o.Dim
	centroids := make([]float32, 0, len(lists)*dim)
	for _, f := range lists {
		centroids = append(centroids, x.turned[f.trained*dim:][:dim]...)
	}
	if x.rows > 0 {
		x.trial.begin(x, lists, centroids)
	}
	positions := make([]uint32, 0, x.rows) // by place
	var directory, piece, room []byte
	w.Begin(kindLists)
	for _, b := range batches {
		found, err := x.gather(ctx, lists, b, &room)
		if err != nil {
			return err
		}
		for i, records := range found {
			piece = x.piece(piece[:0], records)
			if _, err := w.Write(piece); err != nil {
				return err
			}
			e := entry{rows: uint32(len(records)), sum: checksum.Of(piece)}
			for _, r := range records {
				e.radius = max(e.radius, r.radius())
				positions = append(positions, r.pos())
			}
			directory = appendEntry(directory, e)
			x.stats.Largest = max(x.stats.Largest, len(records))
			if err := x.trial.scan(ctx, b.from+i, piece, len(records)); err != nil {
				return err
			}
			x.step(int64(len(records)))
		}
	}
	if x.p.hasRerank {
		w.Begin(kindRerank)
		for _, b := range batches {
			found, err := x.gather(ctx, lists, b, &room)
			if err != nil {
				return err
			}
			for _, records := range found {
				for _, r := range records {
					if _, err := w.Write(r[x.record.rerank:]); err != nil {
						return err
					}
				}
				x.step(int64(len(records)))
			}
		}
	}
	room, piece = nil, nil
	if err := x.records.close(); err != nil {
		return err
	}
	if err := x.places(w, positions); err != nil {
		return err
	}
	w.Begin(kindDirectory)
	w.Write(directory)
	if x.c.route != nil {
		w.Begin(kindRoutes)
		row := make([]byte, x.c.route.RowBytes())
		scales := make([]float32, len(lists))
		for i := range lists {
			scales[i] = x.c.route.Pack(centroids[i*dim:][:dim], row).Scale
			w.Write(row)
		}
		w.Write(section.Bytes(scales))
	}
	w.Begin(kindCentroids)
	w.Write(section.Bytes(centroids))
	if x.rows > 0 {
		x.trial.tune(x.p, &x.stats)
	}
	w.Begin(kindParams)
	w.Write(x.p.encode())
	x.stats.Lists, x.stats.Recall, x.stats.Held = len(lists), float64(x.p.recall), x.held
	x.stats.Probes, x.stats.Rerank = int(x.p.tuning[0][0].probes), int(x.p.tuning[0][0].rerank)
	return w.Err()
}

// places writes where each position is. Invalid when a position is there twice.
func (x *build) places(w *section.Writer, positions []uint32) error {
	order := make([]uint32, len(positions))
	largest := uint32(0)
	for i, pos := range positions {
		order[i] = math.MaxUint32
		largest = max(largest, pos)
	}
	x.p.dense = len(positions) == 0 || int64(largest) == x.rows-1
	if x.p.dense {
		for place, pos := range positions {
			if order[pos] != math.MaxUint32 {
				return twice(pos)
			}
			order[pos] = uint32(place)
		}
	} else {
		for i := range order {
			order[i] = uint32(i)
		}
		slices.SortFunc(order, func(a, b uint32) int { return cmp.Compare(positions[a], positions[b]) })
		sorted := make([]uint32, len(positions))
		for i, place := range order {
			sorted[i] = positions[place]
			if i > 0 && sorted[i] == sorted[i-1] {
				return twice(sorted[i])
			}
		}
		w.Begin(kindPositions)
		w.Write(section.Bytes(sorted))
	}
	w.Begin(kindPlaces)
	_, err := w.Write(section.Bytes(order))
	return err
}

func twice(pos uint32) error {
	return errs.Newf(errs.Invalid, "lists.build", "two vectors are at position %d", pos)
}

// piece appends the bytes of a list.
func (x *build) piece(b []byte, records []record) []byte {
	le := binary.LittleEndian
	l := &x.layout
	n := len(records)
	if l.scan == code.Bit1 {
		size := x.c.scan.RowBytes()
		rows := make([]byte, 0, kernel.BlockRows*size)
		for from := 0; from < n; from += kernel.BlockRows {
			of := records[from:min(from+kernel.BlockRows, n)]
			rows = rows[:0]
			for _, r := range of {
				rows = append(rows, r[x.record.scan:x.record.rerank]...)
			}
			at := len(b)
			b = append(b, make([]byte, l.codeBytes+blockFactors)...)
			x.c.scan.Block(b[at:][:l.codeBytes], rows)
			at += l.codeBytes
			for i, r := range of {
				scale, add := r.scan()
				le.PutUint32(b[at+4*i:], math.Float32bits(scale))
				le.PutUint32(b[at+4*(kernel.BlockRows+i):], math.Float32bits(add))
			}
			for i := len(of); i < kernel.BlockRows; i++ { // rows that are not there are nowhere near
				le.PutUint32(b[at+4*(kernel.BlockRows+i):], math.Float32bits(float32(math.Inf(1))))
			}
		}
	} else {
		for _, r := range records {
			b = append(b, r[x.record.scan:x.record.rerank]...)
		}
		if l.factors {
			b = appendFloats(b, records, func(r record) float32 { s, _ := r.scan(); return s })
			b = appendFloats(b, records, func(r record) float32 { _, a := r.scan(); return a })
		}
	}
	if l.rerankFactors {
		b = appendFloats(b, records, func(r record) float32 { s, _ := r.rerank(); return s })
		b = appendFloats(b, records, func(r record) float32 { _, a := r.rerank(); return a })
	}
	for _, r := range records {
		b = le.AppendUint32(b, r.pos())
	}
	if l.hasRerank {
		for _, r := range records {
			b = le.AppendUint32(b, checksum.Of(r[x.record.rerank:]))
		}
	}
	return append(b, make([]byte, l.piece(n)-int64(len(b)))...)
}

func appendFloats(b []byte, records []record, of func(record) float32) []byte {
	for _, r := range records {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(of(r)))
	}
	return b
}

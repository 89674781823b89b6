package overlay

import (
	"context"
	"io"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/overlakedb/overlake/internal/datafile"
	"github.com/overlakedb/overlake/internal/index/bitmap"
	"github.com/overlakedb/overlake/internal/index/bloom"
	"github.com/overlakedb/overlake/internal/index/vector"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/predicate"
)

// maker is the builder of one index while a group of files is read.
type maker struct {
	def     int
	columns []int // positions in the batches that are read
	add     func(ctx context.Context, first int64, columns []arrow.Array) error
	finish  func(ctx context.Context, w io.Writer, rows int64) (nulls, distinct int64, err error)
	fits    func() error // nil: always
	took    func() error // why the rows since its last call can be no part of the artifact
	spoils  bool         // where took tells of a file, the maker is of no use any more
	close   func() error
	kind    string // of the blob
	align   int64  // the blob begins at a multiple of it; 0: anywhere

	covered []CoveredFile
	left    []missingFile // files that it did not take
	why     error         // the last of them
}

// maker prepares the builder of an index over so many rows, among several that are built at once.
func (b *build) maker(d, at int, rows int64, names *[]string) (*maker, error) {
	def := &b.defs[d]
	m := &maker{def: d, took: func() error { return nil }}
	fields := make([]arrow.Field, len(def.Columns))
	for i, id := range def.Columns {
		f := b.schema.Field(slices.IndexFunc(b.schema.Fields(), func(f arrow.Field) bool { return datafile.FieldID(f) == id }))
		fields[i] = f
		col := slices.Index(*names, f.Name)
		if col < 0 {
			col = len(*names)
			*names = append(*names, f.Name)
		}
		m.columns = append(m.columns, col)
	}
	memory := b.o.set.opts.Memory / int64(at)
	switch {
	case OfVectors(def.Kind):
		return m, b.ofVectors(m, fields[0], rows, b.o.set.vectorMemory/int64(at))
	case def.Kind == Text:
		return m, b.ofTexts(m, memory)
	case def.Kind == Bloom:
		return m, b.ofBloom(m, fields[0], memory)
	}
	return m, b.ofBitmap(m, fields, memory)
}

func (b *build) ofVectors(m *maker, f arrow.Field, rows, memory int64) error {
	def := &b.defs[m.def]
	form, _ := FormOf(f)
	x, err := vector.NewBuilder(vector.Options{Kind: vector.Kind(def.Kind), Form: form, Params: def.Params, Dim: dimensions(f), Rows: rows, Memory: memory,
		Spill: func() (vector.SpillFile, error) { return b.o.spill() },
		Progress: func(done, total int64) {
			b.report.VectorsDone, b.report.Vectors = done, total
			b.tell()
		}})
	if err != nil {
		return err
	}
	m.add = func(ctx context.Context, first int64, columns []arrow.Array) error {
		return x.Add(ctx, first, columns[0])
	}
	m.finish = func(ctx context.Context, w io.Writer, rows int64) (nulls, distinct int64, err error) {
		s, err := x.Finish(ctx, w, rows)
		return s.Nulls, s.Vectors, err
	}
	m.kind, m.align = vector.BlobType, section.Align
	m.fits, m.took, m.close = x.Fits, x.Took, x.Close
	return nil
}

func (b *build) ofBloom(m *maker, f arrow.Field, memory int64) error {
	fpr := DefaultFPR
	if v, ok := b.defs[m.def].Params["fpr"]; ok {
		fpr, _ = strconv.ParseFloat(v, 64)
	}
	x, err := bloom.NewBuilder(fpr, predicate.KindOf(f.Type), memory)
	if err != nil {
		return err
	}
	m.add = func(ctx context.Context, _ int64, columns []arrow.Array) error { return x.Add(columns[0]) }
	m.finish = func(ctx context.Context, w io.Writer, rows int64) (nulls, distinct int64, err error) {
		s, err := x.Finish(w, rows)
		return s.Nulls, s.Distinct, err
	}
	m.kind = bloom.BlobType
	m.fits = x.Fits
	m.close = func() error { return nil }
	return nil
}

func (b *build) ofBitmap(m *maker, fields []arrow.Field, memory int64) error {
	kinds := make([]predicate.KeyKind, len(fields))
	for i, f := range fields {
		kinds[i] = predicate.KindOf(f.Type)
	}
	x, err := bitmap.NewBuilder(bitmap.BuildOptions{Columns: kinds, Memory: memory, Spill: func() (bitmap.SpillFile, error) { return b.o.spill() }})
	if err != nil {
		return err
	}
	m.add = func(ctx context.Context, first int64, columns []arrow.Array) error {
		return x.Add(ctx, first, columns...)
	}
	m.finish = func(ctx context.Context, w io.Writer, rows int64) (nulls, distinct int64, err error) {
		s, err := x.Finish(ctx, w, rows)
		return s.Nulls, s.Distinct, err
	}
	m.kind = bitmap.BlobType
	m.close = x.Close
	return nil
}

package segment

import (
	"context"
	"io"
	"math"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/posting"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
)

// Options of a build.
type Options struct {
	Fields []Field
	Memory int64 // bytes that the build may hold; 0: 256 MiB, and at least 1 MiB

	// Spill makes a temporary file when memory is used up; nil: then the build ends with errs.Exhausted.
	Spill func() (SpillFile, error)
}

const (
	defaultMemory = 256 << 20
	leastMemory   = 1 << 20
)

func (o *Options) check() error {
	if len(o.Fields) == 0 || len(o.Fields) > MaxFields {
		return errs.Newf(errs.Invalid, "segment.build", "%d fields; a segment has 1 to %d", len(o.Fields), MaxFields)
	}
	for _, f := range o.Fields {
		if err := f.Params.Check(); err != nil {
			return err
		}
	}
	if o.Memory == 0 {
		o.Memory = defaultMemory
	}
	o.Memory = max(o.Memory, leastMemory)
	return nil
}

// Stats describe an artifact that was written.
type Stats struct {
	Rows   uint32
	Size   int64 // bytes
	Fields []FieldStats
}

// Builder makes a segment of texts. Terms are numbered as they come and written to a log; posting lists are made of it at
// the end, or when memory is used up: then what there is goes into a spill file, and all such runs are merged at the end. It
// is for one goroutine.
type Builder struct {
	opts   Options
	fields []fieldLog
	row    int64 // at work, or last
	at     *fieldLog
	err    error // of the text at work
	spill  spillRuns
}

// fieldLog is what is known of a field.
type fieldLog struct {
	positions bool
	terms     *terms
	log       [][]uint32 // chunks: number of a term, twice, and one more where the position follows, which else is the next
	tokens    int64
	rows      []uint32 // with text
	ends      []uint32 // of each in the log
	length    int64    // of the log

	lengths []byte // of all rows
	docs    int64
	last    int64 // row

	// The text at work.
	begun    bool
	position int64
	count    int
}

// logChunk is a power of two.
const logChunk = 1 << 14

// NewBuilder begins a build.
func NewBuilder(o Options) (*Builder, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	b := &Builder{opts: o, row: -1, fields: make([]fieldLog, len(o.Fields)), spill: spillRuns{open: o.Spill}}
	for i, f := range o.Fields {
		b.fields[i] = fieldLog{positions: f.Positions, terms: newTerms(), last: -1}
	}
	return b, nil
}

// Add takes the text of a field of a row: the tokens of a stream that was just reset. Rows ascend; the fields of a row come
// in any order. Rows without text need not be told.
func (b *Builder) Add(row uint32, field int, s *analysis.Stream) error {
	if err := b.Begin(row, field); err != nil {
		return err
	}
	for s.Next() {
		b.Token(s.Term, s.Position)
	}
	return b.End()
}

// Begin begins the text of a field of a row, for those who have tokens of their own.
func (b *Builder) Begin(row uint32, field int) error {
	if field < 0 || field >= len(b.fields) || int64(row) < b.row || row >= MaxRows || b.at != nil {
		return errs.Newf(errs.Invalid, "segment.build", "row %d, field %d, after row %d; rows ascend to at most %d", row, field, b.row, MaxRows-1)
	}
	f := &b.fields[field]
	if int64(row) == f.last {
		return errs.Newf(errs.Invalid, "segment.build", "row %d has two texts of field %d", row, field)
	}
	b.row, b.at = int64(row), f
	f.last, f.begun, f.position, f.count = int64(row), false, -1, 0
	return nil
}

// Token takes a term of the text. Positions do not descend; those that are equal to the one before count for nothing in
// the length of the text. What is wrong with it, End tells.
func (b *Builder) Token(term []byte, position int) {
	f := b.at
	p := int64(position)
	if err := checkTerm(term); err != nil || p < max(f.position, 0) || p > math.MaxInt32 {
		if err == nil {
			err = errs.Newf(errs.Invalid, "segment.build", "position %d after %d", position, f.position)
		}
		if b.err == nil {
			b.err = err
		}
		return
	}
	if p != f.position {
		f.count++
	}
	entry := f.terms.number(term) << 1
	if f.positions && p != f.position+1 {
		f.append(entry | 1)
		f.append(uint32(p))
	} else {
		f.append(entry)
	}
	f.begun = true
	f.tokens++
	f.position = p
}

func (f *fieldLog) append(v uint32) {
	at := f.length & (logChunk - 1)
	if at == 0 && f.length/logChunk == int64(len(f.log)) {
		f.log = append(f.log, make([]uint32, logChunk))
	}
	f.log[f.length/logChunk][at] = v
	f.length++
}

// End ends the text.
func (b *Builder) End() error {
	f := b.at
	b.at = nil
	if err := b.err; err != nil {
		return err // the text is half taken: nothing good can come of this build
	}
	if f.begun {
		f.docs++
		f.rows = append(f.rows, uint32(f.last))
		f.ends = append(f.ends, uint32(f.length))
		for int64(len(f.lengths)) < f.last {
			f.lengths = append(f.lengths, 0)
		}
		f.lengths = append(f.lengths, similarity.EncodeLength(f.count))
	}
	return b.bound(f)
}

// bound keeps what is held below the limit.
func (b *Builder) bound(last *fieldLog) error {
	held, fixed := int64(0), int64(0)
	for i := range b.fields {
		f := &b.fields[i]
		held += 4*logChunk*int64(len(f.log)) + 8*f.tokens + 4*int64(cap(f.rows)+cap(f.ends)) + f.terms.bytes()
		fixed += int64(cap(f.lengths))
	}
	if fixed > b.opts.Memory/4 {
		return errs.With(errs.Newf(errs.Exhausted, "segment.build", "the lengths of %d rows do not fit into a quarter of %d bytes", b.row+1, b.opts.Memory), errs.Hint("give index builds more memory"))
	}
	if held <= b.opts.Memory/2 && last.length < math.MaxInt32 && len(last.terms.arena) < math.MaxInt32 && last.terms.len() < math.MaxInt32/2 {
		return nil
	}
	return b.spillAll()
}

// each makes posting lists of the log and calls for each term and posting, in order. Then the log is empty.
func (f *fieldLog) each(ctx context.Context, begin func(term []byte) error, add func(row, freq uint32, positions []uint32) error, end func() error) error {
	order := f.terms.order()
	// Where the occurrences of each term go, by counting.
	next := make([]uint32, f.terms.len())
	at := uint32(0)
	for _, o := range order {
		next[o.number] = at
		at += f.terms.counts[o.number]
	}
	// An occurrence is a row and a position.
	list := make([]uint64, f.tokens)
	from := int64(0)
	for i, end := range f.ends {
		row, position := uint64(f.rows[i])<<32, uint32(0)
		for ; from < int64(end); from++ {
			e := f.log[from/logChunk][from&(logChunk-1)]
			if e&1 != 0 {
				from++
				position = f.log[from/logChunk][from&(logChunk-1)]
			}
			list[next[e>>1]] = row | uint64(position)
			next[e>>1]++
			position++
		}
	}
	var positions []uint32
	at = 0
	for i, o := range order {
		if i%1024 == 0 {
			if err := canceled(ctx); err != nil {
				return err
			}
		}
		if err := begin(f.terms.term(o.number)); err != nil {
			return err
		}
		for to := at + f.terms.counts[o.number]; at < to; {
			row := uint32(list[at] >> 32)
			freq := uint32(1)
			if positions = positions[:0]; f.positions {
				positions = append(positions, uint32(list[at]))
				for at++; at < to && uint32(list[at]>>32) == row; at++ {
					positions = append(positions, uint32(list[at]))
					freq++
				}
			} else {
				for at++; at < to && uint32(list[at]>>32) == row; at++ {
					freq++
				}
			}
			if err := add(row, freq, positions); err != nil {
				return err
			}
		}
		if err := end(); err != nil {
			return err
		}
	}
	f.terms.reset()
	f.tokens, f.length, f.rows, f.ends = 0, 0, f.rows[:0], f.ends[:0]
	return nil
}

// Finish writes the segment over so many rows and ends the build.
func (b *Builder) Finish(ctx context.Context, to io.Writer, rows int64) (Stats, error) {
	defer b.Close()
	if b.err != nil {
		return Stats{}, b.err
	}
	if rows <= b.row || rows > MaxRows || b.at != nil {
		return Stats{}, errs.Newf(errs.Invalid, "segment.build", "%d rows, of which %d was added", rows, b.row)
	}
	if rows*int64(len(b.fields)) > b.opts.Memory/4 {
		return Stats{}, errs.With(errs.Newf(errs.Exhausted, "segment.build", "the lengths of %d rows do not fit into a quarter of %d bytes", rows, b.opts.Memory), errs.Hint("give index builds more memory"))
	}
	lengths, stats := make([][]byte, len(b.fields)), make([]posting.Stats, len(b.fields))
	for i := range b.fields {
		f := &b.fields[i]
		sum := b.spill.sum(i) + f.tokens
		stats[i] = posting.Stats{Docs: f.docs, SumTotalTermFreq: sum}
		lengths[i] = make([]byte, rows)
		copy(lengths[i], f.lengths)
		f.lengths = nil
	}
	w := newWriter(to, uint32(rows), b.opts.Fields, lengths, stats, b.opts.Spill, b.opts.Memory/8)
	defer w.close()
	if b.spill.any() {
		if err := b.spillAll(); err != nil {
			return Stats{}, err
		}
	}
	for i := range b.fields {
		w.beginField(i)
		var err error
		if b.spill.any() {
			b.fields[i] = fieldLog{}
			err = b.spill.merge(ctx, i, w, b.opts.Memory/4)
		} else {
			err = b.fields[i].each(ctx, func(t []byte) error { w.beginTerm(t); return nil }, w.add, w.endTerm)
			b.fields[i] = fieldLog{}
		}
		if err == nil {
			err = w.endField()
		}
		if err != nil {
			return Stats{}, err
		}
	}
	return w.finishStats()
}

// Close gives up a build, or what is left of it.
func (b *Builder) Close() error {
	for i := range b.fields {
		b.fields[i] = fieldLog{}
	}
	return b.spill.close()
}

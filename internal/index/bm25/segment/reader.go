package segment

import (
	"bytes"
	"context"
	"encoding/binary"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/overlakedb/overlake/internal/checksum"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/block"
	"github.com/overlakedb/overlake/internal/index/bm25/posting"
	"github.com/overlakedb/overlake/internal/index/vector/section"
)

// Reader is an opened segment. It is safe for concurrent use, and there as long as it is reached.
type Reader struct {
	file     *section.File
	head     *head
	fields   []fieldReader
	resident bool // sections are held or mapped
	dict     section.Section
	posts    section.Section

	mu       sync.Mutex
	sections map[section.Kind][]byte // held or mapped, and checked
}

var _ posting.Source = (*Reader)(nil)

// fieldReader is the first-term index of a field.
type fieldReader struct {
	*fieldHead
	norms  [256]float32
	names  []byte
	starts []uint32 // of each name
	blocks []int64  // where each dictionary block begins; one more for the end
}

// OpenOptions say how a segment is read.
type OpenOptions struct {
	// Resident loads postings and dictionary whole on first use. Where the source can map bytes, or the segment is small,
	// this is so anyway. Else each search reads the ranges that it needs.
	Resident bool
}

// tailSource has the end of an artifact in memory.
type tailSource struct {
	Source
	from int64
	tail []byte
}

func (t *tailSource) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	if off >= t.from && off+int64(len(p)) <= t.from+int64(len(t.tail)) {
		return copy(p, t.tail[off-t.from:]), nil
	}
	return t.Source.ReadAtContext(ctx, p, off)
}

// mappedTail is a tailSource whose source can be mapped.
type mappedTail struct {
	tailSource
	section.Mapper
}

// Open opens a segment of so many bytes. It reads the last 64 KiB, and more only where the first-term index is larger.
func Open(ctx context.Context, src Source, size int64, o OpenOptions) (*Reader, error) {
	t := tailSource{Source: src, from: max(size-tailRead, 0)}
	t.tail = make([]byte, max(size-t.from, 0))
	if n, err := src.ReadAtContext(ctx, t.tail, t.from); n < len(t.tail) {
		if err == nil || errs.KindOf(err) == errs.Internal {
			err = corrupt("%d bytes at %d end after %d", len(t.tail), t.from, n)
		}
		return nil, err
	}
	var with section.Source = &t
	if m, ok := src.(section.Mapper); ok {
		with = &mappedTail{t, m}
	}
	file, err := section.Open(ctx, with, size)
	if err != nil {
		return nil, err
	}
	b, err := file.Load(ctx, headSection)
	if err != nil {
		return nil, err
	}
	r := &Reader{file: file, sections: map[section.Kind][]byte{}}
	if r.head, err = decodeHead(b); err != nil {
		return nil, err
	}
	r.resident = o.Resident || t.from == 0 || file.CanMap(ctx)
	idx, err := file.Load(ctx, indexSection)
	if err != nil {
		return nil, err
	}
	for _, s := range []struct {
		kind section.Kind
		to   *section.Section
	}{{dictionarySection, &r.dict}, {postingsSection, &r.posts}} {
		var ok bool
		if *s.to, ok = file.Find(s.kind); !ok {
			return nil, corrupt("section %d is missing", s.kind)
		}
	}
	if s, ok := file.Find(lengthsSection); !ok || s.Length != int64(r.head.Rows)*int64(len(r.head.Fields))+block.Slack {
		return nil, corrupt("the lengths are not those of %d rows", r.head.Rows)
	}
	if r.posts.Length < block.Slack {
		return nil, corrupt("the postings are too short")
	}
	r.posts.Length -= block.Slack // which every run has behind it then
	at := int64(0)
	for i := range r.head.Fields {
		f := fieldReader{fieldHead: &r.head.Fields[i]}
		f.norms = f.fieldHead.norms()
		if f.Index > int64(len(idx)) {
			return nil, corrupt("the first-term index ends early")
		}
		if err := f.decodeIndex(idx[:f.Index], at); err != nil {
			return nil, err
		}
		idx = idx[f.Index:]
		at += f.Dictionary
		r.fields = append(r.fields, f)
	}
	if len(idx) > 0 || at != r.dict.Length {
		return nil, corrupt("the dictionary has not the length that the head says")
	}
	return r, nil
}

// decodeIndex reads the index of a field whose dictionary begins at.
func (f *fieldReader) decodeIndex(b []byte, at int64) error {
	end := at + f.Dictionary
	var name []byte
	for range f.Blocks {
		shared, n := binary.Uvarint(b)
		if n <= 0 || shared > uint64(len(name)) {
			return corrupt("the first-term index does not decode")
		}
		b = b[n:]
		length, n := binary.Uvarint(b)
		if n <= 0 || length > uint64(len(b)-n) {
			return corrupt("the first-term index does not decode")
		}
		next := append(name[:shared:shared], b[n:n+int(length)]...)
		if len(f.blocks) > 0 && bytes.Compare(next, name) <= 0 || len(next) > MaxTerm {
			return corrupt("the first-term index is not in order")
		}
		name, b = next, b[n+int(length):]
		size, n := binary.Uvarint(b)
		if n <= 0 || size == 0 || size > uint64(end-at) {
			return corrupt("the first-term index does not decode")
		}
		b = b[n:]
		f.starts = append(f.starts, uint32(len(f.names)))
		f.names = append(f.names, name...)
		f.blocks = append(f.blocks, at)
		at += int64(size)
		if len(f.names) > 1<<31 {
			return corrupt("the first-term index is too large")
		}
	}
	if len(b) > 0 || at != end {
		return corrupt("the first-term index does not end where it should")
	}
	f.starts = append(f.starts, uint32(len(f.names)))
	f.blocks = append(f.blocks, at)
	return nil
}

// find gives the dictionary block where a term stands if it stands anywhere, -1 when it is before the first.
func (f *fieldReader) find(term []byte) int {
	lo, hi := 0, len(f.starts)-1
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if bytes.Compare(f.names[f.starts[mid]:f.starts[mid+1]], term) <= 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo - 1
}

// Resident tells whether searches read from memory: the sections are mapped, or are held from the first use on. Else each search
// reads ranges of the source.
func (r *Reader) Resident() bool { return r.resident }

// Rows is the number of rows, with and without text.
func (r *Reader) Rows() uint32 { return r.head.Rows }

// Fields is the number of fields.
func (r *Reader) Fields() int { return len(r.fields) }

// Field describes a field as it was built.
func (r *Reader) Field(i int) Field {
	f := r.fields[i].fieldHead
	return Field{Analyzer: f.Analyzer, Positions: f.Positions, Params: f.params()}
}

// FieldStats are counts of a field.
func (r *Reader) FieldStats(i int) FieldStats { return r.fields[i].stats() }

// Stats are those of a field over the rows of the segment; none of a field that is not there.
func (r *Reader) Stats(field int) posting.Stats {
	if field < 0 || field >= len(r.fields) {
		return posting.Stats{}
	}
	return r.fields[field].stats().Stats
}

// Memory is about how many bytes a reader holds: the first-term indexes, and the lengths of rows once they were asked for.
func (r *Reader) Memory() int64 {
	n := int64(r.head.Rows)*int64(len(r.fields)) + 4096
	for i := range r.fields {
		f := &r.fields[i]
		n += int64(len(f.names)) + 4*int64(len(f.starts)) + 8*int64(len(f.blocks)) + 2048
	}
	return n
}

// Sum is the CRC-32C of the artifact.
func (r *Reader) Sum() uint32 { return r.file.Sum() }

func (r *Reader) fieldOf(op string, field int) (*fieldReader, error) {
	if field < 0 || field >= len(r.fields) {
		return nil, errs.Newf(errs.Invalid, op, "field %d of %d", field, len(r.fields))
	}
	return &r.fields[field], nil
}

// section gives a section whole, checked on first use.
func (r *Reader) section(ctx context.Context, kind section.Kind) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b, ok := r.sections[kind]; ok {
		return b, nil
	}
	b, err := r.file.Load(ctx, kind)
	if err != nil {
		return nil, err
	}
	r.sections[kind] = b
	return b, nil
}

// Lengths are the length bytes of all rows in a field.
func (r *Reader) Lengths(ctx context.Context, field int) ([]byte, error) {
	if _, err := r.fieldOf("segment.lengths", field); err != nil {
		return nil, err
	}
	b, err := r.section(ctx, lengthsSection)
	if err != nil {
		return nil, err
	}
	n := int(r.head.Rows)
	return b[field*n : (field+1)*n], nil
}

// span is a range of a section, with its checksum.
type span struct {
	off, length int64
	sum         uint32
}

// read gives the bytes of ranges, each with slack behind it. Where the section is not held, ranges near each other are read
// as one, all at the same time, and compared with their checksums if check says so.
func (r *Reader) read(ctx context.Context, kind section.Kind, of section.Section, spans []span, check bool) ([][]byte, error) {
	out := make([][]byte, len(spans))
	for _, s := range spans {
		if s.off < 0 || s.length < 0 || s.off > of.Length-s.length {
			return nil, corrupt("%d bytes at %d of section %d, which has %d", s.length, s.off, kind, of.Length)
		}
	}
	if r.resident {
		b, err := r.section(ctx, kind)
		if err != nil {
			return nil, err
		}
		for i, s := range spans {
			out[i] = b[s.off : s.off+s.length : min(s.off+s.length+block.Slack, int64(len(b)))]
		}
		return out, nil
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, c := range cluster(spans) {
		g.Go(func() error {
			b := make([]byte, c.length+block.Slack)
			if err := r.file.ReadAt(ctx, kind, b[:c.length], c.off); err != nil {
				return err
			}
			for _, i := range c.spans {
				s := spans[i]
				from := s.off - c.off
				out[i] = b[from : from+s.length : from+s.length+block.Slack]
				if check && checksum.Of(out[i]) != s.sum {
					return corrupt("%d bytes at %d of section %d fail their checksum", s.length, s.off, kind)
				}
			}
			return nil
		})
	}
	return out, g.Wait()
}

// clustered are ranges that are read as one.
type clustered struct {
	off, length int64
	spans       []int
}

func cluster(spans []span) (out []clustered) {
	order := make([]int, len(spans))
	for i := range order {
		order[i] = i
	}
	sortBy(order, func(i int) int64 { return spans[i].off })
	for _, i := range order {
		s := spans[i]
		if n := len(out) - 1; n >= 0 && s.off <= out[n].off+out[n].length+mergeGap {
			out[n].length = max(out[n].length, s.off+s.length-out[n].off)
			out[n].spans = append(out[n].spans, i)
			continue
		}
		out = append(out, clustered{s.off, s.length, []int{i}})
	}
	return out
}

// Package memory answers: where do terms stand in rows that were just read?
//
// A Builder analyzes rows and keeps the postings of the terms that somebody may ask for; a Source gives them. So every query
// can be run over rows that no index covers, and gives the same scores: a Source is a posting.Source like any other. The
// numbers that need all terms (lengths of rows, how many terms there are) are counted over all terms, kept or not.
//
// Memory is bounded by the caller: a Builder says when it is full, and the rows that come after go into the next.
package memory

import (
	"bytes"
	"context"
	"slices"
	"sort"

	"github.com/overlakedb/overlake/internal/analysis"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/posting"
	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
)

// Options say what a Builder keeps.
type Options struct {
	// Analyzers are those of the fields, by the numbers of the fields.
	Analyzers []*analysis.Analyzer

	// Keep says which terms may be asked for; nil means all. The bytes are valid during the call.
	Keep func(field int, term []byte) bool

	// Positions says that positions are kept too, for phrases.
	Positions bool

	// Limit is the number of bytes from which on the Builder is full; 0 means 64 MiB.
	Limit int64
}

const defaultLimit = 64 << 20

// maxRows is the largest number of rows of a source.
const maxRows = 1 << 31

// Builder takes rows. It belongs to one goroutine.
type Builder struct {
	o      Options
	rows   uint32
	fields []field
	size   int64
	stream analysis.Stream
}

// field is what is kept of one field. Occurrences are in the order they came: one entry for each term of each row.
type field struct {
	stats     posting.Stats
	lengths   []byte
	ids       map[string]uint32
	terms     []string
	entries   []entry
	positions []uint32
	owner     []uint32 // entry of each position
	last      []uint32 // per term: its newest entry + 1
}

type entry struct {
	term, row, freq uint32
}

// NewBuilder begins an empty source.
func NewBuilder(o Options) *Builder {
	if o.Limit == 0 {
		o.Limit = defaultLimit
	}
	b := &Builder{o: o, fields: make([]field, len(o.Analyzers))}
	for i := range b.fields {
		b.fields[i].ids = map[string]uint32{}
	}
	return b
}

// Rows is the number of rows taken.
func (b *Builder) Rows() uint32 { return b.rows }

// Size is about the number of bytes in use, with those that Source will need.
func (b *Builder) Size() int64 { return b.size }

// Full reports whether the limit is reached. A Builder takes rows beyond it; the caller begins another.
func (b *Builder) Full() bool { return b.size >= b.o.Limit || b.rows >= maxRows }

// Add takes the next row: its text in every field, "" where it has none.
func (b *Builder) Add(texts ...string) error {
	if len(texts) != len(b.fields) {
		return errs.Newf(errs.Internal, "memory.add", "a row has %d texts, not %d", len(texts), len(b.fields))
	}
	if b.rows >= maxRows {
		return errs.Newf(errs.Exhausted, "memory.add", "a source has at most %d rows", int64(maxRows))
	}
	for i := range b.fields {
		b.add(i, texts[i])
	}
	b.rows++
	return nil
}

func (b *Builder) add(i int, text string) {
	f := &b.fields[i]
	length, terms := 0, int64(0)
	for b.stream.Reset(b.o.Analyzers[i], text); b.stream.Next(); terms++ {
		if b.stream.Increment > 0 {
			length++
		}
		if b.o.Keep != nil && !b.o.Keep(i, b.stream.Term) {
			continue
		}
		id, ok := f.ids[string(b.stream.Term)]
		if !ok {
			id = uint32(len(f.terms))
			t := string(b.stream.Term)
			f.ids[t] = id
			f.terms = append(f.terms, t)
			f.last = append(f.last, 0)
			b.size += int64(len(t)) + 100
		}
		at := f.last[id]
		if at == 0 || f.entries[at-1].row != b.rows {
			f.entries = append(f.entries, entry{term: id, row: b.rows})
			at = uint32(len(f.entries))
			f.last[id] = at
			b.size += 28
		}
		f.entries[at-1].freq++
		if b.o.Positions {
			f.positions = append(f.positions, uint32(b.stream.Position))
			f.owner = append(f.owner, at-1)
			b.size += 12
		}
	}
	if terms > 0 {
		f.stats.Docs++
		f.stats.SumTotalTermFreq += terms
	}
	f.lengths = append(f.lengths, similarity.EncodeLength(length))
	b.size += 2
}

// Source gives what was added. The Builder must not be used any more.
func (b *Builder) Source() *Source {
	s := &Source{rows: b.rows, fields: make([]packed, len(b.fields))}
	for i := range b.fields {
		s.fields[i] = b.fields[i].pack()
		b.fields[i] = field{}
	}
	return s
}

// packed is a field whose entries lie together by term, and the positions by entry.
type packed struct {
	stats     posting.Stats
	lengths   []byte
	terms     []string // sorted
	starts    []uint32 // per term: its first entry; one more at the end
	totals    []int64  // per term
	rows      []uint32
	freqs     []uint32
	at        []uint32 // per entry: its first position
	positions []uint32
}

func (f *field) pack() packed {
	order := make([]uint32, len(f.terms)) // places in the sorted dictionary
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(x, y uint32) int { return bytes.Compare([]byte(f.terms[x]), []byte(f.terms[y])) })
	p := packed{stats: f.stats, lengths: f.lengths, terms: make([]string, len(f.terms)), starts: make([]uint32, len(f.terms)+1), totals: make([]int64, len(f.terms)),
		rows: make([]uint32, len(f.entries)), freqs: make([]uint32, len(f.entries))}
	rank := make([]uint32, len(f.terms))
	for place, id := range order {
		p.terms[place] = f.terms[id]
		rank[id] = uint32(place)
	}
	for _, e := range f.entries {
		p.starts[rank[e.term]+1]++
		p.totals[rank[e.term]] += int64(e.freq)
	}
	for i := range f.terms {
		p.starts[i+1] += p.starts[i]
	}
	next := slices.Clone(p.starts)
	moved := make([]uint32, len(f.entries))
	for i, e := range f.entries {
		to := next[rank[e.term]]
		next[rank[e.term]]++
		p.rows[to], p.freqs[to] = e.row, e.freq
		moved[i] = to
	}
	if f.positions == nil {
		return p
	}
	p.at = make([]uint32, len(f.entries)+1)
	for i, freq := range p.freqs {
		p.at[i+1] = p.at[i] + freq
	}
	p.positions = make([]uint32, len(f.positions))
	fill := slices.Clone(p.at)
	for i, x := range f.positions {
		to := moved[f.owner[i]]
		p.positions[fill[to]] = x
		fill[to]++
	}
	return p
}

// Source holds rows in memory.
type Source struct {
	rows   uint32
	fields []packed
}

var _ posting.Source = (*Source)(nil)

// Rows is the number of rows.
func (s *Source) Rows() uint32 { return s.rows }

// Stats are those of a field.
func (s *Source) Stats(field int) posting.Stats { return s.fields[field].stats }

func (p *packed) term(i int) posting.Term {
	return posting.Term{DocFreq: int64(p.starts[i+1] - p.starts[i]), TotalFreq: p.totals[i], At: [4]uint64{uint64(i)}}
}

// Lookup finds terms.
func (s *Source) Lookup(_ context.Context, field int, terms [][]byte) ([]posting.Term, error) {
	p := &s.fields[field]
	out := make([]posting.Term, len(terms))
	for i, t := range terms {
		if at, ok := slices.BinarySearchFunc(p.terms, t, func(have string, t []byte) int { return bytes.Compare([]byte(have), t) }); ok {
			out[i] = p.term(at)
		}
	}
	return out, nil
}

// Walk gives the terms in order.
func (s *Source) Walk(ctx context.Context, field int, from []byte, yield func(term []byte, t posting.Term) ([]byte, bool)) error {
	p := &s.fields[field]
	find := func(t []byte) int {
		return sort.Search(len(p.terms), func(i int) bool { return p.terms[i] >= string(t) })
	}
	var buf []byte
	for i := find(from); i < len(p.terms); {
		if err := ctx.Err(); err != nil {
			return errs.Wrap(errs.Canceled, "memory.walk", err)
		}
		buf = append(buf[:0], p.terms[i]...)
		seek, more := yield(buf, p.term(i))
		if !more {
			return nil
		}
		if i++; seek != nil {
			i = max(i, find(seek))
		}
	}
	return nil
}

// Lengths are the length bytes.
func (s *Source) Lengths(_ context.Context, field int) ([]byte, error) {
	return s.fields[field].lengths, nil
}

// Postings are those of a term.
func (s *Source) Postings(_ context.Context, field int, t posting.Term, positions bool) (posting.Cursor, error) {
	p := &s.fields[field]
	if t.DocFreq == 0 {
		return &cursor{p: p, row: posting.End, done: true}, nil
	}
	i := int(t.At[0])
	if i >= len(p.terms) {
		return nil, errs.Newf(errs.Internal, "memory.postings", "there is no term %d", i)
	}
	if positions && p.positions == nil {
		return nil, errs.New(errs.Unsupported, "memory.postings", "the rows were analyzed without positions")
	}
	return &cursor{p: p, next: p.starts[i], end: p.starts[i+1], with: positions}, nil
}

type cursor struct {
	p         *packed
	next, end uint32 // the entry behind the current one
	row       uint32
	with      bool
	on, done  bool // it stands on a row; it is behind the last
}

func (c *cursor) Row() uint32 { return c.row }

func (c *cursor) Next() uint32 {
	if c.next >= c.end {
		c.done, c.row = true, posting.End
		return c.row
	}
	c.row, c.on = c.p.rows[c.next], true
	c.next++
	return c.row
}

// Advance gallops: it doubles the step until it is too far, then looks between.
func (c *cursor) Advance(target uint32) uint32 {
	if c.done || c.on && c.row >= target {
		return c.row
	}
	rows := c.p.rows[c.next:c.end]
	step := 1
	for step < len(rows) && rows[step-1] < target {
		step *= 2
	}
	lo := step / 2
	hi := min(step, len(rows))
	i, _ := slices.BinarySearch(rows[lo:hi], target)
	c.next += uint32(lo + i)
	return c.Next()
}

func (c *cursor) Freq() uint32 {
	if c.done || !c.on {
		return 0
	}
	return c.p.freqs[c.next-1]
}

func (c *cursor) Positions() []uint32 {
	if !c.with || c.done || !c.on {
		return nil
	}
	return c.p.positions[c.p.at[c.next-1]:c.p.at[c.next]]
}

func (c *cursor) Err() error { return nil }

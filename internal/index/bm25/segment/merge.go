package segment

import (
	"cmp"
	"context"
	"io"
	"slices"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/posting"
)

// Part is a segment that goes into a merged one.
type Part struct {
	Reader *Reader
	Base   int64 // row r becomes row Base + r

	// Map, if it is set, says which row a row becomes instead, posting.End for one that is left out. No two rows of all parts
	// become the same one.
	Map func(row uint32) uint32
}

// MergeOptions say what a merge may use. It holds the lengths of all rows and, of each part, the postings of one term, unless
// they are mapped; where a Map does not ascend, the postings of one term are sorted in memory.
type MergeOptions struct {
	Memory int64 // bytes; 0: 256 MiB, and at least 1 MiB
	Spill  func() (SpillFile, error)
}

// Merge writes a segment over so many rows from others, without the texts. All parts have the same fields. The result is, byte for
// byte, what a Builder makes of the same texts.
func Merge(ctx context.Context, to io.Writer, rows int64, parts []Part, o MergeOptions) (_ Stats, err error) {
	const op = "segment.merge"
	defer guard(op, &err)()
	if len(parts) == 0 || rows < 0 || rows > MaxRows {
		return Stats{}, errs.Newf(errs.Invalid, op, "%d parts, %d rows", len(parts), rows)
	}
	first := parts[0].Reader
	for _, p := range parts {
		if p.Reader.Fields() != first.Fields() {
			return Stats{}, errs.Newf(errs.Invalid, op, "parts of %d and %d fields", first.Fields(), p.Reader.Fields())
		}
		for i := range first.Fields() {
			if p.Reader.Field(i) != first.Field(i) {
				return Stats{}, errs.Newf(errs.Invalid, op, "field %d is built in different ways", i)
			}
		}
	}
	b := Options{Memory: o.Memory, Spill: o.Spill}
	for i := range first.Fields() {
		b.Fields = append(b.Fields, first.Field(i))
	}
	if err := b.check(); err != nil {
		return Stats{}, err
	}
	if rows*int64(len(b.Fields)) > b.Memory/4 {
		return Stats{}, errs.With(errs.Newf(errs.Exhausted, op, "the lengths of %d rows do not fit into a quarter of %d bytes", rows, b.Memory), errs.Hint("give merges more memory"))
	}
	m := &merger{ctx: ctx, parts: parts, memory: b.Memory / 2, ascends: make([]bool, len(parts))}
	if err := m.lengthsOf(rows, len(b.Fields)); err != nil {
		return Stats{}, err
	}
	for f := range b.Fields {
		if err := m.statsOf(f); err != nil {
			return Stats{}, err
		}
	}
	w := newWriter(to, uint32(rows), b.Fields, m.lengths, m.stats, b.Spill, b.Memory/16)
	defer w.close()
	for f := range b.Fields {
		w.beginField(f)
		err := mergeStreams(ctx, m.streams(f), m.ordered, w)
		if err == nil {
			err = w.endField()
		}
		if err != nil {
			return Stats{}, err
		}
	}
	return w.finishStats()
}

// merger is a merge at work.
type merger struct {
	ctx     context.Context
	parts   []Part
	memory  int64
	lengths [][]byte
	stats   []posting.Stats
	ascends []bool // the rows of a part are in the same order as before
	ordered bool   // and those of all parts one after another
	dropped bool   // rows with text were left out
}

// row is what a row of a part becomes.
func (p *Part) row(r uint32) int64 {
	if p.Map == nil {
		return p.Base + int64(r)
	}
	if n := p.Map(r); n != posting.End {
		return int64(n)
	}
	return -1
}

// lengthsOf takes over the lengths, and learns in which order rows come.
func (m *merger) lengthsOf(rows int64, fields int) error {
	taken := make([]uint64, (rows+63)/64)
	m.lengths = make([][]byte, fields)
	for f := range fields {
		m.lengths[f] = make([]byte, rows)
	}
	m.ordered = true
	end := int64(-1)
	for i := range m.parts {
		p := &m.parts[i]
		of := make([][]byte, fields)
		for f := range fields {
			var err error
			if of[f], err = p.Reader.Lengths(m.ctx, f); err != nil {
				return err
			}
		}
		m.ascends[i] = true
		last := int64(-1)
		for r := range p.Reader.Rows() {
			n := p.row(r)
			if n < 0 && p.Map != nil {
				for f := range fields {
					m.dropped = m.dropped || of[f][r] > 0
				}
				continue
			}
			if n < 0 || n >= rows || taken[n>>6]>>(n&63)&1 != 0 {
				return errs.Newf(errs.Invalid, "segment.merge", "row %d of part %d becomes row %d of %d, or another one did", r, i, n, rows)
			}
			taken[n>>6] |= 1 << (n & 63)
			for f := range fields {
				m.lengths[f][n] = of[f][r]
			}
			m.ascends[i] = m.ascends[i] && n > last
			m.ordered = m.ordered && n > end
			last, end = n, max(end, n)
		}
	}
	return nil
}

// statsOf counts what stays of a field.
func (m *merger) statsOf(field int) error {
	var s posting.Stats
	if !m.dropped {
		for _, p := range m.parts {
			t := p.Reader.Stats(field)
			s.Docs += t.Docs
			s.SumTotalTermFreq += t.SumTotalTermFreq
		}
		m.stats = append(m.stats, s)
		return nil
	}
	for _, b := range m.lengths[field] {
		if b > 0 {
			s.Docs++
		}
	}
	for _, st := range m.streams(field) {
		st := st.(*partStream)
		st.positions = false
		for {
			term, err := st.next()
			if err != nil {
				return err
			}
			if term == nil {
				break
			}
			for {
				row, freq, _, err := st.posting()
				if err != nil {
					return err
				}
				if row == posting.End {
					break
				}
				s.SumTotalTermFreq += int64(freq)
			}
		}
	}
	m.stats = append(m.stats, s)
	return nil
}

func (m *merger) streams(field int) []stream {
	out := make([]stream, len(m.parts))
	for i := range m.parts {
		p := &m.parts[i]
		f := &p.Reader.fields[field]
		out[i] = &partStream{m: m, part: p, f: f, field: field, sorts: !m.ascends[i], positions: f.Positions, limit: m.memory / int64(len(m.parts))}
	}
	return out
}

// partStream gives the terms of a field of a part.
type partStream struct {
	m         *merger
	part      *Part
	f         *fieldReader
	field     int
	positions bool
	sorts     bool
	limit     int64 // bytes of postings that may be held

	blocks  []dictBlock // read ahead
	at      int         // number of the block behind them
	d       *dictBlock  // at work
	n       int         // term in it
	numbers numbers
	keys    []byte
	key     []byte

	list list
	i    int // in its block

	// Where rows change their order: all postings of the term.
	sorted []moved
	places []uint32
	next1  int
}

type moved struct {
	row, freq uint32
	from      int // in places
}

func (s *partStream) next() ([]byte, error) {
	for s.d == nil || s.n == s.d.n {
		if len(s.blocks) == 0 {
			if s.at == int(s.f.Blocks) {
				return nil, nil
			}
			var numbers []int
			for ; s.at < int(s.f.Blocks) && len(numbers) < walkBlocks; s.at++ {
				numbers = append(numbers, s.at)
			}
			var err error
			if s.blocks, err = s.part.Reader.readBlocks(s.m.ctx, s.f, numbers); err != nil {
				return nil, err
			}
		}
		s.d, s.blocks = &s.blocks[0], s.blocks[1:]
		s.n, s.keys, s.key, s.numbers = 0, s.d.keys, s.key[:0], s.d.numbers()
	}
	shared, suffix, rest, err := nextKey(s.keys, len(s.key))
	if err != nil {
		return nil, err
	}
	if len(suffix) == 0 || shared < len(s.key) && suffix[0] <= s.key[shared] {
		return nil, corrupt("the terms of a dictionary block are not in order")
	}
	s.key, s.keys = append(s.key[:shared], suffix...), rest
	var t posting.Term
	if err := s.numbers.next(&t); err != nil {
		return nil, err
	}
	s.n++
	if t.At[0]&3 == formLarge && !s.part.Reader.resident && int64(t.At[1]+t.At[2]) > s.limit {
		return nil, errs.With(errs.Newf(errs.Exhausted, "segment.merge", "the postings of a term have %d bytes, more than %d", t.At[1]+t.At[2], s.limit), errs.Hint("give merges more memory"))
	}
	if err := s.part.Reader.openLists(s.m.ctx, []openRequest{{s.field, t, s.positions}}, []*list{&s.list}); err != nil {
		return nil, err
	}
	if s.i = 0; !s.sorts {
		return s.key, nil
	}
	return s.key, s.sort()
}

// posting gives the next posting of the term.
func (s *partStream) posting() (row, freq uint32, positions []uint32, err error) {
	if !s.sorts {
		return s.step()
	}
	if s.next1 == len(s.sorted) {
		return posting.End, 0, nil, nil
	}
	p := s.sorted[s.next1]
	s.next1++
	if s.positions {
		positions = s.places[p.from : p.from+int(p.freq)]
	}
	return p.row, p.freq, positions, nil
}

// step goes on in the order of the part, over rows that stay.
func (s *partStream) step() (row, freq uint32, positions []uint32, err error) {
	l := &s.list
	for {
		if s.i >= l.count {
			if l.at+1 >= l.n {
				return posting.End, 0, nil, nil
			}
			if err := l.load(l.at + 1); err != nil {
				return 0, 0, nil, err
			}
			s.i = 0
		}
		if err := l.decodeRows(); err != nil {
			return 0, 0, nil, err
		}
		l.decodeFreqs()
		i := s.i
		s.i++
		n := s.part.row(l.row[i])
		if n < 0 {
			continue
		}
		if s.positions {
			if positions, err = l.positionsAt(i); err != nil {
				return 0, 0, nil, err
			}
		}
		if l.freq[i] == 0 {
			return 0, 0, nil, corrupt("a term stands in a row, but never")
		}
		return uint32(n), l.freq[i], positions, nil
	}
}

// sort takes all postings of the term and brings them into the order of their new rows.
func (s *partStream) sort() error {
	s.sorted, s.places, s.next1 = s.sorted[:0], s.places[:0], 0
	for {
		row, freq, positions, err := s.step()
		if err != nil {
			return err
		}
		if row == posting.End {
			break
		}
		s.sorted = append(s.sorted, moved{row, freq, len(s.places)})
		s.places = append(s.places, positions...)
		if 16*int64(len(s.sorted))+4*int64(len(s.places)) > s.limit {
			return errs.With(errs.Newf(errs.Exhausted, "segment.merge", "the postings of a term cannot be sorted in %d bytes", s.limit), errs.Hint("give merges more memory"))
		}
	}
	slices.SortFunc(s.sorted, func(a, b moved) int { return cmp.Compare(a.row, b.row) })
	return nil
}

package segment

import (
	"encoding/binary"
	"io"

	"github.com/overlakedb/overlake/internal/checksum"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/block"
	"github.com/overlakedb/overlake/internal/index/bm25/posting"
	"github.com/overlakedb/overlake/internal/index/vector/section"
)

// writer writes a segment: the fields in order, the terms of each ascending, the postings of each term ascending. What it
// holds is the table of the longest list, the first-term index and two spools.
type writer struct {
	out  *section.Writer
	at   int64 // in the section of postings
	dict spool
	head head
	idx  []byte

	lengths [][]byte // of each field
	field   int
	norms   [256]float32

	// The dictionary block at work.
	terms     int
	keys      []byte
	stats     []byte
	base      int64
	small     []byte
	smallPos  []byte
	last      []byte // term before, also of the block before
	separator []byte // that separates the block from the one before
	entry     []byte // last separator

	// The term at work.
	term        []byte
	rows, freqs block.Values
	have        int
	positions   []uint32 // differences that are not packed yet
	docs, freq  uint64
	packed      uint64  // occurrences in blocks that are written
	maxFreq     uint32  // of the field
	most        float64 // freq·inv of the block
	big         bool
	run         run
	gaps        block.Values
}

// newWriter begins a segment. lengths are the length bytes of all fields, and stats what is counted of them; open and memory are for spools.
func newWriter(to io.Writer, rows uint32, fields []Field, lengths [][]byte, stats []posting.Stats, open func() (SpillFile, error), memory int64) *writer {
	limit := int(max(memory, 1<<16))
	w := &writer{out: section.NewWriter(to), lengths: lengths, dict: spool{open: open, limit: limit}}
	w.run.positions = spool{open: open, limit: limit}
	w.head = head{Format: format, Rows: rows, Fields: make([]fieldHead, len(fields))}
	for i, f := range fields {
		w.head.Fields[i] = fieldHead{Analyzer: f.Analyzer, Positions: f.Positions, K1: f.Params.K1, B: f.Params.B, Docs: stats[i].Docs, SumTotalTermFreq: stats[i].SumTotalTermFreq}
		h := &w.head.Fields[i]
		for _, b := range lengths[i] {
			h.MaxLength = max(h.MaxLength, b)
		}
	}
	w.out.Begin(postingsSection)
	return w
}

func (w *writer) put(b []byte) error {
	n, err := w.out.Write(b)
	w.at += int64(n)
	return err
}

func (w *writer) beginField(i int) {
	w.field = i
	w.norms = w.head.Fields[i].norms()
	w.last, w.entry, w.maxFreq = w.last[:0], w.entry[:0], 0
	w.run.withPositions = w.head.Fields[i].Positions
}

// beginTerm begins a term, greater than the one before in the field.
func (w *writer) beginTerm(term []byte) {
	w.term = append(w.term[:0], term...)
	w.have, w.docs, w.freq, w.packed, w.most, w.big = 0, 0, 0, 0, 0, false
	w.positions = w.positions[:0]
	if w.terms == 0 {
		w.base = w.at
	}
}

// add adds a posting. positions are as many as freq says, ascending, or none in a field without.
func (w *writer) add(row, freq uint32, positions []uint32) error {
	if w.have == block.Size {
		if err := w.block(); err != nil {
			return err
		}
	}
	w.rows[w.have], w.freqs[w.have] = row, freq
	w.have++
	w.docs++
	w.freq += uint64(freq)
	w.maxFreq = max(w.maxFreq, freq)
	if x := float64(freq) * float64(w.norms[w.lengths[w.field][row]]); x > w.most {
		w.most = x
	}
	last := uint32(0)
	for _, p := range positions {
		w.positions = append(w.positions, p-last)
		last = p
	}
	if w.big && len(w.positions) >= block.Size {
		return w.packPositions()
	}
	return nil
}

// block writes the postings that are held.
func (w *writer) block() error {
	if !w.big {
		w.big = true
		w.run.reset()
		if err := w.packPositions(); err != nil {
			return err
		}
	}
	before := w.packed
	for _, f := range w.freqs[:w.have] {
		w.packed += uint64(f)
	}
	err := w.run.add(w.rows[:w.have], w.freqs[:w.have], before, w.most, &w.gaps, w.put)
	w.have, w.most = 0, 0
	return err
}

// packPositions packs what is there in full blocks.
func (w *writer) packPositions() error {
	at := 0
	for ; at+block.Size <= len(w.positions); at += block.Size {
		if err := w.run.addPositions(w.positions[at : at+block.Size]); err != nil {
			return err
		}
	}
	w.positions = w.positions[:copy(w.positions, w.positions[at:])]
	return nil
}

// endTerm ends a term; one without postings leaves nothing.
func (w *writer) endTerm() error {
	if w.docs == 0 {
		return nil
	}
	h := &w.head.Fields[w.field]
	h.Terms++
	h.Postings += int64(w.docs)
	w.addKey()
	s := w.stats
	switch {
	case w.docs == 1 && w.freq == 1:
		s = append(s, 0)
		s = binary.AppendUvarint(s, uint64(w.rows[0]))
		if h.Positions {
			s = binary.AppendUvarint(s, uint64(w.positions[0]))
		}
	case isSmall(w.docs, w.freq):
		s = binary.AppendUvarint(s, w.docs)
		s = binary.AppendUvarint(s, w.freq-w.docs)
		var rw, fw uint
		w.small, rw, fw = packBody(w.small, w.rows[:w.have], w.freqs[:w.have], 0, false, &w.gaps)
		s = append(s, byte(rw))
		if w.freq > w.docs {
			s = append(s, byte(fw))
		}
		if h.Positions {
			pw := block.Width(w.positions)
			s = append(s, byte(pw))
			w.smallPos = block.Append(w.smallPos, w.positions, pw)
		}
	default:
		if err := w.block(); err != nil {
			return err
		}
		if len(w.positions) > 0 {
			if err := w.run.addPositions(w.positions); err != nil {
				return err
			}
		}
		if err := w.run.finish(w.put); err != nil {
			return err
		}
		s = binary.AppendUvarint(s, w.docs)
		s = binary.AppendUvarint(s, w.freq-w.docs)
		s = binary.AppendUvarint(s, uint64(w.run.length))
		s = binary.LittleEndian.AppendUint32(s, w.run.sum)
		if h.Positions {
			s = binary.AppendUvarint(s, uint64(w.run.posLength))
			s = binary.LittleEndian.AppendUint32(s, w.run.posSum)
		}
	}
	w.stats = s
	if w.terms == termsPerBlock {
		return w.endBlock()
	}
	return nil
}

// isSmall tells whether a term shares its run with its neighbours in the dictionary.
func isSmall(docs, freq uint64) bool { return docs < smallDocs && freq < smallFreq }

// addKey adds the term to the keys of the dictionary block.
func (w *writer) addKey() {
	shared := commonPrefix(w.last, w.term)
	if w.terms == 0 {
		// The shortest prefix of the term that is greater than the term before.
		w.separator = append(w.separator[:0], w.term[:min(shared+1, len(w.term))]...)
		shared = 0
	}
	w.keys = binary.AppendUvarint(w.keys, uint64(shared))
	w.keys = binary.AppendUvarint(w.keys, uint64(len(w.term)-shared))
	w.keys = append(w.keys, w.term[shared:]...)
	w.last = append(w.last[:0], w.term...)
	w.terms++
}

// endBlock writes the small postings, and the dictionary block to its spool.
func (w *writer) endBlock() error {
	if w.terms == 0 {
		return nil
	}
	h := &w.head.Fields[w.field]
	var b []byte
	b = binary.AppendUvarint(b, uint64(w.terms))
	b = binary.AppendUvarint(b, uint64(len(w.keys)))
	b = append(b, w.keys...)
	b = binary.AppendUvarint(b, uint64(w.base))
	b = binary.AppendUvarint(b, uint64(w.at-w.base))
	b = binary.AppendUvarint(b, uint64(len(w.small)))
	b = binary.LittleEndian.AppendUint32(b, checksum.Of(w.small))
	if h.Positions {
		b = binary.AppendUvarint(b, uint64(len(w.smallPos)))
		b = binary.LittleEndian.AppendUint32(b, checksum.Of(w.smallPos))
	}
	b = append(b, w.stats...)
	b = binary.LittleEndian.AppendUint32(b, checksum.Of(b))

	shared := commonPrefix(w.entry, w.separator)
	from := len(w.idx)
	w.idx = binary.AppendUvarint(w.idx, uint64(shared))
	w.idx = binary.AppendUvarint(w.idx, uint64(len(w.separator)-shared))
	w.idx = append(w.idx, w.separator[shared:]...)
	w.idx = binary.AppendUvarint(w.idx, uint64(len(b)))
	w.entry = append(w.entry[:0], w.separator...)
	h.Index += int64(len(w.idx) - from)
	h.Blocks++
	h.Dictionary += int64(len(b))

	if err := w.put(w.small); err != nil {
		return err
	}
	if err := w.put(w.smallPos); err != nil {
		return err
	}
	w.terms = 0
	w.keys, w.stats, w.small, w.smallPos = w.keys[:0], w.stats[:0], w.small[:0], w.smallPos[:0]
	return w.dict.write(b)
}

func (w *writer) endField() error {
	w.head.Fields[w.field].MaxFreq = w.maxFreq
	return w.endBlock()
}

// finish writes the other sections and gives the size of the artifact.
func (w *writer) finish() (int64, error) {
	slack := make([]byte, block.Slack)
	if err := w.put(slack); err != nil {
		return 0, err
	}
	w.out.Begin(lengthsSection)
	for _, l := range w.lengths {
		w.out.Write(l)
	}
	w.out.Write(slack)
	w.out.Begin(dictionarySection)
	if err := w.dict.drain(func(b []byte) error { _, err := w.out.Write(b); return err }); err != nil {
		return 0, err
	}
	w.out.Begin(indexSection)
	w.out.Write(w.idx)
	w.out.Begin(headSection)
	h, err := w.head.encode()
	if err != nil {
		return 0, err
	}
	w.out.Write(h)
	return w.out.Close()
}

// close gives up what is held.
func (w *writer) close() error {
	err := w.dict.close()
	if cerr := w.run.positions.close(); err == nil {
		err = cerr
	}
	return err
}

func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// checkTerm refuses what no dictionary holds.
func checkTerm(term []byte) error {
	if len(term) > MaxTerm {
		return errs.Newf(errs.Unsupported, "segment.build", "a term of %d bytes; the longest has %d", len(term), MaxTerm)
	}
	if len(term) == 0 {
		return errs.New(errs.Invalid, "segment.build", "a term without bytes")
	}
	return nil
}

// finishStats is finish with a description.
func (w *writer) finishStats() (Stats, error) {
	size, err := w.finish()
	if err != nil {
		return Stats{}, errs.Wrap(errs.KindOf(err), "segment.write", err)
	}
	s := Stats{Rows: w.head.Rows, Size: size, Fields: make([]FieldStats, len(w.head.Fields))}
	for i := range s.Fields {
		s.Fields[i] = w.head.Fields[i].stats()
	}
	return s, nil
}

package analysis

import "slices"

// token is what travels along a chain. Its buffer belongs to the caller of next, who passes the same token again; a stage
// writes the term into it with append and keeps no reference.
type token struct {
	term       []byte
	inc        int // how far its position lies behind that of the token before
	length     int // how many positions it spans
	start, end int // byte offsets in the text
	keyword    bool
}

// set makes t a token of one position.
func (t *token) set(term string, inc, start, end int) {
	t.term = append(t.term[:0], term...)
	t.inc, t.length, t.start, t.end, t.keyword = inc, 1, start, end, false
}

// copyFrom makes t equal to o, with a term of its own.
func (t *token) copyFrom(o *token) {
	term := append(t.term[:0], o.term...)
	*t = *o
	t.term = term
}

// source yields tokens: a tokenizer, or a filter behind another source. It belongs to one goroutine.
type source interface {
	reset(text string)
	next(t *token) bool
}

// mapper changes or drops one token at a time. The text is reset between texts.
type mapper interface {
	reset()
	apply(t *token) (keep bool)
}

// pure is the mark of mappers for which what becomes of a token that is not protected depends on its term alone.
type pure interface{ pure() }

// mapping applies mappers in a row. What they drop, and what they leave empty, leaves a gap in the positions.
type mapping struct {
	in      source
	mappers []mapper

	// remember says that what becomes of a term depends on nothing but the term, and is worth to be remembered.
	remember bool
	memo     termMemo
}

func (m *mapping) reset(text string) {
	m.in.reset(text)
	for _, f := range m.mappers {
		f.reset()
	}
}

func (m *mapping) next(t *token) bool {
	gap := 0
	for m.in.next(t) {
		if m.apply(t) {
			t.inc += gap
			return true
		}
		gap += t.inc
	}
	return false
}

// apply changes a token and reports whether it stays.
func (m *mapping) apply(t *token) bool {
	if !m.remember || t.keyword {
		return m.applyEach(t)
	}
	slot := m.memo.slot(t.term)
	if slot == nil {
		return m.applyEach(t)
	}
	if slot.is(t.term) {
		if slot.dropped {
			return false
		}
		t.term, t.keyword = append(t.term[:0], slot.to[:slot.toLen]...), slot.keyword
		return true
	}
	// The slot of the word is taken now, because the mappers write over it; until it is complete it is nobody's.
	slot.take(t.term)
	keep := m.applyEach(t)
	slot.complete(t, !keep)
	return keep
}

func (m *mapping) applyEach(t *token) bool {
	for _, f := range m.mappers {
		if !f.apply(t) || len(t.term) == 0 {
			return false
		}
	}
	return true
}

// stage is a tokenizer or a filter with its parameters bound: it makes the parts of a chain. One of the three is set.
type stage struct {
	tokenizer func() source
	filter    func(in source) source
	mapper    func() mapper

	// growth is about how many bytes come out for a byte that goes in, where that is more than a few.
	growth int
}

// maxGrowth bounds the product of the growths of a chain, so that no definition makes a text explode.
const maxGrowth = 10000

// makeChain connects new parts of the stages, the first of which is a tokenizer.
func makeChain(stages []stage) source {
	chain := stages[0].tokenizer()
	var last *mapping
	for _, s := range stages[1:] {
		switch {
		case s.filter != nil:
			chain, last = s.filter(chain), nil
		case last != nil:
			last.mappers = append(last.mappers, s.mapper())
		default:
			last = &mapping{in: chain, mappers: []mapper{s.mapper()}}
			chain = last
		}
		if last != nil {
			last.remember = len(last.mappers) > 1 && !slices.ContainsFunc(last.mappers, func(m mapper) bool { _, ok := m.(pure); return !ok })
		}
	}
	return chain
}

// resetChain starts a text of a composed analyzer.
func (s *Stream) resetChain(a *Analyzer, text string) {
	if s.made != a {
		s.chain, s.made = makeChain(a.stages), a
	}
	s.chain.reset(text)
}

// nextOfChain advances a composed analyzer.
func (s *Stream) nextOfChain() bool {
	t := &s.current
	gap := 0
	for s.chain.next(t) {
		if len(t.term) == 0 {
			gap += t.inc
			continue
		}
		inc := t.inc + gap
		if s.Position < 0 && inc == 0 {
			inc = 1 // the first token stands somewhere
		}
		s.Term, s.Start, s.End = t.term, t.start, t.end
		s.Position += inc
		s.Increment, s.PositionLength = inc, max(t.length, 1)
		return true
	}
	return false
}

// queue holds tokens that a filter puts out later, oldest first; its buffers are used again.
type queue struct {
	tokens []token
	head   int
}

func (q *queue) clear() { q.head, q.tokens = 0, q.tokens[:0] }

func (q *queue) len() int { return len(q.tokens) - q.head }

func (q *queue) at(i int) *token { return &q.tokens[q.head+i] }

// add gives the place of a new last token, with a buffer that may be one of before.
func (q *queue) add() *token {
	if q.head > 0 && q.head == len(q.tokens) {
		q.clear()
	}
	if q.head > 32 && q.head*2 > len(q.tokens) {
		// Move the living to the front and their buffers with them; those of the dead go behind.
		n := copyTokens(q.tokens, q.head)
		q.head, q.tokens = 0, q.tokens[:n]
	}
	if len(q.tokens) < cap(q.tokens) {
		q.tokens = q.tokens[:len(q.tokens)+1]
	} else {
		q.tokens = append(q.tokens, token{})
	}
	t := &q.tokens[len(q.tokens)-1]
	*t = token{term: t.term[:0], inc: 1, length: 1}
	return t
}

// copyTokens swaps the tokens from head on to the front.
func copyTokens(t []token, head int) int {
	n := 0
	for i := head; i < len(t); i++ {
		t[n], t[i] = t[i], t[n]
		n++
	}
	return n
}

// take copies the first token to t and removes it.
func (q *queue) take(t *token) bool {
	if q.len() == 0 {
		return false
	}
	t.copyFrom(q.at(0))
	q.head++
	return true
}

// termSet is a set of terms that keeps its memory from text to text.
type termSet struct {
	slots []termRef // a power of two of them; the term with n 0 is none
	count int
	terms []byte
}

type termRef struct{ at, n int }

func (s *termSet) clear() {
	if len(s.slots) > 1024 && s.count < len(s.slots)/16 {
		s.slots = nil // of a long text; wiping it for each short one would cost more than making another
	}
	clear(s.slots)
	s.count, s.terms = 0, s.terms[:0]
}

// add puts a term, which is not empty, into the set and reports whether it was not there.
func (s *termSet) add(term []byte) bool {
	if 2*s.count >= len(s.slots) {
		old := s.slots
		s.slots = make([]termRef, max(64, 2*len(old)))
		for _, r := range old {
			if r.n > 0 {
				s.slots[s.find(s.terms[r.at:r.at+r.n])] = r
			}
		}
	}
	i := s.find(term)
	if s.slots[i].n > 0 {
		return false
	}
	s.slots[i] = termRef{len(s.terms), len(term)}
	s.terms = append(s.terms, term...)
	s.count++
	return true
}

// find is the slot of a term, or the free one where it belongs.
func (s *termSet) find(term []byte) int {
	h := uint64(14695981039346656037)
	for _, c := range term {
		h = (h ^ uint64(c)) * 1099511628211
	}
	i := int((h ^ h>>32) & uint64(len(s.slots)-1))
	for {
		r := s.slots[i]
		if r.n == 0 || slices.Equal(s.terms[r.at:r.at+r.n], term) {
			return i
		}
		i = (i + 1) & (len(s.slots) - 1)
	}
}

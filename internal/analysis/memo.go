package analysis

// termMemo remembers what became of short terms: one slot a hash, the newest term wins. It takes 256 KiB, so it is made only
// after some terms. The zero value is ready.
type termMemo struct {
	met   int
	slots *[4096]memoTerm
}

// memoTerm is 64 bytes long, one line of a cache.
type memoTerm struct {
	from, to         [30]byte
	fromLen, toLen   uint8
	dropped, keyword bool
}

// slot is the place of a term, nil if it is not remembered.
func (m *termMemo) slot(term []byte) *memoTerm {
	if m.slots == nil {
		if m.met++; m.met <= memoAfter {
			return nil
		}
		m.slots = new([4096]memoTerm)
	}
	if len(term) > len(memoTerm{}.from) {
		return nil
	}
	h := uint32(2166136261)
	for _, c := range term {
		h = (h ^ uint32(c)) * 16777619
	}
	return &m.slots[(h^h>>15)%uint32(len(m.slots))]
}

func (s *memoTerm) is(term []byte) bool {
	return string(s.from[:s.fromLen]) == string(term) && s.fromLen > 0
}

// take writes down the term that is about to be changed.
func (s *memoTerm) take(term []byte) {
	copy(s.from[:], term)
	s.fromLen, s.toLen = 0, uint8(len(term)) // the length waits until the rest is known
}

// complete writes down what became of the term of take. What is too long is forgotten.
func (s *memoTerm) complete(t *token, dropped bool) {
	if !dropped && len(t.term) > len(s.to) {
		return
	}
	s.fromLen = s.toLen
	s.dropped, s.keyword, s.toLen = dropped, t.keyword, 0
	if !dropped {
		s.toLen = uint8(copy(s.to[:], t.term))
	}
}

package analysis

import (
	"strings"

	"github.com/overlakedb/overlake/internal/analysis/stem"
)

// nextEnglish is the chain of Lucene's EnglishAnalyzer: possessive, lower case, stop words, Porter's stemmer.
func (s *Stream) nextEnglish() bool {
	for increment := 1; ; increment++ {
		start, end := s.seg.next()
		if end == 0 {
			return false
		}
		word := s.seg.text[start:end]
		slot := s.slot(word)
		if slot != nil && slot.is(word) {
			if slot.stop {
				continue
			}
			s.buf = append(s.buf[:0], slot.term[:slot.termLen]...)
			return s.emit(start, end, increment)
		}
		s.fold(withoutPossessive(word))
		stop := isStopWord(s.buf)
		if !stop {
			s.buf, s.wide = stem.PorterUTF8(s.buf, s.wide)
		}
		if slot != nil && len(s.buf) <= len(slot.term) {
			slot.put(word, s.buf, stop)
		}
		if stop {
			continue
		}
		return s.emit(start, end, increment)
	}
}

// withoutPossessive removes 's from the end of a word, with any of the three apostrophes.
func withoutPossessive(w string) string {
	n := len(w)
	if n < 2 || w[n-1] != 's' && w[n-1] != 'S' {
		return w
	}
	for _, apostrophe := range [...]string{"'", "’", "＇"} {
		if rest, ok := strings.CutSuffix(w[:n-1], apostrophe); ok {
			return rest
		}
	}
	return w
}

// isStopWord reports whether w is one of Lucene's 33 English stop words.
func isStopWord(w []byte) bool {
	switch string(w) {
	case "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of", "on", "or", "such",
		"that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with":
		return true
	}
	return false
}

// memo remembers what became of short words: text repeats itself, and stemming costs more than looking. One slot a hash,
// the newest word wins. It takes 156 KiB, so a stream gets one only after memoAfter words.
type memo [4096]memoSlot

const memoAfter = 256

type memoSlot struct {
	word             [18]byte
	term             [18]byte
	wordLen, termLen uint8
	stop             bool
}

// slot is the place of a word in the memo, or nil if it is not remembered.
func (s *Stream) slot(word string) *memoSlot {
	m := s.memo
	if m == nil {
		if s.words++; s.words <= memoAfter {
			return nil
		}
		s.memo = new(memo)
		m = s.memo
	}
	if len(word) > len(m[0].word) {
		return nil
	}
	h := uint32(2166136261)
	for i := range len(word) {
		h = (h ^ uint32(word[i])) * 16777619
	}
	return &m[(h^h>>15)%uint32(len(m))]
}

func (s *memoSlot) is(word string) bool { return string(s.word[:s.wordLen]) == word && s.wordLen > 0 }

func (s *memoSlot) put(word string, term []byte, stop bool) {
	s.wordLen = uint8(copy(s.word[:], word))
	s.termLen = uint8(copy(s.term[:], term))
	s.stop = stop
}

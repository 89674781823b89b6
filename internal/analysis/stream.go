package analysis

import (
	"unicode"
	"unicode/utf8"
)

// maxToken is the longest word in UTF-16 units, Lucene's default.
const maxToken = 255

// Stream yields the tokens of one text after another and keeps its buffers between them: after the first few texts it
// allocates nothing. The zero value is ready for Reset. It is not safe for concurrent use.
//
//	for s.Reset(a, text); s.Next(); {
//		use(s.Token)
//	}
type Stream struct {
	Token // the current token, after Next said true

	kind  kind
	seg   segmenter
	runs  runs
	buf   []byte
	wide  []uint16
	words int // of english, while there is no memo
	memo  *memo

	chain   source // of the analyzer made
	made    *Analyzer
	current token
}

// Reset starts a text.
func (s *Stream) Reset(a *Analyzer, text string) {
	s.kind = a.kind
	s.Token = Token{Position: -1, PositionLength: 1}
	if s.kind == composed {
		s.resetChain(a, text)
		return
	}
	s.seg.text, s.seg.at, s.seg.max = text, 0, maxToken
	s.runs = runs{text: text, longest: maxToken}
}

// Next advances to the next token and reports whether there is one.
func (s *Stream) Next() bool {
	switch s.kind {
	case standard:
		start, end := s.seg.next()
		if end == 0 {
			return false
		}
		s.fold(s.seg.text[start:end])
		return s.emit(start, end, 1)
	case english:
		return s.nextEnglish()
	case simple:
		start, end := s.runs.next(&asciiLetter, isLetter)
		if end == 0 {
			return false
		}
		s.fold(s.runs.text[start:end])
		return s.emit(start, end, 1)
	case whitespace:
		start, end := s.runs.next(&asciiNotSpace, isNotSpace)
		if end == 0 {
			return false
		}
		s.buf = append(s.buf[:0], s.runs.text[start:end]...)
		return s.emit(start, end, 1)
	case composed:
		return s.nextOfChain()
	default: // keyword
		n := len(s.seg.text)
		if s.seg.at == n {
			return false
		}
		s.seg.at = n
		s.buf = append(s.buf[:0], s.seg.text...)
		return s.emit(0, n, 1)
	}
}

func (s *Stream) emit(start, end, increment int) bool {
	s.Term = s.buf
	s.Position += increment
	s.Increment = increment
	s.Start, s.End = start, end
	return true
}

// fold writes the word in lower case to the buffer, character by character as Lucene's LowerCaseFilter does.
func (s *Stream) fold(word string) {
	b := s.buf[:0]
	for i := range len(word) {
		c := word[i]
		if c >= utf8.RuneSelf {
			s.buf = foldWide(b, word[i:])
			return
		}
		b = append(b, asciiLower[c])
	}
	s.buf = b
}

func foldWide(b []byte, word string) []byte {
	for i := 0; i < len(word); {
		r, w := utf8.DecodeRuneInString(word[i:])
		if r == utf8.RuneError && w <= 1 {
			b = append(b, word[i])
		} else {
			b = utf8.AppendRune(b, unicode.ToLower(r))
		}
		i += max(w, 1)
	}
	return b
}

var asciiLower = func() (t [utf8.RuneSelf]byte) {
	for i := range t {
		t[i] = byte(i)
		if i >= 'A' && i <= 'Z' {
			t[i] += 'a' - 'A'
		}
	}
	return t
}()

// runs finds runs of characters of one kind in a text.
type runs struct {
	text    string
	at      int // where to go on
	longest int // in UTF-16 units; longer runs are cut
}

// next finds the next run of characters that are in; ascii answers for ASCII. An end of 0 means that there is none.
func (s *runs) next(ascii *[utf8.RuneSelf]bool, in func(r rune, w int) bool) (start, end int) {
	text, i := s.text, s.at
	for i < len(text) {
		if c := text[i]; c < utf8.RuneSelf {
			if ascii[c] {
				break
			}
			i++
			continue
		}
		r, w := utf8.DecodeRuneInString(text[i:])
		if in(r, w) {
			break
		}
		i += w
	}
	if i >= len(text) {
		s.at = i
		return 0, 0
	}
	start = i
	// As long as it is ASCII, a byte is a unit.
	stop := min(len(text), start+s.longest)
	for i < stop && text[i] < utf8.RuneSelf && ascii[text[i]] {
		i++
	}
	if i < stop && text[i] >= utf8.RuneSelf {
		i = s.wide(start, i, ascii, in)
	}
	s.at = i
	return start, i
}

// wide goes on in a run behind its ASCII characters.
func (s *runs) wide(start, i int, ascii *[utf8.RuneSelf]bool, in func(r rune, w int) bool) int {
	for units := i - start; i < len(s.text); {
		r, w := decode(s.text, i)
		if units += unitsOf(r); units > s.longest || r < utf8.RuneSelf && !ascii[r] || r >= utf8.RuneSelf && !in(r, w) {
			break
		}
		i += w
	}
	return i
}

func decode(text string, i int) (rune, int) {
	if c := text[i]; c < utf8.RuneSelf {
		return rune(c), 1
	}
	return utf8.DecodeRuneInString(text[i:])
}

// unitsOf is the number of UTF-16 units of a character.
func unitsOf(r rune) int {
	if r >= 0x10000 {
		return 2
	}
	return 1
}

// isLetter is Java's Character.isLetter. A byte that is not UTF-8 is none.
func isLetter(r rune, w int) bool {
	return !(r == utf8.RuneError && w == 1) && unicode.IsLetter(r)
}

// isNotSpace is the opposite of Java's Character.isWhitespace: no-break spaces are no white space.
func isNotSpace(r rune, _ int) bool {
	switch {
	case r < utf8.RuneSelf:
		return !(r >= '\t' && r <= '\r' || r >= 0x1c && r <= ' ')
	case r == 0xa0 || r == 0x2007 || r == 0x202f:
		return true
	}
	return !unicode.In(r, unicode.Z)
}

// The same two for ASCII.
var asciiLetter, asciiNotSpace = asciiOf(isLetter), asciiOf(isNotSpace)

func asciiOf(in func(r rune, w int) bool) (t [utf8.RuneSelf]bool) {
	for c := range t {
		t[c] = in(rune(c), 1)
	}
	return t
}

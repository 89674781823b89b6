package analysis

import "unicode/utf8"

// segmenter cuts a text into words by the rules of UAX #29, and keeps those that hold a letter, a digit, a syllable, an
// ideograph or an emoji, as the grammar of Lucene 8's StandardTokenizer does:
//
//	words       letters, digits, Katakana and connecting punctuation in any mixture that UAX #29 does not break: don't,
//	            example.com, 3.14, v2, snake_case
//	ideographs  one character each, and so are Hiragana
//	Thai, Lao, Khmer, Myanmar and their kin: the whole run, since only a dictionary could cut it
//	emoji       one sequence each, with modifiers, joiners and tags; pairs of regional indicators; key caps
//
// The classes of characters are derived from the tables of Unicode 15; Lucene 8 has those of Unicode 9, so that letters added
// since are words here and were none there.
//
// Words of ASCII letters and digits are found by a table of bytes. Whatever else appears sends the segmenter back to the
// start of the word and through the full rules, so both paths give the same words.
type segmenter struct {
	text    string
	at      int  // where to go on
	max     int  // the longest word in UTF-16 units; longer ones are cut
	careful bool // take the full rules always; for tests
	classes *classTable
}

// The kinds of ASCII characters.
const (
	aUpper = 1 << iota
	aLower
	aDigit
	aMid    // may stand inside a word: ' . , : ; and "
	aJoin   // _
	aKeyCap // # and *, which begin an emoji when a key cap follows
	aWide   // not ASCII
	aWord   = aUpper | aLower | aDigit
)

var asciiKind = func() (t [256]uint8) {
	for c := range t {
		switch {
		case c >= 'A' && c <= 'Z':
			t[c] = aUpper
		case c >= 'a' && c <= 'z':
			t[c] = aLower
		case c >= '0' && c <= '9':
			t[c] = aDigit
		case c == '\'' || c == '.' || c == ',' || c == ':' || c == ';' || c == '"':
			t[c] = aMid
		case c == '_':
			t[c] = aJoin
		case c == '#' || c == '*':
			t[c] = aKeyCap
		case c >= utf8.RuneSelf:
			t[c] = aWide
		}
	}
	return t
}()

// next finds the next word. An end of 0 means that there is none.
func (s *segmenter) next() (start, end int) {
	text, i := s.text, s.at
	for i < len(text) {
		k := asciiKind[text[i]]
		switch {
		case s.careful:
		case k == 0 || k == aMid:
			i++
			continue
		case k == aKeyCap && (i+1 == len(text) || text[i+1] < utf8.RuneSelf):
			i++
			continue
		case k&aWord != 0:
			j := i + 1
			for j < len(text) && asciiKind[text[j]]&aWord != 0 {
				j++
			}
			if j-i <= s.max && s.endsAt(j) {
				s.at = j
				return i, j
			}
		}
		end, ok := s.full(i)
		if ok {
			s.at = end
			return i, end
		}
		i = end
	}
	s.at = i
	return 0, 0
}

// endsAt reports whether a word of ASCII letters and digits surely ends before the byte at j.
func (s *segmenter) endsAt(j int) bool {
	if j == len(s.text) {
		return true
	}
	switch k := asciiKind[s.text[j]]; k {
	case aMid:
		// Inside a word only if a letter or digit follows, perhaps after invisible characters.
		return j+1 == len(s.text) || asciiKind[s.text[j+1]]&(aWord|aWide) == 0
	case 0, aKeyCap:
		return true
	}
	return false
}

// class is the class of the character at i, with its bytes and its UTF-16 units.
func (s *segmenter) class(i int) (c class, bytes, units int) {
	if b := s.text[i]; b < utf8.RuneSelf {
		return asciiClass[b], 1, 1
	}
	r, w := utf8.DecodeRuneInString(s.text[i:])
	if r == utf8.RuneError && w == 1 {
		return cOther, 1, 1
	}
	if s.classes == nil {
		s.classes = unicodeClasses()
	}
	return s.classes.of(r), w, unitsOf(r)
}

// full applies the full rules at i. It returns the end of the word that begins there and true, or a later place to look
// for one and false.
func (s *segmenter) full(i int) (end int, ok bool) {
	c, w, u := s.class(i)
	switch c {
	case cLetter, cHebrew, cDigit, cKatakana, cJoin:
		return s.word(i)
	case cComplex, cComplexMark:
		return s.while(i, func(c class) bool { return c == cComplex || c.ignored() }), true
	case cHan, cHiragana:
		return s.ignorable(i+w, s.max-u), true
	case cEmoji, cModifier:
		return s.emoji(i), true
	case cRegion:
		j := s.ignorable(i+w, s.max-u)
		if j < len(s.text) {
			if c, w, u := s.class(j); c == cRegion {
				return s.ignorable(j+w, s.max-u), true
			}
		}
		return i + w, false
	case cKeyCap:
		for j := i + w; j < len(s.text); {
			r, w := decode(s.text, j)
			if r == 0x20e3 {
				return s.ignorable(j+w, s.max), true
			}
			if c, _, _ := s.class(j); !c.ignored() {
				break
			}
			j += w
		}
	}
	return i + w, false
}

// while is the end of the run of characters from i that belong to it, at most s.max units.
func (s *segmenter) while(i int, belongs func(class) bool) int {
	for left := s.max; i < len(s.text); {
		c, w, u := s.class(i)
		if left -= u; left < 0 || !belongs(c) {
			break
		}
		i += w
	}
	return i
}

// ignorable is the end of the marks, format characters and joiners from i, which belong to the character before
// (WB4), at most left units of them.
func (s *segmenter) ignorable(i, left int) int {
	for i < len(s.text) {
		c, w, u := s.class(i)
		if left -= u; left < 0 || !c.ignored() {
			break
		}
		i += w
	}
	return i
}

// emoji is the end of the emoji sequence at i: a picture with what modifies it, and more pictures that joiners tie to it.
func (s *segmenter) emoji(i int) int {
	left := s.max
	for tied := true; i < len(s.text); {
		c, w, u := s.class(i)
		if left -= u; left < 0 || !(tied && (c == cEmoji || c == cModifier) || c.ignored() || c == cModifier) {
			break
		}
		tied = c == cJoiner
		i += w
	}
	return i
}

// word applies WB5 to WB13b from i, where a letter, digit, Katakana or connector stands.
func (s *segmenter) word(i int) (end int, ok bool) {
	var last class // the last character that is not ignored
	start, left := i, s.max
	for i < len(s.text) {
		c, w, u := s.class(i)
		if u > left {
			break
		}
		switch {
		case c.ignored() && i > start:
			i, left = i+w, left-u
			continue
		case i == start, c == cJoin:
			// connectors stick to everything here
		case c.alphabetic() || c == cDigit:
			if last == cKatakana {
				return i, ok
			}
		case c == cKatakana:
			if last != cKatakana && last != cJoin {
				return i, ok
			}
		case (c == cMidLetter || c == cMidBoth || c == cQuote) && last.alphabetic():
			next, more := s.follower(i+w, left-u)
			if more && next.alphabetic() {
				break
			}
			if c == cQuote && last == cHebrew {
				return s.ignorable(i+w, left-u), true
			}
			return i, ok
		case (c == cMidDigit || c == cMidBoth || c == cQuote) && last == cDigit:
			if next, more := s.follower(i+w, left-u); !more || next != cDigit {
				return i, ok
			}
		case c == cDoubleQuote && last == cHebrew:
			if next, more := s.follower(i+w, left-u); !more || next != cHebrew {
				return i, ok
			}
		default:
			if !ok {
				return i, false
			}
			return i, true
		}
		if c == cLetter || c == cHebrew || c == cDigit || c == cKatakana {
			ok = true
		}
		last = c
		i, left = i+w, left-u
	}
	if !ok {
		// Nothing but connectors: pass over all of them at once.
		for i < len(s.text) {
			c, w, _ := s.class(i)
			if c != cJoin && !c.ignored() {
				break
			}
			i += w
		}
	}
	return i, ok
}

// follower is the class of the next character from i that is not ignored, if one stands within left units.
func (s *segmenter) follower(i, left int) (class, bool) {
	for i < len(s.text) {
		c, w, u := s.class(i)
		if left -= u; left < 0 {
			break
		}
		if !c.ignored() {
			return c, true
		}
		i += w
	}
	return cOther, false
}

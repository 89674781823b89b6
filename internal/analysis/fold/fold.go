// Package fold answers: which characters of a word count as the same?
//
// A fold appends the folded form of a word to a buffer and returns it, as append does: dst = f(dst, word). It never fails:
// bytes that are not UTF-8 are copied as they are, by Lowercase, Uppercase, ASCII, Width, Digits and the folds of one
// language, or folded around, by ICU and Normal. dst and word must not overlap. A fold keeps no memory of its own, apart from those that New*
// make, which belong to one goroutine.
//
//	Lowercase, Uppercase          character by character, as Java's Character.toLowerCase; Turkish, Greek and Irish have their own
//	ASCII                         é to e, ß to ss, ½ stays: the table of Lucene's ASCIIFoldingFilter
//	Normal, ICU                   normal forms of Unicode, with case folding, and without marks
//	Width, Digits                 full width to ASCII, half-width Katakana to full width; decimal digits of any script to 0–9
//	German, Arabic, Persian, Scandinavian, Sorani, Hindi, Indic   what Lucene's normalization filters of these names do
//
// F1  The fold of a word never changes while the fingerprints of the analyzers stay: the unit tests hold a checksum over
// every Unicode character for each.
package fold

import (
	"unicode"
	"unicode/utf8"
)

// Fold appends the folded form of a word to dst.
type Fold func(dst, word []byte) []byte

// each maps every character of a word; a byte that is not UTF-8 stays. A negative result removes the character.
func each(dst, word []byte, f func(rune) rune) []byte {
	for i := 0; i < len(word); {
		r, w := utf8.DecodeRune(word[i:])
		if r == utf8.RuneError && w <= 1 {
			dst = append(dst, word[i])
			i++
			continue
		}
		if r = f(r); r >= 0 {
			dst = utf8.AppendRune(dst, r)
		}
		i += w
	}
	return dst
}

// Lowercase writes every character in lower case, each by itself: a final sigma stays σ, İ becomes i.
func Lowercase(dst, word []byte) []byte {
	for i, c := range word {
		if c >= utf8.RuneSelf {
			return each(dst, word[i:], unicode.ToLower)
		}
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}

// Uppercase writes every character in upper case, each by itself: ß stays.
func Uppercase(dst, word []byte) []byte { return each(dst, word, unicode.ToUpper) }

// Turkish writes lower case where I is ı and İ is i, also as I with a dot above (U+0307).
func Turkish(dst, word []byte) []byte {
	for i := 0; i < len(word); {
		r, w := utf8.DecodeRune(word[i:])
		switch {
		case r == utf8.RuneError && w <= 1:
			dst = append(dst, word[i])
		case r == 'I':
			if dot := dotAbove(word[i+1:]); dot >= 0 {
				// The marks between stay; the dot goes.
				dst = append(dst, 'i')
				dst = append(dst, word[i+1:i+1+dot]...)
				i += 1 + dot + len("\u0307")
				continue
			}
			dst = utf8.AppendRune(dst, 'ı')
		case r == 'İ':
			dst = append(dst, 'i')
		default:
			dst = utf8.AppendRune(dst, unicode.ToLower(r))
		}
		i += max(w, 1)
	}
	return dst
}

// dotAbove is the place of a combining dot above in the marks that rest begins with, or -1.
func dotAbove(rest []byte) int {
	for i := 0; i < len(rest); {
		r, w := utf8.DecodeRune(rest[i:])
		if r == 0x307 {
			return i
		}
		if !unicode.Is(unicode.Mn, r) {
			return -1
		}
		i += w
	}
	return -1
}

// Greek writes lower case without accents and diaereses, and a final sigma as any other.
func Greek(dst, word []byte) []byte { return each(dst, word, greek) }

func greek(r rune) rune {
	switch r {
	case 'ς':
		return 'σ'
	case 'Ά', 'ά':
		return 'α'
	case 'Έ', 'έ':
		return 'ε'
	case 'Ή', 'ή':
		return 'η'
	case 'Ί', 'Ϊ', 'ί', 'ϊ', 'ΐ':
		return 'ι'
	case 'Ό', 'ό':
		return 'ο'
	case 'Ύ', 'Ϋ', 'ύ', 'ϋ', 'ΰ':
		return 'υ'
	case 'Ώ', 'ώ':
		return 'ω'
	}
	return unicode.ToLower(r)
}

// Irish writes lower case and puts a hyphen behind a prefixed n or t: nAthair is n-athair.
func Irish(dst, word []byte) []byte {
	if len(word) > 1 && (word[0] == 'n' || word[0] == 't') {
		switch r, _ := utf8.DecodeRune(word[1:]); r {
		case 'A', 'E', 'I', 'O', 'U', 'Á', 'É', 'Í', 'Ó', 'Ú':
			return Lowercase(append(dst, word[0], '-'), word[1:])
		}
	}
	return Lowercase(dst, word)
}

// Digits writes the decimal digits of every script as 0 to 9.
func Digits(dst, word []byte) []byte { return each(dst, word, digit) }

func digit(r rune) rune {
	if r < utf8.RuneSelf || !unicode.Is(unicode.Nd, r) {
		return r
	}
	// The digits of a script stand in a row of ten from 0 on; rows that touch each other begin at multiples of ten of the
	// first one.
	first := r
	for first > 0 && unicode.Is(unicode.Nd, first-1) {
		first--
	}
	return '0' + (r-first)%10
}

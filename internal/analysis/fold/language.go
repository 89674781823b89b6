package fold

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// German writes ä, ö, ü without their dots, as well as ae, oe and ue where they can stand for these, and ß as ss: the rules of
// the Snowball project's german2 stemmer, which Lucene's GermanNormalizationFilter has. The e of ue goes only where no
// vowel and no q stands before the u: neue and Quelle keep theirs. The word is in lower case.
func German(dst, word []byte) []byte {
	const (
		plain  = iota
		vowel  // a u that follows begins no umlaut
		umlaut // an e that follows goes
	)
	state := plain
	for i := 0; i < len(word); {
		r, w := utf8.DecodeRune(word[i:])
		if r == utf8.RuneError && w <= 1 {
			dst = append(dst, word[i])
			state = plain
			i++
			continue
		}
		i += w
		switch r {
		case 'a', 'o':
			state = umlaut
		case 'u':
			if state == plain {
				state = umlaut
			} else {
				state = vowel
			}
		case 'e':
			drop := state == umlaut
			state = vowel
			if drop {
				continue
			}
		case 'i', 'q', 'y':
			state = vowel
		case 'ä':
			r, state = 'a', vowel
		case 'ö':
			r, state = 'o', vowel
		case 'ü':
			r, state = 'u', vowel
		case 'ß':
			dst = append(dst, 's')
			r, state = 's', plain
		default:
			state = plain
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}

// Arabic writes every alef as the bare one, a final yeh and a teh marbuta as what they sound like, and leaves out vowel marks
// and the stretching tatweel.
func Arabic(dst, word []byte) []byte {
	return each(dst, word, func(r rune) rune {
		switch r {
		case 0x622, 0x623, 0x625: // alef with madda, hamza above, hamza below
			return 0x627
		case 0x649: // alef maksura
			return 0x64a
		case 0x629: // teh marbuta
			return 0x647
		case 0x640: // tatweel
			return -1
		}
		if r >= 0x64b && r <= 0x652 { // fathatan to sukun
			return -1
		}
		return r
	})
}

// Persian writes the Persian and Urdu forms of yeh, kaf and heh as the Arabic ones.
func Persian(dst, word []byte) []byte {
	return each(dst, word, func(r rune) rune {
		switch r {
		case 0x6cc, 0x6d2: // Farsi yeh, yeh barree
			return 0x64a
		case 0x6a9: // keheh
			return 0x643
		case 0x6c0, 0x6c1: // heh with yeh, heh goal
			return 0x647
		case 0x654: // hamza above
			return -1
		}
		return r
	})
}

// Scandinavian writes å, ä, æ as a and ö, ø as o, and leaves out the second letter of the pairs aa, ae, ao, oe and oo, in any
// case: blåbær, blabar and blaabaer are one word.
func Scandinavian(dst, word []byte) []byte {
	lower := func(b byte) byte { return b | 0x20 }
	for i := 0; i < len(word); {
		r, w := utf8.DecodeRune(word[i:])
		if r == utf8.RuneError && w <= 1 {
			dst = append(dst, word[i])
			i++
			continue
		}
		i += w
		switch r {
		case 'å', 'ä', 'æ':
			r = 'a'
		case 'Å', 'Ä', 'Æ':
			r = 'A'
		case 'ö', 'ø':
			r = 'o'
		case 'Ö', 'Ø':
			r = 'O'
		case 'a', 'A':
			if i < len(word) && (lower(word[i]) == 'a' || lower(word[i]) == 'e' || lower(word[i]) == 'o') {
				i++
			}
		case 'o', 'O':
			if i < len(word) && (lower(word[i]) == 'e' || lower(word[i]) == 'o') {
				i++
			}
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}

// fullKatakana maps the half-width Katakana from U+FF65 to U+FF9F to the usual ones, the two voicing marks to those that combine.
var fullKatakana = func() (t [0xff9f - 0xff65 + 1]rune) {
	for i := range t {
		t[i], _ = utf8.DecodeRuneInString(norm.NFKC.String(string(rune(0xff65 + i))))
	}
	return t
}()

// voiced maps Katakana from U+30A6 to U+30FD to what they are with the marks U+3099 and U+309A, 0 where there is nothing.
var voiced = func() (t [0x30fd - 0x30a6 + 1][2]rune) {
	for i := range t {
		for m := range t[i] {
			s := norm.NFC.String(string([]rune{rune(0x30a6 + i), rune(0x3099 + m)}))
			if r, w := utf8.DecodeRuneInString(s); w == len(s) {
				t[i][m] = r
			}
		}
	}
	return t
}()

// Width writes full-width ASCII as ASCII and half-width Katakana in full width, with the voicing mark behind it put on it.
func Width(dst, word []byte) []byte {
	last := -1 // where the character before begins in dst
	for i := 0; i < len(word); {
		r, w := utf8.DecodeRune(word[i:])
		if r == utf8.RuneError && w <= 1 {
			dst = append(dst, word[i])
			last = -1
			i++
			continue
		}
		i += w
		switch {
		case r >= 0xff01 && r <= 0xff5e:
			r -= 0xfee0
		case r >= 0xff65 && r <= 0xff9f:
			if r >= 0xff9e && last >= 0 {
				before, _ := utf8.DecodeRune(dst[last:])
				if before >= 0x30a6 && before <= 0x30fd {
					if with := voiced[before-0x30a6][r-0xff9e]; with != 0 {
						dst = utf8.AppendRune(dst[:last], with)
						continue
					}
				}
			}
			r = fullKatakana[r-0xff65]
		}
		last = len(dst)
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}

// Sorani writes letters that have several codes in Sorani Kurdish texts by one of them, and leaves out vowel marks and
// invisible characters. A heh at the end of a word, or before a zero-width non-joiner, is the vowel ae; a reh at the
// beginning is a rolled one.
func Sorani(dst, word []byte) []byte {
	const heh, ae, rolled = 0x647, 0x6d5, 0x695
	start := len(dst)
	for i := 0; i < len(word); {
		r, w := utf8.DecodeRune(word[i:])
		if r == utf8.RuneError && w <= 1 {
			dst = append(dst, word[i])
			i++
			continue
		}
		first := len(dst) == start
		i += w
		switch {
		case r == 0x64a, r == 0x649: // yeh, alef maksura
			r = 0x6cc
		case r == 0x643: // kaf
			r = 0x6a9
		case r == 0x200c: // zero-width non-joiner
			if n := len(dst); n-2 >= start {
				if before, bw := utf8.DecodeLastRune(dst[start:]); before == heh {
					dst = utf8.AppendRune(dst[:n-bw], ae)
				}
			}
			continue
		case r == heh && i == len(word), r == 0x629: // teh marbuta
			r = ae
		case r == 0x6be: // heh doachashmee
			r = heh
		case r == 0x631 && first, r == 0x692: // reh, reh with small v
			r = rolled
		case r == 0x640, r >= 0x64b && r <= 0x652, unicode.Is(unicode.Cf, r):
			continue
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}

package datafile

import (
	"unicode/utf8"
)

// Iceberg's default for text and bytes in bounds: 16 code points, 16 bytes.
const boundLength = 16

// lowerText is the longest beginning of a text within the length; it sorts before or at the text.
func lowerText(s []byte) (string, bool) {
	cut, whole := firstRunes(s)
	if whole {
		cut = s
	}
	return string(cut), utf8.Valid(cut)
}

// upperText is a short text that sorts at or after a text: the text itself, or its beginning with the last code point that
// has a successor replaced by it. The second result is false when there is none.
func upperText(s []byte) (string, bool) {
	cut, whole := firstRunes(s)
	if whole {
		return string(s), utf8.Valid(s)
	}
	if !utf8.Valid(cut) {
		return "", false
	}
	runes := []rune(string(cut))
	for i := len(runes) - 1; i >= 0; i-- {
		switch next := runes[i] + 1; {
		case next > utf8.MaxRune:
			continue
		case next == 0xD800: // the surrogates are no code points of a text
			next = 0xE000
			fallthrough
		default:
			return string(append(runes[:i], next)), true
		}
	}
	return "", false
}

// firstRunes cuts a text to the length of a bound and reports whether all of it remained.
func firstRunes(s []byte) ([]byte, bool) {
	at := 0
	for range boundLength {
		if at == len(s) {
			return s, true
		}
		_, n := utf8.DecodeRune(s[at:])
		at += n
	}
	return s[:at], at == len(s)
}

// lowerBytes and upperBytes are the same for bytes.
func lowerBytes(b []byte) []byte {
	return append([]byte{}, b[:min(len(b), boundLength)]...)
}

func upperBytes(b []byte) ([]byte, bool) {
	if len(b) <= boundLength {
		return append([]byte{}, b...), true
	}
	for i := boundLength - 1; i >= 0; i-- {
		if b[i] != 0xFF {
			up := append([]byte{}, b[:i+1]...)
			up[i]++
			return up, true
		}
	}
	return nil, false
}

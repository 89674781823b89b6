package stem

import (
	"unicode/utf16"
	"unicode/utf8"
)

// Porter stems a lower-case word in place by M. F. Porter's algorithm of 1980 ("An algorithm for suffix stripping",
// Program 14 no. 3), with the three departures of its author's later programs that Lucene's PorterStemFilter also has:
// words of one or two letters stay, bli becomes ble, logi becomes log. Characters outside a–z count as consonants.
//
// The nouns of the paper: the stem is what stands before a suffix; its measure is the number of vowel runs that a
// consonant run follows.
func Porter[T byte | uint16](w []T) []T {
	if len(w) <= 2 {
		return w
	}
	w = plurals(w)
	w = pastAndGerund(w)
	if hasSuffix(w, "y") && hasVowel(w[:len(w)-1]) {
		w[len(w)-1] = 'i'
	}
	w = derived(w)
	w = icativeAndFull(w)
	w = residual(w)
	return finalE(w)
}

// plurals is step 1a.
func plurals[T byte | uint16](w []T) []T {
	switch {
	case hasSuffix(w, "sses"), hasSuffix(w, "ies"):
		return w[:len(w)-2]
	case hasSuffix(w, "ss"):
		return w
	case hasSuffix(w, "s"):
		return w[:len(w)-1]
	}
	return w
}

// pastAndGerund is step 1b.
func pastAndGerund[T byte | uint16](w []T) []T {
	if hasSuffix(w, "eed") {
		if measure(w[:len(w)-3]) > 0 {
			return w[:len(w)-1]
		}
		return w
	}
	switch {
	case hasSuffix(w, "ed") && hasVowel(w[:len(w)-2]):
		w = w[:len(w)-2]
	case hasSuffix(w, "ing") && hasVowel(w[:len(w)-3]):
		w = w[:len(w)-3]
	default:
		return w
	}
	n := len(w)
	switch {
	case hasSuffix(w, "at"), hasSuffix(w, "bl"), hasSuffix(w, "iz"):
		return append(w, 'e')
	case n >= 2 && w[n-1] == w[n-2] && consonant(w, n-1):
		if w[n-1] == 'l' || w[n-1] == 's' || w[n-1] == 'z' {
			return w
		}
		return w[:n-1]
	case measure(w) == 1 && shortSyllable(w):
		return append(w, 'e')
	}
	return w
}

// suffixRule replaces a suffix by another where the measure of the stem is above 0.
type suffixRule struct{ from, to string }

// The rules of step 2 by the last letter but one, and those of step 3 by the last letter; the first suffix that fits
// decides, whether or not its stem is long enough.
var (
	step2 = [26][]suffixRule{
		0:         {{"ational", "ate"}, {"tional", "tion"}},
		'c' - 'a': {{"enci", "ence"}, {"anci", "ance"}},
		'e' - 'a': {{"izer", "ize"}},
		'l' - 'a': {{"bli", "ble"}, {"alli", "al"}, {"entli", "ent"}, {"eli", "e"}, {"ousli", "ous"}},
		'o' - 'a': {{"ization", "ize"}, {"ation", "ate"}, {"ator", "ate"}},
		's' - 'a': {{"alism", "al"}, {"iveness", "ive"}, {"fulness", "ful"}, {"ousness", "ous"}},
		't' - 'a': {{"aliti", "al"}, {"iviti", "ive"}, {"biliti", "ble"}},
		'g' - 'a': {{"logi", "log"}},
	}
	step3 = [26][]suffixRule{
		'e' - 'a': {{"icate", "ic"}, {"ative", ""}, {"alize", "al"}},
		'i' - 'a': {{"iciti", "ic"}},
		'l' - 'a': {{"ical", "ic"}, {"ful", ""}},
		's' - 'a': {{"ness", ""}},
	}
)

// derived is step 2.
func derived[T byte | uint16](w []T) []T {
	if len(w) < 2 {
		return w
	}
	return applyRule(w, &step2, w[len(w)-2])
}

// icativeAndFull is step 3.
func icativeAndFull[T byte | uint16](w []T) []T {
	if len(w) == 0 {
		return w
	}
	return applyRule(w, &step3, w[len(w)-1])
}

func applyRule[T byte | uint16](w []T, rules *[26][]suffixRule, key T) []T {
	if key < 'a' || key > 'z' {
		return w
	}
	for _, r := range rules[key-'a'] {
		if !hasSuffix(w, r.from) {
			continue
		}
		if stem := w[:len(w)-len(r.from)]; measure(stem) > 0 {
			for i := range len(r.to) {
				stem = append(stem, T(r.to[i]))
			}
			return stem
		}
		return w
	}
	return w
}

// step4 holds the suffixes that step 4 removes, by the last letter but one.
var step4 = [26][]string{
	0:         {"al"},
	'c' - 'a': {"ance", "ence"},
	'e' - 'a': {"er"},
	'i' - 'a': {"ic"},
	'l' - 'a': {"able", "ible"},
	'n' - 'a': {"ant", "ement", "ment", "ent"},
	'o' - 'a': {"ion", "ou"},
	's' - 'a': {"ism"},
	't' - 'a': {"ate", "iti"},
	'u' - 'a': {"ous"},
	'v' - 'a': {"ive"},
	'z' - 'a': {"ize"},
}

// residual is step 4: a suffix goes where the measure of the stem is above 1, and -ion only after s or t.
func residual[T byte | uint16](w []T) []T {
	if len(w) < 2 {
		return w
	}
	key := w[len(w)-2]
	if key < 'a' || key > 'z' {
		return w
	}
	for _, suffix := range step4[key-'a'] {
		if !hasSuffix(w, suffix) {
			continue
		}
		stem := w[:len(w)-len(suffix)]
		if suffix == "ion" && !hasSuffix(stem, "s") && !hasSuffix(stem, "t") {
			continue
		}
		if measure(stem) > 1 {
			return stem
		}
		return w
	}
	return w
}

// finalE is step 5.
func finalE[T byte | uint16](w []T) []T {
	if hasSuffix(w, "e") {
		stem := w[:len(w)-1]
		if m := measure(stem); m > 1 || m == 1 && !shortSyllable(stem) {
			w = stem
		}
	}
	if hasSuffix(w, "ll") && measure(w) > 1 {
		w = w[:len(w)-1]
	}
	return w
}

func hasSuffix[T byte | uint16](w []T, suffix string) bool {
	if len(w) < len(suffix) {
		return false
	}
	tail := w[len(w)-len(suffix):]
	for i := range len(suffix) {
		if tail[i] != T(suffix[i]) {
			return false
		}
	}
	return true
}

// consonant reports whether the letter at i is one: y is, unless a consonant stands before it.
func consonant[T byte | uint16](w []T, i int) bool {
	switch w[i] {
	case 'a', 'e', 'i', 'o', 'u':
		return false
	case 'y':
		return i == 0 || !consonant(w, i-1)
	}
	return true
}

func hasVowel[T byte | uint16](w []T) bool {
	for i := range w {
		if !consonant(w, i) {
			return true
		}
	}
	return false
}

// measure counts the vowel runs that a consonant follows.
func measure[T byte | uint16](w []T) int {
	m := 0
	before := true // was the letter before a consonant?
	for i, c := range w {
		now := true
		switch c {
		case 'a', 'e', 'i', 'o', 'u':
			now = false
		case 'y':
			now = i == 0 || !before
		}
		if now && !before {
			m++
		}
		before = now
	}
	return m
}

// shortSyllable reports whether the word ends consonant, vowel, consonant, the last not being w, x or y: hop, but not how.
func shortSyllable[T byte | uint16](w []T) bool {
	n := len(w)
	if n < 3 || !consonant(w, n-1) || consonant(w, n-2) || !consonant(w, n-3) {
		return false
	}
	c := w[n-1]
	return c != 'w' && c != 'x' && c != 'y'
}

// PorterUTF8 stems a lower-case word in place by Porter. Its rules count characters, so a word with others than ASCII goes
// through UTF-16 units, of which Lucene's stemmer counts; wide is the buffer for that, and is returned for the next word. A
// word that is not UTF-8 stays.
func PorterUTF8(word []byte, wide []uint16) ([]byte, []uint16) {
	for _, c := range word {
		if c >= utf8.RuneSelf {
			return porterWide(word, wide)
		}
	}
	return Porter(word), wide
}

func porterWide(word []byte, wide []uint16) ([]byte, []uint16) {
	if !utf8.Valid(word) {
		return word, wide
	}
	wide = wide[:0]
	for i := 0; i < len(word); {
		r, w := utf8.DecodeRune(word[i:])
		wide = utf16.AppendRune(wide, r)
		i += w
	}
	stem := Porter(wide)
	b := word[:0]
	for i := 0; i < len(stem); i++ {
		r := rune(stem[i])
		if utf16.IsSurrogate(r) && i+1 < len(stem) {
			if pair := utf16.DecodeRune(r, rune(stem[i+1])); pair != utf8.RuneError {
				r = pair
				i++
			}
		}
		b = utf8.AppendRune(b, r)
	}
	return b, wide
}

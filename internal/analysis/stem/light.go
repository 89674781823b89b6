package stem

import "unicode"

// suffix is a rule of a light stemmer: a word of more than min characters that ends in end loses its last cut characters
// and gets add. Then the search ends, unless more is set; next is tried on the result.
type suffix struct {
	min  int
	end  string
	cut  int
	add  string
	more bool
	next *suffix
}

// fits reports whether a rule applies to a word.
func (r *suffix) fits(w []rune) bool { return len(w) > r.min && endsIn(w, r.end) }

func (r *suffix) apply(w []rune) []rune {
	w = w[:len(w)-r.cut]
	for _, c := range r.add {
		w = append(w, c)
	}
	if r.next != nil && r.next.fits(w) {
		return r.next.apply(w)
	}
	return w
}

// applyFirst applies the rules in order, up to the first that fits and does not say more.
func applyFirst(rules []suffix, w []rune) []rune {
	for i := range rules {
		if r := &rules[i]; r.fits(w) {
			if w = r.apply(w); !r.more {
				break
			}
		}
	}
	return w
}

func endsIn(w []rune, end string) bool {
	n := 0
	for range end {
		n++
	}
	if len(w) < n {
		return false
	}
	i := len(w) - n
	for _, c := range end {
		if w[i] != c {
			return false
		}
		i++
	}
	return true
}

func oneOf(c rune, set string) bool {
	for _, s := range set {
		if s == c {
			return true
		}
	}
	return false
}

// plainVowels replaces à, á, â, ä and their like of every vowel.
func plainVowels(w []rune) {
	for i, c := range w {
		switch {
		case oneOf(c, "àáâä"):
			w[i] = 'a'
		case oneOf(c, "èéêë"):
			w[i] = 'e'
		case oneOf(c, "ìíîï"):
			w[i] = 'i'
		case oneOf(c, "òóôö"):
			w[i] = 'o'
		case oneOf(c, "ùúûü"):
			w[i] = 'u'
		}
	}
}

// frenchSuffixes are the endings of French nouns, adjectives and some verbs, the longest of a kind first.
var frenchSuffixes = []suffix{
	{min: 9, end: "issement", cut: 7, add: "r"},
	{min: 8, end: "issant", cut: 5, add: "r"},
	{min: 6, end: "ement", cut: 4, next: &suffix{min: 3, end: "ive", cut: 2, add: "f"}},
	{min: 11, end: "ficatrice", cut: 7, add: "er"},
	{min: 10, end: "ficateur", cut: 6, add: "er"},
	{min: 9, end: "catrice", cut: 7, add: "quer"},
	{min: 8, end: "cateur", cut: 6, add: "quer"},
	{min: 8, end: "atrice", cut: 6, add: "er"},
	{min: 7, end: "ateur", cut: 5, add: "er"},
	{min: 6, end: "trice", cut: 4, add: "eur", more: true},
	{min: 5, end: "ième", cut: 4},
	{min: 7, end: "teuse", cut: 3, add: "r"},
	{min: 6, end: "teur", cut: 2, add: "r"},
	{min: 5, end: "euse", cut: 2},
	{min: 8, end: "ère", cut: 3, add: "er"},
	{min: 7, end: "ive", cut: 2, add: "f"},
	{min: 4, end: "folle", cut: 3, add: "u"},
	{min: 4, end: "molle", cut: 3, add: "u"},
	{min: 9, end: "nnelle", cut: 5},
	{min: 9, end: "nnel", cut: 3},
	{min: 4, end: "ète", cut: 3, add: "et", more: true},
	{min: 8, end: "ique", cut: 4, more: true},
	{min: 8, end: "esse", cut: 3},
	{min: 7, end: "inage", cut: 3},
	{min: 9, end: "isation", cut: 7, next: &suffix{min: 5, end: "ual", cut: 2, add: "el"}},
	{min: 9, end: "isateur", cut: 7},
	{min: 8, end: "ation", cut: 5},
	{min: 8, end: "ition", cut: 5},
}

// lightFrench takes off the plural, then one ending, then what distinguishes the forms of longer words.
func lightFrench(w []rune) []rune {
	if n := len(w); n > 5 && w[n-1] == 'x' {
		if w[n-3] == 'a' && w[n-2] == 'u' && w[n-4] != 'e' {
			w[n-2] = 'l' // chevaux, but not bateaux
		}
		w = w[:n-1]
	}
	for _, c := range "xs" {
		if n := len(w); n > 3 && w[n-1] == c {
			w = w[:n-1]
		}
	}
	w = applyFirst(frenchSuffixes, w)
	if len(w) > 4 {
		for i, c := range w {
			switch {
			case oneOf(c, "àáâ"):
				w[i] = 'a'
			case c == 'ô':
				w[i] = 'o'
			case oneOf(c, "èéê"):
				w[i] = 'e'
			case oneOf(c, "ùû"):
				w[i] = 'u'
			case c == 'î':
				w[i] = 'i'
			case c == 'ç':
				w[i] = 'c'
			}
		}
		// A doubled letter counts once.
		kept := w[:1]
		for _, c := range w[1:] {
			if c != kept[len(kept)-1] || !unicode.IsLetter(c) {
				kept = append(kept, c)
			}
		}
		w = kept
	}
	if len(w) > 4 && endsIn(w, "ie") {
		w = w[:len(w)-2]
	}
	if len(w) > 4 {
		for _, c := range "ree" {
			if n := len(w); w[n-1] == c {
				w = w[:n-1]
			}
		}
		w = undouble(w)
	}
	return w
}

// undouble takes off the last letter where it stands twice.
func undouble(w []rune) []rune {
	if n := len(w); n >= 2 && w[n-1] == w[n-2] && unicode.IsLetter(w[n-1]) {
		return w[:n-1]
	}
	return w
}

// minimalFrench takes off plural, infinitive and participle.
func minimalFrench(w []rune) []rune {
	if len(w) < 6 {
		return w
	}
	n := len(w)
	if w[n-1] == 'x' {
		if w[n-3] == 'a' && w[n-2] == 'u' {
			w[n-2] = 'l'
		}
		return w[:n-1]
	}
	for _, c := range "sreé" {
		if n := len(w); w[n-1] == c {
			w = w[:n-1]
		}
	}
	return undouble(w)
}

// lightGerman takes off one ending of declension, then one of comparison.
func lightGerman(w []rune) []rune {
	for i, c := range w {
		switch {
		case oneOf(c, "äàáâ"):
			w[i] = 'a'
		case oneOf(c, "öòóô"):
			w[i] = 'o'
		case oneOf(c, "ïìíî"):
			w[i] = 'i'
		case oneOf(c, "üùúû"):
			w[i] = 'u'
		}
	}
	// The consonants that an s or st may follow as an ending.
	const before = "bdfghklmnt"
	n := len(w)
	switch {
	case n > 5 && endsIn(w, "ern"):
		n -= 3
	case n > 4 && w[n-2] == 'e' && oneOf(w[n-1], "mnrs"):
		n -= 2
	case n > 3 && w[n-1] == 'e':
		n--
	case n > 3 && w[n-1] == 's' && oneOf(w[n-2], before):
		n--
	}
	w = w[:n]
	switch {
	case n > 5 && endsIn(w, "est"):
		n -= 3
	case n > 4 && w[n-2] == 'e' && oneOf(w[n-1], "rn"):
		n -= 2
	case n > 4 && endsIn(w, "st") && oneOf(w[n-3], before):
		n -= 2
	}
	return w[:n]
}

// lightSpanish takes off gender and plural.
func lightSpanish(w []rune) []rune {
	n := len(w)
	if n < 5 {
		return w
	}
	plainVowels(w)
	switch last := w[n-1]; {
	case oneOf(last, "oae"):
		return w[:n-1]
	case last != 's':
	case endsIn(w, "eses"):
		return w[:n-2]
	case endsIn(w, "ces"):
		w[n-3] = 'z' // voces, voz
		return w[:n-2]
	case oneOf(w[n-2], "oae"):
		return w[:n-2]
	}
	return w
}

// lightItalian takes off the last vowel with the i or h that belongs to it.
func lightItalian(w []rune) []rune {
	n := len(w)
	if n < 6 {
		return w
	}
	plainVowels(w)
	last, before := w[n-1], w[n-2]
	switch {
	case oneOf(last, "ei") && oneOf(before, "ih"), oneOf(last, "ao") && before == 'i':
		return w[:n-2]
	case oneOf(last, "eiao"):
		return w[:n-1]
	}
	return w
}

// The endings of Portuguese: those of number and the adverb first, then the feminine ones.
var (
	portugueseSuffixes = []suffix{
		{min: 4, end: "res", cut: 2}, {min: 4, end: "ses", cut: 2}, {min: 4, end: "les", cut: 2}, {min: 4, end: "zes", cut: 2},
		{min: 3, end: "ns", cut: 2, add: "m"},
		{min: 4, end: "eis", cut: 3, add: "el"}, {min: 4, end: "éis", cut: 3, add: "el"},
		{min: 4, end: "ais", cut: 2, add: "l"},
		{min: 4, end: "óis", cut: 3, add: "ol"},
		{min: 4, end: "is", cut: 1, add: "l"},
		{min: 3, end: "ões", cut: 3, add: "ão"}, {min: 3, end: "ães", cut: 3, add: "ão"},
		{min: 6, end: "mente", cut: 5},
		{min: 3, end: "s", cut: 1},
	}
	portugueseFeminine = []suffix{
		{min: 7, end: "inha", cut: 1, add: "o"}, {min: 7, end: "iaca", cut: 1, add: "o"}, {min: 7, end: "eira", cut: 1, add: "o"},
		{min: 6, end: "osa", cut: 1, add: "o"}, {min: 6, end: "ica", cut: 1, add: "o"}, {min: 6, end: "ida", cut: 1, add: "o"},
		{min: 6, end: "ada", cut: 1, add: "o"}, {min: 6, end: "iva", cut: 1, add: "o"}, {min: 6, end: "ama", cut: 1, add: "o"},
		{min: 6, end: "ona", cut: 3, add: "ão"},
		{min: 6, end: "ora", cut: 1},
		{min: 6, end: "esa", cut: 3, add: "ês"},
		{min: 6, end: "na", cut: 1, add: "o"},
	}
)

// lightPortuguese takes off number, gender and the last vowel.
func lightPortuguese(w []rune) []rune {
	if len(w) < 4 {
		return w
	}
	w = applyFirst(portugueseSuffixes, w)
	if n := len(w); n > 3 && w[n-1] == 'a' {
		w = applyFirst(portugueseFeminine, w)
	}
	if n := len(w); n > 4 && oneOf(w[n-1], "eao") {
		w = w[:n-1]
	}
	plainVowels(w)
	for i, c := range w {
		switch c {
		case 'ã':
			w[i] = 'a'
		case 'õ':
			w[i] = 'o'
		case 'ç':
			w[i] = 'c'
		}
	}
	return w
}

// The affixes of light10.
var (
	arabicPrefixes = []string{"ال", "وال", "بال", "كال", "فال", "لل", "و"}
	arabicSuffixes = []string{"ها", "ان", "ات", "ون", "ين", "يه", "ية", "ه", "ة", "ي"}
)

// lightArabic takes off one prefix, then every suffix once, as long as two letters remain, or three behind a lone waw.
func lightArabic(w []rune) []rune {
	for _, p := range arabicPrefixes {
		r := []rune(p)
		least := len(r) + 2
		if len(r) == 1 {
			least = 4
		}
		if len(w) >= least && string(w[:len(r)]) == p {
			w = append(w[:0], w[len(r):]...)
			break
		}
	}
	for _, s := range arabicSuffixes {
		n := len(w)
		for range s {
			n--
		}
		if n >= 2 && endsIn(w, s) {
			w = w[:n]
		}
	}
	return w
}

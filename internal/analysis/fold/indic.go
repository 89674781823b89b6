package fold

import (
	"unicode/utf8"

	"github.com/blevesearch/bleve/v2/analysis"
	"github.com/blevesearch/bleve/v2/analysis/lang/in"
)

// NewIndic gives the fold that writes each letter of the scripts of India by one character where Unicode also has it in
// pieces, as Lucene's IndicNormalizationFilter does; the module bleve carries it, and allocates for each word in such a
// script. It belongs to one goroutine.
func NewIndic() Fold {
	filter := in.NewIndicNormalizeFilter()
	token := new(analysis.Token)
	stream := analysis.TokenStream{token}
	return func(dst, word []byte) []byte {
		if !isIndic(word) {
			return append(dst, word...)
		}
		token.Term = append(token.Term[:0], word...)
		return append(dst, filter.Filter(stream)[0].Term...)
	}
}

// isIndic reports whether a valid word has a character from Devanagari to Malayalam.
func isIndic(word []byte) bool {
	found := false
	for i := 0; i < len(word); {
		r, w := utf8.DecodeRune(word[i:])
		if r == utf8.RuneError && w <= 1 {
			return false
		}
		found = found || r >= 0x900 && r <= 0xd7f
		i += w
	}
	return found
}

// hindiLetters maps letters that Hindi texts use for each other to one of them, 0 to nothing: long vowels to short ones,
// letters with a dot below to those without, the chandrabindu to the bindu.
var hindiLetters = map[rune]rune{
	0x901: 0x902,
	0x93c: 0, 0x94d: 0, 0x200c: 0, 0x200d: 0,
	0x929: 0x928, 0x931: 0x930, 0x934: 0x933, 0x958: 0x915, 0x959: 0x916, 0x95a: 0x917, 0x95b: 0x91c, 0x95c: 0x921, 0x95d: 0x922, 0x95e: 0x92b, 0x95f: 0x92f,
	0x945: 0x947, 0x946: 0x947, 0x949: 0x94b, 0x94a: 0x94b, 0x90d: 0x90f, 0x90e: 0x90f, 0x911: 0x913, 0x912: 0x913, 0x972: 0x905,
	0x906: 0x905, 0x908: 0x907, 0x90a: 0x909, 0x960: 0x90b, 0x961: 0x90c, 0x910: 0x90f, 0x914: 0x913,
	0x940: 0x93f, 0x942: 0x941, 0x944: 0x943, 0x963: 0x962, 0x948: 0x947, 0x94c: 0x94b,
}

// Hindi writes what Hindi spells in several ways in one, as Lucene's HindiNormalizationFilter does (L. S. Larkey, M. E. Connell,
// N. Abduljaleel: "Hindi CLIR in thirty days", 2003). A dead n (na with a virama) becomes the bindu.
func Hindi(dst, word []byte) []byte {
	const na, virama, bindu = 0x928, "\u094d", 0x902
	for i := 0; i < len(word); {
		r, w := utf8.DecodeRune(word[i:])
		if r == utf8.RuneError && w <= 1 {
			dst = append(dst, word[i])
			i++
			continue
		}
		i += w
		if r == na && len(word)-i >= len(virama) && string(word[i:i+len(virama)]) == virama {
			dst = utf8.AppendRune(dst, bindu)
			i += len(virama)
			continue
		}
		if to, ok := hindiLetters[r]; ok {
			if to == 0 {
				continue
			}
			r = to
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}

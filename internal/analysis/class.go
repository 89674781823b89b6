package analysis

import (
	"iter"
	"sync"
	"unicode"
	"unicode/utf8"
)

// class is what word segmentation knows about a character: the property Word_Break of UAX #29, and where that is Other,
// what Lucene's grammar asks for.
type class uint8

const (
	cOther       class = iota
	cLetter            // ALetter
	cHebrew            // Hebrew_Letter
	cDigit             // Numeric
	cKatakana          // Katakana
	cJoin              // ExtendNumLet
	cMidLetter         // MidLetter
	cMidDigit          // MidNum
	cMidBoth           // MidNumLet
	cQuote             // Single_Quote
	cDoubleQuote       // Double_Quote
	cRegion            // Regional_Indicator
	cHan               // ideographs
	cHiragana
	cComplex // letters of scripts that only a dictionary can segment (Line_Break=Complex_Context)
	cEmoji   // Extended_Pictographic
	cKeyCap  // # and *
	// The rest belongs to the character before it (WB4).
	cMark        // Extend and Format
	cComplexMark // Extend in a script of cComplex
	cJoiner      // ZWJ
	cModifier    // Emoji_Modifier
)

func (c class) ignored() bool { return c >= cMark }

func (c class) alphabetic() bool { return c == cLetter || c == cHebrew }

// asciiClass holds the classes of ASCII.
var asciiClass = func() (t [utf8.RuneSelf]class) {
	for c := range t {
		switch k := asciiKind[c]; {
		case k&(aUpper|aLower) != 0:
			t[c] = cLetter
		case k&aDigit != 0:
			t[c] = cDigit
		case k == aJoin:
			t[c] = cJoin
		case k == aKeyCap:
			t[c] = cKeyCap
		}
	}
	t['\''], t['"'], t['.'], t[':'] = cQuote, cDoubleQuote, cMidBoth, cMidLetter
	t[','], t[';'] = cMidDigit, cMidDigit
	return t
}()

// classTable maps characters to classes in two steps: a page of 256, then a place in it.
type classTable struct {
	page  [(unicode.MaxRune + 1) >> 8]uint16
	pages [][256]class
}

func (t *classTable) of(r rune) class { return t.pages[t.page[r>>8]][r&0xff] }

// unicodeClasses derives the classes from Unicode's general properties, as UAX #29 table 3 defines them. Later rules
// override earlier ones.
var unicodeClasses = sync.OnceValue(func() *classTable {
	flat := make([]class, unicode.MaxRune+1)
	set := func(c class, tables ...*unicode.RangeTable) {
		for r := range characters(tables) {
			flat[r] = c
		}
	}
	spans := func(c class, bounds ...rune) {
		for i := 0; i < len(bounds); i += 2 {
			for r := bounds[i]; r <= bounds[i+1]; r++ {
				flat[r] = c
			}
		}
	}
	// only narrows a class to what also lies in other tables.
	only := func(c class, in *unicode.RangeTable, tables ...*unicode.RangeTable) {
		for r := range characters(tables) {
			if unicode.Is(in, r) {
				flat[r] = c
			}
		}
	}

	spans(cEmoji, pictographs...)
	set(cLetter, unicode.L, unicode.Nl, unicode.Other_Alphabetic)
	spans(cLetter, lettersByName...)
	only(cHebrew, unicode.L, unicode.Hebrew)
	set(cOther, unicode.Ideographic)
	only(cHan, unicode.Ideographic, unicode.Han)
	for r := range characters([]*unicode.RangeTable{unicode.Han}) {
		if flat[r] == cOther {
			flat[r] = cHan // radicals and marks
		}
	}
	set(cHiragana, unicode.Hiragana)
	set(cKatakana, unicode.Katakana)
	spans(cKatakana, 0x3031, 0x3035, 0x309b, 0x309c, 0x30a0, 0x30a0, 0x30fc, 0x30fc, 0xff70, 0xff70)
	set(cDigit, unicode.Nd)
	spans(cDigit, 0x066b, 0x066b, 0x0600, 0x0605, 0x06dd, 0x06dd, 0x08e2, 0x08e2, 0x0890, 0x0891, 0x110bd, 0x110bd, 0x110cd, 0x110cd)
	set(cMark, unicode.M, unicode.Other_Grapheme_Extend)
	only(cComplex, unicode.L, complexScripts...)
	only(cComplexMark, unicode.M, complexScripts...)
	prepended := map[rune]class{}
	for _, r := range []rune{0x0600, 0x0601, 0x0602, 0x0603, 0x0604, 0x0605, 0x06dd, 0x070f, 0x08e2, 0x0890, 0x0891, 0x110bd, 0x110cd} {
		prepended[r] = flat[r]
	}
	set(cMark, unicode.Cf)
	for r, c := range prepended {
		flat[r] = c
	}
	flat[0x200b] = cOther // ZERO WIDTH SPACE separates
	flat[0x200d] = cJoiner
	spans(cModifier, 0x1f3fb, 0x1f3ff)
	spans(cRegion, 0x1f1e6, 0x1f1ff)
	set(cJoin, unicode.Pc)
	spans(cJoin, 0x202f, 0x202f)
	for c, rs := range map[class][]rune{
		cMidLetter: {0xb7, 0x387, 0x55f, 0x5f4, 0x2027, 0xfe13, 0xfe55, 0xff1a},
		cMidDigit:  {0x37e, 0x589, 0x60c, 0x60d, 0x66c, 0x7f8, 0x2044, 0xfe10, 0xfe14, 0xfe50, 0xfe54, 0xff0c, 0xff1b},
		cMidBoth:   {0x2018, 0x2019, 0x2024, 0xfe52, 0xff07, 0xff0e},
	} {
		for _, r := range rs {
			flat[r] = c
		}
	}
	copy(flat, asciiClass[:])

	t := &classTable{}
	seen := map[[256]class]uint16{}
	for p := range t.page {
		page := [256]class(flat[p<<8 : p<<8+256])
		n, ok := seen[page]
		if !ok {
			n = uint16(len(t.pages))
			seen[page] = n
			t.pages = append(t.pages, page)
		}
		t.page[p] = n
	}
	return t
})

// characters yields every character of the tables.
func characters(tables []*unicode.RangeTable) iter.Seq[rune] {
	return func(yield func(rune) bool) {
		for _, t := range tables {
			for _, r := range t.R16 {
				for x := rune(r.Lo); x <= rune(r.Hi); x += rune(r.Stride) {
					if !yield(x) {
						return
					}
				}
			}
			for _, r := range t.R32 {
				for x := rune(r.Lo); x <= rune(r.Hi); x += rune(r.Stride) {
					if !yield(x) {
						return
					}
				}
			}
		}
	}
}

// complexScripts have the line break class SA.
var complexScripts = []*unicode.RangeTable{unicode.Thai, unicode.Lao, unicode.Myanmar, unicode.Khmer, unicode.Tai_Le, unicode.New_Tai_Lue,
	unicode.Tai_Tham, unicode.Tai_Viet, unicode.Ahom}

// lettersByName are characters that UAX #29 lists as ALetter although they are not alphabetic, as pairs of first and last.
var lettersByName = []rune{0x2c2, 0x2c5, 0x2d2, 0x2d7, 0x2de, 0x2df, 0x2e5, 0x2eb, 0x2ed, 0x2ed, 0x2ef, 0x2ff, 0x55a, 0x55c, 0x55e, 0x55e, 0x58a, 0x58a,
	0x5f3, 0x5f3, 0x70f, 0x70f, 0xa708, 0xa716, 0xa720, 0xa721, 0xa789, 0xa78a, 0xab5b, 0xab5b}

// pictographs are the characters with the property Extended_Pictographic, as pairs of first and last.
var pictographs = []rune{
	0xa9, 0xa9, 0xae, 0xae, 0x203c, 0x203c, 0x2049, 0x2049, 0x2122, 0x2122, 0x2139, 0x2139, 0x2194, 0x2199, 0x21a9, 0x21aa,
	0x231a, 0x231b, 0x2328, 0x2328, 0x2388, 0x2388, 0x23cf, 0x23cf, 0x23e9, 0x23f3, 0x23f8, 0x23fa, 0x24c2, 0x24c2, 0x25aa, 0x25ab,
	0x25b6, 0x25b6, 0x25c0, 0x25c0, 0x25fb, 0x25fe, 0x2600, 0x2605, 0x2607, 0x2612, 0x2614, 0x2685, 0x2690, 0x2705, 0x2708, 0x2712,
	0x2714, 0x2714, 0x2716, 0x2716, 0x271d, 0x271d, 0x2721, 0x2721, 0x2728, 0x2728, 0x2733, 0x2734, 0x2744, 0x2744, 0x2747, 0x2747,
	0x274c, 0x274c, 0x274e, 0x274e, 0x2753, 0x2755, 0x2757, 0x2757, 0x2763, 0x2767, 0x2795, 0x2797, 0x27a1, 0x27a1, 0x27b0, 0x27b0,
	0x27bf, 0x27bf, 0x2934, 0x2935, 0x2b05, 0x2b07, 0x2b1b, 0x2b1c, 0x2b50, 0x2b50, 0x2b55, 0x2b55, 0x3030, 0x3030, 0x303d, 0x303d,
	0x3297, 0x3297, 0x3299, 0x3299, 0x1f000, 0x1f0ff, 0x1f10d, 0x1f10f, 0x1f12f, 0x1f12f, 0x1f16c, 0x1f171, 0x1f17e, 0x1f17f,
	0x1f18e, 0x1f18e, 0x1f191, 0x1f19a, 0x1f1ad, 0x1f1e5, 0x1f201, 0x1f20f, 0x1f21a, 0x1f21a, 0x1f22f, 0x1f22f, 0x1f232, 0x1f23a,
	0x1f23c, 0x1f23f, 0x1f249, 0x1f3fa, 0x1f400, 0x1f53d, 0x1f546, 0x1f64f, 0x1f680, 0x1f6ff, 0x1f774, 0x1f77f, 0x1f7d5, 0x1f7ff,
	0x1f80c, 0x1f80f, 0x1f848, 0x1f84f, 0x1f85a, 0x1f85f, 0x1f888, 0x1f88f, 0x1f8ae, 0x1f8ff, 0x1f90c, 0x1f93a, 0x1f93c, 0x1f945,
	0x1f947, 0x1faff, 0x1fc00, 0x1fffd,
}

package fold

import (
	"errors"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/transform"
	"golang.org/x/text/unicode/norm"
)

// Form is a normal form of Unicode (UAX #15).
type Form uint8

// The normal forms. CaseFolded is NFKC after full case folding, less invisible characters, in the manner of
// NFKC_Casefold: ﬁ is fi, ß is ss, and a soft hyphen goes.
const (
	NFC Form = iota
	NFD
	NFKC
	NFKD
	CaseFolded
)

// NewNormal gives the fold into a normal form. It belongs to one goroutine.
func NewNormal(f Form) Fold {
	switch f {
	case NFC:
		return normalTo(norm.NFC)
	case NFD:
		return normalTo(norm.NFD)
	case NFKC:
		return normalTo(norm.NFKC)
	case NFKD:
		return normalTo(norm.NFKD)
	}
	return newFolder().caseFold
}

// NewICU gives a fold in the manner of ICU's folding filter: CaseFolded, then without marks, strokes and the like, with
// digits of any script as 0 to 9. É, e and ｅ are one letter, ø is o, and ٣ is 3. It belongs to one goroutine.
func NewICU() Fold { return newFolder().icu }

func newFolder() *folder { return &folder{fold: cases.Fold()} }

func normalTo(form norm.Form) Fold {
	f := new(folder)
	return func(dst, word []byte) []byte {
		if isASCII(word) {
			return append(dst, word...)
		}
		return f.normal(form, dst, word)
	}
}

// normal appends the normal form of a word, whatever stands in dst.
func (f *folder) normal(form norm.Form, dst, word []byte) []byte {
	for f.it.Init(form, word); !f.it.Done(); {
		dst = append(dst, f.it.Next()...)
	}
	return dst
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// folder holds the buffers between the steps.
type folder struct {
	it   norm.Iter
	fold cases.Caser
	a, b []byte
}

// full appends the full case folding of a word, whose length may grow threefold.
func (f *folder) full(dst, word []byte) []byte {
	n := len(dst)
	for need := 3*len(word) + utf8.UTFMax; ; need *= 2 {
		for cap(dst)-n < need {
			dst = append(dst[:cap(dst)], 0)
		}
		written, _, err := f.fold.Transform(dst[n:cap(dst)], word, true)
		if errors.Is(err, transform.ErrShortDst) {
			continue
		}
		if err != nil {
			return append(dst[:n], word...)
		}
		return dst[:n+written]
	}
}

func (f *folder) caseFold(dst, word []byte) []byte {
	if isASCII(word) {
		return Lowercase(dst, word)
	}
	f.a = f.normal(norm.NFKC, f.a[:0], word)
	// Folding can make what is not yet normal, and normal forms what is not yet folded; twice is enough for every character.
	for range 2 {
		f.b = f.full(f.b[:0], f.a)
		f.a = each(f.a[:0], f.b, visible)
		f.b = f.normal(norm.NFKC, f.b[:0], f.a)
		f.a, f.b = f.b, f.a
	}
	return append(dst, f.a...)
}

// visible removes the characters that Unicode says are ignored by default (DerivedCoreProperties), as far as they can stand
// in words.
func visible(r rune) rune {
	switch {
	case r < 0xad:
		return r
	case r == 0xad, r == 0x34f, r == 0x61c, r >= 0x115f && r <= 0x1160, r >= 0x17b4 && r <= 0x17b5, r >= 0x180b && r <= 0x180f,
		r >= 0x200b && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2060 && r <= 0x206f, r == 0x3164, r >= 0xfe00 && r <= 0xfe0f,
		r == 0xfeff, r == 0xffa0, r >= 0xfff0 && r <= 0xfff8, r >= 0x1bca0 && r <= 0x1bca3, r >= 0x1d173 && r <= 0x1d17a,
		r >= 0xe0000 && r <= 0xe0fff:
		return -1
	}
	return r
}

func (f *folder) icu(dst, word []byte) []byte {
	if isASCII(word) {
		return Lowercase(dst, word)
	}
	n := len(dst)
	dst = f.caseFold(dst, word)
	f.a = f.normal(norm.NFD, f.a[:0], dst[n:])
	f.b = each(f.b[:0], f.a, bare)
	f.a = f.normal(norm.NFC, f.a[:0], f.b)
	return append(dst[:n], f.a...)
}

// bare removes a mark, and the stroke or the like of a letter that has no decomposition.
func bare(r rune) rune {
	switch {
	case r < utf8.RuneSelf:
		return r
	case unicode.Is(unicode.Mn, r):
		return -1
	case unicode.Is(unicode.Nd, r):
		return digit(r)
	}
	switch r {
	case 'đ', 'ð':
		return 'd'
	case 'ħ':
		return 'h'
	case 'ı':
		return 'i'
	case 'ł':
		return 'l'
	case 'ø':
		return 'o'
	case 'ŧ':
		return 't'
	case 'ƀ':
		return 'b'
	case 'ǥ':
		return 'g'
	case 'ƶ':
		return 'z'
	}
	return r
}

package fold

import (
	"sync"
	"unicode/utf8"

	"github.com/blevesearch/bleve/v2/analysis/char/asciifolding"
)

// asciiBlocks are the stretches of Unicode in which characters have forms in ASCII.
var asciiBlocks = [...][2]rune{{0x80, 0x2af}, {0x1d00, 0x1dbf}, {0x1e00, 0x1eff}, {0x2000, 0x20ff}, {0x2100, 0x218f}, {0x2400, 0x27ff}, {0x2c60, 0x2c7f},
	{0x2e00, 0x2e7f}, {0xa700, 0xa7ff}, {0xfb00, 0xfb06}, {0xff00, 0xff5e}}

// asciiForms maps characters to their forms in ASCII, "" where there is none; a page is 256 characters.
var asciiForms = sync.OnceValue(func() *[256]*[256]string {
	var pages [256]*[256]string
	filter := asciifolding.New()
	for _, block := range asciiBlocks {
		for r := block[0]; r <= block[1]; r++ {
			s := string(r)
			to := string(filter.Filter([]byte(s)))
			if to == s {
				continue
			}
			if pages[r>>8] == nil {
				pages[r>>8] = new([256]string)
			}
			pages[r>>8][r&0xff] = to
		}
	}
	return &pages
})

// ASCII writes letters, digits and signs that have a form in ASCII in that form, and leaves the others: the table of
// Lucene's ASCIIFoldingFilter, as the module bleve carries it.
func ASCII(dst, word []byte) []byte {
	for i := 0; i < len(word); {
		c := word[i]
		if c < utf8.RuneSelf {
			dst = append(dst, c)
			i++
			continue
		}
		r, w := utf8.DecodeRune(word[i:])
		if r <= 0xffff && !(r == utf8.RuneError && w <= 1) {
			if page := asciiForms()[r>>8]; page != nil && page[r&0xff] != "" {
				dst = append(dst, page[r&0xff]...)
				i += w
				continue
			}
		}
		dst = append(dst, word[i:i+max(w, 1)]...)
		i += max(w, 1)
	}
	return dst
}

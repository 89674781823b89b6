package analysis

import (
	"unicode"
	"unicode/utf8"
)

// The scripts that cjk_bigram joins.
const (
	scriptHan = 1 << iota
	scriptHiragana
	scriptKatakana
	scriptHangul
	allScripts = scriptHan | scriptHiragana | scriptKatakana | scriptHangul
)

var scriptNames = []string{"han", "hiragana", "katakana", "hangul"}

// scriptOf is the script of a term all of whose characters, marks apart, belong to one of those above; 0 for others.
func scriptOf(term []byte) int {
	script := 0
	for i := 0; i < len(term); {
		if term[i] < utf8.RuneSelf {
			return 0
		}
		r, w := utf8.DecodeRune(term[i:])
		i += w
		one := 0
		switch {
		case r == 0x30fc || r == 0xff70 || unicode.Is(unicode.Katakana, r):
			one = scriptKatakana
		case unicode.Is(unicode.Han, r):
			one = scriptHan
		case unicode.Is(unicode.Hiragana, r):
			one = scriptHiragana
		case unicode.Is(unicode.Hangul, r):
			one = scriptHangul
		case unicode.Is(unicode.Mn, r) && script != 0:
			continue
		}
		if one == 0 || script != 0 && one != script {
			return 0
		}
		script = one
	}
	return script
}

// character is one of a run of Chinese, Japanese or Korean text: where it ends in the run, and its place in the text.
type character struct{ endInRun, start, end int }

// bigrams is the filter cjk_bigram: two characters each of a run of such text, where tokens stand next to each other, whatever
// token they belong to. A character alone stays, and so do all others if unigrams are wanted.
type bigrams struct {
	in       source
	scripts  int
	unigrams bool

	run     []byte
	chars   []character
	at      int // the next character
	alone   bool
	second  bool // the bigram behind a unigram is next
	current token
	pending bool // current is still to be looked at
	ended   bool
	lastEnd int
	inc     int // of the first token of the run
}

func (f *bigrams) reset(text string) {
	f.in.reset(text)
	f.pending, f.ended, f.lastEnd = false, false, -1
	f.clear()
}

func (f *bigrams) clear() {
	f.run, f.chars, f.at, f.second, f.alone = f.run[:0], f.chars[:0], 0, false, true
}

// emit puts out n characters from the next on.
func (f *bigrams) emit(t *token, n int) {
	from := 0
	if f.at > 0 {
		from = f.chars[f.at-1].endInRun
	}
	last := f.chars[f.at+n-1]
	t.term = append(t.term[:0], f.run[from:last.endInRun]...)
	t.inc, t.length, t.start, t.end, t.keyword = 1, 1, f.chars[f.at].start, last.end, false
	if f.inc > 0 {
		t.inc, f.inc = f.inc, 0
	}
}

func (f *bigrams) next(t *token) bool {
	for {
		if left := len(f.chars) - f.at; left > 1 {
			f.alone = false
			switch {
			case !f.unigrams:
				f.emit(t, 2)
				f.at++
			case !f.second:
				f.emit(t, 1)
				f.second = true
			default:
				f.emit(t, 2)
				t.inc, t.length = 0, 2
				f.at++
				f.second = false
			}
			return true
		}
		if !f.pending && !f.ended {
			f.pending = f.in.next(&f.current)
			f.ended = !f.pending
		}
		cjk := f.pending && scriptOf(f.current.term)&f.scripts != 0
		if cjk && (len(f.chars) == 0 || f.current.start == f.lastEnd && f.current.inc == 1) {
			f.add()
			continue
		}
		if len(f.chars) > f.at && (f.unigrams || f.alone) {
			f.emit(t, 1)
			f.at++
			return true
		}
		f.clear()
		switch {
		case cjk:
			f.add()
		case f.pending:
			f.pending = false
			t.copyFrom(&f.current)
			return true
		default:
			return false
		}
	}
}

// add appends the characters of the current token to the run. A mark belongs to the character before it.
func (f *bigrams) add() {
	c := &f.current
	f.pending = false
	f.lastEnd = c.end
	if len(f.chars) == 0 {
		f.inc = c.inc
	} else if f.at > 64 {
		f.shift()
	}
	base := len(f.run)
	exact := c.end-c.start == len(c.term)
	f.run = append(f.run, c.term...)
	for i := 0; i < len(c.term); {
		r, w := utf8.DecodeRune(c.term[i:])
		ch := character{base + i + w, c.start, c.end}
		if exact {
			ch.start, ch.end = c.start+i, c.start+i+w
		}
		if n := len(f.chars); i > 0 && unicode.Is(unicode.Mn, r) {
			f.chars[n-1].endInRun, f.chars[n-1].end = ch.endInRun, ch.end
		} else {
			f.chars = append(f.chars, ch)
		}
		i += w
	}
}

// shift forgets the characters that are done.
func (f *bigrams) shift() {
	from := f.chars[f.at-1].endInRun
	f.run = append(f.run[:0], f.run[from:]...)
	f.chars = append(f.chars[:0], f.chars[f.at:]...)
	for i := range f.chars {
		f.chars[i].endInRun -= from
	}
	f.at = 0
}

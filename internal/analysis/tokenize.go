package analysis

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"unicode"
	"unicode/utf8"
)

// standardTokens is the tokenizer standard: the words of the segmenter.
type standardTokens struct{ seg segmenter }

func (s *standardTokens) reset(text string) { s.seg.text, s.seg.at = text, 0 }

func (s *standardTokens) next(t *token) bool {
	start, end := s.seg.next()
	if end == 0 {
		return false
	}
	t.set(s.seg.text[start:end], 1, start, end)
	return true
}

// runTokens is the tokenizers letter and whitespace: runs of characters of one kind.
type runTokens struct {
	runs  runs
	ascii *[utf8.RuneSelf]bool
	in    func(r rune, w int) bool
}

func (s *runTokens) reset(text string) { s.runs.text, s.runs.at = text, 0 }

func (s *runTokens) next(t *token) bool {
	start, end := s.runs.next(s.ascii, s.in)
	if end == 0 {
		return false
	}
	t.set(s.runs.text[start:end], 1, start, end)
	return true
}

// wholeText is the tokenizer keyword.
type wholeText struct {
	text string
	done bool
}

func (s *wholeText) reset(text string) { s.text, s.done = text, text == "" }

func (s *wholeText) next(t *token) bool {
	if s.done {
		return false
	}
	s.done = true
	t.set(s.text, 1, 0, len(s.text))
	return true
}

// patternTokens is the tokenizer pattern: what stands between the matches of an expression, or one group of each match.
// Empty tokens are left out, and so are groups that take no part.
type patternTokens struct {
	re    *regexp.Regexp
	group int // -1: between the matches

	// lookBehind says that a match depends on what stands before it, as with \b and ^: then all matches of a text are
	// found at once, and otherwise some at a time.
	lookBehind bool

	text    string
	base    int     // where the matches at hand were looked for
	matches [][]int // relative to base
	ended   bool    // there are no more
	after   int     // the end of the last match
}

// matchesAtOnce is how many matches are looked for at a time; more than one, so that empty ones do not stand still.
const matchesAtOnce = 256

func (s *patternTokens) reset(text string) {
	s.text, s.base, s.after, s.matches, s.ended = text, 0, 0, nil, false
}

// more looks for more matches and reports whether there are any.
func (s *patternTokens) more() bool {
	if s.ended {
		return false
	}
	n := matchesAtOnce
	if s.lookBehind {
		n = -1
	}
	s.base = s.after
	s.matches = s.re.FindAllStringSubmatchIndex(s.text[s.base:], n)
	s.ended = len(s.matches) != n
	return len(s.matches) > 0
}

func (s *patternTokens) next(t *token) bool {
	for len(s.matches) > 0 || s.more() {
		m := s.matches[0]
		s.matches = s.matches[1:]
		start, end := s.after, s.base+m[0]
		if s.group >= 0 {
			start, end = s.base+m[2*s.group], s.base+m[2*s.group+1]
			if m[2*s.group] < 0 {
				end = start
			}
		}
		s.after = s.base + m[1]
		if start < end {
			t.set(s.text[start:end], 1, start, end)
			return true
		}
	}
	if start := s.after; s.group < 0 && start < len(s.text) {
		s.after = len(s.text)
		t.set(s.text[start:], 1, start, len(s.text))
		return true
	}
	return false
}

// looksBehind reports whether an expression has a part that depends on what stands before the place where it matches.
func looksBehind(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpBeginLine, syntax.OpBeginText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return true
	}
	return slices.ContainsFunc(re.Sub, looksBehind)
}

// The kinds of characters that n-gram tokenizers keep.
const (
	gramLetter = 1 << iota
	gramDigit
	gramWhitespace
	gramPunctuation
	gramSymbol
)

var gramKinds = []string{"letter", "digit", "whitespace", "punctuation", "symbol"}

// gramTokens is the tokenizers ngram and edge_ngram: the texts of least to most characters in every run of characters that
// are kept, by place and then by length. The edge form takes those at the beginning of a run only.
type gramTokens struct {
	least, most int
	edge        bool
	keep        int    // kinds of characters; 0 keeps all
	custom      []rune // further characters to keep

	text   string
	at     int // where the next run is looked for
	bounds bounds
	first  int // the character that grams begin with
	size   int // of the last gram
}

// bounds are the places between the characters of a run: the first is its beginning, the last its end.
type bounds []int

func (s *gramTokens) reset(text string) {
	s.text, s.at = text, 0
	s.bounds = s.bounds[:0]
}

func (s *gramTokens) kept(r rune, w int) bool {
	if s.keep == 0 && len(s.custom) == 0 {
		return true
	}
	for _, c := range s.custom {
		if c == r {
			return true
		}
	}
	if r == utf8.RuneError && w <= 1 {
		return false
	}
	return s.keep&gramLetter != 0 && unicode.IsLetter(r) || s.keep&gramDigit != 0 && unicode.Is(unicode.Nd, r) ||
		s.keep&gramWhitespace != 0 && !isNotSpace(r, w) || s.keep&gramPunctuation != 0 && unicode.IsPunct(r) ||
		s.keep&gramSymbol != 0 && unicode.IsSymbol(r)
}

// more makes the next window of the run at hand, or of the next run: the places that the grams of some characters need. So a
// run of any length takes little memory.
func (s *gramTokens) more() bool {
	const window = 1024
	if n := len(s.bounds); n > 0 {
		// Go on in the run: keep what later grams still need.
		s.bounds = append(s.bounds[:0], s.bounds[s.first:]...)
		s.first = 0
	} else {
		for {
			if s.at >= len(s.text) {
				return false
			}
			r, w := decode(s.text, s.at)
			if s.kept(r, w) {
				break
			}
			s.at += w
		}
		s.bounds = append(s.bounds[:0], s.at)
		s.first, s.size = 0, s.least-1
	}
	for len(s.bounds) < window+s.most && s.at < len(s.text) {
		r, w := decode(s.text, s.at)
		if !s.kept(r, w) {
			break
		}
		s.at += w
		s.bounds = append(s.bounds, s.at)
	}
	return true
}

func (s *gramTokens) next(t *token) bool {
	for {
		chars := len(s.bounds) - 1 - s.first // from the first on
		if chars <= s.most && len(s.bounds) > 0 && !s.edge && s.at < len(s.text) {
			if r, w := decode(s.text, s.at); s.kept(r, w) {
				s.more()
				continue
			}
		}
		if len(s.bounds) > 0 && s.size < s.most && s.size < chars {
			s.size++
			start, end := s.bounds[s.first], s.bounds[s.first+s.size]
			t.set(s.text[start:end], 1, start, end)
			return true
		}
		if len(s.bounds) > 0 && !s.edge && chars > s.least {
			s.first++
			s.size = s.least - 1
			continue
		}
		s.endRun()
		if !s.more() {
			return false
		}
	}
}

// endRun passes over what is left of the run.
func (s *gramTokens) endRun() {
	if len(s.bounds) == 0 {
		return
	}
	for s.at < len(s.text) {
		r, w := decode(s.text, s.at)
		if !s.kept(r, w) {
			break
		}
		s.at += w
	}
	s.bounds = s.bounds[:0]
}

// maxPath is the longest path that path_hierarchy puts out, in bytes.
const maxPath = 4096

// pathTokens is the tokenizer path_hierarchy: a path and the paths of what it lies in, all at one position. A path of more
// than maxPath bytes is left out.
type pathTokens struct {
	delimiter, replacement rune
	skip                   int
	reverse                bool

	text  string
	start int // of the paths; in reverse their common end
	at    int
	first bool
	done  bool
}

func (s *pathTokens) reset(text string) {
	s.text, s.first, s.done = text, true, text == ""
	s.at, s.start = 0, 0
	if s.done {
		return
	}
	if s.reverse {
		s.start = len(text)
		for range s.skip {
			if s.start = s.before(s.start); s.start <= 0 {
				s.done = true
				return
			}
		}
		if skip := s.start - maxPath; skip > 0 {
			// Begin with the first part that is not too long.
			for s.at < skip {
				s.at = s.after(s.at)
			}
			s.done = s.at >= s.start
		}
		return
	}
	for range s.skip {
		s.at = s.partEnd(s.at)
		if s.at >= len(text) {
			s.done = true
			return
		}
	}
	s.start = s.at
}

// partEnd is where the part that begins at i ends: at the next delimiter, apart from one that stands at i itself.
func (s *pathTokens) partEnd(i int) int {
	if r, w := decode(s.text, i); r == s.delimiter {
		i += w
	}
	for i < len(s.text) {
		r, w := decode(s.text, i)
		if r == s.delimiter {
			break
		}
		i += w
	}
	return i
}

// after is the place behind the next delimiter from i on.
func (s *pathTokens) after(i int) int {
	for i < len(s.text) {
		r, w := decode(s.text, i)
		i += w
		if r == s.delimiter {
			break
		}
	}
	return i
}

// before is the end of the path without the last part of what ends at i, its delimiter included.
func (s *pathTokens) before(i int) int {
	_, w := utf8.DecodeLastRuneInString(s.text[:i])
	for i -= w; i > 0; i -= w {
		var r rune
		if r, w = utf8.DecodeLastRuneInString(s.text[:i]); r == s.delimiter {
			break
		}
	}
	return i
}

func (s *pathTokens) next(t *token) bool {
	if s.done {
		return false
	}
	var start, end int
	if s.reverse {
		start, end = s.at, s.start
		s.at = s.after(s.at)
		s.done = s.at >= s.start
	} else {
		s.at = s.partEnd(s.at)
		start, end = s.start, s.at
		s.done = s.at >= len(s.text)
		if end-start > maxPath {
			s.done = true
			return false
		}
	}
	inc := 0
	if s.first {
		inc, s.first = 1, false
	}
	t.set("", inc, start, end)
	if s.replacement == s.delimiter {
		t.term = append(t.term, s.text[start:end]...)
		return true
	}
	for i := start; i < end; {
		r, w := decode(s.text, i)
		if r == s.delimiter {
			t.term = utf8.AppendRune(t.term, s.replacement)
		} else {
			t.term = append(t.term, s.text[i:i+w]...)
		}
		i += w
	}
	return true
}

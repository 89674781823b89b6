package analysis

import (
	"slices"
	"unicode"
	"unicode/utf8"
)

// The kinds of characters in which names are split. alpha is a letter without case.
const (
	partLower = 1 << iota
	partUpper
	partDigit
	partAlpha = partLower | partUpper
)

// partKind is the kind of a character, 0 for one that only separates.
func partKind(r rune, w int) int {
	switch {
	case r < utf8.RuneSelf:
		switch k := asciiKind[r]; {
		case k&aUpper != 0:
			return partUpper
		case k&aLower != 0:
			return partLower
		case k&aDigit != 0:
			return partDigit
		}
		return 0
	case r == utf8.RuneError && w <= 1:
		return 0
	case unicode.IsUpper(r):
		return partUpper
	case unicode.IsLower(r):
		return partLower
	case unicode.IsLetter(r), unicode.IsMark(r):
		return partAlpha
	case unicode.IsNumber(r):
		return partDigit
	}
	return 0
}

// splitter says where a name is split into parts.
type splitter struct {
	onCase     bool // fooBar into foo, Bar
	onAcronym  bool // HTTPServer into HTTP, Server
	onDigits   bool // v2 into v, 2
	possessive bool // the 's of dog's goes
}

// part is a piece of a name, in bytes.
type part struct {
	start, end int
	digits     bool // begins with a digit
}

// breaks reports whether a new part begins between two characters.
func (s *splitter) breaks(before, after int) bool {
	switch {
	case before&after != 0:
		return false
	case !s.onCase && before&partAlpha != 0 && after&partAlpha != 0:
		return false
	case before&partUpper != 0 && after&partAlpha != 0:
		return false // a capital begins the word
	case !s.onDigits && (before&partDigit != 0 && after&partAlpha != 0 || before&partAlpha != 0 && after&partDigit != 0):
		return false
	}
	return true
}

// split appends the parts of a name.
func (s *splitter) split(name []byte, parts []part) []part {
	for i := 0; i < len(name); {
		r, w := utf8.DecodeRune(name[i:])
		kind := partKind(r, w)
		if kind == 0 {
			i += w
			continue
		}
		p := part{start: i, digits: kind == partDigit}
		lastAt, last := i, kind // the last character
		capitals := kind == partUpper
		for i += w; i < len(name); i += w {
			r, w = utf8.DecodeRune(name[i:])
			if unicode.Is(unicode.Mn, r) {
				continue // a mark belongs to its letter
			}
			kind = partKind(r, w)
			if kind == 0 || s.breaks(last, kind) {
				break
			}
			if s.onCase && s.onAcronym && capitals && last == partUpper && kind == partLower && lastAt > p.start {
				i = lastAt
				break
			}
			capitals = kind == partUpper
			lastAt, last = i, kind
		}
		p.end = i
		parts = append(parts, p)
		if s.possessive && i+1 < len(name) && name[i] == '\'' && name[i+1]|0x20 == 's' && last&partAlpha != 0 {
			if r, w := utf8.DecodeRune(name[i+2:]); i+2 == len(name) || partKind(r, w) == 0 {
				i += 2
			}
		}
	}
	return parts
}

// codeTokens is the tokenizer code: the names in a program, whole or in parts. A name is letters, digits, marks, _ and $, with
// hyphens between letters and digits: camelCase, snake_case, kebab-case. A name has longest UTF-16 units at most.
type codeTokens struct {
	split    bool
	splitter splitter
	longest  int

	text  string
	at    int
	name  []byte
	start int // of the name
	parts []part
	head  int
}

func (s *codeTokens) reset(text string) {
	s.text, s.at = text, 0
	s.parts, s.head = s.parts[:0], 0
}

func inName(r rune, w int) bool { return r == '_' || r == '$' || partKind(r, w) != 0 }

func (s *codeTokens) next(t *token) bool {
	for {
		if s.head < len(s.parts) {
			p := s.parts[s.head]
			s.head++
			t.set(s.text[s.start+p.start:s.start+p.end], 1, s.start+p.start, s.start+p.end)
			return true
		}
		start, end, ok := s.nextName()
		if !ok {
			return false
		}
		if !s.split {
			t.set(s.text[start:end], 1, start, end)
			return true
		}
		s.start = start
		s.name = append(s.name[:0], s.text[start:end]...)
		s.parts, s.head = s.splitter.split(s.name, s.parts[:0]), 0
	}
}

// nextName finds the next name that holds a letter or a digit.
func (s *codeTokens) nextName() (start, end int, ok bool) {
	i := s.at
	for i < len(s.text) {
		r, w := decode(s.text, i)
		if !inName(r, w) {
			i += w
			continue
		}
		start = i
		units, any, last := 0, false, 0
		for i < len(s.text) {
			r, w := decode(s.text, i)
			kind := partKind(r, w)
			if r == '-' && last != 0 && i+1 < len(s.text) {
				if next, nw := decode(s.text, i+1); partKind(next, nw) == 0 {
					break
				}
			} else if !inName(r, w) {
				break
			}
			if units += unitsOf(r); units > s.longest {
				break
			}
			any, last = any || kind != 0, kind
			i += w
		}
		if any {
			s.at = i
			return start, i, true
		}
	}
	s.at = i
	return 0, 0, false
}

// maxDelimited is the longest token that word_delimiter_graph splits, in bytes. Longer ones pass as they are.
const maxDelimited = 1 << 16

// wordDelimiter is the filter word_delimiter_graph: the parts of a token as a graph of positions.
type wordDelimiter struct {
	in                           source
	splitter                     splitter
	words, numbers               bool // put out parts
	joinWords, joinNumbers, join bool // put out runs of parts as one term
	preserve                     bool // put out the token itself
	adjustOffsets                bool
	ignoreKeywords               bool
	protected                    map[string]bool

	current   token
	parts     []part
	items     []delimited
	positions []int
	queue     queue
	gap       int // positions of dropped tokens, and of the end of the last graph
}

// delimited is a term of the graph: parts from to before to.
type delimited struct {
	from, to int
	whole    bool // the token itself
}

func (f *wordDelimiter) reset(text string) {
	f.in.reset(text)
	f.queue.clear()
	f.gap = 0
}

func (f *wordDelimiter) next(t *token) bool {
	for !f.queue.take(t) {
		if !f.in.next(&f.current) {
			return false
		}
		f.expand()
	}
	return true
}

// expand fills the queue with the graph of the current token, or adds to the gap.
func (f *wordDelimiter) expand() {
	c := &f.current
	if len(c.term) > maxDelimited || f.protected[string(c.term)] || f.ignoreKeywords && c.keyword {
		f.emitWhole(1)
		return
	}
	f.parts = f.splitter.split(c.term, f.parts[:0])
	if len(f.parts) == 1 && f.parts[0].start == 0 && f.parts[0].end == len(c.term) && (f.parts[0].digits && f.numbers || !f.parts[0].digits && f.words || f.preserve) {
		f.emitWhole(1)
		return
	}
	f.items = f.items[:0]
	n := len(f.parts)
	add := func(from, to int) { f.items = append(f.items, delimited{from: from, to: to}) }
	for i, p := range f.parts {
		generated := p.digits && f.numbers || !p.digits && f.words
		if generated {
			add(i, i+1)
		}
		if i == 0 || f.parts[i-1].digits != p.digits {
			end := i + 1
			for end < n && f.parts[end].digits == p.digits {
				end++
			}
			if (p.digits && f.joinNumbers || !p.digits && f.joinWords) && (end > i+1 || !generated) {
				add(i, end)
			}
		}
	}
	if f.join && n > 0 && !slices.Contains(f.items, delimited{from: 0, to: n}) {
		add(0, n)
	}
	if f.preserve {
		f.items = append(f.items, delimited{from: 0, to: max(n, 1), whole: true})
	}
	if len(f.items) == 0 {
		f.gap += c.inc
		return
	}
	// By place; at one place the token itself, then the longest first.
	slices.SortStableFunc(f.items, func(a, b delimited) int {
		switch {
		case a.from != b.from:
			return a.from - b.from
		case a.whole != b.whole:
			if a.whole {
				return -1
			}
			return 1
		}
		return b.to - a.to
	})
	f.emit(n)
}

// emitWhole passes the token on.
func (f *wordDelimiter) emitWhole(length int) {
	t := f.queue.add()
	t.copyFrom(&f.current)
	t.inc += f.gap
	t.length = length
	f.gap = 0
}

// emit queues the items. Only the places where an item begins or ends are positions.
func (f *wordDelimiter) emit(n int) {
	c := &f.current
	// position of each place between parts, counted among those in use.
	at := slices.Grow(f.positions[:0], n+2)[:max(n, 1)+1]
	f.positions = at
	clear(at)
	for _, it := range f.items {
		at[it.from], at[it.to] = 1, 1
	}
	used := -1
	for place := range at {
		used += at[place]
		at[place] = used
	}
	exact := f.adjustOffsets && c.end-c.start == len(c.term)
	last := 0
	for i, it := range f.items {
		t := f.queue.add()
		t.length = at[it.to] - at[it.from]
		t.keyword = c.keyword
		t.start, t.end = c.start, c.end
		if it.whole {
			t.term = append(t.term, c.term...)
		} else {
			for _, p := range f.parts[it.from:it.to] {
				t.term = append(t.term, c.term[p.start:p.end]...)
			}
			if exact {
				t.start, t.end = c.start+f.parts[it.from].start, c.start+f.parts[it.to-1].end
			}
		}
		t.inc = at[it.from] - last
		if i == 0 {
			t.inc = c.inc + f.gap
		}
		last = at[it.from]
	}
	f.gap = used - last - 1 // the next token stands behind the graph
}

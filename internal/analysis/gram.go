package analysis

import "unicode/utf8"

// grams is the filters ngram and edge_ngram: parts of least to most characters of each term, all at its position and with its
// offsets. Where none is as short as that, nothing is put out but a gap, or the term itself if it is to be preserved.
type grams struct {
	in          source
	least, most int
	edge        bool // only those at the beginning
	back        bool // only those at the end
	preserve    bool

	current token
	bounds  bounds // between the characters of the term; empty when it is done
	first   int
	size    int
	inc     int
	whole   bool // the term itself is still to come
}

func (f *grams) reset(text string) {
	f.in.reset(text)
	f.bounds, f.inc, f.whole = f.bounds[:0], 0, false
}

func (f *grams) next(t *token) bool {
	for {
		if n := len(f.bounds) - 1; n >= 0 {
			for f.first+f.least <= n {
				if f.size == f.most || f.first+f.size == n {
					if f.edge {
						break
					}
					f.first++
					f.size = f.least - 1
					continue
				}
				f.size++
				from, to := f.bounds[f.first], f.bounds[f.first+f.size]
				if f.back {
					from, to = f.bounds[n-f.size], f.bounds[n]
				}
				f.emit(t, from, to)
				return true
			}
			f.bounds = f.bounds[:0]
			if f.whole {
				f.whole = false
				f.emit(t, 0, len(f.current.term))
				return true
			}
		}
		if !f.in.next(&f.current) {
			return false
		}
		f.inc += f.current.inc
		f.bounds = append(f.bounds[:0], 0)
		for i := 0; i < len(f.current.term); {
			_, w := utf8.DecodeRune(f.current.term[i:])
			i += w
			f.bounds = append(f.bounds, i)
		}
		n := len(f.bounds) - 1
		f.first, f.size = 0, f.least-1
		f.whole = f.preserve && (n < f.least || n > f.most)
	}
}

// emit puts out a part of the term. The first part of a term takes the increment of the term and of those dropped before.
func (f *grams) emit(t *token, from, to int) {
	c := &f.current
	t.term = append(t.term[:0], c.term[from:to]...)
	t.inc, t.length, t.start, t.end, t.keyword = f.inc, c.length, c.start, c.end, c.keyword
	f.inc = 0
}

// shingles is the filter shingle: each token, and each run of least to most tokens as one term. Removed tokens take part as
// the filler, up to most-1 of them in a row; a shingle of nothing but fillers is not put out.
type shingles struct {
	in                source
	least, most       int
	unigrams          bool
	unigramsIfNone    bool // tokens of a text that is too short for a shingle
	separator, filler string

	window  queue // the tokens from the current one on, at most most of them
	held    token // behind the fillers that are to come
	isHeld  bool
	fillers int
	ended   bool
	size    int // of the next term at the current token
	here    bool
	none    bool // no shingle has been put out
	alone   bool // unigrams are put out because the text is short
	started bool
}

func (f *shingles) reset(text string) {
	f.in.reset(text)
	f.window.clear()
	f.isHeld, f.fillers, f.ended, f.here, f.none, f.alone, f.started = false, 0, false, false, true, false, false
}

// fill completes the window.
func (f *shingles) fill() {
	for f.window.len() < f.most {
		if f.fillers == 0 && !f.isHeld {
			if f.ended || !f.in.next(&f.held) {
				f.ended = true
				return
			}
			f.isHeld = true
			f.fillers = max(min(f.held.inc-1, f.most-1), 0)
		}
		t := f.window.add()
		if f.fillers > 0 {
			f.fillers--
			t.term = append(t.term, f.filler...)
			t.start, t.end = f.held.start, f.held.start
			t.keyword = true // marks a filler; tokens lose the mark
			continue
		}
		t.copyFrom(&f.held)
		t.keyword = false
		f.isHeld = false
	}
}

func (f *shingles) smallest() int {
	if f.unigrams || f.alone {
		return 1
	}
	return f.least
}

func (f *shingles) next(t *token) bool {
	for {
		if !f.started {
			f.started = true
			f.fill()
			f.begin()
		}
		if f.window.len() == 0 {
			return false
		}
		if f.size > f.most || f.size > f.window.len() {
			f.window.head++
			f.fill()
			f.begin()
			continue
		}
		size := f.size
		if f.size++; f.size < f.least {
			f.size = f.least
		}
		if f.emit(t, size) {
			return true
		}
	}
}

// begin starts with the terms at the first token of the window.
func (f *shingles) begin() {
	if f.unigramsIfNone && f.none && f.window.len() < f.least {
		f.alone = true
	}
	f.size, f.here = f.smallest(), false
}

// emit makes the term of the first size tokens of the window, unless all of them are fillers.
func (f *shingles) emit(t *token, size int) bool {
	filled := true
	t.term = t.term[:0]
	for i := range size {
		w := f.window.at(i)
		filled = filled && w.keyword
		if i > 0 {
			t.term = append(t.term, f.separator...)
		}
		t.term = append(t.term, w.term...)
	}
	if filled {
		return false
	}
	t.inc = 1
	if f.here {
		t.inc = 0
	}
	t.length, t.keyword = size, false
	t.start, t.end = f.window.at(0).start, f.window.at(size-1).end
	if size > 1 {
		f.none = false
	}
	f.here = true
	return true
}

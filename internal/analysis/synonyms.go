package analysis

import (
	"slices"

	"github.com/overlakedb/overlake/internal/analysis/synonym"
)

// synonyms is the filters synonym_graph and synonym: where the words of a phrase follow each other, what stands for the
// phrase is put out, and the phrase itself if it stays. The longest phrase wins, and the search goes on behind it.
//
// The graph form gives every phrase of more than one word positions of its own between the beginning and the end of the
// place, so that a phrase query over it matches what the rules say and nothing else:
//
//	fast wifi network, with wifi = wireless local network
//	position      1     2          3      4        5
//	              fast  wifi ───────────────────▸  network
//	                    wireless ▸ local ▸ network▸
//
// The flat form lays the words of a phrase over the words that it replaces, one by one, and those left over on what
// follows: right for an index without position lengths, but "fast wireless network" then matches too.
type synonyms struct {
	in   source
	set  *synonym.Set
	flat bool

	ahead queue // read, not yet decided
	out   queue
	ended bool
	later [][]string // flat: the words that belong to the next positions
	inc   int        // flat: the increment that is due
	start int        // flat: of the word at hand
	end   int
}

func (f *synonyms) reset(text string) {
	f.in.reset(text)
	f.ahead.clear()
	f.out.clear()
	f.ended, f.later, f.inc = false, f.later[:0], 0
}

// peek is the i-th token ahead, or nil behind the end.
func (f *synonyms) peek(i int) *token {
	for f.ahead.len() <= i {
		if f.ended {
			return nil
		}
		t := f.ahead.add()
		if !f.in.next(t) {
			f.ahead.tokens = f.ahead.tokens[:len(f.ahead.tokens)-1]
			f.ended = true
			return nil
		}
	}
	return f.ahead.at(i)
}

func (f *synonyms) next(t *token) bool {
	for !f.out.take(t) {
		if f.peek(0) == nil {
			if len(f.later) == 0 {
				return false
			}
			f.inc++ // behind the last word of the text
			f.putLater()
			continue
		}
		if words, o := f.match(); o == nil {
			f.pass()
		} else if f.flat {
			f.layFlat(words, o)
		} else {
			f.graph(words, o)
		}
	}
	return true
}

// match finds the longest phrase at the next token. Its words stand at positions in a row, one at each.
func (f *synonyms) match() (words int, o *synonym.Output) {
	state := int32(0)
	for i := 0; ; i++ {
		t := f.peek(i)
		if t == nil || i > 0 && t.inc != 1 || t.length > 1 {
			break
		}
		next, ok := f.set.Step(state, t.term)
		if !ok {
			break
		}
		state = next
		if out := f.set.Output(state); out != nil && (i == 0 && singles(out) || !f.stacked(i+1)) {
			words, o = i+1, out
		}
	}
	return words, o
}

// singles reports whether all that stands for a phrase is single words.
func singles(o *synonym.Output) bool {
	for _, p := range o.Phrases {
		if len(p) > 1 {
			return false
		}
	}
	return true
}

// stacked reports whether the i-th token ahead stands at the position of the one before.
func (f *synonyms) stacked(i int) bool {
	t := f.peek(i)
	return t != nil && t.inc == 0
}

// pass puts out the next token as it is.
func (f *synonyms) pass() {
	if f.flat {
		f.layFlat(1, nil)
		return
	}
	f.out.add().copyFrom(f.ahead.at(0))
	f.ahead.head++
}

// graph puts out the phrases and the words themselves as a graph: first the beginnings of all, then the rest of each.
func (f *synonyms) graph(words int, o *synonym.Output) {
	start, end := f.ahead.at(0).start, f.ahead.at(words-1).end
	inc := f.ahead.at(0).inc
	// The places inside, in the order of the paths.
	last := 1
	for _, p := range o.Phrases {
		last += len(p) - 1
	}
	if o.Keep {
		last += words - 1
	}
	place := 1
	begin := func(n int) *token {
		t := f.out.add()
		t.inc, inc = inc, 0
		t.length = last
		if n > 1 {
			t.length = place
			place += n - 1
		}
		return t
	}
	for _, p := range o.Phrases {
		t := begin(len(p))
		t.term = append(t.term, p[0]...)
		t.start, t.end = start, end
	}
	if o.Keep {
		t := begin(words)
		inc, length := t.inc, t.length
		t.copyFrom(f.ahead.at(0))
		t.inc, t.length = inc, length
	}
	place = 0
	rest := func(i, n int) *token {
		t := f.out.add()
		place++
		t.inc, t.length = 1, 1
		if i == n-1 {
			t.length = last - place
		}
		return t
	}
	for _, p := range o.Phrases {
		for i := 1; i < len(p); i++ {
			t := rest(i, len(p))
			t.term = append(t.term, p[i]...)
			t.start, t.end = start, end
		}
	}
	if o.Keep {
		for i := 1; i < words; i++ {
			t := rest(i, words)
			inc, length := t.inc, t.length
			t.copyFrom(f.ahead.at(i))
			t.inc, t.length = inc, length
		}
	}
	f.ahead.head += words
}

// layFlat puts out the positions of some words: at each the word itself if it stays, what the phrases have there, and what
// earlier phrases left over. A position of a phrase at which nothing stands is none. o is nil for a word that no rule is about.
func (f *synonyms) layFlat(words int, o *synonym.Output) {
	end := f.ahead.at(words - 1).end
	for i := range words {
		w := f.ahead.at(i)
		f.start, f.end = w.start, w.end
		// Positions of removed words before this one: what is left over stands there.
		for n := w.inc; n > 1; n-- {
			f.inc++
			f.putLater()
		}
		before := f.inc
		f.inc += min(w.inc, 1)
		keep := o == nil || o.Keep
		any := keep
		if keep {
			t := f.out.add()
			t.copyFrom(w)
			t.inc, f.inc = f.inc, 0
		}
		if o != nil {
			for _, p := range o.Phrases {
				if i < len(p) {
					t := f.put(p[i])
					if len(p) == 1 && keep {
						t.end, t.length = end, words
					}
					any = true
				}
			}
		}
		if w.inc > 0 && len(f.later) > 0 {
			f.putLater()
			any = true
		}
		if !any && i > 0 {
			f.inc = before
		}
	}
	if o != nil {
		for _, p := range o.Phrases {
			for i := words; i < len(p); i++ {
				for len(f.later) <= i-words {
					f.later = slices.Grow(f.later, 1)[:len(f.later)+1]
					f.later[len(f.later)-1] = f.later[len(f.later)-1][:0]
				}
				f.later[i-words] = append(f.later[i-words], p[i])
			}
		}
	}
	f.ahead.head += words
}

// put puts out a word with the increment that is due.
func (f *synonyms) put(word string) *token {
	t := f.out.add()
	t.term = append(t.term, word...)
	t.inc, f.inc = f.inc, 0
	t.start, t.end = f.start, f.end
	return t
}

// putLater puts out the words left over for this position.
func (f *synonyms) putLater() {
	if len(f.later) == 0 {
		return
	}
	first := f.later[0]
	for _, w := range first {
		f.put(w)
	}
	n := copy(f.later, f.later[1:])
	f.later[n] = first // for its memory
	f.later = f.later[:n]
}

package lex

import (
	"slices"
	"strings"
)

// Edit replaces the bytes Start to End of a text; it only inserts when they are equal.
type Edit struct {
	Start, End int
	New        string
}

// Sorted puts edits in the order in which they are made: by place, insertions at a place before what replaces the bytes
// there, and otherwise as they were given.
func Sorted(edits []Edit) []Edit {
	out := slices.Clone(edits)
	slices.SortStableFunc(out, func(a, b Edit) int {
		if a.Start != b.Start {
			return a.Start - b.Start
		}
		if (a.End == a.Start) != (b.End == b.Start) {
			return a.End - b.End
		}
		return 0
	})
	return out
}

// Splice applies edits, which may be given in any order; edits that only insert at one place keep their order. An edit
// inside another one is left out: what goes around it has replaced its place.
func Splice(text string, edits []Edit) string {
	var b strings.Builder
	at := 0
	for _, e := range Sorted(edits) {
		if e.Start < at {
			continue
		}
		b.WriteString(text[at:e.Start])
		b.WriteString(e.New)
		at = e.End
	}
	b.WriteString(text[at:])
	return b.String()
}

// Origin maps an offset of what Splice made back to the text before. An offset inside new text is told as the start of what
// it replaced; new text at the very start of the old belongs to what follows it.
func Origin(edits []Edit, offset int) int {
	grown, at := 0, 0 // how much longer the new text is so far, and how far the old one is used up
	for _, e := range Sorted(edits) {
		if e.Start < at {
			continue
		}
		start := e.Start + grown
		if offset < start {
			break
		}
		if offset < start+len(e.New) {
			if e.Start == 0 {
				return e.End
			}
			return e.Start
		}
		grown += len(e.New) - (e.End - e.Start)
		at = e.End
	}
	return offset - grown
}

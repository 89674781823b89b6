package search

import "hash/maphash"

// termTable counts in how many rows each term stands: an open-addressing hash table over an arena of bytes. Rows come one
// after another, each with a number of its own above 0.
type termTable struct {
	seed  maphash.Seed
	arena []byte
	terms []termEntry
	slots []uint32 // 0 is free, else 1 + index of terms
}

type termEntry struct {
	start, length uint32 // in arena
	rows          uint32
	last          uint32 // the row that counted last
}

// newTermTable returns an empty table.
func newTermTable() *termTable {
	return &termTable{seed: maphash.MakeSeed(), slots: make([]uint32, 1024)}
}

// size is the memory of the table in bytes.
func (t *termTable) size() int64 {
	return int64(cap(t.arena)) + int64(cap(t.terms))*16 + int64(cap(t.slots))*4
}

// find returns the slot of a term: the one that holds it, or the free one where it belongs.
func (t *termTable) find(term []byte) *uint32 {
	mask := uint64(len(t.slots) - 1)
	for h := maphash.Bytes(t.seed, term) & mask; ; h = (h + 1) & mask {
		slot := &t.slots[h]
		if *slot == 0 {
			return slot
		}
		e := &t.terms[*slot-1]
		if int(e.length) == len(term) && string(t.arena[e.start:e.start+e.length]) == string(term) {
			return slot
		}
	}
}

// add counts a term in a row.
func (t *termTable) add(term []byte, row uint32) {
	slot := t.find(term)
	if *slot == 0 {
		t.insert(slot, term, 1, row)
		return
	}
	if e := &t.terms[*slot-1]; e.last != row {
		e.last = row
		e.rows++
	}
}

func (t *termTable) insert(slot *uint32, term []byte, rows, row uint32) {
	start := len(t.arena)
	t.arena = append(t.arena, term...)
	t.terms = append(t.terms, termEntry{uint32(start), uint32(len(term)), rows, row})
	*slot = uint32(len(t.terms))
	if len(t.terms)*4 < len(t.slots)*3 {
		return
	}
	// Place every term again in twice the slots.
	t.slots = make([]uint32, 2*len(t.slots))
	mask := uint64(len(t.slots) - 1)
	for i, e := range t.terms {
		h := maphash.Bytes(t.seed, t.arena[e.start:e.start+e.length]) & mask
		for t.slots[h] != 0 {
			h = (h + 1) & mask
		}
		t.slots[h] = uint32(i + 1)
	}
}

// merge adds the counts of a table over other rows.
func (t *termTable) merge(o *termTable) {
	for _, e := range o.terms {
		term := o.arena[e.start : e.start+e.length]
		if slot := t.find(term); *slot == 0 {
			t.insert(slot, term, e.rows, 0)
		} else {
			t.terms[*slot-1].rows += e.rows
		}
	}
}

// rows is the number of rows that have a term.
func (t *termTable) rows(term string) int64 {
	if slot := t.find([]byte(term)); *slot != 0 {
		return int64(t.terms[*slot-1].rows)
	}
	return 0
}

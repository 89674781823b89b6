package bitmap

import (
	"bytes"
	"hash/maphash"
)

// internTable numbers keys, equal ones alike as long as it pays: it is a hash table of numbers with open addressing. Where
// most keys turn out to be new it gives up, and each posting has a key of its own.
type internTable struct {
	slots []uint32 // number + 1
	off   bool
}

var internSeed = maphash.MakeSeed()

// internTrial is the number of keys after which the table has to pay.
const internTrial = 1 << 14

// number returns the number of a key, adding it to the keys when it has none. So many postings came before.
func (t *internTable) number(keys *keyList, key []byte, postings int) uint64 {
	n := keys.len()
	if !t.off && n >= internTrial && n > postings/2 {
		*t = internTable{off: true}
	}
	if t.off {
		keys.add(key)
		return uint64(n)
	}
	if 2*n >= len(t.slots) {
		t.grow(keys)
	}
	mask := uint64(len(t.slots) - 1)
	for i := maphash.Bytes(internSeed, key) & mask; ; i = (i + 1) & mask {
		switch s := t.slots[i]; {
		case s == 0:
			t.slots[i] = uint32(n) + 1
			keys.add(key)
			return uint64(n)
		case bytes.Equal(keys.at(int(s-1)), key):
			return uint64(s - 1)
		}
	}
}

func (t *internTable) grow(keys *keyList) {
	t.slots = make([]uint32, max(1024, 2*len(t.slots)))
	mask := uint64(len(t.slots) - 1)
	for n := range keys.len() {
		i := maphash.Bytes(internSeed, keys.at(n)) & mask
		for t.slots[i] != 0 {
			i = (i + 1) & mask
		}
		t.slots[i] = uint32(n) + 1
	}
}

func (t *internTable) memory() int64 { return int64(len(t.slots)) * 4 }

func (t *internTable) reset() { *t = internTable{} }

package bitmap

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/overlakedb/overlake/internal/checksum"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/predicate"
)

// FuzzOpen gives Open anything, with the checksums made right, so that what lies behind them is reached too.
func FuzzOpen(f *testing.F) {
	for _, artifact := range goldens(f) {
		f.Add(artifact, true)
		f.Add(artifact, false)
	}
	f.Fuzz(func(t *testing.T, b []byte, mend bool) {
		b = slices.Clone(b)
		if n := len(b) - tailSize; mend && n >= 0 {
			tail := b[n:]
			dir := min(binary.LittleEndian.Uint64(tail), uint64(n))
			binary.LittleEndian.PutUint64(tail, dir)
			binary.LittleEndian.PutUint64(tail[8:], uint64(len(b)))
			binary.LittleEndian.PutUint32(tail[16:], checksum.Of(b[uint64(n)-dir:n]))
			binary.LittleEndian.PutUint32(tail[20:], formatVersion)
			binary.LittleEndian.PutUint32(tail[24:], checksum.Of(tail[:24]))
			copy(tail[28:], magic)
		}
		ctx := t.Context()
		r, err := Open(ctx, bytesSource(b), int64(len(b)))
		if err == nil {
			for i := range r.dir.sums {
				if mend {
					r.dir.sums[i] = checksum.Of(b[r.dir.offsets[i]:r.dir.offsets[i+1]])
				}
			}
			all := predicate.Ranges{{NoHi: true}}
			for _, keys := range []predicate.Ranges{all, {predicate.Point(r.dir.min)}, {{Lo: r.dir.min, LoOpen: true, Hi: r.dir.max, HiOpen: true}}} {
				least, most := r.Estimate(keys, true)
				if least > most {
					t.Fatalf("estimated %d to %d", least, most)
				}
				var n int64
				if n, err = r.Count(ctx, keys, true); err != nil {
					break
				}
				found, err := r.Find(ctx, keys, true)
				if err != nil {
					break
				}
				if found.Max() >= r.dir.rows || found.Len() > n {
					t.Fatalf("counted %d, found %d up to %d", n, found.Len(), found.Max())
				}
				for _, descending := range []bool{false, true} {
					if err = r.Walk(ctx, keys, descending, func([]byte, []int64) bool { return true }); err != nil {
						break
					}
				}
				if err == nil {
					if err = r.Firsts(ctx, keys, nil, func([]byte, int64) bool { return true }); err != nil {
						break
					}
				}
			}
			if err == nil {
				_, _, err = r.FirstNull(ctx)
			}
		}
		if err != nil && !errs.Is(err, errs.Corrupt) && !errs.Is(err, errs.Unsupported) {
			t.Fatalf("%v", err)
		}
	})
}

// FuzzBlock decodes anything as a block.
func FuzzBlock(f *testing.F) {
	for _, artifact := range goldens(f) {
		r, err := Open(f.Context(), bytesSource(artifact), int64(len(artifact)))
		if err != nil {
			f.Fatal(err)
		}
		d := r.dir
		for b := range d.blocks() {
			f.Add(artifact[d.offsets[b]:d.offsets[b+1]], d.keys[b], uint32(d.before[b+1]-d.before[b]), uint8(d.columns[0]))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, keys uint16, postings uint32, kind uint8) {
		const rows = 1 << 20
		b = pad(b)
		var bl block
		n := int(postings)
		last := uint64(0)
		found := 0
		err := bl.decodeOne(b, n, rows, func(lo, hi uint64) {
			if lo >= hi || hi > rows || found > 0 && lo < last {
				t.Fatalf("rows %d to %d after %d", lo, hi, last)
			}
			found += int(hi - lo)
			last = hi
		})
		if err == nil && found != n {
			t.Fatalf("%d rows of %d", found, n)
		}
		if bl.decodeKeys(b, int(keys), n, predicate.KeyKind(kind%uint8(predicate.Tuples+1))) != nil || bl.decodeCounts(b, int(keys)) != nil ||
			bl.decodeRows(b, int(keys), rows) != nil {
			return
		}
		var before []byte
		total := 0
		for i := range int(keys) {
			key := bl.keys.append(nil, i)
			if i > 0 && bytes.Compare(before, key) >= 0 {
				t.Fatalf("key %x after %x", key, before)
			}
			if at, found := bl.keys.search(key); at != i || !found {
				t.Fatalf("key %x is not found", key)
			}
			before = key
			r := bl.firsts[i]
			total += 1 + len(bl.others(i))
			for _, next := range bl.others(i) {
				if next <= r || next >= rows {
					t.Fatalf("row %d after %d", next, r)
				}
				r = next
			}
			if r >= rows {
				t.Fatalf("row %d", r)
			}
		}
		if total != n {
			t.Fatalf("%d rows of %d", total, n)
		}
	})
}

// FuzzList decodes anything as a list, and what was decoded comes back.
func FuzzList(f *testing.F) {
	f.Add([]byte{0, 6, 1, 2, 3, 4}, uint16(4))
	f.Add(appendList(nil, make([]uint64, 300)), uint16(300))
	f.Add(appendList(nil, []uint64{1 << 63, 0, 5, 5, 5}), uint16(5))
	f.Fuzz(func(t *testing.T, b []byte, n uint16) {
		v := make([]uint64, n)
		off, err := readList(v, pad(b), 0)
		if err != nil {
			return
		}
		if off > len(b) {
			t.Fatalf("the list ends at %d of %d", off, len(b))
		}
		again := make([]uint64, n)
		if _, err := readList(again, pad(appendList(nil, v)), 0); err != nil || !slices.Equal(v, again) {
			t.Fatalf("%v came back as %v, %v", v, again, err)
		}
	})
}

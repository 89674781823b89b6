package bloom

import (
	"encoding/binary"
	"io"
	"math"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/predicate"
)

// Builder makes an artifact. It holds the hashes of the different keys, and so knows how many there are before it makes the
// filter. Where these are too many for its memory it goes on with the largest filter that fits, which is folded to the
// size that is needed at the end. It is for one goroutine.
type Builder struct {
	kind   predicate.KeyKind
	fpr    float64
	memory int64
	err    error // why it cannot go on

	rows, nulls int64
	hashes      hashSet
	blocks      []block // once the hashes are too many
	last        uint64  // the hash before
	some        bool    // there was one

	words [1024]uint64
	key   []byte
}

const defaultMemory = 256 << 20

// The bounds of the share of wrong answers. With more than a half a filter says nothing; a millionth takes 50 bits a key.
const (
	minFPR = 1e-6
	maxFPR = 0.5
)

// NewBuilder makes a builder of a filter for keys of a kind that says yes wrongly in a share of fpr, of at most the given
// memory in bytes, of which 0 means 256 MiB.
func NewBuilder(fpr float64, kind predicate.KeyKind, memory int64) (*Builder, error) {
	const op = "bloom.build"
	if !(fpr >= minFPR && fpr <= maxFPR) {
		return nil, errs.Newf(errs.Invalid, op, "a false-positive rate of %v; it is %v to %v", fpr, minFPR, maxFPR)
	}
	if kind == predicate.NoKeys || kind >= predicate.Tuples {
		return nil, errs.Newf(errs.Invalid, op, "a column whose keys are of the kind %v cannot be indexed", kind)
	}
	if memory < 0 {
		return nil, errs.Newf(errs.Invalid, op, "a memory of %d bytes", memory)
	}
	if memory == 0 {
		memory = defaultMemory
	}
	return &Builder{kind: kind, fpr: fpr, memory: max(memory, minMemory)}, nil
}

// minMemory is what a builder takes in any case.
const minMemory = 64 << 10

// Add adds the values of arrays of the column.
func (b *Builder) Add(arrays ...arrow.Array) error {
	if b.err != nil {
		return b.err
	}
	keys := make([]predicate.KeyArray, len(arrays))
	for i, a := range arrays {
		k, err := predicate.KeysOf(a)
		if err != nil {
			return err
		}
		if k.Kind() != b.kind {
			return errs.Newf(errs.Invalid, "bloom.add", "the values are %v, whose keys are of the kind %v, not %v", a.DataType(), k.Kind(), b.kind)
		}
		keys[i] = k
	}
	for i := range keys {
		b.add(&keys[i])
	}
	return nil
}

func (b *Builder) add(k *predicate.KeyArray) {
	n := k.Len()
	b.rows += int64(n)
	nulls := k.MayHaveNulls()
	if b.kind.Width() == 8 {
		var key [8]byte
		for from := 0; from < n; from += len(b.words) {
			words := b.words[:min(len(b.words), n-from)]
			k.Words(words, from)
			for i, w := range words {
				if nulls && k.IsNull(from+i) {
					b.nulls++
					continue
				}
				binary.BigEndian.PutUint64(key[:], w)
				b.addHash(hashOf(key[:]))
			}
		}
		return
	}
	for i := range n {
		switch {
		case nulls && k.IsNull(i):
			b.nulls++
		case b.kind == predicate.Bytes:
			b.addHash(hashOf(k.Bytes(i)))
		default:
			b.key = k.Append(b.key[:0], i)
			b.addHash(hashOf(b.key))
		}
	}
}

func (b *Builder) addHash(hash uint64) {
	if b.some && hash == b.last {
		return
	}
	b.last, b.some = hash, true
	if b.blocks != nil {
		b.blocks[place(hash, len(b.blocks))].add(hash)
		return
	}
	if b.hashes.full() && b.hashes.grown() > b.memory/2 {
		b.blocks = make([]block, 1<<(bits.Len64(uint64(b.memory/2/blockBytes))-1))
		b.hashes.each(func(hash uint64) { b.blocks[place(hash, len(b.blocks))].add(hash) })
		b.hashes = hashSet{}
		b.blocks[place(hash, len(b.blocks))].add(hash)
		return
	}
	b.hashes.add(hash)
}

// Fits tells whether Finish can make a filter with the share of wrong answers asked for: Exhausted when the keys are too
// many for the memory.
func (b *Builder) Fits() error {
	if b.blocks == nil {
		return nil
	}
	if r := rate(float64(estimate(b.blocks)) / float64(len(b.blocks))); r > b.fpr {
		return errs.New(errs.Exhausted, "bloom.finish", "the memory is too small for a filter with this rate of false positives",
			errs.Hint("give the build more memory, or allow more false positives"))
	}
	return nil
}

// Finish writes the artifact of a column of the given number of rows. The builder is spent.
func (b *Builder) Finish(out io.Writer, rows int64) (Stats, error) {
	const op = "bloom.finish"
	if b.err != nil {
		return Stats{}, b.err
	}
	if rows < b.rows {
		return Stats{}, errs.Newf(errs.Invalid, op, "%d rows, when %d were added", rows, b.rows)
	}
	if err := b.Fits(); err != nil {
		return Stats{}, err
	}
	b.err = errs.New(errs.Invalid, op, "the filter was written already")
	h := head{kind: b.kind, rows: rows, nulls: b.nulls}
	blocks := b.blocks
	b.blocks = nil
	if blocks == nil {
		h.distinct = b.hashes.len()
		n := int(math.Ceil(float64(h.distinct) / loadFor(b.fpr)))
		if n > maxBlocks {
			return Stats{}, errs.Newf(errs.Unsupported, op, "%d different values are too many for a filter", h.distinct)
		}
		blocks = make([]block, n)
		b.hashes.each(func(hash uint64) { blocks[place(hash, n)].add(hash) })
		b.hashes = hashSet{}
	} else {
		h.distinct = estimate(blocks)
		for len(blocks) > 1 && rate(float64(h.distinct)/float64(len(blocks)/2)) <= b.fpr {
			blocks = fold(blocks)
		}
	}
	h.blocks = len(blocks)
	return h.write(out, blocks)
}

// fold halves a filter whose number of blocks is a power of two: keys of neighbours fall into one block.
func fold(blocks []block) []block {
	half := blocks[:len(blocks)/2]
	for i := range half {
		a, b := blocks[2*i], blocks[2*i+1]
		for j := range a {
			half[i][j] = a[j] | b[j]
		}
	}
	return half
}

// estimate is the number of keys that set as many bits as are set. In a block with i keys a word has 32·(1-(31/32)^i) bits,
// so i follows from the bits, block by block.
func estimate(blocks []block) int64 {
	log := math.Log(31.0 / 32)
	var keys [257]float64 // by the bits of a block
	for set := range keys {
		free := math.Max(1-float64(set)/256, 1.0/1024)
		keys[set] = math.Log(free) / log
	}
	sum := 0.0
	for i := range blocks {
		set := 0
		for _, w := range blocks[i] {
			set += bits.OnesCount32(w)
		}
		sum += keys[set]
	}
	return int64(math.Round(sum))
}

// hashSet is a set of hashes: a table with open addressing, in which 0 is a free place.
type hashSet struct {
	slots []uint64
	n     int
	zero  bool // 0 is in the set
}

// full tells whether the table must grow before another hash.
func (s *hashSet) full() bool { return 4*(s.n+1) > 3*len(s.slots) }

// grown is how many bytes growing takes, with those of the table before it.
func (s *hashSet) grown() int64 { return int64(max(1024, 2*len(s.slots))+len(s.slots)) * 8 }

func (s *hashSet) len() int64 {
	if s.zero {
		return int64(s.n) + 1
	}
	return int64(s.n)
}

func (s *hashSet) add(hash uint64) {
	if hash == 0 {
		s.zero = true
		return
	}
	if s.full() {
		old := s.slots
		s.slots, s.n = make([]uint64, max(1024, 2*len(old))), 0
		for _, h := range old {
			if h != 0 {
				s.put(h)
			}
		}
	}
	s.put(hash)
}

func (s *hashSet) put(hash uint64) {
	mask := uint64(len(s.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		switch s.slots[i] {
		case hash:
			return
		case 0:
			s.slots[i] = hash
			s.n++
			return
		}
	}
}

func (s *hashSet) each(visit func(hash uint64)) {
	if s.zero {
		visit(0)
	}
	for _, h := range s.slots {
		if h != 0 {
			visit(h)
		}
	}
}

package bitmap

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/predicate"
)

// BuildOptions say what is built.
type BuildOptions struct {
	// Columns are the kinds of the keys: one for a plain index, several for a composite one.
	Columns []predicate.KeyKind
	// Memory is what the builder may hold, in bytes; 0 means 256 MiB. A batch of a thousand rows is taken in any case.
	Memory int64
	// Spill makes a temporary file for what does not fit into Memory. Without it that is Exhausted.
	Spill func() (SpillFile, error)
}

const defaultMemory = 256 << 20

// Builder makes an artifact. It is for one goroutine.
type Builder struct {
	columns []predicate.KeyKind
	memory  int64
	spill   func() (SpillFile, error)
	err     error // why it cannot go on

	next     int64 // the least row that may come next
	tooLong  int   // the length of a key that is too long
	postings []posting
	spare    []posting
	nulls    []uint64
	keys     keyList // where keys are not eight bytes: of the numbers in postings
	table    internTable
	runs     []*run

	words  [addRows]uint64
	tuple  []byte
	column []predicate.KeyArray
}

// addRows is how many rows are taken between two looks at the memory.
const addRows = 1024

// NewBuilder makes a builder.
func NewBuilder(o BuildOptions) (*Builder, error) {
	const op = "bitmap.build"
	if len(o.Columns) == 0 || len(o.Columns) > maxKinds {
		return nil, errs.Newf(errs.Invalid, op, "an index of %d columns; it has 1 to %d", len(o.Columns), maxKinds)
	}
	for _, k := range o.Columns {
		if k == predicate.NoKeys || k >= predicate.Tuples {
			return nil, errs.Newf(errs.Invalid, op, "a column whose keys are of the kind %v cannot be indexed", k)
		}
	}
	if o.Memory < 0 {
		return nil, errs.Newf(errs.Invalid, op, "a memory of %d bytes", o.Memory)
	}
	b := &Builder{columns: slices.Clone(o.Columns), memory: o.Memory, spill: o.Spill}
	if b.memory == 0 {
		b.memory = defaultMemory
	}
	return b, nil
}

// wordy tells whether keys are eight bytes and so held as numbers.
func (b *Builder) wordy() bool { return keyKind(b.columns).Width() == 8 }

// Add indexes rows first, first+1, … of one array a column. Rows come in ascending order; some may be left out.
func (b *Builder) Add(ctx context.Context, first int64, columns ...arrow.Array) error {
	const op = "bitmap.add"
	if b.err != nil {
		return b.err
	}
	if len(columns) != len(b.columns) {
		return errs.Newf(errs.Invalid, op, "%d arrays for an index of %d columns", len(columns), len(b.columns))
	}
	n := columns[0].Len()
	b.column = b.column[:0]
	for i, a := range columns {
		k, err := predicate.KeysOf(a)
		if err != nil {
			return err
		}
		if k.Kind() != b.columns[i] {
			return errs.Newf(errs.Invalid, op, "the values of column %d are %v, whose keys are of the kind %v, not %v", i, a.DataType(), k.Kind(), b.columns[i])
		}
		if a.Len() != n {
			return errs.Newf(errs.Invalid, op, "the columns have %d and %d rows", n, a.Len())
		}
		b.column = append(b.column, k)
	}
	if n == 0 {
		return nil
	}
	if first < b.next || first > maxRow-int64(n) {
		return errs.Newf(errs.Invalid, op, "rows from %d on come after row %d", first, b.next-1)
	}
	for from := 0; from < n; from += addRows {
		if err := ctx.Err(); err != nil {
			return b.fail(errs.Wrap(errs.Canceled, op, err))
		}
		b.add(uint64(first), from, min(from+addRows, n))
		if b.tooLong > 0 {
			return b.fail(errs.Newf(errs.Unsupported, op, "a value of %d bytes is too long for an index", b.tooLong))
		}
		if b.held() > b.memory || len(b.postings) > maxPostings {
			if err := b.spillRun(ctx); err != nil {
				return b.fail(err)
			}
		}
	}
	b.next = first + int64(n)
	return nil
}

const (
	maxRow      = 1 << 60 // bounds rows, so that no sum of them overflows
	maxKey      = 1 << 26 // bytes of a key
	maxPostings = 1 << 31 // postings that are sorted at once, which are counted in 32 bits
)

func (b *Builder) fail(err error) error {
	b.err = err
	return err
}

// reserve makes room for so many postings more. It doubles the room, but not beyond what the memory allows to be filled.
func (b *Builder) reserve(n int) {
	if cap(b.postings)-len(b.postings) >= n {
		return
	}
	room := max(min(2*cap(b.postings), int(b.memory/postingBytes)), len(b.postings)+n, 4*addRows)
	grown := make([]posting, len(b.postings), room)
	copy(grown, b.postings)
	b.postings = grown
}

// add takes the rows from ≤ i < to of the arrays.
func (b *Builder) add(first uint64, from, to int) {
	b.reserve(to - from)
	c := &b.column[0]
	switch {
	case len(b.columns) > 1:
		for i := from; i < to; i++ {
			b.tuple = b.tuple[:0]
			for j := range b.column {
				b.tuple = b.appendValue(b.tuple, j, i)
			}
			b.addKey(b.tuple, first+uint64(i))
		}
	case b.wordy():
		words := b.words[:to-from]
		c.Words(words, from)
		nulls := c.MayHaveNulls()
		for i, w := range words {
			row := first + uint64(from+i)
			if nulls && c.IsNull(from+i) {
				b.nulls = append(b.nulls, row)
				continue
			}
			b.postings = append(b.postings, posting{w, row})
		}
	default:
		nulls := c.MayHaveNulls()
		for i := from; i < to; i++ {
			row := first + uint64(i)
			switch {
			case nulls && c.IsNull(i):
				b.nulls = append(b.nulls, row)
			case c.Kind() == predicate.Bytes:
				b.addKey(c.Bytes(i), row)
			default:
				b.tuple = c.Append(b.tuple[:0], i)
				b.addKey(b.tuple, row)
			}
		}
	}
}

func (b *Builder) appendValue(dst []byte, column, i int) []byte {
	c := &b.column[column]
	switch {
	case c.IsNull(i):
		return predicate.AppendTuple(dst, c.Kind(), nil, true)
	case c.Kind() == predicate.Bytes:
		return predicate.AppendTuple(dst, c.Kind(), c.Bytes(i), false)
	}
	var key [16]byte
	return predicate.AppendTuple(dst, c.Kind(), c.Append(key[:0], i), false)
}

func (b *Builder) addKey(key []byte, row uint64) {
	if len(key) > maxKey {
		b.tooLong = len(key)
		return
	}
	b.postings = append(b.postings, posting{b.table.number(&b.keys, key, len(b.postings)), row})
}

// What is held for each posting, and for each key that is not eight bytes, with what sorting will take.
const (
	postingBytes = 2 * 16
	keyBytes     = 8 + 16 + 4
)

// held is what the postings take, with what sorting them will.
func (b *Builder) held() int64 {
	return int64(len(b.postings))*postingBytes + int64(len(b.nulls))*8 + int64(len(b.keys.text)) + int64(len(b.keys.ends))*keyBytes + b.table.memory()
}

// emit sorts the postings, hands them to the sink and forgets them.
func (b *Builder) emit(to sink) error {
	if len(b.nulls) > 0 {
		if err := to.group(true, nil); err != nil {
			return err
		}
		for _, r := range b.nulls {
			if err := to.row(r); err != nil {
				return err
			}
		}
	}
	var err error
	if b.wordy() {
		b.spare = slices.Grow(b.spare[:0], len(b.postings))[:len(b.postings)]
		b.postings, b.spare = sortPostings(b.postings, b.spare)
		var key [8]byte
		err = eachGroup(b.postings, to, func(p posting) []byte {
			binary.BigEndian.PutUint64(key[:], p.key)
			return key[:]
		})
	} else {
		err = b.emitBytes(to)
	}
	if err != nil {
		return err
	}
	if err := to.end(); err != nil {
		return err
	}
	b.postings, b.nulls = b.postings[:0], b.nulls[:0]
	b.keys.reset()
	b.table.reset()
	return nil
}

// emitBytes is emit for keys that are held as numbers.
func (b *Builder) emitBytes(to sink) error {
	n := b.keys.len()
	sorted := make([]posting, n)
	for i := range sorted {
		sorted[i].row = uint64(i)
	}
	b.spare = slices.Grow(b.spare[:0], max(n, len(b.postings)))
	b.spare = b.spare[:cap(b.spare)]
	s := byteSorter{keys: &b.keys, spare: b.spare}
	s.sort(sorted, 0)
	// The place of a key takes the place of its number. Keys can be there more than once, under several numbers.
	place := make([]uint32, n)
	last := 0
	for i, x := range sorted {
		if string(b.keys.at(int(sorted[last].row))) != string(b.keys.at(int(x.row))) {
			last = i
		}
		place[x.row] = uint32(last)
	}
	for i := range b.postings {
		b.postings[i].key = uint64(place[b.postings[i].key])
	}
	b.postings, b.spare = sortPostings(b.postings, b.spare[:len(b.postings)])
	return eachGroup(b.postings, to, func(p posting) []byte { return b.keys.at(int(sorted[p.key].row)) })
}

func eachGroup(p []posting, to sink, key func(posting) []byte) error {
	for i := range p {
		if i == 0 || p[i].key != p[i-1].key {
			if err := to.group(false, key(p[i])); err != nil {
				return err
			}
		}
		if err := to.row(p[i].row); err != nil {
			return err
		}
	}
	return nil
}

// Finish writes the artifact of all rows added, of a column of the given number of rows. The builder is spent.
func (b *Builder) Finish(ctx context.Context, out io.Writer, rows int64) (Stats, error) {
	const op = "bitmap.finish"
	if b.err != nil {
		return Stats{}, b.err
	}
	if rows < b.next || rows > maxRow {
		return Stats{}, b.fail(errs.Newf(errs.Invalid, op, "%d rows, when row %d was added", rows, b.next-1))
	}
	w := newBlockWriter(ctx, out, b.columns)
	var err error
	if len(b.runs) == 0 {
		err = b.emit(w)
	} else if err = b.spillRun(ctx); err == nil {
		b.postings, b.spare, b.nulls, b.keys, b.table = nil, nil, nil, keyList{}, internTable{}
		err = b.merge(ctx, b.runs, w)
	}
	if err != nil {
		return Stats{}, b.fail(err)
	}
	d := &w.dir
	d.rows, d.nulls = rows, d.before[d.nullBlocks]
	tail := d.append(nil)
	if err := w.emit(tail); err != nil {
		return Stats{}, b.fail(err)
	}
	b.err = errs.New(errs.Invalid, op, "the index was written already")
	d.fileSize = d.offsets[d.blocks()] + int64(len(tail))
	return d.stats(), nil
}

// Close releases the builder and removes its temporary files.
func (b *Builder) Close() error {
	var err error
	for _, r := range b.runs {
		err = firstError(err, r.close())
	}
	b.postings, b.spare, b.nulls, b.keys, b.table, b.runs = nil, nil, nil, keyList{}, internTable{}, nil
	if b.err == nil {
		b.err = errs.New(errs.Invalid, "bitmap.build", "the builder is closed")
	}
	return err
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func exhausted(held, memory int64) error {
	return errs.New(errs.Exhausted, "bitmap.add", fmt.Sprintf("the index takes %d bytes to build and may take %d", held, memory),
		errs.Hint("give the build more memory, or a place for temporary files"))
}

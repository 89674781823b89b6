package lake

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go/table/dv"

	"github.com/overlakedb/overlake/internal/budget"
	"github.com/overlakedb/overlake/internal/cache"
	"github.com/overlakedb/overlake/internal/datafile"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/row"
)

// The Iceberg rules of deletes (specification, "Scan Planning"):
//
//	D1  A deletion vector applies to the data file it names, if its sequence number is not lower, and replaces every
//	    position delete of that file.
//	D2  A position delete file applies to data files of its partition (spec and tuple) with a sequence number not higher.
//	D3  An equality delete file applies to data files of its partition, or of every partition when it is unpartitioned,
//	    with a lower sequence number. NULL equals NULL there.
//
// Paths are compared without scheme and authority.

// deleteContent is what a delete file says, read once. One of the two is set.
type deleteContent struct {
	positions map[string]*row.Bitmap // by key of the data file
	keys      keySet
}

// deleteIndex finds the delete files of a snapshot that apply to a data file.
type deleteIndex struct {
	vectors    map[string]*fileEntry // deletion vectors by key of the data file
	positions  map[string][]*fileEntry
	fileScoped map[string][]*fileEntry
	equality   map[string][]*fileEntry // by scope
	everywhere []*fileEntry            // equality deletes of unpartitioned specs
}

func (t *Table) indexDeletes(deletes []*fileEntry) (*deleteIndex, error) {
	x := &deleteIndex{vectors: map[string]*fileEntry{}, positions: map[string][]*fileEntry{}, fileScoped: map[string][]*fileEntry{},
		equality: map[string][]*fileEntry{}}
	for _, d := range deletes {
		switch {
		case d.content == contentEquality && t.unpartitioned(d.specID):
			x.everywhere = append(x.everywhere, d)
		case d.content == contentEquality:
			x.equality[d.scope] = append(x.equality[d.scope], d)
		case d.format == "PUFFIN":
			if d.referenced == "" {
				return nil, errs.New(errs.Corrupt, "lake.deletes", "a deletion vector does not name its data file", errs.On(d.path))
			}
			if x.vectors[d.referenced] != nil {
				return nil, errs.New(errs.Corrupt, "lake.deletes", "two deletion vectors are live for one data file", errs.On(d.referenced),
					errs.Hint("rewrite the position deletes of the table with the engine that wrote it"))
			}
			x.vectors[d.referenced] = d
		case d.referenced != "":
			x.fileScoped[d.referenced] = append(x.fileScoped[d.referenced], d)
		default:
			x.positions[d.scope] = append(x.positions[d.scope], d)
		}
	}
	return x, nil
}

// growDeletes reserves what the decoded content of delete files takes.
func growDeletes(held *budget.Reservation, size int64) error {
	err := growTo(held, size)
	if err == nil {
		return nil
	}
	return errs.Wrap(errs.Exhausted, "lake.deletes", fmt.Errorf("the deletes do not fit into memory: %w", err), errs.Hint("%s", errs.HintOf(err)))
}

func (t *Table) resolveDeletes(ctx context.Context, p *Plan, deletes []*fileEntry) error {
	x, err := t.indexDeletes(deletes)
	if err != nil {
		return err
	}
	unions := &joinedKeys{sets: map[string]keySet{}}
	if unions.held, err = t.shared.decoding(ctx, 0, false); err != nil {
		return err
	}
	defer unions.held.Release()
	for i := range p.Files {
		f := &p.Files[i]
		if err := t.resolveFile(ctx, f, x, unions); err != nil {
			return err
		}
		p.Deleted += f.Deletes.Len()
	}
	return nil
}

// resolveFile finds the deleted rows of one data file. Positions behind its last row are left out: a writer that names
// them deletes nothing.
func (t *Table) resolveFile(ctx context.Context, f *DataFile, x *deleteIndex, unions *joinedKeys) error {
	e := f.entry
	var gone *row.Bitmap
	add := func(b *row.Bitmap) {
		if b.Len() == 0 {
			return
		}
		if gone == nil {
			gone = row.NewBitmap()
		}
		if b.Max() < f.Rows {
			gone.Or(b)
			return
		}
		for pos := range b.All() {
			if pos >= f.Rows {
				break
			}
			gone.Add(pos)
		}
	}
	if v := x.vectors[e.key]; v != nil && v.sequence >= e.sequence {
		if v.rows > f.Rows {
			return errs.With(errs.Newf(errs.Corrupt, "lake.deletes", "a deletion vector of %d rows belongs to a file of %d", v.rows, f.Rows), errs.On(v.path))
		}
		b, err := t.vector(ctx, v, unions.size > 0)
		if err != nil {
			return err
		}
		add(b)
	} else {
		for _, list := range [2][]*fileEntry{x.fileScoped[e.key], x.positions[e.scope]} {
			for _, d := range list {
				if d.sequence < e.sequence {
					continue
				}
				c, err := t.deleteFile(ctx, d, unions.size > 0)
				if err != nil {
					return err
				}
				add(c.positions[e.key])
			}
		}
	}
	var equality []*fileEntry
	for _, list := range [2][]*fileEntry{x.everywhere, x.equality[e.scope]} {
		for _, d := range list {
			if d.sequence > e.sequence {
				equality = append(equality, d)
			}
		}
	}
	if len(equality) > 0 {
		b, err := t.matching(ctx, f, equality, unions)
		if err != nil {
			return err
		}
		add(b)
	}
	if gone.Len() > 0 {
		f.Deletes = gone
	}
	return nil
}

func (t *Table) unpartitioned(specID int) bool {
	s := t.meta.PartitionSpecByID(specID)
	return s != nil && s.IsUnpartitioned()
}

// vector reads a deletion vector: one blob of a Puffin file, at the place its manifest entry tells. Its length, magic
// number, checksum and number of rows are checked.
func (t *Table) vector(ctx context.Context, d *fileEntry, holds bool) (*row.Bitmap, error) {
	if d.encrypted {
		return nil, refuseEncrypted(d.path)
	}
	key := fmt.Sprintf("%s %d %d %s", d.path, d.contentOffset, d.contentSize, d.referenced)
	return cache.Or(t.shared.deletes, key, func() (*row.Bitmap, int64, error) {
		held, err := t.shared.decoding(ctx, 3*d.contentSize, holds) // the blob and the bitmap twice, about
		if err != nil {
			return nil, 0, err
		}
		defer held.Release()
		blob, err := t.readVector(ctx, d)
		if err != nil {
			return nil, 0, err
		}
		b, err := decodeVector(blob, d.rows)
		if err != nil {
			return nil, 0, errs.Wrap(errs.Corrupt, "lake.deletes", err, errs.On(d.path))
		}
		return b, int64(len(blob)) + 256, nil
	})
}

func (t *Table) readVector(ctx context.Context, d *fileEntry) ([]byte, error) {
	name, err := t.io.name(d.path)
	if err != nil {
		return nil, err
	}
	o, err := t.io.store.Open(ctx, name)
	if err != nil {
		return nil, missing(err, d.path)
	}
	defer o.Close()
	// The blob lies between the Puffin file's magic numbers; every footer has at least 28 bytes.
	if d.contentOffset < 4 || d.contentSize < 12 || d.contentSize > maxMetadata || d.contentOffset > o.Size()-d.contentSize-28 {
		return nil, errs.With(errs.Newf(errs.Corrupt, "lake.deletes", "a deletion vector of %d bytes at %d does not fit into a Puffin file of %d",
			d.contentSize, d.contentOffset, o.Size()), errs.On(d.path))
	}
	var head, tail [4]byte
	blob := make([]byte, d.contentSize)
	for _, part := range []struct {
		p  []byte
		at int64
	}{{head[:], 0}, {blob, d.contentOffset}, {tail[:], o.Size() - 4}} {
		if _, err := o.ReadAt(part.p, part.at); err != nil && err != io.EOF {
			return nil, errs.Wrap(errs.Unavailable, "lake.deletes", err, errs.On(d.path))
		}
	}
	if string(head[:]) != "PFA1" || string(tail[:]) != "PFA1" {
		return nil, errs.New(errs.Corrupt, "lake.deletes", "a deletion vector lies in a file that is no Puffin file", errs.On(d.path))
	}
	return blob, nil
}

// decodeVector decodes the blob deletion-vector-v1 (Puffin specification), which must hold as many positions as told.
func decodeVector(blob []byte, rows int64) (b *row.Bitmap, err error) {
	defer func() {
		if p := recover(); p != nil {
			b, err = nil, fmt.Errorf("a broken deletion vector: %v", p)
		}
	}()
	bits, err := dv.DeserializeDV(blob, rows)
	if err != nil {
		return nil, err
	}
	b = row.NewBitmap()
	lo, next := int64(-1), int64(-1)
	for p := range bits.Positions() { // runs are added whole: a vector may stand for billions of rows
		if int64(p) != next {
			if next > lo {
				b.AddRange(lo, next)
			}
			lo = int64(p)
		}
		next = int64(p) + 1
	}
	if next > lo {
		b.AddRange(lo, next)
	}
	return b, nil
}

// missing says that a file which the table names is not there.
func missing(err error, location string) error {
	return errs.Wrap(errs.KindOf(err), "lake.open", fmt.Errorf("a file that the table names cannot be opened: %w", err), errs.On(location))
}

// deleteFile reads a position or equality delete file. holds tells that the caller has memory reserved.
func (t *Table) deleteFile(ctx context.Context, d *fileEntry, holds bool) (*deleteContent, error) {
	if d.encrypted {
		return nil, refuseEncrypted(d.path)
	}
	if d.format != "PARQUET" {
		return nil, refuseFormat("delete", d)
	}
	return cache.Or(t.shared.deletes, d.path, func() (*deleteContent, int64, error) {
		f, done, err := t.openData(ctx, d.path)
		if err != nil {
			return nil, 0, err
		}
		defer done()
		held, err := t.shared.decoding(ctx, d.size, holds)
		if err != nil {
			return nil, 0, err
		}
		defer held.Release()
		c := &deleteContent{}
		var size int64
		if d.content == contentEquality {
			c.keys, size, err = t.readEquality(ctx, d, f, held)
		} else {
			c.positions, size, err = readPositions(ctx, f, held)
		}
		if err != nil {
			return nil, 0, errs.With(err, errs.On(d.path))
		}
		return c, size, nil
	})
}

// openData opens a Parquet file of the table.
func (t *Table) openData(ctx context.Context, location string) (*datafile.File, func(), error) {
	name, err := t.io.name(location)
	if err != nil {
		return nil, nil, err
	}
	o, err := t.io.store.Open(ctx, name)
	if err != nil {
		return nil, nil, missing(err, location)
	}
	f, err := datafile.Open(o, o.Size())
	if err != nil {
		o.Close()
		return nil, nil, errs.With(err, errs.On(location))
	}
	return f, func() { o.Close() }, nil
}

// Reserved field ids of position delete files.
const (
	filePathID = 2147483546
	posFieldID = 2147483545
)

func readPositions(ctx context.Context, f *datafile.File, held *budget.Reservation) (map[string]*row.Bitmap, int64, error) {
	pathName, posName := "file_path", "pos"
	for _, c := range f.Schema().Fields() {
		switch datafile.FieldID(c) {
		case filePathID:
			pathName = c.Name
		case posFieldID:
			posName = c.Name
		}
	}
	r, err := f.Read(ctx, []string{pathName, posName}, 0)
	if err != nil {
		return nil, 0, err
	}
	defer r.Release()
	into := map[string]*row.Bitmap{}
	var n, size int64
	var last string
	var bits *row.Bitmap
	for r.Next() {
		rec := r.RecordBatch()
		at, ok := rec.Column(rec.Schema().FieldIndices(posName)[0]).(*array.Int64)
		paths := rec.Column(rec.Schema().FieldIndices(pathName)[0])
		var path func(int) string
		switch a := paths.(type) {
		case *array.String:
			path = a.Value
		case *array.Binary: // text without the annotation, as Hive and Impala may write it
			path = a.ValueString
		}
		if !ok || path == nil {
			return nil, 0, errs.New(errs.Corrupt, "lake.deletes", "a position delete file must hold file_path as text and pos as a 64-bit integer")
		}
		for i := range int(rec.NumRows()) {
			if paths.IsNull(i) || at.IsNull(i) || at.Value(i) < 0 {
				return nil, 0, errs.New(errs.Corrupt, "lake.deletes", "a position delete file holds a NULL or negative position")
			}
			if p := path(i); bits == nil || p != last {
				last = strings.Clone(p)
				key := pathKey(last)
				if bits = into[key]; bits == nil {
					bits = row.NewBitmap()
					into[key] = bits
					size += int64(len(key)) + 256
				}
			}
			bits.Add(at.Value(i))
			n++
		}
		if err := growDeletes(held, size+2*n); err != nil {
			return nil, 0, err
		}
	}
	return into, size + 2*n, r.Err()
}

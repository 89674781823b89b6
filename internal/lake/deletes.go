package lake

import (
	"context"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table/dv"

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
	equality  *keySet
}

// maxCachedPositions bounds the cached deletes of a catalog, in positions and keys.
const maxCachedPositions = 50_000_000

func (t *Table) resolveDeletes(ctx context.Context, p *Plan, deletes []*fileEntry) error {
	vectors := map[string]*fileEntry{}
	positions := map[string][]*fileEntry{} // by scope
	fileScoped := map[string][]*fileEntry{}
	var equality []*fileEntry
	for _, d := range deletes {
		switch {
		case d.content == contentEquality:
			equality = append(equality, d)
		case d.format == "PUFFIN":
			if old := vectors[d.referenced]; old != nil {
				return errs.New(errs.Corrupt, "lake.deletes", "two deletion vectors are live for one data file", errs.On(d.referenced))
			}
			vectors[d.referenced] = d
		case d.referenced != "":
			fileScoped[d.referenced] = append(fileScoped[d.referenced], d)
		default:
			positions[d.scope] = append(positions[d.scope], d)
		}
	}
	for i := range p.Files {
		f := &p.Files[i]
		e := f.entry
		var gone *row.Bitmap
		add := func(b *row.Bitmap) {
			if b.Len() == 0 {
				return
			}
			if gone == nil {
				gone = row.NewBitmap()
			}
			gone.Or(b)
		}
		if v := vectors[e.key]; v != nil && v.sequence >= e.sequence {
			b, err := t.vector(ctx, v)
			if err != nil {
				return err
			}
			add(b)
		} else {
			for _, list := range [][]*fileEntry{fileScoped[e.key], positions[e.scope]} {
				for _, d := range list {
					if d.sequence < e.sequence {
						continue
					}
					c, err := t.deleteFile(ctx, d)
					if err != nil {
						return err
					}
					add(c.positions[e.key])
				}
			}
		}
		for _, d := range equality {
			if d.sequence <= e.sequence || d.scope != e.scope && !t.unpartitioned(d.specID) {
				continue
			}
			c, err := t.deleteFile(ctx, d)
			if err != nil {
				return err
			}
			b, err := t.matching(ctx, f, d, c.equality)
			if err != nil {
				return err
			}
			add(b)
		}
		if gone.Len() > 0 {
			f.Deletes = gone
			p.Deleted += gone.Len()
		}
	}
	return nil
}

func (t *Table) unpartitioned(specID int) bool {
	s := t.meta.PartitionSpecByID(specID)
	return s != nil && s.IsUnpartitioned()
}

// cached returns the content of a delete file, reading it on first use.
func (t *Table) cached(key string, read func() (*deleteContent, int64, error)) (*deleteContent, error) {
	s := t.shared
	s.mu.Lock()
	c := s.deletes[key]
	s.mu.Unlock()
	if c != nil {
		return c, nil
	}
	c, n, err := read()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.positions+n > maxCachedPositions {
		clear(s.deletes)
		s.positions = 0
	}
	s.deletes[key] = c
	s.positions += n
	return c, nil
}

// vector reads a deletion vector: one blob of a Puffin file, at the offset its manifest entry tells.
func (t *Table) vector(ctx context.Context, d *fileEntry) (*row.Bitmap, error) {
	bad := func(err error) error { return errs.Wrap(errs.Corrupt, "lake.deletes", err, errs.On(d.path)) }
	c, err := t.cached(fmt.Sprintf("%s@%d", d.path, d.contentOffset), func() (c *deleteContent, n int64, err error) {
		if d.contentOffset < 4 || d.contentSize < 12 || d.contentSize > maxMetadata {
			return nil, 0, bad(fmt.Errorf("a deletion vector at offset %d of %d bytes", d.contentOffset, d.contentSize))
		}
		name, err := t.io.name(d.path)
		if err != nil {
			return nil, 0, err
		}
		o, err := t.io.store.Open(ctx, name)
		if err != nil {
			return nil, 0, err
		}
		defer o.Close()
		if d.contentOffset+d.contentSize > o.Size() {
			return nil, 0, bad(fmt.Errorf("the deletion vector lies beyond the end of the file"))
		}
		blob := make([]byte, d.contentSize)
		if _, err := o.ReadAt(blob, d.contentOffset); err != nil {
			return nil, 0, errs.Wrap(errs.Unavailable, "lake.deletes", err, errs.On(d.path))
		}
		defer func() {
			if p := recover(); p != nil {
				err = bad(fmt.Errorf("%v", p))
			}
		}()
		bits, err := dv.DeserializeDV(blob, d.rows)
		if err != nil {
			return nil, 0, bad(err)
		}
		b := row.NewBitmap()
		for pos := range bits.Positions() {
			b.Add(int64(pos))
		}
		return &deleteContent{positions: map[string]*row.Bitmap{d.referenced: b}}, b.Len(), nil
	})
	if err != nil {
		return nil, err
	}
	return c.positions[d.referenced], nil
}

// deleteFile reads a position or equality delete file.
func (t *Table) deleteFile(ctx context.Context, d *fileEntry) (*deleteContent, error) {
	if d.encrypted {
		return nil, refuseEncrypted(d.path)
	}
	if d.format != "PARQUET" {
		return nil, errs.New(errs.Unsupported, "lake.deletes", "delete files of format "+d.format+" cannot be read", errs.On(d.path))
	}
	return t.cached(d.path, func() (*deleteContent, int64, error) {
		f, done, err := t.openData(ctx, d.path)
		if err != nil {
			return nil, 0, err
		}
		defer done()
		if d.content == contentEquality {
			k, err := t.readEquality(ctx, d, f)
			if err != nil {
				return nil, 0, errs.With(err, errs.On(d.path))
			}
			return &deleteContent{equality: k}, int64(len(k.keys)), nil
		}
		c := &deleteContent{positions: map[string]*row.Bitmap{}}
		n, err := readPositions(ctx, f, c.positions)
		if err != nil {
			return nil, 0, errs.With(err, errs.On(d.path))
		}
		return c, n, nil
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
		return nil, nil, errs.Wrap(errs.KindOf(err), "lake.open", fmt.Errorf("a file that the table names cannot be opened: %w", err), errs.On(location))
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

func readPositions(ctx context.Context, f *datafile.File, into map[string]*row.Bitmap) (int64, error) {
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
		return 0, err
	}
	defer r.Release()
	var n int64
	var last string
	var bits *row.Bitmap
	for r.Next() {
		rec := r.RecordBatch()
		paths, ok1 := rec.Column(rec.Schema().FieldIndices(pathName)[0]).(*array.String)
		pos, ok2 := rec.Column(rec.Schema().FieldIndices(posName)[0]).(*array.Int64)
		if !ok1 || !ok2 {
			return 0, errs.New(errs.Corrupt, "lake.deletes", "a position delete file must hold file_path as text and pos as a 64-bit integer")
		}
		for i := range int(rec.NumRows()) {
			if paths.IsNull(i) || pos.IsNull(i) || pos.Value(i) < 0 {
				return 0, errs.New(errs.Corrupt, "lake.deletes", "a position delete file holds a NULL or negative position")
			}
			if p := paths.Value(i); bits == nil || p != last {
				last = strings.Clone(p)
				key := pathKey(last)
				if bits = into[key]; bits == nil {
					bits = row.NewBitmap()
					into[key] = bits
				}
			}
			bits.Add(pos.Value(i))
			n++
		}
	}
	return n, r.Err()
}

// keySet is the rows of an equality delete file as comparable texts.
type keySet struct {
	ids  []int
	keys map[string]struct{}
}

func (t *Table) readEquality(ctx context.Context, d *fileEntry, f *datafile.File) (*keySet, error) {
	k := &keySet{ids: d.equality, keys: map[string]struct{}{}}
	if len(k.ids) == 0 {
		return nil, errs.New(errs.Corrupt, "lake.deletes", "an equality delete file names no columns")
	}
	err := t.eachKey(ctx, f, nil, k.ids, func(_ int64, key string) { k.keys[key] = struct{}{} })
	return k, err
}

// matching gives the positions of a data file whose key is in a set; cached, since both files are immutable.
func (t *Table) matching(ctx context.Context, f *DataFile, d *fileEntry, k *keySet) (*row.Bitmap, error) {
	c, err := t.cached(d.path+"\x00"+f.Path, func() (*deleteContent, int64, error) {
		df, done, err := t.openData(ctx, f.Path)
		if err != nil {
			return nil, 0, err
		}
		defer done()
		b := row.NewBitmap()
		err = t.eachKey(ctx, df, f, k.ids, func(pos int64, key string) {
			if _, gone := k.keys[key]; gone {
				b.Add(pos)
			}
		})
		return &deleteContent{positions: map[string]*row.Bitmap{f.entry.key: b}}, b.Len(), err
	})
	if err != nil {
		return nil, err
	}
	return c.positions[f.entry.key], nil
}

// eachKey reads columns by field id and gives every row's values as one text: equal texts for equal values, whatever
// width the file stores them in.
func (t *Table) eachKey(ctx context.Context, f *datafile.File, data *DataFile, ids []int, yield func(pos int64, key string)) error {
	want := make([]iceberg.NestedField, 0, len(ids))
	for _, id := range ids {
		field, ok := t.findField(id)
		if !ok {
			return errs.Newf(errs.Corrupt, "lake.deletes", "equality deletes use the unknown field id %d", id)
		}
		switch field.Type.(type) {
		case iceberg.Float32Type, iceberg.Float64Type:
			return errs.New(errs.Unsupported, "lake.deletes", "equality deletes over a floating-point column", errs.On(field.Name))
		}
		want = append(want, field)
	}
	r, err := t.project(ctx, f, data, iceberg.NewSchema(0, want...), 0)
	if err != nil {
		return err
	}
	defer r.Release()
	var pos int64
	var b []byte
	for r.Next() {
		rec := r.RecordBatch()
		for i := range int(rec.NumRows()) {
			b = b[:0]
			for _, c := range rec.Columns() {
				if c.IsNull(i) {
					b = append(b, 0)
					continue
				}
				s := c.ValueStr(i)
				b = append(b, 1)
				b = fmt.Appendf(b, "%d:", len(s))
				b = append(b, s...)
			}
			yield(pos, string(b))
			pos++
		}
	}
	return r.Err()
}

// findField looks for a field in the current schema, then in older ones: deletes may be by columns dropped since.
func (t *Table) findField(id int) (iceberg.NestedField, bool) {
	if f, ok := t.meta.CurrentSchema().FindFieldByID(id); ok {
		return f, true
	}
	for _, s := range t.meta.Schemas() {
		if f, ok := s.FindFieldByID(id); ok {
			return f, true
		}
	}
	return iceberg.NestedField{}, false
}

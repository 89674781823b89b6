package lake

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go"

	"github.com/overlakedb/overlake/internal/budget"
	"github.com/overlakedb/overlake/internal/cache"
	"github.com/overlakedb/overlake/internal/datafile"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/row"
)

// Equality deletes name rows by the values of some columns. They are turned into positions: the key columns of a data
// file are read through the table's schema, so renames, promotions, defaults and partition constants count, and every
// row whose key some applicable delete file holds is gone. Both sides are immutable, so the positions are cached.

// keySet is a set of keys; each is the values of the key columns as one text.
type keySet map[string]struct{}

// keyMemory is about what a key takes in a set.
func keyMemory[K ~string | ~[]byte](key K) int64 { return int64(len(key)) + 48 }

// joinedKeys keeps, for one plan, the joined sets of several delete files with the same columns, and the memory they take.
type joinedKeys struct {
	sets map[string]keySet
	size int64
	held *budget.Reservation
}

func (t *Table) readEquality(ctx context.Context, d *fileEntry, f *datafile.File, held *budget.Reservation) (keySet, int64, error) {
	keys := keySet{}
	size := int64(0)
	err := t.eachKey(ctx, f, nil, d.equality, func(_ int64, key []byte) error {
		if _, ok := keys[string(key)]; !ok {
			keys[string(key)] = struct{}{}
			size += keyMemory(key)
		}
		return growDeletes(held, size)
	})
	return keys, size, err
}

// matching gives the positions of a data file whose rows the delete files name.
func (t *Table) matching(ctx context.Context, f *DataFile, deletes []*fileEntry, unions *joinedKeys) (*row.Bitmap, error) {
	groups := map[string][]*fileEntry{}
	var order []string
	for _, d := range deletes {
		g := fmt.Sprint(d.equality)
		if groups[g] == nil {
			order = append(order, g)
		}
		groups[g] = append(groups[g], d)
	}
	all := row.NewBitmap()
	for _, g := range order {
		list := groups[g]
		var id strings.Builder
		for _, d := range list {
			id.WriteString(d.path)
			id.WriteByte(0)
		}
		b, err := cache.Or(t.shared.deletes, id.String()+f.Path, func() (*row.Bitmap, int64, error) {
			keys, err := t.union(ctx, id.String(), list, unions)
			if err != nil {
				return nil, 0, err
			}
			df, done, err := t.openData(ctx, f.Path)
			if err != nil {
				return nil, 0, err
			}
			defer done()
			b := row.NewBitmap()
			err = t.eachKey(ctx, df, f, list[0].equality, func(pos int64, key []byte) error {
				if _, gone := keys[string(key)]; gone {
					b.Add(pos)
				}
				return nil
			})
			return b, 2*b.Len() + 64, errs.With(err, errs.On(f.Path))
		})
		if err != nil {
			return nil, err
		}
		all.Or(b)
	}
	return all, nil
}

func (t *Table) union(ctx context.Context, id string, list []*fileEntry, unions *joinedKeys) (keySet, error) {
	if u, ok := unions.sets[id]; ok {
		return u, nil
	}
	contents := make([]*deleteContent, len(list))
	for i, d := range list {
		var err error
		if contents[i], err = t.deleteFile(ctx, d, unions.size > 0); err != nil {
			return nil, err
		}
	}
	u := keySet{}
	for i, c := range contents {
		if len(list) == 1 {
			u = c.keys
			break
		}
		if i == 0 {
			u = make(keySet, len(c.keys))
		}
		for k := range c.keys {
			if _, ok := u[k]; !ok {
				u[k] = struct{}{}
				unions.size += keyMemory(k)
			}
		}
		if err := growDeletes(unions.held, unions.size); err != nil {
			return nil, errs.With(err, errs.On(list[i].path))
		}
	}
	unions.sets[id] = u
	return u, nil
}

// eachKey reads columns by field id and gives every row's key, which is valid until yield returns.
func (t *Table) eachKey(ctx context.Context, f *datafile.File, data *DataFile, ids []int, yield func(pos int64, key []byte) error) error {
	want := make([]iceberg.NestedField, 0, len(ids))
	for _, id := range ids {
		field, err := t.keyField(id)
		if err != nil {
			return err
		}
		field.Required = false // a column dropped since may be absent
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
		encoders := make([]func([]byte, int) []byte, rec.NumCols())
		for i, c := range rec.Columns() {
			encoders[i] = keyEncoder(c)
		}
		for i := range int(rec.NumRows()) {
			b = b[:0]
			for k, c := range rec.Columns() {
				if c.IsNull(i) { // NULL equals NULL here
					b = append(b, 0)
					continue
				}
				b = encoders[k](append(b, 1), i)
			}
			if err := yield(pos, b); err != nil {
				return err
			}
			pos++
		}
	}
	return r.Err()
}

// keyEncoder appends a value so that equal values, and only they, give equal bytes.
func keyEncoder(a arrow.Array) func(b []byte, i int) []byte {
	text := func(b []byte, s string) []byte {
		b = binary.AppendUvarint(b, uint64(len(s)))
		return append(b, s...)
	}
	switch a := a.(type) {
	case *array.Int32:
		return func(b []byte, i int) []byte { return binary.LittleEndian.AppendUint32(b, uint32(a.Value(i))) }
	case *array.Int64:
		return func(b []byte, i int) []byte { return binary.LittleEndian.AppendUint64(b, uint64(a.Value(i))) }
	case *array.Date32:
		return func(b []byte, i int) []byte { return binary.LittleEndian.AppendUint32(b, uint32(a.Value(i))) }
	case *array.Timestamp:
		return func(b []byte, i int) []byte { return binary.LittleEndian.AppendUint64(b, uint64(a.Value(i))) }
	case *array.Time64:
		return func(b []byte, i int) []byte { return binary.LittleEndian.AppendUint64(b, uint64(a.Value(i))) }
	case *array.Float32:
		return func(b []byte, i int) []byte { return appendFloat(b, float64(a.Value(i))) }
	case *array.Float64:
		return func(b []byte, i int) []byte { return appendFloat(b, a.Value(i)) }
	case *array.String:
		return func(b []byte, i int) []byte { return text(b, a.Value(i)) }
	case *array.Binary:
		return func(b []byte, i int) []byte { return text(b, a.ValueString(i)) }
	}
	return func(b []byte, i int) []byte { return text(b, a.ValueStr(i)) }
}

// appendFloat makes one key of all NaNs; the two zeros stay two, as in Java's order, which the specification's reference
// implementation compares by.
func appendFloat(b []byte, f float64) []byte {
	if math.IsNaN(f) {
		f = math.NaN()
	}
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
}

// keyField looks for a top-level column in the current schema, then in older ones, newest first: deletes may be by
// columns dropped since.
func (t *Table) keyField(id int) (iceberg.NestedField, error) {
	schemas := t.meta.Schemas()
	slices.SortFunc(schemas, func(a, b *iceberg.Schema) int { return b.ID - a.ID })
	nested := false
	for _, s := range append([]*iceberg.Schema{t.meta.CurrentSchema()}, schemas...) {
		for _, f := range s.Fields() {
			if f.ID != id {
				continue
			}
			if kindOf(f.Type) == noDatum {
				return f, errs.New(errs.Unsupported, "lake.deletes", fmt.Sprintf("equality deletes by a column of type %s", f.Type), errs.On(f.Name))
			}
			return f, nil
		}
		if _, ok := s.FindFieldByID(id); ok {
			nested = true
		}
	}
	if nested {
		return iceberg.NestedField{}, errs.Newf(errs.Unsupported, "lake.deletes", "equality deletes by the nested field %d", id)
	}
	return iceberg.NestedField{}, errs.Newf(errs.Corrupt, "lake.deletes", "equality deletes use the unknown field id %d", id)
}

package lake

import (
	"context"
	"encoding/binary"
	"math"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/google/uuid"

	"github.com/overlakedb/overlake/internal/errs"
)

// partitioner divides batches by the partition spec of a table. It numbers the values of every partition field as they
// come, so that a partition is a short key of numbers, and remembers which source value gave which number: most rows cost
// one lookup a field.
type partitioner struct {
	fields []*partitionField
}

type partitionField struct {
	iceberg.PartitionField
	column   int // in the batches
	source   iceberg.Type
	bySource map[any]uint32
	byValue  map[any]uint32
	values   []any // by number; nil stands for NULL
}

// maxRemembered bounds the source values a field remembers.
const maxRemembered = 1 << 16

func newPartitioner(spec *iceberg.PartitionSpec, sc *iceberg.Schema, columns *arrow.Schema) (*partitioner, error) {
	p := &partitioner{}
	for _, pf := range spec.Fields() {
		src, ok := sc.FindFieldByID(pf.SourceID())
		if !ok {
			return nil, errs.Newf(errs.Unsupported, "lake.write", "the table is partitioned by the dropped column with id %d", pf.SourceID())
		}
		if len(pf.SourceIDs) > 1 {
			return nil, errs.New(errs.Unsupported, "lake.write", "partition transforms of several columns", errs.On(pf.Name))
		}
		if _, unknown := pf.Transform.(iceberg.UnknownTransform); unknown {
			return nil, errs.New(errs.Unsupported, "lake.write", "the partition transform "+pf.Transform.String(), errs.On(pf.Name))
		}
		name, _ := sc.FindColumnName(pf.SourceID())
		at := columns.FieldIndices(src.Name)
		if name != src.Name || len(at) != 1 {
			return nil, errs.New(errs.Unsupported, "lake.write", "partitioning by a nested column", errs.On(name))
		}
		p.fields = append(p.fields, &partitionField{PartitionField: pf, column: at[0], source: src.Type, bySource: map[any]uint32{}, byValue: map[any]uint32{}})
	}
	return p, nil
}

// split calls put with the rows of every partition of a batch, in the order in which the partitions appear.
func (p *partitioner) split(ctx context.Context, rec arrow.RecordBatch, put func(key string, values map[int]any, part arrow.RecordBatch) error) error {
	cols := make([]func(i int) iceberg.Literal, len(p.fields))
	for k, f := range p.fields {
		get, err := literals(rec.Column(f.column), f.source)
		if err != nil {
			return errs.With(err, errs.On(rec.ColumnName(f.column)))
		}
		cols[k] = get
	}
	groups := map[string]*array.Int64Builder{}
	defer func() {
		for _, g := range groups {
			g.Release()
		}
	}()
	var order []string
	key := make([]byte, 4*len(p.fields))
	for i := range int(rec.NumRows()) {
		for k, f := range p.fields {
			binary.BigEndian.PutUint32(key[4*k:], f.number(cols[k](i)))
		}
		g := groups[string(key)]
		if g == nil {
			g = array.NewInt64Builder(memory.DefaultAllocator)
			groups[string(key)] = g
			order = append(order, string(key))
		}
		g.Append(int64(i))
	}
	for _, key := range order {
		part := rec
		if len(order) == 1 {
			part.Retain()
		} else {
			indices := groups[key].NewArray()
			d, err := compute.Take(ctx, *compute.DefaultTakeOptions(), compute.NewDatumWithoutOwning(rec), compute.NewDatumWithoutOwning(indices))
			indices.Release()
			if err != nil {
				return errs.Wrap(errs.Internal, "lake.write", err)
			}
			part = d.(*compute.RecordDatum).Value
		}
		err := put(key, p.tuple(key), part)
		part.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// tuple gives the partition values of a key by partition field id.
func (p *partitioner) tuple(key string) map[int]any {
	out := make(map[int]any, len(p.fields))
	for k, f := range p.fields {
		out[f.FieldID] = f.values[binary.BigEndian.Uint32([]byte(key[4*k:]))]
	}
	return out
}

// number is the number of the partition value of a source value.
func (f *partitionField) number(source iceberg.Literal) uint32 {
	key := keyOf(source)
	n, ok := f.bySource[key]
	if ok {
		return n
	}
	var value any
	if v := f.Transform.Apply(iceberg.Optional[iceberg.Literal]{Val: source, Valid: source != nil}); v.Valid {
		value = v.Val.Any()
	}
	id := valueKey(value)
	if n, ok = f.byValue[id]; !ok {
		n = uint32(len(f.values))
		f.byValue[id] = n
		f.values = append(f.values, value)
	}
	if len(f.bySource) >= maxRemembered {
		clear(f.bySource)
	}
	f.bySource[key] = n
	return n
}

// keyOf is a literal as a key of a map: bytes as texts, NaN as its bits.
func keyOf(l iceberg.Literal) any {
	if l == nil {
		return nil
	}
	switch l.(type) {
	case iceberg.BinaryLiteral, iceberg.FixedLiteral, iceberg.Float32Literal, iceberg.Float64Literal:
		return valueKey(l.Any())
	}
	return l
}

func valueKey(v any) any {
	switch v := v.(type) {
	case []byte:
		return string(v)
	case float32:
		return math.Float32bits(v)
	case float64:
		return math.Float64bits(v)
	}
	return v
}

// literals reads the values of a column as Iceberg literals; nil stands for NULL.
func literals(a arrow.Array, t iceberg.Type) (func(i int) iceberg.Literal, error) {
	var get func(i int) iceberg.Literal
	switch a := a.(type) {
	case *array.Boolean:
		get = func(i int) iceberg.Literal { return iceberg.NewLiteral(a.Value(i)) }
	case *array.Int32:
		get = func(i int) iceberg.Literal { return iceberg.NewLiteral(a.Value(i)) }
	case *array.Int64:
		get = func(i int) iceberg.Literal { return iceberg.NewLiteral(a.Value(i)) }
	case *array.Float32:
		get = func(i int) iceberg.Literal { return iceberg.NewLiteral(a.Value(i)) }
	case *array.Float64:
		get = func(i int) iceberg.Literal { return iceberg.NewLiteral(a.Value(i)) }
	case *array.String:
		get = func(i int) iceberg.Literal { return iceberg.NewLiteral(strings.Clone(a.Value(i))) }
	case *array.Binary:
		get = func(i int) iceberg.Literal { return iceberg.NewLiteral(append([]byte(nil), a.Value(i)...)) }
	case *array.FixedSizeBinary:
		get = func(i int) iceberg.Literal {
			if _, ok := t.(iceberg.UUIDType); ok {
				return iceberg.NewLiteral(uuid.UUID(a.Value(i)))
			}
			return iceberg.NewLiteral(append([]byte(nil), a.Value(i)...))
		}
	case *array.Date32:
		get = func(i int) iceberg.Literal { return iceberg.NewLiteral(iceberg.Date(a.Value(i))) }
	case *array.Time64:
		get = func(i int) iceberg.Literal { return iceberg.NewLiteral(iceberg.Time(a.Value(i))) }
	case *array.Timestamp:
		nano := a.DataType().(*arrow.TimestampType).Unit == arrow.Nanosecond
		get = func(i int) iceberg.Literal {
			if nano {
				return iceberg.NewLiteral(iceberg.TimestampNano(a.Value(i)))
			}
			return iceberg.NewLiteral(iceberg.Timestamp(a.Value(i)))
		}
	case *array.Decimal128:
		scale := int(a.DataType().(*arrow.Decimal128Type).Scale)
		get = func(i int) iceberg.Literal { return iceberg.NewLiteral(iceberg.Decimal{Val: a.Value(i), Scale: scale}) }
	default:
		return nil, errs.Newf(errs.Unsupported, "lake.write", "partitioning by a column of type %s", a.DataType())
	}
	return func(i int) iceberg.Literal {
		if a.IsNull(i) {
			return nil
		}
		return get(i)
	}, nil
}

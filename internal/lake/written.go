package lake

import (
	"encoding/binary"
	"math"
	"math/big"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/iceberg-go"

	"github.com/overlakedb/overlake/internal/datafile"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/property"
)

// writtenFile is a finished data file that no metadata names yet.
type writtenFile struct {
	location string
	meta     datafile.Meta
	schema   *iceberg.Schema       // at the time of writing
	spec     iceberg.PartitionSpec // at the time of writing
	values   map[int]any           // partition field id → value
}

// entry describes the file for a manifest. iceberg-go's own way from a Parquet footer is not used: it counts no NaNs,
// without which no reader may prune a float column from above, and it guesses a partition value that is NULL from the
// bounds.
func (f *writtenFile) entry(props map[string]string, firstRow *int64) (iceberg.DataFile, error) {
	logical := map[int]string{}
	for _, p := range f.spec.Fields() {
		if src, ok := f.schema.FindFieldByID(p.SourceID()); ok {
			if l := avroLogical(p.Transform.ResultType(src.Type)); l != "" {
				logical[p.FieldID] = l
			}
		}
	}
	b, err := iceberg.NewDataFileBuilder(f.spec, iceberg.EntryContentData, f.location, iceberg.ParquetFile, f.values, logical, nil, f.meta.Rows, f.meta.Size)
	if err != nil {
		return nil, errs.Wrap(errs.Internal, "lake.commit", err, errs.On(f.location))
	}
	sizes, values, nulls, nans := map[int]int64{}, map[int]int64{}, map[int]int64{}, map[int]int64{}
	lower, upper := map[int][]byte{}, map[int][]byte{}
	for id, c := range f.meta.Columns {
		field, ok := f.schema.FindFieldByID(id)
		if !ok {
			continue
		}
		name, _ := f.schema.FindColumnName(id)
		mode := property.Metrics(props, name)
		if mode == "none" {
			continue
		}
		sizes[id], values[id], nulls[id] = c.Bytes, c.Values, c.Nulls
		switch field.Type.(type) {
		case iceberg.Float32Type, iceberg.Float64Type:
			nans[id] = c.NaNs
		}
		if mode == "counts" {
			continue
		}
		if lo, ok := boundBytes(c.Lower); ok {
			if hi, ok := boundBytes(c.Upper); ok {
				lower[id], upper[id] = lo, hi
			}
		}
	}
	b.ColumnSizes(sizes).ValueCounts(values).NullValueCounts(nulls).NaNValueCounts(nans).LowerBoundValues(lower).UpperBoundValues(upper)
	b.SplitOffsets(f.meta.SplitOffsets)
	if firstRow != nil {
		b.FirstRowID(*firstRow)
	}
	return b.Build(), nil
}

// avroLogical is the Avro logical type of a partition value; "" for none.
func avroLogical(t iceberg.Type) string {
	switch t.(type) {
	case iceberg.DateType:
		return "date"
	case iceberg.TimeType:
		return "time-micros"
	case iceberg.TimestampType, iceberg.TimestampTzType:
		return "timestamp-micros"
	case iceberg.TimestampNsType, iceberg.TimestampTzNsType:
		return "timestamp-nanos"
	case iceberg.DecimalType:
		return "decimal"
	case iceberg.UUIDType:
		return "uuid"
	}
	return ""
}

// boundBytes is a bound in the binary form of the Iceberg specification, appendix D; false for none.
func boundBytes(v any) ([]byte, bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return []byte{1}, true
		}
		return []byte{0}, true
	case int32:
		return binary.LittleEndian.AppendUint32(nil, uint32(v)), true
	case int64:
		return binary.LittleEndian.AppendUint64(nil, uint64(v)), true
	case float32:
		return binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)), true
	case float64:
		return binary.LittleEndian.AppendUint64(nil, math.Float64bits(v)), true
	case string:
		return []byte(v), true
	case []byte:
		return v, v != nil
	case decimal128.Num:
		return twosComplement(v.BigInt()), true
	}
	return nil, false
}

// twosComplement is a number as the shortest big-endian two's complement.
func twosComplement(n *big.Int) []byte {
	if n.Sign() >= 0 {
		b := n.Bytes()
		if len(b) == 0 || b[0]&0x80 != 0 {
			b = append([]byte{0}, b...)
		}
		return b
	}
	size := uint(len(n.Bytes()))
	for {
		b := new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), 8*size)).Bytes()
		if uint(len(b)) == size && b[0]&0x80 != 0 {
			return b
		}
		size++
	}
}

package lake

import (
	"github.com/apache/iceberg-go"

	"github.com/overlakedb/overlake/internal/datafile"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake/singlevalue"
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
		if lo, ok := singlevalue.Encode(c.Lower); ok {
			if hi, ok := singlevalue.Encode(c.Upper); ok {
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
